/* belief.c: the one place of the judges that knows what a handle is made of, and only its size:
 * asking may make the handle note that its time is over, so it is put back as it was. */
#include "sim/belief.h"

#include "lock/handle.h"

enum hf_status belief_of(struct world *world, struct hf_lock *lock)
{
    struct hf_lock before = *lock;
    world_begin_look(world);
    enum hf_status status = hf_lock_check(lock, NULL);
    world_end_look(world);
    *lock = before;
    return status;
}

int64_t belief_left_ms(struct world *world, struct hf_lock *lock)
{
    struct hf_lock before = *lock;
    world_begin_look(world);
    int64_t left_ms = hf_lock_remaining_ms(lock);
    world_end_look(world);
    *lock = before;
    return left_ms;
}

void belief_each(struct world *world, struct hf_client *client,
                 void (*tell)(void *argument, struct view table, uint64_t token),
                 void *argument)
{
    for (struct hf_lock *lock = client->keeper.first; lock; lock = lock->next)
        if (belief_of(world, lock) == HF_OK)
            tell(argument, doc_key(lock->place->doc), lock->token);
}
