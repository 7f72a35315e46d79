/* pending.h: entries of the inbox as a stream of records in the order of their keys, of each key
 * the latest, loaded piece by piece. For read and walk only. */
#ifndef INDEX_PENDING_H
#define INDEX_PENDING_H

#include "index/inbox.h"
#include "index/read.h"

/* Records that are in memory at once. */
#define PENDING_BYTES (4 * MIB)

/* Some entries, loaded together. */
struct pending_batch {
    struct entry *picks; /* copies; their views point to where those of the entries do */
    size_t count, capacity;
    uint64_t bytes;
    struct entry_load load;
};

struct pending {
    struct index *index;
    const struct index_query *wanted; /* NULL: all */
    struct entry *
        *entries; /* by key; of one key those of others, then ours, the latest first */
    size_t count, capacity;
    bool sorted;
    struct arena arena; /* of keys that only records tell */

    struct pending_batch batch; /* the one that is being shown, ... */
    size_t shown;               /* ... so far, ... */
    size_t next;                /* ... and the first entry behind it */
    struct pending_batch
        earlier;             /* of keys of that batch whose latest is gone: those before it */
    struct view top_key;     /* the last key of ours among the entries before that, and */
    struct instant top_time; /* its latest time, as names tell it */

    struct buffer bytes; /* of the record that was given last */
    /* To be cleared by who looks: something that was listed is gone, so it is in the shard. */
    bool vanished;
    uint64_t unreadable; /* so far */
};

void pending_init(struct pending *pending, struct index *index,
                  const struct index_query *wanted);
void pending_release(struct pending *pending);

/* Adds those that may be wanted, all before the first pending_next. They stay where they are, and
 * where a name does not tell the key it is filled in, out of the record. */
enum hf_status pending_add(struct pending *pending, struct entry *entries, size_t count,
                           struct hf_error *error);

/* The record of the next key; it lives until the next call. A key of which nothing can be read, or
 * is there any more, is passed over. NOT_FOUND at the end; else what the store said. */
enum hf_status pending_next(struct pending *pending, struct record *ret_record,
                            struct hf_error *error);

#endif
