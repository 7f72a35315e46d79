/* SPDX-License-Identifier: Apache-2.0 */
/* api.c: from a request to its route, from there to the core, and back. */
#include "serve/api/api.h"

#include "base/check.h"
#include "base/hash.h"
#include "serve/api/exchange.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Numbers ------------------------------------------------------------------------- */

/* The core knows requests by numbers. Ours are the addresses of exchanges and, one higher, of
 * spaces that are being opened (spaces.c). */
static uint64_t exchange_number(const struct exchange *exchange)
{
    return (uint64_t)(uintptr_t)exchange;
}

/* ---- Exchanges ----------------------------------------------------------------------- */

#define AFTER_ASK (offsetof(struct exchange, ask) + sizeof(struct ask))

/* So many exchanges are kept to be used again. */
#define SPARE_EXCHANGES_MAX 64

/* All zeros, but for `ask`, which is not initialized. NULL: out of memory. */
static struct exchange *take_exchange(struct api *api)
{
    struct exchange *exchange = spare_take(&api->exchanges, sizeof *exchange);
    if (!exchange)
        return NULL;
    memset(exchange, 0, offsetof(struct exchange, ask));
    memset((char *)exchange + AFTER_ASK, 0, sizeof *exchange - AFTER_ASK);
    return exchange;
}

void exchange_release(struct exchange *exchange)
{
    check(exchange->users > 0);
    if (--exchange->users > 0)
        return;
    check(!exchange->http && !exchange->waits);
    if (exchange->space)
        LIST_REMOVE(exchange, in_space);
    if (exchange->is_long)
        exchange->api->long_work--;
    ask_release(&exchange->ask);
    buffer_release(&exchange->body);
    buffer_release(&exchange->freed);
    http_body_release(&exchange->sent);
    spare_give(&exchange->api->exchanges, exchange, SPARE_EXCHANGES_MAX);
}

static struct exchange *exchange_new(struct api *api, struct http_request *http)
{
    struct exchange *exchange = take_exchange(api);
    if (!exchange)
        return NULL;
    ask_init(&exchange->ask);
    exchange->api = api;
    exchange->http = http;
    exchange->users = 1;
    exchange->arrived = env_now(api->env);
    exchange->body = BUFFER_INIT(API_REPLY_MAX);
    exchange->freed = BUFFER_INIT(API_REPLY_MAX);
    exchange->info = HF_KEY_INFO;
    exchange->counted = http_request_user(http) != NULL; /* by api_admit */
    http_request_set_user(http, exchange);
    return exchange;
}

const char *exchange_scope(const struct exchange *exchange)
{
    return exchange->ask.scope ? exchange->ask.scope : exchange->ask.key;
}

void exchange_print_scope(const struct exchange *exchange, struct buffer *text)
{
    const char *scope = exchange_scope(exchange);
    /* A scope without a kind is a name, like a key. */
    bool is_name = !exchange->ask.scope || !strchr(scope, ':');
    if (is_name)
        buffer_append(text, VIEW("named:"));
    buffer_append(text, view_of(scope));
}

void exchange_print_resource(const struct exchange *exchange, struct buffer *text)
{
    buffer_append(text, view_of(exchange->ask.ns));
    buffer_append_byte(text, '/');
    exchange_print_scope(exchange, text);
}

/* ---- Work ---------------------------------------------------------------------------- */

/* A call of the library on behalf of an exchange. */
struct work_order {
    struct call_order order; /* must be the first member */
    struct exchange *exchange;
    enum hf_status (*work)(struct exchange *exchange, struct hf_error *error);
};

static void make_work(struct call_order *order, enum core_call what, int64_t poll_ms,
                      struct core_result *result)
{
    struct work_order *own = (struct work_order *)(void *)order;
    struct hf_error error = { .status = HF_OK };
    (void)poll_ms;
    check(what == CORE_CALL_WORK);
    call_result_set(result, own->work(own->exchange, &error), &error);
}

