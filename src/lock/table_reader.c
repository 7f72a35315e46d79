/* SPDX-License-Identifier: Apache-2.0 */
/* table_reader.c: lease tables as they are in the store, for display. It writes nothing, so it
 * can be used on a damaged store. It reads only the tables that have changed since the last
 * call. */
#include "lock/table_reader.h"

#include "base/check.h"
#include "base/layout.h"
#include "lock/client_inside.h"
#include "store/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* How many tables are read concurrently. */
#define READ_BATCH 32

/* The time limit of a read that only adds detail to a message. */
#define BRIEF_TIME SPAN_S(2)

struct remembered {
    struct etag etag;
    struct lease_table *table; /* NULL: it could not be read ... */
    struct hf_error error;     /* ... for this reason */
    uint64_t round;            /* when it was last seen */
    size_t key_size;
    char key[];
};

/* ---- Remembered tables --------------------------------------------------------------- */

static struct view remembered_key(const struct remembered *one)
{
    return (struct view){ one->key, one->key_size };
}

static void forget_table(struct table_reader *reader, struct remembered *one)
{
    map_take(&reader->tables, remembered_key(one));
    table_free(one->table);
    free(one);
}

void table_reader_init(struct table_reader *reader, struct hf_client *client)
{
    *reader = (struct table_reader){ .client = client, .tables = MAP_INIT };
}

/* Forgets all tables, or those that were not seen in this round. */
static void forget_unseen(struct table_reader *reader, bool all)
{
    struct remembered *one = map_seek(&reader->tables, VIEW(""), /* beyond */ false);
    while (one) {
        struct remembered *next =
            map_seek(&reader->tables, remembered_key(one), /* beyond */ true);
        if (all || one->round != reader->round)
            forget_table(reader, one);
        one = next;
    }
}

void table_reader_release(struct table_reader *reader)
{
    forget_unseen(reader, /* all */ true);
    map_release(&reader->tables);
}

/* The entry for a key, which is created if there is none. */
static enum hf_status remember_table(struct table_reader *reader, struct view key,
                                     struct remembered **ret_one, struct hf_error *error)
{
    void *old;
    struct remembered *one = map_get(&reader->tables, key);
    if (!one && reader->tables.count >= READER_TABLES_MAX)
        return error_set(
            error, HF_UNAVAILABLE,
            "there are more than %d tables; give the beginning of a scope to select some",
            READER_TABLES_MAX);
    if (!one) {
        one = calloc(1, sizeof *one + key.size);
        if (!one)
            return error_no_memory(error);
        one->key_size = key.size;
        memcpy(one->key, key.data, key.size);
        if (!map_put(&reader->tables, remembered_key(one), one, &old)) {
            free(one);
            return error_no_memory(error);
        }
    }
    one->round = reader->round;
    *ret_one = one;
    return HF_OK;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Stores the result of a get. Fails only if the result says nothing about the table. */
static enum hf_status take_reply_of(struct table_reader *reader, struct remembered *one,
                                    const struct get_call *get, struct hf_error *error)
{
    struct lease_table *table = NULL;
    struct hf_error why;
    clock_learn(&reader->client->clock, &get->stamp);
    bool too_large = get->error.status == HF_INVALID;
    if (get->error.status != HF_OK && !too_large) {
        *error = get->error;
        return error->status;
    }
    struct mono_time arrived = env_now(reader->client->env);
    struct view text = buffer_view(get->body);
    enum hf_status status;
    if (too_large)
        status = error_set(&why, HF_CORRUPT, "not a lease table: it is too large");
    else if (placement_is_mark(text))
        status = placement_refuse(&why);
    else if (table_key_is_of_shard(remembered_key(one)))
        status = table_decode_of_shard(text, arrived, one->table, &table, &why);
    else
        status = table_decode(text, arrived, one->table, &table, &why);
    if (status == HF_UNAVAILABLE) {
        *error = why;
        return status;
    }
    table_free(one->table);
    one->table = table;
    one->error = why;
    one->etag = get->info.etag;
    return HF_OK;
}

/* Reads the tables that have changed. If an object is gone by now, its entry in `batch` is set to
 * NULL. */
static enum hf_status read_batch(struct table_reader *reader, struct remembered **batch,
                                 const struct etag *listed, size_t count,
                                 struct hf_error *error)
{
    struct get_call gets[READ_BATCH];
    struct buffer bodies[READ_BATCH];
    size_t of[READ_BATCH], asked = 0;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        if (batch[i]->etag.size > 0 && etag_equal(&batch[i]->etag, &listed[i]))
            continue;
        bodies[asked] = BUFFER_INIT(TABLE_BYTES_READ_MAX + 1);
        gets[asked] =
            (struct get_call){ .key = remembered_key(batch[i]), .body = &bodies[asked] };
        if (reader->briefly)
            gets[asked].deadline = mono_add(env_now(reader->client->store->env), BRIEF_TIME);
        of[asked++] = i;
    }
    if (asked > 0)
        store_get_many(reader->client->store, gets, asked);
    for (size_t i = 0; i < asked; i++) {
        struct remembered **one = &batch[of[i]];
        if (gets[i].error.status == HF_NOT_FOUND) {
            forget_table(reader, *one);
            *one = NULL;
        } else if (status == HF_OK) {
            status = take_reply_of(reader, *one, &gets[i], error);
        }
        buffer_release(&bodies[i]);
    }
    return status;
}

