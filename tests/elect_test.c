/* SPDX-License-Identifier: Apache-2.0 */
/* elect_test.c: which member does a piece of work, and when; and which level is due. The pure
 * part of src/elect is compared with small computations of the test. */
#include "base/buffer.h"
#include "base/hash.h"
#include "base/prng.h"
#include "elect/cascade.h"
#include "elect/ladder.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Members and work ---------------------------------------------------------------- */

#define NAME_SIZE 32

struct crew {
    size_t count;
    char (*texts)[NAME_SIZE];
    struct view *names;
};

static struct crew crew_of(size_t count)
{
    struct crew crew = { count, calloc(count, NAME_SIZE), calloc(count, sizeof(struct view)) };
    assert_true(crew.texts && crew.names);
    for (size_t i = 0; i < count; i++) {
        snprintf(crew.texts[i], NAME_SIZE, "member-%zu", i);
        crew.names[i] = view_of(crew.texts[i]);
    }
    return crew;
}

static void crew_free(struct crew *crew)
{
    free(crew->texts);
    free(crew->names);
}

/* Piece of work number `key`: of one writer, in steps of 1. */
static struct work work_of(uint64_t key, struct work_writer *space)
{
    *space = (struct work_writer){ VIEW("w"), key };
    return (struct work){ .level = 1, .base = 1, .writers = space, .writer_count = 1 };
}

static size_t leader_of(const struct crew *crew, const struct work *work)
{
    size_t leader = 0;
    struct rung best = { ladder_score(crew->names[0], work), crew->names[0] };
    for (size_t i = 1; i < crew->count; i++) {
        struct rung other = { ladder_score(crew->names[i], work), crew->names[i] };
        if (ladder_before(&other, &best)) {
            best = other;
            leader = i;
        }
    }
    return leader;
}

/* ---- Scores -------------------------------------------------------------------------- */

static void append_le64(struct buffer *bytes, uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        buffer_append_byte(bytes, (char)(unsigned char)(number & 0xff));
        number >>= 8;
    }
}

static uint64_t score_by_hand(struct view fingerprint, const struct work *work)
{
    struct buffer bytes = BUFFER_INIT(64 * 1024);
    buffer_append(&bytes, fingerprint);
    append_le64(&bytes, work->level);
    for (size_t i = 0; i < work->writer_count; i++) {
        buffer_append(&bytes, work->writers[i].writer);
        append_le64(&bytes, work->writers[i].sequence / work->base);
    }
    assert_false(bytes.failed);
    uint64_t score = hash_xxh3(buffer_view(&bytes));
    buffer_release(&bytes);
    return score;
}

static void a_score_is_the_hash_of_the_bytes_in_a_row(void **state)
{
    (void)state;
    struct work_writer writers[100];
    static const struct view names[] = { { "a", 1 },
                                         { "", 0 },
                                         { "writer-with-a-long-name", 23 } };
    struct prng prng = prng_seeded(1);
    for (size_t count = 0; count <= 100; count++) {
        struct work work = { .level = prng_next(&prng) >> prng_below(&prng, 64),
                             .base = 1 + prng_below(&prng, 50),
                             .writers = writers,
                             .writer_count = count };
        for (size_t i = 0; i < count; i++)
            writers[i] = (struct work_writer){ names[prng_below(&prng, 3)],
                                               prng_next(&prng) >> prng_below(&prng, 64) };
        assert_true(ladder_score(VIEW("me"), &work) == score_by_hand(VIEW("me"), &work));
    }
}

static void a_score_changes_only_with_a_whole_step_of_the_base(void **state)
{
    (void)state;
    struct work_writer writer = { VIEW("w"), 40 };
    struct work work = { .level = 2, .base = 20, .writers = &writer, .writer_count = 1 };
    uint64_t score = ladder_score(VIEW("me"), &work);
    for (writer.sequence = 40; writer.sequence < 60; writer.sequence++)
        assert_true(ladder_score(VIEW("me"), &work) == score);
    assert_true(ladder_score(VIEW("me"), &work) != score);
    writer.sequence = 39;
    assert_true(ladder_score(VIEW("me"), &work) != score);
    writer.sequence = 40;
    work.level = 3;
    assert_true(ladder_score(VIEW("me"), &work) != score);
    work.level = 2;
    assert_true(ladder_score(VIEW("you"), &work) != score);
}

