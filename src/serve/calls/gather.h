/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h: how long calls that gather wait for others, so that one sync of the disk serves all of
 * them. Pure.
 *
 * While a batch is written, the calls that arrive gather for the next one. If the next one began as
 * soon as the first has ended, it would not contain the next calls of the clients that have just
 * been answered. The clients would fall into two groups that take turns, and each call would wait
 * for two syncs. So if syncs are slow, the next batch waits until as many of the answered clients
 * have come back as did after the batch before, but only for a part of the time that a batch takes.
 *
 * If no other call is expected, none waits. So a single client is never delayed. */
#ifndef SERVE_CALLS_GATHER_H
#define SERVE_CALLS_GATHER_H

#include "base/moment.h"

#include <stddef.h>

/* Calls wait for others if a batch takes this long, and this much more for each of its calls. */
#define GATHER_SLOW SPAN_US(500)
#define GATHER_EACH SPAN_US(30)

/* They wait for at most this part of the time of a batch, and at most this long. */
#define GATHER_TIME_PART 2
#define GATHER_TIME_MAX  SPAN_MS(10)

/* All members are zero at first. */
struct gather {
    struct mono_time until; /* no call waits for longer */
    size_t answered;        /* calls of the last batch */
    size_t returned; /* calls that have arrived since, until `until`; at most `answered` */
    size_t usual_answered, usual_returned; /* the same of the batch before */
};

bool gather_is_slow(size_t count, struct span took);

/* A batch of this many calls has ended, and took this long. */
void gather_batch_ended(struct gather *gather, size_t count, struct span took,
                        struct mono_time now);

/* So many calls have arrived. */
void gather_add(struct gather *gather, size_t count, struct mono_time now);

/* Whether the calls that have arrived wait for others. */
bool gather_waits(const struct gather *gather, struct mono_time now);

#endif
