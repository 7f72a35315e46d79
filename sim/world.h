/* world.h: the simulated world: one true time, machines with clocks of their own, nodes on
 * them, and a seed that decides who runs next.
 *
 * A node is a process: an `env` for the code under test, with tasks that are fibers. True time
 * stands still while any task can run and then jumps to the next timer, so an hour of waiting
 * costs nothing. Which of the tasks that can run goes on is drawn from the seed, and so is
 * whether a call of env lets others run first. Nothing else decides anything, so one seed is
 * one history.
 *
 *     struct world *world = world_new(&options);
 *     struct node *node = node_new(world, &node_options);
 *     node_boot(node, program, argument);
 *     if (!world_run(world))
 *         puts(world_failure(world));
 *     world_free(world);
 *
 * A run ends when no task is left and no timer is set. Otherwise it fails, with a sentence: a
 * deadlock, a bound that was overrun, a node that leaked, or whatever a judge says to
 * world_fail. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/prng.h"
#include "env/env.h"
#include "sim/clock.h"
#include "sim/fiber.h"
#include "sim/heap.h"
#include "sim/timer.h"
#include "sim/trace.h"

#define NODES_MAX         64
#define TASKS_MAX         4096
#define WORLD_FAILURE_MAX 512

/* True time zero as a date: 2026-01-01T00:00:00Z. Machines believe others. */
#define WORLD_EPOCH_US (INT64_C(1767225600) * 1000000)

struct world_options {
    uint64_t seed;
    enum trace_mode trace;
    FILE *trace_out;
    uint64_t steps_max;   /* turns of tasks, rings of timers and calls of env */
    struct span time_max; /* of true time */
    /* Chances out of a million. */
    uint32_t switch_chance;   /* that a call of env lets others run first ... */
    uint32_t stall_chance;    /* ... and of those, that time passes too, */
    struct span stall_max;    /* at most this much */
    uint32_t spurious_chance; /* that waiting for a condition ends for no reason */
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

/* Ends all nodes where they stand; to be called before what they used is freed. */
void world_stop(struct world *world);

/* Runs until nothing is left to happen, or something is wrong (false). */
bool world_run(struct world *world);

/* The sentence of what went wrong first; NULL when nothing has. */
const char *world_failure(const struct world *world);

/* Says that something must not be. The run ends; called by a task it does not return. */
__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *format,
                                                      ...);

int64_t world_now_us(const struct world *world);

/* Between these two, calls of any node's env neither give way nor block nor count, and mutexes
 * are not looked at: so that a judge may ask code under test, of a node that stands still, what
 * it would say at this very moment. What is asked must not wait, nor change anything. */
void world_begin_look(struct world *world);
void world_end_look(struct world *world);

uint64_t world_steps(const struct world *world);

/* From now on calls of env let others run first with this chance. */
void world_set_switch_chance(struct world *world, uint32_t chance);
struct trace *world_trace(struct world *world);

/* A sequence of its own for each purpose, so that one more draw in one does not move all the
 * others. Purposes are numbered by enum world_stream; a workload may count on from the last. */
enum world_stream {
    STREAM_SCHEDULE,
    STREAM_MACHINES,
    STREAM_NETWORK,
    STREAM_CHAOS,
    STREAM_PLAN,
    STREAM_NODES = 1000, /* and on: the random bytes of each node */
    STREAM_WORKLOAD = 2000,
};
struct prng world_stream(const struct world *world, uint64_t purpose);

/* Timers of the world's own: chaos, the network. They ring outside all nodes. */
void world_set_timer(struct world *world, struct timer *timer, int64_t due_us,
                     void (*ring)(void *), void *argument);
void world_cancel_timer(struct world *world, struct timer *timer);

/* ---- Nodes --------------------------------------------------------------------------- */

struct node_options {
    struct node *beside;   /* runs on the same machine as this one; NULL: on one of its own */
    int64_t drift_ppm_max; /* the machine's clock runs fast or slow by up to this */
    struct span wall_off;  /* its calendar is off by up to this, either way */
    bool may_leak;         /* ending with memory or tasks left is not a failure */
};

#define NODE_OPTIONS \
    ((struct node_options){ .drift_ppm_max = 200, .wall_off = SPAN_S(INT64_C(315576000)) })

/* Nodes are numbered from 1 in the order in which they are made, and live as long as the world.
 */
struct node *node_new(struct world *world, const struct node_options *options);

unsigned node_number(const struct node *node);
struct world *node_world(const struct node *node);
struct env *node_env(struct node *node);
struct node *node_of_env(struct env *env);
bool node_is_beside(const struct node *a, const struct node *b); /* on one machine */
size_t world_node_count(const struct world *world);
struct node *world_node(const struct world *world, size_t index);

/* Starts the process: its first task runs program(node, argument), and the process ends when
 * that returns. The node must be down. */
typedef void node_program(struct node *node, void *argument);
void node_boot(struct node *node, node_program *program, void *argument);

/* Starts again what ran last. */
void node_restart(struct node *node);

bool node_is_up(const struct node *node);

/* How often it has been booted. */
uint32_t node_lives(const struct node *node);

/* ---- What can happen to a node ------------------------------------------------------- */

/* All its tasks vanish where they stand, and its memory with them. What it sent is under way
 * all the same. Called by a task of that node it does not return. Fine when it is down. */
void node_crash(struct node *node);

/* Power loss: crashes all nodes of its machine; the boot-time clock starts anew near zero,
 * under a new boot id. */
void node_reboot_machine(struct node *node);

/* No task of it runs until node_resume; clocks go on, and so does the kernel: replies that
 * arrive meanwhile wait for it. */
void node_pause(struct node *node);

/* The machine sleeps until node_resume of any of its nodes: as a pause of all of them, but
 * replies that arrive meanwhile are lost, and waits with a deadline notice it up to a second
 * late. */
void node_suspend_machine(struct node *node);

void node_resume(struct node *node);
bool node_is_paused(const struct node *node);
bool node_is_suspended(const struct node *node);

/* Since when its tasks have been running without a break; INT64_MAX: they are not. */
int64_t node_runs_since_us(const struct node *node);

/* The calendar jumps; the boot-time clock does not. */
void node_step_wall(struct node *node, struct span by);

/* From now on its machine's clocks run fast or slow by this much. */
void node_set_drift(struct node *node, int64_t drift_ppm);

/* What its boot-time clock shows at a true time of this boot. */
struct mono_time node_moment(const struct node *node, int64_t true_us);

/* The true time at which its boot-time clock will show a moment. */
int64_t node_true_time(const struct node *node, struct mono_time moment);

/* Told, outside all nodes, when a process ends, by crash or in order: for whoever keeps
 * something on its behalf. */
struct node_watch {
    void (*ended)(void *argument, struct node *node);
    void *argument;
    struct node_watch *next;
};
void node_add_watch(struct node *node, struct node_watch *watch);

/* ---- Tasks, for what blocks them besides env: the network ---------------------------- */

/* What a task waits for, in words: "a task waits for <this>". */
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

/* The task that is running; NULL outside nodes. */
struct env_task *world_running(const struct world *world);

/* The running task stops here until somebody wakes it. */
void task_wait(struct world *world, enum wait_for reason);

/* The task can run again, as soon as its node runs at all. */
void task_wake(struct env_task *task);

#endif
