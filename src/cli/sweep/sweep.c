/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: `sweep` and `sweep status`: removes expired leases and other leftovers that no client
 * uses any more, in one run now or whenever the store is idle. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/output/progress.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Results ------------------------------------------------------------------------- */

/* Why a run stopped early; empty if it completed its work. */
static const char *stop_reason(unsigned stop)
{
    return stop == HF_SWEEP_STOP_DONE ? "" : hf_sweep_stop_text(stop);
}

static const struct field report_record[] = REPORT_RECORD;

/* The result of a run, for its record. */
struct told_sweep {
    struct hf_sweep_report report;
    const char *ns;
    bool dry_run, full;
    bool many, cleared; /* more than one namespace; something was cleared */
};

const struct field sweep_record[] = SWEEP_RECORD;

static struct told_sweep told_sweep(const struct hf_sweep_report *report)
{
    uint64_t cleared = report->leases_cleared + report->stages_settled + report->rolled_back +
                       report->markers_deleted + report->entries_deleted +
                       report->entries_moved + report->tables_purged + report->states_deleted +
                       report->bodies_deleted + report->outputs_condemned +
                       report->chunks_deleted + report->names_dropped + report->failed;
    return (struct told_sweep){ .report = *report,
                                .many = report->namespaces > 1,
                                .cleared = cleared > 0 };
}

/* The reason for stopping is printed only if the run did not complete its work. */
#define RUN_TEXT SWEEP_TEXT "[; stopped: {stop_reason}]\n"

/* ---- sweep --------------------------------------------------------------------------- */

struct sweeping {
    struct cli *cli;
    struct hf_sweep_options once;
    struct hf_sweeper_options idle;
    struct gauge gauge;
    bool sees_others;           /* the store tells whether other processes change it */
    size_t told;                /* how many entries need attention */
    struct hf_error last;       /* the error of the last such entry */
    struct env_mutex output;    /* the sweeper's thread and the main thread both print */
    atomic_bool unheard;        /* the report of a run could not be printed */
    uint64_t slice_bytes;       /* are scrubbed after each complete run; 0: none */
    char slice_why[HF_WHY_MAX]; /* why a slice has failed, as it was printed */
};

/* One cause may have damaged many entries, so only the first few are printed. */
#define TOLD_MAX 10

static bool show_swept(void *argument, const struct hf_sweep_report *report)
{
    struct sweeping *sweeping = argument;
    if (gauge_is_due(&sweeping->gauge))
        gauge_say(&sweeping->gauge, "sweep  %" PRIu64 " entries  %" PRIu64 " leases cleared",
                  report->ops, report->leases_cleared);
    return !interrupted();
}

/* Prints only errors that need attention: damage, and objects that are not Holdfast's. After a
 * temporary error, a later run does the work. */
static void report_failed_entry(void *argument, const char *about, const struct hf_error *error)
{
    struct sweeping *sweeping = argument;
    enum hf_status status = error->status;
    if (status != HF_CORRUPT && status != HF_UNSUPPORTED && status != HF_INVALID &&
        status != HF_MISMATCH)
        return;
    gauge_clear(&sweeping->gauge);
    if (sweeping->told++ < TOLD_MAX)
        cli_report(sweeping->cli, view_of(about), error);
    sweeping->last = *error;
}

static void print_run(struct sweeping *sweeping, const struct hf_sweep_report *report)
{
    struct cli *cli = sweeping->cli;
    struct told_sweep told = told_sweep(report);
    told.ns = option_text(cli, "ns");
    told.dry_run = sweeping->once.dry_run;
    told.full = sweeping->once.full;
    record_tell(cli, sweep_record, &told, "[{dry_run?}would examine|examined] " RUN_TEXT);
}

static enum hf_status sweep_now(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    sweeping->once.progress = show_swept;
    sweeping->once.failed = report_failed_entry;
    sweeping->once.argument = sweeping;
    gauge_start(&sweeping->gauge, cli, VIEW("sweep"));
    enum hf_status status = hf_sweep(cli->client, &sweeping->once, &report, &cli->error);
    gauge_clear(&sweeping->gauge);
    if (report.runs > 0 || status == HF_OK)
        print_run(sweeping, &report);
    if (status == HF_OK || status == HF_CANCELLED)
        status = interrupt_check(&cli->error);
    if (status == HF_OK && sweeping->told > 0) {
        cli->reported = true;
        cli->error = sweeping->last;
        status = cli->error.status;
    }
    return status;
}

/* ---- Namespaces ---------------------------------------------------------------------- */

static bool collect_namespace(void *argument, const char *ns)
{
    return names_add(argument, view_of(ns));
}

