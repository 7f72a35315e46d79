/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_again_test.c: a file is ingested only once: when it is ingested again, by several
 * clients at once, after its chunk was merged, after a split, or after replies were lost. Also
 * how equal files are distinguished. */
#include "catalog_tree_kit.h"
#include "scripted_store.h"

#include "compact/work/ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 24
#define CROWD     4

/* A bucket, those who ingest there, and files. */
struct stage {
    struct ground ground;
    char paths[FILES_MAX][512];
    size_t count;
    void (*hook)(struct stage *stage);
    size_t calls, hook_at;
};

/* What one of them asks for, and is told. */
struct asking {
    struct stage *stage;
    struct bed *bed;
    struct view id;
    struct ingest_file files[FILES_MAX];
    struct hf_error error;
};

/* Files without a time in them. */
static struct compact_settings lines(void)
{
    struct compact_settings settings = some_settings();
    settings.format = HF_MERGE_CONCAT;
    settings.key = settings.time = (struct view){ NULL, 0 };
    return settings;
}

static void stage_open(struct stage *stage, void **state, const struct fault_plan *plan,
                       struct compact_settings settings)
{
    *stage = (struct stage){ .count = 0 };
    ground_open(&stage->ground, *state, plan, CROWD + 1);
    ground_create_with(&stage->ground, settings);
}

static void add_file(struct stage *stage, const char *name, const char *text)
{
    char *path = stage->paths[stage->count++];
    snprintf(path, sizeof stage->paths[0], "%s/%s", stage->ground.dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Each of another hour. */
static void add_files(struct stage *stage, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "file%zu", i);
        snprintf(text, sizeof text, "a%zu\x1f%lld\n", i,
                 (long long)SOME_HOUR / 1000 + (long long)i * 3600);
        add_file(stage, name, text);
    }
}

static bool go_on(void *argument, size_t files_done, uint64_t bytes_done)
{
    struct stage *stage = argument;
    (void)files_done, (void)bytes_done;
    if (stage->hook && ++stage->calls == stage->hook_at)
        stage->hook(stage);
    return true;
}

static enum hf_status ask(struct asking *asking)
{
    struct ingest_options options = { .writer = VIEW("w"),
                                      .id = asking->id,
                                      .patience = SPAN_S(2),
                                      .go_on = go_on,
                                      .argument = asking->stage };
    for (size_t i = 0; i < asking->stage->count; i++)
        asking->files[i] = (struct ingest_file){ .path = asking->stage->paths[i] };
    return ingest_files(asking->bed->tree, asking->files, asking->stage->count, &options,
                        &asking->error);
}

/* All files, by one of them; how many were there already. */
static size_t ingest_all(struct stage *stage, size_t bed)
{
    struct asking asking = { .stage = stage, .bed = &stage->ground.beds[bed] };
    size_t already = 0;
    assert_status(HF_OK, ask(&asking), &asking.error);
    for (size_t i = 0; i < stage->count; i++) {
        assert_int_equal(asking.files[i].error.status, HF_OK);
        assert_true(asking.files[i].already == (asking.files[i].key[0] == '\0'));
        already += asking.files[i].already;
    }
    return already;
}

static void assert_live(struct stage *stage, size_t live, size_t dead)
{
    assert_listed(&stage->ground.beds[CROWD], live, dead);
}

/* ---- Again --------------------------------------------------------------------------- */

static void a_file_that_is_ingested_again_is_already_there(void **state)
{
    struct stage stage;
    struct meter_counts counts[CALL_KIND_COUNT];
    stage_open(&stage, state, NULL, settings_by_time());
    add_files(&stage, 5);
    assert_int_equal(ingest_all(&stage, 0), 0);
    meter_reset(&stage.ground.meter);
    assert_int_equal(ingest_all(&stage, 0), 5);
    assert_int_equal(ingest_all(&stage, 1), 5);
    meter_read(&stage.ground.meter, counts);
    assert_int_equal(counts[CALL_PUT_FILE].calls, 0); /* nothing is put in vain */
    assert_int_equal(counts[CALL_PUT].calls, 0);
    assert_live(&stage, 5, 0);
    assert_int_equal(count_objects(&stage.ground, "data/"), 5);
    ground_close(&stage.ground);
}

static void equal_files_of_one_request_come_in_once(void **state)
{
    struct stage stage;
    stage_open(&stage, state, NULL, lines());
    add_file(&stage, "a", "beat\n");
    add_file(&stage, "b", "beat\n");
    add_file(&stage, "c", "other\n");
    assert_int_equal(ingest_all(&stage, 0), 1);
    assert_live(&stage, 2, 0);
    ground_close(&stage.ground);
}

static void ingest_by_other(struct stage *stage)
{
    stage->hook = NULL;
    assert_int_equal(ingest_all(stage, 1), 0);
}

