/* SPDX-License-Identifier: Apache-2.0 */
/* merge_ndjson_test.c: lines of JSON: which lines are one object, the value of a key, and which
 * rows are rejected. */
#include "cut_kit.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const struct cut_setup by_key = { .format = &format_ndjson, .key = "k" };
static const struct cut_setup by_both = { .format = &format_ndjson, .key = "k", .time = "t" };

/* ---- Lines --------------------------------------------------------------------------- */

static void each_line_is_a_record(void **state)
{
    (void)state;
    assert_rows(&by_key, "{\"k\":\"a\"}\n{\"k\":\"b\"}\n",
                "a|{\"k\":\"a\"}\nb|{\"k\":\"b\"}\n");
    assert_rows(&by_key, "{\"k\":\"a\"}\r\n {\"k\" : \"b\"}\t\r\n{\"k\":\"c\"}",
                "a|{\"k\":\"a\"}\nb| {\"k\" : \"b\"}\t\nc|{\"k\":\"c\"}\n");
    assert_rows(&by_key, "{\"k\":\"b\"}\r\r\n{\"k\":\"c\"}\r",
                "b|{\"k\":\"b\"}\nc|{\"k\":\"c\"}\n");
}

static void lines_of_blanks_are_no_records(void **state)
{
    (void)state;
    assert_rows(&by_key, "\n\r\n \t\r\n{\"k\":\"a\"}\n\n  ", "a|{\"k\":\"a\"}\n");
    assert_rows(&by_key, "", "");
    assert_rows(&by_key, " ", "");
}

static void skipping_ends_at_the_line_end(void **state)
{
    (void)state;
    bool ended;
    for (size_t piece = 1; piece < 12; piece++) {
        assert_int_equal(cut_skip(&format_ndjson, VIEW("{\"a\\n\nb"), piece, &ended), 6);
        assert_true(ended);
        assert_int_equal(cut_skip(&format_ndjson, VIEW("{\"a"), piece, &ended), 3);
        assert_false(ended);
    }
}

/* ---- Keys and times ------------------------------------------------------------------ */

static void keys_are_strings_or_numbers(void **state)
{
    (void)state;
    assert_rows(&by_key, "{\"k\":-1.50}\n{\"k\":\"1\"}\n",
                "-1.50|{\"k\":-1.50}\n1|{\"k\":\"1\"}\n");
    assert_rows(&by_key, "{\"k\":null}\n{\"k\":true}\n{\"k\":[]}\n{\"k\":{\"k\":1}}\n",
                "!KEY_KIND|{\"k\":null}\n!KEY_KIND|{\"k\":true}\n!KEY_KIND|{\"k\":[]}\n"
                "!KEY_KIND|{\"k\":{\"k\":1}}\n");
    assert_rows(&by_key, "{}\n{\"K\":1}\n{\"a\":{\"k\":1}}\n",
                "!NO_KEY|{}\n!NO_KEY|{\"K\":1}\n!NO_KEY|{\"a\":{\"k\":1}}\n");
}

static void the_last_of_two_members_counts(void **state)
{
    (void)state;
    assert_rows(&by_key, "{\"k\":[],\"k\":\"a\",\"x\":1}\n{\"k\":\"a\",\"k\":[]}\n",
                "a|{\"k\":[],\"k\":\"a\",\"x\":1}\n!KEY_KIND|{\"k\":\"a\",\"k\":[]}\n");
}

static void escapes_are_no_part_of_the_value(void **state)
{
    (void)state;
    assert_rows(&by_key, "{\"k\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
                "\"\\/\b\f\n\r\t|{\"k\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}\n");
    assert_rows(&by_key, "{\"k\":\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00z\"}",
                "A\u00e9\u20ac\U0001f600z|{\"k\":\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00z\"}\n");
    assert_rows(
        &by_key, "{\"\\u006b\":\"a\"}\n{\"\\u006bk\":\"a\"}\n{\"k\\ud800\":1}\n",
        "a|{\"\\u006b\":\"a\"}\n!NO_KEY|{\"\\u006bk\":\"a\"}\n!NO_KEY|{\"k\\ud800\":1}\n");
}

static void an_escaped_nul_is_a_byte_of_the_key(void **state)
{
    (void)state;
    struct cut cut;
    struct view input = VIEW("{\"k\":\"a\\u0000b\"}");
    cut_open(&cut, &by_key, input);
    assert_int_equal(format_ndjson.cut(&cut.cutter, 0, input.size, true), input.size);
    assert_int_equal(cut.batch.row_count, 1);
    assert_true(view_equal(batch_key(&cut.batch, cut.batch.rows), VIEW("a\0b")));
    cut_close(&cut);
}

