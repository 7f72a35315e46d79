/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.c: timestamps in documents, and the proof that a span has passed since then. */
#include "base/stamp.h"

#include "base/hash.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"

#include <string.h>

/* Larger stamps are invalid, so that adding any span to a stamp cannot overflow. */
#define STAMP_US_MAX (MOMENT_FAR / 4)

#define CLOCK_DIGITS 16

/* 0 is reserved for an unknown clock. */
static uint64_t clock_of(const struct evidence *evidence)
{
    if (!evidence->time_known || evidence->clock.size == 0)
        return 0;
    uint64_t hash = hash_xxh3(evidence->clock);
    return hash ? hash : 1;
}

struct stamp stamp_now(const struct evidence *evidence)
{
    uint64_t clock = clock_of(evidence);
    bool known = clock != 0 && evidence->latest.us >= 0 && evidence->latest.us <= STAMP_US_MAX;
    return known ? (struct stamp){ clock, evidence->latest.us } : (struct stamp){ 0, 0 };
}

bool stamp_is_readable(struct stamp stamp, const struct evidence *evidence)
{
    return stamp.clock != 0 && stamp.clock == clock_of(evidence);
}

bool stamp_passed(struct stamp stamp, struct mono_time seen, struct span span,
                  struct span skew_tolerance, const struct evidence *evidence)
{
    MUTANT(mutant_shortens_grace(&span));
    bool other_clock = RULE(STAMPS_OF_ONE_CLOCK) && !stamp_is_readable(stamp, evidence);
    if (evidence->time_known && !other_clock &&
        evidence->earliest.us > stamp.us + span.us + skew_tolerance.us)
        return true;
    int64_t watch_us = span.us + span_drift(span, STAMP_DRIFT_PPM).us + STAMP_MARGIN.us;
    return mono_since(evidence->now, seen).us >= watch_us;
}

struct span stamp_age(struct stamp stamp, struct span unreadable,
                      const struct evidence *evidence)
{
    if (!stamp_is_readable(stamp, evidence))
        return unreadable;
    int64_t age = evidence->earliest.us - stamp.us;
    return SPAN_US(age > 0 ? age : 0);
}

/* Every write of a lease contains several of these, so they are not left to printf. */
const char *stamp_text(struct stamp stamp, char text[STAMP_TEXT_MAX])
{
    char digits[STAMP_TEXT_MAX - CLOCK_DIGITS - 1];
    char *at = digits + sizeof digits;
    uint64_t us = stamp.us < 0 ? 0 - (uint64_t)stamp.us : (uint64_t)stamp.us;
    for (size_t i = 0; i < CLOCK_DIGITS; i++)
        text[i] = "0123456789abcdef"[stamp.clock >> (60 - 4 * i) & 15];
    text[CLOCK_DIGITS] = ':';
    *--at = '\0';
    do
        *--at = (char)('0' + us % 10);
    while ((us /= 10) > 0);
    if (stamp.us < 0)
        *--at = '-';
    memcpy(text + CLOCK_DIGITS + 1, at, (size_t)(digits + sizeof digits - at));
    return text;
}

bool stamp_parse(struct view text, struct stamp *ret_stamp)
{
    uint64_t clock = 0, us;
    if (text.size <= CLOCK_DIGITS || text.data[CLOCK_DIGITS] != ':')
        return false;
    for (size_t i = 0; i < CLOCK_DIGITS; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            return false;
        clock = clock << 4 | (uint64_t)digit;
    }
    if (parse_u64(view_from(text, CLOCK_DIGITS + 1), STAMP_US_MAX, &us, NULL) != HF_OK)
        return false;
    *ret_stamp = (struct stamp){ clock, (int64_t)us };
    return true;
}
