/* SPDX-License-Identifier: Apache-2.0 */
/* shard_set.h: which shards of an index exist or have entries, found with one or two listings
 * instead of one per shard. For walk and compile only. */
#ifndef INDEX_SHARD_SET_H
#define INDEX_SHARD_SET_H

#include "index/inbox.h"

#define MARK_WAITING 1 /* it has a folder in the inbox, or an entry outside the folders */
#define MARK_THERE   2 /* the shard exists */
#define MARK_HELD    4 /* another compiler holds it */

struct shard_set {
    unsigned char *of; /* indexed by shard number */
    size_t count;
};

enum hf_status shard_set_init(struct shard_set *shards_due, const struct index *index,
                              struct hf_error *error);
void shard_set_release(struct shard_set *shards_due);

/* Marks the shards that have a folder in the inbox. The folder may contain only markers. */
enum hf_status shard_set_waiting(struct shard_set *shards_due, struct index *index,
                                 struct hf_error *error);

/* Marks the existing shards. Must be called after the inbox has been listed. */
enum hf_status shard_set_there(struct shard_set *shards_due, struct index *index,
                               struct hf_error *error);

/* Sorts the entries by shard, and marks their shards. */
void shard_set_flat(struct shard_set *shards_due, const struct index *index,
                    struct entry_list *list);

/* The entries of one shard in a list sorted this way. */
struct entry *shard_set_find_flat(const struct entry_list *list, struct shard_id shard,
                                  size_t *ret_count);

#endif
