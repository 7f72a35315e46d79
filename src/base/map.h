/* map.h: an ordered map from byte strings to pointers: a crit-bit tree.
 *
 * Lookup costs one walk of the bits in which the keys differ and one comparison; iteration is
 * in byte order and can start anywhere. The map keeps views: each key must live, unmoved, as
 * long as its entry, usually inside the value itself. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/view.h"

#include <stdbool.h>

struct map_node;

struct map {
    struct map_node *root;
    size_t count;
};

#define MAP_INIT ((struct map){ NULL, 0 })

/* Frees the tree, not the values. */
void map_release(struct map *map);

/* The value of a key, or NULL. */
void *map_get(const struct map *map, struct view key);

/* Puts a value, never NULL, under a key that may be there already; then *ret_old is the value
 * it replaces, whose key the map no longer uses, else NULL. False without memory. */
bool map_put(struct map *map, struct view key, void *value, void **ret_old);

/* Takes a key out; returns its value, or NULL if it was not there. */
void *map_take(struct map *map, struct view key);

/* The value of the first key that is >= (or, with `beyond`, >) the one given; NULL at the end.
 */
void *map_seek(const struct map *map, struct view key, bool beyond);

#endif
