/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c: learns how many of the clients that were answered come back soon. It guards against
 * waiting in vain: clients that did not come back the last time are not waited for. */
#include "serve/calls/gather.h"

bool gather_is_slow(size_t count, struct span took)
{
    return took.us >= GATHER_SLOW.us + (int64_t)count * GATHER_EACH.us;
}

void gather_batch_ended(struct gather *gather, size_t count, struct span took,
                        struct mono_time now)
{
    struct span at_most = span_smaller(SPAN_US(took.us / GATHER_TIME_PART), GATHER_TIME_MAX);
    gather->usual_answered = gather->answered;
    gather->usual_returned = gather->returned;
    gather->answered = count;
    gather->returned = 0;
    gather->until = gather_is_slow(count, took) ? mono_add(now, at_most) : now;
}

void gather_add(struct gather *gather, size_t count, struct mono_time now)
{
    size_t missing = gather->answered - gather->returned;
    if (mono_before(now, gather->until))
        gather->returned += count < missing ? count : missing;
}

/* The part of the clients that has come back is compared with the same part of the batch before,
 * because batches differ in size. */
bool gather_waits(const struct gather *gather, struct mono_time now)
{
    return mono_before(now, gather->until) && gather->returned * gather->usual_answered <
                                                  gather->usual_returned * gather->answered;
}
