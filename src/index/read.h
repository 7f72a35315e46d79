/* SPDX-License-Identifier: Apache-2.0 */
/* read.h: what readers see: for each key, the record with the greatest (time, bytes), whether it is
 * in the inbox or in the shard. Reading changes nothing and never waits. */
#ifndef INDEX_READ_H
#define INDEX_READ_H

#include "index/condition.h"
#include "index/cursor.h"
#include "index/inbox.h"

/* Appends the record of a key to `ret_bytes`; NOT_FOUND if there is none. Requests: a listing of
 * the key's entries, gets of its latest entry and of the names that other programs may use, and one
 * or two reads of the shard. If the handle or a copy of it has read the shard before, what it keeps
 * of the shard (shard_cache.h) makes this one conditional read, which is empty if nothing has
 * changed and the block of the key is among what is kept. */
enum hf_status index_get(struct index *index, struct view key, struct buffer *ret_bytes,
                         struct hf_error *error);

/* A key that is wanted, and the number of its shard. */
struct wanted_key {
    size_t shard;
    struct view key;
};

/* A query. The caller owns the views. */
struct index_query {
    struct view prefix; /* key prefix; empty: all */
    bool since_given;
    struct instant since; /* earliest time */
    const struct condition_on_field *where;
    size_t where_count;
    struct shard_id shard; /* text empty: all */
    /* Only these keys, which are in the order of shards and keys, each once; NULL: all. */
    const struct wanted_key *keys;
    size_t key_count;
};

/* Shows every record that matches, shard by shard, in key order within a shard. Needs a few
 * megabytes of memory, for the names of one shard's entries and a window of the shard. If `show`
 * returns any status other than OK, the walk ends with it. `progress` (may be NULL) is called
 * between shards; false ends the walk with CANCELLED. A shard that cannot be read is reported to
 * `trouble` (may be NULL), and the walk continues. The first such status is returned at the end. */
struct index_visitor {
    enum hf_status (*show)(void *argument, const struct record *record, struct hf_error *error);
    bool (*progress)(void *argument, const struct hf_index_progress *totals);
    void (*trouble)(void *argument, const struct hf_error *error);
    void *argument;
};
enum hf_status index_walk(struct index *index, const struct index_query *query,
                          const struct index_visitor *visitor,
                          struct hf_index_progress *ret_totals, struct hf_error *error);

/* The exact number of matching keys. `query` NULL: all keys. Then only the header line is read of
 * shards without entries. `visitor` may be NULL, and so may its `show`. */
enum hf_status index_count(struct index *index, const struct index_query *query,
                           const struct index_visitor *visitor, uint64_t *ret_count,
                           struct hf_error *error);

/* The same, record by record. The query must stay valid. The visitor may be NULL; only its
 * `progress` is called. */
struct walk;
enum hf_status walk_open(struct index *index, const struct index_query *query,
                         const struct index_visitor *visitor, struct walk **ret_walk,
                         struct hf_error *error);
void walk_close(struct walk *walk);

/* The next record, valid until the next call. NOT_FOUND: the walk is complete. CANCELLED:
 * `progress` returned false, and the walk has ended. Any other status concerns one shard: call
 * again to continue with the next. */
enum hf_status walk_next(struct walk *walk, struct record *ret_record, struct hf_error *error);

/* The progress of the walk so far. */
struct hf_index_progress walk_totals(const struct walk *walk);

/* The number of the shard that the last record or error of walk_next concerns. */
size_t walk_shard(const struct walk *walk);

/* Whether the walk has ended before its last shard, because the store kept failing. */
bool walk_gave_up(const struct walk *walk);

/* Reads many keys in one pass: one walk over the shards of these keys. The inbox of a shard is
 * listed at most once, and no part of a shard is read twice unless the shard is replaced meanwhile.
 *
 * `each` is called once per key, shard by shard. `number` is the key's index in `keys`. `record` is
 * NULL unless why->status is OK; it is NOT_FOUND for a key without a record, and the status of the
 * shard if that cannot be read. If `each` returns a status other than OK, the call ends with it.
 *
 * Returns OK if every key has a record, the status of the first shard that could not be read, or
 * else NOT_FOUND. */
struct index_getter {
    enum hf_status (*each)(void *argument, size_t number, const struct record *record,
                           const struct hf_error *why, struct hf_error *error);
    void *argument;
};
enum hf_status index_get_many(struct index *index, const struct view *keys, size_t count,
                              const struct index_getter *getter, struct hf_error *error);

/* Whether a record matches the query's time and field conditions. */
bool index_query_takes(const struct index_query *query, const struct record *record);

#endif
