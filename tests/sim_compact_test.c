/* SPDX-License-Identifier: Apache-2.0 */
/* sim_compact_test.c: the simulator's checks of compaction, on catalogs and lease tables that
 * the test writes by hand: correct histories pass, and each fault is found. */
#include "base/hash.h"
#include "checker_kit.h"
#include "sim/checkers/catalog_checker.h"
#include "sim/checkers/compact_rows.h"

#include <inttypes.h>
#include <string.h>

#define CATALOG_KEY "metadata/catalog.json"
#define LEASES_KEY  "metadata/compaction-leases.json"
#define CHILD_KEY   "metadata/c0/catalog.json"
#define CHUNK(name) "data/default/L0/2026/01/" name ".csv"

#define A CHUNK("a")
#define B CHUNK("b")
#define C CHUNK("c")
#define D CHUNK("d")
#define M CHUNK("m")

#define GRACE_S     10
#define D_S         100
#define RETENTION_S 7200

/* ---- Histories ----------------------------------------------------------------------- */

static void begin_as(struct history *history, bool latest_wins, int64_t retention_s)
{
    struct catalog_checker_options options = { .partition = "default",
                                               .latest_wins = latest_wins,
                                               .by_date = true,
                                               .grace = SPAN_S(GRACE_S),
                                               .late_bound = SPAN_S(D_S),
                                               .retention_ms = retention_s * 1000,
                                               .tries_max = 3,
                                               .level0_count = 3,
                                               .level1_bytes = 1000,
                                               .level_factor = 2,
                                               .group_max = 8 };
    history->checker = catalog_checker_new(&history->run, &options);
}

static void begin(struct history *history)
{
    begin_as(history, /* latest_wins */ false, RETENTION_S);
}

static void begin_where_the_latest_wins(struct history *history)
{
    begin_as(history, /* latest_wins */ true, RETENTION_S);
}

static void begin_for_readers(struct history *history)
{
    begin_as(history, /* latest_wins */ false, /* retention_s */ 0);
}

static void end(struct history *history)
{
    catalog_checker_free(history->checker);
}

static const struct court court = { begin, end };
static const struct court court_of_the_latest = { begin_where_the_latest_wins, end };
static const struct court court_of_readers = { begin_for_readers, end };

/* The object of a chunk: so many rows of this key, numbered from `first`, of this second ago. */
static void put_rows(struct history *history, const char *key, unsigned row_key, unsigned first,
                     unsigned count, int64_t seconds_ago)
{
    struct row rows[8];
    char bytes[8 * ROW_BYTES + 1];
    for (unsigned i = 0; i < count; i++)
        rows[i] =
            (struct row){ row_key, first + i, WORLD_EPOCH_US / 1000 - seconds_ago * 1000 };
    rows_write(rows, count, bytes);
    history_put(history, key, bytes);
}

/* ---- What documents are made of ------------------------------------------------------ */

/* An entry that says what the object is, and more; of a level. */
static const char *entry_of(struct history *history, const char *key, unsigned level,
                            const char *more)
{
    struct view bytes = bucket_peek(net_bucket(history->run.net), view_of(key));
    struct row rows[8] = { { 0, 0, 0 } };
    int64_t min = INT64_MAX, max = 0;
    if (bytes.data)
        rows_read(bytes, rows);
    for (size_t i = 0; i < rows_in(bytes); i++) {
        min = rows[i].ms < min ? rows[i].ms : min;
        max = rows[i].ms > max ? rows[i].ms : max;
    }
    return text(history,
                "{\"key\":\"%s\",\"level\":%u,\"size\":%zu,\"rows\":%zu,\"min\":%" PRId64
                ",\"max\":%" PRId64 ",\"crc32c\":%" PRIu32 "%s}",
                key, level, bytes.size, rows_in(bytes), min, max,
                crc32c(0, bytes.data ? bytes : VIEW("")), more);
}

static const char *entry(struct history *history, const char *key)
{
    return entry_of(history, key, 0, "");
}

