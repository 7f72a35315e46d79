/* team.h: nodes that do so many operations each, rest when it is calm, and leave it to the first of
 * them to clear up alone:
 *
 *     while (team_goes_on(&team, node))
 *         ...;
 *     team_await_calm(&team, node);
 *     if (team_rests(&team, node, SETTLE, STEP)) {
 *         ...;
 *         team.settled = true;
 *     }
 *
 * It outlives its nodes: one that crashes goes on where it was. */
#ifndef SIM_TEAM_H
#define SIM_TEAM_H

#include "sim/run.h"

struct team {
    struct run *run;
    uint64_t left[NODES_MAX + 1]; /* operations of each node */
    bool rested[NODES_MAX + 1];
    bool settled; /* all is cleared up */
};

/* Shares the run's operations out. */
void team_init(struct team *team, struct run *run);

/* Whether there is an operation left for the node, which is counted as begun. */
bool team_goes_on(struct team *team, const struct node *node);

void team_await_calm(const struct team *team, struct node *node);

/* The node rests. True: it is the one that clears up; what was under way when the calm came has had
 * time to settle, and the others rest, too, which was looked at each `step`. */
bool team_rests(struct team *team, struct node *node, struct span settle, struct span step);

#endif
