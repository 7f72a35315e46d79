/* SPDX-License-Identifier: Apache-2.0 */
/* line.c: when a waiter reads the table. It guards against a crowd of waiters that all read the
 * table while one of them has its turn, and against a waiter that sleeps when its turn comes. The
 * numbers were chosen with the simulator (workload handover), and then measured on Ceph. */
#include "lock/line.h"

#include "base/rule.h"

/* A waiter reads the table at most this many times per poll interval, and this many times in the
 * time that has passed since the line last moved. */
#define READ_SOONEST 25
#define READ_LESS    8

/* The first in line reads this many times in the time that one waiter takes. */
#define READS_OF_FIRST 2

/* With at most so many before it, a waiter is near. It then wakes up half a place before it is
 * expected to be first. */
#define NEAR          2
#define EARLY_IF_NEAR 4

/* A waiter that is not near wakes up so many eighths of a place earlier: at first, at least and at
 * most, and by how much that changes if it was late, or early. */
#define EARLY_FIRST   10
#define EARLY_LEAST   4
#define EARLY_MOST    40
#define EARLY_MORE    2
#define EARLY_LESS    1
#define PLACE_EIGHTHS 8

/* A pace is known from at most this many moves, so that it follows a line that changes. */
#define WEIGHT_MAX 16

/* While others are certainly before a waiter, it polls at least at every second interval. */
#define POLLS_SKIPPED 2

static void learn_pace(struct queue_line *line, struct span took, int64_t moves)
{
    int64_t known = line->pace.us * line->weight;
    line->weight += moves;
    line->pace.us = (known + took.us) / line->weight;
    if (line->weight > WEIGHT_MAX)
        line->weight = WEIGHT_MAX;
}

/* The waiter has woken up, and this is what it found. */
static void learn_from_sleep(struct queue_line *line, size_t ahead, bool turn)
{
    line->wakes_at = (struct mono_time){ 0 };
    if (turn && line->early < EARLY_MOST)
        line->early += EARLY_MORE;
    else if (!turn && ahead >= NEAR && line->early > EARLY_LEAST)
        line->early -= EARLY_LESS;
}

void line_note(struct queue_line *line, uint64_t number, struct span poll, size_t ahead,
               bool turn, struct mono_time now)
{
    bool same = line->number == number;
    if (line->early == 0)
        line->early = EARLY_FIRST;
    if (same && ahead < line->ahead)
        learn_pace(line, mono_since(now, line->moved_at), (int64_t)(line->ahead - ahead));
    if (same && line->wakes_at.us > 0 && !mono_before(now, line->wakes_at))
        learn_from_sleep(line, ahead, turn);
    if (same && ahead == line->ahead)
        return;
    line->number = number;
    line->poll = poll;
    line->ahead = ahead;
    line->moved_at = now;
}

/* How long it will take until this waiter is likely to be the next one; 0 or less if it should be
 * already. */
static struct span expected(const struct queue_line *line, struct mono_time now)
{
    int64_t early = line->ahead > NEAR ? line->early : EARLY_IF_NEAR;
    int64_t eighths = PLACE_EIGHTHS * (int64_t)line->ahead - early;
    bool sleeps = RULE(OTHERS_SLEEP) && line->ahead > 0;
    if (!sleeps)
        return SPAN_US(0);
    return SPAN_US(line->pace.us * eighths / PLACE_EIGHTHS -
                   mono_since(now, line->moved_at).us);
}

struct mono_time line_read_at(struct queue_line *line, struct mono_time now)
{
    line->wakes_at = (struct mono_time){ 0 };
    if (line->weight == 0 && line->ahead > 0)
        return (struct mono_time){ MOMENT_FAR };
    int64_t waited = mono_since(now, line->moved_at).us;
    struct span sleep = expected(line, now);
    struct span least = span_larger(SPAN_US(line->poll.us / READ_SOONEST),
                                    SPAN_US(line->pace.us / READS_OF_FIRST));
    if (line->ahead > NEAR && sleep.us > 0)
        line->wakes_at = mono_add(now, sleep);
    struct span pause = span_larger(sleep, SPAN_US(waited / READ_LESS));
    return mono_add(now, span_larger(pause, least));
}

struct mono_time line_poll_at(const struct queue_line *line, struct mono_time poll_at,
                              struct mono_time now)
{
    struct span most = SPAN_US(POLLS_SKIPPED * line->poll.us);
    struct mono_time due = mono_add(now, span_smaller(expected(line, now), most));
    return line->weight > 0 && mono_before(poll_at, due) ? due : poll_at;
}
