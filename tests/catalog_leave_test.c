/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_leave_test.c: how chunks leave a catalog and return: retire, tend, undelete, split;
 * and the settings. */
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#include <stdio.h>

static void expect_state(const struct catalog *catalog, struct view key,
                         enum chunk_state expected)
{
    assert_string_equal(chunk_state_name(catalog_state(catalog, key)),
                        chunk_state_name(expected));
}

static enum hf_status add_one(struct catalog *catalog, struct chunk chunk, int64_t seconds,
                              struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
    enum hf_status status = kit_apply(catalog, &op, catalog_kit_at(seconds));
    *error = op.error;
    return status;
}

/* ---- Retire, tend -------------------------------------------------------------------- */

static void retires_by_the_last_record(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog_kit_add(catalog, 98, 5, catalog_kit_at(1)); /* 98, 99 an hour before 100 to 102 */
    struct catalog_op op = { .kind = CATALOG_RETIRE };
    op.cutoff_ms = catalog->live[0].max_ms;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_false(op.changed);
    op.cutoff_ms++;
    op.most = 1; /* what is retired together comes back together, so it is not divided */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_int_equal(op.moved, 2);
    expect_state(catalog, kit_key(0, 99), CHUNK_TOMBSTONE);
    expect_state(catalog, kit_key(0, 100), CHUNK_LIVE);
    assert_int_equal(catalog->grave_count, 1);
    assert_int_equal(catalog->graves[0].into.size, 0);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_false(op.changed);
    catalog_free(catalog);
}

static enum hf_status undelete(struct catalog *catalog, struct catalog_op *op, struct view key)
{
    *op = (struct catalog_op){ .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    enum hf_status status = kit_apply(catalog, op, catalog_kit_at(50));
    op->keys = NULL;
    return status;
}

/* Another chunk may have older records of the same keys. */
static void what_expires_hides_older_records(void **state)
{
    (void)state;
    for (int keyed = 0; keyed < 2; keyed++) {
        struct catalog *catalog = kit_catalog();
        struct catalog_op op = { .kind = CATALOG_RETIRE };
        if (!keyed)
            catalog->settings.key = VIEW("");
        catalog_kit_add(catalog, 98, 5, catalog_kit_at(1));
        op.cutoff_ms = catalog->live[0].min_ms;
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
        assert_false(catalog->has_expired); /* nothing was retired */
        int64_t cutoff_ms = op.cutoff_ms = catalog->live[0].max_ms + 1;
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
        assert_true(op.moved > 0 && catalog->has_expired == (keyed == 1));
        if (keyed) {
            struct catalog *again = catalog_kit_reload(catalog, NULL, 60);
            assert_true(again->has_expired && again->expired_ms == cutoff_ms);
            catalog_free(again);
            assert_status(HF_OK, undelete(catalog, &op, kit_key(0, 98)), &op.error);
            assert_false(catalog->has_expired);
        }
        catalog_free(catalog);
    }
}

static void discard(struct catalog *catalog, struct view key)
{
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("bad")
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    op = (struct catalog_op){ .kind = CATALOG_DISCARD, .keys = &key, .key_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
}

static void undelete_of_a_discarded_chunk_shows_nothing_else(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op = { .kind = CATALOG_RETIRE };
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    op.cutoff_ms = catalog->live[2].min_ms + 1;
    int64_t expired_ms = op.cutoff_ms;
    catalog->live[4].min_ms = catalog->live[0].min_ms; /* spans all */
    catalog->live[0].max_ms = catalog->live[0].min_ms; /* is retired */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_true(op.moved > 0 && catalog->has_expired);
    discard(catalog, kit_key(0, 5));
    struct catalog *again = catalog_kit_reload(catalog, NULL, 60);
    assert_status(HF_OK, undelete(again, &op, kit_key(0, 5)), &op.error);
    assert_int_equal(op.moved, 1);
    assert_int_equal(again->expired_ms, expired_ms);
    catalog_free(again);
    catalog_free(catalog);
}

static void retire_first(struct catalog *catalog, size_t count)
{
    struct catalog_op op = { .kind = CATALOG_RETIRE };
    op.cutoff_ms = catalog->live[count - 1].max_ms + 1;
    for (size_t i = 0; i < count; i++)
        catalog->live[i].min_ms = catalog->live[i].max_ms = op.cutoff_ms - 10;
    for (size_t i = count; i < catalog->live_count; i++)
        catalog->live[i].max_ms = op.cutoff_ms + 10;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_int_equal(op.moved, count);
}

/* One of them may have the marker that hides a record which another chunk still has. */
static void what_was_retired_together_comes_back_together(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 6, catalog_kit_at(1));
    retire_first(catalog, 2);
    int64_t first_ms = catalog->expired_ms;
    retire_first(catalog, 2);
    assert_true(catalog->expired_ms > first_ms);
    struct catalog *again = catalog_kit_reload(catalog, NULL, 60);
    assert_status(HF_CONFLICT, undelete(again, &op, kit_key(0, 1)), &op.error);
    assert_non_null(strstr(op.error.why, "first"));
    assert_status(HF_OK, undelete(again, &op, kit_key(0, 3)), &op.error);
    assert_int_equal(op.moved, 2);
    expect_state(again, kit_key(0, 4), CHUNK_LIVE);
    assert_int_equal(again->expired_ms, first_ms);
    assert_status(HF_OK, undelete(again, &op, kit_key(0, 1)), &op.error);
    assert_int_equal(op.moved, 2);
    assert_false(again->has_expired);
    catalog_free(again);
    catalog_free(catalog);
}

static void a_catalog_below_another_shows_nothing_again(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    catalog->parent = VIEW("above");
    catalog->depth = 1;
    retire_first(catalog, 2);
    assert_status(HF_CONFLICT, undelete(catalog, &op, kit_key(0, 1)), &op.error);
    assert_non_null(strstr(op.error.why, "was split"));
    catalog_free(catalog);
}

static void graves_move_after_grace(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 9, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(10));
    kit_commit(catalog, &op, 1, 2, 4, 3, catalog_kit_at(10));
    kit_commit(catalog, &op, 1, 3, 7, 3, catalog_kit_at(500));
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(10 + 1 + 1000 + 30)), 0);
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .most = 2 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1042)), &op.error);
    assert_int_equal(op.moved, 3); /* a grave is moved whole */
    op.most = 5;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1042)), &op.error);
    assert_int_equal(op.moved, 3);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1042)), &op.error);
    assert_false(op.changed);
    assert_int_equal(catalog->removal_count, 2);
    assert_int_equal(catalog->grave_count, 1);
    assert_int_equal(catalog->dead_count, 9);
    expect_state(catalog, kit_key(0, 6), CHUNK_RETIRED);
    expect_state(catalog, kit_key(0, 7), CHUNK_TOMBSTONE);
    catalog_free(catalog);
}

