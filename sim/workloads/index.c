/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: nodes put records into an index, compile it and read it, while faults happen and another
 * program writes its own entries. index_checker.h lists what must be true. index_put.c and
 * index_act.c contain the nodes' operations.
 *
 * During the fault-free phase, after every request in flight has arrived, one node compiles until
 * nothing is left to do. It then compiles once more, which must change nothing, and reads
 * everything. */
#include "base/check.h"
#include "sim/checkers/swap_checker.h"
#include "sim/workloads/index_work.h"

#include <stdlib.h>

/* This long after the fault-free phase begins, every request in flight has arrived. */
#define SETTLE SPAN_S(3 * 3600)

#define AWAIT_STEP SPAN_S(600)

/* Enough rounds for an abandoned lock to be free again. The lease that replaces a damaged lock
 * lasts 300 s, and after a reboot it must be watched for all of them. Then the dead waiters miss
 * their turns, one, two, four and so on in each round. */
#define ROUNDS_MAX 16
#define ROUND_STEP SPAN_S(60)

static void open_all(struct indexer *indexer)
{
    const struct index_plan *plan = &indexer->work->plan;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(indexer->node));
    options.holder = label;
    options.skew_tolerance_ms = plan->skew.tolerance_ms;
    indexer->store = net_store_open(indexer->work->run->net, indexer->node);
    check(indexer->store);
    check(client_new(indexer->store, &options, &indexer->client, &error) == HF_OK);
    if (plan->deletes)
        indexer->client->space.settings.late_bound = INDEX_LATE_BOUND;
    index_checker_client(indexer->work->checker, indexer->node, indexer->client);
}

static void close_all(struct indexer *indexer)
{
    index_checker_client(indexer->work->checker, indexer->node, NULL);
    index_close(indexer->index);
    hf_client_close(indexer->client);
    store_close(indexer->store);
}

static void compile_to_the_end(struct indexer *indexer)
{
    bool done = false;
    for (int i = 0; i < ROUNDS_MAX && !done; i++) {
        done = indexer_open(indexer, INDEX_FIELDS_FIRST) && indexer_compile_all(indexer);
        if (!done)
            env_sleep(indexer->env, ROUND_STEP);
    }
    if (done)
        indexer_check_all(indexer);
    indexer->work->team.settled = true;
}

static void program(struct node *node, void *argument)
{
    struct index_work *work = argument;
    struct indexer indexer = { .work = work, .node = node, .env = node_env(node) };
    open_all(&indexer);
    while (team_goes_on(&work->team, node))
        indexer_act(&indexer);
    team_await_calm(&work->team, node);
    if (work->plan.all_compile && !work->team.rested[node_number(node)] &&
        indexer_open(&indexer, INDEX_FIELDS_FIRST))
        indexer_compile_all(&indexer);
    if (team_rests(&work->team, node, SETTLE, AWAIT_STEP)) {
        indexer.alone = true;
        compile_to_the_end(&indexer);
    }
    close_all(&indexer);
}

/* The lock of the first key's shard, as another program may have left it. Only its duration
 * matters, because the clock that its times come from is unknown. */
#define TAKEN_S 30
static void leave_lock(struct index_work *work, struct view shard)
{
    static const char of_another[] = "{\"worker_id\":\"pi-3\","
                                     "\"created_at\":\"2025-12-31T23:59:50Z\","
                                     "\"expires_at\":\"2026-01-01T00:00:20Z\"}";
    char key[64];
    bool is_lock = work->plan.lock == LOCK_OF_ANOTHER;
    struct put_call put = { .body = is_lock ? view_of(of_another) : VIEW("garbage") };
    if (work->plan.lock == LOCK_ABSENT)
        return;
    snprintf(key, sizeof key, "indexes/" SIM_INDEX "/shards/%.*s.lock", VIEW_ARGS(shard));
    put.key = view_of(key);
    bucket_put(net_bucket(work->run->net), &put);
}

static void *start(struct run *run)
{
    struct index_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    team_init(&work->team, run);
    work->plan = index_plan_draw(run);
    struct shard_id first = shard_of_key(index_plan_key(0), SIM_INDEX_DIGITS);
    struct index_checker_options options = {
        .index = SIM_INDEX,
        .digits = SIM_INDEX_DIGITS,
        .delete_conditional = bucket_traits(net_bucket(run->net)).delete_conditional,
        .locks_vanish = work->plan.locks_vanish,
        .keep_deleted = index_keep_deleted(&work->plan),
        .plain = work->plan.plain,
    };
    if (work->plan.lock == LOCK_OF_ANOTHER && !work->plan.locks_vanish) {
        options.taken = view_of(first.text);
        options.taken_until_us = SPAN_S(TAKEN_S).us;
    }
    work->checker = index_checker_new(run, &options);
    work->swap_checker = swap_checker_new(run);
    leave_lock(work, view_of(first.text));
    for (unsigned i = 0; i < run->options->nodes; i++)
        node_boot(world_node(run->world, i), program, work);
    return work;
}

static void checker(struct run *run, void *state)
{
    struct index_work *work = state;
    (void)run;
    index_checker_end(work->checker);
}

static void free_state(void *state)
{
    struct index_work *work = state;
    index_checker_free(work->checker);
    swap_checker_free(work->swap_checker);
    free(work);
}

const struct workload workload_index = {
    .name = "index",
    .about = "nodes put, compile and read an index; no key is lost, and readers see the latest",
    .tune = index_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};

const struct workload workload_plain = {
    .name = "plain",
    .about = "the same with plain shards, which another program reads and rewrites",
    .tune = index_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
