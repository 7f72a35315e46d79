/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h: stacks that take turns within one thread.
 *
 * A fiber runs when the main stack resumes it, until it yields or ends. Fibers never resume
 * each other. The scheduler is always on the main stack, and can free any fiber exactly
 * where it is. Each stack ends in a guard page, so an overflow kills the process instead of
 * corrupting another stack. Stacks return to a pool, because mapping one costs more than the
 * rest of a simulated run. */
#ifndef SIM_WORLD_FIBER_H
#define SIM_WORLD_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* The stack size of a thread in env/real.c, so code that fits here also fits there. */
#define FIBER_STACK_BYTES ((size_t)512 * 1024)

struct fiber;

/* NULL if no stack can be mapped. */
struct fiber *fiber_new(void (*run)(void *), void *argument);

/* Ends the fiber where it is; none of its code runs again. Must not be called on the running
 * fiber. */
void fiber_free(struct fiber *fiber);

/* Called from the main stack: runs the fiber until it yields (true) or its function has
 * returned (false; the fiber may then only be freed). */
bool fiber_resume(struct fiber *fiber);

/* Called from within a fiber: switches back to where it was resumed. Returns when it is
 * resumed again. */
void fiber_give_way(void);

/* Whether a fiber is running, and not the main stack. */
bool fiber_inside(void);

/* Stacks that were ever mapped and not unmapped since, in use or not. */
size_t fiber_stack_count(void);

/* Unmaps the unused stacks. */
void fiber_pool_release(void);

#endif
