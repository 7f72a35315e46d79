/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_index.c: the index that maps keys to their states: a hash table with open addressing. */
#include "base/check.h"
#include "base/hash.h"
#include "compact/catalog/catalog_inside.h"

#include <stdlib.h>

#define ROOM_MIN 64

void key_index_release(struct key_index *index)
{
    free(index->slots);
    *index = (struct key_index){ 0 };
}

static struct view slot_key(const struct key_slot *slot)
{
    return (struct view){ slot->data, slot->size };
}

/* The slot of a key, or the empty slot where it belongs. */
static size_t find_slot(const struct key_index *index, struct view key, uint32_t hash)
{
    size_t mask = index->room - 1, at = hash & mask;
    while (index->slots[at].data &&
           !(index->slots[at].hash == hash && view_equal(slot_key(&index->slots[at]), key)))
        at = (at + 1) & mask;
    return at;
}

bool key_index_reserve(struct key_index *index, size_t more)
{
    size_t room = index->room ? index->room : ROOM_MIN;
    while (room / 3 * 2 < index->count + more)
        room *= 2;
    if (room == index->room)
        return true;
    struct key_index grown = { calloc(room, sizeof *grown.slots), room, index->count };
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < index->room; i++) {
        const struct key_slot *slot = &index->slots[i];
        if (slot->data)
            grown.slots[find_slot(&grown, slot_key(slot), slot->hash)] = *slot;
    }
    free(index->slots);
    *index = grown;
    return true;
}

const struct key_slot *key_index_get(const struct key_index *index, struct view key)
{
    if (index->count == 0 || key.size == 0)
        return NULL;
    const struct key_slot *slot =
        &index->slots[find_slot(index, key, (uint32_t)hash_xxh3(key))];
    return slot->data ? slot : NULL;
}

void key_index_put(struct key_index *index, struct view key, enum chunk_state state,
                   uint64_t serial)
{
    check(key.size > 0 && key.size <= UINT32_MAX && index->count < index->room);
    uint32_t hash = (uint32_t)hash_xxh3(key);
    struct key_slot *slot = &index->slots[find_slot(index, key, hash)];
    if (!slot->data)
        index->count++;
    *slot = (struct key_slot){ key.data, (uint32_t)key.size, hash, serial, state };
}

/* An empty slot would end the probe sequences that pass over it, so later entries are moved up to
 * fill the hole. */
void key_index_drop(struct key_index *index, struct view key)
{
    if (index->count == 0 || key.size == 0)
        return;
    size_t mask = index->room - 1;
    size_t hole = find_slot(index, key, (uint32_t)hash_xxh3(key));
    if (!index->slots[hole].data)
        return;
    for (size_t at = (hole + 1) & mask; index->slots[at].data; at = (at + 1) & mask) {
        size_t home = index->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            index->slots[hole] = index->slots[at];
            hole = at;
        }
    }
    index->slots[hole] = (struct key_slot){ 0 };
    index->count--;
}
