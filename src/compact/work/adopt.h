/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.h: adds objects that others wrote to a partition, where they are. No byte is copied.
 *
 * Invariants:
 *   1. A path is registered to the partition (prefixes.h), and the bucket's feature is recorded
 *      (bucket.h), before any of its objects is added to a catalog. An object is added within D/2
 *      of its path being seen registered: a path that is released stays registered for D.
 *   2. An object is identified by its key and its ETag. It is read by If-Match with that ETag, and
 *      its entry names both. A new version under the same key is another object.
 *   3. An object is added once. The swap that adds it checks its identity, in the catalog that the
 *      identity selects, as for ingested files (ingest.h). It is added within D/2 of being seen in
 *      the bucket. An owned object is deleted before its identity is forgotten, D later: so a
 *      client that saw the object adds it while its identity is known, or not at all.
 *   4. An empty object is left alone: it may be half written, or a marker (index/inbox_clear.c).
 *      An object that cannot be read is reported and left alone; its next version is tried.
 *   5. If an earlier version of the object is live, its chunk is quarantined by whoever reads it
 *      next (chunk_object.h). */
#ifndef COMPACT_WORK_ADOPT_H
#define COMPACT_WORK_ADOPT_H

#include "compact/work/ingest.h"

/* What is known about an object without reading it. */
struct adopt_facts {
    struct view etag; /* the version that this describes */
    uint64_t size;
    bool rows_known;
    uint64_t rows;
    int64_t min_ms, max_ms;
    uint32_t crc32c;
};

struct adopt_options {
    bool own; /* the partition deletes the objects once they are merged, after their grace */
    /* When an earlier call has registered the paths, with the same `own`; zero: never. They are
     * registered again if that is too long ago. */
    struct mono_time registered_at;
    struct view writer;
    struct mono_time until; /* as in ingest_options, if too many names are being deleted */
    struct span patience;
    const char *scratch; /* a folder for a few objects at a time; NULL: all are described */
    /* May be NULL. Describes an object. False: it is not described, so it is read. */
    bool (*describe)(void *argument, struct view key, struct adopt_facts *ret_facts);
    /* May be NULL. Called for each object that was listed: whether it is to be added now. */
    bool (*wants)(void *argument, struct view key, const struct etag *etag);
    /* May be NULL. The result of one object. */
    void (*each)(void *argument, const struct ingest_file *object, struct view etag);
    /* May be NULL. Returning false stops: objects that were read are added. */
    bool (*go_on)(void *argument, size_t objects_done, uint64_t bytes_done);
    void *argument;
};

struct adopt_report {
    uint64_t seen; /* objects that were listed */
    uint64_t added, already, failed;
    struct mono_time registered_at; /* when the paths were seen registered last; zero: never */
    bool listed;                    /* to the end: there are no other objects */
    uint64_t skipped; /* empty objects, Holdfast's own, and those that were not wanted */
};

/* Adopts the objects of these paths: prefixes, which end with a slash, and keys of single objects.
 * Returns the first error. NOT_FOUND: there is no partition, or no object with a given key.
 * INVALID, CONFLICT: a path cannot be registered; nothing was adopted. The other statuses are those
 * of ingest_files, for single objects; the other objects are adopted. */
enum hf_status adopt_paths(struct catalog_tree *tree, const struct view *paths, size_t count,
                           const struct adopt_options *options, struct adopt_report *ret_report,
                           struct hf_error *error);

#endif
