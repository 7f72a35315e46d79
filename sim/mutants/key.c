/* SPDX-License-Identifier: Apache-2.0 */
/* key.c: the mutants of src/key. */
#include "sim/mutants/key.h"

#include "base/rule.h"
#include "key/txn_inside.h"

#include <stdlib.h>

void mutant_takes_up_own_stage(struct key_state *state, struct view txn, uint64_t token,
                               bool *moved)
{
    bool own = state->staged && txn.size > 0 && view_equal(view_of(state->stage.txn), txn);
    if (RULE(OVER_FOR_ITS_OWN_TOO) || !own || state->stage.token == token)
        return;
    state->stage.token = token;
    *moved = true;
}

void mutant_deletes_old_state_early(struct hf_key *key, const struct key_state *state,
                                    enum hf_status status)
{
    if (RULE(OLD_STATE_AFTER_THE_SWAP))
        return;
    if (status == HF_UNSURE)
        key_note_state(key, state);
    key_clear_up_locked(key);
}

void mutant_takes_pending_for_committed(enum txn_state *state)
{
    if (!RULE(SETTLED_BY_THE_RECORD) && *state == TXN_PENDING)
        *state = TXN_COMMIT;
}

void mutant_begins_late(struct hf_txn *txn)
{
    struct record_op op;
    if (RULE(RECORD_BEFORE_STAGE) || txn->joined)
        return;
    record_op_init(&op, RECORD_BEGIN, id_of(txn), client_deadline(txn->client));
    op.owner = view_of(txn->owner);
    op.holder = view_of(client_holder(txn->client));
    op.open = txn->open;
    txn_ask(txn, &op, NULL);
}

static enum hf_status add_names(struct doc_op *base, void *body,
                                const struct evidence *evidence)
{
    struct record_op *op = (struct record_op *)(void *)base;
    struct txn_record *record = body;
    (void)evidence;
    if (!record->keys)
        record->keys = calloc(TXN_KEYS_MAX, sizeof *record->keys);
    for (size_t i = 0; record->keys && i < op->key_count; i++)
        if (!record_names(record, &op->keys[i]) && record->key_count < TXN_KEYS_MAX)
            record->keys[record->key_count++] = op->keys[i];
    base->changed = true;
    return HF_OK;
}

void mutant_names_participants_late(struct hf_txn *txn, const struct txn_key *names,
                                    size_t count)
{
    struct record_op op;
    if (RULE(PARTICIPANTS_WITH_THE_DECISION) || txn->known != TXN_COMMIT)
        return;
    record_op_init(&op, RECORD_ENLIST, id_of(txn), client_deadline(txn->client));
    op.op.apply = add_names;
    op.keys = names;
    op.key_count = count;
    txn_ask(txn, &op, NULL);
}

void mutant_commits_any_record(const struct record_op *op, struct txn_record *record)
{
    if (!RULE(COMMIT_NEEDS_PENDING) && op->decision == TXN_COMMIT &&
        record->state != TXN_COMMIT)
        record->state = TXN_PENDING;
}

void mutant_leaves_last_key(size_t *count)
{
    if (!RULE(STEP_SETTLES_EVERY_KEY) && *count > 1)
        --*count;
}

void mutant_keeps_refused_keys(struct hf_key **keys, struct hf_error *results, size_t *count)
{
    size_t left = 0;
    if (RULE(REFUSED_TAKES_NOTHING))
        return;
    for (size_t i = 0; i < *count; i++) {
        if (results[i].status == HF_OK) {
            hf_key_detach(keys[i]);
            continue;
        }
        results[left] = results[i];
        keys[left++] = keys[i];
    }
    *count = left;
}

void mutant_forgets_replies(struct hf_txn_change *changes, size_t count)
{
    for (size_t i = 1; !RULE(EVERY_STAGE_IS_AWAITED) && i < count; i++)
        if (changes[i].status == HF_UNSURE) {
            changes[i].status = HF_OK;
            changes[i].key->unconfirmed = false;
        }
}
