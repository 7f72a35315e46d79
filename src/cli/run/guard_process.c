/* SPDX-License-Identifier: Apache-2.0 */
/* guard_process.c: the guard process that guard.h describes. It ends the command and all its
 * descendants before another client can be granted the lock. */
#include "base/check.h"
#include "cli/run/descendants.h"
#include "cli/run/guard_message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After KILL: the pause before the next round, which doubles up to PAUSE_MOST; when to report a
 * process that does not end; and when to give up if holdfast is also gone. */
#define PAUSE_FIRST SPAN_MS(1)
#define PAUSE_MOST  SPAN_MS(100)
#define STUCK_AFTER SPAN_S(1)
#define GIVE_UP     SPAN_S(30)

/* The guard's priority while it reaps; see set_real_time. */
#define REAP_NICE (-20)

/* A release that takes longer than this is abandoned; the lease then expires on its own. */
#define RELEASE_SECONDS_MAX 30

/* Room for OUTER_VARIABLE. A longer list starts anew with this guard. */
#define GUARDS_TEXT_MAX 256

/* The guard only ever moves from a phase to a later one. */
enum phase {
    PHASE_WAITING,     /* the command has not been started */
    PHASE_RUNNING,     /* the command is running, and is sent TERM at term_at */
    PHASE_TERMINATING, /* TERM was sent; KILL follows at kill_at */
    PHASE_KILLING,     /* KILL is sent to every process found, until none is left */
    PHASE_EMPTY,       /* no process is left; if holdfast dies first, we release the lock */
    PHASE_OVER,
};

struct watch {
    struct env *env;
    const struct guard_command *command;
    int socket; /* -1: holdfast is gone */
    int timer;
    int file;       /* in memory, for the variables; -1: none */
    int deaths;     /* a signalfd for SIGCHLD */
    pid_t holdfast; /* our parent, as long as it is alive */
    bool empty;     /* it is certain that no process of the command is left */
    enum phase phase;
    pid_t child;         /* 0: not started, or reaped */
    bool deaths_ignored; /* SIGCHLD was ignored when holdfast was started */
    bool cut_short;      /* the command was still running when we began to end it */
    bool succeeded;      /* the command exited with 0 */
    bool overdue;        /* the command was ended because of the deadline */
    bool real_time;      /* real-time priority is permitted */
    int nice;            /* of holdfast, and so of the command */
    struct guard_times times;
    struct span pause;
    bool stuck_told;
    size_t variables_size; /* of the variables for the command's environment */
    char variables[VARIABLES_BYTES_MAX];
    char guards[GUARDS_TEXT_MAX]; /* OUTER_VARIABLE for the command; empty: none */
};

/* The value of one of the command's variables ("NAME="), or NULL. */
static const char *variable_of(const struct watch *watch, const char *name)
{
    return order_variable(watch->variables, watch->variables_size, name);
}

static bool can_release(const struct watch *watch)
{
    return watch->command->releaser && variable_of(watch, "HOLDFAST_LEASE=");
}

static void report(const struct watch *watch, enum guard_report_kind kind, int value)
{
    struct guard_report packet = { .kind = kind, .value = value };
    if (watch->socket >= 0)
        (void)!send(watch->socket, &packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- The command --------------------------------------------------------------------- */

/* Turns the forked child into the command. PDEATHSIG does not fire if the guard died before it was
 * set, so the parent is checked afterwards. The socket is close-on-exec. */
static _Noreturn void become_guarded(struct watch *watch, pid_t guard, struct order *order,
                                     size_t variables_size)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != guard)
        _exit(126);
    char *end = order->variables + variables_size;
    for (char *text = order->variables; text < end; text += strlen(text) + 1)
        if (putenv(text) != 0)
            _exit(126);
    if (watch->guards[0] ? putenv(watch->guards) != 0 : unsetenv(OUTER_VARIABLE) != 0)
        _exit(126);
    if (watch->deaths_ignored)
        signal(SIGCHLD, SIG_IGN);
    if (watch->command->before_exec)
        watch->command->before_exec();
    sigprocmask(SIG_SETMASK, watch->command->mask, NULL);
    execvp(watch->command->words[0], (char *const *)(uintptr_t)watch->command->words);
    int reason = errno;
    report(watch, GUARD_NOT_STARTED, reason);
    _exit(reason == ENOENT || reason == ENOTDIR ? 127 : 126);
}

