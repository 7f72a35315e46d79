/* SPDX-License-Identifier: Apache-2.0 */
/* bank_diff.c: compares each key document, decision record and body that the store applied with its
 * previous version. It fails the run if a rule in bank_checker.h forbids the change. */
#include "base/check.h"
#include "sim/checkers/bank_inside.h"
#include "sim/checkers/checker_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* The possible error of the clocks that prove that D has passed, as a fraction of D. */
#define LATE_BOUND_SLACK(bound) ((bound).us / 20)

/* ---- Documents ------------------------------------------------------------------------- */

static bool is_same(const struct banked_version *a, const struct banked_version *b)
{
    return strcmp(a->etag, b->etag) == 0;
}

static bool is_active(const struct checked_version *table, uint64_t token)
{
    const struct checked_entry *lease = checked_by_token(table, token);
    return lease && lease->active;
}

static bool is_held_alone(const struct checked_version *table, uint64_t token)
{
    const struct checked_entry *lease = checked_by_token(table, token);
    return lease && lease->active && lease->wish.mode == CHECKED_EXCLUSIVE;
}

static bool is_of_txn(const struct banked_stage *stage)
{
    return stage->there && stage->txn[0] != '\0';
}

/* Whether both are the same stage, possibly with different changes. */
static bool goes_on(const struct banked_stage *before, const struct banked_stage *now)
{
    return now->there && strcmp(now->txn, before->txn) == 0 && now->token == before->token;
}

/* Two consecutive versions of a document. */
struct step {
    struct bank_checker *checker;
    struct banked_key *key;
    const struct checked_version *before; /* the previous leases; NULL: there was no document */
    const struct checked_version *now;
};

#define STEP_FAIL(step, format, ...) \
    BANK_FAIL((step)->checker, "%s " format, (step)->key->name, __VA_ARGS__)

static unsigned sender_number(const struct bank_checker *checker)
{
    struct net_sender sender = net_sender(checker->run->net);
    return sender.node ? node_number(sender.node) : 0;
}

/* A node that cannot acquire all its keys releases those that it has acquired, before any of them
 * is reported to it. */
static bool is_given_back(const struct step *step, const struct banked_stage *stage,
                          const struct banked_txn *txn)
{
    return !stage->changes && !txn->told_taken[step->key->number] &&
           step->key->taker == sender_number(step->checker) &&
           !is_active(step->now, stage->token);
}

/* Whether the step that commits the stage's transaction has published a value that the transaction
 * wrote, in place of what was staged. A removed value does not show who wrote it. */
static bool is_written_by_commit(const struct step *step, const struct banked_txn *txn,
                                 const struct banked_version *now)
{
    const struct banked_operation *operation =
        banked_operation_of(step->checker, now->operation);
    return step->checker->committed == txn &&
           (now->removed || (operation && operation->txn == txn));
}

/* The stage of a transaction is gone. `published`: the value that took its place, or NULL. */
static void checker_settled(const struct step *step, const struct banked_stage *stage,
                            bool promoted, const struct banked_version *published)
{
    const struct banked_txn *txn = banked_txn_of(step->checker, view_of(stage->txn));
    bool commits = txn->record == RECORD_COMMITS;
    if (published && is_written_by_commit(step, txn, published))
        return;
    if (promoted && !commits)
        STEP_FAIL(step, "has what %s staged, whose record does not say commit", txn->id);
    else if (stage->changes && !promoted && commits)
        STEP_FAIL(step, "has lost what %s staged, whose record says commit", txn->id);
    else if (!commits && !txn->was_rollback && !txn->was_commit &&
             !is_given_back(step, stage, txn))
        STEP_FAIL(step, "is let go by %s before it is decided", txn->id);
}

/* A stage outside a transaction is gone, or was superseded by a state that the lease published
 * immediately. */
static void checker_finished(const struct step *step, const struct banked_stage *stage,
                             bool promoted, bool superseded)
{
    if (promoted && !is_active(step->before, stage->token))
        STEP_FAIL(step, "has what token %" PRIu64 " staged, which was not active",
                  stage->token);
    if (!promoted && !superseded && is_active(step->now, stage->token))
        STEP_FAIL(step, "has lost what token %" PRIu64 " staged, which is active",
                  stage->token);
}

