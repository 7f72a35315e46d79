/* SPDX-License-Identifier: Apache-2.0 */
/* sim_test.c: the simulated env keeps its promises: fibers, clocks, scheduling, locks, crashes,
 * replay.
 *
 * Programs run in fibers, which the test framework cannot leave by a jump. They record what
 * they see, or call world_fail, and the test checks it afterwards. */
#include "sim/world/world.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define EXPECT(world, condition)                                               \
    do {                                                                       \
        if (!(condition))                                                      \
            world_fail((world), "line %d: expected %s", __LINE__, #condition); \
    } while (0)

static struct world *new_world(uint64_t seed)
{
    struct world_options options = WORLD_OPTIONS;
    options.seed = seed;
    return world_new(&options);
}

static struct node *new_node(struct world *world)
{
    return node_new(world, &NODE_OPTIONS);
}

static void assert_runs_well(struct world *world)
{
    if (!world_run(world))
        fail_msg("%s", world_failure(world));
}

static void assert_fails_with(struct world *world, const char *words)
{
    assert_false(world_run(world));
    if (!strstr(world_failure(world), words))
        fail_msg("expected '%s' in '%s'", words, world_failure(world));
    world_free(world);
}

/* ---- Clocks -------------------------------------------------------------------------- */

static void sleep_an_hour(struct node *node, void *argument)
{
    int64_t *ret_true_us = argument;
    env_sleep(node_env(node), SPAN_S(3600));
    *ret_true_us = world_now_us(node_world(node));
}

static void a_fast_clock_wakes_early(void **state)
{
    (void)state;
    struct world_options options = WORLD_OPTIONS;
    options.switch_chance = 0;
    struct world *world = world_new(&options);
    int64_t woke_us[2];
    for (int i = 0; i < 2; i++) {
        struct node *node = new_node(world);
        node_set_drift(node, i == 0 ? 1000 : -1000);
        node_boot(node, sleep_an_hour, &woke_us[i]);
    }
    assert_runs_well(world);
    /* 3,600 s at 1,000 ppm: 3.6 s, less its own share of the drift */
    assert_in_range(3600000000 - woke_us[0], 3596000, 3597000);
    assert_in_range(woke_us[1] - 3600000000, 3603000, 3604000);
    world_free(world);
}

static void look_at_calendar(struct node *node, void *argument)
{
    struct world *world = node_world(node);
    struct env *env = node_env(node);
    struct wall_time before = env_wall(env);
    struct mono_time mono = env_now(env);
    node_step_wall(node, SPAN_S(-86400));
    EXPECT(world, wall_since(env_wall(env), before).us == INT64_C(-86400) * 1000000);
    EXPECT(world, mono_since(env_now(env), mono).us == 0);
    *(struct wall_time *)argument = before;
}

static void calendars_disagree_and_step(void **state)
{
    (void)state;
    struct wall_time seen[20];
    int64_t least = INT64_MAX, most = INT64_MIN;
    struct world *world = new_world(3);
    for (int i = 0; i < 20; i++)
        node_boot(new_node(world), look_at_calendar, &seen[i]);
    assert_runs_well(world);
    for (int i = 0; i < 20; i++) {
        int64_t off = seen[i].us - WORLD_EPOCH_US;
        assert_true(off > -SPAN_S(315576001).us && off < SPAN_S(315576001).us);
        least = off < least ? off : least;
        most = off > most ? off : most;
    }
    assert_true(most - least > SPAN_S(5 * 31557600).us);
    world_free(world);
}

struct boots {
    char ids[3][40];
    int64_t moments[3];
};

static void note_boot(struct node *node, void *argument)
{
    struct boots *boots = argument;
    uint32_t life = node_lives(node) - 1;
    snprintf(boots->ids[life], sizeof boots->ids[life], "%s", env_boot_id(node_env(node)));
    boots->moments[life] = env_now(node_env(node)).us;
}

static void a_reboot_has_a_new_id(void **state)
{
    (void)state;
    struct world *world = new_world(1);
    struct node *node = new_node(world);
    struct boots boots;
    node_boot(node, note_boot, &boots);
    assert_runs_well(world);
    node_restart(node);
    assert_runs_well(world);
    node_reboot_machine(node);
    node_restart(node);
    assert_runs_well(world);
    assert_string_equal(boots.ids[0], boots.ids[1]);
    assert_string_not_equal(boots.ids[1], boots.ids[2]);
    assert_int_equal(strlen(boots.ids[2]), 36);
    assert_true(boots.moments[0] <= boots.moments[1]);
    assert_in_range(boots.moments[2], 0, 60000000);
    world_free(world);
}

static void neighbours_share_a_machine(void **state)
{
    (void)state;
    struct world *world = new_world(1);
    struct node *node = new_node(world);
    struct node_options options = NODE_OPTIONS;
    options.beside = node;
    struct boots boots[2];
    node_boot(node, note_boot, &boots[0]);
    node_boot(node_new(world, &options), note_boot, &boots[1]);
    assert_runs_well(world);
    assert_string_equal(boots[0].ids[0], boots[1].ids[0]);
    assert_int_equal(boots[0].moments[0], boots[1].moments[0]);
    world_free(world);
}

/* ---- Turns --------------------------------------------------------------------------- */

enum { SLEEPERS = 20 };

struct sleepers {
    struct env *env;
    int64_t spans_us[SLEEPERS];
    int64_t woke_us[SLEEPERS];
    size_t count;
    size_t next;
};

static void sleep_a_while(void *argument)
{
    struct sleepers *sleepers = argument;
    int64_t span = sleepers->spans_us[sleepers->next++];
    env_sleep_until(sleepers->env, (struct mono_time){ span });
    sleepers->woke_us[sleepers->count++] = span;
}

static void run_sleepers(struct node *node, void *argument)
{
    struct sleepers *sleepers = argument;
    struct env_task *tasks[SLEEPERS];
    struct hf_error error;
    sleepers->env = node_env(node);
    for (int i = 0; i < SLEEPERS; i++) {
        int64_t off = (int64_t)env_random_below(sleepers->env, 60) * 1000000;
        sleepers->spans_us[i] = env_now(sleepers->env).us + 5000000 + off;
    }
    for (int i = 0; i < SLEEPERS; i++)
        EXPECT(node_world(node), env_task_start(sleepers->env, sleep_a_while, sleepers,
                                                &tasks[i], &error) == HF_OK);
    for (int i = 0; i < SLEEPERS; i++)
        env_task_join(sleepers->env, tasks[i]);
}

static void sleepers_wake_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *world = new_world(seed);
        struct sleepers sleepers = { 0 };
        node_boot(new_node(world), run_sleepers, &sleepers);
        assert_runs_well(world);
        assert_int_equal(sleepers.count, SLEEPERS);
        for (int i = 1; i < SLEEPERS; i++)
            assert_true(sleepers.woke_us[i - 1] <= sleepers.woke_us[i]);
        world_free(world);
    }
}

