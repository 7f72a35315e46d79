/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c: `store get`, `put`, `ls` and `probe`: transfer and list plain objects, and probe the
 * store. */
#include "base/parse.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/output/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- get ----------------------------------------------------------------------------- */

/* An object that was transferred, for its record. */
struct moved {
    struct cli *cli;
    struct view key, file;
    struct hf_store_get_options options;
    struct hf_object_info info;
};

const struct field put_object_record[] = PUT_OBJECT_RECORD;
const struct field got_object_record[] = GOT_OBJECT_RECORD;

/* Parses "A-B", which excludes the byte at B, or "A-". */
static enum hf_status parse_range_option(struct cli *cli, struct hf_store_get_options *options)
{
    const struct option_value *range = cli_option(cli, "range");
    if (!range)
        return HF_OK;
    struct view end = range->text, text = view_cut(&end, '-');
    uint64_t from, to = 0;
    enum hf_status status = parse_size(text, &from, &cli->error);
    if (status == HF_OK && end.size > 0)
        status = parse_size(end, &to, &cli->error);
    bool has_dash = text.size < range->text.size;
    if (status != HF_OK || !has_dash || (end.size > 0 && to <= from))
        return cli_invalid(
            cli, "'%.*s' is not a range; use A-B with B greater than A, or A- for the rest",
            VIEW_ARGS(view_first(range->text, 60)));
    options->offset = from;
    options->length = end.size > 0 ? to - from : 0;
    return HF_OK;
}

static enum hf_status fetch_object(void *argument, int fd, struct hf_error *error)
{
    struct moved *moved = argument;
    struct gauge gauge;
    gauge_start(&gauge, moved->cli, moved->key);
    moved->options.progress = gauge_watch;
    moved->options.progress_argument = &gauge;
    enum hf_status status = hf_store_get_file(moved->cli->handle, moved->key.data, fd,
                                              &moved->options, &moved->info, error);
    gauge_clear(&gauge);
    return status;
}

enum hf_status run_store_get(struct cli *cli)
{
    struct moved moved = { .cli = cli,
                           .file = cli_argument(cli, 1),
                           .options = HF_STORE_GET_OPTIONS,
                           .info = HF_OBJECT_INFO };
    const char *path = moved.file.data;
    bool stream = false, is_file;
    enum hf_status status = cli_key(cli, 0, &moved.key);
    moved.options.key_size = moved.key.size;
    if (status == HF_OK)
        status = parse_range_option(cli, &moved.options);
    if (status == HF_OK && !is_stdout(path))
        status = target_is_stream(cli, moved.file, &stream);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status == HF_OK)
        status = target_fetch(cli, path, fetch_object, &moved, &is_file);
    if (status == HF_OK && !is_stdout(path))
        record_tell(cli, got_object_record, &moved, NULL);
    return status;
}

/* ---- put ----------------------------------------------------------------------------- */

enum hf_status run_store_put(struct cli *cli)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct moved moved = { .info = HF_OBJECT_INFO };
    struct gauge gauge;
    int fd;
    enum hf_status status = cli_key(cli, 0, &moved.key);
    options.force = cli_given(cli, "force");
    options.if_absent = cli_given(cli, "if-absent");
    if (status == HF_OK)
        status = hf_store_check_key(moved.key.data, moved.key.size, options.force, &cli->error);
    if (status == HF_OK)
        status = cli_if_match(cli, &options.if_match);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status == HF_OK)
        status = source_take(cli, cli_argument(cli, 1).data, moved.key, &fd);
    if (status != HF_OK)
        return status;
    gauge_start(&gauge, cli, moved.key);
    options.key_size = moved.key.size;
    options.progress = gauge_watch;
    options.progress_argument = &gauge;
    status =
        hf_store_put_file(cli->handle, moved.key.data, fd, &options, &moved.info, &cli->error);
    gauge_clear(&gauge);
    close(fd);
    if (status == HF_OK)
        record_tell(cli, put_object_record, &moved, "{etag}\n");
    return status;
}

/* ---- ls ------------------------------------------------------------------------------ */

struct listing {
    struct cli *cli;
    struct arena arena;
    struct hf_store_entry *rows;
    size_t count, capacity;
    struct hf_error error; /* unless OK, why the listing was stopped */
};

static struct view key_of_entry(const struct hf_store_entry *entry)
{
    return (struct view){ entry->key, entry->key_size };
}

const struct field store_entry_record[] = STORE_ENTRY_RECORD;

static void write_object_name(struct cli *cli, struct view name)
{
    if (cli_given(cli, "null")) {
        output_bytes(&cli->out, name);
        output_bytes(&cli->out, VIEW("\0"));
    } else {
        output_key(&cli->out, name);
        output_text(&cli->out, "\n");
    }
}

/* The rows of a page are kept until the page is complete, because the widest ETag sets the width of
 * the column. */
