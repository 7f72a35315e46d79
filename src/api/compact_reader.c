/* SPDX-License-Identifier: Apache-2.0 */
/* compact_reader.c: a reader of the chunks that a partition had at one point in time. The reader
 * pins the chunks, so none of them is deleted before it has been read. */
#include "api/compact_inside.h"
#include "compact/care/pin.h"
#include "compact/work/export.h"
#include "file/new_file.h"
#include "merge/files.h"

#include <stdlib.h>

#define TTL_USUAL_MS INT64_C(60000)

/* With this, an export and the program that runs it take less than 64 MiB. */
#define EXPORT_MEMORY_USUAL (40 * MIB)

struct hf_compact_reader {
    struct hf_compact *compact;
    struct snapshot snapshot;
    struct hf_chunk_info *chunks; /* one for each chunk of the snapshot */
    struct arena arena;           /* their strings */
    struct env_mutex mutex;       /* guards `next` */
    size_t next;
};

static bool list_snapshot(struct hf_compact_reader *reader)
{
    const struct snapshot *snapshot = &reader->snapshot;
    reader->chunks = calloc(snapshot->chunk_count + 1, sizeof *reader->chunks);
    bool good = reader->chunks != NULL;
    for (size_t i = 0; good && i < snapshot->chunk_count; i++) {
        const struct snapshot_chunk *chunk = &snapshot->chunks[i];
        /* The name of the catalog ends with a NUL, because it was copied into an arena. */
        good = chunk_info_copy(&reader->arena, chunk->partition.data, HF_CHUNK_LIVE,
                               &chunk->chunk, VIEW(""), &reader->chunks[i]);
    }
    return good;
}

/* ---- The calls ----------------------------------------------------------------------- */

enum hf_status hf_compact_reader_open(struct hf_compact *compact,
                                      const struct hf_compact_reader_options *options,
                                      struct hf_compact_reader **ret_reader,
                                      struct hf_error *error)
{
    struct hf_compact_reader_options used = HF_COMPACT_READER_OPTIONS;
    struct hf_error why;
    if (ret_reader)
        *ret_reader = NULL;
    if (ERROR_IF_NULL(&why, compact, ret_reader) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_READER_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct hf_compact_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_no_memory(error);
    reader->compact = compact_keep(compact);
    reader->arena = ARENA_INIT;
    env_mutex_init(client_env(compact->client), &reader->mutex);
    client_active(compact->client);
    enum hf_status status =
        snapshot_take(compact->tree, used.ttl_ms ? used.ttl_ms : TTL_USUAL_MS,
                      &reader->snapshot, &why);
    if (status == HF_OK && !list_snapshot(reader))
        status = error_no_memory(&why);
    if (status == HF_OK)
        *ret_reader = reader;
    else
        hf_compact_reader_close(reader);
    return error_tell(error, status, &why);
}

void hf_compact_reader_close(struct hf_compact_reader *reader)
{
    if (!reader)
        return;
    snapshot_release(&reader->snapshot);
    free(reader->chunks);
    arena_release(&reader->arena);
    env_mutex_release(&reader->mutex);
    hf_compact_close(reader->compact);
    free(reader);
}

enum hf_status hf_compact_reader_detach(struct hf_compact_reader *reader,
                                        void (*each)(void *argument, const char *lease),
                                        void *argument, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, reader) != HF_OK)
        return HF_INVALID;
    struct snapshot *snapshot = &reader->snapshot;
    char(*texts)[HF_LEASE_TEXT_MAX] = calloc(snapshot->pin_count + 1, sizeof *texts);
    enum hf_status status = texts ? HF_OK : error_no_memory(&why);
    /* All pins are renewed before the first is left in place, so that either all of them last for
     * their ttl from now on, or all are released. */
    for (size_t i = 0; status == HF_OK && i < snapshot->pin_count; i++) {
        status = hf_lock_renew(snapshot->pins[i].lock, &why);
        if (status == HF_OK)
            status = hf_lock_text(snapshot->pins[i].lock, texts[i], &why);
    }
    for (size_t i = 0; status == HF_OK && i < snapshot->pin_count; i++) {
        hf_lock_detach(snapshot->pins[i].lock);
        snapshot->pins[i].lock = NULL;
        if (each)
            each(argument, texts[i]);
    }
    free(texts);
    hf_compact_reader_close(reader);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_reader_next(struct hf_compact_reader *reader,
                                      struct hf_chunk_info *ret_chunk, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, reader, ret_chunk) != HF_OK ||
        CHECK_REPORT(HF_CHUNK_INFO, ret_chunk, error) != HF_OK)
        return HF_INVALID;
    env_mutex_lock(&reader->mutex);
    size_t at = reader->next;
    if (at < reader->snapshot.chunk_count)
        reader->next++;
    env_mutex_unlock(&reader->mutex);
    if (at == reader->snapshot.chunk_count)
        return error_set(error, HF_NOT_FOUND, "there are no more chunks");
    write_caller_report(ret_chunk, &reader->chunks[at], sizeof reader->chunks[at]);
    return error_clear(error);
}

