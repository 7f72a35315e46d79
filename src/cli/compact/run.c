/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: `compact run` and `compact watch`: run a worker in this process, and report its events and
 * progress. */
#include "cli/compact/compact.h"
#include "cli/interrupt.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* How often the main thread checks for signals. */
#define NAP_MS 50

struct working {
    struct cli *cli;
    struct hf_compact_worker *worker;
    struct hf_compact_worker_options options;
    struct hf_compact_options exec; /* the limits on merge commands stored in the bucket */
    struct gauge gauge;
    bool busy;           /* the last plan had groups to merge */
    uint64_t before;     /* the bytes done when the worker became busy, ... */
    uint64_t to_be_done; /* ... and the bytes to be done from then on */
    bool lines;          /* print one line per event */
    struct hf_compact_totals totals;
    struct hf_compact_totals tended; /* the totals at the last cleanup event */
    struct hf_error error;           /* the worker's error */
    struct hf_error missing;         /* the partition does not exist; already reported */
    char trouble[HF_WHY_MAX];        /* in a run: the latest problem, not printed yet */
    struct hf_error first_fault;     /* the error of the first group that failed */
};

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status take_count(struct cli *cli, const char *name, uint64_t most,
                                 unsigned *number)
{
    const struct option_value *value = cli_option(cli, name);
    if (value && (value->number == 0 || value->number > most))
        return cli_invalid(cli, "--%s takes 1 to %" PRIu64 ", not %.*s", name, most,
                           VIEW_ARGS(view_first(value->text, 40)));
    *number = (unsigned)option_number(cli, name, *number);
    return HF_OK;
}

/* The jobs share the memory equally, and each merge needs HF_MERGE_MEMORY_MIN. Without --jobs, the
 * library runs one job per processor, up to four. */
static enum hf_status take_memory_option(struct working *working)
{
    struct cli *cli = working->cli;
    const struct option_value *value = cli_option(cli, "memory");
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long usual = processors < 1 ? 1 : processors < 4 ? processors : 4;
    unsigned jobs = working->options.jobs ? working->options.jobs : (unsigned)usual;
    uint64_t least = jobs * HF_MERGE_MEMORY_MIN;
    if (value && (value->number < least || value->number > HF_MERGE_MEMORY_MAX))
        return cli_invalid(cli,
                           "--memory takes %" PRIu64 "MiB (%" PRIu64 "MiB per job) to %" PRIu64
                           "GiB, not %.*s",
                           least / MIB, HF_MERGE_MEMORY_MIN / MIB, HF_MERGE_MEMORY_MAX / GIB,
                           VIEW_ARGS(view_first(value->text, 40)));
    if (value)
        working->options.memory_bytes = value->number;
    return HF_OK;
}

/* On the command line, a limit of 0 means no limit; for the library, 0 means the default. */
static uint64_t limit_option(struct cli *cli, const char *name)
{
    uint64_t limit = option_number(cli, name, 0);
    return cli_given(cli, name) && limit == 0 ? INT64_MAX : limit;
}

/* Merge commands come from the bucket, so another user may have written them. Their resources are
 * therefore limited. */
static enum hf_status take_worker_options(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_compact_worker_options *options = &working->options;
    struct hf_compact_options *exec = &working->exec;
    options->force = cli_given(cli, "force");
    enum hf_status status = take_count(cli, "jobs", HF_COMPACT_JOBS_MAX, &options->jobs);
    if (status == HF_OK)
        status = take_count(cli, "threads", HF_MERGE_THREADS_MAX, &options->threads);
    if (status == HF_OK)
        status = take_memory_option(working);
    if (status != HF_OK)
        return status;
    exec->scratch_folder = scratch_folder(cli);
    exec->exec_memory_max = limit_option(cli, "limit-memory");
    exec->exec_file_max = limit_option(cli, "limit-file");
    exec->exec_cpu_ms = option_ms(cli, "limit-cpu", exec->exec_cpu_ms);
    if (cli_given(cli, "limit-cpu") && exec->exec_cpu_ms == 0)
        exec->exec_cpu_ms = INT64_MAX / 1000000;
    if (options->mode == HF_COMPACT_WATCH && cli_given(cli, "poll"))
        options->poll_ms = (cli_option(cli, "poll")->span.us + 999) / 1000;
    bool beats = options->mode == HF_COMPACT_WATCH && cli_given(cli, "beat");
    if (beats) /* for the library, 0 means the default */
        options->beat_ms = option_ms(cli, "beat", 0) > 0 ? option_ms(cli, "beat", 0) : -1;
    if (options->mode == HF_COMPACT_WATCH)
        options->inbox = option_text(cli, "inbox");
    return take_allow_exec(cli, exec);
}

