/* SPDX-License-Identifier: Apache-2.0 */
/* fault_store.h: a store that sometimes does not do what it is asked, by a seeded plan, and always
 * answers with the status that is true: for tests of everything above, on any back end. */
#ifndef TESTS_FAULT_STORE_H
#define TESTS_FAULT_STORE_H

#include "store/store.h"

/* Chances in a million for each call; what remains of the million goes well. Reads know only
 * throttle, refuse and delay. */
struct fault_plan {
    uint64_t seed;
    uint32_t throttle;   /* UNAVAILABLE at once, not done */
    uint32_t refuse;     /* UNAVAILABLE after the delay, not done */
    uint32_t lose;       /* UNSURE, and it never happens */
    uint32_t lose_reply; /* UNSURE, but it was done */
    uint32_t late;       /* UNSURE, and it happens up to late_max later */
    uint32_t delay;      /* beside the others: the call takes up to delay_max longer */
    struct span delay_max;
    struct span late_max;
};

/* The most late writes that may be under way; a further one is lost instead. */
#define FAULT_LATE_MAX 64

/* Takes `inner` over and closes it with itself; on failure it stays the caller's. Late writes
 * still under way at close never happen. */
enum hf_status store_fault(struct store *inner, const struct fault_plan *plan,
                           struct store **ret_store, struct hf_error *error);

/* From now on nothing goes wrong; returns when the last late write has landed. */
void store_fault_calm(struct store *store);

#endif
