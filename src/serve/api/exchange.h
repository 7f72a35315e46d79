/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h: one request and its reply, and what the files of src/serve/api share.
 *
 * An exchange is used by its request until that is answered or hangs up, and by each order that
 * it gave to the core until the order is freed. It is freed with the last of them. Only the
 * loop counts these users; a worker that carries out an order may write only the members that
 * are marked. */
#ifndef SERVE_API_EXCHANGE_H
#define SERVE_API_EXCHANGE_H

#include "base/buffer.h"
#include "base/map.h"
#include "base/spare.h"
#include "serve/api/api.h"
#include "serve/api/ask.h"
#include "serve/calls/calls.h"
#include "serve/calls/lease_order.h"
#include "serve/events/inbox.h"
#include "serve/events/ring.h"
#include "serve/events/timelines.h"
#include "serve/json.h"

#include <stdatomic.h>
#include <sys/queue.h>

#define API_SPACES_MAX        64 /* in use at the same time, */
#define API_SPACES_OF_HOLDERS 64 /* and so many more for keepalives and releases */
#define API_REPLY_MAX         (16 * 1024 * 1024) /* bytes of a JSON reply */
#define API_HEADERS_MAX       8
#define API_ROUTES_MAX        128
#define API_JSON_MAX          (1024 * 1024) /* bytes of a body: 64 scopes with escapes, and more */
#define API_RECORD_MAX        (8 * 1024 * 1024) /* the same: a record of an index, with escapes */
#define API_LONG_MAX          2 /* merges and compiles under way, each of which occupies a worker */

/* A namespace that is in use, with its client. */
struct space {
    char name[HF_NAME_MAX + 1];
    struct api *api;
    struct hf_client *client; /* NULL: it is being opened ... */
    struct exchange *waiting; /* ... and these requests wait for it, the last one first */
    struct hf_client *opened; /* set by a worker */
    LIST_HEAD(, exchange) exchanges; /* that use it */
    struct mono_time used;           /* by the latest of them */
    struct {
        size_t streams;        /* that show its events */
        bool listens;          /* its client delivers events ... */
        uint64_t since;        /* ... which are in the ring from this number on */
        struct mono_time till; /* without a stream, until then */
    } events;
};

struct api {
    struct env *env;
    struct api_options options;
    struct core *core;
    struct pool *pool;
    struct calls calls;
    struct map spaces;
    struct guard *guard;
    struct rate_table *rates;               /* NULL: no limit */
    unsigned route_numbers[API_ROUTES_MAX]; /* in the metrics, in the order of the routes */
    struct spare exchanges;                 /* that have ended, to be used again */
    bool stopping;
    atomic_bool ends_work; /* the same, for workers */
    unsigned long_work;
    struct {
        struct exchange *first, *last; /* in the order in which they began to wait */
    } waits;                           /* requests that wait for a lock */
    struct exchange *unheard;          /* that took effect after their clients hung up */
    struct {
        struct hf_stats closed; /* of clients that were closed */
        uint64_t losses;        /* requests that learned that their lease had ended */
        struct mono_time clock_read;
    } figures;
    struct {
        struct event_ring *ring;
        struct event_inbox *inbox;
        struct timelines *timelines;
        struct stream *streams;
        size_t count;
        size_t listening; /* namespaces */
        uint64_t sent;    /* the number of the latest event that was offered to the streams */
    } events;
};

struct exchange {
    struct api *api;
    struct http_request *http; /* NULL: answered, or hung up */
    const struct route *route; /* NULL: there is none */
    unsigned number;           /* of the route, in the metrics */
    unsigned users;
    struct ask ask;
    struct mono_time arrived;
    struct space *space;
    struct exchange *wait_before, *wait_after; /* of those that wait for a lock */
    LIST_ENTRY(exchange) in_space;             /* of those that use the same space */
    struct exchange *next; /* of those that wait for the space, are unheard or denied */
    bool waits;            /* it is one of those */
    bool wakes;            /* its work is to fill in `freed` */
    bool is_long;          /* it is counted in api->long_work */
    atomic_bool gone;      /* its client has hung up */
    const char *who;       /* the name of the client's token; NULL: none */
    const char *word;      /* why it was refused; NULL: it was not */
    bool counted;          /* the rate of its client includes it */
    bool denied;           /* it was refused because its client may not do it */
    uint64_t token;        /* the fencing token of its result; 0: none */
    struct stream *stream; /* of a request for events that is being answered */
    bool sees_store;       /* locks of the whole store are listed, too */
    bool reported;         /* that it waits for a lock, and it is in api->waits */
    struct http_body sent; /* of an update; a worker may read it after its client has hung up */

