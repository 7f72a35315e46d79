/* SPDX-License-Identifier: Apache-2.0 */
/* bench_serve.c: measures the server beside what a user would pick instead (serve_peers.h), all of
 * them durable, on this machine, in a folder of --dir. A peer that is not installed is left out.
 *
 *   pairs      1, 16 and 64 connections, each of which acquires and releases its own lock, all of
 *              them in one epoll loop, so that the server's own ceiling shows. Ours twice: with a
 *              document for each lock, and with one document for all.
 *   processes  the same, with a process for each connection
 *   slow       the same as pairs with 2 ms added to each sync of the disk (LD_PRELOAD; not etcd,
 *              which makes its system calls by itself)
 *   handover   16 connections that pass one lock on, beside a list of Redis with one element
 *   memory     what the server needs when it is idle, and for 100,000 leases of 5 minutes: memory
 *              for each, and processor time for keepalives three times per ttl
 *   waiters    9,999 parked waiters: memory, and the time from a release to the next one */
#include "bench.h"
#include "env/env.h"
#include "place.h"
#include "serve_peers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define SAMPLES_MAX     1000000 /* of one round, for the percentiles */
#define PEERS_MAX       6

/* ---- One round ----------------------------------------------------------------------- */

struct round {
    size_t count;
    double per_s, p50_us, p99_us, cpu_us; /* the last is the server's, for one */
    double syncs;                         /* of the disk, for one; 0: unknown */
    double fairness;                      /* Jain's index of what each connection got */
};

static struct peer_connection connections[CONNECTIONS_MAX];
static float samples[SAMPLES_MAX];

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void set_percentiles(struct round *round, size_t count)
{
    size_t kept = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    qsort(samples, kept, sizeof samples[0], compare_floats);
    round->p50_us = kept ? (double)samples[kept / 2] : 0;
    round->p99_us = kept ? (double)samples[kept * 99 / 100] : 0;
}

static void note_sample(size_t number, struct span took)
{
    if (number < SAMPLES_MAX)
        samples[number] = (float)took.us;
}

static int open_connections(const struct peer *peer, const struct peer_server *server,
                            unsigned count)
{
    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < count; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &connections[i] };
        connections[i] =
            (struct peer_connection){ .fd = peer_connect(server->port), .number = i };
        if (connections[i].fd < 0 ||
            epoll_ctl(loop, EPOLL_CTL_ADD, connections[i].fd, &event) != 0)
            bench_die("connect: %s", strerror(errno));
        if (peer->greet)
            peer->greet(&connections[i]);
    }
    return loop;
}

static void close_connections(int loop, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(connections[i].fd);
    close(loop);
}

/* Each connection has its own lock. */
static struct round measure_pairs(const struct peer *peer, const struct peer_server *server,
                                  unsigned count, double seconds)
{
    struct env *env = env_real();
    struct epoll_event events[CONNECTIONS_MAX];
    size_t pairs = 0;
    int loop = open_connections(peer, server, count);
    double cpu = peer_cpu_us(server);
    struct mono_time start = env_now(env), end = mono_add(start, SPAN_US(seconds * 1e6));
    for (unsigned i = 0; i < count; i++) {
        connections[i].began = start;
        peer_say(&connections[i], peer);
    }
    for (unsigned busy = count; busy > 0;) {
        int ready = epoll_wait(loop, events, CONNECTIONS_MAX, 1000);
        struct mono_time now = env_now(env);
        for (int i = 0; i < ready; i++) {
            struct peer_connection *connection = events[i].data.ptr;
            if (!peer_listen(connection, peer))
                continue;
            if (!connection->holds) {
                note_sample(pairs++, mono_since(now, connection->began));
                connection->began = now;
            }
            if (!connection->holds && !mono_before(now, end))
                busy--;
            else
                peer_say(connection, peer);
        }
    }
    double took = (double)mono_since(env_now(env), start).us;
    struct round round = { .count = pairs,
                           .per_s = (double)pairs * 1e6 / took,
                           .cpu_us = (peer_cpu_us(server) - cpu) / (double)pairs };
    set_percentiles(&round, pairs);
    close_connections(loop, count);
    return round;
}

/* All connections wait for one lock. Measured is the time from the release until the next one has
 * the lock. */
