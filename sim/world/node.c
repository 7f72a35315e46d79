/* SPDX-License-Identifier: Apache-2.0 */
/* node.c: machines and nodes, and how they boot, crash, reboot, pause and suspend. */
#include "base/check.h"
#include "base/parse.h"
#include "sim/world/world_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define UPTIME_MAX_US  (INT64_C(90) * 86400 * 1000000)
#define REBOOT_TAKE_US (INT64_C(60) * 1000000)

/* Waits are divided into slices on a clock that stops during suspend; see env/real.c. */
#define SUSPEND_LATE_MAX_US 1000000

#define NODE_TRACE(node, ...) trace_line(&(node)->world->trace, __VA_ARGS__)

/* ---- Machines ------------------------------------------------------------------------ */

/* Draws a number in [-limit, limit]. */
static int64_t draw_around_zero(struct prng *prng, int64_t limit)
{
    return (int64_t)prng_below(prng, 2 * (uint64_t)limit + 1) - limit;
}

/* Draws a boot id in the Linux format: 8-4-4-4-12 digits. */
static void draw_boot_id(struct machine *machine, struct prng *prng)
{
    static const char shape[] = "xxxxxxxx-xxxx-4xxx-xxxx-xxxxxxxxxxxx";
    _Static_assert(sizeof machine->boot_id == sizeof shape, "a boot id fits");
    for (size_t i = 0; i < sizeof shape; i++)
        machine->boot_id[i] =
            shape[i] == 'x' ? "0123456789abcdef"[prng_next(prng) & 15] : shape[i];
}

static void tell_machine(struct world *world, const struct machine *machine)
{
    char text[SPAN_TEXT_MAX];
    if (world->trace.mode == TRACE_OFF)
        return;
    int64_t off_us =
        machine->wall_off_us + machine->clock.local_base_us - WORLD_EPOCH_US - world->now_us;
    trace_line(&world->trace,
               "machine %u: its clock gains %" PRId64 " us a second, its calendar is %s by %s",
               machine->number, machine->clock.drift_ppm, off_us < 0 ? "slow" : "fast",
               span_text(SPAN_US(off_us < 0 ? -off_us : off_us), text));
}

static struct machine *machine_new(struct world *world, const struct node_options *options)
{
    check(world->machine_count < NODES_MAX);
    struct machine *machine = calloc(1, sizeof *machine);
    check(machine);
    struct prng *prng = &world->machines_random;
    world->machines[world->machine_count++] = machine;
    machine->number = (unsigned)world->machine_count;
    machine->clock.true_base_us = world->now_us;
    machine->clock.local_base_us = (int64_t)prng_below(prng, UPTIME_MAX_US);
    machine->clock.drift_ppm = draw_around_zero(prng, options->drift_ppm_max);
    machine->wall_off_us = WORLD_EPOCH_US + world->now_us - machine->clock.local_base_us +
                           draw_around_zero(prng, options->wall_off.us);
    draw_boot_id(machine, prng);
    tell_machine(world, machine);
    return machine;
}

/* The wall clock continues on the machine's clock chip; the boot-time clock restarts. */
static void machine_reboot(struct world *world, struct machine *machine)
{
    int64_t wall = clock_at(&machine->clock, world->now_us) + machine->wall_off_us;
    machine->clock.true_base_us = world->now_us;
    machine->clock.local_base_us = (int64_t)prng_below(&world->machines_random, REBOOT_TAKE_US);
    machine->wall_off_us = wall - machine->clock.local_base_us;
    machine->suspended = false;
    draw_boot_id(machine, &world->machines_random);
}

/* ---- Nodes --------------------------------------------------------------------------- */

struct node *node_new(struct world *world, const struct node_options *options)
{
    check(world->node_count < NODES_MAX);
    check(options->drift_ppm_max >= 0 && options->drift_ppm_max <= CLOCK_DRIFT_PPM_MAX);
    struct node *node = calloc(1, sizeof *node);
    check(node);
    world->nodes[world->node_count++] = node;
    node->env.ops = &node_env_ops;
    node->world = world;
    node->number = (unsigned)world->node_count;
    node->machine = options->beside ? options->beside->machine : machine_new(world, options);
    node->may_leak = options->may_leak;
    node->random = world_stream(world, STREAM_NODES + node->number);
    return node;
}

unsigned node_number(const struct node *node)
{
    return node->number;
}

struct world *node_world(const struct node *node)
{
    return node->world;
}

struct env *node_env(struct node *node)
{
    return &node->env;
}

struct node *node_of_env(struct env *env)
{
    check(env->ops == &node_env_ops);
    return (struct node *)env;
}

bool node_is_beside(const struct node *a, const struct node *b)
{
    return a->machine == b->machine;
}

size_t world_node_count(const struct world *world)
{
    return world->node_count;
}

struct node *world_node(const struct world *world, size_t index)
{
    check(index < world->node_count);
    return world->nodes[index];
}

bool node_is_up(const struct node *node)
{
    return node->up;
}

uint32_t node_lives(const struct node *node)
{
    return node->lives;
}

bool node_is_paused(const struct node *node)
{
    return node->paused;
}

bool node_is_suspended(const struct node *node)
{
    return node->machine->suspended;
}

bool node_runs(const struct node *node)
{
    return node->up && !node->paused && !node->machine->suspended;
}

int64_t node_runs_since_us(const struct node *node)
{
    return node_runs(node) ? node->runs_since_us : INT64_MAX;
}

void node_add_watch(struct node *node, struct node_watch *watch)
{
    watch->next = node->watches;
    node->watches = watch;
}

