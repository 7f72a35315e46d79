/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h: the data for `index status`: the size and age of the inbox, the sizes of the shards, the
 * holders of their locks, and the entries that were set aside. Only reads. */
#ifndef INDEX_STATS_H
#define INDEX_STATS_H

#include "index/inbox.h"
#include "index/manifest.h"

#define STATS_REASONS_MAX 8
#define STATS_HOLDERS_MAX 256

struct stats_holder {
    struct shard_id shard;
    char worker[HOLDER_BYTES_MAX + 1];
    uint64_t token;
    bool over; /* provably expired: the next compiler takes it over */
    struct wall_time created_at, expires_at; /* for display */
};

struct index_stats {
    uint64_t entries, entries_foreign, entry_bytes; /* of the inbox */
    uint64_t markers;
    uint64_t strays;
    size_t shards_waiting; /* shards with entries */
    bool oldest_known;
    struct wall_time oldest; /* when the oldest entry was written, by the store's clock */
    size_t shards;
    uint64_t shard_bytes, shard_bytes_max;
    struct shard_id largest;
    bool records_known; /* a manifest exists */
    uint64_t records;
    uint64_t deletions;
    struct wall_time records_at;
    size_t holder_count; /* locks held; the first STATS_HOLDERS_MAX holders: */
    struct stats_holder *holders;
    size_t locks_unreadable;
    uint64_t aside; /* entries set aside; the first of them, with reasons: */
    size_t reason_count;
    struct {
        char entry[256]; /* truncated */
        char why[HF_WHY_MAX];
    } reasons[STATS_REASONS_MAX];
};

void index_stats_release(struct index_stats *index_stats);

/* `step` (may be NULL) is called with the number of entries counted so far; false ends the count
 * with CANCELLED. */
enum hf_status index_stats_take(struct index *index,
                                bool (*step)(void *argument, uint64_t entries), void *argument,
                                struct index_stats *ret_stats, struct hf_error *error);

#endif
