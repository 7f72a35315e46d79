/* SPDX-License-Identifier: Apache-2.0 */
/* guard_test.c: the guard process of `holdfast run`, with deadlines set by the test: no store,
 * no lease.
 *
 * A pipe shows whether a process is alive: the command, its descendants and the guard hold its
 * write end. When the reader sees the end of file, all of them are dead. */
#include "base/view.h"
#include "cli/run/descendants.h"
#include "cli/run/guard.h"
#include "cli/run/guard_message.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test that waits longer than this for something has failed. */
#define PATIENCE SPAN_S(20)

#define FAR_OFF SPAN_S(3600)

struct trial {
    struct env *env;
    struct guard guard;
    int life;    /* the read end; its write end is number 9 in the command */
    int writing; /* the write end, until the guard has started */
    sigset_t mask;
    struct guard_command command;
    const char *words[4];
    char said[1024];
    size_t said_size;
};

#define LIFE_NUMBER 9

/* Starts a guard that waits with this shell script. */
static void setup_script(struct trial *trial, const char *script)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(dup2(ends[1], LIFE_NUMBER), LIFE_NUMBER);
    close(ends[1]);
    *trial = (struct trial){ .env = env_real(), .life = ends[0] };
    trial->words[0] = "sh";
    trial->words[1] = "-c";
    trial->words[2] = script;
    trial->command.words = trial->words;
    trial->command.mask = &trial->mask;
    sigemptyset(&trial->mask);
}

static void start(struct trial *trial)
{
    struct hf_error error;
    assert_status(HF_OK, guard_start(&trial->guard, trial->env, &trial->command, &error),
                  &error);
    close(LIFE_NUMBER);
}

/* The same with one of its standard files in place of ours. */
static void start_with(struct trial *trial, int standard, int instead)
{
    int before = dup(standard);
    assert_true(before >= 0 && dup2(instead, standard) == standard);
    start(trial);
    assert_int_equal(dup2(before, standard), standard);
    close(before);
}

static struct guard_times times_in(const struct trial *trial, struct span until_kill,
                                   struct span grace)
{
    struct mono_time kill_at = mono_add(env_now(trial->env), until_kill);
    return (struct guard_times){ .term_at = mono_add(kill_at, SPAN_US(-grace.us)),
                                 .kill_at = kill_at,
                                 .grace = grace };
}

static void go(struct trial *trial, struct span until_kill, struct span grace)
{
    struct guard_times times = times_in(trial, until_kill, grace);
    guard_go(&trial->guard, &times, /* variables */ NULL, 0);
}

/* Starts the script under a guard whose deadline is not of interest. */
static void begin(struct trial *trial, const char *script)
{
    setup_script(trial, script);
    start(trial);
    go(trial, FAR_OFF, SPAN_MS(200));
}

static void finish(struct trial *trial)
{
    assert_true(guard_end_all(&trial->guard, trial->env));
    close(trial->life);
}

/* ---- Waiting ------------------------------------------------------------------------- */

static int patience_ms(void)
{
    return (int)(PATIENCE.us / 1000);
}

static struct guard_report next_report(struct trial *trial)
{
    struct guard_report report;
    struct pollfd ready = { .fd = trial->guard.socket, .events = POLLIN };
    while (!guard_next(&trial->guard, &report))
        if (poll(&ready, 1, patience_ms()) == 0)
            fail_msg("no report came");
    return report;
}

static int expect_report(struct trial *trial, enum guard_report_kind kind)
{
    struct guard_report report = next_report(trial);
    if (report.kind != kind)
        fail_msg("report %d (%d), expected %d", report.kind, report.value, kind);
    return report.value;
}

static void expect_start_and_end(struct trial *trial)
{
    expect_report(trial, GUARD_STARTED);
    expect_report(trial, GUARD_EXITED);
    expect_report(trial, GUARD_NOTHING_LEFT);
}

/* Reads what was written into the pipe, until these words have come, or with NULL until
 * everybody who could write is dead. */
