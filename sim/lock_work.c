#include "base/check.h"
#include "sim/judge_swap.h"
#include "sim/lock_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define WORKERS_MAX 3

/* One in so many operations is something else, where there is something else to do. */
#define BESIDE_EVERY 4

/* The one who does what is done last looks so often whether it is. */
#define AWAIT_TRIES_MAX 1000
#define AWAIT_STEP      SPAN_S(10)

/* What a lease is shorter than its ttl, and by how much front ends that differ by two seconds,
 * whole seconds and small steps may make the store's time jump. */
#define LATE_SLACK_US INT64_C(200000)
#define LATE_DOUBT_US INT64_C(4000000)

/* Some things are done once in so long, ... */
#define ONCE_PER_MS 30000

/* ... judged by how much the store's time may be off. */
#define ONCE_SLACK_US (INT64_C(12) * 1000000)

/* So short that limits of leases come and go in a run. */
#define LIMIT_POLICY_HERE                          \
    {                                              \
        .floor = SPAN_MS(250), .period = SPAN_S(3) \
    }

struct hf_client *lock_client_open(const struct lock_work *work, const struct node *node,
                                   struct store *store)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(node));
    options.holder = label;
    options.ttl_max_ms = work->plan.ttl_max_ms;
    options.skew_tolerance_ms = work->plan.skew_tolerance_ms;
    options.takeover_observed = work->plan.observed;
    check(client_new(store, &options, &client, &error) == HF_OK);
    client->space.policy = client->chunk_space.policy = (struct limit_policy)LIMIT_POLICY_HERE;
    if (work->beside) {
        client->space.settings.late_bound = work->beside->late_bound;
        client->hour = work->beside->hour;
    }
    return client;
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
    judge_told(use->claim, event, /* kept */ !use->options.no_renewal);
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
    use->note = judge_note(use->claim);
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
    use->claim = judge_claim(process->work->judge, process->node, wish);
    use->options = draw_options(use, /* may_be_once */ !final);
    if (final) { /* long enough for clocks of front ends that differ, and for others to be over */
        use->options.ttl_ms = process->work->plan.ttl_max_ms;
        use->options.no_renewal = false;
    }
    if (hf_lock_new_many(process->client, wish->scopes, wish->scope_count, &use->options,
                         &use->lock, &error) != HF_OK)
        world_fail(process->work->run->world, "a lock cannot be made: %s", error.why);
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
    judge_leaves(canceller->use->claim);
    hf_lock_cancel(canceller->use->lock, NULL);
}

static enum hf_status wait_and_be_cancelled(struct use *use, int64_t wait_ms,
                                            struct hf_error *error)
{
    struct env *env = use->process->env;
    struct canceller canceller = { use, process_up_to_ms(use->process, 3000) };
    struct env_task *task;
    USE_TRACE(use, "waits for up to %" PRId64 " ms, to be stopped before", wait_ms);
    judge_asks(use->claim, JUDGE_STANDS_IN_LINE, wait_ms);
    use->cancelled = env_task_start(env, cancel_later, &canceller, &task, error) == HF_OK;
    enum hf_status status = hf_lock_acquire(use->lock, wait_ms, error);
    if (use->cancelled)
        env_task_join(env, task);
    return status;
}

/* Begins, and polls for a while; some give up without a word. */
static enum hf_status poll_for_it(struct use *use, struct hf_error *error)
{
    struct process *process = use->process;
    USE_TRACE(use, "stands in line, and looks every %" PRId64 " ms", use->options.poll_ms);
    judge_asks(use->claim, JUDGE_STANDS_IN_LINE, HF_WAIT_FOREVER);
    enum hf_status status = hf_lock_begin(use->lock, error);
    if (status == HF_HELD)
        judge_told_held(use->claim);
    for (uint64_t left = 1 + process_below(process, 30); status == HF_HELD && left > 0;
         left--) {
        env_sleep(process->env, SPAN_MS(use->options.poll_ms));
        use->refused_us = process_true_now(process);
        status = hf_lock_poll(use->lock, error);
    }
    judge_leaves(use->claim);
    if (status == HF_HELD && process_one_in(process, 2))
        hf_lock_cancel(use->lock, NULL);
    return status;
}

static enum hf_status ask_once(struct use *use, struct hf_error *error)
{
    USE_TRACE(use, "%s", "asks once");
    judge_asks(use->claim, JUDGE_ASKS_ONCE, 0);
    enum hf_status status = hf_lock_acquire(use->lock, 0, error);
    if (status == HF_HELD)
        judge_told_held(use->claim);
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
    judge_asks(use->claim, JUDGE_STANDS_IN_LINE, wait_ms);
    return hf_lock_acquire(use->lock, wait_ms, error);
}

/* Granted too late to be of use: only when it took as long as the lease lasts, or the store's
 * time is in doubt by more. A table that was damaged may have forgotten it. */
