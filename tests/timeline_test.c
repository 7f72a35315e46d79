/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_test.c: who held a lock when (src/base/timeline), as a pure structure. */
#include "alloc.h"
#include "base/buffer.h"
#include "base/prng.h"
#include "base/timeline.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

#define START 1000000 /* the first millisecond of these tests */

static struct timeline_hold grant(uint64_t token, int64_t at_ms, int64_t ttl_ms)
{
    return (struct timeline_hold){ .token = token,
                                   .began = { START + at_ms, TIMELINE_EXACT },
                                   .expires_ms = START + at_ms + ttl_ms,
                                   .exclusive = true,
                                   .mode = "exclusive",
                                   .owner = "ada" };
}

static struct timeline_hold end_of(uint64_t token, enum timeline_end end, int64_t at_ms)
{
    return (struct timeline_hold){ .token = token,
                                   .end = end,
                                   .ended = { START + at_ms, TIMELINE_EXACT } };
}

/* What a table says of a lease: all of it, by the clock of its holder. */
static struct timeline_hold in_table(uint64_t token, int64_t began_ms, enum timeline_end end,
                                     int64_t ended_ms)
{
    struct timeline_hold hold = grant(token, began_ms, 1000);
    hold.began.slack_ms = TIMELINE_OTHERS_CLOCK;
    hold.end = end;
    if (end != TIMELINE_HELD)
        hold.ended = (struct timeline_time){ START + ended_ms, TIMELINE_OTHERS_CLOCK };
    return hold;
}

static void note(struct timeline *timeline, struct timeline_hold hold)
{
    assert_true(timeline_note(timeline, &hold));
}

static void look(struct timeline *timeline, const struct timeline_hold *holds, size_t count,
                 uint64_t next_token, int64_t at_ms)
{
    timeline_begin_look(timeline);
    for (size_t i = 0; i < count; i++)
        assert_true(timeline_see(timeline, &holds[i]));
    timeline_end_look(timeline, next_token, START + at_ms);
}

/* "1 grant 0-10 release; 2 takeover 20-" */
static void assert_holds(const struct timeline *timeline, const char *expected)
{
    struct buffer text = BUFFER_INIT(64 * 1024);
    for (size_t i = 0; i < timeline_count(timeline); i++) {
        const struct timeline_hold *hold = timeline_at(timeline, i);
        buffer_print(&text, "%s%" PRIu64 " %s %" PRId64 "-", i > 0 ? "; " : "", hold->token,
                     timeline_began_name(timeline, i), hold->began.at_ms - START);
        if (hold->end == TIMELINE_HELD)
            continue;
        buffer_print(&text, "%" PRId64 " %s", hold->ended.at_ms - START,
                     timeline_end_name(hold->end));
        if (hold->ended.slack_ms > 0)
            buffer_print(&text, " within %" PRId64, hold->ended.slack_ms);
    }
    assert_string_equal(buffer_text(&text), expected);
    buffer_release(&text);
}

/* "10-20 certain; 30-" */
static void assert_gaps(const struct timeline *timeline, const char *expected)
{
    struct buffer text = BUFFER_INIT(64 * 1024);
    struct timeline_gap gap;
    for (size_t at = 0; timeline_next_gap(timeline, &at, &gap);) {
        buffer_print(&text, "%s%" PRId64 "-", text.size > 0 ? "; " : "", gap.from_ms - START);
        if (gap.to_ms > 0)
            buffer_print(&text, "%" PRId64, gap.to_ms - START);
        if (gap.certain)
            buffer_append(&text, VIEW(" certain"));
    }
    assert_string_equal(buffer_text(&text), expected);
    buffer_release(&text);
}

/* ---- Own calls ----------------------------------------------------------------------- */

static void calls_of_ours_are_exact(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 100));
    note(timeline, end_of(1, TIMELINE_RELEASE, 10));
    note(timeline, grant(2, 20, 100));
    assert_holds(timeline, "1 grant 0-10 release; 2 grant 20-");
    assert_gaps(timeline, "10-20 certain");
    assert_string_equal(timeline_at(timeline, 0)->owner, "ada");
    struct timeline_hold broken = end_of(2, TIMELINE_BREAK, 30);
    broken.by = "bob", broken.reason = "stuck";
    note(timeline, broken);
    note(timeline, end_of(2, TIMELINE_RELEASE, 40)); /* too late to matter */
    assert_holds(timeline, "1 grant 0-10 release; 2 grant 20-30 break");
    assert_string_equal(timeline_at(timeline, 1)->reason, "stuck");
    assert_gaps(timeline, "10-20 certain; 30-");
    timeline_free(timeline);
}

