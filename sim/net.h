/* net.h: the way between nodes and the store, and everything that can go wrong on it.
 *
 * A call of a node becomes a request in the world's memory. It arrives at the store after a
 * while, takes effect there, and the reply travels back; each leg may be lost, late or doubled,
 * as the plan's chances and the seed decide. A request that has left lives on when its node
 * crashes or gives up. The node learns one of three things: what the store said; that nothing
 * was done (UNAVAILABLE: throttled); or, after its time-out, nothing, which is UNSURE for a
 * write and UNAVAILABLE for a read.
 *
 * To add a fault: a row in NET_FAULT_TABLE, a chance in net_plan, and the place in net.c where
 * the journey of a request is decided. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim/bucket.h"

#define FRONT_ENDS_MAX 16

/* Every fault that the network knows: how the summary counts them, how the trace tells of one.
 */
#define NET_FAULT_TABLE(ROW)                                                                  \
    ROW(REQUEST_LOST, "requests lost", "gets lost on the way to the store")                   \
    ROW(REPLY_LOST, "replies lost after applying", "will be applied, and its reply get lost") \
    ROW(LATE_APPLY, "writes applied late", "is given up and will be applied late")            \
    ROW(SLOW, "messages slow", "is slow on its way")                                          \
    ROW(THROTTLED, "requests throttled", "is throttled, and not done")                        \
    ROW(RESENT, "writes sent twice by a proxy", "is sent twice by a proxy")                   \
    ROW(STALE_DATE, "stale dates", "is answered with a stale date")                           \
    ROW(PARTITIONED, "messages cut off by a partition", "is cut off by a partition")          \
    ROW(SLEPT_THROUGH, "replies lost to a suspended machine",                                 \
        "is answered while its machine is suspended: the reply gets lost")

#define NET_FAULT_ENUM_(name, count, one) NET_##name,
enum net_fault { NET_FAULT_TABLE(NET_FAULT_ENUM_) NET_FAULT_COUNT };
#undef NET_FAULT_ENUM_

/* Chances are out of a million and for each request; spans are the most, drawn evenly. */
struct net_plan {
    struct span delay_min; /* one way */
    struct span delay_max;
    uint32_t slow_chance; /* for each leg */
    struct span slow_max;
    uint32_t request_lost_chance;
    uint32_t reply_lost_chance;
    uint32_t reset_chance; /* of what is lost: the node notices at once, not by time-out */
    uint32_t late_chance;  /* the node is told nothing, and the write is applied later */
    struct span late_max;
    uint32_t throttle_chance;
    uint32_t resend_chance; /* a proxy sends the write again, and passes on the second reply */
    uint32_t stale_date_chance;
    struct span stale_max;
};

/* Nothing goes wrong. */
#define NET_PLAN_CALM ((struct net_plan){ .delay_min = SPAN_US(500), .delay_max = SPAN_MS(20) })

/* Everything goes wrong now and then. */
#define NET_PLAN_ROUGH                                \
    ((struct net_plan){ .delay_min = SPAN_US(500),    \
                        .delay_max = SPAN_MS(60),     \
                        .slow_chance = 20000,         \
                        .slow_max = SPAN_S(40),       \
                        .request_lost_chance = 30000, \
                        .reply_lost_chance = 30000,   \
                        .reset_chance = 500000,       \
                        .late_chance = 20000,         \
                        .late_max = SPAN_S(3600),     \
                        .throttle_chance = 20000,     \
                        .resend_chance = 20000,       \
                        .stale_date_chance = 10000,   \
                        .stale_max = SPAN_S(3600) })

struct net_options {
    struct bucket_options bucket;
    struct net_plan plan;
    unsigned front_ends;  /* 1 to FRONT_ENDS_MAX, ... */
    struct span skew_max; /* ... each with a clock that is off by up to this, either way */
};

#define NET_OPTIONS \
    ((struct net_options){ .bucket = BUCKET_OPTIONS, .plan = NET_PLAN_CALM, .front_ends = 1 })

struct net;

struct net *net_new(struct world *world, const struct net_options *options);

/* After world_stop and before world_free. Requests under way are forgotten. */
void net_free(struct net *net);

struct bucket *net_bucket(struct net *net);

/* From now on; what is under way keeps its fate. */
void net_set_plan(struct net *net, const struct net_plan *plan);

/* Cuts a node off from the store, or connects it again: what leaves, and what arrives,
 * meanwhile is lost. */
void net_cut(struct net *net, struct node *node, bool cut);

/* The store's clock jumps. */
void net_step_clock(struct net *net, struct span by);

uint64_t net_fault_count(const struct net *net, enum net_fault fault);
const char *net_fault_text(enum net_fault fault); /* as counted */
uint64_t net_request_count(const struct net *net);

/* Requests whose record is still kept: under way, or not yet taken note of. */
size_t net_open_requests(const struct net *net);

/* A store as the node sees it, in the node's memory; to be called by a task of the node, and
 * closed by store_close. NULL without memory. */
struct store *net_store_open(struct net *net, struct node *node);

#endif