static const char *stamp(struct history *history)
{
    return text(history, "\"since\":\"00000000000000ff:%" PRId64 "\"",
                WORLD_EPOCH_US + world_now_us(history->run.world));
}

static const char *two(struct history *history, const char *a, const char *b)
{
    return text(history, "%s,%s", a, b);
}

static const char *grave(struct history *history, const char *since, const char *into,
                         const char *entries)
{
    return text(history, "{\"into\":\"%s\",%s,\"chunks\":[%s]}", into, since, entries);
}

static const char *removal(struct history *history, const char *since, const char *how,
                           const char *key)
{
    return text(history, "{\"how\":\"%s\",%s,\"keys\":[\"%s\"]}", how, since, key);
}

static void write_catalog_of(struct history *history, const char *key, const char *partition,
                             const char *chunks, const char *more)
{
    history_put(history, key,
                text(history,
                     "{\"format\":\"holdfast.catalog/1\",\"partition\":\"%s\","
                     "\"settings\":{\"policy\":\"levels\"},\"chunks\":[%s]%s}",
                     partition, chunks, more));
}

static void write_catalog(struct history *history, const char *chunks, const char *tombstones,
                          const char *deleting)
{
    write_catalog_of(history, CATALOG_KEY, "default", chunks,
                     text(history, ",\"tombstones\":[%s],\"deleting\":[%s]", tombstones,
                          deleting));
}

static void write_lease(struct history *history, const char *status, const char *output)
{
    history_put(
        history, LEASES_KEY,
        text(history,
             "{\"leases\":{\"l\":{\"lease_id\":\"l\",\"status\":\"%s\",\"output\":\"%s\","
             "\"chunks\":[\"" A "\",\"" B "\"]}}}",
             status, output));
}

/* Two chunks of two rows each are live. */
static void add_two(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    put_rows(history, B, 1, 3, 2, 0);
    write_catalog(history, two(history, entry(history, A), entry(history, B)), "", "");
}

#define MERGED CHUNK("merged")

/* They are merged. */
static void merge_two(struct history *history)
{
    struct view first = bucket_peek(net_bucket(history->run.net), VIEW(A));
    struct view second = bucket_peek(net_bucket(history->run.net), VIEW(B));
    const char *sources = two(history, entry(history, A), entry(history, B));
    history_put(history, MERGED,
                text(history, "%.*s%.*s", VIEW_ARGS(first), VIEW_ARGS(second)));
    write_catalog(history, entry_of(history, MERGED, 1, ""),
                  grave(history, stamp(history), MERGED, sources), "");
}

/* ---- Stories ------------------------------------------------------------------------- */

static void a_good_story(struct history *history)
{
    add_two(history);
    merge_two(history);
    history_pass(history, SPAN_S(GRACE_S + 2));
    const char *since = stamp(history);
    const char *live = entry_of(history, MERGED, 1, "");
    const char *both = two(history, removal(history, since, "retired", A),
                           removal(history, since, "retired", B));
    write_catalog(history, live, "", both);
    take(history, A);
    take(history, B);
    history_pass(history, SPAN_S(D_S + 2));
    write_catalog(history, live, "", "");
    checker_told_merged(history->checker, MERGED, true);
    checker_told_added(history->checker, A, HF_OK);
    checker_told_condemned(history->checker, MERGED, true);
    catalog_checker_end(history->checker);
}

/* The entry of A, as if it were that of B. */
static const char *entry_of_another(struct history *history)
{
    const char *rest = entry(history, A) + strlen("{\"key\":\"" A "\"");
    return text(history, "{\"key\":\"" B "\"%s", rest);
}

static void without_its_object(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, entry_of_another(history), "", "");
}

static void an_entry_that_lies(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    put_rows(history, B, 0, 3, 1, 0);
    write_catalog(history, entry_of_another(history), "", "");
}

static void back_from_deleting(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, "", "", removal(history, stamp(history), "condemned", A));
    history_pass(history, SPAN_S(D_S + 2));
    take(history, A);
    write_catalog(history, "", "", "");
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, entry(history, A), "", "");
}

