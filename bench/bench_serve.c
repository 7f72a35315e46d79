/* SPDX-License-Identifier: Apache-2.0 */
/* bench_serve.c: measures the server beside Redis, which is what a user would pick for speed.
 *
 *   pairs   1, 16 and 64 connections, each of which acquires and releases its own lock, all of
 *           them in one epoll loop, so that the server's own ceiling shows. Redis syncs every
 *           write (appendfsync always), as the server does: a grant must survive a crash.
 *
 * Both servers run on this machine, in a folder of --dir. Redis is Debian's redis-server;
 * without it there is no comparison, and no bar. */
#include "bench.h"
#include "client.h"
#include "env/env.h"
#include "place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define TEXT_MAX        4096
#define PAIRS_MAX       1000000 /* of one round, for the percentiles */

/* ---- Servers ------------------------------------------------------------------------- */

struct server {
    pid_t pid;
    uint16_t port;
};

static uint16_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        bench_die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Starts a program that will listen on server->port, and waits until it does. False: there is
 * no such program. */
static bool server_start(struct server *server, char *const words[])
{
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execvp(words[0], words);
        _exit(127);
    }
    for (int i = 0; i < 1000; i++) {
        int status, fd = connect_to(server->port);
        if (fd >= 0) {
            close(fd);
            return true;
        }
        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            return false;
        env_sleep(env_real(), SPAN_MS(10));
    }
    bench_die("%s does not listen", words[0]);
}

static void server_stop(struct server *server)
{
    kill(server->pid, SIGTERM);
    waitpid(server->pid, NULL, 0);
}

