/* SPDX-License-Identifier: Apache-2.0 */
/* world.h: the simulated world: one true time, machines with their own clocks, nodes on them, and a
 * seed that decides which task runs next.
 *
 * A node is a process: an `env` for the code under test, whose tasks are fibers. True time does not
 * advance while any task can run; it then jumps to the next timer, so an hour of waiting costs
 * nothing. The seed determines which of the runnable tasks runs next, and whether a call to env
 * lets others run first. Nothing else influences a run, so each seed determines exactly one
 * history.
 *
 *     struct world *world = world_new(&options);
 *     struct node *node = node_new(world, &node_options);
 *     node_boot(node, program, argument);
 *     if (!world_run(world))
 *         puts(world_failure(world));
 *     world_free(world);
 *
 * A run ends when no task is left and no timer is set. It fails, with a message, if there is a
 * deadlock, a limit is exceeded, a node leaks memory, or a checker calls world_fail. */
#ifndef SIM_WORLD_WORLD_H
#define SIM_WORLD_WORLD_H

#include "base/prng.h"
#include "env/env.h"
#include "sim/trace.h"
#include "sim/world/clock.h"
#include "sim/world/fiber.h"
#include "sim/world/heap.h"
#include "sim/world/timer.h"

#define NODES_MAX         64
#define TASKS_MAX         100000
#define WORLD_FAILURE_MAX 512

/* True time zero as a date: 2026-01-01T00:00:00Z. The wall clocks of machines differ from it. */
#define WORLD_EPOCH_US (INT64_C(1767225600) * 1000000)

struct world_options {
    uint64_t seed;
    enum trace_mode trace;
    FILE *trace_out;
    uint64_t steps_max;   /* task switches, expired timers and calls to env */
    struct span time_max; /* of true time */
    /* Probabilities per million. */
    uint32_t switch_chance;   /* that a call to env lets others run first ... */
    uint32_t stall_chance;    /* ... and, if so, that time passes too, */
    struct span stall_max;    /* by at most this much */
    uint32_t spurious_chance; /* of a spurious wake-up from a condition variable */
};

#define WORLD_OPTIONS                                        \
    ((struct world_options){ .trace = TRACE_HASH,            \
                             .steps_max = 10000000,          \
                             .time_max = SPAN_S(30 * 86400), \
                             .switch_chance = 250000,        \
                             .stall_chance = 100000,         \
                             .stall_max = SPAN_MS(2),        \
                             .spurious_chance = 20000 })

struct world;
struct node;

struct world *world_new(const struct world_options *options);

void world_free(struct world *world);

/* Ends all nodes immediately. Call this before freeing anything that they use. */
void world_stop(struct world *world);

/* Runs until no event is left (true) or the run fails (false). */
bool world_run(struct world *world);

/* The message of the first failure; NULL if there is none. */
const char *world_failure(const struct world *world);

/* Fails and ends the run with this message. Does not return if a task calls it. */
__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *format,
                                                      ...);

int64_t world_now_us(const struct world *world);

/* Between these two calls, no node's env yields, blocks or counts steps, and mutexes are ignored. A
 * checker can then ask the code under test, even on a paused node, what it would return at this
 * instant. That code must not wait or change anything. */
void world_begin_look(struct world *world);
void world_end_look(struct world *world);

uint64_t world_steps(const struct world *world);

/* From now on, calls to env let others run first with this probability. */
void world_set_switch_chance(struct world *world, uint32_t chance);
struct trace *world_trace(struct world *world);

/* There is one random sequence per purpose, so an additional draw from one sequence does not change
 * the others. enum world_stream numbers the purposes; a workload may use the numbers after the last
 * one. */
enum world_stream {
    STREAM_SCHEDULE,
    STREAM_MACHINES,
    STREAM_NETWORK,
    STREAM_CHAOS,
    STREAM_PLAN,
    STREAM_SESSIONS,
    STREAM_NODES = 1000, /* and up: the random bytes of each node */
    STREAM_WORKLOAD = 2000,
};
struct prng world_stream(const struct world *world, uint64_t purpose);

/* Timers of the world itself, for chaos and the network. Their functions run outside all nodes. */
void world_set_timer(struct world *world, struct timer *timer, int64_t due_us,
                     void (*ring)(void *), void *argument);
void world_cancel_timer(struct world *world, struct timer *timer);

/* ---- Nodes --------------------------------------------------------------------------- */

