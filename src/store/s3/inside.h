/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: declarations that the files of the s3 back end share. Other code includes s3.h. */
#ifndef STORE_S3_INSIDE_H
#define STORE_S3_INSIDE_H

#include "store/s3/credentials.h"
#include "store/remote/http.h"
#include "store/s3/s3.h"
#include "store/s3/sign.h"
#include "store/remote/worker_pool.h"

#define S3_BUCKET_MAX 63
#define S3_HOST_MAX   255
#define S3_REGION_MAX 39

/* The largest body of a single put; larger objects need parts. */
#define S3_SINGLE_PUT_MAX (5 * (uint64_t)GIB)

/* Content-MD5 is sent for bodies up to this size. */
#define S3_MD5_BYTES_MAX (4 * MIB)

/* The signing key for one day and one set of credentials. */
struct s3_signer {
    char day[S3_DAY_SIZE];
    char access_key[S3_ACCESS_KEY_MAX + 1];
    char secret[S3_SECRET_MAX + 1];
    struct s3_signing_key key;
};

struct s3_store {
    struct store base;
    struct http_pool *pool;
    struct s3_provider *provider;
    struct worker_pool workers;
    size_t connections;
    struct span time_out;
    bool tls;
    bool exposed; /* no TLS, and the host is not this machine */
    char bucket[S3_BUCKET_MAX + 1];
    char region[S3_REGION_MAX + 1];
    char host[S3_HOST_MAX + 1];   /* as in the Host header; with the bucket in host style */
    char origin[S3_HOST_MAX + 9]; /* scheme://host */
    char root[S3_BUCKET_MAX + 2]; /* "/bucket" in path style, else empty */
    char prefix[KEY_BYTES_MAX + 1];
    size_t prefix_size;
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond form_found;
        enum s3_etag_form form;
        bool form_sought;
        bool versioned;           /* the last object read had a version */
        struct s3_signer *signer; /* in secret memory */
        /* the time to sign with (skew.c) */
        bool time_known;
        bool dates_refused;     /* the store refused its own time */
        int64_t time_offset_us; /* store time minus boot time */
    } shared;
};

static inline struct s3_store *s3_of(struct store *store)
{
    return (struct s3_store *)store;
}

/* ---- One request (request.c) ------------------------------------------------------ */

#define S3_EXTRA_HEADERS_MAX 4

struct s3_request {
    const char *method;
    struct view key; /* as sent, with the store's prefix; empty: the bucket itself */
    struct s3_pair parameters[8];
    size_t parameter_count;
    struct s3_pair headers[S3_EXTRA_HEADERS_MAX]; /* signed */
    size_t header_count;
    const char *range;   /* value of the Range header, or NULL */
    const char *payload; /* hash of the body; NULL: there is no body */
    const struct http_source *source;
    struct http_sink sink;
    size_t body_max; /* limit for a 2xx body that is kept; 0: as for an error page */
    struct mono_time deadline;
    struct span stall;
    bool writes;     /* not retried, and no reply means UNSURE */
    bool repeatable; /* a write that may be retried: a part of an upload */
    enum condition_kind condition;
    struct wall_time signed_at; /* set by s3_send: the time in the signature */
    const struct progress *progress;
    uint64_t progress_base;
    uint64_t progress_total;
};

void s3_add_parameter(struct s3_request *request, const char *name, struct view value);
void s3_add_header(struct s3_request *request, const char *name, struct view value);

/* The deadline of a call: its own or, if it has none, now plus the store's timeout. */
struct mono_time s3_deadline(struct s3_store *s3, struct mono_time asked);

/* The same for a body of this size. The store's timeout then limits how long the transfer may
 * stall, and is returned in *ret_stall. The whole transfer may take as long as a slow line
 * needs. */
struct mono_time s3_stream_deadline(struct s3_store *s3, struct mono_time asked, uint64_t bytes,
                                    struct span *ret_stall);

