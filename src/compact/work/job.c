/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: runs one merge, from lease to commit. The worker may die, lose its lease or lose a
 * reply at any step, so the swap of the catalog alone decides whether the merge happened.
 * This file deletes no object: a job that fails condemns its output in the catalog, and if
 * it cannot, the next worker finds the lease and does so. */
#include "compact/work/job.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "compact/care/maintain.h"
#include "compact/work/job_note.h"
#include "compact/work/jobs.h"
#include "elect/ladder.h"
#include "lock/handle.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- A job --------------------------------------------------------------------------- */

struct job {
    struct catalog_tree *tree;
    struct merger *merger;
    const struct order *order;
    const struct job_options *options;
    struct job_report *report;
    struct arena arena;
    struct compact_settings settings;
    struct view *keys; /* of the sources */
    uint64_t *crcs;    /* of the parts of the sources, for a range */
    struct view note;  /* that the renewals write */
    struct hf_lock *lock;
    struct hf_lock *done[JOB_CLAIMS_MAX]; /* of earlier jobs, to be completed with ours */
    size_t done_count;
    struct mono_time drawn;
    int64_t late_bound_ms; /* as it was read before */
    bool holds, no_memory; /* both set by the last check_group_holds() */
    bool told_to_stop, lease_gone;
    bool took_too_long; /* more than D/2 from name to commit */
    bool wrong_sum;     /* of all ranges together */
    bool drops_markers; /* the merge drops the deletion markers of the sources */
    bool marks_begin;   /* the lease must say that the merge begins before it does */
};

static bool is_range(const struct job *job)
{
    return job->order->merge_id[0] != '\0';
}

/* The names that the lease of the job is on: its sources, or its range. */
static const struct view *leased_names(const struct job *job, size_t *ret_count)
{
    *ret_count = is_range(job) ? 1 : job->order->count;
    return is_range(job) ? &job->order->lease_name : job->keys;
}

/* Whether the range must still be merged. All ranges of a merge drop the deletion markers, or none
 * does: the record says which, and its commit checks whether they might. */
static bool range_holds(const struct order *order, const struct catalog *catalog,
                        bool *ret_drops)
{
    const struct divided_merge *merge = catalog_merge(catalog, view_of(order->merge_id));
    *ret_drops = merge && merge->drops_markers;
    return merge && order->range < merge->range_count && !merge->ranges[order->range].done &&
           !catalog_merge_is_broken(catalog, merge);
}

/* A source that has failed in another job since the plan was made now belongs to a smaller group.
 * If the old group were tried again, a chunk that kills its workers would count a try against every
 * healthy chunk of that group. */
static bool none_was_tried_since(const struct order *order, const struct catalog *catalog)
{
    for (size_t i = 0; i < order->count; i++) {
        const struct chunk *now = catalog_find(catalog, order->sources[i].key);
        if (now && now->tries != order->sources[i].tries)
            return false;
    }
    return true;
}

/* A death of a worker of these chunks must be certain to have been in its merge, or before. */
static bool is_begin_marked(const struct order *order, const struct catalog *catalog)
{
    for (size_t i = 0; i < order->count; i++) {
        const struct chunk *now = catalog_find(catalog, order->sources[i].key);
        if (now && (now->mark_begin || now->tries > 0))
            return true;
    }
    return false;
}

/* The name of an output says how it is compressed, and was drawn by the settings of that time. */
static bool output_name_holds(const struct job *job)
{
    struct view output = view_of(job->report->output);
    return output.size == 0 || merge_coding_of_name(output) == job->settings.coding;
}

static void check_group_holds(void *argument, const struct catalog *catalog,
                              const struct evidence *evidence)
{
    struct job *job = argument;
    struct hf_error ignored;
    job->settings = catalog->settings;
    job->no_memory = !compact_settings_keep(&job->settings, &job->arena);
    job->marks_begin = is_range(job) || is_begin_marked(job->order, catalog);
    if (is_range(job)) {
        job->holds =
            range_holds(job->order, catalog, &job->drops_markers) && output_name_holds(job);
        return;
    }
    job->drops_markers = !job->options->keep_markers && !job->order->test &&
                         catalog_check_markers(catalog, job->keys, job->order->count, evidence,
                                               &ignored) == HF_OK;
    job->holds = none_was_tried_since(job->order, catalog) && output_name_holds(job) &&
                 (job->drops_markers || !job->order->drops) &&
                 plan_still_holds(catalog, job->order->level, job->keys, job->order->count,
                                  job->order->forced || job->order->test || job->order->drops);
}

