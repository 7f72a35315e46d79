/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c: the signal handlers of the program. They remove temporary files, and make sure that
 * Ctrl-C ends the program within a second. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h> /* also declares timers that send signals */
#include <unistd.h>

static volatile sig_atomic_t signal_that_came;
static const char *_Atomic paths_to_remove[INTERRUPT_PATHS];
static const char *_Atomic last_words;
static void (*closed_pipe_before)(int) = SIG_DFL;
static void (*large_file_before)(int) = SIG_DFL;
static timer_t patience;
static bool patience_set;
static atomic_bool in_order;
static const char *_Atomic in_order_text;

static void die_of(int number)
{
    signal(number, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}

/* The handlers below call only async-signal-safe functions. */

static void end_at_once(int number)
{
    for (size_t i = 0; i < INTERRUPT_PATHS; i++) {
        const char *path = atomic_load(&paths_to_remove[i]);
        if (path && unlink(path) != 0)
            rmdir(path);
    }
    const char *words = atomic_load(&last_words);
    if (words)
        (void)!write(STDOUT_FILENO, words, strlen(words));
    die_of(number);
}

/* The timer of the first signal also measures how long ago that was. */
static bool is_echo(int number)
{
    struct itimerspec left;
    return patience_set && number == signal_that_came && timer_gettime(patience, &left) == 0 &&
           left.it_value.tv_nsec > (INTERRUPT_PATIENCE.us - INTERRUPT_ECHO.us) * 1000;
}

static void on_signal(int number)
{
    const struct itimerspec once = { .it_value.tv_nsec = INTERRUPT_PATIENCE.us * 1000 };
    if (signal_that_came && is_echo(number))
        return;
    if (signal_that_came)
        end_at_once(number);
    signal_that_came = number;
    if (patience_set)
        timer_settime(patience, 0, &once, NULL);
}

static void on_patience_over(int number)
{
    (void)number;
    const char *text = atomic_load(&in_order_text);
    if (signal_that_came != SIGINT)
        return;
    if (!atomic_load(&in_order))
        end_at_once(signal_that_came);
    else if (text)
        (void)!write(STDERR_FILENO, text, strlen(text));
}

static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
#define NUMBERS (sizeof numbers / sizeof numbers[0])

/* Handlers are installed without SA_RESTART, so that a blocked read returns and the flag is
 * checked. Signals that were ignored at the start (nohup, background jobs) remain ignored. SIGPIPE
 * is ignored, so that a write to a closed pipe fails instead. A write to a closed socket of a store
 * would raise SIGPIPE as well. So is SIGXFSZ: a write beyond the limit of file sizes fails like a
 * write to a full disk, and temporary files are removed. */
void interrupt_watch(void)
{
    /* SIGALRM is not used, because our parent may have set an alarm to end this process. */
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
    struct sigaction over = { .sa_handler = on_patience_over };
    sigemptyset(&over.sa_mask);
    patience_set = sigaction(SIGRTMIN, &over, NULL) == 0 &&
                   timer_create(CLOCK_MONOTONIC, &event, &patience) == 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        struct sigaction old, action = { .sa_handler = on_signal };
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    closed_pipe_before = signal(SIGPIPE, SIG_IGN);
    large_file_before = signal(SIGXFSZ, SIG_IGN);
}

void interrupt_unwatch(void)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == on_signal)
            signal(numbers[i], SIG_DFL);
    }
    signal(SIGPIPE, closed_pipe_before);
    signal(SIGXFSZ, large_file_before);
}

bool interrupted(void)
{
    return signal_that_came != 0;
}

void interrupt_in_order(const char *text)
{
    atomic_store(&in_order_text, text);
    atomic_store(&in_order, true);
}

enum hf_status interrupt_check(struct hf_error *error)
{
    return interrupted() ? error_set(error, HF_CANCELLED, "stopped by a signal") : HF_OK;
}

void interrupt_removes(size_t which, const char *path)
{
    atomic_store(&paths_to_remove[which], path);
}

void interrupt_removes_file(void *context, int which, const char *path)
{
    (void)context;
    interrupt_removes((size_t)which, path);
}

void interrupt_writes(const char *text)
{
    atomic_store(&last_words, text);
}

_Noreturn void interrupt_die(int otherwise)
{
    int number = signal_that_came ? signal_that_came : otherwise;
    die_of(number);
    _exit(128 + number); /* reached only if the signal could not be delivered */
}

_Noreturn void interrupt_die_as(int number)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    die_of(number);
    _exit(128 + number);
}