static const char *hear(struct trial *trial, const char *words)
{
    struct pollfd ready = { .fd = trial->life, .events = POLLIN };
    while (!words || !strstr(trial->said, words)) {
        if (poll(&ready, 1, patience_ms()) == 0)
            fail_msg("somebody still lives; heard '%s'", trial->said);
        ssize_t size = read(trial->life, trial->said + trial->said_size,
                            sizeof trial->said - 1 - trial->said_size);
        assert_true(size >= 0);
        if (size == 0 && words)
            fail_msg("all are dead; heard '%s'", trial->said);
        if (size == 0)
            break;
        trial->said_size += (size_t)size;
        trial->said[trial->said_size] = '\0';
    }
    return trial->said;
}

static void expect_all_dead(struct trial *trial)
{
    hear(trial, NULL);
}

/* ---- The plan ------------------------------------------------------------------------ */

static void it_leaves_time(void **state)
{
    (void)state;
    struct mono_time deadline = { 1000 * 1000000 };
    for (int64_t ttl_ms = 1000; ttl_ms < 3600000; ttl_ms = ttl_ms * 3 / 2) {
        struct guard_times times = guard_times_for(deadline, SPAN_MS(ttl_ms));
        int64_t lead_us = deadline.us - times.kill_at.us;
        int64_t grace_us = times.kill_at.us - times.term_at.us;
        assert_true(lead_us >= 100000 && lead_us >= ttl_ms * 1000 / 20);
        assert_true(grace_us == times.grace.us && grace_us > 0 && grace_us <= 5000000);
        /* Renewed at a third of the ttl, a lease still has more than the next third of it. */
        assert_true(lead_us + grace_us < ttl_ms * 1000 / 3);
    }
}

/* ---- The command --------------------------------------------------------------------- */

static void it_reports_the_exit(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, "exit 37");
    assert_true(expect_report(&trial, GUARD_STARTED) > 0);
    int status = expect_report(&trial, GUARD_EXITED);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 37);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    expect_all_dead(&trial);
    finish(&trial);
}

static void it_reports_the_signal(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, "kill -USR1 $$");
    expect_report(&trial, GUARD_STARTED);
    int status = expect_report(&trial, GUARD_EXITED);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    finish(&trial);
}

static void expect_not_started(const char *program, int reason, int code)
{
    struct trial trial;
    setup_script(&trial, NULL);
    trial.words[0] = program;
    start(&trial);
    go(&trial, FAR_OFF, SPAN_MS(200));
    struct guard_report first = next_report(&trial), second = next_report(&trial);
    if (first.kind == GUARD_STARTED) /* the guard and its child report side by side */
        first = second;
    assert_int_equal(first.kind, GUARD_NOT_STARTED);
    assert_int_equal(first.value, reason);
    assert_int_equal(WEXITSTATUS(expect_report(&trial, GUARD_EXITED)), code);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    finish(&trial);
}

static void it_says_why_not_started(void **state)
{
    (void)state;
    expect_not_started("no-such-program-anywhere", ENOENT, 127);
    expect_not_started("/dev/null", EACCES, 126);
    expect_not_started("/", EACCES, 126);
    expect_not_started("/dev/null/x", ENOTDIR, 127);
}

static void it_sets_variables(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "echo \"$HF_A|$HF_B|$HF_C\" >&9");
    start(&trial);
    struct guard_variable variables[] = { { "HF_A", "41" }, { "HF_B", "" }, { "HF_C", "x=y" } };
    struct guard_times times = times_in(&trial, FAR_OFF, SPAN_MS(200));
    guard_go(&trial.guard, &times, variables, 3);
    assert_string_equal(hear(&trial, NULL), "41||x=y\n");
    finish(&trial);
}

