/* SPDX-License-Identifier: Apache-2.0 */
/* base_parse_test.c: strict parsing: which texts are accepted, which are refused, and that
 * every printed value is read back as the same value. */
#include "base/limits.h"
#include "base/parse.h"
#include "base/prng.h"
#include "base/url.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A refusal has a reason for a person and leaves the output as it was. */
static void assert_refused(const char *what, enum hf_status status,
                           const struct hf_error *error)
{
    if (status != HF_INVALID)
        fail_msg("\"%s\" was answered with %s", what, hf_status_name(status));
    assert_int_equal(error->status, HF_INVALID);
    assert_true(strlen(error->why) > 10);
}

/* ---- numbers and switches ------------------------------------------------------------ */

static void numbers_are_digits_only(void **state)
{
    (void)state;
    struct hf_error error;
    uint64_t value = 0;
    assert_status(HF_OK, parse_u64(VIEW("0"), 0, &value, &error), &error);
    assert_true(value == 0);
    assert_status(HF_OK, parse_u64(VIEW("42"), 42, &value, &error), &error);
    assert_true(value == 42);
    assert_status(HF_OK, parse_u64(VIEW("18446744073709551615"), UINT64_MAX, &value, &error),
                  &error);
    assert_true(value == UINT64_MAX);

    static const char *const bad[] = {
        "",
        "+1",
        "-1",
        " 1",
        "1 ",
        "0x10",
        "1e3",
        "1.0",
        "1,000",
        "a",
        "1\n",
        "\xd9\xa1",
        "18446744073709551616",
        "18446744073709551625",
        "99999999999999999999999999999999",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        value = 7;
        assert_refused(bad[i], parse_u64(view_of(bad[i]), UINT64_MAX, &value, &error), &error);
        assert_true(value == 7);
    }
    assert_refused("43", parse_u64(VIEW("43"), 42, &value, &error), &error);
    assert_refused("1 NUL", parse_u64((struct view){ "1\0", 2 }, 42, &value, &error), &error);
    assert_refused("no bytes", parse_u64((struct view){ NULL, 0 }, 42, &value, &error), &error);
    /* Only the view counts, not what stands behind it. */
    assert_status(HF_OK, parse_u64((struct view){ "123", 1 }, 9, &value, &error), &error);
    assert_true(value == 1);
}

static void switches_are_on_or_off(void **state)
{
    (void)state;
    struct hf_error error;
    bool on = false;
    assert_status(HF_OK, parse_switch(VIEW("on"), &on, &error), &error);
    assert_true(on);
    assert_status(HF_OK, parse_switch(VIEW("off"), &on, &error), &error);
    assert_false(on);
    static const char *const bad[] = { "", "ON", "yes", "1", "true", "on ", "of", "offf" };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(bad[i], parse_switch(view_of(bad[i]), &on, &error), &error);
}

/* ---- spans --------------------------------------------------------------------------- */

static void spans_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        { "0", 0 },
        { "0s", 0 },
        { "1us", 1 },
        { "250ms", 250000 },
        { "30s", 30000000 },
        { "1m30s", 90000000 },
        { "2h", 7200000000 },
        { "7d", 604800000000 },
        { "1m500ms", 60500000 },
        { "1d1h1m1s1ms1us", 90061001001 },
        { "90m", 5400000000 },
        { "1000ms", 1000000 },
        { "36500d", INT64_C(3153600000000000) },
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        struct span span = { -1 };
        struct hf_error error;
        assert_status(HF_OK, parse_span(view_of(good[i].text), &span, &error), &error);
        if (span.us != good[i].us)
            fail_msg("%s became %lld us", good[i].text, (long long)span.us);
    }
}

