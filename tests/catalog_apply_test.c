/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_apply_test.c: which chunks enter a catalog, which are refused, and which source is
 * blamed. Each transition is also applied again after it has happened. */
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static void expect_state(const struct catalog *catalog, struct view key,
                         enum chunk_state expected)
{
    assert_string_equal(chunk_state_name(catalog_state(catalog, key)),
                        chunk_state_name(expected));
}

/* ---- Add ----------------------------------------------------------------------------- */

static void adds_with_sequences(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct chunk chunks[3] = { kit_chunk(0, 1), kit_chunk(0, 2), kit_chunk(0, 3) };
    chunks[1].writer = VIEW("a");
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = 3 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(10)), &op.error);
    assert_true(op.changed && !op.already);
    assert_int_equal(catalog->live_count, 3);
    assert_int_equal(catalog->live[0].sequence, 1);
    assert_int_equal(catalog->live[1].sequence, 1);
    assert_int_equal(catalog->live[2].sequence, 2);
    assert_int_equal(catalog->writer_count, 2);
    assert_true(view_equal(catalog->writers[0].name, VIEW("a")));
    assert_int_equal(catalog->writers[1].sequence, 2);
    assert_int_equal(catalog->cascade.counts[1], 3);
    assert_int_equal(catalog->live[0].since.us, 11000000);
    assert_true(catalog_find(catalog, chunks[2].key) == &catalog->live[2]);
    catalog_free(catalog);
}

static void adds_once(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct chunk chunks[2] = { kit_chunk(0, 1), kit_chunk(0, 2) };
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = 2 }, other;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(10)), &op.error);
    /* Also when the names are old, and whatever became of them since. */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(90000)), &op.error);
    assert_true(op.already && !op.changed);
    assert_status(HF_OK, kit_commit(catalog, &other, 1, 7, 1, 2, catalog_kit_at(20)),
                  &other.error);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(30)), &op.error);
    assert_true(op.already && !op.changed);
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(5000)), 2);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(5001)), &op.error);
    assert_true(op.already && !op.changed);
    assert_int_equal(catalog->writers[0].sequence, 2);
    catalog_free(catalog);
}

static enum hf_status add_one(struct catalog *catalog, struct chunk chunk, int64_t seconds,
                              struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
    enum hf_status status = kit_apply(catalog, &op, catalog_kit_at(seconds));
    *error = op.error;
    return status;
}

static void settings_that_changed_meanwhile(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct compact_settings settings = catalog->settings;
    struct chunk chunk = kit_chunk(0, 1);
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1, .settings = &settings
    };
    settings.key = VIEW("another");
    assert_status(HF_MISMATCH, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_true(op.other_settings);
    settings = catalog->settings;
    settings.grace_ms++; /* says nothing of the data */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    settings.key = VIEW("another");
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_true(op.already && !op.other_settings);
    catalog_free(catalog);
}

static void a_late_bound_that_was_raised_revives_no_name(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct chunk chunk = kit_chunk(0, 1);
    int64_t before_ms = catalog->settings.late_bound_ms;
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1, .late_bound_ms = before_ms
    };
    catalog->settings.late_bound_ms *= 2;
    assert_status(HF_EXPIRED, kit_apply(catalog, &op, catalog_kit_at(50000)), &op.error);
    catalog->settings.late_bound_ms = before_ms / 2;
    op.late_bound_ms = before_ms;
    assert_status(HF_EXPIRED, kit_apply(catalog, &op, catalog_kit_at(49999)), &op.error);
    catalog->settings.late_bound_ms = before_ms * 2;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(49999)), &op.error);
    catalog_free(catalog);
}

