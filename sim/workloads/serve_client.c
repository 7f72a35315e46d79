/* SPDX-License-Identifier: Apache-2.0 */
/* serve_client.c: the clients of the servers. Each acquires keys, keeps the leases alive, changes
 * the state, and releases them or lets them expire. Requests and replies are delayed and lost.
 * Clients hang up while they wait, retry with the same request id at the same server or at another
 * one, withdraw a wait by a retry that does not wait, use an id again for something else, and use
 * leases that they no longer rely on.
 *
 * A client counts the time of its lease from when it sent the request, plus the time that the
 * server says it waited, less drift. */
#include "base/check.h"
#include "sim/workloads/serve_work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRIES_MAX    4
#define CALM_OPS       5
#define TTL_MS_MIN     2000
#define THINKS         SPAN_S(4)
#define THINKS_IN_CALM SPAN_MS(400)

/* How long a client waits for a reply that does not come, besides the time of its wait. */
#define PATIENCE SPAN_S(20)

/* Of all times that a server reports, because the clocks of machines drift. */
#define DRIFT_PPM 1000

uint64_t serve_below(struct serve_client *client, uint64_t bound)
{
    return prng_below(&client->prng, bound);
}

bool serve_one_in(struct serve_client *client, uint64_t count)
{
    return serve_below(client, count) == 0;
}

static int64_t draw_delay(struct serve_client *client)
{
    uint64_t most = (uint64_t)client->work->plan.delay.us;
    return 50 + (int64_t)serve_below(client, most);
}

static void take_turn(void *argument);

void serve_turn_after(struct serve_client *client, int64_t us)
{
    world_set_timer(client->work->run->world, &client->timer, serve_now(client->work) + us,
                    take_turn, client);
}

/* ---- Sending ------------------------------------------------------------------------- */

static void arrive(void *argument)
{
    struct exchange *exchange = argument;
    struct serve_work *work = exchange->client->work;
    if (exchange->state != EXCHANGE_SENT)
        return;
    if (!serve_deliver(&work->nodes[exchange->node], exchange, /* hangs_up */ false))
        serve_break(exchange);
}

struct exchange *serve_new_exchange(struct serve_client *client, enum exchange_kind kind)
{
    struct serve_work *work = client->work;
    check(work->exchange_count < work->exchange_max);
    struct exchange *exchange = &work->exchanges[work->exchange_count++];
    exchange->number = work->exchange_count;
    exchange->content = exchange->number;
    exchange->client = client;
    exchange->kind = kind;
    exchange->node = 1 + (unsigned)serve_below(client, work->plan.nodes);
    exchange->key = client->key;
    exchange->ttl_ms = 30000;
    return exchange;
}

void serve_send(struct exchange *exchange)
{
    struct serve_client *client = exchange->client;
    struct serve_work *work = client->work;
    exchange->state = EXCHANGE_SENT;
    exchange->sent_us = serve_now(work);
    client->current = exchange;
    trace_line(world_trace(work->run->world),
               "c%u: sends request %" PRIu64 " of kind %d for key %zu to n%u, id %" PRIu64,
               client->number, exchange->number, (int)exchange->kind, exchange->key,
               exchange->node, exchange->id);
    int64_t delay = draw_delay(client);
    world_set_timer(work->run->world, &exchange->arrival, exchange->sent_us + delay, arrive,
                    exchange);
    bool hangs_up =
        exchange->kind == EXCHANGE_ACQUIRE && serve_one_in(client, work->plan.hang_up_every);
    int64_t patience = PATIENCE.us + exchange->limit_us;
    int64_t early = 1000 + (int64_t)serve_below(client, 3000000);
    serve_turn_after(client, hangs_up ? early : patience);
}

/* ---- Hanging up ---------------------------------------------------------------------- */

static void deliver_hang_up(void *argument)
{
    struct exchange *exchange = argument;
    struct serve_work *work = exchange->client->work;
    /* If the request has not arrived, it never will: the connection is closed. */
    if (exchange->instance == 0 ||
        !serve_deliver(&work->nodes[exchange->node], exchange, /* hangs_up */ true))
        exchange->hung_up = true;
}

