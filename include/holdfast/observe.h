/* SPDX-License-Identifier: Apache-2.0 */
/* observe.h: lists the holders and waiters of locks, and reports a client's events and counters.
 *
 *     static void log_event(void *argument, const struct hf_event *event)
 *     {
 *         fprintf(argument, "%s %s %s\n", hf_event_name(event->kind), event->scope, event->key);
 *     }
 *     ...
 *     struct hf_client_options options = HF_CLIENT_OPTIONS;
 *     options.event = log_event;
 *     options.event_argument = stderr;
 *     hf_client_open("sqlite:jobs.db", &options, &client, &error);
 *
 * LISTING changes nothing, needs no lease and does not wait for other clients. It does not adopt
 * another program's table or replace a damaged table. A listing reads one object after another, so
 * it is not a snapshot. The state of a lease is computed, not read. In the store, the lease of a
 * dead holder is still active. It is listed as OVERDUE once its time has passed, and as OVER once
 * it has provably ended, so that any client may take over the lock.
 *
 * EVENTS are delivered in the order in which they happened, each once, by one client thread that
 * holds none of the library's internal locks. An event arrives shortly after it happened. If your
 * work must stop immediately when a lease is lost, use hf_lock_options.notify and hf_lock_check
 * instead. Up to 4096 events are queued for a slow callback; further events are dropped, and the
 * next event reports how many. Without a callback, there is no thread and no event is kept. Once
 * hf_client_close has returned and all of the client's handles have been freed, all events have
 * been delivered.
 *
 * COUNTERS are kept by every client, at negligible cost.
 *
 * All list functions call a callback for each entry. Return false from the callback to end the
 * list, which is not an error. Strings are valid only during the callback. Times since 1970 are for
 * display only: they come from the wall clock of the machine that wrote them. */
#ifndef HOLDFAST_OBSERVE_H
#define HOLDFAST_OBSERVE_H

#include "holdfast/key.h"
#include "holdfast/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events -------------------------------------------------------------------------- */

/* Each row: constant, name, description. */
#define HF_EVENT_TABLE(ROW)                                                            \
    ROW(GRANTED, "granted", "a lock was acquired")                                     \
    ROW(RENEWED, "renewed", "a lease was renewed, or adopted")                         \
    ROW(DANGER, "danger", "renewal is failing, and two thirds of the ttl have passed") \
    ROW(SAFE, "safe", "renewed after danger")                                          \
    ROW(LOST, "lost", "a lease expired, or another client ended it")                   \
    ROW(RELEASED, "released", "a lease was released")                                  \
    ROW(TAKEN_OVER, "taken_over", "expired leases of other clients were ended")        \
    ROW(CONFLICT, "conflict", "writes were refused because other clients wrote first") \
    ROW(SWEPT, "swept", "a sweep removed expired leases")                              \
    ROW(COMMITTED, "committed", "a transaction was committed")                         \
    ROW(ROLLED_BACK, "rolled_back", "a transaction was rolled back")                   \
    ROW(REQUEST, "request", "the store replied to a request")

#define HF_EVENT_ENUM_(name, word, text) HF_EVENT_##name,
enum hf_event_kind { HF_EVENT_TABLE(HF_EVENT_ENUM_) HF_EVENT_COUNT };
#undef HF_EVENT_ENUM_

/* Returns the name of an event, such as "taken_over". */
HF_API const char *hf_event_name(enum hf_event_kind kind);

/* One event. Members that do not apply to its kind are "" or 0. Later versions may add members at
 * the end: before you read such a member, check that struct_size covers it. */
struct hf_event {
    size_t struct_size;
    enum hf_event_kind kind;
    int64_t at_ms;    /* since 1970, by the wall clock of this machine */
    uint64_t dropped; /* events dropped since the last delivered one */
    /* The object: the table of a lock, the record of a transaction, or the object of a request (for
     * a list, the prefix). */
    const char *key;
    /* Granted, renewed, danger, safe, lost, released: the first scope of the lock. */
    const char *scope;
    const char *holder; /* taken over, swept: the (first) previous holder */
    const char *txn;    /* committed, rolled back */
    uint64_t token;     /* of the lease; taken over, swept: of the previous lease */
    uint64_t count;     /* taken over, swept, conflict: how many */
    /* Request: its result; lost: HF_EXPIRED or HF_LOST; otherwise HF_OK. */
    enum hf_status status;
    const char *why; /* of a failed request */
    enum hf_store_call request;
    uint64_t bytes_sent;
    uint64_t bytes_received;
    int64_t took_us;
    int64_t ttl_ms;   /* granted, renewed: of the lease */
    const char *note; /* granted, renewed, released: of the lease, as JSON, or "" */
};

