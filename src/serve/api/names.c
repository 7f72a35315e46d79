/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: the routes that list what a store has: partitions, groups, and the shards of an index.
 *
 * They list objects; docs/formats.md describes their names. Nothing is opened, so a partition that
 * is being dropped is listed, too. All of this belongs to the whole store and to no namespace, so
 * a token needs the right in all namespaces. */
#include "serve/api/exchange.h"

#include "base/json.h"
#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>

#define PARTITION_FOLDER "metadata/"
#define DEFAULT_CATALOG  "metadata/catalog.json"
#define GROUP_FOLDER     "roster/"
#define CHILD_DIGITS     32 /* the name of a part of a partition that was split */
#define NAMES_MAX        1000
#define SHARDS_LIMIT     100
#define SHARDS_MAX       65536

/* ---- Folders ------------------------------------------------------------------------- */

struct name_list {
    struct exchange *exchange;
    size_t folder_size, count;
    bool of_partitions, more;
};

static bool put_listed_name(struct name_list *list, struct view name)
{
    struct buffer *json = &list->exchange->body;
    list->more = list->count == NAMES_MAX;
    if (list->more)
        return false;
    list->count++;
    json_next(json);
    json_write_string(json, name);
    return !json->failed;
}

/* The default partition has its documents in the folder itself. */
static bool list_folder_entry(void *argument, const struct hf_store_entry *entry)
{
    struct name_list *list = argument;
    struct view key = { entry->key, entry->key_size };
    if (list->of_partitions && view_equal(key, VIEW(DEFAULT_CATALOG)))
        return put_listed_name(list, VIEW("default"));
    if (!entry->is_prefix)
        return true;
    struct view name = view_from(view_first(key, key.size - 1), list->folder_size);
    if (list->of_partitions && text_is_hex(name, CHILD_DIGITS))
        return true;
    return put_listed_name(list, name);
}

static enum hf_status list_folder(struct exchange *exchange, const char *folder,
                                  const char *member, struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    struct name_list list = { .exchange = exchange,
                              .folder_size = strlen(folder),
                              .of_partitions = strcmp(folder, PARTITION_FOLDER) == 0 };
    options.delimiter = '/';
    buffer_append_byte(json, '{');
    json_open(json, member, '[');
    enum hf_status status = hf_store_list(exchange->api->options.store, folder, &options,
                                          list_folder_entry, &list, error);
    buffer_append_byte(json, ']');
    json_put_bool(json, "more", list.more);
    buffer_append_byte(json, '}');
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static enum hf_status list_partitions(struct exchange *exchange, struct hf_error *error)
{
    return list_folder(exchange, PARTITION_FOLDER, "partitions", error);
}

static enum hf_status list_groups(struct exchange *exchange, struct hf_error *error)
{
    return list_folder(exchange, GROUP_FOLDER, "groups", error);
}

static void begin_partitions(struct exchange *exchange)
{
    exchange_work(exchange, list_partitions);
}

static void begin_groups(struct exchange *exchange)
{
    exchange_work(exchange, list_groups);
}

/* ---- Shards -------------------------------------------------------------------------- */

struct listed_shard {
    char name[8];
    uint64_t bytes;
    int64_t modified_ms;
};

struct shard_list {
    struct listed_shard *shards;
    size_t folder_size, count, room;
    uint64_t bytes;
    bool failed;
};

static bool add_shard(void *argument, const struct hf_store_entry *entry)
{
    struct shard_list *list = argument;
    struct view name =
        view_from((struct view){ entry->key, entry->key_size }, list->folder_size);
    struct view suffix = VIEW(".usv");
    if (!view_ends_with(name, suffix) || list->count == SHARDS_MAX)
        return true;
    name = view_first(name, name.size - suffix.size);
    if (name.size == 0 || name.size > 4 || !text_is_hex(name, name.size))
        return true;
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 256;
        struct listed_shard *shards = realloc(list->shards, room * sizeof *shards);
        list->failed = !shards;
        if (!shards)
            return false;
        list->shards = shards;
        list->room = room;
    }
    struct listed_shard *shard = &list->shards[list->count++];
    snprintf(shard->name, sizeof shard->name, "%.*s", VIEW_ARGS(name));
    shard->bytes = entry->size;
    shard->modified_ms = entry->modified_ms;
    list->bytes += entry->size;
    return true;
}

/* The largest first. */
static int compare_shard_sizes(const void *a, const void *b)
{
    const struct listed_shard *one = a, *other = b;
    if (one->bytes != other->bytes)
        return one->bytes > other->bytes ? -1 : 1;
    return strcmp(one->name, other->name);
}

static void put_shards(struct exchange *exchange, const struct shard_list *list)
{
    struct buffer *json = &exchange->body;
    size_t limit = exchange->ask.limit ? (size_t)exchange->ask.limit : SHARDS_LIMIT;
    buffer_append_byte(json, '{');
    json_put_text(json, "index", exchange->ask.index);
    json_open(json, "shards", '[');
    for (size_t i = 0; i < list->count && i < limit; i++) {
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_text(json, "shard", list->shards[i].name);
        json_put_u64(json, "bytes", list->shards[i].bytes);
        json_put_i64(json, "modified_ms", list->shards[i].modified_ms);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
    json_put_u64(json, "count", list->count);
    json_put_u64(json, "bytes", list->bytes);
    json_put_bool(json, "more", list->count > limit);
    buffer_append_byte(json, '}');
}

/* Opening the index tells whether there is one, and whether the name is a name. */
static enum hf_status list_shards(struct exchange *exchange, struct hf_error *error)
{
    struct buffer folder = BUFFER_INIT(2 * ASK_TEXT_MAX);
    struct shard_list list = { .count = 0 };
    struct hf_index *index;
    enum hf_status status =
        hf_index_open(exchange->space->client, exchange->ask.index, &index, error);
    if (status != HF_OK)
        return status;
    hf_index_close(index);
    buffer_print(&folder, "indexes/%s/shards/", exchange->ask.index);
    list.folder_size = folder.size;
    if (buffer_text(&folder))
        status = hf_store_list(exchange->api->options.store, folder.data, NULL, add_shard,
                               &list, error);
    if (status == HF_OK && (list.failed || folder.failed))
        status = error_no_memory(error);
    if (status == HF_OK && list.count > 0)
        qsort(list.shards, list.count, sizeof *list.shards, compare_shard_sizes);
    put_shards(exchange, &list);
    free(list.shards);
    buffer_release(&folder);
    return status == HF_OK && exchange->body.failed ? error_no_memory(error) : status;
}

static enum hf_status verify_shards(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.index ? HF_OK : error_set(error, HF_INVALID, "'index' is missing");
}

static void begin_shards(struct exchange *exchange)
{
    exchange_work(exchange, list_shards);
}

const struct route name_routes[] = {
    { HTTP_VERB_GET, "/v1/compact/list", RIGHT_READ, .has_space = true, .reads_body = false,
      NULL, begin_partitions, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/elect/groups", RIGHT_READ, .has_space = true, .reads_body = false,
      NULL, begin_groups, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/index/shards", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_shards, begin_shards, exchange_reply_body, .whole_store = true },
    { 0 },
};
