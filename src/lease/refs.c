/* SPDX-License-Identifier: Apache-2.0 */
/* refs.c: counts users of leases, waiters and shared terms, and frees each with its last one. */
#include "base/check.h"
#include "lease/lease.h"

#include <stdlib.h>

struct lease *lease_share(struct lease *lease)
{
    lease->users++;
    return lease;
}

struct waiter_entry *waiter_share(struct waiter_entry *waiter)
{
    waiter->users++;
    return waiter;
}

struct wanted *wanted_share(struct wanted *wanted)
{
    wanted->users++;
    return wanted;
}

/* Drops one reference; true if it was the last. */
static bool drop_user(size_t *users)
{
    check(*users > 0);
    return --*users == 0;
}

void lease_free(struct lease *lease)
{
    if (!lease || !drop_user(&lease->users))
        return;
    free(lease->wish.scopes);
    buffer_release(&lease->unescaped);
    free(lease);
}

void waiter_free(struct waiter_entry *waiter)
{
    if (!waiter || !drop_user(&waiter->users))
        return;
    if (waiter->like)
        wanted_free(waiter->like); /* which owns the scopes */
    else
        free(waiter->asked.wish.scopes);
    buffer_release(&waiter->unescaped);
    free(waiter);
}

void wanted_free(struct wanted *wanted)
{
    if (!wanted || !drop_user(&wanted->users))
        return;
    free(wanted->wish.scopes);
    buffer_release(&wanted->unescaped);
    free(wanted);
}
