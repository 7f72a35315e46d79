/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h: draws durations from a random sequence. */
#ifndef SIM_WORKLOADS_DRAW_H
#define SIM_WORKLOADS_DRAW_H

#include "base/moment.h"
#include "base/prng.h"

/* Draws uniformly from [0, limit]. */
static inline int64_t draw_up_to(struct prng *prng, struct span limit)
{
    return (int64_t)prng_below(prng, (uint64_t)limit.us + 1);
}

/* Draws uniformly from [-limit, limit]. */
static inline struct span draw_either_way(struct prng *prng, struct span limit)
{
    return SPAN_US(draw_up_to(prng, SPAN_US(2 * limit.us)) - limit.us);
}

/* Draws a duration from [0, limit], of any order of magnitude: it is below a thousandth of the
 * limit about as often as above half of it. With a limit of an hour, minutes and seconds are common
 * too. This matters, because most races need short durations. */
static inline int64_t draw_of_any_size(struct prng *prng, struct span limit)
{
    int64_t most = limit.us >> prng_below(prng, 12);
    return draw_up_to(prng, SPAN_US(most));
}

#endif
