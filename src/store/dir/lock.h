/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h: which writer may currently change which path of a `dir:` store, and which changes may not
 * be on disk yet. Both are kept in files that all processes share.
 *
 * Locks are byte ranges in "%lock". An open file description owns them, so they exclude tasks as
 * well as processes, and end when their owner dies. A path hashes to one of DIR_STRIPES bytes. Two
 * paths that share a byte wait for each other needlessly, which is rare. A process that can open a
 * file can lock it, and even a shared lock keeps every writer out. So only users who may write to
 * "%lock" may read it, and readers without write permission work without locks.
 *
 * Everybody can read "%marks". A byte in it is 1 while a change under the lock of the same stripe
 * is visible but may not be durable. A reader may report what it saw only after it has found the
 * byte 0. Otherwise a power loss could undo a state that somebody has already acted on.
 *
 *     writer, under the lock:   mark, change a directory, fsync it, clear
 *     reader:                   read, then dir_settle
 *     a mark without a lock:    the writer died; the process that notices syncs everything and
 *                               clears the mark
 *     without write permission: sync everything, and leave the mark
 *
 * A number after the marks counts file moves (DIR_LOCK_MOVE); it is odd during a move. After it
 * come DIR_WRITERS numbers. An open store picks one of them at random, gives it a random upper
 * half, and writes it with a new lower half after each change. These numbers show other clients
 * that the store has changed, and let an open store ignore its own changes.
 *
 * Locks are acquired in this order: DIR_LOCK_KEEP, DIR_LOCK_MOVE, a stripe. A writer that holds a
 * stripe waits for no other lock: for a batch, it takes only those stripes that are free. So no two
 * processes can wait for each other. */
#ifndef STORE_DIR_LOCK_H
#define STORE_DIR_LOCK_H

#include "base/error.h"
#include "base/view.h"
#include "env/env.h"

#include <stdatomic.h>

#define DIR_LOCK_FILE  "%lock"
#define DIR_MARKS_FILE "%marks"

#define DIR_STRIPES 65536
#define DIR_WRITERS 256

/* Held shared while a directory is listed, and exclusively while a file is moved aside in it.
 * Otherwise a listing could miss a file that exists all the time, but under two names. */
#define DIR_LOCK_MOVE INT64_C(65536)

/* Held shared by a writer whose directory was repeatedly removed, and exclusively while empty
 * directories are removed. A process that cannot get the exclusive lock immediately leaves the
 * empty directories in place. */
#define DIR_LOCK_KEEP INT64_C(65537)

/* From here on: one byte for each open store that writes, locked while the store is open. */
#define DIR_LOCK_ALIVE (INT64_C(1) << 40)

#define DIR_LOCKS_IDLE_MAX 16

struct dir_locks {
    struct env *env;
    int root;
    int fd;        /* of "%lock"; -1: we have no permission to lock */
    int marks;     /* of "%marks"; -1: missing and we may not create it, so nobody writes */
    bool writable; /* false: read-only */
    bool sync;     /* false: nothing is ever marked */
    size_t writer; /* the index of our number in the DIR_WRITERS ... */
    uint64_t id;   /* ... which is ours only while its upper half is this */
    atomic_uint_fast32_t changes;
    atomic_uint_fast64_t replaced; /* another writer's number in our slot, or 0 */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        int fds[DIR_LOCKS_IDLE_MAX];
        size_t count;
    } idle;
};

enum hf_status dir_locks_open(struct dir_locks *locks, struct env *env, int root, bool sync,
                              struct hf_error *error);
void dir_locks_close(struct dir_locks *locks);

/* The stripe of an encoded path. The path of a directory must end with "/". */
int64_t dir_stripe(struct view path);

struct dir_lock {
    int fd;
    int64_t at;
};

enum dir_lock_mode { DIR_LOCK_SHARED, DIR_LOCK_EXCLUSIVE };

/* Waits until the deadline, then returns UNAVAILABLE. */
enum hf_status dir_lock_take(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                             struct mono_time deadline, struct dir_lock *ret_lock,
                             struct hf_error *error);

/* The same without waiting. False if somebody else holds the lock, or on any error. */
bool dir_lock_try(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                  struct dir_lock *ret_lock);
void dir_lock_drop(struct dir_locks *locks, struct dir_lock *lock);

/* Sets DENIED, with the name of the directory. */
enum hf_status dir_not_writable(const struct dir_locks *locks, struct hf_error *error);

/* Acquires the lock of a stripe for a writer, and makes the changes of a dead writer durable. */
enum hf_status dir_stripe_take(struct dir_locks *locks, int64_t stripe,
                               struct mono_time deadline, struct dir_lock *ret_lock,
                               struct hf_error *error);

/* The same for another stripe beside the one that `lock` holds, without waiting. *ret_busy:
 * somebody else holds the stripe; the status is then OK. If it fails, the stripe may be held all
 * the same. */
enum hf_status dir_stripe_add(struct dir_locks *locks, int64_t stripe, struct dir_lock *lock,
                              bool *ret_busy, struct hf_error *error);

/* Releases all stripes that the lock holds. */
void dir_stripes_drop(struct dir_locks *locks, struct dir_lock *lock);

/* The stripe must be held exclusively. A mark that cannot be cleared costs only time. */
enum hf_status dir_stripe_mark(struct dir_locks *locks, int64_t stripe, struct hf_error *error);
void dir_stripe_clear(struct dir_locks *locks, int64_t stripe);

/* Returns when every change that was visible under the stripe before the call is durable. */
enum hf_status dir_settle(struct dir_locks *locks, int64_t stripe, struct mono_time deadline,
                          struct hf_error *error);

/* Call these before and after moving a file, with DIR_LOCK_MOVE held exclusively. */
enum hf_status dir_move_begin(struct dir_locks *locks, struct hf_error *error);
void dir_move_end(struct dir_locks *locks);

/* For readers without permission to lock: returns the count of moves once no move is in progress.
 * If a later call returns the same count, no file was moved in between. */
enum hf_status dir_moves(struct dir_locks *locks, struct mono_time deadline,
                         uint64_t *ret_moves, struct hf_error *error);

/* Call this after a change. It is only a hint for others: it may fail or be lost. */
void dir_note_change(struct dir_locks *locks);

/* Like store_peer_changes. */
bool dir_changes_of_others(const struct dir_locks *locks, uint64_t *ret_mark);

/* Like dir_settle, but for the whole store. */
enum hf_status dir_settle_all(struct dir_locks *locks, struct mono_time deadline,
                              struct hf_error *error);

#endif
