/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: the routes of indexes: list, status, put, get, query and compile.
 *
 * Indexes belong to the whole store and to no namespace, so a token needs the right in all
 * namespaces. A record is a JSON object of strings, one for each field. */
#include "serve/api/exchange.h"

#include "base/json.h"

#define FIELDS_MAX        256
#define QUERY_LIMIT       100
#define QUERY_REPLY_BYTES (8 * 1024 * 1024) /* a reply takes no more records after this */

static enum hf_status need_index(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.index ? HF_OK : error_set(error, HF_INVALID, "'index' is missing");
}

/* Opens the index, calls `use`, and closes it. */
static enum hf_status with_index(struct exchange *exchange,
                                 enum hf_status (*use)(struct exchange *exchange,
                                                       struct hf_index *index,
                                                       struct hf_error *error),
                                 struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    struct hf_index *index;
    enum hf_status status =
        hf_index_open(exchange->space->client, exchange->ask.index, &index, error);
    if (status != HF_OK)
        return status;
    buffer_append_byte(json, '{');
    json_put_text(json, "index", exchange->ask.index);
    status = use(exchange, index, error);
    buffer_append_byte(json, '}');
    hf_index_close(index);
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

/* ---- List ---------------------------------------------------------------------------- */

static bool add_index_name(void *argument, const char *name)
{
    struct buffer *json = argument;
    json_next(json);
    json_write_string(json, view_of(name));
    return !json->failed;
}

static enum hf_status list_indexes(struct exchange *exchange, struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    buffer_append_byte(json, '{');
    json_open(json, "indexes", '[');
    enum hf_status status = hf_index_list(exchange->space->client, add_index_name, json, error);
    buffer_append(json, VIEW("]}"));
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static void begin_index_list(struct exchange *exchange)
{
    exchange_work(exchange, list_indexes);
}

/* ---- Status -------------------------------------------------------------------------- */

static enum hf_status put_index_fields(struct buffer *json, struct hf_index *index,
                                       struct hf_error *error)
{
    struct hf_index_info info = HF_INDEX_INFO;
    enum hf_status status = hf_index_describe(index, &info, error);
    if (status != HF_OK)
        return status;
    json_open(json, "fields", '[');
    for (size_t i = 0; i < info.field_count; i++)
        add_index_name(json, hf_index_field_name(index, i));
    buffer_append_byte(json, ']');
    json_put_text(json, "key", hf_index_field_name(index, info.key));
    json_put_text(json, "time", hf_index_field_name(index, info.time));
    json_put_u64(json, "shards_max", info.shards);
    return HF_OK;
}

static bool add_index_holder(void *argument, const struct hf_index_holder *holder)
{
    struct buffer *json = argument;
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "shard", holder->shard);
    json_put_text(json, "holder", holder->holder);
    json_put_u64(json, "fencing_token", holder->token);
    json_put_bool(json, "over", holder->over);
    buffer_append_byte(json, '}');
    return !json->failed;
}

/* A number that is not known is left out. */
static void put_index_stats(struct buffer *json, const struct hf_index_stats *stats)
{
    json_put_u64(json, "entries", stats->entries);
    json_put_u64(json, "entry_bytes", stats->entry_bytes);
    json_put_u64(json, "entries_foreign", stats->entries_foreign);
    if (stats->entries > 0 && stats->oldest_ms >= 0)
        json_put_i64(json, "oldest_entry_unix", stats->oldest_ms / 1000);
    json_put_u64(json, "shards", stats->shards);
    json_put_u64(json, "shards_waiting", stats->shards_waiting);
    json_put_u64(json, "shard_bytes", stats->shard_bytes);
    json_put_u64(json, "shard_bytes_max", stats->shard_bytes_max);
    if (stats->records >= 0)
        json_put_i64(json, "records", stats->records);
    json_put_u64(json, "set_aside", stats->aside);
    json_put_u64(json, "locks_unreadable", stats->locks_unreadable);
}

static enum hf_status read_index_status(struct exchange *exchange, struct hf_index *index,
                                        struct hf_error *error)
{
    struct hf_index_status_options options = HF_INDEX_STATUS_OPTIONS;
    struct hf_index_stats stats = HF_INDEX_STATS;
    struct buffer *json = &exchange->body;
    enum hf_status status = put_index_fields(json, index, error);
    if (status != HF_OK)
        return status;
    options.holder = add_index_holder;
    options.argument = json;
    json_open(json, "compiling", '[');
    status = hf_index_status(index, &options, &stats, error);
    buffer_append_byte(json, ']');
    put_index_stats(json, &stats);
    return status;
}

static enum hf_status index_status(struct exchange *exchange, struct hf_error *error)
{
    return with_index(exchange, read_index_status, error);
}

static void begin_index_status(struct exchange *exchange)
{
    exchange_work(exchange, index_status);
}

/* ---- Put ----------------------------------------------------------------------------- */

/* A string of JSON, in the arena of the request. */
static const char *keep_json_string(struct ask *ask, const struct json_text *string,
                                    struct hf_error *error)
{
    struct buffer plain = BUFFER_INIT(string->text.size + 1);
    struct view copy = { 0 };
    bool valid = json_unescape(string->text, &plain);
    if (plain.failed)
        error_no_memory(error);
    else if (!valid || memchr(plain.data ? plain.data : "", '\0', plain.size))
        error_set(error, HF_INVALID, "'record' is not valid Unicode, or contains NUL");
    else if (!(copy = arena_copy(&ask->arena, buffer_view(&plain))).data)
        error_no_memory(error);
    buffer_release(&plain);
    return copy.data;
}

/* Reads the members of `record`, all of which are strings. */
static enum hf_status verify_index_put(struct exchange *exchange, struct hf_error *error)
{
    struct ask *ask = &exchange->ask;
    struct json_reader reader = json_read(ask->record);
    struct json_text name, value;
    enum hf_status status = need_index(exchange, error);
    if (status != HF_OK)
        return status;
    if (ask->record.size == 0)
        return error_set(error, HF_INVALID, "'record' is missing");
    ask->values = arena_take(&ask->arena, FIELDS_MAX * sizeof *ask->values);
    if (!ask->values)
        return error_no_memory(error);
    json_enter_object(&reader);
    while (json_next_pair(&reader, &name, &value)) {
        struct hf_index_value *one = &ask->values[ask->value_count];
        if (ask->value_count++ == FIELDS_MAX)
            return error_set(error, HF_INVALID, "'record' has more than %d fields", FIELDS_MAX);
        if (value.kind != JSON_KIND_STRING)
            return error_set(error, HF_INVALID, "every member of 'record' must be a string");
        one->field = keep_json_string(ask, &name, error);
        one->value = one->field ? keep_json_string(ask, &value, error) : NULL;
        if (!one->value)
            return error->status;
    }
    return HF_OK; /* ask_read_body has checked the syntax */
}

static enum hf_status store_record(struct exchange *exchange, struct hf_index *index,
                                   struct hf_error *error)
{
    json_put_bool(&exchange->body, "stored", true);
    return hf_index_put(index, exchange->ask.values, exchange->ask.value_count, error);
}

static enum hf_status put_in_index(struct exchange *exchange, struct hf_error *error)
{
    return with_index(exchange, store_record, error);
}

static void begin_index_put(struct exchange *exchange)
{
    exchange_work(exchange, put_in_index);
}

/* ---- Get and query ------------------------------------------------------------------- */

/* The record as an object, without the end of its line. */
static bool record_object(struct hf_index_record *record, struct view *ret_json)
{
    size_t size = 0;
    const char *text = hf_index_record_text(record, HF_INDEX_NDJSON, /* first */ false, &size);
    while (text && size > 0 && text[size - 1] == '\n')
        size--;
    *ret_json = (struct view){ text, size };
    return text != NULL;
}

static enum hf_status get_record(struct exchange *exchange, struct hf_index *index,
                                 struct hf_error *error)
{
    struct hf_index_record *record = NULL;
    struct view json;
    enum hf_status status = hf_index_get(index, exchange->ask.key, &record, error);
    if (status == HF_OK && !record_object(record, &json))
        status = error_no_memory(error);
    if (status == HF_OK)
        json_put_raw(&exchange->body, "record", json);
    hf_index_record_free(record);
    return status;
}

static enum hf_status get_from_index(struct exchange *exchange, struct hf_error *error)
{
    return with_index(exchange, get_record, error);
}

static void begin_index_get(struct exchange *exchange)
{
    exchange_work(exchange, get_from_index);
}

static enum hf_status verify_index_get(struct exchange *exchange, struct hf_error *error)
{
    enum hf_status status = need_index(exchange, error);
    if (status == HF_OK && !exchange->ask.key)
        return error_set(error, HF_INVALID, "'key' is missing");
    return status;
}

/* Reads the parameters `filter`, of which there may be several. */
static enum hf_status verify_index_query(struct exchange *exchange, struct hf_error *error)
{
    struct ask *ask = &exchange->ask;
    const struct http_pair *pairs;
    size_t count = http_request_parameters(exchange->http, &pairs);
    ask->filters = arena_take(&ask->arena, HF_INDEX_WHERE_MAX * sizeof *ask->filters);
    if (!ask->filters)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        if (!view_equal(pairs[i].name, VIEW("filter")))
            continue;
        if (ask->filter_count == HF_INDEX_WHERE_MAX)
            return error_set(error, HF_INVALID, "more than %d filters", HF_INDEX_WHERE_MAX);
        struct view copy = arena_copy(&ask->arena, pairs[i].value);
        if (!copy.data)
            return error_no_memory(error);
        ask->filters[ask->filter_count++] = copy.data;
    }
    return need_index(exchange, error);
}

