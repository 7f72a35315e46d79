/* SPDX-License-Identifier: Apache-2.0 */
/* index_delete_test.c KIND: keys are deleted by records that win or lose by their times. Deletions
 * stay in their shards until it is proven that they have been there for long enough, and then
 * raise the floor. KIND is mem or sqlite, and then plain if shards are to be plain. */
#include "index/manifest.h"
#include "index/read.h"
#include "index_scene.h"
#include "lock/client_inside.h"

#include <stdio.h>
#include <stdlib.h>

static void compile(void *argument)
{
    struct scene *scene = argument;
    crew_compile(&scene->other);
}

/* Compiles a3 with D of this many milliseconds; deletions are kept for twice as long, or three
 * times if shards are plain. */
static struct compile_report compile_with_d(struct scene *scene, int64_t d_ms)
{
    struct compile_options options = COMPILE_OPTIONS;
    struct compile_report report;
    options.keep_deleted = SPAN_MS(2 * d_ms);
    scene->other.client->space.settings.late_bound = SPAN_MS(d_ms);
    compile_shard(scene->other.index, &options, A3, NULL, 0, &report);
    scene->other.client->space.settings.late_bound = lease_settings_default().late_bound;
    return report;
}

/* A plain shard must be written within half of D, on a machine that is busy. */
#define LONG_D 3600000
#define D      (yard_is_plain() ? 600 : 20)

static void wait_for_2d(void)
{
    env_sleep(env_real(), SPAN_MS((yard_is_plain() ? 5 : 4) * D + 1));
}

/* ---- Which wins ---------------------------------------------------------------------- */

static void a_deletion_wins_by_time(void **state)
{
    static const char *const puts[] = { AT("example.com", "old", "09"),
                                        AT("example.com", "new", "11") };
    (void)state;
    /* Each order of arrival, folded after none, one or both. */
    for (unsigned i = 0; i < 2 * 2 * 3; i++) {
        void *own;
        scene_set_up(&own);
        struct scene *scene = own;
        bool deletes_first = i & 1, newer = i & 2;
        for (unsigned step = 0; step < 2; step++) {
            if ((step == 0) == deletes_first)
                scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
            else
                yard_put(&scene->yard, puts[newer]);
            if (step < i / 4)
                compile(scene);
        }
        assert_string_equal(scene_value(scene, "example.com"), newer ? "new" : "");
        assert_int_equal(scene_keys(scene), newer);
        compile(scene);
        assert_string_equal(scene_value(scene, "example.com"), newer ? "new" : "");
        assert_int_equal(scene_keys(scene), newer);
        assert_int_equal(scene_head(scene).deleted, !newer);
        assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
        scene_tear_down(&own);
    }
}

static void a_deletion_changes_the_format_first(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    compile(scene);
    char *text = yard_read(&scene->yard, "index.json");
    assert_non_null(strstr(text, yard_is_plain() ? "holdfast.index/2" : "holdfast.index/1"));
    assert_null(strstr(text, "\"deletes\""));
    free(text);
    /* If index.json cannot be changed, no deletion is put. */
    struct view key = VIEW("example.com");
    size_t bad;
    script_rule(&scene->gate, .name = "no", .on = ON_PUT, .part = "index.json",
                .fate = REFUSE(HF_DENIED));
    assert_true(index_delete(scene->crew.index, &key, 1, VIEW("2026-02-06T10:00:00Z"), &bad,
                             &scene->error) != HF_OK);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    scene_delete(scene, "example.com", NULL);
    text = yard_read(&scene->yard, "index.json");
    assert_non_null(strstr(text, "holdfast.index/2"));
    assert_non_null(strstr(text, "\"deletes\":true"));
    free(text);
    compile(scene);
    text = yard_read(&scene->yard, yard_is_plain() ? "shards/a3.json" : "shards/a3.usv");
    assert_non_null(strstr(text, yard_is_plain() ? "holdfast.plain/1" : "holdfast.shard/2"));
    free(text);
    /* A handle from before finds out by itself. */
    assert_false(scene->crew.index->schema.deletes);
    assert_string_equal(scene_value(scene, "example.com"), "");
    assert_true(scene->crew.index->schema.deletes);
}

/* ---- Dropping ------------------------------------------------------------------------ */

