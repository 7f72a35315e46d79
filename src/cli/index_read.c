/* index_read.c: `index get`, `query`, `export` and `count`: what readers see of an index. */
#include "cli/files.h"
#include "cli/index.h"
#include "cli/index_show.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "index/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* With --json it is JSON lines, whatever is usual. */
static enum hf_status take_format(struct cli *cli, enum rows_format usual,
                                  enum rows_format *ret_format)
{
    enum hf_status status =
        index_format_option(cli, cli->json ? ROWS_NDJSON : usual, ret_format);
    if (status == HF_OK && cli->json && *ret_format != ROWS_NDJSON)
        return error_set(&cli->error, HF_INVALID,
                         "--json and --format %.*s cannot be used together",
                         VIEW_ARGS(cli_option(cli, "format")->text));
    return status;
}

/* ---- get ----------------------------------------------------------------------------- */

/* A key that is not there is told, and the others are shown all the same. */
static enum hf_status get_keys(struct index_desk *desk, struct index_show *show,
                               struct buffer *bytes)
{
    struct cli *cli = desk->cli;
    enum hf_status first = HF_OK;
    for (size_t i = 1; i < cli->argument_count; i++) {
        struct hf_error error = { HF_OK, "" };
        struct view key = cli_argument(cli, i);
        buffer_clear(bytes);
        enum hf_status status = interrupt_check(&error);
        if (status == HF_OK)
            status = index_get(desk->index, key, bytes, &error);
        if (status == HF_OK)
            status = index_show_record(show, buffer_view(bytes), &error);
        if (status == HF_OK)
            continue;
        if (first == HF_OK) {
            first = status;
            cli->error = error;
        }
        if (interrupted() || (status != HF_NOT_FOUND && status != HF_INVALID))
            return status;
        cli_report(cli, key, &error);
        cli->reported = true;
    }
    return first;
}

enum hf_status run_index_get(struct cli *cli)
{
    struct index_desk desk;
    struct index_show show;
    enum rows_format format;
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    enum hf_status status = take_format(cli, ROWS_PLAIN, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&desk, cli, /* compiles */ false);
    if (status == HF_OK) {
        index_show_init(&show, &desk.index->schema, format, &cli->out);
        index_show_header(&show);
        status = get_keys(&desk, &show, &bytes);
        index_show_release(&show);
    }
    buffer_release(&bytes);
    index_desk_close(&desk);
    return status;
}

/* ---- Walking ------------------------------------------------------------------------- */

struct index_walking {
    struct index_desk desk;
    struct index_query query;
    struct index_show show;
    uint64_t limit; /* of records to show */
    bool enough;    /* it is reached */
    struct gauge gauge;
    const char *verb;
    struct walk_totals totals;
    uint64_t shown;
    struct hf_error trouble; /* the first shard that could not be read */
};

/* The gauge's own figures are bytes, which nobody counts here. */
static bool show_progress(void *argument, const struct walk_totals *totals)
{
    struct index_walking *walking = argument;
    struct gauge *gauge = &walking->gauge;
    char words[120];
    walking->totals = *totals;
    if (interrupted())
        return false;
    if (!gauge_is_due(gauge))
        return true;
    snprintf(words, sizeof words, "%s  %" PRIu64 " of %" PRIu64 " shards  %" PRIu64 " record%s",
             walking->verb, totals->shards_read, totals->shards_total, totals->records,
             totals->records == 1 ? "" : "s");
    gauge_say(gauge, view_of(words));
    return true;
}

static enum hf_status show_one(void *argument, const struct record *record,
                               struct hf_error *error)
{
    struct index_walking *walking = argument;
    if (interrupted())
        return interrupt_check(error);
    if (walking->shown == walking->limit) {
        walking->enough = true;
        return error_set(error, HF_CANCELLED, "that is enough");
    }
    walking->shown++;
    enum hf_status status = index_show_record(&walking->show, record->bytes, error);
    if (status == HF_OK && walking->show.out->failed_errno)
        status = output_flush(walking->show.out, error); /* nobody reads any more */
    return status;
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
    uint64_t count = walking->totals.unreadable;
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
        output_json(&err, json_pack("{s:s, s:I, s:s, s:s}", "index", walking->desk.index->name,
                                    "unreadable", (json_int_t)count, "warning", note.why,
                                    "command", cli->command->path));
    else
        output_print(&err, "holdfast: %s %s: %s\n", cli->command->path,
                     walking->desk.index->name, note.why);
    output_flush(&err, &ignored);
    output_release(&err);
}