static enum hf_status add_records(struct exchange *exchange, struct hf_index_cursor *cursor,
                                  uint64_t limit, bool *ret_more, struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    for (uint64_t count = 0;; count++) {
        struct hf_index_record *record;
        struct view text;
        enum hf_status status = hf_index_cursor_next(cursor, &record, error);
        if (status == HF_NOT_FOUND)
            return HF_OK;
        if (status != HF_OK)
            return status;
        *ret_more = count == limit || json->size >= QUERY_REPLY_BYTES;
        if (*ret_more)
            return HF_OK;
        if (!record_object(record, &text))
            return error_no_memory(error);
        json_next(json);
        buffer_append(json, text);
    }
}

static enum hf_status query_records(struct exchange *exchange, struct hf_index *index,
                                    struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_index_query query = HF_INDEX_QUERY;
    struct hf_index_cursor *cursor;
    uint64_t limit = ask->limit > 0 ? ask->limit : QUERY_LIMIT;
    bool more = false;
    query.prefix = ask->prefix;
    query.since = ask->since;
    query.sort = ask->sort;
    query.filters = ask->filters;
    query.filter_count = ask->filter_count;
    query.limit = limit + 1;
    enum hf_status status = hf_index_cursor_open(index, &query, &cursor, error);
    if (status != HF_OK)
        return status;
    json_open(&exchange->body, "records", '[');
    status = add_records(exchange, cursor, limit, &more, error);
    buffer_append_byte(&exchange->body, ']');
    json_put_bool(&exchange->body, "more", more);
    hf_index_cursor_close(cursor);
    return status;
}

