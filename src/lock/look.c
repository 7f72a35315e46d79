#include "lock/look.h"

#include "base/check.h"
#include "base/layout.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

/* Tables that are read at once. */
#define LOOK_BATCH 32

/* What a person waits for a better sentence. */
#define BRIEF_TIME SPAN_S(2)

struct remembered {
    struct etag etag;
    struct lease_table *table; /* NULL: it could not be read ... */
    struct hf_error error;     /* ... and this is why */
    uint64_t round;            /* when it was last seen */
    size_t key_size;
    char key[];
};

/* ---- What is remembered -------------------------------------------------------------- */

static struct view key_of(const struct remembered *one)
{
    return (struct view){ one->key, one->key_size };
}

static void forget(struct look *look, struct remembered *one)
{
    map_take(&look->tables, key_of(one));
    table_free(one->table);
    free(one);
}

void look_init(struct look *look, struct hf_client *client)
{
    *look = (struct look){ .client = client, .tables = MAP_INIT };
}

/* All of them, or those that were not seen in this round. */
static void forget_unseen(struct look *look, bool all)
{
    struct remembered *one = map_seek(&look->tables, VIEW(""), /* beyond */ false);
    while (one) {
        struct remembered *next = map_seek(&look->tables, key_of(one), /* beyond */ true);
        if (all || one->round != look->round)
            forget(look, one);
        one = next;
    }
}

void look_release(struct look *look)
{
    forget_unseen(look, /* all */ true);
    map_release(&look->tables);
}

/* The entry of a key, made if there is none. */
static enum hf_status recall(struct look *look, struct view key, struct remembered **ret_one,
                             struct hf_error *error)
{
    void *old;
    struct remembered *one = map_get(&look->tables, key);
    if (!one && look->tables.count >= LOOK_TABLES_MAX)
        return error_set(error, HF_UNAVAILABLE,
                         "there are more than %d tables: name the start of a scope",
                         LOOK_TABLES_MAX);
    if (!one) {
        one = calloc(1, sizeof *one + key.size);
        if (!one)
            return error_no_memory(error);
        one->key_size = key.size;
        memcpy(one->key, key.data, key.size);
        if (!map_put(&look->tables, key_of(one), one, &old)) {
            free(one);
            return error_no_memory(error);
        }
    }
    one->round = look->round;
    *ret_one = one;
    return HF_OK;
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Takes in what a get brought. Only what says nothing about the table is an error of the look.
 * */
static enum hf_status take_in(struct look *look, struct remembered *one,
                              const struct get_call *get, struct hf_error *error)
{
    struct lease_table *table = NULL;
    struct hf_error why;
    clock_learn(&look->client->clock, &get->stamp);
    bool too_large = get->error.status == HF_INVALID;
    if (get->error.status != HF_OK && !too_large) {
        *error = get->error;
        return error->status;
    }
    struct mono_time arrived = env_now(look->client->env);
    struct view text = buffer_view(get->body);
    enum hf_status status;
    if (too_large)
        status = error_set(&why, HF_CORRUPT, "not a lease table: it is too large");
    else if (table_key_is_of_shard(key_of(one)))
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

/* Reads what changed. An object that is gone by now is left out: its entry becomes NULL. */
static enum hf_status read_batch(struct look *look, struct remembered **batch,
                                 const struct etag *listed, size_t count,
                                 struct hf_error *error)
{
    struct get_call gets[LOOK_BATCH];
    struct buffer bodies[LOOK_BATCH];
    size_t of[LOOK_BATCH], asked = 0;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        if (batch[i]->etag.size > 0 && etag_equal(&batch[i]->etag, &listed[i]))
            continue;
        bodies[asked] = BUFFER_INIT(TABLE_BYTES_READ_MAX + 1);
        gets[asked] = (struct get_call){ .key = key_of(batch[i]), .body = &bodies[asked] };
        if (look->briefly)
            gets[asked].deadline = mono_add(env_now(look->client->store->env), BRIEF_TIME);
        of[asked++] = i;
    }
    if (asked > 0)
        store_get_many(look->client->store, gets, asked);
    for (size_t i = 0; i < asked; i++) {
        struct remembered **one = &batch[of[i]];
        if (gets[i].error.status == HF_NOT_FOUND) {
            forget(look, *one);
            *one = NULL;
        } else if (status == HF_OK) {
            status = take_in(look, *one, &gets[i], error);
        }
        buffer_release(&bodies[i]);
    }
    return status;
}

static enum hf_status show_one(struct look *look, struct remembered *one, look_fn *show,
                               void *argument, struct hf_error *error)
{
    struct sight sight = { .key = key_of(one), .table = one->table, .error = one->error };
    const struct lease_settings *ours = table_key_is_of_shard(sight.key)
                                            ? &look->client->shard_space.settings
                                            : &look->client->space.settings;
    sight.settings = one->table ? lease_settings_stricter(&one->table->settings, ours) : *ours;
    sight.evidence.nonce = VIEW("");
    clock_evidence(&look->client->clock, &sight.evidence);
    enum hf_status status = show(argument, &sight, error);
    if (!look->remembers)
        forget(look, one);
    return status;
}

static enum hf_status show_batch(struct look *look, const struct list_entry *entries,
                                 size_t count, look_fn *show, void *argument,
                                 struct hf_error *error)
{
    struct remembered *batch[LOOK_BATCH];
    struct etag listed[LOOK_BATCH];
    enum hf_status status = HF_OK;
    check(count <= LOOK_BATCH);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        listed[i] = entries[i].info.etag;
        status = recall(look, entries[i].key, &batch[i], error);
    }
    if (status == HF_OK)
        status = read_batch(look, batch, listed, count, error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        if (batch[i])
            status = show_one(look, batch[i], show, argument, error);
    return status;
}

enum hf_status look_at(struct look *look, struct view key, look_fn *show, void *argument,
                       struct hf_error *error)
{
    struct remembered *one;
    struct etag none = { .size = 0 };
    enum hf_status status = recall(look, key, &one, error);
    if (status == HF_OK)
        status = read_batch(look, &one, &none, 1, error);
    if (status == HF_OK && !one)
        status = error_set(
            error, HF_NOT_FOUND,
            "there is no such lock in this store; 'holdfast locks ls' lists the locks");
    return status == HF_OK ? show_one(look, one, show, argument, error) : status;
}

/* ---- Where to look ------------------------------------------------------------------- */

/* Who looks, and what a page of a listing is for. */
struct tour {
    struct look *look;
    look_fn *show;
    void *argument;
    struct view end;          /* a table's key ends with this */
    const struct view *shard; /* how the names of shards start */
};

typedef enum hf_status page_fn(const struct tour *tour, struct list_call *page,
                               struct hf_error *error);

static enum hf_status walk(const struct tour *tour, struct list_call list, page_fn *take,
                           struct hf_error *error)
{
    struct hf_client *client = tour->look->client;
    struct pages pages = { .list = list };
    enum hf_status status = HF_OK;
    while (status == HF_OK && pages_next(&pages, client->store)) {
        clock_learn(&client->clock, &pages.list.stamp);
        status = take(tour, &pages.list, error);
    }
    return pages_end(&pages, status, error);
}

/* In the folder of an index other programs may have files of any name. */
static bool is_table(const struct tour *tour, struct view key)
{
    return view_ends_with(key, tour->end) &&
           (!view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)) || table_key_is_of_shard(key));
}

