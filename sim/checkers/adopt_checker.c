/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_checker.c: checks what happens to the objects of outside writers, and to the paths that are
 * registered for them. Fails the run if a chunk adopts a version that never was, or whose path is
 * not registered to its partition; if an object is deleted that its partition does not own, or in
 * another version than the adopted one; and if a path is registered to two partitions, or is
 * removed too soon. The rows of
 * a version are its chunk's rows: a version that is adopted twice, or merged after it was
 * rewritten, shows in them (compact_diff.c). */
#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/compact_inside.h"

#include <inttypes.h>
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

static bool is_registered(const struct catalog_checker *checker, struct view object);

void checked_adopts(struct catalog_checker *checker, struct checked_chunk *chunk)
{
    const struct listed *entry = chunk->after;
    const struct outside_version *version = version_of(checker, entry->object, &entry->etag);
    if (!version) {
        world_fail(catalog_world(checker), "%s adopts a version of %.*s that never was",
                   chunk->key, VIEW_ARGS(entry->object));
        return;
    }
    if (!is_registered(checker, entry->object))
        world_fail(catalog_world(checker),
                   "%s adopts %.*s, whose path is not registered to its partition", chunk->key,
                   VIEW_ARGS(entry->object));
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

static bool path_has(struct view path, struct view key)
{
    return view_ends_with(path, VIEW("/")) ? view_starts_with(key, path)
                                           : view_equal(key, path);
}

static void free_paths(struct checked_path *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(paths[i].path);
        free(paths[i].partition);
        free(paths[i].since);
    }
    free(paths);
}

static struct checked_path read_path(struct json_reader *json)
{
    struct view name, raw, path = VIEW(""), partition = VIEW(""), since = VIEW("");
    struct checked_path read = { .releasing = false };
    for (json_enter_object(json); json_next_member(json, &name);) {
        if (view_equal(name, VIEW("path")))
            json_take_plain(json, &path);
        else if (view_equal(name, VIEW("partition")))
            json_take_plain(json, &partition);
        else if (view_equal(name, VIEW("since")))
            json_take_plain(json, &since);
        else if (json_skip(json, &raw) && view_equal(name, VIEW("releasing")))
            read.releasing = view_equal(raw, VIEW("true"));
    }
    read.path = checked_copy(path);
    read.partition = checked_copy(partition);
    read.since = checked_copy(since);
    return read;
}

static size_t read_paths(struct view body, struct checked_path **ret_paths)
{
    struct json_reader json = json_read(body);
    struct checked_path *paths = NULL;
    struct view name, raw;
    size_t count = 0;
    for (json_enter_object(&json); json_next_member(&json, &name);) {
        if (!view_equal(name, VIEW("prefixes"))) {
            json_skip(&json, &raw);
            continue;
        }
        for (json_enter_array(&json); json_next_element(&json);) {
            paths = checker_grow(paths, count, sizeof *paths);
            paths[count++] = read_path(&json);
        }
    }
    *ret_paths = paths;
    return count;
}

static void check_overlaps(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->path_count; i++)
        for (size_t k = 0; k < checker->path_count; k++)
            if (i != k &&
                path_has(view_of(checker->paths[i].path), view_of(checker->paths[k].path)))
                world_fail(catalog_world(checker), "%s is registered to %s, and %s to %s",
                           checker->paths[i].path, checker->paths[i].partition,
                           checker->paths[k].path, checker->paths[k].partition);
}

static void check_unlisted(struct catalog_checker *checker, const struct checked_path *path)
{
    for (const struct checked_doc *doc = checker->docs; doc; doc = doc->next)
        for (size_t i = 0; doc->reachable && doc->now && i < doc->now->count; i++) {
            const struct listed *entry = &doc->now->entries[i];
            const struct outside_version *version = entry->chunk->adopted;
            if (version && entry->state != LISTED_MOVED &&
                path_has(view_of(path->path), view_of(version->key)))
                world_fail(catalog_world(checker), "%s is removed, and %s still lists %s",
                           path->path, doc->key, version->key);
        }
}

static void path_removed(struct catalog_checker *checker, const struct checked_path *path)
{
    const struct catalog_checker_options *options = &checker->options;
    int64_t slack_us = 1000000 + 2 * options->clocks_off.us + options->late_bound.us / 1000;
    int64_t stood_us = checked_sent_us(checker) - path->marked_us;
    if (!path->releasing || stood_us < options->late_bound.us - slack_us)
        world_fail(catalog_world(checker), "%s is removed %" PRId64 " s after it was marked",
                   path->path, path->releasing ? stood_us / 1000000 : 0);
    if (strcmp(path->partition, options->partition) == 0)
        check_unlisted(checker, path);
}

/* The path of the new document that has all objects of an old one; NULL: none. */
static struct checked_path *path_after(struct catalog_checker *checker,
                                       const struct checked_path *before)
{
    for (size_t i = 0; i < checker->path_count; i++) {
        struct checked_path *after = &checker->paths[i];
        if (strcmp(after->partition, before->partition) == 0 &&
            path_has(view_of(after->path), view_of(before->path)))
            return after;
    }
    return NULL;
}

void checked_paths_written(struct catalog_checker *checker, struct view body)
{
    struct checked_path *before = checker->paths;
    size_t count = checker->path_count;
    checker->path_count = read_paths(body, &checker->paths);
    for (size_t i = 0; i < checker->path_count; i++)
        checker->paths[i].marked_us = catalog_now_us(checker);
    for (size_t i = 0; i < count; i++) {
        struct checked_path *after = path_after(checker, &before[i]);
        if (!after)
            path_removed(checker, &before[i]);
        else if (before[i].releasing && strcmp(before[i].since, after->since) == 0)
            after->marked_us = before[i].marked_us;
    }
    check_overlaps(checker);
    free_paths(before, count);
}

static bool is_registered(const struct catalog_checker *checker, struct view object)
{
    for (size_t i = 0; i < checker->path_count; i++)
        if (strcmp(checker->paths[i].partition, checker->options.partition) == 0 &&
            path_has(view_of(checker->paths[i].path), object))
            return true;
    return false;
}

/* ---- The partition is dropped -------------------------------------------------------- */

void checked_partition_removed(struct catalog_checker *checker)
{
    checker->partition_life++;
}

bool checked_adopts_anew(const struct catalog_checker *checker,
                         const struct checked_chunk *before, const struct checked_chunk *chunk)
{
    return chunk->adopted && chunk->adopted == before->adopted && !before->own &&
           before->partition_life < checker->partition_life;
}

void checked_adopted_free(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->version_count; i++) {
        free(checker->versions[i]->key);
        free(checker->versions[i]->rows);
        free(checker->versions[i]);
    }
    free(checker->versions);
    free_paths(checker->paths, checker->path_count);
}