/* An order of the exchange is freed. What it has changed is reported even if its client has not
 * waited for the reply: later, because the core is in the middle of an event. */
static void leave_exchange(void *argument, const struct call_order *order)
{
    struct exchange *exchange = argument;
    struct api *api = exchange->api;
    bool happened = order->call > 0 && order->result.status == HF_OK;
    if (happened && atomic_load(&exchange->gone) && exchange_changes(exchange) &&
        !exchange->route->given_back) {
        exchange->token = order->result.token;
        exchange->next = api->unheard;
        api->unheard = exchange;
    } else {
        exchange_release(exchange);
    }
}

/* Their replies go nowhere. */
static void finish_unheard(struct api *api)
{
    const struct core_result done = { .status = HF_OK };
    struct exchange *exchange;
    while ((exchange = api->unheard)) {
        api->unheard = exchange->next;
        exchange->route->finish(exchange, &done);
        exchange_release(exchange);
        calls_pump(&api->calls);
    }
}

static void free_work(struct call_order *order)
{
    struct work_order *own = (struct work_order *)(void *)order;
    leave_exchange(own->exchange, order);
    free(own);
}

static enum hf_status give_work(struct exchange *exchange,
                                enum hf_status (*work)(struct exchange *exchange,
                                                       struct hf_error *error),
                                bool reads, struct hf_error *error)
{
    struct api *api = exchange->api;
    struct work_order *own = calloc(1, sizeof *own);
    if (!own)
        return error_no_memory(error);
    call_order_init(&own->order, make_work, free_work);
    own->exchange = exchange;
    own->work = work;
    struct core_work asked = { .order = own,
                               .shared = exchange->route->is_shared,
                               .reads = reads };
    if (asked.shared)
        asked.retry.id = view_of(exchange->route->path); /* other ids contain NULs */
    exchange->users++;
    enum hf_status status =
        core_work(api->core, exchange_number(exchange), &asked, env_now(api->env), error);
    if (status != HF_OK)
        free_work(&own->order);
    return status;
}

void exchange_work(struct exchange *exchange,
                   enum hf_status (*work)(struct exchange *exchange, struct hf_error *error))
{
    struct hf_error error;
    bool reads = !exchange_changes(exchange) && !exchange->route->is_shared;
    if (give_work(exchange, work, reads, &error) != HF_OK)
        exchange_refuse_for(exchange, &error);
}

void exchange_work_unanswered(struct exchange *exchange,
                              enum hf_status (*work)(struct exchange *exchange,
                                                     struct hf_error *error))
{
    struct api *api = exchange->api;
    struct hf_error ignored;
    if (give_work(exchange, work, /* reads */ false, &ignored) == HF_OK)
        core_hang_up(api->core, exchange_number(exchange), env_now(api->env));
}

void exchange_work_long(struct exchange *exchange,
                        enum hf_status (*work)(struct exchange *exchange,
                                               struct hf_error *error))
{
    struct api *api = exchange->api;
    if (api->long_work >= API_LONG_MAX) {
        exchange_refuse_http(exchange, 503, "unavailable",
                             "this server is already at work on other merges or compiles");
        return;
    }
    api->long_work++;
    exchange->is_long = true;
    exchange_work(exchange, work);
}

bool exchange_is_wanted(const struct exchange *exchange)
{
    return !atomic_load(&exchange->gone) && !atomic_load(&exchange->api->ends_work);
}

/* What separates requests with the same id: the client, the namespace, and the resource. Names may
 * have any byte but NUL, so NULs separate them. A client is the name of its token, because the
 * token itself may be replaced before a retry; without tokens, there is only one. */
