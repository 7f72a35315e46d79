/* SPDX-License-Identifier: Apache-2.0 */
/* rfc3339_test.c: every rule of RFC 3339 (timestamps), as the time field of a record follows it.
 * Each input is a timestamp, which is the whole record. */
#include "base/instant.h"
#include "rfc_kit.h"

#define RFC     "RFC 3339 section "
#define BAD     "has a time field that is neither RFC 3339 nor a number since 1970"
#define NO_ZONE "has a time without a zone"

#define ATTO_OF_S UINT64_C(1000000000000000000)

/* 2026-02-06T10:00:00Z, in seconds since 1970. */
#define TEN INT64_C(1770372000)

#define TIME(name, text, s) TIME_AND(name, text, s, 0)
#define TIME_AND(name, text, s, atto)             \
    {                                             \
        name, BYTES(text), text "\n", "", s, atto \
    }
#define WRONG(name, text) REJECTED(name, text, BAD)

static const struct rfc_case cases[] = {
    /* ---- Section 4: local time, offsets ---- */
    TIME(RFC "4.2, offsets: an offset is subtracted to give UTC", "2026-02-06T11:00:00+01:00",
         TEN),
    TIME(RFC "4.2, offsets: a negative offset is added", "2026-02-06T01:30:00-08:30", TEN),
    WRONG(RFC "4.2, offsets: an offset of 24 hours is rejected", "2026-02-06T10:00:00+24:00"),
    TIME(RFC "4.3, unknown offset: -00:00 is accepted, and is UTC", "2026-02-06T10:00:00-00:00",
         TEN),
    WRONG(RFC "4.3, unknown offset: a minus alone is rejected", "2026-02-06T10:00:00-"),
    TIME(RFC "4.4, local time: with Z or an offset, it is accepted", "2026-02-06T10:00:00Z",
         TEN),
    REJECTED(
        RFC "4.4, local time: without either, it is rejected, unless --zone says what it means",
        "2026-02-06T10:00:00", NO_ZONE),

    /* ---- Section 5.6: the grammar ---- */
    TIME(RFC "5.6, date-fullyear: four digits are accepted", "1999-02-06T10:00:00Z", 918295200),
    WRONG(RFC "5.6, date-fullyear: two digits are rejected", "26-02-06T10:00:00Z"),
    WRONG(RFC "5.6, date-fullyear: three digits are rejected", "999-02-06T10:00:00Z"),
    WRONG(RFC "5.6, date-fullyear: five digits are rejected", "12026-02-06T10:00:00Z"),
    WRONG(RFC "5.6, date-fullyear: a sign is rejected", "+2026-02-06T10:00:00Z"),
    WRONG(RFC "5.6, date-fullyear: a letter is rejected", "202x-02-06T10:00:00Z"),
    TIME(RFC "5.6, date-month: 01 is accepted", "2026-01-06T10:00:00Z", TEN - 31 * 86400),
    TIME(RFC "5.6, date-month: 12 is accepted", "2025-12-06T10:00:00Z", TEN - 62 * 86400),
    WRONG(RFC "5.6, date-month: 00 is rejected", "2026-00-06T10:00:00Z"),
    WRONG(RFC "5.6, date-month: 13 is rejected", "2026-13-06T10:00:00Z"),
    WRONG(RFC "5.6, date-month: one digit is rejected", "2026-2-06T10:00:00Z"),
    WRONG(RFC "5.6, date-month: a name is rejected", "2026-Feb-06T10:00:00Z"),
    TIME(RFC "5.6, date-mday: 01 is accepted", "2026-02-01T10:00:00Z", TEN - 5 * 86400),
    WRONG(RFC "5.6, date-mday: 00 is rejected", "2026-02-00T10:00:00Z"),
    WRONG(RFC "5.6, date-mday: one digit is rejected", "2026-02-6T10:00:00Z"),
    TIME(RFC "5.6, time-hour: 00 is accepted", "2026-02-06T00:00:00Z", TEN - 36000),
    TIME(RFC "5.6, time-hour: 23 is accepted", "2026-02-06T23:00:00Z", TEN + 13 * 3600),
    WRONG(RFC "5.6, time-hour: 24 is rejected", "2026-02-06T24:00:00Z"),
    WRONG(RFC "5.6, time-hour: one digit is rejected", "2026-02-06T9:00:00Z"),
    TIME(RFC "5.6, time-minute: 59 is accepted", "2026-02-06T10:59:00Z", TEN + 3540),
    WRONG(RFC "5.6, time-minute: 60 is rejected", "2026-02-06T10:60:00Z"),
    WRONG(RFC "5.6, time-minute: one digit is rejected", "2026-02-06T10:0:00Z"),
    TIME(RFC "5.6, time-second: 59 is accepted", "2026-02-06T10:00:59Z", TEN + 59),
    WRONG(RFC "5.6, time-second: 61 is rejected", "2026-02-06T10:00:61Z"),
    WRONG(RFC "5.6, time-second: seconds may not be left out", "2026-02-06T10:00Z"),
    TIME_AND(RFC "5.6, time-secfrac: one digit is accepted", "2026-02-06T10:00:00.5Z", TEN,
             ATTO_OF_S / 2),
    TIME_AND(RFC "5.6, time-secfrac: nine digits are accepted",
             "2026-02-06T10:00:00.000000001Z", TEN, ATTO_OF_S / 1000000000),
    TIME_AND(RFC "5.6, time-secfrac: our choice, digits after the 18th are dropped",
             "2026-02-06T10:00:00.0000000000000000019Z", TEN, 1),
    WRONG(RFC "5.6, time-secfrac: a point without digits is rejected", "2026-02-06T10:00:00.Z"),
    WRONG(RFC "5.6, time-secfrac: a comma is rejected", "2026-02-06T10:00:00,5Z"),
    WRONG(RFC "5.6, time-secfrac: two points are rejected", "2026-02-06T10:00:00.5.5Z"),
    TIME(RFC "5.6, time-numoffset: a sign, hours, a colon and minutes are accepted",
         "2026-02-07T09:59:00+23:59", TEN),
    WRONG(RFC "5.6, time-numoffset: a missing colon is rejected", "2026-02-06T10:00:00+0100"),
    WRONG(RFC "5.6, time-numoffset: missing minutes are rejected", "2026-02-06T10:00:00+01"),
    WRONG(RFC "5.6, time-numoffset: 60 minutes are rejected", "2026-02-06T10:00:00+01:60"),
    WRONG(RFC "5.6, time-numoffset: seconds are rejected", "2026-02-06T10:00:00+01:00:00"),
    WRONG(RFC "5.6, time-numoffset: a missing sign is rejected", "2026-02-06T10:00:0001:00"),
    WRONG(RFC "5.6, time-numoffset: the name of a zone is rejected", "2026-02-06T10:00:00 UTC"),
    TIME(RFC "5.6, T and Z: lower case is accepted", "2026-02-06t10:00:00z", TEN),
    WRONG(RFC "5.6, T and Z: another letter is rejected", "2026-02-06X10:00:00Z"),
    WRONG(RFC "5.6, T and Z: Z and an offset are rejected", "2026-02-06T10:00:00Z+00:00"),
    TIME(RFC "5.6, separator: a space in place of T is accepted", "2026-02-06 10:00:00Z", TEN),
    WRONG(RFC "5.6, separator: two spaces are rejected", "2026-02-06  10:00:00Z"),
    WRONG(RFC "5.6, separator: an underscore is rejected", "2026-02-06_10:00:00Z"),
    WRONG(RFC "5.6, separator: nothing is rejected", "2026-02-0610:00:00Z"),
    TIME(RFC "5.6, date-time: date and time together are accepted", "1970-01-01T00:00:00Z", 0),
    WRONG(RFC "5.6, date-time: a date alone is rejected", "2026-02-06"),
    WRONG(RFC "5.6, date-time: a time alone is rejected", "10:00:00Z"),
    WRONG(RFC "5.6, date-time: a missing dash is rejected", "20260206T10:00:00Z"),
    WRONG(RFC "5.6, date-time: other separators of the date are rejected",
          "2026/02/06T10:00:00Z"),
    WRONG(RFC "5.6, date-time: a missing colon is rejected", "2026-02-06T100000Z"),
    WRONG(RFC "5.6, date-time: a week date of ISO 8601 is rejected", "2026-W06-5T10:00:00Z"),
    WRONG(RFC "5.6, date-time: an ordinal date of ISO 8601 is rejected", "2026-037T10:00:00Z"),
    WRONG(RFC "5.6, date-time: a space before it is rejected", " 2026-02-06T10:00:00Z"),
    WRONG(RFC "5.6, date-time: a space after it is rejected", "2026-02-06T10:00:00Z "),
    WRONG(RFC "5.6, date-time: text after it is rejected", "2026-02-06T10:00:00Z."),

    /* ---- Section 5.7: restrictions ---- */
    TIME(RFC "5.7, days of a month: January has 31", "2026-01-31T10:00:00Z", TEN - 6 * 86400),
    WRONG(RFC "5.7, days of a month: January has no 32", "2026-01-32T10:00:00Z"),
    TIME(RFC "5.7, days of a month: April has 30", "2026-04-30T10:00:00Z", TEN + 83 * 86400),
    WRONG(RFC "5.7, days of a month: April has no 31", "2026-04-31T10:00:00Z"),
    WRONG(RFC "5.7, days of a month: June has no 31", "2026-06-31T10:00:00Z"),
    WRONG(RFC "5.7, days of a month: September has no 31", "2026-09-31T10:00:00Z"),
    WRONG(RFC "5.7, days of a month: November has no 31", "2026-11-31T10:00:00Z"),
    TIME(RFC "5.7, days of a month: February has 28", "2026-02-28T10:00:00Z", TEN + 22 * 86400),
    WRONG(RFC "5.7, days of a month: February has no 30", "2024-02-30T10:00:00Z"),
    TIME(RFC "5.7, leap years: a year divisible by 4 has a February 29", "2024-02-29T00:00:00Z",
         1709164800),
    TIME(RFC "5.7, leap years: so has a year divisible by 400", "2000-02-29T00:00:00Z",
         951782400),
    WRONG(RFC "5.7, leap years: another year has not", "2026-02-29T00:00:00Z"),
    WRONG(RFC "5.7, leap years: a year divisible by 100 has not", "1900-02-29T00:00:00Z"),
    TIME(RFC "5.7, leap seconds: 23:59:60 in UTC is accepted, as the second before",
         "2016-12-31T23:59:60Z", 1483228799),
    TIME(RFC "5.7, leap seconds: with an offset it is another hour",
         "2016-12-31T15:59:60-08:00", 1483228799),
    TIME(RFC "5.7, leap seconds: we differ, a second 60 is accepted at any time",
         "2026-02-06T10:00:60Z", TEN + 59),
    WRONG(RFC "5.7, leap seconds: a second 61 is rejected", "2016-12-31T23:59:61Z"),

    /* ---- Section 1: the years ---- */
    TIME(RFC "1, years: 0001 is the first that is accepted", "0001-01-01T00:00:00Z",
         INSTANT_S_MIN),
    TIME(RFC "1, years: 9999 is the last", "9999-12-31T23:59:59Z", INSTANT_S_MAX),
    WRONG(RFC "1, years: we differ, the year 0000 is rejected", "0000-01-01T00:00:00Z"),
    WRONG(RFC "1, years: our choice, a time that an offset moves beyond 9999 is rejected",
          "9999-12-31T23:59:59-00:01"),
};