static void spans_are_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "30",
        "1",
        "s",
        "ms",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1 s",
        "1.5s",
        "1S",
        "1M",
        "1H",
        "1s1s",
        "1s1m",
        "1ms1s",
        "1us1ms",
        "1m30",
        "0m30",
        "1w",
        "1y",
        "1min",
        "1sec",
        "1hour",
        "00",
        "1mss",
        "1e3s",
        "0x1s",
        "1s0",
        "40000d",
        "1000000h",
        "4000000000s",
        "9223372036854775807us",
        "9223372036854775808us",
        "18446744073709551615us",
        "18446744073709551616us",
        "18446744073709551617s",
        "106751991167301d",
        "99999999999999999999999999999999999999s",
        "36500d36500h",
        "1h1h",
        "1\xc2\xb5s",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct span span = { 77 };
        struct hf_error error;
        assert_refused(bad[i], parse_span(view_of(bad[i]), &span, &error), &error);
        assert_int_equal(span.us, 77);
    }
    struct span span;
    struct hf_error error;
    assert_refused("NUL", parse_span((struct view){ "1s\0", 3 }, &span, &error), &error);
}

static void assert_span_round_trip(int64_t us)
{
    char text[SPAN_TEXT_MAX];
    struct span back = { -1 };
    struct hf_error error;
    assert_ptr_equal(span_text((struct span){ us }, text), text);
    assert_true(strlen(text) < sizeof text);
    assert_status(HF_OK, parse_span(view_of(text), &back, &error), &error);
    if (back.us != us)
        fail_msg("%lld us printed as %s", (long long)us, text);
}

static void spans_print_and_read_back(void **state)
{
    (void)state;
    const int64_t hundred_years = INT64_C(36500) * 86400 * 1000000;
    struct prng prng = prng_seeded(6);
    for (int64_t us = 0; us < 3000; us++)
        assert_span_round_trip(us);
    for (int i = 0; i < 200000; i++)
        assert_span_round_trip(
            (int64_t)prng_below(&prng, (UINT64_C(1) << prng_below(&prng, 51)) + 1));
    assert_span_round_trip(hundred_years);
    assert_span_round_trip(hundred_years - 1);
    char text[SPAN_TEXT_MAX];
    assert_string_equal(span_text(SPAN_S(90), text), "1m30s");
    assert_string_equal(span_text(SPAN_S(0), text), "0");
    assert_string_equal(span_text(SPAN_MS(250), text), "250ms");
    /* Too long to be read back, but never too long for its room. */
    assert_true(strlen(span_text((struct span){ INT64_MAX }, text)) < sizeof text);
    assert_true(strlen(span_text((struct span){ INT64_MIN }, text)) < sizeof text);
    assert_string_equal(span_text(SPAN_S(-90), text), "-1m30s");
}

/* ---- sizes --------------------------------------------------------------------------- */

static void sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "4096", 4096 },
        { "1B", 1 },
        { "1KB", 1000 },
        { "64KiB", 65536 },
        { "10MB", 10000000 },
        { "2GiB", UINT64_C(2147483648) },
        { "3GB", UINT64_C(3000000000) },
        { "5TB", UINT64_C(5000000000000) },
        { "5TiB", UINT64_C(5497558138880) },
        { "8388607TiB", UINT64_C(8388607) << 40 },
        { "9223372036854775807", INT64_MAX },
        { "9223372036854775807B", INT64_MAX },
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t bytes = 1;
        struct hf_error error;
        assert_status(HF_OK, parse_size(view_of(good[i].text), &bytes, &error), &error);
        if (bytes != good[i].bytes)
            fail_msg("%s became %llu", good[i].text, (unsigned long long)bytes);
    }
}

static void sizes_are_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "B",
        "KiB",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1 KiB",
        "1.5MiB",
        "1kB",
        "1kib",
        "1Kib",
        "1KIB",
        "1K",
        "1M",
        "1b",
        "1Ki",
        "1iB",
        "1KiBB",
        "1KiB1",
        "1PiB",
        "0x10",
        "1e3",
        "1KiB2KiB",
        "16777216TiB",
        "18446744073709551616",
        "18446744073709551616B",
        "18446745TB",
        "8388608TiB",
        "9223372036854775808",
        "18014398509481984KiB",
        "99999999999999999999999999TiB",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t bytes = 77;
        struct hf_error error;
        assert_refused(bad[i], parse_size(view_of(bad[i]), &bytes, &error), &error);
        assert_true(bytes == 77);
    }
}

