/* handle.h: the inside of a lock handle. */
#ifndef LOCK_HANDLE_H
#define LOCK_HANDLE_H

#include "lock/client.h"

#define LEASE_ID_MAX (NONCE_SIZE + 1 + 20)

enum lock_state {
    LOCK_IDLE,
    LOCK_WAITING, /* stands in line: has a seat */
    LOCK_HELD,    /* has a lease, as far as we know */
};

/* What is asked for never changes. `calls` serialises the calls that ask the store; the rest of
 * the state is guarded by the keeper's mutex. */
struct hf_lock {
    struct hf_client *client;
    struct place *place;
    struct scope *scopes;
    size_t scope_count;             /* 0: it is adopted, and covers all of its table */
    struct hf_lock_options options; /* its texts are ours */
    bool adopted; /* its scopes and mode are those of the lease; it cannot be acquired */
    struct span ttl;
    bool *blocked; /* a scope each, as last told; then as much room to note them in */
    struct table_guest *guest; /* of every request to be granted; NULL: none */

    struct env_mutex calls;
    struct seat seat; /* guarded by the room's mutex */

    enum lock_state state;
    unsigned depth; /* acquired so often */
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
    struct validity validity;
    enum hf_status gone; /* OK, or EXPIRED, or LOST */
    bool given_back;     /* in the background, when the client was closed */

    /* The keeper's. */
    struct hf_lock *next, *previous;
    struct mono_time renew_at, danger_at;
    struct mono_time half_life; /* held for half a ttl: from then on worth an entry */
    struct mono_time index_at;  /* when to see that it has one, of the hour in which it ends */
    bool in_danger;
    bool tell_safe, tell_gone;
    unsigned pins;
};

/* A handle without scopes yet, at a place that it takes over; frees nothing on failure. */
enum hf_status lock_new_at(struct hf_client *client, struct place *place,
                           const struct hf_lock_options *options, struct hf_lock **ret_lock,
                           struct hf_error *error);

/* Notes that it was granted or renewed; with the keeper's mutex held. */
void lock_renewed_locked(struct hf_lock *lock, const struct validity *validity);

/* Holds what a request was granted or has renewed, and keeps it. False: its time is over already,
 * and the handle is idle. */
bool lock_take_up(struct hf_lock *lock, const struct request *request);

/* Leaves the end of a lease, or of a place in line, to the tidier: nobody need wait for it. */
void lock_give_back(struct hf_lock *lock);

/* Ends it, as hf_lock_release, _complete and _fail do; the guest, which may be NULL, in the same
 * write. When there is no answer the lease is ended in the background, without the guest. */
enum hf_status lock_end(struct hf_lock *lock, enum table_op_kind kind, const char *note,
                        struct table_guest *guest, struct hf_error *error);

/* It is not ours any more: EXPIRED or LOST, which the watcher tells. With the keeper's mutex
 * held. */
void lock_gone_locked(struct hf_lock *lock, enum hf_status how);

/* Whether it is held: OK, EXPIRED, LOST or NOT_FOUND; with the keeper's mutex held. */
enum hf_status lock_check_locked(struct hf_lock *lock);

/* What a fenced write needs: OK, or why not. Draws the next number in the order of calls, of
 * all handles of the client: a lease that was passed on may have several. */
enum hf_status lock_fence(struct hf_lock *lock, uint64_t *ret_token, uint64_t *ret_sequence,
                          struct hf_error *error);

#endif
