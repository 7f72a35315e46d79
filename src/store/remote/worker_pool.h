/* SPDX-License-Identifier: Apache-2.0 */
/* worker_pool.h: a bounded set of tasks that help with batches of requests. They are started when
 * first needed and kept until the store is closed. The caller works on its own batch too, so a
 * batch completes even if no task can be started. */
#ifndef STORE_REMOTE_WORKER_POOL_H
#define STORE_REMOTE_WORKER_POOL_H

#include "env/env.h"

#define CREW_MAX 512

struct worker_pool_job;

struct worker_pool {
    struct env *env;
    size_t limit; /* maximum number of helpers */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct, and the jobs */
        struct env_cond work;
        struct env_cond done;
        struct worker_pool_job *first;
        struct env_task *helpers[CREW_MAX];
        size_t started;
        size_t idle;
        bool closing;
    } shared;
};

void worker_pool_init(struct worker_pool *workers, struct env *env, size_t limit);

/* No job may be running. Joins the helpers. */
void worker_pool_release(struct worker_pool *workers);

/* run(argument, 0) ... run(argument, count - 1), in any order, at most `width` at a time;
 * returns when all have returned. */
void worker_pool_run(struct worker_pool *workers, size_t width, size_t count,
                     void (*run)(void *, size_t), void *argument);

#endif
