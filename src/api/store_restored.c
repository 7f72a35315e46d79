/* SPDX-License-Identifier: Apache-2.0 */
/* store_restored.c: repairs all namespaces and tables of a store that was restored from a backup,
 * and rewrites a token epoch. The rules are in lock/restore.h. */
#include "api/store.h"

#include "base/layout.h"
#include "lock/restore.h"

#include <stdio.h>

/* ---- Restored ------------------------------------------------------------------------ */

struct restoring {
    struct hf_store *store;
    struct hf_store_restored_options options;
    struct hf_client *client; /* of the current namespace */
    uint64_t epoch;           /* the new epoch of that namespace */
    uint64_t epoch_highest;   /* of all namespaces */
    bool common;              /* tables without a namespace are done last */
    struct hf_store_restored_report report;
};

static enum hf_status report_restored(struct restoring *restoring,
                                      const struct hf_store_restored_info *info,
                                      struct hf_error *error)
{
    if (!restoring->options.each || restoring->options.each(restoring->options.argument, info))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped before everything was done; run it again");
}

static enum hf_status restore_sighted(void *argument, const struct table_snapshot *sight,
                                      struct hf_error *error)
{
    struct restoring *restoring = argument;
    char key[KEY_BYTES_MAX + 1];
    bool common = view_starts_with(sight->key, VIEW(LAYOUT_CHUNK_FOLDER)) ||
                  view_starts_with(sight->key, VIEW(LAYOUT_INDEX_FOLDER));
    if (common != restoring->common)
        return HF_OK;
    if (sight->error.status == HF_UNSUPPORTED) {
        *error = sight->error;
        return error->status;
    }
    enum hf_status status = HF_OK;
    struct span barrier = sight->settings.ttl_max;
    uint64_t epoch = common ? restoring->epoch_highest : restoring->epoch;
    if (!restoring->options.dry_run)
        status = restore_table(restoring->client, sight->key, epoch, barrier,
                               restoring->options.by, error);
    if (status != HF_OK) {
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(sight->key, 80)));
        return status;
    }
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(sight->key));
    const struct hf_store_restored_info info = {
        .struct_size = sizeof info,
        .table = key,
        .damaged = sight->table == NULL,
        .barrier_ms = barrier.us / 1000,
    };
    restoring->report.tables++;
    if (info.barrier_ms > restoring->report.barrier_ms)
        restoring->report.barrier_ms = info.barrier_ms;
    return report_restored(restoring, &info, error);
}

/* The new epoch of the namespace. In a dry run, the epoch that it would get. */
static enum hf_status raise_namespace_epoch(struct restoring *restoring, const char *ns,
                                            struct hf_error *error)
{
    struct hf_store_restored_info info = { .struct_size = sizeof info, .ns = ns };
    struct epoch_findings sight;
    bool dry = restoring->options.dry_run;
    enum hf_status status = dry ? restore_check_epoch(restoring->client, &sight, error)
                                : restore_epoch(restoring->client, &info.epoch, error);
    if (status != HF_OK)
        return status;
    if (dry)
        info.epoch = (sight.lost ? sight.shown >> 32 : sight.epoch) + RESTORE_EPOCHS;
    restoring->epoch = info.epoch;
    if (info.epoch > restoring->epoch_highest)
        restoring->epoch_highest = info.epoch;
    return report_restored(restoring, &info, error);
}

/* Repairs all tables of a namespace, or all tables without a namespace, with a separate client. */
static enum hf_status restore_with(struct restoring *restoring, const char *ns,
                                   struct hf_error *error)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct table_reader look;
    options.ns = ns;
    options.holder = restoring->options.by;
    enum hf_status status =
        client_new_on(restoring->store, &options, &restoring->client, error);
    if (status != HF_OK)
        return status;
    table_reader_init(&look, restoring->client);
    if (!restoring->common)
        status = raise_namespace_epoch(restoring, ns, error);
    if (status == HF_OK)
        status = restoring->common
                     ? table_reader_list_common(&look, restore_sighted, restoring, error)
                     : table_reader_list(&look, VIEW(""), restore_sighted, restoring, error);
    table_reader_release(&look);
    hf_client_close(restoring->client);
    restoring->client = NULL;
    return status;
}

