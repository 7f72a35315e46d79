/* SPDX-License-Identifier: Apache-2.0 */
/* index_drop_test.c KIND: an index is marked, and nobody uses it any more; its objects are
 * deleted, and its name is free once what was on its way has arrived. KIND is mem or sqlite. */
#include "index/drop.h"
#include "index/read.h"
#include "index_scene.h"
#include "lock/client_inside.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORD "example.com" US "v" US "2026-02-06T10:00:00Z"

/* The wait is INDEX_TRUST + D, so a D that is negative makes it as short as a test needs. */
static enum hf_status drop_by(struct crew *crew, bool dry_run, int64_t wait_ms,
                              struct hf_index_drop_report *report)
{
    const struct drop_options options = { .dry_run = dry_run };
    struct lease_settings *settings = &crew->client->space.settings;
    const struct span before = settings->late_bound;
    settings->late_bound = SPAN_US(wait_ms * 1000 - INDEX_TRUST.us);
    enum hf_status status =
        index_drop(crew->client, VIEW("domains"), &options, report, &crew->error);
    settings->late_bound = before;
    return status;
}

static struct hf_index_drop_report drop(struct scene *scene, bool dry_run, int64_t wait_ms)
{
    struct hf_index_drop_report report;
    assert_status(HF_OK, drop_by(&scene->other, dry_run, wait_ms, &report),
                  &scene->other.error);
    return report;
}

/* Drops the index in a moment from now, when the wait of a millisecond has passed. */
#define SHORT_MS 1
static struct hf_index_drop_report drop_soon(struct scene *scene)
{
    env_sleep(env_real(), SPAN_MS(10));
    return drop(scene, false, SHORT_MS);
}

/* Creates the index anew, with the settings of the drops above. */
static enum hf_status create_anew(struct scene *scene)
{
    struct schema schema = yard_schema("domain,name,updated_at");
    struct lease_settings *settings = &scene->other.client->space.settings;
    const struct span before = settings->late_bound;
    enum index_made made;
    settings->late_bound = SPAN_US(SHORT_MS * 1000 - INDEX_TRUST.us);
    enum hf_status status = index_create(scene->other.index->store, scene->other.client,
                                         VIEW("domains"), &schema, &made, &scene->error);
    settings->late_bound = before;
    return status;
}

#define LONG_MS 3600000

static enum hf_status put(struct crew *crew)
{
    struct view record = VIEW(RECORD);
    size_t bad;
    return index_put(crew->index, &record, 1, &bad, &crew->error);
}

/* Whether the index can be opened. */
static enum hf_status open_anew(struct scene *scene)
{
    struct index *index = NULL;
    enum hf_status status =
        index_open(scene->other.index->store, NULL, VIEW("domains"), &index, &scene->error);
    index_close(index);
    return status;
}

static void fill(struct scene *scene)
{
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    crew_compile(&scene->other);
    crew_fill(&scene->other, "10", "k", 0, 5, "v");
}

static void an_index_is_dropped_in_two_steps(void **state)
{
    struct scene *scene = *state;
    fill(scene);
    const size_t objects = yard_count(&scene->yard, "") - 1;
    struct hf_index_drop_report report = drop(scene, /* dry_run */ true, LONG_MS);
    assert_true(!report.marked && !report.gone && report.deleted == 0);
    assert_int_equal(report.objects, objects);
    assert_status(HF_OK, open_anew(scene), &scene->error);
    report = drop(scene, false, LONG_MS);
    assert_true(report.marked && !report.gone);
    assert_int_equal(report.deleted, objects);
    assert_in_range(report.wait_ms, LONG_MS / 2, 2 * LONG_MS);
    assert_int_equal(yard_count(&scene->yard, ""), 1);
    assert_status(HF_NOT_FOUND, open_anew(scene), &scene->error);
    assert_non_null(strstr(scene->error.why, "being dropped"));
    /* A writer that has not seen the mark; the name is not free. */
    assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
    enum index_made made;
    struct schema schema = yard_schema("domain,name,updated_at");
    assert_status(HF_CONFLICT,
                  index_create(scene->other.index->store, NULL, VIEW("domains"), &schema, &made,
                               &scene->error),
                  &scene->error);
    report = drop(scene, false, LONG_MS);
    assert_true(report.marked && !report.gone && report.deleted == 1);
    env_sleep(env_real(), SPAN_MS(10));
    report = drop(scene, false, /* wait_ms */ 1);
    assert_true(report.gone && report.deleted == 0);
    /* A store without conditional deletes keeps the mark. */
    const bool conditional = scene->other.index->store->traits.delete_conditional;
    assert_int_equal(yard_count(&scene->yard, ""), conditional ? 0 : 1);
}

