/* SPDX-License-Identifier: Apache-2.0 */
/* lock_work.c: the nodes of the lock workloads while faults happen. They acquire, wait for, renew,
 * pass on, break and end leases in every possible way, and report each request and its result to
 * the checker. */
#include "base/check.h"
#include "lock/handle.h"
#include "sim/checkers/swap_checker.h"
#include "sim/workloads/lock_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define WORKERS_MAX 3

/* One in this many operations is additional work, if the workload has any. */
#define BESIDE_EVERY 4

/* How many times, and how often, the last working node checks whether the others have finished. */
#define AWAIT_TRIES_MAX 1000
#define AWAIT_STEP      SPAN_S(10)

/* How much shorter than its ttl the usable time of a lease is; and how far the store time may jump
 * with front ends that differ by two seconds, dates in whole seconds, and small steps. */
#define LATE_SLACK_US INT64_C(200000)
#define LATE_DOUBT_US INT64_C(4000000)

/* The period of work that must be done only once per period, ... */
#define ONCE_PER_MS 30000

/* ... and the uncertainty of the store time by which it is measured. */
#define ONCE_SLACK_US (INT64_C(12) * 1000000)

/* Periods that are short enough for lease limits to come and go within a run. */
#define LIMIT_POLICY_HERE                          \
    {                                              \
        .floor = SPAN_MS(250), .period = SPAN_S(3) \
    }

void lock_client_open(struct process *process)
{
    const struct lock_work *work = process->work;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(process->node));
    options.holder = label;
    options.ttl_max_ms = work->plan.ttl_max_ms;
    options.skew_tolerance_ms = work->plan.skew_tolerance_ms;
    options.takeover_observed = work->plan.observed;
    check(client_new(process->store, &options, &client, &error) == HF_OK);
    client->space.policy = client->chunk_space.policy = (struct limit_policy)LIMIT_POLICY_HERE;
    if (work->beside) {
        client->space.settings.late_bound = work->beside->late_bound;
        client->hour = work->beside->hour;
    }
    process->client = client;
    if (work->beside && work->beside->opened)
        work->beside->opened(work->beside->argument, process);
}

/* ---- Handles ------------------------------------------------------------------------- */

static void notify(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    struct use *use = argument;
    static const char *const events[] = {
        [HF_LOCK_DANGER] = "in danger", [HF_LOCK_SAFE] = "safe again", [HF_LOCK_GONE] = "gone"
    };
    USE_TRACE(use, "is told by its keeper that token %" PRIu64 " is %s", hf_lock_token(lock),
              events[event]);
    checker_told(use->claim, event, /* kept */ !use->options.no_renewal);
}

static struct hf_lock_options draw_options(struct use *use, bool may_be_once)
{
    struct process *process = use->process;
    struct lock_work *work = process->work;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    uint64_t ttl_ms_most = (uint64_t)work->plan.ttl_ms_max;
    if (work->mix_ttls && !process_one_in(process, 5))
        ttl_ms_most = 600;
    options.ttl_ms = 200 + (int64_t)process_below(process, ttl_ms_most - 199);
    options.mode = use->wish->mode;
    options.slots = use->wish->slots;
    options.poll_ms =
        150 + (int64_t)process_below(process, process_one_in(process, 3) ? 850 : 450);
    options.no_renewal = process_one_in(process, 8);
    use->note = checker_note(use->claim);
    options.note = use->note.text;
    options.notify = notify;
    options.notify_argument = use;
    if (may_be_once && work->once_per && use->wish == &work->wishes[0] &&
        process_one_in(process, 2))
        options.once_per_ms = ONCE_PER_MS;
    return options;
}

void lock_use_open(struct use *use, struct process *process, const struct lock_wish *wish,
                   bool final)
{
    struct hf_error error;
    *use = (struct use){ .process = process, .wish = wish };
    use->claim = claim_checker(process->work->checker, process->node, wish);
    use->options = draw_options(use, /* may_be_once */ !final);
    if (final) { /* long enough for differing front ends, and for other leases to end */
        use->options.ttl_ms = process->work->plan.ttl_max_ms;
        use->options.no_renewal = false;
    }
    if (hf_lock_new_many(process->client, wish->scopes, wish->scope_count, &use->options,
                         &use->lock, &error) != HF_OK)
        world_fail(process->work->run->world, "a lock cannot be made: %s", error.why);
    checker_placed(use->claim, doc_key(use->lock->ref->doc));
}

/* ---- Asking -------------------------------------------------------------------------- */

struct canceller {
    struct use *use;
    struct span after;
};

