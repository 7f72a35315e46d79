/* txn_decide.c: how a transaction ends: every stage seen and shut, one swap of its record, then its
 * keys settled. Who has asked for a commit and had no answer never guesses. */
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdlib.h>

/* How often a commit is begun anew because somebody has taken a further key meanwhile. */
#define COMMIT_TRIES_MAX 8

/* ---- The record ---------------------------------------------------------------------- */

/* A record that is missing was rolled back; unless a commit of ours, or of those who share it, may
 * have landed so long ago that it may be purged: then nobody can tell. Half of D is well before
 * anybody purges, however clocks drift. */
static bool may_be_purged(const struct hf_txn *txn)
{
    struct span since = mono_since(env_now(txn->client->env), txn->asked_at);
    struct span half = SPAN_US(txn->client->space.settings.late_bound.us / 2);
    return txn->joined || (txn->asked && since.us >= half.us);
}

static enum hf_status read_answer(struct hf_txn *txn, const struct record_op *op,
                                  struct hf_error *error)
{
    txn->asked = txn->asked || (op->decision == TXN_COMMIT && op->op.doubt != DOC_DOUBT_NONE);
    bool missing = op->recorded == TXN_ABSENT || op->marked;
    bool given_up =
        op->marked && txn->asked; /* as damaged, by a person: it may have said commit */
    if (given_up || (missing && may_be_purged(txn)))
        return error_set(error, HF_UNSURE,
                         "transaction %s: it may have been committed, and its record is gone",
                         txn->id);
    txn->known = op->recorded == TXN_ABSENT ? TXN_ROLLBACK : op->recorded;
    return HF_OK;
}

/* When the participants are named only after the decision, a crash in between leaves a commit
 * that nobody knows the keys of. */
static enum hf_status name_late(struct hf_txn *txn, const struct txn_key *names, size_t count,
                                struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), soon(txn->client));
    op.keys = names;
    op.key_count = count;
    return txn_ask(txn, &op, error);
}

/* Asks the record. CONFLICT: it is to be committed, and names keys that we do not know. */
static enum hf_status decide(struct hf_txn *txn, enum txn_state decision,
                             struct hf_error *error)
{
    struct record_op op;
    size_t count = 0;
    struct txn_key *names = txn_names(txn, 0, &count);
    if (!names)
        return error_no_memory(error);
    bool together = decision != TXN_COMMIT || RULE(PARTICIPANTS_WITH_THE_DECISION);
    record_op_init(&op, RECORD_DECIDE, id_of(txn), soon(txn->client));
    op.decision = decision;
    op.keys = names;
    op.key_count = together ? count : 0;
    if (!RULE(RECORD_BEFORE_STAGE) && !txn->joined)
        txn_begin_record(txn, NULL);
    if (decision == TXN_COMMIT && !txn->asked)
        txn->asked_at = env_now(txn->client->env);
    enum hf_status status = txn_ask(txn, &op, error);
    txn->asked = txn->asked || (decision == TXN_COMMIT && status == HF_UNSURE);
    if (status == HF_OK)
        status = read_answer(txn, &op, error);
    if (status == HF_OK && !together && txn->known == TXN_COMMIT)
        name_late(txn, names, count, NULL);
    free(names);
    return status;
}

/* Notes in the record of a commit that all keys that we know are settled. */
static void note_applied(struct hf_txn *txn)
{
    struct record_op op;
    record_op_init(&op, RECORD_APPLIED, id_of(txn), soon(txn->client));
    struct txn_key *names = txn_names(txn, 0, &op.key_count);
    op.keys = names;
    if (names)
        txn_ask(txn, &op, NULL);
    free(names);
}

/* While its commit is under way, or may be done, and when it is decided, a key of it is not
 * changed any more: what is committed is what was staged when that was asked for. */
static void seal(struct hf_txn *txn, bool sealed)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        txn->keys[i]->sealed = sealed;
        env_mutex_unlock(&txn->keys[i]->calls);
    }
}

/* It was decided as it is known: the keys are settled and given back. What fails here is done by
 * whoever touches the key, or by the purge; a commit notes in its record when nothing has. */
static void settle_keys(struct hf_txn *txn)
{
    struct hf_error why;
    bool commit = txn->known == TXN_COMMIT, all = true;
    seal(txn, true);
    for (size_t i = 0; i < txn->key_count; i++)
        if (key_end(txn->keys[i], commit, &why) != HF_OK)
            all = false;
    keys_clear_up(txn->keys, txn->key_count);
    for (size_t i = 0; i < txn->other_count; i++)
        if (stage_end(txn->client, &txn->others[i], id_of(txn), commit, &why) != HF_OK)
            all = false;
    if (commit && all)
        note_applied(txn);
}

