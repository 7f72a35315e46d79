/* SPDX-License-Identifier: Apache-2.0 */
/* instant_test.c: timestamps in data, compared with the calendar of the C library: what is
 * refused, the limits, and that the bytes sort like the instants. */
#include "base/instant.h"
#include "base/prng.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define ATTO_OF_S UINT64_C(1000000000000000000)

/* Without a byte behind it, so that a sanitizer sees every step too far. */
static bool parse_copy(bool (*parse)(struct view, struct instant *), const char *text,
                       struct instant *ret_instant)
{
    size_t size = strlen(text);
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    bool good = parse((struct view){ copy, size }, ret_instant);
    free(copy);
    return good;
}

static void assert_instant(const char *text, int64_t s, uint64_t atto)
{
    struct instant instant = { 7, 7 };
    if (!parse_copy(instant_parse, text, &instant))
        fail_msg("%s was refused", text);
    if (instant.s != s || instant.atto != atto)
        fail_msg("%s became %lld and %llu", text, (long long)instant.s,
                 (unsigned long long)instant.atto);
}

static void assert_refused(const char *text)
{
    bool (*const parsers[])(struct view, struct instant *) = { instant_parse,
                                                               instant_parse_epoch,
                                                               instant_parse_rfc3339 };
    for (size_t i = 0; i < COUNT(parsers); i++) {
        struct instant instant = { 7, 7 };
        if (parse_copy(parsers[i], text, &instant))
            fail_msg("%s was taken as %lld", text, (long long)instant.s);
        assert_true(instant.s == 7 && instant.atto == 7);
    }
}

struct reading {
    const char *text;
    int64_t s;
    uint64_t atto;
};

/* ---- RFC 3339 ------------------------------------------------------------------------ */

static void texts_are_read(void **state)
{
    (void)state;
    static const struct reading good[] = {
        { "1970-01-01T00:00:00Z", 0, 0 },
        { "2026-02-06T10:00:00Z", 1770372000, 0 },
        { "2026-02-06t10:00:00z", 1770372000, 0 },
        { "2026-02-06 10:00:00Z", 1770372000, 0 },
        { "2026-02-06 11:00:00.25+01:00", 1770372000, 250 * (ATTO_OF_S / 1000) },
        { "2026-02-05T12:30:00-21:30", 1770372000, 0 },
        { "2026-02-07T09:59:00+23:59", 1770372000, 0 },
        { "2026-02-06T10:00:00-00:00", 1770372000, 0 },
        { "2026-02-06T10:00:00.1Z", 1770372000, ATTO_OF_S / 10 },
        { "2026-02-06T10:00:00.1234567Z", 1770372000, UINT64_C(123456700000000000) },
        { "2026-02-06T10:00:00.12345678Z", 1770372000, UINT64_C(123456780000000000) },
        { "2026-02-06T10:00:00.123456789Z", 1770372000, UINT64_C(123456789000000000) },
        { "2026-02-06T10:00:00.000000001z", 1770372000, 1000000000 },
        { "2026-02-06T10:00:00.1234567890123456-00:01", 1770372060,
          UINT64_C(123456789012345600) },
        { "2026-02-06T10:00:00.123456789012345678Z", 1770372000, UINT64_C(123456789012345678) },
        { "2026-02-06T10:00:00.1234567890123456789Z", 1770372000,
          UINT64_C(123456789012345678) },
        { "2026-02-06T10:00:00.9999999999999999999999999999999999Z", 1770372000,
          ATTO_OF_S - 1 },
        { "1969-12-31T23:59:59.25Z", -1, ATTO_OF_S / 4 },
        { "2016-12-31T23:59:60Z", 1483228799, 0 },
        { "2016-12-31T23:59:60.5Z", 1483228799, ATTO_OF_S / 2 },
        { "2016-12-31T15:59:60-08:00", 1483228799, 0 },
        { "2000-02-29T00:00:00Z", 951782400, 0 },
        { "0001-01-01T00:00:00Z", INSTANT_S_MIN, 0 },
        { "0001-01-01T01:00:00+01:00", INSTANT_S_MIN, 0 },
        { "9999-12-31T23:59:59.999999999999999999Z", INSTANT_S_MAX, ATTO_OF_S - 1 },
        { "9999-12-31T22:59:59-01:00", INSTANT_S_MAX, 0 },
    };
    for (size_t i = 0; i < COUNT(good); i++)
        assert_instant(good[i].text, good[i].s, good[i].atto);
}

