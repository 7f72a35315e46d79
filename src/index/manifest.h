/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h: indexes/<name>/manifest.json: the number of records and bytes of each shard, as
 * counted by its last compiler. No operation depends on these statistics, so a failed write is
 * ignored. A row names the version of its shard, and is never replaced by a row for an earlier
 * version. */
#ifndef INDEX_MANIFEST_H
#define INDEX_MANIFEST_H

#include "index/fold.h"
#include "index/index.h"

#define MANIFEST_FORMAT    "holdfast.manifest/1"
#define MANIFEST_BYTES_MAX (8 * MIB)

struct manifest_row {
    size_t shard; /* its number */
    uint64_t records, bytes;
    uint64_t deletions;     /* in the shard, besides the records */
    uint64_t token, writes; /* as in the shard's header line; 0: from an older program */
};

/* One row per shard, in shard order. */
struct manifest {
    struct manifest_row *rows;
    size_t count, capacity;
    unsigned digits;             /* digits in a shard's name */
    struct wall_time written_at; /* for display */
    struct buffer unknown;       /* members that this version does not know */
};

void manifest_release(struct manifest *manifest);

/* The row for a shard after a fold. */
struct manifest_row manifest_row_of(size_t shard, const struct fold_report *report);

/* Sets the row of a shard, unless it has a row for a later version. False if out of memory. */
bool manifest_note(struct manifest *manifest, struct manifest_row row);

/* NOT_FOUND: there is no manifest yet. CORRUPT: it cannot be read. */
enum hf_status manifest_read(struct index *index, struct manifest *ret_manifest,
                             struct hf_error *error);

/* Merges these rows into the stored manifest, except rows for earlier versions, and writes it if
 * any row differs. An unreadable manifest is replaced. */
enum hf_status manifest_write(struct index *index, const struct manifest *noted,
                              struct hf_error *error);

#endif
