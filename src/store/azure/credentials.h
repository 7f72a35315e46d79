/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h: what a request to Azure is authorized with: the account's key, a shared access
 * signature (SAS), or a token of a managed identity. Nothing here ever prints a secret. */
#ifndef STORE_AZURE_CREDENTIALS_H
#define STORE_AZURE_CREDENTIALS_H

#include "store/remote/provider.h"

#define AZURE_ACCOUNT_MAX 24
#define AZURE_SECRET_MAX  (16 * KIB) /* a token, mostly of 1 to 4 KiB */

enum azure_way {
    AZURE_SHARED_KEY, /* secret: the key, as raw bytes */
    AZURE_SAS,        /* secret: the query string, without "?" */
    AZURE_TOKEN,      /* secret: the token */
};

struct azure_credentials {
    struct credentials_life life;
    enum azure_way way;
    size_t secret_size;
    char secret[AZURE_SECRET_MAX + 1]; /* NUL-terminated */
};

/* ---- Parsers, which do no I/O -------------------------------------------------------- */

/* The account's key, which is base64. */
enum hf_status azure_credentials_from_key(struct view text,
                                          struct azure_credentials *ret_credentials,
                                          struct hf_error *error);

/* A SAS, with or without "?" before it. */
enum hf_status azure_credentials_from_sas(struct view text,
                                          struct azure_credentials *ret_credentials,
                                          struct hf_error *error);

/* The JSON of an identity endpoint, whose reply had this date. */
enum hf_status azure_credentials_from_json(struct view text, struct wall_time date,
                                           struct azure_credentials *ret_credentials,
                                           struct hf_error *error);

/* One value of a connection string ("AccountName=...;AccountKey=..."). data is NULL if it is
 * missing. */
struct view azure_connection_value(struct view text, const char *name);

/* ---- The sources --------------------------------------------------------------------- */

/* Tries these sources in order:
 *   the key                 AZURE_STORAGE_KEY
 *   the SAS                 AZURE_STORAGE_SAS_TOKEN
 *   the connection string   AZURE_STORAGE_CONNECTION_STRING: AccountKey or SharedAccessSignature
 *   the managed identity    IDENTITY_ENDPOINT with IDENTITY_HEADER (App Service, Container Apps),
 *                           or the instance endpoint (virtual machines) at 169.254.169.254, which
 *                           AZURE_POD_IDENTITY_AUTHORITY_HOST replaces; AZURE_CLIENT_ID selects one
 *                           of several identities
 * The first source that is configured is used, even if it fails. A key or connection string for
 * another account than that of the URL is INVALID. */
struct azure_provider {
    struct provider cache;
    char account[AZURE_ACCOUNT_MAX + 1];
};

enum hf_status azure_provider_init(struct azure_provider *provider, struct env *env,
                                   const char *account, const char *ca_file,
                                   struct hf_error *error);

#endif
