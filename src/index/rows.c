/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: reads the rows of a file as records of an index, one at a time, in bounded memory. If a
 * row is malformed, only that row is refused; the rows after it are still read. */
#include "index/rows.h"

#include "index/text.h"
#include "merge/csv.h"
#include "merge/format.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#define READ_PIECE (256 * KIB)
#define RS         '\x1e'

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

void rows_init(struct rows *rows, const struct schema *schema, enum hf_index_format format,
               int fd)
{
    *rows = (struct rows){
        .schema = schema,
        .format = format,
        .fd = fd,
        .window = BUFFER_INIT(ROWS_TEXT_MAX + 2 * READ_PIECE),
        .values = BUFFER_INIT(ROWS_TEXT_MAX),
        .bytes = BUFFER_INIT(2 * ROWS_TEXT_MAX),
        .next_line = 1,
    };
}

void rows_release(struct rows *rows)
{
    buffer_release(&rows->window);
    buffer_release(&rows->values);
    buffer_release(&rows->bytes);
}

static bool has_header(const struct rows *rows)
{
    return rows->format == HF_INDEX_CSV || rows->format == HF_INDEX_TSV;
}

/* ---- Bytes --------------------------------------------------------------------------- */

/* Reads more bytes after the existing ones. The space of consumed bytes is reused. */
static enum hf_status fill_window(struct rows *rows, struct hf_error *error)
{
    ssize_t got;
    size_t left = rows->window.size - rows->at;
    if (rows->at > 0)
        memmove(rows->window.data, rows->window.data + rows->at, left);
    rows->window.size = left;
    rows->scanned -= rows->at;
    rows->at = 0;
    if (!buffer_reserve(&rows->window, READ_PIECE + BLOCK_SLACK))
        return error_no_memory(error);
    do {
        got = read(rows->fd, rows->window.data + rows->window.size, READ_PIECE);
        if (rows->stop && rows->stop(rows->argument))
            return error_set(error, HF_CANCELLED, "stopped by the caller");
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_from_errno(error, errno, "read the rows");
    rows->ended = got == 0;
    rows->window.size += (size_t)got;
    if (got > 0)
        rows->last_byte = rows->window.data[rows->window.size - 1];
    rows->bytes_read += (size_t)got;
    return HF_OK;
}

/* ---- Where rows end ------------------------------------------------------------------ */

/* The state after one more byte of csv (RFC 4180): a quote opens a quoted part only at the start of
 * a field, and the next quote that is not doubled closes it. Malformed text continues as
 * unquoted. */
static enum rows_place next_place(enum rows_place place, char byte, char separator)
{
    if (place == ROWS_QUOTED)
        return byte == '"' ? ROWS_QUOTE_CLOSED : ROWS_QUOTED;
    if (byte == separator)
        return ROWS_FIELD_START;
    if (byte == '"' && place != ROWS_UNQUOTED)
        return ROWS_QUOTED; /* an opening quote, or the second quote of a doubled one */
    return ROWS_UNQUOTED;
}

/* Searches for the end of the row. True: rows->scanned has reached it. */
static bool find_end(struct rows *rows)
{
    const char separator = format_separator(rows->format);
    for (; rows->scanned < rows->window.size; rows->scanned++) {
        char byte = rows->window.data[rows->scanned];
        enum rows_place before = rows->place;
        if (byte == '\n' && before != ROWS_QUOTED)
            return true;
        if (rows->format == HF_INDEX_USV && byte == RS)
            return true;
        if (has_header(rows))
            rows->place = next_place(before, byte, separator);
        if (before == ROWS_FIELD_START && rows->place == ROWS_QUOTED)
            rows->quote_line = rows->next_line;
        rows->next_line += byte == '\n';
    }
    return false;
}

static size_t row_bytes_max(const struct rows *rows)
{
    return rows->format == HF_INDEX_USV ? INDEX_RECORD_BYTES_MAX : ROWS_TEXT_MAX;
}

/* Skips a byte order mark at the start of the file, once enough bytes were read to recognise it. */
static void pass_mark(struct rows *rows)
{
    struct view start = buffer_view(&rows->window);
    bool may_come = start.size < sizeof BYTE_ORDER_MARK - 1 &&
                    view_starts_with(VIEW(BYTE_ORDER_MARK), start);
    if (may_come && !rows->ended)
        return;
    rows->at = rows->scanned = format_mark_size(start);
    rows->mark_passed = true;
}

/* The text of a row. */
struct row_text {
    struct view text; /* without its terminator; valid in the window until the next call */
    bool too_long;    /* the row was not kept in memory */
    bool open;        /* the file ended within quotes */
};

/* Reads until the window contains the end of the next row, or the end of the file. */
static enum hf_status read_to_end(struct rows *rows, bool *ret_too_long, struct hf_error *error)
{
    while (!(rows->mark_passed && find_end(rows)) && !rows->ended) {
        if (rows->scanned - rows->at > row_bytes_max(rows)) {
            *ret_too_long = true;
            rows->at = rows->scanned;
        }
        enum hf_status status = fill_window(rows, error);
        if (status != HF_OK)
            return status;
        if (!rows->mark_passed)
            pass_mark(rows);
    }
    return HF_OK;
}

/* NOT_FOUND at the end of the file. */
static enum hf_status cut_row_off(struct rows *rows, struct row_text *ret_row,
                                  struct hf_error *error)
{
    struct row_text row = { .too_long = false };
    rows->line = rows->next_line;
    enum hf_status status = read_to_end(rows, &row.too_long, error);
    if (status != HF_OK)
        return status;
    bool at_end = rows->ended && rows->scanned == rows->window.size;
    row.text = (struct view){ rows->window.data + rows->at, rows->scanned - rows->at };
    row.too_long = row.too_long || row.text.size > row_bytes_max(rows);
    row.open = at_end && rows->place == ROWS_QUOTED;
    if (at_end && row.text.size == 0 && !row.too_long)
        return HF_NOT_FOUND;
    rows->last_line = rows->next_line - (row.open && rows->last_byte == '\n');
    if (rows->scanned < rows->window.size)
        rows->next_line += rows->window.data[rows->scanned++] == '\n';
    rows->at = rows->scanned;
    rows->place = ROWS_FIELD_START;
    *ret_row = row;
    return HF_OK;
}

/* ---- Values -------------------------------------------------------------------------- */

static enum hf_status no_room(struct rows *rows, struct hf_error *error)
{
    rows->go_on = true;
    return error_set(error, HF_INVALID, "it is too long, or there is not enough memory for it");
}

/* Records that the bytes in `values`, from `at` on, are the value of a field. */
static enum hf_status take_value(struct rows *rows, size_t field, size_t at,
                                 struct hf_error *error)
{
    if (rows->values.failed)
        return no_room(rows, error);
    if (rows->fields[field].given)
        return error_set(error, HF_INVALID, "the field '%s' occurs twice",
                         rows->schema->fields[field]);
    rows->fields[field].given = true;
    rows->fields[field].at = at;
    rows->fields[field].size = rows->values.size - at;
    return HF_OK;
}

/* Builds the record from the values. Fields after the last field with a value are omitted. */
static enum hf_status build_record(struct rows *rows, struct hf_error *error)
{
    struct view values[INDEX_FIELDS_MAX];
    struct view all = buffer_view(&rows->values);
    size_t count = 0;
    for (size_t i = 0; i < rows->schema->field_count; i++) {
        values[i] = VIEW("");
        if (!rows->fields[i].given)
            continue;
        values[i] = view_first(view_from(all, rows->fields[i].at), rows->fields[i].size);
        count = i + 1;
    }
    buffer_clear(&rows->bytes);
    if (!record_write(&rows->bytes, values, count))
        return no_room(rows, error);
    rows->record = buffer_view(&rows->bytes);
    return HF_OK;
}

/* ---- csv and tsv --------------------------------------------------------------------- */

static enum hf_status wrong_quotes(struct hf_error *error)
{
    return error_set(error, HF_INVALID,
                     "it has a misplaced quote: a field that contains quotes must be quoted, "
                     "and each quote in it doubled");
}

static bool has_column(const struct rows *rows, size_t field)
{
    for (size_t i = 0; i < rows->column_count; i++)
        if (rows->columns[i] == field)
            return true;
    return false;
}

/* Records which field the next column contains. */
static enum hf_status take_column(struct rows *rows, struct view name, struct hf_error *error)
{
    size_t field;
    enum hf_status status = schema_pick(rows->schema, name, &field, error);
    if (status != HF_OK)
        return status;
    if (rows->column_count == INDEX_FIELDS_MAX)
        return error_set(error, HF_INVALID,
                         "it has more columns than an index can have fields");
    if (has_column(rows, field))
        return error_set(error, HF_INVALID, "the column '%s' occurs twice",
                         rows->schema->fields[field]);
    rows->columns[rows->column_count++] = field;
    return HF_OK;
}

static enum hf_status read_columns(struct rows *rows, struct view text, struct hf_error *error)
{
    const struct schema *schema = rows->schema;
    bool more = true;
    while (more) {
        struct csv_value name;
        buffer_clear(&rows->values);
        if (!csv_take_field(&text, format_separator(rows->format), &name, &more))
            return wrong_quotes(error);
        if (!csv_append_value(&rows->values, &name))
            return error_no_memory(error);
        enum hf_status status = take_column(rows, buffer_view(&rows->values), error);
        if (status != HF_OK)
            return status;
    }
    const size_t needed[] = { schema->key, schema->time };
    for (size_t i = 0; i < 2; i++)
        if (!has_column(rows, needed[i]))
            return error_set(error, HF_INVALID, "the column '%s', which is the %s, is missing",
                             schema->fields[needed[i]], i == 0 ? "key" : "time");
    return HF_OK;
}

static enum hf_status read_csv(struct rows *rows, struct view text, struct hf_error *error)
{
    size_t count = 0;
    for (bool more = true; more; count++) {
        struct csv_value value;
        size_t at = rows->values.size;
        if (!csv_take_field(&text, format_separator(rows->format), &value, &more))
            return wrong_quotes(error);
        if (count >= rows->column_count)
            continue;
        csv_append_value(&rows->values, &value);
        enum hf_status status = take_value(rows, rows->columns[count], at, error);
        if (status != HF_OK)
            return status;
    }
    if (count != rows->column_count)
        return error_set(error, HF_INVALID, "it has %zu field%s, but the header has %zu", count,
                         count == 1 ? "" : "s", rows->column_count);
    return build_record(rows, error);
}

/* ---- ndjson -------------------------------------------------------------------------- */

/* Appends a member as a field; null is an empty value. Returns the fault, or NULL. */
static const char *append_member(struct rows *rows, const struct json_text *value)
{
    if (value->kind == JSON_KIND_OBJECT || value->kind == JSON_KIND_ARRAY)
        return "is an object or an array, which a field cannot contain";
    if (value->escaped) {
        bool whole = json_unescape(value->text, &rows->values) || rows->values.failed;
        return whole ? NULL : "contains half of a surrogate pair";
    }
    if (value->kind != JSON_KIND_NULL)
        buffer_append(&rows->values, value->text);
    return NULL;
}

/* The field for a member. Its name is kept temporarily after the values. */
static enum hf_status find_member_field(struct rows *rows, const struct json_text *name,
                                        size_t *ret_field, struct hf_error *error)
{
    if (!name->escaped)
        return schema_pick(rows->schema, name->text, ret_field, error);
    size_t at = rows->values.size;
    if (!json_unescape(name->text, &rows->values))
        return error_set(error, HF_INVALID,
                         "the name of a member contains half of a surrogate pair");
    enum hf_status status =
        schema_pick(rows->schema, view_from(buffer_view(&rows->values), at), ret_field, error);
    rows->values.size = at;
    return status;
}

static enum hf_status read_member_value(struct rows *rows, const struct json_text *name,
                                        const struct json_text *value, struct hf_error *error)
{
    size_t field, at = rows->values.size;
    enum hf_status status = find_member_field(rows, name, &field, error);
    if (status != HF_OK)
        return status;
    const char *fault = append_member(rows, value);
    if (fault)
        return error_set(error, HF_INVALID, "its member '%s' %s", rows->schema->fields[field],
                         fault);
    return take_value(rows, field, at, error);
}

static enum hf_status read_json(struct rows *rows, struct view text, struct hf_error *error)
{
    struct json_reader reader = json_read_data(text);
    struct json_text name, value;
    json_enter_object(&reader);
    while (json_next_pair(&reader, &name, &value)) {
        enum hf_status status = read_member_value(rows, &name, &value, error);
        if (status != HF_OK)
            return status;
    }
    if (!json_end(&reader))
        return error_set(error, HF_INVALID, "it %s",
                         row_fault_text(row_fault_of_json(reader.fault)));
    return build_record(rows, error);
}

/* ---- Rows ---------------------------------------------------------------------------- */

/* Reports why the text cannot be parsed, if it cannot. */
static enum hf_status check_row_text(const struct rows *rows, const struct row_text *row,
                                     struct hf_error *error)
{
    if (row->open && rows->line == rows->last_line)
        return error_set(error, HF_INVALID,
                         "a quote opened in it is never closed; the line is skipped");
    if (row->open)
        return error_set(error, HF_INVALID,
                         "a quote opened in line %" PRIu64 " is never closed; lines %" PRIu64
                         " to %" PRIu64 " are skipped",
                         rows->quote_line, rows->line, rows->last_line);
    if (row->too_long)
        return error_set(error, HF_INVALID, "it exceeds the maximum record size of %zu bytes",
                         INDEX_RECORD_BYTES_MAX);
    return HF_OK;
}

static enum hf_status read_row(struct rows *rows, const struct row_text *row,
                               struct hf_error *error)
{
    enum hf_status status = check_row_text(rows, row, error);
    rows->go_on = true;
    if (status != HF_OK)
        return status;
    buffer_clear(&rows->values);
    for (size_t i = 0; i < rows->schema->field_count; i++)
        rows->fields[i].given = false;
    if (has_header(rows))
        return read_csv(rows, row->text, error);
    if (rows->format == HF_INDEX_NDJSON)
        return read_json(rows, row->text, error);
    rows->record = row->text;
    return HF_OK;
}

enum hf_status rows_next(struct rows *rows, struct hf_error *error)
{
    struct row_text row;
    rows->go_on = false;
    for (;;) {
        enum hf_status status = cut_row_off(rows, &row, error);
        if (status != HF_OK)
            return status;
        struct view *text = &row.text;
        if (rows->format != HF_INDEX_USV && text->size > 0 &&
            text->data[text->size - 1] == '\r')
            text->size--; /* the CR of a CRLF */
        if (row.text.size == 0 && !row.too_long)
            continue;
        bool is_header = !rows->started && has_header(rows);
        rows->started = true;
        if (!is_header)
            return read_row(rows, &row, error);
        /* The header names the fields, so nothing can be read after a faulty header. */
        status = check_row_text(rows, &row, error);
        if (status == HF_OK)
            status = read_columns(rows, row.text, error);
        if (status != HF_OK) {
            error_prefix(error, "the header");
            return status;
        }
    }
}

bool rows_would_wait(const struct rows *rows)
{
    struct pollfd more = { .fd = rows->fd, .events = POLLIN };
    return !rows->ended && rows->at == rows->window.size && poll(&more, 1, 0) == 0;
}
