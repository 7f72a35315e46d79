/* SPDX-License-Identifier: Apache-2.0 */
/* api_index_work_test.c KIND: the promises of holdfast/index.h about files of records,
 * compiling and status, tested through the public headers only. KIND is mem or sqlite. */
#include "api_index_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files --------------------------------------------------------------------------- */

static void formats_are_told_by_the_end_of_a_name(void **state)
{
    (void)state;
    enum hf_index_format format;
    for (unsigned i = 0; i < HF_INDEX_FORMAT_COUNT; i++) {
        char path[40];
        snprintf(path, sizeof path, "all.%s", hf_index_format_name((enum hf_index_format)i));
        assert_true(hf_index_format_of_path(path, &format));
        assert_int_equal(format, i);
    }
    assert_true(hf_index_format_of_path("x.jsonl", &format));
    assert_int_equal(format, HF_INDEX_NDJSON);
    assert_false(hf_index_format_of_path("x.txt", &format));
    assert_string_equal(hf_index_format_name(HF_INDEX_FORMAT_COUNT), "unknown");
}

static void each_format_is_read_back_to_the_same_records(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place), *other;
    struct hf_index_options options = hosts_options(3);
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    OK(hosts_put(place, index, "a", "line\nquote\"tab\tcomma,", T1));
    OK(hosts_put(place, index, "b", "\xc3\xa4\x1f\x1b", T2));
    for (unsigned i = 0; i < HF_INDEX_FORMAT_COUNT; i++) {
        struct hf_index_load_report report = HF_INDEX_LOAD_REPORT;
        char name[] = "copy0";
        int fd = place_file(place, "");
        name[4] = (char)('0' + i);
        OK(hf_index_export(index, NULL, fd, (enum hf_index_format)i, &progress, &place->error));
        assert_int_equal(progress.records, 2);
        lseek(fd, 0, SEEK_SET);
        OK(hf_index_create(place->client, name, &options, NULL, &other, &place->error));
        OK(hf_index_load(other, fd, (enum hf_index_format)i, NULL, &report, &place->error));
        assert_int_equal(report.records, 2);
        assert_true(report.complete && report.refused == 0 && report.bytes_read > 0);
        assert_owner(place, other, "a", "line\nquote\"tab\tcomma,");
        assert_owner(place, other, "b", "\xc3\xa4\x1f\x1b");
        hf_index_close(other);
        close(fd);
    }
    hf_index_close(index);
}

static void a_file_is_what_header_and_texts_are_together(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_record *record;
    size_t size;
    OK(hosts_put(place, index, "a", "x,y", T1));
    OK(hf_index_get(index, "a", &record, &place->error));
    for (unsigned i = 0; i < HF_INDEX_FORMAT_COUNT; i++) {
        char *header, whole[300];
        int fd = place_file(place, "");
        OK(hf_index_export(index, NULL, fd, (enum hf_index_format)i, NULL, &place->error));
        OK(hf_index_header(index, (enum hf_index_format)i, &header, &place->error));
        const char *text = hf_index_record_text(record, (enum hf_index_format)i, true, &size);
        snprintf(whole, sizeof whole, "%s%.*s", header, (int)size, text);
        char *file = place_read(fd);
        assert_string_equal(file, whole);
        free(file);
        hf_free(header);
        close(fd);
    }
    hf_index_record_free(record);
    hf_index_close(index);
}

struct told {
    uint64_t lines[8];
    size_t count;
    int cancel_after;
};

static void note_refused(void *argument, uint64_t line, const struct hf_error *why)
{
    struct told *told = argument;
    assert_int_equal(why->status, HF_INVALID);
    told->lines[told->count++] = line;
}

static bool go_on(void *argument, const struct hf_index_load_report *so_far)
{
    struct told *told = argument;
    (void)so_far;
    return told->cancel_after == 0 || --told->cancel_after > 0;
}

