/* SPDX-License-Identifier: Apache-2.0 */
/* bank_plan.c: draws the world of a seed for workload `bank`. The world stays within the
 * assumptions. D and hours are short, so records and tables are purged while other nodes are
 * working. */
#include "sim/workloads/bank_work.h"

/* More pauses than in other workloads, between any two requests of a transaction. */
#define CRASH_AT_CALL_CHANCE 4000
#define PAUSE_AT_CALL_CHANCE 6000

/* For nodes that are to pause between two requests while others work. */
#define PAUSE_OFTEN_CHANCE 100000

/* A request may be sent after a pause and a suspension, be slow, and then take effect late. D is
 * longer than all of these delays together. */
#define PAUSE_MAX   SPAN_S(15)
#define SUSPEND_MAX SPAN_S(15)
#define SLOW_MAX    SPAN_S(8)
#define LATE_MAX    SPAN_S(12)
#define DOWN_MAX    SPAN_S(20)
#define CUT_MAX     SPAN_S(30)
#define LATE_BOUND  SPAN_S(100)
#define UNTIL       SPAN_S(400)

/* A change times out after ten seconds, and the deletes that follow it after two more. */
#define LONG_TTL_MS     25000
#define CUT_IN_US       150000
#define CUT_LENGTH_MIN  SPAN_MS(8000)
#define CUT_LENGTH_MORE SPAN_MS(4500)
#define CUT_EVERY       5

/* The maximum wall clock error, in seeds in which the hours are counted on wall clocks. */
#define WALL_OFF SPAN_S(20)

const char *const bank_keys[BANK_KEYS] = { "a/x", "a/y", "b/x",   "b/y", "c/x",
                                           "c/y", "jar", "purse", "tin", "till" };

struct bank_plan bank_plan_draw(const struct world *world)
{
    static const int64_t ttls_ms[] = { 1500, 3000, 6000, 10000 };
    static const int64_t hours_s[] = { 30, 30, 60, 60 };
    struct prng prng = world_stream(world, STREAM_WORKLOAD);
    struct bank_plan plan = { .late_bound = LATE_BOUND };
    plan.pairs = 1 + (size_t)prng_below(&prng, BANK_PAIRS);
    plan.others = 1 + (size_t)prng_below(&prng, BANK_KEYS - 2 * BANK_PAIRS);
    plan.ttl_ms = ttls_ms[prng_below(&prng, 4)];
    plan.skew = skew_draw(&prng);
    plan.apart = prng_below(&prng, 2) == 0;
    plan.wild_calendars = prng_below(&prng, 4) == 0;
    plan.both_hands = prng_below(&prng, 4) == 0;
    uint64_t hands = prng_below(&prng, 4);
    plan.slow_hands = hands == 0;
    plan.fast_hands = hands == 1;
    plan.fat = prng_below(&prng, 3) == 0;
    plan.joins = 4 + (unsigned)prng_below(&prng, 12);
    plan.sweeps = 4 + (unsigned)prng_below(&prng, 12);
    plan.hour = SPAN_S(hours_s[prng_below(&prng, 4)]);
    plan.cuts = prng_below(&prng, 4) == 0;
    if (plan.cuts) /* so that a lease outlives its holder's timeout */
        plan.ttl_ms = LONG_TTL_MS;
    uint64_t what = prng_below(&prng, 8);
    plan.litters = what == 0;
    plan.crowds = what == 1;
    if (plan.litters) /* machines without a common clock restamp a record 16 times, then it stays */
        plan.apart = false;
    if (plan.litters || plan.crowds) {
        plan.pairs = plan.others = 1;
        plan.fast_hands = true;
        plan.slow_hands = false;
    }
    return plan;
}

void bank_tune(struct run *run, struct plans *plans)
{
    struct bank_plan plan = bank_plan_draw(run->world);
    plans->apart = plan.apart;
    skew_tune(&plan.skew, plans);
    plans->net.plan.slow_max = SLOW_MAX;
    plans->net.plan.late_max = LATE_MAX;
    plans->chaos.crash_at_call_chance = CRASH_AT_CALL_CHANCE;
    plans->chaos.pause_at_call_chance = PAUSE_AT_CALL_CHANCE;
    plans->chaos.pause_max = PAUSE_MAX;
    if (plan.crowds || plan.litters) {
        plans->chaos.onlookers = BANK_ONLOOKERS;
        plans->chaos.pause_onlooker_chance =
            plan.crowds ? PAUSE_OFTEN_CHANCE : PAUSE_AT_CALL_CHANCE;
    }
    if (plan.litters)
        plans->chaos.pause_at_call_chance = PAUSE_OFTEN_CHANCE;
    plans->chaos.suspend_max = SUSPEND_MAX;
    plans->chaos.down_max = DOWN_MAX;
    plans->chaos.cut_max = CUT_MAX;
    if (plans->chaos.until.us > 0)
        plans->chaos.until = UNTIL;
    if (plans->net.bucket.clock == STORE_CLOCK_BOOT && !plan.wild_calendars)
        plans->nodes.wall_off = plans->chaos.wall_step_max = WALL_OFF;
}

static void cut_or_connect(void *argument)
{
    struct bank_cut *cut = argument;
    struct world *world = cut->work->run->world;
    cut->is_cut = !cut->is_cut;
    net_cut(cut->work->run->net, cut->node, cut->is_cut);
    if (cut->is_cut)
        world_set_timer(world, &cut->timer, world_now_us(world) + cut->length_us,
                        cut_or_connect, cut);
}

void teller_maybe_be_cut(const struct teller *teller)
{
    struct bank_work *work = teller->work;
    const struct run *run = work->run;
    struct bank_cut *cut = &work->cuts[node_number(teller->node)];
    int64_t now_us = world_now_us(run->world);
    bool calm =
        run->options->calm || run->options->crash_at.request > 0 || now_us > run->calm_us;
    if (!work->plan.cuts || calm || timer_is_set(&cut->timer) ||
        !teller_one_in(teller, CUT_EVERY) || !fault_happens(net_faults(run->net), CHAOS_CUT))
        return;
    uint64_t more_us = teller_below(teller, (uint64_t)CUT_LENGTH_MORE.us);
    uint64_t soon_us = teller_below(teller, CUT_IN_US);
    cut->length_us = CUT_LENGTH_MIN.us + (int64_t)more_us;
    world_set_timer(run->world, &cut->timer, now_us + (int64_t)soon_us, cut_or_connect, cut);
}
