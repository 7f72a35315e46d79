/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: declarations that the parts of `holdfast run` and `holdfast elect run` share. run.c reads
 * the options of `run` and implements the whole sequence; wait.c acquires the lock; watch.c
 * supervises the command; elect/run.c adds the election. */
#ifndef CLI_RUN_RUN_H
#define CLI_RUN_RUN_H

#include "cli/cli.h"
#include "cli/run/guard.h"

#include <stdatomic.h>
#include <sys/signalfd.h>

struct candidate;
struct outer_lease;
struct outer_runs;

struct run {
    struct cli *cli;
    int64_t wait_ms;
    bool once_per;               /* success is recorded in the store */
    struct candidate *candidate; /* for `elect run`, which first waits for its turn; or NULL */
    struct outer_runs *outer;    /* the runs around this one, whose lease it may use; or NULL */
    const struct outer_lease *inherited; /* the lease of one of them that covers the lock */
    const char *scope;
    struct span ttl;
    struct hf_lock *lock;
    struct guard guard;
    sigset_t mask_before; /* the signal mask when the program started */
    int signals;          /* a signalfd for the signals that we watch */
    int notify;           /* an eventfd with which other threads wake the main thread */
    atomic_int news;      /* the last event from the keeper, plus one; 0: no new event */
    atomic_bool stopping; /* a signal ended the wait */
};

/* Reads the next signal that arrived; false if there is none. */
bool run_next_signal(struct run *run, struct signalfd_siginfo *ret_signal);

/* run_ring wakes the main thread, and may be called by any thread. run_hush resets the eventfd. */
void run_ring(struct run *run);
void run_hush(struct run *run);

/* Opens the store and creates the lock handle, which the caller frees. */
enum hf_status run_open_lock(struct run *run, const struct hf_lock_options *options);

/* Like run_open_lock, but also acquires the lock. OK if the lock is held, or if the lease of an
 * outer run covers it (run->inherited). After a signal, the
 * status is CANCELLED, *ret_signal is the signal number, and no lock is held. */
enum hf_status run_wait(struct run *run, const struct hf_lock_options *options,
                        int *ret_signal);

/* How the command ended. */
struct run_end {
    bool overdue;    /* ended because the lease was lost or could not be renewed */
    bool all_dead;   /* the command and all its descendants have ended */
    int not_started; /* the errno of exec, or 0 */
    bool exited;
    int wait_status; /* set if the command exited */
};

/* Orders the guard to start the command, and returns when none of the command's processes is
 * left. */
void run_watch(struct run *run, struct run_end *ret_end);

/* The callback for events from the keeper; `argument` is the run. */
void run_notify(void *argument, struct hf_lock *lock, enum hf_lock_event event);

/* Performs the whole sequence with the lock that `options` describes: waits for the lock, runs the
 * command, and releases the lock. The caller sets the members of *run up to `candidate`. */
enum hf_status run_through(struct run *run, struct hf_lock_options *options);

/* The interval between heartbeats: --beat, or the default. */
int64_t elect_beat_ms(struct cli *cli);

/* Joins the group and waits for this member's turn on the ladder, for at most --wait; *ret_left_ms
 * is the time left. From then on, a background task sends the heartbeats. CANCELLED if `run` is
 * stopping. */
enum hf_status candidate_wait_turn(struct candidate *candidate, struct run *run,
                                   int64_t *ret_left_ms, struct hf_error *error);

#endif