static struct round measure_handover(const struct peer *peer, const struct peer_server *server,
                                     unsigned count, double seconds)
{
    struct env *env = env_real();
    struct epoll_event events[CONNECTIONS_MAX];
    size_t passed = 0, got[CONNECTIONS_MAX] = { 0 };
    int loop = open_connections(peer, server, count);
    double cpu = peer_cpu_us(server), sum = 0, squares = 0;
    struct mono_time start = env_now(env), end = mono_add(start, SPAN_US(seconds * 1e6));
    struct mono_time released = start;
    static unsigned rounds;
    rounds++;
    for (unsigned i = 0; i < count; i++) {
        connections[i].round = rounds;
        peer_say(&connections[i], peer);
    }
    while (mono_before(env_now(env), end)) {
        int ready = epoll_wait(loop, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < ready; i++) {
            struct peer_connection *connection = events[i].data.ptr;
            if (!peer_listen(connection, peer))
                continue;
            if (connection->holds) {
                note_sample(passed++, mono_since(env_now(env), released));
                got[connection->number]++;
                released = env_now(env);
            }
            peer_say(connection, peer);
        }
    }
    double took = (double)mono_since(env_now(env), start).us;
    for (unsigned i = 0; i < count; i++) {
        sum += (double)got[i];
        squares += (double)got[i] * (double)got[i];
    }
    struct round round = { .count = passed,
                           .per_s = (double)passed * 1e6 / took,
                           .cpu_us = (peer_cpu_us(server) - cpu) / (double)passed,
                           .fairness = sum * sum / ((double)count * squares) };
    set_percentiles(&round, passed);
    close_connections(loop, count);
    return round;
}

/* A process for each connection. */
struct shared_count {
    size_t pairs;
};

static void run_process(const struct peer *peer, const struct peer_server *server,
                        unsigned number, struct mono_time end, struct shared_count *ret_count)
{
    struct env *env = env_real();
    struct peer_connection *connection = &connections[0];
    *connection =
        (struct peer_connection){ .fd = peer_connect(server->port), .number = number };
    if (connection->fd < 0)
        _exit(1);
    if (peer->greet)
        peer->greet(connection);
    while (mono_before(env_now(env), end) || connection->holds) {
        peer_say(connection, peer);
        while (!peer_listen(connection, peer))
            ;
        ret_count->pairs += !connection->holds;
    }
    _exit(0);
}

static struct round measure_processes(const struct peer *peer, const struct peer_server *server,
                                      unsigned count, double seconds)
{
    struct env *env = env_real();
    struct shared_count *counts = bench_share_memory(count * sizeof *counts);
    double cpu = peer_cpu_us(server);
    size_t pairs = 0;
    struct mono_time start = env_now(env), end = mono_add(start, SPAN_US(seconds * 1e6));
    pid_t pids[CONNECTIONS_MAX];
    for (unsigned i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_process(peer, server, i, end, &counts[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        int status;
        if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
            bench_die("a client failed");
        pairs += counts[i].pairs;
    }
    double took = (double)mono_since(env_now(env), start).us;
    munmap(counts, count * sizeof *counts);
    return (struct round){ .count = pairs,
                           .per_s = (double)pairs * 1e6 / took,
                           .cpu_us = (peer_cpu_us(server) - cpu) / (double)pairs };
}

/* ---- Many rounds --------------------------------------------------------------------- */

typedef struct round measure_fn(const struct peer *peer, const struct peer_server *server,
                                unsigned count, double seconds);

struct side {
    const struct peer *peer;
    struct peer_server server;
    bool runs;
    const uint64_t *syncs; /* so far, by slow_sync.c; NULL: they are not counted */
    struct series rate, p50, p99, cpu, syncs_each, fairness;
};

/* The file in which the next server that starts counts its syncs. */
static const uint64_t *count_syncs(size_t number)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/syncs-%zu", bench_folder(), number);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0666) != 0 || ftruncate(fd, sizeof(uint64_t)) != 0)
        bench_die("%s: %s", path, strerror(errno));
    void *map = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        bench_die("%s: %s", path, strerror(errno));
    close(fd);
    setenv("SLOW_SYNC_COUNT", path, 1);
    return map;
}

static void start_sides(struct side *sides, const struct peer *const *peers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s/%zu", bench_folder(), i);
        chmod(bench_folder(), 0711);
        if (mkdir(folder, 0711) != 0)
            bench_die("%s: %s", folder, strerror(errno));
        sides[i] = (struct side){ .peer = peers[i],
                                  .syncs = getenv("LD_PRELOAD") ? count_syncs(i) : NULL };
        sides[i].runs = peers[i]->start(&sides[i].server, folder);
        if (!sides[i].runs)
            printf("  %s is not installed\n", peers[i]->name);
    }
}

