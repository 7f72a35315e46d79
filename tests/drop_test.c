/* SPDX-License-Identifier: Apache-2.0 */
/* drop_test.c: dropping a partition: everything of it goes, in time, and nothing else. */
#include "alloc.h"
#include "compact/care/drop.h"
#include "compact/care/maintain.h"
#include "compact/care/pin.h"
#include "compact/work/ingest.h"
#include "job_kit.h"

#include <stdio.h>

static const struct drop_options plain = { .go_on = NULL };

/* D is short enough to wait for, and long enough for a busy machine to add chunks in half of it. */
#define LATE_MS 2000

static struct compact_settings quick_settings(void)
{
    struct compact_settings settings = bench_settings();
    settings.late_bound_ms = LATE_MS;
    settings.skew_tolerance_ms = 0;
    return settings;
}

/* Once chunks were added, D may be shorter. */
static void shorten_wait(struct bench *bench, int64_t late_ms)
{
    struct compact_settings settings = quick_settings();
    struct catalog_op op = { .kind = CATALOG_SET, .settings = &settings };
    struct catalog_ref *ref;
    struct hf_error error;
    settings.late_bound_ms = late_ms;
    MUST(catalog_tree_ref(bench->hands[0].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
}

static struct drop_report step(struct hand *hand)
{
    struct drop_report report;
    struct hf_error error;
    MUST(drop_step(hand->tree, &plain, &report, &error));
    return report;
}

/* The number of objects in the bucket, apart from what namespaces and the bucket itself have. */
static size_t count_left(struct bench *bench, const char *prefix)
{
    struct list_call list = { .prefix = view_of(prefix) };
    ASSERT(store_list(bench->world.truth, &list) == HF_OK);
    size_t count = list.count;
    list_release(&list);
    return count;
}

static void expect_gone(struct bench *bench)
{
    assert_int_equal(count_left(bench, "data/"), 0);
    assert_int_equal(count_left(bench, "metadata/"), 0);
    assert_int_equal(count_left(bench, "roster/"), 0);
    assert_int_equal(count_left(bench, ".holdfast/kept/data/"), 0);
}

/* Steps until nothing is left. */
static void drop_all(struct hand *hand)
{
    struct drop_report report;
    struct hf_error error;
    for (int i = 0; i < 400; i++) {
        enum hf_status status = drop_step(hand->tree, &plain, &report, &error);
        if (status == HF_NOT_FOUND)
            return;
        ASSERT(status == HF_OK);
        if (report.gone)
            return;
        pass_ms(25);
    }
    fail_msg("something is left");
}

/* ---- Going --------------------------------------------------------------------------- */

static void everything_goes_in_time(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct hf_error error;
    struct drop_report report;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 5);
    MUST(catalog_tree_pause(bench.hands[0].tree, VIEW("x"), VIEW("y"), &error));
    MUST(drop_count(bench.hands[0].tree, &report, &error));
    assert_int_equal(report.chunks, 5);
    assert_true(report.bytes > 0 && report.wait_ms >= LATE_MS && !report.marked);
    assert_int_equal(bench_audit(&bench).live, 5); /* counting changes nothing */
    report = step(&bench.hands[0]);
    assert_true(report.marked && !report.gone);
    assert_int_equal(report.chunks, 5);
    pass_ms(2);
    report = step(&bench.hands[1]);
    assert_int_equal(count_left(&bench, "data/"), 0);
    assert_int_equal(report.deleting, 5);
    drop_all(&bench.hands[1]);
    expect_gone(&bench);
    assert_int_equal(drop_count(bench.hands[0].tree, &report, &error), HF_NOT_FOUND);
    assert_int_equal(drop_step(bench.hands[0].tree, &plain, &report, &error), HF_NOT_FOUND);
    MUST(catalog_tree_create(bench.hands[0].tree, &settings, &error));
    bench_add(&bench, 1);
    bench_close(&bench);
}

static void a_split_partition_goes_with_its_children(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct catalog_ref *ref;
    struct hf_error error;
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 12);
    struct catalog_tree *tree = bench.hands[0].tree;
    MUST(catalog_tree_ref(tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_split(ref, &error));
    struct drop_report report;
    MUST(drop_count(tree, &report, &error));
    assert_int_equal(report.catalogs, 1 + CATALOG_CHILDREN);
    assert_int_equal(report.chunks, 12);
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

/* A job whose output has its home in a child, and whose sources' leases are in the table above. */
static void a_child_stays_until_its_outputs_are_settled(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct catalog_ref *ref;
    struct hf_error error;
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    bench_open(&bench, 1, &settings);
    struct catalog_tree *tree = bench.hands[0].tree;
    MUST(catalog_tree_ref(tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_split(ref, &error));
    snprintf(output, sizeof output, "data/%s/L1/2026/11/output.usv", ref->route.children[3]);
    options.output = output;
    struct hf_lock *lock =
        lock_with(&bench.hands[0].peer, "chunk:data/default/L0/2026/11/source.usv", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    for (int i = 0; i < 60; i++) { /* for longer than D */
        step(&bench.hands[0]);
        pass_ms(50);
    }
    MUST(hf_lock_fail(lock, "{\"blame\":\"nobody\",\"why\":\"a test\"}", &error));
    hf_lock_free(lock);
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

/* An ingest that died left an object that no catalog lists, and rejected rows are kept beside. */
static void what_no_catalog_lists_goes_too(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    static const char *const keys[] = { "data/default/L0/2026/11/dead.usv",
                                        ".holdfast/kept/data/default/L1/2026/11/x.usv.rejects",
                                        "data/other/L0/2026/11/stays.usv", "data/stays.usv",
                                        "defaults/stays" };
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 1);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct put_call put = { .key = view_of(keys[i]), .body = VIEW("x") };
        ASSERT(store_put(bench.world.truth, &put) == HF_OK);
    }
    shorten_wait(&bench, 1);
    drop_all(&bench.hands[0]);
    assert_int_equal(count_left(&bench, "data/default/"), 0);
    assert_int_equal(count_left(&bench, ".holdfast/kept/data/"), 0);
    assert_int_equal(count_left(&bench, "data/"), 2);
    assert_int_equal(count_left(&bench, "defaults/"), 1);
    bench_close(&bench);
}

static void a_worker_finishes_the_drop(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct catalog_ref *ref;
    struct hf_error error;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 4);
    MUST(catalog_tree_ref(bench.hands[0].tree, VIEW("default"), &ref, &error));
    MUST(catalog_ref_split(ref, &error));
    struct catalog_op op = { .kind = CATALOG_DROP }; /* a client marked one catalog, and died */
    MUST(catalog_ref_apply(ref, &op, (struct mono_time){ 0 }));
    for (int i = 0; i < 400; i++) {
        struct maintain_options options = { .short_lived = false };
        struct maintain_report report = { 0 };
        if (maintain_round(bench.hands[1].tree, &options, &report, &error) == HF_NOT_FOUND)
            break;
        pass_ms(25);
    }
    expect_gone(&bench);
    bench_close(&bench);
}

static void without_conditional_delete_a_document_says_so(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct hf_error error;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 2);
    for (size_t i = 0; i < 2; i++)
        bench.hands[i].tree->store->traits.delete_conditional = false;
    shorten_wait(&bench, 1);
    drop_all(&bench.hands[0]);
    assert_int_equal(count_left(&bench, "data/"), 0);
    assert_int_equal(count_left(&bench, "metadata/catalog.json"), 1);
    struct drop_report report;
    assert_int_equal(drop_count(bench.hands[1].tree, &report, &error), HF_NOT_FOUND);
    MUST(catalog_tree_create(bench.hands[1].tree, &settings, &error));
    bench_add(&bench, 2);
    assert_int_equal(bench_audit(&bench).live, 2);
    bench_close(&bench);
}

/* ---- What is in the way -------------------------------------------------------------- */

static void a_pin_keeps_its_chunk_and_the_catalog(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct hf_error error;
    struct hf_lock *pin;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[0]);
    char key[KEY_BYTES_MAX + 1];
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(order->sources[1].key));
    order_free(order);
    const char *keys[] = { key };
    MUST(pin_take(bench.hands[1].tree, keys, 1, 600000, &pin, &error));
    shorten_wait(&bench, 200);
    step(&bench.hands[0]);
    pass_ms(300);
    struct drop_report report = step(&bench.hands[0]);
    assert_int_equal(report.pinned, 1);
    pass_ms(300);
    report = step(&bench.hands[0]);
    assert_false(report.gone);
    assert_int_equal(count_left(&bench, "data/"), 1);
    MUST(hf_lock_release(pin, &error));
    hf_lock_free(pin);
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

