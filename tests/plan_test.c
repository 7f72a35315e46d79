/* SPDX-License-Identifier: Apache-2.0 */
/* plan_test.c: every rule of plan.h, and that adding chunks does not change a group. */
#include "plan_kit.h"

#include "alloc.h"
#include "base/prng.h"

#include <stdlib.h>
#include <time.h>

/* ---- Level 0 ------------------------------------------------------------------------- */

static void level0_count_chunks_of_an_hour_are_a_group(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    expect(catalog, "");
    add_hour(catalog, 1, 3, 0);
    expect(catalog, "");
    add_hour(catalog, 4, 1, 0);
    expect(catalog, "1:1-4");
    add_hour(catalog, 5, 5, 0);
    expect(catalog, "1:1-4 1:5-8");
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.groups[0].bytes, 400);
    assert_int_equal(plan.groups[1].rows, 30); /* those of 5 are not known */
    assert_int_equal(plan.bytes, 800);
    assert_int_equal(plan.groups[1].due.us, 8);
    assert_int_equal(plan.groups[1].due.clock, 7);
    assert_false(plan.groups[0].forced);
    assert_null(plan.paused);
    plan_release(&plan);
    catalog_free(catalog);
}

static void hours_are_kept_apart(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 8; i++)
        add_hour(catalog, i, 1, i % 2 ? 0 : -1);
    expect(catalog, "1:0,2,4,6 1:1,3,5,7");
    catalog_free(catalog);
}

static void an_hour_before_1970_is_one_hour(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 0, 2, -490000);
    add_hour(catalog, 2, 2, -490001);
    add_hour(catalog, 4, 2, -490000);
    expect(catalog, "1:0-1,4-5");
    catalog_free(catalog);
}

static void what_is_left_of_an_hour_is_a_group_once_the_hour_is_over(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 1, 2, 0);
    add_hour(catalog, 3, 1, 1);
    expect(catalog, "");
    add(catalog, (struct piece){ .number = 4, .hour = 1, .span = 1 });
    expect(catalog, "1:1-2");
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.groups[0].due.us, 4);
    plan_release(&plan);

    add_hour(catalog, 5, 1, 0); /* late, and nobody waits anew for it */
    plan = plan_of(catalog);
    assert_string_equal(in_words(&plan), "1:1-2,5");
    assert_int_equal(plan.groups[0].due.us, 4);
    plan_release(&plan);
    add_hour(catalog, 6, 1, 0);
    plan = plan_of(catalog);
    assert_string_equal(in_words(&plan), "1:1-2,5-6");
    assert_int_equal(plan.groups[0].due.us, 4);
    plan_release(&plan);
    catalog_free(catalog);
}

static void data_of_any_level_tells_that_an_hour_is_over(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add(catalog, (struct piece){ .number = 1, .level = 3, .hour = 2, .quarantined = true });
    add_hour(catalog, 2, 1, 0);
    expect(catalog, "");
    add_hour(catalog, 3, 1, 0);
    expect(catalog, "1:2-3");
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.groups[0].due.us, 3);
    assert_int_equal(plan.quarantined, 1);
    plan_release(&plan);
    catalog_free(catalog);
}

static void chunks_that_are_alone_in_their_hours_are_grouped(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 0, 1, 0);
    add_hour(catalog, 1, 4, 10); /* a full group leaves nobody alone */
    add_hour(catalog, 5, 5, 20); /* this one does */
    add_hour(catalog, 10, 1, 30);
    add_hour(catalog, 11, 1, 40);
    expect(catalog, "1:1-4 1:5-8"); /* 40 is not over */
    add_hour(catalog, 12, 1, 50);
    expect(catalog, "1:0,9-11 1:1-4 1:5-8");
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.groups[0].due.us, 12);
    plan_release(&plan);
    catalog_free(catalog);
}

static void homes_are_kept_apart(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 8; i++)
        add(catalog, (struct piece){ .number = i, .home = i % 2 ? "parent" : NULL });
    expect(catalog, "1:0,2,4,6 1:1,3,5,7");
    for (unsigned i = 8; i < 12; i++)
        add(catalog, (struct piece){ .number = i,
                                     .level = 1,
                                     .size = 600 * 1024,
                                     .home = i < 10 ? "parent" : NULL });
    expect(catalog, "1:0,2,4,6 1:1,3,5,7 2:8-9 2:10-11");
    catalog_free(catalog);
}

