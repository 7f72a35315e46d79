/* cursor.h: a shard read in the order of its keys, block by block, always of one version. */
#ifndef INDEX_CURSOR_H
#define INDEX_CURSOR_H

#include "index/index.h"
#include "index/shard.h"

struct shard_cursor {
    struct index *index;
    struct shard_id shard;
    bool exists; /* else there is no shard yet: it is at its end */
    struct etag etag;
    struct shard_head head;
    /* The blocks that are in memory. */
    struct buffer window;
    uint64_t window_at;  /* of its first byte, behind the line */
    size_t next_block;   /* the first that is not in the window */
    uint64_t window_max; /* how much to read at once */
    struct view rest;    /* of the window: not read yet */
    struct view wanted;  /* sought, ... */
    bool beyond;         /* ... and whether one with this key is passed over, too */
    struct buffer wanted_space;
    struct buffer key_space;
};

/* Opens the shard as it is now: OK also when there is none. Reads `first` bytes of it in one
 * request, and more if its line is longer. CORRUPT names the shard. A version of the schema that is
 * not known here makes it refresh the schema. */
enum hf_status shard_cursor_open(struct shard_cursor *cursor, struct index *index,
                                 struct shard_id shard, uint64_t first, struct hf_error *error);
void shard_cursor_close(struct shard_cursor *cursor);

/* For lookups, and for those who read all of it. */
#define SHARD_READ_SMALL (16 * KIB)
#define SHARD_READ_LARGE (1 * MIB)

/* Goes to the first record whose key is at or, with `beyond`, behind this one. Nothing is read yet. */
void shard_cursor_seek(struct shard_cursor *cursor, struct view key, bool beyond);

/* The next record; *ret_record's views live until the next call. NOT_FOUND at the end. CONFLICT: the
 * shard was replaced meanwhile; open it anew. CORRUPT: damaged, and the reason names the shard. */
enum hf_status shard_cursor_next(struct shard_cursor *cursor, struct record *ret_record,
                                 struct hf_error *error);

#endif
