/* SPDX-License-Identifier: Apache-2.0 */
/* permit.c: the conditions for a grant other than the absence of conflicts: a token in an epoch
 * that the namespace has reached, and a ttl within a recorded limit. These conditions guard
 * against repeated tokens, and against a barrier that ends before the leases it waits for. */
#include "base/rule.h"
#include "lease/table_inside.h"

/* After 2^32 grants a table continues in a later epoch. The epoch of the namespace must have been
 * raised to it first. If this table is purged, only the namespace's epoch prevents its tokens from
 * being issued again. */
enum hf_status permit_token(struct lease_table *table, struct table_op *op)
{
    if ((table->next_token & UINT32_MAX) != UINT32_MAX)
        return HF_OK;
    if (op->epoch > TOKEN_EPOCH_MAX || op->epoch <= table->next_token >> 32) {
        op->needs_epoch = true;
        return error_set(&op->error, HF_UNAVAILABLE, "the tokens of this epoch are exhausted");
    }
    table->next_token = op->epoch << 32 | 1;
    return HF_OK;
}

/* The ttl that the recorded limit must cover when a lease of this ttl is granted. Leases written
 * by other programs may not state their ttl and were granted without a limit. */
static struct span longest_with(const struct lease_table *table, struct span ttl,
                                struct span ttl_unsaid)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE && table->leases[i]->wish.ttl.us == 0)
            return span_larger(ttl, ttl_unsaid);
    return ttl;
}

/* A limit must be recorded before the grant or renewal. If the table is damaged afterwards, the
 * barrier in its replacement lasts only as long as the recorded limit. */
enum hf_status permit_ttl(struct lease_table *table, struct span ttl,
                          const struct evidence *evidence, struct table_op *op)
{
    if (!op->limited || op->kind == TABLE_BARRIER)
        return HF_OK;
    ttl = longest_with(table, ttl, op->ttl_unsaid);
    bool allowed = ttl_limit_allows(&table->limit, &table->settings, ttl, evidence);
    /* The client has seen its own limit recorded. Copying that limit into the table saves the
     * other clients the request to look it up. */
    if (!allowed && ttl_limit_allows(&op->limit, &table->settings, ttl, evidence)) {
        table->limit = op->limit;
        allowed = true;
    }
    op->needs_limit = !allowed;
    op->ttl_needed = ttl;
    if (RULE(LIMIT_BEFORE_THE_GRANT) && !allowed)
        return error_set(&op->error, HF_UNAVAILABLE,
                         "no limit for leases of this ttl is recorded yet");
    return HF_OK;
}
