/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_scan.c: finds the highest token in any object in the bucket, for use when the epoch is
 * lost. It errs on the safe side: an unreadable table counts as one that has issued tokens. */
#include "lock/epoch_scan.h"

#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "lease/table.h"
#include "lock/fence.h"
#include "lock/tables.h"
#include "store/pages.h"

#include <stdio.h>

/* So many tables are read at once. When many clients use a new namespace at the same time, there is
 * a stub for each of them before there is an epoch, and this scan must end before its deadline. */
#define TABLES_AT_ONCE  16
#define BATCH_TIME_PART 2

/* A shard's first line is always shorter than this. */
#define SHARD_LINE_MAX (16 * KIB)

struct scanning {
    struct store *store;
    struct view ns;
    bool briefly;
    struct mono_time deadline;
    struct epoch_scan *scan;
};

static bool scan_is_over(const struct scanning *scanning)
{
    return scanning->briefly && scanning->scan->used;
}

static void note_token(struct epoch_scan *scan, uint64_t token)
{
    scan->used = scan->used || token > 0;
    if (token > scan->token)
        scan->token = token;
}

/* ---- Single objects ------------------------------------------------------------------ */

/* Reads the first bytes of an object; none if the object is gone. */
static enum hf_status get_start(const struct scanning *scanning, struct view key, size_t max,
                                struct buffer *start, struct hf_error *error)
{
    struct get_call get = {
        .key = key, .length = max, .body = start, .deadline = scanning->deadline
    };
    enum hf_status status = store_get(scanning->store, &get);
    if (status == HF_NOT_FOUND || status == HF_OK)
        return HF_OK;
    *error = get.error;
    return status;
}

/* The tokens of an unreadable table are unknown, so the namespace counts as used. A stub or
 * another program's file has no tokens yet. Shard locks are often such files; their tokens are in
 * the shards. */
static enum hf_status scan_table(const struct scanning *scanning, struct view key,
                                 struct view text, struct hf_error *error)
{
    struct lease_table *table;
    bool of_shard = table_key_is_of_shard(key);
    enum hf_status status = HF_OK;
    if (placement_is_mark(text)) {
        /* It is in place of a table, and never has tokens. */
    } else if (text.size > 0) {
        struct mono_time now = env_now(scanning->store->env);
        status = of_shard ? table_decode_of_shard(text, now, NULL, &table, error)
                          : table_decode(text, now, NULL, &table, error);
        if (status == HF_OK) {
            note_token(scanning->scan, table->next_token > 0 ? table->next_token - 1 : 0);
            table_free(table);
        }
    } else {
        /* The table was emptied, or has just been purged. It may have issued tokens. */
        scanning->scan->used = scanning->scan->used || !of_shard;
    }
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED) {
        scanning->scan->used = scanning->scan->used || !of_shard;
        status = HF_OK;
    }
    return status;
}

struct table_batch {
    struct view keys[TABLES_AT_ONCE];
    size_t count;
};

/* Reads the tables of a batch at the same time, and empties the batch. */
static enum hf_status scan_batch(const struct scanning *scanning, struct table_batch *batch,
                                 struct hf_error *error)
{
    struct get_call gets[TABLES_AT_ONCE];
    struct buffer texts[TABLES_AT_ONCE];
    enum hf_status status = HF_OK;
    size_t count = batch->count;
    struct mono_time now = env_now(scanning->store->env), until = scanning->deadline;
    batch->count = 0;
    if (count == 0)
        return HF_OK;
    if (until.us > 0) /* a lost reply must not take all the time */
        until = mono_add(now, SPAN_US(mono_since(until, now).us / BATCH_TIME_PART));
    for (size_t i = 0; i < count; i++) {
        texts[i] = BUFFER_INIT(TABLE_BYTES_READ_MAX + 1);
        gets[i] = (struct get_call){ .key = batch->keys[i],
                                     .length = TABLE_BYTES_READ_MAX + 1,
                                     .body = &texts[i],
                                     .deadline = until };
    }
    store_get_many(scanning->store, gets, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status got = gets[i].error.status;
        if (status == HF_OK && got != HF_OK && got != HF_NOT_FOUND) {
            *error = gets[i].error;
            status = got;
        }
        if (status == HF_OK)
            status = scan_table(scanning, batch->keys[i], buffer_view(&texts[i]), error);
        buffer_release(&texts[i]);
    }
    return status;
}