static void a_grant_after_an_expiry_is_a_takeover(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 100));
    note(timeline,
         (struct timeline_hold){ .token = 1, .expires_ms = START + 150 }); /* renewed */
    note(timeline, grant(2, 200, 100));
    assert_holds(timeline, "1 grant 0-150 expiry; 2 takeover 200-");
    assert_gaps(timeline, "150-200 certain");
    timeline_free(timeline);
}

static void a_hold_that_another_server_ended_has_ended_somehow(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 1000));
    note(timeline, grant(4, 300, 1000));
    assert_holds(timeline, "1 grant 0-300 unknown within 300; 4 grant 300-");
    struct timeline_hold table[] = { in_table(1, 1, TIMELINE_RELEASE, 40),
                                     in_table(3, 100, TIMELINE_BREAK, 120),
                                     in_table(4, 301, TIMELINE_HELD, 0) };
    look(timeline, table, 3, 5, 400);
    assert_holds(timeline, "1 grant 0-40 release; 3 seen 100-120 break; 4 grant 300-");
    assert_gaps(timeline, "40-100; 120-300 certain");
    timeline_free(timeline);
}

/* A waiter may be told of its grant before the release that made room for it is answered. */
static void an_answer_that_comes_late_makes_no_overlap(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 1000));
    note(timeline, grant(2, 100, 1000));
    note(timeline, end_of(1, TIMELINE_RELEASE, 130));
    assert_holds(timeline, "1 grant 0-100 release; 2 grant 100-");
    assert_gaps(timeline, "");
    struct timeline_hold readers[2] = { grant(3, 200, 1000), grant(4, 205, 1000) };
    for (int i = 0; i < 2; i++) {
        readers[i].exclusive = false;
        readers[i].mode = "shared";
        note(timeline, readers[i]);
    }
    note(timeline, end_of(2, TIMELINE_BREAK, 210));
    note(timeline, end_of(3, TIMELINE_RELEASE, 230)); /* the readers may overlap */
    assert_holds(timeline, "1 grant 0-100 release; 2 grant 100-200 break; "
                           "3 grant 200-230 release; 4 grant 205-");
    note(timeline, grant(5, 220, 1000)); /* the grants are answered in any order */
    note(timeline, end_of(4, TIMELINE_RELEASE, 260));
    note(timeline, grant(6, 215, 1000));
    assert_holds(timeline,
                 "1 grant 0-100 release; 2 grant 100-200 break; 3 grant 200-215 release; "
                 "4 grant 205-215 release; 5 grant 215-215 unknown; 6 grant 215-");
    timeline_free(timeline);
}

/* A hold of another server, between two of ours, has no exact time that could bound the first. */
static void a_hold_of_others_hides_no_overlap(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    struct timeline_hold other = in_table(2, 50, TIMELINE_HELD, 0);
    note(timeline, grant(1, 0, 1000));
    look(timeline, &other, 1, 3, 60);
    note(timeline, grant(3, 110, 1000));
    note(timeline, end_of(1, TIMELINE_RELEASE, 130)); /* its reply was lost a while */
    assert_holds(timeline,
                 "1 grant 0-110 release; 2 seen 50-110 unknown within 50; 3 grant 110-");
    timeline_free(timeline);
}

static void an_inferred_end_is_not_after_the_next_grant(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    struct timeline_hold other = in_table(2, 300, TIMELINE_HELD, 0), reader;
    note(timeline, grant(1, 0, 1000));
    look(timeline, &other, 1, 3, 60); /* granted by a clock that is ahead */
    assert_holds(timeline, "1 grant 0-300 unknown within 300; 2 seen 300-");
    note(timeline, grant(3, 110, 1000));
    assert_holds(timeline,
                 "1 grant 0-110 unknown within 110; 2 seen 300-110 unknown; 3 grant 110-");
    reader = grant(4, 200, 1000);
    reader.exclusive = false;
    note(timeline, reader);
    look(timeline, &reader, 1, 5, 250); /* 3 is no longer in the table */
    assert_holds(timeline, "1 grant 0-110 unknown within 110; 2 seen 300-110 unknown; "
                           "3 grant 110-200 unknown within 90; 4 grant 200-");
    timeline_free(timeline);
}

