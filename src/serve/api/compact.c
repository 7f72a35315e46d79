/* SPDX-License-Identifier: Apache-2.0 */
/* compact.c: the routes of compaction: the status of a partition, its chunks, merging now, pausing
 * and resuming, and the chunks in quarantine.
 *
 * Partitions belong to the whole store and to no namespace, so a token needs the right in all
 * namespaces. A command of a partition's settings is never run here: whoever can write to the store
 * could choose it. */
#include "serve/api/exchange.h"

#include <stdlib.h>

#define CHUNKS_LIMIT 100
#define JOBS_MAX     100
#define MERGES_MAX   100
#define LIVE_LIMIT   1000
#define LIVE_MAX     100000 /* chunks of which the largest are chosen */

static const char *asked_partition(const struct exchange *exchange)
{
    return exchange->ask.partition ? exchange->ask.partition : "default";
}

/* Opens the partition, calls `use`, and closes it. */
static enum hf_status with_partition(struct exchange *exchange,
                                     enum hf_status (*use)(struct exchange *exchange,
                                                           struct hf_compact *compact,
                                                           struct hf_error *error),
                                     struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    struct hf_compact *compact;
    enum hf_status status = hf_compact_open(exchange->space->client, asked_partition(exchange),
                                            /* options */ NULL, &compact, error);
    if (status != HF_OK)
        return status;
    buffer_append_byte(json, '{');
    json_put_text(json, "partition", asked_partition(exchange));
    status = use(exchange, compact, error);
    buffer_append_byte(json, '}');
    hf_compact_close(compact);
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

/* ---- Status -------------------------------------------------------------------------- */

/* What the library lists while it reads the status. The merges of the last hour tell how long one
 * into a level takes. */
struct status_lists {
    struct arena arena;
    struct hf_compact_job_info jobs[JOBS_MAX];
    size_t job_count;
    struct buffer merges;
    size_t merge_count;
    struct {
        int64_t ms;
        uint64_t count;
    } took[HF_COMPACT_LEVELS_MAX];
    bool failed;
};

static const char *keep_status_text(struct status_lists *lists, const char *text)
{
    struct view copy = arena_copy(&lists->arena, view_of(text));
    lists->failed = lists->failed || !copy.data;
    return copy.data;
}

static bool keep_merge_job(void *argument, const struct hf_compact_job_info *job)
{
    struct status_lists *lists = argument;
    struct hf_compact_job_info *kept = &lists->jobs[lists->job_count++];
    *kept = *job;
    kept->holder = keep_status_text(lists, job->holder);
    kept->state = keep_status_text(lists, job->state);
    kept->output = keep_status_text(lists, job->output);
    return lists->job_count < JOBS_MAX && !lists->failed;
}

static bool add_merge(void *argument, const struct hf_compact_record *record)
{
    struct status_lists *lists = argument;
    struct buffer *json = &lists->merges;
    bool committed = strcmp(record->end, hf_compact_end_name(HF_COMPACT_END_COMMITTED)) == 0;
    if (committed && record->level < HF_COMPACT_LEVELS_MAX) {
        lists->took[record->level].ms += record->took_ms;
        lists->took[record->level].count++;
    }
    if (lists->merge_count++ >= MERGES_MAX)
        return true;
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "output", record->id);
    json_put_text(json, "worker", record->worker);
    json_put_text(json, "end", record->end);
    json_put_text(json, "why", record->why);
    json_put_u64(json, "level", record->level);
    json_put_u64(json, "sources", record->sources);
    json_put_u64(json, "bytes_in", record->bytes_in);
    json_put_u64(json, "bytes_out", record->bytes_out);
    json_put_u64(json, "rows_in", record->rows_in);
    json_put_u64(json, "rows_out", record->rows_out);
    json_put_i64(json, "took_ms", record->took_ms);
    json_put_i64(json, "ended_ms", record->ended_ms);
    buffer_append_byte(json, '}');
    return !json->failed;
}

