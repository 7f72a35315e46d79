/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: an HTTP/1.1 server on a libuv loop: connections, requests, replies, TLS.
 *
 * It knows nothing of locks. Its caller (src/serve/api) supplies a handler, which gets
 * complete requests and answers each of them once, at once or later:
 *
 *     request()  ->  http_reply()                                the usual case
 *     request()  ->  http_stream_begin(), _write() ..., _end()   server-sent events
 *     request()  ->  ... hang_up()                               the client left first
 *
 * One of these ends every request; after it the request must not be used. In particular,
 * hang_up() is never called for a request that was answered, and is called within one turn
 * of the loop after the client closed, half-closed or reset its connection. A half-close
 * counts: whoever sends a request and then shuts its sending side down gets a reply only if
 * the handler replies within request() itself.
 *
 * Everything here runs on the thread of the loop, and nothing is locked. Handlers are called
 * from the loop only, never from within a call of this header. All views point into the
 * request, and are valid as long as it is. What a caller passes to a reply is copied before
 * the call returns.
 *
 * Clients are not trusted. Every buffer, list and wait is bounded (struct http_limits);
 * src/serve/ http/README.md says what happens at each bound. A request that is not exactly
 * as RFC 9112 writes it is refused, and its connection closed.
 *
 * The process must ignore SIGPIPE. */
#ifndef SERVE_HTTP_SERVER_H
#define SERVE_HTTP_SERVER_H

#include "base/error.h"
#include "base/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct env;
struct uv_loop_s;
struct http_server;
struct http_request;

/* ---- The server -------------------------------------------------------------------------- */

struct http_handler {
    /* A complete request: head and body. */
    void (*request)(void *argument, struct http_request *request);
    /* The client left before the reply, or, after http_stream_begin, before the end of the
     * stream. The request is dead when this returns. */
    void (*hang_up)(void *argument, struct http_request *request);
    /* Optional. A request whose body is larger than limits.small_bytes: only its head can be read,
     * and most of its body has not arrived. True: the body is read, up to *ret_body_max bytes (413
     * beyond them; default: limits.body_bytes), and request() follows. False: the handler has
     * answered, and the connection is closed. */
    bool (*admit)(void *argument, struct http_request *request, size_t *ret_body_max);
    void *argument;
};

/* Initialise with HTTP_LIMITS. A value of 0 is refused unless its comment says otherwise. */
struct http_limits {
    size_t head_bytes;     /* request line and headers together: 431, or 414 for the line */
    size_t headers;        /* 431 */
    size_t body_bytes;     /* 413, before the body is read if its length is announced */
    size_t small_bytes;    /* a body up to this size is read before anybody looks at the head */
    size_t ahead_bytes;    /* read behind a request that is under way; then reading pauses */
    size_t stream_bytes;   /* unsent bytes of a stream; beyond them its client is cut off */
    size_t buffered_bytes; /* all requests, replies and streams of all connections: 503 */
    size_t reserve_bytes;  /* beyond them, for connections that need at most small_bytes */
    size_t connections;    /* the longest idle one is closed for a new one, or else 503 */
    size_t peer_connections; /* per IPv4 address, IPv6 /64 network or user: 503 */
    bool
        local_peers_unlimited; /* peer_connections does not apply to loopback and Unix sockets */
    uint32_t head_ms;    /* from the first byte to the end of the headers; TLS handshake */
    uint32_t rate_ms;    /* a body must bring rate_bytes per second in each such period */
    uint32_t rate_bytes; /* bytes per second; 0: no minimum, but some progress */
    uint32_t idle_ms;    /* between two requests of a connection */
    uint32_t stall_ms;   /* a reply must be taken at rate_bytes per second, as above */
    uint32_t linger_ms;  /* for a client to read the last reply before the close */
};

#define HTTP_LIMITS                                             \
    ((struct http_limits){ .head_bytes = 64 * 1024,             \
                           .headers = 100,                      \
                           .body_bytes = 64 * 1024 * 1024,      \
                           .small_bytes = 64 * 1024,            \
                           .ahead_bytes = 64 * 1024,            \
                           .stream_bytes = 256 * 1024,          \
                           .buffered_bytes = 512 * 1024 * 1024, \
                           .reserve_bytes = 64 * 1024 * 1024,   \
                           .connections = 10000,                \
                           .peer_connections = 1000,            \
                           .local_peers_unlimited = true,       \
                           .head_ms = 10000,                    \
                           .rate_ms = 10000,                    \
                           .rate_bytes = 1024,                  \
                           .idle_ms = 75000,                    \
                           .stall_ms = 30000,                   \
                           .linger_ms = 2000 })
