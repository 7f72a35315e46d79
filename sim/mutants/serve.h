/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h: the mutants of src/serve: for each rule, what the server does when the rule is
 * broken. */
#ifndef SIM_MUTANTS_SERVE_H
#define SIM_MUTANTS_SERVE_H

#include "base/error.h"
#include "base/moment.h"

struct core_op;
struct hf_lock;

/* FIRST_COME_FIRST_SERVED: takes the waiter that came last. */
void mutant_serves_the_last(struct core_op **next, struct core_op *last);

/* NEXT_ASKS_SOON: the next in line asks a day later, unless there is a release. */
void mutant_waits_for_a_release(struct mono_time *ask_at);

/* ANSWER_FROM_T0: tells a client that the whole ttl is left. */
void mutant_counts_from_answer(struct hf_lock *lock, int64_t *left_ms);

/* KEEPALIVE_AFTER_ITS_WRITE: acknowledges a keepalive whose write got no reply. */
void mutant_acknowledges_unsure_renewal(enum hf_status *status, struct mono_time now,
                                        struct mono_time *valid_until);

struct hf_key;

/* TXN_KEYS_ARE_DETACHED: releases the key, which was acquired for a transaction; NULL: none was. */
void mutant_releases_txn_key(struct hf_key *key);

/* DECISION_IS_THE_RECORD: tells a client that asks too late that its decision stands.
 * DECISION_AFTER_ITS_WRITE: tells it the same if the write got no reply. */
void mutant_answers_as_asked(enum hf_status *status);

#endif
