/* SPDX-License-Identifier: Apache-2.0 */
/* views.c: the routes that only a page for people needs: who its user is, and which requests wait
 * at this server. They are answered by the loop, from memory. */
#include "serve/api/exchange.h"

#include "base/json.h"

#define WAITS_LIMIT 100

/* ---- Who am I ------------------------------------------------------------------------ */

static void put_rights(struct buffer *json, const char *name, const struct exchange *exchange,
                       const char *ns)
{
    static const struct {
        const char *name;
        enum right right;
    } rights[] = { { "read", RIGHT_READ },
                   { "lock", RIGHT_LOCK },
                   { "write", RIGHT_WRITE },
                   { "admin", RIGHT_ADMIN } };
    json_open(json, name, '[');
    for (size_t i = 0; i < sizeof rights / sizeof rights[0]; i++)
        if (exchange_has_right(exchange, rights[i].right, ns)) {
            json_next(json);
            buffer_print(json, "\"%s\"", rights[i].name);
        }
    buffer_append_byte(json, ']');
}

/* Those that are in use, as far as the client may read them. */
static void put_namespaces(struct buffer *json, const struct exchange *exchange)
{
    const struct api *api = exchange->api;
    const struct space *space = map_seek(&api->spaces, VIEW(""), /* beyond */ false);
    json_open(json, "namespaces", '[');
    for (; space; space = map_seek(&api->spaces, view_of(space->name), /* beyond */ true))
        if (exchange_has_right(exchange, RIGHT_READ, space->name)) {
            json_next(json);
            json_write_string(json, view_of(space->name));
        }
    buffer_append_byte(json, ']');
}

static void begin_whoami(struct exchange *exchange)
{
    const struct api *api = exchange->api;
    struct buffer json = BUFFER_INIT(API_REPLY_MAX);
    buffer_append_byte(&json, '{');
    if (exchange->who)
        json_put_text(&json, "name", exchange->who);
    json_put_bool(&json, "tokens", guard_has_tokens(api->guard));
    json_put_text(&json, "namespace", exchange->ask.ns);
    put_rights(&json, "rights", exchange, exchange->ask.ns);
    put_rights(&json, "store_rights", exchange, ALL_NAMESPACES);
    put_namespaces(&json, exchange);
    json_put_i64(&json, "now_ms", env_wall(api->env).us / 1000);
    json_put_i64(&json, "started_ms", metrics_started_ms(api->options.metrics));
    json_put_text(&json, "version", hf_version());
    buffer_append_byte(&json, '}');
    exchange_reply_json(exchange, 200, &json);
}

/* ---- Waits --------------------------------------------------------------------------- */

static void put_wait(struct buffer *json, const struct exchange *waiting, const char *scope)
{
    char label[ID_LABEL_SIZE + 1];
    struct span waited = mono_since(env_now(waiting->api->env), waiting->arrived);
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "scope", scope);
    json_put_text(json, "owner", waiting->ask.owner);
    json_put_i64(json, "waited_ms", waited.us / 1000);
    if (waiting->ask.txn_id) {
        id_label(waiting->ask.txn_id, label);
        json_put_text(json, "txn", label);
    }
    buffer_append_byte(json, '}');
}

/* The longest wait comes first. */
static void begin_waits(struct exchange *exchange)
{
    const struct ask *ask = &exchange->ask;
    struct buffer json = BUFFER_INIT(API_REPLY_MAX), wanted = BUFFER_INIT(CORE_RESOURCE_MAX);
    size_t count = 0, limit = ask->limit ? (size_t)ask->limit : WAITS_LIMIT;
    bool sees_store = exchange_has_right(exchange, RIGHT_READ, ALL_NAMESPACES);
    if (exchange_scope(exchange))
        exchange_print_scope(exchange, &wanted);
    buffer_append_byte(&json, '{');
    json_open(&json, "waits", '[');
    for (const struct exchange *one = exchange->api->waits.first; one; one = one->wait_after) {
        struct buffer scope = BUFFER_INIT(CORE_RESOURCE_MAX);
        exchange_print_scope(one, &scope);
        bool listed =
            one->space == exchange->space && !scope.failed &&
            (sees_store || !ask_names_store_lock(&one->ask)) &&
            (wanted.size == 0 || view_equal(buffer_view(&wanted), buffer_view(&scope)));
        if (listed && count++ < limit)
            put_wait(&json, one, buffer_text(&scope));
        buffer_release(&scope);
    }
    buffer_append_byte(&json, ']');
    json_put_u64(&json, "count", count);
    buffer_append_byte(&json, '}');
    buffer_release(&wanted);
    exchange_reply_json(exchange, 200, &json);
}

const struct route view_routes[] = {
    { HTTP_VERB_GET, "/v1/whoami", RIGHT_READ, .has_space = false, .reads_body = false, NULL,
      begin_whoami, NULL },
    { HTTP_VERB_GET, "/v1/waits", RIGHT_READ, .has_space = true, .reads_body = false, NULL,
      begin_waits, NULL },
    { 0 },
};