/* Whether every lease of ours is good: OK, EXPIRED or LOST. */
static enum hf_status check_leases(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < txn->key_count && status == HF_OK; i++) {
        status = hf_lock_check(txn->keys[i]->lock, error);
        if (status == HF_NOT_FOUND)
            status = error_set(error, HF_LOST, "it is not held any more");
        if (status != HF_OK)
            error_prefix(error, "%s", txn->keys[i]->name);
    }
    return status;
}

/* What others have staged is sealed in the store, if their leases are good: OK or EXPIRED. So is
 * our own if we have joined: somebody may have adopted its lease. */
static enum hf_status seal_in_store(struct hf_txn *txn, struct hf_error *error)
{
    size_t count = 0;
    struct txn_key *names = txn_names(txn, txn->joined ? 0 : txn->key_count, &count);
    enum hf_status status = names ? HF_OK : error_no_memory(error);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = stage_seal(txn->client, &names[i], id_of(txn), error);
    free(names);
    return status;
}

/* A change that had no answer may stand there or not: to commit would be to commit nobody knows
 * what. */
static enum hf_status check_stages(struct hf_txn *txn, struct hf_error *error)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        bool confirmed = !txn->keys[i]->unconfirmed || !RULE(STAGES_ARE_CONFIRMED);
        env_mutex_unlock(&txn->keys[i]->calls);
        if (!confirmed)
            return error_set(error, HF_UNSURE,
                             "a change of %s had no answer: make it again, or roll back",
                             txn->keys[i]->name);
    }
    if (txn->joined && !txn->open)
        return error_set(error, HF_DENIED, "only the process that began it can commit it");
    return HF_OK;
}

/* Its leases are over, so it is rolled back; unless a commit of ours has landed after all. */
static enum hf_status give_up(struct hf_txn *txn, enum hf_status why, struct hf_error *error)
{
    struct hf_error no_answer;
    enum hf_status status = decide(txn, TXN_ROLLBACK, &no_answer);
    if (status == HF_OK)
        return txn->known == TXN_COMMIT ? HF_OK : why;
    *error = no_answer;
    return status;
}

static enum hf_status commit_once(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = check_leases(txn, error);
    seal(txn, true);
    if (status == HF_OK)
        status = check_stages(txn, error); /* before anybody else's is sealed for it */
    if (status == HF_OK)
        status = seal_in_store(txn, error);
    if (status == HF_EXPIRED || status == HF_LOST)
        status = give_up(txn, status, error);
    else if (status == HF_OK)
        status = decide(txn, TXN_COMMIT, error);
    if (txn->known == TXN_PENDING && !txn->asked)
        seal(txn, false);
    return status;
}

static enum hf_status commit_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    enum txn_state state = TXN_PENDING;
    for (int tries = 0; status == HF_CONFLICT && tries < COMMIT_TRIES_MAX; tries++) {
        status = tries > 0 || txn->joined ? txn_learn_others(txn, &state, error) : HF_OK;
        if (status == HF_OK && state == TXN_PENDING)
            status = commit_once(txn, error);
        else if (status == HF_OK)
            status = decide(txn, TXN_ROLLBACK, error); /* it is decided: that is the answer */
    }
    return status;
}

static enum hf_status rollback_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum txn_state state;
    if (txn->joined && txn_learn_others(txn, &state, error) != HF_OK)
        txn->other_count = 0; /* whoever touches their keys settles them */
    return decide(txn, TXN_ROLLBACK, error);
}

/* Decides it unless it is decided, and tells how that agrees with what was asked. */
static enum hf_status decide_locked(struct hf_txn *txn, enum txn_state wanted,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (txn->known == TXN_PENDING) {
        status = wanted == TXN_COMMIT ? commit_locked(txn, error) : rollback_locked(txn, error);
        if (txn->known != TXN_PENDING) {
            txn_event(txn->client, id_of(txn), txn->known);
            settle_keys(txn);
        }
    }
    if (status == HF_OK && txn->known != wanted)
        status = error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                           txn_state_name(txn->known));
    return status;
}

static enum hf_status decide_public(struct hf_txn *txn, enum txn_state wanted,
                                    enum hf_decision *ret_decision, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, txn) != HF_OK)
        return HF_INVALID;
    client_active(txn->client);
    env_mutex_lock(&txn->mutex);
    enum hf_status status = decide_locked(txn, wanted, &why);
    enum txn_state known = txn->known;
    env_mutex_unlock(&txn->mutex);
    if (ret_decision && known != TXN_PENDING)
        *ret_decision = known == TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK;
    return error_tell(error, status, &why);
}

enum hf_status hf_txn_commit(struct hf_txn *txn, enum hf_decision *ret_decision,
                             struct hf_error *error)
{
    return decide_public(txn, TXN_COMMIT, ret_decision, error);
}

enum hf_status hf_txn_rollback(struct hf_txn *txn, enum hf_decision *ret_decision,
                               struct hf_error *error)
{
    return decide_public(txn, TXN_ROLLBACK, ret_decision, error);
}
