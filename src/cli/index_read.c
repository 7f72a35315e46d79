/* index_read.c: `index get`, `query`, `export` and `count`: what readers see of an index. */
#include "cli/files.h"
#include "cli/index.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* With --json it is JSON lines, whatever is usual. */
static enum hf_status take_format(struct cli *cli, enum hf_index_format usual,
                                  enum hf_index_format *ret_format)
{
    enum hf_status status =
        index_format_option(cli, cli->json ? HF_INDEX_NDJSON : usual, ret_format);
    if (status == HF_OK && cli->json && *ret_format != HF_INDEX_NDJSON)
        return error_set(&cli->error, HF_INVALID,
                         "--json and --format %.*s cannot be used together",
                         VIEW_ARGS(cli_option(cli, "format")->text));
    return status;
}

/* ---- Showing records ----------------------------------------------------------------- */

/* The output takes so much at once. */
#define PIECE (1 * MIB)

/* Records on stdout. */
struct showing {
    struct index_desk *desk;
    enum hf_index_format format;
    bool began; /* the first is shown */
};

static void write_pieces(struct output *out, struct view bytes)
{
    for (; bytes.size > 0; bytes = view_from(bytes, PIECE))
        output_bytes(out, view_first(bytes, PIECE));
}

static enum hf_status show_header(const struct showing *showing)
{
    struct cli *cli = showing->desk->cli;
    char *text;
    if (showing->format == FORMAT_PLAIN)
        return HF_OK;
    enum hf_status status =
        hf_index_header(showing->desk->index, showing->format, &text, &cli->error);
    if (status == HF_OK) {
        output_text(&cli->out, text);
        hf_free(text);
    }
    return status;
}

/* For people. */
static bool show_plain(const struct index_desk *desk, struct hf_index_record *record)
{
    struct buffer text = BUFFER_INIT(8 * MIB);
    for (size_t i = 0; i < desk->info.field_count; i++) {
        size_t size = 0;
        const char *name = hf_index_field_name(desk->index, i);
        const char *value = hf_index_record_value(record, name, &size);
        if (!value)
            text.failed = true;
        if (i > 0)
            buffer_append_byte(&text, '\t');
        escape_append(&text, (struct view){ value, size });
    }
    bool good = buffer_append_byte(&text, '\n');
    if (good)
        write_pieces(&desk->cli->out, buffer_view(&text));
    buffer_release(&text);
    return good;
}

static bool show_text(const struct showing *showing, struct hf_index_record *record)
{
    size_t size = 0;
    const char *text = hf_index_record_text(record, showing->format, !showing->began, &size);
    if (text)
        write_pieces(&showing->desk->cli->out, (struct view){ text, size });
    return text != NULL;
}

static enum hf_status show_record(struct showing *showing, struct hf_index_record *record,
                                  struct hf_error *error)
{
    bool good = showing->format == FORMAT_PLAIN ? show_plain(showing->desk, record)
                                                : show_text(showing, record);
    showing->began = true;
    return good ? HF_OK : error_no_memory(error);
}

/* ---- get ----------------------------------------------------------------------------- */

static enum hf_status show_key(struct showing *showing, const char *key, struct hf_error *error)
{
    struct hf_index_record *record = NULL;
    enum hf_status status = interrupt_check(error);
    if (status == HF_OK)
        status = hf_index_get(showing->desk->index, key, &record, error);
    if (status == HF_OK)
        status = show_record(showing, record, error);
    hf_index_record_free(record);
    return status;
}

/* A key that is not there is told, and the others are shown all the same. */
static enum hf_status get_keys(struct showing *showing)
{
    struct cli *cli = showing->desk->cli;
    enum hf_status first = HF_OK;
    for (size_t i = 1; i < cli->argument_count; i++) {
        struct hf_error error = { HF_OK, "" };
        enum hf_status status = show_key(showing, cli->arguments[i], &error);
        if (status == HF_OK)
            continue;
        if (first == HF_OK) {
            first = status;
            cli->error = error;
        }
        if (interrupted() || (status != HF_NOT_FOUND && status != HF_INVALID))
            return status;
        cli_report(cli, cli_argument(cli, i), &error);
        cli->reported = true;
    }
    return first;
}