    /* Written by the worker of a task. */
    struct buffer body;
    int status;
    struct hf_key_info info;
    struct buffer
        freed; /* the names of keys that may have become free, each followed by a NUL */
};

/* A route: what is sent to this path, and how it is answered. */
struct route {
    enum http_verb verb;
    const char *path;
    unsigned right;  /* that the client needs; 0: none */
    bool has_space;  /* it works in a namespace ... */
    bool reads_body; /* a JSON body */
    /* Checks what is asked for. INVALID with a sentence. May be NULL. */
    enum hf_status (*verify)(struct exchange *exchange, struct hf_error *error);
    /* Gives the core its work, or replies. The namespace is open. */
    void (*begin)(struct exchange *exchange);
    /* Replies with the result of that work. */
    void (*finish)(struct exchange *exchange, const struct core_result *result);
    bool
        whole_store; /* ... or in something that belongs to none: needs the right in all of them */
    bool by_holders; /* clients with a lease must be able to send it: has a rate of its own */
    bool is_routine; /* not in the audit log */
    /* Its work is the same for all clients: those that come while it is under way get its status,
     * and only that. */
    bool is_shared;
    /* Bytes of a body. 0: API_JSON_MAX, or without reads_body a small one, which is ignored. */
    size_t body_max;
    bool given_back;    /* if its client hangs up, nothing remains of it */
    unsigned txn_right; /* that the client needs as well if it names a transaction */
};

/* The routes, in several files. Each list ends with a row without a path. */
extern const struct route lease_routes[];
extern const struct route key_routes[];
extern const struct route lock_routes[];
extern const struct route txn_routes[];
extern const struct route compact_routes[];
extern const struct route index_routes[];
extern const struct route elect_routes[];
extern const struct route server_routes[];
extern const struct route figure_routes[];
extern const struct route event_routes[];
extern const struct route view_routes[];
extern const struct route timeline_routes[];
extern const struct route name_routes[];
extern const struct route page_routes[];

/* ---- Rights (rights.c) ----------------------------------------------------------------- */

#define ALL_NAMESPACES "*" /* which only a token for all namespaces covers */

/* Whether the client has the right of the route for what is asked, and has not sent too many
 * requests. False: it has been told why. */
bool exchange_is_allowed(struct exchange *exchange);

/* The same in two steps, without the rate: what the guard says, by the tokens as they are now; and
 * whether that is a yes, otherwise the client is told why. */
enum guard_verdict exchange_verdict(const struct exchange *exchange, const char **ret_name);
bool exchange_obey(struct exchange *exchange, enum guard_verdict verdict);

/* Whether the client has the right in this namespace; NULL: in any. While its HTTP request is
 * alive. */
bool exchange_has_right(const struct exchange *exchange, unsigned right, const char *ns);

/* ---- What is recorded ---------------------------------------------------------------- */

/* The client is about to be answered with this status, or has hung up (METRICS_HUNG_UP): counts it,
 * and logs it. While its HTTP request is alive. */
void exchange_record(struct exchange *exchange, int status);

/* Whether it is to change something, and belongs in the audit log if it does. */
bool exchange_changes(const struct exchange *exchange);

/* Keeps the figures of a client that is about to be closed. */
void keep_client_figures(struct api *api, struct hf_client *client);

/* docs/openapi.json, which describes all of them. */
extern const struct view openapi_document;

/* ---- Namespaces (spaces.c) ----------------------------------------------------------- */

/* Begins the exchange now, or when its namespace has been opened. */
void enter_space(struct exchange *exchange);
/* An exchange that waits for that no longer does. */
void leave_space(struct exchange *exchange);

/* The core's answer to the opening of a space. */
void end_opening(struct space *space, const struct core_result *result);

void close_all_spaces(struct api *api);

/* ---- Events -------------------------------------------------------------------------- */

enum hf_status streams_open(struct api *api, struct hf_error *error);
void streams_close(struct api *api);

