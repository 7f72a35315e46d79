/* SPDX-License-Identifier: Apache-2.0 */
/* index_manifest_test.c: the manifest, swapped by several clients; and the statistics, which counts
 * the objects of an index. */
#include "alloc.h"
#include "index/stats.h"
#include "index_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define MORNING "2026-02-06T10:00:00Z"

static void note_version(struct manifest *manifest, size_t shard, uint64_t records,
                         uint64_t token, uint64_t writes)
{
    assert_true(manifest_note(manifest, (struct manifest_row){ .shard = shard,
                                                               .records = records,
                                                               .bytes = 10 * records,
                                                               .token = token,
                                                               .writes = writes }));
}

static void note(struct manifest *manifest, size_t shard, uint64_t records, uint64_t bytes)
{
    assert_true(manifest_note(
        manifest, (struct manifest_row){ .shard = shard, .records = records, .bytes = bytes }));
}

static void write_rows(struct yard *yard, struct manifest *manifest)
{
    assert_status(HF_OK, manifest_write(yard->index, manifest, &yard->error), &yard->error);
}

static void assert_row(const struct manifest *manifest, size_t i, size_t shard,
                       uint64_t records, uint64_t bytes)
{
    assert_true(i < manifest->count);
    assert_int_equal(manifest->rows[i].shard, shard);
    assert_int_equal(manifest->rows[i].records, records);
    assert_int_equal(manifest->rows[i].bytes, bytes);
}

/* ---- The manifest -------------------------------------------------------------------- */

static void rows_in_order(void **state)
{
    (void)state;
    struct manifest manifest = { 0 };
    for (size_t i = 0; i < 100; i++)
        note(&manifest, i * 37 % 100, i, i * 2);
    note(&manifest, 50, 7, 8);
    assert_int_equal(manifest.count, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(manifest.rows[i].shard, i);
    assert_row(&manifest, 50, 50, 7, 8);
    manifest_release(&manifest);
    manifest_release(&manifest);
}

static void written_and_read(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 }, found = { 0 };
    yard_open(&yard);
    assert_status(HF_NOT_FOUND, manifest_read(yard.index, &found, &yard.error), &yard.error);
    write_rows(&yard, &noted); /* of nothing: it is not written */
    assert_false(yard_has(&yard, "manifest.json"));
    note(&noted, 0xa3, 10, 1000);
    note(&noted, 0x01, 1, 100);
    write_rows(&yard, &noted);
    manifest_release(&noted);
    note(&noted, 0xa3, 11, 1100); /* the rows of others stay */
    note(&noted, 0xff, UINT64_MAX, 5);
    write_rows(&yard, &noted);
    assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
    assert_int_equal(found.count, 3);
    assert_row(&found, 0, 0x01, 1, 100);
    assert_row(&found, 1, 0xa3, 11, 1100);
    assert_row(&found, 2, 0xff, UINT64_MAX, 5);
    assert_true(found.written_at.us > 0);
    manifest_release(&found);
    char *text = yard_read(&yard, "manifest.json");
    assert_non_null(strstr(text, "{\"format\":\"holdfast.manifest/1\",\"write\":\""));
    assert_non_null(strstr(text, "\"a3\":[11,1100,0,0]"));
    free(text);
    manifest_release(&noted);
    yard_close(&yard);
}

static void written_if_it_differs(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 };
    yard_open(&yard);
    note(&noted, 1, 2, 3);
    write_rows(&yard, &noted);
    meter_reset(&yard.meter);
    write_rows(&yard, &noted);
    assert_int_equal(yard_calls(&yard, CALL_PUT), 0);
    assert_int_equal(yard_calls(&yard, CALL_GET), 1);
    note(&noted, 1, 2, 4);
    write_rows(&yard, &noted);
    assert_int_equal(yard_calls(&yard, CALL_PUT), 1);
    manifest_release(&noted);
    yard_close(&yard);
}

static void slow_writers_change_nothing(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest slow = { 0 }, quick = { 0 }, found = { 0 };
    yard_open(&yard);
    note_version(&slow, 1, 5, 7, 3);
    note_version(&slow, 2, 5, 7, 3);
    note_version(&slow, 3, 5, 7, 3);
    note_version(&quick, 1, 6, 7, 4); /* the same lock, a fold later */
    note_version(&quick, 2, 7, 8, 1); /* a later lock, whoever counts */
    write_rows(&yard, &quick);
    write_rows(&yard, &slow);
    assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
    assert_row(&found, 0, 1, 6, 60);
    assert_row(&found, 1, 2, 7, 70);
    assert_row(&found, 2, 3, 5, 50);
    manifest_release(&found);
    meter_reset(&yard.meter);
    write_rows(&yard, &slow);
    assert_int_equal(yard_calls(&yard, CALL_PUT), 0);
    manifest_release(&slow);
    manifest_release(&quick);
    yard_close(&yard);
}

