/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: replies and streams. What the socket does not take at once is kept in `out` and
 * sent when the socket is writable again. The next request of a connection is read only when
 * `out` is empty, so a client that does not read its replies cannot make the server keep
 * many of them. */
#include "serve/http/http_inside.h"

#include "base/check.h"
#include "base/instant.h"
#include "env/env.h"
#include "serve/http/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* A body up to this size is copied behind its head, and both are sent at once. */
#define TOGETHER_BYTES_MAX (16 * 1024)
#define ERROR_BODY_MAX     1024

/* So many requests are kept to be used again, if their head and body are short. */
#define SPARE_MAX       64
#define SPARE_BYTES_MAX 1024

/* ---- Requests ---------------------------------------------------------------------------- */

struct http_request *request_new(struct connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = server->spare;
    if (request) {
        server->spare = request->next;
        server->spare_count--;
        request->next = NULL;
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            return NULL;
        message_init(&request->message, &server->rules);
    }
    request->connection = connection;
    return request;
}

static void request_release(struct http_request *request)
{
    message_release(&request->message);
    free(request);
}

void request_free(struct http_request *request)
{
    struct http_server *server = request->connection->server;
    const struct message *message = &request->message;
    if (server->spare_count >= SPARE_MAX || message->head.capacity > SPARE_BYTES_MAX ||
        message->body.capacity > SPARE_BYTES_MAX) {
        request_release(request);
        return;
    }
    message_init_again(&request->message);
    request->connection = NULL;
    request->user = NULL;
    request->chunked = request->silent = request->continued = request->admitted = false;
    request->next = server->spare;
    server->spare = request;
    server->spare_count++;
}

void request_free_spare(struct http_server *server)
{
    while (server->spare) {
        struct http_request *request = server->spare;
        server->spare = request->next;
        request_release(request);
    }
    server->spare_count = 0;
}

/* ---- Memory ------------------------------------------------------------------------------ */

bool connection_account(struct connection *connection)
{
    struct http_server *server = connection->server;
    size_t now = connection->ahead.capacity + connection->out.capacity;
    if (connection->request)
        now += sizeof *connection->request + message_bytes(&connection->request->message);
    server->figures.buffered_bytes += now - connection->accounted;
    connection->accounted = now;
    /* Large bodies leave room for the requests that keep and return what clients hold. */
    size_t most = server->limits.buffered_bytes;
    if (now <= server->limits.small_bytes)
        most += server->limits.reserve_bytes;
    return server->figures.buffered_bytes <= most;
}

void connection_resume_later(struct connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->resuming)
        return;
    connection->resuming = true;
    connection->resume_next = server->resume;
    server->resume = connection;
    uv_idle_start(&server->idle, server_resume);
}

void connection_pause(struct connection *connection)
{
    bool full = connection->ahead.size >= connection->server->limits.ahead_bytes;
    timeout_set(connection, full ? TIMEOUT_AHEAD : TIMEOUT_NONE);
}

/* ---- Sending ----------------------------------------------------------------------------- */

