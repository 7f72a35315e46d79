/* SPDX-License-Identifier: Apache-2.0 */
/* lease_order.h: the orders for leases: acquire, keepalive, release, and changes to a key's state
 * under its lease. Each is made with calls of the public library.
 *
 * A lease is acquired without renewal and detached in the same call, so that a server holds nothing
 * that it could lose. From then on it is known by its id (lease_id.h), and each operation on it
 * costs one write.
 *
 * TRANSACTIONS. With `txn_id`, the order takes part in a transaction that any server may decide
 * (hf_txn_open): the key is acquired for it, the change is staged for it, and a release commits it
 * or rolls it back, if it has the key. The transaction is joined for the duration of each call, so
 * a server keeps nothing about it. The library has no steps for the keys of a transaction. So an
 * acquire that waits has no place in the store's queue, and each poll is another attempt. MISMATCH:
 * the transaction is decided. NOT_FOUND: there is none with this id. */
#ifndef SERVE_CALLS_LEASE_ORDER_H
#define SERVE_CALLS_LEASE_ORDER_H

#include "serve/calls/calls.h"
#include "serve/calls/lease_id.h"

enum lease_order_kind {
    LEASE_ACQUIRE,
    /* OK: result->valid_until is set. LOST: the lease has ended, or there is none with this id. */
    LEASE_KEEPALIVE,
    LEASE_RELEASE, /* OK, or LOST as above */
    /* OK: version and ETag are set. Otherwise the outcome says why the change was refused. */
    LEASE_UPDATE,
    LEASE_REMOVE,
};

/* Which scopes were in the way is told by a bit for each (core_result.blocked). */
#define LEASE_ORDER_SCOPES_MAX 64

/* How a release ends the lease. */
enum lease_ends { LEASE_ENDS_RELEASED, LEASE_ENDS_COMPLETED, LEASE_ENDS_FAILED };

/* The arguments of an order. Strings are copied. `data` is not: it must stay until `done`. */
struct lease_task {
    enum lease_order_kind kind;
    struct hf_client *client; /* of the namespace; must outlive the order */
    const char *scope;        /* in full, or the name of a key */
    bool is_key;              /* `scope` is the name of a key, and is held in exclusive mode */

    /* LEASE_ACQUIRE */
    int64_t ttl_ms;
    enum hf_mode mode; /* of a scope */
    uint32_t slots;
    const char *const
        *scopes;        /* all scopes of the lock, if it has several; `scope` is the first */
    size_t scope_count; /* at most LEASE_ORDER_SCOPES_MAX; 0: it has one */
    const char *note;   /* JSON, or NULL; also of a release that completes or fails */
    int64_t once_per_ms, once_slack_ms; /* as in struct hf_lock_options; ALREADY */
    const char *txn_id;                 /* of a key, in all orders but KEEPALIVE; NULL: none */
    bool if_absent; /* of a key: ALREADY if it has a state; the lease is then released */

    /* The others */
    const char *lease_id;
    uint64_t token;   /* FENCED unless the lease has this one; 0: any */
    const void *data; /* LEASE_UPDATE: the state, which may be large */
    size_t size;
    struct hf_key_if when; /* with the ETag copied */
    bool rolls_back;       /* LEASE_RELEASE: of the transaction */
    enum lease_ends ends;  /* LEASE_RELEASE */

    /* Called when the order is freed, on the loop, in the middle of an event of the core; may be
     * NULL. The order is no longer used afterwards. */
    void (*done)(void *argument, const struct call_order *order);
    void *argument;
};

/* INVALID or UNAVAILABLE (out of memory) if the order cannot be made. */
enum hf_status lease_order_new(struct env *env, struct lease_ids *ids,
                               const struct lease_task *task, struct call_order **ret_order,
                               struct hf_error *error);

#endif