/* Moves the tables of a page together; returns how many. */
static size_t keep_tables(const struct tour *tour, struct list_call *page)
{
    size_t kept = 0;
    for (size_t i = 0; i < page->count; i++)
        if (is_table(tour, page->entries[i].key))
            page->entries[kept++] = page->entries[i];
    return kept;
}

static enum hf_status show_page(const struct tour *tour, struct list_call *page,
                                struct hf_error *error)
{
    enum hf_status status = HF_OK;
    size_t count = keep_tables(tour, page);
    for (size_t i = 0; i < count && status == HF_OK; i += LOOK_BATCH) {
        size_t some = count - i < LOOK_BATCH ? count - i : LOOK_BATCH;
        status =
            show_batch(tour->look, page->entries + i, some, tour->show, tour->argument, error);
    }
    return status;
}

/* The locks of an index's shards; `folder` is "indexes/<name>/". Its other folders, which may hold
 * millions of objects, are not listed. */
static enum hf_status show_index(const struct tour *tour, struct view folder,
                                 struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    struct view name = view_from(folder, strlen(LAYOUT_INDEX_FOLDER));
    if (!layout_index_valid(view_cut(&name, '/')))
        return HF_OK;
    snprintf(prefix, sizeof prefix, "%.*s" LAYOUT_SHARD_FOLDER "%.*s", VIEW_ARGS(folder),
             VIEW_ARGS(*tour->shard));
    return walk(tour, (struct list_call){ .prefix = view_of(prefix) }, show_page, error);
}

static enum hf_status show_indexes(const struct tour *tour, struct list_call *page,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < page->count && status == HF_OK; i++)
        if (page->entries[i].is_prefix)
            status = show_index(tour, page->entries[i].key, error);
    return status;
}