/* A sight of what another server granted is by another clock, so it moves nothing. */
static void another_clock_does_not_move_an_exact_time(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 1000));
    note(timeline, end_of(1, TIMELINE_RELEASE, 130));
    struct timeline_hold other = in_table(2, 100, TIMELINE_HELD, 0);
    look(timeline, &other, 1, 3, 200);
    assert_holds(timeline, "1 grant 0-130 release; 2 seen 100-");
    note(timeline, grant(2, 120, 1000)); /* it was ours, after all */
    assert_holds(timeline, "1 grant 0-120 release; 2 grant 120-");
    timeline_free(timeline);
}

static void what_is_not_known_to_have_begun_is_not_kept(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, end_of(7, TIMELINE_RELEASE, 10));
    note(timeline, (struct timeline_hold){ .token = 7, .expires_ms = START + 50 });
    assert_holds(timeline, "");
    assert_gaps(timeline, "");
    timeline_free(timeline);
}

/* ---- Looks --------------------------------------------------------------------------- */

static void a_look_finds_what_others_hold_and_that_they_are_gone(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    struct timeline_hold held = in_table(5, 10, TIMELINE_HELD, 0);
    look(timeline, &held, 1, 6, 100);
    assert_holds(timeline, "5 seen 10-");
    look(timeline, &held, 1, 6, 200);
    look(timeline, NULL, 0, 9, 250); /* the table has forgotten it, and others */
    assert_holds(timeline, "5 seen 10-250 unknown within 50");
    assert_gaps(timeline, "250-");
    assert_int_equal(timeline_looked_at(timeline), START + 250);
    timeline_free(timeline);
}

static void an_old_read_changes_nothing(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    note(timeline, grant(1, 0, 100));
    note(timeline, end_of(1, TIMELINE_RELEASE, 10));
    note(timeline, grant(2, 20, 100));
    struct timeline_hold held = in_table(1, 0, TIMELINE_HELD, 0);
    look(timeline, &held, 1, 2, 30); /* it was read at 5 */
    assert_holds(timeline, "1 grant 0-10 release; 2 grant 20-");
    timeline_free(timeline);
}

static void a_late_renewal_is_no_end(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    struct timeline_hold held = in_table(1, 0, TIMELINE_HELD, 0);
    look(timeline, &held, 1, 2, 5000); /* overdue for long */
    held.expires_ms = START + 6000;
    look(timeline, &held, 1, 2, 5500);
    assert_holds(timeline, "1 seen 0-");
    assert_int_equal(timeline_at(timeline, 0)->expires_ms, START + 6000);
    timeline_free(timeline);
}

static void shared_holds_overlap(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(10, START);
    struct timeline_hold readers[3];
    for (int i = 0; i < 3; i++) {
        readers[i] = grant((uint64_t)i + 1, 10 * i, 1000);
        readers[i].exclusive = false;
        readers[i].mode = "shared";
        note(timeline, readers[i]);
    }
    note(timeline, end_of(2, TIMELINE_RELEASE, 30));
    note(timeline, end_of(1, TIMELINE_RELEASE, 40));
    assert_holds(timeline, "1 grant 0-40 release; 2 grant 10-30 release; 3 grant 20-");
    assert_gaps(timeline, "");
    note(timeline, grant(4, 100, 1000));
    assert_holds(timeline, "1 grant 0-40 release; 2 grant 10-30 release; "
                           "3 grant 20-100 unknown within 80; 4 grant 100-");
    timeline_free(timeline);
}

/* ---- Bounds -------------------------------------------------------------------------- */

static void the_oldest_is_dropped_and_that_is_said(void **state)
{
    (void)state;
    struct timeline *timeline = timeline_new(3, START);
    size_t bytes = 0;
    for (int i = 0; i < 1000; i++) {
        note(timeline, grant((uint64_t)i + 1, 10 * i, 5));
        note(timeline, end_of((uint64_t)i + 1, TIMELINE_RELEASE, 10 * i + 1));
        if (i == 10)
            bytes = timeline_bytes(timeline);
    }
    assert_int_equal(timeline_count(timeline), 3);
    assert_int_equal(timeline_dropped(timeline), 997);
    assert_int_equal(timeline_complete_since(timeline), START + 9961);
    assert_int_equal(timeline_bytes(timeline), bytes);
    struct timeline_hold old = in_table(7, 60, TIMELINE_RELEASE, 61);
    look(timeline, &old, 1, 1001, 10000); /* does not come back */
    assert_int_equal(timeline_at(timeline, 0)->token, 998);
    assert_gaps(timeline, "9971-9980 certain; 9981-9990 certain; 9991- certain");
    timeline_free(timeline);
}

