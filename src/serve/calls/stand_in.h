/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in.h: two threads that run one loop in turn, so that the one that runs it may block.
 *
 * Waking a worker for a write, and being woken by it, takes longer than a short write. So the
 * thread that runs the loop makes such a write itself, and nobody runs the loop meanwhile. If the
 * write takes longer than STAND_IN_PATIENCE, the other thread, which stands by, runs the loop from
 * then on. The first one stands by when its write has ended.
 *
 * 1. One thread runs the loop at a time, and sees everything that the other one has done before.
 * 2. A thread blocks only while the other one stands by. Otherwise it leaves the job to a worker.
 *
 * The thread that stands by looks every few milliseconds whether the loop has been left for too
 * long; after a while in which nothing happens, it sleeps until the loop is left again. */
#ifndef SERVE_CALLS_STAND_IN_H
#define SERVE_CALLS_STAND_IN_H

#include "serve/calls/pool.h"

#define STAND_IN_PATIENCE SPAN_MS(5)

/* All but `notify` are called by the thread that runs the loop. */
struct stand_in_options {
    struct env *env;
    /* Waits for events, and handles them. Returns false when the loop has ended. */
    bool (*run)(void *argument);
    /* A job that this thread should make itself; NULL: there is none. */
    struct pool_job *(*take)(void *argument);
    /* The job has ended, and this thread still runs the loop. */
    void (*collect)(void *argument, struct pool_job *job);
    /* The job has ended, but the other thread runs the loop by now. */
    void (*notify)(void *argument, struct pool_job *job);
    void *argument;
};

/* Runs the loop until it has ended, in this thread and in a second one. */
enum hf_status stand_in_run(const struct stand_in_options *options, struct hf_error *error);

#endif