static void cancel_later(void *argument)
{
    struct canceller *canceller = argument;
    env_sleep(canceller->use->process->env, canceller->after);
    USE_TRACE(canceller->use, "%s", "is to stop waiting");
    checker_leaves(canceller->use->claim);
    hf_lock_cancel(canceller->use->lock, NULL);
}

static enum hf_status wait_and_be_cancelled(struct use *use, int64_t wait_ms,
                                            struct hf_error *error)
{
    struct env *env = use->process->env;
    struct canceller canceller = { use, process_up_to_ms(use->process, 3000) };
    struct env_task *task;
    USE_TRACE(use, "waits for up to %" PRId64 " ms, to be stopped before", wait_ms);
    checker_asks(use->claim, CHECKER_STANDS_IN_LINE, wait_ms);
    use->cancelled = env_task_start(env, cancel_later, &canceller, &task, error) == HF_OK;
    enum hf_status status = hf_lock_acquire(use->lock, wait_ms, error);
    if (use->cancelled)
        env_task_join(env, task);
    return status;
}

/* Sends the request and polls for a while; some nodes then abandon the request. */
static enum hf_status poll_for_it(struct use *use, struct hf_error *error)
{
    struct process *process = use->process;
    USE_TRACE(use, "stands in line, and looks every %" PRId64 " ms", use->options.poll_ms);
    checker_asks(use->claim, CHECKER_STANDS_IN_LINE, HF_WAIT_FOREVER);
    enum hf_status status = hf_lock_begin(use->lock, error);
    if (status == HF_HELD)
        checker_told_held(use->claim);
    for (uint64_t left = 1 + process_below(process, 30); status == HF_HELD && left > 0;
         left--) {
        env_sleep(process->env, SPAN_MS(use->options.poll_ms));
        use->refused_us = process_true_now(process);
        status = hf_lock_poll(use->lock, error);
    }
    checker_leaves(use->claim);
    if (status == HF_HELD && process_one_in(process, 2))
        hf_lock_cancel(use->lock, NULL);
    return status;
}

static enum hf_status ask_once(struct use *use, struct hf_error *error)
{
    USE_TRACE(use, "%s", "asks once");
    checker_asks(use->claim, CHECKER_ASKS_ONCE, 0);
    enum hf_status status = hf_lock_acquire(use->lock, 0, error);
    if (status == HF_HELD)
        checker_told_held(use->claim);
    return status;
}

static enum hf_status ask(struct use *use, struct hf_error *error)
{
    struct process *process = use->process;
    int64_t wait_ms =
        1 + (int64_t)process_below(process, process_one_in(process, 4) ? 12000 : 5000);
    use->asked_us = use->refused_us = process_true_now(process);
    switch (process_below(process, 8)) {
    case 0:
    case 1: return ask_once(use, error);
    case 2: return wait_and_be_cancelled(use, wait_ms, error);
    case 3:
    case 4: return poll_for_it(use, error);
    default: break;
    }
    USE_TRACE(use, "waits for up to %" PRId64 " ms", wait_ms);
    checker_asks(use->claim, CHECKER_STANDS_IN_LINE, wait_ms);
    return hf_lock_acquire(use->lock, wait_ms, error);
}

/* Checks a grant that came too late to be useful. This is allowed only if the grant took as long as
 * the lease lasts, if the store time is uncertain by more than that, or if the table was damaged
 * and may have forgotten the lease. */
static void checker_too_late(struct use *use)
{
    const struct lock_work *work = use->process->work;
    const struct lock_plan *plan = &work->plan;
    bool own_clock = plan->observed || plan->local;
    bool known = own_clock || (plan->store_time && plan->skew_max.us == 0);
    int64_t took_us = process_true_now(use->process) - use->asked_us;
    int64_t doubt_us = own_clock ? LATE_SLACK_US : LATE_SLACK_US + LATE_DOUBT_US;
    if (plan->exclusion && known && !checker_any_damage(work->checker) &&
        took_us + doubt_us < use->options.ttl_ms * 1000)
        world_fail(work->run->world,
                   "node %u gets %s too late after %" PRId64 " us, for a ttl of %" PRId64 " ms",
                   node_number(use->process->node), use->wish->scopes[0], took_us,
                   use->options.ttl_ms);
}

void lock_use_refused(struct use *use, enum hf_status status, const struct hf_error *error)
{
    bool may_be = status == HF_HELD || status == HF_TIMEOUT || status == HF_UNSURE ||
                  status == HF_LOST || status == HF_UNAVAILABLE ||
                  (status == HF_CANCELLED && use->cancelled) ||
                  (status == HF_ALREADY && use->options.once_per_ms > 0);
    if (!may_be)
        world_fail(use->process->work->run->world, "node %u asks for %s, and is told %s: %s",
                   node_number(use->process->node), use->wish->scopes[0],
                   hf_status_name(status), error->why);
    if (status == HF_LOST)
        checker_too_late(use);
    if (status == HF_ALREADY)
        checker_told_already(use->claim);
    checker_refused(use->claim, status);
}

