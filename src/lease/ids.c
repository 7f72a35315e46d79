/* SPDX-License-Identifier: Apache-2.0 */
/* ids.c: a hash table from ids to positions in a lease table, used while a document is being
 * decoded. It finds duplicate ids without comparing all pairs. */
#include "base/hash.h"
#include "lease/table_inside.h"

#include <stdlib.h>

static struct view id_at(const struct lease_table *table, size_t place)
{
    return place < table->lease_count
               ? table->leases[place]->id
               : table->waiters[place - table->lease_count].wanted->asked.id;
}

/* The slot of an id, or the empty slot where it belongs. At most half of the slots are used, so
 * the search always ends. */
static struct id_slot *slot_of(const struct ids *ids, struct view id, uint32_t hash)
{
    size_t at = hash & (ids->room - 1);
    for (; ids->slots[at].place; at = (at + 1) & (ids->room - 1))
        if (ids->slots[at].hash == hash &&
            view_equal(id_at(ids->table, ids->slots[at].place - 1), id))
            break;
    return &ids->slots[at];
}

bool ids_init(struct ids *ids, const struct lease_table *table, bool *ret_unique)
{
    size_t count = table->lease_count + table->waiter_count, room = 16;
    while (room < 2 * count)
        room *= 2;
    *ids = (struct ids){ .table = table, .room = room };
    ids->slots = calloc(room, sizeof *ids->slots);
    if (!ids->slots)
        return false;
    *ret_unique = true;
    for (size_t i = 0; i < count; i++) {
        struct view id = id_at(table, i);
        uint32_t hash = (uint32_t)hash_xxh3(id);
        struct id_slot *slot = slot_of(ids, id, hash);
        *ret_unique = *ret_unique && slot->place == 0;
        *slot = (struct id_slot){ hash, (uint32_t)(i + 1) };
    }
    return true;
}

void ids_release(struct ids *ids)
{
    free(ids->slots);
    ids->slots = NULL;
}

static size_t place_of(const struct ids *ids, struct view id)
{
    const struct id_slot *slot = slot_of(ids, id, (uint32_t)hash_xxh3(id));
    return slot->place ? slot->place - 1 : NOWHERE;
}

size_t ids_lease(const struct ids *ids, struct view id)
{
    size_t place = place_of(ids, id);
    return place < ids->table->lease_count ? place : NOWHERE;
}

size_t ids_waiter(const struct ids *ids, struct view id)
{
    size_t place = place_of(ids, id);
    bool waits = place != NOWHERE && place >= ids->table->lease_count;
    return waits ? place - ids->table->lease_count : NOWHERE;
}
