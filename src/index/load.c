/* load.c: rows of a file, batch by batch, into the inbox or straight into shards. */
#include "index/load.h"

#include "index/compile.h"
#include "index/manifest.h"
#include "index/rows.h"

#include <inttypes.h>
#include <stdlib.h>

/* What one batch takes: into the inbox by number, straight into shards by memory. */
#define INBOX_BATCH_BYTES (8 * MIB)
#define FOLD_BATCH_BYTES  (64 * MIB)
#define WAIT_STEP         SPAN_MS(500)

/* To lock, read and write a shard for less than this takes longer than so many entries. */
#define FOLD_FEW 8

struct loading {
    struct index *index;
    const struct load_options *options;
    struct load_report *report;
    struct rows rows;
    struct arena arena; /* of the batch: */
    struct record *records;
    size_t count, capacity;
    uint64_t bytes; /* that it takes of memory */
    struct buffer space;
    struct manifest noted;   /* shards that were folded */
    struct hf_error trouble; /* of the first shard that is damaged */
};

static bool stops(void *argument)
{
    struct loading *loading = argument;
    const struct load_options *options = loading->options;
    loading->report->bytes_read = loading->rows.bytes_read;
    loading->report->shards = loading->noted.count;
    return options->progress && !options->progress(options->argument, loading->report);
}

static enum hf_status check_stop(struct loading *loading, struct hf_error *error)
{
    return stops(loading) ? error_set(error, HF_CANCELLED, "stopped by the caller") : HF_OK;
}

static void refuse(struct loading *loading, const struct hf_error *why)
{
    const struct load_options *options = loading->options;
    loading->report->refused++;
    if (options->refused)
        options->refused(options->argument, loading->rows.line, why);
}

static bool grow(struct loading *loading)
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

/* Judges the row that was read and keeps a copy. */
static enum hf_status keep_row(struct loading *loading, struct hf_error *error)
{
    struct record record;
    enum hf_status status = record_read(&loading->index->schema, loading->rows.record,
                                        &loading->space, &record, NULL, error);
    if (status == HF_INVALID) {
        refuse(loading, error);
        return HF_OK;
    }
    if (status != HF_OK)
        return status;
    bool inside = loading->space.size == 0; /* else it has escapes */
    struct view copy = arena_copy(&loading->arena, record.bytes);
    if (!copy.data)
        return error_no_memory(error);
    struct view key = inside ? (struct view){ copy.data + (record.key.data - record.bytes.data),
                                              record.key.size }
                             : arena_copy(&loading->arena, record.key);
    if (!key.data || !grow(loading))
        return error_no_memory(error);
    loading->records[loading->count++] = (struct record){ copy, key, record.time };
    loading->bytes += copy.size + (inside ? 0 : key.size) + 2 * sizeof record;
    return HF_OK;
}

/* Puts records into the inbox, in as many calls as it takes. */
static enum hf_status put_records(struct loading *loading, const struct record *records,
                                  size_t count, enum load_way way, struct hf_error *error)
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
        loading->report->taken += now;
        loading->report->by_way[way] += now;
    }
    return HF_OK;
}

/* ---- Straight into shards ------------------------------------------------------------- */

struct placed {
    size_t shard;
    struct record record;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    return left->shard < right->shard ? -1 : left->shard > right->shard;
}

/* Sorts the batch by shards; the number of each record's shard goes to ret_shards. */
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

/* Waits for the shard in small steps, since nobody can end a wait within one. */
static enum hf_status fold_when_free(struct loading *loading, struct shard_id shard,
                                     struct record *records, size_t count,
                                     struct fold_report *ret_report, struct hf_error *error)
{
    struct env *env = loading->index->env;
    const struct compile_options options = COMPILE_OPTIONS;
    struct mono_time until = mono_add(env_now(env), loading->options->wait);
    for (;;) {
        struct span left = mono_since(until, env_now(env));
        struct span wait = span_smaller(left.us > 0 ? left : SPAN_S(0), WAIT_STEP);
        enum hf_status status = compile_straight(loading->index, &options, shard, records,
                                                 count, wait, ret_report, error);
        if (status != HF_HELD || left.us <= 0)
            return status;
        status = check_stop(loading, error);
        if (status != HF_OK)
            return status;
    }
}

/* A shard that is damaged is for people to mend; what belongs to it waits in its inbox. */
static void note_damage(struct loading *loading, struct shard_id shard,
                        const struct hf_error *error)
{
    struct hf_error why = *error;
    error_prefix(&why, "records of shard %s are in its inbox", shard.text);
    if (loading->options->trouble)
        loading->options->trouble(loading->options->argument, &why);
    if (loading->trouble.status == HF_OK)
        loading->trouble = why;
}

