/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h: connects the core with the pool. The core's calls become jobs, and jobs that have ended
 * become events of the core. Everything here runs on the loop.
 *
 *     core_acquire(core, ...); calls_pump(calls);        after each event that the caller reports
 *     calls_collect(calls, now);                         after the pool has notified
 *     calls_pass_time(calls, now);                       at core_wake_at(core)
 *
 * Each of the three ends with the actions of the core: answers go to the caller's function. */
#ifndef SERVE_CALLS_CALLS_H
#define SERVE_CALLS_CALLS_H

#include "serve/calls/pool.h"
#include "serve/core/core.h"

/* What a call of the core does. Every order starts with this struct, which call_order_init fills
 * in. */
struct call_order {
    struct pool_job job; /* must be the first member */
    /* Makes the call, in a worker, and sets the result, which is zero at first. */
    void (*make)(struct call_order *order, enum core_call what, int64_t poll_ms,
                 struct core_result *result);
    void (*free)(struct call_order *order); /* on the loop; must not block */

    /* Of the call that is under way. */
    uint64_t call;
    enum core_call what;
    int64_t poll_ms;
    struct core_result result;
};

void call_order_init(struct call_order *order,
                     void (*make)(struct call_order *order, enum core_call what,
                                  int64_t poll_ms, struct core_result *result),
                     void (*free_it)(struct call_order *order));

/* A core_free_order. */
void call_order_free(void *order);

/* Sets status and `why` of a result from a call of the library. */
void call_result_set(struct core_result *result, enum hf_status status,
                     const struct hf_error *error);

/* Answers a request. The result is valid during the call. */
typedef void calls_answer(void *argument, uint64_t request, const struct core_result *result);

/* The pool's jobs_max must be at least the core's calls_max. */
struct calls {
    struct core *core;
    struct pool *pool;
    calls_answer *answer;
    void *argument;
};

void calls_pump(const struct calls *calls);
void calls_collect(const struct calls *calls, struct mono_time now);
void calls_pass_time(const struct calls *calls, struct mono_time now);

#endif
