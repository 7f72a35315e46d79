/* SPDX-License-Identifier: Apache-2.0 */
/* api_compact_test.c KIND: partitions through the public header only: settings, ingest, plans,
 * passes, chunks, status, fsck. Workers, readers and mergers are in api_worker_test.c. KIND is
 * mem, sqlite or dir. */
#include "api_compact_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- Settings ------------------------------------------------------------------------ */

static void a_partition_is_made_once_and_its_settings_are_read_back(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS, read = HF_COMPACT_SETTINGS;
    desk_open(&desk, NULL);
    assert_status(HF_NOT_FOUND, hf_compact_get_settings(desk.compact, &read, &desk.error),
                  &desk.error);
    settings.key = "1";
    GOOD(&desk, hf_compact_create(desk.compact, &settings, &desk.error));
    GOOD(&desk, hf_compact_create(desk.compact, &settings, &desk.error));
    GOOD(&desk, hf_compact_get_settings(desk.compact, &read, &desk.error));
    assert_string_equal(read.key, "1");
    assert_null(read.time);
    assert_null(read.command);
    assert_int_equal(read.coding, HF_MERGE_PLAIN);
    assert_int_equal(read.command_limit_ms, settings.command_limit_ms);
    assert_int_equal(read.rejects_max, settings.rejects_max);
    assert_int_equal(read.policy, settings.policy);
    /* The initialiser has the defaults; from here to the end there is no padding. */
    size_t from = offsetof(struct hf_compact_settings, level0_count);
    assert_memory_equal((char *)&read + from, (char *)&settings + from, sizeof read - from);
    settings.grace_ms = 7;
    assert_status(HF_CONFLICT, hf_compact_create(desk.compact, &settings, &desk.error),
                  &desk.error);
    desk_close(&desk);
}

static void settings_change_as_long_as_no_chunk_is_made_so(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings(), read = HF_COMPACT_SETTINGS;
    desk_open(&desk, &settings);
    settings.key = "2";
    GOOD(&desk, hf_compact_set(desk.compact, NULL, &settings, &desk.error));
    settings = desk_settings();
    GOOD(&desk, hf_compact_set(desk.compact, NULL, &settings, &desk.error));
    desk_fill(&desk, 1);
    settings.policy = HF_COMPACT_CASCADE;
    settings.coding = HF_MERGE_ZSTD;
    GOOD(&desk, hf_compact_set(desk.compact, NULL, &settings, &desk.error));
    settings.key = "2";
    assert_status(HF_CONFLICT, hf_compact_set(desk.compact, NULL, &settings, &desk.error),
                  &desk.error);
    assert_non_null(strstr(desk.error.why, "key"));
    settings = desk_settings();
    settings.tries_max = 0;
    assert_status(HF_INVALID, hf_compact_set(desk.compact, NULL, &settings, &desk.error),
                  &desk.error);
    settings = desk_settings();
    settings.ttl_ms = -1;
    assert_status(HF_INVALID, hf_compact_set(desk.compact, NULL, &settings, &desk.error),
                  &desk.error);
    settings.ttl_ms = 60000;
    settings.policy = (enum hf_compact_policy)9;
    assert_status(HF_INVALID, hf_compact_set(desk.compact, NULL, &settings, &desk.error),
                  &desk.error);
    GOOD(&desk, hf_compact_get_settings(desk.compact, &read, &desk.error));
    assert_int_equal(read.policy, HF_COMPACT_CASCADE);
    assert_int_equal(read.coding, HF_MERGE_ZSTD);
    assert_string_equal(read.key, "1");
    desk_close(&desk);
}

