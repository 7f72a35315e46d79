/* SPDX-License-Identifier: Apache-2.0 */
/* spared_test.c: the children that holdfast has before it starts a guard. A shell passes them on
 * when it executes holdfast in its place. They are not ours to end. */
#include "cli/run/descendants.h"
#include "cli/run/guard.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that was there before, and a child of its own. */
struct bystander {
    pid_t pid, child;
};

static struct bystander start_bystander(void)
{
    struct bystander bystander;
    char text[32] = "";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bystander.pid = fork();
    if (bystander.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("sh", "sh", "-c", "sleep 1000 >&- & echo $!; exec >&-; wait", (char *)NULL);
        _exit(127);
    }
    FILE *said = fdopen(ends[0], "r");
    close(ends[1]);
    assert_true(bystander.pid > 0 && said && fgets(text, sizeof text, said));
    fclose(said);
    bystander.child = (pid_t)strtol(text, NULL, 10);
    return bystander;
}

static void end_bystander(const struct bystander *bystander)
{
    assert_int_equal(waitpid(bystander->pid, NULL, WNOHANG), 0);
    assert_int_equal(kill(bystander->child, SIGKILL), 0); /* both are alive */
    assert_int_equal(waitpid(bystander->pid, NULL, 0), bystander->pid);
}

/* The script says "ready" when it has started all that it starts. */
static void start_guard(struct guard *guard, const char *script, int *ret_ready)
{
    static const char *words[] = { "sh", "-c", NULL, NULL };
    static sigset_t mask;
    struct guard_command command = { .words = words, .mask = &mask };
    struct hf_error error;
    int ends[2];
    words[2] = script;
    sigemptyset(&mask);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], 9), 9);
    close(ends[1]);
    assert_status(HF_OK, guard_start(guard, env_real(), &command, &error), &error);
    close(9);
    *ret_ready = ends[0];
}

/* Everything under the guard holds the write end. */
static void expect_all_dead(int ready)
{
    char bytes[64];
    while (read(ready, bytes, sizeof bytes) > 0)
        ;
    close(ready);
}

/* ---- Tests --------------------------------------------------------------------------- */

static void the_death_of_the_guard_spares_others(void **state)
{
    (void)state;
    struct bystander bystander = start_bystander();
    struct mono_time end = mono_add(env_now(env_real()), SPAN_S(3600));
    struct guard_times times = { end, end, SPAN_MS(200) };
    struct guard guard;
    char bytes[6];
    int ready;
    start_guard(&guard,
                "trap '' TERM; setsid sh -c 'sleep 1000 & sleep 1000' & (setsid sleep 1000 &); "
                "echo ready >&9; sleep 1000",
                &ready);
    guard_go(&guard, &times, /* variables */ NULL, 0);
    assert_int_equal(read(ready, bytes, sizeof bytes), sizeof bytes);
    kill(guard.pid, SIGKILL);
    assert_true(guard_end_all(&guard, env_real()));
    expect_all_dead(ready);
    end_bystander(&bystander);
}

static void a_guard_that_started_nothing_ends_alone(void **state)
{
    (void)state;
    struct guard guard;
    int ready;
    start_guard(&guard, "echo started >&9", &ready);
    struct bystander bystander = start_bystander(); /* a later one is not ours to end either */
    assert_true(guard_end_all(&guard, env_real()));
    expect_all_dead(ready);
    end_bystander(&bystander);
}

/* Its process id may be that of another process by then. */
static void a_child_that_has_ended_is_spared_no_longer(void **state)
{
    (void)state;
    struct spared spared;
    struct bystander bystander = start_bystander();
    descendants_spare(&spared);
    assert_int_equal(spared.count, 1);
    assert_int_equal(spared.children[0], bystander.pid);
    assert_int_equal(descendants_signal(0, &spared).count, 0);
    assert_int_equal(descendants_signal_by_scan(0, &spared).count, 0);
    kill(bystander.child, SIGKILL);
    while (descendants_bury_all(&spared) >= 0)
        env_sleep(env_real(), SPAN_MS(1));
    assert_int_equal(spared.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("when the guard is killed the children that were there before it live on",
           the_death_of_the_guard_spares_others),
        IT("a guard that has started nothing ends alone",
           a_guard_that_started_nothing_ends_alone),
        IT("a child that has ended is spared no longer",
           a_child_that_has_ended_is_spared_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