static void sizes_print_for_people(void **state)
{
    (void)state;
    char text[SIZE_TEXT_MAX];
    assert_string_equal(size_text(0, text), "0 B");
    assert_string_equal(size_text(1023, text), "1023 B");
    assert_string_equal(size_text(1572864, text), "1.5 MiB");
    struct prng prng = prng_seeded(7);
    for (int i = 0; i < 100000; i++) {
        uint64_t bytes = prng_next(&prng) >> prng_below(&prng, 64);
        if (i < 64)
            bytes = (UINT64_C(1) << i) - 1;
        size_text(bytes, text);
        assert_true(strlen(text) < sizeof text);
        char unit[8];
        double shown = 0;
        assert_int_equal(sscanf(text, "%lf %7s", &shown, unit), 2);
        int power = unit[0] == 'B' ? 0 : (int)(strchr("KMGTPE", unit[0]) - "KMGTPE") + 1;
        if (shown >= 1024)
            fail_msg("%llu printed as %s", (unsigned long long)bytes, text);
        double exact = (double)bytes / (double)(UINT64_C(1) << (10 * power));
        assert_true(shown - exact < 0.11 && exact - shown < 0.11);
    }
}

/* ---- times --------------------------------------------------------------------------- */

static void times_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "1970-01-01T00:00:00+00:00", 0 },
        { "1970-01-01T00:00:00-00:00", 0 },
        { "1970-01-01T00:00:00.000001Z", 1 },
        { "1970-01-01T00:00:00.1Z", 100000 },
        { "1970-01-01T00:00:00.123456789Z", 123456 },
        { "1970-01-01T00:00:00.00000099999999999999999999999Z", 0 },
        { "1969-12-31T23:59:59.25Z", -750000 },
        { "2026-02-06T10:00:00Z", INT64_C(1770372000000000) },
        { "2026-02-06T11:00:00.250+01:00", INT64_C(1770372000250000) },
        { "2026-02-05T12:30:00-21:30", INT64_C(1770372000000000) },
        { "2026-02-07T09:59:00+23:59", INT64_C(1770372000000000) },
        { "2016-12-31T23:59:60Z", INT64_C(1483228799000000) },
        { "2016-12-31T23:59:59Z", INT64_C(1483228799000000) },
        { "2000-02-29T00:00:00Z", INT64_C(951782400000000) },
        { "2038-01-19T03:14:08Z", INT64_C(2147483648000000) },
        { "0001-01-01T00:00:00Z", INT64_C(-62135596800000000) },
        { "9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999) },
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        struct wall_time time = { 7 };
        struct hf_error error;
        assert_status(HF_OK, parse_time(view_of(good[i].text), &time, &error), &error);
        if (time.us != good[i].us)
            fail_msg("%s became %lld", good[i].text, (long long)time.us);
    }
}

