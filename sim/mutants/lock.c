/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: the mutants of src/lock. */
#include "sim/mutants/lock.h"

#include "base/rule.h"
#include "lock/client_inside.h"
#include "lock/epoch_inside.h"

#include <inttypes.h>
#include <stdio.h>

void mutant_counts_from_reply(struct env *env, struct mono_time *from)
{
    if (!RULE(VALID_FROM_T0))
        *from = env_now(env);
}

static bool is_leased(const struct table_ref *ref, const struct queue_waiter *waiter,
                      const struct lease_table *table)
{
    char id[NONCE_SIZE + 32];
    snprintf(id, sizeof id, "%s-%" PRIu64, ref->client->session, waiter->number);
    return table_find(table, view_of(id)) != NULL;
}

void mutant_takes_handed_lease(struct table_ref *ref, const struct lease_table *table)
{
    struct wait_queue *queue = &ref->queue;
    if (RULE(CLAIM_BY_OWN_PUT))
        return;
    for (size_t i = 0; i < queue->waiter_count; i++) {
        struct queue_waiter *waiter = queue->waiters[i];
        if (!waiter->queued || waiter->turn || !is_leased(ref, waiter, table))
            continue;
        waiter->turn = true;
        if (waiter == queue->listener)
            store_ring(ref->client->store);
        else
            env_cond_signal(&waiter->wake);
    }
}

void mutant_believes_in_renewal(enum hf_status *status)
{
    if (!RULE(RENEWAL_NEEDS_AN_ANSWER) && *status == HF_UNSURE)
        *status = HF_OK;
}

void mutant_believes_in_claim(struct request *asking)
{
    if (!RULE(CLAIM_NEEDS_ITS_WRITE) && asking->op.error.status == HF_UNSURE &&
        asking->table.outcome == TABLE_GRANTED)
        asking->op.error.status = HF_OK;
}

void mutant_records_limit_late(struct table_ref *ref, struct request *const *requests,
                               size_t count)
{
    struct hf_error error;
    if (RULE(LIMIT_BEFORE_THE_GRANT))
        return;
    for (size_t i = 0; i < count; i++)
        if (requests[i]->table.needs_limit)
            table_record_limit(ref->space, ref->kind, requests[i]->table.ttl_needed,
                               requests[i]->op.deadline, &error);
}

void mutant_shortens_barrier(struct span *barrier)
{
    if (!RULE(BARRIER_OF_THE_LONGEST))
        *barrier = SPAN_MS(LEASE_TTL_MS_MIN);
}

void mutant_changes_document_first(struct epoch_file *document, struct epoch_op *change,
                                   enum hf_status *status, struct hf_error *error)
{
    struct epoch_op early = { .by = change->by, .pair_anew = true };
    if (RULE(EPOCH_COPY_FIRST))
        return;
    *status = epoch_change_file(document, &early, error);
    change->by = 0;
    change->at_least = early.epoch;
}

void mutant_takes_lost_epoch_for_zero(enum hf_status *status, struct epoch_body **body)
{
    struct hf_error error;
    if (RULE(LOST_EPOCH_IS_NOT_ZERO) || (*status != HF_NOT_FOUND && *status != HF_CORRUPT))
        return;
    *body = epoch_body_new(&error);
    *status = *body ? HF_OK : HF_UNAVAILABLE;
}

void mutant_takes_any_entry(const struct table_ref *ref, bool *has)
{
    if (RULE(ENTRY_EACH_HOUR))
        return;
    for (size_t i = 0; i < INDEXED_HOURS; i++)
        *has = *has || ref->indexed[i] > 0;
}

void mutant_trusts_refused_body(enum hf_status *status, struct hf_error *error)
{
    if (!RULE(REFUSED_BODY_IS_LOOKED_FOR) && *status == HF_CONFLICT)
        *status = error_clear(error);
}

void mutant_writes_fence_without_body(enum hf_status *status)
{
    if (!RULE(BODY_BEFORE_FENCE) && *status == HF_UNAVAILABLE)
        *status = HF_OK;
}

void mutant_hashes_deeper(uint32_t *segments)
{
    if (!RULE(PAGE_BY_FIRST_SEGMENTS))
        ++*segments;
}
