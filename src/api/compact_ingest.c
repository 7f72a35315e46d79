/* SPDX-License-Identifier: Apache-2.0 */
/* compact_ingest.c: turns files, and objects in the bucket, into chunks. A key is reported only for
 * chunks that are in the catalog. */
#include "api/compact_inside.h"
#include "compact/work/ingest.h"

#include <stdlib.h>

struct ingesting {
    struct hf_compact *compact;
    struct hf_compact_ingest_options options;
    bool objects; /* objects in the bucket; otherwise files */
    struct ingest_file *files;
    size_t count;
    struct hf_compact_ingest_report report;
};

static bool report_ingest_progress(void *argument, size_t files_done, uint64_t bytes_done)
{
    const struct hf_compact_ingest_options *options = &((struct ingesting *)argument)->options;
    return options->progress(options->argument, files_done, bytes_done);
}

static enum hf_status convert_ingest_options(struct ingesting *ingesting,
                                             struct ingest_options *ret_options,
                                             struct hf_error *error)
{
    const struct hf_compact_ingest_options *given = &ingesting->options;
    struct hf_client *client = ingesting->compact->client;
    struct env *env = client_env(client);
    if (given->wait_ms < 0 || given->patience_ms < 0)
        return error_set(error, HF_INVALID, "%s must not be negative",
                         given->wait_ms < 0 ? "wait_ms" : "patience_ms");
    if (given->id && given->id[0] == '\0')
        return error_set(error, HF_INVALID, "an id must not be empty");
    *ret_options = (struct ingest_options){
        .writer = view_first(view_of(given->writer ? given->writer : client_holder(client)),
                             given->writer ? SIZE_MAX : WRITER_BYTES_MAX),
        .id = view_of(given->id ? given->id : ""),
        .until = mono_add(env_now(env), span_of_ms(given->wait_ms)),
        .patience = span_of_ms(given->patience_ms),
        .go_on = given->progress ? report_ingest_progress : NULL,
        .argument = ingesting,
    };
    return HF_OK;
}

struct hf_compact_ingested ingested_of(const struct ingest_file *file)
{
    bool added = file->error.status == HF_OK && !file->already;
    const struct hf_compact_ingested told = {
        .struct_size = sizeof told,
        .source = file->path,
        .status = file->error.status,
        .why = file->error.status == HF_OK ? "" : file->error.why,
        .already = file->already,
        .key = added ? file->key : NULL,
        .size = file->size,
        .rows = file->rows,
        .malformed = file->malformed,
    };
    return told;
}

static void report_sources(struct ingesting *ingesting)
{
    const struct hf_compact_ingest_options *options = &ingesting->options;
    struct hf_compact_ingest_report *report = &ingesting->report;
    bool telling = options->each != NULL;
    for (size_t i = 0; i < ingesting->count; i++) {
        const struct ingest_file *file = &ingesting->files[i];
        bool added = file->error.status == HF_OK && !file->already;
        const struct hf_compact_ingested told = ingested_of(file);
        report->already += file->already;
        report->failed += file->error.status != HF_OK;
        report->added += added;
        report->bytes += added ? file->size : 0;
        report->rows += added ? file->rows : 0;
        report->malformed += added ? file->malformed : 0;
        telling = telling && options->each(options->argument, &told);
    }
}

static enum hf_status ingest_all(struct ingesting *ingesting, struct hf_error *error)
{
    struct hf_compact *compact = ingesting->compact;
    struct ingest_options options;
    enum hf_status status = convert_ingest_options(ingesting, &options, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < ingesting->count; i++)
        error_set(&ingesting->files[i].error, HF_CANCELLED, "not processed");
    status =
        ingesting->objects
            ? ingest_objects(compact->tree, ingesting->files, ingesting->count,
                             compact->scratch, &options, error)
            : ingest_files(compact->tree, ingesting->files, ingesting->count, &options, error);
    report_sources(ingesting);
    return status;
}

static enum hf_status ingest_names(struct ingesting *ingesting, const char *const *names,
                                   const struct hf_compact_ingest_options *options,
                                   struct hf_compact_ingest_report *report,
                                   struct hf_error *error)
{
    struct hf_error why;
    ingesting->options = HF_COMPACT_INGEST_OPTIONS;
    ingesting->report = HF_COMPACT_INGEST_REPORT;
    if (READ_OPTIONS(HF_COMPACT_INGEST_OPTIONS, options, &ingesting->options, &why) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_INGEST_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    ingesting->files = calloc(ingesting->count + 1, sizeof *ingesting->files);
    if (!ingesting->files)
        return error_no_memory(error);
    for (size_t i = 0; i < ingesting->count; i++)
        ingesting->files[i].path = names[i];
    enum hf_status status = ingest_all(ingesting, &why);
    write_caller_report(report, &ingesting->report, sizeof ingesting->report);
    free(ingesting->files);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_ingest(struct hf_compact *compact, const char *const *paths,
                                 size_t count, const struct hf_compact_ingest_options *options,
                                 struct hf_compact_ingest_report *report,
                                 struct hf_error *error)
{
    if (ERROR_IF_NULL(error, compact, paths) != HF_OK ||
        error_if_null_among(error, "paths", paths, count) != HF_OK)
        return HF_INVALID;
    struct ingesting ingesting = { .compact = compact, .count = count };
    return ingest_names(&ingesting, paths, options, report, error);
}

enum hf_status hf_compact_ingest_objects(struct hf_compact *compact, const char *const *keys,
                                         size_t count,
                                         const struct hf_compact_ingest_options *options,
                                         struct hf_compact_ingest_report *report,
                                         struct hf_error *error)
{
    if (ERROR_IF_NULL(error, compact, keys) != HF_OK ||
        error_if_null_among(error, "keys", keys, count) != HF_OK)
        return HF_INVALID;
    struct ingesting ingesting = { .compact = compact, .count = count, .objects = true };
    return ingest_names(&ingesting, keys, options, report, error);
}