static void changes_of_two_clients_at_the_same_time_both_hold(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings(), read = HF_COMPACT_SETTINGS;
    desk_open(&desk, &settings);
    GOOD(&desk, hf_compact_get_settings(desk.compact, &read, &desk.error));
    struct hf_compact_settings one = read, two = read;
    one.retention_ms = 86400000;
    one.time = "2";
    one.coding = HF_MERGE_ZSTD;
    two.grace_ms = 7;
    two.policy = HF_COMPACT_CASCADE;
    GOOD(&desk, hf_compact_set(desk.compact, &read, &one, &desk.error));
    GOOD(&desk, hf_compact_set(desk.compact, &read, &two, &desk.error));
    GOOD(&desk, hf_compact_get_settings(desk.compact, &read, &desk.error));
    assert_int_equal(read.retention_ms, 86400000);
    assert_string_equal(read.time, "2");
    assert_int_equal(read.coding, HF_MERGE_ZSTD);
    assert_int_equal(read.grace_ms, 7);
    assert_int_equal(read.policy, HF_COMPACT_CASCADE);
    /* Each is right by itself, but not together: the second is refused as a whole. */
    one = two = read;
    one.backlog_max = 30;
    two.cascade_base = 40;
    two.grace_ms = 8;
    GOOD(&desk, hf_compact_set(desk.compact, &read, &one, &desk.error));
    assert_status(HF_INVALID, hf_compact_set(desk.compact, &read, &two, &desk.error),
                  &desk.error);
    GOOD(&desk, hf_compact_get_settings(desk.compact, &read, &desk.error));
    assert_int_equal(read.backlog_max, 30);
    assert_int_equal(read.grace_ms, 7);
    desk_close(&desk);
}

static void a_partition_that_cannot_be_is_invalid_and_one_that_is_not_is_not_found(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact *other = (struct hf_compact *)(void *)&desk;
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct hf_compact_status status = HF_COMPACT_STATUS;
    const char *relative = "sort";
    desk_open(&desk, NULL);
    assert_status(HF_INVALID,
                  hf_compact_open(desk.client, "Not A Name", NULL, &other, &desk.error),
                  &desk.error);
    assert_null(other);
    options.allow_exec = &relative;
    options.allow_exec_count = 1;
    assert_status(HF_INVALID, hf_compact_open(desk.client, "p", &options, &other, &desk.error),
                  &desk.error);
    const char *path = desk_file(&desk, "a",
                                 "k\x1f"
                                 "1767225601\n");
    assert_status(HF_NOT_FOUND,
                  hf_compact_ingest(desk.compact, &path, 1, NULL, NULL, &desk.error),
                  &desk.error);
    assert_status(HF_NOT_FOUND, hf_compact_pause(desk.compact, "x", "y", &desk.error),
                  &desk.error);
    assert_status(HF_NOT_FOUND, hf_compact_run(desk.compact, NULL, NULL, &desk.error),
                  &desk.error);
    assert_status(HF_NOT_FOUND,
                  hf_compact_plan(desk.compact, false, NULL, NULL, NULL, &desk.error),
                  &desk.error);
    assert_status(HF_NOT_FOUND, hf_compact_get_status(desk.compact, NULL, &status, &desk.error),
                  &desk.error);
    desk_close(&desk);
}

/* ---- Ingest -------------------------------------------------------------------------- */

struct told {
    unsigned count, failed;
    char key[1100];
    char why[HF_WHY_MAX];
    bool more;
};

static bool note_ingested(void *argument, const struct hf_compact_ingested *ingested)
{
    struct told *told = argument;
    told->count++;
    told->failed += ingested->status != HF_OK;
    if (ingested->key)
        snprintf(told->key, sizeof told->key, "%s", ingested->key);
    if (ingested->status != HF_OK)
        snprintf(told->why, sizeof told->why, "%s", ingested->why);
    assert_true(ingested->status != HF_OK || ingested->why[0] == '\0');
    return told->more;
}

