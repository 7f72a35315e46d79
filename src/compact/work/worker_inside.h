/* SPDX-License-Identifier: Apache-2.0 */
/* worker_inside.h: what the files of a worker share.
 *
 *   worker.c       the main loop: pausing, maintenance, stopping
 *   worker_plan.c  what to do: leases, catalogs, ranks; a list of candidates
 *   worker_jobs.c  doing it: tasks, totals, reports
 *   worker_inbox.c adopting what writers put into an inbox
 *
 * The task that calls worker_run plans, starts jobs and joins them. Only that task uses the members
 * outside `shared`. Jobs and maintenance run in their own tasks and use `shared` under its
 * mutex. */
#ifndef COMPACT_WORK_WORKER_INSIDE_H
#define COMPACT_WORK_WORKER_INSIDE_H

#include "base/map.h"
#include "compact/work/worker.h"

#include <stdatomic.h>

/* How many candidates of one plan are kept; the next plan finds more. A single run makes only one
 * plan, so it keeps more of them. */
#define CANDIDATES_MAX      512
#define CANDIDATES_ONCE_MAX 65536

/* A group that is remembered because it has failed, or because it is due but it is not our turn
 * yet. */
struct known_group {
    uint64_t id; /* hash of its sources */
    struct mono_time first_seen;
    struct mono_time not_before;
    unsigned failures; /* consecutive, with no chunk to blame */
    uint64_t round;    /* in which it was last planned */
    struct known_group *next;
};
#define KNOWN_MAX 65536

/* A group that may be merged, and when it is our turn. */
struct candidate {
    struct order *order;
    uint64_t id;
    size_t rank;
    struct span step;
    struct span age; /* since it became due, at planning time */
    struct mono_time planned;
    struct mono_time first_seen;
};

/* A group that was claimed, and whose job has not begun. */
struct claimed {
    struct candidate candidate;
    struct job_claim claim;
};

/* What a job does besides its merge. */
struct batch {
    /* Groups to claim when the job completes its lease, if it does so before the next plan is due.
     * Several only if all of them are small: others cannot merge them meanwhile. */
    struct candidate next[JOB_CLAIMS_MAX];
    size_t next_count;
    /* Groups that are claimed already. Their jobs follow this one, and the last of them completes
     * the leases of all. */
    struct claimed waiting[JOB_CLAIMS_MAX];
    size_t waiting_count;
    struct hf_lock *done[JOB_CLAIMS_MAX]; /* leases of jobs before this one, to be completed */
    size_t done_count;
};

/* A partition whose lease table is read before planning. */
struct home {
    char partition[PARTITION_BYTES_MAX + 1];
    bool barred; /* its table grants nothing now */
    struct home *next;
};

/* A running job. */
struct runner {
    struct worker *worker;
    struct order *order; /* NULL: free */
    uint64_t id;
    struct env_task *task;
    bool keep_markers;
    struct job_claim claim; /* the lease that an earlier job has claimed for this one */
    struct job_report report;
    struct mono_time reported; /* own task only: when progress was reported */
    bool started;              /* own task only: whether its start was reported */
    uint64_t done, total;      /* shared */
    bool ended;                /* shared */
    /* Shared. Once the next groups are taken, they belong to the job until it is joined. */
    struct batch batch;
    struct mono_time next_until;
    bool next_taken;
};

struct worker {
    struct catalog_tree *tree;
    struct merger *merger;
    struct worker_options options;
    struct span poll;
    atomic_bool stopping;

    struct roster roster;
    bool joined;

