/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c: the calls of holdfast/merge.h. They always use the real env, because a merge has no
 * client that could provide a different one. */
#include "merge/merge.h"

#include "base/instant.h"
#include "base/options.h"
#include "env/env.h"
#include "merge/files.h"
#include "merge/parquet.h"

#include <stdlib.h>

/* ---- Names --------------------------------------------------------------------------- */

enum hf_status hf_merge_format_parse(const char *text, enum hf_merge_format *ret_format,
                                     struct hf_error *error)
{
    if (ERROR_IF_NULL(error, text, ret_format) != HF_OK)
        return HF_INVALID;
    enum hf_status status = merge_format_parse(view_of(text), ret_format, error);
    return status == HF_OK ? error_clear(error) : status;
}

enum hf_status hf_merge_coding_parse(const char *text, enum hf_merge_coding *ret_coding,
                                     struct hf_error *error)
{
    if (ERROR_IF_NULL(error, text, ret_coding) != HF_OK)
        return HF_INVALID;
    enum hf_status status = merge_coding_parse(view_of(text), ret_coding, error);
    return status == HF_OK ? error_clear(error) : status;
}

/* ---- Options ------------------------------------------------------------------------- */

static bool report_merge_progress(void *context, uint64_t done, uint64_t total)
{
    const struct hf_merge_options *options = context;
    struct hf_merge_progress progress = { .struct_size = sizeof progress,
                                          .bytes_done = done,
                                          .bytes_total = total };
    return options->progress(options->argument, &progress);
}

static void report_unfinished(void *context, int which, const char *path)
{
    const struct hf_merge_options *options = context;
    options->unfinished(options->argument, (enum hf_merge_part)which, path);
}

static enum hf_status check_enums(const struct hf_merge_options *given, struct hf_error *error)
{
    if ((unsigned)given->format >= HF_MERGE_FORMAT_COUNT)
        return error_set(error, HF_INVALID, "unknown format %d", (int)given->format);
    if ((unsigned)given->coding >= HF_MERGE_CODING_COUNT)
        return error_set(error, HF_INVALID, "unknown compression %d", (int)given->coding);
    if (given->command_limit_ms < 0 || given->command_cpu_ms < 0)
        return error_set(error, HF_INVALID, "a limit must not be negative");
    if (given->rejects_max > HF_MERGE_REJECTS_ANY)
        return error_set(error, HF_INVALID, "rejects_max must be at most HF_MERGE_REJECTS_ANY");
    if (given->format == HF_MERGE_EXEC && !given->command)
        return error_set(error, HF_INVALID, "the format exec needs a command");
    return HF_OK;
}

static struct view text_or_none(const char *text)
{
    return text ? view_of(text) : (struct view){ NULL, 0 };
}

static enum hf_merge_coding choose_coding(const struct hf_merge_options *given,
                                          const char *output)
{
    if (!output)
        output = given->output_name;
    if (given->coding != HF_MERGE_AUTO)
        return given->coding;
    if (!output || given->format == HF_MERGE_EXEC || given->format == HF_MERGE_PARQUET)
        return HF_MERGE_PLAIN;
    return merge_coding_of_name(view_of(output));
}

static enum hf_status convert_zone(const struct hf_merge_options *given,
                                   struct merge_options *options, struct hf_error *error)
{
    if (!given->zone)
        return HF_OK;
    options->has_zone = true;
    if (!given->time)
        return error_set(error, HF_INVALID, "zone needs a time field");
    if (zone_parse(view_of(given->zone), &options->zone_east_s))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "zone must be UTC or an offset such as +02:00, not '%.40s'", given->zone);
}