static void judge_too_late(struct use *use)
{
    const struct lock_work *work = use->process->work;
    const struct lock_plan *plan = &work->plan;
    bool own_clock = plan->observed || plan->local;
    bool known = own_clock || (plan->store_time && plan->skew_max.us == 0);
    int64_t took_us = process_true_now(use->process) - use->asked_us;
    int64_t doubt_us = own_clock ? LATE_SLACK_US : LATE_SLACK_US + LATE_DOUBT_US;
    if (plan->exclusion && known && !judge_any_damage(work->judge) &&
        took_us + doubt_us < use->options.ttl_ms * 1000)
        world_fail(work->run->world,
                   "node %u gets %s too late after %" PRId64 " us, for a ttl of %" PRId64 " ms",
                   node_number(use->process->node), use->wish->scopes[0], took_us,
                   use->options.ttl_ms);
}

/* A refusal must be one of those that can be. */
static void judge_refusal(struct use *use, enum hf_status status, const struct hf_error *error)
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
        judge_too_late(use);
    if (status == HF_ALREADY)
        judge_told_already(use->claim);
    judge_refused(use->claim, status);
}

/* ---- Holding ------------------------------------------------------------------------- */

/* On a local store another boot knows the calendar only. */
static void judge_once_per(struct use *use)
{
    const struct lock_work *work = use->process->work;
    int64_t since_us = process_true_now(use->process) - work->began_us;
    int64_t period_us = use->options.once_per_ms * 1000 / 10 * 9; /* less the slack */
    if (work->plan.local && /* else there is nothing but calendars */
        (work->plan.apart || strcmp(work->completed_boot, env_boot_id(use->process->env)) != 0))
        return;
    if (use->options.once_per_ms > 0 && work->plan.store_time && work->completed_us >= 0 &&
        work->completed_us < use->asked_us && since_us < period_us - ONCE_SLACK_US)
        world_fail(work->run->world, "node %u does once more what was begun %" PRId64 " us ago",
                   node_number(use->process->node), since_us);
}

/* Makes it known to those who break or adopt. */
static void publish(struct use *use, bool passed)
{
    struct lock_work *work = use->process->work;
    char text[HF_LEASE_TEXT_MAX];
    if (hf_lock_text(use->lock, text, NULL) != HF_OK)
        return;
    uint64_t token = hf_lock_token(use->lock);
    USE_TRACE(use, "%s token %" PRIu64, passed ? "passes on" : "makes known", token);
    if (passed)
        judge_passed_on(use->claim);
    work->notice = (struct notice){ .wish = use->wish, .token = token, .passed = passed };
    memcpy(work->notice.text, text, sizeof text);
}