static void an_old_handle_finds_the_mark(void **state)
{
    struct scene *scene = *state;
    assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
    drop(scene, false, LONG_MS);
    assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
    scene->crew.index->checked = mono_add(env_now(env_real()), SPAN_US(-INDEX_TRUST.us));
    assert_status(HF_NOT_FOUND, put(&scene->crew), &scene->crew.error);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_int_equal(yard_count(&scene->yard, "shards/a3.usv"), 0);
}

/* As if it had been suspended for longer than the mark stays. */
static void suspend(void *argument)
{
    struct scene *scene = argument;
    scene->crew.index->checked = mono_add(env_now(env_real()), SPAN_US(-INDEX_TRUST.us));
}

static void a_suspended_compiler_writes_no_shard(void **state)
{
    struct scene *scene = *state;
    fill(scene);
    drop(scene, false, LONG_MS);
    assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
    scene_happens(scene, CALL_GET, SHARD_OBJECT, suspend);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_FAILED);
    assert_non_null(strstr(report.why.why, "being dropped"));
    assert_int_equal(yard_count(&scene->yard, "shards/a3.usv"), 0);
}

static void sleep_through_a_drop(void *argument)
{
    drop(argument, false, LONG_MS);
    suspend(argument);
}

/* A put that got no reply may have arrived before the drop, or may still arrive. */
static void a_put_is_not_sent_again_after_a_drop(void **state)
{
    struct scene *scene = *state;
    const struct fate fates[] = { LOSE, REFUSE(HF_CONFLICT) };
    const enum hf_status told[] = { HF_UNSURE, HF_NOT_FOUND };
    for (size_t i = 0; i < 2; i++) {
        script_rule(&scene->gate, .name = "put", .on = ON_PUT, .part = "/inbox/", .times = 1,
                    .fate = fates[i], .after = sleep_through_a_drop, .argument = scene);
        assert_status(told[i], put(&scene->crew), &scene->crew.error);
        assert_non_null(strstr(scene->crew.error.why, "being dropped"));
        assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
        assert_true(drop_soon(scene).gone);
        assert_status(HF_OK, create_anew(scene), &scene->error);
    }
}

/* An entry may have arrived since the last drop, and would join the new index. */
static void a_name_is_free_only_after_the_last_drop(void **state)
{
    struct scene *scene = *state;
    drop(scene, false, LONG_MS);
    assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
    env_sleep(env_real(), SPAN_MS(10));
    assert_status(HF_CONFLICT, create_anew(scene), &scene->error);
    assert_non_null(strstr(scene->error.why, "drop it again to finish"));
    struct hf_index_drop_report report = drop_soon(scene);
    assert_true(report.gone && report.deleted == 1);
    assert_status(HF_OK, create_anew(scene), &scene->error);
    assert_int_equal(scene_keys(scene), 0);
}

/* The other finishes the drop; a new index of the name gets records, and is compiled. */
static void finish_and_create_anew(void *argument)
{
    struct scene *scene = argument;
    assert_true(drop_soon(scene).gone);
    assert_status(HF_OK, create_anew(scene), &scene->error);
    fill(scene);
}