/* ---- Higher levels ------------------------------------------------------------------- */

static void higher_levels_are_grouped_to_their_size(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    const uint64_t mib = 1024 * 1024;
    add(catalog, (struct piece){ .number = 1, .level = 1, .size = mib / 2, .hour = 0 });
    add(catalog, (struct piece){ .number = 2, .level = 1, .size = mib, .hour = 3 });
    add(catalog, (struct piece){ .number = 3, .level = 1, .size = mib / 2 - 1, .hour = 9 });
    expect(catalog, ""); /* 2 has that size alone, and is left */
    add(catalog, (struct piece){ .number = 4, .level = 1, .size = 1, .hour = 7 });
    expect(catalog, "2:1,3-4");
    add(catalog, (struct piece){ .number = 5, .level = 2, .size = 5 * mib - 1 });
    add(catalog, (struct piece){ .number = 6, .level = 2, .size = 5 * mib - 1 });
    add(catalog, (struct piece){ .number = 7, .level = 2, .size = 1 });
    expect(catalog, "2:1,3-4 3:5-6");
    catalog_free(catalog);
}

static void a_group_has_no_more_than_group_max(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    settings.group_max = 3;
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 7; i++)
        add(catalog, (struct piece){ .number = i, .level = 1 });
    expect(catalog, "2:0-2 2:3-5");
    add_hour(catalog, 7, 3, 0);
    expect(catalog, "1:7-9 2:0-2 2:3-5");
    catalog_free(catalog);
}

static void the_highest_level_stays(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    settings.group_max = 2;
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 4; i++)
        add(catalog,
            (struct piece){ .number = i, .level = CASCADE_LEVELS_MAX - (i < 2 ? 1 : 2) });
    expect(catalog, "7:2-3");
    expect_forced(catalog, "6:2-3 7:0-1");
    catalog_free(catalog);
}

static void lower_levels_and_older_groups_come_first(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    settings.group_max = 2;
    settings.level0_count = 2;
    struct catalog *catalog = new_catalog(&settings);
    add(catalog, (struct piece){ .number = 0, .level = 2 });
    add(catalog, (struct piece){ .number = 1, .hour = 9 });
    add(catalog, (struct piece){ .number = 2, .level = 1 });
    add(catalog, (struct piece){ .number = 3, .hour = 5 });
    add(catalog, (struct piece){ .number = 4, .level = 2 });
    add(catalog, (struct piece){ .number = 5, .hour = 5 });
    add(catalog, (struct piece){ .number = 6, .level = 1 });
    add(catalog, (struct piece){ .number = 7, .hour = 9 });
    expect(catalog, "1:1,7 1:3,5 2:2,6 3:0,4");
    catalog_free(catalog);
}

/* ---- What is left out ---------------------------------------------------------------- */

/* Bit n: the chunk of that number is leased. */
static bool leased_by_bits(void *argument, struct view key)
{
    const uint64_t *bits = argument;
    unsigned number = 0;
    for (size_t i = key.size - 6; i < key.size - 4; i++)
        number = number * 10 + (unsigned)(key.data[i] - '0');
    return *bits >> number & 1;
}

static void expect_leased(const struct catalog *catalog, uint64_t bits, const char *words,
                          size_t leased)
{
    struct plan plan = plan_with(catalog, (struct plan_options){ .is_leased = leased_by_bits,
                                                                 .argument = &bits });
    assert_string_equal(in_words(&plan), words);
    assert_int_equal(plan.leased, leased);
    plan_release(&plan);
}

static void a_group_with_a_leased_chunk_is_left_out_whole(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 0, 14, 0);
    add_hour(catalog, 14, 1, 8);
    expect_leased(catalog, 0, "1:0-3 1:4-7 1:8-11 1:12-13", 0);
    expect_leased(catalog, UINT64_C(1) << 5, "1:0-3 1:8-11 1:12-13", 4);
    expect_leased(catalog, 1 | UINT64_C(1) << 13 | UINT64_C(1) << 14, "1:4-7 1:8-11", 6);
    catalog_free(catalog);
}