/* "SigIgn:\t0000000000001000" and such. */
static uint64_t signal_set_in(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    uint64_t set = 0;
    for (at += strlen(name) + 2; *at && *at != '\n'; at++)
        set = set * 16 + (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return set;
}

static void it_restores_signals(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, NULL);
    trial.words[0] = "grep"; /* a shell would change its own mask */
    trial.words[1] = "^Sig";
    trial.words[2] = "/proc/self/status";
    sigaddset(&trial.mask, SIGUSR2);
    void (*old)(int) = signal(SIGCHLD, SIG_IGN);
    start_with(&trial, STDOUT_FILENO, LIFE_NUMBER);
    go(&trial, FAR_OFF, SPAN_MS(200));
    const char *text = hear(&trial, NULL);
    assert_int_equal(signal_set_in(text, "SigBlk"), UINT64_C(1) << (SIGUSR2 - 1));
    assert_int_equal(signal_set_in(text, "SigIgn") >> (SIGCHLD - 1) & 1, 1);
    finish(&trial);
    signal(SIGCHLD, old);
}

static void it_stays_in_the_group(void **state)
{
    (void)state;
    struct trial trial;
    /* The guard leaves the session once it has started the command, which may look before that. */
    begin(&trial, "cut -d' ' -f5,6 /proc/$$/stat >&9;"
                  "for i in $(seq 200); do"
                  " session=$(cut -d' ' -f6 /proc/$PPID/stat); [ $session = $PPID ] && break;"
                  " sleep 0.05; done; echo $session >&9");
    const char *text = hear(&trial, NULL);
    char expected[64];
    int size = snprintf(expected, sizeof expected, "%d %d\n", (int)getpgrp(), (int)getsid(0));
    assert_memory_equal(text, expected, (size_t)size);
    snprintf(expected, sizeof expected, "%d\n", (int)trial.guard.pid);
    assert_string_equal(text + size, expected);
    finish(&trial);
}

static bool may_go_before_others(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct sched_param first = { .sched_priority = 1 };
        _exit(sched_setscheduler(0, SCHED_FIFO, &first) == 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void it_goes_before_others(void **state)
{
    (void)state;
    struct trial trial;
    int wanted = may_go_before_others() ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER;
    begin(&trial, "exec sleep 60");
    pid_t command = expect_report(&trial, GUARD_STARTED);
    struct mono_time give_up = mono_add(env_now(env_real()), SPAN_S(20));
    while (sched_getscheduler(trial.guard.pid) != wanted &&
           mono_before(env_now(env_real()), give_up))
        env_sleep(env_real(), SPAN_MS(1));
    assert_int_equal(sched_getscheduler(trial.guard.pid), wanted);
    assert_int_equal(sched_getscheduler(command), SCHED_OTHER);
    guard_end(&trial.guard, SPAN_MS(0));
    finish(&trial);
}

static void it_passes_on_signals(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, "trap 'echo usr1 >&9' USR1; trap 'exit 5' TERM; echo ready >&9; "
                  "while :; do read -r x || sleep 0.01; done </dev/null");
    expect_report(&trial, GUARD_STARTED);
    hear(&trial, "ready");
    guard_signal(&trial.guard, SIGUSR1);
    hear(&trial, "usr1");
    guard_signal(&trial.guard, SIGTERM);
    assert_int_equal(WEXITSTATUS(expect_report(&trial, GUARD_EXITED)), 5);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    finish(&trial);
}

/* ---- Deadlines ----------------------------------------------------------------------- */

/* Stubborn in every way that does not need privileges: ignores TERM, leaves the session, loses
 * its parent, stands still. */
#define STUBBORN                                \
    "trap '' TERM HUP INT; "                    \
    "setsid sh -c 'sleep 1000 & sleep 1000' & " \
    "(setsid sh -c 'sleep 1000; :' &) ; "       \
    "(sh -c 'kill -STOP $$; :' &) ; "           \
    "echo ready >&9; "                          \
    "while :; do sleep 1000; done"

static void it_kills_at_the_deadline(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, STUBBORN);
    start(&trial);
    struct guard_times times = times_in(&trial, SPAN_MS(800), SPAN_MS(200));
    guard_go(&trial.guard, &times, NULL, 0);
    expect_report(&trial, GUARD_STARTED);
    hear(&trial, "ready");
    expect_report(&trial, GUARD_OVERDUE);
    assert_false(mono_before(env_now(trial.env), times.term_at));
    assert_int_equal(WTERMSIG(expect_report(&trial, GUARD_EXITED)), SIGKILL);
    assert_false(mono_before(env_now(trial.env), times.kill_at));
    expect_report(&trial, GUARD_NOTHING_LEFT);
    expect_all_dead(&trial);
    finish(&trial);
}

