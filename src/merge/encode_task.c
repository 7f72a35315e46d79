/* SPDX-License-Identifier: Apache-2.0 */
/* encode_task.c: the queue between the merge and the thread that compresses its output. A block is
 * either being filled by the merge or being compressed, never both; one mutex guards which. */
#include "merge/encode_task.h"

#include <stdlib.h>

struct encode_task {
    struct env *env;
    struct encoder *encoder;
    encoder_write write;
    void *context;
    struct env_task *thread; /* NULL: it has ended */
    struct {
        struct env_mutex mutex;
        struct env_cond filled; /* for the thread: a block, the end, or stopped */
        struct env_cond freed;  /* for the merge: room, or an error */
        size_t first;           /* the oldest filled block */
        size_t count;           /* of filled blocks */
        bool last;              /* no more blocks follow */
        bool stopped;           /* drop what is queued */
        struct hf_error error;  /* the first error; the thread has ended */
    } shared;
    size_t sizes[ENCODE_BLOCKS];
    char blocks[ENCODE_BLOCKS][ENCODE_BLOCK_BYTES];
};

/* Compresses the oldest block, or ends the stream if there is none. The mutex is not held
 * meanwhile. */
static void encode_next_locked(struct encode_task *task)
{
    struct hf_error error;
    size_t block = task->shared.first;
    bool last = task->shared.count == 0;
    struct view bytes = { task->blocks[block], last ? 0 : task->sizes[block] };
    error_clear(&error);
    env_mutex_unlock(&task->shared.mutex);
    encoder_add(task->encoder, bytes, last, task->write, task->context, &error);
    env_mutex_lock(&task->shared.mutex);
    task->shared.error = error;
    if (!last) {
        task->shared.first = (block + 1) % ENCODE_BLOCKS;
        task->shared.count--;
    }
    env_cond_signal(&task->shared.freed);
}

static void run_encoder(void *argument)
{
    struct encode_task *task = argument;
    bool ended = false;
    env_mutex_lock(&task->shared.mutex);
    while (!ended && !task->shared.stopped && task->shared.error.status == HF_OK) {
        if (task->shared.count == 0 && !task->shared.last) {
            env_cond_wait(&task->shared.filled, &task->shared.mutex);
            continue;
        }
        ended = task->shared.count == 0;
        encode_next_locked(task);
    }
    env_mutex_unlock(&task->shared.mutex);
}

enum hf_status encode_task_new(struct env *env, struct encoder *encoder, encoder_write write,
                               void *context, struct encode_task **ret_task,
                               struct hf_error *error)
{
    struct encode_task *task = calloc(1, sizeof *task);
    if (!task)
        return error_no_memory(error);
    task->env = env;
    task->encoder = encoder;
    task->write = write;
    task->context = context;
    error_clear(&task->shared.error);
    env_mutex_init(env, &task->shared.mutex);
    env_cond_init(env, &task->shared.filled);
    env_cond_init(env, &task->shared.freed);
    enum hf_status status = env_task_start(env, run_encoder, task, &task->thread, error);
    if (status == HF_OK)
        *ret_task = task;
    else
        encode_task_free(task);
    return status;
}

enum hf_status encode_task_add(struct encode_task *task, struct view bytes,
                               struct hf_error *error)
{
    while (bytes.size > 0) {
        env_mutex_lock(&task->shared.mutex);
        while (task->shared.count == ENCODE_BLOCKS && task->shared.error.status == HF_OK)
            env_cond_wait(&task->shared.freed, &task->shared.mutex);
        size_t block = (task->shared.first + task->shared.count) % ENCODE_BLOCKS;
        struct hf_error failed = task->shared.error;
        env_mutex_unlock(&task->shared.mutex);
        if (failed.status != HF_OK) {
            *error = failed;
            return failed.status;
        }
        struct view piece = view_first(bytes, ENCODE_BLOCK_BYTES);
        memcpy(task->blocks[block], piece.data, piece.size);
        task->sizes[block] = piece.size;
        bytes = view_from(bytes, piece.size);
        env_mutex_lock(&task->shared.mutex);
        task->shared.count++;
        env_cond_signal(&task->shared.filled);
        env_mutex_unlock(&task->shared.mutex);
    }
    return HF_OK;
}

static void join_encoder(struct encode_task *task, bool drop)
{
    if (!task->thread)
        return;
    env_mutex_lock(&task->shared.mutex);
    task->shared.last = true;
    task->shared.stopped = drop;
    env_cond_signal(&task->shared.filled);
    env_mutex_unlock(&task->shared.mutex);
    env_task_join(task->env, task->thread);
    task->thread = NULL;
}

enum hf_status encode_task_end(struct encode_task *task, struct hf_error *error)
{
    join_encoder(task, /* drop */ false);
    if (task->shared.error.status != HF_OK)
        *error = task->shared.error;
    return task->shared.error.status;
}

void encode_task_free(struct encode_task *task)
{
    if (!task)
        return;
    join_encoder(task, /* drop */ true);
    env_cond_release(&task->shared.freed);
    env_cond_release(&task->shared.filled);
    env_mutex_release(&task->shared.mutex);
    free(task);
}
