/* SPDX-License-Identifier: Apache-2.0 */
/* worker_pool_test.c: the tasks that help with batches of requests. Time passes a hundred times as
 * fast as it does, so that helpers that are not needed end within the test. */
#include "store/remote/worker_pool.h"
#include "test.h"

#include <stdatomic.h>

#define TIMES       100
#define PATIENCE_MS 20000

static struct env fast;
static struct env_ops fast_ops;
static struct mono_time begun;

static struct mono_time fast_now(struct env *env)
{
    (void)env;
    return mono_add(begun, SPAN_US(TIMES * mono_since(env_now(env_real()), begun).us));
}

static bool fast_cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                                 struct mono_time moment)
{
    if (moment.us < MOMENT_FAR)
        moment = mono_add(begun, SPAN_US(mono_since(moment, begun).us / TIMES));
    return env_real()->ops->cond_wait_until(cond, mutex, moment);
}

static int make_fast(void **state)
{
    (void)state;
    fast_ops = *env_real()->ops;
    fast_ops.now = fast_now;
    fast_ops.cond_wait_until = fast_cond_wait_until;
    fast.ops = &fast_ops;
    begun = env_now(env_real());
    return 0;
}

/* ---- Batches ------------------------------------------------------------------------- */

#define COUNT_MAX 200

struct counted {
    atomic_int runs[COUNT_MAX];
    atomic_int now, most; /* at the same time */
};

static void count_run(void *argument, size_t index)
{
    struct counted *counted = argument;
    int now = atomic_fetch_add(&counted->now, 1) + 1, most = atomic_load(&counted->most);
    while (now > most && !atomic_compare_exchange_weak(&counted->most, &most, now))
        continue;
    env_sleep(env_real(), SPAN_MS(1));
    atomic_fetch_add(&counted->runs[index], 1);
    atomic_fetch_sub(&counted->now, 1);
}

static void run_batch(struct worker_pool *workers, size_t width, size_t count)
{
    struct counted counted = { .now = 0 };
    worker_pool_run(workers, width, count, count_run, &counted);
    for (size_t i = 0; i < COUNT_MAX; i++)
        assert_int_equal(atomic_load(&counted.runs[i]), i < count);
    assert_in_range(atomic_load(&counted.most), count > 0, width);
}

static size_t helpers(struct worker_pool *workers)
{
    env_mutex_lock(&workers->shared.mutex);
    size_t started = workers->shared.started;
    env_mutex_unlock(&workers->shared.mutex);
    return started;
}

static bool has_at_most(struct worker_pool *workers, size_t most)
{
    for (int i = 0; i < PATIENCE_MS && helpers(workers) > most; i++)
        env_sleep(env_real(), SPAN_MS(1));
    return helpers(workers) <= most;
}

static void each_index_runs_once(void **state)
{
    struct worker_pool workers;
    (void)state;
    worker_pool_init(&workers, &fast, 7);
    run_batch(&workers, 8, 0);
    run_batch(&workers, 8, 1);
    assert_int_equal(helpers(&workers), 0);
    run_batch(&workers, 8, 2);
    run_batch(&workers, 3, COUNT_MAX);
    run_batch(&workers, 100, COUNT_MAX);
    assert_in_range(helpers(&workers), 1, 7);
    worker_pool_release(&workers);
}

static void helpers_of_a_burst_end(void **state)
{
    struct worker_pool workers;
    (void)state;
    worker_pool_init(&workers, &fast, 15);
    for (int i = 0; i < 3; i++) {
        run_batch(&workers, 16, COUNT_MAX);
        assert_in_range(helpers(&workers), 1, 15);
        assert_true(has_at_most(&workers, 0));
    }
    worker_pool_release(&workers);
}

static void small_batches_keep_few(void **state)
{
    struct worker_pool workers;
    (void)state;
    worker_pool_init(&workers, &fast, 15);
    run_batch(&workers, 16, COUNT_MAX);
    for (int i = 0; i < PATIENCE_MS && helpers(&workers) > 3; i++)
        run_batch(&workers, 4, 8);
    assert_in_range(helpers(&workers), 0, 3);
    run_batch(&workers, 16, COUNT_MAX);
    worker_pool_release(&workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("each index of a batch runs once, at most as many at a time as were asked for",
           each_index_runs_once),
        IT("helpers that a burst has started end, and others start for the next one",
           helpers_of_a_burst_end),
        IT("small batches keep only the helpers that they need", small_batches_keep_few),
    };
    return cmocka_run_group_tests(tests, make_fast, NULL);
}
