/* index_show.c: records as usv, csv, tsv, JSON lines, or for people. */
#include "cli/index_show.h"

#include "merge/format.h"

/* One character of a value takes up to six bytes, as \u001f in JSON. */
#define SHOW_TEXT_MAX (8 * INDEX_RECORD_BYTES_MAX)

/* The output takes so much at once. */
#define PIECE (1 * MIB)

void index_show_init(struct index_show *show, const struct schema *schema,
                     enum rows_format format, struct output *out)
{
    *show = (struct index_show){
        .schema = *schema,
        .format = format,
        .out = out,
        .value = BUFFER_INIT(SHOW_TEXT_MAX),
        .text = BUFFER_INIT(SHOW_TEXT_MAX),
    };
}

void index_show_release(struct index_show *show)
{
    buffer_release(&show->value);
    buffer_release(&show->text);
}

static void write_pieces(struct output *out, struct view bytes)
{
    for (; bytes.size > 0; bytes = view_from(bytes, PIECE))
        output_bytes(out, view_first(bytes, PIECE));
}

/* ---- Values -------------------------------------------------------------------------- */

/* In quotes when it has to be: RFC 4180. */
static void append_csv(struct buffer *to, struct view value, char separator)
{
    bool plain = true;
    for (size_t i = 0; i < value.size && plain; i++)
        plain = value.data[i] != separator && !strchr("\"\r\n", value.data[i]);
    if (plain) {
        buffer_append(to, value);
        return;
    }
    buffer_append_byte(to, '"');
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] == '"')
            buffer_append_byte(to, '"');
        buffer_append_byte(to, value.data[i]);
    }
    buffer_append_byte(to, '"');
}

static void append_json_byte(struct buffer *to, char byte)
{
    switch (byte) {
    case '"': buffer_append(to, VIEW("\\\"")); return;
    case '\\': buffer_append(to, VIEW("\\\\")); return;
    case '\n': buffer_append(to, VIEW("\\n")); return;
    case '\r': buffer_append(to, VIEW("\\r")); return;
    case '\t': buffer_append(to, VIEW("\\t")); return;
    default: buffer_print(to, "\\u%04x", (unsigned char)byte); return;
    }
}

static bool is_plain_json(char byte)
{
    return (unsigned char)byte >= ' ' && byte != '"' && byte != '\\';
}

/* Values are UTF-8, which JSON takes as it is. */
static void append_json(struct buffer *to, struct view value)
{
    buffer_append_byte(to, '"');
    while (value.size > 0) {
        size_t plain = 0;
        while (plain < value.size && is_plain_json(value.data[plain]))
            plain++;
        buffer_append(to, view_first(value, plain));
        if (plain < value.size)
            append_json_byte(to, value.data[plain++]);
        value = view_from(value, plain);
    }
    buffer_append_byte(to, '"');
}

/* ---- Records ------------------------------------------------------------------------- */

static void append_value(struct index_show *show, size_t field, struct view value)
{
    struct buffer *to = &show->text;
    const char *name = show->schema.fields[field];
    switch (show->format) {
    case ROWS_USV: break;
    case ROWS_CSV:
    case ROWS_TSV: append_csv(to, value, show->format == ROWS_CSV ? ',' : '\t'); break;
    case ROWS_NDJSON:
        append_json(to, view_of(name));
        buffer_append_byte(to, ':');
        append_json(to, value);
        break;
    case ROWS_PLAIN: escape_append(to, value); break;
    }
}

static char between(enum rows_format format)
{
    return format == ROWS_CSV || format == ROWS_NDJSON ? ',' : '\t';
}

void index_show_header(struct index_show *show)
{
    if (show->format != ROWS_CSV && show->format != ROWS_TSV)
        return;
    const char separator = between(show->format);
    for (size_t i = 0; i < show->schema.field_count; i++) {
        output_bytes(show->out, (struct view){ &separator, i > 0 });
        output_text(show->out, show->schema.fields[i]);
    }
    output_text(show->out, "\n");
}

static bool append_fields(struct index_show *show, struct view bytes)
{
    bool more = true, good = true;
    for (size_t i = 0; i < show->schema.field_count && good; i++) {
        buffer_clear(&show->value);
        if (more)
            good = field_read(&show->value, field_cut(&bytes, &more));
        if (i > 0)
            buffer_append_byte(&show->text, between(show->format));
        append_value(show, i, buffer_view(&show->value));
    }
    return good && !show->text.failed;
}

enum hf_status index_show_record(struct index_show *show, struct view bytes,
                                 struct hf_error *error)
{
    if (show->format == ROWS_USV) {
        if (!show->began) /* whoever reads it takes one mark for that of the file */
            output_bytes(show->out, view_first(bytes, format_mark_size(bytes)));
        show->began = true;
        write_pieces(show->out, bytes);
        output_text(show->out, RECORD_END);
        return HF_OK;
    }
    bool is_json = show->format == ROWS_NDJSON;
    buffer_clear(&show->text);
    if (is_json)
        buffer_append_byte(&show->text, '{');
    if (!append_fields(show, bytes))
        return error_no_memory(error); /* the record was read before: its escapes are right */
    buffer_append(&show->text, is_json ? VIEW("}\n") : VIEW("\n"));
    write_pieces(show->out, buffer_view(&show->text));
    return HF_OK;
}
