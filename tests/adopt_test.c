/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_test.c: objects are adopted where they are: once each, in the version that was read, at a
 * bounded number of requests, by one partition. Also what is deleted afterwards, and the inbox. */
#include "adopt_kit.h"
#include "scripted_store.h"

#include "compact/catalog/chunk_object.h"
#include "compact/work/inbox.h"
#include "compact/work/object_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD OUTSIDE_CROWD

/* ---- Once, and where they are -------------------------------------------------------- */

static void objects_become_chunks_without_a_copy_and_once(void **state)
{
    struct outside outside;
    struct meter_counts counts[CALL_KIND_COUNT];
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 5);
    put_bytes(&outside.ground, "raw/empty.usv", VIEW(""));
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.added, 5);
    assert_int_equal(outside.report.skipped, 1);
    outside_assert_live(&outside, 5);
    assert_int_equal(count_objects(&outside.ground, "data/"), 0);
    meter_reset(&outside.ground.meter);
    assert_status(HF_OK, outside_adopt(&outside, 1, "raw/", false), &outside.error);
    assert_int_equal(outside.report.already, 5);
    assert_status(HF_OK, outside_adopt(&outside, 1, "raw/object-0003.usv", false),
                  &outside.error);
    assert_int_equal(outside.report.already, 1);
    meter_read(&outside.ground.meter, counts);
    assert_int_equal(counts[CALL_GET_FILE].calls, 0); /* what is known is not read */
    assert_int_equal(counts[CALL_PUT].calls, 0);
    outside_assert_live(&outside, 5);
    ground_close(&outside.ground);
}

static void an_object_that_cannot_be_read_is_reported_and_the_others_are_adopted(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 3);
    put_bytes(&outside.ground, "raw/bad.usv", VIEW("no time in it\n"));
    assert_int_equal(outside_adopt(&outside, 0, "raw/", false), HF_INVALID);
    assert_int_equal(outside.report.added, 3);
    assert_int_equal(outside.report.failed, 1);
    assert_non_null(strstr(outside.failed, "raw/bad.usv"));
    assert_int_equal(outside_adopt(&outside, 0, "raw/none.usv", false), HF_NOT_FOUND);
    assert_non_null(strstr(outside.error.why, "end the prefix with a slash"));
    outside_assert_live(&outside, 3);
    ground_close(&outside.ground);
}

/* Keys of other programs: one that is not text, and one whose JSON is longer than an entry. */
static void put_unlistable(struct outside *outside)
{
    char key[800] = "raw/";
    memset(key + 4, '\x01', 700);
    outside_put_row(outside,
                    "raw/donn\xe9"
                    "es-0098.usv",
                    98);
    outside_put_row(outside, key, 97);
}

static void an_object_that_no_catalog_can_list_fails_alone(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 20);
    put_unlistable(&outside);
    assert_int_equal(outside_adopt(&outside, 0, "raw/", false), HF_INVALID);
    assert_int_equal(outside.report.added, 20);
    assert_int_equal(outside.report.failed, 2);
    outside_assert_live(&outside, 20);
    ground_close(&outside.ground);
}

/* Their entries together are longer than a catalog may be, so no swap can add them at once. */
static void a_batch_that_no_catalog_takes_at_once_is_divided(void **state)
{
    const size_t count = 350;
    struct outside outside;
    char prefix[600] = "raw/";
    outside_open(&outside, state, NULL, settings_by_time());
    memset(prefix + 4, '\x01', 500);
    outside_put_objects(&outside, prefix, count);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.added, count);
    outside_assert_live(&outside, count);
    ground_close(&outside.ground);
}

static void a_split_forgets_no_object(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 12);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    struct bed *bed = &outside.ground.beds[2];
    assert_status(HF_OK, catalog_ref_split(slot_of(bed, NULL), &bed->error), &bed->error);
    for (size_t i = 0; i < 2; i++) {
        assert_status(HF_OK, outside_adopt(&outside, i, "raw/", false), &outside.error);
        assert_int_equal(outside.report.already, 12);
    }
    outside_put_row(&outside, "raw/more-0099.usv", 99);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.added, 1);
    outside_assert_live(&outside, 13);
    ground_close(&outside.ground);
}

