/* pin.c: pins: leases of scope pin:KEY, in the lease table of the key's home. */
#include "compact/pin.h"

#include "base/check.h"
#include "base/rule.h"
#include "compact/forge.h"
#include "lease/table.h"
#include "lock/chunks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Whether a chunk is still there -------------------------------------------------- */

/* Where a key is sought: at home, then wherever splits have moved it. */
struct quest {
    const char *key;
    char partition[PARTITION_BYTES_MAX + 1];
    bool found;
};

struct quests {
    struct quest *quests;
    size_t count;
    const char *missing; /* a key that is not there any more, or NULL */
};

static const struct reference *find_reference(const struct catalog *catalog, struct view key)
{
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (view_equal(catalog->references[i].key, key))
            return &catalog->references[i];
    return NULL;
}

static void follow(struct quests *all, struct quest *quest, const struct catalog *catalog)
{
    struct view key = view_of(quest->key);
    enum chunk_state state = catalog_state(catalog, key);
    quest->found = state == CHUNK_LIVE || state == CHUNK_TOMBSTONE;
    if (state == CHUNK_MOVED) {
        const struct reference *reference = find_reference(catalog, key);
        check(reference && reference->child < catalog->child_count);
        snprintf(quest->partition, sizeof quest->partition, "%.*s",
                 VIEW_ARGS(catalog->children[reference->child]));
    } else if (!quest->found) {
        all->missing = quest->key;
    }
}

static void look_for(void *argument, const struct catalog *catalog,
                     const struct evidence *evidence)
{
    (void)evidence;
    struct quests *all = argument;
    for (size_t i = 0; i < all->count && !all->missing; i++) {
        struct quest *quest = &all->quests[i];
        if (!quest->found && view_equal(view_of(quest->partition), catalog->partition))
            follow(all, quest, catalog);
    }
}

static const struct quest *first_open(const struct quests *all)
{
    for (size_t i = 0; i < all->count && !all->missing; i++)
        if (!all->quests[i].found)
            return &all->quests[i];
    return NULL;
}

/* Each look answers for a key, or follows it one catalog down. */
static enum hf_status find_all(struct shelf *shelf, struct quests *all, struct hf_error *error)
{
    size_t looks_max = all->count * (SHELF_DEPTH_MAX + 1);
    for (size_t looks = 0; looks < looks_max; looks++) {
        const struct quest *quest = first_open(all);
        struct slot *slot;
        if (!quest)
            return HF_OK;
        enum hf_status status = shelf_slot(shelf, view_of(quest->partition), &slot, error);
        if (status == HF_OK)
            status = slot_show(slot, look_for, all, error);
        if (status != HF_OK)
            return status;
    }
    const struct quest *lost = first_open(all);
    if (!lost)
        return HF_OK;
    return error_set(error, HF_CORRUPT, "%.100s: it was moved in circles", lost->key);
}

/* Reads the catalogs afresh. NOT_FOUND names a key that is not live nor in its grace. */
static enum hf_status check_there(struct shelf *shelf, const char *const *keys, size_t count,
                                  struct hf_error *error)
{
    struct quests all = { .count = count };
    all.quests = calloc(count, sizeof *all.quests);
    if (!all.quests)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        all.quests[i].key = keys[i];
        snprintf(all.quests[i].partition, sizeof all.quests[i].partition, "%.*s",
                 VIEW_ARGS(layout_home(view_of(keys[i]))));
    }
    enum hf_status status = find_all(shelf, &all, error);
    if (status == HF_OK && all.missing)
        status =
            error_set(error, HF_NOT_FOUND,
                      "%.150s: it is not there any more; read the catalog again", all.missing);
    free(all.quests);
    return status;
}

/* ---- Pinning ------------------------------------------------------------------------- */

static enum hf_status check_asked(const char *const *keys, size_t count, struct hf_error *error)
{
    if (count == 0 || count > PIN_CHUNKS_MAX)
        return error_set(error, HF_INVALID, "1 to %d chunks can be pinned at a time",
                         PIN_CHUNKS_MAX);
    struct view home = layout_home(view_of(keys[0]));
    for (size_t i = 0; i < count; i++) {
        struct view key = view_of(keys[i]);
        if (key.size == 0 || key.size > KEY_BYTES_MAX)
            return error_set(error, HF_INVALID, "a key has 1 to %d bytes", KEY_BYTES_MAX);
        if (!view_equal(layout_home(key), home))
            return error_set(error, HF_INVALID,
                             "chunks of two partitions, %.*s and %.*s, are pinned one by one",
                             VIEW_ARGS(home), VIEW_ARGS(layout_home(key)));
    }
    return HF_OK;
}

/* A handle for all of them, not held yet. */
static enum hf_status new_pin(struct shelf *shelf, const char *const *keys, size_t count,
                              int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = ttl_ms;
    struct arena arena = ARENA_INIT;
    const char **scopes = arena_take(&arena, count * sizeof *scopes);
    enum hf_status status = scopes ? HF_OK : error_no_memory(error);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        size_t size = sizeof "pin:" + strlen(keys[i]);
        char *scope = arena_take(&arena, size);
        if (scope)
            snprintf(scope, size, "pin:%s", keys[i]);
        else
            status = error_no_memory(error);
        scopes[i] = scope;
    }
    if (status == HF_OK)
        status = hf_lock_new_many(shelf->client, scopes, count, &options, ret_lock, error);
    arena_release(&arena);
    return status;
}

