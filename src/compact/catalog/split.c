/* SPDX-License-Identifier: Apache-2.0 */
/* split.c: splits a full catalog. The children are complete in the store, under random names,
 * before the parent's swap names them. The swap is refused if a live entry has changed since the
 * children were made; then new children are made. Children whose swap was definitely refused are
 * deleted. After UNSURE they are kept, because the swap may still take effect. */
#include "base/mutant.h"
#include "compact/catalog/catalog_tree.h"
#include "store/retry.h"

#include <stdlib.h>

#define PARTITION_DIGITS 32

/* How many times an unanswered put of a child is sent, and the first pause between attempts, which
 * doubles each time. */
#define PUT_TRIES_MAX 12
#define PUT_BACKOFF   SPAN_MS(10)

/* The children to write, made from one version of the parent. */
struct new_children {
    struct env *env;
    bool already;           /* the parent has children: nothing to do */
    struct hf_error error;  /* error while making them */
    struct mono_time drawn; /* when their names were generated */
    char names[CATALOG_CHILDREN][PARTITION_DIGITS + 1];
    char keys[CATALOG_CHILDREN][KEY_BYTES_MAX + 1];
    struct buffer texts[CATALOG_CHILDREN];
    enum split_by split_by;
    uint64_t live_hash;
};

/* ---- Making the children ------------------------------------------------------------- */

/* Splits by hour, so that chunks that are merged together stay together. The exception: if one hour
 * has more than half of the entries, its child would soon be full too, so the split is by key. Uses
 * a majority vote: entries of different hours cancel each other in pairs, and only the remaining
 * hour can have the majority. */
static enum split_by choose_split(const struct catalog *catalog)
{
    int64_t candidate = 0;
    size_t lead = 0, count = 0;
    for (size_t i = 0; i < catalog->live_count; i++) {
        int64_t hour = hour_of_ms(catalog->live[i].min_ms);
        if (lead == 0)
            candidate = hour;
        lead = hour == candidate ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i < catalog->live_count; i++)
        count += hour_of_ms(catalog->live[i].min_ms) == candidate;
    return count > catalog->live_count / 2 ? SPLIT_BY_KEY : SPLIT_BY_HOUR;
}

/* Encodes one child with the entries routed to it. */
static enum hf_status make_child(struct new_children *children, const struct catalog *parent,
                                 unsigned child, struct hf_error *error)
{
    struct catalog *catalog;
    char nonce[NONCE_SIZE + 1];
    enum hf_status status = catalog_new(view_of(children->names[child]), parent->partition,
                                        parent->depth + 1, &parent->settings, &catalog, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < parent->live_count; i++) {
        const struct chunk *chunk = &parent->live[i];
        if (split_route(parent->partition, children->split_by, chunk->key, chunk->min_ms) ==
            child)
            status = catalog_copy_entry(catalog, chunk, error);
        if (status != HF_OK)
            break;
    }
    if (status == HF_OK)
        status = catalog_inherit(catalog, parent, error);
    env_random_hex(children->env, NONCE_SIZE, nonce);
    if (status == HF_OK && !catalog_encode(catalog, view_of(nonce), &children->texts[child]))
        status = error_no_memory(error);
    catalog_free(catalog);
    return status;
}

static void make_children(void *argument, const struct catalog *parent,
                          const struct evidence *evidence)
{
    (void)evidence;
    struct new_children *children = argument;
    children->already = parent->child_count > 0;
    if (children->already)
        return;
    if (parent->depth >= CATALOG_TREE_DEPTH_MAX) {
        error_set(&children->error, HF_UNAVAILABLE,
                  "the catalog of %.*s is full, and too deep in the tree to be split",
                  VIEW_ARGS(parent->partition));
        return;
    }
    children->drawn = env_now(children->env);
    children->split_by = choose_split(parent);
    children->live_hash = catalog_live_hash(parent);
    for (unsigned i = 0; i < CATALOG_CHILDREN; i++) {
        env_random_hex(children->env, PARTITION_DIGITS, children->names[i]);
        layout_partition_key(view_of(children->names[i]), LAYOUT_CATALOG, children->keys[i]);
        buffer_clear(&children->texts[i]);
    }
    for (unsigned i = 0; i < CATALOG_CHILDREN; i++)
        if (make_child(children, parent, i, &children->error) != HF_OK)
            return;
}

/* ---- Writing them -------------------------------------------------------------------- */

/* A put was refused. Either an earlier attempt of ours has landed, since nobody else generates this
 * name, or another write was in progress and the child may not exist at all. A read shows which. If
 * the child were assumed to exist, the parent could name a missing catalog. */
static enum hf_status look_for_child(struct store *store, const struct put_call *put,
                                     struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct get_call call = { .key = put->key, .body = &bytes };
    enum hf_status status = store_get(store, &call);
    if (status == HF_NOT_FOUND)
        status = error_set(&call.error, HF_UNAVAILABLE, "the store refused to write it");
    else if (status == HF_OK && !view_equal(buffer_view(&bytes), put->body))
        status = error_set(&call.error, HF_CONFLICT, "another catalog exists under that name");
    buffer_release(&bytes);
    *error = call.error;
    return status;
}

