/* SPDX-License-Identifier: Apache-2.0 */
/* index_condition_test.c: conditions on fields, decimal numbers, and the order of sorted records,
 * in memory and in files. */
#include "env/env.h"
#include "index/condition.h"
#include "index/sorter.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define US           "\x1f"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct schema with_zone(const char *zone)
{
    const struct view fields[] = { VIEW("key"), VIEW("n"), VIEW("at"), VIEW("text") };
    struct schema schema;
    struct hf_error error;
    assert_status(HF_OK,
                  schema_new(&(struct schema_spec){ fields, 4, fields[0], fields[2], 2, true },
                             &schema, &error),
                  &error);
    assert_status(HF_OK, schema_set_zone(&schema, view_of(zone), &error), &error);
    return schema;
}

static struct record record_of(const struct schema *schema, const char *bytes,
                               struct buffer *space)
{
    struct record record;
    struct hf_error error;
    assert_status(HF_OK, record_read(schema, view_of(bytes), space, &record, NULL, &error),
                  &error);
    return record;
}

/* ---- Numbers ------------------------------------------------------------------------- */

static void numbers_are_those_of_json(void **state)
{
    static const char *const good[] = { "0", "-0", "1", "10", "-1.5", "1e3", "1E-3", "1.0e+2" };
    static const char *const bad[] = { "",    "01",   "+1",           ".5",  "1.",  " 1",
                                       "1 ",  "-",    "1e",           "e1",  "0x1", "1,5",
                                       "--1", "1.e1", "1e1234567890", "Inf", "NaN" };
    struct decimal decimal;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        if (!decimal_parse(view_of(good[i]), &decimal))
            fail_msg("%s was refused", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (decimal_parse(view_of(bad[i]), &decimal))
            fail_msg("%s was taken", bad[i]);
}

/* In ascending order; those in one row are equal. */
static const char *const ascending[][4] = {
    { "-1e30" },
    { "-123.45" },
    { "-123.4", "-123.40" },
    { "-123", "-1.23e2" },
    { "-9" },
    { "-0.001", "-1e-3" },
    { "0", "-0", "0.00", "0e5" },
    { "0.0009" },
    { "0.001", "1E-3" },
    { "0.9" },
    { "1", "1.0", "10e-1", "0.1e1" },
    { "1.00000000000000000001" },
    { "9" },
    { "10" },
    { "99.5" },
    { "100", "1e2", "100.0", "1.00e2" },
    { "100.5" },
    { "9007199254740992" },
    { "9007199254740993" },
    { "1e30" },
};

static void numbers_compare_exactly(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ascending) * 4; i++)
        for (size_t j = 0; j < COUNT(ascending) * 4; j++) {
            const char *a = ascending[i / 4][i % 4], *b = ascending[j / 4][j % 4];
            struct decimal left, right;
            struct buffer one = BUFFER_INIT(256), two = BUFFER_INIT(256);
            if (!a || !b)
                continue;
            assert_true(decimal_parse(view_of(a), &left) && decimal_parse(view_of(b), &right));
            int wanted = (i / 4 > j / 4) - (i / 4 < j / 4);
            int order = decimal_compare(&left, &right);
            assert_true(decimal_bytes(&one, &left) && decimal_bytes(&two, &right));
            int bytes = view_compare(buffer_view(&one), buffer_view(&two));
            if ((order > 0) - (order < 0) != wanted || (bytes > 0) - (bytes < 0) != wanted)
                fail_msg("%s and %s: %d, as bytes %d", a, b, order, bytes);
            buffer_release(&one);
            buffer_release(&two);
        }
}

/* ---- Conditions ---------------------------------------------------------------------- */

#define RECORD(n, text) "k" US n US "2026-02-06T10:00:00Z" US text

