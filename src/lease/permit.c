/* permit.c: what a grant needs besides that nothing is in its way: a token of an epoch that the
 * namespace has reached, and a ttl that is known to be recorded. */
#include "base/rule.h"
#include "lease/table_inside.h"

/* After 2^32 grants tokens go on in a later epoch, which the namespace must have reached before: it
 * tells what is purged from what is not. */
enum hf_status permit_token(struct lease_table *table, struct table_op *op)
{
    if ((table->next_token & UINT32_MAX) != UINT32_MAX)
        return HF_OK;
    if (op->epoch > TOKEN_EPOCH_MAX || op->epoch <= table->next_token >> 32) {
        op->needs_epoch = true;
        return error_set(&op->error, HF_UNAVAILABLE, "this epoch's tokens are used up");
    }
    table->next_token = op->epoch << 32 | 1;
    return HF_OK;
}

/* The longest that a lease can be in this table once one of this ttl is granted: some of another
 * program do not say. */
static struct span longest_with(const struct lease_table *table, struct span ttl,
                                struct span ttl_unsaid)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE && table->leases[i]->ttl.us == 0)
            return ttl.us > ttl_unsaid.us ? ttl : ttl_unsaid;
    return ttl;
}

/* Before it is granted or renewed it must be known that a lease can be so long. */
enum hf_status permit_ttl(struct lease_table *table, struct span ttl,
                          const struct evidence *evidence, struct table_op *op)
{
    if (!op->limited || op->kind == TABLE_BARRIER)
        return HF_OK;
    ttl = longest_with(table, ttl, op->ttl_unsaid);
    if (ttl_limit_allows(&table->limit, &table->settings, ttl, evidence))
        return HF_OK;
    if (ttl_limit_allows(&op->limit, &table->settings, ttl, evidence)) {
        table->limit = op->limit;
        return HF_OK;
    }
    op->needs_limit = true;
    op->ttl_needed = ttl;
    if (!RULE(LIMIT_BEFORE_THE_GRANT))
        return HF_OK;
    return error_set(&op->error, HF_UNAVAILABLE,
                     "it is not recorded yet that leases can be so long");
}
