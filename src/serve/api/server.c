/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: the routes about the server itself: healthz, readyz and the description of the API.
 * They need no token. */
#include "serve/api/exchange.h"

/* The process lives and its loop runs. */
static void begin_health(struct exchange *exchange)
{
    exchange_reply(exchange, 200, "text/plain", NULL, 0, VIEW("ok\n"));
}

/* The store answers. Without a token, anybody can ask that, and hang up: all of them share one
 * read, which precedes new acquires, as keepalives do. */
static enum hf_status read_something(struct exchange *exchange, struct hf_error *error)
{
    struct hf_key_info info = HF_KEY_INFO;
    void *data = NULL;
    size_t size;
    enum hf_status status =
        hf_key_get(exchange->space->client, "holdfast-ready", 4096, &data, &size, &info, error);
    hf_free(data);
    return status == HF_NOT_FOUND ? HF_OK : status;
}

static void begin_ready(struct exchange *exchange)
{
    if (exchange->api->stopping)
        exchange_refuse_http(exchange, 503, "stopping", "the server is stopping");
    else
        exchange_work(exchange, read_something);
}

static void finish_ready(struct exchange *exchange, const struct core_result *result)
{
    if (result->status == HF_OK)
        exchange_reply(exchange, 200, "text/plain", NULL, 0, VIEW("ready\n"));
    else
        exchange_refuse_http(exchange, 503, "not_ready", "the store does not answer");
}

static void begin_openapi(struct exchange *exchange)
{
    exchange_reply(exchange, 200, "application/json", NULL, 0, openapi_document);
}

const struct route server_routes[] = {
    { HTTP_VERB_GET, "/healthz", 0, .has_space = false, .reads_body = false, NULL, begin_health,
      NULL },
    { HTTP_VERB_GET, "/readyz", 0, .has_space = true, .reads_body = false, NULL, begin_ready,
      finish_ready, .is_shared = true },
    { HTTP_VERB_GET, "/v1/openapi.json", 0, .has_space = false, .reads_body = false, NULL,
      begin_openapi, NULL },
    { 0 },
};
