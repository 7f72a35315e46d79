/* jobs.h: what became of the jobs of the last hour, for people:
 * metadata/<partition>/compaction-jobs.json. Statistics, outside of the critical path: a
 * record that cannot be written is lost, and nothing else. What is under way stands in the
 * lease table. */
#ifndef COMPACT_JOBS_H
#define COMPACT_JOBS_H

#include "compact/job.h"

#define JOBS_KEPT_MAX 500
#define JOBS_KEPT_FOR SPAN_S(3600)

struct job_record {
    struct view id; /* of the output */
    struct view worker;
    struct view end; /* job_end_name */
    struct view why;
    unsigned level;
    uint64_t sources, bytes_in, bytes_out, rows_in, rows_out, rows_superseded, rows_expired,
        rows_rejected;
    int64_t took_ms;
    struct stamp ended;
    struct wall_time ended_at; /* for display */
};

/* Writes one, and drops those that are older than an hour or too many. Tries once. */
enum hf_status jobs_note(struct shelf *shelf, const struct job_record *record,
                         struct hf_error *error);

/* All that are kept, oldest first; `arena` keeps them. */
enum hf_status jobs_read(struct shelf *shelf, struct arena *arena,
                         struct job_record **ret_records, size_t *ret_count,
                         struct hf_error *error);

#endif
