/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c: `store upgrade`: adds a checksum to every document that has none, and keeps programs
 * that write none from writing. `--undo` lets them write again. */
#include "cli/interrupt.h"
#include "cli/output/progress.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

#include <inttypes.h>

struct upgrading {
    struct cli *cli;
    struct gauge gauge;
    struct hf_store_upgrade_report report;
    bool done; /* false: a dry run */
};

/* A document that has got a checksum, or would get one. */
struct upgraded_document {
    const char *key;
    size_t key_size;
    bool done;
};

const struct field upgraded_document_record[] = UPGRADED_DOCUMENT_RECORD;
const struct field upgrade_report_record[] = UPGRADE_REPORT_RECORD;

static bool print_upgraded(void *argument, const char *key, size_t key_size)
{
    struct upgrading *upgrading = argument;
    struct upgraded_document document = { key, key_size, upgrading->done };
    gauge_clear(&upgrading->gauge);
    record_tell(upgrading->cli, upgraded_document_record, &document,
                "[{done?}added a checksum|would add a checksum]: {key}\n");
    return !interrupted();
}

static bool show_upgraded(void *argument, const struct hf_store_scrub_report *report)
{
    struct upgrading *upgrading = argument;
    if (gauge_is_due(&upgrading->gauge))
        gauge_say(&upgrading->gauge, "upgrade  %" PRIu64 " documents", report->documents);
    return !interrupted();
}

enum hf_status run_store_upgrade(struct cli *cli)
{
    struct upgrading upgrading = { .cli = cli,
                                   .report = HF_STORE_UPGRADE_REPORT,
                                   .done = !cli_given(cli, "dry-run") };
    struct hf_store_upgrade_options options = HF_STORE_UPGRADE_OPTIONS;
    options.dry_run = !upgrading.done;
    options.undo = cli_given(cli, "undo");
    options.each = print_upgraded;
    options.progress = show_upgraded;
    options.argument = &upgrading;
    gauge_start(&upgrading.gauge, cli, VIEW("upgrade"));
    enum hf_status status =
        hf_store_upgrade(cli->handle, &options, &upgrading.report, &cli->error);
    gauge_clear(&upgrading.gauge);
    if (status == HF_OK)
        record_tell(cli, upgrade_report_record, &upgrading, UPGRADE_REPORT_TEXT);
    return status == HF_CANCELLED ? interrupt_check(&cli->error) : status;
}
