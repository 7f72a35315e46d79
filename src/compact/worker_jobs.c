/* worker_jobs.c: jobs and tending as tasks beside each other; what came of them, and telling
 * it. */
#include "compact/worker_inside.h"

#include "base/check.h"

/* Progress is told no more often than this. */
#define TELL_EVERY SPAN_MS(100)

/* The same trouble is told again after this. */
#define TROUBLE_EVERY SPAN_S(10)

/* A group whose failure was nobody's fault waits so long, twice as long each time, up to a
 * limit. */
#define BACK_OFF      SPAN_S(1)
#define BACK_OFF_MOST SPAN_S(60)

/* ---- Telling ------------------------------------------------------------------------- */

static uint64_t bytes_so_far(const struct runner *runner)
{
    if (!runner->order || runner->ended || runner->total == 0)
        return 0;
    double share = (double)runner->done / (double)runner->total;
    return (uint64_t)((double)runner->order->bytes * (share < 1 ? share : 1));
}

static struct worker_totals read_totals(struct worker *worker)
{
    env_mutex_lock(&worker->shared.mutex);
    struct worker_totals totals = worker->shared.totals;
    for (size_t i = 0; i < worker->options.jobs; i++)
        totals.bytes_done += bytes_so_far(&worker->shared.runners[i]);
    env_mutex_unlock(&worker->shared.mutex);
    return totals;
}

void worker_tell(struct worker *worker, enum worker_event event, const struct order *order,
                 const struct job_report *report, const char *why)
{
    if (!worker->options.tell)
        return;
    env_mutex_lock(&worker->telling);
    struct worker_totals totals = read_totals(worker);
    struct worker_notice notice = {
        .event = event, .order = order, .report = report, .totals = &totals, .why = why
    };
    worker->options.tell(worker->options.argument, &notice);
    env_mutex_unlock(&worker->telling);
}

void worker_tell_trouble(struct worker *worker, const struct hf_error *error)
{
    struct mono_time now = env_now(worker->shelf->env);
    bool same = view_equal(view_of(worker->last_trouble.why), view_of(error->why));
    if (same && mono_since(now, worker->trouble_told).us < TROUBLE_EVERY.us)
        return;
    worker->last_trouble = *error;
    worker->trouble_told = now;
    worker_tell(worker, WORKER_TROUBLE, NULL, NULL, error->why);
}

/* ---- One job ------------------------------------------------------------------------- */

/* First called once the lease is there and the work begins. */
static bool go_on(void *argument, uint64_t done, uint64_t total)
{
    struct runner *runner = argument;
    struct worker *worker = runner->worker;
    struct mono_time now = env_now(worker->shelf->env);
    env_mutex_lock(&worker->shared.mutex);
    runner->done = done;
    runner->total = total;
    env_mutex_unlock(&worker->shared.mutex);
    if (!runner->started) {
        runner->started = true;
        runner->told = now;
        worker_tell(worker, WORKER_STARTED, runner->order, NULL, NULL);
    } else if (mono_since(now, runner->told).us >= TELL_EVERY.us) {
        runner->told = now;
        worker_tell(worker, WORKER_PROGRESS, NULL, NULL, NULL);
    }
    return !worker_stops(worker);
}

static void count_locked(struct worker_totals *totals, const struct runner *runner)
{
    const struct job_report *report = &runner->report;
    const struct forge_product *product = &report->product;
    bool committed = report->end == JOB_COMMITTED;
    totals->claims += runner->started;
    totals->claims_held += report->end == JOB_HELD;
    totals->takeovers += report->took_over;
    totals->groups_committed += committed;
    totals->groups_failed += report->end == JOB_FAILED || report->end == JOB_UNSURE;
    totals->groups_lost += report->end == JOB_LOST;
    if (!committed) {
        totals->bytes_in_vain += report->bytes_merged;
        return;
    }
    totals->bytes_done += runner->order->bytes;
    totals->rows_in += product->rows_in;
    totals->rows_out += product->rows_out;
    totals->rows_superseded += product->rows_superseded;
    totals->rows_rejected += product->rows_rejected;
}

static void run_job(void *argument)
{
    struct runner *runner = argument;
    struct worker *worker = runner->worker;
    struct job_options options = { .memory_bytes =
                                       worker->options.memory_bytes / worker->options.jobs,
                                   .go_on = go_on,
                                   .argument = runner,
                                   .keep_record = true };
    job_run(worker->shelf, worker->forge, runner->order, &options, &runner->report);
    env_mutex_lock(&worker->shared.mutex);
    count_locked(&worker->shared.totals, runner);
    runner->ended = true; /* its progress is in the totals now */
    env_mutex_unlock(&worker->shared.mutex);
    enum job_end end = runner->report.end;
    if (runner->started || (end != JOB_HELD && end != JOB_PASSED))
        worker_tell(worker, WORKER_ENDED, runner->order, &runner->report,
                    runner->report.error.why);
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.running--;
    env_cond_broadcast(&worker->shared.changed);
    env_mutex_unlock(&worker->shared.mutex);
}

