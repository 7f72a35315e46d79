/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: builds the URL and the headers of a request, sends it, and decides when to retry. A
 * write that may have taken effect is never sent again. */
#include "base/check.h"
#include "base/parse.h"
#include "store/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES_MAX      6
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS   2000

void remote_add_parameter(struct remote_request *request, const char *name, struct view value)
{
    check(request->parameter_count < 8);
    request->parameters[request->parameter_count++] =
        (struct http_pair){ view_of(name), value };
}

void remote_add_header(struct remote_request *request, const char *name, struct view value)
{
    check(request->header_count < REMOTE_EXTRA_HEADERS_MAX);
    request->headers[request->header_count++] = (struct http_pair){ view_of(name), value };
}

struct mono_time remote_deadline(struct remote_store *remote, struct mono_time asked)
{
    return asked.us != 0 ? asked : mono_add(env_now(remote->base.env), remote->time_out);
}

#define SLOW_LINE_BYTES_A_SECOND (256 * KIB)

struct mono_time remote_stream_deadline(struct remote_store *remote, struct mono_time asked,
                                        uint64_t bytes, struct span *ret_stall)
{
    struct mono_time deadline = remote_deadline(remote, asked);
    *ret_stall = SPAN_US(0);
    if (bytes < MIB)
        return deadline;
    *ret_stall = remote->time_out;
    return asked.us != 0 ? asked : mono_add(deadline, SPAN_S(bytes / SLOW_LINE_BYTES_A_SECOND));
}

/* ---- The text of a request ----------------------------------------------------------- */

void wire_end_text(struct remote_wire *wire)
{
    buffer_append_byte(&wire->text, '\0');
}

void wire_open_line(struct remote_wire *wire, struct view name)
{
    check(wire->line_count < HTTP_HEADERS_MAX);
    wire->lines[wire->line_count++] = wire->text.size;
    buffer_append(&wire->text, name);
    buffer_append(&wire->text, VIEW(": "));
}

void wire_line(struct remote_wire *wire, struct view name, struct view value)
{
    wire_open_line(wire, name);
    buffer_append(&wire->text, value);
    wire_end_text(wire);
}

void wire_url(struct remote_wire *wire, const struct remote_store *remote,
              const struct remote_request *request, struct view raw_query)
{
    wire->url = wire->text.size;
    buffer_append(&wire->text, view_of(remote->origin));
    wire->path = wire->text.size;
    buffer_append(&wire->text, view_of(remote->root));
    if (request->key.size > 0 || remote->root[0] == '\0')
        buffer_append_byte(&wire->text, '/');
    http_encode(&wire->text, request->key, /* keep_slash */ true);
    wire->path_size = wire->text.size - wire->path;
    if (request->parameter_count > 0 || raw_query.size > 0)
        buffer_append_byte(&wire->text, '?');
    wire->query = wire->text.size;
    http_query(&wire->text, request->parameters, request->parameter_count);
    if (request->parameter_count > 0 && raw_query.size > 0)
        buffer_append_byte(&wire->text, '&');
    buffer_append(&wire->text, raw_query);
    wire->query_size = wire->text.size - wire->query;
    wire_end_text(wire);
}

/* ---- Sending ------------------------------------------------------------------------- */

void wire_send(struct remote_store *remote, const struct remote_request *request,
               const struct remote_wire *wire, struct http_reply *reply)
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
    http_perform(remote->pool, &http,
                 request->body_max ? request->body_max : HTTP_ERROR_BODY_MAX, reply);
}

/* Shorter strings are not treated as secrets. */
#define SECRET_BYTES_MIN 8

/* How many bytes at the start of the text stand for this one: the byte itself, "%2B" or "&#43;" in
 * either case. 0: they stand for another one. */
static size_t match_byte(struct view text, char wanted)
{
    if (text.size > 0 && text.data[0] == wanted)
        return 1;
    if (text.size >= 3 && text.data[0] == '%') {
        int high = hex_digit(text.data[1]), low = hex_digit(text.data[2]);
        return high >= 0 && low >= 0 && (unsigned char)wanted == high * 16 + low ? 3 : 0;
    }
    size_t end = view_find(view_first(text, 8), ';');
    if (end == text.size || end >= 8 || !view_starts_with(text, VIEW("&#")))
        return 0;
    struct view digits = view_first(view_from(text, 2), end - 2);
    bool hex = view_starts_with(digits, VIEW("x")) || view_starts_with(digits, VIEW("X"));
    int value = 0;
    for (size_t i = hex; i < digits.size; i++)
        value = value * (hex ? 16 : 10) + hex_digit(digits.data[i]);
    return value == (unsigned char)wanted ? end + 1 : 0;
}

/* The size of the secret at the start of the text, in any mixture of these forms; 0: not there. */
static size_t match_secret(struct view text, const char *secret)
{
    size_t at = 0;
    for (; *secret; secret++) {
        size_t size = match_byte(view_from(text, at), *secret);
        if (size == 0)
            return 0;
        at += size;
    }
    return at;
}

