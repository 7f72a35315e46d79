/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: one run: its limits, and when it stops. Only one run at a time is allowed per process.
 * A run does not delay callers: it stops within one entry when a caller becomes active. */
#include "base/check.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/epoch.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* If this many entries in a row fail because the store does not reply, the store is assumed to be
 * failing, and the run ends. */
#define FAILURES_IN_ROW_MAX 5

/* How often a pause checks whether the run must stop. */
#define WAIT_PIECE SPAN_MS(50)

static enum hf_status check_span(const char *name, struct span span, struct span least,
                                 struct span most, struct hf_error *error)
{
    char from[SPAN_TEXT_MAX], to[SPAN_TEXT_MAX];
    if (span.us >= least.us && span.us <= most.us)
        return HF_OK;
    return error_set(error, HF_INVALID, "%s must be between %s and %s", name,
                     span_text(least, from), span_text(most, to));
}

enum hf_status sweep_settings_check(const struct sweep_settings *settings,
                                    struct hf_error *error)
{
    enum hf_status status =
        check_span("idle_grace", settings->idle_grace, SWEEP_GRACE_MIN, SWEEP_GRACE_MAX, error);
    if (status == HF_OK)
        status = check_span("op_delay", settings->op_delay, SPAN_US(0), SWEEP_DELAY_MAX, error);
    if (status == HF_OK)
        status = check_span("max_runtime", settings->runtime_max, SPAN_MS(1), SWEEP_RUNTIME_MAX,
                            error);
    if (status == HF_OK && (settings->ops_max < 1 || settings->ops_max > SWEEP_OPS_MAX))
        status = error_set(error, HF_INVALID, "max_ops must be between 1 and %llu",
                           (unsigned long long)SWEEP_OPS_MAX);
    return status;
}

void sweep_report_add(struct sweep_report *total, const struct sweep_report *run)
{
    struct sweep_report sum = {
        .runs = total->runs + run->runs,
        .namespaces = run->namespaces,
        .ops = total->ops + run->ops,
        .leases_cleared = total->leases_cleared + run->leases_cleared,
        .stages_settled = total->stages_settled + run->stages_settled,
        .markers_deleted = total->markers_deleted + run->markers_deleted,
        .rolled_back = total->rolled_back + run->rolled_back,
        .entries_deleted = total->entries_deleted + run->entries_deleted,
        .entries_moved = total->entries_moved + run->entries_moved,
        .tables_purged = total->tables_purged + run->tables_purged,
        .states_deleted = total->states_deleted + run->states_deleted,
        .bodies_deleted = total->bodies_deleted + run->bodies_deleted,
        .outputs_condemned = total->outputs_condemned + run->outputs_condemned,
        .chunks_deleted = total->chunks_deleted + run->chunks_deleted,
        .names_dropped = total->names_dropped + run->names_dropped,
        .failed = total->failed + run->failed,
        .stopped_by_activity = total->stopped_by_activity + run->stopped_by_activity,
        .duration = { total->duration.us + run->duration.us },
        .stop = run->stop,
    };
    *total = sum;
}

/* ---- Continuing ---------------------------------------------------------------------- */

static void stop_run(struct sweep_run *run, enum hf_sweep_stop why)
{
    if (!run->stopped)
        run->stop = why;
    run->stopped = true;
}

/* Whether an idle run must stop, because a caller or another process is active. */
static bool gives_way(struct sweep_run *run, enum hf_sweep_stop *ret_why)
{
    struct hf_client *caller = run->caller;
    uint64_t peers = 0;
    bool told = run->peers_known && store_peer_changes(client_store(caller), &peers);
    if (client_activity(caller) != run->activity)
        *ret_why = HF_SWEEP_STOP_ACTIVITY;
    else if (told && peers != run->peers)
        *ret_why = HF_SWEEP_STOP_PEERS;
    else if (spaces_conflicts(run) != run->conflicts)
        *ret_why = HF_SWEEP_STOP_CONFLICT;
    else
        return false;
    return true;
}