/* Of scopes that start with "shard:" and this. */
static enum hf_status show_shards(struct tour tour, struct view rest, struct hf_error *error)
{
    char prefix[KEY_BYTES_MAX + 1];
    bool index_given = view_find(rest, '/') < rest.size;
    struct view shard = rest;
    struct view index = view_first(view_cut(&shard, '/'), INDEX_NAME_MAX + 1);
    shard = view_first(shard, SHARD_NAME_MAX + 1);
    tour.end = VIEW(LAYOUT_SHARD_LOCK);
    tour.shard = &shard;
    snprintf(prefix, sizeof prefix, LAYOUT_INDEX_FOLDER "%.*s%s", VIEW_ARGS(index),
             index_given ? "/" : "");
    if (index_given)
        return show_index(&tour, view_of(prefix), error);
    return walk(&tour, (struct list_call){ .prefix = view_of(prefix), .delimiter = VIEW("/") },
                show_indexes, error);
}

/* A listing, and which of its keys are tables. */
struct folder {
    char prefix[KEY_BYTES_MAX + 1];
    const char *end;
};

#define FOLDERS 4

/* What stands behind "range:7" up to the next colon, so that one inode is not all of them. */
static struct view first_word(struct view text)
{
    return view_first(text, view_find(text, ':'));
}

/* The folders in which scopes may stand of this kind that start like this; of any kind when `all`.
 * Shards have none: each index has one. */
static size_t choose_folders(const char *ns, struct view kind, struct view rest, bool all,
                             struct folder *folders)
{
    size_t count = 0;
    if (all || view_equal(kind, VIEW("named")))
        snprintf(folders[count++].prefix, KEY_BYTES_MAX + 1, "%s" LAYOUT_META_FOLDER "%.*s", ns,
                 VIEW_ARGS(view_first(rest, NAME_BYTES_MAX)));
    if (all || view_equal(kind, VIEW("inode")) || view_equal(kind, VIEW("range")))
        snprintf(folders[count++].prefix, KEY_BYTES_MAX + 1, "%s" LAYOUT_INODE_FOLDER "%.*s",
                 ns, VIEW_ARGS(first_word(view_first(rest, NAME_BYTES_MAX))));
    if (all || view_equal(kind, VIEW("path")) || view_equal(kind, VIEW("tree")))
        snprintf(folders[count++].prefix, KEY_BYTES_MAX + 1, "%s" LAYOUT_PATHS, ns);
    for (size_t i = 0; i < count; i++)
        folders[i].end = ".json";
    if (all || view_equal(kind, VIEW("chunk")) || view_equal(kind, VIEW("pin")))
        folders[count++] = (struct folder){ LAYOUT_CHUNK_FOLDER, LAYOUT_CHUNK_TABLE };
    return count;
}

enum hf_status look_around(struct look *look, struct view start, look_fn *show, void *argument,
                           struct hf_error *error)
{
    struct folder folders[FOLDERS];
    struct view rest = start;
    bool all = start.size == 0, kind_given = view_find(start, ':') < start.size;
    struct view kind = kind_given ? view_cut(&rest, ':') : VIEW("named");
    bool shards = all || view_equal(kind, VIEW("shard"));
    size_t count = choose_folders(look->client->space.ns, kind, rest, all, folders);
    struct tour tour = { .look = look, .show = show, .argument = argument };
    enum hf_status status = HF_OK;
    if (count == 0 && !shards)
        return error_set(
            error, HF_INVALID,
            "'%.*s': a scope is named: path: tree: inode: range: chunk: pin: or shard:",
            VIEW_ARGS(view_first(start, 60)));
    look->round++;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        tour.end = view_of(folders[i].end);
        status = walk(&tour, (struct list_call){ .prefix = view_of(folders[i].prefix) },
                      show_page, error);
    }
    if (status == HF_OK && shards)
        status = show_shards(tour, rest, error);
    if (status == HF_OK)
        forget_unseen(look, /* all */ false);
    return status;
}

enum hf_status look_at_common(struct look *look, look_fn *show, void *argument,
                              struct hf_error *error)
{
    enum hf_status status = look_around(look, VIEW("chunk:"), show, argument, error);
    return status == HF_OK ? look_around(look, VIEW("shard:"), show, argument, error) : status;
}

bool look_matches(const struct lease *lease, struct view start)
{
    char text[SCOPE_TEXT_MAX + 1];
    bool kind_given = view_find(start, ':') < start.size;
    for (size_t i = 0; i < lease->scope_count; i++) {
        struct view whole = view_of(scope_text(&lease->scopes[i], text));
        bool named = lease->scopes[i].kind == SCOPE_NAMED;
        if (start.size == 0 || (kind_given && view_starts_with(whole, start)) ||
            (!kind_given && named && view_starts_with(lease->scopes[i].name, start)))
            return true;
    }
    return lease->scope_count == 0;
}
