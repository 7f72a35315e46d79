/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h: shards that other programs can read, and rewrite, because they consist of bare records.
 *
 * A plain shard, shards/<xx>.usv, has the latest record of each key, in key order, each ended by
 * LF, and nothing else. Its sidecar, shards/<xx>.json, has the rest: the token, the deletions, the
 * floor, and the blocks of the shard, together with the ETag of the version that has these blocks.
 * Two objects cannot be written in one step, and other programs do not write the sidecar at all.
 * These rules keep the pair correct:
 *
 *   1. The blocks are used only in reads of the shard on condition of that ETag. If the shard has
 *      another one, because another program wrote it, or because a compiler died between its two
 *      writes, then the shard is read whole, in whatever order its records are.
 *   2. Token, deletions and floor hold for every version of the shard, whichever ETag the sidecar
 *      names. So for each key the latest of its records in the shard and its deletions in the
 *      sidecar counts, as if they were in one object. A shard that has deletions is read whole.
 *   3. A shard that is read whole belongs to the sidecar that was there before it and is still
 *      there after it. Otherwise a reader could miss a key in both: the record is gone from the
 *      shard that it has read second, and the deletion is not yet in the sidecar that it has read
 *      first.
 *   4. A deletion is in the sidecar before a record that it replaces leaves the shard. A deletion
 *      leaves the sidecar only after the record that replaces it is in the shard. So a fold writes
 *          the sidecar, with the old and the new deletions (only if there are new ones),
 *          the shard, on condition of the ETag that it was read with,
 *          the sidecar, with the deletions that are left, the new floor, blocks and ETag.
 *      The sidecar is always swapped. A crash after any of these leaves a pair that is read
 *      correctly, and entries that are folded again.
 *   5. Entries are cleared only after the pair has been read again, as readers read it, and shows
 *      their records, or later ones. A plain shard has no nonce by which a compiler would recognise
 *      its own write; equal bytes are as good. If the pair shows something else, the entries stay.
 *   6. A compiler that has read the sidecar gives up if it has not sent the shard after half of D,
 *      and deletions are kept for at least 3 D. On a store whose ETags depend only on the bytes, a
 *      shard may have the ETag that it had before a deletion was folded into it. A compiler that
 *      has not seen this deletion could then still fold an older record; it does so, at the latest,
 *      before the deletion is dropped, and the deletion hides that record until the next fold
 *      removes it.
 *
 * Another program must write a shard only on condition of the ETag with which it has read it, as
 * Holdfast does; otherwise records are lost. It need not know the sidecar. It does not know
 * deletions either: a record that it adds below the floor is shown. */
#ifndef INDEX_PLAIN_H
#define INDEX_PLAIN_H

#include "index/cursor.h"

struct plain_fold {
    struct index *index;
    struct shard_cursor *cursor; /* the pair that was merged */
    struct shard_writer *writer; /* the new shard and its deletions, complete */
    bool adds_deletions;
    /* What was folded, sorted by key. */
    struct record *records;
    size_t count;
};

/* Writes the pair, and reads it again. OK: it shows all records that are neither refused nor moot.
 * CONFLICT: another compiler or another program wrote one of the two; entries must stay. Otherwise
 * like index_fold. */
enum hf_status plain_swap(const struct plain_fold *fold, struct hf_error *error);

#endif