/* ---- Section 5.1, and times without a zone --------------------------------------------- */

/* Each record is one time, and records are sorted by it. */
static const struct rfc_case order[] = {
    ACCEPTED(RFC "5.1, order: times are sorted by what they mean, not by their text",
             "2026-02-06T10:00:00Z\n2026-02-06T10:30:00+01:00\n",
             "2026-02-06T10:30:00+01:00\n2026-02-06T10:00:00Z\n"),
    REJECTED(RFC "5.1, order: a time that means nothing has no place in it",
             "2026-02-06T10:00:00Z\n2026-02-06T25:00:00Z\n", BAD),
};

static const struct rfc_case zoned[] = {
    ACCEPTED(RFC "4.4, local time: our choice, --zone says what a time without a zone means",
             "2026-02-06T11:00:00Z\n2026-02-06T12:30:00\n",
             "2026-02-06T12:30:00\n2026-02-06T11:00:00Z\n"),
    REJECTED(RFC "4.4, local time: even then, its other parts must be right",
             "2026-02-30T12:30:00\n", BAD),
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(void)
{
    struct hf_merge_options by_time = HF_MERGE_OPTIONS;
    by_time.format = HF_MERGE_USV;
    by_time.time = "1";
    struct hf_merge_options in_zone = by_time;
    in_zone.zone = "+02:00";
    const struct rfc_group groups[] = {
        { by_time, cases, COUNT(cases), true },
        { by_time, order, COUNT(order), false },
        { in_zone, zoned, COUNT(zoned), false },
    };
    return rfc_run("RFC 3339", groups, COUNT(groups));
}
