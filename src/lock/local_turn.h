/* SPDX-License-Identifier: Apache-2.0 */
/* local_turn.h: tasks of one client that are about to ask for the same table take turns in memory.
 *
 * A request for a lock that another task of the same process holds would be refused, and its queue
 * entry, its turn and its claim are writes. If the holder is brief, waiting in memory costs none. A
 * turn is only advice: it gives no right to the lock, which the store alone grants, and a task that
 * does not get its turn in time asks the store all the same. So a turn that is kept too long delays
 * others by the time they are willing to wait, and nothing else.
 *
 * 1. Turns are taken in the order in which they were asked for.
 * 2. A task that waits for a turn has no turn for a table with a later name, and no lease there, so
 *    no two tasks wait for each other. (The caller sees to that.) */
#ifndef LOCK_LOCAL_TURN_H
#define LOCK_LOCAL_TURN_H

#include "env/env.h"

struct table_ref;
struct local_waiter;

struct local_turn { /* guarded by client->shared.mutex */
    bool taken;
    struct local_waiter *first, *last;
};

/* Waits for the turn until then; a time that has passed means no wait. False: it is not ours. */
bool local_turn_take(struct table_ref *ref, struct mono_time until);

/* Gives the turn to the task that has waited longest. */
void local_turn_leave(struct table_ref *ref);

#endif
