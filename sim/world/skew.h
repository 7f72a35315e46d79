/* SPDX-License-Identifier: Apache-2.0 */
/* skew.h: draws the clock errors of a store's front ends, within the limits that clients assume. */
#ifndef SIM_WORLD_SKEW_H
#define SIM_WORLD_SKEW_H

#include "sim/run.h"

struct skew {
    int64_t tolerance_ms; /* the tolerance that clients assume */
    struct span max, step_max;
};

static inline struct skew skew_draw(struct prng *prng)
{
    if (prng_below(prng, 2) == 0)
        return (struct skew){ 1000, SPAN_MS(150), SPAN_MS(20) };
    return (struct skew){ 4000, SPAN_MS(900), SPAN_MS(200) };
}

static inline void skew_tune(const struct skew *skew, struct plans *plans)
{
    plans->net.skew_max = skew->max;
    plans->net.plan.lying_date_chance = 0;
    plans->chaos.store_step_max = skew->step_max;
}

#endif
