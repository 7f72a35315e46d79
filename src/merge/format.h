/* SPDX-License-Identifier: Apache-2.0 */
/* format.h: how the bytes of an input become records, keys and times. There is one file per
 * format. */
#ifndef MERGE_FORMAT_H
#define MERGE_FORMAT_H

#include "merge/batch.h"
#include "merge/key.h"
#include "merge/merge.h"

/* csv, tsv: how records of an input become records of the output, whose columns differ. */
struct column_map {
    size_t count;         /* columns of the output */
    const uint32_t *from; /* for each, the column of the input, from 1; 0: the input has none */
    size_t
        empty_after; /* the output has the input's columns, then so many more; 0: it has not */
};

/* Turns one input into rows. A format changes only its own members, and adds rows only with cut_row
 * and cut_fault. */
struct cutter {
    const struct format *format;
    char separator; /* csv, tsv */
    struct merge_key key;
    struct field time;
    struct field deleted; /* marks deletions; may be missing from a header or record */
    size_t columns; /* csv, tsv: columns of the header; 0: no header, any number allowed */
    const struct column_map *map; /* csv, tsv: NULL: records are written unchanged */
    bool has_zone;                /* times without a zone are in this one: */
    int64_t zone_east_s;          /* seconds east of UTC */
    size_t record_bytes_max;
    bool any_order; /* rows will be sorted: compute no codes, accept any order */
    /* The position in the input. */
    struct batch *batch;    /* being filled */
    size_t last_good;       /* its last row without a fault, counted from 1; 0: none yet */
    order_code last_column; /* the first column of the last good key */
    struct buffer last_key; /* of the good row before the batch, with KEY_SLACK; empty: none */
    size_t wanted;          /* bytes needed by an incomplete record; 0: unknown */
    /* For the format's own use. */
    struct buffer scratch;
    struct buffer encoded; /* a key */
    struct buffer fields;  /* csv, tsv: all fields of a record */
};

struct format {
    /* CRs before the end of a record are part of it, and a byte order mark at the start is
     * ignored. */
    bool is_text;

    /* Cuts whole records from the `size` bytes at `at` in batch->block, until they are consumed or
     * the batch is full. `at_end`: nothing follows, so the last record needs no terminator. Returns
     * the number of bytes consumed. The rest starts with a record that is incomplete or did not
     * fit. Empty lines are consumed without a row. */
    size_t (*cut)(struct cutter *cutter, size_t at, size_t size, bool at_end);

    /* For a record that is too long, because `cut` has searched more than record_bytes_max bytes
     * without finding its end. Returns how many of the bytes that follow belong to the record,
     * including its end; *ret_ended: the end is among them. */
    size_t (*skip)(struct view bytes, bool *ret_ended);

    /* Takes the first record of an input as the header. Returns its size including its end, or 0 if
     * it is still incomplete. NULL for formats without a header. */
    size_t (*header)(struct cutter *cutter, struct view bytes, bool at_end,
                     struct view *ret_record);

    /* Fills in cutter->columns, and the numbers of fields given by name. */
    enum hf_status (*resolve)(struct cutter *cutter, struct view header,
                              struct hf_error *error);
};

/* The size of the byte order mark at the start of a text; 0 if there is none. */
static inline size_t format_mark_size(struct view text)
{
    return view_starts_with(text, VIEW("\xef\xbb\xbf")) ? 3 : 0;
}

/* A `skip` for records that end with LF. */
size_t format_skip_line(struct view bytes, bool *ret_ended);

extern const struct format format_usv;
extern const struct format format_csv; /* also tsv, with another separator */
extern const struct format format_ndjson;

/* Copies a key into the batch's `keys`; false if out of memory. */
bool cut_key_apart(struct cutter *cutter, struct view key, uint32_t *ret_at);

static inline struct view cut_last_key(const struct cutter *cutter)
{
    if (cutter->last_good)
        return batch_key(cutter->batch, &cutter->batch->rows[cutter->last_good - 1]);
    return buffer_view(&cutter->last_key);
}

/* The code of a key relative to the previous key; false if the key is smaller. Most keys differ in
 * the first column, so the previous key need not be read. */
static inline bool cut_order(struct cutter *cutter, struct view key, order_code *ret_code)
{
    *ret_code = CODE_EQUAL;
    if (cutter->any_order)
        return true;
    order_code column = order_column(key, 0);
    order_code last_column = cutter->last_column;
    cutter->last_column = column;
    if (column == last_column)
        return order_against(cut_last_key(cutter), key, 0, ret_code);
    *ret_code = order_code_first(column);
    return column > last_column;
}

/* The fault of a time, or ROW_NONE. Nearly all times contain their zone and take the fast path. */
enum row_fault cut_local_time(const struct cutter *cutter, struct view text,
                              struct instant *ret_time);

static inline bool cut_time(const struct cutter *cutter, struct view text,
                            struct instant *ret_time, enum row_fault *ret_fault)
{
    if (__builtin_expect(instant_parse(text, ret_time), true))
        return true;
    *ret_fault = cut_local_time(cutter, text, ret_time);
    return *ret_fault == ROW_NONE;
}

/* Whether the value of a field marks a deletion: true, yes or 1; or false, no, 0 or nothing, in
 * upper or lower case. False if it is anything else. */
bool cut_deleted(struct view value, bool *ret_is_deleted);

/* Adds a row that cannot be merged. There must be room for a row. */
void cut_fault(struct cutter *cutter, struct view record, enum row_fault fault);

/* Adds a good row: computes its code, and detects a wrong order. The record is in the block. The
 * key is in the block too, unless it is `apart`; then it may be anywhere, and is copied. `time` may
 * be NULL if no time was requested. If only a time was requested, the time is the key. There must
 * be room for a row. */
static inline void cut_row(struct cutter *cutter, struct view record, struct view key,
                           bool key_is_apart, const struct instant *time)
{
    struct batch *batch = cutter->batch;
    struct row *row = &batch->rows[batch->row_count];
    if (record.size > cutter->record_bytes_max) {
        cut_fault(cutter, record, ROW_TOO_LONG);
        return;
    }
    char time_key[INSTANT_BYTES];
    if (cutter->key.count == 0) {
        instant_bytes(*time, time_key);
        key = (struct view){ time_key, INSTANT_BYTES };
        key_is_apart = true;
    }
    row->key_size = (uint32_t)key.size;
    row->key_is_apart = key_is_apart;
    if (!key_is_apart)
        row->key_at = (uint32_t)(key.data - batch->block);
    else if (!cut_key_apart(cutter, key, &row->key_at))
        return;
    if (!cut_order(cutter, batch_key(batch, row), &row->code)) {
        batch->unsorted = true;
        return;
    }
    row->at = (uint32_t)(record.data - batch->block);
    row->size = (uint32_t)record.size;
    row->fault = ROW_NONE;
    row->is_deleted = false;
    row->time = cutter->time.asked ? *time : (struct instant){ 0 };
    cutter->last_good = ++batch->row_count;
}

/* Like cut_row, for rows that are rare or slow anyway; so cut_row is inlined where it is fast. */
void cut_row_slowly(struct cutter *cutter, struct view record, struct view key,
                    bool key_is_apart, const struct instant *time, bool is_deleted);

#endif
