/* SPDX-License-Identifier: Apache-2.0 */
/* put.c: `index create`, `index put` and `index rm`: puts one record, or all rows of a file, into
 * the inbox or directly into shards; deletes keys. */
#include "cli/files.h"
#include "cli/index/index.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Creating ------------------------------------------------------------------------ */

/* Splits --fields into field names. */
static enum hf_status take_field_names(struct cli *cli, struct hf_index_options *options)
{
    struct view text = cli_option(cli, "fields")->text;
    struct names fields = { .arena = &cli->arena };
    if (text.size == 0)
        return cli_invalid(cli, "an index needs fields: --fields a,b,c");
    for (bool more = true; more;) {
        more = view_find(text, ',') < text.size;
        struct view name = view_cut(&text, ',');
        if (name.size == 0)
            return cli_invalid(
                cli, "--fields takes names separated by commas, but name %zu is empty",
                fields.count + 1);
        if (!names_add(&fields, name))
            return error_no_memory(&cli->error);
    }
    options->fields = fields.names;
    options->field_count = fields.count;
    return HF_OK;
}

struct told_index {
    const char *index;
    enum hf_index_made made;
    struct hf_index_info info;
    bool extended;
};

const struct field made_index_record[] = MADE_INDEX_RECORD;

enum hf_status run_index_create(struct cli *cli)
{
    struct hf_index_options options = HF_INDEX_OPTIONS;
    struct told_index told = { .index = cli->arguments[0], .info = HF_INDEX_INFO };
    const struct option_value *digits = cli_option(cli, "digits");
    enum hf_status status = take_field_names(cli, &options);
    if (status != HF_OK)
        return status;
    if (digits && (digits->number == 0 || digits->number > HF_INDEX_DIGITS_MAX))
        return cli_invalid(cli, "--digits takes 1 to %d, not %.*s", HF_INDEX_DIGITS_MAX,
                           VIEW_ARGS(view_first(digits->text, 40)));
    options.key = option_text(cli, "key");
    options.time = option_text(cli, "time");
    options.digits = digits ? (unsigned)digits->number : 0;
    options.no_foreign = cli_given(cli, "no-foreign");
    options.zone = option_text(cli, "zone");
    options.plain = cli_given(cli, "plain");
    status = cli_connect(cli);
    if (status == HF_OK)
        status = hf_index_create(cli->client, told.index, &options, &told.made, &cli->index,
                                 &cli->error);
    if (status == HF_OK)
        status = hf_index_describe(cli->index, &told.info, &cli->error);
    told.extended = told.made == HF_INDEX_EXTENDED;
    if (status == HF_OK)
        record_tell(cli, made_index_record, &told, MADE_INDEX_TEXT);
    return status;
}

/* ---- One record ---------------------------------------------------------------------- */

/* The result of a put. For a single record, only the count and the key are set. */
struct loaded {
    struct hf_index_load_report report;
    bool of_file, stopped, folded;
    uint64_t by_inbox;
    const char *key; /* of the single record */
};

const struct field loaded_record[] = LOADED_RECORD;

/* Each argument after the name of the index is FIELD=VALUE. */
static enum hf_status put_record(struct cli *cli)
{
    size_t count = cli->argument_count - 1;
    struct hf_index_value *values = arena_take(&cli->arena, count * sizeof *values);
    struct loaded loaded = { .report.records = 1 };
    if (!values)
        return error_no_memory(&cli->error);
    enum hf_status status = cli_open_index(cli);
    if (status != HF_OK)
        return status;
    const char *key_field = hf_index_field_name(cli->index, cli->info.key);
    for (size_t i = 0; i < count; i++) {
        struct view value = cli_argument(cli, i + 1), whole = value;
        struct view name = arena_copy(&cli->arena, view_cut(&value, '='));
        if (!name.data)
            return error_no_memory(&cli->error);
        if (name.size == whole.size)
            return cli_invalid(cli, "'%.*s' is not of the form FIELD=VALUE",
                               VIEW_ARGS(view_first(whole, 60)));
        values[i] = (struct hf_index_value){ name.data, value.data };
        if (strcmp(name.data, key_field) == 0)
            loaded.key = value.data;
    }
    status = hf_index_put(cli->index, values, count, &cli->error);
    if (status == HF_OK)
        record_tell(cli, loaded_record, &loaded, "[put {key}\n]");
    return status;
}

/* ---- Many rows ----------------------------------------------------------------------- */

#define REFUSALS_SHOWN 10

struct loading {
    struct cli *cli;
    struct hf_index_load_options options;
    struct hf_index_load_report report;
    uint64_t size; /* of the file; 0: unknown */
    struct gauge gauge;
    uint64_t refusals_shown;
    struct hf_error trouble; /* the error of the first damaged shard */
};

static bool show_loaded(void *argument, const struct hf_index_load_report *so_far)
{
    struct loading *loading = argument;
    gauge_step(&loading->gauge, so_far->bytes_read, loading->size);
    return !interrupted();
}

static void report_refused(void *argument, uint64_t line, const struct hf_error *why)
{
    struct loading *loading = argument;
    struct hf_error told = *why;
    if (loading->refusals_shown++ >= REFUSALS_SHOWN)
        return;
    gauge_clear(&loading->gauge);
    error_prefix(&told, "line %" PRIu64, line);
    cli_report(loading->cli, cli_argument(loading->cli, 0), &told);
}

static void print_damaged_shard(void *argument, const struct hf_error *why)
{
    struct loading *loading = argument;
    if (loading->trouble.status == HF_OK)
        loading->trouble = *why;
}