static void a_file_comes_in_once_and_one_that_cannot_is_left(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    struct hf_compact_ingest_report report = HF_COMPACT_INGEST_REPORT;
    struct told told = { .more = true };
    desk_open(&desk, &settings);
    const char *paths[] = { desk_file(&desk, "a",
                                      "k\x1f"
                                      "1767225601\n"),
                            desk_file(&desk, "empty", ""),
                            desk_file(&desk, "b",
                                      "l\x1f"
                                      "1767225602\nm\x1f"
                                      "1767225603\n") };
    options.writer = "me";
    options.each = note_ingested;
    options.argument = &told;
    assert_status(HF_INVALID,
                  hf_compact_ingest(desk.compact, paths, 3, &options, &report, &desk.error),
                  &desk.error);
    assert_int_equal(report.added, 2);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.rows, 3);
    assert_int_equal(told.count, 3);
    assert_non_null(strstr(told.why, "empty"));
    told.more = false;
    told.count = 0;
    GOOD(&desk, hf_compact_ingest(desk.compact, paths, 1, &options, &report, &desk.error));
    assert_int_equal(report.already, 1);
    assert_int_equal(report.added, 0);
    options.id = "the same bytes, meant twice";
    GOOD(&desk, hf_compact_ingest(desk.compact, paths, 1, &options, &report, &desk.error));
    assert_int_equal(report.added, 1);
    assert_status(HF_INVALID,
                  hf_compact_ingest(desk.compact, paths, 2, &options, &report, &desk.error),
                  &desk.error);
    assert_int_equal(desk_count(&desk).chunks, 3);
    desk_close(&desk);
}

static bool stop_at_once(void *argument, uint64_t sources_done, uint64_t bytes_done)
{
    (void)argument, (void)sources_done, (void)bytes_done;
    return false;
}

static void ingest_stops_when_it_is_told_to(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    struct hf_compact_ingest_report report = HF_COMPACT_INGEST_REPORT;
    desk_open(&desk, &settings);
    const char *path = desk_file(&desk, "a",
                                 "k\x1f"
                                 "1767225601\n");
    options.progress = stop_at_once;
    assert_status(HF_CANCELLED,
                  hf_compact_ingest(desk.compact, &path, 1, &options, &report, &desk.error),
                  &desk.error);
    assert_int_equal(report.failed, 1);
    assert_int_equal(desk_count(&desk).chunks, 0);
    options.wait_ms = -1;
    assert_status(HF_INVALID,
                  hf_compact_ingest(desk.compact, &path, 1, &options, &report, &desk.error),
                  &desk.error);
    desk_close(&desk);
}

static void put_object(struct desk *desk, const char *key, const char *text)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    options.force = true; /* catalogs too */
    GOOD(desk, hf_store_put(hf_client_store(desk->client), key, text, strlen(text), &options,
                            NULL, &desk->error));
}

static void objects_of_the_bucket_become_chunks_and_stay_as_they_are(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    struct hf_compact_ingest_report report = HF_COMPACT_INGEST_REPORT;
    struct told told = { .more = true };
    void *data;
    size_t size;
    desk_open(&desk, &settings);
    put_object(&desk, "one.usv",
               "k\x1f"
               "1767225601\n");
    put_object(&desk, "two.usv",
               "l\x1f"
               "1767225602\n");
    put_object(&desk, "bad.usv", "no time\n");
    options.each = note_ingested;
    options.argument = &told;
    const char *keys[] = { "one.usv", "two.usv" };
    GOOD(&desk,
         hf_compact_ingest_objects(desk.compact, keys, 2, &options, &report, &desk.error));
    assert_int_equal(report.added, 2);
    assert_int_equal(report.rows, 2);
    GOOD(&desk,
         hf_compact_ingest_objects(desk.compact, keys, 2, &options, &report, &desk.error));
    assert_int_equal(report.already, 2);
    GOOD(&desk, hf_store_get(hf_client_store(desk.client), "one.usv", 100, NULL, &data, &size,
                             NULL, &desk.error));
    hf_free(data);
    keys[0] = "bad.usv";
    keys[1] = "not/there";
    assert_status(HF_INVALID,
                  hf_compact_ingest_objects(desk.compact, keys, 2, &options, &report,
                                            &desk.error),
                  &desk.error);
    assert_int_equal(report.failed, 2);
    assert_ptr_equal(strstr(desk.error.why, desk.folder), NULL); /* but by its key */
    assert_non_null(strstr(desk.error.why, "bad.usv"));
    assert_non_null(strstr(told.why, "not/there"));
    struct counted counted = desk_count(&desk);
    keys[0] = counted.first; /* a chunk would be counted twice */
    assert_status(HF_INVALID,
                  hf_compact_ingest_objects(desk.compact, keys, 1, NULL, NULL, &desk.error),
                  &desk.error);
    assert_int_equal(counted.chunks, 2);
    desk_close(&desk);
}

