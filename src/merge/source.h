/* SPDX-License-Identifier: Apache-2.0 */
/* source.h: one input of a merge: a file, read block by block and cut into batches of rows.
 *
 * Records stay whole: an incomplete record at the end of a block is moved to the next block. For a
 * record that does not fit, the block is enlarged, up to the maximum record size. A longer record
 * is read in pieces and rejected. */
#ifndef MERGE_SOURCE_H
#define MERGE_SOURCE_H

#include "merge/budget.h"
#include "merge/codec.h"
#include "merge/layout.h"

/* A file to read: one of the inputs, or a run that we wrote ourselves. */
struct feed {
    const char *path; /* a run has none */
    const char *name; /* for messages; usually the path */
    int run;          /* a run's descriptor, or -1 */
    uint64_t size;
    uint64_t hash;               /* of its bytes, if another input has the same size */
    bool unsorted;               /* known to be unsorted */
    size_t given;                /* its place among the arguments */
    const struct layout *layout; /* NULL: its header is that of all inputs */
    struct merge_input_sum *sum; /* to be filled in when it was read; NULL: not wanted */
};

/* An input. INVALID if it is not a regular file. */
enum hf_status feed_init(struct feed *feed, const char *path, struct hf_error *error);

/* One block and a spare, so that one can be filled while the other is used. */
#define SOURCE_BATCHES_MAX 2

struct source {
    const struct feed *feed;
    struct decoder *decoder;
    struct cutter cutter;
    struct view header; /* that it must have; data NULL: none */
    struct budget *budget;
    size_t charged;         /* taken from the budget: blocks, rows ... */
    size_t buffers_charged; /* ... and growth of the cutter and the batches */
    size_t block_bytes;     /* size of a block without a long record */
    struct batch batches[SOURCE_BATCHES_MAX];
    size_t batch_count;
    size_t rest_from; /* in the batch filled last: start of the uncut rest */
    const struct batch *last;
    bool started;      /* the header, if any, was read */
    bool at_end;       /* all bytes are read */
    bool skipping;     /* in the middle of a record that is too long */
    bool too_wide;     /* ended because the budget is used up */
    bool other_header; /* ended because its header is not the expected one */
    uint64_t rows;     /* rows cut so far, including rejected ones */
    /* For the pump: */
    size_t filler;         /* the batch to be filled next */
    size_t user;           /* the batch in use, or to be used next */
    size_t ready;          /* filled batches that are not consumed yet */
    bool in_use;           /* the merge is using batches[user] */
    bool busy;             /* a thread is filling it */
    bool queued;           /* waiting for a thread to fill it */
    bool ended;            /* there will be no more batches */
    struct hf_error error; /* why reading failed, if it did */
};

struct source_options {
    const struct cutter *like; /* rows are cut the same way; its position is ignored */
    struct view header;        /* that the input must have; data NULL: none */
    size_t block_bytes;
    size_t batch_count;
    struct budget *budget;
};

/* The caller releases `source` in any case. */
enum hf_status source_init(struct source *source, const struct feed *feed,
                           const struct source_options *options, struct hf_error *error);
void source_release(struct source *source);

/* Fills a batch with the next rows; it is empty only at the end. */
enum hf_status source_fill(struct source *source, struct batch *batch, struct hf_error *error);

/* Reads raw bytes into the first batch's block; none at the end. */
enum hf_status source_read(struct source *source, struct view *ret_bytes,
                           struct hf_error *error);

/* Copies the header of an input to `to`. It is empty if the input is empty. */
enum hf_status source_read_header(struct source *source, struct buffer *to,
                                  struct hf_error *error);

/* About how much memory blocks of this size take, including their rows. */
static inline size_t source_memory(size_t block_bytes)
{
    return block_bytes * 2;
}

#endif
