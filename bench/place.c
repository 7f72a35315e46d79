/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: creates the folder and, on demand, the Ceph cluster that a benchmark runs in, and
 * removes them even if the benchmark dies. */
#include "place.h"

#include "env/env.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *parent;                    /* of the folder */
static const char *servers = "tests/servers"; /* has ceph-up and ceph-down */
static char folder[512];

#define ENDPOINT_SIZE 100
static char endpoint[ENDPOINT_SIZE], azurite[ENDPOINT_SIZE];
static pid_t owner; /* children must not remove it */

double now_s(void)
{
    return (double)env_now(env_real()).us / 1e6;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

void remove_tree(const char *path)
{
    nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
}

static void clean_up(void)
{
    char command[1200];
    if (getpid() != owner)
        return;
    snprintf(command, sizeof command, "'%s/ceph-down' '%s/ceph'", servers, folder);
    if (endpoint[0] && system(command) != 0)
        fprintf(stderr, "bench: %s failed\n", command);
    snprintf(command, sizeof command, "'%s/azurite-down' '%s/azurite'", servers, folder);
    if (azurite[0] && system(command) != 0)
        fprintf(stderr, "bench: %s failed\n", command);
    remove_tree(folder);
}

const char *bench_folder(void)
{
    const char *temporary = getenv("TMPDIR");
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "%s/holdfast-bench-XXXXXX",
             parent      ? parent
             : temporary ? temporary
                         : "/tmp");
    if (!mkdtemp(folder))
        bench_die("%s: %s", folder, strerror(errno));
    owner = getpid();
    atexit(clean_up);
    return folder;
}

void bench_ceph_restart(void)
{
    char command[1200];
    snprintf(command, sizeof command, "'%s/ceph-up' '%s/ceph'", servers, bench_folder());
    if (system(command) != 0)
        bench_die("%s failed", command);
}

void bench_ceph_kill(void)
{
    char path[600];
    int pid = 0;
    snprintf(path, sizeof path, "%s/ceph/run/client.rgw-1.pid", bench_folder());
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &pid) != 1 || kill(pid, SIGKILL) != 0)
        bench_die("cannot kill the gateway in %s", path);
    fclose(file);
}

/* The first line of a file below our folder. */
static void read_endpoint(const char *name, char line[ENDPOINT_SIZE])
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, ENDPOINT_SIZE, file))
        bench_die("no endpoint in %s", path);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

const char *bench_azurite(void)
{
    char command[1200];
    if (azurite[0])
        return azurite;
    bench_folder();
    snprintf(azurite, sizeof azurite, "starting");
    snprintf(command, sizeof command, "'%s/azurite-up' '%s/azurite'", servers, folder);
    if (system(command) != 0)
        bench_die("%s failed", command);
    read_endpoint("azurite/endpoint", azurite);
    return azurite;
}

const char *bench_ceph(void)
{
    if (endpoint[0])
        return endpoint;
    bench_folder();
    snprintf(endpoint, sizeof endpoint, "starting");
    bench_ceph_restart();
    read_endpoint("ceph/endpoint-1", endpoint);
    setenv("AWS_ACCESS_KEY_ID", CEPH_ACCESS_KEY, 1);
    setenv("AWS_SECRET_ACCESS_KEY", CEPH_SECRET_KEY, 1);
    return endpoint;
}

static _Noreturn void usage(const char *program, const struct bench_part *parts)
{
    fprintf(stderr,
            "usage: %s [--json] [--rounds=N] [--seconds=S] [--mib=N] [--dir=PATH] "
            "[--servers=DIR] [PART]\nparts:",
            program);
    for (; parts->name; parts++)
        fprintf(stderr, " %s", parts->name);
    fputc('\n', stderr);
    exit(1);
}

static void read_arguments(struct bench *bench, const struct bench_part *parts, int argc,
                           char **argv)
{
    bool known = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            bench->json = true;
        else if (strncmp(argv[i], "--rounds=", 9) == 0)
            bench->rounds = strtoul(argv[i] + 9, NULL, 10);
        else if (strncmp(argv[i], "--seconds=", 10) == 0)
            bench->seconds = strtod(argv[i] + 10, NULL);
        else if (strncmp(argv[i], "--mib=", 6) == 0)
            bench->mib = strtoul(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "--dir=", 6) == 0)
            parent = argv[i] + 6;
        else if (strncmp(argv[i], "--servers=", 10) == 0)
            servers = argv[i] + 10;
        else if (argv[i][0] != '-' && !bench->only)
            bench->only = argv[i];
        else
            known = false;
    }
    if (!known || bench->rounds < 1 || bench->rounds > ROUNDS_MAX || !(bench->seconds > 0))
        usage(argv[0], parts);
}

int bench_main(struct bench *bench, const struct bench_part *parts, int argc, char **argv)
{
    read_arguments(bench, parts, argc, argv);
    for (; parts->name; parts++)
        if (bench_wants(bench, parts->name))
            parts->run(bench);
    bench_end(bench);
    return bench->missed > 0;
}
