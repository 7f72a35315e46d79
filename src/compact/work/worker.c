/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c: the main loop of a worker (plan, start jobs when it is the worker's turn, maintain,
 * wait) and its shutdown. The worker must stop promptly on a signal, and must not send requests to
 * a failing store again and again. */
#include "compact/work/worker_inside.h"

#include "base/check.h"
#include "elect/ladder.h"

#include <stdio.h>
#include <stdlib.h>

/* A signal handler can request a stop but cannot wake a sleeping task, so no sleep is longer than
 * this. */
#define SLEEP_MOST SPAN_MS(100)

#define POLL_LOCAL   SPAN_MS(200)
#define POLL_NETWORK SPAN_S(2)
#define BEAT_DEFAULT SPAN_S(10)

/* The first member of the roster runs maintenance at this interval, each further member less often,
 * up to a limit, because the maintenance of one member serves all. */
#define MAINTAIN_EVERY    SPAN_S(5)
#define MAINTAIN_RANK_MAX 11

/* After a plan, the worker waits at least this many times as long as the plan took. */
#define PLAN_SHARE 5

/* A run that is supposed to terminate gives up after this many consecutive failed plans, or after
 * this time. */
#define PLAN_FAILURES_MAX 5
#define PLAN_PATIENCE     CATALOG_TREE_PATIENCE

/* The pause between failed plans stops growing here. */
#define PLAN_WAIT_MOST SPAN_S(10)

/* ---- Planning ------------------------------------------------------------------------ */

static void keep_first_error(struct worker *worker, const struct hf_error *error)
{
    if (worker->result.status == HF_OK)
        worker->result = *error;
}

/* The roster only saves work: without it, every worker ranks itself first. */
static void keep_roster(struct worker *worker)
{
    struct env *env = worker->tree->env;
    char group[ROSTER_GROUP_MAX + 1];
    struct hf_error error;
    struct span beat = worker->options.beat;
    if (worker->options.force)
        return;
    if (worker->joined) {
        roster_keep(&worker->roster, env_now(env), &error);
        return;
    }
    snprintf(group, sizeof group, "compact-%s", worker->tree->partition);
    struct roster_options join = { view_of(group), worker->options.fingerprint,
                                   worker->options.label, beat.us > 0 ? beat : BEAT_DEFAULT };
    worker->joined = roster_join(&worker->roster, worker->tree->store, &join, &error) == HF_OK;
    if (!worker->joined)
        worker_report_trouble(worker, &error);
}

/* Finds out whether the partition is paused. If the store does not answer, the last known state is
 * kept. */
static void read_pause(struct worker *worker)
{
    char why[HF_WHY_MAX];
    struct hf_error error;
    bool paused = worker->paused;
    if (catalog_tree_is_paused(worker->tree, &paused, why, &error) != HF_OK) {
        worker_report_trouble(worker, &error);
        return;
    }
    if (paused && !worker->paused)
        worker_report(worker, HF_COMPACT_PAUSED, NULL, NULL, why);
    worker->paused = paused;
    if (paused && worker->options.mode != HF_COMPACT_WATCH) {
        error_set(&error, HF_UNAVAILABLE, "compaction is paused: %.150s", why);
        keep_first_error(worker, &error);
    }
}

