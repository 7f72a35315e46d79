/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: replies, and which status of HTTP and which word a client gets for a status of the
 * library. */
#include "serve/api/exchange.h"

#include <stdio.h>

#define JSON_TYPE "application/json"

/* ---- Replies ------------------------------------------------------------------------- */

static bool names_header(const struct http_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(headers[i].name, name) == 0)
            return true;
    return false;
}

void exchange_reply(struct exchange *exchange, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct view body)
{
    struct http_header all[API_HEADERS_MAX + 3];
    struct trace_context trace;
    struct view parent;
    size_t count = 0;
    if (!exchange->http)
        return;
    if (content_type)
        all[count++] = (struct http_header){ "Content-Type", view_of(content_type) };
    if (!names_header(headers, header_count, "Cache-Control"))
        all[count++] = (struct http_header){ "Cache-Control", VIEW("no-store") };
    for (size_t i = 0; i < header_count && i < API_HEADERS_MAX; i++)
        all[count++] = headers[i];
    if (http_request_header(exchange->http, VIEW("traceparent"), &parent) == 1 &&
        trace_context_read(parent, &trace))
        all[count++] = (struct http_header){ "traceparent", trace.text };
    struct http_request *http = exchange->http;
    exchange_record(exchange, status);
    exchange->http = NULL;
    http_reply(http, status, all, count, body);
    exchange_release(exchange);
}

void exchange_reply_json(struct exchange *exchange, int status, struct buffer *json)
{
    if (json->failed)
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
    else
        exchange_reply(exchange, status, JSON_TYPE, NULL, 0, buffer_view(json));
    buffer_release(json);
}

void exchange_reply_body(struct exchange *exchange, const struct core_result *result)
{
    (void)result;
    exchange_reply(exchange, 200, JSON_TYPE, NULL, 0, buffer_view(&exchange->body));
}

/* ---- Refusals ------------------------------------------------------------------------ */

/* Which status and word of the API a status of the library has. The outcome of a key says more, if
 * it is set. */
static const struct refusal {
    int http;
    const char *word;
    unsigned retry_after_s; /* 0: trying again as it is does not help */
} refusals[HF_STATUS_COUNT] = {
    [HF_NOT_FOUND] = { 404, "not_found", 0 },     [HF_NOT_MODIFIED] = { 500, "internal", 0 },
    [HF_CONFLICT] = { 409, "conflict", 0 },       [HF_UNSURE] = { 504, "unsure", 1 },
    [HF_UNAVAILABLE] = { 503, "unavailable", 1 }, [HF_DENIED] = { 503, "store_denied", 0 },
    [HF_INVALID] = { 400, "invalid", 0 },         [HF_UNSUPPORTED] = { 400, "unsupported", 0 },
    [HF_CORRUPT] = { 500, "corrupt", 0 },         [HF_HELD] = { 409, "waiting", 1 },
    [HF_LOST] = { 403, "lease_expired", 0 },      [HF_EXPIRED] = { 403, "lease_expired", 0 },
    [HF_MISMATCH] = { 409, "mismatch", 0 },       [HF_FENCED] = { 403, "fencing_mismatch", 0 },
    [HF_TIMEOUT] = { 503, "unavailable", 1 },     [HF_CANCELLED] = { 503, "stopping", 2 },
    [HF_ALREADY] = { 409, "already_exists", 0 },  [HF_UNREPORTED] = { 500, "internal", 0 },
};

static const struct refusal already_done = { 409, "already_done", 0 }; /* within once_per_ms */

static const struct refusal outcome_refusals[HF_KEY_OUTCOME_COUNT] = {
    [HF_KEY_LEASE_REQUIRED] = { 403, "lease_required", 0 },
    [HF_KEY_LEASE_EXPIRED] = { 403, "lease_expired", 0 },
    [HF_KEY_FENCING_MISMATCH] = { 403, "fencing_mismatch", 0 },
    [HF_KEY_VERSION_CONFLICT] = { 409, "version_conflict", 0 },
    [HF_KEY_ETAG_MISMATCH] = { 409, "etag_mismatch", 0 },
    [HF_KEY_TXN_MISMATCH] = { 409, "txn_mismatch", 0 },
    [HF_KEY_WAITING] = { 409, "waiting", 1 },
};

