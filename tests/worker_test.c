/* SPDX-License-Identifier: Apache-2.0 */
/* worker_test.c: workers, alone and several at once: their work, their cost, and what they
 * leave. */
#include "alloc.h"
#include "base/hash.h"
#include "fault_store.h"
#include "job_kit.h"
#include "meter.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct worker_options options_of(enum hf_compact_mode mode)
{
    return (struct worker_options){ .mode = mode,
                                    .jobs = 2,
                                    .memory_bytes = 64 * MIB,
                                    .poll = SPAN_MS(10),
                                    .beat = SPAN_MS(500) };
}

static struct hf_compact_totals run_worker(struct hand *hand, struct worker_options options,
                                           enum hf_status expected)
{
    struct hf_error error;
    struct worker *worker;
    struct hf_compact_totals totals;
    MUST(worker_new(hand->tree, &hand->merger.merger, &options, &worker, &error));
    assert_status(expected, worker_run(worker, &totals, &error), &error);
    worker_free(worker);
    return totals;
}

/* ---- Alone --------------------------------------------------------------------------- */

static void test_once(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 9);
    struct hf_compact_totals totals =
        run_worker(&bench.hands[0], options_of(HF_COMPACT_ONCE), HF_OK);
    assert_int_equal(totals.groups_committed, 3);
    assert_int_equal(totals.rows_in, 18);
    assert_int_equal(totals.bytes_in_vain, 0);
    assert_int_equal(totals.claims, 3);
    SOUND(&bench);
    assert_int_equal(bench_audit(&bench).live, 3);
    bench_close(&bench);
}

static void test_drain_leaves_nothing_to_do(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 30);
    struct hf_compact_totals totals =
        run_worker(&bench.hands[0], options_of(HF_COMPACT_DRAIN), HF_OK);
    assert_true(totals.groups_committed >= 10);
    SOUND(&bench);
    struct order *order = bench_order(&bench.hands[0]);
    assert_null(order);
    bench_close(&bench);
}

static void test_force(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    struct worker_options options = options_of(HF_COMPACT_DRAIN);
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 2);
    assert_int_equal(run_worker(&bench.hands[0], options, HF_OK).groups_committed, 0);
    options.force = true;
    assert_int_equal(run_worker(&bench.hands[0], options, HF_OK).groups_committed, 1);
    SOUND(&bench);
    bench_close(&bench);
}

/* Without a catalog there is nothing to wait for. */
static void test_no_catalog(void **state)
{
    struct hf_error error;
    struct bench bench = { .count = 1 };
    struct worker_options options = options_of(HF_COMPACT_DRAIN);
    struct hf_compact_totals totals;
    struct worker *worker;
    (void)state;
    world_open(&bench.world);
    hand_open(&bench, &bench.hands[0]);
    MUST(worker_new(bench.hands[0].tree, &bench.hands[0].merger.merger, &options, &worker,
                    &error));
    IS(HF_NOT_FOUND, worker_run(worker, &totals, &error));
    worker_free(worker);
    bench_close(&bench);
}

static void test_refuses_options(void **state)
{
    struct hf_error error;
    struct worker *worker;
    struct catalog_tree tree = { 0 };
    struct worker_options options = options_of(HF_COMPACT_ONCE);
    (void)state;
    options.jobs = 0;
    IS(HF_INVALID, worker_new(&tree, NULL, &options, &worker, &error));
    options.jobs = HF_COMPACT_JOBS_MAX + 1;
    IS(HF_INVALID, worker_new(&tree, NULL, &options, &worker, &error));
    options.jobs = 9;
    IS(HF_INVALID, worker_new(&tree, NULL, &options, &worker, &error));
}

/* ---- Requests ------------------------------------------------------------------------ */

/* A bucket in a file, which each opens for itself. */
static char *open_in_file(struct bench *bench, const char *kind,
                          const struct compact_settings *settings)
{
    struct hf_error error;
    char *folder = test_dir_make();
    *bench = (struct bench){ .count = 1 };
    snprintf(bench->world.url, sizeof bench->world.url, "%s:%s/b", kind, folder);
    MUST(store_open(env_real(), view_of(bench->world.url), &bench->world.truth, &error));
    hand_open(bench, &bench->hands[0]);
    MUST(catalog_tree_create(bench->hands[0].tree, settings, &error));
    return folder;
}

