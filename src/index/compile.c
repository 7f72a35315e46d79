/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c: compiles one shard under its lock: reads its entries, folds them, and clears them,
 * batch by batch. An entry may be the only copy of its record, so it is cleared only after the
 * shard that contains the record is known to be stored. */
#include "index/compile.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>

/* Entries that were loaded together; they are adjacent in a list. */
struct part {
    const struct entry *entries;
    struct entry_load load;
};

/* The entries of one list, and how many of them were taken. */
struct queue {
    const struct entry *entries;
    size_t count, taken;
};

struct shard_compile {
    struct index *index;
    const struct compile_options *options;
    struct compile_report *report;
    struct hf_lock *lock;
    struct queue flat;
    struct entry_list list; /* entries in the shard's folder, as far as it was listed */
    struct queue listed;
    bool began, failed;
    /* The batch that one swap folds. */
    struct part *parts;
    size_t part_count, part_capacity;
    size_t entry_count;
    uint64_t bytes;
    struct record *records;
    size_t record_count;
    struct cleared *cleared;
    size_t cleared_count;
    /* The entry of each cleared one, for records that the floor refuses. */
    const struct entry **cleared_entries;
};

static bool stop_requested(const struct compile_options *options)
{
    return options->stop && options->stop(options->argument);
}

/* Records how the compile of this shard ended. Always returns false. */
static bool end_with(struct shard_compile *job, enum hf_index_end end,
                     const struct hf_error *error)
{
    job->report->end = end;
    if (error && (end != HF_INDEX_END_FAILED || job->report->why.status == HF_OK))
        job->report->why = *error;
    return false;
}

/* Notes a problem because of which some entries stay in the inbox. The others are still
 * processed. */
static void note_first_error(struct shard_compile *job, const struct hf_error *error)
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

/* It does not matter whether the release succeeds: the swap has already determined the outcome. */
static void unlock_shard(struct hf_lock *lock)
{
    struct hf_error ignored;
    hf_lock_release(lock, &ignored);
    hf_lock_free(lock);
}

static bool lock_shard(struct shard_compile *job)
{
    struct hf_error why;
    enum hf_status status = take_lock(job->index, job->options, job->report->shard,
                                      /* wait_ms */ 0, &job->lock, &why);
    if (status == HF_HELD)
        return end_with(job, HF_INDEX_END_HELD, &why);
    if (status != HF_OK)
        return end_with(job, status == HF_LOST ? HF_INDEX_END_LOST : HF_INDEX_END_FAILED, &why);
    job->report->token = hf_lock_token(job->lock);
    return true;
}

/* ---- Gathering a batch --------------------------------------------------------------- */

static void release_batch(struct shard_compile *job)
{
    for (size_t i = 0; i < job->part_count; i++)
        entry_load_release(&job->parts[i].load);
    free(job->records);
    free(job->cleared);
    free(job->cleared_entries);
    job->records = NULL;
    job->cleared = NULL;
    job->cleared_entries = NULL;
    job->part_count = job->entry_count = job->record_count = job->cleared_count = 0;
    job->bytes = 0;
}

static struct part *add_part(struct shard_compile *job)
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

/* Loads entries of a queue until the batch is full. */
static bool load_queue(struct shard_compile *job, struct queue *queue)
{
    struct hf_error why;
    while (queue->taken < queue->count && job->entry_count < job->options->batch_entries &&
           job->bytes < job->options->batch_bytes) {
        if (stop_requested(job->options))
            return end_with(job, HF_INDEX_END_STOPPED, NULL);
        const struct entry *entries = queue->entries + queue->taken;
        size_t left = queue->count - queue->taken;
        size_t room = job->options->batch_entries - job->entry_count;
        size_t count = inbox_batch(entries, left < room ? left : room,
                                   job->options->batch_bytes - job->bytes);
        struct part *part = add_part(job);
        if (!part)
            return end_with(job, HF_INDEX_END_FAILED, (error_no_memory(&why), &why));
        if (inbox_load(job->index, entries, count, &part->load, &why) != HF_OK)
            return end_with(job, HF_INDEX_END_FAILED, &why);
        part->entries = entries;
        job->part_count++;
        job->entry_count += count;
        queue->taken += count;
        job->bytes += part->load.bytes;
    }
    return true;
}

/* Continues the listing of the shard's folder after the last listed entry. So an entry that could
 * not be cleared is not folded again in this compile, which therefore ends. Called only between
 * batches, because a batch uses the list. */
static bool list_more(struct shard_compile *job)
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
    if (stop_requested(job->options))
        return end_with(job, HF_INDEX_END_STOPPED, NULL);
    if (inbox_list(job->index, job->report->shard, behind, job->options->batch_entries,
                   &job->list, &why) != HF_OK)
        return end_with(job, HF_INDEX_END_FAILED, &why);
    job->began = true;
    job->listed = (struct queue){ .entries = job->list.entries, .count = job->list.count };
    return true;
}

/* ---- Folding it ---------------------------------------------------------------------- */

