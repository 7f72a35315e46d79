/* SPDX-License-Identifier: Apache-2.0 */
/* holder_view.h: finds out what the library would report to a holder about its lease now. */
#ifndef SIM_CHECKERS_HOLDER_VIEW_H
#define SIM_CHECKERS_HOLDER_VIEW_H

#include "base/view.h"
#include "holdfast.h"
#include "sim/world/world.h"

/* Returns what hf_lock_check would return now on the lock's node, even if the node is paused.
 * Changes nothing. */
enum hf_status holder_view_of(struct world *world, struct hf_lock *lock);

/* Returns what hf_lock_remaining_ms would return. */
int64_t holder_view_left_ms(struct world *world, struct hf_lock *lock);

/* Calls `tell` for each lock that a client believes it holds, with the key of its table and
 * its token. */
void holder_view_each(struct world *world, struct hf_client *client,
                      void (*tell)(void *argument, struct view table, uint64_t token),
                      void *argument);

#endif