static void quarantined_chunks_are_left_out_and_counted(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 6; i++)
        add(catalog, (struct piece){ .number = i, .quarantined = i == 1 || i == 3 });
    struct plan plan = plan_of(catalog);
    assert_string_equal(in_words(&plan), "1:0,2,4-5");
    assert_int_equal(plan.quarantined, 2);
    plan_release(&plan);
    expect_forced(catalog, "1:0,2,4-5");
    catalog_free(catalog);
}

static void tried_chunks_are_grouped_among_their_like_by_halves(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    settings.level0_count = 8;
    struct catalog *catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 24; i++)
        add(catalog, (struct piece){ .number = i, .tries = i % 3 });
    expect(catalog, "0?2 0?5 0?8 0?11 0?14 0?17 0?20 0?23 1:0,3,6,9,12,15,18,21 1:1,4,7,10 "
                    "1:13,16,19,22");
    catalog_free(catalog);

    catalog = new_catalog(&settings);
    for (unsigned i = 0; i < 8; i++)
        add(catalog, (struct piece){ .number = i, .level = 1, .tries = i < 4 ? 1 : 60 });
    expect(catalog, "1?4 1?5 1?6 1?7 2:0-3");
    catalog_free(catalog);
}

static void a_clogged_catalog_plans_nothing_and_says_why(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 0, 4, 0);
    expect(catalog, "1:0-3");
    size_t dead = catalog->dead_count;
    catalog->dead_count = CATALOG_DEAD_MAX + 1;
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.count, 0);
    assert_non_null(plan.paused);
    plan_release(&plan);
    catalog->dead_count = dead;
    expect(catalog, "1:0-3");
    catalog_free(catalog);
}

/* ---- Force --------------------------------------------------------------------------- */

static void force_merges_what_can_be_merged_with_another(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    add_hour(catalog, 0, 6, 0);
    add_hour(catalog, 6, 1, 1);
    add_hour(catalog, 7, 1, 2);
    for (unsigned i = 8; i < 10; i++)
        add(catalog, (struct piece){ .number = i, .level = 1, .size = 1 });
    add(catalog, (struct piece){ .number = 10, .level = 2 });
    add(catalog, (struct piece){ .number = 11, .level = 1, .size = 1024 * 1024 });
    add(catalog, (struct piece){ .number = 12, .tries = 1 });
    expect_forced(catalog, "0?12 1:0-7 2:8-10"); /* 11 has the size of its level */
    catalog_free(catalog);
}

/* ---- Cascade ------------------------------------------------------------------------- */

static struct catalog *new_cascade(uint64_t group_max)
{
    struct compact_settings settings = small_settings();
    settings.policy = HF_COMPACT_CASCADE;
    settings.group_max = group_max;
    struct catalog *catalog = new_catalog(&settings);
    catalog->due = (struct stamp){ .clock = 7, .us = 4711 };
    return catalog;
}

static void cascade_merges_everything_below_its_target(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(64);
    add_hour(catalog, 0, 3, 0);
    expect(catalog, "");
    add_hour(catalog, 3, 2, 9);
    expect(catalog, "1:0-4");
    struct plan plan = plan_of(catalog);
    assert_int_equal(plan.groups[0].due.us, 4711);
    plan_release(&plan);
    for (unsigned i = 5; i < 8; i++)
        add(catalog, (struct piece){ .number = i, .level = 1 + (i == 7) });
    catalog->cascade.counts[2] = 3; /* with the one that level 1 would add: 4 */
    expect(catalog, "2:0-6");
    catalog->cascade.counts[1] = 0;
    expect(catalog, "");
    catalog_free(catalog);
}

static void cascade_takes_the_oldest_up_to_group_max(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(5);
    add_hour(catalog, 0, 12, 0);
    expect(catalog, "1:0-4");
    catalog_free(catalog);
}

static void cascade_goes_around_what_is_in_the_way(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(64);
    for (unsigned i = 0; i < 8; i++)
        add(catalog, (struct piece){ .number = i,
                                     .quarantined = i == 2,
                                     .home = i == 1 || i == 7 ? "parent" : NULL });
    expect(catalog, "1:0,3-6");
    /* While some are leased, the rest must be a target of its own: 4. */
    expect_leased(catalog, UINT64_C(1) << 3, "1:0,4-6", 1);
    expect_leased(catalog, UINT64_C(1) << 3 | 1, "", 2);
    catalog_free(catalog);

    catalog = new_cascade(64);
    for (unsigned i = 0; i < 5; i++)
        add(catalog, (struct piece){ .number = i, .home = i == 0 ? "parent" : NULL });
    expect(catalog, "1:1-4"); /* 0 is alone of its home */
    catalog_free(catalog);
}