static void it_terminates_first(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "trap 'echo asked >&9; exit 3' TERM; echo ready >&9; "
                         "while :; do sleep 0.01; done");
    start(&trial);
    go(&trial, SPAN_S(20), SPAN_MS(19700));
    expect_report(&trial, GUARD_STARTED);
    hear(&trial, "ready");
    expect_report(&trial, GUARD_OVERDUE);
    assert_int_equal(WEXITSTATUS(expect_report(&trial, GUARD_EXITED)), 3);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    hear(&trial, "asked");
    finish(&trial);
}

static void it_obeys_a_moved_deadline(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "read -r x; exit 4");
    int line[2];
    assert_int_equal(pipe(line), 0);
    fcntl(line[1], F_SETFD, FD_CLOEXEC);
    start_with(&trial, STDIN_FILENO, line[0]);
    go(&trial, SPAN_MS(400), SPAN_MS(100));
    expect_report(&trial, GUARD_STARTED);
    struct mono_time first_deadline = mono_add(env_now(trial.env), SPAN_MS(400));
    struct guard_times later = times_in(&trial, FAR_OFF, SPAN_MS(100));
    guard_move(&trial.guard, &later);
    env_sleep_until(trial.env, mono_add(first_deadline, SPAN_MS(50)));
    struct guard_report report;
    assert_false(guard_next(&trial.guard, &report));
    assert_int_equal(write(line[1], "x\n", 2), 2);
    assert_int_equal(WEXITSTATUS(expect_report(&trial, GUARD_EXITED)), 4);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    close(line[0]);
    close(line[1]);
    finish(&trial);
}

static void it_starts_nothing_late(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "echo started >&9");
    start(&trial);
    go(&trial, SPAN_MS(100), SPAN_MS(200));
    expect_report(&trial, GUARD_OVERDUE);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    assert_string_equal(hear(&trial, NULL), "");
    finish(&trial);
}

/* ---- Other ends ---------------------------------------------------------------------- */

static void it_ends_when_told(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, STUBBORN);
    expect_report(&trial, GUARD_STARTED);
    hear(&trial, "ready");
    guard_end(&trial.guard, SPAN_MS(200));
    assert_int_equal(WTERMSIG(expect_report(&trial, GUARD_EXITED)), SIGKILL);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    expect_all_dead(&trial);
    finish(&trial);
}

static void it_ends_unused(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "echo started >&9");
    start(&trial);
    guard_end(&trial.guard, SPAN_MS(200));
    expect_report(&trial, GUARD_NOTHING_LEFT);
    assert_string_equal(hear(&trial, NULL), "");
    finish(&trial);
}

static void it_ends_what_is_left_behind(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, "setsid sleep 1000 & (sleep 1000 &); exit 6");
    expect_report(&trial, GUARD_STARTED);
    assert_int_equal(WEXITSTATUS(expect_report(&trial, GUARD_EXITED)), 6);
    expect_report(&trial, GUARD_NOTHING_LEFT);
    expect_all_dead(&trial);
    finish(&trial);
}

/* The guard speaks to stderr then; that is not for the log of this test. */
static void it_ends_when_holdfast_is_gone(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, STUBBORN);
    start_with(&trial, STDERR_FILENO, LIFE_NUMBER);
    go(&trial, FAR_OFF, SPAN_MS(200));
    hear(&trial, "ready");
    close(trial.guard.socket);
    assert_non_null(strstr(hear(&trial, NULL), "holdfast was killed"));
    trial.guard.socket = -1;
    finish(&trial);
}