/* The client closes the connection. */
static void hang_up(struct exchange *exchange)
{
    struct serve_client *client = exchange->client;
    struct serve_work *work = client->work;
    trace_line(world_trace(work->run->world), "c%u: hangs up request %" PRIu64, client->number,
               exchange->number);
    bool arrived = exchange->state == EXCHANGE_OPEN;
    exchange->state = EXCHANGE_BROKEN;
    exchange->broken_us = serve_now(work);
    if (client->current == exchange)
        client->current = NULL;
    if (!arrived)
        exchange->hung_up = true;
    else
        world_set_timer(work->run->world, &exchange->hang_up,
                        serve_now(work) + draw_delay(client), deliver_hang_up, exchange);
}

void serve_break(struct exchange *exchange)
{
    struct serve_client *client = exchange->client;
    exchange->state = EXCHANGE_BROKEN;
    exchange->hung_up = true;
    exchange->broken_us = serve_now(client->work);
    if (client->current == exchange) /* its client notices that */
        serve_turn_after(client, draw_delay(client));
}

/* ---- Replies ------------------------------------------------------------------------- */

int64_t serve_relied_until(const struct exchange *exchange)
{
    int64_t waited = exchange->answered_us - exchange->arrived_us;
    int64_t base =
        exchange->kind == EXCHANGE_ACQUIRE ? exchange->sent_us + waited : exchange->sent_us;
    int64_t drift = (waited + exchange->left_us) * DRIFT_PPM / 1000000 + 1000;
    return base + exchange->left_us - drift;
}

static void reply_arrives(void *argument)
{
    struct exchange *exchange = argument;
    struct serve_client *client = exchange->client;
    if (client->current != exchange)
        return;
    client->current = NULL;
    client->retries = 0;
    if (client->is_teller) {
        serve_teller_told(client, exchange);
        return;
    }
    serve_checker_told(client->work->checker, exchange);
    int64_t until = serve_relied_until(exchange);
    bool ok = exchange->result.status == HF_OK;
    if (exchange->kind == EXCHANGE_ACQUIRE && ok) {
        client->state = CLIENT_HOLDING;
        client->asked = exchange;
        client->key = exchange->key;
        client->token = exchange->result.token;
        memcpy(client->lease_id, exchange->result.lease_id, sizeof client->lease_id);
        client->until_us = until;
        client->ending = false;
        client->uses = serve_below(client, 4);
        serve_checker_relies(client->work->checker, client);
    } else if (exchange->kind == EXCHANGE_ACQUIRE) {
        client->state = CLIENT_IDLE;
    } else if (exchange->kind == EXCHANGE_KEEPALIVE && ok && until > client->until_us) {
        client->until_us = until;
    } else if (exchange->kind == EXCHANGE_RELEASE) {
        client->state = CLIENT_IDLE;
    }
    serve_turn_after(client, 1000 + (int64_t)serve_below(client, 500000));
}

void serve_reply(struct exchange *exchange)
{
    struct serve_client *client = exchange->client;
    struct serve_work *work = client->work;
    if (client->current != exchange) /* its client has left */
        return;
    if (serve_one_in(client, work->plan.lose_every)) { /* the connection breaks just then */
        serve_turn_after(client, draw_delay(client));
        return;
    }
    world_set_timer(work->run->world, &exchange->reply, serve_now(work) + draw_delay(client),
                    reply_arrives, exchange);
}

/* ---- What a client does -------------------------------------------------------------- */

static void acquire_key(struct serve_client *client)
{
    struct serve_work *work = client->work;
    if (client->is_teller) {
        serve_teller_start(client);
        return;
    }
    client->key = (size_t)serve_below(client, SERVE_LEASE_KEYS);
    struct exchange *exchange = serve_new_exchange(client, EXCHANGE_ACQUIRE);
    exchange->waits = !serve_one_in(client, 4);
    exchange->ttl_ms = TTL_MS_MIN + (int64_t)serve_below(client, 6000);
    if (exchange->waits && !serve_one_in(client, 3))
        exchange->limit_us = 200000 + (int64_t)serve_below(client, 8000000);
    bool again =
        serve_one_in(client, 12) && work->ids > 0; /* an id that was used for something else */
    if (!serve_one_in(client, 4))
        exchange->id = again ? work->ids : ++work->ids;
    client->state = CLIENT_ASKING;
    run_count_operation(work->run);
    serve_send(exchange);
}

/* The same request again, after its connection broke, or because its client no longer wants to
 * wait. */
