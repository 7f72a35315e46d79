/* SPDX-License-Identifier: Apache-2.0 */
/* http.h: blocking HTTP requests over a bounded pool of connections, one at a time on each.
 *
 * This layer knows nothing about S3. It guarantees that a request is sent at most once: libcurl
 * would silently send it again if a kept connection turned out to be dead, and this layer prevents
 * that. If there was no reply, it reports whether any part of the request may have been sent.
 *
 * A handle keeps its connection open for the next request. libcurl may start threads of its own
 * to resolve names. */
#ifndef STORE_REMOTE_HTTP_H
#define STORE_REMOTE_HTTP_H

#include "store/store.h"

#define HTTP_CONNECTIONS_MAX 512
#define HTTP_HEADERS_MAX     24

/* The metadata by which a writer recognises its own object: at AWS, and at Google. */
#define HTTP_MARK_HEADER        "x-amz-meta-holdfast-upload"
#define HTTP_MARK_HEADER_GOOGLE "x-goog-meta-holdfast-upload"

/* How much of an error page is kept; the rest is not read. */
#define HTTP_ERROR_BODY_MAX (64 * KIB)

struct http_options {
    size_t connections;           /* at most HTTP_CONNECTIONS_MAX concurrent requests */
    struct span connect_time_out; /* for name, connection and TLS together */
    const char *ca_file;          /* NULL: the system's certificates */
    bool no_proxy;                /* ignore http_proxy, https_proxy and all_proxy */
    /* For servers that ask for a certificate of the client: both, or NULL. */
    const char *certificate_file, *key_file;
    const char *socket_path;    /* connect to this local socket; NULL: to the host of the URL */
    const char *version_header; /* of a reply, with the object's version; NULL: ETag */
};

struct http_pool;

enum hf_status http_pool_open(struct env *env, const struct http_options *options,
                              struct http_pool **ret_pool, struct hf_error *error);

/* No request may be in progress. NULL is allowed. */
void http_pool_close(struct http_pool *pool);

/* The body to send: bytes in memory, or, with fd >= 0, a piece of a file. */
struct http_source {
    struct view bytes;
    int fd;
    uint64_t offset;
    uint64_t size;
};

struct http_reply;

/* Receives the body of a 2xx reply piece by piece. If it returns false, the request is stopped; the
 * sink must remember the reason. */
struct http_sink {
    bool (*write)(void *argument, const struct http_reply *reply, struct view bytes);
    void *argument;
};

struct http_request {
    const char *method;
    const char *url;
    const char *const *headers; /* "name: value", at most HTTP_HEADERS_MAX */
    size_t header_count;
    const struct http_source *source; /* NULL: no body */
    struct http_sink sink;            /* write NULL: keep a 2xx body in reply.body */
    struct mono_time deadline;
    struct span stall;   /* > 0: also give up after this long with almost no progress */
    bool may_send_again; /* for reads: retry on a new connection if a kept one is dead */
    /* Progress of the source or the sink. The total of a sink is the length that the reply
     * announces. */
    const struct progress *progress;
    uint64_t progress_base;
    uint64_t progress_total; /* 0: the source's size, or the announced length */
};

enum http_outcome {
    HTTP_ANSWERED,  /* a complete reply has arrived */
    HTTP_NOT_SENT,  /* nothing that could take effect was sent */
    HTTP_NO_ANSWER, /* sent, perhaps in part; no complete reply */
    HTTP_STOPPED,   /* by the sink, the progress callback or a read error: see error */
};

struct http_reply {
    enum http_outcome outcome;
    int status;
    bool bad_certificate;       /* the reason why nothing was sent */
    struct hf_error error;      /* of HTTP_STOPPED, NOT_SENT and NO_ANSWER */
    const char *version_header; /* as in the options */
    /* headers; missing ones are empty, zero or false */
    struct etag etag;        /* the version: ETag without its quotes, or version_header */
    struct etag content_tag; /* ETag without its quotes, in any case */
    bool has_date;
    bool has_age;
    bool
        has_version; /* x-amz-version-id, x-ms-version-id: the bucket has, or had, versioning */
    bool null_version; /* it is "null", which is none of its own */
    struct wall_time date;
    struct wall_time modified;
    bool whole_headers; /* all headers arrived, up to the empty line */
    bool has_length;
    bool chunked;
    uint64_t length;      /* of this body */
    bool has_range;       /* Content-Range: */
    uint64_t range_start; /* where this body begins in the object */
    uint64_t range_total; /* of the whole object */
    bool past_end;        /* Content-Range: an empty range at the end (Azurite sends such) */
    char region[40];
    char location[160];
    char mark[40];               /* HTTP_MARK_HEADER or HTTP_MARK_HEADER_GOOGLE */
    uint64_t key_version, token; /* of a key that a server has sent */
    /* timing on our boot-time clock */
    struct mono_time sent;
    struct mono_time received;
    struct buffer body; /* free it with http_reply_release */
};

/* Removes the quotes around a string, if any. */
struct view http_unquoted(struct view text);

/* Parses a date of HTTP. Call it only after http_pool_open, which loads the date parser. */
bool http_read_date(struct view text, struct wall_time *ret_time);

/* Parses one line of a reply. Call it only after http_pool_open, which loads the date parser. */
void http_reply_line(struct http_reply *reply, struct view line);

void http_reply_release(struct http_reply *reply);

/* Waits for a free handle, sends the request and reads the reply. *reply is initialised here and
 * contains the whole result. body_max limits the body of a 2xx reply that is kept. */
void http_perform(struct http_pool *pool, const struct http_request *request, size_t body_max,
                  struct http_reply *reply);

#endif
