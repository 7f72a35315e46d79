/* SPDX-License-Identifier: Apache-2.0 */
/* plan_divide_test.c: plans of catalogs with divided merges: their sources are in no other group,
 * and the chunks that they made are one run. */
#include "catalog_kit.h"
#include "compact/plan/plan.h"
#include "test.h"

#include <stdio.h>

#define SOURCES 2
#define RANGES  2
#define OLD_S   201000 /* more than twice D: deletion markers are old enough */

/* Merged chunks of 1,000 bytes; their merges are divided into outputs of 500. */
static struct catalog *new_catalog(void)
{
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog;
    struct hf_error error;
    settings.deleted = VIEW("4");
    settings.output_max = 500;
    assert_status(HF_OK,
                  catalog_new(VIEW(KIT_PARTITION), VIEW(""), 0, &settings, &catalog, &error),
                  &error);
    return catalog;
}

/* Adds merged chunk n, which is later than all before it, and has a marker. */
static void add(struct catalog *catalog, unsigned n)
{
    struct chunk chunk = kit_chunk(1, 100 * n);
    chunk.size = 1000;
    chunk.min_ms = 10000 * ((int64_t)n + 1);
    chunk.max_ms = chunk.min_ms + 5000;
    chunk.markers = (struct chunk_markers){ .known = true, .count = 1, .ms = chunk.min_ms + 1 };
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
}

/* Divides the merge of chunks n and n + 1 in the middle. */
static void divide(struct catalog *catalog, unsigned n)
{
    static const uint64_t starts[RANGES][SOURCES] = { { 0, 0 }, { 500, 500 } };
    char id[MERGE_ID_DIGITS + 1];
    snprintf(id, sizeof id, "%032x", n);
    struct view sources[SOURCES] = { kit_key(1, 100 * n), kit_key(1, 100 * n + 100) };
    struct range ranges[RANGES] = { { .from = VIEW(""), .starts = starts[0] },
                                    { .from = VIEW("34"), .starts = starts[1] } };
    struct divided_merge merge = { .id = view_of(id),
                                   .level = 2,
                                   .sources = sources,
                                   .source_count = SOURCES,
                                   .ranges = ranges,
                                   .range_count = RANGES };
    struct catalog_op op = { .kind = CATALOG_DIVIDE, .merge = &merge };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(2)), &op.error);
}

static struct plan plan_now(const struct catalog *catalog,
                            bool (*is_leased)(void *argument, struct view key), bool force)
{
    struct evidence now = catalog_kit_at(OLD_S);
    const struct plan_options options = { .is_leased = is_leased,
                                          .force = force,
                                          .evidence = &now };
    struct plan plan;
    struct hf_error error;
    assert_status(HF_OK, plan_make(catalog, &options, &plan, &error), &error);
    return plan;
}

static bool ranges_are_leased(void *argument, struct view key)
{
    struct view id;
    size_t range;
    (void)argument;
    return range_lease_parse(key, &id, &range);
}

/* Otherwise the first chunk, whose marker could be dropped, would be rewritten alone, and the work
 * of the other workers would be lost. */
static void sources_are_in_no_other_group(void **state)
{
    (void)state;
    struct catalog *catalog = new_catalog();
    add(catalog, 1);
    add(catalog, 2);
    struct plan plan = plan_now(catalog, NULL, false);
    assert_int_equal(plan.count, 1);
    assert_true(plan.groups[0].drops && plan.groups[0].count == 1);
    plan_release(&plan);
    divide(catalog, 1);
    plan = plan_now(catalog, NULL, false);
    assert_int_equal(plan.count, RANGES);
    for (size_t i = 0; i < RANGES; i++)
        assert_true(plan.groups[i].merge && plan.groups[i].range == i);
    plan_release(&plan);
    plan = plan_now(catalog, ranges_are_leased, false);
    assert_int_equal(plan.count, 0);
    assert_int_equal(plan.leased, RANGES * SOURCES);
    plan_release(&plan);
    catalog_free(catalog);
}

static void a_group_with_a_divided_source_does_not_hold(void **state)
{
    (void)state;
    struct catalog *catalog = new_catalog();
    for (unsigned n = 1; n <= 3; n++)
        add(catalog, n);
    struct view sources[] = { kit_key(1, 200), kit_key(1, 300) };
    assert_true(plan_still_holds(catalog, 2, sources, 2, /* at_any_level */ true));
    divide(catalog, 1);
    assert_false(plan_still_holds(catalog, 2, sources, 2, /* at_any_level */ true));
    assert_true(plan_still_holds(catalog, 2, sources + 1, 1, /* at_any_level */ true));
    catalog_free(catalog);
}

static void large_groups_wait_for_room(void **state)
{
    (void)state;
    struct catalog *catalog = new_catalog();
    unsigned count = 2 * CATALOG_MERGES_MAX;
    for (unsigned n = 0; n < count + 3; n++)
        add(catalog, n);
    for (unsigned n = 0; n < count; n += 2) {
        struct plan plan = plan_now(catalog, ranges_are_leased, /* force */ true);
        assert_int_equal(plan.count, 1);
        assert_true(plan.groups[0].large && plan.groups[0].count == count + 3 - n);
        plan_release(&plan);
        divide(catalog, n);
    }
    struct plan plan = plan_now(catalog, ranges_are_leased, /* force */ true);
    assert_int_equal(plan.count, 0);
    plan_release(&plan);
    catalog_free(catalog);
}

/* Finishes all ranges of the merge, and keeps the markers. */
static void finish(struct catalog *catalog, unsigned n)
{
    char id[MERGE_ID_DIGITS + 1];
    snprintf(id, sizeof id, "%032x", n);
    for (size_t i = 0; i < RANGES; i++) {
        const uint64_t crcs[SOURCES] = { 0 };
        struct catalog_op op = { .kind = CATALOG_RANGE,
                                 .id = view_of(id),
                                 .range = i,
                                 .target = kit_chunk(2, 1000 + (unsigned)i),
                                 .rows_in = 10,
                                 .crcs = crcs,
                                 .drawn = catalog_kit_at(3).now };
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(3)), &op.error);
    }
}

static void a_run_is_rewritten_as_a_whole(void **state)
{
    (void)state;
    struct catalog *catalog = new_catalog();
    for (unsigned n = 1; n <= 2; n++) {
        struct chunk chunk = kit_chunk(1, 100 * n);
        chunk.size = 1000;
        chunk.crc32c = 0; /* what two parts without a byte set come to */
        chunk.markers = (struct chunk_markers){ .known = true, .count = 1, .ms = 1 };
        struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 };
        assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(1)), &op.error);
    }
    divide(catalog, 1);
    finish(catalog, 1);
    assert_int_equal(catalog->live_count, RANGES);
    struct plan plan = plan_now(catalog, NULL, false);
    assert_int_equal(plan.count, 1);
    assert_true(plan.groups[0].drops && plan.groups[0].large);
    assert_int_equal(plan.groups[0].count, RANGES);
    assert_int_equal(plan.groups[0].level, 2);
    plan_release(&plan);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the sources of a divided merge are in no other group",
           sources_are_in_no_other_group),
        IT("a group does not hold if a divided merge has one of its chunks",
           a_group_with_a_divided_source_does_not_hold),
        IT("large groups wait while there is no room for their records",
           large_groups_wait_for_room),
        IT("a run without a partner is rewritten as a whole, to drop its markers",
           a_run_is_rewritten_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