static bool parse_east(struct view text, struct instant *ret_instant)
{
    return instant_parse_local(text, 2 * 3600, ret_instant);
}

static void times_without_a_zone_are_read_in_one(void **state)
{
    (void)state;
    static const struct reading good[] = {
        { "2026-02-06T12:00:00", 1770372000, 0 },
        { "2026-02-06 12:00:00.25", 1770372000, ATTO_OF_S / 4 },
        { "1970-01-01t00:00:00", -7200, 0 },
        { "0001-01-01T02:00:00", INSTANT_S_MIN, 0 },
    };
    static const char *const bad[] = {
        "",
        "2026-02-06T12:00:00Z",
        "2026-02-06T12:00:00+02:00",
        "2026-02-06T12:00:00.",
        "2026-02-06T12:00:0",
        "2026-02-06T12:00:00 ",
        "2026-02-30T12:00:00",
        "2026-02-06",
        "0001-01-01T01:59:59",
        "1770372000",
    };
    struct instant instant = { 7, 7 };
    for (size_t i = 0; i < COUNT(bad); i++)
        if (parse_copy(parse_east, bad[i], &instant))
            fail_msg("%s was taken as %lld", bad[i], (long long)instant.s);
    assert_true(instant.s == 7 && instant.atto == 7);
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!parse_copy(parse_east, good[i].text, &instant))
            fail_msg("%s was refused", good[i].text);
        assert_true(instant.s == good[i].s && instant.atto == good[i].atto);
    }
}

static void zones_are_utc_or_an_offset(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      "utc",    "CET",    "+2:00",   "02:00",
                                       "+0200", "+24:00", "+02:60", "+02:00 ", "ZZ" };
    int64_t east_s = 7;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (zone_parse(view_of(bad[i]), &east_s))
            fail_msg("%s was taken as a zone", bad[i]);
    assert_true(zone_parse(VIEW("UTC"), &east_s) && east_s == 0);
    assert_true(zone_parse(VIEW("Z"), &east_s) && east_s == 0);
    assert_true(zone_parse(VIEW("+02:30"), &east_s) && east_s == 9000);
    assert_true(zone_parse(VIEW("-23:59"), &east_s) && east_s == -86340);
}

static void odd_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "2026-02-06",
        "2026-02-06T10:00Z",
        "2026-02-06T10:00:00",
        "2026-02-06T10:00:00.5",
        "2026-02-06T10:00:00.Z",
        "2026-02-06T10:00:00.+01:00",
        "2026-02-06T10:00:00,5Z",
        "2026-02-06T10:00:00 Z",
        "2026-02-06T10:00:00ZZ",
        "2026-02-06T10:00:00.5ZZ",
        "2026-02-06T10:00:00Z ",
        " 2026-02-06T10:00:00Z",
        "2026-02-06_10:00:00Z",
        "2026-02-06T24:00:00Z",
        "2026-02-06T10:60:00Z",
        "2026-02-06T10:00:61Z",
        "2026-02-06T10:00:99Z",
        "2026-00-06T10:00:00Z",
        "2026-13-06T10:00:00Z",
        "2026-99-06T10:00:00Z",
        "2026-02-00T10:00:00Z",
        "2026-02-29T10:00:00Z",
        "2024-02-30T10:00:00Z",
        "2000-02-30T10:00:00Z",
        "1900-02-29T10:00:00Z",
        "2100-02-29T10:00:00Z",
        "2026-01-32T10:00:00Z",
        "2026-04-31T10:00:00Z",
        "2026-12-99T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "0000-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
        "2026-02-06T10:00:00+24:00",
        "2026-02-06T10:00:00+23:60",
        "2026-02-06T10:00:00+0100",
        "2026-02-06T10:00:00+01",
        "2026-02-06T10:00:00+1:00",
        "2026-02-06T10:00:00+01:0",
        "2026-02-06T10:00:00+01:000",
        "2026-02-06T10:00:00+01:00Z",
        "2026-02-06T10:00:00\xe2\x88+01:00",
        "2026-02-06T10:00:-1Z",
        "2026-02-06T10:0::00Z",
        "2026-02-06T10;00;00Z",
        "2026/02/06T10:00:00Z",
        "202\xb6-02-06T10:00:00Z",
        "20:6-02-06T10:00:00Z",
        "2026-W06-5T10:00:00Z",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(bad[i]);
}