/* Handles a stage that is gone, for any reason; changes *before as if the stage had never
 * existed. */
static void checker_stage_gone(const struct step *step, struct banked_state *before,
                               const struct banked_state *now)
{
    const struct banked_stage stage = before->stage;
    bool promoted =
        stage.changes && is_same(&now->now, &stage.next) && !is_same(&now->now, &before->now);
    bool published = !promoted && !is_same(&now->now, &before->now);
    if (is_of_txn(&stage))
        checker_settled(step, &stage, promoted, published ? &now->now : NULL);
    else
        checker_finished(step, &stage, promoted,
                         !is_same(&now->now, &before->now) && now->now.token == stage.token);
    if (promoted) {
        uint64_t number = before->now.number + 1;
        before->now = stage.next;
        before->now.number = number;
    }
    before->stage = (struct banked_stage){ .there = false };
}

static bool was_held_before(const struct banked_key *key, const struct banked_version *version)
{
    for (size_t i = 0; i < key->moment_count; i++)
        if (is_same(&key->moments[i].version, version))
            return true;
    return false;
}

/* An id is a session and a number. */
static struct view session_in(struct view id)
{
    return view_first(id, view_find(id, '-'));
}

/* Notes which node waits. Only a node itself joins a queue. */
static void note_session(struct bank_checker *checker, struct view id)
{
    struct net_sender sender = net_sender(checker->run->net);
    struct view session = session_in(id);
    void *old;
    if (!sender.node || map_get(&checker->sessions, session))
        return;
    char *name = banked_new(checker, session.size);
    struct banked_session *noted = banked_new(checker, sizeof *noted);
    memcpy(name, session.data, session.size);
    *noted = (struct banked_session){ sender.node, sender.life };
    check(map_put(&checker->sessions, (struct view){ name, session.size }, noted, &old));
}

/* Whether the process that waits may still be running. */
static bool may_be_alive(const struct bank_checker *checker, struct view id)
{
    const struct banked_session *session = map_get(&checker->sessions, session_in(id));
    return !session ||
           (node_is_up(session->node) && node_lives(session->node) == session->life);
}

/* A node may change a key without a lease if nobody holds it, waits for it or has staged a change,
 * and then uses up a token. One write may contain several operations of a node, so a lease or
 * waiter counts only if it is still there afterwards. A waiter that has died does not count. */
static void checker_changed_at_once(const struct step *step, const struct banked_state *before,
                                    const struct banked_state *now)
{
    uint64_t token = now->now.token;
    if (!step->before || token < step->before->next_token || token >= step->now->next_token)
        STEP_FAIL(step, "is published under token %" PRIu64 ", which was not active", token);
    if (checked_by_token(step->now, token))
        STEP_FAIL(step, "is published under token %" PRIu64 ", which is that of a lease",
                  token);
    if (before->stage.there)
        STEP_FAIL(step, "is published past the stage of token %" PRIu64, before->stage.token);
    for (size_t i = 0; step->before && i < step->before->lease_count; i++) {
        uint64_t held = step->before->leases[i].token;
        if (step->before->leases[i].active && is_active(step->now, held))
            STEP_FAIL(step, "is published without a lease while token %" PRIu64 " is active",
                      held);
    }
    for (size_t i = 0; step->before && i < step->before->waiter_count; i++)
        if (checked_waiter(step->now, step->before->waiters[i].id) &&
            may_be_alive(step->checker, step->before->waiters[i].id))
            STEP_FAIL(step, "is published past %.*s, which waits for it",
                      VIEW_ARGS(step->before->waiters[i].id));
}

/* Versions that nobody has been told of. */
static size_t count_untold(const struct banked_key *key)
{
    size_t count = 0;
    for (size_t i = 0; i < key->unseen_count; i++)
        count += !key->unseen[i].told;
    return count;
}