/* ---- Holding ------------------------------------------------------------------------- */

/* Checks that work is done only once per period. On a local store, this is not checked across
 * boots, because a client can then only compare wall clocks. */
static void checker_once_per(struct use *use)
{
    const struct lock_work *work = use->process->work;
    int64_t since_us = process_true_now(use->process) - work->began_us;
    int64_t period_us = use->options.once_per_ms * 1000 / 10 * 9; /* less the slack */
    if (work->plan.local && /* otherwise only wall clocks remain */
        (work->plan.apart || strcmp(work->completed_boot, env_boot_id(use->process->env)) != 0))
        return;
    if (use->options.once_per_ms > 0 && work->plan.store_time && work->completed_us >= 0 &&
        work->completed_us < use->asked_us && since_us < period_us - ONCE_SLACK_US)
        world_fail(work->run->world, "node %u does once more what was begun %" PRId64 " us ago",
                   node_number(use->process->node), since_us);
}

/* Publishes the lease, so that other nodes can break or adopt it. */
static void publish(struct use *use, bool passed)
{
    struct lock_work *work = use->process->work;
    char text[HF_LEASE_TEXT_MAX];
    if (hf_lock_text(use->lock, text, NULL) != HF_OK)
        return;
    uint64_t token = hf_lock_token(use->lock);
    USE_TRACE(use, "%s token %" PRIu64, passed ? "passes on" : "makes known", token);
    if (passed)
        checker_passed_on(use->claim);
    work->notice = (struct notice){ .wish = use->wish, .token = token, .passed = passed };
    memcpy(work->notice.text, text, sizeof text);
}

/* Acquires a lock that the node already holds, and releases it again. */
static void enter_again(struct use *use)
{
    struct hf_error error;
    uint64_t token = hf_lock_token(use->lock);
    if (hf_lock_acquire(use->lock, 0, &error) != HF_OK)
        return;
    if (hf_lock_token(use->lock) != token)
        world_fail(use->process->work->run->world, "node %u re-enters and gets another token",
                   node_number(use->process->node));
    hf_lock_release(use->lock, &error);
}

static void hold_on(struct use *use)
{
    struct process *process = use->process;
    struct lock_checker *checker = process->work->checker;
    int64_t ttl_ms = use->options.ttl_ms;
    struct span most =
        process_up_to_ms(process, process_one_in(process, 8) ? 6 * ttl_ms : ttl_ms);
    struct mono_time until = mono_add(env_now(process->env), most);
    while (mono_before(env_now(process->env), until)) {
        env_sleep(process->env, process_up_to_ms(process, ttl_ms / 2));
        if (process_one_in(process, 2)) /* in addition to the check at each write */
            checker_look(checker);
        if (hf_lock_check(use->lock, NULL) != HF_OK) {
            checker_told_over(use->claim);
            return;
        }
        if (use->options.no_renewal || process_one_in(process, 10))
            hf_lock_renew(use->lock, NULL);
        if (process_one_in(process, 12))
            enter_again(use);
        if (process_one_in(process, 8))
            publish(use, process_one_in(process, 3));
    }
}

/* A holder that has lost its lease must be notified immediately or, after a suspension, slightly
 * later. */
static void checker_notification(struct use *use)
{
    struct env *env = use->process->env;
    if (hf_lock_check(use->lock, NULL) == HF_OK)
        return;
    for (int i = 0; i < 30 && !checker_was_told_gone(use->claim); i++)
        env_sleep(env, SPAN_MS(50));
    if (!checker_was_told_gone(use->claim))
        world_fail(use->process->work->run->world, "node %u lost %s and was not told",
                   node_number(use->process->node), use->wish->scopes[0]);
}

static enum checker_end draw_end(struct use *use, bool first)
{
    switch (process_below(use->process, 8)) {
    case 0: return CHECKER_FREES;
    case 1: return CHECKER_FAILS;
    case 2: return CHECKER_COMPLETES;
    default: return first ? CHECKER_COMPLETES : CHECKER_RELEASES;
    }
}

