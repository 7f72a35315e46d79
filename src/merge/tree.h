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

/* Equal codes: the better of the two is returned, the other stays. Apart from the rest, since what
 * has an address cannot stay in registers. */
__attribute__((noinline)) static struct player tree_tie(const struct tree *tree,
                                                        struct player player,
                                                        struct player *node)
{
    struct player other = *node;
    bool first = player.code == CODE_END || tree->first(tree->context, &player, &other);
    *node = first ? other : player;
    return first ? player : other;
}

/* The better of the two is in *code and *input then, the other stays. Which of two keys is the
 * smaller cannot be foretold, and a wrong guess at each level of the tree would cost more than
 * all the rest: so nothing here is a branch but for equal codes, and masks stand where a compiler
 * would make one. */
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

/* The winner's input has moved on: the code of its next key, against the last one. */
static inline void tree_replay(struct tree *tree, order_code code)
{
    size_t input = tree->winner.input;
    struct player *losers = tree->losers;
    for (size_t node = (tree->count + input) / 2; node >= 1; node /= 2)
        tree_play(tree, &code, &input, &losers[node]);
    tree->winner.code = code;
    tree->winner.input = input;
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
        struct player winner = players[2 * node], loser = players[2 * node + 1];
        tree_play(tree, &winner.code, &winner.input, &loser);
        players[node] = winner;
        players[2 * node] = loser; /* for a moment */
    }
    tree->winner = players[1];
    for (size_t node = 1; node < count; node++)
        players[node] = players[2 * node];
}

#endif