/* ---- Mutex and condition ------------------------------------------------------------- */

enum { WORKERS = 6, ROUNDS = 30 };

struct shared {
    struct world *world;
    struct env *env;
    struct env_mutex mutex;
    struct env_cond cond;
    bool without_lock;
    int inside;
    int most_inside;
    int total;
    int ready;
};

static void work_in_turn(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < ROUNDS; i++) {
        if (!shared->without_lock)
            env_mutex_lock(&shared->mutex);
        shared->inside++;
        if (shared->inside > shared->most_inside)
            shared->most_inside = shared->inside;
        env_sleep(shared->env, SPAN_US(1 + i));
        shared->inside--;
        shared->total++;
        if (!shared->without_lock)
            env_mutex_unlock(&shared->mutex);
    }
}

static void run_workers(struct node *node, void *argument)
{
    struct shared *shared = argument;
    struct env_task *tasks[WORKERS];
    struct hf_error error;
    shared->env = node_env(node);
    env_mutex_init(shared->env, &shared->mutex);
    for (int i = 0; i < WORKERS; i++)
        EXPECT(node_world(node),
               env_task_start(shared->env, work_in_turn, shared, &tasks[i], &error) == HF_OK);
    for (int i = 0; i < WORKERS; i++)
        env_task_join(shared->env, tasks[i]);
    env_mutex_release(&shared->mutex);
}