static enum hf_status find_names(struct cli *cli, struct names *ret_names)
{
    *ret_names = (struct names){ .arena = &cli->arena };
    enum hf_status status = hf_sweep_namespaces(cli->client, !cli_given(cli, "ns"),
                                                collect_namespace, ret_names, &cli->error);
    return status == HF_OK && ret_names->no_memory ? error_no_memory(&cli->error) : status;
}

/* Appends the first few names: "a, b, c and 7 more". */
#define NAMES_TOLD_MAX 8
static void append_names(struct buffer *to, const struct names *names)
{
    size_t told = names->count < NAMES_TOLD_MAX ? names->count : NAMES_TOLD_MAX;
    for (size_t i = 0; i < told; i++)
        buffer_print(to, "%s%s", i == 0 ? "" : ", ", names->names[i]);
    if (names->count > NAMES_TOLD_MAX)
        buffer_print(to, " and %zu more", names->count - NAMES_TOLD_MAX);
}

/* ---- The idle sweeper, in the foreground --------------------------------------------- */

#define LOOK_EACH SPAN_MS(100)

/* Announces what the sweeper will do and when, because it may print nothing else for minutes. */
static enum hf_status announce_sweeper(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    char span[SPAN_TEXT_MAX];
    struct names names;
    if (cli->json || cli->quiet)
        return HF_OK;
    enum hf_status status = find_names(cli, &names);
    if (status != HF_OK)
        return status;
    output_print(&cli->out, "sweeping %s ", names.count == 1 ? "namespace" : "namespaces");
    append_names(&cli->out.pending, &names);
    brief_text(SPAN_MS(sweeping->idle.idle_grace_ms), span);
    output_print(&cli->out, "; first run in %s, %s%s; stop with Ctrl-C\n", span,
                 sweeping->sees_others ? "if the store is idle for that long"
                                       : "then one every ",
                 sweeping->sees_others ? "" : span);
    return output_flush(&cli->out, &cli->error);
}

/* ---- Scrubbing between runs ---------------------------------------------------------- */

/* Slow enough for nobody to notice. */
#define SLICE_RATE ((uint64_t)4 * 1024 * 1024)

static bool print_slice_finding(void *argument, const struct hf_scrub_finding *finding)
{
    struct sweeping *sweeping = argument;
    bool strange = finding->kind == HF_SCRUB_TOO_NEW || finding->kind == HF_SCRUB_UNKNOWN;
    struct hf_error error;
    error_set(&error, strange ? HF_UNSUPPORTED : HF_CORRUPT, "%s: %s",
              hf_scrub_kind_name(finding->kind),
              finding->why[0] ? finding->why : hf_scrub_kind_text(finding->kind));
    env_mutex_lock(&sweeping->output);
    cli_report(sweeping->cli, (struct view){ finding->key, finding->key_size }, &error);
    env_mutex_unlock(&sweeping->output);
    return true;
}

static bool may_scrub_on(void *argument, const struct hf_store_scrub_report *so_far)
{
    const struct sweeping *sweeping = argument;
    (void)so_far;
    return !interrupted() && !atomic_load(&sweeping->unheard);
}

/* A failure is printed once. */
static void print_slice_failure(struct sweeping *sweeping, const struct hf_error *error)
{
    if (strcmp(sweeping->slice_why, error->why) == 0)
        return;
    snprintf(sweeping->slice_why, sizeof sweeping->slice_why, "%s", error->why);
    env_mutex_lock(&sweeping->output);
    cli_report(sweeping->cli, (struct view){ NULL, 0 }, error);
    env_mutex_unlock(&sweeping->output);
}

/* Continues where the last slice of any process ended and, after the end of the store, at its
 * beginning. If the store fails, the next run tries the same slice again. */
static void scrub_slice(struct sweeping *sweeping)
{
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_error error;
    options.remember = true;
    options.bytes_max = sweeping->slice_bytes;
    options.rate_max = SLICE_RATE;
    options.finding = print_slice_finding;
    options.progress = may_scrub_on;
    options.argument = sweeping;
    enum hf_status status = hf_store_scrub(hf_client_store(sweeping->cli->client), &options,
                                           /* ret_report */ NULL, &error);
    if (status != HF_OK && status != HF_CANCELLED)
        print_slice_failure(sweeping, &error);
}

/* Called in the sweeper's own thread. */
static void print_sweep_run(void *argument, const struct hf_sweep_report *run)
{
    struct sweeping *sweeping = argument;
    env_mutex_lock(&sweeping->output);
    print_run(sweeping, run);
    if (output_flush(&sweeping->cli->out, /* error */ NULL) != HF_OK)
        atomic_store(&sweeping->unheard, true);
    env_mutex_unlock(&sweeping->output);
    if (sweeping->slice_bytes > 0 && run->stop == HF_SWEEP_STOP_DONE)
        scrub_slice(sweeping);
}

