/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.h: runs steps that do not depend on each other side by side, so that requests to a store
 * with latency, or the syncs of many files, take as long as the slowest of them. */
#ifndef ENV_PARALLEL_H
#define ENV_PARALLEL_H

#include "env/env.h"

/* The maximum number of steps that run at the same time. */
#define PARALLEL_MAX 16

/* Calls step(argument, i) once for each i below `count`, in the calling task and in up to
 * PARALLEL_MAX - 1 others, and returns when all calls have returned. If a task cannot be started,
 * fewer steps run at the same time. */
void parallel_run(struct env *env, size_t count, void (*step)(void *argument, size_t index),
                  void *argument);

#endif
