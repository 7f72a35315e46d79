/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c: parses and prints numbers, durations, sizes and timestamps. The whole input must match,
 * and an error shows an example of valid input. */
#include "base/parse.h"

#include "base/check.h"
#include "base/instant.h"

#include <inttypes.h>
#include <stdio.h>

#define SPAN_US_MAX (INT64_C(100) * 366 * 86400 * 1000000)

static bool is_decimal_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Removes leading digits from *text. Returns false if there are none, or if the number is above
 * `max`. */
static bool take_digits(struct view *text, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t used = 0;
    while (used < text->size && is_decimal_digit(text->data[used])) {
        uint64_t digit = (uint64_t)(text->data[used++] - '0');
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value) || value > max)
            return false;
    }
    *text = view_from(*text, used);
    *ret_value = value;
    return used > 0;
}

enum hf_status parse_u64(struct view text, uint64_t max, uint64_t *ret_value,
                         struct hf_error *error)
{
    struct view rest = text;
    uint64_t value;
    if (!take_digits(&rest, max, &value) || rest.size != 0)
        return max < INT64_MAX ? error_set(error, HF_INVALID,
                                           "'%.*s' is not a whole number from 0 to %" PRIu64,
                                           VIEW_ARGS(view_first(text, 60)), max)
                               : error_set(error, HF_INVALID, "'%.*s' is not a whole number",
                                           VIEW_ARGS(view_first(text, 60)));
    *ret_value = value;
    return HF_OK;
}

/* ---- Spans --------------------------------------------------------------------------- */

struct span_unit {
    const char *name;
    int64_t us;
};

/* In descending order. The units in a text must appear in the order of this table. */
static const struct span_unit span_units[] = {
    { "d", INT64_C(86400) * 1000000 },
    { "h", INT64_C(3600) * 1000000 },
    { "m", INT64_C(60) * 1000000 },
    { "s", 1000000 },
    { "ms", 1000 },
    { "us", 1 },
};
#define SPAN_UNITS (sizeof span_units / sizeof span_units[0])

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct view take_unit_name(struct view *text)
{
    size_t used = 0;
    while (used < text->size && is_letter(text->data[used]))
        used++;
    struct view letters = view_first(*text, used);
    *text = view_from(*text, used);
    return letters;
}

/* Removes one part, such as "30s", from *text. *next_unit is the first unit that is still
 * allowed. */
static bool take_span_part(struct view *text, size_t *next_unit, int64_t *total_us)
{
    uint64_t number;
    if (!take_digits(text, (uint64_t)SPAN_US_MAX, &number))
        return false;
    struct view name = take_unit_name(text);
    size_t unit = *next_unit;
    while (unit < SPAN_UNITS && !view_equal(name, view_of(span_units[unit].name)))
        unit++;
    if (unit == SPAN_UNITS)
        return false;
    int64_t room = SPAN_US_MAX - *total_us;
    if ((int64_t)number > room / span_units[unit].us)
        return false;
    *total_us += (int64_t)number * span_units[unit].us;
    *next_unit = unit + 1;
    return true;
}

enum hf_status parse_span(struct view text, struct span *ret_span, struct hf_error *error)
{
    int64_t total_us = 0;
    size_t next_unit = 0;
    struct view rest = text;
    bool good = text.size > 0;
    if (view_equal(text, VIEW("0")))
        rest.size = 0;
    while (good && rest.size > 0)
        good = take_span_part(&rest, &next_unit, &total_us);
    if (!good && text.size > 1 && text.data[0] == '-' && is_decimal_digit(text.data[1]))
        return error_set(error, HF_INVALID, "'%.*s': a duration must not be negative",
                         VIEW_ARGS(view_first(text, 60)));
    if (!good)
        return error_set(
            error, HF_INVALID,
            "'%.*s' is not a duration; use a form like 250ms, 30s, 1m30s, 2h or 7d",
            VIEW_ARGS(view_first(text, 60)));
    *ret_span = SPAN_US(total_us);
    return HF_OK;
}

const char *span_text(struct span span, char text[SPAN_TEXT_MAX])
{
    uint64_t left = span.us < 0 ? 0 - (uint64_t)span.us : (uint64_t)span.us;
    size_t used = 0;
    text[0] = '\0';
    if (span.us < 0)
        text[used++] = '-';
    for (size_t i = 0; i < SPAN_UNITS; i++) {
        uint64_t unit_us = (uint64_t)span_units[i].us;
        uint64_t count = left / unit_us;
        left -= count * unit_us;
        if (count)
            used += (size_t)snprintf(text + used, SPAN_TEXT_MAX - used, "%" PRIu64 "%s", count,
                                     span_units[i].name);
    }
    if (used == 0)
        snprintf(text, SPAN_TEXT_MAX, "0");
    return text;
}

const char *ago_text(struct span age, char text[AGO_TEXT_MAX])
{
    char span[SPAN_TEXT_MAX];
    if (age.us < 1000000)
        snprintf(text, AGO_TEXT_MAX, "just now");
    else
        snprintf(text, AGO_TEXT_MAX, "%s ago", span_text(SPAN_S(age.us / 1000000), span));
    return text;
}

/* ---- Sizes --------------------------------------------------------------------------- */

