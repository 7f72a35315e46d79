/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: merges the chunks of a snapshot on read. The merger of the workers fetches and checks
 * the chunks, so an export accepts exactly what a merge accepts. Nothing in the bucket changes. */
#include "compact/work/export.h"

#include "compact/work/merger_inside.h"
#include "merge/files.h"
#include "merge/parquet.h"
#include "merge/sink.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What a scratch file is called in errors. */
#define RECORDS_NAME "the merged records"

/* An export under way. */
struct export
{
    const struct export_order *order;
    struct hf_compact_export_report *report;
    const struct compact_settings *settings;
    struct chunk *sources; /* to be merged */
    const char **names;    /* their keys, for messages */
    size_t source_count;
    bool converts; /* records are filtered, converted or passed to a callback */
    uint64_t bytes;
    uint64_t shown; /* the progress that was reported */
};

/* ---- Progress ------------------------------------------------------------------------ */

/* Each byte of the sources counts when it is fetched and when it is merged, and once more if the
 * result is converted, in however many steps. */
static bool report_progress(struct export *export, uint64_t done)
{
    const struct export_order *order = export->order;
    uint64_t total = (export->converts ? 3 : 2) * export->bytes;
    done = done < total ? done : total;
    export->shown = done > export->shown ? done : export->shown;
    return !order->go_on || order->go_on(order->argument, export->shown, total);
}

/* While chunks are fetched; the merger counts them twice, too. */
static bool export_fetch_goes_on(void *argument, uint64_t done, uint64_t total)
{
    (void)total;
    return report_progress(argument, done);
}

/* Without a total, another process is at work. */
static uint64_t share_of(uint64_t whole, uint64_t done, uint64_t total)
{
    double share = total > 0 ? (double)done / (double)total : 0;
    return (uint64_t)((double)whole * (share < 1 ? share : 1));
}

static bool export_merge_goes_on(void *context, uint64_t done, uint64_t total)
{
    struct export *export = context;
    return report_progress(export, export->bytes + share_of(export->bytes, done, total));
}

static bool export_convert_goes_on(void *context, uint64_t done, uint64_t total)
{
    struct export *export = context;
    return report_progress(export, 2 * export->bytes + share_of(export->bytes, done, total));
}

static void pass_temporary_name(void *context, int which, const char *path)
{
    const struct export_order *order = ((const struct export *)context)->order;
    if (order->writes)
        order->writes(order->argument, which, path);
}

/* ---- Choosing the chunks ------------------------------------------------------------- */

/* Whether no record of the chunk can be selected. A record that is too old for the selection also
 * replaces only records that are older still. A record that is too new may replace one that would
 * be selected, so chunks that are too new count, unless all records are kept. */
static bool is_outside(const struct export *export, const struct chunk *chunk)
{
    const struct merge_selection *selection = &export->order->selection;
    bool keeps_all = export->settings->key.size == 0;
    if (export->settings->time.size == 0)
        return false;
    return (selection->has_since && chunk->max_ms < instant_ms(selection->since)) ||
           (selection->has_until && keeps_all && chunk->min_ms > instant_ms(selection->until));
}

static enum hf_status choose_chunks(struct export *export, struct hf_error *error)
{
    const struct snapshot *snapshot = export->order->snapshot;
    export->sources = calloc(snapshot->chunk_count + 1, sizeof *export->sources);
    export->names = calloc(snapshot->chunk_count + 1, sizeof *export->names);
    if (!export->sources || !export->names)
        return error_no_memory(error);
    for (size_t i = 0; i < snapshot->chunk_count; i++) {
        const struct chunk *chunk = &snapshot->chunks[i].chunk;
        if (export->order->skip_quarantined && chunk->quarantine.size > 0) {
            export->report->quarantined++;
        } else if (is_outside(export, chunk)) {
            export->report->skipped++;
        } else {
            /* For an adopted chunk, the name of its object. Both end with a NUL. */
            export->names[export->source_count] =
                chunk_is_adopted(chunk) ? chunk->object.data : chunk->key.data;
            export->sources[export->source_count++] = *chunk;
            export->bytes += chunk->size;
        }
    }
    export->report->chunks = export->source_count;
    return HF_OK;
}

