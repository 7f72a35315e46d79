/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_test.c: objects are adopted where they are: once each, in the version that was read, at a
 * bounded number of requests, by one partition. Also what is deleted afterwards, and the inbox. */
#include "catalog_tree_kit.h"

#include "base/hash.h"
#include "compact/care/maintain.h"
#include "compact/catalog/chunk_object.h"
#include "compact/work/inbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD 4

/* ---- A bucket with objects ----------------------------------------------------------- */

struct yard {
    struct ground ground;
    struct adopt_report report;
    struct hf_error error;
    bool described;   /* every object is described, and none is read */
    char failed[256]; /* the last object that failed */
    unsigned failures;
};

static struct compact_settings timed(void)
{
    struct compact_settings settings = some_settings();
    settings.time = VIEW("2");
    return settings;
}

static void yard_open(struct yard *yard, void **state, const struct fault_plan *plan,
                      struct compact_settings settings)
{
    *yard = (struct yard){ .described = false };
    ground_open(&yard->ground, *state, plan, CROWD + 1);
    assert_status(HF_OK,
                  catalog_tree_create(yard->ground.beds[0].tree, &settings, &yard->error),
                  &yard->error);
}

static void put_row(struct yard *yard, const char *key, unsigned row)
{
    char text[64];
    snprintf(text, sizeof text, "a%u\x1f%lld\n", row, (long long)SOME_HOUR / 1000 + row);
    put_bytes(&yard->ground, key, view_of(text));
}

static void put_objects(struct yard *yard, const char *prefix, size_t count)
{
    char key[128];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%sobject-%04zu.usv", prefix, i);
        put_row(yard, key, (unsigned)i);
    }
}

/* What a writer would know about the current version of an object. */
static bool describe(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    static char etags[4096][ETAG_BYTES_MAX];
    static size_t next;
    struct yard *yard = argument;
    struct list_call list = { .prefix = key, .max = 1 };
    unsigned row = (unsigned)strtoul(key.data + key.size - strlen("0000.usv"), NULL, 10);
    char text[64];
    snprintf(text, sizeof text, "a%u\x1f%lld\n", row, (long long)SOME_HOUR / 1000 + row);
    if (!yard->described)
        return false;
    assert_int_equal(store_list(yard->ground.store, &list), HF_OK);
    struct etag etag = list.entries[0].info.etag;
    list_release(&list);
    char *kept = etags[next++ % 4096];
    memcpy(kept, etag.data, etag.size);
    *ret_facts = (struct adopt_facts){ .etag = { kept, etag.size },
                                       .size = strlen(text),
                                       .rows_known = true,
                                       .rows = 1,
                                       .min_ms = SOME_HOUR + row * 1000,
                                       .max_ms = SOME_HOUR + row * 1000,
                                       .crc32c = crc32c(0, view_of(text)) };
    return true;
}

static void note(void *argument, const struct ingest_file *object, struct view etag)
{
    struct yard *yard = argument;
    (void)etag;
    if (object->error.status == HF_OK)
        return;
    yard->failures++;
    snprintf(yard->failed, sizeof yard->failed, "%s", object->error.why);
}

static struct adopt_options options_of(struct yard *yard, bool own)
{
    return (struct adopt_options){ .own = own,
                                   .writer = VIEW("w"),
                                   .patience = SPAN_S(2),
                                   .scratch = yard->ground.dir,
                                   .describe = describe,
                                   .each = note,
                                   .argument = yard };
}

static enum hf_status adopt(struct yard *yard, size_t bed, const char *path, bool own)
{
    struct adopt_options options = options_of(yard, own);
    struct view paths[] = { view_of(path) };
    return adopt_paths(yard->ground.beds[bed].tree, paths, 1, &options, &yard->report,
                       &yard->error);
}

static void assert_live(struct yard *yard, size_t live)
{
    struct census census;
    tree_listing_take(&yard->ground.beds[CROWD], &census);
    assert_int_equal(census.twice, 0);
    assert_int_equal(census.live, live);
    tree_listing_release(&census);
}

/* The chunk of an object; its key, and whether there is one. */
struct sought {
    const char *object;
    struct view etag;
    bool found;
    char key[KEY_BYTES_MAX + 1];
};

static enum hf_status seek_object(void *argument, struct catalog_ref *ref,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence, const struct hf_error *why)
{
    struct sought *sought = argument;
    (void)ref, (void)evidence, (void)why;
    for (size_t i = 0; catalog && i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (!view_equal(chunk->object, view_of(sought->object)))
            continue;
        sought->found = true;
        snprintf(sought->key, sizeof sought->key, "%.*s", VIEW_ARGS(chunk->key));
    }
    return HF_OK;
}

