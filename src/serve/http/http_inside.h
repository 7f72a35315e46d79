/* SPDX-License-Identifier: Apache-2.0 */
/* http_inside.h: the structures of the HTTP server, for the files of this folder.
 *
 * The states of a connection, and who owns its request in each:
 *
 *   HANDSHAKE -> IDLE <--------------------------------------------+
 *                 |  first byte: a request is allocated             |
 *                 v                                                 | reply sent, keep-alive
 *              READING --refused--> REPLYING (close_after) -----+   |
 *                 |  complete: given to the handler, which      |   |
 *                 |  may answer before a large body is read     |   |
 *                 v                                             |   |
 *              UNDER_WAY --http_reply--> REPLYING --------------+---+
 *                 |                         ^                   |
 *                 +--http_stream_begin--> STREAMING             v  reply sent, close_after
 *                                                            LINGERING -> CLOSED
 *
 * Every state leads to CLOSED when the connection is lost; from UNDER_WAY and STREAMING
 * through hang_up. A request exists in READING (the connection's), UNDER_WAY and STREAMING
 * (the handler's) only. Bytes that arrive in UNDER_WAY, STREAMING and REPLYING are kept in
 * `ahead`. A CLOSED connection exists until libuv has closed its handle, so that a function
 * that closes one may still look at its state. */
#ifndef SERVE_HTTP_INSIDE_H
#define SERVE_HTTP_INSIDE_H

#include "base/buffer.h"
#include "base/map.h"
#include "serve/http/message.h"
#include "serve/http/server.h"
#include "serve/http/tls.h"

#include <netinet/in.h>
#include <uv.h>

enum connection_state {
    CONNECTION_HANDSHAKE,
    CONNECTION_IDLE,
    CONNECTION_READING,
    CONNECTION_UNDER_WAY,
    CONNECTION_STREAMING,
    CONNECTION_REPLYING,
    CONNECTION_LINGERING,
    CONNECTION_CLOSED,
};

/* All waits of a kind are equally long, so a list in the order of their beginning is in the
 * order of their ends as well. */
enum timeout_kind {
    TIMEOUT_NONE,
    TIMEOUT_HEAD,
    TIMEOUT_RATE,
    TIMEOUT_IDLE,
    TIMEOUT_STALL,
    TIMEOUT_LINGER,
    TIMEOUT_AHEAD,
    TIMEOUT_KINDS,
};

/* One address, network or user, and how many connections it has. */
struct peer_count {
    char key[18];
    uint8_t key_size;
    bool is_local;
    size_t connections;
};

union peer_address {
    sa_family_t family;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct {
        sa_family_t family;
        uint32_t uid;
        uint32_t pid;
    } local;
};

struct connection {
    uv_poll_t poll; /* first: the handle is the connection */
    struct http_server *server;
    struct connection *previous, *next; /* of all connections */
    struct connection *timeout_previous, *timeout_next;
    struct connection *resume_next;
    uint64_t timeout_at;
    uint64_t progress; /* bytes since the wait began, for RATE, STALL and LINGER */
    struct tls *tls;   /* NULL: plain */
    struct http_request *request;
    struct buffer ahead;
    struct buffer out; /* unsent; the first `sent` bytes of it are sent */
    size_t sent;
    size_t accounted; /* of server->buffered_bytes */
    struct peer_count *peer;
    union peer_address address;
    int fd;
    int watched; /* events that libuv watches for */
    uint8_t state;
    uint8_t timeout_kind;
    uint8_t listener;
    bool processing; /* message_feed or a handler is running */
    bool resuming;   /* in the list of connections to resume */
    bool handle_closed;
    bool peer_closed; /* the client has closed its sending side */
    bool broken;      /* writing failed during a stream: hang_up is due */
    bool close_after; /* the reply; what the client sends until then is dropped */
};

struct http_request {
    struct connection *connection; /* NULL: it is a spare one */
    struct http_request *next;     /* of the spare ones */
    void *user;
    bool chunked;   /* a stream, in chunks */
    bool silent;    /* a stream for HEAD */
    bool continued; /* "100 Continue" was sent */
    bool admitted;  /* the handler wants its large body */
    struct message message;
};