static void clear_later(struct shard_compile *job, const struct entry *entry,
                        const struct entry_body *body)
{
    job->cleared_entries[job->cleared_count] = entry;
    job->cleared[job->cleared_count++] = (struct cleared){
        .object = entry->object, .foreign = entry->name.kind != ENTRY_OURS, .etag = body->etag
    };
}

/* Copies an entry aside before it is cleared. If the entry is gone or was rewritten, there is
 * nothing to set aside: a later compile reads the new version. Returns whether the entry may be
 * cleared. */
static bool copy_aside(struct shard_compile *job, const struct entry *entry,
                       const struct etag *etag, const char *reason)
{
    struct compile_report *report = job->report;
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = HF_OK;
    if (RULE(ASIDE_BEFORE_CLEAR))
        status = inbox_set_aside(job->index, entry, etag, reason, &why);
    if (status == HF_NOT_FOUND || status == HF_CONFLICT)
        return false;
    if (status != HF_OK) {
        job->failed = true;
        note_first_error(job, &why);
        return false;
    }
    if (report->aside++ == 0)
        snprintf(report->first_aside, sizeof report->first_aside, "%.*s: %.110s",
                 VIEW_ARGS(view_first(entry->object, ERROR_PATH_MAX)), reason);
    return true;
}

/* Sets an unreadable entry aside. */
static void set_aside(struct shard_compile *job, const struct entry *entry,
                      const struct entry_body *body)
{
    if (copy_aside(job, entry, &body->etag, body->why.why))
        clear_later(job, entry, body);
}

/* Sets the entries aside whose records the floor has refused, and keeps those that cannot be set
 * aside from being cleared. */
static void set_refused_aside(struct shard_compile *job)
{
    for (size_t i = 0; i < job->record_count; i++) {
        struct cleared *cleared = &job->cleared[job->records[i].tag];
        if (job->records[i].refused &&
            !copy_aside(
                job, job->cleared_entries[job->records[i].tag], &cleared->etag,
                "the record is older than deletions that were dropped, and its key has no "
                "record"))
            cleared->object.size = 0;
    }
    size_t kept = 0;
    for (size_t i = 0; i < job->cleared_count; i++)
        if (job->cleared[i].object.size > 0)
            job->cleared[kept++] = job->cleared[i];
    job->cleared_count = kept;
}

static bool classify_entry(struct shard_compile *job, const struct entry *entry,
                           const struct entry_body *body)
{
    switch (body->state) {
    case ENTRY_READ:
        job->records[job->record_count] = body->record;
        job->records[job->record_count++].tag = job->cleared_count;
        clear_later(job, entry, body);
        break;
    case ENTRY_BAD:
        if (stop_requested(job->options))
            return end_with(job, HF_INDEX_END_STOPPED, NULL);
        set_aside(job, entry, body);
        break;
    case ENTRY_FAILED:
        job->failed = true;
        note_first_error(job, &body->why);
        break;
    case ENTRY_VANISHED: break;
    }
    return true;
}

/* Takes the records of readable entries, and sets unreadable entries aside. */
static bool classify_entries(struct shard_compile *job)
{
    struct hf_error why;
    job->records = malloc(job->entry_count * sizeof *job->records);
    job->cleared = malloc(job->entry_count * sizeof *job->cleared);
    job->cleared_entries = malloc(job->entry_count * sizeof *job->cleared_entries);
    if (!job->records || !job->cleared || !job->cleared_entries)
        return end_with(job, HF_INDEX_END_FAILED, (error_no_memory(&why), &why));
    for (size_t i = 0; i < job->part_count; i++) {
        const struct part *part = &job->parts[i];
        job->report->entries += part->load.count;
        for (size_t j = 0; j < part->load.count; j++)
            if (!classify_entry(job, &part->entries[j], &part->load.bodies[j]))
                return false;
    }
    return true;
}

/* If the shard has a higher token, a later holder has normally written it, and we must stop. But
 * another program may have deleted the lock file, and the token counter with it. Then every holder
 * would be fenced until the new counter had caught up. So a renewal asks the store: if the lease is
 * still ours, we continue from the shard's token, which therefore never decreases. */
static enum hf_status fold_under_lock(struct index *index, struct hf_lock *lock,
                                      const struct shard_records *new, struct span keep,
                                      struct fold_report *ret_report, struct hf_error *error)
{
    enum hf_status status =
        index_fold_and_drop(index, hf_lock_token(lock), new, keep, ret_report, error);
    struct hf_error lost;
    if (RULE(FENCED_ASKS_THE_STORE) && status == HF_FENCED &&
        hf_lock_renew(lock, &lost) == HF_OK)
        status = index_fold_and_drop(index, ret_report->fence, new, keep, ret_report, error);
    return status;
}

/* An entry older than a deletion may have been on its way, for up to D, when the deletion was
 * folded; and so may the shard with the deletion itself. A plain shard takes longer, because a
 * compiler that has not read the deletion may still write the shard. */
