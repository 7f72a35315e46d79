/* SPDX-License-Identifier: Apache-2.0 */
/* shard_cache.c: keeps cursors, one per slot; the number of a shard determines its slot. */
#include "index/shard_cache.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The slots are emptied in an order that has nothing to do with that of the shards. Otherwise, a
 * reader that goes through more shards than fit would always find those kept that it has just read,
 * and never those that it needs next. The step is odd, so that every slot gets its turn. */
#define HAND_STEP 1549
static_assert(HAND_STEP % 2 == 1 && (SHARD_CACHE_SLOTS & (SHARD_CACHE_SLOTS - 1)) == 0,
              "the hand visits all slots");

struct shard_cache {
    atomic_size_t users;
    struct env_mutex mutex; /* guards the members below */
    uint64_t bytes;
    size_t hand; /* the next slot to be emptied when the cache is full */
    struct shard_cursor *slots[SHARD_CACHE_SLOTS];
};

struct shard_cache *shard_cache_new(struct env *env)
{
    struct shard_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    atomic_init(&cache->users, 1);
    env_mutex_init(env, &cache->mutex);
    return cache;
}

struct shard_cache *shard_cache_keep(struct shard_cache *cache)
{
    atomic_fetch_add(&cache->users, 1);
    return cache;
}

void shard_cursor_free(struct shard_cursor *cursor)
{
    if (!cursor)
        return;
    shard_cursor_close(cursor);
    free(cursor);
}

void shard_cache_drop(struct shard_cache *cache)
{
    if (!cache || atomic_fetch_sub(&cache->users, 1) > 1)
        return;
    for (size_t i = 0; i < SHARD_CACHE_SLOTS; i++)
        shard_cursor_free(cache->slots[i]);
    env_mutex_release(&cache->mutex);
    free(cache);
}

static size_t cache_slot_of(struct shard_id shard)
{
    size_t number;
    check(shard_number(view_of(shard.text), (unsigned)strlen(shard.text), &number));
    return number % SHARD_CACHE_SLOTS;
}

/* An estimate: a parsed header line is about as large as its text, and the three buffers for keys
 * have their full size. */
static uint64_t memory_of(const struct shard_cursor *cursor)
{
    return sizeof *cursor + 3 * INDEX_KEY_BYTES_MAX + cursor->head.line_size +
           cursor->window.capacity;
}

/* Empties a slot, and returns what was in it. */
static struct shard_cursor *empty_slot_locked(struct shard_cache *cache, size_t slot)
{
    struct shard_cursor *cursor = cache->slots[slot];
    cache->slots[slot] = NULL;
    if (cursor)
        cache->bytes -= memory_of(cursor);
    return cursor;
}

struct shard_cursor *shard_cache_take(struct shard_cache *cache, struct shard_id shard)
{
    struct shard_cursor *cursor = NULL;
    size_t slot = cache_slot_of(shard);
    env_mutex_lock(&cache->mutex);
    if (cache->slots[slot] && strcmp(cache->slots[slot]->shard.text, shard.text) == 0)
        cursor = empty_slot_locked(cache, slot);
    env_mutex_unlock(&cache->mutex);
    return cursor;
}

void shard_cache_give(struct shard_cache *cache, struct shard_cursor *cursor)
{
    size_t slot = cache_slot_of(cursor->shard);
    if (!shard_cursor_trim(cursor) || memory_of(cursor) > SHARD_CACHE_BYTES / 4) {
        shard_cursor_free(cursor);
        return;
    }
    cursor->index = NULL;
    env_mutex_lock(&cache->mutex);
    shard_cursor_free(empty_slot_locked(cache, slot));
    while (cache->bytes + memory_of(cursor) > SHARD_CACHE_BYTES) {
        shard_cursor_free(empty_slot_locked(cache, cache->hand));
        cache->hand = (cache->hand + HAND_STEP) % SHARD_CACHE_SLOTS;
    }
    cache->slots[slot] = cursor;
    cache->bytes += memory_of(cursor);
    env_mutex_unlock(&cache->mutex);
}

uint64_t shard_cache_bytes(struct shard_cache *cache)
{
    env_mutex_lock(&cache->mutex);
    uint64_t bytes = cache->bytes;
    env_mutex_unlock(&cache->mutex);
    return bytes;
}
