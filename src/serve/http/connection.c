/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c: a connection from its first byte to its close: reading, the states of
 * http_inside.h, and the notice that a client has left.
 *
 * Sockets are watched as plain descriptors (uv_poll), not as streams of libuv. So a
 * connection that waits needs no buffer, all connections share one for what they read, and
 * above all the kernel tells that the client has closed its side (EPOLLRDHUP) even while we
 * do not read because enough is read ahead. */
#include "serve/http/http_inside.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that are read and dropped after a refusal, for a client that still sends. */
#define LINGER_BYTES_MAX (16 * 1024 * 1024)

static void connection_event(uv_poll_t *poll, int status, int events);

/* ---- Opening and closing ----------------------------------------------------------------- */

static void connection_link(struct connection *connection)
{
    struct http_server *server = connection->server;
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->figures.connections++;
    server->figures.accepted++;
    server->handles++;
}

static void connection_unlink(struct connection *connection)
{
    struct http_server *server = connection->server;
    *(connection->previous ? &connection->previous->next : &server->connections) =
        connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->figures.connections--;
}

static void connection_turn_away(struct http_server *server, const struct listener *listener,
                                 int fd)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 1\r\nConnection: close\r\n\r\n";
    server->figures.refused_peer++;
    if (!listener->tls)
        send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

void connection_open(struct http_server *server, struct listener *listener, int fd,
                     const union peer_address *address)
{
    if (server->figures.connections >= server->limits.connections) {
        struct connection *idle = timeout_longest_idle(server);
        if (idle)
            connection_close(idle);
    }
    struct peer_count *peer = NULL;
    struct connection *connection = NULL;
    if (server->figures.connections < server->limits.connections &&
        peer_enter(server, address, &peer))
        connection = calloc(1, sizeof *connection);
    if (connection && listener->tls)
        connection->tls = tls_new(server->tls, fd);
    if (!connection || (listener->tls && !connection->tls) ||
        uv_poll_init(server->loop, &connection->poll, fd) != 0) {
        if (connection)
            tls_free(connection->tls);
        free(connection);
        if (peer)
            peer_leave(server, peer);
        connection_turn_away(server, listener, fd);
        return;
    }
    connection->poll.data = connection;
    connection->server = server;
    connection->fd = fd;
    connection->peer = peer;
    connection->address = *address;
    connection->listener = (uint8_t)(listener - server->listeners);
    connection->ahead = BUFFER_INIT(server->limits.ahead_bytes + INPUT_BYTES);
    connection->out = BUFFER_INIT(SIZE_MAX / 8);
    connection->state = connection->tls ? CONNECTION_HANDSHAKE : CONNECTION_IDLE;
    connection_link(connection);
    timeout_set(connection, connection->tls ? TIMEOUT_HEAD : TIMEOUT_IDLE);
    connection_watch(connection);
}

static void connection_free(struct connection *connection)
{
    struct http_server *server = connection->server;
    free(connection);
    server_handle_closed(server);
}

static void connection_handle_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    connection->handle_closed = true;
    if (!connection->resuming) /* otherwise connection_resume_all does it */
        connection_free(connection);
}

void connection_close(struct connection *connection)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    check(connection->state != CONNECTION_UNDER_WAY &&
          connection->state != CONNECTION_STREAMING);
    if (connection->request)
        request_free(connection->request);
    connection->request = NULL;
    connection->state = CONNECTION_CLOSED;
    timeout_set(connection, TIMEOUT_NONE);
    buffer_release(&connection->ahead);
    buffer_release(&connection->out);
    connection->sent = 0;
    connection_account(connection);
    if (connection->tls)
        tls_end(connection->tls);
    tls_free(connection->tls);
    connection->tls = NULL;
    peer_leave(connection->server, connection->peer);
    connection_unlink(connection);
    uv_close((uv_handle_t *)&connection->poll, connection_handle_closed);
    close(connection->fd);
}

