/* SPDX-License-Identifier: Apache-2.0 */
/* compact_plan.c: draws the world of a seed for workload `compact`. The world stays within the
 * assumptions: no clock is off by more than the tolerance, and no request takes effect later than D
 * after it was sent. */
#include "sim/workloads/compact_work.h"

#define HOUR_MS INT64_C(3600000)

/* A request may be sent two hours after its decision, be slow for an hour, and take effect another
 * hour late. Half of D must be longer than that. */
#define LATE_BOUND_MS (9 * HOUR_MS)
#define STANDSTILL    SPAN_S(2 * 3600 + 600)

/* Deletion markers are kept for twice D. So in seeds with deletions, nothing takes that long: a
 * process stops for a few seconds, a request is slow or late for a few seconds, and the faults last
 * several times D. */
#define QUICK_LATE_MS    (60 * INT64_C(1000))
#define QUICK_STANDSTILL SPAN_S(20)
#define QUICK_STOP_MAX   SPAN_S(4)
#define QUICK_UNTIL      SPAN_S(1200)

static void draw_deletes(struct prng *prng, struct compact_plan *plan)
{
    plan->deletes = prng_below(prng, 3) == 0 && plan->latest_wins;
    plan->drops = prng_below(prng, 8) == 0;
    plan->discards = plan->adopts || prng_below(prng, 4) == 0;
    plan->standstill = plan->deletes ? QUICK_STANDSTILL : STANDSTILL;
    if (!plan->deletes)
        return;
    struct compact_settings *settings = &plan->settings;
    settings->deleted = VIEW("3");
    settings->late_bound_ms = QUICK_LATE_MS;
    settings->group_max = 16;
    if (!plan->snapshots)
        settings->grace_ms = (20 + (int64_t)prng_below(prng, 300)) * 1000;
    if (settings->retention_ms > 0)
        settings->retention_ms = 200 * INT64_C(1000);
    plan->splits = plan->splits && prng_below(prng, 3) == 0;
    plan->sleepers = false;
    plan->restores = prng_below(prng, 3) == 0;
    if (plan->restores) { /* what retention takes can be undeleted until markers are old */
        settings->retention_ms = 200 * INT64_C(1000);
        settings->grace_ms = (250 + (int64_t)prng_below(prng, 200)) * 1000;
    }
}

/* Readers are often paused between two requests, and the others have time to delete meanwhile. */
#define PAUSE_READER_CHANCE 60000
#define READERS_UNTIL       SPAN_S(300)

static struct compact_settings draw_settings(struct prng *prng)
{
    static const int64_t ttls_ms[] = { 1500, 3000, 6000, 10000 };
    static const int64_t graces_ms[] = { 4000, 10000, 20000, 40000 };
    struct compact_settings settings = compact_settings_default();
    settings.format = HF_MERGE_CSV;
    settings.headless = true;
    settings.key = VIEW("1");
    settings.policy = prng_below(prng, 4) == 0 ? HF_COMPACT_CASCADE : HF_COMPACT_LEVELS;
    settings.level0_count = 2 + prng_below(prng, 3);
    settings.level1_bytes = ROW_BYTES * (4 + prng_below(prng, 40));
    settings.level_factor = 2 + prng_below(prng, 3);
    settings.cascade_base = 2 + prng_below(prng, 3);
    settings.group_max = 3 + prng_below(prng, 6);
    settings.ttl_ms = ttls_ms[prng_below(prng, 4)];
    settings.grace_ms = graces_ms[prng_below(prng, 4)];
    settings.late_bound_ms = LATE_BOUND_MS;
    settings.retention_ms = prng_below(prng, 4) == 0 ? 2 * HOUR_MS : 0;
    settings.tries_max = 2 + prng_below(prng, 2);
    settings.step_ms = 100 + (int64_t)prng_below(prng, 900);
    return settings;
}

struct compact_plan compact_plan_draw(const struct world *world)
{
    struct prng prng = world_stream(world, STREAM_WORKLOAD);
    struct compact_plan plan = { .settings = draw_settings(&prng) };
    plan.latest_wins = prng_below(&prng, 2) == 0;
    plan.settings.time = VIEW("2");
    if (!plan.latest_wins) /* all rows, in time order */
        plan.settings.key = (struct view){ NULL, 0 };
    plan.apart = prng_below(&prng, 2) == 0;
    plan.skew = skew_draw(&prng);
    plan.settings.skew_tolerance_ms = plan.skew.tolerance_ms;
    plan.killers = prng_below(&prng, 6) == 0 ? 1 : 0;
    plan.spoils = prng_below(&prng, 6) == 0;
    plan.splits = prng_below(&prng, 4) == 0;
    plan.sleepers = prng_below(&prng, 5) == 0;
    plan.fscks = prng_below(&prng, 3) == 0;
    plan.mergers_fail = prng_below(&prng, 4) == 0;
    plan.cut_max = prng_below(&prng, 2) == 0 ? SPAN_S(60) : SPAN_S(600);
    plan.cuts = prng_below(&prng, 4) == 0;
    plan.all_drain = prng_below(&prng, 5) == 0;
    plan.both_hands = prng_below(&prng, 4) == 0;
    plan.snapshots = prng_below(&prng, 4) == 0;
    if (plan.snapshots) { /* deletes must happen while snapshots are taken and read */
        plan.settings.grace_ms = 4000;
        plan.settings.level0_count = 2;
        plan.splits = plan.splits || prng_below(&prng, 2) == 0;
    }
    if (plan.latest_wins && prng_below(&prng, 2) == 0) {
        /* Nearly all merges of merged chunks are divided. */
        plan.settings.output_max = ROW_BYTES * (2 + prng_below(&prng, 4));
        plan.settings.level0_count = 2;
        plan.settings.level1_bytes = ROW_BYTES * (3 + prng_below(&prng, 6));
    }
    plan.adopts = prng_below(&prng, 3) == 0;
    draw_deletes(&prng, &plan);
    if (prng_below(&prng, 5) == 0) /* the first try of a group may be the last one */
        plan.settings.tries_max = 1;
    return plan;
}

void compact_tune(struct run *run, struct plans *plans)
{
    struct compact_plan plan = compact_plan_draw(run->world);
    plans->apart = plan.apart;
    skew_tune(&plan.skew, plans);
    plans->chaos.cut_max = plan.cut_max;
    if (plan.snapshots) {
        plans->chaos.onlookers = COMPACT_READERS;
        plans->chaos.pause_onlooker_chance = PAUSE_READER_CHANCE;
        if (plans->chaos.until.us > 0)
            plans->chaos.until = READERS_UNTIL;
    }
    if (plan.deletes) {
        plans->net.plan.slow_max = plans->net.plan.late_max = QUICK_STOP_MAX;
        plans->chaos.pause_max = plans->chaos.suspend_max = QUICK_STOP_MAX;
        if (plans->chaos.until.us > 0)
            plans->chaos.until = QUICK_UNTIL;
    }
    if (plans->net.bucket.clock == STORE_CLOCK_BOOT) /* file times use this wall clock too */
        plans->nodes.wall_off = SPAN_S(60);
}
