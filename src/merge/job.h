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
    bool without_spares; /* nothing is read ahead: that takes a second batch of each input */
    size_t sort_reserve; /* of the budget: what sorting leaves for reading */
    bool rejecting;      /* the reject file is open */
    bool refused;        /* for the number of rows that were rejected */
    struct sink rejects;
    struct merge_result result;
    uint64_t bytes_done; /* for progress */
    uint64_t bytes_total;
    uint64_t bytes_told;
    unsigned steps_untold;
};

static inline bool job_has_records(enum merge_format format)
{
    return format != MERGE_CONCAT && format != MERGE_EXEC;
}

/* INVALID when memory, the longest record or the fields are out of range. */
enum hf_status job_check(const struct merge_options *options, struct hf_error *error);

/* What follows from the options, once they are checked. There is nothing to release. */
void job_init(struct job *job, struct env *env, const struct merge_options *options);

/* A row that cannot be merged goes to the reject file. INVALID when there are far too many, and for
 * a time without a zone. */
enum hf_status job_reject(struct job *job, const struct source *source,
                          const struct batch *batch, const struct row *row,
                          struct hf_error *error);

/* Bytes were read; CANCELLED when somebody wants us to stop. */
enum hf_status job_progress(struct job *job, uint64_t bytes, struct hf_error *error);

/* Reads an input from start to end, batch by batch. */
struct scan_end {
    uint64_t rows;
    bool too_wide;
};
typedef enum hf_status job_use(void *context, const struct source *source,
                               const struct batch *batch, struct hf_error *error);
enum hf_status job_scan(struct job *job, const struct feed *feed, const struct cutter *cutter,
                        job_use *use, void *context, struct scan_end *ret_end,
                        struct hf_error *error);

/* The same without records: just its bytes, decompressed. */
typedef enum hf_status job_use_bytes(void *context, struct view bytes, struct hf_error *error);
enum hf_status job_read(struct job *job, const struct feed *feed, job_use_bytes *use,
                        void *context, struct hf_error *error);

enum job_file { JOB_OUTPUT, JOB_REJECTS };

/* Who is told what a file is called as long as it is not whole. */
struct file_watch job_watch(const struct job *job, enum job_file which);

/* Makes the output, or the reject file. */
enum hf_status job_create(struct job *job, enum job_file which, struct sink *ret_sink,
                          struct hf_error *error);
void job_release(struct job *job, enum job_file which, struct sink *sink);

/* Whether more rows are rejected than may be. */
static inline bool job_overrun(const struct job *job)
{
    return job->result.rows_rejected > job->options->rejects_max;
}

/* When it was refused for that: INVALID, and why. The reject file gets its name, unless the merge
 * is a step on the way. */
enum hf_status job_refuse(struct job *job, struct hf_error *error);

/* Both files get their names, or neither does (but see merge_files for what a folder may do). They
 * are released by the caller. */
enum hf_status job_keep(struct job *job, struct sink *output, struct hf_error *error);

/* How inputs that are made of records are cut: the fields, and the header that all have, kept in
 * `header`. */
enum hf_status records_prepare(struct job *job, const struct feed *feeds, size_t count,
                               struct buffer *header, struct hf_error *error);

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

/* Why something failed that may go well in another way. */
struct pass_end {
    bool unsorted;     /* an input is not in order */
    bool too_wide;     /* the budget is too small for that many inputs at once */
    bool sort_reading; /* the budget leaves too little for reading while it sorts */
};

/* How many runs are merged at once: as many as inputs, but two at least. */
static inline size_t job_width(const struct job *job)
{
    return job->group > 2 ? job->group : 2;
}

/* Merges the feeds, all at once, into `to`, which is a run if `as_run`. */
enum hf_status pass_run(struct job *job, const struct feed *feeds, size_t count,
                        struct sink *to, bool as_run, struct pass_end *ret_end,
                        struct hf_error *error);

#endif
