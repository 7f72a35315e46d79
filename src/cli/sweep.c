/* sweep.c: `sweep` and `sweep status`: what nobody touches any more is cleared away, now or
 * whenever there is nothing else to do. */
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

static enum hf_status run_sweep(struct cli *cli);
static enum hf_status run_sweep_status(struct cli *cli);

#define SWEEP_NS_OPTION                                                                       \
    {                                                                                         \
        .name = "ns", .type = OPTION_TEXT, .value = "NAME", .completion = COMPLETE_NAMESPACE, \
        .summary = "only this namespace (default: all)"                                       \
    }

const struct command sweep_commands[] = {
    {
        .path = "sweep",
        .summary = "clear away what is over and what nobody touches any more",
        .options = { { .name = "once",
                       .choice = 1,
                       .summary = "one run now, of what the indexes say has expired" },
                     { .name = "full",
                       .choice = 1,
                       .summary = "one run now, over everything, whatever the indexes say" },
                     { .name = "dry-run",
                       .summary = "tell what a run would do, and change nothing" },
                     { .name = "idle-grace",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "start a run when the store has been idle for this long "
                                  "(default: 5m)" },
                     { .name = "op-delay",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "wait so long between two entries; 100ms if left out, and "
                                  "not at all "
                                  "with --once or --full" },
                     { .name = "max-ops",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary =
                           "look at so many entries in a run; 1000 if left out, and a million "
                           "with --once or --full" },
                     { .name = "max-runtime",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary =
                           "end a run after so long; 30s if left out, and 1h with --once or "
                           "--full" },
                     SWEEP_NS_OPTION },
        .details = { "Every operation clears away what it touches, so nothing depends on this: "
                     "leases of holders that died, transactions that nobody decided, records "
                     "of those decided long ago, tables that nobody uses, and what compaction "
                     "has left. Nothing is cleared without the proof that any other "
                     "operation would need, and it may run beside everything else, as often as "
                     "you like.",
                     "Without --once, --full or --dry-run it goes on until Ctrl-C and reports "
                     "each run: one such process beside a store is plenty, and none is "
                     "needed. Other commands, 'run' too, never sweep by themselves. A run "
                     "begins when the store has been idle for --idle-grace, and gives way to "
                     "others: on a local store (sqlite:, dir:) to any process that changes it, "
                     "also by renewing a lock. A store that is never idle is swept after 12 "
                     "times --idle-grace; that run does not give way. A bucket cannot tell who "
                     "writes to it: there a run begins after each --idle-grace, and stops when "
                     "somebody else changes what it is working on.",
                     "What a run costs grows with what has expired, not with what exists. The "
                     "index knows of leases that a process has kept alive for more than half "
                     "of their ttl, and of those that 'acquire' granted for 5 minutes or "
                     "more, from the hour after their end on.",
                     "--full lists the tables of the namespaces, the larger states of keys, "
                     "all "
                     "records of transactions and fenced objects: for what the index does "
                     "not know, as brief leases, and bodies that a crash left.",
                     "A run that is stopped at a cap goes on there the next time. 'holdfast "
                     "sweep status' tells what there is to do, and what was done." },
        .json = "JSON lines, one per run, with what was cleared and why it stopped; 'ns' is "
                "null for a run over all namespaces",
        .examples = { { "holdfast sweep --once", "now, what has expired" },
                      { "holdfast sweep --full --dry-run", "what a full one would do" } },
        .ends_in_order = true,
        .run = run_sweep,
    },
    {
        .path = "sweep status",
        .summary = "show what there is to sweep, and what was swept",
        .options = { SWEEP_NS_OPTION },
        .details = { "Counts what the indexes have of hours that are over, up to a bound, and "
                     "tells of the last run of anybody and of all of them together. With --ns "
                     "these are the runs with the same --ns; transactions have no namespace." },
        .json = "one JSON object with namespaces, due, last and total",
        .examples = { { "holdfast sweep status", "for people" },
                      { "holdfast sweep status --json", "for a program" } },
        .only_reads = true,
        .run = run_sweep_status,
    },
    { .path = NULL },
};

/* ---- What came of it ----------------------------------------------------------------- */

