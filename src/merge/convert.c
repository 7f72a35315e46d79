/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c: selects records of one file and writes them in another format. A value that cannot be
 * written exactly ends the conversion; it is never changed in silence. */
#include "merge/convert.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/map.h"
#include "base/utf8.h"
#include "merge/csv.h"
#include "merge/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define US '\x1f'
#define RS '\x1e'

/* A value of the current record, in `text`. */
struct convert_value {
    bool given;
    size_t at, size;
};

struct convert {
    struct job *job;
    const struct convert_order *order;
    struct sink *sink; /* NULL: records go to order->each */
    enum hf_merge_format from;
    bool collect;     /* the first of two passes: only the names of JSON members */
    bool has_names;   /* fields have names, not only numbers */
    size_t key_index; /* of the first key field, from 0; SIZE_MAX: unknown */
    struct view key_name;
    /* The columns of the output. */
    struct arena arena;
    struct map by_name; /* to &columns[i] + 1, see column_of */
    struct view *columns;
    size_t column_count, column_room, name_bytes;
    /* The current record. */
    uint64_t number; /* from 1 */
    struct convert_value *values;
    size_t value_count; /* highest column given, from 1 */
    struct view key;
    struct buffer text; /* of the values */
    struct buffer line, header;
    struct convert_result result;
};

/* ---- Errors -------------------------------------------------------------------------- */

static enum hf_status convert_fail(const struct convert *convert, enum hf_status status,
                                   const char *what, struct hf_error *error)
{
    const char *path =
        convert->order->input_name ? convert->order->input_name : convert->order->input;
    error_set(error, status, "record %" PRIu64 " %s", convert->number, what);
    error_about(error, path);
    return status;
}

/* ---- Columns ------------------------------------------------------------------------- */

static bool reserve_columns(struct convert *convert, size_t count)
{
    if (count <= convert->column_room)
        return true;
    size_t room = count > 2 * convert->column_room ? count : 2 * convert->column_room;
    struct view *columns = realloc(convert->columns, room * sizeof *columns);
    if (columns)
        convert->columns = columns;
    struct convert_value *values =
        columns ? realloc(convert->values, room * sizeof *values) : NULL;
    if (!values)
        return false;
    convert->values = values;
    memset(values + convert->column_room, 0, (room - convert->column_room) * sizeof *values);
    convert->column_room = room;
    return true;
}

/* Adds a column; an empty name stands for its number. */
static enum hf_status convert_add_column(struct convert *convert, struct view name,
                                         struct hf_error *error)
{
    char digits[24];
    size_t index = convert->column_count;
    if (name.size == 0 && !convert->has_names) {
        snprintf(digits, sizeof digits, "%zu", index + 1);
        name = view_of(digits);
    }
    convert->name_bytes += name.size;
    if (index >= CONVERT_COLUMNS_MAX || convert->name_bytes > CONVERT_NAMES_BYTES_MAX)
        return convert_fail(
            convert, HF_INVALID,
            "has too many columns: a conversion can write 10,000, with names of "
            "1 MiB in all",
            error);
    struct view kept = arena_copy(&convert->arena, name);
    void *old;
    if (!kept.data || !reserve_columns(convert, index + 1))
        return error_no_memory(error);
    convert->columns[index] = kept;
    if (convert->has_names &&
        !map_put(&convert->by_name, kept, (void *)(uintptr_t)(index + 1), &old))
        return error_no_memory(error);
    convert->column_count++;
    return HF_OK;
}

/* The index of a named column, or SIZE_MAX. */
static size_t column_of(const struct convert *convert, struct view name)
{
    uintptr_t found = (uintptr_t)map_get(&convert->by_name, name);
    return found ? found - 1 : SIZE_MAX;
}

