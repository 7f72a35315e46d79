/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h: the keys for signing. They are found in the usual places, cached, and fetched
 * again before they expire. Nothing here ever prints a secret. */
#ifndef STORE_S3_CREDENTIALS_H
#define STORE_S3_CREDENTIALS_H

#include "store/remote/provider.h"
#include "store/s3/sign.h"

#define S3_ACCESS_KEY_MAX 128
#define S3_SECRET_MAX     256
#define S3_TOKEN_MAX      (8 * KIB)

struct s3_credentials {
    struct credentials_life life;
    char access_key[S3_ACCESS_KEY_MAX + 1];
    char secret[S3_SECRET_MAX + 1];
    char token[S3_TOKEN_MAX + 1]; /* empty: none */
};

/* A parser for each source. The parsers do no I/O, so that they can be tested and fuzzed. */

/* Reads one profile of a shared credentials or config file ("[name]" or "[profile name]", "key
 * = value", "#" and ";" comments). NOT_FOUND if the profile has no keys there, INVALID if it
 * has only half of a pair. */
enum hf_status s3_credentials_from_ini(struct view text, struct view profile,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error);

/* Whether the file contains the profile. */
bool s3_ini_has_profile(struct view text, struct view profile);

/* One value of a profile, as it is; data is NULL if it is missing. It points into the text. */
struct view s3_ini_find(struct view text, struct view profile, const char *name);

/* One value of a profile. False if it is missing or too long. */
bool s3_ini_value(struct view text, struct view profile, const char *name, char *ret_value,
                  size_t size);

/* The JSON of the container and instance endpoints. */
enum hf_status s3_credentials_from_json(struct view text,
                                        struct s3_credentials *ret_credentials,
                                        struct hf_error *error);

/* The JSON that a command prints (credential_process), and that of IAM Identity Center. */
enum hf_status s3_credentials_from_process(struct view text,
                                           struct s3_credentials *ret_credentials,
                                           struct hf_error *error);
enum hf_status s3_credentials_from_sso(struct view text, struct s3_credentials *ret_credentials,
                                       struct hf_error *error);

/* The XML of an action of STS, AssumeRole or AssumeRoleWithWebIdentity, or of CreateSession. `root`
 * is its root element. */
enum hf_status s3_credentials_from_xml(struct view text, const char *root,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error);

/* Tries these sources in order:
 *   the environment        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   the web identity file  AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN
 *   the shared files       AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, then
 *                          AWS_CONFIG_FILE or ~/.aws/config; the profile is the one given,
 *                          else AWS_PROFILE, else "default". A profile has keys, or gets them: by
 *                          role_arn with source_profile, credential_source or
 *                          web_identity_token_file; by sso_session or sso_start_url, from a login
 *                          with `aws sso login`; or by credential_process
 *   the container endpoint AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or ..._FULL_URI
 *   the instance endpoint  version 2, unless AWS_EC2_METADATA_DISABLED is "true"
 * The first source with keys is used. A source that is configured but fails is an error. If the
 * caller names a profile, the first two are skipped. This is the order of the AWS SDKs for
 * Python, Go, Java and PHP: specific identities come before those that the whole machine
 * shares, so a pod with its own role never signs as its node.
 *
 * For Google, whose HMAC keys are not those of AWS, only these are tried: GS_ACCESS_KEY_ID and
 * GS_SECRET_ACCESS_KEY, or, if the caller names a profile, the keys of the profile. */
struct s3_provider;

enum hf_status s3_provider_open(struct env *env, enum s3_scheme scheme, struct view profile,
                                struct view region, const char *ca_file,
                                struct s3_provider **ret_provider, struct hf_error *error);
void s3_provider_close(struct s3_provider *provider);

/* Copies the credentials that are valid now. One task fetches them; the others wait for it, or
 * continue with credentials that are still valid. */
enum hf_status s3_provider_get(struct s3_provider *provider, struct mono_time deadline,
                               struct s3_credentials *ret_credentials, struct hf_error *error);

/* The store has refused these credentials: fetch them again before the next use. */
void s3_provider_distrust(struct s3_provider *provider);

/* Whether a region is in China, where the names of hosts end in ".cn". */
bool s3_is_china(const char *region);

/* The region of the profile in the shared config file. False if it has none. */
bool s3_region_of_profile(struct view profile, char *ret_region, size_t size);

#endif
