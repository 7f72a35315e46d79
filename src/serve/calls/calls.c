/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: carries the actions of the core to the pool, and the results of the pool to the core. It
 * guards against a call that is lost between a batch and the core: each order of a batch ends once,
 * with its result or as a job of its own. */
#include "serve/calls/calls.h"

#include "base/check.h"
#include "base/rule.h"

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

/* ---- Batches ------------------------------------------------------------------------- */

static void run_batch(struct pool_job *job)
{
    struct call_batch *batch = (struct call_batch *)(void *)job;
    batch->useful = batch->orders[0]->group->make_many(batch->orders, batch->count);
}

static void gather(struct calls *calls, struct call_order *order)
{
    order->next = NULL;
    if (calls->last)
        calls->last->next = order;
    else
        calls->first = order;
    calls->last = order;
    calls->arrived++;
}

static struct call_order *take_gathered(struct calls *calls)
{
    struct call_order *order = calls->first;
    calls->first = order->next;
    if (!calls->first)
        calls->last = NULL;
    return order;
}

/* The core bounds its calls, and the pool has room for them: each is in at most one job. */
static void submit(struct calls *calls, struct pool_job *job)
{
    check(pool_submit(calls->pool, job));
}

static void fill_call_batch(struct calls *calls, struct call_batch *batch, struct mono_time now)
{
    const struct call_order_group *group = calls->first->group;
    while (calls->first && calls->first->group == group && batch->count < CALLS_BATCH_MAX)
        batch->orders[batch->count++] = take_gathered(calls);
    batch->job.run = run_batch;
    batch->began = now;
}

/* When the calls that gather no longer wait for the batch that is under way. */
static struct mono_time patience_end(const struct calls *calls)
{
    struct mono_time end = { MOMENT_FAR };
    for (size_t i = 0; i < CALLS_BATCHES; i++)
        if (calls->batches[i].count > 0)
            end = mono_earlier(end, mono_add(calls->batches[i].began, CALLS_PATIENCE));
    return end;
}

/* Whether the calls that gather wait for others. */
static bool gathers_longer(struct calls *calls, struct mono_time now)
{
    gather_add(&calls->gather, calls->arrived, now);
    calls->arrived = 0;
    return gather_waits(&calls->gather, now);
}

void calls_flush(struct calls *calls, struct mono_time now)
{
    size_t under_way = 0;
    bool hangs = !mono_before(now, patience_end(calls));
    while (hangs && calls->first)
        submit(calls, &take_gathered(calls)->job);
    for (size_t i = 0; i < CALLS_BATCHES; i++)
        under_way += calls->batches[i].count > 0;
    calls->gathers = gathers_longer(calls, now) && calls->first && under_way == 0;
    if (calls->gathers)
        return;
    for (size_t i = 0; i < CALLS_BATCHES && calls->first; i++) {
        bool starts = calls->batches[i].count == 0 && (under_way == 0 || calls->overlap);
        if (starts) {
            fill_call_batch(calls, &calls->batches[i], now);
            submit(calls, &calls->batches[i].job);
        }
        under_way += starts;
    }
}

struct pool_job *calls_take_batch(struct calls *calls, struct mono_time now)
{
    if (!calls->first || calls->long_batches == CALLS_LONG_COUNT)
        return NULL;
    for (size_t i = 0; i < CALLS_BATCHES; i++)
        if (calls->batches[i].count > 0)
            return NULL;
    if (gathers_longer(calls, now))
        return NULL;
    fill_call_batch(calls, &calls->batches[0], now);
    check(pool_admit(calls->pool));
    return &calls->batches[0].job;
}

struct mono_time calls_gather_until(const struct calls *calls)
{
    return calls->gathers ? calls->gather.until : (struct mono_time){ MOMENT_FAR };
}

struct mono_time calls_wake_at(const struct calls *calls)
{
    struct mono_time at = mono_earlier(core_wake_at(calls->core), calls_gather_until(calls));
    return calls->first ? mono_earlier(at, patience_end(calls)) : at;
}

/* ---- Calls --------------------------------------------------------------------------- */

static void start_call(struct calls *calls, const struct core_action *action)
{
    struct call_order *order = action->order;
    order->call = action->call;
    order->what = action->what;
    order->poll_ms = action->poll_ms;
    order->result = (struct core_result){ .status = HF_OK };
    order->alone = false;
    if (order->group && !calls->unbatched && order->group->joins(order, order->what))
        gather(calls, order);
    else
        submit(calls, &order->job);
}

void calls_pump(struct calls *calls)
{
    struct core_action action;
    while (core_next(calls->core, &action))
        if (action.kind == CORE_ANSWER)
            calls->answer(calls->argument, action.request, action.result);
        else
            start_call(calls, &action);
}

/* The caller pumps: after a batch only once, so that grants are answered first (core.h). */
static void end_call(struct calls *calls, struct call_order *order, struct mono_time now)
{
    /* The order may be freed during the event, so its result is copied. */
    const struct core_result result = order->result;
    core_call_ended(calls->core, order->call, &result, now);
}

static void count_long_batch(struct calls *calls, size_t count, struct span took)
{
    bool slow = gather_is_slow(count, took);
    if (took.us >= CALLS_LONG.us || (slow && count > 1))
        calls->long_batches += calls->long_batches < CALLS_LONG_COUNT;
    else if (!slow)
        calls->long_batches = 0;
    else
        calls->long_batches -= calls->long_batches > 0;
}

static void end_call_batch(struct calls *calls, struct call_batch *batch, struct mono_time now)
{
    size_t count = batch->count;
    struct span took = mono_since(now, batch->began);
    calls->unbatched = !batch->useful;
    count_long_batch(calls, count, took);
    calls->arrived = 0; /* they came before this */
    gather_batch_ended(&calls->gather, count, took, now);
    /* With slow writes, one larger batch after the other serves more requests than two smaller ones
     * that wait for each other. */
    calls->overlap = took.us < (int64_t)count * calls->overlap_below.us;
    for (size_t i = 0; i < count; i++) {
        struct call_order *order = batch->orders[i];
        if (RULE(UNDECIDED_IS_MADE_ALONE) && order->alone) {
            order->result = (struct core_result){ .status = HF_OK };
            submit(calls, &order->job);
        } else {
            end_call(calls, order, now);
        }
    }
    batch->count = 0;
}

static struct call_batch *batch_of_job(struct calls *calls, const struct pool_job *job)
{
    for (size_t i = 0; i < CALLS_BATCHES; i++)
        if (job == &calls->batches[i].job)
            return &calls->batches[i];
    return NULL;
}

void calls_collect(struct calls *calls, struct mono_time now)
{
    struct pool_job *job;
    while ((job = pool_take_ended(calls->pool))) {
        struct call_batch *batch = batch_of_job(calls, job);
        if (batch)
            end_call_batch(calls, batch, now);
        else
            end_call(calls, (struct call_order *)(void *)job, now);
        calls_pump(calls);
    }
}

void calls_pass_time(struct calls *calls, struct mono_time now)
{
    core_pass_time(calls->core, now);
    calls_pump(calls);
}
