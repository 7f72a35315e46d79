/* SPDX-License-Identifier: Apache-2.0 */
/* serve_work.h: the workload `serve`: servers (the core, the calls and the library on the simulated
 * store), and clients that reach them through connections that are slow, break and are closed.
 *
 * A node is a server. Clients are not nodes: they are state machines in the world's memory, with
 * perfect clocks, and survive every server. A request and its reply are an exchange. */
#ifndef SIM_WORKLOADS_SERVE_WORK_H
#define SIM_WORKLOADS_SERVE_WORK_H

#include "holdfast.h"
#include "serve/core/core.h"
#include "sim/checkers/bank_checker.h"
#include "sim/run.h"
#include "sim/world/skew.h"

#define SERVE_CLIENTS_MAX 8 /* that use leases, ... */
#define SERVE_TELLERS_MAX 3 /* ... and that use transactions, of which some seeds have none */
#define SERVE_LEASE_KEYS  2
#define SERVE_MONEY_KEYS  4 /* of transactions; the first two are a pair */
#define SERVE_KEYS        (SERVE_LEASE_KEYS + SERVE_MONEY_KEYS)
#define SERVE_NODES_MAX   3
#define SERVE_CALLS_MAX   3
#define SERVE_KEPT_MAX    16
#define SERVE_INBOX_MAX   4096

/* This long after the fault-free phase begins, nothing of the faults is left. */
#define SERVE_SETTLE_US (INT64_C(200) * 1000000)
#define SERVE_SETTLE    SPAN_US(SERVE_SETTLE_US)

enum exchange_kind {
    EXCHANGE_ACQUIRE,
    EXCHANGE_KEEPALIVE,
    EXCHANGE_RELEASE,
    EXCHANGE_UPDATE,
    EXCHANGE_GET,
    EXCHANGE_BEGIN, /* a transaction */
    EXCHANGE_DECIDE,
    EXCHANGE_REPLAY,
};

enum exchange_state {
    EXCHANGE_SENT,     /* on its way to the server */
    EXCHANGE_OPEN,     /* the server has it */
    EXCHANGE_ANSWERED, /* the reply is on its way, or has arrived */
    EXCHANGE_BROKEN,   /* hung up, lost, refused, or its server ended */
};

/* One request, from its sending on. The struct lives as long as the run. */
struct exchange {
    uint64_t number; /* from 1; also in the note of the lease */
    struct serve_client *client;
    enum exchange_kind kind;
    enum exchange_state state;
    unsigned node;     /* the server, from 1 */
    unsigned instance; /* of the server, when the request arrived; 0: it has not */
    size_t key;
    bool waits;
    int64_t limit_us; /* of the wait; 0: none */
    int64_t ttl_ms;
    uint64_t id;      /* 0: no request id */
    uint64_t content; /* what the request is; the same in a retry */
    uint64_t place;   /* in the order in which requests arrived */
    int64_t wake_due; /* its lock was released: it is to be answered by then; 0: not so */
    char lease_id[CORE_LEASE_ID_SIZE + 1];
    int64_t sent_us, arrived_us, answered_us, broken_us;
    bool hung_up;    /* the server knows that its client has left */
    int64_t left_us; /* of the lease, when it was answered */
    struct core_result result;
    struct timer arrival, reply, hang_up;

    /* Of tellers. */
    char txn[HF_TXN_ID_SIZE + 1]; /* "": none; of a BEGIN, its result */
    bool rolls_back;              /* a release or a decision */
    uint64_t operation;           /* of an update: what it writes */
    int64_t balance;
    unsigned only; /* the instance to which it may be repeated; 0: any */
    /* Set by the server's worker. */
    enum hf_txn_state state_told;
    char text[64]; /* of a GET */
    size_t text_size;
    struct hf_key_info info;
    char freed[256]; /* names of keys, each followed by a NUL */
    size_t freed_size;
};

enum client_state {
    CLIENT_IDLE,
    CLIENT_ASKING,
    CLIENT_HOLDING,
    CLIENT_DEALING, /* a teller */
    CLIENT_ENDED,
};

