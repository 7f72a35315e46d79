/* purge.c: records whose time is over.
 *
 * A record that says commit is the only thing that knows so as long as one of its stages stands:
 * it goes only when every participant was seen without its stage, and D after the decision, so
 * that nobody is still on the way who read the record or a stage before. One that says rollback
 * may go after D whatever stands: a missing one means the same.
 *
 * The sweeper purges by the index; an operation that has read a record on its way clears it, too,
 * once it has settled what it met. */
#include "base/rule.h"
#include "key/txn_inside.h"

/* D, and the rest, as whoever judges goes by them. */
static bool began_long_ago(struct hf_client *client, const struct txn_record *record,
                           const struct evidence *evidence)
{
    const struct lease_settings *settings = &client->space.settings;
    return stamp_passed(record->began, record->seen, settings->late_bound,
                        settings->skew_tolerance, evidence);
}

/* A stamp that nobody can read starts anew by a clock that the next one can. */
static enum hf_status wait_on(struct hf_client *client, const struct txn_record *record,
                              const struct evidence *evidence, struct hf_error *error)
{
    struct stamp stamp = record->state == TXN_PENDING ? record->began : record->decided;
    struct record_op op;
    if (stamp_is_readable(stamp, evidence) || !evidence->time_known ||
        record->restamps >= STAMP_RESTAMPS_MAX)
        return HF_OK;
    record_op_init(&op, RECORD_RESTAMP, view_of(record->id), soon(client));
    return record_change(client, &op, error);
}

/* Unless somebody has decided it just now. */
static enum hf_status roll_back(struct hf_client *client, const struct txn_record *record,
                                enum purge_result *ret_result, struct hf_error *error)
{
    struct record_op op;
    record_op_init(&op, RECORD_DECIDE, view_of(record->id), soon(client));
    op.decision = TXN_ROLLBACK;
    enum hf_status status = record_change(client, &op, error);
    if (status == HF_OK)
        *ret_result = op.recorded == TXN_ROLLBACK ? PURGE_DECIDED
                      : op.recorded == TXN_COMMIT ? PURGE_NOT_YET
                                                  : PURGE_GONE;
    return status;
}

/* Settles what stands of it. OK: every participant was seen without its stage; of a rollback that
 * does not matter. */
static enum hf_status see_applied(struct hf_client *client, const struct txn_record *record,
                                  struct hf_error *error)
{
    bool commit = record->state == TXN_COMMIT;
    enum hf_status status = HF_OK;
    if (record->applied || !RULE(RECORD_PURGED_WHEN_APPLIED))
        return HF_OK;
    for (size_t i = 0; i < record->key_count && (status == HF_OK || !commit); i++)
        status = stage_end(client, &record->keys[i], view_of(record->id), commit, error);
    return commit ? status : HF_OK;
}

static enum hf_status remove_record(struct hf_client *client, const struct txn_record *record,
                                    const struct etag *etag, enum purge_result *ret_result,
                                    struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    record_key(view_of(record->id), key);
    struct delete_call call = { .key = view_of(key), .deadline = soon(client) };
    if (client->store->traits.delete_conditional)
        call.condition = if_match(etag);
    enum hf_status status = store_delete(client->store, &call);
    if (status == HF_OK || status == HF_NOT_FOUND) {
        *ret_result = status == HF_OK ? PURGE_DONE : PURGE_GONE;
        return HF_OK;
    }
    if (status == HF_CONFLICT) { /* somebody has changed or purged it */
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
    clock_evidence(&client->clock, &evidence);
    return client->store->traits.delete_conditional &&
           record_may_purge(record, &client->space.settings, &evidence);
}

bool record_clear_read(struct hf_client *client, const struct txn_record *record,
                       const struct etag *etag, bool settled)
{
    enum purge_result result = PURGE_NOT_YET;
    struct hf_error ignored;
    bool needed = record->state == TXN_COMMIT && !record->applied && !settled;
    if (!record_is_due(client, record) || (needed && RULE(READ_RECORD_CLEARED_WHEN_APPLIED)))
        return false;
    return remove_record(client, record, etag, &result, &ignored) == HF_OK &&
           result != PURGE_NOT_YET;
}

static enum hf_status purge_pending(struct hf_client *client, const struct txn_record *record,
                                    const struct evidence *evidence,
                                    enum purge_result *ret_result, struct hf_error *error)
{
    if (began_long_ago(client, record, evidence))
        return roll_back(client, record, ret_result, error);
    *ret_result = PURGE_NOT_YET;
    return wait_on(client, record, evidence, error);
}

static enum hf_status purge_decided(struct hf_client *client, const struct txn_record *record,
                                    const struct etag *etag, const struct evidence *evidence,
                                    enum purge_result *ret_result, struct hf_error *error)
{
    if (!record_may_purge(record, &client->space.settings, evidence)) {
        *ret_result = PURGE_NOT_YET;
        return wait_on(client, record, evidence, error);
    }
    enum hf_status status = see_applied(client, record, error);
    if (status == HF_OK)
        status = remove_record(client, record, etag, ret_result, error);
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
    enum hf_status status = txn_id_valid(id) ? record_get(client, id, &record, &etag, &why)
                                             : error_set(&why, HF_INVALID, "it is no id");
    clock_evidence(&client->clock, &evidence);
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
