/* SPDX-License-Identifier: Apache-2.0 */
/* line.h: when a waiter reads the table, on a store that does not notify its clients.
 *
 * Each read is a request, and each moment in which a waiter does not know that it is its turn is
 * lost for everybody behind it. So a waiter reads the table when it is likely to have changed for
 * it:
 *
 *   A waiter that has others before it sleeps until it is likely to be the next one. It knows how
 *   many are before it, and how long each of them takes (the pace), because it has seen the line
 *   move. So most of those in line do not read at all while a lock passes from hand to hand.
 *
 *   If it was its turn already when it woke up, it wakes up earlier from then on, and otherwise
 *   later. Without that, a line that has become slow would stay slow: those who oversleep make the
 *   pace by which everybody sleeps.
 *
 *   The first in line reads twice in the time that one waiter took before.
 *
 *   The longer the line has not moved, the less often everybody reads. So a short wait ends soon,
 *   and a long one takes as many requests as if all polled at their own interval.
 *
 * What is expected may be wrong at any time, so nobody skips more than one poll in a row: that is
 * well within the claim window, which is at least three of them.
 *
 * Pure: times are passed in. */
#ifndef LOCK_LINE_H
#define LOCK_LINE_H

#include "base/moment.h"

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised: nothing is known. */
struct queue_line {
    uint64_t number;           /* this waiter ... */
    struct span poll;          /* ... has this poll interval, and ... */
    size_t ahead;              /* ... so many before it ... */
    struct mono_time moved_at; /* ... since then */
    struct span pace;          /* how long one of those before us takes; 0: not known */
    int64_t weight;            /* from how many moves that is known */
    int64_t early; /* how much earlier it wakes up, in eighths of a place; 0: never did */
    struct mono_time
        wakes_at; /* it sleeps until then, because others are before it; 0: not so */
};

/* A waiter was seen in the table, with this many before it, and perhaps with its turn. */
void line_note(struct queue_line *line, uint64_t number, struct span poll, size_t ahead,
               bool turn, struct mono_time now);

/* When to read the table next, if nothing is heard before; MOMENT_FAR if the line gives no reason
 * to read it before the next poll. */
struct mono_time line_read_at(struct queue_line *line, struct mono_time now);

/* When to poll, if the poll would be due at `poll_at`: the same or, while others are certainly
 * before this waiter, later. */
struct mono_time line_poll_at(const struct queue_line *line, struct mono_time poll_at,
                              struct mono_time now);

#endif
