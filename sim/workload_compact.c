/* workload_compact.c: nodes that add chunks to one partition, merge, delete, pin and read them,
 * while anything goes wrong. What must be true stands in judge_catalog.h; what nodes do in
 * compact_work.c.
 *
 * Once it is calm one node clears up: merges what is due, waits until all that was on its way
 * has landed, condemns what nobody knows, waits for D, and again, until nothing is left but live
 * chunks. */
#include "sim/compact_work.h"
#include "sim/judge_swap.h"

#include "base/check.h"

#include <stdlib.h>

/* After the calm: what was under way has arrived. */
#define SETTLE SPAN_S(3 * 3600)

/* Others may sleep for longer than names last, and do so a few times. */
#define AWAIT_STEP SPAN_S(1800)

#define ROUNDS_MAX 12

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
    check(shelf_open(actor->store, actor->client, VIEW(COMPACT_PARTITION), &actor->shelf,
                     &error) == HF_OK);
    shelf_create(actor->shelf, settings, &error);
    compact_forge_init(actor);
}

static void close_all(struct actor *actor)
{
    shelf_close(actor->shelf);
    hf_client_close(actor->client);
    store_close(actor->store);
}

static void clear_up(struct actor *actor)
{
    struct compact *compact = actor->compact;
    struct span late_bound = SPAN_MS(compact->plan.settings.late_bound_ms);
    struct hf_error error;
    check(shelf_resume(actor->shelf, &error) == HF_OK);
    for (int i = 0; i < ROUNDS_MAX; i++) {
        compact_drain(actor);
        compact_tend(actor, /* short_lived */ false);
        compact_fsck(actor, SPAN_S(3600));
        if (!judge_unsettled(compact->judge)) {
            compact_fsck_finds_nothing(actor);
            break;
        }
        env_sleep(actor->env, SPAN_US(late_bound.us + late_bound.us / 100));
    }
    compact->team.settled = true;
}

static void program(struct node *node, void *argument)
{
    struct compact *compact = argument;
    struct actor actor = { .compact = compact, .node = node, .env = node_env(node) };
    judge_started(compact->judge, node);
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

static void judge(struct run *run, void *state)
{
    struct compact *compact = state;
    (void)run;
    judge_catalog_end(compact->judge);
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
    struct judge_catalog_options options = {
        .partition = COMPACT_PARTITION,
        .latest_wins = compact->plan.latest_wins,
        .by_date = traits.clock == STORE_CLOCK_DATE,
        .grace = SPAN_MS(settings->grace_ms),
        .late_bound = SPAN_MS(settings->late_bound_ms),
        .clocks_off = SPAN_MS(settings->skew_tolerance_ms / 2),
        .standstill = COMPACT_STANDSTILL,
        .retention_ms = settings->retention_ms,
        .tries_max = settings->tries_max,
        .level0_count = settings->level0_count,
        .level1_bytes = settings->level1_bytes,
        .level_factor = settings->level_factor,
        .group_max = settings->group_max,
    };
    compact->judge = judge_catalog_new(run, &options);
    compact->swap_judge = judge_swap_new(run);
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
    judge_catalog_free(compact->judge);
    judge_swap_free(compact->swap_judge);
    free(compact);
}

const struct workload workload_compact = {
    .name = "compact",
    .about = "nodes add, merge, delete and read chunks of one catalog; no row is lost",
    .tune = compact_tune,
    .start = start,
    .judge = judge,
    .free = free_state,
};
