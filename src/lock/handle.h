/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: the struct of a lock handle. */
#ifndef LOCK_HANDLE_H
#define LOCK_HANDLE_H

#include "holdfast/key.h"
#include "lock/client.h"

#define LEASE_ID_MAX (NONCE_SIZE + 1 + 20)

enum lock_state {
    LOCK_IDLE,
    LOCK_WAITING, /* in the queue, with a waiter */
    LOCK_HELD,    /* has a lease, as far as we know */
};

/* The request never changes. `calls` serialises calls that use the store; the keeper's mutex
 * guards the other members. */
struct hf_lock {
    struct hf_client *client;
    uint64_t number; /* among the handles that the client ever had */
    struct table_ref *ref;
    struct scope *scopes;
    size_t scope_count;             /* 0: adopted, and covers all of its table */
    struct hf_lock_options options; /* with our own copies of the strings */
    bool adopted; /* scopes and mode are those of the lease; it cannot be acquired */
    struct span ttl;
    bool *blocked; /* one per scope, as last reported; then the same again for the next reply */
    struct table_hook *hook; /* of every request for a grant; may be NULL */
    struct view
        renewal_note; /* replaces the note of the lease at each renewal; empty: keep it */

    struct env_mutex calls;
    struct queue_waiter waiter; /* guarded by the wait queue's mutex */
    struct served_begin *begun; /* waits at a server (served_begin.h), or NULL */

    enum lock_state state;
    unsigned depth; /* how many times it was acquired */
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
    struct validity validity;
    enum hf_status gone; /* OK, EXPIRED or LOST */
    bool given_back;     /* released in the background when the client was closed */
    bool unconfirmed;    /* HELD, according to its text alone; the keeper does not know it */
    struct table_hook end_hook; /* of the request that ends it, while it is unconfirmed */

    /* Used by the keeper. */
    struct hf_lock *next, *previous;
    struct mono_time renew_at, danger_at;
    struct mono_time half_life; /* when half of the ttl has passed; it then gets an entry */
    struct mono_time index_at;  /* when to check that the hour of its end has an entry */
    bool in_danger;
    bool report_safe, report_gone;
    unsigned pins;
};

/* A handle without scopes. It takes over the use of the table_ref, unless the call fails. */
enum hf_status lock_new_for(struct hf_client *client, struct table_ref *ref,
                            const struct hf_lock_options *options, struct hf_lock **ret_lock,
                            struct hf_error *error);

/* Records a grant or renewal. Called with the keeper's mutex held. */
void lock_renewed_locked(struct hf_lock *lock, const struct validity *validity);

/* Marks the handle as holding the lease that a request was granted or has renewed, and adds it to
 * the keeper. False: the lease has already expired, and the handle is idle. */
bool lock_hold_granted(struct hf_lock *lock, const struct request *request);

/* Leaves it to the cleanup task to end the lease or leave the queue, so that no caller has to wait
 * for this. */
void lock_give_back(struct hf_lock *lock);

/* From now on, each renewal writes this note, a constant: a renewal may still be sending it when
 * the handle is gone. It may be called while the store is in use. */
void lock_set_renewal_note(struct hf_lock *lock, struct view note);

/* Ends the lease, as hf_lock_release, _complete and _fail do. The hook, which may be NULL, runs
 * in the same write. If there is no reply, the lease is ended in the background without the
 * hook. */
enum hf_status lock_end(struct hf_lock *lock, enum table_op_kind kind, const char *note,
                        struct table_hook *hook, struct hf_error *error);

/* Completes some leases and acquires some locks, without waiting, in one write if all are in one
 * table. Each result is what hf_lock_complete or hf_lock_acquire would return, and none depends on
 * another. */
#define LOCK_EXCHANGE_MAX 4
struct lock_exchange {
    struct hf_lock *done[LOCK_EXCHANGE_MAX];
    struct hf_lock *next[LOCK_EXCHANGE_MAX];
    size_t done_count, next_count;
    enum hf_status completed[LOCK_EXCHANGE_MAX], acquired[LOCK_EXCHANGE_MAX];
    struct hf_error errors[LOCK_EXCHANGE_MAX]; /* of `acquired` */
};
void lock_exchange(struct lock_exchange *exchange);

/* The two halves of lock_end: false if the lease need not be ended now, with the result in *error:
 * NOT_FOUND if it is not held; otherwise it was acquired several times, and OK or LOST says whether
 * it still is. The caller holds `calls`, and sends the request. */
bool lock_begin_end(struct hf_lock *lock, enum table_op_kind kind, struct view note,
                    struct request *request, bool *ret_over, struct hf_error *error);
