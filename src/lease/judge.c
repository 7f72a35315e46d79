/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c: decides whether a lease has ended, and how long its holder may use it. It guards against
 * two simultaneous holders: the holder always stops before a contender may take over. No decision
 * compares the wall clocks of two machines (docs/design.md section 5). */
#include "base/check.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lease/lease.h"

struct lease_settings lease_settings_default(void)
{
    return (struct lease_settings){
        .drift_ppm = 200,
        .margin = SPAN_MS(50),
        .skew_tolerance = SPAN_S(30),
        .ttl_max = SPAN_S(3600),
        .late_bound = SPAN_S(24 * 3600),
    };
}

enum hf_status ttl_ms_check(int64_t ttl_ms, struct hf_error *error)
{
    const int64_t most = INT64_MAX / 1000;
    int64_t ms = ttl_ms > most ? most : ttl_ms < -most ? -most : ttl_ms;
    return ttl_check(SPAN_MS(ms), SPAN_MS(LEASE_TTL_MS_MIN), LEASE_TTL_MAX, NULL, error);
}

/* The larger value is always the more careful one. This includes ttl_max, because a lease that
 * does not state its ttl is watched for that long. */
struct lease_settings lease_settings_stricter(const struct lease_settings *a,
                                              const struct lease_settings *b)
{
    return (struct lease_settings){
        .drift_ppm = a->drift_ppm > b->drift_ppm ? a->drift_ppm : b->drift_ppm,
        .margin = span_larger(a->margin, b->margin),
        .skew_tolerance = span_larger(a->skew_tolerance, b->skew_tolerance),
        .ttl_max = span_larger(a->ttl_max, b->ttl_max),
        .late_bound = span_larger(a->late_bound, b->late_bound),
        .watch_only = a->watch_only || b->watch_only,
    };
}

/* How much earlier than its ttl a holder stops, and how much longer a contender waits. */
static struct span reserve_of(const struct lease_settings *settings, struct span ttl)
{
    return SPAN_US(span_drift(ttl, settings->drift_ppm).us + settings->margin.us);
}

struct span lease_watch_span(const struct lease_settings *settings, const struct lease *lease)
{
    /* A lease that does not state its ttl may have the longest possible ttl. */
    struct span ttl = lease->wish.ttl.us > 0 ? lease->wish.ttl : settings->ttl_max;
    struct span whole = SPAN_US(ttl.us + reserve_of(settings, ttl).us);
    MUTANT(mutant_watches_too_briefly(settings, &whole));
    return whole;
}

static struct mono_time watched_until(const struct lease_settings *settings,
                                      const struct lease *lease)
{
    return mono_add(lease->seen, lease_watch_span(settings, lease));
}

/* Whether the end of the lease and the evidence are on the same clock. Each boot of each machine
 * has its own boot-time clock, and a time on one of them means nothing on another. */
static bool store_time_applies(const struct lease_settings *settings, const struct lease *lease,
                               const struct evidence *evidence)
{
    if (RULE(CLOCK_ID_MUST_MATCH) && !view_equal(lease->clock, evidence->clock))
        return false;
    return !settings->watch_only && evidence->time_known && lease->clock.size > 0;
}

/* The time that the store's clock must have passed. The clocks of the store's front ends may
 * differ by half of the tolerance, and so may the store times of the holder and the contender. */
static int64_t tolerated_end_us(const struct lease_settings *settings,
                                const struct lease *lease)
{
    int64_t end_us = lease->expires.us;
    if (RULE(SKEW_TOLERANCE))
        end_us += settings->skew_tolerance.us;
    return end_us;
}

enum lease_proof lease_judge(const struct lease_settings *settings, const struct lease *lease,
                             const struct evidence *evidence)
{
    enum lease_proof proof = PROOF_NONE;
    check(lease->status == LEASE_ACTIVE);
    /* The end was computed from the holder's latest possible store time, and is compared with our
     * earliest one. So the uncertainty of either client can only delay the proof. */
    if (store_time_applies(settings, lease, evidence) &&
        evidence->earliest.us > tolerated_end_us(settings, lease))
        proof = PROOF_STORE_TIME;
    else if (!mono_before(evidence->now, watched_until(settings, lease)))
        proof = PROOF_WATCHED; /* unchanged for longer than its holder could use it */
    MUTANT(mutant_needs_no_proof(lease, evidence, &proof));
    return proof;
}

struct mono_time lease_provable_at(const struct lease_settings *settings,
                                   const struct lease *lease, const struct evidence *evidence,
                                   enum lease_proof *ret_proof)
{
    struct mono_time watched = watched_until(settings, lease);
    *ret_proof = PROOF_WATCHED;
    if (!store_time_applies(settings, lease, evidence))
        return watched;
    struct span left = SPAN_US(tolerated_end_us(settings, lease) - evidence->earliest.us + 1);
    struct mono_time told = mono_add(evidence->now, span_larger(left, SPAN_US(0)));
    if (mono_before(watched, told))
        return watched;
    *ret_proof = PROOF_STORE_TIME;
    return told;
}

bool ttl_limit_allows(const struct ttl_limit *limit, const struct lease_settings *settings,
                      struct span ttl, const struct evidence *evidence)
{
    /* A limit without a clock never ends. */
    if (limit->ttl.us < ttl.us || limit->until.clock == 0)
        return limit->ttl.us >= ttl.us;
    /* The end of a lease is computed from the latest possible store time, so that time must be
     * within the limit. Otherwise a lease could outlast its limit in the epoch document. */
    return !settings->watch_only && stamp_is_readable(limit->until, evidence) &&
           evidence->latest.us <= limit->until.us;
}

struct mono_time lease_valid_until(const struct lease_settings *settings, struct span ttl,
                                   const struct evidence *evidence)
{
    return mono_add(evidence->now, SPAN_US(ttl.us - reserve_of(settings, ttl).us));
}

/* Uses the clock that the lease names if we know its time, otherwise the wall clock. */
struct span lease_left(const struct lease *lease, const struct evidence *evidence)
{
    bool same_clock = evidence->time_known && lease->clock.size > 0 &&
                      view_equal(lease->clock, evidence->clock);
    return same_clock ? SPAN_US(lease->expires.us - evidence->latest.us)
                      : wall_since(lease->expires_at, evidence->wall);
}

enum hf_lease_state lease_shown_state(const struct lease_settings *settings,
                                      const struct lease *lease,
                                      const struct evidence *evidence)
{
    static const enum hf_lease_state ended[] = {
        [LEASE_COMPLETED] = HF_LEASE_COMPLETED, [LEASE_FAILED] = HF_LEASE_FAILED,
        [LEASE_RELEASED] = HF_LEASE_RELEASED,   [LEASE_EXPIRED] = HF_LEASE_EXPIRED,
        [LEASE_BROKEN] = HF_LEASE_BROKEN,
    };
    if (lease->status != LEASE_ACTIVE)
        return ended[lease->status];
    if (lease_judge(settings, lease, evidence) != PROOF_NONE)
        return HF_LEASE_OVER;
    return lease_left(lease, evidence).us > 0 ? HF_LEASE_ACTIVE : HF_LEASE_OVERDUE;
}

struct span lease_held(const struct lease *lease, const struct evidence *evidence)
{
    struct wall_time end = lease->status == LEASE_ACTIVE ? evidence->wall : lease->expires_at;
    return span_larger(wall_since(end, lease->acquired_at), SPAN_US(0));
}

bool lease_is_barrier(const struct lease *lease)
{
    /* A lease with token 0 was written by another program. */
    return lease->wish.scope_count == 0 && lease->token > 0;
}
