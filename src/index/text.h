/* text.h: records of an index as they are written in files: usv as they are, csv and tsv with a
 * header, JSON lines. rows.h reads them back to the same records. Pure. */
#ifndef INDEX_TEXT_H
#define INDEX_TEXT_H

#include "index/record.h"

/* One character of a value takes up to six bytes, as \u001f in JSON. */
#define INDEX_TEXT_MAX (8 * INDEX_RECORD_BYTES_MAX)

/* Appends the line of the names of the fields, where the format has one. False without memory. */
bool text_of_header(const struct schema *schema, enum hf_index_format format,
                    struct buffer *to);

/* Appends one record, and its end. Fields that it leaves out are empty. `first`: it is the first of
 * its file. `space` is for values. False without memory. */
bool text_of_record(const struct schema *schema, enum hf_index_format format,
                    struct view record, bool first, struct buffer *space, struct buffer *to);

/* By how the name of a file ends; false when that tells nothing. */
bool format_of_path(struct view path, enum hf_index_format *ret_format);

#endif