/* The write has made more than one version. Notes those that were replaced in the same write. */
static bool is_made_together(const struct step *step, const struct banked_state *before,
                             const struct banked_state *now)
{
    struct banked_key *key = step->key;
    uint64_t replaced = now->now.number - before->now.number - 1;
    bool nothing = before->now.number == 0 || before->now.removed;
    if (now->now.number <= before->now.number || !step->before || !nothing ||
        is_held_alone(step->before, now->now.token) ||
        now->now.token < step->before->next_token + replaced ||
        count_untold(key) + replaced > banked_open_removals(step->checker, key))
        return false;
    for (uint64_t i = 1; i <= replaced; i++) {
        key->unseen = checker_grow(key->unseen, key->unseen_count, sizeof *key->unseen);
        key->unseen[key->unseen_count++] =
            (struct banked_unseen){ .number = before->now.number + i };
    }
    return true;
}

static void checker_published(const struct step *step, const struct banked_state *before,
                              const struct banked_state *now)
{
    if (now->now.number != before->now.number + 1 && !is_made_together(step, before, now))
        STEP_FAIL(step, "has version %" PRIu64 " after %" PRIu64, now->now.number,
                  before->now.number);
    if (!is_held_alone(step->before, now->now.token))
        checker_changed_at_once(step, before, now);
    const struct banked_operation *operation =
        banked_operation_of(step->checker, now->now.operation);
    if (operation && operation->txn && !operation->txn->was_commit)
        STEP_FAIL(step, "holds what %s wrote, which is not committed", operation->txn->id);
    if (was_held_before(step->key, &now->now))
        STEP_FAIL(step, "holds operation %" PRIu64 " a second time", now->now.operation);
    if (is_of_txn(&before->stage))
        STEP_FAIL(step, "is published though it is taken for %s", before->stage.txn);
}

/* A stage is new, or its changes differ. */
static void checker_staged(const struct step *step, const struct banked_stage *before,
                           const struct banked_stage *now)
{
    bool changes = now->changes && !(before->changes && is_same(&before->next, &now->next));
    bool taken = !before->there || before->token != now->token;
    /* One write may take a key and, for another request of the same node, end the lease. */
    if (taken && !is_held_alone(step->now, now->token) &&
        !is_held_alone(step->before, now->token))
        STEP_FAIL(step, "is taken under token %" PRIu64 ", which is not active", now->token);
    if (changes && !is_held_alone(step->before, now->token))
        STEP_FAIL(step, "is staged under token %" PRIu64 ", which was not active", now->token);
    if (before->changes && !now->changes)
        STEP_FAIL(step, "has lost what token %" PRIu64 " staged", now->token);
    if (changes && is_of_txn(now) &&
        banked_txn_of(step->checker, view_of(now->txn))->was_commit)
        STEP_FAIL(step, "is staged for %s after its commit", now->txn);
    if (taken)
        step->key->taker = sender_number(step->checker);
    if (is_of_txn(now) && !before->there) {
        const struct banked_txn *txn = banked_txn_of(step->checker, view_of(now->txn));
        if (!txn->was_pending)
            STEP_FAIL(step, "is taken for %s, which has no record", txn->id);
    }
}

static void checker_state(const struct step *step, struct banked_state before,
                          const struct banked_state *now)
{
    if (before.stage.there && !goes_on(&before.stage, &now->stage))
        checker_stage_gone(step, &before, now);
    if (!is_same(&before.now, &now->now))
        checker_published(step, &before, now);
    else if (before.now.number != now->now.number)
        STEP_FAIL(step, "has number %" PRIu64 " and had %" PRIu64, now->now.number,
                  before.now.number);
    if (now->stage.there)
        checker_staged(step, &before.stage, &now->stage);
}

/* ---- Waiting ---------------------------------------------------------------------------- */

bool banked_is_held_for(const struct banked_key *key, struct view txn)
{
    const struct banked_stage *stage = &key->state.stage;
    return is_of_txn(stage) && view_equal(view_of(stage->txn), txn) &&
           is_active(key->table, stage->token);
}

/* Whether two entries belong to the same client. */
static bool is_same_session(struct view a, struct view b)
{
    return view_equal(session_in(a), session_in(b));
}

