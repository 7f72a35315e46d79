/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c: lists and reads entries. Other programs may write entries too, so the name of each entry
 * is checked against the key and time of its record. inbox_clear.c removes entries. */
#include "index/inbox.h"

#include "base/check.h"
#include "base/rule.h"
#include "store/pages.h"

#include <stdlib.h>

/* The largest entry that is read: a record and its terminator. */
#define ENTRY_BYTES_MAX (INDEX_RECORD_BYTES_MAX + 2)

/* How many bytes longer an entry may be if another program has rewritten it since it was listed. */
#define ENTRY_SLACK ((size_t)512)

#define ENTRIES_AT_FIRST ((size_t)64)

/* ---- Listing ------------------------------------------------------------------------- */

struct listing {
    struct index *index;
    struct view root;      /* indexes/<name>/ */
    struct shard_id shard; /* whose entries are wanted; empty: all shards */
    size_t max;
    struct entry_list list;
    struct buffer key;
};

void entry_list_release(struct entry_list *list)
{
    free(list->entries);
    arena_release(&list->arena);
    *list = (struct entry_list){ 0 };
}

static struct entry *reserve_entry(struct entry_list *list)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? list->capacity * 2 : ENTRIES_AT_FIRST;
        struct entry *entries = realloc(list->entries, capacity * sizeof *entries);
        if (!entries)
            return NULL;
        list->entries = entries;
        list->capacity = capacity;
    }
    return &list->entries[list->count];
}

/* The kind of an object, derived from its name. Entries from other programs count only if the index
 * accepts them; otherwise readers ignore them. */
static struct entry_name read_name(struct listing *listing, struct view object)
{
    const struct schema *schema = &listing->index->schema;
    struct entry_name name =
        entry_read(view_from(object, listing->root.size), schema->digits, &listing->key);
    if (name.kind == ENTRY_FOREIGN && !schema->foreign)
        name.kind = ENTRY_STRAY;
    return name;
}

static bool is_entry_wanted(const struct listing *listing, const struct list_entry *object,
                            const struct entry_name *name)
{
    if (name->kind == ENTRY_NONE)
        return false;
    if (RULE(MARKERS_SAY_NOTHING) && object->info.size == 0)
        return false;
    return listing->shard.text[0] == '\0' || strcmp(name->shard.text, listing->shard.text) == 0;
}

static enum hf_status take_object(struct listing *listing, const struct list_entry *object,
                                  struct hf_error *error)
{
    if (object->is_prefix)
        return HF_OK;
    struct entry_list *list = &listing->list;
    struct entry_name name = read_name(listing, object->key);
    if (listing->key.failed)
        return error_no_memory(error);
    if (!is_entry_wanted(listing, object, &name))
        return HF_OK;
    struct entry *entry = reserve_entry(list);
    if (!entry)
        return error_no_memory(error);
    *entry = (struct entry){ .object = arena_copy(&list->arena, object->key),
                             .name = name,
                             .size = object->info.size,
                             .etag = object->info.etag,
                             .modified = object->info.modified };
    bool has_key = name.kind != ENTRY_STRAY && !name.hashed;
    if (has_key)
        entry->key = arena_copy(&list->arena, buffer_view(&listing->key));
    if (!entry->object.data || (has_key && !entry->key.data))
        return error_no_memory(error);
    list->count++;
    return HF_OK;
}

/* Lists objects with this prefix, page by page, up to the maximum. */
static enum hf_status list_pages(struct listing *listing, struct view prefix,
                                 struct view delimiter, struct view after,
                                 struct hf_error *error)
{
    struct entry_list *list = &listing->list;
    struct pages pages = { .list = {
                               .prefix = prefix, .after = after, .delimiter = delimiter } };
    enum hf_status status = HF_OK;
    while (status == HF_OK && (!pages.begun || pages.list.more)) {
        size_t room = listing->max - list->count;
        pages.list.max = room < LIST_PAGE_MAX ? room : LIST_PAGE_MAX;
        list->more = room == 0;
        if (list->more || !pages_next(&pages, listing->index->store))
            break;
        for (size_t i = 0; i < pages.list.count; i++) {
            status = take_object(listing, &pages.list.entries[i], error);
            if (status != HF_OK)
                break;
        }
    }
    return pages_end(&pages, status, error);
}