static void stop_sides(struct side *sides, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s/%zu", bench_folder(), i);
        if (sides[i].runs)
            peer_stop(&sides[i].server);
        remove_tree(folder);
    }
}

/* All sides in turn, in each round, beginning with another one each time. */
static void run_rounds(struct bench *bench, struct side *sides, size_t side_count,
                       unsigned connection_count, measure_fn *measure)
{
    for (size_t i = 0; i < side_count; i++)
        sides[i].rate = sides[i].p50 = sides[i].p99 = sides[i].cpu = sides[i].syncs_each =
            sides[i].fairness = (struct series){ .count = 0 };
    for (size_t r = 0; r < bench->rounds; r++)
        for (size_t i = 0; i < side_count; i++) {
            struct side *side = &sides[(r + i) % side_count];
            if (!side->runs)
                continue;
            uint64_t syncs = side->syncs ? *(volatile const uint64_t *)side->syncs : 0;
            struct round round =
                measure(side->peer, &side->server, connection_count, bench->seconds);
            if (side->syncs)
                round.syncs = (double)(*(volatile const uint64_t *)side->syncs - syncs) /
                              (double)round.count;
            series_add(&side->rate, round.per_s);
            series_add(&side->p50, round.p50_us);
            series_add(&side->p99, round.p99_us);
            series_add(&side->cpu, round.cpu_us);
            series_add(&side->syncs_each, round.syncs);
            series_add(&side->fairness, round.fairness);
        }
}

static void tell_side(struct bench *bench, const struct side *side, const char *unit,
                      unsigned connection_count)
{
    char name[120];
    if (!side->runs)
        return;
    snprintf(name, sizeof name, "%s, %u", side->peer->name, connection_count);
    bench_figure(bench, name, unit, &side->rate);
    if (bench->json)
        return;
    printf("  %-52s ", "");
    if (series_median(&side->p50) > 0) /* unknown of processes */
        printf("p50 %.0f us, p99 %.0f us, ", series_median(&side->p50),
               series_median(&side->p99));
    if (series_median(&side->syncs_each) > 0)
        printf("%.3f syncs, ", series_median(&side->syncs_each));
    printf("the server's processor time %.1f us each\n", series_median(&side->cpu));
}

/* Each of ours beside Redis, and beside the best of the others. */
static void compare_sides(struct bench *bench, const struct side *sides, size_t count,
                          unsigned connection_count)
{
    const struct side *redis = NULL, *best = NULL;
    char name[160];
    for (size_t i = 0; i < count; i++) {
        const struct side *side = &sides[i];
        if (!side->runs || side->peer->is_ours)
            continue;
        if (side->peer == &peer_redis)
            redis = side;
        else if (!best || series_median(&side->rate) > series_median(&best->rate))
            best = side;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sides[i].peer->is_ours)
            continue;
        snprintf(name, sizeof name, "%s / Redis, %u", sides[i].peer->name, connection_count);
        if (redis)
            bench_ratio(bench, name, &sides[i].rate, &redis->rate, 0.7);
        if (best) {
            snprintf(name, sizeof name, "%s / %s, %u", sides[i].peer->name, best->peer->name,
                     connection_count);
            bench_ratio(bench, name, &sides[i].rate, &best->rate, 3);
        }
    }
}

static void compare_peers(struct bench *bench, const struct peer *const *peers, size_t count,
                          measure_fn *measure)
{
    static const unsigned counts[] = { 1, 16, 64 };
    struct side sides[PEERS_MAX];
    start_sides(sides, peers, count);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        run_rounds(bench, sides, count, counts[c], measure);
        for (size_t i = 0; i < count; i++)
            tell_side(bench, &sides[i], "pairs/s", counts[c]);
        compare_sides(bench, sides, count, counts[c]);
    }
    stop_sides(sides, count);
}

/* ---- The parts ----------------------------------------------------------------------- */

static const struct peer *const all_peers[] = { &peer_names,    &peer_paths, &peer_redis,
                                                &peer_postgres, &peer_etcd,  &peer_zookeeper };

