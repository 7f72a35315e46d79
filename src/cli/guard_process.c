#include "cli/guard_process.h"

#include "base/check.h"
#include "cli/descendants.h"
#include "cli/guard_message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After KILL, how long to wait before looking again, from the first time on; when to say that
 * something does not go away; and when to stop trying if nobody is there to listen. */
#define PAUSE_FIRST SPAN_MS(1)
#define PAUSE_MOST  SPAN_MS(100)
#define STUCK_AFTER SPAN_S(1)
#define GIVE_UP     SPAN_S(30)

/* Releasing the lease is worth no more seconds than this: then it ends by itself soon. */
#define RELEASE_SECONDS_MAX 30

/* Each phase is left only for a later one. */
enum phase {
    PHASE_WAITING,     /* there is no command yet; nothing to end */
    PHASE_RUNNING,     /* the command runs, and is sent TERM at term_at */
    PHASE_TERMINATING, /* TERM was sent; KILL follows at kill_at */
    PHASE_KILLING,     /* KILL is sent to whoever is found, until nobody is left */
    PHASE_EMPTY,       /* nobody is left; if holdfast does not live to release, we do */
    PHASE_OVER,
};

struct watch {
    struct env *env;
    const struct guard_command *command;
    int socket; /* -1: holdfast is gone */
    int timer;
    int deaths;     /* a signalfd of SIGCHLD */
    pid_t holdfast; /* our parent, as long as it lives */
    bool empty;     /* nothing is left of the command, for certain */
    enum phase phase;
    pid_t child;         /* 0: not started, or buried */
    bool deaths_ignored; /* SIGCHLD, when holdfast was started */
    bool cut_short;      /* the command was still running when we set out to end it */
    bool succeeded;      /* the command exited with 0 */
    bool overdue;        /* the deadline was why */
    struct guard_times times;
    struct span pause;
    bool stuck_told;
    size_t variables_size; /* of what the command has in its environment */
    char variables[VARIABLES_BYTES_MAX];
};

/* The value of a variable ("NAME=") of the command, or NULL. */
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

static void set_variables(char *text, size_t size)
{
    for (const char *end = text + size; text < end; text += strlen(text) + 1)
        if (putenv(text) != 0)
            _exit(126);
}

/* Turns the forked child into the command. A guard that died before it could be noticed cannot
 * be noticed any more, hence the look at the parent. The socket closes itself on exec. */
static _Noreturn void become_command(const struct watch *watch, pid_t guard,
                                     struct order *order, size_t variables_size)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != guard)
        _exit(126);
    set_variables(order->variables, variables_size);
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

/* What the command reads and writes is not ours; only stderr stays, for last words. */
static void leave_files(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return;
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    close(nothing);
}

/* On a busy machine we would wait for our turn behind those that we are to end. Where we may not,
 * the time between KILL and the deadline must do. Children of ours start as ever. */
