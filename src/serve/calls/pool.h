/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: worker threads that run jobs, which may block, for one thread that must not: the loop.
 *
 *     pool_submit(pool, &job->base);                      the loop
 *     job->run(job);                                      a worker
 *     notify(argument);                                   that worker, without a mutex
 *     while ((job = pool_take_ended(pool))) ...;          the loop, some time after that
 *
 * The pool does not free jobs. At most `jobs_max` jobs are in the pool at a time; a further one is
 * refused. Jobs begin in the order in which they were submitted. */
#ifndef SERVE_CALLS_POOL_H
#define SERVE_CALLS_POOL_H

#include "env/env.h"

struct pool;

struct pool_job {
    struct pool_job *next;
    void (*run)(struct pool_job *job);
};

struct pool_options {
    unsigned workers;               /* at least 1 */
    size_t jobs_max;                /* submitted and not taken */
    void (*notify)(void *argument); /* a job has ended; may be called from several threads */
    void *argument;
};

#define POOL_WORKERS_MAX 256

/* Starts the workers. */
enum hf_status pool_new(struct env *env, const struct pool_options *options,
                        struct pool **ret_pool, struct hf_error *error);

/* Waits until all jobs that were submitted have ended, and ends the workers. Jobs that were not
 * taken are the caller's. Does nothing if `pool` is NULL. */
void pool_free(struct pool *pool);

/* False: there are too many jobs. */
bool pool_submit(struct pool *pool, struct pool_job *job);

/* The same for a job that the caller runs itself, in any thread. It then counts as submitted. */
bool pool_admit(struct pool *pool);
void pool_end(struct pool *pool, struct pool_job *job);

/* A job that has ended; NULL if there is none now. */
struct pool_job *pool_take_ended(struct pool *pool);

#endif