/* ---- Plans and passes ---------------------------------------------------------------- */

struct seen_group {
    unsigned groups;
    size_t sources;
    bool more;
};

static bool note_group(void *argument, const struct hf_compact_group *group)
{
    struct seen_group *seen = argument;
    seen->groups++;
    seen->sources += group->source_count;
    for (size_t i = 0; i < group->source_count; i++)
        assert_memory_equal(group->sources[i], "data/p/L0/", 10);
    assert_string_equal(group->partition, "p");
    return seen->more;
}

static void a_plan_lists_what_a_pass_then_does(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_plan_report report = HF_COMPACT_PLAN_REPORT;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct seen_group seen = { .more = true };
    bool start = true;
    desk_open(&desk, &settings);
    desk_fill(&desk, 2);
    GOOD(&desk, hf_compact_should_start(desk.compact, &start, NULL, &desk.error));
    assert_false(start);
    GOOD(&desk, hf_compact_plan(desk.compact, /* force */ true, note_group, &seen, &report,
                                &desk.error));
    assert_int_equal(report.groups, 1);
    desk_fill(&desk, 4);
    seen = (struct seen_group){ .more = true };
    GOOD(&desk, hf_compact_plan(desk.compact, false, note_group, &seen, &report, &desk.error));
    assert_int_equal(report.groups, seen.groups);
    assert_int_equal(report.chunks, seen.sources);
    assert_int_equal(report.chunks, 6);
    assert_int_equal(report.rows, 6);
    assert_true(report.requests > report.groups);
    seen = (struct seen_group){ .more = false };
    GOOD(&desk, hf_compact_plan(desk.compact, false, note_group, &seen, &report, &desk.error));
    assert_int_equal(seen.groups, 1);
    GOOD(&desk, hf_compact_should_start(desk.compact, &start, &report, &desk.error));
    assert_true(start);
    GOOD(&desk, hf_compact_run(desk.compact, NULL, &totals, &desk.error));
    assert_int_equal(totals.rows_in, 6);
    assert_int_equal(totals.rows_out, 6);
    assert_int_equal(desk_count(&desk).rows, 6);
    assert_true(desk_count(&desk).chunks < 6);
    GOOD(&desk, hf_compact_should_start(desk.compact, &start, &report, &desk.error));
    assert_false(start);
    desk_close(&desk);
}

static void a_pause_keeps_workers_from_merging_until_it_is_resumed(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_plan_report report = HF_COMPACT_PLAN_REPORT;
    struct hf_compact_status status = HF_COMPACT_STATUS;
    bool start = true;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_pause(desk.compact, "a restore", "ann", &desk.error));
    GOOD(&desk, hf_compact_should_start(desk.compact, &start, &report, &desk.error));
    assert_false(start);
    assert_true(report.paused);
    assert_non_null(strstr(report.why, "a restore"));
    assert_status(HF_UNAVAILABLE, hf_compact_run(desk.compact, NULL, NULL, &desk.error),
                  &desk.error);
    GOOD(&desk, hf_compact_get_status(desk.compact, NULL, &status, &desk.error));
    assert_true(status.paused);
    GOOD(&desk, hf_compact_resume(desk.compact, &desk.error));
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 1);
    desk_close(&desk);
}

/* ---- Chunks -------------------------------------------------------------------------- */

static void a_merge_is_taken_back_within_its_grace(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    uint64_t restored = 0;
    settings.grace_ms = 3600000;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    struct counted counted = desk_count(&desk);
    assert_int_equal(counted.chunks, 1);
    assert_int_equal(counted.tombstones, 3);
    assert_status(HF_NOT_FOUND,
                  hf_compact_undelete(desk.compact, counted.first, NULL, &desk.error),
                  &desk.error);
    GOOD(&desk, hf_compact_undelete(desk.compact, counted.grave, &restored, &desk.error));
    assert_int_equal(restored, 3);
    assert_int_equal(desk_count(&desk).chunks, 3);
    assert_int_equal(desk_count(&desk).rows, 3);
    desk_close(&desk);
}

static bool stop_after_one(void *argument, const struct hf_chunk_info *chunk)
{
    assert_true(chunk->quarantine[0] != '\0');
    ++*(unsigned *)argument;
    return false;
}