static void close_in_file(struct bench *bench, char *folder)
{
    hand_close(&bench->hands[0]);
    store_close(bench->world.truth);
    test_dir_remove(folder);
}

static uint64_t calls_so_far(struct meter *meter)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    uint64_t calls = 0;
    meter_read(meter, kinds);
    for (int i = 0; i < CALL_KIND_COUNT; i++)
        calls += kinds[i].calls;
    return calls;
}

/* Each run is a process of its own. */
static uint64_t count_run(struct world *world, enum hf_status *ret_status)
{
    struct hf_error error;
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    struct worker_options options = options_of(HF_COMPACT_ONCE);
    struct store *inner, *store;
    struct hand hand = { .tree = NULL };
    struct hf_client *client;
    struct worker *worker;
    struct hf_compact_totals totals;
    struct meter meter;
    options.jobs = 1;
    options.beat = SPAN_MS(3600000); /* a run that outlives a beat beats once more */
    meter_init(&meter, env_real());
    MUST(store_open(env_real(), view_of(world->url), &inner, &error));
    MUST(store_observe(inner, meter_observer(&meter), &store, &error));
    MUST(client_new(store, &client_options, &client, &error));
    MUST(catalog_tree_open(store, client, VIEW("default"), &hand.tree, &error));
    merger_init(&hand.merger, store);
    MUST(worker_new(hand.tree, &hand.merger.merger, &options, &worker, &error));
    *ret_status = worker_run(worker, &totals, &error);
    uint64_t calls = calls_so_far(&meter);
    worker_free(worker);
    catalog_tree_close(hand.tree);
    hf_client_close(client);
    store_close(store);
    meter_release(&meter);
    return calls;
}

static void test_requests(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    enum hf_status status;
    (void)state;
    settings.grace_ms = 3600000;
    char *folder = open_in_file(&bench, "dir", &settings);
    bench_add(&bench, 3);
    count_run(&bench.world, &status); /* the lease table is born */
    assert_int_equal(count_run(&bench.world, &status), worker_requests(0, 0));
    bench_add(&bench, 3);
    assert_int_equal(count_run(&bench.world, &status), worker_requests(1, 3));
    bench_add(&bench, 12);
    assert_int_equal(count_run(&bench.world, &status), worker_requests(4, 12));
    assert_int_equal(status, HF_OK);
    close_in_file(&bench, folder);
}

/* ---- Several ------------------------------------------------------------------------- */

struct shift {
    struct hand *hand;
    struct worker_options options;
    struct hf_compact_totals totals;
    struct hf_error error;
};

static void work_a_shift(void *argument)
{
    struct shift *shift = argument;
    struct worker *worker;
    if (worker_new(shift->hand->tree, &shift->hand->merger.merger, &shift->options, &worker,
                   &shift->error) != HF_OK)
        return;
    worker_run(worker, &shift->totals, &shift->error);
    worker_free(worker);
}

static void run_shifts(struct bench *bench, struct shift *shifts, size_t count,
                       struct worker_options options)
{
    struct hf_error error;
    struct env_task *tasks[HANDS_MAX];
    for (size_t i = 0; i < count; i++) {
        shifts[i] = (struct shift){ .hand = &bench->hands[i], .options = options };
        MUST(env_task_start(env_real(), work_a_shift, &shifts[i], &tasks[i], &error));
    }
    for (size_t i = 0; i < count; i++)
        env_task_join(env_real(), tasks[i]);
}

static void test_four_workers(void **state)
{
    struct bench bench;
    struct shift shifts[HANDS_MAX];
    struct compact_settings settings = bench_settings();
    uint64_t committed = 0, in_vain = 0;
    (void)state;
    bench_open(&bench, HANDS_MAX, &settings);
    bench_add(&bench, 90);
    run_shifts(&bench, shifts, HANDS_MAX, options_of(HF_COMPACT_DRAIN));
    for (size_t i = 0; i < HANDS_MAX; i++) {
        assert_string_equal(shifts[i].error.why, "");
        committed += shifts[i].totals.groups_committed;
        in_vain += shifts[i].totals.bytes_in_vain;
    }
    SOUND(&bench);
    assert_true(committed >= 30);
    assert_int_equal(in_vain, 0);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.orphans, 0);
    assert_int_equal(audit.open_leases, 0);
    bench_close(&bench);
}