/* A byte of a good text is only ever replaced by what the grammar has there. */
static void every_byte_of_a_text_counts(void **state)
{
    (void)state;
    const char good[] = "2026-02-06T10:00:00.5+01:00";
    for (size_t at = 0; at < sizeof good - 1; at++) {
        for (int byte = 1; byte < 256; byte++) {
            char text[sizeof good];
            memcpy(text, good, sizeof good);
            text[at] = (char)byte;
            struct instant instant;
            bool was_digit = good[at] >= '0' && good[at] <= '9';
            bool may = was_digit ? byte >= '0' && byte <= '9' : byte == good[at];
            may = may || (good[at] == 'T' && (byte == 't' || byte == ' '));
            may = may || (good[at] == '+' && byte == '-');
            if (parse_copy(instant_parse_rfc3339, text, &instant) && !may)
                fail_msg("%s was taken", text);
        }
    }
}

static int last_day(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

struct sample {
    struct tm tm;
    int zone_minutes;
    int digits; /* of the fraction */
    uint64_t fraction;
};

static struct sample draw(struct prng *prng)
{
    struct sample sample = { .zone_minutes = (int)prng_below(prng, 2879) - 1439,
                             .digits = (int)prng_below(prng, 20) };
    int year = 2 + (int)prng_below(prng, 9997), month = 1 + (int)prng_below(prng, 12);
    sample.tm =
        (struct tm){ .tm_year = year - 1900,
                     .tm_mon = month - 1,
                     .tm_mday = 1 + (int)prng_below(prng, (uint64_t)last_day(year, month)),
                     .tm_hour = (int)prng_below(prng, 24),
                     .tm_min = (int)prng_below(prng, 60),
                     .tm_sec = (int)prng_below(prng, 60) };
    uint64_t limit = 1;
    for (int i = 0; i < sample.digits; i++)
        limit *= 10;
    sample.fraction = limit > 1 ? prng_below(prng, limit) : 0;
    return sample;
}

static void print(const struct sample *sample, char *text, size_t size)
{
    const struct tm *tm = &sample->tm;
    int zone = abs(sample->zone_minutes);
    size_t used =
        (size_t)snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02d", tm->tm_year + 1900,
                         tm->tm_mon + 1, tm->tm_mday, tm->tm_hour, tm->tm_min, tm->tm_sec);
    if (sample->digits)
        used += (size_t)snprintf(text + used, size - used, ".%0*llu", sample->digits,
                                 (unsigned long long)sample->fraction);
    if (zone)
        snprintf(text + used, size - used, "%c%02d:%02d", sample->zone_minutes < 0 ? '-' : '+',
                 zone / 60, zone % 60);
    else
        snprintf(text + used, size - used, "Z");
}

static void random_times_agree_with_the_c_library(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(11);
    for (int i = 0; i < 50000; i++) {
        struct sample sample = draw(&prng);
        struct tm tm = sample.tm;
        char text[128];
        print(&sample, text, sizeof text);
        uint64_t atto = sample.fraction;
        for (int digits = sample.digits; digits < 18; digits++)
            atto *= 10;
        if (sample.digits == 19)
            atto /= 10;
        assert_instant(text, (int64_t)timegm(&tm) - sample.zone_minutes * 60, atto);
    }
}

static void assert_day(int year, int month, int day, int64_t days)
{
    struct date date = { (uint32_t)year, (uint32_t)month, (uint32_t)day };
    struct date back = date_of_days(days);
    if (days_of_date(date) != days || memcmp(&date, &back, sizeof date) != 0)
        fail_msg("%d-%d-%d is not day %lld", year, month, day, (long long)days);
}

/* Counts through the calendar: the first and the last day of each month, and every day of one
 * cycle of 400 years. */
