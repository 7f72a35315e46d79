/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c: a document of counters, in which a lost or doubled write is visible. */
#include "tally.h"

#include "base/check.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>

/* "NONCE\nPADDING\n", "SLOT COUNT\n" for each that is not 0, then the padding. */
static enum hf_status tally_parse(struct view bytes, struct tally *tally)
{
    uint64_t slot, count;
    bool good = view_cut(&bytes, '\n').size == NONCE_SIZE &&
                parse_u64(view_cut(&bytes, '\n'), MIB, &tally->padding, NULL) == HF_OK &&
                bytes.size >= tally->padding;
    struct view lines = view_first(bytes, good ? bytes.size - (size_t)tally->padding : 0);
    while (good && lines.size > 0) {
        struct view line = view_cut(&lines, '\n');
        struct view number = view_cut(&line, ' ');
        good = parse_u64(number, TALLY_SLOTS - 1, &slot, NULL) == HF_OK &&
               parse_u64(line, UINT64_MAX, &count, NULL) == HF_OK;
        if (good)
            tally->counts[slot] = count;
    }
    return good ? HF_OK : HF_CORRUPT;
}

static enum hf_status tally_decode(struct view bytes, struct mono_time arrived,
                                   const void *previous, void **ret_body,
                                   struct hf_error *error)
{
    struct tally *tally = calloc(1, sizeof *tally);
    (void)arrived;
    (void)previous;
    if (!tally)
        return error_no_memory(error);
    if (tally_parse(bytes, tally) == HF_OK) {
        *ret_body = tally;
        return HF_OK;
    }
    free(tally);
    return error_set(error, HF_CORRUPT, "this is no tally");
}

static void *tally_birth(void *context)
{
    (void)context;
    return calloc(1, sizeof(struct tally));
}

static bool tally_encode(const void *body, struct view nonce, struct buffer *text)
{
    const struct tally *tally = body;
    buffer_print(text, "%.*s\n%" PRIu64 "\n", VIEW_ARGS(nonce), tally->padding);
    for (size_t i = 0; i < TALLY_SLOTS; i++)
        if (tally->counts[i] > 0)
            buffer_print(text, "%zu %" PRIu64 "\n", i, tally->counts[i]);
    for (uint64_t i = 0; i < tally->padding; i++)
        buffer_append_byte(text, '.');
    return !text->failed;
}

const struct doc_type tally_type = {
    .bytes_max = MIB,
    .decode = tally_decode,
    .birth = tally_birth,
    .encode = tally_encode,
    .free = free,
};

static enum hf_status tally_raise(struct doc_op *op, void *body,
                                  const struct evidence *evidence)
{
    struct raise *raise = (struct raise *)op;
    struct tally *tally = body;
    (void)evidence;
    raise->applied++;
    if (tally->counts[raise->slot] == raise->number)
        return HF_OK;
    if (tally->counts[raise->slot] + 1 != raise->number)
        return error_set(&op->error, HF_MISMATCH, "counter %zu is %" PRIu64 " before %" PRIu64,
                         raise->slot, tally->counts[raise->slot], raise->number);
    tally->counts[raise->slot] = raise->number;
    tally->padding = raise->padding;
    op->changed = true;
    return HF_OK;
}

struct raise raise_of(struct env *env, size_t slot, uint64_t number)
{
    return (struct raise){ .op = { .apply = tally_raise,
                                   .deadline = mono_add(env_now(env), SPAN_S(20)) },
                           .slot = slot,
                           .number = number };
}

struct tally tally_read(struct store *store, struct view key)
{
    struct buffer body = BUFFER_INIT(MIB);
    struct get_call get = { .key = key, .body = &body };
    struct tally tally = { 0 };
    enum hf_status status = store_get(store, &get);
    check(status == HF_OK || status == HF_NOT_FOUND);
    if (status == HF_OK)
        check(tally_parse(buffer_view(&body), &tally) == HF_OK);
    buffer_release(&body);
    return tally;
}
