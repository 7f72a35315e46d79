/* SPDX-License-Identifier: Apache-2.0 */
/* lock_calm.c: the nodes of the lock workloads during the fault-free phase at the end. Regardless
 * of what the faults have left behind, every lock must become available again within a bounded
 * time. */
#include "sim/workloads/lock_inside.h"

#include <string.h>

/* This long after the fault-free phase begins, every request in flight has arrived, and each node
 * gets its turn in time. */
#define SETTLE     SPAN_S(90)
#define FINAL_WAIT SPAN_S(60)

/* Other nodes may still be suspended for an hour after the fault-free phase begins, and may then
 * have work left. */
#define AWAIT_TRIES_MAX 500

/* A restless node asks this many times, at intervals of up to this many milliseconds. Together this
 * is longer than any node waits. */
#define RESTLESS_MAX 200
#define RESTLESS_MS  1500

/* Without faults, everything that a handle left behind is cleaned up within this time. */
#define TIDY_TIME SPAN_S(25)

/* During the fault-free phase, every call must succeed. */
static void must_be_ok(struct use *use, const char *what, enum hf_status status,
                       const struct hf_error *error)
{
    if (status != HF_OK)
        world_fail(use->process->work->run->world,
                   "node %u %s %s in the fault-free phase, and is told %s: %s",
                   node_number(use->process->node), what, use->wish->scopes[0],
                   hf_status_name(status), error->why);
}

/* Front ends may differ, or the clock may have stepped, by more than a lease lasts. A node that has
 * sent no request for a long time then learns the store time only by asking, and finds that its new
 * lease has already expired. Once it knows the time, it must get a valid lease. */
static enum hf_status acquire_in_calm(struct use *use, struct hf_error *error)
{
    const struct lock_plan *plan = &use->process->work->plan;
    bool may_be_lost = !plan->local && (!plan->store_time || plan->skew_max.us > 0);
    int tries = may_be_lost ? 4 : 1;
    enum hf_status status = HF_LOST;
    for (int i = 0; i < tries && status == HF_LOST; i++) {
        checker_asks(use->claim, CHECKER_STANDS_IN_LINE, FINAL_WAIT.us / 1000);
        status = hf_lock_acquire(use->lock, FINAL_WAIT.us / 1000, error);
    }
    return status;
}

/* Acquires the lock, or this many of its slots at the same time. */
static void have_it_once(struct process *process, const struct lock_wish *wish, uint32_t slots)
{
    struct hf_error error;
    struct use use;
    lock_use_open(&use, process, wish, /* final */ true);
    int64_t asked_us = process_true_now(process);
    must_be_ok(&use, "asks for", acquire_in_calm(&use, &error), &error);
    checker_held(use.claim, use.lock, /* adopted */ false);
    uint64_t token = hf_lock_token(use.lock); /* takes simulated time */
    USE_TRACE(&use, "has had to wait %" PRId64 " ms for token %" PRIu64 " in the calm",
              (process_true_now(process) - asked_us) / 1000, token);
    if (slots > 1)
        have_it_once(process, wish, slots - 1);
    checker_lets_go(use.claim, CHECKER_RELEASES);
    enum hf_status status = hf_lock_release(use.lock, &error);
    /* If the store's clock has stepped too far, another client may have found the lease over. */
    if (status != HF_LOST || process->work->plan.exclusion)
        must_be_ok(&use, "releases", status, &error);
    checker_released(use.claim, status);
    lock_use_close(&use);
}

/* Acquires the lock and abandons it; from now on other clients can only watch the lease until it
 * expires. */
static void abandon(struct process *process, const struct lock_wish *wish)
{
    struct hf_error error;
    struct use use;
    lock_use_open(&use, process, wish, /* final */ true);
    must_be_ok(&use, "asks for", acquire_in_calm(&use, &error), &error);
    checker_held(use.claim, use.lock, /* adopted */ false);
    USE_TRACE(&use, "abandons token %" PRIu64, hf_lock_token(use.lock));
    checker_lets_go(use.claim, CHECKER_ABANDONS);
    hf_lock_detach(use.lock);
    checker_freed(use.claim);
}

