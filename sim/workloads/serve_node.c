/* SPDX-License-Identifier: Apache-2.0 */
/* serve_node.c: a server: the core, the calls and the library as in the real one, with the loop of
 * libuv replaced by a task that waits for events, for calls that have ended, and for the next
 * timer. Some servers stop in an orderly way after a while and start again. */
#include "base/check.h"
#include "lock/client_inside.h"
#include "serve/calls/lease_order.h"
#include "serve/calls/txn_call.h"
#include "sim/workloads/serve_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One in so many instances stops by itself, within this time. */
#define STOPS_EVERY 3
#define STOPS_AFTER SPAN_S(60)

/* Some servers are slow to flush while there are faults, so that more calls gather for a batch. */
#define FLUSH_AFTER SPAN_MS(250)

#define JOBS_MAX   4096 /* more than the core starts; the checker counts */
#define CACHED_MAX 4

struct server {
    struct serve_work *work;
    struct serve_node *outside;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct lease_ids *ids;
    struct calls calls;
    struct env_mutex mutex;
    struct env_cond changed;
    bool signalled, ending;
    bool dawdles;              /* it is slow to flush */
    struct mono_time flush_at; /* the calls that have gathered; 0: not set */
};

const char *const serve_keys[SERVE_KEYS] = { "a", "b", "jar", "jug", "purse", "till" };

/* ---- Events -------------------------------------------------------------------------- */

bool serve_deliver(struct serve_node *server, struct exchange *exchange, bool hangs_up)
{
    if (!node_is_up(server->node) || server->instance == 0)
        return false;
    check(server->count < SERVE_INBOX_MAX);
    size_t at = (server->first + server->count++) % SERVE_INBOX_MAX;
    server->inbox[at] = (struct serve_event){ exchange, hangs_up };
    serve_wake(server);
    return true;
}

void serve_wake(struct serve_node *server)
{
    if (server->receiver)
        task_wake(server->receiver);
    server->receiver = NULL;
}

void serve_node_ended(void *argument, struct node *node)
{
    struct serve_work *work = argument;
    struct serve_node *server = &work->nodes[node_number(node)];
    unsigned instance = server->instance;
    server->instance = 0;
    server->stopping = false;
    server->receiver = NULL;
    for (; server->count > 0; server->count--) {
        struct serve_event *event = &server->inbox[server->first];
        server->first = (server->first + 1) % SERVE_INBOX_MAX;
        event->exchange->hung_up = event->exchange->hung_up || event->hangs_up;
        if (!event->hangs_up && event->exchange->state == EXCHANGE_SENT)
            serve_break(event->exchange);
    }
    for (size_t i = 0; i < work->exchange_count && instance > 0; i++) {
        struct exchange *exchange = &work->exchanges[i];
        if (exchange->instance == instance && exchange->state == EXCHANGE_OPEN)
            serve_break(exchange);
    }
}

/* Waits for events from outside, and wakes the loop. */
static void receive(void *argument)
{
    struct server *server = argument;
    struct serve_node *outside = server->outside;
    while (!server->ending) {
        if (outside->count == 0 && server->work->ended < server->work->plan.clients) {
            outside->receiver = world_running(server->work->run->world);
            task_wait(server->work->run->world, WAIT_REPLY);
        }
        env_mutex_lock(&server->mutex);
        server->signalled = true;
        env_cond_broadcast(&server->changed);
        while (!server->ending &&
               (outside->count > 0 || server->work->ended == server->work->plan.clients))
            env_cond_wait(&server->changed, &server->mutex);
        env_mutex_unlock(&server->mutex);
    }
}

static void notify(void *argument)
{
    struct server *server = argument;
    env_mutex_lock(&server->mutex);
    server->signalled = true;
    env_cond_broadcast(&server->changed);
    env_mutex_unlock(&server->mutex);
}

/* ---- Requests ------------------------------------------------------------------------ */

static void send_answer(struct server *server, struct exchange *exchange,
                        const struct core_result *result)
{
    exchange->result = *result;
    exchange->answered_us = serve_now(server->work);
    exchange->left_us = mono_since(result->valid_until, env_now(server->env)).us;
    trace_line(world_trace(server->work->run->world), "n%u: answers request %" PRIu64 ": %s",
               node_number(server->node), exchange->number, hf_status_name(result->status));
    serve_checker_answers(server->work->checker, exchange);
    exchange->state = EXCHANGE_ANSWERED;
    serve_reply(exchange);
}

