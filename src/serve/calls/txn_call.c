/* SPDX-License-Identifier: Apache-2.0 */
/* txn_call.c: begins and decides transactions by their ids. It guards against decisions that a
 * client is told and that do not stand: the answer is what the record says. */
#include "serve/calls/txn_call.h"

#include "base/error.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <string.h>

static bool note_keys(void *argument, const struct hf_txn_info *txn)
{
    struct buffer *names = argument;
    for (size_t i = 0; i < txn->key_count; i++)
        buffer_append(names, (struct view){ txn->keys[i], strlen(txn->keys[i]) + 1 });
    return false;
}

static enum hf_status decide(struct hf_client *client, struct txn_call *call,
                             struct hf_error *error)
{
    bool commits = call->decision == HF_COMMIT;
    if (call->freed) /* without its keys, those who wait notice the decision a little later */
        hf_txn_show(client, call->id, note_keys, call->freed, NULL);
    enum hf_status status =
        hf_txn_decide(client, call->id, call->decision, /* ret_decision */ NULL, error);
    MUTANT(mutant_answers_as_asked(&status));
    if (status == HF_MISMATCH)
        return error_set(error, status,
                         commits ? "the transaction was rolled back: by another client, or "
                                   "because a lease of its keys had ended"
                                 : "the transaction was committed");
    call->state = commits ? HF_TXN_COMMIT : HF_TXN_ROLLBACK;
    return status;
}

static bool note_txn_state(void *argument, const struct hf_txn_info *txn)
{
    enum hf_txn_state *state = argument;
    *state = txn->state;
    return false;
}

static enum hf_status find_state(struct hf_client *client, struct txn_call *call,
                                 struct hf_error *error)
{
    call->state = HF_TXN_ABSENT;
    return hf_txn_show(client, call->id, note_txn_state, &call->state, error);
}

static enum hf_status replay(struct hf_client *client, struct txn_call *call,
                             struct hf_error *error)
{
    enum hf_status status = find_state(client, call, error);
    if (status != HF_OK || (RULE(REPLAY_DECIDES_NOTHING) && call->state == HF_TXN_PENDING))
        return status;
    call->decision = call->state == HF_TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK;
    return decide(client, call, error);
}

static enum hf_status find_pending(struct hf_client *client, struct txn_call *call,
                                   struct hf_error *error)
{
    enum hf_status status = find_state(client, call, error);
    if (status == HF_OK && call->state != HF_TXN_PENDING)
        return error_set(error, HF_MISMATCH, "the transaction is decided: %s",
                         hf_txn_state_name(call->state));
    return status;
}

enum hf_status txn_call_make(struct hf_client *client, struct txn_call *call,
                             struct hf_error *error)
{
    switch (call->kind) {
    case TXN_CALL_BEGIN:
        call->state = HF_TXN_PENDING;
        call->id = call->begun;
        return hf_txn_open(client, call->begun, error);
    case TXN_CALL_DECIDE: return decide(client, call, error);
    case TXN_CALL_REPLAY: return replay(client, call, error);
    case TXN_CALL_CHECK:
    default: return find_pending(client, call, error);
    }
}
