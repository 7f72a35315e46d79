/* SPDX-License-Identifier: Apache-2.0 */
/* claim_checker.c: checks the results that nodes get for each handle: grants, ends and final
 * refusals. */
#include "base/check.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/holder_view.h"

#include <inttypes.h>
#include <stdio.h>

/* How far two clocks may drift apart during a run, plus the startup time. */
#define DRIFT_PPM INT64_C(1000)

/* A keeper notifies its holder within this time. */
#define TELL_TIME_US INT64_C(200000)

/* ---- Handles ------------------------------------------------------------------------- */

struct claim *claim_checker(struct lock_checker *checker, struct node *node,
                            const struct lock_wish *wish)
{
    static const enum checked_mode modes[] = { [HF_EXCLUSIVE] = CHECKED_EXCLUSIVE,
                                               [HF_SHARED] = CHECKED_SHARED,
                                               [HF_SLOTS] = CHECKED_SLOTS };
    struct claim *claim = checker_allocate(sizeof *claim);
    claim->checker = checker;
    claim->number = checker->claim_count;
    checker->claims =
        checker_grow(checker->claims, checker->claim_count, sizeof *checker->claims);
    checker->claims[checker->claim_count++] = claim;
    claim->next = checker->open;
    checker->open = claim;
    claim->open = true;
    claim->node = node;
    claim->life = node_lives(node);
    claim->table = checked_table_of(checker, view_of(wish->key));
    claim->wish = (struct checked_wish){ .mode = modes[wish->mode],
                                         .slots = wish->slots,
                                         .scope_count = wish->scope_count };
    for (size_t i = 0; i < wish->scope_count; i++)
        check(checked_scope_read(view_of(wish->scopes[i]), &claim->wish.scopes[i]));
    return claim;
}

void checker_placed(struct claim *claim, struct view key)
{
    claim->table = checked_table_of(claim->checker, key);
}

struct claim_note checker_note(const struct claim *claim)
{
    struct claim_note note;
    snprintf(note.text, sizeof note.text, "\"%u/%" PRIu32 "/%" PRIu64 "\"",
             node_number(claim->node), claim->life, claim->number);
    return note;
}

/* Removes the claim's handle from the count of its token. */
static void stop_counting(struct claim *claim)
{
    if (!claim->counted)
        return;
    struct checked_token *token = checked_own_token(claim);
    claim->counted = false;
    token->holders--;
    token->let_go_us = checker_now_us(claim->checker);
}

static void close_claim(struct claim *claim)
{
    struct claim **at = &claim->checker->open;
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
    stop_counting(claim);
    claim->lock = NULL;
    claim->asking = claim->open = false;
    claim->freed_us = checker_now_us(claim->checker);
}

void checker_freed(struct claim *claim)
{
    close_claim(claim);
}

void checker_node_ended(void *argument, struct node *node)
{
    struct lock_checker *checker = argument;
    for (struct claim *claim = checker->open, *next; claim; claim = next) {
        next = claim->next;
        if (claim->node == node)
            close_claim(claim);
    }
}

/* ---- Asking -------------------------------------------------------------------------- */

void checker_asks(struct claim *claim, enum checker_ask how, int64_t patience_ms)
{
    int64_t patience_us =
        patience_ms < INT64_MAX / 2000 ? patience_ms * 1000 : INT64_C(1) << 60;
    claim->asking = true;
    claim->how = how;
    claim->leaving = false;
    claim->asked_us = checker_now_us(claim->checker);
    claim->may_leave_us = claim->asked_us + patience_us - patience_us / 1000000 * DRIFT_PPM;
    claim->in_way = checked_in_way(claim, claim->table->version);
}

void checker_told_held(struct claim *claim)
{
    if (!claim->in_way)
        world_fail(checker_world(claim->checker),
                   "node %u is told that %s is held, and nothing was in its way",
                   node_number(claim->node), claim->table->key);
}

/* The age of the completion is not checked. A client whose only reply took an hour does not know
 * the time, and must assume that the work was done. */
void checker_told_already(struct claim *claim)
{
    for (size_t i = 0; i < claim->table->token_count; i++) {
        const struct checked_token *token = &claim->table->tokens[i];
        if (strcmp(token->end, "completed") == 0)
            return;
    }
    world_fail(checker_world(claim->checker),
               "node %u is told that %s was done already, and it never was",
               node_number(claim->node), claim->table->key);
}

void checker_refused(struct claim *claim, enum hf_status status)
{
    claim->asking = false;
    bool certain = claim->how == CHECKER_ASKS_ONCE ? status != HF_UNSURE && status != HF_LOST
                                                   : status == HF_TIMEOUT;
    if (certain)
        claim->refused = status;
}

void checker_leaves(struct claim *claim)
{
    claim->leaving = true;
}

/* ---- Holding ------------------------------------------------------------------------- */

static void count_in(struct claim *claim, struct checked_token *token)
{
    token->nodes |= UINT64_C(1) << (node_number(claim->node) - 1);
    token->holders++;
    claim->counted = true;
}

