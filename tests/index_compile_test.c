/* SPDX-License-Identifier: Apache-2.0 */
/* index_compile_test.c KIND: compiling shards under their locks: the cost, the obstacles, and
 * what is left. KIND is mem or sqlite. */
#include "base/check.h"
#include "index/read.h"
#include "index_scene.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- One shard ----------------------------------------------------------------------- */

static void a_shard_is_compiled(void **state)
{
    struct scene *scene = *state;
    meter_reset(&scene->yard.meter);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_NOTHING);
    /* Nobody locks for nothing. */
    assert_int_equal(yard_calls(&scene->yard, CALL_PUT), 0);
    assert_int_equal(yard_calls(&scene->yard, CALL_LIST), 1);
    crew_fill(&scene->other, "a3", "k", 0, 30, "v");
    crew_fill(&scene->other, "a3", "k", 20, 30, "w");
    report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.entries, 60);
    assert_int_equal(report.folds, 1);
    assert_int_equal(report.fold.records_new, 50);
    assert_int_equal(report.fold.superseded, 10);
    assert_int_equal(report.clear.deleted, 60);
    assert_int_equal(report.clear.left, 0);
    assert_int_equal(report.why.status, HF_OK);
    uint64_t token = report.token;
    crew_fill(&scene->other, "a3", "k", 50, 1, "v");
    report = crew_compile_shard(&scene->other, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.fold.records, 51);
    assert_true(report.token > token);
    assert_int_equal(scene_waiting(scene, A3), 0);
    assert_int_equal(scene_keys(scene), 51);
}

static void only_that_shard_is_listed(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a2", "k", 0, 5, "v");
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    crew_fill(&scene->other, "a4", "k", 0, 5, "v");
    /* The first lock of a shard looks whether there is one. */
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    crew_fill(&scene->other, "a3", "k", 5, 5, "v");
    buffer_clear(&scene->listed);
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    assert_string_equal(buffer_text(&scene->listed), "indexes/domains/inbox/a3/ ");
    assert_int_equal(scene_waiting(scene, (struct shard_id){ "a2" }), 5);
}

static void requests_are_few(void **state)
{
    struct scene *scene = *state;
    static const size_t sizes[] = { 100, 1000, 2500 };
    size_t first = 0;
    crew_fill(&scene->other, "a3", "k", first++, 1, "v");
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    for (size_t i = 0; i < 3; i++) {
        struct meter_counts kinds[CALL_KIND_COUNT];
        uint64_t calls = 0;
        crew_fill(&scene->other, "a3", "k", first, sizes[i], "v");
        first += sizes[i];
        meter_reset(&scene->yard.meter);
        assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
        meter_read(&scene->yard.meter, kinds);
        for (enum call_kind kind = 0; kind < CALL_KIND_COUNT; kind++)
            calls += kinds[kind].calls;
        uint64_t batched = calls - kinds[CALL_DELETE].calls + kinds[CALL_DELETE].batches;
        double n = (double)sizes[i];
        print_message("# %zu entries: %.3f requests a record, %.3f with batched deletes\n",
                      sizes[i], (double)calls / n, (double)batched / n);
        assert_true((double)calls <= 2.1 * n);
        assert_true((double)batched <= 1.1 * n);
        /* Entries, the shard; lock, shard, release; listing; entries. A plain shard has a sidecar,
         * and is read again. */
        uint64_t pages = (sizes[i] + 999) / 1000;
        assert_true(kinds[CALL_GET].calls <= sizes[i] + (yard_is_plain() ? 7 : 3));
        assert_int_equal(kinds[CALL_PUT].calls + kinds[CALL_PUT_FILE].calls,
                         3 + yard_is_plain());
        assert_int_equal(kinds[CALL_LIST].calls, pages);
        assert_int_equal(kinds[CALL_DELETE].calls, sizes[i]);
        assert_int_equal(kinds[CALL_DELETE].batches, pages);
    }
    assert_int_equal(scene_keys(scene), first);
}

