/* lock.h: who may change which name of a `dir:` store now, and which changes may not have
 * reached the disk yet. Each lives in a file that all processes share.
 *
 * Locks are byte ranges of "%lock", held by open file description, so that they exclude tasks
 * as well as processes and end with whoever holds them. A path hashes to one of DIR_STRIPES
 * bytes; two paths on one byte wait for each other for no reason, rarely. Whoever can open a file
 * can lock it, and even a shared lock keeps every writer out: so only those who may write to
 * "%lock" may read it, and who may only read the store does without locks.
 *
 * Everybody reads "%marks". A byte of it is 1 while a change under the lock of the same stripe
 * is visible but perhaps not durable. What a reader saw may be told to anybody only once the byte
 * was 0 after it looked: else a power loss could take back what somebody has acted on already.
 *
 *     writer, under the lock:  mark, change a directory, fsync it, clear
 *     reader:                  look, then dir_settle
 *     1 without a lock holder: the writer died; whoever notices syncs everything and clears
 *     who may not lock:        syncs everything itself, and leaves the mark
 *
 * Behind the marks a number counts moves of files (DIR_LOCK_MOVE): odd while one is under way.
 * Behind that are DIR_WRITERS numbers: an open store draws one of them, and a number of its own in
 * the upper half, and writes it with a new lower half after each change. So others can tell that
 * the store was changed, and by whom it was not.
 *
 * Order: DIR_LOCK_KEEP before DIR_LOCK_MOVE before a stripe, never two stripes at once. */
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

/* Held shared while one directory is listed, exclusively while a file moves aside in one: so a
 * listing cannot miss a file that has a name all the time, but not the same one. */
#define DIR_LOCK_MOVE INT64_C(65536)

/* Held shared by a writer whose folder was removed under it again and again, exclusively while
 * empty folders are removed; who cannot have it at once leaves them. */
#define DIR_LOCK_KEEP INT64_C(65537)

/* From here on: one byte for each open store that writes, locked as long as it lives. */
#define DIR_LOCK_ALIVE (INT64_C(1) << 40)

#define DIR_LOCKS_IDLE_MAX 16

struct dir_locks {
    struct env *env;
    int root;
    int fd;        /* of "%lock"; -1: we may not lock */
    int marks;     /* of "%marks"; -1: we may not make it and nobody has, so nobody writes */
    bool writable; /* else we can look only */
    bool sync;     /* else nothing is ever marked */
    size_t writer; /* which of the DIR_WRITERS numbers is ours ... */
    uint64_t id;   /* ... unless its upper half is not this */
    atomic_uint_fast32_t changes;
    atomic_uint_fast64_t replaced; /* the number of another writer in our slot; 0: none */
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        int fds[DIR_LOCKS_IDLE_MAX];
        size_t count;
    } idle;
};

enum hf_status dir_locks_open(struct dir_locks *locks, struct env *env, int root, bool sync,
                              struct hf_error *error);
void dir_locks_close(struct dir_locks *locks);

/* The stripe of a path: a file's as it is encoded, a directory's with "/" behind it. */
int64_t dir_stripe(struct view path);

struct dir_lock {
    int fd;
    int64_t at;
};

enum dir_lock_mode { DIR_LOCK_SHARED, DIR_LOCK_EXCLUSIVE };

/* Waits until the deadline, then UNAVAILABLE. */
enum hf_status dir_lock_take(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                             struct mono_time deadline, struct dir_lock *ret_lock,
                             struct hf_error *error);

/* The same without waiting: false when somebody else has it, or on any error. */
bool dir_lock_try(struct dir_locks *locks, int64_t at, enum dir_lock_mode mode,
                  struct dir_lock *ret_lock);
void dir_lock_drop(struct dir_locks *locks, struct dir_lock *lock);

/* DENIED, with the folder's name. */
enum hf_status dir_not_writable(const struct dir_locks *locks, struct hf_error *error);

/* Takes a stripe for a writer, and makes durable what a dead one left there. */
enum hf_status dir_stripe_take(struct dir_locks *locks, int64_t stripe,
                               struct mono_time deadline, struct dir_lock *ret_lock,
                               struct hf_error *error);

/* With the stripe held exclusively. A mark that cannot be cleared costs time, nothing else. */
enum hf_status dir_stripe_mark(struct dir_locks *locks, int64_t stripe, struct hf_error *error);
void dir_stripe_clear(struct dir_locks *locks, int64_t stripe);

/* Returns when all that was visible under the stripe before the call is durable. */
enum hf_status dir_settle(struct dir_locks *locks, int64_t stripe, struct mono_time deadline,
                          struct hf_error *error);

/* A file moves between these, with DIR_LOCK_MOVE held exclusively. */
enum hf_status dir_move_begin(struct dir_locks *locks, struct hf_error *error);
void dir_move_end(struct dir_locks *locks);

/* For who may not lock: the number of moves so far, once none is under way. A number that is the
 * same later says that nothing has moved meanwhile. */
enum hf_status dir_moves(struct dir_locks *locks, struct mono_time deadline,
                         uint64_t *ret_moves, struct hf_error *error);

/* After a change of ours. A hint for others: it may fail, and be lost. */
void dir_note_change(struct dir_locks *locks);

/* As store_peer_changes. */
bool dir_changes_of_others(const struct dir_locks *locks, uint64_t *ret_mark);

/* The same as dir_settle for everything in the store. */
enum hf_status dir_settle_all(struct dir_locks *locks, struct mono_time deadline,
                              struct hf_error *error);

#endif
