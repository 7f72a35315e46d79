/* SPDX-License-Identifier: Apache-2.0 */
/* json_test.c: the JSON reader and writer, compared with jansson wherever both apply. */
#include "base/json.h"
#include "base/prng.h"
#include "test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define KIB_OF_TEXT 1024

static bool accepts(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view raw;
    json_skip(&reader, &raw);
    return json_end(&reader);
}

static void good_texts_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        "[]",
        "\"\"",
        "0",
        "-0",
        "-1.5e+10",
        "1E2",
        "true",
        "false",
        "null",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[{},[],\"x\"]}}",
        "\"\\u00e9\\n\\\"\\/\"",
        "\"\\ud83d\\ude00\"",
        "\"\xc3\xa9\"",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!accepts(view_of(good[i])))
            fail_msg("refused: %s", good[i]);
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nul",
        "truefalse",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\t\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "[1 2]",
        "{} {}",
        "[1}",
        "{\"a\":1]",
        "'a'",
        "NaN",
        "1,2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (accepts(view_of(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    assert_false(accepts((struct view){ NULL, 0 }));
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char deep[2 * JSON_DEPTH_MAX + 2];
    for (size_t depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
        if (2 * depth > sizeof deep)
            break;
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        assert_int_equal(accepts((struct view){ deep, 2 * depth }), depth <= JSON_DEPTH_MAX);
    }
}

static void members_are_taken_in_one_pass(void **state)
{
    (void)state;
    struct view text = VIEW("{ \"token\": 42, \"name\": \"x\", \"odd\": [1, {\"y\": null}],"
                            "  \"list\": [1, 2, 3], \"on\": true, \"minus\": -7 }");
    struct json_reader r = json_read(text);
    struct view name, plain = VIEW(""), raw = VIEW("");
    uint64_t token = 0, sum = 0, element;
    int64_t minus = 0;
    bool on = false;
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("token")))
            json_take_u64(&r, 100, &token);
        else if (view_equal(name, VIEW("name")))
            json_take_plain(&r, &plain);
        else if (view_equal(name, VIEW("on")))
            json_take_bool(&r, &on);
        else if (view_equal(name, VIEW("minus")))
            json_take_i64(&r, &minus);
        else if (view_equal(name, VIEW("list")))
            for (json_enter_array(&r); json_next_element(&r); sum += element)
                assert_true(json_take_u64(&r, 10, &element));
        else
            json_skip(&r, &raw);
    }
    assert_true(json_end(&r));
    assert_int_equal(token, 42);
    assert_int_equal(sum, 6);
    assert_int_equal(minus, -7);
    assert_true(on);
    assert_true(view_equal(plain, VIEW("x")));
    assert_true(view_equal(raw, VIEW("[1, {\"y\": null}]")));
}

static void a_mistake_ends_every_loop(void **state)
{
    (void)state;
    struct json_reader r = json_read(VIEW("{\"a\": [1, 2, x], \"b\": 1}"));
    struct view name;
    uint64_t value = 99;
    unsigned turns = 0;
    for (json_enter_object(&r); json_next_member(&r, &name); turns++)
        for (json_enter_array(&r); json_next_element(&r); turns++)
            json_take_u64(&r, 10, &value);
    assert_true(turns < 5);
    assert_false(json_end(&r));
    assert_non_null(r.why);
    assert_int_equal(value, 2);
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    uint64_t u = 5;
    int64_t i = 5;
    bool b = true;
    struct view v = VIEW("kept");
    struct buffer text = BUFFER_INIT(4);
    const char *const not_u64[] = {
        "-1", "1.0", "1e1", "\"1\"", "101", "null", "99999999999999999999"
    };
    for (size_t k = 0; k < sizeof not_u64 / sizeof not_u64[0]; k++) {
        struct json_reader r = json_read(view_of(not_u64[k]));
        assert_false(json_take_u64(&r, 100, &u));
    }
    struct json_reader r = json_read(VIEW("9223372036854775808"));
    assert_false(json_take_i64(&r, &i));
    r = json_read(VIEW("1"));
    assert_false(json_take_bool(&r, &b));
    r = json_read(VIEW("\"a\\n\""));
    assert_false(json_take_plain(&r, &v));
    r = json_read(VIEW("\"12345\""));
    assert_false(json_take_string(&r, &text));
    assert_int_equal(u, 5);
    assert_int_equal(i, 5);
    assert_true(b && view_equal(v, VIEW("kept")));
    buffer_release(&text);
}

/* ---- Against jansson ----------------------------------------------------------------- */

static const size_t jansson_flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;

/* jansson turns numbers into doubles and refuses those that do not fit; the reader need not. */
static bool has_number_beyond_doubles(const json_error_t *error)
{
    return strstr(error->text, "too big") || strstr(error->text, "overflow");
}