/* The workload notes the transaction with each request for a key. */
static void checker_waits(const struct step *step, const struct checked_entry *waiter)
{
    struct view txn = waiter->note;
    if (txn.size < 2)
        return;
    txn = view_first(view_from(txn, 1), txn.size - 2); /* without the quotes */
    for (size_t i = 0; i < step->checker->options.key_count; i++) {
        const struct banked_key *held = &step->checker->keys[i];
        if (strcmp(held->name, step->key->name) <= 0 || !banked_is_held_for(held, txn))
            continue;
        const struct checked_entry *lease =
            checked_by_token(held->table, held->state.stage.token);
        if (is_same_session(lease->id, waiter->id))
            STEP_FAIL(step, "is waited for by %.*s, which holds %s", VIEW_ARGS(txn),
                      held->name);
    }
}

static void checker_new_waiters(const struct step *step)
{
    for (size_t i = 0; i < step->now->waiter_count; i++)
        if (!step->before || !checked_waiter(step->before, step->now->waiters[i].id)) {
            note_session(step->checker, step->now->waiters[i].id);
            checker_waits(step, &step->now->waiters[i]);
        }
}

/* ---- Contents --------------------------------------------------------------------------- */

/* Looks up the contents of a version, and records that it was seen. */
static void look_up(struct bank_checker *checker, const struct banked_key *key,
                    struct banked_version *version, bool published)
{
    if (version->has_body) {
        char name[256];
        snprintf(name, sizeof name, "%s/%" PRIu64 "-%s", key->name, version->token,
                 version->etag);
        struct banked_body *body = map_get(&checker->bodies, view_of(name));
        if (!body || !body->there || body->size != version->size) {
            BANK_FAIL(checker, "%s names the body %s, which is not there", key->name, name);
            return;
        }
        body->named = true;
        version->operation = body->operation;
        version->balance = body->balance;
    }
    struct banked_operation *operation = banked_operation_of(checker, version->operation);
    if (version->operation == 0)
        return;
    if (!operation || operation->key != key->number || operation->balance != version->balance) {
        BANK_FAIL(checker, "%s holds what nobody has written there", key->name);
        return;
    }
    if (!published && !operation->staged)
        operation->staged_since = checker->changes;
    if (published && operation->version > 0 && operation->version != version->number)
        BANK_FAIL(checker, "%s holds operation %" PRIu64 " a second time", key->name,
                  operation->number);
    *(published ? &operation->published : &operation->staged) = true;
    if (published)
        operation->version = version->number;
    if (operation->refused || (published && operation->dropped))
        BANK_FAIL(checker, "%s holds operation %" PRIu64 ", which was told as not done",
                  key->name, operation->number);
}

static void look_up_all(struct bank_checker *checker, const struct banked_key *key,
                        struct banked_state *state)
{
    if (!is_same(&state->now, &key->state.now))
        look_up(checker, key, &state->now, /* published */ true);
    else
        state->now = key->state.now;
    if (state->stage.changes)
        look_up(checker, key, &state->stage.next, /* published */ false);
}

static void document_gone(struct bank_checker *checker, struct banked_key *key)
{
    const struct banked_version *now = &key->state.now;
    if ((now->number > 0 && !now->removed) || key->state.stage.there)
        BANK_FAIL(checker, "the document of %s goes, which holds something", key->name);
    checked_version_free(key->table);
    key->table = NULL;
    key->state = (struct banked_state){ .now = { .number = 0 } };
}

void checker_document_changed(struct bank_checker *checker, struct banked_key *key,
                              const struct bucket_change *change)
{
    struct banked_state state;
    if (!change->body.data) {
        document_gone(checker, key);
        return;
    }
    const char *why = banked_state_read(change->body, &state);
    struct checked_version *table = checked_version_read(change->body, key->table);
    if (why || !table) {
        BANK_FAIL(checker, "what was written to %s is no key: %s", key->name, why ? why : "");
        checked_version_free(table);
        return;
    }
    if (table->next_token > 0 && table->next_token < key->next_token)
        BANK_FAIL(checker, "tokens of %s fall", key->name);
    if (table->next_token > 0) /* otherwise it was just created, and does not contain them */
        key->next_token = table->next_token;
    look_up_all(checker, key, &state);
    struct step step = { .checker = checker, .key = key, .before = key->table, .now = table };
    checker_state(&step, key->state, &state);
    checker_new_waiters(&step);
    checked_version_free(key->table);
    key->table = table;
    key->state = state;
}

/* ---- Records --------------------------------------------------------------------------- */

