/* census.c: an index counted, by listings and a few reads. Changes nothing and decides nothing. */
#include "index/census.h"

#include "base/check.h"
#include "base/json.h"
#include "lock/look.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

#define ASIDE_NOTE_MAX ((size_t)64 * 1024)

/* One census under way. */
struct counting {
    struct index *index;
    struct census census;
    bool (*step)(void *argument, uint64_t entries);
    void *argument;
    size_t root;     /* the size of indexes/<name>/ */
    uint8_t *marked; /* one bit a shard: it has entries */
    struct buffer key;
    char notes[CENSUS_REASONS_MAX][KEY_BYTES_MAX + 1]; /* the first that say why */
    size_t note_count;
};

void census_release(struct census *census)
{
    free(census->holders);
    census->holders = NULL;
    census->holder_count = 0;
}

/* ---- Listings ------------------------------------------------------------------------ */

typedef bool take_fn(struct counting *counting, const struct list_entry *object);

static enum hf_status tell_progress(struct counting *counting, struct hf_error *error)
{
    if (!counting->step || counting->step(counting->argument, counting->census.entries))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped while entries were counted");
}

/* Shows every object that starts like this to `take`, which is false without memory. */
static enum hf_status walk(struct counting *counting, const char *folder, struct view delimiter,
                           take_fn *take, struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    check(index_key(counting->index, prefix, "%s", folder));
    struct pages pages = { .list = { .prefix = view_of(prefix), .delimiter = delimiter } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, counting->index->store)) {
        for (size_t i = 0; i < pages.list.count && status == HF_OK; i++)
            if (!pages.list.entries[i].is_prefix && !take(counting, &pages.list.entries[i]))
                status = error_no_memory(error);
        if (status == HF_OK)
            status = tell_progress(counting, error);
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
    counting->census.shards_waiting++;
}

static void note_age(struct census *census, struct wall_time written)
{
    if (!census->oldest_known || wall_before(written, census->oldest))
        census->oldest = written;
    census->oldest_known = true;
}

static bool count_entry(struct counting *counting, const struct list_entry *object)
{
    struct census *census = &counting->census;
    const struct schema *schema = &counting->index->schema;
    struct entry_name name =
        entry_read(view_from(object->key, counting->root), schema->digits, &counting->key);
    if (counting->key.failed)
        return false;
    if (name.kind == ENTRY_NONE)
        return true;
    bool foreign = name.kind == ENTRY_FOREIGN && schema->foreign;
    if (object->info.size == 0) {
        census->markers++;
    } else if (name.kind != ENTRY_OURS && !foreign) {
        census->strays++;
    } else {
        census->entries++;
        census->entries_foreign += foreign;
        census->entry_bytes += object->info.size;
        note_waiting(counting, name.shard);
        note_age(census, object->info.modified);
    }
    return true;
}

static enum hf_status count_inbox(struct counting *counting, struct hf_error *error)
{
    enum hf_status status =
        walk(counting, LAYOUT_INBOX_FOLDER, /* delimiter */ VIEW(""), count_entry, error);
    if (status == HF_OK && counting->index->schema.foreign)
        status = walk(counting, "", VIEW("/"), count_entry, error);
    return status;
}

/* ---- Shards -------------------------------------------------------------------------- */

static bool count_shard(struct counting *counting, const struct list_entry *object)
{
    struct census *census = &counting->census;
    struct view name = view_from(object->key, counting->root + sizeof LAYOUT_SHARD_FOLDER - 1);
    size_t number, end = name.size - (sizeof LAYOUT_SHARD - 1);
    unsigned digits = counting->index->schema.digits;
    if (!view_ends_with(name, VIEW(LAYOUT_SHARD)) ||
        !shard_number(view_first(name, end), digits, &number))
        return true;
    census->shards++;
    census->shard_bytes += object->info.size;
    if (census->shards == 1 || object->info.size > census->shard_bytes_max) {
        census->shard_bytes_max = object->info.size;
        census->largest = shard_of_number(number, digits);
    }
    return true;
}

