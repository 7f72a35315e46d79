/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h: the live chunks of a partition at one point in time, pinned so that none of them is
 * deleted before it has been read, however many merges happen meanwhile.
 *
 * A snapshot is taken in three steps (docs/design.md section 8):
 *
 *   1. read each catalog of the tree, for its generation;
 *   2. pin each of them at that generation (pin.h): one lease per catalog;
 *   3. read each catalog again, and copy its live chunks.
 *
 * A catalog that appears in step 3, because another one was split meanwhile, needs no pin of its
 * own: the pin of the catalog above it is from before the split, and holds what the split moved.
 *
 * The snapshot is consistent for each catalog: its chunks are those of one version of the document.
 * Versions of different catalogs may differ in time. No merge or move involves two catalogs except
 * a split, so no record is missing and no chunk occurs twice. */
#ifndef COMPACT_CARE_SNAPSHOT_H
#define COMPACT_CARE_SNAPSHOT_H

#include "compact/catalog/catalog_tree.h"

struct snapshot_pin {
    struct view partition;
    uint64_t generation;
    struct hf_lock *lock;
};

struct snapshot_chunk {
    struct view partition; /* whose catalog contains it */
    size_t pin;         /* index of the pin that holds it: of this catalog, or of one above */
    struct chunk chunk; /* its strings belong to the snapshot; `raw` and `unknown` are empty */
};

struct snapshot {
    struct catalog_tree *tree;
    struct arena arena;               /* for the names of catalogs */
    struct arena contents;            /* for the chunks and settings */
    struct compact_settings settings; /* of the partition itself */
    int64_t expired_ms; /* records before this time have expired; INT64_MIN: none */
    struct snapshot_pin *pins;
    size_t pin_count, pin_room;
    struct snapshot_chunk *chunks; /* by catalog, parents first, in the order of their ingest */
    size_t chunk_count, chunk_room;
};

/* Takes a snapshot. The pins last for ttl_ms without renewal, and are renewed until the snapshot is
 * released. NOT_FOUND: the partition does not exist. CORRUPT, UNSUPPORTED: a catalog cannot be
 * read, so the snapshot would not be complete. CONFLICT: a catalog was created again or restored
 * meanwhile, and has an earlier generation. On failure nothing stays pinned, except that a pin
 * whose fate is unknown lasts until it expires. */
enum hf_status snapshot_take(struct catalog_tree *tree, int64_t ttl_ms,
                             struct snapshot *ret_snapshot, struct hf_error *error);

/* Whether all pins are still held; otherwise objects of the snapshot may be deleted. */
enum hf_status snapshot_check(const struct snapshot *snapshot, struct hf_error *error);

/* Releases the pins and the memory. */
void snapshot_release(struct snapshot *snapshot);

#endif
