/* SPDX-License-Identifier: Apache-2.0 */
/* job_test.c: merges one group, from lease to commit, with every failure on the way. */
#include "alloc.h"
#include "compact/work/job_note.h"
#include "job_kit.h"

#include <stdio.h>
#include <stdlib.h>

static void open_with_group(struct bench *bench, size_t hands, struct order **ret_order)
{
    struct compact_settings settings = bench_settings();
    bench_open(bench, hands, &settings);
    bench_add(bench, 3);
    *ret_order = bench_order(&bench->hands[0]);
    ASSERT(*ret_order && (*ret_order)->count == 3);
}

/* ---- What goes well ------------------------------------------------------------------ */

static void test_commits(void **state)
{
    struct bench bench;
    struct order *order;
    (void)state;
    open_with_group(&bench, 1, &order);
    struct job_report report = run_job(&bench.hands[0], order);
    assert_string_equal(report.error.why, "");
    assert_int_equal(report.end, HF_COMPACT_END_COMMITTED);
    assert_int_equal(report.product.rows_in, 6);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.live, 1);
    assert_int_equal(audit.tombstones, 3);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.tries, 0);
    order_free(order);
    bench_close(&bench);
}

static void test_leaves_what_is_leased(void **state)
{
    struct bench bench;
    struct order *order;
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    open_with_group(&bench, 2, &order);
    hand_dies_with(&bench.hands[1], order, 60000, output);
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_HELD);
    assert_int_equal(bench.hands[0].merger.made, 0);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

static void test_passes_what_is_done(void **state)
{
    struct bench bench;
    struct order *order;
    (void)state;
    open_with_group(&bench, 2, &order);
    hand_commits(&bench.hands[1], order);
    script_counts(&bench.hands[0].peer.way);
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    assert_int_equal(script_counts(&bench.hands[0].peer.way).puts, 0);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

/* ---- What others do meanwhile -------------------------------------------------------- */

struct rival {
    struct bench *bench;
    struct order *order;
    const char *remove; /* an object that goes away, too */
};

static void rival_commits(void *argument)
{
    struct rival *rival = argument;
    hand_commits(&rival->bench->hands[1], rival->order);
    if (rival->remove) {
        struct delete_call call = { .key = view_of(rival->remove) };
        ASSERT(store_delete(rival->bench->world.truth, &call) == HF_OK);
    }
}

static void test_loses_the_race(void **state)
{
    struct bench bench;
    struct order *order;
    (void)state;
    open_with_group(&bench, 2, &order);
    struct rival rival = { &bench, order, NULL };
    bench.hands[0].merger.has_put = rival_commits;
    bench.hands[0].merger.argument = &rival;
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_LOST);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.condemned, 1);
    assert_int_equal(audit.orphans, 0);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.tries, 0);
    assert_true(bench_settle_down(&bench).deleted > 0);
    assert_int_equal(bench_audit(&bench).lingering, 0);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

static void test_source_gone_and_not_live(void **state)
{
    struct bench bench;
    struct order *order;
    char key[KEY_BYTES_MAX + 1];
    (void)state;
    open_with_group(&bench, 2, &order);
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(order->sources[1].key));
    struct rival rival = { &bench, order, key };
    bench.hands[0].merger.begins = rival_commits;
    bench.hands[0].merger.argument = &rival;
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    assert_int_equal(report.blame, HF_COMPACT_BLAME_NOBODY);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).quarantined, 0);
    order_free(order);
    bench_close(&bench);
}

static void test_takes_over(void **state)
{
    struct bench bench;
    struct order *order;
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    open_with_group(&bench, 2, &order);
    hand_dies_with(&bench.hands[1], order, 100, output);
    struct job_report report = { .end = HF_COMPACT_END_HELD };
    for (int i = 0; i < 100 && report.end == HF_COMPACT_END_HELD; i++) {
        pass_ms(20);
        report = run_job(&bench.hands[0], order);
    }
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    assert_int_equal(report.took_over, 1);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.condemned,
                     1); /* its output; the one that we had named was not put */
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.orphans, 0);
    order_free(order);
    bench_close(&bench);
}

/* ---- Whose fault --------------------------------------------------------------------- */

static struct audit fail_with(enum hf_status fails, size_t culprit, bool group_fault,
                              enum hf_compact_blame expected)
{
    struct bench bench;
    struct order *order;
    open_with_group(&bench, 1, &order);
    struct line_merger *merger = &bench.hands[0].merger;
    merger->fails = fails;
    merger->culprit = culprit;
    merger->group_fault = group_fault;
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_FAILED);
    assert_int_equal(report.blame, expected);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.open_leases, 0);
    order_free(order);
    bench_close(&bench);
    return audit;
}

