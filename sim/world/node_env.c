/* SPDX-License-Identifier: Apache-2.0 */
/* node_env.c: implements env for the code under test.
 *
 * Every call that could let another thread run in a real process may let another task run here,
 * depending on the seed: before a lock; after an unlock, a signal or the start of a task; and in
 * every wait. */
#include "base/check.h"
#include "sim/world/world_inside.h"

#include <inttypes.h>

struct sim_cond {
    struct task_queue waiting;
};

_Static_assert(sizeof(struct sim_mutex) <= sizeof(((struct env_mutex *)NULL)->state),
               "the mutex fits in place");
_Static_assert(sizeof(struct sim_cond) <= sizeof(((struct env_cond *)NULL)->state),
               "the condition fits in place");

static struct sim_mutex *mutex_of(struct env_mutex *mutex)
{
    return (struct sim_mutex *)(void *)mutex->state;
}

static struct sim_cond *cond_of(struct env_cond *cond)
{
    return (struct sim_cond *)(void *)cond->state;
}

static struct node *node_of(struct env *env)
{
    return (struct node *)env; /* only calls with the node's own env get here */
}

static struct mono_time moment_now(const struct node *node)
{
    return (struct mono_time){ clock_at(&node->machine->clock, node->world->now_us) };
}

/* ---- Queues of waiting tasks --------------------------------------------------------- */

static void task_queue_join(struct task_queue *queue, struct env_task *task)
{
    task->queue = queue;
    task->next_in_line = NULL;
    if (queue->last)
        queue->last->next_in_line = task;
    else
        queue->first = task;
    queue->last = task;
    queue->count++;
}

static void task_queue_leave(struct task_queue *queue, struct env_task *task)
{
    struct env_task *before = NULL, *at = queue->first;
    while (at != task) {
        check(at);
        before = at;
        at = at->next_in_line;
    }
    if (before)
        before->next_in_line = task->next_in_line;
    else
        queue->first = task->next_in_line;
    if (queue->last == task)
        queue->last = before;
    queue->count--;
    task->queue = NULL;
}

/* Real mutexes and condition variables do not guarantee an order, so any waiter may be woken. */
static void wake_any(struct world *world, struct task_queue *queue)
{
    if (queue->count == 0)
        return;
    struct env_task *task = queue->first;
    for (uint64_t skip = prng_below(&world->schedule, queue->count); skip > 0; skip--)
        task = task->next_in_line;
    task_queue_leave(queue, task);
    task_wake(task);
}

/* ---- Clocks and randomness ----------------------------------------------------------- */

static struct mono_time sim_now(struct env *env)
{
    struct node *node = node_of(env);
    if (!node->world->looking)
        world_step(node->world); /* so that a loop that only reads the clock also ends */
    return moment_now(node);
}

static struct wall_time sim_wall(struct env *env)
{
    struct node *node = node_of(env);
    if (!node->world->looking)
        world_step(node->world);
    return (struct wall_time){ moment_now(node).us + node->machine->wall_off_us };
}

static const char *sim_boot_id(struct env *env)
{
    return node_of(env)->machine->boot_id;
}

static void sim_sleep_until(struct env *env, struct mono_time moment)
{
    struct node *node = node_of(env);
    struct world *world = node->world;
    world_maybe_switch(world);
    while (mono_before(moment_now(node), moment)) {
        if (moment.us < MOMENT_FAR)
            task_set_timer(world->running, node_true_time(node, moment));
        task_wait(world, WAIT_TIME);
    }
}

/* Fills the bytes one by one, starting with the least significant, so the result does not depend on
 * the machine's byte order. */
static void sim_random(struct env *env, void *bytes, size_t size)
{
    struct node *node = node_of(env);
    unsigned char *at = bytes;
    world_step(node->world);
    for (size_t i = 0; i < size;) {
        uint64_t value = prng_next(&node->random);
        for (int k = 0; k < 8 && i < size; k++, value >>= 8)
            at[i++] = (unsigned char)value;
    }
}

/* ---- Tasks --------------------------------------------------------------------------- */

static enum hf_status sim_task_start(struct env *env, void (*run)(void *), void *argument,
                                     struct env_task **ret_task, struct hf_error *error)
{
    struct node *node = node_of(env);
    struct heap *before = heap_enter(NULL);
    struct env_task *task = task_new(node, run, argument);
    heap_enter(before);
    if (!task)
        return error_set(error, HF_UNAVAILABLE, "too many tasks: %d are running", TASKS_MAX);
    *ret_task = task;
    world_maybe_switch(node->world);
    return HF_OK;
}

static void sim_task_join(struct env *env, struct env_task *task)
{
    struct world *world = node_of(env)->world;
    check(world->running && task != world->running && !task->joined_by);
    task->joined_by = world->running;
    while (task->state != TASK_ENDED)
        task_wait(world, WAIT_TASK);
    task_free(task);
}

