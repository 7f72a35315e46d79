/* SPDX-License-Identifier: Apache-2.0 */
/* sim_stage.h: one node, the simulated store and the way between them; a program that writes and
 * reads, and writes down what it was told. */
#ifndef SIM_STAGE_H
#define SIM_STAGE_H

#include "sim/faults/chaos.h"
#include "test.h"

#define ALWAYS 1000000

/* In a program, where the test framework's way out does not lead. */
#define EXPECT(world, condition)                                               \
    do {                                                                       \
        if (!(condition))                                                      \
            world_fail((world), "line %d: expected %s", __LINE__, #condition); \
    } while (0)

struct stage {
    struct net_options options;
    struct world *world;
    struct net *net;
    struct node *node;
    /* what a program saw */
    enum hf_status put;
    enum hf_status get;
    enum hf_status second_put;
    struct store_stamp stamp;
    int64_t put_took_us;
    struct view body_at_answer; /* what the store held when the put was answered */
};

struct stage new_stage(void);
void open_stage(struct stage *stage);
void open_stage_of(struct stage *stage, uint64_t seed);
void close_stage(struct stage *stage);

/* Boots the node with the program and runs until nothing is left to happen. */
void run_stage(struct stage *stage, node_program *program);

/* What the store holds. */
struct view held(struct stage *stage, struct view key);
uint64_t faults(struct stage *stage, enum fault fault);

enum hf_status stage_put(struct store *store, struct view key, struct view body,
                         struct condition condition, struct put_call *call);
enum hf_status get(struct store *store, struct view key);

/* A program. */
void put_and_get(struct node *node, void *argument);

#endif