static void a_path_belongs_to_one_partition(void **state)
{
    struct outside outside;
    struct catalog_tree *other;
    struct hf_error error;
    struct compact_settings settings = settings_by_time();
    outside_open(&outside, state, NULL, settings);
    struct bed *bed = &outside.ground.beds[0];
    outside_put_objects(&outside, "raw/", 2);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_status(HF_OK,
                  catalog_tree_open(outside.ground.store, bed->client, VIEW("other"), &other,
                                    &error),
                  &error);
    assert_status(HF_OK, catalog_tree_create(other, &settings, &error), &error);
    struct adopt_options options = outside_options(&outside, false);
    static const char *const paths[] = { "raw/", "raw/object-0001.usv", "raw/x/" };
    for (size_t i = 0; i < 3; i++) {
        struct view path = view_of(paths[i]);
        assert_int_equal(adopt_paths(other, &path, 1, &options, &outside.report, &error),
                         HF_CONFLICT);
        assert_non_null(strstr(error.why, "registered to partition default"));
    }
    catalog_tree_close(other);
    ground_close(&outside.ground);
}

/* ---- Requests ------------------------------------------------------------------------ */

static uint64_t requests(struct outside *outside)
{
    struct meter_counts counts[CALL_KIND_COUNT];
    uint64_t sum = 0;
    meter_read(&outside->ground.meter, counts);
    for (size_t i = 0; i < CALL_KIND_COUNT; i++)
        sum += counts[i].calls;
    return sum;
}

static void a_thousand_objects_take_a_read_each_or_none_with_a_manifest(void **state)
{
    for (int described = 0; described < 2; described++) {
        struct outside outside;
        outside_open(&outside, state, NULL, settings_by_time());
        outside_put_objects(&outside, "raw/", 1000);
        outside.described = described;
        struct adopt_options options = outside_options(&outside, false);
        struct view path = VIEW("raw/");
        meter_reset(&outside.ground.meter);
        assert_status(HF_OK,
                      adopt_paths(outside.ground.beds[0].tree, &path, 1, &options,
                                  &outside.report, &outside.error),
                      &outside.error);
        assert_int_equal(outside.report.added, 1000);
        /* The test itself lists each object to describe it. */
        uint64_t sent = requests(&outside) - (described ? 1000 : 0);
        print_message("%" PRIu64 " requests for 1,000 objects, %s\n", sent,
                      described ? "described" : "read");
        assert_in_range(sent, 1, described ? 40 : 1040);
        ground_close(&outside.ground);
    }
}

/* ---- Versions ------------------------------------------------------------------------ */

static void a_rewritten_object_is_never_read_as_the_adopted_one(void **state)
{
    struct outside outside;
    struct hf_error error;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 1);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    struct sought sought = outside_seek(&outside, "raw/object-0000.usv");
    assert_true(sought.found);
    outside_put_row(&outside, "raw/object-0000.usv", 7);
    struct buffer body = BUFFER_INIT(1024);
    const struct chunk chunk = { .key = view_of(sought.key),
                                 .object = VIEW("raw/object-0000.usv"),
                                 .etag = VIEW("no longer") };
    struct get_call call = chunk_get_call(&chunk);
    call.body = &body;
    store_get(outside.ground.store, &call);
    assert_int_equal(chunk_got(&chunk, &call, &error), HF_CORRUPT);
    assert_non_null(strstr(error.why, "rewritten"));
    buffer_release(&body);
    /* The new version is another object. */
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.added, 1);
    outside_assert_live(&outside, 2);
    ground_close(&outside.ground);
}

