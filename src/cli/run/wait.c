/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c: acquires the lock for `holdfast run`: one thread waits for the lock, while the main
 * thread handles signals and the progress line. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"
#include "cli/log.h"
#include "cli/output/progress.h"
#include "cli/run/outer.h"

#include <poll.h>
#include <stdatomic.h>

#define CANCEL_EACH_MS 50
#define SHOW_EACH_MS   1000

struct waiting {
    struct run *run;
    const struct hf_lock_options *options;
    struct hf_error error;
    atomic_bool opened; /* run->lock is set, and may be used */
    atomic_bool over;
    bool refused; /* because of an outer run; the error is complete */
};

/* Whether the lock must be acquired: no outer run holds it. */
static bool needs_own_lease(struct waiting *waiting)
{
    struct run *run = waiting->run;
    const struct outer_lease *lease;
    enum outer_verdict verdict = !run->outer
                                     ? OUTER_NONE
                                     : outer_judge(run->cli, run->outer, run->scope,
                                                   waiting->options, &lease, &waiting->error);
    waiting->refused = verdict == OUTER_REFUSES;
    if (verdict == OUTER_COVERS)
        run->inherited = lease;
    return verdict == OUTER_NONE;
}

/* The thread also opens the store, so a store that does not reply does not block signals. */
static void open_and_acquire(void *argument)
{
    struct waiting *waiting = argument;
    struct run *run = waiting->run;
    if (run_open_lock(run, waiting->options) == HF_OK) {
        atomic_store(&waiting->opened, true);
        int64_t wait_ms = run->wait_ms;
        if (needs_own_lease(waiting) &&
            (!run->candidate ||
             candidate_wait_turn(run->candidate, run, &wait_ms, &waiting->error) == HF_OK))
            hf_lock_acquire(run->lock, wait_ms, &waiting->error);
    } else {
        waiting->error = run->cli->error;
    }
    atomic_store(&waiting->over, true);
    run_ring(run);
}

static void show_blocker(struct run *run, struct gauge *gauge)
{
    struct buffer line = BUFFER_INIT(8 * KEY_BYTES_MAX);
    char limit[SPAN_TEXT_MAX];
    append_blocker(&line, run->lock);
    bool limited = run->wait_ms < WAIT_FOREVER.us / 1000;
    gauge_say(gauge, "waiting%s%s: %.*s", limited ? " for up to " : "",
              limited ? brief_text(SPAN_MS(run->wait_ms), limit) : "",
              VIEW_ARGS(buffer_view(&line)));
    buffer_release(&line);
}

/* The first signal whose default action is to terminate ends the wait cleanly; the second ends this
 * program immediately. */
static void stop_on_signals(struct run *run, int *signal_that_came)
{
    struct signalfd_siginfo signal;
    while (run_next_signal(run, &signal)) {
        int number = (int)signal.ssi_signo;
        if (number != SIGINT && number != SIGTERM && number != SIGHUP && number != SIGQUIT)
            continue;
        if (*signal_that_came)
            interrupt_die_as(number);
        *signal_that_came = number;
        atomic_store(&run->stopping, true);
    }
}

static void wait_until_over(struct waiting *waiting, int *ret_signal)
{
    struct run *run = waiting->run;
    struct gauge gauge;
    struct pollfd waits[] = { { .fd = run->signals, .events = POLLIN },
                              { .fd = run->notify, .events = POLLIN } };
    struct mono_time patience_end = { MOMENT_FAR };
    struct hf_error why;
    bool told = false;
    gauge_start(&gauge, run->cli, view_of(run->scope));
    while (!atomic_load(&waiting->over)) {
        bool woken = poll(waits, 2, *ret_signal ? CANCEL_EACH_MS : SHOW_EACH_MS) > 0;
        stop_on_signals(run, ret_signal);
        if (*ret_signal && patience_end.us == MOMENT_FAR)
            patience_end = mono_add(env_now(run->cli->env), INTERRUPT_PATIENCE);
        if (!mono_before(env_now(run->cli->env), patience_end))
            interrupt_die_as(*ret_signal); /* no command was started; the guard exits too */
        if (!atomic_load(&waiting->opened))
            continue;
        /* hf_lock_cancel would block until the wait has ended. hf_lock_interrupt is repeated,
         * because it has no effect before the wait has begun. */
        if (*ret_signal) {
            hf_lock_interrupt(run->lock);
        } else if (!woken) {
            enum hf_status trouble = hf_lock_trouble(run->lock, &why);
            told = tell_trouble_once(run->cli, trouble, &why, told);
            log_wait_begin(run->cli, run->lock);
            if (gauge.visible && !told)
                show_blocker(run, &gauge);
        }
    }
    log_wait_end(run->cli);
    run_hush(run);
    gauge_clear(&gauge);
}

enum hf_status run_wait(struct run *run, const struct hf_lock_options *options, int *ret_signal)
{
    struct waiting waiting = { .run = run, .options = options };
    struct cli *cli = run->cli;
    struct env_task *task;
    int signal = 0;
    enum hf_status status =
        env_task_start(cli->env, open_and_acquire, &waiting, &task, &cli->error);
    if (status != HF_OK)
        return status;
    wait_until_over(&waiting, &signal);
    env_task_join(cli->env, task);
    status = waiting.error.status;
    if (signal) {
        if (status == HF_OK && !run->inherited)
            hf_lock_release(run->lock, NULL);
        *ret_signal = signal;
        return error_set(&cli->error, HF_CANCELLED, "stopped by a signal");
    }
    cli->error = waiting.error;
    if (waiting.refused)
        cli->conflict = status == HF_HELD;
    else if (run->lock)
        lock_explain(cli, run->lock);
    return status;
}