static void clients_that_do_not_know_are_refused(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct hf_error error;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[1]);
    shorten_wait(&bench, 1);
    step(&bench.hands[0]);
    struct job_report job = run_job(&bench.hands[1], order);
    assert_true(job.end == HF_COMPACT_END_PASSED || job.end == HF_COMPACT_END_LOST);
    order_free(order);
    assert_int_equal(catalog_tree_create(bench.hands[1].tree, &settings, &error), HF_CONFLICT);
    assert_non_null(strstr(error.why, "being dropped"));
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

static void the_lease_of_a_dead_worker_is_settled_first(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[1]);
    hand_dies_with(&bench.hands[1], order, 300, output);
    order_free(order);
    shorten_wait(&bench, 1);
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

/* ---- Created again while another client is still at it ------------------------------- */

/* What others do before the slow client's next call. */
struct others {
    struct bench *bench;
    bool pauses; /* the new partition is paused at once */
};

static void finish_and_create_again(void *argument)
{
    struct others *others = argument;
    struct compact_settings settings = quick_settings();
    struct catalog_tree *tree = others->bench->hands[0].tree;
    struct hf_error error;
    drop_all(&others->bench->hands[0]);
    MUST(catalog_tree_create(tree, &settings, &error));
    bench_add(others->bench, 3);
    if (others->pauses)
        MUST(catalog_tree_pause(tree, VIEW("x"), VIEW("y"), &error));
}

