/* judge_claim.c: what nodes ask for and are told, handle by handle. */
#include "base/check.h"
#include "sim/belief.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* By how much two clocks may differ after a while, and what it may take to begin. */
#define DRIFT_PPM INT64_C(1000)

/* A keeper tells within this time. */
#define TELL_TIME_US INT64_C(200000)

/* ---- Handles ------------------------------------------------------------------------- */

struct claim *judge_claim(struct judge_lock *judge, struct node *node,
                          const struct lock_wish *wish)
{
    static const enum judged_mode modes[] = { [HF_EXCLUSIVE] = JUDGED_EXCLUSIVE,
                                              [HF_SHARED] = JUDGED_SHARED,
                                              [HF_SLOTS] = JUDGED_SLOTS };
    struct claim *claim = judge_allocate(sizeof *claim);
    claim->judge = judge;
    claim->number = judge->claim_count;
    judge->claims = judge_grow(judge->claims, judge->claim_count, sizeof *judge->claims);
    judge->claims[judge->claim_count++] = claim;
    claim->next = judge->open;
    judge->open = claim;
    claim->open = true;
    claim->node = node;
    claim->life = node_lives(node);
    claim->table = judged_table_of(judge, view_of(wish->key));
    claim->wish = (struct judged_wish){ .mode = modes[wish->mode],
                                        .slots = wish->slots,
                                        .scope_count = wish->scope_count };
    for (size_t i = 0; i < wish->scope_count; i++)
        check(judged_scope_read(view_of(wish->scopes[i]), &claim->wish.scopes[i]));
    return claim;
}

struct claim_note judge_note(const struct claim *claim)
{
    struct claim_note note;
    snprintf(note.text, sizeof note.text, "\"%u/%" PRIu32 "/%" PRIu64 "\"",
             node_number(claim->node), claim->life, claim->number);
    return note;
}

/* One handle of its token less. */
static void stop_counting(struct claim *claim)
{
    if (!claim->counted)
        return;
    struct judged_token *token = judged_own_token(claim);
    claim->counted = false;
    token->holders--;
    token->let_go_us = judge_now_us(claim->judge);
}

static void close_claim(struct claim *claim)
{
    struct claim **at = &claim->judge->open;
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
    stop_counting(claim);
    claim->lock = NULL;
    claim->asking = claim->open = false;
    claim->freed_us = judge_now_us(claim->judge);
}

void judge_freed(struct claim *claim)
{
    close_claim(claim);
}

void judge_node_ended(void *argument, struct node *node)
{
    struct judge_lock *judge = argument;
    for (struct claim *claim = judge->open, *next; claim; claim = next) {
        next = claim->next;
        if (claim->node == node)
            close_claim(claim);
    }
}

/* ---- Asking -------------------------------------------------------------------------- */

void judge_asks(struct claim *claim, enum judge_ask how, int64_t patience_ms)
{
    int64_t patience_us =
        patience_ms < INT64_MAX / 2000 ? patience_ms * 1000 : INT64_C(1) << 60;
    claim->asking = true;
    claim->how = how;
    claim->leaving = false;
    claim->asked_us = judge_now_us(claim->judge);
    claim->may_leave_us = claim->asked_us + patience_us - patience_us / 1000000 * DRIFT_PPM;
    claim->in_way = judged_in_way(claim, claim->table->version);
}

void judge_told_held(struct claim *claim)
{
    if (!claim->in_way)
        world_fail(judge_world(claim->judge),
                   "node %u is told that %s is held, and nothing was in its way",
                   node_number(claim->node), claim->table->key);
}

/* How long ago is not judged: one whose only answer of the store took an hour does not know,
 * and in doubt it was done. */
void judge_told_already(struct claim *claim)
{
    for (size_t i = 0; i < claim->table->token_count; i++) {
        const struct judged_token *token = &claim->table->tokens[i];
        if (strcmp(token->end, "completed") == 0)
            return;
    }
    world_fail(judge_world(claim->judge),
               "node %u is told that %s was done already, and it never was",
               node_number(claim->node), claim->table->key);
}

void judge_refused(struct claim *claim, enum hf_status status)
{
    claim->asking = false;
    bool certain = claim->how == JUDGE_ASKS_ONCE ? status != HF_UNSURE && status != HF_LOST
                                                 : status == HF_TIMEOUT;
    if (certain)
        claim->refused = status;
}

void judge_leaves(struct claim *claim)
{
    claim->leaving = true;
}

/* ---- Holding ------------------------------------------------------------------------- */

static void count_in(struct claim *claim, struct judged_token *token)
{
    token->nodes |= UINT64_C(1) << (node_number(claim->node) - 1);
    token->holders++;
    claim->counted = true;
}

void judge_held(struct claim *claim, struct hf_lock *lock, bool adopted)
{
    struct judge_lock *judge = claim->judge;
    claim->asking = false;
    claim->token = hf_lock_token(lock);
    struct judged_token *token = judged_token_of(claim->table, claim->token);
    if (!token) {
        world_fail(judge_world(judge),
                   "node %u was told token %" PRIu64 " of %s, which no write has granted",
                   node_number(claim->node), claim->token, claim->table->key);
        return;
    }
    if (token->told && !adopted)
        world_fail(judge_world(judge), "token %" PRIu64 " of %s was told a second time",
                   claim->token, claim->table->key);
    token->told = true;
    count_in(claim, token);
    claim->lock = lock;
    claim->held_us = judge_now_us(judge);
    judge_look(judge);
}

