/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c: the mutants of src/serve. */
#include "sim/mutants/serve.h"

#include "base/rule.h"
#include "holdfast.h"

void mutant_serves_the_last(struct core_op **next, struct core_op *last)
{
    if (!RULE(FIRST_COME_FIRST_SERVED))
        *next = last;
}

void mutant_waits_for_a_release(struct mono_time *ask_at)
{
    if (!RULE(NEXT_ASKS_SOON))
        *ask_at = mono_add(*ask_at, SPAN_S(86400));
}

void mutant_counts_from_answer(struct hf_lock *lock, int64_t *left_ms)
{
    if (!RULE(ANSWER_FROM_T0) && *left_ms > 0)
        *left_ms = hf_lock_ttl_ms(lock);
}

void mutant_acknowledges_unsure_renewal(enum hf_status *status, struct mono_time now,
                                        struct mono_time *valid_until)
{
    if (RULE(KEEPALIVE_AFTER_ITS_WRITE) || *status == HF_OK || *status == HF_LOST)
        return;
    *status = HF_OK;
    *valid_until = mono_add(now, SPAN_S(2));
}

void mutant_releases_txn_key(struct hf_key *key)
{
    if (!RULE(TXN_KEYS_ARE_DETACHED) && key)
        hf_lock_release(hf_key_lock(key), NULL);
}

void mutant_answers_as_asked(enum hf_status *status)
{
    if ((!RULE(DECISION_IS_THE_RECORD) && *status == HF_MISMATCH) ||
        (!RULE(DECISION_AFTER_ITS_WRITE) && *status == HF_UNSURE))
        *status = HF_OK;
}
