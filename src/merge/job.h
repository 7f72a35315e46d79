/* job.h: one merge while it is under way: what its passes share. */
#ifndef MERGE_JOB_H
#define MERGE_JOB_H

#include "env/env.h"
#include "merge/sink.h"
#include "merge/source.h"

struct job {
    struct env *env;
    const struct merge_options *options;
    const char *output;
    const char *scratch_folder;
    size_t record_bytes_max;
    struct cutter cutter; /* how the inputs are cut; its fields are resolved */
    struct view header;   /* that all inputs have; data NULL: the format has none */
    bool latest_wins;
    struct budget budget;
    size_t group;        /* inputs that are merged at once, at most */
    size_t sort_reserve; /* of the budget: what sorting leaves for reading */
    bool rejecting;      /* the reject file is open */
    struct sink rejects;
    struct merge_result result;
    uint64_t bytes_done; /* for progress */
    uint64_t bytes_total;
    uint64_t bytes_told;
};

/* A row that cannot be merged goes to the reject file; INVALID when there are too many. */
enum hf_status job_reject(struct job *job, const struct source *source,
                          const struct batch *batch, const struct row *row,
                          struct hf_error *error);

/* Bytes were read; CANCELLED when somebody wants us to stop. */
enum hf_status job_progress(struct job *job, uint64_t bytes, struct hf_error *error);

/* Both files get their names, or neither does. The sink is released by the caller. */
enum hf_status job_keep(struct job *job, struct sink *output, struct hf_error *error);

/* Merges inputs that are made of records. */
enum hf_status records_merge(struct job *job, struct feed *feeds, size_t count,
                             struct hf_error *error);

/* Whether a row with this time and record is to be kept rather than the other. */
static inline bool job_is_later(struct instant time, struct view record,
                                struct instant other_time, struct view other)
{
    int order = instant_compare(time, other_time);
    return order > 0 || (order == 0 && view_compare(record, other) > 0);
}

/* Why a pass failed that may go well in another way. */
struct pass_end {
    bool unsorted; /* an input is not in order */
    bool too_wide; /* the budget is too small for that many inputs at once */
};

/* Merges the feeds, all at once, into `to`, which is a run if `as_run`. */
enum hf_status pass_run(struct job *job, const struct feed *feeds, size_t count,
                        struct sink *to, bool as_run, struct pass_end *ret_end,
                        struct hf_error *error);

#endif
