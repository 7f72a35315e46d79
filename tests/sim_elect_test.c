/* SPDX-License-Identifier: Apache-2.0 */
/* sim_elect_test.c: the simulator's checks of elections, on histories that the test writes by
 * hand: correct ones pass, and each fault is found. */
#include "base/hash.h"
#include "sim/workloads/elect_state.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONCE "0123456789abcdef0123456789abcdef\n"

static const struct elect_plan plan = { .base = 2,
                                        .step = { 10000000 },
                                        .beat = { 10000000 },
                                        .score_mask = UINT64_MAX,
                                        .honest = true };

/* ---- A checker without a run ------------------------------------------------------------ */

struct story {
    struct run_options options;
    struct run run;
    struct elect_checker_state checker;
};

static int set_up(void **state)
{
    struct story *story = calloc(1, sizeof *story);
    struct world_options options = WORLD_OPTIONS;
    assert_non_null(story);
    options.trace = TRACE_OFF;
    story->options = RUN_OPTIONS;
    story->options.nodes = 2;
    story->run = (struct run){ .options = &story->options, .world = world_new(&options) };
    story->checker.run = &story->run;
    story->checker.plan = &plan;
    *state = story;
    return 0;
}

static int tear_down(void **state)
{
    struct story *story = *state;
    world_free(story->run.world);
    free(story);
    return 0;
}

static void write_state(struct story *story, const char *text)
{
    char body[1000];
    snprintf(body, sizeof body, NONCE "%s", text);
    elect_checker_write(&story->checker,
                        &(struct bucket_change){ .key = ELECT_KEY, .body = view_of(body) });
}

static void assert_good(const struct story *story)
{
    const char *failure = world_failure(story->run.world);
    if (failure)
        fail_msg("checked: %s", failure);
}

static void assert_bad(const struct story *story, const char *wanted)
{
    const char *failure = world_failure(story->run.world);
    if (!failure || !strstr(failure, wanted))
        fail_msg("checked: %s, and not: %s", failure ? failure : "good", wanted);
}

/* ---- Documents ------------------------------------------------------------------------ */

static void what_follows_from_the_history_is_good(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 1 0 0 0 0 0 0\ndue\na 1 1 1\n");
    write_state(story, "counts 3 0 0 0 0 0 0\ndue 9 100 5\na 1 1 1\na 2 2 2\n");
    write_state(story, "counts 4 0 0 0 0 0 0\ndue 9 100 5\na 1 1 1\na 2 2 2\na 3 1 1\n");
    write_state(story, "counts 0 1 0 0 0 0 0\ndue\na 1 1 1\na 2 2 2\na 3 1 1\nc 4 1 1\n");
    write_state(story, "counts 2 1 0 0 0 0 0\ndue 9 200 6\na 1 1 1\na 2 2 2\na 3 1 1\nc 4 1 1\n"
                       "a 5 1 2\n");
    assert_int_equal(elect_model_target(&story->checker.known, 2), 2);
    write_state(story, "counts 0 0 1 0 0 0 0\ndue\na 1 1 1\na 2 2 2\na 3 1 1\nc 4 1 1\n"
                       "a 5 1 2\nc 6 2 2\n");
    assert_int_equal(elect_generation(&story->checker.known), 2);
    assert_int_equal(elect_sequence(&story->checker.known, 1), 3);
    assert_good(story);
}

static void a_count_that_does_not_follow_is_bad(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 0 0 0 0 0 0 0\ndue\na 1 1 2\nc 2 1 1\n");
    assert_bad(story, "the count of level 2 is 0, but by what happened 1");
}

static void a_moment_that_moves_is_bad(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 2 0 0 0 0 0 0\ndue 9 100 5\na 1 1 2\n");
    write_state(story, "counts 3 0 0 0 0 0 0\ndue 9 101 6\na 1 1 2\na 2 1 1\n");
    assert_bad(story, "moved the moment");
}

static void due_without_a_moment_is_bad(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 2 0 0 0 0 0 0\ndue\na 1 1 2\n");
    assert_bad(story, "no moment said");
}

static void history_that_is_lost_is_bad(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 1 0 0 0 0 0 0\ndue\na 1 1 1\n");
    write_state(story, "counts 1 0 0 0 0 0 0\ndue\na 2 1 1\n");
    assert_bad(story, "took away what had happened");
}

static void what_is_no_state_is_bad(void **state)
{
    struct story *story = *state;
    write_state(story, "counts 1 0 0 0 0 0\ndue\n");
    assert_bad(story, "no state");
}

/* ---- Rosters -------------------------------------------------------------------------- */

static void write_member(struct story *story, const char *name, int64_t written_us)
{
    char key[100];
    snprintf(key, sizeof key, "roster/crew/%s", name);
    elect_checker_write(&story->checker,
                        &(struct bucket_change){ .key = view_of(key), .body = VIEW("x") });
    struct elect_member *member = &story->checker.members[story->checker.member_count - 1];
    member->written_us = member->since_us = written_us;
}

