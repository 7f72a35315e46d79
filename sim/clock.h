/* clock.h: a clock that started somewhere and runs a little fast or slow. Integers only, so
 * that every machine computes the same. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "base/check.h"

#include <stdint.h>

#define CLOCK_SECOND_US     1000000
#define CLOCK_DRIFT_PPM_MAX 500000

struct sim_clock {
    int64_t true_base_us;  /* at this true time ... */
    int64_t local_base_us; /* ... it showed this, */
    int64_t drift_ppm;     /* and it gains so many microseconds a second since */
};

/* Whole seconds and the rest apart: the product stays small for every length of time. */
static inline int64_t clock_gained(int64_t elapsed_us, int64_t drift_ppm)
{
    int64_t rest_us = elapsed_us % CLOCK_SECOND_US;
    return elapsed_us / CLOCK_SECOND_US * drift_ppm + rest_us * drift_ppm / CLOCK_SECOND_US;
}

/* What it shows at a true time, which must not lie before true_base_us. Never runs backwards.
 */
static inline int64_t clock_at(const struct sim_clock *clock, int64_t true_us)
{
    int64_t elapsed = true_us - clock->true_base_us;
    check(elapsed >= 0);
    return clock->local_base_us + elapsed + clock_gained(elapsed, clock->drift_ppm);
}

/* The first true time at which it shows `local_us` or more; true_base_us if it always did. */
int64_t clock_when(const struct sim_clock *clock, int64_t local_us);

/* Changes the drift from now on, without a step. */
void clock_set_drift(struct sim_clock *clock, int64_t true_us, int64_t drift_ppm);

#endif