static void let_go(struct use *use)
{
    struct lock_work *work = use->process->work;
    struct hf_error error;
    enum hf_status status = HF_OK;
    bool first = work->once_per && use->wish == &work->wishes[0];
    enum checker_end end = draw_end(use, first);
    checker_lets_go(use->claim, end);
    switch (end) {
    case CHECKER_ABANDONS:
    case CHECKER_FREES: return; /* hf_lock_free releases it */
    case CHECKER_FAILS:
        status = hf_lock_fail(use->lock, "{\"why\":\"not well\"}", &error);
        break;
    case CHECKER_COMPLETES: status = hf_lock_complete(use->lock, NULL, &error); break;
    case CHECKER_RELEASES: status = hf_lock_release(use->lock, &error); break;
    }
    USE_TRACE(use, "is told %s on ending token %" PRIu64, hf_status_name(status),
              hf_lock_token(use->lock));
    checker_released(use->claim, status);
    if (status == HF_OK && first && end == CHECKER_COMPLETES) {
        work->completed_us = process_true_now(use->process);
        work->began_us = use->refused_us;
        snprintf(work->completed_boot, sizeof work->completed_boot, "%s",
                 env_boot_id(use->process->env));
    }
}

void lock_use_granted(struct use *use, bool adopted)
{
    checker_held(use->claim, use->lock, adopted);
    USE_TRACE(use, "%s token %" PRIu64, adopted ? "adopts" : "holds", hf_lock_token(use->lock));
}

void lock_use_keep(struct use *use)
{
    hold_on(use);
    USE_TRACE(use, "lets go of token %" PRIu64, hf_lock_token(use->lock));
    checker_notification(use);
}

void lock_use_hold(struct use *use, bool adopted)
{
    lock_use_granted(use, adopted);
    lock_use_keep(use);
    let_go(use);
}

/* ---- Operations ---------------------------------------------------------------------- */

void lock_use_close(struct use *use)
{
    checker_leaves(use->claim);
    hf_lock_free(use->lock);
    checker_freed(use->claim);
}

static void use_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct hf_error error;
    struct use use;
    lock_use_open(&use, process, &work->wishes[process_below(process, work->wish_count)],
                  /* final */ false);
    USE_TRACE(&use, "wants it for %" PRId64 " ms at a time%s%s", use.options.ttl_ms,
              use.options.no_renewal ? ", and renews it by hand" : "",
              use.options.once_per_ms > 0 ? ", once in 30 s" : "");
    enum hf_status status = ask(&use, &error);
    USE_TRACE(&use, "is told %s", hf_status_name(status));
    if (status == HF_OK) {
        checker_once_per(&use);
        lock_use_hold(&use, /* adopted */ false);
    } else {
        lock_use_refused(&use, status, &error);
    }
    lock_use_close(&use);
}

static struct hf_lease_name lease_of(const struct notice *notice)
{
    struct hf_lease_name lease = HF_LEASE_NAME;
    check(hf_lease_parse(notice->text, &lease, NULL) == HF_OK);
    return lease;
}

/* Breaks a published lease. Returns false if no lease is published. */
static bool break_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct notice notice = work->notice;
    struct use use = { .process = process, .wish = notice.wish };
    if (!notice.wish)
        return false;
    struct hf_lease_name lease = lease_of(&notice);
    checker_breaks(work->checker, lease.table, notice.token);
    USE_TRACE(&use, "breaks token %" PRIu64, notice.token);
    enum hf_status status =
        hf_break(process->client, notice.text, "operator", "it is in the way", NULL);
    checker_broke(work->checker, lease.table, notice.token, status);
    USE_TRACE(&use, "is told %s on breaking token %" PRIu64, hf_status_name(status),
              notice.token);
    return true;
}

static bool adopt_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct notice notice = work->notice;
    struct use use = { .process = process, .wish = notice.wish };
    if (!notice.wish || !notice.passed)
        return false;
    work->notice.passed = false; /* only one node adopts it */
    use.claim = claim_checker(work->checker, process->node, notice.wish);
    struct hf_lease_name lease = lease_of(&notice);
    checker_placed(use.claim, view_of(lease.table));
    use.options = draw_options(&use, /* may_be_once */ false);
    checker_adopting(use.claim, notice.token, /* begins */ true);
    enum hf_status status =
        hf_lock_adopt(process->client, notice.text, &use.options, &use.lock, NULL);
    checker_adopting(use.claim, notice.token, /* begins */ false);
    USE_TRACE(&use, "is told %s on adopting token %" PRIu64, hf_status_name(status),
              notice.token);
    if (status == HF_OK)
        lock_use_hold(&use, /* adopted */ true);
    lock_use_close(&use);
    return true;
}