/* Sends once: a number of bytes, TLS_BLOCKED or TLS_FAILED. */
static ssize_t output_write(struct connection *connection, struct view bytes)
{
    if (connection->tls)
        return tls_write(connection->tls, bytes.data, bytes.size);
    ssize_t count;
    do
        count = send(connection->fd, bytes.data, bytes.size, MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    if (count >= 0)
        return count;
    return errno == EAGAIN || errno == EWOULDBLOCK ? TLS_BLOCKED : TLS_FAILED;
}

/* Sends until the socket is full; returns how many bytes, and notes a failure. */
static size_t output_write_all(struct connection *connection, struct view bytes)
{
    size_t done = 0;
    while (done < bytes.size) {
        ssize_t count = output_write(connection, view_from(bytes, done));
        if (count == TLS_BLOCKED)
            break;
        if (count < 0) {
            connection->broken = true;
            break;
        }
        done += (size_t)count;
    }
    return done;
}

static size_t output_unsent(const struct connection *connection)
{
    return connection->out.size - connection->sent;
}

/* Sends the bytes, or keeps what cannot be sent yet. */
static void output_send(struct connection *connection, struct view bytes)
{
    struct buffer *out = &connection->out;
    if (connection->broken)
        return;
    if (output_unsent(connection) == 0)
        bytes = view_from(bytes, output_write_all(connection, bytes));
    if (bytes.size == 0 || connection->broken)
        return;
    if (connection->sent > 0) {
        memmove(out->data, out->data + connection->sent, output_unsent(connection));
        out->size -= connection->sent;
        connection->sent = 0;
    }
    if (!buffer_append(out, bytes))
        connection->broken = true;
}

/* The client has time to read the last reply: a close while it still sends would reset the
 * connection, and it could lose the reply. */
static void output_linger(struct connection *connection)
{
    if (connection->peer_closed) {
        connection_close(connection);
        return;
    }
    if (connection->tls)
        tls_end(connection->tls);
    shutdown(connection->fd, SHUT_WR);
    buffer_release(&connection->ahead);
    connection_account(connection);
    connection->state = CONNECTION_LINGERING;
    timeout_set(connection, TIMEOUT_LINGER);
}

/* The reply has been sent. */
static void output_done(struct connection *connection)
{
    bool ended = connection->peer_closed && connection->ahead.size == 0;
    if (connection->close_after || ended) {
        output_linger(connection);
        return;
    }
    connection->state = CONNECTION_IDLE;
    timeout_set(connection, TIMEOUT_IDLE);
    if (connection->ahead.size > 0)
        connection_resume_later(connection);
}

/* After the last bytes of a reply: its request is gone. */
static void output_after(struct connection *connection)
{
    bool fits = connection_account(connection) || output_unsent(connection) == 0;
    if (connection->broken || !fits) {
        connection->server->figures.cut_off += !fits;
        connection_close(connection);
        return;
    }
    if (output_unsent(connection) == 0)
        output_done(connection);
    else if (connection->timeout_kind != TIMEOUT_STALL)
        timeout_set(connection, TIMEOUT_STALL);
    if (!connection->processing)
        connection_watch(connection);
}

void connection_flush(struct connection *connection)
{
    struct view rest = view_from(buffer_view(&connection->out), connection->sent);
    size_t count = output_write_all(connection, rest);
    connection->sent += count;
    connection->progress += count;
    if (connection->broken) {
        connection_lost(connection);
        return;
    }
    if (output_unsent(connection) > 0)
        return;
    buffer_release(&connection->out);
    connection->sent = 0;
    connection_account(connection);
    if (connection->state == CONNECTION_REPLYING)
        output_done(connection);
    else if (connection->timeout_kind == TIMEOUT_STALL)
        connection_pause(connection);
}

void connection_continue(struct connection *connection)
{
    output_send(connection, VIEW("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* ---- Replies ----------------------------------------------------------------------------- */

static struct view output_date(struct http_server *server)
{
    uint64_t now = uv_now(server->loop);
    if (now >= server->date_at) {
        struct wall_time wall = env_wall(server->env);
        http_date_text(wall, server->date);
        server->date_at = now + 1000 - (uint64_t)(wall.us / 1000 % 1000);
    }
    return view_of(server->date);
}

/* Sends head and body; the head says whether the connection will be closed. */
static void output_message(struct connection *connection, struct reply_head *head,
                           struct view body)
{
    struct http_server *server = connection->server;
    struct buffer *scratch = &server->scratch;
    head->date = output_date(server);
    buffer_clear(scratch);
    bool together = body.size <= TOGETHER_BYTES_MAX;
    if (!reply_append_head(scratch, head) || (together && !buffer_append(scratch, body))) {
        connection->broken = true;
        return;
    }
    output_send(connection, buffer_view(scratch));
    if (!together)
        output_send(connection, body);
}

/* The request is answered; what was given for the answer may have been part of it. */
static void output_end_request(struct connection *connection)
{
    connection->server->figures.under_way--;
    request_free(connection->request);
    connection->request = NULL;
    connection->state = CONNECTION_REPLYING;
}

static void output_reply(struct http_request *request, struct reply_head *head,
                         struct view body)
{
    struct connection *connection = request->connection;
    check(connection->state == CONNECTION_UNDER_WAY && connection->request == request);
    if (!reply_headers_valid(head->headers, head->header_count)) {
        *head = (struct reply_head){ .status = 500, .close = head->close };
        body = VIEW("");
    }
    head->close = head->close || connection->close_after || !request->message.keep_alive ||
                  connection->server->stopping;
    head->minor = request->message.minor;
    head->length = body.size;
    connection->close_after = head->close;
    bool silent = request->message.verb == HTTP_VERB_HEAD || !reply_has_body(head->status);
    output_message(connection, head, silent ? VIEW("") : body);
    output_end_request(connection);
    output_after(connection);
}

void http_reply(struct http_request *request, int status, const struct http_header *headers,
                size_t header_count, struct view body)
{
    struct reply_head head = { .status = status,
                               .headers = headers,
                               .header_count = header_count };
    output_reply(request, &head, body);
}

void http_reply_and_close(struct http_request *request, int status,
                          const struct http_header *headers, size_t header_count,
                          struct view body)
{
    struct reply_head head = {
        .status = status, .headers = headers, .header_count = header_count, .close = true
    };
    output_reply(request, &head, body);
}

/* Refusals say why, in the form that the caller of the server wants. */
static struct view output_error_body(const struct http_server *server, int status,
                                     const char *why, char text[ERROR_BODY_MAX])
{
    if (!server->error_body)
        return view_of(why);
    size_t size = server->error_body(status, why, text, ERROR_BODY_MAX);
    check(size <= ERROR_BODY_MAX);
    return (struct view){ text, size };
}

void connection_refuse(struct connection *connection, int status, const char *why)
{
    struct http_server *server = connection->server;
    check(connection->state == CONNECTION_READING);
    char text[ERROR_BODY_MAX];
    struct view body = output_error_body(server, status, why, text);
    struct http_header type = { "Content-Type", view_of(server->error_content_type) };
    struct reply_head head = { .status = status,
                               .minor = 1,
                               .close = true,
                               .headers = &type,
                               .header_count = 1,
                               .length = body.size };
    server->figures.refused++;
    request_free(connection->request);
    connection->request = NULL;
    connection->close_after = true;
    connection->state = CONNECTION_REPLYING;
    output_message(connection, &head, body);
    output_after(connection);
}

/* ---- Streams ----------------------------------------------------------------------------- */

/* After bytes of a stream that goes on. hang_up may not be called from here. */
static void output_after_stream(struct connection *connection)
{
    connection_account(connection);
    if (connection->broken)
        connection_resume_later(connection);
    else if (output_unsent(connection) > 0 && connection->timeout_kind != TIMEOUT_STALL)
        timeout_set(connection, TIMEOUT_STALL);
    if (!connection->processing)
        connection_watch(connection);
}

void http_stream_begin(struct http_request *request, const char *content_type)
{
    struct connection *connection = request->connection;
    const struct message *message = &request->message;
    check(connection->state == CONNECTION_UNDER_WAY && connection->request == request);
    struct http_header headers[] = { { "Content-Type", view_of(content_type) },
                                     { "Cache-Control", VIEW("no-store") } };
    request->chunked = message->minor == 1;
    request->silent = message->verb == HTTP_VERB_HEAD;
    connection->close_after = connection->close_after || !message->keep_alive ||
                              message->minor == 0 || connection->server->stopping;
    struct reply_head head = { .status = 200,
                               .minor = message->minor,
                               .close = connection->close_after,
                               .chunked = request->chunked,
                               .until_close = !request->chunked,
                               .headers = headers,
                               .header_count = 2 };
    connection->state = CONNECTION_STREAMING;
    output_message(connection, &head, VIEW(""));
    output_after_stream(connection);
}

/* One piece of a stream, as a chunk if the client knows chunks. */
static void output_piece(struct connection *connection, struct view bytes)
{
    struct buffer *scratch = &connection->server->scratch;
    if (!connection->request->chunked) {
        output_send(connection, bytes);
        return;
    }
    buffer_clear(scratch);
    buffer_print(scratch, "%zx\r\n", bytes.size);
    buffer_append(scratch, bytes);
    if (buffer_append(scratch, VIEW("\r\n")))
        output_send(connection, buffer_view(scratch));
    else
        connection->broken = true;
}

bool http_stream_write(struct http_request *request, struct view bytes)
{
    struct connection *connection = request->connection;
    check(connection->state == CONNECTION_STREAMING && connection->request == request);
    if (bytes.size == 0 || request->silent)
        return true;
    size_t unsent = output_unsent(connection);
    bool cut = unsent > 0 && bytes.size > connection->server->limits.stream_bytes - unsent;
    output_piece(connection, cut ? VIEW(": cut off, too slow\n\n") : bytes);
    if (!cut) {
        output_after_stream(connection);
        return true;
    }
    connection->server->figures.cut_off++;
    connection->close_after = true;
    output_end_request(connection);
    output_after(connection);
    return false;
}

size_t http_stream_unsent(const struct http_request *request)
{
    return output_unsent(request->connection);
}

void http_stream_end(struct http_request *request)
{
    struct connection *connection = request->connection;
    check(connection->state == CONNECTION_STREAMING && connection->request == request);
    if (request->chunked && !request->silent)
        output_send(connection, VIEW("0\r\n\r\n"));
    connection->close_after = connection->close_after || connection->server->stopping;
    output_end_request(connection);
    output_after(connection);
}
