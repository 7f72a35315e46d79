/* SPDX-License-Identifier: Apache-2.0 */
/* chaos.c: starts and ends node and clock faults until the fault-free phase at the end. Each fault
 * ends by itself, and a node has at most one at a time. */
#include "sim/faults/chaos.h"

#include "base/check.h"
#include "base/parse.h"
#include "sim/workloads/draw.h"

#include <stdlib.h>

/* The current fault of a node, and when it ends. */
struct ordeal {
    struct chaos *chaos;
    struct node *node;
    struct prng prng; /* for durations, clock steps, and whether a call is affected */
    bool active;
    void (*relieve)(struct ordeal *ordeal);
    struct timer begin; /* starts a pause during the node's own turn */
    struct timer end;
};

struct chaos {
    struct world *world;
    struct net *net;
    struct faults *faults;
    struct chaos_plan plan;
    struct prng prng; /* for the time, the kind and the node of a fault */
    struct timer next;
    struct timer burst_end;
    struct ordeal ordeals[NODES_MAX];
    size_t count;
    uint64_t weights;
    bool calm;
    uint64_t requests; /* the number sent when the fault-free phase began */
};

#define CHAOS_TRACE(chaos, ...) trace_line(world_trace((chaos)->world), __VA_ARGS__)

static struct ordeal *ordeal_of(struct chaos *chaos, const struct node *node)
{
    return &chaos->ordeals[node_number(node) - 1];
}

static bool may_strike(const struct ordeal *ordeal)
{
    return !ordeal->active && node_is_up(ordeal->node);
}

/* Counts a fault that affects a node that is waiting for a reply. */
static void count_hit(struct ordeal *ordeal)
{
    ordeal->chaos->faults->hits += net_is_busy(ordeal->chaos->net, ordeal->node);
}

static int64_t draw_length(struct ordeal *ordeal, struct span limit)
{
    return 1 + draw_of_any_size(&ordeal->prng, limit);
}

/* ---- The end of a fault -------------------------------------------------------------- */

static void restart(struct ordeal *ordeal)
{
    node_restart(ordeal->node);
}

static void resume(struct ordeal *ordeal)
{
    node_resume(ordeal->node);
}

static void connect_again(struct ordeal *ordeal)
{
    net_cut(ordeal->chaos->net, ordeal->node, false);
}

static void end_ordeal(void *argument)
{
    struct ordeal *ordeal = argument;
    ordeal->active = false;
    ordeal->relieve(ordeal);
}

static void end_burst(void *argument)
{
    struct chaos *chaos = argument;
    net_throttle(chaos->net, false);
}

/* ---- The start of a fault ------------------------------------------------------------ */

/* Starts a fault. Call this before applying the fault, which may end the running task. */
static void begin_ordeal(struct ordeal *ordeal, enum fault fault, int64_t length_us,
                         void (*relieve)(struct ordeal *))
{
    struct chaos *chaos = ordeal->chaos;
    char text[SPAN_TEXT_MAX];
    count_hit(ordeal);
    CHAOS_TRACE(chaos, "chaos: node %u %s, for %s", node_number(ordeal->node),
                fault_story(fault), span_text(SPAN_US(length_us), text));
    ordeal->active = true;
    ordeal->relieve = relieve;
    world_set_timer(chaos->world, &ordeal->end, world_now_us(chaos->world) + length_us,
                    end_ordeal, ordeal);
}

static void crash(struct ordeal *ordeal, enum fault fault)
{
    begin_ordeal(ordeal, fault, draw_length(ordeal, ordeal->chaos->plan.down_max), restart);
    node_crash(ordeal->node);
}

static void reboot(struct ordeal *chosen, enum fault fault)
{
    struct chaos *chaos = chosen->chaos;
    for (size_t i = 0; i < chaos->count; i++) {
        struct ordeal *ordeal = &chaos->ordeals[i];
        if (!node_is_beside(ordeal->node, chosen->node) || !node_is_up(ordeal->node))
            continue;
        if (ordeal->active && ordeal->relieve == connect_again)
            connect_again(ordeal);
        begin_ordeal(ordeal, fault, draw_length(ordeal, chaos->plan.down_max), restart);
    }
    node_reboot_machine(chosen->node);
}

static void pause_node(struct ordeal *ordeal, enum fault fault)
{
    begin_ordeal(ordeal, fault, draw_length(ordeal, ordeal->chaos->plan.pause_max), resume);
    node_pause(ordeal->node);
}

