/* SPDX-License-Identifier: Apache-2.0 */
/* newcomers.c: many clients use a new bucket for the first time, all at once. Each opens it, which
 * takes a verdict on the store, and acquires a lock of its own, which takes an epoch and a limit.
 * The store handles one request after another, so whatever all clients do is slow. In some seeds a
 * client has died while it created the epoch, or while it probed. The run fails if
 *
 *   - the clients send more requests than the limits below, for each of them;
 *   - a client has not had its lock after the time below;
 *   - a call fails for another reason than that there was not enough time. */
#include "base/check.h"
#include "base/layout.h"
#include "holdfast/lock.h"
#include "lock/client.h"
#include "sim/workloads/clients.h"
#include "store/bucket.h"
#include "store/observe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BEGIN    SPAN_S(2) /* by then, a client that dies has done so */
#define GIVES_UP SPAN_S(300)
#define TRIES_IN SPAN_S(1) /* after a call that had not enough time, on average */

/* A client that is alone sends this many requests, and each of many clients that many. If a client
 * has died, some of the others do in vain what it should have done. */
#define REQUESTS_ALONE        90
#define REQUESTS_EACH         36
#define REQUESTS_EACH_IF_DIED 90

#define DIED_CREATING_MOST 64

/* The epoch and its copy are created, and the limit is recorded. Besides the puts for that, some
 * clients put in vain what another one has just put: at most one of so many. */
#define EPOCH_PUTS_ALONE 16
#define EPOCH_PUTS_OF    2

/* All have had their locks after the time in which the store handles these requests, and this time:
 * clients wait for each other, and those that have waited in vain begin again. */
#define TIME_MOST         SPAN_S(20)
#define TIME_MOST_IF_DIED SPAN_S(30)

struct newcomers_run {
    struct run *run;
    struct clients all;
    struct span service, delay; /* of each request: in the store, and one way */
    bool died_probing, died_creating;
    uint64_t requests, epoch_puts, had;
    int64_t last_us; /* when the last one had its lock */
};

static void count_newcomer(void *argument, const struct observation *seen)
{
    struct newcomers_run *newcomers = argument;
    newcomers->requests++;
    newcomers->epoch_puts +=
        seen->kind == CALL_PUT && view_starts_with(seen->key, VIEW(".holdfast/epoch"));
}

/* Whether a call that ended like this may succeed later. */
static bool had_no_time(enum hf_status status)
{
    return status == HF_TIMEOUT || status == HF_UNSURE || status == HF_UNAVAILABLE;
}

/* Calls until the call succeeds, and fails the run if that takes too long. */
static bool again(const struct one_client *self, const char *call, enum hf_status status)
{
    struct newcomers_run *newcomers = self->state;
    struct env *env = node_env(self->node);
    if (status == HF_OK)
        return false;
    if (!had_no_time(status) || world_now_us(newcomers->run->world) > GIVES_UP.us) {
        world_fail(newcomers->run->world, "%s of client %zu: %s", call, self->index,
                   hf_status_name(status));
        return false;
    }
    env_sleep(env, env_jitter(env, SPAN_US(2 * TRIES_IN.us)));
    return true;
}

static void have_lock(const struct one_client *self, struct store *store)
{
    struct newcomers_run *newcomers = self->state;
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    char name[40];
    snprintf(name, sizeof name, "named:%zu", self->index);
    check(client_new(store, NULL, &client, &error) == HF_OK);
    check(hf_lock_new(client, name, NULL, &lock, &error) == HF_OK);
    while (again(self, "acquire", hf_lock_acquire(lock, 0, &error)))
        ;
    newcomers->had++;
    newcomers->last_us = world_now_us(newcomers->run->world);
    (void)hf_lock_release(lock, &error);
    hf_lock_free(lock);
    hf_client_close(client);
}

/* What a client leaves that has died just then. */
static void leave_behind(struct store *store, const char *key, const char *bytes)
{
    struct put_call put = { .key = view_of(key), .body = view_of(bytes) };
    check(store_put(store, &put) == HF_OK);
}

