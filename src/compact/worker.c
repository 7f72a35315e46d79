/* worker.c: the life of a worker: a loop of planning, starting what is its turn, tending, and
 * waiting; and its end. */
#include "compact/worker_inside.h"

#include "base/check.h"
#include "elect/ladder.h"

#include <stdio.h>
#include <stdlib.h>

/* A stop may come out of a signal handler, which cannot wake anybody: so nobody sleeps
 * longer. */
#define SLEEP_MOST SPAN_MS(100)

#define POLL_LOCAL   SPAN_MS(200)
#define POLL_NETWORK SPAN_S(2)
#define BEAT_DEFAULT SPAN_S(10)

/* The first of all tends so often, each next one of them less often by as much, up to a limit:
 * what one deletes the others need not. */
#define TEND_EVERY    SPAN_S(5)
#define TEND_RANK_MAX 11

/* A plan that costs much is not made more often than this part of the time allows. */
#define PLAN_SHARE 5

/* A run that is to end gives up when it cannot plan so often in a row, or for so long. */
#define PLAN_FAILURES_MAX 5
#define PLAN_PATIENCE     SHELF_PATIENCE

/* Waits between those, at most. */
#define PLAN_WAIT_MOST SPAN_S(10)

/* ---- Planning ------------------------------------------------------------------------ */

static bool may_pass(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_UNSURE ||
           status == HF_CONFLICT;
}

static void note_result(struct worker *worker, const struct hf_error *error)
{
    if (worker->result.status == HF_OK)
        worker->result = *error;
}

/* The roster is an optimisation: without it everybody takes their own turn to be the first. */
static void keep_roster(struct worker *worker)
{
    struct env *env = worker->shelf->env;
    char group[ROSTER_GROUP_MAX + 1];
    struct hf_error error;
    struct span beat = worker->options.beat;
    if (worker->options.force)
        return;
    if (worker->joined) {
        roster_keep(&worker->roster, env_now(env), &error);
        return;
    }
    snprintf(group, sizeof group, "compact-%s", worker->shelf->partition);
    worker->joined = roster_join(&worker->roster, worker->shelf->store, view_of(group),
                                 worker->options.fingerprint, worker->options.label,
                                 beat.us > 0 ? beat : BEAT_DEFAULT, &error) == HF_OK;
    if (!worker->joined)
        worker_tell_trouble(worker, &error);
}

/* Whether somebody has paused it; if the store does not tell, it goes on as it was. */
static void look_for_pause(struct worker *worker)
{
    char why[HF_WHY_MAX];
    struct hf_error error;
    bool paused = worker->paused;
    if (shelf_is_paused(worker->shelf, &paused, why, &error) != HF_OK) {
        worker_tell_trouble(worker, &error);
        return;
    }
    if (paused && !worker->paused)
        worker_tell(worker, WORKER_PAUSED, NULL, NULL, why);
    worker->paused = paused;
    if (paused && worker->options.mode != WORKER_WATCH) {
        error_set(&error, HF_UNAVAILABLE, "compaction is paused: %.150s", why);
        note_result(worker, &error);
    }
}

/* False when a run that is to end gives up. */
static bool note_plan(struct worker *worker, enum hf_status status,
                      const struct hf_error *error, struct mono_time started)
{
    struct span wait = worker->poll;
    struct mono_time now = env_now(worker->shelf->env);
    struct span took = mono_since(now, started);
    if (worker->plan_failures == 0)
        worker->failing = started;
    worker->plan_failures = status == HF_OK ? 0 : worker->plan_failures + 1;
    for (unsigned i = 1; i < worker->plan_failures && wait.us < PLAN_WAIT_MOST.us; i++)
        wait.us *= 2;
    if (status == HF_OK && wait.us < took.us * PLAN_SHARE) /* else it was only waited for */
        wait.us = took.us * PLAN_SHARE;
    worker->plan_at = mono_add(now, wait);
    worker->stale = false;
    if (status == HF_OK)
        return true;
    worker_tell_trouble(worker, error);
    if (worker->options.mode == WORKER_WATCH)
        return true;
    if (may_pass(status) && !worker->barred && worker->plan_failures < PLAN_FAILURES_MAX &&
        mono_since(now, worker->failing).us < PLAN_PATIENCE.us)
        return true;
    note_result(worker, error);
    /* What can be done is done first. */
    return worker->pending > 0 || worker->others_at_work || worker_running(worker) > 0;
}