static struct view retry_id(struct exchange *exchange, struct buffer *text)
{
    const struct ask *ask = &exchange->ask;
    const char *parts[] = { exchange->who ? exchange->who : "", ask->ns,
                            exchange_scope(exchange), ask->request_id };
    if (!ask->request_id)
        return VIEW("");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        buffer_append(text, (struct view){ parts[i], strlen(parts[i]) + 1 });
    if (text->size > CORE_REQUEST_ID_MAX && !text->failed) {
        unsigned char digest[SHA256_BYTES];
        hash_sha256(buffer_view(text), digest);
        buffer_clear(text);
        buffer_append(text, (struct view){ (const char *)digest, sizeof digest });
    }
    return buffer_view(text);
}

/* Two requests with one id must agree in this. */
static uint64_t content_hash(const struct exchange *exchange, const struct lease_task *task)
{
    const struct ask *ask = &exchange->ask;
    const char *texts[] = { exchange->route->path,
                            exchange_scope(exchange),
                            ask->lease_id,
                            ask->owner,
                            ask->etag,
                            ask->txn_id,
                            task->note };
    uint64_t numbers[] = { (uint64_t)task->ttl_ms,
                           task->mode,
                           task->slots,
                           task->if_absent,
                           task->is_key,
                           task->token,
                           task->when.version_set,
                           task->when.version,
                           task->rolls_back,
                           task->size,
                           task->ends,
                           (uint64_t)task->once_per_ms,
                           (uint64_t)task->once_slack_ms };
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hash_stream_add(&stream, view_of(texts[i] ? texts[i] : ""));
        hash_stream_add(&stream, (struct view){ "", 1 }); /* the NUL that separates them */
    }
    for (size_t i = 0; i < task->scope_count; i++)
        hash_stream_add(&stream, (struct view){ task->scopes[i], strlen(task->scopes[i]) + 1 });
    hash_stream_add(&stream, (struct view){ (const char *)numbers, sizeof numbers });
    hash_stream_add(&stream, (struct view){ task->data, task->size });
    return hash_stream_xxh3(&stream);
}

/* Waits end at the time that the client gave, or at the server's own limit. */
static struct mono_time wait_until(const struct exchange *exchange)
{
    const struct ask *ask = &exchange->ask;
    struct span limit = exchange->api->options.wait_max;
    if (ask->block_ms > 0)
        limit = span_smaller(limit, SPAN_MS(ask->block_ms));
    else if (ask->block_s > 0)
        limit = span_smaller(limit, SPAN_S(ask->block_s));
    return mono_add(exchange->arrived, limit);
}

static enum hf_status give_to_core(struct exchange *exchange, struct lease_task *task,
                                   struct call_order *order, struct buffer *space,
                                   struct hf_error *error)
{
    struct api *api = exchange->api;
    uint64_t number = exchange_number(exchange);
    char room[CORE_RESOURCE_MAX + 1]; /* so that nothing is allocated */
    struct buffer resource = { .data = room,
                               .capacity = sizeof room,
                               .max = CORE_RESOURCE_MAX };
    struct core_retry retry = { retry_id(exchange, space), 0 };
    enum hf_status status;
    retry.content = retry.id.size > 0 ? content_hash(exchange, task) : 0;
    exchange_print_resource(exchange, &resource);
    if (resource.failed || space->failed) {
        status = error_set(error, HF_INVALID, "the names are too long");
    } else if (task->kind == LEASE_ACQUIRE) {
        struct core_wanted wanted = { .resource = buffer_view(&resource),
                                      .excludes = !task->txn_id &&
                                                  (task->is_key || task->mode == HF_EXCLUSIVE),
                                      .waits = exchange->ask.block_s >= 0,
                                      .until = wait_until(exchange),
                                      .retry = retry,
                                      .order = order };
        status = core_acquire(api->core, number, &wanted, env_now(api->env), error);
    } else {
        struct core_work work = { .retry = retry, .order = order };
        if (task->kind == LEASE_RELEASE)
            work.resource = buffer_view(&resource);
        status = core_work(api->core, number, &work, env_now(api->env), error);
    }
    return status;
}

