/* SPDX-License-Identifier: Apache-2.0 */
/* serve_peers.c: starts the server and its peers, and speaks to them as their
 * own clients do: over one TCP connection, with prepared statements where there
 * are any. */
#include "serve_peers.h"

#include "base/base64.h"
#include "bench.h"
#include "env/env.h"
#include "place.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORD(text) ((char *)(uintptr_t)(text))

/* ---- Servers
 * ------------------------------------------------------------------------- */

uint16_t peer_free_port(void)
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

int peer_connect(uint16_t port)
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

bool peer_start(struct peer_server *server, char *const words[])
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
    for (int i = 0; i < 3000; i++) {
        int status, fd = peer_connect(server->port);
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

void peer_stop(struct peer_server *server)
{
    kill(server->pid, SIGTERM);
    waitpid(server->pid, NULL, 0);
}

/* The fields of /proc/PID/stat after the name: state, parent, and so on. */
static bool read_stat(pid_t pid, unsigned long fields[15])
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    char *at = strrchr(text, ')');
    at = at ? strchr(at + 2, ' ') : NULL; /* behind the state */
    for (int i = 0; at && i < 15; i++)
        fields[i] = strtoul(at, &at, 10);
    return at != NULL;
}

double peer_cpu_us(const struct peer_server *server)
{
    unsigned long fields[15], ticks = 0;
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !read_stat(pid, fields))
            continue;
        if (pid == server->pid || (pid_t)fields[0] == server->pid)
            ticks += fields[10] + fields[11];
        if (pid == server->pid) /* those of children that have ended */
            ticks += fields[12] + fields[13];
    }
    if (folder)
        closedir(folder);
    return (double)ticks * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

