/* SPDX-License-Identifier: Apache-2.0 */
/* net.h: the network between nodes and the store, and its faults.
 *
 * A node's call becomes a request in the world's memory. After a while the request arrives at the
 * store and takes effect, and the reply travels back. In either direction, it may be lost, delayed
 * or duplicated, depending on the plan's probabilities and the seed. A request that was sent
 * continues even if its node crashes or gives up. The node gets one of three results. It gets the
 * store's reply; or UNAVAILABLE (throttled), which means that nothing was done; or, after a timeout
 * or an unspecific error, no information, which is UNSURE for a write and UNAVAILABLE for a read.
 *
 * To add a fault, add a row to NET_FAULT_TABLE (fault.h), a probability to net_plan, and code where
 * net.c decides what happens to a request. */
#ifndef SIM_WORLD_NET_H
#define SIM_WORLD_NET_H

#include "sim/faults/fault.h"
#include "sim/world/bucket.h"

#define FRONT_ENDS_MAX 16

/* Probabilities are per million, for each request. Spans are maximums. Delays are drawn uniformly,
 * all other durations from all orders of magnitude (draw.h). */
struct store_profile;

struct net_plan {
    struct span delay_min; /* one way */
    struct span delay_max;
    uint32_t slow_chance; /* for each direction */
    struct span slow_max;
    uint32_t request_lost_chance;
    uint32_t reply_lost_chance;
    uint32_t reset_chance; /* a loss is noticed immediately, not by timeout */
    uint32_t late_chance;  /* the node gets no reply, and the write is applied later */
    struct span late_max;
    uint32_t throttle_chance;   /* a 503; definitely not done */
    uint32_t busy_chance;       /* a 503 that looks like a 500; not done */
    uint32_t error_chance;      /* a 500; not done */
    uint32_t error_done_chance; /* a 500 for a write that was done */
    uint32_t refuse_chance;     /* a 409: a conditional write is refused during another one */
    uint32_t resend_chance; /* a proxy sends the write again, and passes on the second reply */
    uint32_t cached_date_chance; /* from this read on, dates are old, and marked as such */
    uint32_t lying_date_chance;  /* the reply's date is older than clients assume */
    struct span stale_max;
    struct span service; /* the store handles one request after another, each in this time */
    const struct store_profile *profile; /* in place of the delays; NULL: none (profile.h) */
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
struct sessions *net_sessions(struct net *net);

/* Changes the plan from now on; requests in flight are not affected. */
void net_set_plan(struct net *net, const struct net_plan *plan);

/* Partitions a node from the store, or reconnects it. Requests and replies during the partition are
 * lost. */
void net_cut(struct net *net, struct node *node, bool cut);

/* Makes the store throttle nearly every request, until this is turned off. */
void net_throttle(struct net *net, bool throttles);

/* Steps the store's clock. */
void net_step_clock(struct net *net, struct span by);

/* Which faults may happen, and how many did. Node faults are included: chaos.c counts them here. */
struct faults *net_faults(struct net *net);

uint64_t net_request_count(const struct net *net);

/* Whether a task of the node is waiting for a reply. */
bool net_is_busy(const struct net *net, const struct node *node);

/* ---- The stages of a call, for injecting faults --------------------------------------- */

enum call_moment {
    CALL_DECIDED,  /* the node is about to send a request; its task is running */
    CALL_LEFT,     /* the request was sent; the task that will wait for it is running */
    CALL_ANSWERED, /* the reply has arrived, but the node has not seen it; no task is running */
};

/* `number` is the request's number, from 1, or 0 if it has none yet. The function returns whether
 * the node has crashed. It does not return if it crashes the node of the running task
 * (node_crash). */
struct call_watch {
    bool (*at)(void *argument, struct node *node, enum call_moment moment, uint64_t number);
    void *argument;
};
void net_set_call_watch(struct net *net, const struct call_watch *watch);

/* The sender of the write that is taking effect: the node, the node's incarnation, and when the
 * write was sent. `node` is NULL if no node sent it. */
struct net_sender {
    struct node *node;
    uint32_t life;
    int64_t sent_us;
};
struct net_sender net_sender(const struct net *net);

/* The number of requests that still exist: in flight, or with a result that the node has not taken
 * yet. */
size_t net_open_requests(const struct net *net);

/* Whether a write has arrived once and will arrive again. */
bool net_repeats_write(const struct net *net);

/* The store as the node sees it, in the node's memory. It must be used by the node's tasks only,
 * and closed with store_close. Returns NULL if memory runs out. */
struct store *net_store_open(struct net *net, struct node *node);

#endif
