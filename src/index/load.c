/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: loads the rows of a file into an index, batch by batch, through the inbox or directly
 * into shards. If a shard cannot be written, its rows go to the inbox, so no accepted row is
 * lost. */
#include "index/load.h"

#include "index/compile.h"
#include "index/manifest.h"
#include "index/rows.h"

#include <inttypes.h>
#include <stdlib.h>

/* The size of a batch: limited by number for the inbox, by memory for shards. */
#define INBOX_BATCH_BYTES (8 * MIB)
#define FOLD_BATCH_BYTES  (64 * MIB)
#define WAIT_STEP         SPAN_MS(500)

/* Below this number, putting entries is faster than locking and rewriting a shard. */
#define FOLD_FEW 8

struct loading {
    struct index *index;
    const struct load_options *options;
    struct hf_index_load_report *report;
    struct rows rows;
    struct arena arena; /* for the batch: */
    struct record *records;
    size_t count, capacity;
    uint64_t bytes; /* memory that it uses */
    struct buffer space;
    struct manifest noted;   /* shards that were folded */
    struct hf_error trouble; /* error of the first damaged shard */
};

static bool load_is_stopped(void *argument)
{
    struct loading *loading = argument;
    const struct load_options *options = loading->options;
    loading->report->bytes_read = loading->rows.bytes_read;
    loading->report->shards = loading->noted.count;
    return options->progress && !options->progress(options->argument, loading->report);
}

static enum hf_status check_stop(struct loading *loading, struct hf_error *error)
{
    return load_is_stopped(loading) ? error_set(error, HF_CANCELLED, "stopped by the caller")
                                    : HF_OK;
}

static void refuse_row(struct loading *loading, const struct hf_error *why)
{
    const struct load_options *options = loading->options;
    loading->report->refused++;
    if (options->refused)
        options->refused(options->argument, loading->rows.line, why);
}

static bool reserve_record(struct loading *loading)
{
    if (loading->count < loading->capacity)
        return true;
    size_t capacity = loading->capacity ? 2 * loading->capacity : BATCH_MAX;
    struct record *records = realloc(loading->records, capacity * sizeof *loading->records);
    if (!records)
        return false;
    loading->records = records;
    loading->capacity = capacity;
    return true;
}

/* Parses the row and keeps a copy. */
static enum hf_status copy_row(struct loading *loading, struct hf_error *error)
{
    struct record record;
    enum hf_status status = record_read(&loading->index->schema, loading->rows.record,
                                        &loading->space, &record, NULL, error);
    if (status == HF_INVALID) {
        refuse_row(loading, error);
        return HF_OK;
    }
    if (status != HF_OK)
        return status;
    bool inside = loading->space.size == 0; /* otherwise the key has escapes */
    struct view copy = arena_copy(&loading->arena, record.bytes);
    if (!copy.data)
        return error_no_memory(error);
    struct view key = inside ? (struct view){ copy.data + (record.key.data - record.bytes.data),
                                              record.key.size }
                             : arena_copy(&loading->arena, record.key);
    if (!key.data || !reserve_record(loading))
        return error_no_memory(error);
    loading->records[loading->count++] =
        (struct record){ .bytes = copy, .key = key, .time = record.time };
    loading->bytes += copy.size + (inside ? 0 : key.size) + 2 * sizeof record;
    return HF_OK;
}

/* Puts records into the inbox, in as many calls as necessary. `reason`, which may be NULL, is the
 * counter for records that were meant to go directly into a shard. */
static enum hf_status put_in_inbox(struct loading *loading, const struct record *records,
                                   size_t count, uint64_t *reason, struct hf_error *error)
{
    struct view batch[BATCH_MAX];
    size_t bad;
    for (size_t done = 0; done < count;) {
        size_t now = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        for (size_t i = 0; i < now; i++)
            batch[i] = records[done + i].bytes;
        enum hf_status status = index_put(loading->index, batch, now, &bad, error);
        if (status != HF_OK)
            return status;
        done += now;
        loading->report->records += now;
        if (reason)
            *reason += now;
    }
    return HF_OK;
}

/* ---- Directly into shards ------------------------------------------------------------- */

struct placed {
    size_t shard;
    struct record record;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    return left->shard < right->shard ? -1 : left->shard > right->shard;
}

