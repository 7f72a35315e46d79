/* SPDX-License-Identifier: Apache-2.0 */
/* index_fold_test.c: merging records into a shard: which of two records stays, what is counted,
 * and what is reported if the swap fails, has no answer, or comes too late. */
#include "alloc.h"
#include "base/prng.h"
#include "fault_store.h"
#include "index/fold.h"
#include "index_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define SHARD ((struct shard_id){ "a3" })
#define NAME  "shards/a3.usv"

/* ---- A script for the puts of an index ----------------------------------------------- */

static void deliver(void *script)
{
    script_deliver(script);
}

/* What is late arrives just before the next put. */
static void script_begin(struct script *script, struct yard *yard, const struct fate *fates,
                         size_t count)
{
    struct rule rule = { .name = "puts", .on = ON_PUT, .before = deliver, .argument = script };
    memcpy(rule.fates, fates, count * sizeof *fates);
    yard_script(script, yard->store.inner);
    script_add(script, rule);
    yard->index->store = &script->base;
}

static void script_end(struct script *script, struct yard *yard)
{
    store_close(&script->base);
    yard->index->store = &yard->store.base;
}

/* ---- Folding and looking ------------------------------------------------------------- */

#define RECORDS_MAX 64

/* Folds these lines, "key|name|time" with | for US. */
static enum hf_status fold_by(struct yard *yard, uint64_t token, const char *const *lines,
                              size_t count, struct fold_report *ret_report)
{
    struct record records[RECORDS_MAX];
    char *texts[RECORDS_MAX];
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    assert_true(count <= RECORDS_MAX);
    for (size_t i = 0; i < count; i++) {
        texts[i] = strdup(lines[i]);
        assert_non_null(texts[i]);
        for (char *bar; (bar = strchr(texts[i], '|'));)
            *bar = '\x1f';
        assert_status(HF_OK,
                      record_read(&yard->index->schema, view_of(texts[i]), &space, &records[i],
                                  NULL, &yard->error),
                      &yard->error);
    }
    enum hf_status status =
        index_fold(yard->index, token, &(struct shard_records){ SHARD, records, count },
                   ret_report, &yard->error);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    buffer_release(&space);
    return status;
}

#define LINES(...)   ((const char *const[]){ __VA_ARGS__ })
#define COUNT(lines) (sizeof(lines) / sizeof *(lines))
#define fold(yard, token, report, ...) \
    fold_by((yard), (token), LINES(__VA_ARGS__), COUNT(LINES(__VA_ARGS__)), (report))

/* The records of the shard with | for US, one a line; to be freed. */
static char *shown(struct yard *yard)
{
    struct shard_cursor cursor;
    struct record record;
    struct buffer text = BUFFER_INIT(BODY_BYTES_MAX);
    enum hf_status status;
    uint64_t count = 0;
    struct store *kept = yard->index->store;
    yard->index->store = yard->store.inner;
    assert_status(
        HF_OK, shard_cursor_open(&cursor, yard->index, SHARD, SHARD_READ_LARGE, &yard->error),
        &yard->error);
    while ((status = shard_cursor_next(&cursor, &record, &yard->error)) == HF_OK) {
        buffer_append(&text, record.bytes);
        buffer_append_byte(&text, '\n');
        count++;
    }
    assert_status(HF_NOT_FOUND, status, &yard->error);
    assert_int_equal(count, cursor.head.records);
    shard_cursor_close(&cursor);
    yard->index->store = kept;
    assert_non_null(buffer_text(&text));
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\x1f')
            text.data[i] = '|';
    return text.data;
}

static void assert_shown(struct yard *yard, const char *expected)
{
    char *text = shown(yard);
    assert_string_equal(text, expected);
    free(text);
}

static void assert_report(const struct fold_report *report, uint64_t in, uint64_t new,
                          uint64_t later, uint64_t superseded, uint64_t records)
{
    assert_int_equal(report->records_in, in);
    assert_int_equal(report->records_new, new);
    assert_int_equal(report->records_later, later);
    assert_int_equal(report->superseded, superseded);
    assert_int_equal(report->records, records);
}

static int set_up(void **state)
{
    struct yard *yard = malloc(sizeof *yard);
    assert_non_null(yard);
    yard_open(yard);
    *state = yard;
    return 0;
}

static int tear_down(void **state)
{
    yard_close(*state);
    free(*state);
    return 0;
}

/* ---- Which record stays -------------------------------------------------------------- */

