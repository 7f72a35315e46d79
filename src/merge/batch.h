/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h: a block of an input's bytes, cut into rows.
 *
 * A reader fills a batch, and the merge consumes it. In between the batch does not change, so the
 * reader and the merge may be different threads. A row contains what the merge compares: the time,
 * and the code of the key relative to the previous row of the same input (order.h). */
#ifndef MERGE_BATCH_H
#define MERGE_BATCH_H

#include "base/buffer.h"
#include "base/instant.h"
#include "base/json.h"
#include "merge/order.h"

#include <assert.h>

/* Why a row cannot be merged. One table defines the enum and the messages. */
#define ROW_FAULT_TABLE(ROW)                                                           \
    ROW(NONE, "is fine")                                                               \
    ROW(END, "is the last of its batch")                                               \
    ROW(PIECE, "goes on")                                                              \
    ROW(TOO_LONG, "exceeds the maximum record size")                                   \
    ROW(NO_KEY, "has no key field")                                                    \
    ROW(NO_TIME, "has no time field")                                                  \
    ROW(BAD_TIME, "has a time field that is neither RFC 3339 nor a number since 1970") \
    ROW(NO_ZONE, "has a time without a zone")                                          \
    ROW(COLUMNS, "has a different number of fields than the header")                   \
    ROW(QUOTES, "has a misplaced or unclosed quote")                                   \
    ROW(BAD_JSON, "is not one JSON object")                                            \
    ROW(TOO_DEEP, "is nested too deeply")                                              \
    ROW(KEY_KIND, "has a key that is neither a string nor a number")                   \
    ROW(KEY_NUMBER, "has a key that is not a number")                                  \
    ROW(BAD_DELETED, "has a deleted field that is neither true nor false")             \
    ROW(NOT_UTF8, "is not UTF-8")

#define ROW_FAULT_ENUM_(name, text) ROW_##name,
enum row_fault { ROW_FAULT_TABLE(ROW_FAULT_ENUM_) ROW_FAULT_COUNT };
#undef ROW_FAULT_ENUM_

const char *row_fault_text(enum row_fault fault);
enum row_fault row_fault_of_json(enum json_fault fault);

/* Bytes that may be read after the end of a block; their values do not matter. */
#define BLOCK_SLACK 128
static_assert(BLOCK_SLACK >= KEY_SLACK, "a key may stand at the end of a block");

/* A row fits into one cache line, because with 64 inputs the next row is rarely in the cache. */
struct row {
    order_code code;     /* of the key, relative to the previous good row's key */
    struct instant time; /* if a time field was requested */
    uint32_t at;         /* offset of the record in `text`, without its terminator */
    uint32_t size;
    uint32_t key_at; /* offset in the block, or in `keys` */
    uint32_t key_size;
    uint16_t fault;    /* enum row_fault; ROW_PIECE: part of a record that is too long */
    bool key_is_apart; /* in `keys`: the record has it in another form, for example escaped */
    bool is_deleted;   /* a deletion marker */
};

struct batch {
    char *block; /* `filled` bytes, then BLOCK_SLACK more that may be read */
    size_t capacity;
    size_t filled;
    struct row *rows; /* followed by one with ROW_END */
    size_t row_count;
    size_t row_capacity;
    struct buffer keys;   /* keys whose records have them in another form */
    struct buffer texts;  /* the records, if they are rewritten for the output's columns */
    const char *text;     /* where the records are: in the block, or in `texts` */
    unsigned key_kinds;   /* ndjson: the kinds of the keys (merge.h) */
    bool unsorted;        /* the row after the last one is smaller than it; nothing follows */
    uint64_t rows_before; /* rows of its input before this batch */
    uint64_t position;    /* bytes read from the file when this batch was filled */
};

/* False if out of memory; the batch must be released even then. `capacity` is the size of the
 * block. */
bool batch_init(struct batch *batch, size_t capacity);
void batch_release(struct batch *batch);

/* Forgets the rows but keeps the block. */
void batch_clear(struct batch *batch);

/* Records that are rewritten for many more columns can be much longer than in the block. */
#define TEXTS_PER_BLOCK 2

static inline bool batch_full(const struct batch *batch)
{
    return batch->row_count == batch->row_capacity || batch->unsorted || batch->keys.failed ||
           batch->texts.size > TEXTS_PER_BLOCK * batch->capacity;
}

static inline struct view batch_record(const struct batch *batch, const struct row *row)
{
    return (struct view){ batch->text + row->at, row->size };
}

static inline struct view batch_key(const struct batch *batch, const struct row *row)
{
    const char *base = row->key_is_apart ? batch->keys.data : batch->block;
    return (struct view){ base + row->key_at, row->key_size };
}

#endif
