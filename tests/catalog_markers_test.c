/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_markers_test.c: when a merge may drop deletion markers, and what is refused after
 * that. */
#include "base/layout.h"
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#include <stdio.h>

/* D of the kit's settings; markers are kept for twice as long. */
#define LATE_S 100000
#define OLD_S  (2 * LATE_S + 1000)

static struct catalog *marked_catalog(void)
{
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog;
    struct hf_error error;
    settings.deleted = VIEW("4");
    assert_status(HF_OK, catalog_new(VIEW("default"), VIEW(""), 0, &settings, &catalog, &error),
                  &error);
    return catalog;
}

/* Chunk n with records from min_ms to max_ms; its newest marker is of marker_ms (0: no markers; -1:
 * unknown). */
static struct chunk dated(unsigned n, int64_t min_ms, int64_t max_ms, int64_t marker_ms)
{
    struct chunk chunk = kit_chunk(0, n);
    chunk.min_ms = min_ms;
    chunk.max_ms = max_ms;
    chunk.markers = (struct chunk_markers){ .known = marker_ms >= 0 };
    if (marker_ms > 0)
        chunk.markers = (struct chunk_markers){ .known = true, .count = 1, .ms = marker_ms };
    return chunk;
}

static enum hf_status try_add(struct catalog *catalog, struct chunk chunk, int64_t seconds,
                              struct catalog_op *op)
{
    *op = (struct catalog_op){ .kind = CATALOG_ADD,
                               .chunks = &chunk,
                               .chunk_count = 1,
                               .drawn = catalog_kit_at(seconds).now };
    return kit_apply(catalog, op, catalog_kit_at(seconds));
}

static void add(struct catalog *catalog, struct chunk chunk, int64_t seconds)
{
    struct catalog_op op;
    assert_status(HF_OK, try_add(catalog, chunk, seconds, &op), &op.error);
}

/* Commits a merge of chunks `first` and up into L1 chunk `target`. */
static enum hf_status commit(struct catalog *catalog, unsigned target, unsigned first,
                             unsigned count, bool drops, int64_t seconds, struct catalog_op *op)
{
    static struct view keys[8];
    struct chunk chunk = kit_chunk(1, target);
    chunk.min_ms = INT64_MAX;
    chunk.max_ms = INT64_MIN;
    for (unsigned i = 0; i < count; i++) {
        keys[i] = kit_key(0, first + i);
        const struct chunk *source = catalog_find(catalog, keys[i]);
        if (source && source->min_ms < chunk.min_ms)
            chunk.min_ms = source->min_ms;
        if (source && source->max_ms > chunk.max_ms)
            chunk.max_ms = source->max_ms;
    }
    if (chunk.min_ms > chunk.max_ms)
        chunk.min_ms = chunk.max_ms = 1;
    *op = (struct catalog_op){ .kind = CATALOG_COMMIT,
                               .keys = keys,
                               .key_count = count,
                               .target = chunk,
                               .drops_markers = drops,
                               .drawn = catalog_kit_at(seconds).now };
    return kit_apply(catalog, op, catalog_kit_at(seconds));
}

static void expect_refused(struct catalog *catalog, unsigned first, unsigned count,
                           int64_t seconds, const char *why)
{
    struct catalog_op op;
    assert_status(HF_CONFLICT, commit(catalog, 900, first, count, true, seconds, &op),
                  &op.error);
    assert_true(op.needs_markers);
    assert_non_null(strstr(op.error.why, "deletion markers must be kept"));
    assert_non_null(strstr(op.error.why, why));
    assert_false(op.changed || catalog->has_floor);
}

static void expect_dropped(struct catalog *catalog, unsigned first, unsigned count,
                           int64_t seconds, int64_t floor_ms)
{
    struct catalog_op op;
    assert_status(HF_OK, commit(catalog, 901, first, count, true, seconds, &op), &op.error);
    assert_true(catalog->has_floor);
    assert_int_equal(catalog->floor_ms, floor_ms);
    const struct chunk *target = catalog_find(catalog, kit_key(1, 901));
    assert_true(target->markers.known && target->markers.count == 0);
}

/* ---- Dropping ------------------------------------------------------------------------ */