/* The keys of a transaction that was decided are free now. */
static void wake_waiters(struct server *server, const struct exchange *exchange)
{
    for (size_t at = 0; at < exchange->freed_size; at += strlen(exchange->freed + at) + 1) {
        const char *slash = strchr(exchange->freed + at, '/');
        if (slash)
            core_wake(server->calls.core, view_of(slash + 1), env_now(server->env));
    }
}

static void answer(void *argument, uint64_t request, const struct core_result *result)
{
    struct server *server = argument;
    struct exchange *exchange = &server->work->exchanges[request - 1];
    wake_waiters(server, exchange);
    send_answer(server, exchange, result);
}

/* A call of the library for a transaction, or a read. */
struct txn_order {
    struct call_order order; /* must be the first member */
    struct exchange *exchange;
    struct hf_client *client;
    bool wakes;
};

static enum hf_status get_state(struct txn_order *own, struct hf_error *error)
{
    struct exchange *exchange = own->exchange;
    void *data = NULL;
    size_t size = 0;
    exchange->info = HF_KEY_INFO;
    enum hf_status status =
        hf_key_get(own->client, serve_keys[exchange->key], sizeof exchange->text, &data, &size,
                   &exchange->info, error);
    exchange->text_size = status == HF_OK ? size : 0;
    if (status == HF_OK)
        memcpy(exchange->text, data, size);
    free(data);
    return status;
}

static enum hf_status call_txn(struct txn_order *own, struct hf_error *error)
{
    struct exchange *exchange = own->exchange;
    struct buffer freed = BUFFER_INIT(sizeof exchange->freed);
    struct txn_call call = { .kind = exchange->kind == EXCHANGE_BEGIN    ? TXN_CALL_BEGIN
                                     : exchange->kind == EXCHANGE_DECIDE ? TXN_CALL_DECIDE
                                                                         : TXN_CALL_REPLAY,
                             .id = exchange->txn,
                             .decision = exchange->rolls_back ? HF_ROLLBACK : HF_COMMIT,
                             .freed = own->wakes ? &freed : NULL };
    enum hf_status status = txn_call_make(own->client, &call, error);
    if (call.kind == TXN_CALL_BEGIN)
        memcpy(exchange->txn, call.begun, sizeof exchange->txn);
    exchange->state_told = call.state;
    exchange->freed_size = freed.size;
    if (freed.size > 0)
        memcpy(exchange->freed, freed.data, freed.size);
    buffer_release(&freed);
    return status;
}

static void make_txn_order(struct call_order *order, enum core_call what, int64_t poll_ms,
                           struct core_result *result)
{
    struct txn_order *own = (struct txn_order *)(void *)order;
    struct hf_error error = { .status = HF_OK };
    (void)poll_ms;
    check(what == CORE_CALL_WORK);
    bool reads = own->exchange->kind == EXCHANGE_GET;
    call_result_set(result, reads ? get_state(own, &error) : call_txn(own, &error), &error);
}

static void free_txn_order(struct call_order *order)
{
    free(order);
}

static struct call_order *txn_order_for(struct server *server, struct exchange *exchange)
{
    struct txn_order *own = calloc(1, sizeof *own);
    check(own);
    call_order_init(&own->order, make_txn_order, free_txn_order);
    own->exchange = exchange;
    own->client = server->client;
    own->wakes = core_has_waiters(server->calls.core);
    return &own->order;
}

#define STATE_TEXT_MAX 64

static void free_text(void *text, const struct call_order *order)
{
    (void)order;
    free(text);
}