static void rows_of_before_versions_are_read(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 }, found = { 0 };
    yard_open(&yard);
    yard_write(&yard, "manifest.json",
               VIEW("{\"format\":\"holdfast.manifest/1\",\"shards\":{\"01\":[9,90]}}"));
    assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
    assert_row(&found, 0, 1, 9, 90);
    manifest_release(&found);
    note_version(&noted, 1, 8, 7, 1);
    write_rows(&yard, &noted);
    assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
    assert_row(&found, 0, 1, 8, 80);
    manifest_release(&found);
    manifest_release(&noted);
    yard_close(&yard);
}

static void rubbish_is_replaced(void **state)
{
    (void)state;
    const struct view rubbish[] = {
        VIEW(""),
        VIEW("{}"),
        VIEW("{\"format\":\"holdfast.manifest/1\"}"),
        VIEW("{\"format\":\"holdfast.other/1\",\"shards\":{}}"),
        VIEW("{\"format\":\"holdfast.manifest/1\",\"shards\":{\"zz\":[1,2]}}"),
        VIEW("{\"format\":\"holdfast.manifest/1\",\"shards\":{\"a3\":[1]}}"),
        VIEW("{\"format\":\"holdfast.manifest/1\",\"shards\":{\"a3\":[1,2,3]}}"),
        VIEW("{\"format\":\"holdfast.manifest/1\",\"shards\":{\"a3\":[1,-2]}}"),
        VIEW("{\"format\":\"holdfast.manifest/1\",\"written_at\":\"x\",\"shards\":{}}"),
    };
    struct yard yard;
    struct manifest noted = { 0 }, found = { 0 };
    yard_open(&yard);
    note(&noted, 1, 2, 3);
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        yard_write(&yard, "manifest.json", rubbish[i]);
        enum hf_status status = manifest_read(yard.index, &found, &yard.error);
        if (status != HF_CORRUPT)
            fail_msg("row %zu is %s", i, hf_status_name(status));
        write_rows(&yard, &noted);
        assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
        assert_int_equal(found.count, 1);
        manifest_release(&found);
    }
    manifest_release(&noted);
    yard_close(&yard);
}

/* Another compiler writes its row between our read and our put. */
static void write_between(void *argument)
{
    struct yard *yard = argument;
    struct index *index;
    struct manifest noted = { 0 };
    assert_status(HF_OK,
                  index_open(yard->store.inner, NULL, VIEW("domains"), &index, &yard->error),
                  &yard->error);
    note(&noted, 9, 9, 9);
    assert_status(HF_OK, manifest_write(index, &noted, &yard->error), &yard->error);
    manifest_release(&noted);
    index_close(index);
}

static void two_write(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 }, found = { 0 };
    yard_open(&yard);
    note(&noted, 1, 2, 3);
    script_rule(&yard.store, .on = ON_PUT, .times = 1, .before = write_between,
                .argument = &yard);
    write_rows(&yard, &noted);
    assert_status(HF_OK, manifest_read(yard.index, &found, &yard.error), &yard.error);
    assert_int_equal(found.count, 2);
    manifest_release(&found);
    manifest_release(&noted);
    yard_close(&yard);
}

static void answers_are_lost(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 };
    yard_open(&yard);
    note(&noted, 1, 2, 3);
    yard_puts_meet(&yard, LOSE, LOSE_REPLY);
    write_rows(&yard, &noted);
    note(&noted, 1, 2, 4);
    script_rule(&yard.store, .name = "lost", .on = ON_PUT, .times = 3, .fate = LOSE);
    write_rows(&yard, &noted);
    assert_int_equal(script_met(&yard.store, "lost"), 3);
    manifest_release(&noted);
    yard_close(&yard);
}

/* ---- The statistics ---------------------------------------------------------------------- */

static struct index_stats take(struct yard *yard)
{
    struct index_stats index_stats;
    assert_status(
        HF_OK, index_stats_take(yard->index, /* step */ NULL, NULL, &index_stats, &yard->error),
        &yard->error);
    return index_stats;
}