static void batches_are_bounded(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct compile_report report;
    crew_fill(&scene->other, "a3", "k", 0, 95, "v");
    options.batch_entries = 10;
    compile_shard(scene->crew.index, &options, A3, NULL, 0, &report);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.folds, 10);
    assert_int_equal(report.clear.deleted, 95);
    crew_fill(&scene->other, "a3", "k", 100, 95, "v");
    options = COMPILE_OPTIONS;
    options.batch_bytes = 1000;
    compile_shard(scene->crew.index, &options, A3, NULL, 0, &report);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_true(report.folds > 2 && report.folds < 20);
    assert_int_equal(report.fold.records, 190);
    assert_int_equal(scene_waiting(scene, A3), 0);
}

/* ---- Others -------------------------------------------------------------------------- */

/* What cannot be read is in memory as well as what can. */
static void a_batch_is_bounded_by_bytes(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct compile_report report;
    char *body = malloc(100 * KIB), name[128];
    assert_non_null(body);
    memset(body, 'x', 100 * KIB);
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "inbox/a3/example.com~20260206T1000%02u-%032u.usv", i, i);
        yard_write(&scene->yard, name, (struct view){ body, 100 * KIB });
    }
    options.batch_bytes = 300 * KIB;
    meter_reset(&scene->yard.meter);
    compile_shard(scene->crew.index, &options, A3, NULL, 0, &report);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.aside, 20);
    /* Each is read once to be judged and once to be copied; the first lock makes the epoch. */
    assert_in_range(yard_batches(&scene->yard, CALL_GET), 20 + 20 / 3, 20 + 20 + 6);
    free(body);
}

static void a_held_shard_is_left(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock;
    assert_status(
        HF_OK, hf_lock_new(scene->other.client, "shard:domains/a3", NULL, &lock, &scene->error),
        &scene->error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    crew_fill(&scene->other, "a4", "k", 0, 5, "v");
    buffer_clear(&scene->listed);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_HELD);
    assert_int_equal(report.why.status, HF_HELD);
    assert_int_equal(report.entries, 0);
    struct hf_index_compile_report totals = crew_compile(&scene->crew);
    assert_int_equal(totals.shards_held, 1);
    assert_int_equal(totals.shards_done, 1);
    assert_int_equal(scene_waiting(scene, A3), 5);
    hf_lock_release(lock, &scene->error);
    hf_lock_free(lock);
    totals = crew_compile(&scene->crew);
    assert_int_equal(totals.shards_done, 1);
    assert_int_equal(scene_waiting(scene, A3), 0);
}

