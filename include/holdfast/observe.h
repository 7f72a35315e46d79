/* observe.h: who holds what and who waits, as it stands in the store; what happened to this client,
 * as events and as counters.
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
 * LOOKING changes nothing, needs no lease and waits for nobody: a table of another program is not
 * adopted, a damaged one is not replaced. What is shown stood in the store when it was read, one
 * object after the other, and is no snapshot of all of them. States are judged, not read: a lease
 * whose holder died stands there as active, and is shown as OVERDUE once its time is past and OVER
 * once that is proven, so that anybody may take it over.
 *
 * EVENTS are told in the order in which they happened, each once, by one thread of the client that
 * holds no lock of the library. So they come a moment after the fact: what must stop at once when a
 * lease is lost belongs to hf_lock_options.notify and hf_lock_check. Up to 4096 events wait for a
 * slow callback; beyond that they are dropped, and the next one says how many. Without a callback
 * there is no thread and nothing is kept. The last event has been told when hf_client_close returns
 * and no handle of the client is left.
 *
 * COUNTERS are kept by every client that hf_client_open has made, and cost next to nothing.
 *
 * Lists are given one by one to a callback: false stops the list, which is no error. Texts live for
 * the call of the callback only. Times since 1970 are for people: they come from the calendar of
 * whoever wrote them. */
#ifndef HOLDFAST_OBSERVE_H
#define HOLDFAST_OBSERVE_H

#include "holdfast/key.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events -------------------------------------------------------------------------- */

/* Name and sentence of each kind. */
#define HF_EVENT_TABLE(ROW)                                                               \
    ROW(GRANTED, "granted", "a lock was acquired")                                        \
    ROW(RENEWED, "renewed", "a lease was renewed, or adopted")                            \
    ROW(DANGER, "danger", "renewing fails, and two thirds of the ttl are over")           \
    ROW(SAFE, "safe", "renewed after all")                                                \
    ROW(LOST, "lost", "a lease is no longer ours: it expired or somebody ended it")       \
    ROW(RELEASED, "released", "a lease was given back")                                   \
    ROW(TAKEN_OVER, "taken_over", "leases of others that were over were ended, to go on") \
    ROW(CONFLICT, "conflict", "writes were refused since others had written first")       \
    ROW(SWEPT, "swept", "leases that were over were cleared by a sweep")                  \
    ROW(COMMITTED, "committed", "a transaction was committed")                            \
    ROW(ROLLED_BACK, "rolled_back", "a transaction was rolled back")                      \
    ROW(REQUEST, "request", "the store answered a request")

#define HF_EVENT_ENUM_(name, word, text) HF_EVENT_##name,
enum hf_event_kind { HF_EVENT_TABLE(HF_EVENT_ENUM_) HF_EVENT_COUNT };
#undef HF_EVENT_ENUM_

/* "taken_over". */
HF_API const char *hf_event_name(enum hf_event_kind kind);

/* What is asked of a store. */
#define HF_REQUEST_TABLE(ROW) \
    ROW(GET, "get")           \
    ROW(PUT, "put")           \
    ROW(DELETE, "delete")     \
    ROW(LIST, "list")         \
    ROW(GET_FILE, "get_file") \
    ROW(PUT_FILE, "put_file")

#define HF_REQUEST_ENUM_(name, word) HF_REQUEST_##name,
enum hf_request_kind { HF_REQUEST_TABLE(HF_REQUEST_ENUM_) HF_REQUEST_COUNT };
#undef HF_REQUEST_ENUM_

/* "put_file". */
HF_API const char *hf_request_name(enum hf_request_kind kind);

/* One event. A text that says nothing of this kind of event is "", a number 0. Members may be added
 * at the end: look at them only if struct_size says that they are there. */
struct hf_event {
    size_t struct_size;
    enum hf_event_kind kind;
    int64_t at_ms;    /* since 1970, by the calendar of this machine */
    uint64_t dropped; /* events that were dropped since the last one that was told */
    const char
        *key; /* the object: the table of a lock, the record of a transaction, that of the
                          request (of a list: the prefix) */
    const char *scope; /* granted, renewed, danger, safe, lost, released: the first scope of the
                          lock */
    const char *holder;    /* taken over, swept: whose lease it was, the first of several */
    const char *txn;       /* committed, rolled back */
    uint64_t token;        /* of the lease; taken over, swept: of the one that was over */
    uint64_t count;        /* taken over, swept, conflict: how many */
    enum hf_status status; /* request: the answer; lost: EXPIRED or LOST; else OK */
    const char *why;       /* of a request that failed */
    enum hf_request_kind request;
    uint64_t bytes_sent;
    uint64_t bytes_received;
    int64_t took_us;
};