/* Keeps the variables in a file in memory, where a run inside of the command reads which lease this
 * guard guards (outer.h). Without such a file, that run acquires a lease of its own. */
static void publish_variables(struct watch *watch)
{
    const char *before = getenv(OUTER_VARIABLE);
    int fd = watch->file;
    if (fd < 0 || watch->variables_size == 0)
        return;
    ssize_t written = write(fd, watch->variables, watch->variables_size);
    if (written != (ssize_t)watch->variables_size)
        return;
    int size = snprintf(watch->guards, sizeof watch->guards, OUTER_VARIABLE "=%d:%d%s%s",
                        (int)getpid(), fd, before ? "," : "", before ? before : "");
    if (size >= (int)sizeof watch->guards)
        snprintf(watch->guards, sizeof watch->guards, OUTER_VARIABLE "=%d:%d", (int)getpid(),
                 fd);
}

/* Real-time priority, so that a busy command cannot delay its own end. Where that is not permitted,
 * the time between KILL and the deadline is the safety margin. Children do not inherit the
 * priority.
 *
 * The guard does not reap at real-time priority. The kernel announces the death of a process while
 * its last thread is still removing its entry from /proc. If the guard takes the processor from
 * that thread, waitpid spins until the kernel throttles real-time processes, after a second. */
static void set_real_time(struct watch *watch, bool wanted)
{
    struct sched_param first = { .sched_priority = sched_get_priority_min(SCHED_FIFO) };
    struct sched_param usual = { .sched_priority = 0 };
    if (wanted)
        watch->real_time = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
    else
        (void)sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &usual);
}

/* Closes stdin and stdout, so that the guard does not keep the command's pipes open; stderr stays
 * open for our last message. */
static void detach_from_command(struct watch *watch)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        close(nothing);
    }
    watch->nice = nice(0);
    (void)!nice(REAP_NICE - watch->nice);
    set_real_time(watch, true);
}

/* The command stays in holdfast's session and process group, which the guard leaves. vfork is used
 * because copying the memory would take longer than everything else here. It blocks the guard until
 * exec is done; if that takes too long, the command is killed before it has started. */
static void start_command(struct watch *watch, struct order *order, size_t variables_size)
{
    pid_t guard = getpid();
    watch->times = order->times;
    watch->variables_size = variables_size;
    memcpy(watch->variables, order->variables, variables_size);
    watch->phase = PHASE_RUNNING;
    publish_variables(watch);
    if (!mono_before(env_now(watch->env), watch->times.term_at)) {
        report(watch, GUARD_OVERDUE, 0);
        return;
    }
    pid_t pid = vfork();
    if (pid == 0)
        become_guarded(watch, guard, order, variables_size);
    if (pid < 0) {
        report(watch, GUARD_NOT_STARTED, errno);
        return;
    }
    watch->child = pid;
    report(watch, GUARD_STARTED, pid);
    detach_from_command(watch);
}

/* ---- Ending -------------------------------------------------------------------------- */

/* CONT follows TERM, because a stopped process does not handle TERM. */
static void terminate(struct watch *watch, struct span grace)
{
    if (watch->phase >= PHASE_TERMINATING)
        return;
    watch->phase = PHASE_TERMINATING;
    watch->cut_short = watch->child != 0;
    struct mono_time soon = mono_add(env_now(watch->env), grace);
    watch->times.kill_at = mono_earlier(watch->times.kill_at, soon);
    descendants_signal(SIGTERM, /* spared */ NULL);
    descendants_signal(SIGCONT, /* spared */ NULL);
}

/* The lock may now be released. holdfast releases it, and then ends the guard. If the deadline
 * passed because holdfast was stopped, the guard continues holdfast, which may have been stopped in
 * the middle of a write to a local store and would block all other processes there. */
static void report_nothing_left(struct watch *watch)
{
    report(watch, GUARD_NOTHING_LEFT, 0);
    if (watch->overdue && getppid() == watch->holdfast)
        kill(watch->holdfast, SIGCONT);
    watch->phase = watch->socket >= 0 && can_release(watch) ? PHASE_EMPTY : PHASE_OVER;
    watch->empty = true;
}

/* Like descendants_bury for each child that has ended. Returns what the last call returned. */
static pid_t bury_children(struct watch *watch)
{
    int status;
    pid_t pid;
    while ((pid = descendants_bury(&status)) > 0) {
        if (pid != watch->child)
            continue;
        watch->child = 0;
        watch->succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        report(watch, GUARD_EXITED, status);
    }
    return pid;
}