static void add_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct hf_error error;
    struct chunk good = kit_chunk(0, 1), bad;
    assert_int_equal(kit_condemn(catalog, good.key, catalog_kit_at(1)), CONDEMN_DONE);
    assert_status(HF_CONFLICT, add_one(catalog, good, 1, &error), &error);
    good = kit_chunk(0, 2);
    assert_status(HF_EXPIRED, add_one(catalog, good, 50000, &error), &error);
    assert_status(HF_OK, add_one(catalog, good, 49999, &error), &error);
    bad = kit_chunk(0, 3);
    bad.key = kit_key_of("elsewhere", 0, 3);
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.key = VIEW("");
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.key = VIEW("data/\xff.usv");
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.level = CASCADE_LEVELS_MAX;
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.writer = VIEW("");
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.min_ms = bad.max_ms + 1;
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    bad = kit_chunk(0, 3);
    bad.size = OBJECT_BYTES_MAX + 1;
    assert_status(HF_INVALID, add_one(catalog, bad, 1, &error), &error);
    struct chunk twice[2] = { kit_chunk(0, 4), kit_chunk(0, 4) };
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = twice, .chunk_count = 2 };
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    op.chunk_count = 0;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_int_equal(catalog->live_count, 1);
    assert_int_equal(catalog->writer_count, 1);
    catalog_free(catalog);
}

static struct chunk chunk_of_file(unsigned n, const char *file_id)
{
    struct chunk chunk = kit_chunk(0, n);
    chunk.file_id = view_of(file_id);
    return chunk;
}

static void a_file_is_added_once(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct chunk first[2] = { chunk_of_file(1, "one"), chunk_of_file(2, "two") };
    struct chunk second[3] = { chunk_of_file(3, "two"), chunk_of_file(4, "three"),
                               chunk_of_file(1, "one") };
    bool known[3] = { true, true, true };
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = first, .chunk_count = 2, .ret_known = known
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(10)), &op.error);
    assert_true(op.changed && !known[0] && !known[1]);
    /* Of several those are added that are new; the key that it has itself is no other file's. */
    op.chunks = second;
    op.chunk_count = 3;
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(11)), &op.error);
    assert_true(op.changed && known[0] && !known[1] && !known[2]);
    expect_state(catalog, second[0].key, CHUNK_UNKNOWN);
    assert_int_equal(catalog->live_count, 3);
    /* After a lost reply. */
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(12)), &op.error);
    assert_true(!op.changed && op.already && known[0] && !known[1] && !known[2]);
    assert_int_equal(catalog->writers[0].sequence, 3);
    /* What has no identity is not compared. */
    catalog_kit_add(catalog, 20, 2, catalog_kit_at(13));
    assert_int_equal(catalog->live_count, 5);
    struct chunk twice[2] = { chunk_of_file(30, "four"), chunk_of_file(31, "four") };
    op.chunks = twice;
    op.chunk_count = 2;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(14)), &op.error);
    char long_id[FILE_ID_BYTES_MAX + 2] = "";
    memset(long_id, 'x', FILE_ID_BYTES_MAX + 1);
    struct hf_error error;
    assert_status(HF_INVALID, add_one(catalog, chunk_of_file(32, long_id), 14, &error), &error);
    catalog_free(catalog);
}

/* A key whose escapes make its entry too long. */
static void long_entry_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct hf_error error;
    char key[1000];
    memset(key, '\x01', sizeof key);
    struct chunk chunk = kit_chunk(0, 1);
    chunk.key = (struct view){ key, sizeof key };
    assert_status(HF_INVALID, add_one(catalog, chunk, 1, &error), &error);
    memset(key, '"', sizeof key);
    assert_status(HF_OK, add_one(catalog, chunk, 1, &error), &error);
    struct catalog *again = catalog_kit_reload(catalog, NULL, 5);
    assert_int_equal(catalog_state(again, chunk.key), CHUNK_LIVE);
    catalog_free(again);
    catalog_free(catalog);
}

static void full_catalog_says_so(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    for (unsigned i = 0; i < CATALOG_LIVE_MAX; i += 256)
        catalog_kit_add(catalog, i, 256, catalog_kit_at(1));
    struct chunk chunk = kit_chunk(0, CATALOG_LIVE_MAX);
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
    assert_status(HF_UNAVAILABLE, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    assert_true(op.full);
    assert_true(catalog_pressure(catalog) >= 100);
    assert_false(catalog_is_clogged(catalog));
    /* Commits make it smaller. */
    struct catalog_op commit;
    assert_status(HF_OK, kit_commit(catalog, &commit, 1, 1, 0, 15, catalog_kit_at(2)),
                  &commit.error);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(3)), &op.error);
    assert_false(op.full);
    catalog_free(catalog);
}

