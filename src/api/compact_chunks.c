/* SPDX-License-Identifier: Apache-2.0 */
/* compact_chunks.c: lists the chunks of a partition, quarantines and restores individual chunks,
 * and pins chunks for a reader. */
#include "api/compact_inside.h"
#include "compact/care/pin.h"
#include "compact/care/undelete.h"

#include <stdio.h>

/* ---- Listing ------------------------------------------------------------------------- */

bool chunk_info_copy(struct arena *arena, const char *partition, enum hf_chunk_state state,
                     const struct chunk *chunk, struct view into,
                     struct hf_chunk_info *ret_info)
{
    *ret_info = (struct hf_chunk_info){
        .struct_size = sizeof *ret_info,
        .key = text_in(arena, chunk->key),
        .partition = partition,
        .state = state,
        .level = chunk->level,
        .size = chunk->size,
        .rows_known = chunk->rows_known,
        .rows = chunk->rows,
        .min_ms = chunk->min_ms,
        .max_ms = chunk->max_ms,
        .writer = text_in(arena, chunk->writer),
        .sequence = chunk->sequence,
        .crc32c = chunk->crc32c,
        .rejects = chunk->rejects,
        .tries = chunk->tries,
        .quarantine = text_in(arena, chunk->quarantine),
        .into = text_in(arena, into),
        .object = text_in(arena, chunk->object),
        .etag = text_in(arena, chunk->etag),
    };
    return ret_info->key && ret_info->writer && ret_info->quarantine && ret_info->into &&
           ret_info->object && ret_info->etag;
}

struct listing {
    enum hf_chunks which;
    bool (*each)(void *argument, const struct hf_chunk_info *chunk);
    void *argument;
    struct arena arena; /* for one catalog */
    struct hf_chunk_info *infos;
    size_t count;
};

static bool list_chunk(struct listing *listing, const struct catalog_ref *ref,
                       enum hf_chunk_state state, const struct chunk *chunk, struct view into)
{
    if (listing->which == HF_CHUNKS_QUARANTINED && chunk->quarantine.size == 0)
        return true;
    const char *partition = ref->partition; /* lives as long as the catalog tree */
    return chunk_info_copy(&listing->arena, partition, state, chunk, into,
                           &listing->infos[listing->count++]);
}

static bool list_dead(struct listing *listing, const struct catalog_ref *ref,
                      const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t j = 0; j < catalog->graves[i].count; j++)
            if (!list_chunk(listing, ref, HF_CHUNK_TOMBSTONE, &catalog->graves[i].chunks[j],
                            catalog->graves[i].into))
                return false;
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        bool retired = removal->how == DELETING_RETIRED;
        for (size_t j = 0; j < removal->count; j++) {
            const struct chunk name = { .key = removal->keys[j] };
            if (!list_chunk(listing, ref, retired ? HF_CHUNK_RETIRED : HF_CHUNK_CONDEMNED,
                            &name, VIEW("")))
                return false;
        }
    }
    return true;
}

static enum hf_status copy_chunks(void *argument, struct catalog_ref *ref,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence)
{
    struct listing *listing = argument;
    bool all = listing->which == HF_CHUNKS_ALL;
    size_t most = catalog->live_count + (all ? catalog->dead_count : 0);
    (void)evidence;
    arena_release(&listing->arena);
    listing->arena = ARENA_INIT;
    listing->count = 0;
    listing->infos = arena_take(&listing->arena, (most + 1) * sizeof *listing->infos);
    if (!listing->infos)
        return HF_UNAVAILABLE;
    for (size_t i = 0; i < catalog->live_count; i++)
        if (!list_chunk(listing, ref, HF_CHUNK_LIVE, &catalog->live[i], VIEW("")))
            return HF_UNAVAILABLE;
    return !all || list_dead(listing, ref, catalog) ? HF_OK : HF_UNAVAILABLE;
}

static bool report_chunks(void *argument)
{
    struct listing *listing = argument;
    for (size_t i = 0; i < listing->count; i++)
        if (!listing->each(listing->argument, &listing->infos[i]))
            return false;
    return true;
}

enum hf_status hf_compact_chunks(struct hf_compact *compact, enum hf_chunks which,
                                 bool (*each)(void *argument,
                                              const struct hf_chunk_info *chunk),
                                 void *argument, struct hf_error *error)
{
    struct listing listing = {
        .which = which, .each = each, .argument = argument, .arena = ARENA_INIT
    };
    struct compact_walk walk = { .look = copy_chunks,
                                 .told = report_chunks,
                                 .argument = &listing };
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    if (!each || (unsigned)which > HF_CHUNKS_ALL)
        return error_set(error, HF_INVALID, "%s",
                         each ? "the argument 'which' is out of range"
                              : "each must not be NULL");
    enum hf_status status = compact_walk(compact, &walk, &why);
    arena_release(&listing.arena);
    return error_tell(error, status, &why);
}

