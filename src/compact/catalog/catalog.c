/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.c: a catalog in memory: its entries, its indexes, and queries. Each key has exactly one
 * state, so no caller can find a chunk both live and deleted. */
#include "compact/catalog/catalog.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "compact/catalog/catalog_inside.h"
#include "merge/key.h"

#include <stdlib.h>

/* Bytes that each kind of entry takes in the document, apart from its chunks or keys. */
#define GRAVE_OVERHEAD   128
#define REMOVAL_OVERHEAD 96
#define KEY_OVERHEAD     4
#define OBJECT_OVERHEAD  40
#define CHUNK_OVERHEAD   2

/* ---- Memory -------------------------------------------------------------------------- */

struct catalog *catalog_blank(void)
{
    struct catalog *catalog = calloc(1, sizeof *catalog);
    struct catalog_inside *inside = calloc(1, sizeof *inside);
    if (!catalog || !inside) {
        free(catalog);
        free(inside);
        return NULL;
    }
    inside->space = BUFFER_INIT(CATALOG_BYTES_READ_MAX + KEY_TEXT_MAX);
    inside->unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    inside->unknown_settings = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    inside->arena = ARENA_INIT;
    catalog->inside = inside;
    return catalog;
}

void catalog_free(struct catalog *catalog)
{
    if (!catalog)
        return;
    struct catalog_inside *inside = catalog->inside;
    free(catalog->live);
    free(catalog->graves);
    free(catalog->removals);
    free(catalog->writers);
    free(catalog->references);
    free(catalog->moved_file_ids);
    free(catalog->kept_file_ids);
    free(inside->text);
    buffer_release(&inside->space);
    buffer_release(&inside->unknown);
    buffer_release(&inside->unknown_settings);
    arena_release(&inside->arena);
    key_index_release(&inside->index);
    key_index_release(&inside->files);
    free(inside);
    free(catalog);
}

void *catalog_take(struct catalog *catalog, size_t size)
{
    catalog->inside->spent += size;
    return arena_take(&catalog->inside->arena, size);
}

struct view catalog_keep(struct catalog *catalog, struct view text)
{
    if (text.size == 0)
        return VIEW("");
    catalog->inside->spent += text.size + 1;
    return arena_copy(&catalog->inside->arena, text);
}

enum hf_status catalog_keep_settings(struct catalog *catalog,
                                     const struct compact_settings *settings,
                                     struct compact_settings *ret_kept, struct hf_error *error)
{
    struct compact_settings kept = *settings;
    if (!compact_settings_keep(&kept, &catalog->inside->arena))
        return error_no_memory(error);
    catalog->inside->spent +=
        kept.key.size + kept.time.size + kept.deleted.size + kept.command.size;
    *ret_kept = kept;
    return HF_OK;
}

