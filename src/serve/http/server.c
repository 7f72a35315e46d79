/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: the server from its start to its stop. */
#include "serve/http/http_inside.h"

#include "base/check.h"
#include "base/parse.h"

#include <stdlib.h>

/* ---- Options ----------------------------------------------------------------------------- */

static enum hf_status server_check_limits(const struct http_limits *limits,
                                          struct hf_error *error)
{
    const size_t sizes[] = {
        limits->head_bytes,       limits->headers,       limits->body_bytes,
        limits->small_bytes,      limits->ahead_bytes,   limits->stream_bytes,
        limits->buffered_bytes,   limits->reserve_bytes, limits->connections,
        limits->peer_connections, limits->head_ms,       limits->rate_ms,
        limits->idle_ms,          limits->stall_ms,      limits->linger_ms
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] == 0 || sizes[i] > SIZE_MAX / 16)
            return error_set(error, HF_INVALID, "a limit of the HTTP server is 0 or too large");
    if (limits->headers > HTTP_HEADERS_MAX)
        return error_set(error, HF_INVALID, "at most %d headers can be allowed",
                         HTTP_HEADERS_MAX);
    return HF_OK;
}

static char *server_copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void server_release_tls_files(struct http_tls_files *files)
{
    char *texts[] = { (char *)(uintptr_t)files->certificate, (char *)(uintptr_t)files->key,
                      (char *)(uintptr_t)files->client_ca };
    for (size_t i = 0; i < 3; i++)
        free(texts[i]);
    *files = (struct http_tls_files){ .certificate = NULL };
}

static enum hf_status server_load_tls(struct http_server *server,
                                      const struct http_tls_files *files,
                                      struct hf_error *error)
{
    if (!files)
        return HF_OK;
    if (!files->certificate || !files->key)
        return error_set(error, HF_INVALID, "TLS needs a certificate and a private key");
    struct http_tls_files *copy = &server->tls_files;
    *copy = (struct http_tls_files){ .certificate = server_copy(files->certificate),
                                     .key = server_copy(files->key),
                                     .client_ca = server_copy(files->client_ca),
                                     .client_optional = files->client_optional };
    if (!copy->certificate || !copy->key || (files->client_ca && !copy->client_ca))
        return error_no_memory(error);
    return tls_context_new(copy, &server->tls, error);
}

enum hf_status http_server_reload_tls(struct http_server *server, struct hf_error *error)
{
    struct tls_context *fresh = NULL;
    if (!server->tls)
        return HF_OK;
    enum hf_status status = tls_context_new(&server->tls_files, &fresh, error);
    if (status != HF_OK)
        return status;
    tls_context_free(server->tls);
    server->tls = fresh;
    return HF_OK;
}

/* ---- Start ------------------------------------------------------------------------------- */

static enum hf_status server_prepare(struct http_server *server,
                                     const struct http_server_options *options,
                                     struct hf_error *error)
{
    server->env = options->env;
    server->loop = options->loop;
    server->handler = options->handler;
    server->limits = options->limits;
    server->error_body = options->error_body;
    server->scratch = BUFFER_INIT(SIZE_MAX / 8);
    server->error_content_type =
        strdup(options->error_content_type ? options->error_content_type
                                           : "text/plain; charset=utf-8");
    if (!server->error_content_type)
        return error_no_memory(error);
    if (!message_rules_init(&server->rules, &server->limits, options->single_headers))
        return error_set(error, HF_INVALID, "there are too many headers that may occur once");
    if (options->listener_count == 0 || options->listener_count > HTTP_LISTENERS_MAX)
        return error_set(error, HF_INVALID, "a server listens on 1 to %d addresses, not %zu",
                         HTTP_LISTENERS_MAX, options->listener_count);
    enum hf_status status = server_load_tls(server, options->tls, error);
    for (size_t i = 0; i < options->listener_count && status == HF_OK; i++)
        status = listener_open(server, &options->listeners[i], error);
    return status;
}

