/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c: the routes that list locks, and that end the lease of another holder. */
#include "serve/api/exchange.h"

#include "base/json.h"

#include <stdio.h>

#define LIST_LIMIT 100

/* ---- Listing ------------------------------------------------------------------------- */

struct lock_listing {
    struct exchange *exchange;
    size_t listed, limit;
    bool more;
    char last[HF_SCOPE_TEXT_MAX];
};

static void put_scopes(struct buffer *json, const struct hf_lease_info *lease)
{
    json_open(json, "scopes", '[');
    for (size_t i = 0; i < lease->scope_count; i++) {
        json_next(json);
        json_write_string(json, view_of(lease->scopes[i]));
    }
    buffer_append_byte(json, ']');
}

static bool add_to_listing(void *argument, const struct hf_lease_info *lease)
{
    struct lock_listing *listing = argument;
    struct buffer *json = &listing->exchange->body;
    const char *after = listing->exchange->ask.after;
    const char *scope = lease->scope_count > 0 ? lease->scopes[0] : "";
    char label[ID_LABEL_SIZE + 1];
    if (after && strcmp(scope, after) <= 0)
        return true;
    if (!listing->exchange->sees_store && !scope_has_namespace(view_of(scope)))
        return true;
    /* All leases and waiters of a scope are on the same page. */
    if (listing->listed >= listing->limit && strcmp(scope, listing->last) != 0) {
        listing->more = true;
        return false;
    }
    snprintf(listing->last, sizeof listing->last, "%s", scope);
    listing->listed++;
    json_next(json);
    buffer_append_byte(json, '{');
    json_put_text(json, "scope", scope);
    if (lease->scope_count > 1)
        put_scopes(json, lease);
    json_put_text(json, "state", hf_lease_state_name(lease->state));
    json_put_owner(json, lease->note, lease->holder);
    json_put_text(json, "holder", lease->holder);
    id_label(lease->id, label);
    json_put_text(json, "label", label);
    json_put_text(json, "mode", hf_mode_name(lease->mode));
    json_put_i64(json, "ttl_ms", lease->ttl_ms);
    if (lease->mode == HF_SLOTS)
        json_put_u64(json, "slots", lease->slots);
    json_put_text(json, "note", lease->note);
    if (lease->place > 0) {
        json_put_u64(json, "place", lease->place);
    } else if (lease->lease[0] == '\0') {
        json_put_u64(json, "fencing_token", lease->token);
        json_put_i64(json, "ended_at_ms", lease->ends_at_ms);
        json_put_i64(json, "held_ms", lease->held_ms);
        json_put_u64(json, "renewals", lease->renewals);
    } else {
        json_put_u64(json, "fencing_token", lease->token);
        json_put_i64(json, "remaining_ms", lease->remaining_ms);
        json_put_i64(json, "held_ms", lease->held_ms);
        json_put_u64(json, "renewals", lease->renewals);
        json_put_u64(json, "waiters", lease->waiters);
    }
    buffer_append_byte(json, '}');
    return !json->failed;
}

static bool goes_on_with_locks(void *argument)
{
    const struct lock_listing *listing = argument;
    return exchange_is_wanted(listing->exchange);
}

static enum hf_status list_locks(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_list_options options = HF_LIST_OPTIONS;
    struct buffer *json = &exchange->body;
    struct lock_listing listing = { .exchange = exchange,
                                    .limit = ask->limit ? (size_t)ask->limit : LIST_LIMIT };
    options.waiting = true;
    options.ended = ask->ended;
    options.proceed = goes_on_with_locks;
    buffer_append(json, VIEW("{\"locks\":["));
    enum hf_status status =
        hf_locks_list(exchange->space->client, ask->prefix ? ask->prefix : "", &options,
                      add_to_listing, &listing, error);
    buffer_append_byte(json, ']');
    if (listing.more)
        json_put_text(json, "next", listing.last);
    buffer_append_byte(json, '}');
    return status == HF_OK && json->failed ? error_no_memory(error) : status;
}

static void begin_list(struct exchange *exchange)
{
    exchange->sees_store = exchange_has_right(exchange, RIGHT_READ, ALL_NAMESPACES);
    exchange_work(exchange, list_locks);
}

/* ---- Breaking ------------------------------------------------------------------------ */

struct lease_search {
    uint64_t token;
    char lease[HF_LEASE_TEXT_MAX];
};

static bool find_by_token(void *argument, const struct hf_lease_info *lease)
{
    struct lease_search *search = argument;
    if (lease->token != search->token || lease->lease[0] == '\0')
        return true;
    snprintf(search->lease, sizeof search->lease, "%s", lease->lease);
    return false;
}

static enum hf_status break_lease(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    struct hf_client *client = exchange->space->client;
    struct lease_search search = { .token = ask->token };
    enum hf_status status = hf_locks_show(client, exchange_scope(exchange), NULL, find_by_token,
                                          NULL, &search, error);
    if (status == HF_OK && search.lease[0] == '\0')
        return error_set(error, HF_NOT_FOUND, "no lease has this fencing token; it has ended");
    if (status == HF_OK)
        status = hf_break(client, search.lease, ask->owner ? ask->owner : "holdfast serve",
                          ask->reason, error);
    return status;
}

static enum hf_status verify_break(struct exchange *exchange, struct hf_error *error)
{
    const struct ask *ask = &exchange->ask;
    if (!ask->key == !ask->scope)
        return error_set(error, HF_INVALID, "send either 'key' or 'scope'");
    if (ask->token == 0)
        return error_set(error, HF_INVALID,
                         "'fencing_token' is missing: it says which lease you mean");
    if (!ask->reason)
        return error_set(error, HF_INVALID, "'reason' is missing; it is recorded");
    return HF_OK;
}

static void begin_break(struct exchange *exchange)
{
    exchange_work(exchange, break_lease);
}

/* Those who wait for the lock at this server go on at once. */
static void wake_waiters(struct exchange *exchange)
{
    struct api *api = exchange->api;
    struct buffer resource = BUFFER_INIT(CORE_RESOURCE_MAX);
    exchange_print_resource(exchange, &resource);
    if (!resource.failed)
        core_wake(api->core, buffer_view(&resource), env_now(api->env));
    buffer_release(&resource);
}

static void finish_break(struct exchange *exchange, const struct core_result *result)
{
    struct buffer json = BUFFER_INIT(API_REPLY_MAX);
    (void)result;
    report_broken(exchange);
    report_hold_ended(exchange, exchange->ask.token, /* broken */ true);
    wake_waiters(exchange);
    buffer_append_byte(&json, '{');
    json_put_bool(&json, "broken", true);
    buffer_append_byte(&json, '}');
    exchange_reply_json(exchange, 200, &json);
}

const struct route lock_routes[] = {
    { HTTP_VERB_GET, "/v1/locks", RIGHT_READ, .has_space = true, .reads_body = false, NULL,
      begin_list, exchange_reply_body },
    { HTTP_VERB_POST, "/v1/locks/break", RIGHT_ADMIN, .has_space = true, .reads_body = true,
      verify_break, begin_break, finish_break },
    { 0 },
};