static void hide_text(char *text, size_t size, const char *secret)
{
    if (strlen(secret) < SECRET_BYTES_MIN)
        return;
    for (size_t i = 0; i < size; i++)
        memset(text + i, '*', match_secret((struct view){ text + i, size - i }, secret));
}

void remote_hide(struct http_reply *reply, const char *secret)
{
    if (reply->status >= 200 && reply->status < 300)
        return;
    hide_text(reply->body.data, reply->body.size, secret);
    hide_text(reply->location, sizeof reply->location, secret);
}

static void send_once(struct remote_store *remote, struct remote_request *request,
                      struct http_reply *reply)
{
    *reply = (struct http_reply){ .outcome = HTTP_NOT_SENT };
    remote->dialect->send(remote, request, reply);
}

/* False if the deadline leaves no time for the pause. */
static bool pause_before(struct remote_store *remote, int tries, struct mono_time deadline)
{
    int64_t most_ms = (int64_t)PAUSE_FIRST_MS << tries;
    struct span pause =
        env_jitter(remote->base.env, SPAN_MS(most_ms < PAUSE_MAX_MS ? most_ms : PAUSE_MAX_MS));
    struct mono_time until = mono_add(env_now(remote->base.env), pause);
    if (!mono_before(until, deadline))
        return false;
    env_sleep_until(remote->base.env, until);
    return true;
}

/* Whether the caller relies on a verdict that no longer counts. */
static bool is_outdated(struct remote_store *remote)
{
    env_mutex_lock(&remote->shared.mutex);
    bool outdated = remote->shared.unversioned && remote->shared.makes_versions;
    env_mutex_unlock(&remote->shared.mutex);
    return outdated;
}

/* Only writes show what the bucket does now: an object that is read may be older than a change of
 * its settings. While versions are suspended, a write makes none, or "null". */
static void note_version(struct remote_store *remote, const struct remote_request *request,
                         const struct http_reply *reply, struct hf_error *error)
{
    if (!request->writes || !reply->has_version || reply->null_version)
        return;
    env_mutex_lock(&remote->shared.mutex);
    remote->shared.makes_versions = true;
    env_mutex_unlock(&remote->shared.mutex);
    if (request->condition != CONDITION_ALWAYS && error->status == HF_OK && is_outdated(remote))
        error_set(error, HF_UNSURE,
                  "the bucket keeps versions now, so the store may have ignored the condition");
}

enum hf_status remote_send(struct remote_store *remote, const struct remote_request *request,
                           bool (*again)(void *argument, struct remote_request *request),
                           void *argument, struct http_reply *reply, struct hf_error *error)
{
    struct remote_request attempt = *request;
    int tries = 0;
    if (is_outdated(remote)) {
        *reply = (struct http_reply){ .outcome = HTTP_NOT_SENT };
        return error_set(error, HF_UNSUPPORTED,
                         "the bucket keeps versions now, and the store was probed when it did "
                         "not; run 'holdfast store probe', then start again");
    }
    for (;; tries++) {
        struct remote_advice advice;
        send_once(remote, &attempt, reply);
        if (remote_correct_time(remote, &attempt, reply)) { /* again, with the store's time */
            http_reply_release(reply);
            send_once(remote, &attempt, reply);
        }
        remote_learn_time(remote, reply);
        remote_check_reply(remote, &attempt, reply, &advice, error);
        if (advice.distrust)
            remote->dialect->distrust(remote);
        /* A write may have taken effect although its answer was lost, so it is not sent again. The
         * caller must first read the object. Repeatable writes change no object. */
        bool once = attempt.once || (attempt.writes && !attempt.repeatable && !advice.resend);
        if (!advice.again || once || tries + 1 == TRIES_MAX)
            break;
        if (!retry_budget_take(&remote->base.budget, env_now(remote->base.env)) ||
            !pause_before(remote, tries, attempt.deadline) ||
            (again && !again(argument, &attempt)))
            break;
        http_reply_release(reply);
    }
    if (tries > 0 && retry_is_answered(error->status))
        retry_budget_refund(&remote->base.budget);
    note_version(remote, request, reply, error);
    return error->status;
}

void remote_send_put(struct remote_store *remote, const struct remote_request *request,
                     struct put_call *call)
{
    struct http_reply reply;
    remote_send(remote, request, /* again */ NULL, NULL, &reply, &call->error);
    call->stamp = remote_stamp(&reply);
    if (call->error.status == HF_OK) {
        call->etag = reply.etag;
        /* The write has happened, but without its ETag the caller cannot recognise it. */
        if (reply.etag.size == 0)
            error_set(&call->error, HF_UNSURE, "the store accepted the put but sent no ETag");
    }
    http_reply_release(&reply);
}