/* Frees what does not belong to libuv. */
static void server_free(struct http_server *server)
{
    check(server->handles == 0);
    server_release_tls_files(&server->tls_files);
    tls_context_free(server->tls);
    map_release(&server->peers);
    buffer_release(&server->scratch);
    request_free_spare(server);
    free(server->error_content_type);
    free(server);
}

void server_resume(uv_idle_t *idle)
{
    struct http_server *server = idle->data;
    uv_idle_stop(idle);
    connection_resume_all(server);
}

/* Makes the handles of libuv; from here on the server is closed by the loop. */
static enum hf_status server_begin(struct http_server *server, struct hf_error *error)
{
    uv_timer_init(server->loop, &server->timer);
    uv_idle_init(server->loop, &server->idle);
    server->timer.data = server;
    server->idle.data = server;
    server->handles = 2;
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        int failed = uv_poll_init(server->loop, &listener->poll, listener->fd);
        if (failed)
            return error_set(error, HF_UNAVAILABLE, "cannot watch a socket: %s",
                             uv_strerror(failed));
        listener->poll.data = listener;
        listener->is_open = true;
        server->handles++;
    }
    listener_resume(server);
    return HF_OK;
}

static void server_timer_closed(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

static void server_close_listeners(struct http_server *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].fd >= 0)
            listener_close(&server->listeners[i]);
}

enum hf_status http_server_new(const struct http_server_options *options,
                               struct http_server **ret_server, struct hf_error *error)
{
    struct hf_error ignored;
    error = error ? error : &ignored;
    enum hf_status status = server_check_limits(&options->limits, error);
    if (status != HF_OK)
        return status;
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return error_no_memory(error);
    status = server_prepare(server, options, error);
    if (status != HF_OK) {
        server_close_listeners(server);
        server_free(server);
        return status;
    }
    status = server_begin(server, error);
    if (status != HF_OK) {
        server->free_when_closed = true;
        http_server_stop(server, 0, NULL, NULL);
        return status;
    }
    *ret_server = server;
    return HF_OK;
}

const char *http_server_address(const struct http_server *server, size_t listener,
                                char text[HTTP_ADDRESS_MAX])
{
    check(listener < server->listener_count);
    listener_address(&server->listeners[listener], text);
    return text;
}

struct http_figures http_server_figures(const struct http_server *server)
{
    return server->figures;
}

/* ---- Stop -------------------------------------------------------------------------------- */

/* The last connection is gone: what remains are the timer and the idle handle. */
static void server_close_rest(struct http_server *server)
{
    uv_close((uv_handle_t *)&server->timer, server_timer_closed);
    uv_close((uv_handle_t *)&server->idle, server_timer_closed);
}

void server_handle_closed(struct http_server *server)
{
    check(server->handles > 0);
    server->handles--;
    if (server->handles == 2 && server->stopping)
        server_close_rest(server);
    if (server->handles > 0)
        return;
    if (server->free_when_closed)
        server_free(server);
    else if (server->stopped)
        server->stopped(server->stopped_argument);
}

void http_server_stop(struct http_server *server, uint32_t grace_ms,
                      void (*stopped)(void *argument), void *argument)
{
    if (server->stopping)
        return;
    server->stopping = true;
    server->stopped = stopped;
    server->stopped_argument = argument;
    server->stop_at = uv_now(server->loop) + grace_ms;
    server->accept_again_at = 0;
    if (server->handles == 2) /* no handle of a listener is left to close */
        server_close_rest(server);
    server_close_listeners(server);
    struct connection *next;
    for (struct connection *one = server->connections; one; one = next) {
        next = one->next;
        bool idle = one->state == CONNECTION_IDLE && one->ahead.size == 0;
        if (idle || one->state == CONNECTION_HANDSHAKE)
            connection_close(one);
    }
    timeout_arm(server, server->stop_at);
}

void http_server_free(struct http_server *server)
{
    if (server)
        server_free(server);
}
