/* SPDX-License-Identifier: Apache-2.0 */
/* request.h: one request. net_store.c creates it from a node's call and takes the reply;
 * net.c decides what happens to it in between. */
#ifndef SIM_WORLD_REQUEST_H
#define SIM_WORLD_REQUEST_H

#include "sim/world/net.h"

enum request_kind { REQUEST_GET, REQUEST_PUT, REQUEST_DELETE, REQUEST_LIST };

enum request_end {
    END_PENDING,
    END_REPLY,     /* the store's reply is in `call` */
    END_THROTTLED, /* certainly not done */
    END_ERROR,     /* the store reports an error: outcome unknown */
    END_SILENCE,   /* outcome unknown */
};

/* What the store does with a request that arrives. */
enum request_fate {
    FATE_DONE,
    FATE_DONE_BUT_ERROR, /* and reports an error */
    FATE_ERROR,
    FATE_THROTTLED,
    FATE_REFUSED, /* as if the condition did not hold */
};

struct request {
    struct net *net;
    struct node *node;
    struct request *next, *previous;
    struct request *next_of_call; /* those that one call of many makes, ... */
    size_t place_in_call;         /* ... and the number of its call */
    uint64_t number;
    struct prng prng; /* decides its fate */
    uint32_t life;    /* of its node, ... */
    int64_t sent_us;  /* ... when it was sent */
    enum request_kind kind;
    union {
        struct get_call get;
        struct put_call put;
        struct delete_call remove;
        struct list_call list;
    } call;                  /* as the store has it; all that it names is memory of the world */
    struct buffer body;      /* of a get */
    struct env_task *client; /* the task that waits for the end; NULL: none */
    bool is_under_way;       /* as its node sees it */
    bool is_step;            /* its condition holds for certain */
    enum request_fate fate;
    enum request_end end;
    bool answer_decided;    /* whatever the store still does with it */
    enum request_end reply; /* the result when the answer timer expires */
    int64_t timeout_us;
    struct span skew;      /* of the front end it reaches */
    struct wall_time date; /* on the reply ... */
    bool cached;           /* ... which a cache has given */
    bool lose_reply;
    bool noticed; /* its loss is noticed immediately */
    struct timer arrival;
    struct timer second_arrival;
    struct timer answer;
    size_t used;
    size_t room;
    char space[]; /* copies of the call's arguments */
};

/* With room for copies of this many bytes. */
struct request *request_new(struct net *net, struct node *node, enum request_kind kind,
                            size_t room);
struct view request_keep(struct request *request, struct view bytes);

/* On its way; the running task is the one that waits. `deadline` as in the calls. */
void request_send(struct request *request, struct mono_time deadline);

/* The same, but the request reaches the store immediately, because it is on the node's own
 * machine. */
void request_step(struct request *request, struct mono_time deadline);

/* A task of the node is about to send something. */
void net_decided(struct net *net, struct node *node);

/* Blocks the task until the request has ended. */
void request_await(struct request *request);

/* The node no longer needs the request. */
void request_let_go(struct request *request);

/* Registers the node, so the network learns when its process ends. May be called more than
 * once. */
void net_attach(struct net *net, struct node *node);

/* "put a/b if-match v7 (#12)" */
struct request_text {
    char text[256];
};
struct request_text request_text(const struct request *request);

#endif