static void a_dead_holder_is_waited_for(void **state)
{
    struct scene *scene = *state;
    struct hf_lock *lock;
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    how.ttl_ms = 300;
    how.no_renewal = true;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    assert_status(
        HF_OK, hf_lock_new(scene->other.client, "shard:domains/a3", &how, &lock, &scene->error),
        &scene->error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    options.once = true;
    options.shard = A3;
    assert_status(HF_HELD, index_compile(scene->crew.index, &options, &totals, &scene->error),
                  &scene->error);
    options.wait = SPAN_S(20);
    options.poll = SPAN_MS(20);
    assert_status(HF_OK, index_compile(scene->crew.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_int_equal(totals.shards_held, 0);
    assert_int_equal(totals.shards_done, 1);
    hf_lock_detach(lock);
}

/* The disk is full: no shard can be put, and nobody tries them all. */
static void a_store_that_fails_is_left_alone(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    const char *const shards[] = { "00", "11", "22", "33", "44", "55", "66", "77" };
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        crew_fill(&scene->other, shards[i], "k", 0, 1, "v");
        /* Locks are there and warm, so that the shard's put is what fails. */
        crew_compile_shard(&scene->crew, (struct shard_id){ { shards[i][0], shards[i][1] } });
        crew_fill(&scene->other, shards[i], "k", 1, 1, "v");
    }
    options.once = true;
    script_rule(&scene->gate, .on = ON_PUT, .part = ".usv", .fate = REFUSE(HF_UNAVAILABLE));
    assert_int_not_equal(index_compile(scene->crew.index, &options, &totals, &scene->error),
                         HF_OK);
    assert_int_equal(totals.shards_failed, 3);
    assert_int_equal(totals.shards_done, 0);
}

/* Somebody with this token writes the shard, past its lock. */
static void write_shard(struct scene *scene, uint64_t token)
{
    struct record record;
    struct buffer space = BUFFER_INIT(1024);
    struct fold_report report;
    struct index *index = scene->other.index;
    assert_status(HF_OK,
                  record_read(&index->schema,
                              VIEW("example.com" US "x" US "2026-02-06T10:00:00Z"), &space,
                              &record, NULL, &scene->error),
                  &scene->error);
    assert_status(HF_OK,
                  index_fold(index, token, &(struct shard_records){ A3, &record, 1 }, &report,
                             &scene->error),
                  &scene->error);
    buffer_release(&space);
}

#define LATER_TOKEN (UINT64_C(1) << 40)

static void write_with_a_later_token(struct scene *scene)
{
    write_shard(scene, LATER_TOKEN);
}

/* As a later holder, after somebody has broken our lock. */
static void take_over(void *argument)
{
    struct scene *scene = argument;
    struct delete_call removal = { .key = VIEW("indexes/domains/shards/a3.lock") };
    assert_status(HF_OK, store_delete(scene->yard.store.inner, &removal), &removal.error);
    write_with_a_later_token(scene);
}

static void write_with_any_token(void *argument)
{
    struct scene *scene = argument;
    write_shard(scene, 1);
}

static void a_lost_shard_keeps_its_entries(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    /* Just before our put: CONFLICT. */
    scene_happens(scene, CALL_PUT, "shards/a3.usv", write_with_any_token);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_int_equal(report.why.status, HF_CONFLICT);
    assert_int_equal(report.clear.deleted, 0);
    assert_int_equal(scene_waiting(scene, A3), 5);
    /* Before we read it, by who has the lock now: FENCED. */
    scene_happens(scene, CALL_GET, "shards/a3.usv", take_over);
    report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_int_equal(report.why.status, HF_FENCED);
    assert_int_equal(scene_waiting(scene, A3), 5);
    assert_int_equal(scene_keys(scene), 6);
}

static void a_lock_behind_its_shard_stops_nobody(void **state)
{
    struct scene *scene = *state;
    write_with_a_later_token(scene);
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    for (unsigned i = 0; i < 2; i++) {
        struct compile_report report = crew_compile_shard(&scene->crew, A3);
        assert_int_equal(report.end, HF_INDEX_END_DONE);
        assert_true(report.token < LATER_TOKEN);
        struct shard_cursor cursor;
        assert_status(HF_OK,
                      shard_cursor_open(&cursor, scene->other.index, A3, SHARD_READ_SMALL,
                                        &scene->error),
                      &scene->error);
        assert_true(cursor.head.token >= LATER_TOKEN);
        shard_cursor_close(&cursor);
        crew_fill(&scene->other, "a3", "k", 5, 5, "v");
    }
}

static void try_the_lock(void *argument)
{
    struct scene *scene = argument;
    struct hf_lock *lock;
    struct hf_error error;
    assert_status(HF_OK,
                  hf_lock_new(scene->other.client, "shard:domains/a3", NULL, &lock, &error),
                  &error);
    assert_status(HF_HELD, hf_lock_acquire(lock, 0, &error), &error);
    hf_lock_free(lock);
}

static void nobody_enters_while_it_compiles(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    scene_happens(scene, CALL_GET, "inbox/a3/", try_the_lock);
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    assert_int_equal(script_met(&scene->gate, "happens"), 1);
}

static void one_that_is_lost_is_tried_again(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    scene_happens(scene, CALL_PUT, "shards/a3.usv", write_with_any_token);
    struct hf_index_compile_report totals = crew_compile(&scene->crew);
    assert_int_equal(totals.shards_lost, 1);
    assert_int_equal(totals.shards_done, 1);
    assert_int_equal(scene_waiting(scene, A3), 0);
    assert_int_equal(scene_keys(scene), 6);
}

/* ---- Bad input and trouble ----------------------------------------------------------- */

static void bad_entries_are_set_aside(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *name, *bytes;
    } bad[] = {
        { "inbox/a3/example.com~20260206T100000-00000000000000000000000000000001.usv", "junk" },
        { "inbox/a3/example.com~20260206T100000-00000000000000000000000000000002.usv",
          "example.com" US "\xff\xfe" US "2026-02-06T10:00:00Z\n" },
        { "inbox/a3/example.com~20260206T100000-00000000000000000000000000000003.usv",
          "example.com" US "v" US "2026-02-06T10:00:00Z" US "a" US "b\n" },
        { "inbox/a3/example.com~20260206T100000-00000000000000000000000000000004.usv",
          "other.com" US "v" US "2026-02-06T10:00:00Z\n" },
        { "inbox/a3/example.com~20260206T100000-00000000000000000000000000000005.usv",
          "example.com" US "v" US "2026-02-07T10:00:00Z\n" },
        { "inbox/a3/notes.txt", "what is this?" },
        { "inbox/readme", "nor this" },
        { "example.net.usv", "example.net" US "v" US "yesterday\n" },
    };
    const size_t count = sizeof bad / sizeof bad[0];
    char *large = malloc(2 * MIB + 1);
    assert_non_null(large);
    memset(large, 'x', 2 * MIB);
    large[2 * MIB] = '\0';
    for (size_t i = 0; i < count; i++)
        yard_write(&scene->yard, bad[i].name, view_of(bad[i].bytes));
    yard_write(&scene->yard, "inbox/a3/example.com.usv", view_of(large));
    free(large);
    crew_fill(&scene->other, "a3", "k", 0, 20, "v");
    struct hf_index_compile_report totals = crew_compile(&scene->crew);
    assert_int_equal(totals.folded.aside, count + 1);
    assert_int_equal(totals.folded.records_new, 20);
    assert_int_equal(totals.shards_failed, 0);
    assert_int_equal(yard_count(&scene->yard, "aside/"), 2 * (count + 1));
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_int_equal(scene_keys(scene), 20);
}

static void the_first_reason_is_told(void **state)
{
    struct scene *scene = *state;
    yard_write(&scene->yard, "inbox/a3/notes.txt", VIEW("what is this?"));
    crew_fill(&scene->other, "a3", "k", 0, 20, "v");
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.aside, 1);
    assert_non_null(strstr(report.first_aside, "notes.txt"));
    assert_int_equal(report.why.status, HF_OK);
}