/* One row a number of a report: its name in JSON, and how one and many are told to people. */
struct figure {
    const char *name;
    const char *one, *many, *fate;
    size_t offset;
};

#define FIGURE(name, one, many, fate)                                  \
    {                                                                  \
#name, one, many, fate, offsetof(struct hf_sweep_report, name) \
    }
static const struct figure figures[] = {
    FIGURE(leases_cleared, "lease", "leases", "cleared"),
    FIGURE(stages_settled, "stage", "stages", "settled"),
    FIGURE(rolled_back, "transaction", "transactions", "rolled back"),
    FIGURE(markers_deleted, "record", "records", "purged"),
    FIGURE(entries_deleted, "index entry", "index entries", "deleted"),
    FIGURE(entries_moved, "index entry", "index entries", "moved to a later hour"),
    FIGURE(tables_purged, "table", "tables", "purged"),
    FIGURE(states_deleted, "state", "states", "deleted"),
    FIGURE(bodies_deleted, "fenced body", "fenced bodies", "deleted"),
    FIGURE(outputs_condemned, "output", "outputs", "condemned"),
    FIGURE(chunks_deleted, "chunk", "chunks", "deleted"),
    FIGURE(names_dropped, "name", "names", "dropped"),
    FIGURE(failed, "entry", "entries", "that failed, left for a later run"),
};

static uint64_t figure_of(const struct hf_sweep_report *report, const struct figure *figure)
{
    uint64_t value;
    memcpy(&value, (const char *)report + figure->offset, sizeof value);
    return value;
}

static json_t *report_as_json(const struct hf_sweep_report *report)
{
    json_t *object = json_object();
    json_add_count(&object, "runs", report->runs);
    json_add_count(&object, "ops", report->ops);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        json_add_count(&object, figures[i].name, figure_of(report, &figures[i]));
    json_add_count(&object, "stopped_by_activity", report->stopped_by_activity);
    json_add_count(&object, "took_ms", (uint64_t)report->duration_ms);
    json_add(&object, "stop", json_string(hf_sweep_stop_name(report->stop)));
    return object;
}

static void append_span(struct buffer *to, struct span span)
{
    char text[SPAN_TEXT_MAX];
    if (span.us < 1000)
        buffer_append(to, VIEW("less than 1ms"));
    else
        buffer_append(to, view_of(brief_text(span, text)));
}

/* "12 entries of 2 namespaces in 40ms: 3 leases cleared, 12 index entries deleted" */
static void append_report(struct buffer *to, const struct hf_sweep_report *report)
{
    size_t told = 0;
    buffer_print(to, "%" PRIu64 " %s", report->ops, report->ops == 1 ? "entry" : "entries");
    if (report->namespaces > 1)
        buffer_print(to, " of %" PRIu64 " namespaces", report->namespaces);
    buffer_append(to, VIEW(" in "));
    append_span(to, SPAN_MS(report->duration_ms));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const struct figure *figure = &figures[i];
        uint64_t value = figure_of(report, figure);
        if (value > 0)
            buffer_print(to, "%s%" PRIu64 " %s %s", told++ == 0 ? ": " : ", ", value,
                         value == 1 ? figure->one : figure->many, figure->fate);
    }
    if (told == 0)
        buffer_append(to, VIEW(": nothing to clear"));
}

/* Why it stopped is told when that was not the end of the work. */
static void print_report(struct output *out, const char *label,
                         const struct hf_sweep_report *report)
{
    struct buffer text = BUFFER_INIT(2048);
    append_report(&text, report);
    output_print(out, "%s%.*s", label, VIEW_ARGS(buffer_view(&text)));
    if (report->stop != HF_SWEEP_STOP_DONE)
        output_print(out, "; stopped: %s", hf_sweep_stop_text(report->stop));
    output_text(out, "\n");
    buffer_release(&text);
}

/* ---- sweep --------------------------------------------------------------------------- */

static bool all_namespaces(struct cli *cli)
{
    return !cli_given(cli, "ns");
}

struct sweeping {
    struct cli *cli;
    struct hf_client *client;
    bool now; /* one run, instead of whenever the store is idle */
    struct hf_sweep_options once;
    struct hf_sweeper_options idle;
    struct gauge gauge;
    size_t told;             /* entries that somebody must see to */
    struct hf_error last;    /* of those */
    struct env_mutex output; /* of the idle sweeper's thread and ours */
    atomic_bool unheard;     /* what the idle sweeper did could not be written */
};

