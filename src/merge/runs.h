/* runs.h: the runs of one merge. They are kept few: whenever there are RUNS_MERGED of one level,
 * they become one of the next. */
#ifndef MERGE_RUNS_H
#define MERGE_RUNS_H

#include "merge/job.h"

#define RUNS_MERGED 64
#define RUN_LEVELS  4 /* 64^4 runs of a sorter's memory: more than any disk */
#define RUNS_MAX    (RUNS_MERGED * RUN_LEVELS)

struct runs {
    struct feed feeds[RUNS_MAX];
    unsigned levels[RUNS_MAX];
    size_t count;
};

void runs_init(struct runs *runs);
void runs_release(struct runs *runs);

/* A new scratch file, begun as a run. */
enum hf_status runs_begin(struct job *job, struct sink *ret_sink, struct hf_error *error);

/* Takes over what was written; merges runs if there are many. */
enum hf_status runs_add(struct runs *runs, struct job *job, struct sink *sink,
                        struct pass_end *ret_end, struct hf_error *error);

/* Merges all runs from `from` on into one. */
enum hf_status runs_merge(struct runs *runs, struct job *job, size_t from,
                          struct pass_end *ret_end, struct hf_error *error);

/* Reads inputs that are in no order, sorts as much at a time as memory holds, and adds the runs
 * that come of it. */
enum hf_status sort_feeds(struct job *job, const struct feed *feeds, size_t count,
                          struct runs *runs, struct pass_end *ret_end, struct hf_error *error);

#endif
