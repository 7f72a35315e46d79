/* compile.c: one shard under its lock: its entries read, folded, cleared away, batch by batch. */
#include "index/compile.h"

#include "base/check.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>

const char *compile_end_name(enum compile_end end)
{
    static const char *const names[] = {
        [COMPILE_DONE] = "done", [COMPILE_NOTHING] = "nothing", [COMPILE_HELD] = "held",
        [COMPILE_LOST] = "lost", [COMPILE_FAILED] = "failed",   [COMPILE_STOPPED] = "stopped",
    };
    check(end < sizeof names / sizeof names[0]);
    return names[end];
}

/* Entries that were loaded together, beside each other in a list. */
struct part {
    const struct entry *entries;
    struct entry_load load;
};

/* Entries that stand in one list, up to where they were taken. */
struct queue {
    const struct entry *entries;
    size_t count, taken;
};

struct job {
    struct index *index;
    const struct compile_options *options;
    struct compile_report *report;
    struct hf_lock *lock;
    struct queue flat;
    struct entry_list list; /* of the shard's folder, as far as it was listed */
    struct queue listed;
    bool began, failed;
    /* The batch, which one swap folds. */
    struct part *parts;
    size_t part_count, part_capacity;
    size_t entry_count;
    uint64_t bytes;
    struct record *records;
    size_t record_count;
    struct cleared *cleared;
    size_t cleared_count;
};

static bool is_stopped(const struct compile_options *options)
{
    return options->stop && options->stop(options->argument);
}

/* Ends the shard. */
static bool end_with(struct job *job, enum compile_end end, const struct hf_error *error)
{
    job->report->end = end;
    if (error && (end != COMPILE_FAILED || job->report->why.status == HF_OK))
        job->report->why = *error;
    return false;
}

/* Something stays in the inbox; the rest goes on. */
static void note_trouble(struct job *job, const struct hf_error *error)
{
    if (job->report->why.status == HF_OK)
        job->report->why = *error;
}

/* ---- The lock ------------------------------------------------------------------------ */

static enum hf_status take_lock(struct index *index, const struct compile_options *options,
                                struct shard_id shard, int64_t wait_ms,
                                struct hf_lock **ret_lock, struct hf_error *error)
{
    char scope[SCOPE_TEXT_MAX + 1];
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    check(index->client);
    how.ttl_ms = options->ttl.us / 1000;
    snprintf(scope, sizeof scope, "shard:%s/%s", index->name, shard.text);
    enum hf_status status = hf_lock_new(index->client, scope, &how, &lock, error);
    if (status != HF_OK)
        return status;
    status = hf_lock_acquire(lock, wait_ms, error);
    if (status == HF_OK)
        *ret_lock = lock;
    else
        hf_lock_free(lock);
    return status;
}

/* What became of it says nothing about the shard, which was swapped or not. */
static void give_back(struct hf_lock *lock)
{
    struct hf_error ignored;
    hf_lock_release(lock, &ignored);
    hf_lock_free(lock);
}

static bool enter(struct job *job)
{
    struct hf_error why;
    enum hf_status status = take_lock(job->index, job->options, job->report->shard,
                                      /* wait_ms */ 0, &job->lock, &why);
    if (status == HF_HELD)
        return end_with(job, COMPILE_HELD, &why);
    if (status != HF_OK)
        return end_with(job, status == HF_LOST ? COMPILE_LOST : COMPILE_FAILED, &why);
    job->report->token = hf_lock_token(job->lock);
    return true;
}

/* ---- Gathering a batch --------------------------------------------------------------- */

static void batch_clear(struct job *job)
{
    for (size_t i = 0; i < job->part_count; i++)
        entry_load_release(&job->parts[i].load);
    free(job->records);
    free(job->cleared);
    job->records = NULL;
    job->cleared = NULL;
    job->part_count = job->entry_count = job->record_count = job->cleared_count = 0;
    job->bytes = 0;
}

static struct part *add_part(struct job *job)
{
    if (job->part_count == job->part_capacity) {
        size_t capacity = job->part_capacity > 0 ? job->part_capacity * 2 : 16;
        struct part *parts = realloc(job->parts, capacity * sizeof *parts);
        if (!parts)
            return NULL;
        job->parts = parts;
        job->part_capacity = capacity;
    }
    job->parts[job->part_count] = (struct part){ 0 };
    return &job->parts[job->part_count];
}

static bool has_room(const struct job *job)
{
    return job->entry_count < job->options->batch_entries &&
           job->bytes < job->options->batch_bytes;
}

