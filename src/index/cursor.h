/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.h: reads a shard in key order, block by block, always from one version. */
#ifndef INDEX_CURSOR_H
#define INDEX_CURSOR_H

#include "index/index.h"
#include "index/shard.h"
#include "index/sidecar.h"

struct shard_cursor {
    struct index *index;
    struct shard_id shard;
    char object[KEY_BYTES_MAX + 1];
    bool exists;      /* otherwise there is no shard yet, and the cursor is at its end */
    bool bare;        /* read whole: it is without a header line (adopt.h, plain.h) */
    struct etag etag; /* empty: there is only a sidecar */
    /* Of a plain shard: */
    struct sidecar sidecar;
    struct mono_time opened; /* before anything was read */
    struct shard_head head;
    /* The complete, checked blocks in memory. */
    struct buffer window;
    struct view loaded;  /* their bytes, in the window */
    uint64_t loaded_at;  /* offset of their first byte after the header line */
    size_t next_block;   /* the first block after them */
    uint64_t window_max; /* maximum number of bytes to read in one request */
    struct view rest;    /* loaded bytes not read yet */
    bool seeking;        /* skip records before `wanted`, ... */
    bool beyond;         /* ... and also the one with this key */
    struct buffer wanted;
    struct buffer last_key; /* key of the last record read, to check the key order */
    struct buffer key_space;
};

/* The size of the first read: for lookups, and for full scans. */
#define SHARD_READ_SMALL (64 * KIB)
#define SHARD_READ_LARGE (1 * MIB)

/* Opens the current shard. Also returns OK if there is none. Reads `first` bytes in one request,
 * and more if its header line is longer. CORRUPT: the error names the shard. CONFLICT: the shard
 * kept being replaced while its header line was being read. If the shard has an unknown schema
 * version, the schema is read again. */
enum hf_status shard_cursor_open(struct shard_cursor *cursor, struct index *index,
                                 struct shard_id shard, uint64_t first, struct hf_error *error);

/* May also be called after a failed open. */
void shard_cursor_close(struct shard_cursor *cursor);

/* Moves to the first record whose key is equal to or greater than this key; with `beyond`, strictly
 * greater. Nothing is read yet. */
void shard_cursor_seek(struct shard_cursor *cursor, struct view key, bool beyond);

/* The next record; its views are valid until the next call. NOT_FOUND: there are no more records.
 * CONFLICT: the shard was replaced; open it again. CORRUPT: the shard, which the error names, is
 * damaged. */
enum hf_status shard_cursor_next(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error);

/* The same, but without parsing the record's time, which makes it cheaper. */
enum hf_status shard_cursor_step(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error);

/* The record of this key, like shard_cursor_next; NOT_FOUND if there is none. Reads only the block
 * that could contain it. */
enum hf_status shard_cursor_find(struct shard_cursor *cursor, struct view key,
                                 struct record *ret_record, struct hf_error *error);

/* The same, with a cursor that was used for an earlier find and may have been kept for long. The
 * answer is that of the current shard. If the shard is unchanged, this takes one request, which
 * returns the block of the key or, if the cursor still has that block, only says so. If the shard
 * was replaced, the cursor shows the new one, or the call returns CONFLICT: open it again. The
 * cursor must not be of a plain index. */
enum hf_status shard_cursor_find_again(struct shard_cursor *cursor, struct view key,
                                       struct record *ret_record, struct hf_error *error);

/* Frees the memory that shard_cursor_find_again does not need. Returns false if the cursor cannot
 * be used for it: the shard does not exist or was read whole, or memory has run out. */
bool shard_cursor_trim(struct shard_cursor *cursor);

/* Whether the shard's floor hides a record of the inbox whose key the shard does not have: a
 * deletion of this key, later than the record, may have been dropped. */
bool shard_hides(const struct shard_cursor *cursor, const struct record *record);

/* Whether a failure concerns only this shard. Otherwise the store failed, and may fail for the next
 * shard too. A caller that visits many shards stops after a few consecutive store failures. */
static inline bool shard_is_the_matter(enum hf_status status)
{
    return status == HF_CORRUPT || status == HF_UNSUPPORTED || status == HF_CONFLICT ||
           status == HF_INVALID;
}
#define SHARD_FAILURES_MAX 3

#endif