static void test_blames_nobody(void **state)
{
    (void)state;
    struct audit audit =
        fail_with(HF_UNAVAILABLE, MERGE_NO_CULPRIT, false, HF_COMPACT_BLAME_NOBODY);
    assert_int_equal(audit.tries, 0);
    assert_int_equal(audit.quarantined, 0);
}

static void test_blames_the_group(void **state)
{
    (void)state;
    struct audit audit = fail_with(HF_INVALID, MERGE_NO_CULPRIT, true, HF_COMPACT_BLAME_GROUP);
    assert_int_equal(audit.tries, 3);
    assert_int_equal(audit.quarantined, 0);
}

static void test_blames_a_chunk(void **state)
{
    (void)state;
    struct audit audit = fail_with(HF_CORRUPT, 1, false, HF_COMPACT_BLAME_CHUNK);
    assert_int_equal(audit.quarantined, 1);
}

static void test_missing_object_of_a_live_chunk(void **state)
{
    struct bench bench;
    struct order *order;
    (void)state;
    open_with_group(&bench, 1, &order);
    struct delete_call call = { .key = order->sources[2].key };
    ASSERT(store_delete(bench.world.truth, &call) == HF_OK);
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_FAILED);
    assert_int_equal(report.blame, HF_COMPACT_BLAME_CHUNK);
    assert_int_equal(bench_audit(&bench).quarantined, 1);
    order_free(order);
    bench_close(&bench);
}

static void test_rows_must_add_up(void **state)
{
    struct bench bench;
    struct order *order;
    (void)state;
    open_with_group(&bench, 1, &order);
    bench.hands[0].merger.miscounts = true;
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_FAILED);
    assert_int_equal(report.blame, HF_COMPACT_BLAME_GROUP);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).orphans, 0);
    order_free(order);
    bench_close(&bench);
}

static bool never(void *argument, uint64_t done, uint64_t total)
{
    (void)argument;
    (void)total;
    return done == 0;
}

static bool not_at_all(void *argument, uint64_t done, uint64_t total)
{
    (void)argument;
    (void)done;
    (void)total;
    return false;
}

static void test_stops(void **state)
{
    struct bench bench;
    struct order *order;
    struct job_report report;
    struct job_options options = { .memory_bytes = 16 * MIB, .go_on = never };
    (void)state;
    open_with_group(&bench, 1, &order);
    job_run(bench.hands[0].tree, &bench.hands[0].merger.merger, order, &options, &report);
    assert_int_equal(report.end, HF_COMPACT_END_STOPPED);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.tries, 0);
    assert_int_equal(audit.open_leases, 0);
    report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_COMMITTED);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

/* ---- The next group ------------------------------------------------------------------ */

static size_t give_next(void *argument, const struct order *ret_orders[JOB_CLAIMS_MAX])
{
    ret_orders[0] = argument;
    return 1;
}

/* Merges the first of two groups, and claims the second. */
static struct job_report run_and_claim(struct bench *bench, struct order *orders[2])
{
    struct hand *hand = &bench->hands[0];
    struct job_report report;
    for (size_t i = 0; i < 2; i++)
        orders[i] = bench_order_at(hand, i);
    ASSERT(orders[0] && orders[1]);
    struct job_options options = { .memory_bytes = 16 * MIB,
                                   .next = give_next,
                                   .argument = orders[1] };
    job_run(hand->tree, &hand->merger.merger, orders[0], &options, &report);
    assert_int_equal(report.end, HF_COMPACT_END_COMMITTED);
    return report;
}

static void open_with_groups(struct bench *bench, size_t hands)
{
    struct compact_settings settings = bench_settings();
    bench_open(bench, hands, &settings);
    bench_add(bench, 6);
}

static void close_with_groups(struct bench *bench, struct order *orders[2])
{
    SOUND(bench);
    order_free(orders[0]);
    order_free(orders[1]);
    bench_close(bench);
}

static struct job_report run_claimed(struct bench *bench, const struct order *order,
                                     struct job_claim claim,
                                     bool (*go_on)(void *, uint64_t, uint64_t))
{
    struct hand *hand = &bench->hands[0];
    struct job_report report;
    struct job_options options = { .memory_bytes = 16 * MIB, .claim = &claim, .go_on = go_on };
    job_run(hand->tree, &hand->merger.merger, order, &options, &report);
    return report;
}

