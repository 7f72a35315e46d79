/* SPDX-License-Identifier: Apache-2.0 */
/* serve_work.h: the workload `serve`: servers (the core, the calls and the library on the simulated
 * store), and clients that reach them through connections that are slow, break and are closed.
 *
 * A node is a server. Clients are not nodes: they are state machines in the world's memory, with
 * perfect clocks, and survive every server. A request and its reply are an exchange. */
#ifndef SIM_WORKLOADS_SERVE_WORK_H
#define SIM_WORKLOADS_SERVE_WORK_H

#include "serve/core/core.h"
#include "sim/run.h"
#include "sim/world/skew.h"

#define SERVE_CLIENTS_MAX 8
#define SERVE_KEYS        2
#define SERVE_NODES_MAX   3
#define SERVE_CALLS_MAX   3
#define SERVE_KEPT_MAX    16
#define SERVE_INBOX_MAX   4096

/* This long after the fault-free phase begins, nothing of the faults is left. */
#define SERVE_SETTLE_US (INT64_C(200) * 1000000)
#define SERVE_SETTLE    SPAN_US(SERVE_SETTLE_US)

enum exchange_kind { EXCHANGE_ACQUIRE, EXCHANGE_KEEPALIVE, EXCHANGE_RELEASE, EXCHANGE_UPDATE };

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
};

enum client_state { CLIENT_IDLE, CLIENT_ASKING, CLIENT_HOLDING, CLIENT_ENDED };

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
    unsigned nodes, clients;
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
    struct serve_node nodes[SERVE_NODES_MAX + 1]; /* by number */
    struct serve_client clients[SERVE_CLIENTS_MAX];
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

/* ---- serve_client.c ------------------------------------------------------------------ */

void serve_client_start(struct serve_client *client);

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
