/* judge_line.c: judges the line of those who wait, and refusals. */
#include "base/check.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* A turn lasts this long, or three polls where that is longer, ... */
#define TURN_US INT64_C(2000000)

/* ... on a clock that may run this much faster than true time. */
#define TURN_DRIFT_PPM 500

/* ---- What is in the way -------------------------------------------------------------- */

/* Counts what shares slots; whether it is in the way otherwise. */
static bool stops(const struct judged_entry *entry, const struct judged_wish *wish,
                  uint64_t *sharing)
{
    if (!judged_conflict(&entry->wish, wish))
        return false;
    if (judged_share_slots(&entry->wish, wish) && entry->wish.scope_count > 0)
        return ++*sharing >= wish->slots;
    return true;
}

static bool is_granted(const struct judged_version *version, struct view id)
{
    for (size_t i = 0; i < version->lease_count; i++)
        if (version->leases[i].active && view_equal(version->leases[i].id, id))
            return true;
    return false;
}

/* Adds what a version has, but for what a later one has too. */
static bool adds_in_way(const struct claim *claim, const struct judged_version *version,
                        const struct judged_version *later, uint64_t *sharing)
{
    for (size_t i = 0; version && i < version->lease_count; i++) {
        const struct judged_entry *lease = &version->leases[i];
        if (lease->active && !(later && is_granted(later, lease->id)) &&
            stops(lease, &claim->wish, sharing))
            return true;
    }
    for (size_t i = 0; version && i < version->waiter_count; i++) {
        const struct judged_entry *waiter = &version->waiters[i];
        if (judged_claim_of(claim->judge, waiter) != claim &&
            !judged_waiter(later, waiter->id) && stops(waiter, &claim->wish, sharing))
            return true;
    }
    return false;
}

bool judged_in_way(const struct claim *claim, const struct judged_version *version)
{
    uint64_t sharing = 0;
    return adds_in_way(claim, version, /* later */ NULL, &sharing);
}

/* A process does many things in one write, one after the other: between two of them there may
 * be what was before, and what is now. */
static bool was_in_way(const struct claim *claim, const struct judged_version *before,
                       const struct judged_version *now)
{
    uint64_t sharing = 0;
    return adds_in_way(claim, now, /* later */ NULL, &sharing) ||
           adds_in_way(claim, before, /* later */ now, &sharing);
}

static void note_what_is_in_way(struct judge_lock *judge, const struct judged_table *table,
                                const struct judged_version *now)
{
    struct net_sender sender = net_sender(judge->run->net);
    for (struct claim *claim = judge->open; claim; claim = claim->next) {
        if (!claim->asking || claim->table != table || claim->in_way)
            continue;
        bool own = sender.node == claim->node;
        claim->in_way = was_in_way(claim, own ? table->version : NULL, now);
    }
}

/* ---- Order --------------------------------------------------------------------------- */

/* Whether somebody left the line without a lease: then this write may have counted a missed turn
 * before it granted anything. */
static bool anybody_left(const struct judged_version *before, const struct judged_version *now)
{
    for (size_t i = 0; i < before->waiter_count; i++)
        if (!judged_waiter(now, before->waiters[i].id) &&
            !is_granted(now, before->waiters[i].id))
            return true;
    return false;
}

/* After m turns missed in a row the next 2^m are called at once, and whoever comes first has
 * it: so many may be overtaken. Who takes a slot overtakes those only whose turn it is not as
 * well. */
void judge_order(struct judge_lock *judge, const struct judged_table *table,
                 const struct judged_version *now, const struct judged_entry *granted)
{
    const struct judged_version *before = table->version;
    if (!before)
        return;
    uint64_t missed = before->missed + anybody_left(before, now);
    uint64_t may_overtake = (UINT64_C(1) << (missed < 20 ? missed : 20)) - 1;
    uint64_t overtaken = 0;
    for (size_t i = 0; i < before->waiter_count; i++) {
        const struct judged_entry *waiter = &before->waiters[i];
        const struct judged_entry *still = judged_waiter(now, waiter->id);
        if (view_equal(waiter->id, granted->id))
            return;
        bool beside = judged_share_slots(&waiter->wish, &granted->wish);
        if (!still || !judged_conflict(&waiter->wish, &granted->wish) ||
            (beside && still->reserved))
            continue;
        if (++overtaken > may_overtake)
            world_fail(judge_world(judge),
                       "%.*s of %s, who waited longer, is overtaken by token %" PRIu64,
                       VIEW_ARGS(waiter->id), table->key, granted->token);
    }
}

