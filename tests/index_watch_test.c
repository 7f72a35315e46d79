/* SPDX-License-Identifier: Apache-2.0 */
/* index_watch_test.c KIND: compilers that watch: which shard is next, and which compiler does
 * it. KIND is mem or sqlite. */
#include "base/check.h"
#include "index_scene.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Watching ------------------------------------------------------------------------ */

static bool is_stopped(void *argument)
{
    struct scene *scene = argument;
    return atomic_load(&scene->stop);
}

static void tell(void *argument, const struct compile_report *report)
{
    struct scene *scene = argument;
    scene->told++;
    scene->ended[report->end]++;
}

static struct compile_options watching(struct scene *scene)
{
    struct compile_options options = COMPILE_OPTIONS;
    options.stop = is_stopped;
    options.tell = tell;
    options.argument = scene;
    options.poll = SPAN_MS(20);
    return options;
}

struct watcher {
    struct scene *scene;
    struct crew *crew;
    struct compile_options options;
    struct hf_index_compile_report totals;
    enum hf_status status;
    struct hf_error error;
};

static void watch(void *argument)
{
    struct watcher *watcher = argument;
    watcher->status = index_compile(watcher->crew->index, &watcher->options, &watcher->totals,
                                    &watcher->error);
}

/* Looks every few milliseconds until the inbox is empty; false after 20 s. */
static bool runs_dry(struct scene *scene)
{
    struct env *env = env_real();
    struct mono_time end = mono_add(env_now(env), SPAN_S(20));
    while (mono_before(env_now(env), end)) {
        struct list_call list = { .prefix = VIEW("indexes/domains/inbox/"), .max = 1 };
        assert_status(HF_OK, store_list(scene->yard.store.inner, &list), &list.error);
        size_t count = list.count;
        list_release(&list);
        if (count == 0)
            return true;
        env_sleep(env, SPAN_MS(5));
    }
    return false;
}

static void run_watchers(struct scene *scene, struct watcher *watchers, size_t count,
                         void (*meanwhile)(struct scene *scene))
{
    struct env *env = env_real();
    struct env_task *tasks[2];
    for (size_t i = 0; i < count; i++) {
        watchers[i].scene = scene;
        assert_status(HF_OK, env_task_start(env, watch, &watchers[i], &tasks[i], &scene->error),
                      &scene->error);
    }
    meanwhile(scene);
    bool dry = runs_dry(scene);
    struct mono_time start = env_now(env);
    atomic_store(&scene->stop, true);
    for (size_t i = 0; i < count; i++)
        env_task_join(env, tasks[i]);
    print_message("# stopped within %lld ms\n",
                  (long long)mono_since(env_now(env), start).us / 1000);
    assert_true(dry);
    for (size_t i = 0; i < count; i++)
        assert_status(HF_OK, watchers[i].status, &watchers[i].error);
}

static void put_in_rounds(struct scene *scene)
{
    struct crew writer;
    crew_open(&writer, scene->yard.store.inner);
    for (size_t i = 0; i < 10; i++) {
        char shard[3];
        snprintf(shard, sizeof shard, "%02zx", i * 7);
        crew_fill(&writer, shard, "w", i * 20, 20, "v");
    }
    crew_close(&writer);
}

static void a_watcher_folds_and_stops(void **state)
{
    struct scene *scene = *state;
    struct watcher watcher = { .crew = &scene->other, .options = watching(scene) };
    run_watchers(scene, &watcher, 1, put_in_rounds);
    assert_int_equal(watcher.totals.folded.records_new, 200);
    assert_int_equal(watcher.totals.folded.deleted, 200);
    assert_int_equal(scene->ended[HF_INDEX_END_FAILED] + scene->ended[HF_INDEX_END_LOST], 0);
    assert_int_equal(scene_keys(scene), 200);
    assert_true(yard_has(&scene->yard, "manifest.json"));
}

static void a_watcher_of_much_picks_at_random(void **state)
{
    struct scene *scene = *state;
    struct watcher watcher = { .crew = &scene->other, .options = watching(scene) };
    watcher.options.few = 10;
    run_watchers(scene, &watcher, 1, put_in_rounds);
    assert_int_equal(watcher.totals.folded.records_new, 200);
    assert_int_equal(scene_keys(scene), 200);
}

static void a_watcher_of_one_shard_leaves_the_others(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = watching(scene);
    crew_fill(&scene->other, "07", "k", 0, 5, "v");
    crew_fill(&scene->other, "a3", "k", 0, 5, "v");
    atomic_store(&scene->stop, true);
    struct hf_index_compile_report totals;
    options.shard = A3;
    assert_status(HF_OK, index_compile(scene->other.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_int_equal(totals.shards_done, 0);
    options.once = true;
    assert_status(HF_CANCELLED,
                  index_compile(scene->other.index, &options, &totals, &scene->error),
                  &scene->error);
    atomic_store(&scene->stop, false);
    assert_status(HF_OK, index_compile(scene->other.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_int_equal(totals.shards_done, 1);
    assert_int_equal(scene_waiting(scene, (struct shard_id){ "07" }), 5);
    assert_int_equal(scene_waiting(scene, A3), 0);
}

static void little_is_done_in_one_pass(void **state)
{
    struct scene *scene = *state;
    struct compile_options options = watching(scene);
    struct hf_index_compile_report totals;
    /* The first lock of a shard looks whether there is one. */
    put_in_rounds(scene);
    crew_compile(&scene->other);
    put_in_rounds(scene);
    options.once = true;
    meter_reset(&scene->yard.meter);
    assert_status(HF_OK, index_compile(scene->other.index, &options, &totals, &scene->error),
                  &scene->error);
    assert_int_equal(scene->told, 10);
    assert_int_equal(scene->ended[HF_INDEX_END_DONE], 10);
    /* Flat ones twice, the folders, and each folder once. */
    assert_int_equal(yard_calls(&scene->yard, CALL_LIST), 3 + 10);
}

static void two_compilers_share_the_work(void **state)
{
    struct scene *scene = *state;
    struct crew second;
    crew_open(&second, scene->yard.store.inner);
    struct watcher watchers[2] = { { .crew = &scene->other, .options = watching(scene) },
                                   { .crew = &second, .options = watching(scene) } };
    watchers[0].options.tell = watchers[1].options.tell = NULL;
    watchers[1].options.few = 10;
    run_watchers(scene, watchers, 2, put_in_rounds);
    uint64_t cleared = 0;
    for (size_t i = 0; i < 2; i++) {
        cleared += watchers[i].totals.folded.deleted;
        assert_int_equal(watchers[i].totals.shards_failed, 0);
    }
    assert_true(cleared >= 200);
    crew_close(&second);
    assert_int_equal(scene_keys(scene), 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("a watcher folds what comes, and stops when it is told to",
                 a_watcher_folds_and_stops),
        COMPILES("a watcher that finds much picks shards at random until all is done",
                 a_watcher_of_much_picks_at_random),
        COMPILES("one shard can be compiled alone, and a stop is obeyed before it begins",
                 a_watcher_of_one_shard_leaves_the_others),
        COMPILES("little is done in one pass over the shards that have entries",
                 little_is_done_in_one_pass),
        COMPILES("two compilers share the work, and nothing is lost",
                 two_compilers_share_the_work),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