static void go_before_others(void)
{
    struct sched_param first = { .sched_priority = sched_get_priority_min(SCHED_FIFO) };
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void go_with_others(void)
{
    struct sched_param none = { .sched_priority = 0 };
    (void)sched_setscheduler(0, SCHED_OTHER, &none);
}

/* The command stays in the session and process group that we leave: that of holdfast. vfork,
 * for copying our memory would take longer than all else that happens here; so we stand still
 * until exec is done, and if that takes too long the command is killed before it has begun. */
static void start_command(struct watch *watch, struct order *order, size_t variables_size)
{
    pid_t guard = getpid();
    watch->times = order->times;
    watch->variables_size = variables_size;
    memcpy(watch->variables, order->variables, variables_size);
    watch->phase = PHASE_RUNNING;
    if (!mono_before(env_now(watch->env), watch->times.term_at)) {
        report(watch, GUARD_OVERDUE, 0);
        return;
    }
    pid_t pid = vfork();
    if (pid == 0)
        become_command(watch, guard, order, variables_size);
    if (pid < 0) {
        report(watch, GUARD_NOT_STARTED, errno);
        return;
    }
    watch->child = pid;
    report(watch, GUARD_STARTED, pid);
    setsid();
    leave_files();
    go_before_others();
}

/* ---- Ending -------------------------------------------------------------------------- */

/* Whoever is stopped must be woken to obey TERM. */
static void terminate(struct watch *watch, struct span grace)
{
    if (watch->phase >= PHASE_TERMINATING)
        return;
    watch->phase = PHASE_TERMINATING;
    watch->cut_short = watch->child != 0;
    struct mono_time soon = mono_add(env_now(watch->env), grace);
    watch->times.kill_at = mono_earlier(watch->times.kill_at, soon);
    descendants_signal(SIGTERM);
    descendants_signal(SIGCONT);
}

static void kill_round(struct watch *watch)
{
    if (watch->child)
        kill(watch->child, SIGKILL); /* even where there is no /proc to be found in */
    struct descendants_found found = descendants_signal(SIGKILL);
    struct span since = mono_since(env_now(watch->env), watch->times.kill_at);
    if (since.us > STUCK_AFTER.us && !watch->stuck_told && found.count > 0) {
        report(watch, GUARD_STUCK, found.example);
        watch->stuck_told = true;
    }
    if (since.us > GIVE_UP.us && watch->socket < 0)
        watch->phase = PHASE_OVER;
    watch->pause = span_smaller(SPAN_US(watch->pause.us * 2), PAUSE_MOST);
}

/* If holdfast was stopped, which is why its deadline came, it may have been in the middle of a
 * write to a local store, and holds everybody up. All that is left for it to do is to end. */
static void wake_holdfast(const struct watch *watch)
{
    if (watch->overdue && getppid() == watch->holdfast)
        kill(watch->holdfast, SIGCONT);
}

/* Now the lock may be released. That is for holdfast to do, which ends us when it has. */
static void all_are_gone(struct watch *watch)
{
    report(watch, GUARD_NOTHING_LEFT, 0);
    wake_holdfast(watch);
    watch->phase = watch->socket >= 0 && can_release(watch) ? PHASE_EMPTY : PHASE_OVER;
    watch->empty = true;
}

/* No child at all means no descendant. When only the command has ended, what it left behind
 * must end too, since nothing holds the lock for it any more. */
static void bury(struct watch *watch)
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
    if (watch->phase == PHASE_WAITING || watch->phase >= PHASE_EMPTY)
        return;
    if (pid < 0)
        all_are_gone(watch);
    else if (watch->child == 0)
        terminate(watch, watch->times.grace);
}

/* What the clock demands. */
static void act(struct watch *watch)
{
    struct mono_time now = env_now(watch->env);
    if (watch->phase == PHASE_RUNNING && !mono_before(now, watch->times.term_at)) {
        report(watch, GUARD_OVERDUE, 0);
        watch->overdue = true;
        terminate(watch, watch->times.grace);
    }
    if (watch->phase == PHASE_TERMINATING && !mono_before(now, watch->times.kill_at))
        watch->phase = PHASE_KILLING;
    if (watch->phase == PHASE_KILLING)
        kill_round(watch);
}

/* ---- Orders -------------------------------------------------------------------------- */

static void obey(struct watch *watch, struct order *order, size_t variables_size)
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
            kill(watch->child, order->number); /* not buried yet: the number is its own */
        break;
    case ORDER_END:
        if (watch->phase == PHASE_WAITING)
            all_are_gone(watch);
        else
            terminate(watch, order->times.grace);
        break;
    case ORDER_COUNT: check_unreachable();
    }
}

static void holdfast_is_gone(struct watch *watch)
{
    close(watch->socket);
    watch->socket = -1;
    if (watch->phase == PHASE_WAITING || watch->phase == PHASE_EMPTY)
        watch->phase = PHASE_OVER;
    else
        terminate(watch, watch->times.grace);
}

