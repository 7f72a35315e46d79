/* SPDX-License-Identifier: Apache-2.0 */
/* undelete.c: checks adopted objects before a merge is undone. If one of them had been rewritten,
 * undoing the merge would lose its rows. */
#include "compact/care/undelete.h"

#include "compact/catalog/chunk_object.h"

/* The adopted chunks of the grave that contains a key. */
struct adopted_sources {
    struct view key;
    struct arena arena;
    struct chunk *chunks; /* only object and etag are set */
    size_t count;
    bool no_memory;
};

static bool grave_contains(const struct grave *grave, struct view key)
{
    for (size_t i = 0; i < grave->count; i++)
        if (view_equal(grave->chunks[i].key, key))
            return true;
    return false;
}

static void copy_adopted_sources(void *argument, const struct catalog *catalog,
                                 const struct evidence *evidence)
{
    struct adopted_sources *sources = argument;
    const struct grave *grave = NULL;
    (void)evidence;
    for (size_t i = 0; i < catalog->grave_count && !grave; i++)
        if (grave_contains(&catalog->graves[i], sources->key))
            grave = &catalog->graves[i];
    if (!grave)
        return;
    sources->chunks = arena_take(&sources->arena, grave->count * sizeof *sources->chunks);
    sources->no_memory = !sources->chunks;
    for (size_t i = 0; i < grave->count && !sources->no_memory; i++) {
        const struct chunk *from = &grave->chunks[i];
        if (!chunk_is_adopted(from) ||
            (!grave_is_one(grave) && !view_equal(from->key, sources->key)))
            continue;
        struct chunk *chunk = &sources->chunks[sources->count++];
        *chunk = (struct chunk){ .object = arena_copy(&sources->arena, from->object),
                                 .etag = arena_copy(&sources->arena, from->etag) };
        sources->no_memory = !chunk->object.data || !chunk->etag.data;
    }
}

static enum hf_status find_adopted_version(struct store *store, const struct chunk *chunk,
                                           struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call call = chunk_get_call(chunk);
    call.length = 1;
    call.body = &body;
    enum hf_status status = store_get(store, &call);
    buffer_release(&body);
    if (status != HF_CONFLICT && status != HF_NOT_FOUND) {
        *error = call.error;
        return status;
    }
    return error_set(error, HF_CONFLICT,
                     "%.*s was %s since it was adopted, so the merge cannot be undone",
                     VIEW_ARGS(view_first(chunk->object, 120)),
                     status == HF_CONFLICT ? "rewritten" : "deleted");
}

enum hf_status undelete_chunk(struct catalog_ref *ref, struct view key, size_t *ret_restored,
                              struct hf_error *error)
{
    struct adopted_sources sources = { .key = key, .arena = ARENA_INIT };
    enum hf_status status = catalog_ref_show(ref, copy_adopted_sources, &sources, error);
    if (status == HF_OK && sources.no_memory)
        status = error_no_memory(error);
    for (size_t i = 0; i < sources.count && status == HF_OK; i++)
        status = find_adopted_version(ref->tree->store, &sources.chunks[i], error);
    arena_release(&sources.arena);
    if (status != HF_OK)
        return status;
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    status = catalog_ref_apply(ref, &op, /* deadline */ (struct mono_time){ 0 });
    *error = op.error;
    *ret_restored = op.moved;
    return status;
}