/* ---- Events -------------------------------------------------------------------------- */

static const struct field tended_record[] = TENDED_RECORD;
static const struct field totals_record[] = TOTALS_RECORD;

static const char *blame_name(unsigned blame)
{
    static const char *const names[] = { [HF_COMPACT_BLAME_NOBODY] = "nobody",
                                         [HF_COMPACT_BLAME_GROUP] = "group",
                                         [HF_COMPACT_BLAME_CHUNK] = "chunk" };
    return names[blame];
}

static const char *committed_name(unsigned end)
{
    return end == HF_COMPACT_END_COMMITTED ? hf_compact_end_name(end) : "";
}

static const struct field result_record[] = RESULT_RECORD;

static const char *reason_name(unsigned kind)
{
    bool has_reason = kind == HF_COMPACT_PAUSED || kind == HF_COMPACT_TROUBLE;
    return has_reason ? hf_compact_event_name(kind) : "";
}

const struct field compact_event_record[] = COMPACT_EVENT_RECORD;

/* The line that a worker prints for each event; NULL: no line. */
static const char *const event_texts[HF_COMPACT_EVENT_COUNT] = {
    [HF_COMPACT_PLANNED] = EVENT_PLANNED_TEXT, [HF_COMPACT_STARTED] = EVENT_STARTED_TEXT,
    [HF_COMPACT_ENDED] = EVENT_ENDED_TEXT,     [HF_COMPACT_TENDED] = EVENT_TENDED_TEXT,
    [HF_COMPACT_PAUSED] = EVENT_REASON_TEXT,   [HF_COMPACT_TROUBLE] = EVENT_REASON_TEXT,
    [HF_COMPACT_ADOPTED] = EVENT_ADOPTED_TEXT,
};

/* Whether an event is worth a line: a cleanup that changed nothing is not. */
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

/* Progress is measured from when the worker became busy, because idle time would make the estimate
 * of the remaining time too long. */
static void show_work(struct working *working, const struct hf_compact_event *event)
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

/* A run often ends because of its last problem, which is then printed as the run's error. So the
 * latest problem is held back, and the one before it is printed now. */
static void keep_trouble(struct working *working, const char *why)
{
    struct hf_compact_event event = { .kind = HF_COMPACT_TROUBLE, .why = working->trouble };
    if (working->trouble[0])
        record_tell(working->cli, compact_event_record, &event,
                    event_texts[HF_COMPACT_TROUBLE]);
    snprintf(working->trouble, sizeof working->trouble, "%s", why);
}

/* The event callback. The worker calls it from one thread at a time. On a terminal, only failures
 * are printed; the progress line covers the other events. */
static bool print_worker_event(void *argument, const struct hf_compact_event *event)
{
    struct working *working = argument;
    struct cli *cli = working->cli;
    struct hf_error ignored;
    bool trouble = event->kind == HF_COMPACT_TROUBLE;
    bool failed =
        event->kind == HF_COMPACT_ENDED && event->result->end == HF_COMPACT_END_FAILED;
    bool bad = trouble || failed || event->kind == HF_COMPACT_PAUSED;
    bool told = trouble && working->missing.status != HF_OK &&
                strcmp(working->missing.why, event->why) == 0;
    if (failed && working->first_fault.status == HF_OK)
        working->first_fault = event->result->error;
    if (is_news(working, event)) {
        if (cli->json)
            record_tell(cli, compact_event_record, event, NULL);
        else if (trouble && !told && working->options.mode != HF_COMPACT_WATCH)
            keep_trouble(working, event->why);
        else if (!told && (working->lines || (!cli->quiet && bad)))
            record_tell(cli, compact_event_record, event, event_texts[event->kind]);
        gauge_clear(&working->gauge);
        output_flush(&cli->out, &ignored);
        if (output_is_closed(&cli->out))
            return false;
    }
    show_work(working, event);
    return true;
}

