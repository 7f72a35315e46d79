/* SPDX-License-Identifier: Apache-2.0 */
/* restored.c: `store restored`, which makes a store safe to use after a restore from a backup, and
 * `store repair epoch`. Both prevent fencing tokens from being reused. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"

#include <inttypes.h>
#include <stdio.h>

/* A namespace or a table, and whether it was changed or only listed. */
struct restored {
    struct hf_store_restored_info info;
    bool done;
};

const struct field restored_table_record[] = RESTORED_TABLE_RECORD;
const struct field restored_namespace_record[] = RESTORED_NAMESPACE_RECORD;

static bool tell_restored(void *argument, const struct hf_store_restored_info *info)
{
    struct restored restored = { *info, cli_given(argument, "yes") };
    if (info->table)
        record_tell(argument, restored_table_record, &restored, RESTORED_TABLE_TEXT);
    else
        record_tell(
            argument, restored_namespace_record, &restored,
            "namespace {namespace}: its token epoch [{done?}is now|would be] {epoch}\n");
    return !interrupted();
}

struct restored_all {
    struct hf_store_restored_report report;
    bool done;
    int64_t until_ms; /* wall-clock time */
};

/* The totals, which are printed only as text. */
static const struct field restored_all_record[] = RESTORED_ALL_RECORD;

enum hf_status run_store_restored(struct cli *cli)
{
    struct hf_store_restored_options options = HF_STORE_RESTORED_OPTIONS;
    struct restored_all all = { .report = HF_STORE_RESTORED_REPORT,
                                .done = cli_given(cli, "yes") };
    char user[USER_TEXT_MAX], by[USER_TEXT_MAX + 32];
    snprintf(by, sizeof by, "store restored, by %s", user_text(user));
    options.dry_run = !all.done;
    options.ns = option_text(cli, "ns");
    options.by = by;
    options.each = tell_restored;
    options.argument = cli;
    enum hf_status status = hf_store_restored(cli->handle, &options, &all.report, &cli->error);
    all.until_ms = env_wall(cli->env).us / 1000 + all.report.barrier_ms;
    if (status == HF_OK && !cli->json)
        record_tell(cli, restored_all_record, &all, RESTORED_ALL_TEXT);
    return status;
}

struct repaired {
    struct hf_store_epoch_info info;
    bool rebuilt;
    const char *found;
};

const struct field repaired_epoch_record[] = REPAIRED_EPOCH_RECORD;

static bool tell_repaired(void *argument, const struct hf_store_epoch_info *info)
{
    bool raised = info->known && info->epoch > info->epoch_before;
    struct repaired repaired = { *info, !info->known || raised, "it was never written" };
    if (info->lost)
        repaired.found = "it was lost";
    else if (raised)
        repaired.found = "it was too low for tokens already granted";
    else if (info->known)
        repaired.found = "it was intact";
    record_tell(argument, repaired_epoch_record, &repaired, REPAIRED_EPOCH_TEXT);
    return true;
}

enum hf_status run_store_repair_epoch(struct cli *cli)
{
    return hf_store_repair_epoch(cli->handle, option_text(cli, "ns"), tell_repaired, cli,
                                 &cli->error);
}