static void of_two_who_put_the_same_file_one_adds_it(void **state)
{
    struct stage stage;
    stage_open(&stage, state, NULL, settings_by_time());
    add_files(&stage, 6);
    stage.hook = ingest_by_other;
    stage.hook_at = 6 + 2 * 3; /* some are put, none is added */
    assert_int_equal(ingest_all(&stage, 0), 6);
    assert_live(&stage, 6, 6); /* what was put in vain is condemned */
    ground_close(&stage.ground);
}

static void merge_first_two(struct stage *stage)
{
    struct asking asking = { .stage = stage, .bed = &stage->ground.beds[2] };
    assert_status(HF_OK, ask(&asking), &asking.error);
    struct view sources[2] = { view_of(asking.files[0].key), view_of(asking.files[1].key) };
    commit_merge(asking.bed, sources, 2);
}

static void a_file_whose_chunk_was_merged_is_still_known(void **state)
{
    struct stage stage;
    struct compact_settings settings = settings_by_time();
    settings.grace_ms = 0;
    settings.skew_tolerance_ms = 0;
    stage_open(&stage, state, NULL, settings);
    add_files(&stage, 3);
    merge_first_two(&stage);
    assert_int_equal(ingest_all(&stage, 0), 3);
    assert_live(&stage, 2, 2);
    struct catalog_op op = { .kind = CATALOG_MAINTAIN };
    struct catalog_ref *ref = slot_of(&stage.ground.beds[2], NULL);
    for (int i = 0; i < 100 && op.moved == 0; i++) {
        env_sleep(env_real(), SPAN_MS(20));
        assert_status(HF_OK, catalog_ref_apply(ref, &op, (struct mono_time){ 0 }), &op.error);
    }
    assert_int_equal(op.moved, 2);
    assert_int_equal(ingest_all(&stage, 0), 3);
    assert_live(&stage, 2, 2);
    ground_close(&stage.ground);
}

/* ---- Splits -------------------------------------------------------------------------- */

static void split_all(struct stage *stage)
{
    struct bed *bed = &stage->ground.beds[2];
    struct census census;
    tree_listing_take(bed, &census);
    for (const struct counted *at = map_seek(&census.keys, VIEW(""), false); at;
         at = map_seek(&census.keys, view_of(at->key), true))
        if (at->state == CHUNK_LIVE)
            assert_status(HF_OK, catalog_ref_split(slot_of(bed, at->partition), &bed->error),
                          &bed->error);
    tree_listing_release(&census);
}

static void a_split_forgets_no_file(void **state)
{
    struct compact_settings all[] = { settings_by_time(), lines() };
    for (size_t i = 0; i < 2; i++) {
        struct stage stage;
        stage_open(&stage, state, NULL, all[i]);
        add_files(&stage, 8);
        assert_int_equal(ingest_all(&stage, 0), 0);
        split_all(&stage);
        assert_int_equal(ingest_all(&stage, 0), 8); /* who has seen it before the split, ... */
        assert_int_equal(ingest_all(&stage, 1), 8); /* ... and who has not */
        add_file(&stage, "more",
                 "z\x1f"
                 "1763200800\n");
        assert_int_equal(ingest_all(&stage, 0), 8);
        split_all(&stage);
        assert_int_equal(ingest_all(&stage, 1), 9);
        assert_int_equal(ingest_all(&stage, 3), 9);
        assert_live(&stage, 9, 0);
        ground_close(&stage.ground);
    }
}

/* ---- Equal files that are meant ------------------------------------------------------ */

static enum hf_status ingest_as(struct stage *stage, struct view id, bool *ret_already)
{
    struct asking asking = { .stage = stage, .bed = &stage->ground.beds[0], .id = id };
    enum hf_status status = ask(&asking);
    *ret_already = asking.files[0].already;
    return status;
}

static void an_id_takes_the_place_of_the_bytes(void **state)
{
    struct stage stage;
    bool already;
    stage_open(&stage, state, NULL, lines());
    add_file(&stage, "beat", "beat\n");
    assert_int_equal(ingest_as(&stage, VIEW("monday"), &already), HF_OK);
    assert_false(already);
    assert_int_equal(ingest_as(&stage, VIEW("tuesday"), &already), HF_OK);
    assert_false(already);
    assert_int_equal(ingest_as(&stage, VIEW(""), &already), HF_OK);
    assert_false(already);
    assert_int_equal(ingest_as(&stage, VIEW("monday"), &already), HF_OK);
    assert_true(already);
    assert_live(&stage, 3, 0);
    split_all(&stage);
    stage.count = 0;
    add_file(&stage, "later", "other bytes\n");
    assert_int_equal(ingest_as(&stage, VIEW("tuesday"), &already), HF_OK);
    assert_true(already);
    add_file(&stage, "second", "more\n");
    assert_int_equal(ingest_as(&stage, VIEW("friday"), &already), HF_INVALID);
    assert_live(&stage, 3, 0);
    ground_close(&stage.ground);
}

/* ---- Many at once, and answers that are lost ----------------------------------------- */