static void put_merge_job(struct buffer *json, const struct status_lists *lists,
                          const struct hf_compact_job_info *job)
{
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "holder", job->holder);
    json_put_text(json, "state", job->state);
    json_put_u64(json, "level", job->level);
    json_put_u64(json, "chunks", job->chunks);
    json_put_text(json, "output", job->output);
    json_put_u64(json, "fencing_token", job->token);
    json_put_u64(json, "renewals", job->renewals);
    json_put_i64(json, "held_ms", job->held_ms);
    json_put_i64(json, "remaining_ms", job->expires_in_ms);
    if (job->ranges > 0) {
        json_put_u64(json, "range", job->range);
        json_put_u64(json, "ranges", job->ranges);
    }
    if (job->done_percent > 0) {
        json_put_u64(json, "done_percent", job->done_percent);
        json_put_i64(json, "eta_ms", job->eta_ms);
    } else if (job->level < HF_COMPACT_LEVELS_MAX && lists->took[job->level].count > 0) {
        int64_t left =
            lists->took[job->level].ms / (int64_t)lists->took[job->level].count - job->held_ms;
        json_put_i64(json, "eta_ms", left > 0 ? left : 0);
    }
    buffer_append_byte(json, '}');
}

static void put_status_lists(struct buffer *json, const struct status_lists *lists)
{
    json_open(json, "jobs", '[');
    for (size_t i = 0; i < lists->job_count; i++)
        put_merge_job(json, lists, &lists->jobs[i]);
    buffer_append_byte(json, ']');
    json_open(json, "merges", '[');
    buffer_append(json, buffer_view(&lists->merges));
    buffer_append_byte(json, ']');
}

/* A record has been written once when it was ingested, and at most once for each level that it has
 * risen. */
static void put_amplification(struct buffer *json, const struct hf_compact_status *status)
{
    double bytes = 0, written = 0;
    for (size_t i = 0; i < HF_COMPACT_LEVELS_MAX; i++) {
        bytes += (double)status->levels[i].bytes;
        written += (double)status->levels[i].bytes * (double)(i + 1);
    }
    if (bytes > 0)
        json_put_thousandths(json, "write_amplification", (int64_t)(1000 * written / bytes));
}

static void put_levels(struct buffer *json, const struct hf_compact_status *status)
{
    size_t count = HF_COMPACT_LEVELS_MAX;
    while (count > 0 && status->levels[count - 1].chunks == 0)
        count--;
    json_open(json, "levels", '[');
    for (size_t i = 0; i < count; i++) {
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_u64(json, "chunks", status->levels[i].chunks);
        json_put_u64(json, "bytes", status->levels[i].bytes);
        json_put_u64(json, "rows", status->levels[i].rows);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
}

static void put_compact_status(struct buffer *json, const struct hf_compact_status *status)
{
    json_put_bool(json, "paused", status->paused);
    json_put_text(json, "paused_why", status->paused_why);
    json_put_bool(json, "barred", status->barred);
    json_put_text(json, "barred_why", status->barred_why);
    json_put_bool(json, "dropping", status->dropping);
    put_levels(json, status);
    put_amplification(json, status);
    json_put_u64(json, "catalogs", status->catalogs);
    json_put_u64(json, "backlog_max", status->backlog_max);
    json_put_u64(json, "pressure_percent", status->pressure);
    json_put_u64(json, "due_groups", status->due_groups);
    json_put_u64(json, "due_bytes", status->due_bytes);
    json_put_u64(json, "under_way", status->under_way);
    json_put_u64(json, "unsettled", status->unsettled);
    json_put_u64(json, "pins", status->pins);
    json_put_u64(json, "committed_last_hour", status->committed);
    json_put_u64(json, "committed_bytes_last_hour", status->committed_bytes);
    json_put_i64(json, "committed_ms_last_hour", status->committed_ms);
    json_put_u64(json, "failed_last_hour", status->failed);
    json_put_u64(json, "lost_last_hour", status->lost);
    json_put_text(json, "last_failure", status->last_failure);
    json_put_u64(json, "quarantined", status->quarantined);
    json_put_u64(json, "tombstones", status->tombstones);
    json_put_u64(json, "tombstone_bytes", status->tombstone_bytes);
    json_put_u64(json, "deleting", status->retired + status->condemned);
    json_put_u64(json, "workers", status->members);
}

static enum hf_status read_compact_status(struct exchange *exchange, struct hf_compact *compact,
                                          struct hf_error *error)
{
    struct hf_compact_status_options options = HF_COMPACT_STATUS_OPTIONS;
    struct hf_compact_status found = HF_COMPACT_STATUS;
    struct status_lists lists = { .arena = ARENA_INIT, .merges = BUFFER_INIT(API_REPLY_MAX) };
    options.each_job = keep_merge_job;
    options.each_record = add_merge;
    options.argument = &lists;
    enum hf_status status = hf_compact_get_status(compact, &options, &found, error);
    if (status == HF_OK) {
        put_compact_status(&exchange->body, &found);
        put_status_lists(&exchange->body, &lists);
    }
    if (status == HF_OK && (lists.failed || lists.merges.failed))
        status = error_no_memory(error);
    buffer_release(&lists.merges);
    arena_release(&lists.arena);
    return status;
}

static enum hf_status compact_status(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, read_compact_status, error);
}

