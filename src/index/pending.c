/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c: the entries of an inbox as a stream of records in key order, with the latest record of
 * each key. Entries may be folded and cleared in the meantime. If an entry has vanished, the reader
 * opens the shard again, so no key is missed. */
#include "index/pending.h"

#include "base/rule.h"

#include <stdlib.h>

void pending_init(struct pending *pending, struct index *index,
                  const struct index_query *wanted)
{
    *pending = (struct pending){ .index = index,
                                 .wanted = wanted,
                                 .arena = ARENA_INIT,
                                 .bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX) };
}

/* ---- Loading ------------------------------------------------------------------------- */

static void pending_batch_clear(struct pending_batch *batch)
{
    entry_load_release(&batch->load);
    batch->load = (struct entry_load){ 0 };
    batch->count = 0;
    batch->bytes = 0;
}

static void pending_batch_release(struct pending_batch *batch)
{
    pending_batch_clear(batch);
    free(batch->picks);
    *batch = (struct pending_batch){ 0 };
}

/* Makes room for some entries, at most as many as can be loaded together. */
static bool pending_batch_reserve(struct pending_batch *batch, size_t count)
{
    size_t capacity = count < BATCH_MAX ? count : BATCH_MAX;
    if (capacity <= batch->capacity)
        return true;
    struct entry *picks = realloc(batch->picks, capacity * sizeof *picks);
    if (!picks)
        return false;
    batch->picks = picks;
    batch->capacity = capacity;
    return true;
}

/* False if the batch is full. */
static bool pending_batch_pick(struct pending_batch *batch, const struct entry *entry)
{
    uint64_t size = entry->size < INDEX_RECORD_BYTES_MAX ? entry->size : INDEX_RECORD_BYTES_MAX;
    bool first = batch->count == 0;
    if (batch->count == batch->capacity || (!first && batch->bytes + size > PENDING_BYTES))
        return false;
    batch->picks[batch->count++] = *entry;
    batch->bytes += size;
    return true;
}

/* Whether the listed version of an entry is no longer there, because it was folded or rewritten. A
 * compiler may have folded and deleted the entry, and another program may then have written an
 * older record under the same name. The folded record, which may be later, is then only in the
 * shard, so a rewritten entry counts as vanished. */
static bool is_replaced(const struct entry *listed, const struct entry_body *body)
{
    bool rewritten = listed->etag.size > 0 && !etag_equal(&listed->etag, &body->etag);
    return body->state == ENTRY_VANISHED || (RULE(REWRITTEN_IS_VANISHED) && rewritten);
}

static enum hf_status pending_batch_load(struct pending *pending, struct pending_batch *batch,
                                         struct hf_error *error)
{
    if (batch->count == 0)
        return HF_OK;
    enum hf_status status =
        inbox_load(pending->index, batch->picks, batch->count, &batch->load, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < batch->count; i++)
        if (is_replaced(&batch->picks[i], &batch->load.bodies[i]))
            pending->vanished = true;
    return HF_OK;
}

/* ---- Which entries ------------------------------------------------------------------- */

static bool is_key_wanted(const struct pending *pending, struct view key)
{
    size_t low = 0, high = pending->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = view_compare(pending->keys[middle].key, key);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return !pending->keys;
}

/* Whether the record may match the query, judging by the entry's name. An entry that is too early
 * can be skipped, because older records in the shard are not wanted either. */
static bool may_be_wanted(const struct pending *pending, const struct entry *entry)
{
    const struct index_query *wanted = pending->wanted;
    if (!entry->key.data)
        return false;
    if (!wanted)
        return true;
    bool early = wanted->since_given && entry->name.kind == ENTRY_OURS &&
                 instant_compare(entry->name.time, wanted->since) < 0;
    return !early && view_starts_with(entry->key, wanted->prefix) &&
           is_key_wanted(pending, entry->key);
}

static bool is_keyless(const struct entry *entry)
{
    return !entry->key.data && entry->name.kind != ENTRY_STRAY;
}

/* Handles an entry without a record. If reading failed, the entry might be the latest one, so
 * nothing may be returned for its key. */
static enum hf_status note_body(struct pending *pending, const struct entry_body *body,
                                struct hf_error *error)
{
    if (body->state == ENTRY_BAD)
        pending->unreadable++;
    if (body->state != ENTRY_FAILED)
        return HF_OK;
    if (error)
        *error = body->why;
    return body->why.status;
}

/* Reads the keys of entries whose names do not contain them. The records are not kept, because
 * there may be many large ones. */
static enum hf_status learn_keys(struct pending *pending, struct pending_batch *batch,
                                 struct entry *entries, struct hf_error *error)
{
    enum hf_status status = pending_batch_load(pending, batch, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < batch->count; i++) {
        const struct entry_body *body = &batch->load.bodies[i];
        while (!is_keyless(entries) || !view_equal(entries->object, batch->picks[i].object))
            entries++;
        status = note_body(pending, body, error);
        if (status != HF_OK)
            return status;
        if (body->state != ENTRY_READ)
            continue;
        entries->key = arena_copy(&pending->arena, body->record.key);
        if (!entries->key.data)
            return error_no_memory(error);
    }
    return HF_OK;
}

