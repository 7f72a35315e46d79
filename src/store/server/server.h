/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: a store that is a server (`holdfast serve`): http://HOST:PORT, https://HOST:PORT or
 * unix:PATH. It has leases and keys, and no objects: every call of store.h returns UNSUPPORTED.
 * src/client asks it for what it does have, with server_send.
 *
 * A request may be sent twice, if a kept connection turns out to be dead. So every request must be
 * one that the server recognises (request ids), or one that changes nothing. */
#ifndef STORE_SERVER_SERVER_H
#define STORE_SERVER_SERVER_H

#include "store/remote/http.h"

#define SERVER_PATH_MAX    4096
#define SERVER_HEADERS_MAX 8

struct server_store;

/* The server behind this store, which may be wrapped; NULL: the store is none. */
struct server_store *server_of(struct store *store);

/* The address of a server that is reached over http on another machine, where anybody on the
 * network path can read and change the requests, and the token. NULL for any other store. */
const char *server_exposed_to(struct store *store);

/* UNSUPPORTED: this needs the bucket itself. */
enum hf_status server_refuse(struct hf_error *error);

struct server_call {
    const char *path;           /* from "/v1/", with its query */
    const char *const *headers; /* at most SERVER_HEADERS_MAX */
    size_t header_count;
    bool posts;       /* POST with `body`; otherwise GET */
    bool sends_bytes; /* the body is the state of a key, and not JSON */
    struct view body;
    size_t reply_max; /* the largest body of a 2xx reply */
    struct mono_time deadline;
    bool waits; /* the reply may take long, so that it must not use the connections of others */
    const struct progress *progress; /* NULL: it cannot be stopped */
};

/* Sends one request. The reply must be released with http_reply_release. */
void server_send(struct server_store *server, const struct server_call *call,
                 struct http_reply *reply);

#endif