static void many_writers_share(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    for (unsigned i = 0; i < CATALOG_WRITERS_MAX + 3; i++) {
        char name[16];
        struct hf_error error;
        struct chunk chunk = kit_chunk(0, i);
        snprintf(name, sizeof name, "w%05u", i);
        chunk.writer = view_of(name);
        assert_status(HF_OK, add_one(catalog, chunk, 1, &error), &error);
    }
    assert_int_equal(catalog->writer_count, CATALOG_WRITERS_MAX + 1);
    size_t rest =
        writer_place(catalog->writers, catalog->writer_count, VIEW(CATALOG_WRITERS_REST));
    assert_int_equal(catalog->writers[rest].sequence, 3);
    assert_int_equal(catalog->live[CATALOG_WRITERS_MAX + 2].sequence, 3);
    catalog_free(catalog_kit_reload(catalog, NULL, 2));
    catalog_free(catalog);
}

/* ---- Commit -------------------------------------------------------------------------- */

static void commits(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 2, 3, catalog_kit_at(2)), &op.error);
    assert_true(op.changed && !op.already);
    assert_int_equal(catalog->live_count, 3);
    assert_true(view_equal(catalog->live[2].key, kit_key(1, 9)));
    assert_int_equal(catalog->live[2].sequence, 0);
    assert_int_equal(catalog->grave_count, 1);
    assert_int_equal(catalog->graves[0].count, 3);
    assert_true(view_equal(catalog->graves[0].into, kit_key(1, 9)));
    assert_int_equal(catalog->dead_count, 3);
    expect_state(catalog, kit_key(0, 1), CHUNK_LIVE);
    expect_state(catalog, kit_key(0, 3), CHUNK_TOMBSTONE);
    expect_state(catalog, kit_key(1, 9), CHUNK_LIVE);
    assert_null(catalog_find(catalog, kit_key(0, 3)));
    /* Once, whatever became of it. */
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 2, 3, catalog_kit_at(90000)),
                  &op.error);
    assert_true(op.already && !op.changed);
    catalog_kit_add(catalog, 10, 1, catalog_kit_at(3));
    catalog_free(catalog);
}

static void commit_needs_live_sources(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(2)), &op.error);
    assert_status(HF_CONFLICT, kit_commit(catalog, &op, 1, 10, 2, 2, catalog_kit_at(2)),
                  &op.error);
    expect_state(catalog, kit_key(0, 3), CHUNK_LIVE);
    expect_state(catalog, kit_key(1, 10), CHUNK_UNKNOWN);
    assert_status(HF_CONFLICT, kit_commit(catalog, &op, 1, 10, 4, 2, catalog_kit_at(2)),
                  &op.error);
    catalog_free(catalog);
}

static void commit_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    assert_int_equal(kit_condemn(catalog, kit_key(1, 9), catalog_kit_at(2)), CONDEMN_DONE);
    assert_status(HF_CONFLICT, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(2)),
                  &op.error);
    struct view keys[2] = { kit_key(0, 1), kit_key(0, 2) };
    op = (struct catalog_op){
        .kind = CATALOG_COMMIT, .keys = keys, .key_count = 2, .target = kit_chunk(1, 10)
    };
    assert_status(HF_EXPIRED, kit_apply(catalog, &op, catalog_kit_at(50000)), &op.error);
    op.target.key = kit_key_of("elsewhere", 1, 10);
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    op.target = kit_chunk(0, 10);
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    op.target = kit_chunk(1, 10);
    op.target.level = 8;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    op.target = kit_chunk(1, 10);
    keys[1] = keys[0];
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    keys[1] = op.target.key;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    op.key_count = 0;
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
    assert_int_equal(catalog->live_count, 4);
    catalog_free(catalog);
}

static void cascade_is_counted(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 0, 19, catalog_kit_at(1));
    assert_int_equal(catalog->due.clock, 0);
    catalog_kit_add(catalog, 19, 1, catalog_kit_at(5));
    assert_int_equal(catalog->due.us, 6000000);
    catalog_kit_add(catalog, 20, 1, catalog_kit_at(7));
    assert_int_equal(catalog->due.us, 6000000);
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 1, 0, 21, catalog_kit_at(8)), &op.error);
    assert_int_equal(catalog->cascade.counts[1], 0);
    assert_int_equal(catalog->cascade.counts[2], 1);
    assert_int_equal(catalog->due.clock, 0);
    assert_int_equal(catalog->due.us, 0);
    catalog_free(catalog);
}

