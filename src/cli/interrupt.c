/* interrupt.c: the only signal handlers of the program. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t signal_that_came;
static const char *_Atomic path_to_remove;

static void die_of(int number)
{
    signal(number, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
}

/* Calls only what POSIX allows in a handler. */
static void on_signal(int number)
{
    if (!signal_that_came) {
        signal_that_came = number;
        return;
    }
    const char *path = atomic_load(&path_to_remove);
    if (path)
        unlink(path);
    die_of(number);
}

/* No SA_RESTART: a read from a terminal or pipe that waits must return, to see the flag.
 * Signals that were ignored when we started (nohup, background jobs) stay ignored. A closed
 * pipe is an error of write, since a store's socket may be closed too. */
void interrupt_watch(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old, action = { .sa_handler = on_signal };
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

bool interrupted(void)
{
    return signal_that_came != 0;
}

enum hf_status interrupt_check(struct hf_error *error)
{
    return interrupted() ? error_set(error, HF_CANCELLED, "stopped by a signal") : HF_OK;
}

void interrupt_removes(const char *path)
{
    atomic_store(&path_to_remove, path);
}

_Noreturn void interrupt_die(int otherwise)
{
    int number = signal_that_came ? signal_that_came : otherwise;
    die_of(number);
    _exit(128 + number); /* only if the signal is blocked for good */
}
