/* SPDX-License-Identifier: Apache-2.0 */
/* purge.c: deletes records that are no longer needed. It guards against a commit that reads as
 * rolled back: while a stage exists, only the record contains the decision. So the record of a
 * commit is purged D after the decision, and only if every participant has been observed to have no
 * stage left. The record of a rollback can be deleted after D, because a missing record means the
 * same. */
#include "base/rule.h"
#include "key/txn_inside.h"

/* Replaces a timestamp on an unreadable clock with one on a clock that the next client can read.
 * Otherwise it could never be proven that D has passed. */
static enum hf_status restamp_unreadable(struct hf_client *client,
                                         const struct txn_record *record,
                                         const struct evidence *evidence,
                                         struct hf_error *error)
{
    struct stamp stamp = record->state == TXN_PENDING ? record->began : record->decided;
    struct record_op op;
    if (stamp_is_readable(stamp, evidence) || !evidence->time_known ||
        record->restamps >= STAMP_RESTAMPS_MAX)
        return HF_OK;
    record_op_init(&op, RECORD_RESTAMP, view_of(record->id), client_deadline(client));
    return record_change(client, &op, error);
}

/* Rolls the transaction back if it began more than D ago, unless another client has just decided
 * it. */
static enum hf_status purge_pending(struct hf_client *client, const struct txn_record *record,
                                    const struct evidence *evidence,
                                    enum purge_result *ret_result, struct hf_error *error)
{
    const struct lease_settings *settings = client_settings(client);
    struct record_op op;
    *ret_result = PURGE_NOT_YET;
    if (!stamp_passed(record->began, record->seen, settings->late_bound,
                      settings->skew_tolerance, evidence))
        return restamp_unreadable(client, record, evidence, error);
    record_op_init(&op, RECORD_DECIDE, view_of(record->id), client_deadline(client));
    op.decision = TXN_ROLLBACK;
    enum hf_status status = record_change(client, &op, error);
    if (status == HF_OK && op.recorded != TXN_COMMIT)
        *ret_result = op.recorded == TXN_ROLLBACK ? PURGE_DECIDED : PURGE_GONE;
    return status;
}

/* Settles the transaction's stages. For a commit, OK means that every participant was observed to
 * be without its stage. For a rollback this does not matter. */
static enum hf_status settle_participants(struct hf_client *client,
                                          const struct txn_record *record,
                                          struct hf_error *error)
{
    bool commit = record->state == TXN_COMMIT;
    for (size_t i = 0; i < record->key_count; i++) {
        enum hf_status status =
            stage_end(client, &record->keys[i], view_of(record->id), commit, error);
        if (commit && status != HF_OK)
            return status;
    }
    return HF_OK;
}

static enum hf_status delete_record(struct hf_client *client, const struct txn_record *record,
                                    const struct etag *etag, enum purge_result *ret_result,
                                    struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    record_key(view_of(record->id), key);
    struct delete_call call = { .key = view_of(key), .deadline = client_deadline(client) };
    if (client_store(client)->traits.delete_conditional)
        call.condition = if_match(etag);
    enum hf_status status = store_delete(client_store(client), &call);
    if (status == HF_OK || status == HF_NOT_FOUND) {
        *ret_result = status == HF_OK ? PURGE_DONE : PURGE_GONE;
        return HF_OK;
    }
    if (status == HF_CONFLICT) { /* another client has changed or purged it */
        client_note_conflicts(client, view_of(key), 1);
        *ret_result = PURGE_NOT_YET;
        return HF_OK;
    }
    *error = call.error;
    return status;
}

bool record_is_due(struct hf_client *client, const struct txn_record *record)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(client_clock(client), &evidence);
    return client_store(client)->traits.delete_conditional &&
           record_may_purge(record, client_settings(client), &evidence);
}

bool record_clear_read(struct hf_client *client, const struct txn_record *record,
                       const struct etag *etag, bool settled)
{
    enum purge_result result = PURGE_NOT_YET;
    struct hf_error ignored;
    bool needed = RULE(READ_RECORD_CLEARED_WHEN_APPLIED) && record->state == TXN_COMMIT &&
                  !record->applied && !settled;
    if (!record_is_due(client, record) || needed)
        return false;
    return delete_record(client, record, etag, &result, &ignored) == HF_OK &&
           result != PURGE_NOT_YET;
}

static enum hf_status purge_decided(struct hf_client *client, const struct txn_record *record,
                                    const struct etag *etag, const struct evidence *evidence,
                                    enum purge_result *ret_result, struct hf_error *error)
{
    if (!record_may_purge(record, client_settings(client), evidence)) {
        *ret_result = PURGE_NOT_YET;
        return restamp_unreadable(client, record, evidence, error);
    }
    enum hf_status status = HF_OK;
    if (RULE(RECORD_PURGED_WHEN_APPLIED) && !record->applied)
        status = settle_participants(client, record, error);
    if (status == HF_OK)
        status = delete_record(client, record, etag, ret_result, error);
    return status;
}

enum hf_status txn_purge(struct hf_client *client, struct view id,
                         enum purge_result *ret_result, struct hf_error *error)
{
    struct evidence evidence = { .nonce = VIEW("") };
    struct txn_record record;
    struct etag etag;
    struct hf_error why;
    enum purge_result result = PURGE_GONE;
    enum hf_status status = txn_id_valid(id)
                                ? record_get(client, id, &record, &etag, &why)
                                : error_set(&why, HF_INVALID, "not a transaction id");
    clock_evidence(client_clock(client), &evidence);
    if (status == HF_OK) {
        status = record.state == TXN_PENDING
                     ? purge_pending(client, &record, &evidence, &result, &why)
                     : purge_decided(client, &record, &etag, &evidence, &result, &why);
        record_release(&record);
    } else if (status == HF_NOT_FOUND) {
        status = HF_OK;
    }
    if (status != HF_OK) {
        if (error)
            *error = why;
        return status;
    }
    *ret_result = result;
    return error_clear(error);
}
