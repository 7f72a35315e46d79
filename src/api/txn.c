/* SPDX-License-Identifier: Apache-2.0 */
/* txn.c: opens a transaction, and commits it or rolls it back, given only its id. */
#include "key/key.h"

enum hf_status hf_txn_open(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                           struct hf_error *error)
{
    struct hf_error why;
    char id[TXN_ID_SIZE + 1];
    if (ERROR_IF_NULL(error, client, ret_id) != HF_OK)
        return HF_INVALID;
    enum hf_status status = txn_open(client, id, &why);
    if (status == HF_OK)
        memcpy(ret_id, id, sizeof id);
    return error_tell(error, status, &why);
}

enum hf_status hf_txn_decide(struct hf_client *client, const char *id,
                             enum hf_decision decision, enum hf_decision *ret_decision,
                             struct hf_error *error)
{
    struct hf_error why;
    enum txn_state recorded = TXN_ABSENT;
    if (ERROR_IF_NULL(error, client, id) != HF_OK)
        return HF_INVALID;
    if (decision != HF_COMMIT && decision != HF_ROLLBACK)
        return error_set(error, HF_INVALID, "decision must be HF_COMMIT or HF_ROLLBACK");
    enum hf_status status = txn_decide(client, view_of(id), decision, &recorded, &why);
    if (status != HF_OK)
        return error_tell(error, status, &why);
    enum hf_decision decided = recorded == TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK;
    if (ret_decision)
        *ret_decision = decided;
    if (decided == decision)
        return error_clear(error);
    return error_set(error, HF_MISMATCH, "%s",
                     decided == HF_COMMIT
                         ? "the transaction is already committed and cannot be rolled back"
                         : "it was rolled back, by a client or because the lease on one of its "
                           "keys had ended; none of its changes were published");
}

enum hf_status hf_txn_give_up(struct hf_client *client, const char *id, bool *ret_done,
                              struct hf_error *error)
{
    struct hf_error why;
    bool done = false;
    if (ERROR_IF_NULL(error, client, id) != HF_OK)
        return HF_INVALID;
    enum hf_status status = txn_give_up(client, view_of(id), &done, &why);
    if (status == HF_OK && ret_done)
        *ret_done = done;
    return error_tell(error, status, &why);
}