/* ---- One chunk ----------------------------------------------------------------------- */

struct search {
    struct view key;
    enum chunk_state wanted;
    enum chunk_state found;
    char partition[PARTITION_BYTES_MAX + 1]; /* whose catalog lists the chunk in this state */
};

/* A chunk is in the catalog of its home partition or, if a split moved it, in the catalog of a
 * child. */
static enum hf_status match_chunk(void *argument, struct catalog_ref *ref,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence)
{
    struct search *search = argument;
    enum chunk_state state = catalog_state(catalog, search->key);
    (void)evidence;
    if (state == CHUNK_UNKNOWN || state == CHUNK_MOVED || search->found == search->wanted)
        return HF_OK;
    search->found = state;
    memcpy(search->partition, ref->partition, sizeof search->partition);
    return HF_OK;
}

static enum hf_status find_catalog_of_chunk(struct hf_compact *compact, struct view key,
                                            enum chunk_state wanted,
                                            struct catalog_ref **ret_ref,
                                            struct hf_error *error)
{
    struct search search = { .key = key, .wanted = wanted, .found = CHUNK_UNKNOWN };
    struct compact_walk walk = { .look = match_chunk, .argument = &search };
    enum hf_status status = compact_walk(compact, &walk, error);
    if (search.found == wanted)
        return catalog_tree_ref(compact->tree, view_of(search.partition), ret_ref, error);
    if (status != HF_OK)
        return status;
    if (search.found == CHUNK_UNKNOWN)
        return error_set(error, HF_NOT_FOUND, "no catalog in the partition lists it");
    return error_set(error, HF_NOT_FOUND, "it is %s, not %s", chunk_state_name(search.found),
                     chunk_state_name(wanted));
}

/* Applies one operation to one chunk, which must be in the given state. */
static enum hf_status apply_to_chunk(struct hf_compact *compact, const char *key,
                                     enum chunk_state wanted, struct catalog_op *op,
                                     struct hf_error *error)
{
    struct catalog_ref *ref;
    struct hf_error why;
    struct view name = view_of(key);
    client_active(compact->client);
    enum hf_status status = find_catalog_of_chunk(compact, name, wanted, &ref, &why);
    if (status == HF_OK) {
        op->keys = &name;
        op->key_count = 1;
        status = catalog_ref_apply(ref, op, /* deadline */ (struct mono_time){ 0 });
        why = op->error;
    }
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_quarantine(struct hf_compact *compact, const char *key,
                                     const char *why, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, compact, key, why) != HF_OK)
        return HF_INVALID;
    struct catalog_op op = { .kind = CATALOG_QUARANTINE, .reason = view_of(why) };
    if (op.reason.size == 0 || op.reason.size > REASON_BYTES_MAX)
        return error_set(error, HF_INVALID, "a reason must be 1 to %d bytes long",
                         REASON_BYTES_MAX);
    return apply_to_chunk(compact, key, CHUNK_LIVE, &op, error);
}

enum hf_status hf_compact_unquarantine(struct hf_compact *compact, const char *key,
                                       struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_QUARANTINE, .reason = VIEW("") };
    if (ERROR_IF_NULL(error, compact, key) != HF_OK)
        return HF_INVALID;
    return apply_to_chunk(compact, key, CHUNK_LIVE, &op, error);
}

enum hf_status hf_compact_discard(struct hf_compact *compact, const char *key,
                                  struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_DISCARD };
    if (ERROR_IF_NULL(error, compact, key) != HF_OK)
        return HF_INVALID;
    return apply_to_chunk(compact, key, CHUNK_LIVE, &op, error);
}

enum hf_status hf_compact_undelete(struct hf_compact *compact, const char *key,
                                   uint64_t *ret_restored, struct hf_error *error)
{
    struct catalog_ref *ref;
    struct hf_error why;
    size_t restored;
    if (ERROR_IF_NULL(error, compact, key) != HF_OK)
        return HF_INVALID;
    client_active(compact->client);
    enum hf_status status =
        find_catalog_of_chunk(compact, view_of(key), CHUNK_TOMBSTONE, &ref, &why);
    if (status == HF_OK)
        status = undelete_chunk(ref, view_of(key), &restored, &why);
    if (status == HF_OK && ret_restored)
        *ret_restored = restored;
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_pin(struct hf_compact *compact, const char *const *keys, size_t count,
                              int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_error why;
    if (ret_lock)
        *ret_lock = NULL;
    if (ERROR_IF_NULL(error, compact, keys, ret_lock) != HF_OK ||
        error_if_null_among(error, "keys", keys, count) != HF_OK)
        return HF_INVALID;
    client_active(compact->client);
    enum hf_status status = pin_take(compact->tree, keys, count, ttl_ms, ret_lock, &why);
    return error_tell(error, status, &why);
}
