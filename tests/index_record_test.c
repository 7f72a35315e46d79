/* SPDX-License-Identifier: Apache-2.0 */
/* index_record_test.c: records: the rule of separators, which records are refused with which
 * error, and which of two is later. */
#include "index/record.h"

#include "alloc.h"
#include "base/prng.h"
#include "base/utf8.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TIME         "2026-02-06T10:00:00Z"

/* domain, title, updated_at, note: the key is the first, the time the third. */
static struct schema of_four(void)
{
    const struct view fields[] = { VIEW("domain"), VIEW("title"), VIEW("updated_at"),
                                   VIEW("note") };
    struct schema schema;
    struct hf_error error;
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ fields, 4, fields[0], fields[2], 2, true },
                             &schema, &error),
                  &error);
    return schema;
}

/* Copies the bytes into a block of exactly their size, so that a sanitizer sees a step too
 * far. */
static struct view exact_copy(struct view bytes)
{
    char *copy = malloc(bytes.size ? bytes.size : 1);
    assert_non_null(copy);
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return (struct view){ copy, bytes.size };
}

static void free_copy(struct view copy)
{
    free((void *)(uintptr_t)copy.data);
}

static void assert_view(struct view view, struct view expected)
{
    assert_int_equal(view.size, expected.size);
    if (expected.size > 0)
        assert_memory_equal(view.data, expected.data, expected.size);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void assert_read(struct view bytes, struct view key, int64_t s)
{
    struct schema schema = of_four();
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record;
    struct hf_error error;
    bool too_many = true;
    struct view copy = exact_copy(bytes);
    assert_status(HF_OK, record_read(&schema, copy, &space, &record, &too_many, &error),
                  &error);
    assert_view(record.bytes, bytes);
    assert_view(record.key, key);
    assert_int_equal(record.time.s, s);
    assert_false(too_many);
    free_copy(copy);
    buffer_release(&space);
}

static void good_records_are_read(void **state)
{
    (void)state;
    assert_read(VIEW("example.com\x1fTitle\x1f" TIME "\x1fnote"), VIEW("example.com"),
                1770372000);
    assert_read(VIEW("example.com\x1f\x1f" TIME), VIEW("example.com"), 1770372000);
    assert_read(VIEW("a\x1f\x1f"
                     "0\x1f"),
                VIEW("a"), 0);
    assert_read(VIEW("a\x1f\x1f"
                     "1770372000"),
                VIEW("a"), 1770372000);
    assert_read(VIEW("m\xc3\xbcnchen.de\x1f\xf0\x9f\x98\x80\x1f-1"), VIEW("m\xc3\xbcnchen.de"),
                -1);
    assert_read(VIEW("a\tb\r\x7f\x1f\x01\x1f" TIME), VIEW("a\tb\r\x7f"), 1770372000);
    assert_read(VIEW("a\x1b_b\x1b[\x1bJ\x1f\x1b@\x1f" TIME),
                VIEW("a\x1f"
                     "b\x1b\n"),
                1770372000);
}

static void a_time_is_the_same_in_every_zone(void **state)
{
    (void)state;
    assert_read(VIEW("a\x1f\x1f"
                     "2026-02-06T11:00:00+01:00"),
                VIEW("a"), 1770372000);
    assert_read(VIEW("a\x1f\x1f"
                     "2026-02-05 23:30:00-10:30"),
                VIEW("a"), 1770372000);
    assert_read(VIEW("a\x1f\x1f"
                     "1770372000000"),
                VIEW("a"), 1770372000);
}

static void refuse(struct view bytes, const char *reason, bool expected_too_many)
{
    struct schema schema = of_four();
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record = { .time = { 7, 7 } };
    struct hf_error error = { .why = "" };
    bool too_many = !expected_too_many;
    struct view copy = exact_copy(bytes);
    assert_status(HF_INVALID, record_read(&schema, copy, &space, &record, &too_many, &error),
                  &error);
    if (!strstr(error.why, reason))
        fail_msg("expected '%s', the reason is: %s", reason, error.why);
    if (!utf8_is_text(view_of(error.why)) || strpbrk(error.why, "\x1b\x1f\n"))
        fail_msg("the reason is no line of text: %s", error.why);
    assert_int_equal(too_many, expected_too_many);
    assert_int_equal(record.time.s, 7);
    assert_status(HF_INVALID, record_read(&schema, copy, &space, &record, NULL, NULL), &error);
    free_copy(copy);
    buffer_release(&space);
}

static void what_is_no_record_is_refused_with_the_reason(void **state)
{
    (void)state;
#define AND_TIME "\x1ft\x1f" TIME
    static const struct {
        struct view bytes;
        const char *reason;
    } bad[] = {
        { { "", 0 }, "no key" },
        { { "\x1ft\x1f" TIME, 23 }, "no key" },
        { { "\x1f", 1 }, "no key" },
        { { "a", 1 }, "no time" },
        { { "a\x1f\x1f\x1fnote", 8 }, "no time" },
        { { "a\x1f\x1fsoon", 7 }, "'soon' is not a time" },
        { { "a\x1f\x1f" TIME " ", 24 }, "is not a time" },
        { { "a\x1f\x1f"
            "2026-02-30T10:00:00Z",
            23 },
          "is not a time" },
        { { "a\x1f\x1f"
            "202\x1b[31m",
            11 },
          "'202%1B[31m' is not a time; expected RFC 3339 with a zone" },
        { { "a\x1f\x1f"
            "202\xc3\xa4",
            8 },
          "'202\xc3\xa4' is not a time" },
        { { "a\x1f\x1f"
            "\tsoon",
            8 },
          "'%09soon' is not a time" },
        { { "a\x1f\x1f"
            "0123456789012345678901234567890123456789",
            43 },
          "'0123456789012345678901234567890123456789' is not a time" },
        { { "a\x1f\x1f"
            "x12345678901234567890123456789012345678\xc3\xa4",
            44 },
          "'x12345678901234567890123456789012345678...' is not a time" },
        { { "a\x1f\x1f-99999999999", 15 }, "outside the years 1 to 9999" },
        { { "a\xff" AND_TIME, 25 }, "not UTF-8: byte 0xff at offset 1" },
        { { "a\xc3", 2 }, "not UTF-8: byte 0xc3 at offset 1" },
        { { "a\xc3\x1f\x1f" TIME, 24 }, "not UTF-8" },
        { { "\xed\xa0\x80" AND_TIME, 26 }, "not UTF-8: byte 0xed at offset 0" },
        { { "\xc3\xa4\xc3\xa4\x80" AND_TIME, 28 }, "not UTF-8: byte 0x80 at offset 4" },
        { { "\xc0\x80" AND_TIME, 25 }, "not UTF-8" },
        { { "a\0" AND_TIME, 25 }, "0x00 at offset 1 must be escaped with ESC" },
        { { "a\n" AND_TIME, 25 }, "0x0a at offset 1 must be escaped with ESC" },
        { { "a\x1c" AND_TIME, 25 }, "0x1c at offset 1 must be escaped with ESC" },
        { { "a\x1d" AND_TIME, 25 }, "0x1d at offset 1 must be escaped with ESC" },
        { { "a\x1e" AND_TIME, 25 }, "0x1e at offset 1 must be escaped with ESC" },
        { { "a\x1bx" AND_TIME, 26 }, "ESC at offset 1 is followed by 0x78" },
        { { "a\x1b\x1f\x1f" TIME, 24 }, "ESC at offset 1 is followed by 0x1f" },
        { { "a\x1b\x1b_" AND_TIME, 27 }, "ESC at offset 1 is followed by 0x1b" },
        { { "a\x1f\x1f" TIME "\x1f\x1b", 25 }, "ends with ESC" },
        { { "a\x1b\xdf" AND_TIME, 26 }, "ESC at offset 1 is followed by 0xdf" },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        refuse(bad[i].bytes, bad[i].reason, false);
}

static void what_a_later_schema_might_take_is_told(void **state)
{
    (void)state;
    refuse(VIEW("a\x1ft\x1f" TIME "\x1fn\x1f"), "5 fields, but the index has 4", true);
    refuse(VIEW("a\x1ft\x1f" TIME "\x1fn\x1fx\x1fy"), "6 fields, but the index has 4", true);
    refuse(VIEW("a\x1ft\x1f" TIME "\x1fn\x1f\xff"), "not UTF-8", false);
    refuse(VIEW("a\x1ft\x1fsoon\x1fn\x1f"), "is not a time", false);
    refuse(VIEW("\x1ft\x1f" TIME "\x1fn\x1f"), "no key", false);
}

/* A record of so many bytes, whose key has so many of them, every second of which has an
 * escape when `escaped`. */
static struct view record_of(size_t size, size_t key_size, bool escaped)
{
    char *bytes = malloc(size), *at = bytes;
    assert_non_null(bytes);
    for (size_t i = 0; i < key_size; i++) {
        if (escaped && i % 2)
            *at++ = '\x1b';
        *at++ = escaped && i % 2 ? '_' : 'k';
    }
    memcpy(at, "\x1f\x1f" TIME "\x1f", 23);
    at += 23;
    assert_true((size_t)(at - bytes) <= size);
    memset(at, 'x', size - (size_t)(at - bytes));
    return (struct view){ bytes, size };
}

static void keys_and_records_end_at_their_bounds(void **state)
{
    (void)state;
    struct schema schema = of_four();
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record;
    struct hf_error error;
    for (int escaped = 0; escaped < 2; escaped++) {
        struct view fits = record_of(2000, INDEX_KEY_BYTES_MAX, escaped);
        assert_status(HF_OK, record_read(&schema, fits, &space, &record, NULL, &error), &error);
        assert_int_equal(record.key.size, INDEX_KEY_BYTES_MAX);
        free_copy(fits);
        struct view long_key = record_of(2000, INDEX_KEY_BYTES_MAX + 1, escaped);
        refuse(long_key, "the key has 1025 bytes; at most 1024 are allowed", false);
        free_copy(long_key);
    }
    struct view largest = record_of(INDEX_RECORD_BYTES_MAX, 10, false);
    assert_status(HF_OK, record_read(&schema, largest, &space, &record, NULL, &error), &error);
    free_copy(largest);
    struct view larger = record_of(INDEX_RECORD_BYTES_MAX + 1, 10, false);
    refuse(larger, "the record has 1048577 bytes; at most 1048576 are allowed", false);
    free_copy(larger);
    buffer_release(&space);
}

static void a_key_with_escapes_needs_memory(void **state)
{
    (void)state;
    struct schema schema = of_four();
    struct view bytes = VIEW("a\x1b_b\x1f\x1f" TIME);
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
        struct record record;
        struct hf_error error;
        alloc_fail_after(n);
        enum hf_status status = record_read(&schema, bytes, &space, &record, NULL, &error);
        failed = alloc_stop();
        assert_int_equal(status, failed ? HF_UNAVAILABLE : HF_OK);
        buffer_release(&space);
    }
    assert_int_equal(n, 2);
    alloc_fail_after(0);
    struct buffer unused = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record;
    struct hf_error error;
    enum hf_status status =
        record_read(&schema, VIEW("ab\x1f\x1f" TIME), &unused, &record, NULL, &error);
    assert_false(alloc_stop());
    assert_int_equal(status, HF_OK);
}

static void an_escape_elsewhere_leaves_the_key_where_it_is(void **state)
{
    (void)state;
    const struct view fields[] = { VIEW("title"), VIEW("updated_at"), VIEW("domain") };
    struct view bytes = VIEW("a\x1b_b\x1f" TIME "\x1f"
                             "example.com");
    struct schema schema;
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct record record;
    struct hf_error error;
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ fields, 3, fields[2], fields[1], 2, true },
                             &schema, &error),
                  &error);
    assert_status(HF_OK, record_read(&schema, bytes, &space, &record, NULL, &error), &error);
    assert_view(record.key, VIEW("example.com"));
    assert_ptr_equal(record.key.data, bytes.data + bytes.size - record.key.size);
    assert_null(space.data);
}