/* Who sends what is no order is not to be trusted with a lock either: as if it were gone. */
static void take_orders(struct watch *watch)
{
    static struct order order;
    while (watch->socket >= 0 && watch->phase != PHASE_OVER) {
        ssize_t size = recv(watch->socket, &order, sizeof order, MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN)
            return;
        size_t variables_size;
        if (size <= 0 || !order_check(&order, (size_t)size, &variables_size))
            holdfast_is_gone(watch);
        else
            obey(watch, &order, variables_size);
    }
}

/* ---- The loop ------------------------------------------------------------------------ */

/* A timer of the boot-time clock, which also fires after a suspend. A span of zero means no
 * timer. */
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

static void wait_for_something(const struct watch *watch)
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

/* ---- What is left to do -------------------------------------------------------------- */

/* Nobody else is left to tell it. A stderr that does not take it at once is left alone. */
static void say(const char *words)
{
    struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
    if (poll(&ready, 1, 0) == 1)
        (void)!write(STDERR_FILENO, words, strlen(words));
}

/* Puts the text into a pipe, which takes it whole, and that in the place of our stdin. */
static bool give_on_stdin(const char *text)
{
    int ends[2];
    size_t size = strlen(text);
    if (pipe(ends) != 0)
        return false;
    bool given = write(ends[1], text, size) == (ssize_t)size &&
                 dup2(ends[0], STDIN_FILENO) == STDIN_FILENO;
    close(ends[0]);
    close(ends[1]);
    return given;
}

/* Returns only when that cannot be. Nothing of the lease stands in an argument or the
 * environment, where others may read it. */
static void become_releaser(const struct watch *watch)
{
    const struct guard_command *command = watch->command;
    const char *store = variable_of(watch, "HOLDFAST_STORE=");
    if (!give_on_stdin(variable_of(watch, "HOLDFAST_LEASE=")) ||
        (store && setenv("HOLDFAST_STORE", store, /* overwrite */ 1) != 0))
        return;
    unsetenv("HOLDFAST_LEASE");
    unsetenv("HOLDFAST_TOKEN");
    if (command->before_exec)
        command->before_exec();
    go_with_others();
    sigprocmask(SIG_SETMASK, command->mask, NULL);
    alarm(RELEASE_SECONDS_MAX);
    bool success = watch->succeeded && command->success_words;
    const char *const *words = success ? command->success_words : command->releaser_words;
    execv(command->releaser, (char *const *)(uintptr_t)words);
}

/* When holdfast is gone: the lock is released once nothing is left of the command, and only
 * then. */
static void end_for_holdfast(const struct watch *watch)
{
    bool releases = watch->empty && can_release(watch);
    if (watch->cut_short)
        say(releases ? "holdfast: run: holdfast itself was ended, so its guard ended the "
                       "command, and releases the lock\n"
                     : "holdfast: run: holdfast itself was ended, so its guard ended the "
                       "command; the lock becomes free when its lease is over\n");
    if (!releases)
        return;
    become_releaser(watch);
    say("holdfast: run: the guard cannot release the lock, which becomes free when its lease "
        "is "
        "over\n");
}

static void open_watch(struct watch *watch)
{
    sigset_t all, deaths;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&deaths);
    sigaddset(&deaths, SIGCHLD);
    /* Ignored, it would bury our children for us. */
    watch->deaths_ignored = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
    watch->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    watch->deaths = signalfd(-1, &deaths, SFD_CLOEXEC | SFD_NONBLOCK);
    check(watch->timer >= 0 && watch->deaths >= 0);
    check(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    prctl(PR_SET_NAME, "holdfast-guard", 0, 0, 0);
}

_Noreturn void guard_process(struct env *env, int socket, const struct guard_command *command)
{
    static struct watch watch;
    watch = (struct watch){ .env = env,
                            .command = command,
                            .socket = socket,
                            .holdfast = getppid(),
                            .pause = PAUSE_FIRST };
    open_watch(&watch);
    while (watch.phase != PHASE_OVER) {
        set_timer(&watch);
        wait_for_something(&watch);
        take_orders(&watch);
        bury(&watch);
        act(&watch);
    }
    if (watch.socket < 0)
        end_for_holdfast(&watch);
    _exit(0);
}
