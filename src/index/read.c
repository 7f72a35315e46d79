/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: looks up one key in the inbox and in the shard. The inbox is read first: if an entry is
 * folded before it is read there, its record is found in the shard. */
#include "index/read.h"

#include "base/check.h"
#include "base/mutant.h"
#include "index/pending.h"
#include "store/pages.h"

#include <stdlib.h>

/* How many times in a row a shard may be replaced while it is being read. */
#define SHARD_TRIES_MAX 8

/* ---- Queries ------------------------------------------------------------------------- */

static bool meets_condition(const struct condition_on_field *condition, struct view record)
{
    struct view written = VIEW("");
    bool more = true;
    for (size_t i = 0; i <= condition->field; i++)
        written = more ? field_cut(&record, &more) : VIEW("");
    return field_is(written, condition->value) != condition->differs;
}

bool index_query_takes(const struct index_query *query, const struct record *record)
{
    if (query->since_given && instant_compare(record->time, query->since) < 0)
        return false;
    for (size_t i = 0; i < query->where_count; i++)
        if (!meets_condition(&query->where[i], record->bytes))
            return false;
    return true;
}

/* ---- One key ------------------------------------------------------------------------- */

/* A lookup, and the latest record so far. */
struct lookup {
    struct index *index;
    struct view key;
    struct shard_id shard;
    struct entry *entries;
    size_t count, capacity;
    struct arena arena; /* for entry names */
    struct pending pending;
    struct shard_cursor cursor;
    bool found;
    struct record record; /* in `pending` or in the cursor */
};

typedef enum hf_status lookup_step(struct lookup *lookup, struct hf_error *error);

static struct entry *add_lookup_entry(struct lookup *lookup, struct view object,
                                      struct entry_name name)
{
    if (lookup->count == lookup->capacity) {
        size_t capacity = lookup->capacity > 0 ? lookup->capacity * 2 : 16;
        struct entry *entries = realloc(lookup->entries, capacity * sizeof *entries);
        if (!entries)
            return NULL;
        lookup->entries = entries;
        lookup->capacity = capacity;
    }
    struct view copy = arena_copy(&lookup->arena, object);
    if (!copy.data)
        return NULL;
    struct entry *entry = &lookup->entries[lookup->count++];
    *entry = (struct entry){ .object = copy, .name = name, .key = lookup->key };
    return entry;
}

/* Adds one page of our entries. Strays with similar names are left to the compilers. */
static enum hf_status add_own_entries(struct lookup *lookup, const struct list_call *page,
                                      size_t root, struct buffer *space, struct hf_error *error)
{
    const unsigned digits = lookup->index->schema.digits;
    for (size_t i = 0; i < page->count; i++) {
        const struct list_entry *object = &page->entries[i];
        struct entry_name name = entry_read(view_from(object->key, root), digits, space);
        if (space->failed)
            return error_no_memory(error);
        if (object->is_prefix || name.kind != ENTRY_OURS)
            continue;
        struct entry *entry = add_lookup_entry(lookup, object->key, name);
        if (!entry)
            return error_no_memory(error);
        entry->size = object->info.size;
        entry->etag = object->info.etag;
    }
    if (lookup->count > INBOX_LIST_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "more than %d entries for this key are waiting in the inbox of %s",
                         INBOX_LIST_MAX, lookup->index->name);
    return HF_OK;
}

static enum hf_status list_ours(struct lookup *lookup, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1], prefix[KEY_BYTES_MAX + 1];
    struct key_name name = key_name_of(lookup->key);
    struct buffer space = BUFFER_INIT(KEY_BYTES_MAX);
    check(index_key(lookup->index, root, "%s", "") &&
          index_key(lookup->index, prefix, LAYOUT_INBOX_FOLDER "%s/%s~", lookup->shard.text,
                    name.text));
    struct pages pages = { .list = { .prefix = view_of(prefix) } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, lookup->index->store))
        status = add_own_entries(lookup, &pages.list, strlen(root), &space, error);
    buffer_release(&space);
    return pages_end(&pages, status, error);
}

/* Adds the names that other programs may use. Most of these objects do not exist, and count as
 * vanished when they are read. */
static enum hf_status add_foreign(struct lookup *lookup, struct hf_error *error)
{
    char(*keys)[KEY_BYTES_MAX + 1] = malloc(FOREIGN_NAMES_MAX * sizeof *keys);
    if (!keys)
        return error_no_memory(error);
    const struct entry_name name = { .kind = ENTRY_FOREIGN, .shard = lookup->shard };
    size_t count =
        foreign_keys(view_of(lookup->index->name), &lookup->index->schema, lookup->key, keys);
    size_t added = 0;
    while (added < count && add_lookup_entry(lookup, view_of(keys[added]), name))
        added++;
    free(keys);
    return added == count ? HF_OK : error_no_memory(error);
}

static void take_later(struct lookup *lookup, const struct record *record)
{
    if (!lookup->found || record_compare(&lookup->record, record) < 0)
        lookup->record = *record;
    lookup->found = true;
}

static enum hf_status look_in_inbox(struct lookup *lookup, struct hf_error *error)
{
    struct record record;
    enum hf_status status = list_ours(lookup, error);
    if (status == HF_OK)
        status = add_foreign(lookup, error);
    if (status == HF_OK)
        status = pending_add(&lookup->pending, lookup->entries, lookup->count, error);
    if (status == HF_OK)
        status = pending_next(&lookup->pending, &record, error);
    if (status == HF_OK)
        take_later(lookup, &record);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

static enum hf_status look_in_shard(struct lookup *lookup, struct hf_error *error)
{
    struct record record;
    enum hf_status status = HF_CONFLICT;
    unsigned tries = 0;
    while (status == HF_CONFLICT && tries++ < SHARD_TRIES_MAX) {
        shard_cursor_close(&lookup->cursor);
        status = shard_cursor_open(&lookup->cursor, lookup->index, lookup->shard,
                                   SHARD_READ_SMALL, error);
        if (status == HF_OK)
            status = shard_cursor_find(&lookup->cursor, lookup->key, &record, error);
    }
    if (status == HF_OK)
        take_later(lookup, &record);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

enum hf_status index_get(struct index *index, struct view key, struct buffer *ret_bytes,
                         struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    if (key.size == 0 || key.size > INDEX_KEY_BYTES_MAX)
        return error_set(error, HF_NOT_FOUND, "no such key: keys are 1 to %d bytes long",
                         INDEX_KEY_BYTES_MAX);
    struct lookup lookup = { .index = index,
                             .key = key,
                             .shard = shard_of_key(key, index->schema.digits),
                             .arena = ARENA_INIT };
    client_active(index->client);
    pending_init(&lookup.pending, index, /* wanted */ NULL);
    /* The inbox is read before the shard: if an entry is already gone from the inbox, its record is
     * in the shard. In the opposite order, a key that is folded between the two reads would be
     * missed by both. */
    lookup_step *first = look_in_inbox, *second = look_in_shard;
    MUTANT(mutant_looks_in_shard_first(&first, &second));
    enum hf_status status = first(&lookup, &why);
    if (status == HF_OK)
        status = second(&lookup, &why);
    if (status == HF_OK && !lookup.found)
        status = error_set(&why, HF_NOT_FOUND, "the index %s has no such key", index->name);
    if (status == HF_OK && !buffer_append(ret_bytes, lookup.record.bytes))
        status = error_no_memory(&why);
    shard_cursor_close(&lookup.cursor);
    pending_free(&lookup.pending);
    arena_release(&lookup.arena);
    free(lookup.entries);
    if (error)
        *error = why;
    return status;
}