/* ---- Cutting and separators ---------------------------------------------------------------- */

static void cut_all(struct view text, const char *expected)
{
    struct view copy = exact_copy(text), rest = copy, bytes = VIEW("untouched");
    struct buffer found = BUFFER_INIT(1000);
    while (record_cut(&rest, &bytes)) {
        assert_true(bytes.size > 0);
        buffer_append(&found, bytes);
        buffer_append_byte(&found, '|');
        bytes = VIEW("untouched");
    }
    assert_view(bytes, VIEW("untouched"));
    assert_int_equal(rest.size, 0);
    assert_string_equal(buffer_text(&found), expected);
    buffer_release(&found);
    free_copy(copy);
}

static void records_are_cut_at_every_end(void **state)
{
    (void)state;
    cut_all(VIEW(""), "");
    cut_all(VIEW("\n"), "");
    cut_all(VIEW("\x1e\n\n\x1e"), "");
    cut_all(VIEW("a"), "a|");
    cut_all(VIEW("a\n"), "a|");
    cut_all(VIEW("a\x1e\nb\x1e"
                 "c\n\nd"),
            "a|b|c|d|");
    cut_all(VIEW("a long one, longer than eight\nb\n"), "a long one, longer than eight|b|");
    cut_all(VIEW("1234567\n12345678\n123456789\n\xc3\xa4\x1f\x0b\x1d\x9e\x8a\n"),
            "1234567|12345678|123456789|\xc3\xa4\x1f\x0b\x1d\x9e\x8a|");
}

