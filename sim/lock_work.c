#include "sim/lock_work.h"

#include "base/check.h"
#include "lock/client.h"

#include <inttypes.h>
#include <stdlib.h>

#define WORKERS_MAX 3

/* After the calm: what was under way has arrived by then, and the turn of each comes in time. */
#define SETTLE      SPAN_S(90)
#define FINAL_WAIT  SPAN_S(240)
#define ONCE_PER_MS 30000

/* By how much the store's time may be off when a period is judged. */
#define ONCE_SLACK_US (INT64_C(12) * 1000000)

/* A lease that its holder has made known, to be broken or adopted by others. */
struct notice {
    const struct lock_wish *wish;
    uint64_t token;
    bool passed; /* its holder leaves it to whoever adopts it */
    char text[HF_LEASE_TEXT_MAX];
};

struct lock_work {
    struct run *run;
    struct judge_lock *judge;
    struct lock_plan plan;
    const struct lock_wish *wishes;
    size_t wish_count;
    bool once_per;
    struct notice notice;
    int64_t
        completed_us; /* of the first wish: true time at which somebody was told; -1: never */
    unsigned left[NODES_MAX + 1];
    bool finished[NODES_MAX + 1];
};

/* One life of a node. */
struct process {
    struct lock_work *work;
    struct node *node;
    struct env *env;
    struct hf_client *client;
    struct life_note note;
};

/* One handle and what is done with it. */
struct use {
    struct process *process;
    const struct lock_wish *wish;
    struct hf_lock_options options;
    struct hf_lock *lock;
    struct claim *claim;
    bool cancelled; /* somebody was going to cancel */
    int64_t asked_us;
};

#define USE_TRACE(use, format, ...)                                                     \
    trace_line(world_trace((use)->process->work->run->world), true_now((use)->process), \
               "node %u: %s: " format, node_number((use)->process->node),               \
               (use)->wish->scopes[0], __VA_ARGS__)

static int64_t true_now(const struct process *process)
{
    return world_now_us(process->work->run->world);
}

/* ---- The plan of a seed -------------------------------------------------------------- */

struct lock_plan lock_plan_draw(const struct world *world)
{
    struct prng prng = world_stream(world, STREAM_WORKLOAD);
    struct lock_plan plan = { .exclusion = true, .store_time = true };
    plan.ttl_ms_max = prng_below(&prng, 2) == 0 ? 5000 : 1500;
    plan.ttl_max_ms = 5000 + (int64_t)prng_below(&prng, 5000);
    switch (prng_below(&prng, 8)) {
    case 0:
    case 1:
    case 2:
    case 3: /* front ends differ by two seconds at most, and a few small steps come on top */
        plan.skew_tolerance_ms = 4000;
        plan.store_step_max = SPAN_MS(400);
        break;
    case 4:
    case 5:
        plan.skew_tolerance_ms = 30000;
        plan.skew_max = SPAN_MS(7400);
        plan.store_step_max = SPAN_S(2);
        break;
    case 6:
        plan.observed = true;
        plan.store_time = false;
        plan.store_step_max = SPAN_S(3600);
        plan.stale_dates = true;
        break;
    default: /* beyond all that was assumed */
        plan.skew_tolerance_ms = 1000;
        plan.store_step_max = SPAN_S(60);
        plan.stale_dates = true;
        plan.exclusion = plan.store_time = false;
        break;
    }
    return plan;
}

void lock_work_tune(struct run *run, struct net_options *net, struct chaos_plan *chaos)
{
    struct lock_plan plan = lock_plan_draw(run->world);
    chaos->store_step_max = plan.store_step_max;
    if (plan.skew_max.us > 0)
        net->skew_max = plan.skew_max;
    if (!plan.stale_dates)
        net->plan.stale_date_chance = 0;
}

/* ---- Draws --------------------------------------------------------------------------- */

static uint64_t below(struct process *process, uint64_t bound)
{
    return env_random_u64(process->env) % bound;
}

static bool one_in(struct process *process, uint64_t count)
{
    return below(process, count) == 0;
}

static struct span up_to_ms(struct process *process, int64_t ms)
{
    return SPAN_MS((int64_t)below(process, (uint64_t)ms + 1));
}

/* ---- Handles ------------------------------------------------------------------------- */

static void notify(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    struct use *use = argument;
    (void)lock;
    static const char *const events[] = {
        [HF_LOCK_DANGER] = "in danger", [HF_LOCK_SAFE] = "safe again", [HF_LOCK_GONE] = "gone"
    };
    USE_TRACE(use, "told that it is %s", events[event]);
    if (event == HF_LOCK_GONE)
        judge_told_gone(use->claim);
}

static struct hf_lock_options draw_options(struct use *use, bool may_be_once)
{
    struct process *process = use->process;
    struct lock_work *work = process->work;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = 200 + (int64_t)below(process, (uint64_t)work->plan.ttl_ms_max - 199);
    options.mode = use->wish->mode;
    options.slots = use->wish->slots;
    options.poll_ms = one_in(process, 3) ? 500 : 50 + (int64_t)below(process, 300);
    options.no_renewal = one_in(process, 8);
    options.note = process->note.text;
    options.notify = notify;
    options.notify_argument = use;
    if (may_be_once && work->once_per && use->wish == &work->wishes[0] && one_in(process, 2))
        options.once_per_ms = ONCE_PER_MS;
    return options;
}