static void refuse_a_put(void *argument)
{
    struct scene *scene = argument;
    yard_puts_meet(&scene->yard, REFUSE(HF_UNAVAILABLE));
}

static void a_copy_that_fails_leaves_the_entry(void **state)
{
    struct scene *scene = *state;
    yard_write(&scene->yard, "inbox/a3/notes.txt", VIEW("what is this?"));
    crew_fill(&scene->other, "a3", "k", 0, 20, "v");
    /* It is read to be copied. */
    scene_happens(scene, CALL_GET, "notes.txt", refuse_a_put);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_int_equal(report.why.status, HF_UNAVAILABLE);
    assert_int_equal(report.aside, 0);
    assert_int_equal(report.clear.deleted, 20);
    assert_int_equal(scene_waiting(scene, A3), 1);
    assert_int_equal(scene_keys(scene), 20);
}

static void lose_puts(void *argument)
{
    struct scene *scene = argument;
    script_rule(&scene->yard.store, .name = "puts", .on = ON_PUT, .times = 100, .fate = LOSE);
}

static void lose_a_reply(void *argument)
{
    struct scene *scene = argument;
    yard_puts_meet(&scene->yard, LOSE_REPLY);
}

static void a_shard_without_an_answer_keeps_its_entries(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    scene_happens(scene, CALL_GET, "shards/a3.usv", lose_puts);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    script_drop(&scene->yard.store, "puts");
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_int_equal(report.why.status, HF_UNSURE);
    assert_int_equal(scene_waiting(scene, A3), 5);
    assert_int_equal(scene_keys(scene), 5);
}

static void an_answer_that_is_lost_is_looked_for(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    scene_happens(scene, CALL_GET, "shards/a3.usv", lose_a_reply);
    assert_int_equal(crew_compile_shard(&scene->crew, A3).end, HF_INDEX_END_DONE);
    assert_int_equal(scene_waiting(scene, A3), 0);
    assert_int_equal(scene_keys(scene), 5);
}

static void what_is_not_cleared_is_folded_again(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    script_rule(&scene->yard.store, .on = ON_DELETE, .times = 2, .fate = LOSE);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.why.status, HF_UNSURE);
    assert_int_equal(report.clear.deleted, 3);
    assert_int_equal(report.clear.left, 2);
    report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.fold.superseded, 2);
    assert_int_equal(report.clear.deleted, 2);
    assert_int_equal(scene_waiting(scene, A3), 0);
    assert_int_equal(scene_keys(scene), 5);
}

