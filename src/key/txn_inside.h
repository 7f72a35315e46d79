/* SPDX-License-Identifier: Apache-2.0 */
/* txn_inside.h: private to the transaction files. */
#ifndef KEY_TXN_INSIDE_H
#define KEY_TXN_INSIDE_H

#include "key/key.h"

static inline struct view id_of(const struct hf_txn *txn)
{
    return view_of(txn->id);
}

/* Makes one change to the transaction's record. */
enum hf_status txn_ask(struct hf_txn *txn, struct record_op *op, struct hf_error *error);

/* The names of our keys from `first` on, then the names of keys that other processes have taken.
 * NULL if out of memory. */
struct txn_key *txn_names(const struct hf_txn *txn, size_t first, size_t *ret_count);

/* Calls step(argument, i) for each of `count` keys: side by side if the store is remote. */
void txn_each_key(struct hf_txn *txn, size_t count, void (*step)(void *argument, size_t index),
                  void *argument);

/* Learns from the record which keys other processes have taken, and the decision. */
enum hf_status txn_learn_others(struct hf_txn *txn, enum txn_state *ret_state,
                                struct hf_error *error);

/* The current record and its ETag, which may be NULL. NOT_FOUND if there is none. */
enum hf_status record_get(struct hf_client *client, struct view id,
                          struct txn_record *ret_record, struct etag *ret_etag,
                          struct hf_error *error);

/* Makes one change to a record, for a caller that has no document for it. */
enum hf_status record_change(struct hf_client *client, struct record_op *op,
                             struct hf_error *error);

/* Whether an operation that has read this record may delete it: D is proven to have passed since
 * the decision, and the store supports conditional deletes. Without a condition, the delete could
 * remove a mark that another client has put in the record's place. */
bool record_is_due(struct hf_client *client, const struct txn_record *record);

/* Deletes a record that is due and had this ETag, if it is no longer needed: it is a rollback, or
 * every participant has been observed to have no stage left (`settled`: the caller has just
 * observed this). If the delete fails, the record is left to the sweeper. True: the record is
 * gone. */
bool record_clear_read(struct hf_client *client, const struct txn_record *record,
                       const struct etag *etag, bool settled);

/* A transaction's stage, as seen in a document. */
struct stage_info {
    bool there;
    char txn[TXN_ID_SIZE + 1];
    uint64_t token;
    bool abandoned;               /* no lease with its token is active; if one is: */
    char lease[LEASE_ID_MAX + 1]; /* its id */
    bool over;                    /* it is proven to have ended, but not marked yet */
};

/* Reads the stage from the key's document. If there is no document, there is no stage. */
enum hf_status stage_read(struct table_ref *ref, struct stage_info *ret_info,
                          struct hf_error *error);

/* Promotes or discards a decided stage, and releases its lease, if it still has one, in the same
 * write. OK: the document was observed to have no stage left. */
enum hf_status stage_end(struct hf_client *client, const struct txn_key *key, struct view txn,
                         bool commit, struct hf_error *error);

/* Ensures that the stage of each key, regardless of which process took it, is under a lease that
 * has not ended, and can no longer change: OK, or EXPIRED. */
enum hf_status stages_seal(struct hf_client *client, const struct txn_key *keys, size_t count,
                           struct view txn, struct hf_error *error);

/* ---- In one step (txn_step.c, txn_look.c) ------------------------------------------- */

/* Whether the transaction can change this many documents in one step of its store. It can not if
 * it is shared, because other processes may then change its keys and its record, too. */
bool txn_can_step(const struct hf_txn *txn, size_t documents);

/* The two writes that begin a transaction, as part of a step: its index entry and its record. */
struct txn_beginning {
    struct doc *entry;
    struct doc_op announce;
    struct record_op record;
};
#define TXN_BEGINNING_DOCUMENTS 2

/* Prepares an operation that writes a new record. */
void txn_init_begin(const struct hf_txn *txn, struct record_op *op);

/* Prepares both writes, to be made beside others. The struct must not move from then on. */
enum hf_status txn_beginning_init(struct hf_txn *txn, struct txn_beginning *beginning,
                                  struct beside_tables *beside, struct hf_error *error);
void txn_beginning_release(struct txn_beginning *beginning);

/* Prepares the write of the index entry of a record that is about to be written. Free *ret_doc with
 * doc_free. */
enum hf_status record_entry_new(struct hf_client *client, struct view id,
                                struct mono_time deadline, struct doc **ret_doc,
                                struct doc_op *ret_op, struct hf_error *error);

/* Whether the record is known to have been written. */
bool txn_has_begun(struct hf_txn *txn);

/* Makes sure that a record that was never sent is never written. False: it was sent. With
 * `decided`, a record that got no reply is not written again either. */
bool txn_end_unbegun(struct hf_txn *txn, bool decided);

/* Writes the record, unless it has been written or the transaction has ended. OK: keys may be
 * acquired for the transaction, unless it is decided. */
enum hf_status txn_ensure_begun(struct hf_txn *txn, struct hf_error *error);

/* Acquires the keys, which are ordered by name, all or none, and waits for none of them. If the
 * record was not written yet, it is written in the same step. OK or UNSURE: each has its own
 * result, as from hf_key_acquire. Otherwise none was acquired: HELD, or the reason why they must be
 * acquired one after the other. */
enum hf_status txn_take_in_one_step(struct hf_txn *txn, struct hf_key *const *keys,
                                    size_t count, struct hf_error *results,
                                    struct hf_error *error);

/* Decides the transaction, settles all its keys and releases their leases. OK: all of this is done.
 * UNSURE: all of it may be done; the handles do not hold their leases any more. Otherwise nothing
 * was changed, and the transaction can be decided as usual. */
enum hf_status txn_commit_in_one_step(struct hf_txn *txn, struct record_op *decision,
                                      struct hf_error *error);

/* After UNSURE: the step was certainly not made, so the handles hold their leases again. */
void txn_resume_keys(struct hf_txn *txn);

/* Reports that a transaction was decided. */
void txn_event(struct hf_client *client, struct view id, enum txn_state decided);

#endif
