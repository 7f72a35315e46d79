/* batch.h: a block of an input's bytes, cut into rows.
 *
 * A reader fills a batch; the merge uses it up. Between the two nothing of it changes, so they
 * may be different threads. Rows carry what the merge decides by: the code of the key against
 * the row before it in the same input (order.h), and the time. */
#ifndef MERGE_BATCH_H
#define MERGE_BATCH_H

#include "base/buffer.h"
#include "base/instant.h"
#include "merge/order.h"

#include <assert.h>

/* Why a row cannot be merged. One table makes the enum and the words. */
#define ROW_FAULT_TABLE(ROW)                                                           \
    ROW(NONE, "is fine")                                                               \
    ROW(END, "is the last of its batch")                                               \
    ROW(PIECE, "goes on")                                                              \
    ROW(TOO_LONG, "is longer than a record may be")                                    \
    ROW(NO_KEY, "has no key field")                                                    \
    ROW(NO_TIME, "has no time field")                                                  \
    ROW(BAD_TIME, "has a time field that is neither RFC 3339 nor a number since 1970") \
    ROW(NO_ZONE, "has a time without a zone")                                          \
    ROW(COLUMNS, "has another number of fields than the header")                       \
    ROW(QUOTES, "has quotes where they cannot stand, or that are never closed")        \
    ROW(BAD_JSON, "is not one JSON object")                                            \
    ROW(TOO_DEEP, "is nested too deeply")                                              \
    ROW(KEY_KIND, "has a key that is neither a string nor a number")                   \
    ROW(NOT_UTF8, "is not UTF-8")

#define ROW_FAULT_ENUM_(name, text) ROW_##name,
enum row_fault { ROW_FAULT_TABLE(ROW_FAULT_ENUM_) ROW_FAULT_COUNT };
#undef ROW_FAULT_ENUM_

const char *row_fault_text(enum row_fault fault);

/* What may be read behind the bytes of a block, whose values do not matter. */
#define BLOCK_SLACK 128
static_assert(BLOCK_SLACK >= KEY_SLACK, "a key may stand at the end of a block");

/* As long as a cache line: of 64 inputs, each next row is a line that was not looked at lately. */
struct row {
    order_code code;     /* of the key, against that of the good row before it */
    struct instant time; /* where one is asked for */
    uint32_t at;         /* the record within the block, without its end */
    uint32_t size;
    uint32_t key_at; /* within the block, or within `keys` */
    uint32_t key_size;
    uint16_t fault;    /* enum row_fault; ROW_PIECE: of one too long, more of it follows */
    bool key_is_apart; /* it stands in `keys`: it is not written like this in the record */
};

struct batch {
    char *block; /* `filled` bytes, then BLOCK_SLACK more that may be read */
    size_t capacity;
    size_t filled;
    struct row *rows; /* with one of ROW_END behind the last */
    size_t row_count;
    size_t row_capacity;
    struct buffer keys;   /* values of keys that their records write in another way */
    bool unsorted;        /* the row after the last is smaller than that; nothing follows */
    uint64_t rows_before; /* rows of its input that came before these */
    uint64_t position;    /* bytes of the file that were read when this was filled */
};

/* False without memory; release is right all the same. `capacity` is that of the block. */
bool batch_init(struct batch *batch, size_t capacity);
void batch_release(struct batch *batch);

/* Forgets the rows; the block stays. */
void batch_clear(struct batch *batch);

static inline bool batch_full(const struct batch *batch)
{
    return batch->row_count == batch->row_capacity || batch->unsorted || batch->keys.failed;
}

static inline struct view batch_record(const struct batch *batch, const struct row *row)
{
    return (struct view){ batch->block + row->at, row->size };
}

static inline struct view batch_key(const struct batch *batch, const struct row *row)
{
    const char *base = row->key_is_apart ? batch->keys.data : batch->block;
    return (struct view){ base + row->key_at, row->key_size };
}

#endif