struct listener {
    uv_poll_t poll;
    struct http_server *server;
    int fd;
    bool is_open; /* its handle is */
    bool tls;
    bool paused;
    char *unix_path; /* to remove at the end; NULL: TCP */
};

#define INPUT_BYTES (64 * 1024)

struct timeout_list {
    struct connection *first, *last;
};

struct http_server {
    struct env *env;
    uv_loop_t *loop;
    struct http_handler handler;
    struct http_limits limits;
    struct message_rules rules;
    size_t (*error_body)(int status, const char *why, char *text, size_t size);
    char *error_content_type;

    struct listener listeners[HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct tls_context *tls;
    struct http_tls_files tls_files; /* copies */

    struct connection *connections; /* all that are not CLOSED */
    struct map peers;
    struct timeout_list timeouts[TIMEOUT_KINDS];
    struct connection *resume;

    uv_timer_t timer;
    uint64_t timer_at; /* when it is armed for; 0: it is not */
    uv_idle_t idle;    /* active while there is something to resume */
    uint64_t accept_again_at;
    size_t handles; /* open ones; `stopped` is called when there is none */

    bool stopping;
    bool free_when_closed; /* it never began */
    uint64_t stop_at;
    void (*stopped)(void *argument);
    void *stopped_argument;

    struct http_figures figures;
    uint64_t date_at; /* the Date header, and until when it is right */
    char date[40];
    struct http_request *spare; /* requests that were answered, to be used again */
    size_t spare_count;
    struct buffer scratch;   /* a reply being built */
    char input[INPUT_BYTES]; /* what was just read, of any connection */
};

/* connection.c */
/* Takes over the descriptor, in any case. */
void connection_open(struct http_server *server, struct listener *listener, int fd,
                     const union peer_address *address);
/* The client is gone: hang_up if a request is under way, then close. */
void connection_lost(struct connection *connection);
void connection_close(struct connection *connection);
void connection_expired(struct connection *connection);
void connection_resume_all(struct http_server *server);

/* output.c */
void connection_refuse(struct connection *connection, int status, const char *why);
/* Sends what is unsent. */
void connection_flush(struct connection *connection);
void connection_continue(struct connection *connection);
/* Begins to watch for the events that the state needs. */
void connection_watch(struct connection *connection);
void connection_resume_later(struct connection *connection);
/* Counts the memory of the connection. False if all connections together have too much for it. */
bool connection_account(struct connection *connection);
/* Begins the wait of a request that is under way: until enough that is read ahead becomes
 * too long. */
void connection_pause(struct connection *connection);
/* NULL: out of memory. */
struct http_request *request_new(struct connection *connection);
void request_free(struct http_request *request);
void request_free_spare(struct http_server *server);

/* timeouts.c */
void timeout_set(struct connection *connection, enum timeout_kind kind);
void timeout_arm(struct http_server *server, uint64_t at);
void timeout_fired(uv_timer_t *timer);
/* The connection that has been idle for longest, or NULL if none has been for a moment. */
struct connection *timeout_longest_idle(struct http_server *server);

/* listener.c */
enum hf_status listener_open(struct http_server *server, const struct http_listener *options,
                             struct hf_error *error);
void listener_close(struct listener *listener);
void listener_resume(struct http_server *server);
void listener_address(const struct listener *listener, char text[HTTP_ADDRESS_MAX]);

/* peers.c */
/* Counts one more connection. False: the peer has as many as it may, or memory ran out. */
bool peer_enter(struct http_server *server, const union peer_address *address,
                struct peer_count **ret_peer);
void peer_leave(struct http_server *server, struct peer_count *peer);
bool peer_is_local(const union peer_address *address);
void peer_text(const union peer_address *address, char text[HTTP_ADDRESS_MAX]);

/* server.c */
/* One handle of libuv is closed. */
void server_handle_closed(struct http_server *server);
void server_resume(uv_idle_t *idle);

#endif
