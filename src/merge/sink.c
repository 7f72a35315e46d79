/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c: files that are written in large pieces and appear completely or not at all, so a crash
 * never leaves an incomplete output under its name. */
#include "merge/sink.h"

#include "base/check.h"
#include "base/hash.h"
#include "merge/encode_task.h"
#include "merge/format.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SINK_BYTES (256 * KIB)

/* After this many bytes, starts to write them to disk, so that the final sync has little to do. */
#define SYNC_AHEAD_BYTES (16 * MIB)

static bool sink_fail(struct sink *sink, int errno_value, const char *what)
{
    if (sink->error.status == HF_OK)
        error_from_errno(&sink->error, errno_value, what);
    return false;
}

static enum hf_status sink_write_file(void *context, struct view bytes, struct hf_error *error)
{
    struct sink *sink = context;
    for (size_t done = 0; done < bytes.size;) {
        ssize_t size = write(sink->file.fd, bytes.data + done, bytes.size - done);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && sink->disk_full)
            *sink->disk_full = errno == ENOSPC || errno == EDQUOT;
        if (size < 0 && errno == EPIPE)
            return error_set(error, HF_CANCELLED, "the reader of the output is gone");
        if (size < 0)
            return error_from_errno(error, errno, "write");
        done += (size_t)size;
    }
    sink->size += bytes.size;
    if (sink->intermediate)
        sink->crc32c = crc32c(sink->crc32c, bytes);
    if (sink->ahead && sink->size - sink->synced >= SYNC_AHEAD_BYTES) {
        /* This is only a hint, so its result is ignored. */
        (void)sync_file_range(sink->file.fd, (off_t)sink->synced,
                              (off_t)(sink->size - sink->synced), SYNC_FILE_RANGE_WRITE);
        sink->synced = sink->size;
    }
    return HF_OK;
}

static void write_settled(struct sink *sink, struct view bytes, bool last)
{
    if (sink->error.status == HF_OK && sink->encoding)
        encode_task_add(sink->encoding, bytes, &sink->error);
    else if (sink->error.status == HF_OK && sink->encoder)
        encoder_add(sink->encoder, bytes, last, sink_write_file, sink, &sink->error);
    else if (sink->error.status == HF_OK)
        sink_write_file(sink, bytes, &sink->error);
}

/* If the first record starts with a byte order mark, a reader would skip it as the mark of the
 * file. So the mark is written twice. */
static void double_mark(struct sink *sink)
{
    struct view start = { sink->bytes, sink->settled };
    if (!sink->doubles_mark || sink->settled == 0)
        return;
    sink->doubles_mark = false;
    if (format_mark_size(start) > 0)
        write_settled(sink, view_first(start, format_mark_size(start)), /* last */ false);
}

/* Writes the final bytes. The offered row is moved to the front of the buffer. */
static bool flush_settled(struct sink *sink, bool last)
{
    struct view bytes = { sink->bytes, sink->settled };
    double_mark(sink);
    write_settled(sink, bytes, last);
    if (sink->error.status == HF_OK && sink->encoding && last)
        encode_task_end(sink->encoding, &sink->error);
    if (sink->error.status != HF_OK)
        return false;
    memmove(sink->bytes, sink->bytes + sink->settled, sink->offered);
    sink->settled = 0;
    return true;
}

static enum hf_status sink_init(struct sink *sink, struct budget *budget,
                                struct hf_error *error)
{
    *sink = (struct sink){ .file = NEW_FILE_NONE, .budget = budget, .capacity = SINK_BYTES };
    sink->bytes = malloc(SINK_BYTES + COPY_STEP);
    return sink->bytes ? HF_OK : error_no_memory(error);
}

/* ---- Open ---------------------------------------------------------------------------- */

/* The queue may take this share of the memory. */
#define ENCODE_SHARE 16

/* Without memory for the queue, the sink compresses by itself. */
static enum hf_status start_encoding(struct sink *sink, struct env *env, struct hf_error *error)
{
    if (ENCODE_TASK_BYTES > sink->budget->limit / ENCODE_SHARE ||
        !budget_take(sink->budget, ENCODE_TASK_BYTES))
        return HF_OK;
    sink->charged += ENCODE_TASK_BYTES;
    return encode_task_new(env, sink->encoder, sink_write_file, sink, &sink->encoding, error);
}

