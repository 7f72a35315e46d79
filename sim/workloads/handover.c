/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c: clients pass one lock around on a store that does not notify them, without any fault.
 * Each holds it for a while, or not at all, and asks for it again at once. The run fails if
 *
 *   - the clients send more requests for each hand-over than the limits below: a release, a claim
 *     and a place in line are one put each, and the rest are reads of those that wait;
 *   - a hand-over takes longer than the limits below, in round trips;
 *   - a client had the lock much less often than another one;
 *   - a release takes longer than the limit below;
 *   - two clients hold the lock, or a call fails. */
#include "base/check.h"
#include "holdfast/lock.h"
#include "lock/client.h"
#include "sim/workloads/clients.h"
#include "store/observe.h"

#include <inttypes.h>
#include <stdlib.h>

#define CLIENTS_MAX 64
#define WARM_UP     SPAN_S(10)
#define RUN_TIME    SPAN_S(40)
#define PATIENCE_MS 300000

/* Requests for each 100 hand-overs from one client to another: the three puts, those in vain, and
 * the reads shortly before its turn of each client, which in a short line knows least when that is.
 * Besides these, a client reads once a second while it waits, and more often when it is first while
 * the lock is held for long. */
#define REQUESTS_MOST        580
#define REQUESTS_MOST_OF_FEW 620
#define FEW                  4
#define REQUESTS_PER_S       100
#define REQUESTS_WHILE_HELD  200

/* The time of a hand-over: so many round trips, the time in which the next one polls, and a part of
 * the time for which the lock is held, because the next one expects it to be held for as long. */
#define ROUND_TRIPS_MOST 6
#define POLL_MOST        SPAN_MS(25)

/* In a large crowd a client has its turn so seldom that it learns slowly when to wake up. */
#define LARGE_CROWD        64
#define POLL_MOST_IF_LARGE SPAN_MS(75)

/* How often one client had the lock, for each time that another one had it. In a small crowd nobody
 * may be in line when the lock is released, and then its last holder is the fastest. */
#define SHARES_MOST        2
#define SHARES_MOST_OF_FEW 4

/* Of two clients, nobody is in line at most releases. What the holder gives to itself counts. */
#define PAIR 2

/* A release that conflicts with others who join the line is tried again soon. */
#define RELEASE_ROUND_TRIPS_MOST 40

struct handover_run {
    struct run *run;
    struct clients all;
    size_t clients;
    struct span round_trip; /* on average */
    struct span hold;       /* on average */
    struct span release;    /* the longest one */
    size_t holders;
    const struct one_client *last; /* that had the lock */
    uint64_t puts, conflicts, gets, passed;
    uint64_t passed_to[CLIENTS_MAX];
};

/* After the time in which the clients get to know each other, and before the first one leaves. */
static bool counts(const struct handover_run *handover)
{
    int64_t now_us = world_now_us(handover->run->world);
    return now_us >= WARM_UP.us && now_us < RUN_TIME.us;
}

static void count_request(void *argument, const struct observation *seen)
{
    struct handover_run *handover = argument;
    if (!counts(handover))
        return;
    handover->puts += seen->kind == CALL_PUT;
    handover->conflicts += seen->kind == CALL_PUT && seen->error->status == HF_CONFLICT;
    handover->gets += seen->kind == CALL_GET;
}

static void must(const struct one_client *self, const char *call, enum hf_status status)
{
    const struct handover_run *handover = self->state;
    if (status != HF_OK)
        world_fail(handover->run->world, "%s of client %zu: %s", call, self->index,
                   hf_status_name(status));
}

static void hold_once(const struct one_client *self, struct hf_lock *lock)
{
    struct handover_run *handover = self->state;
    struct env *env = node_env(self->node);
    struct hf_error error;
    run_count_operation(handover->run);
    must(self, "acquire", hf_lock_acquire(lock, PATIENCE_MS, &error));
    if (++handover->holders > 1)
        world_fail(handover->run->world, "client %zu is not the only holder", self->index);
    bool passed = handover->last != self || handover->clients == PAIR;
    handover->passed += counts(handover) && passed;
    handover->last = self;
    handover->passed_to[self->index] += counts(handover);
    if (handover->hold.us > 0)
        env_sleep(env, env_jitter(env, SPAN_US(2 * handover->hold.us)));
    handover->holders--;
    struct mono_time begun = env_now(env);
    must(self, "release", hf_lock_release(lock, &error));
    if (counts(handover))
        handover->release = span_larger(handover->release, mono_since(env_now(env), begun));
}

static void pass_lock_around(void *argument)
{
    const struct one_client *self = argument;
    struct handover_run *handover = self->state;
    struct store *store, *inner = net_store_open(handover->run->net, self->node);
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    check(inner);
    check(store_observe(inner, (struct observer){ count_request, handover }, &store, &error) ==
          HF_OK);
    check(client_new(store, NULL, &client, &error) == HF_OK);
    check(hf_lock_new(client, "baton", NULL, &lock, &error) == HF_OK);
    while (world_now_us(handover->run->world) < RUN_TIME.us)
        hold_once(self, lock);
    hf_lock_free(lock);
    hf_client_close(client);
    store_close(store);
}

