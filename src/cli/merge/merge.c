/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c: `merge`: merges files of records into one file. It uses no lock, and a store only for
 * inputs and outputs that are given by URL. */
#include "base/instant.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/merge/ends.h"
#include "cli/output/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct merge {
    struct cli *cli;
    struct merge_ends ends;
    struct hf_merge_options options;
    struct hf_merge_report report;
    struct gauge gauge;
};

/* ---- Options ------------------------------------------------------------------------- */

#define FORMAT(name) (1U << HF_MERGE_##name)
#define RECORDS      (FORMAT(USV) | FORMAT(CSV) | FORMAT(TSV) | FORMAT(NDJSON))
#define WITH_FIELDS  (RECORDS | FORMAT(PARQUET))
#define IN_WORDS     "usv, csv, tsv, ndjson or parquet"

/* An option that does not apply to the format is refused, not silently ignored. */
static const struct {
    const char *option;
    unsigned formats;
    const char *in_words;
} belongings[] = {
    { "key", WITH_FIELDS, IN_WORDS },
    { "time", WITH_FIELDS, IN_WORDS },
    { "zone", RECORDS, "usv, csv, tsv or ndjson" },
    { "deleted-field", WITH_FIELDS, IN_WORDS },
    { "drop-deleted", WITH_FIELDS, IN_WORDS },
    { "all-files", WITH_FIELDS, IN_WORDS },
    { "no-header", FORMAT(CSV) | FORMAT(TSV), "csv or tsv" },
    { "compress", RECORDS | FORMAT(CONCAT), "usv, csv, tsv, ndjson or concat" },
    { "max-record", RECORDS, "usv, csv, tsv or ndjson" },
    { "max-rejects", WITH_FIELDS, IN_WORDS },
    { "rejects", WITH_FIELDS, IN_WORDS },
    { "command", FORMAT(EXEC), "exec" },
    { "time-limit", FORMAT(EXEC) | FORMAT(PARQUET), "exec or parquet" },
    { "limit-memory", FORMAT(EXEC), "exec" },
    { "limit-cpu", FORMAT(EXEC), "exec" },
    { "limit-file", FORMAT(EXEC), "exec" },
};

static enum hf_status check_belongings(struct cli *cli, enum hf_merge_format format)
{
    for (size_t i = 0; i < sizeof belongings / sizeof belongings[0]; i++)
        if (cli_given(cli, belongings[i].option) && !(belongings[i].formats & 1U << format))
            return cli_invalid(cli, "--%s applies to the format %s, not to %s",
                               belongings[i].option, belongings[i].in_words,
                               hf_merge_format_name(format));
    bool by_record = WITH_FIELDS & 1U << format;
    if (by_record && !cli_given(cli, "key") && !cli_given(cli, "time"))
        return cli_invalid(cli, "no field to merge by was given: use --key, --time, or both to "
                                "keep the latest record of each key");
    if (format == HF_MERGE_EXEC && !cli_given(cli, "command"))
        return cli_invalid(cli, "the format exec requires --command");
    return HF_OK;
}

/* Reads a size option, if it was given. The error states the bounds in bytes, MiB or GiB. */
static enum hf_status take_size(struct cli *cli, const char *name, uint64_t least,
                                uint64_t most, uint64_t *size)
{
    const struct option_value *value = cli_option(cli, name);
    if (value && (value->number < least || value->number > most))
        return cli_invalid(cli, "--%s takes %" PRIu64 "%s to %" PRIu64 "GiB, not %.*s", name,
                           least < MIB ? least : least / MIB, least < MIB ? "B" : "MiB",
                           most / GIB, VIEW_ARGS(view_first(value->text, 40)));
    *size = option_number(cli, name, *size);
    return HF_OK;
}

/* Rounds up, because 0 would mean no limit. */
static int64_t limit_ms(struct cli *cli, const char *name, int64_t otherwise)
{
    const struct option_value *value = cli_option(cli, name);
    return value ? (value->span.us + 999) / 1000 : otherwise;
}

