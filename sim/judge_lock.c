#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "sim/belief.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* Finished leases that a table keeps; one more, and the oldest is dropped in the same write. */
#define FINISHED_KEPT 16

/* A keeper that runs needs no longer than this to tell, or a twelfth of the longest ttl more. */
#define SILENCE_US          INT64_C(50000)
#define SILENCE_BY_STORE_US INT64_C(1100000)

/* ---- Small things -------------------------------------------------------------------- */

void *judge_allocate(size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *bytes = calloc(1, size);
    heap_enter(before);
    check(bytes);
    return bytes;
}

void *judge_grow(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    struct heap *before = heap_enter(NULL);
    list = realloc(list, (count > 0 ? 2 * count : 1) * size);
    heap_enter(before);
    check(list);
    return list;
}

struct judged_table *judged_table_of(struct judge_lock *judge, struct view key)
{
    for (struct judged_table *table = judge->tables; table; table = table->next)
        if (view_equal(view_of(table->key), key))
            return table;
    struct judged_table *table = judge_allocate(sizeof *table);
    table->key = judge_allocate(key.size + 1);
    memcpy(table->key, key.data, key.size);
    table->next = judge->tables;
    judge->tables = table;
    return table;
}

struct judged_token *judged_token_of(const struct judged_table *table, uint64_t token)
{
    for (size_t i = table->token_count; i-- > 0;)
        if (table->tokens[i].token == token)
            return &table->tokens[i];
    return NULL;
}

/* The note is "NODE/LIFE/NUMBER", as judge_note writes it. */
struct claim *judged_claim_of(const struct judge_lock *judge, const struct judged_entry *entry)
{
    struct view note = entry->note;
    uint64_t number;
    if (note.size < 2)
        return NULL;
    note = view_from(view_first(note, note.size - 1), 1);
    view_cut(&note, '/');
    view_cut(&note, '/');
    if (parse_u64(note, UINT64_MAX, &number, NULL) != HF_OK || number >= judge->claim_count)
        return NULL;
    return judge->claims[number];
}

struct judged_token *judged_own_token(const struct claim *claim)
{
    struct judged_token *token = judged_token_of(claim->table, claim->token);
    check(token);
    return token;
}

bool judged_forgiven(const struct claim *claim)
{
    const struct judged_token *token = judged_own_token(claim);
    return claim->forgiven || token->forgiven || token->breaks > 0;
}

static uint64_t bit_of(const struct node *node)
{
    return UINT64_C(1) << (node_number(node) - 1);
}

/* ---- Belief -------------------------------------------------------------------------- */

/* Whether the holder relies on its lease and would be told that it may. */
static bool believes(struct claim *claim)
{
    struct world *world = judge_world(claim->judge);
    bool ok = belief_of(world, claim->lock) == HF_OK;
    if (ok && (claim->told_over || claim->told_gone))
        world_fail(world, "node %u believes in token %" PRIu64 " of %s again, after it was %s",
                   node_number(claim->node), claim->token, claim->table->key,
                   claim->told_gone ? "told that it is gone" : "told that it is over");
    return ok;
}

/* Whether another handle of the same lease, further on in the list, counts for it. */
static bool is_counted_later(struct claim *claim)
{
    for (struct claim *other = claim->next; other; other = other->next)
        if (other->lock && other->table == claim->table && other->token == claim->token &&
            !judged_forgiven(other) && believes(other))
            return true;
    return false;
}

/* One who believes in something else that this gets in the way of; of those who share slots, one
 * of too many. */
static struct claim *find_conflict(struct judge_lock *judge, const struct judged_table *table,
                                   uint64_t token, const struct judged_wish *wish)
{
    uint64_t sharing = 1;
    for (struct claim *claim = judge->open; claim; claim = claim->next) {
        if (!claim->lock || claim->table != table || claim->token == token ||
            judged_forgiven(claim) || !judged_conflict(&claim->wish, wish) || !believes(claim))
            continue;
        if (!judged_share_slots(&claim->wish, wish) ||
            (!is_counted_later(claim) && ++sharing > wish->slots))
            return claim;
    }
    return NULL;
}

