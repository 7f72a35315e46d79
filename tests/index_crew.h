/* SPDX-License-Identifier: Apache-2.0 */
/* index_crew.h: those who compile an index of a yard. */
#ifndef TESTS_INDEX_CREW_H
#define TESTS_INDEX_CREW_H

#include "index/compile.h"
#include "index_kit.h"

/* A client and an index of its own. */
struct crew {
    struct hf_client *client;
    struct index *index;
    struct hf_error error;
};

void crew_open(struct crew *crew, struct store *store);
void crew_close(struct crew *crew);

/* Every shard that has entries, once: it must be OK. */
struct hf_index_compile_report crew_compile(struct crew *crew);

/* One shard, without entries that stand in no folder. */
struct compile_report crew_compile_shard(struct crew *crew, struct shard_id shard);

/* Puts `count` records of keys that are all of one shard: <name>-<n>.<shard>, n from 0, each of the
 * minute n, with this value; `first` is the first n. */
void crew_fill(struct crew *crew, const char *shard, const char *name, size_t first,
               size_t count, const char *value);

#endif