bool run_goes_on(struct sweep_run *run)
{
    const struct sweep_options *options = run->options;
    enum hf_sweep_stop why;
    if (run->stopped)
        return false;
    if (options->mode == SWEEP_IDLE && !options->overdue && gives_way(run, &why)) {
        stop_run(run, why);
    } else if (options->go_on && !options->go_on(options->argument)) {
        stop_run(run, HF_SWEEP_STOP_CANCELLED);
    } else {
        struct mono_time now = client_now(run->client);
        bool ended = !mono_before(now, run->end);
        /* The next step may take as long as the longest one so far. */
        if (ended || mono_before(run->end, mono_add(now, run->longest)))
            stop_run(run, HF_SWEEP_STOP_TIME);
    }
    return !run->stopped;
}

static void note_duration(struct sweep_run *run, struct mono_time began)
{
    struct span took = mono_since(client_now(run->client), began);
    if (took.us > run->longest.us)
        run->longest = took;
}

bool run_page(struct sweep_run *run, struct pages *pages)
{
    if (!run_goes_on(run))
        return false;
    struct mono_time began = client_now(run->client);
    pages->list.deadline = run_deadline(run);
    bool there = pages_next(pages, client_store(run->client));
    clock_learn(client_clock(run->caller), &pages->list.stamp);
    note_duration(run, began);
    return there;
}

/* Pauses between two entries, in pieces, because the run may have to stop. */
static void wait_for_next(struct sweep_run *run)
{
    struct env *env = client_env(run->client);
    struct mono_time until =
        mono_earlier(mono_add(env_now(env), run->options->settings.op_delay), run->end);
    while (mono_before(env_now(env), until) && run_goes_on(run))
        env_sleep_until(env, mono_earlier(mono_add(env_now(env), WAIT_PIECE), until));
}

bool run_next(struct sweep_run *run)
{
    if (run->report->ops >= run->options->settings.ops_max)
        stop_run(run, HF_SWEEP_STOP_OPS);
    if (!run->stopped && run->report->ops > 0)
        wait_for_next(run);
    if (!run_goes_on(run))
        return false;
    run->report->ops++;
    run->entry_began = client_now(run->client);
    if (run->options->progress)
        run->options->progress(run->options->argument, run->report);
    return true;
}

void run_note(struct sweep_run *run, struct view about, enum hf_status status,
              const struct hf_error *error)
{
    note_duration(run, run->entry_began);
    if (status == HF_OK) {
        run->failures_in_row = 0;
        return;
    }
    run->report->failed++;
    if (run->options->failed)
        run->options->failed(run->options->argument, about, error);
    /* Whether the failure says more about the store than about one entry. */
    bool of_store = status == HF_UNAVAILABLE || status == HF_UNSURE || status == HF_TIMEOUT ||
                    status == HF_DENIED;
    if (!of_store)
        run->failures_in_row = 0;
    else if (++run->failures_in_row >= FAILURES_IN_ROW_MAX) {
        run->trouble = *error;
        stop_run(run, HF_SWEEP_STOP_FAILED);
    }
}

struct mono_time run_deadline(const struct sweep_run *run)
{
    return mono_earlier(client_deadline(run->client), run->end);
}

struct evidence run_evidence(struct sweep_run *run)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(client_clock(run->caller),
                   &evidence); /* the caller's clock has the most samples of the store time */
    return evidence;
}

/* Raises the epoch at most once per run and namespace, and at most once per hour, because the
 * number of epochs is limited. */
static enum hf_status raise_epoch_once(struct sweep_run *run, struct hf_error *error)
{
    struct hf_client *client = run->client;
    struct evidence evidence = run_evidence(run);
    struct hour hour = hour_now(client, &evidence);
    if (run->space->epoch_raised || hour.number == run->raised_before)
        return HF_OK;
    struct epoch_ref ref = epoch_of_tables(client_space(client), run_deadline(run));
    enum hf_status status = epoch_raise(&ref, /* by */ 1, &run->space->epoch, error);
    run->space->epoch_raised = status == HF_OK;
    if (run->space->epoch_raised)
        run->cursor->raised_hour = hour.number;
    return status;
}