static struct sought seek(struct yard *yard, const char *object)
{
    struct sought sought = { .object = object };
    struct bed *bed = &yard->ground.beds[CROWD];
    assert_status(HF_OK, catalog_tree_walk(bed->tree, seek_object, &sought, &bed->error),
                  &bed->error);
    return sought;
}

/* ---- Once, and where they are -------------------------------------------------------- */

static void objects_become_chunks_without_a_copy_and_once(void **state)
{
    struct yard yard;
    struct meter_counts counts[CALL_KIND_COUNT];
    yard_open(&yard, state, NULL, timed());
    put_objects(&yard, "raw/", 5);
    put_bytes(&yard.ground, "raw/empty.usv", VIEW(""));
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    assert_int_equal(yard.report.added, 5);
    assert_int_equal(yard.report.skipped, 1);
    assert_live(&yard, 5);
    assert_int_equal(count_objects(&yard.ground, "data/"), 0);
    meter_reset(&yard.ground.meter);
    assert_status(HF_OK, adopt(&yard, 1, "raw/", false), &yard.error);
    assert_int_equal(yard.report.already, 5);
    assert_status(HF_OK, adopt(&yard, 1, "raw/object-0003.usv", false), &yard.error);
    assert_int_equal(yard.report.already, 1);
    meter_read(&yard.ground.meter, counts);
    assert_int_equal(counts[CALL_GET_FILE].calls, 0); /* what is known is not read */
    assert_int_equal(counts[CALL_PUT].calls, 0);
    assert_live(&yard, 5);
    ground_close(&yard.ground);
}

static void an_object_that_cannot_be_read_is_reported_and_the_others_are_adopted(void **state)
{
    struct yard yard;
    yard_open(&yard, state, NULL, timed());
    put_objects(&yard, "raw/", 3);
    put_bytes(&yard.ground, "raw/bad.usv", VIEW("no time in it\n"));
    assert_int_equal(adopt(&yard, 0, "raw/", false), HF_INVALID);
    assert_int_equal(yard.report.added, 3);
    assert_int_equal(yard.report.failed, 1);
    assert_non_null(strstr(yard.failed, "raw/bad.usv"));
    assert_int_equal(adopt(&yard, 0, "raw/none.usv", false), HF_NOT_FOUND);
    assert_non_null(strstr(yard.error.why, "end the prefix with a slash"));
    assert_live(&yard, 3);
    ground_close(&yard.ground);
}

static void a_split_forgets_no_object(void **state)
{
    struct yard yard;
    yard_open(&yard, state, NULL, timed());
    put_objects(&yard, "raw/", 12);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    struct bed *bed = &yard.ground.beds[2];
    assert_status(HF_OK, catalog_ref_split(slot_of(bed, NULL), &bed->error), &bed->error);
    for (size_t i = 0; i < 2; i++) {
        assert_status(HF_OK, adopt(&yard, i, "raw/", false), &yard.error);
        assert_int_equal(yard.report.already, 12);
    }
    put_row(&yard, "raw/more-0099.usv", 99);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    assert_int_equal(yard.report.added, 1);
    assert_live(&yard, 13);
    ground_close(&yard.ground);
}

static void a_path_belongs_to_one_partition(void **state)
{
    struct yard yard;
    struct catalog_tree *other;
    struct hf_error error;
    struct compact_settings settings = timed();
    yard_open(&yard, state, NULL, settings);
    struct bed *bed = &yard.ground.beds[0];
    put_objects(&yard, "raw/", 2);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    assert_status(
        HF_OK, catalog_tree_open(yard.ground.store, bed->client, VIEW("other"), &other, &error),
        &error);
    assert_status(HF_OK, catalog_tree_create(other, &settings, &error), &error);
    struct adopt_options options = options_of(&yard, false);
    static const char *const paths[] = { "raw/", "raw/object-0001.usv", "raw/x/" };
    for (size_t i = 0; i < 3; i++) {
        struct view path = view_of(paths[i]);
        assert_int_equal(adopt_paths(other, &path, 1, &options, &yard.report, &error),
                         HF_CONFLICT);
        assert_non_null(strstr(error.why, "registered to partition default"));
    }
    catalog_tree_close(other);
    ground_close(&yard.ground);
}

/* ---- Requests ------------------------------------------------------------------------ */

