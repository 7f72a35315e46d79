/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: sends the parts of a file in parallel, and adds up their progress. */
#include "store/remote/parts.h"

#include "store/stream.h"

#define PART_BYTES_MIN (16 * (uint64_t)MIB)
#define PARTS_AT_ONCE  8

/* The progress of one part, as last reported. */
struct part_progress {
    struct parts *parts;
    uint64_t done;
};

static bool report_part_progress(void *argument, uint64_t done, uint64_t total)
{
    struct part_progress *part = argument;
    struct parts *parts = part->parts;
    (void)total;
    env_mutex_lock(&parts->shared.mutex);
    parts->shared.done += done - part->done; /* a restarted part subtracts its bytes */
    part->done = done;
    bool go_on =
        parts->shared.error.status == HF_OK &&
        progress_step(parts->progress, parts->shared.done, parts->size, &parts->shared.error);
    env_mutex_unlock(&parts->shared.mutex);
    return go_on;
}

static void fail_parts(struct parts *parts, const struct hf_error *error)
{
    env_mutex_lock(&parts->shared.mutex);
    if (parts->shared.error.status == HF_OK)
        parts->shared.error = *error;
    env_mutex_unlock(&parts->shared.mutex);
}

static bool has_failed(struct parts *parts)
{
    env_mutex_lock(&parts->shared.mutex);
    bool failed = parts->shared.error.status != HF_OK;
    env_mutex_unlock(&parts->shared.mutex);
    return failed;
}

static void send_nth(void *argument, size_t index)
{
    struct parts *parts = argument;
    struct hf_error error;
    if (has_failed(parts))
        return;
    uint64_t offset = index * parts->part_size;
    uint64_t left = parts->size - offset;
    struct http_source source = { .fd = parts->fd,
                                  .offset = offset,
                                  .size = left < parts->part_size ? left : parts->part_size };
    struct part_progress part = { parts, 0 };
    struct progress progress = { report_part_progress, &part };
    if (parts->send(parts->argument, index, &source, &progress, &error) == HF_OK)
        return;
    if (error.status == HF_UNSURE) /* a part alone changes nothing */
        error.status = HF_UNAVAILABLE;
    fail_parts(parts, &error);
}

void parts_divide(struct parts *parts, uint64_t size, size_t most)
{
    uint64_t part_size = (size + most - 1) / most;
    parts->size = size;
    parts->part_size = part_size < PART_BYTES_MIN ? PART_BYTES_MIN : part_size;
    parts->count = (size_t)((size + parts->part_size - 1) / parts->part_size);
}

enum hf_status parts_send(struct parts *parts, struct hf_error *error)
{
    struct remote_store *remote = parts->remote;
    size_t width = remote->connections < PARTS_AT_ONCE ? remote->connections : PARTS_AT_ONCE;
    env_mutex_init(remote->base.env, &parts->shared.mutex);
    worker_pool_run(&remote->workers, width, parts->count, send_nth, parts);
    *error = parts->shared.error;
    env_mutex_release(&parts->shared.mutex);
    return error->status;
}
