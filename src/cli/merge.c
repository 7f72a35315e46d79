/* merge.c: `merge`: files of records into one. Knows no store and no lock. */
#include "base/instant.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct merge {
    struct cli *cli;
    const char *output;
    struct hf_merge_options options;
    struct hf_merge_report report;
    struct gauge gauge;
};

/* ---- Options ------------------------------------------------------------------------- */

#define FORMAT(name) (1U << HF_MERGE_##name)
#define RECORDS      (FORMAT(USV) | FORMAT(CSV) | FORMAT(TSV) | FORMAT(NDJSON))

/* An option that a format has no use for is refused rather than left unheard. */
static const struct {
    const char *option;
    unsigned formats;
    const char *in_words;
} belongings[] = {
    { "key", RECORDS, "usv, csv, tsv or ndjson" },
    { "time", RECORDS, "usv, csv, tsv or ndjson" },
    { "zone", RECORDS, "usv, csv, tsv or ndjson" },
    { "no-header", FORMAT(CSV) | FORMAT(TSV), "csv or tsv" },
    { "compress", RECORDS | FORMAT(CONCAT), "usv, csv, tsv, ndjson or concat" },
    { "max-record", RECORDS, "usv, csv, tsv or ndjson" },
    { "max-rejects", RECORDS, "usv, csv, tsv or ndjson" },
    { "rejects", RECORDS, "usv, csv, tsv or ndjson" },
    { "command", FORMAT(EXEC), "exec" },
    { "time-limit", FORMAT(EXEC), "exec" },
    { "limit-memory", FORMAT(EXEC), "exec" },
    { "limit-cpu", FORMAT(EXEC), "exec" },
    { "limit-file", FORMAT(EXEC), "exec" },
};

static enum hf_status check_belongings(struct merge *merge)
{
    struct cli *cli = merge->cli;
    enum hf_merge_format format = merge->options.format;
    for (size_t i = 0; i < sizeof belongings / sizeof belongings[0]; i++)
        if (cli_given(cli, belongings[i].option) && !(belongings[i].formats & 1U << format))
            return error_set(&cli->error, HF_INVALID,
                             "--%s is for the format %s, and means nothing for %s",
                             belongings[i].option, belongings[i].in_words,
                             hf_merge_format_name(format));
    bool by_record = RECORDS & 1U << format;
    if (by_record && !cli_given(cli, "key") && !cli_given(cli, "time"))
        return error_set(&cli->error, HF_INVALID,
                         "name the field to merge by: --key, --time, or both to keep the "
                         "latest record of each key");
    if (format == HF_MERGE_EXEC && !cli_given(cli, "command"))
        return error_set(&cli->error, HF_INVALID, "the format exec needs a --command");
    return HF_OK;
}

/* The option's number, if it was given, between two bounds. */
static enum hf_status take_number(struct cli *cli, const char *name, uint64_t least,
                                  uint64_t most, unsigned *number)
{
    const struct option_value *value = cli_option(cli, name);
    if (!value)
        return HF_OK;
    if (value->number < least || value->number > most)
        return error_set(&cli->error, HF_INVALID,
                         "--%s takes %" PRIu64 " to %" PRIu64 ", not %.*s", name, least, most,
                         VIEW_ARGS(view_first(value->text, 40)));
    *number = (unsigned)value->number;
    return HF_OK;
}

/* The same for bytes, in the largest unit that both bounds are whole in. */
static enum hf_status take_size(struct cli *cli, const char *name, uint64_t least,
                                uint64_t most, uint64_t *size)
{
    const struct option_value *value = cli_option(cli, name);
    if (!value)
        return HF_OK;
    if (value->number < least || value->number > most)
        return error_set(&cli->error, HF_INVALID,
                         "--%s takes %" PRIu64 "%s to %" PRIu64 "GiB, not %.*s", name,
                         least < MIB ? least : least / MIB, least < MIB ? "B" : "MiB",
                         most / GIB, VIEW_ARGS(view_first(value->text, 40)));
    *size = value->number;
    return HF_OK;
}

