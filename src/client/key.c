/* SPDX-License-Identifier: Apache-2.0 */
/* key.c: reads and changes the states of keys at a server. A change that got no reply is repeated
 * with the same request id, so that it is made at most once. */
#include "client/client.h"
#include "client/wire.h"

#include "key/key.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* The largest state that a server accepts. */
#define STATE_BYTES_MAX (64 * MIB)

#define PATH_ROOM    ((size_t)SERVER_PATH_MAX)
#define HEADER_ROOM  160
#define UPDATE_SPEED ((int64_t)MIB) /* bytes per second that a slow network has */

static const char *key_path(struct buffer *path, struct hf_client *client, const char *route,
                            struct view name)
{
    buffer_append(path, view_of(route));
    wire_parameter(path, "namespace", view_of(client_ns(client)));
    wire_parameter(path, "key", name);
    return buffer_text(path);
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum hf_status key_read_state(struct hf_client *client, struct view name, struct buffer *body,
                              struct hf_key_info *info, struct hf_error *error)
{
    struct buffer path = BUFFER_INIT(PATH_ROOM);
    struct wire_answer answer;
    struct http_reply reply;
    if (!key_path(&path, client, "/v1/get", name)) {
        buffer_release(&path);
        return error_no_memory(error);
    }
    wire_parameter(&path, "public", VIEW("1"));
    buffer_text(&path);
    enum hf_status status =
        wire_get(client, &path, /* header */ NULL, STATE_BYTES_MAX, &reply, &answer);
    struct view etag = etag_view(&reply.etag);
    struct state_version version = { .number = reply.key_version, .token = reply.token };
    if (etag.size <= NONCE_SIZE)
        memcpy(version.etag, etag.data, etag.size);
    version.size = reply.body.size;
    version.removed = reply.status == 204 && version.number > 0;
    *error = answer.error;
    if (status == HF_OK)
        key_info_fill(NULL, &version, HF_KEY_NONE, info);
    if (status == HF_OK && reply.status == 204)
        status = error_set(error, HF_NOT_FOUND, "the key %s",
                           version.removed ? "was removed" : "was never written");
    else if (status == HF_OK && reply.body.size > body->max)
        status =
            error_set(error, HF_INVALID, "the state has %zu bytes, more than the %zu allowed",
                      reply.body.size, body->max);
    else if (status == HF_OK && !buffer_append(body, buffer_view(&reply.body)))
        status = error_no_memory(error);
    http_reply_release(&reply);
    buffer_release(&path);
    return status;
}

/* A server tells the transaction that holds the key to whoever has the lease. */
static enum hf_status ask_description(struct hf_client *client, struct view name,
                                      struct wire_answer *answer)
{
    char table[KEY_BYTES_MAX + 1], id[LEASE_ID_MAX + 1], header[HEADER_ROOM];
    struct buffer path = BUFFER_INIT(PATH_ROOM);
    struct http_reply reply;
    bool own = key_document(view_of(client_ns(client)), name, table, NULL) == HF_OK &&
               keeper_find_lease(client, view_of(table), id);
    if (own)
        snprintf(header, sizeof header, "X-Lease-ID: %s", id);
    enum hf_status status = error_no_memory(&answer->error);
    if (key_path(&path, client, "/v1/describe", name)) {
        status = wire_get(client, &path, own ? header : NULL, WIRE_REPLY_MAX, &reply, answer);
        if (status == HF_OK)
            status = wire_read(buffer_view(&reply.body), answer);
        http_reply_release(&reply);
    }
    buffer_release(&path);
    return status;
}

static struct state_version answered_version(const struct wire_answer *answer)
{
    struct state_version version = { .number = answer->version, .size = answer->size };
    version.at = (struct wall_time){ answer->updated_s * 1000000 };
    memcpy(version.etag, answer->etag, sizeof version.etag);
    return version;
}

enum hf_status key_describe_at_server(struct hf_client *client, struct view name,
                                      struct key_description *ret_description,
                                      struct hf_error *error)
{
    struct wire_answer answer;
    struct key_description told = { .info = HF_KEY_INFO };
    enum hf_status status = ask_description(client, name, &answer);
    *error = answer.error;
    if (status != HF_OK)
        return status;
    struct state_version version = answered_version(&answer);
    version.token = answer.state_token;
    version.removed = answer.removed;
    key_info_fill(NULL, &version, HF_KEY_NONE, &told.info);
    memcpy(told.info.txn, answer.txn_id, sizeof told.info.txn);
    told.staged = answer.staged;
    told.held = answer.held;
    told.token = answer.token;
    told.waiters = answer.waiters;
    memcpy(told.holder, answer.owner, sizeof told.holder);
    if (answer.held) {
        struct wall_time now = env_wall(client_env(client));
        told.expires_at = (struct wall_time){ answer.expires_s * 1000000 };
        struct span left = wall_since(told.expires_at, now);
        told.remaining = answer.remaining_ms > 0 ? SPAN_MS(answer.remaining_ms)
                                                 : span_larger(left, SPAN_US(0));
    }
    *ret_description = told;
    return HF_OK;
}

/* ---- Changing -------------------------------------------------------------------------------- */

struct state_headers {
    char text[6][HEADER_ROOM];
    const char *all[6];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void add_header(struct state_headers *headers,
                                                             const char *format, ...)
{
    char *to = headers->text[headers->count];
    va_list values;
    va_start(values, format);
    vsnprintf(to, HEADER_ROOM, format, values);
    va_end(values);
    headers->all[headers->count++] = to;
}

/* An ETag that could end the header is none of ours, and no state has it. */
static bool is_header_text(struct view text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f)
            return false;
    return text.size <= HF_KEY_ETAG_SIZE;
}

static void set_headers(struct state_headers *headers, struct hf_client *client,
                        const struct change *change)
{
    char request_id[NONCE_SIZE + 1];
    env_random_hex(client_env(client), NONCE_SIZE, request_id);
    headers->count = 0;
    add_header(headers, "X-Lease-ID: %.*s", VIEW_ARGS(change->lease));
    add_header(headers, "X-Fencing-Token: %" PRIu64, change->token);
    add_header(headers, "X-Request-ID: %s", request_id);
    if (change->if_version_set)
        add_header(headers, "X-If-Version: %" PRIu64, change->if_version);
    if (change->if_etag.size > 0)
        add_header(headers, "X-If-State-ETag: %.*s", VIEW_ARGS(change->if_etag));
    if (change->kind == CHANGE_STAGE)
        add_header(headers, "X-Txn-ID: %.*s", VIEW_ARGS(change->txn));
}

static enum hf_status send_state(struct hf_client *client, const struct buffer *path,
                                 const struct state_headers *headers,
                                 const struct state_version *version, struct mono_time deadline,
                                 struct wire_answer *answer)
{
    struct server_call call = { .path = path->data,
                                .headers = headers->all,
                                .header_count = headers->count,
                                .posts = true,
                                .sends_bytes = true,
                                .body = version->removed ? VIEW("") : version->bytes,
                                .reply_max = WIRE_REPLY_MAX,
                                .deadline = deadline };
    struct http_reply reply;
    enum hf_status status = wire_repeat(client, &call, &reply, answer);
    http_reply_release(&reply);
    return status;
}

/* The state after a change, or the one that refused it. */
static void note_served_state(struct change *change, const struct wire_answer *answer,
                              bool changed)
{
    struct state_version now = answered_version(answer);
    if (changed) {
        now.token = change->token;
        now.size = change->version->size;
        now.at = change->version->at;
        now.removed = change->version->removed;
    }
    if (changed && change->kind == CHANGE_STAGE) {
        struct state_stage stage = { .token = change->token, .changes = true, .next = now };
        memcpy(stage.txn, change->txn.data, change->txn.size);
        change->state.staged = true;
        change->state.stage = stage;
    } else {
        change->state.now = now;
    }
}

static enum hf_status publish(struct table_ref *ref, struct change *change,
                              struct mono_time deadline, struct hf_error *error)
{
    struct hf_client *client = ref->client;
    struct buffer path = BUFFER_INIT(PATH_ROOM);
    struct state_headers headers;
    struct wire_answer answer = { .outcome = HF_KEY_NONE };
    char name[NAME_BYTES_MAX + 1];
    if (change->version->size > STATE_BYTES_MAX)
        return error_set(error, HF_INVALID, "a server accepts states of at most 64 MiB");
    if (!is_header_text(change->if_etag)) {
        change->outcome = HF_KEY_ETAG_MISMATCH;
        return error_set(error, outcome_status(change->outcome), "%s",
                         outcome_sentence(change->outcome));
    }
    name_of_table(view_of(client_ns(client)), doc_key(ref->doc), name);
    set_headers(&headers, client, change);
    const char *route = change->version->removed ? "/v1/remove" : "/v1/update";
    struct span time = SPAN_US((int64_t)change->version->size * 1000000 / UPDATE_SPEED);
    enum hf_status status = error_no_memory(&answer.error);
    if (key_path(&path, client, route, view_of(name)))
        status = send_state(client, &path, &headers, change->version, mono_add(deadline, time),
                            &answer);
    buffer_release(&path);
    if (status == HF_LOST) /* as a change under a lease that has ended says it */
        status = HF_EXPIRED;
    /* A server that was started again does not know the attempt before, so that a refusal says
     * nothing about it. */
    if (answer.doubt && status != HF_OK && status != HF_UNSURE) {
        error_prefix(&answer.error, "the change may have taken effect before this failure");
        answer.outcome = HF_KEY_NONE;
        status = HF_UNSURE;
    }
    change->outcome = status == HF_OK ? HF_KEY_NONE : answer.outcome;
    if (status == HF_OK || change->outcome != HF_KEY_NONE)
        note_served_state(change, &answer, status == HF_OK);
    *error = answer.error;
    error->status = status;
    return status;
}

static enum hf_status look(struct table_ref *ref, struct change *change, struct hf_error *error)
{
    struct wire_answer answer;
    char name[NAME_BYTES_MAX + 1];
    name_of_table(view_of(client_ns(ref->client)), doc_key(ref->doc), name);
    enum hf_status status = ask_description(ref->client, view_of(name), &answer);
    *error = answer.error;
    if (status != HF_OK)
        return status;
    note_served_state(change, &answer, /* changed */ false);
    change->state.now.token = answer.state_token;
    change->state.now.removed = answer.removed;
    change->state.staged = answer.staged;
    change->state.stage.token = answer.token;
    memcpy(change->state.stage.txn, answer.txn_id, sizeof answer.txn_id);
    change->blocker = answer.held ? answer.token : 0;
    return HF_OK;
}

enum hf_status key_change_at_server(struct table_ref *ref, struct change *change,
                                    struct mono_time deadline, struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status;
    if (deadline.us == 0)
        deadline = client_deadline(ref->client);
    if (change->kind == CHANGE_PUBLISH || change->kind == CHANGE_STAGE)
        status = publish(ref, change, deadline, &why);
    else if (change->kind == CHANGE_LOOK)
        status = look(ref, change, &why);
    else if (change->kind == CHANGE_ONCE) /* a server changes a key only under its lease */
        status = error_set(&why, HF_HELD, "the key must be acquired first");
    else
        status = server_refuse(&why);
    return error_tell(error, status, &why);
}
