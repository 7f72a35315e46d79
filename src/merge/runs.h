/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h: the runs of one merge, in order. Their number is kept small: when there are many runs of
 * one level, they are merged into one run of the next level. */
#ifndef MERGE_RUNS_H
#define MERGE_RUNS_H

#include "merge/job.h"

#define RUNS_OF_LEVEL 64
#define RUNS_MAX      256 /* four levels: more than any disk holds */

struct runs {
    struct feed feeds[RUNS_MAX];
    unsigned levels[RUNS_MAX];
    size_t count;
};

void runs_init(struct runs *runs);
void runs_release(struct runs *runs);

/* Creates a scratch file and starts a run in it. */
enum hf_status runs_begin(struct job *job, struct sink *ret_sink, struct hf_error *error);

/* Takes ownership of a written run. Merges runs if there are many. */
enum hf_status runs_add(struct runs *runs, struct job *job, struct sink *sink,
                        struct pass_end *ret_end, struct hf_error *error);

/* Merges runs until there are no more than `count`, which must not be 0. */
enum hf_status runs_reduce(struct runs *runs, struct job *job, size_t count,
                           struct pass_end *ret_end, struct hf_error *error);

/* Reads unordered inputs, sorts as much as fits into memory at a time, and adds the resulting
 * runs. */
enum hf_status sort_feeds(struct job *job, const struct feed *feeds, size_t count,
                          struct runs *runs, struct pass_end *ret_end, struct hf_error *error);

#endif
