/* compact_ingest.c: `compact ingest`: files become chunks. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "compact/ingest.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define WAIT_DEFAULT SPAN_S(60)

struct ingesting {
    struct desk desk;
    struct ingest_file *files;
    size_t count;
    struct gauge gauge;
    char writer[WRITER_BYTES_MAX + 1];
    struct view id; /* empty: by their bytes */
};

static bool go_on(void *argument, size_t files_done, uint64_t bytes_done)
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

static enum hf_status take_id(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->desk.cli;
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
    ingesting->id = value->text;
    return HF_OK;
}

static enum hf_status take_files(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->desk.cli;
    ingesting->count = cli->argument_count;
    ingesting->files = arena_take(&cli->arena, ingesting->count * sizeof *ingesting->files);
    if (!ingesting->files)
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < ingesting->count; i++)
        ingesting->files[i] = (struct ingest_file){ .path = cli->arguments[i] };
    return HF_OK;
}

/* ---- Telling ------------------------------------------------------------------------- */

static json_t *file_as_json(const struct ingest_file *file)
{
    json_t *object = json_object();
    json_add_key(&object, "path", view_of(file->path));
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

static void tell_sum(struct cli *cli, const struct ingesting *ingesting)
{
    uint64_t taken = 0, rows = 0, bytes = 0, malformed = 0, already = 0;
    char size[SIZE_TEXT_MAX];
    for (size_t i = 0; i < ingesting->count; i++) {
        const struct ingest_file *file = &ingesting->files[i];
        already += file->already;
        if (file->error.status != HF_OK || file->already)
            continue;
        taken++;
        rows += file->rows;
        bytes += file->size;
        malformed += file->malformed;
    }
    output_text(&cli->out, "ingested ");
    output_count(&cli->out, taken, "file");
    output_print(&cli->out, ": %" PRIu64 " row%s, %s", rows, plural(rows),
                 size_text(bytes, size));
    if (malformed > 0)
        output_print(&cli->out, ", %" PRIu64 " of the rows malformed", malformed);
    if (already > 0) {
        output_text(&cli->out, "; ");
        output_count(&cli->out, already, "file");
        output_text(&cli->out, already == 1 ? " was already there" : " were already there");
    }
    output_text(&cli->out, "\n");
}

/* Files that were left are told one by one, since each may have a reason of its own; people are
 * spared the rest when there are many. */
#define FAULTS_SHOWN 20

static void tell_fault(struct cli *cli, const struct ingest_file *file, size_t number)
{
    if (number < FAULTS_SHOWN || cli->json)
        cli_report(cli, (struct view){ NULL, 0 }, &file->error); /* which names the file */
    cli->reported = true;
}

static void tell(struct ingesting *ingesting)
{
    struct cli *cli = ingesting->desk.cli;
    size_t faults = 0;
    for (size_t i = 0; i < ingesting->count; i++) {
        const struct ingest_file *file = &ingesting->files[i];
        if (file->error.status == HF_OK && cli->json)
            output_json(&cli->out, file_as_json(file));
        else if (file->error.status != HF_OK && !interrupted())
            tell_fault(cli, file, faults++);
    }
    if (faults > FAULTS_SHOWN && !cli->json)
        fprintf(stderr, "holdfast: compact ingest: and %zu file%s more\n",
                faults - FAULTS_SHOWN, plural(faults - FAULTS_SHOWN));
    if (!cli->json && !cli->quiet && faults < ingesting->count)
        tell_sum(cli, ingesting);
}

enum hf_status run_compact_ingest(struct cli *cli)
{
    struct ingesting ingesting = { .desk = { .cli = cli } };
    enum hf_status status = take_writer(&ingesting);
    if (status == HF_OK)
        status = take_id(&ingesting);
    if (status == HF_OK)
        status = take_files(&ingesting);
    if (status != HF_OK)
        return status;
    status = desk_open(&ingesting.desk, cli);
    if (status == HF_OK) {
        gauge_start(&ingesting.gauge, cli, VIEW("ingest"));
        struct ingest_options options = {
            .writer = view_of(ingesting.writer),
            .id = ingesting.id,
            .until = mono_add(env_now(cli->env), cli_span(cli, "wait", WAIT_DEFAULT)),
            .go_on = go_on,
            .argument = &ingesting,
        };
        for (size_t i = 0; i < ingesting.count; i++)
            error_set(&ingesting.files[i].error, HF_CANCELLED, "not looked at any more");
        status = ingest_files(ingesting.desk.shelf, ingesting.files, ingesting.count, &options,
                              &cli->error);
        gauge_clear(&ingesting.gauge);
        tell(&ingesting);
    }
    desk_close(&ingesting.desk);
    return status;
}