/* Loads as many of a queue as the batch has room for. */
static bool gather(struct job *job, struct queue *queue)
{
    struct hf_error why;
    while (queue->taken < queue->count && has_room(job)) {
        if (is_stopped(job->options))
            return end_with(job, COMPILE_STOPPED, NULL);
        const struct entry *entries = queue->entries + queue->taken;
        size_t left = queue->count - queue->taken;
        size_t room = job->options->batch_entries - job->entry_count;
        size_t count = inbox_batch(entries, left < room ? left : room,
                                   job->options->batch_bytes - job->bytes);
        struct part *part = add_part(job);
        if (!part)
            return end_with(job, COMPILE_FAILED, (error_no_memory(&why), &why));
        if (inbox_load(job->index, entries, count, &part->load, &why) != HF_OK)
            return end_with(job, COMPILE_FAILED, &why);
        part->entries = entries;
        job->part_count++;
        job->entry_count += count;
        queue->taken += count;
        job->bytes += part->load.bytes;
    }
    return true;
}

/* Lists the shard's folder, from behind what was listed before: so what could not be cleared is not
 * folded twice. Only between batches, whose entries are in the list. */
static bool list_more(struct job *job)
{
    char after[KEY_BYTES_MAX + 1];
    struct view behind = VIEW("");
    struct hf_error why;
    if (job->began && (job->listed.taken < job->listed.count || !job->list.more))
        return true;
    if (job->list.count > 0) {
        struct view last = job->list.entries[job->list.count - 1].object;
        memcpy(after, last.data, last.size);
        behind = (struct view){ after, last.size };
    }
    entry_list_release(&job->list);
    job->listed = (struct queue){ 0 };
    if (is_stopped(job->options))
        return end_with(job, COMPILE_STOPPED, NULL);
    if (inbox_list(job->index, job->report->shard, behind, job->options->batch_entries,
                   &job->list, &why) != HF_OK)
        return end_with(job, COMPILE_FAILED, &why);
    job->began = true;
    job->listed = (struct queue){ .entries = job->list.entries, .count = job->list.count };
    return true;
}

/* ---- Folding it ---------------------------------------------------------------------- */

static void clear_later(struct job *job, const struct entry *entry,
                        const struct entry_body *body)
{
    job->cleared[job->cleared_count++] = (struct cleared){
        .object = entry->object, .foreign = entry->name.kind != ENTRY_OURS, .etag = body->etag
    };
}

/* Keeps what cannot be read, before it is cleared away. */
static void set_aside(struct job *job, const struct entry *entry, const struct entry_body *body)
{
    struct compile_report *report = job->report;
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = HF_OK;
    if (RULE(ASIDE_BEFORE_CLEAR))
        status = inbox_set_aside(job->index, entry, &body->etag, body->why.why, &why);
    if (status == HF_NOT_FOUND || status == HF_CONFLICT)
        return;
    if (status != HF_OK) {
        job->failed = true;
        note_trouble(job, &why);
        return;
    }
    if (report->aside++ == 0)
        snprintf(report->first_aside, sizeof report->first_aside, "%.*s: %.110s",
                 VIEW_ARGS(view_first(entry->object, ERROR_PATH_MAX)), body->why.why);
    clear_later(job, entry, body);
}

static bool sort_out(struct job *job, const struct entry *entry, const struct entry_body *body)
{
    switch (body->state) {
    case ENTRY_READ:
        job->records[job->record_count++] = body->record;
        clear_later(job, entry, body);
        break;
    case ENTRY_BAD:
        if (is_stopped(job->options))
            return end_with(job, COMPILE_STOPPED, NULL);
        set_aside(job, entry, body);
        break;
    case ENTRY_FAILED:
        job->failed = true;
        note_trouble(job, &body->why);
        break;
    case ENTRY_VANISHED: break;
    }
    return true;
}

/* Makes records of what could be read, and sets aside what could not. */
static bool sort_out_all(struct job *job)
{
    struct hf_error why;
    job->records = malloc(job->entry_count * sizeof *job->records);
    job->cleared = malloc(job->entry_count * sizeof *job->cleared);
    if (!job->records || !job->cleared)
        return end_with(job, COMPILE_FAILED, (error_no_memory(&why), &why));
    for (size_t i = 0; i < job->part_count; i++) {
        const struct part *part = &job->parts[i];
        job->report->entries += part->load.count;
        for (size_t j = 0; j < part->load.count; j++)
            if (!sort_out(job, &part->entries[j], &part->load.bodies[j]))
                return false;
    }
    return true;
}

static void add_fold(struct compile_report *report, const struct fold_report *fold)
{
    report->folds++;
    report->fold.records_in += fold->records_in;
    report->fold.records_new += fold->records_new;
    report->fold.records_later += fold->records_later;
    report->fold.superseded += fold->superseded;
    report->fold.records = fold->records;
    report->fold.bytes = fold->bytes;
    report->fold.token = fold->token;
    report->fold.writes = fold->writes;
}