static void rows_that_are_no_records_are_refused_and_the_others_put(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_load_options options = HF_INDEX_LOAD_OPTIONS;
    struct hf_index_load_report report = HF_INDEX_LOAD_REPORT;
    struct told told = { .count = 0 };
    options.refused = note_refused;
    options.argument = &told;
    int fd = place_file(place, "host,seen\na," T1 "\n,x\nb," T1 "\nc,soon\nd," T1 "\n");
    IS(HF_INVALID, hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    assert_non_null(strstr(place->error.why, "2 rows were refused, 3 put"));
    assert_int_equal(report.records, 3);
    assert_int_equal(report.refused, 2);
    assert_int_equal(report.up_to_line, 6);
    assert_true(report.complete);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.lines[0], 3);
    assert_int_equal(told.lines[1], 5);
    assert_string_equal(hosts_found(place, index, NULL), "a b d");
    close(fd);
    fd = place_file(place, "hst,seen\nz," T1 "\n");
    IS(HF_INVALID, hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    assert_non_null(strstr(place->error.why, "the header"));
    assert_false(report.complete);
    assert_int_equal(report.records, 0);
    close(fd);
    hf_index_close(index);
}

static void a_load_goes_straight_into_shards_when_asked(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_load_options options = HF_INDEX_LOAD_OPTIONS;
    struct hf_index_load_report report = HF_INDEX_LOAD_REPORT;
    struct hf_index_stats stats = HF_INDEX_STATS;
    static char text[40000] = "host,owner,seen\n";
    uint64_t count;
    for (int i = 0; i < 500; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "h%d,ada," T1 "\n", i);
    int fd = place_file(place, text);
    options.straight = true;
    OK(hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    assert_int_equal(report.records, 500);
    assert_int_equal(report.straight + report.few, 500);
    assert_true(report.straight > 400 && report.shards > 10);
    assert_int_equal(report.held + report.damaged, 0);
    OK(hf_index_status(index, NULL, &stats, &place->error));
    assert_int_equal(stats.entries, report.few);
    assert_int_equal(stats.records, report.straight);
    OK(hf_index_count(index, NULL, &count, &place->error));
    assert_int_equal(count, 500);
    close(fd);
    hf_index_close(index);
}

static void a_load_is_cancelled_by_progress(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_load_options options = HF_INDEX_LOAD_OPTIONS;
    struct hf_index_load_report report = HF_INDEX_LOAD_REPORT;
    struct told told = { .cancel_after = 1 };
    options.progress = go_on;
    options.argument = &told;
    int fd = place_file(place, "host,seen\na," T1 "\n");
    IS(HF_CANCELLED, hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    assert_false(report.complete);
    options.wait_ms = -1;
    IS(HF_INVALID, hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    options = HF_INDEX_LOAD_OPTIONS;
    IS(HF_INVALID, hf_index_load(index, fd, HF_INDEX_FORMAT_COUNT, &options, NULL, NULL));
    close(fd);
    hf_index_close(index);
}

static void a_file_that_cannot_be_read_or_written_is_told(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    OK(hosts_put(place, index, "a", "ada", T1));
    assert_int_not_equal(hf_index_load(index, -1, HF_INDEX_CSV, NULL, NULL, &place->error),
                         HF_OK);
    assert_int_not_equal(hf_index_export(index, NULL, -1, HF_INDEX_CSV, NULL, &place->error),
                         HF_OK);
    assert_non_null(strstr(place->error.why, "cannot write the records"));
    hf_index_close(index);
}

/* ---- Compiling and status ------------------------------------------------------------ */

struct shards {
    uint64_t done, entries;
    int goes_on;
    struct hf_index *index;
    struct place *place;
};

static void note_shard(void *argument, const struct hf_index_shard *shard)
{
    struct shards *shards = argument;
    assert_int_equal(strlen(shard->shard), 1);
    if (shard->end == HF_INDEX_END_DONE) {
        shards->done++;
        shards->entries += shard->folded.entries;
        assert_true(shard->records > 0 && shard->bytes > 0 && shard->token > 0);
        assert_int_equal(shard->why->status, HF_OK);
        assert_string_equal(shard->first_aside, "");
    }
}

static void a_compile_folds_all_and_tells_of_each_shard(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct hf_index_stats stats = HF_INDEX_STATS;
    struct shards shards = { .done = 0 };
    OK(hosts_put(place, index, "a", "old", T1));
    OK(hosts_put(place, index, "a", "new", T2));
    OK(hosts_put(place, index, "b", "ada", T1));
    OK(hf_index_status(index, NULL, &stats, &place->error));
    assert_int_equal(stats.entries, 3);
    assert_int_equal(stats.shards, 0);
    assert_int_equal(stats.records, -1);
    assert_true(stats.oldest_ms > INT64_C(1600000000000));
    options.shard_done = note_shard;
    options.argument = &shards;
    OK(hf_index_compile(index, &options, &report, &place->error));
    assert_int_equal(report.folded.entries, 3);
    assert_int_equal(report.folded.records_new, 2);
    assert_int_equal(report.folded.superseded, 1);
    assert_int_equal(report.folded.deleted, 3);
    assert_int_equal(report.shards_done, shards.done);
    assert_int_equal(shards.entries, 3);
    OK(hf_index_status(index, NULL, &stats, &place->error));
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.records, 2);
    assert_int_equal(stats.shards, shards.done);
    assert_true(stats.oldest_ms == -1 && stats.largest[0] != '\0' && stats.aside == 0);
    hf_index_close(index);
}

static void one_shard_is_compiled_alone(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    uint64_t entries = 0;
    char shard[2] = "";
    hosts_put_forty(place, index);
    options.shard = shard;
    for (int i = 0; i < 16; i++) {
        shard[0] = "0123456789ABCDEF"[i];
        OK(hf_index_compile(index, &options, &report, &place->error));
        assert_true(report.shards_done <= 1);
        entries += report.folded.entries;
    }
    assert_int_equal(entries, 40);
    shard[0] = 'x';
    IS(HF_INVALID, hf_index_compile(index, &options, NULL, &place->error));
    options.shard = NULL;
    options.ttl_ms = 999;
    IS(HF_INVALID, hf_index_compile(index, &options, NULL, &place->error));
    options.ttl_ms = 1000;
    options.wait_ms = -1;
    IS(HF_INVALID, hf_index_compile(index, &options, NULL, &place->error));
    hf_index_close(index);
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

/* Puts one record when it is asked for the first time, and stops once that is compiled. */
static bool until_folded(void *argument)
{
    struct shards *shards = argument;
    if (shards->goes_on++ == 0)
        assert_int_equal(hosts_put(shards->place, shards->index, "late", "ada", T1), HF_OK);
    return shards->done == 0;
}

static void a_compile_is_stopped_and_a_watcher_ends_so(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct shards shards = { .index = index, .place = place };
    OK(hosts_put(place, index, "a", "ada", T1));
    options.go_on = never;
    IS(HF_CANCELLED, hf_index_compile(index, &options, &report, &place->error));
    assert_int_equal(report.shards_done, 0);
    options.watch = true;
    OK(hf_index_compile(index, &options, &report, &place->error));
    OK(hf_index_compile(index, NULL, NULL, &place->error));
    options.go_on = until_folded;
    options.shard_done = note_shard;
    options.argument = &shards;
    options.poll_ms = 10;
    OK(hf_index_compile(index, &options, &report, &place->error));
    assert_int_equal(report.folded.records_new, 1);
    hf_index_close(index);
}

static bool note_aside(void *argument, const char *entry, const char *why)
{
    assert_true(strlen(entry) > 0 && strlen(why) > 0);
    ++*(int *)argument;
    return true;
}

static bool stop_status(void *argument, uint64_t entries)
{
    (void)argument, (void)entries;
    return false;
}

static bool note_holder(void *argument, const struct hf_index_holder *holder)
{
    assert_string_equal(holder->shard, "c");
    assert_true(holder->token > 0 && !holder->over);
    assert_true(holder->expires_ms > holder->created_ms);
    ++*(int *)argument;
    return true;
}

static void status_tells_who_holds_a_shard_and_is_cancelled_by_progress(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_status_options options = HF_INDEX_STATUS_OPTIONS;
    struct hf_index_compile_options compile = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_stats stats = HF_INDEX_STATS;
    struct hf_lock *lock;
    int calls = 0;
    OK(hosts_put(place, index, "a", "ada", T1));
    OK(hf_lock_new(place->client, "shard:hosts/c", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    options.holder = note_holder;
    options.aside = note_aside;
    options.argument = &calls;
    OK(hf_index_status(index, &options, &stats, &place->error));
    assert_int_equal(calls, 1);
    assert_int_equal(stats.holder_count, 1);
    compile.shard = "c";
    compile.wait_ms = 0;
    hosts_put_forty(place, index);
    IS(HF_HELD, hf_index_compile(index, &compile, NULL, &place->error));
    hf_lock_free(lock);
    options.progress = stop_status;
    IS(HF_CANCELLED, hf_index_status(index, &options, &stats, &place->error));
    hf_index_close(index);
}

/* ---- Damage -------------------------------------------------------------------------- */

/* As a disk, or somebody who knows no better, would. */
static void put_object(struct place *place, const char *key, const char *text)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    options.force = true;
    OK(hf_store_put(hf_client_store(place->client), key, text, strlen(text), &options, NULL,
                    &place->error));
}

static void note_trouble(void *argument, const struct hf_error *why)
{
    assert_int_equal(why->status, HF_CORRUPT);
    ++*(int *)argument;
}

/* Forty keys, compiled; then one shard is damaged. */
static struct hf_index *make_damaged(struct place *place)
{
    struct hf_index *index = hosts_make(place);
    hosts_put_forty(place, index);
    OK(hf_index_compile(index, NULL, NULL, &place->error));
    put_object(place, "indexes/hosts/shards/c.usv", "this is no shard\n");
    return index;
}

static void a_damaged_shard_is_told_and_the_others_are_read(void **state)
{
    struct place *place = *state;
    struct hf_index *index = make_damaged(place);
    struct hf_index_query query = HF_INDEX_QUERY;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    uint64_t count = 77, records = 0;
    int troubles = 0, told = 0;
    enum hf_status status;
    OK(hf_index_cursor_open(index, NULL, &cursor, &place->error));
    while ((status = hf_index_cursor_next(cursor, &record, &place->error)) != HF_NOT_FOUND) {
        assert_true(status == HF_OK || (status == HF_CORRUPT && !record));
        records += status == HF_OK;
        troubles += status == HF_CORRUPT;
    }
    hf_index_cursor_close(cursor);
    assert_int_equal(troubles, 1);
    assert_true(records > 30 && records < 40);
    query.trouble = note_trouble;
    query.argument = &told;
    IS(HF_CORRUPT, hf_index_count(index, &query, &count, &place->error));
    assert_int_equal(count, 77);
    int fd = place_file(place, "");
    IS(HF_CORRUPT, hf_index_export(index, &query, fd, HF_INDEX_USV, &progress, &place->error));
    assert_int_equal(progress.records, records);
    assert_int_equal(told, 2);
    close(fd);
    hf_index_close(index);
}

static void records_of_a_damaged_shard_stay_in_its_inbox(void **state)
{
    struct place *place = *state;
    struct hf_index *index = make_damaged(place);
    struct hf_index_load_options options = HF_INDEX_LOAD_OPTIONS;
    struct hf_index_load_report report = HF_INDEX_LOAD_REPORT;
    struct hf_index_compile_report compiled = HF_INDEX_COMPILE_REPORT;
    static char text[40000] = "host,owner,seen\n";
    int told = 0;
    for (int i = 0; i < 500; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "h%d,ada," T2 "\n", i);
    int fd = place_file(place, text);
    options.straight = true;
    options.trouble = note_trouble;
    options.argument = &told;
    IS(HF_CORRUPT, hf_index_load(index, fd, HF_INDEX_CSV, &options, &report, &place->error));
    assert_true(report.complete && report.records == 500 && report.damaged > 8);
    assert_int_equal(told, 1);
    IS(HF_CORRUPT, hf_index_compile(index, NULL, &compiled, &place->error));
    assert_int_equal(compiled.shards_failed, 1);
    close(fd);
    hf_index_close(index);
}

static void what_cannot_be_read_is_set_aside_with_the_reason(void **state)
{
    struct place *place = *state;
    struct hf_index *index = hosts_make(place);
    struct hf_index_status_options options = HF_INDEX_STATUS_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct hf_index_stats stats = HF_INDEX_STATS;
    struct hf_index_cursor *cursor;
    struct hf_index_record *record;
    struct hf_index_progress progress = HF_INDEX_PROGRESS;
    int reasons = 0;
    put_object(place, "indexes/hosts/a.usv",
               "a\x1f"
               "ada\x1fsoon\n");
    put_object(place, "indexes/hosts/b.usv",
               "b\x1f"
               "ada\x1f" T1 "\n");
    OK(hf_index_cursor_open(index, NULL, &cursor, &place->error));
    OK(hf_index_cursor_next(cursor, &record, &place->error));
    IS(HF_NOT_FOUND, hf_index_cursor_next(cursor, &record, &place->error));
    OK(hf_index_cursor_progress(cursor, &progress, &place->error));
    assert_int_equal(progress.unreadable, 1);
    hf_index_cursor_close(cursor);
    OK(hf_index_compile(index, NULL, &report, &place->error));
    assert_int_equal(report.folded.aside, 1);
    options.aside = note_aside;
    options.argument = &reasons;
    OK(hf_index_status(index, &options, &stats, &place->error));
    assert_int_equal(stats.aside, 1);
    assert_int_equal(reasons, 1);
    assert_owner(place, index, "b", "ada");
    hf_index_close(index);
}

static void every_end_and_outcome_has_a_word(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HF_INDEX_END_COUNT; i++)
        assert_true(strlen(hf_index_end_name((enum hf_index_end)i)) > 3);
    assert_string_equal(hf_index_end_name(HF_INDEX_END_COUNT), "unknown");
    assert_string_equal(hf_index_made_name(HF_INDEX_MADE_COUNT), "unknown");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_told_by_the_end_of_a_name),
        cmocka_unit_test(each_format_is_read_back_to_the_same_records),
        cmocka_unit_test(a_file_is_what_header_and_texts_are_together),
        cmocka_unit_test(rows_that_are_no_records_are_refused_and_the_others_put),
        cmocka_unit_test(a_load_goes_straight_into_shards_when_asked),
        cmocka_unit_test(a_load_is_cancelled_by_progress),
        cmocka_unit_test(a_file_that_cannot_be_read_or_written_is_told),
        cmocka_unit_test(a_compile_folds_all_and_tells_of_each_shard),
        cmocka_unit_test(one_shard_is_compiled_alone),
        cmocka_unit_test(a_compile_is_stopped_and_a_watcher_ends_so),
        cmocka_unit_test(status_tells_who_holds_a_shard_and_is_cancelled_by_progress),
        cmocka_unit_test(a_damaged_shard_is_told_and_the_others_are_read),
        cmocka_unit_test(records_of_a_damaged_shard_stay_in_its_inbox),
        cmocka_unit_test(what_cannot_be_read_is_set_aside_with_the_reason),
        cmocka_unit_test(every_end_and_outcome_has_a_word),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