#define HTTP_HEADERS_MAX 1000 /* of limits.headers */

/* Files in PEM. The certificate file may contain the whole chain. */
struct http_tls_files {
    const char *certificate;
    const char *key;
    const char *client_ca; /* NULL: clients are not asked for a certificate */
    bool client_optional;  /* with client_ca: a client without a certificate is accepted */
};

/* "127.0.0.1:9341", "[::1]:9341" (numbers, not names; port 0: any free port), or
 * "unix:/path". */
struct http_listener {
    const char *address;
    bool tls;           /* with server_options.tls; not for Unix sockets */
    uint32_t unix_mode; /* permissions of the Unix socket; 0: 0600 */
};

#define HTTP_LISTENERS_MAX 16

struct http_server_options {
    struct env *env;
    struct uv_loop_s *loop;
    struct http_handler handler;
    struct http_limits limits;
    const struct http_listener *listeners;
    size_t listener_count;
    const struct http_tls_files *tls; /* NULL: no listener has TLS */
    /* Headers of the caller that may occur only once: a request that repeats one is refused
     * with 400, as it is for Host, Content-Length, Content-Type, Authorization, Origin and
     * the like. Ends with NULL; may be NULL. */
    const char *const *single_headers;
    /* The body of a reply that the server itself makes: a refusal. Writes at most `size` bytes,
     * returns how many. NULL: the sentence as plain text. `content_type` belongs to it. */
    size_t (*error_body)(int status, const char *why, char *text, size_t size);
    const char *error_content_type;
};

/* Listens. INVALID, DENIED (permissions, TLS files) or UNAVAILABLE (address in use) with a
 * sentence. The loop must outlive the server. The options are copied, except single_headers. */
enum hf_status http_server_new(const struct http_server_options *options,
                               struct http_server **ret_server, struct hf_error *error);

/* The address of a listener as it is bound, for example with the port that was chosen. */
#define HTTP_ADDRESS_MAX 128
const char *http_server_address(const struct http_server *server, size_t listener,
                                char text[HTTP_ADDRESS_MAX]);

/* Reads the TLS files again, for connections to come. On failure nothing changes. */
enum hf_status http_server_reload_tls(struct http_server *server, struct hf_error *error);

/* Stops: closes the listeners and the idle connections, answers what is under way and closes
 * each connection after its reply. After grace_ms it closes the rest (hang_up is called for
 * requests that are still under way), then calls `stopped`, once. The caller ends streams
 * and parked requests itself, before or after this call. */
void http_server_stop(struct http_server *server, uint32_t grace_ms,
                      void (*stopped)(void *argument), void *argument);

/* Frees the server; only after `stopped` was called, and possibly in it. NULL is fine. */
void http_server_free(struct http_server *server);

/* Figures since the start, for metrics. */
struct http_figures {
    uint64_t accepted;     /* connections */
    uint64_t refused_peer; /* connections beyond a limit */
    uint64_t requests;     /* complete requests, given to the handler */
    uint64_t
        refused; /* requests refused by the server itself: malformed, too large, too slow */
    uint64_t hang_ups;
    uint64_t cut_off;      /* streams and replies whose client did not read */
    uint64_t accept_waits; /* times that descriptors or memory ran out */
    size_t connections;    /* now */
    size_t under_way;      /* requests given to the handler and not answered, now */
    size_t buffered_bytes; /* now */
};
struct http_figures http_server_figures(const struct http_server *server);

/* ---- A request --------------------------------------------------------------------------- */

/* Any other method is refused with 501. */
enum http_verb {
    HTTP_VERB_GET,
    HTTP_VERB_HEAD,
    HTTP_VERB_POST,
    HTTP_VERB_PUT,
    HTTP_VERB_DELETE,
    HTTP_VERB_PATCH,
    HTTP_VERB_OPTIONS
};

enum http_verb http_request_verb(const struct http_request *request);
const char *http_verb_name(enum http_verb verb);

/* The path as it was sent, without the query: "/v1/locks/a%20b". Never empty. */
struct view http_request_path(const struct http_request *request);

