/* SPDX-License-Identifier: Apache-2.0 */
/* fold.h: folds records into one shard: reads it, merges the records, and swaps it. */
#ifndef INDEX_FOLD_H
#define INDEX_FOLD_H

#include "index/cursor.h"

struct fold_report {
    uint64_t records_in;    /* records passed in */
    uint64_t records_new;   /* keys that were not in the shard */
    uint64_t records_later; /* records that replaced an older one */
    uint64_t superseded;    /* not later than the existing record, or than another new one */
    uint64_t records;       /* of the shard now */
    uint64_t bytes;         /* of the shard now */
    uint64_t token, writes; /* identify the shard's version; a later version has higher ones */
    uint64_t fence;         /* set only for FENCED: the token in the shard */
};

/* Records of one shard. */
struct shard_records {
    struct shard_id shard;
    struct record *records;
    size_t count;
};

/* Folds these records into the shard. They may be in any order, and keys may repeat. Sorts the
 * array. Always writes, even if nothing is new, so a reported success is known to be durable.
 *   OK        the shard contains all of them, or later ones
 *   CONFLICT  another compiler wrote the shard in the meantime; nothing was changed
 *   FENCED    a later token has written the shard; nothing was changed
 *   UNSURE    the outcome is unknown; do not clear any entry
 *   CORRUPT   the shard is damaged
 *   others    from the store; nothing was changed
 * After an unanswered put it checks whether the shard contains our nonce, and retries a few times,
 * always with a condition on the same version. */
enum hf_status index_fold(struct index *index, uint64_t token, const struct shard_records *new,
                          struct fold_report *ret_report, struct hf_error *error);

#endif