static enum hf_status take_sizes(struct merge *merge)
{
    struct cli *cli = merge->cli;
    struct hf_merge_options *options = &merge->options;
    enum hf_status status = take_size(cli, "memory", HF_MERGE_MEMORY_MIN, HF_MERGE_MEMORY_MAX,
                                      &options->memory_bytes);
    if (status == HF_OK)
        status =
            take_size(cli, "max-record", 1, HF_MERGE_RECORD_MAX, &options->record_bytes_max);
    if (status == HF_OK)
        status = take_number(cli, "threads", 1, HF_MERGE_THREADS_MAX, &options->threads);
    if (cli_given(cli, "max-rejects"))
        options->rejects_max = cli_option(cli, "max-rejects")->number;
    return status;
}

/* Less than a millisecond is one, not none. */
static int64_t round_up_ms(struct span span)
{
    return span.us / 1000 + (span.us % 1000 != 0);
}

/* A limit of 0 would mean none to the library. */
static enum hf_status take_limits(struct merge *merge)
{
    static const char *const names[] = { "time-limit", "limit-cpu", "limit-memory",
                                         "limit-file" };
    const struct option_value *values[4];
    struct cli *cli = merge->cli;
    for (size_t i = 0; i < 4; i++) {
        values[i] = cli_option(cli, names[i]);
        if (values[i] && values[i]->number == 0 && values[i]->span.us == 0)
            return error_set(&cli->error, HF_INVALID, "--%s must be above zero", names[i]);
    }
    struct hf_merge_options *options = &merge->options;
    if (cli_given(cli, "command"))
        options->command = cli_option(cli, "command")->text.data; /* a word of argv */
    if (values[0])
        options->command_limit_ms = round_up_ms(values[0]->span);
    if (values[1])
        options->command_cpu_ms = round_up_ms(values[1]->span);
    if (values[2])
        options->command_memory_max = values[2]->number;
    if (values[3])
        options->command_file_max = values[3]->number;
    return HF_OK;
}

/* Without it the output is compressed as its name ends. */
static enum hf_status take_coding(struct merge *merge)
{
    struct cli *cli = merge->cli;
    const struct option_value *value = cli_option(cli, "compress");
    if (!value)
        return HF_OK;
    enum hf_status status =
        hf_merge_coding_parse(value->text.data, &merge->options.coding, &cli->error);
    if (status != HF_OK)
        error_prefix(&cli->error, "--compress");
    return status;
}

/* ---- Files --------------------------------------------------------------------------- */

static enum hf_status check_path(struct cli *cli, const char *what, const char *path)
{
    if (path[0] == '\0')
        return error_set(&cli->error, HF_INVALID, "the name of the %s is empty", what);
    if (is_stdout(path) || is_stdin(path))
        return error_set(
            &cli->error, HF_INVALID,
            "the %s cannot be '%s', because it is replaced atomically; name a file (for a file "
            "called '-', write ./-)",
            what, path);
    return HF_OK;
}

static enum hf_status take_rejects(struct merge *merge)
{
    struct cli *cli = merge->cli;
    const struct option_value *value = cli_option(cli, "rejects");
    if (!value) {
        size_t size = strlen(merge->output) + sizeof ".rejects";
        char *path = arena_take(&cli->arena, size);
        if (!path)
            return error_no_memory(&cli->error);
        snprintf(path, size, "%s.rejects", merge->output);
        merge->options.reject_path = path;
        return HF_OK;
    }
    merge->options.reject_path = value->text.data; /* a word of argv */
    return check_path(cli, "reject file", merge->options.reject_path);
}

static enum hf_status take_files(struct merge *merge)
{
    struct cli *cli = merge->cli;
    enum hf_status status = check_path(cli, "output", merge->output);
    for (size_t i = 0; status == HF_OK && i < cli->argument_count; i++)
        status = check_path(cli, "input", cli->arguments[i]);
    return status == HF_OK ? take_rejects(merge) : status;
}

