/* SPDX-License-Identifier: Apache-2.0 */
/* pending.h: the entries of an inbox as a stream of records in key order, with the latest record of
 * each key. They are loaded piece by piece. For read and walk only. */
#ifndef INDEX_PENDING_H
#define INDEX_PENDING_H

#include "index/inbox.h"
#include "index/read.h"

/* The maximum size of the records that are in memory at a time. */
#define PENDING_BYTES (4 * MIB)

/* Some entries, loaded together. */
struct pending_batch {
    struct entry *picks; /* copies; their views share the entries' memory */
    size_t count, capacity;
    uint64_t bytes;
    struct entry_load load;
};

struct pending {
    struct index *index;
    const struct index_query *wanted; /* NULL: all */
    /* The wanted keys of this shard, in key order; NULL: all. Set it before the first entry is
     * added. */
    const struct wanted_key *keys;
    size_t key_count;
    struct entry **entries; /* by key; within a key, foreign entries, then ours, latest first */
    size_t count, capacity;
    bool sorted;
    struct arena arena; /* keys that are only in records */

    struct pending_batch batch; /* the current batch, ... */
    size_t shown;               /* ... how much of it was returned, ... */
    size_t next;                /* ... and the first entry after it */
    /* Earlier entries of those keys in the batch whose latest entry is gone. */
    struct pending_batch earlier;
    struct view top_key;     /* key of our last entry before `next`, and */
    struct instant top_time; /* its latest time, from the names */

    struct buffer bytes; /* the record returned last */
    /* A listed entry is gone, so its record is in the shard. Cleared by the caller. */
    bool vanished;
    uint64_t unreadable; /* so far */
};

void pending_init(struct pending *pending, struct index *index,
                  const struct index_query *wanted);
void pending_free(struct pending *pending);

/* Adds entries that may match. Must be called before the first pending_next. The entries are not
 * copied. If the name of an entry does not contain its key, the key is filled in from the
 * record. */
enum hf_status pending_add(struct pending *pending, struct entry *entries, size_t count,
                           struct hf_error *error);

/* The record of the next key, valid until the next call. Keys without a readable entry are
 * skipped. NOT_FOUND at the end; otherwise the store's error. */
enum hf_status pending_next(struct pending *pending, struct record *ret_record,
                            struct hf_error *error);

#endif