static enum hf_status end_listing(struct listing *listing, enum hf_status status,
                                  struct entry_list *ret_list)
{
    buffer_release(&listing->key);
    if (status == HF_OK)
        *ret_list = listing->list;
    else
        entry_list_release(&listing->list);
    return status;
}

enum hf_status inbox_list(struct index *index, struct shard_id shard, struct view after,
                          size_t max, struct entry_list *ret_list, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1], prefix[KEY_BYTES_MAX + 1];
    check(max >= 1 && max <= INBOX_LIST_MAX && shard.text[0] != '\0');
    check(index_key(index, root, "%s", "") &&
          index_key(index, prefix, LAYOUT_INBOX_FOLDER "%s/", shard.text));
    struct listing listing = { .index = index,
                               .root = view_of(root),
                               .shard = shard,
                               .max = max,
                               .key = BUFFER_INIT(KEY_BYTES_MAX) };
    enum hf_status status =
        list_pages(&listing, view_of(prefix), /* delimiter */ VIEW(""), after, error);
    return end_listing(&listing, status, ret_list);
}

enum hf_status inbox_list_flat(struct index *index, struct shard_id shard,
                               struct entry_list *ret_list, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1], inbox[KEY_BYTES_MAX + 1];
    check(index_key(index, root, "%s", "") && index_key(index, inbox, LAYOUT_INBOX_FOLDER));
    struct listing listing = { .index = index,
                               .root = view_of(root),
                               .shard = shard,
                               .max = INBOX_LIST_MAX,
                               .key = BUFFER_INIT(KEY_BYTES_MAX) };
    enum hf_status status = HF_OK;
    if (index->schema.foreign)
        status = list_pages(&listing, view_of(root), VIEW("/"), /* after */ VIEW(""), error);
    if (index->schema.foreign && status == HF_OK && !listing.list.more)
        status = list_pages(&listing, view_of(inbox), VIEW("/"), /* after */ VIEW(""), error);
    return end_listing(&listing, status, ret_list);
}

/* ---- Checking entries ---------------------------------------------------------------- */

/* One call of inbox_load. */
struct loading {
    struct index *index;
    const struct entry *entries;
    struct entry_load load;
    struct view *texts; /* what was read, in the load's arena; data NULL: nothing to check */
    struct buffer space;
};

void entry_load_release(struct entry_load *load)
{
    arena_release(&load->arena);
    *load = (struct entry_load){ 0 };
}

static void set_bad(struct entry_body *body, const char *why)
{
    body->state = ENTRY_BAD;
    error_set(&body->why, HF_INVALID, "%s", why);
}

/* Whether the object's name starts with the name of this key. */
static bool is_name_of(struct view object, struct view key)
{
    struct key_name name = key_name_of(key);
    struct view start = { name.text, name.size };
    while (view_find(object, '/') < object.size)
        view_cut(&object, '/');
    struct view end = view_from(object, start.size);
    return view_starts_with(object, start) && end.size > 0 &&
           (end.data[0] == '~' || view_equal(end, VIEW(LAYOUT_SHARD)));
}

/* A reader finds the entries of a key, and the latest of them, by their names. So the key and time
 * of a record must match the name. */
static const char *find_mismatch(const struct entry *entry, const struct record *record)
{
    bool same = entry->key.data ? view_equal(entry->key, record->key)
                                : is_name_of(entry->object, record->key);
    if (!same)
        return "the key of the record differs from the key in the entry's name";
    if (entry->name.kind == ENTRY_OURS && instant_compare(entry->name.time, record->time) != 0)
        return "the time of the record differs from the time in the entry's name";
    return NULL;
}

/* An unescaped key is in a buffer that the next record reuses, so it is copied. */
static bool copy_unescaped_key(struct loading *loading, struct record *record)
{
    struct view *key = &record->key;
    if (loading->space.size == 0 || key->data != loading->space.data)
        return true;
    *key = arena_copy(&loading->load.arena, *key);
    return key->data != NULL;
}

