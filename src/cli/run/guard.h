/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: the guard, a process that ends the command of `holdfast run` before another client can
 * take over its lock (docs/design.md section 6).
 *
 *     shell
 *       holdfast run        acquires and renews the lease, passes on signals and exit status
 *         guard             in its own session; knows the deadline; ends the command
 *           command         in holdfast's process group, so the terminal sees one job
 *             ...           the descendants of the command
 *
 * The guard is forked before the store is opened, while the process has a single thread and no
 * connections. It waits for the order to start the command. From then on, the guard knows a
 * deadline, which holdfast extends with each renewal. The guard sends TERM to the command and all
 * its descendants, and KILL after a grace period, in these cases:
 *
 *     holdfast is killed     its end of the socket closes: immediately; then the lease is released
 *     holdfast is stopped    no new deadline arrives: TERM and KILL in time before the last one;
 *                            then the guard continues holdfast, which reports the outcome
 *     the lease is lost      holdfast sends an order: immediately
 *     the command has ended  its remaining descendants have no lock any more: immediately
 *     the guard is killed    the kernel kills the command (PDEATHSIG); its descendants become
 *                            children of holdfast, which kills them (guard_end_all), and leaves
 *                            alone the children of the shell that executed holdfast
 *
 * Where it is permitted (root or CAP_SYS_NICE), the guard runs with real-time priority
 * (SCHED_FIFO), so a busy machine does not delay it; only while it reaps is it at nice -20, because
 * waitpid at real-time priority can spin for a second. Elsewhere, its safety margin is the time
 * between KILL and the deadline: a tenth of the ttl or, for a long ttl, one second or a twentieth
 * of the ttl, whichever is larger.
 *
 * The command has ended only when all its descendants have ended; the proof is that no child is
 * left (descendants.h). Only then does the guard report the end, and holdfast releases the lock. If
 * holdfast is killed before that, the guard releases the lock: it executes a new program that reads
 * the text of the lease from its stdin. If the release fails, the lease expires on its own.
 *
 * The guard cannot help if it is stopped together with holdfast, if the machine is suspended, or if
 * it may not signal a process. In these cases, only the fencing token protects the data. */
#ifndef CLI_RUN_GUARD_H
#define CLI_RUN_GUARD_H

#include "cli/run/descendants.h"
#include "env/env.h"

#include <signal.h>
#include <sys/types.h>

struct guard_times {
    struct mono_time term_at;
    struct mono_time kill_at;
    struct span grace; /* from TERM to KILL, even if holdfast or the command is gone */
};

/* The times for a lease with this ttl that is guaranteed to be held until `deadline`. KILL comes
 * early enough for a busy machine to end the processes before the deadline. */
struct guard_times guard_times_for(struct mono_time deadline, struct span ttl);

struct guard {
    pid_t pid;                  /* 0: no guard is running */
    int socket;                 /* readable when a report has arrived, or the guard is dead */
    void (*child_handler)(int); /* what was done with SIGCHLD before guard_start */
    bool going;                 /* the guard was ordered to start the command */
    bool empty;                 /* the guard has reported that no process is left */
    struct spared spared;       /* the children that were there before the guard */
};

struct guard_command {
    const char *const *words;  /* ends with NULL */
    const sigset_t *mask;      /* the signals that are blocked when it starts */
    void (*before_exec)(void); /* restores the rest of the inherited state; may be NULL */

    /* The program that the guard executes when holdfast is gone and no process of the command is
     * left (NULL: none), and its words, which end with NULL. The program reads the lease, which is
     * the command's $HOLDFAST_LEASE, from its stdin, and finds $HOLDFAST_STORE in its
     * environment. */
    const char *releaser;
    const char *const *releaser_words;
    const char *const *success_words; /* used if the command exited with 0; may be NULL */
};

/* Forks the guard, and makes both processes child subreapers. Call this function while the process
 * has only one thread, and with all watched signals blocked. */
enum hf_status guard_start(struct guard *guard, struct env *env,
                           const struct guard_command *command, struct hf_error *error);

#define GUARD_VARIABLES_MAX 4

/* For runs inside of the command (outer.h): the name of the file in memory in which the guard keeps
 * the variables of its command, and the variable that names it as PID:FD. The entries of the guards
 * around this one follow, separated by commas. */
#define OUTER_FILE_NAME "holdfast-run"
#define OUTER_VARIABLE  "HOLDFAST_GUARD"

/* A variable for the environment of the command. */
struct guard_variable {
    const char *name;
    const char *value;
};

/* Each of these functions sends one message. The message is lost if the guard is dead or its socket
 * is full. This is safe, because the guard then keeps an earlier deadline, or is dead. */
void guard_go(struct guard *guard, const struct guard_times *times,
              const struct guard_variable *variables, size_t count);
void guard_move(struct guard *guard, const struct guard_times *times);
void guard_signal(struct guard *guard, int number);
void guard_end(struct guard *guard, struct span grace);

enum guard_report_kind {
    GUARD_STARTED,     /* value: the process id of the command */
    GUARD_NOT_STARTED, /* value: the errno of exec */
    GUARD_EXITED,      /* value: the wait status of the command */
    GUARD_OVERDUE,     /* the deadline is near, and the command is being ended */
    GUARD_STUCK,       /* value: a process that does not end, even after KILL */
    GUARD_NOTHING_LEFT,
    GUARD_DEAD, /* the guard died before it could report that no process is left */
};

struct guard_report {
    enum guard_report_kind kind;
    int value;
};

/* Reads the next report; false if there is no report. */
bool guard_next(struct guard *guard, struct guard_report *ret_report);

/* If the guard has reported that no process is left, kills it without waiting for its end, and
 * returns true. Call guard_end_all later. */
bool guard_dismiss(struct guard *guard);

/* Ends the guard. If it was ordered to start the command, and has not reported that no process is
 * left, also kills descendants until this process has no children other than those that it had
 * before the guard. False if some of them did not end. */
bool guard_end_all(struct guard *guard, struct env *env);

/* The main function of the guard. It ends when the command and all its descendants have ended. */
_Noreturn void guard_process(struct env *env, int socket, const struct guard_command *command);

#endif