    struct home *homes;
    struct map known; /* by id */
    struct known_group *known_first;
    size_t known_count;
    uint64_t round;
    struct candidate *candidates; /* those with the lowest rank first */
    size_t candidate_count, candidate_room;
    size_t pending;      /* due groups, candidates or not */
    bool others_at_work; /* another worker has leased chunks of this partition */
    bool barred;         /* some lease table grants nothing, and will not for a long time */
    bool planned;        /* at least once */
    bool only_ranges;    /* a single run plans again, but only the ranges that it has made */
    bool keep_markers;   /* the last merge that dropped deletion markers was refused */
    struct hf_compact_totals reported; /* as reported with the last plan */
    bool plan_reported;
    bool stale;               /* plan again as soon as possible */
    struct mono_time plan_at; /* otherwise plan at this time */
    unsigned plan_failures;   /* consecutive */
    struct mono_time failing; /* since the first of these failures */
    struct mono_time maintain_at;
    struct env_task *maintain_task;
    struct inbox *inbox; /* NULL: none; only its task uses it */
    struct mono_time inbox_at;
    struct env_task *inbox_task;
    bool paused;
    struct hf_error result; /* the first error that made it give up, or that remains */
    struct hf_error last_trouble;
    struct mono_time trouble_reported;

    struct env_mutex reporting; /* serialises reports; taken before shared.mutex */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        struct hf_compact_totals totals;
        struct runner runners[HF_COMPACT_JOBS_MAX];
        size_t running;
        bool maintain_ended;
        struct hf_error maintain_error;
        bool inbox_ended, inbox_added;
        struct hf_error inbox_error;
    } shared;
};

static inline bool worker_stops(const struct worker *worker)
{
    return atomic_load_explicit(&worker->stopping, memory_order_relaxed);
}

/* ---- worker_plan.c ------------------------------------------------------------------- */

/* Makes a new list of candidates, with one read of each lease table and each catalog. If a catalog
 * cannot be read, the list contains the candidates of the others. */
enum hf_status worker_plan(struct worker *worker, struct hf_error *error);
void worker_drop_candidates(struct worker *worker);
void worker_plan_release(struct worker *worker);

/* What is remembered about a group; NULL if out of memory. */
struct known_group *worker_known(struct worker *worker, uint64_t id, struct mono_time now);

/* Adds a candidate, before the others. Frees its order if out of memory; the next plan finds the
 * group again. */
void worker_put_back(struct worker *worker, const struct candidate *candidate);

/* Whether the candidate may be started now. */
bool candidate_is_ready(const struct worker *worker, const struct candidate *candidate,
                        struct mono_time now);

/* ---- worker_jobs.c ------------------------------------------------------------------- */

void worker_report(struct worker *worker, enum hf_compact_event_kind event,
                   const struct order *order, const struct job_report *report, const char *why);

/* Reports a problem, but does not keep repeating the same problem. */
void worker_report_trouble(struct worker *worker, const struct hf_error *error);

/* Starts a job, and the rest of its batch after it. Takes ownership of all orders. False if no task
 * can be started; the caller then still owns them. */
bool worker_start(struct worker *worker, const struct candidate *candidate,
                  const struct batch *batch);

/* Moves up to `most` of the first candidates whose turn has come to the groups that a job claims
 * next: one, or several small ones. */
void worker_take_next(struct worker *worker, size_t most, struct batch *batch);

/* Whether jobs may claim groups of the last plan: not if a new plan is due, which may show that the
 * partition is paused. */
bool worker_offers_next(const struct worker *worker);

/* Makes all groups candidates again that running jobs were to claim and have not taken. */
void worker_take_back(struct worker *worker);

/* Joins finished jobs, and uses their outcomes to decide when their groups may be tried again. */
void worker_collect(struct worker *worker);

/* The number of running jobs. */
size_t worker_running(struct worker *worker);

/* Maintenance as a task of its own, alongside the jobs: starts it, and joins it once it has ended
 * or, with `wait`, waits for its end. worker_maintain runs it in the calling task. */
void worker_start_maintaining(struct worker *worker);
void worker_end_maintaining(struct worker *worker, bool wait);
enum hf_status worker_maintain(struct worker *worker, struct hf_error *error);

/* ---- worker_inbox.c ------------------------------------------------------------------ */

/* Starts a scan of the inbox as a task of its own, if it is time; joins one that has ended or, with
 * `wait`, waits for its end. */
enum hf_status worker_open_inbox(struct worker *worker, struct hf_error *error);
void worker_scan_inbox(struct worker *worker);
void worker_end_inbox(struct worker *worker, bool wait);

#endif
