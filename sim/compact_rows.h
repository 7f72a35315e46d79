/* compact_rows.h: what the chunks of workload `compact` are made of: rows of text, each of one
 * key, with a number that no other row has and that is greater than those of all rows made before,
 * and a time. */
#ifndef SIM_COMPACT_ROWS_H
#define SIM_COMPACT_ROWS_H

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

/* How many rows there are in so many bytes, if they are rows. */
static inline size_t rows_in(struct view bytes)
{
    return bytes.size / ROW_BYTES;
}

/* False when the bytes are anything but rows. `rows` has room for rows_in. */
bool rows_read(struct view bytes, struct row *rows);

/* `bytes` has room for count * ROW_BYTES, and a NUL. */
void rows_write(const struct row *rows, size_t count, char *bytes);

/* By key, then by number. */
void rows_sort(struct row *rows, size_t count);

/* Of each key only the row with the highest number stays, of sorted rows; returns how many. */
size_t rows_latest(struct row *rows, size_t count);

#endif
