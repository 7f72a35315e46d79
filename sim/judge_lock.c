#include "sim/judge_lock.h"

#include "base/check.h"
#include "sim/belief.h"

#include <inttypes.h>
#include <stdlib.h>

/* A renewal may have been begun this long before it seems to have been: the store's date is known
 * by whole seconds, and the wider the longer its reply took. */
#define RENEWAL_SLACK_US (INT64_C(30) * 1000000)

/* What is known of a token. */
struct judged_token {
    uint64_t token;
    bool over; /* some version of the table had it not active any more */
    uint64_t renewals;
    unsigned holders;  /* handles that rely on it */
    bool told;         /* some handle did */
    bool forgiven;     /* somebody ends it without asking those who rely on it */
    bool unlisted;     /* its table was damaged since */
    int64_t let_go_us; /* since when none does */
};

struct judged_table {
    struct judged_table *next;
    char *key;
    struct judged_version *version; /* NULL: absent or damaged */
    uint64_t next_token;            /* the highest seen */
    struct judged_token *tokens;    /* in order of grants, which is that of the tokens */
    size_t token_count;
};

struct claim {
    struct judge_lock *judge;
    struct claim *next;         /* of all */
    struct claim *next_holding; /* of those that rely on their lease */
    struct node *node;
    struct judged_table *table;
    struct judged_wish wish;
    struct hf_lock *lock; /* NULL: does not rely on it */
    uint64_t token;
    bool told_over; /* by hf_lock_check */
    bool told_gone; /* by the keeper */
    bool forgiven;  /* passed on */
    bool over_before_release;
};

struct judge_lock {
    struct run *run;
    struct judge_lock_options options;
    struct bucket_watch watch;
    struct node_watch node_watches[NODES_MAX];
    struct judged_table *tables;
    struct claim *claims;
    struct claim *holding;
    bool damaging;
};

/* ---- Small things -------------------------------------------------------------------- */

static struct world *world_of(const struct judge_lock *judge)
{
    return judge->run->world;
}

static void *allocate(size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *bytes = calloc(1, size);
    heap_enter(before);
    check(bytes);
    return bytes;
}

static struct judged_table *find_table(struct judge_lock *judge, struct view key)
{
    for (struct judged_table *table = judge->tables; table; table = table->next)
        if (view_equal(view_of(table->key), key))
            return table;
    return NULL;
}

static struct judged_table *table_of(struct judge_lock *judge, struct view key)
{
    struct judged_table *table = find_table(judge, key);
    if (table)
        return table;
    table = allocate(sizeof *table);
    table->key = allocate(key.size + 1);
    memcpy(table->key, key.data, key.size);
    table->next = judge->tables;
    judge->tables = table;
    return table;
}

static struct judged_token *token_of(const struct judged_table *table, uint64_t token)
{
    for (size_t i = table->token_count; i-- > 0;)
        if (table->tokens[i].token == token)
            return &table->tokens[i];
    return NULL;
}

/* The token that a claim was told. */
static struct judged_token *own_token(const struct claim *claim)
{
    struct judged_token *token = token_of(claim->table, claim->token);
    check(token);
    return token;
}

static bool is_forgiven(const struct claim *claim)
{
    return claim->forgiven || own_token(claim)->forgiven;
}

/* ---- Belief -------------------------------------------------------------------------- */

/* Whether the holder relies on its lease and would be told that it may. */
static bool believes(struct claim *claim)
{
    bool ok = belief_of(world_of(claim->judge), claim->lock) == HF_OK;
    if (ok && (claim->told_over || claim->told_gone))
        world_fail(world_of(claim->judge),
                   "node %u believes in token %" PRIu64 " of %s again, after it was %s",
                   node_number(claim->node), claim->token, claim->table->key,
                   claim->told_gone ? "told that it is gone" : "told that it is over");
    return ok;
}

/* One who believes in something else that this gets in the way of; of those who share slots, one
 * of too many. */
