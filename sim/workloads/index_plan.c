/* SPDX-License-Identifier: Apache-2.0 */
/* index_plan.c: chooses the configuration of workload `index` by a seed. Clocks stay within the
 * assumptions, except wall clocks, which timestamp the records and may be years apart. */
#include "sim/workloads/index_work.h"

/* More pauses than in other workloads, between any two requests of a compiler. */
#define CRASH_AT_CALL_CHANCE 4000
#define PAUSE_AT_CALL_CHANCE 6000
#define PAUSE_MAX            SPAN_S(20)
#define DOWN_MAX             SPAN_S(20)

/* For readers that are to pause between two requests while others compile. */
#define SLOW_CHANCE       60000
#define PAUSE_BACK_CHANCE 150000
#define PAUSE_BACK_MAX    SPAN_S(4)

/* If keys are deleted, most requests arrive within D. */
#define LATE_MAX SPAN_S(3)

/* Three of these belong to one shard. */
#define FAT_KEYS 4

/* There are two or three keys per shard; the last key is too long for a name. */
struct view index_plan_key(size_t number)
{
    static const struct view keys[INDEX_KEYS - 1] = {
        { "a", 1 }, { "a/b", 3 },      { "b", 1 },          { "g", 1 },
        { "e", 1 }, { "\xc3\xa4", 2 }, { "two\nlines", 9 },
    };
#define HUNDRED                                                                                \
    "////////////////////////////////////////////////////////////////////////////////////////" \
    "/"                                                                                        \
    "///////////"
    return number < INDEX_KEYS - 1 ? keys[number] : VIEW("x" HUNDRED HUNDRED);
}

struct index_plan index_plan_draw(const struct run *run)
{
    static const int64_t ttls_ms[] = { 1500, 3000, 6000, 10000 };
    static const unsigned moments[] = { 2, 4, 30, 30 };
    static const unsigned calendars[] = { 2, 10, 10, 50 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    struct index_plan plan = { 0 };
    plan.keys = 1 + (size_t)prng_below(&prng, 4);
    if (prng_below(&prng, 4) == 0)
        plan.keys = INDEX_KEYS;
    plan.ttl_ms = ttls_ms[prng_below(&prng, 4)];
    plan.skew = skew_draw(&prng);
    plan.apart = prng_below(&prng, 2) == 0;
    plan.foreign = prng_below(&prng, 3) > 0;
    plan.malformed = prng_below(&prng, 3) == 0;
    plan.extends = prng_below(&prng, 3) == 0;
    plan.all_compile = prng_below(&prng, 4) == 0;
    plan.both_hands = prng_below(&prng, 4) == 0;
    plan.locks_vanish = prng_below(&prng, 12) == 0;
    plan.fat = prng_below(&prng, 8) == 0;
    if (plan.fat)
        plan.keys = FAT_KEYS;
    uint64_t lock = prng_below(&prng, 12);
    plan.lock = lock == 0 ? LOCK_OF_ANOTHER : lock == 1 ? LOCK_OF_GARBAGE : LOCK_ABSENT;
    plan.batch = 1 + (size_t)prng_below(&prng, 4);
    if (plan.fat)
        plan.batch = 1;
    plan.moments = moments[prng_below(&prng, 4)];
    plan.calendar = calendars[prng_below(&prng, 4)];
    plan.goes_back = plan.foreign && !plan.fat && prng_below(&prng, 6) == 0;
    if (plan.goes_back) { /* so that its records are the latest of all */
        plan.keys = 1;
        plan.moments = 2;
        plan.calendar = 1000;
    }
    plan.deletes = prng_below(&prng, 3) == 0;
    plan.plain = run->options->workload == &workload_plain;
    if (plan.plain)
        plan.deletes = prng_below(&prng, 2) == 0;
    return plan;
}

void index_tune(struct run *run, struct plans *plans)
{
    struct index_plan plan = index_plan_draw(run);
    plans->apart = plan.apart;
    skew_tune(&plan.skew, plans);
    plans->chaos.crash_at_call_chance = CRASH_AT_CALL_CHANCE;
    plans->chaos.pause_at_call_chance = PAUSE_AT_CALL_CHANCE;
    plans->chaos.pause_max = PAUSE_MAX;
    if (plan.goes_back) {
        plans->net.plan.slow_chance = SLOW_CHANCE;
        plans->chaos.pause_at_call_chance = PAUSE_BACK_CHANCE;
        plans->chaos.pause_max = PAUSE_BACK_MAX;
    }
    /* A request takes effect within D, or deletions are not kept for long enough. */
    if (plan.deletes)
        plans->net.plan.late_max = plans->net.plan.slow_max = LATE_MAX;
    plans->chaos.down_max = DOWN_MAX;
}