static void work_on(void *argument)
{
    struct process *process = argument;
    unsigned *left = &process->work->left[node_number(process->node)];
    while (*left > 0) {
        --*left;
        run_count_operation(process->work->run);
        const struct lock_beside *beside = process->work->beside;
        if (beside && process_one_in(process, BESIDE_EVERY)) {
            beside->act(beside->argument, process);
            continue;
        }
        uint64_t drawn = process_below(process, 16);
        if (!(drawn == 0 && break_lock(process)) && !(drawn == 1 && adopt_lock(process)))
            use_lock(process);
        env_sleep(process->env, process_up_to_ms(process, 4000));
    }
}

static void run_workers(struct process *process)
{
    struct env_task *tasks[WORKERS_MAX];
    struct hf_error error;
    size_t count = 1 + process_below(process, WORKERS_MAX);
    for (size_t i = 0; i < count; i++)
        check(env_task_start(process->env, work_on, process, &tasks[i], &error) == HF_OK);
    for (size_t i = 0; i < count; i++)
        env_task_join(process->env, tasks[i]);
}

/* The additional work of the workload, after the other nodes have finished. */
static void calm_beside(struct process *process)
{
    const struct lock_work *work = process->work;
    for (unsigned i = 2; i <= work->run->options->nodes; i++)
        for (int tries = 0; !work->finished[i] && tries < AWAIT_TRIES_MAX; tries++)
            env_sleep(process->env, AWAIT_STEP);
    if (work->beside->calm)
        work->beside->calm(work->beside->argument, process);
}

static void live(struct process *process)
{
    const struct lock_beside *beside = process->work->beside;
    void *begun = beside && beside->begin ? beside->begin(beside->argument, process) : NULL;
    run_workers(process);
    lock_calm(process);
    if (beside && node_number(process->node) == 1)
        calm_beside(process);
    if (beside && beside->end)
        beside->end(beside->argument, process, begun);
}

static void program(struct node *node, void *argument)
{
    struct lock_work *work = argument;
    work->rested[node_number(node)] = work->satisfied[node_number(node)] = false;
    struct process process = { .work = work, .node = node, .env = node_env(node) };
    process.store = net_store_open(work->run->net, node);
    check(process.store);
    if (!work->beside && node_number(node) % 2 == 0) /* has not read the store's traits */
        process.store->traits.delete_conditional = false;
    lock_client_open(&process);
    live(&process);
    hf_client_close(process.client);
    store_close(process.store);
    work->finished[node_number(node)] = true;
}

/* ---- Start and end ------------------------------------------------------------------- */

static struct lock_work *make_work(struct run *run, const struct lock_wish *wishes,
                                   size_t count, bool once_per,
                                   const struct lock_beside *beside)
{
    struct lock_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    work->beside = beside;
    work->plan = lock_plan_draw(run->world);
    work->wishes = wishes;
    work->wish_count = count;
    work->once_per = once_per;
    work->completed_us = -1;
    struct store_traits traits = bucket_traits(net_bucket(run->net));
    work->plan.local = traits.clock == STORE_CLOCK_BOOT;
    struct lock_checker_options options = {
        .exclusion = work->plan.exclusion,
        .own_clock = work->plan.exclusion && (work->plan.observed || work->plan.local),
        .purged = beside && !beside->keeps_tables
    };
    work->checker = lock_checker_new(run, &options);
    work->swap_checker = swap_checker_new(run);
    for (unsigned i = 0; i < run->options->operations; i++)
        work->left[1 + i % run->options->nodes]++;
    for (unsigned i = 0; i < run->options->nodes; i++)
        node_boot(world_node(run->world, i), program, work);
    return work;
}

struct lock_work *lock_work_new(struct run *run, const struct lock_wish *wishes, size_t count,
                                bool once_per)
{
    return make_work(run, wishes, count, once_per, /* beside */ NULL);
}

struct lock_work *lock_work_new_beside(struct run *run, const struct lock_wish *wishes,
                                       size_t count, const struct lock_beside *beside)
{
    return make_work(run, wishes, count, /* once_per */ false, beside);
}

void lock_work_mix_ttls(struct lock_work *work)
{
    work->mix_ttls = true;
}

void lock_work_free(struct lock_work *work)
{
    lock_checker_free(work->checker);
    swap_checker_free(work->swap_checker);
    free(work);
}

struct lock_checker *lock_work_checker(struct lock_work *work)
{
    return work->checker;
}

void lock_work_end(struct lock_work *work)
{
    for (unsigned i = 1; i <= work->run->options->nodes; i++)
        if (!work->finished[i])
            world_fail(work->run->world, "node %u did not come to its end", i);
    lock_checker_end(work->checker);
}