/* Nothing is left to do but to remove the catalog, which lists no name any more. */
static void drop_until_spent(struct hand *hand)
{
    struct drop_report report;
    struct hf_error error;
    script_rule(&hand->peer.way, .name = "removal", .on = ON_LIST, .part = "data/default/",
                .fate = REFUSE(HF_DENIED));
    for (int i = 0; i < 400 && script_met(&hand->peer.way, "removal") == 0; i++) {
        drop_step(hand->tree, &plain, &report, &error);
        pass_ms(2);
    }
    ASSERT(script_met(&hand->peer.way, "removal") > 0);
    script_drop(&hand->peer.way, "removal");
}

/* One client drops a partition, and is slow at its call number n of a round in which there is
 * something to remove. Until that call is made, others have finished, and have created the
 * partition again. */
static void check_new_partition_stays(bool conditional)
{
    bool was_slow = true;
    for (unsigned n = 0; was_slow; n++) {
        struct bench bench;
        struct others others = { &bench, .pauses = conditional };
        struct compact_settings settings = quick_settings();
        struct maintain_options options = { .short_lived = true };
        struct maintain_report maintained = { 0 };
        struct hf_error error;
        char why[HF_WHY_MAX];
        bool paused = false;
        bench_open(&bench, 2, &settings);
        for (size_t i = 0; i < 2; i++)
            bench.hands[i].tree->store->traits.delete_conditional = conditional;
        bench_add(&bench, 2);
        shorten_wait(&bench, 1);
        drop_until_spent(&bench.hands[0]);
        world_write(&bench.world, "data/default/L0/2026/11/dead.usv", VIEW("x"));
        MUST(catalog_tree_pause(bench.hands[0].tree, VIEW("x"), VIEW("y"), &error));
        script_rule(&bench.hands[1].peer.way, .name = "slow", .skip = n, .times = 1,
                    .before = finish_and_create_again, .argument = &others);
        maintain_round(bench.hands[1].tree, &options, &maintained, &error);
        was_slow = script_met(&bench.hands[1].peer.way, "slow") > 0;
        if (was_slow) {
            struct audit audit = bench_audit(&bench);
            if (audit.live != 3 || audit.missing > 0)
                FAIL("slow at call %u: %zu of 3 chunks are live, %zu without an object", n,
                     audit.live, audit.missing);
            MUST(catalog_tree_is_paused(bench.hands[0].tree, &paused, why, &error));
            ASSERT(paused == others.pauses);
        }
        bench_close(&bench);
        ASSERT(n < 200);
    }
}

static void a_slow_worker_spares_what_was_created_again(void **state)
{
    (void)state;
    check_new_partition_stays(/* conditional */ true);
    check_new_partition_stays(/* conditional */ false);
}

static void come_near_the_end(void *argument)
{
    struct others *others = argument;
    drop_until_spent(&others->bench->hands[0]);
}

