/* SPDX-License-Identifier: Apache-2.0 */
/* background.h: work that a caller need not wait for, because its result is already known: keys of
 * a decided transaction are settled here. The number of tasks and of waiting jobs is bounded. At
 * the bound the caller does the work itself. Closing the client finishes the work first. */
#ifndef LOCK_BACKGROUND_H
#define LOCK_BACKGROUND_H

#include "env/env.h"

struct hf_client;

#define BACKGROUND_TASKS_MAX 4
#define BACKGROUND_JOBS_MAX  64

struct background_job {
    struct background_job *next;
    /* Called exactly once, by a task that holds no mutex. `abandoned`: the client is being closed,
     * and the time for its work is up. The job must then make no request. It may free itself. */
    void (*run)(struct background_job *job, bool abandoned);
    void *argument;
};

struct background {
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    struct background_job *first, *last;
    size_t waiting; /* jobs in the list */
    size_t running; /* jobs that a task has taken */
    bool stopping, abandoned;
    struct env_task *tasks[BACKGROUND_TASKS_MAX];
    size_t task_count;
};

void background_init(struct background *background, struct env *env);

/* Hands a job over. False: the client is being closed, too many jobs are waiting, or no task could
 * be started. The job then still belongs to the caller. */
bool background_add(struct hf_client *client, struct background_job *job);

/* Waits a few seconds for the jobs, abandons those that have not begun by then, and ends the tasks.
 * A job that has begun is finished; its requests have deadlines. */
void background_finish(struct hf_client *client);

void background_release(struct background *background);

#endif