static void half_a_surrogate_pair_is_no_key_but_may_stand_elsewhere(void **state)
{
    (void)state;
    assert_rows(&by_key,
                "{\"k\":\"\\ud800\"}\n{\"k\":\"\\ud800x\"}\n{\"k\":\"\\ud800\\u0041\"}\n",
                "!NOT_UTF8|{\"k\":\"\\ud800\"}\n!NOT_UTF8|{\"k\":\"\\ud800x\"}\n"
                "!NOT_UTF8|{\"k\":\"\\ud800\\u0041\"}\n");
    assert_rows(&by_key, "{\"k\":\"\\udc00\\ud800\"}\n{\"k\":\"a\",\"x\":\"\\ud800\"}\n",
                "!NOT_UTF8|{\"k\":\"\\udc00\\ud800\"}\na|{\"k\":\"a\",\"x\":\"\\ud800\"}\n");
    assert_rows(&by_key, "{\"k\":\"\\udc00\\udc00\"}\n",
                "!NOT_UTF8|{\"k\":\"\\udc00\\udc00\"}\n");
}

static void times_are_strings_or_numbers(void **state)
{
    (void)state;
    assert_rows(
        &by_both,
        "{\"k\":\"a\",\"t\":\"1970-01-01T00:01:00Z\"}\n{\"t\":61.5,\"k\":\"a\"}\n"
        "{\"k\":\"a\",\"t\":\"6\\u0032\"}\n",
        "a|{\"k\":\"a\",\"t\":\"1970-01-01T00:01:00Z\"}|60\na|{\"t\":61.5,\"k\":\"a\"}|61\n"
        "a|{\"k\":\"a\",\"t\":\"6\\u0032\"}|62\n");
    assert_rows(&by_both,
                "{\"k\":\"a\"}\n{\"k\":\"a\",\"t\":null}\n{\"k\":\"a\",\"t\":\"now\"}\n"
                "{\"t\":\"now\"}\n{\"k\":\"a\",\"t\":\"\\ud800\"}\n",
                "!NO_TIME|{\"k\":\"a\"}\n!BAD_TIME|{\"k\":\"a\",\"t\":null}\n"
                "!BAD_TIME|{\"k\":\"a\",\"t\":\"now\"}\n!NO_KEY|{\"t\":\"now\"}\n"
                "!BAD_TIME|{\"k\":\"a\",\"t\":\"\\ud800\"}\n");
    const struct cut_setup timed = { .format = &format_ndjson, .time = "t" };
    assert_rows(&timed, "{\"t\":60}\n{\"t\":\"-1\"}\n", "@60|{\"t\":60}\n@-1|{\"t\":\"-1\"}\n");
}

static void a_number_is_a_name_here(void **state)
{
    (void)state;
    const struct cut_setup digits = { .format = &format_ndjson, .key = "2" };
    assert_rows(&digits, "{\"2\":\"a\",\"b\":\"c\"}\n", "a|{\"2\":\"a\",\"b\":\"c\"}\n");
    struct hf_error error;
    struct cut cut;
    cut_open(&cut, &digits, VIEW(""));
    assert_status(HF_OK, format_ndjson.resolve(&cut.cutter, (struct view){ NULL, 0 }, &error),
                  &error);
    cut_close(&cut);
}

/* ---- JSON or not --------------------------------------------------------------------- */

/* In a block of exactly this size and its slack, for each distance from a word's start. */
static enum row_fault fault_of(struct view text)
{
    enum row_fault fault = ROW_NONE;
    for (size_t shift = 0; shift < 8; shift++) {
        char *block = malloc(shift + text.size + BLOCK_SLACK);
        assert_non_null(block);
        memcpy(block + shift, text.data, text.size);
        memset(block + shift + text.size, shift % 2 ? '"' : '}', BLOCK_SLACK);
        struct json_reader reader = json_read_data((struct view){ block + shift, text.size });
        struct json_text name, value;
        json_enter_object(&reader);
        while (json_next_pair(&reader, &name, &value))
            assert_int_equal(name.kind, JSON_KIND_STRING);
        json_end(&reader);
        enum row_fault found = row_fault_of_json(reader.fault);
        assert_true(shift == 0 || found == fault);
        fault = found;
        free(block);
    }
    return fault;
}

