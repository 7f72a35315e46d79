/* store_restored.c: what must be done to a store that came back from a backup, over all of its
 * namespaces and tables; and writing a token epoch anew. The rules are in lock/restore.h. */
#include "api/store.h"

#include "base/layout.h"
#include "lock/restore.h"

#include <stdio.h>

/* ---- Restored ------------------------------------------------------------------------ */

struct restoring {
    struct hf_store *store;
    struct hf_store_restored_options options;
    struct hf_client *client; /* of the namespace that is being done */
    uint64_t epoch;           /* of that namespace, new */
    uint64_t epoch_highest;   /* of all */
    bool common;              /* tables of no namespace are done by themselves, at the end */
    struct hf_store_restored_report report;
};

static enum hf_status show_restored(struct restoring *restoring,
                                    const struct hf_store_restored_info *info,
                                    struct hf_error *error)
{
    if (!restoring->options.each || restoring->options.each(restoring->options.argument, info))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped before all was done: do it again");
}

static enum hf_status restore_one(void *argument, const struct sight *sight,
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
        .table = key,
        .damaged = sight->table == NULL,
        .barrier_ms = barrier.us / 1000,
    };
    restoring->report.tables++;
    if (info.barrier_ms > restoring->report.barrier_ms)
        restoring->report.barrier_ms = info.barrier_ms;
    return show_restored(restoring, &info, error);
}

/* The new epoch of the namespace, or, when it is only asked what would be done, the one that it
 * would get. */
static enum hf_status raise_epoch(struct restoring *restoring, const char *ns,
                                  struct hf_error *error)
{
    struct hf_store_restored_info info = { .ns = ns };
    struct restore_sight sight;
    bool dry = restoring->options.dry_run;
    enum hf_status status = dry ? restore_look(restoring->client, &sight, error)
                                : restore_epoch(restoring->client, &info.epoch, error);
    if (status != HF_OK)
        return status;
    if (dry)
        info.epoch = (sight.lost ? sight.shown >> 32 : sight.epoch) + RESTORE_EPOCHS;
    restoring->epoch = info.epoch;
    if (info.epoch > restoring->epoch_highest)
        restoring->epoch_highest = info.epoch;
    return show_restored(restoring, &info, error);
}

/* All tables of a namespace, or those that belong to none, with a client of its own. */
static enum hf_status restore_with(struct restoring *restoring, const char *ns,
                                   struct hf_error *error)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct look look;
    options.ns = ns;
    options.holder = restoring->options.by;
    enum hf_status status =
        client_new(restoring->store->store, &options, &restoring->client, error);
    if (status != HF_OK)
        return status;
    look_init(&look, restoring->client);
    if (!restoring->common)
        status = raise_epoch(restoring, ns, error);
    if (status == HF_OK)
        status = restoring->common
                     ? look_at_common(&look, restore_one, restoring, error)
                     : look_around(&look, VIEW(""), restore_one, restoring, error);
    look_release(&look);
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

static enum hf_status restore_store(struct restoring *restoring, struct hf_error *error)
{
    const char *ns = restoring->options.ns;
    struct view known[2] = { VIEW(LAYOUT_NAMESPACE_DEFAULT), view_of(ns ? ns : "") };
    enum hf_status status = ns ? name_check(known[1], error) : HF_OK;
    if (status == HF_OK)
        status = store_handle_check_locks(restoring->store, error);
    if (status == HF_OK)
        status =
            restore_namespaces(restoring->store->store, known, ns ? 2 : 1,
                               (struct mono_time){ 0 }, restore_namespace, restoring, error);
    restoring->common = true;
    if (status == HF_OK)
        status = restore_with(restoring, LAYOUT_NAMESPACE_DEFAULT, error);
    return status;
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
    if (ERROR_IF_NULL(error, store) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_STORE_RESTORED_OPTIONS", options, &restoring.options,
                            sizeof restoring.options, error);
    if (status == HF_OK)
        status = check_caller_report("HF_STORE_RESTORED_REPORT", ret_report, error);
    if (status != HF_OK)
        return status;
    if (!restoring.options.by)
        restoring.options.by = "hf_store_restored";
    status = restore_store(&restoring, &why);
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
    struct restore_sight sight;
    struct hf_store_epoch_info info = { .ns = ns };
    if (repairing->stopped)
        return HF_OK;
    options.ns = ns;
    enum hf_status status = client_new(repairing->store->store, &options, &client, error);
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
    struct hf_error why;
    if (ERROR_IF_NULL(error, store) != HF_OK)
        return HF_INVALID;
    enum hf_status status = ns ? name_check(view_of(ns), &why) : HF_OK;
    if (status == HF_OK)
        status = store_handle_check_locks(store, &why);
    if (status == HF_OK && ns)
        status = repair_namespace(&repairing, ns, &why);
    else if (status == HF_OK)
        status = restore_namespaces(store->store, &known, 1, (struct mono_time){ 0 },
                                    repair_namespace, &repairing, &why);
    return error_tell(error, status, &why);
}