/* What cannot be read is statistics that we do not have. */
static enum hf_status count_records(struct counting *counting, struct hf_error *error)
{
    struct census *census = &counting->census;
    struct manifest manifest;
    enum hf_status status = manifest_read(counting->index, &manifest, error);
    if (status == HF_NOT_FOUND || status == HF_CORRUPT)
        return error_clear(error);
    if (status != HF_OK)
        return status;
    census->records_known = true;
    census->records_at = manifest.written_at;
    for (size_t i = 0; i < manifest.count; i++)
        census->records += manifest.rows[i].records;
    manifest_release(&manifest);
    return HF_OK;
}

/* ---- Locks --------------------------------------------------------------------------- */

static bool add_holder(struct counting *counting, const struct sight *sight,
                       const struct lease *lease)
{
    struct census *census = &counting->census;
    if (census->holder_count++ >= CENSUS_HOLDERS_MAX)
        return true;
    if (!census->holders) {
        census->holders = calloc(CENSUS_HOLDERS_MAX, sizeof *census->holders);
        if (!census->holders)
            return false;
    }
    struct census_holder *holder = &census->holders[census->holder_count - 1];
    struct view shard = view_from(sight->key, counting->root + sizeof LAYOUT_SHARD_FOLDER - 1);
    *holder = (struct census_holder){
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

static enum hf_status see_lock(void *argument, const struct sight *sight,
                               struct hf_error *error)
{
    struct counting *counting = argument;
    if (!sight->table) {
        counting->census.locks_unreadable++;
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
    struct look look;
    if (!client) {
        if (client_new(counting->index->store, /* options */ NULL, &own, error) != HF_OK)
            return error->status;
        client = own;
    }
    snprintf(start, sizeof start, "shard:%s/", counting->index->name);
    look_init(&look, client);
    enum hf_status status = look_around(&look, view_of(start), see_lock, counting, error);
    look_release(&look);
    hf_client_close(own);
    return status;
}

/* ---- What was set aside -------------------------------------------------------------- */

static bool count_aside(struct counting *counting, const struct list_entry *object)
{
    counting->census.aside += view_ends_with(object->key, VIEW(".usv"));
    if (view_ends_with(object->key, VIEW(".json")) && counting->note_count < CENSUS_REASONS_MAX)
        snprintf(counting->notes[counting->note_count++], KEY_BYTES_MAX + 1, "%.*s",
                 VIEW_ARGS(object->key));
    return true;
}

/* One that cannot be read gives no reason. */
static void read_note(struct census *census, struct view text)
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
        size_t i = census->reason_count++;
        snprintf(census->reasons[i].entry, sizeof census->reasons[i].entry, "%.*s",
                 VIEW_ARGS(buffer_view(&entry)));
        snprintf(census->reasons[i].why, sizeof census->reasons[i].why, "%.*s",
                 VIEW_ARGS(buffer_view(&why)));
    }
    buffer_release(&entry);
    buffer_release(&why);
}

static enum hf_status read_notes(struct counting *counting, struct hf_error *error)
{
    struct get_call gets[CENSUS_REASONS_MAX];
    struct buffer texts[CENSUS_REASONS_MAX];
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
            read_note(&counting->census, buffer_view(&texts[i]));
        else if (got != HF_NOT_FOUND && got != HF_INVALID && status == HF_OK)
            status = (*error = gets[i].error).status;
        buffer_release(&texts[i]);
    }
    return status;
}

/* ---- All of it ----------------------------------------------------------------------- */

static enum hf_status count_all(struct counting *counting, struct hf_error *error)
{
    enum hf_status status = count_inbox(counting, error);
    if (status == HF_OK)
        status = walk(counting, LAYOUT_SHARD_FOLDER, VIEW(""), count_shard, error);
    if (status == HF_OK)
        status = count_records(counting, error);
    if (status == HF_OK)
        status = count_locks(counting, error);
    if (status == HF_OK)
        status = walk(counting, LAYOUT_ASIDE_FOLDER, VIEW(""), count_aside, error);
    if (status == HF_OK)
        status = read_notes(counting, error);
    return status;
}

enum hf_status census_take(struct index *index, bool (*step)(void *argument, uint64_t entries),
                           void *argument, struct census *ret_census, struct hf_error *error)
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
        counting->marked ? count_all(counting, error) : error_no_memory(error);
    if (status == HF_OK)
        *ret_census = counting->census;
    else
        census_release(&counting->census);
    free(counting->marked);
    buffer_release(&counting->key);
    free(counting);
    return status;
}
