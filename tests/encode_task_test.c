/* SPDX-License-Identifier: Apache-2.0 */
/* encode_task_test.c: compression on a thread of its own: the same bytes, errors that arrive, a
 * queue that is bounded, and threads that end. */
#include "merge/encode_task.h"

#include "alloc.h"
#include "base/buffer.h"
#include "base/prng.h"
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const enum hf_merge_coding codings[] = { HF_MERGE_GZIP, HF_MERGE_ZSTD };
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Half of it compresses well. */
static struct buffer make_sample(size_t size, uint64_t seed)
{
    struct prng prng = prng_seeded(seed);
    struct buffer bytes = BUFFER_INIT(GIB);
    assert_true(buffer_reserve(&bytes, size));
    while (bytes.size < size)
        buffer_append_byte(&bytes,
                           (char)(bytes.size / 5000 % 2 ? prng_below(&prng, 256) : 'x'));
    return bytes;
}

static enum hf_status keep(void *context, struct view bytes, struct hf_error *error)
{
    (void)error;
    assert_true(buffer_append(context, bytes));
    return HF_OK;
}

static void the_bytes_are_the_same_as_without_the_thread(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 100000, ENCODE_BLOCK_BYTES, 3000001 };
    static const size_t steps[] = { 999, ENCODE_BLOCK_BYTES, 1000003 };
    for (size_t i = 0; i < COUNT(codings) * COUNT(sizes) * COUNT(steps); i++) {
        enum hf_merge_coding coding = codings[i % COUNT(codings)];
        size_t size = sizes[i / COUNT(codings) % COUNT(sizes)];
        size_t step = steps[i / COUNT(codings) / COUNT(sizes)];
        struct buffer bytes = make_sample(size, i);
        struct buffer alone = BUFFER_INIT(GIB), aside = BUFFER_INIT(GIB);
        struct encoder *encoder;
        struct encode_task *task;
        struct hf_error error;
        assert_status(HF_OK, encoder_new(coding, &encoder, &error), &error);
        assert_status(HF_OK,
                      encoder_add(encoder, buffer_view(&bytes), true, keep, &alone, &error),
                      &error);
        encoder_free(encoder);
        assert_status(HF_OK, encoder_new(coding, &encoder, &error), &error);
        assert_status(HF_OK, encode_task_new(env_real(), encoder, keep, &aside, &task, &error),
                      &error);
        for (struct view rest = buffer_view(&bytes); rest.size > 0;) {
            struct view piece = view_first(rest, step);
            assert_status(HF_OK, encode_task_add(task, piece, &error), &error);
            rest = view_from(rest, piece.size);
        }
        assert_status(HF_OK, encode_task_end(task, &error), &error);
        assert_true(view_equal(buffer_view(&alone), buffer_view(&aside)));
        encode_task_free(task);
        encoder_free(encoder);
        buffer_release(&bytes);
        buffer_release(&alone);
        buffer_release(&aside);
    }
}

/* ---- Errors -------------------------------------------------------------------------- */

struct refusal {
    int calls;
    int good; /* how many succeed */
};

static enum hf_status refuse_later(void *context, struct view bytes, struct hf_error *error)
{
    struct refusal *refusal = context;
    (void)bytes;
    if (refusal->calls++ < refusal->good)
        return HF_OK;
    return error_set(error, HF_UNAVAILABLE, "the disk is full");
}

static void a_failed_write_reaches_the_merge_and_nothing_is_written_after_it(void **state)
{
    (void)state;
    struct buffer bytes = make_sample(8 * MIB, 3);
    for (int good = 0; good < 6; good++)
        for (size_t i = 0; i < COUNT(codings); i++) {
            struct refusal refusal = { .good = good };
            struct encoder *encoder;
            struct encode_task *task;
            struct hf_error error;
            assert_status(HF_OK, encoder_new(codings[i], &encoder, &error), &error);
            assert_status(HF_OK,
                          encode_task_new(env_real(), encoder, refuse_later, &refusal, &task,
                                          &error),
                          &error);
            assert_status(HF_UNAVAILABLE, encode_task_add(task, buffer_view(&bytes), &error),
                          &error);
            assert_string_equal(error.why, "the disk is full");
            assert_status(HF_UNAVAILABLE, encode_task_add(task, VIEW("more"), &error), &error);
            assert_status(HF_UNAVAILABLE, encode_task_end(task, &error), &error);
            assert_string_equal(error.why, "the disk is full");
            assert_int_equal(refusal.calls, good + 1);
            encode_task_free(task);
            encoder_free(encoder);
        }
    buffer_release(&bytes);
}

static void a_write_that_fails_at_the_very_end_is_told_by_the_end(void **state)
{
    (void)state;
    struct refusal refusal = { .good = 0 };
    struct encoder *encoder;
    struct encode_task *task;
    struct hf_error error;
    assert_status(HF_OK, encoder_new(HF_MERGE_ZSTD, &encoder, &error), &error);
    assert_status(HF_OK,
                  encode_task_new(env_real(), encoder, refuse_later, &refusal, &task, &error),
                  &error);
    assert_status(HF_OK, encode_task_add(task, VIEW("short"), &error), &error);
    assert_status(HF_UNAVAILABLE, encode_task_end(task, &error), &error);
    encode_task_free(task);
    encoder_free(encoder);
}