static void of_nothing(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    struct index_stats index_stats = take(&yard);
    assert_int_equal(
        index_stats.entries + index_stats.markers + index_stats.strays + index_stats.aside, 0);
    assert_int_equal(index_stats.shards_waiting + index_stats.shards + index_stats.holder_count,
                     0);
    assert_false(index_stats.oldest_known || index_stats.records_known);
    index_stats_release(&index_stats);
    yard_close(&yard);
}

static void of_the_inbox(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    struct wall_time before = env_wall(env_real());
    yard_put(&yard, "example.com" US US MORNING);
    yard_put(&yard, "example.com" US US MORNING);
    yard_put(&yard, "example.org" US US MORNING);
    yard_write(&yard, "example.com.usv", VIEW("12345"));
    yard_write(&yard, "inbox/example.com.usv", VIEW("12345"));
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW("12345"));
    yard_write(&yard, "marker.usv", VIEW(""));
    yard_write(&yard, "inbox/marker.usv", VIEW(""));
    yard_write(&yard, "inbox/a3/what", VIEW("x"));
    yard_write(&yard, "inbox/no-shard/what.usv", VIEW("x"));
    struct index_stats index_stats = take(&yard);
    assert_int_equal(index_stats.entries, 6);
    assert_int_equal(index_stats.entries_foreign, 3);
    assert_int_equal(index_stats.entry_bytes,
                     3 * strlen("example.com" US US MORNING "\n") + 3 * strlen("12345"));
    assert_int_equal(index_stats.markers, 2);
    assert_int_equal(index_stats.strays, 2);
    assert_int_equal(index_stats.shards_waiting, 2);
    assert_true(index_stats.oldest_known);
    assert_true(index_stats.oldest.us >= before.us - 1000000 &&
                index_stats.oldest.us <= env_wall(env_real()).us);
    index_stats_release(&index_stats);
    yard_close(&yard);
}

static void of_shards(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 };
    yard_open(&yard);
    yard_write(&yard, "shards/00.usv", VIEW("12"));
    yard_write(&yard, "shards/a3.usv", VIEW("12345"));
    yard_write(&yard, "shards/ff.usv", VIEW("123"));
    yard_write(&yard, "shards/readme.usv", VIEW("not one of them"));
    note(&noted, 0xa3, 40, 5);
    note(&noted, 0xff, 2, 3);
    write_rows(&yard, &noted);
    manifest_release(&noted);
    struct index_stats index_stats = take(&yard);
    assert_int_equal(index_stats.shards, 3);
    assert_int_equal(index_stats.shard_bytes, 10);
    assert_int_equal(index_stats.shard_bytes_max, 5);
    assert_string_equal(index_stats.largest.text, "a3");
    assert_true(index_stats.records_known);
    assert_int_equal(index_stats.records, 42);
    assert_true(index_stats.records_at.us > 0);
    index_stats_release(&index_stats);
    yard_write(&yard, "manifest.json", VIEW("rubbish"));
    index_stats = take(&yard);
    assert_false(index_stats.records_known);
    index_stats_release(&index_stats);
    yard_close(&yard);
}

static void of_locks(void **state)
{
    (void)state;
    struct yard yard;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct hf_lock *held, *given_back;
    yard_open(&yard);
    options.holder = "pi-7";
    assert_status(HF_OK, client_new(yard.store.inner, &options, &client, &yard.error),
                  &yard.error);
    assert_status(HF_OK, hf_lock_new(client, "shard:domains/a3", NULL, &held, &yard.error),
                  &yard.error);
    assert_status(HF_OK,
                  hf_lock_new(client, "shard:domains/00", NULL, &given_back, &yard.error),
                  &yard.error);
    assert_status(HF_OK, hf_lock_acquire(held, 0, &yard.error), &yard.error);
    assert_status(HF_OK, hf_lock_acquire(given_back, 0, &yard.error), &yard.error);
    assert_status(HF_OK, hf_lock_release(given_back, &yard.error), &yard.error);
    yard_write(&yard, "shards/11.lock", VIEW("rubbish"));
    yard_write(&yard, "shards/22.lock",
               VIEW("{\"worker_id\":\"fargate\",\"created_at\":\"" MORNING
                    "\",\"expires_at\":\"2026-02-06T10:05:00Z\"}"));
    for (int with_client = 0; with_client < 2; with_client++) {
        yard.index->client = with_client ? client : NULL;
        struct index_stats index_stats = take(&yard);
        assert_int_equal(index_stats.locks_unreadable, 1);
        assert_int_equal(index_stats.holder_count, 2);
        assert_string_equal(index_stats.holders[0].shard.text, "22");
        assert_string_equal(index_stats.holders[0].worker, "fargate");
        assert_string_equal(index_stats.holders[1].shard.text, "a3");
        assert_string_equal(index_stats.holders[1].worker, "pi-7");
        assert_true(index_stats.holders[1].token > 0);
        assert_false(index_stats.holders[0].over || index_stats.holders[1].over);
        assert_true(index_stats.holders[1].expires_at.us >
                    index_stats.holders[1].created_at.us);
        assert_int_equal(index_stats.shards, 0);
        index_stats_release(&index_stats);
    }
    hf_lock_free(held);
    hf_lock_free(given_back);
    hf_client_close(client);
    yard_close(&yard);
}