static void its_death_ends_all(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, STUBBORN);
    expect_report(&trial, GUARD_STARTED);
    hear(&trial, "ready");
    kill(trial.guard.pid, SIGKILL);
    expect_report(&trial, GUARD_DEAD);
    assert_true(guard_end_all(&trial.guard, trial.env));
    expect_all_dead(&trial);
    close(trial.life);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Without holdfast's help, which cannot be had when it is killed too. */
static void its_death_kills_the_command(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, "echo ready >&9; exec sleep 1000");
    hear(&trial, "ready");
    kill(trial.guard.pid, SIGKILL);
    expect_all_dead(&trial);
    finish(&trial);
}

static void it_can_be_ended_when_stopped(void **state)
{
    (void)state;
    struct trial trial;
    begin(&trial, STUBBORN);
    hear(&trial, "ready");
    kill(trial.guard.pid, SIGSTOP);
    assert_true(guard_end_all(&trial.guard, trial.env));
    expect_all_dead(&trial);
    close(trial.life);
}

/* Forty processes make others all the time, each with a session of its own and a parent that
 * goes away. */
static void it_ends_those_who_fork_on(void **state)
{
    (void)state;
    struct trial trial;
    setup_script(&trial, "trap '' TERM; "
                         "echo ready >&9; i=0; while [ $i -lt 40 ]; do "
                         "sh -c 'trap \"\" TERM; while :; do (setsid sleep 3 &); sleep 0.02; "
                         "done' & i=$((i+1)); done; wait");
    start(&trial);
    go(&trial, SPAN_MS(1500), SPAN_MS(300));
    hear(&trial, "ready");
    expect_report(&trial, GUARD_STARTED);
    expect_report(&trial, GUARD_OVERDUE);
    /* On a busy machine a killed process may take so long to end that it is reported as stuck. */
    for (int ended = 0; ended < 2;) {
        struct guard_report report = next_report(&trial);
        if (report.kind != GUARD_STUCK)
            assert_int_equal(report.kind, ended++ == 0 ? GUARD_EXITED : GUARD_NOTHING_LEFT);
    }
    expect_all_dead(&trial);
    finish(&trial);
}

/* ---- Finding descendants ------------------------------------------------------------- */

