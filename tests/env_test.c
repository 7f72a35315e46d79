/* SPDX-License-Identifier: Apache-2.0 */
/* env_test.c: the real env keeps the promises of env.h. Lower bounds of times are exact and
 * upper bounds generous: a busy machine is late, never early. */
#include "base/view.h"
#include "env/env.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LATE_US (10 * 1000000)

static struct mono_time in_ms(int64_t ms)
{
    return mono_add(env_now(env_real()), SPAN_MS(ms));
}

/* ---- clocks -------------------------------------------------------------------------- */

static void boot_time_never_goes_back(void **state)
{
    (void)state;
    struct env *env = env_real();
    struct mono_time last = env_now(env);
    assert_true(last.us > 0);
    for (int i = 0; i < 100000; i++) {
        struct mono_time now = env_now(env);
        assert_false(mono_before(now, last));
        last = now;
    }
}

static void boot_time_counts_through_suspend(void **state)
{
    (void)state;
    struct timespec before, after;
    clock_gettime(CLOCK_BOOTTIME, &before);
    int64_t now = env_now(env_real()).us;
    clock_gettime(CLOCK_BOOTTIME, &after);
    assert_true(now >= before.tv_sec * INT64_C(1000000) + before.tv_nsec / 1000);
    assert_true(now <= after.tv_sec * INT64_C(1000000) + after.tv_nsec / 1000);
}

/* The calendar may be set between two looks at it, but hardly five times in a row. */
static void wall_time_is_the_calendar(void **state)
{
    bool right = false;
    (void)state;
    for (int i = 0; i < 5 && !right; i++) {
        int64_t before = time(NULL) - 1;
        struct wall_time wall = env_wall(env_real());
        int64_t after = time(NULL) + 1;
        right = wall.us >= before * 1000000 && wall.us <= after * 1000000;
    }
    assert_true(right);
}

static void the_boot_has_a_name(void **state)
{
    (void)state;
    const char *id = env_boot_id(env_real());
    assert_non_null(id);
    assert_true(strlen(id) >= 8);
    assert_null(strpbrk(id, " \n\t"));
    assert_string_equal(id, env_boot_id(env_real()));
}

/* What this very program says that the boot is called, started by `command`. */
static void boot_id_under(const char *command, char id[128])
{
    char line[512], self[256] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(line, sizeof line, "%s %s --boot-id", command, self);
    FILE *output = popen(line, "r");
    assert_non_null(output);
    assert_non_null(fgets(id, 128, output));
    assert_int_equal(pclose(output), 0);
    id[strcspn(id, "\n")] = '\0';
}

/* Two containers of one machine may have different boot-time clocks under one boot id. */
static void a_time_namespace_is_another_clock(void **state)
{
    (void)state;
    char plain[128], moved[128];
    boot_id_under("", plain);
    assert_string_equal(plain, env_boot_id(env_real()));
    boot_id_under("unshare -T --boottime 1000000", moved);
    assert_string_not_equal(plain, moved);
}

static void sleep_lasts_at_least_as_long(void **state)
{
    (void)state;
    struct env *env = env_real();
    static const int64_t ms[] = { 0, 1, 5, 20, 50 };
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
        struct mono_time before = env_now(env);
        env_sleep(env, SPAN_MS(ms[i]));
        int64_t slept = mono_since(env_now(env), before).us;
        assert_true(slept >= ms[i] * 1000);
        assert_true(slept < ms[i] * 1000 + LATE_US);
    }
}

static void a_past_moment_is_no_sleep(void **state)
{
    (void)state;
    struct env *env = env_real();
    struct mono_time before = env_now(env);
    env_sleep_until(env, (struct mono_time){ 0 });
    env_sleep_until(env, (struct mono_time){ -5000000 });
    env_sleep_until(env, (struct mono_time){ INT64_MIN });
    env_sleep(env, SPAN_S(-3600));
    assert_true(mono_since(env_now(env), before).us < LATE_US);
}

/* ---- randomness ---------------------------------------------------------------------- */

static void random_bytes_fill_all_and_only_their_room(void **state)
{
    (void)state;
    struct env *env = env_real();
    enum { SIZE = 100000 };
    unsigned char *bytes = calloc(1, SIZE + 2);
    assert_non_null(bytes);
    env_random(env, bytes, 0);
    assert_int_equal(bytes[0], 0);
    env_random(env, bytes + 1, SIZE);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[SIZE + 1], 0);
    size_t counts[256] = { 0 };
    for (size_t i = 1; i <= SIZE; i++)
        counts[bytes[i]]++;
    /* 390 expected, standard deviation 20: ten of them off happens in no lifetime. */
    for (size_t i = 0; i < 256; i++)
        assert_in_range(counts[i], 190, 590);
    free(bytes);
}

