/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_footer.h: reads the footer of a Parquet file, which says how many rows the file has.
 *
 * DuckDB reads and writes the rows, in a process of its own. What it reports is checked against the
 * footers of the inputs and of the output, which are read here, by other code. A footer comes from
 * strangers: every length is checked, and nesting and size are limited.
 *
 *   INVALID   not a Parquet file, an encrypted one, one with a footer that is too large, or one
 *             with two columns of the same name (in upper or lower case), which DuckDB would rename
 *   CORRUPT   it starts like a Parquet file, but its end is missing or damaged */
#ifndef MERGE_PARQUET_FOOTER_H
#define MERGE_PARQUET_FOOTER_H

#include "base/error.h"
#include "base/view.h"

#include <stdint.h>

#define PARQUET_FOOTER_MAX ((size_t)64 << 20)

struct parquet_footer {
    uint64_t rows;    /* of all row groups together, and also in the file's own count */
    uint64_t columns; /* of the top level */
    uint64_t row_groups;
    uint64_t bytes; /* of the row groups when decompressed, as the writer recorded it */
    uint64_t group_bytes_max; /* of the largest row group */
};

/* Reads the footer of an open file. */
enum hf_status parquet_footer_read(int fd, struct parquet_footer *ret_footer,
                                   struct hf_error *error);

/* The same for a file given by its path. The error calls it `name`. */
enum hf_status parquet_footer_of(const char *path, const char *name,
                                 struct parquet_footer *ret_footer, struct hf_error *error);

/* Parses a footer without its length and magic bytes. Pure. */
enum hf_status parquet_footer_parse(struct view bytes, struct parquet_footer *ret_footer,
                                    struct hf_error *error);

#endif
