/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c: the routes of keys and their states: get, update, remove, describe and list. */
#include "serve/api/exchange.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

#define KEYS_LIMIT 100

static enum hf_status need_key(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.key ? HF_OK : error_set(error, HF_INVALID, "'key' is missing");
}

static enum hf_status need_key_and_lease(struct exchange *exchange, struct hf_error *error)
{
    enum hf_status status = need_key(exchange, error);
    if (status == HF_OK && exchange->ask.scope)
        return error_set(error, HF_INVALID, "a scope has no state: send 'key'");
    return status;
}

/* ---- Get ----------------------------------------------------------------------------- */

/* Reads the state. Without `public`, the client must hold the key: the lease is looked up after the
 * state was read, so that the state is not older than the lease. */
static enum hf_status read_held_state(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_client *client = exchange->space->client;
    struct hf_lease_name name = HF_LEASE_NAME;
    char lease[HF_LEASE_TEXT_MAX];
    void *data = NULL;
    size_t size = 0;
    enum hf_status status = hf_key_get(client, ask->key, HTTP_LIMITS.body_bytes, &data, &size,
                                       &exchange->info, error);
    exchange->status = status == HF_NOT_FOUND ? 204 : 200;
    if (status == HF_OK && !buffer_append(&exchange->body, (struct view){ data, size }))
        status = error_no_memory(error);
    hf_free(data);
    if (status == HF_NOT_FOUND)
        status = HF_OK;
    if (status != HF_OK || ask->is_public)
        return status;
    status = lease_id_find(exchange->api->options.ids, client, ask->key, ask->lease_id, lease,
                           error);
    if (status == HF_NOT_FOUND)
        return error_set(error, HF_LOST, "there is no lease with this id; it has ended");
    if (status == HF_OK)
        status = hf_lease_parse(lease, &name, error);
    if (status == HF_OK && ask->token != 0 && ask->token != name.token)
        return error_set(error, HF_FENCED, "the lease has another fencing token");
    return status;
}

static void begin_get(struct exchange *exchange)
{
    struct core_result refused = { .status = HF_DENIED, .outcome = HF_KEY_LEASE_REQUIRED };
    exchange->body.max = HTTP_LIMITS.body_bytes;
    if (exchange->ask.lease_id || exchange->ask.is_public) {
        exchange_work(exchange, read_held_state);
        return;
    }
    snprintf(refused.why, sizeof refused.why,
             "send the lease in the header X-Lease-ID, or ask for public=1");
    exchange_refuse(exchange, &refused);
}

static void finish_get(struct exchange *exchange, const struct core_result *result)
{
    const struct hf_key_info *info = &exchange->info;
    struct http_header headers[3];
    char version[24], token[24], etag[HF_KEY_ETAG_SIZE + 3];
    size_t count = 0;
    (void)result;
    snprintf(version, sizeof version, "%" PRIu64, info->version);
    snprintf(token, sizeof token, "%" PRIu64, info->token);
    snprintf(etag, sizeof etag, "\"%s\"", info->etag);
    headers[count++] = (struct http_header){ "X-Key-Version", view_of(version) };
    if (info->version > 0) {
        headers[count++] = (struct http_header){ "X-Fencing-Token", view_of(token) };
        headers[count++] = (struct http_header){ "ETag", view_of(etag) };
    }
    exchange_reply(exchange, exchange->status,
                   exchange->status == 200 ? "application/octet-stream" : NULL, headers, count,
                   buffer_view(&exchange->body));
}

/* ---- Update and remove --------------------------------------------------------------- */

