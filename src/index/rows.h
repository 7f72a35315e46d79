/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: reads a file of records, one row at a time, in bounded memory. The file is usv, csv or
 * tsv with a header that names the fields, or one JSON object per line. Each row becomes the bytes
 * of a record of the index.
 *
 *     rows_init(&rows, schema, format, fd);
 *     while ((status = rows_next(&rows, &error)) != HF_NOT_FOUND) {
 *         if (status == HF_OK)
 *             use rows.record
 *         else if (status == HF_INVALID && rows.go_on)
 *             report that rows.line was skipped, and why
 *         else
 *             break;
 *     }
 *     rows_release(&rows); */
#ifndef INDEX_ROWS_H
#define INDEX_ROWS_H

#include "base/limits.h"
#include "index/record.h"

#include <assert.h>

/* The longest row as written: a byte of a record takes up to six bytes in JSON. In usv a row is the
 * record itself. Longer rows are skipped without being kept in memory. */
#define ROWS_TEXT_MAX (8 * MIB)
static_assert(ROWS_TEXT_MAX > 7 * INDEX_RECORD_BYTES_MAX, "a record can be written as JSON");

/* The csv state after the last scanned byte. */
enum rows_place { ROWS_FIELD_START, ROWS_UNQUOTED, ROWS_QUOTED, ROWS_QUOTE_CLOSED };

struct rows {
    const struct schema *schema;
    enum hf_index_format format;
    int fd;                       /* owned by the caller */
    bool (*stop)(void *argument); /* called after each read; may be NULL */
    void *argument;

    uint64_t line;      /* first line of the last row read, counted from 1 ... */
    uint64_t last_line; /* ... and its last line */
    bool go_on;         /* INVALID concerns only that row */
    struct view record;
    uint64_t bytes_read; /* from the file, for progress */

    /* Bytes of the file: unused from `at` on, scanned up to `scanned`. */
    struct buffer window;
    size_t at;
    size_t scanned;
    bool ended;     /* the end of the file was reached */
    char last_byte; /* the last byte read from the file */
    uint64_t next_line;
    enum rows_place place;
    uint64_t quote_line; /* line of the last opening quote */

    bool mark_passed;    /* the byte order mark, if any, was skipped */
    bool started;        /* the header was read too */
    size_t column_count; /* csv, tsv: columns of the header, and the field of each */
    size_t columns[INDEX_FIELDS_MAX];
    struct buffer values; /* of the current row, one after another */
    struct {
        bool given;
        size_t at, size; /* in `values` */
    } fields[INDEX_FIELDS_MAX];
    struct buffer bytes; /* of the record */
};

void rows_init(struct rows *rows, const struct schema *schema, enum hf_index_format format,
               int fd);
void rows_release(struct rows *rows);

/* Reads the next row that is not empty. OK: rows->record contains it, not yet parsed, until the
 * next call. INVALID: not a record, or a faulty header, after which nothing more can be read.
 * NOT_FOUND: there are no more rows. CANCELLED: stopped by `stop`. Other errors: the file cannot be
 * read. */
enum hf_status rows_next(struct rows *rows, struct hf_error *error);

/* Whether rows_next would block, so that the caller can do other work first. */
bool rows_would_wait(const struct rows *rows);

#endif
