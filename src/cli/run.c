/* run.c: `holdfast run`: a command that runs only while its lock is held. */
#include "cli/run.h"

#include "cli/interrupt.h"
#include "cli/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_LEAST    SPAN_S(1) /* so that there is time to end the command */
#define WAIT_DEFAULT SPAN_S(60)

/* ---- Options ------------------------------------------------------------------------- */

static enum hf_status read_options(struct run *run, struct hf_lock_options *options)
{
    struct cli *cli = run->cli;
    enum hf_status status = lock_options(cli, /* has_modes */ true, options);
    if (status != HF_OK)
        return status;
    run->once_per = cli_given(cli, "once-per");
    bool watched = isatty(STDERR_FILENO) == 1; /* by somebody who sees who holds it */
    run->wait_ms = cli_span(cli, "wait", watched ? WAIT_FOREVER : WAIT_DEFAULT).us / 1000;
    if (cli_given(cli, "no-wait"))
        run->wait_ms = 0;
    return HF_OK;
}

/* ---- Signals and the bell ------------------------------------------------------------ */

bool run_next_signal(struct run *run, struct signalfd_siginfo *ret_signal)
{
    return read(run->signals, ret_signal, sizeof *ret_signal) == (ssize_t)sizeof *ret_signal;
}

void run_ring(struct run *run)
{
    uint64_t one = 1;
    (void)!write(run->bell, &one, sizeof one);
}

void run_hush(struct run *run)
{
    uint64_t count;
    (void)!read(run->bell, &count, sizeof count);
}

/* From here on these come as data, to every thread that will be. Those that were ignored when
 * we started stay so, for the command too. */
static enum hf_status watch_signals(struct run *run)
{
    static const int numbers[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                   SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH };
    sigset_t watched;
    sigemptyset(&watched);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&watched, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &watched, &run->mask_before);
    run->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    run->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->signals < 0 || run->bell < 0)
        return error_from_errno(&run->cli->error, errno, "watch for signals");
    return interrupt_check(&run->cli->error);
}

/* ---- From start to end --------------------------------------------------------------- */

/* What the guard becomes when we are killed: the lease, on stdin, is ended as we would have. */
static const char *const release_words[] = { "holdfast", "release", "--quiet", "-", NULL };
static const char *const complete_words[] = { "holdfast",   "release", "--quiet",
                                              "--complete", "-",       NULL };

/* The words behind the scope, as exec wants them. */
static enum hf_status start_guard(struct run *run)
{
    struct cli *cli = run->cli;
    size_t count = cli->argument_count - 1;
    const char **words = arena_take(&cli->arena, (count + 1) * sizeof *words);
    if (!words)
        return error_no_memory(&cli->error);
    memcpy(words, cli->arguments + 1, count * sizeof *words);
    words[count] = NULL;
    struct guard_command command = { .words = words,
                                     .mask = &run->mask_before,
                                     .before_exec = interrupt_unwatch,
                                     .releaser = "/proc/self/exe",
                                     .releaser_words = release_words };
    if (run->once_per)
        command.success_words = complete_words;
    return guard_start(&run->guard, cli->env, &command, &cli->error);
}

enum hf_status run_open_lock(struct run *run, const struct hf_lock_options *options)
{
    struct cli *cli = run->cli;
    enum hf_status status = lock_connect(cli, option_text(cli, "holder"), &run->client);
    if (status == HF_OK)
        status = hf_lock_new(run->client, run->scope, options, &run->lock, &cli->error);
    return status;
}

/* As shells put it. */
static void tell_not_started(struct run *run, int reason)
{
    struct cli *cli = run->cli;
    const char *program = cli->arguments[1];
    struct hf_error error;
    if (reason == ENOENT && !strchr(program, '/'))
        error_set(&error, HF_NOT_FOUND, "there is no program '%.100s'", program);
    else
        error_set(&error, reason == ENOENT ? HF_NOT_FOUND : HF_DENIED,
                  "cannot run '%.100s': %s", program, strerror(reason));
    cli_report(cli, view_of(run->scope), &error);
}