static void a_quarantined_chunk_is_left_out_until_it_is_released(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_status status = HF_COMPACT_STATUS;
    unsigned seen = 0;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    struct counted counted = desk_count(&desk);
    GOOD(&desk, hf_compact_quarantine(desk.compact, counted.first, "it smells", &desk.error));
    assert_int_equal(desk_count(&desk).quarantined, 1);
    GOOD(&desk, hf_compact_chunks(desk.compact, HF_CHUNKS_QUARANTINED, stop_after_one, &seen,
                                  &desk.error));
    assert_int_equal(seen, 1);
    GOOD(&desk, hf_compact_get_status(desk.compact, NULL, &status, &desk.error));
    assert_int_equal(status.quarantined, 1);
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 3);
    GOOD(&desk, hf_compact_unquarantine(desk.compact, counted.first, &desk.error));
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    assert_int_equal(desk_count(&desk).chunks, 1);
    assert_status(HF_NOT_FOUND,
                  hf_compact_quarantine(desk.compact, "data/p/L0/none", "x", &desk.error),
                  &desk.error);
    assert_status(HF_INVALID,
                  hf_compact_quarantine(desk.compact, counted.first, "", &desk.error),
                  &desk.error);
    desk_close(&desk);
}

/* A callback may ask for anything, the same partition too. */
static bool ask_within(void *argument, const struct hf_chunk_info *chunk)
{
    struct desk *desk = argument;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    GOOD(desk, hf_compact_get_settings(desk->compact, &settings, &desk->error));
    GOOD(desk, hf_compact_quarantine(desk->compact, chunk->key, "from within", &desk->error));
    return true;
}

static void a_callback_may_ask_the_partition_itself(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    desk_open(&desk, &settings);
    desk_fill(&desk, 2);
    GOOD(&desk,
         hf_compact_chunks(desk.compact, HF_CHUNKS_LIVE, ask_within, &desk, &desk.error));
    assert_int_equal(desk_count(&desk).quarantined, 2);
    desk_close(&desk);
}

/* ---- Status -------------------------------------------------------------------------- */

struct lists {
    unsigned jobs, records, catalogs, members;
};

static bool note_record(void *argument, const struct hf_compact_record *record)
{
    assert_string_equal(record->end, hf_compact_end_name(HF_COMPACT_END_COMMITTED));
    ((struct lists *)argument)->records++;
    return true;
}

static bool note_catalog(void *argument, const struct hf_compact_catalog *catalog)
{
    assert_string_equal(catalog->partition, "p");
    ((struct lists *)argument)->catalogs++;
    return true;
}

