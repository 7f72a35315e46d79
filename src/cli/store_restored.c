/* store_restored.c: `store restored`, after a restore from backup, and `store repair epoch`. */
#include "cli/interrupt.h"
#include "cli/lock.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- restored ------------------------------------------------------------------------ */

static void tell_table(struct cli *cli, const struct hf_store_restored_info *info)
{
    bool yes = cli_given(cli, "yes");
    char span[SPAN_TEXT_MAX];
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:b, s:I, s:b}", "table", info->table,
                                         "damaged", info->damaged, "barrier_ms",
                                         (json_int_t)info->barrier_ms, "done", yes));
    else if (!cli->quiet)
        output_print(&cli->out, "  table %s: %s%s for %s\n", info->table,
                     info->damaged ? "damaged, replaced; " : "",
                     yes ? "nothing is granted" : "nothing would be granted",
                     span_text(SPAN_MS(info->barrier_ms), span));
}

static void tell_namespace(struct cli *cli, const struct hf_store_restored_info *info)
{
    bool yes = cli_given(cli, "yes");
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:I, s:b}", "namespace", info->ns, "epoch",
                                         (json_int_t)info->epoch, "done", yes));
    else if (!cli->quiet)
        output_print(&cli->out, "namespace %s: its token epoch %s %" PRIu64 "\n", info->ns,
                     yes ? "is now" : "would be", info->epoch);
}

static bool tell_restored(void *argument, const struct hf_store_restored_info *info)
{
    if (info->table)
        tell_table(argument, info);
    else
        tell_namespace(argument, info);
    return !interrupted();
}

static void tell_end(struct cli *cli, const struct hf_store_restored_report *report)
{
    char span[SPAN_TEXT_MAX], time[TIME_TEXT_MAX];
    struct span longest = SPAN_MS(report->barrier_ms);
    struct wall_time until = wall_add(env_wall(cli->env), longest);
    if (cli->json || cli->quiet)
        return;
    if (!cli_given(cli, "yes")) {
        output_print(&cli->out,
                     "\nNothing was changed; namespaces found: %" PRIu64 ", tables: %" PRIu64
                     ". Say --yes to do it.\n",
                     report->namespaces, report->tables);
    } else if (report->tables > 0) {
        output_print(&cli->out,
                     "\nDone; namespaces: %" PRIu64 ", tables: %" PRIu64
                     ". Nothing is granted in these for %s, until about %s.\n",
                     report->namespaces, report->tables, span_text(longest, span),
                     time_text(until, time));
    } else {
        output_print(&cli->out, "\nDone; namespaces: %" PRIu64 ", and no tables.\n",
                     report->namespaces);
    }
    output_text(&cli->out,
                "A lock whose table is not in the backup is free at once, though a worker of "
                "before may hold it.\nStop all workers, or wait for the longest ttl, before "
                "work goes on.\n");
}

static const char *ns_option(struct cli *cli)
{
    const struct option_value *ns = cli_option(cli, "ns");
    return ns ? ns->text.data : NULL;
}

enum hf_status run_store_restored(struct cli *cli)
{
    struct hf_store_restored_options options = HF_STORE_RESTORED_OPTIONS;
    struct hf_store_restored_report report = HF_STORE_RESTORED_REPORT;
    char user[USER_TEXT_MAX], by[USER_TEXT_MAX + 32];
    snprintf(by, sizeof by, "store restored, by %s", user_text(user));
    options.dry_run = !cli_given(cli, "yes");
    options.ns = ns_option(cli);
    options.by = by;
    options.each = tell_restored;
    options.argument = cli;
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status = hf_store_restored(cli->handle, &options, &report, &cli->error);
    if (status == HF_OK)
        tell_end(cli, &report);
    return status;
}

/* ---- repair epoch -------------------------------------------------------------------- */

static bool tell_repaired(void *argument, const struct hf_store_epoch_info *info)
{
    struct cli *cli = argument;
    bool raised = info->known && info->epoch > info->epoch_before;
    const char *found = info->lost    ? "it was lost"
                        : raised      ? "it was behind the tokens that were given"
                        : info->known ? "it could be read"
                                      : "it was never written";
    if (cli->json)
        output_json(&cli->out, json_pack("{s:s, s:I, s:I, s:b}", "namespace", info->ns, "epoch",
                                         (json_int_t)info->epoch, "highest_token",
                                         (json_int_t)info->highest_token, "rebuilt",
                                         !info->known || raised));
    else if (!cli->quiet)
        output_print(&cli->out,
                     "namespace %s: its token epoch is %" PRIu64 "; %s, and the highest "
                     "token that anything shows is %" PRIu64 "\n",
                     info->ns, info->epoch, found, info->highest_token);
    return true;
}

enum hf_status run_store_repair_epoch(struct cli *cli)
{
    enum hf_status status = cli_open_store(cli);
    if (status == HF_OK)
        status =
            hf_store_repair_epoch(cli->handle, ns_option(cli), tell_repaired, cli, &cli->error);
    return status;
}
