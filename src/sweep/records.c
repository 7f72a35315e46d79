/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: handles an entry of the transaction index: depending on the record's age, rolls the
 * transaction back, settles it or purges the record, and then moves the entry to a later hour or
 * deletes it. A record is deleted only under the conditions in src/key/purge.c. */
#include "base/layout.h"
#include "key/key.h"
#include "sweep/sweep_inside.h"

/* For a dry run: counts what a run would do, as far as a read can show it. */
static enum hf_status look_at_record(struct sweep_run *run, struct view id, bool *ret_gone,
                                     struct hf_error *error)
{
    const struct lease_settings *settings = client_settings(run->client);
    struct txn_record record;
    enum hf_status status = txn_look(run->client, id, &record, error);
    *ret_gone = status == HF_NOT_FOUND;
    if (status != HF_OK)
        return *ret_gone ? HF_OK : status;
    struct evidence evidence = run_evidence(run);
    bool over = record.state == TXN_PENDING &&
                stamp_passed(record.began, evidence.now, settings->late_bound,
                             settings->skew_tolerance, &evidence);
    *ret_gone = record_may_purge(&record, settings, &evidence);
    run->report->rolled_back += over && !run->again;
    run->report->markers_deleted += *ret_gone && !run->again;
    record_release(&record);
    return HF_OK;
}

enum hf_status record_clear(struct sweep_run *run, struct view id, bool *ret_gone,
                            struct hf_error *error)
{
    enum purge_result result;
    if (run->options->dry_run)
        return look_at_record(run, id, ret_gone, error);
    enum hf_status status = txn_purge(run->client, id, &result, error);
    if (status != HF_OK)
        return status;
    run->report->markers_deleted += result == PURGE_DONE;
    run->report->rolled_back += result == PURGE_DECIDED;
    *ret_gone = result == PURGE_DONE || result == PURGE_GONE;
    return HF_OK;
}

static enum hf_status visit_txn_entry(struct sweep_run *run, struct view key,
                                      const struct etag *etag, struct hf_error *error)
{
    struct view id = view_from(key, strlen(LAYOUT_TXN_EXPIRY_FOLDER));
    bool gone = false, deleted = true;
    view_cut(&id, '/');
    if (!txn_id_valid(id))
        return error_set(error, HF_MISMATCH, "not a transaction's index entry");
    enum hf_status status = record_clear(run, id, &gone, error);
    bool dry = run->options->dry_run;
    if (status == HF_OK && !gone && !dry)
        status = record_announce(run->client, id, error);
    if (status == HF_OK && !dry)
        status = entry_delete(run, key, etag, &deleted, error);
    if (status == HF_OK && gone)
        run->report->entries_deleted += deleted;
    else if (status == HF_OK)
        run->report->entries_moved++;
    return status;
}

enum hf_status sweep_records(struct sweep_run *run, struct hf_error *error)
{
    return walk_hours(run, VIEW(LAYOUT_TXN_EXPIRY_FOLDER), run->cursor->txn_entry,
                      visit_txn_entry, error);
}
