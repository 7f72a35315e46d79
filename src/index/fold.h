/* SPDX-License-Identifier: Apache-2.0 */
/* fold.h: folds records into one shard: reads it, merges the records, and swaps it.
 *
 * A deletion is folded like a record: it replaces an older record of its key, and stays in the
 * shard, even if the shard did not have the key, because an older record may still arrive. It is
 * dropped in two steps. A fold seals the deletions that the shard has: it notes the latest of
 * their times (`sealed_to`), and when it did so (`sealed_at`). A later fold drops all deletions up
 * to sealed_to, once it is proven that `keep_deleted` has passed since sealed_at. In the same swap
 * it raises the shard's floor to sealed_to: from then on, a record that is not later than the
 * floor, and whose key the shard does not have, is refused, because its deletion may have been
 * dropped. If the shard has a record of the key, no deletion later than that record was dropped,
 * and the floor does not matter. A deletion in the future is not sealed, because its floor would
 * refuse records of today. */
#ifndef INDEX_FOLD_H
#define INDEX_FOLD_H

#include "index/cursor.h"

struct fold_report {
    uint64_t records_in;    /* records passed in */
    uint64_t records_new;   /* keys that were not in the shard */
    uint64_t records_later; /* records that replaced an older one */
    uint64_t superseded;    /* not later than the existing record, or than another new one */
    uint64_t deleted;   /* deletions that replaced a record, or were kept for an absent key */
    uint64_t refused;   /* records that the floor refused; the caller must set them aside */
    uint64_t dropped;   /* deletions dropped from the shard */
    uint64_t deletions; /* in the shard now */
    uint64_t records;   /* of the shard now, without deletions */
    uint64_t bytes;     /* of the shard now */
    uint64_t token, writes; /* identify the shard's version; a later version has higher ones */
    uint64_t fence;         /* set only for FENCED: the token in the shard */
};

/* Records of one shard. */
struct shard_records {
    struct shard_id shard;
    struct record *records;
    size_t count;
};

/* Folds these records into the shard, or into a plain shard and its sidecar (plain.h). They may be
 * in any order, and keys may repeat. Sorts the array, and marks the records that the floor refused.
 * Always writes, even if nothing is new, so a reported success is known to be durable.
 *   OK        the shard contains all of them, or later ones
 *   CONFLICT  another compiler wrote the shard in the meantime; nothing was changed or, if the
 *             shard is plain, the records may be in it already; do not clear any entry
 *   FENCED    a later token has written the shard; nothing was changed
 *   UNSURE    the outcome is unknown; do not clear any entry
 *   CORRUPT   the shard is damaged
 *   others    from the store; the same
 * After an unanswered put it checks whether the shard contains our nonce, and retries a few times,
 * always with a condition on the same version. */
enum hf_status index_fold(struct index *index, uint64_t token, const struct shard_records *new,
                          struct fold_report *ret_report, struct hf_error *error);

/* The same, and drops the deletions that were sealed this long ago. `keep` is at least 2 D. */
enum hf_status index_fold_and_drop(struct index *index, uint64_t token,
                                   const struct shard_records *new, struct span keep,
                                   struct fold_report *ret_report, struct hf_error *error);

#endif