#define DEAL_KEYS_MAX 3

enum deal_step { DEAL_BEGIN, DEAL_TAKE, DEAL_READ, DEAL_STAGE, DEAL_END, DEAL_AFTER };

/* What a teller is doing: it moves money between keys in a transaction, or writes the balance of
 * one key again under a lease. */
struct serve_deal {
    bool plain; /* without a transaction */
    size_t keys[DEAL_KEYS_MAX], count;
    int64_t change[DEAL_KEYS_MAX]; /* 0: the key is only read */
    bool of_pair;                  /* the first two keys are a pair, ... */
    int64_t out_of_it;             /* ... and lose this much together */
    enum deal_step step;
    size_t at; /* the key that comes next in this step */
    char txn[HF_TXN_ID_SIZE + 1];
    char lease_ids[DEAL_KEYS_MAX][CORE_LEASE_ID_SIZE + 1];
    int64_t balances[DEAL_KEYS_MAX];
    uint64_t operation; /* of the change under way; 0: none */
    bool twice;         /* it stages a wrong value first, which nobody must see */
    bool lost;          /* a try of the current request got no reply */
    bool commits;       /* what it asks for in the end */
    bool decided;       /* it knows the decision, ... */
    bool committed;     /* ... which is this one */
    struct exchange
        *sent;      /* a change or an acquire, which may arrive once more after the end */
    uint64_t began; /* of a read: the instant when it was sent */
};

/* A transaction that has a record. */
struct serve_txn {
    char id[HF_TXN_ID_SIZE + 1];
    struct serve_client *client;        /* NULL: none knows of it */
    int64_t until_us[SERVE_MONEY_KEYS]; /* its client relies on its lease until then; 0: none */
    bool asked_rollback;
    bool doubtful;                   /* it may have a key of which its client does not know */
    int64_t decided_us, answered_us; /* when somebody was first told the decision */
};

struct serve_client {
    struct serve_work *work;
    unsigned number;
    struct prng prng;
    enum client_state state;
    uint64_t left;            /* operations before the fault-free phase ... */
    uint64_t calm;            /* ... and during it */
    struct exchange *current; /* that it waits for; NULL: none */
    struct exchange *asked;   /* the acquire that was granted */
    uint64_t retries;         /* of the current request */
    size_t key;
    uint64_t token;
    char lease_id[CORE_LEASE_ID_SIZE + 1];
    int64_t until_us; /* it relies on its lease until then */
    bool ending;      /* it has asked to release it */
    uint64_t uses;    /* of the lease that are left before the release */
    bool is_teller;
    struct serve_deal deal;
    struct timer timer;
};

/* An event for a server. */
struct serve_event {
    struct exchange *exchange;
    bool hangs_up;
};

/* A server, seen from outside. */
struct serve_node {
    struct serve_work *work;
    struct node *node;
    unsigned instance; /* that is running; 0: none */
    bool stopping;
    struct env_task *receiver; /* waits for an event; NULL: none does */
    struct serve_event inbox[SERVE_INBOX_MAX];
    size_t first, count; /* of a ring */
    struct node_watch watch;
};

struct serve_plan {
    unsigned nodes;
    unsigned clients; /* with the tellers, who are the last ones */
    unsigned tellers;
    struct skew skew;
    struct span poll;  /* the shortest pace of polls */
    struct span delay; /* of a message between a client and a server, at most */
    unsigned hang_up_every, lose_every; /* one in so many */
};

struct serve_checker;

struct serve_work {
    struct run *run;
    struct serve_plan plan;
    struct serve_checker *checker;
    struct bank_checker *bank; /* the keys of tellers */
    struct serve_txn *txns;
    size_t txn_count;
    struct serve_node nodes[SERVE_NODES_MAX + 1]; /* by number */
    struct serve_client clients[SERVE_CLIENTS_MAX + SERVE_TELLERS_MAX];
    struct exchange *exchanges;
    size_t exchange_count, exchange_max;
    unsigned instances; /* that were ever started */
    uint64_t ids;       /* request ids that were ever used */
    uint64_t arrivals;  /* requests that reached a server */
    unsigned ended;     /* clients */
};

