/* run.h: one seed, one run: a world is made of the seed, a workload runs in it among faults
 * until nothing is left to happen, and its judge says whether all was well.
 *
 * A workload is what nodes do and a judge of it. The judge stands outside: it may look at
 * what the store applied (bucket_add_watch) and at what nodes were told (which the programs
 * write down in the workload's state), never into the code under test. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim/chaos.h"

#define OPERATIONS_MAX 100000

struct run_options {
    uint64_t seed;
    unsigned nodes;           /* 1 to NODES_MAX */
    unsigned operations;      /* of all nodes together, 1 to OPERATIONS_MAX */
    bool calm;                /* no faults at all */
    bool ignore_conditions;   /* a store that does not keep its word: a judge must notice */
    struct crash_at crash_at; /* calm, but for this crash */
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

/* What a workload gets to work with. */
struct run {
    const struct run_options *options;
    struct world *world;
    struct net *net;
    int64_t calm_us; /* true time from which on nothing new goes wrong */
    uint64_t operations_started;
};

/* All that is drawn for a seed before it begins: the store and the network, what happens to nodes
 * and clocks, and how well machines keep time. */
struct plans {
    struct net_options net;
    struct chaos_plan chaos;
    struct node_options nodes; /* `beside` is set where the store is a local one, ... */
    bool apart; /* ... unless it lies on a file system that each node's machine shares */
};

struct workload {
    const char *name;
    const char *about;
    /* May be NULL. Makes the plans that were drawn for this seed its own. */
    void (*tune)(struct run *run, struct plans *plans);
    /* Makes the state, adds watches and boots the nodes. */
    void *(*start)(struct run *run);
    /* After the run: world_fail for what must not be. */
    void (*judge)(struct run *run, void *state);
    void (*free)(void *state);
};

/* For workloads: an operation has been started that really asks for something. */
void run_count_operation(struct run *run);

extern const struct workload workload_bank;
extern const struct workload workload_compact;
extern const struct workload workload_counter;
extern const struct workload workload_doc;
extern const struct workload workload_elect;
extern const struct workload workload_epochs;
extern const struct workload workload_index;
extern const struct workload workload_locks;
extern const struct workload workload_race;
extern const struct workload workload_fenced;
extern const struct workload workload_ranges;
extern const struct workload workload_sweep;

/* All workloads, NULL at the end. */
extern const struct workload *const workloads[];

/* NULL when there is none of that name. */
const struct workload *workload_find(struct view name);

struct run_result {
    bool ok;
    char failure[WORLD_FAILURE_MAX];
    uint64_t hash;
    uint64_t lines;
    uint64_t steps;
    uint64_t requests;
    uint64_t requests_in_chaos; /* before the calm */
    int64_t time_us;
    uint64_t operations; /* that were started */
    struct faults faults;
};

void run_seed(const struct run_options *options, struct run_result *ret_result);

#endif