/* Reads the catalog again to find out whether the group should still be merged: another worker may
 * have merged, retired or moved a source since the plan was made. Also copies the current
 * settings. */
static enum hf_status reread_group(struct job *job, bool *ret_holds, struct hf_error *error)
{
    job->holds = job->no_memory = false;
    enum hf_status status = catalog_ref_show(job->order->ref, check_group_holds, job, error);
    if (status == HF_OK && job->no_memory)
        status = error_no_memory(error);
    *ret_holds = ladder_guard(job->holds);
    return status;
}

/* The name is generated before the lease is acquired, because the lease records it. A client that
 * finds this lease expired then knows which output to condemn. */
static enum hf_status draw_output(struct job *job, struct hf_error *error)
{
    int64_t min_ms, max_ms;
    order_source_times(job->order, &min_ms, &max_ms);
    enum hf_status status =
        chunk_key_draw(job->tree->env,
                       &(struct chunk_key_parts){ view_of(job->order->ref->partition),
                                                  job->order->level, min_ms, &job->settings },
                       job->report->output, &job->drawn, error);
    job->late_bound_ms = job->settings.late_bound_ms;
    MUTANT(mutant_names_output_after_sources(job->keys, job->order->count, status,
                                             job->report->output));
    return status;
}

/* ---- The lease ----------------------------------------------------------------------- */

/* Makes the handle of the lease, which is not acquired yet. */
static enum hf_status new_lease(struct job *job, struct hf_error *error)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = job->settings.ttl_ms;
    options.output = job->report->output;
    options.level = job->order->level;
    options.note = JOB_NOTE_CLAIMED;
    size_t count;
    const struct view *names = leased_names(job, &count);
    const char **scopes = arena_take(&job->arena, count * sizeof *scopes);
    if (!scopes)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        struct scope scope = { .kind = SCOPE_CHUNK, .name = names[i] };
        char text[SCOPE_TEXT_MAX + 1];
        scopes[i] = arena_copy(&job->arena, view_of(scope_text(&scope, text))).data;
        if (!scopes[i])
            return error_no_memory(error);
    }
    return hf_lock_new_many(job->tree->client, scopes, count, &options, &job->lock, error);
}

/* Settles the ended leases on our chunks: leases of dead workers, and our own lease once it has
 * failed. Their outputs are condemned before this job may commit these chunks. */
static enum hf_status settle_sources(struct job *job, uint64_t *ret_settled,
                                     struct hf_error *error)
{
    struct maintain_report maintained = { 0 };
    size_t count;
    const struct view *names = leased_names(job, &count);
    enum hf_status status =
        maintain_settle(job->tree, layout_home(names[0]), names, count, &maintained, error);
    *ret_settled = maintained.settled;
    return status;
}

/* Condemns our output and counts the try against the chunks that are to blame. The result shows
 * whether the commit happened after all. If the output is already condemned, nothing is counted:
 * the swap that condemned it has counted the try. */
static enum hf_status condemn_output(struct job *job, enum hf_compact_blame blame,
                                     struct view culprit, enum condemned *ret_answer)
{
    struct view output = view_of(job->report->output);
    size_t count;
    const struct view *names = leased_names(job, &count);
    struct catalog_op op = { .kind = CATALOG_CONDEMN,
                             .keys = &output,
                             .key_count = 1,
                             .blame = blame,
                             .sources = names,
                             .source_count = count,
                             .culprit = culprit,
                             .reason = view_of(job->report->error.why),
                             .ret_condemned = ret_answer };
    return catalog_ref_apply(job->order->ref, &op, (struct mono_time){ 0 });
}

