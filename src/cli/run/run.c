/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: `holdfast run`: runs a command only while its lock is held, and ends the command before
 * another client can take over the lock. */
#include "cli/run/outer.h"

#include "cli/interrupt.h"
#include "cli/lock/lock.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_LEAST       SPAN_S(1) /* leaves time to end the command */
#define WAIT_MS_DEFAULT 60000

/* More than a run on a local store needs. Memory that is not used costs nothing. */
#define HEAP_ROOM (512 * 1024)

bool run_next_signal(struct run *run, struct signalfd_siginfo *ret_signal)
{
    return read(run->signals, ret_signal, sizeof *ret_signal) == (ssize_t)sizeof *ret_signal;
}

void run_ring(struct run *run)
{
    uint64_t one = 1;
    (void)!write(run->notify, &one, sizeof one);
}

void run_hush(struct run *run)
{
    uint64_t count;
    (void)!read(run->notify, &count, sizeof count);
}

/* Blocks these signals in all threads, and reads them from a signalfd instead. Signals that were
 * ignored at the start remain ignored, even in the command. */
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
    run->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->signals < 0 || run->notify < 0)
        return error_from_errno(&run->cli->error, errno, "watch for signals");
    return interrupt_check(&run->cli->error);
}

/* The program that the guard executes when holdfast is killed. It reads the lease from stdin, and
 * releases it as holdfast would have. */
static const char *const release_words[] = { "holdfast", "release", "--quiet", "-", NULL };
static const char *const complete_words[] = { "holdfast",   "release", "--quiet",
                                              "--complete", "-",       NULL };

/* Starts the guard with the words after the scope, in the form that exec requires. */
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
    enum hf_status status = cli_connect_as(cli, /* ns */ NULL, option_text(cli, "holder"));
    if (status == HF_OK)
        status = hf_lock_new(cli->client, run->scope, options, &run->lock, &cli->error);
    return status;
}

/* Releases the lease, and decides whether the run failed. A lease that could not be renewed is not
 * released here, because the store may not reply for a long time; the client releases the lease in
 * the background. A failed release is not an error, because the lease expires on its own, but a
 * lost lease is an error. So is a success that could not be recorded: with the lease, --once-per
 * forgets it. */
static enum hf_status end_run(struct run *run, const struct run_end *end)
{
    struct cli *cli = run->cli;
    struct hf_error *error = &cli->error;
    if (!end->all_dead) {
        hf_lock_detach(run->lock); /* hf_lock_free would release it */
        run->lock = NULL;
        return error_set(error, HF_LOST,
                         "the command could not be ended in time; the lock was not released, "
                         "and others may soon hold it");
    }
    if (end->overdue)
        return error_set(
            error, HF_LOST,
            "the lease was lost or could not be renewed, so the command was ended");
    bool done =
        end->exited && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    enum hf_status status = !run->once_per ? hf_lock_release(run->lock, error)
                            : done         ? hf_lock_complete(run->lock, NULL, error)
                                           : hf_lock_fail(run->lock, NULL, error);
    if (status == HF_LOST || status == HF_EXPIRED)
        return error_set(
            error, HF_LOST,
            "the lease ended before the command did; others may have held the lock");
    if (status != HF_OK && run->once_per && done) {
        error->status = status == HF_UNSURE ? HF_UNSURE : HF_UNREPORTED;
        error_prefix(error, "the command succeeded, but --once-per could not record it");
        return error->status;
    }
    if (status != HF_OK && !cli->quiet)
        cli_report(cli, view_of(run->scope), error);
    return HF_OK;
}

/* Whether the program is a file that nobody may execute, and a command that changes this fits into
 * an error. */
static bool lacks_x_bit(const char *program)
{
    struct stat info;
    return strchr(program, '/') && strlen(program) <= 80 && stat(program, &info) == 0 &&
           S_ISREG(info.st_mode) && !(info.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH));
}

/* Reports why the command could not be started. The error distinguishes the same reasons as shells
 * do. */
static void report_not_started(struct run *run, int reason)
{
    const char *program = run->cli->arguments[1];
    struct hf_error error;
    if (reason == ENOENT && !strchr(program, '/'))
        error_set(&error, HF_NOT_FOUND, "there is no program '%.100s'", program);
    else if (reason == EACCES && lacks_x_bit(program))
        error_set(&error, HF_DENIED,
                  "cannot run '%s': %s; make it executable with 'chmod +x %s'", program,
                  strerror(EACCES), program);
    else
        error_set(&error, reason == ENOENT ? HF_NOT_FOUND : HF_DENIED,
                  "cannot run '%.100s': %s", program, strerror(reason));
    cli_report(run->cli, view_of(run->scope), &error);
}

