/* shrink.h: of a run that fails, a smaller one that fails too: with fewer nodes, fewer operations,
 * fewer kinds of faults, fewer faults; of the same seed, or of one of the next few. Any violation
 * counts, not only the one that was seen first. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim/run.h"

#define SHRINK_RUNS_MAX 5000

/* With something less, the rest of a history goes another way; what fails often enough is then
 * found under another seed. */
#define SHRINK_SEEDS 30

/* One more run. True: it fails too, and *ret_result says how. False also when there is no time left
 * to try. */
typedef bool shrink_try(void *argument, const struct run_options *options,
                        struct run_result *ret_result);

struct shrunk {
    struct run_options options;
    struct run_result result;
    unsigned runs; /* how many it took */
};

/* `result` is that of a run of `options` which failed. */
struct shrunk shrink(const struct run_options *options, const struct run_result *result,
                     shrink_try *try_run, void *argument);

#endif
