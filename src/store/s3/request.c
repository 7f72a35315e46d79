/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: builds the URL, the headers and the signature of a request, sends it, and decides when
 * to retry. A write that may have taken effect is never sent again. */
#include "base/check.h"
#include "store/s3/inside.h"
#include "store/remote/secret.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_BYTES_MAX (64 * KIB)
#define TRIES_MAX      6
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS   2000

void s3_add_parameter(struct s3_request *request, const char *name, struct view value)
{
    check(request->parameter_count < 8);
    request->parameters[request->parameter_count++] = (struct s3_pair){ view_of(name), value };
}

void s3_add_header(struct s3_request *request, const char *name, struct view value)
{
    check(request->header_count < S3_EXTRA_HEADERS_MAX);
    request->headers[request->header_count++] = (struct s3_pair){ view_of(name), value };
}

struct mono_time s3_deadline(struct s3_store *s3, struct mono_time asked)
{
    return asked.us != 0 ? asked : mono_add(env_now(s3->base.env), s3->time_out);
}

#define SLOW_LINE_BYTES_A_SECOND (256 * KIB)

struct mono_time s3_stream_deadline(struct s3_store *s3, struct mono_time asked, uint64_t bytes,
                                    struct span *ret_stall)
{
    struct mono_time deadline = s3_deadline(s3, asked);
    *ret_stall = SPAN_US(0);
    if (bytes < MIB)
        return deadline;
    *ret_stall = s3->time_out;
    return asked.us != 0 ? asked : mono_add(deadline, SPAN_S(bytes / SLOW_LINE_BYTES_A_SECOND));
}

/* ---- Signing ------------------------------------------------------------------------- */

/* The signing key of the day, derived once and cached. */
static bool find_signing_key(struct s3_store *s3, const struct s3_credentials *credentials,
                             const char *date, struct s3_signing_key *ret_key)
{
    bool ok = true;
    env_mutex_lock(&s3->shared.mutex);
    struct s3_signer *signer = s3->shared.signer;
    if (memcmp(signer->day, date, S3_DAY_SIZE) != 0 ||
        strcmp(signer->access_key, credentials->access_key) != 0 ||
        strcmp(signer->secret, credentials->secret) != 0) {
        ok = s3_signing_key(view_of(credentials->secret), (struct view){ date, S3_DAY_SIZE },
                            view_of(s3->region), VIEW("s3"), &signer->key);
        memcpy(signer->day, ok ? date : "--------", S3_DAY_SIZE);
        memcpy(signer->access_key, credentials->access_key, sizeof signer->access_key);
        memcpy(signer->secret, credentials->secret, sizeof signer->secret);
    }
    *ret_key = signer->key;
    env_mutex_unlock(&s3->shared.mutex);
    return ok;
}

/* The strings of one request, each NUL-terminated, one after the other. They are kept as offsets
 * until all are written, because the buffer moves as it grows. */
struct wire {
    struct buffer text;
    size_t path, path_size;
    size_t query, query_size;
    size_t url;
    size_t lines[HTTP_HEADERS_MAX];
    size_t line_count;
};

static void end_text(struct wire *wire)
{
    buffer_append_byte(&wire->text, '\0');
}

static void write_line(struct wire *wire, struct view name, struct view value)
{
    check(wire->line_count < HTTP_HEADERS_MAX);
    wire->lines[wire->line_count++] = wire->text.size;
    buffer_append(&wire->text, name);
    buffer_append(&wire->text, VIEW(": "));
    buffer_append(&wire->text, value);
    end_text(wire);
}

