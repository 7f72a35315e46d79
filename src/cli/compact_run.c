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
#define NAP_MS 50

struct working {
    struct cli *cli;
    struct desk desk;
    struct hf_compact_worker *worker;
    struct hf_compact_worker_options options;
    struct hf_compact_options exec; /* commands of the bucket that may run */
    struct gauge gauge;
    bool busy;           /* there was something to do at the last plan */
    uint64_t before;     /* bytes that were done when that began ... */
    uint64_t to_be_done; /* ... and all that is to be done since */
    bool lines;          /* one for each event */
    struct mono_time begun;
    struct hf_compact_totals totals;
    struct hf_compact_totals tended; /* what was cleared away, as it was told last */
    struct hf_error error;           /* of the worker */
    struct hf_error missing;         /* the partition, if it was not there: told already */
    char trouble[HF_WHY_MAX];        /* of a run: the last, not told yet */
    struct hf_error first_fault;     /* of a group that failed */
};

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status take_count(struct cli *cli, const char *name, uint64_t most,
                                 unsigned *number)
{
    const struct option_value *value = cli_option(cli, name);
    if (!value)
        return HF_OK;
    if (value->number == 0 || value->number > most)
        return error_set(&cli->error, HF_INVALID, "--%s takes 1 to %" PRIu64 ", not %.*s", name,
                         most, VIEW_ARGS(view_first(value->text, 40)));
    *number = (unsigned)value->number;
    return HF_OK;
}

/* As the library does when it is not told. */
static unsigned usual_jobs(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < 4 ? (unsigned)count : 4;
}

/* Each job has its part of the memory, and a merge needs some. */
static enum hf_status take_memory(struct working *working)
{
    struct cli *cli = working->cli;
    const struct option_value *value = cli_option(cli, "memory");
    unsigned jobs = working->options.jobs ? working->options.jobs : usual_jobs();
    uint64_t least = jobs * HF_MERGE_MEMORY_MIN;
    if (!value)
        return HF_OK;
    if (value->number < least || value->number > HF_MERGE_MEMORY_MAX)
        return error_set(&cli->error, HF_INVALID,
                         "--memory takes %" PRIu64 "MiB (%" PRIu64 "MiB a job) to %" PRIu64
                         "GiB, not %.*s",
                         least / MIB, HF_MERGE_MEMORY_MIN / MIB, HF_MERGE_MEMORY_MAX / GIB,
                         VIEW_ARGS(view_first(value->text, 40)));
    working->options.memory_bytes = value->number;
    return HF_OK;
}

/* A limit of 0 is none; to the library it would be the usual one. */
static uint64_t limit_option(struct cli *cli, const char *name)
{
    const struct option_value *value = cli_option(cli, name);
    if (!value)
        return 0;
    return value->number > 0 ? value->number : INT64_MAX;
}

/* Of commands of the bucket, which nobody here has written. */
static enum hf_status take_exec(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_compact_options *exec = &working->exec;
    exec->scratch_folder = scratch_folder(cli);
    const struct option_value *cpu = cli_option(cli, "limit-cpu");
    exec->exec_memory_max = limit_option(cli, "limit-memory");
    exec->exec_file_max = limit_option(cli, "limit-file");
    if (cpu)
        exec->exec_cpu_ms = cpu->span.us >= 1000 ? cpu->span.us / 1000 : INT64_MAX / 1000000;
    return take_allow_exec(cli, exec);
}

static enum hf_status take_options(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_compact_worker_options *options = &working->options;
    options->force = cli_given(cli, "force");
    enum hf_status status = take_count(cli, "jobs", HF_COMPACT_JOBS_MAX, &options->jobs);
    if (status == HF_OK)
        status = take_count(cli, "threads", HF_MERGE_THREADS_MAX, &options->threads);
    if (status == HF_OK)
        status = take_memory(working);
    if (status == HF_OK)
        status = take_exec(working);
    if (status == HF_OK && options->mode == HF_COMPACT_WATCH && cli_given(cli, "poll"))
        options->poll_ms = (cli_option(cli, "poll")->span.us + 999) / 1000;
    return status;
}

/* ---- Telling ------------------------------------------------------------------------- */

/* Whether there is something new to say: a round of tending mostly finds nothing to do. */
static bool is_news(struct working *working, const struct hf_compact_event *event)
{
    const struct hf_compact_totals *now = event->totals, *then = &working->tended;
    bool in_vain = working->trouble[0] && now->groups_planned == 0;
    if (event->kind == HF_COMPACT_PROGRESS || event->kind == HF_COMPACT_NEEDED ||
        (event->kind == HF_COMPACT_PLANNED && in_vain))
        return false;
    if (event->kind != HF_COMPACT_TENDED)
        return true;
    bool same = now->settled == then->settled && now->condemned == then->condemned &&
                now->retired == then->retired && now->reaped == then->reaped &&
                now->deleted == then->deleted && now->pinned == then->pinned &&
                now->dropped == then->dropped;
    working->tended = *now;
    return !same;
}