/* Joins the queue and leaves it again, as a new client without any earlier knowledge. */
static void ask_for_nothing(struct process *process, const struct lock_wish *wish)
{
    struct hf_error error;
    struct use use;
    struct process brief = *process;
    lock_client_open(&brief);
    lock_use_open(&use, &brief, wish, /* final */ true);
    checker_asks(use.claim, CHECKER_STANDS_IN_LINE, HF_WAIT_FOREVER);
    enum hf_status status = hf_lock_begin(use.lock, &error);
    checker_leaves(use.claim);
    if (status == HF_OK) {
        checker_held(use.claim, use.lock, /* adopted */ false);
        checker_lets_go(use.claim, CHECKER_RELEASES);
        checker_released(use.claim, hf_lock_release(use.lock, &error));
    } else {
        hf_lock_cancel(use.lock, NULL);
    }
    lock_use_close(&use);
    hf_client_close(brief.client);
}

/* Whether a lease can be proven to have ended only by watching it. */
static bool is_only_watched(const struct lock_work *work)
{
    return work->plan.observed || (work->plan.local && work->plan.apart);
}

static bool are_others_satisfied(const struct process *process)
{
    const struct lock_work *work = process->work;
    for (unsigned i = 1; i <= work->run->options->nodes; i++)
        if (i != node_number(process->node) && !work->satisfied[i])
            return false;
    return true;
}

/* Abandons a lease, and keeps changing its table until the other nodes have finished. They must
 * still be able to prove that the lease has ended. */
static void be_restless(struct process *process)
{
    const struct lock_work *work = process->work;
    const struct lock_wish *wish = &work->wishes[process_below(process, work->wish_count)];
    abandon(process, wish);
    for (int i = 0; i < RESTLESS_MAX && !are_others_satisfied(process); i++) {
        ask_for_nothing(process, wish);
        env_sleep(process->env, process_up_to_ms(process, RESTLESS_MS));
    }
}

/* Every node must be able to acquire a lock in each table again. */
static void final_round(struct process *process)
{
    const struct lock_work *work = process->work;
    size_t only = process_below(process, work->wish_count);
    for (size_t i = 0; i < work->wish_count; i++) {
        bool is_first = i == 0 || strcmp(work->wishes[i].key, work->wishes[i - 1].key) != 0;
        if (work->plan.all_again ? is_first : i == only)
            have_it_once(process, &work->wishes[i], 1);
    }
}

/* Some locks are in the list twice, so they are requested more often. */
static bool is_same_wish(const struct lock_wish *a, const struct lock_wish *b)
{
    return a->mode == b->mode && a->scope_count == 1 && b->scope_count == 1 &&
           strcmp(a->scopes[0], b->scopes[0]) == 0;
}

/* The last node to finish must be able to acquire every lock, regardless of what crashed nodes have
 * left behind. */
static void last_round(struct process *process)
{
    const struct lock_work *work = process->work;
    for (size_t i = 0; i < work->wish_count; i++)
        if (i == 0 || !is_same_wish(&work->wishes[i], &work->wishes[i - 1]))
            have_it_once(process, &work->wishes[i], work->wishes[i].slots);
}

/* Waits for the fault-free phase, and until no node has work left. */
static void await_the_others(struct process *process)
{
    struct lock_work *work = process->work;
    int64_t calm_us = work->run->calm_us + SETTLE.us;
    work->rested[node_number(process->node)] = true;
    if (process_true_now(process) < calm_us)
        env_sleep_until(process->env, node_moment(process->node, calm_us));
    for (unsigned i = 1; i <= work->run->options->nodes; i++)
        for (int tries = 0; !work->rested[i] && tries < AWAIT_TRIES_MAX; tries++)
            env_sleep(process->env, SPAN_S(20));
}

void lock_calm(struct process *process)
{
    struct lock_work *work = process->work;
    await_the_others(process);
    checker_quiet(work->checker, process->node, TIDY_TIME);
    if (is_only_watched(work) && node_number(process->node) == 1)
        be_restless(process);
    final_round(process);
    work->satisfied[node_number(process->node)] = true;
    if (are_others_satisfied(process))
        last_round(process);
}