enum hf_status lock_finish_end(struct hf_lock *lock, struct request *request, bool over,
                               struct hf_error *error);

/* A lease that its handle no longer holds, but that is still in its table. */
struct lock_ending {
    bool held; /* the handle held the lease, ... */
    bool last; /* ... and was released as many times as it was acquired */
    bool over; /* by our own clock, the lease had expired */
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
};

/* The two halves of a release, for a lease that is ended later, possibly by another task. The first
 * half makes no request: from then on the handle does not hold the lease, and no renewal takes
 * effect. The second half ends the lease in its table; NOT_FOUND if the handle did not hold it. */
struct lock_ending lock_stop(struct hf_lock *lock);
enum hf_status lock_end_stopped(struct hf_lock *lock, const struct lock_ending *ending,
                                struct table_hook *hook, struct hf_error *error);

/* Instead of the second half, if the lease was certainly not ended: the handle holds it again. */
void lock_resume(struct hf_lock *lock, const struct lock_ending *ending);

/* The request of the second half, for a caller that sends it itself. */
void lock_init_ending(struct hf_lock *lock, const struct lock_ending *ending,
                      struct table_hook *hook, struct request *ret_request);

/* Makes sure that an acquire that got no reply, or was not reported as OK for another reason, has
 * left no lease. OK: it has not, and no request of it that is still in flight can take effect. The
 * hook, which may be NULL, runs in the same write. */
enum hf_status lock_undo_acquire(struct hf_lock *lock, struct table_hook *hook,
                                 struct hf_error *error);

void lock_set_state(struct hf_lock *lock, enum lock_state state);

/* The two halves of an hf_lock_acquire that does not wait or, with `waits`, of an hf_lock_begin. OK
 * if the request is to be sent; `wanted` must live as long. The caller holds `calls`. */
enum hf_status lock_begin_acquire(struct hf_lock *lock, bool waits,
                                  struct lease_request *wanted, struct request *request,
                                  struct hf_error *error);
enum hf_status lock_finish_acquire(struct hf_lock *lock, struct request *request,
                                   struct hf_error *error);

/* A renewal that is under way. */
struct lock_renewal {
    struct table_hook hook; /* must be the first member */
    struct hf_lock *lock;
    bool adopts; /* the lease was not confirmed before */
    bool no_memory;
};

/* The two halves of hf_lock_renew: false if there is nothing to renew, with the reason in *error.
 * The caller holds `calls`, and sends the request. */
bool lock_begin_renew(struct hf_lock *lock, struct lock_renewal *renewal,
                      struct request *request, struct hf_error *error);
enum hf_status lock_finish_renew(struct lock_renewal *renewal, const struct request *request,
                                 struct hf_error *error);

/* Acquires some locks, and releases or renews others, in as few writes as possible. The handles are
 * different, and belong to one client. Each result is what the single call would return, and none
 * depends on another, except CONFLICT: nothing was done, and the handle is as before. */
struct lock_try {
    struct hf_lock *lock; /* NULL: skip it */
    enum hf_try_kind kind;
    struct hf_error error; /* the result */
    /* Private. */
    bool sent, over;
    struct request request;
    struct lease_request wanted;
    struct lock_renewal renewal;
};
void lock_try_many(struct lock_try *tries, size_t count);

/* Notes that the lease is no longer ours: EXPIRED or LOST, which the watcher reports. Called with
 * the keeper's mutex held. */
void lock_mark_gone_locked(struct hf_lock *lock, enum hf_status how);

/* Whether the lock is held: OK, EXPIRED, LOST, NOT_FOUND, or UNSURE if it is not confirmed. Called
 * with the keeper's mutex held. */
enum hf_status lock_check_locked(struct hf_lock *lock);

/* Whether the handle is in the queue. */
bool lock_is_waiting(struct hf_lock *lock);

/* lock_check_locked, and the lease's id and token. */
enum hf_status lock_lease(struct hf_lock *lock, char ret_id[LEASE_ID_MAX + 1],
                          uint64_t *ret_token);

/* The id of a lease that the client holds in the table with this key. False: it holds none. */
bool keeper_find_lease(struct hf_client *client, struct view table,
                       char ret_id[LEASE_ID_MAX + 1]);

/* Gets the token and the number that a fenced write needs: OK, or the reason why it may not write.
 * Numbers rise in the order of calls across all handles of the client, because a lease that was
 * passed on may have several handles. */
enum hf_status lock_fence(struct hf_lock *lock, uint64_t *ret_token, uint64_t *ret_sequence,
                          struct hf_error *error);

/* For work that runs once per period: how much earlier the next run may start, because schedulers
 * are never exactly on time. */
struct span once_slack(const struct hf_lock_options *options);

#endif