static void cascade_halves_what_was_tried(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(64);
    for (unsigned i = 0; i < 12; i++)
        add(catalog, (struct piece){ .number = i, .tries = i < 9 });
    expect(catalog, "1:0-4");
    catalog_free(catalog);

    catalog = new_cascade(8);
    for (unsigned i = 0; i < 12; i++)
        add(catalog, (struct piece){ .number = i, .tries = i < 11 ? 2 : 0 });
    expect(catalog, "0?0"); /* the last try is a test */
    catalog_free(catalog);
}

static void forced_cascade_merges_all_to_the_level_above_the_highest(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(4);
    add_hour(catalog, 0, 3, 0);
    expect(catalog, "");
    expect_forced(catalog, "1:0-2");
    add(catalog, (struct piece){ .number = 3, .level = 2 });
    add(catalog, (struct piece){ .number = 4, .level = 6 });
    add(catalog, (struct piece){ .number = 5, .level = 7 });
    add(catalog, (struct piece){ .number = 6, .level = 0 });
    expect_forced(catalog, "3:0-3 7:4-6");
    catalog_free(catalog);
}

/* Does what is planned by force until nothing is; returns how many chunks there are then. */
static size_t drain(const struct compact_settings *settings, struct piece *pieces, size_t count)
{
    bool over = false;
    for (unsigned number = (unsigned)count; !over; number++) {
        struct catalog *catalog = new_catalog(settings);
        for (size_t i = 0; i < count; i++)
            add(catalog, pieces[i]);
        struct plan plan = forced_plan(catalog);
        over = plan.count == 0;
        if (!over) {
            const struct plan_group *group = &plan.groups[plan.count - 1];
            struct piece merged = { .number = number,
                                    .level = group->level,
                                    .size = group->bytes };
            for (size_t k = 0; k < group->count; k++)
                for (size_t i = 0; i < count; i++)
                    if (pieces[i].number == number_of(group->sources[k]))
                        pieces[i--] = pieces[--count];
            pieces[count++] = merged;
        }
        plan_release(&plan);
        catalog_free(catalog);
    }
    return count;
}

static void force_until_nothing_is_left_makes_one_chunk(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(18);
    for (int history = 0; history < 40; history++) {
        struct compact_settings settings = small_settings();
        settings.policy = history % 4 == 3 ? HF_COMPACT_CASCADE : HF_COMPACT_LEVELS;
        struct piece pieces[32];
        size_t count = 2 + (size_t)prng_below(&prng, 30);
        for (size_t i = 0; i < count; i++)
            pieces[i] =
                (struct piece){ .number = (unsigned)i,
                                .level = (unsigned)prng_below(&prng, CASCADE_LEVELS_MAX),
                                .hour = (int)prng_below(&prng, 5),
                                .size = 1 + prng_below(&prng, 300000),
                                .home = prng_below(&prng, 4) ? NULL : "parent" };
        assert_int_equal(drain(&settings, pieces, count), 1);
    }
}

static void force_leaves_what_one_chunk_cannot_hold(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    uint64_t most = compact_level_bytes(&settings, CASCADE_LEVELS_MAX - 1);
    for (unsigned i = 0; i < 4; i++)
        add(catalog, (struct piece){
                         .number = i, .level = CASCADE_LEVELS_MAX - 1, .size = most / 2 - 1 });
    expect_forced(catalog, "7:0-1 7:2-3");
    catalog_free(catalog);
}

/* ---- The guard ----------------------------------------------------------------------- */

static void the_guard_wants_all_sources_live(void **state)
{
    (void)state;
    struct compact_settings settings = small_settings();
    struct catalog *catalog = new_catalog(&settings);
    char keys[3][128];
    struct view sources[3];
    for (unsigned i = 0; i < 3; i++) {
        struct piece piece = { .number = i, .quarantined = i == 2 };
        add(catalog, piece);
        sources[i] = view_of(key_of(&piece, keys[i]));
    }
    assert_true(plan_still_holds(catalog, 1, sources, 2, false));
    assert_false(plan_still_holds(catalog, 1, sources, 3, false));
    assert_false(plan_still_holds(catalog, 1, sources, 3, true));
    keys[1][40] = 'x';
    assert_false(plan_still_holds(catalog, 1, sources, 2, false));
    catalog_free(catalog);
}