/* For the library, a limit of 0 means no limit, so 0 is refused here. */
static enum hf_status take_limits(struct cli *cli, struct hf_merge_options *options)
{
    static const char *const names[] = { "time-limit", "limit-cpu", "limit-memory",
                                         "limit-file" };
    const struct option_value *threads = cli_option(cli, "threads");
    enum hf_status status = take_size(cli, "memory", HF_MERGE_MEMORY_MIN, HF_MERGE_MEMORY_MAX,
                                      &options->memory_bytes);
    if (status == HF_OK)
        status =
            take_size(cli, "max-record", 1, HF_MERGE_RECORD_MAX, &options->record_bytes_max);
    if (status != HF_OK)
        return status;
    if (threads && (threads->number < 1 || threads->number > HF_MERGE_THREADS_MAX))
        return cli_invalid(cli, "--threads takes 1 to %d, not %.*s", HF_MERGE_THREADS_MAX,
                           VIEW_ARGS(view_first(threads->text, 40)));
    for (size_t i = 0; i < 4; i++) {
        const struct option_value *value = cli_option(cli, names[i]);
        if (value && value->number == 0 && value->span.us == 0)
            return cli_invalid(cli, "--%s must be greater than 0", names[i]);
    }
    options->threads = (unsigned)option_number(cli, "threads", options->threads);
    options->rejects_max = option_number(cli, "max-rejects", options->rejects_max);
    options->command = option_text(cli, "command");
    options->command_limit_ms = limit_ms(cli, "time-limit", options->command_limit_ms);
    options->command_cpu_ms = limit_ms(cli, "limit-cpu", options->command_cpu_ms);
    options->command_memory_max =
        option_number(cli, "limit-memory", options->command_memory_max);
    options->command_file_max = option_number(cli, "limit-file", options->command_file_max);
    return HF_OK;
}

/* The default for --rejects is the output's name plus ".rejects". */
static enum hf_status take_file_names(struct merge *merge)
{
    struct cli *cli = merge->cli;
    const char *rejects = option_text(cli, "rejects"), *output = option_text(cli, "output");
    enum hf_status status = merge_ends_check(&merge->ends, cli, output);
    if (status != HF_OK)
        return status;
    merge->options.reject_path = rejects;
    if (rejects && (!rejects[0] || is_stdout(rejects) || place_is_object(cli, rejects)))
        return cli_invalid(cli, "--rejects takes the name of a local file, not '%.60s'",
                           rejects);
    if (rejects || merge->ends.to_stream || merge->ends.to_object)
        return HF_OK;
    size_t size = strlen(output) + sizeof ".rejects";
    char *path = arena_take(&cli->arena, size);
    if (!path)
        return error_no_memory(&cli->error);
    snprintf(path, size, "%s.rejects", output);
    merge->options.reject_path = path;
    return HF_OK;
}

static enum hf_status take_deletions(struct cli *cli, struct hf_merge_options *options)
{
    options->deleted = option_text(cli, "deleted-field");
    options->drop_deleted = cli_given(cli, "drop-deleted");
    options->inputs_are_all = cli_given(cli, "all-files");
    if (options->deleted && !(options->key && options->time))
        return cli_invalid(cli,
                           "--deleted-field requires --key and --time: a deletion replaces "
                           "the earlier records of its key");
    if (options->drop_deleted && !options->deleted)
        return cli_invalid(cli, "--drop-deleted requires --deleted-field");
    if (options->drop_deleted != options->inputs_are_all)
        return cli_invalid(
            cli, "--drop-deleted and --all-files must be given together: if these were not all "
                 "files there are, an earlier record in another file would come back");
    return HF_OK;
}

