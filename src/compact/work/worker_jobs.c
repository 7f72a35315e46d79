/* SPDX-License-Identifier: Apache-2.0 */
/* worker_jobs.c: runs jobs and maintenance as tasks, adds up their results and reports them. A
 * group that keeps failing although no chunk is to blame is delayed, so that the worker gets to the
 * other groups. */
#include "compact/work/worker_inside.h"

#include "base/check.h"
#include "base/limits.h"
#include "lock/handle.h"

/* The minimum interval between two progress reports. */
#define REPORT_EVERY SPAN_MS(100)

/* The same problem is not reported again before this time has passed. */
#define TROUBLE_EVERY SPAN_S(10)

/* How long a group that failed with no chunk to blame is delayed. The delay is doubled with each
 * failure, up to a limit. */
#define BACK_OFF      SPAN_S(1)
#define BACK_OFF_MOST SPAN_S(60)

/* Only groups of up to this size are claimed several at a time. */
#define CLAIM_AHEAD_BYTES (4 * MIB)

/* ---- Reporting ----------------------------------------------------------------------- */

static struct hf_compact_totals read_totals(struct worker *worker)
{
    env_mutex_lock(&worker->shared.mutex);
    struct hf_compact_totals totals = worker->shared.totals;
    for (size_t i = 0; i < worker->options.jobs; i++) {
        const struct runner *runner = &worker->shared.runners[i];
        if (!runner->order || runner->ended || runner->total == 0)
            continue;
        double share = (double)runner->done / (double)runner->total;
        totals.bytes_done += (uint64_t)((double)runner->order->bytes * (share < 1 ? share : 1));
    }
    env_mutex_unlock(&worker->shared.mutex);
    return totals;
}

void worker_report(struct worker *worker, enum hf_compact_event_kind event,
                   const struct order *order, const struct job_report *report, const char *why)
{
    if (!worker->options.tell)
        return;
    env_mutex_lock(&worker->reporting);
    struct hf_compact_totals totals = read_totals(worker);
    struct worker_notice notice = {
        .event = event, .order = order, .report = report, .totals = &totals, .why = why
    };
    worker->options.tell(worker->options.argument, &notice);
    env_mutex_unlock(&worker->reporting);
}

void worker_report_trouble(struct worker *worker, const struct hf_error *error)
{
    struct mono_time now = env_now(worker->tree->env);
    bool same = view_equal(view_of(worker->last_trouble.why), view_of(error->why));
    if (same && mono_since(now, worker->trouble_reported).us < TROUBLE_EVERY.us)
        return;
    worker->last_trouble = *error;
    worker->trouble_reported = now;
    worker_report(worker, HF_COMPACT_TROUBLE, NULL, NULL, error->why);
}

/* ---- One job ------------------------------------------------------------------------- */

/* Called for the first time when the lease is held and the work starts. */
static bool job_goes_on(void *argument, uint64_t done, uint64_t total)
{
    struct runner *runner = argument;
    struct worker *worker = runner->worker;
    struct mono_time now = env_now(worker->tree->env);
    env_mutex_lock(&worker->shared.mutex);
    runner->done = done;
    runner->total = total;
    env_mutex_unlock(&worker->shared.mutex);
    if (!runner->started) {
        runner->started = true;
        runner->reported = now;
        worker_report(worker, HF_COMPACT_STARTED, runner->order, NULL, NULL);
    } else if (mono_since(now, runner->reported).us >= REPORT_EVERY.us) {
        runner->reported = now;
        worker_report(worker, HF_COMPACT_PROGRESS, NULL, NULL, NULL);
    }
    return !worker_stops(worker);
}

