/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.c: `compact ingest`: adds files to a partition as chunks. Stdin, pipes, and objects given
 * by URL are copied to temporary files first. */
#include "cli/compact/compact.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/places.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_MS_DEFAULT  60000
#define WRITER_BYTES_MAX 64
#define ID_BYTES_MAX     1024

/* How many temporary files are open at a time. */
#define COPIES_MAX    64
#define COPY_PATH_MAX 32

struct ingesting {
    struct cli *cli;
    size_t faults;
    struct hf_compact_ingest_options options;
    struct hf_compact_ingest_report report; /* of all batches */
    struct hf_error first;                  /* the first failure */
    uint64_t bytes_before;                  /* of finished batches */
    struct gauge gauge;
    struct places places;
    /* A batch: files to ingest, and what the user calls them. */
    const char **paths, **names;
    size_t count;
    struct {
        int fd;
        char path[COPY_PATH_MAX];
    } copies[COPIES_MAX];
    size_t copy_count;
};

static bool show_ingested(void *argument, uint64_t files_done, uint64_t bytes_done)
{
    struct ingesting *ingesting = argument;
    (void)files_done;
    return gauge_step(&ingesting->gauge, ingesting->bytes_before + bytes_done, /* total */ 0);
}

const struct field ingested_record[] = INGESTED_RECORD;
static const struct field sum_record[] = SUM_RECORD; /* the totals, only as text */

/* Each file that could not be ingested is reported with its own reason. Without --json, only the
 * first few are shown. */
#define FAULTS_SHOWN 20

/* Shows an error, which already names the file. */
static void report_fault(struct ingesting *ingesting, const struct hf_error *why)
{
    struct cli *cli = ingesting->cli;
    if (ingesting->first.status == HF_OK)
        ingesting->first = *why;
    if (interrupted())
        return;
    if (ingesting->faults++ < FAULTS_SHOWN || cli->json)
        cli_report(cli, (struct view){ NULL, 0 }, why);
    cli->reported = true;
}

/* The name that the user has given for a file of the batch. */
static const char *name_of_path(const struct ingesting *ingesting, const char *path)
{
    for (size_t i = 0; i < ingesting->count; i++)
        if (ingesting->paths[i] == path)
            return ingesting->names[i];
    return path;
}

/* Writes the name in place of the path of a temporary file. */
static void put_name_in(struct hf_error *error, const char *path, const char *name)
{
    char before[HF_WHY_MAX];
    const char *at = path == name ? NULL : strstr(error->why, path);
    if (!at)
        return;
    snprintf(before, sizeof before, "%.*s", (int)(at - error->why), error->why);
    error_set(error, error->status, "%s%.*s%s", before, ERROR_PATH_MAX, name,
              at + strlen(path));
}

static bool tell_file(void *argument, const struct hf_compact_ingested *file)
{
    struct ingesting *ingesting = argument;
    struct hf_compact_ingested told = *file;
    told.source = name_of_path(ingesting, file->source);
    gauge_clear(&ingesting->gauge);
    if (file->status == HF_OK) {
        record_tell(ingesting->cli, ingested_record, &told, NULL);
        return true;
    }
    struct hf_error why;
    error_set(&why, file->status, "%s", file->why);
    put_name_in(&why, file->source, told.source);
    report_fault(ingesting, &why);
    return true;
}

/* ---- Batches ------------------------------------------------------------------------- */

static void add_report(struct hf_compact_ingest_report *sum,
                       const struct hf_compact_ingest_report *part)
{
    sum->added += part->added;
    sum->already += part->already;
    sum->failed += part->failed;
    sum->bytes += part->bytes;
    sum->rows += part->rows;
    sum->malformed += part->malformed;
}

/* Ingests the batch, and closes its temporary files. */
static void ingest_batch(struct ingesting *ingesting)
{
    struct hf_compact_ingest_report report = HF_COMPACT_INGEST_REPORT;
    struct hf_error error;
    enum hf_status status = HF_OK;
    if (ingesting->count > 0) {
        gauge_start(&ingesting->gauge, ingesting->cli, VIEW("ingest"));
        status = hf_compact_ingest(ingesting->cli->compact, ingesting->paths, ingesting->count,
                                   &ingesting->options, &report, &error);
        gauge_clear(&ingesting->gauge);
    }
    if (status != HF_OK && ingesting->first.status == HF_OK)
        ingesting->first = error; /* it concerns no single file */
    add_report(&ingesting->report, &report);
    ingesting->bytes_before += report.bytes;
    for (size_t i = 0; i < ingesting->copy_count; i++)
        close(ingesting->copies[i].fd);
    ingesting->count = ingesting->copy_count = 0;
}