static inline int64_t serve_now(const struct serve_work *work)
{
    return world_now_us(work->run->world);
}

/* Whether nothing of the faults is left. */
static inline bool serve_is_calm(const struct serve_work *work)
{
    return serve_now(work) >= work->run->calm_us + SERVE_SETTLE.us;
}

/* ---- serve_node.c -------------------------------------------------------------------- */

/* The program of a node. Its argument is the serve_work. */
void serve_program(struct node *node, void *argument);

/* Delivers an event. False: the server is down. */
bool serve_deliver(struct serve_node *server, struct exchange *exchange, bool hangs_up);

/* Wakes a server that is to end. */
void serve_wake(struct serve_node *server);

/* The process of a server has ended. */
void serve_node_ended(void *argument, struct node *node);

/* The names of the keys; those of the tellers are the last ones. */
extern const char *const serve_keys[SERVE_KEYS];

/* ---- serve_client.c ------------------------------------------------------------------ */

void serve_client_start(struct serve_client *client);

/* A number below `bound`, drawn by the client. */
uint64_t serve_below(struct serve_client *client, uint64_t bound);

/* Whether something happens that happens once in `count` times. */
bool serve_one_in(struct serve_client *client, uint64_t count);

/* The client has its next turn then. */
void serve_turn_after(struct serve_client *client, int64_t us);

/* A request for client->key at a server that is drawn, and its sending. */
struct exchange *serve_new_exchange(struct serve_client *client, enum exchange_kind kind);
void serve_send(struct exchange *exchange);

/* Sends it once more, with the same id. */
void serve_retry(struct serve_client *client, const struct exchange *earlier);

/* When the lease of an answer ends, for its client. */
int64_t serve_relied_until(const struct exchange *exchange);

/* ---- serve_teller.c ------------------------------------------------------------------ */

/* A teller begins its next operation; takes the next step of it; has got a reply; gets none. */
void serve_teller_start(struct serve_client *client);
void serve_teller_go_on(struct serve_client *client);
void serve_teller_told(struct serve_client *client, struct exchange *exchange);
void serve_teller_gives_up(struct serve_client *client, struct exchange *exchange);

/* Whether the request may be sent again. */
bool serve_teller_may_retry(const struct serve_client *client, const struct exchange *exchange);

/* ---- serve_txn_checker.c (see there) -------------------------------------------------- */

struct bucket_change;

/* NULL: there is no record with this id. */
struct serve_txn *serve_txn_find(struct serve_work *work, const char *id);

/* The store has applied a write. */
void serve_txn_record_changed(struct serve_work *work, const struct bucket_change *change);

/* The server is about to answer. */
void serve_txn_answers(struct serve_work *work, const struct exchange *exchange);

/* When nothing of the faults is left, from time to time. */
void serve_txn_look(struct serve_work *work);

/* The server has answered. */
void serve_reply(struct exchange *exchange);

/* The connection broke before the answer. */
void serve_break(struct exchange *exchange);

/* ---- serve_checker.c (see there) ------------------------------------------------------ */

struct serve_checker *serve_checker_new(struct serve_work *work);
void serve_checker_free(struct serve_checker *checker);

/* The server is about to answer. */
void serve_checker_answers(struct serve_checker *checker, const struct exchange *exchange);

/* A client got a grant, and relies on it. */
void serve_checker_relies(struct serve_checker *checker, const struct serve_client *client);

/* A client got a result for a lease that it relied on when it asked. */
void serve_checker_told(struct serve_checker *checker, const struct exchange *exchange);

/* The counts of a core, after an event. */
void serve_checker_counts(struct serve_checker *checker, const struct core_counts *counts);

void serve_checker_end(struct serve_checker *checker);

#endif