/* The processor time that a server has used so far, in microseconds. */
static double server_cpu_us(const struct server *server)
{
    char path[64], text[1024];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    char *at = strrchr(text, ')'); /* then: state, and ten numbers before the times */
    for (int field = 0; at && field < 12; field++)
        at = strchr(at + 1, ' ');
    if (at) {
        user = strtoul(at, &at, 10);
        kernel = strtoul(at, &at, 10);
    }
    return (double)(user + kernel) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

/* ---- What is said -------------------------------------------------------------------- */

struct connection {
    int fd;
    unsigned number;
    bool holds;
    char lease[64]; /* what the reply to an acquire said, for the release */
    char in[TEXT_MAX];
    size_t in_size;
    struct mono_time began;
};

struct dialect {
    const char *name;
    size_t (*ask)(const struct connection *connection, char text[TEXT_MAX]);
    /* Takes a complete reply: how many bytes it has; 0: it is not complete. */
    size_t (*take)(struct connection *connection);
};

static size_t http_ask(const struct connection *connection, char text[TEXT_MAX])
{
    char body[256];
    unsigned number = connection->number;
    int size = connection->holds
                   ? snprintf(body, sizeof body, "{\"key\":\"k%u\",\"lease_id\":\"%s\"}",
                              number, connection->lease)
                   : snprintf(body, sizeof body,
                              "{\"key\":\"k%u\",\"owner\":\"b\",\"ttl_seconds\":30,"
                              "\"block_seconds\":-1}",
                              number);
    return (size_t)snprintf(text, TEXT_MAX,
                            "POST /v1/%s HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                            connection->holds ? "release" : "acquire", size, body);
}

static size_t http_take(struct connection *connection)
{
    char *end = memmem(connection->in, connection->in_size, "\r\n\r\n", 4);
    char *length = end ? strcasestr(connection->in, "content-length: ") : NULL;
    if (!end || !length)
        return 0;
    size_t size = (size_t)(end - connection->in) + 4 + strtoul(length + 16, NULL, 10);
    if (connection->in_size < size)
        return 0;
    if (strncmp(connection->in, "HTTP/1.1 200", 12) != 0)
        bench_die("the server refused: %.300s", connection->in);
    char *lease = strstr(end, "\"lease_id\":\"");
    if (!connection->holds && lease)
        snprintf(connection->lease, sizeof connection->lease, "%.32s", lease + 12);
    return size;
}

/* As its documentation recommends: set if absent, with an expiry; delete if the value is still
 * ours. */
static size_t redis_ask(const struct connection *connection, char text[TEXT_MAX])
{
    static const char script[] =
        "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) "
        "else return 0 end";
    char key[16];
    snprintf(key, sizeof key, "k%03u", connection->number);
    if (connection->holds)
        return (size_t)snprintf(text, TEXT_MAX,
                                "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$4\r\n%s\r\n"
                                "$8\r\ntoken-%02u\r\n",
                                sizeof script - 1, script, key, connection->number % 100);
    return (size_t)snprintf(text, TEXT_MAX,
                            "*6\r\n$3\r\nSET\r\n$4\r\n%s\r\n$8\r\ntoken-%02u\r\n$2\r\nNX\r\n"
                            "$2\r\nPX\r\n$5\r\n30000\r\n",
                            key, connection->number % 100);
}

static size_t redis_take(struct connection *connection)
{
    char *end = memmem(connection->in, connection->in_size, "\r\n", 2);
    const char *wanted = connection->holds ? ":1" : "+OK";
    if (!end)
        return 0;
    if (strncmp(connection->in, wanted, strlen(wanted)) != 0)
        bench_die("Redis refused: %.100s", connection->in);
    return (size_t)(end - connection->in) + 2;
}

static const struct dialect http_dialect = { "holdfast serve", http_ask, http_take };
static const struct dialect redis_dialect = { "Redis, appendfsync always", redis_ask,
                                              redis_take };

/* ---- The loop ------------------------------------------------------------------------ */

struct round {
    double pairs_per_s, p50_us, p99_us, cpu_us; /* the last is the server's, for a pair */
};

static void say(struct connection *connection, const struct dialect *dialect)
{
    char text[TEXT_MAX];
    size_t size = dialect->ask(connection, text);
    if (write(connection->fd, text, size) != (ssize_t)size)
        bench_die("write: %s", strerror(errno));
}

/* True: a pair is complete. */
static bool listen_to(struct connection *connection, const struct dialect *dialect)
{
    ssize_t got = read(connection->fd, connection->in + connection->in_size,
                       sizeof connection->in - 1 - connection->in_size);
    if (got <= 0)
        bench_die("a server hung up: %s", got < 0 ? strerror(errno) : "end of file");
    connection->in_size += (size_t)got;
    connection->in[connection->in_size] = '\0';
    size_t taken = dialect->take(connection);
    if (taken == 0)
        return false;
    connection->in_size -= taken;
    memmove(connection->in, connection->in + taken, connection->in_size);
    connection->holds = !connection->holds;
    return !connection->holds;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static struct round measure(const struct server *server, const struct dialect *dialect,
                            unsigned connections, double seconds)
{
    static struct connection all[CONNECTIONS_MAX];
    static float took_us[PAIRS_MAX];
    struct env *env = env_real();
    struct epoll_event events[CONNECTIONS_MAX];
    int loop = epoll_create1(EPOLL_CLOEXEC);
    size_t pairs = 0;
    for (unsigned i = 0; i < connections; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[i] };
        all[i] = (struct connection){ .fd = connect_to(server->port), .number = i };
        if (all[i].fd < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, all[i].fd, &event) != 0)
            bench_die("connect: %s", strerror(errno));
    }
    double cpu = server_cpu_us(server);
    struct mono_time start = env_now(env), end = mono_add(start, SPAN_US(seconds * 1e6));
    for (unsigned i = 0; i < connections; i++) {
        all[i].began = start;
        say(&all[i], dialect);
    }
    for (unsigned busy = connections; busy > 0;) {
        int count = epoll_wait(loop, events, CONNECTIONS_MAX, 1000);
        struct mono_time now = env_now(env);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            bool held = connection->holds, done = listen_to(connection, dialect);
            if (done) {
                if (pairs < PAIRS_MAX)
                    took_us[pairs] = (float)mono_since(now, connection->began).us;
                pairs++;
                connection->began = now;
            }
            if (done && !mono_before(now, end))
                busy--;
            else if (done || held != connection->holds)
                say(connection, dialect);
        }
    }
    double took = (double)mono_since(env_now(env), start).us;
    struct round round = { .pairs_per_s = (double)pairs * 1e6 / took,
                           .cpu_us = (server_cpu_us(server) - cpu) / (double)pairs };
    size_t kept = pairs < PAIRS_MAX ? pairs : PAIRS_MAX;
    qsort(took_us, kept, sizeof took_us[0], compare_floats);
    round.p50_us = kept ? (double)took_us[kept / 2] : 0;
    round.p99_us = kept ? (double)took_us[kept * 99 / 100] : 0;
    for (unsigned i = 0; i < connections; i++)
        close(all[i].fd);
    close(loop);
    return round;
}

