/* SPDX-License-Identifier: Apache-2.0 */
/* request.h: one request. net_store.c creates a request from a node's call and takes its reply;
 * net.c decides what happens to the request in between. */
#ifndef SIM_WORLD_REQUEST_H
#define SIM_WORLD_REQUEST_H

#include "sim/world/net.h"

enum request_kind { REQUEST_GET, REQUEST_PUT, REQUEST_DELETE, REQUEST_LIST };

enum request_end {
    END_PENDING,
    END_REPLY,     /* the store's reply is in `call` */
    END_THROTTLED, /* definitely not done */
    END_ERROR,     /* the store reports an error: outcome unknown */
    END_SILENCE,   /* outcome unknown */
};

/* What the store does with a request that arrives. */
enum request_fate {
    FATE_DONE,
    FATE_DONE_BUT_ERROR, /* done, but the store reports an error */
    FATE_ERROR,
    FATE_THROTTLED,
    FATE_REFUSED, /* not done, as if its condition were false */
};

struct request {
    struct net *net;
    struct node *node;
    struct request *next, *previous;
    struct request *next_of_call; /* the next request of the same batch, ... */
    size_t place_in_call;         /* ... and this request's index in the batch */
    uint64_t number;
    struct prng prng; /* decides what happens to it */
    uint32_t life;    /* the incarnation of its node, ... */
    int64_t sent_us;  /* ... and when it was sent */
    enum request_kind kind;
    union {
        struct get_call get;
        struct put_call put;
        struct delete_call remove;
        struct list_call list;
    } call;                /* the store's copy; all its data is in the world's memory */
    struct put_call *more; /* further puts, which the store applies with it as one */
    size_t more_count;
    struct buffer body;      /* the result of a get */
    struct env_task *client; /* the task that waits for the result; NULL: none */
    bool is_under_way;       /* its node is waiting for it */
    bool is_step;            /* its condition is known to be true */
    bool queued;             /* the store knows when it will handle it */
    enum request_fate fate;
    enum request_end end;
    bool answer_decided;    /* regardless of what the store still does with it */
    enum request_end reply; /* the result when the answer timer expires */
    int64_t timeout_us;
    struct span skew;      /* of the front end that it reaches */
    struct wall_time date; /* in the reply, ... */
    bool cached;           /* ... which came from a cache */
    bool lose_reply;
    bool noticed; /* its loss is noticed immediately */
    struct timer arrival;
    struct timer second_arrival;
    struct timer answer;
    size_t used;
    size_t room;
    char space[]; /* copies of the call's arguments */
};

/* Creates a request with room for copies of this many bytes. */
struct request *request_new(struct net *net, struct node *node, enum request_kind kind,
                            size_t room);
struct view request_keep(struct request *request, struct view bytes);

/* Sends the request; the running task is the one that waits for it. `deadline` is as in the
 * calls. */
void request_send(struct request *request, struct mono_time deadline);

/* Like request_send, but the request reaches the store immediately, because the store is on the
 * node's own machine. */
void request_step(struct request *request, struct mono_time deadline);

/* Called when a task of the node is about to send a request. */
void net_decided(struct net *net, struct node *node);

/* Blocks the task until the request has ended. */
void request_await(struct request *request);

/* Called when the node no longer needs the request. */
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
