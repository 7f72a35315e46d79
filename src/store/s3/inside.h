/* inside.h: what the files of the s3 back end share. Nobody else includes it; s3.h is what
 * they show. */
#ifndef STORE_S3_INSIDE_H
#define STORE_S3_INSIDE_H

#include "store/s3/credentials.h"
#include "store/s3/crew.h"
#include "store/s3/http.h"
#include "store/s3/s3.h"
#include "store/s3/sign.h"

#define S3_BUCKET_MAX 63
#define S3_HOST_MAX   255
#define S3_REGION_MAX 39

/* One put can carry this much; beyond it there are only parts. */
#define S3_SINGLE_PUT_MAX (5 * (uint64_t)GIB)

/* Content-MD5 is sent for bodies up to here. */
#define S3_MD5_BYTES_MAX (4 * MIB)

/* The signing key of a day and of credentials. */
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
    struct crew crew;
    size_t connections;
    struct span time_out;
    bool tls;
    bool exposed; /* no TLS, and not to this machine */
    char bucket[S3_BUCKET_MAX + 1];
    char region[S3_REGION_MAX + 1];
    char host[S3_HOST_MAX + 1];   /* as in the Host header, with the bucket in host style */
    char origin[S3_HOST_MAX + 9]; /* scheme://host */
    char root[S3_BUCKET_MAX + 2]; /* "/bucket" in path style, else empty */
    char prefix[KEY_BYTES_MAX + 1];
    size_t prefix_size;
    struct {
        struct env_mutex mutex; /* guards what stands beside it */
        struct env_cond form_found;
        enum s3_etag_form form;
        bool form_sought;
        bool versioned;           /* the last object that was read had a version */
        struct s3_signer *signer; /* in secret memory */
        /* the time to sign with (skew.c) */
        bool time_known;
        bool dates_refused;     /* it did not accept the time that it tells */
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
    struct view key; /* as on the wire, with the store's prefix; empty: the bucket itself */
    struct s3_parameter parameters[8];
    size_t parameter_count;
    struct s3_header headers[S3_EXTRA_HEADERS_MAX]; /* signed */
    size_t header_count;
    const char *range;   /* value of the Range header, or NULL */
    const char *payload; /* hash of the body; NULL: there is no body */
    const struct http_source *source;
    struct http_sink sink;
    size_t body_max; /* of a 2xx reply that is kept; 0: as much as of an error */
    struct mono_time deadline;
    struct span stall;
    bool writes;     /* no second try, and no answer means UNSURE */
    bool repeatable; /* a write that may be sent again all the same: a part of an upload */
    enum condition_kind condition;
    struct wall_time signed_at; /* set by s3_send: the time in the signature */
    const struct progress *progress;
    uint64_t progress_base;
    uint64_t progress_total;
};

void s3_add_parameter(struct s3_request *request, const char *name, struct view value);
void s3_add_header(struct s3_request *request, const char *name, struct view value);

/* The deadline of a call: its own, or the store's time-out from now. */
struct mono_time s3_deadline(struct s3_store *s3, struct mono_time asked);

/* The same for a body of this size: the store's time-out is then how long nothing may move, and
 * *ret_stall is set to it, while the whole may take as long as a slow line needs. */
struct mono_time s3_stream_deadline(struct s3_store *s3, struct mono_time asked, uint64_t bytes,
                                    struct span *ret_stall);

/* Signs, sends and judges; reads, and writes that are repeatable, are tried again with growing,
 * jittered pauses within the deadline. What was refused for the time in its signature, and so not
 * done, is signed and sent anew once, writes too. `again`, when there is one, is called before each
 * further try and may refuse it. The reply is the last one, to be released by the caller. */
enum hf_status s3_send(struct s3_store *s3, const struct s3_request *request,
                       bool (*again)(void *argument, struct s3_request *request),
                       void *argument, struct http_reply *reply, struct hf_error *error);

/* ---- The time in signatures (skew.c) ---------------------------------------------- */

/* The store's own time where a reply has told it, else the wall clock's. */
struct wall_time s3_signing_time(struct s3_store *s3);

/* From the date of a reply, unless that is out of a cache. */
void s3_learn_time(struct s3_store *s3, const struct http_reply *reply);

/* Whether the request was refused for the time in its signature, and the next one will have
 * another. */
bool s3_correct_time(struct s3_store *s3, const struct s3_request *request,
                     const struct http_reply *reply);

/* The time that a refusal tells; false when it tells none. */
struct s3_error_body;
bool s3_store_time(const struct http_reply *reply, const struct s3_error_body *body,
                   struct wall_time *ret_time);

/* ---- What a reply means (reply.c) ------------------------------------------------- */

/* The status of a reply, with a sentence that says what to do about it. *ret_again: a later try
 * of the same may succeed; *ret_distrust: the credentials were refused. */
enum hf_status s3_judge(struct s3_store *s3, const struct s3_request *request,
                        const struct http_reply *reply, bool *ret_again, bool *ret_distrust,
                        struct hf_error *error);

/* Whether a refusal with this code is about the time in the signature. */
bool s3_is_skew_code(const char *code);

/* The status of one key in the answer to a multi-object delete. */
enum hf_status s3_judge_code(struct view code, struct view message, struct hf_error *error);

struct store_stamp s3_stamp(const struct http_reply *reply);

/* ---- Keys and conditions (s3.c) ------------------------------------------------------ */

/* Writes the key as on the wire into `space` and returns it. INVALID for what S3 cannot hold.
 */
#define S3_KEY_SPACE (2 * KEY_BYTES_MAX)
enum hf_status s3_key(struct s3_store *s3, struct view key, char space[S3_KEY_SPACE],
                      struct view *ret_key, struct hf_error *error);

/* Adds If-Match or If-None-Match in the form that this store takes; `space` holds the value. */
#define S3_ETAG_SPACE (ETAG_BYTES_MAX + 2)
enum hf_status s3_add_condition(struct s3_store *s3, struct s3_request *request,
                                const struct condition *condition, char space[S3_ETAG_SPACE],
                                struct hf_error *error);

/* False for what would break out of its header line, and for what means more there than one
 * version: "*" is any, and a list is each of them. */
bool s3_can_send_etag(const struct etag *etag);

/* `"text"` unless the text brings its own quotes (weak ETags do). */
struct view s3_quoted(const struct etag *etag, char space[S3_ETAG_SPACE]);

/* One put of a body that is ready to go, conditional or not. `md5` may be NULL. */
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
