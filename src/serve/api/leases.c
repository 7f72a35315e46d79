/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: the routes of leases: acquire, keepalive and release.
 *
 * Times. A client must not compare wall clocks. It counts remaining_ms from the moment at which
 * it sent its request, plus waited_ms: the wait is over before the library begins the write
 * that the ttl is counted from. expires_at_unix is for display. */
#include "serve/api/exchange.h"

#include <stdlib.h>
#include <string.h>

#define TTL_DEFAULT_MS 30000
#define REPLY_USUAL    400 /* bytes */

static struct buffer reply_buffer(void)
{
    struct buffer json = BUFFER_INIT(API_REPLY_MAX);
    (void)buffer_reserve(&json, REPLY_USUAL); /* otherwise an append says so */
    return json;
}

static int64_t lease_left_ms(const struct core_result *result, struct mono_time now)
{
    struct span left = mono_since(result->valid_until, now);
    return left.us > 0 ? left.us / 1000 : 0;
}

/* For display only. */
static int64_t unix_time_in(const struct exchange *exchange, int64_t ms)
{
    return (env_wall(exchange->api->env).us + ms * 1000) / 1000000;
}

static enum hf_status need_resource(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    if (!ask->key == !ask->scope)
        return error_set(error, HF_INVALID, "send either 'key' or 'scope'");
    if (ask->txn_id && ask->scope)
        return error_set(error, HF_INVALID, "a transaction has keys: send 'key'");
    return HF_OK;
}

static enum hf_status need_lease(struct exchange *exchange, struct hf_error *error)
{
    enum hf_status status = need_resource(exchange, error);
    if (status == HF_OK && !exchange->ask.lease_id)
        return error_set(error, HF_INVALID, "'lease_id' is missing");
    return status;
}

/* ---- Acquire ------------------------------------------------------------------------- */

static enum hf_status verify_acquire(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    enum hf_status status = need_resource(exchange, error);
    if (status != HF_OK)
        return status;
    if (ask->key && ask->mode != HF_EXCLUSIVE)
        return error_set(error, HF_INVALID,
                         "a key is held in exclusive mode; for another 'mode', send 'scope'");
    if (ask->txn_id && ask->if_not_exists)
        return error_set(error, HF_INVALID,
                         "'if_not_exists' is not for a transaction: update the key with "
                         "X-If-Version: 0");
    if (ask->scope && ask->if_not_exists)
        return error_set(error, HF_INVALID, "'if_not_exists' needs a 'key'");
    if (ask->once_per_ms > 0 && (ask->txn_id || ask->if_not_exists))
        return error_set(error, HF_INVALID,
                         "'once_per_ms' is neither for a transaction nor for 'if_not_exists'");
    if ((ask->mode == HF_SLOTS) != (ask->slots > 0))
        return error_set(error, HF_INVALID, "'slots' and 'mode' slots belong together");
    return HF_OK;
}

static void begin_acquire(struct exchange *exchange)
{
    const struct ask *ask = &exchange->ask;
    char *note = owner_note(ask->owner, ask->note);
    struct lease_task task = { .kind = LEASE_ACQUIRE,
                               .ttl_ms = ask->ttl_ms ? ask->ttl_ms : ask->ttl_s * 1000,
                               .mode = ask->mode,
                               .slots = (uint32_t)ask->slots,
                               .scopes = ask->scopes,
                               .scope_count = ask->scope_count,
                               .note = note,
                               .once_per_ms = ask->once_per_ms,
                               .once_slack_ms = ask->once_slack_ms,
                               .if_absent = ask->if_not_exists };
    if (task.ttl_ms == 0)
        task.ttl_ms = TTL_DEFAULT_MS;
    exchange_order(exchange, &task);
    free(note);
}

