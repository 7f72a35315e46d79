/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: `holdfast run` while its command runs: sends the guard each new deadline, forwards
 * signals, and reports problems with the lease. */
#include "cli/run/run.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

/* The keeper renews the lease after a third of the ttl. The new deadline reaches the guard within a
 * twelfth of the ttl. */
#define LOOKS_PER_TTL 12

/* The grace period after the lease was lost. It is short, because another client may already hold
 * the lock. */
#define LOST_GRACE SPAN_MS(200)

struct watch {
    struct run *run;
    struct run_end *end;
    pid_t child; /* 0: not started */
    bool over;
    struct mono_time deadline; /* last sent: all processes must have ended by then */
    struct guard_times times;
    struct mono_time look_at;
};

__attribute__((format(printf, 3, 4))) static void print_remark(struct watch *watch,
                                                               enum hf_status status,
                                                               const char *format, ...)
{
    struct cli *cli = watch->run->cli;
    struct hf_error error;
    char words[HF_WHY_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    error_set(&error, status, "%s", words);
    if (!cli->quiet)
        cli_report(cli, view_of(watch->run->scope), &error);
}

/* Called in one of the keeper's threads. */
void run_notify(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    struct run *run = argument;
    (void)lock;
    atomic_store(&run->news, (int)event + 1);
    run_ring(run);
}

/* The clock is read before the remaining time of the lease, so a pause between the two makes the
 * deadline earlier, never later. */
static bool read_deadline(struct watch *watch)
{
    struct run *run = watch->run;
    struct mono_time now = env_now(run->cli->env);
    int64_t left_ms = hf_lock_remaining_ms(run->lock);
    watch->look_at = mono_add(now, SPAN_US(run->ttl.us / LOOKS_PER_TTL));
    if (left_ms <= 0)
        return false;
    watch->deadline = mono_add(now, SPAN_MS(left_ms));
    watch->times = guard_times_for(watch->deadline, run->ttl);
    return true;
}

static void look_at_lease(struct watch *watch)
{
    struct hf_error why;
    if (watch->end->overdue)
        watch->look_at = (struct mono_time){ MOMENT_FAR };
    else if (read_deadline(watch))
        guard_move(&watch->run->guard, &watch->times);
    else if (hf_lock_check(watch->run->lock, &why) != HF_OK) {
        guard_end(&watch->run->guard, LOST_GRACE);
        watch->end->overdue = true;
    }
}

/* Orders the guard to start the command. */
static void start_command_by_guard(struct watch *watch)
{
    struct run *run = watch->run;
    char token[24], lease[HF_LEASE_TEXT_MAX], store[URL_BYTES_MAX + 1];
    struct guard_variable variables[GUARD_VARIABLES_MAX];
    size_t count = 0;
    snprintf(token, sizeof token, "%" PRIu64, hf_lock_token(run->lock));
    variables[count++] = (struct guard_variable){ "HOLDFAST_TOKEN", token };
    if (hf_lock_text(run->lock, lease, NULL) == HF_OK)
        variables[count++] = (struct guard_variable){ "HOLDFAST_LEASE", lease };
    snprintf(store, sizeof store, "%.*s", VIEW_ARGS(run->cli->store_url));
    variables[count++] = (struct guard_variable){ "HOLDFAST_STORE", store };
    if (read_deadline(watch)) {
        guard_go(&run->guard, &watch->times, variables, count);
    } else {
        guard_end(&run->guard, LOST_GRACE);
        watch->end->overdue = true;
    }
}

/* Kills the descendants of the guard, which are now descendants of this process. */
static void do_without_guard(struct watch *watch)
{
    struct run *run = watch->run;
    watch->end->all_dead = guard_end_all(&run->guard, run->cli->env);
    watch->over = true;
}

static void take_report(struct watch *watch, const struct guard_report *report)
{
    struct run_end *end = watch->end;
    switch (report->kind) {
    case GUARD_STARTED: watch->child = report->value; break;
    case GUARD_NOT_STARTED: end->not_started = report->value; break;
    case GUARD_EXITED:
        end->exited = true;
        end->wait_status = report->value;
        break;
    case GUARD_OVERDUE: end->overdue = true; break;
    case GUARD_STUCK:
        print_remark(
            watch, HF_UNAVAILABLE,
            "process %d has not ended, even after SIGKILL; the lock is kept until it ends",
            report->value);
        break;
    case GUARD_NOTHING_LEFT:
        end->all_dead = true;
        watch->over = true;
        break;
    case GUARD_DEAD:
        do_without_guard(watch);
        if (end->all_dead)
            print_remark(watch, HF_UNAVAILABLE,
                         "the guard process was killed, so the command and all its processes "
                         "were ended");
        if (!end->exited)
            end->wait_status = SIGKILL;
        end->exited = true;
        break;
    }
}

/* Forwards signals to the command, with two exceptions. A signal from the terminal goes to the
 * whole process group, so the command has already received it. A signal from the command itself,
 * sent to its group, is not sent back. */
static void forward_signals(struct watch *watch)
{
    struct signalfd_siginfo signal;
    while (run_next_signal(watch->run, &signal)) {
        bool from_command = watch->child != 0 && signal.ssi_code == SI_USER &&
                            signal.ssi_pid == (uint32_t)watch->child;
        if (signal.ssi_code != SI_KERNEL && !from_command)
            guard_signal(&watch->run->guard, (int)signal.ssi_signo);
    }
}

/* If the guard has not reported by this time, it is stopped or stuck. */
static struct mono_time guard_failed_at(const struct watch *watch)
{
    struct span lead = mono_since(watch->deadline, watch->times.kill_at);
    return mono_add(watch->times.kill_at, SPAN_US(lead.us / 2));
}

static void wait_for_report(struct watch *watch)
{
    struct run *run = watch->run;
    struct pollfd waits[] = { { .fd = run->guard.socket, .events = POLLIN },
                              { .fd = run->signals, .events = POLLIN },
                              { .fd = run->notify, .events = POLLIN } };
    struct mono_time until = mono_earlier(watch->look_at, guard_failed_at(watch));
    int64_t left_us = mono_since(until, env_now(run->cli->env)).us;
    poll(waits, 3, left_us > 0 ? (int)(left_us / 1000 + 1) : 0);
    if (waits[2].revents) {
        run_hush(run);
        int news = atomic_exchange(&run->news, 0);
        if (news == HF_LOCK_DANGER + 1)
            print_remark(watch, HF_UNAVAILABLE,
                         "the lease could not be renewed; unless a retry succeeds soon, the "
                         "command will be ended");
        else if (news == HF_LOCK_SAFE + 1)
            print_remark(watch, HF_OK, "the lease has been renewed");
    }
    if (waits[2].revents || !mono_before(env_now(run->cli->env), watch->look_at))
        look_at_lease(watch);
}

void run_watch(struct run *run, struct run_end *ret_end)
{
    struct watch watch = { .run = run, .end = ret_end };
    struct guard_report report;
    *ret_end = (struct run_end){ .overdue = false };
    start_command_by_guard(&watch);
    while (!watch.over) {
        wait_for_report(&watch);
        forward_signals(&watch);
        while (!watch.over && guard_next(&run->guard, &report))
            take_report(&watch, &report);
        if (!watch.over && !mono_before(env_now(run->cli->env), guard_failed_at(&watch))) {
            ret_end->overdue = true;
            do_without_guard(&watch);
        }
    }
}
