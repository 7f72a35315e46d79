/* SPDX-License-Identifier: Apache-2.0 */
/* provider.h: a cache of credentials, which fetches them again before they end or after the store
 * has refused them. One task fetches; the others wait for it, or continue with credentials that are
 * still valid. A back end brings the search. Nothing here ever prints a secret. */
#ifndef STORE_REMOTE_PROVIDER_H
#define STORE_REMOTE_PROVIDER_H

#include "store/remote/http.h"

/* The first member of every kind of credentials. */
struct credentials_life {
    bool ends; /* at `expires`, by the issuer's clock */
    struct wall_time expires;
};

/* A token that lasts longer is taken to last this long. */
#define TOKEN_SECONDS_MAX (400 * 86400)

struct provider;

struct provider_source {
    size_t size; /* of the credentials; they begin with a struct credentials_life */
    /* Finds credentials, one search at a time, until provider->deadline. */
    enum hf_status (*search)(struct provider *provider, void *ret_credentials,
                             struct hf_error *error);
    int refresh_before_s; /* they end; 0: the default, 5 minutes */
};

struct provider {
    struct env *env;
    const struct provider_source *source;
    char *ca_file;
    /* Used only by the task that fetches. */
    struct mono_time deadline;
    struct mono_time answered; /* when the endpoint's reply arrived, ... */
    struct wall_time date;     /* ... and its date, or our wall clock's */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct env_cond fetched;
        bool fetching;
        bool have;
        struct mono_time ends_at; /* if they end */
        bool distrusted;
        struct mono_time looked_at;
        struct hf_error failure; /* of the last search */
        bool cut_short;          /* the search hit the deadline of its caller */
        void *credentials;       /* in secret memory */
    } shared;
};

/* `ca_file` may be NULL. */
enum hf_status provider_init(struct provider *provider, struct env *env, const char *ca_file,
                             const struct provider_source *source, struct hf_error *error);
void provider_release(struct provider *provider);

/* Copies the credentials that are valid now. */
enum hf_status provider_get(struct provider *provider, struct mono_time deadline,
                            void *ret_credentials, struct hf_error *error);

/* The store has refused these credentials: fetch them again before the next use. */
void provider_distrust(struct provider *provider);

/* ---- For sources --------------------------------------------------------------------- */

#define PROVIDER_ANSWER_MAX (64 * KIB)

/* One request to an endpoint that issues credentials. OK only for a 2xx status. Appends the body of
 * the answer to `to`. `metadata`: the endpoint is on this machine or its link, so it answers soon,
 * and no proxy is used. */
enum hf_status provider_request(struct provider *provider, const struct http_request *asked,
                                bool metadata, struct buffer *to, struct hf_error *error);

/* Appends a whole file, and leaves no copy of it in memory. NOT_FOUND if there is none. */
enum hf_status provider_read_file(const char *path, struct buffer *to, struct hf_error *error);

#endif