size_t peer_memory(const struct peer_server *server)
{
    char path[64];
    unsigned long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        bench_die("%s: %s", path, strerror(errno));
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- Messages
 * ------------------------------------------------------------------------ */

static void say_all(int fd, const char *text, size_t size)
{
    if (write(fd, text, size) != (ssize_t)size)
        bench_die("write: %s", strerror(errno));
}

void peer_say(struct peer_connection *connection, const struct peer *peer)
{
    char text[PEER_TEXT_MAX];
    say_all(connection->fd, text, peer->ask(connection, text));
}

static void read_more(struct peer_connection *connection)
{
    ssize_t got = read(connection->fd, connection->in + connection->in_size,
                       sizeof connection->in - 1 - connection->in_size);
    if (got <= 0)
        bench_die("a server hung up: %s", got < 0 ? strerror(errno) : "end of file");
    connection->in_size += (size_t)got;
    connection->in[connection->in_size] = '\0';
}

static void drop_taken(struct peer_connection *connection, size_t taken)
{
    connection->in_size -= taken;
    memmove(connection->in, connection->in + taken, connection->in_size);
}

bool peer_listen(struct peer_connection *connection, const struct peer *peer)
{
    read_more(connection);
    size_t taken = peer->take(connection);
    if (taken == 0)
        return false;
    drop_taken(connection, taken);
    connection->holds = !connection->holds;
    return true;
}

/* Numbers of the wire, with the highest byte first. */
static size_t put_number(char *at, uint32_t number)
{
    uint32_t wire = htonl(number);
    memcpy(at, &wire, 4);
    return 4;
}

static uint32_t get_number(const char *at)
{
    uint32_t wire;
    memcpy(&wire, at, 4);
    return ntohl(wire);
}

/* ---- Ours
 * ----------------------------------------------------------------------------
 */

static bool start_ours(struct peer_server *server, const char *folder)
{
    char store[PATH_MAX + 32], listen[64];
    const char *program = getenv("HOLDFAST_SERVE");
    server->port = peer_free_port();
    snprintf(store, sizeof store, "sqlite:%s/serve.db", folder);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", server->port);
    char *words[] = { WORD(program ? program : "build-bench/src/serve/holdfast-serve"),
                      WORD("--store"),
                      store,
                      WORD("--listen"),
                      listen,
                      NULL };
    if (!peer_start(server, words))
        bench_die("holdfast-serve does not start; HOLDFAST_SERVE is its path");
    return true;
}

static size_t http_request(char text[PEER_TEXT_MAX], const char *path, const char *body)
{
    return (size_t)snprintf(text, PEER_TEXT_MAX,
                            "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                            path, strlen(body), body);
}

static size_t ask_ours(const struct peer_connection *connection, const char *lock,
                       char text[PEER_TEXT_MAX])
{
    char body[256];
    if (connection->holds)
        snprintf(body, sizeof body, "{%s%u\",\"lease_id\":\"%s\"}", lock, connection->number,
                 connection->lease);
    else
        snprintf(body, sizeof body,
                 "{%s%u\",\"owner\":\"b\",\"ttl_seconds\":30,\"block_seconds\":-1}", lock,
                 connection->number);
    return http_request(text, connection->holds ? "/v1/release" : "/v1/acquire", body);
}

static size_t ask_name(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    return ask_ours(connection, "\"key\":\"k", text);
}

static size_t ask_path(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    return ask_ours(connection, "\"scope\":\"path:/k", text);
}

/* The size of a reply of HTTP, and its body; 0: it is not complete. */
static size_t take_http(struct peer_connection *connection, const char **ret_body)
{
    char *end = memmem(connection->in, connection->in_size, "\r\n\r\n", 4);
    char *length = end ? strcasestr(connection->in, "content-length: ") : NULL;
    if (!end || !length)
        return 0;
    size_t size = (size_t)(end - connection->in) + 4 + strtoul(length + 16, NULL, 10);
    if (connection->in_size < size)
        return 0;
    if (strncmp(connection->in, "HTTP/1.1 200", 12) != 0)
        bench_die("a server refused: %.300s", connection->in);
    *ret_body = end + 4;
    return size;
}

static size_t take_ours(struct peer_connection *connection)
{
    const char *body;
    size_t size = take_http(connection, &body);
    const char *lease = size > 0 ? strstr(body, "\"lease_id\":\"") : NULL;
    if (!connection->holds && lease)
        snprintf(connection->lease, sizeof connection->lease, "%.32s", lease + 12);
    return size;
}

const struct peer peer_names = {
    "holdfast serve, a document a lock", true, start_ours, NULL, ask_name, take_ours
};
const struct peer peer_paths = {
    "holdfast serve, one document", true, start_ours, NULL, ask_path, take_ours
};

static size_t ask_lease(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    char body[256];
    if (connection->holds)
        snprintf(body, sizeof body, "{\"key\":\"h%u\",\"lease_id\":\"%s\"}", connection->number,
                 connection->lease);
    else
        snprintf(body, sizeof body,
                 "{\"key\":\"h%u\",\"owner\":\"b\",\"ttl_seconds\":300,\"block_seconds\":-1}",
                 connection->number);
    return http_request(text, connection->holds ? "/v1/keepalive" : "/v1/acquire", body);
}

const struct peer peer_leases = {
    "holdfast serve, leases", true, start_ours, NULL, ask_lease, take_ours
};

static size_t ask_and_wait(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    char body[256];
    if (connection->holds)
        snprintf(body, sizeof body, "{\"key\":\"shared-%u\",\"lease_id\":\"%s\"}",
                 connection->round, connection->lease);
    else
        snprintf(body, sizeof body,
                 "{\"key\":\"shared-%u\",\"ttl_seconds\":30,\"block_seconds\":600}",
                 connection->round);
    return http_request(text, connection->holds ? "/v1/release" : "/v1/acquire", body);
}

const struct peer peer_waiters = {
    "holdfast serve, waiters", true, start_ours, NULL, ask_and_wait, take_ours
};

/* ---- Redis
 * ---------------------------------------------------------------------------
 */

static bool start_redis(struct peer_server *server, const char *folder)
{
    char port[16];
    server->port = peer_free_port();
    snprintf(port, sizeof port, "%u", server->port);
    char *words[] = { WORD("redis-server"),
                      WORD("--port"),
                      port,
                      WORD("--bind"),
                      WORD("127.0.0.1"),
                      WORD("--dir"),
                      WORD(folder),
                      WORD("--appendonly"),
                      WORD("yes"),
                      WORD("--appendfsync"),
                      WORD("always"),
                      WORD("--save"),
                      WORD(""),
                      NULL };
    return peer_start(server, words);
}

/* As its documentation recommends: set if absent, with an expiry; delete if the
 * value is still ours. */
static size_t ask_redis(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    static const char script[] = "if redis.call('get',KEYS[1])==ARGV[1] then "
                                 "return redis.call('del',KEYS[1]) "
                                 "else return 0 end";
    char key[16];
    snprintf(key, sizeof key, "k%03u", connection->number);
    if (connection->holds)
        return (size_t)snprintf(text, PEER_TEXT_MAX,
                                "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$4\r\n%s\r\n"
                                "$8\r\ntoken-%02u\r\n",
                                sizeof script - 1, script, key, connection->number % 100);
    return (size_t)snprintf(text, PEER_TEXT_MAX,
                            "*6\r\n$3\r\nSET\r\n$4\r\n%s\r\n$8\r\ntoken-%02u\r\n$2\r\nNX\r\n"
                            "$2\r\nPX\r\n$5\r\n30000\r\n",
                            key, connection->number % 100);
}

static size_t take_redis(struct peer_connection *connection)
{
    char *end = memmem(connection->in, connection->in_size, "\r\n", 2);
    const char *wanted = connection->holds ? ":1" : "+OK";
    if (!end)
        return 0;
    if (strncmp(connection->in, wanted, strlen(wanted)) != 0)
        bench_die("Redis refused: %.100s", connection->in);
    return (size_t)(end - connection->in) + 2;
}

const struct peer peer_redis = {
    "Redis, appendfsync always", false, start_redis, NULL, ask_redis, take_redis
};

/* The first connection puts the element into the list. */
static void greet_blpop(struct peer_connection *connection)
{
    static const char push[] = "*3\r\n$5\r\nRPUSH\r\n$1\r\nq\r\n$1\r\nt\r\n";
    if (connection->number > 0)
        return;
    say_all(connection->fd, push, sizeof push - 1);
    read_more(connection);
    drop_taken(connection, connection->in_size);
}

static size_t ask_blpop(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    return (size_t)snprintf(text, PEER_TEXT_MAX, "*3\r\n$5\r\n%s\r\n$1\r\nq\r\n$1\r\n%s\r\n",
                            connection->holds ? "RPUSH" : "BLPOP",
                            connection->holds ? "t" : "0");
}

static size_t take_blpop(struct peer_connection *connection)
{
    static const char popped[] = "*2\r\n$1\r\nq\r\n$1\r\nt\r\n";
    char *end = memmem(connection->in, connection->in_size, "\r\n", 2);
    if (connection->holds)
        return end ? (size_t)(end - connection->in) + 2 : 0;
    return connection->in_size >= sizeof popped - 1 ? sizeof popped - 1 : 0;
}

const struct peer peer_blpop = { "Redis, BLPOP", false,     start_redis,
                                 greet_blpop,    ask_blpop, take_blpop };

/* ---- PostgreSQL: a row for each lock
 * ------------------------------------------------- */

#define POSTGRES_BIN "/usr/lib/postgresql/15/bin/"

/* PostgreSQL does not run as root. */
static void become_postgres(void)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    if (user && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(127);
}

static bool init_postgres(const char *data)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    int status;
    if (mkdir(data, 0700) != 0 || (user && chown(data, user->pw_uid, user->pw_gid) != 0))
        bench_die("%s: %s", data, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        become_postgres();
        execl(POSTGRES_BIN "initdb", POSTGRES_BIN "initdb", "-D", data, "-A", "trust", "-U",
              "bench", NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static size_t postgres_message(char *at, char kind, const char *body, size_t size)
{
    at[0] = kind;
    put_number(at + 1, (uint32_t)size + 4);
    memcpy(at + 5, body, size);
    return size + 5;
}

/* The size of all messages up to "ready for query"; 0: it is not there yet. */
static size_t postgres_ready(const struct peer_connection *connection)
{
    size_t at = 0;
    while (at + 5 <= connection->in_size) {
        char kind = connection->in[at];
        size_t size = 1 + get_number(connection->in + at + 1);
        if (kind == 'E') {
            const char *text = memmem(connection->in + at, connection->in_size - at, "\0M", 2);
            bench_die("PostgreSQL refused: %.200s", text ? text + 2 : "");
        }
        if (at + size > connection->in_size)
            return 0;
        at += size;
        if (kind == 'Z')
            return at;
    }
    return 0;
}

static void postgres_await(struct peer_connection *connection)
{
    size_t taken;
    while ((taken = postgres_ready(connection)) == 0)
        read_more(connection);
    drop_taken(connection, taken);
}

static void postgres_query(struct peer_connection *connection, const char *query)
{
    char text[PEER_TEXT_MAX];
    say_all(connection->fd, text, postgres_message(text, 'Q', query, strlen(query) + 1));
    postgres_await(connection);
}

static void greet_postgres(struct peer_connection *connection)
{
    static const char start[] = "\0\3\0\0user\0bench\0database\0postgres\0";
    char text[sizeof start + 4], query[256];
    put_number(text, sizeof text);
    memcpy(text + 4, start, sizeof start);
    say_all(connection->fd, text, sizeof text);
    postgres_await(connection);
    snprintf(query, sizeof query,
             "INSERT INTO lease (name) VALUES ('k%u') ON CONFLICT DO NOTHING",
             connection->number);
    postgres_query(connection, query);
    postgres_query(connection,
                   "PREPARE a(text, text) AS UPDATE lease SET holder = $2, token = token + "
                   "1, "
                   "until = now() + interval '30 s' WHERE name = $1 AND (holder IS NULL OR "
                   "until < now()) RETURNING token");
    postgres_query(connection, "PREPARE r(text, text) AS UPDATE lease SET holder = NULL WHERE "
                               "name = $1 AND holder = $2");
}

static bool start_postgres(struct peer_server *server, const char *folder)
{
    char data[PATH_MAX + 16], port[16];
    if (access(POSTGRES_BIN "postgres", X_OK) != 0)
        return false;
    snprintf(data, sizeof data, "%s/postgres", folder);
    chmod(folder, 0711);
    if (access(data, F_OK) != 0 && !init_postgres(data))
        bench_die("initdb failed");
    server->port = peer_free_port();
    snprintf(port, sizeof port, "%u", server->port);
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    char as[32];
    snprintf(as, sizeof as, "--reuid=%u", user ? (unsigned)user->pw_uid : 0);
    char *words[] = { WORD("setpriv"),
                      as,
                      WORD("--clear-groups"),
                      WORD(POSTGRES_BIN "postgres"),
                      WORD("-D"),
                      data,
                      WORD("-p"),
                      port,
                      WORD("-k"),
                      WORD(""),
                      NULL };
    if (!peer_start(server, user ? words : words + 3))
        return false;
    env_sleep(env_real(), SPAN_S(3)); /* it listens before it answers */
    struct peer_connection first = { .fd = peer_connect(server->port) };
    static const char start[] = "\0\3\0\0user\0bench\0database\0postgres\0";
    char text[sizeof start + 4];
    put_number(text, sizeof text);
    memcpy(text + 4, start, sizeof start);
    say_all(first.fd, text, sizeof text);
    postgres_await(&first);
    postgres_query(&first,
                   "CREATE TABLE IF NOT EXISTS lease (name text PRIMARY KEY, holder text, "
                   "until timestamptz, token bigint NOT NULL DEFAULT 0)");
    close(first.fd);
    return true;
}

static size_t ask_postgres(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    char query[128];
    int size = snprintf(query, sizeof query, "EXECUTE %s('k%u', 'c%u')",
                        connection->holds ? "r" : "a", connection->number, connection->number);
    return postgres_message(text, 'Q', query, (size_t)size + 1);
}

static size_t take_postgres(struct peer_connection *connection)
{
    size_t size = postgres_ready(connection);
    if (size > 0 && !memmem(connection->in, size, "UPDATE 1", 8))
        bench_die("PostgreSQL did not update the row");
    return size;
}

const struct peer peer_postgres = { "PostgreSQL, a row a lock",
                                    false,
                                    start_postgres,
                                    greet_postgres,
                                    ask_postgres,
                                    take_postgres };

/* ---- etcd, by its JSON gateway
 * ------------------------------------------------------- */

static bool start_etcd(struct peer_server *server, const char *folder)
{
    char data[PATH_MAX + 16], client[64], peers[64], cluster[80];
    uint16_t other = peer_free_port();
    server->port = peer_free_port();
    snprintf(data, sizeof data, "%s/etcd", folder);
    snprintf(client, sizeof client, "http://127.0.0.1:%u", server->port);
    snprintf(peers, sizeof peers, "http://127.0.0.1:%u", other);
    snprintf(cluster, sizeof cluster, "default=%s", peers);
    char *words[] = { WORD("etcd"), WORD("--data-dir"),
                      data,         WORD("--listen-client-urls"),
                      client,       WORD("--advertise-client-urls"),
                      client,       WORD("--listen-peer-urls"),
                      peers,        WORD("--initial-advertise-peer-urls"),
                      peers,        WORD("--initial-cluster"),
                      cluster,      NULL };
    setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1);
    bool runs = peer_start(server, words);
    if (runs)
        env_sleep(env_real(), SPAN_S(2)); /* until it has elected itself */
    return runs;
}

/* The lock is a key under a lease of its connection, as in etcd's own recipe. */
static void greet_etcd(struct peer_connection *connection)
{
    char text[PEER_TEXT_MAX];
    const char *body;
    size_t taken;
    say_all(connection->fd, text, http_request(text, "/v3/lease/grant", "{\"TTL\":\"300\"}"));
    while ((taken = take_http(connection, &body)) == 0)
        read_more(connection);
    const char *id = strstr(body, "\"ID\":\"");
    if (!id || sscanf(id, "\"ID\":\"%20[0-9]", connection->lease) != 1)
        bench_die("etcd gave no lease: %s", body);
    drop_taken(connection, taken);
}

static size_t ask_etcd(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    char name[32], key[64], body[512];
    snprintf(name, sizeof name, "k%u", connection->number);
    base64_encode(view_of(name), key);
    if (connection->holds)
        snprintf(body, sizeof body, "{\"key\":\"%s\"}", key);
    else
        snprintf(body, sizeof body,
                 "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_"
                 "revision\":\"0\"}],"
                 "\"success\":[{\"requestPut\":{\"key\":\"%s\",\"value\":\"YQ==\","
                 "\"lease\":\"%s\"}}"
                 "]}",
                 key, key, connection->lease);
    return http_request(text, connection->holds ? "/v3/kv/deleterange" : "/v3/kv/txn", body);
}

static size_t take_etcd(struct peer_connection *connection)
{
    const char *body;
    size_t size = take_http(connection, &body);
    if (size > 0 &&
        !strstr(body, connection->holds ? "\"deleted\":\"1\"" : "\"succeeded\":true"))
        bench_die("etcd refused: %s", body);
    return size;
}

const struct peer peer_etcd = { "etcd, JSON gateway", false,    start_etcd,
                                greet_etcd,           ask_etcd, take_etcd };

/* ---- ZooKeeper: an ephemeral node
 * ---------------------------------------------------- */

static bool start_zookeeper(struct peer_server *server, const char *folder)
{
    char data[PATH_MAX + 16], path[PATH_MAX + 32];
    static char classes[] = "/usr/share/java/*";
    if (access("/usr/share/java/zookeeper.jar", R_OK) != 0)
        return false;
    server->port = peer_free_port();
    snprintf(data, sizeof data, "%s/zookeeper", folder);
    mkdir(data, 0700);
    snprintf(path, sizeof path, "%s/zoo.cfg", data);
    FILE *file = fopen(path, "w");
    if (!file)
        bench_die("%s: %s", path, strerror(errno));
    fprintf(file,
            "dataDir=%s\nclientPort=%u\nclientPortAddress=127.0.0.1\ntickTime=2000\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n",
            data, server->port);
    fclose(file);
    char *words[] = { WORD("java"), WORD("-cp"),
                      classes,      WORD("org.apache.zookeeper.server.ZooKeeperServerMain"),
                      path,         NULL };
    return peer_start(server, words);
}

static void greet_zookeeper(struct peer_connection *connection)
{
    char text[48] = { 0 };
    put_number(text, 44);
    put_number(text + 16, 30000); /* the session's timeout */
    put_number(text + 28, 16);    /* of its password, which is empty */
    say_all(connection->fd, text, sizeof text);
    while (connection->in_size < 4 || connection->in_size < 4 + get_number(connection->in))
        read_more(connection);
    drop_taken(connection, 4 + get_number(connection->in));
}

static size_t put_text(char *at, const char *text)
{
    size_t size = strlen(text);
    put_number(at, (uint32_t)size);
    memcpy(at + 4, text, size);
    return size + 4;
}

static size_t ask_zookeeper(const struct peer_connection *connection, char text[PEER_TEXT_MAX])
{
    char name[32];
    size_t size = 4;
    snprintf(name, sizeof name, "/k%u", connection->number);
    size += put_number(text + size, 1);                         /* xid */
    size += put_number(text + size, connection->holds ? 2 : 1); /* delete, create */
    size += put_text(text + size, name);
    if (connection->holds) {
        size += put_number(text + size, UINT32_MAX); /* any version */
    } else {
        size += put_text(text + size, "a");
        size += put_number(text + size, 1); /* one rule: anyone may do anything */
        size += put_number(text + size, 31);
        size += put_text(text + size, "world");
        size += put_text(text + size, "anyone");
        size += put_number(text + size, 1); /* ephemeral */
    }
    put_number(text, (uint32_t)size - 4);
    return size;
}

static size_t take_zookeeper(struct peer_connection *connection)
{
    if (connection->in_size < 4 || connection->in_size < 4 + get_number(connection->in))
        return 0;
    if (get_number(connection->in + 16) != 0)
        bench_die("ZooKeeper refused: %d", (int)get_number(connection->in + 16));
    return 4 + get_number(connection->in);
}

const struct peer peer_zookeeper = { "ZooKeeper, an ephemeral node",
                                     false,
                                     start_zookeeper,
                                     greet_zookeeper,
                                     ask_zookeeper,
                                     take_zookeeper };
