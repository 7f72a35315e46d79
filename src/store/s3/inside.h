/* SPDX-License-Identifier: Apache-2.0 */
/* inside.h: declarations that the files of the s3 back end share. Other code includes s3.h.
 *
 * The `gs:` store, Google Cloud Storage, is this back end too. What differs is in google.c, or asks
 * s3_is_google. */
#ifndef STORE_S3_INSIDE_H
#define STORE_S3_INSIDE_H

#include "store/remote/remote.h"
#include "store/s3/credentials.h"
#include "store/s3/s3.h"
#include "store/s3/sign.h"

#define S3_REGION_MAX 39
#define S3_ZONE_MAX   39

/* How many listings of a directory bucket may go on at a time without reading it again. */
#define S3_NAMES_KEPT 2

/* The largest body of a single put; larger objects need parts. */
#define S3_SINGLE_PUT_MAX (5 * (uint64_t)GIB)

/* The signing key for one day and one set of credentials. */
struct s3_signer {
    char day[S3_DAY_SIZE];
    char access_key[S3_ACCESS_KEY_MAX + 1];
    char secret[S3_SECRET_MAX + 1];
    struct s3_signing_key key;
};

struct s3_store {
    struct remote_store remote;
    struct s3_provider *provider;
    enum s3_scheme
        scheme; /* whose signatures: AWS also stands for every server that speaks S3 */
    char region[S3_REGION_MAX + 1];
    char zone[S3_ZONE_MAX + 1]; /* of a directory bucket; otherwise empty */
    struct s3_session *session; /* of a directory bucket; otherwise NULL */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond form_found;
        enum s3_etag_form form;
        bool parts_conditional; /* the probe found that uploads in parts obey conditions */
        bool form_sought;
        struct s3_signer *signer; /* in secret memory */
        struct listed *names[S3_NAMES_KEPT];
        uint64_t names_next;
    } shared;
};

static inline struct s3_store *s3_of(struct store *store)
{
    return (struct s3_store *)store;
}

static inline bool s3_is_google(const struct s3_store *s3)
{
    return s3->scheme == S3_SCHEME_GOOGLE;
}

/* A directory bucket, S3 Express One Zone. */
static inline bool s3_is_directory(const struct s3_store *s3)
{
    return s3->zone[0] != '\0';
}

/* ---- Directory buckets (express.c) --------------------------------------------------- */

/* The zone in the name of a directory bucket. False for the name of any other bucket. */
bool s3_find_zone(const char *bucket, char zone[S3_ZONE_MAX + 1]);
void s3_zone_endpoint(const struct s3_store *s3, bool dualstack, char *uri, size_t size);

enum hf_status s3_session_open(struct s3_store *s3, const char *ca_file,
                               struct hf_error *error);
void s3_session_close(struct s3_session *session);

/* The keys that sign a request: those of the session, or the caller's own. */
enum hf_status s3_find_keys(struct s3_store *s3, struct mono_time deadline,
                            struct s3_credentials *ret_credentials, struct hf_error *error);

/* ---- Requests and replies ------------------------------------------------------------ */

extern const struct remote_dialect s3_dialect;     /* reply.c */
extern const struct remote_dialect google_dialect; /* google.c */

void s3_dialect_send(struct remote_store *remote, struct remote_request *request,
                     struct http_reply *reply);

/* Explains a bucket that does not exist, or is elsewhere. */
bool s3_explain_bucket(struct remote_store *remote, const struct http_reply *reply,
                       const struct xml_error_body *body, struct hf_error *error);

void s3_distrust_credentials(struct remote_store *remote);

/* The status of one key in the reply to a multi-object delete. */
enum hf_status s3_check_code(struct s3_store *s3, struct view code, struct view message,
                             struct hf_error *error);

/* ---- Conditions and puts (s3.c) ------------------------------------------------------ */

/* Adds If-Match or If-None-Match in the form that this store accepts; `space` holds the value. */
enum hf_status s3_add_condition(struct s3_store *s3, struct remote_request *request,
                                const struct condition *condition,
                                char space[REMOTE_ETAG_SPACE], struct hf_error *error);

/* The same at Google: a number that the object's generation must have. CONFLICT, and nothing is
 * sent, if the ETag is not such a number, because then no object has it. */
enum hf_status google_add_condition(struct remote_request *request,
                                    const struct condition *condition, struct hf_error *error);

/* Sends one put whose body is ready, conditional or not. `md5` may be NULL. */
void s3_put_source(struct s3_store *s3, struct put_call *call, const struct http_source *source,
                   const char *payload, const char *md5, const struct progress *progress);

/* ---- The other calls ----------------------------------------------------------------- */

void s3_list(struct store *store, struct list_call *call);
void s3_list_unordered(struct store *store, struct list_call *call);
void s3_forget_names(struct s3_store *s3);
void s3_remove(struct store *store, struct delete_call *calls, size_t count);
void s3_put_file(struct store *store, struct put_call *call, int fd,
                 const struct progress *progress);
/* Whether the store honours conditions where an upload in parts is completed; for the probe. */
void s3_inspect_parts(struct s3_store *s3, struct mono_time deadline,
                      struct probe_report *report);
void s3_inspect(struct store *store, struct mono_time deadline, struct probe_report *report);
bool s3_identify(struct store *store, struct buffer *text);
void s3_learn(struct store *store, const struct store_traits *traits);
bool s3_rely(struct store *store, struct view identity);
void s3_doubt(struct store *store, struct mono_time deadline);

#endif
