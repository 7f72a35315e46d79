/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h: finds a smaller run that also fails: with fewer nodes, operations, kinds of
 * faults or faults, and with the same seed or one of the next few. Any failure counts, not
 * only the first one. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim/run.h"

#define SHRINK_RUNS_MAX 5000

/* With fewer nodes or operations, the rest of the history changes. A sufficiently frequent failure
 * then still occurs with another seed. */
#define SHRINK_SEEDS 30

/* Performs another run. Returns true if the run also fails; *ret_result contains the failure.
 * Returns false if the run passes, or if no time is left. */
typedef bool shrink_try(void *argument, const struct run_options *options,
                        struct run_result *ret_result);

struct shrunk {
    struct run_options options;
    struct run_result result;
    unsigned runs; /* how many runs it took */
};

/* `result` is the result of the failed run with `options`. */
struct shrunk shrink(const struct run_options *options, const struct run_result *result,
                     shrink_try *try_run, void *argument);

#endif
