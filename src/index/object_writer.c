/* SPDX-License-Identifier: Apache-2.0 */
/* object_writer.c: collects the bytes of an object in memory or, if there are many, in a file, and
 * puts them after a header that is known only at the end. The use of memory is bounded, however
 * large a shard is. */
#include "index/object_writer.h"

#include "file/new_file.h"
#include "store/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void object_writer_init(struct object_writer *writer)
{
    *writer = (struct object_writer){ .memory = BUFFER_INIT(OBJECT_WRITER_MEMORY), .fd = -1 };
}

void object_writer_release(struct object_writer *writer)
{
    buffer_release(&writer->memory);
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}

/* How many bytes are in the file. */
static uint64_t in_file(const struct object_writer *writer)
{
    return writer->size - writer->memory.size;
}

/* Moves the bytes in memory to the file. */
static bool spill(struct object_writer *writer)
{
    if (writer->fd < 0 && temporary_file(&writer->fd, &writer->error) != HF_OK)
        return false;
    if (file_write_at(writer->fd, buffer_view(&writer->memory), in_file(writer),
                      &writer->error) != HF_OK)
        return false;
    buffer_clear(&writer->memory);
    return true;
}

bool object_writer_append(struct object_writer *writer, struct view bytes)
{
    if (writer->error.status != HF_OK)
        return false;
    for (struct view rest = bytes; rest.size > 0;) {
        if (writer->memory.size == OBJECT_WRITER_MEMORY && !spill(writer))
            return false;
        struct view piece = view_first(rest, OBJECT_WRITER_MEMORY - writer->memory.size);
        if (!buffer_append(&writer->memory, piece)) {
            error_no_memory(&writer->error);
            return false;
        }
        writer->size += piece.size;
        rest = view_from(rest, piece.size);
    }
    return true;
}

static enum hf_status put_from_memory(struct object_writer *writer, struct store *store,
                                      struct view head, struct put_call *call)
{
    struct buffer whole = BUFFER_INIT(head.size + writer->memory.size);
    if (!buffer_reserve(&whole, whole.max))
        return error_no_memory(&call->error);
    buffer_append(&whole, head);
    buffer_append(&whole, buffer_view(&writer->memory));
    call->body = buffer_view(&whole);
    store_put(store, call);
    call->body = VIEW("");
    buffer_release(&whole);
    return call->error.status;
}

/* Copies the object writer's file to another file, at offset `at`. */
static enum hf_status copy_file(const struct object_writer *writer, int to, uint64_t at,
                                struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    enum hf_status status = piece ? HF_OK : error_no_memory(error);
    uint64_t done = 0;
    while (status == HF_OK && done < in_file(writer)) {
        uint64_t left = in_file(writer) - done;
        size_t wanted = left < STREAM_PIECE ? (size_t)left : STREAM_PIECE, got;
        status = file_read_at(writer->fd, piece, wanted, done, &got, error);
        if (status == HF_OK && got < wanted)
            status = error_set(error, HF_UNAVAILABLE, "a temporary file was truncated");
        if (status == HF_OK)
            status = file_write_at(to, (struct view){ piece, got }, at + done, error);
        done += wanted;
    }
    free(piece);
    return status;
}

/* Copies the bytes into another file, which the store may keep. */
static enum hf_status put_from_file(struct object_writer *writer, struct store *store,
                                    struct view head, struct put_call *call)
{
    int fd = -1;
    enum hf_status status = temporary_file(&fd, &call->error);
    if (status == HF_OK)
        status = file_write_at(fd, head, 0, &call->error);
    if (status == HF_OK)
        status = copy_file(writer, fd, head.size, &call->error);
    if (status == HF_OK)
        status = file_write_at(fd, buffer_view(&writer->memory), head.size + in_file(writer),
                               &call->error);
    call->give = true;
    if (status == HF_OK)
        status = store_put_file(store, call, fd, /* progress */ NULL);
    if (fd >= 0)
        close(fd);
    return status;
}

enum hf_status object_writer_put(struct object_writer *writer, struct store *store,
                                 struct view head, struct put_call *call)
{
    if (writer->error.status != HF_OK) {
        call->error = writer->error;
        return call->error.status;
    }
    return writer->fd < 0 ? put_from_memory(writer, store, head, call)
                          : put_from_file(writer, store, head, call);
}