static bool is_known(struct catalog *catalog, unsigned n, const char *file_id, int64_t seconds)
{
    struct chunk chunk = kit_chunk(0, n);
    bool known = false;
    chunk.file_id = view_of(file_id);
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = &chunk,
                             .chunk_count = 1,
                             .drawn = catalog_kit_at(seconds).now,
                             .ret_known = &known };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(seconds)), &op.error);
    assert_true(known == !op.changed);
    return known;
}

static struct catalog *reloaded(struct catalog *catalog)
{
    struct catalog *again = catalog_kit_reload(catalog, catalog, 1);
    catalog_free(catalog);
    return again;
}

static void a_file_is_known_until_its_name_is_dropped(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    assert_false(is_known(catalog, 1, "one", 1));
    assert_false(is_known(catalog, 2, "two", 1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(10)), &op.error);
    catalog = reloaded(catalog);
    assert_true(is_known(catalog, 3, "one", 20)); /* a tombstone */
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(5000)), 2);
    assert_true(is_known(catalog, 3, "one", 5001)); /* being deleted */
    catalog = reloaded(catalog);
    assert_int_equal(catalog->removals[0].file_id_count, 2);
    assert_true(is_known(catalog, 3, "two", 5002));
    struct view key = kit_key(0, 1);
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .done = &key, .done_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(5003)), &op.error);
    catalog = reloaded(catalog);
    assert_true(is_known(catalog, 3, "one", 100000));
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .gone = &key, .gone_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(106000)), &op.error);
    assert_int_equal(catalog->removal_count, 0);
    assert_false(is_known(catalog, 3, "one", 106001)); /* forgotten */
    catalog_free(catalog);
}