static bool grow_array(void **array, size_t *room, size_t count, size_t more, size_t size)
{
    size_t wanted = *room ? *room : 8;
    while (wanted < count + more)
        wanted *= 2;
    if (wanted == *room)
        return true;
    void *grown = realloc(*array, wanted * size);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

/* Each array has its own function; they differ only in the element type. */
#define DEFINE_ROOM(name, type, array, count_member, room_member)                             \
    bool name(struct catalog *catalog, size_t more)                                           \
    {                                                                                         \
        void *memory = catalog->array;                                                        \
        bool good = grow_array(&memory, &catalog->inside->room_member, catalog->count_member, \
                               more, sizeof(type));                                           \
        catalog->array = memory;                                                              \
        return good;                                                                          \
    }

DEFINE_ROOM(catalog_room_live, struct chunk, live, live_count, live_room)
DEFINE_ROOM(catalog_room_graves, struct grave, graves, grave_count, grave_room)
DEFINE_ROOM(catalog_room_removals, struct removal, removals, removal_count, removal_room)
DEFINE_ROOM(catalog_room_references, struct reference, references, reference_count,
            reference_room)
DEFINE_ROOM(catalog_room_writers, struct writer, writers, writer_count, writer_room)
DEFINE_ROOM(catalog_room_moved_file_ids, struct view, moved_file_ids, moved_file_id_count,
            moved_file_id_room)
DEFINE_ROOM(catalog_room_kept_file_ids, struct view, kept_file_ids, kept_file_id_count,
            kept_file_id_room)

/* ---- Parts --------------------------------------------------------------------------- */

size_t chunk_bytes(const struct chunk *chunk)
{
    return chunk->raw.size + CHUNK_OVERHEAD;
}

size_t grave_bytes(const struct grave *grave)
{
    size_t bytes = GRAVE_OVERHEAD + grave->into.size + grave->part.unknown.size;
    for (size_t i = 0; i < grave->count; i++)
        bytes += chunk_bytes(&grave->chunks[i]);
    return bytes;
}

size_t removal_bytes(const struct removal *removal)
{
    size_t bytes = REMOVAL_OVERHEAD + removal->part.unknown.size;
    for (size_t i = 0; i < removal->count; i++)
        bytes += removal->keys[i].size + KEY_OVERHEAD;
    for (size_t i = 0; i < removal->file_id_count; i++)
        bytes += removal->file_ids[i].size + KEY_OVERHEAD;
    for (size_t i = 0; i < removal->object_count; i++)
        bytes += removal->objects[i].key.size + removal->objects[i].object.size +
                 removal->objects[i].etag.size + OBJECT_OVERHEAD;
    return bytes;
}

bool catalog_reserve_keys(struct catalog *catalog, size_t more)
{
    return key_index_reserve(&catalog->inside->index, more) &&
           key_index_reserve(&catalog->inside->files, more);
}

/* If an identity occurs twice, which is possible only in a document that was edited by hand, the
 * index finds the last entry. */
static void enter_file(struct catalog *catalog, struct view file_id, enum chunk_state state,
                       uint64_t serial)
{
    if (file_id.size > 0)
        key_index_put(&catalog->inside->files, file_id, state, serial);
}

void catalog_forget_file(struct catalog *catalog, struct view file_id, uint64_t serial)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->files, file_id);
    if (slot && slot->serial == serial)
        key_index_drop(&catalog->inside->files, file_id);
}

static uint64_t next_serial(struct catalog *catalog)
{
    return ++catalog->inside->serial;
}

void catalog_push_live(struct catalog *catalog, const struct chunk *chunk)
{
    check(catalog->live_count < catalog->inside->live_room);
    struct chunk *place = &catalog->live[catalog->live_count++];
    *place = *chunk;
    place->leaving = false;
    place->serial = next_serial(catalog);
    catalog->live_bytes += chunk_bytes(place);
    key_index_put(&catalog->inside->index, place->key, CHUNK_LIVE, place->serial);
    enter_file(catalog, place->file_id, CHUNK_LIVE, place->serial);
}

void catalog_push_grave(struct catalog *catalog, const struct grave *grave)
{
    check(catalog->grave_count < catalog->inside->grave_room);
    struct grave *place = &catalog->graves[catalog->grave_count++];
    *place = *grave;
    place->part.serial = next_serial(catalog);
    catalog->dead_count += place->count;
    catalog->dead_bytes += grave_bytes(place);
    catalog->inside->unwritten |= place->part.unwritten;
    for (size_t i = 0; i < place->count; i++) {
        const struct chunk *chunk = &place->chunks[i];
        key_index_put(&catalog->inside->index, chunk->key, CHUNK_TOMBSTONE, place->part.serial);
        enter_file(catalog, chunk->file_id, CHUNK_TOMBSTONE, place->part.serial);
    }
}

void catalog_push_removal(struct catalog *catalog, const struct removal *removal)
{
    check(catalog->removal_count < catalog->inside->removal_room);
    struct removal *place = &catalog->removals[catalog->removal_count++];
    enum chunk_state state = removal->how == DELETING_RETIRED ? CHUNK_RETIRED : CHUNK_CONDEMNED;
    *place = *removal;
    place->part.serial = next_serial(catalog);
    catalog->dead_count += place->count;
    catalog->dead_bytes += removal_bytes(place);
    catalog->inside->unwritten |= place->part.unwritten;
    for (size_t i = 0; i < place->count; i++)
        key_index_put(&catalog->inside->index, place->keys[i], state, place->part.serial);
    for (size_t i = 0; i < place->file_id_count; i++)
        enter_file(catalog, place->file_ids[i], state, place->part.serial);
}

