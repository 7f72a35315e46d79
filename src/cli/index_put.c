/* index_put.c: `index create` and `index put`: one record, or all rows of a file, into the inbox or
 * straight into shards. */
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/index.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Creating ------------------------------------------------------------------------ */

/* The names of --fields, cut out of a copy of it. */
static enum hf_status take_fields(struct cli *cli, struct hf_index_options *options)
{
    struct view text = arena_copy(&cli->arena, cli_option(cli, "fields")->text);
    const char **fields = arena_take(&cli->arena, (text.size + 1) * sizeof *fields);
    size_t count = 0;
    if (!text.data || !fields)
        return error_no_memory(&cli->error);
    if (text.size == 0)
        return error_set(&cli->error, HF_INVALID, "an index needs fields: --fields a,b,c");
    for (bool more = true; more; count++) {
        more = view_find(text, ',') < text.size;
        struct view name = arena_copy(&cli->arena, view_cut(&text, ','));
        if (!name.data)
            return error_no_memory(&cli->error);
        if (name.size == 0)
            return error_set(&cli->error, HF_INVALID,
                             "--fields takes names with a comma between them, and name %zu is "
                             "empty",
                             count + 1);
        fields[count] = name.data;
    }
    options->fields = fields;
    options->field_count = count;
    return HF_OK;
}

static enum hf_status take_index_options(struct cli *cli, struct hf_index_options *options)
{
    const struct option_value *digits = cli_option(cli, "digits");
    enum hf_status status = take_fields(cli, options);
    if (status != HF_OK)
        return status;
    if (digits && (digits->number == 0 || digits->number > HF_INDEX_DIGITS_MAX))
        return error_set(&cli->error, HF_INVALID, "--digits takes 1 to %d, not %.*s",
                         HF_INDEX_DIGITS_MAX, VIEW_ARGS(view_first(digits->text, 40)));
    options->key = cli_option(cli, "key")->text.data;
    options->time = cli_option(cli, "time")->text.data;
    options->digits = digits ? (unsigned)digits->number : 0;
    options->no_foreign = cli_given(cli, "no-foreign");
    return HF_OK;
}

static void tell_made(struct cli *cli, enum hf_index_made made,
                      const struct hf_index_info *info)
{
    if (cli->json) {
        json_t *object = json_object();
        json_add_words(&object, "index", cli_argument(cli, 0));
        json_add(&object, "made", json_string(hf_index_made_name(made)));
        json_add_count(&object, "version", info->version);
        json_add_count(&object, "fields", info->field_count);
        json_add_count(&object, "shards", info->shards);
        output_json(&cli->out, object);
        return;
    }
    if (cli->quiet)
        return;
    output_print(&cli->out, "%s index %s", hf_index_made_name(made), cli->arguments[0]);
    if (made == HF_INDEX_EXTENDED)
        output_print(&cli->out, " to version %zu", info->version);
    output_text(&cli->out, ": ");
    output_count(&cli->out, info->field_count, "field");
    output_text(&cli->out, ", ");
    output_count(&cli->out, info->shards, "shard");
    output_text(&cli->out, "\n");
}

enum hf_status run_index_create(struct cli *cli)
{
    struct hf_index_options options = HF_INDEX_OPTIONS;
    struct index_desk desk = { .cli = cli, .info = HF_INDEX_INFO };
    enum hf_index_made made;
    enum hf_status status = take_index_options(cli, &options);
    if (status == HF_OK)
        status = cli_connect(cli, HF_CLIENT_OPTIONS, &desk.client);
    if (status == HF_OK)
        status = hf_index_create(desk.client, cli->arguments[0], &options, &made, &desk.index,
                                 &cli->error);
    if (status == HF_OK)
        status = hf_index_describe(desk.index, &desk.info, &cli->error);
    if (status == HF_OK)
        tell_made(cli, made, &desk.info);
    index_desk_close(&desk);
    return status;
}

/* ---- One record ---------------------------------------------------------------------- */

/* Reads FIELD=VALUE for each argument behind the name. */
static enum hf_status take_values(struct cli *cli, struct hf_index_value *values)
{
    for (size_t i = 1; i < cli->argument_count; i++) {
        struct view value = cli_argument(cli, i), whole = value;
        struct view name = arena_copy(&cli->arena, view_cut(&value, '='));
        if (!name.data)
            return error_no_memory(&cli->error);
        if (name.size == whole.size)
            return error_set(&cli->error, HF_INVALID,
                             "a field is given as FIELD=VALUE, not as '%.*s'",
                             VIEW_ARGS(view_first(whole, 60)));
        values[i - 1] = (struct hf_index_value){ name.data, value.data };
    }
    return HF_OK;
}

