/* SPDX-License-Identifier: Apache-2.0 */
/* record_test.c: tables of fields as JSON and as text for people (src/cli/output/record.h). */
#include "cli/output/record.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

struct inner {
    uint64_t rows;
};

struct sample {
    uint64_t chunks;
    uint32_t level;
    bool known, removed;
    const char *holder;
    char etag[8];
    int64_t held_ms, began_ms;
    const char *const *scopes;
    size_t scope_count;
    struct inner totals;
    const struct inner *result; /* or NULL */
};

static void append_rank(struct buffer *to, const struct sample *sample)
{
    if (sample->level > 0)
        buffer_print(to, "rank %u", sample->level);
}

static const struct field inner_record[] = { { "rows", AT(COUNT, inner, rows) },
                                             { .name = NULL } };

static const struct field sample_record[] = {
    { "chunks", AT(COUNT, sample, chunks) },
    { "known", AT(BOOL, sample, known), .hidden = true },
    { "level", AT(COUNT, sample, level), .null_unless = "known" },
    { "removed", AT(BOOL, sample, removed) },
    { "holder", AT(WORDS, sample, holder) },
    { "etag", AT(KEY, sample, etag), .optional = true },
    { "held_ms", AT(SPAN, sample, held_ms), .needs = "!removed" },
    { "began_at", AT(TIME, sample, began_ms), .optional = true },
    { "scopes", AT(TEXTS, sample, scopes), .count = offsetof(struct sample, scope_count) },
    { "rank", SELF(HINT), .append = APPENDS(append_rank) },
    { "totals", AT(OBJECT, sample, totals), .of = inner_record },
    { "", AT(PART, sample, result), .of = inner_record, .pointed = true, .optional = true },
    { .name = NULL },
};

static void assert_text(const struct sample *sample, const char *text, const char *wanted)
{
    struct buffer got = BUFFER_INIT(4096);
    record_append(&got, /* raw */ false, sample_record, sample, text);
    assert_string_equal(buffer_text(&got), wanted);
    buffer_release(&got);
}

static void assert_json(const struct sample *sample, const char *wanted)
{
    json_t *object = record_json(sample_record, sample);
    char *got = json_dumps(object, JSON_COMPACT);
    assert_string_equal(got, wanted);
    free(got);
    json_decref(object);
}

static void counts_have_nouns(void **state)
{
    (void)state;
    assert_text(&(struct sample){ .chunks = 1 }, "{chunks chunk}", "1 chunk");
    assert_text(&(struct sample){ .chunks = 2 }, "{chunks chunk}", "2 chunks");
    assert_text(&(struct sample){ .chunks = 0 }, "{chunks index entry}", "0 index entries");
    assert_text(&(struct sample){ .chunks = 1 }, "{chunks fenced body}", "1 fenced body");
    assert_text(&(struct sample){ .chunks = 1 }, "{chunks chunk} {chunks:is/are}",
                "1 chunk is");
    assert_text(&(struct sample){ .chunks = 0 }, "{chunks:is/are}", "are");
}

static void choices_are_by_what_is_there(void **state)
{
    struct sample none = { .chunks = 0 }, some = { .chunks = 3, .removed = true };
    (void)state;
    assert_text(&none, "a[ {chunks} b]", "a");
    assert_text(&some, "a[ {chunks} b]", "a 3 b");
    assert_text(&none, "[{removed?}removed|[{chunks}|none]]", "none");
    assert_text(&some, "[{removed?}{level} removed|-]", "0 removed");
    assert_text(&none, "[{removed?}|here]", "here");
    assert_text(&some, "[{removed?}|here]", "");
    assert_text(&none, "[{rank}|no rank]", "no rank");
    assert_text(&(struct sample){ .level = 2 }, "[{rank}|no rank]", "rank 2");
}

static void lists_start_behind_a_colon(void **state)
{
    struct sample sample = { .chunks = 3, .level = 1 };
    (void)state;
    assert_text(&sample, "done:[, {chunks} chunks][, {level} level]",
                "done: 3 chunks, 1 level");
    sample.chunks = 0;
    assert_text(&sample, "done:[, {chunks} chunks][, {level} level]", "done: 1 level");
}

static void columns_are_filled_up(void **state)
{
    (void)state;
    assert_text(&(struct sample){ .chunks = 42 }, "{chunks<4}|", "42  ");
    assert_text(&(struct sample){ .chunks = 42 }, "<{chunks>4}>", "<  42>");
    assert_text(&(struct sample){ .holder = "\xc3\xa4" }, "{holder<3}.", "\xc3\xa4  .");
}

static void odd_bytes_are_escaped(void **state)
{
    struct sample sample = { .holder = "a\tb\\", .etag = "x\n" };
    struct buffer got = BUFFER_INIT(4096);
    (void)state;
    assert_text(&sample, "{holder} {etag}", "a\\tb\\\\ x\\n");
    record_append(&got, /* raw */ true, sample_record, &sample, "{etag}");
    assert_string_equal(buffer_text(&got), "x\n");
    buffer_release(&got);
}

static void objects_and_parts_are_reached(void **state)
{
    struct inner result = { 7 };
    struct sample sample = { .totals = { 5 } };
    (void)state;
    assert_text(&sample, "{totals.rows row}[, {rows} more]", "5 rows");
    sample.result = &result;
    assert_text(&sample, "{totals.rows row}[, {rows} more]", "5 rows, 7 more");
    assert_text(&sample, "{row}", "{row}"); /* a mistake shows */
}

static void json_has_what_the_table_says(void **state)
{
    static const char *const scopes[] = { "named:a", "path:/b" };
    struct inner result = { 7 };
    struct sample sample = { .chunks = 2, .level = 1 };
    (void)state;
    assert_json(&sample, "{\"chunks\":2,\"level\":null,\"removed\":false,\"holder\":null,"
                         "\"held_ms\":0,\"scopes\":[],\"totals\":{\"rows\":0}}");
    sample = (struct sample){ .chunks = 2,
                              .level = 1,
                              .known = true,
                              .removed = true,
                              .holder = "ann",
                              .etag = "\xff",
                              .began_ms = 1000,
                              .scopes = scopes,
                              .scope_count = 2,
                              .result = &result };
    assert_json(&sample, "{\"chunks\":2,\"level\":1,\"removed\":true,\"holder\":\"ann\","
                         "\"etag_hex\":\"ff\",\"began_at\":\"1970-01-01T00:00:01.000Z\","
                         "\"scopes\":[\"named:a\",\"path:/b\"],\"totals\":{\"rows\":0},"
                         "\"rows\":7}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a count has its noun, one or many", counts_have_nouns),
        IT("what is in brackets is shown if its members have something, or its conditions",
           choices_are_by_what_is_there),
        IT("the first of a list behind a colon has no comma", lists_start_behind_a_colon),
        IT("columns are filled up on either side", columns_are_filled_up),
        IT("no text can disturb a terminal; keys are as they are where that is wanted",
           odd_bytes_are_escaped),
        IT("a text reaches into objects and parts, and a mistake in it shows",
           objects_and_parts_are_reached),
        IT("JSON leaves out, and has null, where the table says so",
           json_has_what_the_table_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