static void suspend(struct ordeal *ordeal, enum fault fault)
{
    begin_ordeal(ordeal, fault, draw_length(ordeal, ordeal->chaos->plan.suspend_max), resume);
    node_suspend_machine(ordeal->node);
}

static void cut_for(struct ordeal *ordeal, enum fault fault, int64_t length_us)
{
    begin_ordeal(ordeal, fault, length_us, connect_again);
    net_cut(ordeal->chaos->net, ordeal->node, true);
}

static void cut(struct ordeal *ordeal, enum fault fault)
{
    cut_for(ordeal, fault, draw_length(ordeal, ordeal->chaos->plan.cut_max));
}

/* Partitions the chosen node, and possibly some of the others, for the same time. */
static void split(struct ordeal *chosen, enum fault fault)
{
    struct chaos *chaos = chosen->chaos;
    int64_t length_us = draw_length(chosen, chaos->plan.cut_max);
    for (size_t i = 0; i < chaos->count; i++) {
        struct ordeal *ordeal = &chaos->ordeals[i];
        bool is_in = ordeal == chosen || prng_below(&ordeal->prng, 2) == 0;
        if (is_in && may_strike(ordeal))
            cut_for(ordeal, fault, length_us);
    }
}

static void burst(struct ordeal *ordeal, enum fault fault)
{
    struct chaos *chaos = ordeal->chaos;
    int64_t length_us = draw_length(ordeal, chaos->plan.burst_max);
    (void)fault;
    net_throttle(chaos->net, true);
    world_set_timer(chaos->world, &chaos->burst_end, world_now_us(chaos->world) + length_us,
                    end_burst, chaos);
}

static void step_wall(struct ordeal *ordeal, enum fault fault)
{
    struct chaos *chaos = ordeal->chaos;
    (void)fault;
    node_step_wall(ordeal->node, draw_either_way(&ordeal->prng, chaos->plan.wall_step_max));
}

static void step_store(struct ordeal *ordeal, enum fault fault)
{
    struct chaos *chaos = ordeal->chaos;
    (void)fault;
    net_step_clock(chaos->net, draw_either_way(&ordeal->prng, chaos->plan.store_step_max));
}

/* The faults that may begin at any time, on the chosen node. */
static void (*const strikes[FAULT_COUNT])(struct ordeal *ordeal, enum fault fault) = {
    [CHAOS_CRASH] = crash,
    [CHAOS_REBOOT] = reboot,
    [CHAOS_PAUSE] = pause_node,
    [CHAOS_SUSPEND] = suspend,
    [CHAOS_CUT] = cut,
    [CHAOS_SPLIT] = split,
    [CHAOS_BURST] = burst,
    [CHAOS_WALL_STEP] = step_wall,
    [CHAOS_STORE_STEP] = step_store,
};

/* ---- At the stages of a call --------------------------------------------------------- */

static bool draw_at_call(struct ordeal *ordeal, uint32_t chance, enum fault fault)
{
    const struct chaos *chaos = ordeal->chaos;
    return chance > 0 && !chaos->calm && prng_chance(&ordeal->prng, chance) &&
           fault_happens(chaos->faults, fault);
}

static bool is_crash_due(struct ordeal *ordeal, bool answered, uint64_t number)
{
    struct chaos *chaos = ordeal->chaos;
    const struct crash_at *at = &chaos->plan.crash_at;
    enum fault fault = answered ? CHAOS_CRASH_ANSWERED : CHAOS_CRASH_LEFT;
    if (at->request > 0)
        return at->request == number && at->answered == answered && !chaos->calm &&
               fault_happens(chaos->faults, fault);
    return draw_at_call(ordeal, chaos->plan.crash_at_call_chance, fault);
}

static void ring_pause(void *argument)
{
    struct ordeal *ordeal = argument;
    if (may_strike(ordeal))
        pause_node(ordeal, CHAOS_PAUSE_LEAVING);
}

/* A task cannot pause its own node, so it waits for the world to do so. */
static void pause_before_leaving(struct ordeal *ordeal)
{
    struct world *world = ordeal->chaos->world;
    world_set_timer(world, &ordeal->begin, world_now_us(world), ring_pause, ordeal);
    env_sleep(node_env(ordeal->node), SPAN_US(1));
}

