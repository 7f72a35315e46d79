/* SPDX-License-Identifier: Apache-2.0 */
/* team.h: nodes that each do a number of operations and then rest in the calm, while the
 * first of them cleans up alone:
 *
 *     while (team_goes_on(&team, node))
 *         ...;
 *     team_await_calm(&team, node);
 *     if (team_rests(&team, node, SETTLE, STEP)) {
 *         ...;
 *         team.settled = true;
 *     }
 *
 * The team outlives its nodes: a node that crashed continues where it was. */
#ifndef SIM_WORLD_TEAM_H
#define SIM_WORLD_TEAM_H

#include "sim/run.h"

struct team {
    struct run *run;
    uint64_t left[NODES_MAX + 1]; /* operations of each node */
    bool rested[NODES_MAX + 1];
    bool settled; /* everything is cleaned up */
};

/* Distributes the run's operations among the nodes. */
void team_init(struct team *team, struct run *run);

/* Whether an operation is left for the node; it is then counted as begun. */
bool team_goes_on(struct team *team, const struct node *node);

void team_await_calm(const struct team *team, struct node *node);

/* The node rests. True: this node cleans up. By then, requests that were in flight when the
 * calm began have had time to arrive, and the other nodes rest too, which is checked every
 * `step`. */
bool team_rests(struct team *team, struct node *node, struct span settle, struct span step);

#endif
