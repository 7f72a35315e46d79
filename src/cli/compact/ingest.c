/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.c: `compact ingest`: adds local files to a partition as chunks. */
#include "cli/compact/compact.h"
#include "cli/interrupt.h"

#include <stdio.h>
#include <unistd.h>

#define WAIT_MS_DEFAULT  60000
#define WRITER_BYTES_MAX 64
#define ID_BYTES_MAX     1024

struct ingesting {
    struct cli *cli;
    size_t faults;
    struct hf_compact_ingest_report report;
    struct gauge gauge;
};

static bool show_ingested(void *argument, uint64_t files_done, uint64_t bytes_done)
{
    struct ingesting *ingesting = argument;
    (void)files_done;
    return gauge_step(&ingesting->gauge, bytes_done, /* total */ 0);
}

const struct field ingested_record[] = INGESTED_RECORD;
static const struct field sum_record[] = SUM_RECORD; /* the totals, only as text */

/* Each file that could not be ingested is reported with its own reason. Without --json, only the
 * first few are shown. */
#define FAULTS_SHOWN 20

static bool tell_file(void *argument, const struct hf_compact_ingested *file)
{
    struct ingesting *ingesting = argument;
    struct cli *cli = ingesting->cli;
    gauge_clear(&ingesting->gauge);
    if (file->status == HF_OK) {
        record_tell(cli, ingested_record, file, NULL);
    } else if (!interrupted()) {
        struct hf_error why;
        error_set(&why, file->status, "%s", file->why);
        if (ingesting->faults++ < FAULTS_SHOWN || cli->json)
            cli_report(cli, (struct view){ NULL, 0 }, &why); /* `why` names the file */
        cli->reported = true;
    }
    return true;
}

/* --writer is the host name by default. */
enum hf_status run_compact_ingest(struct cli *cli)
{
    struct ingesting ingesting = { .cli = cli, .report = HF_COMPACT_INGEST_REPORT };
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    char host[WRITER_BYTES_MAX + 1] = "";
    options.id = option_text(cli, "id");
    options.writer = option_text(cli, "writer");
    if (options.writer && (!options.writer[0] || strlen(options.writer) > WRITER_BYTES_MAX))
        return cli_invalid(cli, "--writer must be 1 to %d bytes long", WRITER_BYTES_MAX);
    if (!options.writer && (gethostname(host, WRITER_BYTES_MAX) != 0 || !host[0]))
        snprintf(host, sizeof host, "unknown");
    if (!options.writer)
        options.writer = host;
    if (options.id && (!options.id[0] || strlen(options.id) > ID_BYTES_MAX))
        return cli_invalid(cli, "--id must be 1 to %d bytes long", ID_BYTES_MAX);
    if (options.id && cli->argument_count != 1)
        return cli_invalid(
            cli,
            "--id identifies one file, but %zu files were given; ingest them one at a time",
            cli->argument_count);
    options.wait_ms = option_ms(cli, "wait", WAIT_MS_DEFAULT);
    options.each = tell_file;
    options.progress = show_ingested;
    options.argument = &ingesting;
    enum hf_status status = cli_open_partition(cli, /* options */ NULL);
    if (status != HF_OK)
        return status;
    gauge_start(&ingesting.gauge, cli, VIEW("ingest"));
    status = hf_compact_ingest(cli->compact, cli->arguments, cli->argument_count, &options,
                               &ingesting.report, &cli->error);
    gauge_clear(&ingesting.gauge);
    if (ingesting.faults > FAULTS_SHOWN && !cli->json)
        fprintf(stderr, "holdfast: compact ingest: and %zu more file%s\n",
                ingesting.faults - FAULTS_SHOWN, plural(ingesting.faults - FAULTS_SHOWN));
    if (!cli->json && ingesting.faults < cli->argument_count)
        record_tell(cli, sum_record, &ingesting.report, SUM_TEXT);
    return status;
}