void catalog_push_reference(struct catalog *catalog, struct view key, unsigned child)
{
    check(catalog->reference_count < catalog->inside->reference_room);
    catalog->references[catalog->reference_count++] = (struct reference){ key, child };
    key_index_put(&catalog->inside->index, key, CHUNK_MOVED, 0);
}

void catalog_push_moved_file(struct catalog *catalog, struct view file_id)
{
    check(catalog->moved_file_id_count < catalog->inside->moved_file_id_room);
    catalog->moved_file_ids[catalog->moved_file_id_count++] = file_id;
    enter_file(catalog, file_id, CHUNK_MOVED, 0);
}

void catalog_push_kept_file(struct catalog *catalog, struct view file_id)
{
    check(catalog->kept_file_id_count < catalog->inside->kept_file_id_room);
    catalog->kept_file_ids[catalog->kept_file_id_count++] = file_id;
    enter_file(catalog, file_id, CHUNK_RETIRED, 0);
}

void catalog_sweep_live(struct catalog *catalog)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->live_count; i++) {
        if (catalog->live[i].leaving)
            catalog->live_bytes -= chunk_bytes(&catalog->live[i]);
        else if (kept++ < i)
            catalog->live[kept - 1] = catalog->live[i];
    }
    catalog->live_count = kept;
}

void catalog_sweep_graves(struct catalog *catalog)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        struct grave *grave = &catalog->graves[i];
        if (grave->part.leaving) {
            catalog->dead_count -= grave->count;
            catalog->dead_bytes -= grave_bytes(grave);
        } else if (kept++ < i) {
            catalog->graves[kept - 1] = *grave;
        }
    }
    catalog->grave_count = kept;
}

void catalog_sweep_removals(struct catalog *catalog)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->removal_count; i++) {
        struct removal *removal = &catalog->removals[i];
        if (removal->part.leaving) {
            catalog->dead_count -= removal->count;
            catalog->dead_bytes -= removal_bytes(removal);
        } else if (kept++ < i) {
            catalog->removals[kept - 1] = *removal;
        }
    }
    catalog->removal_count = kept;
}

/* A binary search in an array whose elements have ascending serial numbers. */
#define DEFINE_OF(name, type, array, count_member, number)                                \
    type *name(const struct catalog *catalog, uint64_t serial)                            \
    {                                                                                     \
        size_t low = 0, high = catalog->count_member;                                     \
        while (low < high) {                                                              \
            size_t middle = low + (high - low) / 2;                                       \
            if (catalog->array[middle].number < serial)                                   \
                low = middle + 1;                                                         \
            else                                                                          \
                high = middle;                                                            \
        }                                                                                 \
        bool found = low < catalog->count_member && catalog->array[low].number == serial; \
        return found ? &catalog->array[low] : NULL;                                       \
    }

DEFINE_OF(catalog_live_of, struct chunk, live, live_count, serial)
DEFINE_OF(catalog_grave_of, struct grave, graves, grave_count, part.serial)
DEFINE_OF(catalog_removal_of, struct removal, removals, removal_count, part.serial)

struct chunk *catalog_live_by_key(const struct catalog *catalog, struct view key)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    return slot && slot->state == CHUNK_LIVE ? catalog_live_of(catalog, slot->serial) : NULL;
}

struct grave *catalog_grave_by_key(const struct catalog *catalog, struct view key)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    bool dead = slot && slot->state == CHUNK_TOMBSTONE;
    return dead ? catalog_grave_of(catalog, slot->serial) : NULL;
}

struct removal *catalog_removal_by_key(const struct catalog *catalog, struct view key)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    bool deleting = slot && (slot->state == CHUNK_RETIRED || slot->state == CHUNK_CONDEMNED);
    return deleting ? catalog_removal_of(catalog, slot->serial) : NULL;
}

