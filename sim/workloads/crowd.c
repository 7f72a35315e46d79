/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c: many clients change one document at the same time, without any fault. Some seeds let
 * each client continue at once; in others it does something else between two changes. In still
 * others, the same event makes all clients look at the document, and each changes it when its turn
 * comes, as the workers of compaction do that have found the same group. The run fails if
 *
 *   - the clients need more puts for each change than the limits below;
 *   - together they write less than half as often as one client alone could;
 *   - a client is not able to make a single change in the second half of the run;
 *   - a change fails, or, of clients with little time and a slow store, more than two do. */
#include "sim/workloads/tally.h"

#include "base/check.h"
#include "sim/workloads/clients.h"
#include "sim/workloads/draw.h"

#include <inttypes.h>
#include <stdlib.h>

#define CLIENTS_MAX 64
#define RUN_TIME    SPAN_S(40)
#define WARM_UP     SPAN_S(8)
#define PATIENCE    SPAN_S(60)

/* One way. The store is as fast as one in the same rack, so that many changes fit into a run. */
#define DELAY_MIN SPAN_US(500)
#define DELAY_MAX SPAN_US(1500)

/* A slow store, and clients that have as much time for a change as a request for a lock. */
#define SLOWER       25
#define SHORT        SPAN_S(10)
#define LATE_MOST    2
#define SLOW_CLIENTS 16

/* Puts for each 100 changes: without time between the changes, in a small crowd and in a large one,
 * and with time between them, if few clients are there and if many are. */
#define SMALL_CROWD    16
#define PUTS_SMALL     112
#define PUTS_LARGE     125
#define FEW            5
#define PUTS_IDLE_FEW  113
#define PUTS_IDLE_MANY 120

/* Events, and the turns of the clients after each. */
#define EVENT_EVERY SPAN_S(1)
#define TURN_EVERY  SPAN_MS(8)

struct crowd_run {
    struct run *run;
    struct clients all;
    size_t clients;
    struct span idle; /* between two changes of a client, on average */
    bool takes_turns; /* after an event */
    bool slow;
    uint64_t late;
    uint64_t puts, gets, changes;
    uint64_t changes_of[CLIENTS_MAX];
};

/* After the time in which the clients get to know each other. */
static bool counts(const struct crowd_run *crowd)
{
    return world_now_us(crowd->run->world) >= WARM_UP.us;
}

static void count_request(void *argument, const struct observation *seen)
{
    struct crowd_run *crowd = argument;
    crowd->puts += seen->kind == CALL_PUT && counts(crowd);
    crowd->gets += seen->kind == CALL_GET && counts(crowd);
}

static void look(void *argument, const void *body, const struct evidence *evidence)
{
    (void)argument, (void)body, (void)evidence;
}

/* Looks at the document when the next event happens, and then waits until it is its turn. */
static void wait_for_turn(const struct one_client *self, struct tally_client *client)
{
    struct env *env = node_env(self->node);
    struct world *world = ((struct crowd_run *)self->state)->run->world;
    struct mono_time deadline = mono_add(env_now(env), PATIENCE);
    struct hf_error error;
    env_sleep(env, SPAN_US(EVENT_EVERY.us - world_now_us(world) % EVENT_EVERY.us));
    enum hf_status status = doc_look(client->doc, deadline, look, NULL, &error);
    if (status != HF_OK && status != HF_NOT_FOUND) /* nobody has changed it yet */
        world_fail(world, "client %zu could not look: %s", self->index, error.why);
    env_sleep(env, SPAN_US((int64_t)self->index * TURN_EVERY.us));
}

static void make_changes(void *argument)
{
    const struct one_client *self = argument;
    struct crowd_run *crowd = self->state;
    struct env *env = node_env(self->node);
    struct tally_client client;
    tally_open(&client, crowd->run->net, self->node, self->index + 1, VIEW("table"),
               (struct observer){ count_request, crowd });
    if (crowd->takes_turns)
        doc_read_first(client.doc);
    while (world_now_us(crowd->run->world) < RUN_TIME.us) {
        run_count_operation(crowd->run);
        if (crowd->takes_turns)
            wait_for_turn(self, &client);
        enum hf_status status = tally_change(&client, crowd->slow ? SHORT : PATIENCE);
        bool late = crowd->slow && (status == HF_TIMEOUT || status == HF_UNSURE);
        crowd->late += late;
        if (status != HF_OK && !late)
            world_fail(crowd->run->world, "a change of client %zu failed: %s", self->index,
                       hf_status_name(status));
        crowd->changes += counts(crowd) && status == HF_OK;
        crowd->changes_of[self->index] += counts(crowd) && status == HF_OK;
        if (crowd->idle.us > 0)
            env_sleep(env, env_jitter(env, SPAN_US(2 * crowd->idle.us)));
    }
    tally_close(&client);
}