void exchange_order(struct exchange *exchange, struct lease_task *task)
{
    struct hf_error error;
    struct call_order *order = NULL;
    struct buffer space = BUFFER_INIT(4 * (ASK_TEXT_MAX + 1));
    task->client = exchange->space->client;
    task->scope = exchange_scope(exchange);
    task->is_key = !exchange->ask.scope;
    task->lease_id = exchange->ask.lease_id;
    task->txn_id = exchange->ask.txn_id;
    task->token = exchange->ask.token;
    task->done = leave_exchange;
    task->argument = exchange;
    exchange->users++;
    enum hf_status status =
        lease_order_new(exchange->api->env, exchange->api->options.ids, task, &order, &error);
    if (status != HF_OK) {
        exchange_release(exchange);
    } else {
        status = give_to_core(exchange, task, order, &space, &error);
        if (status != HF_OK)
            call_order_free(order);
    }
    buffer_release(&space);
    if (status != HF_OK)
        exchange_refuse_for(exchange, &error);
}

/* ---- Routes -------------------------------------------------------------------------- */

static const struct route *const route_lists[] = {
    lease_routes, key_routes,      lock_routes,   txn_routes,    compact_routes,
    index_routes, elect_routes,    server_routes, figure_routes, event_routes,
    view_routes,  timeline_routes, name_routes,   page_routes
};

#define ROUTE_LISTS (sizeof route_lists / sizeof route_lists[0])

/* Names the routes in the metrics, in the order of the lists. The files of the dashboard count as
 * one. */
static void number_routes(struct api *api)
{
    size_t index = 0;
    for (size_t i = 0; i < ROUTE_LISTS; i++)
        for (const struct route *route = route_lists[i]; route->path; route++) {
            const char *name = route_lists[i] == page_routes ? "/page" : route->path;
            check(index < API_ROUTES_MAX);
            api->route_numbers[index++] = metrics_add_route(api->options.metrics, name);
        }
}

/* Finds the route of a request. If there is none, *ret_known says whether the path has another
 * one. */
static void find_route(struct exchange *exchange, bool *ret_known)
{
    struct view path = http_request_path(exchange->http);
    enum http_verb verb = http_request_verb(exchange->http);
    const unsigned *number = exchange->api->route_numbers;
    *ret_known = false;
    if (verb == HTTP_VERB_HEAD)
        verb = HTTP_VERB_GET;
    for (size_t i = 0; i < ROUTE_LISTS; i++)
        for (const struct route *route = route_lists[i]; route->path; route++, number++) {
            if (!view_equal(path, view_of(route->path)))
                continue;
            *ret_known = true;
            if (route->verb != verb)
                continue;
            exchange->route = route;
            exchange->number = *number;
            return;
        }
}

/* A page of another origin can make a browser send a form, but not JSON, without asking us
 * first. */
static bool has_json_body(const struct http_request *http)
{
    struct view type;
    return http_request_header(http, VIEW("Content-Type"), &type) == 0 ||
           view_starts_with(type, VIEW("application/json"));
}

static enum hf_status read_ask(struct exchange *exchange, struct hf_error *error)
{
    const struct route *route = exchange->route;
    enum hf_status status = ask_read_query(&exchange->ask, exchange->http, error);
    if (status == HF_OK && route->reads_body && !has_json_body(exchange->http))
        return error_set(error, HF_INVALID, "the Content-Type must be application/json");
    if (status == HF_OK && route->reads_body)
        status = ask_read_body(&exchange->ask, http_request_body(exchange->http), error);
    return status;
}

/* False: the client has been told why, and the exchange may be gone. */
static bool has_route(struct exchange *exchange)
{
    bool known;
    find_route(exchange, &known);
    if (exchange->route)
        return true;
    exchange_refuse_http(exchange, known ? 405 : 404, known ? "wrong_method" : "not_found",
                         known ? "this path has another method" : "there is no such path");
    return false;
}

