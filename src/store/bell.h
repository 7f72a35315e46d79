/* bell.h: how the processes of one machine that share a local store tell each other that it was
 * written to: a file without content, the bell. Who has committed a write opens the bell and
 * closes it again, and the kernel tells all who watch it (inotify).
 *
 * Opening is the gentlest ring there is: nothing becomes dirty that a sync of the store would
 * have to wait for, the right to read is enough, and it is always the file of that name which
 * rings, after somebody removed the bell and another was made too. It takes 1.4 us, and 0.8 us
 * as long as nobody has ever listened: the bell is made by the first who does.
 *
 *     writer:    commit, ring
 *     listener:  watch, look, listen, look, listen, ...
 *
 * What was committed before the watch began is seen by the look behind it; what is committed
 * later rings. A writer that dies between its commit and the ring has told nobody.
 *
 * One open store has one inotify instance, which is made for its first listener: a user may have
 * only 128. One of the listening tasks polls it, the others wait until that one has heard
 * something, or leaves and lets another poll. */
#ifndef STORE_BELL_H
#define STORE_BELL_H

#include "env/env.h"

#include <limits.h>
#include <stdatomic.h>

struct bell {
    struct env *env;
    int folder; /* where the names start */
    const char *like;
    char name[PATH_MAX];
    bool hopeless;    /* a watch would not hear everybody, or may not be made */
    atomic_bool deaf; /* for now: there is no watch, and the last attempt to have one failed */
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        struct env_cond turned; /* something was heard, or nobody polls */
        int fd;                 /* of inotify; -1: not yet, or deaf */
        int watch;              /* -1: none */
        uint64_t heard;         /* counts how often; the tickets of listeners */
        bool polled;            /* a task does, without the mutex; it alone reads the events */
        size_t waiting;         /* tasks beside it */
    } shared;
};

/* Touches no file. `folder` is a descriptor that stays open, or AT_FDCWD where the names are
 * absolute. `like` names a file, and stays: who may write to that one may listen and ring. Without
 * `writable` there is no bell. */
void bell_init(struct bell *bell, struct env *env, int folder, const char *name,
               const char *like, bool writable);

/* In a forked child, where other tasks' locks are held for ever, they are left behind. */
void bell_release(struct bell *bell, bool forked);

/* After a commit. Never fails as far as the caller is concerned, and makes no call of env. */
void bell_ring(const struct bell *bell);

/* As store_listens and store_listen. */
bool bell_listens(const struct bell *bell);
bool bell_listen(struct bell *bell, uint64_t *ticket, struct mono_time until);

#endif