/* A guard without children has no descendants. If only the command has ended, its remaining
 * descendants must end too, because the lock is about to be released. */
static void reap_children(struct watch *watch)
{
    pid_t pid = descendants_dead();
    if (pid > 0) {
        bool lowers = watch->real_time;
        if (lowers)
            set_real_time(watch, false);
        pid = bury_children(watch);
        if (lowers && pid >= 0) /* otherwise nothing is left, and the lock can be released */
            set_real_time(watch, true);
    }
    if (watch->phase == PHASE_WAITING || watch->phase >= PHASE_EMPTY)
        return;
    if (pid < 0)
        report_nothing_left(watch);
    else if (watch->child == 0)
        terminate(watch, watch->times.grace);
}

/* Performs the steps whose time has come. */
static void act_by_clock(struct watch *watch)
{
    struct mono_time now = env_now(watch->env);
    if (watch->phase == PHASE_RUNNING && !mono_before(now, watch->times.term_at)) {
        report(watch, GUARD_OVERDUE, 0);
        watch->overdue = true;
        terminate(watch, watch->times.grace);
    }
    if (watch->phase == PHASE_TERMINATING && !mono_before(now, watch->times.kill_at))
        watch->phase = PHASE_KILLING;
    if (watch->phase != PHASE_KILLING)
        return;
    if (watch->child)
        kill(watch->child, SIGKILL); /* works even without /proc */
    struct descendants_found found = descendants_signal(SIGKILL, /* spared */ NULL);
    struct span since = mono_since(env_now(watch->env), watch->times.kill_at);
    if (since.us > STUCK_AFTER.us && !watch->stuck_told && found.count > 0) {
        report(watch, GUARD_STUCK, found.example);
        watch->stuck_told = true;
    }
    if (since.us > GIVE_UP.us && watch->socket < 0)
        watch->phase = PHASE_OVER;
    watch->pause = span_smaller(SPAN_US(watch->pause.us * 2), PAUSE_MOST);
}

/* ---- Orders -------------------------------------------------------------------------- */

static void obey_order(struct watch *watch, struct order *order, size_t variables_size)
{
    switch (order->kind) {
    case ORDER_GO:
        if (watch->phase == PHASE_WAITING)
            start_command(watch, order, variables_size);
        break;
    case ORDER_MOVE:
        if (watch->phase == PHASE_RUNNING)
            watch->times = order->times;
        break;
    case ORDER_SIGNAL:
        if (watch->child)
            kill(watch->child, order->number); /* not reaped yet: its id is not reused */
        break;
    case ORDER_END:
        if (watch->phase == PHASE_WAITING)
            report_nothing_left(watch);
        else
            terminate(watch, order->times.grace);
        break;
    case ORDER_COUNT: check_unreachable();
    }
}

/* holdfast is gone when its socket is closed. After a malformed order, holdfast cannot be trusted
 * to renew the lock either, so the guard acts as if holdfast were gone. */
static void take_orders(struct watch *watch)
{
    static struct order order;
    while (watch->socket >= 0 && watch->phase != PHASE_OVER) {
        ssize_t size = recv(watch->socket, &order, sizeof order, MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN)
            return;
        size_t variables_size;
        if (size > 0 && order_check(&order, (size_t)size, &variables_size)) {
            obey_order(watch, &order, variables_size);
            continue;
        }
        close(watch->socket);
        watch->socket = -1;
        if (watch->phase == PHASE_WAITING || watch->phase == PHASE_EMPTY)
            watch->phase = PHASE_OVER;
        else
            terminate(watch, watch->times.grace);
    }
}

/* ---- The loop ------------------------------------------------------------------------ */

/* Sets the timer, which uses the boot-time clock because that clock keeps running during suspend. A
 * span of zero disarms the timer. */
static void set_timer(const struct watch *watch)
{
    struct mono_time now = env_now(watch->env), at = now;
    if (watch->phase == PHASE_RUNNING)
        at = watch->times.term_at;
    else if (watch->phase == PHASE_TERMINATING)
        at = watch->times.kill_at;
    else if (watch->phase == PHASE_KILLING)
        at = mono_add(now, watch->pause);
    struct span left = mono_since(at, now);
    if (left.us < 1 && watch->phase != PHASE_WAITING && watch->phase != PHASE_EMPTY)
        left.us = 1;
    struct itimerspec when = {
        .it_value = { .tv_sec = left.us / 1000000, .tv_nsec = left.us % 1000000 * 1000 },
    };
    check(timerfd_settime(watch->timer, 0, &when, NULL) == 0);
}

