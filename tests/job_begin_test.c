/* SPDX-License-Identifier: Apache-2.0 */
/* job_begin_test.c: a try counts only against a lease whose merge began. */
#include "compact/work/job_note.h"
#include "job_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a document of the partition contains this text. */
static bool document_says(struct bench *bench, const char *name, const char *text)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer body = BUFFER_INIT(MIB);
    assert_true(layout_partition_key(VIEW("default"), name, key));
    struct get_call get = { .key = view_of(key), .body = &body };
    assert_int_equal(store_get(bench->world.truth, &get), HF_OK);
    assert_true(buffer_append_byte(&body, '\0'));
    bool says = strstr(body.data, text) != NULL;
    buffer_release(&body);
    return says;
}

static bool is_marked(struct bench *bench)
{
    return document_says(bench, LAYOUT_CATALOG, "\"mark_begin\":true");
}

/* ---- Dead workers -------------------------------------------------------------------- */

struct death {
    const char *note;
    unsigned tries; /* of all three chunks */
    bool marked;
};

/* A worker dies with this note in its lease, and its lease is settled. */
static void settle_death(struct bench *bench, const struct death *death)
{
    struct compact_settings settings = bench_settings();
    char output[KEY_BYTES_MAX + 1];
    bench_open(bench, 2, &settings);
    bench_add(bench, 3);
    struct order *order = bench_order(&bench->hands[0]);
    hand_dies_saying(&bench->hands[1], order, 100, death->note, output);
    for (int i = 0; i < 100 && bench_audit(bench).open_leases > 0; i++) {
        pass_ms(20);
        bench_settle_down(bench);
    }
    struct audit audit = bench_audit(bench);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.tries, death->tries);
    assert_int_equal(is_marked(bench), death->marked);
    SOUND(bench);
    order_free(order);
}

static void test_deaths(void **state)
{
    static const struct death deaths[] = {
        { JOB_NOTE_CLAIMED, 0, true },
        { JOB_NOTE_BEGUN, 3, false },
        { "{\"begun\":true,\"done_percent\":40}", 3, false },
        { NULL, 3, false }, /* an earlier version */
        { "{\"begun\":\"no\"}", 3, false },
        { "{\"why\":\"other\"}", 3, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        struct bench bench;
        settle_death(&bench, &deaths[i]);
        bench_close(&bench);
    }
}

static void test_progress(void **state)
{
    static const struct {
        uint64_t done, total;
        unsigned percent;
    } steps[] = {
        { 0, 0, 0 },     { 5, 0, 0 },
        { 1, 3, 30 },    { 4, 100, 0 },
        { 99, 100, 95 }, { 100, 100, 95 },
        { 7, 5, 95 },    { UINT64_MAX / 2, UINT64_MAX, 50 },
        { 50, 1000, 5 }, { UINT64_MAX, UINT64_MAX, 95 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct view note = job_note_of_progress(steps[i].done, steps[i].total);
        assert_int_equal(job_note_percent(note), steps[i].percent);
        assert_false(job_note_says_claimed(note));
    }
    assert_int_equal(job_note_percent(VIEW("{\"done_percent\":100}")), 0);
    assert_int_equal(job_note_percent(VIEW("{\"done_percent\":-1}")), 0);
    assert_int_equal(job_note_percent(VIEW("{\"done_percent\":\"40\"}")), 0);
    assert_int_equal(job_note_percent(VIEW("{\"done_percent\":40")), 0);
    assert_int_equal(job_note_percent(VIEW("")), 0);
}

/* ---- Living workers ------------------------------------------------------------------ */

struct beginning {
    struct bench *bench;
    bool begun, claimed; /* what the lease said when the merge began */
};

static void look_at_lease(void *argument)
{
    struct beginning *beginning = argument;
    beginning->begun = document_says(beginning->bench, LAYOUT_LEASES, "\"begun\":true");
    beginning->claimed = document_says(beginning->bench, LAYOUT_LEASES, "\"begun\":false");
}

static struct job_report run_watched(struct bench *bench, struct beginning *beginning)
{
    struct hand *hand = &bench->hands[0];
    *beginning = (struct beginning){ .bench = bench };
    hand->merger.begins = look_at_lease;
    hand->merger.argument = beginning;
    struct order *order = bench_order(hand);
    struct job_report report = run_job(hand, order);
    order_free(order);
    return report;
}

static void test_usual_begin_is_free(void **state)
{
    struct compact_settings settings = bench_settings();
    struct beginning beginning;
    struct bench bench;
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 3);
    script_rule(&bench.hands[0].peer.way, .name = "leases", .on = ON_PUT | ON_CHANGE,
                .part = LAYOUT_LEASES);
    assert_int_equal(run_watched(&bench, &beginning).end, HF_COMPACT_END_COMMITTED);
    assert_true(beginning.claimed && !beginning.begun);
    assert_int_equal(script_met(&bench.hands[0].peer.way, "leases"), 3); /* one creates it */
    SOUND(&bench);
    bench_close(&bench);
}

static void test_marked_begin_is_written(void **state)
{
    static const struct death deaths[] = { { JOB_NOTE_CLAIMED, 0, true },
                                           { JOB_NOTE_BEGUN, 3, false } };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        struct beginning beginning;
        settle_death(&bench, &deaths[i]);
        enum hf_compact_end end = run_watched(&bench, &beginning).end;
        assert_true(end == HF_COMPACT_END_COMMITTED || end == HF_COMPACT_END_TESTED);
        assert_true(beginning.begun && !beginning.claimed);
        SOUND(&bench);
        bench_close(&bench);
    }
}