enum hf_status run_epoch(struct sweep_run *run, uint64_t above, uint64_t *ret_epoch,
                         struct hf_error *error)
{
    struct run_space *space = run->space;
    enum hf_status status = HF_OK;
    if (!space->epoch_known) {
        struct epoch_ref ref = epoch_of_tables(client_space(run->client), run_deadline(run));
        status = epoch_have(&ref, &space->epoch, /* limits */ NULL, error);
        space->epoch_known = status == HF_OK;
    }
    if (RULE(PURGE_RAISES_EPOCH) && status == HF_OK && space->epoch <= above)
        status = raise_epoch_once(run, error);
    if (status == HF_OK)
        *ret_epoch = space->epoch;
    return status;
}

void cursor_set(char cursor[KEY_BYTES_MAX + 1], struct view key)
{
    check(key.size <= KEY_BYTES_MAX);
    memcpy(cursor, key.data, key.size);
    cursor[key.size] = '\0';
}

/* ---- A run --------------------------------------------------------------------------- */

typedef enum hf_status sweep_part(struct sweep_run *run, struct hf_error *error);

/* Each part continues where an earlier run stopped. If a run could not finish one part, the next
 * run begins with the part after it, so that a large part does not block the others. */
static enum hf_status sweep_parts(struct sweep_run *run, struct hf_error *error)
{
    static sweep_part *const parts[] = { sweep_leases, sweep_records, sweep_partitions,
                                         sweep_everything };
    size_t count = sizeof parts / sizeof *parts - (run->options->full ? 0 : 1);
    size_t first = run->cursor->turn % count;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK || !run_goes_on(run))
            break;
        size_t part = (first + i) % count;
        run->again = run->options->dry_run && run->options->full &&
                     (parts[part] == sweep_leases || parts[part] == sweep_records);
        space_leave(run);
        status = parts[part](run, error);
        run->cursor->turn = status != HF_OK || run->stopped ? (part + 1) % count : 0;
    }
    if (status == HF_OK && run->trouble.status != HF_OK) {
        *error = run->trouble;
        status = error->status;
    }
    return status;
}

static enum hf_status sweep_alone(struct sweep_run *run, struct hf_error *error)
{
    run->began = client_now(run->client);
    run->end = mono_add(run->began, run->options->settings.runtime_max);
    run->activity = client_activity(run->client);
    run->conflicts = spaces_conflicts(run);
    run->raised_before = run->cursor->raised_hour;
    run->peers_known = store_peer_changes(client_store(run->client), &run->peers);
    enum hf_status status = spaces_open(run, error);
    if (status == HF_OK)
        status = sweep_parts(run, error);
    struct sweep_report *report = run->report;
    report->namespaces = run->names.count;
    spaces_close(run);
    if (status != HF_OK && !mono_before(client_now(run->client), run->end))
        stop_run(run, HF_SWEEP_STOP_TIME);
    if (status != HF_OK && run->stopped && run->stop != HF_SWEEP_STOP_FAILED)
        status = HF_OK; /* the run had no time left to wait for a reply */
    report->runs = 1;
    report->stop = status != HF_OK ? HF_SWEEP_STOP_FAILED
                   : run->stopped  ? run->stop
                                   : HF_SWEEP_STOP_DONE;
    report->stopped_by_activity = report->stop == HF_SWEEP_STOP_ACTIVITY ||
                                  report->stop == HF_SWEEP_STOP_PEERS ||
                                  report->stop == HF_SWEEP_STOP_CONFLICT;
    report->duration = mono_since(client_now(run->client), run->began);
    return status == HF_OK ? error_clear(error) : status;
}

enum hf_status sweep_run(struct hf_client *client, const struct sweep_options *options,
                         struct sweep_cursor *cursor, struct sweep_report *report,
                         struct hf_error *error)
{
    enum hf_status status = sweep_settings_check(&options->settings, error);
    struct sweep_cursor own = *cursor;
    *report = (struct sweep_report){ .stop = HF_SWEEP_STOP_FAILED };
    if (status != HF_OK)
        return status;
    report->stop = HF_SWEEP_STOP_BUSY;
    if (atomic_exchange(&client_env(client)->sweeping, true))
        return error_clear(error);
    struct sweep_run run = { .caller = client,
                             .client = client,
                             .options = options,
                             .cursor = options->dry_run ? &own : cursor,
                             .report = report,
                             .trouble = { .status = HF_OK } };
    status = sweep_alone(&run, error);
    atomic_store(&client_env(client)->sweeping, false);
    return status;
}
