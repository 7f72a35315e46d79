/* SPDX-License-Identifier: Apache-2.0 */
/* timeouts.c: one timer for all connections. A connection is in at most one list, that of
 * what it waits for; the first of each list is the next one to expire. A request that is
 * with its handler waits for nothing of ours. The timer is armed for the earliest end that
 * was ever asked for, and looks again when it fires: so the many waits that end in time
 * never touch it. */
#include "serve/http/http_inside.h"

#include "base/check.h"

/* How long reading pauses for a request that is under way, when enough is read ahead. */
#define AHEAD_PAUSE_MS 1000

/* A connection is not closed in favour of another before it has been idle for that long: its
 * request may be on its way. */
#define IDLE_LEAST_MS 100

static uint64_t timeout_length(const struct http_limits *limits, enum timeout_kind kind)
{
    switch (kind) {
    case TIMEOUT_HEAD: return limits->head_ms;
    case TIMEOUT_RATE: return limits->rate_ms;
    case TIMEOUT_IDLE: return limits->idle_ms;
    case TIMEOUT_STALL: return limits->stall_ms;
    case TIMEOUT_LINGER: return limits->linger_ms;
    case TIMEOUT_AHEAD: return AHEAD_PAUSE_MS;
    case TIMEOUT_NONE:
    case TIMEOUT_KINDS: break;
    }
    check_unreachable();
}

static void timeout_clear(struct connection *connection)
{
    struct timeout_list *list = &connection->server->timeouts[connection->timeout_kind];
    struct connection *previous = connection->timeout_previous;
    struct connection *next = connection->timeout_next;
    *(previous ? &previous->timeout_next : &list->first) = next;
    *(next ? &next->timeout_previous : &list->last) = previous;
    connection->timeout_kind = TIMEOUT_NONE;
}

void timeout_arm(struct http_server *server, uint64_t at)
{
    if (server->timer_at && server->timer_at <= at)
        return;
    uint64_t now = uv_now(server->loop);
    server->timer_at = at;
    uv_timer_start(&server->timer, timeout_fired, at > now ? at - now : 0, 0);
}

void timeout_set(struct connection *connection, enum timeout_kind kind)
{
    struct http_server *server = connection->server;
    if (connection->timeout_kind != TIMEOUT_NONE)
        timeout_clear(connection);
    connection->progress = 0;
    if (kind == TIMEOUT_NONE)
        return;
    struct timeout_list *list = &server->timeouts[kind];
    connection->timeout_at = uv_now(server->loop) + timeout_length(&server->limits, kind);
    connection->timeout_kind = (uint8_t)kind;
    connection->timeout_previous = list->last;
    connection->timeout_next = NULL;
    *(list->last ? &list->last->timeout_next : &list->first) = connection;
    list->last = connection;
    timeout_arm(server, connection->timeout_at);
}

struct connection *timeout_longest_idle(struct http_server *server)
{
    struct connection *first = server->timeouts[TIMEOUT_IDLE].first;
    uint64_t now = uv_now(server->loop);
    bool long_enough =
        first && first->timeout_at + IDLE_LEAST_MS <= now + server->limits.idle_ms;
    return long_enough ? first : NULL;
}

/* Closes what is left when the time to stop is over. */
static void timeout_stop(struct http_server *server)
{
    while (server->connections)
        connection_lost(server->connections);
}

void timeout_fired(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    uint64_t now = uv_now(server->loop);
    server->timer_at = 0;
    for (size_t kind = TIMEOUT_NONE + 1; kind < TIMEOUT_KINDS; kind++) {
        struct timeout_list *list = &server->timeouts[kind];
        while (list->first && list->first->timeout_at <= now)
            connection_expired(list->first);
    }
    if (server->stopping && server->stop_at <= now)
        timeout_stop(server);
    if (server->accept_again_at && server->accept_again_at <= now)
        listener_resume(server);
    for (size_t kind = TIMEOUT_NONE + 1; kind < TIMEOUT_KINDS; kind++)
        if (server->timeouts[kind].first)
            timeout_arm(server, server->timeouts[kind].first->timeout_at);
    if (server->stopping && server->connections)
        timeout_arm(server, server->stop_at);
    if (server->accept_again_at)
        timeout_arm(server, server->accept_again_at);
}