static void conditions_hold_or_not(void **state)
{
    static const struct {
        const char *condition, *record;
        bool holds;
    } rows[] = {
        { "n=5", RECORD("5", ""), true },
        { "n=5", RECORD("5.0", ""), true },
        { "n=5", RECORD("05", ""), false },
        { "n=05", RECORD("5", ""), false },
        { "n!=5", RECORD("5.0", ""), false },
        { "n!=5", RECORD("", ""), true },
        { "n<10", RECORD("9", ""), true },
        { "n<10", RECORD("10", ""), false },
        { "n<=10", RECORD("10", ""), true },
        { "n>9", RECORD("10", ""), true },
        { "n >= 10", RECORD("10.0", ""), true },
        { "n>=9007199254740993", RECORD("9007199254740992", ""), false },
        { "n<10", RECORD("x", ""), false }, /* as bytes */
        { "n>x", RECORD("10", ""), false },
        { "text=a b", RECORD("", "a b"), true },
        { "text= b", RECORD("", " b"), true },
        { "text = b", RECORD("", "b"), true },
        { "text = b", RECORD("", " b"), false },
        { "text = =", RECORD("", "="), true },
        { "text=", RECORD("", ""), true },
        { "text=", "k" US "" US "1", true },
        { "text>a", "k" US "" US "1", false },
        { "text=x\x1fy", RECORD("", "x\x1b_y"), true },
        { "text>x\x1f", RECORD("", "x\x1b_y"), true },
        { "text<\xc3\xa4", RECORD("", "z"), true },
        { "at=2026-02-06T11:00:00+01:00", RECORD("", ""), true },
        { "at<1770372000", RECORD("", ""), false },
        { "at<=1770372000", RECORD("", ""), true },
        { "at>2026-02-06T09:59:59.999Z", RECORD("", ""), true },
        { "text~abc", RECORD("", "abc"), true },
        { "text~ab", RECORD("", "abc"), false },
        { "text~", RECORD("", ""), true },
        { "text~*", RECORD("", ""), true },
        { "text ~ a*c", RECORD("", "abbbc"), true },
        { "text~a*c", RECORD("", "abbb"), false },
        { "text~*b*", RECORD("", "abc"), true },
        { "text~*ab*ab", RECORD("", "aabaab"), true },
        { "text~?", RECORD("", "\xc3\xa4"), true },
        { "text~??", RECORD("", "\xc3\xa4"), false },
        { "text~a?c", RECORD("", "a\x1b_c"), true },
        { "text~\\*", RECORD("", "*"), true },
        { "text~\\*", RECORD("", "x"), false },
        { "text~\\\\", RECORD("", "\\"), true },
        { "at~2026-02-*", RECORD("", ""), true },
        { "key=k", RECORD("", ""), true },
    };
    struct schema schema = with_zone("");
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct condition_on_field condition;
        struct hf_error error;
        assert_status(HF_OK,
                      condition_parse(&schema, view_of(rows[i].condition), &condition, &error),
                      &error);
        struct record record = record_of(&schema, rows[i].record, &space);
        if (condition_holds(&condition, &record) != rows[i].holds)
            fail_msg("%s of row %zu", rows[i].condition, i);
    }
    buffer_release(&space);
}

static void wrong_conditions_are_told(void **state)
{
    char pattern[FIELD_PATTERN_MAX + 8] = "text~";
    static const struct {
        const char *condition, *why;
    } rows[] = {
        { "", "expected FIELD OP VALUE" },    { "n", "expected FIELD OP VALUE" },
        { "=5", "expected FIELD OP VALUE" },  { "n 5", "expected FIELD OP VALUE" },
        { "n!5", "expected FIELD OP VALUE" }, { "m=5", "m" },
        { "n==5", "unknown operator '=='" },  { "n <> 5", "unknown operator '<>'" },
        { "n=>5", "unknown operator '=>'" },  { "n =~ 5", "unknown operator '=~'" },
        { "at=yesterday", "is not a time" },  { "at>2026-02-06T10:00:00", "with a zone" },
        { "text~\\", "ends with \\" },
    };
    struct schema schema = with_zone("");
    struct condition_on_field condition;
    struct hf_error error;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_status(HF_INVALID,
                      condition_parse(&schema, view_of(rows[i].condition), &condition, &error),
                      &error);
        if (!strstr(error.why, rows[i].why))
            fail_msg("%s: %s", rows[i].condition, error.why);
    }
    memset(pattern + 5, '*', FIELD_PATTERN_MAX);
    assert_status(HF_OK, condition_parse(&schema, view_of(pattern), &condition, &error),
                  &error);
    pattern[5 + FIELD_PATTERN_MAX] = '*';
    assert_status(HF_INVALID, condition_parse(&schema, view_of(pattern), &condition, &error),
                  &error);
}

static void an_index_may_have_a_zone(void **state)
{
    struct schema schema = with_zone("+02:00");
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct condition_on_field condition;
    struct hf_error error;
    (void)state;
    struct record record = record_of(&schema, "k" US "" US "2026-02-06T12:00:00", &space);
    assert_int_equal(record.time.s, 1770372000);
    record = record_of(&schema, "k" US "" US "2026-02-06T12:00:00Z", &space);
    assert_int_equal(record.time.s, 1770379200);
    assert_status(HF_OK,
                  condition_parse(&schema, VIEW("at=2026-02-06 14:00:00"), &condition, &error),
                  &error);
    assert_true(condition_holds(&condition, &record));
    struct schema none = with_zone("");
    assert_status(HF_INVALID,
                  record_read(&none, VIEW("k" US "" US "2026-02-06T12:00:00"), &space, &record,
                              NULL, &error),
                  &error);
    buffer_release(&space);
}

/* ---- Sorting ------------------------------------------------------------------------- */