static void of_what_is_aside(void **state)
{
    (void)state;
    struct yard yard;
    char name[64];
    yard_open(&yard);
    for (size_t i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "inbox/a3/rubbish-%zu", i);
        yard_write(&yard, name, view_of(name));
    }
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    assert_int_equal(list.count, 10);
    for (size_t i = 0; i < 10; i++)
        assert_status(HF_OK,
                      inbox_set_aside(yard.index, &list.entries[i], &list.entries[i].etag,
                                      "it is \"odd\"", &yard.error),
                      &yard.error);
    entry_list_release(&list);
    yard_write(&yard, "aside/0.json", VIEW("rubbish")); /* the first of all */
    struct index_stats index_stats = take(&yard);
    assert_int_equal(index_stats.aside, 10);
    assert_int_equal(index_stats.reason_count, STATS_REASONS_MAX - 1);
    for (size_t i = 0; i < index_stats.reason_count; i++) {
        assert_non_null(
            strstr(index_stats.reasons[i].entry, "indexes/domains/inbox/a3/rubbish-"));
        assert_string_equal(index_stats.reasons[i].why, "it is \"odd\"");
    }
    index_stats_release(&index_stats);
    yard_close(&yard);
}

static bool stop_at_once(void *argument, uint64_t entries)
{
    *(uint64_t *)argument = entries;
    return false;
}

static void stops(void **state)
{
    (void)state;
    struct yard yard;
    struct index_stats index_stats;
    uint64_t entries = 0;
    yard_open(&yard);
    yard_put(&yard, "example.com" US US MORNING);
    assert_status(HF_CANCELLED,
                  index_stats_take(yard.index, stop_at_once, &entries, &index_stats,
                                   &yard.error),
                  &yard.error);
    assert_int_equal(entries, 1);
    yard_close(&yard);
}

static void without_memory(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 };
    long n;
    yard_open(&yard);
    yard_put(&yard, "example.com" US US MORNING);
    yard_write(&yard, "shards/22.lock",
               VIEW("{\"worker_id\":\"fargate\",\"created_at\":\"" MORNING
                    "\",\"expires_at\":\"2026-02-06T10:05:00Z\"}"));
    note(&noted, 1, 2, 3);
    for (n = 0;; n++) {
        note(&noted, 1, 2, (uint64_t)n);
        alloc_fail_after(n);
        enum hf_status status = manifest_write(yard.index, &noted, &yard.error);
        if (!alloc_stop())
            break;
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
    }
    assert_true(n > 2);
    manifest_release(&noted);
    for (n = 0;; n++) {
        struct index_stats index_stats;
        alloc_fail_after(n);
        enum hf_status status =
            index_stats_take(yard.index, /* step */ NULL, NULL, &index_stats, &yard.error);
        bool failed = alloc_stop();
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
        if (status == HF_OK)
            index_stats_release(&index_stats);
        if (!failed)
            break;
    }
    assert_true(n > 5);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("a manifest has one row a shard, in order", rows_in_order),
        IT("what is written is read, and rows of others stay", written_and_read),
        IT("a manifest that would be the same is not written", written_if_it_differs),
        IT("statistics of an earlier version replace none of a later one",
           slow_writers_change_nothing),
        IT("rows that say no version are read, and replaced", rows_of_before_versions_are_read),
        IT("one that cannot be read is told, and replaced", rubbish_is_replaced),
        IT("of two who write at once both are there", two_write),
        IT("three tries are made when answers are lost", answers_are_lost),
        IT("of an empty index there is nothing to count", of_nothing),
        IT("entries, markers and strays are told apart", of_the_inbox),
        IT("shards are counted, and records as the manifest knows them", of_shards),
        IT("locks are shown with who holds them, those of other programs too", of_locks),
        IT("what was set aside is counted, and the first reasons told", of_what_is_aside),
        IT("a census stops when it is told to", stops),
        IT("without memory it ends with a status", without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