enum hf_status pin_take(struct shelf *shelf, const char *const *keys, size_t count,
                        int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error)
{
    struct hf_lock *lock = NULL;
    enum hf_status status = check_asked(keys, count, error);
    if (status == HF_OK)
        status = new_pin(shelf, keys, count, ttl_ms, &lock, error);
    if (status == HF_OK && !RULE(PIN_THEN_READ))
        status = check_there(shelf, keys, count, error);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 0, error);
    if (status == HF_OK && RULE(PIN_THEN_READ))
        status = check_there(shelf, keys, count, error);
    if (status == HF_OK)
        status = hf_lock_check(lock, error); /* reading may have taken longer than it lasts */
    if (status == HF_OK) {
        *ret_lock = lock;
        return HF_OK;
    }
    struct hf_error ignored; /* what is not given back ends by itself */
    if (lock && hf_lock_check(lock, &ignored) == HF_OK)
        hf_lock_release(lock, &ignored);
    hf_lock_free(lock);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

enum hf_status pin_read(struct shelf *shelf, struct view key, uint64_t size, uint32_t crc,
                        int fd, struct hf_error *error)
{
    struct get_call call = { .key = key };
    uint64_t got = 0;
    uint32_t sum = 0;
    if (fd < 0 || ftruncate(fd, 0) != 0)
        return error_set(error, HF_INVALID, "the descriptor is of no file that can be written");
    enum hf_status status = store_get_file(shelf->store, &call, fd, /* progress */ NULL);
    *error = call.error;
    if (status == HF_OK)
        status = forge_check_sum(fd, &got, &sum, error);
    if (status == HF_OK && (got != size || sum != crc))
        status = error_set(error, HF_CORRUPT, "%.*s: its bytes are not what the catalog says",
                           VIEW_ARGS(view_first(key, ERROR_PATH_MAX)));
    return status;
}

/* ---- Finding pins -------------------------------------------------------------------- */

/* The keys that are asked for, of one home. */
struct search {
    struct map marks; /* key to the bool that is to be set */
    bool all;         /* the table was damaged: nobody knows who reads what */
    bool unmarked;    /* some of these pins are active in the table, and provably over */
};

/* A pin that the table has as active counts, whatever the time is: it may have been renewed
 * since the table was read, and nothing is written here that would notice. Only a swap that
 * marks it as over ends it. */
static void mark_pins(void *argument, const struct lease_table *table,
                      const struct evidence *evidence)
{
    struct search *search = argument;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool counts = lease->scope_count == 0;
        if (lease->status != LEASE_ACTIVE)
            continue;
        search->all = search->all || lease->scope_count == 0;
        for (size_t j = 0; j < lease->scope_count; j++) {
            bool *mark = lease->scopes[j].kind == SCOPE_PIN
                             ? map_get(&search->marks, lease->scopes[j].name)
                             : NULL;
            if (mark)
                *mark = counts = true;
        }
        search->unmarked |= counts && chunks_lease_over(table, lease, evidence);
    }
}

static enum hf_status look(struct shelf *shelf, struct view home, const struct view *keys,
                           size_t count, struct search *search, struct hf_error *error)
{
    for (size_t i = 0; i < count; i++) {
        bool *mark = map_get(&search->marks, keys[i]);
        if (mark)
            *mark = false;
    }
    search->all = search->unmarked = false;
    return chunks_look(shelf->client, home, mark_pins, search, error);
}

/* One look for all keys that have their home where keys[first] has. */
static enum hf_status search_home(struct shelf *shelf, const struct view *keys, size_t count,
                                  size_t first, bool *done, bool *ret_pinned,
                                  struct hf_error *error)
{
    struct search search = { .marks = MAP_INIT };
    struct view home = layout_home(keys[first]);
    enum hf_status status = HF_OK;
    for (size_t i = first; i < count && status == HF_OK; i++) {
        void *old;
        if (done[i] || !view_equal(layout_home(keys[i]), home))
            continue;
        if (!map_put(&search.marks, keys[i], &ret_pinned[i], &old))
            status = error_no_memory(error);
    }
    if (status == HF_OK)
        status = look(shelf, home, keys, count, &search, error);
    if (status == HF_OK && search.unmarked) {
        status = chunks_tidy(shelf->client, home, NULL, 0, error);
        if (status == HF_OK)
            status = look(shelf, home, keys, count, &search, error);
    }
    for (size_t i = first; i < count && status == HF_OK; i++)
        if (!done[i] && view_equal(layout_home(keys[i]), home)) {
            const bool *mark = map_get(&search.marks, keys[i]); /* keys may be named twice */
            ret_pinned[i] = search.all || *mark;
            done[i] = true;
        }
    map_release(&search.marks);
    return status;
}

enum hf_status pin_find(struct shelf *shelf, const struct view *keys, size_t count,
                        bool *ret_pinned, struct hf_error *error)
{
    bool *done = calloc(count > 0 ? count : 1, sizeof *done);
    if (!done)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++)
        if (!done[i])
            status = search_home(shelf, keys, count, i, done, ret_pinned, error);
    free(done);
    return status;
}
