/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_check.c: checks all invariants of a catalog (catalog.h), for tests and fuzzers. The
 * cost grows with the length of the catalog. */
#include "catalog_check.h"

#include "base/check.h"
#include "base/layout.h"
#include "compact/catalog/catalog_inside.h"

static void check_slot(const struct catalog *catalog, struct view key, enum chunk_state state,
                       uint64_t serial)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->index, key);
    check(slot && slot->state == state && slot->serial == serial);
}

static void check_home(const struct catalog *catalog, struct view key, bool always)
{
    bool ours = view_equal(layout_home(key), catalog->partition);
    check(ours || (!always && catalog->parent.size > 0));
}

static size_t check_live(const struct catalog *catalog)
{
    size_t bytes = 0;
    for (size_t i = 0; i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        check(!chunk->leaving && chunk->raw.size > 0 && chunk->min_ms <= chunk->max_ms);
        check(i == 0 || chunk[-1].serial < chunk->serial);
        check_slot(catalog, chunk->key, CHUNK_LIVE, chunk->serial);
        check_home(catalog, chunk->key, /* always */ false);
        bytes += chunk_bytes(chunk);
    }
    check(bytes == catalog->live_bytes);
    check(catalog->child_count == 0 || catalog->live_count == 0);
    check(!catalog->is_dropping || catalog->live_count == 0);
    return catalog->live_count;
}

static size_t check_graves(const struct catalog *catalog, size_t *bytes)
{
    size_t keys = 0;
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        check(!grave->part.leaving && grave->count > 0);
        check(i == 0 || grave[-1].part.serial < grave->part.serial);
        check(!grave->undone || grave->into.size == 0);
        for (size_t k = 0; k < grave->count; k++) {
            check_slot(catalog, grave->chunks[k].key, CHUNK_TOMBSTONE, grave->part.serial);
            check_home(catalog, grave->chunks[k].key, /* always */ false);
        }
        keys += grave->count;
        *bytes += grave_bytes(grave);
    }
    return keys;
}

static size_t check_removals(const struct catalog *catalog, size_t *bytes)
{
    size_t keys = 0;
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        bool condemned = removal->how == DELETING_CONDEMNED;
        check(!removal->part.leaving && removal->count > 0);
        check(removal->generation <= catalog->generation);
        check(!condemned || removal->generation == 0);
        check(i == 0 || removal[-1].part.serial < removal->part.serial);
        for (size_t k = 0; k < removal->count; k++) {
            check_slot(catalog, removal->keys[k], condemned ? CHUNK_CONDEMNED : CHUNK_RETIRED,
                       removal->part.serial);
            check_home(catalog, removal->keys[k], /* always */ condemned);
        }
        keys += removal->count;
        *bytes += removal_bytes(removal);
    }
    return keys;
}

static size_t check_references(const struct catalog *catalog)
{
    check(catalog->child_count == 0 || catalog->child_count == CATALOG_CHILDREN);
    check(catalog->child_count > 0 || catalog->reference_count == 0);
    check(catalog->child_count > 0 || catalog->split_generation == 0);
    check(catalog->split_generation <= catalog->generation);
    for (size_t i = 0; i < catalog->reference_count; i++) {
        const struct reference *reference = &catalog->references[i];
        check(reference->child < catalog->child_count);
        check(i == 0 || reference[-1].child <= reference->child);
        check_slot(catalog, reference->key, CHUNK_MOVED, 0);
    }
    return catalog->reference_count;
}

/* The outputs of finished ranges are pending; returns how many there are. */
static size_t check_merges(const struct catalog *catalog)
{
    size_t pending = 0;
    check(catalog->merge_count <= CATALOG_MERGES_MAX);
    for (size_t i = 0; i < catalog->merge_count; i++) {
        const struct divided_merge *merge = &catalog->merges[i];
        size_t done = 0;
        for (size_t k = 0; k < merge->range_count; k++) {
            if (merge->ranges[k].done)
                check_slot(catalog, merge->ranges[k].target.key, CHUNK_PENDING, 0);
            done += merge->ranges[k].done;
        }
        check(done < merge->range_count);
        pending += done;
    }
    return pending;
}

static void check_writers(const struct catalog *catalog)
{
    check(catalog->writer_count <= CATALOG_WRITERS_MAX + 1);
    for (size_t i = 1; i < catalog->writer_count; i++)
        check(view_compare(catalog->writers[i - 1].name, catalog->writers[i].name) < 0);
    check(catalog_sequences_hold(catalog));
}

/* Whether the index leads from the identity of a file to what has it; counts it. */
static bool leads_to(const struct catalog *catalog, struct view file_id, uint64_t serial,
                     size_t *count)
{
    const struct key_slot *slot = key_index_get(&catalog->inside->files, file_id);
    *count += file_id.size > 0;
    return file_id.size == 0 || (slot && slot->serial == serial);
}

/* One that stands twice, which only a document that was written by hand has, is known once, or
 * no more. */
static void check_files(const struct catalog *catalog)
{
    size_t count = 0;
    bool all = true;
    for (size_t i = 0; i < catalog->live_count; i++)
        all &= leads_to(catalog, catalog->live[i].file_id, catalog->live[i].serial, &count);
    for (size_t i = 0; i < catalog->grave_count; i++) {
        const struct grave *grave = &catalog->graves[i];
        for (size_t k = 0; k < grave->count; k++)
            all &= leads_to(catalog, grave->chunks[k].file_id, grave->part.serial, &count);
    }
    for (size_t i = 0; i < catalog->removal_count; i++) {
        const struct removal *removal = &catalog->removals[i];
        for (size_t k = 0; k < removal->file_id_count; k++)
            all &= leads_to(catalog, removal->file_ids[k], removal->part.serial, &count);
    }
    for (size_t i = 0; i < catalog->moved_file_id_count; i++)
        all &= leads_to(catalog, catalog->moved_file_ids[i], 0, &count);
    for (size_t i = 0; i < catalog->kept_file_id_count; i++)
        all &= leads_to(catalog, catalog->kept_file_ids[i], 0, &count);
    check(catalog->inside->files.count <= count);
    check(all || catalog->inside->files.count < count);
}

void catalog_check(const struct catalog *catalog)
{
    size_t bytes = 0;
    check(layout_partition_valid(catalog->partition));
    check((catalog->parent.size > 0) == (catalog->depth > 0));
    size_t live = check_live(catalog);
    size_t dead = check_graves(catalog, &bytes) + check_removals(catalog, &bytes);
    size_t moved = check_references(catalog), pending = check_merges(catalog);
    check(dead == catalog->dead_count && bytes == catalog->dead_bytes);
    check(live + dead + moved + pending == catalog->inside->index.count);
    check(!catalog->is_dropped || (catalog->is_dropping && dead == 0));
    check_writers(catalog);
    check_files(catalog);
}
