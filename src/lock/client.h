/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: the library's internal interface to a client, and requests to its tables. The public
 * functions are in holdfast/lock.h. */
#ifndef LOCK_CLIENT_H
#define LOCK_CLIENT_H

#include "lock/events.h"
#include "lock/local_turn.h"
#include "lock/tables.h"
#include "lock/wait_queue.h"
#include "store/session.h"

#include <stdatomic.h>

/* The time limit of a request without a deadline. When it has passed, the outcome is UNSURE or
 * TIMEOUT. */
#define REQUEST_TIME SPAN_S(10)

/* How many hours with an index entry are remembered per table: more than the longest ttl of one
 * day needs. */
#define INDEXED_HOURS 32

/* A table as a client knows it: its document, and this client's waiters. */
struct table_ref {
    struct hf_client *client;
    struct table_space *space; /* of the client's namespace, of chunks, or of shards */
    enum table_kind kind;
    struct doc *doc;
    struct wait_queue queue;
    size_t users;  /* guarded by client->shared.mutex; 0: cached for the next use */
    bool renewing; /* guarded by the keeper's mutex */
    bool in_index; /* its leases may have entries in the expiry index */
    size_t
        ending; /* leases that are ended in the background; guarded by client->shared.mutex */
    /* Also guarded by the keeper's mutex: the hours that have an entry. Hour h is at index
     * h % INDEXED_HOURS and is stored as h + 1; 0 means none. */
    int64_t indexed[INDEXED_HOURS];
    atomic_size_t leases; /* in the table, when it was last seen */
    struct local_turn turn;
    /* Guarded by client->shared.mutex, while there are no users: */
    struct table_ref *idle_next, *idle_previous;
    size_t idle_leases; /* what it counts for among those that are cached */
};

/* What caused an ended lease to be cleared. */
enum sweep_mode {
    SWEEP_TRANSPARENT, /* an ordinary operation that found it */
    SWEEP_IDLE,        /* the idle sweeper */
    SWEEP_MANUAL,      /* an operator, by a command */
    SWEEP_MODES,
};

/* A client on a store that the caller owns. The caller closes the store after the client, so the
 * caller must free every handle before it closes the client. */
enum hf_status client_new(struct store *store, const struct hf_client_options *options,
                          struct hf_client **ret_client, struct hf_error *error);

/* A client on a handle's store. The client keeps the handle open, and its requests are counted and
 * reported as events. */
enum hf_status client_new_on(struct hf_store *handle, const struct hf_client_options *options,
                             struct hf_client **ret_client, struct hf_error *error);

/* A client on the same store for another namespace, with the same holder and settings. */
enum hf_status client_new_beside(struct hf_client *client, struct view ns,
                                 struct hf_client **ret_client, struct hf_error *error);

/* ---- Accessors ----------------------------------------------------------------------- */

struct env *client_env(const struct hf_client *client);
struct store *client_store(const struct hf_client *client);
struct doc_clock *client_clock(struct hf_client *client);
const char *client_holder(const struct hf_client *client);

/* The client's namespace, the table_space of its tables, and their settings. */
const char *client_ns(const struct hf_client *client);
struct table_space *client_space(struct hf_client *client);
const struct lease_settings *client_settings(const struct hf_client *client);

/* Whether an object with this key is the mark in place of the namespace's table of paths, because
 * its paths are in pages (placement.h). */
bool client_has_mark_at(const struct hf_client *client, struct view key);

/* The length of one slot of the expiry index: an hour, except in tests. */
struct span client_hour(const struct hf_client *client);

struct mono_time client_now(const struct hf_client *client);

/* The deadline of a request that starts now: REQUEST_TIME from now. */
struct mono_time client_deadline(const struct hf_client *client);

/* A get whose reply updates the store time. */
enum hf_status client_get(struct hf_client *client, struct get_call *get);

/* Keeps the client's memory for a handle, because the client may be closed before the handle is
 * freed. */
/* Returns how many handles the client has had so far. */
uint64_t client_keep(struct hf_client *client);
void client_drop(struct hf_client *client);

/* Takes the table_ref of a table; table_ref_drop returns it. */
enum hf_status table_ref_take(struct hf_client *client, struct view key,
                              struct table_ref **ret_ref, struct hf_error *error);
void table_ref_drop(struct table_ref *ref);

/* Adds a use of a table_ref that is already in use. */
struct table_ref *table_ref_share(struct table_ref *ref);

/* Between these two calls, a lease of this process that its caller believes to be released is
 * ended in the background. */
void table_ref_begin_ending(struct table_ref *ref);
void table_ref_finish_ending(struct table_ref *ref);

/* Waits until no such lease is left, but at most REQUEST_TIME. So a process is never refused
 * because of a lease that it has released. */
void table_ref_await_ended(struct table_ref *ref);

/* Whether requests to the store go over a network. Requests that do not depend on each other are
 * then made side by side. On a local store that would cost more than it saves. */
bool client_is_remote(const struct hf_client *client);

/* Notes that a caller has begun an operation, so that the sweeper yields. Reads for display do not
 * count. NULL is allowed. */
void client_active(struct hf_client *client);

/* The number of operations that callers have begun, and when the last one began. */
uint64_t client_activity(const struct hf_client *client);
struct mono_time client_last_active(const struct hf_client *client);