/* ---- Pairs --------------------------------------------------------------------------- */

static bool start_ours(struct server *server, const char *folder)
{
    char store[PATH_MAX + 32], listen[64];
    const char *program = getenv("HOLDFAST_SERVE");
    server->port = free_port();
    snprintf(store, sizeof store, "sqlite:%s/serve.db", folder);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", server->port);
    char *words[] = { (char *)(uintptr_t)(program ? program
                                                  : "build-bench/src/serve/holdfast-serve"),
                      (char *)(uintptr_t) "--store",
                      store,
                      (char *)(uintptr_t) "--listen",
                      listen,
                      NULL };
    return server_start(server, words);
}

static bool start_redis(struct server *server, const char *folder)
{
    char port[16];
    server->port = free_port();
    snprintf(port, sizeof port, "%u", server->port);
    const char *words[] = { "redis-server",
                            "--port",
                            port,
                            "--bind",
                            "127.0.0.1",
                            "--dir",
                            folder,
                            "--appendonly",
                            "yes",
                            "--appendfsync",
                            "always",
                            "--save",
                            "",
                            NULL };
    return server_start(server, (char *const *)(uintptr_t)words);
}

struct side {
    struct server server;
    const struct dialect *dialect;
    bool runs;
    struct series rate, p50, p99, cpu;
};

static void tell_side(struct bench *bench, const struct side *side, unsigned connections)
{
    char name[80];
    snprintf(name, sizeof name, "%s, %u connections", side->dialect->name, connections);
    bench_figure(bench, name, "pairs/s", &side->rate);
    if (!bench->json)
        printf("  %-52s p50 %.0f us, p99 %.0f us, the server's processor time %.0f us a pair\n",
               "", series_median(&side->p50), series_median(&side->p99),
               series_median(&side->cpu));
}

static void bench_pairs(struct bench *bench)
{
    static const unsigned counts[] = { 1, 16, 64 };
    char name[80];
    const char *folder = bench_folder();
    struct side sides[2] = { { .dialect = &http_dialect }, { .dialect = &redis_dialect } };
    sides[0].runs = start_ours(&sides[0].server, folder);
    sides[1].runs = start_redis(&sides[1].server, folder);
    if (!sides[0].runs)
        bench_die("holdfast-serve does not start; HOLDFAST_SERVE is its path");
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int i = 0; i < 2; i++)
            sides[i].rate = sides[i].p50 = sides[i].p99 = sides[i].cpu =
                (struct series){ .count = 0 };
        for (size_t r = 0; r < bench->rounds; r++)
            for (int i = 0; i < 2; i++) {
                struct side *side = &sides[(r + (size_t)i) % 2];
                if (!side->runs)
                    continue;
                struct round round =
                    measure(&side->server, side->dialect, counts[c], bench->seconds);
                series_add(&side->rate, round.pairs_per_s);
                series_add(&side->p50, round.p50_us);
                series_add(&side->p99, round.p99_us);
                series_add(&side->cpu, round.cpu_us);
            }
        tell_side(bench, &sides[0], counts[c]);
        if (!sides[1].runs)
            continue;
        tell_side(bench, &sides[1], counts[c]);
        snprintf(name, sizeof name, "holdfast serve / Redis, %u connections", counts[c]);
        bench_ratio(bench, name, &sides[0].rate, &sides[1].rate, 0.7);
    }
    for (int i = 0; i < 2; i++)
        if (sides[i].runs)
            server_stop(&sides[i].server);
}

static const struct bench_part parts[] = { { "pairs", bench_pairs }, { NULL, NULL } };

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 5, .seconds = 2 };
    return bench_main(&bench, parts, argc, argv);
}
