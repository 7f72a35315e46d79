/* SPDX-License-Identifier: Apache-2.0 */
/* pin.c: pins are leases with scope pin:KEY, in the lease table of the key's home, or with scope
 * snapshot:PARTITION:GENERATION, in the lease table of a catalog. A reader pins before it reads the
 * catalog, and a deleter reads the pins after it has moved the names, so a pinned chunk is never
 * deleted. */
#include "compact/care/pin.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "compact/catalog/chunk_object.h"
#include "compact/work/merger.h"
#include "lease/table.h"
#include "lock/chunks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Checking that a chunk exists ---------------------------------------------------- */

/* Looks for a key in its home, then follows the references that splits left. */
struct chunk_search {
    const char *key;
    char partition[PARTITION_BYTES_MAX + 1];
    bool found;
};

struct chunk_searches {
    struct chunk_search *searches;
    size_t count;
    const char *missing; /* a key that is no longer there, or NULL */
};

static void search_catalog(void *argument, const struct catalog *catalog,
                           const struct evidence *evidence)
{
    (void)evidence;
    struct chunk_searches *all = argument;
    for (size_t i = 0; i < all->count; i++) {
        struct chunk_search *search = &all->searches[i];
        if (search->found || !view_equal(view_of(search->partition), catalog->partition))
            continue;
        struct view key = view_of(search->key);
        enum chunk_state state = catalog_state(catalog, key);
        /* A tombstone still has its object. Before a worker deletes that object, it moves the name
         * to deleting and then reads the pins, so it will see ours. */
        search->found = state == CHUNK_LIVE || state == CHUNK_TOMBSTONE;
        if (state == CHUNK_MOVED) {
            const struct reference *reference = catalog_reference(catalog, key);
            check(reference && reference->child < catalog->child_count);
            snprintf(search->partition, sizeof search->partition, "%.*s",
                     VIEW_ARGS(catalog->children[reference->child]));
        } else if (!search->found) {
            all->missing = search->key;
            return;
        }
    }
}

static const struct chunk_search *first_open(const struct chunk_searches *all)
{
    if (all->missing)
        return NULL;
    for (size_t i = 0; i < all->count; i++)
        if (!all->searches[i].found)
            return &all->searches[i];
    return NULL;
}

/* Reads the catalogs again, with the pin held. NOT_FOUND: the error names a key that is neither
 * live nor within its grace period. */
static enum hf_status check_there(struct catalog_tree *tree, const char *const *keys,
                                  size_t count, struct hf_error *error)
{
    struct chunk_searches all = { .count = count };
    all.searches = calloc(count, sizeof *all.searches);
    if (!all.searches)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        all.searches[i].key = keys[i];
        snprintf(all.searches[i].partition, sizeof all.searches[i].partition, "%.*s",
                 VIEW_ARGS(layout_home(view_of(keys[i]))));
    }
    /* Each step either finds the state of a key or follows it one catalog further down. */
    size_t steps = count * (CATALOG_TREE_DEPTH_MAX + 1);
    enum hf_status status = HF_OK;
    const struct chunk_search *search = first_open(&all);
    while (search && status == HF_OK && steps-- > 0) {
        struct catalog_ref *ref;
        status = catalog_tree_ref(tree, view_of(search->partition), &ref, error);
        if (status == HF_OK)
            status = catalog_ref_show(ref, search_catalog, &all, error);
        search = first_open(&all);
    }
    if (status == HF_OK && all.missing)
        status = error_set(error, HF_NOT_FOUND,
                           "%.150s: the chunk no longer exists; read the catalog again",
                           all.missing);
    else if (status == HF_OK && search)
        status = error_set(error, HF_CORRUPT, "%.100s: the references to it form a cycle",
                           search->key);
    free(all.searches);
    return status;
}

/* ---- Pinning ------------------------------------------------------------------------- */

/* A pin is one lease, and a deleter looks for it in the table of the key's home. So all keys of a
 * pin must have the same home. */