static void a_mutex_excludes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++)
        for (int without_lock = 0; without_lock < 2; without_lock++) {
            struct world *world = new_world(seed);
            struct shared shared = { .without_lock = without_lock };
            node_boot(new_node(world), run_workers, &shared);
            assert_runs_well(world);
            assert_int_equal(shared.total, WORKERS * ROUNDS);
            if (without_lock)
                assert_true(shared.most_inside > 1); /* else the test shows nothing */
            else
                assert_int_equal(shared.most_inside, 1);
            world_free(world);
        }
}

static void wait_until_ready(void *argument)
{
    struct shared *shared = argument;
    env_mutex_lock(&shared->mutex);
    while (shared->ready == 0)
        env_cond_wait(&shared->cond, &shared->mutex);
    shared->ready--;
    shared->total++;
    env_mutex_unlock(&shared->mutex);
}

static void signal_and_broadcast(struct node *node, void *argument)
{
    struct shared *shared = argument;
    struct env_task *tasks[WORKERS];
    struct hf_error error;
    shared->env = node_env(node);
    env_mutex_init(shared->env, &shared->mutex);
    env_cond_init(shared->env, &shared->cond);
    for (int i = 0; i < WORKERS; i++)
        EXPECT(node_world(node), env_task_start(shared->env, wait_until_ready, shared,
                                                &tasks[i], &error) == HF_OK);
    env_sleep(shared->env, SPAN_S(1));
    env_mutex_lock(&shared->mutex);
    shared->ready = 1;
    env_cond_signal(&shared->cond);
    env_mutex_unlock(&shared->mutex);
    env_sleep(shared->env, SPAN_S(1));
    EXPECT(node_world(node), shared->total == 1);
    env_mutex_lock(&shared->mutex);
    shared->ready = WORKERS;
    env_cond_broadcast(&shared->cond);
    env_mutex_unlock(&shared->mutex);
    for (int i = 0; i < WORKERS; i++)
        env_task_join(shared->env, tasks[i]);
    env_cond_release(&shared->cond);
    env_mutex_release(&shared->mutex);
}

static void conditions_wake_one_or_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world *world = new_world(seed);
        struct shared shared = { 0 };
        node_boot(new_node(world), signal_and_broadcast, &shared);
        assert_runs_well(world);
        assert_int_equal(shared.total, WORKERS);
        world_free(world);
    }
}

static void wait_with_deadline(struct node *node, void *argument)
{
    struct shared *shared = argument;
    struct env *env = node_env(node);
    env_mutex_init(env, &shared->mutex);
    env_cond_init(env, &shared->cond);
    env_mutex_lock(&shared->mutex);
    struct mono_time moment = mono_add(env_now(env), SPAN_S(10));
    EXPECT(node_world(node),
           !env_cond_wait_until(&shared->cond, &shared->mutex, (struct mono_time){ 0 }));
    while (env_cond_wait_until(&shared->cond, &shared->mutex, moment))
        shared->total++; /* woken for no reason */
    EXPECT(node_world(node), !mono_before(env_now(env), moment));
    EXPECT(node_world(node), mono_since(env_now(env), moment).us < 3000);
    env_mutex_unlock(&shared->mutex);
    env_cond_release(&shared->cond);
    env_mutex_release(&shared->mutex);
}

static void a_wait_ends_at_its_moment(void **state)
{
    (void)state;
    int spurious = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world *world = new_world(seed);
        struct shared shared = { 0 };
        node_boot(new_node(world), wait_with_deadline, &shared);
        assert_runs_well(world);
        spurious += shared.total;
        world_free(world);
    }
    assert_true(spurious > 0); /* callers must be shown that they need a loop */
}

/* ---- Failures in words --------------------------------------------------------------- */

static void lock_twice(struct node *node, void *argument)
{
    (void)argument;
    struct env_mutex mutex;
    env_mutex_init(node_env(node), &mutex);
    env_mutex_lock(&mutex);
    env_mutex_lock(&mutex);
}

static void unlock_anyway(struct node *node, void *argument)
{
    (void)argument;
    struct env_mutex mutex;
    env_mutex_init(node_env(node), &mutex);
    env_mutex_unlock(&mutex);
}