size_t writer_place(const struct writer *writers, size_t count, struct view name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (view_compare(writers[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t last_of_writer(const struct catalog *catalog, struct view name)
{
    size_t at = writer_place(catalog->writers, catalog->writer_count, name);
    bool known = at < catalog->writer_count && view_equal(catalog->writers[at].name, name);
    return known ? catalog->writers[at].sequence : 0;
}

bool catalog_sequences_hold(const struct catalog *catalog)
{
    uint64_t rest = last_of_writer(catalog, VIEW(CATALOG_WRITERS_REST)), last = 0;
    /* The writer that `last` belongs to. Neighbouring chunks often have the same writer. */
    struct view writer = VIEW("");
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (!view_equal(chunk->writer, writer)) {
            writer = chunk->writer;
            last = last_of_writer(catalog, writer);
        }
        if (chunk->sequence > last && chunk->sequence > rest)
            return false;
    }
    return true;
}

/* ---- Creation and queries ------------------------------------------------------------ */

enum hf_status catalog_new(struct view partition, struct view parent, unsigned depth,
                           const struct compact_settings *settings,
                           struct catalog **ret_catalog, struct hf_error *error)
{
    bool named = layout_partition_valid(partition) &&
                 (parent.size == 0 || layout_partition_valid(parent)) &&
                 !view_equal(partition, parent);
    if (!named || depth > CATALOG_DEPTH_MAX || (parent.size > 0) != (depth > 0))
        return error_set(error, HF_INVALID, "invalid partition name '%.*s'",
                         VIEW_ARGS(view_first(partition, PARTITION_BYTES_MAX)));
    enum hf_status status = compact_settings_check(settings, error);
    if (status != HF_OK)
        return status;
    struct catalog *catalog = catalog_blank();
    if (!catalog)
        return error_no_memory(error);
    catalog->partition = catalog_keep(catalog, partition);
    catalog->parent = catalog_keep(catalog, parent);
    catalog->depth = depth;
    status = catalog->partition.data && catalog->parent.data
                 ? catalog_keep_settings(catalog, settings, &catalog->settings, error)
                 : error_no_memory(error);
    if (status != HF_OK) {
        catalog_free(catalog);
        return status;
    }
    *ret_catalog = catalog;
    return HF_OK;
}

/* An entry counts as seen only once it is known to be in the store. Its swap may have been lost or
 * may land late, and then the time before it must not count towards grace or D. */
void catalog_written(struct catalog *catalog, struct mono_time now)
{
    if (!catalog->inside->unwritten)
        return;
    catalog->inside->unwritten = false;
    for (size_t i = 0; i < catalog_dead_parts(catalog); i++) {
        struct dead_part *part = catalog_dead_part(catalog, i);
        if (part->unwritten)
            part->seen = now;
        part->unwritten = false;
    }
}

enum hf_status catalog_copy_entry(struct catalog *catalog, const struct chunk *chunk,
                                  struct hf_error *error)
{
    struct chunk copy = *chunk;
    struct view *texts[] = { &copy.key,        &copy.writer, &copy.file_id,
                             &copy.quarantine, &copy.raw,    &copy.unknown,
                             &copy.object,     &copy.etag,   &copy.run };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = catalog_keep(catalog, *texts[i]);
        if (!texts[i]->data)
            return error_no_memory(error);
    }
    if (!catalog_room_live(catalog, 1) || !catalog_reserve_keys(catalog, 1))
        return error_no_memory(error);
    catalog_push_live(catalog, &copy);
    if (chunk->level + 1 < CASCADE_LEVELS_MAX)
        catalog->cascade.counts[chunk->level + 1]++;
    return HF_OK;
}

enum hf_status catalog_inherit(struct catalog *child, const struct catalog *parent,
                               struct hf_error *error)
{
    struct buffer *unknown = &child->inside->unknown_settings;
    if (!buffer_append(unknown, buffer_view(&parent->inside->unknown_settings)) ||
        !catalog_room_writers(child, parent->writer_count))
        return error_no_memory(error);
    for (size_t i = 0; i < parent->writer_count; i++) {
        struct writer writer = parent->writers[i];
        writer.name = catalog_keep(child, writer.name);
        if (!writer.name.data)
            return error_no_memory(error);
        child->writers[child->writer_count++] = writer;
    }
    if (catalog_cascade(child) > 0)
        child->due = parent->due;
    child->has_floor = parent->has_floor;
    child->floor_ms = parent->floor_ms;
    child->has_expired = parent->has_expired;
    child->expired_ms = parent->expired_ms;
    return HF_OK;
}

const char *chunk_state_name(enum chunk_state state)
{
    static const char *const names[] = {
        [CHUNK_UNKNOWN] = "unknown",     [CHUNK_LIVE] = "live",
        [CHUNK_TOMBSTONE] = "tombstone", [CHUNK_RETIRED] = "retired",
        [CHUNK_CONDEMNED] = "condemned", [CHUNK_MOVED] = "moved",
        [CHUNK_PENDING] = "pending",
    };
    return names[state];
}

enum chunk_state catalog_state(const struct catalog *catalog, struct view key)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    return slot ? slot->state : CHUNK_UNKNOWN;
}

bool catalog_knows_file(const struct catalog *catalog, struct view file_id)
{
    return key_index_get(&catalog->inside->files, file_id) != NULL;
}

bool catalog_has_adopted(const struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->live_count; i++)
        if (chunk_is_adopted(&catalog->live[i]))
            return true;
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t k = 0; k < catalog->graves[i].count; k++)
            if (chunk_is_adopted(&catalog->graves[i].chunks[k]))
                return true;
    for (size_t i = 0; i < catalog->removal_count; i++)
        if (catalog->removals[i].object_count > 0)
            return true;
    return catalog->kept_file_id_count > 0;
}