static void deletions_are_dropped_later(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "old", "09"));
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    struct compile_report report = compile_with_d(scene, D);
    assert_int_equal(report.fold.deleted, 1);
    struct shard_head head = scene_head(scene);
    assert_true(head.sealed && !head.has_floor && head.deleted == 1);
    assert_int_equal(head.sealed_to.s, 1770372000);
    wait_for_2d();
    /* With a longer D it is too early; and what is folded meanwhile changes nothing. */
    yard_put(&scene->yard, AT("example.com", "late", "08"));
    report = compile_with_d(scene, LONG_D);
    assert_int_equal(report.fold.superseded, 1);
    assert_int_equal(scene_head(scene).deleted, 1);
    yard_put(&scene->yard, AT("example.com", "later", "07"));
    report = compile_with_d(scene, D);
    assert_int_equal(report.fold.dropped, 1);
    head = scene_head(scene);
    assert_int_equal(head.records, 0);
    assert_true(head.has_floor && !head.sealed);
    assert_int_equal(head.floor.s, 1770372000);
    assert_string_equal(scene_value(scene, "example.com"), "");
}

/* Entries of other programs outside any folder, in several batches: an old record among them is
 * superseded by the deletion that is still there, and is not set aside. */
static void no_deletion_is_dropped_before_the_last_batch(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = COMPILE_OPTIONS;
    struct compile_report report;
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile_with_d(scene, D);
    wait_for_2d();
    yard_write(&scene->yard, "example.com.usv", VIEW(AT("example.com", "old", "08") "\n"));
    yard_write(&scene->yard, "inbox/example.com.usv",
               VIEW(AT("example.com", "older", "07") "\n"));
    struct entry_list flat = yard_flat(&scene->yard, "a3");
    assert_int_equal(flat.count, 2);
    options.batch_entries = 1;
    options.keep_deleted = SPAN_MS(2 * D);
    scene->other.client->space.settings.late_bound = SPAN_MS(D);
    compile_shard(scene->other.index, &options, A3, flat.entries, flat.count, &report);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.fold.dropped, 1);
    assert_int_equal(report.fold.superseded, 2);
    assert_int_equal(report.aside, 0);
    entry_list_release(&flat);
}

/* Folds a deletion of example.com at 10:00 and drops it. */
static void drop_one(struct scene *scene)
{
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile_with_d(scene, D);
    wait_for_2d();
    yard_put(&scene->yard, AT("example.com", "late", "08"));
    assert_int_equal(compile_with_d(scene, D).fold.dropped, 1);
}

static void the_floor_refuses_what_may_be_deleted(void **state)
{
    struct scene *scene = *state;
    drop_one(scene);
    yard_put(&scene->yard, AT("example.com", "back", "09"));
    assert_string_equal(scene_value(scene, "example.com"), "");
    assert_int_equal(scene_keys(scene), 0);
    struct compile_report report = compile_with_d(scene, D);
    assert_int_equal(report.fold.refused, 1);
    assert_int_equal(report.aside, 1);
    assert_non_null(strstr(report.first_aside, "older than deletions"));
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_int_equal(yard_count(&scene->yard, "aside/"), 2);
    assert_string_equal(scene_value(scene, "example.com"), "");
    /* Equal to the floor is not later; a deletion there has nothing to do. */
    yard_put(&scene->yard, AT("example.com", "equal", "10"));
    scene_delete(scene, "example.com", "2026-02-06T09:30:00Z");
    report = compile_with_d(scene, D);
    assert_int_equal(report.aside, 1);
    assert_int_equal(report.fold.superseded, 1);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    /* A later record is taken, and then older ones lose against it as ever. */
    yard_put(&scene->yard, AT("example.com", "new", "11"));
    assert_string_equal(scene_value(scene, "example.com"), "new");
    compile(scene);
    yard_put(&scene->yard, AT("example.com", "back", "09"));
    compile(scene);
    assert_string_equal(scene_value(scene, "example.com"), "new");
    assert_int_equal(yard_count(&scene->yard, "aside/"), 4);
}

static void an_entry_that_cannot_be_set_aside_stays(void **state)
{
    struct scene *scene = *state;
    drop_one(scene);
    yard_put(&scene->yard, AT("example.com", "back", "09"));
    yard_put(&scene->yard, AT("example.com", "too", "08"));
    script_rule(&scene->yard.store, .name = "no", .on = ON_PUT, .part = "aside/",
                .fate = REFUSE(HF_DENIED));
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_int_equal(scene_waiting(scene, A3), 2);
    assert_int_equal(yard_count(&scene->yard, "aside/"), 0);
    assert_string_equal(scene_value(scene, "example.com"), "");
}

/* Folded one after the other, each would be set aside. Folded together, none is lost because a
 * later one supersedes it. */
