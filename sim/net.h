/* net.h: the way between nodes and the store, and everything that can go wrong on it.
 *
 * A call of a node becomes a request in the world's memory. It arrives at the store after a
 * while, takes effect there, and the reply travels back; each leg may be lost, late or doubled,
 * as the plan's chances and the seed decide. A request that has left lives on when its node
 * crashes or gives up. The node learns one of three things: what the store said; that nothing
 * was done (UNAVAILABLE: throttled); or nothing, after its time-out or by an error that says
 * nothing, which is UNSURE for a write and UNAVAILABLE for a read.
 *
 * To add a fault: a row in NET_FAULT_TABLE (fault.h), a chance in net_plan, and the place in net.c
 * where the journey of a request is decided. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim/bucket.h"
#include "sim/fault.h"

#define FRONT_ENDS_MAX 16

/* Chances are out of a million and for each request. Spans are the most: delays are drawn evenly,
 * all others of any size (draw.h). */
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
    uint32_t throttle_chance;   /* 503, certainly not done */
    uint32_t busy_chance;       /* 503 that the node cannot tell from 500; not done */
    uint32_t error_chance;      /* 500, not done */
    uint32_t error_done_chance; /* 500, of a write that is done */
    uint32_t refuse_chance; /* 409: a conditional write is refused since another is under way */
    uint32_t resend_chance; /* a proxy sends the write again, and passes on the second reply */
    uint32_t cached_date_chance; /* of a read: from now on dates are old, and say so */
    uint32_t lying_date_chance;  /* the reply's date is old: outside of what is assumed */
    struct span stale_max;
};

/* Nothing goes wrong. */
#define NET_PLAN_CALM ((struct net_plan){ .delay_min = SPAN_US(500), .delay_max = SPAN_MS(20) })

/* Everything goes wrong now and then. */
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

/* After world_stop and before world_free. Requests under way are forgotten. */
void net_free(struct net *net);

struct bucket *net_bucket(struct net *net);

/* From now on; what is under way keeps its fate. */
void net_set_plan(struct net *net, const struct net_plan *plan);

/* Cuts a node off from the store, or connects it again: what leaves, and what arrives,
 * meanwhile is lost. */
void net_cut(struct net *net, struct node *node, bool cut);

/* The store throttles nearly everybody, until it is told to stop. */
void net_throttle(struct net *net, bool throttles);

/* The store's clock jumps. */
void net_step_clock(struct net *net, struct span by);

/* Which faults may happen and how many did, of nodes too: chaos.h counts there. */
struct faults *net_faults(struct net *net);

uint64_t net_request_count(const struct net *net);

/* Whether a task of the node waits for an answer. */
bool net_is_busy(const struct net *net, const struct node *node);

/* ---- The moments of a call, for whoever wants to strike there ------------------------- */

enum call_moment {
    CALL_DECIDED,  /* the node is about to send: nothing has left; its task runs */
    CALL_LEFT,     /* the request is on its way; the task runs that is going to wait for it */
    CALL_ANSWERED, /* the reply has arrived, and the node not yet been told; no task runs */
};

/* `number` is the request's, from 1; 0 where it has none yet. Returns whether the node has crashed,
 * if it returns at all: node_crash of the running task's node does not. */
struct call_watch {
    bool (*at)(void *argument, struct node *node, enum call_moment moment, uint64_t number);
    void *argument;
};
void net_set_call_watch(struct net *net, const struct call_watch *watch);

/* Of the write that takes effect at this moment: whose it is, of which of its lives, and since when
 * it has been on its way. `node` is NULL when no node made it. */
struct net_sender {
    struct node *node;
    uint32_t life;
    int64_t sent_us;
};
struct net_sender net_sender(const struct net *net);

/* Requests whose record is still kept: under way, or not yet taken note of. */
size_t net_open_requests(const struct net *net);

/* A store as the node sees it, in the node's memory; to be called by a task of the node, and
 * closed by store_close. NULL without memory. */
struct store *net_store_open(struct net *net, struct node *node);

#endif