/* The same by looking at each byte. */
static bool cut_slowly(struct view *rest, struct view *ret_bytes)
{
    while (rest->size > 0) {
        size_t end = 0;
        while (end < rest->size && rest->data[end] != '\n' && rest->data[end] != '\x1e')
            end++;
        struct view bytes = view_first(*rest, end);
        *rest = view_from(*rest, end + 1);
        if (bytes.size > 0) {
            *ret_bytes = bytes;
            return true;
        }
    }
    return false;
}

static void random_texts_are_cut_as_by_the_byte(void **state)
{
    (void)state;
    static const char letters[] = "ab\x1f\n\x1e\x0b\x09\x1d\x8a\x9e\x00\xff";
    struct prng prng = prng_seeded(8);
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t size = prng_below(&prng, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = letters[prng_below(&prng, sizeof letters - 1)];
        struct view copy = exact_copy((struct view){ text, size });
        struct view fast = copy, slow = copy, a = copy, b = copy;
        bool more = true;
        while (more) {
            more = record_cut(&fast, &a);
            assert_int_equal(cut_slowly(&slow, &b), more);
            if (more)
                assert_true(a.data == b.data && a.size == b.size);
        }
        free_copy(copy);
    }
}

static void fields_are_cut_one_by_one(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        { "", "|" },
        { "a", "a|" },
        { "\x1f", "||" },
        { "a\x1f", "a||" },
        { "a\x1f\x1f"
          "b",
          "a||b|" },
        { "a\x1b_b\x1f"
          "c",
          "a\x1b_b|c|" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct view rest = view_of(cases[i].bytes);
        struct buffer found = BUFFER_INIT(100);
        bool more = true;
        while (more) {
            buffer_append(&found, field_cut(&rest, &more));
            buffer_append_byte(&found, '|');
        }
        assert_string_equal(buffer_text(&found), cases[i].expected);
        buffer_release(&found);
    }
}