/* A shard that cannot be written takes its records by way of the inbox, which waits for nobody. */
static enum hf_status fold_shard(struct loading *loading, size_t shard, struct record *records,
                                 size_t count, struct hf_error *error)
{
    struct fold_report report = { 0 };
    struct shard_id id = shard_of_number(shard, loading->index->schema.digits);
    enum hf_status status = fold_when_free(loading, id, records, count, &report, error);
    if (status == HF_HELD || status == HF_LOST || status == HF_CONFLICT || status == HF_FENCED)
        return put_records(loading, records, count, WAY_HELD, error);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED) {
        note_damage(loading, id, error);
        return put_records(loading, records, count, WAY_DAMAGED, error);
    }
    if (status != HF_OK)
        return status;
    loading->report->taken += count;
    loading->report->by_way[WAY_STRAIGHT] += count;
    manifest_note(&loading->noted, manifest_row_of(shard, &report));
    return HF_OK;
}

/* Shard by shard. Those of which there are few are moved to the front, where all records were dealt
 * with already, and go into the inbox together at last. */
static enum hf_status fold_batch(struct loading *loading, struct hf_error *error)
{
    size_t few = 0;
    size_t *shards = malloc(loading->count * sizeof *shards);
    if (!shards)
        return error_no_memory(error);
    enum hf_status status = sort_by_shard(loading, shards, error);
    for (size_t i = 0, end; i < loading->count && status == HF_OK; i = end) {
        for (end = i + 1; end < loading->count && shards[end] == shards[i];)
            end++;
        status = check_stop(loading, error);
        if (end - i < FOLD_FEW) {
            memmove(loading->records + few, loading->records + i,
                    (end - i) * sizeof *loading->records);
            few += end - i;
        } else if (status == HF_OK) {
            status = fold_shard(loading, shards[i], loading->records + i, end - i, error);
        }
    }
    free(shards);
    return status == HF_OK ? put_records(loading, loading->records, few, WAY_FEW, error)
                           : status;
}

/* ---- The whole file ------------------------------------------------------------------ */

static enum hf_status flush_batch(struct loading *loading, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (loading->count > 0)
        status = loading->options->straight
                     ? fold_batch(loading, error)
                     : put_records(loading, loading->records, loading->count, WAY_INBOX, error);
    if (status != HF_OK)
        return status;
    arena_release(&loading->arena);
    loading->arena = ARENA_INIT;
    loading->count = 0;
    loading->bytes = 0;
    loading->report->lines_taken = loading->rows.last_line;
    return HF_OK;
}

/* Rows that come one by one, as from a pipe, are not kept waiting for others. */
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
        refuse(loading, error);
        return check_stop(loading, error);
    }
    if (status == HF_OK)
        status = keep_row(loading, error);
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

/* What was left out, or is not where it should be, is told though all else is done. */
static enum hf_status judge_load(const struct loading *loading, struct hf_error *error)
{
    const struct load_report *report = loading->report;
    if (report->refused > 0)
        return error_set(error, HF_INVALID, "%" PRIu64 " row%s refused, %" PRIu64 " put",
                         report->refused, report->refused == 1 ? " was" : "s were",
                         report->taken);
    *error = loading->trouble;
    return error->status;
}

enum hf_status index_load(struct index *index, int fd, enum hf_index_format format,
                          const struct load_options *options, struct load_report *ret_report,
                          struct hf_error *error)
{
    struct hf_error ignored; /* statistics: whoever compiles next writes them */
    struct loading *loading = calloc(1, sizeof *loading);
    *ret_report = (struct load_report){ 0 };
    if (!loading)
        return error_no_memory(error);
    *loading = (struct loading){ .index = index,
                                 .options = options,
                                 .report = ret_report,
                                 .arena = ARENA_INIT,
                                 .space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX) };
    rows_init(&loading->rows, &index->schema, format, fd);
    loading->rows.stop = stops;
    loading->rows.argument = loading;
    enum hf_status status = load_rows(loading, error);
    ret_report->bytes_read = loading->rows.bytes_read;
    ret_report->shards = loading->noted.count;
    rows_release(&loading->rows);
    if (loading->noted.count > 0)
        manifest_write(index, &loading->noted, &ignored);
    if (status == HF_OK)
        status = judge_load(loading, error);
    manifest_release(&loading->noted);
    arena_release(&loading->arena);
    free(loading->records);
    buffer_release(&loading->space);
    free(loading);
    return status;
}