/* Ends the lease of a job that did not commit. The output is condemned first: if our lease expired
 * before that, another client would take us for a dead worker and blame the whole group. The
 * lease's note also records who is to blame, in case another client settles the lease. If no put
 * was sent and nobody is to blame, nothing is condemned. Otherwise a worker that keeps failing, for
 * example because its disk is full, would fill the catalog with condemned names, which stay there
 * for D. */
static void give_up_job(struct job *job, enum hf_compact_blame blame, struct view culprit)
{
    struct buffer text = BUFFER_INIT(2 * (size_t)NOTE_BYTES_MAX);
    struct job_note note = { .blame = blame,
                             .culprit = culprit,
                             .why = view_of(job->report->error.why),
                             .unsent = blame == HF_COMPACT_BLAME_NOBODY &&
                                       !job->report->product.put_sent };
    struct hf_error ignored;
    enum condemned answer;
    uint64_t settled;
    /* After UNSURE, the catalog has just failed to answer a condemn. */
    if (!note.unsent && job->report->end != HF_COMPACT_END_UNSURE)
        condemn_output(job, blame, culprit, &answer);
    const char *words = job_note_encode(&note, &text) ? buffer_text(&text) : NULL;
    hf_lock_fail(job->lock, words, &ignored);
    buffer_release(&text);
    /* Forgets the failed lease. If the condemn above failed, this repeats it first. If the catalog
     * cannot be reached, the lease stays in its table, and another client settles it later. */
    if (job->report->end != HF_COMPACT_END_UNSURE)
        settle_sources(job, &settled, &ignored);
}

/* ---- Taking and completing the lease -------------------------------------------------- */

/* Prepares the lease unless the group is obsolete. The catalog is read first: this saves the lease
 * of an obsolete group, and loads the settings that the name and the lease need. False: the report
 * says how the job ended. */
static bool prepare_lease(struct job *job)
{
    struct job_report *report = job->report;
    bool holds = false;
    enum hf_status status = reread_group(job, &holds, &report->error);
    if (status == HF_OK && !holds) {
        report->end = HF_COMPACT_END_PASSED;
        return false;
    }
    if (status == HF_OK)
        status = draw_output(job, &report->error);
    if (status == HF_OK)
        status = new_lease(job, &report->error);
    return status == HF_OK;
}

/* HELD: another worker has leased one of the chunks. Does not wait, because that worker is merging
 * them. */
static bool take_lease(struct job *job)
{
    struct job_report *report = job->report;
    if (job->lock) /* claimed by the job before this one */
        return true;
    if (!prepare_lease(job))
        return false;
    enum hf_status status = hf_lock_acquire(job->lock, /* wait_ms */ 0, &report->error);
    if (status != HF_OK)
        report->end = status == HF_HELD ? HF_COMPACT_END_HELD : HF_COMPACT_END_FAILED;
    return status == HF_OK;
}

static bool init_job(struct job *job, struct catalog_tree *tree, struct merger *merger,
                     const struct order *order, const struct job_options *options,
                     struct job_report *report)
{
    *job = (struct job){ .tree = tree,
                         .merger = merger,
                         .order = order,
                         .options = options,
                         .report = report,
                         .arena = ARENA_INIT };
    *report = (struct job_report){ .end = HF_COMPACT_END_FAILED,
                                   .product = { .culprit = MERGE_NO_CULPRIT } };
    check(order->count > 0);
    job->keys = arena_take(&job->arena, order->count * sizeof *job->keys);
    job->crcs = arena_take(&job->arena, order->count * sizeof *job->crcs);
    if (!job->keys || !job->crcs) {
        error_no_memory(&report->error);
        return false;
    }
    for (size_t i = 0; i < order->count; i++)
        job->keys[i] = order->sources[i].key;
    return true;
}

static_assert(JOB_CLAIMS_MAX == LOCK_EXCHANGE_MAX, "all are exchanged in one write");

/* Prepares the lease of a group that is to be claimed. If the group is obsolete, or something
 * fails, it is not claimed. */
static bool prepare_claim(const struct job *job, const struct order *order, struct job *next,
                          struct job_report *report)
{
    bool good = init_job(next, job->tree, job->merger, order, job->options, report) &&
                prepare_lease(next);
    if (!good) {
        hf_lock_free(next->lock);
        arena_release(&next->arena);
    }
    return good;
}