/* ---- Order --------------------------------------------------------------------------- */

static void of_equal_scores_the_lowest_name_leads(void **state)
{
    (void)state;
    struct rung a = { 7, VIEW("a") }, b = { 7, VIEW("b") }, ab = { 7, VIEW("ab") };
    struct rung high = { 8, VIEW("z") };
    assert_true(ladder_before(&a, &b) && !ladder_before(&b, &a));
    assert_true(ladder_before(&a, &ab) && ladder_before(&ab, &b));
    assert_false(ladder_before(&a, &a));
    assert_true(ladder_before(&high, &a) && !ladder_before(&a, &high));
}

/* Every member's rank is its place in the order, in whatever order they are listed. */
static void all_find_the_same_order(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 2, 3, 7, 40, 130 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct crew crew = crew_of(sizes[s]);
        struct prng prng = prng_seeded(s);
        struct work_writer space;
        struct work work = work_of(1000 + s, &space);
        size_t order[130];
        for (size_t i = crew.count - 1; i > 0; i--) {
            size_t other = (size_t)prng_below(&prng, i + 1);
            struct view moved = crew.names[i];
            crew.names[i] = crew.names[other];
            crew.names[other] = moved;
        }
        ladder_order(crew.names, crew.count, &work, order);
        for (size_t i = 0; i < crew.count; i++)
            assert_int_equal(ladder_rank(crew.names, crew.count, crew.names[order[i]], &work),
                             i);
        crew_free(&crew);
    }
}

static void one_who_is_not_listed_finds_its_place_too(void **state)
{
    (void)state;
    struct crew crew = crew_of(9);
    struct work_writer space;
    struct view own = crew.names[8];
    for (uint64_t key = 0; key < 50; key++) {
        struct work work = work_of(key, &space);
        size_t listed = ladder_rank(crew.names, 9, own, &work);
        assert_int_equal(ladder_rank(crew.names, 8, own, &work), listed);
    }
    struct work work = work_of(1, &space);
    assert_int_equal(ladder_rank(NULL, 0, own, &work), 0);
    ladder_order(NULL, 0, &work, NULL);
    crew_free(&crew);
}

/* ---- Spread -------------------------------------------------------------------------- */

#define TEN       10
#define TEN_KEYS  100000
#define MANY      1000
#define MANY_KEYS 5000

static void ten_members_share_work_evenly(void **state)
{
    (void)state;
    struct crew crew = crew_of(TEN);
    struct work_writer space;
    size_t led[TEN] = { 0 };
    for (uint64_t key = 0; key < TEN_KEYS; key++) {
        struct work work = work_of(key, &space);
        led[leader_of(&crew, &work)]++;
    }
    for (size_t i = 0; i < TEN; i++)
        assert_in_range(led[i], TEN_KEYS / TEN * 95 / 100, TEN_KEYS / TEN * 105 / 100);
    crew_free(&crew);
}

/* Wilson and Hilferty's approximation; `z` is the quantile of the normal distribution. */
static double chi_square_quantile(double freedom, double z)
{
    double part = 2 / (9 * freedom);
    return freedom * pow(1 - part + z * sqrt(part), 3);
}

static void a_thousand_members_share_work_as_by_chance(void **state)
{
    (void)state;
    struct crew crew = crew_of(MANY);
    struct work_writer space;
    static size_t led[MANY];
    for (uint64_t key = 0; key < MANY_KEYS; key++) {
        struct work work = work_of(key, &space);
        led[leader_of(&crew, &work)]++;
    }
    double expected = (double)MANY_KEYS / MANY, sum = 0;
    for (size_t i = 0; i < MANY; i++)
        sum += ((double)led[i] - expected) * ((double)led[i] - expected) / expected;
    assert_true(sum < chi_square_quantile(MANY - 1, /* 0.1 % */ 3.0902));
    assert_true(sum > chi_square_quantile(MANY - 1, -3.0902)); /* nor too even for chance */
    crew_free(&crew);
}