static void what_is_undeleted_or_blamed_keeps_its_file(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    assert_false(is_known(catalog, 1, "one", 1));
    assert_false(is_known(catalog, 2, "two", 1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(10)), &op.error);
    struct view key = kit_key(0, 1);
    op = (struct catalog_op){ .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_true(is_known(catalog, 3, "one", 21) && is_known(catalog, 3, "two", 21));
    op = (struct catalog_op){
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("x")
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(22)), &op.error);
    catalog = reloaded(catalog);
    assert_true(is_known(catalog, 3, "one", 23));
    op = (struct catalog_op){ .kind = CATALOG_RETIRE, .cutoff_ms = INT64_MAX };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(24)), &op.error);
    assert_true(is_known(catalog, 3, "one", 25) && is_known(catalog, 3, "two", 25));
    catalog_free(catalog);
}

static void what_is_watched_moves(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(10));
    /* On another clock, and not known to be written: nothing was seen. */
    assert_int_equal(kit_maintain(catalog, kit_at_clock(5000, "clock-b")), 0);
    catalog_written(catalog, (struct mono_time){ 6000 * INT64_C(1000000) });
    assert_int_equal(kit_maintain(catalog, kit_at_clock(7000, "clock-b")), 0);
    struct catalog *again = catalog_kit_reload(catalog, catalog, 6500);
    struct catalog *anew = catalog_kit_reload(catalog, NULL, 6500);
    assert_int_equal(kit_maintain(again, kit_at_clock(7001, "clock-b")), 3);
    assert_int_equal(kit_maintain(anew, kit_at_clock(7001, "clock-b")), 0);
    assert_int_equal(kit_maintain(anew, kit_at_clock(7501, "clock-b")), 3);
    catalog_free(again);
    catalog_free(anew);
    catalog_free(catalog);
}

static void unwritten_is_not_seen_before(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(10));
    struct catalog *again = catalog_kit_reload(catalog, catalog, 3000);
    assert_int_equal(again->graves[0].part.seen.us, 3000 * INT64_C(1000000));
    catalog_free(again);
    catalog_free(catalog);
}

static enum hf_status maintain_keys(struct catalog *catalog, struct catalog_op *op,
                                    const struct view *done, const struct view *gone,
                                    int64_t seconds)
{
    *op = (struct catalog_op){ .kind = CATALOG_MAINTAIN,
                               .done = done,
                               .done_count = done != NULL,
                               .gone = gone,
                               .gone_count = gone != NULL };
    return kit_apply(catalog, op, catalog_kit_at(seconds));
}

static void deleting_stays_for_d(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(10));
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(2000)), 3);
    struct view key = kit_key(0, 2), other = kit_key(0, 4);
    /* Not done yet: not dropped, however late. */
    assert_status(HF_OK, maintain_keys(catalog, &op, NULL, &key, 900000), &op.error);
    assert_false(op.changed);
    assert_status(HF_OK, maintain_keys(catalog, &op, &key, NULL, 3000), &op.error);
    assert_true(op.changed && catalog->removals[0].done);
    assert_status(HF_OK, maintain_keys(catalog, &op, &key, NULL, 3000), &op.error);
    assert_false(op.changed);
    assert_status(HF_OK, maintain_keys(catalog, &op, NULL, &key, 2001 + 100000 + 30),
                  &op.error);
    assert_false(op.changed);
    expect_state(catalog, key, CHUNK_RETIRED);
    assert_status(HF_OK, maintain_keys(catalog, &op, &other, &other, 900000), &op.error);
    assert_false(op.changed);
    assert_status(HF_OK, maintain_keys(catalog, &op, NULL, &key, 2002 + 100000 + 30),
                  &op.error);
    assert_true(op.changed);
    expect_state(catalog, key, CHUNK_UNKNOWN);
    assert_int_equal(catalog->removal_count, 0);
    assert_int_equal(catalog->dead_count, 0);
    assert_status(HF_OK, maintain_keys(catalog, &op, NULL, &key, 200000), &op.error);
    assert_false(op.changed);
    catalog_free(catalog);
}

