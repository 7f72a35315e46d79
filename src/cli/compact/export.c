/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: `compact cat` and `compact export`: read a partition as it is now, or list the objects
 * of a snapshot for other programs. */
#include "base/instant.h"
#include "cli/compact/compact.h"
#include "cli/files.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* How long the objects of --list stay pinned. */
#define LIST_TTL_MS INT64_C(3600000)

struct exporting {
    struct cli *cli;
    struct hf_compact_reader *reader;
    struct hf_compact_export_options options;
    struct hf_compact_export_report report;
    struct gauge gauge;
};

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status take_time_option(struct cli *cli, const char *name, int64_t *ms)
{
    const char *text = option_text(cli, name);
    struct instant instant;
    if (!text)
        return HF_OK;
    if (!instant_parse(view_of(text), &instant))
        return cli_invalid(cli,
                           "--%s takes a time such as 2026-02-06T10:00:00Z, or a number since "
                           "1970, not '%.40s'",
                           name, text);
    *ms = instant_ms(instant);
    return HF_OK;
}

static bool show_exported(void *argument, const struct hf_compact_export_progress *progress)
{
    struct exporting *exporting = argument;
    return gauge_step(&exporting->gauge, progress->bytes_done, progress->bytes_total);
}

static void remove_unfinished_export(void *argument, enum hf_merge_part part, const char *path)
{
    (void)argument;
    interrupt_removes((size_t)part, path);
}

/* The format given by --format or by the suffix of the output; otherwise the partition's. */
static enum hf_status take_export_format(struct exporting *exporting, const char *output)
{
    struct cli *cli = exporting->cli;
    const char *format = option_text(cli, "format");
    enum hf_index_format named;
    struct view name = output ? view_of(output) : VIEW("");
    if (view_ends_with(name, VIEW(".gz")) || view_ends_with(name, VIEW(".zst")))
        name.size -= view_ends_with(name, VIEW(".gz")) ? 3 : 4;
    struct view path = arena_copy(&cli->arena, name);
    if (!path.data)
        return error_no_memory(&cli->error);
    if (!format && view_ends_with(path, VIEW(".parquet")))
        format = hf_merge_format_name(HF_MERGE_PARQUET);
    if (!format && hf_index_format_of_path(path.data, &named))
        format = hf_index_format_name(named);
    if (!format)
        return HF_OK;
    exporting->options.convert = true;
    return hf_merge_format_parse(format, &exporting->options.format, &cli->error);
}

static enum hf_status take_export_options(struct exporting *exporting)
{
    struct cli *cli = exporting->cli;
    struct hf_compact_export_options *options = &exporting->options;
    options->key_prefix = option_text(cli, "prefix");
    options->skip_quarantined = cli_given(cli, "skip-quarantined");
    options->progress = show_exported;
    options->unfinished = remove_unfinished_export;
    options->argument = exporting;
    enum hf_status status = take_time_option(cli, "since", &options->since_ms);
    if (status == HF_OK)
        status = take_time_option(cli, "until", &options->until_ms);
    if (status == HF_OK && options->since_ms > options->until_ms)
        return cli_invalid(cli, "--since must not be after --until");
    return status;
}

/* Opens the partition, and takes the snapshot. */
static enum hf_status open_reader(struct exporting *exporting, int64_t ttl_ms)
{
    struct cli *cli = exporting->cli;
    struct hf_compact_options partition = HF_COMPACT_OPTIONS;
    struct hf_compact_reader_options options = HF_COMPACT_READER_OPTIONS;
    partition.scratch_folder = scratch_folder(cli);
    options.ttl_ms = ttl_ms;
    enum hf_status status = cli_open_partition(cli, &partition);
    if (status == HF_OK)
        status = partition_end(cli, hf_compact_reader_open(cli->compact, &options,
                                                           &exporting->reader, &cli->error));
    return status;
}

