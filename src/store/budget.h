/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h: a limit for the retries of an open store, so that clients do not keep a store that is
 * overloaded from recovering.
 *
 * It is a bucket of tokens. A retry of a request that the store did not answer takes one token;
 * every request that the store does answer puts back a tenth of one. So in the long run retries are
 * at most a tenth of the requests that succeed, whatever the callers do. The bucket also refills
 * slowly by itself, because a client whose requests all fail must find out when the store is back;
 * and a retry that the store answers gets its token back, so that a store that has recovered is
 * used again at once, and one that fails now and then is not used less.
 *
 * A conflict is an answer, so a retry after a conflict takes no token (doc/crowd.h). The renewal of
 * a lease never waits for one: there are few renewals, they end with the lease, and work would be
 * lost. Nor does a waiter whose turn has come.
 *
 * The bucket is full at first. Any task may use it. */
#ifndef STORE_BUDGET_H
#define STORE_BUDGET_H

#include "base/error.h"
#include "base/moment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero-initialised: full. */
struct retry_budget {
    _Atomic int64_t spent;       /* thousandths of a token that are missing */
    _Atomic int64_t refilled_us; /* when time was last counted; 0: never */
};

#define RETRY_TOKENS_MAX 10

/* How long it takes until a token is back by itself. */
#define RETRY_TOKEN_EVERY SPAN_S(5)

/* Takes a token. Returns false if there is none. */
bool retry_budget_take(struct retry_budget *budget, struct mono_time now);

/* Whether this status is an answer of the store. */
static inline bool retry_is_answered(enum hf_status status)
{
    return status != HF_UNAVAILABLE && status != HF_UNSURE && status != HF_TIMEOUT;
}

/* The result of a request: whether it was a retry does not matter. */
void retry_budget_answered(struct retry_budget *budget, enum hf_status status);

/* The store has answered a retry. */
void retry_budget_refund(struct retry_budget *budget);

#endif