static void dates_and_days_are_each_others_inverse(void **state)
{
    (void)state;
    int64_t days = INSTANT_S_MIN / 86400;
    for (int year = 1; year <= 9999; year++) {
        for (int month = 1; month <= 12; month++) {
            int last = last_day(year, month);
            for (int day = 1; day <= last; day++, days++)
                if ((year > 1800 && year <= 2200) || day == 1 || day == last)
                    assert_day(year, month, day, days);
        }
    }
    assert_true(days == (INSTANT_S_MAX + 1) / 86400);
}

/* ---- Numbers ------------------------------------------------------------------------- */

static void numbers_tell_their_unit_by_their_size(void **state)
{
    (void)state;
    static const struct reading good[] = {
        { "0", 0, 0 },
        { "-0", 0, 0 },
        { "-0.0", 0, 0 },
        { "7", 7, 0 },
        { "-7", -7, 0 },
        { "0.5", 0, ATTO_OF_S / 2 },
        { "-0.5", -1, ATTO_OF_S / 2 },
        { "-1.25", -2, ATTO_OF_S / 4 * 3 },
        { "1700000000", 1700000000, 0 },
        { "1700000000.25", 1700000000, ATTO_OF_S / 4 },
        { "0001700000000", 1700000000, 0 },
        { "000000000000000000000000000000001", 1, 0 },
        { "1.000000000000000001", 1, 1 },
        { "1.0000000000000000019", 1, 1 },
        { "-0.000000000000000001", -1, ATTO_OF_S - 1 },
        { "-0.0000000000000000001", 0, 0 },
        { "99999999999", INT64_C(99999999999), 0 },
        { "99999999999.999", INT64_C(99999999999), UINT64_C(999000000000000000) },
        { "100000000000", 100000000, 0 },
        { "-99999999999", INT64_C(-99999999999), 0 },
        { "-100000000000", -100000000, 0 },
        { "1700000000123", 1700000000, UINT64_C(123000000000000000) },
        { "1700000000123.5", 1700000000, UINT64_C(123500000000000000) },
        { "-1700000000123", -1700000001, UINT64_C(877000000000000000) },
        { "1700000000123.1234567890123456789", 1700000000, UINT64_C(123123456789012345) },
        { "99999999999999", INT64_C(99999999999), UINT64_C(999000000000000000) },
        { "100000000000000", 100000000, 0 },
        { "1700000000123456", 1700000000, UINT64_C(123456000000000000) },
        { "99999999999999999", INT64_C(99999999999), UINT64_C(999999000000000000) },
        { "100000000000000000", 100000000, 0 },
        { "1700000000123456789", 1700000000, UINT64_C(123456789000000000) },
        { "1700000000123456789.123456789123", 1700000000, UINT64_C(123456789123456789) },
        { "9223372036854775807", INT64_C(9223372036), UINT64_C(854775807000000000) },
        { "-9223372036854775808", INT64_C(-9223372037), UINT64_C(145224192000000000) },
    };
    for (size_t i = 0; i < COUNT(good); i++)
        assert_instant(good[i].text, good[i].s, good[i].atto);
}

static void odd_numbers_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        "--1",
        ".5",
        "5.",
        "-.5",
        "-5.",
        "1.-5",
        "1..5",
        "1.5.5",
        " 1",
        "1 ",
        "1e9",
        "1E9",
        "0x10",
        "1,5",
        "nan",
        "inf",
        "null",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999",
        "100000000000000000000000000000000000000",
        "1.5Z",
        "12:30",
        "1700000000s",
        "\xc2\xb2",
        "1700000000:",
        "1700000000/",
        "17000:0000",
        "1234-",
        "1234-5",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(bad[i]);
    struct instant instant = { 7, 7 };
    assert_false(instant_parse((struct view){ "1\0", 2 }, &instant));
    assert_false(instant_parse((struct view){ NULL, 0 }, &instant));
    assert_int_equal(instant.s, 7);
}

__extension__ typedef __int128 wide_int;

