/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: holdfast's side of the guard (guard.h): starts it, sends it orders, reads its reports,
 * and ends the remaining processes when the guard dies. */
#include "cli/run/guard.h"

#include "cli/run/descendants.h"
#include "cli/run/guard_message.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAD_LEAST    SPAN_MS(100)
#define LEAD_ENOUGH   SPAN_S(1)
#define GRACE_MOST    SPAN_S(5)
#define END_PATIENCE  SPAN_S(10)
#define PAUSE_OF_ENDS SPAN_MS(2)

/* How many walks in a row must find nothing. A single one may miss a process that is being forked,
 * which the next one finds. */
#define EMPTY_WALKS 3

/* The lead is the time between KILL and the deadline. It is a tenth of the ttl; for a long ttl, it
 * is one second or a twentieth of the ttl, whichever is larger. It is at least LEAD_LEAST, but
 * never more than a quarter of the ttl. */
struct guard_times guard_times_for(struct mono_time deadline, struct span ttl)
{
    struct span lead =
        span_larger(span_smaller(SPAN_US(ttl.us / 10), LEAD_ENOUGH), SPAN_US(ttl.us / 20));
    lead = span_smaller(span_larger(lead, LEAD_LEAST), SPAN_US(ttl.us / 4));
    struct span grace = span_smaller(SPAN_US(ttl.us / 5), GRACE_MOST);
    return (struct guard_times){
        .term_at = mono_add(deadline, SPAN_US(-lead.us - grace.us)),
        .kill_at = mono_add(deadline, SPAN_US(-lead.us)),
        .grace = grace,
    };
}

enum hf_status guard_start(struct guard *guard, struct env *env,
                           const struct guard_command *command, struct hf_error *error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_from_errno(error, errno, "create a socket for the guard process");
    /* If the guard dies, its orphans become children of this process, which then ends them. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        error_from_errno(error, errno, "become a child subreaper");
        goto fail;
    }
    struct guard started = { .socket = ends[0] };
    descendants_spare(&started.spared);
    pid_t pid = fork();
    if (pid < 0) {
        error_from_errno(error, errno, "start the guard process");
        goto fail;
    }
    if (pid == 0) {
        close(ends[0]);
        guard_process(env, ends[1], command);
    }
    /* If ignored, the kernel would reap the guard itself. */
    started.child_handler = signal(SIGCHLD, SIG_DFL);
    close(ends[1]);
    started.pid = pid;
    *guard = started;
    return HF_OK;
fail:
    close(ends[0]);
    close(ends[1]);
    return error->status;
}

static void send_order(struct guard *guard, const struct order *order, size_t variables_size)
{
    size_t size = order_size(variables_size);
    ssize_t sent;
    do
        sent = send(guard->socket, order, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
}

void guard_go(struct guard *guard, const struct guard_times *times,
              const struct guard_variable *variables, size_t count)
{
    struct order order = { .kind = ORDER_GO, .times = *times };
    size_t variables_size = order_set_variables(&order, variables, count);
    guard->going = true;
    send_order(guard, &order, variables_size);
}

void guard_move(struct guard *guard, const struct guard_times *times)
{
    struct order order = { .kind = ORDER_MOVE, .times = *times };
    send_order(guard, &order, 0);
}

void guard_signal(struct guard *guard, int number)
{
    struct order order = { .kind = ORDER_SIGNAL, .number = number };
    send_order(guard, &order, 0);
}

void guard_end(struct guard *guard, struct span grace)
{
    struct order order = { .kind = ORDER_END, .times = { .grace = grace } };
    send_order(guard, &order, 0);
}

bool guard_next(struct guard *guard, struct guard_report *ret_report)
{
    if (guard->empty)
        return false;
    struct guard_report report;
    ssize_t size;
    /* If the guard ended with unread orders, recv returns ECONNRESET once, before the reports that
     * the guard had sent. */
    bool reset = false, again;
    do {
        size = recv(guard->socket, &report, sizeof report, MSG_DONTWAIT);
        again = size < 0 && (errno == EINTR || (errno == ECONNRESET && !reset));
        reset = reset || (size < 0 && errno == ECONNRESET);
    } while (again);
    if (size < 0 && errno == EAGAIN)
        return false;
    if (size > 0 && report_check(&report, (size_t)size))
        guard->empty = report.kind == GUARD_NOTHING_LEFT;
    else
        report = (struct guard_report){ .kind = GUARD_DEAD };
    *ret_report = report;
    return true;
}

bool guard_dismiss(struct guard *guard)
{
    if (guard->pid != 0 && guard->empty)
        kill(guard->pid, SIGKILL); /* not reaped yet, so its process id is not reused */
    return guard->empty;
}

/* Kills and reaps processes until this process has no children other than the spared ones. If none
 * is spared, that is proven by the kernel. */
static bool end_descendants(struct guard *guard, struct env *env)
{
    struct mono_time give_up = mono_add(env_now(env), END_PATIENCE);
    for (unsigned empty_walks = 0;;) {
        struct descendants_found found = descendants_signal(SIGKILL, &guard->spared);
        if (descendants_bury_all(&guard->spared) < 0)
            return true;
        empty_walks = found.count == 0 && guard->spared.count > 0 ? empty_walks + 1 : 0;
        if (empty_walks == EMPTY_WALKS)
            return true;
        if (!mono_before(env_now(env), give_up))
            return false;
        env_sleep(env, PAUSE_OF_ENDS);
    }
}

bool guard_end_all(struct guard *guard, struct env *env)
{
    if (guard->pid == 0)
        return true;
    kill(guard->pid, SIGKILL); /* not reaped yet, so its process id is not reused */
    bool ended = !guard->going || guard->empty;
    if (!ended)
        ended = end_descendants(guard, env);
    else
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    close(guard->socket);
    signal(SIGCHLD, guard->child_handler);
    *guard = (struct guard){ .socket = -1 };
    return ended;
}