static void times_are_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026",
        "2026-02-06",
        "2026-02-06T10:00:00",
        "2026-02-06T10:00Z",
        "2026-02-06_10:00:00Z",
        "2026-2-6T10:00:00Z",
        "26-02-06T10:00:00Z",
        "2026-02-06T10:00:00ZZ",
        " 2026-02-06T10:00:00Z",
        "2026-02-06T10:00:00Z ",
        "2026-02-06T10:00:00.Z",
        "2026-02-06T10:00:00,5Z",
        "2026-02-06T10:00:00.5",
        "2026-02-06T24:00:00Z",
        "2026-02-06T10:60:00Z",
        "2026-02-06T10:00:61Z",
        "2026-00-06T10:00:00Z",
        "2026-13-06T10:00:00Z",
        "2026-02-00T10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-04-31T10:00:00Z",
        "2026-01-32T10:00:00Z",
        "2023-02-29T10:00:00Z",
        "1900-02-29T10:00:00Z",
        "2100-02-29T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "+2026-02-06T10:00:00Z",
        "2026-02-06T10:00:00+24:00",
        "2026-02-06T10:00:00+01:60",
        "2026-02-06T10:00:00+0100",
        "2026-02-06T10:00:00+01",
        "2026-02-06T10:00:00+1:00",
        "2026-02-06T10:00:00+01:00Z",
        "2026-02-06T10:00:00UTC",
        "2026-02-06T10:00:00\xe2\x88+01:00",
        "2026-02-06T+1:00:00Z",
        "2026-02-06T 1:00:00Z",
        "2026-02-06T10:00:-1Z",
        "2026-W06-5T10:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct wall_time time = { 77 };
        struct hf_error error;
        assert_refused(bad[i], parse_time(view_of(bad[i]), &time, &error), &error);
        assert_int_equal(time.us, 77);
    }
}

static int days_in_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static void assert_day(int year, int month, int day, int64_t expected_us)
{
    char text[TIME_TEXT_MAX], back[TIME_TEXT_MAX];
    struct wall_time time = { 0 };
    snprintf(text, sizeof text, "%04d-%02d-%02dT00:00:00.000Z", year % 10000, month % 100,
             day % 100);
    if (parse_time(view_of(text), &time, NULL) != HF_OK || time.us != expected_us)
        fail_msg("%s became %lld", text, (long long)time.us);
    if (strcmp(time_text(time, back), text) != 0)
        fail_msg("%s was printed as %s", text, back);
}

/* Counts days by stepping through the calendar, the slow way that cannot be wrong: every day of
 * one cycle of 400 years, the first and last of each month in the others. */
static void every_day_of_the_calendar_is_right(void **state)
{
    (void)state;
    const int64_t day_us = INT64_C(86400) * 1000000;
    int64_t expected_us = INT64_C(-62135596800) * 1000000;
    for (int year = 1; year <= 9999; year++) {
        for (int month = 1; month <= 12; month++) {
            int last = days_in_month(year, month);
            for (int day = 1; day <= last; day++, expected_us += day_us)
                if ((year > 1800 && year <= 2200) || day == 1 || day == last)
                    assert_day(year, month, day, expected_us);
        }
    }
}

static void times_print_and_read_back(void **state)
{
    (void)state;
    const int64_t first = INT64_C(-62135596800000000), last = INT64_C(253402300799999999);
    struct prng prng = prng_seeded(8);
    for (int i = 0; i < 200000; i++) {
        int64_t us = first + (int64_t)prng_below(&prng, (uint64_t)(last - first) + 1);
        char text[TIME_TEXT_MAX];
        struct wall_time back = { 0 };
        time_text((struct wall_time){ us }, text);
        assert_int_equal(strlen(text), strlen("2026-02-06T10:00:00.000Z"));
        assert_int_equal(parse_time(view_of(text), &back, NULL), HF_OK);
        if (back.us > us || us - back.us >= 1000 || back.us % 1000 != 0)
            fail_msg("%lld printed as %s", (long long)us, text);
    }
    char text[TIME_TEXT_MAX];
    assert_string_equal(time_text((struct wall_time){ -1 }, text), "1969-12-31T23:59:59.999Z");
    assert_string_equal(time_text((struct wall_time){ 999 }, text), "1970-01-01T00:00:00.000Z");
    /* No calendar goes there; it must still fit its room. */
    static const int64_t absurd[] = { INT64_MAX, INT64_MIN, MOMENT_FAR, -MOMENT_FAR };
    for (size_t i = 0; i < COUNT(absurd); i++)
        assert_true(strlen(time_text((struct wall_time){ absurd[i] }, text)) < sizeof text);
}