static void from_live_to_deleting(struct history *history)
{
    add_two(history);
    write_catalog(history, entry(history, A), "",
                  removal(history, stamp(history), "condemned", B));
}

static void one_vanishes(struct history *history)
{
    add_two(history);
    write_catalog(history, entry(history, A), "", "");
}

static void one_stands_twice(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, two(history, entry(history, A), entry(history, A)), "", "");
}

static void in_a_strange_home(struct history *history)
{
    put_rows(history, "data/other/L0/2026/01/a.csv", 0, 1, 2, 0);
    write_catalog(history, entry(history, "data/other/L0/2026/01/a.csv"), "", "");
}

static void a_merge_that_loses_a_row(struct history *history)
{
    add_two(history);
    put_rows(history, M, 0, 1, 2, 0);
    const char *sources = two(history, entry(history, A), entry(history, B));
    write_catalog(history, entry(history, M), grave(history, stamp(history), M, sources), "");
}

static void a_merge_that_keeps_the_newest(struct history *history)
{
    put_rows(history, A, 0, 1, 1, 0);
    put_rows(history, B, 0, 2, 1, 0);
    const char *sources = two(history, entry(history, A), entry(history, B));
    write_catalog(history, sources, "", "");
    put_rows(history, M, 0, 2, 1, 0);
    write_catalog(history, entry_of(history, M, 1, ""),
                  grave(history, stamp(history), M, sources), "");
}

static void a_source_that_is_not_live(struct history *history)
{
    add_two(history);
    put_rows(history, C, 0, 9, 1, 0);
    put_rows(history, D, 0, 10, 1, 0);
    put_rows(history, M, 0, 9, 2, 0);
    write_catalog(
        history,
        text(history, "%s,%s,%s", entry(history, A), entry(history, B), entry(history, M)),
        grave(history, stamp(history), M, two(history, entry(history, C), entry(history, D))),
        "");
}

static void undone_in_part(struct history *history)
{
    add_two(history);
    const char *since = stamp(history);
    merge_two(history);
    write_catalog(history, two(history, entry_of(history, MERGED, 1, ""), entry(history, A)),
                  grave(history, since, MERGED, entry(history, B)), "");
}

static void undone_and_the_target_stays(struct history *history)
{
    add_two(history);
    merge_two(history);
    write_catalog(history,
                  text(history, "%s,%s,%s", entry_of(history, MERGED, 1, ""), entry(history, A),
                       entry(history, B)),
                  "", "");
}

static void undone_as_it_should_be(struct history *history)
{
    add_two(history);
    merge_two(history);
    write_catalog(history, two(history, entry(history, A), entry(history, B)),
                  grave(history, stamp(history), "", entry_of(history, MERGED, 1, "")), "");
}

static void the_same_row_twice(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    put_rows(history, B, 0, 2, 1, 0);
    write_catalog(history, two(history, entry(history, A), entry(history, B)), "", "");
}

/* The file of A comes again, once its rows are in what was merged. */
static void added_again_after_a_merge(struct history *history)
{
    add_two(history);
    const char *since = stamp(history);
    merge_two(history);
    const char *sources = two(history, entry(history, A), entry(history, B));
    put_rows(history, C, 0, 1, 2, 0);
    write_catalog(history, two(history, entry_of(history, MERGED, 1, ""), entry(history, C)),
                  grave(history, since, MERGED, sources), "");
}

static void told_as_known_and_is_not(struct history *history)
{
    add_two(history);
    checker_told_known(history->checker, 3);
    checker_told_known(history->checker, 5);
}

static void expired_as_it_should_be(struct history *history)
{
    put_rows(history, A, 0, 1, 2, RETENTION_S + 100);
    put_rows(history, B, 1, 3, 2, 0);
    write_catalog(history, two(history, entry(history, A), entry(history, B)), "", "");
    write_catalog(history, entry(history, B),
                  grave(history, stamp(history), "", entry(history, A)), "");
}

