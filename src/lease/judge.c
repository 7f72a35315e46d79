/* judge.c: when a lease is over, and how long its holder may use it. docs/design.md section 5:
 * no decision compares the wall clocks of two machines. */
#include "base/check.h"
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

static struct span longer(struct span a, struct span b)
{
    return a.us > b.us ? a : b;
}

struct lease_settings lease_settings_stricter(const struct lease_settings *a,
                                              const struct lease_settings *b)
{
    return (struct lease_settings){
        .drift_ppm = a->drift_ppm > b->drift_ppm ? a->drift_ppm : b->drift_ppm,
        .margin = longer(a->margin, b->margin),
        .skew_tolerance = longer(a->skew_tolerance, b->skew_tolerance),
        .ttl_max = longer(a->ttl_max, b->ttl_max),
        .late_bound = longer(a->late_bound, b->late_bound),
        .watch_only = a->watch_only || b->watch_only,
    };
}

/* By how much two clocks can differ after this span, rounded up: in favour of nobody who wants
 * the lease. */
static struct span drift_over(const struct lease_settings *settings, struct span span)
{
    int64_t ppm = settings->drift_ppm;
    return SPAN_US(span.us / 1000000 * ppm + (span.us % 1000000 * ppm + 999999) / 1000000);
}

/* A lease that does not say how long it is may be as long as any. */
static struct span full_ttl(const struct lease_settings *settings, const struct lease *lease)
{
    return lease->ttl.us > 0 ? lease->ttl : settings->ttl_max;
}

struct span lease_watch_span(const struct lease_settings *settings, const struct lease *lease)
{
    struct span ttl = full_ttl(settings, lease);
    struct span whole = SPAN_US(ttl.us + drift_over(settings, ttl).us + settings->margin.us);
    if (!RULE(WATCH_TO_THE_END))
        whole.us -= settings->margin.us * 9 / 4; /* the margins of both sides, and a tick */
    return whole;
}

static struct mono_time watched_until(const struct lease_settings *settings,
                                      const struct lease *lease)
{
    return mono_add(lease->seen, lease_watch_span(settings, lease));
}

/* Whether the lease's end and the evidence are on the same clock. */
static bool store_time_applies(const struct lease_settings *settings, const struct lease *lease,
                               const struct evidence *evidence)
{
    return !settings->watch_only && evidence->time_known && lease->clock.size > 0 &&
           (view_equal(lease->clock, evidence->clock) || !RULE(CLOCK_ID_MUST_MATCH));
}

/* By so much the store's time must be past the end of a lease. */
static struct span tolerance(const struct lease_settings *settings)
{
    return RULE(SKEW_TOLERANCE) ? settings->skew_tolerance : SPAN_US(0);
}

enum lease_proof lease_judge(const struct lease_settings *settings, const struct lease *lease,
                             const struct evidence *evidence)
{
    check(lease->status == LEASE_ACTIVE);
    if (store_time_applies(settings, lease, evidence) &&
        evidence->earliest.us > lease->expires.us + tolerance(settings).us)
        return PROOF_STORE_TIME;
    if (!RULE(SCAVENGE_WITH_PROOF) && evidence->latest.us >= lease->expires.us)
        return PROOF_STORE_TIME;
    if (!mono_before(evidence->now, watched_until(settings, lease)))
        return PROOF_WATCHED;
    return PROOF_NONE;
}

struct mono_time lease_provable_at(const struct lease_settings *settings,
                                   const struct lease *lease, const struct evidence *evidence,
                                   enum lease_proof *ret_proof)
{
    struct mono_time watched = watched_until(settings, lease);
    *ret_proof = PROOF_WATCHED;
    if (!store_time_applies(settings, lease, evidence))
        return watched;
    struct span left =
        SPAN_US(lease->expires.us + tolerance(settings).us - evidence->earliest.us + 1);
    struct mono_time told = mono_add(evidence->now, left.us > 0 ? left : SPAN_US(0));
    if (mono_before(watched, told))
        return watched;
    *ret_proof = PROOF_STORE_TIME;
    return told;
}

bool ttl_limit_allows(const struct ttl_limit *limit, const struct lease_settings *settings,
                      struct span ttl, const struct evidence *evidence)
{
    if (limit->ttl.us < ttl.us || limit->until.clock == 0)
        return limit->ttl.us >= ttl.us;
    return !settings->watch_only && stamp_is_readable(limit->until, evidence) &&
           evidence->latest.us <= limit->until.us;
}

struct mono_time lease_valid_until(const struct lease_settings *settings, struct span ttl,
                                   const struct evidence *evidence)
{
    struct span less = SPAN_US(drift_over(settings, ttl).us + settings->margin.us);
    return mono_add(evidence->now, SPAN_US(ttl.us - less.us));
}

const char *lease_proof_name(enum lease_proof proof)
{
    static const char *const names[] = {
        [PROOF_NONE] = "none",
        [PROOF_STORE_TIME] = "store time",
        [PROOF_WATCHED] = "watched",
    };
    return names[proof];
}

/* ---- For people ---------------------------------------------------------------------- */

/* On the clock that the lease itself names where that is ours too, else by the calendar. */
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
    struct span held = wall_since(end, lease->acquired_at);
    return held.us > 0 ? held : SPAN_US(0);
}

bool lease_is_barrier(const struct lease *lease)
{
    return lease->scope_count == 0 && lease->token > 0; /* else another program's */
}
