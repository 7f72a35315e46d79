/* job.h: one group from lease to commit, exactly once whatever happens on the way.
 *
 *     lease(sources, output) -> settle -> guard -> forge -> check lease -> commit ->
 *         complete
 *
 * Each step may be the last: what it leaves is settled by somebody else (tend.h). The commit
 * is one swap of the catalog and alone makes it exactly-once; the lease only saves work. */
#ifndef COMPACT_JOB_H
#define COMPACT_JOB_H

#include "compact/forge.h"
#include "compact/plan.h"
#include "compact/shelf.h"

/* A group of a plan, in memory of its own. */
struct order {
    struct slot *slot;
    unsigned level;
    bool forced;
    struct chunk *sources; /* views into `arena` */
    size_t count;
    uint64_t bytes, rows;
    struct stamp due;
    struct arena arena;
};
enum hf_status order_copy(struct slot *slot, const struct plan_group *group,
                          struct order **ret_order, struct hf_error *error);
void order_free(struct order *order);

/* How a job ended. */
enum job_end {
    JOB_COMMITTED,
    JOB_HELD,    /* somebody else has the lease: nothing was done */
    JOB_PASSED,  /* the guard found that it is not to be done any more */
    JOB_LOST,    /* somebody else's commit came first, or the sources moved: merged in vain */
    JOB_FAILED,  /* `error` says why; it was counted against a chunk, the group or nobody */
    JOB_STOPPED, /* the worker was told to stop */
    JOB_UNSURE,  /* the store does not answer: whoever settles the lease will find out */
};
const char *job_end_name(enum job_end end);

struct job_report {
    enum job_end end;
    struct hf_error error;
    struct forge_product product;
    char output[KEY_BYTES_MAX + 1];
    uint64_t bytes_merged; /* read from the store, in vain or not */
    enum blame blame;
    /* Outputs of leases that had died on these chunks and were settled on the way. */
    uint64_t took_over;
    struct span took;
};

struct job_options {
    size_t memory_bytes;
    /* May be NULL. Progress of the merge; false stops the job. Called by the task that runs it. */
    bool (*go_on)(void *argument, uint64_t done, uint64_t total);
    void *argument;
    bool keep_record; /* write the end into the jobs document (jobs.h) */
};

/* Runs one, to its end, in this task. */
void job_run(struct shelf *shelf, struct forge *forge, const struct order *order,
             const struct job_options *options, struct job_report *ret_report);

#endif
