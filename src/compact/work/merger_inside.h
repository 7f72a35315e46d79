/* SPDX-License-Identifier: Apache-2.0 */
/* merger_inside.h: the state of a merge, shared by the files of the real merger.
 *
 *   file_merger.c  merging, commands, putting
 *   merge_fetch.c  fetches sources into files, or borrows them from the store; checks them
 *   merge_range.c  divides a merge into ranges of keys
 *
 * Only the task that called `make` asks whether to continue. */
#ifndef COMPACT_WORK_MERGER_INSIDE_H
#define COMPACT_WORK_MERGER_INSIDE_H

#include "base/arena.h"
#include "compact/work/merger.h"
#include "compact/work/merger_scratch.h"
#include "merge/merge.h"

#include <stdatomic.h>

/* How many times a request is sent if the store is unavailable or does not answer. */
#define TRIES_MAX 5
#define TRY_WAIT  SPAN_MS(100)

struct file_merger {
    struct merger merger;
    struct env *env;
    struct store *store;
    size_t threads;
    struct scratch scratch;
    struct allow_exec exec;         /* commands that may run */
    struct merge_callback callback; /* of the caller; `merge` NULL: none */
    atomic_uint_fast64_t jobs;      /* number of the next job folder */
    atomic_bool parquet_works;      /* the helper was found to work */
    atomic_int lent;                /* open descriptors of lent objects */
};

/* A source that is read in place. */
struct lent {
    int fd; /* -1: not lent, but copied */
    char path[32];
};

/* A merge in progress. */
struct merge_run {
    struct file_merger *files;
    const struct merge_order *order;
    struct merge_product *product;
    struct arena arena;
    char name[24]; /* of its folder in the scratch folder */
    char folder[PATH_MAX];
    const char **paths;  /* of the sources */
    const char **copies; /* the same, before any was lent */
    struct lent *lent;   /* one for each */
    /* Computed by the merge while it reads the sources; NULL: each is checked before the merge. */
    struct merge_input_sum *sums;
    bool rechecks;        /* the merge has failed: check the sources that it has read */
    atomic_bool replaced; /* one of them was wrong, and was fetched again */
    const char *output, *rejects;
    const char *program;      /* program of the command; NULL: there is no command */
    uint64_t bytes;           /* of all sources */
    uint64_t shown;           /* the progress that the caller was told last */
    struct scratch_room room; /* free space at the start */
    atomic_bool disk_full;    /* failed because the disk was full */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        size_t beside;         /* fetching tasks besides the calling one */
        size_t next;           /* source to be fetched */
        uint64_t bytes;        /* fetched by all tasks */
        struct hf_error error; /* the first */
        size_t culprit;
    } shared;
    atomic_bool stop; /* the fetching tasks must stop */
};

/* Whether a command or the caller's merger is used. */
static inline bool merge_by_callback(const struct merge_run *run)
{
    return run->order->settings->command.size > 0 || run->files->callback.merge;
}

/* Asks the caller whether to continue. Once the caller has said no, it always returns false. */
bool merge_goes_on(struct merge_run *run, uint64_t done);
enum hf_status merge_cancelled(struct hf_error *error);

/* Reports a failure of this machine as UNAVAILABLE, so that it is never taken for a missing or
 * damaged source. */
enum hf_status merge_local_failure(struct hf_error *error, int errno_value, const char *what);

/* The path of a file in the run's scratch folder; NULL: no memory, or it is too long. */
const char *merge_scratch_path(struct merge_run *run, const char *name);

/* Whether the disk is full now. Remembers that it was. Call this before any file is removed. */
bool merge_disk_is_full(struct merge_run *run);

/* Reads an object into the file, replacing its contents. */
enum hf_status merge_get_object(struct merge_run *run, const struct chunk *chunk, int fd,
                                const struct progress *progress, struct hf_error *error);

/* Prepares a run whose `files`, `order`, `product` and arena are set: creates its folder, and names
 * its files. merge_run_end closes lent objects and removes the folder; the caller releases the
 * arena. */
enum hf_status merge_run_begin(struct merge_run *run, struct hf_error *error);

/* Removes the copies of the sources, once they are merged. */
void merge_drop_sources(struct merge_run *run);
void merge_run_end(struct merge_run *run);

/* Fetches all sources, a few concurrently. Each is checked against the catalog, unless the merge
 * computes their checksums: then only their sizes are. */
enum hf_status merge_fetch_all(struct merge_run *run, struct hf_error *error);

/* After a merge that computed checksums itself and has failed: checks all sources, and fetches
 * those that are wrong again. OK: all are right now; if none was replaced, the merge would fail
 * again. */
enum hf_status merge_recheck_all(struct merge_run *run, struct hf_error *error);

/* Whether the bytes that were merged are those that the catalog records. CORRUPT: they are not;
 * merge_recheck_all finds out why. */
enum hf_status merge_check_sums(struct merge_run *run, struct hf_error *error);

/* Closes lent objects. */
void merge_give_back(struct merge_run *run);

/* The `divide` of the real merger (docs/design.md section 8). Only sources that are sorted and
 * uncompressed, with one record per line, can be divided. For each range it reads 16 KiB about 32
 * times, to find keys, and for each range and source log2(size / 256 KiB) times, and then 256 KiB
 * once, to find where the range starts. */
enum hf_status merge_divide(struct merger *merger, const struct merge_order *order,
                            struct arena *arena, struct range **ret_ranges, size_t *ret_count,
                            struct hf_error *error);

/* Checks that the first and the last key of a part are in the range of the order. CORRUPT: they are
 * not, so the source is not sorted. */
enum hf_status merge_check_part(struct merge_run *run, const char *path,
                                struct hf_error *error);

#endif