static void ingest_until_done(void *argument)
{
    struct asking *asking = argument;
    enum hf_status status = HF_UNAVAILABLE;
    for (int tries = 0; tries < 200 && status != HF_OK; tries++)
        status = ask(asking);
    assert_status(HF_OK, status, &asking->error);
}

static void crowd(void **state, const struct fault_plan *plan)
{
    struct stage stage;
    struct env_task *tasks[CROWD];
    struct asking *asking = calloc(CROWD, sizeof *asking);
    struct hf_error error;
    assert_non_null(asking);
    stage_open(&stage, state, plan, settings_by_time());
    add_files(&stage, 12);
    for (size_t i = 0; i < CROWD; i++) {
        asking[i] = (struct asking){ .stage = &stage, .bed = &stage.ground.beds[i] };
        assert_status(
            HF_OK, env_task_start(env_real(), ingest_until_done, &asking[i], &tasks[i], &error),
            &error);
    }
    for (int i = 0; i < 3; i++) {
        env_sleep(env_real(), SPAN_MS(5));
        catalog_ref_split(slot_of(&stage.ground.beds[CROWD], NULL), &error);
    }
    for (size_t i = 0; i < CROWD; i++)
        env_task_join(env_real(), tasks[i]);
    if (plan)
        store_fault_calm(stage.ground.store);
    struct census census;
    tree_listing_take(&stage.ground.beds[CROWD], &census);
    assert_int_equal(census.live, 12);
    tree_listing_release(&census);
    ground_close(&stage.ground);
    free(asking);
}

static void many_at_once_add_each_file_once(void **state)
{
    crowd(state, NULL);
}

static void with_answers_lost_whoever_asks_again_adds_no_file_twice(void **state)
{
    const uint64_t seeds = strcmp(*state, "mem") == 0 ? 6 : 2;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const struct fault_plan plan = { .seed = seed,
                                         .refuse = 50000,
                                         .lose = 100000,
                                         .lose_reply = 200000,
                                         .late = 50000,
                                         .late_max = SPAN_MS(5) };
        crowd(state, &plan);
    }
}

/* ---- A store that is gone ------------------------------------------------------------ */

/* From the first file on that is put nothing is answered; counts these. */
static struct fate be_gone(void *argument, struct script_call *call)
{
    size_t *puts = argument;
    *puts += call->kind == CALL_PUT_FILE;
    return *puts > 0 ? LOSE : PASS;
}

static void a_store_that_is_gone_is_not_asked_anew_for_each_file(void **state)
{
    struct stage stage;
    struct bed bed;
    struct script script;
    size_t puts = 0;
    stage_open(&stage, state, NULL, settings_by_time());
    add_files(&stage, FILES_MAX);
    script_init(&script, stage.ground.store);
    script.ops.change = NULL;
    bed_open(&bed, &script.base);
    script_rule(&script, .on = ON_GET | ON_PUT | ON_PUT_FILE, .decide = be_gone,
                .argument = &puts);
    struct asking asking = { .stage = &stage, .bed = &bed };
    struct ingest_options options = { .writer = VIEW("w"), .patience = SPAN_MS(100) };
    for (size_t i = 0; i < FILES_MAX; i++)
        asking.files[i] = (struct ingest_file){ .path = stage.paths[i] };
    assert_status(HF_UNAVAILABLE,
                  ingest_files(bed.tree, asking.files, FILES_MAX, &options, &asking.error),
                  &asking.error);
    for (size_t i = 0; i < FILES_MAX; i++)
        assert_int_equal(asking.files[i].error.status, HF_UNAVAILABLE);
    assert_in_range(puts, 2, 6); /* of one file */
    bed_close(&bed);
    store_close(&script.base);
    assert_live(&stage, 0, 0);
    assert_int_equal(ingest_all(&stage, 0), 0);
    assert_live(&stage, FILES_MAX, 0);
    ground_close(&stage.ground);
}

#define BOTH(name, function)                                                \
    { "mem: " name, function, NULL, NULL, (void *)(uintptr_t) "mem" },      \
    {                                                                       \
        "sqlite: " name, function, NULL, NULL, (void *)(uintptr_t) "sqlite" \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH("a file that is ingested again is already there",
             a_file_that_is_ingested_again_is_already_there),
        BOTH("equal files of one request come in once",
             equal_files_of_one_request_come_in_once),
        BOTH("of two who put the same file one adds it",
             of_two_who_put_the_same_file_one_adds_it),
        BOTH("a file whose chunk was merged is still known",
             a_file_whose_chunk_was_merged_is_still_known),
        BOTH("a split forgets no file", a_split_forgets_no_file),
        BOTH("an id takes the place of the bytes", an_id_takes_the_place_of_the_bytes),
        BOTH("many at once add each file once", many_at_once_add_each_file_once),
        BOTH("with answers lost, whoever asks again adds no file twice",
             with_answers_lost_whoever_asks_again_adds_no_file_twice),
        BOTH("a store that is gone is not asked anew for each file",
             a_store_that_is_gone_is_not_asked_anew_for_each_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
