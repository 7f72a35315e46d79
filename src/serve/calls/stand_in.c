/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in.c: two threads that run one loop in turn. It guards against a loop that stands still
 * because the store does: whoever has left it for too long does not get it back. */
#include "serve/calls/stand_in.h"

#include "base/check.h"

/* The thread that stands by looks this often. If it finds that the loop was left, it looks again
 * when the patience ends. So a loop is left for at most as long as this. */
#define LOOK_EVERY SPAN_MS(10)

/* How often it looks, without finding that the loop was left since, before it sleeps. */
#define LOOKS_MAX 10

struct turns {
    struct stand_in_options options;
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    bool left;                /* nobody runs the loop ... */
    struct mono_time left_at; /* ... since then */
    uint64_t times_left;
    bool stands_by; /* the other thread is ready to run the loop ... */
    bool sleeps;    /* ... but must be woken first */
    bool over;
};

/* ---- Standing by --------------------------------------------------------------------- */

static bool is_left_too_long_locked(const struct turns *turns)
{
    struct mono_time end = mono_add(turns->left_at, STAND_IN_PATIENCE);
    return turns->left && !mono_before(env_now(turns->options.env), end);
}

/* Returns when the loop is this thread's, or over. */
static void stand_by_locked(struct turns *turns)
{
    uint64_t seen = turns->times_left;
    unsigned looks = 0;
    turns->stands_by = true;
    while (!turns->over && !is_left_too_long_locked(turns)) {
        struct mono_time next = mono_add(turns->left_at, STAND_IN_PATIENCE);
        looks = turns->left || turns->times_left != seen ? 0 : looks + 1;
        seen = turns->times_left;
        turns->sleeps = looks > LOOKS_MAX;
        if (turns->sleeps)
            next.us = MOMENT_FAR;
        else if (!turns->left)
            next = mono_add(env_now(turns->options.env), LOOK_EVERY);
        env_cond_wait_until(&turns->changed, &turns->mutex, next);
    }
    turns->sleeps = turns->stands_by = turns->left = false;
}

/* ---- Running ------------------------------------------------------------------------- */

static void leave_loop(struct turns *turns)
{
    env_mutex_lock(&turns->mutex);
    check(!turns->left && turns->stands_by);
    turns->left = true;
    turns->left_at = env_now(turns->options.env);
    turns->times_left++;
    if (turns->sleeps)
        env_cond_signal(&turns->changed);
    turns->sleeps = false;
    env_mutex_unlock(&turns->mutex);
}

/* False: the other thread runs the loop by now. */
static bool return_to_loop(struct turns *turns)
{
    env_mutex_lock(&turns->mutex);
    bool ours = turns->left;
    turns->left = false;
    env_mutex_unlock(&turns->mutex);
    return ours;
}

/* Makes a job, and returns whether this thread still runs the loop. */
static bool make_job(struct turns *turns, struct pool_job *job)
{
    const struct stand_in_options *options = &turns->options;
    leave_loop(turns);
    job->run(job);
    bool ours = return_to_loop(turns);
    if (ours)
        options->collect(options->argument, job);
    else
        options->notify(options->argument, job);
    return ours;
}

/* Runs the loop until it is over, or the other thread runs it. */
static void run_loop(struct turns *turns)
{
    const struct stand_in_options *options = &turns->options;
    bool ours = true;
    while (ours && options->run(options->argument)) {
        env_mutex_lock(&turns->mutex);
        bool may_block = turns->stands_by;
        env_mutex_unlock(&turns->mutex);
        struct pool_job *job = may_block ? options->take(options->argument) : NULL;
        if (job)
            ours = make_job(turns, job);
    }
    if (!ours)
        return;
    env_mutex_lock(&turns->mutex);
    turns->over = true;
    env_cond_broadcast(&turns->changed);
    env_mutex_unlock(&turns->mutex);
}

static bool loop_is_over(struct turns *turns)
{
    env_mutex_lock(&turns->mutex);
    bool over = turns->over;
    env_mutex_unlock(&turns->mutex);
    return over;
}

static void stand_in(void *argument)
{
    struct turns *turns = argument;
    do {
        env_mutex_lock(&turns->mutex);
        stand_by_locked(turns);
        bool over = turns->over;
        env_mutex_unlock(&turns->mutex);
        if (!over)
            run_loop(turns);
    } while (!loop_is_over(turns));
}

enum hf_status stand_in_run(const struct stand_in_options *options, struct hf_error *error)
{
    struct turns turns = { .options = *options };
    struct env_task *second;
    env_mutex_init(options->env, &turns.mutex);
    env_cond_init(options->env, &turns.changed);
    enum hf_status status = env_task_start(options->env, stand_in, &turns, &second, error);
    if (status == HF_OK) {
        run_loop(&turns);
        if (!loop_is_over(&turns))
            stand_in(&turns);
        env_task_join(options->env, second);
    }
    env_cond_release(&turns.changed);
    env_mutex_release(&turns.mutex);
    return status;
}
