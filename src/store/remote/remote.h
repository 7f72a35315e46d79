/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h: what the stores on the network (s3, gs, azure) share: the URL's endpoint and limits,
 * keys under a prefix, requests with retries, the meaning of a reply, the time in signatures, and
 * reading objects.
 *
 * A back end is a remote_store with a dialect: how it signs a request, and which refusals only its
 * service sends. The rules for replies are in docs/design.md section 3, and are the same for all: a
 * refusal (4xx) changed nothing; once a write has been sent, every 5xx and every missing reply is
 * UNSURE. */
#ifndef STORE_REMOTE_REMOTE_H
#define STORE_REMOTE_REMOTE_H

#include "base/url.h"
#include "store/remote/encode.h"
#include "store/remote/http.h"
#include "store/remote/worker_pool.h"

#define REMOTE_HOST_MAX   255
#define REMOTE_BUCKET_MAX 63 /* a bucket at S3, a container at Azure */
#define REMOTE_ROOT_MAX   (2 * REMOTE_HOST_MAX)

/* Content-MD5 is sent for bodies up to this size. */
#define REMOTE_MD5_BYTES_MAX (4 * MIB)

struct remote_dialect;

struct remote_store {
    struct store base;
    const struct remote_dialect *dialect;
    struct http_pool *pool;
    struct worker_pool workers;
    size_t connections;
    struct span time_out;
    bool tls;
    bool exposed; /* no TLS, and the host is not this machine */
    char bucket[REMOTE_BUCKET_MAX + 1];
    char host[REMOTE_HOST_MAX + 1];   /* as in the Host header */
    char origin[REMOTE_HOST_MAX + 9]; /* scheme://host */
    char root[REMOTE_ROOT_MAX + 1];   /* the path before each key, such as "/bucket" */
    char prefix[KEY_BYTES_MAX + 1];
    size_t prefix_size;
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        bool read_version;      /* the last object read had a version */
        bool makes_versions; /* each write makes a version: one has, or the settings say so */
        bool unversioned;    /* the caller relies on a verdict on a bucket without versions */
        void *spare_secret;  /* for remote_take_secret; or NULL */
        /* the time to sign with (skew.c) */
        bool time_known;
        bool dates_refused;     /* the store refused its own time */
        int64_t time_offset_us; /* store time minus boot time */
    } shared;
};

static inline struct remote_store *remote_of(struct store *store)
{
    return (struct remote_store *)store;
}

/* ---- Opening and closing (remote.c) -------------------------------------------------- */

/* Whether the string is `min` to `max` bytes long, all of them from the set. */
bool consists_of(struct view text, const char *set, size_t min, size_t max);

/* Letters, digits, "-", "." and "_". */
#define REMOTE_NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

/* The first of two environment variables that is set and not empty, or NULL. `other` may be
 * NULL. */
const char *remote_variable(const char *name, const char *other);

/* Keys are stored under this prefix and "/". */
enum hf_status remote_set_prefix(struct remote_store *remote, struct view prefix,
                                 struct hf_error *error);

/* Sets scheme and host from "https://HOST" or "http://HOST:PORT": without the default port of the
 * scheme, and with `before` and a dot before the host unless it is empty. Returns what follows the
 * host, without "/" at its end, in *ret_path; INVALID, with `example`, for anything else. */
enum hf_status remote_set_endpoint(struct remote_store *remote, struct view endpoint,
                                   const char *before, const char *example,
                                   struct view *ret_path, struct hf_error *error);

/* connections= and timeout= of the URL. */
enum hf_status remote_set_limits(struct remote_store *remote, const struct url *url,
                                 struct hf_error *error);

/* The file with certificates: ca= of the URL, copied to `space`, or that of an environment
 * variable: this one, which may be NULL, or SSL_CERT_FILE. NULL: those of the system. */
const char *remote_ca_file(const struct url *url, const char *variable,
                           char space[URL_BYTES_MAX + 1]);

/* Makes a store of what the functions above have set. */
enum hf_status remote_init(struct remote_store *remote, const char *ca_file,
                           struct hf_error *error);
void remote_release(struct remote_store *remote);

/* Whether a host, with or without a port, is this machine. */
bool host_is_loopback(struct view host);

/* The address of a store that is reached over http on another machine, where anybody on the network
 * path can read and change the requests. NULL for any other store. */
const char *remote_exposed_to(const struct store *store);

/* ---- Keys and ETags (remote.c) ------------------------------------------------------- */

/* Writes the key to `space`, in the form in which it is sent, and returns it. INVALID if the
 * service cannot store such a key. */
#define REMOTE_KEY_SPACE (2 * KEY_BYTES_MAX)
enum hf_status remote_key(struct remote_store *remote, struct view key,
                          char space[REMOTE_KEY_SPACE], struct view *ret_key,
                          struct hf_error *error);

