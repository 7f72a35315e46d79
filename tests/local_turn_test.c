/* SPDX-License-Identifier: Apache-2.0 */
/* local_turn_test.c: turns of the tasks of one client. */
#include "lock/handle.h"
#include "lock/local_turn.h"
#include "lock_kit.h"

#include <stdatomic.h>

#define TASKS 3

struct client_of_tasks {
    struct world world;
    struct peer peer;
    struct hf_lock *lock;
    struct table_ref *ref;
    atomic_uint served; /* how many tasks have had their turn */
};

struct turn_task {
    struct client_of_tasks *all;
    struct mono_time until;
    struct env_task *task;
    bool had;
    unsigned order; /* among those that had their turn, from 1 */
};

static void open_client(struct client_of_tasks *all)
{
    *all = (struct client_of_tasks){ .served = 0 };
    world_open(&all->world);
    peer_open(&all->peer, &all->world, NULL);
    all->lock = lock_of(&all->peer, "deploy", 0);
    all->ref = all->lock->ref;
}

static void close_client(struct client_of_tasks *all)
{
    hf_lock_free(all->lock);
    peer_close(&all->peer);
    world_close(&all->world);
}

static void take_turn(void *argument)
{
    struct turn_task *task = argument;
    task->had = local_turn_take(task->all->ref, task->until);
    if (!task->had)
        return;
    task->order = atomic_fetch_add(&task->all->served, 1) + 1;
    local_turn_leave(task->all->ref);
}

static struct mono_time far_away(void)
{
    return mono_add(now(), SPAN_S(60));
}

static const struct local_waiter *last_in_line(struct client_of_tasks *all)
{
    env_mutex_lock(&all->peer.client->shared.mutex);
    const struct local_waiter *last = all->ref->turn.last;
    env_mutex_unlock(&all->peer.client->shared.mutex);
    return last;
}

struct line_end {
    struct client_of_tasks *all;
    const struct local_waiter *last;
};

static bool is_longer(void *argument)
{
    struct line_end *end = argument;
    const struct local_waiter *last = last_in_line(end->all);
    return last && last != end->last;
}

static void start_task(struct client_of_tasks *all, struct turn_task *task,
                       struct mono_time until)
{
    struct hf_error error;
    *task = (struct turn_task){ .all = all, .until = until };
    MUST(env_task_start(env_real(), take_turn, task, &task->task, &error));
}

/* Starts a task, and returns when it is the last one in line. */
static void start_in_line(struct client_of_tasks *all, struct turn_task *task)
{
    struct line_end end = { all, last_in_line(all) };
    start_task(all, task, far_away());
    ASSERT(comes_true(is_longer, &end, 60000));
}

/* A task that waits only briefly, and in vain. */
static void wait_in_vain(struct client_of_tasks *all)
{
    struct turn_task brief;
    start_task(all, &brief, mono_add(now(), SPAN_MS(10)));
    env_task_join(env_real(), brief.task);
    ASSERT(!brief.had);
}

static void in_order(void **state)
{
    (void)state;
    struct client_of_tasks all;
    struct turn_task tasks[TASKS];
    open_client(&all);
    ASSERT(local_turn_take(all.ref, far_away()));
    for (size_t i = 0; i < TASKS; i++)
        start_in_line(&all, &tasks[i]);
    local_turn_leave(all.ref);
    for (size_t i = 0; i < TASKS; i++) {
        env_task_join(env_real(), tasks[i].task);
        ASSERT(tasks[i].had && tasks[i].order == i + 1);
    }
    ASSERT(local_turn_take(all.ref, now()));
    local_turn_leave(all.ref);
    close_client(&all);
}

static void gives_up(void **state)
{
    (void)state;
    struct client_of_tasks all;
    struct turn_task tasks[TASKS];
    open_client(&all);
    ASSERT(local_turn_take(all.ref, far_away()));
    wait_in_vain(&all);
    ASSERT(!last_in_line(&all));
    for (size_t i = 0; i < TASKS; i++) {
        start_in_line(&all, &tasks[i]);
        const struct local_waiter *last = last_in_line(&all);
        wait_in_vain(&all);
        ASSERT(last_in_line(&all) == last);
    }
    local_turn_leave(all.ref);
    for (size_t i = 0; i < TASKS; i++) {
        env_task_join(env_real(), tasks[i].task);
        ASSERT(tasks[i].had && tasks[i].order == i + 1);
    }
    close_client(&all);
}

static void no_time(void **state)
{
    (void)state;
    struct client_of_tasks all;
    open_client(&all);
    ASSERT(local_turn_take(all.ref, now()));
    ASSERT(!local_turn_take(all.ref, now()));
    ASSERT(!last_in_line(&all));
    local_turn_leave(all.ref);
    ASSERT(local_turn_take(all.ref, now()));
    local_turn_leave(all.ref);
    close_client(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        { "tasks have their turns in the order in which they asked", in_order, NULL, NULL,
          NULL },
        { "a task that gives up leaves the line, and nobody else does", gives_up, NULL, NULL,
          NULL },
        { "a task without time has the turn only if it is free", no_time, NULL, NULL, NULL },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