/* ---- Turns --------------------------------------------------------------------------- */

static struct judged_turn *find_turn(const struct judged_table *table, struct view id)
{
    for (size_t i = table->turn_count; i-- > 0;)
        if (view_equal(view_of(table->turns[i].id), id))
            return &table->turns[i];
    return NULL;
}

/* Since when it is whose turn, by the version that has just been written. */
static void note_turns(struct judge_lock *judge, struct judged_table *table,
                       const struct judged_version *now)
{
    for (size_t i = 0; now && i < now->waiter_count; i++) {
        const struct judged_entry *waiter = &now->waiters[i];
        struct judged_turn turn = { .since_us = judge_now_us(judge) };
        if (!waiter->reserved || waiter->id.size >= sizeof turn.id ||
            find_turn(table, waiter->id))
            continue;
        memcpy(turn.id, waiter->id.data, waiter->id.size);
        table->turns = judge_grow(table->turns, table->turn_count, sizeof turn);
        table->turns[table->turn_count++] = turn;
    }
}

static bool is_turn_over(const struct judge_lock *judge, const struct judged_table *table,
                         const struct judged_entry *waiter)
{
    const struct judged_turn *turn = find_turn(table, waiter->id);
    int64_t polls_us = 3 * (int64_t)waiter->poll_ms * 1000;
    int64_t least_us = polls_us > TURN_US ? polls_us : TURN_US;
    least_us -= least_us / 1000000 * TURN_DRIFT_PPM;
    return waiter->reserved && turn && judge_now_us(judge) - turn->since_us >= least_us;
}

static struct view session_of(struct view id)
{
    return view_first(id, view_find(id, '-'));
}

/* Whether one of this session has missed its turn: then all of it go. */
static bool session_missed(const struct judge_lock *judge, const struct judged_table *table,
                           struct view session)
{
    const struct judged_version *before = table->version;
    for (size_t i = 0; i < before->waiter_count; i++)
        if (view_equal(session_of(before->waiters[i].id), session) &&
            is_turn_over(judge, table, &before->waiters[i]))
            return true;
    return false;
}

/* Who waits and has not stopped waiting stays in line until its turn is over. Its own process may
 * take it out: an earlier attempt to stand there, which had no answer. */
static void judge_dropped(struct judge_lock *judge, const struct judged_table *table,
                          const struct judged_entry *waiter)
{
    const struct claim *claim = judged_claim_of(judge, waiter);
    struct net_sender sender = net_sender(judge->run->net);
    if (!claim || !claim->open || !claim->asking || claim->leaving ||
        sender.node == claim->node || judge_now_us(judge) >= claim->may_leave_us ||
        session_missed(judge, table, session_of(waiter->id)))
        return;
    const struct judged_turn *turn = find_turn(table, waiter->id);
    world_fail(judge_world(judge),
               "node %u is put out of the line for %s by node %u, before its time: %" PRId64
               " us after it was called",
               node_number(claim->node), table->key, sender.node ? node_number(sender.node) : 0,
               turn ? judge_now_us(judge) - turn->since_us : -1);
}

void judge_line(struct judge_lock *judge, struct judged_table *table,
                const struct judged_version *now)
{
    const struct judged_version *before = table->version;
    for (size_t i = 0; before && now && !judge->damaging && judge->options.exclusion &&
                       i < before->waiter_count;
         i++)
        if (!judged_waiter(now, before->waiters[i].id) &&
            !is_granted(now, before->waiters[i].id))
            judge_dropped(judge, table, &before->waiters[i]);
    note_turns(judge, table, now);
    note_what_is_in_way(judge, table, now);
}