/* Checks one entry. Returns OK even if the entry is bad; UNAVAILABLE if out of memory. */
static enum hf_status check_entry_text(struct loading *loading, size_t i,
                                       struct hf_error *error)
{
    struct entry_body *body = &loading->load.bodies[i];
    struct view rest = loading->texts[i], bytes;
    struct record record;
    size_t found = 0;
    body->state = ENTRY_READ;
    while (record_cut(&rest, &bytes)) {
        enum hf_status status = record_read_stored(&loading->index->schema, bytes,
                                                   &loading->space, &record, NULL, &body->why);
        if (status == HF_INVALID) {
            body->state = ENTRY_BAD;
            return HF_OK;
        }
        if (status != HF_OK) {
            *error = body->why;
            return status;
        }
        const char *why = find_mismatch(&loading->entries[i], &record);
        if (why) {
            set_bad(body, why);
            return HF_OK;
        }
        if (found++ > 0 && record_compare(&body->record, &record) >= 0)
            continue;
        if (!copy_unescaped_key(loading, &record))
            return error_no_memory(error);
        body->record = record;
    }
    if (found == 0)
        set_bad(body, "it contains no record");
    return error_clear(found > 0 ? &body->why : NULL);
}

/* Checks all entries, or rechecks the bad ones. *ret_bad: some are bad. */
static enum hf_status check_entry_texts(struct loading *loading, bool again, bool *ret_bad,
                                        struct hf_error *error)
{
    *ret_bad = false;
    for (size_t i = 0; i < loading->load.count; i++) {
        struct entry_body *body = &loading->load.bodies[i];
        if (!loading->texts[i].data || (again && body->state != ENTRY_BAD))
            continue;
        enum hf_status status = check_entry_text(loading, i, error);
        if (status != HF_OK)
            return status;
        *ret_bad = *ret_bad || body->state == ENTRY_BAD;
    }
    return HF_OK;
}

/* The schema may have been extended after we read it and before these entries were written. So an
 * entry is bad only if it is also bad by a schema that was read after the entry. */
static enum hf_status check_by_current_schema(struct loading *loading, struct hf_error *error)
{
    struct hf_error why;
    struct etag known = loading->index->etag;
    bool bad;
    if (index_refresh(loading->index, &why) == HF_OK) {
        if (etag_equal(&known, &loading->index->etag))
            return HF_OK;
        return check_entry_texts(loading, /* again */ true, &bad, error);
    }
    for (size_t i = 0; i < loading->load.count; i++) {
        struct entry_body *body = &loading->load.bodies[i];
        if (!loading->texts[i].data || body->state != ENTRY_BAD)
            continue;
        body->state = ENTRY_FAILED;
        body->why = why;
    }
    return HF_OK;
}

/* ---- Reading ------------------------------------------------------------------------- */

size_t inbox_batch(const struct entry *entries, size_t count, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    size_t taken = 0;
    if (count > BATCH_MAX)
        count = BATCH_MAX;
    for (; taken < count; taken++) {
        uint64_t size = entries[taken].size <= ENTRY_BYTES_MAX ? entries[taken].size : 0;
        if (taken > 0 && size > bytes_max - bytes)
            break;
        bytes += size < bytes_max - bytes ? size : bytes_max - bytes;
    }
    return taken;
}

/* Takes the result of a get. The object was not longer than its buffer. */
static void take_get_result(struct loading *loading, size_t i, const struct get_call *get)
{
    struct entry_body *body = &loading->load.bodies[i];
    if (get->error.status == HF_OK) {
        body->etag = get->info.etag;
        if (RULE(MARKERS_SAY_NOTHING) && get->body->size == 0)
            body->state = ENTRY_VANISHED;
        else
            loading->texts[i] = buffer_view(get->body);
    } else if (get->error.status == HF_NOT_FOUND) {
        body->state = ENTRY_VANISHED;
    } else {
        body->state = ENTRY_FAILED;
        body->why = get->error;
    }
}

/* Reads an entry that has grown since it was listed. */
static enum hf_status read_alone(struct loading *loading, size_t i, struct hf_error *error)
{
    struct entry_body *body = &loading->load.bodies[i];
    struct buffer text = BUFFER_INIT(ENTRY_BYTES_MAX);
    struct get_call get = { .key = loading->entries[i].object, .body = &text };
    enum hf_status status = HF_OK;
    if (store_get(loading->index->store, &get) == HF_INVALID) {
        body->etag = get.info.etag;
        set_bad(body, "it exceeds the maximum record size");
    } else {
        take_get_result(loading, i, &get);
    }
    if (loading->texts[i].data) {
        loading->texts[i] = arena_copy(&loading->load.arena, loading->texts[i]);
        if (!loading->texts[i].data)
            status = error_no_memory(error);
        loading->load.bytes += loading->texts[i].size;
    }
    buffer_release(&text);
    return status;
}