static uint64_t requests(struct yard *yard)
{
    struct meter_counts counts[CALL_KIND_COUNT];
    uint64_t sum = 0;
    meter_read(&yard->ground.meter, counts);
    for (size_t i = 0; i < CALL_KIND_COUNT; i++)
        sum += counts[i].calls;
    return sum;
}

static void a_thousand_objects_take_a_read_each_or_none_with_a_manifest(void **state)
{
    for (int described = 0; described < 2; described++) {
        struct yard yard;
        yard_open(&yard, state, NULL, timed());
        put_objects(&yard, "raw/", 1000);
        yard.described = described;
        struct adopt_options options = options_of(&yard, false);
        struct view path = VIEW("raw/");
        meter_reset(&yard.ground.meter);
        assert_status(HF_OK,
                      adopt_paths(yard.ground.beds[0].tree, &path, 1, &options, &yard.report,
                                  &yard.error),
                      &yard.error);
        assert_int_equal(yard.report.added, 1000);
        /* The test itself lists each object to describe it. */
        uint64_t sent = requests(&yard) - (described ? 1000 : 0);
        print_message("%" PRIu64 " requests for 1,000 objects, %s\n", sent,
                      described ? "described" : "read");
        assert_in_range(sent, 1, described ? 40 : 1040);
        ground_close(&yard.ground);
    }
}

/* ---- Versions ------------------------------------------------------------------------ */

static void a_rewritten_object_is_never_read_as_the_adopted_one(void **state)
{
    struct yard yard;
    struct hf_error error;
    yard_open(&yard, state, NULL, timed());
    put_objects(&yard, "raw/", 1);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    struct sought sought = seek(&yard, "raw/object-0000.usv");
    assert_true(sought.found);
    put_row(&yard, "raw/object-0000.usv", 7);
    struct buffer body = BUFFER_INIT(1024);
    const struct chunk chunk = { .key = view_of(sought.key),
                                 .object = VIEW("raw/object-0000.usv"),
                                 .etag = VIEW("no longer") };
    struct get_call call = chunk_get_call(&chunk);
    call.body = &body;
    store_get(yard.ground.store, &call);
    assert_int_equal(chunk_got(&chunk, &call, &error), HF_CORRUPT);
    assert_non_null(strstr(error.why, "rewritten"));
    buffer_release(&body);
    /* The new version is another object. */
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    assert_int_equal(yard.report.added, 1);
    assert_live(&yard, 2);
    ground_close(&yard.ground);
}

static void a_manifest_of_another_version_is_a_conflict(void **state)
{
    struct yard yard;
    yard_open(&yard, state, NULL, timed());
    yard.described = true;
    put_objects(&yard, "raw/", 1);
    put_bytes(&yard.ground, "raw/object-0000.usv",
              VIEW("a1\x1f"
                   "1763200800\nmore\x1f"
                   "1\n"));
    assert_int_equal(adopt(&yard, 0, "raw/", false), HF_CONFLICT);
    assert_non_null(strstr(yard.failed, "the manifest says"));
    assert_live(&yard, 0);
    ground_close(&yard.ground);
}

/* ---- Many at once, and answers that are lost ----------------------------------------- */

struct member {
    struct yard *yard;
    size_t bed;
};

static void adopt_until_done(void *argument)
{
    struct member *member = argument;
    struct yard *yard = member->yard;
    struct adopt_options options = options_of(yard, false);
    struct adopt_report report;
    struct hf_error error;
    struct view path = VIEW("raw/");
    enum hf_status status = HF_UNAVAILABLE;
    options.each = NULL;
    for (int tries = 0; tries < 300 && status != HF_OK; tries++)
        status = adopt_paths(yard->ground.beds[member->bed].tree, &path, 1, &options, &report,
                             &error);
    assert_status(HF_OK, status, &error);
}