static enum hf_status end_lease(struct run *run, const struct run_end *end)
{
    struct hf_error *error = &run->cli->error;
    if (!run->once_per)
        return hf_lock_release(run->lock, error);
    bool done =
        end->exited && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    return done ? hf_lock_complete(run->lock, NULL, error)
                : hf_lock_fail(run->lock, NULL, error);
}

/* A lease that could not be renewed is given back in the background, for a store that does not
 * answer is not worth a long wait then. And what is not released ends by itself, so only having
 * lost it is a failure of ours. */
static enum hf_status settle(struct run *run, const struct run_end *end)
{
    struct cli *cli = run->cli;
    if (!end->all_dead)
        return error_set(&cli->error, HF_LOST,
                         "the command could not be ended in time; the lock is not released, "
                         "and others may hold it soon");
    if (end->overdue)
        return error_set(
            &cli->error, HF_LOST,
            "the lease was lost or could not be renewed, so the command was ended");
    enum hf_status status = end_lease(run, end);
    if (status == HF_LOST || status == HF_EXPIRED)
        return error_set(&cli->error, HF_LOST,
                         "the lease was over before the command was; others may have held it");
    if (status != HF_OK && !cli->quiet)
        cli_report(cli, view_of(run->scope), &cli->error);
    return HF_OK;
}

/* With the lock held. */
static enum hf_status run_command(struct run *run)
{
    struct run_end end;
    run_watch(run, &end);
    sigprocmask(SIG_SETMASK, &run->mask_before, NULL); /* now a second Ctrl-C ends us */
    if (end.not_started)
        tell_not_started(run, end.not_started);
    enum hf_status status = settle(run, &end);
    run->cli->passes_on = end.exited;
    run->cli->wait_status = end.wait_status;
    return status;
}

static enum hf_status run_steps(struct run *run, const struct hf_lock_options *options)
{
    struct cli *cli = run->cli;
    int signal = 0;
    enum hf_status status =
        ttl_check(run->ttl, TTL_LEAST, SPAN_MS(HF_TTL_MS_MAX), NULL, &cli->error);
    if (status == HF_OK)
        status = watch_signals(run);
    if (status == HF_OK)
        status = start_guard(run);
    if (status == HF_OK)
        status = run_wait(run, options, &signal);
    if (signal) { /* told by dying of it */
        cli->passes_on = true;
        cli->wait_status = signal;
        return HF_OK;
    }
    if (status == HF_ALREADY && cli->quiet)
        cli->reported = true;
    return status == HF_OK ? run_command(run) : status;
}

enum hf_status run_through(struct run *run, struct hf_lock_options *options)
{
    run->scope = run->cli->arguments[0];
    run->ttl = SPAN_MS(options->ttl_ms);
    run->signals = run->bell = -1;
    options->notify = run_notify;
    options->notify_argument = run;
    enum hf_status status = run_steps(run, options);
    guard_end_all(&run->guard, run->cli->env);
    hf_lock_free(run->lock);
    hf_client_close(run->client);
    if (run->signals >= 0) {
        close(run->signals);
        sigprocmask(SIG_SETMASK, &run->mask_before, NULL);
    }
    if (run->bell >= 0)
        close(run->bell);
    return status;
}

enum hf_status run_run(struct cli *cli)
{
    struct run run = { .cli = cli };
    struct hf_lock_options options;
    enum hf_status status = read_options(&run, &options);
    return status == HF_OK ? run_through(&run, &options) : status;
}

/* ---- The row ------------------------------------------------------------------------- */