static void bench_pairs(struct bench *bench)
{
    compare_peers(bench, all_peers, 6, measure_pairs);
}

static void bench_processes(struct bench *bench)
{
    compare_peers(bench, all_peers, 6, measure_processes);
}

/* Without this, a library that replaces nothing would go unnoticed: the rows would be those of
 * `pairs`. */
static bool replaces_sync(const char *library)
{
    Dl_info found;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *function = handle ? dlsym(handle, "fdatasync") : NULL;
    return function && dladdr(function, &found) && strcmp(found.dli_fname, library) == 0;
}

static void bench_slow(struct bench *bench)
{
    static const struct peer *const peers[] = { &peer_names, &peer_paths, &peer_redis,
                                                &peer_postgres, &peer_zookeeper };
    const char *library = getenv("HOLDFAST_SLOW_SYNC");
    char path[PATH_MAX];
    if (!realpath(library ? library : "build-bench/bench/libslow_sync.so", path))
        bench_die("HOLDFAST_SLOW_SYNC is not the path of libslow_sync.so");
    if (!replaces_sync(path))
        bench_die("%s does not replace fdatasync", path);
    setenv("SLOW_SYNC_US", "2000", 1);
    setenv("LD_PRELOAD", path, 1);
    compare_peers(bench, peers, 5, measure_pairs);
    unsetenv("LD_PRELOAD");
    unsetenv("SLOW_SYNC_COUNT");
}

static void bench_handover(struct bench *bench)
{
    static const struct peer *const peers[] = { &peer_waiters, &peer_blpop };
    struct side sides[2];
    start_sides(sides, peers, 2);
    run_rounds(bench, sides, 2, 16, measure_handover);
    for (size_t i = 0; i < 2; i++)
        tell_side(bench, &sides[i], "hand-overs/s", 16);
    if (sides[1].runs)
        bench_ratio(bench, "hand-overs / Redis BLPOP, 16", &sides[0].rate, &sides[1].rate, 0.9);
    bench_bar(bench, "hand-over, p99", "us", series_median(&sides[0].p99), 1000, true);
    bench_bar(bench, "fairness", "", series_median(&sides[0].fairness), 0.9, false);
    stop_sides(sides, 2);
}

#define LEASES          100000
#define RENEWALS_PER_S  1000 /* three times in each five minutes */
#define RENEWALS_TICK   SPAN_MS(20)
#define RENEWALS_A_TICK (RENEWALS_PER_S / 50)

static char lease_ids[LEASES][40];

/* Acquires or renews the leases from `first` on, one for each connection at a time. */
static void use_leases(int loop, unsigned connection_count, unsigned first, unsigned count)
{
    struct epoll_event events[CONNECTIONS_MAX];
    bool renews = lease_ids[first][0] != '\0';
    unsigned next = first, end = first + count, busy = 0;
    for (; busy < connection_count && next < end; busy++, next++) {
        connections[busy].number = next;
        connections[busy].holds = renews;
        memcpy(connections[busy].lease, lease_ids[next], sizeof lease_ids[0]);
        peer_say(&connections[busy], &peer_leases);
    }
    while (busy > 0) {
        int ready = epoll_wait(loop, events, CONNECTIONS_MAX, 1000);
        for (int i = 0; i < ready; i++) {
            struct peer_connection *connection = events[i].data.ptr;
            if (!peer_listen(connection, &peer_leases))
                continue;
            memcpy(lease_ids[connection->number], connection->lease, sizeof lease_ids[0]);
            busy--;
            if (next == end)
                continue;
            connection->number = next++;
            connection->holds = renews;
            memcpy(connection->lease, lease_ids[connection->number], sizeof lease_ids[0]);
            peer_say(connection, &peer_leases);
            busy++;
        }
    }
}

/* The share of a processor that the server needs for the renewals, at their own pace. */
static double measure_renewals(const struct peer_server *server, int loop, double seconds)
{
    struct env *env = env_real();
    struct mono_time start = env_now(env), tick = start;
    double cpu = peer_cpu_us(server);
    unsigned next = 0;
    while (mono_since(tick, start).us < (int64_t)(seconds * 1e6)) {
        use_leases(loop, CONNECTIONS_MAX, next, RENEWALS_A_TICK);
        next = (next + RENEWALS_A_TICK) % (LEASES - RENEWALS_A_TICK);
        tick = mono_add(tick, RENEWALS_TICK);
        struct span left = mono_since(tick, env_now(env));
        if (left.us > 0)
            env_sleep(env, left);
    }
    double took = (double)mono_since(env_now(env), start).us;
    return (peer_cpu_us(server) - cpu) / took;
}