/* The same for the first bytes of keys, in a listing. */
enum hf_status remote_key_prefix(struct remote_store *remote, struct view key,
                                 char space[REMOTE_KEY_SPACE], struct view *ret_key,
                                 struct hf_error *error);

/* False for an ETag that would break out of its header line, and for one that would match more than
 * one version: "*" matches any version, and a list matches each of its members. */
bool remote_can_send_etag(const struct etag *etag);

/* The ETag in quotes, unless it already contains quotes (weak ETags do). */
#define REMOTE_ETAG_SPACE (ETAG_BYTES_MAX + 2)
struct view remote_quoted(const struct etag *etag, char space[REMOTE_ETAG_SPACE]);

/* ---- One request (request.c) --------------------------------------------------------- */

#define REMOTE_EXTRA_HEADERS_MAX 6

struct remote_request {
    const char *method;
    struct view key; /* as sent, with the store's prefix; empty: the bucket itself */
    struct http_pair parameters[8];
    size_t parameter_count;
    struct http_pair headers[REMOTE_EXTRA_HEADERS_MAX]; /* signed */
    size_t header_count;
    const char *range;   /* value of the Range header, or NULL */
    const char *payload; /* S3: hash of the body; NULL: there is no body */
    const struct http_source *source;
    struct http_sink sink;
    size_t body_max; /* limit for a 2xx body that is kept; 0: as for an error page */
    struct mono_time deadline;
    struct span stall;
    bool writes;     /* not retried, and no reply means UNSURE */
    bool repeatable; /* a write that may be retried: a part of an upload */
    bool once;       /* not retried by itself: the caller must begin with another request */
    enum condition_kind condition;
    struct wall_time signed_at; /* set by the dialect: the time in the signature */
    const struct progress *progress;
    uint64_t progress_base;
    uint64_t progress_total;
};

void remote_add_parameter(struct remote_request *request, const char *name, struct view value);
void remote_add_header(struct remote_request *request, const char *name, struct view value);

/* The deadline of a call: its own or, if it has none, now plus the store's timeout. */
struct mono_time remote_deadline(struct remote_store *remote, struct mono_time asked);

/* The same for a body of this size. The store's timeout then limits how long the transfer may
 * stall, and is returned in *ret_stall. The whole transfer may take as long as a slow line
 * needs. */
struct mono_time remote_stream_deadline(struct remote_store *remote, struct mono_time asked,
                                        uint64_t bytes, struct span *ret_stall);

/* Signs and sends a request, and maps the reply to a status. Reads and repeatable writes are
 * retried with growing, jittered pauses within the deadline and the store's budget (budget.h). So
 * are writes that were refused because of their rate (dialect.limits_writes). A request that was
 * refused because of the time in its signature had no effect, so it is signed and sent once more,
 * even if it is a write. `again`, if not NULL, is called before each retry and may
 * prevent it. The caller releases the reply, which belongs to the last attempt.
 *
 * If a write has made a version, and the caller relies on a verdict on a bucket without versions,
 * the store may have ignored the condition: that write is UNSURE, and every later request is
 * UNSUPPORTED and not sent. */
enum hf_status remote_send(struct remote_store *remote, const struct remote_request *request,
                           bool (*again)(void *argument, struct remote_request *request),
                           void *argument, struct http_reply *reply, struct hf_error *error);

/* Sends the put of an object, and notes its ETag, time and status in the call. */
void remote_send_put(struct remote_store *remote, const struct remote_request *request,
                     struct put_call *call);

/* ---- For dialects: the text of a request --------------------------------------------- */

/* The strings of one request, each NUL-terminated, one after the other. They are kept as offsets
 * until all are written, because the buffer moves as it grows. Release `text` with
 * secret_buffer_release. */
struct remote_wire {
    struct buffer text;
    size_t path, path_size;
    size_t query, query_size;
    size_t url;
    size_t lines[HTTP_HEADERS_MAX];
    size_t line_count;
};

#define REMOTE_WIRE_BYTES_MAX (64 * KIB)
#define REMOTE_WIRE_INIT      ((struct remote_wire){ .text = BUFFER_INIT(REMOTE_WIRE_BYTES_MAX) })

/* Writes the URL. `raw_query` is appended to the query as it is. */
void wire_url(struct remote_wire *wire, const struct remote_store *remote,
              const struct remote_request *request, struct view raw_query);

/* Writes a header: whole, or up to its value, which the caller appends to wire->text. */
void wire_line(struct remote_wire *wire, struct view name, struct view value);
void wire_open_line(struct remote_wire *wire, struct view name);
void wire_end_text(struct remote_wire *wire);