static void take_claim(const struct job *next, struct job_claim *ret_claim)
{
    ret_claim->lock = next->lock;
    ret_claim->drawn = next->drawn;
    ret_claim->late_bound_ms = next->late_bound_ms;
    memcpy(ret_claim->output, next->report->output, sizeof ret_claim->output);
}

/* Completes the leases in `exchange` and claims the next groups, in one write. */
static void complete_and_claim(struct job *job, const struct order *const *orders, size_t count,
                               struct lock_exchange *exchange)
{
    struct job nexts[JOB_CLAIMS_MAX];
    struct job_report reports[JOB_CLAIMS_MAX];
    size_t numbers[JOB_CLAIMS_MAX]; /* of the orders that can be claimed */
    for (size_t i = 0; i < count; i++) {
        size_t at = exchange->next_count;
        job->report->next_status[i] = HF_UNAVAILABLE;
        if (!prepare_claim(job, orders[i], &nexts[at], &reports[at]))
            continue;
        numbers[at] = i;
        exchange->next[at] = nexts[at].lock;
        exchange->next_count++;
    }
    lock_exchange(exchange);
    for (size_t at = 0; at < exchange->next_count; at++) {
        job->report->next_status[numbers[at]] = exchange->acquired[at];
        if (exchange->acquired[at] == HF_OK)
            take_claim(&nexts[at], &job->report->claims[numbers[at]]);
        else
            hf_lock_free(nexts[at].lock);
        arena_release(&nexts[at].arena);
    }
}

/* The leases of earlier jobs that have done their work. */
static void complete_earlier(struct job *job)
{
    struct lock_exchange exchange = { .done_count = job->done_count };
    memcpy(exchange.done, job->done, sizeof exchange.done);
    lock_exchange(&exchange);
    while (job->done_count > 0)
        hf_lock_free(job->done[--job->done_count]);
}

/* Completes the lease of a job that has done its work. If this fails, the client that settles the
 * lease learns from the catalog that the work was done. */
static void complete_lease(struct job *job)
{
    const struct job_options *options = job->options;
    const struct order *orders[JOB_CLAIMS_MAX];
    struct lock_exchange exchange = { .done_count = 0 };
    check(job->done_count < JOB_CLAIMS_MAX);
    job->done[job->done_count++] = job->lock;
    job->lock = NULL;
    if (options->leaves_lease) {
        memcpy(job->report->done, job->done, sizeof job->done);
        job->report->done_count = job->done_count;
        job->done_count = 0;
        return;
    }
    size_t count = options->next ? options->next(options->argument, orders) : 0;
    memcpy(exchange.done, job->done, sizeof exchange.done);
    exchange.done_count = job->done_count;
    complete_and_claim(job, orders, count, &exchange);
    while (job->done_count > 0)
        hf_lock_free(job->done[--job->done_count]);
}

/* ---- The merge ----------------------------------------------------------------------- */

/* The next renewal says how much is done, and costs nothing. */
static void note_percent_done(struct job *job, uint64_t done, uint64_t total)
{
    struct view note = job_note_of_progress(done, total);
    if (note.data == job->note.data)
        return;
    job->note = note;
    lock_set_renewal_note(job->lock, note);
}

/* Called during the merge. The lease check only saves work: if the lease is lost, the commit will
 * most likely be refused too. */
static bool may_go_on(void *argument, uint64_t done, uint64_t total)
{
    struct job *job = argument;
    const struct job_options *options = job->options;
    if (options->go_on && !options->go_on(options->argument, done, total))
        job->told_to_stop = true;
    else if (hf_lock_check(job->lock, NULL) != HF_OK)
        job->lease_gone = true;
    else
        note_percent_done(job, done, total);
    return !job->told_to_stop && !job->lease_gone;
}

/* What both the merger and the division of a merge need to know. */
static struct merge_order merge_order_of(struct job *job)
{
    const struct order *order = job->order;
    return (struct merge_order){ .settings = &job->settings,
                                 .sources = order->sources,
                                 .source_count = order->count,
                                 .output = view_of(job->report->output),
                                 .memory_bytes = job->options->memory_bytes,
                                 .level = order->level,
                                 .go_on = may_go_on,
                                 .argument = job };
}

