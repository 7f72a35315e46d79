/* manifest.h: indexes/<name>/manifest.json: how many records and bytes each shard has, as its last
 * compiler found. Statistics, outside of the critical path: what cannot be written is not. */
#ifndef INDEX_MANIFEST_H
#define INDEX_MANIFEST_H

#include "index/index.h"

#define MANIFEST_FORMAT    "holdfast.manifest/1"
#define MANIFEST_BYTES_MAX (8 * MIB)

struct manifest_row {
    size_t shard; /* its number */
    uint64_t records, bytes;
};

/* The rows in the order of their shards, each shard once. */
struct manifest {
    struct manifest_row *rows;
    size_t count, capacity;
    struct wall_time written_at; /* for display */
};

void manifest_release(struct manifest *manifest);

/* Sets the row of a shard; false without memory. */
bool manifest_note(struct manifest *manifest, size_t shard, uint64_t records, uint64_t bytes);

/* NOT_FOUND when there is none yet; one that cannot be read is CORRUPT. */
enum hf_status manifest_read(struct index *index, struct manifest *ret_manifest,
                             struct hf_error *error);

/* Writes these rows over those of the manifest that is there, if any of them differs. One that
 * cannot be read is replaced. Tries three times. */
enum hf_status manifest_write(struct index *index, const struct manifest *noted,
                              struct hf_error *error);

#endif