static void wait_for_ever(struct node *node, void *argument)
{
    struct shared *shared = argument;
    env_mutex_init(node_env(node), &shared->mutex);
    env_cond_init(node_env(node), &shared->cond);
    env_mutex_lock(&shared->mutex);
    for (;;)
        env_cond_wait(&shared->cond, &shared->mutex);
}

static void look_at_clock_for_ever(struct node *node, void *argument)
{
    (void)argument;
    for (;;)
        env_now(node_env(node));
}

static void sleep_for_ever(struct node *node, void *argument)
{
    (void)argument;
    for (;;)
        env_sleep(node_env(node), SPAN_S(86400));
}

static void leak(struct node *node, void *argument)
{
    (void)node;
    *(void **)argument = malloc(77);
}

static void leave_task_behind(struct node *node, void *argument)
{
    struct hf_error error;
    struct env_task *task;
    EXPECT(node_world(node),
           env_task_start(node_env(node), wait_until_ready, argument, &task, &error) == HF_OK);
}

static void leave_task_in_wait(struct node *node, void *argument)
{
    struct shared *shared = argument;
    env_mutex_init(node_env(node), &shared->mutex);
    env_cond_init(node_env(node), &shared->cond);
    leave_task_behind(node, argument);
}

static struct world *world_with(node_program *program, void *argument)
{
    struct world_options options = WORLD_OPTIONS;
    options.steps_max = 100000;
    struct world *world = world_new(&options);
    node_boot(new_node(world), program, argument);
    return world;
}

static void misuse_is_told_in_words(void **state)
{
    (void)state;
    struct shared shared = { 0 };
    void *leaked;
    assert_fails_with(world_with(lock_twice, NULL), "locks a mutex that it holds already");
    assert_fails_with(world_with(unlock_anyway, NULL), "unlocks a mutex that it does not hold");
    assert_fails_with(world_with(leak, &leaked), "left 1 allocations of 77 bytes");
    assert_fails_with(world_with(leave_task_in_wait, &shared),
                      "without joining 1 of its tasks");
}

static void a_run_that_does_not_end_is_told_in_words(void **state)
{
    (void)state;
    struct shared shared = { 0 };
    assert_fails_with(world_with(wait_for_ever, &shared),
                      "deadlock: node 1: task 0 waits for a condition");
    assert_fails_with(world_with(look_at_clock_for_ever, NULL),
                      "did not end within 100000 steps");
    assert_fails_with(world_with(sleep_for_ever, NULL), "did not end within its time");
}

/* ---- Crash, pause -------------------------------------------------------------------- */

struct crashes {
    int begun;
    int ended;
    bool crash_itself;
};

static void hold_memory(struct node *node, void *argument)
{
    struct crashes *crashes = argument;
    crashes->begun++;
    char *memory[50];
    for (int i = 0; i < 50; i++) {
        memory[i] = malloc(1000);
        memset(memory[i], i, 1000);
    }
    if (crashes->crash_itself && node_lives(node) == 1)
        node_crash(node);
    env_sleep(node_env(node), SPAN_S(10));
    crashes->ended++;
    for (int i = 0; i < 50; i++)
        free(memory[i]);
}

struct planned {
    struct node *node;
    void (*act)(struct node *node);
    struct timer timer;
};

static void act(void *argument)
{
    struct planned *planned = argument;
    planned->act(planned->node);
}

static void at_second(struct node *node, int64_t second, void (*action)(struct node *),
                      struct planned *planned)
{
    *planned = (struct planned){ .node = node, .act = action };
    world_set_timer(node_world(node), &planned->timer, second * 1000000, act, planned);
}

static void a_crash_takes_everything(void **state)
{
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        struct world *world = new_world(1);
        struct node *node = new_node(world);
        struct crashes crashes = { .crash_itself = itself };
        struct planned crash, restart;
        node_boot(node, hold_memory, &crashes);
        if (!itself)
            at_second(node, 5, node_crash, &crash);
        at_second(node, 6, node_restart, &restart);
        assert_runs_well(world); /* which includes: the second life leaked nothing */
        assert_int_equal(crashes.begun, 2);
        assert_int_equal(crashes.ended, 1);
        assert_int_equal(node_lives(node), 2);
        world_free(world);
    }
}