static enum hf_status check_asked(const char *const *keys, size_t count, struct hf_error *error)
{
    if (count == 0 || count > PIN_CHUNKS_MAX)
        return error_set(error, HF_INVALID, "1 to %d chunks can be pinned at a time",
                         PIN_CHUNKS_MAX);
    struct view home = layout_home(view_of(keys[0]));
    for (size_t i = 0; i < count; i++) {
        struct view key = view_of(keys[i]);
        if (key.size == 0 || key.size > KEY_BYTES_MAX)
            return error_set(error, HF_INVALID, "a key must be 1 to %d bytes long",
                             KEY_BYTES_MAX);
        if (!view_equal(layout_home(key), home))
            return error_set(
                error, HF_INVALID,
                "chunks of two partitions, %.*s and %.*s, must be pinned separately",
                VIEW_ARGS(home), VIEW_ARGS(layout_home(key)));
    }
    return HF_OK;
}

/* A lock handle for all keys, not acquired yet. */
static enum hf_status new_pin(struct catalog_tree *tree, const char *const *keys, size_t count,
                              int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = ttl_ms;
    struct arena arena = ARENA_INIT;
    const char **scopes = arena_take(&arena, count * sizeof *scopes);
    bool has_memory = scopes != NULL;
    for (size_t i = 0; i < count; i++) {
        size_t size = sizeof "pin:" + strlen(keys[i]);
        char *scope = arena_take(&arena, size);
        has_memory = has_memory && scope;
        if (!has_memory)
            break;
        snprintf(scope, size, "pin:%s", keys[i]);
        scopes[i] = scope;
    }
    enum hf_status status =
        has_memory ? hf_lock_new_many(tree->client, scopes, count, &options, ret_lock, error)
                   : error_no_memory(error);
    arena_release(&arena);
    return status;
}

enum hf_status pin_take(struct catalog_tree *tree, const char *const *keys, size_t count,
                        int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock *lock = NULL;
    enum hf_status status = check_asked(keys, count, error);
    if (status == HF_OK)
        status = new_pin(tree, keys, count, ttl_ms, &lock, error);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 0, error);
    /* The catalog must be read after the pin is written. If it were read before, a deleter could
     * move the names and read the pins in between, and then delete the chunks. */
    if (status == HF_OK && RULE(PIN_THEN_READ))
        status = check_there(tree, keys, count, error);
    if (status == HF_OK)
        status = hf_lock_check(lock, error); /* it may have expired during the reads */
    if (status == HF_OK) {
        *ret_lock = lock;
        return HF_OK;
    }
    struct hf_error ignored; /* a pin that cannot be released expires */
    if (lock && hf_lock_check(lock, &ignored) == HF_OK)
        hf_lock_release(lock, &ignored);
    hf_lock_free(lock);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

enum hf_status pin_read(struct catalog_tree *tree, const struct chunk *chunk, int fd,
                        struct hf_error *error)
{
    struct get_call call = chunk_get_call(chunk);
    uint64_t got = 0;
    uint32_t sum = 0;
    if (fd < 0 || ftruncate(fd, 0) != 0)
        return error_set(error, HF_INVALID, "the descriptor does not refer to a writable file");
    store_get_file(tree->store, &call, fd, /* progress */ NULL);
    enum hf_status status = chunk_got(chunk, &call, error);
    if (status == HF_OK)
        status = file_checksum(fd, "read back", &got, &sum, error);
    if (status == HF_OK && (got != chunk->size || sum != chunk->crc32c))
        status =
            error_set(error, HF_CORRUPT, "%.*s: its size or checksum differs from the catalog",
                      VIEW_ARGS(view_first(call.key, ERROR_PATH_MAX)));
    return status;
}

/* ---- Snapshots ----------------------------------------------------------------------- */

enum hf_status pin_snapshot(struct catalog_tree *tree, struct view partition,
                            uint64_t generation, int64_t ttl_ms, struct hf_lock **ret_lock,
                            struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct scope scope = { .kind = SCOPE_SNAPSHOT,
                           .name = partition,
                           .generation = generation };
    char text[SCOPE_TEXT_MAX + 1];
    struct hf_lock *lock = NULL;
    options.ttl_ms = ttl_ms;
    enum hf_status status =
        hf_lock_new(tree->client, scope_text(&scope, text), &options, &lock, error);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 0, error);
    if (status == HF_OK)
        *ret_lock = lock;
    else
        hf_lock_free(lock);
    return status;
}

/* ---- Finding pins -------------------------------------------------------------------- */

/* What one table says about the keys of a query. */
struct search {
    struct map marks;              /* maps a key to the bool to set */
    bool *found;                   /* these bools, one for each key */
    const struct pin_level *level; /* of the catalog whose table is read; NULL: not asked for */
    bool all;      /* all keys are pinned: by a snapshot, or perhaps by a lost pin */
    bool unmarked; /* some of these pins have provably expired but are active in the table */
};