static enum hf_status export_to(struct exporting *exporting, const struct hf_merge_file *output)
{
    struct cli *cli = exporting->cli;
    gauge_start(&exporting->gauge, cli, VIEW("export"));
    enum hf_status status =
        hf_compact_reader_export(exporting->reader, output, &exporting->options,
                                 &exporting->report, &cli->error);
    gauge_clear(&exporting->gauge);
    /* As in other filters, SIGPIPE ends the program if the reader of stdout is gone. */
    if (status == HF_CANCELLED && !output->path && !interrupted())
        cli->out.failed_errno = EPIPE;
    return status;
}

/* ---- cat ----------------------------------------------------------------------------- */

enum hf_status run_compact_cat(struct cli *cli)
{
    struct exporting exporting = { .cli = cli,
                                   .options = HF_COMPACT_EXPORT_OPTIONS,
                                   .report = HF_COMPACT_EXPORT_REPORT };
    const struct hf_merge_file output = { NULL, STDOUT_FILENO };
    const char *format = option_text(cli, "format");
    if (cli->json && format && strcmp(format, "ndjson") != 0)
        return cli_invalid(cli, "--json and --format %s cannot be used together", format);
    exporting.options.convert = cli->json;
    exporting.options.format = HF_MERGE_NDJSON;
    enum hf_status status = take_export_options(&exporting);
    if (status == HF_OK)
        status = take_export_format(&exporting, /* output */ NULL);
    if (status == HF_OK)
        status = open_reader(&exporting, /* ttl_ms */ 0);
    if (status == HF_OK)
        status = export_to(&exporting, &output);
    hf_compact_reader_close(exporting.reader);
    return status;
}

/* ---- export -------------------------------------------------------------------------- */

struct partition_export {
    const char *output;
    struct view partition;
    struct hf_compact_export_report report;
};

const struct field partition_export_record[] = PARTITION_EXPORT_RECORD;

static enum hf_status export_records(struct exporting *exporting, const char *path)
{
    struct cli *cli = exporting->cli;
    struct hf_merge_file output = { path, -1 };
    bool stream = is_stdout(path);
    if (stream) {
        output = (struct hf_merge_file){ NULL, STDOUT_FILENO };
    } else {
        enum hf_status status = target_is_stream(cli, view_of(path), &stream);
        if (status == HF_OK && stream)
            status = target_open_stream(cli, path, &output.fd);
        if (status != HF_OK)
            return status;
        output.path = stream ? NULL : path;
    }
    enum hf_status status = open_reader(exporting, /* ttl_ms */ 0);
    if (status == HF_OK)
        status = export_to(exporting, &output);
    if (stream && output.fd != STDOUT_FILENO)
        close(output.fd);
    if (status != HF_OK)
        return status;
    struct partition_export done = { path, partition_option(cli), exporting->report };
    if (!is_stdout(path))
        record_tell(cli, partition_export_record, &done, PARTITION_EXPORT_TEXT);
    else if (cli->json)
        write_error_line(record_json(partition_export_record, &done));
    return HF_OK;
}

/* ---- export --list ------------------------------------------------------------------- */

struct snapshot_object {
    struct hf_chunk_info chunk;
    const char *key; /* of the object */
    const char *etag;
};

/* The leases of the snapshot, for the last line. */
struct snapshot_leases {
    struct cli *cli;
    uint64_t objects, size_bytes;
    int64_t ttl_ms;
    const char **leases;
    size_t lease_count;
    bool no_memory;
};

const struct field snapshot_object_record[] = SNAPSHOT_OBJECT_RECORD;
const struct field snapshot_leases_record[] = SNAPSHOT_LEASES_RECORD;

/* Reads one byte of an object, for its ETag. The catalog knows the ETag of an adopted object, which
 * has a key of its own. */