/* A begin that cannot be written: nothing is merged, and nobody is to blame. */
static void test_unwritten_begin(void **state)
{
    const struct death death = { JOB_NOTE_CLAIMED, 0, true };
    struct beginning beginning;
    struct bench bench;
    (void)state;
    settle_death(&bench, &death);
    script_rule(&bench.hands[0].peer.way, .on = ON_PUT | ON_CHANGE, .part = LAYOUT_LEASES,
                .skip = 1, .times = 1, .fate = REFUSE(HF_UNSUPPORTED));
    assert_int_equal(run_watched(&bench, &beginning).end, HF_COMPACT_END_FAILED);
    assert_false(beginning.begun || beginning.claimed);
    assert_int_equal(bench_audit(&bench).tries, 0);
    assert_int_equal(run_watched(&bench, &beginning).end, HF_COMPACT_END_COMMITTED);
    SOUND(&bench);
    bench_close(&bench);
}

/* A merge that lasts longer than a renewal: the renewal says that it has begun. */
static void wait_for_renewal(void *argument)
{
    struct beginning *beginning = argument;
    for (int i = 0; i < 500 && !beginning->begun; i++) {
        pass_ms(10);
        look_at_lease(argument);
    }
}

static void test_renewal_says_it(void **state)
{
    struct compact_settings settings = bench_settings();
    struct beginning beginning;
    struct bench bench;
    (void)state;
    settings.ttl_ms = 2000;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 3);
    struct hand *hand = &bench.hands[0];
    beginning = (struct beginning){ .bench = &bench };
    hand->merger.begins = wait_for_renewal;
    hand->merger.argument = &beginning;
    struct order *order = bench_order(hand);
    assert_int_equal(run_job(hand, order).end, HF_COMPACT_END_COMMITTED);
    assert_true(beginning.begun);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a lease that says its merge has not begun counts no try, and marks its chunks; any "
           "other counts one",
           test_deaths),
        IT("a note tells how much is done, but never all; others tell nothing", test_progress),
        IT("the begin of a merge costs no write", test_usual_begin_is_free),
        IT("a worker of marked or tried chunks writes that it begins before it does",
           test_marked_begin_is_written),
        IT("a begin that cannot be written blames nobody, and nothing is merged",
           test_unwritten_begin),
        IT("the first renewal says that the merge has begun", test_renewal_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