static bool must_be_copied(struct cli *cli, const char *name)
{
    struct stat info;
    return place_is_object(cli, name) || is_stdin(name) ||
           (stat(name, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

/* Copies an argument to a temporary file. */
static enum hf_status copy_argument(struct ingesting *ingesting, const char *name,
                                    const char **ret_path)
{
    size_t copy = ingesting->copy_count;
    int fd = -1;
    enum hf_status status =
        place_is_object(ingesting->cli, name)
            ? place_fetch(&ingesting->places, name, &fd)
            : source_take(ingesting->cli, name, view_of(is_stdin(name) ? "stdin" : name), &fd);
    if (status != HF_OK)
        return status;
    ingesting->copies[copy].fd = fd;
    snprintf(ingesting->copies[copy].path, COPY_PATH_MAX, "/proc/self/fd/%d", fd);
    ingesting->copy_count++;
    *ret_path = ingesting->copies[copy].path;
    return HF_OK;
}

/* Adds an argument to the batch. An argument that cannot be read is reported; the others are still
 * ingested. */
static void ingest_argument(struct ingesting *ingesting, const char *name)
{
    const char *path = name;
    bool is_copied = must_be_copied(ingesting->cli, name);
    if (is_copied && ingesting->copy_count == COPIES_MAX)
        ingest_batch(ingesting);
    if (is_copied && copy_argument(ingesting, name, &path) != HF_OK) {
        ingesting->report.failed++;
        report_fault(ingesting, &ingesting->cli->error);
        return;
    }
    ingesting->paths[ingesting->count] = path;
    ingesting->names[ingesting->count++] = is_stdin(name) ? "stdin" : name;
}

/* Stdin can be read only once, and a URL must name an object. Nothing is read before this is
 * checked. */
static enum hf_status check_ingest_arguments(struct cli *cli)
{
    size_t stdins = 0;
    for (size_t i = 0; i < cli->argument_count; i++) {
        const char *name = cli->arguments[i];
        if (place_is_object(cli, name) && place_check(cli, name) != HF_OK)
            return cli->error.status;
        stdins += is_stdin(name);
    }
    if (stdins > 1)
        return cli_invalid(cli, "'-' was given twice, but stdin can be read only once");
    return HF_OK;
}

/* ---- The command --------------------------------------------------------------------- */

/* --writer is the host name by default; `host` is space for it. */
static enum hf_status take_ingest_options(struct cli *cli, char host[WRITER_BYTES_MAX + 1],
                                          struct hf_compact_ingest_options *options)
{
    options->id = option_text(cli, "id");
    options->writer = option_text(cli, "writer");
    options->wait_ms = option_ms(cli, "wait", WAIT_MS_DEFAULT);
    if (options->writer && (!options->writer[0] || strlen(options->writer) > WRITER_BYTES_MAX))
        return cli_invalid(cli, "--writer must be 1 to %d bytes long", WRITER_BYTES_MAX);
    if (!options->writer && (gethostname(host, WRITER_BYTES_MAX) != 0 || !host[0]))
        snprintf(host, WRITER_BYTES_MAX + 1, "unknown");
    if (!options->writer)
        options->writer = host;
    if (options->id && (!options->id[0] || strlen(options->id) > ID_BYTES_MAX))
        return cli_invalid(cli, "--id must be 1 to %d bytes long", ID_BYTES_MAX);
    if (options->id && cli->argument_count != 1)
        return cli_invalid(
            cli,
            "--id identifies one file, but %zu files were given; ingest them one at a time",
            cli->argument_count);
    return check_ingest_arguments(cli);
}

static enum hf_status ingest_arguments(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->cli;
    size_t count = cli->argument_count, given = 0;
    ingesting->paths = arena_take(&cli->arena, count * sizeof *ingesting->paths);
    ingesting->names = arena_take(&cli->arena, count * sizeof *ingesting->names);
    if (!ingesting->paths || !ingesting->names)
        return error_no_memory(&cli->error);
    while (given < count && !interrupted())
        ingest_argument(ingesting, cli->arguments[given++]);
    ingest_batch(ingesting);
    places_close(&ingesting->places);
    if (given < count && ingesting->first.status == HF_OK)
        interrupt_check(&ingesting->first); /* the other files were not ingested */
    cli->error = ingesting->first;
    return cli->error.status;
}

enum hf_status run_compact_ingest(struct cli *cli)
{
    struct ingesting ingesting = { .cli = cli,
                                   .options = HF_COMPACT_INGEST_OPTIONS,
                                   .report = HF_COMPACT_INGEST_REPORT,
                                   .places = { .cli = cli } };
    char host[WRITER_BYTES_MAX + 1] = "";
    enum hf_status status = take_ingest_options(cli, host, &ingesting.options);
    if (status == HF_OK)
        status = cli_open_partition(cli, /* options */ NULL);
    if (status != HF_OK)
        return status;
    ingesting.options.each = tell_file;
    ingesting.options.progress = show_ingested;
    ingesting.options.argument = &ingesting;
    status = ingest_arguments(&ingesting);
    if (ingesting.faults > FAULTS_SHOWN && !cli->json)
        fprintf(stderr, "holdfast: compact ingest: and %zu more file%s\n",
                ingesting.faults - FAULTS_SHOWN, plural(ingesting.faults - FAULTS_SHOWN));
    if (!cli->json && ingesting.faults < cli->argument_count)
        record_tell(cli, sum_record, &ingesting.report, SUM_TEXT);
    return status;
}
