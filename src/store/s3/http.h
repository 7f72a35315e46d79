/* http.h: one blocking HTTP request at a time on each of a bounded pool of connections.
 *
 * It knows nothing of S3. What it promises to whoever writes over it: a request goes out at
 * most once (libcurl would silently send it again when a kept connection turns out dead; that
 * is stopped here), and when no answer came it says whether any of the request may have left.
 *
 * A handle keeps its connection alive for the next request. The threads libcurl may use to
 * resolve names are its own affair. */
#ifndef STORE_S3_HTTP_H
#define STORE_S3_HTTP_H

#include "store/store.h"

#define HTTP_CONNECTIONS_MAX 512
#define HTTP_HEADERS_MAX     24

/* Under this name an object may carry a mark by which its writer knows it again. */
#define HTTP_MARK_HEADER "x-amz-meta-holdfast-upload"

/* An error page is kept up to here; of a longer one the rest is not read. */
#define HTTP_ERROR_BODY_MAX (64 * KIB)

struct http_options {
    size_t connections;           /* at most HTTP_CONNECTIONS_MAX requests at once */
    struct span connect_time_out; /* for name, connection and TLS together */
    const char *ca_file;          /* NULL: the system's certificates */
    bool no_proxy;                /* ignore http_proxy, https_proxy and all_proxy */
};

struct http_pool;

enum hf_status http_pool_open(struct env *env, const struct http_options *options,
                              struct http_pool **ret_pool, struct hf_error *error);

/* No request may be under way. NULL is fine. */
void http_pool_close(struct http_pool *pool);

/* The body to send: bytes in memory, or, with fd >= 0, a piece of a file. */
struct http_source {
    struct view bytes;
    int fd;
    uint64_t offset;
    uint64_t size;
};

struct http_reply;

/* Takes the body of a 2xx reply piece by piece. False stops the request; whoever stopped it
 * remembers why. */
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
    struct http_sink sink;            /* write NULL: a 2xx body is kept like an error's */
    struct mono_time deadline;
    struct span stall;   /* > 0: also give up when next to nothing moves for this long */
    bool may_send_again; /* reading only: a dead kept connection is tried anew */
    /* Of the source's or sink's bytes; the sink's total is what the reply announces. */
    const struct progress *progress;
    uint64_t progress_base;
    uint64_t progress_total; /* 0: the source's size, or what is announced */
};

enum http_outcome {
    HTTP_ANSWERED,  /* a whole reply is here */
    HTTP_NOT_SENT,  /* nothing that could take effect has left */
    HTTP_NO_ANSWER, /* it left, or may have; no whole reply came */
    HTTP_STOPPED,   /* by the sink, the progress or an unreadable file: error says which */
};

struct http_reply {
    enum http_outcome outcome;
    int status;
    bool bad_certificate;  /* that is why nothing was sent */
    struct hf_error error; /* of HTTP_STOPPED; else a sentence for the other two failures */
    /* headers; absent ones are empty, zero or false */
    struct etag etag; /* without its quotes */
    bool has_date;
    bool has_age;
    bool has_version; /* x-amz-version-id: the bucket keeps versions, or once did */
    struct wall_time date;
    struct wall_time modified;
    bool whole_headers; /* up to the empty line behind them */
    bool has_length;
    bool chunked;
    uint64_t length;      /* of this body */
    bool has_range;       /* Content-Range: */
    uint64_t range_start; /* where this body begins in the object */
    uint64_t range_total; /* of the whole object */
    char region[40];
    char location[160];
    char mark[40]; /* HTTP_MARK_HEADER */
    /* timing on our boot-time clock */
    struct mono_time sent;
    struct mono_time received;
    struct buffer body; /* given back by http_reply_release */
};

/* Takes one line of a reply, as it came; after http_pool_open, which brings what reads dates. */
void http_reply_line(struct http_reply *reply, struct view line);

void http_reply_release(struct http_reply *reply);

/* Waits for a free handle, sends, reads. All that came of it is in *reply, which it starts
 * afresh. body_max bounds the kept body of a 2xx reply. */
void http_perform(struct http_pool *pool, const struct http_request *request, size_t body_max,
                  struct http_reply *reply);

#endif