struct node_options {
    struct node *beside;   /* a node on the same machine; NULL: the node has its own machine */
    int64_t drift_ppm_max; /* the machine's clock runs fast or slow by up to this */
    struct span wall_off;  /* its wall clock is off by up to this, either way */
    bool may_leak;         /* the process may end with memory or tasks left */
};

#define NODE_OPTIONS \
    ((struct node_options){ .drift_ppm_max = 200, .wall_off = SPAN_S(INT64_C(315576000)) })

/* Nodes are numbered from 1 in the order in which they are created, and live as long as the
 * world. / */
struct node *node_new(struct world *world, const struct node_options *options);

unsigned node_number(const struct node *node);
struct world *node_world(const struct node *node);
struct env *node_env(struct node *node);
struct node *node_of_env(struct env *env);
bool node_is_beside(const struct node *a, const struct node *b); /* on the same machine */
size_t world_node_count(const struct world *world);
struct node *world_node(const struct world *world, size_t index);

/* Starts the process: its first task runs program(node, argument), and the process ends when
 * that returns. The node must be down. */
typedef void node_program(struct node *node, void *argument);
void node_boot(struct node *node, node_program *program, void *argument);

/* Starts the last program again. */
void node_restart(struct node *node);

bool node_is_up(const struct node *node);

/* How many times the node has been booted. */
uint32_t node_lives(const struct node *node);

/* ---- Node events --------------------------------------------------------------------- */

/* Ends all tasks of the node immediately, and frees its memory. Its requests stay in flight. Does
 * not return if a task of the node calls it. Has no effect on a node that is down. */
void node_crash(struct node *node);

/* Simulates a power loss: crashes all nodes on the machine. The boot-time clock restarts near zero,
 * with a new boot id. */
void node_reboot_machine(struct node *node);

/* Stops all tasks of the node until node_resume. Clocks and the kernel keep running, so replies
 * that arrive in the meantime are queued for the node. */
void node_pause(struct node *node);

/* Suspends the machine until node_resume is called for any of its nodes. All its nodes are paused,
 * replies that arrive in the meantime are lost, and waits with a deadline may detect the suspension
 * up to a second late. */
void node_suspend_machine(struct node *node);

void node_resume(struct node *node);
bool node_is_paused(const struct node *node);
bool node_is_suspended(const struct node *node);

/* Since when the node's tasks have been running without interruption; INT64_MAX: they are not
 * running. */
int64_t node_runs_since_us(const struct node *node);

/* Steps the wall clock, but not the boot-time clock. */
void node_step_wall(struct node *node, struct span by);

/* Makes the clocks of the node's machine run fast or slow by this much from now on. */
void node_set_drift(struct node *node, int64_t drift_ppm);

/* The reading of the node's boot-time clock at a true time within this boot. */
struct mono_time node_moment(const struct node *node, int64_t true_us);

/* The true time at which the node's boot-time clock will show this reading. */
int64_t node_true_time(const struct node *node, struct mono_time moment);

/* Called outside all nodes when a process ends, normally or by a crash. It is meant for objects
 * that keep data for the process. */
struct node_watch {
    void (*ended)(void *argument, struct node *node);
    void *argument;
    struct node_watch *next;
};
void node_add_watch(struct node *node, struct node_watch *watch);

/* Gives every node of the world a copy of this watch; `watches` has one element per node. */
void world_watch_nodes(struct world *world, struct node_watch watch,
                       struct node_watch *watches);

/* ---- Tasks blocked by the network rather than by env --------------------------------- */

/* What a task can wait for, as text: "a task waits for <this>". */
#define WAIT_TABLE(ROW)              \
    ROW(NOTHING, "its turn")         \
    ROW(TIME, "a moment")            \
    ROW(MUTEX, "a mutex")            \
    ROW(CONDITION, "a condition")    \
    ROW(TASK, "another task to end") \
    ROW(REPLY, "a reply")            \
    ROW(NEVER, "nothing any more")

#define WAIT_ENUM_(name, text) WAIT_##name,
enum wait_for { WAIT_TABLE(WAIT_ENUM_) WAIT_COUNT };
#undef WAIT_ENUM_

/* The running task; NULL outside nodes. */
struct env_task *world_running(const struct world *world);

/* Blocks the running task until another task or a timer wakes it. */
void task_wait(struct world *world, enum wait_for reason);

/* Makes the task ready; it runs again when its node is running. */
void task_wake(struct env_task *task);

#endif