static enum hf_status take_fields(struct merge *merge)
{
    struct cli *cli = merge->cli;
    struct hf_merge_options *options = &merge->options;
    const struct option_value *zone = cli_option(cli, "zone");
    int64_t east_s;
    options->key = option_text(cli, "key");
    options->time = option_text(cli, "time");
    options->zone = option_text(cli, "zone");
    options->headless = cli_given(cli, "no-header");
    if (!zone)
        return HF_OK;
    if (!options->time)
        return error_set(&cli->error, HF_INVALID, "--zone is of no use without --time");
    if (!zone_parse(zone->text, &east_s))
        return error_set(&cli->error, HF_INVALID,
                         "--zone takes UTC or an offset such as +02:00, not '%.*s'",
                         VIEW_ARGS(view_first(zone->text, 40)));
    return HF_OK;
}

static enum hf_status take_options(struct merge *merge)
{
    struct cli *cli = merge->cli;
    struct hf_merge_options *options = &merge->options;
    enum hf_status status =
        hf_merge_format_parse(option_text(cli, "format"), &options->format, &cli->error);
    if (status != HF_OK) {
        error_prefix(&cli->error, "--format");
        return status;
    }
    status = check_belongings(merge);
    if (status == HF_OK)
        status = take_files(merge);
    if (status == HF_OK)
        status = take_sizes(merge);
    if (status == HF_OK)
        status = take_limits(merge);
    if (status == HF_OK)
        status = take_coding(merge);
    return status == HF_OK ? take_fields(merge) : status;
}

/* ---- What is told -------------------------------------------------------------------- */

static json_t *reasons_as_json(const struct hf_merge_report *result)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < result->reason_count; i++) {
        struct buffer text = BUFFER_INIT(8 * HF_WHY_MAX);
        escape_append(&text, view_of(result->reasons[i]));
        struct view shown = buffer_view(&text);
        json_array_append_new(list, json_stringn(shown.data, shown.size));
        buffer_release(&text);
    }
    return list;
}

static json_t *rows_as_json(const struct hf_merge_report *result, uint64_t rows)
{
    return result->rows_counted ? json_integer((json_int_t)rows) : json_null();
}

static json_t *summary_as_json(const struct merge *merge)
{
    const struct hf_merge_report *result = &merge->report;
    json_t *object = json_object();
    if (!object || !json_set_key(object, "output", view_of(merge->output)))
        goto out_of_memory;
    json_t *rest = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "format",
                             hf_merge_format_name(merge->options.format), "inputs",
                             (json_int_t)merge->cli->argument_count, "inputs_unsorted",
                             (json_int_t)result->inputs_unsorted, "rows_in",
                             rows_as_json(result, result->rows_in), "rows_out",
                             rows_as_json(result, result->rows_out), "rows_superseded",
                             rows_as_json(result, result->rows_superseded), "rows_rejected",
                             rows_as_json(result, result->rows_rejected));
    if (!rest || json_object_update_new(object, rest) != 0)
        goto out_of_memory;
    bool rejected = result->rows_counted && result->rows_rejected > 0;
    if (rejected ? !json_set_key(object, "rejects", view_of(merge->options.reject_path))
                 : json_object_set_new(object, "rejects", json_null()) != 0)
        goto out_of_memory;
    rest = json_pack("{s:o, s:I, s:I, s:I, s:I}", "reasons", reasons_as_json(result),
                     "input_bytes", (json_int_t)result->bytes_in, "output_bytes",
                     (json_int_t)result->bytes_out, "spilled_bytes",
                     (json_int_t)result->bytes_spilled, "took_ms", (json_int_t)result->took_ms);
    if (!rest || json_object_update_new(object, rest) != 0)
        goto out_of_memory;
    return object;

out_of_memory:
    json_decref(object);
    return NULL;
}