static void markers_go_once_nothing_older_is_left(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    add(catalog, dated(3, 4001, 9000, 0), 1); /* begins after the marker */
    expect_dropped(catalog, 1, 2, OLD_S, 4000);
    struct catalog *again = catalog_kit_reload(catalog, catalog, OLD_S + 1);
    assert_true(again->has_floor && again->floor_ms == 4000);
    catalog_free(again);
    catalog_free(catalog);
}

static void a_marker_of_the_future_stays_until_then(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    int64_t future_ms = (int64_t)OLD_S * 10 * 1000;
    add(catalog, dated(1, 1000, future_ms, future_ms), 1);
    add(catalog, dated(2, 500, 900, 800), 1);
    expect_refused(catalog, 1, 2, OLD_S, "no record until then could be ingested");
    expect_refused(catalog, 1, 2, OLD_S * 10, "the newest is of");
    struct catalog_op op;
    assert_status(HF_OK, try_add(catalog, dated(3, 2000, 3000, 0), OLD_S * 10, &op), &op.error);
    expect_dropped(catalog, 1, 3, OLD_S * 11 + 1, future_ms);
    catalog_free(catalog);
}

static void a_live_chunk_that_reaches_back_keeps_them(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct view key = kit_key(0, 3);
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    add(catalog, dated(3, 4000, 9000, 0), 1);
    expect_refused(catalog, 1, 2, OLD_S, "may contain records");
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("x")
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    expect_refused(catalog, 1, 2, OLD_S, "may contain records");
    expect_dropped(catalog, 1, 3, OLD_S, 4000);
    catalog_free(catalog);
}

static void a_tombstone_that_can_be_restored_keeps_them(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 6000, 6500, 0), 1);
    add(catalog, dated(3, 500, 900, 0), 1);
    struct catalog_op op = { .kind = CATALOG_RETIRE, .cutoff_ms = 950 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(OLD_S)), &op.error);
    assert_int_equal(op.moved, 1);
    expect_refused(catalog, 1, 2, OLD_S, "can be undeleted");
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(OLD_S + 2000)), 1);
    expect_dropped(catalog, 1, 2, OLD_S + 2000, 4000);
    catalog_free(catalog);
}

/* Undeleting 1 and 2 needs the output 901 of the merge to be live, that is, this merge undone. */
static void a_tombstone_of_a_source_does_not_count(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct catalog_op op;
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    add(catalog, dated(3, 7000, 8000, 0), 1);
    assert_status(HF_OK, commit(catalog, 1, 1, 2, false, OLD_S, &op), &op.error);
    const struct chunk *merged = catalog_find(catalog, kit_key(1, 1));
    assert_true(merged->markers.known && merged->markers.count == 1);
    assert_int_equal(merged->markers.ms, 4000);
    struct view keys[] = { kit_key(1, 1), kit_key(0, 3) };
    struct chunk target = kit_chunk(2, 901);
    target.min_ms = 500;
    target.max_ms = 8000;
    op = (struct catalog_op){ .kind = CATALOG_COMMIT,
                              .keys = keys,
                              .key_count = 2,
                              .target = target,
                              .drops_markers = true,
                              .drawn = catalog_kit_at(OLD_S + 1).now };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(OLD_S + 1)), &op.error);
    assert_int_equal(catalog->floor_ms, 4000);
    struct view first = kit_key(0, 1);
    op = (struct catalog_op){ .kind = CATALOG_UNDELETE, .keys = &first, .key_count = 1 };
    assert_status(HF_CONFLICT, kit_apply(catalog, &op, catalog_kit_at(OLD_S + 2)), &op.error);
    op.keys = &keys[0]; /* undoes the merge that dropped the markers, and brings them back */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(OLD_S + 3)), &op.error);
    assert_int_equal(catalog_find(catalog, keys[0])->markers.count, 1);
    assert_int_equal(catalog->floor_ms, 4000); /* the floor stays */
    catalog_free(catalog);
}