static void each_failing_allocation_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    long failed = 0;
    for (long n = 0;; n++) {
        struct buffer output = BUFFER_INIT(GIB);
        struct encoder *encoder;
        struct encode_task *task = NULL;
        struct hf_error error;
        assert_status(HF_OK, encoder_new(HF_MERGE_GZIP, &encoder, &error), &error);
        alloc_fail_after(n);
        enum hf_status status =
            encode_task_new(env_real(), encoder, keep, &output, &task, &error);
        if (!alloc_stop()) {
            assert_int_equal(status, HF_OK);
            encode_task_free(task);
            encoder_free(encoder);
            buffer_release(&output);
            break;
        }
        failed++;
        assert_int_equal(status, HF_UNAVAILABLE);
        assert_null(task);
        encoder_free(encoder);
        buffer_release(&output);
    }
    assert_true(failed >= 1);
}

/* ---- The queue ----------------------------------------------------------------------- */

struct gate {
    struct env_mutex mutex;
    struct env_cond opened;
    bool open;
    atomic_size_t added; /* blocks that the queue has taken */
    atomic_size_t written;
};

static enum hf_status wait_at_gate(void *context, struct view bytes, struct hf_error *error)
{
    struct gate *gate = context;
    (void)error;
    env_mutex_lock(&gate->mutex);
    while (!gate->open)
        env_cond_wait(&gate->opened, &gate->mutex);
    env_mutex_unlock(&gate->mutex);
    gate->written += bytes.size;
    return HF_OK;
}

struct adder {
    struct gate *gate;
    struct encode_task *task;
    struct buffer *bytes;
};

static void add_blocks(void *argument)
{
    struct adder *adder = argument;
    struct hf_error error;
    for (struct view rest = buffer_view(adder->bytes); rest.size > 0;) {
        struct view block = view_first(rest, ENCODE_BLOCK_BYTES);
        assert_int_equal(encode_task_add(adder->task, block, &error), HF_OK);
        rest = view_from(rest, block.size);
        adder->gate->added++;
    }
}

/* The first write waits, so the queue fills: one block is being compressed, and the others wait.
 * Whatever the timing, no more than that is ever taken. */
static void a_full_queue_makes_the_merge_wait(void **state)
{
    (void)state;
    struct gate gate = { .open = false };
    struct buffer bytes = make_sample(32 * ENCODE_BLOCK_BYTES, 4);
    struct encoder *encoder;
    struct encode_task *task;
    struct env_task *thread;
    struct hf_error error;
    env_mutex_init(env_real(), &gate.mutex);
    env_cond_init(env_real(), &gate.opened);
    assert_status(HF_OK, encoder_new(HF_MERGE_ZSTD, &encoder, &error), &error);
    assert_status(HF_OK,
                  encode_task_new(env_real(), encoder, wait_at_gate, &gate, &task, &error),
                  &error);
    struct adder adder = { &gate, task, &bytes };
    assert_status(HF_OK, env_task_start(env_real(), add_blocks, &adder, &thread, &error),
                  &error);
    while (gate.added < ENCODE_BLOCKS)
        env_sleep(env_real(), SPAN_MS(1));
    env_sleep(env_real(), SPAN_MS(100));
    /* Some blocks may be compressed before the first write. */
    size_t before = gate.added;
    assert_true(before < 32);
    assert_int_equal(gate.written, 0);
    env_mutex_lock(&gate.mutex);
    gate.open = true;
    env_cond_broadcast(&gate.opened);
    env_mutex_unlock(&gate.mutex);
    env_task_join(env_real(), thread);
    assert_int_equal(gate.added, 32);
    assert_status(HF_OK, encode_task_end(task, &error), &error);
    assert_true(gate.written > 0);
    encode_task_free(task);
    encoder_free(encoder);
    env_cond_release(&gate.opened);
    env_mutex_release(&gate.mutex);
    buffer_release(&bytes);
}

static void a_merge_that_gives_up_does_not_wait_for_the_queue(void **state)
{
    (void)state;
    struct buffer bytes = make_sample(ENCODE_TASK_BYTES, 5), output = BUFFER_INIT(GIB);
    for (int i = 0; i < 20; i++) {
        struct encoder *encoder;
        struct encode_task *task;
        struct hf_error error;
        assert_status(HF_OK, encoder_new(HF_MERGE_GZIP, &encoder, &error), &error);
        assert_status(HF_OK, encode_task_new(env_real(), encoder, keep, &output, &task, &error),
                      &error);
        assert_status(HF_OK, encode_task_add(task, buffer_view(&bytes), &error), &error);
        encode_task_free(task);
        encoder_free(encoder);
    }
    encode_task_free(NULL);
    buffer_release(&bytes);
    buffer_release(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the bytes are the same as without the thread",
           the_bytes_are_the_same_as_without_the_thread),
        IT("a failed write reaches the merge, and nothing is written after it",
           a_failed_write_reaches_the_merge_and_nothing_is_written_after_it),
        IT("a write that fails at the very end is told by the end",
           a_write_that_fails_at_the_very_end_is_told_by_the_end),
        IT("each failing allocation is told and leaks nothing",
           each_failing_allocation_is_told_and_leaks_nothing),
        IT("a full queue makes the merge wait", a_full_queue_makes_the_merge_wait),
        IT("a merge that gives up does not wait for the queue",
           a_merge_that_gives_up_does_not_wait_for_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
