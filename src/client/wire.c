/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c: writes requests and reads replies. It guards against a server that is none, or not of
 * this version: what cannot be understood is never taken for a grant, or for a refusal. */
#include "client/wire.h"

#include "base/no_space.h"
#include "store/observe.h"
#include "store/retry.h"

#include <stdio.h>

/* How often a request that got no reply is repeated, and the longest pause before the first time.
 * */
#define TRIES_MORE  5
#define PAUSE_FIRST SPAN_MS(100)

/* ---- Requests -------------------------------------------------------------------------------- */

void wire_begin(struct buffer *json)
{
    buffer_append_byte(json, '{');
}

static void wire_name(struct buffer *json, const char *name)
{
    if (json->size > 0 && json->data[json->size - 1] != '{')
        buffer_append_byte(json, ',');
    json_write_string(json, view_of(name));
    buffer_append_byte(json, ':');
}

void wire_text(struct buffer *json, const char *name, struct view text)
{
    wire_name(json, name);
    json_write_string(json, text);
}

void wire_json(struct buffer *json, const char *name, struct view value)
{
    wire_name(json, name);
    buffer_append(json, value);
}

void wire_number(struct buffer *json, const char *name, int64_t number)
{
    wire_name(json, name);
    buffer_append_i64(json, number);
}

void wire_end(struct buffer *json)
{
    buffer_append_byte(json, '}');
}

void wire_resource(struct buffer *json, struct table_ref *ref)
{
    char text[SCOPE_TEXT_MAX + 1], name[NAME_BYTES_MAX + 1];
    struct view key = doc_key(ref->doc), ns = view_of(client_ns(ref->client));
    struct scope scope;
    wire_text(json, "namespace", ns);
    if (name_of_table(ns, key, name))
        wire_text(json, "key", view_of(name));
    else if (table_scope_at_server(client_space(ref->client), key, &scope))
        wire_text(json, "scope", view_of(scope_text(&scope, text)));
}

void wire_parameter(struct buffer *path, const char *name, struct view value)
{
    static const char digits[] = "0123456789ABCDEF";
    bool first = view_find(buffer_view(path), '?') == path->size;
    buffer_print(path, "%c%s=", first ? '?' : '&', name);
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || strchr("-_.~", c);
        if (plain && c) {
            buffer_append_byte(path, (char)c);
        } else {
            char escaped[] = { '%', digits[c >> 4], digits[c & 15] };
            buffer_append(path, (struct view){ escaped, sizeof escaped });
        }
    }
}

/* ---- Replies --------------------------------------------------------------------------------- */

static const struct wire_field wire_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct wire_answer, name, type, member)
    FIELD("lease_id", WIRE_TEXT, lease_id),
    FIELD("state_etag", WIRE_TEXT, etag),
    FIELD("new_state_etag", WIRE_TEXT, etag),
    FIELD("current_etag", WIRE_TEXT, etag),
    FIELD("txn_id", WIRE_TEXT, txn_id),
    FIELD("state", WIRE_TEXT, state),
    FIELD("error", WIRE_TEXT, word),
    FIELD("detail", WIRE_WORDS, detail),
    FIELD("owner", WIRE_WORDS, owner),
    FIELD("fencing_token", WIRE_U64, token),
    FIELD("version", WIRE_U64, version),
    FIELD("new_version", WIRE_U64, version),
    FIELD("current_version", WIRE_U64, version),
    FIELD("bytes", WIRE_U64, size),
    FIELD("waiters", WIRE_U64, waiters),
    FIELD("ttl_ms", WIRE_I64, ttl_ms),
    FIELD("remaining_ms", WIRE_I64, remaining_ms),
    FIELD("waited_ms", WIRE_I64, waited_ms),
    FIELD("updated_at_unix", WIRE_I64, updated_s),
    FIELD("expires_at_unix", WIRE_I64, expires_s),
    FIELD("held", WIRE_FLAG, held),
    FIELD("blocked", WIRE_BITS, blocked),
    FIELD("state_removed", WIRE_FLAG, removed),
    FIELD("staged", WIRE_FLAG, staged),
    FIELD("state_fencing_token", WIRE_U64, state_token),
#undef FIELD
};
#define WIRE_FIELDS (sizeof wire_fields / sizeof wire_fields[0])

bool wire_take_text(struct json_reader *reader, const struct wire_field *field, char *to)
{
    char room[4 * KIB];
    struct buffer space = { .data = room, .capacity = sizeof room, .max = sizeof room };
    struct view text;
    if (!json_take_text(reader, &space, &text))
        return false;
    bool fits = text.size < field->size && !memchr(text.data, '\0', text.size);
    if (!fits && field->type != WIRE_WORDS)
        return json_fail(reader, "a text is too long");
    text = view_first(text, field->size - 1);
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return true;
}

static bool take_bits(struct json_reader *reader, uint64_t *ret_bits)
{
    uint64_t bit;
    json_enter_array(reader);
    while (json_next_element(reader))
        if (json_take_u64(reader, 63, &bit))
            *ret_bits |= UINT64_C(1) << bit;
    return !reader->why;
}

