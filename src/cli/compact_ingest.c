/* compact_ingest.c: `compact ingest`: files become chunks. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/interrupt.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define WAIT_DEFAULT     SPAN_S(60)
#define WRITER_BYTES_MAX 64

struct ingesting {
    struct desk desk;
    size_t faults;
    struct hf_compact_ingest_report report;
    struct gauge gauge;
    char writer[WRITER_BYTES_MAX + 1];
};

static bool go_on(void *argument, uint64_t files_done, uint64_t bytes_done)
{
    struct ingesting *ingesting = argument;
    (void)files_done;
    return gauge_step(&ingesting->gauge, bytes_done, /* total */ 0);
}

/* The host is the source of files, unless somebody knows better. */
static enum hf_status take_writer(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->desk.cli;
    const struct option_value *value = cli_option(cli, "writer");
    if (!value) {
        if (gethostname(ingesting->writer, WRITER_BYTES_MAX) != 0 || !ingesting->writer[0])
            snprintf(ingesting->writer, sizeof ingesting->writer, "unknown");
        return HF_OK;
    }
    if (value->text.size == 0 || value->text.size > WRITER_BYTES_MAX)
        return error_set(&cli->error, HF_INVALID, "--writer is a name of 1 to %d bytes",
                         WRITER_BYTES_MAX);
    memcpy(ingesting->writer, value->text.data, value->text.size);
    return HF_OK;
}

#define ID_BYTES_MAX 1024

static enum hf_status check_id(struct cli *cli)
{
    const struct option_value *value = cli_option(cli, "id");
    if (!value)
        return HF_OK;
    if (value->text.size == 0 || value->text.size > ID_BYTES_MAX)
        return error_set(&cli->error, HF_INVALID, "--id takes a name of 1 to %d bytes",
                         ID_BYTES_MAX);
    if (cli->argument_count != 1)
        return error_set(&cli->error, HF_INVALID,
                         "--id is the identity of one file, and %zu are given: ingest them "
                         "one by one",
                         cli->argument_count);
    return HF_OK;
}

/* ---- Telling ------------------------------------------------------------------------- */

static json_t *file_as_json(const struct hf_compact_ingested *file)
{
    json_t *object = json_object();
    json_add_key(&object, "path", view_of(file->source));
    json_add_bool(&object, "already_there", file->already);
    if (file->already)
        json_add(&object, "key", json_null());
    else
        json_add_key(&object, "key", view_of(file->key));
    json_add_count(&object, "size_bytes", file->size);
    json_add_count(&object, "rows", file->rows);
    json_add_count(&object, "malformed", file->malformed);
    return object;
}

static void tell_sum(struct cli *cli, const struct hf_compact_ingest_report *report)
{
    char size[SIZE_TEXT_MAX];
    output_text(&cli->out, "ingested ");
    output_count(&cli->out, report->added, "file");
    output_print(&cli->out, ": %" PRIu64 " row%s, %s", report->rows, plural(report->rows),
                 size_text(report->bytes, size));
    if (report->malformed > 0)
        output_print(&cli->out, ", %" PRIu64 " of the rows malformed", report->malformed);
    if (report->already > 0) {
        output_text(&cli->out, "; ");
        output_count(&cli->out, report->already, "file");
        output_text(&cli->out,
                    report->already == 1 ? " was already there" : " were already there");
    }
    output_text(&cli->out, "\n");
}

/* Files that were left are told one by one, since each may have a reason of its own; people are
 * spared the rest when there are many. */
#define FAULTS_SHOWN 20

static bool tell_file(void *argument, const struct hf_compact_ingested *file)
{
    struct ingesting *ingesting = argument;
    struct cli *cli = ingesting->desk.cli;
    gauge_clear(&ingesting->gauge);
    if (file->status == HF_OK) {
        if (cli->json)
            output_json(&cli->out, file_as_json(file));
    } else if (!interrupted()) {
        struct hf_error why;
        error_set(&why, file->status, "%s", file->why);
        if (ingesting->faults++ < FAULTS_SHOWN || cli->json)
            cli_report(cli, (struct view){ NULL, 0 }, &why); /* which names the file */
        cli->reported = true;
    }
    return true;
}

static void tell_end(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->desk.cli;
    size_t faults = ingesting->faults;
    if (faults > FAULTS_SHOWN && !cli->json)
        fprintf(stderr, "holdfast: compact ingest: and %zu file%s more\n",
                faults - FAULTS_SHOWN, plural(faults - FAULTS_SHOWN));
    if (!cli->json && !cli->quiet && faults < cli->argument_count)
        tell_sum(cli, &ingesting->report);
}

enum hf_status run_compact_ingest(struct cli *cli)
{
    struct ingesting ingesting = { .desk = { .cli = cli }, .report = HF_COMPACT_INGEST_REPORT };
    struct hf_compact_ingest_options options = HF_COMPACT_INGEST_OPTIONS;
    enum hf_status status = take_writer(&ingesting);
    if (status == HF_OK)
        status = check_id(cli);
    if (status != HF_OK)
        return status;
    options.writer = ingesting.writer;
    options.id = option_text(cli, "id");
    options.wait_ms = cli_span(cli, "wait", WAIT_DEFAULT).us / 1000;
    options.each = tell_file;
    options.progress = go_on;
    options.argument = &ingesting;
    status = desk_open(&ingesting.desk, cli);
    if (status == HF_OK) {
        gauge_start(&ingesting.gauge, cli, VIEW("ingest"));
        status = hf_compact_ingest(ingesting.desk.compact, cli->arguments, cli->argument_count,
                                   &options, &ingesting.report, &cli->error);
        gauge_clear(&ingesting.gauge);
        tell_end(&ingesting);
    }
    desk_close(&ingesting.desk);
    return status;
}