static void judge_exclusion(struct judge_lock *judge, const struct judged_table *table,
                            uint64_t token, const struct judged_wish *wish, const char *what)
{
    if (!judge->options.exclusion)
        return;
    struct claim *other = find_conflict(judge, table, token, wish);
    if (other)
        world_fail(judge_world(judge),
                   "token %" PRIu64 " of %s %s while node %u still believes in token %" PRIu64,
                   token, table->key, what, node_number(other->node), other->token);
}

/* Who does not believe any more is told so, at once; where the store's time counts too, as soon
 * as the keeper looks again. */
static void judge_silence(struct claim *claim)
{
    const struct judge_lock *judge = claim->judge;
    int64_t now_us = judge_now_us(judge);
    int64_t silence_us = judge->options.own_clock ? SILENCE_US : SILENCE_BY_STORE_US;
    if (claim->doubted_us == 0 || node_runs_since_us(claim->node) > claim->doubted_us)
        claim->doubted_us = now_us;
    if (!claim->told_gone && claim->doubted_us < now_us - silence_us &&
        node_runs_since_us(claim->node) <= claim->doubted_us - JUDGE_WAKE_TIME_US)
        world_fail(judge_world(judge),
                   "token %" PRIu64 " of %s has long been over for node %u, which was not told",
                   claim->token, claim->table->key, node_number(claim->node));
}

void judge_look(struct judge_lock *judge)
{
    for (struct claim *claim = judge->open; claim; claim = claim->next) {
        if (!claim->lock)
            continue;
        if (!believes(claim)) {
            judge_silence(claim);
            continue;
        }
        claim->doubted_us = 0;
        if (!judged_forgiven(claim))
            judge_exclusion(judge, claim->table, claim->token, &claim->wish, "is believed in");
    }
}

/* ---- Grants and renewals ------------------------------------------------------------- */

static struct judged_token *add_token(struct judge_lock *judge, struct judged_table *table,
                                      const struct judged_entry *granted)
{
    const struct claim *claim = judged_claim_of(judge, granted);
    size_t count = table->token_count++;
    table->tokens = judge_grow(table->tokens, count, sizeof *table->tokens);
    table->tokens[count] =
        (struct judged_token){ .token = granted->token, .id = hash_xxh3(granted->id) };
    if (claim)
        table->tokens[count].nodes = bit_of(claim->node);
    if (claim && claim->refused != HF_OK)
        world_fail(judge_world(judge),
                   "token %" PRIu64 " of %s is granted to node %u, which was told %s before",
                   granted->token, table->key, node_number(claim->node),
                   hf_status_name(claim->refused));
    return &table->tokens[count];
}

static void judge_grant(struct judge_lock *judge, struct judged_table *table,
                        const struct judged_version *now, const struct judged_entry *granted)
{
    uint64_t highest = table->token_count > 0 ? table->tokens[table->token_count - 1].token : 0;
    if (granted->token <= highest)
        world_fail(judge_world(judge),
                   "%s grants token %" PRIu64 " after token %" PRIu64 " was granted",
                   table->key, granted->token, highest);
    add_token(judge, table, granted);
    if (granted->wish.scope_count == 0) /* a barrier, which covers those whom it waits for */
        return;
    judge_exclusion(judge, table, granted->token, &granted->wish, "is granted");
    judge_order(judge, table, now, granted);
}

static void judge_renewal(struct judge_lock *judge, const struct judged_table *table,
                          struct judged_token *token, const struct judged_entry *lease)
{
    struct world *world = judge_world(judge);
    struct net_sender sender = net_sender(judge->run->net);
    if (token->over)
        world_fail(world, "token %" PRIu64 " of %s was over, and is active again", token->token,
                   table->key);
    if (lease->renewals == token->renewals)
        return;
    token->renewals = lease->renewals;
    int64_t sent_us = sender.node ? sender.sent_us : judge_now_us(judge);
    if (token->told && token->holders == 0 && sent_us > token->let_go_us)
        world_fail(world, "token %" PRIu64 " of %s is renewed after its work ended",
                   token->token, table->key);
    if (sender.node && token->nodes != 0 && (token->nodes & bit_of(sender.node)) == 0)
        world_fail(world, "token %" PRIu64 " of %s is renewed by node %u, which has it not",
                   token->token, table->key, node_number(sender.node));
}