static void random_numbers_do_not_repeat(void **state)
{
    (void)state;
    static uint64_t seen[1000];
    for (size_t i = 0; i < 1000; i++) {
        seen[i] = env_random_u64(env_real());
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
}

/* Both have fetched more than they have used when one becomes two. */
static void a_child_draws_other_bytes(void **state)
{
    (void)state;
    uint64_t ours, theirs = 0;
    int ends[2];
    env_random_u64(env_real());
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        ours = env_random_u64(env_real());
        _exit(write(ends[1], &ours, sizeof ours) != sizeof ours);
    }
    ours = env_random_u64(env_real());
    assert_int_equal(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(ours != theirs);
    close(ends[0]);
    close(ends[1]);
}

static void random_numbers_stay_below_their_bound(void **state)
{
    (void)state;
    struct env *env = env_real();
    size_t counts[6] = { 0 };
    for (int i = 0; i < 60000; i++) {
        uint64_t value = env_random_below(env, 6);
        assert_true(value < 6);
        counts[value]++;
        assert_true(env_random_below(env, 1) == 0);
    }
    for (size_t i = 0; i < 6; i++)
        assert_in_range(counts[i], 9000, 11000);
    /* Three quarters of the range: a plain remainder would land in the lower part twice as
     * often as in the rest. */
    const uint64_t bound = UINT64_C(3) << 62;
    int low = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t value = env_random_below(env, bound);
        assert_true(value < bound);
        low += value < bound / 3;
    }
    assert_in_range(low, 9000, 11000);
}

static void jitter_reaches_both_ends(void **state)
{
    (void)state;
    struct env *env = env_real();
    int ends[2] = { 0, 0 };
    assert_int_equal(env_jitter(env, SPAN_US(0)).us, 0);
    for (int i = 0; i < 1000; i++) {
        int64_t us = env_jitter(env, SPAN_US(1)).us;
        assert_true(us == 0 || us == 1);
        ends[us]++;
        struct span far = env_jitter(env, (struct span){ MOMENT_FAR });
        assert_true(far.us >= 0 && far.us <= MOMENT_FAR);
    }
    assert_true(ends[0] > 300 && ends[1] > 300);
}

/* ---- tasks, mutex, condition --------------------------------------------------------- */

enum { TASKS = 8, ROUNDS = 20000 };

struct shared {
    struct env_mutex mutex;
    struct env_cond cond;
    long count;
    bool inside, broken, open;
};

static void shared_init(struct shared *shared)
{
    *shared = (struct shared){ .count = 0 };
    env_mutex_init(env_real(), &shared->mutex);
    env_cond_init(env_real(), &shared->cond);
}

static void shared_release(struct shared *shared)
{
    env_cond_release(&shared->cond);
    env_mutex_release(&shared->mutex);
}

static void start_all(struct env_task *tasks[TASKS], void (*run)(void *), void *argument)
{
    for (int i = 0; i < TASKS; i++) {
        struct hf_error error;
        assert_status(HF_OK, env_task_start(env_real(), run, argument, &tasks[i], &error),
                      &error);
    }
}

static void join_all(struct env_task *tasks[TASKS])
{
    for (int i = 0; i < TASKS; i++)
        env_task_join(env_real(), tasks[i]);
}

static void count_inside(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < ROUNDS; i++) {
        env_mutex_lock(&shared->mutex);
        shared->broken |= shared->inside;
        shared->inside = true;
        shared->count++;
        shared->inside = false;
        env_mutex_unlock(&shared->mutex);
    }
}

static void a_mutex_lets_one_in(void **state)
{
    (void)state;
    struct shared shared;
    struct env_task *tasks[TASKS];
    shared_init(&shared);
    start_all(tasks, count_inside, &shared);
    join_all(tasks);
    assert_int_equal(shared.count, TASKS * ROUNDS);
    assert_false(shared.broken);
    shared_release(&shared);
}

static void wait_until_open(void *argument)
{
    struct shared *shared = argument;
    env_mutex_lock(&shared->mutex);
    shared->count++;
    env_cond_broadcast(&shared->cond);
    while (!shared->open)
        env_cond_wait(&shared->cond, &shared->mutex);
    shared->count--;
    env_mutex_unlock(&shared->mutex);
}

static void a_broadcast_wakes_all(void **state)
{
    (void)state;
    struct shared shared;
    struct env_task *tasks[TASKS];
    shared_init(&shared);
    start_all(tasks, wait_until_open, &shared);
    env_mutex_lock(&shared.mutex);
    while (shared.count < TASKS)
        env_cond_wait(&shared.cond, &shared.mutex);
    shared.open = true;
    env_cond_broadcast(&shared.cond);
    env_mutex_unlock(&shared.mutex);
    join_all(tasks);
    assert_int_equal(shared.count, 0);
    shared_release(&shared);
}

/* Waits for even counts to become odd; the test does the opposite. */
static void play_ball(void *argument)
{
    struct shared *shared = argument;
    env_mutex_lock(&shared->mutex);
    while (shared->count < ROUNDS) {
        if (shared->count % 2 == 0) {
            env_cond_wait(&shared->cond, &shared->mutex);
            continue;
        }
        shared->count++;
        env_cond_signal(&shared->cond);
    }
    env_mutex_unlock(&shared->mutex);
}

