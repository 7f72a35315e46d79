/* SPDX-License-Identifier: Apache-2.0 */
/* outage.c: a thousand clients, each with a document of its own, keep a store half busy. Then the
 * store is out of order for five minutes, and comes back. The run fails if
 *
 *   - a minute after the outage the clients make less than 90 % of the changes that they made
 *     before it;
 *   - in any second of that minute more requests reach the store than twice what it can handle: the
 *     clients have not come back all at once;
 *   - while the store is out of order, the clients send more than three times as many requests as
 *     before.
 *
 * The store handles requests one after another, also those of clients that have given up. So
 * without a limit for retries, a queue that has once become longer than the clients' patience may
 * never get shorter again: every request is answered too late, and is sent again. */
#include "sim/workloads/tally.h"

#include "base/check.h"
#include "sim/workloads/clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CLIENTS  1000
#define PATIENCE SPAN_S(10)
#define IDLE     SPAN_S(8) /* between two changes of a client, on average */

/* The store handles 250 requests a second, and the clients send about 125. */
#define SERVICE SPAN_MS(4)

/* In seconds of true time. */
#define BEGINS    60
#define LOOKED_AT (BEGINS + 60)
#define ENDS      (BEGINS + 300)
#define RECOVERS  (ENDS + 60)
#define STOPS     (RECOVERS + 60)

struct outage_run {
    struct run *run;
    struct clients all;
    struct net_plan good, bad;
    struct timer begins, looked_at, ends;
    uint64_t sent[STOPS], done[STOPS]; /* requests and changes in each second */
};

static size_t second_of(const struct outage_run *outage)
{
    return (size_t)(world_now_us(outage->run->world) / 1000000);
}

static void count_request(void *argument, const struct observation *seen)
{
    struct outage_run *outage = argument;
    size_t second = second_of(outage);
    (void)seen;
    if (second < STOPS)
        outage->sent[second]++;
}

static void use_document(void *argument)
{
    const struct one_client *self = argument;
    struct outage_run *outage = self->state;
    struct env *env = node_env(self->node);
    struct tally_client client;
    char key[40];
    snprintf(key, sizeof key, "tables/%zu", self->index);
    tally_open(&client, outage->run->net, self->node, self->index + 1, view_of(key),
               (struct observer){ count_request, outage });
    env_sleep(env, env_jitter(env, SPAN_US(2 * IDLE.us)));
    while (second_of(outage) < STOPS) {
        run_count_operation(outage->run);
        bool done = tally_change(&client, PATIENCE) == HF_OK;
        size_t second = second_of(outage);
        if (done && second < STOPS)
            outage->done[second]++;
        env_sleep(env, env_jitter(env, SPAN_US(2 * IDLE.us)));
    }
    tally_close(&client);
}

static void begin_outage(void *argument)
{
    struct outage_run *outage = argument;
    trace_line(world_trace(outage->run->world), "store: is out of order from now on");
    net_set_plan(outage->run->net, &outage->bad);
}

static uint64_t sum_of(const uint64_t *counts, size_t from, size_t to)
{
    uint64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += counts[i];
    return sum;
}

static void check_requests(void *argument)
{
    const struct outage_run *outage = argument;
    uint64_t before = sum_of(outage->sent, BEGINS - 30, BEGINS);
    uint64_t during = sum_of(outage->sent, LOOKED_AT - 30, LOOKED_AT);
    trace_line(world_trace(outage->run->world),
               "world: requests in 30 s: %" PRIu64 " before, %" PRIu64 " during the outage",
               before, during);
    if (during > 3 * before)
        world_fail(outage->run->world,
                   "%" PRIu64 " requests were sent in 30 s of the outage, and %" PRIu64
                   " before it",
                   during, before);
}

static void end_outage(void *argument)
{
    struct outage_run *outage = argument;
    trace_line(world_trace(outage->run->world), "store: is in order again");
    net_set_plan(outage->run->net, &outage->good);
}

static void check_outage(struct run *run, void *state)
{
    const struct outage_run *outage = state;
    uint64_t before = sum_of(outage->done, BEGINS - 30, BEGINS);
    uint64_t after = sum_of(outage->done, RECOVERS, RECOVERS + 30);
    uint64_t most = (uint64_t)(2 * 1000000 / SERVICE.us), peak = 0;
    for (size_t i = ENDS; i < RECOVERS; i++)
        peak = outage->sent[i] > peak ? outage->sent[i] : peak;
    trace_line(world_trace(run->world),
               "world: changes in 30 s: %" PRIu64 " before, %" PRIu64 " after; at most %" PRIu64
               " requests in a second after the outage",
               before, after, peak);
    if (10 * after < 9 * before)
        world_fail(run->world,
                   "a minute after the outage only %" PRIu64 " changes are made in 30 s, and "
                   "%" PRIu64 " were before it",
                   after, before);
    if (peak > most)
        world_fail(run->world,
                   "after the outage %" PRIu64 " requests were sent in one second, at most "
                   "%" PRIu64 " may be",
                   peak, most);
}

static void tune_outage(struct run *run, struct plans *plans)
{
    (void)run;
    plans->net.plan = NET_PLAN_CALM;
    plans->net.plan.service = SERVICE;
    plans->net.bucket.clock = STORE_CLOCK_DATE;
    plans->net.bucket.steps = false;
    plans->chaos = (struct chaos_plan){ 0 };
}

static void *start_outage(struct run *run)
{
    struct outage_run *outage = calloc(1, sizeof *outage);
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    check(outage);
    outage->run = run;
    outage->good = NET_PLAN_CALM;
    outage->good.service = SERVICE;
    outage->bad = outage->good;
    /* Requests are refused, or they get no answer. */
    if (prng_below(&prng, 2) == 0)
        outage->bad.throttle_chance = 1000000;
    else
        outage->bad.request_lost_chance = 1000000;
    world_set_timer(run->world, &outage->begins, (int64_t)BEGINS * 1000000, begin_outage,
                    outage);
    world_set_timer(run->world, &outage->looked_at, (int64_t)LOOKED_AT * 1000000,
                    check_requests, outage);
    world_set_timer(run->world, &outage->ends, (int64_t)ENDS * 1000000, end_outage, outage);
    outage->all = (struct clients){ run, CLIENTS, use_document, outage };
    clients_boot(&outage->all);
    return outage;
}

const struct workload workload_outage = {
    .name = "outage",
    .about = "a thousand clients come back after an outage without overloading the store",
    .tune = tune_outage,
    .start = start_outage,
    .check_at_end = check_outage,
    .free = free,
    .counts_requests = true,
};
