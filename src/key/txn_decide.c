/* SPDX-License-Identifier: Apache-2.0 */
/* txn_decide.c: ends a transaction: confirms and seals every stage, swaps the record once, then
 * settles the keys: in the same step if the store can do so, and in the background if it is remote.
 * A commit that gets no reply is reported as UNSURE until the record shows the decision. */
#include "base/mutant.h"
#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdatomic.h>
#include <stdlib.h>

/* How many times a commit is tried if other processes keep taking additional keys. */
#define COMMIT_TRIES_MAX 8

/* A missing record means rolled back, with one exception: a commit by this process, or by another
 * process that shares the transaction, may have been recorded so long ago that its record was
 * purged. The outcome is then unknown. Half of D is well before any purge, however much the clocks
 * drift. */
static bool may_be_purged(const struct hf_txn *txn)
{
    struct span since = mono_since(client_now(txn->client), txn->asked_at);
    struct span half = SPAN_US(client_settings(txn->client)->late_bound.us / 2);
    return txn->joined || (txn->asked && since.us >= half.us);
}

static enum hf_status learn_decision(struct hf_txn *txn, const struct record_op *op,
                                     struct hf_error *error)
{
    txn->asked = txn->asked || (op->decision == TXN_COMMIT && op->op.doubt != DOC_DOUBT_NONE);
    bool missing = op->recorded == TXN_ABSENT || op->marked;
    bool given_up =
        op->marked && txn->asked; /* the record may have said commit before it was replaced */
    if (given_up || (missing && may_be_purged(txn)))
        return error_set(error, HF_UNSURE,
                         "transaction %s: it may have been committed; its record is gone",
                         txn->id);
    txn->known = op->recorded == TXN_ABSENT ? TXN_ROLLBACK : op->recorded;
    return HF_OK;
}

/* Swaps the record. CONFLICT: this is a commit, and the record names keys that we do not know. */
static enum hf_status swap_decision(struct hf_txn *txn, enum txn_state decision,
                                    struct hf_error *error)
{
    struct record_op op;
    size_t count = 0;
    struct txn_key *names = txn_names(txn, 0, &count);
    if (!names)
        return error_no_memory(error);
    record_op_init(&op, RECORD_DECIDE, id_of(txn), client_deadline(txn->client));
    op.decision = decision;
    op.keys = names;
    if (RULE(PARTICIPANTS_WITH_THE_DECISION))
        op.key_count = count;
    MUTANT(mutant_begins_late(txn));
    if (decision == TXN_COMMIT && !txn->asked)
        txn->asked_at = client_now(txn->client);
    enum hf_status status = txn_ask(txn, &op, error);
    txn->asked = txn->asked || (decision == TXN_COMMIT && status == HF_UNSURE);
    if (status == HF_OK)
        status = learn_decision(txn, &op, error);
    MUTANT(mutant_names_participants_late(txn, names, count));
    free(names);
    return status;
}

/* Finds out whether a step without a reply was made. Writes the record even if nothing changes, so
 * that a step that is still in flight fails. OK: it is committed, or the decision is another one.
 * CONFLICT: it is pending, and the step was not and will never be made. UNSURE: not known. */
static enum hf_status resolve_step(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), client_deadline(txn->client));
    op.op.settle = true;
    enum hf_status status = txn_ask(txn, &op, error);
    if (status == HF_OK) {
        txn_resume_keys(txn);
        txn->asked = false;
        return error_set(error, HF_CONFLICT, "the commit was lost on its way; try it again");
    }
    /* MISMATCH: it is decided. */
    return status == HF_MISMATCH ? swap_decision(txn, TXN_ROLLBACK, error)
                                 : error_set(error, HF_UNSURE, "no reply to the commit");
}

/* Records a commit and settles the keys in one step of the store. UNSUPPORTED: nothing was changed,
 * and the decision is to be swapped. CONFLICT: nothing was changed, and it may be tried again. */
static enum hf_status commit_and_settle(struct hf_txn *txn, struct hf_error *error)
{
    struct record_op op;
    size_t count = 0;
    /* After a commit without a reply, or with keys of others, the record is asked first. */
    if (txn->asked || txn->other_count > 0 || txn->key_count == 0 ||
        !txn_can_step(txn, txn->key_count + 1))
        return HF_UNSUPPORTED;
    struct txn_key *names = txn_names(txn, 0, &count);
    if (!names)
        return HF_UNSUPPORTED;
    record_op_init(&op, RECORD_DECIDE, id_of(txn), client_deadline(txn->client));
    op.decision = TXN_COMMIT;
    op.settles = true;
    op.keys = names;
    op.key_count = count;
    txn->asked_at = client_now(txn->client);
    enum hf_status status = txn_commit_in_one_step(txn, &op, error);
    txn->asked = status == HF_UNSURE;
    txn->settled = status == HF_OK;
    if (status == HF_OK)
        txn->known = TXN_COMMIT;
    free(names);
    if (txn->asked)
        status = resolve_step(txn, error);
    else if (!txn->settled)
        status = HF_UNSUPPORTED;
    return status;
}