/* The wait status of a command whose exit the guard did not report: the guard could not fork it, or
 * the report was lost. */
static int report_no_exit(struct run *run, const struct run_end *end)
{
    struct hf_error error;
    error_set(&error, HF_UNREPORTED, "the exit status of the command is unknown");
    if (!end->not_started)
        cli_report(run->cli, view_of(run->scope), &error);
    return W_EXITCODE(126, 0);
}

/* Runs the command. The lock is held. */
static enum hf_status run_locked(struct run *run)
{
    struct cli *cli = run->cli;
    struct run_end end;
    run_watch(run, &end);
    signal(SIGUSR1, SIG_IGN); /* they were for the command */
    signal(SIGUSR2, SIG_IGN);
    sigprocmask(SIG_SETMASK, &run->mask_before, NULL); /* now a second Ctrl-C ends us */
    if (end.not_started)
        report_not_started(run, end.not_started);
    enum hf_status status = end_run(run, &end);
    if (status != HF_OK)
        return status;
    cli->passes_on = true;
    cli->wait_status = end.exited ? end.wait_status : report_no_exit(run, &end);
    return HF_OK;
}

/* Becomes the command, under the lease of an outer run; returns only if that fails. */
static enum hf_status run_inherited(struct run *run)
{
    struct cli *cli = run->cli;
    hf_store_close(cli->handle);
    cli->handle = NULL;
    int reason = outer_become_command(cli, run->inherited);
    report_not_started(run, reason);
    cli->passes_on = true;
    cli->wait_status = W_EXITCODE(reason == ENOENT || reason == ENOTDIR ? 127 : 126, 0);
    return HF_OK;
}

enum hf_status run_through(struct run *run, struct hf_lock_options *options)
{
    struct cli *cli = run->cli;
    int signal = 0;
    run->scope = cli->arguments[0];
    run->ttl = SPAN_MS(options->ttl_ms);
    run->signals = run->notify = -1;
    /* The lock is acquired by another thread. A heap of its own would take 40 system calls. The
     * heap grows once, and is not trimmed. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TOP_PAD, HEAP_ROOM);
    options->notify = run_notify;
    options->notify_argument = run;
    enum hf_status status =
        ttl_check(run->ttl, TTL_LEAST, SPAN_MS(HF_TTL_MS_MAX), NULL, &cli->error);
    if (status == HF_OK)
        status = watch_signals(run);
    if (status == HF_OK)
        status = start_guard(run);
    if (status == HF_OK)
        status = run_wait(run, options, &signal);
    if (signal) { /* no error is printed: the program ends with the signal */
        cli->passes_on = true;
        cli->wait_status = signal;
        status = HF_OK;
    } else if (status == HF_OK && !run->inherited) {
        status = run_locked(run);
    } else if (status == HF_ALREADY && cli->quiet) {
        cli->reported = true;
    }
    /* A guard that is no longer needed ends while the store is closed. */
    if (!guard_dismiss(&run->guard))
        guard_end_all(&run->guard, cli->env);
    hf_lock_free(run->lock);
    cli_disconnect(cli);
    guard_end_all(&run->guard, cli->env);
    if (run->signals >= 0) {
        close(run->signals);
        sigprocmask(SIG_SETMASK, &run->mask_before, NULL);
    }
    if (run->notify >= 0)
        close(run->notify);
    return status == HF_OK && !signal && run->inherited ? run_inherited(run) : status;
}

enum hf_status run_run(struct cli *cli)
{
    struct run run = { .cli = cli, .once_per = cli_given(cli, "once-per") };
    struct outer_runs outer;
    struct hf_lock_options options;
    enum hf_status status = lock_options(cli, /* has_modes */ true, &options);
    bool watched = isatty(STDERR_FILENO) == 1; /* a user sees the holder and can stop it */
    run.wait_ms = option_ms(cli, "wait", watched ? WAIT_FOREVER.us / 1000 : WAIT_MS_DEFAULT);
    if (cli_given(cli, "no-wait"))
        run.wait_ms = 0;
    if (status == HF_OK && !cli_given(cli, "no-inherit")) {
        run.outer = &outer;
        status = outer_find(cli, &outer);
    }
    return status == HF_OK ? run_through(&run, &options) : status;
}
