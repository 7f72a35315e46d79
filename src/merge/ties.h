/* SPDX-License-Identifier: Apache-2.0 */
/* ties.h: which of two records with equal keys and equal times is kept: the greater one, in an
 * order that no merge changes. So merging in several steps, in any order and grouping, gives the
 * records that one merge of all files gives.
 *
 *   usv, ndjson, csv and tsv without a header: by their bytes. A merge copies them unchanged.
 *
 *   csv and tsv with a header: by their values, one column after the other, in the byte order of
 *   the columns' names. A column that a file lacks is empty. If all values are equal, a field with
 *   quotes is greater than one without, in the same order of columns.
 *
 * The bytes of a csv record would not do. A merge of files with different headers gives a record
 * more columns, or moves them, and which columns come first depends on which files were merged.
 * Files with a header that is too long to be united with others (layout.h) are compared by their
 * bytes. */
#ifndef MERGE_TIES_H
#define MERGE_TIES_H

#include "base/error.h"
#include "base/view.h"
#include "merge/budget.h"

#include <stdint.h>

struct ties {
    uint32_t
        *ranks; /* of each column, by name, from 0; NULL: records are compared by their bytes */
    size_t count;
    char separator;
    struct budget *budget; /* that the ranks are charged to */
};

/* From now on, records have the columns of this header, whose quotes are right. UNAVAILABLE: the
 * budget is too small. Zeroed ties compare bytes; release them in any case. */
enum hf_status ties_set_header(struct ties *ties, struct view header, char separator,
                               struct budget *budget, struct hf_error *error);
void ties_release(struct ties *ties);

/* Compares two records that have the columns of the header, by value. BLOCK_SLACK or at least eight
 * readable bytes follow each. */
int ties_compare_columns(const struct ties *ties, struct view a, struct view b);

/* Less than, equal to or greater than 0. Equal bytes are frequent: the same record in two files. */
static inline int ties_compare(const struct ties *ties, struct view a, struct view b)
{
    int order = view_compare(a, b);
    return order == 0 || !ties->ranks ? order : ties_compare_columns(ties, a, b);
}

#endif
