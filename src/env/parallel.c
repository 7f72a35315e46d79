/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c: runs independent steps side by side. Each task takes the next step that no other has
 * taken, so the number of tasks is bounded and a slow step delays no other. */
#include "env/parallel.h"

#include <stdatomic.h>

struct steps {
    void (*step)(void *argument, size_t index);
    void *argument;
    size_t count;
    atomic_size_t next;
};

static void take_steps(void *argument)
{
    struct steps *steps = argument;
    size_t index;
    while ((index = atomic_fetch_add(&steps->next, 1)) < steps->count)
        steps->step(steps->argument, index);
}

void parallel_run(struct env *env, size_t count, void (*step)(void *argument, size_t index),
                  void *argument)
{
    struct steps steps = { .step = step, .argument = argument, .count = count };
    struct env_task *tasks[PARALLEL_MAX - 1];
    struct hf_error error;
    size_t started = 0;
    while (started < PARALLEL_MAX - 1 && started + 1 < count &&
           env_task_start(env, take_steps, &steps, &tasks[started], &error) == HF_OK)
        started++;
    take_steps(&steps);
    for (size_t i = 0; i < started; i++)
        env_task_join(env, tasks[i]);
}