/* Damage of one cause may be everywhere: the first few are enough to begin with. */
#define TOLD_MAX 10

static enum hf_status take_options(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    struct hf_sweep_options *once = &sweeping->once;
    struct hf_sweeper_options *idle = &sweeping->idle;
    const struct option_value *grace = cli_option(cli, "idle-grace");
    const struct option_value *delay = cli_option(cli, "op-delay");
    const struct option_value *ops = cli_option(cli, "max-ops");
    const struct option_value *runtime = cli_option(cli, "max-runtime");
    once->dry_run = cli_given(cli, "dry-run");
    once->full = cli_given(cli, "full");
    once->all_namespaces = idle->all_namespaces = all_namespaces(cli);
    sweeping->now = once->dry_run || once->full || cli_given(cli, "once");
    if (sweeping->now && grace)
        return error_set(&cli->error, HF_INVALID,
                         "--idle-grace is for a sweep that waits: leave out --once, --full and "
                         "--dry-run");
    if (grace)
        idle->idle_grace_ms = grace->span.us / 1000;
    if (delay)
        once->op_delay_ms = idle->op_delay_ms = delay->span.us / 1000;
    if (ops)
        once->ops_max = idle->ops_max = ops->number;
    if (runtime)
        once->runtime_max_ms = idle->runtime_max_ms = runtime->span.us / 1000;
    return HF_OK;
}

static bool show_progress(void *argument, const struct hf_sweep_report *report)
{
    struct sweeping *sweeping = argument;
    char words[80];
    if (gauge_is_due(&sweeping->gauge)) {
        snprintf(words, sizeof words, "sweep  %" PRIu64 " entries  %" PRIu64 " leases cleared",
                 report->ops, report->leases_cleared);
        gauge_say(&sweeping->gauge, view_of(words));
    }
    return !interrupted();
}

/* What failed for a moment is done by a later run; damage, and what is not ours, stays until
 * somebody sees to it. */
static void tell_failure(void *argument, const char *about, const struct hf_error *error)
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

static void tell(struct sweeping *sweeping, const struct hf_sweep_report *report)
{
    struct cli *cli = sweeping->cli;
    bool dry_run = sweeping->once.dry_run;
    if (cli->json) {
        json_t *object = report_as_json(report);
        const char *ns = option_text(cli, "ns");
        json_add(&object, "ns", ns ? json_string(ns) : json_null());
        json_add_count(&object, "namespaces", report->namespaces);
        json_add_bool(&object, "dry_run", dry_run);
        json_add_bool(&object, "full", sweeping->once.full);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        print_report(&cli->out, dry_run ? "would look at " : "looked at ", report);
    }
}

static enum hf_status sweep_now(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    sweeping->once.progress = show_progress;
    sweeping->once.failed = tell_failure;
    sweeping->once.argument = sweeping;
    gauge_start(&sweeping->gauge, cli, VIEW("sweep"));
    enum hf_status status = hf_sweep(sweeping->client, &sweeping->once, &report, &cli->error);
    gauge_clear(&sweeping->gauge);
    if (report.runs > 0 || status == HF_OK)
        tell(sweeping, &report);
    if (status == HF_OK || status == HF_CANCELLED)
        status = interrupt_check(&cli->error);
    if (status == HF_OK && sweeping->told > 0) {
        cli->reported = true;
        cli->error = sweeping->last;
        status = cli->error.status;
    }
    return status;
}

/* ---- The idle sweeper, in the foreground --------------------------------------------- */

#define LOOK_EACH SPAN_MS(100)

/* Namespaces, in the arena of the command. */
struct names {
    struct cli *cli;
    const char **names;
    size_t count, room;
    bool no_memory;
};

static bool note_name(void *argument, const char *ns)
{
    struct names *names = argument;
    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 64;
        const char **more = arena_take(&names->cli->arena, room * sizeof *more);
        if (more && names->count > 0)
            memcpy(more, names->names, names->count * sizeof *more);
        names->names = more;
        names->room = room;
    }
    struct view copy = arena_copy(&names->cli->arena, view_of(ns));
    names->no_memory = !names->names || !copy.data;
    if (!names->no_memory)
        names->names[names->count++] = copy.data;
    return !names->no_memory;
}

