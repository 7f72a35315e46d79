/* SPDX-License-Identifier: Apache-2.0 */
/* compact_rows.c: parses, writes and sorts the rows of text that the chunks of workload
 * `compact` contain. */
#include "sim/checkers/compact_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Parses this many digits and the character after them. */
static bool read_digits(const char **at, unsigned digits, char end, int64_t *ret_number)
{
    int64_t number = 0;
    for (unsigned i = 0; i < digits; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        number = 10 * number + (**at - '0');
    }
    *ret_number = number;
    return *(*at)++ == end;
}

static bool read_row(const char *at, struct row *row)
{
    int64_t key, number;
    if (!read_digits(&at, 2, ',', &key) || !read_digits(&at, 6, ',', &number) ||
        !read_digits(&at, 13, '\n', &row->ms))
        return false;
    row->key = (unsigned)key;
    row->number = (unsigned)number;
    return key < ROW_KEYS && number > 0 && number < ROW_MAX;
}

bool rows_read(struct view bytes, struct row *rows)
{
    if (bytes.size % ROW_BYTES != 0)
        return false;
    for (size_t i = 0; i < rows_in(bytes); i++)
        if (!read_row(bytes.data + i * ROW_BYTES, &rows[i]))
            return false;
    return true;
}

void rows_write(const struct row *rows, size_t count, char *bytes)
{
    for (size_t i = 0; i < count; i++)
        snprintf(bytes + i * ROW_BYTES, ROW_BYTES + 1, "%02u,%06u,%013" PRId64 "\n",
                 rows[i].key % 100, rows[i].number % 1000000, rows[i].ms);
}

static int compare_times(const void *a, const void *b)
{
    const struct row *one = a, *two = b;
    if (one->key != two->key)
        return one->key < two->key ? -1 : 1;
    if (one->ms != two->ms)
        return one->ms < two->ms ? -1 : 1;
    return one->number < two->number ? -1 : one->number > two->number;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *one = a, *two = b;
    if (one->key != two->key)
        return one->key < two->key ? -1 : 1;
    return one->number < two->number ? -1 : one->number > two->number;
}

void rows_sort(struct row *rows, size_t count, bool by_time)
{
    qsort(rows, count, sizeof *rows, by_time ? compare_times : compare_rows);
}

size_t rows_without_markers(struct row *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!row_is_marker(&rows[i]))
            rows[kept++] = rows[i];
    return kept;
}

size_t rows_latest(struct row *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || rows[i + 1].key != rows[i].key)
            rows[kept++] = rows[i];
    return kept;
}