static void the_first_fold_makes_the_shard(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(
        HF_OK, fold(yard, 1, &report, "b|x|2026-01-01T00:00:00Z", "a|y|2026-01-01T00:00:00Z"),
        &yard->error);
    assert_report(&report, 2, 2, 0, 0, 2);
    assert_shown(yard, "a|y|2026-01-01T00:00:00Z\nb|x|2026-01-01T00:00:00Z\n");
    char *text = yard_read(yard, NAME);
    assert_int_equal(report.bytes, strlen(text));
    free(text);
}

static void the_latest_stays(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK,
                  fold(yard, 1, &report, "a|1|2026-01-01T00:00:00Z", "b|1|2026-01-01T00:00:00Z",
                       "d|1|2026-01-01T00:00:00Z"),
                  &yard->error);
    assert_status(HF_OK,
                  fold(yard, 1, &report, "d|earlier|2025-12-31T23:59:59Z",
                       "b|zone|2026-01-01T02:00:00+01:00", "c|new|2026-01-01T00:00:00Z",
                       "b|zone|2026-01-01T00:30:00Z", "e|new|1767225600"),
                  &yard->error);
    assert_report(&report, 5, 2, 1, 2, 5);
    assert_shown(yard, "a|1|2026-01-01T00:00:00Z\n"
                       "b|zone|2026-01-01T02:00:00+01:00\n"
                       "c|new|2026-01-01T00:00:00Z\n"
                       "d|1|2026-01-01T00:00:00Z\n"
                       "e|new|1767225600\n");
}

static void ties_go_by_bytes(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK,
                  fold(yard, 1, &report, "a|m|2026-01-01T00:00:00Z", "b|m|2026-01-01T00:00:00Z",
                       "c|m|2026-01-01T00:00:00Z", "c|z|2026-01-01T00:00:00Z",
                       "c|a|2026-01-01T00:00:00Z"),
                  &yard->error);
    assert_report(&report, 5, 3, 0, 2, 3);
    assert_status(HF_OK,
                  fold(yard, 1, &report, "a|n|2026-01-01T00:00:00Z", "b|l|2026-01-01T00:00:00Z",
                       "c|z|2026-01-01T00:00:00Z"),
                  &yard->error);
    assert_report(&report, 3, 0, 1, 2, 3);
    assert_shown(yard, "a|n|2026-01-01T00:00:00Z\nb|m|2026-01-01T00:00:00Z\n"
                       "c|z|2026-01-01T00:00:00Z\n");
}

static void folding_again_changes_nothing_and_writes(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK, fold(yard, 1, &report, "a|1|2026-01-01T00:00:00Z"), &yard->error);
    char *before = yard_read(yard, NAME);
    assert_status(HF_OK, fold(yard, 1, &report, "a|1|2026-01-01T00:00:00Z"), &yard->error);
    assert_report(&report, 1, 0, 0, 1, 1);
    assert_shown(yard, "a|1|2026-01-01T00:00:00Z\n");
    char *after = yard_read(yard, NAME);
    assert_string_not_equal(before, after); /* its nonce is another */
    free(before);
    free(after);
    assert_status(HF_OK, fold_by(yard, 1, NULL, 0, &report), &yard->error);
    assert_report(&report, 0, 0, 0, 0, 1);
    assert_shown(yard, "a|1|2026-01-01T00:00:00Z\n");
}

#define MODEL_KEYS 20

/* Folds of random records leave what a table of the greatest leaves, whatever their order. */
static void many_folds_agree_with_a_table(void **state)
{
    struct yard *yard = *state;
    struct prng prng = prng_seeded(8);
    int best[MODEL_KEYS]; /* hour * 10 + name */
    memset(best, -1, sizeof best);
    for (int round = 0; round < 60; round++) {
        char lines[16][64];
        const char *given[16];
        size_t count = prng_below(&prng, 16);
        for (size_t i = 0; i < count; i++) {
            int key = (int)prng_below(&prng, MODEL_KEYS), hour = (int)prng_below(&prng, 24),
                name = (int)prng_below(&prng, 10);
            snprintf(lines[i], sizeof lines[i], "k%02d|%d|2026-01-01T%02d:00:00Z", key, name,
                     hour);
            given[i] = lines[i];
            if (hour * 10 + name > best[key])
                best[key] = hour * 10 + name;
        }
        struct fold_report report;
        assert_status(HF_OK, fold_by(yard, 1, given, count, &report), &yard->error);
        assert_int_equal(report.records_in,
                         report.records_new + report.records_later + report.superseded);
    }
    struct buffer expected = BUFFER_INIT(BODY_BYTES_MAX);
    for (int key = 0; key < MODEL_KEYS; key++)
        if (best[key] >= 0)
            buffer_print(&expected, "k%02d|%d|2026-01-01T%02d:00:00Z\n", key, best[key] % 10,
                         best[key] / 10);
    assert_shown(yard, buffer_text(&expected));
    buffer_release(&expected);
}

