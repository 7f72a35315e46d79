/* SPDX-License-Identifier: Apache-2.0 */
/* bench_outage.c: measures how clients come back after an outage.
 *
 *   ceph   200 processes acquire and release a lock each, once in four seconds. The gateway is
 *          killed, started again after --seconds (default: 120), and from then on watched for 90
 *          seconds: how long it takes until the clients do 90 % of what they did before, and how
 *          many requests they send in the busiest second, beside those before the outage. A
 *          read that the store itself repeats counts once. */
#include "base/check.h"
#include "client.h"
#include "place.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES    200
#define PACE_S       4.0
#define WARM_S       10
#define BEFORE_S     20
#define AFTER_S      90
#define SECONDS_MAX  1200
#define OUTAGE_S_MAX 900

/* Goodput is an average of this many seconds, in which each process has at least one turn. */
#define WINDOW_S 5

/* What all processes did in each second since the start. */
struct course {
    double start;
    atomic_bool over;
    atomic_uint done[SECONDS_MAX], failed[SECONDS_MAX], asked[SECONDS_MAX];
};

static unsigned second_of(const struct course *course)
{
    double since = now_s() - course->start;
    return since < 0 ? 0 : since < SECONDS_MAX - 1 ? (unsigned)since : SECONDS_MAX - 1;
}

static void count_request(void *argument, const struct hf_store_request *request)
{
    struct course *course = argument;
    (void)request;
    atomic_fetch_add(&course->asked[second_of(course)], 1);
}

static bool use_lock(struct hf_client *client, const char *name)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    options.ttl_ms = 10000;
    must(hf_lock_new(client, name, &options, &lock, &error), &error, "new");
    bool done =
        hf_lock_acquire(lock, 0, &error) == HF_OK && hf_lock_release(lock, &error) == HF_OK;
    hf_lock_free(lock);
    return done;
}

/* A turn that was missed is not made up for: after an outage, each process has one turn to catch up
 * with, as the users of a service have. */
static void run_process(const char *url, struct course *course, unsigned number)
{
    struct client opened;
    char name[32];
    snprintf(name, sizeof name, "named:p%u", number);
    client_open(&opened, url, count_request, course);
    double turn = course->start + PACE_S * number / PROCESSES;
    while (!atomic_load(&course->over)) {
        double now = now_s();
        if (now < turn) {
            usleep(turn - now < 0.1 ? (useconds_t)((turn - now) * 1e6) + 1 : 100000);
            continue;
        }
        bool done = use_lock(opened.client, name);
        unsigned second = second_of(course);
        atomic_fetch_add(done ? &course->done[second] : &course->failed[second], 1);
        while (turn <= now_s())
            turn += PACE_S;
    }
    client_close(&opened);
}

/* Somebody has used the bucket before: it was probed, and its namespace exists. */
static void open_first(const char *url, struct course *course)
{
    struct client opened;
    client_open(&opened, url, count_request, course);
    if (!use_lock(opened.client, "named:first"))
        bench_die("the first lock was not granted");
    client_close(&opened);
}

static void wait_until(const struct course *course, double second)
{
    while (now_s() - course->start < second)
        usleep(20000);
}

/* The average of some seconds. */
static double average(const atomic_uint *counts, unsigned from, unsigned count)
{
    double sum = 0;
    for (unsigned i = from; i < from + count && i < SECONDS_MAX; i++)
        sum += counts[i];
    return sum / count;
}

static unsigned most(const atomic_uint *counts, unsigned from, unsigned count)
{
    unsigned most = 0;
    for (unsigned i = from; i < from + count && i < SECONDS_MAX; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

static void print_course(const struct course *course, unsigned from, unsigned until)
{
    puts("  second   done/s  failed/s  requests/s (busiest)");
    for (unsigned i = from; i + WINDOW_S <= until; i += WINDOW_S)
        printf("  %6u %8.1f %9.1f %11.1f (%u)\n", i, average(course->done, i, WINDOW_S),
               average(course->failed, i, WINDOW_S), average(course->asked, i, WINDOW_S),
               most(course->asked, i, WINDOW_S));
}

/* Seconds from the restart until the goodput is back; AFTER_S if it is not. */
static unsigned recovery(const struct course *course, unsigned restarted, double before)
{
    for (unsigned i = 0; i + WINDOW_S <= AFTER_S; i++)
        if (average(course->done, restarted + i, WINDOW_S) >= 0.9 * before)
            return i;
    return AFTER_S;
}

static void report(struct bench *bench, const struct course *course, unsigned killed,
                   unsigned restarted)
{
    struct series series = { .count = 0 };
    double before = average(course->done, killed - BEFORE_S, BEFORE_S);
    double asked = average(course->asked, killed - BEFORE_S, BEFORE_S);
    print_course(course, killed - BEFORE_S, restarted + AFTER_S);
    if (!(before > 0))
        bench_die("nothing was done before the outage");
    series_add(&series, before);
    bench_figure(bench, "goodput before the outage", "locks/s", &series);
    series = (struct series){ .count = 0 };
    series_add(&series,
               average(course->asked, killed + WINDOW_S, restarted - killed - WINDOW_S));
    bench_figure(bench, "requests in the outage", "/s", &series);
    bench_bar(bench, "seconds until 90 % of the goodput is back", "s",
              recovery(course, restarted, before), 60, /* at_most */ true);
    bench_bar(bench, "busiest second after the restart, requests over those before", "x",
              most(course->asked, restarted, AFTER_S) / asked, 4, /* at_most */ true);
}

static void bench_on_ceph(struct bench *bench)
{
    char url[700];
    struct course *course = bench_share_memory(sizeof *course);
    double outage = bench->seconds < OUTAGE_S_MAX ? bench->seconds : OUTAGE_S_MAX;
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/outage?endpoint=%s&etag=bare",
             bench_ceph());
    open_first(url, course);
    course->start = now_s() + 5; /* until all have opened their store */
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork: %s", strerror(errno));
        if (pid == 0) {
            run_process(url, course, i);
            _exit(0);
        }
    }
    wait_until(course, WARM_S + BEFORE_S);
    unsigned killed = second_of(course);
    bench_ceph_kill();
    wait_until(course, killed + outage);
    bench_ceph_restart();
    unsigned restarted = second_of(course);
    wait_until(course, restarted + AFTER_S + 1);
    atomic_store(&course->over, true);
    int status;
    while (wait(&status) > 0)
        if (status != 0)
            bench_die("a process failed");
    report(bench, course, killed, restarted);
    munmap(course, sizeof *course);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "ceph", bench_on_ceph }, { NULL, NULL } };
    struct bench bench = { .rounds = 1, .seconds = 120 };
    return bench_main(&bench, parts, argc, argv);
}