/* Sorts the batch by shard, and stores the shard number of each record in ret_shards. */
static enum hf_status sort_by_shard(struct loading *loading, size_t *ret_shards,
                                    struct hf_error *error)
{
    unsigned digits = loading->index->schema.digits;
    struct placed *placed = malloc(loading->count * sizeof *placed);
    if (!placed)
        return error_no_memory(error);
    for (size_t i = 0; i < loading->count; i++) {
        placed[i].record = loading->records[i];
        struct shard_id shard = shard_of_key(placed[i].record.key, digits);
        shard_number(view_of(shard.text), digits, &placed[i].shard);
    }
    qsort(placed, loading->count, sizeof *placed, compare_placed);
    for (size_t i = 0; i < loading->count; i++) {
        loading->records[i] = placed[i].record;
        ret_shards[i] = placed[i].shard;
    }
    free(placed);
    return HF_OK;
}

/* Waits for the shard in small steps, because a single wait cannot be cancelled. */
static enum hf_status fold_when_free(struct loading *loading, const struct shard_records *new,
                                     struct fold_report *ret_report, struct hf_error *error)
{
    struct env *env = loading->index->env;
    const struct compile_options options = COMPILE_OPTIONS;
    struct mono_time until = mono_add(env_now(env), loading->options->wait);
    for (;;) {
        struct span left = mono_since(until, env_now(env));
        struct span wait = span_smaller(left.us > 0 ? left : SPAN_S(0), WAIT_STEP);
        enum hf_status status =
            compile_straight(loading->index, &options, new, wait, ret_report, error);
        if (status != HF_HELD || left.us <= 0)
            return status;
        status = check_stop(loading, error);
        if (status != HF_OK)
            return status;
    }
}

/* A damaged shard must be repaired by an operator. Until then its records stay in the inbox. */
static void note_damaged_shard(struct loading *loading, struct shard_id shard,
                               const struct hf_error *error)
{
    struct hf_error why = *error;
    error_prefix(&why, "records for shard %s remain in its inbox", shard.text);
    if (loading->options->trouble)
        loading->options->trouble(loading->options->argument, &why);
    if (loading->trouble.status == HF_OK)
        loading->trouble = why;
}

/* The floor of the shard has refused records: their keys may have been deleted. */
static void refuse_old_records(struct loading *loading, const struct fold_report *report)
{
    struct hf_error why;
    error_set(&why, HF_INVALID,
              "%" PRIu64 " record%s older than deletions that were dropped, and the key has no "
              "record",
              report->refused, report->refused == 1 ? " is" : "s are");
    loading->report->refused += report->refused;
    if (loading->options->trouble)
        loading->options->trouble(loading->options->argument, &why);
}

/* If a shard cannot be written, its records go to the inbox, which needs no lock. */
static enum hf_status fold_shard(struct loading *loading, size_t shard, struct record *records,
                                 size_t count, struct hf_error *error)
{
    struct fold_report report = { 0 };
    struct shard_id id = shard_of_number(shard, loading->index->schema.digits);
    const struct shard_records new = { id, records, count };
    enum hf_status status = fold_when_free(loading, &new, &report, error);
    if (status == HF_HELD || status == HF_LOST || status == HF_CONFLICT || status == HF_FENCED)
        return put_in_inbox(loading, records, count, &loading->report->held, error);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED) {
        note_damaged_shard(loading, id, error);
        return put_in_inbox(loading, records, count, &loading->report->damaged, error);
    }
    if (status != HF_OK)
        return status;
    count -= (size_t)report.refused;
    loading->report->records += count;
    loading->report->straight += count;
    if (report.refused > 0)
        refuse_old_records(loading, &report);
    manifest_note(&loading->noted, manifest_row_of(shard, &report));
    return HF_OK;
}

/* Folds the batch, shard by shard. If a shard has few records, they are moved to the front of the
 * array, over records that are already written. At the end, all records that were moved go to the
 * inbox together. */