static void test_claims_the_next(void **state)
{
    struct bench bench;
    struct order *orders[2];
    (void)state;
    open_with_groups(&bench, 2);
    struct job_report report = run_and_claim(&bench, orders);
    assert_int_equal(report.next_status[0], HF_OK);
    assert_int_equal(run_job(&bench.hands[1], orders[1]).end, HF_COMPACT_END_HELD);
    report = run_claimed(&bench, orders[1], report.claims[0], NULL);
    assert_int_equal(report.end, HF_COMPACT_END_COMMITTED);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.live, 2);
    assert_int_equal(audit.open_leases, 0);
    close_with_groups(&bench, orders);
}

/* Otherwise its output would be compressed otherwise than its name says, and nobody could read
 * it. */
static void test_passes_by_a_name_of_other_settings(void **state)
{
    struct bench bench;
    struct order *orders[2];
    struct compact_settings settings = bench_settings();
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    struct catalog_ref *ref;
    struct hf_error error;
    (void)state;
    open_with_groups(&bench, 2);
    struct job_report report = run_and_claim(&bench, orders);
    settings.coding = HF_MERGE_GZIP;
    MUST(catalog_tree_ref(bench.hands[1].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
    report = run_claimed(&bench, orders[1], report.claims[0], NULL);
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    report = run_job(&bench.hands[1], orders[1]);
    assert_int_equal(report.end, HF_COMPACT_END_COMMITTED);
    ASSERT(view_ends_with(view_of(report.output), VIEW(".gz")));
    assert_int_equal(bench_audit(&bench).open_leases, 0);
    close_with_groups(&bench, orders);
}

static void test_cannot_claim_the_next(void **state)
{
    struct bench bench;
    struct order *orders[2];
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    open_with_groups(&bench, 2);
    struct order *held = bench_order_at(&bench.hands[1], 1);
    hand_dies_with(&bench.hands[1], held, /* ttl_ms */ 60000, output);
    struct job_report report = run_and_claim(&bench, orders);
    assert_int_equal(report.next_status[0], HF_HELD);
    assert_null(report.claims[0].lock);
    order_free(held);
    close_with_groups(&bench, orders);
}

/* The claim is guarded: what was merged meanwhile is not merged again. */
static void test_claims_what_was_merged(void **state)
{
    struct bench bench;
    struct order *orders[2];
    (void)state;
    open_with_groups(&bench, 2);
    struct job_report report = run_and_claim(&bench, orders);
    hand_commits(&bench.hands[1], orders[1]);
    report = run_claimed(&bench, orders[1], report.claims[0], NULL);
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    assert_int_equal(atomic_load(&bench.hands[0].merger.made), 1);
    assert_int_equal(bench_audit(&bench).open_leases, 0);
    close_with_groups(&bench, orders);
}

static void test_gives_a_claim_back(void **state)
{
    struct bench bench;
    struct order *orders[2];
    (void)state;
    open_with_groups(&bench, 2);
    struct job_report report = run_and_claim(&bench, orders);
    report = run_claimed(&bench, orders[1], report.claims[0], not_at_all);
    assert_int_equal(report.end, HF_COMPACT_END_STOPPED);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.tries, 0);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(run_job(&bench.hands[1], orders[1]).end, HF_COMPACT_END_COMMITTED);
    close_with_groups(&bench, orders);
}

/* ---- Tests of one chunk -------------------------------------------------------------- */

/* A group whose chunks have failed so often that each is tested alone. */
static struct order *open_with_test(struct bench *bench)
{
    struct order *order;
    open_with_group(bench, 2, &order);
    for (int i = 0; i < 2; i++) {
        bench->hands[0].merger.fails = HF_INVALID;
        bench->hands[0].merger.group_fault = true;
        ASSERT(run_job(&bench->hands[0], order).end == HF_COMPACT_END_FAILED);
        for (size_t k = 0; k < order->count; k++)
            order->sources[k].tries++;
    }
    bench->hands[0].merger.fails = HF_OK;
    bench->hands[0].merger.group_fault = false;
    order_free(order);
    order = bench_order(&bench->hands[0]);
    ASSERT(order && order->test && order->count == 1);
    return order;
}

static void test_passes_a_test(void **state)
{
    struct bench bench;
    (void)state;
    struct order *order = open_with_test(&bench);
    size_t condemned = bench_audit(&bench).condemned;
    assert_int_equal(bench_audit(&bench).tries, 6);
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_TESTED);
    assert_string_equal(report.error.why, "");
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.live, 3);
    assert_int_equal(audit.tombstones, 0);
    assert_int_equal(audit.objects, 3);
    assert_int_equal(audit.condemned, condemned);
    assert_int_equal(audit.tries, 4);
    assert_int_equal(audit.open_leases, 0);
    report = run_job(&bench.hands[1], order); /* planned before, and done by now */
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    order_free(order);
    bench_close(&bench);
}