/* No two leases that a table says to be active are in each other's way. */
static void judge_pairs(struct judge_lock *judge, const struct judged_table *table,
                        const struct judged_version *now)
{
    for (size_t i = 0; i < now->lease_count; i++) {
        const struct judged_entry *a = &now->leases[i];
        uint64_t sharing = 1;
        for (size_t k = 0; a->active && a->wish.scope_count > 0 && k < i; k++) {
            const struct judged_entry *b = &now->leases[k];
            if (!b->active || b->wish.scope_count == 0 || !judged_conflict(&a->wish, &b->wish))
                continue;
            if (!judged_share_slots(&a->wish, &b->wish) || ++sharing > a->wish.slots)
                world_fail(judge_world(judge),
                           "%s says that both token %" PRIu64 " and token %" PRIu64 " hold",
                           table->key, b->token, a->token);
        }
    }
}

/* ---- Ends ---------------------------------------------------------------------------- */

static bool is_active(const struct judged_version *version, uint64_t token)
{
    const struct judged_entry *lease = judged_by_token(version, token);
    return lease && lease->active;
}

/* Who still believes must still be there; and who does not any more must know. */
static void judge_taken_away(struct judge_lock *judge, const struct judged_table *table,
                             const struct judged_version *now)
{
    struct world *world = judge_world(judge);
    for (struct claim *claim = judge->open; claim; claim = claim->next) {
        if (!claim->lock || claim->table != table || judged_forgiven(claim) ||
            judged_own_token(claim)->unlisted || !judge->options.exclusion ||
            is_active(now, claim->token))
            continue;
        if (believes(claim))
            world_fail(world,
                       "token %" PRIu64 " of %s is ended while node %u still believes in it",
                       claim->token, table->key, node_number(claim->node));
        else if (!claim->told_gone &&
                 node_runs_since_us(claim->node) <= judge_now_us(judge) - JUDGE_WAKE_TIME_US)
            world_fail(world,
                       "token %" PRIu64 " of %s is taken away before node %u is told that it "
                       "is gone",
                       claim->token, table->key, node_number(claim->node));
    }
}

static size_t count_finished(const struct judged_version *version)
{
    size_t count = 0;
    for (size_t i = 0; i < version->lease_count; i++)
        count += !version->leases[i].active;
    return count;
}

/* Only its holders end a lease, but what is over or to be broken. */
static void judge_who_ended(struct judge_lock *judge, const struct judged_table *table,
                            const struct judged_version *now, const struct judged_token *token)
{
    struct world *world = judge_world(judge);
    bool broken = strcmp(token->end, "broken") == 0;
    if (broken && token->breaks == 0)
        world_fail(world, "token %" PRIu64 " of %s is broken, which nobody asked for",
                   token->token, table->key);
    bool dropped_at_once = token->end[0] == '\0' && count_finished(now) >= FINISHED_KEPT;
    if (broken || strcmp(token->end, "expired") == 0 || dropped_at_once || token->nodes == 0)
        return;
    if (token->ended_by == 0 || (token->nodes >> (token->ended_by - 1) & 1) == 0)
        world_fail(world, "token %" PRIu64 " of %s is ended by node %u, which has it not",
                   token->token, table->key, token->ended_by);
}

static void judge_end_of(struct judge_lock *judge, const struct judged_table *table,
                         const struct judged_version *now, struct judged_token *token)
{
    const struct judged_entry *lease = judged_by_token(now, token->token);
    struct net_sender sender = net_sender(judge->run->net);
    token->over = true;
    token->ended_by = sender.node ? node_number(sender.node) : 0;
    struct view status = lease ? view_first(lease->status, sizeof token->end - 1) : VIEW("");
    memcpy(token->end, status.data, status.size);
    judge_who_ended(judge, table, now, token);
}

