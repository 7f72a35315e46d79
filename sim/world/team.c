/* SPDX-License-Identifier: Apache-2.0 */
/* team.c: distributes operations among nodes, and chooses the node that cleans up during the
 * fault-free phase; see team.h. */
#include "sim/world/team.h"

#define AWAIT_TRIES_MAX 1000

void team_init(struct team *team, struct run *run)
{
    *team = (struct team){ .run = run };
    for (unsigned i = 0; i < run->options->operations; i++)
        team->left[1 + i % run->options->nodes]++;
}

bool team_goes_on(struct team *team, const struct node *node)
{
    unsigned number = node_number(node);
    if (team->left[number] == 0)
        return false;
    team->left[number]--;
    run_count_operation(team->run);
    return true;
}

static void sleep_until_true(const struct team *team, struct node *node, int64_t true_us)
{
    if (world_now_us(team->run->world) < true_us)
        env_sleep_until(node_env(node), node_moment(node, true_us));
}

void team_await_calm(const struct team *team, struct node *node)
{
    sleep_until_true(team, node, team->run->calm_us);
}

bool team_rests(struct team *team, struct node *node, struct span settle, struct span step)
{
    team->rested[node_number(node)] = true;
    if (node_number(node) != 1 || team->settled)
        return false;
    sleep_until_true(team, node, team->run->calm_us + settle.us);
    for (unsigned i = 1; i <= team->run->options->nodes; i++)
        for (int tries = 0; !team->rested[i] && tries < AWAIT_TRIES_MAX; tries++)
            env_sleep(node_env(node), step);
    return true;
}
