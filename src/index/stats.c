/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c: collects the statistics for `index status`, with listings and a few reads. It changes
 * nothing. An object that cannot be read is left out of the counts. */
#include "index/stats.h"

#include "base/check.h"
#include "base/json.h"
#include "lock/table_reader.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

#define ASIDE_NOTE_MAX ((size_t)64 * 1024)

/* The state of one count. */
struct counting {
    struct index *index;
    struct index_stats index_stats;
    bool (*step)(void *argument, uint64_t entries);
    void *argument;
    size_t root;     /* length of indexes/<name>/ */
    uint8_t *marked; /* one bit per shard: it has entries */
    struct buffer key;
    char notes[STATS_REASONS_MAX][KEY_BYTES_MAX + 1]; /* the first objects with a reason */
    size_t note_count;
};

void index_stats_release(struct index_stats *index_stats)
{
    free(index_stats->holders);
    index_stats->holders = NULL;
    index_stats->holder_count = 0;
}

/* ---- Listings ------------------------------------------------------------------------ */

typedef bool take_fn(struct counting *counting, const struct list_entry *object);

/* Passes every object with this prefix to `take`, which returns false if out of memory. */
static enum hf_status count_objects(struct counting *counting, const char *folder,
                                    struct view delimiter, take_fn *take,
                                    struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    check(index_key(counting->index, prefix, "%s", folder));
    struct pages pages = { .list = { .prefix = view_of(prefix), .delimiter = delimiter } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, counting->index->store)) {
        bool taken = true;
        for (size_t i = 0; i < pages.list.count; i++)
            if (!pages.list.entries[i].is_prefix)
                taken = taken && take(counting, &pages.list.entries[i]);
        if (!taken)
            status = error_no_memory(error);
        else if (counting->step &&
                 !counting->step(counting->argument, counting->index_stats.entries))
            status = error_set(error, HF_CANCELLED, "stopped while entries were being counted");
    }
    return pages_end(&pages, status, error);
}

/* ---- The inbox ----------------------------------------------------------------------- */

static void note_waiting(struct counting *counting, struct shard_id shard)
{
    size_t number;
    if (!shard_number(view_of(shard.text), counting->index->schema.digits, &number))
        return;
    uint8_t bit = (uint8_t)(1u << (number % 8));
    if (counting->marked[number / 8] & bit)
        return;
    counting->marked[number / 8] |= bit;
    counting->index_stats.shards_waiting++;
}

static bool count_entry(struct counting *counting, const struct list_entry *object)
{
    struct index_stats *index_stats = &counting->index_stats;
    const struct schema *schema = &counting->index->schema;
    struct entry_name name =
        entry_read(view_from(object->key, counting->root), schema->digits, &counting->key);
    if (counting->key.failed)
        return false;
    if (name.kind == ENTRY_NONE)
        return true;
    bool foreign = name.kind == ENTRY_FOREIGN && schema->foreign;
    if (object->info.size == 0) {
        index_stats->markers++;
    } else if (name.kind != ENTRY_OURS && !foreign) {
        index_stats->strays++;
    } else {
        index_stats->entries++;
        index_stats->entries_foreign += foreign;
        index_stats->entry_bytes += object->info.size;
        note_waiting(counting, name.shard);
        if (!index_stats->oldest_known ||
            wall_before(object->info.modified, index_stats->oldest))
            index_stats->oldest = object->info.modified;
        index_stats->oldest_known = true;
    }
    return true;
}

/* ---- Shards -------------------------------------------------------------------------- */

static bool count_shard(struct counting *counting, const struct list_entry *object)
{
    struct index_stats *index_stats = &counting->index_stats;
    struct view name = view_from(object->key, counting->root + sizeof LAYOUT_SHARD_FOLDER - 1);
    size_t number, end = name.size - (sizeof LAYOUT_SHARD - 1);
    unsigned digits = counting->index->schema.digits;
    if (!view_ends_with(name, VIEW(LAYOUT_SHARD)) ||
        !shard_number(view_first(name, end), digits, &number))
        return true;
    index_stats->shards++;
    index_stats->shard_bytes += object->info.size;
    if (index_stats->shards == 1 || object->info.size > index_stats->shard_bytes_max) {
        index_stats->shard_bytes_max = object->info.size;
        index_stats->largest = shard_of_number(number, digits);
    }
    return true;
}