/* ---- hexadecimal --------------------------------------------------------------------- */

static void bytes_print_as_hexadecimal(void **state)
{
    (void)state;
    unsigned char bytes[256];
    char text[513];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    hex_encode(bytes, sizeof bytes, text);
    assert_int_equal(strlen(text), 512);
    for (unsigned i = 0; i < 256; i++) {
        char expected[8];
        snprintf(expected, sizeof expected, "%02x", i);
        assert_memory_equal(text + 2 * i, expected, 2);
        assert_int_equal(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]), i);
    }
    hex_encode(bytes, 0, text);
    assert_string_equal(text, "");
}

static void digits_are_digits_of_either_case(void **state)
{
    (void)state;
    for (int c = -128; c < 256; c++) {
        static const char digits[] = "0123456789abcdef";
        char byte = (char)c;
        int lower = byte >= 'A' && byte <= 'F' ? byte - 'A' + 'a' : byte;
        const char *at = byte ? strchr(digits, lower) : NULL;
        assert_int_equal(hex_digit(byte), at ? (int)(at - digits) : -1);
    }
}

/* ---- URLs ---------------------------------------------------------------------------- */

static void urls_come_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *scheme, *host, *path;
    } good[] = {
        { "mem:", "mem", "", "" },
        { "dir:relative/path", "dir", "", "relative/path" },
        { "dir:/var/lib/x y", "dir", "", "/var/lib/x y" },
        { "dir:/a%3Fb%25c", "dir", "", "/a?b%c" },
        { "dir:/a?sync=off", "dir", "", "/a" },
        { "sqlite:state.db", "sqlite", "", "state.db" },
        { "s3://bucket", "s3", "bucket", "" },
        { "s3://bucket/", "s3", "bucket", "/" },
        { "s3://bucket/pre/fix?region=r", "s3", "bucket", "/pre/fix" },
        { "azure://account/container/p", "azure", "account", "/container/p" },
        { "dir:a:b", "dir", "", "a:b" },
        { "dir:/a&b=c#d", "dir", "", "/a&b=c#d" },
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        struct url url;
        struct hf_error error;
        assert_status(HF_OK, url_parse(view_of(good[i].text), &url, &error), &error);
        if (!view_equal(url.scheme, view_of(good[i].scheme)) ||
            !view_equal(url.host, view_of(good[i].host)) ||
            !view_equal(url.path, view_of(good[i].path)))
            fail_msg("%s became scheme %.*s host %.*s path %.*s", good[i].text,
                     VIEW_ARGS(url.scheme), VIEW_ARGS(url.host), VIEW_ARGS(url.path));
    }
}

static void parameters_are_decoded(void **state)
{
    (void)state;
    struct url url;
    struct hf_error error;
    struct view text =
        VIEW("s3://b/p?endpoint=http%3A%2F%2F127.0.0.1:9000&region=&x%26=a%3db%2Bc");
    assert_status(HF_OK, url_parse(text, &url, &error), &error);
    assert_int_equal(url.parameter_count, 3);
    assert_true(view_equal(url_parameter(&url, "endpoint"), VIEW("http://127.0.0.1:9000")));
    assert_non_null(url_parameter(&url, "region").data);
    assert_int_equal(url_parameter(&url, "region").size, 0);
    assert_null(url_parameter(&url, "regio").data);
    assert_null(url_parameter(&url, "").data);
    assert_true(view_equal(url.parameters[2].value, VIEW("a=b+c")));
}

