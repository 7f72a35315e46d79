/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h: a shard as bytes: one header line of JSON, then the records in key order, each ended by
 * LF.
 *
 *     {"format":"holdfast.shard/1","line":"00000345","check":"89abcdef","nonce":"…","token":7,
 *      "writes":3,"version":1,"schema":"<hash>","records":2,"size":58,
 *      "blocks":[[0,58,"1c2d3e4f","example.com"]]}
 *     example.com US …
 *     example.org US …
 *
 * The first values have a fixed width and a fixed place: `line` is the length of the line with its
 * LF, in decimal, and `check` is the CRC32C of all bytes of the line after the closing quote of
 * `check`, including the LF. Records are divided into blocks. For each block the line contains its
 * offset after the line, its size, its CRC32C and its first key. So looking up a key takes two
 * reads in a large shard, or one in a small shard, and every byte is checked. Pure except for the
 * object writer.
 *
 * Once the shard has had deletions, its format is SHARD_FORMAT_LATER, which programs that do not
 * know deletions refuse, and its line also has the members
 *     "deleted":1,"floor":[s,atto],"sealed":[s,atto,"stamp"]
 * of which the last two may be missing.
 *
 * If the shards of the index are plain (plain.h), a shard consists of the records alone. The line
 * is in an object of its own, the sidecar, in the format SHARD_FORMAT_PLAIN. It has no deletions
 * among its records, and may also have the members
 *     "etag":"…","deletions":[count,size,"check"]
 * : the version of the shard that it describes, and the deletions that follow the line. */
#ifndef INDEX_SHARD_H
#define INDEX_SHARD_H

#include "base/arena.h"
#include "base/evidence.h"
#include "base/stamp.h"
#include "index/object_writer.h"
#include "index/record.h"

#define SHARD_FORMAT       "holdfast.shard/1"
#define SHARD_FORMAT_LATER "holdfast.shard/2" /* has deletions, or has had them */
#define SHARD_FORMAT_PLAIN "holdfast.plain/1"
#define SHARD_LINE_MAX     (16 * MIB)
#define SHARD_BLOCK        (16 * KIB) /* minimum, except for the last one; doubled as needed ... */
#define SHARD_BLOCKS_MAX   1024       /* ... to keep the number of blocks below this */
#define SHARD_BLOCK_MAX    (16 * MIB)
#define SHARD_BYTES_MAX    (4 * GIB)
#define PLAIN_BYTES_MAX    (256 * MIB) /* of bare records, which may have to be read whole */
#define DELETIONS_MAX      (64 * MIB)  /* of the deletions of a plain shard */

/* A byte of a key takes up to six bytes in JSON. */
static_assert(SHARD_BLOCKS_MAX * (6 * INDEX_KEY_BYTES_MAX + 64) + KIB <= SHARD_LINE_MAX,
              "a line has room for the keys of all blocks");
static_assert(2 * (SHARD_BYTES_MAX / (SHARD_BLOCKS_MAX - 1)) + INDEX_RECORD_BYTES_MAX <
                  SHARD_BLOCK_MAX,
              "blocks of the largest shard can be read");

/* How many bytes are needed to learn the length of the header line. Read at least this many
 * first. */
#define SHARD_PROLOGUE 96

struct shard_block {
    uint64_t at; /* after the line */
    uint64_t size;
    uint32_t crc32c;
    struct view first_key;
};

struct shard_head {
    uint64_t line_size; /* where the records begin */
    char nonce[NONCE_SIZE + 1];
    uint64_t token;
    uint64_t writes;  /* number of writes, by programs that count them; 0: none */
    uint64_t version; /* of the schema, and its hash */
    uint64_t schema_hash;
    uint64_t records; /* with the deletions among them */
    uint64_t size;    /* of all records */
    uint64_t deleted; /* how many of the records are deletions */
    /* Deletions up to this time may have been dropped. A record that is not later, and whose key
     * the shard does not have, may have been deleted: it is not shown, and not folded. */
    bool has_floor;
    struct instant floor;
    /* All deletions up to this time were in the shard at that moment; see fold.h. */
    bool sealed;
    struct instant sealed_to;
    struct stamp sealed_at;
    /* Only in a sidecar; see plain.h. */
    bool plain;
    struct etag of; /* the version of the shard that has these blocks; empty: none */
    uint64_t deletions_size;
    uint32_t deletions_crc32c;
    struct shard_block *blocks;
    size_t block_count;
    struct arena arena; /* contains the blocks and keys */
};

void shard_head_release(struct shard_head *head);

/* The length of the header line, from the first bytes of a shard or a sidecar. CORRUPT: neither; it
 * may belong to another program. UNSUPPORTED: a newer format. */
enum hf_status shard_line_size(struct view start, uint64_t *ret_size, struct hf_error *error);

/* Parses the whole line. CORRUPT: blocks that are not adjacent, keys out of order, or sizes
 * that do not add up. */
enum hf_status shard_head_read(struct view line, struct shard_head *ret_head,
                               struct hf_error *error);

/* The block that would contain a key: the last block whose first key is not greater, or 0 if all
 * first keys are greater. There must be at least one block. */
size_t shard_find_block(const struct shard_head *head, struct view key);

struct shard_writer {
    struct object_writer writer;
    struct shard_head head;
    uint64_t block_bytes;   /* a block of this size is full */
    struct buffer last_key; /* to check the key order */
    size_t block_capacity;
    struct buffer deletions; /* of a plain shard: they are not among its records */
};

/* `bytes_expected` is at least the size of all records; it determines the size of blocks. */
enum hf_status shard_writer_init(struct shard_writer *writer, const struct schema *schema,
                                 uint64_t token, const char *nonce, uint64_t bytes_expected,
                                 struct hf_error *error);
void shard_writer_release(struct shard_writer *writer);

/* Adds a record. Checks that keys are in ascending order. UNAVAILABLE: out of memory or disk space.
 * INVALID: the shard would exceed SHARD_BYTES_MAX, or a plain shard PLAIN_BYTES_MAX, or its
 * deletions DELETIONS_MAX; an index with more digits has smaller shards. */
enum hf_status shard_writer_add(struct shard_writer *writer, const struct record *record,
                                struct hf_error *error);

/* Writes the header line once all records have been added. The object writer contains the bytes
 * after the line or, if the head is plain, the shard. */
enum hf_status shard_writer_end(struct shard_writer *writer, struct buffer *line,
                                struct hf_error *error);

/* Writes the line of a head, and sets its size. False if out of memory. */
bool shard_head_write(struct shard_head *head, struct buffer *line);

#endif