static enum hf_status learn_all_keys(struct pending *pending, struct entry *entries,
                                     size_t count, struct hf_error *error)
{
    struct pending_batch batch = { 0 };
    size_t keyless = 0, i = 0;
    for (size_t n = 0; n < count; n++)
        keyless += is_keyless(&entries[n]);
    if (keyless == 0)
        return HF_OK;
    enum hf_status status =
        pending_batch_reserve(&batch, keyless) ? HF_OK : error_no_memory(error);
    while (status == HF_OK && i < count) {
        size_t first = i;
        while (i < count &&
               (!is_keyless(&entries[i]) || pending_batch_pick(&batch, &entries[i])))
            i++;
        status = learn_keys(pending, &batch, entries + first, error);
        pending_batch_clear(&batch);
    }
    pending_batch_release(&batch);
    return status;
}

static bool reserve(struct pending *pending, size_t extra)
{
    size_t capacity = pending->count + extra;
    if (capacity <= pending->capacity)
        return true;
    struct entry **entries = realloc(pending->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
    pending->entries = entries;
    pending->capacity = capacity;
    return true;
}

enum hf_status pending_add(struct pending *pending, struct entry *entries, size_t count,
                           struct hf_error *error)
{
    enum hf_status status = learn_all_keys(pending, entries, count, error);
    if (status != HF_OK)
        return status;
    if (!reserve(pending, count))
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].name.kind == ENTRY_STRAY)
            pending->unreadable++;
        else if (may_be_wanted(pending, &entries[i]))
            pending->entries[pending->count++] = &entries[i];
    }
    pending->sorted = false;
    return HF_OK;
}

/* ---- In which order ------------------------------------------------------------------ */

static int compare_by_key(const void *a, const void *b)
{
    const struct entry *one = *(struct entry *const *)a;
    const struct entry *two = *(struct entry *const *)b;
    int order = view_compare(one->key, two->key);
    if (order != 0)
        return order;
    bool one_is_ours = one->name.kind == ENTRY_OURS, two_is_ours = two->name.kind == ENTRY_OURS;
    if (one_is_ours != two_is_ours)
        return one_is_ours ? 1 : -1;
    return one_is_ours ? instant_compare(two->name.time, one->name.time) : 0;
}

/* Whether the entry is from another program, or has the latest time among the names of its key.
 * Such entries are read first; the other entries of the key rarely need to be read. Must be called
 * in the order of the entries. */
static bool is_first_choice(struct pending *pending, const struct entry *entry)
{
    if (entry->name.kind != ENTRY_OURS)
        return true;
    if (!pending->top_key.data || !view_equal(pending->top_key, entry->key)) {
        pending->top_key = entry->key;
        pending->top_time = entry->name.time;
    }
    return instant_compare(pending->top_time, entry->name.time) == 0;
}