/* A number outside is none that a server sends, and may be too large once it is in microseconds. */
static bool take_number(struct json_reader *reader, int64_t *ret_number)
{
    const int64_t most = MOMENT_FAR / 1000000;
    if (!json_take_i64(reader, ret_number))
        return false;
    bool fits = *ret_number >= -most && *ret_number <= most;
    return fits || json_fail(reader, "a number is too large");
}

static bool take_wire_field(struct json_reader *reader, const struct wire_field *field,
                            char *to)
{
    switch (field->type) {
    case WIRE_U64: return json_take_u64(reader, UINT64_MAX, (uint64_t *)(void *)to);
    case WIRE_I64: return take_number(reader, (int64_t *)(void *)to);
    case WIRE_FLAG: return json_take_bool(reader, (bool *)to);
    case WIRE_BITS: return take_bits(reader, (uint64_t *)(void *)to);
    case WIRE_RAW: return json_skip(reader, (struct view *)(void *)to);
    case WIRE_TEXT:
    case WIRE_WORDS:
    default: return wire_take_text(reader, field, to);
    }
}

bool wire_take(struct json_reader *reader, const struct wire_field *fields, size_t count,
               void *to)
{
    struct view name, ignored;
    json_enter_object(reader);
    while (json_next_member(reader, &name)) {
        const struct wire_field *field = fields;
        while (field < fields + count && !view_equal(name, view_of(field->name)))
            field++;
        if (field < fields + count)
            take_wire_field(reader, field, (char *)to + field->offset);
        else
            json_skip(reader, &ignored);
    }
    return !reader->why;
}

enum hf_mode wire_mode(const char *name)
{
    for (unsigned mode = HF_EXCLUSIVE; mode <= HF_SLOTS; mode++)
        if (strcmp(name, hf_mode_name((enum hf_mode)mode)) == 0)
            return (enum hf_mode)mode;
    return HF_EXCLUSIVE;
}

enum hf_status wire_invalid(const char *why, struct hf_error *error)
{
    return error_set(error, HF_INVALID, "the server sent a reply that is not valid: %s",
                     why ? why : "it ends too early");
}

