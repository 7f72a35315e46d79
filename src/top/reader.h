/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h: a thread that reads the store again and again, and keeps the newest snapshot. The
 * screen takes it when it likes, and never waits for the store. */
#ifndef TOP_READER_H
#define TOP_READER_H

#include "env/env.h"
#include "top/snapshot.h"

struct reader_options {
    const char *store, *name_space, *prefix;
    const char *partitions[TOP_PARTITIONS_MAX];
    size_t partition_count;
    struct span interval;
};

struct reader;

/* Opens the store and starts the thread. The options must stay. Returns what the store says, if it
 * cannot be opened. */
enum hf_status reader_start(struct env *env, const struct reader_options *options,
                            struct reader **ret_reader, struct hf_error *error);

/* Ends the thread after the call that it is in, and frees the reader. */
void reader_stop(struct reader *reader);

/* The newest snapshot, for the caller to free, or NULL if there is none since the last one was
 * taken. `trouble` is the status of the last read. */
struct snapshot *reader_take(struct reader *reader, struct hf_error *trouble);

#endif
