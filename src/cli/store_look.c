/* store_look.c: `store ls`, `store rm` and `store probe`: what moves no bodies. */
#include "base/layout.h"
#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/store.h"
#include "lock/tables.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- ls ------------------------------------------------------------------------------ */

static json_t *entry_as_json(const struct list_entry *entry)
{
    json_t *object = json_object();
    if (!object || !json_set_key(object, entry->is_prefix ? "prefix" : "key", entry->key))
        goto fail;
    if (entry->is_prefix)
        return object;
    char time[TIME_TEXT_MAX];
    struct view etag = etag_view(&entry->info.etag);
    if (json_object_set_new(object, "size_bytes", json_integer((json_int_t)entry->info.size)) ==
            0 &&
        json_set_key(object, "etag", etag) &&
        json_object_set_new(object, "modified_at",
                            json_string(time_text(entry->info.modified, time))) == 0)
        return object;
fail:
    json_decref(object);
    return NULL;
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

/* Columns of size, time and ETag; `etag_width` is that of the widest one of the page. */
static void write_long(struct cli *cli, const struct list_entry *entry, size_t etag_width)
{
    char size[SIZE_TEXT_MAX], time[TIME_TEXT_MAX];
    if (entry->is_prefix)
        output_print(&cli->out, "%13s  %-24s  %-*s  ", "-", "-", (int)etag_width, "-");
    else if (cli->out.terminal)
        output_print(&cli->out, "%13s", size_text(entry->info.size, size));
    else
        output_print(&cli->out, "%13" PRIu64, entry->info.size);
    if (!entry->is_prefix) {
        struct view etag = etag_view(&entry->info.etag);
        output_print(&cli->out, "  %-24s  ", time_text(entry->info.modified, time));
        output_key(&cli->out, etag);
        output_print(&cli->out, "%*s  ", (int)(etag_width - etag.size), "");
    }
    write_name(cli, entry->key);
}

static void write_page(struct cli *cli, const struct list_call *page)
{
    size_t etag_width = 1;
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].info.etag.size > etag_width)
            etag_width = page->entries[i].info.etag.size;
    for (size_t i = 0; i < page->count; i++) {
        if (cli->json)
            output_json(&cli->out, entry_as_json(&page->entries[i]));
        else if (cli_given(cli, "long"))
            write_long(cli, &page->entries[i], etag_width);
        else
            write_name(cli, page->entries[i].key);
    }
}

/* Lists page by page from `list` on, at most `left` entries. */
static enum hf_status list_pages(struct cli *cli, struct list_call list, uint64_t left)
{
    char after[KEY_BYTES_MAX];
    enum hf_status status = HF_OK;
    bool more = left > 0;
    while (more && status == HF_OK) {
        list.max = left < LIST_PAGE_MAX ? (size_t)left : LIST_PAGE_MAX;
        status = store_list(cli->store, &list);
        if (status != HF_OK) {
            cli->error = list.error;
            return status;
        }
        write_page(cli, &list);
        left -= list.count;
        more = list.more && left > 0;
        if (more) {
            struct view last = list.entries[list.count - 1].key;
            memcpy(after, last.data, last.size);
            list.after = (struct view){ after, last.size };
        }
        list_release(&list);
        status = output_flush(&cli->out, &cli->error);
        if (status == HF_OK)
            status = interrupt_check(&cli->error);
    }
    return status;
}

enum hf_status run_store_ls(struct cli *cli)
{
    const struct option_value *delimiter = cli_option(cli, "delimiter");
    const struct option_value *limit = cli_option(cli, "limit");
    const struct option_value *after = cli_option(cli, "after");
    struct list_call list = { .delimiter = VIEW("/") };
    enum hf_status status = cli_key(cli, 0, &list.prefix);
    if (status != HF_OK)
        return status;
    if (!list.prefix.data)
        list.prefix = VIEW("");
    if (delimiter && delimiter->text.size != 1)
        return error_set(&cli->error, HF_INVALID, "--delimiter takes exactly one byte");
    if (delimiter)
        list.delimiter = delimiter->text;
    if (cli_given(cli, "recursive"))
        list.delimiter = VIEW("");
    list.after = after ? after->text : VIEW("");
    status = cli_open_objects(cli);
    return status == HF_OK ? list_pages(cli, list, limit ? limit->number : INT64_MAX) : status;
}

/* ---- rm ------------------------------------------------------------------------------ */

