/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: converts between true time and a clock with its own start and drift. It uses only
 * integers, so every machine computes the same results. */
#include "sim/world/clock.h"

#define SECOND_US CLOCK_SECOND_US

int64_t clock_when(const struct sim_clock *clock, int64_t local_us)
{
    int64_t wanted = local_us - clock->local_base_us;
    if (wanted <= 0)
        return clock->true_base_us;
    /* elapsed = wanted / (1 + ppm / 10^6), again in two parts, then corrected to the exact
     * microsecond. */
    int64_t rate = SECOND_US + clock->drift_ppm;
    int64_t elapsed = wanted / rate * SECOND_US + wanted % rate * SECOND_US / rate;
    while (elapsed + clock_gained(elapsed, clock->drift_ppm) < wanted)
        elapsed++;
    while (elapsed > 0 && elapsed - 1 + clock_gained(elapsed - 1, clock->drift_ppm) >= wanted)
        elapsed--;
    return clock->true_base_us + elapsed;
}

void clock_set_drift(struct sim_clock *clock, int64_t true_us, int64_t drift_ppm)
{
    check(drift_ppm >= -CLOCK_DRIFT_PPM_MAX && drift_ppm <= CLOCK_DRIFT_PPM_MAX);
    int64_t local = clock_at(clock, true_us);
    *clock = (struct sim_clock){ true_us, local, drift_ppm };
}
