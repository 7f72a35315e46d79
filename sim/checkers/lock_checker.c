/* SPDX-License-Identifier: Apache-2.0 */
/* lock_checker.c: checks leases at each write to a table: what each holder believes at that
 * instant, whether it was notified in time, which node ended or renewed a lease, and tokens.
 * lock_checker.h lists the reasons to fail a run. */
#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/holder_view.h"

#include <inttypes.h>
#include <stdlib.h>

/* The number of finished leases that a table keeps. The write that adds another one drops the
 * oldest. */
#define FINISHED_KEPT 16

/* A running keeper notifies its holder within SILENCE_US if the lease ends by the holder's own
 * clock, and within SILENCE_BY_STORE_US, which includes a twelfth of the longest ttl, if it ends by
 * store time. */
#define SILENCE_US          INT64_C(50000)
#define SILENCE_BY_STORE_US INT64_C(1100000)

/* ---- Helpers ------------------------------------------------------------------------- */

void *checker_allocate(size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *bytes = calloc(1, size);
    heap_enter(before);
    check(bytes);
    return bytes;
}

void *checker_grow(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    struct heap *before = heap_enter(NULL);
    list = realloc(list, (count > 0 ? 2 * count : 1) * size);
    heap_enter(before);
    check(list);
    return list;
}

struct checked_table *checked_table_of(struct lock_checker *checker, struct view key)
{
    for (struct checked_table *table = checker->tables; table; table = table->next)
        if (view_equal(view_of(table->key), key))
            return table;
    struct checked_table *table = checker_allocate(sizeof *table);
    table->key = checker_allocate(key.size + 1);
    memcpy(table->key, key.data, key.size);
    table->next = checker->tables;
    checker->tables = table;
    return table;
}

struct checked_token *checked_token_of(const struct checked_table *table, uint64_t token)
{
    for (size_t i = table->token_count; i-- > 0;)
        if (table->tokens[i].token == token)
            return &table->tokens[i];
    return NULL;
}

/* The note is "NODE/LIFE/NUMBER", as checker_note writes it. */
struct claim *checked_claim_of(const struct lock_checker *checker,
                               const struct checked_entry *entry)
{
    struct view note = entry->note;
    uint64_t number;
    if (note.size < 2)
        return NULL;
    note = view_from(view_first(note, note.size - 1), 1);
    view_cut(&note, '/');
    view_cut(&note, '/');
    if (parse_u64(note, UINT64_MAX, &number, NULL) != HF_OK || number >= checker->claim_count)
        return NULL;
    return checker->claims[number];
}

struct checked_token *checked_own_token(const struct claim *claim)
{
    struct checked_token *token = checked_token_of(claim->table, claim->token);
    check(token);
    return token;
}

bool checked_forgiven(const struct claim *claim)
{
    const struct checked_token *token = checked_own_token(claim);
    return claim->forgiven || token->forgiven || token->breaks > 0;
}

static uint64_t bit_of(const struct node *node)
{
    return UINT64_C(1) << (node_number(node) - 1);
}

/* ---- Belief -------------------------------------------------------------------------- */

/* Whether the holder relies on its lease, and its check would return OK. */
static bool believes(struct claim *claim)
{
    struct world *world = checker_world(claim->checker);
    bool ok = holder_view_of(world, claim->lock) == HF_OK;
    if (ok && (claim->told_over || claim->told_gone))
        world_fail(world, "node %u believes in token %" PRIu64 " of %s again, after it was %s",
                   node_number(claim->node), claim->token, claim->table->key,
                   claim->told_gone ? "told that it is gone" : "told that it is over");
    return ok;
}

/* Whether a later handle in the list represents the same lease. */
static bool is_counted_later(struct claim *claim)
{
    for (struct claim *other = claim->next; other; other = other->next)
        if (other->lock && other->table == claim->table && other->token == claim->token &&
            !checked_forgiven(other) && believes(other))
            return true;
    return false;
}

/* Finds a holder that believes that it holds a lease that conflicts with this one. For shared
 * slots, finds one holder too many. */
