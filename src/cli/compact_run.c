/* compact_run.c: `compact run` and `compact watch`: a worker of this process, and what it tells
 * while it works. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/compact_events.h"
#include "cli/interrupt.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A signal is noticed within this. */
#define NAP SPAN_MS(50)

#define JOBS_USUAL_MAX 4
#define MEMORY_USUAL   (256 * MIB)

/* Of each process of a bucket's command. */
#define EXEC_MEMORY_USUAL (8 * GIB)
#define EXEC_FILE_USUAL   (64 * GIB)
#define EXEC_CPU_USUAL    SPAN_S(3600)

struct working {
    struct cli *cli;
    struct desk desk;
    struct forge *forge;
    struct worker *worker;
    struct worker_options options;
    struct allow_exec allowed; /* commands of the bucket that may run */
    size_t threads;
    struct gauge gauge;
    bool busy;           /* there was something to do at the last plan */
    uint64_t before;     /* bytes that were done when that began ... */
    uint64_t to_be_done; /* ... and all that is to be done since */
    bool lines;          /* one for each event */
    struct mono_time begun;
    struct worker_totals totals;
    struct tend_report tended;   /* as it was told last */
    struct hf_error error;       /* of worker_run */
    struct hf_error missing;     /* the partition, if it was not there: told already */
    char trouble[HF_WHY_MAX];    /* of a run: the last, not told yet */
    struct hf_error first_fault; /* of a group that failed */
    struct env_mutex mutex;      /* guards `over` */
    struct env_cond ended;
    bool over;
};

/* ---- Options ------------------------------------------------------------------------- */

static size_t processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    if (count < 1)
        return 1;
    return count < JOBS_USUAL_MAX ? (size_t)count : JOBS_USUAL_MAX;
}

static enum hf_status take_count(struct cli *cli, const char *name, uint64_t most,
                                 size_t *number)
{
    const struct option_value *value = cli_option(cli, name);
    if (!value)
        return HF_OK;
    if (value->number == 0 || value->number > most)
        return error_set(&cli->error, HF_INVALID, "--%s takes 1 to %" PRIu64 ", not %.*s", name,
                         most, VIEW_ARGS(view_first(value->text, 40)));
    *number = value->number;
    return HF_OK;
}

/* Each job has its part of the memory, and a merge needs some. */
static enum hf_status take_memory(struct working *working)
{
    struct cli *cli = working->cli;
    struct worker_options *options = &working->options;
    const struct option_value *value = cli_option(cli, "memory");
    size_t least = options->jobs * MERGE_MEMORY_MIN;
    options->memory_bytes = MEMORY_USUAL > least ? MEMORY_USUAL : least;
    if (!value)
        return HF_OK;
    if (value->number < least || value->number > MERGE_MEMORY_MAX)
        return error_set(&cli->error, HF_INVALID,
                         "--memory takes %zuMiB (%zuMiB a job) to %zuGiB, not %.*s",
                         least / MIB, MERGE_MEMORY_MIN / MIB, MERGE_MEMORY_MAX / GIB,
                         VIEW_ARGS(view_first(value->text, 40)));
    options->memory_bytes = value->number;
    return HF_OK;
}

/* Of commands of the bucket, which nobody here has written. */
static enum hf_status take_exec(struct working *working)
{
    struct cli *cli = working->cli;
    struct allow_exec *allowed = &working->allowed;
    const struct option_value *memory = cli_option(cli, "limit-memory");
    const struct option_value *file = cli_option(cli, "limit-file");
    enum hf_status status = take_allow_exec(cli, allowed);
    allowed->memory_bytes_max = memory ? memory->number : EXEC_MEMORY_USUAL;
    allowed->file_bytes_max = file ? file->number : EXEC_FILE_USUAL;
    allowed->cpu_limit = cli_span(cli, "limit-cpu", EXEC_CPU_USUAL);
    return status;
}

static enum hf_status take_options(struct working *working)
{
    struct cli *cli = working->cli;
    struct worker_options *options = &working->options;
    options->jobs = processors();
    working->threads = processors();
    options->force = cli_given(cli, "force");
    enum hf_status status = take_count(cli, "jobs", WORKER_JOBS_MAX, &options->jobs);
    if (status == HF_OK)
        status = take_count(cli, "threads", MERGE_THREADS_MAX, &working->threads);
    if (status == HF_OK)
        status = take_memory(working);
    if (status == HF_OK)
        status = take_exec(working);
    if (status == HF_OK && options->mode == WORKER_WATCH && cli_given(cli, "poll"))
        options->poll = cli_option(cli, "poll")->span;
    return status;
}

