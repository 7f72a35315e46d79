/* SPDX-License-Identifier: Apache-2.0 */
/* pump.c: determines which thread fills which batch. One mutex guards all shared state. A batch
 * that is being filled belongs to the thread that fills it. */
#include "merge/pump.h"

#include "base/check.h"

#include <stdlib.h>

static bool can_fill(const struct source *source)
{
    return !source->ended && !source->busy && source->ready < source->batch_count;
}

static void queue_locked(struct pump *pump, struct source *source)
{
    if (source->queued || !can_fill(source) || !pump->task_count)
        return;
    check(pump->shared.queue_count < pump->source_count);
    size_t last = (pump->shared.queue_first + pump->shared.queue_count++) % pump->source_count;
    pump->shared.queue[last] = source;
    source->queued = true;
    env_cond_signal(&pump->shared.work);
}

static struct source *dequeue_locked(struct pump *pump)
{
    if (!pump->shared.queue_count)
        return NULL;
    struct source *source = pump->shared.queue[pump->shared.queue_first];
    pump->shared.queue_first = (pump->shared.queue_first + 1) % pump->source_count;
    pump->shared.queue_count--;
    source->queued = false;
    return source;
}

/* Fills one batch of a source that has room. The mutex is not held during the read. */
static void fill_locked(struct pump *pump, struct source *source)
{
    struct batch *batch = &source->batches[source->filler];
    source->busy = true;
    env_mutex_unlock(&pump->shared.mutex);
    struct hf_error error;
    error_clear(&error);
    enum hf_status status = source_fill(source, batch, &error);
    env_mutex_lock(&pump->shared.mutex);
    source->busy = false;
    if (status != HF_OK)
        source->error = error;
    source->ended = status != HF_OK || batch->unsorted ||
                    (source->at_end && source->rest_from == batch->filled);
    if (status == HF_OK && (batch->row_count || batch->unsorted)) {
        source->ready++;
        source->filler = (source->filler + 1) % source->batch_count;
    }
}

static void run_filler(void *argument)
{
    struct pump *pump = argument;
    env_mutex_lock(&pump->shared.mutex);
    while (!pump->shared.stopped) {
        struct source *source = dequeue_locked(pump);
        if (!source) {
            env_cond_wait(&pump->shared.work, &pump->shared.mutex);
        } else if (can_fill(source)) {
            fill_locked(pump, source);
            queue_locked(pump, source);
            env_cond_signal(&pump->shared.filled);
        }
    }
    env_mutex_unlock(&pump->shared.mutex);
}

enum hf_status pump_start(struct pump *pump, struct env *env, struct source *sources,
                          size_t count, size_t threads, struct hf_error *error)
{
    check(threads < HF_MERGE_THREADS_MAX);
    *pump = (struct pump){ .env = env, .sources = sources, .source_count = count };
    env_mutex_init(env, &pump->shared.mutex);
    env_cond_init(env, &pump->shared.work);
    env_cond_init(env, &pump->shared.filled);
    pump->shared.queue = calloc(count ? count : 1, sizeof(struct source *));
    if (!pump->shared.queue)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    while (status == HF_OK && pump->task_count < threads) {
        status = env_task_start(env, run_filler, pump, &pump->tasks[pump->task_count], error);
        pump->task_count += status == HF_OK;
    }
    return status;
}

const struct batch *pump_next(struct pump *pump, struct source *source)
{
    const struct batch *batch = NULL;
    env_mutex_lock(&pump->shared.mutex);
    if (source->in_use) {
        source->in_use = false;
        source->ready--;
        source->user = (source->user + 1) % source->batch_count;
    }
    while (!source->ready && !source->ended) {
        if (can_fill(source))
            fill_locked(pump, source);
        else
            env_cond_wait(&pump->shared.filled, &pump->shared.mutex);
    }
    if (source->ready) {
        source->in_use = true;
        batch = &source->batches[source->user];
    }
    queue_locked(pump, source);
    env_mutex_unlock(&pump->shared.mutex);
    return batch;
}

void pump_stop(struct pump *pump)
{
    if (!pump->env)
        return;
    env_mutex_lock(&pump->shared.mutex);
    pump->shared.stopped = true;
    env_cond_broadcast(&pump->shared.work);
    env_mutex_unlock(&pump->shared.mutex);
    for (size_t i = 0; i < pump->task_count; i++)
        env_task_join(pump->env, pump->tasks[i]);
    env_cond_release(&pump->shared.filled);
    env_cond_release(&pump->shared.work);
    env_mutex_release(&pump->shared.mutex);
    free(pump->shared.queue);
    *pump = (struct pump){ 0 };
}