static void add_records(struct record_sorter *sorter, const struct schema *schema,
                        const char *const *records, size_t count)
{
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct hf_error error;
    for (size_t i = 0; i < count; i++) {
        struct record record = record_of(schema, records[i], &space);
        assert_status(HF_OK, record_sorter_add(sorter, &record, &error), &error);
    }
    buffer_release(&space);
}

static void records_are_sorted(void **state)
{
    static const char *const records[] = {
        "e" US "10" US "4" US "b",    "a" US "9" US "3" US "c",     "d" US "x" US "2" US "a",
        "b" US "9.0" US "1000" US "", "c" US "" US "1" US "a\x1b_",
    };
    static const struct {
        const char *order, *keys;
        uint64_t limit;
    } rows[] = {
        { "n", "ceabd", 0 }, /* "" "10" "9" "9.0" "x" */
        { "n:number", "abecd", 0 },  { "n:number:desc", "dceab", 0 }, { "at", "cdaeb", 0 },
        { "at:desc", "beadc", 0 },   { "at:desc", "bea", 3 },         { "text", "bdcea", 0 },
        { "text:desc", "aecdb", 9 }, { "key", "abcde", 0 },
    };
    struct schema schema = with_zone("");
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sort_order order;
        struct hf_error error;
        struct view bytes;
        char keys[8] = "";
        assert_status(HF_OK, sort_order_parse(&schema, view_of(rows[i].order), &order, &error),
                      &error);
        struct record_sorter *sorter = record_sorter_new(env_real(), order, rows[i].limit);
        assert_non_null(sorter);
        add_records(sorter, &schema, records, COUNT(records));
        size_t count = 0;
        while (record_sorter_next(sorter, &bytes, &error) == HF_OK)
            keys[count++] = bytes.data[0];
        keys[count] = '\0';
        if (strcmp(keys, rows[i].keys) != 0)
            fail_msg("%s: %s, not %s", rows[i].order, keys, rows[i].keys);
        record_sorter_free(sorter);
    }
}

static void wrong_orders_are_told(void **state)
{
    static const char *const orders[] = {
        "", "m", "n:x", "n:desc:number", "n:desc:desc", "n:number:number"
    };
    struct schema schema = with_zone("");
    struct sort_order order;
    struct hf_error error;
    (void)state;
    for (size_t i = 0; i < COUNT(orders); i++)
        assert_status(HF_INVALID, sort_order_parse(&schema, view_of(orders[i]), &order, &error),
                      &error);
}

/* More than fits into memory: sorted in files, or cut to the limit. */
static void many_records_are_sorted_in_files(void **state)
{
    enum { MANY = 30000, PAD = 1500 };
    struct schema schema = with_zone("");
    struct sort_order order;
    struct hf_error error;
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    char *text = malloc(PAD + 128);
    (void)state;
    assert_non_null(text);
    assert_status(HF_OK, sort_order_parse(&schema, VIEW("n:number:desc"), &order, &error),
                  &error);
    for (int limited = 0; limited < 2; limited++) {
        struct record_sorter *sorter = record_sorter_new(env_real(), order, limited ? 100 : 0);
        assert_non_null(sorter);
        for (unsigned i = 0; i < MANY; i++) {
            unsigned n = (unsigned)((uint64_t)i * 7919 % MANY);
            int size = snprintf(text, 128, "k%u" US "%u" US "1" US "x\x1b_", n, n);
            memset(text + size, 'v', PAD);
            text[size + PAD] = '\0';
            struct record record = record_of(&schema, text, &space);
            assert_status(HF_OK, record_sorter_add(sorter, &record, &error), &error);
        }
        struct view bytes;
        unsigned count = 0;
        enum hf_status status;
        while ((status = record_sorter_next(sorter, &bytes, &error)) == HF_OK) {
            char start[64];
            int size = snprintf(start, sizeof start, "k%u" US "%u" US "1" US "x\x1b_v",
                                MANY - 1 - count, MANY - 1 - count);
            assert_true(view_starts_with(bytes, (struct view){ start, (size_t)size }));
            assert_int_equal(bytes.size, (size_t)size - 1 + PAD);
            count++;
        }
        assert_status(HF_NOT_FOUND, status, &error);
        assert_int_equal(count, limited ? 100 : MANY);
        record_sorter_free(sorter);
    }
    free(text);
    buffer_release(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a number is a number of JSON", numbers_are_those_of_json),
        IT("numbers are compared exactly, and their bytes sort like them",
           numbers_compare_exactly),
        IT("conditions compare numbers, times, bytes and patterns", conditions_hold_or_not),
        IT("a wrong condition is refused with a sentence", wrong_conditions_are_told),
        IT("times without a zone are in the zone of the index", an_index_may_have_a_zone),
        IT("records are sorted by a field, as bytes, numbers or times", records_are_sorted),
        IT("a wrong order is refused", wrong_orders_are_told),
        IT("more than memory holds is sorted in files, or cut to the limit",
           many_records_are_sorted_in_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
