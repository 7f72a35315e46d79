/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: carries the actions of the core to the pool, and the results of the pool to the core. */
#include "serve/calls/calls.h"

#include "base/check.h"

#include <stdio.h>

static void run_order(struct pool_job *job)
{
    struct call_order *order = (struct call_order *)(void *)job;
    order->make(order, order->what, order->poll_ms, &order->result);
}

void call_order_init(struct call_order *order,
                     void (*make)(struct call_order *order, enum core_call what,
                                  int64_t poll_ms, struct core_result *result),
                     void (*free_it)(struct call_order *order))
{
    *order = (struct call_order){ .job = { .run = run_order }, .make = make, .free = free_it };
}

void call_order_free(void *order)
{
    struct call_order *it = order;
    it->free(it);
}

void call_result_set(struct core_result *result, enum hf_status status,
                     const struct hf_error *error)
{
    result->status = status;
    result->why[0] = '\0';
    if (status != HF_OK)
        snprintf(result->why, sizeof result->why, "%s", error->why);
}

static void start_call(const struct calls *calls, const struct core_action *action)
{
    struct call_order *order = action->order;
    order->call = action->call;
    order->what = action->what;
    order->poll_ms = action->poll_ms;
    order->result = (struct core_result){ .status = HF_OK };
    /* The core bounds its calls, and the pool has room for them. */
    check(pool_submit(calls->pool, &order->job));
}

void calls_pump(const struct calls *calls)
{
    struct core_action action;
    while (core_next(calls->core, &action))
        if (action.kind == CORE_ANSWER)
            calls->answer(calls->argument, action.request, action.result);
        else
            start_call(calls, &action);
}

void calls_collect(const struct calls *calls, struct mono_time now)
{
    struct pool_job *job;
    while ((job = pool_take_ended(calls->pool))) {
        struct call_order *order = (struct call_order *)(void *)job;
        /* The order may be freed during the event, so its result is copied. */
        const struct core_result result = order->result;
        core_call_ended(calls->core, order->call, &result, now);
        calls_pump(calls);
    }
}

void calls_pass_time(const struct calls *calls, struct mono_time now)
{
    core_pass_time(calls->core, now);
    calls_pump(calls);
}
