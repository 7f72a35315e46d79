/* SPDX-License-Identifier: Apache-2.0 */
/* instant.h: timestamps in data: any zone, any precision, compared exactly. */
#ifndef BASE_INSTANT_H
#define BASE_INSTANT_H

#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

/* Seconds since 1970 in UTC, rounded down, and the rest of the second in units of 10^-18 s. */
struct instant {
    int64_t s;
    uint64_t atto;
};

/* RFC 3339: "2026-02-06T10:00:00Z", "2026-02-06 11:00:00.25+01:00". t and z may be lower case, and
 * a space may replace the T. A leap second counts as the second before it. The year must be 0001 to
 * 9999 in UTC. Fraction digits after the 18th are dropped. Returns false for anything else. */
bool instant_parse_rfc3339(struct view text, struct instant *ret_instant);

/* The first and the last second of those years. */
#define INSTANT_S_MIN INT64_C(-62135596800)
#define INSTANT_S_MAX INT64_C(253402300799)

/* The same, but the conversion to UTC may move the time outside those years. */
bool instant_parse_any_year(struct view text, struct instant *ret_instant);

/* The time since 1970 as a number: in seconds if it is below 10^11, in milliseconds if below 10^14,
 * in microseconds if below 10^17, and otherwise in nanoseconds, up to the range of an int64_t. It
 * may have a minus sign and a fraction ("1700000000.25"). Fraction digits after the 18th, or below
 * 10^-18 s, are dropped. Exponents, spaces and plus signs are not accepted. */
bool instant_parse_epoch(struct view text, struct instant *ret_instant);

/* Either of the two forms. */
bool instant_parse(struct view text, struct instant *ret_instant);

/* RFC 3339 without a zone: "2026-02-06T10:00:00", as a time in a zone this many seconds east of
 * UTC. */
bool instant_parse_local(struct view text, int64_t east_s, struct instant *ret_instant);

/* A zone: "UTC", "Z", or an offset such as "+02:00", as seconds east of UTC. */
bool zone_parse(struct view text, int64_t *ret_east_s);

/* Returns a negative value, zero or a positive value, like memcmp. */
static inline int instant_compare(struct instant a, struct instant b)
{
    if (a.s != b.s)
        return a.s < b.s ? -1 : 1;
    return a.atto < b.atto ? -1 : a.atto > b.atto;
}

/* One millisecond, in units of 10^-18 s. */
#define INSTANT_MS_ATTO UINT64_C(1000000000000000)

/* Milliseconds since 1970, rounded down; and the instant of any number of them. */
static inline int64_t instant_ms(struct instant instant)
{
    return instant.s * 1000 + (int64_t)(instant.atto / INSTANT_MS_ATTO);
}

static inline struct instant instant_of_ms(int64_t ms)
{
    int64_t rest = (ms % 1000 + 1000) % 1000;
    return (struct instant){ ms / 1000 - (ms % 1000 < 0), (uint64_t)rest * INSTANT_MS_ATTO };
}

/* Sixteen bytes that sort in the order of the instants. */
#define INSTANT_BYTES 16
void instant_bytes(struct instant instant, char bytes[INSTANT_BYTES]);

/* A date in the Gregorian calendar, not before 0001-01-01, and its day number counted from
 * 1970-01-01. */
struct date {
    uint32_t year;
    uint32_t month;
    uint32_t day;
};
int64_t days_of_date(struct date date);
struct date date_of_days(int64_t days);

/* A date of HTTP: "Tue, 17 Nov 2026 22:40:00 GMT". */
#define HTTP_DATE_MAX 40
void http_date_text(struct wall_time time, char text[HTTP_DATE_MAX]);

#endif