static void the_guard_of_cascade_wants_the_same_target(void **state)
{
    (void)state;
    struct catalog *catalog = new_cascade(64);
    char keys[4][128];
    struct view sources[4];
    for (unsigned i = 0; i < 4; i++) {
        struct piece piece = { .number = i };
        add(catalog, piece);
        sources[i] = view_of(key_of(&piece, keys[i]));
    }
    assert_true(plan_still_holds(catalog, 1, sources, 4, false));
    assert_false(plan_still_holds(catalog, 2, sources, 4, false));
    catalog->cascade.counts[2] = 3;
    assert_false(plan_still_holds(catalog, 1, sources, 4, false));
    assert_true(plan_still_holds(catalog, 2, sources, 4, false));
    assert_true(plan_still_holds(catalog, 1, sources, 4, true));
    catalog->cascade = (struct hf_cascade){ 0 };
    assert_false(plan_still_holds(catalog, 1, sources, 4, false));
    catalog_free(catalog);
}

/* ---- Stability ----------------------------------------------------------------------- */

#define HISTORY_MAX 120

/* The group that has this chunk; NULL when none. */
static const struct plan_group *group_of(const struct plan *plan, unsigned number)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = 0; k < plan->groups[i].count; k++)
            if (number_of(plan->groups[i].sources[k]) == number)
                return &plan->groups[i];
    return NULL;
}

static bool is_of_one_hour(const struct plan_group *group)
{
    for (size_t i = 1; i < group->count; i++)
        if (group->sources[i]->min_ms != group->sources[0]->min_ms)
            return false;
    return true;
}

/* Whether adding cannot change it: it has its count or its size. */
static bool is_complete(const struct plan_group *group, const struct compact_settings *settings)
{
    unsigned level = group->sources[0]->level, tries = group->sources[0]->tries;
    uint64_t most = level ? settings->group_max : settings->level0_count;
    most >>= tries;
    if (tries > 0 && tries + 1 >= settings->tries_max)
        return true; /* alone */
    return group->count >= (most < 2 ? 2 : most) ||
           (level && group->bytes >= compact_level_bytes(settings, level));
}

static void assert_same_but_for_more(const struct plan_group *group,
                                     const struct plan_group *now, bool complete)
{
    assert_true((now->level == group->level || group->test) && now->count >= group->count);
    for (size_t k = 0; k < group->count; k++)
        assert_int_equal(number_of(now->sources[k]), number_of(group->sources[k]));
    assert_true(now->due.us <= group->due.us);
    if (complete)
        assert_true(now->count == group->count && now->due.us == group->due.us);
}

/* Every group of `before` is still together in `after`, not due later; alike if complete. Groups
 * of chunks that were alone in their hours may lose one to a late chunk of its hour. */
static void assert_stable(const struct plan *before, const struct plan *after,
                          const struct compact_settings *settings, unsigned gone_from,
                          unsigned gone_to)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct plan_group *group = &before->groups[i];
        unsigned first = number_of(group->sources[0]);
        if ((first >= gone_from && first < gone_to) ||
            (group->level == 1 && !is_of_one_hour(group)))
            continue;
        const struct plan_group *now = group_of(after, first);
        if (!now)
            fail_msg("the group of chunk %u is gone", first);
        else
            assert_same_but_for_more(group, now, is_complete(group, settings));
    }
}

static struct piece draw_piece(struct prng *prng, unsigned number)
{
    struct piece piece = { .number = number, .hour = (int)number / 12 };
    if (prng_below(prng, 4) == 0)
        piece.hour -= (int)prng_below(prng, 6); /* late */
    if (prng_below(prng, 4) == 0)
        piece.level = 1 + (unsigned)prng_below(prng, 2);
    piece.size = 1 + prng_below(prng, 900 * 1024);
    piece.tries = prng_below(prng, 8) == 0 ? 1 + (unsigned)prng_below(prng, 2) : 0;
    piece.home = prng_below(prng, 6) == 0 ? "parent" : NULL;
    piece.quarantined = prng_below(prng, 20) == 0;
    return piece;
}