static void a_manifest_of_another_version_is_a_conflict(void **state)
{
    struct outside outside;
    outside_open(&outside, state, NULL, settings_by_time());
    outside.described = true;
    outside_put_objects(&outside, "raw/", 1);
    put_bytes(&outside.ground, "raw/object-0000.usv",
              VIEW("a1\x1f"
                   "1763200800\nmore\x1f"
                   "1\n"));
    assert_int_equal(outside_adopt(&outside, 0, "raw/", false), HF_CONFLICT);
    assert_non_null(strstr(outside.failed, "the manifest says"));
    outside_assert_live(&outside, 0);
    ground_close(&outside.ground);
}

/* ---- Many at once, and answers that are lost ----------------------------------------- */

struct member {
    struct outside *outside;
    size_t bed;
};

static void adopt_until_done(void *argument)
{
    struct member *member = argument;
    struct outside *outside = member->outside;
    struct adopt_options options = outside_options(outside, false);
    struct adopt_report report;
    struct hf_error error;
    struct view path = VIEW("raw/");
    enum hf_status status = HF_UNAVAILABLE;
    options.each = NULL;
    for (int tries = 0; tries < 300 && status != HF_OK; tries++)
        status = adopt_paths(outside->ground.beds[member->bed].tree, &path, 1, &options,
                             &report, &error);
    assert_status(HF_OK, status, &error);
}

static void crowd(void **state, const struct fault_plan *plan)
{
    struct outside outside;
    struct env_task *tasks[CROWD];
    struct member members[CROWD];
    struct hf_error error;
    char key[64];
    outside_open(&outside, state, plan, settings_by_time());
    for (unsigned i = 0; i < 12; i++) {
        snprintf(key, sizeof key, "raw/object-%04u.usv", i);
        struct put_call put = { .key = view_of(key),
                                .body = VIEW("a\x1f"
                                             "1763200800\n") };
        while (store_put(outside.ground.store, &put) != HF_OK)
            ;
    }
    for (size_t i = 0; i < CROWD; i++) {
        members[i] = (struct member){ &outside, i };
        assert_status(
            HF_OK, env_task_start(env_real(), adopt_until_done, &members[i], &tasks[i], &error),
            &error);
    }
    for (int i = 0; i < 3; i++) {
        env_sleep(env_real(), SPAN_MS(5));
        catalog_ref_split(slot_of(&outside.ground.beds[CROWD], NULL), &error);
    }
    for (size_t i = 0; i < CROWD; i++)
        env_task_join(env_real(), tasks[i]);
    if (plan)
        store_fault_calm(outside.ground.store);
    struct census census;
    tree_listing_take(&outside.ground.beds[CROWD], &census);
    assert_int_equal(census.live, 12);
    tree_listing_release(&census);
    ground_close(&outside.ground);
}

static void many_at_once_adopt_each_object_once(void **state)
{
    crowd(state, NULL);
}

static void with_answers_lost_no_version_is_adopted_twice(void **state)
{
    const uint64_t seeds = strcmp(*state, "mem") == 0 ? 6 : 2;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const struct fault_plan plan = {
            .seed = seed, .refuse = 50000, .lose = 50000, .lose_reply = 100000
        };
        crowd(state, &plan);
    }
}

/* ---- Several at a time --------------------------------------------------------------- */

/* How many objects are being read, and how many were at most. Each read takes a while. */
struct readers {
    atomic_int now, most;
};

static void begin_read(void *argument)
{
    struct readers *readers = argument;
    int now = atomic_fetch_add(&readers->now, 1) + 1, most = atomic_load(&readers->most);
    while (now > most && !atomic_compare_exchange_weak(&readers->most, &most, now))
        ;
    env_sleep(env_real(), SPAN_MS(10));
}

static void end_read(void *argument)
{
    struct readers *readers = argument;
    atomic_fetch_sub(&readers->now, 1);
}

static bool count_progress(void *argument, size_t objects_done, uint64_t bytes_done)
{
    uint64_t *seen = argument;
    (void)objects_done;
    assert_true(bytes_done >= *seen); /* it never runs backwards */
    *seen = bytes_done;
    return true;
}