void checker_held(struct claim *claim, struct hf_lock *lock, bool adopted)
{
    struct lock_checker *checker = claim->checker;
    claim->asking = false;
    claim->token = hf_lock_token(lock);
    struct checked_token *token = checked_token_of(claim->table, claim->token);
    if (!token) {
        world_fail(checker_world(checker),
                   "node %u was told token %" PRIu64 " of %s, which no write has granted",
                   node_number(claim->node), claim->token, claim->table->key);
        return;
    }
    if (token->told && !adopted)
        world_fail(checker_world(checker), "token %" PRIu64 " of %s was told a second time",
                   claim->token, claim->table->key);
    token->told = true;
    count_in(claim, token);
    claim->lock = lock;
    claim->held_us = checker_now_us(checker);
    checker_look(checker);
}

void checker_told_over(struct claim *claim)
{
    claim->told_over = true;
}

/* Whether the holder was granted the lease early enough to be warned, and has been running ever
 * since the warning was due. */
static bool should_know_danger(const struct claim *claim)
{
    const struct checked_entry *lease = checked_by_token(claim->table->version, claim->token);
    return claim->checker->options.own_clock && lease && lease->active && claim->lock &&
           !checked_forgiven(claim) &&
           claim->held_us < checker_now_us(claim->checker) - TELL_TIME_US &&
           node_runs_since_us(claim->node) < checker_now_us(claim->checker) -
                                                 (int64_t)lease->ttl_ms * 1000 -
                                                 CHECKER_WAKE_TIME_US;
}

void checker_told(struct claim *claim, enum hf_lock_event event, bool kept)
{
    if (event == HF_LOCK_GONE) {
        if (kept && !claim->told_danger && should_know_danger(claim))
            world_fail(checker_world(claim->checker),
                       "node %u is told that token %" PRIu64
                       " of %s is gone, and not before that it was in danger",
                       node_number(claim->node), claim->token, claim->table->key);
        claim->told_gone = true;
    }
    claim->told_danger = event == HF_LOCK_DANGER;
}

bool checker_was_told_gone(const struct claim *claim)
{
    return claim->told_gone;
}

void checker_passed_on(struct claim *claim)
{
    claim->passed_on = true;
}

/* A holder that has passed its lease on continues to rely on it at its own risk once another node
 * adopts it. */
static void forgive_former_holders(const struct claim *adopter, uint64_t number)
{
    for (struct claim *claim = adopter->checker->open; claim; claim = claim->next)
        if (claim->table == adopter->table && claim->token == number && claim->passed_on)
            claim->forgiven = true;
}

void checker_adopting(struct claim *claim, uint64_t number, bool begins)
{
    struct checked_token *token = checked_token_of(claim->table, number);
    check(token);
    token->adopted = true;
    claim->token = number;
    if (begins) {
        count_in(claim, token);
        forgive_former_holders(claim, number);
        /* A request to end the lease may be in flight; a lease that has already ended must not be
         * adopted. */
        token->forgiven = token->forgiven || (token->let_go && !token->over);
    } else {
        stop_counting(claim);
    }
}

static struct checked_token *token_in(struct lock_checker *checker, const char *key,
                                      uint64_t token)
{
    struct checked_token *record =
        checked_token_of(checked_table_of(checker, view_of(key)), token);
    check(record);
    return record;
}

void checker_breaks(struct lock_checker *checker, const char *key, uint64_t token)
{
    token_in(checker, key, token)->breaks++;
}

/* If the lease was definitely not broken and will not be, it is checked as before. */
void checker_broke(struct lock_checker *checker, const char *key, uint64_t token,
                   enum hf_status status)
{
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT)
        token_in(checker, key, token)->breaks--;
}

void checker_lets_go(struct claim *claim, enum checker_end how)
{
    struct checked_token *token = checked_own_token(claim);
    claim->over_before_release = token->over && !checked_forgiven(claim) && !token->unlisted;
    /* Measured on the node's clock, which may be slightly slow. */
    int64_t left_us =
        claim->lock ? holder_view_left_ms(checker_world(claim->checker), claim->lock) * 999 : 0;
    claim->sure_until_us = checker_now_us(claim->checker) + left_us;
    claim->lock = NULL;
    claim->end = how;
    token->let_go = true;
    token->forgiven = token->forgiven || token->adopted; /* for its adopter */
}

/* Whether the table shows the end that the holder asked for. */
static bool ended_as_asked(const struct claim *claim, const struct checked_token *token)
{
    static const char *const words[] = { [CHECKER_RELEASES] = "",
                                         [CHECKER_COMPLETES] = "completed",
                                         [CHECKER_FAILS] = "failed",
                                         [CHECKER_FREES] = "",
                                         [CHECKER_ABANDONS] = "" };
    return token->unlisted || strcmp(token->end, words[claim->end]) == 0 ||
           (claim->end == CHECKER_RELEASES && strcmp(token->end, "released") == 0);
}

void checker_released(struct claim *claim, enum hf_status status)
{
    struct checked_token *token = checked_own_token(claim);
    struct world *world = checker_world(claim->checker);
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
        checker_now_us(claim->checker) < claim->sure_until_us &&
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