/* Shards that cannot be read are missing from the statistics. */
static enum hf_status count_records(struct counting *counting, struct hf_error *error)
{
    struct index_stats *index_stats = &counting->index_stats;
    struct manifest manifest;
    enum hf_status status = manifest_read(counting->index, &manifest, error);
    if (status == HF_NOT_FOUND || status == HF_CORRUPT)
        return error_clear(error);
    if (status != HF_OK)
        return status;
    index_stats->records_known = true;
    index_stats->records_at = manifest.written_at;
    for (size_t i = 0; i < manifest.count; i++) {
        index_stats->records += manifest.rows[i].records;
        index_stats->deletions += manifest.rows[i].deletions;
    }
    manifest_release(&manifest);
    return HF_OK;
}

/* ---- Locks --------------------------------------------------------------------------- */

static bool add_holder(struct counting *counting, const struct table_snapshot *sight,
                       const struct lease *lease)
{
    struct index_stats *index_stats = &counting->index_stats;
    if (index_stats->holder_count++ >= STATS_HOLDERS_MAX)
        return true;
    if (!index_stats->holders) {
        index_stats->holders = calloc(STATS_HOLDERS_MAX, sizeof *index_stats->holders);
        if (!index_stats->holders)
            return false;
    }
    struct stats_holder *holder = &index_stats->holders[index_stats->holder_count - 1];
    struct view shard = view_from(sight->key, counting->root + sizeof LAYOUT_SHARD_FOLDER - 1);
    *holder = (struct stats_holder){
        .token = lease->token,
        .over = lease_judge(&sight->settings, lease, &sight->evidence) != PROOF_NONE,
        .created_at = lease->acquired_at,
        .expires_at = lease->expires_at,
    };
    snprintf(holder->shard.text, sizeof holder->shard.text, "%.*s",
             (int)counting->index->schema.digits, shard.data);
    snprintf(holder->worker, sizeof holder->worker, "%.*s", VIEW_ARGS(lease->holder));
    return true;
}

static enum hf_status see_lock(void *argument, const struct table_snapshot *sight,
                               struct hf_error *error)
{
    struct counting *counting = argument;
    if (!sight->table) {
        counting->index_stats.locks_unreadable++;
        return HF_OK;
    }
    for (size_t i = 0; i < sight->table->lease_count; i++) {
        const struct lease *lease = sight->table->leases[i];
        if (lease->status == LEASE_ACTIVE && !add_holder(counting, sight, lease))
            return error_no_memory(error);
    }
    return HF_OK;
}

static enum hf_status count_locks(struct counting *counting, struct hf_error *error)
{
    char start[sizeof "shard:/" + INDEX_NAME_MAX];
    struct hf_client *client = counting->index->client, *own = NULL;
    struct table_reader look;
    if (!client) {
        if (client_new(counting->index->store, /* options */ NULL, &own, error) != HF_OK)
            return error->status;
        client = own;
    }
    snprintf(start, sizeof start, "shard:%s/", counting->index->name);
    table_reader_init(&look, client);
    enum hf_status status = table_reader_list(&look, view_of(start), see_lock, counting, error);
    table_reader_release(&look);
    hf_client_close(own);
    return status;
}

/* ---- Entries set aside --------------------------------------------------------------- */

static bool count_aside(struct counting *counting, const struct list_entry *object)
{
    counting->index_stats.aside += view_ends_with(object->key, VIEW(".usv"));
    if (view_ends_with(object->key, VIEW(".json")) && counting->note_count < STATS_REASONS_MAX)
        snprintf(counting->notes[counting->note_count++], KEY_BYTES_MAX + 1, "%.*s",
                 VIEW_ARGS(object->key));
    return true;
}

