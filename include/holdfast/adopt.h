/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.h: adds objects that are in the bucket already to a partition, where they are.
 *
 *     const char *paths[] = { "raw/2026/", "exports/day-1.csv" };
 *     struct hf_compact_adopt_options options = HF_COMPACT_ADOPT_OPTIONS;
 *     struct hf_compact_adopt_report report = HF_COMPACT_ADOPT_REPORT;
 *     options.manifest = "raw.ndjson";                          or NULL: each object is read once
 *     hf_compact_adopt(compact, paths, 2, &options, &report, &error);
 *
 * No byte is copied. An adopted object is a chunk of level 0 like any other: workers merge it,
 * readers read it, and splits move its entry. It is identified by its key AND its ETag. Every read
 * is by If-Match with that ETag. If the object's owner rewrites it, the adopted version is gone:
 * its chunk is quarantined with that reason, and is never mixed with the new version. Adopt the
 * object again to add the new version, and call hf_compact_discard to give up the old one.
 *
 * REGISTERED PATHS. A path is a prefix if it ends with a slash, and otherwise the key of one
 * object. It is registered to one partition, in one conditional write, before any of its objects is
 * adopted. No two registered paths overlap, so no object is in two partitions. A path stays
 * registered until hf_compact_release releases it, or its partition has been dropped.
 *
 * WHO DELETES. Holdfast never deletes an adopted object, unless its path was registered with `own`.
 * The writers of an owned path promise never to use a name twice. Once an owned object is merged
 * and its grace period is over, it is deleted: on condition of its ETag or, if the store has no
 * conditional deletes, after the late bound.
 *
 * ONCE. An object is adopted once. Its identity is remembered while its chunk is in a catalog;
 * after that, forever if it is not owned, and otherwise until it has been deleted for the late
 * bound.
 *
 * INBOX. A worker with an inbox (hf_compact_worker_options) adopts what writers put there. */
#ifndef HOLDFAST_ADOPT_H
#define HOLDFAST_ADOPT_H

#include "holdfast/compact.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_compact_adopt_options {
    size_t struct_size;
    bool own; /* register the paths as owned */
    /* A file that describes the objects, one JSON object per line:
     *     {"key":"raw/a.csv","etag":"\"9a8f\"","size":120,"rows":3,"min":0,"max":9,"crc32c":1}
     * An object that it describes is not read. `rows` may be missing if the format has no rows.
     * `min` and `max` are milliseconds since 1970. See docs/formats.md. NULL: none. */
    const char *manifest;
    const char *writer;  /* a label, one per source of objects (default: the holder) */
    int64_t wait_ms;     /* how long to wait if too many names are being deleted; 0: no wait */
    int64_t patience_ms; /* how long to retry if the store does not reply; 0: a minute */
    /* Optional. Called for each object; its source is the object's key. Return false to stop. */
    bool (*each)(void *argument, const struct hf_compact_ingested *adopted);
    /* Optional. Called with the number of objects done and bytes read so far. Return false to stop:
     * objects that were read are added, and the call returns HF_CANCELLED. */
    bool (*progress)(void *argument, uint64_t objects_done, uint64_t bytes_done);
    void *argument; /* for both callbacks */
};
#define HF_COMPACT_ADOPT_OPTIONS                                                              \
    HF_VALUE_(hf_compact_adopt_options, sizeof(struct hf_compact_adopt_options), false, NULL, \
              NULL, 0, 0, NULL, NULL, NULL)

struct hf_compact_adopt_report {
    size_t struct_size;
    uint64_t added;   /* objects that became chunks */
    uint64_t already; /* objects adopted before */
    uint64_t failed;
    uint64_t skipped;                /* empty objects, and Holdfast's own */
    uint64_t bytes, rows, malformed; /* of the added objects */
};
#define HF_COMPACT_ADOPT_REPORT                                                               \
    HF_VALUE_(hf_compact_adopt_report, sizeof(struct hf_compact_adopt_report), 0, 0, 0, 0, 0, \
              0, 0)

/* Adopts the objects of up to 1,024 paths. An object that cannot be adopted is skipped; the call
 * then returns the status of the first one. `options` and `report` may be NULL; the report is set
 * regardless of the status. Takes a listing per 1,000 objects, a get for each object that is new
 * and that the manifest does not describe, and a few requests per 512 objects.
 *
 * Returns HF_CONFLICT if a path overlaps one of another partition, or an object was rewritten or is
 * not the version that the manifest describes. Returns HF_INVALID if a path is in one of Holdfast's
 * own folders, the manifest cannot be parsed, or an object does not have the partition's format.
 * Returns HF_NOT_FOUND if the partition, the manifest or a single object does not exist. Returns
 * HF_UNSURE if an object may or may not have been added: adopt it again. */
HF_API enum hf_status hf_compact_adopt(struct hf_compact *compact, const char *const *paths,
                                       size_t count,
                                       const struct hf_compact_adopt_options *options,
                                       struct hf_compact_adopt_report *report,
                                       struct hf_error *error);

struct hf_compact_release_report {
    size_t struct_size;
    bool released;   /* the path is no longer registered */
    uint64_t chunks; /* of the partition that still need its objects, in any state */
    int64_t wait_ms; /* at least this long until it can be released */
};
#define HF_COMPACT_RELEASE_REPORT \
    HF_VALUE_(hf_compact_release_report, sizeof(struct hf_compact_release_report), false, 0, 0)

/* Releases a path, given exactly as it was registered, so that any partition may adopt its objects.
 * What was merged from them stays in this partition. The first call marks the path. A later call
 * releases it, once it has been marked for twice the late bound and no chunk of the partition,
 * live, tombstone or being deleted, needs its objects any more. Until then, hf_compact_adopt of the
 * path, or a worker with this inbox, takes the release back: stop those first. `report` may be
 * NULL.
 *
 * Returns HF_OK if the path is marked or released; the report says which. Returns HF_NOT_FOUND if
 * the path is not registered to the partition. The partition itself need not exist any more. */
HF_API enum hf_status hf_compact_release(struct hf_compact *compact, const char *path,
                                         struct hf_compact_release_report *report,
                                         struct hf_error *error);

/* A path that is registered to the partition. */
struct hf_compact_path {
    size_t struct_size;
    const char *path;
    bool own;
    bool releasing; /* hf_compact_release has marked it */
};

/* Lists the paths that are registered to the partition, in the order of their registration. `each`
 * may call any function; the string is valid only during the callback. Return false to stop. Takes
 * one get. Returns HF_OK also if there is no such partition. */
HF_API enum hf_status hf_compact_paths(struct hf_compact *compact,
                                       bool (*each)(void *argument,
                                                    const struct hf_compact_path *path),
                                       void *argument, struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
