/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h: the entries of a shard: listing, reading, clearing, setting aside. */
#ifndef INDEX_INBOX_H
#define INDEX_INBOX_H

#include "index/index.h"

/* An object of the inbox, as listed. */
struct entry {
    struct view object; /* its key */
    struct entry_name name;
    struct view key; /* the record's key, from the name; data NULL: hashed, or a stray */
    uint64_t size;   /* 0: a marker, which contains no record */
    struct etag etag;
    struct wall_time modified; /* by the store's clock; for display */
};

struct entry_list {
    struct arena arena;
    struct entry *entries;
    size_t count, capacity;
    bool more; /* more entries follow the last one */
};

void entry_list_release(struct entry_list *list);

/* The maximum number of entries in one list, not counting markers. */
#define INBOX_LIST_MAX 1000000

/* Lists up to `max` entries in the folder of a shard, without markers. `after` is the key of the
 * last entry of the previous list, or empty. */
enum hf_status inbox_list(struct index *index, struct shard_id shard, struct view after,
                          size_t max, struct entry_list *ret_list, struct hf_error *error);

/* Lists the entries outside the shards' folders: the entries of all shards or, if the shard's text
 * is not empty, of one shard. If the index does not accept entries from other programs, returns OK
 * and an empty list, without a request. */
enum hf_status inbox_list_flat(struct index *index, struct shard_id shard,
                               struct entry_list *ret_list, struct hf_error *error);

enum entry_state {
    ENTRY_READ,     /* `record` is the latest record in the entry */
    ENTRY_VANISHED, /* gone, or replaced by a marker: it was folded */
    ENTRY_BAD,      /* cannot be read; why.why is the reason */
    ENTRY_FAILED,   /* the store did not return it; see `why` */
};

struct entry_body {
    enum entry_state state;
    struct etag etag;     /* of the version that was read */
    struct record record; /* points into `arena` of the load */
    struct hf_error why;
};

struct entry_load {
    struct arena arena;
    struct entry_body *bodies; /* one per requested entry */
    size_t count;
    uint64_t bytes; /* memory in use, for records and everything else */
};

void entry_load_release(struct entry_load *load);

/* How many of these entries can be loaded together: at most BATCH_MAX entries with at most
 * `bytes_max` bytes in total, but at least one entry. */
size_t inbox_batch(const struct entry *entries, size_t count, uint64_t bytes_max);

/* Reads entries in one batch. An entry larger than the longest record is ENTRY_BAD and is not read.
 * An entry whose contents are invalid is ENTRY_BAD only after the schema has been read again,
 * because a newer schema version may have added fields. Returns OK unless out of memory. An entry
 * that the store did not return is ENTRY_FAILED. */
enum hf_status inbox_load(struct index *index, const struct entry *entries, size_t count,
                          struct entry_load *ret_load, struct hf_error *error);

/* An entry, in the version that was folded or set aside. */
struct cleared {
    struct view object;
    bool foreign;
    struct etag etag;
};

struct clear_report {
    uint64_t deleted;
    uint64_t marked; /* became markers */
    uint64_t newer;  /* foreign entries that were rewritten in the meantime: left in place */
    uint64_t left;   /* unanswered or refused: cleared by a later compile */
};

/* Clears entries in batches: ours by name, entries from other programs by ETag, so that an unfolded
 * version is never removed. Must be called only for entries whose records are known to be in the
 * shard, or that were set aside. Failures are counted, and the first is stored in `why`, whose
 * status is OK if there was none. */
void inbox_clear(struct index *index, const struct cleared *cleared, size_t count,
                 struct clear_report *ret_report, struct hf_error *why);

/* Copies this version of an entry to aside/<id>.usv and writes the reason to aside/<id>.json. An
 * entry of any size is streamed. Clear the entry afterwards. NOT_FOUND or CONFLICT: it is gone or
 * was replaced. */
enum hf_status inbox_set_aside(struct index *index, const struct entry *entry,
                               const struct etag *etag, const char *reason,
                               struct hf_error *error);

#endif
