/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: an interval for the store's clock, computed from the dates of recent replies. It guards
 * against replies from a cache, front ends that disagree, and clocks that drift. Any of these could
 * otherwise make a lease appear to have ended while its holder is still using it. */
#include "doc/clock.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <stdio.h>

void clock_init(struct doc_clock *clock, struct store *store)
{
    *clock = (struct doc_clock){ .env = store->env, .kind = store->traits.clock };
    env_mutex_init(store->env, &clock->mutex);
    const char *id = clock->kind == STORE_CLOCK_BOOT   ? env_boot_id(store->env)
                     : clock->kind == STORE_CLOCK_DATE ? CLOCK_ID_STORE
                                                       : "";
    snprintf(clock->id, sizeof clock->id, "%s", id);
}

void clock_release(struct doc_clock *clock)
{
    env_mutex_release(&clock->mutex);
}

void clock_learn(struct doc_clock *clock, const struct store_stamp *stamp)
{
    /* A cache repeats an old date, which says nothing about the store's clock now. */
    bool cached = RULE(CACHED_DATES_TELL_NOTHING) && stamp->cached;
    if (clock->kind != STORE_CLOCK_DATE || !stamp->known || cached)
        return;
    check(!mono_before(stamp->received, stamp->sent));
    /* The store read its clock at some time between `sent` and `received`, and dropped the fraction
     * of the second. The two offsets are the extreme cases. */
    struct clock_sample sample = {
        .taken = stamp->received,
        .offset_min_us = stamp->date.us - stamp->received.us,
        .offset_max_us = stamp->date.us + CLOCK_DATE_GRAIN.us - stamp->sent.us,
    };
    env_mutex_lock(&clock->mutex);
    clock->samples[clock->sample_count++ % CLOCK_SAMPLES] = sample;
    env_mutex_unlock(&clock->mutex);
}

void clock_learn_from_write(struct doc_clock *clock, const struct store_stamp *stamp, bool done)
{
    clock_learn(clock, stamp);
    /* A cache never answers a write. If the reply to a successful write has no date, the store
     * sends no dates. */
    if (!done || (stamp->known && !stamp->cached))
        return;
    env_mutex_lock(&clock->mutex);
    clock->undated = true;
    env_mutex_unlock(&clock->mutex);
}

static size_t kept_samples(const struct doc_clock *clock)
{
    return clock->sample_count < CLOCK_SAMPLES ? clock->sample_count : CLOCK_SAMPLES;
}

struct offsets {
    int64_t min_us, max_us;
};

/* The offsets that a sample allows now: its own, widened by the drift since it was taken. The drift
 * is rounded up, so the interval is never too narrow. */
static struct offsets offsets_now(const struct clock_sample *sample, struct mono_time now)
{
    int64_t age_us = mono_since(now, sample->taken).us;
    int64_t drift_us = age_us > 0 ? age_us / 1000000 * CLOCK_DRIFT_PPM + CLOCK_DRIFT_PPM : 0;
    return (struct offsets){ sample->offset_min_us - drift_us,
                             sample->offset_max_us + drift_us };
}

static bool is_wide(const struct clock_sample *sample)
{
    return sample->offset_max_us - sample->offset_min_us > CLOCK_SAMPLE_WIDE.us;
}

static void widen(struct offsets *all, struct offsets more)
{
    all->min_us = more.min_us < all->min_us ? more.min_us : all->min_us;
    all->max_us = more.max_us > all->max_us ? more.max_us : all->max_us;
}

/* Takes the union of the samples, not the intersection: the front ends of a store may disagree, and
 * an intersection would hide that. A wide sample comes from a slow request. It is used only if
 * there are no other samples, or if it contradicts them. Otherwise one slow upload would widen the
 * interval, and the client's own leases would end that much too early. */
static void interval_locked(const struct doc_clock *clock, struct mono_time now,
                            struct evidence *evidence)
{
    struct offsets all = { INT64_MAX, INT64_MIN };
    size_t count = kept_samples(clock), wide_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_wide(&clock->samples[i]))
            wide_count++;
        else
            widen(&all, offsets_now(&clock->samples[i], now));
    }
    bool none = wide_count == count;
    for (size_t i = 0; i < count; i++) {
        struct offsets wide = offsets_now(&clock->samples[i], now);
        if (is_wide(&clock->samples[i]) &&
            (none || wide.min_us > all.max_us || wide.max_us < all.min_us))
            widen(&all, wide);
    }
    evidence->time_known = clock->sample_count > 0;
    /* No date will ever come from this store, so there is nothing to wait for. */
    if (!evidence->time_known && clock->undated)
        evidence->clock = VIEW("");
    if (evidence->time_known) {
        evidence->earliest.us = now.us + all.min_us;
        evidence->latest.us = now.us + all.max_us;
    }
}

void clock_evidence(struct doc_clock *clock, struct evidence *evidence)
{
    evidence->now = env_now(clock->env);
    evidence->wall = env_wall(clock->env);
    evidence->clock = view_of(clock->id);
    evidence->time_known = false;
    if (clock->kind == STORE_CLOCK_BOOT) {
        evidence->time_known = true;
        /* Not the wall clock: if NTP stepped it, every lease could appear to have ended. */
        evidence->earliest.us = evidence->latest.us = evidence->now.us;
        MUTANT(mutant_reads_the_wall_clock(evidence));
    } else if (clock->kind == STORE_CLOCK_DATE) {
        env_mutex_lock(&clock->mutex);
        interval_locked(clock, evidence->now, evidence);
        env_mutex_unlock(&clock->mutex);
    }
}

size_t clock_samples(struct doc_clock *clock, struct clock_sample ret[CLOCK_SAMPLES])
{
    env_mutex_lock(&clock->mutex);
    size_t count = kept_samples(clock);
    for (size_t i = 0; i < count; i++)
        ret[i] = clock->samples[(clock->sample_count - 1 - i) % CLOCK_SAMPLES];
    env_mutex_unlock(&clock->mutex);
    return count;
}
