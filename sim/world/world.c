/* SPDX-License-Identifier: Apache-2.0 */
/* world.c: true time, and which task runs next. */
#include "base/check.h"
#include "sim/world/world_inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

struct world *world_new(const struct world_options *options)
{
    struct world *world = calloc(1, sizeof *world);
    check(world);
    world->options = *options;
    trace_init(&world->trace, options->trace, options->trace_out, &world->now_us);
    world->schedule = world_stream(world, STREAM_SCHEDULE);
    world->machines_random = world_stream(world, STREAM_MACHINES);
    return world;
}

void world_stop(struct world *world)
{
    for (size_t i = 0; i < world->node_count; i++)
        node_die(world->nodes[i]);
}

void world_free(struct world *world)
{
    world_stop(world);
    for (size_t i = 0; i < world->node_count; i++)
        free(world->nodes[i]);
    for (size_t i = 0; i < world->machine_count; i++)
        free(world->machines[i]);
    timer_queue_release(&world->timers);
    free(world->ready);
    free(world);
}

void world_begin_look(struct world *world)
{
    check(!world->looking);
    world->looking = true;
}

void world_end_look(struct world *world)
{
    check(world->looking);
    world->looking = false;
}

int64_t world_now_us(const struct world *world)
{
    return world->now_us;
}

void world_set_switch_chance(struct world *world, uint32_t chance)
{
    world->options.switch_chance = chance;
}

uint64_t world_steps(const struct world *world)
{
    return world->steps;
}

struct trace *world_trace(struct world *world)
{
    return &world->trace;
}

/* The seed and the purpose are mixed in two draws, so adjacent seeds produce unrelated
 * sequences. */
struct prng world_stream(const struct world *world, uint64_t purpose)
{
    struct prng of_seed = prng_seeded(world->options.seed);
    struct prng of_both = prng_seeded(prng_next(&of_seed) + purpose);
    return prng_seeded(prng_next(&of_both));
}

struct env_task *world_running(const struct world *world)
{
    return world->running;
}

void world_set_timer(struct world *world, struct timer *timer, int64_t due_us,
                     void (*ring)(void *), void *argument)
{
    struct heap *before = heap_enter(NULL);
    timer_set(&world->timers, timer, due_us < world->now_us ? world->now_us : due_us, ring,
              argument);
    heap_enter(before);
}

void world_cancel_timer(struct world *world, struct timer *timer)
{
    timer_cancel(&world->timers, timer);
}

/* ---- Failure ------------------------------------------------------------------------- */

const char *world_failure(const struct world *world)
{
    return world->failed ? world->failure : NULL;
}

void world_fail(struct world *world, const char *format, ...)
{
    if (!world->failed) {
        world->failed = true;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(world->failure, sizeof world->failure, format, arguments);
        va_end(arguments);
        trace_line(&world->trace, "FAILED: %s", world->failure);
    }
    if (world->running)
        task_wait(world, WAIT_NEVER);
}

static const char *wait_text(enum wait_for reason)
{
#define WAIT_TEXT_(name, text) text,
    static const char *const texts[] = { WAIT_TABLE(WAIT_TEXT_) };
#undef WAIT_TEXT_
    check(reason < WAIT_COUNT);
    return texts[reason];
}

/* "node 1: task 0 waits for a mutex held by task 2; node 2 ..." */
static void describe_tasks(const struct world *world, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < world->node_count; i++)
        for (struct env_task *task = world->nodes[i]->tasks; task; task = task->next) {
            if (used + 1 >= room)
                return;
            char by[32] = "";
            if (task->waits_for == WAIT_MUTEX && task->mutex->owner)
                snprintf(by, sizeof by, " held by task %" PRIu32, task->mutex->owner->number);
            int size =
                snprintf(text + used, room - used, "%snode %u: task %" PRIu32 " waits for %s%s",
                         used ? "; " : "", task->node->number, task->number,
                         wait_text(task->waits_for), by);
            used += (size_t)size;
        }
}

static void fail_with_tasks(struct world *world, const char *what)
{
    char tasks[WORLD_FAILURE_MAX - 100];
    describe_tasks(world, tasks, sizeof tasks);
    world_fail(world, "%s: %s", what, tasks[0] ? tasks : "no task is left");
}

void world_overrun(struct world *world)
{
    if (world->failed)
        return;
    char what[80];
    snprintf(what, sizeof what, "the run did not end within %" PRIu64 " steps",
             world->options.steps_max);
    fail_with_tasks(world, what);
}

/* ---- Runnable tasks ------------------------------------------------------------------ */

static void make_ready_room(struct world *world)
{
    if (world->ready_count < world->ready_room)
        return;
    struct heap *before = heap_enter(NULL);
    world->ready_room = world->ready_room ? 2 * world->ready_room : 64;
    world->ready = realloc(world->ready, world->ready_room * sizeof *world->ready);
    check(world->ready);
    heap_enter(before);
}

void ready_add(struct env_task *task)
{
    struct world *world = task->node->world;
    check(task->turn == 0);
    make_ready_room(world);
    world->ready[world->ready_count++] = task;
    task->turn = world->ready_count;
}

