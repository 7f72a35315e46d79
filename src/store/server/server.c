/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: opens a server by its URL, reads its token, and sends requests to it. The token is
 * never part of a URL, an error or a trace. */
#include "store/server/server.h"

#include "base/check.h"
#include "base/parse.h"
#include "file/bytes.h"
#include "store/backends.h"
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/server/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Requests under way at the same time: those that wait for a lock, and all others. A process with
 * many waiters can therefore still renew its leases. */
#define WAITING_MAX 256
#define CALLS_MAX   32

#define CONNECT_TIME SPAN_S(5)
#define TOKEN_MAX    1024
#define PORT_DEFAULT "9341"

/* "Authorization: Bearer " and the token, in memory that is excluded from core dumps. */
#define AUTHORIZATION     "Authorization: Bearer "
#define AUTHORIZATION_MAX (sizeof AUTHORIZATION + TOKEN_MAX)

struct server_store {
    struct store base; /* must be the first member */
    /* One pair of pools: libcurl's, or our own for what needs neither TLS nor a name server. */
    struct http_pool *calls, *waits;
    struct plain_pool *plain_calls, *plain_waits;
    bool exposed;                  /* to whoever is on the network path */
    char *authorization;           /* AUTHORIZATION_MAX bytes; empty: no token */
    char place[URL_BYTES_MAX + 1]; /* "http://HOST:PORT" */
};

enum hf_status server_refuse(struct hf_error *error)
{
    return error_set(error, HF_UNSUPPORTED,
                     "this store is a server, which has locks and keys only; this needs the "
                     "bucket itself: use the URL of the store that the server uses");
}

/* ---- No objects ------------------------------------------------------------------------ */

static void refuse_get(struct store *store, struct get_call *calls, size_t count)
{
    (void)store;
    for (size_t i = 0; i < count; i++)
        server_refuse(&calls[i].error);
}

static void refuse_put(struct store *store, struct put_call *calls, size_t count)
{
    (void)store;
    for (size_t i = 0; i < count; i++)
        server_refuse(&calls[i].error);
}

static void refuse_remove(struct store *store, struct delete_call *calls, size_t count)
{
    (void)store;
    for (size_t i = 0; i < count; i++)
        server_refuse(&calls[i].error);
}

static void refuse_list(struct store *store, struct list_call *call)
{
    (void)store;
    server_refuse(&call->error);
}

static void refuse_get_file(struct store *store, struct get_call *call, int fd,
                            const struct progress *progress)
{
    (void)store;
    (void)fd;
    (void)progress;
    server_refuse(&call->error);
}

static void refuse_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    (void)store;
    (void)fd;
    (void)progress;
    server_refuse(&call->error);
}

static void close_server(struct store *store)
{
    struct server_store *server = (struct server_store *)(void *)store;
    http_pool_close(server->calls);
    http_pool_close(server->waits);
    plain_pool_close(server->plain_calls);
    plain_pool_close(server->plain_waits);
    secret_free(server->authorization, AUTHORIZATION_MAX);
    free(server);
}

static const struct store_ops server_store_ops = {
    .name = "server",
    .get = refuse_get,
    .put = refuse_put,
    .remove = refuse_remove,
    .list = refuse_list,
    .get_file = refuse_get_file,
    .put_file = refuse_put_file,
    .close = close_server,
};

struct server_store *server_of(struct store *store)
{
    while (store && store->ops != &server_store_ops)
        store = store->inner;
    return (struct server_store *)(void *)store;
}

const char *server_exposed_to(struct store *store)
{
    const struct server_store *server = server_of(store);
    return server && server->exposed ? server->place : NULL;
}

/* ---- The token --------------------------------------------------------------------------- */

/* A token that could end the header, or that is cut off, is refused. The words of the error do not
 * contain it. */
static enum hf_status set_token(struct server_store *server, struct view token,
                                const char *from, struct hf_error *error)
{
    while (token.size > 0 && strchr(" \t\r\n", token.data[token.size - 1]))
        token.size--;
    bool good = token.size > 0 && token.size <= TOKEN_MAX;
    for (size_t i = 0; i < token.size; i++)
        good = good && token.data[i] > ' ' && token.data[i] < 0x7f;
    if (!good)
        return error_set(error, HF_INVALID,
                         "the token in %.120s must be one word of at most %d characters", from,
                         TOKEN_MAX);
    snprintf(server->authorization, AUTHORIZATION_MAX, AUTHORIZATION "%.*s", VIEW_ARGS(token));
    return HF_OK;
}

static enum hf_status read_token_file(struct server_store *server, const char *path,
                                      struct hf_error *error)
{
    char text[TOKEN_MAX + 8];
    size_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_cannot_open(error, errno, path);
    enum hf_status status = file_read_at(fd, text, sizeof text, 0, &size, error);
    close(fd);
    if (status == HF_OK)
        status = set_token(server, (struct view){ text, size }, path, error);
    explicit_bzero(text, sizeof text);
    return status;
}

