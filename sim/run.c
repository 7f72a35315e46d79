#include "sim/run.h"

#include "base/check.h"

#include <stdlib.h>

const struct workload *const workloads[] = {
    &workload_counter, &workload_race,   &workload_doc,    &workload_locks,
    &workload_ranges,  &workload_epochs, &workload_fenced, NULL,
};

const struct workload *workload_find(struct view name)
{
    for (size_t i = 0; workloads[i]; i++)
        if (view_equal(name, view_of(workloads[i]->name)))
            return workloads[i];
    return NULL;
}

/* What kind of store it is differs from seed to seed. One draw a line: the order counts. */
static struct net_options draw_net_options(const struct run_options *options, struct prng *prng)
{
    struct net_options net = NET_OPTIONS;
    net.bucket.etag_by_content = prng_below(prng, 2) == 0;
    net.bucket.delete_conditional = prng_below(prng, 2) == 0;
    net.bucket.clock = prng_below(prng, 8) == 0 ? STORE_CLOCK_BOOT : STORE_CLOCK_DATE;
    net.bucket.ignore_conditions = options->ignore_conditions;
    net.front_ends = 1 + (unsigned)prng_below(prng, 4);
    net.skew_max = SPAN_MS(prng_below(prng, 1001));
    if (!options->calm)
        net.plan = NET_PLAN_ROUGH;
    return net;
}

/* A store with the boot-time clock is a local one: all nodes are on its machine. */
static void add_nodes(struct run *run, enum store_clock clock)
{
    struct node_options options = NODE_OPTIONS;
    for (unsigned i = 0; i < run->options->nodes; i++) {
        struct node *node = node_new(run->world, &options);
        if (clock == STORE_CLOCK_BOOT)
            options.beside = node;
    }
}

static void collect(const struct run *run, const struct chaos *chaos, struct run_result *result)
{
    const struct trace *trace = world_trace(run->world);
    const char *failure = world_failure(run->world);
    *result = (struct run_result){
        .ok = !failure,
        .hash = trace->hash,
        .lines = trace->lines,
        .steps = world_steps(run->world),
        .requests = net_request_count(run->net),
        .time_us = world_now_us(run->world),
    };
    if (failure)
        snprintf(result->failure, sizeof result->failure, "%s", failure);
    for (unsigned i = 0; i < NET_FAULT_COUNT; i++)
        result->net_faults[i] = net_fault_count(run->net, (enum net_fault)i);
    for (unsigned i = 0; i < CHAOS_FAULT_COUNT; i++)
        result->chaos_faults[i] = chaos_fault_count(chaos, (enum chaos_fault)i);
}

void run_seed(const struct run_options *options, struct run_result *ret_result)
{
    check(options->nodes >= 1 && options->nodes <= NODES_MAX);
    check(options->operations >= 1 && options->operations <= OPERATIONS_MAX);
    struct world_options world_options = WORLD_OPTIONS;
    world_options.seed = options->seed;
    world_options.trace = options->trace;
    world_options.trace_out = options->trace_out;
    struct run run = { .options = options, .world = world_new(&world_options) };
    struct prng prng = world_stream(run.world, STREAM_PLAN);
    struct net_options net_options = draw_net_options(options, &prng);
    struct chaos_plan plan = options->calm ? (struct chaos_plan){ 0 } : CHAOS_PLAN_ROUGH;
    if (options->workload->tune)
        options->workload->tune(&run, &net_options, &plan);
    run.net = net_new(run.world, &net_options);
    add_nodes(&run, net_options.bucket.clock);
    run.calm_us = plan.until.us;
    struct chaos *chaos = chaos_new(run.world, run.net, &plan);
    void *state = options->workload->start(&run);
    if (world_run(run.world))
        options->workload->judge(&run, state);
    collect(&run, chaos, ret_result);
    world_stop(run.world);
    options->workload->free(state);
    chaos_free(chaos);
    net_free(run.net);
    world_free(run.world);
}
