/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: looks up one key in the inbox and in the shard. The inbox is read first: if an entry is
 * folded before it is read there, its record is found in the shard. */
#include "index/read.h"

#include "base/check.h"
#include "base/mutant.h"
#include "index/pending.h"
#include "index/shard_cache.h"
#include "store/pages.h"

#include <stdlib.h>

/* How many times in a row a shard may be replaced while it is being read. */
#define SHARD_TRIES_MAX 8

/* ---- Queries ------------------------------------------------------------------------- */

bool index_query_takes(const struct index_query *query, const struct record *record)
{
    if (query->since_given && instant_compare(record->time, query->since) < 0)
        return false;
    for (size_t i = 0; i < query->where_count; i++)
        if (!condition_holds(&query->where[i], record))
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
    struct shard_cursor *cursor; /* of the cache, or NULL if the shard was not read */
    bool found;
    bool shard_read;      /* without trouble */
    bool in_shard;        /* the shard has the key, or a deletion of it */
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
    if (!lookup->index->schema.foreign)
        return HF_OK;
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

/* Opens the shard, and looks for the key in it. */
static enum hf_status find_in_shard(struct lookup *lookup, struct record *ret_record,
                                    struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    unsigned tries = 0;
    if (!lookup->cursor)
        lookup->cursor = calloc(1, sizeof *lookup->cursor);
    if (!lookup->cursor)
        return error_no_memory(error);
    while (status == HF_CONFLICT && tries++ < SHARD_TRIES_MAX) {
        shard_cursor_close(lookup->cursor);
        status = shard_cursor_open(lookup->cursor, lookup->index, lookup->shard,
                                   SHARD_READ_SMALL, error);
        if (status == HF_OK)
            status = shard_cursor_find(lookup->cursor, lookup->key, ret_record, error);
    }
    return status;
}

/* Looks for the key in the shard as it is now: with what is kept of it or, if there is nothing or
 * it is of no use any more, from the start. */
static enum hf_status look_in_shard(struct lookup *lookup, struct hf_error *error)
{
    struct record record;
    enum hf_status status = HF_CONFLICT;
    lookup->cursor = shard_cache_take(lookup->index->cache, lookup->shard);
    if (lookup->cursor) {
        lookup->cursor->index = lookup->index;
        status = shard_cursor_find_again(lookup->cursor, lookup->key, &record, error);
    }
    if (status == HF_CONFLICT)
        status = find_in_shard(lookup, &record, error);
    lookup->shard_read = status == HF_OK || status == HF_NOT_FOUND;
    lookup->in_shard = status == HF_OK;
    if (status == HF_OK)
        take_later(lookup, &record);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

/* Whether there is a record that is to be shown. */
static bool has_record_to_show(const struct lookup *lookup)
{
    if (!lookup->found || lookup->record.deleted)
        return false;
    return lookup->in_shard || !shard_hides(lookup->cursor, &lookup->record);
}

static enum hf_status check_key_size(struct view key, struct hf_error *error)
{
    if (key.size > 0 && key.size <= INDEX_KEY_BYTES_MAX)
        return HF_OK;
    return error_set(error, HF_NOT_FOUND, "no such key: keys are 1 to %d bytes long",
                     INDEX_KEY_BYTES_MAX);
}

enum hf_status index_get(struct index *index, struct view key, struct buffer *ret_bytes,
                         struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    if (check_key_size(key, error) != HF_OK)
        return HF_NOT_FOUND;
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
    if (status == HF_OK && !has_record_to_show(&lookup))
        status = error_set(&why, HF_NOT_FOUND, "the index %s has no such key", index->name);
    if (status == HF_OK && !buffer_append(ret_bytes, lookup.record.bytes))
        status = error_no_memory(&why);
    if (lookup.shard_read)
        shard_cache_give(index->cache, lookup.cursor);
    else
        shard_cursor_free(lookup.cursor);
    pending_free(&lookup.pending);
    arena_release(&lookup.arena);
    free(lookup.entries);
    if (error)
        *error = why;
    return status;
}

/* ---- Many keys ------------------------------------------------------------------------- */

/* A key that is looked up; keys may repeat. */
struct asked_key {
    struct wanted_key wanted;
    size_t number;
};

struct many_lookup {
    struct index *index;
    const struct index_getter *getter;
    struct asked_key *asked; /* in the order of shards and keys */
    size_t count;
    size_t next; /* the first key that has not been answered */
    struct wanted_key *keys;
    size_t key_count;
    struct hf_error first; /* why the first shard could not be read, ... */
    bool missing;          /* ... and whether some key has no record */
};

static int compare_asked(const void *a, const void *b)
{
    const struct asked_key *left = a, *right = b;
    if (left->wanted.shard != right->wanted.shard)
        return left->wanted.shard < right->wanted.shard ? -1 : 1;
    int order = view_compare(left->wanted.key, right->wanted.key);
    if (order == 0)
        order = left->number < right->number ? -1 : left->number > right->number;
    return order;
}

/* Answers one key. */
static enum hf_status answer_key(struct many_lookup *many, size_t number,
                                 const struct record *record, const struct hf_error *why,
                                 struct hf_error *error)
{
    const struct index_getter *getter = many->getter;
    struct hf_error good = { .status = HF_OK };
    if (why && why->status == HF_NOT_FOUND)
        many->missing = true;
    return getter->each(getter->argument, number, record, why ? why : &good, error);
}

static enum hf_status answer_next(struct many_lookup *many, const struct record *record,
                                  const struct hf_error *why, struct hf_error *error)
{
    return answer_key(many, many->asked[many->next++].number, record, why, error);
}

static enum hf_status answer_missing(struct many_lookup *many, struct hf_error *error)
{
    struct hf_error why;
    error_set(&why, HF_NOT_FOUND, "the index %s has no such key", many->index->name);
    return answer_next(many, NULL, &why, error);
}

/* Answers all keys before this record, which have none, and then its own. */
static enum hf_status answer_record(struct many_lookup *many, size_t shard,
                                    const struct record *record, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK && many->next < many->count) {
        const struct wanted_key *key = &many->asked[many->next].wanted;
        bool before = key->shard < shard ||
                      (key->shard == shard && view_compare(key->key, record->key) < 0);
        if (before)
            status = answer_missing(many, error);
        else if (key->shard == shard && view_equal(key->key, record->key))
            status = answer_next(many, record, NULL, error);
        else
            break;
    }
    return status;
}

/* Answers the keys of earlier shards, which have no records, and then all keys of the shard that
 * could not be read; `to_end`: of all shards that were not read. */
static enum hf_status answer_failure(struct many_lookup *many, size_t shard, bool to_end,
                                     const struct hf_error *why, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (many->first.status == HF_OK)
        many->first = *why;
    while (status == HF_OK && many->next < many->count) {
        size_t at = many->asked[many->next].wanted.shard;
        if (at > shard && !to_end)
            break;
        status = at < shard ? answer_missing(many, error) : answer_next(many, NULL, why, error);
    }
    return status;
}

static enum hf_status answer_walk(struct many_lookup *many, struct walk *walk,
                                  struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = HF_OK;
    while (status == HF_OK) {
        struct record record;
        enum hf_status read = walk_next(walk, &record, &why);
        if (read == HF_NOT_FOUND)
            break;
        status = read == HF_OK
                     ? answer_record(many, walk_shard(walk), &record, error)
                     : answer_failure(many, walk_shard(walk), walk_gave_up(walk), &why, error);
    }
    while (status == HF_OK && many->next < many->count)
        status = answer_missing(many, error);
    return status;
}

/* Sorts the keys by shard, and collects each once. A key that no record can have is answered
 * immediately. */
static enum hf_status sort_keys(struct many_lookup *many, const struct view *keys, size_t count,
                                struct hf_error *error)
{
    const unsigned digits = many->index->schema.digits;
    many->asked = calloc(count, sizeof *many->asked);
    many->keys = calloc(count, sizeof *many->keys);
    if (!many->asked || !many->keys)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        struct hf_error why;
        struct asked_key asked = { .wanted.key = keys[i], .number = i };
        if (check_key_size(keys[i], &why) != HF_OK) {
            enum hf_status status = answer_key(many, i, NULL, &why, error);
            if (status != HF_OK)
                return status;
            continue;
        }
        struct shard_id shard = shard_of_key(keys[i], digits);
        check(shard_number(view_of(shard.text), digits, &asked.wanted.shard));
        many->asked[many->count++] = asked;
    }
    if (many->count > 1)
        qsort(many->asked, many->count, sizeof *many->asked, compare_asked);
    for (size_t i = 0; i < many->count; i++)
        if (i == 0 || !view_equal(many->asked[i].wanted.key, many->asked[i - 1].wanted.key))
            many->keys[many->key_count++] = many->asked[i].wanted;
    return HF_OK;
}

enum hf_status index_get_many(struct index *index, const struct view *keys, size_t count,
                              const struct index_getter *getter, struct hf_error *error)
{
    struct many_lookup many = { .index = index, .getter = getter };
    struct walk *walk = NULL;
    if (count == 0)
        return error_clear(error);
    enum hf_status status = sort_keys(&many, keys, count, error);
    const struct index_query query = { .keys = many.keys, .key_count = many.key_count };
    if (status == HF_OK && many.key_count > 0)
        status = walk_open(index, &query, /* visitor */ NULL, &walk, error);
    if (walk)
        status = answer_walk(&many, walk, error);
    walk_close(walk);
    free(many.asked);
    free(many.keys);
    if (status != HF_OK)
        return status;
    if (many.first.status != HF_OK)
        *error = many.first;
    else if (many.missing)
        error_set(error, HF_NOT_FOUND, "the index %s does not have all of these keys",
                  index->name);
    else
        error_clear(error);
    return error->status;
}
