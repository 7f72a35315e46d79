/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: the mutants of src/lease. */
#include "sim/mutants/lease.h"

#include "base/rule.h"
#include "lease/table_inside.h"

static const struct lease_wish *claimed;

void mutant_claims_beside_others(const struct lease_wish *wish)
{
    claimed = wish;
}

void mutant_overlooks_conflict(const struct lease_wish *a, const struct lease_wish *b,
                               bool *conflict)
{
    if (!RULE(SHARED_BESIDE_SHARED_ONLY) &&
        (a->mode == LEASE_SHARED || b->mode == LEASE_SHARED))
        *conflict = false;
    if (!RULE(EVERY_SCOPE_COUNTS) && !scope_conflicts(&a->scopes[0], &b->scopes[0]))
        *conflict = false;
    if (!RULE(CLAIM_MINDS_OTHERS) && (a == claimed || b == claimed))
        *conflict = false;
}

void mutant_shortens_claim_window(struct span *window)
{
    if (!RULE(CLAIM_WINDOW))
        window->us /= 10;
}

void mutant_watches_too_briefly(const struct lease_settings *settings, struct span *whole)
{
    if (!RULE(WATCH_TO_THE_END))
        whole->us -= settings->margin.us * 9 / 4; /* the margins of both sides, and a tick */
}

void mutant_needs_no_proof(const struct lease *lease, const struct evidence *evidence,
                           enum lease_proof *proof)
{
    if (!RULE(SCAVENGE_WITH_PROOF) && evidence->latest.us >= lease->expires.us)
        *proof = PROOF_STORE_TIME;
}

void mutant_forgets_completion(const struct lease_table *table, size_t *excess)
{
    if (RULE(COMPLETION_IS_REMEMBERED))
        return;
    for (size_t i = 0; i + 1 < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_COMPLETED && table->leases[i]->once_per.us > 0)
            *excess = i;
}

void mutant_names_no_lease(const struct lease_table *table, struct table_op *op,
                           struct lease **lease)
{
    bool unnamed = (!RULE(RELEASE_NAMES_THE_LEASE) && op->kind == TABLE_RELEASE) ||
                   (!RULE(BREAK_NAMES_THE_LEASE) && op->kind == TABLE_BREAK);
    if (!unnamed || table->lease_count == 0)
        return;
    *lease = table->leases[table->lease_count - 1];
    op->token = (*lease)->token;
}

void mutant_claims_out_of_turn(const struct lease_table *table, const struct lease_wish *wanted,
                               bool *in_turn)
{
    struct view blocker;
    if (!RULE(CLAIM_IN_TURN) && !queue_active_blocks(table, wanted, &blocker))
        *in_turn = true;
}

void mutant_reenters_by_holder(struct lease_table *table, const struct lease_request *wanted)
{
    if (RULE(REENTRANCE_BY_SESSION))
        return;
    for (size_t i = table->lease_count; i-- > 0;)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            view_equal(table->leases[i]->holder, wanted->holder) &&
            wishes_alike(&table->leases[i]->wish, &wanted->wish))
            table_remove_lease(table, i);
}

void mutant_hands_over(struct lease_table *table, const struct evidence *evidence)
{
    if (RULE(CLAIM_BY_OWN_PUT))
        return;
    for (size_t i = 0; i < table->waiter_count; i++)
        if (table->waiters[i].reserved) {
            struct table_op op = { .kind = TABLE_CLAIM,
                                   .id = table->waiters[i].wanted->asked.id };
            table_apply(table, &op, evidence); /* which calls this again for the next waiter */
            return;
        }
}

void mutant_ends_leases_of_gone(struct lease_table *table, struct view session)
{
    if (RULE(LEASES_OUTLIVE_SESSIONS))
        return;
    for (size_t i = table->lease_count; i-- > 0;)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            view_equal(table->leases[i]->session, session))
            table_remove_lease(table, i);
}