static void only_known_parameters_are_taken(void **state)
{
    (void)state;
    static const char *const names[] = { "sync", "region", NULL };
    static const char *const none[] = { NULL };
    struct url url;
    struct hf_error error;
    assert_status(HF_OK, url_parse(VIEW("dir:x?region=1&snyc=off"), &url, &error), &error);
    assert_refused("snyc", url_only_parameters(&url, names, &error), &error);
    assert_non_null(strstr(error.why, "snyc"));
    assert_status(HF_OK, url_parse(VIEW("dir:x?sync=off"), &url, &error), &error);
    assert_status(HF_OK, url_only_parameters(&url, names, &error), &error);
    assert_refused("sync", url_only_parameters(&url, none, &error), &error);
    assert_status(HF_OK, url_parse(VIEW("dir:x"), &url, &error), &error);
    assert_status(HF_OK, url_only_parameters(&url, none, &error), &error);
}

static void bad_urls_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ":",
        "://",
        "//host/path",
        "path/only",
        "/etc",
        "MEM:",
        " mem:",
        "me m:",
        "dir:%",
        "dir:%2",
        "dir:%zz",
        "dir:%2g",
        "dir:x?a=%",
        "dir:x?a=%4",
        "dir:x?=v",
        "dir:x?sync=on&sync=off",
        "dir:a%00b",
        "dir:x?a=%00",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct url url;
        struct hf_error error;
        assert_refused(bad[i], url_parse(view_of(bad[i]), &url, &error), &error);
    }
    struct url url;
    struct hf_error error;
    assert_refused("no bytes", url_parse((struct view){ NULL, 0 }, &url, &error), &error);
    assert_refused("NUL", url_parse((struct view){ "dir:a\0b", 7 }, &url, &error), &error);
}

static void urls_have_bounds(void **state)
{
    (void)state;
    char text[URL_BYTES_MAX + 2] = "dir:";
    struct url url;
    struct hf_error error;
    memset(text + 4, 'x', sizeof text - 4);
    assert_status(HF_OK, url_parse((struct view){ text, URL_BYTES_MAX }, &url, &error), &error);
    assert_int_equal(url.path.size, URL_BYTES_MAX - 4);
    assert_refused("long", url_parse((struct view){ text, URL_BYTES_MAX + 1 }, &url, &error),
                   &error);

    int length = snprintf(text, sizeof text, "dir:x?p0=0");
    for (int i = 1; i < URL_PARAMETERS_MAX; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "&p%d=%d", i, i);
    assert_status(HF_OK, url_parse(view_of(text), &url, &error), &error);
    assert_int_equal(url.parameter_count, URL_PARAMETERS_MAX);
    assert_true(view_equal(url_parameter(&url, "p15"), VIEW("15")));
    snprintf(text + length, sizeof text - (size_t)length, "&more=1");
    assert_refused("many", url_parse(view_of(text), &url, &error), &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a number is digits only, in range, and nothing else", numbers_are_digits_only),
        IT("a switch is on or off", switches_are_on_or_off),
        IT("a span is numbers with falling units", spans_have_units),
        IT("a span with anything odd in it is refused", spans_are_read_strictly),
        IT("a printed span reads back as the same span", spans_print_and_read_back),
        IT("a size is a number with an optional unit", sizes_have_units),
        IT("a size with anything odd in it, or too large, is refused", sizes_are_read_strictly),
        IT("a printed size is right to a tenth and below 1,024", sizes_print_for_people),
        IT("times are read with fractions, zones and leap seconds", times_are_read),
        IT("a time with anything odd in it is refused", times_are_read_strictly),
        IT("the days of the years 1 to 9999 are right", every_day_of_the_calendar_is_right),
        IT("a printed time reads back as the same millisecond", times_print_and_read_back),
        IT("bytes print as lower-case hexadecimal", bytes_print_as_hexadecimal),
        IT("hexadecimal digits are read in either case, and nothing else is",
           digits_are_digits_of_either_case),
        IT("a URL comes apart into scheme, host and path", urls_come_apart),
        IT("the values of parameters are decoded", parameters_are_decoded),
        IT("a parameter that nobody knows is named and refused",
           only_known_parameters_are_taken),
        IT("a URL that makes no sense is refused", bad_urls_are_refused),
        IT("a URL has a longest length and a most of parameters", urls_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