static void bench_memory(struct bench *bench)
{
    static const struct peer *const peers[] = { &peer_leases };
    struct side side;
    start_sides(&side, peers, 1);
    measure_pairs(&peer_names, &side.server, 1, 0.1);
    size_t idle = peer_memory(&side.server);
    bench_bar(bench, "memory of an idle server", "MiB", (double)idle / 1048576, 8, true);
    int loop = open_connections(&peer_leases, &side.server, CONNECTIONS_MAX);
    use_leases(loop, CONNECTIONS_MAX, 0, LEASES);
    size_t full = peer_memory(&side.server);
    bench_bar(bench, "memory of a lease that is held, of 100,000", "bytes",
              ((double)full - (double)idle) / LEASES, 300, true);
    double share = measure_renewals(&side.server, loop, 5 * bench->seconds);
    bench_bar(bench, "processor time for keepalives of 100,000 leases", "%", 100 * share, 5,
              true);
    close_connections(loop, CONNECTIONS_MAX);
    stop_sides(&side, 1);
}

#define WAITERS 9999

/* Passes the lock on. Each connection that gets it releases it, and waits again. */
static size_t pass_on(struct peer_connection *waiters, int loop, struct mono_time end)
{
    struct env *env = env_real();
    struct epoll_event events[CONNECTIONS_MAX];
    struct mono_time released = env_now(env);
    size_t passed = 0;
    while (mono_before(env_now(env), end)) {
        int ready = epoll_wait(loop, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < ready; i++) {
            struct peer_connection *connection = &waiters[events[i].data.u32];
            if (!peer_listen(connection, &peer_waiters))
                continue;
            if (connection->holds) {
                note_sample(passed++, mono_since(env_now(env), released));
                released = env_now(env);
            }
            peer_say(connection, &peer_waiters);
        }
    }
    return passed;
}

static void bench_waiters(struct bench *bench)
{
    static const struct peer *const peers[] = { &peer_waiters };
    struct side side;
    struct round round;
    struct peer_connection *waiters = calloc(WAITERS + 1, sizeof *waiters);
    if (!waiters)
        bench_die("out of memory");
    start_sides(&side, peers, 1);
    size_t idle = peer_memory(&side.server);
    int loop = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i <= WAITERS; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
        waiters[i].fd = peer_connect(side.server.port);
        if (waiters[i].fd < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, waiters[i].fd, &event) != 0)
            bench_die("connect: %s; 'ulimit -n' must be above 10,000", strerror(errno));
        peer_say(&waiters[i], &peer_waiters);
        while (i == 0 && !peer_listen(&waiters[0], &peer_waiters))
            ; /* it holds the lock */
    }
    env_sleep(env_real(), SPAN_S(1)); /* the server has read all of them */
    bench_bar(bench, "memory for 9,999 parked waiters", "MiB",
              ((double)peer_memory(&side.server) - (double)idle) / 1048576, 200, true);
    peer_say(&waiters[0], &peer_waiters);
    size_t passed =
        pass_on(waiters, loop, mono_add(env_now(env_real()), SPAN_US(bench->seconds * 1e6)));
    set_percentiles(&round, passed);
    bench_bar(bench, "a release reaches the next of 9,999 waiters, p50", "us", round.p50_us,
              5000, true);
    bench_bar(bench, "a release reaches the next of 9,999 waiters, p99", "us", round.p99_us,
              5000, true);
    for (size_t i = 0; i <= WAITERS; i++)
        close(waiters[i].fd);
    close(loop);
    free(waiters);
    stop_sides(&side, 1);
}

static const struct bench_part parts[] = { { "pairs", bench_pairs },
                                           { "processes", bench_processes },
                                           { "slow", bench_slow },
                                           { "handover", bench_handover },
                                           { "memory", bench_memory },
                                           { "waiters", bench_waiters },
                                           { NULL, NULL } };

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 5, .seconds = 2 };
    return bench_main(&bench, parts, argc, argv);
}
