/* format.h: how the bytes of an input become records, keys and times. One file a format. */
#ifndef MERGE_FORMAT_H
#define MERGE_FORMAT_H

#include "merge/batch.h"
#include "merge/merge.h"

/* A field that was asked for: by number, or by name where the format has names. */
struct field {
    bool asked;
    size_t number; /* from 1; 0: by name */
    struct view name;
};

/* What makes the rows of one input. The format's functions change only what is theirs, and add
 * rows by cut_row and cut_fault alone. */
struct cutter {
    const struct format *format;
    char separator; /* csv, tsv */
    struct field key;
    struct field time;
    size_t columns; /* csv, tsv: what the header has; 0: there is none, any number will do */
    bool has_zone;  /* times that name no zone are those of one: */
    int64_t zone_east_s; /* seconds east of UTC */
    size_t record_bytes_max;
    bool any_order; /* rows are about to be sorted: no codes, no disorder */
    /* The place in the input. */
    struct batch *batch;    /* the one that is being filled */
    size_t last_good;       /* its last row without a fault, counted from 1; 0: none yet */
    order_code last_column; /* the first column of the last good key */
    struct buffer last_key; /* of the good row before this batch, with KEY_SLACK; empty: none */
    size_t wanted; /* bytes that a record which is not whole needs; 0: nobody can tell */
    /* The format's own. */
    struct buffer scratch;
};

struct format {
    /* A CR before the LF is a part of the end, and a byte order mark at the start means
     * nothing. */
    bool is_text;

    /* Cuts whole records off `bytes`, which lie in batch->block from `at` on, into rows, until
     * the bytes are used up or batch_full. `at_end`: nothing follows them, so that the
     * last record needs no end. Returns how many bytes it used: the rest begins with a record
     * that is not whole yet, or that had no room. Empty lines are used up and make no row. */
    size_t (*cut)(struct cutter *cutter, size_t at, size_t size, bool at_end);

    /* For a record that is too long to be held: `cut` found no end of it in more than
     * record_bytes_max bytes. How many of the bytes that follow those belong to it, its end
     * included; *ret_ended says whether that end is among them. */
    size_t (*skip)(struct view bytes, bool *ret_ended);

    /* The first record of an input as a header: how many bytes it takes with its end, 0 when it
     * is not whole yet. NULL for formats without one. */
    size_t (*header)(struct cutter *cutter, struct view bytes, bool at_end,
                     struct view *ret_record);

    /* Fills in cutter->columns, and the numbers of fields that were named. */
    enum hf_status (*resolve)(struct cutter *cutter, struct view header,
                              struct hf_error *error);
};

/* How many bytes a byte order mark takes at the start of a text. */
static inline size_t format_mark_size(struct view text)
{
    return view_starts_with(text, VIEW("\xef\xbb\xbf")) ? 3 : 0;
}

/* A `skip` of records that end with LF. */
size_t format_skip_line(struct view bytes, bool *ret_ended);

extern const struct format format_usv;
extern const struct format format_csv; /* tsv too: the separator tells */
extern const struct format format_ndjson;

/* Copies a key to where it can stay; false without memory. */
bool cut_key_apart(struct cutter *cutter, struct view key, uint32_t *ret_at);

static inline struct view cut_last_key(const struct cutter *cutter)
{
    if (cutter->last_good)
        return batch_key(cutter->batch, &cutter->batch->rows[cutter->last_good - 1]);
    return buffer_view(&cutter->last_key);
}

/* The code of a key against the last one; false when it is the smaller. Most keys differ in their
 * first column, which needs no look at the last key. */
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

/* What is wrong with the text of a time; ROW_NONE: nothing. One that names its zone is an instant
 * at once, which is nearly all there are. */
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

/* Adds a row that cannot be merged. There must be room for a row. */
void cut_fault(struct cutter *cutter, struct view record, enum row_fault fault);

/* Adds a good row: computes its code, notices disorder. The record lies in the block; the key
 * does too, or it is apart, anywhere, and is copied. `time` may be NULL where none is asked for.
 * With a time but no key asked for, the time is the key. There must be room for a row. */
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
    if (!cutter->key.asked) {
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
    row->time = cutter->time.asked ? *time : (struct instant){ 0 };
    cutter->last_good = ++batch->row_count;
}

/* "3" is a number, unless fields only have names; "name" is a name. */
enum hf_status field_parse(struct view text, bool by_name, struct field *ret_field,
                           struct hf_error *error);

#endif