static void begin_compact_status(struct exchange *exchange)
{
    exchange_work(exchange, compact_status);
}

/* ---- Run ----------------------------------------------------------------------------- */

static bool goes_on_merging(void *argument, const struct hf_compact_event *event)
{
    (void)event;
    return exchange_is_wanted(argument);
}

static enum hf_status run_merges(struct exchange *exchange, struct hf_compact *compact,
                                 struct hf_error *error)
{
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct buffer *json = &exchange->body;
    options.mode = HF_COMPACT_ONCE;
    options.force = exchange->ask.force;
    options.jobs = 1;
    options.event = goes_on_merging;
    options.argument = exchange;
    options.label = exchange->ask.owner;
    enum hf_status status = hf_compact_run(compact, &options, &totals, error);
    json_put_u64(json, "groups_committed", totals.groups_committed);
    json_put_u64(json, "groups_failed", totals.groups_failed);
    json_put_u64(json, "groups_lost", totals.groups_lost);
    json_put_u64(json, "bytes_done", totals.bytes_done);
    json_put_u64(json, "rows_in", totals.rows_in);
    json_put_u64(json, "rows_out", totals.rows_out);
    json_put_u64(json, "rows_rejected", totals.rows_rejected);
    json_put_u64(json, "deleted", totals.deleted);
    return status;
}

static enum hf_status compact_run(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, run_merges, error);
}

static void begin_compact_run(struct exchange *exchange)
{
    exchange_work_long(exchange, compact_run);
}

/* ---- Pause and resume ---------------------------------------------------------------- */

static enum hf_status pause_partition(struct exchange *exchange, struct hf_compact *compact,
                                      struct hf_error *error)
{
    json_put_bool(&exchange->body, "paused", true);
    return hf_compact_pause(compact, exchange->ask.reason, exchange->ask.owner, error);
}

static enum hf_status resume_partition(struct exchange *exchange, struct hf_compact *compact,
                                       struct hf_error *error)
{
    json_put_bool(&exchange->body, "paused", false);
    return hf_compact_resume(compact, error);
}

static enum hf_status compact_pause(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, pause_partition, error);
}

static enum hf_status compact_resume(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, resume_partition, error);
}

static void begin_compact_pause(struct exchange *exchange)
{
    exchange_work(exchange, compact_pause);
}

static void begin_compact_resume(struct exchange *exchange)
{
    exchange_work(exchange, compact_resume);
}

/* ---- Chunks -------------------------------------------------------------------------- */

struct live_list {
    struct arena arena;
    struct hf_chunk_info *chunks;
    size_t count, room;
    bool more, failed;
};

static bool keep_live_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct live_list *list = argument;
    list->more = list->count == LIVE_MAX;
    if (list->more)
        return false;
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 256;
        struct hf_chunk_info *chunks = realloc(list->chunks, room * sizeof *chunks);
        list->failed = !chunks;
        if (!chunks)
            return false;
        list->chunks = chunks;
        list->room = room;
    }
    struct hf_chunk_info *kept = &list->chunks[list->count++];
    *kept = *chunk;
    kept->key = arena_copy(&list->arena, view_of(chunk->key)).data;
    kept->quarantine = arena_copy(&list->arena, view_of(chunk->quarantine)).data;
    list->failed = !kept->key || !kept->quarantine;
    return !list->failed;
}

static int compare_sizes(const void *a, const void *b)
{
    const struct hf_chunk_info *one = a, *other = b;
    if (one->size != other->size)
        return one->size > other->size ? -1 : 1;
    return strcmp(one->key, other->key);
}

static void put_live_chunk(struct buffer *json, const struct hf_chunk_info *chunk)
{
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "chunk", chunk->key);
    json_put_u64(json, "level", chunk->level);
    json_put_u64(json, "bytes", chunk->size);
    if (chunk->rows_known)
        json_put_u64(json, "rows", chunk->rows);
    json_put_i64(json, "min_ms", chunk->min_ms);
    json_put_i64(json, "max_ms", chunk->max_ms);
    if (chunk->quarantine[0])
        json_put_text(json, "quarantine", chunk->quarantine);
    buffer_append_byte(json, '}');
}

