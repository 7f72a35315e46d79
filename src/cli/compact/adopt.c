/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.c: `compact adopt`: adds objects that are in the bucket to a partition, where they are. */
#include "cli/compact/compact.h"
#include "cli/interrupt.h"

#include <stdio.h>
#include <unistd.h>

#define WAIT_MS_DEFAULT  60000
#define WRITER_BYTES_MAX 64

struct adopting {
    struct cli *cli;
    size_t faults;
    struct hf_compact_adopt_report report;
    struct gauge gauge;
};

static bool show_adopted(void *argument, uint64_t objects_done, uint64_t bytes_done)
{
    struct adopting *adopting = argument;
    (void)objects_done;
    return gauge_step(&adopting->gauge, bytes_done, /* total */ 0);
}

const struct field adopted_record[] = ADOPTED_RECORD;
static const struct field adopted_sum_record[] = ADOPTED_SUM_RECORD; /* totals, only as text */

/* Without --json, only the first few failures are shown. */
#define FAULTS_SHOWN 20

static bool tell_adopted(void *argument, const struct hf_compact_ingested *object)
{
    struct adopting *adopting = argument;
    struct cli *cli = adopting->cli;
    gauge_clear(&adopting->gauge);
    if (object->status == HF_OK) {
        record_tell(cli, adopted_record, object, NULL);
    } else if (!interrupted()) {
        struct hf_error why;
        error_set(&why, object->status, "%s", object->why);
        if (adopting->faults++ < FAULTS_SHOWN || cli->json)
            cli_report(cli, (struct view){ NULL, 0 }, &why); /* `why` names the object */
        cli->reported = true;
    }
    return true;
}

/* --writer is the host name by default. */
enum hf_status run_compact_adopt(struct cli *cli)
{
    struct adopting adopting = { .cli = cli, .report = HF_COMPACT_ADOPT_REPORT };
    struct hf_compact_adopt_options options = HF_COMPACT_ADOPT_OPTIONS;
    struct hf_compact_options folder = HF_COMPACT_OPTIONS;
    char host[WRITER_BYTES_MAX + 1] = "";
    options.own = cli_given(cli, "own");
    options.manifest = option_text(cli, "manifest");
    options.writer = option_text(cli, "writer");
    if (options.writer && (!options.writer[0] || strlen(options.writer) > WRITER_BYTES_MAX))
        return cli_invalid(cli, "--writer must be 1 to %d bytes long", WRITER_BYTES_MAX);
    if (!options.writer && (gethostname(host, WRITER_BYTES_MAX) != 0 || !host[0]))
        snprintf(host, sizeof host, "unknown");
    if (!options.writer)
        options.writer = host;
    options.wait_ms = option_ms(cli, "wait", WAIT_MS_DEFAULT);
    options.each = tell_adopted;
    options.progress = show_adopted;
    options.argument = &adopting;
    folder.scratch_folder = scratch_folder(cli);
    enum hf_status status = cli_open_partition(cli, &folder);
    if (status != HF_OK)
        return status;
    gauge_start(&adopting.gauge, cli, VIEW("adopt"));
    status = hf_compact_adopt(cli->compact, cli->arguments, cli->argument_count, &options,
                              &adopting.report, &cli->error);
    gauge_clear(&adopting.gauge);
    if (adopting.faults > FAULTS_SHOWN && !cli->json)
        fprintf(stderr, "holdfast: compact adopt: and %zu more object%s\n",
                adopting.faults - FAULTS_SHOWN, plural(adopting.faults - FAULTS_SHOWN));
    if (!cli->json && (status == HF_OK || adopting.report.added + adopting.report.already > 0))
        record_tell(cli, adopted_sum_record, &adopting.report, ADOPTED_SUM_TEXT);
    return status;
}