static void markers_stay_for_twice_d(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct catalog_op op;
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), LATE_S);
    expect_refused(catalog, 1, 2, 2 * LATE_S - 10, "too recently");
    add(catalog, dated(3, 950, 960, 955), LATE_S); /* a later marker starts the time anew */
    assert_status(HF_OK, commit(catalog, 1, 1, 3, false, OLD_S, &op), &op.error);
    struct view merged = kit_key(1, 1);
    struct hf_error error;
    struct evidence early = catalog_kit_at(OLD_S + 10);
    struct evidence late = catalog_kit_at(LATE_S + OLD_S);
    assert_status(HF_CONFLICT, catalog_check_markers(catalog, &merged, 1, &early, &error),
                  &error);
    assert_status(HF_OK, catalog_check_markers(catalog, &merged, 1, &late, &error), &error);
    catalog_free(catalog);
}

static void stamps_of_another_clock_start_the_time_anew(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct chunk chunk = dated(1, 1000, 5000, 4000);
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
    struct evidence at = kit_at_clock(1, "earlier");
    op.drawn = at.now;
    assert_status(HF_OK, kit_apply(catalog, &op, at), &op.error);
    add(catalog, dated(2, 500, 900, 0), 1);
    expect_refused(catalog, 1, 2, 10 * LATE_S, "too recently");
    assert_status(HF_OK, commit(catalog, 1, 1, 2, false, 10 * LATE_S, &op), &op.error);
    struct view merged = kit_key(1, 1);
    struct hf_error error;
    struct evidence late = catalog_kit_at(10 * LATE_S + OLD_S);
    assert_status(HF_OK, catalog_check_markers(catalog, &merged, 1, &late, &error), &error);
    catalog_free(catalog);
}

static void what_is_unknown_is_kept(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct catalog_op op;
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, -1), 1);
    expect_refused(catalog, 1, 2, OLD_S, "unknown markers");
    assert_status(HF_OK, commit(catalog, 1, 1, 2, false, OLD_S, &op), &op.error);
    assert_false(catalog_find(catalog, kit_key(1, 1))->markers.known);
    catalog_free(catalog);
}

static void split_partitions_keep_their_markers(void **state)
{
    (void)state;
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog = marked_catalog(), *child;
    struct hf_error error;
    settings.deleted = VIEW("4");
    assert_status(HF_OK,
                  catalog_new(VIEW("child"), VIEW("default"), 1, &settings, &child, &error),
                  &error);
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    catalog_raise_floor(catalog, 700);
    assert_status(HF_OK, catalog_copy_entry(child, &catalog->live[0], &error), &error);
    assert_status(HF_OK, catalog_inherit(child, catalog, &error), &error);
    assert_true(child->has_floor && child->floor_ms == 700);
    struct view key = kit_key(0, 1);
    struct evidence late = catalog_kit_at(OLD_S);
    assert_status(HF_CONFLICT, catalog_check_markers(child, &key, 1, &late, &error), &error);
    assert_non_null(strstr(error.why, "was split"));
    catalog_free(child);
    catalog_free(catalog);
}