/* The largest ones come first. */
static enum hf_status list_live_chunks(struct exchange *exchange, struct hf_compact *compact,
                                       struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    struct live_list list = { .arena = ARENA_INIT };
    size_t limit = exchange->ask.limit ? (size_t)exchange->ask.limit : LIVE_LIMIT;
    enum hf_status status =
        hf_compact_chunks(compact, HF_CHUNKS_LIVE, keep_live_chunk, &list, error);
    if (status == HF_OK && list.failed)
        status = error_no_memory(error);
    if (status == HF_OK && list.count > 0)
        qsort(list.chunks, list.count, sizeof *list.chunks, compare_sizes);
    json_open(json, "chunks", '[');
    for (size_t i = 0; status == HF_OK && i < list.count && i < limit; i++)
        put_live_chunk(json, &list.chunks[i]);
    buffer_append_byte(json, ']');
    json_put_u64(json, "count", list.count);
    json_put_bool(json, "more", list.more || list.count > limit);
    free(list.chunks);
    arena_release(&list.arena);
    return status;
}

static enum hf_status compact_chunks(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, list_live_chunks, error);
}

static void begin_compact_chunks(struct exchange *exchange)
{
    exchange_work(exchange, compact_chunks);
}

/* ---- Quarantine ---------------------------------------------------------------------- */

struct chunk_list {
    struct exchange *exchange;
    size_t count, limit;
    bool more;
};

static bool add_chunk(void *argument, const struct hf_chunk_info *chunk)
{
    struct chunk_list *list = argument;
    struct buffer *json = &list->exchange->body;
    if (list->count == list->limit) {
        list->more = true;
        return false;
    }
    list->count++;
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "chunk", chunk->key);
    json_put_text(json, "partition", chunk->partition);
    json_put_u64(json, "level", chunk->level);
    json_put_u64(json, "bytes", chunk->size);
    json_put_u64(json, "failed_merges", chunk->tries);
    json_put_text(json, "reason", chunk->quarantine);
    buffer_append_byte(json, '}');
    return !json->failed;
}

static enum hf_status list_chunks(struct exchange *exchange, struct hf_compact *compact,
                                  struct hf_error *error)
{
    uint64_t limit = exchange->ask.limit;
    struct chunk_list list = { .exchange = exchange,
                               .limit = limit > 0 ? (size_t)limit : CHUNKS_LIMIT };
    json_open(&exchange->body, "chunks", '[');
    enum hf_status status =
        hf_compact_chunks(compact, HF_CHUNKS_QUARANTINED, add_chunk, &list, error);
    buffer_append_byte(&exchange->body, ']');
    json_put_bool(&exchange->body, "more", list.more);
    return status;
}

static enum hf_status list_quarantine(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, list_chunks, error);
}

static void begin_quarantine(struct exchange *exchange)
{
    exchange_work(exchange, list_quarantine);
}

static enum hf_status release_chunk(struct exchange *exchange, struct hf_compact *compact,
                                    struct hf_error *error)
{
    json_put_text(&exchange->body, "chunk", exchange->ask.chunk);
    json_put_bool(&exchange->body, "released", true);
    return hf_compact_unquarantine(compact, exchange->ask.chunk, error);
}

static enum hf_status release_quarantine(struct exchange *exchange, struct hf_error *error)
{
    return with_partition(exchange, release_chunk, error);
}

static enum hf_status need_chunk(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.chunk ? HF_OK : error_set(error, HF_INVALID, "'chunk' is missing");
}

static void begin_quarantine_release(struct exchange *exchange)
{
    exchange_work(exchange, release_quarantine);
}

const struct route compact_routes[] = {
    { HTTP_VERB_GET, "/v1/compact/status", RIGHT_READ, .has_space = true, .reads_body = false,
      NULL, begin_compact_status, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/compact/chunks", RIGHT_READ, .has_space = true, .reads_body = false,
      NULL, begin_compact_chunks, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/compact/run", RIGHT_WRITE, .has_space = true, .reads_body = true,
      NULL, begin_compact_run, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/compact/pause", RIGHT_ADMIN, .has_space = true, .reads_body = true,
      NULL, begin_compact_pause, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/compact/resume", RIGHT_ADMIN, .has_space = true, .reads_body = true,
      NULL, begin_compact_resume, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/compact/quarantine", RIGHT_READ, .has_space = true,
      .reads_body = false, NULL, begin_quarantine, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/compact/quarantine/release", RIGHT_ADMIN, .has_space = true,
      .reads_body = true, need_chunk, begin_quarantine_release, exchange_reply_body,
      .whole_store = true },
    { 0 },
};