static bool strike_at_call(void *argument, struct node *node, enum call_moment moment,
                           uint64_t number)
{
    struct chaos *chaos = argument;
    struct ordeal *ordeal = ordeal_of(chaos, node);
    bool looks_on =
        chaos->plan.onlookers > 0 && node_number(ordeal->node) >= chaos->plan.onlookers;
    uint32_t pause_chance =
        looks_on ? chaos->plan.pause_onlooker_chance : chaos->plan.pause_at_call_chance;
    if (!may_strike(ordeal))
        return false;
    if (moment == CALL_DECIDED) {
        if (draw_at_call(ordeal, pause_chance, CHAOS_PAUSE_LEAVING))
            pause_before_leaving(ordeal);
        return false;
    }
    bool answered = moment == CALL_ANSWERED;
    if (is_crash_due(ordeal, answered, number)) {
        crash(ordeal, answered ? CHAOS_CRASH_ANSWERED : CHAOS_CRASH_LEFT);
        return true;
    }
    if (answered && draw_at_call(ordeal, pause_chance, CHAOS_PAUSE_ANSWERED))
        pause_node(ordeal, CHAOS_PAUSE_ANSWERED);
    return false;
}

/* ---- At any time --------------------------------------------------------------------- */

static enum fault draw_fault(struct chaos *chaos)
{
    uint64_t draw = prng_below(&chaos->prng, chaos->weights);
    unsigned fault = 0;
    while (draw >= chaos->plan.weight[fault])
        draw -= chaos->plan.weight[fault++];
    return (enum fault)fault;
}

static void ring_next(void *argument);

static void set_next(struct chaos *chaos)
{
    int64_t due =
        world_now_us(chaos->world) + 1 + draw_up_to(&chaos->prng, chaos->plan.gap_max);
    if (due > chaos->plan.until.us || chaos->weights == 0)
        due = chaos->plan.until.us;
    world_set_timer(chaos->world, &chaos->next, due, ring_next, chaos);
}

static void become_calm(struct chaos *chaos)
{
    CHAOS_TRACE(chaos, "chaos: is over, from here on it is calm");
    chaos->calm = true;
    chaos->requests = net_request_count(chaos->net);
    net_set_plan(chaos->net, &NET_PLAN_CALM);
    net_throttle(chaos->net, false);
    world_cancel_timer(chaos->world, &chaos->burst_end);
}

static void ring_next(void *argument)
{
    struct chaos *chaos = argument;
    if (world_now_us(chaos->world) >= chaos->plan.until.us) {
        become_calm(chaos);
        return;
    }
    enum fault fault = draw_fault(chaos);
    struct ordeal *ordeal = &chaos->ordeals[prng_below(&chaos->prng, chaos->count)];
    if (may_strike(ordeal) && fault_happens(chaos->faults, fault))
        strikes[fault](ordeal, fault);
    set_next(chaos);
}

/* ---- Creation and end ---------------------------------------------------------------- */

struct chaos *chaos_new(struct world *world, struct net *net, const struct chaos_plan *plan)
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    check(chaos);
    chaos->world = world;
    chaos->net = net;
    chaos->faults = net_faults(net);
    chaos->plan = *plan;
    chaos->prng = world_stream(world, STREAM_CHAOS);
    for (size_t i = 0; i < world_node_count(world); i++)
        chaos->ordeals[chaos->count++] =
            (struct ordeal){ .chaos = chaos,
                             .node = world_node(world, i),
                             .prng = prng_seeded(prng_next(&chaos->prng)) };
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        check(plan->weight[i] == 0 || strikes[i]);
        chaos->weights += plan->weight[i];
    }
    chaos->calm = plan->until.us == 0;
    if (!chaos->calm && chaos->count > 0)
        set_next(chaos);
    if (!chaos->calm)
        net_set_call_watch(net,
                           &(struct call_watch){ .at = strike_at_call, .argument = chaos });
    return chaos;
}

uint64_t chaos_request_count(const struct chaos *chaos)
{
    return chaos->requests;
}

void chaos_free(struct chaos *chaos)
{
    world_cancel_timer(chaos->world, &chaos->next);
    world_cancel_timer(chaos->world, &chaos->burst_end);
    for (size_t i = 0; i < chaos->count; i++) {
        world_cancel_timer(chaos->world, &chaos->ordeals[i].begin);
        world_cancel_timer(chaos->world, &chaos->ordeals[i].end);
    }
    free(chaos);
}
