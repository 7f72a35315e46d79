/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c: removes nodes, operations and faults from a failing run while it still fails.
 *
 * Halving a number can skip a smaller run that would also fail, so the result is not necessarily
 * the smallest. Every run that is kept has failed. */
#include "sim/shrink.h"

#include "base/check.h"

struct shrinker {
    struct shrunk best;
    shrink_try *try_run;
    void *argument;
};

/* Keeps the candidate if it also fails, with its seed or one of the next few. */
static bool try_with(struct shrinker *shrinker, const struct run_options *candidate)
{
    struct run_options options = *candidate;
    struct run_result result;
    for (unsigned i = 0; i < SHRINK_SEEDS; i++, options.seed++) {
        if (shrinker->best.runs == SHRINK_RUNS_MAX)
            return false;
        shrinker->best.runs++;
        if (!shrinker->try_run(shrinker->argument, &options, &result))
            continue;
        check(!result.ok);
        shrinker->best.options = options;
        shrinker->best.result = result;
        return true;
    }
    return false;
}

static unsigned *nodes_of(struct run_options *options)
{
    return &options->nodes;
}

static unsigned *operations_of(struct run_options *options)
{
    return &options->operations;
}

/* Halves the number repeatedly, down to one. */
static void try_fewer(struct shrinker *shrinker, unsigned *(*number_of)(struct run_options *))
{
    const unsigned *best = number_of(&shrinker->best.options);
    for (unsigned low = 1; low < *best;) {
        struct run_options candidate = shrinker->best.options;
        unsigned number = low + (*best - low) / 2;
        *number_of(&candidate) = number;
        if (!try_with(shrinker, &candidate))
            low = number + 1;
    }
}

/* A bit for each kind of fault that happened and can be omitted. */
static uint64_t kinds_of(const struct run_result *result)
{
    uint64_t kinds = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (result->faults.counts[i] > 0 && *fault_name((enum fault)i))
            kinds |= UINT64_C(1) << i;
    return kinds;
}

/* First tries to keep a single kind of fault. If no such run fails, removes the kinds one by
 * one. */
static void try_fewer_kinds(struct shrinker *shrinker)
{
    uint64_t kinds = kinds_of(&shrinker->best.result);
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        struct run_options candidate = shrinker->best.options;
        candidate.limits.without |= kinds & ~(UINT64_C(1) << i);
        if (kinds >> i & 1 &&
            candidate.limits.without != shrinker->best.options.limits.without &&
            try_with(shrinker, &candidate))
            return;
    }
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        struct run_options candidate = shrinker->best.options;
        candidate.limits.without |= UINT64_C(1) << i;
        if (kinds_of(&shrinker->best.result) >> i & 1)
            try_with(shrinker, &candidate);
    }
}

static void try_fewer_faults(struct shrinker *shrinker)
{
    const struct shrunk *best = &shrinker->best;
    for (uint64_t low = 0; low < best->result.faults.happened;) {
        struct run_options candidate = best->options;
        candidate.limits.max = low + (best->result.faults.happened - low) / 2;
        if (!try_with(shrinker, &candidate))
            low = candidate.limits.max + 1;
    }
}

static bool is_same(const struct run_options *a, const struct run_options *b)
{
    return a->seed == b->seed && a->nodes == b->nodes && a->operations == b->operations &&
           a->limits.without == b->limits.without && a->limits.max == b->limits.max;
}

struct shrunk shrink(const struct run_options *options, const struct run_result *result,
                     shrink_try *try_run, void *argument)
{
    struct shrinker shrinker = { .best = { .options = *options, .result = *result },
                                 .try_run = try_run,
                                 .argument = argument };
    struct run_options before;
    check(!result->ok);
    do {
        before = shrinker.best.options;
        try_fewer(&shrinker, nodes_of);
        try_fewer(&shrinker, operations_of);
        try_fewer_kinds(&shrinker);
        try_fewer_faults(&shrinker);
    } while (!is_same(&before, &shrinker.best.options));
    return shrinker.best;
}