static void arrive(void *argument)
{
    const struct one_client *self = argument;
    struct newcomers_run *newcomers = self->state;
    struct env *env = node_env(self->node);
    struct store *store, *inner = net_store_open(newcomers->run->net, self->node);
    struct hf_error error;
    check(inner);
    check(store_observe(inner, (struct observer){ count_newcomer, newcomers }, &store,
                        &error) == HF_OK);
    if (self->index == 0 && newcomers->died_probing)
        leave_behind(store, LAYOUT_PROBE_TURNS "0000000000000000", "probe");
    if (self->index == 0 && newcomers->died_creating)
        leave_behind(store, LAYOUT_EPOCH_COPY_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json",
                     "{ \"format\": \"" LAYOUT_EPOCH_FORMAT "\", \"blank\": \"00\" }\n");
    int64_t wait_us = BEGIN.us - world_now_us(newcomers->run->world);
    env_sleep(env, SPAN_US(wait_us > 0 ? wait_us : 0));
    run_count_operation(newcomers->run);
    while (again(self, "open", bucket_check(store, BUCKET_LOCKS, &error)))
        ;
    have_lock(self, store);
    store_close(store);
}

static void check_newcomers(struct run *run, void *state)
{
    const struct newcomers_run *newcomers = state;
    int64_t clients = (int64_t)newcomers->all.count;
    bool died = newcomers->died_probing || newcomers->died_creating;
    int64_t requests_most =
        REQUESTS_ALONE + clients * (died ? REQUESTS_EACH_IF_DIED : REQUESTS_EACH);
    int64_t took_us = newcomers->last_us - BEGIN.us;
    int64_t most_us =
        (died ? TIME_MOST_IF_DIED : TIME_MOST).us + requests_most * newcomers->service.us;
    trace_line(world_trace(run->world),
               "world: %" PRId64 " clients, one way %" PRId64 " us, service %" PRId64
               " us: %" PRIu64 " had their locks within %" PRId64 " ms, %" PRIu64
               " requests for each 100",
               clients, newcomers->delay.us, newcomers->service.us, newcomers->had,
               took_us / 1000, 100 * newcomers->requests / (uint64_t)clients);
    if ((int64_t)newcomers->requests > requests_most)
        world_fail(run->world,
                   "%" PRId64 " clients sent %" PRIu64 " requests, at most %" PRId64
                   " are allowed",
                   clients, newcomers->requests, requests_most);
    if ((int64_t)newcomers->epoch_puts > EPOCH_PUTS_ALONE + clients / EPOCH_PUTS_OF)
        world_fail(run->world,
                   "%" PRId64 " clients put the epoch or its copy %" PRIu64 " times", clients,
                   newcomers->epoch_puts);
    if ((int64_t)newcomers->had < clients || took_us > most_us)
        world_fail(run->world,
                   "%" PRIu64 " of %" PRId64 " clients had their locks after %" PRId64
                   " ms, at most %" PRId64 " ms are allowed",
                   newcomers->had, clients, took_us / 1000, most_us / 1000);
}

/* The same for both functions below. */
static struct prng draw_network(struct run *run, struct span *ret_delay,
                                struct span *ret_service)
{
    static const int64_t delays_us[] = { 1000, 5000, 25000 };
    static const int64_t services_us[] = { 0, 1000, 4000 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    ret_delay->us = delays_us[prng_below(&prng, sizeof delays_us / sizeof *delays_us)];
    ret_service->us = services_us[prng_below(&prng, sizeof services_us / sizeof *services_us)];
    return prng;
}

static void tune_newcomers(struct run *run, struct plans *plans)
{
    struct span delay, service;
    (void)draw_network(run, &delay, &service);
    plans->net.plan = (struct net_plan){ .delay_min = SPAN_US(delay.us / 2),
                                         .delay_max = SPAN_US(delay.us * 3 / 2),
                                         .service = service };
    plans->net.bucket.clock = STORE_CLOCK_DATE;
    plans->net.bucket.steps = false;
    plans->chaos = (struct chaos_plan){ 0 };
}

static void *start_newcomers(struct run *run)
{
    static const size_t sizes[] = { 1, 2, 16, 64, 200 };
    struct newcomers_run *newcomers = calloc(1, sizeof *newcomers);
    check(newcomers);
    newcomers->run = run;
    struct prng prng = draw_network(run, &newcomers->delay, &newcomers->service);
    size_t count = sizes[prng_below(&prng, sizeof sizes / sizeof *sizes)];
    newcomers->died_probing = prng_below(&prng, 4) == 0;
    /* With more clients, it may take minutes until one of them has had the time for the search. */
    newcomers->died_creating = prng_below(&prng, 4) == 0 && count <= DIED_CREATING_MOST;
    newcomers->all = (struct clients){ run, count, arrive, newcomers };
    clients_boot(&newcomers->all);
    return newcomers;
}

const struct workload workload_newcomers = {
    .name = "newcomers",
    .about = "clients use a new bucket for the first time, all at once; it takes few requests",
    .tune = tune_newcomers,
    .start = start_newcomers,
    .check_at_end = check_newcomers,
    .free = free,
    .counts_requests = true,
};