static void test_fails_a_test(void **state)
{
    struct bench bench;
    (void)state;
    struct order *order = open_with_test(&bench);
    bench.hands[0].merger.fails = HF_INVALID;
    bench.hands[0].merger.group_fault = true;
    struct job_report report = run_job(&bench.hands[0], order);
    assert_int_equal(report.end, HF_COMPACT_END_FAILED);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).quarantined, 1);
    assert_int_equal(bench_audit(&bench).open_leases, 0);
    order_free(order);
    bench_close(&bench);
}

static void test_dies_in_a_test(void **state)
{
    struct bench bench;
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    struct order *order = open_with_test(&bench);
    hand_dies_with(&bench.hands[1], order, 100, output);
    struct job_report report = { .end = HF_COMPACT_END_HELD };
    for (int i = 0; i < 100 && report.end == HF_COMPACT_END_HELD; i++) {
        pass_ms(20);
        report = run_job(&bench.hands[0], order);
    }
    assert_int_equal(report.end, HF_COMPACT_END_PASSED);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).quarantined, 1);
    order_free(order);
    bench_close(&bench);
}

static void test_each_reply_of_a_test_lost(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 0; failed; n++) {
        struct bench bench;
        struct order *order = open_with_test(&bench);
        way_fail(&bench.hands[0].peer.way, n, LOSE_REPLY);
        run_job(&bench.hands[0], order);
        failed = way_has_failed(&bench.hands[0].peer.way);
        SOUND(&bench);
        bench_settle_down(&bench);
        struct audit audit = bench_audit(&bench);
        assert_int_equal(audit.live, 3);
        assert_int_equal(audit.quarantined, 0);
        assert_true(audit.tries == 4 || audit.tries == 6);
        assert_int_equal(audit.objects, 3);
        order_free(order);
        bench_close(&bench);
        ASSERT(n < 200);
    }
}

/* ---- Each call in turn --------------------------------------------------------------- */

/* Once all is calm the group is merged exactly once, by whomever, and nothing is left over. */
static void expect_calm(struct bench *bench, const struct order *order)
{
    struct audit audit = { 0 };
    SOUND(bench);
    for (int i = 0; i < 50; i++) {
        run_job(&bench->hands[1], order);
        bench_settle_down(bench);
        audit = bench_audit(bench);
        if (audit.live == 1 && audit.open_leases == 0 && audit.lingering == 0)
            break;
        pass_ms(20);
    }
    SOUND(bench);
    assert_int_equal(audit.live, 1);
    assert_int_equal(audit.orphans, 0);
    assert_int_equal(audit.lingering, 0);
    assert_int_equal(audit.open_leases, 0);
}

static void fail_each_call(struct fate fate)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct bench bench;
        struct order *order;
        open_with_group(&bench, 2, &order);
        way_fail(&bench.hands[0].peer.way, n, fate);
        run_job(&bench.hands[0], order);
        failed = way_has_failed(&bench.hands[0].peer.way);
        expect_calm(&bench, order);
        order_free(order);
        bench_close(&bench);
        ASSERT(n < 200);
    }
}

static void test_each_call_refused(void **state)
{
    (void)state;
    fail_each_call(REFUSE(HF_UNAVAILABLE));
}

static void test_each_call_lost(void **state)
{
    (void)state;
    fail_each_call(LOSE);
}

static void test_each_reply_lost(void **state)
{
    (void)state;
    fail_each_call(LOSE_REPLY);
}

static void test_each_allocation(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 0; failed; n++) {
        struct bench bench;
        struct order *order;
        open_with_group(&bench, 2, &order);
        alloc_fail_after(n);
        run_job(&bench.hands[0], order);
        failed = alloc_stop();
        expect_calm(&bench, order);
        order_free(order);
        bench_close(&bench);
    }
}

/* ---- Notes --------------------------------------------------------------------------- */

