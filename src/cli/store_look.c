/* store_look.c: `store ls`, `store rm` and `store probe`: what moves no bodies. */
#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/store.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- ls ------------------------------------------------------------------------------ */

/* The entries of a page, kept until it is whole: columns are as wide as its widest ETag. */
struct listing {
    struct cli *cli;
    struct arena arena;
    struct hf_store_entry *rows;
    size_t count, capacity;
    struct hf_error error; /* not OK: why the listing was stopped */
};

static struct view key_of(const struct hf_store_entry *entry)
{
    return (struct view){ entry->key, entry->key_size };
}

static json_t *entry_as_json(const struct hf_store_entry *entry)
{
    json_t *object = json_object();
    json_add_key(&object, entry->is_prefix ? "prefix" : "key", key_of(entry));
    if (entry->is_prefix)
        return object;
    json_add_count(&object, "size_bytes", entry->size);
    json_add_key(&object, "etag", view_of(entry->etag));
    json_add_time_ms(&object, "modified_at", entry->modified_ms);
    return object;
}

static void write_name(struct cli *cli, struct view name)
{
    if (cli_given(cli, "null")) {
        output_bytes(&cli->out, name);
        output_bytes(&cli->out, VIEW("\0"));
    } else {
        output_key(&cli->out, name);
        output_text(&cli->out, "\n");
    }
}

static void write_long(struct cli *cli, const struct hf_store_entry *entry, size_t etag_width)
{
    char size[SIZE_TEXT_MAX], time[TIME_TEXT_MAX];
    if (entry->is_prefix)
        output_print(&cli->out, "%13s  %-24s  %-*s  ", "-", "-", (int)etag_width, "-");
    else if (cli->out.terminal)
        output_print(&cli->out, "%13s", size_text(entry->size, size));
    else
        output_print(&cli->out, "%13" PRIu64, entry->size);
    if (!entry->is_prefix) {
        struct wall_time modified = { entry->modified_ms * 1000 };
        struct view etag = view_of(entry->etag);
        output_print(&cli->out, "  %-24s  ", time_text(modified, time));
        output_key(&cli->out, etag);
        output_print(&cli->out, "%*s  ", (int)(etag_width - etag.size), "");
    }
    write_name(cli, key_of(entry));
}

static void write_page(struct listing *listing)
{
    size_t etag_width = 1;
    for (size_t i = 0; i < listing->count; i++)
        if (strlen(listing->rows[i].etag) > etag_width)
            etag_width = strlen(listing->rows[i].etag);
    for (size_t i = 0; i < listing->count; i++)
        write_long(listing->cli, &listing->rows[i], etag_width);
    listing->count = 0;
    arena_release(&listing->arena);
    listing->arena = ARENA_INIT;
}

static enum hf_status keep_row(struct listing *listing, const struct hf_store_entry *entry)
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
    row->key = arena_copy(&listing->arena, key_of(entry)).data;
    row->etag = arena_copy(&listing->arena, view_of(entry->etag)).data;
    return row->key && row->etag ? HF_OK : error_no_memory(&listing->error);
}

static bool list_entry(void *argument, const struct hf_store_entry *entry)
{
    struct listing *listing = argument;
    struct cli *cli = listing->cli;
    enum hf_status status = HF_OK;
    if (cli->json)
        output_json(&cli->out, entry_as_json(entry));
    else if (cli_given(cli, "long"))
        status = keep_row(listing, entry);
    else
        write_name(cli, key_of(entry));
    if (status == HF_OK && entry->last_of_page) {
        write_page(listing);
        status = output_flush(&cli->out, &listing->error);
        if (status == HF_OK)
            status = interrupt_check(&listing->error);
    }
    return status == HF_OK;
}

static enum hf_status list_objects(struct cli *cli, struct view prefix,
                                   const struct hf_store_list_options *options)
{
    struct listing listing = { .cli = cli, .arena = ARENA_INIT };
    enum hf_status status =
        hf_store_list(cli->handle, prefix.data, options, list_entry, &listing, &cli->error);
    free(listing.rows);
    arena_release(&listing.arena);
    if (listing.error.status == HF_OK)
        return status;
    cli->error = listing.error;
    return cli->error.status;
}

enum hf_status run_store_ls(struct cli *cli)
{
    const struct option_value *delimiter = cli_option(cli, "delimiter");
    const struct option_value *limit = cli_option(cli, "limit");
    const struct option_value *after = cli_option(cli, "after");
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct view prefix;
    enum hf_status status = cli_key(cli, 0, &prefix);
    if (status != HF_OK)
        return status;
    if (!prefix.data)
        prefix = VIEW("");
    options.prefix_size = prefix.size;
    options.delimiter = '/';
    if (delimiter && delimiter->text.size != 1)
        return error_set(&cli->error, HF_INVALID, "--delimiter takes exactly one byte");
    if (delimiter)
        options.delimiter = delimiter->text.data[0];
    if (cli_given(cli, "recursive"))
        options.delimiter = '\0';
    if (after)
        options.after = after->text.data;
    status = cli_open_objects(cli);
    if (status != HF_OK || (limit && limit->number == 0))
        return status;
    options.max = limit ? limit->number : 0;
    return list_objects(cli, prefix, &options);
}

