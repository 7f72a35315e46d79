/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c: connects, sends a request and receives its reply. It guards against waits that nothing
 * ends, and records whether a request that got no reply may have been sent, which decides between
 * UNAVAILABLE and UNSURE. */
#include "store/server/plain.h"

#include "base/check.h"
#include "store/server/reply_parser.h"
#include "store/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define PLAIN_CONNECTIONS_MAX 256
#define PLAIN_HEAD_MAX        ((size_t)16 * KIB)
#define PLAIN_READ_SIZE       (16 * KIB)
#define PLAIN_ADDRESSES_MAX   2

struct plain_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } to;
    socklen_t size;
};

struct idle_connection {
    int fd;
    struct mono_time since;
};

struct plain_pool {
    struct env *env;
    struct span connect_time_out;
    size_t connections;
    struct plain_address addresses[PLAIN_ADDRESSES_MAX]; /* are tried in this order */
    size_t address_count;
    char host_header[URL_BYTES_MAX + 1];
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond freed;
        struct idle_connection idle[PLAIN_CONNECTIONS_MAX]; /* the most recently used last */
        size_t idle_count;
        size_t busy;
    } shared;
};

/* One request on its way. */
struct exchange_state {
    struct plain_pool *pool;
    const struct plain_request *request;
    struct http_reply *reply;
    int fd;
    bool kept;    /* the connection has had a request before */
    bool sent;    /* at least one byte of the request */
    bool stopped; /* by the progress callback */
};

/* ---- Addresses ----------------------------------------------------------------------------- */

static bool add_address(struct plain_pool *pool, const char *text, uint16_t port)
{
    struct plain_address *address = &pool->addresses[pool->address_count];
    *address = (struct plain_address){ .size = 0 };
    if (inet_pton(AF_INET, text, &address->to.v4.sin_addr) == 1) {
        address->to.v4.sin_family = AF_INET;
        address->to.v4.sin_port = htons(port);
        address->size = sizeof address->to.v4;
    } else if (inet_pton(AF_INET6, text, &address->to.v6.sin6_addr) == 1) {
        address->to.v6.sin6_family = AF_INET6;
        address->to.v6.sin6_port = htons(port);
        address->size = sizeof address->to.v6;
    }
    pool->address_count += address->size > 0;
    return address->size > 0;
}

static bool copy_host(struct view host, char text[INET6_ADDRSTRLEN])
{
    snprintf(text, INET6_ADDRSTRLEN, "%.*s", VIEW_ARGS(view_first(host, INET6_ADDRSTRLEN)));
    return host.size < INET6_ADDRSTRLEN;
}

bool plain_can_reach(struct view host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    return view_equal(host, VIEW("localhost")) ||
           (copy_host(host, text) && (inet_pton(AF_INET, text, &ignored) == 1 ||
                                      inet_pton(AF_INET6, text, &ignored) == 1));
}

static enum hf_status set_addresses(struct plain_pool *pool, const struct plain_place *place,
                                    struct hf_error *error)
{
    char text[INET6_ADDRSTRLEN];
    struct sockaddr_un *local = &pool->addresses[0].to.local;
    if (place->socket_path) {
        if (strlen(place->socket_path) >= sizeof local->sun_path)
            return error_set(error, HF_INVALID,
                             "the path of a local socket has at most %zu bytes",
                             sizeof local->sun_path - 1);
        local->sun_family = AF_UNIX;
        memcpy(local->sun_path, place->socket_path, strlen(place->socket_path) + 1);
        pool->addresses[0].size = sizeof *local;
        pool->address_count = 1;
        return HF_OK;
    }
    if (view_equal(place->host, VIEW("localhost"))) {
        add_address(pool, "127.0.0.1", place->port);
        add_address(pool, "::1", place->port);
        return HF_OK;
    }
    check(copy_host(place->host, text) && add_address(pool, text, place->port));
    return HF_OK;
}

/* ---- The pool ------------------------------------------------------------------------------ */

