/* draw.h: how spans are drawn from a sequence. */
#ifndef SIM_DRAW_H
#define SIM_DRAW_H

#include "base/moment.h"
#include "base/prng.h"

/* In [0, limit], evenly. */
static inline int64_t draw_up_to(struct prng *prng, struct span limit)
{
    return (int64_t)prng_below(prng, (uint64_t)limit.us + 1);
}

/* In [-limit, limit], evenly. */
static inline struct span draw_either_way(struct prng *prng, struct span limit)
{
    return SPAN_US(draw_up_to(prng, SPAN_US(2 * limit.us)) - limit.us);
}

/* In [0, limit], of every size: below a thousandth of it about as often as above a half. An hour
 * as the limit means also minutes and seconds, where most of what is at stake happens. */
static inline int64_t draw_of_any_size(struct prng *prng, struct span limit)
{
    int64_t most = limit.us >> prng_below(prng, 12);
    return draw_up_to(prng, SPAN_US(most));
}

#endif