static enum hf_status run_merger(struct job *job, struct hf_error *error)
{
    const struct order *order = job->order;
    struct merge_parts parts = order->parts;
    parts.ret_crcs = job->crcs;
    struct merge_order asked = merge_order_of(job);
    asked.test = order->test;
    asked.parts = is_range(job) ? &parts : NULL;
    asked.drops_markers = job->drops_markers;
    if (!may_go_on(job, 0, 2 * order->bytes))
        return error_set(error, HF_CANCELLED, "stopped before the merge began");
    enum hf_status status =
        job->merger->make(job->merger, &asked, &job->report->product, error);
    job->report->bytes_merged = job->report->product.bytes_read;
    return status;
}

/* A merge that lost or invented rows is never committed, whichever merger made the output. */
static enum hf_status check_product_rows(const struct job *job, struct hf_error *error)
{
    const struct merge_product *product = &job->report->product;
    bool all_known = true;
    for (size_t i = 0; i < job->order->count; i++)
        all_known &= job->order->sources[i].rows_known;
    if (!product->rows_known)
        return HF_OK;
    if (product->rows_in != product->rows_out + product->rows_superseded +
                                product->rows_rejected + product->rows_deleted)
        return error_set(error, HF_CORRUPT,
                         "the rows do not add up: %" PRIu64 " in, %" PRIu64 " out, %" PRIu64
                         " superseded, %" PRIu64 " rejected, %" PRIu64 " deleted",
                         product->rows_in, product->rows_out, product->rows_superseded,
                         product->rows_rejected, product->rows_deleted);
    if (all_known && !is_range(job) && product->rows_in != job->order->rows)
        return error_set(error, HF_CORRUPT,
                         "%" PRIu64 " rows were merged, but the catalog records %" PRIu64,
                         product->rows_in, job->order->rows);
    return HF_OK;
}

struct liveness {
    struct view key;
    bool live;
};

static void look_whether_live(void *argument, const struct catalog *catalog,
                              const struct evidence *evidence)
{
    struct liveness *seen = argument;
    (void)evidence;
    seen->live = catalog_find(catalog, seen->key) != NULL;
}

/* Handles a missing source object. If the catalog still lists the chunk as live, data was lost, and
 * the chunk is to blame. Otherwise another client has merged or retired the chunk, and this job is
 * obsolete. */
static enum hf_compact_end check_missing_source(struct job *job, struct view key,
                                                enum hf_compact_blame *blame)
{
    struct liveness seen = { .key = key };
    struct hf_error error;
    if (catalog_ref_show(job->order->ref, look_whether_live, &seen, &error) != HF_OK)
        return HF_COMPACT_END_FAILED; /* the cause is unknown, so nobody is blamed */
    if (!seen.live)
        return HF_COMPACT_END_PASSED;
    *blame = HF_COMPACT_BLAME_CHUNK;
    return HF_COMPACT_END_FAILED;
}

/* After a failed merge: determines how the job ended and which chunks are to blame. A stop and a
 * lost lease come first, because the merger was then cancelled, and its error says nothing about
 * the chunks. */
static void end_unmerged(struct job *job, const struct hf_error *error)
{
    struct job_report *report = job->report;
    const struct merge_product *product = &report->product;
    struct view culprit = VIEW("");
    report->error = *error;
    report->blame = HF_COMPACT_BLAME_NOBODY;
    report->end = HF_COMPACT_END_FAILED;
    if (job->told_to_stop)
        report->end = HF_COMPACT_END_STOPPED;
    else if (job->lease_gone) {
        report->end = HF_COMPACT_END_LOST;
        error_set(&report->error, HF_LOST, "the lease expired during the merge");
    } else if (product->culprit < job->order->count) {
        culprit = job->keys[product->culprit];
        if (error->status == HF_NOT_FOUND)
            report->end = check_missing_source(job, culprit, &report->blame);
        else
            report->blame = HF_COMPACT_BLAME_CHUNK;
    } else if (product->group_fault)
        report->blame = HF_COMPACT_BLAME_GROUP;
    give_up_job(job, report->blame, culprit);
}

