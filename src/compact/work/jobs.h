/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h: the outcomes of the last hour's jobs, for display, in
 * metadata/<partition>/compaction-jobs.json. No operation depends on this document: if a record
 * cannot be written, only that record is lost. Running jobs are in the lease table. */
#ifndef COMPACT_WORK_JOBS_H
#define COMPACT_WORK_JOBS_H

#include "compact/work/job.h"

#define JOBS_KEPT_MAX 500
#define JOBS_KEPT_FOR SPAN_S(3600)

struct job_record {
    struct view id; /* the key of the output */
    struct view worker;
    struct view end; /* hf_compact_end_name */
    struct view why;
    unsigned level;
    uint64_t sources, bytes_in, bytes_out, rows_in, rows_out, rows_superseded, rows_expired,
        rows_rejected, rows_deleted;
    int64_t took_ms;
    struct stamp ended;
    struct wall_time ended_at; /* for display */
};

/* Adds a record. Drops records older than an hour, and the oldest record if there are too many.
 * Tries only for a short time. */
enum hf_status jobs_note(struct catalog_tree *tree, const struct job_record *record,
                         struct hf_error *error);

/* All records, oldest first, stored in `arena`. */
enum hf_status jobs_read(struct catalog_tree *tree, struct arena *arena,
                         struct job_record **ret_records, size_t *ret_count,
                         struct hf_error *error);

#endif