void connection_lost(struct connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->state == CONNECTION_UNDER_WAY ||
        connection->state == CONNECTION_STREAMING) {
        server->figures.under_way--;
        server->figures.hang_ups++;
        server->handler.hang_up(server->handler.argument, connection->request);
        connection->state = CONNECTION_REPLYING; /* the handler's no more */
    }
    connection_close(connection);
}

/* ---- Requests ---------------------------------------------------------------------------- */

static bool connection_begin_request(struct connection *connection)
{
    connection->request = request_new(connection);
    if (!connection->request)
        return false;
    connection->state = CONNECTION_READING;
    return true;
}

static void connection_dispatch(struct connection *connection)
{
    struct http_server *server = connection->server;
    connection->state = CONNECTION_UNDER_WAY;
    timeout_set(connection, TIMEOUT_NONE);
    server->figures.requests++;
    server->figures.under_way++;
    server->handler.request(server->handler.argument, connection->request);
}

/* A request is not complete yet: its head must come within a time, its body at a rate. */
static void connection_await_more(struct connection *connection)
{
    struct http_request *request = connection->request;
    bool in_head = request->message.phase == MESSAGE_HEAD;
    if (!in_head && request->message.expects_continue && !request->continued) {
        request->continued = true;
        if (request->message.body.size == 0)
            connection_continue(connection);
    }
    enum timeout_kind kind = in_head ? TIMEOUT_HEAD : TIMEOUT_RATE;
    if (connection->timeout_kind != kind)
        timeout_set(connection, kind);
}

/* Whether the handler wants a large body. Otherwise it has answered, and the connection is closed
 * after the reply; it may be closed already. */
static bool connection_admits(struct connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = connection->request;
    size_t body_max = server->limits.body_bytes;
    request->admitted = true;
    if (!server->handler.admit)
        return true;
    connection->state = CONNECTION_UNDER_WAY;
    connection->close_after = true;
    server->figures.under_way++;
    if (!server->handler.admit(server->handler.argument, request, &body_max))
        return false;
    server->figures.under_way--;
    connection->close_after = false;
    connection->state = CONNECTION_READING;
    message_limit_body(&request->message, body_max);
    return true;
}

static void connection_fed(struct connection *connection)
{
    const struct http_request *request = connection->request;
    const struct message *message = &request->message;
    bool is_large = message_body_exceeds(message, connection->server->limits.small_bytes);
    if (is_large && !request->admitted && !connection_admits(connection))
        return;
    bool fits = connection_account(connection);
    if (message->phase == MESSAGE_REFUSED)
        connection_refuse(connection, message->status, message->why);
    else if (!fits)
        connection_refuse(connection, 503, "the server has too many requests under way");
    else if (message->phase == MESSAGE_COMPLETE)
        connection_dispatch(connection);
    else
        connection_await_more(connection);
}

/* Reads as many requests as can be answered one after the other; returns how many bytes they
 * had. */
static size_t connection_process(struct connection *connection, struct view bytes)
{
    size_t used = 0;
    connection->processing = true;
    while (used < bytes.size) {
        if (connection->state == CONNECTION_IDLE && !connection_begin_request(connection)) {
            connection_close(connection);
            break;
        }
        if (connection->state != CONNECTION_READING)
            break;
        size_t count = message_feed(&connection->request->message, view_from(bytes, used));
        used += count;
        connection->progress += count;
        connection_fed(connection);
    }
    connection->processing = false;
    return used;
}

/* Keeps what cannot be processed now. After a refusal nothing more will be. */
static void connection_keep_ahead(struct connection *connection, struct view bytes)
{
    if (bytes.size == 0 || connection->state == CONNECTION_CLOSED ||
        connection->state == CONNECTION_LINGERING || connection->close_after)
        return;
    if (!buffer_append(&connection->ahead, bytes)) {
        connection_lost(connection);
        return;
    }
    connection_account(connection);
    bool waits =
        connection->state == CONNECTION_UNDER_WAY || connection->state == CONNECTION_STREAMING;
    if (waits && connection->timeout_kind == TIMEOUT_NONE)
        connection_pause(connection);
}