/* By default, the suffix of the output's name selects the compression. */
static enum hf_status take_merge_options(struct merge *merge)
{
    struct cli *cli = merge->cli;
    struct hf_merge_options *options = &merge->options;
    const char *compress = option_text(cli, "compress");
    int64_t east_s;
    enum hf_status status =
        hf_merge_format_parse(option_text(cli, "format"), &options->format, &cli->error);
    if (status != HF_OK) {
        error_prefix(&cli->error, "--format");
        return status;
    }
    status = check_belongings(cli, options->format);
    if (status == HF_OK)
        status = take_file_names(merge);
    if (status == HF_OK)
        status = take_limits(cli, options);
    if (status != HF_OK)
        return status;
    if (compress && hf_merge_coding_parse(compress, &options->coding, &cli->error) != HF_OK) {
        error_prefix(&cli->error, "--compress");
        return cli->error.status;
    }
    options->key = option_text(cli, "key");
    options->time = option_text(cli, "time");
    options->zone = option_text(cli, "zone");
    options->headless = cli_given(cli, "no-header");
    if (options->rejects_max > 0 && !options->reject_path && (RECORDS & 1U << options->format))
        return cli_invalid(cli, "--max-rejects requires --rejects FILE if the output is not a "
                                "local file");
    status = take_deletions(cli, options);
    if (status != HF_OK)
        return status;
    if (options->zone && !options->time)
        return cli_invalid(cli, "--zone requires --time");
    if (options->zone && !zone_parse(view_of(options->zone), &east_s))
        return cli_invalid(cli, "--zone takes UTC or an offset such as +02:00, not '%.40s'",
                           options->zone);
    return HF_OK;
}

/* ---- Output -------------------------------------------------------------------------- */

static void add_reasons(const struct merge *merge, struct record_list *reasons)
{
    for (size_t i = 0; i < merge->report.reason_count; i++) {
        struct buffer text = BUFFER_INIT(8 * HF_WHY_MAX);
        escape_append(&text, view_of(merge->report.reasons[i]));
        if (merge->cli->json)
            record_list_push(reasons, json_stringn(text.data, text.size));
        else
            buffer_print(record_list_line(reasons), "  rejected: %.*s\n",
                         VIEW_ARGS(buffer_view(&text)));
        buffer_release(&text);
    }
}

/* The result of a merge, for its record. */
struct merged {
    const char *output;
    const char *etag; /* "": the output is not an object */
    enum hf_merge_format format;
    size_t inputs;
    struct hf_merge_report report;
    const char *rejects; /* NULL: none */
    struct record_list reasons;
};

const struct field merged_record[] = MERGED_RECORD;

/* Prints "merged 3 files into out.csv (1.5 MiB): 20 rows in, 12 out, 7 superseded, 1 rejected". If
 * the records themselves go to stdout, only --json prints this, to stderr. */
static void print_merged(const struct merge *merge)
{
    const struct hf_merge_report *result = &merge->report;
    struct merged merged = { .output = merge->ends.output,
                             .etag = merge->ends.target.info.etag,
                             .format = merge->options.format,
                             .inputs = merge->cli->argument_count,
                             .report = *result };
    if (result->rows_counted && result->rows_rejected > 0)
        merged.rejects = merge->options.reject_path;
    add_reasons(merge, &merged.reasons);
    if (!merge->ends.to_stdout)
        record_tell(merge->cli, merged_record, &merged, MERGED_TEXT);
    else if (merge->cli->json)
        write_error_line(record_json(merged_record, &merged));
    record_list_release(&merged.reasons);
}

static void print_merge_remark(const char *what, const char *text, const char *then)
{
    struct buffer escaped = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&escaped, view_of(text));
    fprintf(stderr, "holdfast: merge: %s%.*s%s\n", what, VIEW_ARGS(buffer_view(&escaped)),
            then);
    buffer_release(&escaped);
}

/* With --json, the reasons are members of the error. */
static void report_failed_merge(const struct merge *merge)
{
    struct cli *cli = merge->cli;
    const struct hf_merge_report *report = &merge->report;
    struct record_list reasons = { .count = 0 };
    bool as_json = cli->json && report->reason_count > 0;
    if (report->zone_missing)
        cli_invalid(cli, "%s; give the zone, such as --zone UTC or --zone +02:00",
                    cli->error.why);
    if (as_json) {
        add_reasons(merge, &reasons);
        cli->refusal = json_object();
        json_add(&cli->refusal, "reasons", json_incref(reasons.items));
        if (report->rejects_kept)
            json_add_key(&cli->refusal, "rejects", view_of(merge->options.reject_path));
        record_list_release(&reasons);
    }
    cli_report(cli, view_of(merge->ends.output), &cli->error);
    cli->reported = true;
    if (as_json)
        return;
    for (size_t i = 0; i < report->reason_count; i++)
        print_merge_remark("rejected: ", report->reasons[i], "");
    if (report->rejects_kept)
        print_merge_remark("rejected records are in ", merge->options.reject_path,
                           "; correct them, or raise the limit with --max-rejects");
}

