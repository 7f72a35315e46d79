/* SPDX-License-Identifier: Apache-2.0 */
/* parse.h: strict parsers for text from users and files: the whole text must be a valid value
 * within the range. Otherwise the result is INVALID, and the message says what was expected. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

/* "0", "42": digits only, at most `max`. */
enum hf_status parse_u64(struct view text, uint64_t max, uint64_t *ret_value,
                         struct hf_error *error);

/* "250ms", "30s", "1m30s", "2h", "7d": numbers with units d h m s ms us, each at most once and
 * in descending order. A plain "0" is accepted; a plain "30" is not, because its unit is
 * unknown. At most 100 years. */
enum hf_status parse_span(struct view text, struct span *ret_span, struct hf_error *error);

/* "4096", "64KiB", "2GiB", "10MB": B KB MB GB TB in thousands, KiB MiB GiB TiB in 1,024s.
 * Below 2^63. */
enum hf_status parse_size(struct view text, uint64_t *ret_bytes, struct hf_error *error);

/* RFC 3339: "2026-02-06T10:00:00Z", "2026-02-06T11:00:00.250+01:00". A leap second counts as the
 * second before it. Years 0001 to 9999 in UTC; fractions are truncated to microseconds. */
enum hf_status parse_time(struct view text, struct wall_time *ret_time, struct hf_error *error);

/* "on" or "off". */
enum hf_status parse_switch(struct view text, bool *ret_on, struct hf_error *error);

/* The span in the largest possible units: "1m30s". parse_span converts the text back to the same
 * span. A negative span has a leading "-", which parse_span does not accept. */
#define SPAN_TEXT_MAX 64
const char *span_text(struct span span, char text[SPAN_TEXT_MAX]);

/* "24m ago", with the age in whole seconds, or "just now". */
#define AGO_TEXT_MAX (SPAN_TEXT_MAX + 4)
const char *ago_text(struct span age, char text[AGO_TEXT_MAX]);

/* "2026-02-06T10:00:00.000Z", truncated to milliseconds. */
#define TIME_TEXT_MAX 32
const char *time_text(struct wall_time time, char text[TIME_TEXT_MAX]);

/* "1.5 MiB", for display. */
#define SIZE_TEXT_MAX 24
const char *size_text(uint64_t bytes, char text[SIZE_TEXT_MAX]);

/* Whether the text is exactly this many decimal, or lower-case hexadecimal, digits. */
bool text_is_decimal(struct view text, size_t size);
bool text_is_hex(struct view text, size_t size);

/* Lower-case hexadecimal; `text` must have room for 2 * size + 1 bytes. */
void hex_encode(const void *bytes, size_t size, char *text);

/* The value of one hexadecimal digit of either case, or -1. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char small = (char)(c | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* The plural ending of a noun after its number: "1 chunk", "2 chunks". */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* INVALID unless the ttl is in this range: "the ttl must be between 100ms and 1h, not 2h". `how`,
 * which may be NULL, tells the user what to do. */
enum hf_status ttl_check(struct span ttl, struct span least, struct span most, const char *how,
                         struct hf_error *error);

#endif