void judge_told_over(struct claim *claim)
{
    claim->told_over = true;
}

/* One who ran all the time since it could have been told that it is in danger, and did not get
 * it too late for that. */
static bool should_know_danger(const struct claim *claim)
{
    const struct judged_entry *lease = judged_by_token(claim->table->version, claim->token);
    return claim->judge->options.own_clock && lease && lease->active && claim->lock &&
           !judged_forgiven(claim) &&
           claim->held_us < judge_now_us(claim->judge) - TELL_TIME_US &&
           node_runs_since_us(claim->node) <
               judge_now_us(claim->judge) - (int64_t)lease->ttl_ms * 1000 - JUDGE_WAKE_TIME_US;
}

void judge_told(struct claim *claim, enum hf_lock_event event, bool kept)
{
    if (event == HF_LOCK_GONE) {
        if (kept && !claim->told_danger && should_know_danger(claim))
            world_fail(judge_world(claim->judge),
                       "node %u is told that token %" PRIu64
                       " of %s is gone, and not before that it was in danger",
                       node_number(claim->node), claim->token, claim->table->key);
        claim->told_gone = true;
    }
    claim->told_danger = event == HF_LOCK_DANGER;
}

bool judge_was_told_gone(const struct claim *claim)
{
    return claim->told_gone;
}

void judge_passed_on(struct claim *claim)
{
    claim->passed_on = true;
}

/* Who has passed it on believes on its own risk from when somebody adopts it. */
static void forgive_former_holders(const struct claim *adopter, uint64_t number)
{
    for (struct claim *claim = adopter->judge->open; claim; claim = claim->next)
        if (claim->table == adopter->table && claim->token == number && claim->passed_on)
            claim->forgiven = true;
}

void judge_adopting(struct claim *claim, uint64_t number, bool begins)
{
    struct judged_token *token = judged_token_of(claim->table, number);
    check(token);
    token->adopted = true;
    claim->token = number;
    if (begins) {
        count_in(claim, token);
        forgive_former_holders(claim, number);
        /* Its end may be on its way; what is over already must not be adopted. */
        token->forgiven = token->forgiven || (token->let_go && !token->over);
    } else {
        stop_counting(claim);
    }
}

static struct judged_token *token_in(struct judge_lock *judge, const char *key, uint64_t token)
{
    struct judged_token *record = judged_token_of(judged_table_of(judge, view_of(key)), token);
    check(record);
    return record;
}

void judge_breaks(struct judge_lock *judge, const char *key, uint64_t token)
{
    token_in(judge, key, token)->breaks++;
}

/* What certainly was not broken, and will not be, is judged as before. */
void judge_broke(struct judge_lock *judge, const char *key, uint64_t token,
                 enum hf_status status)
{
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT)
        token_in(judge, key, token)->breaks--;
}

void judge_lets_go(struct claim *claim, enum judge_end how)
{
    struct judged_token *token = judged_own_token(claim);
    claim->over_before_release = token->over && !judged_forgiven(claim) && !token->unlisted;
    /* On its node's clock, which may be a little slow. */
    int64_t left_us =
        claim->lock ? belief_left_ms(judge_world(claim->judge), claim->lock) * 999 : 0;
    claim->sure_until_us = judge_now_us(claim->judge) + left_us;
    claim->lock = NULL;
    claim->end = how;
    token->let_go = true;
    token->forgiven = token->forgiven || token->adopted; /* for whoever adopted it */
}

/* Whether the table says of a lease that is over what its holder asked for. */
static bool ended_as_asked(const struct claim *claim, const struct judged_token *token)
{
    static const char *const words[] = { [JUDGE_RELEASES] = "",
                                         [JUDGE_COMPLETES] = "completed",
                                         [JUDGE_FAILS] = "failed",
                                         [JUDGE_FREES] = "",
                                         [JUDGE_ABANDONS] = "" };
    return token->unlisted || strcmp(token->end, words[claim->end]) == 0 ||
           (claim->end == JUDGE_RELEASES && strcmp(token->end, "released") == 0);
}

void judge_released(struct claim *claim, enum hf_status status)
{
    struct judged_token *token = judged_own_token(claim);
    struct world *world = judge_world(claim->judge);
    stop_counting(claim);
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
    if (status == HF_LOST && !token->adopted && !token->unlisted && token->over &&
        judge_now_us(claim->judge) < claim->sure_until_us &&
        token->ended_by == node_number(claim->node) && ended_as_asked(claim, token))
        world_fail(world,
                   "node %u is told that token %" PRIu64
                   " of %s was lost, which it has ended itself, and in time",
                   node_number(claim->node), claim->token, claim->table->key);
    if (status == HF_OK && !token->adopted && !ended_as_asked(claim, token))
        world_fail(world,
                   "node %u is told OK when it ends token %" PRIu64 " of %s, which is %s",
                   node_number(claim->node), claim->token, claim->table->key,
                   token->end[0] != '\0' ? token->end : "not there");
}