static void test_note_round_trip(void **state)
{
    struct buffer text = BUFFER_INIT(4096);
    struct arena arena = ARENA_INIT;
    struct job_note note = { HF_COMPACT_BLAME_CHUNK, VIEW("data/a \"b\".usv"),
                             VIEW("its\nchecksum") };
    struct job_note read;
    (void)state;
    assert_true(job_note_encode(&note, &text));
    assert_true(job_note_decode(buffer_view(&text), &arena, &read));
    assert_int_equal(read.blame, HF_COMPACT_BLAME_CHUNK);
    assert_true(view_equal(read.culprit, note.culprit));
    assert_true(view_equal(read.why, note.why));
    arena_release(&arena);
    buffer_release(&text);
}

static void test_note_fits(void **state)
{
    char key[KEY_BYTES_MAX], why[HF_WHY_MAX];
    struct buffer text = BUFFER_INIT(4096);
    struct arena arena = ARENA_INIT;
    struct job_note read, note = { HF_COMPACT_BLAME_CHUNK, { key, 300 }, { why, sizeof why } };
    (void)state;
    memset(key, '"', sizeof key);
    memset(why, '\1', sizeof why);
    assert_true(job_note_encode(&note, &text));
    assert_true(text.size <= NOTE_BYTES_MAX);
    assert_true(job_note_decode(buffer_view(&text), &arena, &read));
    assert_int_equal(read.blame, HF_COMPACT_BLAME_CHUNK);
    note.culprit.size = sizeof key;
    assert_true(job_note_encode(&note, &text));
    assert_true(text.size <= NOTE_BYTES_MAX);
    assert_true(job_note_decode(buffer_view(&text), &arena, &read));
    assert_int_equal(read.blame, HF_COMPACT_BLAME_GROUP);
    arena_release(&arena);
    buffer_release(&text);
}

static void test_note_of_others(void **state)
{
    struct arena arena = ARENA_INIT;
    struct job_note read;
    (void)state;
    const char *const texts[] = { "", "7", "{\"blame\":\"moon\"}", "{\"blame\":", "{}" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(job_note_decode(view_of(texts[i]), &arena, &read));
        assert_int_equal(read.blame, HF_COMPACT_BLAME_NOBODY);
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a group is merged, committed, and its lease completed", test_commits),
        IT("a job claims the next group when it completes its lease", test_claims_the_next),
        IT("a claimed group whose output has a name of other settings is passed by",
           test_passes_by_a_name_of_other_settings),
        IT("a group that somebody else has leased cannot be claimed, and the job is done all "
           "the "
           "same",
           test_cannot_claim_the_next),
        IT("a claimed group that was merged meanwhile is passed by",
           test_claims_what_was_merged),
        IT("a claimed group that is not begun is given back, and counts against nobody",
           test_gives_a_claim_back),
        IT("a group that somebody else has leased is left alone", test_leaves_what_is_leased),
        IT("a group that was merged meanwhile is passed by without a write",
           test_passes_what_is_done),
        IT("who loses the race for the commit condemns its own output", test_loses_the_race),
        IT("a source that is gone and not live any more is nobody's fault",
           test_source_gone_and_not_live),
        IT("the lease of a dead worker is settled, and its chunks grouped anew, before they "
           "are "
           "merged again",
           test_takes_over),
        IT("a store that cannot counts against nobody", test_blames_nobody),
        IT("a merge that fails counts a try of each source", test_blames_the_group),
        IT("a damaged chunk is quarantined", test_blames_a_chunk),
        IT("a live chunk whose object is gone is quarantined",
           test_missing_object_of_a_live_chunk),
        IT("rows that do not add up fail the group", test_rows_must_add_up),
        IT("a job that is stopped gives its lease back and blames nobody", test_stops),
        IT("a chunk that passes its test has no tries, and nothing is put or committed",
           test_passes_a_test),
        IT("a chunk that fails its test is quarantined", test_fails_a_test),
        IT("a chunk whose test kills its worker is quarantined", test_dies_in_a_test),
        IT("whichever reply is lost, a test leaves the chunk as it was, or without tries",
           test_each_reply_of_a_test_lost),
        IT("whichever call is refused, the group is merged once and nothing is left",
           test_each_call_refused),
        IT("whichever call is lost, the group is merged once and nothing is left",
           test_each_call_lost),
        IT("whichever reply is lost, the group is merged once and nothing is left",
           test_each_reply_lost),
        IT("whichever allocation fails, the group is merged once and nothing is left",
           test_each_allocation),
        IT("a note is read back as it was written", test_note_round_trip),
        IT("a note is cut to what a lease has room for", test_note_fits),
        IT("notes of others blame nobody", test_note_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
