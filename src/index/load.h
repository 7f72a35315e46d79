/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: loads all rows of a file into an index: through the inbox, or directly into shards, under
 * their locks. */
#ifndef INDEX_LOAD_H
#define INDEX_LOAD_H

#include "index/index.h"

struct load_options {
    bool straight;
    struct span wait; /* how long to wait for a shard that another compiler holds */
    /* Each may be NULL. `progress` is called between requests and after each read; false ends the
     * load with CANCELLED. */
    bool (*progress)(void *argument, const struct hf_index_load_report *report);
    void (*refused)(void *argument, uint64_t line, const struct hf_error *why);
    void (*trouble)(void *argument, const struct hf_error *why); /* a damaged shard */
    void *argument;
};

/* The report is filled in regardless of the status. INVALID: some rows were refused, and all others
 * were put. If records had to stay in the inbox because a shard is damaged, returns the status of
 * the first damaged shard. Otherwise returns the error that ended the load. With `straight` the
 * index must have been opened with a client. */
enum hf_status index_load(struct index *index, int fd, enum hf_index_format format,
                          const struct load_options *options,
                          struct hf_index_load_report *ret_report, struct hf_error *error);

#endif
