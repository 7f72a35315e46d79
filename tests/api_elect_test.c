/* SPDX-License-Identifier: Apache-2.0 */
/* api_elect_test.c KIND: the promises of holdfast/elect.h, tested through the public headers
 * only. KIND is mem or sqlite. */
#include "api_client_kit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const members[] = { "anna", "bert", "carl", "dora", "emil" };
#define MEMBERS (sizeof members / sizeof *members)

static struct hf_elect_work work_of(const struct hf_elect_part *parts, size_t count)
{
    struct hf_elect_work work = HF_ELECT_WORK;
    work.level = 1;
    work.parts = parts;
    work.part_count = count;
    return work;
}

/* ---- Ranks --------------------------------------------------------------------------- */

static void the_order_of_the_parts_does_not_matter(void **state)
{
    struct place *place = *state;
    const struct hf_elect_part parts[] = { { "w1", 40 }, { "w2", 7 }, { "a", 100 } };
    const struct hf_elect_part turned[] = { { "a", 100 }, { "w2", 7 }, { "w1", 40 } };
    const struct hf_elect_work one = work_of(parts, 3), other = work_of(turned, 3);
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t rank, same_rank;
        uint64_t score, same_score;
        OK(hf_elect_rank(&one, members, MEMBERS, members[i], &rank, &score, &place->error));
        OK(hf_elect_rank(&other, members, MEMBERS, members[i], &same_rank, &same_score,
                         &place->error));
        assert_int_equal(rank, same_rank);
        assert_true(score == same_score);
    }
}

static void the_order_of_the_members_does_not_matter(void **state)
{
    struct place *place = *state;
    const char *const turned[] = { "emil", "carl", "anna", "dora", "bert" };
    size_t rank, same;
    for (size_t i = 0; i < MEMBERS; i++) {
        OK(hf_elect_rank(NULL, members, MEMBERS, members[i], &rank, NULL, &place->error));
        OK(hf_elect_rank(NULL, turned, MEMBERS, members[i], &same, NULL, &place->error));
        assert_int_equal(rank, same);
    }
}

static void every_rank_is_taken_once_and_the_order_tells_the_same(void **state)
{
    struct place *place = *state;
    const struct hf_elect_part parts[] = { { "w1", 40 } };
    const struct hf_elect_work work = work_of(parts, 1);
    struct hf_elect_place places[MEMBERS];
    OK(hf_elect_order(&work, members, MEMBERS, places, &place->error));
    for (size_t i = 0; i < MEMBERS; i++) {
        size_t rank;
        uint64_t score;
        const char *member = members[places[i].member];
        OK(hf_elect_rank(&work, members, MEMBERS, member, &rank, &score, &place->error));
        assert_int_equal(rank, i);
        assert_true(score == places[i].score);
        assert_true(i == 0 || places[i - 1].score > score);
    }
}

static void sequences_count_in_steps_of_the_base(void **state)
{
    struct place *place = *state;
    struct hf_elect_part low = { "w", 40 }, near = { "w", 59 }, far = { "w", 60 };
    struct hf_elect_work work = work_of(&low, 1);
    size_t rank;
    uint64_t score, near_score, far_score;
    OK(hf_elect_rank(&work, NULL, 0, "anna", &rank, &score, &place->error));
    assert_int_equal(rank, 0);
    work.parts = &near;
    OK(hf_elect_rank(&work, NULL, 0, "anna", &rank, &near_score, &place->error));
    work.parts = &far;
    OK(hf_elect_rank(&work, NULL, 0, "anna", &rank, &far_score, &place->error));
    assert_true(score == near_score);
    assert_true(score != far_score);
    work.base = 1;
    work.parts = &near;
    OK(hf_elect_rank(&work, NULL, 0, "anna", &rank, &near_score, &place->error));
    work.parts = &low;
    OK(hf_elect_rank(&work, NULL, 0, "anna", &rank, &score, &place->error));
    assert_true(score != near_score);
}

/* Recorded: members of different versions must agree. */
static void a_score_is_the_same_for_ever(void **state)
{
    struct place *place = *state;
    const struct hf_elect_part parts[] = { { "w1", 40 }, { "w2", 7 } };
    const struct hf_elect_work work = work_of(parts, 2);
    char text[32];
    size_t rank;
    uint64_t score;
    OK(hf_elect_rank(&work, members, MEMBERS, "anna", &rank, &score, &place->error));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)score);
    assert_string_equal(text, "59f38dcce62d3082");
}