/* ---- Counters ------------------------------------------------------------------------ */

struct hf_request_stats {
    uint64_t calls;
    uint64_t failed; /* answered by anything but OK and NOT_MODIFIED */
    uint64_t bytes;  /* both ways */
};

/* What a client did since it was opened, the first look at its bucket not counted. */
struct hf_stats {
    size_t struct_size;
    struct hf_request_stats gets, puts, deletes, lists, file_gets, file_puts;
    uint64_t conflicts;   /* writes refused since others had written first; done anew then */
    uint64_t granted;     /* locks acquired */
    uint64_t renewed;     /* leases renewed or adopted, each time */
    uint64_t lost;        /* leases that expired in our hands, or were ended by somebody else */
    uint64_t released;    /* leases given back */
    uint64_t taken_over;  /* leases of others that were over, ended by what this client did */
    uint64_t swept;       /* leases that were over, cleared by sweeps of this client */
    uint64_t committed;   /* transactions decided by this client, or whose decision it found */
    uint64_t rolled_back; /* the same */
    uint64_t events_dropped; /* since the callback was too slow, or memory short */
};
#define HF_STATS                                                                        \
    HF_VALUE_(hf_stats, sizeof(struct hf_stats), { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, \
              { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

/* Reads the counters. Local. */
HF_API enum hf_status hf_client_stats(struct hf_client *client, struct hf_stats *stats,
                                      struct hf_error *error);

/* ---- Leases -------------------------------------------------------------------------- */

/* The state of a lease, as it is judged now. */
#define HF_LEASE_STATE_TABLE(ROW)                                                       \
    ROW(ACTIVE, "active", "held, as far as anybody can tell")                           \
    ROW(OVERDUE, "overdue", "its time is past, and nothing proves yet that it is over") \
    ROW(OVER, "over", "provably over: anybody may take it over")                        \
    ROW(WAITING, "waiting", "stands in line")                                           \
    ROW(COMPLETED, "completed", "ended by its holder: the work is done")                \
    ROW(FAILED, "failed", "ended by its holder: the work was given up")                 \
    ROW(RELEASED, "released", "ended by its holder")                                    \
    ROW(EXPIRED, "expired", "taken over after its time was provably over")              \
    ROW(BROKEN, "broken", "taken away by somebody (hf_break)")

#define HF_LEASE_STATE_ENUM_(name, word, text) HF_LEASE_##name,
enum hf_lease_state { HF_LEASE_STATE_TABLE(HF_LEASE_STATE_ENUM_) HF_LEASE_STATE_COUNT };
#undef HF_LEASE_STATE_ENUM_

/* "overdue". */
HF_API const char *hf_lease_state_name(enum hf_lease_state state);

/* "exclusive", "shared", "slots". */
HF_API const char *hf_mode_name(enum hf_mode mode);

/* How it can be proven that a lease is over. */
enum hf_proof {
    HF_PROOF_NONE,       /* not before it changes */
    HF_PROOF_STORE_TIME, /* by the store's clock */
    HF_PROOF_WATCHED,    /* by watching it stand unchanged */
};

/* "none", "store time", "watched". */
HF_API const char *hf_proof_name(enum hf_proof proof);

/* What a lease has to do with the scope that was asked for. */
enum hf_relation {
    HF_RELATION_NONE,    /* nothing: both could be held at once */
    HF_RELATION_IN_WAY,  /* it is of other scopes, which are in the way of this one */
    HF_RELATION_OF_SCOPE /* it is of this scope, maybe among others */
};

/* A lease, or somebody who waits for one. */
struct hf_lease_info {
    size_t struct_size;
    enum hf_lease_state state;
    enum hf_relation relation; /* hf_locks_show only */
    const char *table;         /* the object that it stands in */
    const char *id;
    const char
        *lease; /* for hf_lock_adopt and hf_break; "" unless it is active, overdue or over */
    const char *holder;
    const char *const *scopes; /* in full: "named:deploy" */
    size_t scope_count;        /* 0: all that lives in its table */
    bool
        barrier; /* nobody holds it: nothing is granted in its table until it is over, since the
                     table was damaged and replaced, or restored from a backup; `holder` says so */
    enum hf_mode mode;
    uint64_t slots;
    int64_t ttl_ms;     /* 0: unknown, in files of other programs */
    const char *output; /* as in struct hf_lock_options; "" */
    const char *note;   /* JSON, or "" */
    size_t place;       /* in line, from 1; 0: it is a lease */
    bool turn;          /* waiting: it is its turn */
    int64_t poll_ms;    /* waiting: it looks this often */

    /* Of a lease, 0 of one who waits. */
    uint64_t token;
    uint64_t renewals;
    int64_t acquired_at_ms; /* since 1970 */
    int64_t ends_at_ms;     /* the same: when it expires unless renewed, or when it ended */
    int64_t held_ms;        /* for how long it is, or was, held: never negative */
    int64_t remaining_ms;   /* until it expires; negative: it is past that */
    int64_t takeover_ms;    /* until it can be taken over at the earliest, if nothing changes */
    enum hf_proof takeover_by; /* and how that will be proven */
    size_t waiters;            /* how many wait in the table who would be in its way */
};

/* The holder of a barrier in a table that was damaged and replaced. */
#define HF_TABLE_REPLACED "replaced a damaged table"

/* Called for each. */
typedef bool hf_each_lease(void *argument, const struct hf_lease_info *lease);

/* A table or document that cannot be read, and why. */
typedef void hf_each_damaged(void *argument, const char *key, const struct hf_error *why);

struct hf_list_options {
    size_t struct_size;
    bool ended;   /* locks: also leases that are over and still remembered */
    bool waiting; /* locks: also those who wait */
    /* What is damaged is told here, and the list goes on. NULL: the first ends it, CORRUPT or
     * UNSUPPORTED. */
    hf_each_damaged *damaged;
    /* May be NULL. Asked before each object that is shown; false ends the list: CANCELLED. Both get
     * the argument of the list. */
    bool (*proceed)(void *argument);
};
#define HF_LIST_OPTIONS \
    HF_VALUE_(hf_list_options, sizeof(struct hf_list_options), false, false, NULL, NULL)

/* The leases of the client's namespace, those of chunks and those of shards, which belong to none:
 * whatever has a scope that starts with `start`: "" for all, "deploy" or "named:deploy" for names,
 * "path:", "range:7:" and so on. Table by table; of each the leases, then the queue. `options` may
 * be NULL.
 *   OK           all were shown, or `each` had enough
 *   INVALID      no scope could start like that
 *   CORRUPT, UNSUPPORTED  a table cannot be read, and nobody wants to be told (`damaged`)
 *   UNAVAILABLE  more than 10,000 tables: name the start of a scope; or the store's */
HF_API enum hf_status hf_locks_list(struct hf_client *client, const char *start,
                                    const struct hf_list_options *options, hf_each_lease *each,
                                    void *argument, struct hf_error *error);

/* The table that a scope lives in. */
struct hf_table_info {
    size_t struct_size;
    bool absent;                   /* there is none: nobody ever locked anything in it */
    char scope[HF_SCOPE_TEXT_MAX]; /* that was asked for, in full */
    char table[1025];              /* the object */
    bool adopted;                  /* another program's, which has no tokens yet */
    uint64_t next_token;
    /* How careful to be: the more careful of the table's settings and this client's. */
    uint32_t drift_ppm;
    int64_t margin_ms, skew_tolerance_ms, ttl_max_ms, late_bound_ms;
    bool takeover_observed;
};
#define HF_TABLE_INFO                                                                        \
    HF_VALUE_(hf_table_info, sizeof(struct hf_table_info), false, { 0 }, { 0 }, false, 0, 0, \
              0, 0, 0, 0, false)

/* An entry of the record of what people did to a table, as JSON: at, what, by, why, token,
 * holder_id. */
typedef bool hf_each_audit(void *argument, const char *json);

/* All about the table of one scope: first `table` is filled in, then `each` gets every lease and
 * every one who waits there, `relation` saying what it has to do with the scope, then `audit` the
 * record, oldest first. Each of the three may be NULL.
 *   OK       also when there is no table (`absent`)
 *   INVALID  that is no scope
 *   CORRUPT, UNSUPPORTED  the table cannot be read */
HF_API enum hf_status hf_locks_show(struct hf_client *client, const char *scope,
                                    struct hf_table_info *table, hf_each_lease *each,
                                    hf_each_audit *audit, void *argument,
                                    struct hf_error *error);

/* ---- Watching ------------------------------------------------------------------------ */

/* What became of a lease between two looks. */
#define HF_CHANGE_TABLE(ROW)                                                 \
    ROW(NONE, "unchanged", "it stands as before, or was renewed in time")    \
    ROW(WAITING, "waiting", "somebody stands in line")                       \
    ROW(GRANTED, "granted", "a lease, new or to one who waited")             \
    ROW(OVERDUE, "overdue", "its time is past")                              \
    ROW(OVER, "over", "provably over")                                       \
    ROW(RENEWED, "renewed", "renewed after it was overdue or over")          \
    ROW(ENDED, "ended", "the lease is gone: released, taken over or broken") \
    ROW(LEFT, "left", "one who waited is gone")

#define HF_CHANGE_ENUM_(name, word, text) HF_CHANGE_##name,
enum hf_change { HF_CHANGE_TABLE(HF_CHANGE_ENUM_) HF_CHANGE_COUNT };
#undef HF_CHANGE_ENUM_

/* "granted". */
HF_API const char *hf_change_name(enum hf_change change);

typedef bool hf_each_change(void *argument, enum hf_change change,
                            const struct hf_lease_info *lease);

/* Looks again and again, and remembers what it saw: what stands unchanged is not read again, so a
 * look costs little more than its listings. One thread at a time. */
struct hf_watch;

/* A watch of what starts with this, as hf_locks_list; of the options, which may be NULL, `damaged`
 * and `proceed` count at every look, and without `damaged` what cannot be read is left out. Local.
 * Free it before the client is closed. */
HF_API enum hf_status hf_watch_new(struct hf_client *client, const char *start,
                                   const struct hf_list_options *options,
                                   struct hf_watch **ret_watch, struct hf_error *error);

/* NULL is fine. */
HF_API void hf_watch_free(struct hf_watch *watch);

/* Looks once: `each` gets everybody who holds or waits now, with what has changed since the last
 * look, and then those that are gone, as they were when they last changed. At the first look
 * everything is new. After a failure, or when `each` has stopped it, nothing is taken for gone: the
 * next look goes on. How often to look is the caller's choice; a second is a good one.
 *   UNAVAILABLE, TIMEOUT  the store's: look again later; other statuses as hf_locks_list */
HF_API enum hf_status hf_watch_look(struct hf_watch *watch, hf_each_change *each,
                                    void *argument, struct hf_error *error);

/* ---- Who is in the way --------------------------------------------------------------- */

#define HF_HOLDER_MAX 256

/* Who keeps a lock from being granted. */
struct hf_blocker {
    size_t struct_size;
    enum hf_lease_state state;     /* of the lease, as it is judged; COMPLETED: after ALREADY */
    char scope[HF_SCOPE_TEXT_MAX]; /* the wanted scope that it is in the way of */
    char holder[HF_HOLDER_MAX + 1];
    bool barrier; /* as in struct hf_lease_info */
    uint64_t token;
    int64_t held_ms;
    int64_t remaining_ms; /* until its lease expires unless renewed; negative: past that */
    int64_t retry_ms; /* until all that is in the way can be taken over, if nothing is renewed;
                             after ALREADY until it may be done again */
    size_t scopes_blocked; /* how many of the wanted scopes are leased */
};
#define HF_BLOCKER                                                                            \
    HF_VALUE_(hf_blocker, sizeof(struct hf_blocker), HF_LEASE_ACTIVE, { 0 }, { 0 }, false, 0, \
              0, 0, 0, 0)

/* After HELD, TIMEOUT or ALREADY: who holds it, or did it. Looks once, for two seconds at most, so
 * it shows who is in the way now.
 *   OK         *blocker is set, about the first scope that is leased
 *   NOT_FOUND  nobody is any more, or others merely wait before us */
HF_API enum hf_status hf_lock_blocker(struct hf_lock *lock, struct hf_blocker *blocker,
                                      struct hf_error *error);

/* The same in full: `each` gets, for every wanted scope that is leased, the scope and the lease. */
typedef bool hf_each_blocker(void *argument, const char *scope,
                             const struct hf_lease_info *lease);
HF_API enum hf_status hf_lock_blockers(struct hf_lock *lock, hf_each_blocker *each,
                                       void *argument, struct hf_error *error);

/* ---- Keys ---------------------------------------------------------------------------- */

/* Who holds a key, beside what it holds (struct hf_key_info). */
struct hf_key_status {
    size_t struct_size;
    bool damaged; /* its document was damaged and replaced: nobody knows what it held */
    bool
        staged; /* changes wait to be published, by the holder or by the transaction info.txn */
    bool held;
    char holder[HF_HOLDER_MAX + 1];
    uint64_t token;
    int64_t remaining_ms; /* of that lease, by calendars: for people; not negative */
    size_t waiters;
};
#define HF_KEY_STATUS \
    HF_VALUE_(hf_key_status, sizeof(struct hf_key_status), false, false, false, { 0 }, 0, 0, 0)

/* A key as anybody would read it, and who holds it. What is over is cleared away first, as well as
 * that can be. `info` and `status` may be NULL.
 *   NOT_FOUND  there is no such key, and no lock of that name
 *   CORRUPT    its document, or the record of its transaction, cannot be read */
HF_API enum hf_status hf_key_describe(struct hf_client *client, const char *name,
                                      struct hf_key_info *info, struct hf_key_status *status,
                                      struct hf_error *error);

/* The transaction that a key is taken for, also where its state cannot be read; "" for none. */
HF_API enum hf_status hf_key_txn(struct hf_client *client, const char *name,
                                 char ret_txn[HF_TXN_ID_SIZE + 1], struct hf_error *error);

typedef bool hf_each_key(void *argument, const char *name, const struct hf_key_info *info,
                         const struct hf_key_status *status);

/* The keys of the client's namespace that hold something, or are held, whose names start with
 * `prefix`, in order. `options` may be NULL. */
HF_API enum hf_status hf_keys_list(struct hf_client *client, const char *prefix,
                                   const struct hf_list_options *options, hf_each_key *each,
                                   void *argument, struct hf_error *error);

/* ---- Transactions -------------------------------------------------------------------- */

#define HF_TXN_STATE_TABLE(ROW)                                                   \
    ROW(ABSENT, "absent", "there is no record: rolled back, or settled long ago") \
    ROW(PENDING, "pending", "not decided")                                        \
    ROW(COMMIT, "commit", "committed")                                            \
    ROW(ROLLBACK, "rollback", "rolled back")

#define HF_TXN_STATE_ENUM_(name, word, text) HF_TXN_##name,
enum hf_txn_state { HF_TXN_STATE_TABLE(HF_TXN_STATE_ENUM_) HF_TXN_STATE_COUNT };
#undef HF_TXN_STATE_ENUM_

/* "pending". */
HF_API const char *hf_txn_state_name(enum hf_txn_state state);

/* The record of a transaction. */
struct hf_txn_info {
    size_t struct_size;
    const char *id;
    enum hf_txn_state state;
    const char *holder;      /* who began it; "": unknown */
    bool open;               /* begun by hf_txn_open: any process may commit it */
    bool applied;            /* committed, and all its keys are settled */
    bool marked;             /* rolled back by somebody who found no record, or a damaged one */
    int64_t began_at_ms;     /* since 1970; 0: unknown */
    int64_t decided_at_ms;   /* the same */
    const char *const *keys; /* "<namespace>/<name>", as far as they are known */
    size_t key_count;
};

typedef bool hf_each_txn(void *argument, const struct hf_txn_info *txn);

/* Shows one, by a single call of `each`, which may be NULL.
 *   NOT_FOUND  there is no record: it was never begun, or was decided long ago
 *   CORRUPT    the record is damaged, so nobody knows whether it was committed (hf_txn_give_up)
 *   INVALID    that is no id */
HF_API enum hf_status hf_txn_show(struct hf_client *client, const char *id, hf_each_txn *each,
                                  void *argument, struct hf_error *error);

/* The transactions of all namespaces, until a day after they were decided. `state` other than
 * ABSENT: only these. `options` may be NULL. */
HF_API enum hf_status hf_txns_list(struct hf_client *client, enum hf_txn_state state,
                                   const struct hf_list_options *options, hf_each_txn *each,
                                   void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
