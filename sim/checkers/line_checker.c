/* SPDX-License-Identifier: Apache-2.0 */
/* line_checker.c: checks the queue of waiters: its order, the turns, and whether each refusal was
 * justified at some instant between the request and the result. */
#include "base/check.h"
#include "sim/checkers/checker_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* A turn lasts this long, or for three polls if that is longer, ... */
#define TURN_US INT64_C(2000000)

/* ... on a clock that may run this much faster than true time. */
#define TURN_DRIFT_PPM 500

/* ---- Conflicts ----------------------------------------------------------------------- */

/* Whether the entry blocks the request: by a conflict, or by using the last slot. Counts the
 * entries that share slots in *sharing. */
static bool stops(const struct checked_entry *entry, const struct checked_wish *wish,
                  uint64_t *sharing)
{
    if (!checked_conflict(&entry->wish, wish))
        return false;
    if (checked_share_slots(&entry->wish, wish) && entry->wish.scope_count > 0)
        return ++*sharing >= wish->slots;
    return true;
}

static bool is_granted(const struct checked_version *version, struct view id)
{
    for (size_t i = 0; i < version->lease_count; i++)
        if (version->leases[i].active && view_equal(version->leases[i].id, id))
            return true;
    return false;
}

/* Whether an entry of a version blocks the claim; skips entries that a later version also has. */
static bool adds_in_way(const struct claim *claim, const struct checked_version *version,
                        const struct checked_version *later, uint64_t *sharing)
{
    for (size_t i = 0; version && i < version->lease_count; i++) {
        const struct checked_entry *lease = &version->leases[i];
        if (lease->active && !(later && is_granted(later, lease->id)) &&
            stops(lease, &claim->wish, sharing))
            return true;
    }
    for (size_t i = 0; version && i < version->waiter_count; i++) {
        const struct checked_entry *waiter = &version->waiters[i];
        if (checked_claim_of(claim->checker, waiter) != claim &&
            !checked_waiter(later, waiter->id) && stops(waiter, &claim->wish, sharing))
            return true;
    }
    return false;
}

bool checked_in_way(const struct claim *claim, const struct checked_version *version)
{
    uint64_t sharing = 0;
    return adds_in_way(claim, version, /* later */ NULL, &sharing);
}

/* A process may apply several operations in sequence and write the result once. Between two of
 * these operations, the table may contain entries of both the old and the new version. */
static bool was_in_way(const struct claim *claim, const struct checked_version *before,
                       const struct checked_version *now)
{
    uint64_t sharing = 0;
    return adds_in_way(claim, now, /* later */ NULL, &sharing) ||
           adds_in_way(claim, before, /* later */ now, &sharing);
}

static void note_what_is_in_way(struct lock_checker *checker, const struct checked_table *table,
                                const struct checked_version *now)
{
    struct net_sender sender = net_sender(checker->run->net);
    for (struct claim *claim = checker->open; claim; claim = claim->next) {
        if (!claim->asking || claim->table != table || claim->in_way)
            continue;
        bool own = sender.node == claim->node;
        claim->in_way = was_in_way(claim, own ? table->version : NULL, now);
    }
}

/* ---- Order --------------------------------------------------------------------------- */

/* Whether a waiter left the queue without a lease. If so, this write may have counted a missed turn
 * before it granted anything. */
static bool anybody_left(const struct checked_version *before,
                         const struct checked_version *now)
{
    for (size_t i = 0; i < before->waiter_count; i++)
        if (!checked_waiter(now, before->waiters[i].id) &&
            !is_granted(now, before->waiters[i].id))
            return true;
    return false;
}

/* After m consecutive missed turns, the next 16^m waiters get the turn together, and the first to
 * claim it wins, so this many may be overtaken. A waiter that takes a slot overtakes only waiters
 * that do not have the turn. */