void wire_send(struct remote_store *remote, const struct remote_request *request,
               const struct remote_wire *wire, struct http_reply *reply);

/* Overwrites a secret in a reply that is not a success: a server may echo what it was sent, and its
 * replies are shown to users. The secret is found also where some of its bytes are escaped, as in a
 * URL or in XML. */
void remote_hide(struct http_reply *reply, const char *secret);

/* Memory for the credentials of one request (secret.h), dialect->credentials_size bytes, zeroed.
 * NULL if memory runs out. A block that is given back is overwritten, and one is kept for the next
 * request: new pages cost more than a signature. */
void *remote_take_secret(struct remote_store *remote);
void remote_give_secret(struct remote_store *remote, void *secret);

/* ---- The time in signatures (skew.c) ------------------------------------------------- */

/* The store's own time if a reply has shown it; otherwise the wall clock. */
struct wall_time remote_signing_time(struct remote_store *remote);

/* Learns the store's time from the date of a reply, unless the reply came from a cache. */
void remote_learn_time(struct remote_store *remote, const struct http_reply *reply);

/* Whether the request was refused because of the time in its signature, and the next attempt will
 * be signed with a different time. */
bool remote_correct_time(struct remote_store *remote, const struct remote_request *request,
                         const struct http_reply *reply);

/* The store's time, as given in a response that refused a request. False if it contains none. */
struct xml_error_body;
bool remote_store_time(const struct http_reply *reply, const struct xml_error_body *body,
                       struct wall_time *ret_time);

/* ---- The meaning of a reply (reply.c) ------------------------------------------------ */

/* What to do next, according to a reply. */
struct remote_advice {
    bool again;    /* a retry may succeed */
    bool resend;   /* even of a write, which had no effect */
    bool distrust; /* the credentials were refused */
};

/* The status of a reply, with a message that says what to do. */
enum hf_status remote_check_reply(struct remote_store *remote,
                                  const struct remote_request *request,
                                  const struct http_reply *reply,
                                  struct remote_advice *ret_advice, struct hf_error *error);

/* What an error code of the service means. */
struct remote_refusal {
    const char *code;
    enum hf_status status;
    const char *remedy; /* NULL: the store's own message */
};

/* NULL if the code has no entry. */
const struct remote_refusal *remote_find_refusal(const struct remote_store *remote,
                                                 const char *code);

/* "the store answered 403 AccessDenied: text", with the parts that exist. `remedy` replaces the
 * store's own message unless it is NULL. */
enum hf_status remote_set_error(struct hf_error *error, enum hf_status status,
                                const struct http_reply *reply,
                                const struct xml_error_body *body, const char *remedy);

/* Whether an error code means that a condition was not decided, because another write of the object
 * was in progress. Nothing was changed. */
bool remote_is_undecided_code(const char *code);

/* Whether an error code means that the time in the signature was refused. */
bool remote_is_skew_code(const char *code);

struct store_stamp remote_stamp(const struct http_reply *reply);

/* ---- The dialect --------------------------------------------------------------------- */

struct remote_dialect {
    const char *service;     /* in messages */
    size_t credentials_size; /* of the credentials of a request */
    /* Fetches the credentials, sets request->signed_at, signs the request and sends it (wire_send).
     * *reply is initialised: NOT_SENT. */
    void (*send)(struct remote_store *remote, struct remote_request *request,
                 struct http_reply *reply);
    /* The store has refused the credentials. */
    void (*distrust)(struct remote_store *remote);
    const struct remote_refusal *refusals;
    size_t refusal_count;
    /* Ends with NULL: the request was not permitted, but the credentials were accepted. All other
     * refusals with 401 or 403 cause the credentials to be fetched again. */
    const char *const *permission_codes;
    /* Sets the error for a refusal that needs more than the table above, and returns true. */
    bool (*explain)(struct remote_store *remote, const struct http_reply *reply,
                    const struct xml_error_body *body, struct hf_error *error);
    /* May be NULL: INVALID for a key that the service cannot store. */
    enum hf_status (*check_key)(struct view key, struct hf_error *error);
    /* For a service whose versions are not ETags: the header of a reply that holds an object's
     * version, the header of a request that names one as its condition, and whether a string can
     * be a version of this service at all. All three, or none. */
    const char *version_header, *match_header;
    bool (*is_version)(const struct etag *etag);
    /* The service answers 429 where an object is written too often. Such a write is sent again. */
    bool limits_writes;
};

/* ---- Reading (get.c) ----------------------------------------------------------------- */

void remote_get(struct store *store, struct get_call *calls, size_t count);
void remote_get_file(struct store *store, struct get_call *call, int fd,
                     const struct progress *progress);

#endif