/* A shard that is ahead of our token was written by a later holder than us, and that is the end of
 * it; or how far tokens had come was lost with the lock, which other programs delete. The store
 * knows: if the lease is ours still, we go on from where the shard is. */
static enum hf_status fold_under_lock(struct index *index, struct shard_id shard,
                                      struct hf_lock *lock, struct record *records,
                                      size_t count, struct fold_report *ret_report,
                                      struct hf_error *error)
{
    enum hf_status status =
        index_fold(index, shard, hf_lock_token(lock), records, count, ret_report, error);
    struct hf_error lost;
    if (status != HF_FENCED || !RULE(FENCED_ASKS_THE_STORE) ||
        hf_lock_renew(lock, &lost) != HF_OK)
        return status;
    return index_fold(index, shard, ret_report->fence, records, count, ret_report, error);
}

static bool fold(struct job *job)
{
    struct hf_error why;
    struct fold_report report;
    if (job->record_count == 0)
        return true;
    if (is_stopped(job->options))
        return end_with(job, COMPILE_STOPPED, NULL);
    if (hf_lock_check(job->lock, &why) != HF_OK)
        return end_with(job, COMPILE_LOST, &why);
    enum hf_status status = fold_under_lock(job->index, job->report->shard, job->lock,
                                            job->records, job->record_count, &report, &why);
    if (status == HF_CONFLICT || status == HF_FENCED)
        return end_with(job, COMPILE_LOST, &why);
    if (status != HF_OK)
        return end_with(job, COMPILE_FAILED, &why);
    add_fold(job->report, &report);
    return true;
}

static void clear(struct job *job)
{
    struct compile_report *report = job->report;
    struct clear_report cleared;
    struct hf_error why;
    if (job->cleared_count == 0)
        return;
    inbox_clear(job->index, job->cleared, job->cleared_count, &cleared, &why);
    report->clear.deleted += cleared.deleted;
    report->clear.marked += cleared.marked;
    report->clear.newer += cleared.newer;
    report->clear.left += cleared.left;
    if (why.status != HF_OK)
        note_trouble(job, &why);
}

/* False when the shard is over. */
static bool compile_batch(struct job *job)
{
    batch_clear(job);
    if (!list_more(job) || !gather(job, &job->flat) || !gather(job, &job->listed))
        return false;
    if (job->entry_count == 0) {
        /* What was listed may have vanished since. */
        if (job->report->folds > 0 || job->report->aside > 0)
            job->report->end = COMPILE_DONE;
        if (job->failed)
            job->report->end = COMPILE_FAILED;
        return false;
    }
    if (!sort_out_all(job))
        return false;
    if (!RULE(CLEAR_AFTER_THE_SWAP))
        clear(job);
    if (!fold(job))
        return false;
    if (RULE(CLEAR_AFTER_THE_SWAP))
        clear(job);
    return true;
}

void compile_shard(struct index *index, const struct compile_options *options,
                   struct shard_id shard, const struct entry *flat, size_t flat_count,
                   struct compile_report *ret_report)
{
    *ret_report = (struct compile_report){ .shard = shard, .end = COMPILE_NOTHING };
    struct job job = { .index = index,
                       .options = options,
                       .report = ret_report,
                       .flat = { .entries = flat, .count = flat_count } };
    check(options->batch_entries > 0 && options->batch_bytes > 0);
    /* Before the lock, so that nobody locks for nothing. */
    bool found = list_more(&job) && job.list.count + flat_count > 0;
    if (found && enter(&job)) {
        while (compile_batch(&job))
            continue;
        give_back(job.lock);
    }
    batch_clear(&job);
    entry_list_release(&job.list);
    free(job.parts);
}

/* ---- Without the inbox --------------------------------------------------------------- */

enum hf_status compile_straight(struct index *index, const struct compile_options *options,
                                struct shard_id shard, struct record *records, size_t count,
                                struct span wait, struct fold_report *ret_report,
                                struct hf_error *error)
{
    struct hf_lock *lock;
    struct hf_error why = { .status = HF_OK };
    for (size_t i = 0; i < count; i++)
        check(strcmp(shard_of_key(records[i].key, index->schema.digits).text, shard.text) == 0);
    enum hf_status status = take_lock(index, options, shard, wait.us / 1000, &lock, &why);
    if (status == HF_TIMEOUT && wait.us > 0)
        status = why.status = HF_HELD;
    if (status == HF_OK) {
        status = hf_lock_check(lock, &why);
        if (status == HF_OK)
            status = fold_under_lock(index, shard, lock, records, count, ret_report, &why);
        give_back(lock);
    }
    if (error)
        *error = why;
    return status;
}
