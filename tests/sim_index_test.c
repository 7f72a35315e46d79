/* SPDX-License-Identifier: Apache-2.0 */
/* sim_index_test.c: the simulator's checks of an index, on entries, shards and answers that the
 * test writes by hand: correct histories pass, and each fault is found. */
#include "base/hash.h"
#include "checker_kit.h"
#include "sim/checkers/index_checker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "indexes/things/"
#define US     "\x1f"

/* SHA-256 of "a" begins with c, of "b" with 3. */
#define OLD    "a" US "2026-01-01T00:00:00Z" US "1"
#define NEW    "a" US "2026-01-01T02:00:00+01:00" US "2"
#define MIDDLE "a" US "2026-01-01T00:30:00Z" US "6"
#define TIE    "a" US "2026-01-01T01:00:00Z" US "3"
#define WIDE   "a" US "2026-01-01T00:00:01Z" US "4" US "more"
#define OTHER  "b" US "2026-01-01T00:00:00Z" US "5"
#define NONCE  "0123456789abcdef0123456789abcdef"
#define OURS   FOLDER "inbox/c/a~20260101T000000-" NONCE ".usv"
#define LATER  FOLDER "inbox/c/a~20260101T010000-" NONCE ".usv"
#define THEIRS FOLDER "inbox/a.usv"
#define SHARD  FOLDER "shards/c.usv"
#define LOCK   FOLDER "shards/c.lock"

/* ---- Histories ------------------------------------------------------------------------- */

static void put_schema(struct history *history, const char *fields)
{
    history_put(history, FOLDER "index.json",
                text(history, "{\"format\":\"holdfast.index/1\",\"fields\":[%s]}", fields));
}

static void begin(struct history *history)
{
    static const char *const records[] = { OLD, NEW, TIE, WIDE, OTHER, MIDDLE };
    struct index_checker_options options = { .index = "things",
                                             .digits = 1,
                                             .delete_conditional = true,
                                             .taken = VIEW("3"),
                                             .taken_until_us = 1 };
    history->checker = index_checker_new(&history->run, &options);
    put_schema(history, "\"thing\",\"changed\",\"what\"");
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        index_checker_made(history->checker, view_of(records[i]));
}

static void end(struct history *history)
{
    index_checker_free(history->checker);
}

static const struct court court = { begin, end };

/* A shard of these records, which end with LF each. */
static void put_shard(struct history *history, uint64_t token, const char *records)
{
    const char *line = "";
    size_t lines = 0;
    for (const char *at = records; *at; at++)
        lines += *at == '\n';
    for (int round = 0; round < 2; round++) /* the line says how long it is itself */
        line = text(history,
                    "{\"format\":\"holdfast.shard/1\",\"line\":\"%08zu\","
                    "\"token\":%" PRIu64 ",\"records\":%zu,\"size\":%zu}\n",
                    strlen(line), token, lines, strlen(records));
    history_put(history, SHARD, text(history, "%s%s", line, records));
}

static void put_lock(struct history *history, unsigned next_token)
{
    history_put(history, LOCK,
                text(history, "{\"format\":\"holdfast.lease-table/1\",\"next_token\":%u}",
                     next_token));
}