static bool is_failure(const struct hf_compact_event *event)
{
    return event->kind == HF_COMPACT_ENDED && event->result->end == HF_COMPACT_END_FAILED;
}

/* On a terminal only what somebody should look at; the progress line tells the rest. */
static bool is_bad_news(const struct hf_compact_event *event)
{
    return event->kind == HF_COMPACT_TROUBLE || event->kind == HF_COMPACT_PAUSED ||
           is_failure(event);
}

/* How far it is, counted from when there came to be something to do: time without work would
 * make the rest seem to take longer. */
static void show_progress(struct working *working, const struct hf_compact_event *event)
{
    const struct hf_compact_totals *totals = event->totals;
    if (event->kind == HF_COMPACT_PLANNED) {
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

/* Called by one thread of the worker at a time. */
static bool tell(void *argument, const struct hf_compact_event *event)
{
    struct working *working = argument;
    struct cli *cli = working->cli;
    struct hf_error ignored;
    if (is_failure(event) && working->first_fault.status == HF_OK)
        working->first_fault = event->result->error;
    if (is_news(working, event)) {
        bool trouble = event->kind == HF_COMPACT_TROUBLE;
        if (cli->json)
            output_json(&cli->out, event_as_json(event));
        else if (trouble && is_told(working, event->why))
            ;
        else if (trouble && working->options.mode != HF_COMPACT_WATCH)
            keep_trouble(working, event->why);
        else if (working->lines || (!cli->quiet && is_bad_news(event)))
            tell_event(&cli->out, event);
        gauge_clear(&working->gauge);
        output_flush(&cli->out, &ignored);
        if (output_is_closed(&cli->out))
            return false;
    }
    show_progress(working, event);
    return true;
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

/* The worker has threads of its own; we wait for its end and for signals. To have been stopped is
 * no error yet: judge knows by whom. */
static enum hf_status work_to_the_end(struct working *working)
{
    struct cli *cli = working->cli;
    enum hf_status status = HF_TIMEOUT;
    while (status == HF_TIMEOUT && !interrupted())
        status =
            hf_compact_worker_wait(working->worker, NAP_MS, &working->totals, &working->error);
    hf_compact_worker_stop(working->worker);
    status = hf_compact_worker_wait(working->worker, HF_WAIT_FOREVER, &working->totals,
                                    &working->error);
    if (status == HF_CANCELLED)
        status = error_clear(&working->error);
    cli->error = working->error;
    gauge_clear(&working->gauge);
    return status;
}

/* What the worker's end means for us: to be stopped is how watching ends; of a run it is not all
 * that was asked for, nor is it when groups failed. */
static enum hf_status judge(struct working *working, enum hf_status status)
{
    struct cli *cli = working->cli;
    if (working->options.mode == HF_COMPACT_WATCH)
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

/* Who watches a partition that nobody has made waits for it, perhaps for ever: a mistyped name must
 * be noticed, also with --quiet. */
static void tell_if_missing(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct hf_error error;
    if (hf_compact_get_settings(working->desk.compact, &settings, &error) != HF_NOT_FOUND)
        return;
    struct hf_error said;
    error_set(&said, HF_NOT_FOUND, "%.160s; waiting until there is one", error.why);
    working->missing = error;
    cli_report(cli, (struct view){ NULL, 0 }, &said);
}

static enum hf_status run_worker(struct cli *cli, enum hf_compact_mode mode)
{
    struct working working = { .cli = cli,
                               .desk = { .cli = cli },
                               .options = HF_COMPACT_WORKER_OPTIONS,
                               .exec = HF_COMPACT_OPTIONS,
                               .totals = HF_COMPACT_TOTALS,
                               .lines = !cli->json && !cli->quiet && !cli->out.terminal,
                               .begun = env_now(cli->env) };
    working.options.mode = mode;
    working.options.event = tell;
    working.options.argument = &working;
    enum hf_status status = take_options(&working);
    if (status != HF_OK)
        return status;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would bury commands before we have seen them end */
    status = desk_open_counted(&working.desk, cli, &working.exec);
    if (status == HF_OK && mode == HF_COMPACT_WATCH)
        tell_if_missing(&working);
    if (status == HF_OK) {
        gauge_start(&working.gauge, cli, VIEW("compact"));
        status = hf_compact_worker_start(working.desk.compact, &working.options,
                                         &working.worker, &cli->error);
    }
    if (status == HF_OK) {
        status = work_to_the_end(&working);
        tell_done(&working);
        status = judge(&working, status);
    }
    hf_compact_worker_free(working.worker);
    desk_close(&working.desk);
    return status;
}

enum hf_status run_compact_run(struct cli *cli)
{
    return run_worker(cli, cli_given(cli, "all") ? HF_COMPACT_DRAIN : HF_COMPACT_ONCE);
}

enum hf_status run_compact_watch(struct cli *cli)
{
    return run_worker(cli, HF_COMPACT_WATCH);
}
