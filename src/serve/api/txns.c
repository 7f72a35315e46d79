/* SPDX-License-Identifier: Apache-2.0 */
/* txns.c: the routes of transactions: begin, decide, commit, rollback, replay and list.
 *
 * A transaction is its record in the store, and the stages of its keys. Every server of the store
 * can acquire keys for it, stage changes, and decide it, and none of them keeps anything about it.
 * Whoever knows the id may decide the transaction. So it is never listed, like a lease's id. */
#include "serve/api/exchange.h"

#include "base/hash.h"
#include "base/json.h"
#include "serve/calls/txn_call.h"

#include <stdio.h>

#define TXNS_LIMIT    100
#define TXN_WAITS_MAX 1000

static enum hf_status need_txn(struct exchange *exchange, struct hf_error *error)
{
    return exchange->ask.txn_id ? HF_OK : error_set(error, HF_INVALID, "'txn_id' is missing");
}

static enum hf_status write_txn(struct exchange *exchange, const struct txn_call *call,
                                struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    buffer_append_byte(json, '{');
    json_put_text(json, "txn_id", call->id);
    json_put_text(json, "state", hf_txn_state_name(call->state));
    buffer_append_byte(json, '}');
    return json->failed ? error_no_memory(error) : HF_OK;
}

static enum hf_status make_txn_call(struct exchange *exchange, struct txn_call *call,
                                    struct hf_error *error)
{
    enum hf_status status = txn_call_make(exchange->space->client, call, error);
    return status == HF_OK ? write_txn(exchange, call, error) : status;
}

/* The same for a transaction that the request names. */
static enum hf_status make_asked_call(struct exchange *exchange, struct txn_call call,
                                      struct hf_error *error)
{
    call.id = exchange->ask.txn_id;
    return make_txn_call(exchange, &call, error);
}

/* ---- Begin --------------------------------------------------------------------------- */

static enum hf_status open_txn(struct exchange *exchange, struct hf_error *error)
{
    struct txn_call call = { .kind = TXN_CALL_BEGIN };
    return make_txn_call(exchange, &call, error);
}

static void begin_txn_begin(struct exchange *exchange)
{
    exchange_work(exchange, open_txn);
}

/* ---- Decide -------------------------------------------------------------------------- */

static enum hf_status commit_txn(struct exchange *exchange, struct hf_error *error)
{
    struct txn_call call = { .kind = TXN_CALL_DECIDE,
                             .decision = HF_COMMIT,
                             .freed = exchange->wakes ? &exchange->freed : NULL };
    return make_asked_call(exchange, call, error);
}

static enum hf_status roll_back_txn(struct exchange *exchange, struct hf_error *error)
{
    struct txn_call call = { .kind = TXN_CALL_DECIDE,
                             .decision = HF_ROLLBACK,
                             .freed = exchange->wakes ? &exchange->freed : NULL };
    return make_asked_call(exchange, call, error);
}

static void begin_txn_commit(struct exchange *exchange)
{
    exchange->wakes = core_has_waiters(exchange->api->core);
    exchange_work(exchange, commit_txn);
}

static void begin_txn_rollback(struct exchange *exchange)
{
    exchange->wakes = core_has_waiters(exchange->api->core);
    exchange_work(exchange, roll_back_txn);
}

/* The keys are free now: those who wait for them at this server are told at once. */
static void finish_decision(struct exchange *exchange, const struct core_result *result)
{
    struct api *api = exchange->api;
    struct buffer resource = BUFFER_INIT(CORE_RESOURCE_MAX);
    const struct buffer *freed = &exchange->freed;
    for (size_t at = 0; at < freed->size; at += strlen(freed->data + at) + 1) {
        const char *name = freed->data + at; /* <namespace>/<key> */
        const char *slash = strchr(name, '/');
        buffer_clear(&resource);
        if (slash &&
            buffer_print(&resource, "%.*s/named:%s", (int)(slash - name), name, slash + 1))
            core_wake(api->core, buffer_view(&resource), env_now(api->env));
    }
    buffer_release(&resource);
    exchange_reply_body(exchange, result);
}

/* ---- Replay -------------------------------------------------------------------------- */

static enum hf_status replay_txn(struct exchange *exchange, struct hf_error *error)
{
    return make_asked_call(exchange, (struct txn_call){ .kind = TXN_CALL_REPLAY }, error);
}

static void begin_txn_replay(struct exchange *exchange)
{
    exchange_work(exchange, replay_txn);
}

/* `state` pending asks whether the transaction is still undecided. */
static enum hf_status find_pending_txn(struct exchange *exchange, struct hf_error *error)
{
    return make_asked_call(exchange, (struct txn_call){ .kind = TXN_CALL_CHECK }, error);
}

