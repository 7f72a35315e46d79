/* index_inside.h: what the files of the calls of holdfast/index.h share. */
#ifndef API_INDEX_INSIDE_H
#define API_INDEX_INSIDE_H

#include "base/options.h"
#include "index/index.h"
#include "index/read.h"

/* Calls of any thread work on copies, so that none waits for another: an index as src/index has it
 * is for one task at a time. */
struct hf_index {
    struct hf_client *client;
    struct env_mutex mutex; /* guards `latest` */
    struct index *latest;
};

/* The index for one call, until index_give_back. UNAVAILABLE without memory. */
enum hf_status index_borrow(struct hf_index *handle, struct index **ret_index,
                            struct hf_error *error);
void index_give_back(struct hf_index *handle, struct index *index);

/* The shard of this text, whose digits may be in upper case; text NULL: none. INVALID: it is no
 * shard of the index. */
enum hf_status index_shard_of(const struct index *index, const char *text,
                              struct shard_id *ret_shard, struct hf_error *error);

#endif
