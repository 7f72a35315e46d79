/* SPDX-License-Identifier: Apache-2.0 */
/* grid.h: records as rows in aligned columns, and lists of records on stdout. */
#ifndef CLI_OUTPUT_GRID_H
#define CLI_OUTPUT_GRID_H

#include "cli/cli.h"
#include "cli/output/record.h"

#define GRID_COLUMNS_MAX 9
#define GRID_ROWS_MAX    1000

/* Rows of cells, aligned when they are written. Record texts are escaped, so a name can neither
 * send control bytes to a terminal nor shift a column. */
struct grid {
    size_t columns;
    struct view titles[GRID_COLUMNS_MAX];
    size_t count;
    size_t widths[GRID_COLUMNS_MAX];
    struct arena arena;
    struct view *cells; /* GRID_ROWS_MAX times `columns` */
    bool failed;        /* out of memory */
};

/* `titles` are separated by tabs. Returns false if memory is exhausted. */
bool grid_init(struct grid *grid, const char *titles);
void grid_release(struct grid *grid);

/* Adds a row. `row` is the record's text (record.h) with tabs between cells. */
void grid_add(struct grid *grid, const struct field *record, const void *value,
              const char *row);

/* Appends one row, or the titles, as a line without a newline. */
#define GRID_TITLES SIZE_MAX
void grid_append_row(const struct grid *grid, struct buffer *line, size_t row);

/* Drops all rows. */
void grid_clear(struct grid *grid);

/* A list that is written to stdout piece by piece, as lines of JSON or as rows below titles. */
struct listing {
    struct cli *cli;
    const char *row;
    bool titled;
    enum hf_status status;  /* of the writes */
    struct hf_error damage; /* for the first item that could not be read; already printed */
    struct grid grid;
};

enum hf_status listing_begin(struct listing *listing, struct cli *cli, const char *titles,
                             const char *row);
bool listing_add_record(struct listing *listing, const struct field *record, const void *value);

/* Prints the error of a damaged item; the listing continues. It is an hf_each_damaged callback. */
void listing_damaged(void *listing, const char *what, const struct hf_error *why);

/* Writes the remaining rows and frees the listing. Returns the first failure among `status` with
 * `error`, the status of the writes, and the error of the first damaged item. */
enum hf_status listing_end(struct listing *listing, enum hf_status status,
                           struct hf_error *error);

#endif
