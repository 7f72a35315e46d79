/* SPDX-License-Identifier: Apache-2.0 */
/* lock_inside.h: declarations shared by the files of the lock workloads. lock_plan.c draws the
 * assumptions and the faults, lock_work.c drives the nodes while faults happen, and lock_calm.c
 * drives them during the fault-free phase. */
#ifndef SIM_WORKLOADS_LOCK_INSIDE_H
#define SIM_WORKLOADS_LOCK_INSIDE_H

#include "lock/client_inside.h"
#include "sim/workloads/lock_work.h"

#include <inttypes.h>

/* A lease that its holder has published so that other nodes can break or adopt it. */
struct notice {
    const struct lock_wish *wish;
    uint64_t token;
    bool passed; /* its holder leaves it to an adopter */
    char text[HF_LEASE_TEXT_MAX];
};

struct lock_work {
    struct run *run;
    struct lock_checker *checker;
    struct swap_checker *swap_checker;
    const struct lock_beside *beside; /* NULL: nothing */
    struct lock_plan plan;
    const struct lock_wish *wishes;
    size_t wish_count;
    bool once_per;
    bool mix_ttls;
    struct notice notice;
    /* For the first lock: the true time at which its completion was reported to a node (-1: never),
     * and the boot of that node's machine. */
    int64_t completed_us;
    int64_t began_us; /* not after that node was granted the lock */
    char completed_boot[64];
    unsigned left[NODES_MAX + 1];
    bool rested[NODES_MAX + 1];    /* has no work left */
    bool satisfied[NODES_MAX + 1]; /* has also acquired what it must get after the faults */
    bool finished[NODES_MAX + 1];
};

/* One incarnation of a node. */
struct process {
    struct lock_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
};

/* The additional work of a workload, with clients that have this D and these hours. */
struct lock_beside {
    struct span late_bound, hour;
    void *argument;
    bool keeps_tables; /* no table is deleted */
    /* All may be NULL, except `act`. Called for each new client: */
    void (*opened)(void *argument, struct process *process);
    /* Called when a process starts and when it ends; the result of `begin` is passed to `end`. */
    void *(*begin)(void *argument, struct process *process);
    void (*end)(void *argument, struct process *process, void *begun);
    void (*act)(void *argument, struct process *process);  /* occasionally, as an operation */
    void (*calm)(void *argument, struct process *process); /* when all others are done */
};

/* One handle and its use. */
struct use {
    struct process *process;
    const struct lock_wish *wish;
    struct hf_lock_options options;
    struct hf_lock *lock;
    struct claim *claim;
    struct claim_note note;
    bool cancelled; /* a task was started to cancel it */
    int64_t asked_us;
    int64_t refused_us; /* when it was last not granted: asked_us, or its last poll */
};

#define USE_TRACE(use, format, ...)                                                   \
    trace_line(world_trace((use)->process->work->run->world), "node %u: %s: " format, \
               node_number((use)->process->node), (use)->wish->scopes[0], __VA_ARGS__)

static inline int64_t process_true_now(const struct process *process)
{
    return world_now_us(process->work->run->world);
}

static inline uint64_t process_below(struct process *process, uint64_t bound)
{
    return env_random_u64(process->env) % bound;
}

static inline bool process_one_in(struct process *process, uint64_t count)
{
    return process_below(process, count) == 0;
}

static inline struct span process_up_to_ms(struct process *process, int64_t ms)
{
    return SPAN_MS((int64_t)process_below(process, (uint64_t)ms + 1));
}

/* lock_work.c */

/* The label is the same in every incarnation of the node, as it would be under a supervisor. */
void lock_client_open(struct process *process);

/* `final`: the use is during the fault-free phase, when the lease should be as long as possible. */
void lock_use_open(struct use *use, struct process *process, const struct lock_wish *wish,
                   bool final);
void lock_use_close(struct use *use);

/* Reports a grant; holds the lock for a while; lock_use_hold does both, and ends it in some way. */
void lock_use_granted(struct use *use, bool adopted);
void lock_use_keep(struct use *use);
void lock_use_hold(struct use *use, bool adopted);

/* The lock was not granted. The status must be one of those that are possible. */
void lock_use_refused(struct use *use, enum hf_status status, const struct hf_error *error);

/* lock_calm.c */

/* Waits for the fault-free phase and for the other nodes; then every operation must succeed. */
void lock_calm(struct process *process);

#endif