enum hf_status plain_pool_open(struct env *env, const struct plain_place *place,
                               size_t connections, struct span connect_time_out,
                               struct plain_pool **ret_pool, struct hf_error *error)
{
    check(connections >= 1 && connections <= PLAIN_CONNECTIONS_MAX);
    struct plain_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_no_memory(error);
    if (set_addresses(pool, place, error) != HF_OK) {
        free(pool);
        return error->status;
    }
    pool->env = env;
    pool->connections = connections;
    pool->connect_time_out = connect_time_out;
    snprintf(pool->host_header, sizeof pool->host_header, "%s", place->host_header);
    env_mutex_init(env, &pool->shared.mutex);
    env_cond_init(env, &pool->shared.freed);
    *ret_pool = pool;
    return HF_OK;
}

void plain_pool_close(struct plain_pool *pool)
{
    if (!pool)
        return;
    check(pool->shared.busy == 0);
    for (size_t i = 0; i < pool->shared.idle_count; i++)
        close(pool->shared.idle[i].fd);
    env_cond_release(&pool->shared.freed);
    env_mutex_release(&pool->shared.mutex);
    free(pool);
}

/* A kept connection on which anything has arrived has ended, or is out of step. */
static bool is_still_open(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* A kept connection, or -1: connect. False, with an error, if all are busy until the deadline. */
static bool take_connection(struct plain_pool *pool, struct mono_time deadline, int *ret_fd,
                            struct hf_error *error)
{
    bool in_time = true;
    *ret_fd = -1;
    env_mutex_lock(&pool->shared.mutex);
    while (pool->shared.busy == pool->connections && in_time)
        in_time = env_cond_wait_until(&pool->shared.freed, &pool->shared.mutex, deadline);
    if (!in_time) {
        env_mutex_unlock(&pool->shared.mutex);
        error_set(error, HF_UNAVAILABLE, "all %zu connections are busy", pool->connections);
        return false;
    }
    pool->shared.busy++;
    struct mono_time now = env_now(pool->env);
    while (pool->shared.idle_count > 0 && *ret_fd < 0) {
        struct idle_connection last = pool->shared.idle[--pool->shared.idle_count];
        if (mono_since(now, last.since).us < PLAIN_IDLE_MAX.us && is_still_open(last.fd))
            *ret_fd = last.fd;
        else
            close(last.fd);
    }
    env_mutex_unlock(&pool->shared.mutex);
    return true;
}

/* Closes the connection that was idle for longest, if that was too long: a burst of requests does
 * not keep descriptors forever. */
static void close_stale_locked(struct plain_pool *pool, struct mono_time now)
{
    struct idle_connection *idle = pool->shared.idle;
    if (pool->shared.idle_count == 0 || mono_since(now, idle[0].since).us < PLAIN_IDLE_MAX.us)
        return;
    close(idle[0].fd);
    memmove(idle, idle + 1, --pool->shared.idle_count * sizeof idle[0]);
}

/* fd < 0: it has been closed. */
static void give_connection(struct plain_pool *pool, int fd)
{
    struct mono_time now = env_now(pool->env);
    env_mutex_lock(&pool->shared.mutex);
    pool->shared.busy--;
    close_stale_locked(pool, now);
    if (fd >= 0)
        pool->shared.idle[pool->shared.idle_count++] = (struct idle_connection){ fd, now };
    env_cond_signal(&pool->shared.freed);
    env_mutex_unlock(&pool->shared.mutex);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* False, with an error, at the deadline or when the caller stops the request. */
static bool wait_for(struct exchange_state *exchange, short events, struct mono_time deadline,
                     const char *what)
{
    struct pollfd one = { .fd = exchange->fd, .events = events };
    const struct progress *progress = exchange->request->progress;
    struct hf_error *error = &exchange->reply->error;
    for (;;) {
        if (!progress_step(progress, 0, 0, error)) {
            exchange->stopped = true;
            return false;
        }
        struct span left = mono_since(deadline, env_now(exchange->pool->env));
        if (left.us <= 0) {
            error_set(error, HF_UNAVAILABLE, "the time limit passed while %s", what);
            return false;
        }
        if (progress)
            left = span_smaller(left, PLAIN_STEP);
        int64_t ms = (left.us + 999) / 1000;
        int ready = poll(&one, 1, ms > INT_MAX ? INT_MAX : (int)ms);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR) {
            error_from_errno(error, errno, "wait for the server");
            return false;
        }
    }
}

/* ---- Connecting ---------------------------------------------------------------------------- */

/* So that a server whose machine is gone is noticed within a minute, while a request waits. */
static void set_socket_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, 20 }, { IPPROTO_TCP, TCP_KEEPINTVL, 10 },
        { IPPROTO_TCP, TCP_KEEPCNT, 3 },
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