static uint64_t puts_allowed(const struct crowd_run *crowd)
{
    if (crowd->idle.us > 0 || crowd->takes_turns)
        return crowd->clients <= FEW ? PUTS_IDLE_FEW : PUTS_IDLE_MANY;
    return crowd->clients <= SMALL_CROWD ? PUTS_SMALL : PUTS_LARGE;
}

static void check_crowd(struct run *run, void *state)
{
    const struct crowd_run *crowd = state;
    int64_t counted_us = RUN_TIME.us - WARM_UP.us;
    int64_t trip_us = (crowd->slow ? SLOWER : 1) * (DELAY_MIN.us + DELAY_MAX.us);
    uint64_t alone = (uint64_t)(counted_us / trip_us);
    uint64_t puts = 100 * crowd->puts / (crowd->changes + 1);
    trace_line(world_trace(run->world),
               "world: %zu clients made %" PRIu64 " changes, with %" PRIu64 " puts and %" PRIu64
               " gets for each 100",
               crowd->clients, crowd->changes, puts, 100 * crowd->gets / (crowd->changes + 1));
    if (crowd->late > LATE_MOST)
        world_fail(run->world, "%" PRIu64 " changes had no turn in time", crowd->late);
    if (puts > puts_allowed(crowd) && !crowd->slow)
        world_fail(run->world,
                   "%zu clients needed %" PRIu64 " puts for each 100 changes, at most %" PRIu64
                   " are allowed",
                   crowd->clients, puts, puts_allowed(crowd));
    if (crowd->idle.us == 0 && !crowd->takes_turns && crowd->changes < alone / 2)
        world_fail(run->world,
                   "%zu clients made only %" PRIu64 " changes, and one alone makes %" PRIu64,
                   crowd->clients, crowd->changes, alone);
    for (size_t i = 0; i < crowd->clients; i++)
        if (crowd->changes_of[i] == 0)
            world_fail(run->world, "client %zu of %zu could not make a change", i,
                       crowd->clients);
}

/* What the clients do between two changes. */
enum crowd_kind { KIND_IDLE, KIND_TURNS, KIND_BUSY, KIND_SLOW };

static enum crowd_kind draw_crowd(struct run *run, size_t *ret_clients)
{
    static const size_t sizes[] = { 2, 5, 16, 64 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    *ret_clients = sizes[prng_below(&prng, sizeof sizes / sizeof *sizes)];
    return (enum crowd_kind)prng_below(&prng, 4);
}

static void tune_crowd(struct run *run, struct plans *plans)
{
    size_t clients;
    int64_t slower = draw_crowd(run, &clients) == KIND_SLOW ? SLOWER : 1;
    plans->net.plan = (struct net_plan){ .delay_min = SPAN_US(slower * DELAY_MIN.us),
                                         .delay_max = SPAN_US(slower * DELAY_MAX.us) };
    plans->net.bucket.clock = STORE_CLOCK_DATE;
    plans->net.bucket.steps = false;
    plans->chaos = (struct chaos_plan){ 0 };
}

static void *start_crowd(struct run *run)
{
    struct crowd_run *crowd = calloc(1, sizeof *crowd);
    check(crowd);
    crowd->run = run;
    enum crowd_kind kind = draw_crowd(run, &crowd->clients);
    crowd->takes_turns = kind == KIND_TURNS;
    crowd->slow = kind == KIND_SLOW;
    if (crowd->slow && crowd->clients > SLOW_CLIENTS)
        crowd->clients = SLOW_CLIENTS;
    /* A client that is idle most of the time, so that the document is not busy. */
    if (kind == KIND_IDLE)
        crowd->idle = SPAN_US((int64_t)crowd->clients * 10 * (DELAY_MIN.us + DELAY_MAX.us));
    crowd->all = (struct clients){ run, crowd->clients, make_changes, crowd };
    clients_boot(&crowd->all);
    return crowd;
}

const struct workload workload_crowd = {
    .name = "crowd",
    .about = "clients change one document as fast as they can; few of their puts are in vain",
    .tune = tune_crowd,
    .start = start_crowd,
    .check_at_end = check_crowd,
    .free = free,
    .counts_requests = true,
};
