/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h: repeats a request that the store did not answer, within the budget of the store
 * (budget.h).
 *
 *     struct retry retry = { .store = store, .pause = SPAN_MS(100), .left = 4 };
 *     do
 *         status = store_get(store, &get);
 *     while (retry_after(&retry, status));
 *
 * Every loop that repeats requests uses this, so that all of them together stay within one budget.
 * Only src/doc has a loop of its own, because its operations share their attempts. A request that
 * must not be sent twice must not be in such a loop. */
#ifndef STORE_RETRY_H
#define STORE_RETRY_H

#include "store/store.h"

struct retry {
    struct store *store;
    struct span pause;      /* the longest pause before the next attempt; doubled each time */
    unsigned left;          /* how many further attempts there may be */
    struct mono_time until; /* no attempt begins later; 0: no limit */
    bool conflicts_too;     /* a conflict is repeated as well, and needs no token */
    /* May be NULL. Called several times a second, with nothing done; false ends the series. */
    const struct progress *progress;
    bool paid; /* the attempt that is under way has taken a token */
};

/* A pause is never longer than this, and no attempt waits longer than this for a token of the
 * budget. */
#define RETRY_PAUSE_MAX SPAN_S(2)
#define RETRY_TOKEN_MAX SPAN_S(10)

/* Called with the status of each attempt. Returns true if the request is to be sent again, after a
 * pause that is drawn up to the limit. False if the store has answered, or if there is no attempt,
 * no time or no token left. */
bool retry_after(struct retry *retry, enum hf_status status);

#endif