static void write_url(struct wire *wire, const struct s3_store *s3,
                      const struct s3_request *request)
{
    wire->url = wire->text.size;
    buffer_append(&wire->text, view_of(s3->origin));
    wire->path = wire->text.size;
    buffer_append(&wire->text, view_of(s3->root));
    if (request->key.size > 0 || s3->root[0] == '\0')
        buffer_append_byte(&wire->text, '/');
    s3_encode(&wire->text, request->key, /* keep_slash */ true);
    wire->path_size = wire->text.size - wire->path;
    if (request->parameter_count > 0)
        buffer_append_byte(&wire->text, '?');
    wire->query = wire->text.size;
    s3_query(&wire->text, request->parameters, request->parameter_count);
    wire->query_size = wire->text.size - wire->query;
    end_text(wire);
}

/* The headers that are signed. */
static size_t list_headers(const struct s3_store *s3, const struct s3_request *request,
                           const struct s3_credentials *credentials, const char *date,
                           const char *payload, struct s3_pair headers[S3_SIGNED_HEADERS_MAX])
{
    size_t count = 0;
    headers[count++] = (struct s3_pair){ VIEW("host"), view_of(s3->host) };
    headers[count++] = (struct s3_pair){ VIEW("x-amz-content-sha256"), view_of(payload) };
    headers[count++] = (struct s3_pair){ VIEW("x-amz-date"), view_of(date) };
    if (credentials->token[0])
        headers[count++] =
            (struct s3_pair){ VIEW("x-amz-security-token"), view_of(credentials->token) };
    for (size_t i = 0; i < request->header_count; i++)
        headers[count++] = request->headers[i];
    return count;
}

static bool write_request(struct wire *wire, struct s3_store *s3,
                          const struct s3_request *request,
                          const struct s3_credentials *credentials)
{
    char date[S3_DATE_SIZE + 1];
    s3_date_text(request->signed_at, date);
    const char *payload = request->payload ? request->payload : S3_EMPTY_PAYLOAD;
    struct s3_signing_key key;
    struct s3_pair headers[S3_SIGNED_HEADERS_MAX];
    /* Reserve enough room: growing the buffer would leave a copy of the token in memory. */
    if (!buffer_reserve(&wire->text, 4 * KIB + strlen(credentials->token)) ||
        !find_signing_key(s3, credentials, date, &key))
        return false;
    write_url(wire, s3, request);
    size_t count = list_headers(s3, request, credentials, date, payload, headers);
    for (size_t i = 1; i < count; i++) /* all but `host`, which libcurl sends */
        write_line(wire, headers[i].name, headers[i].value);
    if (request->range)
        write_line(wire, VIEW("Range"), view_of(request->range));
    wire->lines[wire->line_count++] = wire->text.size;
    buffer_append(&wire->text, VIEW("Authorization: "));
    /* Reserve room for the value: the views below must not move while it is written. */
    if (!buffer_reserve(&wire->text, 1 * KIB))
        return false;
    struct s3_signing signing = {
        .method = view_of(request->method),
        .path = { wire->text.data + wire->path, wire->path_size },
        .query = { wire->text.data + wire->query, wire->query_size },
        .headers = headers,
        .header_count = count,
        .payload = view_of(payload),
        .date = view_of(date),
        .region = view_of(s3->region),
        .service = VIEW("s3"),
        .access_key = view_of(credentials->access_key),
    };
    bool ok = s3_sign(&signing, &key, &wire->text);
    end_text(wire);
    explicit_bzero(&key, sizeof key);
    return ok && !wire->text.failed;
}

/* ---- Sending ------------------------------------------------------------------------- */

static void perform(struct s3_store *s3, const struct s3_request *request,
                    const struct wire *wire, struct http_reply *reply)
{
    const char *lines[HTTP_HEADERS_MAX];
    for (size_t i = 0; i < wire->line_count; i++)
        lines[i] = wire->text.data + wire->lines[i];
    struct http_request http = {
        .method = request->method,
        .url = wire->text.data + wire->url,
        .headers = lines,
        .header_count = wire->line_count,
        .source = request->source,
        .sink = request->sink,
        .deadline = request->deadline,
        .stall = request->stall,
        .may_send_again = !request->writes,
        .progress = request->progress,
        .progress_base = request->progress_base,
        .progress_total = request->progress_total,
    };
    http_perform(s3->pool, &http, request->body_max ? request->body_max : HTTP_ERROR_BODY_MAX,
                 reply);
}