static void separators_are_written_as_the_rule_says(void **state)
{
    (void)state;
    struct buffer text = BUFFER_INIT(100);
    assert_true(field_write(&text, VIEW("a\x1b\x1c\x1d\x1e\x1f\n\0z\x01\t")));
    assert_view(buffer_view(&text), VIEW("a\x1b[\x1b\\\x1b]\x1b^\x1b_\x1bJ\x1b@z\x01\t"));
    buffer_clear(&text);
    assert_true(field_write(&text, VIEW("")));
    assert_int_equal(text.size, 0);
    buffer_release(&text);
}

static void a_wrong_escape_is_not_read_and_leaves_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = { "\x1b",  "a\x1b",    "a\x1b_b\x1bx", "\x1b\x1b",
                                         "\x1bK", "\x1b\x1f", "\x1b\xdf",     "\x1b\n" };
    struct buffer value = BUFFER_INIT(100);
    assert_true(buffer_append(&value, VIEW("before")));
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_false(field_read(&value, view_of(wrong[i])));
        assert_view(buffer_view(&value), VIEW("before"));
        assert_false(value.failed);
    }
    buffer_release(&value);
}

/* A character that is likely to be odd. */
static size_t random_character(struct prng *prng, char bytes[UTF8_BYTES_MAX])
{
    static const char odd[] = {
        0, '\n', 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, '_', '[', '@', 'J', '~'
    };
    uint64_t kind = prng_below(prng, 4);
    if (kind == 0) {
        bytes[0] = odd[prng_below(prng, sizeof odd)];
        return 1;
    }
    uint32_t code = (uint32_t)prng_below(prng, kind == 1 ? 0x80 : kind == 2 ? 0x800 : 0x110000);
    return utf8_write(code >= 0xd800 && code < 0xe000 ? 'x' : code, bytes);
}