static void open_use(struct use *use, struct process *process, const struct lock_wish *wish,
                     bool final)
{
    struct hf_error error;
    *use = (struct use){ .process = process, .wish = wish };
    use->claim = judge_claim(process->work->judge, process->node, wish);
    use->options = draw_options(use, /* may_be_once */ !final);
    if (final) /* long enough for clocks of front ends that differ */
        use->options.ttl_ms = process->work->plan.ttl_max_ms;
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
    hf_lock_cancel(canceller->use->lock, NULL);
}

static enum hf_status wait_and_be_cancelled(struct use *use, int64_t wait_ms,
                                            struct hf_error *error)
{
    struct env *env = use->process->env;
    struct canceller canceller = { use, up_to_ms(use->process, 3000) };
    struct env_task *task;
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
    enum hf_status status = hf_lock_begin(use->lock, error);
    for (uint64_t left = 1 + below(process, 40); status == HF_HELD && left > 0; left--) {
        env_sleep(process->env, SPAN_MS(use->options.poll_ms));
        status = hf_lock_poll(use->lock, error);
    }
    if (status == HF_HELD && one_in(process, 2))
        hf_lock_cancel(use->lock, NULL);
    return status;
}

static enum hf_status ask(struct use *use, struct hf_error *error)
{
    struct process *process = use->process;
    int64_t wait_ms = 1 + (int64_t)below(process, one_in(process, 4) ? 30000 : 6000);
    use->asked_us = true_now(process);
    switch (below(process, 8)) {
    case 0:
    case 1: return hf_lock_acquire(use->lock, 0, error);
    case 2: return wait_and_be_cancelled(use, wait_ms, error);
    case 3:
    case 4: return poll_for_it(use, error);
    default: return hf_lock_acquire(use->lock, wait_ms, error);
    }
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
}

/* ---- Holding ------------------------------------------------------------------------- */

