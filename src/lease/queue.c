/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: decides whose turn it is. It guards against newcomers that overtake waiters, dead
 * waiters that block the queue, and waiters on disjoint scopes that block each other. Only
 * conflicting requests are kept in order. */
#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lease/table_inside.h"

#define CLAIM_WINDOW_MIN SPAN_S(2)

bool queue_active_blocks(const struct lease_table *table, const struct lease_wish *wanted,
                         struct view *ret_blocker)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE)
            continue;
        bool shares = wishes_share_slots(&lease->wish, wanted);
        taken += shares;
        bool full = RULE(SLOTS_ARE_COUNTED) && taken >= wanted->slots;
        if (shares ? full : wishes_conflict(&lease->wish, wanted)) {
            *ret_blocker = lease->id;
            return true;
        }
    }
    return false;
}

/* A pass over the queue for one set of terms: how many of the first `upto` waiters are in the way
 * of a request with these terms. Requests with equal terms share one pass. */
struct walk {
    const struct lease_wish *wanted;
    bool blocked;            /* by an active lease */
    uint64_t taken, sharing; /* slots of active leases, and of the waiters passed so far */
    size_t upto, in_way;
};

static struct walk start_walk(const struct lease_table *table, const struct lease_wish *wanted)
{
    struct walk walk = { .wanted = wanted };
    if (wanted->mode != LEASE_SLOTS)
        return walk;
    for (size_t i = 0; i < table->lease_count; i++)
        walk.taken += table->leases[i]->status == LEASE_ACTIVE &&
                      wishes_share_slots(&table->leases[i]->wish, wanted);
    return walk;
}

/* How many of the first `before` waiters are in the way; counts up to `limit`. Earlier waiters for
 * the same semaphore are in the way only once they and the holders use up all slots. */
static size_t walk_on(struct walk *walk, const struct lease_table *table, size_t before,
                      size_t limit)
{
    const struct lease_wish *wanted = walk->wanted;
    while (walk->upto < before && walk->in_way < limit) {
        const struct lease_wish *other = &table->waiters[walk->upto++].wanted->asked.wish;
        if (wishes_share_slots(other, wanted))
            walk->in_way += walk->taken + ++walk->sharing >= wanted->slots;
        else
            walk->in_way += wishes_conflict(other, wanted);
    }
    return walk->in_way;
}

size_t queue_waiters_before(const struct lease_table *table, const struct lease_wish *wanted,
                            size_t before, size_t limit)
{
    struct walk walk = start_walk(table, wanted);
    return walk_on(&walk, table, before, limit);
}

/* For how many different sets of terms a pass is remembered. Most queues have one. */
#define WALKS_MAX 8

struct walks {
    struct walk walks[WALKS_MAX];
    size_t started;
};

static struct walk *walk_of(struct walks *walks, const struct lease_table *table,
                            const struct lease_wish *wanted)
{
    size_t kept = walks->started < WALKS_MAX ? walks->started : WALKS_MAX;
    for (size_t i = 0; i < kept; i++)
        if (wishes_alike(walks->walks[i].wanted, wanted))
            return &walks->walks[i];
    struct walk *walk = &walks->walks[walks->started++ % WALKS_MAX];
    struct view blocker;
    *walk = start_walk(table, wanted);
    walk->blocked = queue_active_blocks(table, wanted, &blocker);
    return walk;
}

/* After a missed turn, this many waiters get the next turn together, after two its square, and so
 * on. The first living one of them to swap wins. So a few dead waiters cost one claim window, and a
 * queue full of them a few. */
#define TOGETHER_BITS 4

size_t queue_turn_width(unsigned missed)
{
    unsigned bits = missed * TOGETHER_BITS;
    return (size_t)1 << (bits < TOGETHER_BITS_MAX ? bits : TOGETHER_BITS_MAX);
}

