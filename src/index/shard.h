/* shard.h: the bytes of a shard: one line of JSON, then the records in the order of their keys,
 * each ended by LF.
 *
 *     {"format":"holdfast.shard/1","line":"00000345","check":"89abcdef","nonce":"…","token":7,
 *      "writes":3,"version":1,"schema":"<hash>","records":2,"size":58,
 *      "blocks":[[0,58,"1c2d3e4f","example.com"]]}
 *     example.com US …
 *     example.org US …
 *
 * The first values have a fixed width and place: how long the line is with its LF, in decimal, and
 * the CRC32C of what stands behind the check's closing quote, the LF included. Records are cut into
 * blocks; of each the line has where it starts behind the line, its size, its CRC32C, and its first
 * key. So one key costs two reads of a large shard, one of a small one, and every byte is checked.
 * Pure but for the draft. */
#ifndef INDEX_SHARD_H
#define INDEX_SHARD_H

#include "base/arena.h"
#include "base/evidence.h"
#include "index/draft.h"
#include "index/record.h"

#define SHARD_FORMAT   "holdfast.shard/1"
#define SHARD_LINE_MAX (16 * MIB)
#define SHARD_BLOCK \
    (16 * KIB) /* at least, but for the last; twice that as often as it takes ... */
#define SHARD_BLOCKS_MAX 1024 /* ... to stay below this */
#define SHARD_BLOCK_MAX  (16 * MIB)
#define SHARD_BYTES_MAX  (4 * GIB)

/* A byte of a key takes up to six in JSON. */
static_assert(SHARD_BLOCKS_MAX * (6 * INDEX_KEY_BYTES_MAX + 64) + KIB <= SHARD_LINE_MAX,
              "a line has room for the keys of all blocks");
static_assert(2 * (SHARD_BYTES_MAX / (SHARD_BLOCKS_MAX - 1)) + INDEX_RECORD_BYTES_MAX <
                  SHARD_BLOCK_MAX,
              "blocks of the largest shard can be read");

/* What tells how long the line is: read this much at first, at least. */
#define SHARD_PROLOGUE 96

struct shard_block {
    uint64_t at; /* behind the line */
    uint64_t size;
    uint32_t crc32c;
    struct view first_key;
};

struct shard_head {
    uint64_t line_size; /* where the records begin */
    char nonce[NONCE_SIZE + 1];
    uint64_t token;
    uint64_t writes;  /* how often it was written with tokens that count this; 0: never */
    uint64_t version; /* of the schema, and its hash */
    uint64_t schema_hash;
    uint64_t records;
    uint64_t size; /* of all records */
    struct shard_block *blocks;
    size_t block_count;
    struct arena arena; /* of the blocks and keys */
};

void shard_head_release(struct shard_head *head);

/* How long the line is, from the first bytes of a shard. CORRUPT when it is none of ours: it may be
 * another program's. UNSUPPORTED: of a later format. */
enum hf_status shard_line_size(struct view start, uint64_t *ret_size, struct hf_error *error);

/* Reads the whole line. CORRUPT when anything in it does not hold: blocks that are not beside each
 * other, keys out of order, sizes that do not add up. */
enum hf_status shard_head_read(struct view line, struct shard_head *ret_head,
                               struct hf_error *error);

/* The block in which a key would be: the last one that starts at or before it; 0 when it is before
 * all. There is at least one block. */
size_t shard_find_block(const struct shard_head *head, struct view key);

/* ---- Writing -------------------------------------------------------------------------- */

struct shard_writer {
    struct draft draft;
    struct shard_head head;
    uint64_t block_bytes;   /* a block with so many is full */
    struct buffer last_key; /* to see that keys rise */
    size_t block_capacity;
};

/* `bytes_expected` is at least what all records will take; it says how large blocks are. */
enum hf_status shard_writer_init(struct shard_writer *writer, const struct schema *schema,
                                 uint64_t token, const char *nonce, uint64_t bytes_expected,
                                 struct hf_error *error);
void shard_writer_release(struct shard_writer *writer);

/* Keys must rise: checked. UNAVAILABLE without memory or disk, INVALID when the shard would be
 * larger than SHARD_BYTES_MAX: an index with more digits would have smaller ones. */
enum hf_status shard_writer_add(struct shard_writer *writer, const struct record *record,
                                struct hf_error *error);

/* The line, once all records were added; then writer->draft holds what stands behind it. */
enum hf_status shard_writer_end(struct shard_writer *writer, struct buffer *line,
                                struct hf_error *error);

#endif