static void test_takes_over(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    char output[KEY_BYTES_MAX + 1];
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 3);
    struct order *order = bench_order(&bench.hands[0]);
    hand_dies_with(&bench.hands[1], order, 300, output);
    struct hf_compact_totals totals =
        run_worker(&bench.hands[0], options_of(HF_COMPACT_DRAIN), HF_OK);
    /* Halved after a try: two are merged, and one is tested. */
    assert_int_equal(totals.groups_committed, 1);
    assert_int_equal(totals.takeovers, 1);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.orphans, 0);
    order_free(order);
    bench_close(&bench);
}

static void open_faulty(struct bench *bench, struct hand *hand, struct fault_plan plan)
{
    struct hf_error error;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct store *inner, *store;
    options.skew_tolerance_ms = 0;
    MUST(store_open(env_real(), view_of(bench->world.url), &inner, &error));
    MUST(store_fault(inner, &plan, &store, &error));
    MUST(client_new(store, &options, &hand->peer.client, &error));
    MUST(catalog_tree_open(store, hand->peer.client, VIEW("default"), &hand->tree, &error));
    merger_init(&hand->merger, store);
}

static void close_faulty(struct hand *hand)
{
    struct store *store = hand->tree->store;
    catalog_tree_close(hand->tree);
    hf_client_close(hand->peer.client);
    store_close(store);
}

/* A store that goes wrong all the time, then calm. */
static void test_chaos_then_calm(void **state)
{
    struct fault_plan plan = { .seed = 7,
                               .throttle = 20000,
                               .refuse = 20000,
                               .lose = 20000,
                               .lose_reply = 20000,
                               .late = 20000,
                               .late_max = SPAN_MS(50) };
    struct bench bench;
    struct shift shifts[2];
    struct compact_settings settings = bench_settings();
    (void)state;
    settings.ttl_ms = 300;
    char *folder = open_in_file(&bench, "sqlite", &settings);
    bench_add(&bench, 30);
    struct hand own = bench.hands[0];
    for (size_t i = 0; i < 2; i++, plan.seed++)
        open_faulty(&bench, &bench.hands[i], plan);
    run_shifts(&bench, shifts, 2, options_of(HF_COMPACT_ONCE));
    SOUND(&bench);
    for (size_t i = 0; i < 2; i++)
        store_fault_calm(bench.hands[i].tree->store);
    SOUND(&bench);
    run_shifts(&bench, shifts, 2, options_of(HF_COMPACT_DRAIN));
    bench_settle_down(&bench);
    SOUND(&bench);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.orphans, 0);
    assert_int_equal(audit.lingering, 0);
    for (size_t i = 0; i < 2; i++)
        close_faulty(&bench.hands[i]);
    bench.hands[0] = own;
    close_in_file(&bench, folder);
}

/* ---- Watching, pausing, stopping ----------------------------------------------------- */

struct watch {
    struct worker *worker;
    struct hf_compact_totals totals;
    struct hf_error error;
    struct env_task *task;
    atomic_uint committed, paused, trouble, planned;
    char why[HF_WHY_MAX]; /* of the last trouble */
};

static void hear(void *argument, const struct worker_notice *notice)
{
    struct watch *watch = argument;
    if (notice->event == HF_COMPACT_ENDED && notice->report->end == HF_COMPACT_END_COMMITTED)
        atomic_fetch_add(&watch->committed, 1);
    if (notice->event == HF_COMPACT_PAUSED)
        atomic_fetch_add(&watch->paused, 1);
    if (notice->event == HF_COMPACT_PLANNED)
        atomic_fetch_add(&watch->planned, 1);
    if (notice->event == HF_COMPACT_TROUBLE) {
        snprintf(watch->why, sizeof watch->why, "%s", notice->why);
        atomic_fetch_add(&watch->trouble, 1);
    }
}

static void run_watch(void *argument)
{
    struct watch *watch = argument;
    worker_run(watch->worker, &watch->totals, &watch->error);
}

static void watch_start(struct watch *watch, struct hand *hand)
{
    struct hf_error error;
    struct worker_options options = options_of(HF_COMPACT_WATCH);
    *watch = (struct watch){ .worker = NULL };
    options.tell = hear;
    options.argument = watch;
    MUST(worker_new(hand->tree, &hand->merger.merger, &options, &watch->worker, &error));
    MUST(env_task_start(env_real(), run_watch, watch, &watch->task, &error));
}

