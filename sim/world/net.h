/* SPDX-License-Identifier: Apache-2.0 */
/* net.h: the network between nodes and the store, and its faults.
 *
 * A node's call becomes a request in the world's memory. It arrives at the store after a
 * while, takes effect there, and the reply travels back. In either direction it may be lost,
 * late or duplicated, depending on the plan's probabilities and the seed. A request that was
 * sent continues even if its node crashes or gives up. The node gets one of three results:
 * the store's reply; UNAVAILABLE (throttled), which means that nothing was done; or no
 * information, after a timeout or an unspecific error, which is UNSURE for a write and
 * UNAVAILABLE for a read.
 *
 * To add a fault, add a row to NET_FAULT_TABLE (fault.h), a probability to net_plan, and
 * code where net.c decides what happens to a request. */
#ifndef SIM_WORLD_NET_H
#define SIM_WORLD_NET_H

#include "sim/faults/fault.h"
#include "sim/world/bucket.h"

#define FRONT_ENDS_MAX 16

/* Probabilities are per million, for each request. Spans are maximums: delays are drawn
 * uniformly, all others from all orders of magnitude (draw.h). */
struct net_plan {
    struct span delay_min; /* one way */
    struct span delay_max;
    uint32_t slow_chance; /* for each leg */
    struct span slow_max;
    uint32_t request_lost_chance;
    uint32_t reply_lost_chance;
    uint32_t reset_chance; /* of losses: noticed immediately, not by timeout */
    uint32_t late_chance;  /* the node gets no reply, and the write is applied later */
    struct span late_max;
    uint32_t throttle_chance;   /* 503, certainly not done */
    uint32_t busy_chance;       /* 503 that looks like a 500; not done */
    uint32_t error_chance;      /* 500, not done */
    uint32_t error_done_chance; /* 500, of a write that is done */
    uint32_t refuse_chance;     /* 409: a conditional write is refused during another one */
    uint32_t resend_chance; /* a proxy sends the write again, and passes on the second reply */
    uint32_t cached_date_chance; /* of a read: from now on dates are old, and say so */
    uint32_t lying_date_chance;  /* the reply's date is old, beyond what clients assume */
    struct span stale_max;
};

/* No faults. */
#define NET_PLAN_CALM ((struct net_plan){ .delay_min = SPAN_US(500), .delay_max = SPAN_MS(20) })

/* A plan in which every fault happens occasionally. */
#define NET_PLAN_ROUGH                                \
    ((struct net_plan){ .delay_min = SPAN_US(500),    \
                        .delay_max = SPAN_MS(60),     \
                        .slow_chance = 20000,         \
                        .slow_max = SPAN_S(3600),     \
                        .request_lost_chance = 30000, \
                        .reply_lost_chance = 30000,   \
                        .reset_chance = 500000,       \
                        .late_chance = 20000,         \
                        .late_max = SPAN_S(3600),     \
                        .throttle_chance = 20000,     \
                        .busy_chance = 10000,         \
                        .error_chance = 10000,        \
                        .error_done_chance = 10000,   \
                        .refuse_chance = 10000,       \
                        .resend_chance = 20000,       \
                        .cached_date_chance = 10000,  \
                        .lying_date_chance = 10000,   \
                        .stale_max = SPAN_S(3600) })

struct net_options {
    struct bucket_options bucket;
    struct net_plan plan;
    struct fault_limits limits;
    unsigned front_ends;  /* 1 to FRONT_ENDS_MAX, ... */
    struct span skew_max; /* ... each with a clock that is off by up to this, either way */
};

#define NET_OPTIONS                                  \
    ((struct net_options){ .bucket = BUCKET_OPTIONS, \
                           .plan = NET_PLAN_CALM,    \
                           .limits = FAULT_LIMITS,   \
                           .front_ends = 1 })

struct net;

struct net *net_new(struct world *world, const struct net_options *options);

/* Call this after world_stop and before world_free. Requests in flight are discarded. */
void net_free(struct net *net);

struct bucket *net_bucket(struct net *net);

/* Changes the plan from now on; requests in flight are not affected. */
void net_set_plan(struct net *net, const struct net_plan *plan);

/* Partitions a node from the store, or reconnects it. Requests and replies in between are lost. */
void net_cut(struct net *net, struct node *node, bool cut);

/* Makes the store throttle nearly every request, until this is turned off. */
void net_throttle(struct net *net, bool throttles);

/* The store's clock jumps. */
void net_step_clock(struct net *net, struct span by);

/* Which faults may happen and how many did, including node faults, which chaos.h counts
 * here. */
struct faults *net_faults(struct net *net);

uint64_t net_request_count(const struct net *net);

/* Whether a task of the node is waiting for a reply. */
bool net_is_busy(const struct net *net, const struct node *node);

/* ---- The stages of a call, for injecting faults --------------------------------------- */

enum call_moment {
    CALL_DECIDED,  /* the node is about to send; nothing was sent yet; its task runs */
    CALL_LEFT,     /* the request is on its way; the task runs that is going to wait for it */
    CALL_ANSWERED, /* the reply has arrived, the node has not seen it; no task runs */
};

/* `number` is the request's, from 1; 0 where it has none yet. Returns whether the node has crashed,
 * if it returns at all: node_crash of the running task's node does not. */
struct call_watch {
    bool (*at)(void *argument, struct node *node, enum call_moment moment, uint64_t number);
    void *argument;
};
void net_set_call_watch(struct net *net, const struct call_watch *watch);

/* For the write that takes effect now: the node that sent it, in which of its lives, and when
 * it was sent. `node` is NULL if no node sent it. */
struct net_sender {
    struct node *node;
    uint32_t life;
    int64_t sent_us;
};
struct net_sender net_sender(const struct net *net);

/* The number of requests that are still kept: in flight, or not yet noticed by their node. */
size_t net_open_requests(const struct net *net);

/* Whether a write has arrived once and will arrive again. */
bool net_repeats_write(const struct net *net);

/* A store as the node sees it, in the node's memory. It must be used by a task of the node,
 * and closed by store_close. NULL if memory runs out. */
struct store *net_store_open(struct net *net, struct node *node);

#endif
