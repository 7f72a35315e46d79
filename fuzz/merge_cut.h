/* SPDX-License-Identifier: Apache-2.0 */
/* merge_cut.h: checks that hold for the record cutter of every format, regardless of the bytes. */
#ifndef FUZZ_MERGE_CUT_H
#define FUZZ_MERGE_CUT_H

#include "merge/format.h"

#define CUT_ROWS_MAX 4096 /* an input is cut to as many bytes */

struct kept_row {
    size_t at;
    size_t size;
    enum row_fault fault;
    struct view key; /* without a fault */
    struct instant time;
};

struct cut_setup {
    const struct format *format;
    char separator;
    struct field key;
    struct field time;
    size_t columns;
    /* Whether these bytes may come between two rows, before the first, or after the last: the
     * end of a row, and empty lines. */
    bool (*gap_is_fine)(struct view gap, bool row_before, bool at_end);
    /* Whether these bytes are the end of one record. */
    bool (*is_end)(struct view bytes);
    /* Checks one row against the contents of its record. */
    void (*row_holds)(const struct cut_setup *setup, struct view record,
                      const struct kept_row *row);
};

/* Cuts the bytes as a whole and in pieces of 1 + `step` bytes, with different bytes behind them
 * and with room for few rows: it gives the same rows, each byte is in one row or in a gap, skip
 * ends the last line of a row where the row ends, and each row holds. */
void cut_holds(const struct cut_setup *setup, struct view input, size_t step);

/* How many CRs the bytes start with. */
size_t leading_returns(struct view bytes);

/* LF, with any CRs before it: an is_end. */
bool is_line_end(struct view bytes);

#endif
