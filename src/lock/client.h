/* client.h: what a client is made of, for the files of this folder and for those who build one
 * by hand (the simulator, tests). The public calls are in holdfast.h.
 *
 * Order of mutexes: a lock's `calls`, then any one of: shared, keeper, room; none of these three
 * is held while another is taken, except the clock's own inside them. */
#ifndef LOCK_CLIENT_H
#define LOCK_CLIENT_H

#include "base/map.h"
#include "lock/events.h"
#include "lock/fenced.h"
#include "lock/keeper.h"
#include "lock/room.h"
#include "lock/tables.h"
#include "lock/tidier.h"
#include "store/handle.h"

#include <stdatomic.h>

/* A request is given this long when nobody says how long: then it is told as without answer. */
#define REQUEST_TIME SPAN_S(10)

/* Of each table so many hours are remembered that have an entry: more than a ttl of a day spans. */
#define INDEXED_HOURS 32

/* One table as a client knows it: its document, and those of ours who wait there. */
struct place {
    struct hf_client *client;
    struct table_space *space; /* of the client, or the one of chunks or shards */
    enum table_kind kind;
    struct doc *doc;
    struct room room;
    size_t users;  /* guarded by client->shared.mutex; 0: kept warm for the next */
    bool renewing; /* guarded by the keeper's mutex */
    bool in_index; /* leases of it may have entries in the expiry index */
    /* Guarded by the keeper's mutex too: hours that have one, each where its number says, plus one:
     * 0 is none. */
    int64_t indexed[INDEXED_HOURS];
    struct place *idle_next;
};

/* On whose behalf something that was over is cleared away. */
enum sweep_mode {
    SWEEP_TRANSPARENT, /* an operation cleans what it touches */
    SWEEP_IDLE,        /* the sweeper, while there is nothing else to do */
    SWEEP_MANUAL,      /* a person asked for it */
    SWEEP_MODES,
};

struct hf_client {
    struct env *env;
    struct store *store;
    bool counts;             /* its store is observed, by itself */
    struct hf_store *handle; /* of the public calls, kept; NULL: the store is the caller's */
    struct doc_clock clock;
    struct table_space space;
    struct table_space chunk_space; /* chunks have no namespace: they go by one epoch */
    struct table_space shard_space; /* nor have shards; their locks are short */
    struct span poll;               /* how often to look while waiting, unless a lock says */
    struct span hour;               /* of the expiry index (expiry.h) */
    char holder[HOLDER_BYTES_MAX + 1];
    char session[NONCE_SIZE + 1];
    struct {
        struct env_mutex mutex;
        struct map places;  /* by the key of the table */
        struct place *idle; /* the longest unused first */
        size_t idle_count;
        uint64_t last_id;
        size_t
            handles; /* locks and transactions not yet freed, and the client until it is closed */
        uint64_t cleared[SWEEP_MODES]; /* leases that were over, by on whose behalf */
    } shared;
    struct {
        atomic_uint_fast64_t count; /* operations that callers have begun */
        atomic_int_fast64_t last;   /* when, on the boot-time clock in us, the last one was */
        atomic_uint_fast64_t
            conflicts; /* our writes that were refused since others had written */
    } activity;
    struct keeper keeper;
    struct tidier tidier;
    struct fence_shelf fences;
    struct events events;
};

/* A client of a store that stays the caller's, who closes it after the client and so must have
 * freed every handle before. */
enum hf_status client_new(struct store *store, const struct hf_client_options *options,
                          struct hf_client **ret_client, struct hf_error *error);

/* The same, and its requests are counted, and told as events. */
enum hf_status client_new_counted(struct store *store, const struct hf_client_options *options,
                                  struct hf_client **ret_client, struct hf_error *error);

/* A handle that needs the client to exist, though it may be closed before the handle is freed. */
void client_keep(struct hf_client *client);
void client_drop(struct hf_client *client);

/* The place of a table, until place_drop. */
enum hf_status place_take(struct hf_client *client, struct view key, struct place **ret_place,
                          struct hf_error *error);
void place_drop(struct place *place);

/* One more use of a place that is in use. */
struct place *place_share(struct place *place);

/* A caller has begun an operation: the sweeper gives way. Looking, for people, does not count. NULL
 * is fine. */
void client_active(struct hf_client *client);

/* So many writes of this client to an object were refused: somebody else had changed it. */
void client_note_conflicts(struct hf_client *client, struct view key, unsigned count);

/* A number that no other lease or waiter of this session has had. */
uint64_t client_next_id(struct hf_client *client);

/* ---- Asking a table ------------------------------------------------------------------ */

struct request;

/* What is kept in a table beside its leases (src/key) changes in the same writes as they do. Each
 * may be NULL. Both are pure, called once an attempt, and note in *changed whether the table must
 * be written. */
struct table_guest {
    /* Before the leases move: OK, or a refusal, and then they do not. */
    enum hf_status (*before)(struct table_guest *guest, struct lease_table *table,
                             const struct evidence *evidence, bool *changed,
                             struct hf_error *error);

    /* After they have moved: `op` says what came of it. It cannot fail. */
    void (*after)(struct table_guest *guest, struct lease_table *table,
                  const struct table_op *op, bool *changed);
};

/* An operation on a table, as an operation on its document. */
struct request {
    struct doc_op op;
    struct place *place;
    struct table_op table;
    struct table_guest *guest; /* may be NULL */
    enum sweep_mode mode;
    bool *blocked; /* may be NULL: per scope wanted, whether it is in the way */
    bool taken;    /* a release found that somebody had ended it in another way */

    struct lease_settings settings;  /* as the table has them */
    char granted_by[NONCE_SIZE + 1]; /* the attempt that granted or renewed */
    struct span ttl;                 /* of what was granted or renewed */
};

/* `deadline` of zero: REQUEST_TIME from now. */
void request_init(struct request *request, struct place *place, enum table_op_kind kind,
                  struct mono_time deadline);

/* Requests that one call may carry. */
#define RENEW_BATCH_MAX 128

/* Asks, all in one write where that can be. A damaged table is replaced on the way. */
enum hf_status place_ask(struct place *place, struct request *const *requests, size_t count);

/* Whether an answer is final; else nobody knows yet what becomes of it, and the tidier goes on. */
static inline bool request_settled(enum hf_status status)
{
    return status != HF_UNSURE && status != HF_TIMEOUT && status != HF_UNAVAILABLE;
}

/* How long what was granted can be used: by our own clock and by the store's. */
struct validity {
    struct mono_time t0;
    struct mono_time until;
    bool by_store;
    struct store_time expires;
    struct span grace; /* by so much our latest store time may be past it */
};
struct validity request_validity(const struct request *request);

/* The moment at which it ends, as far as the evidence tells. */
struct mono_time validity_end(const struct validity *validity, const struct evidence *evidence);

#endif