static void crowd(void **state, const struct fault_plan *plan)
{
    struct yard yard;
    struct env_task *tasks[CROWD];
    struct member members[CROWD];
    struct hf_error error;
    char key[64];
    yard_open(&yard, state, plan, timed());
    for (unsigned i = 0; i < 12; i++) {
        snprintf(key, sizeof key, "raw/object-%04u.usv", i);
        struct put_call put = { .key = view_of(key),
                                .body = VIEW("a\x1f"
                                             "1763200800\n") };
        while (store_put(yard.ground.store, &put) != HF_OK)
            ;
    }
    for (size_t i = 0; i < CROWD; i++) {
        members[i] = (struct member){ &yard, i };
        assert_status(
            HF_OK, env_task_start(env_real(), adopt_until_done, &members[i], &tasks[i], &error),
            &error);
    }
    for (int i = 0; i < 3; i++) {
        env_sleep(env_real(), SPAN_MS(5));
        catalog_ref_split(slot_of(&yard.ground.beds[CROWD], NULL), &error);
    }
    for (size_t i = 0; i < CROWD; i++)
        env_task_join(env_real(), tasks[i]);
    if (plan)
        store_fault_calm(yard.ground.store);
    struct census census;
    tree_listing_take(&yard.ground.beds[CROWD], &census);
    assert_int_equal(census.live, 12);
    tree_listing_release(&census);
    ground_close(&yard.ground);
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

/* ---- Deleting ------------------------------------------------------------------------ */

static struct maintain_report maintain(struct yard *yard)
{
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    assert_status(HF_OK,
                  maintain_round(yard->ground.beds[1].tree, &options, &report, &yard->error),
                  &yard->error);
    return report;
}

/* Merges these objects, whose chunks are live, into a chunk that nobody reads. */
static void merge_objects(struct yard *yard, const char *const *objects, size_t count)
{
    struct bed *bed = &yard->ground.beds[2];
    struct compact_settings settings = timed();
    char target[KEY_BYTES_MAX + 1];
    struct sought sought[4];
    struct view sources[4];
    for (size_t i = 0; i < count; i++) {
        sought[i] = seek(yard, objects[i]);
        assert_true(sought[i].found);
        sources[i] = view_of(sought[i].key);
    }
    struct catalog_op op = { .kind = CATALOG_COMMIT, .keys = sources, .key_count = count };
    assert_status(HF_OK,
                  chunk_key_draw(env_real(),
                                 &(struct chunk_key_parts){ VIEW("default"), /* level */ 1,
                                                            SOME_HOUR, &settings },
                                 target, &op.drawn, &bed->error),
                  &bed->error);
    op.target = (struct chunk){
        .key = view_of(target), .level = 1, .size = 10, .min_ms = SOME_HOUR, .max_ms = SOME_HOUR
    };
    assert_status(HF_OK, catalog_ref_apply(slot_of(bed, NULL), &op, (struct mono_time){ 0 }),
                  &op.error);
}

static struct compact_settings short_d(int64_t d_ms)
{
    struct compact_settings settings = timed();
    settings.late_bound_ms = d_ms;
    return settings;
}

static void only_what_is_owned_is_deleted_and_only_as_it_was_adopted(void **state)
{
    static const char *const objects[] = { "own/object-0000.usv", "own/object-0001.usv",
                                           "raw/object-0000.usv" };
    struct yard yard;
    yard_open(&yard, state, NULL, short_d(60000));
    put_objects(&yard, "own/", 2);
    put_objects(&yard, "raw/", 1);
    assert_status(HF_OK, adopt(&yard, 0, "own/", true), &yard.error);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    merge_objects(&yard, objects, 3);
    put_row(&yard, "own/object-0001.usv", 50); /* against the promise */
    env_sleep(env_real(), SPAN_MS(5));
    struct maintain_report report = maintain(&yard);
    assert_int_equal(report.reaped, 3);
    assert_int_equal(count_objects(&yard.ground, "own/object-0000"), 0);
    assert_int_equal(count_objects(&yard.ground, "own/object-0001"), 1);
    assert_int_equal(count_objects(&yard.ground, "raw/"), 1);
    /* None of them is adopted again, except the new version. */
    assert_status(HF_OK, adopt(&yard, 0, "own/", true), &yard.error);
    assert_int_equal(yard.report.added, 1);
    assert_status(HF_OK, adopt(&yard, 0, "raw/", false), &yard.error);
    assert_int_equal(yard.report.already, 1);
    ground_close(&yard.ground);
}

static void without_conditional_deletes_an_owned_object_is_deleted_after_d(void **state)
{
    static const char *const objects[] = { "own/object-0000.usv", "own/object-0001.usv" };
    struct yard yard;
    yard_open(&yard, state, NULL, short_d(400));
    yard.ground.store->traits.delete_conditional = false;
    put_objects(&yard, "own/", 2);
    assert_status(HF_OK, adopt(&yard, 0, "own/", true), &yard.error);
    merge_objects(&yard, objects, 2);
    put_row(&yard, "own/object-0001.usv", 50);
    env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(maintain(&yard).reaped, 2);
    assert_int_equal(count_objects(&yard.ground, "own/"), 2);
    env_sleep(env_real(), SPAN_MS(600));
    maintain(&yard);
    assert_int_equal(count_objects(&yard.ground, "own/object-0000"), 0);
    assert_int_equal(count_objects(&yard.ground, "own/object-0001"), 1);
    env_sleep(env_real(), SPAN_MS(600)); /* D is counted again from the deletion */
    assert_int_equal(maintain(&yard).dropped, 2);
    ground_close(&yard.ground);
}

/* ---- The inbox ----------------------------------------------------------------------- */

static struct adopt_report scan(struct yard *yard, struct inbox *inbox, enum hf_status expected)
{
    struct adopt_report report;
    assert_status(expected, inbox_scan(inbox, &report, &yard->error), &yard->error);
    return report;
}

static void an_inbox_adopts_what_two_scans_have_seen_unchanged_and_once(void **state)
{
    struct yard yard;
    struct inbox *inbox;
    struct meter_counts counts[CALL_KIND_COUNT];
    yard_open(&yard, state, NULL, timed());
    struct adopt_options options = options_of(&yard, false);
    struct catalog_tree *tree = yard.ground.beds[0].tree;
    assert_int_equal(inbox_new(tree, VIEW("in"), &options, &inbox, &yard.error), HF_INVALID);
    assert_status(HF_OK, inbox_new(tree, VIEW("in/"), &options, &inbox, &yard.error),
                  &yard.error);
    put_objects(&yard, "in/", 3);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 0); /* they may be half written */
    put_row(&yard, "in/object-0002.usv", 70);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 2);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 1);
    meter_reset(&yard.ground.meter);
    assert_int_equal(scan(&yard, inbox, HF_OK).seen, 0);
    meter_read(&yard.ground.meter, counts);
    assert_int_equal(counts[CALL_GET_FILE].calls, 0);
    assert_live(&yard, 3);
    inbox_free(inbox);
    ground_close(&yard.ground);
}

