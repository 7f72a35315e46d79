/* SPDX-License-Identifier: Apache-2.0 */
/* store_move.c: what distinguishes a move from a copy (the option `move` of hf_store_copy): which
 * objects are not moved, and when the source may be deleted.
 *
 * Invariants:
 *
 *   1. The version that is deleted is the version that was copied: the delete carries the ETag that
 *      was read with the bytes.
 *   2. A move deletes its source only after it has written the target itself. Otherwise two
 *      opposite moves could both find the other's copy, and both delete their source.
 *
 * For the second invariant, a target that already has the bytes is written again, on condition that
 * it has not changed. An opposite move that is about to delete it then fails, because the ETag is a
 * new one, or it has deleted it before, and then the write fails. The same happens if source and
 * target are the same object under two names. If writing equal bytes does not change the ETag, the
 * other move would not notice the write, so such a target is refused. */
#include "api/store_copy_inside.h"
#include "lock/fence.h"
#include "store/stream.h"

/* A fence names its body by a key that belongs to the fence's own key, so a copy of the fence
 * cannot be read. And without the fence, the highest token would be forgotten. */
static enum hf_status refuse_fence(struct copying *copying)
{
    char start[64];
    size_t got;
    enum hf_status status =
        file_read_at(copying->spool, start, sizeof start, /* offset */ 0, &got, copying->error);
    if (status == HF_OK && view_starts_with((struct view){ start, got }, FENCE_START))
        status =
            error_set(copying->error, HF_INVALID,
                      "this is a fenced object, and fenced objects are not moved; read it, "
                      "and write it again under the new key");
    return status;
}

enum hf_status move_check(struct copying *copying, struct view target, bool equal)
{
    enum hf_status status = refuse_fence(copying);
    if (status == HF_OK && equal && !copying->to->traits.etag_fresh)
        status =
            error_set(copying->error, HF_CONFLICT,
                      "the target '%.*s' already has the same bytes; this store cannot show "
                      "whether an opposite move is under way, so the source was not deleted",
                      VIEW_ARGS(view_first(target, 60)));
    return status;
}

enum hf_status move_explain_conflict(struct copying *copying, const struct put_call *put)
{
    struct view key = view_first(put->key, 60);
    if (put->condition.kind == CONDITION_MATCH)
        return error_set(
            copying->error, HF_CONFLICT,
            "another client has written or deleted the target '%.*s' meanwhile, so "
            "the source was not deleted; move it again",
            VIEW_ARGS(key));
    if (put->error.status != HF_CONFLICT)
        return put->error.status;
    return error_set(copying->error, HF_CONFLICT,
                     "the target '%.*s' already exists with different bytes", VIEW_ARGS(key));
}

/* NOT_FOUND: another client has deleted it. */
enum hf_status move_delete_source(struct copying *copying, struct view key,
                                  const struct etag *copied)
{
    struct delete_call call = { .key = key, .condition = if_match(copied) };
    enum hf_status status = store_delete(copying->from, &call);
    *copying->error = call.error;
    if (status == HF_CONFLICT)
        return error_set(copying->error, HF_CONFLICT,
                         "it was copied, but not deleted, because it is no longer the version "
                         "that was copied: another client has written it, or source and target "
                         "are the same object");
    if (status == HF_UNSUPPORTED)
        return error_set(
            copying->error, HF_UNSUPPORTED,
            "it was copied, but the store has no conditional delete, so it was not "
            "deleted; delete it if no other client writes it");
    return status == HF_NOT_FOUND ? error_clear(copying->error) : status;
}