static enum hf_status query_index(struct exchange *exchange, struct hf_error *error)
{
    return with_index(exchange, query_records, error);
}

static void begin_index_query(struct exchange *exchange)
{
    exchange_work(exchange, query_index);
}

/* ---- Compile ------------------------------------------------------------------------- */

static bool goes_on_compiling(void *argument)
{
    return exchange_is_wanted(argument);
}

static enum hf_status compile(struct exchange *exchange, struct hf_index *index,
                              struct hf_error *error)
{
    struct hf_index_compile_options options = HF_INDEX_COMPILE_OPTIONS;
    struct hf_index_compile_report report = HF_INDEX_COMPILE_REPORT;
    struct buffer *json = &exchange->body;
    options.wait_ms = 0;
    options.go_on = goes_on_compiling;
    options.argument = exchange;
    enum hf_status status = hf_index_compile(index, &options, &report, error);
    json_put_u64(json, "shards_done", report.shards_done);
    json_put_u64(json, "shards_held", report.shards_held);
    json_put_u64(json, "shards_lost", report.shards_lost);
    json_put_u64(json, "shards_failed", report.shards_failed);
    json_put_u64(json, "entries", report.folded.entries);
    json_put_u64(json, "records_new", report.folded.records_new);
    json_put_u64(json, "records_later", report.folded.records_later);
    json_put_u64(json, "superseded", report.folded.superseded);
    json_put_u64(json, "set_aside", report.folded.aside);
    json_put_u64(json, "entries_left", report.folded.left);
    return status;
}

static enum hf_status compile_index(struct exchange *exchange, struct hf_error *error)
{
    return with_index(exchange, compile, error);
}

static void begin_index_compile(struct exchange *exchange)
{
    exchange_work_long(exchange, compile_index);
}

const struct route index_routes[] = {
    { HTTP_VERB_GET, "/v1/index/list", RIGHT_READ, .has_space = true, .reads_body = false, NULL,
      begin_index_list, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/index/status", RIGHT_READ, .has_space = true, .reads_body = false,
      need_index, begin_index_status, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/index/put", RIGHT_WRITE, .has_space = true, .reads_body = true,
      verify_index_put, begin_index_put, exchange_reply_body, .whole_store = true,
      .body_max = API_RECORD_MAX },
    { HTTP_VERB_GET, "/v1/index/get", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_index_get, begin_index_get, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_GET, "/v1/index/query", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_index_query, begin_index_query, exchange_reply_body, .whole_store = true },
    { HTTP_VERB_POST, "/v1/index/compile", RIGHT_WRITE, .has_space = true, .reads_body = true,
      need_index, begin_index_compile, exchange_reply_body, .whole_store = true },
    { 0 },
};
