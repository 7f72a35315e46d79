/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c: takes a snapshot of a partition: pins every catalog, then reads them all again. A
 * catalog that is read before its pin is written would not do: a deleter could move its names to
 * deleting and read the pins in between. */
#include "compact/care/snapshot.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "compact/care/pin.h"

#include <stdlib.h>

/* One walk over the catalogs. */
struct snapshot_walk {
    struct snapshot *snapshot;
    struct map held;        /* from the name of a catalog to the pin that holds its chunks */
    bool note, copy;        /* note the catalogs to be pinned; copy their chunks */
    struct hf_error damage; /* the first catalog that cannot be read */
};

/* Notes a catalog that is to be pinned, at the generation of the document that was just read. */
static bool note_catalog(struct snapshot *snapshot, const struct catalog *catalog)
{
    if (snapshot->pin_count == snapshot->pin_room) {
        size_t room = 2 * snapshot->pin_room + 8;
        struct snapshot_pin *pins = realloc(snapshot->pins, room * sizeof *pins);
        if (!pins)
            return false;
        snapshot->pins = pins;
        snapshot->pin_room = room;
    }
    struct snapshot_pin pin = { arena_copy(&snapshot->arena, catalog->partition),
                                catalog->generation, NULL };
    snapshot->pins[snapshot->pin_count++] = pin;
    return pin.partition.data != NULL;
}

/* The pin of a catalog or, if it was not there when the catalogs were pinned, of the catalog above
 * it, which is visited first. NULL if out of memory. */
static const struct snapshot_pin *pin_of(struct snapshot_walk *walk,
                                         const struct catalog *catalog, struct view partition)
{
    struct snapshot_pin *pin = map_get(&walk->held, partition);
    void *old;
    if (pin)
        return pin;
    pin = map_get(&walk->held, catalog->parent);
    check(pin);
    return map_put(&walk->held, partition, pin, &old) ? pin : NULL;
}

static bool snapshot_copy_chunk(struct arena *arena, const struct chunk *from,
                                struct chunk *ret_chunk)
{
    *ret_chunk = *from;
    ret_chunk->raw = ret_chunk->unknown = VIEW("");
    ret_chunk->key = arena_copy(arena, from->key);
    ret_chunk->writer = arena_copy(arena, from->writer);
    ret_chunk->file_id = arena_copy(arena, from->file_id);
    ret_chunk->quarantine = arena_copy(arena, from->quarantine);
    ret_chunk->object = arena_copy(arena, from->object);
    ret_chunk->etag = arena_copy(arena, from->etag);
    return ret_chunk->key.data && ret_chunk->writer.data && ret_chunk->file_id.data &&
           ret_chunk->quarantine.data && ret_chunk->object.data && ret_chunk->etag.data;
}

/* A catalog that was dropped and created again, or restored from a backup, since its generation was
 * read may have an earlier one. Then the pin does not hold what it removes next. */
static enum hf_status check_generation(const struct snapshot_walk *walk,
                                       const struct catalog *catalog, struct hf_error *error)
{
    const struct snapshot_pin *pin = map_get(&walk->held, catalog->partition);
    if (!walk->copy || !pin || catalog->generation >= pin->generation)
        return HF_OK;
    return error_set(
        error, HF_CONFLICT,
        "the partition was created again or restored while its snapshot was taken; "
        "try again");
}

static bool snapshot_copy_chunks(struct snapshot_walk *walk, const struct catalog *catalog)
{
    struct snapshot *snapshot = walk->snapshot;
    size_t wanted = snapshot->chunk_count + catalog->live_count;
    struct view partition = arena_copy(&snapshot->arena, catalog->partition);
    const struct snapshot_pin *pin = partition.data ? pin_of(walk, catalog, partition) : NULL;
    if (!pin)
        return false;
    if (wanted > snapshot->chunk_room) {
        size_t room = wanted > 2 * snapshot->chunk_room ? wanted : 2 * snapshot->chunk_room;
        struct snapshot_chunk *chunks = realloc(snapshot->chunks, room * sizeof *chunks);
        if (!chunks)
            return false;
        snapshot->chunks = chunks;
        snapshot->chunk_room = room;
    }
    for (size_t i = 0; i < catalog->live_count; i++) {
        struct snapshot_chunk *copy = &snapshot->chunks[snapshot->chunk_count++];
        copy->partition = partition;
        copy->pin = (size_t)(pin - snapshot->pins);
        if (!snapshot_copy_chunk(&snapshot->arena, &catalog->live[i], &copy->chunk))
            return false;
    }
    return true;
}