const struct command run_commands[] = {
    {
        .path = "run",
        .summary = "run a command while a lock is held, and end it before the lock can be lost",
        .arguments = { { "SCOPE", ARGUMENT_ONE, COMPLETE_LOCK,
                         "what is locked: a name, or path:/a/b, tree:/a, inode:7, "
                         "range:7:0-4096, "
                         "chunk:KEY, pin:KEY, shard:INDEX/a3" },
                       { "COMMAND", ARGUMENT_COMMAND, COMPLETE_PROGRAM,
                         "the program and its arguments" } },
        .options = { { .name = "ttl",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "how long the lease is when nobody renews it: what others "
                                  "wait after a crash; 30s if left out, at least 1s" },
                     MAX_TTL_OPTION,
                     { .name = "wait",
                       .type = OPTION_WAIT,
                       .choice = 1,
                       .value = "SPAN",
                       .summary = "wait in line for up to this long, then TIMEOUT; or forever "
                                  "(default: forever on a terminal, else 1m)" },
                     { .name = "no-wait",
                       .choice = 1,
                       .summary = "do not wait: HELD when the lock is not free" },
                     { .name = "mode",
                       .type = OPTION_TEXT,
                       .choice = 2,
                       .value = "MODE",
                       .values = "exclusive shared",
                       .summary = "exclusive, or shared with others that are shared" },
                     { .name = "slots",
                       .type = OPTION_COUNT,
                       .choice = 2,
                       .value = "N",
                       .summary = "up to N may hold it at once; all must say the same N" },
                     ONCE_PER_OPTIONS("only if no run that began within this time was a "
                                      "success, else ALREADY"),
                     { .name = "holder",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "how others see who holds it; host name and process id if "
                                  "left out" },
                     { .name = "ns",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .completion = COMPLETE_NAMESPACE,
                       .summary = "the namespace of the lock; default if left out" } },
        .details = { "The command has our standard files and finds its fencing token in "
                     "$HOLDFAST_TOKEN, and its lease, for other commands of holdfast, in "
                     "$HOLDFAST_LEASE. The lease is renewed for as long as it runs. Signals "
                     "are "
                     "passed on to it. Its exit status becomes ours; a signal that it dies of, "
                     "too. 127 means that there is no such program, 126 that it cannot be run.",
                     "When the lease can no longer be renewed, or holdfast itself is killed or "
                     "stopped, a guard process ends the command and all that came of it, in "
                     "whatever session, by TERM and then KILL, before anybody else can hold "
                     "the lock; the exit status is then LOST. When holdfast was killed the "
                     "guard then releases the lock, so that nobody waits until the ttl is "
                     "over. A process that may not be signalled (one of another user) or a "
                     "machine that stands still is beyond it: there only the token protects, "
                     "where what is written compares it.",
                     "What the command leaves running in the background when it exits has no "
                     "lock "
                     "any more and is ended the same way, before the lock is released.",
                     "With --once-per success is kept in the store: of ten machines whose cron "
                     "starts the same line, one runs it, and the others end with ALREADY. The "
                     "period counts from when the successful run was granted the lock, less "
                     "--slack: a job that starts every hour with --once-per 1h runs every "
                     "hour, "
                     "though no start is quite on time. All should name the same period. "
                     "UNSUPPORTED, before anything starts, where success could not be "
                     "remembered for so long: up to 512 paths and trees of a namespace share "
                     "one table, while each name has its own." },
        .json = "errors as JSON objects on stderr; stdout belongs to the command",
        .examples = { { "holdfast run backup -- sh -c 'echo \"my token is $HOLDFAST_TOKEN\"'",
                        "one at a time, everywhere" },
                      { "holdfast run --no-wait --ttl 10s tree:/reports -- wc -l report.csv",
                        "now or not at all" },
                      { "holdfast run --once-per 1h nightly -- true",
                        "at most once an hour, however many try" },
                      { "holdfast run --slots 3 downloads -- true", "up to three at a time" } },
        .run = run_run,
    },
    { .path = NULL },
};