static void what_is_set_aside_does_not_depend_on_the_fold(void **state)
{
    struct scene *scene = *state;
    drop_one(scene);
    yard_put(&scene->yard, AT("example.com", "back", "08"));
    yard_put(&scene->yard, AT("example.com", "too", "09"));
    scene_delete(scene, "example.com", "2026-02-06T09:30:00Z");
    struct compile_report report = compile_with_d(scene, D);
    assert_int_equal(report.fold.refused, 2);
    assert_int_equal(report.aside, 2);
    assert_int_equal(report.fold.superseded, 1);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_int_equal(yard_count(&scene->yard, "aside/"), 4);
}

static void a_new_deletion_starts_the_wait_again(void **state)
{
    struct scene *scene = *state;
    scene_delete(scene, "example.com", "2026-02-06T10:00:00Z");
    compile_with_d(scene, D);
    struct stamp first = scene_head(scene).sealed_at;
    wait_for_2d();
    crew_fill(&scene->other, "a3", "k", 0, 1, "v");
    compile_with_d(scene, LONG_D);
    assert_true(scene_head(scene).sealed_at.us == first.us);
    scene_delete(scene, "example.com",
                 "2026-02-06T09:00:00Z"); /* superseded: it was not there */
    compile_with_d(scene, LONG_D);
    assert_true(scene_head(scene).sealed_at.us == first.us);
    yard_put(&scene->yard, AT("example.com", "new", "11"));
    compile_with_d(scene, LONG_D);
    scene_delete(scene, "example.com", "2026-02-06T11:00:01Z");
    compile_with_d(scene, LONG_D);
    struct shard_head head = scene_head(scene);
    assert_true(head.sealed && head.sealed_to.s == 1770372000 && head.sealed_at.us == first.us);
    /* The sealed one is gone, so nothing is dropped, and the other is sealed in its turn. */
    crew_fill(&scene->other, "a3", "k", 1, 1, "v");
    assert_int_equal(compile_with_d(scene, D).fold.dropped, 0);
    head = scene_head(scene);
    assert_true(head.sealed && head.sealed_to.s == 1770375601 && !head.has_floor);
    assert_true(head.sealed_at.us > first.us);
}

static void the_future_is_not_sealed(void **state)
{
    struct scene *scene = *state;
    scene_delete(scene, "example.com", "2999-01-01T00:00:00Z");
    compile_with_d(scene, D);
    struct shard_head head = scene_head(scene);
    assert_true(!head.sealed && head.deleted == 1);
    wait_for_2d();
    yard_put(&scene->yard, AT("example.com", "now", "12"));
    compile_with_d(scene, D);
    assert_int_equal(scene_head(scene).deleted, 1);
    assert_string_equal(scene_value(scene, "example.com"), "");
}

static void the_manifest_counts_deletions(void **state)
{
    struct scene *scene = *state;
    struct manifest manifest;
    yard_put(&scene->yard, AT("a", "v", "09"));
    yard_put(&scene->yard, AT("example.com", "v", "09"));
    scene_delete(scene, "example.com", NULL);
    struct hf_index_compile_report totals = crew_compile(&scene->other);
    assert_int_equal(totals.keys_deleted, 1);
    assert_status(HF_OK, manifest_read(scene->other.index, &manifest, &scene->error),
                  &scene->error);
    uint64_t records = 0, deletions = 0;
    for (size_t i = 0; i < manifest.count; i++) {
        records += manifest.rows[i].records;
        deletions += manifest.rows[i].deletions;
    }
    assert_int_equal(records, 1);
    assert_int_equal(deletions, 1);
    manifest_release(&manifest);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("a deletion wins or loses by its time, in any order, folded or not",
           a_deletion_wins_by_time),
        COMPILES("index.json has the later format before the first deletion is put",
                 a_deletion_changes_the_format_first),
        COMPILES("a deletion is dropped by a fold that proves that 2 D have passed, and raises "
                 "the floor",
                 deletions_are_dropped_later),
        COMPILES("no deletion is dropped before the last batch of entries",
                 no_deletion_is_dropped_before_the_last_batch),
        COMPILES("what the floor refuses is not shown, and is set aside",
                 the_floor_refuses_what_may_be_deleted),
        COMPILES("what is set aside does not depend on which entries are folded together",
                 what_is_set_aside_does_not_depend_on_the_fold),
        COMPILES("a refused entry that cannot be set aside stays in the inbox",
                 an_entry_that_cannot_be_set_aside_stays),
        COMPILES("a deletion that joins the sealed ones starts their wait again",
                 a_new_deletion_starts_the_wait_again),
        COMPILES("a deletion in the future is not dropped", the_future_is_not_sealed),
        COMPILES("the manifest counts deletions apart from records",
                 the_manifest_counts_deletions),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
