/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: a clock with its own start that runs slightly fast or slow. It uses only integers, so
 * every machine computes the same results. */
#ifndef SIM_WORLD_CLOCK_H
#define SIM_WORLD_CLOCK_H

#include "base/check.h"

#include <stdint.h>

#define CLOCK_SECOND_US     1000000
#define CLOCK_DRIFT_PPM_MAX 500000

struct sim_clock {
    int64_t true_base_us;  /* at this true time ... */
    int64_t local_base_us; /* ... it showed this, */
    int64_t drift_ppm;     /* and has since gained this many microseconds per second */
};

/* Whole seconds and the remainder are computed separately, so the product never overflows. */
static inline int64_t clock_gained(int64_t elapsed_us, int64_t drift_ppm)
{
    int64_t rest_us = elapsed_us % CLOCK_SECOND_US;
    return elapsed_us / CLOCK_SECOND_US * drift_ppm + rest_us * drift_ppm / CLOCK_SECOND_US;
}

/* The clock's reading at a true time, which must not be before true_base_us. The clock never runs
 * backwards. */
static inline int64_t clock_at(const struct sim_clock *clock, int64_t true_us)
{
    int64_t elapsed = true_us - clock->true_base_us;
    check(elapsed >= 0);
    return clock->local_base_us + elapsed + clock_gained(elapsed, clock->drift_ppm);
}

/* The first true time at which the clock shows `local_us` or more; true_base_us if it always
 * did. */
int64_t clock_when(const struct sim_clock *clock, int64_t local_us);

/* Changes the drift from now on, without a step. */
void clock_set_drift(struct sim_clock *clock, int64_t true_us, int64_t drift_ppm);

#endif