/* ---- The commit ---------------------------------------------------------------------- */

/* The commit was not answered and may still take effect. One swap that condemns the output resolves
 * this: either it finds the commit in the catalog, or the commit can never happen. The output must
 * not be deleted before that, because the commit could land afterwards and name a deleted object.
 * If the condemn is not answered either, the client that settles the lease learns the outcome. */
static enum hf_compact_end ask_whether_committed(struct job *job, struct hf_error *error)
{
    enum condemned answer = CONDEMN_DONE;
    MUTANT(mutant_deletes_unsure_output(job->tree->store, view_of(job->report->output)));
    if (RULE(UNSURE_COMMIT_IS_ASKED) &&
        condemn_output(job, HF_COMPACT_BLAME_NOBODY, VIEW(""), &answer) != HF_OK) {
        error_prefix(error, "the commit got no reply");
        return HF_COMPACT_END_UNSURE;
    }
    enum hf_compact_end happened =
        is_range(job) ? HF_COMPACT_END_RANGE : HF_COMPACT_END_COMMITTED;
    return answer == CONDEMN_HAPPENED ? happened : HF_COMPACT_END_LOST;
}

static enum hf_compact_end commit_output(struct job *job, struct hf_error *error)
{
    const struct merge_product *product = &job->report->product;
    struct catalog_op op = { .kind = is_range(job) ? CATALOG_RANGE : CATALOG_COMMIT,
                             .id = view_of(job->order->merge_id),
                             .range = job->order->range,
                             .rows_in = product->rows_in,
                             .superseded = product->rows_superseded,
                             .deleted = product->rows_deleted,
                             .crcs = job->crcs,
                             .keys = job->keys,
                             .key_count = job->order->count,
                             .target = { .key = view_of(job->report->output),
                                         .level = job->order->level,
                                         .size = product->size,
                                         .rows_known = product->rows_known,
                                         .rows = product->rows_out,
                                         .crc32c = product->crc32c,
                                         .writer = VIEW(""),
                                         .quarantine = VIEW(""),
                                         .rejects = product->rows_rejected,
                                         .key_kinds = product->key_kinds },
                             .drops_markers = product->markers_dropped,
                             .markers_counted = product->markers_counted,
                             .markers_kept = product->markers_kept,
                             .drawn = job->drawn,
                             .late_bound_ms = job->late_bound_ms };
    order_source_times(job->order, &op.target.min_ms, &op.target.max_ms);
    enum hf_status status = catalog_ref_apply(job->order->ref, &op, (struct mono_time){ 0 });
    *error = op.error;
    job->report->needs_markers = op.needs_markers;
    if (status == HF_OK && op.needs_markers) {
        error_set(error, HF_CONFLICT,
                  "deletion markers must be kept, so the range must be merged again");
        return HF_COMPACT_END_LOST;
    }
    if (status == HF_OK)
        return is_range(job) && !op.committed ? HF_COMPACT_END_RANGE : HF_COMPACT_END_COMMITTED;
    /* The ranges together are not what the sources were. Only a merge of whole sources can find the
     * culprit, and the tries of this range lead to one. */
    job->wrong_sum = op.wrong_sum;
    job->took_too_long = status == HF_EXPIRED;
    /* The catalog refused the commit. give_up_job() then condemns the output, so that an earlier
     * attempt of ours that is still in progress cannot take effect later. */
    if (status == HF_CONFLICT || status == HF_EXPIRED)
        return HF_COMPACT_END_LOST;
    /* INVALID concerns the request itself, so no attempt can have succeeded. Any other failure may
     * hide a commit whose reply was lost. */
    return status == HF_INVALID || job->wrong_sum ? HF_COMPACT_END_FAILED
                                                  : ask_whether_committed(job, error);
}