static void random_value(struct prng *prng, struct buffer *value)
{
    size_t count = prng_below(prng, 30);
    char character[UTF8_BYTES_MAX];
    buffer_clear(value);
    for (size_t i = 0; i < count; i++)
        buffer_append(value, (struct view){ character, random_character(prng, character) });
    assert_false(value->failed);
}

static void assert_fields(struct view bytes, const struct buffer *values, size_t count)
{
    struct buffer value = BUFFER_INIT(1000), written = BUFFER_INIT(1000);
    bool more = true;
    for (size_t i = 0; i < count; i++) {
        assert_true(more);
        struct view field = field_cut(&bytes, &more);
        buffer_clear(&value);
        buffer_clear(&written);
        assert_true(field_read(&value, field));
        assert_view(buffer_view(&value), buffer_view(&values[i]));
        assert_true(field_write(&written, buffer_view(&value)));
        assert_view(buffer_view(&written), field);
    }
    assert_false(more);
    buffer_release(&value);
    buffer_release(&written);
}

static void any_values_come_back_from_a_record(void **state)
{
    (void)state;
    struct schema schema = of_four();
    struct prng prng = prng_seeded(9);
    struct buffer values[4], bytes = BUFFER_INIT(4000), space = BUFFER_INIT(1024);
    for (size_t i = 0; i < 4; i++)
        values[i] = BUFFER_INIT(1000);
    for (int round = 0; round < 5000; round++) {
        struct view views[4];
        for (size_t i = 0; i < 4; i++)
            random_value(&prng, &values[i]);
        buffer_append_byte(&values[0], 'k');
        buffer_clear(&values[2]);
        buffer_append(&values[2], VIEW(TIME));
        for (size_t i = 0; i < 4; i++)
            views[i] = buffer_view(&values[i]);
        buffer_clear(&bytes);
        assert_true(record_write(&bytes, views, 4));
        assert_int_equal(view_find(buffer_view(&bytes), '\n'), bytes.size);

        struct view copy = exact_copy(buffer_view(&bytes)), rest = copy, cut;
        assert_true(record_cut(&rest, &cut) && rest.size == 0);
        assert_view(cut, copy);
        struct record record;
        struct hf_error error;
        assert_status(HF_OK, record_read(&schema, cut, &space, &record, NULL, &error), &error);
        assert_view(record.key, views[0]);
        assert_fields(cut, values, 4);
        free_copy(copy);
    }
    for (size_t i = 0; i < 4; i++)
        buffer_release(&values[i]);
    buffer_release(&bytes);
    buffer_release(&space);
}

static void without_memory_or_room_nothing_is_written(void **state)
{
    (void)state;
    const struct view values[] = { VIEW("a\nb"), VIEW("a value of some length"), VIEW("\x1f") };
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        struct buffer text = BUFFER_INIT(1000), value = BUFFER_INIT(1000);
        alloc_fail_after(n);
        bool done =
            record_write(&text, values, COUNT(values)) && field_read(&value, VIEW("a\x1bJ"
                                                                                  "b"));
        failed = alloc_stop();
        assert_int_equal(done, !failed);
        buffer_release(&text);
        buffer_release(&value);
    }
    assert_true(n > 2);
    struct buffer small = BUFFER_INIT(5);
    assert_false(record_write(&small, values, COUNT(values)));
    assert_true(small.failed);
    buffer_release(&small);
}

/* Whatever the place of a byte in its word of eight. */
static void one_wrong_byte_is_found_at_every_place(void **state)
{
    (void)state;
    static const char wrong[] = {
        0, '\n', 0x1b, 0x1c, 0x1e, (char)0x80, (char)0xc3, (char)0xff
    };
    struct schema schema = of_four();
    struct buffer space = BUFFER_INIT(1024);
    struct view good = VIEW("example.com\x1f"
                            "a title of some length\x1f" TIME "\x1fnote");
    for (size_t at = 0; at < good.size; at++) {
        for (size_t i = 0; i < sizeof wrong; i++) {
            struct view copy = exact_copy(good);
            struct record record;
            struct hf_error error;
            ((char *)(uintptr_t)copy.data)[at] = wrong[i];
            assert_status(HF_INVALID, record_read(&schema, copy, &space, &record, NULL, &error),
                          &error);
            free_copy(copy);
        }
    }
    buffer_release(&space);
}

/* ---- Which is the later -------------------------------------------------------------------- */