/* Acquires what it holds once more, and gives that back. */
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
    struct judge_lock *judge = process->work->judge;
    int64_t ttl_ms = use->options.ttl_ms;
    struct span most =
        process_up_to_ms(process, process_one_in(process, 8) ? 6 * ttl_ms : ttl_ms);
    struct mono_time until = mono_add(env_now(process->env), most);
    while (mono_before(env_now(process->env), until)) {
        env_sleep(process->env, process_up_to_ms(process, ttl_ms / 2));
        if (process_one_in(process, 2)) /* besides, at each write */
            judge_look(judge);
        if (hf_lock_check(use->lock, NULL) != HF_OK) {
            judge_told_over(use->claim);
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

/* Who has lost it must have been told, at once; on a machine that was suspended, a little
 * later. */
static void judge_notification(struct use *use)
{
    struct env *env = use->process->env;
    if (hf_lock_check(use->lock, NULL) == HF_OK)
        return;
    for (int i = 0; i < 30 && !judge_was_told_gone(use->claim); i++)
        env_sleep(env, SPAN_MS(50));
    if (!judge_was_told_gone(use->claim))
        world_fail(use->process->work->run->world, "node %u lost %s and was not told",
                   node_number(use->process->node), use->wish->scopes[0]);
}

static enum judge_end draw_end(struct use *use, bool first)
{
    switch (process_below(use->process, 8)) {
    case 0: return JUDGE_FREES;
    case 1: return JUDGE_FAILS;
    case 2: return JUDGE_COMPLETES;
    default: return first ? JUDGE_COMPLETES : JUDGE_RELEASES;
    }
}

static void let_go(struct use *use)
{
    struct lock_work *work = use->process->work;
    struct hf_error error;
    enum hf_status status = HF_OK;
    bool first = work->once_per && use->wish == &work->wishes[0];
    enum judge_end end = draw_end(use, first);
    judge_lets_go(use->claim, end);
    switch (end) {
    case JUDGE_ABANDONS:
    case JUDGE_FREES: return; /* hf_lock_free does it */
    case JUDGE_FAILS: status = hf_lock_fail(use->lock, "{\"why\":\"not well\"}", &error); break;
    case JUDGE_COMPLETES: status = hf_lock_complete(use->lock, NULL, &error); break;
    case JUDGE_RELEASES: status = hf_lock_release(use->lock, &error); break;
    }
    USE_TRACE(use, "is told %s on ending token %" PRIu64, hf_status_name(status),
              hf_lock_token(use->lock));
    judge_released(use->claim, status);
    if (status == HF_OK && first && end == JUDGE_COMPLETES) {
        work->completed_us = process_true_now(use->process);
        work->began_us = use->refused_us;
        snprintf(work->completed_boot, sizeof work->completed_boot, "%s",
                 env_boot_id(use->process->env));
    }
}

static void hold(struct use *use, bool adopted)
{
    judge_held(use->claim, use->lock, adopted);
    USE_TRACE(use, "%s token %" PRIu64, adopted ? "adopts" : "holds", hf_lock_token(use->lock));
    hold_on(use);
    USE_TRACE(use, "lets go of token %" PRIu64, hf_lock_token(use->lock));
    judge_notification(use);
    let_go(use);
}

/* ---- Operations ---------------------------------------------------------------------- */

void lock_use_close(struct use *use)
{
    judge_leaves(use->claim);
    hf_lock_free(use->lock);
    judge_freed(use->claim);
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
        judge_once_per(&use);
        hold(&use, /* adopted */ false);
    } else {
        judge_refusal(&use, status, &error);
    }
    lock_use_close(&use);
}

/* False: nobody has made a lease known. */
static bool break_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct notice notice = work->notice;
    struct use use = { .process = process, .wish = notice.wish };
    if (!notice.wish)
        return false;
    judge_breaks(work->judge, notice.wish->key, notice.token);
    USE_TRACE(&use, "breaks token %" PRIu64, notice.token);
    enum hf_status status =
        hf_break(process->client, notice.text, "operator", "it is in the way", NULL);
    judge_broke(work->judge, notice.wish->key, notice.token, status);
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
    work->notice.passed = false; /* one adopts it */
    use.claim = judge_claim(work->judge, process->node, notice.wish);
    use.options = draw_options(&use, /* may_be_once */ false);
    judge_adopting(use.claim, notice.token, /* begins */ true);
    enum hf_status status =
        hf_lock_adopt(process->client, notice.text, &use.options, &use.lock, NULL);
    judge_adopting(use.claim, notice.token, /* begins */ false);
    USE_TRACE(&use, "is told %s on adopting token %" PRIu64, hf_status_name(status),
              notice.token);
    if (status == HF_OK)
        hold(&use, /* adopted */ true);
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

/* What is done beside the locks when the others have come to their end. */
static void calm_beside(struct process *process)
{
    const struct lock_work *work = process->work;
    for (unsigned i = 2; i <= work->run->options->nodes; i++)
        for (int tries = 0; !work->finished[i] && tries < AWAIT_TRIES_MAX; tries++)
            env_sleep(process->env, AWAIT_STEP);
    work->beside->calm(work->beside->argument, process);
}

static void live(struct process *process)
{
    const struct lock_beside *beside = process->work->beside;
    void *begun = beside ? beside->begin(beside->argument, process) : NULL;
    run_workers(process);
    lock_calm(process);
    if (beside && node_number(process->node) == 1)
        calm_beside(process);
    if (beside)
        beside->end(beside->argument, process, begun);
}

static void program(struct node *node, void *argument)
{
    struct lock_work *work = argument;
    work->rested[node_number(node)] = work->satisfied[node_number(node)] = false;
    struct process process = { .work = work, .node = node, .env = node_env(node) };
    process.store = net_store_open(work->run->net, node);
    check(process.store);
    if (!work->beside && node_number(node) % 2 == 0) /* has not learnt what the store can do */
        process.store->traits.delete_conditional = false;
    process.client = lock_client_open(work, node, process.store);
    live(&process);
    hf_client_close(process.client);
    store_close(process.store);
    work->finished[node_number(node)] = true;
}

/* ---- Beginning and end --------------------------------------------------------------- */

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
    struct judge_lock_options options = {
        .exclusion = work->plan.exclusion,
        .own_clock = work->plan.exclusion && (work->plan.observed || work->plan.local),
        .purged = beside != NULL
    };
    work->judge = judge_lock_new(run, &options);
    work->swap_judge = judge_swap_new(run);
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
    judge_lock_free(work->judge);
    judge_swap_free(work->swap_judge);
    free(work);
}

struct judge_lock *lock_work_judge(struct lock_work *work)
{
    return work->judge;
}

void lock_work_end(struct lock_work *work)
{
    for (unsigned i = 1; i <= work->run->options->nodes; i++)
        if (!work->finished[i])
            world_fail(work->run->world, "node %u did not come to its end", i);
    judge_lock_end(work->judge);
}
