/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c: the list of runs. Runs are merged early, to limit the number of open files. */
#include "merge/runs.h"

#include "base/check.h"
#include "merge/run.h"

#include <unistd.h>

void runs_init(struct runs *runs)
{
    runs->count = 0;
}

static void drop_from(struct runs *runs, size_t from)
{
    while (runs->count > from)
        close(runs->feeds[--runs->count].run);
}

void runs_release(struct runs *runs)
{
    drop_from(runs, 0);
}

enum hf_status runs_begin(struct job *job, struct sink *ret_sink, struct hf_error *error)
{
    enum hf_status status = sink_scratch(ret_sink, job->scratch_folder, &job->budget, error);
    if (status == HF_OK) {
        ret_sink->disk_full = &job->result.disk_full;
        ret_sink->is_run = true;
        sink_add(ret_sink, RUN_MARK);
    }
    return status;
}

static enum hf_status runs_take(struct runs *runs, struct job *job, struct sink *sink,
                                unsigned level, struct hf_error *error)
{
    check(runs->count < RUNS_MAX);
    enum hf_status status = sink_end(sink, error);
    if (status == HF_OK) {
        job->result.bytes_spilled += sink->size;
        runs->levels[runs->count] = level;
        runs->feeds[runs->count++] = (struct feed){ .run = sink->file.fd, .size = sink->size };
        sink->file.fd = -1;
    }
    sink_release(sink);
    return status;
}

/* Merges the last `count` runs into one run of the next level. */
static enum hf_status merge_last(struct runs *runs, struct job *job, size_t count,
                                 struct pass_end *ret_end, struct hf_error *error)
{
    struct sink sink;
    size_t from = runs->count - count;
    unsigned level = runs->levels[from] + 1;
    enum hf_status status = runs_begin(job, &sink, error);
    if (status != HF_OK)
        return status;
    for (size_t i = from; i < runs->count; i++)
        job->bytes_left += runs->feeds[i].size;
    status = pass_run(job, runs->feeds + from, count, &sink, ret_end, error);
    if (status != HF_OK) {
        sink_release(&sink);
        return status;
    }
    drop_from(runs, from);
    return runs_take(runs, job, &sink, level, error);
}

enum hf_status runs_reduce(struct runs *runs, struct job *job, size_t count,
                           struct pass_end *ret_end, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK && runs->count > count) {
        size_t merged = runs->count - count + 1;
        if (merged > job_width(job))
            merged = job_width(job);
        status = merge_last(runs, job, merged, ret_end, error);
    }
    return status;
}

enum hf_status runs_add(struct runs *runs, struct job *job, struct sink *sink,
                        struct pass_end *ret_end, struct hf_error *error)
{
    enum hf_status status = runs_take(runs, job, sink, 0, error);
    while (status == HF_OK && runs->count >= RUNS_OF_LEVEL) {
        size_t from = runs->count - RUNS_OF_LEVEL;
        if (runs->levels[from] != runs->levels[runs->count - 1])
            break;
        unsigned level = runs->levels[from] + 1;
        status = runs_reduce(runs, job, from + 1, ret_end, error);
        runs->levels[from] = level;
    }
    return status;
}