static void who_leaves_moves_only_its_own_work(void **state)
{
    (void)state;
    struct crew crew = crew_of(TEN);
    struct work_writer space;
    size_t before[TEN], after[TEN], moved = 0;
    for (uint64_t key = 0; key < 2000; key++) {
        struct work work = work_of(key, &space);
        size_t gone = (size_t)(key % TEN);
        struct view left[TEN];
        ladder_order(crew.names, TEN, &work, before);
        for (size_t i = 0; i < TEN; i++)
            if (i != gone)
                left[i < gone ? i : i - 1] = crew.names[i];
        ladder_order(left, TEN - 1, &work, after);
        moved += before[0] == gone;
        for (size_t i = 0, place = 0; i < TEN; i++)
            if (before[i] != gone)
                assert_true(view_equal(left[after[place++]], crew.names[before[i]]));
    }
    assert_in_range(moved, 100, 300); /* a tenth of it, about */
    crew_free(&crew);
}

/* ---- When ---------------------------------------------------------------------------- */

static void rank_k_starts_after_k_steps(void **state)
{
    (void)state;
    struct span step = SPAN_S(30);
    assert_int_equal(ladder_delay(0, step).us, 0);
    assert_int_equal(ladder_delay(3, step).us, SPAN_S(90).us);
    assert_int_equal(ladder_delay(5, SPAN_US(0)).us, 0);
    assert_int_equal(ladder_delay(SIZE_MAX, step).us, MOMENT_FAR);
    assert_true(ladder_may_start(0, step, SPAN_US(0)));
    assert_false(ladder_may_start(1, step, SPAN_US(step.us - 1)));
    assert_true(ladder_may_start(1, step, step));
    assert_false(ladder_may_start(SIZE_MAX, step, SPAN_S(1000000)));
    assert_true(ladder_may_start(7, SPAN_US(0), SPAN_US(0)));
}

static void work_is_as_old_as_the_document_or_we_know(void **state)
{
    (void)state;
    assert_int_equal(ladder_age(SPAN_S(50), SPAN_S(2)).us, SPAN_S(50).us);
    assert_int_equal(ladder_age(SPAN_US(0), SPAN_S(2)).us, SPAN_S(2).us);
    assert_int_equal(ladder_age(SPAN_S(-9), SPAN_US(0)).us, 0);
}

static void the_guard_lets_only_through_what_is_still_due(void **state)
{
    (void)state;
    assert_true(ladder_guard(true));
    assert_false(ladder_guard(false));
}

/* ---- The cascade --------------------------------------------------------------------- */

#define COUNTS(...) (&(struct hf_cascade){ { __VA_ARGS__ } })

static void a_level_is_due_when_its_count_and_the_one_from_below_reach_the_base(void **state)
{
    (void)state;
    assert_int_equal(cascade_target(COUNTS(0), 20), 0);
    assert_int_equal(cascade_target(COUNTS(0, 19), 20), 0);
    assert_int_equal(cascade_target(COUNTS(0, 20), 20), 1);
    assert_int_equal(cascade_target(COUNTS(0, 20, 18), 20), 1);
    assert_int_equal(cascade_target(COUNTS(0, 20, 19), 20), 2);
    assert_int_equal(cascade_target(COUNTS(0, 19, 19), 20), 0);
    assert_int_equal(cascade_target(COUNTS(0, 0, 20), 20), 2);
    assert_int_equal(cascade_target(COUNTS(0, 20, 19, 19), 20), 3);
    assert_int_equal(cascade_target(COUNTS(0, 20, 18, 19), 20), 1);
    assert_int_equal(cascade_target(COUNTS(0, 19, 19, 20), 20), 3);
    assert_int_equal(cascade_target(COUNTS(0, 20, 19, 19, 19, 19, 19, 19), 20), 7);
    assert_int_equal(cascade_target(COUNTS(500), 20), 0); /* the first is not used */
    assert_int_equal(cascade_target(COUNTS(0, UINT64_MAX, UINT64_MAX), 20), 2);
    assert_int_equal(cascade_target(COUNTS(0, UINT64_MAX, UINT64_MAX - 1), UINT64_MAX), 2);
}

