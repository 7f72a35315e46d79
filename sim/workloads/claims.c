/* SPDX-License-Identifier: Apache-2.0 */
/* claims.c: nodes that complete one lease and claim the next in the same write, as the workers of
 * compaction do (lock_complete_and_acquire). Beside them, nodes use the same locks in every other
 * way. The checker of locks applies to each lease as it does to any other: the claim excludes what
 * overlaps it, counts only if its write has landed, and says nothing about the completion. */
#include "base/check.h"
#include "lock/handle.h"
#include "sim/workloads/lock_inside.h"

#include <stdlib.h>

#define TABLE  "default/inode/7.json"
#define CHUNKS "metadata/compaction-leases.json"

static const struct lock_wish wishes[] = {
    { CHUNKS, { "chunk:data/a", "chunk:data/b" }, 2, HF_EXCLUSIVE, 0 },
    { CHUNKS, { "chunk:data/c", "chunk:data/d" }, 2, HF_EXCLUSIVE, 0 },
    { CHUNKS, { "chunk:data/b", "chunk:data/c" }, 2, HF_EXCLUSIVE, 0 },
    { CHUNKS, { "chunk:data/d" }, 1, HF_EXCLUSIVE, 0 },
    { TABLE, { "range:7:0-4096" }, 1, HF_EXCLUSIVE, 0 }, /* in another table */
};
#define WISHES (sizeof wishes / sizeof *wishes)

#define CHAIN_MAX 5

struct claims {
    struct lock_work *work;
    struct lock_beside beside;
};

static void open_some(struct use *use, struct process *process)
{
    lock_use_open(use, process, &wishes[process_below(process, WISHES)], /* final */ false);
    use->asked_us = use->refused_us = process_true_now(process);
    checker_asks(use->claim, CHECKER_ASKS_ONCE, 0);
}

/* The locks that a node holds, and completes together. A handle does not move, because its keeper
 * knows it. */
struct held {
    struct use uses[LOCK_EXCHANGE_MAX];
    bool has[LOCK_EXCHANGE_MAX];
};

static bool has_any(const struct held *held)
{
    bool any = false;
    for (size_t i = 0; i < LOCK_EXCHANGE_MAX; i++)
        any |= held->has[i];
    return any;
}

static void claim_some(struct held *next, size_t count, struct process *process,
                       struct lock_exchange *exchange)
{
    for (size_t i = 0; i < count; i++) {
        open_some(&next->uses[i], process);
        exchange->next[exchange->next_count++] = next->uses[i].lock;
        USE_TRACE(&next->uses[i], "%s", "is claimed in the write that completes the last");
    }
}

static void take_answer(struct use *use, enum hf_status status, const struct hf_error *error)
{
    USE_TRACE(use, "is told %s", hf_status_name(status));
    if (status == HF_OK) {
        lock_use_granted(use, /* adopted */ false);
        return;
    }
    if (status == HF_HELD)
        checker_told_held(use->claim);
    lock_use_refused(use, status, error);
    lock_use_close(use);
}

/* Completes what is held, and claims so many other locks in the same write. */
static void go_on_with(struct held *done, struct held *next, size_t count,
                       struct process *process)
{
    struct lock_exchange exchange = { .done_count = 0 };
    claim_some(next, count, process, &exchange);
    for (size_t i = 0; i < LOCK_EXCHANGE_MAX; i++)
        if (done->has[i]) {
            exchange.done[exchange.done_count++] = done->uses[i].lock;
            checker_lets_go(done->uses[i].claim, CHECKER_COMPLETES);
        }
    lock_exchange(&exchange);
    for (size_t i = 0, at = 0; i < LOCK_EXCHANGE_MAX; i++)
        if (done->has[i]) {
            checker_released(done->uses[i].claim, exchange.completed[at++]);
            lock_use_close(&done->uses[i]);
            done->has[i] = false;
        }
    for (size_t i = 0; i < count; i++) {
        next->has[i] = exchange.acquired[i] == HF_OK;
        take_answer(&next->uses[i], exchange.acquired[i], &exchange.errors[i]);
    }
}

static void act(void *argument, struct process *process)
{
    struct held both[2] = { { .has = { false } }, { .has = { false } } };
    struct held *held = &both[0], *other = &both[1];
    (void)argument;
    go_on_with(other, held, 1, process);
    for (unsigned left = (unsigned)process_below(process, CHAIN_MAX); has_any(held); left--) {
        for (size_t i = 0; i < LOCK_EXCHANGE_MAX; i++)
            if (held->has[i])
                lock_use_keep(&held->uses[i]);
        size_t count = left > 0 ? 1 + (size_t)process_below(process, LOCK_EXCHANGE_MAX) : 0;
        go_on_with(held, other, count, process);
        struct held *swapped = held;
        held = other;
        other = swapped;
    }
}

static void *start(struct run *run)
{
    struct claims *claims = calloc(1, sizeof *claims);
    check(claims);
    claims->beside = (struct lock_beside){
        .late_bound = SPAN_S(900), .hour = SPAN_S(3600), .keeps_tables = true, .act = act
    };
    claims->work = lock_work_new_beside(run, wishes, WISHES, &claims->beside);
    return claims;
}

static void check_at_end(struct run *run, void *state)
{
    (void)run;
    lock_work_end(((struct claims *)state)->work);
}

static void free_state(void *state)
{
    struct claims *claims = state;
    lock_work_free(claims->work);
    free(claims);
}

const struct workload workload_claims = {
    .name = "claims",
    .about = "nodes claim their next lease in the write that completes the last",
    .tune = lock_work_tune,
    .start = start,
    .check_at_end = check_at_end,
    .free = free_state,
};