static void connection_process_ahead(struct connection *connection)
{
    struct buffer pending = connection->ahead;
    connection->ahead = BUFFER_INIT(pending.max);
    size_t used = connection_process(connection, buffer_view(&pending));
    connection_keep_ahead(connection, view_from(buffer_view(&pending), used));
    buffer_release(&pending);
    if (connection->state != CONNECTION_CLOSED)
        connection_account(connection);
}

/* ---- Events ------------------------------------------------------------------------------ */

static bool connection_reads(const struct connection *connection)
{
    switch ((enum connection_state)connection->state) {
    case CONNECTION_IDLE:
    case CONNECTION_READING:
    case CONNECTION_LINGERING: break;
    case CONNECTION_UNDER_WAY:
    case CONNECTION_STREAMING:
    case CONNECTION_REPLYING:
        if (connection->close_after && connection->state == CONNECTION_REPLYING)
            return false;
        break;
    case CONNECTION_HANDSHAKE:
    case CONNECTION_CLOSED: return false;
    }
    return !connection->peer_closed &&
           connection->ahead.size < connection->server->limits.ahead_bytes;
}

void connection_watch(struct connection *connection)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    int events = connection->peer_closed ? 0 : UV_DISCONNECT;
    if (connection->state == CONNECTION_LINGERING)
        events = UV_READABLE;
    else if (connection->state == CONNECTION_HANDSHAKE || connection_reads(connection))
        events |= UV_READABLE;
    if (connection->sent < connection->out.size ||
        (connection->tls && tls_wants_write(connection->tls)))
        events |= UV_WRITABLE;
    if (events == connection->watched)
        return;
    connection->watched = events;
    uv_poll_start(&connection->poll, events, connection_event);
}

/* One read: a number of bytes, 0 for the end, TLS_BLOCKED or TLS_FAILED. */
static ssize_t connection_receive(struct connection *connection)
{
    char *input = connection->server->input;
    if (connection->tls)
        return tls_read(connection->tls, input, INPUT_BYTES);
    ssize_t count;
    do
        count = recv(connection->fd, input, INPUT_BYTES, 0);
    while (count < 0 && errno == EINTR);
    if (count >= 0)
        return count;
    return errno == EAGAIN || errno == EWOULDBLOCK ? TLS_BLOCKED : TLS_FAILED;
}

static void connection_read(struct connection *connection)
{
    ssize_t count = connection_receive(connection);
    if (count == TLS_BLOCKED)
        return;
    if (count < 0) {
        connection_lost(connection);
        return;
    }
    if (count == 0) {
        connection->peer_closed = true;
        return;
    }
    struct view bytes = { connection->server->input, (size_t)count };
    if (connection->state == CONNECTION_LINGERING) {
        connection->progress += bytes.size;
        if (connection->progress > LINGER_BYTES_MAX)
            connection_close(connection);
        return;
    }
    size_t used = connection->ahead.size > 0 ? 0 : connection_process(connection, bytes);
    connection_keep_ahead(connection, view_from(bytes, used));
}

static void connection_shake_hands(struct connection *connection)
{
    ssize_t result = tls_handshake(connection->tls);
    if (result == TLS_BLOCKED)
        return;
    if (result < 0 || connection->server->stopping) {
        connection_close(connection);
        return;
    }
    connection->state = CONNECTION_IDLE;
    timeout_set(connection, TIMEOUT_IDLE);
}