static struct claim *find_conflict(struct lock_checker *checker,
                                   const struct checked_table *table, uint64_t token,
                                   const struct checked_wish *wish)
{
    uint64_t sharing = 1;
    for (struct claim *claim = checker->open; claim; claim = claim->next) {
        /* What conflicts must be in one table, so conflicts are looked for in all tables. Only a
         * barrier, which has no scopes, covers just its own. */
        bool itself = claim->table == table && claim->token == token;
        bool elsewhere = claim->table != table && wish->scope_count == 0;
        if (!claim->lock || itself || elsewhere || checked_forgiven(claim) ||
            !checked_conflict(&claim->wish, wish) || !believes(claim))
            continue;
        if (!checked_share_slots(&claim->wish, wish) ||
            (!is_counted_later(claim) && ++sharing > wish->slots))
            return claim;
    }
    return NULL;
}

static void checker_exclusion(struct lock_checker *checker, const struct checked_table *table,
                              uint64_t token, const struct checked_wish *wish, const char *what)
{
    if (!checker->options.exclusion)
        return;
    struct claim *other = find_conflict(checker, table, token, wish);
    if (other)
        world_fail(checker_world(checker),
                   "token %" PRIu64 " of %s %s while node %u still believes in token %" PRIu64
                   " of %s",
                   token, table->key, what, node_number(other->node), other->token,
                   other->table->key);
}

/* A holder that no longer believes must have been notified immediately or, if store time counts
 * too, when its keeper checked next. */
static void checker_silence(struct claim *claim)
{
    const struct lock_checker *checker = claim->checker;
    int64_t now_us = checker_now_us(checker);
    int64_t silence_us = checker->options.own_clock ? SILENCE_US : SILENCE_BY_STORE_US;
    if (claim->doubted_us == 0 || node_runs_since_us(claim->node) > claim->doubted_us)
        claim->doubted_us = now_us;
    if (!claim->told_gone && claim->doubted_us < now_us - silence_us &&
        node_runs_since_us(claim->node) <= claim->doubted_us - CHECKER_WAKE_TIME_US)
        world_fail(checker_world(checker),
                   "token %" PRIu64 " of %s has long been over for node %u, which was not told",
                   claim->token, claim->table->key, node_number(claim->node));
}

void checker_look(struct lock_checker *checker)
{
    for (struct claim *claim = checker->open; claim; claim = claim->next) {
        if (!claim->lock)
            continue;
        if (!believes(claim)) {
            checker_silence(claim);
            continue;
        }
        claim->doubted_us = 0;
        if (!checked_forgiven(claim))
            checker_exclusion(checker, claim->table, claim->token, &claim->wish,
                              "is believed in");
    }
}

/* ---- Grants and renewals ------------------------------------------------------------- */

static struct checked_token *add_token(struct lock_checker *checker,
                                       struct checked_table *table,
                                       const struct checked_entry *granted)
{
    const struct claim *claim = checked_claim_of(checker, granted);
    size_t count = table->token_count++;
    table->tokens = checker_grow(table->tokens, count, sizeof *table->tokens);
    table->tokens[count] =
        (struct checked_token){ .token = granted->token, .id = hash_xxh3(granted->id) };
    if (claim)
        table->tokens[count].nodes = bit_of(claim->node);
    if (claim && claim->refused != HF_OK)
        world_fail(checker_world(checker),
                   "token %" PRIu64 " of %s is granted to node %u, which was told %s before",
                   granted->token, table->key, node_number(claim->node),
                   hf_status_name(claim->refused));
    return &table->tokens[count];
}

static void checker_grant(struct lock_checker *checker, struct checked_table *table,
                          const struct checked_version *now,
                          const struct checked_entry *granted)
{
    uint64_t highest = table->token_count > 0 ? table->tokens[table->token_count - 1].token : 0;
    if (granted->token <= highest)
        world_fail(checker_world(checker),
                   "%s grants token %" PRIu64 " after token %" PRIu64 " was granted",
                   table->key, granted->token, highest);
    add_token(checker, table, granted);
    if (granted->wish.scope_count == 0) /* a barrier covers the leases that it waits for */
        return;
    checker_exclusion(checker, table, granted->token, &granted->wish, "is granted");
    checker_order(checker, table, now, granted);
}