static void change(struct exchange *exchange, enum lease_order_kind kind)
{
    const struct ask *ask = &exchange->ask;
    struct core_result refused = { .status = HF_DENIED, .outcome = HF_KEY_LEASE_REQUIRED };
    struct lease_task task = { .kind = kind,
                               .data = exchange->sent.data,
                               .size = exchange->sent.size };
    if (!ask->lease_id) {
        snprintf(refused.why, sizeof refused.why, "send the lease in the header X-Lease-ID");
        exchange_refuse(exchange, &refused);
        return;
    }
    task.when = HF_KEY_IF;
    task.when.version_set = ask->version_sent;
    task.when.version = ask->version;
    task.when.etag = ask->etag;
    exchange_order(exchange, &task);
}

static void begin_update(struct exchange *exchange)
{
    http_request_take_body(exchange->http, &exchange->sent);
    change(exchange, LEASE_UPDATE);
}

static void finish_update(struct exchange *exchange, const struct core_result *result)
{
    struct buffer json = BUFFER_INIT(API_REPLY_MAX);
    buffer_append_byte(&json, '{');
    json_put_u64(&json, "new_version", result->version);
    json_put_text(&json, "new_state_etag", result->etag);
    json_put_u64(&json, "bytes", exchange->sent.size);
    buffer_append_byte(&json, '}');
    exchange_reply_json(exchange, 200, &json);
}

static void begin_remove(struct exchange *exchange)
{
    change(exchange, LEASE_REMOVE);
}

static void finish_remove(struct exchange *exchange, const struct core_result *result)
{
    struct buffer json = BUFFER_INIT(API_REPLY_MAX);
    buffer_append_byte(&json, '{');
    json_put_bool(&json, "removed", true);
    json_put_u64(&json, "new_version", result->version);
    buffer_append_byte(&json, '}');
    exchange_reply_json(exchange, 200, &json);
}

/* ---- Describe ------------------------------------------------------------------------ */

struct owner_search {
    struct buffer *json;
    uint64_t token;
    bool found;
};

static bool find_owner(void *argument, const struct hf_lease_info *lease)
{
    struct owner_search *search = argument;
    if (lease->place > 0 || lease->token != search->token)
        return true;
    json_put_owner(search->json, lease->note, lease->holder);
    search->found = true;
    return false;
}

/* A lease that has ended meanwhile is described all the same, by its holder. */
static void describe_holder(struct exchange *exchange, const char *name,
                            const struct hf_key_status *held)
{
    struct buffer *json = &exchange->body;
    struct owner_search search = { .json = json, .token = held->token };
    int64_t ends = env_wall(exchange->api->env).us / 1000 + held->remaining_ms;
    hf_locks_show(exchange->space->client, name, /* table */ NULL, find_owner,
                  /* audit */ NULL, &search, NULL);
    if (!search.found)
        json_put_text(json, "owner", held->holder);
    json_put_u64(json, "fencing_token", held->token);
    json_put_i64(json, "remaining_ms", held->remaining_ms);
    json_put_i64(json, "expires_at_unix", ends / 1000);
}

/* The members of a key. */
static void write_key(struct exchange *exchange, const char *name,
                      const struct hf_key_info *info, const struct hf_key_status *held)
{
    struct buffer *json = &exchange->body;
    json_put_text(json, "namespace", exchange->ask.ns);
    json_put_text(json, "key", name);
    json_put_u64(json, "version", info->version);
    json_put_text(json, "state_etag", info->etag);
    json_put_u64(json, "bytes", info->size);
    json_put_i64(json, "updated_at_unix", info->updated_ms / 1000);
    json_put_bool(json, "state_removed", info->removed);
    json_put_u64(json, "state_fencing_token", info->token);
    json_put_bool(json, "held", held->held);
    if (held->held)
        describe_holder(exchange, name, held);
    json_put_u64(json, "waiters", held->waiters);
}

/* Whether the client has sent the id of the lease with this token. It may know for which
 * transaction it holds the key. */
static bool is_lease_of_key(struct exchange *exchange, uint64_t token)
{
    const struct ask *ask = &exchange->ask;
    struct hf_lease_name name = HF_LEASE_NAME;
    char lease[HF_LEASE_TEXT_MAX];
    return lease_id_find(exchange->api->options.ids, exchange->space->client, ask->key,
                         ask->lease_id, lease, NULL) == HF_OK &&
           hf_lease_parse(lease, &name, NULL) == HF_OK && name.token == token;
}