/* ---- Who may write ------------------------------------------------------------------- */

#define OLD   "a|old|2026-01-01T00:00:00Z"
#define NEW   "a|new|2026-01-02T00:00:00Z"
#define OTHER "a|other|2026-01-01T12:00:00Z"

static void a_lower_token_is_fenced(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK, fold(yard, 7, &report, OLD), &yard->error);
    char *before = yard_read(yard, NAME);
    assert_int_equal(fold(yard, 6, &report, NEW), HF_FENCED);
    char *after = yard_read(yard, NAME);
    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_status(HF_OK, fold(yard, 7, &report, OTHER), &yard->error);
    assert_status(HF_OK, fold(yard, 8, &report, NEW), &yard->error);
    assert_shown(yard, NEW "\n");
}

/* Another compiler, with the same token, who has not heard of us. */
static void another_writes(void *argument)
{
    struct yard *yard = argument;
    struct fold_report report;
    struct store *kept = yard->index->store;
    yard->index->store = yard->store.inner;
    assert_status(HF_OK, fold(yard, 9, &report, OTHER), &yard->error);
    yard->index->store = kept;
}

static void it_goes_away(void *argument)
{
    struct yard *yard = argument;
    struct delete_call call = { .key = VIEW("indexes/domains/" NAME) };
    assert_status(HF_OK, store_delete(yard->store.inner, &call), &call.error);
}

static void assert_conflict(struct yard *yard, void (*before)(void *yard), const char *expected)
{
    struct script script;
    struct fold_report report;
    script_begin(&script, yard, &PASS, 1);
    script_rule(&script, .on = ON_PUT, .times = 1, .before = before, .argument = yard);
    assert_int_equal(fold(yard, 9, &report, NEW), HF_CONFLICT);
    assert_shown(yard, expected);
    script_end(&script, yard);
}

static void a_lost_swap_is_a_conflict(void **state)
{
    assert_conflict(*state, another_writes, OTHER "\n"); /* it makes it, */
    assert_conflict(*state, another_writes, OTHER "\n"); /* and replaces it */
    assert_conflict(*state, it_goes_away, "");
}

/* ---- Without an answer --------------------------------------------------------------- */

struct outcome {
    struct fate fates[FATES_MAX];
    void (*after)(void *yard); /* the first put */
    enum hf_status status;
    size_t puts;
    const char *shown;
};

static void run_outcome(struct yard *yard, const struct outcome *outcome)
{
    struct script script;
    struct fold_report report = { .records = 99 };
    struct delete_call remove = { .key = VIEW("indexes/domains/" NAME) };
    assert_status(HF_OK, store_delete(yard->store.inner, &remove), &remove.error);
    assert_status(HF_OK, fold(yard, 1, &report, OLD), &yard->error);
    report.records = 99;
    script_begin(&script, yard, outcome->fates, FATES_MAX);
    script_rule(&script, .on = ON_PUT, .times = 1, .after = outcome->after, .argument = yard);
    enum hf_status status = fold(yard, 9, &report, NEW);
    if (status != outcome->status)
        fail_msg("%s: %s", hf_status_name(status), yard->error.why);
    if (status == HF_OK)
        assert_report(&report, 1, 0, 1, 0, 1);
    else
        assert_int_equal(report.records, 99);
    assert_int_equal(script_met(&script, "puts"), outcome->puts);
    assert_shown(yard, outcome->shown);
    script_end(&script, yard);
}