static enum hf_status check_order(const struct export *export, struct hf_error *error)
{
    const struct compact_settings *settings = export->settings;
    const struct merge_selection *selection = &export->order->selection;
    if (settings->command.size > 0 || settings->format == HF_MERGE_EXEC)
        return error_set(
            error, HF_UNSUPPORTED,
            "only a command can merge the chunks of this partition; read its chunks "
            "one by one, and merge them yourself");
    if (!merge_has_records(settings->format) && export->converts)
        return error_set(error, HF_INVALID,
                         "the format %s has no records, which could be filtered or converted",
                         hf_merge_format_name(settings->format));
    if (selection->key_prefix.size > 0 && settings->key.size == 0)
        return error_set(
            error, HF_INVALID,
            "the partition has no key, so it cannot be filtered by a prefix of it");
    if ((selection->has_since || selection->has_until) && settings->time.size == 0)
        return error_set(error, HF_INVALID,
                         "the partition has no time field, so it cannot be filtered by time");
    return HF_OK;
}

/* ---- Merging ------------------------------------------------------------------------- */

static struct merge_options export_options(struct export *export, struct merge_run *run)
{
    const struct compact_settings *settings = export->settings;
    uint64_t sources = export->source_count > 0 ? export->source_count : 1;
    struct merge_options options = compact_chunk_options(settings);
    /* All live chunks are merged together. */
    options.drop_deleted = options.inputs_are_all = options.deleted.size > 0;
    options.memory_bytes = export->order->memory_bytes;
    options.threads = export->order->threads;
    if (options.format == HF_MERGE_PARQUET && options.memory_bytes < PARQUET_MEMORY_MIN)
        options.memory_bytes = PARQUET_MEMORY_MIN;
    options.command.time_limit = SPAN_MS(settings->command_limit_ms);
    options.rejects_max = settings->rejects_max > HF_MERGE_REJECTS_ANY / sources
                              ? HF_MERGE_REJECTS_ANY
                              : settings->rejects_max * sources;
    options.reject_path = run->rejects;
    options.scratch_folder = run->folder;
    options.progress = (struct merge_progress){ .step = export_merge_goes_on,
                                                .writes = pass_temporary_name,
                                                .context = export };
    return options;
}

static void note_merged(struct export *export, const struct merge_result *result)
{
    struct hf_compact_export_report *report = export->report;
    report->rows_counted = result->rows_counted;
    report->rows_in = result->rows_in;
    report->rows_superseded = result->rows_superseded;
    report->rows_rejected = result->rows_rejected;
    report->rows_deleted = result->rows_deleted;
    report->rows_out = result->rows_out;
    report->bytes_out = result->bytes_out;
}

/* The result is what was asked for: merges straight into the output. */
static enum hf_status merge_to_output(struct export *export, struct merge_run *run,
                                      struct hf_error *error)
{
    struct merge_options options = export_options(export, run);
    struct merge_result result = { 0 };
    struct hf_merge_file *inputs = calloc(export->source_count, sizeof *inputs);
    if (!inputs)
        return error_no_memory(error);
    for (size_t i = 0; i < export->source_count; i++)
        inputs[i].path = run->paths[i];
    const struct merge_handles handles = { .inputs = inputs,
                                           .input_count = export->source_count,
                                           .output = export->order->output,
                                           .input_names = export->names };
    options.coding = export->order->coding;
    enum hf_status status =
        merge_any_files(run->files->env, &options, &handles, &result, error);
    note_merged(export, &result);
    free(inputs);
    return status;
}

/* Copies a finished scratch file to the output. */
static enum hf_status copy_to_output(struct export *export, struct merge_run *run,
                                     const struct merge_options *options, const char *made,
                                     struct hf_error *error)
{
    struct merge_options copy = MERGE_OPTIONS;
    struct merge_result result = { 0 };
    copy.format = HF_MERGE_CONCAT;
    copy.progress = options->progress;
    const struct hf_merge_file input = { .path = made, .fd = -1 };
    const struct merge_handles handles = { .inputs = &input,
                                           .input_count = 1,
                                           .output = export->order->output };
    enum hf_status status = merge_any_files(run->files->env, &copy, &handles, &result, error);
    export->report->bytes_out = result.bytes_out;
    return status;
}

/* DuckDB, which knows their types, selects the rows of the merged Parquet file, and writes them as
 * Parquet or, so that they can be converted like other text, as JSON. */