static void groups_stay_what_they_are_whatever_is_added(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(11);
    size_t groups = 0;
    for (int history = 0; history < 15; history++) {
        struct compact_settings settings = small_settings();
        settings.level0_count = 2 + prng_below(&prng, 6);
        settings.group_max = 2 + prng_below(&prng, 10);
        if (settings.group_max < settings.level0_count)
            settings.group_max = settings.level0_count;
        struct catalog *catalog = new_catalog(&settings);
        for (unsigned number = 1; number <= HISTORY_MAX; number++) {
            add(catalog, draw_piece(&prng, number));
            struct plan after = plan_of(catalog);
            catalog->live_count--;
            struct plan before = plan_of(catalog);
            catalog->live_count++;
            assert_stable(&before, &after, &settings, 0, 0);
            groups += before.count;
            plan_release(&before);
            plan_release(&after);
        }
        catalog_free(catalog);
    }
    assert_true(groups > 3000);
}

/* A catalog with the chunks of another, but for one group. */
static struct catalog *without(const struct catalog *catalog, const struct plan_group *group)
{
    struct catalog *rest = new_catalog(&catalog->settings);
    struct hf_error error;
    for (size_t i = 0; i < catalog->live_count; i++) {
        bool gone = false;
        for (size_t k = 0; k < group->count; k++)
            gone = gone || group->sources[k] == &catalog->live[i];
        if (!gone)
            assert_status(HF_OK, catalog_copy_entry(rest, &catalog->live[i], &error), &error);
    }
    return rest;
}

static void committing_one_group_leaves_the_others_what_they_are(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(12);
    struct compact_settings settings = small_settings();
    for (int history = 0; history < 15; history++) {
        struct catalog *catalog = new_catalog(&settings);
        add(catalog,
            (struct piece){ .number = 1, .level = 7, .hour = 1000 }); /* all are over */
        for (unsigned number = 2; number <= HISTORY_MAX; number++)
            add(catalog, draw_piece(&prng, number));
        struct plan before = plan_of(catalog);
        for (size_t i = 0; i < before.count; i++) {
            struct catalog *rest = without(catalog, &before.groups[i]);
            struct plan after = plan_of(rest);
            unsigned first = number_of(before.groups[i].sources[0]);
            assert_stable(&before, &after, &settings, first, first + 1);
            assert_int_equal(after.count, before.count - 1);
            plan_release(&after);
            catalog_free(rest);
        }
        plan_release(&before);
        catalog_free(catalog);
    }
}

static void each_chunk_is_in_one_group_at_most(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(13);
    struct compact_settings settings = small_settings();
    for (int history = 0; history < 60; history++) {
        bool seen[HISTORY_MAX + 1] = { false };
        settings.policy = history % 4 == 3 ? HF_COMPACT_CASCADE : HF_COMPACT_LEVELS;
        struct catalog *catalog = new_catalog(&settings);
        for (unsigned number = 1; number <= HISTORY_MAX; number++)
            add(catalog, draw_piece(&prng, number));
        bool forced = history % 2;
        struct plan plan = forced ? forced_plan(catalog) : plan_of(catalog);
        assert_true(plan.count > 0);
        for (size_t i = 0; i < plan.count; i++) {
            const struct plan_group *group = &plan.groups[i];
            bool abroad = !view_starts_with(group->sources[0]->key, VIEW("data/default/"));
            bool alone = group->sources[0]->tries > 0 || (forced && abroad);
            assert_true(group->count >= (alone ? 1 : 2) && group->count <= settings.group_max);
            assert_true((group->level > 0 || group->test) && group->level < CASCADE_LEVELS_MAX);
            for (size_t k = 0; k < group->count; k++) {
                const struct chunk *chunk = group->sources[k];
                assert_false(seen[number_of(chunk)]);
                seen[number_of(chunk)] = true;
                assert_true(chunk->level < group->level + (forced || group->test) &&
                            chunk->quarantine.size == 0);
                assert_int_equal(chunk->tries, group->sources[0]->tries);
            }
        }
        plan_release(&plan);
        catalog_free(catalog);
    }
}

/* ---- At full size -------------------------------------------------------------------- */

static struct catalog *full_catalog(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.key = VIEW("1");
    struct catalog *catalog = new_catalog(&settings);
    struct prng prng = prng_seeded(14);
    for (unsigned i = 0; i < CATALOG_LIVE_MAX; i++)
        add(catalog, (struct piece){ .number = i,
                                     .level = prng_below(&prng, 10) == 0,
                                     .hour = (int)prng_below(&prng, 200),
                                     .tries = prng_below(&prng, 50) == 0 });
    return catalog;
}