static void a_few_objects_are_read_at_a_time_in_their_order(void **state)
{
    struct outside outside;
    struct bed bed;
    struct script script;
    struct readers readers = { 0 };
    struct view path = VIEW("raw/");
    uint64_t bytes = 0;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 40);
    script_init(&script, outside.ground.store);
    bed_open(&bed, &script.base);
    script_rule(&script, .on = ON_GET_FILE, .before = begin_read, .after = end_read,
                .argument = &readers);
    struct adopt_options options = outside_options(&outside, false);
    options.describe = NULL;
    options.each = NULL;
    options.go_on = count_progress;
    options.argument = &bytes;
    assert_status(HF_OK,
                  adopt_paths(bed.tree, &path, 1, &options, &outside.report, &outside.error),
                  &outside.error);
    assert_int_equal(outside.report.added, 40);
    assert_in_range(atomic_load(&readers.most), 2, OBJECT_READERS);
    assert_in_range(bytes, 39 * strlen("a0,1763200800\n"), 40 * 20);
    bed_close(&bed);
    store_close(&script.base);
    ground_close(&outside.ground);
}

static bool stop_soon(void *argument, size_t objects_done, uint64_t bytes_done)
{
    (void)argument, (void)objects_done;
    return bytes_done < 60;
}

static void whoever_stops_has_added_what_was_read(void **state)
{
    struct outside outside;
    struct view path = VIEW("raw/");
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 40);
    struct adopt_options options = outside_options(&outside, false);
    options.go_on = stop_soon;
    assert_int_equal(adopt_paths(outside.ground.beds[0].tree, &path, 1, &options,
                                 &outside.report, &outside.error),
                     HF_CANCELLED);
    assert_in_range(outside.report.added, 1, 39);
    outside_assert_live(&outside, outside.report.added);
    ground_close(&outside.ground);
}

/* From now on, no read is answered; counts them. */
static struct fate be_gone(void *argument, struct script_call *call)
{
    (void)call;
    atomic_fetch_add((atomic_int *)argument, 1);
    return REFUSE(HF_UNAVAILABLE);
}

static void a_store_that_is_gone_is_not_asked_anew_for_each_object(void **state)
{
    struct outside outside;
    struct bed bed;
    struct script script;
    struct view path = VIEW("raw/");
    atomic_int reads = 0;
    outside_open(&outside, state, NULL, settings_by_time());
    outside_put_objects(&outside, "raw/", 100);
    script_init(&script, outside.ground.store);
    bed_open(&bed, &script.base);
    script_rule(&script, .on = ON_GET_FILE, .decide = be_gone, .argument = &reads);
    struct adopt_options options = outside_options(&outside, false);
    options.patience = SPAN_MS(100);
    assert_status(HF_UNAVAILABLE,
                  adopt_paths(bed.tree, &path, 1, &options, &outside.report, &outside.error),
                  &outside.error);
    assert_int_equal(outside.report.failed, 100);
    assert_in_range(atomic_load(&reads), 1, 5 * (OBJECTS_AHEAD + OBJECT_READERS));
    bed_close(&bed);
    store_close(&script.base);
    ground_close(&outside.ground);
}

/* ---- Other keys ---------------------------------------------------------------------- */

static void an_object_whose_keys_are_numbers_is_refused_among_strings(void **state)
{
    struct outside outside;
    struct compact_settings settings = some_settings();
    settings.format = HF_MERGE_NDJSON;
    settings.key = VIEW("id");
    settings.time = VIEW("at");
    outside_open(&outside, state, NULL, settings);
    put_bytes(&outside.ground, "raw/1.ndjson", VIEW("{\"id\":\"a\",\"at\":1763200800}\n"));
    put_bytes(&outside.ground, "raw/2.ndjson", VIEW("{\"id\":7,\"at\":1763200800}\n"));
    assert_int_equal(outside_adopt(&outside, 0, "raw/", false), HF_INVALID);
    assert_non_null(strstr(outside.failed, "raw/2.ndjson"));
    assert_non_null(strstr(outside.failed, "is a number, but a string in the partition"));
    outside_assert_live(&outside, 1);
    ground_close(&outside.ground);
}

