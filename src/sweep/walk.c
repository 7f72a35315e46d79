/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: visits the hours of an index that have fully passed, page by page, starting at a cursor.
 * The entries of live leases are under later hours, so they are never listed and cost nothing. */
#include "sweep/sweep_inside.h"

/* The hour in an index key; `ret_bucket` is the key up to the slash after that hour. */
static bool hour_of_key(struct view folder, struct view key, struct hour *ret_hour,
                        struct view *ret_bucket)
{
    if (!view_starts_with(key, folder))
        return false;
    struct view rest = view_from(key, folder.size);
    struct view text = view_first(rest, view_find(rest, '/'));
    *ret_bucket = view_first(key, folder.size + text.size + 1);
    return text.size < rest.size && hour_parse(text, ret_hour);
}

static bool is_hour_over(struct sweep_run *run, struct hour hour)
{
    struct evidence evidence = run_evidence(run);
    return hour.number < hour_now(run->client, &evidence).number;
}

/* Visits the entries of one hour that follow `after`. */
static enum hf_status walk_hour(struct sweep_run *run, struct view bucket, struct view after,
                                char cursor[KEY_BYTES_MAX + 1], walk_visit *visit,
                                struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = bucket, .after = after } };
    while (run_page(run, &pages))
        for (size_t i = 0; i < pages.list.count; i++) {
            if (!run_next(run))
                break;
            const struct list_entry *entry = &pages.list.entries[i];
            struct hf_error why;
            enum hf_status status = visit(run, entry->key, &entry->info.etag, &why);
            run_note(run, entry->key, status, &why);
            cursor_set(cursor, entry->key);
        }
    return pages_end(&pages, HF_OK, error);
}

/* Visits the hours after the hour of `after`. */
static enum hf_status walk_later_hours(struct sweep_run *run, struct view folder,
                                       struct view after, char cursor[KEY_BYTES_MAX + 1],
                                       walk_visit *visit, struct hf_error *error)
{
    struct pages pages = { .list = {
                               .prefix = folder, .after = after, .delimiter = VIEW("/") } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && run_page(run, &pages))
        for (size_t i = 0; i < pages.list.count; i++) {
            if (status != HF_OK || run->stopped)
                break;
            const struct list_entry *entry = &pages.list.entries[i];
            struct hour hour;
            struct view bucket;
            if (entry->is_prefix && hour_of_key(folder, entry->key, &hour, &bucket) &&
                is_hour_over(run, hour))
                status = walk_hour(run, bucket, VIEW(""), cursor, visit, error);
        }
    return pages_end(&pages, status, error);
}

enum hf_status walk_hours(struct sweep_run *run, struct view folder,
                          char cursor[KEY_BYTES_MAX + 1], walk_visit *visit,
                          struct hf_error *error)
{
    char from[KEY_BYTES_MAX + 1];
    struct hour hour;
    struct view bucket = VIEW("");
    enum hf_status status = HF_OK;
    cursor_set(from, view_of(cursor));
    if (hour_of_key(folder, view_of(from), &hour, &bucket) && is_hour_over(run, hour))
        status = walk_hour(run, bucket, view_of(from), cursor, visit, error);
    else /* the cursor is invalid, or the time is not known yet: from the start */
        bucket = VIEW("");
    if (status == HF_OK && !run->stopped)
        status = walk_later_hours(run, folder, bucket, cursor, visit, error);
    if (status == HF_OK && !run->stopped)
        cursor[0] = '\0';
    return status;
}

enum hf_status entry_delete(struct sweep_run *run, struct view key, const struct etag *etag,
                            bool *ret_deleted, struct hf_error *error)
{
    struct store *store = client_store(run->client);
    struct delete_call call = { .key = key, .deadline = run_deadline(run) };
    if (store->traits.delete_conditional)
        call.condition = if_match(etag);
    enum hf_status status = store_delete(store, &call);
    clock_learn(client_clock(run->client), &call.stamp);
    *ret_deleted = status == HF_OK;
    client_note_conflicts(run->client, key, status == HF_CONFLICT);
    if (status == HF_NOT_FOUND || status == HF_CONFLICT)
        status = HF_OK;
    else if (status != HF_OK)
        *error = call.error;
    return status;
}
