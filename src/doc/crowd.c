/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c: learns from conflicts how long to pause, and which cached bodies are worth a put. The
 * numbers were chosen with a model of 2 to 64 clients, with and without time between their changes,
 * and checked on Ceph (`make bench`, locks): with them a conflict costs about one put in six, no
 * crowd writes less than it did with pauses that were not learned, and no client starves. */
#include "doc/crowd.h"

#include "base/mutant.h"
#include "base/rule.h"

/* The pause after a conflict. A pause shorter than a round trip would change nothing. */
#define PAUSE_MAX SPAN_S(2)

/* A pause that was long enough becomes this much shorter. */
#define PAUSE_EASE 4

/* After n failures in a row, the pause is this, divided by this + n - 1, of what was learned. */
#define FAILURES_SHARE 4

/* A series of changes ends with a pause of up to half of the time that the series took. */
#define RUN_MAX        32
#define GIVE_WAY_SHARE 2

/* For how long a conflict shows that there are others, and after which time without one a crowd is
 * forgotten. */
#define MEMORY      SPAN_S(1)
#define MEMORY_LONG SPAN_S(10)

/* Reading a body that is no older than this before it is put is useless: by the time the put
 * arrives, it would be as old again. */
static bool is_new(struct span age, struct span round_trip)
{
    return age.us <= 2 * round_trip.us;
}

void crowd_note_conflict(struct crowd *crowd, struct span age, struct span round_trip,
                         struct mono_time now)
{
    crowd->in_row = 0;
    crowd->outdated = !is_new(age, round_trip);
    if (crowd->outdated) {
        crowd->trust = SPAN_US(age.us / 2);
        return;
    }
    if (mono_since(now, crowd->conflicted).us > MEMORY_LONG.us)
        crowd->pause = SPAN_US(0);
    crowd->conflicted = now;
    crowd->pause.us *= 2;
    if (crowd->pause.us < round_trip.us / 2)
        crowd->pause.us = round_trip.us / 2;
    crowd->pause = span_smaller(crowd->pause, PAUSE_MAX);
}

static void trust_longer(struct crowd *crowd, struct span age)
{
    if (crowd->trust.us > 0 && crowd->trust.us < 2 * age.us)
        crowd->trust.us = 2 * age.us;
}

void crowd_note_written(struct crowd *crowd, struct span age)
{
    trust_longer(crowd, age);
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

void crowd_note_read(struct crowd *crowd, struct span age, bool changed)
{
    if (!changed)
        trust_longer(crowd, age);
    else if (crowd->trust.us > age.us)
        crowd->trust = age;
}

bool crowd_doubts(const struct crowd *crowd, struct span age, struct span round_trip)
{
    return RULE(OLD_BODIES_ARE_READ) && crowd->trust.us > 0 && age.us > crowd->trust.us &&
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

struct span crowd_pause(struct crowd *crowd, unsigned failures, struct span round_trip,
                        struct mono_time now)
{
    if (failures == 0)
        return pause_to_give_way(crowd, round_trip, now);
    if (crowd->outdated || crowd->pause.us < round_trip.us)
        return SPAN_US(0);
    return SPAN_US(crowd->pause.us * FAILURES_SHARE / (FAILURES_SHARE + failures - 1));
}
