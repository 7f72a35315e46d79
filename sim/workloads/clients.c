/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c: starts the clients of a node, a task each, and waits for them. */
#include "sim/workloads/clients.h"

#include "base/check.h"

#include <stdlib.h>

static void run_clients(struct node *node, void *argument)
{
    const struct clients *clients = argument;
    struct one_client *mine = calloc(clients->count, sizeof *mine);
    struct env_task **tasks = calloc(clients->count, sizeof *tasks);
    struct hf_error error;
    size_t count = 0;
    check(mine && tasks);
    for (size_t i = node_number(node) - 1; i < clients->count;
         i += clients->run->options->nodes) {
        mine[count] = (struct one_client){ clients->state, node, i };
        check(env_task_start(node_env(node), clients->use, &mine[count], &tasks[count],
                             &error) == HF_OK);
        count++;
    }
    for (size_t i = 0; i < count; i++)
        env_task_join(node_env(node), tasks[i]);
    free(tasks);
    free(mine);
}

void clients_boot(struct clients *clients)
{
    for (unsigned i = 0; i < clients->run->options->nodes; i++)
        node_boot(world_node(clients->run->world, i), run_clients, clients);
}
