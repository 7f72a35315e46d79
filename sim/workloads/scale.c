/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: a fleet of up to 10,000 workers on a store with the latencies and limits of S3, and
 * machines that crash. scale.h says what the workers do; the figures are printed by `holdfast-sim
 * scale` (scale_report.c). */
#include "sim/workloads/scale.h"

#include "base/check.h"
#include "base/layout.h"
#include "sim/world/profile.h"

#include <stdlib.h>

#define CRASH_EVERY SPAN_S(600)
#define DOWN        SPAN_S(30)

static const struct scale_options *given;
static struct scale_figures last;

void scale_set_options(const struct scale_options *options)
{
    given = options;
}

const struct scale_figures *scale_figures(void)
{
    return &last;
}

/* ---- Figures ------------------------------------------------------------------------- */

void scale_times_add(struct scale_times *times, int64_t us)
{
    int64_t step = us / 10000;
    times->of[step < 0 ? 0 : step > SCALE_TIMES_MAX ? SCALE_TIMES_MAX : step]++;
    times->count++;
}

double scale_times_at(const struct scale_times *times, double part)
{
    uint64_t before = 0, rank = (uint64_t)(part * (double)times->count);
    size_t i = 0;
    if (times->count == 0)
        return 0;
    while (i < SCALE_TIMES_MAX && (before += times->of[i]) <= rank && before < times->count)
        i++;
    return (double)(i + 1) / 100;
}

struct scale_requests scale_total(const struct scale_figures *figures)
{
    struct scale_requests total = { 0 };
    for (size_t i = 0; i < PURPOSES; i++) {
        const struct scale_requests *some = &figures->requests[i];
        total.puts += some->puts;
        total.gets += some->gets;
        total.lists += some->lists;
        total.deletes += some->deletes;
        total.conflicts += some->conflicts;
        total.throttled += some->throttled;
    }
    return total;
}

static enum scale_purpose purpose_of(struct view key)
{
    const struct view leases = VIEW("/" LAYOUT_LEASES);
    if (view_starts_with(key, VIEW("metadata/")))
        return key.size > leases.size &&
                       view_equal(view_from(key, key.size - leases.size), leases)
                   ? FOR_LEASES
                   : FOR_CATALOG;
    if (view_starts_with(key, VIEW("data/")))
        return FOR_DATA;
    if (view_starts_with(key, VIEW("default/meta/")))
        return FOR_LOCKS;
    return view_starts_with(key, VIEW(LAYOUT_ROSTER_FOLDER)) ? FOR_ROSTER : FOR_OTHER;
}

void scale_observe(void *argument, const struct observation *seen)
{
    struct scale *scale = argument;
    if (!scale_counts(scale))
        return;
    struct scale_requests *requests = &scale->figures.requests[purpose_of(seen->key)];
    requests->puts += seen->kind == CALL_PUT;
    requests->gets += seen->kind == CALL_GET;
    requests->lists += seen->kind == CALL_LIST;
    requests->deletes += seen->kind == CALL_DELETE;
    requests->conflicts += seen->kind == CALL_PUT && seen->error->status == HF_CONFLICT;
    requests->throttled += seen->error->status == HF_UNAVAILABLE;
}

/* ---- Machines that crash ------------------------------------------------------------- */

static void note_death(struct scale_held *held, const struct node *node, int64_t now_us)
{
    if (!held->lock || held->node != node)
        return;
    held->lock = NULL;
    held->died_us = now_us;
}

static void restart(void *argument)
{
    struct scale *scale = argument;
    if (world_now_us(scale->run->world) < scale->ends_us)
        node_restart(scale->crashed);
}