static void without_memory_the_rest_is_whole(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        struct timeline *timeline = timeline_new(10, START);
        struct timeline_hold one = grant(1, 0, 100), other = grant(2, 200, 100);
        one.holder = "host";
        bool done =
            timeline && timeline_note(timeline, &one) && timeline_note(timeline, &other);
        bool failed = alloc_stop();
        assert_true(done == !failed);
        if (done)
            assert_holds(timeline, "1 grant 0-100 expiry; 2 takeover 200-");
        timeline_free(timeline);
        if (!failed)
            break;
    }
}

/* ---- Any order ----------------------------------------------------------------------- */

#define TRUTHS 12

/* Exclusive holds, one after another. A release may be answered after the next grant. */
static void make_truth(struct prng *prng, struct timeline_hold truth[TRUTHS])
{
    int64_t at = 0;
    for (size_t i = 0; i < TRUTHS; i++) {
        at += 1 + (int64_t)(prng_below(prng, 50));
        truth[i] = grant(i + 1, at, 1000000);
        at += 1 + (int64_t)(prng_below(prng, 50));
        truth[i].end = TIMELINE_RELEASE;
        truth[i].ended = (struct timeline_time){ START + at + (int64_t)prng_below(prng, 100),
                                                 TIMELINE_EXACT };
    }
}

/* When a hold is known to have ended: its release may be answered after the next grant. */
static int64_t known_end_ms(const struct timeline_hold truth[TRUTHS], size_t index)
{
    int64_t answered_ms = truth[index].ended.at_ms;
    bool is_last = index + 1 == TRUTHS;
    return is_last || answered_ms < truth[index + 1].began.at_ms ? answered_ms
                                                                 : truth[index + 1].began.at_ms;
}

/* Grants before their ends, as calls of one process see them, but otherwise in any order, twice,
 * and between reads of tables of any age. */
static void any_order_gives_the_same_timeline(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct prng prng = { seed };
        struct timeline_hold truth[TRUTHS];
        struct timeline *timeline = timeline_new(100, START);
        make_truth(&prng, truth);
        bool granted[TRUTHS] = { false };
        size_t left = TRUTHS;
        unsigned ended = 0;
        for (int step = 0; step < 400 || left > 0 || ended != (1U << TRUTHS) - 1; step++) {
            size_t i = prng_below(&prng, TRUTHS);
            struct timeline_hold part = truth[i];
            switch (prng_below(&prng, 3)) {
            case 0:
                part.end = TIMELINE_HELD;
                note(timeline, part);
                left -= !granted[i];
                granted[i] = true;
                break;
            case 1:
                note(timeline, end_of(i + 1, part.end, part.ended.at_ms - START));
                ended |= granted[i] ? 1U << i : 0;
                break;
            default: /* the table just after this grant, with the two before it */
                part.end = TIMELINE_HELD;
                struct timeline_hold table[3] = { part, truth[i > 0 ? i - 1 : 0],
                                                  truth[i > 1 ? i - 2 : 0] };
                look(timeline, table, i < 2 ? i + 1 : 3, i + 2, step);
            }
        }
        assert_int_equal(timeline_count(timeline), TRUTHS);
        for (size_t i = 0; i < TRUTHS; i++) {
            const struct timeline_hold *hold = timeline_at(timeline, i);
            assert_int_equal(hold->token, truth[i].token);
            assert_int_equal(hold->began.at_ms, truth[i].began.at_ms);
            assert_int_equal(hold->began.slack_ms, TIMELINE_EXACT);
            assert_int_equal(hold->end, TIMELINE_RELEASE);
            assert_int_equal(hold->ended.at_ms, known_end_ms(truth, i));
        }
        timeline_free(timeline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_ours_are_exact),
        cmocka_unit_test(a_grant_after_an_expiry_is_a_takeover),
        cmocka_unit_test(a_hold_that_another_server_ended_has_ended_somehow),
        cmocka_unit_test(an_answer_that_comes_late_makes_no_overlap),
        cmocka_unit_test(a_hold_of_others_hides_no_overlap),
        cmocka_unit_test(an_inferred_end_is_not_after_the_next_grant),
        cmocka_unit_test(another_clock_does_not_move_an_exact_time),
        cmocka_unit_test(what_is_not_known_to_have_begun_is_not_kept),
        cmocka_unit_test(a_look_finds_what_others_hold_and_that_they_are_gone),
        cmocka_unit_test(an_old_read_changes_nothing),
        cmocka_unit_test(a_late_renewal_is_no_end),
        cmocka_unit_test(shared_holds_overlap),
        cmocka_unit_test(the_oldest_is_dropped_and_that_is_said),
        cmocka_unit_test(without_memory_the_rest_is_whole),
        cmocka_unit_test(any_order_gives_the_same_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
