/* SPDX-License-Identifier: Apache-2.0 */
/* local_turn.c: turns of the tasks of one client (local_turn.h). It guards against a turn that is
 * given to a task that no longer waits. */
#include "lock/local_turn.h"

#include "base/check.h"
#include "lock/client_inside.h"

struct local_waiter {
    struct env_cond given;
    bool has_turn;
    struct local_waiter *next;
};

static void join_line_locked(struct local_turn *turn, struct local_waiter *waiter)
{
    if (turn->last)
        turn->last->next = waiter;
    else
        turn->first = waiter;
    turn->last = waiter;
}

static void leave_line_locked(struct local_turn *turn, const struct local_waiter *waiter)
{
    struct local_waiter *before = NULL;
    struct local_waiter **link = &turn->first;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (turn->last == waiter)
        turn->last = before;
}

static bool wait_locked(struct hf_client *client, struct local_turn *turn,
                        struct mono_time until)
{
    struct local_waiter own = { .has_turn = false };
    env_cond_init(client->env, &own.given);
    join_line_locked(turn, &own);
    while (!own.has_turn && env_cond_wait_until(&own.given, &client->shared.mutex, until))
        ;
    if (!own.has_turn)
        leave_line_locked(turn, &own);
    env_cond_release(&own.given);
    return own.has_turn;
}

bool local_turn_take(struct table_ref *ref, struct mono_time until)
{
    struct hf_client *client = ref->client;
    env_mutex_lock(&client->shared.mutex);
    bool ours = !ref->turn.taken;
    ref->turn.taken = true;
    if (!ours && mono_before(client_now(client), until))
        ours = wait_locked(client, &ref->turn, until);
    env_mutex_unlock(&client->shared.mutex);
    return ours;
}

void local_turn_leave(struct table_ref *ref)
{
    struct hf_client *client = ref->client;
    env_mutex_lock(&client->shared.mutex);
    struct local_waiter *next = ref->turn.first;
    check(ref->turn.taken);
    if (next) {
        leave_line_locked(&ref->turn, next);
        next->has_turn = true;
        env_cond_signal(&next->given);
    } else {
        ref->turn.taken = false;
    }
    env_mutex_unlock(&client->shared.mutex);
}