/* ---- Condemn ------------------------------------------------------------------------- */

static void condemn_answers(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    assert_int_equal(kit_condemn(catalog, kit_key(0, 1), catalog_kit_at(2)), CONDEMN_HAPPENED);
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 9, 1, 2, catalog_kit_at(2)), &op.error);
    assert_int_equal(kit_condemn(catalog, kit_key(1, 9), catalog_kit_at(2)), CONDEMN_HAPPENED);
    assert_int_equal(kit_condemn(catalog, kit_key(0, 1), catalog_kit_at(2)), CONDEMN_HAPPENED);
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(5000)), 2);
    expect_state(catalog, kit_key(0, 1), CHUNK_RETIRED);
    assert_int_equal(kit_condemn(catalog, kit_key(0, 1), catalog_kit_at(5000)),
                     CONDEMN_HAPPENED);
    assert_int_equal(catalog->removal_count, 1);
    assert_int_equal(kit_condemn(catalog, kit_key(1, 8), catalog_kit_at(5000)), CONDEMN_DONE);
    expect_state(catalog, kit_key(1, 8), CHUNK_CONDEMNED);
    assert_int_equal(catalog->removal_count, 2);
    assert_int_equal(kit_condemn(catalog, kit_key(1, 8), catalog_kit_at(5001)), CONDEMN_DONE);
    assert_int_equal(catalog->removal_count, 2);
    struct view foreign = kit_key_of("elsewhere", 1, 1);
    op = (struct catalog_op){ .kind = CATALOG_CONDEMN, .keys = &foreign, .key_count = 1 };
    assert_status(HF_INVALID, kit_apply(catalog, &op, catalog_kit_at(5001)), &op.error);
    catalog_free(catalog);
}

static bool condemn_with(struct catalog *catalog, unsigned output, enum hf_compact_blame blame,
                         struct view reason)
{
    struct view key = kit_key(1, output),
                sources[3] = { kit_key(0, 1), kit_key(0, 2), kit_key(0, 77) };
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &key,
                             .key_count = 1,
                             .blame = blame,
                             .sources = sources,
                             .source_count = 3,
                             .culprit = sources[1],
                             .reason = reason };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(100 + output)), &op.error);
    return op.changed;
}

static void condemn_alone(struct catalog *catalog, unsigned output, unsigned source,
                          struct view reason)
{
    struct view key = kit_key(1, output), one = kit_key(0, source);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &key,
                             .key_count = 1,
                             .blame = HF_COMPACT_BLAME_GROUP,
                             .sources = &one,
                             .source_count = 1,
                             .reason = reason };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(100 + output)), &op.error);
}

static void tries_are_counted(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    assert_true(condemn_with(catalog, 1, HF_COMPACT_BLAME_GROUP, VIEW("it broke")));
    assert_int_equal(catalog->live[0].tries, 1);
    assert_int_equal(catalog->live[2].tries, 0);
    assert_int_equal(catalog->live[0].since.us, 102000000);
    assert_int_equal(catalog->live[2].since.us, 2000000);
    /* Settled again, it is not counted again. */
    assert_false(condemn_with(catalog, 1, HF_COMPACT_BLAME_GROUP, VIEW("it broke")));
    assert_int_equal(catalog->live[0].tries, 1);
    assert_true(condemn_with(catalog, 2, HF_COMPACT_BLAME_NOBODY, VIEW("a stop")));
    assert_int_equal(catalog->live[0].tries, 1);
    condemn_with(catalog, 3, HF_COMPACT_BLAME_GROUP, VIEW("it broke"));
    assert_int_equal(catalog->live[1].quarantine.size, 0);
    condemn_with(catalog, 4, HF_COMPACT_BLAME_GROUP, VIEW("it broke"));
    assert_int_equal(catalog->live[1].tries, 3);
    assert_int_equal(catalog->live[1].quarantine.size, 0); /* the other may be to blame */
    condemn_alone(catalog, 5, 2, VIEW("it \"broke\""));
    assert_true(view_equal(catalog->live[1].quarantine, VIEW("tried 4 times: it \"broke\"")));
    condemn_with(catalog, 6, HF_COMPACT_BLAME_GROUP, VIEW("again"));
    assert_int_equal(catalog->live[1].tries, 5);
    assert_true(view_equal(catalog->live[1].quarantine, VIEW("tried 4 times: it \"broke\"")));
    catalog_free(catalog_kit_reload(catalog, NULL, 200));
    catalog_free(catalog);
}

