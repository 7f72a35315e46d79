/* guard.h: the process that sees to it that the command of `holdfast run` is dead before
 * somebody else can hold its lock (docs/design.md section 6).
 *
 *     shell
 *       holdfast run        takes and renews the lease, passes on signals and the exit status
 *         guard             in a session of its own; knows the deadline; ends what must end
 *           command         in holdfast's process group, so that terminals see one job
 *             ...           whatever it starts
 *
 * The guard is forked before the store is opened, while the process has one thread and nothing
 * of its own, and waits for the word to start the command. From then on it holds a deadline
 * that holdfast moves on with each renewal. What ends the command, by TERM first and KILL a
 * little later:
 *
 *     holdfast is killed     its end of the socket closes: at once; then the lease is released
 *     holdfast is stopped    no new deadline comes: TERM and KILL in time before the last one;
 *                            then holdfast is woken, to tell how it ended
 *     the lease is lost      holdfast says so: at once
 *     the command has ended  what it left running has no lock any more: at once
 *     the guard is killed    the command by the kernel (PDEATHSIG); the rest become children
 *                            of holdfast, which kills them (guard_end_all)
 *
 * The guard goes before other processes of the machine where it may (SCHED_FIFO: root, or
 * CAP_SYS_NICE), so that a busy machine does not make it late; elsewhere it has the time between
 * KILL and the deadline: a tenth of the ttl, of a long one a second or a twentieth.
 *
 * "Ended" means every descendant, proved by having no child left (descendants.h). Only then
 * does the guard report it and holdfast release the lock. If holdfast is killed before it has
 * done so, the guard does: it becomes a fresh process that releases the lease, whose text it
 * finds on its stdin. When that fails the lease ends by itself, as it would have without. What
 * nobody can help: a guard that is stopped while holdfast is too, a machine that stands still, a
 * process that the guard may not signal. There only the token protects. */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include "env/env.h"

#include <signal.h>
#include <sys/types.h>

/* ---- When ---------------------------------------------------------------------------- */

struct guard_times {
    struct mono_time term_at;
    struct mono_time kill_at;
    struct span grace; /* between the two, also when holdfast or the command is gone */
};

/* For a lease of this ttl that is certainly ours until `deadline`: after KILL there is time
 * left for a busy machine to be done with it. */
struct guard_times guard_times_for(struct mono_time deadline, struct span ttl);

/* ---- holdfast's side ----------------------------------------------------------------- */

struct guard {
    pid_t pid;  /* 0: there is none */
    int socket; /* readable when there is a report, or the guard is dead */
    bool empty; /* it has reported that nothing is left */
};

struct guard_command {
    const char *const *words;  /* ends with NULL */
    const sigset_t *mask;      /* the signals it finds blocked */
    void (*before_exec)(void); /* what else it must find as we found it; may be NULL */

    /* What the guard becomes when holdfast is gone and nothing is left of the command: a program
     * (NULL: none) and its words, which end with NULL. It finds $HOLDFAST_LEASE of the command on
     * its stdin, and $HOLDFAST_STORE in its environment. */
    const char *releaser;
    const char *const *releaser_words;
    const char *const *success_words; /* instead, when the command exited with 0; may be NULL */
};

/* Forks the guard, and makes both a child subreaper. Call it with one thread and with all
 * signals blocked that are of interest. */
enum hf_status guard_start(struct guard *guard, struct env *env,
                           const struct guard_command *command, struct hf_error *error);

#define GUARD_VARIABLES_MAX 4

/* "NAME=value" to stand in the environment of the command. */
struct guard_variable {
    const char *name;
    const char *value;
};

/* Each of these is a message that is sent or, when the guard is dead or does not take messages
 * any more, lost: then what it knows goes on to count, which is earlier, or it is dead. */
void guard_go(struct guard *guard, const struct guard_times *times,
              const struct guard_variable *variables, size_t count);
void guard_move(struct guard *guard, const struct guard_times *times);
void guard_signal(struct guard *guard, int number);
void guard_end(struct guard *guard, struct span grace);

enum guard_report_kind {
    GUARD_STARTED,     /* value: the process id of the command */
    GUARD_NOT_STARTED, /* value: the errno of exec */
    GUARD_EXITED,      /* value: the wait status of the command */
    GUARD_OVERDUE,     /* the deadline is near, and it is being ended */
    GUARD_STUCK,       /* value: a process that does not go away, whatever we do */
    GUARD_NOTHING_LEFT,
    GUARD_DEAD, /* the guard itself, without having said that nothing is left */
};

struct guard_report {
    enum guard_report_kind kind;
    int value;
};

/* The next report, if there is one. */
bool guard_next(struct guard *guard, struct guard_report *ret_report);

/* Ends the guard, and if it had not reported that nothing is left then everything under it:
 * kills until this process has no child any more. False when some of them did not go away. */
bool guard_end_all(struct guard *guard, struct env *env);

#endif