static void wait_for_event(const struct watch *watch)
{
    struct pollfd waits[] = {
        { .fd = watch->timer, .events = POLLIN },
        { .fd = watch->deaths, .events = POLLIN },
        { .fd = watch->socket, .events = POLLIN },
    };
    poll(waits, sizeof waits / sizeof waits[0], -1);
    struct signalfd_siginfo death;
    if (waits[1].revents)
        (void)!read(watch->deaths, &death, sizeof death);
}

/* ---- After holdfast is gone ---------------------------------------------------------- */

/* Prints a message, because holdfast no longer can. The message is dropped if a write to stderr
 * would block. */
static void print_last_words(const char *words)
{
    struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&ready, 1, 0) == 1)
        (void)!write(STDERR_FILENO, words, strlen(words));
}

/* Executes the program that releases the lease; returns only on failure. The lease is passed on
 * stdin, because other users can read arguments. A pipe always has room for a string of this
 * size. */
static void become_releaser(const struct watch *watch)
{
    const struct guard_command *command = watch->command;
    const char *store = variable_of(watch, "HOLDFAST_STORE=");
    const char *lease = variable_of(watch, "HOLDFAST_LEASE=");
    struct sched_param usual = { .sched_priority = 0 };
    size_t size = strlen(lease);
    int ends[2];
    if (pipe(ends) != 0)
        return;
    bool given = write(ends[1], lease, size) == (ssize_t)size &&
                 dup2(ends[0], STDIN_FILENO) == STDIN_FILENO;
    close(ends[0]);
    close(ends[1]);
    if (!given || (store && setenv("HOLDFAST_STORE", store, /* overwrite */ 1) != 0))
        return;
    unsetenv("HOLDFAST_LEASE");
    unsetenv("HOLDFAST_TOKEN");
    if (command->before_exec)
        command->before_exec();
    (void)sched_setscheduler(0, SCHED_OTHER, &usual);
    (void)!nice(watch->nice - nice(0));
    sigprocmask(SIG_SETMASK, command->mask, NULL);
    alarm(RELEASE_SECONDS_MAX);
    bool success = watch->succeeded && command->success_words;
    const char *const *words = success ? command->success_words : command->releaser_words;
    execv(command->releaser, (char *const *)(uintptr_t)words);
}

/* Called when holdfast is gone. Releases the lock only if no process of the command is left. */
static void end_for_holdfast(const struct watch *watch)
{
    bool releases = watch->empty && can_release(watch);
    if (watch->cut_short)
        print_last_words(
            releases ? "holdfast: run: holdfast was killed, so its guard ended the command and "
                       "releases the lock\n"
                     : "holdfast: run: holdfast was killed, so its guard ended the command; "
                       "the lock becomes free when its lease expires\n");
    if (!releases)
        return;
    become_releaser(watch);
    print_last_words(
        "holdfast: run: the guard cannot release the lock; it becomes free when its "
        "lease expires\n");
}

_Noreturn void guard_process(struct env *env, int socket, const struct guard_command *command)
{
    static struct watch watch;
    sigset_t all, deaths;
    watch = (struct watch){ .env = env,
                            .command = command,
                            .socket = socket,
                            .holdfast = getppid(),
                            .pause = PAUSE_FIRST };
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&deaths);
    sigaddset(&deaths, SIGCHLD);
    /* If SIGCHLD were ignored, the kernel would reap our children and drop their statuses. */
    watch.deaths_ignored = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
    watch.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    watch.file = memfd_create(OUTER_FILE_NAME, MFD_CLOEXEC); /* while the store is opened */
    watch.deaths = signalfd(-1, &deaths, SFD_CLOEXEC | SFD_NONBLOCK);
    check(watch.timer >= 0 && watch.deaths >= 0);
    check(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    prctl(PR_SET_NAME, "holdfast-guard", 0, 0, 0);
    while (watch.phase != PHASE_OVER) {
        set_timer(&watch);
        wait_for_event(&watch);
        take_orders(&watch);
        reap_children(&watch);
        act_by_clock(&watch);
    }
    if (watch.socket < 0)
        end_for_holdfast(&watch);
    _exit(0);
}
