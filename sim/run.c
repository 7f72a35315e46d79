/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs one seed: draws its plans, builds the world, starts the workload, and asks the
 * workload's checker for the result. */
#include "sim/run.h"

#include "base/check.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>

const struct workload *const workloads[] = {
    &workload_counter,
    &workload_race,
    &workload_doc,
    &workload_locks,
    &workload_ranges,
    &workload_claims,
    &workload_pages,
    &workload_epochs,
    &workload_fenced,
    &workload_elect,
    &workload_compact,
    &workload_index,
    &workload_plain,
    &workload_drop,
    &workload_bank,
    &workload_sweep,
    &workload_steps,
    &workload_serve,
    &workload_crowd,
    &workload_handover,
    &workload_newcomers,
    &workload_outage,
    &workload_scale,
    &workload_upgrade,
    NULL,
};

const struct workload *workload_find(struct view name)
{
    for (size_t i = 0; workloads[i]; i++)
        if (view_equal(name, view_of(workloads[i]->name)))
            return workloads[i];
    return NULL;
}

static bool run_is_calm(const struct run_options *options)
{
    return options->calm || options->crash_at.request > 0;
}

/* Draws how often a call lets other tasks run first, as on idle or busy machines. */
static uint32_t draw_switch_chance(struct prng *prng)
{
    static const uint32_t chances[] = { 250000, 100000, 50000, 20000 };
    return chances[prng_below(prng, sizeof chances / sizeof *chances)];
}

/* Draws the kind of store. There is one draw per statement, because the order of draws matters. */
static struct net_options draw_net_options(const struct run_options *options, struct prng *prng)
{
    struct net_options net = NET_OPTIONS;
    net.bucket.etag_by_content = prng_below(prng, 2) == 0;
    net.bucket.delete_conditional = prng_below(prng, 2) == 0;
    net.bucket.clock = prng_below(prng, 5) == 0 ? STORE_CLOCK_BOOT : STORE_CLOCK_DATE;
    bool steps = prng_below(prng, 4) > 0;
    net.bucket.steps = steps && net.bucket.clock == STORE_CLOCK_BOOT;
    if (options->ignore_conditions) /* such a store has no atomic steps either */
        net.bucket.steps = false;
    net.bucket.missing_is_conflict = prng_below(prng, 2) == 0;
    net.bucket.ignore_conditions = options->ignore_conditions;
    net.front_ends = 1 + (unsigned)prng_below(prng, 4);
    net.skew_max = SPAN_MS(prng_below(prng, 1001));
    net.limits = options->limits;
    if (!run_is_calm(options))
        net.plan = NET_PLAN_ROUGH;
    return net;
}

static struct chaos_plan chaos_plan_of(const struct run_options *options)
{
    if (options->crash_at.request > 0)
        return CHAOS_PLAN_CRASH_AT(options->crash_at);
    return options->calm ? (struct chaos_plan){ 0 } : CHAOS_PLAN_ROUGH;
}

/* Removes all faults from the plans, including those that the workload's `tune` has set. */
static void keep_calm(struct plans *plans)
{
    plans->net.plan = NET_PLAN_CALM;
    plans->chaos = (struct chaos_plan){ .until = plans->chaos.until,
                                        .crash_at = plans->chaos.crash_at,
                                        .down_max = plans->chaos.down_max };
}

void run_count_operation(struct run *run)
{
    run->operations_started++;
}

/* A store with the boot-time clock is local, so all nodes are usually on its machine. */
static void add_nodes(struct run *run, const struct plans *plans)
{
    struct node_options options = plans->nodes;
    for (unsigned i = 0; i < run->options->nodes; i++) {
        struct node *node = node_new(run->world, &options);
        if (plans->net.bucket.clock == STORE_CLOCK_BOOT && !plans->apart)
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
        .requests_in_chaos = chaos_request_count(chaos),
        .time_us = world_now_us(run->world),
        .operations = run->operations_started,
        .faults = *net_faults(run->net),
    };
    if (failure)
        snprintf(result->failure, sizeof result->failure, "%s", failure);
}