static void a_put_without_answer_is_settled(void **state)
{
    const struct outcome rows[] = {
        { { LOSE }, NULL, HF_OK, 2, NEW "\n" },
        { { LOSE_REPLY }, NULL, HF_OK, 1, NEW "\n" },
        { { LATE }, NULL, HF_OK, 2, NEW "\n" },
        { { TWICE }, NULL, HF_OK, 1, NEW "\n" },
        { { LOSE, LOSE, LOSE, PASS }, NULL, HF_OK, 4, NEW "\n" },
        { { LOSE, REFUSE(HF_UNAVAILABLE), PASS }, NULL, HF_OK, 3, NEW "\n" },
        { { LOSE, LOSE_REPLY }, NULL, HF_OK, 2, NEW "\n" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        run_outcome(*state, &rows[i]);
}

static void what_cannot_be_settled_is_unsure(void **state)
{
    const struct outcome rows[] = {
        { { LOSE, LOSE, LOSE, LOSE }, NULL, HF_UNSURE, 4, OLD "\n" },
        { { LOSE, REFUSE(HF_UNAVAILABLE), REFUSE(HF_UNAVAILABLE), REFUSE(HF_UNAVAILABLE) },
          NULL,
          HF_UNSURE,
          4,
          OLD "\n" },
        /* It was done, and another who read it wrote since; or it was not. Nobody can tell. */
        { { LOSE_REPLY }, another_writes, HF_UNSURE, 1, NEW "\n" },
        { { LOSE }, another_writes, HF_UNSURE, 1, OTHER "\n" },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        run_outcome(*state, &rows[i]);
}

static void what_was_refused_is_not_done(void **state)
{
    const struct outcome row = {
        { REFUSE(HF_UNAVAILABLE) }, NULL, HF_UNAVAILABLE, 1, OLD "\n"
    };
    run_outcome(*state, &row);
}

/* One compiler, and a store that loses, delays and refuses: what was told as done is there. */
static void under_faults_what_is_done_stays(void **state)
{
    (void)state;
    struct yard yard;
    struct store *inner, *faulty;
    struct hf_error error;
    const struct fault_plan plan = { .seed = 8,
                                     .throttle = 50000,
                                     .refuse = 50000,
                                     .lose = 150000,
                                     .lose_reply = 150000,
                                     .late = 150000,
                                     .late_max = SPAN_MS(20) };
    yard_open(&yard);
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &inner, &error), &error);
    assert_status(HF_OK, store_fault(inner, &plan, &faulty, &error), &error);
    yard.index->store = faulty;
    int done = -1, tried = 0;
    unsigned seen[HF_STATUS_COUNT] = { 0 };
    for (; tried < 40; tried++) {
        char line[64];
        const char *lines = line;
        struct fold_report report;
        snprintf(line, sizeof line, "a|x|2026-01-01T00:00:%02dZ", tried);
        enum hf_status status = fold_by(&yard, (uint64_t)tried, &lines, 1, &report);
        seen[status]++;
        if (status == HF_OK)
            done = tried;
    }
    store_fault_calm(faulty);
    struct shard_cursor cursor;
    struct record record;
    assert_status(HF_OK,
                  shard_cursor_open(&cursor, yard.index, SHARD, SHARD_READ_LARGE, &error),
                  &error);
    assert_status(HF_OK, shard_cursor_next(&cursor, &record, &error), &error);
    assert_true(record.time.s % 60 >= done);
    assert_true(seen[HF_OK] > 10);
    assert_true(seen[HF_OK] < 40);
    shard_cursor_close(&cursor);
    yard.index->store = &yard.store.base;
    store_close(faulty);
    yard_close(&yard);
}

/* ---- Other trouble ------------------------------------------------------------------- */

static void a_damaged_shard_is_left_alone(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK, fold(yard, 1, &report, OLD), &yard->error);
    char *text = yard_read(yard, NAME);
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i += size / 5) {
        text[i] ^= 1;
        yard_write(yard, NAME, view_of(text));
        assert_int_equal(fold(yard, 2, &report, NEW), HF_CORRUPT);
        assert_non_null(strstr(yard->error.why, NAME));
        char *after = yard_read(yard, NAME);
        assert_string_equal(text, after);
        free(after);
        text[i] ^= 1;
    }
    free(text);
}

static void without_memory_nothing_is_changed(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    assert_status(HF_OK, fold(yard, 1, &report, OLD, "b|1|2026-01-01T00:00:00Z"), &yard->error);
    char *before = yard_read(yard, NAME);
    struct record records[2];
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    static const char *const texts[2] = { "a" US "new" US "2026-01-02T00:00:00Z",
                                          "c" US "new" US "2026-01-02T00:00:00Z" };
    for (int i = 0; i < 2; i++)
        assert_status(HF_OK,
                      record_read(&yard->index->schema, view_of(texts[i]), &space, &records[i],
                                  NULL, &yard->error),
                      &yard->error);
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        enum hf_status status =
            index_fold(yard->index, 1, &(struct shard_records){ SHARD, records, 2 }, &report,
                       &yard->error);
        if (!alloc_stop()) {
            assert_status(HF_OK, status, &yard->error);
            break;
        }
        assert_status(HF_UNAVAILABLE, status, &yard->error);
        char *after = yard_read(yard, NAME);
        assert_string_equal(before, after);
        free(after);
    }
    assert_report(&report, 2, 1, 1, 0, 3);
    free(before);
    buffer_release(&space);
}

