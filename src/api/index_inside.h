/* SPDX-License-Identifier: Apache-2.0 */
/* index_inside.h: declarations that the files that implement holdfast/index.h share. */
#ifndef API_INDEX_INSIDE_H
#define API_INDEX_INSIDE_H

#include "base/options.h"
#include "index/index.h"
#include "index/read.h"

/* A struct index (src/index) may be used by only one task at a time. Each call works on its own
 * copy, so threads do not wait for one another. */
struct hf_index {
    struct hf_client *client;
    struct env_mutex mutex; /* guards `latest` */
    struct index *latest;
};

/* Borrows the index for one call, until index_give_back. UNAVAILABLE if memory runs out. */
enum hf_status index_borrow(struct hf_index *handle, struct index **ret_index,
                            struct hf_error *error);
void index_give_back(struct hf_index *handle, struct index *index);

/* The shard with this name, whose digits may be in upper case. If `text` is NULL, no shard. INVALID
 * if the index has no shard with this name. */
enum hf_status index_shard_of(const struct index *index, const char *text,
                              struct shard_id *ret_shard, struct hf_error *error);

/* INVALID if the format is unknown. */
enum hf_status index_check_format(enum hf_index_format format, struct hf_error *error);

#endif