static struct buffer error_json(const char *word, const char *why, unsigned retry_after_s)
{
    struct buffer json = BUFFER_INIT(4096);
    buffer_append_byte(&json, '{');
    json_put_text(&json, "error", word);
    json_put_text(&json, "detail", why);
    if (retry_after_s > 0)
        json_put_u64(&json, "retry_after_seconds", retry_after_s);
    return json;
}

/* The indexes of the scopes that were in the way. */
static void put_blocked(struct buffer *json, uint64_t blocked)
{
    json_open(json, "blocked", '[');
    for (unsigned i = 0; i < 64; i++)
        if (blocked >> i & 1) {
            json_next(json);
            buffer_append_u64(json, i);
        }
    buffer_append_byte(json, ']');
}

static void send_refusal(struct exchange *exchange, const struct refusal *refusal,
                         const struct core_result *result)
{
    struct buffer json = error_json(refusal->word, result->why, refusal->retry_after_s);
    char seconds[16];
    bool retries = refusal->retry_after_s > 0;
    exchange->word = refusal->word;
    if (result->version > 0) {
        json_put_u64(&json, "current_version", result->version);
        json_put_text(&json, "current_etag", result->etag);
    }
    if (exchange->ask.scope_count > 0 && result->status == HF_HELD)
        put_blocked(&json, result->blocked);
    buffer_append_byte(&json, '}');
    snprintf(seconds, sizeof seconds, "%u", refusal->retry_after_s);
    struct http_header header = { "Retry-After", view_of(seconds) };
    exchange_reply(exchange, refusal->http, JSON_TYPE, &header, retries ? 1 : 0,
                   buffer_view(&json));
    buffer_release(&json);
}

void exchange_refuse(struct exchange *exchange, const struct core_result *result)
{
    const struct refusal *refusal = &outcome_refusals[result->outcome];
    if (!refusal->word)
        refusal = &refusals[result->status];
    if (result->status == HF_ALREADY && exchange->ask.once_per_ms > 0)
        refusal = &already_done;
    send_refusal(exchange, refusal, result);
}

void exchange_refuse_for(struct exchange *exchange, const struct hf_error *error)
{
    struct core_result result = { .status = error->status };
    snprintf(result.why, sizeof result.why, "%s", error->why);
    exchange_refuse(exchange, &result);
}

void exchange_refuse_rate(struct exchange *exchange, struct span wait)
{
    struct core_result result = { .status = HF_UNAVAILABLE };
    struct refusal refusal = { 429, "too_many", (unsigned)(wait.us / 1000000) + 1 };
    snprintf(result.why, sizeof result.why,
             "this client sends more requests than the server allows (--rate)");
    send_refusal(exchange, &refusal, &result);
}

void exchange_refuse_http(struct exchange *exchange, int status, const char *word,
                          const char *why)
{
    struct core_result result = { .status = HF_INVALID };
    struct refusal refusal = { status, word, status == 503 || status == 429 ? 1 : 0 };
    snprintf(result.why, sizeof result.why, "%s", why);
    send_refusal(exchange, &refusal, &result);
}

size_t api_error_body(int status, const char *why, char *text, size_t size)
{
    const char *word = "bad_request";
    if (status == 413)
        word = "too_large";
    else if (status == 408)
        word = "too_slow";
    else if (status >= 500)
        word = "unavailable";
    struct buffer json = error_json(word, why, 0);
    buffer_append_byte(&json, '}');
    size_t written = json.failed || json.size > size ? 0 : json.size;
    memcpy(text, json.data, written);
    buffer_release(&json);
    return written;
}