static void count_job_locked(struct hf_compact_totals *totals, const struct runner *runner)
{
    const struct job_report *report = &runner->report;
    const struct merge_product *product = &report->product;
    bool committed = report->end == HF_COMPACT_END_COMMITTED;
    bool done = committed || report->end == HF_COMPACT_END_RANGE;
    totals->claims += runner->started;
    totals->claims_held += report->end == HF_COMPACT_END_HELD;
    totals->takeovers += report->took_over;
    totals->groups_committed += committed;
    totals->groups_failed +=
        report->end == HF_COMPACT_END_FAILED || report->end == HF_COMPACT_END_UNSURE;
    totals->groups_lost += report->end == HF_COMPACT_END_LOST;
    if (report->end == HF_COMPACT_END_TESTED || report->end == HF_COMPACT_END_DIVIDED)
        return;
    if (!done) {
        totals->bytes_in_vain += report->bytes_merged;
        return;
    }
    totals->bytes_done += runner->order->bytes;
    totals->rows_in += product->rows_in;
    totals->rows_out += product->rows_out;
    totals->rows_superseded += product->rows_superseded;
    totals->rows_rejected += product->rows_rejected;
    totals->rows_deleted += product->rows_deleted;
}

/* Called when the lease is about to be completed. */
static size_t take_next_groups(void *argument, const struct order *ret_orders[JOB_CLAIMS_MAX])
{
    struct runner *runner = argument;
    struct worker *worker = runner->worker;
    size_t count = 0;
    env_mutex_lock(&worker->shared.mutex);
    runner->next_taken = runner->batch.next_count > 0 && !worker_stops(worker) &&
                         mono_before(env_now(worker->tree->env), runner->next_until);
    for (; runner->next_taken && count < runner->batch.next_count; count++)
        ret_orders[count] = runner->batch.next[count].order;
    env_mutex_unlock(&worker->shared.mutex);
    return count;
}

static void run_job_task(void *argument)
{
    struct runner *runner = argument;
    struct worker *worker = runner->worker;
    struct job_options options = { .memory_bytes =
                                       worker->options.memory_bytes / worker->options.jobs,
                                   .go_on = job_goes_on,
                                   .argument = runner,
                                   .keep_markers = runner->keep_markers,
                                   .keep_record = true,
                                   .claim = runner->claim.lock ? &runner->claim : NULL,
                                   .next = take_next_groups,
                                   .done = runner->batch.done,
                                   .done_count = runner->batch.done_count,
                                   .leaves_lease = runner->batch.waiting_count > 0 };
    job_run(worker->tree, worker->merger, runner->order, &options, &runner->report);
    env_mutex_lock(&worker->shared.mutex);
    count_job_locked(&worker->shared.totals, runner);
    runner->ended = true; /* its progress is included in the totals now */
    env_mutex_unlock(&worker->shared.mutex);
    enum hf_compact_end end = runner->report.end;
    if (runner->started || (end != HF_COMPACT_END_HELD && end != HF_COMPACT_END_PASSED))
        worker_report(worker, HF_COMPACT_ENDED, runner->order, &runner->report,
                      runner->report.error.why);
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.running--;
    env_cond_broadcast(&worker->shared.changed);
    env_mutex_unlock(&worker->shared.mutex);
}

/* A single run makes only one plan, until it plans the ranges of a divided merge. That plan has no
 * other groups, so it comes after all of them, and none may hide with a running job. */
bool worker_offers_next(const struct worker *worker)
{
    if (worker->options.mode == HF_COMPACT_ONCE)
        return worker->planned;
    return !worker->stale && mono_before(env_now(worker->tree->env), worker->plan_at);
}