/* All workers of a machine die at once. What they hold stays leased until it expires. */
static void crash(void *argument)
{
    struct scale *scale = argument;
    struct world *world = scale->run->world;
    int64_t now_us = world_now_us(world);
    size_t pick = 1 + (size_t)prng_below(&scale->prng, world_node_count(world) - 1);
    struct node *node = world_node(world, pick);
    for (size_t i = 0; i < scale->options.partitions; i++)
        for (struct scale_group *group = scale->partitions[i].first; group; group = group->next)
            note_death(&group->held, node, now_us);
    for (size_t i = 0; i < scale->lock_count; i++)
        note_death(&scale->locks[i], node, now_us);
    for (size_t i = 0; i < scale->leader_count; i++)
        note_death(&scale->leaders[i], node, now_us);
    scale->figures.crashes++;
    scale->crashed = node;
    node_crash(node);
    world_set_timer(world, &scale->restart, now_us + DOWN.us, restart, scale);
    if (now_us + CRASH_EVERY.us < scale->ends_us)
        world_set_timer(world, &scale->crash, now_us + CRASH_EVERY.us, crash, scale);
}

/* ---- The workload -------------------------------------------------------------------- */

static struct scale_options options_of(struct run *run)
{
    static const unsigned workers[] = { 8, 16, 32 };
    struct prng prng = world_stream(run->world, STREAM_WORKLOAD);
    struct scale_options options = SCALE_OPTIONS;
    if (given)
        return *given;
    options.workers = workers[prng_below(&prng, 3)];
    options.partitions = 1 + (unsigned)prng_below(&prng, 3);
    options.minutes = 12;
    options.chunk_ttl_s = 30;
    options.lock_ttl_s = 10;
    return options;
}

static void tune_scale(struct run *run, struct plans *plans)
{
    (void)run;
    plans->net.plan = NET_PLAN_CALM;
    plans->net.plan.profile = &profile_s3;
    plans->net.bucket.clock = STORE_CLOCK_DATE;
    plans->net.bucket.steps = false;
    plans->net.bucket.delete_conditional = true;
    plans->net.front_ends = 4;
    plans->net.skew_max = SPAN_MS(500);
    plans->chaos = (struct chaos_plan){ 0 };
}

static void *start_scale(struct run *run)
{
    struct scale *scale = calloc(1, sizeof *scale);
    check(scale);
    scale->run = run;
    scale->options = options_of(run);
    scale->prng = world_stream(run->world, STREAM_WORKLOAD + 1);
    scale->ends_us = (int64_t)scale->options.minutes * 60 * 1000000;
    scale->partitions = calloc(scale->options.partitions, sizeof *scale->partitions);
    scale->lock_count = scale->options.workers / 80 + 1;
    scale->leader_count = scale->options.workers / 100 + 1;
    scale->locks = calloc(scale->lock_count, sizeof *scale->locks);
    scale->leaders = calloc(scale->leader_count, sizeof *scale->leaders);
    check(scale->partitions && scale->locks && scale->leaders);
    for (size_t i = 0; i < scale->options.workers; i++)
        if (scale_role_of(&scale->options, i) == SCALE_MERGES)
            scale->partitions[i % scale->options.partitions].workers++;
    scale->checker = scale_checker_new(scale);
    if (world_node_count(run->world) > 1)
        world_set_timer(run->world, &scale->crash, CRASH_EVERY.us / 2, crash, scale);
    scale->all = (struct clients){ run, scale->options.workers, scale_work, scale };
    clients_boot(&scale->all);
    return scale;
}

static void check_scale(struct run *run, void *state)
{
    struct scale *scale = state;
    const struct scale_figures *figures = &scale->figures;
    scale_checker_end(scale);
    if (figures->claims == 0 || figures->commits == 0)
        world_fail(run->world, "no worker has merged anything");
    last = *figures;
}

static void free_scale(void *state)
{
    struct scale *scale = state;
    for (size_t i = 0; i < scale->options.partitions; i++)
        while (scale->partitions[i].first) {
            struct scale_group *group = scale->partitions[i].first;
            scale->partitions[i].first = group->next;
            free(group);
        }
    world_cancel_timer(scale->run->world, &scale->crash);
    world_cancel_timer(scale->run->world, &scale->restart);
    scale_checker_free(scale->checker);
    free(scale->partitions);
    free(scale->locks);
    free(scale->leaders);
    free(scale);
}

const struct workload workload_scale = {
    .name = "scale",
    .about = "a fleet merges, locks and elects leaders on a store like S3; machines crash",
    .tune = tune_scale,
    .start = start_scale,
    .check_at_end = check_scale,
    .free = free_scale,
    .counts_requests = true,
    .steps_max = UINT64_MAX,
};