/* Puts the children that are not in the store yet, and returns how many are still missing. */
static size_t put_round(struct store *store, struct put_call *puts, bool *there)
{
    struct put_call calls[CATALOG_CHILDREN];
    size_t index[CATALOG_CHILDREN], count = 0, missing = 0;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i]) {
            index[count] = i;
            calls[count++] = puts[i];
        }
    store_put_many(store, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        puts[index[i]].error = calls[i].error;
        if (status == HF_CONFLICT)
            status = look_for_child(store, &puts[index[i]], &puts[index[i]].error);
        there[index[i]] = status == HF_OK;
        missing += !there[index[i]];
    }
    return missing;
}

static bool worth_another_round(const struct put_call *puts, const bool *there)
{
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i] && request_settled(puts[i].error.status))
            return false;
    return true;
}

static enum hf_status put_children(struct catalog_tree *tree, struct new_children *children,
                                   struct hf_error *error)
{
    struct put_call puts[CATALOG_CHILDREN];
    bool there[CATALOG_CHILDREN] = { false };
    struct retry retry = { .store = tree->store,
                           .pause = PUT_BACKOFF,
                           .left = PUT_TRIES_MAX - 1 };
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        puts[i] = (struct put_call){ .key = view_of(children->keys[i]),
                                     .body = buffer_view(&children->texts[i]),
                                     .condition = if_absent(),
                                     .quiet = true };
    size_t missing;
    do
        missing = put_round(tree->store, puts, there);
    while (retry_after(&retry, missing > 0 && worth_another_round(puts, there) ? HF_UNAVAILABLE
                                                                               : HF_OK));
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        if (!there[i]) {
            *error = puts[i].error;
            error_prefix(error, "a new catalog");
            return error->status;
        }
    return HF_OK;
}

/* No catalog names these children, and none ever will. Best effort: fsck finds the rest. */
static void delete_children(struct catalog_tree *tree, struct new_children *children)
{
    struct delete_call calls[CATALOG_CHILDREN];
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        calls[i] = (struct delete_call){ .key = view_of(children->keys[i]) };
    store_delete_many(tree->store, calls, CATALOG_CHILDREN);
}

/* ---- The swap ------------------------------------------------------------------------ */

/* Whether the parent's children are these. If so, an attempt whose reply was lost has landed, and
 * the children are in use. A parent keeps its children forever. */
static bool are_ours(struct catalog_ref *ref, const struct new_children *children)
{
    env_mutex_lock(&ref->tree->mutex);
    bool ours = ref->route.child_count > 0 &&
                view_equal(view_of(ref->route.children[0]), view_of(children->names[0]));
    env_mutex_unlock(&ref->tree->mutex);
    return ours;
}

/* Makes one attempt. CONFLICT: entries changed in the meantime. MISMATCH: another client has split
 * the catalog. */
static enum hf_status split_once(struct catalog_ref *ref, struct new_children *children,
                                 struct hf_error *error)
{
    struct catalog_tree *tree = ref->tree;
    error_clear(&children->error);
    enum hf_status status = catalog_ref_show(ref, make_children, children, error);
    if (status != HF_OK || children->already)
        return status;
    if (children->error.status != HF_OK) {
        *error = children->error;
        return error->status;
    }
    struct catalog_op swap = { .kind = CATALOG_SPLIT,
                               .split_by = children->split_by,
                               .live_hash = children->live_hash,
                               .drawn = children->drawn };
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        swap.children[i] = view_of(children->names[i]);
    MUTANT(mutant_swaps_parent_first(ref, &swap));
    status = put_children(tree, children, error);
    if (status == HF_UNSURE) { /* a put is unsure, but no swap was sent, so nothing changed */
        status = error->status = HF_UNAVAILABLE;
    } else if (status == HF_OK) {
        status = catalog_ref_apply(ref, &swap, (struct mono_time){ 0 });
        *error = swap.error;
    }
    if (status != HF_OK && status != HF_UNSURE && !are_ours(ref, children))
        delete_children(tree, children);
    return status;
}

enum hf_status catalog_ref_split(struct catalog_ref *ref, struct hf_error *error)
{
    struct new_children *children = calloc(1, sizeof *children);
    if (!children)
        return error_no_memory(error);
    children->env = ref->tree->env;
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        children->texts[i] = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    enum hf_status status = split_once(ref, children, error);
    for (int tries = 1; tries < CATALOG_TREE_SPLIT_TRIES; tries++)
        if (status == HF_CONFLICT || status == HF_EXPIRED)
            status = split_once(ref, children, error);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++)
        buffer_release(&children->texts[i]);
    free(children);
    if (status == HF_MISMATCH)
        return error_clear(error);
    if (status == HF_CONFLICT || status == HF_EXPIRED)
        return error_set(error, HF_UNAVAILABLE,
                         "the catalog of %s changes too fast to be split", ref->partition);
    return status;
}