static void objects_are_taken(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        " { } ",
        "{\"\":\"\"}",
        "{\"a\":0,\"b\":-0,\"c\":10,\"d\":-1.05,\"e\":1e5,\"f\":1.5E+05,\"g\":0e-0}",
        "{\"a\":true,\"b\":false,\"c\":null}",
        "{\"a\":[],\"b\":[ ],\"c\":{},\"d\":{ }}",
        "{\"a\":[1,[2,[3]],{\"b\":[{}]}],\"c\":{\"d\":{\"e\":[null,\"x\"]},\"f\":1}}",
        "{ \"a\" : [ 1 , { \"b\" : 2 , \"c\" : [ ] } , \"x\" ] , \"d\" : { } }",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00aF\\ud800\"}",
        "{\"a\":\"\x7f \xc2\x80\xdf\xbf\xe0\xa0\x80\"}",
        "{\"a\":\"\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"}",
        "{\"a\":1,\"a\":2}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (fault_of(view_of(good[i])) != ROW_NONE)
            fail_msg("%s: %s", good[i], row_fault_text(fault_of(view_of(good[i]))));
}

static const char *const not_objects[] = {
    "[]",
    "1",
    "\"a\"",
    "null",
    "{",
    "}",
    "{}}",
    "{}{}",
    "{} x",
    "{,}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\" 1}",
    "{\"a\":1,}",
    "{\"a\":1 2}",
    "{\"a\":1;}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{\"a\":+1}",
    "{\"a\":01}",
    "{\"a\":-}",
    "{\"a\":-01}",
    "{\"a\":.5}",
    "{\"a\":1.}",
    "{\"a\":1e}",
    "{\"a\":1e+}",
    "{\"a\":0x1}",
    "{\"a\":1.e1}",
    "{\"a\":NaN}",
    "{\"a\":tru}",
    "{\"a\":truex}",
    "{\"a\":True}",
    "{\"a\":nul",
    "{\"a\":fals}",
    "{\"a\":[}",
    "{\"a\":[1,]}",
    "{\"a\":[,1]}",
    "{\"a\":[1 2]}",
    "{\"a\":[1}",
    "{\"a\":[1}}",
    "{\"a\":{]}",
    "{\"a\":{\"b\"}}",
    "{\"a\":{\"b\":1,}}",
    "{\"a\":{1}}",
    "{\"a\":[[]",
    "{\"a\":[]]}",
    "{\"a\":{\"b\":[}]}",
    "{\"a\":[]1}",
    "{\"a\":{}\"b\":1}",
    "{\"a\":[\"b\":1]}",
    "{\"a\":\"",
    "{\"a\":\"b",
    "{\"a\":\"\\",
    "{\"a\":\"\\\"}",
    "{\"a\":\"\\x\"}",
    "{\"a\":\"\\u12\"}",
    "{\"a\":\"\\u12g4\"}",
    "{\"a\":\"\\u123",
    "{\"a\":\"\t\"}",
    "{\"a\":\"\x1f\"}",
    "{\"a\":\"abcdefgh\x01\"}",
    "{\"a\":1}\xc3\xa4",
    "\xef\xbb\xbf{}",
};

static void everything_else_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof not_objects / sizeof *not_objects; i++)
        if (fault_of(view_of(not_objects[i])) != ROW_BAD_JSON)
            fail_msg("%s: %s", not_objects[i],
                     row_fault_text(fault_of(view_of(not_objects[i]))));
    assert_int_equal(fault_of(VIEW("")), ROW_BAD_JSON);
    assert_int_equal(fault_of(VIEW("{\"a\":\"\0\"}")), ROW_BAD_JSON);
    assert_int_equal(fault_of(VIEW("{\0}")), ROW_BAD_JSON);
    assert_int_equal(fault_of(VIEW("{\"a\":1\0}")), ROW_BAD_JSON);
}

static void what_is_not_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",
        "\xc3",
        "\xc0\x80",
        "\xe0\x80\x80",
        "\xed\xa0\x80",
        "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "abcdefg\xe2\x82",
        "\xc3\xa4\xa4",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"a\":\"%s\"}", bad[i]);
        assert_int_equal(fault_of(view_of(text)), ROW_NOT_UTF8);
        snprintf(text, sizeof text, "{\"a\":[{\"%s\":1}]}", bad[i]);
        assert_int_equal(fault_of(view_of(text)), ROW_NOT_UTF8);
    }
}