static void a_writer_twice_and_too_many_writers_are_invalid(void **state)
{
    struct place *place = *state;
    static struct hf_elect_part many[HF_ELECT_PARTS_MAX + 1];
    static char names[HF_ELECT_PARTS_MAX + 1][16];
    const struct hf_elect_part twice[] = { { "w", 1 }, { "v", 1 }, { "w", 2 } };
    struct hf_elect_work work = work_of(twice, 3);
    struct hf_elect_place places[MEMBERS];
    size_t rank = 77;
    IS(HF_INVALID, hf_elect_rank(&work, members, MEMBERS, "anna", &rank, NULL, &place->error));
    assert_non_null(strstr(place->error.why, "'w' is given twice"));
    assert_int_equal(rank, 77);
    for (size_t i = 0; i <= HF_ELECT_PARTS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "w%zu", i);
        many[i].writer = names[i];
    }
    work = work_of(many, HF_ELECT_PARTS_MAX + 1);
    IS(HF_INVALID, hf_elect_order(&work, members, MEMBERS, places, &place->error));
    work.part_count--;
    OK(hf_elect_order(&work, members, MEMBERS, places, &place->error));
    work.struct_size = 0;
    IS(HF_INVALID, hf_elect_rank(&work, members, MEMBERS, "anna", &rank, NULL, &place->error));
    assert_non_null(strstr(place->error.why, "HF_ELECT_WORK"));
}

static void rank_k_starts_after_k_steps(void **state)
{
    (void)state;
    assert_int_equal(hf_elect_starts_in_ms(0, 1000, 0), 0);
    assert_int_equal(hf_elect_starts_in_ms(3, 1000, 0), 3000);
    assert_int_equal(hf_elect_starts_in_ms(3, 1000, 2999), 1);
    assert_int_equal(hf_elect_starts_in_ms(3, 1000, 3000), 0);
    assert_int_equal(hf_elect_starts_in_ms(3, 1000, INT64_MAX), 0);
    assert_int_equal(hf_elect_starts_in_ms(3, -5, 0), 0);
    assert_int_equal(hf_elect_starts_in_ms(3, 1000, -5), 3000);
    assert_true(hf_elect_starts_in_ms(SIZE_MAX, INT64_MAX, 0) > INT64_C(1000000000000));
}

/* ---- Cascades ------------------------------------------------------------------------ */

static void a_cascade_counts_like_digits_and_carries(void **state)
{
    struct place *place = *state;
    struct hf_cascade cascade = { { 0 } };
    unsigned levels[HF_CASCADE_LEVELS] = { 0 };
    assert_int_equal(hf_cascade_target(&cascade, 3), 0);
    for (int i = 1; i <= 27; i++) {
        hf_cascade_added(&cascade, 1);
        unsigned level = hf_cascade_target(&cascade, 3);
        levels[level]++;
        assert_int_equal(level, i % 27 == 0 ? 3 : i % 9 == 0 ? 2 : i % 3 == 0 ? 1 : 0);
        if (level > 0)
            OK(hf_cascade_completed(&cascade, level, &place->error));
    }
    assert_int_equal(levels[1], 6);
    assert_int_equal(levels[2], 2);
    assert_int_equal(levels[3], 1);
}

static void a_base_of_zero_is_the_usual_one(void **state)
{
    (void)state;
    struct hf_cascade cascade = { { 0 } };
    hf_cascade_added(&cascade, HF_CASCADE_BASE - 1);
    assert_int_equal(hf_cascade_target(&cascade, 0), 0);
    hf_cascade_added(&cascade, 1);
    assert_int_equal(hf_cascade_target(&cascade, 0), 1);
    hf_cascade_added(&cascade, UINT64_MAX);
    assert_int_equal(hf_cascade_target(&cascade, UINT64_MAX), 1);
}

static void there_are_no_levels_but_those_from_one_on(void **state)
{
    struct place *place = *state;
    struct hf_cascade cascade = { { 0, 5, 5, 5, 5, 5, 5, 5 } };
    const struct hf_cascade before = cascade;
    IS(HF_INVALID, hf_cascade_completed(&cascade, 0, &place->error));
    IS(HF_INVALID, hf_cascade_completed(&cascade, HF_CASCADE_LEVELS, &place->error));
    assert_memory_equal(&cascade, &before, sizeof cascade);
    OK(hf_cascade_completed(&cascade, HF_CASCADE_LEVELS - 1, &place->error));
    assert_int_equal(cascade.counts[1], 0);
}

