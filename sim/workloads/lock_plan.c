/* SPDX-License-Identifier: Apache-2.0 */
/* lock_plan.c: draws the accuracy of the clocks in a seed's world, and what its clients assume
 * about them. */
#include "sim/workloads/lock_work.h"

/* By how much clocks may run faster or slower than assumed, in seeds that violate the
 * assumptions. */
#define DRIFT_BEYOND_PPM 100000

/* The weight of wall-clock steps among the faults, in seeds where only the wall clock steps. */
#define LOCAL_WALL_STEPS 6

/* Makes the world violate the assumptions in one way or another. Only properties that do not depend
 * on clocks are then checked. */
static void go_beyond(struct lock_plan *plan, struct prng *prng)
{
    plan->exclusion = plan->store_time = false;
    plan->skew_tolerance_ms = 4000;
    switch (prng_below(prng, 3)) {
    case 0:
        plan->skew_tolerance_ms = 1000;
        plan->store_step_max = SPAN_S(60);
        break;
    case 1: plan->lying_dates = true; break;
    default: plan->drift_ppm_max = DRIFT_BEYOND_PPM;
    }
}

struct lock_plan lock_plan_draw(const struct world *world)
{
    static const int64_t ttls_ms[] = { 1500, 1500, 5000, 12000 };
    static const uint32_t caches[] = { 10000, 10000, 10000, 700000 };
    struct prng prng = world_stream(world, STREAM_WORKLOAD);
    struct lock_plan plan = { .exclusion = true, .store_time = true };
    plan.ttl_ms_max = ttls_ms[prng_below(&prng, 4)];
    plan.ttl_max_ms = 5000 + (int64_t)prng_below(&prng, 5000);
    if (plan.ttl_max_ms < plan.ttl_ms_max)
        plan.ttl_max_ms = plan.ttl_ms_max;
    plan.cached_date_chance = caches[prng_below(&prng, 4)];
    plan.apart = prng_below(&prng, 2) == 0;
    plan.all_again = prng_below(&prng, 6) == 0;
    switch (prng_below(&prng, 8)) {
    case 0: /* as on AWS: front ends agree within half a second */
    case 1:
        plan.skew_tolerance_ms = 2000;
        plan.skew_max = SPAN_MS(250);
        plan.store_step_max = SPAN_MS(50);
        break;
    case 2:
    case 3: /* front ends differ by at most two seconds, plus a few small steps */
        plan.skew_tolerance_ms = 4000;
        plan.store_step_max = SPAN_MS(400);
        break;
    case 4:
    case 5:
        plan.skew_tolerance_ms = 30000;
        plan.skew_max = SPAN_MS(7400);
        plan.store_step_max = SPAN_S(2);
        break;
    case 6:
        plan.observed = true;
        plan.store_time = false;
        plan.store_step_max = SPAN_S(3600);
        plan.lying_dates = true;
        break;
    default: go_beyond(&plan, &prng);
    }
    return plan;
}

/* On a store without a clock, only wall clocks can be misleading. */
void lock_work_tune(struct run *run, struct plans *plans)
{
    struct lock_plan plan = lock_plan_draw(run->world);
    plans->chaos.store_step_max = plan.store_step_max;
    plans->apart = plan.apart;
    if (plans->net.bucket.clock == STORE_CLOCK_BOOT && plans->chaos.until.us > 0)
        plans->chaos.weight[CHAOS_WALL_STEP] = LOCAL_WALL_STEPS;
    if (plan.skew_max.us > 0)
        plans->net.skew_max = plan.skew_max;
    if (plan.drift_ppm_max > 0)
        plans->nodes.drift_ppm_max = plan.drift_ppm_max;
    if (plans->chaos.until.us > 0)
        plans->net.plan.cached_date_chance = plan.cached_date_chance;
    if (!plan.lying_dates)
        plans->net.plan.lying_date_chance = 0;
}