/* The index of the first entry of a key. */
static size_t find_first_of_key(const struct pending *pending, struct view key)
{
    size_t low = 0, high = pending->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (view_compare(pending->entries[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entries of a key that are not read first. */
static void find_earlier(const struct pending *pending, struct view key, size_t *ret_from,
                         size_t *ret_end)
{
    size_t at = find_first_of_key(pending, key);
    const struct entry *latest = NULL;
    while (at < pending->count && view_equal(pending->entries[at]->key, key)) {
        const struct entry *entry = pending->entries[at];
        if (!latest && entry->name.kind == ENTRY_OURS)
            latest = entry;
        if (latest && instant_compare(latest->name.time, entry->name.time) != 0)
            break;
        at++;
    }
    *ret_from = at;
    while (at < pending->count && view_equal(pending->entries[at]->key, key))
        at++;
    *ret_end = at;
}

/* Loads earlier entries for those keys of the batch whose latest entry could not be read, as many
 * as fit into a batch. During a compile there may be many such keys, and loading the entries
 * together saves requests. */
static enum hf_status load_earlier(struct pending *pending, struct hf_error *error)
{
    const struct pending_batch *batch = &pending->batch;
    struct pending_batch *earlier = &pending->earlier;
    struct view last = { NULL, 0 };
    pending_batch_clear(earlier);
    for (size_t i = 0; i < batch->count; i++) {
        const struct entry *entry = &batch->picks[i];
        size_t from, end;
        if (entry->name.kind != ENTRY_OURS || batch->load.bodies[i].state == ENTRY_READ ||
            (last.data && view_equal(last, entry->key)))
            continue;
        last = entry->key;
        find_earlier(pending, entry->key, &from, &end);
        if (from < end && !pending_batch_reserve(earlier, pending->count))
            return error_no_memory(error);
        while (from < end && pending_batch_pick(earlier, pending->entries[from]))
            from++;
        if (from < end)
            break; /* it is full */
    }
    return pending_batch_load(pending, earlier, error);
}

/* The next batch of first choices; at the end it is empty. */
static enum hf_status refill(struct pending *pending, struct hf_error *error)
{
    pending_batch_clear(&pending->batch);
    pending->shown = 0;
    if (!pending_batch_reserve(&pending->batch, pending->count - pending->next))
        return error_no_memory(error);
    while (pending->next < pending->count) {
        const struct entry *entry = pending->entries[pending->next];
        if (is_first_choice(pending, entry) && !pending_batch_pick(&pending->batch, entry))
            break;
        pending->next++;
    }
    enum hf_status status = pending_batch_load(pending, &pending->batch, error);
    return status == HF_OK ? load_earlier(pending, error) : status;
}

/* ---- One key ------------------------------------------------------------------------- */

/* The latest record of a key so far, in its own memory. */
struct best {
    bool any;  /* some record was found, and ... */
    bool ours; /* ... some entry of ours could be read */
    struct record record;
};

static enum hf_status consider(struct pending *pending, const struct entry *entry,
                               const struct entry_body *body, struct best *best,
                               struct hf_error *error)
{
    if (body->state != ENTRY_READ)
        return note_body(pending, body, error);
    best->ours = best->ours || entry->name.kind == ENTRY_OURS;
    if (best->any && record_compare(&best->record, &body->record) >= 0)
        return HF_OK;
    buffer_clear(&pending->bytes);
    if (!buffer_append(&pending->bytes, body->record.bytes))
        return error_no_memory(error);
    best->any = true;
    best->record = (struct record){ .bytes = buffer_view(&pending->bytes),
                                    .key = entry->key,
                                    .time = body->record.time,
                                    .deleted = body->record.deleted };
    return HF_OK;
}

/* Considers the entries with this key in a batch; *ret_count: how many there are. */
static enum hf_status consider_batch(struct pending *pending, const struct pending_batch *batch,
                                     struct view key, struct best *best, size_t *ret_count,
                                     struct hf_error *error)
{
    *ret_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (!view_equal(batch->picks[i].key, key))
            continue;
        ++*ret_count;
        enum hf_status status =
            consider(pending, &batch->picks[i], &batch->load.bodies[i], best, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* Considers our earlier entries of a key whose latest entry is gone or unreadable. The latest entry
 * may have been set aside instead of folded, so the earlier ones still count. The first of them are
 * already loaded. */
static enum hf_status consider_earlier(struct pending *pending, struct view key,
                                       struct best *best, struct hf_error *error)
{
    struct pending_batch batch = { 0 };
    size_t from, end, count;
    enum hf_status status =
        consider_batch(pending, &pending->earlier, key, best, &count, error);
    find_earlier(pending, key, &from, &end);
    from += count;
    if (status == HF_OK && from < end && !pending_batch_reserve(&batch, end - from))
        status = error_no_memory(error);
    while (from < end && status == HF_OK && !best->ours) {
        while (from < end && pending_batch_pick(&batch, pending->entries[from]))
            from++;
        status = pending_batch_load(pending, &batch, error);
        if (status == HF_OK)
            status = consider_batch(pending, &batch, key, best, &count, error);
        pending_batch_clear(&batch);
    }
    pending_batch_release(&batch);
    return status;
}

static bool is_at_end(const struct pending *pending)
{
    return pending->shown == pending->batch.count && pending->next == pending->count;
}

/* Considers those entries of the next key that are read first. The next batch may have more of
 * them. */
static enum hf_status consider_key(struct pending *pending, struct view *ret_key,
                                   struct best *best, struct hf_error *error)
{
    struct view key = { NULL, 0 };
    for (;;) {
        if (pending->shown == pending->batch.count) {
            enum hf_status status = refill(pending, error);
            if (status != HF_OK)
                return status;
        }
        if (pending->batch.count == 0)
            break;
        const struct entry *entry = &pending->batch.picks[pending->shown];
        if (key.data && !view_equal(entry->key, key))
            break;
        key = entry->key;
        const struct entry_body *body = &pending->batch.load.bodies[pending->shown];
        enum hf_status status = consider(pending, entry, body, best, error);
        if (status != HF_OK)
            return status;
        pending->shown++;
        if (is_at_end(pending))
            break;
    }
    *ret_key = key;
    return HF_OK;
}

enum hf_status pending_next(struct pending *pending, struct record *ret_record,
                            struct hf_error *error)
{
    if (!pending->sorted && pending->count > 0)
        qsort(pending->entries, pending->count, sizeof *pending->entries, compare_by_key);
    pending->sorted = true;
    while (!is_at_end(pending)) {
        struct best best = { .any = false };
        struct view key;
        enum hf_status status = consider_key(pending, &key, &best, error);
        if (status == HF_OK && !best.ours && key.data)
            status = consider_earlier(pending, key, &best, error);
        if (status != HF_OK)
            return status;
        if (best.any) {
            *ret_record = best.record;
            return HF_OK;
        }
    }
    return HF_NOT_FOUND;
}

void pending_free(struct pending *pending)
{
    pending_batch_release(&pending->batch);
    pending_batch_release(&pending->earlier);
    buffer_release(&pending->bytes);
    arena_release(&pending->arena);
    free(pending->entries);
    *pending = (struct pending){ 0 };
}