static bool start_job(struct worker *worker, const struct candidate *candidate,
                      struct job_claim claim, const struct batch *batch)
{
    bool once = worker->options.mode == HF_COMPACT_ONCE;
    struct hf_error error;
    env_mutex_lock(&worker->shared.mutex);
    struct runner *runner = NULL;
    for (size_t i = 0; i < worker->options.jobs; i++)
        if (!runner && !worker->shared.runners[i].order)
            runner = &worker->shared.runners[i];
    if (runner) {
        *runner = (struct runner){ .worker = worker,
                                   .order = candidate->order,
                                   .id = candidate->id,
                                   .claim = claim,
                                   .batch = *batch,
                                   .next_until = once ? (struct mono_time){ MOMENT_FAR }
                                                      : worker->plan_at,
                                   .keep_markers = worker->keep_markers };
        worker->shared.running++;
    }
    env_mutex_unlock(&worker->shared.mutex);
    if (!runner)
        return false;
    if (env_task_start(worker->tree->env, run_job_task, runner, &runner->task, &error) == HF_OK)
        return true;
    worker_report_trouble(worker, &error);
    env_mutex_lock(&worker->shared.mutex);
    runner->order = NULL;
    worker->shared.running--;
    env_mutex_unlock(&worker->shared.mutex);
    return false;
}

bool worker_start(struct worker *worker, const struct candidate *candidate,
                  const struct batch *batch)
{
    return start_job(worker, candidate, (struct job_claim){ .lock = NULL }, batch);
}

/* Puts candidates back so that the first of them is the first again. */
static void put_back_all(struct worker *worker, const struct candidate *candidates,
                         size_t count)
{
    while (count > 0)
        worker_put_back(worker, &candidates[--count]);
}

void worker_take_back(struct worker *worker)
{
    for (size_t i = 0; i < worker->options.jobs; i++) {
        struct runner *runner = &worker->shared.runners[i];
        struct candidate next[JOB_CLAIMS_MAX];
        size_t count = 0;
        env_mutex_lock(&worker->shared.mutex);
        if (runner->order && !runner->next_taken) {
            count = runner->batch.next_count;
            memcpy(next, runner->batch.next, sizeof next);
            runner->batch.next_count = 0;
        }
        env_mutex_unlock(&worker->shared.mutex);
        put_back_all(worker, next, count);
    }
}

/* Whether the group is merged so fast that it may be claimed ahead. One that may have killed a
 * worker is not: the claims that wait would die with it. */
static bool is_small(const struct order *order)
{
    bool good = order->bytes <= CLAIM_AHEAD_BYTES && !order->large && !order->test &&
                order->merge_id[0] == '\0';
    for (size_t i = 0; i < order->count; i++)
        good = good && order->sources[i].tries == 0 && !order->sources[i].mark_begin;
    return good;
}

void worker_take_next(struct worker *worker, size_t most, struct batch *batch)
{
    struct mono_time now = env_now(worker->tree->env);
    size_t taken = 0;
    if (!worker_offers_next(worker))
        return;
    while (taken < worker->candidate_count && taken < most && taken < JOB_CLAIMS_MAX) {
        const struct candidate *candidate = &worker->candidates[taken];
        bool small =
            is_small(candidate->order) && (taken == 0 || is_small(batch->next[0].order));
        if (!candidate_is_ready(worker, candidate, now) || (taken > 0 && !small))
            break;
        batch->next[taken++] = *candidate;
    }
    batch->next_count = taken;
    worker->candidate_count -= taken;
    memmove(worker->candidates, worker->candidates + taken,
            worker->candidate_count * sizeof *worker->candidates);
}

/* ---- Learning from results ----------------------------------------------------------- */

static struct span retry_delay(unsigned failures)
{
    struct span span = BACK_OFF;
    for (unsigned i = 1; i < failures; i++)
        if (span.us < BACK_OFF_MOST.us)
            span.us *= 2;
    return span_smaller(span, BACK_OFF_MOST);
}

