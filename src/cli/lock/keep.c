/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c: `hold`: holds a lock for a script. The lock is released when the script closes the pipe
 * to our stdin, or when the process that started us has ended, however it ended. Nothing is ever
 * read from stdin, because the script may have other plans for it. */
#include "cli/interrupt.h"
#include "cli/lock/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* How often signals and the lease are checked. */
#define LOOK_EACH_MS 100

struct keeping {
    struct cli *cli;
    struct hf_lock *lock;
    int parent;      /* a pidfd of the process that started us; -1: it cannot be watched */
    int notify;      /* an eventfd with which the keeper wakes us */
    atomic_int news; /* the last event from the keeper, plus one; 0: no new event */
};

/* ---- When to end --------------------------------------------------------------------- */

/* False if our parent has already ended. */
static bool watch_parent(struct keeping *keeping)
{
    pid_t parent = getppid();
    keeping->parent = pidfd_open(parent, 0);
    return getppid() == parent;
}

/* Waits for up to this long. True if the script no longer needs the lock. A file, and a terminal
 * until it hangs up, have no other end that could be closed: then only the parent counts. */
static bool script_is_done(struct keeping *keeping, int wait_ms)
{
    struct pollfd waits[] = { { .fd = STDIN_FILENO, .events = POLLRDHUP },
                              { .fd = keeping->parent, .events = POLLIN },
                              { .fd = keeping->notify, .events = POLLIN } };
    uint64_t count;
    if (poll(waits, sizeof waits / sizeof waits[0], wait_ms) <= 0)
        return false;
    if (waits[2].revents)
        (void)!read(keeping->notify, &count, sizeof count);
    return (waits[0].revents & (POLLHUP | POLLRDHUP)) != 0 || waits[1].revents != 0;
}

static bool script_ended_while_waiting(void *argument)
{
    return script_is_done(argument, /* wait_ms */ 0);
}

/* ---- Holding ------------------------------------------------------------------------- */

/* Called in one of the keeper's threads. */
static void keeper_told(void *argument, struct hf_lock *lock, enum hf_lock_event event)
{
    struct keeping *keeping = argument;
    uint64_t one = 1;
    (void)lock;
    atomic_store(&keeping->news, (int)event + 1);
    (void)!write(keeping->notify, &one, sizeof one);
}

/* A lease in quotes: each byte may need three more, which end the quotes and begin them again. */
#define QUOTED_LEASE_MAX (4 * HF_LEASE_TEXT_MAX + 2)

/* Returns the lease as one word that a shell reads unchanged. The lease of a server contains its
 * scope, which a script may have from anyone. */
static const char *quote_lease(const char *lease, char quoted[QUOTED_LEASE_MAX])
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:._/-";
    char *end = quoted;
    if (lease[strspn(lease, plain)] == '\0')
        return lease;
    *end++ = '\'';
    for (const char *at = lease; *at; at++) {
        const char *as = *at == '\'' ? "'\\''" : at;
        size_t size = *at == '\'' ? 4 : 1;
        memcpy(end, as, size);
        end += size;
    }
    memcpy(end, "'", 2);
    return quoted;
}

/* Prints the lease, and closes stdout, so that a script can read to the end of it. */
static enum hf_status print_kept_lease(struct keeping *keeping)
{
    struct cli *cli = keeping->cli;
    struct told_lease told;
    char quoted[QUOTED_LEASE_MAX];
    enum hf_status status = told_lease_fill(cli, keeping->lock, &told);
    if (status != HF_OK)
        return status;
    if (cli->json)
        record_show(cli, told_lease_record, &told, /* text */ NULL);
    else
        output_print(&cli->out, "HOLDFAST_TOKEN=%" PRIu64 "\nHOLDFAST_LEASE=%s\n", told.token,
                     quote_lease(told.lease, quoted));
    status = output_flush_or_undo(&cli->out, &cli->error);
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, STDOUT_FILENO);
        close(nothing);
    }
    return status;
}

static void report_news(struct keeping *keeping)
{
    struct cli *cli = keeping->cli;
    struct hf_error said;
    int news = atomic_exchange(&keeping->news, 0);
    if (news == HF_LOCK_DANGER + 1)
        error_set(&said, HF_UNAVAILABLE,
                  "the lease could not be renewed; unless a retry succeeds soon, it is lost");
    else if (news == HF_LOCK_SAFE + 1)
        error_set(&said, HF_OK, "the lease has been renewed");
    else
        return;
    if (!cli->quiet)
        cli_report(cli, cli_argument(cli, 0), &said);
}