static void without_markers_there_is_nothing_to_drop(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog(), *plain = kit_catalog();
    struct view keys[] = { kit_key(0, 1), kit_key(0, 2) };
    struct evidence late = catalog_kit_at(OLD_S);
    struct hf_error error;
    add(catalog, dated(1, 1000, 5000, 0), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    assert_status(HF_NOT_FOUND, catalog_check_markers(catalog, keys, 2, &late, &error), &error);
    catalog_kit_add(plain, 1, 2, catalog_kit_at(1));
    assert_status(HF_NOT_FOUND, catalog_check_markers(plain, keys, 2, &late, &error), &error);
    catalog_free(plain);
    catalog_free(catalog);
}

/* ---- The floor ----------------------------------------------------------------------- */

static void older_data_is_refused_from_then_on(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct catalog_op op;
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    expect_dropped(catalog, 1, 2, OLD_S, 4000);
    assert_status(HF_INVALID, try_add(catalog, dated(5, 4000, 9000, 0), OLD_S + 1, &op),
                  &op.error);
    assert_true(op.below_floor);
    assert_non_null(strstr(op.error.why, "1970-01-01T00:00:04"));
    add(catalog, dated(6, 4001, 9000, 0), OLD_S + 1);
    assert_status(HF_OK, try_add(catalog, dated(1, 1000, 5000, 4000), OLD_S + 1, &op),
                  &op.error); /* it was added before */
    assert_true(op.already);
    catalog_raise_floor(catalog, 10);
    assert_int_equal(catalog->floor_ms, 4000); /* it never sinks */
    catalog_free(catalog);
}

static struct chunk empty(unsigned n)
{
    struct chunk chunk = dated(n, 0, 0, 0);
    chunk.rows_known = true;
    chunk.rows = 0;
    return chunk;
}

static void what_has_no_records_is_not_older(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    add(catalog, empty(3), 1);
    expect_dropped(catalog, 1, 2, OLD_S, 4000);
    add(catalog, empty(4), OLD_S + 1);
    catalog_free(catalog);
}

static void the_floor_changes_what_a_split_copied(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    uint64_t before = catalog_live_hash(catalog);
    catalog_raise_floor(catalog, 700);
    assert_true(catalog_live_hash(catalog) != before);
    catalog_free(catalog);
}

/* ---- Documents ----------------------------------------------------------------------- */

static void an_earlier_program_refuses_the_document(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    struct buffer text = catalog_kit_encode(catalog);
    assert_non_null(strstr(buffer_text(&text), LAYOUT_CATALOG_FORMAT_2 "\""));
    buffer_release(&text);
    catalog_free(catalog);
}

static void entries_say_what_markers_their_chunks_contain(void **state)
{
    (void)state;
    struct catalog *catalog = marked_catalog();
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    add(catalog, dated(2, 500, 900, 0), 1);
    add(catalog, dated(3, 500, 900, -1), 1);
    struct catalog *again = catalog_kit_reload(catalog, catalog, 2);
    for (size_t i = 0; i < 3; i++) {
        const struct chunk_markers *a = &catalog->live[i].markers, *b = &again->live[i].markers;
        assert_true(a->known == b->known && a->count == b->count && a->ms == b->ms &&
                    a->since.clock == b->since.clock && a->since.us == b->since.us);
    }
    assert_true(again->live[0].markers.since.us > 0);
    catalog_free(again);
    catalog_free(catalog);
}

static void the_deleted_field_needs_key_and_time_and_stays(void **state)
{
    (void)state;
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog = marked_catalog();
    struct hf_error error;
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    add(catalog, dated(1, 1000, 5000, 4000), 1);
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    settings.deleted = VIEW("4");
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings.time = (struct view){ NULL, 0 };
    assert_status(HF_INVALID, compact_settings_check(&settings, &error), &error);
    settings = catalog_kit_settings();
    settings.deleted = VIEW("gone"); /* usv has no names */
    assert_status(HF_INVALID, compact_settings_check(&settings, &error), &error);
    settings.deleted = VIEW("4");
    settings.command = VIEW("sort {inputs} -o {output}");
    assert_status(HF_INVALID, compact_settings_check(&settings, &error), &error);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("markers go once nothing older is left", markers_go_once_nothing_older_is_left),
        IT("a marker of the future stays until then: the floor would refuse all records",
           a_marker_of_the_future_stays_until_then),
        IT("a live chunk that reaches back keeps them, quarantined or not",
           a_live_chunk_that_reaches_back_keeps_them),
        IT("a tombstone that can be restored keeps them",
           a_tombstone_that_can_be_restored_keeps_them),
        IT("a tombstone that was merged into a source does not count",
           a_tombstone_of_a_source_does_not_count),
        IT("markers stay for twice D after they were ingested", markers_stay_for_twice_d),
        IT("stamps of another clock start the time anew",
           stamps_of_another_clock_start_the_time_anew),
        IT("what is unknown is kept", what_is_unknown_is_kept),
        IT("split partitions keep their markers, and inherit the floor",
           split_partitions_keep_their_markers),
        IT("without markers there is nothing to drop",
           without_markers_there_is_nothing_to_drop),
        IT("older data is refused once markers were dropped",
           older_data_is_refused_from_then_on),
        IT("a chunk without records keeps no markers, and is taken below the floor",
           what_has_no_records_is_not_older),
        IT("a split that copied the catalog before the floor rose is refused",
           the_floor_changes_what_a_split_copied),
        IT("an earlier program refuses the document", an_earlier_program_refuses_the_document),
        IT("entries say what markers their chunks contain",
           entries_say_what_markers_their_chunks_contain),
        IT("the deleted field needs a key and a time, and stays",
           the_deleted_field_needs_key_and_time_and_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