static enum hf_status restore_namespace(void *argument, const char *ns, struct hf_error *error)
{
    struct restoring *restoring = argument;
    restoring->report.namespaces++;
    return restore_with(restoring, ns, error);
}

enum hf_status hf_store_restored(struct hf_store *store,
                                 const struct hf_store_restored_options *options,
                                 struct hf_store_restored_report *ret_report,
                                 struct hf_error *error)
{
    struct restoring restoring = { .store = store,
                                   .options = HF_STORE_RESTORED_OPTIONS,
                                   .report = HF_STORE_RESTORED_REPORT };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store) != HF_OK ||
        READ_OPTIONS(HF_STORE_RESTORED_OPTIONS, options, &restoring.options, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_RESTORED_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (!restoring.options.by)
        restoring.options.by = "hf_store_restored";
    const char *ns = restoring.options.ns;
    struct view known[2] = { VIEW(LAYOUT_NAMESPACE_DEFAULT), view_of(ns ? ns : "") };
    enum hf_status status = ns ? name_check(known[1], &why) : HF_OK;
    if (status == HF_OK)
        status = store_handle_check_locks(store, &why);
    struct namespace_walk walk = { .known = known,
                                   .known_count = ns ? 2 : 1,
                                   .each = restore_namespace,
                                   .argument = &restoring };
    if (status == HF_OK)
        status = restore_namespaces(store->store, &walk, &why);
    restoring.common = true;
    if (status == HF_OK)
        status = restore_with(&restoring, LAYOUT_NAMESPACE_DEFAULT, &why);
    if (status == HF_OK)
        write_caller_report(ret_report, &restoring.report, sizeof restoring.report);
    return error_tell(error, status, &why);
}

/* ---- Repair of an epoch -------------------------------------------------------------- */

struct repairing {
    struct hf_store *store;
    bool (*each)(void *argument, const struct hf_store_epoch_info *info);
    void *argument;
    bool stopped;
};

static enum hf_status repair_namespace(void *argument, const char *ns, struct hf_error *error)
{
    struct repairing *repairing = argument;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct epoch_findings sight;
    struct hf_store_epoch_info info = { .struct_size = sizeof info, .ns = ns };
    if (repairing->stopped)
        return HF_OK;
    options.ns = ns;
    enum hf_status status = client_new_on(repairing->store, &options, &client, error);
    if (status != HF_OK)
        return status;
    status = restore_repair(client, &sight, &info.epoch, error);
    hf_client_close(client);
    if (status != HF_OK) {
        error_prefix(error, "namespace %s", ns);
        return status;
    }
    info.known = sight.known;
    info.epoch_before = sight.epoch;
    info.lost = sight.lost;
    info.highest_token = sight.shown;
    repairing->stopped = repairing->each && !repairing->each(repairing->argument, &info);
    return HF_OK;
}

enum hf_status hf_store_repair_epoch(struct hf_store *store, const char *ns,
                                     bool (*each)(void *argument,
                                                  const struct hf_store_epoch_info *info),
                                     void *argument, struct hf_error *error)
{
    struct repairing repairing = { .store = store, .each = each, .argument = argument };
    struct view known = VIEW(LAYOUT_NAMESPACE_DEFAULT);
    struct namespace_walk walk = {
        .known = &known, .known_count = 1, .each = repair_namespace, .argument = &repairing
    };
    struct hf_error why;
    if (ERROR_IF_NULL(error, store) != HF_OK)
        return HF_INVALID;
    enum hf_status status = ns ? name_check(view_of(ns), &why) : HF_OK;
    if (status == HF_OK)
        status = store_handle_check_locks(store, &why);
    if (status == HF_OK && ns)
        status = repair_namespace(&repairing, ns, &why);
    else if (status == HF_OK)
        status = restore_namespaces(store->store, &walk, &why);
    return error_tell(error, status, &why);
}
