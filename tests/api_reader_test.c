/* SPDX-License-Identifier: Apache-2.0 */
/* api_reader_test.c KIND: snapshots and exports by the public header (holdfast/reader.h): what is
 * read does not depend on what is merged or deleted meanwhile. KIND is mem, sqlite or dir. */
#include "api_compact_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct hf_compact_reader *open_reader(struct desk *desk)
{
    struct hf_compact_reader *reader;
    GOOD(desk, hf_compact_reader_open(desk->compact, NULL, &reader, &desk->error));
    return reader;
}

static void ingest(struct desk *desk, const char *name, const char *text)
{
    const char *path = desk_file(desk, name, text);
    GOOD(desk, hf_compact_ingest(desk->compact, &path, 1, NULL, NULL, &desk->error));
}

/* The exported bytes; the caller frees them. */
static char *export_text(struct desk *desk, struct hf_compact_reader *reader,
                         const struct hf_compact_export_options *options,
                         struct hf_compact_export_report *report)
{
    char path[700];
    snprintf(path, sizeof path, "%s/exported", desk->folder);
    const struct hf_merge_file output = { path, -1 };
    GOOD(desk, hf_compact_reader_export(reader, &output, options, report, &desk->error));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) < (1 << 20) - 1);
    fclose(file);
    unlink(path);
    return text;
}

#define US "\x1f"

static void open_filled(struct desk *desk)
{
    struct hf_compact_settings settings = desk_settings();
    desk_open(desk, &settings);
    ingest(desk, "1.usv", "a" US "100" US "old\nb" US "100" US "only\n");
    ingest(desk, "2.usv", "c" US "300" US "three\na" US "200" US "new\n"); /* not in order */
}