/* ---- The roster ---------------------------------------------------------------------- */

/* What was told, as text: "+anna -bert". */
static bool note_change(void *argument, const char *name, bool present)
{
    char *text = argument;
    snprintf(text + strlen(text), 200 - strlen(text), "%s%c%s", text[0] ? " " : "",
             present ? '+' : '-', name);
    return true;
}

static bool note_member(void *argument, const struct hf_elect_info *info)
{
    assert_true(info->beaten_ms > INT64_C(1600000000000));
    return note_change(argument, info->name, info->present);
}

static bool stop_at_first(void *argument, const struct hf_elect_info *info)
{
    (void)info;
    ++*(int *)argument;
    return false;
}

static struct hf_elect_member *join(struct place *place, const char *name, bool by_hand)
{
    struct hf_elect_options options = HF_ELECT_OPTIONS;
    struct hf_elect_member *member;
    options.name = name;
    options.beat_ms = 100;
    options.by_hand = by_hand;
    OK(hf_elect_join(place->client, "builders", &options, &member, &place->error));
    return member;
}

static const char *changes(struct place *place, struct hf_elect_member *member)
{
    static char text[200];
    text[0] = '\0';
    OK(hf_elect_changes(member, note_change, text, &place->error));
    return text;
}

static void who_joins_is_listed_and_who_leaves_is_not(void **state)
{
    struct place *place = *state;
    char text[200] = "";
    int count = 0;
    OK(hf_elect_members(place->client, "builders", 0, note_member, text, &place->error));
    assert_string_equal(text, "");
    struct hf_elect_member *anna = join(place, "anna", true), *bert = join(place, "bert", true);
    assert_string_equal(hf_elect_name(anna), "anna");
    OK(hf_elect_members(place->client, "builders", 100, note_member, text, &place->error));
    assert_string_equal(text, "+anna +bert");
    OK(hf_elect_members(place->client, "builders", 0, stop_at_first, &count, &place->error));
    assert_int_equal(count, 1);
    hf_elect_leave(anna);
    text[0] = '\0';
    OK(hf_elect_members(place->client, "builders", 0, note_member, text, &place->error));
    assert_string_equal(text, "+bert");
    hf_elect_leave(bert);
}

static void a_member_that_is_detached_stays_until_another_process_goes_on_or_leaves(
    void **state)
{
    struct place *place = *state;
    char text[200] = "";
    hf_elect_detach(join(place, "anna", true));
    hf_elect_detach(join(place, "bert", false));
    OK(hf_elect_members(place->client, "builders", 0, note_member, text, &place->error));
    assert_string_equal(text, "+anna +bert");
    hf_elect_leave(join(place, "anna", true));
    text[0] = '\0';
    OK(hf_elect_members(place->client, "builders", 0, note_member, text, &place->error));
    assert_string_equal(text, "+bert");
    hf_elect_leave(join(place, "bert", true));
}

static void changes_are_told_once(void **state)
{
    struct place *place = *state;
    struct hf_elect_member *anna = join(place, "anna", true);
    assert_string_equal(changes(place, anna), "+anna");
    assert_string_equal(changes(place, anna), "");
    struct hf_elect_member *bert = join(place, "bert", true);
    assert_string_equal(changes(place, anna), "");
    OK(hf_elect_look(anna, &place->error));
    assert_string_equal(changes(place, anna), "+bert");
    assert_string_equal(changes(place, bert), "+anna +bert");
    hf_elect_leave(bert);
    OK(hf_elect_look(anna, &place->error));
    assert_string_equal(changes(place, anna), "-bert");
    hf_elect_leave(anna);
}

static void a_member_ranks_itself_among_those_it_knows(void **state)
{
    struct place *place = *state;
    struct hf_elect_member *anna = join(place, "anna", true), *bert = join(place, "bert", true);
    size_t ranks[2], expected;
    uint64_t score, same;
    OK(hf_elect_rank_own(anna, NULL, &ranks[0], NULL, &place->error));
    assert_int_equal(ranks[0], 0);
    OK(hf_elect_look(anna, &place->error));
    OK(hf_elect_rank_own(anna, NULL, &ranks[0], &score, &place->error));
    OK(hf_elect_rank_own(bert, NULL, &ranks[1], NULL, &place->error));
    assert_int_equal(ranks[0] + ranks[1], 1);
    OK(hf_elect_rank(NULL, members, 2, "anna", &expected, &same, &place->error));
    assert_int_equal(ranks[0], expected);
    assert_true(score == same);
    hf_elect_leave(anna);
    hf_elect_leave(bert);
}