void serve_retry(struct serve_client *client, const struct exchange *earlier)
{
    struct exchange *exchange = serve_new_exchange(client, earlier->kind);
    exchange->key = earlier->key;
    exchange->waits = earlier->waits && !serve_one_in(client, 4);
    exchange->limit_us = exchange->waits ? earlier->limit_us : 0;
    exchange->ttl_ms = earlier->ttl_ms;
    exchange->id = earlier->id;
    exchange->content = earlier->content;
    memcpy(exchange->lease_id, earlier->lease_id, sizeof exchange->lease_id);
    memcpy(exchange->txn, earlier->txn, sizeof exchange->txn);
    exchange->rolls_back = earlier->rolls_back;
    exchange->operation = earlier->operation;
    exchange->balance = earlier->balance;
    exchange->only = earlier->only;
    if (!serve_one_in(client, 3) || earlier->only > 0)
        exchange->node = earlier->node;
    serve_send(exchange);
}

static void use_lease(struct serve_client *client)
{
    enum exchange_kind kind = EXCHANGE_RELEASE;
    if (client->uses > 0) {
        client->uses--;
        kind = serve_one_in(client, 2) ? EXCHANGE_KEEPALIVE : EXCHANGE_UPDATE;
    } else if (serve_one_in(client, 6)) { /* the lease expires */
        client->state = CLIENT_IDLE;
        serve_turn_after(client, 1000 + (int64_t)serve_below(client, 4000000));
        return;
    }
    if (kind == EXCHANGE_RELEASE)
        client->ending = true;
    /* A lease on which it no longer relies is used all the same: the server must refuse it. */
    struct exchange *exchange = serve_new_exchange(client, kind);
    memcpy(exchange->lease_id, client->lease_id, sizeof exchange->lease_id);
    if (kind != EXCHANGE_KEEPALIVE && serve_one_in(client, 2))
        exchange->id = ++client->work->ids;
    serve_send(exchange);
}

static void end_client(struct serve_client *client)
{
    struct serve_work *work = client->work;
    client->state = CLIENT_ENDED;
    if (++work->ended == work->plan.clients)
        for (unsigned i = 1; i <= work->plan.nodes; i++)
            serve_wake(&work->nodes[i]);
}

/* Between two operations. */
static void start_operation(struct serve_client *client)
{
    struct serve_work *work = client->work;
    int64_t calm_us = work->run->calm_us + SERVE_SETTLE.us;
    bool in_calm = serve_now(work) >= calm_us;
    if (client->left > 0 && !in_calm) {
        client->left--;
        acquire_key(client);
    } else if (!in_calm) {
        serve_turn_after(client,
                         calm_us - serve_now(work) + (int64_t)serve_below(client, 500000));
    } else if (client->calm > 0) {
        client->calm--;
        acquire_key(client);
    } else {
        end_client(client);
    }
}

/* The current request was not answered in time, its connection broke, or its client loses patience.
 * A release, an update and a keepalive are given up after a few tries. */
static void take_broken(struct serve_client *client, struct exchange *exchange)
{
    if (exchange->state != EXCHANGE_BROKEN && exchange->state != EXCHANGE_ANSWERED)
        hang_up(exchange);
    client->current = NULL;
    bool goes_on = client->retries < RETRIES_MAX && !serve_one_in(client, 3);
    if (client->is_teller)
        goes_on = serve_teller_may_retry(client, exchange) && goes_on;
    if (goes_on) {
        client->retries++;
        serve_retry(client, exchange);
        return;
    }
    client->retries = 0;
    if (client->is_teller)
        serve_teller_gives_up(client, exchange);
    else if (exchange->kind == EXCHANGE_ACQUIRE || exchange->kind == EXCHANGE_RELEASE)
        client->state = CLIENT_IDLE;
    serve_turn_after(client, 1000 + (int64_t)serve_below(client, 1000000));
}

static void take_turn(void *argument)
{
    struct serve_client *client = argument;
    if (client->current) {
        take_broken(client, client->current);
    } else if (client->state == CLIENT_HOLDING) {
        use_lease(client);
    } else if (client->state == CLIENT_DEALING) {
        serve_teller_go_on(client);
    } else if (serve_one_in(client, 2)) {
        struct span most = serve_is_calm(client->work) ? THINKS_IN_CALM : THINKS;
        world_set_timer(client->work->run->world, &client->timer,
                        serve_now(client->work) + 1 +
                            (int64_t)serve_below(client, (uint64_t)most.us),
                        take_turn, client);
    } else {
        start_operation(client);
    }
}

void serve_client_start(struct serve_client *client)
{
    client->calm = CALM_OPS;
    client->state = CLIENT_IDLE;
    serve_turn_after(client, (int64_t)serve_below(client, 2000000));
}