static void restamps_what_it_cannot_read(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(10));
    kit_condemn(catalog, kit_key(1, 9), catalog_kit_at(10));
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .restamp = true };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_false(op.changed);
    assert_status(HF_OK, kit_apply(catalog, &op, kit_at_clock(20, "")), &op.error);
    assert_false(op.changed);
    assert_status(HF_OK, kit_apply(catalog, &op, kit_at_clock(50, "clock-b")), &op.error);
    assert_true(op.changed);
    assert_int_equal(catalog->graves[0].part.since.us, 51000000);
    assert_int_equal(catalog->graves[0].part.restamps, 1);
    assert_int_equal(catalog->removals[0].part.restamps, 1);
    struct catalog *again = catalog_kit_reload(catalog, catalog, 60);
    assert_int_equal(again->graves[0].part.restamps, 1);
    catalog_free(again);
    for (int i = 0; i < 40; i++)
        kit_apply(catalog, &op, kit_at_clock(60, i % 2 ? "clock-b" : "clock-a"));
    assert_int_equal(catalog->graves[0].part.restamps, STAMP_RESTAMPS_MAX);
    assert_false(op.changed);
    catalog_free(catalog);
}

/* ---- Undelete ------------------------------------------------------------------------ */

static void undelete_undoes_a_merge(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 9, 1, 3, catalog_kit_at(10));
    assert_status(HF_OK, undelete(catalog, &op, kit_key(0, 2)), &op.error);
    assert_true(op.changed);
    assert_int_equal(op.moved, 3);
    assert_int_equal(catalog->live_count, 5);
    assert_int_equal(catalog_find(catalog, kit_key(0, 3))->since.us, 51000000);
    expect_state(catalog, kit_key(1, 9), CHUNK_TOMBSTONE);
    assert_int_equal(catalog->grave_count, 1);
    assert_true(catalog->graves[0].undone);
    assert_status(HF_OK, undelete(catalog, &op, kit_key(0, 2)), &op.error);
    assert_true(op.already && !op.changed);
    /* The other way round would make the rows live twice. */
    assert_status(HF_CONFLICT, undelete(catalog, &op, kit_key(1, 9)), &op.error);
    struct catalog *again = catalog_kit_reload(catalog, catalog, 60);
    assert_status(HF_CONFLICT, undelete(again, &op, kit_key(1, 9)), &op.error);
    catalog_free(again);
    catalog_free(catalog);
}

static void undelete_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    assert_status(HF_NOT_FOUND, undelete(catalog, &op, kit_key(0, 9)), &op.error);
    kit_commit(catalog, &op, 1, 1, 1, 2, catalog_kit_at(10));
    kit_commit(catalog, &op, 1, 2, 3, 2, catalog_kit_at(10));
    kit_commit(catalog, &op, 2, 1, 1, 2, catalog_kit_at(10));
    assert_status(HF_CONFLICT, undelete(catalog, &op, kit_key(0, 1)), &op.error);
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(5000)), 6);
    assert_status(HF_NOT_FOUND, undelete(catalog, &op, kit_key(0, 1)), &op.error);
    catalog_free(catalog);
}

static void undelete_of_what_was_retired(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog->settings.key = VIEW("");
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    struct catalog_op op = { .kind = CATALOG_RETIRE, .cutoff_ms = CHUNK_MS_MAX };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_int_equal(op.moved, 3);
    for (unsigned i = 1; i <= 3; i++) {
        assert_status(HF_OK, undelete(catalog, &op, kit_key(0, i)), &op.error);
        assert_int_equal(op.moved, 1);
        assert_int_equal(catalog->live_count, i);
        catalog_free(catalog_kit_reload(catalog, catalog, 60));
    }
    assert_int_equal(catalog->grave_count, 0);
    catalog_free(catalog);
}

/* ---- Split, set ---------------------------------------------------------------------- */

static struct catalog_op split_op(const struct catalog *catalog)
{
    static char names[CATALOG_CHILDREN][40];
    struct catalog_op op = { .kind = CATALOG_SPLIT,
                             .split_by = SPLIT_BY_KEY,
                             .live_hash = catalog_live_hash(catalog) };
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        snprintf(names[i], sizeof names[i], "child-%zu", i);
        op.children[i] = view_of(names[i]);
    }
    return op;
}

