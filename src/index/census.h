/* census.h: what `index status` tells: how deep the inbox is, how old, how large the shards are,
 * who holds which, what was set aside. Looks only. */
#ifndef INDEX_CENSUS_H
#define INDEX_CENSUS_H

#include "index/inbox.h"
#include "index/manifest.h"

#define CENSUS_REASONS_MAX 8
#define CENSUS_HOLDERS_MAX 256

struct census_holder {
    struct shard_id shard;
    char worker[HOLDER_BYTES_MAX + 1];
    uint64_t token;
    bool over; /* its time is provably over: whoever comes takes it */
    struct wall_time created_at, expires_at; /* for display */
};

struct census {
    uint64_t entries, entries_foreign, entry_bytes; /* of the inbox */
    uint64_t markers;
    uint64_t strays;
    size_t shards_waiting; /* that have entries */
    bool oldest_known;
    struct wall_time oldest; /* when the oldest entry was written, by the store's clock */
    size_t shards;
    uint64_t shard_bytes, shard_bytes_max;
    struct shard_id largest;
    bool records_known; /* there is a manifest */
    uint64_t records;
    struct wall_time records_at;
    size_t holder_count; /* of locks; the first CENSUS_HOLDERS_MAX of them: */
    struct census_holder *holders;
    size_t locks_unreadable;
    uint64_t aside; /* set aside; and why the first of them were: */
    size_t reason_count;
    struct {
        char entry[256]; /* cut */
        char why[HF_WHY_MAX];
    } reasons[CENSUS_REASONS_MAX];
};

void census_release(struct census *census);

/* `step` (may be NULL) is told how many entries were counted; false ends it, CANCELLED. */
enum hf_status census_take(struct index *index, bool (*step)(void *argument, uint64_t entries),
                           void *argument, struct census *ret_census, struct hf_error *error);

#endif