void hf_compact_reader_rewind(struct hf_compact_reader *reader)
{
    if (!reader)
        return;
    env_mutex_lock(&reader->mutex);
    reader->next = 0;
    env_mutex_unlock(&reader->mutex);
}

uint64_t hf_compact_reader_count(struct hf_compact_reader *reader)
{
    return reader ? reader->snapshot.chunk_count : 0;
}

enum hf_status hf_compact_reader_check(struct hf_compact_reader *reader, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, reader) != HF_OK)
        return HF_INVALID;
    struct hf_error why;
    enum hf_status status = snapshot_check(&reader->snapshot, &why);
    return error_tell(error, status, &why);
}

/* ---- Bytes --------------------------------------------------------------------------- */

enum hf_status hf_compact_reader_fetch(struct hf_compact_reader *reader, const char *key,
                                       int fd, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, reader, key) != HF_OK)
        return HF_INVALID;
    size_t i = 0;
    while (i < reader->snapshot.chunk_count && strcmp(reader->chunks[i].key, key) != 0)
        i++;
    if (i == reader->snapshot.chunk_count)
        return error_set(error, HF_NOT_FOUND, "the chunk is not in the reader's snapshot");
    const struct hf_chunk_info *chunk = &reader->chunks[i];
    const struct chunk asked = { .key = view_of(chunk->key),
                                 .size = chunk->size,
                                 .crc32c = chunk->crc32c,
                                 .object = view_of(chunk->object),
                                 .etag = view_of(chunk->etag) };
    enum hf_status status = pin_read(reader->compact->tree, &asked, fd, &why);
    return error_tell(error, status, &why);
}

/* ---- Records ------------------------------------------------------------------------- */

/* An export that a caller asked for. */
struct asked_export {
    const struct hf_compact_export_options *options;
    bool (*each)(void *argument, const struct hf_compact_row *row);
    void *argument;
    bool stopped; /* `each` returned false */
};

static bool report_export(void *argument, uint64_t done, uint64_t total)
{
    const struct asked_export *asked = argument;
    const struct hf_compact_export_progress progress = { sizeof progress, done, total };
    return asked->options->progress(asked->options->argument, &progress);
}

static void report_export_file(void *argument, int which, const char *path)
{
    const struct asked_export *asked = argument;
    asked->options->unfinished(asked->options->argument, (enum hf_merge_part)which, path);
}

static enum hf_status pass_row(void *context, const struct merge_record *record,
                               struct hf_error *error)
{
    struct asked_export *asked = context;
    const struct hf_compact_row row = { .struct_size = sizeof row,
                                        .bytes = record->bytes.data,
                                        .size = record->bytes.size,
                                        .key = record->key.data,
                                        .key_size = record->key.size,
                                        .has_time = record->has_time,
                                        .time_ms = instant_ms(record->time),
                                        .header = record->header.data,
                                        .header_size = record->header.size };
    if (asked->each(asked->argument, &row))
        return HF_OK;
    asked->stopped = true;
    return error_set(error, HF_CANCELLED, "stopped by the caller");
}

static enum hf_status check_export_options(const struct hf_compact_export_options *options,
                                           struct hf_error *error)
{
    if ((unsigned)options->format >= HF_MERGE_FORMAT_COUNT ||
        (unsigned)options->coding >= HF_MERGE_CODING_COUNT)
        return error_set(error, HF_INVALID, "unknown format or compression");
    if (options->convert && !merge_has_records(options->format))
        return error_set(error, HF_INVALID, "records cannot be written as %s",
                         hf_merge_format_name(options->format));
    if (options->since_ms > options->until_ms)
        return error_set(error, HF_INVALID, "since must not be after until");
    if (options->threads > HF_MERGE_THREADS_MAX)
        return error_set(error, HF_INVALID, "an export can use at most %d threads",
                         HF_MERGE_THREADS_MAX);
    if (options->memory_bytes > 0 && options->memory_bytes < HF_MERGE_MEMORY_MIN)
        return error_set(error, HF_INVALID, "an export needs at least 8 MiB of memory");
    return HF_OK;
}

