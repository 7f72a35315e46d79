/* SPDX-License-Identifier: Apache-2.0 */
/* map.h: an ordered map from byte strings to pointers: a crit-bit tree.
 *
 * A lookup takes one walk over the bits in which the keys differ, and one comparison. Iteration is
 * in byte order and can start anywhere. The map keeps only a view of each key. The key must stay
 * valid, at the same address, as long as its entry exists; usually it is part of the value
 * itself. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/view.h"

#include <stdbool.h>

struct map_node;

struct map {
    struct map_node *root;
    size_t count;
    struct map_node *spare; /* nodes that were freed, to be used again */
    size_t spare_count, spare_max;
};

#define MAP_INIT ((struct map){ NULL, 0, NULL, 0, 0 })

/* A map in which entries come and go all the time: it keeps memory for this many nodes, of which
 * each entry needs two. It must be released even if it is empty. */
#define MAP_INIT_BUSY(spare) ((struct map){ NULL, 0, NULL, 0, (spare) })

/* Frees the tree, but not the values. */
void map_release(struct map *map);

/* The value of a key, or NULL. */
void *map_get(const struct map *map, struct view key);

/* Stores a value, which must not be NULL, under a key. If the key exists, *ret_old is the value
 * that was replaced, and the map no longer uses the old key. Otherwise *ret_old is NULL. Returns
 * false if memory runs out. */
bool map_put(struct map *map, struct view key, void *value, void **ret_old);

/* Removes a key and returns its value, or NULL if it was not in the map. */
void *map_take(struct map *map, struct view key);

/* The value of the first key that is >= (with `beyond`: >) the given one; NULL if there is none. */
void *map_seek(const struct map *map, struct view key, bool beyond);

#endif