/* ---- Deleting ------------------------------------------------------------------------ */

static void only_what_is_owned_is_deleted_and_only_as_it_was_adopted(void **state)
{
    static const char *const objects[] = { "own/object-0000.usv", "own/object-0001.usv",
                                           "raw/object-0000.usv" };
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(60000));
    outside_put_objects(&outside, "own/", 2);
    outside_put_objects(&outside, "raw/", 1);
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    outside_merge(&outside, objects, 3);
    outside_put_row(&outside, "own/object-0001.usv", 50); /* against the promise */
    env_sleep(env_real(), SPAN_MS(5));
    struct maintain_report report = outside_maintain(&outside);
    assert_int_equal(report.reaped, 3);
    assert_int_equal(count_objects(&outside.ground, "own/object-0000"), 0);
    assert_int_equal(count_objects(&outside.ground, "own/object-0001"), 1);
    assert_int_equal(count_objects(&outside.ground, "raw/"), 1);
    /* None of them is adopted again, except the new version. */
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    assert_int_equal(outside.report.added, 1);
    assert_status(HF_OK, outside_adopt(&outside, 0, "raw/", false), &outside.error);
    assert_int_equal(outside.report.already, 1);
    ground_close(&outside.ground);
}

static void without_conditional_deletes_an_owned_object_is_deleted_after_d(void **state)
{
    static const char *const objects[] = { "own/object-0000.usv", "own/object-0001.usv" };
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    outside.ground.store->traits.delete_conditional = false;
    outside_put_objects(&outside, "own/", 2);
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    outside_merge(&outside, objects, 2);
    outside_put_row(&outside, "own/object-0001.usv", 50);
    env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(outside_maintain(&outside).reaped, 2);
    assert_int_equal(count_objects(&outside.ground, "own/"), 2);
    env_sleep(env_real(), SPAN_MS(600));
    outside_maintain(&outside);
    assert_int_equal(count_objects(&outside.ground, "own/object-0000"), 0);
    assert_int_equal(count_objects(&outside.ground, "own/object-0001"), 1);
    env_sleep(env_real(), SPAN_MS(600)); /* D is counted again from the deletion */
    assert_int_equal(outside_maintain(&outside).dropped, 2);
    ground_close(&outside.ground);
}

/* Runs a round of maintenance in which the store refuses to read the first object. */
static void maintain_without_the_first(struct outside *outside)
{
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    struct script script;
    struct bed bed;
    script_init(&script, outside->ground.store);
    script.base.traits.delete_conditional = false;
    script_rule(&script, .on = ON_GET, .key = "own/object-0000.usv", .fate = REFUSE(HF_DENIED));
    bed_open(&bed, &script.base);
    assert_status(HF_DENIED, maintain_round(bed.tree, &options, &report, &outside->error),
                  &outside->error);
    bed_close(&bed);
    store_close(&script.base);
}

static void an_object_that_cannot_be_read_does_not_keep_the_others(void **state)
{
    static const char *const objects[] = { "own/object-0000.usv", "own/object-0001.usv" };
    struct outside outside;
    outside_open(&outside, state, NULL, outside_short_d(400));
    outside.ground.store->traits.delete_conditional = false;
    outside_put_objects(&outside, "own/", 2);
    assert_status(HF_OK, outside_adopt(&outside, 0, "own/", true), &outside.error);
    outside_merge(&outside, objects, 2);
    env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(outside_maintain(&outside).reaped, 2);
    env_sleep(env_real(), SPAN_MS(600));
    maintain_without_the_first(&outside);
    assert_int_equal(count_objects(&outside.ground, "own/object-0000"), 1);
    assert_int_equal(count_objects(&outside.ground, "own/object-0001"), 0);
    outside_maintain(&outside);
    assert_int_equal(count_objects(&outside.ground, "own/"), 0);
    ground_close(&outside.ground);
}