/* Whether the reader of this snapshot may have seen the keys as live. */
static bool snapshot_holds(const struct search *search, const struct scope *scope)
{
    if (scope->kind != SCOPE_SNAPSHOT || !search->level)
        return false;
    bool holds = RULE(SNAPSHOTS_ARE_PINS) && scope->generation < search->level->generation;
    MUTANT(mutant_compares_generations(scope->generation, search->level->generation, &holds));
    return holds;
}

/* A pin that is active in the table counts, even if it has provably expired: it may have been
 * renewed after the table was read, and deleting an object writes nothing that would conflict with
 * a renewal. The pin counts until a swap has marked it as ended. A lease without scopes is a
 * barrier, which stands for all leases of a damaged table. */
static void mark_pins(void *argument, const struct lease_table *table,
                      const struct evidence *evidence)
{
    struct search *search = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool holds_all = lease->wish.scope_count == 0, counts = false;
        if (lease->status != LEASE_ACTIVE)
            continue;
        for (size_t j = 0; j < lease->wish.scope_count; j++) {
            const struct scope *scope = &lease->wish.scopes[j];
            bool *mark = scope->kind == SCOPE_PIN ? map_get(&search->marks, scope->name) : NULL;
            holds_all |= snapshot_holds(search, scope);
            if (mark)
                *mark = counts = true;
        }
        search->all |= holds_all;
        search->unmarked |= (counts || holds_all) && chunks_lease_over(table, lease, evidence);
    }
}

static enum hf_status read_pins(struct catalog_tree *tree, struct view partition, size_t count,
                                struct search *search, struct hf_error *error)
{
    memset(search->found, 0, count * sizeof *search->found);
    search->all = search->unmarked = false;
    return chunks_look(tree->client, partition, mark_pins, search, error);
}

/* Reads one table, and adds what it pins to the result. */
static enum hf_status search_table(struct catalog_tree *tree, const struct pin_query *query,
                                   struct view partition, struct search *search,
                                   bool *ret_pinned, struct hf_error *error)
{
    enum hf_status status = read_pins(tree, partition, query->count, search, error);
    /* A reader may have died with its pin active, and the pin would then keep the chunks forever.
     * So a swap marks it as ended. If the reader is alive after all, the swap conflicts with its
     * renewal. */
    if (status == HF_OK && search->unmarked) {
        status = chunks_tidy(tree->client, partition, NULL, 0, error);
        if (status == HF_OK)
            status = read_pins(tree, partition, query->count, search, error);
    }
    for (size_t i = 0; status == HF_OK && i < query->count; i++) {
        const bool *mark = map_get(&search->marks, query->keys[i]);
        ret_pinned[i] |= search->all || *mark;
    }
    return status;
}

/* Whether the table of this key's home has been read, as a level or for an earlier key. */
static bool home_is_read(const struct pin_query *query, size_t index)
{
    struct view home = layout_home(query->keys[index]);
    for (size_t i = 0; i < query->level_count; i++)
        if (view_equal(query->levels[i].partition, home))
            return true;
    for (size_t i = 0; i < index; i++)
        if (view_equal(layout_home(query->keys[i]), home))
            return true;
    return false;
}

enum hf_status pin_find(struct catalog_tree *tree, const struct pin_query *query,
                        bool *ret_pinned, struct hf_error *error)
{
    struct search search = { .marks = MAP_INIT };
    search.found = calloc(query->count + 1, sizeof *search.found);
    bool has_memory = search.found != NULL;
    for (size_t i = 0; has_memory && i < query->count; i++) {
        void *old; /* if a key occurs twice, both occurrences share one mark */
        ret_pinned[i] = false;
        has_memory = map_put(&search.marks, query->keys[i], &search.found[i], &old);
    }
    enum hf_status status = has_memory ? HF_OK : error_no_memory(error);
    for (size_t i = 0; status == HF_OK && i < query->level_count; i++) {
        search.level = &query->levels[i];
        status = search_table(tree, query, search.level->partition, &search, ret_pinned, error);
    }
    search.level = NULL;
    for (size_t i = 0; status == HF_OK && i < query->count; i++)
        if (!home_is_read(query, i))
            status = search_table(tree, query, layout_home(query->keys[i]), &search, ret_pinned,
                                  error);
    map_release(&search.marks);
    free(search.found);
    return status;
}
