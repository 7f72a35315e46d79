/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h: a client of one small document, for workloads that count requests: the document contains
 * how many changes it has had, and which change of which client was the last. */
#ifndef SIM_WORKLOADS_TALLY_H
#define SIM_WORKLOADS_TALLY_H

#include "doc/doc.h"
#include "sim/run.h"
#include "store/observe.h"

struct tally_client {
    struct node *node;
    uint64_t id;      /* from 1; the writer of its changes */
    uint64_t changes; /* how many it has begun */
    struct store *store;
    struct doc_clock clock;
    struct doc *doc;
};

/* Opens a store of its own, whose calls the observer sees, and the document. */
void tally_open(struct tally_client *client, struct net *net, struct node *node, uint64_t id,
                struct view key, struct observer observer);
void tally_close(struct tally_client *client);

/* Makes one change, within this time. */
enum hf_status tally_change(struct tally_client *client, struct span patience);

#endif
