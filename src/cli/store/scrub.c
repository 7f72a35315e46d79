/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.c: `store scrub`: reads every document and object of a store, and compares checksums. */
#include "cli/interrupt.h"
#include "cli/output/progress.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

#include "base/parse.h"

#include <inttypes.h>

#define RATE_DEFAULT ((uint64_t)32 * 1024 * 1024)

struct scrubbing {
    struct cli *cli;
    struct gauge gauge;
    struct hf_store_scrub_report report;
    uint64_t unsealed; /* documents that should have a checksum */
};

const struct field scrub_finding_record[] = SCRUB_FINDING_RECORD;
const struct field scrub_report_record[] = SCRUB_REPORT_RECORD;

/* "damaged     default/meta/deploy.json: its checksum does not match its bytes" */
static bool print_scrub_finding(void *argument, const struct hf_scrub_finding *finding)
{
    struct scrubbing *scrubbing = argument;
    scrubbing->unsealed += finding->kind == HF_SCRUB_UNSEALED;
    gauge_clear(&scrubbing->gauge);
    record_show(scrubbing->cli, scrub_finding_record, finding,
                "{kind<11} {key}: [{why}|{about}]\n");
    return true;
}

static bool show_scrubbed(void *argument, const struct hf_store_scrub_report *report)
{
    struct scrubbing *scrubbing = argument;
    if (gauge_is_due(&scrubbing->gauge))
        gauge_say(&scrubbing->gauge,
                  "scrub  %" PRIu64 " objects  %" PRIu64 " MiB  now after %.40s",
                  report->objects, report->bytes_read >> 20, report->position);
    return !interrupted();
}

/* Damage is worse than a document that only this version does not know. */
static enum hf_status judge_scrub(struct cli *cli, const struct scrubbing *scrubbing)
{
    const struct hf_store_scrub_report *report = &scrubbing->report;
    uint64_t bad = report->damaged + report->missing + report->unreadable;
    uint64_t strange = report->too_new + report->unknown;
    if (bad > 0)
        return error_set(&cli->error, HF_CORRUPT,
                         "%" PRIu64 " object%s %s damaged, missing or unreadable; "
                         "docs/recovery.md says what to do",
                         bad, plural(bad), bad == 1 ? "is" : "are");
    if (scrubbing->unsealed > 0)
        return error_set(&cli->error, HF_CORRUPT,
                         "%" PRIu64 " document%s no checksum; 'holdfast store upgrade' adds it",
                         scrubbing->unsealed, scrubbing->unsealed == 1 ? " has" : "s have");
    if (strange > 0)
        return error_set(&cli->error, HF_UNSUPPORTED,
                         "this version does not know %" PRIu64
                         " object%s in folders of Holdfast",
                         strange, plural(strange));
    return HF_OK;
}

enum hf_status run_store_scrub(struct cli *cli)
{
    struct scrubbing scrubbing = { .cli = cli, .report = HF_STORE_SCRUB_REPORT };
    struct hf_store_scrub_report *report = &scrubbing.report;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    options.prefix = cli->argument_count > 0 ? cli->arguments[0] : NULL;
    options.after = option_text(cli, "after");
    options.documents = cli_given(cli, "documents");
    options.rate_max = option_number(cli, "rate", RATE_DEFAULT);
    options.bytes_max = option_number(cli, "max-bytes", 0);
    options.finding = print_scrub_finding;
    options.progress = show_scrubbed;
    options.argument = &scrubbing;
    gauge_start(&scrubbing.gauge, cli, VIEW("scrub"));
    enum hf_status status = hf_store_scrub(cli->handle, &options, report, &cli->error);
    gauge_clear(&scrubbing.gauge);
    if (status == HF_OK || status == HF_CANCELLED)
        record_tell(cli, scrub_report_record, report, SCRUB_REPORT_TEXT);
    if (status == HF_CANCELLED)
        status = interrupt_check(&cli->error);
    return status == HF_OK ? judge_scrub(cli, &scrubbing) : status;
}