static enum hf_status select_parquet_rows(struct export *export, struct merge_run *run,
                                          const struct merge_options *options,
                                          const char *selected, enum hf_merge_format to,
                                          struct hf_error *error)
{
    const struct parquet_conversion conversion = { .from = run->output,
                                                   .from_name = RECORDS_NAME,
                                                   .from_format = HF_MERGE_PARQUET,
                                                   .to = selected,
                                                   .to_format = to,
                                                   .selection = &export->order->selection };
    uint64_t rows = 0, merged = export->report->rows_out;
    enum hf_status status =
        parquet_convert(run->files->env, options, &conversion, &rows, error);
    unlink(run->output);
    if (status == HF_OK) {
        export->report->rows_out = rows;
        export->report->rows_unselected = merged - rows;
    }
    return status;
}

static enum hf_status no_columns(struct hf_error *error)
{
    return error_set(error, HF_UNSUPPORTED,
                     "there are no records, and a Parquet file needs the columns of some");
}

/* Turns the selected records into Parquet, and copies that to the output. */
static enum hf_status write_parquet_rows(struct export *export, struct merge_run *run,
                                         const struct merge_options *options,
                                         enum hf_merge_format text, const char *selected,
                                         struct hf_error *error)
{
    struct merge_options used = *options;
    const char *made = merge_scratch_path(run, "parquet");
    uint64_t rows = 0;
    if (!made)
        return error_no_memory(error);
    used.headless = options->headless || options->format == HF_MERGE_USV;
    bool has_header = text == HF_MERGE_CSV && !used.headless;
    if (export->report->rows_out == 0 && !has_header)
        return no_columns(error);
    const struct parquet_conversion conversion = { .from = selected,
                                                   .from_name = RECORDS_NAME,
                                                   .from_format = text,
                                                   .rows = export->report->rows_out,
                                                   .to = made,
                                                   .to_format = HF_MERGE_PARQUET };
    enum hf_status status = parquet_convert(run->files->env, &used, &conversion, &rows, error);
    return status == HF_OK ? copy_to_output(export, run, options, made, error) : status;
}

/* Selects and converts the records of a text. */
static enum hf_status convert_text(struct export *export, struct merge_run *run,
                                   const struct merge_options *options,
                                   const struct convert_order *convert, struct hf_error *error)
{
    struct convert_result result = { 0 };
    uint64_t merged = export->report->rows_out;
    enum hf_status status = merge_convert(run->files->env, options, convert, &result, error);
    export->report->rows_out = result.rows_out;
    export->report->rows_unselected += result.rows_in - result.rows_out;
    export->report->bytes_out = result.bytes_out;
    if (status == HF_OK && result.rows_in != merged)
        status = error_set(error, HF_CORRUPT,
                           "the rows do not add up: %" PRIu64 " were converted, not %" PRIu64,
                           result.rows_in, merged);
    return status;
}

/* Merges into a scratch file, and converts that. */
static enum hf_status merge_and_convert(struct export *export, struct merge_run *run,
                                        struct hf_error *error)
{
    const struct export_order *order = export->order;
    struct merge_options options = export_options(export, run);
    struct merge_result merged;
    bool from_parquet = options.format == HF_MERGE_PARQUET;
    bool to_parquet = order->to == HF_MERGE_PARQUET && order->output;
    options.intermediate = true;
    options.input_names = export->names;
    options.progress.writes = NULL;
    const struct hf_merge_file selected = { .path = merge_scratch_path(run, "selected"),
                                            .fd = -1 };
    const char *rows = merge_scratch_path(run, "rows");
    if (!selected.path || !rows)
        return error_no_memory(error);
    const struct merge_paths paths = { run->paths, export->source_count, run->output };
    enum hf_status status = merge_files(run->files->env, &options, &paths, &merged, error);
    note_merged(export, &merged);
    export->report->bytes_out = 0;
    if (status != HF_OK)
        return status;
    merge_drop_sources(run); /* their space may be needed */
    options.progress = (struct merge_progress){ .step = export_convert_goes_on,
                                                .writes = pass_temporary_name,
                                                .context = export };
    if (from_parquet)
        status = select_parquet_rows(export, run, &options, rows,
                                     to_parquet ? HF_MERGE_PARQUET : HF_MERGE_NDJSON, error);
    if (status != HF_OK)
        return status;
    if (from_parquet && to_parquet)
        return copy_to_output(export, run, &options, rows, error);
    if (from_parquet) {
        options.format = HF_MERGE_NDJSON;
        options.has_zone = true;
    }
    /* A CSV file with names, or a JSON file with types, is what DuckDB reads. */
    enum hf_merge_format text =
        options.format == HF_MERGE_NDJSON ? HF_MERGE_NDJSON : HF_MERGE_CSV;
    struct convert_order convert = { .input = from_parquet ? rows : run->output,
                                     .input_name = RECORDS_NAME,
                                     .to = merge_is_text(order->to) ? order->to : text,
                                     .output = to_parquet ? &selected : order->output,
                                     .coding = to_parquet ? HF_MERGE_PLAIN : order->coding,
                                     .each = order->each,
                                     .context = order->context };
    if (!from_parquet)
        convert.selection = order->selection;
    status = convert_text(export, run, &options, &convert, error);
    if (status == HF_OK && to_parquet)
        status = write_parquet_rows(export, run, &options, text, selected.path, error);
    return status;
}