/* After a failure, the records put so far remain in the index. The error names the line after which
 * the user can continue. */
static enum hf_status end_load(struct loading *loading, enum hf_status status)
{
    struct cli *cli = loading->cli;
    const struct hf_index_load_report *report = &loading->report;
    struct loaded loaded = { .report = *report,
                             .of_file = true,
                             .stopped = interrupted(),
                             .folded = loading->options.straight,
                             .by_inbox = report->records - report->straight };
    if (status == HF_CANCELLED)
        interrupt_check(&cli->error);
    if (report->complete || loaded.stopped)
        record_tell(cli, loaded_record, &loaded, LOADED_TEXT);
    if (!report->complete) {
        if (report->up_to_line > 0)
            error_prefix(&cli->error, "stopped; all lines up to %" PRIu64 " are in the index",
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

static enum hf_status open_rows(struct cli *cli, const char *path, int *ret_fd,
                                uint64_t *ret_size)
{
    struct stat info;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0)
        return error_cannot_open(&cli->error, errno, path);
    *ret_fd = fd;
    *ret_size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    return S_ISDIR(info.st_mode) ? cli_invalid(cli, "'%.120s' is a folder, not a file", path)
                                 : HF_OK;
}

static enum hf_status put_rows(struct cli *cli, const char *path)
{
    struct loading loading = { .cli = cli,
                               .options = HF_INDEX_LOAD_OPTIONS,
                               .report = HF_INDEX_LOAD_REPORT };
    enum hf_index_format format;
    enum hf_status status = HF_OK;
    int fd = -1;
    loading.options.straight = cli_given(cli, "fold");
    loading.options.progress = show_loaded;
    loading.options.refused = report_refused;
    loading.options.trouble = print_damaged_shard;
    loading.options.argument = &loading;
    loading.options.wait_ms = option_ms(cli, "wait", loading.options.wait_ms);
    if (cli_given(cli, "wait") && !loading.options.straight)
        return cli_invalid(cli, "--wait requires --fold");
    if (cli_given(cli, "format"))
        status = index_format_option(cli, HF_INDEX_USV, &format);
    else if (!hf_index_format_of_path(path, &format))
        status = cli_invalid(
            cli, "cannot determine the format of '%.80s'; use --format usv, csv, tsv or ndjson",
            path);
    if (status == HF_OK)
        status = cli_open_index(cli);
    if (status == HF_OK)
        status = open_rows(cli, path, &fd, &loading.size);
    if (status == HF_OK) {
        gauge_start(&loading.gauge, cli, VIEW("put"));
        status = hf_index_load(cli->index, fd, format, &loading.options, &loading.report,
                               &cli->error);
        gauge_clear(&loading.gauge);
        status = end_load(&loading, status);
    }
    if (fd > STDERR_FILENO)
        close(fd);
    return status;
}

enum hf_status run_index_put(struct cli *cli)
{
    static const char *const of_files[] = { "format", "fold", "wait" };
    const char *from = option_text(cli, "from");
    if (from && cli->argument_count > 1)
        return cli_invalid(cli, "fields of one record and --from cannot be used together");
    if (from)
        return put_rows(cli, from);
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (cli_given(cli, of_files[i]))
            return cli_invalid(cli, "--%s requires --from", of_files[i]);
    if (cli->argument_count == 1)
        return cli_invalid(
            cli, "no record was given; pass fields as FIELD=VALUE, or a file with --from");
    return put_record(cli);
}

/* ---- Deleting ------------------------------------------------------------------------ */

struct deleted_keys {
    const char *index;
    uint64_t deleted;
    const char *time;
};

const struct field deleted_keys_record[] = DELETED_KEYS_RECORD;

enum hf_status run_index_rm(struct cli *cli)
{
    struct names keys = { .arena = &cli->arena };
    struct deleted_keys deleted = { .index = cli->arguments[0],
                                    .time = option_text(cli, "time") };
    enum hf_status status = take_key_arguments(cli, &keys);
    if (status == HF_OK)
        status = cli_open_index(cli);
    if (status == HF_OK)
        status = hf_index_delete(cli->index, keys.names, keys.count, deleted.time,
                                 /* ret_bad */ NULL, &cli->error);
    deleted.deleted = keys.count;
    if (status == HF_OK)
        record_tell(cli, deleted_keys_record, &deleted,
                    "deleted {deleted key} from {index}[ as of {time}]\n");
    return index_option_error(cli, status);
}

/* ---- Dropping ------------------------------------------------------------------------ */

struct dropped_index {
    const char *index;
    bool dry_run;
    struct hf_index_drop_report report;
};

const struct field dropped_index_record[] = DROPPED_INDEX_RECORD;

static bool index_drop_goes_on(void *argument)
{
    (void)argument;
    return !interrupted();
}

enum hf_status run_index_drop(struct cli *cli)
{
    struct dropped_index dropped = { .index = cli->arguments[0],
                                     .dry_run = cli_given(cli, "dry-run"),
                                     .report = HF_INDEX_DROP_REPORT };
    struct hf_index_drop_options options = HF_INDEX_DROP_OPTIONS;
    options.dry_run = dropped.dry_run;
    options.progress = index_drop_goes_on;
    enum hf_status status = cli_connect(cli);
    if (status == HF_OK)
        status =
            hf_index_drop(cli->client, dropped.index, &options, &dropped.report, &cli->error);
    if (status == HF_OK)
        record_tell(cli, dropped_index_record, &dropped, DROPPED_INDEX_TEXT);
    return status;
}