static void tell_one(const struct index_desk *desk, const struct hf_index_value *values,
                     size_t count)
{
    struct cli *cli = desk->cli;
    const char *key_field = hf_index_field_name(desk->index, desk->info.key);
    if (cli->json) {
        json_t *object = json_object();
        json_add_count(&object, "records", 1);
        json_add_count(&object, "refused", 0);
        output_json(&cli->out, object);
        return;
    }
    for (size_t i = 0; i < count && !cli->quiet; i++)
        if (strcmp(values[i].field, key_field) == 0) {
            output_text(&cli->out, "put ");
            output_words(&cli->out, view_of(values[i].value));
            output_text(&cli->out, "\n");
        }
}

static enum hf_status put_one(struct cli *cli)
{
    struct index_desk desk;
    size_t count = cli->argument_count - 1;
    struct hf_index_value *values = arena_take(&cli->arena, count * sizeof *values);
    if (!values)
        return error_no_memory(&cli->error);
    enum hf_status status = index_desk_open(&desk, cli);
    if (status == HF_OK)
        status = take_values(cli, values);
    if (status == HF_OK)
        status = hf_index_put(desk.index, values, count, &cli->error);
    if (status == HF_OK)
        tell_one(&desk, values, count);
    index_desk_close(&desk);
    return status;
}

/* ---- Many rows ----------------------------------------------------------------------- */

#define REFUSALS_SHOWN 10

struct loading {
    struct index_desk desk;
    struct hf_index_load_options options;
    struct hf_index_load_report report;
    uint64_t size; /* of the file; 0: nobody knows */
    struct gauge gauge;
    uint64_t refusals_shown;
    struct hf_error trouble; /* of the first shard that is damaged */
};

static bool show_loaded(void *argument, const struct hf_index_load_report *so_far)
{
    struct loading *loading = argument;
    gauge_step(&loading->gauge, so_far->bytes_read, loading->size);
    return !interrupted();
}

static void show_refused(void *argument, uint64_t line, const struct hf_error *why)
{
    struct loading *loading = argument;
    struct cli *cli = loading->desk.cli;
    struct hf_error told = *why;
    if (loading->refusals_shown++ >= REFUSALS_SHOWN)
        return;
    gauge_clear(&loading->gauge);
    error_prefix(&told, "line %" PRIu64, line);
    cli_report(cli, cli_argument(cli, 0), &told);
}

static void note_trouble(void *argument, const struct hf_error *why)
{
    struct loading *loading = argument;
    if (loading->trouble.status == HF_OK)
        loading->trouble = *why;
}

static void tell_json(const struct loading *loading)
{
    const struct hf_index_load_report *report = &loading->report;
    json_t *object = json_object();
    json_add_count(&object, "records", report->records);
    json_add_count(&object, "refused", report->refused);
    json_add_bool(&object, "stopped", interrupted());
    json_add_count(&object, "up_to_line", report->up_to_line);
    json_add_bool(&object, "folded", loading->options.straight);
    if (loading->options.straight) {
        json_add_count(&object, "shards", report->shards);
        json_add_count(&object, "straight", report->straight);
        json_add_count(&object, "by_inbox", report->records - report->straight);
        json_add_count(&object, "held", report->held);
        json_add_count(&object, "few", report->few);
        json_add_count(&object, "damaged", report->damaged);
    }
    output_json(&loading->desk.cli->out, object);
}

/* ": 40 straight into 3 shards, 2 into the inbox of shards that are held" */
static void tell_ways(struct output *out, const struct hf_index_load_report *report)
{
    const struct {
        uint64_t count;
        const char *words;
    } ways[] = { { report->straight, "straight into " },
                 { report->held, "into the inbox of shards that are held" },
                 { report->few, "into the inbox of shards that get few" },
                 { report->damaged, "into the inbox of shards that are damaged" } };
    const char *before = ": ";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].count == 0)
            continue;
        output_print(out, "%s%" PRIu64 " ", before, ways[i].count);
        output_text(out, ways[i].words);
        if (i == 0)
            output_count(out, report->shards, "shard");
        before = ", ";
    }
}

static void tell_loaded(const struct loading *loading)
{
    struct cli *cli = loading->desk.cli;
    const struct hf_index_load_report *report = &loading->report;
    if (cli->json)
        tell_json(loading);
    if (cli->json || cli->quiet)
        return;
    output_text(&cli->out, "put ");
    output_count(&cli->out, report->records, "record");
    if (loading->options.straight)
        tell_ways(&cli->out, report);
    if (report->refused > 0) {
        output_text(&cli->out, "; refused ");
        output_count(&cli->out, report->refused, "row");
    }
    if (interrupted() && report->up_to_line > 0)
        output_print(&cli->out, "; stopped: all up to line %" PRIu64 " is in the index",
                     report->up_to_line);
    else if (interrupted())
        output_text(&cli->out, "; stopped: put all again, which does no harm");
    output_text(&cli->out, "\n");
}

