/* SPDX-License-Identifier: Apache-2.0 */
/* crowd_test.c: what a client learns from conflicts. The functions are pure, so the test passes all
 * times. */
#include "doc/crowd.h"
#include "test.h"

static const struct span trip = { 2000 };
static const struct span no_time = { 0 };
static const struct span now_written = { 100 };
static const struct span old = { 10000000 };

static struct mono_time at_s(int64_t seconds)
{
    return (struct mono_time){ seconds * 1000000 };
}

static void conflict(struct crowd *crowd, struct span age)
{
    crowd_note_conflict(crowd, age, /* again */ false, trip, at_s(1));
}

static void conflict_again(struct crowd *crowd)
{
    crowd_note_conflict(crowd, now_written, /* again */ true, trip, at_s(1));
}

static int64_t pause_us(struct crowd *crowd, struct span waited)
{
    return crowd_pause(crowd, /* again */ true, waited, trip, at_s(1)).us;
}

/* ---- Cached bodies ------------------------------------------------------------------- */

static bool doubts(const struct crowd *crowd, struct span age, int64_t seconds)
{
    return crowd_doubts(crowd, age, trip, at_s(seconds));
}

static void alone_nothing_is_doubted(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    assert_false(doubts(&crowd, old, 20));
    crowd_note_read(&crowd, old, /* changed */ false, at_s(20));
    crowd_note_written(&crowd, old, at_s(30));
    assert_false(doubts(&crowd, old, 40));
}

/* A worker that polls need not put in vain before it knows the others. */
static void a_change_that_was_read_counts(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    crowd_note_read(&crowd, SPAN_S(2), /* changed */ false, at_s(20));
    crowd_note_read(&crowd, SPAN_S(2), /* changed */ true, at_s(22));
    assert_true(doubts(&crowd, SPAN_MS(251), 22));
    assert_false(doubts(&crowd, SPAN_MS(250), 22));
}

static void an_old_body_that_conflicted_is_read(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    crowd_note_conflict(&crowd, old, /* again */ false, trip, at_s(20));
    assert_int_equal(pause_us(&crowd, no_time), 0);
    assert_true(doubts(&crowd, old, 20));
    assert_true(doubts(&crowd, SPAN_US(old.us / 16 + 1), 20));
    assert_false(doubts(&crowd, SPAN_US(old.us / 16), 20));
    assert_false(doubts(&crowd, now_written, 20));
}

/* Others write every 4 s, and every second read finds that they have not. */
static void reads_in_between_show_nothing(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    crowd_note_conflict(&crowd, SPAN_S(4), /* again */ false, trip, at_s(20));
    for (int64_t now = 22; now < 100; now += 2) {
        assert_true(doubts(&crowd, SPAN_MS(251), now));
        crowd_note_read(&crowd, SPAN_S(2), /* changed */ now % 4 == 0, at_s(now));
    }
    assert_false(doubts(&crowd, SPAN_MS(250), 100));
}

static void a_quiet_document_is_trusted_again(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    crowd_note_conflict(&crowd, SPAN_S(4), /* again */ false, trip, at_s(20));
    crowd_note_read(&crowd, old, /* changed */ false, at_s(100));
    assert_true(doubts(&crowd, old, 179));
    assert_false(doubts(&crowd, old, 180)); /* for 16 times as long, nobody has written */
    crowd_note_written(&crowd, old, at_s(180));
    assert_false(doubts(&crowd, SPAN_S(20), 340));
}

/* After a day on which nobody else wrote, others write every second. */
static void a_crowd_after_a_quiet_day_is_learned_soon(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    int64_t now = 86400;
    int conflicts = 0;
    (void)state;
    crowd_note_written(&crowd, old, at_s(1));
    for (; conflicts < 100 && !doubts(&crowd, SPAN_S(1), now); now++, conflicts++)
        crowd_note_conflict(&crowd, SPAN_S(1), /* again */ false, trip, at_s(now));
    assert_in_range(conflicts, 2, 8);
}

/* A read would not make it newer than it is. */
static void a_body_as_old_as_a_reply_is_not_doubted(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    crowd_note_conflict(&crowd, SPAN_US(3 * trip.us), /* again */ false, trip, at_s(1));
    assert_true(doubts(&crowd, SPAN_US(3 * trip.us), 1));
    assert_false(doubts(&crowd, SPAN_US(2 * trip.us), 1));
}

/* ---- Pauses -------------------------------------------------------------------------- */

static void a_single_conflict_pauses_briefly(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    for (int i = 0; i < 100; i++) {
        conflict(&crowd, now_written);
        assert_int_equal(pause_us(&crowd, no_time), 4 * trip.us);
    }
}

static void the_limit_grows_up_to_a_bound(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    conflict(&crowd, now_written);
    for (int64_t limit = 32 * trip.us; limit < 8000000; limit *= 8) {
        conflict_again(&crowd);
        assert_int_equal(pause_us(&crowd, no_time), limit);
    }
    for (int i = 0; i < 100; i++)
        conflict_again(&crowd);
    assert_int_equal(pause_us(&crowd, no_time), 8000000);
}

