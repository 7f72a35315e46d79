/* SPDX-License-Identifier: Apache-2.0 */
/* compact.c: nodes add chunks to one partition, merge, delete, pin and read them, while faults
 * happen. catalog_checker.h lists what must be true. compact_work.c contains the nodes' operations.
 *
 * During the fault-free phase, one node cleans up. It merges what is due, waits until every request
 * in flight has arrived, condemns unknown objects, waits for D, and repeats this until only live
 * chunks are left. */
#include "sim/checkers/swap_checker.h"
#include "sim/workloads/compact_work.h"

#include "base/check.h"

#include <stdlib.h>

/* This long after the fault-free phase begins, every request in flight has arrived. */
#define SETTLE SPAN_S(3 * 3600)

/* Other nodes may sleep several times for longer than names remain valid. */
#define AWAIT_STEP SPAN_S(1800)

#define ROUNDS_MAX 12

/* The time between two rounds, or D if that is longer: the wall clock of a local store may be wrong
 * by a day, and fsck goes by it. */
#define CLEAR_STEP SPAN_S(9 * 3600)

static void open_all(struct actor *actor)
{
    const struct compact_settings *settings = &actor->compact->plan.settings;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(actor->node));
    options.holder = label;
    options.ttl_max_ms = 60000;
    options.skew_tolerance_ms = settings->skew_tolerance_ms;
    actor->store = net_store_open(actor->compact->run->net, actor->node);
    check(actor->store);
    check(client_new(actor->store, &options, &actor->client, &error) == HF_OK);
    check(catalog_tree_open(actor->store, actor->client, VIEW(COMPACT_PARTITION), &actor->tree,
                            &error) == HF_OK);
    catalog_tree_create(actor->tree, settings, &error);
    compact_merger_init(actor);
}

static void close_all(struct actor *actor)
{
    catalog_tree_close(actor->tree);
    hf_client_close(actor->client);
    store_close(actor->store);
}

static void clear_up(struct actor *actor)
{
    struct compact *compact = actor->compact;
    struct span late_bound = SPAN_MS(compact->plan.settings.late_bound_ms), wait = late_bound;
    struct hf_error error;
    if (wait.us < CLEAR_STEP.us)
        wait = CLEAR_STEP;
    check(catalog_tree_resume(actor->tree, &error) == HF_OK);
    for (int i = 0; i < ROUNDS_MAX; i++) {
        compact_drain(actor);
        compact_maintain(actor, /* short_lived */ false);
        compact_fsck(actor, SPAN_S(3600));
        if (!checker_unsettled(compact->checker)) {
            if (!checker_is_gone(compact->checker))
                compact_fsck_finds_nothing(actor);
            break;
        }
        env_sleep(actor->env, SPAN_US(wait.us + wait.us / 100));
    }
    compact->team.settled = true;
}

static void program(struct node *node, void *argument)
{
    struct compact *compact = argument;
    struct actor actor = { .compact = compact, .node = node, .env = node_env(node) };
    checker_started(compact->checker, node);
    open_all(&actor);
    while (team_goes_on(&compact->team, node))
        compact_act(&actor);
    team_await_calm(&compact->team, node);
    if (compact->plan.all_drain && !compact->team.rested[node_number(node)])
        compact_drain(&actor);
    if (team_rests(&compact->team, node, SETTLE, AWAIT_STEP))
        clear_up(&actor);
    close_all(&actor);
}

static void checker(struct run *run, void *state)
{
    struct compact *compact = state;
    (void)run;
    catalog_checker_end(compact->checker);
}

static void *start(struct run *run)
{
    struct compact *compact = calloc(1, sizeof *compact);
    check(compact);
    compact->run = run;
    team_init(&compact->team, run);
    compact->plan = compact_plan_draw(run->world);
    compact->killers_left = compact->plan.killers;
    const struct compact_settings *settings = &compact->plan.settings;
    struct store_traits traits = bucket_traits(net_bucket(run->net));
    struct catalog_checker_options options = {
        .partition = COMPACT_PARTITION,
        .latest_wins = compact->plan.latest_wins,
        .by_date = traits.clock == STORE_CLOCK_DATE,
        .grace = SPAN_MS(settings->grace_ms),
        .late_bound = SPAN_MS(settings->late_bound_ms),
        .clocks_off = SPAN_MS(settings->skew_tolerance_ms / 2),
        .standstill = compact->plan.standstill,
        .deletes = compact->plan.deletes,
        .retention_ms = settings->retention_ms,
        .tries_max = settings->tries_max,
        .level0_count = settings->level0_count,
        .level1_bytes = settings->level1_bytes,
        .level_factor = settings->level_factor,
        .group_max = settings->group_max,
    };
    compact->checker = catalog_checker_new(run, &options);
    compact->swap_checker = swap_checker_new(run);
    for (unsigned i = 0; i < run->options->nodes; i++) {
        struct node *node = world_node(run->world, i);
        compact->restarts[node_number(node)] =
            (struct compact_restart){ .compact = compact, .node = node };
        compact->cuts[node_number(node)] =
            (struct compact_cut){ .compact = compact, .node = node };
        node_boot(node, program, compact);
    }
    return compact;
}

static void free_state(void *state)
{
    struct compact *compact = state;
    for (size_t i = 0; i <= NODES_MAX; i++) {
        world_cancel_timer(compact->run->world, &compact->restarts[i].timer);
        world_cancel_timer(compact->run->world, &compact->cuts[i].timer);
    }
    catalog_checker_free(compact->checker);
    swap_checker_free(compact->swap_checker);
    free(compact);
}

const struct workload workload_compact = {
    .name = "compact",
    .about = "nodes add, merge, delete and read chunks of one catalog; no row is lost",
    .tune = compact_tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