static enum hf_status verify_decide(struct exchange *exchange, struct hf_error *error)
{
    static const char *const states[] = { "pending", "commit", "rollback" };
    const char *state = exchange->ask.state;
    for (size_t i = 0; state && i < sizeof states / sizeof states[0]; i++)
        if (strcmp(state, states[i]) == 0)
            return need_txn(exchange, error);
    return error_set(error, HF_INVALID, "'state' must be pending, commit or rollback");
}

static void begin_decide(struct exchange *exchange)
{
    switch (exchange->ask.state[0]) {
    case 'c': begin_txn_commit(exchange); break;
    case 'r': begin_txn_rollback(exchange); break;
    default: exchange_work(exchange, find_pending_txn); break;
    }
}

/* ---- Show ---------------------------------------------------------------------------- */

static void put_txn_members(struct buffer *json, const struct hf_txn_info *txn)
{
    json_put_text(json, "state", hf_txn_state_name(txn->state));
    json_put_text(json, "holder", txn->holder);
    json_put_bool(json, "open", txn->open);
    json_put_bool(json, "applied", txn->applied);
    if (txn->began_at_ms > 0)
        json_put_i64(json, "began_at_ms", txn->began_at_ms);
    if (txn->decided_at_ms > 0)
        json_put_i64(json, "decided_at_ms", txn->decided_at_ms);
    json_open(json, "keys", '[');
    for (size_t i = 0; i < txn->key_count; i++) {
        json_next(json);
        json_write_string(json, view_of(txn->keys[i]));
    }
    buffer_append_byte(json, ']');
}

static bool write_shown_txn(void *argument, const struct hf_txn_info *txn)
{
    struct buffer *json = argument;
    buffer_append_byte(json, '{');
    json_put_text(json, "txn_id", txn->id);
    json_put_bool(json, "marked", txn->marked);
    put_txn_members(json, txn);
    buffer_append_byte(json, '}');
    return false;
}

/* The id is part of a body, and not of the path, because it is secret. */
static enum hf_status show_txn(struct exchange *exchange, struct hf_error *error)
{
    struct buffer *json = &exchange->body;
    enum hf_status status = hf_txn_show(exchange->space->client, exchange->ask.txn_id,
                                        write_shown_txn, json, error);
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static void begin_txn_show(struct exchange *exchange)
{
    exchange_work(exchange, show_txn);
}

/* ---- List ---------------------------------------------------------------------------- */

void id_label(const char *id, char ret_label[ID_LABEL_SIZE + 1])
{
    unsigned char hash[SHA256_BYTES];
    hash_sha256(view_of(id), hash);
    for (size_t i = 0; i < ID_LABEL_SIZE / 2; i++)
        snprintf(ret_label + 2 * i, 3, "%02x", hash[i]);
}

/* A transaction that waits for a key at this server. */
struct txn_wait {
    char label[ID_LABEL_SIZE + 1];
    char holder[ID_LABEL_SIZE + 1]; /* the transaction that has the key; "": none is known */
    const char *key;                /* <namespace>/<key>; NULL after the last one */
    int64_t waited_ms;
};

/* The waits as they are now, for a worker. NULL if memory runs out. */
static struct txn_wait *copy_txn_waits(struct exchange *exchange)
{
    const struct api *api = exchange->api;
    struct arena *arena = &exchange->ask.arena;
    struct txn_wait *waits = arena_take(arena, (TXN_WAITS_MAX + 1) * sizeof *waits);
    size_t count = 0;
    for (const struct exchange *one = api->waits.first; waits && one; one = one->wait_after) {
        struct buffer key = BUFFER_INIT(CORE_RESOURCE_MAX);
        if (!one->ask.txn_id || count == TXN_WAITS_MAX)
            continue;
        buffer_print(&key, "%s/%s", one->ask.ns, exchange_scope(one));
        struct txn_wait *wait = &waits[count++];
        id_label(one->ask.txn_id, wait->label);
        wait->holder[0] = '\0';
        wait->key = arena_copy(arena, buffer_view(&key)).data;
        wait->waited_ms = mono_since(env_now(api->env), one->arrived).us / 1000;
        buffer_release(&key);
        if (!wait->key)
            return NULL;
    }
    if (waits)
        waits[count].key = NULL;
    return waits;
}

struct txn_listing {
    struct exchange *exchange;
    size_t count, limit;
    bool more;
};

/* Those who wait for one of its keys wait for this transaction. */
static void note_holder(struct txn_wait *waits, const struct hf_txn_info *txn,
                        const char *label)
{
    for (; waits->key; waits++)
        for (size_t i = 0; i < txn->key_count; i++)
            if (strcmp(waits->key, txn->keys[i]) == 0 && strcmp(waits->label, label) != 0)
                snprintf(waits->holder, sizeof waits->holder, "%s", label);
}

static bool add_txn(void *argument, const struct hf_txn_info *txn)
{
    struct txn_listing *listing = argument;
    struct buffer *json = &listing->exchange->body;
    char label[ID_LABEL_SIZE + 1];
    id_label(txn->id, label);
    if (txn->state == HF_TXN_PENDING)
        note_holder(listing->exchange->ask.txn_waits, txn, label);
    if (listing->count++ >= listing->limit) {
        listing->more = true;
        return listing->exchange->ask.txn_waits->key; /* for those that are waited for */
    }
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "txn", label);
    put_txn_members(json, txn);
    buffer_append_byte(json, '}');
    return !json->failed;
}