/* ---- Telling ------------------------------------------------------------------------- */

/* Whether there is something new to say: a round of tending mostly finds nothing to do. */
static bool is_news(struct working *working, const struct worker_notice *notice)
{
    bool in_vain = working->trouble[0] && notice->totals && notice->totals->groups_planned == 0;
    if (notice->event == WORKER_PROGRESS || (notice->event == WORKER_PLANNED && in_vain))
        return false;
    if (notice->event != WORKER_TENDED)
        return true;
    struct tend_report now = notice->totals->tended;
    now.requests = working->tended.requests;
    bool news = memcmp(&now, &working->tended, sizeof now) != 0;
    working->tended = now;
    return news;
}

/* On a terminal only what somebody should look at; the progress line tells the rest. */
static bool is_bad_news(const struct worker_notice *notice)
{
    return notice->event == WORKER_TROUBLE || notice->event == WORKER_PAUSED ||
           (notice->event == WORKER_ENDED && notice->report->end == JOB_FAILED);
}

/* How far it is, counted from when there came to be something to do: time without work would
 * make the rest seem to take longer. */
static void show_progress(struct working *working, const struct worker_notice *notice)
{
    const struct worker_totals *totals = notice->totals;
    if (notice->event == WORKER_PLANNED) {
        bool busy = totals->groups_planned > 0;
        if (busy && !working->busy) {
            working->gauge.start = env_now(working->cli->env);
            working->before = totals->bytes_done;
        }
        working->busy = busy;
        working->to_be_done = totals->bytes_done - working->before + totals->bytes_planned;
    }
    if (working->busy)
        gauge_step(&working->gauge, totals->bytes_done - working->before, working->to_be_done);
    else
        gauge_clear(&working->gauge);
}

static bool is_told(const struct working *working, const char *why)
{
    return working->missing.status != HF_OK && strcmp(working->missing.why, why) == 0;
}

/* A run often ends for its last trouble, which is told then, as its error; earlier ones are told
 * now. */
static void keep_trouble(struct working *working, const char *why)
{
    struct cli *cli = working->cli;
    if (working->trouble[0] && !cli->quiet) {
        output_text(&cli->out, "trouble: ");
        output_words(&cli->out, view_of(working->trouble));
        output_text(&cli->out, "\n");
    }
    snprintf(working->trouble, sizeof working->trouble, "%s", why);
}

/* Called by one task of the worker at a time. */
static void tell(void *argument, const struct worker_notice *notice)
{
    struct working *working = argument;
    struct cli *cli = working->cli;
    struct hf_error ignored;
    bool failed = notice->event == WORKER_ENDED && notice->report->end == JOB_FAILED;
    if (failed && working->first_fault.status == HF_OK)
        working->first_fault = notice->report->error;
    if (is_news(working, notice)) {
        if (cli->json)
            output_json(&cli->out, notice_as_json(notice));
        else if (notice->event == WORKER_TROUBLE && is_told(working, notice->why))
            ;
        else if (notice->event == WORKER_TROUBLE && working->options.mode != WORKER_WATCH)
            keep_trouble(working, notice->why);
        else if (working->lines || (!cli->quiet && is_bad_news(notice)))
            tell_notice(&cli->out, notice);
        gauge_clear(&working->gauge);
        output_flush(&cli->out, &ignored);
        if (output_is_closed(&cli->out))
            worker_stop(working->worker);
    }
    if (notice->totals)
        show_progress(working, notice);
}

static void tell_done(struct working *working)
{
    struct cli *cli = working->cli;
    struct span took = mono_since(env_now(cli->env), working->begun);
    if (!cli->json) {
        if (strcmp(working->trouble, working->error.why) != 0)
            keep_trouble(working, "");
        bool in_vain = working->error.status != HF_OK && working->totals.groups_planned == 0 &&
                       working->totals.bytes_done == 0;
        if (!cli->quiet && !in_vain)
            tell_totals(&cli->out, &working->totals, took);
        return;
    }
    json_t *object = json_object();
    json_add(&object, "event", json_string("done"));
    json_add_span(&object, "took_ms", took);
    json_add_count(&object, "requests", desk_requests(&working->desk));
    json_add(&object, "totals", totals_as_json(&working->totals));
    output_json(&cli->out, object);
}

/* ---- Working ------------------------------------------------------------------------- */

static void work(void *argument)
{
    struct working *working = argument;
    worker_run(working->worker, &working->totals, &working->error);
    env_mutex_lock(&working->mutex);
    working->over = true;
    env_cond_signal(&working->ended);
    env_mutex_unlock(&working->mutex);
}

