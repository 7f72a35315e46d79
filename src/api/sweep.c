/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: the calls of holdfast/sweep.h: one run, the background sweeper, and its status. */
#include "sweep/sweep.h"

#include "base/options.h"

#include <stdlib.h>

static struct hf_sweep_report public_report(const struct sweep_report *report)
{
    return (struct hf_sweep_report){
        .struct_size = sizeof(struct hf_sweep_report),
        .runs = report->runs,
        .namespaces = report->namespaces,
        .ops = report->ops,
        .leases_cleared = report->leases_cleared,
        .stages_settled = report->stages_settled,
        .rolled_back = report->rolled_back,
        .markers_deleted = report->markers_deleted,
        .entries_deleted = report->entries_deleted,
        .entries_moved = report->entries_moved,
        .tables_purged = report->tables_purged,
        .states_deleted = report->states_deleted,
        .bodies_deleted = report->bodies_deleted,
        .outputs_condemned = report->outputs_condemned,
        .chunks_deleted = report->chunks_deleted,
        .names_dropped = report->names_dropped,
        .failed = report->failed,
        .stopped_by_activity = report->stopped_by_activity,
        .duration_ms = report->duration.us / 1000,
        .stop = report->stop,
    };
}

static void write_sweep_report(struct hf_sweep_report *to, const struct sweep_report *report)
{
    struct hf_sweep_report filled = public_report(report);
    write_caller_report(to, &filled, sizeof filled);
}

/* ---- One run ------------------------------------------------------------------------- */

struct sweeping {
    const struct hf_sweep_options *options;
    struct sweep_report so_far;
    bool cancelled;
};

static bool may_continue(void *argument)
{
    struct sweeping *sweeping = argument;
    const struct hf_sweep_options *options = sweeping->options;
    const struct hf_sweep_report so_far = public_report(&sweeping->so_far);
    if (options->progress && !sweeping->cancelled)
        sweeping->cancelled = !options->progress(options->argument, &so_far);
    return !sweeping->cancelled;
}

static void note_progress(void *argument, const struct sweep_report *report)
{
    struct sweeping *sweeping = argument;
    sweeping->so_far = *report;
}

static void report_failure(void *argument, struct view about, const struct hf_error *error)
{
    struct sweeping *sweeping = argument;
    char text[KEY_BYTES_MAX + 1];
    struct view kept = view_first(about, KEY_BYTES_MAX);
    if (!sweeping->options->failed)
        return;
    if (kept.size > 0)
        memcpy(text, kept.data, kept.size);
    text[kept.size] = '\0';
    sweeping->options->failed(sweeping->options->argument, text, error);
}

enum hf_status hf_sweep(struct hf_client *client, const struct hf_sweep_options *options,
                        struct hf_sweep_report *report, struct hf_error *error)
{
    struct hf_sweep_options used = HF_SWEEP_OPTIONS;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, client) != HF_OK ||
        READ_OPTIONS(HF_SWEEP_OPTIONS, options, &used, &why) != HF_OK ||
        CHECK_REPORT(HF_SWEEP_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct sweeping sweeping = { .options = &used };
    struct sweep_report done = { .stop = HF_SWEEP_STOP_FAILED };
    struct sweep_memory memory;
    const struct sweep_options inside = {
        .settings = { .idle_grace = SWEEP_GRACE_MIN,
                      .op_delay = span_of_ms(used.op_delay_ms),
                      .ops_max = used.ops_max,
                      .runtime_max = span_of_ms(used.runtime_max_ms),
                      .all_namespaces = used.all_namespaces },
        .mode = SWEEP_MANUAL,
        .full = used.full,
        .dry_run = used.dry_run,
        .go_on = may_continue,
        .progress = note_progress,
        .failed = report_failure,
        .argument = &sweeping,
    };
    enum hf_status status = sweep_settings_check(&inside.settings, &why);
    if (status == HF_OK)
        status = sweep_recall(client, used.all_namespaces, &memory, &why);
    if (status == HF_OK) {
        status = sweep_run(client, &inside, &memory.cursor, &done, &why);
        if (!used.dry_run && done.runs > 0)
            sweep_remember_run(client, used.all_namespaces, &memory.cursor, &done);
    }
    write_sweep_report(report, &done);
    if (status == HF_OK && sweeping.cancelled)
        status = error_set(&why, HF_CANCELLED, "stopped by the caller");
    return error_tell(error, status, &why);
}

/* ---- In the background --------------------------------------------------------------- */