static void check_shares(const struct handover_run *handover)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < handover->clients; i++) {
        uint64_t had = handover->passed_to[i];
        least = had < least ? had : least;
        most = had > most ? had : most;
    }
    trace_line(world_trace(handover->run->world),
               "world: a client had the lock between %" PRIu64 " and %" PRIu64
               " times; a release took at most %" PRId64 " us",
               least, most, handover->release.us);
    uint64_t shares = handover->clients <= FEW ? SHARES_MOST_OF_FEW : SHARES_MOST;
    if (shares * (least + 1) < most)
        world_fail(handover->run->world,
                   "a client had the lock %" PRIu64 " times, and another one %" PRIu64 " times",
                   least, most);
}

static void check_handover(struct run *run, void *state)
{
    const struct handover_run *handover = state;
    int64_t passed = (int64_t)handover->passed + 1;
    int64_t requests = 100 * (int64_t)(handover->puts + handover->gets) / passed;
    int64_t cycle_us = (RUN_TIME.us - WARM_UP.us) / passed,
            each_us = cycle_us - handover->hold.us;
    int64_t waited_ms = (int64_t)handover->clients * cycle_us / 1000;
    bool few = handover->clients == FEW; /* a pair counts otherwise */
    int64_t requests_most = (few ? REQUESTS_MOST_OF_FEW : REQUESTS_MOST) +
                            REQUESTS_PER_S * waited_ms / 1000 +
                            (handover->hold.us > 0 ? REQUESTS_WHILE_HELD : 0);
    int64_t poll_us = handover->clients >= LARGE_CROWD ? POLL_MOST_IF_LARGE.us : POLL_MOST.us;
    int64_t most_us =
        ROUND_TRIPS_MOST * handover->round_trip.us + poll_us + handover->hold.us / 2;
    trace_line(world_trace(run->world),
               "world: %zu clients, round trip %" PRId64 " us, hold %" PRId64 " us: %" PRIu64
               " hand-overs of %" PRId64 " us; for each 100: %" PRId64 " puts, %" PRId64
               " of them in vain, %" PRId64 " gets",
               handover->clients, handover->round_trip.us, handover->hold.us, handover->passed,
               each_us, 100 * (int64_t)handover->puts / passed,
               100 * (int64_t)handover->conflicts / passed,
               100 * (int64_t)handover->gets / passed);
    if (requests > requests_most)
        world_fail(run->world,
                   "%zu clients sent %" PRId64 " requests for each 100 hand-overs, at most "
                   "%" PRId64 " are allowed",
                   handover->clients, requests, requests_most);
    if (each_us > most_us)
        world_fail(run->world,
                   "a hand-over took %" PRId64 " us, at most %" PRId64 " us are "
                   "allowed",
                   each_us, most_us);
    check_shares(handover);
    if (handover->release.us > RELEASE_ROUND_TRIPS_MOST * handover->round_trip.us)
        world_fail(run->world, "a release took %" PRId64 " us", handover->release.us);
}

/* The time of a request in one direction is between a half and one and a half of this. */
static struct span draw_delay(struct run *run)
{
    static const int64_t delays_us[] = { 2000, 5000, 10000, 25000 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    return SPAN_US(delays_us[prng_below(&prng, sizeof delays_us / sizeof *delays_us)]);
}

static void tune_handover(struct run *run, struct plans *plans)
{
    struct span delay = draw_delay(run);
    plans->net.plan = (struct net_plan){ .delay_min = SPAN_US(delay.us / 2),
                                         .delay_max = SPAN_US(delay.us * 3 / 2) };
    plans->net.bucket.clock = STORE_CLOCK_DATE;
    plans->net.bucket.steps = false;
    plans->chaos = (struct chaos_plan){ 0 };
}

static void *start_handover(struct run *run)
{
    static const size_t sizes[] = { 2, 4, 16, 16, 64 };
    static const int64_t holds[] = { 0, 0, 1, 5 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    struct handover_run *handover = calloc(1, sizeof *handover);
    check(handover);
    handover->run = run;
    handover->round_trip.us = 2 * draw_delay(run).us;
    prng_next(&prng);
    handover->clients = sizes[prng_below(&prng, sizeof sizes / sizeof *sizes)];
    handover->hold.us =
        holds[prng_below(&prng, sizeof holds / sizeof *holds)] * handover->round_trip.us;
    handover->all = (struct clients){ run, handover->clients, pass_lock_around, handover };
    clients_boot(&handover->all);
    return handover;
}

const struct workload workload_handover = {
    .name = "handover",
    .about = "clients pass a lock around; each hand-over takes few requests and little time",
    .tune = tune_handover,
    .start = start_handover,
    .check_at_end = check_handover,
    .free = free,
    .counts_requests = true,
};