static enum hf_status fold_batch(struct loading *loading, struct hf_error *error)
{
    size_t few = 0;
    size_t *shards = malloc(loading->count * sizeof *shards);
    if (!shards)
        return error_no_memory(error);
    enum hf_status status = sort_by_shard(loading, shards, error);
    size_t i = 0;
    while (status == HF_OK && i < loading->count) {
        size_t end = i + 1;
        while (end < loading->count && shards[end] == shards[i])
            end++;
        status = check_stop(loading, error);
        if (end - i < FOLD_FEW) {
            memmove(loading->records + few, loading->records + i,
                    (end - i) * sizeof *loading->records);
            few += end - i;
        } else if (status == HF_OK) {
            status = fold_shard(loading, shards[i], loading->records + i, end - i, error);
        }
        i = end;
    }
    free(shards);
    return status == HF_OK
               ? put_in_inbox(loading, loading->records, few, &loading->report->few, error)
               : status;
}

/* ---- The whole file ------------------------------------------------------------------ */

static enum hf_status flush_batch(struct loading *loading, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (loading->count > 0)
        status = loading->options->straight
                     ? fold_batch(loading, error)
                     : put_in_inbox(loading, loading->records, loading->count,
                                    /* reason */ NULL, error);
    if (status != HF_OK)
        return status;
    arena_release(&loading->arena);
    loading->arena = ARENA_INIT;
    loading->count = 0;
    loading->bytes = 0;
    loading->report->up_to_line = loading->rows.last_line;
    return HF_OK;
}

/* Rows that arrive one by one, for example from a pipe, are not delayed. */
static bool batch_is_full(const struct loading *loading)
{
    if (loading->options->straight)
        return loading->bytes >= FOLD_BATCH_BYTES;
    return loading->count == BATCH_MAX || loading->bytes >= INBOX_BATCH_BYTES ||
           rows_would_wait(&loading->rows);
}

static enum hf_status load_row(struct loading *loading, enum hf_status status,
                               struct hf_error *error)
{
    if (status == HF_INVALID && loading->rows.go_on) {
        refuse_row(loading, error);
        return check_stop(loading, error);
    }
    if (status == HF_OK)
        status = copy_row(loading, error);
    if (status != HF_OK || !batch_is_full(loading))
        return status;
    status = check_stop(loading, error);
    return status == HF_OK ? flush_batch(loading, error) : status;
}

static enum hf_status load_rows(struct loading *loading, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK) {
        enum hf_status read = rows_next(&loading->rows, error);
        if (read == HF_NOT_FOUND) {
            status = flush_batch(loading, error);
            loading->report->complete = status == HF_OK;
            break;
        }
        status = load_row(loading, read, error);
    }
    return status;
}

/* Reports rows that were refused or left in the inbox, although the rest was loaded. */
static enum hf_status check_load_result(const struct loading *loading, struct hf_error *error)
{
    const struct hf_index_load_report *report = loading->report;
    if (report->refused > 0)
        return error_set(error, HF_INVALID, "%" PRIu64 " row%s refused, %" PRIu64 " put",
                         report->refused, report->refused == 1 ? " was" : "s were",
                         report->records);
    *error = loading->trouble;
    return error->status;
}

enum hf_status index_load(struct index *index, int fd, enum hf_index_format format,
                          const struct load_options *options,
                          struct hf_index_load_report *ret_report, struct hf_error *error)
{
    struct hf_error ignored; /* statistics: the next compile writes them */
    struct loading *loading = calloc(1, sizeof *loading);
    *ret_report = HF_INDEX_LOAD_REPORT;
    if (!loading)
        return error_no_memory(error);
    *loading = (struct loading){ .index = index,
                                 .options = options,
                                 .report = ret_report,
                                 .arena = ARENA_INIT,
                                 .space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX) };
    rows_init(&loading->rows, &index->schema, format, fd);
    loading->rows.stop = load_is_stopped;
    loading->rows.argument = loading;
    enum hf_status status = load_rows(loading, error);
    ret_report->bytes_read = loading->rows.bytes_read;
    ret_report->shards = loading->noted.count;
    rows_release(&loading->rows);
    /* A manifest must not arrive after its index was dropped. */
    if (loading->noted.count > 0 && index_check_mark(index, &ignored) == HF_OK)
        manifest_write(index, &loading->noted, &ignored);
    if (status == HF_OK)
        status = check_load_result(loading, error);
    manifest_release(&loading->noted);
    arena_release(&loading->arena);
    free(loading->records);
    buffer_release(&loading->space);
    free(loading);
    return status;
}