/* A buffer in the arena. It never moves, because it is allocated at its maximum size. */
static bool arena_buffer(struct arena *arena, size_t size, struct buffer *ret_buffer)
{
    char *space = arena_take(arena, size + 1);
    *ret_buffer = (struct buffer){ .data = space, .capacity = size + 1, .max = size };
    return space != NULL;
}

/* Why an entry is bad even before it is read, or NULL. */
static const char *find_name_fault(const struct loading *loading, const struct entry *entry)
{
    if (entry->name.kind == ENTRY_FOREIGN && !loading->index->schema.foreign)
        return "this index does not accept entries from other programs";
    if (entry->name.kind != ENTRY_OURS && entry->name.kind != ENTRY_FOREIGN)
        return "its name is not a valid entry name";
    if (entry->size > ENTRY_BYTES_MAX)
        return "it exceeds the maximum record size";
    return NULL;
}

/* The gets of a load; `which` is the index of the entry that each is for. */
struct entry_gets {
    struct get_call *calls;
    struct buffer *bodies;
    size_t *which;
    size_t count;
};

static enum hf_status plan_gets(struct loading *loading, struct entry_gets *gets,
                                struct hf_error *error)
{
    size_t count = loading->load.count;
    gets->calls = calloc(count, sizeof *gets->calls);
    gets->bodies = calloc(count, sizeof *gets->bodies);
    gets->which = calloc(count, sizeof *gets->which);
    if (!gets->calls || !gets->bodies || !gets->which)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &loading->entries[i];
        const char *bad = find_name_fault(loading, entry);
        loading->load.bodies[i].etag = entry->etag;
        if (bad) {
            set_bad(&loading->load.bodies[i], bad);
            continue;
        }
        size_t n = gets->count++;
        if (!arena_buffer(&loading->load.arena, (size_t)entry->size + ENTRY_SLACK,
                          &gets->bodies[n]))
            return error_no_memory(error);
        loading->load.bytes += gets->bodies[n].max;
        gets->calls[n] = (struct get_call){ .key = entry->object, .body = &gets->bodies[n] };
        gets->which[n] = i;
    }
    return HF_OK;
}

static enum hf_status get_bodies(struct loading *loading, struct hf_error *error)
{
    struct entry_gets gets = { 0 };
    enum hf_status status = plan_gets(loading, &gets, error);
    if (status == HF_OK && gets.count > 0)
        store_get_many(loading->index->store, gets.calls, gets.count);
    size_t done = 0;
    while (status == HF_OK && done < gets.count) {
        const struct get_call *get = &gets.calls[done];
        size_t i = gets.which[done++];
        if (get->error.status == HF_INVALID)
            status = read_alone(loading, i, error);
        else
            take_get_result(loading, i, get);
    }
    free(gets.calls);
    free(gets.bodies);
    free(gets.which);
    return status;
}

static enum hf_status load_entries(struct loading *loading, size_t count,
                                   struct hf_error *error)
{
    struct entry_load *load = &loading->load;
    load->bodies = arena_take(&load->arena, count * sizeof *load->bodies);
    loading->texts = arena_take(&load->arena, count * sizeof *loading->texts);
    if (!load->bodies || !loading->texts)
        return error_no_memory(error);
    memset(load->bodies, 0, count * sizeof *load->bodies);
    memset(loading->texts, 0, count * sizeof *loading->texts);
    load->count = count;
    bool bad;
    enum hf_status status = get_bodies(loading, error);
    if (status == HF_OK)
        status = check_entry_texts(loading, /* again */ false, &bad, error);
    if (RULE(SCHEMA_READ_AFTER_ENTRY) && status == HF_OK && bad)
        status = check_by_current_schema(loading, error);
    return status;
}

enum hf_status inbox_load(struct index *index, const struct entry *entries, size_t count,
                          struct entry_load *ret_load, struct hf_error *error)
{
    check(count <= BATCH_MAX);
    struct loading loading = { .index = index,
                               .entries = entries,
                               .space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX) };
    enum hf_status status = count > 0 ? load_entries(&loading, count, error) : HF_OK;
    buffer_release(&loading.space);
    if (status == HF_OK)
        *ret_load = loading.load;
    else
        entry_load_release(&loading.load);
    return status;
}
