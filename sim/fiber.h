/* fiber.h: stacks that take turns within one thread.
 *
 * A fiber runs when the main stack resumes it, until it gives way or ends; fibers never resume
 * each other, so whoever schedules stands on the main stack and can free any fiber exactly
 * where it is. Each stack ends in a guard page: running over it kills the process instead of a
 * neighbour. Stacks go back into a pool, since mapping one costs more than a whole simulated
 * run needs otherwise. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* As much as a thread of env/real.c has, so that what fits here fits there. */
#define FIBER_STACK_BYTES ((size_t)512 * 1024)

struct fiber;

/* NULL when no stack can be mapped. */
struct fiber *fiber_new(void (*run)(void *), void *argument);

/* Ends it where it stands: nothing of it runs again. Not for the fiber that is running. */
void fiber_free(struct fiber *fiber);

/* From the main stack: runs the fiber until it gives way (true) or its function has returned
 * (false; then it is only to be freed). */
bool fiber_resume(struct fiber *fiber);

/* From within a fiber: back to where it was resumed. Returns when it is resumed again. */
void fiber_give_way(void);

/* Whether a fiber is running, and not the main stack. */
bool fiber_inside(void);

/* Stacks that were ever mapped and not unmapped since, in use or not. */
size_t fiber_stack_count(void);

/* Unmaps the stacks that nobody uses. */
void fiber_pool_release(void);

#endif