struct size_unit {
    const char *name;
    uint64_t bytes;
};

static const struct size_unit size_units[] = {
    { "", 1 },
    { "B", 1 },
    { "KB", 1000 },
    { "MB", 1000 * 1000 },
    { "GB", UINT64_C(1000) * 1000 * 1000 },
    { "TB", UINT64_C(1000) * 1000 * 1000 * 1000 },
    { "KiB", UINT64_C(1) << 10 },
    { "MiB", UINT64_C(1) << 20 },
    { "GiB", UINT64_C(1) << 30 },
    { "TiB", UINT64_C(1) << 40 },
};

enum hf_status parse_size(struct view text, uint64_t *ret_bytes, struct hf_error *error)
{
    struct view rest = text;
    uint64_t number;
    if (take_digits(&rest, INT64_MAX, &number)) {
        for (size_t i = 0; i < sizeof size_units / sizeof size_units[0]; i++) {
            if (!view_equal(rest, view_of(size_units[i].name)))
                continue;
            if (number > INT64_MAX / size_units[i].bytes)
                break;
            *ret_bytes = number * size_units[i].bytes;
            return HF_OK;
        }
    }
    return error_set(error, HF_INVALID,
                     "'%.*s' is not a size; use a form like 4096, 64KiB, 2GiB or 10MB",
                     VIEW_ARGS(view_first(text, 60)));
}

const char *size_text(uint64_t bytes, char text[SIZE_TEXT_MAX])
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    if (bytes < 1024) {
        snprintf(text, SIZE_TEXT_MAX, "%u B", (unsigned)bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, SIZE_TEXT_MAX, "%.1f %s", value, units[unit]);
    return text;
}

/* ---- Times --------------------------------------------------------------------------- */

enum hf_status parse_time(struct view text, struct wall_time *ret_time, struct hf_error *error)
{
    struct instant instant;
    if (!instant_parse_any_year(text, &instant))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a time; use a form like 2026-02-06T10:00:00Z",
                         VIEW_ARGS(view_first(text, 60)));
    if (instant.s < INSTANT_S_MIN || instant.s > INSTANT_S_MAX)
        return error_set(error, HF_INVALID, "'%.*s' is outside the years 1 to 9999 in UTC",
                         VIEW_ARGS(view_first(text, 60)));
    ret_time->us = instant.s * 1000000 + (int64_t)(instant.atto / UINT64_C(1000000000000));
    return HF_OK;
}

/* Writes `count` digits followed by the byte `behind`, and returns the next position. */
static char *write_padded(char *at, int64_t number, int count, char behind)
{
    for (int i = count; i-- > 0; number /= 10)
        at[i] = (char)('0' + number % 10);
    at[count] = behind;
    return at + count + 1;
}

const char *time_text(struct wall_time time, char text[TIME_TEXT_MAX])
{
    int64_t ms = time.us / 1000 - (time.us % 1000 < 0);
    int64_t days = ms / 86400000 - (ms % 86400000 < 0);
    int64_t ms_of_day = ms - days * 86400000;
    if (days * 86400 < INSTANT_S_MIN || days * 86400 > INSTANT_S_MAX) {
        snprintf(text, TIME_TEXT_MAX, "(out of range)");
        return text;
    }
    struct date date = date_of_days(days);
    char *at = write_padded(text, date.year, 4, '-');
    at = write_padded(at, date.month, 2, '-');
    at = write_padded(at, date.day, 2, 'T');
    at = write_padded(at, ms_of_day / 3600000, 2, ':');
    at = write_padded(at, ms_of_day / 60000 % 60, 2, ':');
    at = write_padded(at, ms_of_day / 1000 % 60, 2, '.');
    at = write_padded(at, ms_of_day % 1000, 3, 'Z');
    *at = '\0';
    return text;
}

/* ---- Switches, digits and ttls ------------------------------------------------------- */

enum hf_status parse_switch(struct view text, bool *ret_on, struct hf_error *error)
{
    bool on = view_equal(text, VIEW("on"));
    if (!on && !view_equal(text, VIEW("off")))
        return error_set(error, HF_INVALID, "must be on or off, not '%.*s'",
                         VIEW_ARGS(view_first(text, 60)));
    *ret_on = on;
    return HF_OK;
}

bool text_is_decimal(struct view text, size_t size)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size == size;
}

bool text_is_hex(struct view text, size_t size)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((unsigned)c - '0' > 9 && (unsigned)c - 'a' > 5)
            return false;
    }
    return text.size == size;
}

void hex_encode(const void *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[from[i] >> 4];
        text[2 * i + 1] = digits[from[i] & 15];
    }
    text[2 * size] = '\0';
}

enum hf_status ttl_check(struct span ttl, struct span least, struct span most, const char *how,
                         struct hf_error *error)
{
    char from[SPAN_TEXT_MAX], to[SPAN_TEXT_MAX], given[SPAN_TEXT_MAX];
    if (ttl.us >= least.us && ttl.us <= most.us)
        return HF_OK;
    return error_set(error, HF_INVALID, "the ttl must be between %s and %s, not %s%s%s",
                     span_text(least, from), span_text(most, to), span_text(ttl, given),
                     how ? "; " : "", how ? how : "");
}
