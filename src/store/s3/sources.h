/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h: what the files that search for the keys of S3 share. Other code uses credentials.h.
 *
 * A source returns OK with keys, NOT_FOUND if it is not configured, or another status if it is
 * configured and failed. The search then ends, because the next source would be another
 * identity. */
#ifndef STORE_S3_SOURCES_H
#define STORE_S3_SOURCES_H

#include "store/s3/credentials.h"

struct s3_provider {
    struct provider cache;
    enum s3_scheme scheme;
    char profile[128]; /* empty: as in the environment */
    char region[64];
};

/* ---- provider.c ---------------------------------------------------------------------- */

enum hf_status s3_keys_of_environment(struct s3_provider *provider,
                                      struct s3_credentials *ret_credentials,
                                      struct hf_error *error);
enum hf_status s3_keys_of_container(struct s3_provider *provider,
                                    struct s3_credentials *ret_credentials,
                                    struct hf_error *error);
enum hf_status s3_keys_of_instance(struct s3_provider *provider,
                                   struct s3_credentials *ret_credentials,
                                   struct hf_error *error);

/* ---- profile.c ----------------------------------------------------------------------- */

/* The keys of the profile in the shared files, in whichever way it gets them. */
enum hf_status s3_keys_of_profile(struct s3_provider *provider,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error);

/* ---- signed.c ------------------------------------------------------------------------ */

/* A request to a service of AWS that issues credentials. */
struct s3_signed_call {
    const char *method;
    const char *uri;   /* without a query */
    struct view query; /* encoded and sorted; may be empty */
    struct view region, service;
    struct view content_type; /* may be empty, and then there is no body */
    struct view body;
};

/* Signs the call and sends it. If it is refused, and the clock here differs from that of the
 * service, it is sent once more, with the service's time. Appends the answer. */
enum hf_status s3_send_signed(struct provider *cache, const struct s3_signed_call *call,
                              const struct s3_credentials *keys, struct wall_time when,
                              struct buffer *answer, struct hf_error *error);

/* ---- role.c -------------------------------------------------------------------------- */

/* A role, and how to become it. Strings may be empty, except `arn`. */
struct s3_role {
    struct view arn, session_name, external_id, duration_seconds;
};

/* By the token in this file. */
enum hf_status s3_assume_role_by_token(struct s3_provider *provider, const struct s3_role *role,
                                       const char *token_path,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error);

/* By other keys. */
enum hf_status s3_assume_role_by_keys(struct s3_provider *provider, const struct s3_role *role,
                                      const struct s3_credentials *source,
                                      struct s3_credentials *ret_credentials,
                                      struct hf_error *error);

/* ---- sso.c --------------------------------------------------------------------------- */

/* What a profile says about IAM Identity Center. */
struct s3_sso {
    struct view session; /* or empty */
    struct view start_url, region, account, role;
};

/* By the token that `aws sso login` has left in the cache. */
enum hf_status s3_keys_of_sso(struct s3_provider *provider, const struct s3_sso *sso,
                              struct s3_credentials *ret_credentials, struct hf_error *error);

/* ---- sso_token.c --------------------------------------------------------------------- */

#define S3_SSO_LOGIN "run 'aws sso login'"

/* Appends the token of the login. A token that has ended, or ends soon, is refreshed first, if the
 * login is one of an sso-session and has a refresh token. */
enum hf_status s3_sso_token(struct s3_provider *provider, const struct s3_sso *sso,
                            struct buffer *token, struct hf_error *error);

/* ---- process.c ----------------------------------------------------------------------- */

/* The keys that a command prints (credential_process). `line` is run by the shell. Nothing that the
 * command prints is shown to anybody. */
enum hf_status s3_keys_of_process(struct s3_provider *provider, struct view line,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error);

#endif
