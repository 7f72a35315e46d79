/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c: learns from conflicts how long to pause, and which cached bodies are worth a put. The
 * numbers were chosen with a model of 2 to 64 clients, with and without time between their changes,
 * and then measured on Ceph (`make bench`, locks). They trade wasted puts against the time that a
 * client may have to wait: a change that has waited for long becomes persistent. */
#include "doc/crowd.h"

#include "base/mutant.h"
#include "base/rule.h"

/* The limit of the pause after a conflict. It grows fast, because each step of a large crowd costs
 * each client a put, but only if a pause was too short: a single conflict can happen to two
 * clients. */
#define PAUSE_ROUND_TRIPS 4
#define PAUSE_GROWTH      8
#define PAUSE_MAX         SPAN_S(8)

/* A pause that was long enough becomes this much shorter. */
#define PAUSE_EASE 4

/* A change that has waited for this long pauses half as long as one that has not waited, and from
 * then on rapidly less. After WAITED_MAX it makes no difference any more. On a store with longer
 * round trips it loses patience earlier, because fewer attempts fit in its time. */
#define PATIENCE_MS        2000
#define PATIENCE_LEAST_MS  1000
#define PATIENCE_IF_WITHIN SPAN_MS(10)
#define WAITED_MAX_MS      100000

/* A series of changes ends with a pause of up to half of the time that the series took. */
#define RUN_MAX        32
#define GIVE_WAY_SHARE 2

/* For how long a conflict shows that there are others, and after which time without one a crowd is
 * forgotten. */
#define MEMORY      SPAN_S(1)
#define MEMORY_LONG SPAN_S(10)

/* A body is read before it is put if the chance that another client has replaced it is more than
 * one in so many. A put costs as much as twelve reads, and takes a few times as long as one. */
#define READ_IF_ONE_IN 16

/* A longer time between two changes of others counts as this long, so that a crowd that comes after
 * a quiet day is learned within a few conflicts. */
#define GAP_MAX SPAN_S(600)

/* The weight of the latest gap in their average. */
#define GAP_PART 2

/* Reading a body that is no older than this before it is put is useless: by the time the put
 * arrives, it would be as old again. */
static bool is_new(struct span age, struct span round_trip)
{
    return age.us <= 2 * round_trip.us;
}

/* Another client has changed the document. */
static void note_others_change(struct crowd *crowd, struct mono_time now)
{
    struct span gap = span_smaller(mono_since(now, crowd->changed), GAP_MAX);
    if (crowd->gap.us > 0)
        gap.us = crowd->gap.us + (gap.us - crowd->gap.us) / GAP_PART;
    crowd->gap = span_larger(gap, SPAN_US(1));
    crowd->changed = now;
}

/* The first gap begins when the document is first known. */
static void note_first_body(struct crowd *crowd, struct span age, struct mono_time now)
{
    if (crowd->changed.us == 0)
        crowd->changed.us = now.us - age.us;
}

void crowd_note_conflict(struct crowd *crowd, struct span age, bool again,
                         struct span round_trip, struct mono_time now)
{
    crowd->in_row = 0;
    crowd->outdated = !is_new(age, round_trip);
    note_first_body(crowd, age, now);
    note_others_change(crowd, now);
    if (crowd->outdated)
        return;
    if (mono_since(now, crowd->conflicted).us > MEMORY_LONG.us)
        crowd->pause = SPAN_US(0);
    crowd->conflicted = now;
    if (again)
        crowd->pause.us *= PAUSE_GROWTH;
    if (crowd->pause.us < PAUSE_ROUND_TRIPS * round_trip.us)
        crowd->pause.us = PAUSE_ROUND_TRIPS * round_trip.us;
    crowd->pause = span_smaller(crowd->pause, PAUSE_MAX);
}

void crowd_note_written(struct crowd *crowd, struct span age, struct mono_time now)
{
    note_first_body(crowd, age, now);
    crowd->in_row++;
}

void crowd_note_success(struct crowd *crowd, bool again)
{
    MUTANT(mutant_forgets_the_crowd(crowd));
    if (!again && !crowd->gave_way)
        return;
    crowd->pause.us /= PAUSE_EASE;
    crowd->in_row = 1;
    crowd->gave_way = false;
}

void crowd_note_read(struct crowd *crowd, struct span age, bool changed, struct mono_time now)
{
    note_first_body(crowd, age, now);
    MUTANT(mutant_trusts_one_read(crowd, age, changed));
    if (changed)
        note_others_change(crowd, now);
}

bool crowd_doubts(const struct crowd *crowd, struct span age, struct span round_trip,
                  struct mono_time now)
{
    struct span gap = span_larger(crowd->gap, mono_since(now, crowd->changed));
    if (crowd->gap.us == 0)
        return false;
    if (crowd->reads_first && RULE(CLAIMS_READ_FIRST))
        return age.us > round_trip.us;
    return RULE(OLD_BODIES_ARE_READ) && age.us > gap.us / READ_IF_ONE_IN &&
           !is_new(age, round_trip);
}

/* After a series of changes, the others get a chance. */
static struct span pause_to_give_way(struct crowd *crowd, struct span round_trip,
                                     struct mono_time now)
{
    bool others = crowd->conflicted.us > 0 && mono_since(now, crowd->conflicted).us < MEMORY.us;
    if (crowd->in_row < RUN_MAX)
        return SPAN_US(0);
    crowd->in_row = 0;
    crowd->gave_way = others;
    return SPAN_US(others ? RUN_MAX * round_trip.us / GIVE_WAY_SHARE : 0);
}

static int64_t cube(int64_t value)
{
    return value * value * value;
}

static int64_t patience_ms(struct span round_trip)
{
    bool slow = RULE(SLOW_LOSES_PATIENCE) && round_trip.us > PATIENCE_IF_WITHIN.us;
    int64_t ms = slow ? PATIENCE_MS * PATIENCE_IF_WITHIN.us / round_trip.us : PATIENCE_MS;
    return ms > PATIENCE_LEAST_MS ? ms : PATIENCE_LEAST_MS;
}

struct span crowd_pause(struct crowd *crowd, bool again, struct span waited,
                        struct span round_trip, struct mono_time now)
{
    int64_t waited_ms = waited.us / 1000 < WAITED_MAX_MS ? waited.us / 1000 : WAITED_MAX_MS;
    if (!again)
        return pause_to_give_way(crowd, round_trip, now);
    if (crowd->outdated)
        return SPAN_US(0);
    int64_t patience = cube(patience_ms(round_trip));
    return SPAN_US(crowd->pause.us * patience / (patience + cube(waited_ms)));
}