/* A plan like the one before is no news. */
static void tell_plan(struct worker *worker)
{
    env_mutex_lock(&worker->shared.mutex);
    struct worker_totals now = worker->shared.totals;
    env_mutex_unlock(&worker->shared.mutex);
    const struct worker_totals *then = &worker->told;
    bool same = worker->told_plan && now.groups_planned == then->groups_planned &&
                now.bytes_planned == then->bytes_planned &&
                now.groups_committed == then->groups_committed;
    worker->told = now;
    worker->told_plan = true;
    if (!same)
        worker_tell(worker, WORKER_PLANNED, NULL, NULL, NULL);
}

/* False when it is over. */
static bool plan(struct worker *worker)
{
    struct hf_error error = { .status = HF_OK };
    struct mono_time started = env_now(worker->shelf->env);
    keep_roster(worker);
    look_for_pause(worker);
    if (worker->paused) {
        worker_drop_candidates(worker);
        worker->plan_at = mono_add(started, worker->poll);
        worker->stale = false;
        return worker->options.mode == WORKER_WATCH;
    }
    enum hf_status status = worker_plan(worker, &error);
    bool goes_on = note_plan(worker, status, &error, started);
    if (status == HF_OK || worker->result.status != HF_OK)
        worker->planned = true;
    tell_plan(worker);
    return goes_on;
}

static bool is_time_to_plan(struct worker *worker)
{
    bool has_room = worker_running(worker) < worker->options.jobs;
    bool due = !mono_before(env_now(worker->shelf->env), worker->plan_at);
    if (worker->options.mode == WORKER_ONCE)
        return !worker->planned && due;
    return !worker->planned ? due : has_room && (worker->stale || due);
}

/* ---- Working ------------------------------------------------------------------------- */

static void start_ready(struct worker *worker)
{
    struct mono_time now = env_now(worker->shelf->env);
    size_t kept = 0;
    bool room = true;
    for (size_t i = 0; i < worker->candidate_count; i++) {
        struct candidate candidate = worker->candidates[i];
        room = room && worker_running(worker) < worker->options.jobs && !worker_stops(worker);
        bool started = room && candidate_is_ready(worker, &candidate, now) &&
                       worker_start(worker, &candidate);
        if (!started)
            worker->candidates[kept++] = candidate;
    }
    worker->candidate_count = kept;
}

static size_t tend_rank(const struct worker *worker)
{
    const struct work_writer writer = { .writer = VIEW("tend") };
    const struct work work = { .base = 1, .writers = &writer, .writer_count = 1 };
    if (!worker->joined)
        return 0;
    size_t rank = ladder_rank(worker->roster.present, worker->roster.present_count,
                              view_of(worker->roster.fingerprint), &work);
    return rank < TEND_RANK_MAX ? rank : TEND_RANK_MAX;
}

static void tend_in_time(struct worker *worker)
{
    struct mono_time now = env_now(worker->shelf->env);
    worker_end_tending(worker, /* wait */ false);
    if (worker->options.mode == WORKER_ONCE || worker->paused || worker->tend_task ||
        mono_before(now, worker->tend_at))
        return;
    size_t rank = tend_rank(worker);
    bool first = worker->tend_at.us == 0;
    worker->tend_at = mono_add(now, SPAN_US(TEND_EVERY.us * (int64_t)(rank + 1)));
    if (!first || rank == 0)
        worker_start_tending(worker);
}

static bool is_done(struct worker *worker)
{
    if (worker->options.mode == WORKER_WATCH || !worker->planned ||
        worker->candidate_count > 0 || worker_running(worker) > 0)
        return false;
    return worker->options.mode == WORKER_ONCE ||
           (!worker->stale && worker->plan_failures == 0 && worker->pending == 0 &&
            !worker->others_at_work);
}

