/* draft.c: bytes gathered in memory, moved to a file when they become many, and put behind a head
 * that is known only at the end. */
#include "index/draft.h"

#include "merge/new_file.h"
#include "store/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void draft_init(struct draft *draft)
{
    *draft = (struct draft){ .memory = BUFFER_INIT(DRAFT_MEMORY), .fd = -1 };
}

void draft_release(struct draft *draft)
{
    buffer_release(&draft->memory);
    if (draft->fd >= 0)
        close(draft->fd);
    draft->fd = -1;
}

/* How many bytes are in the file. */
static uint64_t in_file(const struct draft *draft)
{
    return draft->size - draft->memory.size;
}

/* Moves what is in memory to the file. */
static bool spill(struct draft *draft)
{
    if (draft->fd < 0 && temporary_file(&draft->fd, &draft->error) != HF_OK)
        return false;
    if (file_write_at(draft->fd, buffer_view(&draft->memory), in_file(draft), &draft->error) !=
        HF_OK)
        return false;
    buffer_clear(&draft->memory);
    return true;
}

bool draft_append(struct draft *draft, struct view bytes)
{
    if (draft->error.status != HF_OK)
        return false;
    for (struct view rest = bytes; rest.size > 0;) {
        if (draft->memory.size == DRAFT_MEMORY && !spill(draft))
            return false;
        struct view piece = view_first(rest, DRAFT_MEMORY - draft->memory.size);
        if (!buffer_append(&draft->memory, piece)) {
            error_no_memory(&draft->error);
            return false;
        }
        draft->size += piece.size;
        rest = view_from(rest, piece.size);
    }
    return true;
}

static enum hf_status put_from_memory(struct draft *draft, struct store *store,
                                      struct view head, struct put_call *call)
{
    struct buffer whole = BUFFER_INIT(head.size + draft->memory.size);
    if (!buffer_reserve(&whole, whole.max))
        return error_no_memory(&call->error);
    buffer_append(&whole, head);
    buffer_append(&whole, buffer_view(&draft->memory));
    call->body = buffer_view(&whole);
    store_put(store, call);
    call->body = VIEW("");
    buffer_release(&whole);
    return call->error.status;
}

/* Writes the bytes of the draft's file to another, from `at` on. */
static enum hf_status copy_file(const struct draft *draft, int to, uint64_t at,
                                struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    enum hf_status status = piece ? HF_OK : error_no_memory(error);
    for (uint64_t done = 0; status == HF_OK && done < in_file(draft);) {
        uint64_t left = in_file(draft) - done;
        size_t wanted = left < STREAM_PIECE ? (size_t)left : STREAM_PIECE, got;
        status = file_read_at(draft->fd, piece, wanted, done, &got, error);
        if (status == HF_OK && got < wanted)
            status = error_set(error, HF_UNAVAILABLE, "a temporary file became shorter");
        if (status == HF_OK)
            status = file_write_at(to, (struct view){ piece, got }, at + done, error);
        done += wanted;
    }
    free(piece);
    return status;
}

/* Into a further file, which the store may keep. */
static enum hf_status put_from_file(struct draft *draft, struct store *store, struct view head,
                                    struct put_call *call)
{
    int fd = -1;
    enum hf_status status = temporary_file(&fd, &call->error);
    if (status == HF_OK)
        status = file_write_at(fd, head, 0, &call->error);
    if (status == HF_OK)
        status = copy_file(draft, fd, head.size, &call->error);
    if (status == HF_OK)
        status = file_write_at(fd, buffer_view(&draft->memory), head.size + in_file(draft),
                               &call->error);
    call->give = true;
    if (status == HF_OK)
        status = store_put_file(store, call, fd, /* progress */ NULL);
    if (fd >= 0)
        close(fd);
    return status;
}

enum hf_status draft_put(struct draft *draft, struct store *store, struct view head,
                         struct put_call *call)
{
    if (draft->error.status != HF_OK) {
        call->error = draft->error;
        return call->error.status;
    }
    return draft->fd < 0 ? put_from_memory(draft, store, head, call)
                         : put_from_file(draft, store, head, call);
}
