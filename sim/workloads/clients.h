/* SPDX-License-Identifier: Apache-2.0 */
/* clients.h: many clients on few nodes, for workloads that count requests. The clients of one node
 * are independent of each other, like processes. */
#ifndef SIM_WORKLOADS_CLIENTS_H
#define SIM_WORKLOADS_CLIENTS_H

#include "sim/run.h"

struct one_client {
    void *state; /* of the workload */
    struct node *node;
    size_t index; /* from 0 */
};

/* Must stay valid until the run has ended. */
struct clients {
    struct run *run;
    size_t count;
    void (*use)(void *one_client); /* what each of them does */
    void *state;
};

/* Boots all nodes, each of which runs its share of the clients. */
void clients_boot(struct clients *clients);

#endif