static enum hf_status describe(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_key_status held = HF_KEY_STATUS;
    struct hf_key_info info = HF_KEY_INFO;
    struct buffer *json = &exchange->body;
    enum hf_status status =
        hf_key_describe(exchange->space->client, ask->key, &info, &held, error);
    if (status != HF_OK)
        return status;
    buffer_append_byte(json, '{');
    write_key(exchange, ask->key, &info, &held);
    json_put_bool(json, "staged", held.staged);
    if (ask->lease_id && info.txn[0] && is_lease_of_key(exchange, held.token))
        json_put_text(json, "txn_id", info.txn);
    buffer_append_byte(json, '}');
    return json->failed ? error_no_memory(error) : HF_OK;
}

static void begin_describe(struct exchange *exchange)
{
    exchange_work(exchange, describe);
}

/* ---- List ---------------------------------------------------------------------------- */

struct key_page {
    struct exchange *exchange;
    size_t listed, limit;
    bool more;
    char last[HF_SCOPE_TEXT_MAX];
};

/* The id of a transaction that holds a key is a secret, and is not listed. */
static bool add_key_to_page(void *argument, const char *name, const struct hf_key_info *info,
                            const struct hf_key_status *held)
{
    struct key_page *page = argument;
    struct exchange *exchange = page->exchange;
    struct buffer *json = &exchange->body;
    if (exchange->ask.after && strcmp(name, exchange->ask.after) <= 0)
        return true;
    page->more = page->listed >= page->limit;
    if (page->more)
        return false;
    page->listed++;
    snprintf(page->last, sizeof page->last, "%s", name);
    json_next(json);
    buffer_append_byte(json, '{');
    write_key(exchange, name, info, held);
    json_put_bool(json, "staged", held->staged);
    json_put_bool(json, "damaged", held->damaged);
    buffer_append_byte(json, '}');
    return !json->failed;
}

static bool goes_on_with_keys(void *argument)
{
    const struct key_page *page = argument;
    return exchange_is_wanted(page->exchange);
}

static enum hf_status list_keys(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct buffer *json = &exchange->body;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct key_page page = { .exchange = exchange,
                             .limit = ask->limit ? (size_t)ask->limit : KEYS_LIMIT };
    options.proceed = goes_on_with_keys;
    buffer_append(json, VIEW("{\"keys\":["));
    enum hf_status status =
        hf_keys_list(exchange->space->client, ask->prefix ? ask->prefix : "", &options,
                     add_key_to_page, &page, error);
    buffer_append_byte(json, ']');
    if (page.more)
        json_put_text(json, "next", page.last);
    buffer_append_byte(json, '}');
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static void begin_list_keys(struct exchange *exchange)
{
    exchange_work(exchange, list_keys);
}

const struct route key_routes[] = {
    { HTTP_VERB_GET, "/v1/keys", RIGHT_READ, .has_space = true, .reads_body = false, NULL,
      begin_list_keys, exchange_reply_body },
    { HTTP_VERB_GET, "/v1/get", RIGHT_READ, .has_space = true, .reads_body = false, need_key,
      begin_get, finish_get },
    { HTTP_VERB_POST, "/v1/update", RIGHT_WRITE, .has_space = true, .reads_body = false,
      need_key_and_lease, begin_update, finish_update, .body_max = SIZE_MAX },
    { HTTP_VERB_POST, "/v1/remove", RIGHT_WRITE, .has_space = true, .reads_body = false,
      need_key_and_lease, begin_remove, finish_remove },
    { HTTP_VERB_GET, "/v1/describe", RIGHT_READ, .has_space = true, .reads_body = false,
      need_key, begin_describe, exchange_reply_body },
    { 0 },
};