void checker_order(struct lock_checker *checker, const struct checked_table *table,
                   const struct checked_version *now, const struct checked_entry *granted)
{
    const struct checked_version *before = table->version;
    if (!before)
        return;
    uint64_t missed = before->missed + anybody_left(before, now);
    uint64_t may_overtake = (UINT64_C(1) << (missed < 3 ? 4 * missed : 12)) - 1;
    uint64_t overtaken = 0;
    for (size_t i = 0; i < before->waiter_count; i++) {
        const struct checked_entry *waiter = &before->waiters[i];
        const struct checked_entry *still = checked_waiter(now, waiter->id);
        if (view_equal(waiter->id, granted->id))
            return;
        bool beside = checked_share_slots(&waiter->wish, &granted->wish);
        if (!still || !checked_conflict(&waiter->wish, &granted->wish) ||
            (beside && still->reserved))
            continue;
        if (++overtaken > may_overtake)
            world_fail(checker_world(checker),
                       "%.*s of %s, who waited longer, is overtaken by token %" PRIu64,
                       VIEW_ARGS(waiter->id), table->key, granted->token);
    }
}

/* ---- Turns --------------------------------------------------------------------------- */

static struct checked_turn *find_turn(const struct checked_table *table, struct view id)
{
    for (size_t i = table->turn_count; i-- > 0;)
        if (view_equal(view_of(table->turns[i].id), id))
            return &table->turns[i];
    return NULL;
}

/* Records since when each waiter has had its turn, in the version that was just written. */
static void note_turns(struct lock_checker *checker, struct checked_table *table,
                       const struct checked_version *now)
{
    for (size_t i = 0; now && i < now->waiter_count; i++) {
        const struct checked_entry *waiter = &now->waiters[i];
        struct checked_turn turn = { .since_us = checker_now_us(checker) };
        if (!waiter->reserved || waiter->id.size >= sizeof turn.id ||
            find_turn(table, waiter->id))
            continue;
        memcpy(turn.id, waiter->id.data, waiter->id.size);
        table->turns = checker_grow(table->turns, table->turn_count, sizeof turn);
        table->turns[table->turn_count++] = turn;
    }
}

static bool is_turn_over(const struct lock_checker *checker, const struct checked_table *table,
                         const struct checked_entry *waiter)
{
    const struct checked_turn *turn = find_turn(table, waiter->id);
    int64_t polls_us = 3 * (int64_t)waiter->poll_ms * 1000;
    int64_t least_us = polls_us > TURN_US ? polls_us : TURN_US;
    least_us -= least_us / 1000000 * TURN_DRIFT_PPM;
    return waiter->reserved && turn && checker_now_us(checker) - turn->since_us >= least_us;
}

static struct view session_of(struct view id)
{
    return view_first(id, view_find(id, '-'));
}

/* Whether a waiter of this session has missed its turn; all waiters of the session are then
 * removed. */
static bool session_missed(const struct lock_checker *checker,
                           const struct checked_table *table, struct view session)
{
    const struct checked_version *before = table->version;
    for (size_t i = 0; i < before->waiter_count; i++)
        if (view_equal(session_of(before->waiters[i].id), session) &&
            is_turn_over(checker, table, &before->waiters[i]))
            return true;
    return false;
}

/* A waiter that has not stopped waiting stays in the queue until its turn has passed. Before that,
 * only its own process may remove it, to undo an earlier attempt that received no reply. */
static void checker_dropped(struct lock_checker *checker, const struct checked_table *table,
                            const struct checked_entry *waiter)
{
    const struct claim *claim = checked_claim_of(checker, waiter);
    struct net_sender sender = net_sender(checker->run->net);
    if (!claim || !claim->open || !claim->asking || claim->leaving ||
        sender.node == claim->node || checker_now_us(checker) >= claim->may_leave_us ||
        session_missed(checker, table, session_of(waiter->id)))
        return;
    const struct checked_turn *turn = find_turn(table, waiter->id);
    world_fail(checker_world(checker),
               "node %u is put out of the line for %s by node %u, before its time: %" PRId64
               " us after it was called",
               node_number(claim->node), table->key, sender.node ? node_number(sender.node) : 0,
               turn ? checker_now_us(checker) - turn->since_us : -1);
}

void line_checker(struct lock_checker *checker, struct checked_table *table,
                  const struct checked_version *now)
{
    const struct checked_version *before = table->version;
    for (size_t i = 0; before && now && !checker->damaging && checker->options.exclusion &&
                       i < before->waiter_count;
         i++)
        if (!checked_waiter(now, before->waiters[i].id) &&
            !is_granted(now, before->waiters[i].id))
            checker_dropped(checker, table, &before->waiters[i]);
    note_turns(checker, table, now);
    note_what_is_in_way(checker, table, now);
}
