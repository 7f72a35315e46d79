/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: writes records of an index as text: usv unchanged, csv and tsv with a header, or JSON
 * lines. rows.h reads the same records back. Pure. */
#ifndef INDEX_TEXT_H
#define INDEX_TEXT_H

#include "index/record.h"

/* One character of a value takes up to six bytes, such as \u001f in JSON. */
#define INDEX_TEXT_MAX (8 * INDEX_RECORD_BYTES_MAX)

/* The separator between csv or tsv fields. */
static inline char format_separator(enum hf_index_format format)
{
    return format == HF_INDEX_TSV ? '\t' : ',';
}

/* Appends the header line if the format has one. False if out of memory. */
bool text_of_header(const struct schema *schema, enum hf_index_format format,
                    struct buffer *to);

/* Appends one record and its terminator. Omitted fields are empty. `first`: it is the first record
 * of its file. `space` is scratch space for values. False if out of memory. */
bool text_of_record(const struct schema *schema, enum hf_index_format format,
                    struct view record, bool first, struct buffer *space, struct buffer *to);

/* The format that the file name extension implies; false if the extension is unknown. */
bool format_of_path(struct view path, enum hf_index_format *ret_format);

#endif