/* ---- The inbox ----------------------------------------------------------------------- */

static struct adopt_report scan(struct outside *outside, struct inbox *inbox,
                                enum hf_status expected)
{
    struct adopt_report report;
    assert_status(expected, inbox_scan(inbox, &report, &outside->error), &outside->error);
    return report;
}

static void an_inbox_adopts_what_two_scans_have_seen_unchanged_and_once(void **state)
{
    struct outside outside;
    struct inbox *inbox;
    struct meter_counts counts[CALL_KIND_COUNT];
    outside_open(&outside, state, NULL, settings_by_time());
    struct adopt_options options = outside_options(&outside, false);
    struct catalog_tree *tree = outside.ground.beds[0].tree;
    assert_int_equal(inbox_new(tree, VIEW("in"), &options, &inbox, &outside.error), HF_INVALID);
    assert_status(HF_OK, inbox_new(tree, VIEW("in/"), &options, &inbox, &outside.error),
                  &outside.error);
    outside_put_objects(&outside, "in/", 3);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 0); /* they may be half written */
    outside_put_row(&outside, "in/object-0002.usv", 70);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 2);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 1);
    meter_reset(&outside.ground.meter);
    assert_int_equal(scan(&outside, inbox, HF_OK).seen, 0);
    meter_read(&outside.ground.meter, counts);
    assert_int_equal(counts[CALL_GET_FILE].calls, 0);
    outside_assert_live(&outside, 3);
    inbox_free(inbox);
    ground_close(&outside.ground);
}

static void an_inbox_reports_what_it_cannot_read_once_and_leaves_it_there(void **state)
{
    struct outside outside;
    struct inbox *inbox;
    outside_open(&outside, state, NULL, settings_by_time());
    struct adopt_options options = outside_options(&outside, false);
    assert_status(HF_OK,
                  inbox_new(outside.ground.beds[0].tree, VIEW("in/"), &options, &inbox,
                            &outside.error),
                  &outside.error);
    put_bytes(&outside.ground, "in/half-0001.usv", VIEW("a1"));
    put_bytes(&outside.ground, "in/empty-0002.usv", VIEW(""));
    scan(&outside, inbox, HF_OK);
    assert_int_equal(scan(&outside, inbox, HF_INVALID).failed, 1);
    assert_int_equal(scan(&outside, inbox, HF_OK).failed, 0);
    assert_int_equal(count_objects(&outside.ground, "in/"), 2);
    outside_put_row(&outside, "in/half-0001.usv", 1); /* its writer finishes */
    scan(&outside, inbox, HF_OK);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 1);
    outside_assert_live(&outside, 1);
    inbox_free(inbox);
    ground_close(&outside.ground);
}

/* An error that may pass is none of the object's. */
static void an_inbox_tries_again_what_it_was_not_allowed_to_read(void **state)
{
    struct outside outside;
    struct bed bed;
    struct script script;
    struct inbox *inbox;
    outside_open(&outside, state, NULL, settings_by_time());
    script_init(&script, outside.ground.store);
    bed_open(&bed, &script.base);
    struct adopt_options options = outside_options(&outside, false);
    assert_status(HF_OK, inbox_new(bed.tree, VIEW("in/"), &options, &inbox, &outside.error),
                  &outside.error);
    outside_put_objects(&outside, "in/", 1);
    scan(&outside, inbox, HF_OK);
    script_rule(&script, .name = "denied", .on = ON_GET_FILE, .fate = REFUSE(HF_DENIED));
    assert_int_equal(scan(&outside, inbox, HF_DENIED).failed, 1);
    script_drop(&script, "denied");
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 1);
    inbox_free(inbox);
    bed_close(&bed);
    store_close(&script.base);
    ground_close(&outside.ground);
}