/* ---- rm ------------------------------------------------------------------------------ */

enum hf_status parse_if_match(struct cli *cli, const char **ret_etag)
{
    const struct option_value *given = cli_option(cli, "if-match");
    *ret_etag = given ? given->text.data : NULL;
    if (given && (given->text.size < 1 || given->text.size >= HF_ETAG_MAX))
        return error_set(&cli->error, HF_INVALID, "an ETag has 1 to %d bytes", HF_ETAG_MAX - 1);
    return HF_OK;
}

struct removal {
    struct cli *cli;
    const char **keys;
    size_t *sizes;
};

/* Tells what came of each key; the first failure becomes that of the command. */
static bool tell_removed(void *argument, size_t index, const struct hf_error *error)
{
    struct removal *removal = argument;
    struct cli *cli = removal->cli;
    struct view key = { removal->keys[index], removal->sizes[index] };
    if (error->status != HF_OK) {
        cli_report(cli, key, error);
        cli->reported = true;
    } else if (cli->json) {
        json_t *object = json_object();
        json_add_key(&object, "key", key);
        json_add_bool(&object, "removed", true);
        output_json(&cli->out, object);
    }
    return !interrupted();
}

/* Keys that make no sense are refused before the store is opened. */
static enum hf_status fill_keys(struct removal *removal,
                                const struct hf_store_delete_options *options)
{
    struct cli *cli = removal->cli;
    for (size_t i = 0; i < cli->argument_count; i++) {
        struct view key;
        enum hf_status status = cli_key(cli, i, &key);
        if (status == HF_OK)
            status = hf_store_check_key(key.data, key.size, options->force, &cli->error);
        if (status != HF_OK)
            return status;
        removal->keys[i] = key.data;
        removal->sizes[i] = key.size;
    }
    return HF_OK;
}

enum hf_status run_store_rm(struct cli *cli)
{
    struct hf_store_delete_options options = HF_STORE_DELETE_OPTIONS;
    struct removal removal = { .cli = cli };
    if (cli_given(cli, "if-match") && cli->argument_count > 1)
        return error_set(&cli->error, HF_INVALID, "--if-match goes with a single KEY");
    options.force = cli_given(cli, "force");
    removal.keys = calloc(cli->argument_count, sizeof *removal.keys);
    removal.sizes = calloc(cli->argument_count, sizeof *removal.sizes);
    enum hf_status status = HF_OK;
    if (!removal.keys || !removal.sizes)
        status = error_no_memory(&cli->error);
    if (status == HF_OK)
        status = fill_keys(&removal, &options);
    if (status == HF_OK)
        status = parse_if_match(cli, &options.if_match);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    if (status == HF_OK)
        status =
            hf_store_delete_many(cli->handle, removal.keys, removal.sizes, cli->argument_count,
                                 &options, tell_removed, &removal, &cli->error);
    free(removal.keys);
    free(removal.sizes);
    return status == HF_OK ? interrupt_check(&cli->error) : status;
}

/* ---- probe --------------------------------------------------------------------------- */

struct probing {
    struct cli *cli;
    json_t *findings;
};

static bool tell_finding(void *argument, const struct hf_store_finding *finding)
{
    struct probing *probing = argument;
    struct cli *cli = probing->cli;
    const char *name = hf_finding_name(finding->finding);
    if (cli->json) {
        json_array_append_new(probing->findings,
                              json_pack("{s:s, s:s, s:s}", "what", finding->what, "verdict",
                                        name, "detail", finding->detail));
    } else if (!cli->quiet) {
        output_print(&cli->out, "%-8s  %-28s  ", name, finding->what);
        output_key(&cli->out, view_of(finding->detail)); /* it may quote a server */
        output_text(&cli->out, "\n");
    }
    return true;
}

enum hf_status run_store_probe(struct cli *cli)
{
    struct hf_store_probe_options options = HF_STORE_PROBE_OPTIONS;
    struct hf_store_probe_report report = HF_STORE_PROBE_REPORT;
    struct probing probing = { .cli = cli };
    enum hf_status status = cli_open_objects(cli);
    if (status != HF_OK)
        return status;
    if (cli->json)
        probing.findings = json_array();
    options.no_save = cli_given(cli, "no-save");
    options.each = tell_finding;
    options.argument = &probing;
    status = hf_store_probe(cli->handle, &options, &report, &cli->error);
    if (cli->json)
        output_json(&cli->out,
                    json_pack("{s:b, s:o, s:I}", "usable", report.usable, "findings",
                              probing.findings, "requests", (json_int_t)report.requests));
    return status;
}