/* The parameter token= names a file, $HOLDFAST_SERVER_TOKEN_FILE too; $HOLDFAST_SERVER_TOKEN is the
 * token. ($HOLDFAST_TOKEN is the fencing token that a command gets from 'run'.) */
static enum hf_status read_own_token(struct server_store *server, const struct url *url,
                                     struct hf_error *error)
{
    char path[URL_BYTES_MAX + 1];
    struct view named = url_parameter(url, "token");
    const char *file = getenv("HOLDFAST_SERVER_TOKEN_FILE");
    const char *token = getenv("HOLDFAST_SERVER_TOKEN");
    if (named.data) {
        snprintf(path, sizeof path, "%.*s", VIEW_ARGS(named));
        return read_token_file(server, path, error);
    }
    if (file && file[0])
        return read_token_file(server, file, error);
    if (token && token[0])
        return set_token(server, view_of(token), "HOLDFAST_SERVER_TOKEN", error);
    return HF_OK;
}

/* ---- Opening ----------------------------------------------------------------------------- */

/* Copies a parameter that names a file, or the variable in its place; empty: neither. */
static const char *file_parameter(const struct url *url, const char *name, const char *variable,
                                  char space[URL_BYTES_MAX + 1])
{
    struct view value = url_parameter(url, name);
    const char *from = getenv(variable);
    if (value.data)
        snprintf(space, URL_BYTES_MAX + 1, "%.*s", VIEW_ARGS(value));
    else
        snprintf(space, URL_BYTES_MAX + 1, "%s", from ? from : "");
    return space[0] ? space : NULL;
}

/* Parts HOST:PORT or [ADDRESS]:PORT; the port is empty if there is none. */
static void part_host(struct view text, struct view *ret_host, struct view *ret_port)
{
    bool bracketed = view_starts_with(text, VIEW("["));
    size_t end = bracketed ? view_find(text, ']') : view_find(text, ':');
    *ret_host = view_first(bracketed ? view_from(text, 1) : text, end - bracketed);
    struct view behind = view_from(text, end);
    *ret_port = view_from(behind, view_find(behind, ':') + 1);
}

static enum hf_status set_place(struct server_store *server, const struct url *url,
                                char socket_path[URL_BYTES_MAX + 1], struct hf_error *error)
{
    bool local = view_equal(url->scheme, VIEW("unix"));
    socket_path[0] = '\0';
    if (local && (url->host.size > 0 || url->path.size == 0 || url->path.data[0] != '/'))
        return error_set(error, HF_INVALID,
                         "the URL of a server on this machine is unix:PATH, with an absolute "
                         "path");
    if (local) {
        snprintf(socket_path, URL_BYTES_MAX + 1, "%.*s", VIEW_ARGS(url->path));
        snprintf(server->place, sizeof server->place, "http://localhost");
        return HF_OK;
    }
    struct view rest = url->path;
    while (rest.size > 0 && rest.data[0] == '/')
        rest = view_from(rest, 1);
    if (url->host.size == 0 || rest.size > 0 || view_find(url->host, '@') < url->host.size)
        return error_set(error, HF_INVALID,
                         "the URL of a server is %.*s://HOST:PORT; that of a bucket is "
                         "s3://BUCKET/PREFIX",
                         VIEW_ARGS(url->scheme));
    struct view host, port;
    part_host(url->host, &host, &port);
    server->exposed = view_equal(url->scheme, VIEW("http")) && !host_is_loopback(url->host);
    snprintf(server->place, sizeof server->place, "%.*s://%.*s%s", VIEW_ARGS(url->scheme),
             VIEW_ARGS(url->host), port.size > 0 ? "" : ":" PORT_DEFAULT);
    return HF_OK;
}

static enum hf_status open_curl_pools(struct server_store *server, const struct url *url,
                                      const char *socket_path, struct hf_error *error)
{
    char ca[URL_BYTES_MAX + 1], cert[URL_BYTES_MAX + 1], key[URL_BYTES_MAX + 1];
    struct http_options options = {
        .connections = CALLS_MAX,
        .connect_time_out = CONNECT_TIME,
        .ca_file = file_parameter(url, "ca", "HOLDFAST_CA_FILE", ca),
        .certificate_file = file_parameter(url, "cert", "HOLDFAST_CERT_FILE", cert),
        .key_file = file_parameter(url, "key", "HOLDFAST_KEY_FILE", key),
        .socket_path = socket_path[0] ? socket_path : NULL,
        .no_proxy = socket_path[0] != '\0',
    };
    if (!options.certificate_file != !options.key_file)
        return error_set(error, HF_INVALID, "cert= and key= belong together: name both files");
    enum hf_status status = http_pool_open(server->base.env, &options, &server->calls, error);
    options.connections = WAITING_MAX;
    if (status == HF_OK)
        status = http_pool_open(server->base.env, &options, &server->waits, error);
    return status;
}

