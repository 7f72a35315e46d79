/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c: the document of tally.h: its encoding, and the operation that changes it. */
#include "sim/workloads/tally.h"

#include "base/check.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>

#define TALLY_BYTES 200

struct tally {
    uint64_t count;
    uint64_t writer, change; /* the last one */
};

/* "NONCE COUNT WRITER CHANGE" */
static enum hf_status decode_tally(struct view bytes, struct mono_time arrived,
                                   const void *previous, void **ret_body,
                                   struct hf_error *error)
{
    struct tally read = { 0 };
    (void)arrived;
    (void)previous;
    view_cut(&bytes, ' ');
    struct view count = view_cut(&bytes, ' '), writer = view_cut(&bytes, ' ');
    if (parse_u64(count, UINT64_MAX, &read.count, NULL) != HF_OK ||
        parse_u64(writer, UINT64_MAX, &read.writer, NULL) != HF_OK ||
        parse_u64(bytes, UINT64_MAX, &read.change, NULL) != HF_OK)
        return error_set(error, HF_CORRUPT, "this is no tally");
    struct tally *tally = malloc(sizeof *tally);
    check(tally);
    *tally = read;
    *ret_body = tally;
    return HF_OK;
}

static bool encode_tally(const void *body, struct view nonce, struct buffer *text)
{
    const struct tally *tally = body;
    buffer_print(text, "%.*s %" PRIu64 " %" PRIu64 " %" PRIu64, VIEW_ARGS(nonce), tally->count,
                 tally->writer, tally->change);
    return !text->failed;
}

static void *new_tally(void *context)
{
    struct tally *tally = calloc(1, sizeof *tally);
    (void)context;
    check(tally);
    return tally;
}

static const struct doc_type tally_type = {
    .bytes_max = TALLY_BYTES,
    .decode = decode_tally,
    .birth = new_tally,
    .encode = encode_tally,
    .free = free,
};

struct tally_op {
    struct doc_op base;
    uint64_t writer, change;
};

static enum hf_status apply_change(struct doc_op *base, void *body,
                                   const struct evidence *evidence)
{
    struct tally_op *op = (struct tally_op *)(void *)base;
    struct tally *tally = body;
    (void)evidence;
    if (tally->writer == op->writer && tally->change == op->change)
        return HF_OK;
    *tally = (struct tally){ tally->count + 1, op->writer, op->change };
    base->changed = true;
    return HF_OK;
}

void tally_open(struct tally_client *client, struct net *net, struct node *node, uint64_t id,
                struct view key, struct observer observer)
{
    struct hf_error error;
    struct store *inner = net_store_open(net, node);
    *client = (struct tally_client){ .node = node, .id = id };
    check(inner);
    check(store_observe(inner, observer, &client->store, &error) == HF_OK);
    clock_init(&client->clock, client->store);
    check(doc_new(client->store, &client->clock, key, &tally_type, NULL, &client->doc,
                  &error) == HF_OK);
}

void tally_close(struct tally_client *client)
{
    doc_free(client->doc);
    clock_release(&client->clock);
    store_close(client->store);
}

enum hf_status tally_change(struct tally_client *client, struct span patience)
{
    struct tally_op op = { .writer = client->id, .change = ++client->changes };
    op.base.apply = apply_change;
    op.base.deadline = mono_add(env_now(node_env(client->node)), patience);
    return doc_update(client->doc, &op.base);
}