/* Signs and sends a request, and maps the reply to a status. Reads and repeatable writes are
 * retried with growing, jittered pauses within the deadline and the store's budget (budget.h). A
 * request that was refused because of
 * the time in its signature had no effect, so it is signed and sent once more, even if it is a
 * write. `again`, if not NULL, is called before each retry and may prevent it. The caller releases
 * the reply, which belongs to the last attempt. */
enum hf_status s3_send(struct s3_store *s3, const struct s3_request *request,
                       bool (*again)(void *argument, struct s3_request *request),
                       void *argument, struct http_reply *reply, struct hf_error *error);

/* ---- The time in signatures (skew.c) ---------------------------------------------- */

/* The store's own time if a reply has shown it; otherwise the wall clock. */
struct wall_time s3_signing_time(struct s3_store *s3);

/* Learns the store's time from the date of a reply, unless the reply came from a cache. */
void s3_learn_time(struct s3_store *s3, const struct http_reply *reply);

/* Whether the request was refused because of the time in its signature, and the next attempt will
 * be signed with a different time. */
bool s3_correct_time(struct s3_store *s3, const struct s3_request *request,
                     const struct http_reply *reply);

/* The store's time, as given in a response that refused a request. False if it contains none. */
struct s3_error_body;
bool s3_store_time(const struct http_reply *reply, const struct s3_error_body *body,
                   struct wall_time *ret_time);

/* ---- The meaning of a reply (reply.c) --------------------------------------------- */

/* What to do next, according to a reply. */
struct s3_advice {
    bool again;    /* a retry may succeed */
    bool distrust; /* the credentials were refused */
};

/* The status of a reply, with a message that says what to do. */
enum hf_status s3_check_reply(struct s3_store *s3, const struct s3_request *request,
                              const struct http_reply *reply, struct s3_advice *ret_advice,
                              struct hf_error *error);

/* Whether an error code means that the time in the signature was refused. */
bool s3_is_skew_code(const char *code);

/* The status of one key in the reply to a multi-object delete. */
enum hf_status s3_check_code(struct view code, struct view message, struct hf_error *error);

struct store_stamp s3_stamp(const struct http_reply *reply);

/* ---- Keys and conditions (s3.c) ------------------------------------------------------ */

/* Writes the key to `space`, in the form in which it is sent, and returns it. INVALID if S3 cannot
 * store such a key. */
#define S3_KEY_SPACE (2 * KEY_BYTES_MAX)
enum hf_status s3_key(struct s3_store *s3, struct view key, char space[S3_KEY_SPACE],
                      struct view *ret_key, struct hf_error *error);

/* Adds If-Match or If-None-Match in the form that this store accepts; `space` holds the value. */
#define S3_ETAG_SPACE (ETAG_BYTES_MAX + 2)
enum hf_status s3_add_condition(struct s3_store *s3, struct s3_request *request,
                                const struct condition *condition, char space[S3_ETAG_SPACE],
                                struct hf_error *error);

/* False for an ETag that would break out of its header line, and for one that would match more than
 * one version: "*" matches any version, and a list matches each of its members. */
bool s3_can_send_etag(const struct etag *etag);

/* The ETag in quotes, unless it already contains quotes (weak ETags do). */
struct view s3_quoted(const struct etag *etag, char space[S3_ETAG_SPACE]);

/* Sends one put whose body is ready, conditional or not. `md5` may be NULL. */
void s3_put_source(struct s3_store *s3, struct put_call *call, const struct http_source *source,
                   const char *payload, const char *md5, const struct progress *progress);

/* ---- The other calls ----------------------------------------------------------------- */

void s3_get(struct store *store, struct get_call *calls, size_t count);
void s3_list(struct store *store, struct list_call *call);
void s3_remove(struct store *store, struct delete_call *calls, size_t count);
void s3_get_file(struct store *store, struct get_call *call, int fd,
                 const struct progress *progress);
void s3_put_file(struct store *store, struct put_call *call, int fd,
                 const struct progress *progress);
void s3_inspect(struct store *store, struct probe_report *report);
bool s3_identify(struct store *store, struct buffer *text);
void s3_learn(struct store *store, const struct store_traits *traits);

#endif
