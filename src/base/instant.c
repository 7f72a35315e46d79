/* SPDX-License-Identifier: Apache-2.0 */
/* instant.c: parses timestamps eight bytes at a time, because a merge parses one for every record.
 * The first byte of the text is the lowest byte of its word. */
#include "base/instant.h"

#include "base/word.h"

#include <stdio.h>

#define ATTO_OF_S UINT64_C(1000000000000000000)

/* The eight bytes from `at` on, with zeros after the end of the text. */
static inline uint64_t load_up_to_word(struct view text, size_t at)
{
    size_t left = text.size - at;
    if (left >= 8)
        return load_little_endian(text.data + at);
    if (left == 0)
        return 0;
    if (text.size >= 8)
        return load_little_endian(text.data + text.size - 8) >> (8 * (8 - left));
    uint64_t word = 0;
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)(unsigned char)text.data[at + i] << (8 * i);
    return word;
}

/* Sets the highest bit of each byte that is out of range. A byte of `values` must be 0 to 9 where
 * the byte of `room` is 0x76, and must be 0 where the byte of `room` is 0x7f. The result is exact
 * up to and including the first byte that is out of range, and is zero only if there is none,
 * because only a byte with its highest bit set carries into the next. */
static inline uint64_t odd_bytes(uint64_t values, uint64_t room)
{
    return (values | (values + room)) & EACH_BYTE(0x80);
}

/* The values of the leading digits of the word, then zeros. */
static inline uint64_t leading_digits(uint64_t word, size_t *ret_count)
{
    uint64_t values = word ^ EACH_BYTE('0');
    uint64_t odd = odd_bytes(values, EACH_BYTE(0x76));
    uint64_t first_odd = odd & (0 - odd);
    *ret_count = odd ? (size_t)__builtin_ctzll(odd) / 8 : 8;
    return values & ((first_odd >> 7) - 1);
}

/* The number that eight digit values form. They are combined into pairs, then into fours, then into
 * one number. */