/* 0, or the errno; -1 if the wait was ended, with an error in the reply. */
static int connect_to(struct exchange_state *exchange, const struct plain_address *address,
                      struct mono_time deadline)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    exchange->fd = socket(address->to.any.sa_family, type, 0);
    if (exchange->fd < 0)
        return errno;
    if (address->to.any.sa_family != AF_UNIX)
        set_socket_options(exchange->fd);
    if (connect(exchange->fd, &address->to.any, address->size) == 0)
        return 0;
    failure = errno;
    if (failure != EINPROGRESS)
        return failure;
    if (!wait_for(exchange, POLLOUT, deadline, "connecting"))
        return -1;
    if (getsockopt(exchange->fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
        return errno;
    return failure;
}

static void close_connection(struct exchange_state *exchange)
{
    if (exchange->fd >= 0)
        close(exchange->fd);
    exchange->fd = -1;
}

static bool open_connection(struct exchange_state *exchange)
{
    struct plain_pool *pool = exchange->pool;
    struct mono_time deadline =
        mono_earlier(mono_add(env_now(pool->env), pool->connect_time_out),
                     exchange->request->deadline);
    int failure = 0;
    exchange->kept = false;
    for (size_t i = 0; i < pool->address_count; i++) {
        failure = connect_to(exchange, &pool->addresses[i], deadline);
        if (failure == 0)
            return true;
        close_connection(exchange);
        if (failure < 0)
            return false;
    }
    char what[URL_BYTES_MAX + 32];
    snprintf(what, sizeof what, "connect to %s", pool->host_header);
    error_from_errno(&exchange->reply->error, failure, what);
    exchange->reply->error.status = HF_UNAVAILABLE;
    return false;
}

/* ---- Sending ------------------------------------------------------------------------------- */

static void write_request_head(const struct exchange_state *exchange, struct buffer *head)
{
    const struct plain_request *request = exchange->request;
    buffer_print(head,
                 "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast/" HOLDFAST_VERSION "\r\n",
                 request->method, request->path, exchange->pool->host_header);
    for (size_t i = 0; i < request->header_count; i++) {
        buffer_append(head, view_of(request->headers[i]));
        buffer_append(head, VIEW("\r\n"));
    }
    if (request->has_body)
        buffer_print(head, "Content-Length: %zu\r\n", request->body.size);
    buffer_append(head, VIEW("\r\n"));
}

/* False if the connection has failed, or the wait was ended. A server may reply before it has read
 * the whole body, so the reply is looked for even if sending fails. */
static bool send_plain_request(struct exchange_state *exchange, struct view head)
{
    struct view body = exchange->request->body;
    while (head.size + body.size > 0) {
        struct iovec parts[2] = { { (void *)(size_t)head.data, head.size },
                                  { (void *)(size_t)body.data, body.size } };
        struct msghdr message = { .msg_iov = parts + (head.size == 0),
                                  .msg_iovlen = (size_t)(head.size > 0) + (body.size > 0) };
        ssize_t size = sendmsg(exchange->fd, &message, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!wait_for(exchange, POLLOUT, exchange->request->deadline, "sending"))
                return false;
            continue;
        }
        if (size < 0)
            return true;
        size_t of_head = (size_t)size < head.size ? (size_t)size : head.size;
        exchange->sent = true;
        head = view_from(head, of_head);
        body = view_from(body, (size_t)size - of_head);
    }
    return true;
}

/* ---- Receiving ----------------------------------------------------------------------------- */

/* Feeds the parser until the reply is over. False if the connection failed or the wait was ended
 * before that; an error is then in the reply. */