static void both_ways_find_the_same(void **state)
{
    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    struct trial trial = { .env = env_real() };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], LIFE_NUMBER);
        close(ends[0]);
        close(ends[1]);
        execlp("sh", "sh", "-c",
               "setsid sh -c 'echo a >&9; "
               "exec sleep 1000' & sh -c 'sh -c \"echo b >&9; exec sleep 1000\" & "
               "sh -c \"echo c >&9; exec sleep 1000\"; :' & (sh -c 'echo d >&9; exec sleep "
               "1000' &) ; "
               "echo e >&9; exec sleep 1000",
               (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    trial.life = ends[0];
    for (const char *const *leaf = (const char *const[]){ "a", "b", "c", "d", "e", NULL };
         *leaf; leaf++)
        hear(&trial, *leaf);
    assert_int_equal(descendants_signal(0, NULL).count, 6);
    assert_int_equal(descendants_signal_by_scan(0, NULL).count, 6);
    descendants_signal_by_scan(SIGKILL, NULL);
    hear(&trial, NULL);
    int status;
    while (descendants_bury(&status) >= 0)
        ;
    assert_int_equal(descendants_signal(0, NULL).count, 0);
    assert_int_equal(descendants_signal_by_scan(0, NULL).count, 0);
    close(trial.life);
}

/* It exits as soon as nothing is left, with a new deadline just sent to it. */
static void it_is_heard_to_the_end(void **state)
{
    (void)state;
    int ends[2];
    struct guard guard = { .pid = -1 };
    struct guard_report report = { .kind = GUARD_OVERDUE };
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    guard.socket = ends[0];
    assert_int_equal(send(ends[0], "unread", 6, 0), 6);
    assert_int_equal(send(ends[1], &report, sizeof report, 0), sizeof report);
    report.kind = GUARD_NOTHING_LEFT;
    assert_int_equal(send(ends[1], &report, sizeof report, 0), sizeof report);
    close(ends[1]);
    assert_true(guard_next(&guard, &report));
    assert_int_equal(report.kind, GUARD_OVERDUE);
    assert_true(guard_next(&guard, &report));
    assert_int_equal(report.kind, GUARD_NOTHING_LEFT);
    close(ends[0]);
}

/* ---- Releasing ----------------------------------------------------------------------- */

/* Says what it finds, where the command would. */
static const char *const releaser_words[] = {
    "releaser", "-c", "echo \"released $(cat) at $HOLDFAST_STORE, ${HOLDFAST_LEASE-none}\" >&9",
    NULL
};
#define RELEASED "released 7:a-1:t at sqlite:x, none\n"

/* Starts the script under a guard that could release a lease. */
static void begin_with_lease_and(struct trial *trial, const char *script,
                                 const char *const *success_words)
{
    setup_script(trial, script);
    trial->command.success_words = success_words;
    trial->command.releaser = "/bin/sh";
    trial->command.releaser_words = releaser_words;
    start_with(trial, STDERR_FILENO, LIFE_NUMBER);
    struct guard_variable variables[] = { { "HOLDFAST_LEASE", "7:a-1:t" },
                                          { "HOLDFAST_STORE", "sqlite:x" } };
    struct guard_times times = times_in(trial, FAR_OFF, SPAN_MS(200));
    guard_go(&trial->guard, &times, variables, 2);
}

static void begin_with_lease(struct trial *trial, const char *script)
{
    begin_with_lease_and(trial, script, /* success_words */ NULL);
}

static void gone_without_a_word(struct trial *trial)
{
    close(trial->guard.socket);
    trial->guard.socket = -1;
}

/* Deaf to TERM, in a session of its own, and heard until it dies. */
#define BEATING                                                                                \
    "setsid sh -c 'trap \"\" TERM; while :; do echo beat >&9; sleep 0.02; done' & echo ready " \
    ">&9; "                                                                                    \
    "sleep 1000"

static void it_releases_when_all_are_dead(void **state)
{
    (void)state;
    struct trial trial;
    begin_with_lease(&trial, BEATING);
    hear(&trial, "beat");
    gone_without_a_word(&trial);
    const char *said = hear(&trial, NULL);
    const char *released = strstr(said, RELEASED);
    if (!released || strcmp(released, RELEASED) != 0)
        fail_msg("heard '%s'", said);
    assert_non_null(strstr(said, "releases the lock"));
    finish(&trial);
}

static void it_releases_for_one_that_did_not_get_to_it(void **state)
{
    (void)state;
    struct trial trial;
    begin_with_lease(&trial, "exit 0");
    expect_start_and_end(&trial);
    gone_without_a_word(&trial);
    assert_string_equal(hear(&trial, NULL), RELEASED);
    finish(&trial);
}

static void it_tells_success_from_failure(void **state)
{
    (void)state;
    static const char *const success_words[] = { "releaser", "-c",
                                                 "echo \"completed $(cat)\" >&9", NULL };
    static const char *const rows[][2] = { { "exit 0", "completed 7:a-1:t\n" },
                                           { "exit 1", RELEASED },
                                           { "kill -9 $$", RELEASED } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct trial trial;
        begin_with_lease_and(&trial, rows[i][0], success_words);
        expect_start_and_end(&trial);
        gone_without_a_word(&trial);
        assert_string_equal(hear(&trial, NULL), rows[i][1]);
        finish(&trial);
    }
}

static void it_leaves_the_lease_to_one_that_lives(void **state)
{
    (void)state;
    struct trial trial;
    begin_with_lease(&trial, "exit 0");
    expect_start_and_end(&trial);
    assert_true(guard_end_all(&trial.guard, trial.env));
    assert_string_equal(hear(&trial, NULL), "");
    close(trial.life);
}

/* ---- Packets that are no order ------------------------------------------------------- */

static void send_packet(struct trial *trial, const struct order *order, size_t size)
{
    assert_int_equal(send(trial->guard.socket, order, size, MSG_NOSIGNAL), size);
}

static void it_starts_nothing_by_a_broken_order(void **state)
{
    (void)state;
    static const struct {
        const char *variables;
        size_t size;
    } broken[] = { { "A=1", 3 }, { "A=1\0B=2", 7 }, { "A", 2 }, { "=1", 3 }, { "\0A=1", 5 } };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct trial trial;
        struct order order = { .kind = ORDER_GO };
        setup_script(&trial, "echo started >&9");
        start(&trial);
        order.times = times_in(&trial, FAR_OFF, SPAN_MS(200));
        memset(order.variables, 'x', sizeof order.variables);
        memcpy(order.variables, broken[i].variables, broken[i].size);
        send_packet(&trial, &order, order_size(broken[i].size));
        assert_string_equal(hear(&trial, NULL), "");
        expect_report(&trial, GUARD_DEAD);
        finish(&trial);
    }
}

