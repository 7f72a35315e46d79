/* chaos.h: what happens to nodes and clocks while a workload runs, until the calm. Each fault
 * ends by itself: who crashed starts again, who was paused goes on, who was cut off is
 * connected. A node suffers one at a time. After the calm nothing new goes wrong, on the
 * network neither, so that work must come to its end.
 *
 * To add a fault: a row in CHAOS_TABLE, a weight in chaos_plan, a case in chaos.c. */
#ifndef SIM_CHAOS_H
#define SIM_CHAOS_H

#include "sim/net.h"

/* Each fault, in the words of the summary. */
#define CHAOS_TABLE(ROW)                  \
    ROW(CRASH, "crashes")                 \
    ROW(REBOOT, "machine reboots")        \
    ROW(PAUSE, "pauses")                  \
    ROW(SUSPEND, "suspends")              \
    ROW(CUT, "partitions")                \
    ROW(WALL_STEP, "steps of a calendar") \
    ROW(STORE_STEP, "steps of the store's clock")

#define CHAOS_ENUM_(name, text) CHAOS_##name,
enum chaos_fault { CHAOS_TABLE(CHAOS_ENUM_) CHAOS_FAULT_COUNT };
#undef CHAOS_ENUM_

struct chaos_plan {
    struct span gap_max;                /* between two faults, drawn evenly */
    struct span until;                  /* true time of the calm */
    uint32_t weight[CHAOS_FAULT_COUNT]; /* how likely each is among all; all 0: no chaos */
    struct span down_max;               /* crash and reboot */
    struct span pause_max;
    struct span suspend_max;
    struct span cut_max;
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
                                      [CHAOS_WALL_STEP] = 1,    \
                                      [CHAOS_STORE_STEP] = 1 }, \
                          .down_max = SPAN_S(60),               \
                          .pause_max = SPAN_S(60),              \
                          .suspend_max = SPAN_S(3600),          \
                          .cut_max = SPAN_S(60),                \
                          .wall_step_max = SPAN_S(86400),       \
                          .store_step_max = SPAN_S(2) })

struct chaos;

/* For the nodes that exist; starts at once. */
struct chaos *chaos_new(struct world *world, struct net *net, const struct chaos_plan *plan);

/* Before the network and the world. */
void chaos_free(struct chaos *chaos);

uint64_t chaos_fault_count(const struct chaos *chaos, enum chaos_fault fault);
const char *chaos_fault_text(enum chaos_fault fault);

#endif