enum hf_status sink_create(struct sink *sink, struct env *env,
                           const struct sink_options *options, struct hf_error *error)
{
    enum hf_status status = sink_init(sink, options->budget, error);
    sink->ahead = true;
    if (status == HF_OK)
        status = new_file_create(&sink->file, env, options->path, options->watch, error);
    if (status == HF_OK && options->coding != HF_MERGE_PLAIN)
        status = encoder_new(options->coding, &sink->encoder, error);
    if (status == HF_OK && sink->encoder && options->encode_aside)
        status = start_encoding(sink, env, error);
    if (status != HF_OK) {
        error_about(error, options->path);
        sink_release(sink);
    }
    return status;
}

enum hf_status sink_scratch(struct sink *sink, const char *folder, struct budget *budget,
                            struct hf_error *error)
{
    enum hf_status status = sink_init(sink, budget, error);
    if (status == HF_OK) {
        sink->file.fd = nameless_file(folder);
        if (sink->file.fd < 0)
            status = error_from_errno(error, errno, "create a scratch file");
    }
    if (status != HF_OK) {
        error_about(error, folder);
        sink_release(sink);
    }
    return status;
}

enum hf_status sink_descriptor(struct sink *sink, int fd, enum hf_merge_coding coding,
                               struct budget *budget, struct hf_error *error)
{
    enum hf_status status = sink_init(sink, budget, error);
    if (status == HF_OK) {
        sink->is_foreign = true;
        sink->file.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (sink->file.fd < 0)
            status = error_from_errno(error, errno, "use the descriptor of the output");
    }
    if (status == HF_OK && coding != HF_MERGE_PLAIN)
        status = encoder_new(coding, &sink->encoder, error);
    if (status != HF_OK)
        sink_release(sink);
    return status;
}

/* ---- Write --------------------------------------------------------------------------- */

bool sink_room(struct sink *sink, size_t size)
{
    if (!flush_settled(sink, /* last */ false))
        return false;
    if (size <= sink->capacity)
        return true;
    if (!budget_take(sink->budget, size - sink->capacity)) {
        sink->too_wide = true;
        error_set(&sink->error, HF_UNAVAILABLE,
                  "the memory setting is too small for records of this size");
        return false;
    }
    sink->charged += size - sink->capacity;
    char *bytes = realloc(sink->bytes, size + COPY_STEP);
    if (!bytes)
        return sink_fail(sink, ENOMEM, "make room for a record");
    sink->bytes = bytes;
    sink->capacity = size;
    return true;
}

bool sink_add(struct sink *sink, struct view bytes)
{
    check(sink->offered == 0);
    while (bytes.size) {
        if (sink->settled == sink->capacity && !flush_settled(sink, /* last */ false))
            return false;
        struct view piece = view_first(bytes, sink->capacity - sink->settled);
        memcpy(sink->bytes + sink->settled, piece.data, piece.size);
        sink->settled += piece.size;
        bytes = view_from(bytes, piece.size);
    }
    return true;
}

/* ---- Close --------------------------------------------------------------------------- */

enum hf_status sink_status(const struct sink *sink, struct hf_error *error)
{
    if (sink->error.status == HF_OK)
        return HF_OK;
    *error = sink->error;
    error_about(error, sink->file.path    ? sink->file.path
                       : sink->is_foreign ? "the output"
                                          : "a scratch file");
    return error->status;
}

enum hf_status sink_end(struct sink *sink, struct hf_error *error)
{
    bool durable = sink->file.path && !sink->intermediate;
    if (flush_settled(sink, /* last */ true) && durable && fsync(sink->file.fd) != 0)
        sink_fail(sink, errno, "sync");
    return sink_status(sink, error);
}

enum hf_status sink_keep(struct sink *sink, struct hf_error *error)
{
    enum hf_status status = new_file_keep(&sink->file, error);
    if (status != HF_OK)
        error_about(error, sink->file.path);
    return status;
}

void sink_release(struct sink *sink)
{
    encode_task_free(sink->encoding);
    new_file_release(&sink->file);
    free(sink->bytes);
    encoder_free(sink->encoder);
    if (sink->budget)
        budget_give(sink->budget, sink->charged);
    *sink = (struct sink){ .file = NEW_FILE_NONE };
}