static void watch_stop(struct watch *watch)
{
    worker_stop(watch->worker);
    env_task_join(env_real(), watch->task);
    worker_free(watch->worker);
}

static void wait_for(atomic_uint *number, unsigned least)
{
    for (int i = 0; i < 1000 && atomic_load(number) < least; i++)
        pass_ms(5);
    assert_true(atomic_load(number) >= least);
}

static void test_watches(void **state)
{
    struct bench bench;
    struct watch watch;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 2, &settings);
    watch_start(&watch, &bench.hands[1]);
    bench_add(&bench, 3);
    wait_for(&watch.committed, 1);
    bench_add(&bench, 3);
    wait_for(&watch.committed, 2);
    watch_stop(&watch);
    assert_int_equal(watch.error.status, HF_OK);
    SOUND(&bench);
    struct list_call list = { .prefix = VIEW("roster/") };
    assert_int_equal(store_list(bench.world.truth, &list), HF_OK);
    assert_int_equal(list.count, 0);
    list_release(&list);
    bench_close(&bench);
}

static void test_pause(void **state)
{
    struct bench bench;
    struct watch watch;
    struct hf_error error;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 2, &settings);
    MUST(catalog_tree_pause(bench.hands[0].tree, VIEW("moving house"), VIEW("me"), &error));
    bench_add(&bench, 3);
    run_worker(&bench.hands[0], options_of(HF_COMPACT_ONCE), HF_UNAVAILABLE);
    watch_start(&watch, &bench.hands[1]);
    wait_for(&watch.paused, 1);
    assert_int_equal(atomic_load(&watch.committed), 0);
    MUST(catalog_tree_resume(bench.hands[0].tree, &error));
    wait_for(&watch.committed, 1);
    watch_stop(&watch);
    SOUND(&bench);
    bench_close(&bench);
}

struct blockade {
    atomic_uint reached;
    atomic_bool open;
};

static void hold_up(void *argument)
{
    struct blockade *blockade = argument;
    atomic_fetch_add(&blockade->reached, 1);
    for (int i = 0; i < 1000 && !atomic_load(&blockade->open); i++)
        pass_ms(5);
}

static void test_stops_in_order(void **state)
{
    struct bench bench;
    struct watch watch;
    struct blockade blockade = { 0 };
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 2, &settings);
    bench.hands[1].merger.begins = hold_up;
    bench.hands[1].merger.argument = &blockade;
    bench_add(&bench, 3);
    watch_start(&watch, &bench.hands[1]);
    wait_for(&blockade.reached, 1);
    worker_stop(watch.worker);
    atomic_store(&blockade.open, true);
    watch_stop(&watch);
    assert_int_equal(watch.totals.groups_committed, 0);
    struct audit audit = bench_audit(&bench);
    assert_int_equal(audit.live, 3);
    assert_int_equal(audit.open_leases, 0);
    assert_int_equal(audit.tries, 0);
    SOUND(&bench);
    bench_close(&bench);
}

static void test_corrupt_catalog_is_told(void **state)
{
    struct bench bench;
    struct watch watch;
    struct compact_settings settings = bench_settings();
    (void)state;
    bench_open(&bench, 1, &settings);
    world_write(&bench.world, "metadata/catalog.json", VIEW("no catalog"));
    run_worker(&bench.hands[0], options_of(HF_COMPACT_DRAIN), HF_CORRUPT);
    watch_start(&watch, &bench.hands[0]);
    wait_for(&watch.trouble, 1);
    watch_stop(&watch);
    bench_close(&bench);
}

static struct fate be_slow_and_silent(void *argument, struct script_call *call)
{
    (void)argument;
    (void)call;
    env_sleep(env_real(), SPAN_MS(60));
    return REFUSE(HF_UNAVAILABLE);
}

/* A plan that was only waited for is not made up for by waiting five times as long. */
static void test_gives_up_on_a_store_that_is_gone(void **state)
{
    struct bench bench;
    struct compact_settings settings = bench_settings();
    struct mono_time begun = env_now(env_real());
    (void)state;
    bench_open(&bench, 1, &settings);
    bench_add(&bench, 3);
    script_rule(&bench.hands[0].peer.way, .on = ON_GET | ON_LIST | ON_PUT,
                .decide = be_slow_and_silent);
    run_worker(&bench.hands[0], options_of(HF_COMPACT_ONCE), HF_UNAVAILABLE);
    int64_t took_ms = mono_since(env_now(env_real()), begun).us / 1000;
    script_reset(&bench.hands[0].peer.way);
    /* It plans five times, each time some 60 ms a request: before, that took 6 s. */
    if (took_ms >= 3500)
        fail_msg("it took %lld ms", (long long)took_ms);
    bench_close(&bench);
}

