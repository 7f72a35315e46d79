/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c: `compact drop`: removes a partition, or shows what would be removed. */
#include "cli/compact/compact.h"
#include "cli/interrupt.h"

struct dropped {
    struct view partition;
    bool dry_run;
    struct hf_compact_drop_report report;
};

const struct field compact_drop_record[] = COMPACT_DROP_RECORD;

static bool drop_is_wanted(void *argument)
{
    (void)argument;
    return !interrupted();
}

enum hf_status run_compact_drop(struct cli *cli)
{
    struct dropped dropped = { .partition = cli_argument(cli, 0),
                               .dry_run = cli_given(cli, "dry-run"),
                               .report = HF_COMPACT_DROP_REPORT };
    struct hf_compact_drop_options options = HF_COMPACT_DROP_OPTIONS;
    options.dry_run = dropped.dry_run;
    options.progress = drop_is_wanted;
    enum hf_status status = cli_open_named(cli, dropped.partition.data, /* options */ NULL);
    if (status == HF_OK)
        status = partition_end(cli, hf_compact_drop(cli->compact, &options, &dropped.report,
                                                    &cli->error));
    if (status == HF_OK)
        record_tell(cli, compact_drop_record, &dropped, COMPACT_DROP_TEXT);
    return status;
}
