/* SPDX-License-Identifier: Apache-2.0 */
/* job.h: the state of one merge, shared by its passes. */
#ifndef MERGE_JOB_H
#define MERGE_JOB_H

#include "env/env.h"
#include "merge/sink.h"
#include "merge/source.h"
#include "merge/ties.h"

struct job {
    struct env *env;
    const struct merge_options *options;
    const char *output;
    const char *scratch_folder;
    size_t record_bytes_max;
    struct cutter asked;          /* how the inputs are cut; its fields are as given */
    struct cutter cutter;         /* the same, with the fields of the common header */
    char key_space[KEY_TEXT_MAX]; /* the names of key fields */
    struct view header;           /* of the output; data NULL: the format has none */
    bool headers_differ;          /* an input has another one than expected */
    bool latest_wins;
    struct ties ties; /* the order of records with equal keys, or equal keys and times */
    struct budget budget;
    size_t group;        /* maximum number of inputs merged at a time */
    bool without_spares; /* nothing is read ahead, which needs a second batch per input */
    size_t sort_reserve; /* part of the budget that sorting leaves for reading */
    bool rejecting;      /* the reject file is open */
    bool refused;        /* because too many rows were rejected */
    struct sink rejects;
    struct merge_result result;
    /* Progress. Each byte that is read takes an equal share of what is still to be shown, so what
     * is shown never falls, even if more work than expected turns out to be left. */
    uint64_t bytes_total; /* shown as the total; never changes once work has begun */
    double bytes_shown;   /* shown as done */
    uint64_t bytes_left;  /* that will probably still be read */
    uint64_t bytes_untold;
    unsigned steps_untold;
};

/* INVALID if memory, the longest record or the fields are out of range. */
enum hf_status job_check(const struct merge_options *options, struct hf_error *error);

/* Derives the limits from the checked options. Nothing to release. */
void job_init(struct job *job, struct env *env, const struct merge_options *options);

/* Writes a row that cannot be merged to the reject file. INVALID if there are far too many such
 * rows, or if the row has a time without a zone. */
enum hf_status job_reject(struct job *job, const struct source *source,
                          const struct batch *batch, const struct row *row,
                          struct hf_error *error);

/* Sets the total that is shown: the size of all inputs. `done_before` was already shown. */
void job_expect(struct job *job, uint64_t bytes, uint64_t done_before);

/* Reports bytes read; CANCELLED if the caller stops the merge. */
enum hf_status job_progress(struct job *job, uint64_t bytes, struct hf_error *error);

/* Reports that everything was read, before the output is kept. */
enum hf_status job_progress_end(struct job *job, struct hf_error *error);

/* Reads an input from start to end, batch by batch. */
struct job_scan {
    bool any_order; /* accept any order, and compute no codes */
    enum hf_status (*use)(void *context, const struct source *source, const struct batch *batch,
                          struct hf_error *error);
    void *context;
    /* The outcome, valid even after a failure. */
    uint64_t rows;
    bool too_wide;
};
enum hf_status job_scan(struct job *job, const struct feed *feed, struct job_scan *scan,
                        struct hf_error *error);

/* How an input is cut, and the header that it must have. */
static inline const struct cutter *job_cutter_of(const struct job *job, const struct feed *feed)
{
    return feed->layout ? &feed->layout->cutter : &job->cutter;
}

static inline struct view job_header_of(const struct job *job, const struct feed *feed)
{
    return feed->layout ? feed->layout->header : job->header;
}

/* The same without records: only the decompressed bytes. */
typedef enum hf_status job_use_bytes(void *context, struct view bytes, struct hf_error *error);
enum hf_status job_read(struct job *job, const struct feed *feed, job_use_bytes *use,
                        void *context, struct hf_error *error);

enum job_file { JOB_OUTPUT, JOB_REJECTS };

/* The callback that is given the temporary name of a file. */
struct file_watch job_watch(const struct job *job, enum job_file which);

/* Creates the output or the reject file. */
enum hf_status job_create(struct job *job, enum job_file which, struct sink *ret_sink,
                          struct hf_error *error);
void job_release(struct job *job, enum job_file which, struct sink *sink);

/* Whether the disk of the output, or that of temporary files, is full. A process that has failed
 * may not report this, so the file system is asked. Must be called before its files are removed. */
bool job_disk_is_full(const struct job *job);

/* Whether more rows were rejected than allowed. */
static inline bool job_overrun(const struct job *job)
{
    return job->result.rows_rejected > job->options->rejects_max;
}

/* Reports too many rejected rows as INVALID. The reject file gets its name, unless the merge is
 * intermediate. */
enum hf_status job_refuse(struct job *job, struct hf_error *error);

/* Gives both files their names, or neither; merge.h describes the exception. The caller releases
 * them. */
enum hf_status job_keep(struct job *job, struct sink *output, struct hf_error *error);

/* Determines how inputs that consist of records are cut: the fields, and the header of the first
 * input that has one, which is stored in `header`. */
enum hf_status records_prepare(struct job *job, const struct feed *feeds, size_t count,
                               struct buffer *header, struct hf_error *error);

/* Appends the header of an input, which is cut as records_prepare has determined. Appends nothing
 * if the input is empty. */
enum hf_status records_read_header(struct job *job, const struct feed *feed,
                                   struct buffer *header, struct hf_error *error);

/* Merges inputs that consist of records. */
enum hf_status records_merge(struct job *job, struct feed *feeds, size_t count,
                             struct hf_error *error);

/* Whether a row with this time and record should be kept rather than the other. */
static inline bool job_is_later(const struct job *job, struct instant time, struct view record,
                                struct instant other_time, struct view other)
{
    int order = instant_compare(time, other_time);
    return order > 0 || (order == 0 && ties_compare(&job->ties, record, other) > 0);
}

/* Why a pass failed, if it may succeed in another way. */
struct pass_end {
    bool unsorted;     /* an input is not in order */
    bool too_wide;     /* the budget is too small for this many inputs at a time */
    bool sort_reading; /* too little of the budget is left for reading while sorting */
};

/* How many runs are merged at a time: the same number as inputs, but at least two. */
static inline size_t job_width(const struct job *job)
{
    return job->group > 2 ? job->group : 2;
}

/* Merges all feeds into `to` in one pass. */
enum hf_status pass_run(struct job *job, const struct feed *feeds, size_t count,
                        struct sink *to, struct pass_end *ret_end, struct hf_error *error);

#endif