static void an_inbox_reports_what_it_cannot_read_once_and_leaves_it_there(void **state)
{
    struct yard yard;
    struct inbox *inbox;
    yard_open(&yard, state, NULL, timed());
    struct adopt_options options = options_of(&yard, false);
    assert_status(
        HF_OK, inbox_new(yard.ground.beds[0].tree, VIEW("in/"), &options, &inbox, &yard.error),
        &yard.error);
    put_bytes(&yard.ground, "in/half-0001.usv", VIEW("a1"));
    put_bytes(&yard.ground, "in/empty-0002.usv", VIEW(""));
    scan(&yard, inbox, HF_OK);
    assert_int_equal(scan(&yard, inbox, HF_INVALID).failed, 1);
    assert_int_equal(scan(&yard, inbox, HF_OK).failed, 0);
    assert_int_equal(count_objects(&yard.ground, "in/"), 2);
    put_row(&yard, "in/half-0001.usv", 1); /* its writer finishes */
    scan(&yard, inbox, HF_OK);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 1);
    assert_live(&yard, 1);
    inbox_free(inbox);
    ground_close(&yard.ground);
}

static void an_inbox_is_owned_and_an_object_is_cleared_before_it_is_forgotten(void **state)
{
    static const char *const objects[] = { "in/object-0000.usv" };
    struct yard yard;
    struct inbox *inbox;
    yard_open(&yard, state, NULL, short_d(300));
    struct adopt_options options = options_of(&yard, false);
    assert_status(
        HF_OK, inbox_new(yard.ground.beds[0].tree, VIEW("in/"), &options, &inbox, &yard.error),
        &yard.error);
    put_objects(&yard, "in/", 1);
    scan(&yard, inbox, HF_OK);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 1);
    merge_objects(&yard, objects, 1);
    env_sleep(env_real(), SPAN_MS(5));
    assert_int_equal(maintain(&yard).deleted, 1);
    assert_int_equal(count_objects(&yard.ground, "in/"), 0);
    env_sleep(env_real(), SPAN_MS(500));
    assert_int_equal(maintain(&yard).dropped, 1);
    scan(&yard, inbox, HF_OK);
    assert_int_equal(scan(&yard, inbox, HF_OK).added, 0);
    inbox_free(inbox);
    ground_close(&yard.ground);
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
        ON("only what is owned is deleted and only as it was adopted",
           only_what_is_owned_is_deleted_and_only_as_it_was_adopted),
        ON("without conditional deletes an owned object is deleted after d",
           without_conditional_deletes_an_owned_object_is_deleted_after_d),
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