static struct index_visitor visitor_of(struct index_walking *walking)
{
    return (struct index_visitor){ show_one, show_progress, tell_trouble, walking };
}

/* Shards that could not be read were told one by one. */
static enum hf_status walk(struct index_walking *walking)
{
    struct cli *cli = walking->desk.cli;
    struct index_visitor visitor = visitor_of(walking);
    gauge_start(&walking->gauge, cli, view_of(walking->verb));
    enum hf_status status = index_walk(walking->desk.index, &walking->query, &visitor,
                                       &walking->totals, &cli->error);
    gauge_clear(&walking->gauge);
    if (walking->enough)
        status = error_clear(&cli->error);
    if (status != HF_OK && status != walking->trouble.status)
        cli->reported = false;
    tell_unreadable(walking);
    return status;
}

/* ---- query --------------------------------------------------------------------------- */

#define CONDITIONS_MAX 32

/* FIELD=VALUE or FIELD!=VALUE; no name of a field has any of these two in it. */
static enum hf_status take_condition(struct index_walking *walking, struct view text,
                                     struct condition_on_field *ret_condition)
{
    struct cli *cli = walking->desk.cli;
    struct view value = text;
    struct view name = view_cut(&value, '=');
    bool differs = view_ends_with(name, VIEW("!"));
    if (name.size == text.size)
        return error_set(&cli->error, HF_INVALID,
                         "--where takes FIELD=VALUE or FIELD!=VALUE, not '%.*s'",
                         VIEW_ARGS(view_first(text, 60)));
    *ret_condition = (struct condition_on_field){ .value = value, .differs = differs };
    enum hf_status status =
        index_field(&walking->desk.index->schema, view_first(name, name.size - differs),
                    &ret_condition->field, &cli->error);
    if (status != HF_OK)
        error_prefix(&cli->error, "--where");
    return status;
}

static enum hf_status take_conditions(struct index_walking *walking,
                                      struct condition_on_field *conditions)
{
    struct cli *cli = walking->desk.cli;
    const struct option_value *value = cli_option(cli, "where");
    size_t count = 0;
    for (; value; value = value->next) {
        if (count == CONDITIONS_MAX)
            return error_set(&cli->error, HF_INVALID, "--where may be given up to %d times",
                             CONDITIONS_MAX);
        enum hf_status status = take_condition(walking, value->text, &conditions[count++]);
        if (status != HF_OK)
            return status;
    }
    walking->query.where = conditions;
    walking->query.where_count = count;
    return HF_OK;
}

static enum hf_status take_query(struct index_walking *walking,
                                 struct condition_on_field *conditions)
{
    struct cli *cli = walking->desk.cli;
    struct index_query *query = &walking->query;
    const struct option_value *prefix = cli_option(cli, "prefix");
    const struct option_value *since = cli_option(cli, "since");
    const struct option_value *limit = cli_option(cli, "limit");
    query->prefix = prefix ? prefix->text : VIEW("");
    walking->limit = limit ? limit->number : UINT64_MAX;
    query->since_given = since != NULL;
    if (since && !instant_parse(since->text, &query->since))
        return error_set(&cli->error, HF_INVALID,
                         "--since takes RFC 3339 with a zone, as in 2026-02-06T10:00:00Z, or a "
                         "number since 1970, not '%.*s'",
                         VIEW_ARGS(view_first(since->text, 60)));
    enum hf_status status = index_shard_option(&walking->desk, &query->shard);
    return status == HF_OK ? take_conditions(walking, conditions) : status;
}

