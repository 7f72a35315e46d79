/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h: the mutants of src/lease: for each rule, what the library does when the rule is
 * broken. */
#ifndef SIM_MUTANTS_LEASE_H
#define SIM_MUTANTS_LEASE_H

#include "lease/table.h"

/* CLAIM_MINDS_OTHERS: the claim with this wish, which must not move, conflicts with nothing. */
void mutant_claims_beside_others(const struct lease_wish *wish);

/* SHARED_BESIDE_SHARED_ONLY: grants any mode while a shared lease is held. EVERY_SCOPE_COUNTS:
 * compares only the first scope of each. */
void mutant_overlooks_conflict(const struct lease_wish *a, const struct lease_wish *b,
                               bool *conflict);

/* CLAIM_WINDOW: uses a tenth of the window. */
void mutant_shortens_claim_window(struct span *window);

/* WATCH_TO_THE_END: watches until a tick before the holder stops. */
void mutant_watches_too_briefly(const struct lease_settings *settings, struct span *whole);

/* SCAVENGE_WITH_PROOF: treats a lease as over when now >= expires. */
void mutant_needs_no_proof(const struct lease *lease, const struct evidence *evidence,
                           enum lease_proof *proof);

/* COMPLETION_IS_REMEMBERED: forgets a completion when the next lease of the table ends. */
void mutant_forgets_completion(const struct lease_table *table, size_t *excess);

/* RELEASE_NAMES_THE_LEASE, BREAK_NAMES_THE_LEASE: ends whichever lease is the newest. */
void mutant_names_no_lease(const struct lease_table *table, struct table_op *op,
                           struct lease **lease);

/* CLAIM_IN_TURN: claims a free lock regardless of which waiter has the turn. */
void mutant_claims_out_of_turn(const struct lease_table *table, const struct lease_wish *wanted,
                               bool *in_turn);

/* REENTRANCE_BY_SESSION: ends a lease with the same holder id. A holder id is only a label, so the
 * lease may belong to another process with the same label. */
void mutant_reenters_by_holder(struct lease_table *table, const struct lease_request *wanted);

/* CLAIM_BY_OWN_PUT: grants a reservation immediately. The waiter then has no t0 of its own. */
void mutant_hands_over(struct lease_table *table, const struct evidence *evidence);

/* LEASES_OUTLIVE_SESSIONS: with the waiters of a session that is gone, ends its leases too. */
void mutant_ends_leases_of_gone(struct lease_table *table, struct view session);

#endif
