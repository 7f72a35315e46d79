/* SPDX-License-Identifier: Apache-2.0 */
/* key.h: the mutants of src/key: for each rule, what the library does when the rule is broken. */
#ifndef SIM_MUTANTS_KEY_H
#define SIM_MUTANTS_KEY_H

#include "key/key.h"

/* OVER_FOR_ITS_OWN_TOO: continues with a stage of its own transaction whose lease has ended. */
void mutant_takes_up_own_stage(struct key_state *state, struct view txn, uint64_t token,
                               bool *moved);

/* OLD_STATE_AFTER_THE_SWAP: deletes old bodies before the swap that replaces them is known to have
 * succeeded. */
void mutant_deletes_old_state_early(struct hf_key *key, const struct key_state *state,
                                    enum hf_status status);

/* SETTLED_BY_THE_RECORD: treats a pending record as a commit. */
void mutant_takes_pending_for_committed(enum txn_state *state);

/* RECORD_BEFORE_STAGE, if broken: the record is written only just before the decision. */
void mutant_begins_late(struct hf_txn *txn);

/* PARTICIPANTS_WITH_THE_DECISION: names the participants of a commit after the decision. A
 * crash in between leaves a commit whose keys are unknown. */
void mutant_names_participants_late(struct hf_txn *txn, const struct txn_key *names,
                                    size_t count);

/* COMMIT_NEEDS_PENDING: commits a record that is absent or rolled back. */
void mutant_commits_any_record(const struct record_op *op, struct txn_record *record);

/* STEP_SETTLES_EVERY_KEY: leaves the last key out of the step that commits the transaction. */
void mutant_leaves_last_key(size_t *count);

/* REFUSED_TAKES_NOTHING: keeps the keys that were granted, although others were refused. */
void mutant_keeps_refused_keys(struct hf_key **keys, struct hf_error *results, size_t *count);

/* EVERY_STAGE_IS_AWAITED: reports all changes but the first as staged, without a reply. */
void mutant_forgets_replies(struct hf_txn_change *changes, size_t count);

#endif
