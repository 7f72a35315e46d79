/* store_restored.c: `store restored`, after a restore from backup, and `store repair epoch`. */
#include "base/layout.h"
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/lock.h"
#include "lock/restore.h"

#include <inttypes.h>
#include <stdio.h>

struct restoring {
    struct cli *cli;
    bool yes;
    struct hf_client *client; /* of the namespace that is being done */
    uint64_t epoch;           /* of that namespace, new */
    uint64_t epoch_highest;   /* of all */
    bool common;              /* tables of no namespace are done by themselves, at the end */
    struct span longest;      /* nothing is granted for this long */
    size_t namespaces, tables;
    char by[USER_TEXT_MAX + 32];
};

static void tell_table(struct restoring *restoring, const struct sight *sight,
                       struct span barrier)
{
    struct cli *cli = restoring->cli;
    char span[SPAN_TEXT_MAX];
    if (cli->json)
        output_json(&cli->out,
                    json_pack("{s:s%, s:b, s:I, s:b}", "table", sight->key.data,
                              sight->key.size, "damaged", sight->table == NULL, "barrier_ms",
                              (json_int_t)(barrier.us / 1000), "done", restoring->yes));
    else if (!cli->quiet)
        output_print(&cli->out, "  table %.*s: %s%s for %s\n", VIEW_ARGS(sight->key),
                     sight->table ? "" : "damaged, replaced; ",
                     restoring->yes ? "nothing is granted" : "nothing would be granted",
                     span_text(barrier, span));
}

static enum hf_status restore_one(void *argument, const struct sight *sight,
                                  struct hf_error *error)
{
    struct restoring *restoring = argument;
    bool common = view_starts_with(sight->key, VIEW(LAYOUT_CHUNK_FOLDER)) ||
                  view_starts_with(sight->key, VIEW(LAYOUT_INDEX_FOLDER));
    enum hf_status status = interrupt_check(error);
    if (common != restoring->common || status != HF_OK)
        return status;
    if (sight->error.status == HF_UNSUPPORTED) {
        *error = sight->error;
        return error->status;
    }
    struct span barrier = sight->settings.ttl_max;
    uint64_t epoch = common ? restoring->epoch_highest : restoring->epoch;
    if (restoring->yes)
        status =
            restore_table(restoring->client, sight->key, epoch, barrier, restoring->by, error);
    if (status != HF_OK) {
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(sight->key, 80)));
        return status;
    }
    restoring->tables++;
    if (barrier.us > restoring->longest.us)
        restoring->longest = barrier;
    tell_table(restoring, sight, barrier);
    return HF_OK;
}

/* The new epoch of the namespace, or, when it is only asked what would be done, the one there
 * is. */
static enum hf_status raise(struct restoring *restoring, const char *ns, struct hf_error *error)
{
    struct cli *cli = restoring->cli;
    uint64_t epoch;
    struct restore_sight sight;
    enum hf_status status = restoring->yes ? restore_epoch(restoring->client, &epoch, error)
                                           : restore_look(restoring->client, &sight, error);
    if (status != HF_OK)
        return status;
    if (!restoring->yes)
        epoch = (sight.lost ? sight.shown >> 32 : sight.epoch) + RESTORE_EPOCHS;
    restoring->epoch = epoch;
    if (epoch > restoring->epoch_highest)
        restoring->epoch_highest = epoch;
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:I, s:b}", "namespace", ns, "epoch",
                                         (json_int_t)epoch, "done", restoring->yes));
    else if (!cli->quiet)
        output_print(&cli->out, "namespace %s: its token epoch %s %" PRIu64 "\n", ns,
                     restoring->yes ? "is now" : "would be", epoch);
    return HF_OK;
}

/* Shows all tables of a namespace, or those that belong to none, with a client of its own. */
static enum hf_status restore_with(struct restoring *restoring, const char *ns,
                                   struct hf_error *error)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct look look;
    options.ns = ns;
    options.holder = restoring->by;
    enum hf_status status =
        client_new(restoring->cli->store, &options, &restoring->client, error);
    if (status != HF_OK)
        return status;
    look_init(&look, restoring->client);
    if (!restoring->common)
        status = raise(restoring, ns, error);
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
    restoring->namespaces++;
    return restore_with(restoring, ns, error);
}

