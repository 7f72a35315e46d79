/* SPDX-License-Identifier: Apache-2.0 */
/* compact.c: the routes of compaction: the status of a partition, merging now, pausing and
 * resuming, and the chunks in quarantine.
 *
 * Partitions belong to the whole store and to no namespace, so a token needs the right in all
 * namespaces. A command of a partition's settings is never run here: whoever can write to the store
 * could choose it. */
#include "serve/api/exchange.h"

#define CHUNKS_LIMIT 100
#define JOBS_MAX     100

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

struct job_list {
    struct buffer json;
    size_t count;
};

static bool add_merge_job(void *argument, const struct hf_compact_job_info *job)
{
    struct job_list *list = argument;
    struct buffer *json = &list->json;
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "holder", job->holder);
    json_put_text(json, "state", job->state);
    json_put_u64(json, "level", job->level);
    json_put_u64(json, "chunks", job->chunks);
    json_put_text(json, "output", job->output);
    json_put_u64(json, "fencing_token", job->token);
    json_put_i64(json, "held_ms", job->held_ms);
    json_put_i64(json, "remaining_ms", job->expires_in_ms);
    buffer_append_byte(json, '}');
    return ++list->count < JOBS_MAX && !json->failed;
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
    struct job_list list = { .json = BUFFER_INIT(API_REPLY_MAX) };
    options.each_job = add_merge_job;
    options.argument = &list;
    enum hf_status status = hf_compact_get_status(compact, &options, &found, error);
    if (status == HF_OK) {
        put_compact_status(&exchange->body, &found);
        json_open(&exchange->body, "jobs", '[');
        buffer_append(&exchange->body, buffer_view(&list.json));
        buffer_append_byte(&exchange->body, ']');
    }
    if (status == HF_OK && list.json.failed)
        status = error_no_memory(error);
    buffer_release(&list.json);
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