/* How many of our writes were refused because another client had written. */
uint64_t client_conflicts(const struct hf_client *client);

/* Adds the number of leases that the client `from` has cleared to this client's count. */
void client_add_cleared(struct hf_client *client, struct hf_client *from);

/* Reports that this many writes to an object were refused because another client had changed
 * it. */
void client_note_conflicts(struct hf_client *client, struct view key, unsigned count);

/* A number that no other lease or waiter of this session has ever had. */
uint64_t client_next_id(struct hf_client *client);

/* ---- Asking a table ------------------------------------------------------------------ */

struct request;

/* A hook for data that is kept in a table beside its leases (src/key) and is changed in the same
 * writes. Each function may be NULL. The first two are pure, are called once per attempt, and set
 * *changed if the table must be written. */
struct server_grant;
struct table_hook {
    /* Called before the leases change. Returns OK, or a refusal that leaves them unchanged. */
    enum hf_status (*before)(struct table_hook *hook, struct lease_table *table,
                             const struct evidence *evidence, bool *changed,
                             struct hf_error *error);

    /* Called after the leases have changed; `op` contains the result. It cannot fail. */
    void (*after)(struct table_hook *hook, struct lease_table *table, const struct table_op *op,
                  bool *changed);

    /* What the last call of `before` has changed was certainly not written. */
    void (*unsent)(struct table_hook *hook);

    /* Instead of the others, if a server has granted the lease (lock/server.h). */
    void (*granted)(struct table_hook *hook, const struct server_grant *grant);
    struct view txn; /* the transaction that a server is to grant it for; empty: none */
};

/* An operation on a table, as an operation on its document. */
struct request {
    struct doc_op op;
    struct table_ref *ref;
    struct table_op table;
    struct table_hook *hook; /* may be NULL */
    enum sweep_mode mode;
    bool *blocked;               /* may be NULL: for each wanted scope, whether it is blocked */
    bool taken;                  /* a release found that the lease had expired or been broken */
    struct queue_waiter *waiter; /* of a wait at a server: its cancellation ends the wait */
    struct session_bells bells;  /* of the waiters that the last attempt gave their turn */

    struct lease_settings settings;  /* of the table */
    char granted_by[NONCE_SIZE + 1]; /* the nonce of the attempt that granted or renewed */
    struct span ttl;                 /* of the lease that was granted or renewed */

    /* Set by a server, which has granted or renewed the lease; t0 is 0 otherwise. The id is the
     * server's own, and replaces the one that we have asked with. */
    struct {
        struct mono_time t0, until;
        char id[NONCE_SIZE + 1];
    } served;
};

/* A `deadline` of zero means REQUEST_TIME from now. */
void request_init(struct request *request, struct table_ref *ref, enum table_op_kind kind,
                  struct mono_time deadline);

/* The maximum number of requests in one call. */
#define RENEW_BATCH_MAX 128

/* Whether a waiter's process has ended, as far as this machine knows. The argument is the
 * client. */
bool client_waiter_gone(void *client, const struct lease_request *waiter);

/* Sends all requests, in one write if possible. A damaged table is replaced first. */
enum hf_status table_ref_ask(struct table_ref *ref, struct request *const *requests,
                             size_t count);

/* Documents that are changed in the same step as tables. No other caller knows them, so they may
 * come before the tables. */
#define BESIDE_TABLES_MAX 2
struct beside_tables {
    struct doc *docs[BESIDE_TABLES_MAX];
    struct doc_op *ops[BESIDE_TABLES_MAX];
    size_t count;
};

/* Sends one request to each of several tables, in one step of the store: all take effect, or none.
 * The tables are different, and in an order that all callers agree on. `beside` may be NULL; its
 * documents count towards at most TOGETHER_MAX, and come first. The results are those of
 * doc_update_together. */
enum hf_status table_refs_ask_together(const struct beside_tables *beside,
                                       struct request *const *requests, size_t count,
                                       struct hf_error *error);

/* Sends 1 to EACH_MAX requests of one client, each with its own result: those to one table in one
 * write, and all of them in as few steps of the store as it can. There is one attempt. Changes the
 * order of the array. Afterwards, request_is_undecided tells which requests have no result. A
 * request that may have taken effect without a reply is repeated until its result is known, as by
 * table_ref_ask. */
void table_refs_ask_each(struct request **requests, size_t count);

/* After table_refs_ask_each: the request was not done, and will not be. table_ref_ask may do it. */
bool request_is_undecided(const struct request *request);

/* Whether a result is final. If it is not, the operation may still take effect, and the cleanup
 * task continues. */
static inline bool request_settled(enum hf_status status)
{
    return status != HF_UNSURE && status != HF_TIMEOUT && status != HF_UNAVAILABLE;
}

/* How long a grant can be used: by our own clock and by the store's. */
struct validity {
    struct mono_time t0;
    struct mono_time until;
    bool by_store;
    struct store_time expires;
    struct span grace; /* how far our latest store time may be past the end */
};
struct validity request_validity(const struct request *request);

/* When the validity ends, as far as the evidence shows. */
struct mono_time validity_end(const struct validity *validity, const struct evidence *evidence);

#endif