/* "merged 3 files into out.csv (1.5 MiB): of 20 rows in, 12 out, 7 superseded, 1 rejected" */
static void tell_summary(const struct merge *merge)
{
    const struct hf_merge_report *result = &merge->report;
    struct output *out = &merge->cli->out;
    char size[SIZE_TEXT_MAX];
    size_t inputs = merge->cli->argument_count;
    output_print(out, "merged %zu file%s into ", inputs, plural(inputs));
    output_key(out, view_of(merge->output));
    output_print(out, " (%s)", size_text(result->bytes_out, size));
    if (result->rows_counted)
        output_print(out,
                     ": %" PRIu64 " row%s in, %" PRIu64 " out, %" PRIu64 " superseded, %" PRIu64
                     " rejected",
                     result->rows_in, plural(result->rows_in), result->rows_out,
                     result->rows_superseded, result->rows_rejected);
    if (result->rows_rejected > 0) {
        output_text(out, " to ");
        output_key(out, view_of(merge->options.reject_path));
    }
    output_text(out, "\n");
    for (size_t i = 0; i < result->reason_count; i++) {
        output_text(out, "  rejected: ");
        output_key(out, view_of(result->reasons[i]));
        output_text(out, "\n");
    }
}

static void tell_success(const struct merge *merge)
{
    if (merge->cli->json)
        output_json(&merge->cli->out, summary_as_json(merge));
    else if (!merge->cli->quiet)
        tell_summary(merge);
}

static void tell_failure_as_json(const struct merge *merge)
{
    struct output err;
    struct buffer why = BUFFER_INIT(8 * HF_WHY_MAX), title = BUFFER_INIT(8 * KEY_BYTES_MAX);
    const struct hf_error *error = &merge->cli->error;
    escape_append(&why, view_of(error->why));
    buffer_append(&title, VIEW("merge "));
    escape_append(&title, view_of(merge->output));
    output_init(&err, STDERR_FILENO);
    json_t *object =
        error_as_json(merge->cli, error->status, buffer_view(&why), buffer_view(&title));
    json_add(&object, "reasons", reasons_as_json(&merge->report));
    if (object && merge->report.rejects_kept)
        json_set_key(object, "rejects", view_of(merge->options.reject_path));
    output_json(&err, object);
    output_flush(&err, /* error */ NULL);
    output_release(&err);
    buffer_release(&why);
    buffer_release(&title);
}

static void say(const char *what, const char *text, const char *then)
{
    struct buffer escaped = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&escaped, view_of(text));
    fprintf(stderr, "holdfast: merge: %s%.*s%s\n", what, VIEW_ARGS(buffer_view(&escaped)),
            then);
    buffer_release(&escaped);
}

/* What to do about it, where the options tell. */
static void add_advice(struct merge *merge)
{
    struct hf_error *error = &merge->cli->error;
    if (merge->report.zone_missing)
        error_set(error, HF_INVALID, "%s; name the zone, such as --zone UTC or --zone +02:00",
                  error->why);
}

static void tell_failure(const struct merge *merge)
{
    struct cli *cli = merge->cli;
    if (cli->json && merge->report.reason_count > 0) {
        tell_failure_as_json(merge);
        return;
    }
    cli_report(cli, view_of(merge->output), &cli->error);
    for (size_t i = 0; i < merge->report.reason_count; i++)
        say("rejected: ", merge->report.reasons[i], "");
    if (merge->report.rejects_kept)
        say("rejected records are in ", merge->options.reject_path,
            "; correct them, or allow so many with --max-rejects");
}

/* ---- The command --------------------------------------------------------------------- */

static bool step(void *merge, const struct hf_merge_progress *progress)
{
    return gauge_step(&((struct merge *)merge)->gauge, progress->bytes_done,
                      progress->bytes_total);
}

