/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_drop_test.c: a catalog whose partition is being dropped. */
#include "base/layout.h"
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#define LATE_S 100000

static size_t drop(struct catalog *catalog, int64_t seconds)
{
    struct catalog_op op = { .kind = CATALOG_DROP };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(seconds)), &op.error);
    return op.moved;
}

static struct catalog *reloaded(struct catalog *catalog, int64_t seconds)
{
    struct catalog *again = catalog_kit_reload(catalog, catalog, seconds);
    catalog_free(catalog);
    return again;
}

static void all_chunks_become_tombstones(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 5, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(2));
    assert_int_equal(drop(catalog, 3), 3);
    assert_true(catalog->is_dropping);
    assert_int_equal(catalog->live_count, 0);
    assert_int_equal(catalog->dead_count, 6);
    catalog = reloaded(catalog, 4);
    assert_true(catalog->is_dropping);
    assert_int_equal(catalog->dead_count, 6);
    op = (struct catalog_op){ .kind = CATALOG_DROP };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(5)), &op.error);
    assert_true(op.already);
    assert_false(op.changed);
    catalog_free(catalog);
}

static void nothing_can_be_added_or_changed(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct chunk fresh = kit_chunk(0, 9);
    struct view keys[] = { kit_key(0, 1), kit_key(0, 2) };
    struct compact_settings settings = catalog_kit_settings();
    settings.tries_max = 7;
    catalog_kit_add(catalog, 1, 2, catalog_kit_at(1));
    drop(catalog, 2);
    struct catalog_op ops[] = {
        { .kind = CATALOG_ADD, .chunks = &fresh, .chunk_count = 1 },
        { .kind = CATALOG_UNDELETE, .keys = keys, .key_count = 1 },
        { .kind = CATALOG_QUARANTINE, .keys = keys, .key_count = 1, .reason = VIEW("x") },
        { .kind = CATALOG_SET, .settings = &settings },
        { .kind = CATALOG_SPLIT },
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        ops[i].drawn = catalog_kit_at(3).now;
        assert_status(HF_NOT_FOUND, kit_apply(catalog, &ops[i], catalog_kit_at(3)),
                      &ops[i].error);
        assert_non_null(strstr(ops[i].error.why, "is being dropped"));
        assert_false(ops[i].changed);
    }
    struct catalog_op commit = { .kind = CATALOG_COMMIT,
                                 .keys = keys,
                                 .key_count = 2,
                                 .target = kit_chunk(1, 1),
                                 .drawn = catalog_kit_at(3).now };
    assert_status(HF_CONFLICT, kit_apply(catalog, &commit, catalog_kit_at(3)), &commit.error);
    catalog_free(catalog);
}

/* A lost reply must not make a client upload its file again elsewhere. */
static void what_happened_before_is_still_known(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    struct chunk added = kit_chunk(0, 4);
    catalog_kit_add(catalog, 1, 4, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(2));
    drop(catalog, 3);
    assert_status(HF_OK, kit_commit(catalog, &op, 1, 1, 1, 3, catalog_kit_at(4)), &op.error);
    assert_true(op.already);
    op = (struct catalog_op){ .kind = CATALOG_ADD, .chunks = &added, .chunk_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(4)), &op.error);
    assert_true(op.already);
    assert_int_equal(kit_condemn(catalog, kit_key(1, 1), catalog_kit_at(4)), CONDEMN_HAPPENED);
    assert_int_equal(kit_condemn(catalog, kit_key(1, 2), catalog_kit_at(4)), CONDEMN_DONE);
    catalog_free(catalog);
}

static void delete_all(struct catalog *catalog, int64_t seconds)
{
    assert_true(kit_maintain(catalog, catalog_kit_at(seconds)) > 0);
    while (catalog->removal_count > 0) {
        struct view key = catalog->removals[0].keys[0];
        struct catalog_op op = { .kind = CATALOG_MAINTAIN, .done = &key, .done_count = 1 };
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(seconds)), &op.error);
        op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .gone = &key, .gone_count = 1 };
        seconds += 2 * LATE_S;
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(seconds)), &op.error);
    }
}

static void it_is_spent_once_it_is_empty_and_old(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct evidence late = catalog_kit_at(10 * LATE_S);
    catalog_kit_add(catalog, 1, 2, catalog_kit_at(1));
    assert_false(catalog_is_spent(catalog, &late));
    drop(catalog, 2);
    assert_false(catalog_is_spent(catalog, &late)); /* it lists names */
    delete_all(catalog, 2000);
    assert_int_equal(catalog->dead_count, 0);
    assert_true(catalog_is_spent(catalog, &late));
    struct evidence early = catalog_kit_at(LATE_S - 10);
    assert_false(catalog_is_spent(catalog, &early));
    catalog_free(catalog);
}