static void no_signal_is_lost(void **state)
{
    (void)state;
    struct shared shared;
    struct env_task *task;
    struct hf_error error;
    shared_init(&shared);
    assert_status(HF_OK, env_task_start(env_real(), play_ball, &shared, &task, &error), &error);
    env_mutex_lock(&shared.mutex);
    bool in_time = true;
    struct mono_time deadline = in_ms(60000);
    while (shared.count < ROUNDS && in_time) {
        if (shared.count % 2 == 0) {
            shared.count++;
            env_cond_signal(&shared.cond);
        } else {
            in_time = env_cond_wait_until(&shared.cond, &shared.mutex, deadline);
        }
    }
    if (!in_time)
        shared.count = ROUNDS;
    env_cond_signal(&shared.cond);
    env_mutex_unlock(&shared.mutex);
    env_task_join(env_real(), task);
    assert_true(in_time);
    shared_release(&shared);
}

static void a_wait_ends_at_its_moment(void **state)
{
    (void)state;
    struct shared shared;
    shared_init(&shared);
    env_mutex_lock(&shared.mutex);
    static const int64_t ms[] = { -1000, 0, 1, 10, 40 };
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
        struct mono_time moment = in_ms(ms[i]);
        while (env_cond_wait_until(&shared.cond, &shared.mutex, moment))
            ;
        assert_false(mono_before(env_now(env_real()), moment));
        assert_true(mono_since(env_now(env_real()), moment).us < LATE_US + 1000000);
    }
    assert_false(env_cond_wait_until(&shared.cond, &shared.mutex, (struct mono_time){ 0 }));
    assert_false(env_cond_wait_until(&shared.cond, &shared.mutex, (struct mono_time){ -1 }));
    env_mutex_unlock(&shared.mutex);
    shared_release(&shared);
}

static void open_the_door(void *argument)
{
    struct shared *shared = argument;
    env_mutex_lock(&shared->mutex);
    shared->open = true;
    env_cond_signal(&shared->cond);
    env_mutex_unlock(&shared->mutex);
}

static void the_farthest_moment_is_a_moment(void **state)
{
    (void)state;
    static const int64_t far[] = { MOMENT_FAR, MOMENT_FAR + 1, INT64_MAX };
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        struct shared shared;
        struct env_task *task;
        struct hf_error error;
        bool in_time = true;
        shared_init(&shared);
        env_mutex_lock(&shared.mutex);
        assert_status(HF_OK, env_task_start(env_real(), open_the_door, &shared, &task, &error),
                      &error);
        while (!shared.open && in_time)
            in_time =
                env_cond_wait_until(&shared.cond, &shared.mutex, (struct mono_time){ far[i] });
        env_mutex_unlock(&shared.mutex);
        env_task_join(env_real(), task);
        assert_true(in_time);
        shared_release(&shared);
    }
}

static void do_nothing(void *argument)
{
    ++*(int *)argument;
}

static void tasks_come_and_go(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 1000; i++) {
        struct env_task *task;
        struct hf_error error;
        assert_status(HF_OK, env_task_start(env_real(), do_nothing, &ran, &task, &error),
                      &error);
        env_task_join(env_real(), task);
    }
    assert_int_equal(ran, 1000);
}

int main(int argc, char **argv)
{
    if (argc == 2 && view_equal(view_of(argv[1]), VIEW("--boot-id")))
        return puts(env_boot_id(env_real())) < 0;
    const struct CMUnitTest tests[] = {
        IT("boot time never goes back", boot_time_never_goes_back),
        IT("boot time is the clock that counts through suspend",
           boot_time_counts_through_suspend),
        IT("wall time is the calendar's", wall_time_is_the_calendar),
        IT("the boot has a name that stays", the_boot_has_a_name),
        IT("a time namespace is another clock, with another name",
           a_time_namespace_is_another_clock),
        IT("a sleep lasts at least as long as asked", sleep_lasts_at_least_as_long),
        IT("a moment in the past is no sleep", a_past_moment_is_no_sleep),
        IT("random bytes fill all of their room and nothing else",
           random_bytes_fill_all_and_only_their_room),
        IT("random numbers do not repeat", random_numbers_do_not_repeat),
        IT("a forked child draws other random bytes than its parent",
           a_child_draws_other_bytes),
        IT("random numbers are uniform below their bound",
           random_numbers_stay_below_their_bound),
        IT("jitter reaches both ends and never passes them", jitter_reaches_both_ends),
        IT("a mutex lets one of eight tasks in at a time", a_mutex_lets_one_in),
        IT("a broadcast wakes all who wait", a_broadcast_wakes_all),
        IT("no signal is lost in twenty thousand hand-overs", no_signal_is_lost),
        IT("a wait ends at its moment and not before", a_wait_ends_at_its_moment),
        IT("a wait until the farthest moment ends by a signal",
           the_farthest_moment_is_a_moment),
        IT("a task that ended leaves nothing behind", tasks_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
