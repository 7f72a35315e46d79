/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: writes records as usv, csv, tsv or JSON lines, which rows.c reads back unchanged. */
#include "index/text.h"

#include "base/json.h"
#include "merge/csv.h"
#include "merge/format.h"

/* ---- Records ------------------------------------------------------------------------- */

bool text_of_header(const struct schema *schema, enum hf_index_format format, struct buffer *to)
{
    if (format != HF_INDEX_CSV && format != HF_INDEX_TSV)
        return true;
    for (size_t i = 0; i < schema->field_count; i++) {
        if (i > 0)
            buffer_append_byte(to, format_separator(format));
        buffer_append(to, view_of(schema->fields[i]));
    }
    return buffer_append_byte(to, '\n');
}

static void append_field_value(const char *name, enum hf_index_format format, struct view value,
                               struct buffer *to)
{
    if (format != HF_INDEX_NDJSON) {
        csv_write_value(to, value, format_separator(format));
        return;
    }
    json_write_string(to, view_of(name));
    buffer_append_byte(to, ':');
    json_write_string(to, value);
}

/* The record was checked before, so its escapes are valid. */
static bool append_record_fields(const struct schema *schema, enum hf_index_format format,
                                 struct view record, struct buffer *space, struct buffer *to)
{
    bool more = true;
    for (size_t i = 0; i < schema->field_count; i++) {
        buffer_clear(space);
        if (more && !field_read(space, field_cut(&record, &more)))
            return false;
        if (i > 0)
            buffer_append_byte(to, format_separator(format));
        append_field_value(schema->fields[i], format, buffer_view(space), to);
    }
    return !to->failed;
}

bool text_of_record(const struct schema *schema, enum hf_index_format format,
                    struct view record, bool first, struct buffer *space, struct buffer *to)
{
    if (format == HF_INDEX_USV) {
        /* If the first record starts with a byte order mark, a reader would skip it as the mark of
         * the file. So the mark is written twice. */
        if (first)
            buffer_append(to, view_first(record, format_mark_size(record)));
        buffer_append(to, record);
        return buffer_append(to, VIEW(RECORD_END));
    }
    bool is_json = format == HF_INDEX_NDJSON;
    if (is_json)
        buffer_append_byte(to, '{');
    if (!append_record_fields(schema, format, record, space, to))
        return false;
    return buffer_append(to, is_json ? VIEW("}\n") : VIEW("\n"));
}

/* ---- Names --------------------------------------------------------------------------- */

#define ENDS_ROW_(name, word, ends) [HF_INDEX_##name] = (ends),
static const char *const format_ends[] = { HF_INDEX_FORMAT_TABLE(ENDS_ROW_) };
#undef ENDS_ROW_

bool format_of_path(struct view path, enum hf_index_format *ret_format)
{
    for (unsigned i = 0; i < HF_INDEX_FORMAT_COUNT; i++)
        for (struct view ends = view_of(format_ends[i]); ends.size > 0;)
            if (view_ends_with(path, view_cut(&ends, ' '))) {
                *ret_format = (enum hf_index_format)i;
                return true;
            }
    return false;
}