static void expired_too_early(struct history *history)
{
    put_rows(history, A, 0, 1, 2, RETENTION_S - 100);
    put_rows(history, B, 1, 3, 2, 0);
    write_catalog(history, two(history, entry(history, A), entry(history, B)), "", "");
    write_catalog(history, entry(history, B),
                  grave(history, stamp(history), "", entry(history, A)), "");
}

static void deleted_while_live(struct history *history)
{
    add_two(history);
    take(history, A);
}

static void moved_before_its_grace_is_over(struct history *history)
{
    add_two(history);
    merge_two(history);
    history_pass(history, SPAN_S(GRACE_S / 2));
    const char *since = stamp(history);
    write_catalog(history, entry_of(history, MERGED, 1, ""), "",
                  two(history, removal(history, since, "retired", A),
                      removal(history, since, "retired", B)));
}

static void condemned_in_its_grace(struct history *history)
{
    add_two(history);
    merge_two(history);
    history_pass(history, SPAN_S(GRACE_S + 2));
    const char *since = stamp(history);
    write_catalog(history, entry_of(history, MERGED, 1, ""), "",
                  two(history, removal(history, since, "condemned", A),
                      removal(history, since, "retired", B)));
}

static void dropped_before_d(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, "", "", removal(history, stamp(history), "condemned", A));
    take(history, A);
    history_pass(history, SPAN_S(D_S / 2));
    write_catalog(history, "", "", "");
}

static void dropped_with_its_object(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    write_catalog(history, "", "", removal(history, stamp(history), "condemned", A));
    history_pass(history, SPAN_S(D_S + 2));
    write_catalog(history, "", "", "");
}

static void a_lease_forgotten(struct history *history)
{
    add_two(history);
    write_lease(history, "active", M);
    put_rows(history, M, 0, 1, 2, 0);
    history_put(history, LEASES_KEY, "{\"leases\":{}}");
}

static void an_output_put_after_that(struct history *history)
{
    add_two(history);
    write_lease(history, "expired", M);
    history_put(history, LEASES_KEY, "{\"leases\":{}}");
    put_rows(history, M, 0, 1, 2, 0);
}

static void an_output_that_is_old(struct history *history)
{
    add_two(history);
    write_lease(history, "active", A);
}

static void a_try_too_many(struct history *history)
{
    add_two(history);
    write_catalog(history,
                  two(history, entry_of(history, A, 0, ",\"tries\":1"), entry(history, B)), "",
                  "");
}

static void a_try_that_was_one(struct history *history)
{
    add_two(history);
    write_lease(history, "expired", M);
    write_catalog(history,
                  two(history, entry_of(history, A, 0, ",\"tries\":1"),
                      entry_of(history, B, 0, ",\"tries\":1")),
                  "", removal(history, stamp(history), "condemned", M));
}

static void quarantined_for_no_reason(struct history *history)
{
    add_two(history);
    write_catalog(history,
                  two(history, entry_of(history, A, 0, ",\"quarantine\":\"why not\""),
                      entry(history, B)),
                  "", "");
}

static void told_as_added_and_is_not(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    checker_told_added(history->checker, A, HF_OK);
}

static void told_as_not_added_and_comes(struct history *history)
{
    checker_told_added(history->checker, A, HF_EXPIRED);
    add_two(history);
}

static void told_as_lost_and_is_merged(struct history *history)
{
    add_two(history);
    merge_two(history);
    checker_told_merged(history->checker, MERGED, false);
}

static void a_name_that_is_too_old(struct history *history)
{
    checker_drawn(history->checker, A);
    history_pass(history, SPAN_S(D_S));
    add_two(history);
}

/* A reader asks for a snapshot after both chunks were added, and is given these chunks. There is no
 * retention here, so no row may be missing. */
static void snapshot_of(struct history *history, const char *const *keys, size_t count)
{
    add_two(history);
    history_pass(history, SPAN_S(1));
    checker_took_snapshot(history->checker, history->node, keys, count,
                          world_now_us(history->run.world));
}

