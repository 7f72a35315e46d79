/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: handles an entry of the expiry index: clears its table, then moves the entry to a
 * later hour or deletes it. A new entry is always written before the old one is deleted, so that
 * no lease is left without an entry. */
#include "base/layout.h"
#include "base/rule.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* Larger than any entry. */
#define ENTRY_BYTES_MAX ((size_t)4096)

/* An entry that is being handled. */
struct entry {
    struct view key;
    const struct etag *etag;
    struct hour hour;
    struct view table_key;
    struct table_ref *ref;
};

void expiry_folder(struct view ns, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, "%.*s" LAYOUT_EXPIRY_FOLDER, VIEW_ARGS(ns));
}

/* ---- Deleting and moving ------------------------------------------------------------- */

/* While an entry was being checked, a new lease may have been granted. Because of a slow request
 * or a slow wall clock, its entry may have been written under the same key and then deleted with
 * the old one. If the store has no conditional delete, the table is therefore read again. This is
 * enough, because a lease is in the table before its entry is in the index. */
static enum hf_status enter_again(struct sweep_run *run, const struct entry *entry,
                                  struct hf_error *error)
{
    struct table_summary summary;
    enum hf_status status = table_summarize(run, entry->ref, &summary, error);
    if (status == HF_OK && summary.held > 0)
        status = expiry_write(run->client, entry->table_key, summary.hour, /* stub */ NULL,
                              run_deadline(run), error);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* Deletes an entry. `stands`: its table has another entry. */
static enum hf_status drop_entry(struct sweep_run *run, const struct entry *entry, bool stands,
                                 struct hf_error *error)
{
    bool deleted = true;
    enum hf_status status = HF_OK;
    if (!run->options->dry_run)
        status = entry_delete(run, entry->key, entry->etag, &deleted, error);
    if (status == HF_OK && !stands)
        run->report->entries_deleted += deleted;
    if (status == HF_OK && !stands && !run->options->dry_run &&
        !client_store(run->client)->traits.delete_conditional)
        status = enter_again(run, entry, error);
    return status;
}

/* Writes an entry for a later hour, then deletes this one. For a stub, the new hour is D from
 * now. */
static enum hf_status move_entry(struct sweep_run *run, const struct entry *entry,
                                 struct hour hour, const struct etag *stub,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (hour.number <= entry->hour.number) /* a wall clock was set back */
        return HF_OK;
    if (RULE(ENTRY_MOVES_BEFORE_IT_GOES) && !run->options->dry_run)
        status =
            expiry_write(run->client, entry->table_key, hour, stub, run_deadline(run), error);
    if (status == HF_OK)
        status = drop_entry(run, entry, /* stands */ true, error);
    if (status == HF_OK)
        run->report->entries_moved++;
    return status;
}

/* ---- Stubs --------------------------------------------------------------------------- */

struct hour hour_of_purge(const struct hf_client *client, const struct evidence *evidence)
{
    struct span late = client_settings(client)->late_bound;
    return hour_after(client, evidence, SPAN_US(late.us + client_hour(client).us));
}

/* The ETag of the stub that an entry is for; empty if it is not for a stub. NOT_FOUND: the entry
 * is gone. */
static enum hf_status read_stub_etag(struct sweep_run *run, const struct entry *entry,
                                     struct etag *ret_stub, struct hf_error *error)
{
    struct expiry_entry said = { 0 };
    struct buffer text = BUFFER_INIT(ENTRY_BYTES_MAX);
    struct get_call get = { .key = entry->key, .deadline = run_deadline(run), .body = &text };
    enum hf_status status = client_get(run->client, &get);
    if (status == HF_INVALID) /* too large to be ours */
        status = HF_OK;
    else if (status != HF_OK)
        *error = get.error;
    else if (!expiry_decode(buffer_view(&text), &said))
        said = (struct expiry_entry){ 0 };
    *ret_stub = said.stub;
    buffer_release(&text);
    return status;
}

/* Handles a table that no client uses: purges it if it has been unchanged for D. Otherwise it will
 * be checked again when D has passed. */
static enum hf_status purge_or_move_stub(struct sweep_run *run, const struct entry *entry,
                                         const struct table_summary *summary,
                                         struct hf_error *error)
{
    struct hf_client *client = run->client;
    struct evidence evidence = run_evidence(run);
    struct etag named = { 0 };
    enum hf_status status = HF_OK;
    if (!summary->written) /* if we have just written it, no entry can name its ETag */
        status = read_stub_etag(run, entry, &named, error);
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    bool used = RULE(PURGE_UNCHANGED_ONLY) && !etag_equal(&named, &summary->etag);
    if (named.size == 0 || used)
        return move_entry(run, entry, hour_of_purge(client, &evidence), &summary->etag, error);
    status = stub_purge(run, entry->table_key, summary, &named, error);
    if (status == HF_CONFLICT)
        return move_entry(run, entry, hour_after(client, &evidence, client_hour(client)),
                          &named, error);
    if (status == HF_OK || status == HF_NOT_FOUND)
        status = drop_entry(run, entry, /* stands */ false, error);
    return status;
}

/* ---- An entry ------------------------------------------------------------------------ */

static enum hf_status clear_entry(struct sweep_run *run, const struct entry *entry,
                                  struct hf_error *error)
{
    struct table_summary summary;
    enum hf_status status = table_clear(run, entry->ref, &summary, error);
    if (status == HF_NOT_FOUND)
        return drop_entry(run, entry, /* stands */ false, error);
    if (status != HF_OK)
        return status;
    if (summary.held > 0 || summary.over > 0 || summary.taken || summary.waited)
        return move_entry(run, entry, summary.hour, /* stub */ NULL, error);
    if (client_store(run->client)->traits.delete_conditional && summary.stub &&
        summary.etag.size > 0)
        return purge_or_move_stub(run, entry, &summary, error);
    return drop_entry(run, entry, /* stands */ false, error);
}

/* An object that is not one of our entries is left alone. */
static enum hf_status visit_lease_entry(struct sweep_run *run, struct view key,
                                        const struct etag *etag, struct hf_error *error)
{
    char table_key[KEY_BYTES_MAX + 1];
    struct entry entry = { .key = key, .etag = etag };
    if (!expiry_parse(run->client, key, &entry.hour, table_key))
        return error_set(error, HF_MISMATCH, "not an expiry index entry");
    entry.table_key = view_of(table_key);
    enum hf_status status = table_ref_take(run->client, entry.table_key, &entry.ref, error);
    if (status != HF_OK)
        return status;
    status = clear_entry(run, &entry, error);
    table_ref_drop(entry.ref);
    return status;
}

enum hf_status sweep_leases(struct sweep_run *run, struct hf_error *error)
{
    char folder[KEY_BYTES_MAX + 1];
    size_t first = 0; /* the namespace of the cursor */
    enum hf_status status = HF_OK;
    space_of_key(run, view_of(run->cursor->lease_entry), &first);
    for (size_t i = first; i < run->names.count; i++) {
        if (status == HF_OK && !run->stopped)
            status = space_enter(run, i, error);
        if (status != HF_OK || run->stopped)
            break;
        expiry_folder(view_of(run->names.names[i]), folder);
        /* If the run ends before its first entry in this namespace, the next run continues in this
         * namespace. */
        if (!view_starts_with(view_of(run->cursor->lease_entry), view_of(folder)))
            cursor_set(run->cursor->lease_entry, view_of(folder));
        status = walk_hours(run, view_of(folder), run->cursor->lease_entry, visit_lease_entry,
                            error);
    }
    return status;
}