static void random_numbers_agree_with_128_bits(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(12);
    for (int i = 0; i < 50000; i++) {
        int64_t whole = (int64_t)(prng_next(&prng) >> (1 + prng_below(&prng, 63)));
        uint32_t thousandths = (uint32_t)prng_below(&prng, 1000);
        bool negative = prng_below(&prng, 2);
        char text[64];
        snprintf(text, sizeof text, "%s%lld.%03u", negative ? "-" : "", (long long)whole,
                 thousandths);
        int64_t atto_of_unit = whole < INT64_C(100000000000)         ? (int64_t)ATTO_OF_S
                               : whole < INT64_C(100000000000000)    ? INT64_C(1000000000000000)
                               : whole < INT64_C(100000000000000000) ? INT64_C(1000000000000)
                                                                     : INT64_C(1000000000);
        wide_int total = ((wide_int)whole * 1000 + thousandths) * (atto_of_unit / 1000);
        if (negative)
            total = -total;
        wide_int s = total / (wide_int)ATTO_OF_S, left = total % (wide_int)ATTO_OF_S;
        if (left < 0) {
            s--;
            left += (wide_int)ATTO_OF_S;
        }
        assert_instant(text, (int64_t)s, (uint64_t)left);
    }
}

/* ---- Order --------------------------------------------------------------------------- */

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static void bytes_are_ordered_as_the_instants_are(void **state)
{
    (void)state;
    static const int64_t seconds[] = { INT64_MIN, INT64_MIN + 1, -256, -2,         -1,       0,
                                       1,         255,           256,  1700000000, INT64_MAX };
    static const uint64_t attos[] = { 0, 1, 255, 256, ATTO_OF_S / 2, ATTO_OF_S - 1 };
    struct instant all[COUNT(seconds) * COUNT(attos)];
    for (size_t i = 0; i < COUNT(all); i++)
        all[i] = (struct instant){ seconds[i / COUNT(attos)], attos[i % COUNT(attos)] };
    for (size_t i = 0; i < COUNT(all); i++) {
        for (size_t k = 0; k < COUNT(all); k++) {
            char a[INSTANT_BYTES], b[INSTANT_BYTES];
            instant_bytes(all[i], a);
            instant_bytes(all[k], b);
            int expected = (i > k) - (i < k); /* they were made in order */
            assert_int_equal(sign(instant_compare(all[i], all[k])), expected);
            assert_int_equal(sign(memcmp(a, b, sizeof a)), expected);
        }
    }
}

static void random_bytes_are_ordered_as_the_instants_are(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(13);
    for (int i = 0; i < 50000; i++) {
        struct instant a = { (int64_t)prng_next(&prng), prng_below(&prng, ATTO_OF_S) }, b = a;
        if (prng_below(&prng, 2))
            b.s = (int64_t)prng_next(&prng);
        if (prng_below(&prng, 2))
            b.atto = prng_below(&prng, ATTO_OF_S);
        char bytes_a[INSTANT_BYTES], bytes_b[INSTANT_BYTES];
        instant_bytes(a, bytes_a);
        instant_bytes(b, bytes_b);
        assert_int_equal(sign(memcmp(bytes_a, bytes_b, INSTANT_BYTES)),
                         sign(instant_compare(a, b)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("times are read in any zone and to the last of 18 digits", texts_are_read),
        IT("times without a zone are read in the zone that is given",
           times_without_a_zone_are_read_in_one),
        IT("a zone is UTC or an offset", zones_are_utc_or_an_offset),
        IT("a time with anything odd in it is refused", odd_texts_are_refused),
        IT("no byte of a time can be another than the grammar has",
           every_byte_of_a_text_counts),
        IT("random times are the instants that the C library computes",
           random_times_agree_with_the_c_library),
        IT("every day from year 1 to 9999 has its number, and back",
           dates_and_days_are_each_others_inverse),
        IT("a number tells by its size whether it is s, ms, us or ns",
           numbers_tell_their_unit_by_their_size),
        IT("a number with anything odd in it is refused", odd_numbers_are_refused),
        IT("random numbers are exact", random_numbers_agree_with_128_bits),
        IT("bytes are ordered as the instants are, at the edges",
           bytes_are_ordered_as_the_instants_are),
        IT("bytes are ordered as the instants are, at random",
           random_bytes_are_ordered_as_the_instants_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