/* A key must not be changed while a commit is in progress or may have taken effect, nor after the
 * decision. The committed versions are those that were staged when the commit was requested. */
static void seal_handles(struct hf_txn *txn, bool sealed)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        txn->keys[i]->sealed = sealed;
        env_mutex_unlock(&txn->keys[i]->calls);
    }
}

/* ---- Settling ------------------------------------------------------------------------ */

/* The keys of a decided transaction, and whether all of them were observed to have no stage. */
struct settle {
    struct hf_txn *txn;
    atomic_bool all;
};

static void settle_key(void *argument, size_t index)
{
    struct settle *settle = argument;
    struct hf_error why;
    bool commit = settle->txn->known == TXN_COMMIT;
    if (key_end(settle->txn->keys[index], commit, &why) != HF_OK)
        atomic_store(&settle->all, false);
}

static void settle_other(struct settle *settle, size_t index)
{
    struct hf_txn *txn = settle->txn;
    struct hf_error why;
    bool commit = txn->known == TXN_COMMIT;
    if (stage_end(txn->client, &txn->others[index], id_of(txn), commit, &why) != HF_OK)
        atomic_store(&settle->all, false);
}

/* Settles the keys as decided and ends their leases. If this fails for a key, the next client that
 * touches the key, or the purge, settles it. If a commit was applied to all keys, this is noted in
 * the record, which then no longer needs to be kept for them. */
static void settle_keys(struct hf_txn *txn)
{
    struct settle settle = { .txn = txn, .all = true };
    struct record_op op;
    txn_each_key(txn, txn->key_count, settle_key, &settle);
    keys_clear_up(txn->keys, txn->key_count);
    for (size_t i = 0; i < txn->other_count; i++)
        settle_other(&settle, i);
    bool lost = RULE(APPLIED_WHEN_ALL_ARE_SETTLED) && !atomic_load(&settle.all);
    if (txn->known != TXN_COMMIT || lost)
        return;
    record_op_init(&op, RECORD_APPLIED, id_of(txn), client_deadline(txn->client));
    struct txn_key *names = txn_names(txn, 0, &op.key_count);
    op.keys = names;
    if (names)
        txn_ask(txn, &op, NULL);
    free(names);
}

static void run_settling(struct background_job *job, bool abandoned)
{
    struct hf_txn *txn = job->argument;
    if (!abandoned)
        settle_keys(txn);
    for (size_t i = 0; i < txn->key_count; i++)
        key_abandon(txn->keys[i]); /* does nothing if the key was settled */
    txn_drop(txn);
}

/* The decision is known, so the caller need not wait for the settling. On a local store it is
 * quick, and is done at once. */
static void begin_settling(struct hf_txn *txn)
{
    bool served = client_server(txn->client);
    seal_handles(txn, true);
    if (txn->settled)
        return;
    for (size_t i = 0; i < txn->key_count; i++)
        if (served)
            key_ended_by_server(txn->keys[i]);
        else
            key_stop(txn->keys[i]);
    if (served)
        return;
    if (client_is_remote(txn->client)) {
        txn->settling = (struct background_job){ .run = run_settling, .argument = txn };
        txn_keep(txn);
        if (background_add(txn->client, &txn->settling))
            return;
        txn_drop(txn);
    }
    settle_keys(txn);
}

/* ---- Checks before a commit ---------------------------------------------------------- */

/* Whether all our leases are valid: OK, EXPIRED or LOST. */
static enum hf_status check_leases(struct hf_txn *txn, struct hf_error *error)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        enum hf_status status = hf_lock_check(txn->keys[i]->lock, error);
        if (status == HF_OK)
            continue;
        if (status == HF_NOT_FOUND)
            status = error_set(error, HF_LOST, "the key is no longer held");
        error_prefix(error, "%s", txn->keys[i]->name);
        return status;
    }
    return HF_OK;
}

/* Seals the stages of other processes in the store, if their leases have not ended: OK or EXPIRED.
 * If we have joined the transaction, also seals our own stages, because another process may have
 * adopted our leases. */
static enum hf_status seal_stored_stages(struct hf_txn *txn, struct hf_error *error)
{
    size_t count = 0;
    if (client_server(txn->client))
        return HF_OK; /* which seals them before it commits */
    struct txn_key *names = txn_names(txn, txn->joined ? 0 : txn->key_count, &count);
    if (!names)
        return error_no_memory(error);
    enum hf_status status = stages_seal(txn->client, names, count, id_of(txn), error);
    free(names);
    return status;
}

/* A change that got no reply may or may not be staged, so a commit would publish an unknown
 * version. */
static enum hf_status check_stages(struct hf_txn *txn, struct hf_error *error)
{
    for (size_t i = 0; i < txn->key_count; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        bool unconfirmed = RULE(STAGES_ARE_CONFIRMED) && txn->keys[i]->unconfirmed;
        env_mutex_unlock(&txn->keys[i]->calls);
        if (unconfirmed)
            return error_set(error, HF_UNSURE,
                             "a change to %s got no reply; repeat it, or roll back",
                             txn->keys[i]->name);
    }
    if (txn->joined && !txn->open)
        return error_set(error, HF_DENIED,
                         "only the process that began the transaction can commit it");
    return HF_OK;
}