static void checker_renewal(struct lock_checker *checker, const struct checked_table *table,
                            struct checked_token *token, const struct checked_entry *lease)
{
    struct world *world = checker_world(checker);
    struct net_sender sender = net_sender(checker->run->net);
    if (token->over)
        world_fail(world, "token %" PRIu64 " of %s was over, and is active again", token->token,
                   table->key);
    if (lease->renewals == token->renewals)
        return;
    token->renewals = lease->renewals;
    int64_t sent_us = sender.node ? sender.sent_us : checker_now_us(checker);
    if (token->told && token->holders == 0 && sent_us > token->let_go_us)
        world_fail(world, "token %" PRIu64 " of %s is renewed after its work ended",
                   token->token, table->key);
    if (sender.node && token->nodes != 0 && (token->nodes & bit_of(sender.node)) == 0)
        world_fail(world, "token %" PRIu64 " of %s is renewed by node %u, which has it not",
                   token->token, table->key, node_number(sender.node));
}

/* No two active leases of a table may conflict. */
static void checker_pairs(struct lock_checker *checker, const struct checked_table *table,
                          const struct checked_version *now)
{
    for (size_t i = 0; i < now->lease_count; i++) {
        const struct checked_entry *a = &now->leases[i];
        uint64_t sharing = 1;
        for (size_t k = 0; a->active && a->wish.scope_count > 0 && k < i; k++) {
            const struct checked_entry *b = &now->leases[k];
            if (!b->active || b->wish.scope_count == 0 || !checked_conflict(&a->wish, &b->wish))
                continue;
            if (!checked_share_slots(&a->wish, &b->wish) || ++sharing > a->wish.slots)
                world_fail(checker_world(checker),
                           "%s says that both token %" PRIu64 " and token %" PRIu64 " hold",
                           table->key, b->token, a->token);
        }
    }
}

/* ---- Ends ---------------------------------------------------------------------------- */

static bool is_active(const struct checked_version *version, uint64_t token)
{
    const struct checked_entry *lease = checked_by_token(version, token);
    return lease && lease->active;
}

/* The lease of a holder that still believes must remain in the table. A holder that no longer
 * believes must have been notified. */
static void checker_taken_away(struct lock_checker *checker, const struct checked_table *table,
                               const struct checked_version *now)
{
    struct world *world = checker_world(checker);
    for (struct claim *claim = checker->open; claim; claim = claim->next) {
        if (!claim->lock || claim->table != table || checked_forgiven(claim) ||
            checked_own_token(claim)->unlisted || !checker->options.exclusion ||
            is_active(now, claim->token))
            continue;
        if (believes(claim))
            world_fail(world,
                       "token %" PRIu64 " of %s is ended while node %u still believes in it",
                       claim->token, table->key, node_number(claim->node));
        else if (!claim->told_gone && node_runs_since_us(claim->node) <=
                                          checker_now_us(checker) - CHECKER_WAKE_TIME_US)
            world_fail(world,
                       "token %" PRIu64 " of %s is taken away before node %u is told that it "
                       "is gone",
                       claim->token, table->key, node_number(claim->node));
    }
}

static size_t count_finished(const struct checked_version *version)
{
    size_t count = 0;
    for (size_t i = 0; i < version->lease_count; i++)
        count += !version->leases[i].active;
    return count;
}

