/* run_wait.c: how `holdfast run` comes to hold its lock: a thread waits, and we look after
 * signals and the terminal meanwhile. */
#include "cli/interrupt.h"
#include "cli/lock.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "lock/handle.h"

#include <poll.h>
#include <stdatomic.h>

#define CANCEL_EACH_MS 50
#define SHOW_EACH_MS   1000

struct waiting {
    struct run *run;
    struct hf_error error;
    atomic_bool over;
};

static void acquire(void *argument)
{
    struct waiting *waiting = argument;
    struct run *run = waiting->run;
    hf_lock_acquire(run->lock, run->wait_ms, &waiting->error);
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
    }
}

static void wait_until_over(struct waiting *waiting, int *ret_signal)
{
    struct run *run = waiting->run;
    struct gauge gauge;
    struct pollfd waits[] = { { .fd = run->signals, .events = POLLIN },
                              { .fd = run->bell, .events = POLLIN } };
    gauge_start(&gauge, run->cli, view_of(run->scope));
    while (!atomic_load(&waiting->over)) {
        int pause_ms = *ret_signal ? CANCEL_EACH_MS : gauge.visible ? SHOW_EACH_MS : -1;
        bool woken = poll(waits, 2, pause_ms) > 0;
        take_signals(run, ret_signal);
        /* Not hf_lock_cancel, which returns only when the wait is over; and more than once,
         * since the wait may not have begun. */
        if (*ret_signal)
            room_cancel(run->lock->place, &run->lock->seat);
        else if (!woken)
            show(run, &gauge);
    }
    run_hush(run);
    gauge_clear(&gauge);
}

enum hf_status run_wait(struct run *run, int *ret_signal)
{
    struct waiting waiting = { .run = run };
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
    if (status == HF_HELD || status == HF_TIMEOUT)
        lock_explain(cli, run->lock);
    return status;
}