void queue_settle(struct lease_table *table, struct mono_time now)
{
    size_t named = queue_turn_width(table->missed);
    struct walks walks;
    walks.started = 0;
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        struct walk *walk = walk_of(&walks, table, &waiter->wanted->asked.wish);
        bool behind =
            walk->blocked || (RULE(FIRST_IN_LINE) && walk_on(walk, table, i, named) >= named);
        bool turn = !behind;
        /* A turn that we give here is `called` until it is known to be written. Until then the
         * waiter cannot see its turn, and its claim window must not run. */
        if (turn && !waiter->reserved)
            waiter->reserved_seen = now;
        waiter->called = turn && (waiter->called || !waiter->reserved);
        waiter->reserved = turn;
    }
}

/* The claim window starts when the waiter can see its turn, not when we computed the turn. The
 * write in between may have taken a long time, and the waiter would be dropped too early. */
void table_written(struct lease_table *table, struct mono_time now)
{
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        if (RULE(TURN_SINCE_WRITTEN) && waiter->called)
            waiter->reserved_seen = now;
        waiter->called = false;
    }
}

static struct span claim_window(const struct waiter *waiter)
{
    struct span three_polls = SPAN_US(3 * waiter->wanted->asked.wish.poll.us);
    struct span window = span_larger(three_polls, CLAIM_WINDOW_MIN);
    MUTANT(mutant_shortens_claim_window(&window));
    return window;
}

static void drop_session(struct lease_table *table, struct view session)
{
    for (size_t i = table->waiter_count; i-- > 0;)
        if (view_equal(table->waiters[i].wanted->asked.session, session))
            waiter_free(table_take_waiter(table, i));
}

bool queue_drop_missed(struct lease_table *table, struct mono_time now)
{
    bool any = false;
    for (size_t i = 0; i < table->waiter_count;) {
        struct waiter *waiter = &table->waiters[i];
        bool missed = RULE(MISSED_TURN_IS_DROPPED) && waiter->reserved &&
                      mono_since(now, waiter->reserved_seen).us >= claim_window(waiter).us;
        if (!missed) {
            i++;
            continue;
        }
        struct waiter_entry *gone = table_take_waiter(table, i);
        /* A missed turn means that the process is gone, and with it its other waiters. If each of
         * them had to miss a turn of its own, 999 dead waiters could cost 999 claim windows. */
        drop_session(table, gone->asked.session);
        waiter_free(gone);
        any = true;
        i = 0; /* waiters before this one may have been removed too */
    }
    if (any && table->missed < MISSED_MAX)
        table->missed++;
    return any;
}

/* Of the waiters that have their turn and are there, so many are looked at. Many have it only if
 * they share a lock, and then none of them waits for the others. */
#define PRESENT_MAX 16

bool queue_drop_gone(struct lease_table *table, const struct table_op *op)
{
    bool any = false;
    size_t present = 0;
    if (!op->gone)
        return false;
    for (size_t i = 0; i < table->waiter_count && present < PRESENT_MAX;) {
        const struct lease_request *asked = &table->waiters[i].wanted->asked;
        if (!table->waiters[i].reserved || !op->gone(op->gone_argument, asked)) {
            present += table->waiters[i++].reserved;
            continue;
        }
        struct waiter_entry *gone = table_take_waiter(table, i);
        drop_session(table, gone->asked.session);
        MUTANT(mutant_ends_leases_of_gone(table, gone->asked.session));
        waiter_free(gone);
        any = true;
        i = present = 0; /* waiters before this one may have been removed too */
    }
    return any;
}

struct mono_time table_due_at(const struct lease_table *table, const struct evidence *evidence)
{
    struct mono_time due = { MOMENT_FAR };
    enum lease_proof proof;
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            due = mono_earlier(due, lease_provable_at(&table->settings, table->leases[i],
                                                      evidence, &proof));
    for (size_t i = 0; i < table->waiter_count; i++)
        if (table->waiters[i].reserved)
            due = mono_earlier(due, mono_add(table->waiters[i].reserved_seen,
                                             claim_window(&table->waiters[i])));
    return due;
}