/* hf_client_options.event; its argument is the space. Any thread. */
void space_event(void *space, const struct hf_event *event);

/* What the server itself knows. `status` is the HTTP status of the reply. */
void report_wait_began(void *api, uint64_t exchange);
void report_wait_ended(struct exchange *exchange, int status);
void report_lease_lost(struct exchange *exchange);
void report_broken(struct exchange *exchange);

/* What happened to a lease, for its timeline. */
void report_hold_began(const struct exchange *exchange, uint64_t token, int64_t left_ms);
void report_hold_renewed(const struct exchange *exchange, uint64_t token, int64_t left_ms);
void report_hold_ended(const struct exchange *exchange, uint64_t token, bool broken);

/* Sends what was reported here; and what the library has reported; what is due; when that is; and
 * ends all streams, with a last event. */
void streams_send(struct api *api);
void streams_collect(struct api *api);
void streams_pass_time(struct api *api);
struct mono_time streams_wake_at(const struct api *api);

/* The client of the namespace delivers no more events. */
void stop_listening(struct space *space);

void streams_end(struct api *api, struct view last_words);

/* The client of a stream has left. */
void stream_hang_up(struct exchange *exchange);

/* ---- Replies ------------------------------------------------------------------------- */

/* Each ends the exchange for its client. They do nothing if the client has hung up. */
void exchange_reply(struct exchange *exchange, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct view body);
void exchange_reply_json(struct exchange *exchange, int status, struct buffer *json);

/* A `finish`: replies with the JSON in exchange->body. */
void exchange_reply_body(struct exchange *exchange, const struct core_result *result);

/* The reply for a status, its reason and, if it says more, the outcome. */
void exchange_refuse(struct exchange *exchange, const struct core_result *result);
void exchange_refuse_for(struct exchange *exchange, const struct hf_error *error);
/* 429: the client sends too many requests. */
void exchange_refuse_rate(struct exchange *exchange, struct span wait);
/* With a status and a word of HTTP's own: 404, 405, 401 ... */
void exchange_refuse_http(struct exchange *exchange, int status, const char *word,
                          const char *why);

void exchange_release(struct exchange *exchange);

/* Appends the key or scope in full: "named:deploy". */
void exchange_print_scope(const struct exchange *exchange, struct buffer *text);

/* Appends the name of the line in which those stand who wait for its key or scope. */
void exchange_print_resource(const struct exchange *exchange, struct buffer *text);

/* ---- Work ---------------------------------------------------------------------------- */

/* Makes a call of the library in a worker; `work` may write the marked members of the exchange. The
 * route's `finish` then replies. */
void exchange_work(struct exchange *exchange,
                   enum hf_status (*work)(struct exchange *exchange, struct hf_error *error));

/* The same, but nobody waits for it: the exchange may be answered at once. Not made if the server
 * is too busy. */
void exchange_work_unanswered(struct exchange *exchange,
                              enum hf_status (*work)(struct exchange *exchange,
                                                     struct hf_error *error));
/* The same for work that may take minutes. Refuses if too much of it is under way. It must ask
 * exchange_is_wanted now and then, in any thread, and end with CANCELLED if it is not. */
void exchange_work_long(struct exchange *exchange,
                        enum hf_status (*work)(struct exchange *exchange,
                                               struct hf_error *error));
bool exchange_is_wanted(const struct exchange *exchange);

/* Gives the core a lease order. */
void exchange_order(struct exchange *exchange, struct lease_task *task);

/* The name under which a key or scope is known to the library, and to the core. */
const char *exchange_scope(const struct exchange *exchange);

/* ---- Transactions (txns.c) ----------------------------------------------------------- */

/* The id of a transaction, and that of a lease, is secret. Its label is a hash, with which it can
 * be shown and told from others. */
#define ID_LABEL_SIZE 12
void id_label(const char *id, char ret_label[ID_LABEL_SIZE + 1]);

/* ---- Owners (owner.c) ---------------------------------------------------------------- */

/* The label of a client is stored with its lease, in the note. The holder of the lease, as the
 * library knows it, is the server. */

/* The note for an owner; free it. NULL: there is no owner, or memory ran out. */
char *owner_note(const char *owner, struct view own);

/* Appends ,"owner":value of the client that holds a lease; its holder if the note has no owner. */
void json_put_owner(struct buffer *json, const char *note, const char *holder);

#endif
