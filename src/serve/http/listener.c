/* SPDX-License-Identifier: Apache-2.0 */
/* listener.c: addresses, and accepting connections. When descriptors or memory run out,
 * accepting pauses for a moment, and the longest idle connection is closed: clients wait in
 * the queue of the kernel until there is room, and nothing spins. */
#include "serve/http/http_inside.h"

#include "base/check.h"
#include "base/parse.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG         4096
#define ACCEPTS_A_TURN  64
#define ACCEPT_PAUSE_MS 100

/* A client whose machine is gone, without a word, is noticed within 50 s. */
#define PROBE_AFTER_S 20
#define PROBE_EACH_S  10
#define PROBES        3

union listener_name {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct sockaddr_un local;
};

static enum hf_status listener_invalid(struct hf_error *error, const char *address)
{
    return error_set(error, HF_INVALID,
                     "cannot listen on '%s': the address must be like 127.0.0.1:9341, "
                     "[::1]:9341 or unix:/path",
                     address);
}

/* "1.2.3.4:5" and "[::1]:5". */
static enum hf_status listener_parse_ip(const char *address, union listener_name *name,
                                        socklen_t *ret_size, struct hf_error *error)
{
    char host[INET6_ADDRSTRLEN + 1];
    bool ip6 = address[0] == '[';
    const char *colon = strrchr(address, ':');
    const char *start = ip6 ? address + 1 : address;
    const char *end = colon && ip6 ? colon - 1 : colon;
    uint64_t port = 0;
    if (!colon || end < start || (ip6 && *end != ']') || (size_t)(end - start) >= sizeof host ||
        parse_u64(view_of(colon + 1), 65535, &port, error) != HF_OK)
        return listener_invalid(error, address);
    snprintf(host, sizeof host, "%.*s", (int)(end - start), start);
    *ret_size = ip6 ? sizeof name->ip6 : sizeof name->ip4;
    int failed = ip6 ? uv_ip6_addr(host, (int)port, &name->ip6)
                     : uv_ip4_addr(host, (int)port, &name->ip4);
    return failed ? listener_invalid(error, address) : HF_OK;
}

static enum hf_status listener_parse(const char *address, union listener_name *name,
                                     socklen_t *ret_size, struct hf_error *error)
{
    memset(name, 0, sizeof *name);
    if (strncmp(address, "unix:", 5) != 0)
        return listener_parse_ip(address, name, ret_size, error);
    struct view path = view_of(address + 5);
    if (path.size == 0 || path.size >= sizeof name->local.sun_path)
        return error_set(error, HF_INVALID,
                         "cannot listen on '%s': the path must have 1 to %zu bytes", address,
                         sizeof name->local.sun_path - 1);
    name->local.sun_family = AF_UNIX;
    memcpy(name->local.sun_path, path.data, path.size);
    *ret_size = sizeof name->local;
    return HF_OK;
}

/* Accepted sockets inherit these. They are not essential, so a failure does not matter. */
static void listener_configure(int fd, sa_family_t family)
{
    int on = 1, after = PROBE_AFTER_S, each = PROBE_EACH_S, probes = PROBES;
    if (family == AF_UNIX)
        return;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
}

