/* load.h: all rows of a file into an index: by the inbox, or straight into shards, under their
 * locks. */
#ifndef INDEX_LOAD_H
#define INDEX_LOAD_H

#include "index/index.h"

/* How records got there: by the inbox as asked for, straight, or by the inbox for this reason. */
enum load_way { WAY_INBOX, WAY_STRAIGHT, WAY_HELD, WAY_FEW, WAY_DAMAGED, WAYS };

struct load_report {
    uint64_t taken;        /* records that are there and durable ... */
    uint64_t by_way[WAYS]; /* ... and how they got there */
    uint64_t shards;       /* that were written straight */
    uint64_t refused;      /* rows */
    uint64_t lines_taken;  /* the last line of which is known that all up to it is done */
    uint64_t bytes_read;
    bool complete; /* the file was read to its end, and its records are there */
};

struct load_options {
    bool straight;
    struct span wait; /* for a shard that somebody else has */
    /* Each may be NULL. `progress` is asked between requests, and after each read: false ends it,
     * CANCELLED. */
    bool (*progress)(void *argument, const struct load_report *report);
    void (*refused)(void *argument, uint64_t line, const struct hf_error *why);
    void (*trouble)(void *argument, const struct hf_error *why); /* a shard that is damaged */
    void *argument;
};

/* The report is written whatever the status is. INVALID when rows were refused and all others put;
 * the status of the first shard that is damaged when its records had to stay in its inbox; else
 * what ended it. With `straight` the index must have been opened with a client. */
enum hf_status index_load(struct index *index, int fd, enum hf_index_format format,
                          const struct load_options *options, struct load_report *ret_report,
                          struct hf_error *error);

#endif
