/* SPDX-License-Identifier: Apache-2.0 */
/* plan_alone_test.c: chunks whose merges fail. However often a partition is compacted by force, a
 * chunk is tested alone and never committed alone, its level rises only if it is merged, and the
 * work comes to an end. The plans here are carried out on a catalog, without objects. */
#include "plan_kit.h"

#include "base/layout.h"

#include <stdio.h>

/* ---- Carrying out plans -------------------------------------------------------------- */

#define ROUNDS_MAX 1000

/* A partition, and which of its merges fail. */
struct partition {
    struct catalog *catalog;
    bool (*fails)(const struct plan_group *group);
    unsigned outputs;
    size_t commits, tests, failures;
};

static struct evidence at_once(void)
{
    return (struct evidence){ .now = { 1 }, .nonce = VIEW("") };
}

static void apply(struct partition *partition, struct catalog_op op)
{
    struct evidence evidence = at_once();
    assert_status(HF_OK, catalog_apply(partition->catalog, &op, &evidence), &op.error);
}

static void carry_out(struct partition *partition, const struct plan_group *group)
{
    struct view keys[64];
    char output[128];
    struct piece piece = { .number = 1000000 + partition->outputs++, .level = group->level };
    assert_true(group->count <= 64);
    for (size_t i = 0; i < group->count; i++)
        keys[i] = group->sources[i]->key;
    key_of(&piece, output);
    struct view name = view_of(output);
    if (partition->fails(group)) {
        partition->failures++;
        apply(partition, (struct catalog_op){ .kind = CATALOG_CONDEMN,
                                              .keys = &name,
                                              .key_count = 1,
                                              .blame = HF_COMPACT_BLAME_GROUP,
                                              .sources = keys,
                                              .source_count = group->count });
        return;
    }
    if (group->test) {
        assert_int_equal(group->count, 1);
        assert_int_equal(group->level, group->sources[0]->level);
        partition->tests++;
        apply(partition,
              (struct catalog_op){ .kind = CATALOG_PASS, .keys = keys, .key_count = 1 });
        return;
    }
    assert_true(group->count > 1 || !view_equal(layout_home(keys[0]), VIEW("default")));
    partition->commits++;
    apply(partition, (struct catalog_op){ .kind = CATALOG_COMMIT,
                                          .keys = keys,
                                          .key_count = group->count,
                                          .target = { .key = name,
                                                      .level = group->level,
                                                      .size = group->bytes,
                                                      .min_ms = group->sources[0]->min_ms,
                                                      .max_ms = group->sources[0]->max_ms,
                                                      .writer = VIEW(""),
                                                      .quarantine = VIEW("") },
                                          .drawn = { 1 } });
}

/* `run --force`: plans are carried out until nothing is planned. */
static void run_by_force(struct partition *partition)
{
    size_t count = 1;
    for (int round = 0; count > 0; round++) {
        struct plan plan = forced_plan(partition->catalog);
        count = plan.count;
        if (count > 0)
            carry_out(partition, &plan.groups[0]);
        plan_release(&plan);
        assert_true(round < ROUNDS_MAX);
    }
}

static struct partition new_partition(enum hf_compact_policy policy, unsigned chunks,
                                      bool (*fails)(const struct plan_group *group))
{
    struct compact_settings settings = small_settings();
    settings.policy = policy;
    settings.group_max = 64;
    settings.level0_count = 15;
    struct partition partition = { .catalog = new_catalog(&settings), .fails = fails };
    add_hour(partition.catalog, 0, chunks, 0);
    return partition;
}

static unsigned highest_level(const struct catalog *catalog)
{
    unsigned level = 0;
    for (size_t i = 0; i < catalog->live_count; i++)
        level = catalog->live[i].level > level ? catalog->live[i].level : level;
    return level;
}

static size_t quarantined(const struct catalog *catalog)
{
    size_t count = 0;
    for (size_t i = 0; i < catalog->live_count; i++)
        count += catalog->live[i].quarantine.size > 0;
    return count;
}

/* ---- What must come of it ------------------------------------------------------------ */

static bool more_than_one(const struct plan_group *group)
{
    return group->count > 1;
}

