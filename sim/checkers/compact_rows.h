/* SPDX-License-Identifier: Apache-2.0 */
/* compact_rows.h: the rows in the chunks of workload `compact`. A row is text with a key, a time,
 * and a number. Each row's number is greater than the numbers of all earlier rows. In seeds with
 * deletions, the row with the latest time wins, and some rows are deletion markers. */
#ifndef SIM_CHECKERS_COMPACT_ROWS_H
#define SIM_CHECKERS_COMPACT_ROWS_H

#include "base/view.h"

#include <stdint.h>

#define ROW_KEYS  8    /* keys are 0 to ROW_KEYS - 1 */
#define ROW_MAX   4096 /* numbers are 1 to ROW_MAX - 1 */
#define ROW_BYTES 24   /* "KK,NNNNNN,MMMMMMMMMMMMM\n" */

struct row {
    unsigned key;
    unsigned number;
    int64_t ms;
};

/* The number of rows in these bytes, if they are rows. */
static inline size_t rows_in(struct view bytes)
{
    return bytes.size / ROW_BYTES;
}

/* Returns false if the bytes are not rows. `rows` has room for rows_in. */
bool rows_read(struct view bytes, struct row *rows);

/* `bytes` has room for count * ROW_BYTES, and a NUL. */
void rows_write(const struct row *rows, size_t count, char *bytes);

/* Sorts by key, then by time if `by_time`, then by number. */
void rows_sort(struct row *rows, size_t count, bool by_time);

/* Keeps only the last row of each key; the rows must be sorted. Returns how many rows are left. */
size_t rows_latest(struct row *rows, size_t count);

/* In seeds with deletions: whether a row is a deletion marker, and removes all of them. Returns how
 * many rows are left. */
static inline bool row_is_marker(const struct row *row)
{
    return row->number % 4 == 0;
}
size_t rows_without_markers(struct row *rows, size_t count);

#endif