/* If the note cannot be read, no reason is reported. */
static void read_note(struct index_stats *index_stats, struct view text)
{
    struct json_reader reader = json_read(text);
    struct buffer entry = BUFFER_INIT(ASIDE_NOTE_MAX), why = BUFFER_INIT(ASIDE_NOTE_MAX);
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("entry")))
            json_take_string(&reader, &entry);
        else if (view_equal(name, VIEW("reason")))
            json_take_string(&reader, &why);
        else
            json_skip(&reader, &raw);
    }
    if (json_end(&reader)) {
        size_t i = index_stats->reason_count++;
        snprintf(index_stats->reasons[i].entry, sizeof index_stats->reasons[i].entry, "%.*s",
                 VIEW_ARGS(buffer_view(&entry)));
        snprintf(index_stats->reasons[i].why, sizeof index_stats->reasons[i].why, "%.*s",
                 VIEW_ARGS(buffer_view(&why)));
    }
    buffer_release(&entry);
    buffer_release(&why);
}

static enum hf_status read_notes(struct counting *counting, struct hf_error *error)
{
    struct get_call gets[STATS_REASONS_MAX];
    struct buffer texts[STATS_REASONS_MAX];
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < counting->note_count; i++) {
        texts[i] = BUFFER_INIT(ASIDE_NOTE_MAX);
        gets[i] = (struct get_call){ .key = view_of(counting->notes[i]), .body = &texts[i] };
    }
    if (counting->note_count > 0)
        store_get_many(counting->index->store, gets, counting->note_count);
    for (size_t i = 0; i < counting->note_count; i++) {
        enum hf_status got = gets[i].error.status;
        if (got == HF_OK)
            read_note(&counting->index_stats, buffer_view(&texts[i]));
        else if (got != HF_NOT_FOUND && got != HF_INVALID && status == HF_OK)
            status = (*error = gets[i].error).status;
        buffer_release(&texts[i]);
    }
    return status;
}

/* ---- Entry points -------------------------------------------------------------------- */

static enum hf_status count_index(struct counting *counting, struct hf_error *error)
{
    enum hf_status status =
        count_objects(counting, LAYOUT_INBOX_FOLDER, VIEW(""), count_entry, error);
    if (status == HF_OK && counting->index->schema.foreign)
        status = count_objects(counting, "", VIEW("/"), count_entry, error);
    if (status == HF_OK)
        status = count_objects(counting, LAYOUT_SHARD_FOLDER, VIEW(""), count_shard, error);
    if (status == HF_OK)
        status = count_records(counting, error);
    if (status == HF_OK)
        status = count_locks(counting, error);
    if (status == HF_OK)
        status = count_objects(counting, LAYOUT_ASIDE_FOLDER, VIEW(""), count_aside, error);
    if (status == HF_OK)
        status = read_notes(counting, error);
    return status;
}

enum hf_status index_stats_take(struct index *index,
                                bool (*step)(void *argument, uint64_t entries), void *argument,
                                struct index_stats *ret_stats, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1];
    struct counting *counting = calloc(1, sizeof *counting);
    if (!counting)
        return error_no_memory(error);
    check(index_key(index, root, "%s", ""));
    counting->index = index;
    counting->step = step;
    counting->argument = argument;
    counting->root = strlen(root);
    counting->key = BUFFER_INIT(KEY_BYTES_MAX);
    counting->marked = calloc(shard_count(index->schema.digits) / 8, 1);
    enum hf_status status =
        counting->marked ? count_index(counting, error) : error_no_memory(error);
    if (status == HF_OK)
        *ret_stats = counting->index_stats;
    else
        index_stats_release(&counting->index_stats);
    free(counting->marked);
    buffer_release(&counting->key);
    free(counting);
    return status;
}
