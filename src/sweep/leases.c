/* leases.c: an entry of the expiry index: its table is cleared, then the entry is moved to a later
 * hour or deleted. Entries are hints: they may be stale, early, or missing. */
#include "base/layout.h"
#include "base/rule.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

/* More than any entry says. */
#define ENTRY_BYTES_MAX ((size_t)4096)

/* An entry that is being dealt with. */
struct entry {
    struct view key;
    const struct etag *etag;
    struct hour hour;
    struct view table_key;
    struct place *place;
};

void expiry_folder(struct view ns, char ret_key[KEY_BYTES_MAX + 1])
{
    snprintf(ret_key, KEY_BYTES_MAX + 1, "%.*s" LAYOUT_EXPIRY_FOLDER, VIEW_ARGS(ns));
}

/* ---- Deleting and moving ------------------------------------------------------------- */

/* A lease that was granted while its entry was judged may have been entered in the same hour, by a
 * slow request or a calendar that is behind, and deleted with what was judged. Where no condition
 * sees to that, the table is looked at once more: it has the lease before the index does. */
static enum hf_status enter_again(struct sweep_run *run, const struct entry *entry,
                                  struct hf_error *error)
{
    struct table_sight sight;
    enum hf_status status = table_see(run, entry->place, &sight, error);
    if (status == HF_OK && sight.held > 0)
        status = expiry_write(run->client, entry->table_key, sight.hour, /* stub */ NULL,
                              run_deadline(run), error);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

/* Deletes an entry; `stands` says that there is another for its table. */
static enum hf_status drop(struct sweep_run *run, const struct entry *entry, bool stands,
                           struct hf_error *error)
{
    bool deleted = true;
    enum hf_status status = HF_OK;
    if (!run->options->dry_run)
        status = entry_delete(run, entry->key, entry->etag, &deleted, error);
    if (status == HF_OK && !stands)
        run->report->entries_deleted += deleted;
    if (status == HF_OK && !stands && !run->options->dry_run &&
        !run->client->store->traits.delete_conditional)
        status = enter_again(run, entry, error);
    return status;
}

/* Enters the table in a later hour, then deletes the entry. With a stub: D has to pass. */
static enum hf_status move(struct sweep_run *run, const struct entry *entry, struct hour hour,
                           const struct etag *stub, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (hour.number <= entry->hour.number) /* somebody has set the calendar back */
        return HF_OK;
    bool write = !run->options->dry_run && (stub || RULE(ENTRY_MOVES_BEFORE_IT_GOES));
    if (write)
        status =
            expiry_write(run->client, entry->table_key, hour, stub, run_deadline(run), error);
    if (status == HF_OK)
        status = drop(run, entry, /* stands */ true, error);
    if (status == HF_OK)
        run->report->entries_moved++;
    return status;
}

/* ---- Stubs --------------------------------------------------------------------------- */

struct hour hour_of_purge(const struct hf_client *client, const struct evidence *evidence)
{
    struct span late = client->space.settings.late_bound;
    return hour_after(client, evidence, SPAN_US(late.us + client->hour.us));
}

/* The ETag that an entry names as that of a stub; empty: none. NOT_FOUND: the entry is gone. */
static enum hf_status read_entry(struct sweep_run *run, const struct entry *entry,
                                 struct etag *ret_stub, struct hf_error *error)
{
    struct expiry_entry said = { 0 };
    struct buffer text = BUFFER_INIT(ENTRY_BYTES_MAX);
    struct get_call get = { .key = entry->key, .deadline = run_deadline(run), .body = &text };
    enum hf_status status = store_get(run->client->store, &get);
    clock_learn(&run->client->clock, &get.stamp);
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

/* A table that nobody uses: purged if it has stood there like this since D ago, else looked at
 * again when D has passed. */
static enum hf_status deal_with_stub(struct sweep_run *run, const struct entry *entry,
                                     const struct table_sight *sight, struct hf_error *error)
{
    struct hf_client *client = run->client;
    struct evidence evidence = run_evidence(run);
    struct etag named = { 0 };
    enum hf_status status = HF_OK;
    if (!sight->written) /* else no entry can name it */
        status = read_entry(run, entry, &named, error);
    if (status != HF_OK)
        return status == HF_NOT_FOUND ? HF_OK : status;
    bool unchanged = etag_equal(&named, &sight->etag) || !RULE(PURGE_UNCHANGED_ONLY);
    if (named.size == 0 || !unchanged) {
        return move(run, entry, hour_of_purge(client, &evidence), &sight->etag, error);
    }
    status = stub_purge(run, entry->table_key, sight, &named, error);
    if (status == HF_CONFLICT)
        return move(run, entry, hour_after(client, &evidence, client->hour), &named, error);
    if (status == HF_OK || status == HF_NOT_FOUND)
        status = drop(run, entry, /* stands */ false, error);
    return status;
}

/* ---- An entry ------------------------------------------------------------------------ */

static enum hf_status deal_with(struct sweep_run *run, const struct entry *entry,
                                struct hf_error *error)
{
    struct table_sight sight;
    enum hf_status status = table_clear(run, entry->place, &sight, error);
    if (status == HF_NOT_FOUND)
        return drop(run, entry, /* stands */ false, error);
    if (status != HF_OK)
        return status;
    if (sight.held > 0 || sight.over > 0 || sight.taken || sight.waited)
        return move(run, entry, sight.hour, /* stub */ NULL, error);
    if (run->client->store->traits.delete_conditional && sight.stub && sight.etag.size > 0)
        return deal_with_stub(run, entry, &sight, error);
    return drop(run, entry, /* stands */ false, error);
}

/* What is not an entry of ours is left as it is. */
static enum hf_status visit(struct sweep_run *run, struct view key, const struct etag *etag,
                            struct hf_error *error)
{
    char table_key[KEY_BYTES_MAX + 1];
    struct entry entry = { .key = key, .etag = etag };
    if (!expiry_parse(run->client, key, &entry.hour, table_key))
        return error_set(error, HF_MISMATCH, "this is no entry of the expiry index");
    entry.table_key = view_of(table_key);
    enum hf_status status = place_take(run->client, entry.table_key, &entry.place, error);
    if (status != HF_OK)
        return status;
    status = deal_with(run, &entry, error);
    place_drop(entry.place);
    return status;
}

enum hf_status sweep_leases(struct sweep_run *run, struct hf_error *error)
{
    char folder[KEY_BYTES_MAX + 1];
    size_t first = 0; /* the namespace that the cursor is in */
    enum hf_status status = HF_OK;
    space_of_key(run, view_of(run->cursor->lease_entry), &first);
    for (size_t i = first; i < run->names.count && status == HF_OK && !run->stopped; i++) {
        status = space_enter(run, i, error);
        if (status != HF_OK)
            break;
        expiry_folder(view_of(run->names.names[i]), folder);
        /* A run that ends here, without an entry looked at, is continued here. */
        if (!view_starts_with(view_of(run->cursor->lease_entry), view_of(folder)))
            cursor_set(run->cursor->lease_entry, view_of(folder));
        status = walk_hours(run, view_of(folder), run->cursor->lease_entry, visit, error);
    }
    return status;
}
