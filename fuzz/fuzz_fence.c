/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_fence.c: parses arbitrary bytes as a fence. An accepted fence must be written and read
 * back as the same, and a write over it must be judged in one of the known ways. */
#include "base/check.h"
#include "fuzz.h"
#include "lock/fence.h"

#define NONCE VIEW("0123456789abcdef0123456789abcdef")

static void survives_the_round_trip(const struct fence *fence)
{
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct fence again;
    struct hf_error error;
    check(fence_encode(fence, NONCE, &text));
    check(fence_decode(buffer_view(&text), &again, &error) == HF_OK);
    check(again.kind == fence->kind && fence_stamp_equal(&again.stamp, &fence->stamp));
    if (fence->kind != FENCE_NONE)
        check(again.size == fence->size && again.xxh3 == fence->xxh3);
    check(view_equal(fence_text(&again), fence_text(fence)));
    check(fence_stamp_equal(&again.before, &fence->before));
    check(again.scopes.size == fence->scopes.size &&
          memcmp(again.scopes.texts, fence->scopes.texts, fence->scopes.size) == 0);
    check(again.unknown_size == fence->unknown_size &&
          memcmp(again.unknown, fence->unknown, fence->unknown_size) == 0);
    buffer_release(&text);
}

/* By a holder of exactly the fence's scopes. */
static enum hf_status checker(const struct fence *fence, const struct fence_stamp *stamp,
                              enum fence_outcome *ret_outcome)
{
    struct scope scopes[FENCE_SCOPES_MAX / 2] = { { .kind = SCOPE_INODE } };
    struct fence_writer writer = { *stamp, scopes, 0 };
    struct hf_error error;
    for (size_t at = 0; at < fence->scopes.size;) {
        struct view text = view_of(fence->scopes.texts + at);
        if (scope_parse(text, &scopes[writer.scope_count], NULL) == HF_OK)
            writer.scope_count++;
        at += text.size + 1;
    }
    if (fence->scopes.size == 0) /* of version 1 */
        writer.scope_count = 1;
    enum hf_status status = fence_check_writer(fence, &writer, ret_outcome, &error);
    check(status == HF_OK || error.status == status);
    return status;
}

/* A write recognises itself, a lower token is refused, and a higher one overwrites. */
static void is_judged(const struct fence *fence)
{
    struct fence_stamp writer = fence->stamp;
    enum fence_outcome outcome;
    enum hf_status status = checker(fence, &writer, &outcome);
    if (status == HF_UNSUPPORTED || status == HF_MISMATCH)
        return; /* scopes that we do not know, or pins */
    check(status == HF_OK);
    if (fence->kind == FENCE_NONE) {
        check(outcome == FENCE_WRITE);
        return;
    }
    check(outcome == FENCE_DONE);
    writer.token--;
    check(checker(fence, &writer, &outcome) == HF_FENCED);
    if (writer.token > UINT64_MAX - 2)
        return;
    writer.token += 2;
    check(checker(fence, &writer, &outcome) == HF_OK && outcome == FENCE_WRITE);
    writer.table[0] = (char)(writer.table[0] == 'x' ? 'y' : 'x');
    check(checker(fence, &writer, &outcome) == HF_MISMATCH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fence fence;
    struct hf_error error = { .why = "" };
    enum hf_status status =
        fence_decode((struct view){ (const char *)data, size }, &fence, &error);
    if (status == HF_OK) {
        survives_the_round_trip(&fence);
        is_judged(&fence);
    } else {
        check(status == HF_MISMATCH || status == HF_CORRUPT || status == HF_UNSUPPORTED);
        check(error.why[0] != '\0');
    }
    return 0;
}