enum hf_status parse_if_match(struct cli *cli, struct etag *ret_etag)
{
    if (!etag_set(ret_etag, cli_option(cli, "if-match")->text))
        return error_set(&cli->error, HF_INVALID, "an ETag has 1 to %d bytes", ETAG_BYTES_MAX);
    return HF_OK;
}

bool is_guarded(struct cli *cli, struct view key)
{
    return (layout_is_own(key) || table_key_is_ours(key)) && !cli_given(cli, "force");
}

enum hf_status check_not_guarded(struct cli *cli, struct view key)
{
    if (!is_guarded(cli, key))
        return HF_OK;
    return error_set(&cli->error, HF_INVALID,
                     "'%.*s' is an internal object of Holdfast; changing it by hand can break "
                     "locks and lose data; use --force to do it anyway",
                     VIEW_ARGS(view_first(key, 60)));
}

static json_t *removed_as_json(struct view key)
{
    json_t *object = json_object();
    if (object && json_set_key(object, "key", key) &&
        json_object_set_new(object, "removed", json_true()) == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* Tells what came of each call; the first failure becomes that of the command. */
static void tell_removed(struct cli *cli, const struct delete_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].error.status == HF_OK) {
            if (cli->json)
                output_json(&cli->out, removed_as_json(calls[i].key));
            continue;
        }
        if (cli->error.status == HF_OK)
            cli->error = calls[i].error;
        cli_report(cli, calls[i].key, &calls[i].error);
        cli->reported = true;
    }
}

/* Keys that make no sense are refused before the first object is removed. */
static enum hf_status fill_keys(struct cli *cli, struct delete_call *calls)
{
    for (size_t i = 0; i < cli->argument_count; i++) {
        enum hf_status status = cli_key(cli, i, &calls[i].key);
        if (status != HF_OK)
            return status;
        if (calls[i].key.size < 1 || calls[i].key.size > KEY_BYTES_MAX)
            return error_set(&cli->error, HF_INVALID, "a key has 1 to %d bytes, this one %zu",
                             KEY_BYTES_MAX, calls[i].key.size);
        status = check_not_guarded(cli, calls[i].key);
        if (status != HF_OK)
            return status;
        if (!cli_given(cli, "if-match"))
            continue;
        calls[i].condition.kind = CONDITION_MATCH;
        status = parse_if_match(cli, &calls[i].condition.etag);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status run_store_rm(struct cli *cli)
{
    if (cli_given(cli, "if-match") && cli->argument_count > 1)
        return error_set(&cli->error, HF_INVALID, "--if-match goes with a single KEY");
    struct delete_call *calls = calloc(cli->argument_count, sizeof *calls);
    if (!calls)
        return error_no_memory(&cli->error);
    enum hf_status status = fill_keys(cli, calls);
    if (status == HF_OK)
        status = cli_open_objects(cli);
    size_t done = 0;
    while (status == HF_OK && done < cli->argument_count) {
        size_t left = cli->argument_count - done;
        size_t count = left < BATCH_MAX ? left : BATCH_MAX;
        store_delete_many(cli->store, calls + done, count);
        tell_removed(cli, calls + done, count);
        done += count;
        status = interrupt_check(&cli->error);
    }
    free(calls);
    return status != HF_OK ? status : cli->error.status;
}

/* ---- probe --------------------------------------------------------------------------- */

static json_t *report_as_json(const struct probe_report *report, enum hf_status status)
{
    json_t *findings = json_array();
    for (size_t i = 0; findings && i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        json_array_append_new(findings,
                              json_pack("{s:s, s:s, s:s}", "what", finding->what, "verdict",
                                        probe_verdict_name(finding->verdict), "detail",
                                        finding->detail));
    }
    return json_pack("{s:b, s:o, s:I}", "usable", status == HF_OK, "findings", findings,
                     "requests", (json_int_t)report->requests);
}

static void write_report(struct cli *cli, const struct probe_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        output_print(&cli->out, "%-8s  %-28s  ", probe_verdict_name(finding->verdict),
                     finding->what);
        output_key(&cli->out, view_of(finding->detail)); /* it may quote a server */
        output_text(&cli->out, "\n");
    }
}

enum hf_status run_store_probe(struct cli *cli)
{
    enum hf_status status = cli_open_objects(cli);
    if (status != HF_OK)
        return status;
    struct probe_report report = { .count = 0 };
    status =
        bucket_probe(cli->store, /* keep */ !cli_given(cli, "no-save"), &report, &cli->error);
    if (cli->json)
        output_json(&cli->out, report_as_json(&report, status));
    else if (!cli->quiet)
        write_report(cli, &report);
    return status;
}
