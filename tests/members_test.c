/* SPDX-License-Identifier: Apache-2.0 */
/* members_test.c: JSON objects that are read and written by a table of their members. */
#include "base/members.h"
#include "test.h"

enum colour { RED, GREEN, COLOURS };

struct inner {
    uint64_t count;
};

struct thing {
    struct view text;
    char chars[8];
    uint64_t large;
    uint32_t small;
    int64_t number, delay;
    bool flag;
    struct stamp stamp;
    enum colour colour;
    struct inner inner;
};

static const char *colour_word(unsigned value)
{
    static const char *const words[] = { "red", "green" };
    return words[value];
}

static const struct member inner_members[] = {
    MEMBER(inner, "count", MEMBER_U64, count, 10, MEMBER_NEEDED),
};
static const struct member_table inner_table = MEMBER_TABLE(inner_members, "no count");

static const struct member thing_members[] = {
    MEMBER(thing, "text", MEMBER_TEXT, text, 5, MEMBER_NEEDED),
    MEMBER(thing, "chars", MEMBER_CHARS, chars, sizeof((struct thing *)NULL)->chars,
           MEMBER_OPTIONAL),
    MEMBER(thing, "large", MEMBER_U64, large, UINT64_MAX, MEMBER_ALWAYS),
    MEMBER(thing, "small", MEMBER_U32, small, 99, MEMBER_OPTIONAL),
    MEMBER(thing, "number", MEMBER_I64, number, 7, MEMBER_OPTIONAL),
    MEMBER(thing, "delay_ms", MEMBER_MS, delay, INT64_MAX / 1000, MEMBER_OPTIONAL),
    MEMBER(thing, "flag", MEMBER_BOOL, flag, 0, MEMBER_OPTIONAL),
    MEMBER(thing, "stamp", MEMBER_STAMP, stamp, 0, MEMBER_OPTIONAL),
    { .name = { "colour", 6 },
      .kind = MEMBER_WORD,
      .offset = offsetof(struct thing, colour),
      .max = COLOURS,
      .word = colour_word,
      .unknown_word = "unknown colour" },
    { .name = { "inner", 5 },
      .kind = MEMBER_OBJECT,
      .offset = offsetof(struct thing, inner),
      .table = &inner_table },
};
static const struct member_table thing_table = MEMBER_TABLE(thing_members, "no text");

/* Reads `text`; NULL if it was accepted, otherwise the mistake. */
static const char *read_thing(const char *text, struct buffer *space, struct buffer *unknown,
                              struct thing *ret_thing)
{
    struct json_reader json = json_read(view_of(text));
    struct buffer unused = BUFFER_INIT(0);
    struct member_reader reader = { &json, space ? space : &unused, unknown, NULL };
    *ret_thing = (struct thing){ .small = 42 };
    members_read(&reader, &thing_table, ret_thing);
    json_end(&json);
    return json.why;
}

#define SPACE 256

static void assert_written(const struct thing *thing, const char *expected)
{
    struct buffer text = BUFFER_INIT(SPACE);
    members_write(&thing_table, thing, '{', &text);
    buffer_append_byte(&text, '}');
    if (!view_equal(buffer_view(&text), view_of(expected)))
        fail_msg("%.*s instead of %s", VIEW_ARGS(buffer_view(&text)), expected);
    buffer_release(&text);
}

static void every_kind_is_read_as_written(void **state)
{
    (void)state;
    static const char full[] = "{\"text\":\"a\\nb\",\"chars\":\"seven77\",\"large\":"
                               "18446744073709551615,\"small\":99,\"number\":-7,\"delay_ms\":"
                               "-1500,\"flag\":true,\"stamp\":\"7/12\",\"colour\":\"green\","
                               "\"inner\":{\"count\":10}}";
    struct buffer space = BUFFER_INIT(SPACE), stamped = BUFFER_INIT(SPACE);
    struct thing thing;
    char digits[STAMP_TEXT_MAX];
    const struct stamp stamp = { .clock = 7, .us = 12 };
    assert_true(buffer_reserve(&space, SPACE));
    /* The text of a stamp is not this test's business. */
    const char *mark = strstr(full, "7/12");
    buffer_print(&stamped, "%.*s%s%s", (int)(mark - full), full, stamp_text(stamp, digits),
                 mark + strlen("7/12"));
    buffer_append_byte(&stamped, '\0');
    const char *why = read_thing(stamped.data, &space, NULL, &thing);
    if (why)
        fail_msg("%s", why);
    assert_true(view_equal(thing.text, VIEW("a\nb")));
    assert_string_equal(thing.chars, "seven77");
    assert_true(thing.large == UINT64_MAX && thing.small == 99 && thing.number == -7);
    assert_true(thing.delay == -1500000 && thing.flag && thing.colour == GREEN);
    assert_true(thing.stamp.clock == 7 && thing.stamp.us == 12 && thing.inner.count == 10);
    assert_written(&thing, stamped.data);
    buffer_release(&space);
    buffer_release(&stamped);
}