struct span compile_keep_least(const struct index *index)
{
    int64_t times = index->schema.plain ? 3 : 2;
    return SPAN_US(times * client_settings(index->client)->late_bound.us);
}

static struct span keep_deleted_for(const struct shard_compile *job)
{
    struct span wanted = job->options->keep_deleted;
    return span_larger(compile_keep_least(job->index),
                       wanted.us > 0 ? wanted : COMPILE_KEEP_DELETED);
}

static bool fold_records(struct shard_compile *job)
{
    struct hf_error why;
    struct fold_report report;
    if (job->record_count == 0)
        return true;
    if (stop_requested(job->options))
        return end_with(job, HF_INDEX_END_STOPPED, NULL);
    /* This check only saves work: the lock may be lost right after it. The token and the swap's
     * condition protect the shard. */
    if (hf_lock_check(job->lock, &why) != HF_OK)
        return end_with(job, HF_INDEX_END_LOST, &why);
    if (index_check_mark(job->index, &why) != HF_OK)
        return end_with(job, HF_INDEX_END_FAILED, &why);
    /* Deletions are dropped only after all entries that were listed have been folded. */
    bool last = job->flat.taken == job->flat.count && job->listed.taken == job->listed.count &&
                !job->list.more && !job->failed;
    const struct shard_records new = { job->report->shard, job->records, job->record_count };
    struct span keep = last ? keep_deleted_for(job) : SPAN_US(0);
    enum hf_status status = fold_under_lock(job->index, job->lock, &new, keep, &report, &why);
    if (status == HF_CONFLICT || status == HF_FENCED)
        return end_with(job, HF_INDEX_END_LOST, &why);
    if (status != HF_OK)
        return end_with(job, HF_INDEX_END_FAILED, &why);
    struct fold_report *total = &job->report->fold;
    report.records_in += total->records_in;
    report.records_new += total->records_new;
    report.records_later += total->records_later;
    report.superseded += total->superseded;
    report.deleted += total->deleted;
    report.refused += total->refused;
    report.dropped += total->dropped;
    *total = report;
    job->report->folds++;
    set_refused_aside(job);
    return true;
}

static void clear_entries(struct shard_compile *job)
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
        note_first_error(job, &why);
}

/* False once the shard is finished. Entries are cleared only after the fold has returned OK. After
 * any other status, UNSURE included, they stay for a later compile, which folds them again without
 * harm. */
static bool compile_batch(struct shard_compile *job)
{
    release_batch(job);
    if (!list_more(job) || !load_queue(job, &job->flat) || !load_queue(job, &job->listed))
        return false;
    if (job->entry_count == 0) {
        /* If nothing was merged or set aside, another process had removed the listed entries. */
        if (job->report->folds > 0 || job->report->aside > 0)
            job->report->end = HF_INDEX_END_DONE;
        if (job->failed)
            job->report->end = HF_INDEX_END_FAILED;
        return false;
    }
    if (!classify_entries(job))
        return false;
    MUTANT(mutant_clears_before_swap(clear_entries, job));
    if (!fold_records(job))
        return false;
    clear_entries(job);
    return true;
}

void compile_shard(struct index *index, const struct compile_options *options,
                   struct shard_id shard, const struct entry *flat, size_t flat_count,
                   struct compile_report *ret_report)
{
    *ret_report = (struct compile_report){ .shard = shard, .end = HF_INDEX_END_NOTHING };
    struct shard_compile job = { .index = index,
                                 .options = options,
                                 .report = ret_report,
                                 .flat = { .entries = flat, .count = flat_count } };
    check(options->batch_entries > 0 && options->batch_bytes > 0);
    /* The inbox is listed before the lock is acquired, so that an idle shard is not locked. */
    bool found = list_more(&job) && job.list.count + flat_count > 0;
    if (found && lock_shard(&job)) {
        while (compile_batch(&job))
            continue;
        unlock_shard(job.lock);
    }
    release_batch(&job);
    entry_list_release(&job.list);
    free(job.parts);
}

/* ---- Without the inbox --------------------------------------------------------------- */

enum hf_status compile_straight(struct index *index, const struct compile_options *options,
                                const struct shard_records *new, struct span wait,
                                struct fold_report *ret_report, struct hf_error *error)
{
    struct hf_lock *lock;
    struct hf_error why = { .status = HF_OK };
    for (size_t i = 0; i < new->count; i++) {
        struct shard_id shard = shard_of_key(new->records[i].key, index->schema.digits);
        check(strcmp(shard.text, new->shard.text) == 0);
    }
    enum hf_status status = take_lock(index, options, new->shard, wait.us / 1000, &lock, &why);
    if (status == HF_TIMEOUT && wait.us > 0)
        status = why.status = HF_HELD;
    if (status == HF_OK) {
        status = index_check_mark(index, &why);
        if (status == HF_OK)
            status = hf_lock_check(lock, &why);
        if (status == HF_OK)
            status = fold_under_lock(index, lock, new, /* keep */ SPAN_US(0), ret_report, &why);
        unlock_shard(lock);
    }
    if (error)
        *error = why;
    return status;
}
