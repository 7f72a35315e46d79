/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h: what one read of the store showed. A snapshot is filled by one thread, then never
 * changes. Its texts are escaped, so that they can be written to a terminal. */
#ifndef TOP_SNAPSHOT_H
#define TOP_SNAPSHOT_H

#include "base/arena.h"
#include "base/moment.h"
#include "holdfast/compact.h"
#include "holdfast/index.h"
#include "holdfast/observe.h"

#define TOP_LOCKS_MAX      100000
#define TOP_PARTITIONS_MAX 16
#define TOP_INDEXES_MAX    64

/* A lease, or a waiter. */
struct top_lock {
    const char *scope, *holder;
    enum hf_lease_state state;
    enum hf_mode mode;
    bool barrier;
    size_t place, waiters; /* as in struct hf_lease_info */
    uint64_t token;
    int64_t held_ms, remaining_ms, ttl_ms;
};

/* A holder, with everything that it holds and waits for. */
struct top_worker {
    const char *holder;
    size_t held, waiting;
    int64_t held_ms;      /* the longest */
    int64_t remaining_ms; /* the least */
};

struct top_partition {
    const char *name;
    bool found;
    struct hf_compact_status status;
};

struct top_index {
    const char *name;
    bool read; /* its status is known */
    struct hf_index_stats stats;
};

struct snapshot {
    struct arena arena;
    struct mono_time at; /* when the read began */
    struct top_lock *locks;
    size_t lock_count, lock_room, locks_beyond;
    struct top_worker *workers;
    size_t worker_count;
    size_t held, waiting, damaged;
    uint64_t granted, ended; /* since the reader began */
    struct top_partition partitions[TOP_PARTITIONS_MAX];
    size_t partition_count;
    struct top_index indexes[TOP_INDEXES_MAX];
    size_t index_count;
    struct hf_stats requests; /* of this program, since it began */
    bool no_memory;
};

/* NULL if memory runs out. */
struct snapshot *snapshot_new(struct mono_time at);
void snapshot_free(struct snapshot *snapshot);

/* Adds a lease or a waiter. Beyond the bound, it is only counted. */
void snapshot_add_lock(struct snapshot *snapshot, const struct hf_lease_info *lease);

/* Sums up the workers, after all leases were added. */
void snapshot_finish(struct snapshot *snapshot);

/* A copy whose control characters are escaped; NULL, and no_memory is set, if memory runs out. */
const char *snapshot_text(struct snapshot *snapshot, const char *text);

#endif