/* Schedules the next plan. False if a run that is supposed to terminate gives up. */
static bool note_plan(struct worker *worker, enum hf_status status,
                      const struct hf_error *error, struct mono_time started)
{
    struct span wait = worker->poll;
    struct mono_time now = env_now(worker->tree->env);
    struct span took = mono_since(now, started);
    if (worker->plan_failures == 0)
        worker->failing = started;
    worker->plan_failures = status == HF_OK ? 0 : worker->plan_failures + 1;
    for (unsigned i = 1; i < worker->plan_failures; i++)
        if (wait.us < PLAN_WAIT_MOST.us)
            wait.us *= 2;
    /* A failed plan has mostly waited for the store, so the time it took does not count. */
    if (status == HF_OK && wait.us < took.us * PLAN_SHARE)
        wait.us = took.us * PLAN_SHARE;
    worker->plan_at = mono_add(now, wait);
    worker->stale = false;
    if (status == HF_OK)
        return true;
    worker_report_trouble(worker, error);
    if (worker->options.mode == HF_COMPACT_WATCH)
        return true;
    bool may_pass = status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE ||
                    status == HF_CONFLICT;
    if (may_pass && !worker->barred && worker->plan_failures < PLAN_FAILURES_MAX &&
        mono_since(now, worker->failing).us < PLAN_PATIENCE.us)
        return true;
    keep_first_error(worker, error);
    /* The remaining work is done first. */
    return worker->pending > 0 || worker->others_at_work || worker_running(worker) > 0;
}

/* Reports a plan only if it differs from the last one. */
static void report_plan(struct worker *worker)
{
    env_mutex_lock(&worker->shared.mutex);
    struct hf_compact_totals now = worker->shared.totals;
    env_mutex_unlock(&worker->shared.mutex);
    const struct hf_compact_totals *then = &worker->reported;
    bool same = worker->plan_reported && now.groups_planned == then->groups_planned &&
                now.bytes_planned == then->bytes_planned &&
                now.groups_committed == then->groups_committed;
    worker->reported = now;
    worker->plan_reported = true;
    if (!same)
        worker_report(worker, HF_COMPACT_PLANNED, NULL, NULL, NULL);
}

/* False if the run must end. */
static bool make_plan(struct worker *worker)
{
    struct hf_error error = { .status = HF_OK };
    struct mono_time started = env_now(worker->tree->env);
    worker_take_back(worker);
    keep_roster(worker);
    read_pause(worker);
    if (worker->paused) {
        worker_drop_candidates(worker);
        worker->plan_at = mono_add(started, worker->poll);
        worker->stale = false;
        return worker->options.mode == HF_COMPACT_WATCH;
    }
    enum hf_status status = worker_plan(worker, &error);
    bool goes_on = note_plan(worker, status, &error, started);
    if (status == HF_OK || worker->result.status != HF_OK)
        worker->planned = true;
    report_plan(worker);
    return goes_on;
}

static bool is_time_to_plan(struct worker *worker)
{
    bool has_room = worker_running(worker) < worker->options.jobs;
    bool due = !mono_before(env_now(worker->tree->env), worker->plan_at);
    /* A single run that has divided a merge plans its ranges, but only after the rest of its first
     * plan. */
    if (worker->options.mode == HF_COMPACT_ONCE)
        return !worker->planned && due && worker->candidate_count == 0;
    return !worker->planned ? due : has_room && (worker->stale || due);
}

/* ---- Working ------------------------------------------------------------------------- */

/* Removes the candidates that were used, whose orders are NULL by now. */
static void drop_used_candidates(struct worker *worker)
{
    size_t kept = 0;
    for (size_t i = 0; i < worker->candidate_count; i++)
        if (worker->candidates[i].order)
            worker->candidates[kept++] = worker->candidates[i];
    worker->candidate_count = kept;
}

/* The first candidate from this index on whose turn has come; NULL if there is none. */
static struct candidate *next_ready(struct worker *worker, size_t *index, struct mono_time now)
{
    for (; *index < worker->candidate_count; ++*index)
        if (candidate_is_ready(worker, &worker->candidates[*index], now))
            return &worker->candidates[(*index)++];
    return NULL;
}

/* Starts as many jobs as there is room for. Each job also gets the groups that it claims when it
 * completes its lease, before it starts: otherwise a short job would be done too early. */
