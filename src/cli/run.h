/* run.h: `holdfast run` and `holdfast elect run`: what their parts share. run.c has the options of
 * the first and the course from start to end, run_wait.c how it comes to hold the lock, run_watch.c
 * how it sees its command through; elect_run.c what the second adds. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "cli/guard.h"

#include <stdatomic.h>
#include <sys/signalfd.h>

struct candidate;

struct run {
    struct cli *cli;
    int64_t wait_ms;
    bool once_per;               /* success is kept in the store */
    struct candidate *candidate; /* of elect run, which waits for its turn first; or NULL */
    const char *scope;
    struct span ttl;
    struct hf_client *client;
    struct hf_lock *lock;
    struct guard guard;
    sigset_t mask_before; /* the signals that were blocked when we started */
    int signals;          /* a signalfd of those that we watch instead */
    int bell;             /* an eventfd that our own threads ring */
    atomic_int news;      /* the last event that the keeper told, and one; 0: none since */
    atomic_bool stopping; /* a signal ended the wait */
};

/* The next signal that came, if one did. */
bool run_next_signal(struct run *run, struct signalfd_siginfo *ret_signal);

/* Wakes whoever waits on the bell; for any thread. And empties it. */
void run_ring(struct run *run);
void run_hush(struct run *run);

/* Opens the store and makes the handle of the lock, which the caller frees. */
enum hf_status run_open_lock(struct run *run, const struct hf_lock_options *options);

/* Does that, and acquires the lock. OK when held. When a signal said to stop, *ret_signal is its
 * number, nothing is held, and the status is CANCELLED. */
enum hf_status run_wait(struct run *run, const struct hf_lock_options *options,
                        int *ret_signal);

/* What came of the command. */
struct run_end {
    bool overdue;    /* it was ended because the lease could not be kept, or was lost */
    bool all_dead;   /* nothing is left of it */
    int not_started; /* the errno, or 0 */
    bool exited;
    int wait_status; /* when it exited */
};

/* Has the guard start the command, and stays until nothing is left of it. */
void run_watch(struct run *run, struct run_end *ret_end);

/* What the keeper calls; `argument` is the run. */
void run_notify(void *argument, struct hf_lock *lock, enum hf_lock_event event);

/* The whole course, with the lock that `options` describe: waits, runs the command, releases. The
 * members up to `candidate` are given; all others come and go with it. */
enum hf_status run_through(struct run *run, struct hf_lock_options *options);

enum hf_status run_run(struct cli *cli);

/* ---- elect run ----------------------------------------------------------------------- */

/* Joins the group and waits for this member's turn on the ladder. From then on a background task
 * sends its heartbeats. CANCELLED once `run` is stopping. Takes --wait at most, and tells what is
 * left of it. */
enum hf_status candidate_wait_turn(struct candidate *candidate, struct run *run,
                                   int64_t *ret_left_ms, struct hf_error *error);

#endif
