/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_message.h: what the library and its helper process holdfast-parquet say to each other:
 * one request in a file, one report in another. Both are lists of names and values, each ended by a
 * NUL, because a path may contain any other byte. Neither is ever stored, and both sides come from
 * the same build, so there is no version; an unknown name makes a message invalid. */
#ifndef MERGE_PARQUET_MESSAGE_H
#define MERGE_PARQUET_MESSAGE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

#define PARQUET_REQUEST_MAX ((size_t)64 << 20)
#define PARQUET_REPORT_MAX  ((size_t)64 << 10)
#define PARQUET_INPUTS_MAX  4096 /* every input is an open file of the helper */

/* A format besides those of merge.h: csv, whose columns are named 1, 2 and so on. */
#define PARQUET_CSV_HEADLESS "csv without header"

enum parquet_work {
    PARQUET_PROBE,   /* load the library, and report its version */
    PARQUET_SURVEY,  /* read every value of the first input; a second one only tells types */
    PARQUET_MERGE,   /* merge the inputs into the output */
    PARQUET_CONVERT, /* write rows of the input in the same or another format */
    PARQUET_WORK_COUNT
};

/* Texts are never NULL; "" means that there is none. */
struct parquet_request {
    uint64_t work;       /* enum parquet_work */
    const char *library; /* path of DuckDB's library; "": it is looked up by its name */
    const char *key, *time, *deleted;
    const char *from, *to; /* PARQUET_CONVERT: the formats of input and output, by name */
    /* PARQUET_CONVERT from Parquet: only rows whose key, as text, starts with the prefix, and with
     * since <= time < until, in microseconds since 1970. */
    const char *prefix, *since, *until;
    const char *output;    /* the file to write */
    const char *rejects;   /* the file for rows without a key or a time */
    const char *temporary; /* a folder for temporary files, which the helper creates */
    uint64_t memory_bytes;
    uint64_t threads;
    uint64_t temporary_bytes; /* the most to write to the folder */
    uint64_t rejects_max;
    uint64_t drops;      /* 1: deletions that win are dropped */
    uint64_t group_rows; /* rows in each row group of the output */
    const char **inputs;
    uint64_t input_count;
};

struct parquet_report {
    uint64_t status;    /* enum hf_status; the helper itself did not crash */
    const char *why;    /* without the path of the input, which `input` tells */
    uint64_t input;     /* the input that caused the failure, counted from 1; 0: unknown */
    uint64_t overload;  /* 1: it failed because it needed more memory than it may use */
    uint64_t disk_full; /* 1: it failed because the disk was full */
    uint64_t rows_in, rows_out, rows_superseded, rows_rejected;
    uint64_t rows_deleted;    /* deletions that were dropped */
    uint64_t deletions;       /* in the surveyed file, or in the output */
    uint64_t reject_first;    /* the number of the first row without a key or a time */
    const char *first, *last; /* the earliest and latest time: RFC 3339, or a number */
    const char *last_deletion;
    const char *version; /* of DuckDB */
};

/* Appends a message; false if it does not fit. */
bool parquet_request_write(const struct parquet_request *request, struct buffer *to);
bool parquet_report_write(const struct parquet_report *report, struct buffer *to);

/* Reads a message. Its texts point into `bytes`, which must outlive it. False: invalid. */
bool parquet_request_read(struct view bytes, struct arena *arena,
                          struct parquet_request *ret_request);
bool parquet_report_read(struct view bytes, struct parquet_report *ret_report);

#endif