static void it_is_remembered_and_shrinks(void **state)
{
    struct crowd crowd = { .pause = SPAN_MS(64) };
    (void)state;
    crowd_note_success(&crowd, /* again */ false);
    assert_int_equal(crowd.pause.us, 64000);
    crowd_note_success(&crowd, /* again */ true);
    assert_int_equal(crowd.pause.us, 16000);
}

static void a_crowd_is_forgotten(void **state)
{
    struct crowd crowd = { .pause = SPAN_S(1), .conflicted = { 1000000 } };
    (void)state;
    crowd_note_conflict(&crowd, now_written, /* again */ true, trip, at_s(12));
    assert_int_equal(pause_us(&crowd, no_time), 4 * trip.us);
}

static void a_change_that_has_waited_pauses_less(void **state)
{
    struct crowd crowd = { .pause = SPAN_MS(60) };
    (void)state;
    assert_int_equal(pause_us(&crowd, no_time), 60000);
    assert_int_equal(pause_us(&crowd, SPAN_MS(2000)), 30000);
    assert_int_equal(pause_us(&crowd, SPAN_MS(4000)), 60000 / 9);
    assert_int_equal(pause_us(&crowd, SPAN_S(1000000)), 0);
}

static void on_a_slow_store_it_loses_patience_earlier(void **state)
{
    struct crowd crowd = { .pause = SPAN_MS(60) };
    (void)state;
    int64_t fast = crowd_pause(&crowd, true, SPAN_MS(1000), SPAN_MS(10), at_s(1)).us;
    int64_t slow = crowd_pause(&crowd, true, SPAN_MS(1000), SPAN_MS(20), at_s(1)).us;
    int64_t slower = crowd_pause(&crowd, true, SPAN_MS(1000), SPAN_MS(500), at_s(1)).us;
    assert_int_equal(fast, 60000 * 8 / 9);
    assert_int_equal(slow, 30000);
    assert_int_equal(slower, 30000);
}

static int64_t pause_after_series(struct crowd *crowd, unsigned changes, int64_t seconds)
{
    for (unsigned i = 0; i < changes; i++) {
        crowd_note_written(crowd, now_written, at_s(seconds));
        crowd_note_success(crowd, /* again */ false);
    }
    return crowd_pause(crowd, /* again */ false, no_time, trip, at_s(seconds)).us;
}

static void a_series_gives_way_to_others(void **state)
{
    struct crowd crowd = { .in_row = 0 };
    (void)state;
    assert_int_equal(pause_after_series(&crowd, 100, 1), 0); /* nobody else is there */
    conflict(&crowd, now_written);
    assert_int_equal(pause_after_series(&crowd, 31, 1), 0);
    assert_int_equal(pause_after_series(&crowd, 1, 1), 16 * trip.us);
    assert_int_equal(pause_after_series(&crowd, 1, 1), 0);   /* only once */
    assert_int_equal(pause_after_series(&crowd, 100, 3), 0); /* they have left */
}

/* Others act on the same event, so how often they write says nothing. */
static void what_is_read_first_is_always_doubted(void **state)
{
    struct crowd crowd = { .reads_first = true };
    (void)state;
    assert_false(doubts(&crowd, old, 1)); /* nobody else is there */
    crowd_note_read(&crowd, old, /* changed */ true, at_s(1));
    assert_true(doubts(&crowd, SPAN_US(trip.us + 1), 1));
    assert_false(doubts(&crowd, trip, 1));
    crowd_note_read(&crowd, old, /* changed */ false, at_s(1000));
    assert_true(doubts(&crowd, SPAN_US(trip.us + 1), 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a client that has seen no change of others reads nothing first",
           alone_nothing_is_doubted),
        IT("a change that a read has found is as good a lesson as a conflict",
           a_change_that_was_read_counts),
        IT("after a conflict of an old body, old bodies are read before they are put",
           an_old_body_that_conflicted_is_read),
        IT("a read that finds no change does not show that others have stopped",
           reads_in_between_show_nothing),
        IT("a body is trusted again when others have not written for long",
           a_quiet_document_is_trusted_again),
        IT("a crowd that comes after a quiet day is learned within a few conflicts",
           a_crowd_after_a_quiet_day_is_learned_soon),
        IT("a body as old as a reply is put at once", a_body_as_old_as_a_reply_is_not_doubted),
        IT("a document that is read first is put at once only within a round trip",
           what_is_read_first_is_always_doubted),
        IT("single conflicts are followed by brief pauses", a_single_conflict_pauses_briefly),
        IT("the limit grows while pauses are too short, up to 8 s",
           the_limit_grows_up_to_a_bound),
        IT("on a slow store a change that has waited loses patience earlier",
           on_a_slow_store_it_loses_patience_earlier),
        IT("the limit is remembered, and shrinks when a pause was long enough",
           it_is_remembered_and_shrinks),
        IT("a crowd that was met long ago is forgotten", a_crowd_is_forgotten),
        IT("a change that has waited pauses less", a_change_that_has_waited_pauses_less),
        IT("a series of changes gives way to others, if there are others",
           a_series_gives_way_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