static void a_snapshot_of_all(struct history *history)
{
    static const char *const keys[] = { A, B };
    snapshot_of(history, keys, 2);
}

static void a_snapshot_that_lacks_a_chunk(struct history *history)
{
    static const char *const keys[] = { A };
    snapshot_of(history, keys, 1);
}

static void a_snapshot_with_a_chunk_twice(struct history *history)
{
    static const char *const keys[] = { A, B, A };
    snapshot_of(history, keys, 3);
}

static void a_snapshot_that_was_asked_for_before(struct history *history)
{
    int64_t asked_us = world_now_us(history->run.world);
    history_pass(history, SPAN_S(1));
    add_two(history);
    checker_took_snapshot(history->checker, history->node, NULL, 0, asked_us);
}

static void not_there_though_pinned(struct history *history)
{
    static const char *const keys[] = { A };
    add_two(history);
    struct checked_pin *pin = checker_pinned(history->checker, history->node, NULL, keys, 1);
    checker_read(pin, A, HF_NOT_FOUND, VIEW(""));
    checker_unpinned(pin);
}

#define SPLIT ",\"children\":[\"c0\"],\"moved\":[{\"child\":0,\"keys\":[\"" A "\",\"" B "\"]}]"

static void a_split_without_its_child(struct history *history)
{
    add_two(history);
    write_catalog_of(history, CATALOG_KEY, "default", "", SPLIT);
}

static void a_split_that_forgets_one(struct history *history)
{
    add_two(history);
    write_catalog_of(history, CHILD_KEY, "c0", entry(history, A), "");
    write_catalog_of(history, CATALOG_KEY, "default", "", SPLIT);
}

static void a_split_as_it_should_be(struct history *history)
{
    add_two(history);
    write_catalog_of(history, CHILD_KEY, "c0",
                     two(history, entry(history, A), entry(history, B)), "");
    write_catalog_of(history, CATALOG_KEY, "default", "", SPLIT);
    catalog_checker_end(history->checker);
}

static void an_orphan_in_the_end(struct history *history)
{
    add_two(history);
    put_rows(history, C, 0, 9, 1, 0);
    catalog_checker_end(history->checker);
}

static void a_tombstone_in_the_end(struct history *history)
{
    add_two(history);
    merge_two(history);
    catalog_checker_end(history->checker);
}

static void unmerged_in_the_end(struct history *history)
{
    put_rows(history, A, 0, 1, 2, 0);
    put_rows(history, B, 0, 3, 2, 0);
    put_rows(history, C, 0, 5, 2, 0);
    write_catalog(history,
                  text(history, "%s,%s,%s", entry(history, A), entry(history, B),
                       entry(history, C)),
                  "", "");
    catalog_checker_end(history->checker);
}

static void no_catalog(struct history *history)
{
    history_put(history, CATALOG_KEY, "{\"format\":\"holdfast.catalog/1\",\"chunks\":[");
}

/* ---- The table ----------------------------------------------------------------------- */

static void good_stories_pass(void **state)
{
    (void)state;
    TELL(&court, { a_good_story, NULL }, { undone_as_it_should_be, NULL },
         { expired_as_it_should_be, NULL }, { a_try_that_was_one, NULL },
         { a_split_as_it_should_be, NULL });
}

static void what_is_live_is_there(void **state)
{
    (void)state;
    TELL(&court, { without_its_object, "its object is not there" },
         { an_entry_that_lies, "its object is not what its entry says" },
         { no_catalog, "is no catalog" });
}

static void ways_that_there_are_not(void **state)
{
    (void)state;
    TELL(&court, { back_from_deleting, "comes to be live, and was condemned before" },
         { from_live_to_deleting, "goes from live to condemned" },
         { one_vanishes, "goes from live to nowhere" },
         { one_stands_twice, "stands twice in " CATALOG_KEY },
         { in_a_strange_home, "which is not its home" },
         { condemned_in_its_grace, "goes from tombstone to condemned" });
}

