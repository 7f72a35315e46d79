/* queue.c: whose turn it is. Order holds among requests that conflict, and only among them. */
#include "base/check.h"
#include "lease/table_inside.h"

#define CLAIM_WINDOW_MIN SPAN_S(2)

/* Two requests for slots of the same thing do not exclude each other; they are counted. */
static bool share_slots(const struct lease *a, const struct lease *b)
{
    return a->mode == LEASE_SLOTS && b->mode == LEASE_SLOTS && a->slots == b->slots &&
           a->scope_count == 1 && b->scope_count == 1 &&
           scope_equal(&a->scopes[0], &b->scopes[0]);
}

/* Slots that active leases have taken of what is wanted. */
static uint64_t slots_taken(const struct lease_table *table, const struct lease *wanted)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        taken +=
            table->leases[i]->status == LEASE_ACTIVE && share_slots(table->leases[i], wanted);
    return taken;
}

bool queue_active_blocks(const struct lease_table *table, const struct lease *wanted,
                         struct view *ret_blocker)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        bool shares = share_slots(lease, wanted);
        taken += shares;
        bool blocks = shares ? taken >= wanted->slots : leases_conflict(lease, wanted);
        if (blocks) {
            *ret_blocker = lease->id;
            return true;
        }
    }
    return false;
}

size_t queue_waiters_before(const struct lease_table *table, const struct lease *wanted,
                            size_t before, size_t limit)
{
    size_t in_way = 0;
    uint64_t sharing = 0;
    uint64_t taken = wanted->mode == LEASE_SLOTS ? slots_taken(table, wanted) : 0;
    for (size_t i = 0; i < before && in_way < limit; i++) {
        const struct lease *other = table->waiters[i].wanted;
        if (share_slots(other, wanted))
            in_way += taken + ++sharing >= wanted->slots;
        else
            in_way += leases_conflict(other, wanted);
    }
    return in_way;
}

void queue_settle(struct lease_table *table, struct mono_time now)
{
    size_t named = (size_t)1 << table->missed;
    struct view blocker;
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        bool turn = !queue_active_blocks(table, waiter->wanted, &blocker) &&
                    queue_waiters_before(table, waiter->wanted, i, named) < named;
        if (turn && !waiter->reserved)
            waiter->reserved_seen = now;
        waiter->reserved = turn;
    }
}

static struct span claim_window(const struct waiter *waiter)
{
    struct span three_polls = SPAN_US(3 * waiter->wanted->poll.us);
    return three_polls.us > CLAIM_WINDOW_MIN.us ? three_polls : CLAIM_WINDOW_MIN;
}

static void drop_session(struct lease_table *table, struct view session)
{
    for (size_t i = table->waiter_count; i-- > 0;)
        if (view_equal(table->waiters[i].wanted->session, session) &&
            table->waiters[i].wanted->session.data != session.data)
            lease_free(table_take_waiter(table, i));
}

bool queue_drop_missed(struct lease_table *table, struct mono_time now)
{
    bool any = false;
    for (size_t i = 0; i < table->waiter_count;) {
        struct waiter *waiter = &table->waiters[i];
        bool missed = waiter->reserved &&
                      mono_since(now, waiter->reserved_seen).us >= claim_window(waiter).us;
        if (!missed) {
            i++;
            continue;
        }
        struct lease *gone = table_take_waiter(table, i);
        drop_session(table, gone->session);
        lease_free(gone);
        any = true;
        i = 0; /* entries before this one may be gone too */
    }
    if (any && table->missed < MISSED_MAX)
        table->missed++;
    return any;
}