static void what_is_empty_is_left_out(void **state)
{
    (void)state;
    struct thing thing = { .text = VIEW("t") };
    assert_written(&thing, "{\"text\":\"t\",\"large\":0,\"inner\":{\"count\":0}}");
}

static void what_is_missing_keeps_its_value(void **state)
{
    (void)state;
    struct thing thing;
    assert_null(read_thing("{\"text\":\"\"}", NULL, NULL, &thing));
    assert_int_equal(thing.small, 42);
    assert_int_equal(thing.large, 0);
}

/* The order of members does not matter, and a string that does not fit into its array is the one
 * mistake that is not reported. */
static void order_and_long_strings_do_not_matter(void **state)
{
    (void)state;
    struct thing thing;
    assert_null(read_thing("{\"large\":3,\"chars\":\"too long\",\"text\":\"x\",\"flag\":true}",
                           NULL, NULL, &thing));
    assert_string_equal(thing.chars, "");
    assert_true(thing.large == 3 && thing.flag);
}

static void unknown_members_are_kept_as_text(void **state)
{
    (void)state;
    struct buffer unknown = BUFFER_INIT(SPACE);
    struct thing thing;
    assert_null(read_thing("{\"new\":[1, {\"a\":\"]\"}],\"text\":\"x\",\"newer\":null}", NULL,
                           &unknown, &thing));
    assert_true(
        view_equal(buffer_view(&unknown), VIEW(",\"new\":[1, {\"a\":\"]\"}],\"newer\":null")));
    buffer_release(&unknown);
    assert_null(read_thing("{\"new\":1,\"text\":\"x\"}", NULL, NULL, &thing));
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "{}", "no text" },
        { "{\"text\":\"x\",\"text\":\"x\"}", "duplicate member" },
        { "{\"text\":\"x\",\"flag\":true,\"large\":1,\"flag\":true}", "duplicate member" },
        { "{\"text\":\"longer\"}", "text too long" },
        { "{\"text\":\"x\",\"small\":100}", NULL },
        { "{\"text\":\"x\",\"small\":-1}", NULL },
        { "{\"text\":\"x\",\"large\":18446744073709551616}", NULL },
        { "{\"text\":\"x\",\"number\":8}", "number out of range" },
        { "{\"text\":\"x\",\"number\":-8}", "number out of range" },
        { "{\"text\":\"x\",\"delay_ms\":9223372036854775807}", "number out of range" },
        { "{\"text\":\"x\",\"flag\":1}", NULL },
        { "{\"text\":\"x\",\"stamp\":\"noon\"}", "invalid timestamp" },
        { "{\"text\":\"x\",\"colour\":\"blue\"}", "unknown colour" },
        { "{\"text\":\"x\",\"inner\":{}}", "no count" },
        { "{\"text\":\"x\",\"inner\":{\"count\":11}}", NULL },
        { "{\"text\":\"x\",\"inner\":7}", NULL },
        { "[\"text\"]", NULL },
        { "{\"text\":\"x\"", NULL },
    };
    struct buffer space = BUFFER_INIT(SPACE);
    struct thing thing;
    assert_true(buffer_reserve(&space, SPACE));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = read_thing(rows[i].text, &space, NULL, &thing);
        if (!why)
            fail_msg("accepted: %s", rows[i].text);
        if (rows[i].why && strcmp(why, rows[i].why) != 0)
            fail_msg("%s: '%s' instead of '%s'", rows[i].text, why, rows[i].why);
    }
    assert_non_null(read_thing("{\"text\":\"\\u0000\"}", &space, NULL, &thing));
    buffer_release(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("every kind of member is read as it was written", every_kind_is_read_as_written),
        IT("optional members that are empty are not written", what_is_empty_is_left_out),
        IT("a missing member keeps its value", what_is_missing_keeps_its_value),
        IT("members may be in any order, and a string that does not fit is ignored",
           order_and_long_strings_do_not_matter),
        IT("unknown members are kept as text, or dropped", unknown_members_are_kept_as_text),
        IT("mistakes are named: missing, duplicate, too long, out of range, unknown word",
           mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