static enum hf_status print_object(struct cli *cli, const struct hf_chunk_info *chunk)
{
    struct hf_store_get_options options = HF_STORE_GET_OPTIONS;
    struct hf_object_info info = HF_OBJECT_INFO;
    bool adopted = chunk->object[0] != '\0';
    void *bytes = NULL;
    size_t size;
    options.length = 1;
    enum hf_status status = HF_OK;
    if (!adopted)
        status = hf_store_get(hf_client_store(cli->client), chunk->key, /* size_max */ 1,
                              &options, &bytes, &size, &info, &cli->error);
    hf_free(bytes);
    if (status != HF_OK)
        return status;
    const struct snapshot_object object = { *chunk, adopted ? chunk->object : chunk->key,
                                            adopted ? chunk->etag : info.etag };
    record_show(cli, snapshot_object_record, &object,
                "{size_bytes>10} {rows>10} {etag<34} {key}[  quarantined: {quarantine}]\n");
    return interrupt_check(&cli->error);
}

static void note_lease(void *argument, const char *lease)
{
    struct snapshot_leases *kept = argument;
    struct view copy = arena_copy(&kept->cli->arena, view_of(lease));
    const char **leases =
        arena_take(&kept->cli->arena, (kept->lease_count + 1) * sizeof *leases);
    if (!copy.data || !leases) {
        kept->no_memory = true;
        return;
    }
    if (kept->lease_count > 0)
        memcpy(leases, kept->leases, kept->lease_count * sizeof *leases);
    leases[kept->lease_count++] = copy.data;
    kept->leases = leases;
}

/* On stdout there are only objects, so that other programs can read the list. */
static void print_leases(const struct snapshot_leases *kept)
{
    if (kept->cli->json) {
        record_show(kept->cli, snapshot_leases_record, kept, "");
        return;
    }
    for (size_t i = 0; i < kept->lease_count; i++)
        fprintf(stderr, "holdfast: pinned; to end this early: holdfast release '%s'\n",
                kept->leases[i]);
}

static enum hf_status list_objects(struct exporting *exporting)
{
    struct cli *cli = exporting->cli;
    struct snapshot_leases kept = { .cli = cli, .ttl_ms = option_ms(cli, "ttl", LIST_TTL_MS) };
    struct hf_chunk_info chunk = HF_CHUNK_INFO;
    enum hf_status status = open_reader(exporting, kept.ttl_ms);
    if (status != HF_OK)
        return status;
    while (status == HF_OK &&
           hf_compact_reader_next(exporting->reader, &chunk, &cli->error) == HF_OK) {
        kept.objects++;
        kept.size_bytes += chunk.size;
        status = print_object(cli, &chunk);
    }
    if (status == HF_OK)
        status = output_flush_or_undo(&cli->out, &cli->error);
    if (status != HF_OK)
        return status;
    status = hf_compact_reader_detach(exporting->reader, note_lease, &kept, &cli->error);
    exporting->reader = NULL;
    if (status == HF_OK && kept.no_memory)
        status = error_no_memory(&cli->error);
    if (status == HF_OK)
        print_leases(&kept);
    return status;
}

enum hf_status run_compact_export(struct cli *cli)
{
    struct exporting exporting = { .cli = cli,
                                   .options = HF_COMPACT_EXPORT_OPTIONS,
                                   .report = HF_COMPACT_EXPORT_REPORT };
    const char *output = option_text(cli, "output");
    bool list = cli_given(cli, "list");
    if (!output && !list)
        return cli_invalid(cli, "use --output FILE, or --list");
    if (output && !output[0])
        return cli_invalid(cli, "--output must not be empty");
    if (list &&
        (cli_given(cli, "format") || cli_given(cli, "prefix") || cli_given(cli, "since") ||
         cli_given(cli, "until") || cli_given(cli, "skip-quarantined")))
        return cli_invalid(cli,
                           "--list shows whole objects: it cannot filter or convert records");
    if (!list && cli_given(cli, "ttl"))
        return cli_invalid(cli, "--ttl applies to --list");
    enum hf_status status = take_export_options(&exporting);
    if (status == HF_OK && !list)
        status = take_export_format(&exporting, is_stdout(output) ? NULL : output);
    if (status == HF_OK)
        status = list ? list_objects(&exporting) : export_records(&exporting, output);
    hf_compact_reader_close(exporting.reader);
    return status;
}