static bool has_stage_of(const struct banked_key *key, const struct banked_txn *txn)
{
    return key->state.stage.there && strcmp(key->state.stage.txn, txn->id) == 0;
}

/* Whether the stage differs both from what was reported to the node and from everything staged
 * later. */
static bool is_behind(const struct bank_checker *checker, const struct banked_stage *stage,
                      uint64_t since)
{
    const struct banked_operation *staged = banked_operation_of(checker, stage->next.operation);
    return !stage->changes ||
           (!stage->next.removed && (!staged || staged->staged_since < since));
}

static void checker_commit(struct bank_checker *checker, struct banked_txn *txn)
{
    if (txn->record != RECORD_IS_PENDING)
        BANK_FAIL(checker, "%s is committed, and was not pending", txn->id);
    if (txn->told_rollback)
        BANK_FAIL(checker, "%s is committed, and was told as rolled back", txn->id);
    for (size_t i = 0; i < checker->options.key_count; i++) {
        const struct banked_key *key = &checker->keys[i];
        const struct banked_stage *stage = &key->state.stage;
        bool has = has_stage_of(key, txn);
        if (txn->names[i] && !has)
            BANK_FAIL(checker, "%s is committed, and %s has not its stage", txn->id, key->name);
        if (txn->told_taken[i] && !has)
            BANK_FAIL(checker,
                      "%s is committed, and does not hold %s, which it was told to have",
                      txn->id, key->name);
        if (has && stage->changes && !txn->names[i])
            BANK_FAIL(checker, "%s is committed without naming %s", txn->id, key->name);
        bool kept = has && txn->told_kept[i] > 0; /* checked at the end of the step */
        if (txn->told_staged[i] && !kept &&
            (!has || is_behind(checker, stage, txn->staged_since[i])))
            BANK_FAIL(checker, "%s is committed without what was told as staged in %s", txn->id,
                      key->name);
        txn->tokens[i] = txn->names[i] && has ? stage->token : 0;
    }
    checker->committed = txn;
}

void checker_step_ended(struct bank_checker *checker)
{
    const struct banked_txn *txn = checker->committed;
    for (size_t i = 0; txn && i < checker->options.key_count; i++) {
        const struct banked_operation *kept = banked_operation_of(checker, txn->told_kept[i]);
        const struct banked_version *worth = banked_worth(checker, &checker->keys[i]);
        if (kept && (kept->removes ? !worth->removed : worth->operation != kept->number))
            BANK_FAIL(checker, "%s is committed without what was told as staged in %s", txn->id,
                      checker->keys[i].name);
    }
    checker->committed = NULL;
}

/* A stage of the commit is not settled yet. A node that could not acquire all its keys may
 * have left a stage that it created later, or that belongs to no participant; such a stage
 * has no effect. */
static bool is_unsettled(const struct banked_key *key, const struct banked_txn *txn)
{
    const struct banked_stage *stage = &key->state.stage;
    return has_stage_of(key, txn) &&
           (stage->changes || stage->token == txn->tokens[key->number]);
}

static void record_gone(struct bank_checker *checker, struct banked_txn *txn)
{
    struct span bound = checker->options.late_bound;
    int64_t age_us = world_now_us(bank_world(checker)) - txn->decided_us;
    if (txn->record == RECORD_IS_PENDING)
        BANK_FAIL(checker, "the record of %s goes, which is pending", txn->id);
    else if (age_us < bound.us - LATE_BOUND_SLACK(bound))
        BANK_FAIL(checker, "the record of %s goes %" PRId64 " us after its decision", txn->id,
                  age_us);
    for (size_t i = 0; txn->record == RECORD_COMMITS && i < checker->options.key_count; i++)
        if (is_unsettled(&checker->keys[i], txn))
            BANK_FAIL(checker, "the record of %s goes, which says commit, and %s has its stage",
                      txn->id, checker->keys[i].name);
    txn->record = RECORD_IS_ABSENT;
}

static void read_names(const struct bank_checker *checker,
                       const struct banked_record_text *text, struct banked_txn *txn)
{
    memset(txn->names, 0, sizeof txn->names);
    for (size_t i = 0; i < text->key_count; i++) {
        struct view name = text->keys[i];
        view_cut(&name, '/'); /* the namespace */
        for (size_t k = 0; k < checker->options.key_count; k++)
            if (view_equal(name, view_of(checker->keys[k].name)))
                txn->names[k] = true;
    }
}

