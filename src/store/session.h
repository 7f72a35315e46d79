/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: the clients on one machine that share a local store: which of them are still running,
 * and how to wake one of them without waking the others.
 *
 * Beside its notify file, a local store has a folder for sessions. In it, the file `present` is
 * locked byte by byte: a session that joins locks the byte whose offset its id gives, and the
 * kernel releases that lock when the process ends, however it ends. A process id would not do,
 * because containers that share a store do not share process ids. The other files are bells, at
 * most SESSION_BELLS of them: a session listens to the bell that its id gives (write_notify.h). So
 * the folder never needs cleaning, and may be removed at any time.
 *
 * What a session may conclude:
 *
 *   1. `place` is the random text at the start of `present`. Whoever joins a session records this
 *      text with it. A session can be looked up only in the file that it has joined: if the file
 *      was removed and made anew, living sessions hold locks that cannot be seen in the new one.
 *   2. A session that has joined and whose byte is not locked is gone for good. No session has the
 *      id of another, and none joins twice.
 *   3. A session that seems to be there may be gone: a forked child keeps its parent's lock. So
 *      nobody may rely on being told, and every wait has another end.
 *   4. What has been put in place of these files is left alone. A link is not followed, and a file
 *      that has other contents is not written to: there are no sessions then.
 *
 * If the folder is restored from a backup while sessions wait, they may be taken for gone, and lose
 * their places in line, because the restored file has the place of the one that they have joined.
 *
 * If the store is shared with other machines, or the kernel lacks such locks, no session joins, and
 * nobody is known to be gone. */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "store/store.h"
#include "store/write_notify.h"

#include <limits.h>
#include <stdatomic.h>

/* The length of a place, in hexadecimal digits. */
#define SESSION_PLACE_SIZE 8

/* The number of bells. Sessions that share one wake each other needlessly. */
#define SESSION_BELLS 256

struct store_session {
    struct store *store;    /* of the client */
    struct store *local;    /* the one of its inner stores that has sessions, or NULL */
    const char *id;         /* random hexadecimal digits */
    struct env_mutex mutex; /* held while the session joins */
    bool tried;             /* guarded by the mutex: it has joined, or never will */
    atomic_bool entering;   /* a task is about to set `fd` and `place` */
    atomic_bool found;      /* `fd` and `place` are set, and do not change any more */
    atomic_bool joined;     /* the same for `bell` */
    int fd;                 /* of `present`; -1: none */
    int folder;             /* with `bell`, while joined; otherwise -1 */
    char like[PATH_MAX];    /* from there: a file with the mode and owner for the bell */
    char place[SESSION_PLACE_SIZE + 1];
    struct write_notify bell;
};

/* Touches no file. `id` must stay valid. */
void store_session_init(struct store_session *session, struct store *store, const char *id);
void store_session_release(struct store_session *session);

/* Opens the store's `present` file, if there is one and it is not open yet. A client that never
 * meets a waiter does not need it. */
void store_session_find(struct store_session *session);

/* Joins, unless an earlier call has tried that. Returns the place to record, or an empty view: the
 * session cannot be looked up, and listens to the store's own notify file. */
struct view store_session_join(struct store_session *session);

/* The place of the file that is open, or an empty view. */
struct view store_session_place(const struct store_session *session);

/* Whether the session with this id, which has joined at our own place, is gone. False if that
 * cannot be determined. Must not be asked about the session itself. */
bool store_session_gone(const struct store_session *session, struct view id);

/* Whether the session has joined, and others ring a bell to wake it. */
bool store_session_has_bell(const struct store_session *session);

/* Like store_listens and store_listen, but a session that has joined hears only its own bell. */
bool store_session_listens(const struct store_session *session);
bool store_session_listen(struct store_session *session, uint64_t *ticket,
                          struct mono_time until);

/* Wakes the tasks of this session that listen. */
void store_session_ring_own(struct store_session *session);

/* A set of bells. */
struct session_bells {
    uint64_t bits[SESSION_BELLS / 64];
};

/* Adds the bell of a session that has joined. False if there is none. */
bool session_bells_add(struct session_bells *bells, struct view id);

/* Whether this client can ring bells. If not, the sessions of others must be woken by the store's
 * own notify file, or wake up by themselves. */
bool store_session_can_ring(const struct store_session *session);

/* Rings the bells of the set. Call this after the write that the listeners must see. */
void store_session_ring(const struct store_session *session, const struct session_bells *bells);

#endif
