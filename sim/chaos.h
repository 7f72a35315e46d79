/* chaos.h: what happens to nodes and clocks while a workload runs, until the calm: at any time, and
 * at the very moments at which a request leaves or a reply arrives. Each fault ends by itself: who
 * crashed starts again, who was paused goes on, who was cut off is connected. A node suffers one at
 * a time. After the calm nothing new goes wrong, on the network neither, so that work must come to
 * its end.
 *
 * To add a fault: a row in CHAOS_TABLE (fault.h), a weight or a chance in chaos_plan, a case in
 * chaos.c. */
#ifndef SIM_CHAOS_H
#define SIM_CHAOS_H

#include "sim/net.h"

/* One crash at one request of the run. */
struct crash_at {
    uint64_t request; /* as numbered from 1 in the order of sending; 0: none */
    bool answered;    /* when its reply arrives, and not when it has left */
};

/* Spans are the most, drawn of any size (draw.h) but for the gap. */
struct chaos_plan {
    struct span gap_max;          /* between two faults, drawn evenly */
    struct span until;            /* true time of the calm; 0: calm from the start */
    uint32_t weight[FAULT_COUNT]; /* how likely each is among all; all 0: none at any time */
    /* At each call, out of a million; and for each of its two moments. */
    uint32_t crash_at_call_chance;
    uint32_t pause_at_call_chance;
    /* Nodes from this number on (0: none) are paused with a chance of their own. */
    unsigned onlookers;
    uint32_t pause_onlooker_chance;
    struct crash_at crash_at; /* before the calm, too */
    struct span down_max;     /* crash and reboot */
    struct span pause_max;
    struct span suspend_max;
    struct span cut_max;
    struct span burst_max;
    struct span wall_step_max;  /* either way */
    struct span store_step_max; /* either way */
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

/* Nothing but one crash. */
#define CHAOS_PLAN_CRASH_AT(at) \
    ((struct chaos_plan){ .until = SPAN_S(120), .crash_at = (at), .down_max = SPAN_S(60) })

struct chaos;

/* For the nodes that exist; starts at once. */
struct chaos *chaos_new(struct world *world, struct net *net, const struct chaos_plan *plan);

/* How many requests had been sent when it became calm. */
uint64_t chaos_request_count(const struct chaos *chaos);

/* Before the network and the world. */
void chaos_free(struct chaos *chaos);

#endif