/* ---- Mutex --------------------------------------------------------------------------- */

static struct world *world_of_mutex(struct env_mutex *mutex)
{
    return node_of(mutex->env)->world;
}

static void sim_mutex_init(struct env_mutex *mutex)
{
    *mutex_of(mutex) = (struct sim_mutex){ 0 };
}

static void sim_mutex_release(struct env_mutex *mutex)
{
    if (mutex_of(mutex)->owner)
        world_fail(world_of_mutex(mutex),
                   "node %u: a mutex is released while task %" PRIu32 " holds it",
                   node_of(mutex->env)->number, mutex_of(mutex)->owner->number);
}

static void take(struct world *world, struct sim_mutex *mutex)
{
    struct env_task *task = world->running;
    if (mutex->owner == task)
        world_fail(world, "node %u: task %" PRIu32 " locks a mutex that it holds already",
                   task->node->number, task->number);
    while (mutex->owner) {
        task->mutex = mutex;
        task_queue_join(&mutex->waiting, task);
        task_wait(world, WAIT_MUTEX);
    }
    task->mutex = NULL;
    mutex->owner = task;
}

static void give(struct world *world, struct sim_mutex *mutex)
{
    struct env_task *task = world->running;
    if (mutex->owner != task)
        world_fail(world, "node %u: task %" PRIu32 " unlocks a mutex that it does not hold",
                   task->node->number, task->number);
    mutex->owner = NULL;
    wake_any(world, &mutex->waiting);
}

static void sim_mutex_lock(struct env_mutex *mutex)
{
    struct world *world = world_of_mutex(mutex);
    if (world->looking)
        return;
    world_maybe_switch(world);
    take(world, mutex_of(mutex));
}

static void sim_mutex_unlock(struct env_mutex *mutex)
{
    struct world *world = world_of_mutex(mutex);
    if (world->looking)
        return;
    give(world, mutex_of(mutex));
    world_maybe_switch(world);
}

/* ---- Condition ----------------------------------------------------------------------- */

static void sim_cond_init(struct env_cond *cond)
{
    *cond_of(cond) = (struct sim_cond){ 0 };
}

static void sim_cond_release(struct env_cond *cond)
{
    struct node *node = node_of(cond->env);
    if (cond_of(cond)->waiting.count > 0)
        world_fail(node->world, "node %u: a condition is released while tasks wait for it",
                   node->number);
}

/* Waits until woken or until the deadline; releases the mutex and acquires it again. */
static void wait_in_line(struct world *world, struct sim_cond *cond, struct sim_mutex *mutex,
                         struct mono_time moment)
{
    struct env_task *task = world->running;
    task_queue_join(&cond->waiting, task);
    give(world, mutex);
    if (moment.us < MOMENT_FAR)
        task_set_timer(task, node_true_time(task->node, moment));
    task_wait(world, WAIT_CONDITION);
    world_cancel_timer(world, &task->timer);
    if (task->queue)
        task_queue_leave(task->queue, task);
    take(world, mutex);
}

static bool sim_cond_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                                struct mono_time moment)
{
    struct node *node = node_of(cond->env);
    struct world *world = node->world;
    world_step(world);
    if (!mono_before(moment_now(node), moment))
        return false;
    if (prng_chance(&world->schedule, world->options.spurious_chance)) {
        give(world, mutex_of(mutex));
        task_yield(world);
        take(world, mutex_of(mutex));
    } else {
        wait_in_line(world, cond_of(cond), mutex_of(mutex), moment);
    }
    return mono_before(moment_now(node), moment);
}

static void sim_cond_signal(struct env_cond *cond)
{
    struct world *world = node_of(cond->env)->world;
    if (world->looking)
        return;
    wake_any(world, &cond_of(cond)->waiting);
    world_maybe_switch(world);
}

static void sim_cond_broadcast(struct env_cond *cond)
{
    struct world *world = node_of(cond->env)->world;
    if (world->looking)
        return;
    while (cond_of(cond)->waiting.count > 0)
        wake_any(world, &cond_of(cond)->waiting);
    world_maybe_switch(world);
}

const struct env_ops node_env_ops = {
    .now = sim_now,
    .wall = sim_wall,
    .boot_id = sim_boot_id,
    .sleep_until = sim_sleep_until,
    .random = sim_random,
    .task_start = sim_task_start,
    .task_join = sim_task_join,
    .mutex_init = sim_mutex_init,
    .mutex_release = sim_mutex_release,
    .mutex_lock = sim_mutex_lock,
    .mutex_unlock = sim_mutex_unlock,
    .cond_init = sim_cond_init,
    .cond_release = sim_cond_release,
    .cond_wait_until = sim_cond_wait_until,
    .cond_signal = sim_cond_signal,
    .cond_broadcast = sim_cond_broadcast,
};
