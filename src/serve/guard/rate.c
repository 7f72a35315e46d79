/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c: token buckets in a table of fixed size: sets of four clients, found by a hash. Two
 * clients with the same hash of 64 bits would share a bucket. */
#include "serve/guard/rate.h"

#include "base/hash.h"
#include "base/parse.h"

#include <stdlib.h>

#define RATE_WAYS 4
#define RATE_SETS (RATE_CLIENTS_MAX / RATE_WAYS)

/* What is in a bucket, in millionths of a request, at a time. */
struct rate_bucket {
    int64_t level;
    struct mono_time at;
};

struct rate_client {
    uint64_t hash; /* 0: nobody */
    struct mono_time used;
    struct rate_bucket buckets[RATE_KINDS];
};

struct rate_table {
    int64_t per_s, full; /* in requests; in millionths of a request */
    struct rate_client clients[RATE_SETS][RATE_WAYS];
};

enum hf_status rate_limit_read(struct view text, struct rate_limit *ret_limit,
                               struct hf_error *error)
{
    struct view rest = text, first = view_cut(&rest, ':');
    struct rate_limit limit = { 0, 0 };
    bool has_burst = first.size < text.size;
    if (parse_u64(first, RATE_MAX, &limit.per_s, error) != HF_OK || limit.per_s == 0 ||
        (has_burst &&
         (parse_u64(rest, RATE_MAX, &limit.burst, error) != HF_OK || limit.burst == 0)))
        return error_set(
            error, HF_INVALID,
            "'%.*s' is not a rate; write requests per second, such as 100, and how "
            "many at once, such as 100:500; at most %d",
            VIEW_ARGS(view_first(text, 40)), RATE_MAX);
    if (!has_burst)
        limit.burst = limit.per_s;
    *ret_limit = limit;
    return HF_OK;
}

struct rate_table *rate_table_new(const struct rate_limit *limit)
{
    struct rate_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->per_s = (int64_t)limit->per_s;
    table->full = (int64_t)limit->burst * 1000000;
    return table;
}

void rate_table_free(struct rate_table *table)
{
    free(table);
}

/* The client, or the one of its set that was used the longest time ago, emptied for it. */
static struct rate_client *find_rate_client(struct rate_table *table, uint64_t hash,
                                            struct mono_time now)
{
    struct rate_client *set = table->clients[hash % RATE_SETS], *oldest = &set[0];
    for (size_t i = 0; i < RATE_WAYS; i++) {
        if (set[i].hash == hash)
            return &set[i];
        if (set[i].hash == 0 || (oldest->hash != 0 && mono_before(set[i].used, oldest->used)))
            oldest = &set[i];
    }
    *oldest = (struct rate_client){ .hash = hash };
    for (size_t i = 0; i < RATE_KINDS; i++)
        oldest->buckets[i] = (struct rate_bucket){ table->full, now };
    return oldest;
}

struct span rate_take(struct rate_table *table, struct view client, enum rate_kind kind,
                      struct mono_time now)
{
    uint64_t hash = hash_xxh3(client);
    struct rate_client *found = find_rate_client(table, hash != 0 ? hash : 1, now);
    struct rate_bucket *bucket = &found->buckets[kind];
    int64_t passed = mono_since(now, bucket->at).us;
    found->used = now;
    /* A bucket is full at the latest after so long, and the product below does not overflow. */
    if (passed > table->full / table->per_s)
        bucket->level = table->full;
    else if (passed > 0)
        bucket->level += passed * table->per_s;
    if (bucket->level > table->full)
        bucket->level = table->full;
    bucket->at = now;
    if (bucket->level < 1000000)
        return SPAN_US((1000000 - bucket->level + table->per_s - 1) / table->per_s);
    bucket->level -= 1000000;
    return SPAN_US(0);
}