static void tick(struct node *node, void *argument)
{
    int64_t *longest_us = argument;
    struct env *env = node_env(node);
    struct mono_time last = env_now(env);
    for (int i = 0; i < 30; i++) {
        env_sleep(env, SPAN_S(1));
        struct mono_time now = env_now(env);
        int64_t gap = mono_since(now, last).us;
        *longest_us = gap > *longest_us ? gap : *longest_us;
        last = now;
    }
}

static void a_pause_stops_tasks_not_clocks(void **state)
{
    (void)state;
    void (*const stops[])(struct node *) = { node_pause, node_suspend_machine };
    for (int i = 0; i < 2; i++) {
        struct world *world = new_world(1);
        struct node *node = new_node(world), *other = new_node(world);
        int64_t longest_us = 0, longest_of_other_us = 0;
        struct planned stop, go;
        node_boot(node, tick, &longest_us);
        node_boot(other, tick, &longest_of_other_us);
        at_second(node, 5, stops[i], &stop);
        at_second(node, 25, node_resume, &go);
        assert_runs_well(world);
        assert_in_range(longest_us, 19000000, 21100000);
        assert_in_range(longest_of_other_us, 1000000, 1100000);
        world_free(world);
    }
}

static void wait_ten_seconds(struct node *node, void *argument)
{
    struct shared shared = { 0 };
    struct env *env = node_env(node);
    env_mutex_init(env, &shared.mutex);
    env_cond_init(env, &shared.cond);
    env_mutex_lock(&shared.mutex);
    struct mono_time moment = mono_add(env_now(env), SPAN_S(10));
    while (env_cond_wait_until(&shared.cond, &shared.mutex, moment))
        ;
    env_mutex_unlock(&shared.mutex);
    *(int64_t *)argument = world_now_us(node_world(node));
}

/* The deadline passes in the middle of 20 seconds of sleep. */
static int64_t late_after(void (*stop)(struct node *), uint64_t seed)
{
    struct world *world = new_world(seed);
    struct node *node = new_node(world);
    struct planned stopped, resumed;
    int64_t noticed_us = 0;
    node_boot(node, wait_ten_seconds, &noticed_us);
    at_second(node, 5, stop, &stopped);
    at_second(node, 25, node_resume, &resumed);
    assert_runs_well(world);
    world_free(world);
    return noticed_us - 25000000;
}

static void after_a_suspend_waits_end_late(void **state)
{
    (void)state;
    int64_t most_paused = 0, most_suspended = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t paused = late_after(node_pause, seed);
        int64_t suspended = late_after(node_suspend_machine, seed);
        assert_true(paused >= 0 && suspended >= 0);
        most_paused = paused > most_paused ? paused : most_paused;
        most_suspended = suspended > most_suspended ? suspended : most_suspended;
    }
    assert_true(most_paused < 10000);
    assert_in_range(most_suspended, 500000, 1010000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a fast clock wakes early, a slow one late", a_fast_clock_wakes_early),
        IT("calendars disagree by years and step; boot-time clocks do not",
           calendars_disagree_and_step),
        IT("a restart keeps the boot id, a reboot has a new one", a_reboot_has_a_new_id),
        IT("nodes beside each other share clock and boot id", neighbours_share_a_machine),
        IT("sleepers wake in the order of their moments", sleepers_wake_in_order),
        IT("a mutex lets one in at a time", a_mutex_excludes),
        IT("a signal wakes one, a broadcast all", conditions_wake_one_or_all),
        IT("a wait ends at its moment, or earlier for no reason", a_wait_ends_at_its_moment),
        IT("misuse of locks, leaks and lost tasks are told in words", misuse_is_told_in_words),
        IT("deadlocks and runs without end are told in words",
           a_run_that_does_not_end_is_told_in_words),
        IT("a crash takes tasks and memory where they stand", a_crash_takes_everything),
        IT("a pause stops tasks, not clocks, and not other nodes",
           a_pause_stops_tasks_not_clocks),
        IT("after a suspend waits with a deadline end up to a second late",
           after_a_suspend_waits_end_late),
    };
    int failed = cmocka_run_group_tests_name("sim", tests, NULL, NULL);
    fiber_pool_release();
    return failed;
}