/* {"format":"holdfast.shard/1",...,"token":7,...} followed by more lines. The line of a plain shard
 * is in its sidecar. */
static enum hf_status scan_shard(const struct scanning *scanning, struct view key,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(SHARD_LINE_MAX);
    enum hf_status status = get_start(scanning, key, SHARD_LINE_MAX, &text, error);
    struct view rest = buffer_view(&text), name, raw;
    uint64_t token = 0;
    struct json_reader reader = json_read(view_cut(&rest, '\n'));
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("token")))
            json_take_u64(&reader, UINT64_MAX, &token);
        else
            json_skip(&reader, &raw);
    if (status == HF_OK && json_end(&reader))
        note_token(scanning->scan, token);
    buffer_release(&text);
    return status;
}

/* "<ns>/state/<key>/<token>-<etag>". */
static void scan_state(const struct scanning *scanning, struct view key)
{
    size_t start = key.size;
    while (start > 0 && key.data[start - 1] != '/')
        start--;
    struct view name = view_from(key, start);
    uint64_t token;
    if (parse_u64(view_first(name, view_find(name, '-')), UINT64_MAX, &token, NULL) == HF_OK)
        note_token(scanning->scan, token);
}

static enum hf_status scan_fence(const struct scanning *scanning, struct view key,
                                 struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(FENCE_BYTES_MAX);
    struct fence fence;
    enum hf_status status = get_start(scanning, key, FENCE_BYTES_MAX, &text, error);
    if (status == HF_OK && fence_decode(buffer_view(&text), &fence, NULL) == HF_OK) {
        struct view table = view_of(fence.stamp.table), ns = view_cut(&table, '/');
        if (layout_namespace_reserved(
                ns)) /* chunks and shards have no namespace of their own */
            ns = VIEW(LAYOUT_NAMESPACE_DEFAULT);
        if (view_equal(ns, scanning->ns))
            note_token(scanning->scan, fence.stamp.token);
    }
    buffer_release(&text);
    return status;
}

/* ---- Listings ------------------------------------------------------------------------ */

typedef enum hf_status scan_fn(const struct scanning *scanning, const struct list_entry *entry,
                               struct hf_error *error);

/* An object that is not a table. */
static enum hf_status scan_one(const struct scanning *scanning, const struct list_entry *entry,
                               struct hf_error *error)
{
    struct view rest = view_from(entry->key, scanning->ns.size);
    if (view_starts_with(entry->key, VIEW(LAYOUT_INDEX_FOLDER)) &&
        (view_ends_with(entry->key, VIEW(LAYOUT_SHARD)) ||
         view_ends_with(entry->key, VIEW(LAYOUT_SIDECAR))))
        return scan_shard(scanning, entry->key, error);
    if (view_starts_with(rest, VIEW(LAYOUT_STATE_FOLDER)))
        scan_state(scanning, entry->key);
    return HF_OK;
}

static enum hf_status scan_other(const struct scanning *scanning,
                                 const struct list_entry *entry, struct hf_error *error)
{
    if (layout_is_own(entry->key) || table_key_is_ours(entry->key))
        return HF_OK;
    return scan_fence(scanning, entry->key, error);
}

/* Whether the rest of a page, at the rate so far, takes longer than there is time. A search that
 * ends then leaves the store to those that have a chance. */
static bool is_hopeless(const struct scanning *scanning, struct mono_time began, size_t done,
                        size_t left)
{
    struct mono_time now = env_now(scanning->store->env);
    if (done < TABLES_AT_ONCE || scanning->deadline.us == 0)
        return false;
    int64_t each_us = mono_since(now, began).us / (int64_t)done;
    return each_us * (int64_t)left > mono_since(scanning->deadline, now).us;
}