static struct runner *free_runner(struct worker *worker)
{
    for (size_t i = 0; i < worker->options.jobs; i++)
        if (!worker->shared.runners[i].order)
            return &worker->shared.runners[i];
    return NULL;
}

bool worker_start(struct worker *worker, const struct candidate *candidate)
{
    struct hf_error error;
    env_mutex_lock(&worker->shared.mutex);
    struct runner *runner = free_runner(worker);
    if (runner) {
        *runner =
            (struct runner){ .worker = worker, .order = candidate->order, .id = candidate->id };
        worker->shared.running++;
    }
    env_mutex_unlock(&worker->shared.mutex);
    if (!runner)
        return false;
    if (env_task_start(worker->shelf->env, run_job, runner, &runner->task, &error) == HF_OK)
        return true;
    worker_tell_trouble(worker, &error);
    env_mutex_lock(&worker->shared.mutex);
    runner->order = NULL;
    worker->shared.running--;
    env_mutex_unlock(&worker->shared.mutex);
    return false;
}

/* ---- What is learnt of it ------------------------------------------------------------ */

static struct span back_off(unsigned failures)
{
    struct span span = BACK_OFF;
    for (unsigned i = 1; i < failures && span.us < BACK_OFF_MOST.us; i++)
        span.us *= 2;
    return span_smaller(span, BACK_OFF_MOST);
}

static void learn(struct worker *worker, const struct runner *runner)
{
    const struct job_report *report = &runner->report;
    struct mono_time now = env_now(worker->shelf->env);
    struct known *known = worker_known(worker, runner->id, now);
    bool nobodys = (report->end == JOB_FAILED && report->blame == BLAME_NOBODY) ||
                   report->end == JOB_UNSURE || report->end == JOB_LOST;
    if (report->end != JOB_COMMITTED || worker->candidate_count == 0)
        worker->stale = true; /* others are at it too, or there may be more to do now */
    if (!known)
        return;
    known->round = worker->round;
    if (nobodys)
        known->not_before = mono_add(now, back_off(++known->failures));
    else if (report->end == JOB_HELD)
        known->not_before = mono_add(now, worker->poll);
    else
        known->failures = 0;
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
        env_task_join(worker->shelf->env, runner->task);
        learn(worker, runner);
        struct order *order = runner->order;
        env_mutex_lock(&worker->shared.mutex);
        runner->order = NULL;
        env_mutex_unlock(&worker->shared.mutex);
        order_free(order);
    }
}

size_t worker_running(struct worker *worker)
{
    size_t count = 0;
    for (size_t i = 0; i < worker->options.jobs; i++)
        count += worker->shared.runners[i].order != NULL;
    return count;
}

/* ---- Tending ------------------------------------------------------------------------- */

static bool may_tend(void *argument)
{
    return !worker_stops(argument);
}

static void add_report(struct tend_report *sum, const struct tend_report *report)
{
    sum->settled += report->settled;
    sum->condemned += report->condemned;
    sum->retired += report->retired;
    sum->reaped += report->reaped;
    sum->deleted += report->deleted;
    sum->pinned = report->pinned; /* as of now: the same are met again and again */
    sum->dropped += report->dropped;
    sum->requests += report->requests;
}

enum hf_status worker_tend(struct worker *worker, struct hf_error *error)
{
    struct tend_options options = { .short_lived = worker->options.mode != WORKER_WATCH,
                                    .go_on = may_tend,
                                    .argument = worker };
    struct tend_report report = { 0 };
    enum hf_status status = tend_round(worker->shelf, &options, &report, error);
    env_mutex_lock(&worker->shared.mutex);
    add_report(&worker->shared.totals.tended, &report);
    worker->shared.totals.takeovers += report.settled;
    env_mutex_unlock(&worker->shared.mutex);
    worker_tell(worker, WORKER_TENDED, NULL, NULL, NULL);
    return status;
}

static void run_tending(void *argument)
{
    struct worker *worker = argument;
    struct hf_error error;
    worker_tend(worker, &error);
    env_mutex_lock(&worker->shared.mutex);
    worker->shared.tend_error = error;
    worker->shared.tend_ended = true;
    env_cond_broadcast(&worker->shared.changed);
    env_mutex_unlock(&worker->shared.mutex);
}

void worker_start_tending(struct worker *worker)
{
    struct hf_error error;
    check(!worker->tend_task);
    worker->shared.tend_ended = false;
    if (env_task_start(worker->shelf->env, run_tending, worker, &worker->tend_task, &error) !=
        HF_OK) {
        worker->tend_task = NULL;
        worker_tell_trouble(worker, &error);
    }
}

void worker_end_tending(struct worker *worker, bool wait)
{
    env_mutex_lock(&worker->shared.mutex);
    bool ended = worker->shared.tend_ended;
    env_mutex_unlock(&worker->shared.mutex);
    if (!worker->tend_task || (!ended && !wait))
        return;
    env_task_join(worker->shelf->env, worker->tend_task);
    worker->tend_task = NULL;
    if (worker->shared.tend_error.status != HF_OK)
        worker_tell_trouble(worker, &worker->shared.tend_error);
}