enum hf_status run_index_get(struct cli *cli)
{
    struct index_desk desk;
    struct showing showing = { .desk = &desk };
    enum hf_status status = take_format(cli, FORMAT_PLAIN, &showing.format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&desk, cli);
    if (status == HF_OK)
        status = show_header(&showing);
    if (status == HF_OK)
        status = get_keys(&showing);
    index_desk_close(&desk);
    return status;
}

/* ---- Walking ------------------------------------------------------------------------- */

struct index_walking {
    struct index_desk desk;
    struct hf_index_query query;
    uint64_t limit; /* of records to show */
    struct gauge gauge;
    const char *verb;
    struct hf_index_progress progress;
    struct hf_error trouble; /* the first shard that could not be read */
};

static bool show_progress(void *argument, const struct hf_index_progress *so_far)
{
    struct index_walking *walking = argument;
    struct gauge *gauge = &walking->gauge;
    char words[120];
    walking->progress = *so_far;
    if (interrupted())
        return false;
    if (!gauge_is_due(gauge))
        return true;
    snprintf(words, sizeof words, "%s  %" PRIu64 " of %" PRIu64 " shards  %" PRIu64 " record%s",
             walking->verb, so_far->shards_read, so_far->shards_total, so_far->records,
             so_far->records == 1 ? "" : "s");
    gauge_say(gauge, view_of(words));
    return true;
}

static void tell_trouble(void *argument, const struct hf_error *error)
{
    struct index_walking *walking = argument;
    struct cli *cli = walking->desk.cli;
    gauge_clear(&walking->gauge);
    cli_report(cli, cli_argument(cli, 0), error);
    cli->reported = true;
    if (walking->trouble.status == HF_OK)
        walking->trouble = *error;
}

/* It is no failure: what was asked for is shown. */
static void tell_unreadable(const struct index_walking *walking)
{
    struct cli *cli = walking->desk.cli;
    const char *name = cli->arguments[0];
    uint64_t count = walking->progress.unreadable;
    bool one = count == 1;
    struct hf_error note, ignored;
    struct output err;
    if (count == 0 || cli->quiet)
        return;
    error_set(&note, HF_OK,
              "%" PRIu64 " entr%s of the inbox cannot be read and %s left out; a compile sets "
              "%s aside",
              count, one ? "y" : "ies", one ? "is" : "are", one ? "it" : "them");
    output_init(&err, STDERR_FILENO);
    if (cli->json)
        output_json(&err, json_pack("{s:s, s:I, s:s, s:s}", "index", name, "unreadable",
                                    (json_int_t)count, "warning", note.why, "command",
                                    cli->command->path));
    else
        output_print(&err, "holdfast: %s %s: %s\n", cli->command->path, name, note.why);
    output_flush(&err, &ignored);
    output_release(&err);
}

static void walking_start(struct index_walking *walking)
{
    walking->query.progress = show_progress;
    walking->query.trouble = tell_trouble;
    walking->query.argument = walking;
    gauge_start(&walking->gauge, walking->desk.cli, view_of(walking->verb));
}

/* Shards that could not be read were told one by one. */
static enum hf_status walking_end(struct index_walking *walking, enum hf_status status)
{
    struct cli *cli = walking->desk.cli;
    gauge_clear(&walking->gauge);
    if (status != HF_OK && status != walking->trouble.status)
        cli->reported = false;
    tell_unreadable(walking);
    return status;
}

static enum hf_status show_one(struct showing *showing, struct hf_index_record *record,
                               struct hf_error *error)
{
    struct output *out = &showing->desk->cli->out;
    enum hf_status status = interrupt_check(error);
    if (status == HF_OK)
        status = show_record(showing, record, error);
    if (status == HF_OK && out->failed_errno)
        status = output_flush(out, error); /* nobody reads any more */
    return status;
}