static struct roster roster_of(struct view *present, size_t count)
{
    struct roster roster = { .present = present, .present_count = count };
    snprintf(roster.fingerprint, sizeof roster.fingerprint, "%.*s", VIEW_ARGS(present[0]));
    return roster;
}

/* `own` was heard of now, `near` 20 s ago, `far` 40 s; the first `count` are taken for present. */
static void tell_roster(struct story *story, struct view *present, size_t count)
{
    static struct elect_asked asked;
    struct roster roster = roster_of(present, count);
    write_member(story, "own", -1);
    write_member(story, "near", -20000000);
    write_member(story, "far", -40000000);
    elect_checker_asks(&story->checker, &asked);
    elect_checker_told(&story->checker, &asked, 1, &roster);
}

static void who_was_heard_of_lately_is_present(void **state)
{
    struct story *story = *state;
    struct view present[] = { VIEW("own"), VIEW("near") };
    tell_roster(story, present, 2);
    assert_good(story);
}

static void who_was_silent_is_not(void **state)
{
    struct story *story = *state;
    struct view present[] = { VIEW("own"), VIEW("near"), VIEW("far") };
    tell_roster(story, present, 3);
    assert_bad(story, "takes far for present");
}

static void who_is_there_is_not_overlooked(void **state)
{
    struct story *story = *state;
    struct view present[] = { VIEW("own") };
    tell_roster(story, present, 1);
    assert_bad(story, "overlooks near");
}

/* ---- Turns ---------------------------------------------------------------------------- */

/* Two members, work that has been due for so long, and the one that comes second, which takes
 * itself for this rank. */
static void take_turn(struct story *story, size_t rank, struct span age, bool waits)
{
    struct view present[] = { VIEW("a"), VIEW("b") };
    struct work_writer writers[] = { { VIEW("node-1"), 1 }, { VIEW("node-2"), 0 } };
    struct work work = { .level = 1, .base = 2, .writers = writers, .writer_count = 2 };
    if (ladder_score(present[0], &work) > ladder_score(present[1], &work)) {
        present[0] = VIEW("b");
        present[1] = VIEW("a");
    }
    struct roster roster = roster_of(present, 2);
    struct elect_body *body = &story->checker.known;
    body->count = 1;
    body->events[0] = (struct elect_event){ ELECT_ADDED, 1, 1, 2 };
    body->due = (struct elect_due){ .set = true, .us = 1000, .true_us = -age.us };
    elect_checker_turn(&story->checker, &(struct elect_turn){ .node = 1,
                                                              .body = body,
                                                              .roster = &roster,
                                                              .rank = rank,
                                                              .earliest_us = 1000 + age.us,
                                                              .waits = waits });
}

static void who_waits_and_starts_in_turn_is_good(void **state)
{
    struct story *story = *state;
    take_turn(story, 1, SPAN_US(9999999), /* waits */ true);
    take_turn(story, 1, SPAN_S(10), /* waits */ false);
    assert_good(story);
}

static void who_starts_early_is_bad(void **state)
{
    struct story *story = *state;
    take_turn(story, 1, SPAN_S(9), /* waits */ false);
    assert_bad(story, "starts 9000 ms after the work became due, not 10000 ms");
}

static void who_waits_too_long_is_bad(void **state)
{
    struct story *story = *state;
    take_turn(story, 1, SPAN_S(10), /* waits */ true);
    assert_bad(story, "though by the document its turn has come");
}

static void who_takes_itself_for_another_is_bad(void **state)
{
    struct story *story = *state;
    take_turn(story, 0, SPAN_S(10), /* waits */ false);
    assert_bad(story, "takes itself for number 0 of 2, and is number 1");
}

#define STORY(sentence, function)                       \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY("what follows from the history is good", what_follows_from_the_history_is_good),
        STORY("a count that does not follow is bad", a_count_that_does_not_follow_is_bad),
        STORY("a moment that moves is bad", a_moment_that_moves_is_bad),
        STORY("due without a moment is bad", due_without_a_moment_is_bad),
        STORY("history that is lost is bad", history_that_is_lost_is_bad),
        STORY("what is no state is bad", what_is_no_state_is_bad),
        STORY("who was heard of lately is present", who_was_heard_of_lately_is_present),
        STORY("who was silent is not", who_was_silent_is_not),
        STORY("who is there is not overlooked", who_is_there_is_not_overlooked),
        STORY("who waits, and starts in turn, is good", who_waits_and_starts_in_turn_is_good),
        STORY("who starts early is bad", who_starts_early_is_bad),
        STORY("who waits too long is bad", who_waits_too_long_is_bad),
        STORY("who takes itself for another is bad", who_takes_itself_for_another_is_bad),
    };
    return cmocka_run_group_tests_name("the checker of elections", tests, NULL, NULL);
}