static inline uint64_t number_of_digits(uint64_t values)
{
    values = (values * 10 + (values >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    values = (values * 100 + (values >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (values * 10000 + (values >> 32)) & UINT64_C(0xffffffff);
}

struct fraction {
    uint64_t atto; /* from the first 18 digits */
    size_t digits; /* the number of digits */
};

static inline struct fraction read_fraction(struct view text, size_t at)
{
    size_t count;
    uint64_t digits = leading_digits(load_up_to_word(text, at), &count);
    struct fraction fraction = { number_of_digits(digits) * (ATTO_OF_S / 100000000), count };
    while (count == 8) {
        digits = leading_digits(load_up_to_word(text, at + fraction.digits), &count);
        if (fraction.digits == 8)
            fraction.atto += number_of_digits(digits) * 100;
        else if (fraction.digits == 16)
            fraction.atto += number_of_digits(digits) / 1000000;
        fraction.digits += count;
    }
    return fraction;
}

/* ---- RFC 3339 ------------------------------------------------------------------------ */

static const uint16_t days_before_month[] = { 0,   31,  59,  90,  120, 151,
                                              181, 212, 243, 273, 304, 334 };
static const uint8_t days_of_month[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

/* Also counts the leap day of the year itself, and subtracts it again if it is still `to_come`. */
static inline int64_t count_days(uint32_t century, uint32_t year, uint32_t month, uint32_t day,
                                 bool to_come)
{
    uint32_t days = century * 36524 + century / 4 + year * 365 + year / 4 +
                    days_before_month[month - 1] + day - to_come;
    return (int64_t)days - 719528;
}

static inline bool is_leap(uint32_t century, uint32_t year)
{
    return (year ? year : century) % 4 == 0;
}

int64_t days_of_date(struct date date)
{
    uint32_t century = date.year / 100, year = date.year % 100;
    return count_days(century, year, date.month, date.day,
                      date.month <= 2 && is_leap(century, year));
}

/* Counts from 0000-03-01, where a leap day is the last day of its year. */
struct date date_of_days(int64_t days)
{
    days += 719468;
    int64_t era = days / 146097; /* all eras of 400 years have the same length */
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    return (struct date){ .year = (uint32_t)(year_of_era + era * 400 + (month <= 2)),
                          .month = (uint32_t)month,
                          .day =
                              (uint32_t)(day_of_year - (153 * month_from_march + 2) / 5 + 1) };
}

/* Parses eight bytes such as "26-02-06" or "10:00:00". The numbers are in bytes 0, 3 and 6 of the
 * result. */
static inline uint64_t read_pairs(const char *bytes, char between, uint64_t *odd)
{
    const uint64_t places = UINT64_C(1) << 16 | UINT64_C(1) << 40;
    uint64_t values = load_little_endian(bytes) ^ EACH_BYTE('0') ^
                      places * (uint64_t)('0' ^ (unsigned char)between);
    *odd |= odd_bytes(values, EACH_BYTE(0x76) + places * (0x7f - 0x76));
    return values * 10 + (values >> 8);
}

/* Parses the nineteen bytes "2026-02-06T10:00:00" that every timestamp starts with, as UTC. */
static inline __attribute__((always_inline)) bool read_date_and_time(const char *bytes,
                                                                     int64_t *ret_s)
{
    uint64_t odd = 0;
    uint64_t of_date = read_pairs(bytes + 2, '-', &odd);
    uint64_t of_day = read_pairs(bytes + 11, ':', &odd);
    uint32_t thousands = (uint32_t)bytes[0] - '0', hundreds = (uint32_t)bytes[1] - '0';
    if (odd || thousands > 9 || hundreds > 9)
        return false;
    if (bytes[10] != 'T' && bytes[10] != 't' && bytes[10] != ' ')
        return false;
    uint32_t century = thousands * 10 + hundreds, year = of_date & 0xff;
    uint32_t month = of_date >> 24 & 0xff, day = of_date >> 48 & 0xff;
    uint32_t hour = of_day & 0xff, minute = of_day >> 24 & 0xff, second = of_day >> 48 & 0xff;
    if (month < 1 || month > 12 || hour > 23 || minute > 59 || century + year == 0)
        return false;
    bool leap_day_to_come = month <= 2 && is_leap(century, year);
    uint32_t last = days_of_month[month - 1];
    if (leap_day_to_come)
        last += month == 2;
    if (day < 1 || day > last)
        return false;
    if (second >= 60) {
        if (second > 60)
            return false;
        second = 59;
    }
    int64_t days = count_days(century, year, month, day, leap_day_to_come);
    *ret_s = ((days * 24 + hour) * 60 + minute) * 60 + second;
    return true;
}

/* Parses the rest of the text, "+01:00" or "-08:00", as seconds east of UTC. */
static bool read_offset(struct view text, int64_t *ret_s)
{
    if (text.size != 6 || (text.data[0] != '+' && text.data[0] != '-') || text.data[3] != ':')
        return false;
    uint32_t digits[4] = { (uint32_t)text.data[1] - '0', (uint32_t)text.data[2] - '0',
                           (uint32_t)text.data[4] - '0', (uint32_t)text.data[5] - '0' };
    if (digits[0] > 9 || digits[1] > 9 || digits[2] > 5 || digits[3] > 9)
        return false;
    uint32_t hours = digits[0] * 10 + digits[1], minutes = digits[2] * 10 + digits[3];
    if (hours > 23)
        return false;
    int64_t seconds = hours * 3600 + minutes * 60;
    *ret_s = text.data[0] == '-' ? -seconds : seconds;
    return true;
}

static inline bool is_utc(char zone)
{
    return zone == 'Z' || zone == 'z';
}

/* Parses the fraction after the nineteen bytes, if there is one, and moves *at past it. */
static bool take_fraction(struct view text, size_t *at, struct fraction *ret_fraction)
{
    *ret_fraction = (struct fraction){ 0, 0 };
    if (*at == text.size || text.data[*at] != '.')
        return true;
    *ret_fraction = read_fraction(text, ++*at);
    *at += ret_fraction->digits;
    return ret_fraction->digits > 0;
}

/* Parses the text after the nineteen bytes: a fraction and a zone. */
static bool read_rest(struct view text, int64_t s, bool any_year, struct instant *ret_instant)
{
    struct fraction fraction;
    size_t at = 19;
    int64_t east_s = 0;
    if (!take_fraction(text, &at, &fraction))
        return false;
    bool utc = text.size == at + 1 && is_utc(text.data[at]);
    if (!utc && !read_offset(view_from(text, at), &east_s))
        return false;
    s -= east_s;
    if (!any_year && (s < INSTANT_S_MIN || s > INSTANT_S_MAX))
        return false;
    *ret_instant = (struct instant){ s, fraction.atto };
    return true;
}

bool instant_parse_any_year(struct view text, struct instant *ret_instant)
{
    int64_t s;
    return text.size >= 20 && read_date_and_time(text.data, &s) &&
           read_rest(text, s, true, ret_instant);
}

bool instant_parse_rfc3339(struct view text, struct instant *ret_instant)
{
    int64_t s;
    if (text.size < 20 || !read_date_and_time(text.data, &s))
        return false;
    if (text.size > 20 || !is_utc(text.data[19]))
        return read_rest(text, s, false, ret_instant);
    *ret_instant = (struct instant){ s, 0 };
    return true;
}

bool instant_parse_local(struct view text, int64_t east_s, struct instant *ret_instant)
{
    struct fraction fraction;
    size_t at = 19;
    int64_t s;
    if (text.size < at || !read_date_and_time(text.data, &s) ||
        !take_fraction(text, &at, &fraction) || at != text.size)
        return false;
    s -= east_s;
    if (s < INSTANT_S_MIN || s > INSTANT_S_MAX)
        return false;
    *ret_instant = (struct instant){ s, fraction.atto };
    return true;
}

bool zone_parse(struct view text, int64_t *ret_east_s)
{
    if (!view_equal(text, VIEW("UTC")) && !(text.size == 1 && is_utc(text.data[0])))
        return read_offset(text, ret_east_s);
    *ret_east_s = 0;
    return true;
}

/* ---- Numbers ------------------------------------------------------------------------- */

/* Parses the digits from *at on, at least one, and moves *at past them. */
static bool take_whole(struct view text, size_t *at, uint64_t *ret_whole)
{
    static const uint64_t powers[] = { 1,      10,      100,      1000,     10000,
                                       100000, 1000000, 10000000, 100000000 };
    size_t from = *at, count;
    uint64_t whole = 0;
    do {
        uint64_t digits = leading_digits(load_up_to_word(text, *at), &count);
        if (count == 0)
            break;
        if (__builtin_mul_overflow(whole, powers[count], &whole) ||
            __builtin_add_overflow(whole, number_of_digits(digits << (8 * (8 - count))),
                                   &whole))
            return false;
        *at += count;
    } while (count == 8);
    *ret_whole = whole;
    return *at > from;
}

static uint64_t units_of_second(uint64_t whole)
{
    if (whole < UINT64_C(100000000000))
        return 1;
    if (whole < UINT64_C(100000000000000))
        return 1000;
    if (whole < UINT64_C(100000000000000000))
        return 1000000;
    return 1000000000;
}

bool instant_parse_epoch(struct view text, struct instant *ret_instant)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    size_t at = negative;
    struct fraction fraction = { 0, 0 };
    uint64_t whole;
    if (!take_whole(text, &at, &whole) || whole > (uint64_t)INT64_MAX + negative)
        return false;
    if (at < text.size && text.data[at] == '.') {
        fraction = read_fraction(text, ++at);
        if (fraction.digits == 0)
            return false;
        at += fraction.digits;
    }
    if (at != text.size)
        return false;
    uint64_t units = units_of_second(whole);
    int64_t s = (int64_t)(whole / units);
    uint64_t atto = whole % units * (ATTO_OF_S / units) + fraction.atto / units;
    if (negative) {
        s = -s - (atto > 0);
        atto = atto ? ATTO_OF_S - atto : 0;
    }
    *ret_instant = (struct instant){ s, atto };
    return true;
}

/* ---- Both forms ---------------------------------------------------------------------- */

bool instant_parse(struct view text, struct instant *ret_instant)
{
    /* A date has a dash here; a number never does. */
    if (text.size > 4 && text.data[4] == '-')
        return instant_parse_rfc3339(text, ret_instant);
    return instant_parse_epoch(text, ret_instant);
}

void instant_bytes(struct instant instant, char bytes[INSTANT_BYTES])
{
    uint64_t words[] = { (uint64_t)instant.s ^ UINT64_C(1) << 63, instant.atto };
    for (size_t i = 0; i < INSTANT_BYTES; i++)
        bytes[i] = (char)(words[i / 8] >> (56 - 8 * (i % 8)));
}

void http_date_text(struct wall_time time, char text[HTTP_DATE_MAX])
{
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t s = time.us > 0 ? time.us / 1000000 : 0;
    struct date date = date_of_days(s / 86400);
    unsigned second = (unsigned)(s % 86400);
    snprintf(text, HTTP_DATE_MAX, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
             days + s / 86400 % 7 * 3, date.day, months + (date.month - 1) * 3, date.year,
             second / 3600, second / 60 % 60, second % 60);
}