static void commit_and_complete(struct job *job)
{
    struct job_report *report = job->report;
    struct hf_error error = { .status = HF_OK };
    /* This check only saves work. The lease is in another document and may end right after the
     * check. The commit is safe anyway, because it requires all sources to be live. */
    if (hf_lock_check(job->lock, &error) == HF_OK)
        report->end = commit_output(job, &error);
    else
        report->end = HF_COMPACT_END_LOST;
    if (report->end == HF_COMPACT_END_COMMITTED || report->end == HF_COMPACT_END_RANGE) {
        complete_lease(job);
        error_clear(&report->error);
        return;
    }
    report->error = error;
    /* The same group would take longer than D/2 again. Blaming it makes its next groups smaller,
     * and these may be fast enough. */
    bool at_fault = job->took_too_long || job->wrong_sum;
    report->blame = at_fault ? HF_COMPACT_BLAME_GROUP : HF_COMPACT_BLAME_NOBODY;
    give_up_job(job, report->blame, VIEW(""));
}

/* ---- Tests --------------------------------------------------------------------------- */

/* Nothing was put, so nothing is condemned. If the swap is not answered, the chunk keeps its tries
 * or has lost them; both are harmless, and the next plan sees which. */
static void pass_test(struct job *job)
{
    struct job_report *report = job->report;
    struct catalog_op op = { .kind = CATALOG_PASS, .keys = job->keys, .key_count = 1 };
    if (catalog_ref_apply(job->order->ref, &op, (struct mono_time){ 0 }) == HF_OK) {
        complete_lease(job);
        report->end = HF_COMPACT_END_TESTED;
        return;
    }
    report->error = op.error;
    report->end = HF_COMPACT_END_FAILED;
    give_up_job(job, HF_COMPACT_BLAME_NOBODY, VIEW(""));
}

/* ---- Dividing ------------------------------------------------------------------------ */

/* Adds the record of the divided merge. If the swap is not answered, the record may be there, and
 * the next plan sees it. Nothing was put, so nothing is condemned. */
static void divide_group(struct job *job, struct range *ranges, size_t count)
{
    struct job_report *report = job->report;
    char id[MERGE_ID_DIGITS + 1];
    struct divided_merge merge = { .level = job->order->level,
                                   .drops_markers = job->drops_markers,
                                   .sources = job->keys,
                                   .source_count = job->order->count,
                                   .ranges = ranges,
                                   .range_count = count };
    struct catalog_op op = { .kind = CATALOG_DIVIDE, .merge = &merge };
    op.drawn = env_now(job->tree->env);
    env_random_hex(job->tree->env, MERGE_ID_DIGITS, id);
    merge.id = view_of(id);
    enum hf_status status = catalog_ref_apply(job->order->ref, &op, (struct mono_time){ 0 });
    if (status == HF_OK) {
        complete_lease(job);
        report->end = HF_COMPACT_END_DIVIDED;
        return;
    }
    report->error = op.error;
    report->end = status == HF_CONFLICT ? HF_COMPACT_END_LOST : HF_COMPACT_END_FAILED;
    give_up_job(job, HF_COMPACT_BLAME_NOBODY, VIEW(""));
}

/* Returns true if the group was divided, or could not be divided now: the report says which. */
static bool divide_if_large(struct job *job)
{
    const struct order *order = job->order;
    struct range *ranges;
    size_t count = 1;
    struct hf_error error;
    struct merge_order asked = merge_order_of(job);
    if (!order->large || !job->merger->divide)
        return false;
    enum hf_status status =
        job->merger->divide(job->merger, &asked, &job->arena, &ranges, &count, &error);
    if (status == HF_OK && count < 2)
        return false;
    if (status == HF_OK)
        divide_group(job, ranges, count);
    else
        end_unmerged(job, &error);
    return true;
}

/* ---- The steps ----------------------------------------------------------------------- */

/* Runs with the lease held. The catalog is read again, because the plan was made before the lease
 * was acquired: another worker may have committed these chunks and completed its lease in between.
 * Ended leases are settled before that read, so it sees the tries that they count. If there are
 * new tries, this group is given up, and its chunks are planned again in smaller groups. */
static bool guard_lease(struct job *job)
{
    struct job_report *report = job->report;
    bool holds = false;
    enum hf_status status = settle_sources(job, &report->took_over, &report->error);
    if (status == HF_OK)
        status = reread_group(job, &holds, &report->error);
    if (status == HF_OK && holds)
        return true;
    report->end = status == HF_OK ? HF_COMPACT_END_PASSED : HF_COMPACT_END_FAILED;
    give_up_job(job, HF_COMPACT_BLAME_NOBODY, VIEW(""));
    return false;
}