/* Segment i of the path, decoded: "v1", "locks", "a b"; a slash at the end adds an empty
 * one. False if there are not that many. They are valid UTF-8 without NUL, and never "." or
 * "..". */
bool http_request_segment(const struct http_request *request, size_t i,
                          struct view *ret_segment);
size_t http_request_segments(const struct http_request *request);

/* Parameters of the query, decoded ("+" is a space), as they were sent. Valid UTF-8 without
 * NUL. At most HTTP_PARAMETERS_MAX. http_request_parameter finds one by its name: 0 if it is
 * not there, 1 if it is, more if it was sent more than once, which the caller should refuse
 * (*ret_value is then the first). ret_value may be NULL. */
#define HTTP_PARAMETERS_MAX 64
#define HTTP_SEGMENTS_MAX   64
struct http_pair {
    struct view name;
    struct view value;
};
size_t http_request_parameters(const struct http_request *request,
                               const struct http_pair **ret_pairs);
size_t http_request_parameter(const struct http_request *request, struct view name,
                              struct view *ret_value);

/* Headers. Names are compared without regard to case. Returns how often the header occurs;
 * *ret_value is the first value, without spaces around it. */
size_t http_request_header(const struct http_request *request, struct view name,
                           struct view *ret_value);
size_t http_request_headers(const struct http_request *request,
                            const struct http_pair **ret_pairs);

/* The Host header: "example.org:9341". Empty for HTTP/1.0 without it. */
struct view http_request_host(const struct http_request *request);

struct view http_request_body(const struct http_request *request);

/* A body that may outlive its request. Its memory counts towards limits.buffered_bytes until it is
 * released, which must be before the server is freed. Initialise with zeros. */
struct http_body {
    char *data; /* NULL if it is empty */
    size_t size;
    size_t counted;
    struct http_server *server;
};

/* Moves the body out of the request. */
void http_request_take_body(struct http_request *request, struct http_body *ret_body);

/* Frees a body that was taken; does nothing to one of zeros. On the loop. */
void http_body_release(struct http_body *body);

/* Where a request comes from. */
struct http_peer {
    bool is_unix;
    bool is_loopback; /* true for Unix sockets too */
    bool is_tls;
    uint32_t uid; /* of a Unix socket's client */
    uint32_t pid;
    struct view subject; /* of a verified client certificate, RFC 2253; else empty */
    size_t listener;     /* which listener accepted it */
};
void http_request_peer(const struct http_request *request, struct http_peer *ret_peer);

/* "127.0.0.1:4711", "[::1]:4711" or "unix". */
void http_request_address(const struct http_request *request, char ret_text[HTTP_ADDRESS_MAX]);

/* Who sends it, as connections are counted: bytes that stand for an IPv4 address, an IPv6 network
 * of 64 bits, or a user of this machine. */
struct view http_request_client(const struct http_request *request);

/* The caller's own data. */
void http_request_set_user(struct http_request *request, void *user);
void *http_request_user(const struct http_request *request);

/* ---- The reply --------------------------------------------------------------------------- */

struct http_header {
    const char *name;
    struct view value;
};

/* Answers and ends the request. `headers` has Content-Type and whatever else;
 * Content-Length, Date, Connection and Transfer-Encoding are the server's. The reply to HEAD
 * has no body. A header value with a control character turns the reply into a 500. */
void http_reply(struct http_request *request, int status, const struct http_header *headers,
                size_t header_count, struct view body);

/* The same, and closes the connection: after a failed authentication, for example. */
void http_reply_and_close(struct http_request *request, int status,
                          const struct http_header *headers, size_t header_count,
                          struct view body);

/* Begins a reply of unknown length: status 200, `text/event-stream` for server-sent events. The
 * request stays alive until http_stream_end, hang_up, or a write that returns false. */
void http_stream_begin(struct http_request *request, const char *content_type);

/* Sends bytes, for example one event. False: the client does not read, and more than
 * limits.stream_bytes would be unsent. The stream then ends with the comment ": cut off, too
 * slow", the connection is closed, and the request is dead; hang_up is not called. A
 * connection that breaks returns true: hang_up follows. */
bool http_stream_write(struct http_request *request, struct view bytes);

/* Unsent bytes: 0 when the client keeps up. */
size_t http_stream_unsent(const struct http_request *request);

/* Ends the stream and the request. */
void http_stream_end(struct http_request *request);

#endif
