/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h: blocking HTTP requests without TLS, over a bounded pool of connections to one place. It
 * needs no library: loading libcurl takes longer than a whole `holdfast run` through a server.
 *
 * A connection is kept for the next request, for PLAIN_IDLE_MAX. A request is sent again, on a new
 * connection, if a kept one ends before the first byte of a reply: so every request must be one
 * that the server recognises, or one that changes nothing.
 *
 * Every wait ends at the request's deadline, or when its progress callback, which is called about
 * every PLAIN_STEP, says so. What a server may send is bounded (reply_parser.h). */
#ifndef STORE_SERVER_PLAIN_H
#define STORE_SERVER_PLAIN_H

#include "store/remote/http.h"

#define PLAIN_IDLE_MAX SPAN_S(15)
#define PLAIN_STEP     SPAN_MS(100)

/* Where a server listens. */
struct plain_place {
    const char *socket_path; /* of a local socket; NULL: `host` */
    struct view host;        /* an address in numbers, without brackets, or "localhost" */
    uint16_t port;
    const char *host_header; /* "127.0.0.1:9341" */
};

/* Whether a host can be reached without a name server: only such ones are for this file, because
 * nothing here could end a wait for an answer of a name server. */
bool plain_can_reach(struct view host);

struct plain_pool;

enum hf_status plain_pool_open(struct env *env, const struct plain_place *place,
                               size_t connections, struct span connect_time_out,
                               struct plain_pool **ret_pool, struct hf_error *error);

/* No request may be in progress. NULL is allowed. */
void plain_pool_close(struct plain_pool *pool);

struct plain_request {
    const char *method;
    const char *path;
    const char *const *headers; /* "name: value" */
    size_t header_count;
    bool has_body;
    struct view body;
    struct mono_time deadline;
    const struct progress *progress; /* NULL: it cannot be stopped */
};

/* As http_perform. */
void plain_perform(struct plain_pool *pool, const struct plain_request *request,
                   size_t body_max, struct http_reply *reply);

#endif