static void splits(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 100, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 9, 1, 3, catalog_kit_at(10));
    op = split_op(catalog);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_true(op.changed);
    assert_int_equal(op.moved, 98);
    assert_int_equal(catalog->live_count, 0);
    assert_int_equal(catalog->reference_count, 98);
    expect_state(catalog, kit_key(1, 9), CHUNK_MOVED);
    unsigned child = split_route(catalog->partition, catalog->split_by, kit_key(1, 9), 0);
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (view_equal(catalog->references[i].key, kit_key(1, 9)))
            assert_int_equal(catalog->references[i].child, child);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_true(op.already && !op.changed);
    op.children[3] = VIEW("another");
    assert_status(HF_MISMATCH, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_int_equal(kit_condemn(catalog, kit_key(0, 50), catalog_kit_at(20)),
                     CONDEMN_HAPPENED);
    struct hf_error error;
    assert_status(HF_MISMATCH, add_one(catalog, kit_chunk(0, 500), 20, &error), &error);
    assert_status(HF_OK, add_one(catalog, kit_chunk(0, 50), 20, &error), &error);
    assert_status(HF_CONFLICT, kit_commit(catalog, &op, 1, 10, 50, 3, catalog_kit_at(20)),
                  &op.error);
    assert_status(HF_CONFLICT, undelete(catalog, &op, kit_key(0, 1)), &op.error);
    struct catalog *again = catalog_kit_reload(catalog, catalog, 60);
    assert_int_equal(again->reference_count, 98);
    assert_int_equal(again->split_by, SPLIT_BY_KEY);
    catalog_free(again);
    catalog_free(catalog);
}

static void a_split_catalog_knows_the_files_of_what_moved(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    assert_false(is_known(catalog, 1, "one", 1));
    assert_false(is_known(catalog, 2, "two", 1));
    assert_false(is_known(catalog, 3, "three", 1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(10)), &op.error);
    op = split_op(catalog);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    catalog = reloaded(catalog);
    assert_int_equal(catalog->moved_file_id_count, 1);
    assert_true(is_known(catalog, 4, "three", 21) && is_known(catalog, 4, "one", 21));
    assert_false(catalog_knows_file(catalog, VIEW("four")));
    catalog_free(catalog);
}

static void split_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog_kit_add(catalog, 1, 10, catalog_kit_at(1));
    struct catalog_op op = split_op(catalog);
    assert_status(HF_EXPIRED, kit_apply(catalog, &op, catalog_kit_at(50000)), &op.error);
    struct catalog_op bad = op;
    bad.children[2] = bad.children[1];
    assert_status(HF_INVALID, kit_apply(catalog, &bad, catalog_kit_at(2)), &bad.error);
    bad.children[2] = VIEW("Not a name");
    assert_status(HF_INVALID, kit_apply(catalog, &bad, catalog_kit_at(2)), &bad.error);
    bad.children[2] = VIEW(KIT_PARTITION);
    assert_status(HF_INVALID, kit_apply(catalog, &bad, catalog_kit_at(2)), &bad.error);
    /* A quarantine changes an entry: the copy of it is old. */
    struct view key = kit_key(0, 3);
    struct catalog_op change = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("x")
    };
    assert_status(HF_OK, kit_apply(catalog, &change, catalog_kit_at(2)), &change.error);
    assert_status(HF_CONFLICT, kit_apply(catalog, &op, catalog_kit_at(3)), &op.error);
    assert_int_equal(catalog->live_count, 10);
    catalog_free(catalog);
}