/* Sweeps until a signal arrives. It starts with the mutex held, so the announcement comes before
 * the report of the first run. */
static enum hf_status sweep_when_idle(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    struct hf_sweeper *sweeper = NULL;
    sweeping->idle.remember = true;
    sweeping->idle.ran = print_sweep_run;
    sweeping->idle.argument = sweeping;
    /* Asked before the sweeper starts, which may be using the database at any moment. */
    sweeping->sees_others = hf_sweep_sees_others(cli->client);
    env_mutex_init(cli->env, &sweeping->output);
    env_mutex_lock(&sweeping->output);
    enum hf_status status =
        hf_sweeper_start(cli->client, &sweeping->idle, &sweeper, &cli->error);
    if (status == HF_OK)
        status = announce_sweeper(sweeping);
    env_mutex_unlock(&sweeping->output);
    while (status == HF_OK && !interrupted() && !atomic_load(&sweeping->unheard))
        env_sleep(cli->env, LOOK_EACH);
    hf_sweeper_stop(sweeper);
    env_mutex_release(&sweeping->output);
    if (status == HF_OK && atomic_load(&sweeping->unheard))
        status = output_flush(&cli->out, &cli->error);
    return status == HF_OK ? interrupt_check(&cli->error) : status;
}

enum hf_status run_sweep(struct cli *cli)
{
    struct sweeping sweeping = { .cli = cli,
                                 .once = HF_SWEEP_OPTIONS,
                                 .idle = HF_SWEEPER_OPTIONS };
    struct hf_sweep_options *once = &sweeping.once;
    struct hf_sweeper_options *idle = &sweeping.idle;
    once->dry_run = cli_given(cli, "dry-run");
    once->full = cli_given(cli, "full");
    bool now = once->dry_run || once->full || cli_given(cli, "once");
    if (now && cli_given(cli, "idle-grace"))
        return cli_invalid(
            cli,
            "--idle-grace cannot be used with --once, --full or --dry-run, which do not wait");
    if (now && cli_given(cli, "scrub"))
        return cli_invalid(cli, "--scrub cannot be used with --once, --full or --dry-run; "
                                "'holdfast store scrub' reads the store now");
    sweeping.slice_bytes = option_number(cli, "scrub", 0);
    once->all_namespaces = idle->all_namespaces = !cli_given(cli, "ns");
    idle->idle_grace_ms = option_ms(cli, "idle-grace", idle->idle_grace_ms);
    once->op_delay_ms = option_ms(cli, "op-delay", once->op_delay_ms);
    idle->op_delay_ms = option_ms(cli, "op-delay", idle->op_delay_ms);
    once->ops_max = option_number(cli, "max-ops", once->ops_max);
    idle->ops_max = option_number(cli, "max-ops", idle->ops_max);
    once->runtime_max_ms = option_ms(cli, "max-runtime", once->runtime_max_ms);
    idle->runtime_max_ms = option_ms(cli, "max-runtime", idle->runtime_max_ms);
    enum hf_status status = cli_connect(cli);
    if (status != HF_OK)
        return status;
    return now ? sweep_now(&sweeping) : sweep_when_idle(&sweeping);
}

/* ---- sweep status -------------------------------------------------------------------- */

/* The results of past runs, as recorded in the store. */
struct memory {
    struct names names; /* the first member: append_names gets the record */
    struct hf_sweep_due due;
    bool ran; /* a past run is recorded */
    struct hf_sweep_report last, total;
};

static const struct field sweep_due_record[] = SWEEP_DUE_RECORD;
const struct field sweep_status_record[] = SWEEP_STATUS_RECORD;

enum hf_status run_sweep_status(struct cli *cli)
{
    struct memory memory = { .due = HF_SWEEP_DUE,
                             .last = HF_SWEEP_REPORT,
                             .total = HF_SWEEP_REPORT };
    enum hf_status status = find_names(cli, &memory.names);
    if (status == HF_OK)
        status = hf_sweep_status(cli->client, !cli_given(cli, "ns"), &memory.due, &memory.last,
                                 &memory.total, &cli->error);
    if (status != HF_OK)
        return status;
    memory.ran = memory.total.runs > 0;
    record_show(cli, sweep_status_record, &memory, SWEEP_STATUS_TEXT);
    if (memory.ran && !cli->json) {
        struct told_sweep last = told_sweep(&memory.last), total = told_sweep(&memory.total);
        record_show(cli, sweep_record, &last, "            " RUN_TEXT);
        record_show(cli, sweep_record, &total, "in total    {runs run}, " SWEEP_TEXT "\n");
    }
    return HF_OK;
}