static enum hf_status convert_options(struct hf_merge_options *given, const char *output,
                                      struct merge_options *ret_options, struct hf_error *error)
{
    struct merge_options options = MERGE_OPTIONS;
    enum hf_status status = check_enums(given, error);
    if (status == HF_OK)
        status = convert_zone(given, &options, error);
    if (status != HF_OK)
        return status;
    options.format = given->format;
    options.key = text_or_none(given->key);
    options.time = text_or_none(given->time);
    options.deleted = text_or_none(given->deleted);
    options.drop_deleted = given->drop_deleted;
    options.inputs_are_all = given->inputs_are_all;
    options.headless = given->headless;
    options.coding = choose_coding(given, output);
    if (given->memory_bytes > 0)
        options.memory_bytes = given->memory_bytes;
    else if (given->format == HF_MERGE_PARQUET)
        options.memory_bytes = PARQUET_MEMORY_DEFAULT;
    options.record_bytes_max = given->record_bytes_max;
    options.rejects_max = given->rejects_max;
    options.threads = given->threads ? given->threads : merge_threads_usual();
    options.reject_path = given->reject_path;
    options.scratch_folder = given->scratch_folder;
    options.command.line = text_or_none(given->command);
    if (given->command_limit_ms > 0)
        options.command.time_limit = span_of_ms(given->command_limit_ms);
    options.command.memory_bytes_max = given->command_memory_max;
    options.command.file_bytes_max = given->command_file_max;
    options.command.cpu_limit = span_of_ms(given->command_cpu_ms);
    options.progress =
        (struct merge_progress){ .step = given->progress ? report_merge_progress : NULL,
                                 .writes = given->unfinished ? report_unfinished : NULL,
                                 .context = given };
    *ret_options = options;
    return HF_OK;
}

/* ---- Merging ------------------------------------------------------------------------- */

static struct hf_merge_report report_of(const struct merge_result *result, struct span took)
{
    struct hf_merge_report report = HF_MERGE_REPORT;
    report.rows_counted = result->rows_counted;
    report.rejects_kept = result->rejects_kept;
    report.zone_missing = result->zone_missing;
    report.rows_in = result->rows_in;
    report.rows_out = result->rows_out;
    report.rows_superseded = result->rows_superseded;
    report.rows_rejected = result->rows_rejected;
    report.rows_deleted = result->rows_deleted;
    report.bytes_in = result->bytes_in;
    report.bytes_out = result->bytes_out;
    report.bytes_spilled = result->bytes_spilled;
    report.inputs_unsorted = result->inputs_unsorted;
    report.took_ms = took.us / 1000;
    report.reason_count = result->reason_count;
    memcpy(report.reasons, result->reasons, sizeof report.reasons);
    return report;
}

enum hf_status hf_merge_files(const struct hf_merge_file *inputs, size_t input_count,
                              const struct hf_merge_file *output,
                              const struct hf_merge_options *options,
                              struct hf_merge_report *report, struct hf_error *error)
{
    struct hf_merge_options given = HF_MERGE_OPTIONS;
    struct merge_options used;
    struct merge_result result = { 0 };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, inputs, output) != HF_OK ||
        READ_OPTIONS(HF_MERGE_OPTIONS, options, &given, &why) != HF_OK ||
        CHECK_REPORT(HF_MERGE_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct mono_time begun = env_now(env_real());
    enum hf_status status = convert_options(&given, output->path, &used, &why);
    if (status == HF_OK)
        status = merge_any_files(env_real(), &used,
                                 &(struct merge_handles){ inputs, input_count, output,
                                                          given.input_names },
                                 &result, &why);
    struct hf_merge_report filled = report_of(&result, mono_since(env_now(env_real()), begun));
    write_caller_report(report, &filled, sizeof filled);
    return error_tell(error, status, &why);
}

enum hf_status hf_merge(const char *const *inputs, size_t input_count, const char *output,
                        const struct hf_merge_options *options, struct hf_merge_report *report,
                        struct hf_error *error)
{
    if (ERROR_IF_NULL(error, inputs, output) != HF_OK ||
        error_if_null_among(error, "inputs", inputs, input_count) != HF_OK)
        return HF_INVALID;
    struct hf_merge_file *files = calloc(input_count + 1, sizeof *files);
    if (!files)
        return error_no_memory(error);
    for (size_t i = 0; i < input_count; i++)
        files[i] = (struct hf_merge_file){ inputs[i], -1 };
    const struct hf_merge_file to = { output, -1 };
    enum hf_status status = hf_merge_files(files, input_count, &to, options, report, error);
    free(files);
    return status;
}