static void write_page(struct listing *listing)
{
    struct cli *cli = listing->cli;
    size_t width = 1;
    char size[SIZE_TEXT_MAX], time[TIME_TEXT_MAX];
    for (size_t i = 0; i < listing->count; i++)
        if (strlen(listing->rows[i].etag) > width)
            width = strlen(listing->rows[i].etag);
    for (size_t i = 0; i < listing->count; i++) {
        const struct hf_store_entry *entry = &listing->rows[i];
        struct wall_time modified = { entry->modified_ms * 1000 };
        struct view etag = view_of(entry->etag);
        if (entry->is_prefix) {
            output_print(&cli->out, "%13s  %-24s  %-*s  ", "-", "-", (int)width, "-");
        } else {
            if (cli->out.terminal)
                output_print(&cli->out, "%13s", size_text(entry->size, size));
            else
                output_print(&cli->out, "%13" PRIu64, entry->size);
            output_print(&cli->out, "  %-24s  ", time_text(modified, time));
            output_key(&cli->out, etag);
            output_print(&cli->out, "%*s  ", (int)(width - etag.size), "");
        }
        write_object_name(cli, key_of_entry(entry));
    }
    listing->count = 0;
    arena_release(&listing->arena);
    listing->arena = ARENA_INIT;
}

static enum hf_status keep_entry(struct listing *listing, const struct hf_store_entry *entry)
{
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        void *rows = realloc(listing->rows, capacity * sizeof *listing->rows);
        if (!rows)
            return error_no_memory(&listing->error);
        listing->rows = rows;
        listing->capacity = capacity;
    }
    struct hf_store_entry *row = &listing->rows[listing->count++];
    *row = *entry;
    row->key = arena_copy(&listing->arena, key_of_entry(entry)).data;
    row->etag = arena_copy(&listing->arena, view_of(entry->etag)).data;
    return row->key && row->etag ? HF_OK : error_no_memory(&listing->error);
}

static bool list_entry(void *argument, const struct hf_store_entry *entry)
{
    struct listing *listing = argument;
    struct cli *cli = listing->cli;
    enum hf_status status = HF_OK;
    if (cli->json)
        record_show(cli, store_entry_record, entry, NULL);
    else if (cli_given(cli, "long"))
        status = keep_entry(listing, entry);
    else
        write_object_name(cli, key_of_entry(entry));
    if (status == HF_OK && entry->last_of_page) {
        write_page(listing);
        status = output_flush(&cli->out, &listing->error);
        if (status == HF_OK)
            status = interrupt_check(&listing->error);
    }
    return status == HF_OK;
}

enum hf_status run_store_ls(struct cli *cli)
{
    const struct option_value *delimiter = cli_option(cli, "delimiter");
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct listing listing = { .cli = cli, .arena = ARENA_INIT };
    struct view prefix;
    enum hf_status status = cli_key(cli, 0, &prefix);
    if (status != HF_OK)
        return status;
    if (delimiter && delimiter->text.size != 1)
        return cli_invalid(cli, "--delimiter takes exactly one byte");
    options.prefix_size = prefix.size;
    options.delimiter = delimiter ? delimiter->text.data[0] : '/';
    if (cli_given(cli, "recursive"))
        options.delimiter = '\0';
    options.after = option_text(cli, "after");
    options.max = option_number(cli, "limit", 0);
    status = cli_open_objects(cli);
    if (status != HF_OK || (cli_given(cli, "limit") && options.max == 0))
        return status;
    status = hf_store_list(cli->handle, prefix.data ? prefix.data : "", &options, list_entry,
                           &listing, &cli->error);
    free(listing.rows);
    arena_release(&listing.arena);
    if (listing.error.status == HF_OK)
        return status;
    cli->error = listing.error;
    return cli->error.status;
}

/* ---- probe --------------------------------------------------------------------------- */

struct probing {
    struct cli *cli;
    struct hf_store_probe_report report;
    struct record_list findings;
};

static const struct field finding_record[] = FINDING_RECORD;
const struct field probe_record[] = PROBE_RECORD;

static bool print_probed(void *argument, const struct hf_store_finding *finding)
{
    struct probing *probing = argument;
    if (probing->cli->json)
        record_list_add(probing->cli, &probing->findings, finding_record, finding, NULL);
    else
        record_tell(probing->cli, finding_record, finding,
                    "{verdict<8}  {what<28}  {detail}\n");
    return true;
}

enum hf_status run_store_probe(struct cli *cli)
{
    struct hf_store_probe_options options = HF_STORE_PROBE_OPTIONS;
    struct probing probing = { .cli = cli, .report = HF_STORE_PROBE_REPORT };
    options.no_save = cli_given(cli, "no-save");
    options.each = print_probed;
    options.argument = &probing;
    enum hf_status status = hf_store_probe(cli->handle, &options, &probing.report, &cli->error);
    record_tell(cli, probe_record, &probing, NULL);
    record_list_release(&probing.findings);
    return status;
}
