/* lock_inside.h: what the workloads of locks are made of, for their own files: lock_plan.c
 * draws what is assumed and what happens, lock_work.c is what nodes do while anything may,
 * lock_calm.c what they do once nothing does. */
#ifndef SIM_LOCK_INSIDE_H
#define SIM_LOCK_INSIDE_H

#include "lock/client.h"
#include "sim/lock_work.h"

#include <inttypes.h>

/* A lease that its holder has made known, to be broken or adopted by others. */
struct notice {
    const struct lock_wish *wish;
    uint64_t token;
    bool passed; /* its holder leaves it to whoever adopts it */
    char text[HF_LEASE_TEXT_MAX];
};

struct lock_work {
    struct run *run;
    struct judge_lock *judge;
    struct judge_swap *swap_judge;
    const struct lock_beside *beside; /* NULL: nothing */
    struct lock_plan plan;
    const struct lock_wish *wishes;
    size_t wish_count;
    bool once_per;
    bool mix_ttls;
    struct notice notice;
    /* Of the first wish: true time at which somebody was told that it is completed; -1: never.
     * And on which boot of its machine. */
    int64_t completed_us;
    int64_t began_us; /* no later than when that one was granted it */
    char completed_boot[64];
    unsigned left[NODES_MAX + 1];
    bool rested[NODES_MAX + 1];    /* has nothing to do any more but to come to its end */
    bool satisfied[NODES_MAX + 1]; /* and has had what it must get in the calm */
    bool finished[NODES_MAX + 1];
};

/* One life of a node. */
struct process {
    struct lock_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
};

/* What a workload does besides, with clients whose D and hours are these. */
struct lock_beside {
    struct span late_bound, hour;
    void *argument;
    /* Around all that a process does; what it returns is given back in the end. */
    void *(*begin)(void *argument, struct process *process);
    void (*end)(void *argument, struct process *process, void *begun);
    void (*act)(void *argument, struct process *process);  /* now and then, as an operation */
    void (*calm)(void *argument, struct process *process); /* when all others are done */
};

/* One handle and what is done with it. */
struct use {
    struct process *process;
    const struct lock_wish *wish;
    struct hf_lock_options options;
    struct hf_lock *lock;
    struct claim *claim;
    struct claim_note note;
    bool cancelled; /* somebody was going to cancel */
    int64_t asked_us;
    int64_t refused_us; /* it was not granted yet: asked_us, or when it looked last */
};

#define USE_TRACE(use, format, ...)                                      \
    trace_line(world_trace((use)->process->work->run->world),            \
               process_true_now((use)->process), "node %u: %s: " format, \
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

/* The label stays the same from life to life, as a supervisor would have it. */
struct hf_client *lock_client_open(const struct lock_work *work, const struct node *node,
                                   struct store *store);

/* `final`: in the calm, when it should be had for as long as may be. */
void lock_use_open(struct use *use, struct process *process, const struct lock_wish *wish,
                   bool final);
void lock_use_close(struct use *use);

/* lock_calm.c */

/* Waits for the calm and for the others; then everything must go well. */
void lock_calm(struct process *process);

#endif
