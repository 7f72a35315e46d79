/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: worker threads with one queue. It guards against a queue that grows without bound while
 * the store does not respond. */
#include "serve/calls/pool.h"

#include "base/check.h"

#include <stdlib.h>

struct job_list {
    struct pool_job *first, *last;
};

struct pool {
    struct env *env;
    struct pool_options options;
    struct env_task *tasks[POOL_WORKERS_MAX];
    unsigned started;
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    struct job_list waiting, ended;
    size_t jobs; /* submitted and not taken */
    bool stopping;
};

static void append_job(struct job_list *list, struct pool_job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

static struct pool_job *take_job(struct job_list *list)
{
    struct pool_job *job = list->first;
    if (job && !(list->first = job->next))
        list->last = NULL;
    return job;
}

static void work(void *argument)
{
    struct pool *pool = argument;
    env_mutex_lock(&pool->mutex);
    for (;;) {
        struct pool_job *job = take_job(&pool->waiting);
        if (!job && pool->stopping)
            break;
        if (!job) {
            env_cond_wait(&pool->changed, &pool->mutex);
            continue;
        }
        env_mutex_unlock(&pool->mutex);
        job->run(job);
        pool_end(pool, job);
        pool->options.notify(pool->options.argument);
        env_mutex_lock(&pool->mutex);
    }
    env_mutex_unlock(&pool->mutex);
}

enum hf_status pool_new(struct env *env, const struct pool_options *options,
                        struct pool **ret_pool, struct hf_error *error)
{
    check(options->workers > 0 && options->workers <= POOL_WORKERS_MAX && options->notify);
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_no_memory(error);
    pool->env = env;
    pool->options = *options;
    env_mutex_init(env, &pool->mutex);
    env_cond_init(env, &pool->changed);
    enum hf_status status = HF_OK;
    while (pool->started < options->workers && status == HF_OK) {
        status = env_task_start(env, work, pool, &pool->tasks[pool->started], error);
        pool->started += status == HF_OK;
    }
    if (status != HF_OK) {
        pool_free(pool);
        return status;
    }
    *ret_pool = pool;
    return error_clear(error);
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    env_mutex_lock(&pool->mutex);
    pool->stopping = true;
    env_cond_broadcast(&pool->changed);
    env_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->started; i++)
        env_task_join(pool->env, pool->tasks[i]);
    env_cond_release(&pool->changed);
    env_mutex_release(&pool->mutex);
    free(pool);
}

bool pool_submit(struct pool *pool, struct pool_job *job)
{
    env_mutex_lock(&pool->mutex);
    bool fits = pool->jobs < pool->options.jobs_max;
    if (fits) {
        pool->jobs++;
        append_job(&pool->waiting, job);
        env_cond_signal(&pool->changed);
    }
    env_mutex_unlock(&pool->mutex);
    return fits;
}

bool pool_admit(struct pool *pool)
{
    env_mutex_lock(&pool->mutex);
    bool fits = pool->jobs < pool->options.jobs_max;
    pool->jobs += fits;
    env_mutex_unlock(&pool->mutex);
    return fits;
}

void pool_end(struct pool *pool, struct pool_job *job)
{
    env_mutex_lock(&pool->mutex);
    append_job(&pool->ended, job);
    env_mutex_unlock(&pool->mutex);
}

struct pool_job *pool_take_ended(struct pool *pool)
{
    env_mutex_lock(&pool->mutex);
    struct pool_job *job = take_job(&pool->ended);
    pool->jobs -= job != NULL;
    env_mutex_unlock(&pool->mutex);
    return job;
}
