/* SPDX-License-Identifier: Apache-2.0 */
/* job.h: one merge, from lease to commit. Regardless of which step fails, the merge is committed
 * once or not at all.
 *
 *     lease(sources, output) -> settle -> guard -> begin -> merger -> check lease -> commit ->
 *         complete
 *
 * A worker with more work claims its next group in the write that completes the lease of the last
 * one, so that a group costs one write of the lease table and not two. If its groups are small, it
 * claims several of them, and completes their leases together. Such a claim is a lease like any
 * other: the job that it belongs to settles and guards it before it begins.
 *
 * A test (plan.h) ends after the merger: it puts nothing, and one swap resets the tries of the
 * chunk. Its lease names an output all the same, so that a test that kills its worker is settled
 * and counted like any other job.
 *
 * A large group is divided first: the job leases the sources, asks the merger for ranges, and adds
 * the record of the divided merge to the catalog. If the merger cannot divide it, the job goes on
 * as usual. A range job leases only its range, and its commit enters the range; the last one
 * commits the merge. Whether deletion markers are dropped is decided when the merge is divided, as
 * it is decided for other merges when they begin.
 *
 * A worker may die after any step; other clients settle its lease (maintain.h). The commit is one
 * swap of the catalog, which alone makes the merge happen exactly once. The lease only saves
 * work. */
#ifndef COMPACT_WORK_JOB_H
#define COMPACT_WORK_JOB_H

#include "compact/catalog/catalog_tree.h"
#include "compact/plan/plan.h"
#include "compact/work/merger.h"

/* A copy of a planned group, with its own memory. */
struct order {
    struct catalog_ref *ref;
    unsigned level;
    bool forced;
    bool test, large, drops; /* see plan.h */
    /* A range of a divided merge; an empty id: the whole group. */
    char merge_id[MERGE_ID_DIGITS + 1];
    size_t range, range_count;
    struct view lease_name;   /* of the range */
    struct merge_parts parts; /* without ret_crcs; views into `arena` */
    struct chunk *sources;    /* views into `arena` */
    size_t count;
    uint64_t bytes, rows;
    struct stamp due;
    struct arena arena;
};
enum hf_status order_copy(struct catalog_ref *ref, const struct plan_group *group,
                          struct order **ret_order, struct hf_error *error);
void order_free(struct order *order);

/* The times of its records. Sources without records do not count, unless there are no others. */
void order_source_times(const struct order *order, int64_t *ret_min_ms, int64_t *ret_max_ms);

/* How many groups a job claims at most, and how many leases it completes, in one write. */
#define JOB_CLAIMS_MAX 4

/* A lease that was acquired for a job that has not begun. */
struct job_claim {
    struct hf_lock *lock; /* NULL: none */
    char output[KEY_BYTES_MAX + 1];
    struct mono_time drawn; /* when the name of the output was drawn ... */
    int64_t late_bound_ms;  /* ... and D, as it was read before */
};

struct job_report {
    enum hf_compact_end end;
    struct hf_error error;
    struct merge_product product;
    char output[KEY_BYTES_MAX + 1];
    uint64_t bytes_merged; /* read from the store, even if the job failed */
    enum hf_compact_blame blame;
    /* How many leases of dead workers on these chunks this job has settled. */
    uint64_t took_over;
    struct span took;
    /* The commit was refused because the merge had dropped deletion markers that must be kept. */
    bool needs_markers;
    /* For each group that options.next gave: how the attempt to claim it ended. OK: the claim
     * belongs to the caller, which must run that job. */
    enum hf_status next_status[JOB_CLAIMS_MAX];
    struct job_claim claims[JOB_CLAIMS_MAX];
    /* With options.leaves_lease: leases of finished jobs, which a later job must complete. */
    struct hf_lock *done[JOB_CLAIMS_MAX];
    size_t done_count;
};

struct job_options {
    size_t memory_bytes;
    /* May be NULL. Reports progress; returning false stops the job. Called by the job's own
     * task. */
    bool (*go_on)(void *argument, uint64_t done, uint64_t total);
    void *argument;
    bool keep_markers; /* drop no deletion markers, even if that seems possible */
    bool keep_record;  /* record the outcome in the jobs document (jobs.h) */
    /* May be NULL. The lease that another job has claimed for this one, which takes it over. */
    const struct job_claim *claim;
    /* May be NULL. Called when the lease is about to be completed: returns how many groups are to
     * be claimed in the same write. The orders must live as long as the job. */
    size_t (*next)(void *argument, const struct order *ret_orders[JOB_CLAIMS_MAX]);
    /* Leases that earlier jobs have left, which this job completes with its own. */
    struct hf_lock *const *done;
    size_t done_count;
    /* If the job does its work, it leaves these leases and its own to the next one: report.done. */
    bool leaves_lease;
};

/* Runs one job to completion in this task. */
void job_run(struct catalog_tree *tree, struct merger *merger, const struct order *order,
             const struct job_options *options, struct job_report *ret_report);

#endif
