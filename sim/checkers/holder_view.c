/* SPDX-License-Identifier: Apache-2.0 */
/* holder_view.c: finds out what hf_lock_check would return now for a lock handle. The call may
 * change the handle, so the handle's bytes are saved and restored. No other checker file knows the
 * size of a handle. */
#include "sim/checkers/holder_view.h"

#include "lock/client_inside.h"
#include "lock/handle.h"

enum hf_status holder_view_of(struct world *world, struct hf_lock *lock)
{
    struct hf_lock before = *lock;
    world_begin_look(world);
    enum hf_status status = hf_lock_check(lock, NULL);
    world_end_look(world);
    *lock = before;
    return status;
}

int64_t holder_view_left_ms(struct world *world, struct hf_lock *lock)
{
    struct hf_lock before = *lock;
    world_begin_look(world);
    int64_t left_ms = hf_lock_remaining_ms(lock);
    world_end_look(world);
    *lock = before;
    return left_ms;
}

void holder_view_each(struct world *world, struct hf_client *client,
                      void (*tell)(void *argument, struct view table, uint64_t token),
                      void *argument)
{
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (holder_view_of(world, lock) == HF_OK)
            tell(argument, doc_key(lock->ref->doc), lock->token);
}
