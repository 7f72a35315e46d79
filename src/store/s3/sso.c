/* SPDX-License-Identifier: Apache-2.0 */
/* sso.c: the keys of a role that a person has by a login with IAM Identity Center. `aws sso login`
 * leaves a token in a cache (sso_token.c); the token buys keys. The login itself is not done
 * here. */
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

static bool write_uri(const struct s3_sso *sso, struct buffer *uri)
{
    const char *named = remote_variable("AWS_ENDPOINT_URL_SSO", NULL);
    if (named)
        buffer_append(uri, view_of(named));
    else
        buffer_print(uri, "https://portal.sso.%.*s.amazonaws.com", VIEW_ARGS(sso->region));
    const struct http_pair parameters[] = { { VIEW("account_id"), sso->account },
                                            { VIEW("role_name"), sso->role } };
    buffer_append(uri, VIEW("/federation/credentials?"));
    return http_query(uri, parameters, 2) && buffer_append_byte(uri, '\0');
}

static enum hf_status buy_keys(struct s3_provider *provider, const struct s3_sso *sso,
                               const struct buffer *token,
                               struct s3_credentials *ret_credentials, struct hf_error *error)
{
    struct buffer uri = BUFFER_INIT(4 * KIB), line = BUFFER_INIT(2 * S3_TOKEN_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    bool ready = write_uri(sso, &uri) && buffer_reserve(&line, token->size + 64) &&
                 buffer_append(&line, VIEW("x-amz-sso_bearer_token: ")) &&
                 buffer_append(&line, buffer_view(token)) && buffer_append_byte(&line, '\0');
    const char *lines[] = { line.data };
    struct http_request request = { .method = "GET",
                                    .url = uri.data,
                                    .headers = lines,
                                    .header_count = 1,
                                    .may_send_again = true };
    if (!ready)
        error_no_memory(error);
    else if (provider_request(&provider->cache, &request, /* metadata */ false, &answer,
                              error) == HF_OK)
        s3_credentials_from_sso(buffer_view(&answer), ret_credentials, error);
    buffer_release(&uri);
    secret_buffer_release(&line);
    secret_buffer_release(&answer);
    return error->status;
}

enum hf_status s3_keys_of_sso(struct s3_provider *provider, const struct s3_sso *sso,
                              struct s3_credentials *ret_credentials, struct hf_error *error)
{
    struct buffer token = BUFFER_INIT(S3_TOKEN_MAX);
    if (sso->account.size == 0 || sso->role.size == 0 || sso->region.size == 0 ||
        sso->start_url.size == 0)
        error_set(error, HF_INVALID,
                  "sso_start_url, sso_region, sso_account_id or sso_role_name is missing");
    else if (!consists_of(sso->region, REMOTE_NAME_BYTES, 1, 39))
        error_set(error, HF_INVALID, "sso_region is not a region");
    else if (s3_sso_token(provider, sso, &token, error) == HF_OK &&
             buy_keys(provider, sso, &token, ret_credentials, error) == HF_DENIED)
        error_prefix(error,
                     "the login was refused, or does not include the role: " S3_SSO_LOGIN);
    if (error->status != HF_OK)
        error_prefix(error, "credentials by SSO");
    secret_buffer_release(&token);
    return error->status;
}
