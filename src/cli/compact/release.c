/* SPDX-License-Identifier: Apache-2.0 */
/* release.c: `compact release`: releases paths that a partition has registered. */
#include "cli/compact/compact.h"
#include "cli/interrupt.h"

struct released_path {
    struct view path;
    struct hf_compact_release_report report;
};

const struct field released_path_record[] = RELEASED_PATH_RECORD;

enum hf_status run_compact_release(struct cli *cli)
{
    enum hf_status status = cli_open_partition(cli, /* options */ NULL);
    for (size_t i = 0; i < cli->argument_count && status == HF_OK; i++) {
        struct released_path told = { .path = cli_argument(cli, i),
                                      .report = HF_COMPACT_RELEASE_REPORT };
        status = interrupt_check(&cli->error);
        if (status == HF_OK)
            status =
                hf_compact_release(cli->compact, told.path.data, &told.report, &cli->error);
        if (status == HF_OK)
            record_tell(cli, released_path_record, &told, RELEASED_PATH_TEXT);
    }
    return status;
}
