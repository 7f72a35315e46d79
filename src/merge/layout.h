/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: csv and tsv files whose headers differ. The output has the columns of all of them, each
 * once, in the order in which they first appear. A file whose columns are those of the output is
 * copied; the records of any other file are rewritten, with nothing in the columns that it lacks.
 *
 * The key and the time are found by name in each file. If they are given by number, the header must
 * have the same name there in each file, since the output is read by the same number.
 *
 * Everything here is charged to the budget of the merge. */
#ifndef MERGE_LAYOUT_H
#define MERGE_LAYOUT_H

#include "base/arena.h"
#include "merge/budget.h"
#include "merge/format.h"

#define LAYOUTS_MAX      1000      /* different headers */
#define LAYOUT_NAMES_MAX 100000    /* columns of the output */
#define HEADER_BYTES_MAX (1 * MIB) /* a header, with the empty lines before it */

/* The layout of the files with one header. */
struct layout {
    struct view header;
    struct cutter cutter; /* its fields are those of this header */
    struct column_map map;
    uint32_t *to; /* for each column, its place in the output, from 0 */
    uint64_t hash;
};

struct layouts {
    struct arena arena;
    struct budget *budget;
    size_t charged;
    struct layout *items[LAYOUTS_MAX];
    size_t count;
    struct buffer names;  /* the columns of the output: struct layout_name */
    uint32_t *slots;      /* a hash table of them */
    struct buffer header; /* of the output */
};

void layouts_init(struct layouts *layouts, struct budget *budget);
void layouts_release(struct layouts *layouts);

/* Adds a header that starts a file; `like` contains the requested fields, not resolved. INVALID if
 * a name occurs twice, the key or time is missing or has another name at its number, or one of the
 * limits above is exceeded. UNAVAILABLE if the budget is too small. */
enum hf_status layouts_add(struct layouts *layouts, const struct cutter *like,
                           struct view header, const struct layout **ret_layout,
                           struct hf_error *error);

/* After the last header: determines the header of the output, and how records are rewritten. */
enum hf_status layouts_end(struct layouts *layouts, struct hf_error *error);

#endif