static struct claim *find_conflict(struct judge_lock *judge, const struct judged_table *table,
                                   uint64_t token, const struct judged_wish *wish)
{
    uint64_t sharing = 1;
    for (struct claim *claim = judge->holding; claim; claim = claim->next_holding) {
        if (claim->table != table || claim->token == token || is_forgiven(claim) ||
            !judged_conflict(&claim->wish, wish) || !believes(claim))
            continue;
        if (!judged_share_slots(&claim->wish, wish) || ++sharing > wish->slots)
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
        world_fail(world_of(judge),
                   "token %" PRIu64 " of %s %s while node %u still believes in token %" PRIu64,
                   token, table->key, what, node_number(other->node), other->token);
}

void judge_look(struct judge_lock *judge)
{
    for (struct claim *claim = judge->holding; claim; claim = claim->next_holding)
        if (!is_forgiven(claim) && believes(claim))
            judge_exclusion(judge, claim->table, claim->token, &claim->wish, "is believed in");
}

/* ---- What the store applied ---------------------------------------------------------- */

static bool is_granted(const struct judged_version *version, struct view id)
{
    for (size_t i = 0; i < version->lease_count; i++)
        if (version->leases[i].active && view_equal(version->leases[i].id, id))
            return true;
    return false;
}

/* Whether somebody left the line without a lease: then the next ones may take their turn in any
 * order, in this very write. One who missed its turn may stand at the end again at once; then the
 * count of missed turns tells. */
static bool anybody_left(const struct judged_version *before, const struct judged_version *now)
{
    for (size_t i = 0; i < before->waiter_count; i++)
        if (!judged_waiter(now, before->waiters[i].id) &&
            !is_granted(now, before->waiters[i].id))
            return true;
    return false;
}

static void judge_order(struct judge_lock *judge, const struct judged_table *table,
                        const struct judged_version *now, const struct judged_entry *granted)
{
    const struct judged_version *before = table->version;
    if (!before || before->missed > 0 || now->missed > 0 || anybody_left(before, now))
        return;
    for (size_t i = 0; i < before->waiter_count; i++) {
        const struct judged_entry *waiter = &before->waiters[i];
        if (view_equal(waiter->id, granted->id))
            return;
        if (judged_conflict(&waiter->wish, &granted->wish) &&
            !judged_share_slots(&waiter->wish, &granted->wish) &&
            judged_waiter(now, waiter->id))
            world_fail(world_of(judge),
                       "%.*s of %s, who waited longer, is overtaken by token %" PRIu64,
                       VIEW_ARGS(waiter->id), table->key, granted->token);
    }
}

static struct judged_token *add_token(struct judged_table *table,
                                      const struct judged_entry *granted)
{
    size_t count = table->token_count;
    if ((count & (count - 1)) == 0) {
        size_t room = count > 0 ? 2 * count : 1;
        table->tokens = realloc(table->tokens, room * sizeof *table->tokens);
        check(table->tokens);
    }
    table->tokens[count] = (struct judged_token){ .token = granted->token };
    table->token_count++;
    return &table->tokens[count];
}

static void judge_grant(struct judge_lock *judge, struct judged_table *table,
                        const struct judged_version *now, const struct judged_entry *granted)
{
    uint64_t highest = table->token_count > 0 ? table->tokens[table->token_count - 1].token : 0;
    if (granted->token <= highest)
        world_fail(world_of(judge),
                   "%s grants token %" PRIu64 " after token %" PRIu64 " was granted",
                   table->key, granted->token, highest);
    add_token(table, granted);
    if (granted->wish.scope_count == 0) /* a barrier, which covers those whom it waits for */
        return;
    judge_exclusion(judge, table, granted->token, &granted->wish, "is granted");
    judge_order(judge, table, now, granted);
}

/* When, in true time, the attempt of a grant or renewal was begun, at the latest. */
static int64_t begun_us(const struct judged_entry *lease)
{
    return lease->expires_us - (int64_t)lease->ttl_ms * 1000 - WORLD_EPOCH_US;
}

static void judge_renewal(struct judge_lock *judge, const struct judged_table *table,
                          struct judged_token *token, const struct judged_entry *lease)
{
    if (token->over)
        world_fail(world_of(judge), "token %" PRIu64 " of %s was over, and is active again",
                   token->token, table->key);
    if (lease->renewals == token->renewals)
        return;
    token->renewals = lease->renewals;
    bool let_go = token->told && token->holders == 0;
    if (judge->options.store_time && let_go && lease->expires_us > 0 &&
        begun_us(lease) > token->let_go_us + RENEWAL_SLACK_US)
        world_fail(world_of(judge), "token %" PRIu64 " of %s is renewed after its work ended",
                   token->token, table->key);
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
                world_fail(world_of(judge),
                           "%s says that both token %" PRIu64 " and token %" PRIu64 " hold",
                           table->key, b->token, a->token);
        }
    }
}

static bool is_active(const struct judged_version *version, uint64_t token)
{
    const struct judged_entry *lease = judged_by_token(version, token);
    return lease && lease->active;
}