/* Of a command nothing is known but that it still runs. */
static bool step_of_command(void *merge, const struct hf_merge_progress *progress)
{
    struct gauge *gauge = &((struct merge *)merge)->gauge;
    (void)progress;
    int64_t seconds = mono_since(env_now(gauge->env), gauge->start).us / 1000000;
    int64_t shown = mono_since(gauge->last_shown, gauge->start).us / 1000000;
    if (seconds > 0 && seconds > shown) {
        char words[80];
        snprintf(words, sizeof words, "merge  the command has run for %" PRId64 "s", seconds);
        gauge_say(gauge, view_of(words));
        gauge->last_shown = env_now(gauge->env);
    }
    return !interrupted();
}

static void remove_unfinished(void *merge, enum hf_merge_part part, const char *path)
{
    (void)merge;
    interrupt_removes((size_t)part, path);
}

static enum hf_status merge_now(struct merge *merge)
{
    struct cli *cli = merge->cli;
    bool by_command = merge->options.format == HF_MERGE_EXEC;
    if (by_command)
        signal(SIGCHLD,
               SIG_DFL); /* ignored, it would bury the command before we have seen it */
    gauge_start(&merge->gauge, cli, VIEW("merge"));
    merge->options.progress = by_command ? step_of_command : step;
    merge->options.unfinished = remove_unfinished;
    merge->options.argument = merge;
    enum hf_status status = hf_merge(cli->arguments, cli->argument_count, merge->output,
                                     &merge->options, &merge->report, &cli->error);
    gauge_clear(&merge->gauge);
    return status;
}

static enum hf_status run_merge(struct cli *cli)
{
    struct merge merge = { .cli = cli,
                           .output = cli_option(cli, "output")->text.data,
                           .options = HF_MERGE_OPTIONS,
                           .report = HF_MERGE_REPORT };
    enum hf_status status = take_options(&merge);
    if (status == HF_OK)
        status = merge_now(&merge);
    if (status == HF_OK) {
        tell_success(&merge);
    } else if (!interrupted()) {
        add_advice(&merge);
        tell_failure(&merge);
        cli->reported = true;
    }
    return status;
}

