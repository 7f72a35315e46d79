/* SPDX-License-Identifier: Apache-2.0 */
/* map.c: a crit-bit tree. Walks use loops instead of recursion, so a deep tree cannot exhaust
 * the stack. */
#include "base/map.h"

#include "base/check.h"

#include <stdint.h>
#include <stdlib.h>

/* A key is read as nine-bit symbols: a 1 followed by the byte, or all zeros after the end of the
 * key. So a key that is a prefix of another differs from it, and sorts before it. */
#define BITS_PER_BYTE 9
#define LEAF          SIZE_MAX

/* An inner node contains the number of the first bit in which the keys below it differ. Bit numbers
 * increase on the way down. A leaf holds an entry. */
struct map_node {
    size_t bit; /* LEAF in a leaf */
    union {
        struct map_node *child[2];
        struct {
            struct view key;
            void *value;
        };
    };
};

static struct map_node *take_node(struct map *map)
{
    struct map_node *node = map->spare;
    if (!node)
        return malloc(sizeof *node);
    map->spare = node->child[0];
    map->spare_count--;
    return node;
}

static void give_node(struct map *map, struct map_node *node)
{
    if (map->spare_count >= map->spare_max) {
        free(node);
        return;
    }
    node->child[0] = map->spare;
    map->spare = node;
    map->spare_count++;
}

static unsigned bit_of(struct view key, size_t bit)
{
    size_t byte = bit / BITS_PER_BYTE;
    size_t within = bit % BITS_PER_BYTE;
    if (byte >= key.size)
        return 0;
    return within == 0 ? 1 : (unsigned)(unsigned char)key.data[byte] >> (8 - within) & 1;
}

/* The first bit in which two different keys differ. */
static size_t first_difference(struct view a, struct view b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    size_t byte = 0;
    while (byte < common && a.data[byte] == b.data[byte])
        byte++;
    if (byte == common)
        return byte * BITS_PER_BYTE;
    unsigned differ = (unsigned)((unsigned char)a.data[byte] ^ (unsigned char)b.data[byte]);
    size_t within = 1;
    while (!(differ >> (8 - within) & 1))
        within++;
    return byte * BITS_PER_BYTE + within;
}

void map_release(struct map *map)
{
    /* Frees the tree without recursion: rotates left children to the right until there are
     * none. */
    struct map_node *node = map->root;
    while (node) {
        struct map_node *next = NULL;
        if (node->bit != LEAF) {
            struct map_node *left = node->child[0];
            if (left && left->bit != LEAF) {
                node->child[0] = left->child[1];
                left->child[1] = node;
                node = left;
                continue;
            }
            free(left);
            next = node->child[1];
        }
        free(node);
        node = next;
    }
    while (map->spare) {
        struct map_node *next_spare = map->spare->child[0];
        free(map->spare);
        map->spare = next_spare;
    }
    *map = MAP_INIT;
}

/* The leaf that is reached by following the bits of the key. It is the leaf of the key if the key
 * is in the map. */
static struct map_node *likely_leaf(const struct map *map, struct view key)
{
    struct map_node *node = map->root;
    while (node && node->bit != LEAF)
        node = node->child[bit_of(key, node->bit)];
    return node;
}

void *map_get(const struct map *map, struct view key)
{
    struct map_node *leaf = likely_leaf(map, key);
    return leaf && view_equal(leaf->key, key) ? leaf->value : NULL;
}

static bool insert_leaf(struct map *map, struct view key, void *value, size_t bit)
{
    struct map_node *leaf = take_node(map);
    struct map_node *inner = map->root ? take_node(map) : NULL;
    if (!leaf || (map->root && !inner)) {
        free(leaf);
        free(inner);
        return false;
    }
    *leaf = (struct map_node){ .bit = LEAF, .key = key, .value = value };
    struct map_node **at = &map->root;
    if (inner) {
        while ((*at)->bit < bit)
            at = &(*at)->child[bit_of(key, (*at)->bit)];
        unsigned side = bit_of(key, bit);
        inner->bit = bit;
        inner->child[side] = leaf;
        inner->child[!side] = *at;
    }
    *at = inner ? inner : leaf;
    map->count++;
    return true;
}

bool map_put(struct map *map, struct view key, void *value, void **ret_old)
{
    check(value != NULL);
    struct map_node *leaf = likely_leaf(map, key);
    if (leaf && view_equal(leaf->key, key)) {
        *ret_old = leaf->value;
        leaf->key = key;
        leaf->value = value;
        return true;
    }
    *ret_old = NULL;
    return insert_leaf(map, key, value, leaf ? first_difference(leaf->key, key) : 0);
}

void *map_take(struct map *map, struct view key)
{
    struct map_node **above = NULL, **at = &map->root;
    while (*at && (*at)->bit != LEAF) {
        above = at;
        at = &(*at)->child[bit_of(key, (*at)->bit)];
    }
    struct map_node *leaf = *at;
    if (!leaf || !view_equal(leaf->key, key))
        return NULL;
    void *value = leaf->value;
    if (above) {
        struct map_node *inner = *above;
        *above = inner->child[at == &inner->child[0]];
        give_node(map, inner);
    } else {
        map->root = NULL;
    }
    give_node(map, leaf);
    map->count--;
    return value;
}

static void *first_value(const struct map_node *node)
{
    while (node && node->bit != LEAF)
        node = node->child[0];
    return node ? node->value : NULL;
}

void *map_seek(const struct map *map, struct view key, bool beyond)
{
    struct map_node *likely = likely_leaf(map, key);
    if (!likely)
        return NULL;
    bool found = view_equal(likely->key, key);
    size_t bit = found ? LEAF : first_difference(likely->key, key);

    /* Go down to where the key is or would be. The next larger keys are in the right subtree of the
     * last node at which the walk went left. */
    const struct map_node *node = map->root, *next = NULL;
    while (node->bit < bit) {
        unsigned side = bit_of(key, node->bit);
        if (side == 0)
            next = node->child[1];
        node = node->child[side];
    }
    bool here = found ? !beyond : bit_of(key, bit) == 0;
    return first_value(here ? node : next);
}