/* A lease has ended, so the transaction is rolled back, unless an earlier commit of ours has taken
 * effect. */
static enum hf_status roll_back_expired(struct hf_txn *txn, enum hf_status why,
                                        struct hf_error *error)
{
    struct hf_error no_answer;
    enum hf_status status = swap_decision(txn, TXN_ROLLBACK, &no_answer);
    if (status == HF_OK)
        return txn->known == TXN_COMMIT ? HF_OK : why;
    *error = no_answer;
    return status;
}

/* The keys are settled after the decision, so all changes must be staged before it. */
static enum hf_status stage_and_swap(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < txn->key_count && status == HF_OK; i++) {
        env_mutex_lock(&txn->keys[i]->calls);
        status = key_stage_kept_locked(txn->keys[i], error);
        env_mutex_unlock(&txn->keys[i]->calls);
        if (status != HF_OK)
            error_prefix(error, "%s", txn->keys[i]->name);
    }
    if (status == HF_OK)
        return swap_decision(txn, TXN_COMMIT, error);
    if (status == HF_MISMATCH || status == HF_FENCED) /* it is not held any more */
        status = error->status = HF_LOST;
    return status == HF_EXPIRED || status == HF_LOST ? roll_back_expired(txn, status, error)
                                                     : status;
}

static enum hf_status commit_once(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = check_leases(txn, error);
    seal_handles(txn, true);
    if (status == HF_OK)
        status = check_stages(txn, error); /* before sealing, which cannot be undone */
    if (status == HF_OK)
        status = seal_stored_stages(txn, error);
    if (status == HF_EXPIRED || status == HF_LOST)
        status = roll_back_expired(txn, status, error);
    else if (status == HF_OK && (status = commit_and_settle(txn, error)) == HF_UNSUPPORTED)
        status = stage_and_swap(txn, error);
    if (txn->known == TXN_PENDING && !txn->asked)
        seal_handles(txn, false);
    return status;
}

static enum hf_status commit_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum hf_status status = HF_CONFLICT;
    enum txn_state state = TXN_PENDING;
    for (int tries = 0; tries < COMMIT_TRIES_MAX; tries++) {
        bool look = tries > 0 || txn->joined || txn->asked;
        status = look ? txn_learn_others(txn, &state, error) : HF_OK;
        if (status == HF_OK && state == TXN_PENDING)
            status = commit_once(txn, error);
        else if (status == HF_OK)
            status = swap_decision(txn, TXN_ROLLBACK, error); /* only learns the decision */
        if (status != HF_CONFLICT)
            break;
    }
    return status;
}

/* Rolls back, or learns the decision. */
static enum hf_status roll_back_locked(struct hf_txn *txn, struct hf_error *error)
{
    enum txn_state state;
    if (txn_end_unbegun(txn, /* decided */ false)) { /* it has neither a record nor a key */
        txn->known = TXN_ROLLBACK;
        return HF_OK;
    }
    if (txn->joined && txn_learn_others(txn, &state, error) != HF_OK)
        txn->other_count = 0; /* the next client that touches their keys settles them */
    return swap_decision(txn, TXN_ROLLBACK, error);
}

/* Decides the transaction unless it is already decided, and compares the decision with the one
 * that was requested. */
static enum hf_status decide_locked(struct hf_txn *txn, enum txn_state wanted,
                                    struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (txn->known == TXN_PENDING) {
        if (wanted == TXN_COMMIT)
            status = txn_ensure_begun(txn, error);
        if (status == HF_MISMATCH) /* it was decided before we knew that it had begun */
            status = swap_decision(txn, TXN_ROLLBACK, error);
        else if (wanted == TXN_COMMIT && status == HF_OK)
            status = commit_locked(txn, error);
        else if (wanted != TXN_COMMIT)
            status = roll_back_locked(txn, error);
        if (txn->known != TXN_PENDING) {
            (void)txn_end_unbegun(txn, /* decided */ true);
            txn_event(txn->client, id_of(txn), txn->known);
            begin_settling(txn);
        }
    }
    /* An earlier commit may have taken effect, or may still do so. Whatever kept this call from
     * learning the decision says nothing about that. CORRUPT does not claim to, and asks for what
     * has to be done first. */
    bool in_doubt = txn->known == TXN_PENDING && txn->asked;
    if (in_doubt && status != HF_OK && status != HF_CORRUPT)
        status = error->status = HF_UNSURE;
    if (status == HF_OK && txn->known != wanted)
        status = error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                           txn_state_name(txn->known));
    return status;
}

static enum hf_status decide_for_caller(struct hf_txn *txn, enum txn_state wanted,
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
    return decide_for_caller(txn, TXN_COMMIT, ret_decision, error);
}

enum hf_status hf_txn_rollback(struct hf_txn *txn, enum hf_decision *ret_decision,
                               struct hf_error *error)
{
    return decide_for_caller(txn, TXN_ROLLBACK, ret_decision, error);
}