/* An ingest is slow twice: until the partition is as good as gone, and until it is there again. */
static void ingest_slowly(unsigned first, unsigned second, bool *ret_was_slow)
{
    struct bench bench;
    struct others others = { &bench, .pauses = false };
    struct compact_settings settings = quick_settings();
    struct ingest_options options = { .writer = VIEW("w"), .patience = SPAN_MS(500) };
    struct script *way = &bench.hands[1].peer.way;
    char path[4300];
    bench_open(&bench, 2, &settings);
    snprintf(path, sizeof path, "%s/file", bench.world.folder);
    FILE *written = fopen(path, "w");
    ASSERT(written && fputs("row-00000000\n", written) >= 0 && fclose(written) == 0);
    struct ingest_file file = { .path = path };
    shorten_wait(&bench, 100);
    script_rule(way, .name = "first", .skip = first, .times = 1, .before = come_near_the_end,
                .argument = &others);
    script_rule(way, .name = "second", .skip = second, .times = 1,
                .before = finish_and_create_again, .argument = &others);
    enum hf_status status =
        ingest_files(bench.hands[1].tree, &file, 1, &options, &(struct hf_error){ 0 });
    *ret_was_slow = script_met(way, "second") > 0;
    if (*ret_was_slow) {
        struct audit audit = bench_audit(&bench);
        if (audit.missing > 0 || audit.live != 3 + (status == HF_OK))
            FAIL("slow at calls %u and %u: %s, %zu chunks, %zu without an object", first,
                 second, hf_status_name(status), audit.live, audit.missing);
    }
    bench_close(&bench);
}

static void a_slow_ingest_adds_nothing_that_was_deleted(void **state)
{
    bool was_slow = true;
    (void)state;
    for (unsigned first = 0; was_slow; first++) {
        ingest_slowly(first, first + 2, &was_slow);
        ingest_slowly(first, first + 1, &was_slow);
    }
}

/* ---- Each call in turn --------------------------------------------------------------- */

/* Whichever call fails, the next steps finish. The first step is made before D has passed, so the
 * step that fails is one that removes. */
static void fail_each_call(struct fate fate, bool in_the_end)
{
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct bench bench;
        struct compact_settings settings = quick_settings();
        struct drop_report report;
        struct hf_error error;
        bench_open(&bench, 1, &settings);
        bench_add(&bench, 2);
        shorten_wait(&bench, 1);
        if (in_the_end) {
            step(&bench.hands[0]);
            pass_ms(2);
            step(&bench.hands[0]);
            pass_ms(2);
        }
        way_fail(&bench.hands[0].peer.way, n, fate);
        drop_step(bench.hands[0].tree, &plain, &report, &error);
        failed = way_has_failed(&bench.hands[0].peer.way);
        drop_all(&bench.hands[0]);
        expect_gone(&bench);
        bench_close(&bench);
        ASSERT(n < 200);
    }
}

static void whichever_call_is_refused(void **state)
{
    (void)state;
    fail_each_call(REFUSE(HF_UNAVAILABLE), false);
    fail_each_call(REFUSE(HF_UNAVAILABLE), true);
}

static void whichever_reply_is_lost(void **state)
{
    (void)state;
    fail_each_call(LOSE_REPLY, false);
    fail_each_call(LOSE_REPLY, true);
}

static void whichever_allocation_fails(void **state)
{
    struct bench bench;
    struct compact_settings settings = quick_settings();
    struct drop_report report;
    struct hf_error error;
    bool failed = true;
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 2);
    shorten_wait(&bench, 1);
    for (long n = 0; failed; n++) {
        alloc_fail_after(n);
        enum hf_status status = drop_step(bench.hands[0].tree, &plain, &report, &error);
        failed = alloc_stop();
        if (status == HF_NOT_FOUND || (status == HF_OK && report.gone))
            break;
    }
    drop_all(&bench.hands[0]);
    expect_gone(&bench);
    bench_close(&bench);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("everything of a partition goes, in time, and it can be created again",
           everything_goes_in_time),
        IT("a split partition goes with its children",
           a_split_partition_goes_with_its_children),
        IT("a child stays until the leases above have settled its outputs",
           a_child_stays_until_its_outputs_are_settled),
        IT("what no catalog lists goes too, and nothing of others",
           what_no_catalog_lists_goes_too),
        IT("a worker finishes a drop that a client began", a_worker_finishes_the_drop),
        IT("without conditional delete, a document says that nothing is left",
           without_conditional_delete_a_document_says_so),
        IT("a pin keeps its chunk, and the catalog", a_pin_keeps_its_chunk_and_the_catalog),
        IT("clients that do not know of the drop are refused",
           clients_that_do_not_know_are_refused),
        IT("the lease of a dead worker is settled first",
           the_lease_of_a_dead_worker_is_settled_first),
        IT("a slow worker spares a partition that was created again under the name",
           a_slow_worker_spares_what_was_created_again),
        IT("a slow ingest adds nothing that a drop has deleted",
           a_slow_ingest_adds_nothing_that_was_deleted),
        IT("whichever call is refused, the next steps finish", whichever_call_is_refused),
        IT("whichever reply is lost, the next steps finish", whichever_reply_is_lost),
        IT("whichever allocation fails, the next steps finish", whichever_allocation_fails),
    };
    if (!world_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
