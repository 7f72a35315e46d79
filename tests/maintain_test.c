/* SPDX-License-Identifier: Apache-2.0 */
/* maintain_test.c: maintenance of a partition: which leases are settled and which objects deleted,
 * and which are not. */
#include "alloc.h"
#include "base/hash.h"
#include "compact/care/pin.h"
#include "job_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct maintain_report maintain(struct hand *hand)
{
    struct hf_error error;
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    MUST(maintain_round(hand->tree, &options, &report, &error));
    return report;
}

/* A bench whose first group was merged: three tombstones. */
static void open_merged(struct bench *bench, size_t hands, struct compact_settings settings)
{
    bench_open(bench, hands, &settings);
    bench_add(bench, 3);
    struct order *order = bench_order(&bench->hands[0]);
    ASSERT(run_job(&bench->hands[0], order).end == HF_COMPACT_END_COMMITTED);
    order_free(order);
}

static void test_nothing_to_do(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    settings.grace_ms = 3600000;
    open_merged(&bench, 1, settings);
    maintain(&bench.hands[0]);
    script_counts(&bench.hands[0].peer.way);
    struct maintain_report report = maintain(&bench.hands[0]);
    struct counts counts = script_counts(&bench.hands[0].peer.way);
    assert_int_equal(counts.puts + counts.others, 0);
    assert_int_equal(counts.gets, 0);
    assert_int_equal(counts.looks, 2);
    assert_int_equal(report.requests, 2);
    bench_close(&bench);
}

static void test_reaps_and_drops(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    settings.late_bound_ms = 400;
    open_merged(&bench, 1, settings);
    pass_ms(2);
    struct maintain_report report = maintain(&bench.hands[0]);
    assert_int_equal(report.reaped, 3);
    assert_int_equal(report.deleted, 3);
    assert_int_equal(report.dropped, 0);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.objects, 1);
    assert_int_equal(audit.retired, 3);
    pass_ms(500);
    report = maintain(&bench.hands[0]);
    assert_int_equal(report.dropped, 3);
    assert_int_equal(bench_audit(&bench).retired, 0);
    SOUND(&bench);
    bench_close(&bench);
}

static void test_keeps_grace(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    settings.grace_ms = 3600000;
    open_merged(&bench, 1, settings);
    struct maintain_report report = maintain(&bench.hands[0]);
    assert_int_equal(report.reaped + report.deleted, 0);
    assert_int_equal(bench_audit(&bench).objects, 4);
    bench_close(&bench);
}

/* What landed late is deleted once more before its name is dropped. */
static void test_deletes_once_more(void **state)
{
    struct bench bench;
    struct order *order;
    struct compact_settings settings = bench_settings();
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    settings.late_bound_ms = 400;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 3);
    order = bench_order(&bench.hands[0]);
    hand_dies_with(&bench.hands[0], order, 100, output);
    for (int i = 0; i < 100 && bench_audit(&bench).condemned == 0; i++) {
        pass_ms(20);
        maintain(&bench.hands[0]);
    }
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.condemned, 1);
    assert_int_equal(audit.objects, 3);
    world_write(&bench.world, output, VIEW("late"));
    pass_ms(500);
    assert_int_equal(maintain(&bench.hands[0]).dropped, 1);
    assert_int_equal(bench_audit(&bench).objects, 3);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

static void test_replaces_a_damaged_table(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    open_merged(&bench, 1, settings);
    world_write(&bench.world, "metadata/compaction-leases.json", VIEW(""));
    pass_ms(2);
    maintain(&bench.hands[0]);
    char *text = world_text(&bench.world, "metadata/compaction-leases.json");
    assert_non_null(strstr(text, "replaced a damaged table"));
    free(text);
    bench_close(&bench);
}

static void test_counts_a_try_once(void **state)
{
    struct bench bench;
    struct order *order;
    struct compact_settings settings = bench_settings();
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    order = bench_order(&bench.hands[0]);
    hand_dies_with(&bench.hands[0], order, 100, output);
    uint64_t settled = 0;
    for (int i = 0; i < 100 && settled == 0; i++) {
        pass_ms(20);
        settled = maintain(&bench.hands[1]).settled;
    }
    assert_int_equal(settled, 1);
    assert_int_equal(maintain(&bench.hands[0]).settled, 0);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.tries, 3);
    assert_int_equal(audit.open_leases, 0);
    order_free(order);
    bench_close(&bench);
}