static int compare(const char *a, const char *b)
{
    struct schema schema = of_four();
    struct buffer space = BUFFER_INIT(1024);
    struct record records[2];
    struct hf_error error;
    const char *texts[] = { a, b };
    for (size_t i = 0; i < 2; i++)
        assert_status(
            HF_OK, record_read(&schema, view_of(texts[i]), &space, &records[i], NULL, &error),
            &error);
    int order = record_compare(&records[0], &records[1]);
    int reverse = record_compare(&records[1], &records[0]);
    assert_int_equal((order > 0) - (order < 0), (reverse < 0) - (reverse > 0));
    buffer_release(&space);
    return (order > 0) - (order < 0);
}

static void the_later_time_is_later_in_any_zone(void **state)
{
    (void)state;
    assert_int_equal(compare("a\x1fz\x1f"
                             "2026-02-06T10:00:00Z",
                             "a\x1f"
                             "a\x1f"
                             "2026-02-06T10:00:01Z"),
                     -1);
    assert_int_equal(compare("a\x1f\x1f"
                             "2026-02-06T12:00:00+03:00",
                             "a\x1f\x1f"
                             "2026-02-06T10:00:00Z"),
                     -1);
    assert_int_equal(compare("a\x1f\x1f"
                             "2026-02-06T08:00:00-03:00",
                             "a\x1f\x1f"
                             "2026-02-06T10:00:00Z"),
                     1);
    assert_int_equal(compare("a\x1f\x1f"
                             "2026-02-06T10:00:00.000000000000000001Z",
                             "a\x1f\x1f"
                             "2026-02-06T10:00:00Z"),
                     1);
    assert_int_equal(compare("a\x1f\x1f"
                             "9",
                             "a\x1f\x1f"
                             "10"),
                     -1);
    assert_int_equal(compare("a\x1f\x1f"
                             "1770372000",
                             "a\x1f\x1f"
                             "2026-02-06T10:00:01Z"),
                     -1);
}

static void equal_times_are_ordered_by_bytes(void **state)
{
    (void)state;
    assert_int_equal(compare("a\x1fx\x1f" TIME, "a\x1fy\x1f" TIME), -1);
    assert_int_equal(compare("a\x1fx\x1f" TIME, "a\x1fx\x1f" TIME "\x1f"), -1);
    assert_int_equal(compare("a\x1f\xc3\xa4\x1f" TIME, "a\x1fz\x1f" TIME), 1);
    assert_int_equal(compare("a\x1f\x1f"
                             "2026-02-06T11:00:00+01:00",
                             "a\x1f\x1f"
                             "2026-02-06T10:00:00Z"),
                     1);
    assert_int_equal(compare("a\x1fx\x1f" TIME, "a\x1fx\x1f" TIME), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good records are read, those with fewer fields too", good_records_are_read),
        IT("a time is the same in every zone", a_time_is_the_same_in_every_zone),
        IT("what is no record is refused, with the reason in words",
           what_is_no_record_is_refused_with_the_reason),
        IT("too many fields are told only where nothing else is wrong",
           what_a_later_schema_might_take_is_told),
        IT("keys and records are taken up to their bounds and no further",
           keys_and_records_end_at_their_bounds),
        IT("one wrong byte is found at every place", one_wrong_byte_is_found_at_every_place),
        IT("only a key with escapes takes memory, and may fail for want of it",
           a_key_with_escapes_needs_memory),
        IT("an escape in another field leaves the key where it is",
           an_escape_elsewhere_leaves_the_key_where_it_is),
        IT("LF, RS and RS LF end a record, and an empty one is none",
           records_are_cut_at_every_end),
        IT("random texts are cut where a look at each byte would cut them",
           random_texts_are_cut_as_by_the_byte),
        IT("fields are cut one by one, empty ones too", fields_are_cut_one_by_one),
        IT("separators in a value are written as the rule says",
           separators_are_written_as_the_rule_says),
        IT("a wrong escape is not read, and leaves nothing behind",
           a_wrong_escape_is_not_read_and_leaves_nothing),
        IT("any values come back from a record, byte for byte",
           any_values_come_back_from_a_record),
        IT("without memory or room nothing is told as written",
           without_memory_or_room_nothing_is_written),
        IT("the record with the later time is the later one, in any zone",
           the_later_time_is_later_in_any_zone),
        IT("of two with the same time the bytes decide", equal_times_are_ordered_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