static enum hf_status show_remembered(struct table_reader *reader, struct remembered *one,
                                      table_snapshot_fn *show, void *argument,
                                      struct hf_error *error)
{
    struct table_snapshot snapshot = { .key = remembered_key(one),
                                       .table = one->table,
                                       .error = one->error };
    const struct lease_settings *ours = table_key_is_of_shard(snapshot.key)
                                            ? &reader->client->shard_space.settings
                                            : &reader->client->space.settings;
    snapshot.settings =
        one->table ? lease_settings_stricter(&one->table->settings, ours) : *ours;
    snapshot.evidence.nonce = VIEW("");
    clock_evidence(&reader->client->clock, &snapshot.evidence);
    enum hf_status status = show(argument, &snapshot, error);
    if (!reader->remembers)
        forget_table(reader, one);
    return status;
}

static enum hf_status show_batch(struct table_reader *reader, const struct list_entry *entries,
                                 size_t count, table_snapshot_fn *show, void *argument,
                                 struct hf_error *error)
{
    struct remembered *batch[READ_BATCH];
    struct etag listed[READ_BATCH];
    enum hf_status status = HF_OK;
    check(count <= READ_BATCH);
    for (size_t i = 0; i < count; i++) {
        listed[i] = entries[i].info.etag;
        status = remember_table(reader, entries[i].key, &batch[i], error);
        if (status != HF_OK)
            return status;
    }
    status = read_batch(reader, batch, listed, count, error);
    for (size_t i = 0; i < count; i++)
        if (status == HF_OK && batch[i])
            status = show_remembered(reader, batch[i], show, argument, error);
    return status;
}

enum hf_status table_reader_read(struct table_reader *reader, struct view key,
                                 table_snapshot_fn *show, void *argument,
                                 struct hf_error *error)
{
    struct remembered *one;
    struct etag none = { .size = 0 };
    enum hf_status status = remember_table(reader, key, &one, error);
    if (status == HF_OK)
        status = read_batch(reader, &one, &none, 1, error);
    if (status == HF_OK && !one)
        status = error_set(error, HF_NOT_FOUND,
                           "no such lock in this store; 'holdfast locks ls' lists the locks");
    return status == HF_OK ? show_remembered(reader, one, show, argument, error) : status;
}

/* ---- Listings ------------------------------------------------------------------------ */

/* The caller, and the purpose for which the pages of a listing are read. */
struct listing {
    struct table_reader *reader;
    table_snapshot_fn *show;
    void *argument;
    struct view end;          /* the end of a table's key */
    bool of_paths;            /* tables of paths are listed */
    const struct view *shard; /* the start of the names of shards */
};

typedef enum hf_status page_fn(const struct listing *listing, struct list_call *page,
                               struct hf_error *error);