struct hf_sweeper {
    struct hf_client *client;
    struct hf_sweeper_options options;
    struct sweeper *sweeper;
};

static void report_run(void *argument, const struct sweep_report *run)
{
    struct hf_sweeper *sweeper = argument;
    const struct hf_sweep_report report = public_report(run);
    if (sweeper->options.ran)
        sweeper->options.ran(sweeper->options.argument, &report);
}

enum hf_status hf_sweeper_start(struct hf_client *client,
                                const struct hf_sweeper_options *options,
                                struct hf_sweeper **ret_sweeper, struct hf_error *error)
{
    struct hf_sweeper_options used = HF_SWEEPER_OPTIONS;
    struct hf_error why;
    if (ret_sweeper)
        *ret_sweeper = NULL;
    if (ERROR_IF_NULL(&why, client, ret_sweeper) != HF_OK ||
        READ_OPTIONS(HF_SWEEPER_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    const struct sweep_settings settings = { .idle_grace = span_of_ms(used.idle_grace_ms),
                                             .op_delay = span_of_ms(used.op_delay_ms),
                                             .ops_max = used.ops_max,
                                             .runtime_max = span_of_ms(used.runtime_max_ms),
                                             .all_namespaces = used.all_namespaces };
    struct hf_sweeper *sweeper = calloc(1, sizeof *sweeper);
    if (!sweeper)
        return error_no_memory(error);
    *sweeper = (struct hf_sweeper){ .client = client, .options = used };
    const struct sweeper_watch watch = { used.remember, report_run, sweeper };
    enum hf_status status = sweeper_start(client, &settings, &watch, &sweeper->sweeper, &why);
    if (status == HF_OK) {
        client_keep(client);
        *ret_sweeper = sweeper;
    } else {
        free(sweeper);
    }
    return error_tell(error, status, &why);
}

void hf_sweeper_stop(struct hf_sweeper *sweeper)
{
    if (!sweeper)
        return;
    sweeper_stop(sweeper->sweeper);
    client_drop(sweeper->client);
    free(sweeper);
}

enum hf_status hf_sweeper_report(struct hf_sweeper *sweeper, struct hf_sweep_report *report,
                                 struct hf_error *error)
{
    struct sweep_report total;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, sweeper, report) != HF_OK ||
        CHECK_REPORT(HF_SWEEP_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    sweeper_report(sweeper->sweeper, &total);
    write_sweep_report(report, &total);
    return error_clear(error);
}

bool hf_sweep_sees_others(struct hf_client *client)
{
    uint64_t ignored;
    return client && store_peer_changes(client_store(client), &ignored);
}

/* ---- Pending work and past runs ------------------------------------------------------ */

enum hf_status hf_sweep_status(struct hf_client *client, bool all_namespaces,
                               struct hf_sweep_due *due, struct hf_sweep_report *last,
                               struct hf_sweep_report *total, struct hf_error *error)
{
    struct hf_sweep_due found;
    struct sweep_names names;
    struct sweep_memory memory;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, client, due) != HF_OK ||
        CHECK_REPORT(HF_SWEEP_DUE, due, &why) != HF_OK ||
        CHECK_REPORT(HF_SWEEP_REPORT, last, &why) != HF_OK ||
        CHECK_REPORT(HF_SWEEP_REPORT, total, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status =
        sweep_names_find(client, all_namespaces, (struct mono_time){ 0 }, &names, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    status = all_namespaces ? sweep_recall_sum(client, &names, &memory, &why)
                            : sweep_recall(client, all_namespaces, &memory, &why);
    if (status == HF_OK)
        status = sweep_due(client, &names, &found, &why);
    sweep_names_release(&names);
    if (status == HF_OK) {
        found.last_ms = memory.at.us / 1000;
        write_caller_report(due, &found, sizeof found);
        write_sweep_report(last, &memory.last);
        write_sweep_report(total, &memory.total);
    }
    return error_tell(error, status, &why);
}

enum hf_status hf_sweep_namespaces(struct hf_client *client, bool all_namespaces,
                                   bool (*each)(void *argument, const char *ns), void *argument,
                                   struct hf_error *error)
{
    struct sweep_names names;
    struct hf_error why;
    if (ERROR_IF_NULL(error, client) != HF_OK || error_if_none(error, "each", each) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        sweep_names_find(client, all_namespaces, (struct mono_time){ 0 }, &names, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    for (size_t i = 0; i < names.count; i++)
        if (!each(argument, names.names[i]))
            break;
    sweep_names_release(&names);
    return error_clear(error);
}