/* ---- What the store applied ---------------------------------------------------------- */

static void judge_leases(struct judge_lock *judge, struct judged_table *table,
                         const struct judged_version *now)
{
    for (size_t i = 0; i < table->token_count; i++)
        if (!table->tokens[i].over && !is_active(now, table->tokens[i].token))
            judge_end_of(judge, table, now, &table->tokens[i]);
    for (size_t i = 0; i < now->lease_count; i++) {
        const struct judged_entry *lease = &now->leases[i];
        struct judged_token *token = judged_token_of(table, lease->token);
        if (!lease->active || lease->token == 0)
            continue;
        if (token && token->id != hash_xxh3(lease->id))
            world_fail(judge_world(judge), "token %" PRIu64 " of %s is granted a second time",
                       lease->token, table->key);
        else if (token)
            judge_renewal(judge, table, token, lease);
        else
            judge_grant(judge, table, now, lease);
    }
}

static void judge_version(struct judge_lock *judge, struct judged_table *table,
                          const struct judged_version *now)
{
    struct world *world = judge_world(judge);
    if (now->foreign)
        world_fail(world, "a table without a format was written to %s", table->key);
    if (now->next_token > 0 && now->next_token < table->next_token)
        world_fail(world, "the next token of %s falls from %" PRIu64 " to %" PRIu64, table->key,
                   table->next_token, now->next_token);
    if (now->next_token > 0)
        table->next_token = now->next_token;
    judge_taken_away(judge, table, now);
    judge_leases(judge, table, now);
    judge_pairs(judge, table, now);
}

/* The expiry index stands beside the tables of its namespace. */
static bool is_table(struct view key)
{
    return (view_starts_with(key, VIEW("default/")) &&
            !view_starts_with(key, VIEW("default/.lease-index/"))) ||
           view_starts_with(key, VIEW("metadata/"));
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct judge_lock *judge = argument;
    if (!is_table(change->key))
        return;
    struct judged_table *table = judged_table_of(judge, change->key);
    struct judged_version *now =
        change->body.data ? judged_version_read(change->body, table->version) : NULL;
    bool may_go = judge->damaging || (judge->options.purged && !change->body.data);
    if (!now && !may_go)
        world_fail(judge_world(judge), "what was written to %s is no table", table->key);
    else if (now && !judge->damaging)
        judge_version(judge, table, now);
    judge_line(judge, table, now);
    judged_version_free(table->version);
    table->version = now;
    judge_look(judge);
}

void judge_damage(struct judge_lock *judge, struct view key, struct view body,
                  enum judge_damage damage)
{
    struct bucket *bucket = net_bucket(judge->run->net);
    struct judged_table *table = judged_table_of(judge, key);
    struct condition always = { 0 };
    struct put_call put = { .key = key, .body = body, .condition = always };
    struct delete_call remove = { .key = key, .condition = always };
    judge->damaging = judge->damaged = true;
    if (body.data)
        bucket_put(bucket, &put);
    else
        bucket_delete(bucket, &remove);
    judge->damaging = false;
    for (size_t i = 0; i < table->token_count; i++) {
        table->tokens[i].over = table->tokens[i].unlisted = true;
        table->tokens[i].forgiven = table->tokens[i].forgiven || damage == DAMAGE_HIDDEN;
    }
}

bool judge_any_damage(const struct judge_lock *judge)
{
    return judge->damaged;
}

/* ---- Beginning and end --------------------------------------------------------------- */

struct judge_lock *judge_lock_new(struct run *run, const struct judge_lock_options *options)
{
    struct judge_lock *judge = judge_allocate(sizeof *judge);
    judge->run = run;
    judge->options = *options;
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    for (size_t i = 0; i < world_node_count(run->world); i++) {
        judge->node_watches[i] =
            (struct node_watch){ .ended = judge_node_ended, .argument = judge };
        node_add_watch(world_node(run->world, i), &judge->node_watches[i]);
    }
    return judge;
}

