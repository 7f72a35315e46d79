/* SPDX-License-Identifier: Apache-2.0 */
/* shard_cache.h: the shards that a reader has read lately: for each its header line, parsed, and
 * the blocks that were read last, with the ETag of their version. A get uses them only after the
 * store has confirmed, in that get and after it has read the inbox, that the shard still has this
 * ETag (shard_cursor_find_again). So it sees exactly what it would have seen without the cache.
 *
 * A cursor is either in the cache or with one task, which takes it out and gives it back. A second
 * task that reads the same shard meanwhile opens its own. The handles of an index share one cache.
 *
 * Bounds: SHARD_CACHE_BYTES in all, about. What does not fit drives out others, in no particular
 * order. Shards that are read whole (adopt.h, plain.h) are not kept. */
#ifndef INDEX_SHARD_CACHE_H
#define INDEX_SHARD_CACHE_H

#include "index/cursor.h"

#define SHARD_CACHE_BYTES (16 * MIB)
#define SHARD_CACHE_SLOTS 4096

struct shard_cache;

/* NULL if out of memory. It is freed when its last user drops it. */
struct shard_cache *shard_cache_new(struct env *env);
struct shard_cache *shard_cache_keep(struct shard_cache *cache);
void shard_cache_drop(struct shard_cache *cache);

/* The cursor of a shard, which may be outdated; NULL if there is none. The caller owns it, and sets
 * its `index`. */
struct shard_cursor *shard_cache_take(struct shard_cache *cache, struct shard_id shard);

/* Gives a cursor back, which the cache keeps or frees. It must be open, after a find that was OK or
 * NOT_FOUND. */
void shard_cache_give(struct shard_cache *cache, struct shard_cursor *cursor);

/* Frees a cursor that was taken or allocated. NULL is allowed. */
void shard_cursor_free(struct shard_cursor *cursor);

/* How many bytes the cache holds, for tests. */
uint64_t shard_cache_bytes(struct shard_cache *cache);

#endif