static bool has_proxy(void)
{
    static const char *const variables[] = { "http_proxy", "all_proxy", "ALL_PROXY" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *proxy = getenv(variables[i]);
        if (proxy && proxy[0])
            return true;
    }
    return false;
}

/* Whether our own code can talk to the server. libcurl, which takes long to load, is needed for
 * TLS, to ask name servers, and for proxies. */
static bool is_plain_place(const struct url *url, const char *socket_path,
                           struct plain_place *ret_place)
{
    struct view host, port;
    uint64_t number;
    *ret_place = (struct plain_place){ .host_header = "localhost" };
    if (socket_path[0]) {
        ret_place->socket_path = socket_path;
        return true;
    }
    part_host(url->host, &host, &port);
    if (port.size == 0)
        port = VIEW(PORT_DEFAULT);
    if (!view_equal(url->scheme, VIEW("http")) || !plain_can_reach(host) ||
        parse_u64(port, UINT16_MAX, &number, NULL) != HF_OK || number == 0)
        return false;
    ret_place->host = host;
    ret_place->port = (uint16_t)number;
    return host_is_loopback(url->host) || !has_proxy();
}

static enum hf_status open_pools(struct server_store *server, const struct url *url,
                                 const char *socket_path, struct hf_error *error)
{
    struct env *env = server->base.env;
    struct plain_place place;
    if (!is_plain_place(url, socket_path, &place))
        return open_curl_pools(server, url, socket_path, error);
    if (!place.socket_path)
        place.host_header = server->place + sizeof "http://" - 1;
    enum hf_status status =
        plain_pool_open(env, &place, CALLS_MAX, CONNECT_TIME, &server->plain_calls, error);
    if (status == HF_OK)
        status = plain_pool_open(env, &place, WAITING_MAX, CONNECT_TIME, &server->plain_waits,
                                 error);
    return status;
}

enum hf_status server_store_open(struct env *env, const struct url *url,
                                 struct store **ret_store, struct hf_error *error)
{
    static const char *const parameters[] = { "ca", "cert", "key", "token", NULL };
    char socket_path[URL_BYTES_MAX + 1];
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    struct server_store *server = calloc(1, sizeof *server);
    char *authorization = secret_new(AUTHORIZATION_MAX);
    if (!server || !authorization) {
        secret_free(authorization, AUTHORIZATION_MAX);
        free(server);
        return error_no_memory(error);
    }
    server->authorization = authorization;
    server->base = (struct store){ .ops = &server_store_ops,
                                   .env = env,
                                   .traits = { .clock = STORE_CLOCK_NONE } };
    enum hf_status status = set_place(server, url, socket_path, error);
    if (status == HF_OK)
        status = read_own_token(server, url, error);
    if (status == HF_OK)
        status = open_pools(server, url, socket_path, error);
    if (status != HF_OK) {
        close_server(&server->base);
        return status;
    }
    *ret_store = &server->base;
    return error_clear(error);
}

/* ---- Sending ------------------------------------------------------------------------------ */

static void send_by_curl(struct server_store *server, const struct server_call *call,
                         const char *const *headers, size_t count, struct http_reply *reply)
{
    char url[URL_BYTES_MAX + SERVER_PATH_MAX];
    struct http_source source = { .bytes = call->body, .fd = -1, .size = call->body.size };
    int size = snprintf(url, sizeof url, "%s%s", server->place, call->path);
    check(size > 0 && (size_t)size < sizeof url);
    struct http_request request = { .method = call->posts ? "POST" : "GET",
                                    .url = url,
                                    .headers = headers,
                                    .header_count = count,
                                    .source = call->posts ? &source : NULL,
                                    .deadline = call->deadline,
                                    .may_send_again = true,
                                    .progress = call->progress };
    http_perform(call->waits ? server->waits : server->calls, &request, call->reply_max, reply);
}

static void send_plain(struct server_store *server, const struct server_call *call,
                       const char *const *headers, size_t count, struct http_reply *reply)
{
    struct plain_request request = { .method = call->posts ? "POST" : "GET",
                                     .path = call->path,
                                     .headers = headers,
                                     .header_count = count,
                                     .has_body = call->posts,
                                     .body = call->body,
                                     .deadline = call->deadline,
                                     .progress = call->progress };
    plain_perform(call->waits ? server->plain_waits : server->plain_calls, &request,
                  call->reply_max, reply);
}

void server_send(struct server_store *server, const struct server_call *call,
                 struct http_reply *reply)
{
    const char *headers[SERVER_HEADERS_MAX + 2];
    size_t count = 0;
    check(call->header_count <= SERVER_HEADERS_MAX);
    for (size_t i = 0; i < call->header_count; i++)
        headers[count++] = call->headers[i];
    if (call->posts)
        headers[count++] = call->sends_bytes ? "Content-Type: application/octet-stream"
                                             : "Content-Type: application/json";
    if (server->authorization[0])
        headers[count++] = server->authorization;
    if (server->plain_calls)
        send_plain(server, call, headers, count, reply);
    else
        send_by_curl(server, call, headers, count, reply);
}
