/* SPDX-License-Identifier: Apache-2.0 */
/* doc.c: the mutants of src/doc. */
#include "sim/mutants/doc.h"

#include "base/rule.h"
#include "doc/doc_inside.h"

void mutant_retries_blindly(struct store *store, struct put_call *put, enum hf_status *status)
{
    if (RULE(NO_BLIND_RETRY) || *status != HF_UNSURE)
        return;
    put->condition.kind = CONDITION_ALWAYS;
    *status = store_put(store, put);
}

void mutant_takes_first_result(struct change_call *changes, size_t index)
{
    if (!RULE(EACH_BY_ITS_OWN_STATUS))
        changes[index].error = changes[0].error;
}

void mutant_counts_from_last_attempt(const struct doc_op *op, size_t kept,
                                     const struct doc_attempt **found)
{
    if (RULE(VALID_FROM_THAT_ATTEMPT))
        return;
    for (size_t i = 0; i < kept; i++)
        if (mono_before((*found)->t0, op->attempts[i].t0))
            *found = &op->attempts[i];
}

void mutant_watches_since_sent(struct mono_time sent, struct mono_time *arrived)
{
    if (!RULE(WATCH_SINCE_ARRIVAL))
        *arrived = sent;
}

void mutant_overwrites_first_write(struct condition *condition)
{
    if (!RULE(FIRST_WRITE_IF_ABSENT) && condition->kind == CONDITION_ABSENT)
        condition->kind = CONDITION_ALWAYS;
}

void mutant_prepares_early(struct doc *doc, void *body, const struct etag *etag,
                           struct mono_time deadline)
{
    struct hf_error error;
    bool early = etag->size > 0 ? !RULE(LIMIT_AFTER_THE_MARK) : !RULE(EPOCH_AFTER_THE_STUB);
    if (early)
        doc->type->prepare(doc->context, doc->key, body, deadline, &error);
}

void mutant_skips_placeholder(const struct doc *doc, const struct etag *etag, bool *placeholder)
{
    bool is_new = etag->size == 0;
    if ((!RULE(DAMAGE_IS_MARKED) && !is_new) || (!RULE(BORN_IN_TWO_WRITES) && is_new) ||
        (!RULE(BORN_SO_EVERYWHERE) && is_new && !doc->store->traits.delete_conditional))
        *placeholder = false;
}

void mutant_repeats_nonce(char nonce[NONCE_SIZE + 1])
{
    if (!RULE(NONCE_IN_EVERY_WRITE))
        memset(nonce, '0', NONCE_SIZE);
}

void mutant_refuses_before_the_put(struct batch *batch)
{
    if (RULE(REFUSED_AFTER_THE_PUT))
        return;
    for (size_t i = 0; i < batch->count; i++)
        batch->ops[i]->answer =
            batch->ops[i]->error.status != HF_OK ? DOC_FAILED : DOC_UNANSWERED;
}

void mutant_forgets_the_crowd(struct crowd *crowd)
{
    if (!RULE(CROWD_IS_REMEMBERED))
        *crowd = (struct crowd){ .gap = crowd->gap, .changed = crowd->changed };
}

void mutant_trusts_one_read(struct crowd *crowd, struct span age, bool changed)
{
    const struct span trusted = SPAN_US(16 * 2 * age.us);
    if (!RULE(QUIET_IS_MEASURED) && !changed && crowd->gap.us > 0)
        crowd->gap = span_larger(crowd->gap, trusted);
}

void mutant_reads_the_wall_clock(struct evidence *evidence)
{
    if (!RULE(BOOT_CLOCK_FOR_LOCAL_STORES))
        evidence->earliest.us = evidence->latest.us = evidence->wall.us;
}
