/* SPDX-License-Identifier: Apache-2.0 */
/* worker_pool.c: runs the requests of a batch on several tasks. A batch always completes, even
 * if no helper can be started, because the caller works on it too. */
#include "store/remote/worker_pool.h"

#include "base/check.h"

/* One batch. It is on the stack of worker_pool_run. */
struct worker_pool_job {
    void (*run)(void *argument, size_t index);
    void *argument;
    size_t count;
    size_t next;     /* the first index that nobody has taken */
    size_t finished; /* indices whose run has returned */
    size_t room;     /* helpers that may still join */
    struct worker_pool_job *following;
};

void worker_pool_init(struct worker_pool *workers, struct env *env, size_t limit)
{
    check(limit <= CREW_MAX);
    *workers = (struct worker_pool){ .env = env, .limit = limit };
    env_mutex_init(env, &workers->shared.mutex);
    env_cond_init(env, &workers->shared.work);
    env_cond_init(env, &workers->shared.done);
}

void worker_pool_release(struct worker_pool *workers)
{
    env_mutex_lock(&workers->shared.mutex);
    check(!workers->shared.first);
    workers->shared.closing = true;
    env_cond_broadcast(&workers->shared.work);
    env_mutex_unlock(&workers->shared.mutex);
    for (size_t i = 0; i < workers->limit; i++)
        if (workers->shared.helpers[i].task)
            env_task_join(workers->env, workers->shared.helpers[i].task);
    env_cond_release(&workers->shared.done);
    env_cond_release(&workers->shared.work);
    env_mutex_release(&workers->shared.mutex);
}

/* Works on the job until no index is left to take. */
static void work_locked(struct worker_pool *workers, struct worker_pool_job *job)
{
    while (job->next < job->count) {
        size_t index = job->next++;
        env_mutex_unlock(&workers->shared.mutex);
        job->run(job->argument, index);
        env_mutex_lock(&workers->shared.mutex);
        job->finished++;
    }
}

/* ---- Helpers ------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Begins the next period if this one is over. */
static void count_period_locked(struct worker_pool *workers)
{
    struct mono_time now = env_now(workers->env), end = workers->shared.period_end;
    if (mono_before(now, end))
        return;
    bool next = mono_before(now, mono_add(end, HELPERS_PERIOD));
    workers->shared.needed_last = next ? workers->shared.needed : 0;
    workers->shared.needed = workers->shared.started - workers->shared.idle;
    workers->shared.period_end = mono_add(now, HELPERS_PERIOD);
}

static struct worker_pool_job *find_job_locked(struct worker_pool *workers)
{
    struct worker_pool_job *job = workers->shared.first;
    while (job && (job->next == job->count || job->room == 0))
        job = job->following;
    return job;
}

/* Waits for a signal, but ends the helper, false, if there are more than needed. */
static bool wait_for_job_locked(struct worker_pool *workers)
{
    workers->shared.idle++;
    count_period_locked(workers);
    size_t needed = larger(workers->shared.needed, workers->shared.needed_last);
    bool stays = workers->shared.started <= needed;
    if (stays)
        env_cond_wait_until(&workers->shared.work, &workers->shared.mutex,
                            workers->shared.period_end);
    workers->shared.idle--;
    return stays;
}

static void helper_main(void *argument)
{
    struct worker_pool_helper *helper = argument;
    struct worker_pool *workers = helper->workers;
    bool stays = true;
    env_mutex_lock(&workers->shared.mutex);
    while (stays && !workers->shared.closing) {
        struct worker_pool_job *job = find_job_locked(workers);
        if (!job) {
            stays = wait_for_job_locked(workers);
            continue;
        }
        job->room--;
        work_locked(workers, job);
        job->room++;
        env_cond_broadcast(&workers->shared.done);
    }
    workers->shared.started--;
    helper->ended = true;
    env_mutex_unlock(&workers->shared.mutex);
}

/* One that has ended does not use the mutex any more, so it can be joined under it. */
static bool start_helper_locked(struct worker_pool *workers)
{
    struct worker_pool_helper *helper = workers->shared.helpers;
    struct hf_error error;
    while (helper->task && !helper->ended)
        helper++;
    if (helper->task)
        env_task_join(workers->env, helper->task);
    *helper = (struct worker_pool_helper){ .workers = workers };
    if (env_task_start(workers->env, helper_main, helper, &helper->task, &error) != HF_OK) {
        helper->task = NULL;
        return false;
    }
    workers->shared.started++;
    return true;
}

/* With fewer helpers the batch only takes longer, so it is not an error if one cannot be
 * started. */
static void find_helpers_locked(struct worker_pool *workers, size_t wanted)
{
    size_t ready = workers->shared.idle, busy = workers->shared.started - ready;
    count_period_locked(workers);
    workers->shared.needed = larger(workers->shared.needed, busy + wanted);
    while (ready < wanted && workers->shared.started < workers->limit &&
           start_helper_locked(workers))
        ready++;
}

void worker_pool_run(struct worker_pool *workers, size_t width, size_t count,
                     void (*run)(void *, size_t), void *argument)
{
    if (width > count)
        width = count;
    if (count == 1)
        run(argument, 0);
    if (count <= 1)
        return;
    struct worker_pool_job job = {
        .run = run, .argument = argument, .count = count, .room = width - 1
    };
    env_mutex_lock(&workers->shared.mutex);
    struct worker_pool_job **last = &workers->shared.first;
    while (*last)
        last = &(*last)->following;
    *last = &job;
    find_helpers_locked(workers, width - 1);
    if (width > 1)
        env_cond_broadcast(&workers->shared.work);
    work_locked(workers, &job);
    /* The job is on this stack, so wait until no helper uses it any more. */
    while (job.finished < job.count || job.room < width - 1)
        env_cond_wait(&workers->shared.done, &workers->shared.mutex);
    struct worker_pool_job **at = &workers->shared.first;
    while (*at != &job)
        at = &(*at)->following;
    *at = job.following;
    env_mutex_unlock(&workers->shared.mutex);
}
