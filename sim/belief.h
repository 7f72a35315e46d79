/* belief.h: what a holder would be told if it asked at this moment. */
#ifndef SIM_BELIEF_H
#define SIM_BELIEF_H

#include "base/view.h"
#include "holdfast.h"
#include "sim/world.h"

/* What hf_lock_check would say on its node now, also when the node stands still; leaves no
 * trace. */
enum hf_status belief_of(struct world *world, struct hf_lock *lock);

/* The same for hf_lock_remaining_ms. */
int64_t belief_left_ms(struct world *world, struct hf_lock *lock);

/* Tells of each lock that a client believes to hold: the key of its table, and its token. */
void belief_each(struct world *world, struct hf_client *client,
                 void (*tell)(void *argument, struct view table, uint64_t token),
                 void *argument);

#endif