/* One who committed and died before it could say so. */
static void test_finds_a_commit(void **state)
{
    struct bench bench;
    struct order *order;
    struct compact_settings settings = bench_settings();
    (void)state;
    settings.ttl_ms = 100;
    settings.grace_ms = 3600000;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    order = bench_order(&bench.hands[0]);
    char output[KEY_BYTES_MAX + 1];
    hand_dies_with(&bench.hands[0], order, 100, output);
    /* Its commit was the last that was heard of it. */
    struct view keys[3] = { order->sources[0].key, order->sources[1].key,
                            order->sources[2].key };
    struct buffer text = BUFFER_INIT(MIB);
    for (size_t i = 0; i < 3; i++) {
        struct get_call get = { .key = keys[i], .body = &text };
        ASSERT(store_get(bench.world.truth, &get) == HF_OK);
    }
    world_write(&bench.world, output, buffer_view(&text));
    struct catalog_op op = { .kind = CATALOG_COMMIT,
                             .keys = keys,
                             .key_count = 3,
                             .target = { .key = view_of(output),
                                         .level = 1,
                                         .size = text.size,
                                         .rows_known = true,
                                         .rows = 6,
                                         .min_ms = order->sources[0].min_ms,
                                         .max_ms = order->sources[0].max_ms,
                                         .crc32c = crc32c(0, buffer_view(&text)) },
                             .drawn = now() };
    ASSERT(catalog_ref_apply(order->ref, &op, (struct mono_time){ 0 }) == HF_OK);
    struct maintain_report report = { 0 };
    for (int i = 0; i < 100 && report.settled == 0; i++) {
        pass_ms(20);
        report = maintain(&bench.hands[1]);
    }
    assert_int_equal(report.settled, 1);
    assert_int_equal(report.condemned, 0);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).open_leases, 0);
    buffer_release(&text);
    order_free(order);
    bench_close(&bench);
}

static void test_leaves_what_is_pinned(void **state)
{
    struct bench bench;
    struct hf_error error;
    struct hf_lock *pin;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[0]);
    char key[KEY_BYTES_MAX + 1];
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(order->sources[1].key));
    const char *keys[] = { key };
    MUST(pin_take(bench.hands[1].tree, keys, 1, 60000, &pin, &error));
    ASSERT(run_job(&bench.hands[0], order).end == HF_COMPACT_END_COMMITTED);
    pass_ms(2);
    struct maintain_report report = maintain(&bench.hands[0]);
    assert_int_equal(report.reaped, 3);
    assert_int_equal(report.deleted, 2);
    assert_int_equal(report.pinned, 1);
    assert_int_equal(bench_audit(&bench).objects, 2);
    MUST(hf_lock_release(pin, &error));
    hf_lock_free(pin);
    maintain(&bench.hands[0]);
    assert_int_equal(bench_audit(&bench).objects, 1);
    SOUND(&bench);
    order_free(order);
    bench_close(&bench);
}

/* A chunk so much later that those of bench_add() are past a short retention. */
static void add_a_newer_chunk(struct bench *bench, const struct compact_settings *settings)
{
    struct chunk newer = { .size = 0,
                           .min_ms = INT64_C(1763200800000) + 60000,
                           .max_ms = INT64_C(1763200800000) + 60000,
                           .writer = VIEW("w") };
    char key[KEY_BYTES_MAX + 1];
    struct hf_error error;
    struct catalog_ref *ref;
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = &newer, .chunk_count = 1 };
    MUST(chunk_key_draw(env_real(),
                        &(struct chunk_key_parts){ VIEW("default"), 0, newer.min_ms, settings },
                        key, &op.drawn, &error));
    newer.key = view_of(key);
    world_write(&bench->world, key, VIEW(""));
    MUST(catalog_tree_ref(bench->hands[0].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
}

static struct compact_settings settings_of_short_retention(void)
{
    struct compact_settings settings = bench_settings();
    settings.retention_ms = 1000;
    settings.time = VIEW("2");
    settings.grace_ms = 3600000;
    return settings;
}

static void test_retires(void **state)
{
    struct bench bench;
    struct compact_settings settings = settings_of_short_retention();
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 3);
    assert_int_equal(maintain(&bench.hands[0]).retired, 0); /* nothing newer has come */
    add_a_newer_chunk(&bench, &settings);
    assert_int_equal(maintain(&bench.hands[0]).retired, 3);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.live, 1);
    assert_int_equal(audit.tombstones, 3);
    bench_close(&bench);
}