static void an_empty_one_waits_for_d_too(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op = { .kind = CATALOG_DROPPED };
    drop(catalog, 1);
    assert_status(HF_CONFLICT, kit_apply(catalog, &op, catalog_kit_at(LATE_S)), &op.error);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(LATE_S + 100)), &op.error);
    assert_true(op.changed);
    catalog = reloaded(catalog, LATE_S + 101);
    assert_true(catalog->is_dropped);
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(LATE_S + 102)), &op.error);
    assert_true(op.already);
    catalog_free(catalog);
}

/* A stamp of another clock proves nothing, but may be watched or renewed like any other. */
static void the_mark_of_another_clock_is_watched_or_renewed(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct catalog_op op = { .kind = CATALOG_DROP };
    assert_status(HF_OK, kit_apply(catalog, &op, kit_at_clock(1, "earlier")), &op.error);
    catalog_written(catalog, catalog_kit_at(10).now);
    catalog = reloaded(catalog, 11);
    struct evidence watched = catalog_kit_at(10 + LATE_S + 1000);
    struct evidence too_short = catalog_kit_at(LATE_S - 1000);
    assert_false(catalog_is_spent(catalog, &too_short));
    assert_true(catalog_is_spent(catalog, &watched));
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .restamp = true };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(20)), &op.error);
    assert_true(op.changed);
    assert_int_equal(catalog->dropping.restamps, 1);
    catalog = reloaded(catalog, 21);
    assert_int_equal(catalog->dropping.restamps, 1);
    catalog_free(catalog);
}

/* An earlier program refuses the document, because it would add chunks to it. */
static void it_has_the_second_format(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    struct buffer text = catalog_kit_encode(catalog);
    assert_non_null(strstr(buffer_text(&text), LAYOUT_CATALOG_FORMAT "\""));
    buffer_release(&text);
    drop(catalog, 1);
    text = catalog_kit_encode(catalog);
    assert_non_null(strstr(buffer_text(&text), LAYOUT_CATALOG_FORMAT_2 "\""));
    buffer_release(&text);
    catalog_free(catalog);
}

static void a_mark_that_contradicts_the_rest_is_corrupt(void **state)
{
    (void)state;
#define HEAD                                                                               \
    "{\"format\":\"holdfast.catalog/2\",\"partition\":\"default\",\"depth\":0,"            \
    "\"settings\":{\"format\":\"usv\",\"key\":\"1\"},\"counts\":[],\"writers\":{\"w\":1}," \
    "\"tombstones\":[],\"deleting\":["
#define LIVE                                                                           \
    "\"chunks\":[{\"key\":\"data/default/L0/a.usv\",\"level\":0,\"size\":1,\"min\":1," \
    "\"max\":1,\"writer\":\"w\",\"seq\":1,\"crc32c\":1,\"since\":\"0000000000000000:0\"}]"
#define DELETING                                                                         \
    "{\"how\":\"retired\",\"since\":\"0000000000000000:0\",\"keys\":[\"data/default/L0/" \
    "b.usv\"]}"
#define MARK "\"dropping\":{\"since\":\"9f86d081884c7d65:1\"}}"
#define END  "\"dropping\":{\"since\":\"9f86d081884c7d65:1\",\"dropped\":true}}"
    static const struct {
        const char *text;
        enum hf_status status;
    } cases[] = {
        { HEAD "],\"chunks\":[]," MARK, HF_OK },
        { HEAD DELETING "],\"chunks\":[]," MARK, HF_OK },
        { HEAD "],\"chunks\":[]," END, HF_OK },
        { HEAD "]," LIVE "," MARK, HF_CORRUPT },
        { HEAD DELETING "],\"chunks\":[]," END, HF_CORRUPT },
        { HEAD "],\"chunks\":[],\"dropping\":{}}", HF_CORRUPT },
        { HEAD "],\"chunks\":[],\"dropping\":true}", HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct catalog *catalog = NULL;
        struct hf_error error;
        assert_status(cases[i].status, kit_decode(cases[i].text, &catalog, &error), &error);
        catalog_free(catalog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a drop turns all live chunks into tombstones, once", all_chunks_become_tombstones),
        IT("nothing can be added to a marked catalog, or changed in it",
           nothing_can_be_added_or_changed),
        IT("what happened before the mark is still known", what_happened_before_is_still_known),
        IT("a marked catalog is spent once it lists no name, D after the mark",
           it_is_spent_once_it_is_empty_and_old),
        IT("a marked catalog without names waits for D too", an_empty_one_waits_for_d_too),
        IT("the mark of another clock is watched, or renewed",
           the_mark_of_another_clock_is_watched_or_renewed),
        IT("a marked catalog has a format that earlier programs refuse",
           it_has_the_second_format),
        IT("a mark that contradicts the rest is corrupt",
           a_mark_that_contradicts_the_rest_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