/* A socket file that nobody listens to is what a killed server left; it is removed. */
static bool listener_remove_dead(const union listener_name *name, socklen_t size)
{
    struct stat found;
    if (name->any.sa_family != AF_UNIX || lstat(name->local.sun_path, &found) != 0 ||
        !S_ISSOCK(found.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = fd >= 0 && connect(fd, &name->any, size) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return dead && unlink(name->local.sun_path) == 0;
}

static enum hf_status listener_bind(int fd, const union listener_name *name, socklen_t size,
                                    uint32_t unix_mode)
{
    /* The file of a Unix socket gets the permissions of the descriptor, from the beginning. */
    if (name->any.sa_family == AF_UNIX && fchmod(fd, unix_mode ? unix_mode : 0600) != 0)
        return HF_UNAVAILABLE;
    bool bound = bind(fd, &name->any, size) == 0;
    if (!bound && errno == EADDRINUSE && listener_remove_dead(name, size))
        bound = bind(fd, &name->any, size) == 0;
    return bound && listen(fd, BACKLOG) == 0 ? HF_OK : HF_UNAVAILABLE;
}

enum hf_status listener_open(struct http_server *server, const struct http_listener *options,
                             struct hf_error *error)
{
    union listener_name name;
    socklen_t size = 0;
    enum hf_status status = listener_parse(options->address, &name, &size, error);
    if (status != HF_OK)
        return status;
    bool is_unix = name.any.sa_family == AF_UNIX;
    if (options->tls && (is_unix || !server->tls))
        return error_set(error, HF_INVALID, "cannot listen on '%s' with TLS: %s",
                         options->address,
                         is_unix ? "it is a Unix socket" : "there is no certificate");
    int fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char what[HTTP_ADDRESS_MAX + 32];
    snprintf(what, sizeof what, "listen on '%.*s'", HTTP_ADDRESS_MAX, options->address);
    if (fd < 0)
        return error_from_errno(error, errno, what);
    listener_configure(fd, name.any.sa_family);
    struct listener *listener = &server->listeners[server->listener_count];
    *listener = (struct listener){ .server = server, .fd = fd, .tls = options->tls };
    bool bound = listener_bind(fd, &name, size, options->unix_mode) == HF_OK;
    if (!bound)
        error_from_errno(error, errno, what);
    if (bound && is_unix && !(listener->unix_path = strdup(name.local.sun_path))) {
        unlink(name.local.sun_path);
        bound = false;
        error_no_memory(error);
    }
    if (!bound) {
        close(fd);
        return error->status;
    }
    server->listener_count++;
    return HF_OK;
}

void listener_address(const struct listener *listener, char text[HTTP_ADDRESS_MAX])
{
    union peer_address name = { .family = AF_UNIX };
    socklen_t size = sizeof name;
    if (listener->unix_path)
        snprintf(text, HTTP_ADDRESS_MAX, "unix:%.*s", HTTP_ADDRESS_MAX - 6,
                 listener->unix_path);
    else if (getsockname(listener->fd, (struct sockaddr *)&name, &size) == 0)
        peer_text(&name, text);
    else
        snprintf(text, HTTP_ADDRESS_MAX, "closed");
}

/* ---- Accepting --------------------------------------------------------------------------- */

/* Descriptors or memory ran out. */
static void listener_pause(struct http_server *server)
{
    struct connection *idle = timeout_longest_idle(server);
    if (idle)
        connection_close(idle);
    server->figures.accept_waits++;
    for (size_t i = 0; i < server->listener_count; i++)
        uv_poll_stop(&server->listeners[i].poll);
    server->accept_again_at = uv_now(server->loop) + ACCEPT_PAUSE_MS;
    timeout_arm(server, server->accept_again_at);
}

/* Returns a descriptor, or -1 with errno. */
static int listener_accept(const struct listener *listener, union peer_address *ret_address)
{
    socklen_t size = sizeof *ret_address;
    memset(ret_address, 0, sizeof *ret_address);
    if (!listener->unix_path)
        return accept4(listener->fd, (struct sockaddr *)ret_address, &size,
                       SOCK_NONBLOCK | SOCK_CLOEXEC);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct ucred user = { .uid = (uid_t)-1 };
    socklen_t user_size = sizeof user;
    if (fd >= 0)
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_size);
    ret_address->family = AF_UNIX;
    ret_address->local.uid = user.uid;
    ret_address->local.pid = (uint32_t)user.pid;
    return fd;
}

static void listener_event(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    struct http_server *server = listener->server;
    (void)status;
    (void)events;
    for (size_t i = 0; i < ACCEPTS_A_TURN; i++) {
        union peer_address address;
        int fd = listener_accept(listener, &address);
        if (fd >= 0) {
            connection_open(server, listener, fd, &address);
            continue;
        }
        int why = errno;
        if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM)
            listener_pause(server);
        if (why != EINTR && why != ECONNABORTED)
            return;
    }
}

void listener_resume(struct http_server *server)
{
    server->accept_again_at = 0;
    for (size_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].is_open)
            uv_poll_start(&server->listeners[i].poll, UV_READABLE, listener_event);
}

static void listener_handle_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    server_handle_closed(listener->server);
}

void listener_close(struct listener *listener)
{
    if (listener->unix_path)
        unlink(listener->unix_path);
    free(listener->unix_path);
    listener->unix_path = NULL;
    if (listener->is_open)
        uv_close((uv_handle_t *)&listener->poll, listener_handle_closed);
    listener->is_open = false;
    close(listener->fd);
    listener->fd = -1;
}
