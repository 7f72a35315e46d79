/* SPDX-License-Identifier: Apache-2.0 */
/* worker_pool.h: a bounded set of tasks that help with batches of requests. They are started when
 * needed. Those that a burst has started end when they have not been needed for a while, so that a
 * process that runs for long does not keep the largest number that it ever needed. The caller works
 * on its own batch too, so a batch completes even if no task can be started. */
#ifndef STORE_REMOTE_WORKER_POOL_H
#define STORE_REMOTE_WORKER_POOL_H

#include "env/env.h"

#define CREW_MAX 512

/* Helpers are counted in periods of this length, and kept if they were needed in this one or in the
 * one before it. */
#define HELPERS_PERIOD SPAN_S(15)

struct worker_pool_job;
struct worker_pool;

struct worker_pool_helper {
    struct worker_pool *workers;
    struct env_task *task; /* NULL: not started, or joined */
    bool ended;            /* it is to be joined */
};

struct worker_pool {
    struct env *env;
    size_t limit; /* maximum number of helpers */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct, and the jobs */
        struct env_cond work;
        struct env_cond done;
        struct worker_pool_job *first;
        struct worker_pool_helper helpers[CREW_MAX];
        size_t started; /* and not ended */
        size_t idle;    /* of these */
        size_t needed,
            needed_last; /* helpers at the same time, in this period and in the last */
        struct mono_time period_end;
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