static void finish_acquire(struct exchange *exchange, const struct core_result *result)
{
    const struct ask *ask = &exchange->ask;
    struct buffer json = reply_buffer();
    struct mono_time now = env_now(exchange->api->env);
    int64_t left = lease_left_ms(result, now);
    /* The ttl began to run when the wait was over. */
    int64_t waited = mono_since(now, exchange->arrived).us / 1000 - (result->ttl_ms - left);
    buffer_append_byte(&json, '{');
    json_put_text(&json, "namespace", ask->ns);
    json_put_text(&json, ask->key ? "key" : "scope", exchange_scope(exchange));
    json_put_text(&json, "owner", ask->owner);
    json_put_text(&json, "lease_id", result->lease_id);
    if (ask->txn_id)
        json_put_text(&json, "txn_id", ask->txn_id);
    json_put_i64(&json, "expires_at_unix", unix_time_in(exchange, left));
    json_put_u64(&json, "fencing_token", result->token);
    if (ask->key) {
        json_put_u64(&json, "version", result->version);
        json_put_text(&json, "state_etag", result->etag);
    }
    json_put_i64(&json, "ttl_ms", result->ttl_ms);
    json_put_i64(&json, "remaining_ms", left);
    json_put_i64(&json, "waited_ms", waited > 0 ? waited : 0);
    buffer_append_byte(&json, '}');
    exchange->users++; /* the client does not wait for what is noted after the reply */
    exchange_reply_json(exchange, 200, &json);
    report_hold_began(exchange, exchange->token, left);
    exchange_release(exchange);
}

/* ---- Keepalive ----------------------------------------------------------------------- */

static void begin_keepalive(struct exchange *exchange)
{
    struct lease_task task = { .kind = LEASE_KEEPALIVE };
    exchange_order(exchange, &task);
}

static void finish_keepalive(struct exchange *exchange, const struct core_result *result)
{
    struct buffer json = reply_buffer();
    int64_t left = lease_left_ms(result, env_now(exchange->api->env));
    report_hold_renewed(exchange, result->token, left);
    buffer_append_byte(&json, '{');
    json_put_i64(&json, "expires_at_unix", unix_time_in(exchange, left));
    json_put_i64(&json, "ttl_ms", result->ttl_ms);
    json_put_i64(&json, "remaining_ms", left);
    json_put_u64(&json, "fencing_token", result->token);
    buffer_append_byte(&json, '}');
    exchange_reply_json(exchange, 200, &json);
}

/* ---- Release ------------------------------------------------------------------------- */

static enum hf_status verify_release(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    if (ask->result && strcmp(ask->result, "completed") != 0 &&
        strcmp(ask->result, "failed") != 0)
        return error_set(error, HF_INVALID, "'result' must be completed or failed");
    if (ask->result && ask->txn_id)
        return error_set(error, HF_INVALID, "'result' is not for a transaction");
    if (ask->note.size > 0 && !ask->result)
        return error_set(error, HF_INVALID, "'note' needs a 'result'");
    return need_lease(exchange, error);
}

/* Without a note of its own, the lease keeps the one that it was granted with. */
static void begin_release(struct exchange *exchange)
{
    const struct ask *ask = &exchange->ask;
    char *note = ask->note.size > 0 ? owner_note(ask->owner, ask->note) : NULL;
    struct lease_task task = { .kind = LEASE_RELEASE,
                               .note = note,
                               .rolls_back = ask->rollback };
    if (ask->result)
        task.ends = ask->result[0] == 'c' ? LEASE_ENDS_COMPLETED : LEASE_ENDS_FAILED;
    exchange_order(exchange, &task);
    free(note);
}

static void finish_release(struct exchange *exchange, const struct core_result *result)
{
    (void)result;
    struct buffer json = reply_buffer();
    buffer_append_byte(&json, '{');
    json_put_bool(&json, "released", true);
    buffer_append_byte(&json, '}');
    exchange->users++;
    exchange_reply_json(exchange, 200, &json);
    report_hold_ended(exchange, exchange->token, /* broken */ false);
    exchange_release(exchange);
}

const struct route lease_routes[] = {
    { HTTP_VERB_POST, "/v1/acquire", RIGHT_LOCK, .has_space = true, .reads_body = true,
      verify_acquire, begin_acquire, finish_acquire, .given_back = true },
    { HTTP_VERB_POST, "/v1/keepalive", RIGHT_LOCK, .has_space = true, .reads_body = true,
      need_lease, begin_keepalive, finish_keepalive, .by_holders = true, .is_routine = true },
    { HTTP_VERB_POST, "/v1/release", RIGHT_LOCK, .has_space = true, .reads_body = true,
      verify_release, begin_release, finish_release, .by_holders = true,
      .txn_right = RIGHT_WRITE }, /* it decides the transaction */
    { 0 },
};