static void tell_end(struct restoring *restoring)
{
    struct cli *cli = restoring->cli;
    char span[SPAN_TEXT_MAX], time[TIME_TEXT_MAX];
    struct wall_time until = wall_add(env_wall(cli->env), restoring->longest);
    if (cli->json || cli->quiet)
        return;
    if (!restoring->yes) {
        output_print(&cli->out,
                     "\nNothing was changed; namespaces found: %zu, tables: %zu. "
                     "Say --yes to do it.\n",
                     restoring->namespaces, restoring->tables);
    } else if (restoring->tables > 0) {
        output_print(
            &cli->out,
            "\nDone; namespaces: %zu, tables: %zu. Nothing is granted in these for %s, "
            "until about %s.\n",
            restoring->namespaces, restoring->tables, span_text(restoring->longest, span),
            time_text(until, time));
    } else {
        output_print(&cli->out, "\nDone; namespaces: %zu, and no tables.\n",
                     restoring->namespaces);
    }
    output_text(&cli->out,
                "A lock whose table is not in the backup is free at once, though a worker of "
                "before may hold it.\nStop all workers, or wait for the longest ttl, before "
                "work goes on.\n");
}

enum hf_status run_store_restored(struct cli *cli)
{
    struct restoring restoring = { .cli = cli, .yes = cli_given(cli, "yes") };
    char user[USER_TEXT_MAX];
    struct view known[2] = { VIEW(LAYOUT_NAMESPACE_DEFAULT), { NULL, 0 } };
    const struct option_value *ns = cli_option(cli, "ns");
    snprintf(restoring.by, sizeof restoring.by, "store restored, by %s", user_text(user));
    if (ns) {
        known[1] = ns->text;
        if (name_check(ns->text, &cli->error) != HF_OK)
            return cli->error.status;
    }
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status = restore_namespaces(cli->store, known, ns ? 2 : 1, (struct mono_time){ 0 },
                                    restore_namespace, &restoring, &cli->error);
    restoring.common = true;
    if (status == HF_OK)
        status = restore_with(&restoring, LAYOUT_NAMESPACE_DEFAULT, &cli->error);
    if (status == HF_OK)
        tell_end(&restoring);
    return status;
}

/* ---- repair epoch -------------------------------------------------------------------- */

static void tell_repaired(struct cli *cli, const char *ns, const struct restore_sight *sight,
                          uint64_t epoch)
{
    const char *found = sight->known ? "it could be read" : "it was never written";
    if (sight->lost)
        found = "it was lost";
    else if (sight->known && epoch > sight->epoch)
        found = "it was behind the tokens that were given";
    if (cli->json)
        output_json(&cli->out,
                    json_pack("{s:s, s:I, s:I, s:b}", "namespace", ns, "epoch",
                              (json_int_t)epoch, "highest_token", (json_int_t)sight->shown,
                              "rebuilt", !sight->known || epoch > sight->epoch));
    else if (!cli->quiet)
        output_print(&cli->out,
                     "namespace %s: its token epoch is %" PRIu64 "; %s, and the highest "
                     "token that anything shows is %" PRIu64 "\n",
                     ns, epoch, found, sight->shown);
}

static enum hf_status repair_namespace(void *argument, const char *ns, struct hf_error *error)
{
    struct cli *cli = argument;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct restore_sight sight;
    uint64_t epoch = 0;
    options.ns = ns;
    enum hf_status status = client_new(cli->store, &options, &client, error);
    if (status != HF_OK)
        return status;
    status = restore_repair(client, &sight, &epoch, error);
    hf_client_close(client);
    if (status == HF_OK)
        tell_repaired(cli, ns, &sight, epoch);
    else
        error_prefix(error, "namespace %s", ns);
    return status;
}

enum hf_status run_store_repair_epoch(struct cli *cli)
{
    const struct option_value *ns = cli_option(cli, "ns");
    struct view known = VIEW(LAYOUT_NAMESPACE_DEFAULT);
    enum hf_status status = ns ? name_check(ns->text, &cli->error) : HF_OK;
    if (status == HF_OK)
        status = cli_open_store(cli);
    if (status == HF_OK && ns) {
        char name[NAME_BYTES_MAX + 1];
        snprintf(name, sizeof name, "%.*s", VIEW_ARGS(ns->text));
        return repair_namespace(cli, name, &cli->error);
    }
    return status == HF_OK ? restore_namespaces(cli->store, &known, 1, (struct mono_time){ 0 },
                                                repair_namespace, cli, &cli->error)
                           : status;
}