/* Without chunks there is nothing to merge, and no header, but there is an output. */
static enum hf_status write_nothing(const struct export *export, struct env *env,
                                    struct hf_error *error)
{
    const struct export_order *order = export->order;
    struct sink sink;
    export->report->rows_counted = merge_has_records(export->settings->format);
    if (!order->output || !order->output->path)
        return HF_OK;
    const struct sink_options options = { .path = order->output->path,
                                          .watch = { order->writes, order->argument, 0 },
                                          .coding = order->coding };
    enum hf_status status = sink_create(&sink, env, &options, error);
    if (status == HF_OK) {
        status = sink_end(&sink, error);
        if (status == HF_OK)
            status = sink_keep(&sink, error);
        sink_release(&sink);
    }
    return status;
}

/* ---- The export ---------------------------------------------------------------------- */

/* Says why a pinned chunk could not be fetched. If the pins have ended, its object may have been
 * deleted in good order. Otherwise the bucket is damaged. */
static enum hf_status explain_missing(const struct export *export, struct hf_error *error)
{
    struct hf_error why;
    if (error->status != HF_NOT_FOUND)
        return error->status;
    if (snapshot_check(export->order->snapshot, &why) != HF_OK) {
        error->status = why.status;
        error_prefix(error, "the snapshot was not renewed in time, and a chunk was deleted");
    } else {
        error->status = HF_CORRUPT;
        error_prefix(error, "the object of a live chunk is missing; 'holdfast compact fsck' "
                            "shows what else is");
    }
    return error->status;
}

static enum hf_status run_here(struct export *export, struct file_merger *files,
                               struct hf_error *error)
{
    const struct merge_order merge = { .settings = export->settings,
                                       .sources = export->sources,
                                       .source_count = export->source_count,
                                       .memory_bytes = export->order->memory_bytes,
                                       .go_on = export_fetch_goes_on,
                                       .argument = export };
    struct merge_product product = { .culprit = MERGE_NO_CULPRIT };
    struct merge_run run = { .files = files,
                             .order = &merge,
                             .product = &product,
                             .arena = ARENA_INIT,
                             .shared = { .culprit = MERGE_NO_CULPRIT } };
    enum hf_status status = merge_run_begin(&run, error);
    if (status == HF_OK) {
        status = merge_fetch_all(&run, error);
        export->report->bytes_read = product.bytes_read;
        if (status != HF_OK)
            status = explain_missing(export, error);
        else if (export->converts)
            status = merge_and_convert(export, &run, error);
        else
            status = merge_to_output(export, &run, error);
        merge_run_end(&run);
    }
    arena_release(&run.arena);
    return status;
}

enum hf_status export_run(const struct export_order *order,
                          struct hf_compact_export_report *ret_report, struct hf_error *error)
{
    const struct merge_selection *selection = &order->selection;
    struct env *env = order->snapshot->tree->env;
    struct export export = { .order = order,
                             .report = ret_report,
                             .settings = &order->snapshot->settings };
    *ret_report = HF_COMPACT_EXPORT_REPORT;
    export.converts = !order->output || order->to != export.settings->format ||
                      selection->key_prefix.size > 0 || selection->has_since ||
                      selection->has_until;
    enum hf_status status = check_order(&export, error);
    if (status == HF_OK)
        status = choose_chunks(&export, error);
    if (status == HF_OK && export.source_count == 0 && order->to == HF_MERGE_PARQUET &&
        order->output)
        status = no_columns(error);
    if (status == HF_OK && export.source_count == 0) {
        status = write_nothing(&export, env, error);
    } else if (status == HF_OK) {
        struct merger *merger = file_merger_new(env, order->snapshot->tree->store,
                                                order->scratch, order->threads, error);
        status = merger ? run_here(&export, (struct file_merger *)(void *)merger, error)
                        : error->status;
        file_merger_free(merger);
    }
    free(export.sources);
    free(export.names);
    return status;
}