static void start_ready(struct worker *worker)
{
    struct mono_time now = env_now(worker->tree->env);
    struct candidate begun[HF_COMPACT_JOBS_MAX], *ready;
    size_t room = worker->options.jobs - worker_running(worker), count = 0, at = 0;
    if (room == 0 || worker_stops(worker))
        return;
    worker_take_back(worker); /* what a running job would claim later can begin now */
    while (count < room && (ready = next_ready(worker, &at, now))) {
        begun[count++] = *ready;
        ready->order = NULL;
    }
    drop_used_candidates(worker);
    for (size_t i = 0; i < count; i++) {
        struct batch batch = { .next_count = 0 };
        size_t share = worker->candidate_count / (count - i);
        worker_take_next(worker, share > 0 ? share : 1, &batch);
        if (worker_start(worker, &begun[i], &batch))
            continue;
        for (size_t k = batch.next_count; k > 0; k--)
            worker_put_back(worker, &batch.next[k - 1]);
        for (size_t k = count; k > i; k--)
            worker_put_back(worker, &begun[k - 1]);
        return;
    }
}

static void maintain_in_time(struct worker *worker)
{
    struct mono_time now = env_now(worker->tree->env);
    worker_end_maintaining(worker, /* wait */ false);
    if (worker->options.mode == HF_COMPACT_ONCE || worker->paused || worker->maintain_task ||
        mono_before(now, worker->maintain_at))
        return;
    const struct work_writer writer = { .writer = VIEW("tend") };
    const struct work work = { .base = 1, .writers = &writer, .writer_count = 1 };
    size_t rank = 0;
    if (worker->joined)
        rank = ladder_rank(worker->roster.present, worker->roster.present_count,
                           view_of(worker->roster.fingerprint), &work);
    if (rank > MAINTAIN_RANK_MAX)
        rank = MAINTAIN_RANK_MAX;
    bool first = worker->maintain_at.us == 0;
    worker->maintain_at = mono_add(now, SPAN_US(MAINTAIN_EVERY.us * (int64_t)(rank + 1)));
    if (!first || rank == 0)
        worker_start_maintaining(worker);
}

static bool is_done(struct worker *worker)
{
    if (worker->options.mode == HF_COMPACT_WATCH || !worker->planned ||
        worker->candidate_count > 0 || worker_running(worker) > 0)
        return false;
    return worker->options.mode == HF_COMPACT_ONCE ||
           (!worker->stale && worker->plan_failures == 0 && worker->pending == 0 &&
            !worker->others_at_work);
}

/* Waits until a job ends, or for a short time, because our turn may come. A worker that continues
 * also wakes up for its next plan, or when maintenance ends. A worker that will not plan now must
 * not wait for plan_at: that time is in the past, so the wait would end immediately, and the worker
 * would run a busy loop until its jobs end. */
static void wait_for_change(struct worker *worker, bool goes_on)
{
    struct mono_time until = mono_add(env_now(worker->tree->env), SLEEP_MOST);
    bool plans_again = goes_on && (worker->options.mode != HF_COMPACT_ONCE ||
                                   (!worker->planned && worker->candidate_count == 0));
    if (plans_again && worker_running(worker) < worker->options.jobs)
        until = mono_earlier(until, worker->plan_at);
    env_mutex_lock(&worker->shared.mutex);
    bool news = worker->shared.running < worker_running(worker) ||
                (goes_on && worker->maintain_task && worker->shared.maintain_ended) ||
                (goes_on && worker->inbox_task && worker->shared.inbox_ended);
    if (!news)
        env_cond_wait_until(&worker->shared.changed, &worker->shared.mutex, until);
    env_mutex_unlock(&worker->shared.mutex);
}