static void judge_once_per(struct use *use)
{
    const struct lock_work *work = use->process->work;
    int64_t since_us = true_now(use->process) - work->completed_us;
    if (use->options.once_per_ms > 0 && work->plan.store_time && work->completed_us >= 0 &&
        work->completed_us < use->asked_us &&
        since_us < use->options.once_per_ms * 1000 - ONCE_SLACK_US)
        world_fail(work->run->world, "node %u does once more what was done %" PRId64 " us ago",
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
    struct span most = up_to_ms(process, one_in(process, 6) ? 8 * ttl_ms : ttl_ms);
    struct mono_time until = mono_add(env_now(process->env), most);
    while (mono_before(env_now(process->env), until)) {
        env_sleep(process->env, up_to_ms(process, ttl_ms / 3));
        judge_look(judge);
        if (hf_lock_check(use->lock, NULL) != HF_OK) {
            judge_told_over(use->claim);
            return;
        }
        if (use->options.no_renewal || one_in(process, 10))
            hf_lock_renew(use->lock, NULL);
        if (one_in(process, 12))
            enter_again(use);
        if (one_in(process, 8))
            publish(use, one_in(process, 3));
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

static void let_go(struct use *use)
{
    struct lock_work *work = use->process->work;
    struct hf_error error;
    enum hf_status status;
    judge_let_go(use->claim);
    bool first = work->once_per && use->wish == &work->wishes[0];
    uint64_t how = below(use->process, 8);
    if (how == 0)
        return; /* hf_lock_free does it */
    if (how == 1)
        status = hf_lock_fail(use->lock, "{\"why\":\"not well\"}", &error);
    else if (how == 2 || first)
        status = hf_lock_complete(use->lock, NULL, &error);
    else
        status = hf_lock_release(use->lock, &error);
    USE_TRACE(use, "is told %s on ending it", hf_status_name(status));
    judge_released(use->claim, status);
    if (status == HF_OK && first && how != 1)
        work->completed_us = true_now(use->process);
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

static void use_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct hf_error error;
    struct use use;
    open_use(&use, process, &work->wishes[below(process, work->wish_count)],
             /* final */ false);
    USE_TRACE(&use, "asks, for %" PRId64 " ms%s", use.options.ttl_ms,
              use.options.no_renewal ? ", and renews it by hand" : "");
    enum hf_status status = ask(&use, &error);
    USE_TRACE(&use, "is told %s", hf_status_name(status));
    if (status == HF_OK) {
        judge_once_per(&use);
        hold(&use, /* adopted */ false);
    } else {
        judge_refusal(&use, status, &error);
    }
    hf_lock_free(use.lock);
}

static void break_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct notice notice = work->notice;
    if (!notice.wish)
        return;
    judge_forgive(work->judge, notice.wish->key, notice.token);
    hf_break(process->client, notice.text, "operator", "it is in the way", NULL);
}

static void adopt_lock(struct process *process)
{
    struct lock_work *work = process->work;
    struct notice notice = work->notice;
    struct use use = { .process = process, .wish = notice.wish };
    if (!notice.wish || !notice.passed)
        return;
    work->notice.passed = false; /* one adopts it */
    use.claim = judge_claim(work->judge, process->node, notice.wish);
    use.options = draw_options(&use, /* may_be_once */ false);
    judge_adopting(work->judge, notice.wish->key, notice.token, /* begins */ true);
    enum hf_status status =
        hf_lock_adopt(process->client, notice.text, &use.options, &use.lock, NULL);
    judge_adopting(work->judge, notice.wish->key, notice.token, /* begins */ false);
    if (status != HF_OK)
        return;
    hold(&use, /* adopted */ true);
    hf_lock_free(use.lock);
}

static void work_on(void *argument)
{
    struct process *process = argument;
    unsigned *left = &process->work->left[node_number(process->node)];
    while (*left > 0) {
        --*left;
        switch (below(process, 16)) {
        case 0: break_lock(process); break;
        case 1: adopt_lock(process); break;
        default: use_lock(process);
        }
        env_sleep(process->env, up_to_ms(process, 4000));
    }
}

/* In the calm nothing may go wrong. */
static void must_be_ok(struct use *use, const char *what, enum hf_status status,
                       const struct hf_error *error)
{
    if (status != HF_OK)
        world_fail(use->process->work->run->world,
                   "node %u %s %s in the calm, and is told %s: %s",
                   node_number(use->process->node), what, use->wish->scopes[0],
                   hf_status_name(status), error->why);
}

/* Who has not asked for long learns only now by how much the store's clock has stepped, and then
 * takes what it was granted for over. Once it knows, it must get it. */
static enum hf_status acquire_in_calm(struct use *use, struct hf_error *error)
{
    enum hf_status status = HF_LOST;
    for (int i = 0; i < 4 && status == HF_LOST; i++)
        status = hf_lock_acquire(use->lock, FINAL_WAIT.us / 1000, error);
    return status;
}

/* Everything can be had once more, by everybody. */
static void final_round(struct process *process)
{
    struct lock_work *work = process->work;
    struct hf_error error;
    for (size_t i = 0; i < work->wish_count; i++) {
        struct use use;
        if (i > 0 && strcmp(work->wishes[i].key, work->wishes[i - 1].key) == 0)
            continue;
        open_use(&use, process, &work->wishes[i], /* final */ true);
        must_be_ok(&use, "asks for", acquire_in_calm(&use, &error), &error);
        judge_held(use.claim, use.lock, /* adopted */ false);
        judge_let_go(use.claim);
        enum hf_status status = hf_lock_release(use.lock, &error);
        must_be_ok(&use, "releases", status, &error);
        judge_released(use.claim, status);
        hf_lock_free(use.lock);
    }
}

static void run_workers(struct process *process)
{
    struct env_task *tasks[WORKERS_MAX];
    struct hf_error error;
    size_t count = 1 + below(process, WORKERS_MAX);
    for (size_t i = 0; i < count; i++)
        check(env_task_start(process->env, work_on, process, &tasks[i], &error) == HF_OK);
    for (size_t i = 0; i < count; i++)
        env_task_join(process->env, tasks[i]);
}

/* The label stays the same from life to life, as a supervisor would have it. */
static void program(struct node *node, void *argument)
{
    struct lock_work *work = argument;
    struct process process = { .work = work, .node = node, .env = node_env(node) };
    process.note = judge_life_note(node);
    struct store *store = net_store_open(work->run->net, node);
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    char label[32];
    snprintf(label, sizeof label, "node-%u", node_number(node));
    options.holder = label;
    options.ttl_max_ms = work->plan.ttl_max_ms;
    options.skew_tolerance_ms = work->plan.skew_tolerance_ms;
    options.takeover_observed = work->plan.observed;
    check(store && client_new(store, &options, &process.client, &error) == HF_OK);
    run_workers(&process);
    int64_t calm_us = work->run->calm_us + SETTLE.us;
    if (true_now(&process) < calm_us)
        env_sleep_until(process.env, node_moment(node, calm_us));
    final_round(&process);
    hf_client_close(process.client);
    store_close(store);
    work->finished[node_number(node)] = true;
}

/* ---- Beginning and end --------------------------------------------------------------- */

struct lock_work *lock_work_new(struct run *run, const struct lock_wish *wishes, size_t count,
                                bool once_per)
{
    struct lock_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    work->plan = lock_plan_draw(run->world);
    work->wishes = wishes;
    work->wish_count = count;
    work->once_per = once_per;
    work->completed_us = -1;
    struct judge_lock_options options = { .exclusion = work->plan.exclusion,
                                          .store_time = work->plan.store_time };
    work->judge = judge_lock_new(run, &options);
    for (unsigned i = 0; i < run->options->operations; i++)
        work->left[1 + i % run->options->nodes]++;
    for (unsigned i = 0; i < run->options->nodes; i++)
        node_boot(world_node(run->world, i), program, work);
    return work;
}

void lock_work_free(struct lock_work *work)
{
    judge_lock_free(work->judge);
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