static void nothing_is_committed_if_no_two_can_be_merged(void **state)
{
    static const enum hf_compact_policy policies[] = { HF_COMPACT_LEVELS, HF_COMPACT_CASCADE };
    static const unsigned counts[] = { 6, 37 };
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        unsigned chunks = counts[i % 2];
        struct partition partition = new_partition(policies[i / 2], chunks, more_than_one);
        struct hf_cascade before = partition.catalog->cascade;
        for (int k = 0; k < 5; k++)
            run_by_force(&partition);
        assert_int_equal(partition.commits, 0);
        assert_int_equal(partition.catalog->live_count, chunks);
        assert_int_equal(highest_level(partition.catalog), 0);
        assert_true(quarantined(partition.catalog) + 1 >= chunks); /* the last has no partner */
        assert_true(partition.tests <= 4 * chunks);
        assert_memory_equal(&partition.catalog->cascade, &before, sizeof before);
        print_message("# %u chunks: %zu tests, %zu failures\n", chunks, partition.tests,
                      partition.failures);
        catalog_free(partition.catalog);
    }
}

/* Whether a group has both the chunk 3 and the chunk 4, which cannot be merged with each other, or
 * what they were merged into. */
static bool three_meets_four(const struct plan_group *group)
{
    bool three = false, four = false;
    for (size_t i = 0; i < group->count; i++) {
        three |= number_of(group->sources[i]) == 3;
        four |= number_of(group->sources[i]) == 4;
    }
    return three && four;
}

static void two_that_do_not_go_together_do_not_stop_the_others(void **state)
{
    (void)state;
    struct partition partition = new_partition(HF_COMPACT_LEVELS, 37, three_meets_four);
    run_by_force(&partition);
    assert_true(quarantined(partition.catalog) <= 2);
    assert_true(partition.catalog->live_count <= 3);
    catalog_free(partition.catalog);
}

static unsigned failures_left;

static bool fails_a_few_times(const struct plan_group *group)
{
    (void)group;
    return failures_left > 0 && failures_left-- > 0;
}

static void failures_that_pass_leave_one_chunk(void **state)
{
    (void)state;
    for (unsigned failures = 0; failures < 3; failures++) { /* a third one would hit a test */
        struct partition partition = new_partition(HF_COMPACT_LEVELS, 12, fails_a_few_times);
        failures_left = failures;
        run_by_force(&partition);
        assert_int_equal(quarantined(partition.catalog), 0);
        assert_int_equal(partition.catalog->live_count, 1);
        assert_int_equal(partition.catalog->live[0].level, 1);
        assert_int_equal(partition.catalog->live[0].tested, 0);
        catalog_free(partition.catalog);
    }
}

static void what_was_tested_is_grouped_in_smaller_groups(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    settings.level0_count = 8;
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 8; i++)
        add(catalog, (struct piece){ .number = i, .tested = i < 4 ? 1 : 2 });
    expect(catalog, "1:0-3 1:4-5 1:6-7");
    expect_forced(catalog, "1:0-3 1:4-5 1:6-7");
    catalog_free(catalog);
}

static void a_copy_for_another_home_keeps_its_level(void **state)
{
    static const enum hf_compact_policy policies[] = { HF_COMPACT_LEVELS, HF_COMPACT_CASCADE };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct compact_settings settings = small_settings();
        settings.policy = policies[i];
        struct catalog *catalog = new_catalog(&settings);
        add(catalog, (struct piece){ .number = 1, .level = 2, .home = "parent" });
        add(catalog, (struct piece){ .number = 2, .level = 2 });
        expect_forced(catalog, "2:1");
        catalog_free(catalog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("nothing is committed, and no level rises, if no two chunks can be merged",
           nothing_is_committed_if_no_two_can_be_merged),
        IT("two chunks that do not go together do not stop the others",
           two_that_do_not_go_together_do_not_stop_the_others),
        IT("failures that pass leave one chunk", failures_that_pass_leave_one_chunk),
        IT("what was tested is grouped in smaller groups",
           what_was_tested_is_grouped_in_smaller_groups),
        IT("a copy for another home keeps its level", a_copy_for_another_home_keeps_its_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