static void merges_that_are_none(void **state)
{
    (void)state;
    TELL(&court, { a_merge_that_loses_a_row, "is not what its sources come to" },
         { a_source_that_is_not_live, "is merged, and was not live" },
         { undone_in_part, "is undeleted without " B },
         { undone_and_the_target_stays, "is undeleted, and " MERGED " was live and is live" },
         { the_same_row_twice, "row 2 is added twice: in " A ", and in " B },
         { added_again_after_a_merge, "row 1 is added twice: in " A ", and in " C });
}

static void time_is_kept(void **state)
{
    (void)state;
    TELL(&court, { expired_too_early, "expires with a row" },
         { moved_before_its_grace_is_over, "is moved to deleting after" },
         { dropped_before_d, "is dropped after" },
         { a_name_that_is_too_old, "s after its name was generated" });
}

static void nothing_is_deleted_too_soon(void **state)
{
    (void)state;
    TELL(&court, { deleted_while_live, "its name was not moved to deleting" },
         { dropped_with_its_object, "its object is still there" },
         { not_there_though_pinned, "is not there for node 1, which has it pinned" });
}

static void a_snapshot_has_every_row_once(void **state)
{
    (void)state;
    TELL(&court_of_readers, { a_snapshot_of_all, NULL },
         { a_snapshot_that_was_asked_for_before, NULL },
         { a_snapshot_that_lacks_a_chunk, "is missing in the snapshot of node 1" },
         { a_snapshot_with_a_chunk_twice, "is twice in the snapshot of node 1" });
}

static void leases_are_settled_and_counted(void **state)
{
    (void)state;
    TELL(&court, { a_lease_forgotten, "is not settled, and its lease is forgotten" },
         { an_output_put_after_that, "is put, not settled, and its lease is forgotten" },
         { an_output_that_is_old, "is not a new name" },
         { a_try_too_many, "was tried 1 times, and 0 leases ended badly" },
         { quarantined_for_no_reason, "is quarantined after 0 tries, for no reason" });
}

static void answers_are_true(void **state)
{
    (void)state;
    TELL(&court, { told_as_added_and_is_not, "is told as added, and is not" },
         { told_as_not_added_and_comes, "after somebody was told that it is not" },
         { told_as_known_and_is_not, "row 5 is told as already there, and is not" },
         { told_as_lost_and_is_merged, "is told as not merged, and is" });
}

static void splits_lose_nothing(void **state)
{
    (void)state;
    TELL(&court, { a_split_without_its_child, "names a child that is not there" },
         { a_split_that_forgets_one, "is moved to a child that does not have it" });
}

static void nothing_is_left_in_the_end(void **state)
{
    (void)state;
    TELL(&court, { an_orphan_in_the_end, "is left, which no catalog names" },
         { a_tombstone_in_the_end, "is still a tombstone" },
         { unmerged_in_the_end, "is not merged with others of level 0" });
}

static void superseded_rows_may_go(void **state)
{
    (void)state;
    TELL(&court, { a_merge_that_keeps_the_newest, "is not what its sources come to" });
    TELL(&court_of_the_latest, { a_merge_that_keeps_the_newest, NULL });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("good stories pass", good_stories_pass),
        IT("what is live is there, as its entry says", what_is_live_is_there),
        IT("keys go only the ways that there are", ways_that_there_are_not),
        IT("a merge is all or nothing, and so is undoing it", merges_that_are_none),
        IT("of one key only the newest row has to stay, where the latest wins",
           superseded_rows_may_go),
        IT("nothing happens before its time", time_is_kept),
        IT("nothing is deleted too soon", nothing_is_deleted_too_soon),
        IT("a snapshot has every row, once", a_snapshot_has_every_row_once),
        IT("leases are settled, and tries counted", leases_are_settled_and_counted),
        IT("answers are true", answers_are_true),
        IT("a split loses nothing", splits_lose_nothing),
        IT("nothing is left in the end", nothing_is_left_in_the_end),
    };
    return cmocka_run_group_tests_name("sim_compact_test", tests, NULL, NULL);
}