enum hf_status wire_read(struct view json, struct wire_answer *answer)
{
    struct json_reader reader = json_read(json);
    wire_take(&reader, wire_fields, WIRE_FIELDS, answer);
    return json_end(&reader) ? HF_OK : wire_invalid(reader.why, &answer->error);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static const struct wire_word {
    const char *word;
    enum hf_status status;
    enum hf_key_outcome outcome;
} wire_words[] = {
    { "waiting", HF_HELD, HF_KEY_WAITING },
    { "lease_expired", HF_LOST, HF_KEY_LEASE_EXPIRED },
    { "lease_required", HF_DENIED, HF_KEY_LEASE_REQUIRED },
    { "fencing_mismatch", HF_FENCED, HF_KEY_FENCING_MISMATCH },
    { "version_conflict", HF_CONFLICT, HF_KEY_VERSION_CONFLICT },
    { "etag_mismatch", HF_CONFLICT, HF_KEY_ETAG_MISMATCH },
    { "txn_mismatch", HF_MISMATCH, HF_KEY_TXN_MISMATCH },
    { "mismatch", HF_MISMATCH, HF_KEY_NONE },
    { "conflict", HF_CONFLICT, HF_KEY_NONE },
    { "already_exists", HF_ALREADY, HF_KEY_NONE },
    { "already_done", HF_ALREADY, HF_KEY_NONE },
    { "invalid", HF_INVALID, HF_KEY_NONE },
    { "bad_request", HF_INVALID, HF_KEY_NONE },
    { "too_large", HF_INVALID, HF_KEY_NONE },
    { "unsupported", HF_UNSUPPORTED, HF_KEY_NONE },
    { "wrong_method", HF_UNSUPPORTED, HF_KEY_NONE },
    { "unauthorized", HF_DENIED, HF_KEY_NONE },
    { "forbidden", HF_DENIED, HF_KEY_NONE },
    { "wrong_host", HF_DENIED, HF_KEY_NONE },
    { "store_denied", HF_DENIED, HF_KEY_NONE },
    { "not_found", HF_NOT_FOUND, HF_KEY_NONE },
    { "corrupt", HF_CORRUPT, HF_KEY_NONE },
    { "unavailable", HF_UNAVAILABLE, HF_KEY_NONE },
    { "stopping", HF_UNAVAILABLE, HF_KEY_NONE },
    { "too_many", HF_UNAVAILABLE, HF_KEY_NONE },
    { "unsure", HF_UNSURE, HF_KEY_NONE },
};

enum hf_status wire_refusal(struct view word, enum hf_key_outcome *ret_outcome)
{
    *ret_outcome = HF_KEY_NONE;
    for (size_t i = 0; i < sizeof wire_words / sizeof wire_words[0]; i++)
        if (view_equal(word, view_of(wire_words[i].word))) {
            *ret_outcome = wire_words[i].outcome;
            return wire_words[i].status;
        }
    return HF_UNSURE;
}

static enum hf_status read_refusal(const struct http_reply *reply, struct wire_answer *answer)
{
    bool valid = wire_read(buffer_view(&reply->body), answer) == HF_OK && answer->word[0];
    if (valid) {
        enum hf_status status = wire_refusal(view_of(answer->word), &answer->outcome);
        return error_set(&answer->error, status, "%s",
                         answer->detail[0] ? answer->detail : answer->word);
    }
    bool refused = reply->status >= 400 && reply->status < 500;
    return error_set(&answer->error, refused ? HF_UNSUPPORTED : HF_UNSURE,
                     "the server replied with HTTP status %d and no reason; is it 'holdfast "
                     "serve'?",
                     reply->status);
}

/* The body of a 2xx reply is read by the caller if it is not JSON. A reply that cannot be read
 * leaves open what has happened. */
static enum hf_status read_reply(const struct server_call *call, const struct http_reply *reply,
                                 struct wire_answer *answer)
{
    answer->sent = reply->sent;
    answer->received = reply->received;
    if (reply->outcome != HTTP_ANSWERED) {
        answer->error = reply->error;
        if (reply->outcome == HTTP_STOPPED && reply->error.status == HF_CORRUPT)
            answer->error.status = HF_UNSURE; /* more bytes than a reply has */
        return answer->error.status;
    }
    if (reply->status < 200 || reply->status > 299)
        return read_refusal(reply, answer);
    if (call->sends_bytes || call->posts || reply->status != 204)
        answer->version = reply->key_version;
    if (!call->posts)
        return error_clear(&answer->error);
    if (wire_read(buffer_view(&reply->body), answer) == HF_OK)
        return error_clear(&answer->error);
    return answer->error.status = HF_UNSURE;
}

/* One request and its reply, for observers of the store. */
struct wire_request {
    struct store *store;
    const struct server_call *call;
    struct http_reply *reply;
    struct wire_answer *answer;
};

/* What is observed has the path without its query, so that there is one name for each kind of
 * request. */
static void make_request(void *argument, struct observation *seen)
{
    struct wire_request *made = argument;
    struct view path = view_of(made->call->path);
    server_send(server_of(made->store), made->call, made->reply);
    read_reply(made->call, made->reply, made->answer);
    *seen = (struct observation){ .kind = made->call->posts ? CALL_PUT : CALL_GET,
                                  .key = view_first(path, view_find(path, '?')),
                                  .error = &made->answer->error,
                                  .bytes_sent = made->call->body.size,
                                  .bytes_received = made->reply->body.size };
}

enum hf_status wire_exchange(struct hf_client *client, const struct server_call *call,
                             struct http_reply *reply, struct wire_answer *answer)
{
    struct wire_request made = { client_store(client), call, reply, answer };
    *answer = (struct wire_answer){ .error = { .status = HF_OK } };
    observe_request(made.store, make_request, &made);
    retry_budget_answered(store_budget(made.store), answer->error.status);
    return answer->error.status;
}

enum hf_status wire_repeat(struct hf_client *client, const struct server_call *call,
                           struct http_reply *reply, struct wire_answer *answer)
{
    struct retry retry = { .store = client_store(client),
                           .pause = PAUSE_FIRST,
                           .left = TRIES_MORE,
                           .until = call->deadline };
    bool doubt = false;
    enum hf_status status = wire_exchange(client, call, reply, answer);
    /* A certificate, or a full disk, does not get better by asking again. */
    while (!reply->bad_certificate && !error_is_no_space(&answer->error) &&
           retry_after(&retry, status)) {
        doubt = doubt || status == HF_UNSURE;
        http_reply_release(reply);
        status = wire_exchange(client, call, reply, answer);
    }
    if (doubt && status == HF_UNAVAILABLE)
        status = answer->error.status = HF_UNSURE;
    answer->doubt = doubt;
    return status;
}

enum hf_status wire_ask(struct hf_client *client, const char *path, struct buffer *json,
                        struct mono_time deadline, struct wire_answer *answer)
{
    struct server_call call = { .path = path,
                                .posts = true,
                                .body = buffer_view(json),
                                .reply_max = WIRE_REPLY_MAX,
                                .deadline = deadline };
    struct http_reply reply;
    if (json->failed)
        return error_no_memory(&answer->error);
    enum hf_status status = wire_repeat(client, &call, &reply, answer);
    http_reply_release(&reply);
    return status;
}

enum hf_status wire_get(struct hf_client *client, const struct buffer *path, const char *header,
                        size_t reply_max, struct http_reply *reply, struct wire_answer *answer)
{
    struct server_call call = { .path = path->data,
                                .headers = &header,
                                .header_count = header ? 1 : 0,
                                .reply_max = reply_max,
                                .deadline = client_deadline(client) };
    enum hf_status status = wire_repeat(client, &call, reply, answer);
    /* Nothing was changed, so there is nothing to be unsure of. */
    if (status == HF_UNSURE)
        status = answer->error.status = HF_UNAVAILABLE;
    return status;
}