static bool receive_reply(struct exchange_state *exchange, struct reply_parser *parser)
{
    char bytes[PLAIN_READ_SIZE];
    while (!reply_is_over(parser)) {
        ssize_t size = recv(exchange->fd, bytes, sizeof bytes, 0);
        if (size > 0) {
            reply_feed(parser, (struct view){ bytes, (size_t)size });
        } else if (size == 0) {
            reply_feed_end(parser);
            if (!reply_is_over(parser)) {
                error_set(&exchange->reply->error, HF_UNAVAILABLE,
                          "the server closed the connection before a reply arrived");
                return false;
            }
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(exchange, POLLIN, exchange->request->deadline,
                          "waiting for the reply"))
                return false;
        } else if (errno != EINTR) {
            error_from_errno(&exchange->reply->error, errno, "receive the reply");
            return false;
        }
    }
    return true;
}

/* ---- One request --------------------------------------------------------------------------- */

/* Sends the request on the open connection. False: it can be repeated on another one, because a
 * kept connection ended before any byte of a reply. */
static bool exchange_once(struct exchange_state *exchange, struct view head,
                          struct reply_parser *parser)
{
    bool received = send_plain_request(exchange, head) && receive_reply(exchange, parser);
    bool in_time = mono_before(env_now(exchange->pool->env), exchange->request->deadline);
    bool begun = parser->line.size > 0 || parser->phase != REPLY_HEAD;
    return received || begun || !exchange->kept || exchange->stopped || !in_time;
}

static void set_plain_outcome(struct exchange_state *exchange,
                              const struct reply_parser *parser)
{
    struct http_reply *reply = exchange->reply;
    reply->received = env_now(exchange->pool->env);
    if (parser->phase == REPLY_COMPLETE) {
        reply->outcome = HTTP_ANSWERED;
        error_clear(&reply->error);
        return;
    }
    if (parser->phase == REPLY_TOO_LARGE) {
        reply->outcome = HTTP_STOPPED;
        error_set(&reply->error, HF_CORRUPT, "the server sent more bytes than requested");
        return;
    }
    if (parser->phase == REPLY_REFUSED)
        error_set(&reply->error, HF_UNAVAILABLE, "%s", parser->why);
    if (exchange->stopped && !exchange->sent) {
        reply->outcome = HTTP_STOPPED;
        return;
    }
    reply->outcome = exchange->sent ? HTTP_NO_ANSWER : HTTP_NOT_SENT;
    reply->error.status = exchange->sent ? HF_UNSURE : HF_UNAVAILABLE;
}

/* With a connection of the pool's, or a place for one. */
static void perform_taken(struct exchange_state *exchange, size_t body_max)
{
    struct reply_parser parser = REPLY_PARSER(exchange->reply, body_max);
    struct buffer head = BUFFER_INIT(PLAIN_HEAD_MAX);
    exchange->kept = exchange->fd >= 0;
    write_request_head(exchange, &head);
    if (head.failed) {
        error_no_memory(&exchange->reply->error);
    } else if (exchange->kept || open_connection(exchange)) {
        if (!exchange_once(exchange, buffer_view(&head), &parser)) {
            close_connection(exchange);
            if (open_connection(exchange))
                exchange_once(exchange, buffer_view(&head), &parser);
        }
    }
    set_plain_outcome(exchange, &parser);
    if (parser.phase != REPLY_COMPLETE || !parser.keeps)
        close_connection(exchange);
    if (head.data) /* it may have a token */
        explicit_bzero(head.data, head.capacity);
    buffer_release(&head);
    reply_parser_release(&parser);
}

void plain_perform(struct plain_pool *pool, const struct plain_request *request,
                   size_t body_max, struct http_reply *reply)
{
    struct exchange_state exchange = { .pool = pool, .request = request, .reply = reply };
    *reply = (struct http_reply){ .outcome = HTTP_NOT_SENT,
                                  .body = BUFFER_INIT(HTTP_ERROR_BODY_MAX) };
    if (!take_connection(pool, request->deadline, &exchange.fd, &reply->error))
        return;
    reply->sent = env_now(pool->env);
    perform_taken(&exchange, body_max);
    give_connection(pool, exchange.fd);
}