static void it_ends_all_by_a_broken_order(void **state)
{
    (void)state;
    const struct order broken[] = { { .kind = ORDER_COUNT },
                                    { .kind = ORDER_SIGNAL, .number = NSIG },
                                    { .kind = ORDER_MOVE,
                                      .times = { .term_at = { INT64_MIN } } } };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct trial trial;
        begin(&trial, "echo ready >&9; sleep 3600");
        hear(&trial, "ready");
        send_packet(&trial, &broken[i], order_size(0));
        expect_all_dead(&trial);
        finish(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("when holdfast is gone the lease is released once every descendant is dead",
           it_releases_when_all_are_dead),
        IT("when holdfast is killed before it has released, its guard does",
           it_releases_for_one_that_did_not_get_to_it),
        IT("and then it tells a command that was a success from one that was none",
           it_tells_success_from_failure),
        IT("a holdfast that lives releases the lease itself",
           it_leaves_the_lease_to_one_that_lives),
        IT("the plan leaves time to renew, to obey and to die", it_leaves_time),
        IT("the exit status of the command is reported, then that nothing is left",
           it_reports_the_exit),
        IT("a command that dies of a signal is reported as that", it_reports_the_signal),
        IT("a program that cannot be run is reported with its reason", it_says_why_not_started),
        IT("the command finds the variables in its environment", it_sets_variables),
        IT("the command finds signals blocked and ignored as holdfast found them",
           it_restores_signals),
        IT("the command is in our session and process group, the guard is not",
           it_stays_in_the_group),
        IT("the guard goes before others where it may, the command does not",
           it_goes_before_others),
        IT("signals are passed on to the command", it_passes_on_signals),
        IT("at the deadline all are killed: deaf, orphaned, in other sessions, stopped",
           it_kills_at_the_deadline),
        IT("before the deadline the command is asked to end", it_terminates_first),
        IT("a deadline that is moved in time lets the command live", it_obeys_a_moved_deadline),
        IT("a command whose time is over already is not started", it_starts_nothing_late),
        IT("a guard that is told so ends all", it_ends_when_told),
        IT("an order whose variables are broken starts nothing",
           it_starts_nothing_by_a_broken_order),
        IT("an order of no known kind, signal or time ends all, as if holdfast were gone",
           it_ends_all_by_a_broken_order),
        IT("a guard that was never needed ends by itself", it_ends_unused),
        IT("a guard that ends with messages unread is heard to the end",
           it_is_heard_to_the_end),
        IT("what the command leaves running is ended too", it_ends_what_is_left_behind),
        IT("when holdfast is gone the guard ends all and says so",
           it_ends_when_holdfast_is_gone),
        IT("when the guard is killed holdfast can end all", its_death_ends_all),
        IT("when the guard is killed the command dies by itself", its_death_kills_the_command),
        IT("a guard that is stopped can be ended with all under it",
           it_can_be_ended_when_stopped),
        IT("processes that go on forking are ended", it_ends_those_who_fork_on),
        IT("descendants are found by lists of children and by scanning alike",
           both_ways_find_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