void world_watch_nodes(struct world *world, struct node_watch watch, struct node_watch *watches)
{
    for (size_t i = 0; i < world_node_count(world); i++) {
        watches[i] = watch;
        node_add_watch(world_node(world, i), &watches[i]);
    }
}

/* ---- Creation and end ---------------------------------------------------------------- */

static void run_program(void *argument)
{
    struct node *node = argument;
    node->program(node, node->argument);
}

void node_boot(struct node *node, node_program *program, void *argument)
{
    check(!node->up && !node->tasks);
    struct heap *before = heap_enter(NULL);
    node->up = true;
    node->paused = false;
    node->lives++;
    node->runs_since_us = node->world->now_us;
    node->tasks_started = 0;
    atomic_store(&node->env.sweeping, false); /* this belongs to the process */
    node->program = program;
    node->argument = argument;
    NODE_TRACE(node, "node %u: boots, life %" PRIu32, node->number, node->lives);
    check(task_new(node, run_program, node));
    heap_enter(before);
}

void node_restart(struct node *node)
{
    node_boot(node, node->program, node->argument);
}

/* Ends the whole process: its tasks, its memory, and the data that other objects keep for
 * it. */
void node_die(struct node *node)
{
    if (!node->up)
        return;
    node->up = false;
    node->paused = false;
    node->doomed = false;
    while (node->tasks)
        task_free(node->tasks);
    for (struct node_watch *watch = node->watches; watch; watch = watch->next)
        watch->ended(watch->argument, node);
    heap_drop(&node->heap);
}

/* Called when the first task has returned. */
void node_ended(struct node *node)
{
    NODE_TRACE(node, "node %u: ends", node->number);
    if (!node->may_leak && node->task_count > 1)
        world_fail(node->world, "node %u ended without joining %" PRIu32 " of its tasks",
                   node->number, node->task_count - 1);
    else if (!node->may_leak && node->heap.count > 0)
        world_fail(node->world, "node %u ended and left %zu allocations of %zu bytes in all",
                   node->number, node->heap.count, node->heap.bytes);
    node_die(node);
}

void node_crash(struct node *node)
{
    if (!node->up)
        return;
    struct world *world = node->world;
    NODE_TRACE(node, "node %u: crashes", node->number);
    if (world->running && world->running->node == node) {
        node->doomed = true;
        task_wait(world, WAIT_NEVER);
        check_unreachable();
    }
    node_die(node);
}

void node_reboot_machine(struct node *node)
{
    struct world *world = node->world;
    struct machine *machine = node->machine;
    check(!world->running || world->running->node->machine != machine);
    for (size_t i = 0; i < world->node_count; i++)
        if (world->nodes[i]->machine == machine)
            node_crash(world->nodes[i]);
    machine_reboot(world, machine);
    NODE_TRACE(node, "machine %u: has a new boot id %s", machine->number, machine->boot_id);
}

/* ---- Pauses -------------------------------------------------------------------------- */

static void stop_tasks(struct node *node)
{
    check(!node->world->running || node->world->running->node != node);
    for (struct env_task *task = node->tasks; task; task = task->next)
        ready_remove(task);
}

static void start_tasks(struct node *node)
{
    struct world *world = node->world;
    node->runs_since_us = world->now_us;
    for (struct env_task *task = node->tasks; task; task = task->next) {
        if (task->state != TASK_READY || task->turn > 0)
            continue;
        if (task->slept_over && task->queue) {
            task->state = TASK_WAITING;
            task->waits_for = WAIT_CONDITION;
            uint64_t late = prng_below(&world->schedule, SUSPEND_LATE_MAX_US);
            task_set_timer(task, world->now_us + (int64_t)late);
        } else {
            ready_add(task);
        }
        task->slept_over = false;
    }
}

void node_pause(struct node *node)
{
    if (!node->up || node->paused)
        return;
    NODE_TRACE(node, "node %u: is paused", node->number);
    node->paused = true;
    stop_tasks(node);
}

void node_suspend_machine(struct node *node)
{
    struct machine *machine = node->machine;
    if (machine->suspended)
        return;
    NODE_TRACE(node, "machine %u: is suspended", machine->number);
    machine->suspended = true;
    for (size_t i = 0; i < node->world->node_count; i++)
        if (node->world->nodes[i]->machine == machine)
            stop_tasks(node->world->nodes[i]);
}

void node_resume(struct node *node)
{
    struct machine *machine = node->machine;
    if (!node->paused && !machine->suspended)
        return;
    NODE_TRACE(node, "node %u: is resumed", node->number);
    node->paused = false;
    machine->suspended = false;
    for (size_t i = 0; i < node->world->node_count; i++)
        if (node->world->nodes[i]->machine == machine && node_runs(node->world->nodes[i]))
            start_tasks(node->world->nodes[i]);
}

/* ---- Clocks -------------------------------------------------------------------------- */

void node_step_wall(struct node *node, struct span by)
{
    char text[SPAN_TEXT_MAX];
    NODE_TRACE(node, "machine %u: its calendar steps %s by %s", node->machine->number,
               by.us < 0 ? "back" : "on", span_text(SPAN_US(by.us < 0 ? -by.us : by.us), text));
    node->machine->wall_off_us += by.us;
}

void node_set_drift(struct node *node, int64_t drift_ppm)
{
    NODE_TRACE(node, "machine %u: its clock drifts by %" PRId64 " ppm", node->machine->number,
               drift_ppm);
    clock_set_drift(&node->machine->clock, node->world->now_us, drift_ppm);
}

struct mono_time node_moment(const struct node *node, int64_t true_us)
{
    return (struct mono_time){ clock_at(&node->machine->clock, true_us) };
}

int64_t node_true_time(const struct node *node, struct mono_time moment)
{
    return clock_when(&node->machine->clock, moment.us);
}
