/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c: servers grant leases to clients that come and go, while faults happen. In half of the
 * seeds some clients also move money between keys in transactions. serve_checker.c and
 * serve_txn_checker.c list what must be true. serve_node.c is a server, serve_client.c and
 * serve_teller.c have the clients. */
#include "base/check.h"
#include "sim/workloads/serve_work.h"

#include <stdlib.h>

/* Requests of one operation, with its retries and the uses of the lease. */
#define EXCHANGES_EACH 64

/* Of a teller, whose operation is a transaction on up to three keys. */
#define EXCHANGES_TELLER 192

#define TXNS_MAX 4096

/* The late bound of clients (D), in which no record is purged. */
#define LATE_BOUND SPAN_S(86400)

/* The longest fault. */
#define FAULT_MAX SPAN_S(60)
static_assert(2 * 60 * 1000000 < SERVE_SETTLE_US,
              "no fault lasts until the servers are judged");

static struct serve_plan draw_plan(const struct run *run)
{
    static const int64_t polls_ms[] = { 250, 700, 2000 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    struct serve_plan plan = { .nodes = 1 + (unsigned)prng_below(&prng, SERVE_NODES_MAX) };
    if (plan.nodes > run->options->nodes)
        plan.nodes = run->options->nodes;
    plan.clients = 2 + (unsigned)prng_below(&prng, SERVE_CLIENTS_MAX - 1);
    plan.skew = skew_draw(&prng);
    plan.poll = SPAN_MS(polls_ms[prng_below(&prng, 3)]);
    plan.delay = SPAN_US(1000 << prng_below(&prng, 6));
    plan.hang_up_every = 2 + (unsigned)prng_below(&prng, 6);
    plan.lose_every = 4 + (unsigned)prng_below(&prng, 12);
    struct prng more = world_stream(run->world, STREAM_WORKLOAD + 9);
    bool has_tellers = prng_below(&more, 2) == 0;
    unsigned tellers = 1 + (unsigned)prng_below(&more, SERVE_TELLERS_MAX);
    plan.tellers = has_tellers ? tellers : 0;
    plan.clients += plan.tellers;
    return plan;
}

static void tune_serve(struct run *run, struct plans *plans)
{
    struct serve_plan plan = draw_plan(run);
    skew_tune(&plan.skew, plans);
    /* All of it is over when the servers are judged by how fast they are. */
    plans->chaos.suspend_max = FAULT_MAX;
    plans->net.plan.slow_max = plans->net.plan.late_max = FAULT_MAX;
}

static void *start_serve(struct run *run)
{
    struct serve_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    work->plan = draw_plan(run);
    unsigned lockers = work->plan.clients - work->plan.tellers;
    uint64_t each = run->options->operations / lockers + 1;
    work->exchange_max =
        (size_t)((lockers * EXCHANGES_EACH + work->plan.tellers * EXCHANGES_TELLER) *
                 (each + 8));
    work->exchanges = calloc(work->exchange_max, sizeof *work->exchanges);
    check(work->exchanges);
    work->txns = calloc(TXNS_MAX, sizeof *work->txns);
    check(work->txns);
    work->checker = serve_checker_new(work);
    struct bank_checker_options money = { .keys = serve_keys + SERVE_LEASE_KEYS,
                                          .key_count = SERVE_MONEY_KEYS,
                                          .pairs = 1,
                                          .late_bound = LATE_BOUND };
    work->bank = bank_checker_new(run, &money);
    for (unsigned i = 1; i <= work->plan.nodes; i++) {
        struct serve_node *server = &work->nodes[i];
        server->work = work;
        server->node = world_node(run->world, i - 1);
        server->watch = (struct node_watch){ .ended = serve_node_ended, .argument = work };
        node_add_watch(server->node, &server->watch);
        node_boot(server->node, serve_program, work);
    }
    for (unsigned i = 0; i < work->plan.clients; i++) {
        struct serve_client *client = &work->clients[i];
        client->work = work;
        client->number = i + 1;
        client->left = each;
        client->is_teller = i >= lockers;
        client->prng = world_stream(run->world, STREAM_WORKLOAD + 10 + i);
        serve_client_start(client);
    }
    return work;
}

static void check_serve(struct run *run, void *state)
{
    struct serve_work *work = state;
    (void)run;
    serve_checker_end(work->checker);
}

static void free_serve(void *state)
{
    struct serve_work *work = state;
    struct world *world = work->run->world;
    for (size_t i = 0; i < work->exchange_count; i++) {
        world_cancel_timer(world, &work->exchanges[i].arrival);
        world_cancel_timer(world, &work->exchanges[i].reply);
        world_cancel_timer(world, &work->exchanges[i].hang_up);
    }
    for (unsigned i = 0; i < work->plan.clients; i++)
        world_cancel_timer(world, &work->clients[i].timer);
    serve_checker_free(work->checker);
    bank_checker_free(work->bank);
    free(work->txns);
    free(work->exchanges);
    free(work);
}

const struct workload workload_serve = {
    .name = "serve",
    .about = "servers grant leases to clients that hang up, retry and come back; transactions",
    .tune = tune_serve,
    .start = start_serve,
    .check_at_end = check_serve,
    .free = free_serve,
};
