/* SPDX-License-Identifier: Apache-2.0 */
/* race.c: in each round, all nodes try to create the same object, and then to replace it. No node
 * tries twice, so at most one node may get OK for creating the object, and at most one for
 * replacing it. */
#include "base/check.h"
#include "base/parse.h"
#include "sim/run.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROUND_EVERY SPAN_S(5)
#define BODY_MAX    128

/* The two writes of a round: the first uses if-absent, the second if-match. */
enum { LEGS = 2 };

struct leg {
    unsigned winner;  /* the node that got OK; 0: none */
    unsigned applied; /* how many writes took effect */
};

struct race {
    struct run *run;
    struct bucket_watch watch;
    uint64_t rounds;
    uint64_t next[NODES_MAX + 1]; /* the round that each node runs next */
    struct leg *legs;             /* LEGS per round */
};

struct round_key {
    char text[32];
};

static struct round_key key_of_round(uint64_t round)
{
    struct round_key key;
    snprintf(key.text, sizeof key.text, "race/%" PRIu64, round);
    return key;
}

/* ---- Operations of a node ------------------------------------------------------------ */

static void won(struct race *race, uint64_t round, unsigned leg_number, unsigned node)
{
    struct leg *leg = &race->legs[round * LEGS + leg_number];
    if (leg->winner)
        world_fail(race->run->world,
                   "in round %" PRIu64
                   " nodes %u and %u were both told that they %s the object",
                   round, leg->winner, node, leg_number == 0 ? "created" : "replaced");
    leg->winner = node;
}

/* The body identifies the leg that wrote it, and is unique. */
static enum hf_status put(struct store *store, struct view key, unsigned leg,
                          struct condition condition)
{
    char body[BODY_MAX];
    uint64_t nonce = env_random_u64(store->env);
    int size = snprintf(body, sizeof body, "%u %016" PRIx64, leg, nonce);
    struct put_call call = { .key = key,
                             .body = { body, (size_t)size },
                             .condition = condition };
    return store_put(store, &call);
}

static void run_round(struct race *race, struct node *node, struct store *store, uint64_t round)
{
    struct round_key text = key_of_round(round);
    struct view key = view_of(text.text);
    if (put(store, key, 0, if_absent()) == HF_OK)
        won(race, round, 0, node_number(node));
    struct buffer body = BUFFER_INIT(BODY_MAX);
    struct get_call get = { .key = key, .body = &body };
    bool is_first = store_get(store, &get) == HF_OK && body.data[0] == '0';
    buffer_release(&body);
    if (is_first && put(store, key, 1, if_match(&get.info.etag)) == HF_OK)
        won(race, round, 1, node_number(node));
}

static void program(struct node *node, void *argument)
{
    struct race *race = argument;
    struct env *env = node_env(node);
    struct store *store = net_store_open(race->run->net, node);
    check(store);
    uint64_t *next = &race->next[node_number(node)];
    while (*next < race->rounds) {
        uint64_t round = (*next)++; /* a round that a crash cut short is not run again */
        int64_t start_us = (int64_t)round * ROUND_EVERY.us;
        if (world_now_us(race->run->world) < start_us)
            env_sleep_until(env, node_moment(node, start_us));
        run_round(race, node, store, round);
    }
    store_close(store);
}

/* ---- The checker ----------------------------------------------------------------------- */

static void changed(void *argument, const struct bucket_change *change)
{
    struct race *race = argument;
    struct view rest = change->key;
    view_cut(&rest, '/');
    struct hf_error error;
    uint64_t round;
    if (parse_u64(rest, race->rounds - 1, &round, &error) != HF_OK || change->body.size == 0) {
        world_fail(race->run->world, "a write left something that is of no round");
        return;
    }
    unsigned leg = change->body.data[0] == '0' ? 0 : 1;
    if (++race->legs[round * LEGS + leg].applied > 1)
        world_fail(race->run->world, "in round %" PRIu64 " the object was %s twice", round,
                   leg == 0 ? "created" : "replaced");
}

static void checker(struct run *run, void *state)
{
    struct race *race = state;
    for (uint64_t i = 0; i < race->rounds * LEGS; i++)
        if (race->legs[i].winner && race->legs[i].applied == 0)
            world_fail(run->world,
                       "in round %" PRIu64
                       " node %u was told that it won, but nothing was written",
                       i / LEGS, race->legs[i].winner);
    for (unsigned i = 1; i <= run->options->nodes; i++)
        if (race->next[i] != race->rounds)
            world_fail(run->world, "node %u did not run all its rounds", i);
}

static void *start(struct run *run)
{
    struct race *race = calloc(1, sizeof *race);
    check(race);
    race->run = run;
    race->rounds = run->options->operations / run->options->nodes;
    race->rounds = race->rounds > 0 ? race->rounds : 1;
    race->legs = calloc(race->rounds * LEGS, sizeof *race->legs);
    check(race->legs);
    race->watch = (struct bucket_watch){ .changed = changed, .argument = race };
    bucket_add_watch(net_bucket(run->net), &race->watch);
    for (unsigned i = 0; i < run->options->nodes; i++)
        node_boot(world_node(run->world, i), program, race);
    return race;
}

static void free_state(void *state)
{
    struct race *race = state;
    free(race->legs);
    free(race);
}

const struct workload workload_race = {
    .name = "race",
    .about = "nodes create, then replace, the same objects; never two winners",
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
