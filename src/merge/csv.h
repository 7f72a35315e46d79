/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h: the fields of one record of csv or tsv, for readers that find the record ends
 * themselves. */
#ifndef MERGE_CSV_H
#define MERGE_CSV_H

#include "base/buffer.h"

/* The contents of a field; if it is quoted, the text between the quotes. */
struct csv_value {
    struct view text;
    bool doubled; /* it contains doubled quotes */
};

/* Takes the first field from a record, given without its line end; *ret_more: another follows.
 * False if its quotes are wrong. The record has BLOCK_SLACK readable bytes after it. */
bool csv_take_field(struct view *record, char separator, struct csv_value *ret_value,
                    bool *ret_more);

/* Appends the value, with doubled quotes undone; false if out of memory. */
bool csv_append_value(struct buffer *to, const struct csv_value *value);

#endif
