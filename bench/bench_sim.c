/* SPDX-License-Identifier: Apache-2.0 */
/* bench_sim.c: measures how many seeds of the lock workloads the simulator runs per second of
 * one core: five nodes, fifty operations, with faults. The figures come from the simulator's
 * own output. */
#include "bench.h"
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEDS    2000
#define LINE_MAX 4096

/* Beside the folder of this program. */
static void find_simulator(char path[LINE_MAX])
{
    ssize_t size = readlink("/proc/self/exe", path, LINE_MAX - 64);
    if (size <= 0)
        bench_die("this program cannot be found");
    path[size] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            bench_die("the simulator cannot be found");
        *slash = '\0';
    }
    size_t length = strlen(path);
    snprintf(path + length, LINE_MAX - length, "/sim/holdfast-sim");
    if (access(path, X_OK) != 0)
        bench_die("there is no simulator at %s", path);
}

/* Parses "... N seeds/s, N per second of one core" of the simulator's totals. */
static double read_rate(FILE *out, const char *workload)
{
    char line[LINE_MAX];
    double rate = 0;
    while (fgets(line, sizeof line, out)) {
        const char *end = strstr(line, " per second of one core");
        const char *start = end;
        while (start && start > line && start[-1] >= '0' && start[-1] <= '9')
            start--;
        if (start)
            rate = strtod(start, NULL);
    }
    if (pclose(out) != 0 || rate <= 0)
        bench_die("the simulator failed in %s", workload);
    return rate;
}

static double run_seeds(const char *workload, size_t round)
{
    char path[LINE_MAX], command[2 * LINE_MAX];
    find_simulator(path);
    snprintf(command, sizeof command, "'%s' --workload %s --seeds %d --seed %zu", path,
             workload, SEEDS, 1 + round * SEEDS);
    FILE *out = popen(command, "r");
    if (!out)
        bench_die("the simulator cannot be run");
    return read_rate(out, workload);
}

static void bench_workload(struct bench *bench, const char *workload, double bar)
{
    struct series rates = { .count = 0 };
    for (size_t i = 0; i < bench->rounds; i++)
        series_add(&rates, run_seeds(workload, i));
    bench_figure(bench, workload, "seeds/s", &rates);
    if (bar > 0)
        bench_bar(bench, workload, "seeds/s of one core", series_median(&rates), bar,
                  /* at_most */ false);
}

static void bench_locks(struct bench *bench)
{
    bench_workload(bench, "locks", 500);
}

static void bench_others(struct bench *bench)
{
    bench_workload(bench, "ranges", 0);
    bench_workload(bench, "epochs", 0);
    bench_workload(bench, "fenced", 0);
}

static const struct bench_part parts[] = {
    { "locks", bench_locks },
    { "others", bench_others },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 5, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