const struct chunk *catalog_find(const struct catalog *catalog, struct view key)
{
    return catalog_live_by_key(catalog, key);
}

const struct reference *catalog_reference(const struct catalog *catalog, struct view key)
{
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (view_equal(catalog->references[i].key, key))
            return &catalog->references[i];
    return NULL;
}

unsigned split_route(struct view partition, enum split_by by, struct view key, int64_t min_ms)
{
    /* The partition is part of the hash. Otherwise all chunks of a child would have the same
     * result, and a split of that child would route them all to one of its own children. */
    int64_t hour = hour_of_ms(min_ms);
    unsigned char number[8];
    for (size_t i = 0; i < sizeof number; i++)
        number[i] = (unsigned char)((uint64_t)hour >> (8 * i));
    struct hash_stream stream;
    hash_stream_init(&stream);
    hash_stream_add(&stream, partition);
    hash_stream_add(&stream, VIEW("/"));
    if (by == SPLIT_BY_HOUR)
        hash_stream_add(&stream, (struct view){ (const char *)number, sizeof number });
    else
        hash_stream_add(&stream, key);
    return (unsigned)(hash_stream_xxh3(&stream) % CATALOG_CHILDREN);
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
    return part * 100 / whole;
}

uint64_t catalog_pressure(const struct catalog *catalog)
{
    uint64_t waiting = 0;
    for (size_t i = 0; i < catalog->live_count; i++)
        waiting += catalog->live[i].level == 0 && catalog->live[i].quarantine.size == 0;
    uint64_t all[] = { percent(waiting, catalog->settings.backlog_max),
                       percent(catalog->dead_count, CATALOG_DEAD_MAX),
                       percent(catalog->dead_bytes, CATALOG_DEAD_BYTES_MAX) };
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        most = all[i] > most ? all[i] : most;
    return most;
}

bool catalog_is_clogged(const struct catalog *catalog)
{
    return catalog->dead_count >= CATALOG_DEAD_MAX ||
           catalog->dead_bytes >= CATALOG_DEAD_BYTES_MAX;
}

uint64_t catalog_live_hash(const struct catalog *catalog)
{
    struct hash_stream stream;
    hash_stream_init(&stream);
    compact_settings_hash(&catalog->settings, &stream);
    for (size_t i = 0; i < catalog->live_count; i++) {
        hash_stream_add(&stream, catalog->live[i].raw);
        hash_stream_add(&stream, VIEW("\n"));
    }
    if (catalog->has_floor)
        hash_stream_add(&stream, (struct view){ (const char *)&catalog->floor_ms,
                                                sizeof catalog->floor_ms });
    if (catalog->has_expired)
        hash_stream_add(&stream, (struct view){ (const char *)&catalog->expired_ms,
                                                sizeof catalog->expired_ms });
    return hash_stream_xxh3(&stream);
}