/* One more than the limit is looked for, so that trouble behind it is told, too. */
static enum hf_status show_all(struct index_walking *walking, struct showing *showing,
                               struct hf_index_cursor *cursor)
{
    struct cli *cli = walking->desk.cli;
    for (uint64_t shown = 0;;) {
        struct hf_index_record *record;
        struct hf_error error;
        enum hf_status status = hf_index_cursor_next(cursor, &record, &error);
        if (status == HF_NOT_FOUND || (status == HF_OK && shown == walking->limit)) {
            cli->error = walking->trouble;
            return status == HF_OK ? error_clear(&cli->error) : cli->error.status;
        }
        if (status == HF_OK) {
            shown++;
            status = show_one(showing, record, &cli->error);
            if (status != HF_OK)
                return status;
        } else if (status == HF_CANCELLED) {
            cli->error = error;
            return status;
        } else {
            tell_trouble(walking, &error);
        }
    }
}

static enum hf_status show_walk(struct index_walking *walking, enum hf_index_format format)
{
    struct cli *cli = walking->desk.cli;
    struct showing showing = { .desk = &walking->desk, .format = format };
    struct hf_index_cursor *cursor = NULL;
    enum hf_status status = show_header(&showing);
    if (status != HF_OK)
        return status;
    walking_start(walking);
    status = hf_index_cursor_open(walking->desk.index, &walking->query, &cursor, &cli->error);
    if (status == HF_OK) {
        status = show_all(walking, &showing, cursor);
        walking->progress = hf_index_cursor_progress(cursor);
        hf_index_cursor_close(cursor);
    }
    return walking_end(walking, status);
}

/* ---- query --------------------------------------------------------------------------- */

/* FIELD=VALUE or FIELD!=VALUE; no name of a field has any of these two in it. */
static enum hf_status take_condition(struct cli *cli, struct view text,
                                     struct hf_index_condition *ret_condition)
{
    struct view value = text;
    struct view name = view_cut(&value, '=');
    bool differs = view_ends_with(name, VIEW("!"));
    if (name.size == text.size)
        return error_set(&cli->error, HF_INVALID,
                         "--where takes FIELD=VALUE or FIELD!=VALUE, not '%.*s'",
                         VIEW_ARGS(view_first(text, 60)));
    struct view field = arena_copy(&cli->arena, view_first(name, name.size - differs));
    if (!field.data)
        return error_no_memory(&cli->error);
    *ret_condition = (struct hf_index_condition){ field.data, value.data, differs };
    return HF_OK;
}

static enum hf_status take_conditions(struct index_walking *walking,
                                      struct hf_index_condition *conditions)
{
    struct cli *cli = walking->desk.cli;
    const struct option_value *value = cli_option(cli, "where");
    size_t count = 0;
    for (; value; value = value->next) {
        if (count == HF_INDEX_WHERE_MAX)
            return error_set(&cli->error, HF_INVALID, "--where may be given up to %d times",
                             HF_INDEX_WHERE_MAX);
        enum hf_status status = take_condition(cli, value->text, &conditions[count++]);
        if (status != HF_OK)
            return status;
    }
    walking->query.where = conditions;
    walking->query.where_count = count;
    return HF_OK;
}

static const char *text_or_null(const struct option_value *value)
{
    return value ? value->text.data : NULL;
}

static enum hf_status take_query(struct index_walking *walking,
                                 struct hf_index_condition *conditions)
{
    struct cli *cli = walking->desk.cli;
    const struct option_value *limit = cli_option(cli, "limit");
    walking->query.prefix = text_or_null(cli_option(cli, "prefix"));
    walking->query.since = text_or_null(cli_option(cli, "since"));
    walking->query.shard = text_or_null(cli_option(cli, "shard"));
    walking->limit = limit ? limit->number : UINT64_MAX;
    return take_conditions(walking, conditions);
}

