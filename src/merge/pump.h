/* SPDX-License-Identifier: Apache-2.0 */
/* pump.h: reads sources ahead. The merge takes batches from its sources one by one. Meanwhile the
 * pump's threads, if any, fill the spare batches. If the next batch is not ready and no thread is
 * filling it, the merge fills it itself. So work is divided as needed, and without threads the same
 * code reads everything in turn.
 *
 * A batch belongs to the merge until the merge asks for the next batch of that source. */
#ifndef MERGE_PUMP_H
#define MERGE_PUMP_H

#include "env/env.h"
#include "merge/source.h"

struct pump {
    struct env *env;
    struct source *sources;
    size_t source_count;
    struct env_task *tasks[HF_MERGE_THREADS_MAX];
    size_t task_count;
    struct {
        struct env_mutex mutex;
        struct env_cond work;   /* for the threads: something to fill, or the end */
        struct env_cond filled; /* for the merge */
        struct source **queue;  /* a ring: sources with room for a batch */
        size_t queue_first;
        size_t queue_count;
        bool stopped;
    } shared;
};

/* Starts `threads` threads in addition to the caller's. */
enum hf_status pump_start(struct pump *pump, struct env *env, struct source *sources,
                          size_t count, size_t threads, struct hf_error *error);

/* The next batch, or NULL at the end of the source. In that case source->error says whether reading
 * has succeeded. */
const struct batch *pump_next(struct pump *pump, struct source *source);

/* Stops and joins the threads. May also be called after a failed start. */
void pump_stop(struct pump *pump);

#endif
