/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h: finds the input with the smallest key: a tree of losers over codes (order.h).
 *
 * Each inner node contains the loser of its match; the overall winner is stored separately. The
 * code of a loser is relative to the key that won against it, so all codes on the winner's path are
 * relative to the winner. When the winner's input advances, the code of its next key is relative to
 * the winner too. One walk up the tree, which mostly compares numbers, finds the next winner. */
#ifndef MERGE_TREE_H
#define MERGE_TREE_H

#include "merge/order.h"

#include <stdbool.h>

struct player {
    order_code code;
    size_t input;
};

struct tree {
    struct player *losers; /* [1, count); the parent of leaf i is (count + i) / 2 */
    size_t count;
    struct player winner;
    /* Decides between two players whose codes are equal and not CODE_END: whether `a` comes first.
     * Sets the code of the other one relative to the first. */
    bool (*first)(void *context, struct player *a, struct player *b);
    void *context;
};

/* For equal codes: returns the better player and keeps the other. This is a separate function,
 * because variables whose address is taken cannot stay in registers. */
__attribute__((noinline)) static struct player tree_tie(const struct tree *tree,
                                                        struct player player,
                                                        struct player *node)
{
    struct player other = *node;
    bool first = player.code == CODE_END || tree->first(tree->context, &player, &other);
    *node = first ? other : player;
    return first ? player : other;
}

/* Leaves the better of the two in *code and *input, and the other in the node. Which key is smaller
 * is unpredictable, and one mispredicted branch per level would cost more than everything else. So
 * there is a branch only for equal codes, and masks are used where a compiler would branch. */
static inline void tree_play(const struct tree *tree, order_code *code, size_t *input,
                             struct player *node)
{
    uint64_t high = (uint64_t)(*code >> 64), low = (uint64_t)*code;
    uint64_t other_high = (uint64_t)(node->code >> 64), other_low = (uint64_t)node->code;
    if (__builtin_expect(((high ^ other_high) | (low ^ other_low)) == 0, 0)) {
        struct player first = tree_tie(tree, (struct player){ *code, *input }, node);
        *code = first.code;
        *input = first.input;
        return;
    }
    uint64_t mask = order_less_mask(node->code, *code);
    uint64_t change_high = (high ^ other_high) & mask;
    uint64_t change_low = (low ^ other_low) & mask;
    size_t change_input = (*input ^ node->input) & mask;
    node->code = (order_code)(other_high ^ change_high) << 64 | (other_low ^ change_low);
    node->input ^= change_input;
    *code = (order_code)(high ^ change_high) << 64 | (low ^ change_low);
    *input ^= change_input;
}

/* The winner's input has advanced. `code` is the code of its next key, relative to the last one. */
static inline void tree_replay(struct tree *tree, order_code code)
{
    size_t input = tree->winner.input;
    struct player *losers = tree->losers;
    for (size_t node = (tree->count + input) / 2; node >= 1; node /= 2)
        tree_play(tree, &code, &input, &losers[node]);
    tree->winner.code = code;
    tree->winner.input = input;
}

/* Starts with all inputs at their first keys. Their codes, relative to the empty key, are in
 * players[count] .. players[2 * count - 1]; players[1] .. players[count - 1] become the losers. */
static inline void tree_build(struct tree *tree, struct player *players, size_t count)
{
    /* Winners move up in place. Each loser is first stored in its node's left child, which is free
     * by then, and is moved to the node itself at the end. */
    tree->losers = players;
    tree->count = count;
    for (size_t node = count - 1; node >= 1; node--) {
        struct player winner = players[2 * node], loser = players[2 * node + 1];
        tree_play(tree, &winner.code, &winner.input, &loser);
        players[node] = winner;
        players[2 * node] = loser; /* temporarily */
    }
    tree->winner = players[1];
    for (size_t node = 1; node < count; node++)
        players[node] = players[2 * node];
}

#endif