static void children_have_what_moved(void **state)
{
    (void)state;
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *parent = kit_catalog(), *child = NULL;
    struct hf_error error;
    struct catalog_op op;
    catalog_kit_add(parent, 1, 4, catalog_kit_at(1));
    assert_status(
        HF_OK, catalog_new(VIEW("child-1"), VIEW(KIT_PARTITION), 1, &settings, &child, &error),
        &error);
    for (size_t i = 0; i < parent->live_count; i++)
        assert_status(HF_OK, catalog_copy_entry(child, &parent->live[i], &error), &error);
    assert_status(HF_OK, catalog_inherit(child, parent, &error), &error);
    catalog_check(child);
    assert_int_equal(catalog_live_hash(child), catalog_live_hash(parent));
    assert_int_equal(child->cascade.counts[1], 4);
    /* It merges what it has, under a name of its own. */
    struct view keys[2] = { kit_key(0, 1), kit_key(0, 2) };
    op = (struct catalog_op){
        .kind = CATALOG_COMMIT, .keys = keys, .key_count = 2, .target = kit_chunk(1, 9)
    };
    assert_status(HF_INVALID, kit_apply(child, &op, catalog_kit_at(2)), &op.error);
    op.target.key = kit_key_of("child-1", 1, 9);
    assert_status(HF_OK, kit_apply(child, &op, catalog_kit_at(2)), &op.error);
    assert_int_equal(kit_condemn(child, kit_key(0, 1), catalog_kit_at(2)), CONDEMN_HAPPENED);
    catalog_free(catalog_kit_reload(child, child, 60));
    catalog_free(child);
    catalog_free(parent);
}

static void settings_are_set(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct compact_settings settings = catalog_kit_settings();
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_false(op.changed);
    settings.key = VIEW("2");
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_true(op.changed);
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    settings.key = VIEW("1");
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    settings.key = VIEW("2");
    settings.cascade_base = 5;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(9)), &op.error);
    assert_int_equal(catalog->due.us, 10000000);
    settings.tries_max = 0;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    catalog_free(catalog);
}

/* ---- Memory -------------------------------------------------------------------------- */

static void memory_is_bounded(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    char why[64];
    catalog_kit_add(catalog, 1, 100, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 10, catalog_kit_at(2));
    catalog_written(catalog, (struct mono_time){ 77 });
    kit_condemn(catalog, kit_key(1, 2), catalog_kit_at(2));
    size_t most = 0;
    for (unsigned i = 0; i < 30000; i++) {
        snprintf(why, sizeof why, "for the %u. time", i);
        struct view key = kit_key(0, 11 + i % 90);
        op = (struct catalog_op){
            .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = view_of(why)
        };
        struct evidence at = catalog_kit_at(3);
        assert_status(HF_OK, catalog_apply(catalog, &op, &at), &op.error);
        most = catalog->inside->spent > most ? catalog->inside->spent : most;
    }
    catalog_check(catalog);
    assert_true(most < 2 * MIB);
    assert_int_equal(catalog->graves[0].part.seen.us, 77);
    assert_false(catalog->graves[0].part.unwritten);
    assert_true(catalog->removals[0].part.unwritten);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("chunks are retired once their last record is too old", retires_by_the_last_record),
        IT("what expires hides older records", what_expires_hides_older_records),
        IT("undelete of a discarded chunk shows no expired record again",
           undelete_of_a_discarded_chunk_shows_nothing_else),
        IT("chunks that were retired by age together come back together, the last ones first",
           what_was_retired_together_comes_back_together),
        IT("in a split partition, chunks that were retired by age stay retired",
           a_catalog_below_another_shows_nothing_again),
        IT("graves move to deleting once their grace is over, whole", graves_move_after_grace),
        IT("a file is known until the name of its chunk is dropped",
           a_file_is_known_until_its_name_is_dropped),
        IT("what is undeleted, quarantined or retired keeps its file",
           what_is_undeleted_or_blamed_keeps_its_file),
        IT("a grave of another clock moves once it was watched", what_is_watched_moves),
        IT("what was not known to be written was not seen", unwritten_is_not_seen_before),
        IT("a name stays in deleting until it is done and D has passed", deleting_stays_for_d),
        IT("stamps of another clock are made anew, so often and no more",
           restamps_what_it_cannot_read),
        IT("undelete brings back all of a merge and takes its target away",
           undelete_undoes_a_merge),
        IT("undelete is refused when the target is gone", undelete_is_refused),
        IT("without a key, undelete brings back one chunk that was retired",
           undelete_of_what_was_retired),
        IT("a split leaves a reference for each live entry, once", splits),
        IT("a split catalog knows the files of what moved",
           a_split_catalog_knows_the_files_of_what_moved),
        IT("a split of what changed meanwhile is refused", split_is_refused),
        IT("a child has what moved, and merges it under its own names",
           children_have_what_moved),
        IT("settings change, but not what chunks are made of", settings_are_set),
        IT("changes leave no more memory behind than a bound", memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
