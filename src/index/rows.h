/* rows.h: a file of records, read one row at a time in bounded memory: usv, csv or tsv with a
 * header that names the fields, or one JSON object a line. Whatever it is, each row becomes the
 * bytes of a record of the index.
 *
 *     rows_init(&rows, schema, format, fd);
 *     while ((status = rows_next(&rows, &error)) != HF_NOT_FOUND) {
 *         if (status == HF_OK)
 *             use rows.record
 *         else if (status == HF_INVALID && rows.go_on)
 *             say that rows.line was passed over, and why
 *         else
 *             break;
 *     }
 *     rows_release(&rows); */
#ifndef INDEX_ROWS_H
#define INDEX_ROWS_H

#include "base/limits.h"
#include "index/record.h"

#include <assert.h>

/* How long a row may be as it is written: what takes a byte in a record takes up to six in JSON. In
 * usv it is the record. What is longer is passed over without being held. */
#define ROWS_TEXT_MAX (8 * MIB)
static_assert(ROWS_TEXT_MAX > 7 * INDEX_RECORD_BYTES_MAX, "a record can be written as JSON");

/* Where in a csv record the bytes are that were looked at last. */
enum rows_place { ROWS_FIELD_START, ROWS_UNQUOTED, ROWS_QUOTED, ROWS_QUOTE_CLOSED };

struct rows {
    const struct schema *schema;
    enum hf_index_format format;
    int fd;                       /* stays the caller's */
    bool (*stop)(void *argument); /* asked after each read; may be NULL */
    void *argument;

    uint64_t line;      /* on which the row began that was read last, counted from 1 ... */
    uint64_t last_line; /* ... and on which it ended */
    bool go_on;         /* INVALID was about that row alone */
    struct view record;
    uint64_t bytes_read; /* of the file, for progress */

    /* Bytes of the file: from `at` on not used yet, up to `scanned` looked at. */
    struct buffer window;
    size_t at;
    size_t scanned;
    bool ended;     /* the file is */
    char last_byte; /* that was read of it */
    uint64_t next_line;
    enum rows_place place;
    uint64_t quote_line; /* on which a quote opened last */

    bool mark_passed;    /* what may stand before all rows is behind us */
    bool started;        /* the header is, too */
    size_t column_count; /* csv, tsv: of the header, and the field that each column is */
    size_t columns[INDEX_FIELDS_MAX];
    struct buffer values; /* of the present row, one behind the other */
    struct {
        bool given;
        size_t at, size; /* in `values` */
    } fields[INDEX_FIELDS_MAX];
    struct buffer bytes; /* of the record */
};

void rows_init(struct rows *rows, const struct schema *schema, enum hf_index_format format,
               int fd);
void rows_release(struct rows *rows);

/* The next row that is not empty: OK, and it is the record of rows->record until the next call, not
 * judged yet. INVALID: it is none, or the header is wrong, and then nothing more can be read.
 * NOT_FOUND: there are no more. CANCELLED by `stop`; others when the file cannot be read. */
enum hf_status rows_next(struct rows *rows, struct hf_error *error);

/* Whether rows_next would wait for somebody to write more: time to do what else there is. */
bool rows_would_wait(const struct rows *rows);

#endif
