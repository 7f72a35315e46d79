/* SPDX-License-Identifier: Apache-2.0 */
/* listed.c: collects names in any order. Once there are twice as many as are kept, the larger half
 * is dropped, and every later name that is larger than the kept ones is dropped at once. */
#include "store/s3/listed.h"

#include <stdlib.h>

static int compare_listed(const void *a, const void *b)
{
    return view_compare(((const struct list_entry *)a)->key,
                        ((const struct list_entry *)b)->key);
}

static void sort_listed(struct listed *names)
{
    size_t kept = 0;
    if (names->count == 0)
        return;
    qsort(names->entries, names->count, sizeof *names->entries, compare_listed);
    for (size_t i = 1; i < names->count; i++)
        if (compare_listed(&names->entries[kept], &names->entries[i]) != 0)
            names->entries[++kept] = names->entries[i];
    names->count = kept + 1;
}

/* Sorts, and keeps the first LISTED_MAX names, whose keys move to an arena of their own. */
static bool shorten_listed(struct listed *names)
{
    struct arena arena = ARENA_INIT;
    sort_listed(names);
    if (names->count <= LISTED_MAX)
        return true;
    for (size_t i = 0; i < LISTED_MAX; i++) {
        struct view *key = &names->entries[i].key;
        *key = arena_copy(&arena, *key);
        if (!key->data) {
            names->count = 0; /* its keys are in two arenas */
            arena_release(&arena);
            return false;
        }
    }
    names->count = LISTED_MAX;
    names->cut = true;
    arena_release(&names->arena);
    names->arena = arena;
    return true;
}

static bool grow_listed(struct listed *names)
{
    if (names->count < names->capacity)
        return true;
    size_t capacity = names->capacity > 0 ? 2 * names->capacity : 256;
    if (names->capacity == 2 * (size_t)LISTED_MAX)
        return shorten_listed(names);
    if (capacity > 2 * (size_t)LISTED_MAX)
        capacity = 2 * (size_t)LISTED_MAX;
    struct list_entry *entries = realloc(names->entries, capacity * sizeof *entries);
    if (!entries)
        return false;
    names->entries = entries;
    names->capacity = capacity;
    return true;
}

bool listed_add(struct listed *names, const struct list_entry *entry)
{
    /* After a cut, the first LISTED_MAX entries are sorted and bound all others. */
    if (names->cut && view_compare(entry->key, names->entries[LISTED_MAX - 1].key) > 0)
        return true;
    if (!grow_listed(names))
        return false;
    struct list_entry *added = &names->entries[names->count];
    *added = *entry;
    added->key = arena_copy(&names->arena, entry->key);
    names->count += added->key.data != NULL;
    return added->key.data != NULL;
}

bool listed_end(struct listed *names)
{
    return shorten_listed(names);
}

size_t listed_find(const struct listed *names, struct view from, bool beyond)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = view_compare(names->entries[middle].key, from);
        if (order < 0 || (beyond && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void listed_release(struct listed *names)
{
    arena_release(&names->arena);
    free(names->entries);
    names->entries = NULL;
    names->count = names->capacity = 0;
}