/* A record may be written again with the same decision. A commit must then name the same keys as
 * before; any other record may name additional ones. */
static void checker_again(struct bank_checker *checker, const struct banked_txn *txn,
                          const bool *names_before)
{
    for (size_t i = 0; i < checker->options.key_count; i++)
        if (names_before[i] != txn->names[i] &&
            (names_before[i] || txn->record == RECORD_COMMITS))
            BANK_FAIL(checker, "the record of %s has other participants than before", txn->id);
}

void checker_record_changed(struct bank_checker *checker, struct view id,
                            const struct bucket_change *change)
{
    struct banked_txn *txn = banked_txn_of(checker, id);
    struct banked_record_text text;
    bool names_before[BANK_KEYS_MAX];
    if (!change->body.data) {
        record_gone(checker, txn);
        return;
    }
    const char *why = banked_record_read(change->body, &text);
    if (why || !view_equal(text.id, id)) {
        BANK_FAIL(checker, "what was written to %s is no record of it: %s", txn->id,
                  why ? why : "another id");
        return;
    }
    memcpy(names_before, txn->names, sizeof names_before);
    read_names(checker, &text, txn);
    if (text.record == txn->record) {
        checker_again(checker, txn, names_before);
        return;
    }
    bool decided = txn->record == RECORD_COMMITS || txn->record == RECORD_ROLLS_BACK;
    if (decided ||
        (text.record == RECORD_IS_PENDING && (txn->was_pending || txn->was_rollback)))
        BANK_FAIL(checker, "the record of %s changes its decision", txn->id);
    if (text.record == RECORD_COMMITS)
        checker_commit(checker, txn);
    if (text.record != RECORD_IS_PENDING && !txn->was_commit && !txn->was_rollback)
        txn->decided_us = world_now_us(bank_world(checker));
    txn->record = text.record;
    txn->was_pending = txn->was_pending || text.record == RECORD_IS_PENDING;
    txn->was_commit = txn->was_commit || text.record == RECORD_COMMITS;
    txn->was_rollback = txn->was_rollback || text.record == RECORD_ROLLS_BACK;
}

/* ---- Bodies ---------------------------------------------------------------------------- */

static bool names_body(const struct banked_key *key, const struct banked_version *version,
                       struct view name)
{
    char text[256];
    if (!version->has_body)
        return false;
    snprintf(text, sizeof text, "%s/%" PRIu64 "-%s", key->name, version->token, version->etag);
    return view_equal(view_of(text), name);
}

bool banked_names(const struct banked_key *key, struct view body)
{
    const struct banked_stage *stage = &key->state.stage;
    return names_body(key, &key->state.now, body) ||
           (stage->changes && names_body(key, &stage->next, body));
}

static void body_gone(struct bank_checker *checker, struct banked_body *body)
{
    body->there = false;
    for (size_t i = 0; i < checker->options.key_count; i++)
        if (banked_names(&checker->keys[i], body->name))
            BANK_FAIL(checker, "the body %.*s goes, which its document names",
                      VIEW_ARGS(body->name));
}

void checker_body_changed(struct bank_checker *checker, struct view name,
                          const struct bucket_change *change)
{
    struct banked_body *body = map_get(&checker->bodies, name);
    if (!body) {
        void *old;
        char *text = banked_new(checker, name.size + 1);
        memcpy(text, name.data, name.size);
        body = banked_new(checker, sizeof *body);
        body->name = (struct view){ text, name.size };
        body->next = checker->first_body;
        checker->first_body = body;
        check(map_put(&checker->bodies, body->name, body, &old));
    }
    if (!change->body.data) {
        body_gone(checker, body);
        return;
    }
    if (body->there)
        BANK_FAIL(checker, "the body %.*s is written twice", VIEW_ARGS(name));
    body->there = true;
    body->size = change->body.size;
    if (!banked_text_read(change->body, &body->operation, &body->balance))
        BANK_FAIL(checker, "the body %.*s holds what nobody writes", VIEW_ARGS(name));
}