enum hf_status run_index_query(struct cli *cli)
{
    struct condition_on_field conditions[CONDITIONS_MAX];
    struct index_walking walking = { .verb = "query" };
    enum rows_format format;
    enum hf_status status = take_format(cli, ROWS_PLAIN, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&walking.desk, cli, /* compiles */ false);
    if (status == HF_OK)
        status = take_query(&walking, conditions);
    if (status == HF_OK) {
        index_show_init(&walking.show, &walking.desk.index->schema, format, &cli->out);
        index_show_header(&walking.show);
        status = walk(&walking);
        index_show_release(&walking.show);
    }
    index_desk_close(&walking.desk);
    return status;
}

/* ---- export -------------------------------------------------------------------------- */

static enum hf_status export_to(struct index_walking *walking, struct output *out,
                                enum rows_format format)
{
    struct cli *cli = walking->desk.cli;
    index_show_init(&walking->show, &walking->desk.index->schema, format, out);
    index_show_header(&walking->show);
    enum hf_status status = walk(walking);
    if (status == HF_OK)
        status = output_flush(out, &cli->error);
    index_show_release(&walking->show);
    return status;
}

/* A file appears under its name only when it is whole. */
static enum hf_status export_to_file(struct index_walking *walking, struct view path,
                                     enum rows_format format)
{
    struct cli *cli = walking->desk.cli;
    struct new_file file;
    struct output out;
    enum hf_status status = target_create(cli, path, &file);
    if (status != HF_OK)
        return status;
    output_init(&out, file.fd);
    status = export_to(walking, &out, format);
    output_release(&out);
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
        json_add_count(&object, "records", walking->totals.records);
        json_add_count(&object, "pending", walking->totals.pending);
        json_add_count(&object, "unreadable", walking->totals.unreadable);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        output_text(&cli->out, "exported ");
        output_count(&cli->out, walking->totals.records, "record");
        output_text(&cli->out, " to ");
        output_key(&cli->out, path);
        output_text(&cli->out, "\n");
    }
}

static enum hf_status export_now(struct index_walking *walking, struct view path,
                                 enum rows_format format)
{
    struct cli *cli = walking->desk.cli;
    bool stream = true;
    enum hf_status status = HF_OK;
    if (!path.data)
        return export_to(walking, &cli->out, format);
    status = target_is_stream(cli, path, &stream);
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
    struct index_walking walking = { .verb = "export", .limit = UINT64_MAX };
    const struct option_value *output = cli_option(cli, "output");
    bool to_file = output && !view_equal(output->text, VIEW("-"));
    struct view path = to_file ? output->text : (struct view){ NULL, 0 };
    enum rows_format format;
    enum rows_format usual = ROWS_USV;
    if (to_file && path.size == 0)
        return error_set(&cli->error, HF_INVALID, "--output takes the name of a file");
    if (to_file)
        index_format_of_name(path, &usual);
    enum hf_status status =
        to_file ? index_format_option(cli, usual, &format) : take_format(cli, usual, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&walking.desk, cli, /* compiles */ false);
    if (status == HF_OK)
        status = export_now(&walking, path, format);
    index_desk_close(&walking.desk);
    return status;
}

/* ---- count --------------------------------------------------------------------------- */

enum hf_status run_index_count(struct cli *cli)
{
    struct index_walking walking = { .verb = "count" };
    uint64_t count;
    enum hf_status status = index_desk_open(&walking.desk, cli, /* compiles */ false);
    if (status == HF_OK) {
        struct index_visitor visitor = visitor_of(&walking);
        visitor.show = NULL;
        gauge_start(&walking.gauge, cli, VIEW("count"));
        status = index_count(walking.desk.index, &visitor, &count, &cli->error);
        gauge_clear(&walking.gauge);
        tell_unreadable(&walking);
    }
    if (status == HF_OK && cli->json)
        output_json(&cli->out, json_pack("{s:s, s:I}", "index", walking.desk.index->name,
                                         "records", (json_int_t)count));
    else if (status == HF_OK)
        output_print(&cli->out, "%" PRIu64 "\n", count);
    index_desk_close(&walking.desk);
    return status;
}