static void no_try_for_what_happened(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 6, 4, 2, catalog_kit_at(2)), &op.error);
    assert_false(condemn_with(catalog, 6, HF_COMPACT_BLAME_GROUP, VIEW("it broke")));
    assert_int_equal(catalog->live[0].tries, 0);
    catalog_free(catalog);
}

static void culprit_is_quarantined(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    condemn_with(catalog, 1, HF_COMPACT_BLAME_CHUNK, VIEW(""));
    assert_int_equal(catalog->live[0].tries, 0);
    assert_int_equal(catalog->live[0].quarantine.size, 0);
    assert_true(view_equal(catalog->live[1].quarantine, VIEW("no reason was given")));
    catalog_free(catalog);
}

/* ---- Quarantine ---------------------------------------------------------------------- */

static void quarantines_and_releases(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    catalog_kit_add(catalog, 1, 3, catalog_kit_at(1));
    condemn_with(catalog, 1, HF_COMPACT_BLAME_GROUP, VIEW("x"));
    char why[300];
    memset(why, 'a', sizeof why);
    memcpy(why + 5, "\n\xff", 2);
    memcpy(why + REASON_BYTES_MAX - 1, "\xc3\xa4", 2);
    struct view keys[2] = { kit_key(0, 1), kit_key(0, 3) };
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = keys, .key_count = 2, .reason = { why, sizeof why }
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(300)), &op.error);
    assert_true(op.changed);
    assert_int_equal(catalog->live[0].quarantine.size, REASON_BYTES_MAX - 1);
    assert_memory_equal(catalog->live[0].quarantine.data + 4, "a  a", 4);
    assert_int_equal(catalog->live[0].tries, 1);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(301)), &op.error);
    assert_false(op.changed);
    op.reason = VIEW("");
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(302)), &op.error);
    assert_true(op.changed);
    assert_int_equal(catalog->live[0].tries, 0);
    assert_int_equal(catalog->live[0].quarantine.size, 0);
    assert_int_equal(catalog->live[0].since.us, 303000000);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(303)), &op.error);
    assert_false(op.changed);
    keys[1] = kit_key(0, 4);
    op.reason = VIEW("why");
    assert_status(HF_NOT_FOUND, kit_apply(catalog, &op, catalog_kit_at(304)), &op.error);
    assert_int_equal(catalog->live[0].quarantine.size, 0);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("chunks that are added get the next numbers of their writers", adds_with_sequences),
        IT("what was added is added once, whatever became of it", adds_once),
        IT("a file is added once, under whatever name", a_file_is_added_once),
        IT("a chunk that was examined with other settings is refused",
           settings_that_changed_meanwhile),
        IT("an add of names that are condemned, old, foreign or none is refused",
           add_is_refused),
        IT("a name that is too old stays so if D is raised",
           a_late_bound_that_was_raised_revives_no_name),
        IT("an entry that would be too long is refused", long_entry_is_refused),
        IT("a full catalog refuses adds and says that it must be split", full_catalog_says_so),
        IT("writers beyond the bound are counted together", many_writers_share),
        IT("a commit puts the target in and makes the sources tombstones, once", commits),
        IT("a commit needs all its sources live", commit_needs_live_sources),
        IT("a commit of a condemned, old, foreign or impossible target is refused",
           commit_is_refused),
        IT("the cascade is counted, and due from when there came to be a target",
           cascade_is_counted),
        IT("condemn tells what happened, and condemns what never was", condemn_answers),
        IT("a try is counted once, and who was tried alone is quarantined after the third",
           tries_are_counted),
        IT("a commit that happened counts no try", no_try_for_what_happened),
        IT("a culprit is quarantined at once, and nobody else", culprit_is_quarantined),
        IT("a quarantine has a clean reason, and is taken back with the tries",
           quarantines_and_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