/* Until a job ends, or a short while has passed: it may be our turn then; who goes on also until a
 * plan is due or tending has ended. */
static void wait_a_little(struct worker *worker, bool goes_on)
{
    struct mono_time until = mono_add(env_now(worker->shelf->env), SLEEP_MOST);
    bool plans_again = goes_on && (worker->options.mode != WORKER_ONCE || !worker->planned);
    if (plans_again && worker_running(worker) < worker->options.jobs)
        until = mono_earlier(until, worker->plan_at);
    env_mutex_lock(&worker->shared.mutex);
    bool news = worker->shared.running < worker_running(worker) ||
                (goes_on && worker->tend_task && worker->shared.tend_ended);
    if (!news)
        env_cond_wait_until(&worker->shared.changed, &worker->shared.mutex, until);
    env_mutex_unlock(&worker->shared.mutex);
}

static void work(struct worker *worker)
{
    bool goes_on = true;
    while (goes_on && !worker_stops(worker)) {
        worker_collect(worker);
        if (is_time_to_plan(worker))
            goes_on = plan(worker);
        else if (worker->joined)
            keep_roster(worker);
        start_ready(worker);
        tend_in_time(worker);
        if (is_done(worker))
            break;
        if (goes_on)
            wait_a_little(worker, /* goes_on */ true);
    }
    while (worker_running(worker) > 0) {
        worker_collect(worker);
        if (worker_running(worker) > 0)
            wait_a_little(worker, /* goes_on */ false);
    }
}

/* ---- What it costs ------------------------------------------------------------------- */

#define REQUESTS_OF_RUN   8
#define REQUESTS_OF_GROUP 8

uint64_t worker_requests(size_t groups, size_t sources)
{
    uint64_t first = groups > 0 ? 1 : 0;
    return REQUESTS_OF_RUN + first + REQUESTS_OF_GROUP * (uint64_t)groups + sources;
}

/* ---- Its life ------------------------------------------------------------------------ */

enum hf_status worker_new(struct shelf *shelf, struct forge *forge,
                          const struct worker_options *options, struct worker **ret_worker,
                          struct hf_error *error)
{
    if (options->jobs < 1 || options->jobs > WORKER_JOBS_MAX)
        return error_set(error, HF_INVALID, "1 to %d jobs can run at once, not %zu",
                         WORKER_JOBS_MAX, options->jobs);
    if (options->memory_bytes / options->jobs < MERGE_MEMORY_MIN)
        return error_set(error, HF_INVALID, "%zu jobs at once need %zu MiB of memory at least",
                         options->jobs, options->jobs * (MERGE_MEMORY_MIN / MIB));
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return error_no_memory(error);
    worker->shelf = shelf;
    worker->forge = forge;
    worker->options = *options;
    worker->known = MAP_INIT;
    bool local = shelf->store->traits.clock == STORE_CLOCK_BOOT;
    worker->poll = options->poll.us > 0 ? options->poll : local ? POLL_LOCAL : POLL_NETWORK;
    env_mutex_init(shelf->env, &worker->telling);
    env_mutex_init(shelf->env, &worker->shared.mutex);
    env_cond_init(shelf->env, &worker->shared.changed);
    *ret_worker = worker;
    return HF_OK;
}

enum hf_status worker_run(struct worker *worker, struct worker_totals *ret_totals,
                          struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    error_clear(&worker->result);
    work(worker);
    worker_end_tending(worker, /* wait */ true);
    if (!worker_stops(worker) && !worker->paused && worker_tend(worker, &why) != HF_OK)
        worker_tell_trouble(worker, &why);
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
    check(worker_running(worker) == 0 && !worker->tend_task && !worker->joined);
    worker_plan_release(worker);
    env_cond_release(&worker->shared.changed);
    env_mutex_release(&worker->shared.mutex);
    env_mutex_release(&worker->telling);
    free(worker);
}