/* Takes the columns from the header of csv or tsv. */
static enum hf_status columns_of_header(struct convert *convert, struct view header,
                                        char separator, struct hf_error *error)
{
    struct csv_value value;
    struct buffer *copy = &convert->line; /* a field needs some bytes after it */
    bool more = true;
    if (!buffer_reserve(copy, header.size + BLOCK_SLACK) || !buffer_append(copy, header))
        return error_no_memory(error);
    header = buffer_view(copy);
    while (more) {
        buffer_clear(&convert->text);
        if (!csv_take_field(&header, separator, &value, &more))
            return convert_fail(convert, HF_CORRUPT, "has a misplaced or unclosed quote",
                                error);
        if (!csv_append_value(&convert->text, &value))
            return error_no_memory(error);
        enum hf_status status = convert_add_column(convert, buffer_view(&convert->text), error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- Reading a record ---------------------------------------------------------------- */

static void begin_values(struct convert *convert)
{
    for (size_t i = 0; i < convert->value_count; i++)
        convert->values[i].given = false;
    convert->value_count = 0;
    buffer_clear(&convert->text);
}

/* Notes that the value of a column is the text since `at`. */
static void end_value(struct convert *convert, size_t column, size_t at)
{
    convert->values[column] = (struct convert_value){ true, at, convert->text.size - at };
    if (column >= convert->value_count)
        convert->value_count = column + 1;
}

/* Makes sure that a field without a name has a column. */
static enum hf_status need_column(struct convert *convert, size_t column,
                                  struct hf_error *error)
{
    if (column < convert->column_count)
        return HF_OK;
    return convert_add_column(convert, VIEW(""), error);
}

static enum hf_status convert_read_usv(struct convert *convert, struct view record,
                                       struct hf_error *error)
{
    bool more = true;
    for (size_t column = 0; more; column++) {
        enum hf_status status = need_column(convert, column, error);
        if (status != HF_OK)
            return status;
        more = view_find(record, US) < record.size;
        size_t at = convert->text.size;
        if (!buffer_append(&convert->text, view_cut(&record, US)))
            return error_no_memory(error);
        end_value(convert, column, at);
    }
    return HF_OK;
}

static enum hf_status convert_read_csv(struct convert *convert, struct view record,
                                       char separator, struct hf_error *error)
{
    bool more = true;
    for (size_t column = 0; more; column++) {
        struct csv_value value;
        enum hf_status status = need_column(convert, column, error);
        if (status != HF_OK)
            return status;
        size_t at = convert->text.size;
        if (!csv_take_field(&record, separator, &value, &more))
            return convert_fail(convert, HF_CORRUPT, "has a misplaced or unclosed quote",
                                error);
        if (!csv_append_value(&convert->text, &value))
            return error_no_memory(error);
        end_value(convert, column, at);
    }
    return HF_OK;
}

/* The column of a JSON member. In the first pass, an unknown member becomes a column; in one pass
 * only the key is looked for. */
static enum hf_status column_of_member(struct convert *convert, const struct json_text *name,
                                       size_t *ret_column, struct hf_error *error)
{
    struct view plain = name->text;
    size_t before = convert->text.size;
    if (name->escaped) {
        if (!json_unescape(name->text, &convert->text))
            return convert->text.failed
                       ? error_no_memory(error)
                       : convert_fail(convert, HF_INVALID,
                                      "has a name with an unpaired surrogate", error);
        plain = view_from(buffer_view(&convert->text), before);
    }
    *ret_column = column_of(convert, plain);
    enum hf_status status = HF_OK;
    if (*ret_column == SIZE_MAX &&
        (convert->collect ||
         (convert->key_name.data && view_equal(plain, convert->key_name)))) {
        *ret_column = convert->column_count;
        status = convert_add_column(convert, plain, error);
    }
    convert->text.size = before;
    return status;
}

static enum hf_status convert_read_json(struct convert *convert, struct view record,
                                        struct hf_error *error)
{
    struct json_reader reader = json_read_data(record);
    struct json_text name, value;
    for (json_enter_object(&reader); json_next_pair(&reader, &name, &value);) {
        size_t column = SIZE_MAX;
        enum hf_status status = column_of_member(convert, &name, &column, error);
        if (status != HF_OK)
            return status;
        if (convert->collect || column == SIZE_MAX)
            continue;
        size_t at = convert->text.size;
        bool is_string = value.kind == JSON_KIND_STRING;
        if (is_string && value.escaped && !json_unescape(value.text, &convert->text))
            return convert->text.failed
                       ? error_no_memory(error)
                       : convert_fail(convert, HF_INVALID,
                                      "has a string with an unpaired surrogate", error);
        if ((!is_string || !value.escaped) && value.kind != JSON_KIND_NULL)
            buffer_append(&convert->text, value.text);
        end_value(convert, column, at);
    }
    if (!json_end(&reader))
        return convert_fail(convert, HF_CORRUPT, "is not one JSON object", error);
    return convert->text.failed ? error_no_memory(error) : HF_OK;
}

static enum hf_status convert_read(struct convert *convert, struct view record,
                                   struct hf_error *error)
{
    begin_values(convert);
    if (convert->from == HF_MERGE_USV)
        return convert_read_usv(convert, record, error);
    if (convert->from == HF_MERGE_NDJSON)
        return convert_read_json(convert, record, error);
    return convert_read_csv(convert, record, convert->job->cutter.separator, error);
}

static struct view convert_value_of(const struct convert *convert, size_t column)
{
    const struct convert_value *value = &convert->values[column];
    if (column >= convert->value_count || !value->given)
        return VIEW("");
    return (struct view){ convert->text.data + value->at, value->size };
}

/* ---- Selecting ----------------------------------------------------------------------- */

static bool time_is_selected(const struct merge_selection *selection, struct instant time)
{
    return (!selection->has_since || instant_compare(time, selection->since) >= 0) &&
           (!selection->has_until || instant_compare(time, selection->until) < 0);
}

/* Sets `key` to the value of the first key field. */
static void find_key(struct convert *convert)
{
    size_t index =
        convert->key_name.data ? column_of(convert, convert->key_name) : convert->key_index;
    convert->key = index < convert->value_count ? convert_value_of(convert, index) : VIEW("");
}

/* ---- Writing a record ---------------------------------------------------------------- */

static enum hf_status convert_write_usv(struct convert *convert, struct hf_error *error)
{
    for (size_t i = 0; i < convert->column_count; i++) {
        struct view value = convert_value_of(convert, i);
        for (size_t k = 0; k < value.size; k++)
            if (value.data[k] == US || value.data[k] == RS || value.data[k] == '\n')
                return convert_fail(convert, HF_INVALID,
                                    "has a value with a line end or a separator, which usv "
                                    "cannot represent; choose csv or ndjson",
                                    error);
        if (i > 0)
            buffer_append_byte(&convert->line, US);
        buffer_append(&convert->line, value);
    }
    if (convert->line.size == 0)
        return convert_fail(convert, HF_INVALID,
                            "is empty, which usv cannot represent; choose csv or ndjson",
                            error);
    return HF_OK;
}

static void convert_write_csv(struct convert *convert, char separator)
{
    for (size_t i = 0; i < convert->column_count; i++) {
        if (i > 0)
            buffer_append_byte(&convert->line, separator);
        csv_write_value(&convert->line, convert_value_of(convert, i), separator);
    }
    if (convert->line.size == 0) /* an empty line is not a record */
        buffer_append(&convert->line, VIEW("\"\""));
}

static enum hf_status convert_write_json(struct convert *convert, struct hf_error *error)
{
    bool first = true;
    buffer_append_byte(&convert->line, '{');
    for (size_t i = 0; i < convert->value_count; i++) {
        if (!convert->values[i].given)
            continue;
        struct view value = convert_value_of(convert, i);
        if (!utf8_is_valid(value) || !utf8_is_valid(convert->columns[i]))
            return convert_fail(convert, HF_INVALID,
                                "is not UTF-8, so it cannot be written as JSON", error);
        if (!first)
            buffer_append_byte(&convert->line, ',');
        first = false;
        json_write_string(&convert->line, convert->columns[i]);
        buffer_append_byte(&convert->line, ':');
        json_write_string(&convert->line, value);
    }
    buffer_append_byte(&convert->line, '}');
    return HF_OK;
}

static enum hf_status convert_write(struct convert *convert, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    buffer_clear(&convert->line);
    if (convert->order->to == HF_MERGE_USV)
        status = convert_write_usv(convert, error);
    else if (convert->order->to == HF_MERGE_NDJSON)
        status = convert_write_json(convert, error);
    else
        convert_write_csv(convert, convert->order->to == HF_MERGE_TSV ? '\t' : ',');
    if (status == HF_OK && convert->line.failed)
        return error_no_memory(error);
    return status;
}

static enum hf_status deliver(struct convert *convert, struct view record,
                              const struct row *row, struct hf_error *error)
{
    const struct cutter *cutter = &convert->job->cutter;
    convert->result.rows_out++;
    if (convert->sink) {
        bool good = sink_add(convert->sink, record) && sink_add(convert->sink, VIEW("\n"));
        return good ? HF_OK : sink_status(convert->sink, error);
    }
    const struct merge_record delivered = { .bytes = record,
                                            .header = buffer_view(&convert->header),
                                            .has_key = cutter->key.count > 0,
                                            .has_time = cutter->time.asked,
                                            .key = convert->key,
                                            .time = row->time };
    return convert->order->each(convert->order->context, &delivered, error);
}

static enum hf_status convert_record(struct convert *convert, struct view record,
                                     const struct row *row, struct hf_error *error)
{
    const struct merge_selection *selection = &convert->order->selection;
    bool same = convert->order->to == convert->from;
    bool needs_key = selection->key_prefix.size > 0 || !convert->sink;
    if (!time_is_selected(selection, row->time))
        return HF_OK;
    enum hf_status status = HF_OK;
    if (!same || needs_key)
        status = convert_read(convert, record, error);
    if (status != HF_OK || convert->collect)
        return status;
    if (needs_key)
        find_key(convert);
    if (!view_starts_with(convert->key, selection->key_prefix))
        return HF_OK;
    if (same)
        return deliver(convert, record, row, error);
    status = convert_write(convert, error);
    return status == HF_OK ? deliver(convert, buffer_view(&convert->line), row, error) : status;
}

static enum hf_status convert_batch(void *context, const struct source *source,
                                    const struct batch *batch, struct hf_error *error)
{
    struct convert *convert = context;
    (void)source;
    for (size_t i = 0; i < batch->row_count; i++) {
        const struct row *row = &batch->rows[i];
        convert->number = batch->rows_before + i + 1;
        if (row->fault != ROW_NONE)
            return convert_fail(convert, HF_CORRUPT, row_fault_text(row->fault), error);
        enum hf_status status = convert_record(convert, batch_record(batch, row), row, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- The whole file ------------------------------------------------------------------ */

/* The header line of the output, without its end. */
static void make_header(struct convert *convert)
{
    enum hf_merge_format to = convert->order->to;
    char separator = to == HF_MERGE_TSV ? '\t' : ',';
    buffer_clear(&convert->header);
    if ((to != HF_MERGE_CSV && to != HF_MERGE_TSV) || !convert->has_names)
        return;
    if (to == convert->from) {
        buffer_append(&convert->header, convert->job->header);
        return;
    }
    for (size_t i = 0; i < convert->column_count; i++) {
        if (i > 0)
            buffer_append_byte(&convert->header, separator);
        csv_write_value(&convert->header, convert->columns[i], separator);
    }
}

static enum hf_status scan_all(struct convert *convert, const struct feed *feed, bool collect,
                               struct hf_error *error)
{
    struct job_scan scan = { /* any_order */ true, convert_batch, .context = convert };
    convert->collect = collect;
    enum hf_status status = job_scan(convert->job, feed, &scan, error);
    convert->result.rows_in = scan.rows;
    return status;
}

static enum hf_status convert_file(struct convert *convert, const struct feed *feed,
                                   struct hf_error *error)
{
    const struct cutter *cutter = &convert->job->cutter;
    const struct field *key = &cutter->key.parts[0].field;
    bool from_json = convert->from == HF_MERGE_NDJSON;
    bool same = convert->order->to == convert->from;
    struct view header = convert->job->header;
    enum hf_status status = HF_OK;
    convert->has_names = from_json || header.size > 0;
    convert->key_index = key->number > 0 ? key->number - 1 : SIZE_MAX;
    if (from_json && key->asked)
        convert->key_name = key->name;
    if (header.size > 0)
        status = columns_of_header(convert, header, cutter->separator, error);
    if (status == HF_OK && from_json && !same)
        status = scan_all(convert, feed, /* collect */ true, error);
    make_header(convert);
    if (status == HF_OK && convert->sink && convert->header.size > 0) {
        sink_add(convert->sink, buffer_view(&convert->header));
        sink_add(convert->sink, VIEW("\n"));
    }
    return status == HF_OK ? scan_all(convert, feed, /* collect */ false, error) : status;
}

static enum hf_status convert_open_output(struct convert *convert, struct sink *sink,
                                          struct hf_error *error)
{
    const struct convert_order *order = convert->order;
    if (!order->output)
        return HF_OK;
    enum hf_status status = HF_OK;
    if (order->output->path) {
        const struct sink_options options = { .path = order->output->path,
                                              .watch = job_watch(convert->job, JOB_OUTPUT),
                                              .coding = order->coding,
                                              .budget = &convert->job->budget };
        status = sink_create(sink, convert->job->env, &options, error);
    } else {
        status = sink_descriptor(sink, order->output->fd, order->coding, &convert->job->budget,
                                 error);
    }
    if (status == HF_OK) {
        convert->sink = sink;
        sink->doubles_mark = order->to != HF_MERGE_USV;
    }
    return status;
}

static void release_convert(struct convert *convert)
{
    arena_release(&convert->arena);
    map_release(&convert->by_name);
    free(convert->columns);
    free(convert->values);
    buffer_release(&convert->text);
    buffer_release(&convert->line);
    buffer_release(&convert->header);
}

enum hf_status merge_convert(struct env *env, const struct merge_options *options,
                             const struct convert_order *order,
                             struct convert_result *ret_result, struct hf_error *error)
{
    struct job job;
    struct feed feed;
    struct sink sink;
    struct buffer header = BUFFER_INIT(HF_MERGE_RECORD_MAX);
    enum hf_status status = job_check(options, error);
    check(merge_is_text(options->format) && merge_is_text(order->to));
    if (status == HF_OK)
        status = feed_init(&feed, order->input, error);
    if (status != HF_OK)
        return status;
    job_init(&job, env, options);
    bool twice = options->format == HF_MERGE_NDJSON && order->to != HF_MERGE_NDJSON;
    job_expect(&job, twice ? 2 * feed.size : feed.size, /* done_before */ 0);
    /* A value becomes up to six times longer, as \u001f in JSON. */
    size_t line_max = 8 * job.record_bytes_max + CONVERT_NAMES_BYTES_MAX;
    struct convert convert = { .job = &job,
                               .order = order,
                               .from = options->format,
                               .arena = ARENA_INIT,
                               .by_name = MAP_INIT,
                               .text = BUFFER_INIT(2 * job.record_bytes_max + MIB),
                               .line = BUFFER_INIT(line_max),
                               .header = BUFFER_INIT(8 * CONVERT_NAMES_BYTES_MAX) };
    status = records_prepare(&job, &feed, 1, &header, error);
    if (status == HF_OK)
        status = convert_open_output(&convert, &sink, error);
    if (status == HF_OK)
        status = convert_file(&convert, &feed, error);
    if (status == HF_OK && convert.sink) {
        status = sink_end(&sink, error);
        convert.result.bytes_out = sink.size;
        if (status == HF_OK && order->output->path)
            status = sink_keep(&sink, error);
    }
    if (convert.sink)
        sink_release(&sink);
    if (status == HF_OK)
        *ret_result = convert.result;
    release_convert(&convert);
    buffer_release(&header);
    return status;
}
