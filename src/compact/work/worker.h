/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h: a worker plans, elects, runs jobs in parallel, and maintains the partition. There can
 * be any number of workers, in any number of processes and on any number of machines. */
#ifndef COMPACT_WORK_WORKER_H
#define COMPACT_WORK_WORKER_H

#include "compact/care/maintain.h"
#include "compact/work/inbox.h"
#include "compact/work/job.h"
#include "elect/roster.h"

/* An event. Any task of the worker may report it, when it happens, but only one at a time. */
struct worker_notice {
    enum hf_compact_event_kind event;
    const struct order *order;       /* for started and ended */
    const struct job_report *report; /* for ended */
    const struct hf_compact_totals *totals;
    const char *why;
};

struct worker_options {
    enum hf_compact_mode mode;
    size_t jobs;         /* maximum number of concurrent jobs */
    size_t memory_bytes; /* for all jobs together */
    /* Merges everything that can be merged, immediately: without thresholds, guard or ladder. */
    bool force;
    struct span poll;        /* interval when idle; zero: depends on the kind of store */
    struct span beat;        /* the roster's heartbeat interval; zero: 10 s */
    struct view fingerprint; /* empty: a random one */
    struct view label;
    /* HF_COMPACT_WATCH: a prefix whose objects the worker adopts (inbox.h); empty: none. */
    struct view inbox;
    const char *inbox_scratch; /* a folder that holds at most one object at a time */
    /* As in adopt_options, with `argument` as its argument; may be NULL. */
    bool (*inbox_describe)(void *argument, struct view key, struct adopt_facts *ret_facts);
    void (*tell)(void *argument, const struct worker_notice *notice);
    void *argument;
};

struct worker;

/* worker_run runs until all work is done or the worker is stopped. It returns OK, or the first
 * error that made it give up. With HF_COMPACT_ONCE and HF_COMPACT_DRAIN a failed group is not such
 * an error; the totals count failed groups. */
enum hf_status worker_new(struct catalog_tree *tree, struct merger *merger,
                          const struct worker_options *options, struct worker **ret_worker,
                          struct hf_error *error);
enum hf_status worker_run(struct worker *worker, struct hf_compact_totals *ret_totals,
                          struct hf_error *error);

/* The number of requests that an HF_COMPACT_ONCE run sends if it merges this many groups with this
 * many sources in total. Assumes one job at a time, a run that takes less than one heartbeat
 * interval, no other worker, nothing to maintain, no rejected rows, a partition that was never
 * split, and a lease table that was used before:
 *   per run       roster: put, list, delete; pause; lease table and catalog to plan; the same to
 *                 maintain; the first read of the jobs document, if there is a job
 *   per group     catalog, leases of dead workers, catalog (the guard), output, commit, jobs
 *                 document
 *   leases        acquire the first; complete it and acquire the next four; and so on. Groups that
 *                 are not small are acquired one by one
 *   per source    get */
uint64_t worker_requests(size_t groups, size_t sources);

/* May be called by any task or a signal handler. Running jobs are cancelled, their leases
 * released, and the worker leaves the roster. */
void worker_stop(struct worker *worker);
void worker_free(struct worker *worker);

#endif
