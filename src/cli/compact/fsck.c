/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.c: `compact fsck`: compares the objects in the bucket with its catalogs. */
#include "cli/compact/compact.h"

#include <inttypes.h>

struct checking {
    struct cli *cli;
    struct gauge gauge;
    struct hf_fsck_report report;
    uint64_t findings[HF_FSCK_KIND_COUNT];
};

const struct field fsck_finding_record[] = FSCK_FINDING_RECORD;
static const struct field kind_record[] = KIND_RECORD;
const struct field fsck_report_record[] = FSCK_REPORT_RECORD;

/* "missing-object  data/...: the reason; can be quarantined" */
static bool print_finding(void *argument, const struct hf_fsck_finding *finding)
{
    struct checking *checking = argument;
    checking->findings[finding->kind]++;
    gauge_clear(&checking->gauge);
    record_show(checking->cli, fsck_finding_record, finding,
                "{kind<17} {key}: [{why}|{about}][; {repair}]\n");
    return true;
}

/* The total is passed as unknown, because the number of bytes to be read is not known in
 * advance. */
static bool show_checked(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                         uint64_t bytes_done)
{
    struct checking *checking = argument;
    (void)chunks_done;
    (void)chunks_total;
    return gauge_step(&checking->gauge, bytes_done, /* total */ 0);
}

/* Fails if findings are left unrepaired, because someone must look at them. */
enum hf_status run_compact_fsck(struct cli *cli)
{
    struct checking checking = { .cli = cli, .report = HF_FSCK_REPORT };
    const struct hf_fsck_report *report = &checking.report;
    struct hf_fsck_options options = HF_FSCK_OPTIONS;
    options.repair = cli_given(cli, "repair");
    options.shallow = cli_given(cli, "shallow");
    options.age_ms = option_ms(cli, "older-than", 0);
    if (cli_given(cli, "older-than") && options.age_ms == 0)
        options.age_ms = -1; /* for the library, 0 means the default age */
    options.scratch_folder = scratch_folder(cli);
    options.finding = print_finding;
    options.progress = show_checked;
    options.argument = &checking;
    gauge_start(&checking.gauge, cli, VIEW("fsck"));
    enum hf_status status = hf_compact_fsck(cli->client, option_text(cli, "partition"),
                                            &options, &checking.report, &cli->error);
    gauge_clear(&checking.gauge);
    if (status != HF_OK)
        return status;
    record_tell(cli, fsck_report_record, &checking, FSCK_REPORT_TEXT);
    uint64_t left = report->found - report->repaired;
    if (left == 0)
        return HF_OK;
    return error_set(&cli->error, HF_CORRUPT,
                     "%" PRIu64 " of %" PRIu64 " finding%s %s not repaired%s", left,
                     report->found, plural(report->found), left == 1 ? "was" : "were",
                     options.repair ? "" : "; --repair fixes what can be fixed");
}
