/* run_wait.c: how `holdfast run` comes to hold its lock: a thread waits, and we look after
 * signals and the terminal meanwhile. */
#include "cli/interrupt.h"
#include "cli/lock.h"
#include "cli/progress.h"
#include "cli/run.h"

#include <poll.h>
#include <stdatomic.h>

#define CANCEL_EACH_MS 50
#define SHOW_EACH_MS   1000

struct waiting {
    struct run *run;
    const struct hf_lock_options *options;
    struct hf_error error;
    atomic_bool opened; /* from then on the lock is there to be looked at */
    atomic_bool over;
};

/* The store is opened here too: one that does not answer keeps nobody from a signal. */
static void acquire(void *argument)
{
    struct waiting *waiting = argument;
    struct run *run = waiting->run;
    if (run_open_lock(run, waiting->options) == HF_OK) {
        atomic_store(&waiting->opened, true);
        int64_t wait_ms = run->wait_ms;
        if (!run->candidate ||
            candidate_wait_turn(run->candidate, run, &wait_ms, &waiting->error) == HF_OK)
            hf_lock_acquire(run->lock, wait_ms, &waiting->error);
    } else {
        waiting->error = run->cli->error;
    }
    atomic_store(&waiting->over, true);
    run_ring(run);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static void show(struct run *run, struct gauge *gauge)
{
    struct buffer line = BUFFER_INIT(8 * KEY_BYTES_MAX);
    char limit[SPAN_TEXT_MAX];
    bool limited = run->wait_ms < WAIT_FOREVER.us / 1000;
    buffer_print(&line, "waiting%s%s: ", limited ? " for up to " : "",
                 limited ? brief_text(SPAN_MS(run->wait_ms), limit) : "");
    append_blocker(&line, run->lock);
    if (buffer_text(&line))
        gauge_say(gauge, buffer_view(&line));
    buffer_release(&line);
}

/* Those that would have ended a program that waits. */
static bool ends_the_wait(uint32_t number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

/* The first signal asks to stop. The second does not ask. */
static void take_signals(struct run *run, int *signal_that_came)
{
    struct signalfd_siginfo signal;
    while (run_next_signal(run, &signal)) {
        if (!ends_the_wait(signal.ssi_signo))
            continue;
        if (*signal_that_came)
            interrupt_die_as((int)signal.ssi_signo);
        *signal_that_came = (int)signal.ssi_signo;
        atomic_store(&run->stopping, true);
    }
}

static void wait_until_over(struct waiting *waiting, int *ret_signal)
{
    struct run *run = waiting->run;
    struct gauge gauge;
    struct pollfd waits[] = { { .fd = run->signals, .events = POLLIN },
                              { .fd = run->bell, .events = POLLIN } };
    struct mono_time patience_end = { MOMENT_FAR };
    struct hf_error why;
    bool told = false;
    gauge_start(&gauge, run->cli, view_of(run->scope));
    while (!atomic_load(&waiting->over)) {
        bool woken = poll(waits, 2, *ret_signal ? CANCEL_EACH_MS : SHOW_EACH_MS) > 0;
        take_signals(run, ret_signal);
        if (*ret_signal && patience_end.us == MOMENT_FAR)
            patience_end = mono_add(env_now(run->cli->env), INTERRUPT_PATIENCE);
        if (!mono_before(env_now(run->cli->env), patience_end))
            interrupt_die_as(*ret_signal); /* nothing was started; the guard goes with us */
        if (!atomic_load(&waiting->opened))
            continue;
        /* Not hf_lock_cancel, which returns only when the wait is over; and more than once,
         * since the wait may not have begun. */
        if (*ret_signal) {
            hf_lock_interrupt(run->lock);
        } else if (!woken) {
            enum hf_status trouble = hf_lock_trouble(run->lock, &why);
            told = tell_trouble_once(run->cli, trouble, &why, told);
            if (gauge.visible && !told)
                show(run, &gauge);
        }
    }
    run_hush(run);
    gauge_clear(&gauge);
}

enum hf_status run_wait(struct run *run, const struct hf_lock_options *options, int *ret_signal)
{
    struct waiting waiting = { .run = run, .options = options };
    struct cli *cli = run->cli;
    struct env_task *task;
    int signal = 0;
    enum hf_status status = env_task_start(cli->env, acquire, &waiting, &task, &cli->error);
    if (status != HF_OK)
        return status;
    wait_until_over(&waiting, &signal);
    env_task_join(cli->env, task);
    status = waiting.error.status;
    if (signal) {
        if (status == HF_OK)
            hf_lock_release(run->lock, NULL);
        *ret_signal = signal;
        return error_set(&cli->error, HF_CANCELLED, "stopped by a signal");
    }
    cli->error = waiting.error;
    if (run->lock)
        lock_explain(cli, run->lock);
    return status;
}