static void a_completed_level_adds_one_to_the_next(void **state)
{
    (void)state;
    struct hf_cascade cascade = { { 0, 20, 19, 4, 3 } };
    cascade_completed(&cascade, 2);
    assert_memory_equal(&cascade, COUNTS(0, 0, 0, 5, 3), sizeof cascade);
    cascade_completed(&cascade, 1);
    assert_memory_equal(&cascade, COUNTS(0, 0, 1, 5, 3), sizeof cascade);
    cascade_added(&cascade, 7);
    assert_memory_equal(&cascade, COUNTS(0, 7, 1, 5, 3), sizeof cascade);
    cascade_completed(&cascade, CASCADE_LEVELS_MAX - 1);
    assert_memory_equal(&cascade, COUNTS(0), sizeof cascade);
}

static void counts_do_not_wrap(void **state)
{
    (void)state;
    struct hf_cascade cascade = { { 0, UINT64_MAX - 1, UINT64_MAX } };
    cascade_added(&cascade, 5);
    assert_true(cascade.counts[1] == UINT64_MAX);
    cascade_completed(&cascade, 1);
    assert_true(cascade.counts[2] == UINT64_MAX);
}

/* A number of base 3, one more for each entry: a compaction into level L is a carry out of its
 * digit, so after n entries L was reached n / 3^L times, and not at all by a lower digit then. */
static void entries_one_by_one_count_like_a_number(void **state)
{
    (void)state;
    struct hf_cascade cascade = { { 0 } };
    uint64_t reached[CASCADE_LEVELS_MAX] = { 0 };
    const uint64_t base = 3, entries = 2187; /* 3^7 */
    for (uint64_t i = 1; i <= entries; i++) {
        cascade_added(&cascade, 1);
        unsigned target = cascade_target(&cascade, base), carries = 0;
        for (uint64_t rest = i; rest % base == 0 && carries < CASCADE_LEVELS_MAX - 1;
             rest /= base)
            carries++;
        assert_int_equal(target, carries);
        if (target > 0)
            cascade_completed(&cascade, target);
        reached[target]++;
    }
    assert_int_equal(reached[1], entries / 3 - entries / 9);
    assert_int_equal(reached[7], 1);
    assert_memory_equal(&cascade, COUNTS(0), sizeof cascade);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a score is XXH3 of the bytes in a row", a_score_is_the_hash_of_the_bytes_in_a_row),
        IT("a score changes only with a whole step of the base",
           a_score_changes_only_with_a_whole_step_of_the_base),
        IT("of equal scores the lowest name leads", of_equal_scores_the_lowest_name_leads),
        IT("all find the same order, however they are listed", all_find_the_same_order),
        IT("one who is not listed finds its place too",
           one_who_is_not_listed_finds_its_place_too),
        IT("ten members share work within 5 % of even", ten_members_share_work_evenly),
        IT("a thousand members share work as by chance",
           a_thousand_members_share_work_as_by_chance),
        IT("who leaves moves only its own work", who_leaves_moves_only_its_own_work),
        IT("rank k starts after k steps", rank_k_starts_after_k_steps),
        IT("work is as old as the document says or we have seen",
           work_is_as_old_as_the_document_or_we_know),
        IT("the guard lets only through what is still due",
           the_guard_lets_only_through_what_is_still_due),
        IT("a level is due when its count and the one from below reach the base",
           a_level_is_due_when_its_count_and_the_one_from_below_reach_the_base),
        IT("a completed level adds one to the next", a_completed_level_adds_one_to_the_next),
        IT("counts do not wrap", counts_do_not_wrap),
        IT("entries one by one count like a number of that base",
           entries_one_by_one_count_like_a_number),
    };
    return cmocka_run_group_tests_name("elect", tests, NULL, NULL);
}