/* One client is slow between the steps of its last drop. */
static void a_slow_drop_does_not_hit_a_new_index(void **state)
{
    /* It has read the mark with its first get. */
    static const struct {
        enum call_kind kind;
        unsigned skip;
    } steps[] = { { CALL_GET, 1 }, { CALL_LIST, 0 }, { CALL_GET, 2 }, { CALL_DELETE, 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        void *own;
        scene_set_up(&own);
        struct scene *scene = own;
        struct hf_index_drop_report report;
        fill(scene);
        drop(scene, false, LONG_MS);
        assert_status(HF_OK, put(&scene->crew), &scene->crew.error);
        env_sleep(env_real(), SPAN_MS(10));
        script_rule(&scene->gate, .name = "happens", .on = ON_KIND(steps[i].kind),
                    .skip = steps[i].skip, .times = 1, .before = finish_and_create_anew,
                    .argument = scene);
        enum hf_status status = drop_by(&scene->crew, false, SHORT_MS, &report);
        assert_int_equal(script_met(&scene->gate, "happens"), 1);
        assert_true(status == HF_OK || status == HF_CONFLICT || status == HF_NOT_FOUND);
        assert_status(HF_OK, open_anew(scene), &scene->error);
        assert_int_equal(scene_keys(scene), 10);
        scene_tear_down(&own);
    }
}

/* A delete by name that is on its way could hit an object of a new index, so the wait begins again
 * before it is sent. */
static void deletes_by_name_start_the_wait_again(void **state)
{
    struct scene *scene = *state;
    struct hf_index_drop_report report;
    scene->gate.base.traits.delete_conditional = false;
    fill(scene);
    assert_status(HF_OK, drop_by(&scene->crew, false, LONG_MS, &report), &scene->crew.error);
    assert_int_equal(yard_count(&scene->yard, ""), 1);
    env_sleep(env_real(), SPAN_MS(10));
    /* An entry has a nonce in its name; a shard does not. */
    assert_status(HF_OK, put(&scene->other), &scene->other.error);
    yard_write(&scene->yard, "shards/a3.usv", VIEW("late"));
    assert_status(HF_OK, drop_by(&scene->crew, false, SHORT_MS, &report), &scene->crew.error);
    assert_true(!report.gone && report.deleted == 2 && report.wait_ms > 0);
    assert_status(HF_CONFLICT, create_anew(scene), &scene->error);
    env_sleep(env_real(), SPAN_MS(10));
    assert_status(HF_OK, put(&scene->other), &scene->other.error);
    assert_status(HF_OK, drop_by(&scene->crew, false, SHORT_MS, &report), &scene->crew.error);
    assert_true(report.gone && report.deleted == 1);
    char *text = yard_read(&scene->yard, "index.json");
    assert_non_null(strstr(text, "\"emptied\":true"));
    free(text);
    assert_status(HF_NOT_FOUND, open_anew(scene), &scene->error);
    assert_status(HF_OK, create_anew(scene), &scene->error);
    assert_status(HF_OK, open_anew(scene), &scene->error);
}

static void whichever_call_fails_the_next_drop_goes_on(void **state)
{
    (void)state;
    for (unsigned fails = 0; fails < 40; fails++) {
        void *own;
        scene_set_up(&own);
        struct scene *scene = own;
        struct hf_index_drop_report report;
        const struct drop_options options = { .dry_run = false };
        fill(scene);
        script_rule(&scene->gate, .name = "fails",
                    .on = ON_PUT | ON_DELETE | ON_LIST | ON_GET | ON_CHANGE, .skip = fails,
                    .times = 1, .fate = REFUSE(HF_DENIED));
        enum hf_status status =
            index_drop(scene->crew.client, VIEW("domains"), &options, &report, &scene->error);
        bool failed = script_met(&scene->gate, "fails") > 0;
        report = drop(scene, false, LONG_MS);
        assert_true(report.marked);
        assert_int_equal(yard_count(&scene->yard, ""), 1);
        scene_tear_down(&own);
        if (!failed) {
            assert_status(HF_OK, status, &scene->error);
            return;
        }
    }
    fail_msg("a drop takes too many calls");
}

static void what_is_not_there_is_not_dropped(void **state)
{
    struct scene *scene = *state;
    struct hf_index_drop_report report;
    const struct drop_options options = { .dry_run = false };
    assert_status(HF_NOT_FOUND,
                  index_drop(scene->other.client, VIEW("others"), &options, &report,
                             &scene->error),
                  &scene->error);
    yard_write(&scene->yard, "index.json", VIEW("{\"format\":\"holdfast.index/9\"}"));
    fill(scene);
    assert_status(HF_UNSUPPORTED,
                  index_drop(scene->other.client, VIEW("domains"), &options, &report,
                             &scene->error),
                  &scene->error);
    assert_in_range(yard_count(&scene->yard, ""), 5, 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("an index is marked and emptied at once, and is gone after the wait",
                 an_index_is_dropped_in_two_steps),
        COMPILES("a handle from before reads index.json again, and writes no more",
                 an_old_handle_finds_the_mark),
        COMPILES(
            "a compiler that was suspended while it folded writes no shard of a dropped index",
            a_suspended_compiler_writes_no_shard),
        COMPILES("a put is not sent again into an index that was dropped meanwhile",
                 a_put_is_not_sent_again_after_a_drop),
        COMPILES("a name is free only after a last drop has deleted what arrived",
                 a_name_is_free_only_after_the_last_drop),
        IT("a slow drop does not hit an index that was created anew",
           a_slow_drop_does_not_hit_a_new_index),
        COMPILES("without conditional deletes, the wait begins again before a delete by name",
                 deletes_by_name_start_the_wait_again),
        IT("whichever call of a drop fails, the next drop goes on",
           whichever_call_fails_the_next_drop_goes_on),
        COMPILES("what does not exist, or cannot be read, is not dropped",
                 what_is_not_there_is_not_dropped),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