/* The client has closed its side, and all that it sent before is read. */
static void connection_peer_closed(struct connection *connection)
{
    switch ((enum connection_state)connection->state) {
    case CONNECTION_UNDER_WAY:
    case CONNECTION_STREAMING: connection_lost(connection); break;
    case CONNECTION_IDLE:
    case CONNECTION_READING:
    case CONNECTION_LINGERING:
        if (connection->ahead.size == 0) /* otherwise it will be resumed */
            connection_close(connection);
        break;
    case CONNECTION_REPLYING: /* the reply is still sent */
    case CONNECTION_HANDSHAKE:
    case CONNECTION_CLOSED: break;
    }
}

/* The end of every turn in which something happened to a connection. */
static void connection_settle(struct connection *connection)
{
    if (connection->peer_closed)
        connection_peer_closed(connection);
    connection_watch(connection);
}

static void connection_event(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;
    if (status < 0) {
        connection_lost(connection);
        return;
    }
    if (connection->state == CONNECTION_HANDSHAKE)
        connection_shake_hands(connection);
    if (connection->sent < connection->out.size)
        connection_flush(connection);
    if (connection_reads(connection) && (events & UV_READABLE || connection->tls))
        connection_read(connection);
    /* What was sent before the close is read first, except by a client that waits: whatever
     * it sent after its request, nobody will read the reply. */
    bool waits = connection->state == CONNECTION_UNDER_WAY ||
                 connection->state == CONNECTION_STREAMING ||
                 connection->state == CONNECTION_REPLYING;
    if (events & UV_DISCONNECT && waits)
        connection->peer_closed = true;
    connection_settle(connection);
}

void connection_resume_all(struct http_server *server)
{
    struct connection *list = server->resume;
    server->resume = NULL;
    while (list) {
        struct connection *connection = list;
        list = connection->resume_next;
        connection->resuming = false;
        if (connection->state == CONNECTION_CLOSED) {
            if (connection->handle_closed)
                connection_free(connection);
            continue;
        }
        if (connection->broken)
            connection_lost(connection);
        else if (connection->state == CONNECTION_IDLE && connection->ahead.size > 0)
            connection_process_ahead(connection);
        connection_settle(connection);
    }
}

/* ---- Time -------------------------------------------------------------------------------- */

/* Whether enough has moved since the wait began. */
static bool connection_is_fast(const struct connection *connection, uint64_t ms)
{
    uint64_t least = connection->server->limits.rate_bytes * ms / 1000;
    return connection->progress > 0 && connection->progress >= least;
}

/* Its request takes long, and the client has sent more behind it than is read ahead. Its
 * close would stay behind what it sent, in its own kernel. So that a close is noticed, the
 * rest is read and dropped, and the connection is closed after the reply: the client then
 * asks again for what was not answered, as RFC 9112 section 9.3.2 says. */
static void connection_discard(struct connection *connection)
{
    connection->close_after = true;
    buffer_release(&connection->ahead);
    connection_account(connection);
    timeout_set(connection, TIMEOUT_NONE);
    connection_watch(connection);
}

void connection_expired(struct connection *connection)
{
    struct http_server *server = connection->server;
    const struct http_limits *limits = &server->limits;
    switch ((enum timeout_kind)connection->timeout_kind) {
    case TIMEOUT_HEAD:
        if (connection->state == CONNECTION_HANDSHAKE)
            connection_close(connection);
        else
            connection_refuse(connection, 408, "the headers took too long");
        return;
    case TIMEOUT_RATE:
        if (connection_is_fast(connection, limits->rate_ms))
            timeout_set(connection, TIMEOUT_RATE);
        else
            connection_refuse(connection, 408, "the body took too long");
        return;
    case TIMEOUT_STALL:
        if (connection_is_fast(connection, limits->stall_ms)) {
            timeout_set(connection, TIMEOUT_STALL);
        } else {
            server->figures.cut_off++;
            connection_lost(connection);
        }
        return;
    case TIMEOUT_AHEAD: connection_discard(connection); return;
    case TIMEOUT_IDLE:
    case TIMEOUT_LINGER: connection_close(connection); return;
    case TIMEOUT_NONE:
    case TIMEOUT_KINDS: break;
    }
    check_unreachable();
}