static void an_export_is_the_latest_of_each_key(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_export_report report = HF_COMPACT_EXPORT_REPORT;
    open_filled(&desk);
    struct hf_compact_reader *reader = open_reader(&desk);
    char *text = export_text(&desk, reader, NULL, &report);
    assert_string_equal(text,
                        "a" US "200" US "new\nb" US "100" US "only\nc" US "300" US "three\n");
    free(text);
    assert_int_equal(report.chunks, 2);
    assert_int_equal(report.rows_in, 4);
    assert_int_equal(report.rows_out, 3);
    assert_int_equal(report.rows_superseded, 1);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void it_is_the_same_while_chunks_are_merged_and_deleted(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_worker_options worker = HF_COMPACT_WORKER_OPTIONS;
    open_filled(&desk);
    desk_fill(&desk, 6);
    struct hf_compact_reader *reader = open_reader(&desk);
    char *before = export_text(&desk, reader, NULL, NULL);
    worker.mode = HF_COMPACT_DRAIN;
    worker.force = true;
    for (int i = 0; i < 3; i++) {
        ingest(&desk, "more.usv",
               i == 0   ? "x" US "900" US "1\n"
               : i == 1 ? "y" US "900" US "2\n"
                        : "z" US "900" US "3\n");
        GOOD(&desk, hf_compact_run(desk.compact, &worker, NULL, &desk.error));
    }
    char *after = export_text(&desk, reader, NULL, NULL);
    assert_string_equal(before, after);
    GOOD(&desk, hf_compact_reader_check(reader, &desk.error));
    hf_compact_reader_close(reader);
    free(before);
    free(after);
    desk_close(&desk);
}

static void records_are_filtered_and_converted(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_export_report report = HF_COMPACT_EXPORT_REPORT;
    struct hf_compact_export_options options = HF_COMPACT_EXPORT_OPTIONS;
    open_filled(&desk);
    struct hf_compact_reader *reader = open_reader(&desk);
    options.convert = true;
    options.format = HF_MERGE_CSV;
    options.key_prefix = "a";
    char *text = export_text(&desk, reader, &options, &report);
    assert_string_equal(text, "a,200,new\n");
    assert_int_equal(report.rows_unselected, 2);
    free(text);
    options.key_prefix = NULL;
    options.until_ms = 200000; /* the older record of a does not come back */
    text = export_text(&desk, reader, &options, &report);
    assert_string_equal(text, "b,100,only\n");
    free(text);
    options.until_ms = INT64_MAX;
    options.since_ms = 250000;
    options.format = HF_MERGE_NDJSON;
    text = export_text(&desk, reader, &options, &report);
    assert_string_equal(text, "{\"1\":\"c\",\"2\":\"300\",\"3\":\"three\"}\n");
    free(text);
    assert_int_equal(report.skipped, 1); /* its newest record is too old */
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

struct seen {
    char text[256];
    unsigned left;
};

static bool see_row(void *argument, const struct hf_compact_row *row)
{
    struct seen *seen = argument;
    size_t at = strlen(seen->text);
    assert_true(row->has_time);
    snprintf(seen->text + at, sizeof seen->text - at, "%.*s@%lld;", (int)row->key_size,
             row->key, (long long)row->time_ms);
    return --seen->left > 0;
}

static void a_callback_gets_each_record(void **state)
{
    (void)state;
    struct desk desk;
    struct seen all = { .left = 10 }, one = { .left = 1 };
    open_filled(&desk);
    struct hf_compact_reader *reader = open_reader(&desk);
    GOOD(&desk, hf_compact_reader_rows(reader, see_row, &all, NULL, NULL, &desk.error));
    assert_string_equal(all.text, "a@200000;b@100000;c@300000;");
    GOOD(&desk, hf_compact_reader_rows(reader, see_row, &one, NULL, NULL, &desk.error));
    assert_string_equal(one.text, "a@200000;");
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static bool stop_at_once(void *argument, const struct hf_compact_export_progress *progress)
{
    (void)argument;
    (void)progress;
    return false;
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct desk desk;
    const struct hf_merge_file output = { "/nonexistent/folder/file", -1 };
    open_filled(&desk);
    struct hf_compact_reader *reader = open_reader(&desk);
    const struct hf_compact_export_options usual = HF_COMPACT_EXPORT_OPTIONS;
    struct hf_compact_export_options options = usual;
    options.convert = true;
    options.format = HF_MERGE_EXEC;
    assert_status(HF_INVALID,
                  hf_compact_reader_export(reader, &output, &options, NULL, &desk.error),
                  &desk.error);
    options = usual;
    options.since_ms = 2;
    options.until_ms = 1;
    assert_status(HF_INVALID,
                  hf_compact_reader_export(reader, &output, &options, NULL, &desk.error),
                  &desk.error);
    assert_int_not_equal(hf_compact_reader_export(reader, &output, NULL, NULL, &desk.error),
                         HF_OK);
    options = usual;
    options.progress = stop_at_once;
    FILE *file = tmpfile();
    assert_non_null(file);
    const struct hf_merge_file somewhere = { NULL, fileno(file) };
    assert_status(HF_CANCELLED,
                  hf_compact_reader_export(reader, &somewhere, &options, NULL, &desk.error),
                  &desk.error);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

static void an_empty_partition_gives_an_empty_file(void **state)
{
    (void)state;
    struct desk desk;
    struct hf_compact_settings settings = desk_settings();
    desk_open(&desk, &settings);
    struct hf_compact_reader *reader = open_reader(&desk);
    char *text = export_text(&desk, reader, NULL, NULL);
    assert_string_equal(text, "");
    free(text);
    hf_compact_reader_close(reader);
    desk_close(&desk);
}

struct leases {
    char text[4][HF_LEASE_TEXT_MAX];
    size_t count;
};

static void note_lease(void *argument, const char *lease)
{
    struct leases *leases = argument;
    assert_true(leases->count < 4);
    snprintf(leases->text[leases->count++], HF_LEASE_TEXT_MAX, "%s", lease);
}

static uint64_t count_pins(struct desk *desk)
{
    struct hf_compact_status status = HF_COMPACT_STATUS;
    GOOD(desk, hf_compact_get_status(desk->compact, NULL, &status, &desk->error));
    return status.pins;
}

static void a_detached_snapshot_stays_pinned(void **state)
{
    (void)state;
    struct desk desk;
    struct leases leases = { .count = 0 };
    struct hf_lock *lock;
    open_filled(&desk);
    GOOD(&desk, hf_compact_reader_detach(open_reader(&desk), note_lease, &leases, &desk.error));
    assert_int_equal(leases.count, 1);
    assert_int_equal(count_pins(&desk), 1);
    GOOD(&desk, hf_lock_adopt(desk.client, leases.text[0], NULL, &lock, &desk.error));
    GOOD(&desk, hf_lock_release(lock, &desk.error));
    hf_lock_free(lock);
    assert_int_equal(count_pins(&desk), 0);
    desk_close(&desk);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("an export is the latest record of each key", an_export_is_the_latest_of_each_key),
        IT("a snapshot gives the same records while chunks are merged and deleted",
           it_is_the_same_while_chunks_are_merged_and_deleted),
        IT("records are filtered after the merge, and converted",
           records_are_filtered_and_converted),
        IT("a callback gets each record, and can stop", a_callback_gets_each_record),
        IT("what makes no sense is refused, and a stop leaves nothing",
           what_makes_no_sense_is_refused),
        IT("an empty partition gives an empty file", an_empty_partition_gives_an_empty_file),
        IT("a detached snapshot stays pinned until its leases are released",
           a_detached_snapshot_stays_pinned),
    };
    if (!desk_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
