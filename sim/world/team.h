/* SPDX-License-Identifier: Apache-2.0 */
/* team.h: nodes that each perform a number of operations. During the fault-free phase at the end,
 * they stay idle while the first node cleans up alone:
 *
 *     while (team_goes_on(&team, node))
 *         ...;
 *     team_await_calm(&team, node);
 *     if (team_rests(&team, node, SETTLE, STEP)) {
 *         ...;
 *         team.settled = true;
 *     }
 *
 * The team outlives its nodes, so a restarted node continues where it was before the crash. */
#ifndef SIM_WORLD_TEAM_H
#define SIM_WORLD_TEAM_H

#include "sim/run.h"

struct team {
    struct run *run;
    uint64_t left[NODES_MAX + 1]; /* the operations left for each node */
    bool rested[NODES_MAX + 1];
    bool settled; /* everything is cleaned up */
};

/* Distributes the run's operations among the nodes. */
void team_init(struct team *team, struct run *run);

/* Whether an operation is left for the node; if so, counts it as begun. */
bool team_goes_on(struct team *team, const struct node *node);

void team_await_calm(const struct team *team, struct node *node);

/* Records that the node is idle. Returns true if this node is the one that cleans up. In that case,
 * the call returns only when requests that were in flight at the start of the fault-free phase have
 * had time to arrive (`settle`) and the other nodes are idle too, which is checked every `step`. */
bool team_rests(struct team *team, struct node *node, struct span settle, struct span step);

#endif