void judge_lock_free(struct judge_lock *judge)
{
    for (size_t i = 0; i < judge->claim_count; i++)
        free(judge->claims[i]);
    while (judge->tables) {
        struct judged_table *table = judge->tables;
        judge->tables = table->next;
        judged_version_free(table->version);
        free(table->turns);
        free(table->tokens);
        free(table->key);
        free(table);
    }
    free(judge->claims);
    free(judge);
}

/* Whether an entry is of a handle that is no more, of the life that its node lives now, and was
 * freed so long ago that it should be gone. */
static bool is_left_behind(const struct judge_lock *judge, const struct judged_entry *entry,
                           const struct node *node, struct span since)
{
    const struct claim *claim = judged_claim_of(judge, entry);
    int64_t by_us = judge_now_us(judge) - since.us;
    return claim && claim->node == node && claim->life == node_lives(node) && !claim->open &&
           claim->freed_us <= by_us && claim->freed_us >= node_runs_since_us(node);
}

void judge_quiet(struct judge_lock *judge, struct node *node, struct span since)
{
    for (const struct judged_table *table = judge->tables; table; table = table->next) {
        const struct judged_version *version = table->version;
        for (size_t i = 0; version && i < version->waiter_count; i++)
            if (is_left_behind(judge, &version->waiters[i], node, since))
                world_fail(judge_world(judge),
                           "node %u has long stopped waiting for %s, and is in line still",
                           node_number(node), table->key);
        for (size_t i = 0; version && i < version->lease_count; i++) {
            const struct judged_entry *lease = &version->leases[i];
            const struct judged_token *token = judged_token_of(table, lease->token);
            bool never_held = token && !token->told;
            if (lease->active && never_held && is_left_behind(judge, lease, node, since))
                world_fail(judge_world(judge),
                           "token %" PRIu64 " of %s, which node %u never knew to have, was not "
                           "given back",
                           lease->token, table->key, node_number(node));
        }
    }
}

/* Nobody is ever in the way of a pin, so nobody has to end it. */
static bool is_pin(const struct judged_entry *entry)
{
    for (size_t i = 0; i < entry->wish.scope_count; i++)
        if (entry->wish.scopes[i].kind != JUDGED_PIN)
            return false;
    return entry->wish.scope_count > 0;
}

/* Whether it is of a process that came to its end in order. */
static bool is_of_the_living(const struct judge_lock *judge, const struct judged_entry *entry)
{
    const struct claim *claim = judged_claim_of(judge, entry);
    return claim && claim->life == node_lives(claim->node);
}

/* A pin whose holder crashed, left it there, or had no answer when it ended it. */
static bool is_lost_pin(const struct judged_table *table, const struct judged_entry *lease)
{
    const struct judged_token *token = judged_token_of(table, lease->token);
    return is_pin(lease) && token && token->holders == 0;
}

/* Whether it waits for another that waits. */
static bool is_behind_another(const struct judged_version *version, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (judged_conflict(&version->waiters[i].wish, &version->waiters[index].wish))
            return true;
    return false;
}

void judge_lock_end(struct judge_lock *judge)
{
    struct world *world = judge_world(judge);
    for (const struct judged_table *table = judge->tables; table; table = table->next) {
        const struct judged_version *version = table->version;
        for (size_t i = 0; version && i < version->lease_count; i++) {
            const struct judged_entry *lease = &version->leases[i];
            if (lease->active && lease->token > 0 && !is_lost_pin(table, lease))
                world_fail(world, "token %" PRIu64 " of %s is still held at the end",
                           lease->token, table->key);
        }
        for (size_t i = 0; version && i < version->waiter_count; i++) {
            const struct judged_entry *waiter = &version->waiters[i];
            /* One who died is dropped by whoever comes next, once it is its turn. */
            if (is_of_the_living(judge, waiter) ||
                (!waiter->reserved && !is_behind_another(version, i)))
                world_fail(world, "%.*s still waits for %s at the end", VIEW_ARGS(waiter->id),
                           table->key);
        }
    }
}