/* Who still believes must still be there. */
static void judge_taken_away(struct judge_lock *judge, const struct judged_table *table,
                             const struct judged_version *now)
{
    for (struct claim *claim = judge->holding; claim; claim = claim->next_holding)
        if (claim->table == table && !is_forgiven(claim) && !own_token(claim)->unlisted &&
            judge->options.exclusion && !is_active(now, claim->token) && believes(claim))
            world_fail(world_of(judge),
                       "token %" PRIu64 " of %s is ended while node %u still believes in it",
                       claim->token, table->key, node_number(claim->node));
}

static void judge_leases(struct judge_lock *judge, struct judged_table *table,
                         const struct judged_version *now)
{
    for (size_t i = 0; i < table->token_count; i++)
        if (!table->tokens[i].over && !is_active(now, table->tokens[i].token))
            table->tokens[i].over = true;
    for (size_t i = 0; i < now->lease_count; i++) {
        const struct judged_entry *lease = &now->leases[i];
        struct judged_token *token = token_of(table, lease->token);
        if (!lease->active || lease->token == 0)
            continue;
        if (token)
            judge_renewal(judge, table, token, lease);
        else
            judge_grant(judge, table, now, lease);
    }
}

static void judge_version(struct judge_lock *judge, struct judged_table *table,
                          const struct judged_version *now)
{
    if (now->foreign)
        world_fail(world_of(judge), "a table without a format was written to %s", table->key);
    if (now->next_token > 0 && now->next_token < table->next_token)
        world_fail(world_of(judge), "the next token of %s falls from %" PRIu64 " to %" PRIu64,
                   table->key, table->next_token, now->next_token);
    if (now->next_token > 0)
        table->next_token = now->next_token;
    judge_taken_away(judge, table, now);
    judge_leases(judge, table, now);
    judge_pairs(judge, table, now);
}

static bool is_table(struct view key)
{
    return view_starts_with(key, VIEW("default/")) || view_starts_with(key, VIEW("metadata/"));
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct judge_lock *judge = argument;
    if (!is_table(change->key))
        return;
    struct judged_table *table = table_of(judge, change->key);
    struct judged_version *now = change->body.data ? judged_version_read(change->body) : NULL;
    if (!now && !judge->damaging)
        world_fail(world_of(judge), "what was written to %s is no table", table->key);
    else if (now && !judge->damaging)
        judge_version(judge, table, now);
    judged_version_free(table->version);
    table->version = now;
}

/* ---- What nodes are told ------------------------------------------------------------- */

static void stop_holding(struct claim *claim)
{
    struct claim **at = &claim->judge->holding;
    while (*at != claim)
        at = &(*at)->next_holding;
    *at = claim->next_holding;
    claim->lock = NULL;
    struct judged_token *token = own_token(claim);
    token->holders--;
    token->let_go_us = world_now_us(world_of(claim->judge));
}

static void node_has_ended(void *argument, struct node *node)
{
    struct judge_lock *judge = argument;
    for (struct claim *claim = judge->holding, *next; claim; claim = next) {
        next = claim->next_holding;
        if (claim->node == node)
            stop_holding(claim);
    }
}

struct life_note judge_life_note(const struct node *node)
{
    struct life_note note;
    snprintf(note.text, sizeof note.text, "\"node %u, life %" PRIu32 "\"", node_number(node),
             node_lives(node));
    return note;
}

struct claim *judge_claim(struct judge_lock *judge, struct node *node,
                          const struct lock_wish *wish)
{
    static const enum judged_mode modes[] = { [HF_EXCLUSIVE] = JUDGED_EXCLUSIVE,
                                              [HF_SHARED] = JUDGED_SHARED,
                                              [HF_SLOTS] = JUDGED_SLOTS };
    struct claim *claim = allocate(sizeof *claim);
    claim->judge = judge;
    claim->next = judge->claims;
    judge->claims = claim;
    claim->node = node;
    claim->table = table_of(judge, view_of(wish->key));
    claim->wish = (struct judged_wish){ .mode = modes[wish->mode],
                                        .slots = wish->slots,
                                        .scope_count = wish->scope_count };
    for (size_t i = 0; i < wish->scope_count; i++)
        check(judged_scope_read(view_of(wish->scopes[i]), &claim->wish.scopes[i]));
    return claim;
}

void judge_held(struct claim *claim, struct hf_lock *lock, bool adopted)
{
    struct judge_lock *judge = claim->judge;
    claim->token = hf_lock_token(lock);
    struct judged_token *token = token_of(claim->table, claim->token);
    if (!token) {
        world_fail(world_of(judge),
                   "node %u was told token %" PRIu64 " of %s, which no write has granted",
                   node_number(claim->node), claim->token, claim->table->key);
        return;
    }
    if (token->told && !adopted)
        world_fail(world_of(judge), "token %" PRIu64 " of %s was told a second time",
                   claim->token, claim->table->key);
    token->told = true;
    token->holders++;
    claim->lock = lock;
    claim->next_holding = judge->holding;
    judge->holding = claim;
    judge_look(judge);
}