/* Strings are looked at eight bytes at a time, so each byte stands at each place of those. */
static void each_byte_is_judged_at_each_place(void **state)
{
    (void)state;
    char text[32];
    for (size_t size = 1; size <= 20; size++)
        for (size_t place = 0; place < size; place++)
            for (int c = 0; c < 256; c++) {
                memset(text, 'x', sizeof text);
                text[0] = text[size + 1] = '"';
                text[place + 1] = (char)c;
                json_t *value =
                    json_loadb(text, size + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                assert_int_equal(accepts((struct view){ text, size + 2 }), value != NULL);
                json_decref(value);
            }
}

static void random_texts_are_judged_alike(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "{",    "}",  "[",   "]",        ",",    ":",      "\"a\"",
        "1",    "-",  "0.5", "e3",       "true", "null",   "\"\\u00e9\"",
        "\"\\", "\"", " ",   "\xc3\xa9", "\xff", "\"b\":", "\"\\ud83d\\ude00\""
    };
    struct prng prng = prng_seeded(3);
    unsigned good = 0;
    for (int round = 0; round < 300000; round++) {
        char text[200];
        size_t size = 0;
        for (size_t n = 1 + prng_below(&prng, 8); n > 0; n--) {
            const char *piece = pieces[prng_below(&prng, sizeof pieces / sizeof pieces[0])];
            memcpy(text + size, piece, strlen(piece));
            size += strlen(piece);
        }
        json_error_t error;
        json_t *tree = json_loadb(text, size, jansson_flags, &error);
        bool mine = accepts((struct view){ text, size });
        if (mine != (tree != NULL) && !has_number_beyond_doubles(&error))
            fail_msg("jansson %s, we %s: %.*s (%s)", tree ? "accepts" : "refuses",
                     mine ? "accept" : "refuse", (int)size, text, error.text);
        good += mine;
        json_decref(tree);
    }
    assert_true(good > 1000);
}

static void strings_survive_the_round_trip(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(4);
    for (int round = 0; round < 20000; round++) {
        struct buffer text = BUFFER_INIT(KIB_OF_TEXT), written = BUFFER_INIT(8 * KIB_OF_TEXT),
                      back = BUFFER_INIT(KIB_OF_TEXT);
        for (size_t n = prng_below(&prng, 12); n > 0; n--) {
            uint32_t code = (uint32_t)prng_below(&prng, 0x300);
            char utf8[2] = { (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)) };
            if (code < 0x80)
                buffer_append_byte(&text, (char)code);
            else
                buffer_append(&text, (struct view){ utf8, 2 });
        }
        assert_true(json_write_string(&written, buffer_view(&text)));
        struct json_reader r = json_read(buffer_view(&written));
        assert_true(json_take_string(&r, &back));
        assert_true(json_end(&r));
        assert_true(view_equal(buffer_view(&back), buffer_view(&text)));
        json_t *tree = json_loadb(written.data, written.size, jansson_flags, NULL);
        assert_non_null(tree);
        struct view theirs = { json_string_value(tree), json_string_length(tree) };
        assert_true(view_equal(theirs, buffer_view(&text)));
        json_decref(tree);
        buffer_release(&text);
        buffer_release(&written);
        buffer_release(&back);
    }
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    (void)state;
    struct buffer written = BUFFER_INIT(64);
    assert_true(json_write_string(&written, VIEW("a\xff"
                                                 "b\x01")));
    assert_true(view_equal(buffer_view(&written), VIEW("\"a\xef\xbf\xbd"
                                                       "b\\u0001\"")));
    buffer_release(&written);
}

static void what_was_read_before_is_taken_whole(void **state)
{
    (void)state;
    struct json_reader reader = json_read(VIEW("[ {\"a\":1}, {\"a\":12} ,{\"a\":1}]"));
    struct view raw;
    assert_false(json_take_same(&reader, VIEW("{\"a\":1}")));
    assert_true(json_enter_array(&reader) && json_next_element(&reader));
    assert_true(json_take_same(&reader, VIEW("{\"a\":1}")));
    assert_true(json_next_element(&reader));
    assert_false(json_take_same(&reader, VIEW("{\"a\":1}")));
    assert_true(json_skip(&reader, &raw) && view_equal(raw, VIEW("{\"a\":12}")));
    assert_true(json_next_element(&reader));
    /* Longer than all that is left. */
    assert_false(json_take_same(&reader, VIEW("{\"a\":1}] ")));
    assert_true(json_take_same(&reader, VIEW("{\"a\":1}")));
    assert_false(json_next_element(&reader));
    assert_true(json_end(&reader));
    json_fail(&reader, "a mistake");
    assert_false(json_take_same(&reader, VIEW("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good JSON is read", good_texts_are_read),
        IT("bad JSON is refused", bad_texts_are_refused),
        IT("JSON nested deeper than the bound is refused", depth_is_bounded),
        IT("members are taken in one pass, unknown ones as they stand",
           members_are_taken_in_one_pass),
        IT("a mistake ends every loop and leaves outputs alone", a_mistake_ends_every_loop),
        IT("values of the wrong type or out of bounds are refused", wrong_types_are_refused),
        IT("each byte of a string is judged as jansson judges it, wherever it stands",
           each_byte_is_judged_at_each_place),
        IT("random texts are judged as jansson judges them", random_texts_are_judged_alike),
        IT("what was read before is taken whole when it stands there again",
           what_was_read_before_is_taken_whole),
        IT("strings survive writing and reading, ours and jansson's",
           strings_survive_the_round_trip),
        IT("bytes that are no text are replaced when written",
           bytes_that_are_no_text_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