static void put_txn_waits(struct buffer *json, const struct txn_wait *waits)
{
    json_open(json, "waits", '[');
    for (; waits->key; waits++) {
        json_next(json);
        buffer_append_byte(json, '{');
        json_put_text(json, "txn", waits->label);
        json_put_text(json, "key", waits->key);
        if (waits->holder[0])
            json_put_text(json, "for", waits->holder);
        json_put_i64(json, "waited_ms", waits->waited_ms);
        buffer_append_byte(json, '}');
    }
    buffer_append_byte(json, ']');
}

static bool goes_on_listing(void *argument)
{
    const struct txn_listing *listing = argument;
    return exchange_is_wanted(listing->exchange);
}

static enum hf_txn_state asked_state(const struct ask *ask)
{
    enum hf_txn_state state = HF_TXN_PENDING;
    while (ask->state && state < HF_TXN_STATE_COUNT &&
           strcmp(ask->state, hf_txn_state_name(state)) != 0)
        state++;
    return ask->state ? state : HF_TXN_ABSENT;
}

static enum hf_status list_txns(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct buffer *json = &exchange->body;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct txn_listing listing = { .exchange = exchange,
                                   .limit = ask->limit ? (size_t)ask->limit : TXNS_LIMIT };
    options.proceed = goes_on_listing;
    buffer_append_byte(json, '{');
    json_open(json, "txns", '[');
    enum hf_status status = hf_txns_list(exchange->space->client, asked_state(ask), &options,
                                         add_txn, &listing, error);
    buffer_append_byte(json, ']');
    put_txn_waits(json, ask->txn_waits);
    json_put_bool(json, "more", listing.more);
    buffer_append_byte(json, '}');
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static enum hf_status verify_txns(struct exchange *exchange, struct hf_error *error)
{
    return asked_state(&exchange->ask) < HF_TXN_STATE_COUNT
               ? HF_OK
               : error_set(error, HF_INVALID, "'state' must be pending, commit or rollback");
}

static void begin_txns(struct exchange *exchange)
{
    exchange->ask.txn_waits = copy_txn_waits(exchange);
    if (exchange->ask.txn_waits)
        exchange_work(exchange, list_txns);
    else
        exchange_refuse_http(exchange, 503, "unavailable", "out of memory");
}

const struct route txn_routes[] = {
    { HTTP_VERB_POST, "/v1/txn/begin", RIGHT_WRITE, .has_space = true, .reads_body = true, NULL,
      begin_txn_begin, exchange_reply_body },
    { HTTP_VERB_POST, "/v1/txn/decide", RIGHT_WRITE, .has_space = true, .reads_body = true,
      verify_decide, begin_decide, finish_decision },
    { HTTP_VERB_POST, "/v1/txn/commit", RIGHT_WRITE, .has_space = true, .reads_body = true,
      need_txn, begin_txn_commit, finish_decision },
    { HTTP_VERB_POST, "/v1/txn/rollback", RIGHT_WRITE, .has_space = true, .reads_body = true,
      need_txn, begin_txn_rollback, finish_decision },
    { HTTP_VERB_POST, "/v1/txn/replay", RIGHT_WRITE, .has_space = true, .reads_body = true,
      need_txn, begin_txn_replay, exchange_reply_body },
    { HTTP_VERB_POST, "/v1/txn/show", RIGHT_READ, .has_space = true, .reads_body = true,
      need_txn, begin_txn_show, exchange_reply_body },
    { HTTP_VERB_GET, "/v1/txns", RIGHT_READ, .has_space = true, .reads_body = false,
      verify_txns, begin_txns, exchange_reply_body, .whole_store = true },
    { 0 },
};
