/* SPDX-License-Identifier: Apache-2.0 */
/* encode_task.h: compresses an output on a thread of its own, so that the merge does not wait for
 * the compression.
 *
 * Bytes are copied to a queue of a fixed size; while the queue is full, the merge waits. From
 * encode_task_new to encode_task_end or encode_task_free, the encoder and everything that `write`
 * uses belong to the thread. The encoder gets the same bytes in the same order as without the
 * thread, so its output is the same too. */
#ifndef MERGE_ENCODE_TASK_H
#define MERGE_ENCODE_TASK_H

#include "base/limits.h"
#include "env/env.h"
#include "merge/codec.h"

/* The queue. Four blocks let both sides work while one of them is briefly slower. */
#define ENCODE_BLOCKS      4
#define ENCODE_BLOCK_BYTES (256 * KIB)
#define ENCODE_TASK_BYTES  (ENCODE_BLOCKS * ENCODE_BLOCK_BYTES)

struct encode_task;

/* Starts the thread. */
enum hf_status encode_task_new(struct env *env, struct encoder *encoder, encoder_write write,
                               void *context, struct encode_task **ret_task,
                               struct hf_error *error);

/* Queues bytes. Fails with the first error of the thread, which may be from earlier bytes. */
enum hf_status encode_task_add(struct encode_task *task, struct view bytes,
                               struct hf_error *error);

/* Ends the compressed stream and the thread. If OK, all bytes were passed to `write`. */
enum hf_status encode_task_end(struct encode_task *task, struct hf_error *error);

/* Ends the thread without waiting for what is queued. NULL is allowed. */
void encode_task_free(struct encode_task *task);

#endif
