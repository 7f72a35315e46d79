/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c: begins, reads, lists and decides transactions at a server. The server names the keys of a
 * transaction in its record, seals them and settles them, so none of that is done here. A decision
 * that got no reply is UNSURE: it can be repeated, because a server decides a transaction once. */
#include "client/client.h"
#include "client/wire.h"

#include "base/arena.h"
#include "key/record.h"

#include <stdio.h>
#include <stdlib.h>

#define TXN_JSON_MAX (4 * KIB)

/* The largest reply: a record with all its keys. */
#define TXN_REPLY_MAX RECORD_BYTES_MAX

/* A reply that is UNSURE to the wire, because it cannot be read or there was none. */
static enum hf_status post_txn(struct hf_client *client, const char *path, struct view id,
                               struct http_reply *reply, struct wire_answer *answer)
{
    struct buffer json = BUFFER_INIT(TXN_JSON_MAX);
    wire_begin(&json);
    wire_text(&json, "namespace", view_of(client_ns(client)));
    if (id.size > 0)
        wire_text(&json, "txn_id", id);
    wire_end(&json);
    struct server_call call = { .path = path,
                                .posts = true,
                                .body = buffer_view(&json),
                                .reply_max = TXN_REPLY_MAX,
                                .deadline = client_deadline(client) };
    *reply = (struct http_reply){ .status = 0 };
    enum hf_status status = json.failed ? error_no_memory(&answer->error)
                                        : wire_repeat(client, &call, reply, answer);
    buffer_release(&json);
    return status;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* A transaction that was begun without a reply has no keys, and is rolled back after a day. */
enum hf_status txn_begin_at_server(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                                   struct hf_error *error)
{
    struct wire_answer answer;
    struct http_reply reply;
    enum hf_status status = post_txn(client, "/v1/txn/begin", VIEW(""), &reply, &answer);
    http_reply_release(&reply);
    if (status == HF_UNSURE)
        status = answer.error.status = HF_UNAVAILABLE;
    if (status == HF_OK && !txn_id_valid(view_of(answer.txn_id)))
        status = wire_invalid("it has no id of a transaction", &answer.error);
    if (status == HF_OK)
        memcpy(ret_id, answer.txn_id, TXN_ID_SIZE + 1);
    else
        *error = answer.error;
    return status;
}

/* ---- Decide ---------------------------------------------------------------------------------- */

static enum txn_state txn_state_by_word(const char *word)
{
    for (enum txn_state state = TXN_PENDING; state <= TXN_ROLLBACK; state++)
        if (strcmp(word, txn_state_name(state)) == 0)
            return state;
    return TXN_ABSENT;
}

/* 409: it was decided the other way, now or earlier. */
enum hf_status txn_decide_at_server(struct hf_client *client, struct view id,
                                    enum hf_decision decision, enum hf_decision *ret_decided,
                                    struct hf_error *error)
{
    bool commits = decision == HF_COMMIT;
    struct wire_answer answer;
    struct http_reply reply;
    enum hf_status status =
        post_txn(client, commits ? "/v1/txn/commit" : "/v1/txn/rollback", id, &reply, &answer);
    http_reply_release(&reply);
    if (status == HF_OK &&
        txn_state_by_word(answer.state) != (commits ? TXN_COMMIT : TXN_ROLLBACK))
        status =
            error_set(&answer.error, HF_UNSURE,
                      "the server sent a reply that is not valid: it has another decision");
    if (status == HF_OK)
        *ret_decided = decision;
    else if (status == HF_MISMATCH)
        *ret_decided = commits ? HF_ROLLBACK : HF_COMMIT;
    if (status == HF_OK || status == HF_MISMATCH)
        return HF_OK;
    *error = answer.error;
    return status;
}

/* ---- Read ------------------------------------------------------------------------------------ */

/* The members of a record that are not keys. */
struct read_txn {
    char id[TXN_ID_SIZE + 1], state[16], holder[HOLDER_BYTES_MAX + 1];
    int64_t began_at_ms, decided_at_ms;
    bool open, applied, marked;
};

static const struct wire_field txn_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct read_txn, name, type, member)
    FIELD("txn_id", WIRE_TEXT, id),
    FIELD("state", WIRE_TEXT, state),
    FIELD("holder", WIRE_WORDS, holder),
    FIELD("began_at_ms", WIRE_I64, began_at_ms),
    FIELD("decided_at_ms", WIRE_I64, decided_at_ms),
    FIELD("open", WIRE_FLAG, open),
    FIELD("applied", WIRE_FLAG, applied),
    FIELD("marked", WIRE_FLAG, marked),
