/* SPDX-License-Identifier: Apache-2.0 */
/* background.c: runs jobs that no caller waits for. It guards against work that is lost: a job is
 * always run, unless the process dies or the store does not respond while the client is closed. */
#include "lock/background.h"

#include "lock/client_inside.h"

/* How long closing a client waits for jobs that have not begun. */
#define FINISH_TIME SPAN_S(4)

void background_init(struct background *background, struct env *env)
{
    *background = (struct background){ 0 };
    env_mutex_init(env, &background->mutex);
    env_cond_init(env, &background->changed);
}

void background_release(struct background *background)
{
    env_cond_release(&background->changed);
    env_mutex_release(&background->mutex);
}

static void run_first_locked(struct background *background)
{
    struct background_job *job = background->first;
    bool abandoned = background->abandoned;
    background->first = job->next;
    background->waiting--;
    background->running++;
    env_mutex_unlock(&background->mutex);
    job->run(job, abandoned);
    env_mutex_lock(&background->mutex);
    background->running--;
    env_cond_broadcast(&background->changed); /* for background_finish */
}

static void run_jobs(void *argument)
{
    struct background *background = argument;
    env_mutex_lock(&background->mutex);
    while (background->first || !background->stopping) {
        if (background->first)
            run_first_locked(background);
        else
            env_cond_wait(&background->changed, &background->mutex);
    }
    env_mutex_unlock(&background->mutex);
}

/* Starts another task if all are busy. True if there is a task at all. */
static bool ensure_task_locked(struct hf_client *client)
{
    struct background *background = &client->background;
    struct hf_error error;
    bool busy = background->running + background->waiting >= background->task_count;
    if (busy && background->task_count < BACKGROUND_TASKS_MAX &&
        env_task_start(client->env, run_jobs, background,
                       &background->tasks[background->task_count], &error) == HF_OK)
        background->task_count++;
    return background->task_count > 0;
}

bool background_add(struct hf_client *client, struct background_job *job)
{
    struct background *background = &client->background;
    env_mutex_lock(&background->mutex);
    bool taken = !background->stopping && background->waiting < BACKGROUND_JOBS_MAX &&
                 ensure_task_locked(client);
    if (taken) {
        job->next = NULL;
        if (background->first)
            background->last->next = job;
        else
            background->first = job;
        background->last = job;
        background->waiting++;
        env_cond_broadcast(&background->changed);
    }
    env_mutex_unlock(&background->mutex);
    return taken;
}

void background_finish(struct hf_client *client)
{
    struct background *background = &client->background;
    env_mutex_lock(&background->mutex);
    background->stopping = true;
    env_cond_broadcast(&background->changed);
    struct mono_time until = mono_add(env_now(client->env), FINISH_TIME);
    while (background->first && mono_before(env_now(client->env), until))
        env_cond_wait_until(&background->changed, &background->mutex, until);
    background->abandoned = true;
    env_mutex_unlock(&background->mutex);
    for (size_t i = 0; i < background->task_count; i++)
        env_task_join(client->env, background->tasks[i]);
    background->task_count = 0;
}