static void run_until_done(struct worker *worker)
{
    bool goes_on = true;
    while (goes_on && !worker_stops(worker)) {
        worker_collect(worker);
        if (is_time_to_plan(worker))
            goes_on = make_plan(worker);
        else if (worker->joined)
            keep_roster(worker);
        start_ready(worker);
        maintain_in_time(worker);
        worker_scan_inbox(worker);
        if (is_done(worker))
            break;
        if (goes_on)
            wait_for_change(worker, /* goes_on */ true);
    }
    /* Running jobs are not abandoned: each of them ends its own lease. */
    while (worker_running(worker) > 0) {
        worker_collect(worker);
        if (worker_running(worker) > 0)
            wait_for_change(worker, /* goes_on */ false);
    }
}

/* ---- Number of requests -------------------------------------------------------------- */

#define REQUESTS_OF_RUN   8
#define REQUESTS_OF_GROUP 6 /* besides its lease */

uint64_t worker_requests(size_t groups, size_t sources)
{
    uint64_t batches =
        (groups + JOB_CLAIMS_MAX - 2) / JOB_CLAIMS_MAX; /* after the first group */
    uint64_t lease_writes = groups > 0 ? 2 + batches : 0;
    uint64_t first = groups > 0 ? 1 : 0;
    return REQUESTS_OF_RUN + first + REQUESTS_OF_GROUP * (uint64_t)groups + lease_writes +
           sources;
}

/* ---- Lifetime ------------------------------------------------------------------------ */

enum hf_status worker_new(struct catalog_tree *tree, struct merger *merger,
                          const struct worker_options *options, struct worker **ret_worker,
                          struct hf_error *error)
{
    if (options->jobs < 1 || options->jobs > HF_COMPACT_JOBS_MAX)
        return error_set(error, HF_INVALID, "1 to %d jobs can run at once, not %zu",
                         HF_COMPACT_JOBS_MAX, options->jobs);
    if (options->memory_bytes / options->jobs < HF_MERGE_MEMORY_MIN)
        return error_set(error, HF_INVALID, "%zu jobs at once need at least %zu MiB of memory",
                         options->jobs, options->jobs * (HF_MERGE_MEMORY_MIN / MIB));
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return error_no_memory(error);
    worker->tree = tree;
    worker->merger = merger;
    worker->options = *options;
    worker->known = MAP_INIT;
    worker->shared.totals = HF_COMPACT_TOTALS;
    bool local = tree->store->traits.clock == STORE_CLOCK_BOOT;
    worker->poll = options->poll.us > 0 ? options->poll : local ? POLL_LOCAL : POLL_NETWORK;
    env_mutex_init(tree->env, &worker->reporting);
    env_mutex_init(tree->env, &worker->shared.mutex);
    env_cond_init(tree->env, &worker->shared.changed);
    if (options->inbox.size > 0 && worker_open_inbox(worker, error) != HF_OK) {
        worker_free(worker);
        return error->status;
    }
    *ret_worker = worker;
    return HF_OK;
}

enum hf_status worker_run(struct worker *worker, struct hf_compact_totals *ret_totals,
                          struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    error_clear(&worker->result);
    run_until_done(worker);
    worker_end_inbox(worker, /* wait */ true);
    worker_end_maintaining(worker, /* wait */ true);
    if (!worker_stops(worker) && !worker->paused && worker_maintain(worker, &why) != HF_OK)
        worker_report_trouble(worker, &why);
    if (worker->joined)
        roster_leave(&worker->roster);
    worker->joined = false;
    env_mutex_lock(&worker->shared.mutex);
    *ret_totals = worker->shared.totals;
    env_mutex_unlock(&worker->shared.mutex);
    if (error)
        *error = worker->result;
    return worker->result.status;
}

void worker_stop(struct worker *worker)
{
    atomic_store_explicit(&worker->stopping, true, memory_order_relaxed);
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    check(worker_running(worker) == 0 && !worker->maintain_task && !worker->joined &&
          !worker->inbox_task);
    worker_plan_release(worker);
    inbox_free(worker->inbox);
    env_cond_release(&worker->shared.changed);
    env_mutex_release(&worker->shared.mutex);
    env_mutex_release(&worker->reporting);
    free(worker);
}