static enum hf_status find_names(struct cli *cli, struct hf_client *client,
                                 struct names *ret_names)
{
    *ret_names = (struct names){ .cli = cli };
    enum hf_status status =
        hf_sweep_namespaces(client, all_namespaces(cli), note_name, ret_names, &cli->error);
    return status == HF_OK && ret_names->no_memory ? error_no_memory(&cli->error) : status;
}

/* The first few: "a, b, c and 7 more". */
#define NAMES_TOLD_MAX 8
static void print_names(struct output *out, const struct names *names)
{
    for (size_t i = 0; i < names->count && i < NAMES_TOLD_MAX; i++)
        output_print(out, "%s%s", i == 0 ? "" : ", ", names->names[i]);
    if (names->count > NAMES_TOLD_MAX)
        output_print(out, " and %zu more", names->count - NAMES_TOLD_MAX);
}

/* What it will do and when, at once: it would else be silent for minutes. */
static enum hf_status announce(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    char span[SPAN_TEXT_MAX];
    struct names names;
    if (cli->json || cli->quiet)
        return HF_OK;
    enum hf_status status = find_names(cli, sweeping->client, &names);
    if (status != HF_OK)
        return status;
    output_print(&cli->out, "sweeping %s ", names.count == 1 ? "namespace" : "namespaces");
    print_names(&cli->out, &names);
    brief_text(SPAN_MS(sweeping->idle.idle_grace_ms), span);
    if (hf_sweep_sees_others(sweeping->client))
        output_print(&cli->out, "; first run in %s, if the store is idle for that long", span);
    else
        output_print(&cli->out, "; first run in %s, then one every %s", span, span);
    output_text(&cli->out, "; stop with Ctrl-C\n");
    return output_flush(&cli->out, &cli->error);
}

/* From the sweeper's own thread. */
static void tell_run(void *argument, const struct hf_sweep_report *run)
{
    struct sweeping *sweeping = argument;
    env_mutex_lock(&sweeping->output);
    tell(sweeping, run);
    if (output_flush(&sweeping->cli->out, /* error */ NULL) != HF_OK)
        atomic_store(&sweeping->unheard, true);
    env_mutex_unlock(&sweeping->output);
}

/* What it does is told after what it will do. */
static enum hf_status start_and_announce(struct sweeping *sweeping,
                                         struct hf_sweeper **ret_sweeper)
{
    struct cli *cli = sweeping->cli;
    sweeping->idle.remember = true;
    sweeping->idle.ran = tell_run;
    sweeping->idle.argument = sweeping;
    env_mutex_lock(&sweeping->output);
    enum hf_status status =
        hf_sweeper_start(sweeping->client, &sweeping->idle, ret_sweeper, &cli->error);
    if (status == HF_OK)
        status = announce(sweeping);
    env_mutex_unlock(&sweeping->output);
    return status;
}

/* A signal is how this ends. */
static enum hf_status sweep_when_idle(struct sweeping *sweeping)
{
    struct cli *cli = sweeping->cli;
    struct hf_sweeper *sweeper = NULL;
    env_mutex_init(cli->env, &sweeping->output);
    enum hf_status status = start_and_announce(sweeping, &sweeper);
    while (status == HF_OK && !interrupted() && !atomic_load(&sweeping->unheard))
        env_sleep(cli->env, LOOK_EACH);
    hf_sweeper_stop(sweeper);
    env_mutex_release(&sweeping->output);
    if (status == HF_OK && atomic_load(&sweeping->unheard))
        status = output_flush(&cli->out, &cli->error);
    return status == HF_OK ? interrupt_check(&cli->error) : status;
}

static enum hf_status run_sweep(struct cli *cli)
{
    struct sweeping sweeping = { .cli = cli,
                                 .once = HF_SWEEP_OPTIONS,
                                 .idle = HF_SWEEPER_OPTIONS };
    enum hf_status status = take_options(&sweeping);
    if (status == HF_OK)
        status = lock_connect(cli, /* holder */ NULL, &sweeping.client);
    if (status == HF_OK)
        status = sweeping.now ? sweep_now(&sweeping) : sweep_when_idle(&sweeping);
    hf_client_close(sweeping.client);
    return status;
}