void judge_told_over(struct claim *claim)
{
    claim->told_over = true;
}

void judge_told_gone(struct claim *claim)
{
    claim->told_gone = true;
}

bool judge_was_told_gone(const struct claim *claim)
{
    return claim->told_gone;
}

void judge_let_go(struct claim *claim)
{
    struct judged_token *token = own_token(claim);
    claim->over_before_release = token->over && !is_forgiven(claim) && !token->unlisted;
    if (claim->lock)
        stop_holding(claim);
    token->forgiven = true; /* for whoever adopted it */
}

void judge_released(struct claim *claim, enum hf_status status)
{
    struct judged_token *token = own_token(claim);
    struct world *world = world_of(claim->judge);
    if (status == HF_OK && claim->over_before_release)
        world_fail(world,
                   "node %u is told that all was well with token %" PRIu64
                   " of %s, which somebody had ended before",
                   node_number(claim->node), claim->token, claim->table->key);
    if ((status == HF_OK || status == HF_LOST) && !token->over)
        world_fail(world,
                   "node %u is told %s when it ends token %" PRIu64 " of %s, which is active",
                   node_number(claim->node), hf_status_name(status), claim->token,
                   claim->table->key);
}

void judge_passed_on(struct claim *claim)
{
    claim->forgiven = true;
}

void judge_adopting(struct judge_lock *judge, const char *key, uint64_t token, bool begins)
{
    struct judged_token *record = token_of(table_of(judge, view_of(key)), token);
    check(record);
    record->holders += begins ? 1 : -1u;
    record->let_go_us = world_now_us(world_of(judge));
}

void judge_forgive(struct judge_lock *judge, const char *key, uint64_t token)
{
    struct judged_token *record = token_of(table_of(judge, view_of(key)), token);
    check(record);
    record->forgiven = true;
}

/* ---- Damage -------------------------------------------------------------------------- */

void judge_damage(struct judge_lock *judge, struct view key, struct view body,
                  enum judge_damage damage)
{
    struct bucket *bucket = net_bucket(judge->run->net);
    struct judged_table *table = table_of(judge, key);
    struct condition always = { 0 };
    struct put_call put = { .key = key, .body = body, .condition = always };
    struct delete_call remove = { .key = key, .condition = always };
    judge->damaging = true;
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

/* ---- Beginning and end --------------------------------------------------------------- */

struct judge_lock *judge_lock_new(struct run *run, const struct judge_lock_options *options)
{
    struct judge_lock *judge = allocate(sizeof *judge);
    judge->run = run;
    judge->options = *options;
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    for (size_t i = 0; i < world_node_count(run->world); i++) {
        judge->node_watches[i] =
            (struct node_watch){ .ended = node_has_ended, .argument = judge };
        node_add_watch(world_node(run->world, i), &judge->node_watches[i]);
    }
    return judge;
}

void judge_lock_free(struct judge_lock *judge)
{
    while (judge->claims) {
        struct claim *claim = judge->claims;
        judge->claims = claim->next;
        free(claim);
    }
    while (judge->tables) {
        struct judged_table *table = judge->tables;
        judge->tables = table->next;
        judged_version_free(table->version);
        free(table->tokens);
        free(table->key);
        free(table);
    }
    free(judge);
}

/* Whether it is of a life that has not crashed: of the last one of its node. */
static bool is_of_the_living(const struct judge_lock *judge, const struct judged_entry *entry)
{
    for (size_t i = 0; i < world_node_count(world_of(judge)); i++) {
        struct life_note note = judge_life_note(world_node(world_of(judge), i));
        if (entry->note.data && view_equal(entry->note, view_of(note.text)))
            return true;
    }
    return false;
}

void judge_lock_end(struct judge_lock *judge)
{
    for (const struct judged_table *table = judge->tables; table; table = table->next) {
        const struct judged_version *version = table->version;
        for (size_t i = 0; version && i < version->lease_count; i++)
            if (version->leases[i].active && judge->options.store_time &&
                is_of_the_living(judge, &version->leases[i]))
                world_fail(world_of(judge), "token %" PRIu64 " of %s is still held at the end",
                           version->leases[i].token, table->key);
        for (size_t i = 0; version && i < version->waiter_count; i++)
            if (is_of_the_living(judge, &version->waiters[i]))
                world_fail(world_of(judge), "%.*s still waits for %s at the end",
                           VIEW_ARGS(version->waiters[i].id), table->key);
    }
}