static void a_hundred_thousand_chunks_are_planned_at_once(void **state)
{
    (void)state;
    struct catalog *catalog = full_catalog();
    clock_t start = clock();
    for (int i = 0; i < 25; i++) {
        struct plan plan = plan_of(catalog);
        assert_true(plan.count > 200);
        plan_release(&plan);
    }
    double ms = (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
    print_message("# 25 plans of 4,096 chunks: %.1f ms\n", ms);
    assert_true(ms < 1000); /* of a sanitizer: a tenth of that otherwise */
    catalog_free(catalog);
}

static void an_allocation_that_fails_is_told(void **state)
{
    (void)state;
    struct catalog *catalog = full_catalog();
    struct plan_options options = { 0 };
    long failures = 0;
    for (;; failures++) {
        struct plan plan;
        struct hf_error error;
        alloc_fail_after(failures);
        enum hf_status status = plan_make(catalog, &options, &plan, &error);
        bool failed = alloc_stop();
        assert_status(failed ? HF_UNAVAILABLE : HF_OK, status, &error);
        if (!failed) {
            plan_release(&plan);
            break;
        }
    }
    assert_true(failures >= 3);
    catalog_free(catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("level0_count chunks of one hour are a group",
           level0_count_chunks_of_an_hour_are_a_group),
        IT("hours are kept apart", hours_are_kept_apart),
        IT("an hour before 1970 is one hour", an_hour_before_1970_is_one_hour),
        IT("what is left of an hour is a group once the hour is over",
           what_is_left_of_an_hour_is_a_group_once_the_hour_is_over),
        IT("data of any level tells that an hour is over",
           data_of_any_level_tells_that_an_hour_is_over),
        IT("chunks that are alone in their hours are grouped with each other",
           chunks_that_are_alone_in_their_hours_are_grouped),
        IT("homes are kept apart", homes_are_kept_apart),
        IT("higher levels are grouped to their size", higher_levels_are_grouped_to_their_size),
        IT("a group has no more than group_max", a_group_has_no_more_than_group_max),
        IT("the highest level stays", the_highest_level_stays),
        IT("lower levels and older groups come first",
           lower_levels_and_older_groups_come_first),
        IT("a group with a leased chunk is left out whole",
           a_group_with_a_leased_chunk_is_left_out_whole),
        IT("quarantined chunks are left out and counted",
           quarantined_chunks_are_left_out_and_counted),
        IT("chunks that were tried are grouped among their like, by halves, then alone",
           tried_chunks_are_grouped_among_their_like_by_halves),
        IT("a clogged catalog plans nothing and says why",
           a_clogged_catalog_plans_nothing_and_says_why),
        IT("force merges what can be merged with another",
           force_merges_what_can_be_merged_with_another),
        IT("cascade merges everything below its target",
           cascade_merges_everything_below_its_target),
        IT("cascade takes the oldest, up to group_max",
           cascade_takes_the_oldest_up_to_group_max),
        IT("cascade goes around what is in the way", cascade_goes_around_what_is_in_the_way),
        IT("cascade halves what was tried", cascade_halves_what_was_tried),
        IT("force, until nothing is left to do, makes one chunk of a catalog",
           force_until_nothing_is_left_makes_one_chunk),
        IT("force leaves what one chunk cannot hold", force_leaves_what_one_chunk_cannot_hold),
        IT("forced cascade merges all, to the level above the highest",
           forced_cascade_merges_all_to_the_level_above_the_highest),
        IT("the guard wants all sources live", the_guard_wants_all_sources_live),
        IT("the guard of cascade wants the same target",
           the_guard_of_cascade_wants_the_same_target),
        IT("groups stay what they are, whatever is added",
           groups_stay_what_they_are_whatever_is_added),
        IT("committing one group leaves the others what they are",
           committing_one_group_leaves_the_others_what_they_are),
        IT("each chunk is in one group at most", each_chunk_is_in_one_group_at_most),
        IT("a hundred thousand chunks are planned at once",
           a_hundred_thousand_chunks_are_planned_at_once),
        IT("an allocation that fails is told", an_allocation_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
