/* SPDX-License-Identifier: Apache-2.0 */
/* write_notify.h: how processes on one machine that share a local store notify each other of
 * writes. The notify file is empty. A process that has committed a write opens the notify file and
 * closes it again, and the kernel (inotify) notifies every process that watches the file.
 *
 * Opening the file has the fewest side effects: it dirties nothing that a sync of the store would
 * have to wait for, and it needs only read permission. It also always reaches the file that has the
 * name now, even if somebody has removed the notify file and another was created. A ring takes 1.4
 * us. It takes 0.8 us if nobody has ever listened, because the first listener creates the notify
 * file.
 *
 *     writer:    commit, ring
 *
 *     listener:  watch, read, listen, read, listen, ...
 *
 * The first read after the watch sees everything that was committed before the watch. Every later
 * commit notifies the listener. A writer that dies between its commit and the ring notifies nobody.
 *
 * An open store has one inotify instance, created for its first listener, because a user may
 * have only 128 by default. One of the listening tasks polls the instance. The others wait until
 * that task has seen an event, or stops polling and another takes its place. */
#ifndef STORE_WRITE_NOTIFY_H
#define STORE_WRITE_NOTIFY_H

#include "env/env.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

struct write_notify {
    struct env *env;
    pid_t pid;  /* the process that opened it: a forked child is not notified */
    int folder; /* the folder that `name` and `like` are relative to */
    const char *like;
    char name[PATH_MAX];
    bool unsupported;      /* a watch would miss some writers, or is not permitted */
    atomic_bool unwatched; /* at present there is no watch: the last attempt failed */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond turned; /* an event was read, or nobody is polling any more */
        int fd;                 /* the inotify instance; -1: not yet, or it failed */
        int watch;              /* -1: no watch */
        uint64_t heard;         /* number of events read; a listener's ticket is a copy */
        bool polled;            /* a task polls without the mutex; only it reads events */
        size_t waiting;         /* tasks waiting for the one that polls */
    } shared;
};

/* Touches no file. `folder` is a descriptor that stays open, or AT_FDCWD if the names are absolute.
 * `like` names a file and must stay valid: a user who may write that file may listen and ring.
 * Without `writable` there is no notify file. */
void write_notify_init(struct write_notify *notify, struct env *env, int folder,
                       const char *name, const char *like, bool writable);

/* In a forked child other tasks' locks stay locked forever, so the child does not release them. */
void write_notify_release(struct write_notify *notify);

/* Call this after a commit. The caller need not handle a failure. Does not call env. */
void write_notify_ring(const struct write_notify *notify);

/* The same for the notify file with this name, which another process may be watching. */
void write_notify_ring_file(int folder, const char *name);

/* Like store_listens and store_listen. In a forked child they return immediately, and the next call
 * to the store reports the fork. */
bool write_notify_listens(const struct write_notify *notify);
bool write_notify_listen(struct write_notify *notify, uint64_t *ticket, struct mono_time until);

#endif
