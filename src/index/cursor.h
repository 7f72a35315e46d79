/* cursor.h: a shard read in the order of its keys, block by block, always of one version. */
#ifndef INDEX_CURSOR_H
#define INDEX_CURSOR_H

#include "index/index.h"
#include "index/shard.h"

struct shard_cursor {
    struct index *index;
    struct shard_id shard;
    char object[KEY_BYTES_MAX + 1];
    bool exists; /* else there is no shard yet: it is at its end */
    struct etag etag;
    struct shard_head head;
    /* The blocks that are in memory, whole and checked. */
    struct buffer window;
    struct view loaded;  /* they, in the window */
    uint64_t loaded_at;  /* the first of their bytes, behind the line */
    size_t next_block;   /* the first behind them */
    uint64_t window_max; /* how much to read at once */
    struct view rest;    /* of what is loaded: not read yet */
    bool seeking;        /* records before `wanted` are passed over, ... */
    bool beyond;         /* ... and one with this key, too */
    struct buffer wanted;
    struct buffer last_key; /* of the record that was read last: keys must rise */
    struct buffer key_space;
};

/* For lookups, and for those who read all of it. */
#define SHARD_READ_SMALL (64 * KIB)
#define SHARD_READ_LARGE (1 * MIB)

/* Opens the shard as it is now: OK also when there is none. Reads `first` bytes of it in one
 * request, and more if its line is longer. CORRUPT names the shard. CONFLICT: it was replaced,
 * again and again, while its line was read. A version of the schema that is not known here makes
 * it refresh the schema. */
enum hf_status shard_cursor_open(struct shard_cursor *cursor, struct index *index,
                                 struct shard_id shard, uint64_t first, struct hf_error *error);

/* Fine after a failed open, too. */
void shard_cursor_close(struct shard_cursor *cursor);

/* Goes to the first record whose key is at or, with `beyond`, behind this one. Nothing is read
 * yet. */
void shard_cursor_seek(struct shard_cursor *cursor, struct view key, bool beyond);

/* The next record; *ret_record's views live until the next call. NOT_FOUND at the end. CONFLICT:
 * the shard was replaced meanwhile; open it anew. CORRUPT: damaged, and the reason names it. */
enum hf_status shard_cursor_next(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error);

/* The same, for those who do without the record's time, which is left alone: cheaper. */
enum hf_status shard_cursor_step(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error);

/* The record of this key, as shard_cursor_next; NOT_FOUND when there is none. Reads only the block
 * where it would be. */
enum hf_status shard_cursor_find(struct shard_cursor *cursor, struct view key,
                                 struct record *ret_record, struct hf_error *error);

/* Whether a failure is about the shard itself, or the store's, which may fail at the next as
 * well. So many of the latter in a row are enough for those who go from shard to shard. */
static inline bool shard_is_the_matter(enum hf_status status)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED || status == HF_CONFLICT ||
           status == HF_INVALID;
}
#define SHARD_FAILURES_MAX 3

#endif
