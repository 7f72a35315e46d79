/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_checker.c: checks what happens to the objects of outside writers. Fails the run if a chunk
 * adopts a version that never was, if an object is deleted that its partition does not own, or in
 * another version than the adopted one, and if a path is registered to two partitions. The rows of
 * a version are its chunk's rows: a version that is adopted twice, or merged after it was
 * rewritten, shows in them (compact_diff.c). */
#include "base/check.h"
#include "base/hash.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/compact_inside.h"

#include <stdlib.h>

bool checked_is_outside(struct view key)
{
    return view_starts_with(key, VIEW(CHECKED_RAW)) || view_starts_with(key, VIEW(CHECKED_OWN));
}

/* ---- Versions ------------------------------------------------------------------------ */

/* The newest version of an object, or the one with this ETag; NULL if there is none. */
static struct outside_version *version_of(const struct catalog_checker *checker,
                                          struct view key, const struct view *etag)
{
    for (size_t i = checker->version_count; i > 0; i--) {
        struct outside_version *version = checker->versions[i - 1];
        if (view_equal(view_of(version->key), key) &&
            (!etag || view_equal(etag_view(&version->etag), *etag)))
            return version;
    }
    return NULL;
}

bool checked_is_there(const struct catalog_checker *checker,
                      const struct outside_version *version)
{
    struct etag now = bucket_etag(net_bucket(checker->run->net), view_of(version->key));
    return etag_equal(&now, &version->etag);
}

/* A chunk whose version is gone can only be quarantined, like one that was damaged. */
static void spoil_others(struct catalog_checker *checker, struct view key,
                         const struct etag *etag)
{
    for (size_t i = 0; i < checker->chunk_count; i++) {
        struct checked_chunk *chunk = checker->chunks[i];
        if (chunk->adopted && view_equal(view_of(chunk->adopted->key), key) &&
            !etag_equal(&chunk->adopted->etag, etag))
            chunk->spoilt = true;
    }
}

static void note_version(struct catalog_checker *checker, const struct bucket_change *change)
{
    struct outside_version *version = checker_allocate(sizeof *version);
    *version = (struct outside_version){ .key = checked_copy(change->key),
                                         .etag = change->etag,
                                         .size = change->body.size,
                                         .crc32c = crc32c_by_table(0, change->body),
                                         .row_count = rows_in(change->body) };
    version->rows = checker_allocate((version->row_count + 1) * sizeof *version->rows);
    check(rows_read(change->body, version->rows));
    checker->versions = checker_grow(checker->versions, checker->version_count, sizeof(void *));
    checker->versions[checker->version_count++] = version;
    spoil_others(checker, change->key, &change->etag);
}

/* Only nodes delete objects. */
static void version_deleted(struct catalog_checker *checker, struct view key)
{
    const struct outside_version *version = version_of(checker, key, NULL);
    const struct checked_chunk *owner = NULL;
    check(version);
    for (size_t i = 0; i < checker->chunk_count; i++)
        if (checker->chunks[i]->adopted == version)
            owner = checker->chunks[i];
    if (!owner)
        world_fail(catalog_world(checker), "%s is deleted in a version that nobody adopted",
                   version->key);
    else if (!owner->own)
        world_fail(catalog_world(checker), "%s is deleted, and is not owned", version->key);
    else
        checked_object_deleted(checker, owner);
}

void checked_outside_changed(struct catalog_checker *checker,
                             const struct bucket_change *change)
{
    if (change->body.data)
        note_version(checker, change);
    else
        version_deleted(checker, change->key);
}

void checked_adopts(struct catalog_checker *checker, struct checked_chunk *chunk)
{
    const struct listed *entry = chunk->after;
    const struct outside_version *version = version_of(checker, entry->object, &entry->etag);
    if (!version) {
        world_fail(catalog_world(checker), "%s adopts a version of %.*s that never was",
                   chunk->key, VIEW_ARGS(entry->object));
        return;
    }
    chunk->adopted = version;
    chunk->own = entry->own;
    chunk->spoilt = chunk->spoilt || !checked_is_there(checker, version);
    chunk->rows = checker_allocate((version->row_count + 1) * sizeof *chunk->rows);
    chunk->row_count = version->row_count;
    memcpy(chunk->rows, version->rows, version->row_count * sizeof *chunk->rows);
}

bool checker_adopted(const struct catalog_checker *checker, const char *key,
                     struct view *ret_object, struct etag *ret_etag)
{
    const struct checked_chunk *chunk = map_get(&checker->by_key, view_of(key));
    if (!chunk || !chunk->adopted)
        return false;
    *ret_object = view_of(chunk->adopted->key);
    *ret_etag = chunk->adopted->etag;
    return true;
}

/* ---- Registered paths ---------------------------------------------------------------- */

static bool paths_overlap(struct view a, struct view b)
{
    bool a_is_prefix = view_ends_with(a, VIEW("/")), b_is_prefix = view_ends_with(b, VIEW("/"));
    return view_equal(a, b) || (a_is_prefix && view_starts_with(b, a)) ||
           (b_is_prefix && view_starts_with(a, b));
}

void checker_told_claimed(struct catalog_checker *checker, const char *path,
                          const char *partition)
{
    for (size_t i = 0; i < checker->claim_count; i++) {
        const struct checked_claim *claim = &checker->claims[i];
        if (strcmp(claim->partition, partition) != 0 &&
            paths_overlap(view_of(claim->path), view_of(path)))
            world_fail(catalog_world(checker), "%s is registered to %s, and %s to %s", path,
                       partition, claim->path, claim->partition);
    }
    checker->claims =
        checker_grow(checker->claims, checker->claim_count, sizeof *checker->claims);
    checker->claims[checker->claim_count++] =
        (struct checked_claim){ checked_copy(view_of(path)), checked_copy(view_of(partition)) };
}

void checked_adopted_free(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->version_count; i++) {
        free(checker->versions[i]->key);
        free(checker->versions[i]->rows);
        free(checker->versions[i]);
    }
    for (size_t i = 0; i < checker->claim_count; i++) {
        free(checker->claims[i].path);
        free(checker->claims[i].partition);
    }
    free(checker->versions);
    free(checker->claims);
}
