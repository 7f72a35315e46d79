/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c: the ttl limits of one kind of table. They guard against a barrier that ends too
 * early: a limit is kept until every lease that was granted under it has expired. Pure. */
#include "lock/limits.h"

#include "base/check.h"
#include "base/rule.h"

/* Ends on different clocks cannot be compared, so the result is "forever" (clock 0). This may keep
 * a limit for longer than needed, but never drops one too early. */
static struct stamp later_end(struct stamp a, struct stamp b)
{
    if (a.clock == 0 || b.clock == 0 || a.clock != b.clock)
        return (struct stamp){ 0, 0 };
    return a.us > b.us ? a : b;
}

static void remove_at(struct limits *limits, size_t index)
{
    limits->count--;
    memmove(&limits->of[index], &limits->of[index + 1],
            (limits->count - index) * sizeof limits->of[0]);
}

void limits_add(struct limits *limits, struct ttl_limit limit)
{
    size_t at = 0;
    while (at < limits->count && limits->of[at].ttl.us < limit.ttl.us)
        at++;
    if (at < limits->count && limits->of[at].ttl.us == limit.ttl.us) {
        limits->of[at].until = later_end(limits->of[at].until, limit.until);
        return;
    }
    if (limits->count == LIMITS_MAX) {
        struct stamp both = later_end(limits->of[0].until, limits->of[1].until);
        limits->of[1].until = both;
        remove_at(limits, 0);
        at -= at > 0;
    }
    memmove(&limits->of[at + 1], &limits->of[at], (limits->count - at) * sizeof limits->of[0]);
    limits->of[at] = limit;
    limits->count++;
}

bool limits_equal(const struct limits *one, const struct limits *other)
{
    if (one->count != other->count)
        return false;
    for (size_t i = 0; i < one->count; i++)
        if (one->of[i].ttl.us != other->of[i].ttl.us ||
            one->of[i].until.clock != other->of[i].until.clock ||
            one->of[i].until.us != other->of[i].until.us)
            return false;
    return true;
}

bool limits_find(const struct limits *limits, const struct lease_settings *settings,
                 struct span ttl, const struct limit_policy *policy,
                 const struct evidence *evidence, struct ttl_limit *ret_limit)
{
    struct evidence later_on = *evidence;
    later_on.latest.us += policy->period.us / 2;
    for (size_t i = 0; i < limits->count; i++)
        if (ttl_limit_allows(&limits->of[i], settings, ttl, &later_on)) {
            *ret_limit = limits->of[i];
            return true;
        }
    return false;
}

/* Whether every lease granted under the limit has expired. This needs the same proof by the
 * store's clock as the end of a lease. */
static bool limit_is_over(const struct ttl_limit *limit, const struct lease_settings *settings,
                          const struct evidence *evidence)
{
    int64_t end_us = limit->until.us;
    if (RULE(LIMIT_OUTLIVES_ITS_LEASES))
        end_us += limit->ttl.us + settings->skew_tolerance.us;
    return !settings->watch_only && stamp_is_readable(limit->until, evidence) &&
           evidence->earliest.us > end_us;
}

void limits_drop_over(struct limits *limits, const struct lease_settings *settings,
                      const struct evidence *evidence)
{
    for (size_t i = limits->count; i-- > 1;)
        if (limit_is_over(&limits->of[i], settings, evidence))
            remove_at(limits, i);
}

/* The ttl to record: rounded up, so that a few limits cover all leases. */
static struct span round_up_ttl(struct span ttl, const struct lease_settings *settings,
                                const struct limit_policy *policy)
{
    static const int64_t steps[] = { 1, 2, 5, 10, 20, 60, 120, 360, 720, 1440 };
    struct span limit = settings->ttl_max;
    for (size_t i = sizeof steps / sizeof *steps; i-- > 0;) {
        struct span step = SPAN_US(policy->floor.us * steps[i]);
        if (step.us >= ttl.us && step.us < limit.us)
            limit = step;
    }
    return limit.us >= ttl.us ? limit : ttl;
}

/* The end of a limit that is recorded now: "forever" if the store time is unknown or proves
 * nothing. */
static struct stamp limit_end(const struct lease_settings *settings, struct span period,
                              const struct evidence *evidence)
{
    struct stamp stamp = settings->watch_only ? (struct stamp){ 0, 0 } : stamp_now(evidence);
    if (stamp.clock != 0)
        stamp.us += period.us;
    return stamp;
}

/* The end of a limit on a clock that we cannot read (another boot) could never be proven, so the
 * limit would stay forever. Instead, its period restarts now, on our clock. This is long enough:
 * the limit was recorded before now for one period, so a client that can read the other clock
 * uses it for at most one more period from now. A thousandth is added because the two clocks may
 * run at slightly different rates. */
static void move_to_our_clock(struct limits *limits, const struct lease_settings *settings,
                              const struct limit_policy *policy,
                              const struct evidence *evidence)
{
    struct span longer = SPAN_US(policy->period.us + policy->period.us / 1000);
    struct stamp mine = limit_end(settings, longer, evidence);
    if (mine.clock == 0)
        return;
    for (size_t i = 0; i < limits->count; i++)
        if (limits->of[i].until.clock != 0 && !stamp_is_readable(limits->of[i].until, evidence))
            limits->of[i].until = mine;
}

void limits_record(struct limits *limits, const struct lease_settings *settings,
                   struct span ttl, const struct limit_policy *policy,
                   const struct evidence *evidence)
{
    move_to_our_clock(limits, settings, policy, evidence);
    limits_add(limits,
               (struct ttl_limit){ .ttl = round_up_ttl(ttl, settings, policy),
                                   .until = limit_end(settings, policy->period, evidence) });
    limits_drop_over(limits, settings, evidence);
}

struct span limits_longest(const struct limits *limits)
{
    return limits->count > 0 ? limits->of[limits->count - 1].ttl : SPAN_US(0);
}