static enum hf_status for_each_page(const struct listing *listing, struct list_call list,
                                    page_fn *take, struct hf_error *error)
{
    struct hf_client *client = listing->reader->client;
    struct pages pages = { .list = list };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, client->store)) {
        clock_learn(&client->clock, &pages.list.stamp);
        status = take(listing, &pages.list, error);
    }
    return pages_end(&pages, status, error);
}

/* An index's folder may contain files written by other programs, and other objects of a namespace
 * may start like its tables of paths. */
static bool is_table(const struct listing *listing, struct view key)
{
    bool of_index = view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER));
    return view_ends_with(key, listing->end) && (!of_index || table_key_is_of_shard(key)) &&
           (!listing->of_paths || table_key_is_ours(key));
}

static enum hf_status show_tables(const struct listing *listing, struct list_call *page,
                                  struct hf_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < page->count; i++)
        if (is_table(listing, page->entries[i].key))
            page->entries[count++] = page->entries[i];
    for (size_t i = 0; i < count; i += READ_BATCH) {
        size_t some = count - i < READ_BATCH ? count - i : READ_BATCH;
        enum hf_status status = show_batch(listing->reader, page->entries + i, some,
                                           listing->show, listing->argument, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* Shows the locks of an index's shards; `folder` is "indexes/<name>/". The index's other folders,
 * which may have millions of objects, are not listed. */
static enum hf_status show_index(const struct listing *listing, struct view folder,
                                 struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    struct view name = view_from(folder, strlen(LAYOUT_INDEX_FOLDER));
    if (!layout_index_valid(view_cut(&name, '/')))
        return HF_OK;
    snprintf(prefix, sizeof prefix, "%.*s" LAYOUT_SHARD_FOLDER "%.*s", VIEW_ARGS(folder),
             VIEW_ARGS(*listing->shard));
    return for_each_page(listing, (struct list_call){ .prefix = view_of(prefix) }, show_tables,
                         error);
}

static enum hf_status show_indexes(const struct listing *listing, struct list_call *page,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < page->count; i++)
        if (status == HF_OK && page->entries[i].is_prefix)
            status = show_index(listing, page->entries[i].key, error);
    return status;
}

/* Shows the tables of scopes that start with "shard:" followed by `rest`. */
static enum hf_status show_shards(struct listing listing, struct view rest,
                                  struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    bool index_given = view_find(rest, '/') < rest.size;
    struct view shard = rest;
    struct view index = view_first(view_cut(&shard, '/'), INDEX_NAME_MAX + 1);
    shard = view_first(shard, SHARD_NAME_MAX + 1);
    listing.end = VIEW(LAYOUT_SHARD_LOCK);
    listing.shard = &shard;
    snprintf(prefix, sizeof prefix, LAYOUT_INDEX_FOLDER "%.*s%s", VIEW_ARGS(index),
             index_given ? "/" : "");
    if (index_given)
        return show_index(&listing, view_of(prefix), error);
    return for_each_page(
        &listing, (struct list_call){ .prefix = view_of(prefix), .delimiter = VIEW("/") },
        show_indexes, error);
}

/* The prefix of a listing, and how the keys of tables in it end. */
struct folder {
    char prefix[KEY_BYTES_MAX + 1];
    const char *end;
    bool of_paths;
};

#define FOLDERS 4

/* The table of paths, or all pages, or the one page that can contain what starts with `rest`. */
static struct folder folder_of_paths(const struct table_space *space, struct view rest)
{
    struct folder folder = { .of_paths = true };
    uint32_t page;
    if (space->placement.pages == 0)
        snprintf(folder.prefix, sizeof folder.prefix, "%s" LAYOUT_PATHS, space->ns);
    else if (placement_page_of_start(&space->placement, rest, &page))
        snprintf(folder.prefix, sizeof folder.prefix,
                 "%s" LAYOUT_PAGES_FOLDER "%" PRIu32 ".json", space->ns, page);
    else
        snprintf(folder.prefix, sizeof folder.prefix, "%s" LAYOUT_PAGES_FOLDER, space->ns);
    return folder;
}

/* The folders that may contain tables of scopes of this kind, or of any kind if `all`, that start
 * with `rest`. For a range, only the inode before the colon matters. Shards are not included,
 * because each index has its own folder. */
static size_t choose_folders(const struct table_space *space, struct view kind,
                             struct view rest, bool all, struct folder *folders)
{
    const char *ns = space->ns;
    struct view inode = view_first(view_first(rest, NAME_BYTES_MAX), view_find(rest, ':'));
    size_t count = 0;
    if (all || view_equal(kind, VIEW("named")))
        snprintf(folders[count++].prefix, KEY_BYTES_MAX + 1, "%s" LAYOUT_META_FOLDER "%.*s", ns,
                 VIEW_ARGS(view_first(rest, NAME_BYTES_MAX)));
    if (all || view_equal(kind, VIEW("inode")) || view_equal(kind, VIEW("range")))
        snprintf(folders[count++].prefix, KEY_BYTES_MAX + 1, "%s" LAYOUT_INODE_FOLDER "%.*s",
                 ns, VIEW_ARGS(inode));
    if (all || view_equal(kind, VIEW("path")) || view_equal(kind, VIEW("tree")))
        folders[count++] = folder_of_paths(space, rest);
    for (size_t i = 0; i < count; i++)
        folders[i].end = ".json";
    if (all || view_equal(kind, VIEW("chunk")) || view_equal(kind, VIEW("pin")) ||
        view_equal(kind, VIEW("snapshot")))
        folders[count++] = (struct folder){ LAYOUT_CHUNK_FOLDER, LAYOUT_CHUNK_TABLE, false };
    return count;
}

enum hf_status table_reader_list(struct table_reader *reader, struct view start,
                                 table_snapshot_fn *show, void *argument,
                                 struct hf_error *error)
{
    struct folder folders[FOLDERS] = { 0 };
    struct view rest = start;
    bool all = start.size == 0, kind_given = view_find(start, ':') < start.size;
    struct view kind = kind_given ? view_cut(&rest, ':') : VIEW("named");
    bool shards = all || view_equal(kind, VIEW("shard"));
    size_t count = choose_folders(&reader->client->space, kind, rest, all, folders);
    struct listing listing = { .reader = reader, .show = show, .argument = argument };
    enum hf_status status = HF_OK;
    if (count == 0 && !shards)
        return error_set(error, HF_INVALID,
                         "'%.*s': unknown kind of scope; use named: path: tree: inode: range: "
                         "chunk: pin: shard: or snapshot:",
                         VIEW_ARGS(view_first(start, 60)));
    reader->round++;
    for (size_t i = 0; i < count; i++) {
        listing.end = view_of(folders[i].end);
        listing.of_paths = folders[i].of_paths;
        status =
            for_each_page(&listing, (struct list_call){ .prefix = view_of(folders[i].prefix) },
                          show_tables, error);
        if (status != HF_OK)
            return status;
    }
    listing.of_paths = false;
    if (shards)
        status = show_shards(listing, rest, error);
    if (status == HF_OK)
        forget_unseen(reader, /* all */ false);
    return status;
}

enum hf_status table_reader_list_common(struct table_reader *reader, table_snapshot_fn *show,
                                        void *argument, struct hf_error *error)
{
    enum hf_status status = table_reader_list(reader, VIEW("chunk:"), show, argument, error);
    return status == HF_OK ? table_reader_list(reader, VIEW("shard:"), show, argument, error)
                           : status;
}

bool lease_starts_with(const struct lease *lease, struct view start)
{
    char text[SCOPE_TEXT_MAX + 1];
    bool kind_given = view_find(start, ':') < start.size;
    for (size_t i = 0; i < lease->wish.scope_count; i++) {
        struct view whole = view_of(scope_text(&lease->wish.scopes[i], text));
        bool named = lease->wish.scopes[i].kind == SCOPE_NAMED;
        if (start.size == 0 || (kind_given && view_starts_with(whole, start)) ||
            (!kind_given && named && view_starts_with(lease->wish.scopes[i].name, start)))
            return true;
    }
    return lease->wish.scope_count == 0;
}
