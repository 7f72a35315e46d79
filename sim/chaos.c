#include "sim/chaos.h"

#include "base/check.h"

#include <stdlib.h>

/* What a node suffers, and when that ends. */
struct ordeal {
    struct chaos *chaos;
    struct node *node;
    bool active;
    enum chaos_fault fault;
    struct timer end;
};

struct chaos {
    struct world *world;
    struct net *net;
    struct chaos_plan plan;
    struct prng prng;
    struct timer next;
    struct ordeal ordeals[NODES_MAX];
    size_t count;
    uint64_t weights;
    uint64_t faults[CHAOS_FAULT_COUNT];
};

const char *chaos_fault_text(enum chaos_fault fault)
{
#define CHAOS_TEXT_(name, text) text,
    static const char *const texts[] = { CHAOS_TABLE(CHAOS_TEXT_) };
#undef CHAOS_TEXT_
    check(fault < CHAOS_FAULT_COUNT);
    return texts[fault];
}

uint64_t chaos_fault_count(const struct chaos *chaos, enum chaos_fault fault)
{
    check(fault < CHAOS_FAULT_COUNT);
    return chaos->faults[fault];
}

static int64_t draw_up_to(struct chaos *chaos, struct span limit)
{
    return (int64_t)prng_below(&chaos->prng, (uint64_t)limit.us + 1);
}

static struct span draw_either_way(struct chaos *chaos, struct span limit)
{
    return SPAN_US(draw_up_to(chaos, SPAN_US(2 * limit.us)) - limit.us);
}

/* ---- The end of an ordeal ------------------------------------------------------------ */

static void end_ordeal(void *argument)
{
    struct ordeal *ordeal = argument;
    ordeal->active = false;
    switch (ordeal->fault) {
    case CHAOS_CRASH:
    case CHAOS_REBOOT: node_restart(ordeal->node); return;
    case CHAOS_PAUSE:
    case CHAOS_SUSPEND: node_resume(ordeal->node); return;
    case CHAOS_CUT: net_cut(ordeal->chaos->net, ordeal->node, false); return;
    case CHAOS_WALL_STEP:
    case CHAOS_STORE_STEP:
    case CHAOS_FAULT_COUNT: break;
    }
    check_unreachable();
}

static void begin_ordeal(struct ordeal *ordeal, enum chaos_fault fault, struct span limit)
{
    struct chaos *chaos = ordeal->chaos;
    ordeal->active = true;
    ordeal->fault = fault;
    world_set_timer(chaos->world, &ordeal->end,
                    world_now_us(chaos->world) + 1 + draw_up_to(chaos, limit), end_ordeal,
                    ordeal);
}

/* ---- Its beginning ------------------------------------------------------------------- */

static void reboot(struct chaos *chaos, struct ordeal *chosen)
{
    for (size_t i = 0; i < chaos->count; i++) {
        struct ordeal *ordeal = &chaos->ordeals[i];
        if (!node_is_beside(ordeal->node, chosen->node) || !node_is_up(ordeal->node))
            continue;
        if (ordeal->active && ordeal->fault == CHAOS_CUT)
            net_cut(chaos->net, ordeal->node, false);
        begin_ordeal(ordeal, CHAOS_REBOOT, chaos->plan.down_max);
    }
    node_reboot_machine(chosen->node);
}

static void strike(struct chaos *chaos, struct ordeal *ordeal, enum chaos_fault fault)
{
    const struct chaos_plan *plan = &chaos->plan;
    chaos->faults[fault]++;
    switch (fault) {
    case CHAOS_CRASH:
        node_crash(ordeal->node);
        begin_ordeal(ordeal, fault, plan->down_max);
        return;
    case CHAOS_REBOOT: reboot(chaos, ordeal); return;
    case CHAOS_PAUSE:
        node_pause(ordeal->node);
        begin_ordeal(ordeal, fault, plan->pause_max);
        return;
    case CHAOS_SUSPEND:
        node_suspend_machine(ordeal->node);
        begin_ordeal(ordeal, fault, plan->suspend_max);
        return;
    case CHAOS_CUT:
        net_cut(chaos->net, ordeal->node, true);
        begin_ordeal(ordeal, fault, plan->cut_max);
        return;
    case CHAOS_WALL_STEP:
        node_step_wall(ordeal->node, draw_either_way(chaos, plan->wall_step_max));
        return;
    case CHAOS_STORE_STEP:
        net_step_clock(chaos->net, draw_either_way(chaos, plan->store_step_max));
        return;
    case CHAOS_FAULT_COUNT: break;
    }
    check_unreachable();
}

static enum chaos_fault draw_fault(struct chaos *chaos)
{
    uint64_t draw = prng_below(&chaos->prng, chaos->weights);
    unsigned fault = 0;
    while (draw >= chaos->plan.weight[fault])
        draw -= chaos->plan.weight[fault++];
    return (enum chaos_fault)fault;
}

static void ring_next(void *argument);

static void set_next(struct chaos *chaos)
{
    int64_t due = world_now_us(chaos->world) + 1 + draw_up_to(chaos, chaos->plan.gap_max);
    if (due > chaos->plan.until.us)
        due = chaos->plan.until.us;
    world_set_timer(chaos->world, &chaos->next, due, ring_next, chaos);
}

static void ring_next(void *argument)
{
    struct chaos *chaos = argument;
    if (world_now_us(chaos->world) >= chaos->plan.until.us) {
        trace_line(world_trace(chaos->world), world_now_us(chaos->world),
                   "chaos: from here on it is calm");
        net_set_plan(chaos->net, &NET_PLAN_CALM);
        return;
    }
    enum chaos_fault fault = draw_fault(chaos);
    struct ordeal *ordeal = &chaos->ordeals[prng_below(&chaos->prng, chaos->count)];
    if (!ordeal->active && node_is_up(ordeal->node))
        strike(chaos, ordeal, fault);
    set_next(chaos);
}

struct chaos *chaos_new(struct world *world, struct net *net, const struct chaos_plan *plan)
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    check(chaos);
    chaos->world = world;
    chaos->net = net;
    chaos->plan = *plan;
    chaos->prng = world_stream(world, STREAM_CHAOS);
    for (size_t i = 0; i < world_node_count(world); i++)
        chaos->ordeals[chaos->count++] =
            (struct ordeal){ .chaos = chaos, .node = world_node(world, i) };
    for (size_t i = 0; i < CHAOS_FAULT_COUNT; i++)
        chaos->weights += plan->weight[i];
    if (chaos->weights > 0 && chaos->count > 0)
        set_next(chaos);
    return chaos;
}

void chaos_free(struct chaos *chaos)
{
    world_cancel_timer(chaos->world, &chaos->next);
    for (size_t i = 0; i < chaos->count; i++)
        world_cancel_timer(chaos->world, &chaos->ordeals[i].end);
    free(chaos);
}