static enum hf_status snapshot_visit(void *argument, struct catalog_ref *ref,
                                     const struct catalog *catalog,
                                     const struct evidence *evidence,
                                     const struct hf_error *why)
{
    struct snapshot_walk *walk = argument;
    struct snapshot *snapshot = walk->snapshot;
    (void)evidence;
    if (!catalog) {
        walk->damage = *why;
        error_prefix(&walk->damage, "%s", ref->partition);
        return why->status;
    }
    if (catalog_check_dropping(catalog, &walk->damage) != HF_OK ||
        check_generation(walk, catalog, &walk->damage) != HF_OK)
        return walk->damage.status;
    bool good = !walk->note || note_catalog(snapshot, catalog);
    if (good && walk->copy)
        good = snapshot_copy_chunks(walk, catalog);
    if (walk->copy && catalog->has_expired && catalog->expired_ms > snapshot->expired_ms)
        snapshot->expired_ms = catalog->expired_ms;
    if (good && walk->copy && catalog->depth == 0) {
        snapshot->settings = catalog->settings;
        good = compact_settings_keep(&snapshot->settings, &snapshot->arena);
    }
    return good ? HF_OK : error_no_memory(&walk->damage);
}

static enum hf_status snapshot_read(struct snapshot_walk *walk, struct hf_error *error)
{
    struct snapshot *snapshot = walk->snapshot;
    bool has_memory = true;
    void *old;
    walk->held = MAP_INIT;
    for (size_t i = 0; i < snapshot->pin_count && has_memory; i++)
        has_memory =
            map_put(&walk->held, snapshot->pins[i].partition, &snapshot->pins[i], &old);
    enum hf_status status = has_memory
                                ? catalog_tree_walk(snapshot->tree, snapshot_visit, walk, error)
                                : error_no_memory(error);
    if (walk->damage.status != HF_OK) {
        *error = walk->damage;
        status = error->status;
    }
    map_release(&walk->held);
    return status;
}

static enum hf_status pin_catalogs(struct snapshot *snapshot, int64_t ttl_ms,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < snapshot->pin_count && status == HF_OK; i++) {
        struct snapshot_pin *pin = &snapshot->pins[i];
        status = pin_snapshot(snapshot->tree, pin->partition, pin->generation, ttl_ms,
                              &pin->lock, error);
    }
    return status;
}

enum hf_status snapshot_take(struct catalog_tree *tree, int64_t ttl_ms,
                             struct snapshot *ret_snapshot, struct hf_error *error)
{
    struct snapshot snapshot = { .tree = tree, .arena = ARENA_INIT, .expired_ms = INT64_MIN };
    struct snapshot_walk first = { .snapshot = &snapshot, .note = true };
    struct snapshot_walk second = { .snapshot = &snapshot, .copy = true };
    enum hf_status status = snapshot_read(&first, error);
    MUTANT(mutant_reads_snapshot_early(snapshot_read, &second, &status, error));
    if (status == HF_OK)
        status = pin_catalogs(&snapshot, ttl_ms, error);
    if (status == HF_OK && RULE(SNAPSHOT_READS_LAST))
        status = snapshot_read(&second, error);
    if (status == HF_OK)
        status = snapshot_check(&snapshot, error); /* a pin may have expired during the reads */
    if (status == HF_OK)
        *ret_snapshot = snapshot;
    else
        snapshot_release(&snapshot);
    return status;
}

enum hf_status snapshot_check(const struct snapshot *snapshot, struct hf_error *error)
{
    for (size_t i = 0; i < snapshot->pin_count; i++) {
        enum hf_status status = hf_lock_check(snapshot->pins[i].lock, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

void snapshot_release(struct snapshot *snapshot)
{
    struct hf_error ignored; /* a pin that cannot be released expires */
    for (size_t i = 0; i < snapshot->pin_count; i++) {
        struct hf_lock *lock = snapshot->pins[i].lock;
        if (lock && hf_lock_check(lock, &ignored) == HF_OK)
            hf_lock_release(lock, &ignored);
        hf_lock_free(lock);
    }
    free(snapshot->pins);
    free(snapshot->chunks);
    arena_release(&snapshot->arena);
    *snapshot = (struct snapshot){ .arena = ARENA_INIT };
}
