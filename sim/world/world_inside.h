/* SPDX-License-Identifier: Apache-2.0 */
/* world_inside.h: the internals of the world, shared by its three files: world.c (time and
 * scheduling), node.c (faults of a node) and node_env.c (env for the code under test). */
#ifndef SIM_WORLD_WORLD_INSIDE_H
#define SIM_WORLD_WORLD_INSIDE_H

#include "sim/world/world.h"

enum task_state { TASK_READY, TASK_RUNNING, TASK_WAITING, TASK_ENDED };

/* A linked list of tasks that wait for a mutex or a condition variable. It may be in the node's
 * memory, because it is freed together with all tasks that can be in it. */
struct task_queue {
    struct env_task *first;
    struct env_task *last;
    uint64_t count;
};

struct sim_mutex {
    struct env_task *owner;
    struct task_queue waiting;
};

struct env_task {
    struct node *node;
    struct fiber *fiber;
    void (*run)(void *);
    void *argument;
    uint32_t number; /* since the node last started; 0 is its first task */
    enum task_state state;
    enum wait_for waits_for;
    size_t turn; /* its index among the ready tasks, from 1; 0: not ready */
    struct timer timer;
    bool slept_over;               /* its deadline passed while the machine was suspended */
    struct task_queue *queue;      /* it waits in this queue, ... */
    struct env_task *next_in_line; /* ... in front of this task */
    struct sim_mutex *mutex;       /* the mutex that it waits for */
    struct env_task *joined_by;
    struct env_task *next, *previous; /* all tasks of the node */
};

struct machine {
    unsigned number;
    struct sim_clock clock;
    int64_t wall_off_us; /* the difference from the boot-time clock */
    bool suspended;
    char boot_id[37];
};

struct node {
    struct env env; /* must be the first member, because every env here is a node */
    struct world *world;
    struct machine *machine;
    unsigned number;
    bool up;
    bool paused;
    bool doomed; /* to be crashed as soon as its running task yields */
    bool may_leak;
    uint32_t lives;
    int64_t runs_since_us; /* when it was booted, or last resumed */
    struct heap heap;
    struct prng random;
    struct env_task *tasks;
    uint32_t task_count;
    uint32_t tasks_started;
    node_program *program;
    void *argument;
    struct node_watch *watches;
};

struct world {
    struct world_options options;
    struct trace trace;
    int64_t now_us;
    uint64_t steps;
    struct prng schedule;
    struct prng machines_random;
    struct timer_queue timers;
    struct env_task *running;
    struct env_task **ready;
    size_t ready_count, ready_room;
    size_t task_count;
    struct node *nodes[NODES_MAX];
    size_t node_count;
    struct machine *machines[NODES_MAX];
    size_t machine_count;
    bool looking; /* a checker is asking; see world_begin_look */
    bool failed;
    char failure[WORLD_FAILURE_MAX];
};

/* world.c */

/* Fails the run, once, because of too many steps. */
void world_overrun(struct world *world);

/* Counts towards the limit on steps; exceeding it fails the run. */
static inline void world_step(struct world *world)
{
    if (++world->steps > world->options.steps_max)
        world_overrun(world);
}

/* Sometimes lets other tasks run; may be called only by a task. */
void world_maybe_switch(struct world *world);

/* Ends the turn of the running task, which stays ready. */
void task_yield(struct world *world);

/* Sets the task's timer, which wakes the task when it expires. */
void task_set_timer(struct env_task *task, int64_t due_us);

void ready_add(struct env_task *task);
void ready_remove(struct env_task *task);

/* Returns NULL if there are too many tasks or no memory for a stack. The memory belongs to the
 * world. */
struct env_task *task_new(struct node *node, void (*run)(void *), void *argument);
void task_free(struct env_task *task);

/* node.c */
bool node_runs(const struct node *node);
void node_die(struct node *node);
void node_ended(struct node *node);

/* node_env.c */
extern const struct env_ops node_env_ops;

#endif