/* ---- What it costs ------------------------------------------------------------------- */

static void fold_many(struct yard *yard, size_t from, size_t count, size_t step,
                      struct fold_report *ret_report)
{
    struct record *records = calloc(count, sizeof *records);
    char(*texts)[112] = calloc(count, sizeof *texts);
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    assert_non_null(records);
    assert_non_null(texts);
    for (size_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof *texts, "key%08zu" US "%067zu" US "2026-01-%02dT00:00:00Z",
                 from + i * step, i, step > 1 ? 2 : 1);
        assert_status(HF_OK,
                      record_read(&yard->index->schema, view_of(texts[i]), &space, &records[i],
                                  NULL, &yard->error),
                      &yard->error);
    }
    assert_status(HF_OK,
                  index_fold(yard->index, 1, &(struct shard_records){ SHARD, records, count },
                             ret_report, &yard->error),
                  &yard->error);
    buffer_release(&space);
    free(texts);
    free(records);
}

static void a_fold_is_a_get_and_a_put(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    fold_many(yard, 0, 5000, 1, &report);
    meter_reset(&yard->meter);
    fold_many(yard, 2, 1000, 6, &report);
    assert_report(&report, 1000, 1000 - 833, 833, 0, 5000 + 1000 - 833);
    assert_int_equal(yard_calls(yard, CALL_GET), 1);
    assert_int_equal(yard_calls(yard, CALL_PUT), 1);
}

static void a_large_shard_is_folded_through_a_file(void **state)
{
    struct yard *yard = *state;
    struct fold_report report;
    fold_many(yard, 0, 80000, 1, &report);
    assert_true(report.bytes > OBJECT_WRITER_MEMORY);
    meter_reset(&yard->meter);
    fold_many(yard, 1, 10, 7919, &report);
    assert_report(&report, 10, 0, 10, 0, 80000);
    assert_in_range(yard_calls(yard, CALL_GET), report.bytes / MIB, report.bytes / MIB + 3);
    assert_int_equal(yard_calls(yard, CALL_PUT), 0);
    assert_int_equal(yard_calls(yard, CALL_PUT_FILE), 1);
    char *text = shown(yard);
    assert_int_equal(strlen(text), report.records * 101);
    for (size_t i = 0; i < 80000; i++) {
        char expected[128];
        bool later = i % 7919 == 1 && i / 7919 < 10;
        snprintf(expected, sizeof expected, "key%08zu|%067zu|2026-01-%02dT00:00:00Z\n", i,
                 later ? i / 7919 : i, later ? 2 : 1);
        assert_memory_equal(text + i * 101, expected, 101);
    }
    free(text);
}

#define FOLD(sentence, function)                        \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        FOLD("the first fold makes the shard", the_first_fold_makes_the_shard),
        FOLD("of one key the latest stays, by time, in whatever zone", the_latest_stays),
        FOLD("of one time the greatest bytes stay", ties_go_by_bytes),
        FOLD("folding again changes no record, and writes all the same",
             folding_again_changes_nothing_and_writes),
        FOLD("many folds agree with a table", many_folds_agree_with_a_table),
        FOLD("a lower token than the shard's is fenced", a_lower_token_is_fenced),
        FOLD("a shard that another wrote, made or deleted meanwhile is a conflict",
             a_lost_swap_is_a_conflict),
        FOLD("a put without an answer is settled by its nonce, or sent again",
             a_put_without_answer_is_settled),
        FOLD("what cannot be settled is unsure", what_cannot_be_settled_is_unsure),
        FOLD("what was refused is not done", what_was_refused_is_not_done),
        IT("under faults what was told as done is there", under_faults_what_is_done_stays),
        FOLD("a damaged shard is left alone", a_damaged_shard_is_left_alone),
        FOLD("without memory nothing is changed", without_memory_nothing_is_changed),
        FOLD("a fold into a shard below 1 MiB is a get and a put", a_fold_is_a_get_and_a_put),
        FOLD("a large shard is folded through a file", a_large_shard_is_folded_through_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
