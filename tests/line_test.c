/* SPDX-License-Identifier: Apache-2.0 */
/* line_test.c: when a waiter reads the table. The functions are pure, so the test passes all
 * times. */
#include "lock/line.h"
#include "test.h"

static const struct span poll = { 500000 };

static struct mono_time at_ms(int64_t ms)
{
    return (struct mono_time){ 1000000000 + ms * 1000 };
}

static void note(struct queue_line *line, uint64_t number, size_t ahead, int64_t ms)
{
    line_note(line, number, poll, ahead, /* turn */ false, at_ms(ms));
}

/* From `ms` until the next read; -1: the line gives no reason. */
static int64_t read_in_ms(struct queue_line *line, int64_t ms)
{
    struct mono_time at = line_read_at(line, at_ms(ms));
    return at.us == MOMENT_FAR ? -1 : mono_since(at, at_ms(ms)).us / 1000;
}

/* Until the next poll, which would be due after one interval. */
static int64_t poll_in_ms(const struct queue_line *line, int64_t ms)
{
    struct mono_time due = mono_add(at_ms(ms), poll);
    return mono_since(line_poll_at(line, due, at_ms(ms)), at_ms(ms)).us / 1000;
}

/* A line of which one waiter takes 40 ms, and in which waiter 2 has so many before it. */
static struct queue_line line_of(size_t ahead)
{
    struct queue_line line = { .number = 0 };
    note(&line, 1, 10, 0);
    note(&line, 1, 0, 400);
    note(&line, 2, ahead, 400);
    return line;
}

static void the_first_reads_often(void **state)
{
    struct queue_line line = { .number = 0 };
    (void)state;
    note(&line, 1, 0, 0);
    assert_int_equal(read_in_ms(&line, 0), 20);
    assert_int_equal(read_in_ms(&line, 100), 20);
    line = line_of(0);
    assert_int_equal(read_in_ms(&line, 400), 20); /* twice in the time of one waiter */
}

static void others_poll_until_the_pace_is_known(void **state)
{
    struct queue_line line = { .number = 0 };
    (void)state;
    note(&line, 1, 3, 0);
    assert_int_equal(read_in_ms(&line, 0), -1);
    assert_int_equal(poll_in_ms(&line, 0), 500);
    note(&line, 1, 2, 100);
    assert_int_equal(line.pace.us, 100000);
    assert_int_equal(read_in_ms(&line, 100), 150);
}

static void others_sleep_until_they_are_likely_to_be_next(void **state)
{
    struct queue_line line = line_of(15);
    (void)state;
    assert_int_equal(read_in_ms(&line, 400), 550); /* 13.75 places */
    assert_int_equal(poll_in_ms(&line, 400), 550);
    assert_int_equal(read_in_ms(&line, 500), 450);
    line = line_of(2);
    assert_int_equal(read_in_ms(&line, 400), 60); /* 1.5 places */
    assert_int_equal(poll_in_ms(&line, 400), 500);
    line = line_of(1);
    assert_int_equal(read_in_ms(&line, 400), 20);
}

/* Waiter `number` sleeps with 15 before it, and wakes up with this many before it. */
static void sleep_until(struct queue_line *line, uint64_t number, size_t ahead, bool turn)
{
    int64_t start = (int64_t)number * 10000;
    note(line, number, 15, start);
    int64_t slept = read_in_ms(line, start);
    line->pace = SPAN_MS(40);
    line_note(line, number, poll, ahead, turn, at_ms(start + slept));
    line->pace = SPAN_MS(40);
}

static void a_waiter_that_oversleeps_wakes_up_earlier(void **state)
{
    struct queue_line line = line_of(15);
    (void)state;
    sleep_until(&line, 3, 0, /* turn */ true);
    note(&line, 4, 15, 50000);
    assert_int_equal(read_in_ms(&line, 50000), 540); /* 13.5 places */
    sleep_until(&line, 5, 3, /* turn */ false);
    note(&line, 6, 15, 70000);
    assert_int_equal(read_in_ms(&line, 70000), 545);
    sleep_until(&line, 7, 1, /* turn */ false); /* as it should be */
    note(&line, 8, 15, 90000);
    assert_int_equal(read_in_ms(&line, 90000), 545);
    for (uint64_t number = 10; number < 100; number++)
        sleep_until(&line, number, 0, /* turn */ true);
    note(&line, 100, 15, 1000000);
    assert_in_range(read_in_ms(&line, 1000000), 390, 400); /* 10 places: not earlier */
    for (uint64_t number = 101; number < 200; number++)
        sleep_until(&line, number, 3, /* turn */ false);
    note(&line, 200, 15, 2000000);
    assert_int_equal(read_in_ms(&line, 2000000), 580); /* 14.5 places */
}

static void nobody_sleeps_for_more_than_two_polls(void **state)
{
    struct queue_line line = line_of(60);
    (void)state;
    assert_int_equal(poll_in_ms(&line, 400), 1000);
    assert_int_equal(poll_in_ms(&line, 2000), 750);
}

static void a_line_that_does_not_move_is_read_less(void **state)
{
    struct queue_line line = line_of(0);
    (void)state;
    assert_int_equal(read_in_ms(&line, 1200), 100);
    assert_int_equal(read_in_ms(&line, 8400), 1000);
    line = line_of(15);
    assert_int_equal(read_in_ms(&line, 2000), 200);
    assert_int_equal(poll_in_ms(&line, 2000), 500);
}

static void the_pace_follows_the_line(void **state)
{
    struct queue_line line = line_of(20);
    (void)state;
    note(&line, 2, 4, 400 + 16 * 140); /* now 140 ms each: 10 moves of 40 ms weigh as many */
    assert_in_range(line.pace.us, 95000, 105000);
    note(&line, 3, 16, 10000);
    note(&line, 3, 0, 10000 + 16 * 140);
    assert_in_range(line.pace.us, 115000, 125000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the first in line reads often", the_first_reads_often),
        IT("others poll at their interval until they know the pace",
           others_poll_until_the_pace_is_known),
        IT("others sleep until they are likely to be the next",
           others_sleep_until_they_are_likely_to_be_next),
        IT("a waiter that oversleeps wakes up earlier from then on",
           a_waiter_that_oversleeps_wakes_up_earlier),
        IT("nobody sleeps for more than two polls", nobody_sleeps_for_more_than_two_polls),
        IT("a line that does not move is read less and less",
           a_line_that_does_not_move_is_read_less),
        IT("the pace follows the line", the_pace_follows_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
