/* SPDX-License-Identifier: Apache-2.0 */
/* serve_peers.h: the server, and what a user would pick instead of it, behind one interface: how
 * each is started in a folder, and how a client of each acquires and releases a lock.
 *
 * All of them are durable: a grant survives a crash of the machine. The peers are Debian's packages
 * (redis-server, postgresql-15, etcd-server, zookeeper); one that is not installed is left out. */
#ifndef BENCH_SERVE_PEERS_H
#define BENCH_SERVE_PEERS_H

#include "base/moment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PEER_TEXT_MAX 4096

struct peer_server {
    pid_t pid;
    uint16_t port;
};

/* A client of one connection. It says and takes one message at a time. */
struct peer_connection {
    int fd;
    unsigned number; /* of its own lock */
    unsigned
        round; /* of the lock that all share: the last holder of a round does not release */
    bool holds;
    char lease[64]; /* what the reply to an acquire said, for the release */
    char in[PEER_TEXT_MAX];
    size_t in_size;
    struct mono_time began;
};

struct peer {
    const char *name;
    bool is_ours;
    /* Starts the server. False: it is not installed. */
    bool (*start)(struct peer_server *server, const char *folder);
    /* What a new connection says first; blocks. May be NULL. */
    void (*greet)(struct peer_connection *connection);
    /* The next message: an acquire, or the release of what is held. Returns its size. */
    size_t (*ask)(const struct peer_connection *connection, char text[PEER_TEXT_MAX]);
    /* Takes a complete reply: how many bytes it has; 0: it is not complete. */
    size_t (*take)(struct peer_connection *connection);
};

/* A document for each lock; and locks that share one document. */
extern const struct peer peer_names, peer_paths;
extern const struct peer peer_redis, peer_postgres, peer_etcd, peer_zookeeper;

/* Leases of five minutes, of a document each. What is held is not released, but renewed. */
extern const struct peer peer_leases;

/* One lock for all connections, which wait for it: ours, and a list of Redis with one element. */
extern const struct peer peer_waiters, peer_blpop;

uint16_t peer_free_port(void);
int peer_connect(uint16_t port);

/* Starts a program that will listen on server->port, and waits until it does. False: there is no
 * such program. */
bool peer_start(struct peer_server *server, char *const words[]);
void peer_stop(struct peer_server *server);

/* The processor time that a server has used so far, with its children, in microseconds, and its
 * memory in bytes. */
double peer_cpu_us(const struct peer_server *server);
size_t peer_memory(const struct peer_server *server);

/* Sends the next message of a connection. */
void peer_say(struct peer_connection *connection, const struct peer *peer);

/* Reads once. True: the reply is complete. */
bool peer_listen(struct peer_connection *connection, const struct peer *peer);

#endif
