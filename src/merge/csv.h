/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h: the fields of one csv or tsv record, for readers that find the ends of records themselves,
 * and for writers. */
#ifndef MERGE_CSV_H
#define MERGE_CSV_H

#include "base/buffer.h"

/* The contents of a field; if it is quoted, the text between the quotes. */
struct csv_value {
    struct view text;
    bool doubled; /* it contains doubled quotes */
};

/* Takes the first field from a record, which is given without its line end. *ret_more: another
 * field follows. False if its quotes are wrong. The record must be followed by BLOCK_SLACK readable
 * bytes. */
bool csv_take_field(struct view *record, char separator, struct csv_value *ret_value,
                    bool *ret_more);

/* A field of a record, with its quotes in `raw`. */
struct csv_field {
    struct csv_value value;
    struct view raw;
};

/* Like csv_take_field, with the quotes of the field. */
bool csv_take(struct view *record, char separator, struct csv_field *ret_field, bool *ret_more);

/* Splits a record into its fields, but no more than `most` of them: an array of struct csv_field in
 * `fields`. As for csv_take_field. False also if out of memory. */
bool csv_split(struct view record, char separator, size_t most, struct buffer *fields,
               size_t *ret_count);

/* Appends a field, with its quotes, to another record. A CR at the end of a field without quotes
 * would become part of the line end if the field came last, so such a field gets quotes. */
void csv_append_raw(struct buffer *to, struct view raw);

/* Appends the value, with each doubled quote replaced by one quote; false if out of memory. */
bool csv_append_value(struct buffer *to, const struct csv_value *value);

/* Appends a value as a field, quoted if RFC 4180 requires it. If memory runs out, the buffer
 * records it. */
void csv_write_value(struct buffer *to, struct view value, char separator);

#endif