static struct export_order make_export(struct hf_compact_reader *reader,
                                       struct asked_export *asked)
{
    const struct hf_compact_export_options *options = asked->options;
    const struct compact_settings *settings = &reader->snapshot.settings;
    struct export_order order = {
        .snapshot = &reader->snapshot,
        .scratch = scratch_or_usual(reader->compact->scratch),
        .threads = options->threads ? options->threads : merge_threads_usual(),
        .memory_bytes = options->memory_bytes ? options->memory_bytes : EXPORT_MEMORY_USUAL,
        .to = options->convert ? options->format : settings->format,
        .coding = options->coding == HF_MERGE_AUTO ? HF_MERGE_PLAIN : options->coding,
        .skip_quarantined = options->skip_quarantined,
        .each = pass_row,
        .context = asked,
        .go_on = options->progress ? report_export : NULL,
        .writes = options->unfinished ? report_export_file : NULL,
        .argument = asked,
    };
    order.selection.key_prefix = options->key_prefix ? view_of(options->key_prefix) : VIEW("");
    /* What has expired is not shown, even where a chunk still has it. */
    int64_t since_ms = options->since_ms > reader->snapshot.expired_ms
                           ? options->since_ms
                           : reader->snapshot.expired_ms;
    order.selection.has_since = since_ms != INT64_MIN;
    order.selection.has_until = options->until_ms != INT64_MAX;
    order.selection.since = instant_of_ms(since_ms);
    order.selection.until = instant_of_ms(options->until_ms);
    return order;
}

/* Exports to a file, or to asked->each if `output` is NULL. */
static enum hf_status run_export(struct hf_compact_reader *reader,
                                 const struct hf_merge_file *output,
                                 const struct hf_compact_export_options *options,
                                 struct asked_export *asked,
                                 struct hf_compact_export_report *report,
                                 struct hf_error *error)
{
    struct hf_compact_export_options used = HF_COMPACT_EXPORT_OPTIONS;
    struct hf_compact_export_report done = HF_COMPACT_EXPORT_REPORT;
    struct env *env = client_env(reader->compact->client);
    struct hf_error why;
    if (READ_OPTIONS(HF_COMPACT_EXPORT_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_EXPORT_REPORT, report, &why) != HF_OK ||
        check_export_options(&used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct mono_time began = env_now(env);
    asked->options = &used;
    struct export_order order = make_export(reader, asked);
    order.output = output;
    if (output && output->path && used.coding == HF_MERGE_AUTO)
        order.coding = merge_coding_of_name(view_of(output->path));
    client_active(reader->compact->client);
    enum hf_status status = export_run(&order, &done, &why);
    if (status == HF_CANCELLED && asked->stopped)
        status = HF_OK;
    done.took_ms = mono_since(env_now(env), began).us / 1000;
    write_caller_report(report, &done, sizeof done);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_reader_export(struct hf_compact_reader *reader,
                                        const struct hf_merge_file *output,
                                        const struct hf_compact_export_options *options,
                                        struct hf_compact_export_report *report,
                                        struct hf_error *error)
{
    struct asked_export asked = { .options = NULL };
    if (ERROR_IF_NULL(error, reader, output) != HF_OK)
        return HF_INVALID;
    return run_export(reader, output, options, &asked, report, error);
}

enum hf_status hf_compact_reader_rows(
    struct hf_compact_reader *reader,
    bool (*each)(void *argument, const struct hf_compact_row *row), void *argument,
    const struct hf_compact_export_options *options, struct hf_compact_export_report *report,
    struct hf_error *error)
{
    struct asked_export asked = { .each = each, .argument = argument };
    if (ERROR_IF_NULL(error, reader) != HF_OK)
        return HF_INVALID;
    if (!each)
        return error_set(error, HF_INVALID, "each must not be NULL");
    return run_export(reader, /* output */ NULL, options, &asked, report, error);
}