/* What is there by now is there to stay, and the rest can be put again from this line on. */
static enum hf_status end_load(struct loading *loading, enum hf_status status)
{
    struct cli *cli = loading->desk.cli;
    const struct hf_index_load_report *report = &loading->report;
    if (status == HF_CANCELLED)
        interrupt_check(&cli->error);
    if (report->complete || interrupted())
        tell_loaded(loading);
    if (!report->complete) {
        if (report->up_to_line > 0)
            error_prefix(&cli->error, "all up to line %" PRIu64 " is in the index; then",
                         report->up_to_line);
        return status;
    }
    if (loading->trouble.status == HF_OK)
        return status;
    if (report->refused > 0)
        cli_report(cli, cli_argument(cli, 0), &cli->error);
    cli->error = loading->trouble;
    return cli->error.status;
}

/* ---- Where rows come from ------------------------------------------------------------ */

static enum hf_status take_file_format(struct cli *cli, struct view path,
                                       enum hf_index_format *ret_format)
{
    if (cli_given(cli, "format"))
        return index_format_option(cli, HF_INDEX_USV, ret_format);
    if (hf_index_format_of_path(path.data, ret_format))
        return HF_OK;
    return error_set(&cli->error, HF_INVALID,
                     "cannot determine the format of '%.*s': say --format usv, csv, tsv or "
                     "ndjson",
                     VIEW_ARGS(view_first(path, 80)));
}

static enum hf_status open_rows(struct cli *cli, struct view path, int *ret_fd,
                                uint64_t *ret_size)
{
    struct stat info;
    bool is_stdin = view_equal(path, VIEW("-"));
    int fd = is_stdin ? STDIN_FILENO : open(path.data, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return error_cannot_open(&cli->error, errno, path.data);
    }
    *ret_fd = fd;
    *ret_size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    if (!S_ISDIR(info.st_mode))
        return HF_OK;
    return error_set(&cli->error, HF_INVALID, "'%.120s' is a folder, not a file", path.data);
}

static enum hf_status put_file(struct loading *loading, struct view path,
                               enum hf_index_format format)
{
    struct cli *cli = loading->desk.cli;
    int fd = -1;
    enum hf_status status = open_rows(cli, path, &fd, &loading->size);
    if (status == HF_OK) {
        gauge_start(&loading->gauge, cli, VIEW("put"));
        status = hf_index_load(loading->desk.index, fd, format, &loading->options,
                               &loading->report, &cli->error);
        gauge_clear(&loading->gauge);
        status = end_load(loading, status);
    }
    if (fd > STDERR_FILENO)
        close(fd);
    return status;
}

static enum hf_status put_many(struct cli *cli, struct view path)
{
    struct loading loading = { .options = HF_INDEX_LOAD_OPTIONS,
                               .report = HF_INDEX_LOAD_REPORT };
    enum hf_index_format format;
    const struct option_value *wait = cli_option(cli, "wait");
    loading.options.straight = cli_given(cli, "fold");
    loading.options.progress = show_loaded;
    loading.options.refused = show_refused;
    loading.options.trouble = note_trouble;
    loading.options.argument = &loading;
    if (wait)
        loading.options.wait_ms = wait->span.us / 1000;
    if (wait && !loading.options.straight)
        return error_set(&cli->error, HF_INVALID, "--wait goes with --fold");
    enum hf_status status = take_file_format(cli, path, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&loading.desk, cli);
    if (status == HF_OK)
        status = put_file(&loading, path, format);
    index_desk_close(&loading.desk);
    return status;
}

enum hf_status run_index_put(struct cli *cli)
{
    const struct option_value *from = cli_option(cli, "from");
    if (from && cli->argument_count > 1)
        return error_set(&cli->error, HF_INVALID,
                         "fields of one record and --from cannot be used together");
    if (from)
        return put_many(cli, from->text);
    static const char *const of_files[] = { "format", "fold", "wait" };
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (cli_given(cli, of_files[i]))
            return error_set(&cli->error, HF_INVALID, "--%s goes with --from", of_files[i]);
    if (cli->argument_count == 1)
        return error_set(&cli->error, HF_INVALID,
                         "name fields of a record as FIELD=VALUE, or a file with --from");
    return put_one(cli);
}