/* All that the table granted may still be held: so long nothing is granted, and that is told. */
static void test_damaged_table_is_replaced(void **state)
{
    static const enum hf_compact_mode modes[] = { HF_COMPACT_ONCE, HF_COMPACT_DRAIN };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        struct watch watch;
        struct compact_settings settings = bench_settings();
        bench_open(&bench, 1, &settings);
        bench_add(&bench, 3);
        world_write(&bench.world, LAYOUT_EPOCH_FOLDER "default.json",
                    VIEW("{\"format\":\"" LAYOUT_EPOCH_FORMAT "\",\"epoch\":0}"));
        world_write(&bench.world, "metadata/compaction-leases.json", VIEW("{\"format\":"));
        struct hf_compact_totals totals =
            run_worker(&bench.hands[0], options_of(modes[i]), HF_UNAVAILABLE);
        assert_int_equal(totals.groups_committed, 0);
        char *text = world_text(&bench.world, "metadata/compaction-leases.json");
        assert_non_null(strstr(text, "replaced a damaged table"));
        free(text);
        watch_start(&watch, &bench.hands[0]);
        wait_for(&watch.trouble, 1);
        watch_stop(&watch);
        assert_non_null(strstr(watch.why, "nothing is granted until the lease table"));
        assert_int_equal(atomic_load(&watch.trouble), 1);
        SOUND(&bench);
        bench_close(&bench);
    }
}

static void test_same_plan_is_told_once(void **state)
{
    struct bench bench;
    struct watch watch;
    struct compact_settings settings = bench_settings();
    unsigned looks = 0;
    (void)state;
    bench_open(&bench, 2, &settings);
    bench_add(&bench, 1);
    watch_start(&watch, &bench.hands[1]);
    for (int i = 0; i < 1000 && looks < 30; i++) {
        pass_ms(5);
        looks += script_counts(&bench.hands[1].peer.way).looks;
    }
    assert_true(looks >= 30); /* several plans */
    assert_int_equal(atomic_load(&watch.planned), 1);
    bench_add(&bench, 2);
    wait_for(&watch.committed, 1);
    wait_for(&watch.planned, 3);
    watch_stop(&watch);
    bench_close(&bench);
}

static void test_each_allocation(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 0; failed; n += 1 + n / 40) {
        struct bench bench;
        struct compact_settings settings = bench_settings();
        struct worker_options options = options_of(HF_COMPACT_ONCE);
        struct worker *worker;
        struct hf_compact_totals totals;
        bench_open(&bench, 1, &settings);
        bench_add(&bench, 3);
        alloc_fail_after(n);
        if (worker_new(bench.hands[0].tree, &bench.hands[0].merger.merger, &options, &worker,
                       NULL) == HF_OK) {
            worker_run(worker, &totals, NULL);
            worker_free(worker);
        }
        failed = alloc_stop();
        SOUND(&bench);
        bench_close(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("one run merges the groups of one plan", test_once),
        IT("draining leaves nothing to do", test_drain_leaves_nothing_to_do),
        IT("force merges what is below the thresholds", test_force),
        IT("a run without a catalog says so", test_no_catalog),
        IT("options out of range are refused", test_refuses_options),
        IT("a run does as many requests as it says", test_requests),
        IT("four workers share the work and waste nothing", test_four_workers),
        IT("what a dead worker had is taken over", test_takes_over),
        IT("when a store goes wrong nothing is lost, and all is settled once it is calm",
           test_chaos_then_calm),
        IT("who watches merges what comes", test_watches),
        IT("nothing is begun while compaction is paused", test_pause),
        IT("a stop gives the lease back, and counts against nobody", test_stops_in_order),
        IT("a corrupt catalog is told", test_corrupt_catalog_is_told),
        IT("a run gives up on a store that is gone, and not after five times as long",
           test_gives_up_on_a_store_that_is_gone),
        IT("a damaged lease table is replaced, and why nothing is granted is told",
           test_damaged_table_is_replaced),
        IT("a plan like the one before is not told", test_same_plan_is_told_once),
        IT("whichever allocation fails, nothing is lost", test_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