static void keep_all_from_now_on(void *argument)
{
    struct bench *bench = argument;
    struct compact_settings settings = settings_of_short_retention();
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    struct catalog_ref *ref;
    struct hf_error error;
    settings.retention_ms = 0;
    MUST(catalog_tree_ref(bench->hands[1].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
}

/* A round may be long, and what it has read is old by then. */
static void test_retention_that_was_lifted(void **state)
{
    bool was_late = true;
    (void)state;
    for (unsigned n = 1; was_late; n++) {
        struct bench bench;
        struct compact_settings settings = settings_of_short_retention();
        bench_open(&bench, 2, &settings);
        bench_add(&bench, 3);
        add_a_newer_chunk(&bench, &settings);
        script_rule(&bench.hands[0].peer.way, .name = "set", .skip = n, .times = 1,
                    .before = keep_all_from_now_on, .argument = &bench);
        uint64_t retired = maintain(&bench.hands[0]).retired;
        was_late = script_met(&bench.hands[0].peer.way, "set") > 0;
        if (was_late && retired == 0)
            assert_int_equal(bench_audit(&bench).live, 4);
        else if (was_late) /* it was changed after the swap */
            assert_int_equal(bench_audit(&bench).tombstones, 3);
        if (was_late &&
            n == 1) /* the walk has read the catalog, and nothing else was done yet */
            assert_int_equal(retired, 0);
        bench_close(&bench);
        ASSERT(n < 200);
    }
}

static void copy_a_retired_key(void *argument, const struct catalog *catalog,
                               const struct evidence *evidence)
{
    (void)evidence;
    assert_true(catalog->has_expired);
    assert_true(catalog->grave_count > 0);
    snprintf(argument, KEY_BYTES_MAX + 1, "%.*s", VIEW_ARGS(catalog->graves[0].chunks[0].key));
}

static void expect_nothing_hidden(void *argument, const struct catalog *catalog,
                                  const struct evidence *evidence)
{
    (void)evidence;
    assert_false(catalog->has_expired);
    assert_int_equal(catalog->live_count, *(const size_t *)argument);
}

static void test_undelete_of_a_large_retention(void **state)
{
    enum { MANY = 700 };
    struct bench bench;
    struct compact_settings settings = settings_of_short_retention();
    struct hf_error error;
    struct catalog_ref *ref;
    char key[KEY_BYTES_MAX + 1];
    size_t live = MANY + 1;
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, MANY);
    add_a_newer_chunk(&bench, &settings);
    assert_int_equal(maintain(&bench.hands[0]).retired, MANY);
    MUST(catalog_tree_ref(bench.hands[0].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_show(ref, copy_a_retired_key, key, &error));
    struct view retired = view_of(key);
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &retired, .key_count = 1 };
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
    assert_int_equal(op.moved, MANY);
    MUST(catalog_ref_show(ref, expect_nothing_hidden, &live, &error));
    bench_close(&bench);
}

#define MANY_NAMES ((size_t)4000)

/* Names that were never added, and the object of one of them. */
static void condemn_many(struct bench *bench, unsigned group)
{
    static char names[MANY_NAMES][64];
    static struct view keys[MANY_NAMES];
    struct catalog_op op = { .kind = CATALOG_CONDEMN, .keys = keys, .key_count = MANY_NAMES };
    struct catalog_ref *ref;
    struct hf_error error;
    for (size_t i = 0; i < MANY_NAMES; i++) {
        snprintf(names[i], sizeof names[i], "data/default/L1/2026/11/%u-%05zu.usv", group, i);
        keys[i] = view_of(names[i]);
    }
    world_write(&bench->world, names[0], VIEW("x"));
    MUST(catalog_tree_ref(bench->hands[0].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
}

/* Two removals with an object that cannot be deleted are as much as a round deletes. */
static void test_stuck_removals(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    struct maintain_options options = { .short_lived = false };
    bool gone = false;
    (void)state;
    bench_open(&bench, 1, &settings);
    for (unsigned group = 0; group < 3; group++)
        condemn_many(&bench, group);
    script_rule(&bench.hands[0].peer.way, .on = ON_DELETE, .part = "/0-00000.",
                .fate = REFUSE(HF_DENIED));
    script_rule(&bench.hands[0].peer.way, .on = ON_DELETE, .part = "/1-00000.",
                .fate = REFUSE(HF_DENIED));
    for (int i = 0; !gone && i < 30; i++) {
        struct maintain_report report = { 0 };
        maintain_round(bench.hands[0].tree, &options, &report, NULL);
        char *text = world_text(&bench.world, "data/default/L1/2026/11/2-00000.usv");
        gone = !text;
        free(text);
    }
    ASSERT(gone);
    bench_close(&bench);
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

static void test_stops(void **state)
{
    struct bench bench;
    struct hf_error error;
    struct maintain_options options = { .go_on = never };
    struct maintain_report report = { 0 };
    (void)state;
    open_merged(&bench, 1, bench_settings());
    pass_ms(2);
    MUST(maintain_round(bench.hands[0].tree, &options, &report, &error));
    assert_int_equal(report.deleted, 0);
    assert_int_equal(bench_audit(&bench).objects, 4);
    bench_close(&bench);
}

/* ---- Each call in turn --------------------------------------------------------------- */

/* A bucket with an output that is not settled, and tombstones past their grace. */
static void open_untidy(struct bench *bench)
{
    struct order *order;
    char output[KEY_BYTES_MAX + 1];
    open_merged(bench, 2, bench_settings());
    bench_add(bench, 3);
    order = bench_order(&bench->hands[0]);
    hand_dies_with(&bench->hands[1], order, 0, output);
    order_free(order);
    pass_ms(2);
}

static void expect_tidy(struct bench *bench)
{
    struct audit audit = { 0 };
    SOUND(bench);
    for (int i = 0; i < 50; i++) {
        bench_settle_down(bench);
        audit = bench_audit(bench);
        if (audit.open_leases == 0 && audit.lingering == 0 && audit.tombstones == 0)
            break;
        pass_ms(20);
    }
    SOUND(bench);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.lingering, 0);
    assert_int_equal(audit.tombstones, 0);
    assert_int_equal(audit.orphans, 0);
    assert_int_equal(audit.tries, 3);
    assert_int_equal(audit.objects, 4);
}

static void fail_each_call(struct fate fate)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct bench bench;
        struct maintain_options options = { .short_lived = false };
        struct maintain_report report = { 0 };
        open_untidy(&bench);
        way_fail(&bench.hands[0].peer.way, n, fate);
        maintain_round(bench.hands[0].tree, &options, &report, NULL);
        failed = way_has_failed(&bench.hands[0].peer.way);
        expect_tidy(&bench);
        bench_close(&bench);
        ASSERT(n < 100);
    }
}

static void test_each_call_refused(void **state)
{
    (void)state;
    fail_each_call(REFUSE(HF_UNAVAILABLE));
}

static void test_each_reply_lost(void **state)
{
    (void)state;
    fail_each_call(LOSE_REPLY);
}

static void test_each_allocation(void **state)
{
    struct bench bench;
    struct maintain_options options = { .short_lived = true };
    bool failed = true;
    (void)state;
    open_untidy(&bench);
    for (long n = 0; failed; n++) {
        struct maintain_report report = { 0 };
        alloc_fail_after(n);
        maintain_round(bench.hands[0].tree, &options, &report, NULL);
        failed = alloc_stop();
    }
    expect_tidy(&bench);
    bench_close(&bench);
}

/* ---- Many at once -------------------------------------------------------------------- */

static void maintain_a_while(void *argument)
{
    for (int i = 0; i < 20; i++) {
        maintain(argument);
        pass_ms(5);
    }
}

static void test_many_at_once(void **state)
{
    struct bench bench;
    struct hf_error error;
    struct env_task *tasks[HANDS_MAX];
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, HANDS_MAX, &settings);
    for (int i = 0; i < 5; i++) {
        bench_add(&bench, 3);
        struct order *order = bench_order(&bench.hands[0]);
        ASSERT(run_job(&bench.hands[0], order).end == HF_COMPACT_END_COMMITTED);
        order_free(order);
    }
    for (size_t i = 0; i < HANDS_MAX; i++)
        MUST(env_task_start(env_real(), maintain_a_while, &bench.hands[i], &tasks[i], &error));
    for (size_t i = 0; i < HANDS_MAX; i++)
        env_task_join(env_real(), tasks[i]);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.objects, audit.live);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a round with nothing to do costs a look at each catalog and table, and no write",
           test_nothing_to_do),
        IT("what was merged is deleted after its grace, and dropped after D",
           test_reaps_and_drops),
        IT("nothing is deleted in its grace", test_keeps_grace),
        IT("what landed late is deleted once more before its name is dropped",
           test_deletes_once_more),
        IT("a damaged lease table is replaced", test_replaces_a_damaged_table),
        IT("a lease that died counts one try, whoever settles it", test_counts_a_try_once),
        IT("a lease whose commit happened is settled without a try", test_finds_a_commit),
        IT("what is pinned is left until the pin is gone", test_leaves_what_is_pinned),
        IT("chunks past their retention are retired, judged by the newest record",
           test_retires),
        IT("a retention that was changed during the round retires nothing",
           test_retention_that_was_lifted),
        IT("undelete shows the records of a retention of more chunks than one move takes",
           test_undelete_of_a_large_retention),
        IT("objects that cannot be deleted do not keep all others", test_stuck_removals),
        IT("a round that is told to stop deletes nothing more", test_stops),
        IT("whichever call is refused, the next rounds clear all away", test_each_call_refused),
        IT("whichever reply is lost, the next rounds clear all away", test_each_reply_lost),
        IT("whichever allocation fails, the next rounds clear all away", test_each_allocation),
        IT("many who tend at once delete what is to be deleted and nothing else",
           test_many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