static void route_exchange(struct exchange *exchange)
{
    struct hf_error error;
    if (!has_route(exchange))
        return;
    enum hf_status status = read_ask(exchange, &error);
    /* Who may not do this does not learn what is wrong with it. */
    if (!exchange_is_allowed(exchange))
        return;
    if (status == HF_OK && exchange->route->verify)
        status = exchange->route->verify(exchange, &error);
    if (status != HF_OK)
        exchange_refuse_for(exchange, &error);
    else if (exchange->route->has_space)
        enter_space(exchange);
    else
        exchange->route->begin(exchange);
}

/* NULL: the client has been told why. */
static struct exchange *begin_exchange(struct api *api, struct http_request *http)
{
    struct exchange *exchange = exchange_new(api, http);
    struct view body = VIEW("{\"error\":\"unavailable\",\"detail\":\"out of memory\"}");
    if (!exchange)
        http_reply(http, 503, NULL, 0, body);
    return exchange;
}

static size_t route_body_max(const struct route *route)
{
    if (route->body_max > 0)
        return route->body_max;
    return route->reads_body ? API_JSON_MAX : 0;
}

/* Whether the client may do what the head of its request says. A namespace that is a member of the
 * body is not known yet: then the right in any namespace is enough. */
static bool is_admitted(struct exchange *exchange)
{
    struct hf_error ignored;
    if (!has_route(exchange))
        return false;
    (void)ask_read_query(&exchange->ask, exchange->http, &ignored);
    if (exchange->route->reads_body)
        exchange->ask.ns = NULL;
    return exchange_is_allowed(exchange);
}

bool api_admit(void *argument, struct http_request *http, size_t *ret_body_max)
{
    struct api *api = argument;
    struct exchange *exchange = begin_exchange(api, http);
    if (!exchange || !is_admitted(exchange))
        return false;
    size_t body_max = route_body_max(exchange->route);
    if (body_max < *ret_body_max)
        *ret_body_max = body_max;
    exchange->http = NULL;
    exchange_release(exchange);
    http_request_set_user(http, api); /* no exchange, but its rate is counted */
    return true;
}

void api_request(void *argument, struct http_request *http)
{
    struct api *api = argument;
    struct exchange *exchange = begin_exchange(api, http);
    if (!exchange)
        return;
    route_exchange(exchange);
    calls_pump(&api->calls);
    streams_send(api);
}

void api_hang_up(void *argument, struct http_request *http)
{
    struct api *api = argument;
    struct exchange *exchange = http_request_user(http);
    if (!exchange)
        return;
    if (exchange->stream) {
        stream_hang_up(exchange);
        return;
    }
    exchange_record(exchange, METRICS_HUNG_UP);
    exchange->http = NULL;
    atomic_store(&exchange->gone, true);
    if (exchange->waits)
        leave_space(exchange);
    else
        core_hang_up(api->core, exchange_number(exchange), env_now(api->env));
    exchange_release(exchange);
    calls_pump(&api->calls);
    streams_send(api);
}

static void answer(void *argument, uint64_t request, const struct core_result *result)
{
    (void)argument;
    if (request & 1) {
        end_opening((struct space *)(uintptr_t)(request - 1), result);
        return;
    }
    struct exchange *exchange = (struct exchange *)(uintptr_t)request;
    exchange->token = result->token;
    if (result->outcome == HF_KEY_LEASE_EXPIRED)
        report_lease_lost(exchange);
    if (result->status == HF_OK || exchange->route->right == 0)
        exchange->route->finish(exchange, result);
    else
        exchange_refuse(exchange, result);
}

/* ---- The server's part --------------------------------------------------------------- */