void ready_remove(struct env_task *task)
{
    struct world *world = task->node->world;
    if (task->turn == 0)
        return;
    struct env_task *last = world->ready[--world->ready_count];
    world->ready[task->turn - 1] = last;
    last->turn = task->turn;
    task->turn = 0;
}

void task_wake(struct env_task *task)
{
    if (task->state != TASK_WAITING || task->waits_for == WAIT_NEVER)
        return;
    task->state = TASK_READY;
    task->waits_for = WAIT_NOTHING;
    if (node_runs(task->node))
        ready_add(task);
}

/* Memory that a node's code allocates belongs to the node; memory that all other code allocates has
 * no owner. */
static void give_way(struct world *world)
{
    struct env_task *task = world->running;
    struct heap *before = heap_enter(NULL);
    fiber_give_way();
    heap_enter(before);
    check(world->running == task);
    task->state = TASK_RUNNING;
}

void task_wait(struct world *world, enum wait_for reason)
{
    struct env_task *task = world->running;
    check(task);
    task->state = TASK_WAITING;
    task->waits_for = reason;
    give_way(world);
}

void task_yield(struct world *world)
{
    struct env_task *task = world->running;
    task->state = TASK_READY;
    ready_add(task);
    give_way(world);
}

static void ring_for_task(void *argument)
{
    struct env_task *task = argument;
    if (task->node->machine->suspended)
        task->slept_over = true;
    task_wake(task);
}

void task_set_timer(struct env_task *task, int64_t due_us)
{
    world_set_timer(task->node->world, &task->timer, due_us, ring_for_task, task);
}

/* This is a separate function, because most calls to env return immediately without a switch. */
__attribute__((noinline)) static void let_others_run(struct world *world)
{
    bool stall = prng_chance(&world->schedule, world->options.stall_chance);
    if (stall && world->options.stall_max.us > 0) {
        uint64_t span = 1 + prng_below(&world->schedule, (uint64_t)world->options.stall_max.us);
        task_set_timer(world->running, world->now_us + (int64_t)span);
        task_wait(world, WAIT_TIME);
    } else if (world->ready_count > 0) {
        task_yield(world);
    }
}

void world_maybe_switch(struct world *world)
{
    check(world->running);
    world_step(world);
    if (prng_chance(&world->schedule, world->options.switch_chance))
        let_others_run(world);
}

/* ---- Tasks --------------------------------------------------------------------------- */

static void run_task(void *argument)
{
    struct env_task *task = argument;
    task->run(task->argument);
}

struct env_task *task_new(struct node *node, void (*run)(void *), void *argument)
{
    struct world *world = node->world;
    if (world->task_count == TASKS_MAX)
        return NULL;
    struct env_task *task = calloc(1, sizeof *task);
    check(task);
    task->fiber = fiber_new(run_task, task);
    if (!task->fiber) {
        free(task);
        return NULL;
    }
    task->node = node;
    task->run = run;
    task->argument = argument;
    task->number = node->tasks_started++;
    task->next = node->tasks;
    if (node->tasks)
        node->tasks->previous = task;
    node->tasks = task;
    node->task_count++;
    world->task_count++;
    task->state = TASK_WAITING;
    task_wake(task);
    return task;
}

void task_free(struct env_task *task)
{
    struct node *node = task->node;
    ready_remove(task);
    timer_cancel(&node->world->timers, &task->timer);
    if (task->fiber)
        fiber_free(task->fiber);
    if (task->previous)
        task->previous->next = task->next;
    else
        node->tasks = task->next;
    if (task->next)
        task->next->previous = task->previous;
    node->task_count--;
    node->world->task_count--;
    free(task);
}

/* ---- The loop ------------------------------------------------------------------------ */

/* The record of an ended task stays until the task is joined. When the first task ends, the process
 * ends. */
static void task_ended(struct env_task *task)
{
    struct node *node = task->node;
    fiber_free(task->fiber);
    task->fiber = NULL;
    task->state = TASK_ENDED;
    if (task->number == 0)
        node_ended(node);
    else if (task->joined_by)
        task_wake(task->joined_by);
}

static void run_one(struct world *world)
{
    size_t pick = (size_t)prng_below(&world->schedule, world->ready_count);
    struct env_task *task = world->ready[pick];
    struct node *node = task->node;
    ready_remove(task);
    task->state = TASK_RUNNING;
    world->running = task;
    struct heap *before = heap_enter(&node->heap);
    bool alive = fiber_resume(task->fiber);
    heap_enter(before);
    world->running = NULL;
    if (node->doomed)
        node_die(node);
    else if (!alive)
        task_ended(task);
}

static void ring_one(struct world *world, struct timer *timer)
{
    timer_cancel(&world->timers, timer);
    world->now_us = timer->due_us;
    timer->ring(timer->argument);
}

bool world_run(struct world *world)
{
    while (!world->failed) {
        world_step(world);
        struct timer *timer = timer_first(&world->timers);
        if (timer && timer->due_us <= world->now_us) {
            ring_one(world, timer);
        } else if (world->ready_count > 0) {
            run_one(world);
        } else if (!timer) {
            if (world->task_count == 0)
                return true;
            fail_with_tasks(world, "deadlock");
        } else if (timer->due_us > world->options.time_max.us) {
            fail_with_tasks(world, "the run did not end within its time");
        } else {
            ring_one(world, timer);
        }
    }
    return false;
}