static void learn_from_job(struct worker *worker, const struct runner *runner)
{
    const struct job_report *report = &runner->report;
    struct mono_time now = env_now(worker->tree->env);
    struct known_group *known = worker_known(worker, runner->id, now);
    bool nobodys =
        (report->end == HF_COMPACT_END_FAILED && report->blame == HF_COMPACT_BLAME_NOBODY) ||
        report->end == HF_COMPACT_END_UNSURE || report->end == HF_COMPACT_END_LOST;
    /* The ranges of a divided merge are part of the plan that it was in. */
    if (report->end == HF_COMPACT_END_DIVIDED && worker->options.mode == HF_COMPACT_ONCE) {
        worker->planned = false;
        worker->only_ranges = true;
        worker_take_back(worker);
    }
    if (report->end != HF_COMPACT_END_COMMITTED || worker->candidate_count == 0)
        worker->stale = true; /* other workers are active, or there may be more to do now */
    /* Late data could make every merge that drops markers fail. So after such a failure, a merge is
     * committed first. */
    if (report->needs_markers || report->end == HF_COMPACT_END_COMMITTED)
        worker->keep_markers = report->needs_markers;
    if (!known)
        return;
    known->round = worker->round;
    if (nobodys)
        known->not_before = mono_add(now, retry_delay(++known->failures));
    else if (report->end == HF_COMPACT_END_HELD)
        known->not_before = mono_add(now, worker->poll);
    else
        known->failures = 0;
}

/* Gives up what is left of a batch: its claims are released, and its groups planned again. */
static void end_batch(struct worker *worker, struct batch *batch)
{
    struct lock_exchange exchange = { .done_count = batch->done_count };
    memcpy(exchange.done, batch->done, sizeof exchange.done);
    lock_exchange(&exchange);
    for (size_t i = 0; i < batch->done_count; i++)
        hf_lock_free(batch->done[i]);
    for (size_t i = batch->waiting_count; i > 0; i--) {
        hf_lock_free(batch->waiting[i - 1].claim.lock);
        worker_put_back(worker, &batch->waiting[i - 1].candidate);
    }
    put_back_all(worker, batch->next, batch->next_count);
    worker->stale = true;
}

/* Starts the first of the waiting jobs. The last one completes all leases of the batch, and claims
 * the next groups. A claim is used even if the worker is to stop: its job then gives it back. */
static void continue_batch(struct worker *worker, struct batch *batch)
{
    struct claimed first = batch->waiting[0];
    struct batch rest = *batch;
    rest.waiting_count--;
    memmove(rest.waiting, rest.waiting + 1, rest.waiting_count * sizeof first);
    if (rest.waiting_count == 0)
        worker_take_next(worker, JOB_CLAIMS_MAX, &rest);
    if (start_job(worker, &first.candidate, first.claim, &rest))
        return;
    put_back_all(worker, rest.next, rest.next_count);
    end_batch(worker, batch);
}

/* The group could not be claimed. */
static void note_unclaimed(struct worker *worker, const struct candidate *next,
                           enum hf_status status)
{
    struct mono_time now = env_now(worker->tree->env);
    struct known_group *known = worker_known(worker, next->id, now);
    worker->stale = true;
    /* Whatever else went wrong says nothing about the group. A single run has no other plan, so the
     * group is claimed like any other. */
    if (status != HF_HELD) {
        worker_put_back(worker, next);
        return;
    }
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.totals.claims_held++;
    env_mutex_unlock(&worker->shared.mutex);
    if (known)
        known->not_before = mono_add(now, worker->poll);
    order_free(next->order);
}

/* Continues with the groups that the job has claimed, and remembers those that it could not. */
static void follow_up(struct worker *worker, const struct batch *asked,
                      const struct job_report *report)
{
    struct batch batch = { .waiting_count = 0 };
    for (size_t i = asked->next_count; i > 0; i--)
        if (report->next_status[i - 1] != HF_OK)
            note_unclaimed(worker, &asked->next[i - 1], report->next_status[i - 1]);
    for (size_t i = 0; i < asked->next_count; i++)
        if (report->next_status[i] == HF_OK)
            batch.waiting[batch.waiting_count++] =
                (struct claimed){ asked->next[i], report->claims[i] };
    if (batch.waiting_count > 0)
        continue_batch(worker, &batch);
}