static enum hf_status scan_page_of_list(const struct scanning *scanning,
                                        const struct list_call *page, scan_fn *each,
                                        struct hf_error *error)
{
    struct table_batch batch = { .count = 0 };
    struct mono_time began = env_now(scanning->store->env);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < page->count; i++) {
        const struct list_entry *entry = &page->entries[i];
        if (status != HF_OK || scan_is_over(scanning))
            return status;
        if (batch.count == 0 && is_hopeless(scanning, began, i, page->count - i))
            return error_set(error, HF_TIMEOUT, "there is no time to read all tables");
        if (each != scan_one || !table_key_is_ours(entry->key))
            status = each(scanning, entry, error);
        else
            batch.keys[batch.count++] = entry->key;
        if (batch.count == TABLES_AT_ONCE)
            status = scan_batch(scanning, &batch, error);
    }
    return status == HF_OK ? scan_batch(scanning, &batch, error) : status;
}

static enum hf_status scan_list(const struct scanning *scanning, struct list_call list,
                                scan_fn *each, struct hf_error *error)
{
    struct pages pages = { .list = list };
    enum hf_status status = HF_OK;
    while (status == HF_OK && !scan_is_over(scanning) && pages_next(&pages, scanning->store))
        status = scan_page_of_list(scanning, &pages.list, each, error);
    return pages_end(&pages, status, error);
}

/* Lists only an index's shards and their locks, because the inbox may have millions of entries. */
static enum hf_status scan_index(const struct scanning *scanning,
                                 const struct list_entry *entry, struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + sizeof LAYOUT_SHARD_FOLDER];
    if (!entry->is_prefix)
        return HF_OK;
    snprintf(prefix, sizeof prefix, "%.*s" LAYOUT_SHARD_FOLDER, VIEW_ARGS(entry->key));
    return scan_list(scanning, (struct list_call){ .prefix = view_of(prefix) }, scan_one,
                     error);
}

static enum hf_status scan_sweeps(const struct scanning *scanning,
                                  const struct list_entry *entry, struct hf_error *error)
{
    (void)entry;
    (void)error;
    scanning->scan->used = true;
    return HF_OK;
}

enum hf_status epoch_scan_tables(struct store *store, struct view ns, bool briefly,
                                 struct mono_time deadline, struct epoch_scan *scan,
                                 struct hf_error *error)
{
    static const char *const folders[] = { LAYOUT_META_FOLDER, LAYOUT_INODE_FOLDER,
                                           LAYOUT_PATHS_START, LAYOUT_STATE_FOLDER };
    struct scanning scanning = { store, ns, briefly, deadline, scan };
    char prefix[KEY_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(prefix, sizeof prefix, "%.*s%s", VIEW_ARGS(ns), folders[i]);
        status = scan_list(&scanning, (struct list_call){ .prefix = view_of(prefix) }, scan_one,
                           error);
        if (status != HF_OK)
            return status;
    }
    snprintf(prefix, sizeof prefix, LAYOUT_SWEEP_FOLDER "%.*s.json", VIEW_ARGS(ns));
    status = scan_list(&scanning, (struct list_call){ .prefix = view_of(prefix) }, scan_sweeps,
                       error);
    if (!view_equal(ns, VIEW(LAYOUT_NAMESPACE_DEFAULT)))
        return status;
    if (status == HF_OK)
        status = scan_list(&scanning, (struct list_call){ .prefix = VIEW(LAYOUT_CHUNK_FOLDER) },
                           scan_one, error);
    if (status == HF_OK && !briefly)
        status = scan_list(&scanning,
                           (struct list_call){ .prefix = VIEW(LAYOUT_INDEX_FOLDER),
                                               .delimiter = VIEW("/") },
                           scan_index, error);
    return status;
}

enum hf_status epoch_scan_fences(struct store *store, struct view ns, struct epoch_scan *scan,
                                 struct hf_error *error)
{
    struct scanning scanning = { .store = store, .ns = ns, .scan = scan };
    return scan_list(&scanning, (struct list_call){ .prefix = VIEW("") }, scan_other, error);
}
