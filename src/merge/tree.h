/* tree.h: which of many inputs has the smallest key: a tree of losers over codes (order.h).
 *
 * Each inner node holds who lost there; the winner of all stands apart. Every code is that of
 * the loser's key against the key of who beat it, so all on the winner's way up have their code
 * against the winner. When the winner's input moves on, its next key has its code against the
 * same one, and one walk up the tree, mostly comparing numbers, finds the next winner. */
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
    /* Decides between two whose codes are equal and not CODE_END: whether `a` comes first. Sets
     * the code of the other against the first. */
    bool (*first)(void *context, struct player *a, struct player *b);
    void *context;
};

/* Without a branch: which of two keys is the smaller cannot be foretold, and a wrong guess at
 * each level of the tree would cost more than all the rest. */
static inline void tree_swap_if(bool wanted, struct player *a, struct player *b)
{
    order_code code = (a->code ^ b->code) & (0 - (order_code)wanted);
    size_t input = (a->input ^ b->input) & (0 - (size_t)wanted);
    a->code ^= code;
    b->code ^= code;
    a->input ^= input;
    b->input ^= input;
}

/* The better of the two stays in `player`. */
static inline void tree_play(const struct tree *tree, struct player *player,
                             struct player *other)
{
    bool swap = other->code < player->code;
    if (__builtin_expect(other->code == player->code, 0) && player->code != CODE_END)
        swap = !tree->first(tree->context, player, other);
    tree_swap_if(swap, player, other);
}

/* The winner's input has moved on: the code of its next key, against the last one. */
static inline void tree_replay(struct tree *tree, order_code code)
{
    struct player player = { code, tree->winner.input };
    for (size_t node = (tree->count + player.input) / 2; node >= 1; node /= 2)
        tree_play(tree, &player, &tree->losers[node]);
    tree->winner = player;
}

/* All inputs at their first keys, with their codes against the empty key, in players[count] ..
 * players[2 * count - 1]; players[1] .. players[count - 1] become the losers. */
static inline void tree_build(struct tree *tree, struct player *players, size_t count)
{
    /* Winners move up in place, each leaving the loser behind, where it is found again: the
     * node's own room is still free when its children are done. */
    tree->losers = players;
    tree->count = count;
    for (size_t node = count - 1; node >= 1; node--) {
        struct player left = players[2 * node], right = players[2 * node + 1];
        tree_play(tree, &left, &right);
        players[node] = left;
        players[2 * node] = right; /* for a moment: the loser of this node */
    }
    tree->winner = players[1];
    for (size_t node = 1; node < count; node++)
        players[node] = players[2 * node];
}

#endif
