/* SPDX-License-Identifier: Apache-2.0 */
/* worker_claim_test.c: what a worker does with a group that a job of its own has claimed in the
 * write that completed its lease, or could not claim. */
#include "job_kit.h"

#include <stdio.h>

/* A bucket with two groups, a worker that runs once and one job at a time, and another client. */
struct claim_scene {
    struct bench bench;
    struct order *groups[2];
    struct hf_lock *taken; /* by the other client */
};

static void scene_open(struct claim_scene *scene)
{
    struct compact_settings settings = bench_settings();
    *scene = (struct claim_scene){ .taken = NULL };
    bench_open(&scene->bench, 2, &settings);
    bench_add(&scene->bench, 6);
    for (size_t i = 0; i < 2; i++)
        scene->groups[i] = bench_order_at(&scene->bench.hands[1], i);
    assert_non_null(scene->groups[1]);
}

static void scene_close(struct claim_scene *scene)
{
    SOUND(&scene->bench);
    hf_lock_free(scene->taken);
    for (size_t i = 0; i < 2; i++)
        order_free(scene->groups[i]);
    bench_close(&scene->bench);
}

static struct hf_compact_totals run_once(struct claim_scene *scene)
{
    struct hand *hand = &scene->bench.hands[0];
    struct worker_options options = {
        .mode = HF_COMPACT_ONCE, .jobs = 1, .memory_bytes = 64 * MIB, .poll = SPAN_MS(10)
    };
    struct hf_compact_totals totals;
    struct hf_error error;
    struct worker *worker;
    MUST(worker_new(hand->tree, &hand->merger.merger, &options, &worker, &error));
    MUST(worker_run(worker, &totals, &error));
    worker_free(worker);
    return totals;
}

#define WRITES (ON_PUT | ON_CHANGE)

/* The catalog cannot be read right after the commit, so the next group cannot be claimed in the
 * write that completes the lease. */
static void refuse_reads(void *argument)
{
    script_rule((struct script *)argument, .name = "reads", .on = ON_GET,
                .part = "catalog.json", .times = 3, .fate = REFUSE(HF_UNAVAILABLE));
}

static void test_unread_catalog(void **state)
{
    struct claim_scene scene;
    (void)state;
    scene_open(&scene);
    struct script *way = &scene.bench.hands[0].peer.way;
    script_rule(way, .on = WRITES, .part = "catalog.json", .times = 1, .after = refuse_reads,
                .argument = way);
    struct hf_compact_totals totals = run_once(&scene);
    assert_int_equal(script_met(way, "reads"), 3);
    assert_int_equal(totals.groups_committed, 2);
    assert_int_equal(totals.claims_held, 0);
    scene_close(&scene);
}

/* The write itself is refused: neither is the first lease completed nor the second group
 * claimed. */
static void test_refused_write(void **state)
{
    struct claim_scene scene;
    (void)state;
    scene_open(&scene);
    struct script *way = &scene.bench.hands[0].peer.way;
    script_rule(way, .name = "completing", .on = WRITES, .part = "compaction-leases.json",
                .skip = 2, .times = 1, .fate = REFUSE(HF_UNSUPPORTED));
    struct hf_compact_totals totals = run_once(&scene);
    assert_int_equal(script_met(way, "completing"), 1);
    assert_int_equal(totals.groups_committed, 2);
    assert_int_equal(totals.claims_held, 0);
    scene_close(&scene);
}

/* Another worker leases the group that is not being merged. */
static void take_the_other(void *argument)
{
    struct claim_scene *scene = argument;
    for (size_t i = 0; i < 2 && !scene->taken; i++) {
        char scope[KEY_BYTES_MAX + 16];
        struct hf_error error;
        snprintf(scope, sizeof scope, "chunk:%.*s",
                 VIEW_ARGS(scene->groups[i]->sources[0].key));
        scene->taken = lock_of(&scene->bench.hands[1].peer, scope, 60000);
        if (hf_lock_acquire(scene->taken, 0, &error) == HF_OK)
            return;
        hf_lock_free(scene->taken);
        scene->taken = NULL;
    }
}

static void test_held_elsewhere(void **state)
{
    struct claim_scene scene;
    (void)state;
    scene_open(&scene);
    scene.bench.hands[0].merger.begins = take_the_other;
    scene.bench.hands[0].merger.argument = &scene;
    struct hf_compact_totals totals = run_once(&scene);
    assert_non_null(scene.taken);
    assert_int_equal(totals.groups_committed, 1);
    assert_int_equal(totals.claims_held, 1);
    assert_int_equal(hf_lock_check(scene.taken, NULL), HF_OK);
    scene_close(&scene);
}

/* Of ten groups, the first is claimed alone, and then four, four and one. */
static void test_several_at_once(void **state)
{
    struct claim_scene scene;
    (void)state;
    scene_open(&scene);
    bench_add(&scene.bench, 24);
    struct script *way = &scene.bench.hands[0].peer.way;
    script_rule(way, .name = "leases", .on = WRITES, .part = "compaction-leases.json");
    struct hf_compact_totals totals = run_once(&scene);
    assert_int_equal(totals.groups_committed, 10);
    assert_int_equal(script_met(way, "leases"), 6); /* the first of which creates the table */
    assert_int_equal(bench_audit(&scene.bench).open_leases, 0);
    scene_close(&scene);
}

/* The second job of a batch fails: the lease of the first, which is done, is completed, and the
 * others are merged. */
static void fail_second(void *argument)
{
    struct line_merger *merger = argument;
    merger->fails = atomic_load(&merger->made) == 3 ? HF_UNAVAILABLE : HF_OK;
}

static void test_one_of_several_fails(void **state)
{
    struct claim_scene scene;
    (void)state;
    scene_open(&scene);
    bench_add(&scene.bench, 24);
    struct line_merger *merger = &scene.bench.hands[0].merger;
    merger->begins = fail_second;
    merger->argument = merger;
    struct hf_compact_totals totals = run_once(&scene);
    assert_int_equal(totals.groups_committed, 9);
    assert_int_equal(totals.groups_failed, 1);
    assert_int_equal(bench_audit(&scene.bench).open_leases, 0);
    assert_int_equal(bench_audit(&scene.bench).tries, 0);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a group whose claim failed before the write stays in the plan",
           test_unread_catalog),
        IT("a group whose claim was not written stays in the plan, and is not taken for held",
           test_refused_write),
        IT("a group that another worker has leased is left to it", test_held_elsewhere),
        IT("small groups are claimed four at a time, and their leases completed together",
           test_several_at_once),
        IT("if one of several groups fails, the others are merged, and no lease is left",
           test_one_of_several_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