/* ---- sweep status -------------------------------------------------------------------- */

#define LABEL "%-12s"

/* "12 entries of leases, in 2 hours that are over" */
static void print_due_of(struct output *out, const char *label, const char *what,
                         uint64_t entries, uint64_t hours, bool more)
{
    output_print(out, LABEL "%s%" PRIu64 " %s of %s", label, more ? "at least " : "", entries,
                 entries == 1 ? "entry" : "entries", what);
    if (hours > 0) {
        output_text(out, ", of ");
        output_count(out, hours, "hour");
    }
    output_text(out, "\n");
}

static void print_due(struct output *out, const struct hf_sweep_due *due)
{
    print_due_of(out, "due", "leases", due->lease_entries, due->lease_hours, due->more);
    print_due_of(out, "", "transactions", due->txn_entries, due->txn_hours, due->more);
    output_print(out, LABEL, "later");
    output_count(out, due->later_hours, "hour");
    output_text(out,
                due->later_hours == 1 ? " that is not over yet\n" : " that are not over yet\n");
}

/* What the store remembers. */
struct memory {
    struct hf_sweep_due due;
    struct hf_sweep_report last, total;
};

static void print_memory(struct cli *cli, const struct memory *memory)
{
    struct output *out = &cli->out;
    char time[TIME_TEXT_MAX], label[64];
    if (memory->total.runs == 0) {
        output_print(out, LABEL "never, as far as the store remembers\n", "last run");
        return;
    }
    output_print(out, LABEL "%s\n", "last run",
                 time_text((struct wall_time){ memory->due.last_ms * 1000 }, time));
    snprintf(label, sizeof label, LABEL, "");
    print_report(out, label, &memory->last);
    struct buffer text = BUFFER_INIT(2048);
    append_report(&text, &memory->total);
    output_print(out, LABEL, "in all");
    output_count(out, memory->total.runs, "run");
    output_print(out, ", %.*s\n", VIEW_ARGS(buffer_view(&text)));
    buffer_release(&text);
}

static json_t *names_as_json(const struct names *names)
{
    json_t *array = json_array();
    for (size_t i = 0; i < names->count; i++)
        json_push(&array, json_string(names->names[i]));
    return array;
}

static json_t *status_as_json(const struct names *names, const struct memory *memory)
{
    const struct hf_sweep_due *due = &memory->due;
    json_t *object = json_object(), *found = json_object();
    json_add(&object, "namespaces", names_as_json(names));
    json_add_count(&found, "lease_hours", due->lease_hours);
    json_add_count(&found, "lease_entries", due->lease_entries);
    json_add_count(&found, "txn_hours", due->txn_hours);
    json_add_count(&found, "txn_entries", due->txn_entries);
    json_add_count(&found, "later_hours", due->later_hours);
    json_add_bool(&found, "more", due->more);
    json_add(&object, "due", found);
    if (memory->total.runs > 0) {
        json_add_time_ms(&object, "last_at", due->last_ms);
        json_add(&object, "last", report_as_json(&memory->last));
    }
    json_add(&object, "total", report_as_json(&memory->total));
    return object;
}

static enum hf_status run_sweep_status(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct names names;
    struct memory memory = { HF_SWEEP_DUE, HF_SWEEP_REPORT, HF_SWEEP_REPORT };
    enum hf_status status = lock_connect(cli, /* holder */ NULL, &client);
    if (status == HF_OK)
        status = find_names(cli, client, &names);
    if (status == HF_OK)
        status = hf_sweep_status(client, all_namespaces(cli), &memory.due, &memory.last,
                                 &memory.total, &cli->error);
    if (status == HF_OK && cli->json) {
        output_json(&cli->out, status_as_json(&names, &memory));
    } else if (status == HF_OK) {
        output_print(&cli->out, LABEL, names.count == 1 ? "namespace" : "namespaces");
        print_names(&cli->out, &names);
        output_text(&cli->out, "\n");
        print_due(&cli->out, &memory.due);
        print_memory(cli, &memory);
    }
    hf_client_close(client);
    return status;
}