#undef FIELD
};

/* A time for display; 0 if it is none. */
static struct wall_time wall_of_ms(int64_t ms)
{
    return (struct wall_time){ ms > 0 && ms < INT64_MAX / 1000 ? ms * 1000 : 0 };
}

static bool take_txn_keys(struct json_reader *reader, struct txn_record *record)
{
    static const struct wire_field key = { "keys", WIRE_TEXT, 0, sizeof record->keys->name };
    json_enter_array(reader);
    while (json_next_element(reader)) {
        if (record->key_count == TXN_KEYS_MAX)
            return json_fail(reader, "a transaction has too many keys");
        wire_take_text(reader, &key, record->keys[record->key_count++].name);
    }
    return !reader->why;
}

/* Reads the array of keys; wire_take skips arrays. */
static enum hf_status read_txn_keys(struct view json, struct txn_record *record,
                                    struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    struct view name, ignored;
    json_enter_object(&reader);
    while (json_next_member(&reader, &name))
        if (view_equal(name, VIEW("keys")))
            take_txn_keys(&reader, record);
        else
            json_skip(&reader, &ignored);
    return json_end(&reader) ? HF_OK : wire_invalid(reader.why, error);
}

static enum hf_status take_txn_record(struct view json, struct view id,
                                      struct txn_record *ret_record, struct hf_error *error)
{
    struct read_txn read = { .open = false };
    struct json_reader reader = json_read(json);
    wire_take(&reader, txn_fields, sizeof txn_fields / sizeof txn_fields[0], &read);
    if (!json_end(&reader))
        return wire_invalid(reader.why, error);
    struct txn_record record = { .state = txn_state_by_word(read.state),
                                 .open = read.open,
                                 .applied = read.applied,
                                 .began_at = wall_of_ms(read.began_at_ms),
                                 .decided_at = wall_of_ms(read.decided_at_ms) };
    if (record.state == TXN_ABSENT || !view_equal(view_of(read.id), id))
        return wire_invalid("it is not the transaction that was asked for", error);
    if (!read.marked) /* record_is_mark */
        snprintf(record.owner, sizeof record.owner, "-");
    memcpy(record.id, read.id, sizeof record.id);
    memcpy(record.holder, read.holder, sizeof record.holder);
    record.keys = calloc(TXN_KEYS_MAX, sizeof *record.keys);
    enum hf_status status =
        record.keys ? read_txn_keys(json, &record, error) : error_no_memory(error);
    if (status == HF_OK)
        *ret_record = record;
    else
        free(record.keys);
    return status;
}

enum hf_status txn_read_at_server(struct hf_client *client, struct view id,
                                  struct txn_record *ret_record, struct hf_error *error)
{
    struct wire_answer answer;
    struct http_reply reply;
    enum hf_status status = post_txn(client, "/v1/txn/show", id, &reply, &answer);
    if (status == HF_UNSURE) /* nothing was changed */
        status = answer.error.status = HF_UNAVAILABLE;
    if (status == HF_OK)
        status = take_txn_record(buffer_view(&reply.body), id, ret_record, &answer.error);
    http_reply_release(&reply);
    if (status != HF_OK)
        *error = answer.error;
    return status;
}

/* ---- List ------------------------------------------------------------------------------------ */

#define TXNS_BYTES_MAX (8 * MIB)

/* One row. The server's label stands for the id, which is a secret. */
struct listed_txn {
    struct read_txn txn;
    struct view keys; /* the JSON of an array */
};

static const struct wire_field listed_txn_fields[] = {
#define FIELD(name, type, member) WIRE_FIELD(struct listed_txn, name, type, member)
    FIELD("txn", WIRE_WORDS, txn.id),
    FIELD("state", WIRE_TEXT, txn.state),
    FIELD("holder", WIRE_WORDS, txn.holder),
    FIELD("began_at_ms", WIRE_I64, txn.began_at_ms),
    FIELD("decided_at_ms", WIRE_I64, txn.decided_at_ms),
    FIELD("open", WIRE_FLAG, txn.open),
    FIELD("applied", WIRE_FLAG, txn.applied),
    FIELD("marked", WIRE_FLAG, txn.marked),
    FIELD("keys", WIRE_RAW, keys),
#undef FIELD
};