/* Until a lease says that its merge has begun, the death of its worker counts no try. Usually the
 * next renewal says so, and costs nothing. If the worker dies before, the client that settles the
 * lease cannot know whether these chunks have killed it, and marks them; the next worker writes
 * first (docs/design.md, "Failures and limits"). False: the report says how the job ended. */
static bool begin_merge(struct job *job)
{
    struct job_report *report = job->report;
    job->note = job_note_of_progress(0, 0);
    lock_set_renewal_note(job->lock, job->note);
    enum hf_status status = HF_OK;
    if (RULE(BEGIN_IS_MARKED) && job->marks_begin)
        status = hf_lock_renew(job->lock, &report->error);
    if (status == HF_OK)
        return true;
    report->end =
        status == HF_LOST || status == HF_EXPIRED ? HF_COMPACT_END_LOST : HF_COMPACT_END_FAILED;
    give_up_job(job, HF_COMPACT_BLAME_NOBODY, VIEW(""));
    return false;
}

static void lease_merge_commit(struct job *job)
{
    struct job_report *report = job->report;
    struct hf_error error = { .status = HF_OK };
    if (!take_lease(job) || !guard_lease(job) || !begin_merge(job) || divide_if_large(job))
        return;
    enum hf_status status = run_merger(job, &error);
    if (status == HF_OK && check_product_rows(job, &error) != HF_OK) {
        status = error.status;
        report->product.culprit = MERGE_NO_CULPRIT;
        report->product.group_fault = true;
    }
    if (status != HF_OK)
        end_unmerged(job, &error);
    else if (job->order->test)
        pass_test(job);
    else
        commit_and_complete(job);
}

static void keep_record(const struct job *job)
{
    const struct job_report *report = job->report;
    const struct merge_product *product = &report->product;
    struct evidence evidence = { .nonce = VIEW("") };
    struct hf_error ignored;
    if (report->end == HF_COMPACT_END_HELD || report->end == HF_COMPACT_END_PASSED)
        return;
    clock_evidence(client_clock(job->tree->client), &evidence);
    bool committed =
        report->end == HF_COMPACT_END_COMMITTED || report->end == HF_COMPACT_END_RANGE;
    struct job_record record = { .id = view_of(report->output),
                                 .worker = view_of(client_holder(job->tree->client)),
                                 .end = view_of(hf_compact_end_name(report->end)),
                                 .why = view_of(report->error.why),
                                 .level = job->order->level,
                                 .sources = job->order->count,
                                 .bytes_in = job->order->bytes,
                                 .bytes_out = committed ? product->size : 0,
                                 .rows_in = committed ? product->rows_in : 0,
                                 .rows_out = committed ? product->rows_out : 0,
                                 .rows_superseded = committed ? product->rows_superseded : 0,
                                 .rows_rejected = committed ? product->rows_rejected : 0,
                                 .rows_deleted = committed ? product->rows_deleted : 0,
                                 .took_ms = report->took.us / 1000,
                                 .ended = stamp_now(&evidence),
                                 .ended_at = evidence.wall };
    jobs_note(job->tree, &record, &ignored);
}

void job_run(struct catalog_tree *tree, struct merger *merger, const struct order *order,
             const struct job_options *options, struct job_report *ret_report)
{
    struct job job;
    struct mono_time started = env_now(tree->env);
    bool good = init_job(&job, tree, merger, order, options, ret_report);
    if (options->claim) {
        job.lock = options->claim->lock;
        job.drawn = options->claim->drawn;
        job.late_bound_ms = options->claim->late_bound_ms;
        memcpy(ret_report->output, options->claim->output, sizeof ret_report->output);
    }
    for (; job.done_count < options->done_count; job.done_count++)
        job.done[job.done_count] = options->done[job.done_count];
    if (good)
        lease_merge_commit(&job);
    complete_earlier(&job); /* unless they were completed with ours, or left */
    hf_lock_free(job.lock);
    ret_report->took = mono_since(env_now(tree->env), started);
    if (options->keep_record && good)
        keep_record(&job);
    arena_release(&job.arena);
}