static void a_damaged_shard_stops_only_itself(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    yard_write(&scene->yard, "shards/a3.usv", VIEW("{\"format\":\"something\"}\n"));
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    crew_fill(&scene->other, "a4", "k", 0, 5, "v");
    options.once = true;
    assert_status(HF_CORRUPT,
                  index_compile(scene->crew.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_non_null(strstr(scene->error.why, "shards/a3.usv"));
    assert_int_equal(totals.shards_failed, 1);
    assert_int_equal(totals.shards_done, 1);
    assert_int_equal(scene_waiting(scene, A3), 5);
}

static void options_are_judged(void **state)
{
    struct scene *scene = *state;
    struct compile_options wrong[4];
    for (size_t i = 0; i < 4; i++) {
        wrong[i] = COMPILE_OPTIONS;
        wrong[i].once = true;
    }
    wrong[0].ttl = SPAN_S(301);
    wrong[1].batch_entries = 0;
    wrong[2].batch_bytes = 0;
    wrong[3].shard = (struct shard_id){ "xyz" };
    for (size_t i = 0; i < 4; i++)
        assert_status(HF_INVALID,
                      index_compile(scene->crew.index, &wrong[i], NULL, &scene->error),
                      &scene->error);
}

/* ---- Entries of other programs ------------------------------------------------------- */

static void foreign_entries_are_folded(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    yard_write(&scene->yard, "example.com.usv",
               VIEW("example.com" US "a" US "2026-02-06T10:00:00Z\n"));
    yard_write(&scene->yard, "inbox/example.org.usv",
               VIEW("example.org" US "a" US "2026-02-06T10:00:00Z\n"));
    yard_write(&scene->yard, "inbox/a3/example.com.usv",
               VIEW("example.com" US "b" US "2026-02-06T10:00:00Z\n"));
    options.once = true;
    options.shard = A3;
    struct hf_index_compile_report totals;
    assert_status(HF_OK, index_compile(scene->crew.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_int_equal(totals.folded.records_new, 1);
    assert_int_equal(totals.folded.deleted, 2);
    totals = crew_compile(&scene->crew);
    assert_int_equal(totals.folded.deleted, 1);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_int_equal(scene_keys(scene), 2);
}

static void markers_are_no_work(void **state)
{
    struct scene *scene = *state;
    const struct compile_options options = COMPILE_OPTIONS;
    struct shard_id shard;
    bool few;
    /* A store that cannot delete by ETag. */
    scene->gate.base.traits.delete_conditional = false;
    yard_write(&scene->yard, "example.com.usv",
               VIEW("example.com" US "a" US "2026-02-06T10:00:00Z\n"));
    yard_write(&scene->yard, "inbox/a3/example.com.usv",
               VIEW("example.com" US "b" US "2026-02-06T10:00:00Z\n"));
    struct hf_index_compile_report totals = crew_compile(&scene->crew);
    assert_int_equal(totals.folded.marked, 2);
    assert_true(yard_has(&scene->yard, "example.com.usv"));
    assert_status(HF_NOT_FOUND,
                  compile_pick(scene->crew.index, &options, &shard, &few, &scene->error),
                  &scene->error);
    assert_int_equal(scene_keys(scene), 1);
}

/* ---- Which shard is next ------------------------------------------------------------- */

static void shards_are_picked_by_their_entries(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct shard_id shard;
    bool few;
    unsigned picked[3] = { 0 };
    assert_status(HF_NOT_FOUND,
                  compile_pick(scene->crew.index, &options, &shard, &few, &scene->error),
                  &scene->error);
    crew_fill(&scene->other, "10", "a", 0, 30, "v");
    crew_fill(&scene->other, "20", "b", 0, 3, "v");
    crew_fill(&scene->other, "f0", "c", 0, 30, "v");
    for (options.few = 63; options.few >= 62; options.few--) {
        memset(picked, 0, sizeof picked);
        for (int i = 0; i < 1500; i++) {
            assert_status(
                HF_OK, compile_pick(scene->crew.index, &options, &shard, &few, &scene->error),
                &scene->error);
            assert_true(few == (options.few == 63));
            picked[shard.text[0] == '1' ? 0 : shard.text[0] == '2' ? 1 : 2]++;
        }
        /* At random, but none is left out, and the small one comes seldom. */
        assert_true(picked[0] > 5 && picked[1] > 0 && picked[2] > 50);
        assert_true(picked[1] < 300);
    }
}

/* ---- Straight into shards ------------------------------------------------------------ */

static void records_go_straight_into_a_shard(void **state)
{
    struct scene *scene = *state;
    const struct compile_options options = COMPILE_OPTIONS;
    struct record records[2];
    struct buffer space = BUFFER_INIT(1024);
    struct fold_report report;
    struct hf_lock *lock;
    static const char *const texts[2] = { "example.com" US "b" US "2026-02-06T10:00:00Z",
                                          "example.com" US "a" US "2026-02-06T10:00:00Z" };
    for (size_t i = 0; i < 2; i++)
        assert_status(HF_OK,
                      record_read(&scene->crew.index->schema, view_of(texts[i]), &space,
                                  &records[i], NULL, &scene->error),
                      &scene->error);
    assert_status(
        HF_OK, hf_lock_new(scene->other.client, "shard:domains/a3", NULL, &lock, &scene->error),
        &scene->error);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    const struct span waits[2] = { SPAN_MS(0), SPAN_MS(50) };
    for (size_t i = 0; i < 2; i++)
        assert_status(HF_HELD,
                      compile_straight(scene->crew.index, &options,
                                       &(struct shard_records){ A3, records, 2 }, waits[i],
                                       &report, &scene->error),
                      &scene->error);
    assert_status(HF_OK, hf_lock_release(lock, &scene->error), &scene->error);
    hf_lock_free(lock);
    assert_status(HF_OK,
                  compile_straight(scene->crew.index, &options,
                                   &(struct shard_records){ A3, records, 2 }, SPAN_S(5),
                                   &report, &scene->error),
                  &scene->error);
    assert_int_equal(report.records_new, 1);
    assert_int_equal(report.superseded, 1);
    assert_int_equal(scene_keys(scene), 1);
    buffer_release(&space);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("entries of a shard are folded and cleared away", a_shard_is_compiled),
        COMPILES("compiling a shard lists that shard only", only_that_shard_is_listed),
        COMPILES("a record costs 2.1 requests at most, 1.1 where deletes go in batches",
                 requests_are_few),
        COMPILES("many entries are folded batch by batch, under one lock", batches_are_bounded),
        COMPILES("a batch is bounded by the bytes of all that is read, whatever it is",
                 a_batch_is_bounded_by_bytes),
        COMPILES("a shard that somebody else holds is left to them", a_held_shard_is_left),
        COMPILES("a pass waits for those who hold a shard, and takes over when they are dead",
                 a_dead_holder_is_waited_for),
        COMPILES("a store that fails at three shards in a row is asked for no more",
                 a_store_that_fails_is_left_alone),
        COMPILES("a shard that somebody else wrote is lost, and nothing is cleared",
                 a_lost_shard_keeps_its_entries),
        COMPILES(
            "a lock that lost count of its tokens stops nobody, and the shard's never fall",
            a_lock_behind_its_shard_stops_nobody),
        COMPILES("nobody else gets the lock while a shard is compiled",
                 nobody_enters_while_it_compiles),
        COMPILES("a shard that was lost is tried again in the same pass",
                 one_that_is_lost_is_tried_again),
        COMPILES("entries that cannot be read are set aside, and the rest goes on",
                 bad_entries_are_set_aside),
        COMPILES("the first that is set aside is told with its reason",
                 the_first_reason_is_told),
        COMPILES("an entry whose copy fails stays, and the rest goes on",
                 a_copy_that_fails_leaves_the_entry),
        COMPILES("a shard that is put without an answer keeps its entries",
                 a_shard_without_an_answer_keeps_its_entries),
        COMPILES("an answer that is lost is looked for, and then entries are cleared",
                 an_answer_that_is_lost_is_looked_for),
        COMPILES("an entry that could not be cleared is folded again, and cleared then",
                 what_is_not_cleared_is_folded_again),
        COMPILES("a damaged shard fails, keeps its entries, and the others are done",
                 a_damaged_shard_stops_only_itself),
        COMPILES("options that make no sense are refused", options_are_judged),
        COMPILES("entries of other programs are folded wherever they stand",
                 foreign_entries_are_folded),
        COMPILES("markers are no work for anybody", markers_are_no_work),
        COMPILES("shards are picked at random, likelier the more entries they have",
                 shards_are_picked_by_their_entries),
        COMPILES("records go straight into a shard, under its lock",
                 records_go_straight_into_a_shard),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