/* A copy and its reason, of the version that an entry has now. */
static void set_aside(struct history *history, const char *entry, const char *bytes)
{
    char version[256], id[33];
    unsigned char digest[32];
    struct etag etag = bucket_etag(net_bucket(history->run.net), view_of(entry));
    size_t size = strlen(entry) + 1;
    memcpy(version, entry, size);
    memcpy(version + size, etag.data, etag.size);
    hash_sha256((struct view){ version, size + etag.size }, digest);
    for (size_t i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", digest[i]);
    history_put(history, text(history, FOLDER "aside/%s.usv", id), bytes);
    history_put(history, text(history, FOLDER "aside/%s.json", id), "{}");
}

static void get(struct history *history, uint64_t began, enum hf_status status,
                const char *record)
{
    index_checker_told_get(history->checker, began, VIEW("a"), status, view_of(record));
}

/* ---- Stories --------------------------------------------------------------------------- */

static void a_good_story(struct history *history)
{
    struct checked_walk walk = { .prefix = "" };
    history_put(history, OURS, OLD "\n");
    history_put(history, THEIRS, NEW "\x1e\n");
    history_put(history, FOLDER "b.usv", OTHER);
    uint64_t began = index_checker_now(history->checker);
    get(history, began, HF_OK, NEW);
    put_shard(history, 1, NEW "\n");
    take(history, OURS);
    history_put(history, THEIRS, "no record\n");
    set_aside(history, THEIRS, "no record\n");
    take(history, THEIRS);
    get(history, began, HF_OK, NEW);
    index_checker_walks(history->checker, &walk);
    index_checker_shows(&walk, VIEW(OTHER));
    index_checker_shows(&walk, VIEW(NEW));
    index_checker_walked(&walk, HF_OK);
    index_checker_told_count(history->checker, began, HF_OK, 2);
    take(history, FOLDER "none");
}

static void an_older_one_written_over_it(struct history *history)
{
    history_put(history, THEIRS, NEW);
    history_put(history, THEIRS, OLD);
    get(history, index_checker_now(history->checker), HF_OK, OLD);
    put_shard(history, 1, OLD "\n");
    take(history, THEIRS);
    index_checker_end(history->checker);
}

/* What came elsewhere after the reader had begun does not make up for what was lost here. */
static void three_written_over_each_other(struct history *history)
{
    history_put(history, THEIRS, MIDDLE);
    uint64_t began = index_checker_now(history->checker);
    history_put(history, THEIRS, NEW);
    history_put(history, OURS, OLD "\n");
    history_put(history, LATER, TIE "\n");
    history_put(history, THEIRS, "no record\n");
    get(history, began, HF_NOT_FOUND, "");
    get(history, index_checker_now(history->checker), HF_OK, TIE);
}

static void folded_and_then_written_over(struct history *history)
{
    history_put(history, THEIRS, NEW);
    uint64_t began = index_checker_now(history->checker);
    put_shard(history, 1, NEW "\n");
    history_put(history, THEIRS, OLD);
    get(history, began, HF_OK, OLD);
}

static void folded_and_then_spoilt(struct history *history)
{
    history_put(history, THEIRS, NEW);
    uint64_t began = index_checker_now(history->checker);
    put_shard(history, 1, NEW "\n");
    take(history, THEIRS);
    history_put(history, THEIRS, "no record\n");
    get(history, began, HF_NOT_FOUND, "");
}

static void held_by_another_name_as_well(struct history *history)
{
    history_put(history, THEIRS, NEW);
    history_put(history, FOLDER "a.usv", NEW);
    uint64_t began = index_checker_now(history->checker);
    history_put(history, THEIRS, "no record\n");
    get(history, began, HF_OK, OLD);
}

static void a_shard_whose_lock_is_anothers(struct history *history)
{
    history_put(history, FOLDER "shards/3.usv", "{\"line\":\"00000029\",\"size\":0}\n");
}

static void a_schema_that_grows(struct history *history)
{
    history_put(history, THEIRS, WIDE);
    put_schema(history, "\"thing\",\"changed\",\"what\",\"more\"");
    set_aside(history, THEIRS, WIDE);
    take(history, THEIRS);
    index_checker_end(history->checker);
}

static void cleared_before_it_is_folded(struct history *history)
{
    history_put(history, OURS, OLD "\n");
    take(history, OURS);
}

static void cleared_with_an_older_one_in_the_shard(struct history *history)
{
    history_put(history, LATER, TIE "\n");
    put_shard(history, 1, OLD "\n");
    take(history, LATER);
}

static void cleared_with_a_lesser_one_in_the_shard(struct history *history)
{
    history_put(history, LATER, TIE "\n");
    put_shard(history, 1, "a" US "2026-01-01T01:00:00Z" US "3\n");
    take(history, LATER);
    history_put(history, THEIRS, NEW);
    history_put(history, THEIRS,
                ""); /* the same time, and its bytes are the greater: 02 against 01 */
}

static void a_marker_over_what_is_new(struct history *history)
{
    history_put(history, THEIRS, OLD);
    put_shard(history, 1, OLD "\n");
    history_put(history, THEIRS, NEW);
    history_put(history, THEIRS, "");
}

static void bad_and_gone(struct history *history)
{
    history_put(history, THEIRS, "no record\n");
    take(history, THEIRS);
}

static void good_and_aside(struct history *history)
{
    history_put(history, THEIRS, OLD);
    set_aside(history, THEIRS, OLD);
}

static void wide_enough_and_aside(struct history *history)
{
    put_schema(history, "\"thing\",\"changed\",\"what\",\"more\"");
    history_put(history, THEIRS, WIDE);
    set_aside(history, THEIRS, WIDE);
}

static void aside_in_part(struct history *history)
{
    history_put(history, THEIRS, "no record\n");
    set_aside(history, THEIRS, "no rec");
}

static void a_shard_that_goes_back(struct history *history)
{
    put_shard(history, 1, NEW "\n");
    put_shard(history, 1, OLD "\n");
}

static void a_shard_that_loses_one(struct history *history)
{
    put_shard(history, 1, NEW "\n");
    put_shard(history, 1, "");
}

static void a_shard_of_a_lower_token(struct history *history)
{
    put_shard(history, 2, OLD "\n");
    put_shard(history, 1, NEW "\n");
}

static size_t shard_bytes(struct history *history)
{
    return bucket_peek(net_bucket(history->run.net), VIEW(SHARD)).size;
}

/* The manifest says that the shard has one record, in so many bytes. */
static void put_manifest(struct history *history, size_t bytes)
{
    history_put(history, FOLDER "manifest.json",
                text(history, "{\"format\":\"holdfast.manifest/1\",\"shards\":{\"c\":[1,%zu]}}",
                     bytes));
}

static size_t a_manifest_of_two(struct history *history)
{
    put_shard(history, 1, OLD "\n");
    size_t first = shard_bytes(history);
    put_shard(history, 1000, NEW "\n"); /* which is longer */
    assert_true(shard_bytes(history) > first);
    put_manifest(history, first);
    put_manifest(history, shard_bytes(history));
    put_manifest(history, shard_bytes(history));
    return first;
}

static void a_manifest_that_follows(struct history *history)
{
    a_manifest_of_two(history);
}

static void a_manifest_that_goes_back(struct history *history)
{
    put_manifest(history, a_manifest_of_two(history));
}

static void a_manifest_of_what_never_was(struct history *history)
{
    put_shard(history, 1, OLD "\n");
    put_manifest(history, shard_bytes(history) + 5);
}

static void a_shard_with_a_strange_record(struct history *history)
{
    put_shard(history, 1, "a" US "2026-01-01T00:00:00Z" US "9\n");
}

static void a_shard_with_anothers_record(struct history *history)
{
    put_shard(history, 1, OTHER "\n");
}

static void a_shard_cut_off(struct history *history)
{
    history_put(history, SHARD, "{\"format\":\"holdfast.shard/1\",\"line\":\"00000040\",\"tok");
}

static void a_shard_deleted(struct history *history)
{
    put_shard(history, 1, "");
    take(history, SHARD);
}

static void a_lock_that_starts_anew(struct history *history)
{
    put_lock(history, 7);
    put_lock(history, 2);
}

static void a_schema_that_shrinks(struct history *history)
{
    put_schema(history, "\"thing\",\"changed\"");
}

static void told_as_put(struct history *history)
{
    struct view record = VIEW(OLD);
    index_checker_told_put(history->checker, &record, 1);
}

static void told_as_folded(struct history *history)
{
    struct view record = VIEW(NEW);
    put_shard(history, 1, OLD "\n");
    index_checker_told_straight(history->checker, &record, 1);
}

static void not_found_and_there(struct history *history)
{
    history_put(history, OURS, OLD "\n");
    get(history, index_checker_now(history->checker), HF_NOT_FOUND, "");
}

static void not_found_and_put_since(struct history *history)
{
    uint64_t began = index_checker_now(history->checker);
    history_put(history, OURS, OLD "\n");
    get(history, began, HF_NOT_FOUND, "");
}

static void an_older_one_is_read(struct history *history)
{
    history_put(history, OURS, OLD "\n");
    history_put(history, LATER, TIE "\n");
    get(history, index_checker_now(history->checker), HF_OK, OLD);
}

static void damage_is_told(struct history *history)
{
    get(history, index_checker_now(history->checker), HF_CORRUPT, "");
}

static void a_walk_that_misses_one(struct history *history)
{
    struct checked_walk walk = { .prefix = "" };
    history_put(history, OURS, OLD "\n");
    index_checker_walks(history->checker, &walk);
    index_checker_walked(&walk, HF_OK);
}

static void a_walk_that_goes_back(struct history *history)
{
    struct checked_walk walk = { .prefix = "" };
    index_checker_walks(history->checker, &walk);
    index_checker_shows(&walk, VIEW(NEW));
    index_checker_shows(&walk, VIEW(OTHER));
}

static void a_walk_that_shows_too_much(struct history *history)
{
    struct checked_walk walk = { .prefix = "b" };
    index_checker_walks(history->checker, &walk);
    index_checker_shows(&walk, VIEW(NEW));
}

static void one_too_many_is_counted(struct history *history)
{
    history_put(history, OURS, OLD "\n");
    index_checker_told_count(history->checker, index_checker_now(history->checker), HF_OK, 2);
}

static void left_in_the_end(struct history *history)
{
    history_put(history, OURS, OLD "\n");
    put_shard(history, 1, OLD "\n");
    index_checker_end(history->checker);
}

static void a_marker_in_the_end(struct history *history)
{
    history_put(history, THEIRS, OLD);
    put_shard(history, 1, OLD "\n");
    history_put(history, THEIRS, "");
    index_checker_end(history->checker);
}

/* ---- The table ------------------------------------------------------------------------- */

static void good_stories_pass(void **state)
{
    (void)state;
    TELL(&court, { a_good_story, NULL }, { an_older_one_written_over_it, NULL },
         { three_written_over_each_other, NULL }, { a_schema_that_grows, NULL },
         { not_found_and_put_since, NULL });
}

static void nothing_is_cleared_too_soon(void **state)
{
    static const char words[] = "is neither in the shard nor aside";
    (void)state;
    TELL(&court, { cleared_before_it_is_folded, words },
         { cleared_with_an_older_one_in_the_shard, words },
         { cleared_with_a_lesser_one_in_the_shard, words },
         { a_marker_over_what_is_new, words }, { bad_and_gone, words });
}

static void only_what_is_bad_is_set_aside(void **state)
{
    (void)state;
    TELL(&court, { good_and_aside, "could be read when it was written" },
         { wide_enough_and_aside, "could be read when it was written" },
         { aside_in_part, "is not what its entry was" });
}

static void shards_only_grow(void **state)
{
    (void)state;
    TELL(&court, { a_shard_that_goes_back, "has an older record of a than before" },
         { a_shard_that_loses_one, "has lost the record of a" },
         { a_shard_of_a_lower_token, "is written by token 1 after token 2" },
         { a_manifest_that_follows, NULL },
         { a_manifest_that_goes_back, "which were there before what it had last" },
         { a_manifest_of_what_never_was, "which never were there" },
         { a_shard_with_a_strange_record, "has a record that nobody has put" },
         { a_shard_with_anothers_record, "has a record of b" },
         { a_shard_cut_off, "shard c is none" }, { a_shard_deleted, "shard c is deleted" },
         { a_shard_whose_lock_is_anothers, "is written while another program has its lock" },
         { a_lock_that_starts_anew, "the tokens of the lock of shard c fall" },
         { a_schema_that_shrinks, "the schema has 2 fields, and had 3" });
}

static void answers_are_true(void **state)
{
    (void)state;
    TELL(&court, { told_as_put, "is told as put, and is not in the store" },
         { told_as_folded, "is told as folded, and is not in its shard" },
         { not_found_and_there, "is told that there is no a, and there is" },
         { an_older_one_is_read, "older than one of before it began" },
         { folded_and_then_written_over, "older than one of before it began" },
         { folded_and_then_spoilt, "is told that there is no a, and there is" },
         { held_by_another_name_as_well, "older than one of before it began" },
         { damage_is_told, "a reader of one key is told CORRUPT" },
         { a_walk_that_misses_one, "a walk does not show a" },
         { a_walk_that_goes_back, "a walk shows b behind a" },
         { a_walk_that_shows_too_much, "which is not wanted" },
         { one_too_many_is_counted, "and 2 are counted" });
}

static void the_inbox_is_empty_in_the_end(void **state)
{
    (void)state;
    TELL(&court, { left_in_the_end, "is left in the inbox" },
         { a_marker_in_the_end, "is left as a marker" });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good stories pass", good_stories_pass),
        IT("nothing is cleared away too soon", nothing_is_cleared_too_soon),
        IT("only what is bad is set aside", only_what_is_bad_is_set_aside),
        IT("shards, locks and schemas only grow", shards_only_grow),
        IT("answers are true", answers_are_true),
        IT("the inbox is empty in the end", the_inbox_is_empty_in_the_end),
    };
    return cmocka_run_group_tests_name("sim_index_test", tests, NULL, NULL);
}