static struct call_order *order_for(struct server *server, struct exchange *exchange)
{
    static const enum lease_order_kind kinds[] = { [EXCHANGE_ACQUIRE] = LEASE_ACQUIRE,
                                                   [EXCHANGE_KEEPALIVE] = LEASE_KEEPALIVE,
                                                   [EXCHANGE_RELEASE] = LEASE_RELEASE,
                                                   [EXCHANGE_UPDATE] = LEASE_UPDATE };
    char note[64];
    struct call_order *order;
    struct hf_error error;
    if (exchange->kind > EXCHANGE_UPDATE)
        return txn_order_for(server, exchange);
    char *text = calloc(1, STATE_TEXT_MAX); /* the order's */
    check(text);
    text[0] = 'x';
    if (exchange->operation > 0)
        snprintf(text, STATE_TEXT_MAX, "%" PRIu64 " %" PRId64 " ", exchange->operation,
                 exchange->balance);
    snprintf(note, sizeof note, "{\"exchange\":%" PRIu64 "}", exchange->number);
    struct lease_task task = { .kind = kinds[exchange->kind],
                               .client = server->client,
                               .scope = serve_keys[exchange->key],
                               .is_key = true,
                               .ttl_ms = exchange->ttl_ms,
                               .note = note,
                               .lease_id = exchange->lease_id,
                               .txn_id = exchange->txn[0] ? exchange->txn : NULL,
                               .rolls_back = exchange->rolls_back,
                               .data = text,
                               .size = strlen(text),
                               .when = HF_KEY_IF,
                               .done = free_text,
                               .argument = text };
    check(lease_order_new(server->env, server->ids, &task, &order, &error) == HF_OK);
    return order;
}

static void begin(struct server *server, struct exchange *exchange, struct mono_time now)
{
    char id[32] = "";
    struct hf_error error;
    enum hf_status status;
    struct call_order *order = order_for(server, exchange);
    if (exchange->id > 0)
        snprintf(id, sizeof id, "%" PRIu64, exchange->id);
    struct core_retry retry = { view_of(id), exchange->content };
    struct view resource = view_of(serve_keys[exchange->key]);
    if (exchange->kind == EXCHANGE_ACQUIRE) {
        struct mono_time until = mono_add(now, SPAN_US(exchange->limit_us));
        struct core_wanted wanted = { .resource = resource,
                                      .excludes = !exchange->txn[0],
                                      .waits = exchange->waits,
                                      .until = exchange->limit_us > 0
                                                   ? until
                                                   : (struct mono_time){ MOMENT_FAR },
                                      .retry = retry,
                                      .order = order };
        status = core_acquire(server->calls.core, exchange->number, &wanted, now, &error);
    } else {
        bool frees = exchange->kind == EXCHANGE_RELEASE;
        struct core_work work = { .resource = frees ? resource : VIEW(""),
                                  .retry = retry,
                                  .order = order,
                                  .reads = exchange->kind == EXCHANGE_GET };
        status = core_work(server->calls.core, exchange->number, &work, now, &error);
    }
    if (status == HF_OK)
        return;
    call_order_free(order);
    struct core_result refused = { .status = status };
    send_answer(server, exchange, &refused);
}

static void take_event(struct server *server, const struct serve_event *event,
                       struct mono_time now)
{
    struct exchange *exchange = event->exchange;
    if (event->hangs_up) {
        if (exchange->instance == server->outside->instance)
            core_hang_up(server->calls.core, exchange->number, now);
        exchange->hung_up = true;
        return;
    }
    if (exchange->state == EXCHANGE_BROKEN)
        return;
    if (exchange->only > 0 && exchange->only != server->outside->instance) {
        serve_break(exchange);
        return;
    }
    exchange->state = EXCHANGE_OPEN;
    exchange->instance = server->outside->instance;
    exchange->arrived_us = serve_now(server->work);
    exchange->place = ++server->work->arrivals;
    begin(server, exchange, now);
}

/* ---- The loop ------------------------------------------------------------------------ */

static void open_server(struct server *server)
{
    static const unsigned char secret[LEASE_SECRET_BYTES] = { 1, 2, 3 };
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct core_limits limits = CORE_LIMITS;
    struct hf_error error;
    options.holder = "server";
    options.skew_tolerance_ms = server->work->plan.skew.tolerance_ms;
    limits.calls_max = SERVE_CALLS_MAX;
    limits.remembered_max = SERVE_KEPT_MAX;
    limits.poll_min = limits.poll_max = server->work->plan.poll;
    struct pool_options pool = {
        .workers = SERVE_CALLS_MAX, .jobs_max = JOBS_MAX, .notify = notify, .argument = server
    };
    env_mutex_init(server->env, &server->mutex);
    env_cond_init(server->env, &server->changed);
    server->store = net_store_open(server->work->run->net, server->node);
    check(server->store);
    check(client_new(server->store, &options, &server->client, &error) == HF_OK);
    server->ids = lease_ids_new(server->env, secret, CACHED_MAX);
    server->calls.core = core_new(&limits, call_order_free);
    check(server->ids && server->calls.core);
    check(pool_new(server->env, &pool, &server->calls.pool, &error) == HF_OK);
    server->calls.answer = answer;
    server->calls.argument = server;
    server->calls.overlap_below = SPAN_S(env_random_below(server->env, 2) == 0 ? 0 : 3600);
    server->dawdles = env_random_below(server->env, 2) == 0;
    server->outside->stopping = false;
    server->outside->instance = ++server->work->instances;
}

