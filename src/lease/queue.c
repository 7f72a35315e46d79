/* queue.c: whose turn it is. Order holds among requests that conflict, and only among them. */
#include "base/check.h"
#include "base/rule.h"
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
        uint64_t slots = wanted->slots + (RULE(SLOTS_ARE_COUNTED) ? 0 : 1);
        bool blocks = shares ? taken >= slots : leases_conflict(lease, wanted);
        if (blocks) {
            *ret_blocker = lease->id;
            return true;
        }
    }
    return false;
}

/* One wish on its way along the queue: who stands before it there, up to `upto`. Wishes that are
 * the same share it, so that the queue is walked once for all of them. */
struct walk {
    const struct lease *wanted;
    bool blocked; /* by an active lease */
    uint64_t taken, sharing;
    size_t upto, in_way;
};

static struct walk start_walk(const struct lease_table *table, const struct lease *wanted)
{
    return (struct walk){
        .wanted = wanted,
        .taken = wanted->mode == LEASE_SLOTS ? slots_taken(table, wanted) : 0,
    };
}

/* How many of the first `before` waiters are in the way; counts up to `limit`. */
static size_t walk_on(struct walk *walk, const struct lease_table *table, size_t before,
                      size_t limit)
{
    const struct lease *wanted = walk->wanted;
    for (; walk->upto < before && walk->in_way < limit; walk->upto++) {
        const struct lease *other = table->waiters[walk->upto].wanted;
        if (share_slots(other, wanted))
            walk->in_way += walk->taken + ++walk->sharing >= wanted->slots;
        else
            walk->in_way += leases_conflict(other, wanted);
    }
    return walk->in_way;
}

size_t queue_waiters_before(const struct lease_table *table, const struct lease *wanted,
                            size_t before, size_t limit)
{
    struct walk walk = start_walk(table, wanted);
    return walk_on(&walk, table, before, limit);
}

/* Different wishes that are remembered. Most queues have one. */
#define WALKS_MAX 8

struct walks {
    struct walk walks[WALKS_MAX];
    size_t started;
};

static struct walk *walk_of(struct walks *walks, const struct lease_table *table,
                            const struct lease *wanted)
{
    size_t kept = walks->started < WALKS_MAX ? walks->started : WALKS_MAX;
    for (size_t i = 0; i < kept; i++)
        if (leases_same_wish(walks->walks[i].wanted, wanted))
            return &walks->walks[i];
    struct walk *walk = &walks->walks[walks->started++ % WALKS_MAX];
    struct view blocker;
    *walk = start_walk(table, wanted);
    walk->blocked = queue_active_blocks(table, wanted, &blocker);
    return walk;
}

void queue_settle(struct lease_table *table, struct mono_time now)
{
    size_t named = (size_t)1 << table->missed;
    struct walks walks;
    walks.started = 0;
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        struct walk *walk = walk_of(&walks, table, waiter->wanted);
        bool turn =
            !walk->blocked && (walk_on(walk, table, i, named) < named || !RULE(FIRST_IN_LINE));
        if (turn && !waiter->reserved)
            waiter->reserved_seen = now;
        waiter->called = turn && (waiter->called || !waiter->reserved);
        waiter->reserved = turn;
    }
}

/* A turn begins when whoever has it can see that, not when we thought of giving it. */
void table_written(struct lease_table *table, struct mono_time now)
{
    for (size_t i = 0; i < table->waiter_count; i++) {
        struct waiter *waiter = &table->waiters[i];
        if (waiter->called && RULE(TURN_SINCE_WRITTEN))
            waiter->reserved_seen = now;
        waiter->called = false;
    }
}

static struct span claim_window(const struct waiter *waiter)
{
    struct span three_polls = SPAN_US(3 * waiter->wanted->poll.us);
    if (!RULE(CLAIM_WINDOW))
        return SPAN_US(CLAIM_WINDOW_MIN.us / 10);
    return three_polls.us > CLAIM_WINDOW_MIN.us ? three_polls : CLAIM_WINDOW_MIN;
}

static void drop_session(struct lease_table *table, struct view session)
{
    for (size_t i = table->waiter_count; i-- > 0;)
        if (view_equal(table->waiters[i].wanted->session, session))
            lease_free(table_take_waiter(table, i));
}

bool queue_drop_missed(struct lease_table *table, struct mono_time now)
{
    bool any = false;
    for (size_t i = 0; i < table->waiter_count;) {
        struct waiter *waiter = &table->waiters[i];
        bool missed = waiter->reserved && RULE(MISSED_TURN_IS_DROPPED) &&
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