/* Strings of each length with each byte at each place of a word. */
static void each_byte_is_judged_at_each_place(void **state)
{
    (void)state;
    for (size_t size = 1; size < 18; size++) {
        for (unsigned byte = 0; byte < 0x80; byte++) {
            char text[32] = "{\"a\":\"";
            memset(text + 6, 'x', size);
            memcpy(text + 6 + size, "\"}", 2);
            text[6 + byte % size] = (char)byte;
            bool good = byte >= 0x20 && byte != '"' && byte != '\\';
            struct view line = { text, 8 + size };
            assert_int_equal(fault_of(line), good ? ROW_NONE : ROW_BAD_JSON);
        }
    }
}

/* With an object around: {"a":[[...]]} */
static enum row_fault fault_of_depth(size_t depth, char open, char close)
{
    struct buffer text = BUFFER_INIT(64 * 1024);
    buffer_append(&text, VIEW("{\"a\":"));
    for (size_t i = 1; i < depth; i++) {
        buffer_append_byte(&text, open);
        if (open == '{')
            buffer_append(&text, VIEW("\"b\":"));
    }
    buffer_append_byte(&text, '0');
    for (size_t i = 1; i < depth; i++)
        buffer_append_byte(&text, close);
    buffer_append_byte(&text, '}');
    enum row_fault fault = fault_of(buffer_view(&text));
    buffer_release(&text);
    return fault;
}

static void depth_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(fault_of_depth(JSON_DATA_DEPTH_MAX, '[', ']'), ROW_NONE);
    assert_int_equal(fault_of_depth(JSON_DATA_DEPTH_MAX, '{', '}'), ROW_NONE);
    assert_int_equal(fault_of_depth(JSON_DATA_DEPTH_MAX, '[', '}'), ROW_BAD_JSON);
    assert_int_equal(fault_of_depth(JSON_DATA_DEPTH_MAX + 1, '[', ']'), ROW_TOO_DEEP);
    assert_int_equal(fault_of_depth(JSON_DATA_DEPTH_MAX + 1, '{', '}'), ROW_TOO_DEEP);
    assert_int_equal(fault_of_depth(10 * JSON_DATA_DEPTH_MAX, '[', ']'), ROW_TOO_DEEP);
}

static void a_bad_line_costs_one_record(void **state)
{
    (void)state;
    assert_rows(&by_key, "{\"k\":\"a\nb\"}\n{\"k\":\"c\"}\n\xff\n",
                "!BAD_JSON|{\"k\":\"a\n!BAD_JSON|b\"}\nc|{\"k\":\"c\"}\n!BAD_JSON|\xff\n");
}

/* ---- Order and memory ---------------------------------------------------------------- */

static void a_row_out_of_order_is_noticed_and_left(void **state)
{
    (void)state;
    assert_disorder_is_noticed(&by_key,
                               VIEW("{\"k\":\"b\"}\n{\"k\":\"\\u0062\"}\n{\"k\":\"a\"}\n"), 10);
}

static void without_memory_for_a_key_the_record_is_left(void **state)
{
    (void)state;
    assert_key_needs_memory(
        &by_both, VIEW("{\"k\":\"a\",\"t\":1}\n{\"k\":\"\\u0062\",\"t\":\"\\u0032\"}\n"), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("each line is a record", each_line_is_a_record),
        IT("lines of blanks are no records", lines_of_blanks_are_no_records),
        IT("skipping ends at the line end", skipping_ends_at_the_line_end),
        IT("keys are strings or numbers", keys_are_strings_or_numbers),
        IT("the last of two members with one name counts", the_last_of_two_members_counts),
        IT("escapes are no part of the value", escapes_are_no_part_of_the_value),
        IT("an escaped NUL is a byte of the key", an_escaped_nul_is_a_byte_of_the_key),
        IT("half a surrogate pair is no key, but may stand elsewhere",
           half_a_surrogate_pair_is_no_key_but_may_stand_elsewhere),
        IT("times are strings or numbers", times_are_strings_or_numbers),
        IT("a number that is asked for is a name", a_number_is_a_name_here),
        IT("objects are taken", objects_are_taken),
        IT("everything else is refused", everything_else_is_refused),
        IT("what is not UTF-8 is refused", what_is_not_utf8_is_refused),
        IT("each byte is judged at each place of a word", each_byte_is_judged_at_each_place),
        IT("what is nested too deeply is refused", depth_is_bounded),
        IT("a bad line costs one record", a_bad_line_costs_one_record),
        IT("a row out of order is noticed and left", a_row_out_of_order_is_noticed_and_left),
        IT("without memory for a key its record is left",
           without_memory_for_a_key_the_record_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