/* Shorter strings are not treated as secrets. */
#define SECRET_BYTES_MIN 8

static void hide(char *text, size_t size, const char *secret)
{
    size_t length = strlen(secret);
    char *found = length < SECRET_BYTES_MIN || size == 0 ? NULL : text;
    while (found && (found = memmem(found, size - (size_t)(found - text), secret, length)))
        memset(found, '*', length);
}

/* A server may echo what it was sent, and its replies are shown to users. */
static void hide_secrets(const struct s3_credentials *credentials, struct http_reply *reply)
{
    if (reply->status >= 200 && reply->status < 300)
        return;
    hide(reply->body.data, reply->body.size, credentials->secret);
    hide(reply->body.data, reply->body.size, credentials->token);
    hide(reply->location, sizeof reply->location, credentials->token);
}

static void send_once(struct s3_store *s3, struct s3_request *request, struct http_reply *reply)
{
    *reply = (struct http_reply){ .outcome = HTTP_NOT_SENT };
    struct s3_credentials *credentials = secret_new(sizeof *credentials);
    if (!credentials) {
        error_no_memory(&reply->error);
        return;
    }
    struct wire wire = { .text = BUFFER_INIT(TEXT_BYTES_MAX) };
    if (s3_provider_get(s3->provider, request->deadline, credentials, &reply->error) == HF_OK) {
        request->signed_at = s3_signing_time(s3);
        if (write_request(&wire, s3, request, credentials))
            perform(s3, request, &wire, reply);
        else
            error_no_memory(&reply->error);
        hide_secrets(credentials, reply);
    }
    secret_buffer_release(&wire.text); /* it contains the session token */
    secret_free(credentials, sizeof *credentials);
}

/* False if the deadline leaves no time for the pause. */
static bool pause_before(struct s3_store *s3, int tries, struct mono_time deadline)
{
    int64_t most_ms = (int64_t)PAUSE_FIRST_MS << tries;
    struct span pause =
        env_jitter(s3->base.env, SPAN_MS(most_ms < PAUSE_MAX_MS ? most_ms : PAUSE_MAX_MS));
    struct mono_time until = mono_add(env_now(s3->base.env), pause);
    if (!mono_before(until, deadline))
        return false;
    env_sleep_until(s3->base.env, until);
    return true;
}

enum hf_status s3_send(struct s3_store *s3, const struct s3_request *request,
                       bool (*again)(void *argument, struct s3_request *request),
                       void *argument, struct http_reply *reply, struct hf_error *error)
{
    struct s3_request attempt = *request;
    int tries = 0;
    for (;; tries++) {
        struct s3_advice advice;
        send_once(s3, &attempt, reply);
        if (s3_correct_time(s3, &attempt, reply)) { /* again, with the store's time */
            http_reply_release(reply);
            send_once(s3, &attempt, reply);
        }
        s3_learn_time(s3, reply);
        s3_check_reply(s3, &attempt, reply, &advice, error);
        if (advice.distrust)
            s3_provider_distrust(s3->provider);
        /* A write may have taken effect although its answer was lost, so it is not sent again. The
         * caller must first read the object. Repeatable writes change no object. */
        if (!advice.again || (attempt.writes && !attempt.repeatable) || tries + 1 == TRIES_MAX)
            break;
        if (!retry_budget_take(&s3->base.budget, env_now(s3->base.env)) ||
            !pause_before(s3, tries, attempt.deadline) || (again && !again(argument, &attempt)))
            break;
        http_reply_release(reply);
    }
    if (tries > 0 && retry_is_answered(error->status))
        retry_budget_refund(&s3->base.budget);
    return error->status;
}
