/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: what a handler can ask of a request. */
#include "serve/http/http_inside.h"

#include <stdlib.h>

enum http_verb http_request_verb(const struct http_request *request)
{
    return request->message.verb;
}

struct view http_request_path(const struct http_request *request)
{
    return request->message.target.path;
}

size_t http_request_segments(const struct http_request *request)
{
    return request->message.target.segment_count;
}

bool http_request_segment(const struct http_request *request, size_t i,
                          struct view *ret_segment)
{
    const struct target *target = &request->message.target;
    if (i >= target->segment_count)
        return false;
    *ret_segment = target->segments[i];
    return true;
}

size_t http_request_parameters(const struct http_request *request,
                               const struct http_pair **ret_pairs)
{
    *ret_pairs = request->message.target.parameters;
    return request->message.target.parameter_count;
}

size_t http_request_parameter(const struct http_request *request, struct view name,
                              struct view *ret_value)
{
    const struct target *target = &request->message.target;
    size_t found = 0;
    for (size_t i = 0; i < target->parameter_count; i++)
        if (view_equal(target->parameters[i].name, name) && found++ == 0 && ret_value)
            *ret_value = target->parameters[i].value;
    return found;
}

size_t http_request_header(const struct http_request *request, struct view name,
                           struct view *ret_value)
{
    const struct message *message = &request->message;
    size_t found = 0;
    for (size_t i = 0; i < message->header_count; i++)
        if (message_equal_nocase(message->headers[i].name, name) && found++ == 0 && ret_value)
            *ret_value = message->headers[i].value;
    return found;
}

size_t http_request_headers(const struct http_request *request,
                            const struct http_pair **ret_pairs)
{
    *ret_pairs = request->message.headers;
    return request->message.header_count;
}

struct view http_request_host(const struct http_request *request)
{
    return request->message.host;
}

struct view http_request_body(const struct http_request *request)
{
    return buffer_view(&request->message.body);
}

void http_request_take_body(struct http_request *request, struct http_body *ret_body)
{
    struct buffer *body = &request->message.body;
    struct http_server *server = request->connection->server;
    *ret_body = (struct http_body){ body->data, body->size, body->capacity, server };
    *body = BUFFER_INIT(body->max);
    server->figures.buffered_bytes += ret_body->counted;
    connection_account(request->connection);
}

void http_body_release(struct http_body *body)
{
    if (body->server)
        body->server->figures.buffered_bytes -= body->counted;
    free(body->data);
    *body = (struct http_body){ .data = NULL };
}

struct view http_request_client(const struct http_request *request)
{
    const struct peer_count *peer = request->connection->peer;
    return (struct view){ peer->key, peer->key_size };
}

void http_request_peer(const struct http_request *request, struct http_peer *ret_peer)
{
    const struct connection *connection = request->connection;
    const union peer_address *address = &connection->address;
    bool is_unix = address->family == AF_UNIX;
    *ret_peer = (struct http_peer){
        .is_unix = is_unix,
        .is_loopback = peer_is_local(address),
        .is_tls = connection->tls != NULL,
        .uid = is_unix ? address->local.uid : 0,
        .pid = is_unix ? address->local.pid : 0,
        .subject = connection->tls ? tls_subject(connection->tls) : VIEW(""),
        .listener = connection->listener,
    };
}

void http_request_address(const struct http_request *request, char ret_text[HTTP_ADDRESS_MAX])
{
    peer_text(&request->connection->address, ret_text);
}

void http_request_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void *http_request_user(const struct http_request *request)
{
    return request->user;
}