static void an_inbox_is_owned_and_an_object_is_cleared_before_it_is_forgotten(void **state)
{
    static const char *const objects[] = { "in/object-0000.usv" };
    struct outside outside;
    struct inbox *inbox;
    outside_open(&outside, state, NULL, outside_short_d(300));
    struct adopt_options options = outside_options(&outside, false);
    assert_status(HF_OK,
                  inbox_new(outside.ground.beds[0].tree, VIEW("in/"), &options, &inbox,
                            &outside.error),
                  &outside.error);
    outside_put_objects(&outside, "in/", 1);
    scan(&outside, inbox, HF_OK);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 1);
    outside_merge(&outside, objects, 1);
    env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(outside_maintain(&outside).deleted, 1);
    assert_int_equal(count_objects(&outside.ground, "in/"), 0);
    env_sleep(env_real(), SPAN_MS(500));
    assert_int_equal(outside_maintain(&outside).dropped, 1);
    scan(&outside, inbox, HF_OK);
    assert_int_equal(scan(&outside, inbox, HF_OK).added, 0);
    inbox_free(inbox);
    ground_close(&outside.ground);
}

int main(int argc, char **argv)
{
    static char usual[] = "mem";
    char *kind = argc > 1 ? argv[1] : usual;
#define ON(name, test)               \
    {                                \
        name, test, NULL, NULL, kind \
    }
    const struct CMUnitTest tests[] = {
        ON("objects become chunks without a copy and once",
           objects_become_chunks_without_a_copy_and_once),
        ON("an object that no catalog can list fails, and the others are adopted",
           an_object_that_no_catalog_can_list_fails_alone),
        ON("a batch that no catalog takes at once is divided",
           a_batch_that_no_catalog_takes_at_once_is_divided),
        ON("an object that cannot be read is reported and the others are adopted",
           an_object_that_cannot_be_read_is_reported_and_the_others_are_adopted),
        ON("a split forgets no object", a_split_forgets_no_object),
        ON("a path belongs to one partition", a_path_belongs_to_one_partition),
        ON("a thousand objects take a read each or none with a manifest",
           a_thousand_objects_take_a_read_each_or_none_with_a_manifest),
        ON("a rewritten object is never read as the adopted one",
           a_rewritten_object_is_never_read_as_the_adopted_one),
        ON("a manifest of another version is a conflict",
           a_manifest_of_another_version_is_a_conflict),
        ON("many at once adopt each object once", many_at_once_adopt_each_object_once),
        ON("with answers lost no version is adopted twice",
           with_answers_lost_no_version_is_adopted_twice),
        ON("a few objects are read at a time in their order",
           a_few_objects_are_read_at_a_time_in_their_order),
        ON("whoever stops has added what was read", whoever_stops_has_added_what_was_read),
        ON("a store that is gone is not asked anew for each object",
           a_store_that_is_gone_is_not_asked_anew_for_each_object),
        ON("an object whose keys are numbers is refused among strings",
           an_object_whose_keys_are_numbers_is_refused_among_strings),
        ON("an inbox tries again what it was not allowed to read",
           an_inbox_tries_again_what_it_was_not_allowed_to_read),
        ON("only what is owned is deleted and only as it was adopted",
           only_what_is_owned_is_deleted_and_only_as_it_was_adopted),
        ON("without conditional deletes an owned object is deleted after d",
           without_conditional_deletes_an_owned_object_is_deleted_after_d),
        ON("without conditional deletes an object that cannot be read does not keep the others",
           an_object_that_cannot_be_read_does_not_keep_the_others),
        ON("an inbox adopts what two scans have seen unchanged and once",
           an_inbox_adopts_what_two_scans_have_seen_unchanged_and_once),
        ON("an inbox reports what it cannot read once and leaves it there",
           an_inbox_reports_what_it_cannot_read_once_and_leaves_it_there),
        ON("an inbox is owned and an object is cleared before it is forgotten",
           an_inbox_is_owned_and_an_object_is_cleared_before_it_is_forgotten),
    };
#undef ON
    return cmocka_run_group_tests(tests, NULL, NULL);
}
