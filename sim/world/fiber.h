/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h: fibers: stacks that take turns within one thread.
 *
 * A fiber runs from when the main stack resumes it until it yields or ends. Fibers never resume
 * each other. The scheduler always runs on the main stack, and can free any fiber at the point
 * where it yielded. Each stack ends in a guard page, so an overflow kills the process instead of
 * corrupting another stack. Stacks are returned to a pool, because mapping one takes longer than
 * the rest of a simulated run. */
#ifndef SIM_WORLD_FIBER_H
#define SIM_WORLD_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* The stack size of a thread in env/real.c, so code that fits here also fits there. */
#define FIBER_STACK_BYTES ((size_t)512 * 1024)

struct fiber;

/* Returns NULL if no stack can be mapped. */
struct fiber *fiber_new(void (*run)(void *), void *argument);

/* Ends the fiber at its current point; none of its code runs again. Must not be called on the
 * running fiber. */
void fiber_free(struct fiber *fiber);

/* Called from the main stack: runs the fiber until it yields (true) or its function returns
 * (false). After false, the fiber may only be freed. */
bool fiber_resume(struct fiber *fiber);

/* Called from within a fiber: switches back to the main stack. Returns when the fiber is resumed
 * again. */
void fiber_give_way(void);

/* Whether a fiber is running, rather than the main stack. */
bool fiber_inside(void);

/* The number of mapped stacks, in use or not. */
size_t fiber_stack_count(void);

/* Unmaps the unused stacks. */
void fiber_pool_release(void);

#endif