/* Starts what follows a job that has ended. */
static void after_job(struct worker *worker, struct batch *batch, bool taken,
                      const struct job_report *report)
{
    if (batch->waiting_count > 0) {
        memcpy(batch->done, report->done, sizeof batch->done);
        batch->done_count = report->done_count;
        continue_batch(worker, batch);
    } else if (taken)
        follow_up(worker, batch, report);
    else
        put_back_all(worker, batch->next, batch->next_count);
}

void worker_collect(struct worker *worker)
{
    for (size_t i = 0; i < worker->options.jobs; i++) {
        struct runner *runner = &worker->shared.runners[i];
        env_mutex_lock(&worker->shared.mutex);
        bool ended = runner->order && runner->ended;
        env_mutex_unlock(&worker->shared.mutex);
        if (!ended)
            continue;
        env_task_join(worker->tree->env, runner->task);
        learn_from_job(worker, runner);
        struct order *order = runner->order;
        struct batch batch = runner->batch;
        struct job_report report = runner->report;
        bool taken = runner->next_taken;
        env_mutex_lock(&worker->shared.mutex);
        runner->order = NULL;
        env_mutex_unlock(&worker->shared.mutex);
        order_free(order);
        after_job(worker, &batch, taken, &report);
    }
}

size_t worker_running(struct worker *worker)
{
    size_t count = 0;
    for (size_t i = 0; i < worker->options.jobs; i++)
        count += worker->shared.runners[i].order != NULL;
    return count;
}

/* ---- Maintenance --------------------------------------------------------------------- */

static bool may_maintain(void *argument)
{
    return !worker_stops(argument);
}

enum hf_status worker_maintain(struct worker *worker, struct hf_error *error)
{
    struct maintain_options options = { .short_lived = worker->options.mode != HF_COMPACT_WATCH,
                                        .go_on = may_maintain,
                                        .argument = worker };
    struct maintain_report report = { 0 };
    enum hf_status status = maintain_round(worker->tree, &options, &report, error);
    env_mutex_lock(&worker->shared.mutex);
    struct hf_compact_totals *totals = &worker->shared.totals;
    totals->takeovers += report.settled;
    totals->settled += report.settled;
    totals->condemned += report.condemned;
    totals->retired += report.retired;
    totals->reaped += report.reaped;
    totals->deleted += report.deleted;
    totals->pinned = report.pinned; /* not a sum: each round counts the same chunks again */
    totals->dropped += report.dropped;
    env_mutex_unlock(&worker->shared.mutex);
    worker_report(worker, HF_COMPACT_TENDED, NULL, NULL, NULL);
    return status;
}

static void run_maintaining(void *argument)
{
    struct worker *worker = argument;
    struct hf_error error;
    worker_maintain(worker, &error);
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.maintain_error = error;
    worker->shared.maintain_ended = true;
    env_cond_broadcast(&worker->shared.changed);
    env_mutex_unlock(&worker->shared.mutex);
}

void worker_start_maintaining(struct worker *worker)
{
    struct hf_error error;
    check(!worker->maintain_task);
    worker->shared.maintain_ended = false;
    if (env_task_start(worker->tree->env, run_maintaining, worker, &worker->maintain_task,
                       &error) != HF_OK) {
        worker->maintain_task = NULL;
        worker_report_trouble(worker, &error);
    }
}

void worker_end_maintaining(struct worker *worker, bool wait)
{
    env_mutex_lock(&worker->shared.mutex);
    bool ended = worker->shared.maintain_ended;
    env_mutex_unlock(&worker->shared.mutex);
    if (!worker->maintain_task || (!ended && !wait))
        return;
    env_task_join(worker->tree->env, worker->maintain_task);
    worker->maintain_task = NULL;
    if (worker->shared.maintain_error.status != HF_OK)
        worker_report_trouble(worker, &worker->shared.maintain_error);
}