/* A task works, and we wait for its end and for signals. */
static void wait_or_stop(struct working *working)
{
    struct cli *cli = working->cli;
    bool stopped = false;
    env_mutex_lock(&working->mutex);
    while (!working->over) {
        env_cond_wait_until(&working->ended, &working->mutex, mono_add(env_now(cli->env), NAP));
        if (!stopped && interrupted()) {
            worker_stop(working->worker);
            stopped = true;
        }
    }
    env_mutex_unlock(&working->mutex);
}

static enum hf_status work_to_the_end(struct working *working)
{
    struct cli *cli = working->cli;
    struct env_task *task;
    env_mutex_init(cli->env, &working->mutex);
    env_cond_init(cli->env, &working->ended);
    enum hf_status status = env_task_start(cli->env, work, working, &task, &cli->error);
    if (status == HF_OK) {
        wait_or_stop(working);
        env_task_join(cli->env, task);
        cli->error = working->error;
        status = working->error.status;
    }
    env_cond_release(&working->ended);
    env_mutex_release(&working->mutex);
    gauge_clear(&working->gauge);
    return status;
}

/* What the worker's end means for us: to be stopped is how watching ends; of a run it is not all
 * that was asked for, nor is it when groups failed. */
static enum hf_status judge(struct working *working, enum hf_status status)
{
    struct cli *cli = working->cli;
    if (working->options.mode == WORKER_WATCH)
        return interrupted() && status == HF_CANCELLED ? HF_OK : status;
    if (status == HF_OK)
        status = interrupt_check(&cli->error);
    if (status != HF_OK || working->first_fault.status == HF_OK)
        return status;
    uint64_t failed = working->totals.groups_failed;
    cli->error = working->first_fault;
    error_prefix(&cli->error, "%" PRIu64 " group%s failed, the first since", failed,
                 failed == 1 ? "" : "s");
    return cli->error.status;
}

static enum hf_status open_all(struct working *working)
{
    struct cli *cli = working->cli;
    enum hf_status status = desk_open_metered(&working->desk, cli);
    if (status != HF_OK)
        return status;
    working->forge = forge_files_new(cli->env, cli->store, scratch_folder(cli),
                                     working->threads, &cli->error);
    if (!working->forge)
        return cli->error.status;
    forge_files_allow(working->forge, &working->allowed);
    working->options.label = view_of(working->desk.client->holder);
    return worker_new(working->desk.shelf, working->forge, &working->options, &working->worker,
                      &cli->error);
}

static enum hf_status stop_there(void *argument, struct slot *slot,
                                 const struct catalog *catalog, const struct evidence *evidence,
                                 const struct hf_error *why)
{
    (void)argument, (void)slot, (void)catalog, (void)evidence, (void)why;
    return HF_ALREADY;
}

/* Who watches a partition that nobody has made waits for it, perhaps for ever: a mistyped name must
 * be noticed, also with --quiet. */
static void tell_if_missing(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_error error;
    if (shelf_walk(working->desk.shelf, stop_there, NULL, &error) != HF_NOT_FOUND)
        return;
    struct hf_error said;
    error_set(&said, HF_NOT_FOUND, "%.160s; waiting until there is one", error.why);
    working->missing = error;
    cli_report(cli, (struct view){ NULL, 0 }, &said);
}

static enum hf_status run_worker(struct cli *cli, enum worker_mode mode)
{
    struct working working = { .cli = cli,
                               .desk = { .cli = cli },
                               .options = { .mode = mode },
                               .lines = !cli->json && !cli->quiet && !cli->out.terminal,
                               .begun = env_now(cli->env) };
    working.options.tell = tell;
    working.options.argument = &working;
    enum hf_status status = take_options(&working);
    if (status != HF_OK)
        return status;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would bury commands before we have seen them end */
    status = open_all(&working);
    if (status == HF_OK && mode == WORKER_WATCH)
        tell_if_missing(&working);
    if (status == HF_OK) {
        gauge_start(&working.gauge, cli, VIEW("compact"));
        status = work_to_the_end(&working);
        tell_done(&working);
        status = judge(&working, status);
    }
    if (working.worker)
        worker_free(working.worker);
    if (working.forge)
        forge_files_free(working.forge);
    desk_close(&working.desk);
    return status;
}

enum hf_status run_compact_run(struct cli *cli)
{
    return run_worker(cli, cli_given(cli, "all") ? WORKER_DRAIN : WORKER_ONCE);
}

enum hf_status run_compact_watch(struct cli *cli)
{
    return run_worker(cli, WORKER_WATCH);
}
