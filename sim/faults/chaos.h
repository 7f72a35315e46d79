/* SPDX-License-Identifier: Apache-2.0 */
/* chaos.h: injects node and clock faults while a workload runs, until the fault-free phase at the
 * end. Faults occur at any time, or exactly when a request is sent or a reply arrives. Each fault
 * ends by itself: a crashed node starts again, a paused node continues, and a partitioned node is
 * reconnected. A node has one fault at a time. In the fault-free phase no new fault begins, not
 * even on the network, so all work must finish.
 *
 * To add a fault, add a row to CHAOS_TABLE (fault.h), a weight or a probability to
 * chaos_plan, and a case to chaos.c. */
#ifndef SIM_FAULTS_CHAOS_H
#define SIM_FAULTS_CHAOS_H

#include "sim/world/net.h"

/* A crash at one request of the run. */
struct crash_at {
    uint64_t request; /* its number, from 1 in the order of sending; 0: none */
    bool answered;    /* when its reply arrives, not when it is sent */
};

/* Spans are maximums. Except for the gap, values are drawn from all orders of magnitude
 * (draw.h). */
struct chaos_plan {
    struct span gap_max;          /* between two faults, drawn uniformly */
    struct span until;            /* true time when the fault-free phase begins; 0: at once */
    uint32_t weight[FAULT_COUNT]; /* relative weights; all 0: no faults at any time */
    /* Probabilities per million, for each call, once when it is sent and once when its reply
     * arrives. */
    uint32_t crash_at_call_chance;
    uint32_t pause_at_call_chance;
    /* Nodes from this number on (0: none) are paused with a separate probability. */
    unsigned onlookers;
    uint32_t pause_onlooker_chance;
    struct crash_at crash_at; /* also before the fault-free phase */
    struct span down_max;     /* for a crash or a reboot */
    struct span pause_max;
    struct span suspend_max;
    struct span cut_max;
    struct span burst_max;
    struct span wall_step_max;  /* in either direction */
    struct span store_step_max; /* in either direction */
};

#define CHAOS_PLAN_ROUGH                                        \
    ((struct chaos_plan){ .gap_max = SPAN_S(20),                \
                          .until = SPAN_S(120),                 \
                          .weight = { [CHAOS_CRASH] = 4,        \
                                      [CHAOS_REBOOT] = 1,       \
                                      [CHAOS_PAUSE] = 4,        \
                                      [CHAOS_SUSPEND] = 1,      \
                                      [CHAOS_CUT] = 3,          \
                                      [CHAOS_SPLIT] = 1,        \
                                      [CHAOS_BURST] = 1,        \
                                      [CHAOS_WALL_STEP] = 1,    \
                                      [CHAOS_STORE_STEP] = 1 }, \
                          .crash_at_call_chance = 2000,         \
                          .pause_at_call_chance = 3000,         \
                          .down_max = SPAN_S(60),               \
                          .pause_max = SPAN_S(60),              \
                          .suspend_max = SPAN_S(3600),          \
                          .cut_max = SPAN_S(60),                \
                          .burst_max = SPAN_S(20),              \
                          .wall_step_max = SPAN_S(86400),       \
                          .store_step_max = SPAN_S(2) })

/* A plan with a single crash. */
#define CHAOS_PLAN_CRASH_AT(at) \
    ((struct chaos_plan){ .until = SPAN_S(120), .crash_at = (at), .down_max = SPAN_S(60) })

struct chaos;

/* Creates faults for the nodes that exist now, starting immediately. */
struct chaos *chaos_new(struct world *world, struct net *net, const struct chaos_plan *plan);

/* How many requests had been sent when the fault-free phase began. */
uint64_t chaos_request_count(const struct chaos *chaos);

/* Must be called before the network and the world are freed. */
void chaos_free(struct chaos *chaos);

#endif