#define HF_EVENT_BIT(kind) (UINT64_C(1) << (kind))
#define HF_EVENTS_ALL      (HF_EVENT_BIT(HF_EVENT_COUNT) - 1)

/* Chooses the events that the callback gets from now on: one bit per kind, for example
 * HF_EVENTS_ALL & ~HF_EVENT_BIT(HF_EVENT_REQUEST). At first, it gets all of them. Other events are
 * still counted, but not queued, so with 0 a callback costs nothing. Events that are queued already
 * are delivered. Local.
 *
 * Returns HF_INVALID if a bit stands for no kind. */
HF_API enum hf_status hf_client_choose_events(struct hf_client *client, uint64_t kinds,
                                              struct hf_error *error);

/* ---- Counters ------------------------------------------------------------------------ */

struct hf_request_stats {
    uint64_t calls;
    uint64_t failed; /* neither HF_OK nor HF_NOT_MODIFIED */
    uint64_t bytes;  /* sent and received */
};

/* The work of a client since it was opened, excluding the requests that opened it. */
struct hf_stats {
    size_t struct_size;
    struct hf_request_stats gets, puts, deletes, lists, file_gets, file_puts;
    uint64_t conflicts;      /* writes refused because another client wrote first; retried */
    uint64_t granted;        /* locks acquired */
    uint64_t renewed;        /* renewals and adoptions of leases */
    uint64_t lost;           /* leases that expired while held, or that another client ended */
    uint64_t released;       /* leases released */
    uint64_t taken_over;     /* expired leases of other clients that this client ended */
    uint64_t swept;          /* expired leases removed by this client's sweeps */
    uint64_t committed;      /* transactions that this client committed, or found committed */
    uint64_t rolled_back;    /* transactions that it rolled back, or found rolled back */
    uint64_t events_dropped; /* because the callback was too slow, or memory ran out */
    /* The length of the longest chain of requests in which each began after the one before it had
     * ended. The difference before and after an operation is the number of round trips for which
     * the operation waited, if the client does nothing else. */
    uint64_t depth;
};
#define HF_STATS                                                                        \
    HF_VALUE_(hf_stats, sizeof(struct hf_stats), { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, \
              { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* Reads the counters. Local. */
HF_API enum hf_status hf_client_stats(struct hf_client *client, struct hf_stats *stats,
                                      struct hf_error *error);

/* ---- Leases -------------------------------------------------------------------------- */

/* The state of a lease, computed when it is read. */
#define HF_LEASE_STATE_TABLE(ROW)                                                 \
    ROW(ACTIVE, "active", "held, as far as is known")                             \
    ROW(OVERDUE, "overdue", "its time has passed, but its end is not proven yet") \
    ROW(OVER, "over", "proven to have ended: any client may take over")           \
    ROW(WAITING, "waiting", "waiting in the queue")                               \
    ROW(COMPLETED, "completed", "ended by its holder: the work is done")          \
    ROW(FAILED, "failed", "ended by its holder: the work failed")                 \
    ROW(RELEASED, "released", "ended by its holder")                              \
    ROW(EXPIRED, "expired", "taken over after it was proven to have ended")       \
    ROW(BROKEN, "broken", "ended by another client (hf_break)")

#define HF_LEASE_STATE_ENUM_(name, word, text) HF_LEASE_##name,
enum hf_lease_state { HF_LEASE_STATE_TABLE(HF_LEASE_STATE_ENUM_) HF_LEASE_STATE_COUNT };
#undef HF_LEASE_STATE_ENUM_

/* Returns the name of a state, such as "overdue". */
HF_API const char *hf_lease_state_name(enum hf_lease_state state);

/* Returns "exclusive", "shared" or "slots". */
HF_API const char *hf_mode_name(enum hf_mode mode);

/* How a lease can be proven to have ended. */
enum hf_proof {
    HF_PROOF_NONE,       /* not until the lease changes */
    HF_PROOF_STORE_TIME, /* by the store's clock */
    HF_PROOF_WATCHED,    /* by watching it stay unchanged */
};

/* Returns "none", "store time" or "watched". */
HF_API const char *hf_proof_name(enum hf_proof proof);

/* How a lease relates to the requested scope. */
enum hf_relation {
    HF_RELATION_NONE,    /* no conflict: both could be held at the same time */
    HF_RELATION_IN_WAY,  /* it has other scopes, which conflict with this one */
    HF_RELATION_OF_SCOPE /* it has this scope, possibly among others */
};

/* A lease, or a waiter. */
struct hf_lease_info {
    size_t struct_size;
    enum hf_lease_state state;
    enum hf_relation relation; /* set by hf_locks_show only */
    const char *table;         /* the object that contains it */
    const char *id;
    /* The lease as text, for hf_lock_adopt and hf_break; "" unless active, overdue or over. */
    const char *lease;
    const char *holder;
    const char *const *scopes; /* in full: "named:deploy" */
    size_t scope_count;        /* 0: all scopes of its table */
    /* Not held by any client: the table grants nothing until this entry has expired, because the
     * table was damaged and replaced, or restored from a backup. `holder` contains the reason. */
    bool barrier;
    enum hf_mode mode;
    uint64_t slots;
    int64_t ttl_ms;     /* 0: unknown, in files written by other programs */
    const char *output; /* as in struct hf_lock_options, or "" */
    const char *note;   /* JSON, or "" */
    size_t place;       /* position in the queue, from 1; 0: a lease */
    bool turn;          /* waiter: its turn has come */
    int64_t poll_ms;    /* waiter: how often it polls */

    /* The rest is 0 for a waiter. */
    uint64_t token;
    uint64_t renewals;
    int64_t acquired_at_ms; /* since 1970 */
    int64_t ends_at_ms;     /* since 1970: when it expires unless renewed, or when it ended */
    int64_t held_ms;        /* how long it has been, or was, held; never negative */
    int64_t remaining_ms;   /* until it expires; negative: past its end */
    int64_t takeover_ms;    /* until the earliest takeover, if nothing changes */
    enum hf_proof takeover_by; /* the proof for that takeover */
    size_t waiters;            /* conflicting waiters in the table */
};

/* The holder of a barrier in a table that was damaged and replaced. */
#define HF_TABLE_REPLACED "replaced a damaged table"

/* Called for each lease and waiter. */
typedef bool hf_each_lease(void *argument, const struct hf_lease_info *lease);

/* Called for each table or document that cannot be read, with the reason. */
typedef void hf_each_damaged(void *argument, const char *key, const struct hf_error *why);

struct hf_list_options {
    size_t struct_size;
    bool ended;   /* locks: include ended leases that the table still lists */
    bool waiting; /* locks: include waiters */
    /* Called for each damaged object; the listing then continues. If NULL, the first damaged object
     * ends the listing with HF_CORRUPT or HF_UNSUPPORTED. */
    hf_each_damaged *damaged;
    /* Optional. Called before each object; return false to end the listing with HF_CANCELLED. Both
     * callbacks receive the argument of the list function. */
    bool (*proceed)(void *argument);
};
#define HF_LIST_OPTIONS \
    HF_VALUE_(hf_list_options, sizeof(struct hf_list_options), false, false, NULL, NULL)

/* Lists leases with a scope that starts with `start`: "" for all, "deploy" or "named:deploy" for
 * names, "path:", "range:7:" and so on. The list covers the leases of the client's namespace, and
 * the leases on chunks and shards, which belong to no namespace. It is ordered by table; for each
 * table, the leases come first, then the queue. `options` may be NULL.
 *
 * Returns HF_OK if all leases were listed, or `each` returned false. Returns HF_INVALID if no scope
 * can start with `start`. Returns HF_CORRUPT or HF_UNSUPPORTED if a table cannot be read and
 * `damaged` is NULL. Returns HF_UNAVAILABLE if there are more than 10,000 tables (pass a longer
 * `start`), or if the store is unavailable. */
HF_API enum hf_status hf_locks_list(struct hf_client *client, const char *start,
                                    const struct hf_list_options *options, hf_each_lease *each,
                                    void *argument, struct hf_error *error);

/* The table of a scope. */
struct hf_table_info {
    size_t struct_size;
    bool absent;                   /* the table does not exist: nothing in it was ever locked */
    char scope[HF_SCOPE_TEXT_MAX]; /* the requested scope, in full */
    char table[1025];              /* the object */
    bool adopted;                  /* another program's table, which has no tokens yet */
    uint64_t next_token;
    /* The safety settings in effect. Each is the table's value or this client's value, whichever is
     * more conservative. */
    uint32_t drift_ppm;
    int64_t margin_ms, skew_tolerance_ms, ttl_max_ms, late_bound_ms;
    bool takeover_observed;
};
#define HF_TABLE_INFO                                                                        \
    HF_VALUE_(hf_table_info, sizeof(struct hf_table_info), false, { 0 }, { 0 }, false, 0, 0, \
              0, 0, 0, 0, false)

/* Called for each audit entry of a table: an action by a person, as JSON with the members at, what,
 * by, why, token, holder_id. */
typedef bool hf_each_audit(void *argument, const char *json);

/* Shows the table of one scope. The call first fills in `table`. It then calls `each` for every
 * lease and waiter of the table, with its `relation` to the scope, and finally `audit` for every
 * audit entry, oldest first. Each of the three may be NULL.
 *
 * Also returns HF_OK if the table does not exist (`absent`). Returns HF_INVALID if `scope` is not a
 * valid scope, and HF_CORRUPT or HF_UNSUPPORTED if the table cannot be read. */
HF_API enum hf_status hf_locks_show(struct hf_client *client, const char *scope,
                                    struct hf_table_info *table, hf_each_lease *each,
                                    hf_each_audit *audit, void *argument,
                                    struct hf_error *error);

/* ---- Timelines ----------------------------------------------------------------------- */

/* What is known about the holds of a lock. */
struct hf_timeline_info {
    size_t struct_size;
    char scope[HF_SCOPE_TEXT_MAX]; /* the requested scope, in full */
    int64_t now_ms;                /* since 1970, by the server's clock, as all its times */
    /* Every hold through this server that began later is listed, unless it was dropped. */
    int64_t complete_since_ms;
    uint64_t dropped; /* holds that the server has forgotten, the oldest first */
};
#define HF_TIMELINE_INFO \
    HF_VALUE_(hf_timeline_info, sizeof(struct hf_timeline_info), { 0 }, 0, 0, 0)

/* The precision of a time that the holder wrote, by its own clock. */
#define HF_TIME_OF_HOLDER (-1)

/* One hold of a lock. Texts that are not known are "". */
struct hf_hold {
    size_t struct_size;
    uint64_t token;
    const char *owner;  /* the client of the server, or else the holder */
    const char *holder; /* if the lock's table was read while it held */
    enum hf_mode mode;
    const char *scope; /* of a lease on another scope, which conflicts; or "" */
    /* "grant"; "takeover": the lease before it had expired; "seen": another program was granted
     * it. */
    const char *began;
    int64_t began_at_ms;        /* since 1970 */
    int64_t began_precision_ms; /* it may have been so much earlier; or HF_TIME_OF_HOLDER */
    const char *ended;          /* "release", "expiry", "break" or "unknown"; "": it holds */
    int64_t ended_at_ms;        /* since 1970; 0: it holds */
    int64_t ended_precision_ms; /* as of the beginning */
    int64_t expires_at_ms;      /* since 1970, unless renewed; 0: it has ended */
    const char *ended_by;       /* who broke it, and why */
    const char *reason;
};

typedef bool hf_each_hold(void *argument, const struct hf_hold *hold);

/* Lists who held a lock when, in the order of the grants, as the server of the client has noted it
 * (docs/serve.md). The call first fills in `info`, and then calls `each` for every hold; both may
 * be NULL. One request; the server reads the lock's table first if it did not do so within 500 ms.
 *
 * Returns HF_UNSUPPORTED if the client's store is not a server: a store keeps no timeline, only
 * the leases that hf_locks_show shows. Returns HF_INVALID if `scope` is not a valid scope. */
HF_API enum hf_status hf_locks_timeline(struct hf_client *client, const char *scope,
                                        struct hf_timeline_info *info, hf_each_hold *each,
                                        void *argument, struct hf_error *error);

/* ---- Watching ------------------------------------------------------------------------ */

/* How a lease changed between two reads. */
#define HF_CHANGE_TABLE(ROW)                                                 \
    ROW(NONE, "unchanged", "unchanged, or renewed in time")                  \
    ROW(WAITING, "waiting", "a client joined the queue")                     \
    ROW(GRANTED, "granted", "a lease was granted")                           \
    ROW(OVERDUE, "overdue", "its time has passed")                           \
    ROW(OVER, "over", "proven to have ended")                                \
    ROW(RENEWED, "renewed", "renewed after it was overdue or over")          \
    ROW(ENDED, "ended", "the lease is gone: released, taken over or broken") \
    ROW(LEFT, "left", "a waiter left the queue")

#define HF_CHANGE_ENUM_(name, word, text) HF_CHANGE_##name,
enum hf_change { HF_CHANGE_TABLE(HF_CHANGE_ENUM_) HF_CHANGE_COUNT };
#undef HF_CHANGE_ENUM_

/* Returns the name of a change, such as "granted". */
HF_API const char *hf_change_name(enum hf_change change);

typedef bool hf_each_change(void *argument, enum hf_change change,
                            const struct hf_lease_info *lease);

/* A watch reads leases repeatedly and remembers what it has seen. Unchanged objects are not read
 * again, so each read costs little more than its listings. Only one thread at a time may use a
 * watch. */
struct hf_watch;

/* Creates a watch on leases with a scope that starts with `start`, as in hf_locks_list. `options`
 * may be NULL. The `damaged` and `proceed` callbacks apply to every read; without `damaged`,
 * objects that cannot be read are skipped. Nothing is reported about the leases and waiters of such
 * an object until it can be read again, not even that they are gone. Local. */
HF_API enum hf_status hf_watch_new(struct hf_client *client, const char *start,
                                   const struct hf_list_options *options,
                                   struct hf_watch **ret_watch, struct hf_error *error);

/* Frees a watch. Does nothing if `watch` is NULL. */
HF_API void hf_watch_free(struct hf_watch *watch);

/* Reads all leases once. Calls `each` for every current lease and waiter, with its change since the
 * last read, and then for every lease and waiter that is gone, with its last known state. In the
 * first read, everything is new. After a failure, or if `each` returned false, nothing is reported
 * as gone; the next read continues. You decide how often to call this function; once per second is
 * a good choice.
 *
 * Returns HF_UNAVAILABLE or HF_TIMEOUT if the store is unavailable: call again later. Other
 * statuses are as for hf_locks_list. */
HF_API enum hf_status hf_watch_look(struct hf_watch *watch, hf_each_change *each,
                                    void *argument, struct hf_error *error);

/* ---- Blockers ------------------------------------------------------------------------ */

#define HF_HOLDER_MAX 256

/* The holder that prevents a lock from being granted. */
struct hf_blocker {
    size_t struct_size;
    enum hf_lease_state state;     /* of its lease; COMPLETED after HF_ALREADY */
    char scope[HF_SCOPE_TEXT_MAX]; /* the requested scope with which it conflicts */
    char holder[HF_HOLDER_MAX + 1];
    bool barrier; /* as in struct hf_lease_info */
    uint64_t token;
    int64_t held_ms;
    /* Until its lease expires unless renewed; negative: past its end. */
    int64_t remaining_ms;
    /* Until all conflicting leases can be taken over, if no lease is renewed. After HF_ALREADY:
     * until the work may be done again. */
    int64_t retry_ms;
    size_t scopes_blocked; /* how many of the requested scopes are leased */
};
#define HF_BLOCKER                                                                            \
    HF_VALUE_(hf_blocker, sizeof(struct hf_blocker), HF_LEASE_ACTIVE, { 0 }, { 0 }, false, 0, \
              0, 0, 0, 0)

/* After HF_HELD, HF_TIMEOUT or HF_ALREADY: reports the holder of the lock, or the client that did
 * the work. Reads the table once, for at most two seconds, so the result is the current holder.
 *
 * Returns HF_OK if *blocker is set, for the first scope that is leased. Returns HF_NOT_FOUND if no
 * lease conflicts any more, or if only earlier waiters conflict. */
HF_API enum hf_status hf_lock_blocker(struct hf_lock *lock, struct hf_blocker *blocker,
                                      struct hf_error *error);

/* Calls `each` for every requested scope that is leased, with the scope and the lease. Otherwise
 * like hf_lock_blocker. */
typedef bool hf_each_blocker(void *argument, const char *scope,
                             const struct hf_lease_info *lease);
HF_API enum hf_status hf_lock_blockers(struct hf_lock *lock, hf_each_blocker *each,
                                       void *argument, struct hf_error *error);

/* ---- Keys ---------------------------------------------------------------------------- */

/* The holder of a key, in addition to struct hf_key_info. */
struct hf_key_status {
    size_t struct_size;
    bool damaged; /* its document was damaged and replaced: the state is unknown */
    bool staged;  /* it has staged changes, by the holder or the transaction info.txn */
    bool held;
    char holder[HF_HOLDER_MAX + 1];
    uint64_t token;
    /* Time left on the lease, by the wall clock, for display only; not negative. */
    int64_t remaining_ms;
    size_t waiters;
};
#define HF_KEY_STATUS \
    HF_VALUE_(hf_key_status, sizeof(struct hf_key_status), false, false, false, { 0 }, 0, 0, 0)

/* Describes a key as readers see it, and the key's holder. Expired leases and stages are cleaned up
 * first (best effort). `info` and `status` may be NULL. Returns HF_NOT_FOUND if no key and no lock
 * has this name. Returns HF_CORRUPT if the key's document, or the record of its transaction, cannot
 * be read. */
HF_API enum hf_status hf_key_describe(struct hf_client *client, const char *name,
                                      struct hf_key_info *info, struct hf_key_status *status,
                                      struct hf_error *error);

/* Returns the transaction that holds a key, or "". This works even if the key's state cannot be
 * read. */
HF_API enum hf_status hf_key_txn(struct hf_client *client, const char *name,
                                 char ret_txn[HF_TXN_ID_SIZE + 1], struct hf_error *error);

typedef bool hf_each_key(void *argument, const char *name, const struct hf_key_info *info,
                         const struct hf_key_status *status);

/* Lists the keys of the client's namespace whose names start with `prefix` and that have a state or
 * are held, in name order. `options` may be NULL. */
HF_API enum hf_status hf_keys_list(struct hf_client *client, const char *prefix,
                                   const struct hf_list_options *options, hf_each_key *each,
                                   void *argument, struct hf_error *error);

/* ---- Transactions -------------------------------------------------------------------- */

#define HF_TXN_STATE_TABLE(ROW)                                                   \
    ROW(ABSENT, "absent", "there is no record: rolled back, or decided long ago") \
    ROW(PENDING, "pending", "not decided yet")                                    \
    ROW(COMMIT, "commit", "committed")                                            \
    ROW(ROLLBACK, "rollback", "rolled back")

#define HF_TXN_STATE_ENUM_(name, word, text) HF_TXN_##name,
enum hf_txn_state { HF_TXN_STATE_TABLE(HF_TXN_STATE_ENUM_) HF_TXN_STATE_COUNT };
#undef HF_TXN_STATE_ENUM_

/* Returns the name of a state, such as "pending". */
HF_API const char *hf_txn_state_name(enum hf_txn_state state);

/* The decision record of a transaction. */
struct hf_txn_info {
    size_t struct_size;
    const char *id;
    enum hf_txn_state state;
    const char *holder;    /* the client that began it; "": unknown */
    bool open;             /* begun by hf_txn_open: any process may commit it */
    bool applied;          /* committed, and all its keys have their final state */
    bool marked;           /* rolled back by a client that found no record, or a damaged one */
    int64_t began_at_ms;   /* since 1970; 0: unknown */
    int64_t decided_at_ms; /* since 1970; 0: unknown */
    const char *const *keys; /* "<namespace>/<name>", as far as known */
    size_t key_count;
};

typedef bool hf_each_txn(void *argument, const struct hf_txn_info *txn);

/* Shows one transaction, by calling `each` once. `each` may be NULL. Returns HF_NOT_FOUND if there
 * is no record: the transaction was never begun, or was decided long ago. Returns HF_CORRUPT if the
 * record is damaged, so the decision is unknown (see hf_txn_give_up). Returns HF_INVALID if `id` is
 * not a valid id. */
HF_API enum hf_status hf_txn_show(struct hf_client *client, const char *id, hf_each_txn *each,
                                  void *argument, struct hf_error *error);

/* Lists the transactions of all namespaces. A transaction is listed until a day after it was
 * committed or rolled back. If `state` is not HF_TXN_ABSENT, lists only transactions in that state.
 * `options` may be NULL. A server gives labels in place of the ids, which are secret. */
HF_API enum hf_status hf_txns_list(struct hf_client *client, enum hf_txn_state state,
                                   const struct hf_list_options *options, hf_each_txn *each,
                                   void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