const struct command merge_commands[] = {
    {
        .path = "merge",
        .summary = "many files of records into one, in order, or the latest of each key",
        .arguments = { { "IN", ARGUMENT_MANY, COMPLETE_FILE,
                         "the files to merge; plain, or compressed with gzip or zstd" } },
        .options = { { .name = "format",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "FORMAT",
                       .values = "usv csv tsv ndjson concat exec",
                       .summary = "usv, csv, tsv, ndjson, concat or exec" },
                     { .name = "output",
                       .letter = 'o',
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary = "where the merged records go; replaced if it is there" },
                     { .name = "key",
                       .type = OPTION_TEXT,
                       .value = "FIELD",
                       .summary =
                           "merge by this field, in order of its bytes: its number from 1, or "
                           "its name in the header or in the JSON objects" },
                     { .name = "time",
                       .type = OPTION_TEXT,
                       .value = "FIELD",
                       .summary =
                           "merge by this field as a time; with --key keep only the latest "
                           "record of each key" },
                     { .name = "zone",
                       .type = OPTION_TEXT,
                       .value = "ZONE",
                       .summary = "the zone of times that name none: UTC, or an offset such as "
                                  "+02:00" },
                     { .name = "no-header",
                       .summary = "csv, tsv: the first record is data like the others" },
                     { .name = "compress",
                       .type = OPTION_TEXT,
                       .value = "HOW",
                       .values = "none gzip zstd",
                       .summary =
                           "the output: none, gzip or zstd; if left out as its name ends: .gz, "
                           ".zst" },
                     { .name = "memory",
                       .type = OPTION_SIZE,
                       .value = "SIZE",
                       .summary =
                           "use at most this much, 64MiB if left out; sorting goes through "
                           "files beside the output when it is too little" },
                     { .name = "max-record",
                       .type = OPTION_SIZE,
                       .value = "SIZE",
                       .summary = "reject longer records; 16MiB if left out, less with little "
                                  "memory" },
                     { .name = "max-rejects",
                       .type = OPTION_LIMIT,
                       .value = "N|any",
                       .summary = "fail when more records are rejected (default: 0)" },
                     { .name = "rejects",
                       .type = OPTION_TEXT,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary =
                           "where rejected records go; if left out, the output's name with "
                           ".rejects behind it" },
                     { .name = "threads",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary =
                           "work with so many threads; one a processor, up to 4, if left out" },
                     { .name = "command",
                       .type = OPTION_TEXT,
                       .value = "LINE",
                       .summary = "exec: what to run, with {inputs} and {output} in it" },
                     { .name = "time-limit",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "exec: kill the command after this time; 1h if left out" },
                     { .name = "limit-memory",
                       .type = OPTION_SIZE,
                       .value = "SIZE",
                       .summary = "exec: address space of each of its processes" },
                     { .name = "limit-cpu",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary =
                           "exec: processor time of each of its processes, in whole seconds" },
                     { .name = "limit-file",
                       .type = OPTION_SIZE,
                       .value = "SIZE",
                       .summary = "exec: size of each file that they write" } },
        .details = { "With --key or --time all records come out in the order of that field; "
                     "equal ones "
                     "keep the order of their file. With both, of all records with one key "
                     "only the one "
                     "with the latest time comes out, in order of the keys. Records are "
                     "written as they "
                     "stood, each ended by a newline; the same files in any order give the "
                     "same output.",
                     "Files that are in order already are merged in one pass; one that is not "
                     "is noticed "
                     "and sorted first. Keys are compared as bytes, without the quotes of CSV "
                     "and the "
                     "escapes of JSON; the number 1 and the text \"1\" are one key. Times are "
                     "RFC 3339, or seconds, milli-, micro- or nanoseconds since 1970, told "
                     "apart "
                     "by their size. A time without a zone fails the merge, unless --zone "
                     "names "
                     "it.",
                     "usv has fields separated by the byte 0x1F, and records that end with a "
                     "newline or "
                     "0x1E. csv and tsv are those of RFC 4180; all files must have the same "
                     "header, which "
                     "comes out once. ndjson has a JSON object on each line, nested up to 512 "
                     "deep.",
                     "A record that cannot be read, or has no such field, is rejected: it goes "
                     "to the reject file as it stood. More rejected records than --max-rejects "
                     "fail the merge; the output is not replaced then, and the reject file "
                     "stays. In csv and tsv a quote that is never closed costs its own line "
                     "only, and so does one that is not closed within --max-record. A reject "
                     "file of an earlier merge is not removed.",
                     "concat writes the bytes of the files one behind the other, decompressed. "
                     "exec runs a "
                     "command of yours without a shell: the word {inputs} stands for all "
                     "files, {output} "
                     "for the file to write; quotes and backslashes work as in a shell. Exit "
                     "status 0 means "
                     "merged. When it ends, or is ended, all of its process group is; what "
                     "left the group "
                     "is not.",
                     "The output is written under a temporary name and renamed when it is "
                     "whole and on "
                     "disk. When anything fails there is no new file under any name, but for "
                     "the "
                     "reject file of a merge that rejected too much." },
        .json = "one JSON object with output, inputs, rows_in (which is rows_out, "
                "rows_superseded and rows_rejected together), the first reasons for "
                "rejections, bytes and took_ms",
        .examples = { { "holdfast merge --format csv --key day -o all.csv report.csv older.csv",
                        "all rows of both, in order of a column" },
                      { "holdfast merge --format ndjson --key id --time updated "
                        "-o now.zst *.ndjson",
                        "the latest object of each id, compressed" },
                      { "holdfast merge --format usv --key 1 --time 3 --json "
                        "-o index.usv part-*.usv",
                        "the same by number of field, with figures for a script" },
                      { "holdfast merge --format concat -o both.gz report.csv older.csv",
                        "one behind the other" },
                      { "holdfast merge --format exec --command 'sort -o {output} {inputs}' "
                        "-o all *.csv",
                        "by a program of your own" } },
        .run = run_merge,
    },
    { .path = NULL },
};
