/* source.h: one input of a merge: a file, read block by block and cut into batches of rows.
 *
 * Records stay whole: what a block holds of its last record moves to the next block, and a block
 * grows for a record that does not fit, up to the longest record allowed. What is longer still
 * goes through in pieces that are rejected. */
#ifndef MERGE_SOURCE_H
#define MERGE_SOURCE_H

#include "merge/budget.h"
#include "merge/codec.h"
#include "merge/format.h"

/* A file that is to be read: one of the inputs, or a run that we wrote ourselves. */
struct feed {
    const char *path; /* for words, and to open it; a run has none */
    int run;          /* a run's descriptor, or -1 */
    uint64_t size;
    uint64_t hash; /* of its bytes, where another has the same size */
    bool unsorted; /* known to be */
};

/* A block and a spare, so that one can be filled while the other is used. */
#define SOURCE_BATCHES_MAX 2

struct source {
    const struct feed *feed;
    struct decoder *decoder;
    struct cutter cutter;
    struct view header; /* that it must have; data NULL: none */
    struct budget *budget;
    size_t charged;         /* taken from the budget: blocks, rows ... */
    size_t buffers_charged; /* ... and what the cutter and the batches grew by */
    size_t block_bytes;     /* of a block that holds no long record */
    struct batch batches[SOURCE_BATCHES_MAX];
    size_t batch_count;
    size_t rest_from; /* of the batch filled last: what was not cut yet */
    const struct batch *last;
    bool started;  /* the header, if there is one, is behind us */
    bool at_end;   /* all bytes are read */
    bool skipping; /* in the middle of a record that is too long */
    bool too_wide; /* ended since the budget is used up */
    uint64_t rows; /* that were cut, rejected ones included */
    /* Of the pump: */
    size_t filler;         /* the batch to be filled next */
    size_t user;           /* the batch that is used, or will be next */
    size_t ready;          /* batches that are filled and not used up */
    bool in_use;           /* batches[user] is handed out */
    bool busy;             /* somebody fills */
    bool queued;           /* waits for somebody to fill it */
    bool ended;            /* there will be no more batches */
    struct hf_error error; /* why, if that is no good reason */
};

/* Rows are cut as `like` says, whose place is not looked at. `source` is released by the caller
 * in any case. */
enum hf_status source_init(struct source *source, const struct feed *feed,
                           const struct cutter *like, struct view header, size_t block_bytes,
                           size_t batch_count, struct budget *budget, struct hf_error *error);
void source_release(struct source *source);

/* Fills a batch with the next rows; none at the end only. */
enum hf_status source_fill(struct source *source, struct batch *batch, struct hf_error *error);

/* For who wants the bytes alone: the next of them, in the block of the first batch; none at the
 * end. */
enum hf_status source_read(struct source *source, struct view *ret_bytes,
                           struct hf_error *error);

/* The header of an input, copied to `to`; empty when the input is. */
enum hf_status source_read_header(struct source *source, struct buffer *to,
                                  struct hf_error *error);

/* Blocks of this many bytes take about this much memory, with their rows. */
static inline size_t source_memory(size_t block_bytes)
{
    return block_bytes * 2;
}

#endif
