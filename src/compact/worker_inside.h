/* worker_inside.h: what a worker is made of, for its files.
 *
 * worker.c       its life: the loop, pausing, tending, stopping worker_plan.c  what there is
 * to do: leases, catalogs, ranks; a list of candidates worker_jobs.c  doing it: tasks,
 * totals, telling
 *
 * One task, that of worker_run, plans, starts and joins; it alone touches what is not in
 * `shared`. Jobs and tending are tasks of their own and touch `shared`, with its mutex held. */
#ifndef COMPACT_WORKER_INSIDE_H
#define COMPACT_WORKER_INSIDE_H

#include "base/map.h"
#include "compact/worker.h"

#include <stdatomic.h>

/* Candidates that are kept of one plan; more are found by the next. A single run must do all. */
#define CANDIDATES_MAX      512
#define CANDIDATES_ONCE_MAX 65536

/* A group of which we know something: it failed, or is due and not our turn. */
struct known {
    uint64_t id; /* hash of its sources */
    struct mono_time first_seen;
    struct mono_time not_before;
    unsigned failures; /* in a row, that were nobody's fault */
    uint64_t round;    /* in which it was last planned */
    struct known *next;
};
#define KNOWN_MAX 65536

/* A group that may be merged, and when it is our turn. */
struct candidate {
    struct order *order;
    uint64_t id;
    size_t rank;
    struct span step;
    struct span age; /* since it became due, when it was planned */
    struct mono_time planned;
    struct mono_time first_seen;
};

/* A partition whose lease table is looked at before planning. */
struct home {
    char partition[PARTITION_BYTES_MAX + 1];
    bool barred; /* it grants nothing just now */
    struct home *next;
};

/* A job under way. */
struct runner {
    struct worker *worker;
    struct order *order; /* NULL: free */
    uint64_t id;
    struct env_task *task;
    struct job_report report;
    struct mono_time told; /* of its own task: when progress was told */
    bool started;          /* of its own task: that was told */
    uint64_t done, total;  /* shared */
    bool ended;            /* shared */
};

struct worker {
    struct shelf *shelf;
    struct forge *forge;
    struct worker_options options;
    struct span poll;
    atomic_bool stopping;

    struct roster roster;
    bool joined;

    struct home *homes;
    struct map known; /* by id */
    struct known *known_first;
    size_t known_count;
    uint64_t round;
    struct candidate *candidates; /* our turn first */
    size_t candidate_count, candidate_room;
    size_t pending;            /* groups that are due, candidates or not */
    bool others_at_work;       /* somebody else has leases on chunks of ours */
    bool barred;               /* some lease table grants nothing, and will not for long */
    bool planned;              /* once at least */
    struct worker_totals told; /* with the last plan */
    bool told_plan;
    bool stale;               /* the plan is to be made anew as soon as may be */
    struct mono_time plan_at; /* else then */
    unsigned plan_failures;   /* in a row */
    struct mono_time failing; /* since the first of these began */
    struct mono_time tend_at;
    struct env_task *tend_task;
    bool paused;
    struct hf_error result; /* the first error that made it give up, or that is left */
    struct hf_error last_trouble;
    struct mono_time trouble_told;

    struct env_mutex telling; /* one at a time; taken before shared.mutex */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        struct worker_totals totals;
        struct runner runners[WORKER_JOBS_MAX];
        size_t running;
        bool tend_ended;
        struct hf_error tend_error;
    } shared;
};

static inline bool worker_stops(const struct worker *worker)
{
    return atomic_load_explicit(&worker->stopping, memory_order_relaxed);
}

/* ---- worker_plan.c ------------------------------------------------------------------- */

/* Makes the list of candidates anew: one look at each lease table and each catalog. An error of
 * one catalog leaves the candidates of the rest. */
enum hf_status worker_plan(struct worker *worker, struct hf_error *error);
void worker_drop_candidates(struct worker *worker);
void worker_plan_release(struct worker *worker);

/* What is remembered of a group; NULL when there is no room. */
struct known *worker_known(struct worker *worker, uint64_t id, struct mono_time now);

/* When the candidate may be started. */
bool candidate_is_ready(const struct worker *worker, const struct candidate *candidate,
                        struct mono_time now);

/* ---- worker_jobs.c ------------------------------------------------------------------- */

void worker_tell(struct worker *worker, enum worker_event event, const struct order *order,
                 const struct job_report *report, const char *why);

/* Tells of trouble, but not of the same again and again. */
void worker_tell_trouble(struct worker *worker, const struct hf_error *error);

/* Starts a job with the candidate's order, which it takes over. False when no task can be
 * started: then nothing is taken. */
bool worker_start(struct worker *worker, const struct candidate *candidate);

/* Joins the jobs that have ended, and learns from them. */
void worker_collect(struct worker *worker);

/* Jobs that are under way. */
size_t worker_running(struct worker *worker);

/* Starts tending beside the jobs unless that is under way; joins it when it has ended. */
void worker_start_tending(struct worker *worker);
void worker_end_tending(struct worker *worker, bool wait);
enum hf_status worker_tend(struct worker *worker, struct hf_error *error);

#endif