enum hf_status run_index_query(struct cli *cli)
{
    struct hf_index_condition conditions[HF_INDEX_WHERE_MAX];
    struct index_walking walking = { .verb = "query", .query = HF_INDEX_QUERY };
    enum hf_index_format format;
    enum hf_status status = take_format(cli, FORMAT_PLAIN, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&walking.desk, cli);
    if (status == HF_OK)
        status = take_query(&walking, conditions);
    if (status == HF_OK)
        status = index_option_error(cli, show_walk(&walking, format));
    index_desk_close(&walking.desk);
    return status;
}

/* ---- export -------------------------------------------------------------------------- */

/* A file appears under its name only when it is whole. */
static enum hf_status export_to_file(struct index_walking *walking, struct view path,
                                     enum hf_index_format format)
{
    struct cli *cli = walking->desk.cli;
    struct new_file file;
    enum hf_status status = target_create(cli, path, &file);
    if (status != HF_OK)
        return status;
    walking_start(walking);
    status = hf_index_export(walking->desk.index, &walking->query, file.fd, format,
                             &walking->progress, &cli->error);
    status = walking_end(walking, status);
    if (status == HF_OK)
        return target_keep(cli, &file);
    new_file_release(&file);
    return status;
}

static void tell_exported(const struct index_walking *walking, struct view path)
{
    struct cli *cli = walking->desk.cli;
    if (cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "output", path);
        json_add_count(&object, "records", walking->progress.records);
        json_add_count(&object, "pending", walking->progress.pending);
        json_add_count(&object, "unreadable", walking->progress.unreadable);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        output_text(&cli->out, "exported ");
        output_count(&cli->out, walking->progress.records, "record");
        output_text(&cli->out, " to ");
        output_key(&cli->out, path);
        output_text(&cli->out, "\n");
    }
}

static enum hf_status export_now(struct index_walking *walking, struct view path,
                                 enum hf_index_format format)
{
    struct cli *cli = walking->desk.cli;
    bool stream = true;
    if (!path.data)
        return show_walk(walking, format);
    enum hf_status status = target_is_stream(cli, path, &stream);
    if (status == HF_OK && stream)
        return error_set(&cli->error, HF_INVALID,
                         "'%.*s' is a pipe or a device; without --output it goes to stdout",
                         VIEW_ARGS(view_first(path, 80)));
    if (status == HF_OK)
        status = export_to_file(walking, path, format);
    if (status == HF_OK)
        tell_exported(walking, path);
    return status;
}

enum hf_status run_index_export(struct cli *cli)
{
    struct index_walking walking = { .verb = "export",
                                     .query = HF_INDEX_QUERY,
                                     .limit = UINT64_MAX };
    const struct option_value *output = cli_option(cli, "output");
    bool to_file = output && !view_equal(output->text, VIEW("-"));
    struct view path = to_file ? output->text : (struct view){ NULL, 0 };
    enum hf_index_format format;
    enum hf_index_format usual = HF_INDEX_USV;
    if (to_file && path.size == 0)
        return error_set(&cli->error, HF_INVALID, "--output takes the name of a file");
    if (to_file)
        hf_index_format_of_path(path.data, &usual);
    enum hf_status status =
        to_file ? index_format_option(cli, usual, &format) : take_format(cli, usual, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&walking.desk, cli);
    if (status == HF_OK)
        status = export_now(&walking, path, format);
    index_desk_close(&walking.desk);
    return status;
}

/* ---- count --------------------------------------------------------------------------- */

enum hf_status run_index_count(struct cli *cli)
{
    struct index_walking walking = { .verb = "count", .query = HF_INDEX_QUERY };
    uint64_t count;
    enum hf_status status = index_desk_open(&walking.desk, cli);
    if (status == HF_OK) {
        walking_start(&walking);
        status = hf_index_count(walking.desk.index, &walking.query, &count, &cli->error);
        status = walking_end(&walking, status);
    }
    if (status == HF_OK && cli->json)
        output_json(&cli->out, json_pack("{s:s, s:I}", "index", cli->arguments[0], "records",
                                         (json_int_t)count));
    else if (status == HF_OK)
        output_print(&cli->out, "%" PRIu64 "\n", count);
    index_desk_close(&walking.desk);
    return status;
}