/* Only the holders of a lease may end it, unless it has expired or is being broken. */
static void checker_who_ended(struct lock_checker *checker, const struct checked_table *table,
                              const struct checked_version *now,
                              const struct checked_token *token)
{
    struct world *world = checker_world(checker);
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

static void checker_end_of(struct lock_checker *checker, const struct checked_table *table,
                           const struct checked_version *now, struct checked_token *token)
{
    const struct checked_entry *lease = checked_by_token(now, token->token);
    struct net_sender sender = net_sender(checker->run->net);
    token->over = true;
    token->ended_by = sender.node ? node_number(sender.node) : 0;
    struct view status = lease ? view_first(lease->status, sizeof token->end - 1) : VIEW("");
    memcpy(token->end, status.data, status.size);
    checker_who_ended(checker, table, now, token);
}

/* ---- What the store applied ---------------------------------------------------------- */

static void checker_leases(struct lock_checker *checker, struct checked_table *table,
                           const struct checked_version *now)
{
    for (size_t i = 0; i < table->token_count; i++)
        if (!table->tokens[i].over && !is_active(now, table->tokens[i].token))
            checker_end_of(checker, table, now, &table->tokens[i]);
    for (size_t i = 0; i < now->lease_count; i++) {
        const struct checked_entry *lease = &now->leases[i];
        struct checked_token *token = checked_token_of(table, lease->token);
        if (!lease->active || lease->token == 0)
            continue;
        if (token && token->id != hash_xxh3(lease->id))
            world_fail(checker_world(checker),
                       "token %" PRIu64 " of %s is granted a second time", lease->token,
                       table->key);
        else if (token)
            checker_renewal(checker, table, token, lease);
        else
            checker_grant(checker, table, now, lease);
    }
}

static void checker_version(struct lock_checker *checker, struct checked_table *table,
                            const struct checked_version *now)
{
    struct world *world = checker_world(checker);
    if (now->foreign)
        world_fail(world, "a table without a format was written to %s", table->key);
    if (now->next_token > 0 && now->next_token < table->next_token)
        world_fail(world, "the next token of %s falls from %" PRIu64 " to %" PRIu64, table->key,
                   table->next_token, now->next_token);
    if (now->next_token > 0)
        table->next_token = now->next_token;
    checker_taken_away(checker, table, now);
    checker_leases(checker, table, now);
    checker_pairs(checker, table, now);
}

/* The expiry index is in the same folder as the tables of its namespace. */
static bool is_table(struct view key)
{
    return (view_starts_with(key, VIEW("default/")) &&
            !view_starts_with(key, VIEW("default/.lease-index/"))) ||
           view_starts_with(key, VIEW("metadata/"));
}

/* The mark in place of the table of paths, if they are in pages. It is put only where no table is,
 * and stays. */
static bool checker_mark(struct lock_checker *checker, struct checked_table *table,
                         struct view body)
{
    bool now = body.data && view_starts_with(body, VIEW("{\"format\":\"holdfast.leases/2\","));
    if (now && table->version)
        world_fail(checker_world(checker), "%s is replaced by a placement mark", table->key);
    if (table->marked && !now)
        world_fail(checker_world(checker), "the placement mark %s is replaced", table->key);
    table->marked = now;
    return now;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct lock_checker *checker = argument;
    if (!is_table(change->key))
        return;
    struct checked_table *table = checked_table_of(checker, change->key);
    if (checker_mark(checker, table, change->body))
        return;
    /* A table in which one bit has changed can often be read, and is damaged all the same. */
    bool readable = change->body.data && !checker->spoiling;
    struct checked_version *now =
        readable ? checked_version_read(change->body, table->version) : NULL;
    bool may_go = checker->damaging || (checker->options.purged && !change->body.data);
    if (!now && !may_go)
        world_fail(checker_world(checker), "what was written to %s is no table", table->key);
    else if (now && !checker->damaging)
        checker_version(checker, table, now);
    line_checker(checker, table, now);
    checked_version_free(table->version);
    table->version = now;
    checker_look(checker);
}

void checker_damage(struct lock_checker *checker, struct view key, struct view body,
                    enum checker_damage damage)
{
    struct bucket *bucket = net_bucket(checker->run->net);
    struct checked_table *table = checked_table_of(checker, key);
    struct condition always = { 0 };
    struct put_call put = { .key = key, .body = body, .condition = always };
    struct delete_call remove = { .key = key, .condition = always };
    checker->damaging = checker->damaged = true;
    checker->spoiling = damage == DAMAGE_VISIBLE;
    if (body.data)
        bucket_put(bucket, &put);
    else
        bucket_delete(bucket, &remove);
    checker->damaging = checker->spoiling = false;
    for (size_t i = 0; i < table->token_count; i++) {
        table->tokens[i].over = table->tokens[i].unlisted = true;
        table->tokens[i].forgiven = table->tokens[i].forgiven || damage == DAMAGE_HIDDEN;
    }
}

bool checker_any_damage(const struct lock_checker *checker)
{
    return checker->damaged;
}

/* ---- Start and end ------------------------------------------------------------------- */

struct lock_checker *lock_checker_new(struct run *run,
                                      const struct lock_checker_options *options)
{
    struct lock_checker *checker = checker_allocate(sizeof *checker);
    checker->run = run;
    checker->options = *options;
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    struct node_watch watch = { .ended = checker_node_ended, .argument = checker };
    world_watch_nodes(run->world, watch, checker->node_watches);
    return checker;
}

void lock_checker_free(struct lock_checker *checker)
{
    for (size_t i = 0; i < checker->claim_count; i++)
        free(checker->claims[i]);
    while (checker->tables) {
        struct checked_table *table = checker->tables;
        checker->tables = table->next;
        checked_version_free(table->version);
        free(table->turns);
        free(table->tokens);
        free(table->key);
        free(table);
    }
    free(checker->claims);
    free(checker);
}

/* Whether an entry belongs to a handle of the node's current incarnation that was freed so long ago
 * that the entry should be gone. */
static bool is_left_behind(const struct lock_checker *checker,
                           const struct checked_entry *entry, const struct node *node,
                           struct span since)
{
    const struct claim *claim = checked_claim_of(checker, entry);
    int64_t by_us = checker_now_us(checker) - since.us;
    return claim && claim->node == node && claim->life == node_lives(node) && !claim->open &&
           claim->freed_us <= by_us && claim->freed_us >= node_runs_since_us(node);
}

void checker_quiet(struct lock_checker *checker, struct node *node, struct span since)
{
    for (const struct checked_table *table = checker->tables; table; table = table->next) {
        const struct checked_version *version = table->version;
        for (size_t i = 0; version && i < version->waiter_count; i++)
            if (is_left_behind(checker, &version->waiters[i], node, since))
                world_fail(checker_world(checker),
                           "node %u has long stopped waiting for %s, and is in line still",
                           node_number(node), table->key);
        for (size_t i = 0; version && i < version->lease_count; i++) {
            const struct checked_entry *lease = &version->leases[i];
            const struct checked_token *token = checked_token_of(table, lease->token);
            bool never_held = token && !token->told;
            if (lease->active && never_held && is_left_behind(checker, lease, node, since))
                world_fail(checker_world(checker),
                           "token %" PRIu64 " of %s, which node %u never knew to have, was not "
                           "given back",
                           lease->token, table->key, node_number(node));
        }
    }
}

/* A pin conflicts with nothing, so no other client has a reason to end it. */
static bool is_pin(const struct checked_entry *entry)
{
    for (size_t i = 0; i < entry->wish.scope_count; i++)
        if (entry->wish.scopes[i].kind != CHECKED_PIN &&
            entry->wish.scopes[i].kind != CHECKED_SNAPSHOT)
            return false;
    return entry->wish.scope_count > 0;
}

/* Whether the entry belongs to a process that is running or ended normally. */
static bool is_of_the_living(const struct lock_checker *checker,
                             const struct checked_entry *entry)
{
    const struct claim *claim = checked_claim_of(checker, entry);
    return claim && claim->life == node_lives(claim->node);
}

/* Whether the lease is a pin whose holder crashed, abandoned it, or got no reply when it ended the
 * pin. */
static bool is_lost_pin(const struct checked_table *table, const struct checked_entry *lease)
{
    const struct checked_token *token = checked_token_of(table, lease->token);
    return is_pin(lease) && token && token->holders == 0;
}

/* Whether the waiter is waiting for another waiter. */
static bool is_behind_another(const struct checked_version *version, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (checked_conflict(&version->waiters[i].wish, &version->waiters[index].wish))
            return true;
    return false;
}

void lock_checker_end(struct lock_checker *checker)
{
    struct world *world = checker_world(checker);
    for (const struct checked_table *table = checker->tables; table; table = table->next) {
        const struct checked_version *version = table->version;
        for (size_t i = 0; version && i < version->lease_count; i++) {
            const struct checked_entry *lease = &version->leases[i];
            if (lease->active && lease->token > 0 && !is_lost_pin(table, lease))
                world_fail(world, "token %" PRIu64 " of %s is still held at the end",
                           lease->token, table->key);
        }
        for (size_t i = 0; version && i < version->waiter_count; i++) {
            const struct checked_entry *waiter = &version->waiters[i];
            /* A dead waiter is dropped by the next client once the dead waiter's turn has
             * come. */
            if (is_of_the_living(checker, waiter) ||
                (!waiter->reserved && !is_behind_another(version, i)))
                world_fail(world, "%.*s still waits for %s at the end", VIEW_ARGS(waiter->id),
                           table->key);
        }
    }
}
