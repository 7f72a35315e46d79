/* worker.h: a worker: plans, elects, and runs jobs beside each other; tends what is left. Any
 * number of them, in any number of processes, on any machines. */
#ifndef COMPACT_WORKER_H
#define COMPACT_WORKER_H

#include "compact/job.h"
#include "compact/tend.h"
#include "elect/roster.h"

#define WORKER_JOBS_MAX 64

enum worker_mode {
    WORKER_ONCE,  /* one plan, all its groups, then done */
    WORKER_DRAIN, /* until nothing is to be done any more, what others are at included */
    WORKER_WATCH, /* until stopped */
};

/* What happens, told as it does, by any task of the worker, one at a time. */
enum worker_event {
    WORKER_PLANNED,  /* totals are new; told when they are not those of the last plan */
    WORKER_STARTED,  /* a job that has its lease: its merge begins */
    WORKER_PROGRESS, /* of all jobs */
    WORKER_ENDED,    /* a job: report; not told of one that had nothing to do or no lease */
    WORKER_TENDED,   /* tend report */
    WORKER_PAUSED,   /* somebody paused compaction: why */
    WORKER_TROUBLE,  /* the store or a catalog cannot be used just now: why; it goes on */
};

struct worker_totals {
    uint64_t groups_planned, bytes_planned; /* as of now: what is due and what is under way */
    uint64_t groups_committed, groups_failed, groups_lost;
    uint64_t bytes_done; /* of the sources of committed jobs, and of those under way so far */
    uint64_t bytes_in_vain;
    uint64_t rows_in, rows_out, rows_superseded, rows_expired, rows_rejected;
    uint64_t claims;      /* leases granted */
    uint64_t claims_held; /* refused since somebody else was first */
    uint64_t takeovers;   /* outputs of dead workers settled */
    struct tend_report tended;
};

struct worker_notice {
    enum worker_event event;
    const struct order *order;       /* of started, ended */
    const struct job_report *report; /* of ended */
    const struct worker_totals *totals;
    const char *why;
};

struct worker_options {
    enum worker_mode mode;
    size_t jobs;         /* at most so many at once */
    size_t memory_bytes; /* of all jobs together */
    /* Everything that can be merged, at once, driven by us: no threshold, no guard, no ladder. */
    bool force;
    struct span poll;        /* when there is nothing to do; zero: by the kind of store */
    struct span beat;        /* of the roster; zero: 10 s */
    struct view fingerprint; /* empty: drawn */
    struct view label;
    void (*tell)(void *argument, const struct worker_notice *notice);
    void *argument;
};

struct worker;

/* Runs until done or stopped. OK when all that was to be done was done; else the first error
 * that made it give up (WORKER_ONCE and WORKER_DRAIN: groups that failed do not; totals tell
 * of them). */
enum hf_status worker_new(struct shelf *shelf, struct forge *forge,
                          const struct worker_options *options, struct worker **ret_worker,
                          struct hf_error *error);
enum hf_status worker_run(struct worker *worker, struct worker_totals *ret_totals,
                          struct hf_error *error);

/* The requests of a WORKER_ONCE that merges so many groups of so many sources in all, one job at a
 * time, with nobody else there, nothing to tend and no row rejected, in a partition that was never
 * split and whose lease table has been used before:
 *   by the run    roster: put, list, delete; pause; lease table and catalog to plan; the same to
 *                 tend; the first read of the jobs document, if there is a job
 *   by a group    catalog, lease, what the dead have left, catalog (the guard), output, commit,
 *                 complete, jobs document
 *   by a source   get */
uint64_t worker_requests(size_t groups, size_t sources);

/* From any task, or a signal handler: jobs under way are cancelled in order, their leases
 * given back, the roster left. */
void worker_stop(struct worker *worker);
void worker_free(struct worker *worker);

#endif
