/* read.h: what readers see: of each key the record with the greatest (time, bytes), whether it is
 * still in the inbox or in its shard already. Reading changes nothing and waits for nobody. */
#ifndef INDEX_READ_H
#define INDEX_READ_H

#include "index/cursor.h"
#include "index/inbox.h"

/* The record of a key: its bytes are appended to `ret_bytes`. NOT_FOUND when there is none.
 * Requests: a listing of that key's entries, those of its names that others may use and the latest
 * of its entries, and the shard: one or two reads. */
enum hf_status index_get(struct index *index, struct view key, struct buffer *ret_bytes,
                         struct hf_error *error);

/* What is wanted. Views stay the caller's. */
struct index_query {
    struct view prefix; /* of the key; empty: all */
    bool since_given;
    struct instant since; /* not before this */
    const struct condition_on_field {
        size_t field;
        struct view value; /* of the field, as a value */
        bool differs;      /* it must not be that one */
    } * where;
    size_t where_count;
    struct shard_id shard; /* text empty: all */
};

struct walk_totals {
    uint64_t shards_read, shards_total;
    uint64_t records;    /* shown */
    uint64_t pending;    /* entries of the inbox that were looked at */
    uint64_t unreadable; /* entries that a compiler will set aside */
};

/* Shows every record that is wanted, shard by shard, within a shard in the order of keys. Memory:
 * the names of one shard's entries, a window of the shard, some megabytes. Anything but OK from
 * `show` ends it. `progress` (may be NULL) is told between shards; false ends it, CANCELLED.
 * A shard that cannot be read is told to `trouble` (may be NULL), and the walk goes on; the first
 * such status is returned at its end. */
struct index_visitor {
    enum hf_status (*show)(void *argument, const struct record *record, struct hf_error *error);
    bool (*progress)(void *argument, const struct walk_totals *totals);
    void (*trouble)(void *argument, const struct hf_error *error);
    void *argument;
};
enum hf_status index_walk(struct index *index, const struct index_query *query,
                          const struct index_visitor *visitor, struct walk_totals *ret_totals,
                          struct hf_error *error);

/* How many keys are wanted: exact. `query` NULL: all; then shards without entries are not read but
 * for their line. `visitor` may be NULL, and its `show` too. */
enum hf_status index_count(struct index *index, const struct index_query *query,
                           const struct index_visitor *visitor, uint64_t *ret_count,
                           struct hf_error *error);

/* The same record by record. The query stays where it is; of the visitor, which may be NULL, only
 * `progress` is asked. */
struct walk;
enum hf_status walk_open(struct index *index, const struct index_query *query,
                         const struct index_visitor *visitor, struct walk **ret_walk,
                         struct hf_error *error);
void walk_close(struct walk *walk);

/* The next record; it lives until the next call. NOT_FOUND at the end, CANCELLED by `progress`:
 * then there are no more. Anything else is about one shard: ask again to go on with the next. */
enum hf_status walk_next(struct walk *walk, struct record *ret_record, struct hf_error *error);

/* How far it has come, or came. */
struct walk_totals walk_totals(const struct walk *walk);

/* Whether a record meets the query's since and where. */
bool index_query_takes(const struct index_query *query, const struct record *record);

#endif
