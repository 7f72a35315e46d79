/* manifest.h: indexes/<name>/manifest.json: how many records and bytes each shard has, as its last
 * compiler found. Statistics, outside of the critical path: what cannot be written is not. But they
 * do not go back: a row says of which version of its shard it is, and none of an earlier version
 * takes its place, however slow its writer was. */
#ifndef INDEX_MANIFEST_H
#define INDEX_MANIFEST_H

#include "index/fold.h"
#include "index/index.h"

#define MANIFEST_FORMAT    "holdfast.manifest/1"
#define MANIFEST_BYTES_MAX (8 * MIB)

struct manifest_row {
    size_t shard; /* its number */
    uint64_t records, bytes;
    uint64_t token,
        writes; /* of the shard's version, as in its line; 0: of before they counted */
};

/* The rows in the order of their shards, each shard once. */
struct manifest {
    struct manifest_row *rows;
    size_t count, capacity;
    struct wall_time written_at; /* for display */
};

void manifest_release(struct manifest *manifest);

/* What a fold says of its shard. */
struct manifest_row manifest_row_of(size_t shard, const struct fold_report *report);

/* Sets the row of a shard, unless there is one of a later version; false without memory. */
bool manifest_note(struct manifest *manifest, struct manifest_row row);

/* NOT_FOUND when there is none yet; one that cannot be read is CORRUPT. */
enum hf_status manifest_read(struct index *index, struct manifest *ret_manifest,
                             struct hf_error *error);

/* Writes these rows over those of the manifest that is there, but for those of earlier versions, if
 * any of them differs. One that cannot be read is replaced. Tries three times. */
enum hf_status manifest_write(struct index *index, const struct manifest *noted,
                              struct hf_error *error);

#endif