static enum hf_txn_state listed_state(const char *word)
{
    unsigned state = HF_TXN_PENDING;
    while (state < HF_TXN_STATE_COUNT &&
           strcmp(word, hf_txn_state_name((enum hf_txn_state)state)) != 0)
        state++;
    return state < HF_TXN_STATE_COUNT ? (enum hf_txn_state)state : HF_TXN_ABSENT;
}

/* The names of keys; NULL if memory runs out. */
static const char **take_listed_keys(struct view json, struct arena *arena, size_t *ret_count)
{
    static const struct wire_field field = { "keys", WIRE_WORDS, 0, KEY_BYTES_MAX + 1 };
    struct json_reader reader = json_read(json);
    const char **keys = arena_take(arena, TXN_KEYS_MAX * sizeof *keys);
    char name[KEY_BYTES_MAX + 1];
    size_t count = 0;
    json_enter_array(&reader);
    while (keys && count < TXN_KEYS_MAX && json_next_element(&reader) &&
           wire_take_text(&reader, &field, name)) {
        keys[count] = arena_copy(arena, view_of(name)).data;
        if (!keys[count++])
            return NULL;
    }
    *ret_count = count;
    return keys;
}

/* CANCELLED: the caller has stopped the list. */
static enum hf_status report_listed_txn(struct server_txn_list *list,
                                        const struct listed_txn *row, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct hf_txn_info info = { .struct_size = sizeof info,
                                .id = row->txn.id,
                                .state = listed_state(row->txn.state),
                                .holder = row->txn.holder,
                                .open = row->txn.open,
                                .applied = row->txn.applied,
                                .marked = row->txn.marked,
                                .began_at_ms = row->txn.began_at_ms,
                                .decided_at_ms = row->txn.decided_at_ms };
    enum hf_status status = HF_OK;
    info.keys = take_listed_keys(row->keys, &arena, &info.key_count);
    if (!info.keys)
        status = error_no_memory(error);
    else if (!list->each(list->argument, &info))
        status = HF_CANCELLED;
    arena_release(&arena);
    return status;
}

static enum hf_status read_txn_list(struct server_txn_list *list, struct view json,
                                    struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    struct view name, ignored;
    bool more = false;
    json_enter_object(&reader);
    while (json_next_member(&reader, &name)) {
        if (view_equal(name, VIEW("more"))) {
            json_take_bool(&reader, &more);
        } else if (!view_equal(name, VIEW("txns"))) {
            json_skip(&reader, &ignored);
        } else {
            json_enter_array(&reader);
            while (json_next_element(&reader)) {
                struct listed_txn row = { .keys = VIEW("[]") };
                enum hf_status status = HF_OK;
                if (wire_take(&reader, listed_txn_fields,
                              sizeof listed_txn_fields / sizeof listed_txn_fields[0], &row))
                    status = report_listed_txn(list, &row, error);
                if (status != HF_OK)
                    return status == HF_CANCELLED ? HF_OK : status;
            }
        }
    }
    if (!json_end(&reader))
        return wire_invalid(reader.why, error);
    return more ? error_set(error, HF_UNAVAILABLE,
                            "there are more transactions than a server lists; ask for those "
                            "of one state")
                : HF_OK;
}

enum hf_status txn_list(struct server_txn_list *list, struct hf_error *error)
{
    struct buffer path = BUFFER_INIT((size_t)SERVER_PATH_MAX);
    struct http_reply reply;
    struct wire_answer answer;
    buffer_append(&path, VIEW("/v1/txns"));
    wire_parameter(&path, "namespace", view_of(client_ns(list->client)));
    wire_parameter(&path, "limit", VIEW("1000"));
    if (list->only != HF_TXN_ABSENT)
        wire_parameter(&path, "state", view_of(hf_txn_state_name(list->only)));
    if (!buffer_text(&path)) {
        buffer_release(&path);
        return error_no_memory(error);
    }
    enum hf_status status =
        wire_get(list->client, &path, /* header */ NULL, TXNS_BYTES_MAX, &reply, &answer);
    *error = answer.error;
    if (status == HF_OK)
        status = read_txn_list(list, buffer_view(&reply.body), error);
    http_reply_release(&reply);
    buffer_release(&path);
    return status;
}