/* The totals at the end. */
struct done {
    const char *event;
    int64_t took_ms;
    uint64_t requests, bytes_per_second;
    struct hf_compact_totals totals;
};

const struct field compact_done_record[] = COMPACT_DONE_RECORD;

static void print_totals(struct working *working)
{
    struct cli *cli = working->cli;
    struct span took = mono_since(env_now(cli->env), cli->begun);
    uint64_t bytes = working->totals.bytes_done;
    struct done done = { "done", took.us / 1000, atomic_load(&cli->requests), bytes,
                         working->totals };
    if (took.us > 0)
        done.bytes_per_second = (uint64_t)((double)bytes * 1e6 / (double)took.us);
    if (!cli->json && strcmp(working->trouble, working->error.why) != 0)
        keep_trouble(working, "");
    bool in_vain =
        working->error.status != HF_OK && working->totals.groups_planned == 0 && bytes == 0;
    record_tell(cli, compact_done_record, &done, in_vain ? NULL : COMPACT_DONE_TEXT);
}

/* ---- Working ------------------------------------------------------------------------- */

/* The worker has its own threads; this thread waits for them to end, and for signals. A signal is
 * the normal end of a watch. A run fails if a signal stopped it or if groups failed. */
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
    print_totals(working);
    if (working->options.mode == HF_COMPACT_WATCH)
        return status;
    if (status == HF_OK)
        status = interrupt_check(&cli->error);
    if (status != HF_OK || working->first_fault.status == HF_OK)
        return status;
    uint64_t failed = working->totals.groups_failed;
    cli->error = working->first_fault;
    error_prefix(&cli->error, "%" PRIu64 " group%s failed%s", failed, plural(failed),
                 failed == 1 ? "" : ", the first with");
    return cli->error.status;
}

/* If the partition does not exist, a watch waits until someone creates it. This is reported even
 * with --quiet, because the name may be mistyped and the wait would never end. */
static void report_missing(struct working *working)
{
    struct cli *cli = working->cli;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct hf_error error, said;
    if (hf_compact_get_settings(cli->compact, &settings, &error) != HF_NOT_FOUND)
        return;
    error_set(&said, HF_NOT_FOUND, "%.200s; waiting until it exists", error.why);
    working->missing = error;
    cli_report(cli, (struct view){ NULL, 0 }, &said);
}

static enum hf_status run_worker(struct cli *cli, enum hf_compact_mode mode)
{
    struct working working = { .cli = cli,
                               .options = HF_COMPACT_WORKER_OPTIONS,
                               .exec = HF_COMPACT_OPTIONS,
                               .totals = HF_COMPACT_TOTALS,
                               .lines = !cli->json && !cli->quiet && !cli->out.terminal };
    working.options.mode = mode;
    working.options.event = print_worker_event;
    working.options.argument = &working;
    enum hf_status status = take_worker_options(&working);
    if (status != HF_OK)
        return status;
    signal(SIGCHLD, SIG_DFL); /* if ignored, the kernel would discard exit statuses */
    cli->counts_requests = true;
    status = cli_open_store(cli);
    atomic_store(&cli->requests, 0); /* do not count the requests that opened the store */
    if (status == HF_OK)
        status = cli_open_partition(cli, &working.exec);
    if (status == HF_OK && mode == HF_COMPACT_WATCH)
        report_missing(&working);
    gauge_start(&working.gauge, cli, VIEW("compact"));
    if (status == HF_OK)
        status = hf_compact_worker_start(cli->compact, &working.options, &working.worker,
                                         &cli->error);
    if (status == HF_OK)
        status = work_to_the_end(&working);
    hf_compact_worker_free(working.worker);
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
