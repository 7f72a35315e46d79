/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: runs one seed: builds a world from the seed, runs a workload with faults in it until no
 * event is left, and asks the workload's checker for the result.
 *
 * A workload consists of the program that the nodes run and a checker. The checker may use the
 * writes that the store applied (bucket_add_watch) and the results that the nodes got, which the
 * program records in the workload's state. It never uses the code under test. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim/faults/chaos.h"

#define OPERATIONS_MAX 100000

struct run_options {
    uint64_t seed;
    unsigned nodes;           /* 1 to NODES_MAX */
    unsigned operations;      /* by all nodes together, 1 to OPERATIONS_MAX */
    bool calm;                /* no faults at all */
    bool ignore_conditions;   /* the store ignores conditions; a checker must notice */
    struct crash_at crash_at; /* no faults except for this crash */
    struct fault_limits limits;
    enum trace_mode trace;
    FILE *trace_out;
    const struct workload *workload;
};

#define RUN_OPTIONS                                \
    ((struct run_options){ .seed = 1,              \
                           .nodes = 5,             \
                           .operations = 50,       \
                           .limits = FAULT_LIMITS, \
                           .trace = TRACE_HASH })

/* The context of a workload. */
struct run {
    const struct run_options *options;
    struct world *world;
    struct net *net;
    int64_t calm_us; /* true time from which no new fault begins */
    uint64_t operations_started;
};

/* The plans for a seed: the store and the network, node and clock faults, and the accuracy of the
 * machines' clocks. */
struct plans {
    struct net_options net;
    struct chaos_plan chaos;
    struct node_options nodes; /* `beside` is set if the store is local, ... */
    bool apart; /* ... unless it is on a file system that the nodes' machines share */
};

struct workload {
    const char *name;
    const char *about;
    /* May be NULL. Adjusts the plans that were drawn for this seed. */
    void (*tune)(struct run *run, struct plans *plans);
    /* Creates the state, adds watches and boots the nodes. */
    void *(*start)(struct run *run);
    /* Called after the run; calls world_fail for each violated guarantee. */
    void (*check_at_end)(struct run *run, void *state);
    void (*free)(void *state);
    /* It counts requests, in a network and with faults of its own plan. So neither a store without
     * conditions nor faults that are added or left out tell anything about it. */
    bool counts_requests;
    uint64_t steps_max; /* 0: as many as in any other world */
};

/* For workloads: counts an operation that sends requests. */
void run_count_operation(struct run *run);

extern const struct workload workload_bank;
extern const struct workload workload_compact;
extern const struct workload workload_counter;
extern const struct workload workload_crowd;
extern const struct workload workload_doc;
extern const struct workload workload_drop;
extern const struct workload workload_elect;
extern const struct workload workload_epochs;
extern const struct workload workload_handover;
extern const struct workload workload_index;
extern const struct workload workload_locks;
extern const struct workload workload_newcomers;
extern const struct workload workload_outage;
extern const struct workload workload_plain;
extern const struct workload workload_race;
extern const struct workload workload_fenced;
extern const struct workload workload_ranges;
extern const struct workload workload_claims;
extern const struct workload workload_pages;
extern const struct workload workload_scale;
extern const struct workload workload_serve;
extern const struct workload workload_steps;
extern const struct workload workload_sweep;
extern const struct workload workload_upgrade;

/* All workloads; NULL-terminated. */
extern const struct workload *const workloads[];

/* NULL if there is no workload with that name. */
const struct workload *workload_find(struct view name);

struct run_result {
    bool ok;
    char failure[WORLD_FAILURE_MAX];
    uint64_t hash;
    uint64_t lines;
    uint64_t steps;
    uint64_t requests;
    uint64_t requests_in_chaos; /* before the fault-free phase */
    int64_t time_us;
    uint64_t operations; /* how many were started */
    struct faults faults;
};

void run_seed(const struct run_options *options, struct run_result *ret_result);

#endif