/* Describes the world at the start of the trace. */
static void tell_world(const struct run *run, const struct plans *plans)
{
    const struct run_options *options = run->options;
    const struct bucket_options *bucket = &plans->net.bucket;
    struct trace *trace = world_trace(run->world);
    char skew[SPAN_TEXT_MAX], calm[SPAN_TEXT_MAX];
    if (trace->mode == TRACE_OFF)
        return;
    trace_line(trace, "world: seed %" PRIu64 " of %s, %u nodes, %u operations, %s%s",
               options->seed, options->workload->name, options->nodes, options->operations,
               plans->chaos.until.us > 0 ? "calm after " : "calm",
               plans->chaos.until.us > 0 ? span_text(plans->chaos.until, calm) : "");
    trace_line(trace, "store: an ETag is %s, deletes %s conditional, if-match of nothing is %s",
               bucket->etag_by_content ? "a hash of the content" : "new with each write",
               bucket->delete_conditional ? "may be" : "are never",
               hf_status_name(bucket->missing_is_conflict ? HF_CONFLICT : HF_NOT_FOUND));
    if (bucket->clock == STORE_CLOCK_BOOT)
        trace_line(trace, "store: %s",
                   plans->apart ? "is a file system that all machines share, and has no clock"
                                : "is on the one machine of all nodes, and has its clock");
    else
        trace_line(trace, "store: has %u front ends whose clocks are off by up to %s",
                   plans->net.front_ends, span_text(plans->net.skew_max, skew));
}

/* Three in four local stores can tell which sessions are alive. */
static bool draw_sessions(const struct run *run)
{
    struct prng prng = world_stream(run->world, STREAM_SESSIONS);
    return prng_below(&prng, 4) > 0;
}

void run_seed(const struct run_options *options, struct run_result *ret_result)
{
    check(options->nodes >= 1 && options->nodes <= NODES_MAX);
    check(options->operations >= 1 && options->operations <= OPERATIONS_MAX);
    struct world_options world_options = WORLD_OPTIONS;
    world_options.seed = options->seed;
    if (options->workload->steps_max > 0)
        world_options.steps_max = options->workload->steps_max;
    world_options.trace = options->trace;
    world_options.trace_out = options->trace_out;
    struct run run = { .options = options, .world = world_new(&world_options) };
    struct prng prng = world_stream(run.world, STREAM_PLAN);
    struct plans plans = { .net = draw_net_options(options, &prng), .nodes = NODE_OPTIONS };
    plans.chaos = chaos_plan_of(options);
    world_set_switch_chance(run.world, draw_switch_chance(&prng));
    if (options->workload->tune)
        options->workload->tune(&run, &plans);
    if (plans.apart) /* the store's lock works on one machine only */
        plans.net.bucket.steps = false;
    plans.net.bucket.sessions =
        plans.net.bucket.clock == STORE_CLOCK_BOOT && !plans.apart && draw_sessions(&run);
    if (run_is_calm(options))
        keep_calm(&plans);
    tell_world(&run, &plans);
    run.net = net_new(run.world, &plans.net);
    add_nodes(&run, &plans);
    if (plans.chaos.until.us > 0) /* a task that wakes at calm_us must see no faults */
        run.calm_us = plans.chaos.until.us + 1;
    struct chaos *chaos = chaos_new(run.world, run.net, &plans.chaos);
    void *state = options->workload->start(&run);
    if (world_run(run.world))
        options->workload->check_at_end(&run, state);
    if (!world_failure(run.world))
        trace_line(world_trace(run.world), "world: nothing is left to happen, and all is well");
    collect(&run, chaos, ret_result);
    world_stop(run.world);
    options->workload->free(state);
    chaos_free(chaos);
    net_free(run.net);
    world_free(run.world);
}