/* ---- The command --------------------------------------------------------------------- */

/* The progress of a merge command is unknown; only its running time can be shown. */
static bool show_merged(void *argument, const struct hf_merge_progress *progress)
{
    struct merge *merge = argument;
    struct gauge *gauge = &merge->gauge;
    bool is_parquet = merge->options.format == HF_MERGE_PARQUET;
    bool by_others = is_parquet || merge->options.format == HF_MERGE_EXEC;
    if (!by_others || progress->bytes_done > 0)
        return gauge_step(gauge, progress->bytes_done, progress->bytes_total);
    int64_t seconds = mono_since(env_now(gauge->env), gauge->start).us / 1000000;
    int64_t shown = mono_since(gauge->last_shown, gauge->start).us / 1000000;
    if (seconds > 0 && seconds > shown) {
        gauge_say(gauge, "merge  %s has been running for %" PRId64 "s",
                  is_parquet ? "DuckDB" : "the command", seconds);
        gauge->last_shown = env_now(gauge->env);
    }
    return !interrupted();
}

static void remove_unfinished(void *merge, enum hf_merge_part part, const char *path)
{
    (void)merge;
    interrupt_removes((size_t)part, path);
}

/* Compressed data would garble a terminal. */
static enum hf_status check_terminal(struct merge *merge)
{
    bool is_packed =
        merge->options.coding == HF_MERGE_GZIP || merge->options.coding == HF_MERGE_ZSTD;
    if (!is_packed || !merge->ends.to_stream || isatty(merge->ends.to.fd) != 1)
        return HF_OK;
    return cli_invalid(merge->cli, "compressed data is not written to a terminal; name a file");
}

static enum hf_status merge_ends_merge(struct merge *merge)
{
    struct cli *cli = merge->cli;
    struct merge_ends *ends = &merge->ends;
    enum hf_status status = merge_ends_open(ends);
    if (status == HF_OK)
        status = check_terminal(merge);
    if (status != HF_OK)
        return status;
    merge->options.input_names = ends->names;
    merge->options.output_name = ends->to_object ? ends->output : NULL;
    if (merge->options.format == HF_MERGE_EXEC || merge->options.format == HF_MERGE_PARQUET)
        signal(SIGCHLD, SIG_DFL); /* if ignored, the kernel would drop the exit status */
    gauge_start(&merge->gauge, cli, VIEW("merge"));
    status = hf_merge_files(ends->inputs, cli->argument_count, &ends->to, &merge->options,
                            &merge->report, &cli->error);
    gauge_clear(&merge->gauge);
    /* As in other filters, SIGPIPE ends the program if the reader of stdout is gone. */
    if (status == HF_CANCELLED && ends->to_stdout && !interrupted())
        cli->out.failed_errno = EPIPE;
    return status == HF_OK ? merge_ends_put(ends) : status;
}

enum hf_status run_merge(struct cli *cli)
{
    struct merge merge = { .cli = cli,
                           .ends = { .output = option_text(cli, "output") },
                           .options = HF_MERGE_OPTIONS,
                           .report = HF_MERGE_REPORT };
    merge.options.progress = show_merged;
    merge.options.unfinished = remove_unfinished;
    merge.options.argument = &merge;
    enum hf_status status = take_merge_options(&merge);
    if (status == HF_OK)
        status = merge_ends_merge(&merge);
    if (status == HF_OK)
        print_merged(&merge);
    else if (!interrupted() && !output_is_closed(&cli->out))
        report_failed_merge(&merge);
    merge_ends_close(&merge.ends);
    return status;
}
