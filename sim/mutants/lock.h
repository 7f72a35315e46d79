/* SPDX-License-Identifier: Apache-2.0 */
/* lock.h: the mutants of src/lock: for each rule, what the library does when the rule is broken. */
#ifndef SIM_MUTANTS_LOCK_H
#define SIM_MUTANTS_LOCK_H

#include "store/store.h"

struct epoch_body;
struct epoch_file;
struct epoch_op;
struct lease_table;
struct request;
struct table_ref;

/* VALID_FROM_T0: counts validity from the arrival of the reply. */
void mutant_counts_from_reply(struct env *env, struct mono_time *from);

/* CLAIM_BY_OWN_PUT: gives the turn to a waiter that was granted a lease by another client. Called
 * with the wait queue's mutex held. */
void mutant_takes_handed_lease(struct table_ref *ref, const struct lease_table *table);

/* RENEWAL_NEEDS_AN_ANSWER: relies on a renewal whose reply was lost. */
void mutant_believes_in_renewal(enum hf_status *status);

/* CLAIM_NEEDS_ITS_WRITE: relies on a claim whose reply was lost. */
void mutant_believes_in_claim(struct request *asking);

/* LIMIT_BEFORE_THE_GRANT: records the limit on leases only after granting them. */
void mutant_records_limit_late(struct table_ref *ref, struct request *const *requests,
                               size_t count);

/* BARRIER_OF_THE_LONGEST: makes the barrier after damage only as long as the shortest lease. */
void mutant_shortens_barrier(struct span *barrier);

/* EPOCH_COPY_FIRST: changes the epoch document before its copy. */
void mutant_changes_document_first(struct epoch_file *document, struct epoch_op *change,
                                   enum hf_status *status, struct hf_error *error);

/* LOST_EPOCH_IS_NOT_ZERO: treats a lost epoch document as epoch 0. */
void mutant_takes_lost_epoch_for_zero(enum hf_status *status, struct epoch_body **body);

/* ENTRY_EACH_HOUR: accepts an entry for any hour as the right one. */
void mutant_takes_any_entry(const struct table_ref *ref, bool *has);

/* REFUSED_BODY_IS_LOOKED_FOR, if broken: a body whose write was refused counts as complete. */
void mutant_trusts_refused_body(enum hf_status *status, struct hf_error *error);

/* BODY_BEFORE_FENCE: writes the fence although its body may be missing. */
void mutant_writes_fence_without_body(enum hf_status *status);

/* PAGE_BY_FIRST_SEGMENTS: uses one more segment of a path to find its page. */
void mutant_hashes_deeper(uint32_t *segments);

#endif