static void status_counts_levels_and_lists_what_was_done(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_status status = HF_COMPACT_STATUS;
    struct hf_compact_status_options options = HF_COMPACT_STATUS_OPTIONS;
    struct lists lists = { 0 };
    settings.grace_ms = 3600000;
    desk_open(&desk, &settings);
    desk_fill(&desk, 4);
    options.each_record = note_record;
    options.each_catalog = note_catalog;
    options.argument = &lists;
    GOOD(&desk, hf_compact_get_status(desk.compact, &options, &status, &desk.error));
    assert_int_equal(status.levels[0].chunks, 4);
    assert_int_equal(status.levels[0].rows, 4);
    assert_int_equal(status.due_groups, 1);
    assert_int_equal(status.backlog_max, settings.backlog_max);
    GOOD(&desk, hf_compact_run(desk.compact, NULL, NULL, &desk.error));
    lists = (struct lists){ 0 };
    GOOD(&desk, hf_compact_get_status(desk.compact, &options, &status, &desk.error));
    assert_int_equal(status.committed, 1);
    assert_int_equal(lists.records, 1);
    assert_int_equal(lists.catalogs, 1);
    assert_int_equal(status.catalogs, 1);
    assert_int_equal(status.levels[1].chunks, 1);
    assert_true(status.tombstones >= 3);
    assert_false(status.paused || status.barred || status.damaged || status.exec_denied);
    desk_close(&desk);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void note_trouble(void *argument, const struct hf_compact_trouble *trouble)
{
    assert_int_equal(trouble->status, HF_CORRUPT);
    assert_string_equal(trouble->part, "p");
    assert_true(trouble->why[0] != '\0');
    ++*(unsigned *)argument;
}

static bool see_none(void *argument, const struct hf_chunk_info *chunk)
{
    (void)argument, (void)chunk;
    fail_msg("a chunk of a catalog that cannot be read");
    return true;
}

static void a_catalog_that_cannot_be_read_is_told_and_left_as_it_is(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct hf_compact *compact;
    struct hf_compact_reader *reader;
    unsigned troubles = 0;
    desk_open(&desk, &settings);
    desk_fill(&desk, 1);
    put_object(&desk, "metadata/p/catalog.json", "what is this?");
    options.trouble = note_trouble;
    options.argument = &troubles;
    GOOD(&desk, hf_compact_open(desk.client, "p", &options, &compact, &desk.error));
    assert_status(HF_CORRUPT,
                  hf_compact_chunks(compact, HF_CHUNKS_LIVE, see_none, NULL, &desk.error),
                  &desk.error);
    assert_int_equal(troubles, 1);
    assert_status(HF_CORRUPT, hf_compact_reader_open(compact, NULL, &reader, &desk.error),
                  &desk.error);
    assert_null(reader);
    assert_status(HF_CORRUPT, hf_compact_set(compact, NULL, &settings, &desk.error),
                  &desk.error);
    GOOD(&desk, hf_compact_pause(compact, "look at it first", NULL, &desk.error));
    hf_compact_close(compact);
    desk_close(&desk);
}

static void a_command_of_the_bucket_runs_only_where_it_is_allowed(void **state)
{
    (void)state;
    static const char *const programs[] = { "/usr/bin/sort" };
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct hf_compact_status status = HF_COMPACT_STATUS;
    struct hf_compact_plan_report report = HF_COMPACT_PLAN_REPORT;
    struct hf_compact *allowed;
    settings.command = "sort -o {output} {inputs}";
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    GOOD(&desk, hf_compact_get_status(desk.compact, NULL, &status, &desk.error));
    assert_true(status.exec_denied && status.exec_why[0] != '\0');
    GOOD(&desk, hf_compact_plan(desk.compact, false, NULL, NULL, &report, &desk.error));
    assert_true(report.why[0] != '\0');
    assert_status(HF_DENIED, hf_compact_run(desk.compact, NULL, NULL, &desk.error),
                  &desk.error);
    options.allow_exec = programs;
    options.allow_exec_count = 1;
    options.scratch_folder = desk.folder;
    GOOD(&desk, hf_compact_open(desk.client, "p", &options, &allowed, &desk.error));
    GOOD(&desk, hf_compact_run(allowed, NULL, NULL, &desk.error));
    hf_compact_close(allowed);
    assert_int_equal(desk_count(&desk).chunks, 1);
    assert_int_equal(desk_count(&desk).rows, 3);
    desk_close(&desk);
}

/* ---- Fsck ---------------------------------------------------------------------------- */

struct findings {
    unsigned count;
    enum hf_fsck_kind kind;
    bool more;
};

static bool note_finding(void *argument, const struct hf_fsck_finding *finding)
{
    struct findings *findings = argument;
    findings->count++;
    findings->kind = finding->kind;
    assert_true(finding->key[0] != '\0');
    return findings->more;
}

static bool never(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                  uint64_t bytes_done)
{
    (void)argument, (void)chunks_done, (void)chunks_total, (void)bytes_done;
    return false;
}

static void fsck_finds_nothing_in_a_sound_bucket_and_what_is_missing_in_another(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    struct hf_fsck_options options = HF_FSCK_OPTIONS;
    struct hf_fsck_report report = HF_FSCK_REPORT;
    struct findings findings = { .more = true };
    struct hf_store_delete_options removal = HF_STORE_DELETE_OPTIONS;
    desk_open(&desk, &settings);
    desk_fill(&desk, 3);
    options.finding = note_finding;
    options.argument = &findings;
    options.age_ms = -1;
    GOOD(&desk, hf_compact_fsck(desk.client, NULL, &options, &report, &desk.error));
    assert_int_equal(report.found, 0);
    assert_int_equal(report.chunks, 3);
    assert_int_equal(report.rows, 3);
    assert_int_equal(report.catalogs, 1);
    GOOD(&desk, hf_compact_fsck(desk.client, "p", NULL, NULL, &desk.error));
    assert_status(HF_NOT_FOUND, hf_compact_fsck(desk.client, "q", NULL, NULL, &desk.error),
                  &desk.error);
    options.progress = never;
    assert_status(HF_CANCELLED, hf_compact_fsck(desk.client, "p", &options, NULL, &desk.error),
                  &desk.error);
    removal.force = true;
    GOOD(&desk, hf_store_delete(hf_client_store(desk.client), desk_count(&desk).first, &removal,
                                &desk.error));
    options.progress = NULL;
    GOOD(&desk, hf_compact_fsck(desk.client, "p", &options, &report, &desk.error));
    assert_int_equal(findings.count, 1);
    assert_int_equal(findings.kind, HF_FSCK_MISSING_OBJECT);
    assert_int_equal(report.found, 1);
    options.repair = true;
    GOOD(&desk, hf_compact_fsck(desk.client, "p", &options, &report, &desk.error));
    assert_int_equal(report.repaired, 1);
    assert_int_equal(desk_count(&desk).quarantined, 1);
    desk_close(&desk);
}

static void every_table_has_its_names(void **state)
{
    (void)state;
    struct hf_error error;
    enum hf_compact_policy policy;
    for (int i = 0; i < HF_FSCK_KIND_COUNT; i++) {
        assert_true(hf_fsck_kind_name((enum hf_fsck_kind)i)[0] != '\0');
        assert_true(hf_fsck_kind_text((enum hf_fsck_kind)i)[0] != '\0');
    }
    assert_string_equal(hf_fsck_kind_name((enum hf_fsck_kind)99), "unknown");
    assert_string_equal(hf_chunk_state_name(HF_CHUNK_TOMBSTONE), "tombstone");
    assert_string_equal(hf_compact_event_name(HF_COMPACT_NEEDED), "needed");
    assert_string_equal(hf_compact_end_name(HF_COMPACT_END_LOST), "lost");
    assert_string_equal(hf_compact_end_name((enum hf_compact_end)99), "unknown");
    assert_status(HF_OK, hf_compact_policy_parse("cascade", &policy, &error), &error);
    assert_string_equal(hf_compact_policy_name(policy), "cascade");
    assert_status(HF_INVALID, hf_compact_policy_parse("other", &policy, &error), &error);
}

int main(int argc, char **argv)
{
    if (!desk_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_is_made_once_and_its_settings_are_read_back),
        cmocka_unit_test(settings_change_as_long_as_no_chunk_is_made_so),
        IT("changes of two clients at the same time both hold",
           changes_of_two_clients_at_the_same_time_both_hold),
        cmocka_unit_test(
            a_partition_that_cannot_be_is_invalid_and_one_that_is_not_is_not_found),
        cmocka_unit_test(a_file_comes_in_once_and_one_that_cannot_is_left),
        cmocka_unit_test(ingest_stops_when_it_is_told_to),
        cmocka_unit_test(objects_of_the_bucket_become_chunks_and_stay_as_they_are),
        cmocka_unit_test(a_plan_lists_what_a_pass_then_does),
        cmocka_unit_test(a_pause_keeps_workers_from_merging_until_it_is_resumed),
        cmocka_unit_test(a_merge_is_taken_back_within_its_grace),
        cmocka_unit_test(a_quarantined_chunk_is_left_out_until_it_is_released),
        cmocka_unit_test(a_callback_may_ask_the_partition_itself),
        cmocka_unit_test(status_counts_levels_and_lists_what_was_done),
        cmocka_unit_test(a_catalog_that_cannot_be_read_is_told_and_left_as_it_is),
        cmocka_unit_test(a_command_of_the_bucket_runs_only_where_it_is_allowed),
        cmocka_unit_test(fsck_finds_nothing_in_a_sound_bucket_and_what_is_missing_in_another),
        cmocka_unit_test(every_table_has_its_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