static void wait_a_little(void)
{
    const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += pause.tv_nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now), true;)
        if (now.tv_sec > until.tv_sec ||
            (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec))
            return;
}

/* A member that beats in the background sees one that comes later, by itself. */
static void beats_go_on_in_the_background(void **state)
{
    struct place *place = *state;
    struct hf_elect_member *anna = join(place, "anna", false);
    assert_string_equal(changes(place, anna), "+anna");
    struct hf_elect_member *bert = join(place, "bert", true);
    const char *told = "";
    for (int i = 0; i < 2000 && told[0] == '\0'; i++) {
        wait_a_little();
        told = changes(place, anna);
    }
    assert_string_equal(told, "+bert");
    hf_elect_leave(bert);
    hf_elect_leave(anna);
}

static void a_drawn_name_has_32_digits(void **state)
{
    struct place *place = *state;
    struct hf_elect_member *one = join(place, NULL, true), *other = join(place, NULL, true);
    assert_int_equal(strlen(hf_elect_name(one)), 32);
    assert_int_equal(strspn(hf_elect_name(one), "0123456789abcdef"), 32);
    assert_string_not_equal(hf_elect_name(one), hf_elect_name(other));
    hf_elect_leave(one);
    hf_elect_leave(other);
}

static void names_and_beats_that_are_none_are_invalid(void **state)
{
    struct place *place = *state;
    struct hf_elect_options options = HF_ELECT_OPTIONS;
    struct hf_elect_member *member;
    IS(HF_INVALID, hf_elect_join(place->client, "No Group", NULL, &member, &place->error));
    options.name = "";
    IS(HF_INVALID, hf_elect_join(place->client, "g", &options, &member, &place->error));
    options.name = "No/Name";
    IS(HF_INVALID, hf_elect_join(place->client, "g", &options, &member, &place->error));
    options.name = NULL;
    static const int64_t beats[] = { -1, 99, 3600001, INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < sizeof beats / sizeof *beats; i++) {
        options.beat_ms = beats[i];
        IS(HF_INVALID, hf_elect_join(place->client, "g", &options, &member, &place->error));
        assert_null(member);
        IS(HF_INVALID,
           hf_elect_members(place->client, "g", beats[i], note_member, NULL, &place->error));
    }
}

static void a_member_outlives_its_client(void **state)
{
    struct place *place = *state;
    struct hf_elect_member *anna = join(place, "anna", false);
    hf_client_close(place->client);
    place->client = NULL;
    OK(hf_elect_look(anna, &place->error));
    hf_elect_leave(anna);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_the_parts_does_not_matter),
        cmocka_unit_test(the_order_of_the_members_does_not_matter),
        cmocka_unit_test(every_rank_is_taken_once_and_the_order_tells_the_same),
        cmocka_unit_test(sequences_count_in_steps_of_the_base),
        cmocka_unit_test(a_score_is_the_same_for_ever),
        cmocka_unit_test(a_writer_twice_and_too_many_writers_are_invalid),
        cmocka_unit_test(rank_k_starts_after_k_steps),
        cmocka_unit_test(a_cascade_counts_like_digits_and_carries),
        cmocka_unit_test(a_base_of_zero_is_the_usual_one),
        cmocka_unit_test(there_are_no_levels_but_those_from_one_on),
        cmocka_unit_test(who_joins_is_listed_and_who_leaves_is_not),
        cmocka_unit_test(
            a_member_that_is_detached_stays_until_another_process_goes_on_or_leaves),
        cmocka_unit_test(changes_are_told_once),
        cmocka_unit_test(a_member_ranks_itself_among_those_it_knows),
        cmocka_unit_test(beats_go_on_in_the_background),
        cmocka_unit_test(a_drawn_name_has_32_digits),
        cmocka_unit_test(names_and_beats_that_are_none_are_invalid),
        cmocka_unit_test(a_member_outlives_its_client),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