/* Returns OK when the script is done, CANCELLED after a signal, and LOST as soon as the lease can
 * no longer be relied on. */
static enum hf_status keep_until_done(struct keeping *keeping)
{
    struct cli *cli = keeping->cli;
    bool done = false;
    while (!done && !interrupted()) {
        done = script_is_done(keeping, LOOK_EACH_MS);
        report_news(keeping);
        if (hf_lock_check(keeping->lock, /* error */ NULL) != HF_OK)
            return error_set(
                &cli->error, HF_LOST,
                "the lease was lost or could not be renewed: stop the work that it "
                "protected");
    }
    return done ? HF_OK : interrupt_check(&cli->error);
}

/* A failed release is an error, because the script may count on the lock being free. */
static enum hf_status release_kept(struct keeping *keeping, struct hf_error *error)
{
    enum hf_status status = hf_lock_release(keeping->lock, error);
    if (status == HF_LOST || status == HF_EXPIRED)
        return error_set(error, HF_LOST,
                         "the lease ended before it was released; others may have held the "
                         "lock");
    if (status != HF_OK)
        error_prefix(error, "the release failed; the lock may stay held until its ttl ends");
    return status;
}

static enum hf_status acquire_kept(void *argument, int64_t wait_ms, struct hf_error *error)
{
    struct keeping *keeping = argument;
    return hf_lock_acquire(keeping->lock, wait_ms, error);
}

/* The script must learn of the loss now. To close the client first would take as long as the
 * requests under way. A lease that has only expired stays in the table until another client takes
 * over; a renewal that is still under way may make that one ttl longer. */
static _Noreturn void end_as_lost(struct cli *cli)
{
    cli_report(cli, cli_argument(cli, 0), &cli->error);
    _exit(hf_status_exit_code(HF_LOST));
}

/* Acquires the lock, unless the script ends first. */
static enum hf_status take_and_keep(struct keeping *keeping)
{
    struct cli *cli = keeping->cli;
    struct wait_call call = { acquire_kept, keeping, .lock = keeping->lock,
                              .gives_up = script_ended_while_waiting };
    enum hf_status status = wait_in_line(cli, &call);
    lock_explain(cli, keeping->lock);
    if (status == HF_CANCELLED && !interrupted())
        return error_set(&cli->error, HF_CANCELLED,
                         "the script ended before the lock was acquired");
    if (status != HF_OK)
        return status;
    cli_end_in_order(cli);
    status = print_kept_lease(keeping);
    if (status == HF_OK)
        status = keep_until_done(keeping);
    if (status == HF_LOST)
        end_as_lost(cli);
    struct hf_error why;
    enum hf_status released = release_kept(keeping, &why);
    if (status == HF_OK)
        cli->error = why;
    else if (released != HF_OK) /* a signal hides other errors */
        cli_report(cli, cli_argument(cli, 0), &why);
    return status == HF_OK ? released : status;
}

enum hf_status run_hold(struct cli *cli)
{
    struct keeping keeping = { .cli = cli, .parent = -1 };
    struct hf_lock_options options;
    enum hf_status status = lock_options(cli, /* has_modes */ true, &options);
    keeping.notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    options.notify = keeper_told;
    options.notify_argument = &keeping;
    options.note = option_text(cli, "note");
    if (status == HF_OK && keeping.notify < 0)
        status = error_from_errno(&cli->error, errno, "watch the lease");
    if (status == HF_OK && !watch_parent(&keeping))
        status = error_set(&cli->error, HF_CANCELLED, "the script has already ended");
    if (status == HF_OK)
        status = cli_connect_as_user(cli);
    if (status == HF_OK)
        status = hf_lock_new_many(cli->client, cli->arguments, cli->argument_count, &options,
                                  &keeping.lock, &cli->error);
    if (status == HF_OK)
        status = take_and_keep(&keeping);
    hf_lock_free(keeping.lock);
    cli_disconnect(cli); /* the keeper no longer calls us */
    close(keeping.parent);
    close(keeping.notify);
    return status;
}