enum hf_status api_new(const struct api_options *options, struct api **ret_api,
                       struct hf_error *error)
{
    struct core_limits limits = CORE_LIMITS;
    struct pool_options pool = { .workers = options->workers,
                                 .jobs_max = limits.calls_max,
                                 .notify = options->notify,
                                 .argument = options->argument };
    struct api *api = calloc(1, sizeof *api);
    *ret_api = NULL;
    if (!api)
        return error_no_memory(error);
    api->env = options->env;
    api->options = *options;
    api->guard = options->guard;
    api->spaces = MAP_INIT;
    api->figures.closed = HF_STATS;
    api->core = core_new(&limits, call_order_free);
    api->rates = options->rate.per_s > 0 ? rate_table_new(&options->rate) : NULL;
    enum hf_status status = streams_open(api, error);
    if (status == HF_OK && options->rate.per_s > 0 && !api->rates)
        status = error_no_memory(error);
    if (status == HF_OK)
        status =
            api->core ? pool_new(api->env, &pool, &api->pool, error) : error_no_memory(error);
    if (status != HF_OK) {
        api_free(api);
        return status;
    }
    api->calls = (struct calls){ .core = api->core,
                                 .pool = api->pool,
                                 .answer = answer,
                                 .argument = api,
                                 .overlap_below = CALLS_OVERLAP_BELOW };
    core_on_wait(api->core, report_wait_began, api);
    number_routes(api);
    *ret_api = api;
    return HF_OK;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    pool_free(api->pool);
    close_all_spaces(api);
    rate_table_free(api->rates);
    streams_close(api);
    core_free(api->core);
    spare_release(&api->exchanges);
    free(api);
}

void api_collect(struct api *api)
{
    calls_collect(&api->calls, env_now(api->env));
    finish_unheard(api);
    streams_collect(api);
}

void api_pass_time(struct api *api)
{
    calls_pass_time(&api->calls, env_now(api->env));
    streams_pass_time(api);
}

void api_flush(struct api *api)
{
    calls_flush(&api->calls, env_now(api->env));
}

struct pool_job *api_take_job(struct api *api)
{
    return calls_take_batch(&api->calls, env_now(api->env));
}

void api_end_job(struct api *api, struct pool_job *job)
{
    pool_end(api->pool, job);
}

struct mono_time api_wake_at(const struct api *api)
{
    return mono_earlier(calls_wake_at(&api->calls), streams_wake_at(api));
}

struct mono_time api_gather_until(const struct api *api)
{
    return calls_gather_until(&api->calls);
}

void api_stop(struct api *api)
{
    api->stopping = true;
    atomic_store(&api->ends_work, true);
    core_stop(api->core, env_now(api->env));
    calls_pump(&api->calls);
    streams_end(api, VIEW("event: stopping\ndata: {}\n\n"));
}

bool api_is_idle(const struct api *api)
{
    return core_is_idle(api->core);
}

/* Whether its client still waits for something that has not happened, and would be given back. */
static bool is_undecided(const struct exchange *exchange)
{
    return exchange->http && (exchange->waits || exchange->route->given_back);
}

/* Adds the exchanges of a space that the guard no longer lets pass, so that each has one more
 * user. Refusing one of them may end others. */
static void take_denied(struct space *space, struct exchange **denied)
{
    const char *name;
    struct exchange *exchange;
    LIST_FOREACH(exchange, &space->exchanges, in_space)
    {
        if (!is_undecided(exchange) || exchange_verdict(exchange, &name) == GUARD_PASSES)
            continue;
        if (exchange->waits)
            leave_space(exchange);
        exchange->users++;
        exchange->next = *denied;
        *denied = exchange;
    }
}

void api_set_guard(struct api *api, struct guard *guard)
{
    struct exchange *next, *denied = NULL;
    const char *name;
    api->guard = guard;
    /* Readers of events come again, and are checked again. */
    streams_end(api, VIEW("event: reload\ndata: {}\n\n"));
    struct space *space = map_seek(&api->spaces, VIEW(""), /* beyond */ false);
    for (; space; space = map_seek(&api->spaces, view_of(space->name), /* beyond */ true))
        take_denied(space, &denied);
    for (struct exchange *exchange = denied; exchange; exchange = next) {
        next = exchange->next;
        core_hang_up(api->core, exchange_number(exchange), env_now(api->env));
        if (exchange->http)
            exchange_obey(exchange, exchange_verdict(exchange, &name));
        exchange_release(exchange);
    }
    calls_pump(&api->calls);
}