static void close_server(struct server *server)
{
    pool_free(server->calls.pool);
    core_free(server->calls.core);
    hf_client_close(server->client);
    lease_ids_free(server->ids);
    store_close(server->store);
    env_cond_release(&server->changed);
    env_mutex_release(&server->mutex);
}

static void wait_for_event(struct server *server, struct mono_time until)
{
    env_mutex_lock(&server->mutex);
    env_cond_broadcast(&server->changed); /* the events are taken */
    while (!server->signalled && server->outside->count == 0 &&
           mono_before(env_now(server->env), until))
        env_cond_wait_until(&server->changed, &server->mutex, until);
    server->signalled = false;
    env_mutex_unlock(&server->mutex);
}

static void take_events(struct server *server)
{
    struct serve_node *outside = server->outside;
    while (outside->count > 0) {
        struct serve_event event = outside->inbox[outside->first];
        outside->first = (outside->first + 1) % SERVE_INBOX_MAX;
        outside->count--;
        take_event(server, &event, env_now(server->env));
        calls_pump(&server->calls);
    }
}

static void check_core(struct server *server)
{
    struct core_counts counts = core_count(server->calls.core);
    core_check(server->calls.core);
    serve_checker_counts(server->work->checker, &counts);
}

/* Flushes the calls that have gathered, and returns when to do so otherwise. */
static struct mono_time flush(struct server *server)
{
    struct mono_time now = env_now(server->env);
    bool dawdles = server->dawdles && !serve_is_calm(server->work);
    if (server->calls.first && server->flush_at.us == 0 && dawdles)
        server->flush_at = mono_add(now, env_jitter(server->env, FLUSH_AFTER));
    if (server->calls.first && mono_before(now, server->flush_at))
        return server->flush_at;
    server->flush_at = (struct mono_time){ 0 };
    calls_flush(&server->calls, now);
    return (struct mono_time){ MOMENT_FAR };
}

/* Runs until the server has stopped. */
static void run_loop(struct server *server, struct mono_time stop_at)
{
    struct core *core = server->calls.core;
    bool stopped = false;
    for (;;) {
        struct mono_time now = env_now(server->env);
        bool ends = server->work->ended == server->work->plan.clients;
        if (!stopped && (ends || !mono_before(now, stop_at))) {
            server->outside->stopping = stopped = true;
            core_stop(core, now);
            calls_pump(&server->calls);
        }
        take_events(server);
        calls_collect(&server->calls, env_now(server->env));
        calls_pass_time(&server->calls, env_now(server->env));
        struct mono_time wake = flush(server);
        wake =
            mono_earlier(wake, calls_wake_at(&server->calls)); /* which depends on the flush */
        check_core(server);
        if (stopped && core_is_idle(core) && server->outside->count == 0)
            return;
        wait_for_event(server, stopped ? wake : mono_earlier(wake, stop_at));
    }
}

/* One instance, from its start to its orderly stop. */
static void run_instance(struct serve_work *work, struct node *node)
{
    struct env_task *receiver;
    struct hf_error error;
    struct server server = { .work = work,
                             .outside = &work->nodes[node_number(node)],
                             .node = node,
                             .env = node_env(node) };
    struct mono_time stop_at = { MOMENT_FAR };
    open_server(&server);
    bool stops = env_random_below(server.env, STOPS_EVERY) == 0;
    struct span after = env_jitter(server.env, STOPS_AFTER);
    if (stops && serve_now(work) < work->run->calm_us)
        stop_at = mono_add(env_now(server.env), after);
    check(env_task_start(server.env, receive, &server, &receiver, &error) == HF_OK);
    run_loop(&server, stop_at);
    env_mutex_lock(&server.mutex);
    server.ending = true;
    env_cond_broadcast(&server.changed);
    env_mutex_unlock(&server.mutex);
    serve_wake(server.outside);
    env_task_join(server.env, receiver);
    serve_node_ended(work, node); /* what it has not taken is broken */
    close_server(&server);
}

void serve_program(struct node *node, void *argument)
{
    struct serve_work *work = argument;
    while (work->ended < work->plan.clients)
        run_instance(work, node);
}
