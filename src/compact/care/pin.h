/* SPDX-License-Identifier: Apache-2.0 */
/* pin.h: protects chunks from deletion while they are being read. A pin is a lease that conflicts
 * with no other lease; only deleters check it. There are two kinds: pin:KEY protects one chunk, and
 * snapshot:PARTITION:GENERATION protects everything that a catalog contained at that generation or
 * later. A reader writes its pin, *then* rereads the catalog. A deleter moves the names to
 * deleting, *then* reads the current pins. So at least one of them sees the other's write. */
#ifndef COMPACT_CARE_PIN_H
#define COMPACT_CARE_PIN_H

#include "compact/catalog/catalog_tree.h"

#define PIN_CHUNKS_MAX 512

/* Pins chunks of one home that are live or within their grace period. OK: none of them is deleted
 * while the lock is held. NOT_FOUND: one of them, named in the error, is gone; nothing is
 * pinned. */
enum hf_status pin_take(struct catalog_tree *tree, const char *const *keys, size_t count,
                        int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error);

/* Reads a chunk into a file, replacing its contents, and checks it. CORRUPT: size or checksum
 * differs from the catalog, or its adopted object was rewritten. */
enum hf_status pin_read(struct catalog_tree *tree, const struct chunk *chunk, int fd,
                        struct hf_error *error);

/* Pins a catalog as of a generation: until the lock is released, no object is deleted that the
 * catalog retires at a later generation, in this catalog or in the catalogs that a later split
 * creates below it. The catalog must be read again afterwards. snapshot.h does all of that. */
enum hf_status pin_snapshot(struct catalog_tree *tree, struct view partition,
                            uint64_t generation, int64_t ttl_ms, struct hf_lock **ret_lock,
                            struct hf_error *error);

/* A catalog whose snapshots may protect a removal, and the generation since which a reader of this
 * catalog can no longer have seen the removed keys as live: a snapshot of an earlier generation
 * protects them. For the catalog that contains the removal, it is the removal's generation; for the
 * catalogs above, the generation of their split. */
struct pin_level {
    struct view partition;
    uint64_t generation;
};
#define PIN_GENERATION_UNKNOWN UINT64_MAX /* every snapshot protects the removal */

/* Keys that were moved to deleting together. */
struct pin_query {
    const struct view *keys;
    size_t count;
    const struct pin_level *levels;
    size_t level_count;
};

/* Which of these keys are pinned, according to a fresh read of the tables: the tables of the levels
 * and of the homes of the keys. */
enum hf_status pin_find(struct catalog_tree *tree, const struct pin_query *query,
                        bool *ret_pinned, struct hf_error *error);

#endif
