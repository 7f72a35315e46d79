/* SPDX-License-Identifier: Apache-2.0 */
/* sso.c: the keys of a role that a person has by a login with IAM Identity Center. `aws sso login`
 * leaves a token in a cache; the token buys keys. The login itself is not done here. */
#include "base/json.h"
#include "base/parse.h"
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

#define CACHE_BYTES_MAX (64 * KIB)
#define LOGIN           "run 'aws sso login'"

struct sso_token {
    struct buffer text, expires;
};

/* The file is named after the session, or after the URL of an older login. */
static enum hf_status read_cache(const struct s3_sso *sso, struct buffer *text,
                                 struct hf_error *error)
{
    unsigned char digest[SHA1_SIZE];
    char name[2 * SHA1_SIZE + 1], path[4096];
    const char *home = remote_variable("HOME", NULL);
    if (!home)
        return error_set(error, HF_INVALID, "HOME is not set");
    if (!sha1(sso->session.size > 0 ? sso->session : sso->start_url, digest))
        return error_set(error, HF_UNSUPPORTED, "this system does not allow SHA-1");
    hex_encode(digest, sizeof digest, name);
    snprintf(path, sizeof path, "%s/.aws/sso/cache/%s.json", home, name);
    if (provider_read_file(path, text, error) == HF_NOT_FOUND)
        error_set(error, HF_DENIED, "there is no login: " LOGIN);
    return error->status;
}

static bool decode_cache(struct view text, struct sso_token *token)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("accessToken")))
            json_take_string(&reader, &token->text);
        else if (view_equal(name, VIEW("expiresAt")))
            json_take_string(&reader, &token->expires);
        else
            json_skip(&reader, &raw);
    return json_end(&reader) && token->text.size > 0;
}

static enum hf_status read_sso_token(struct s3_provider *provider, const struct s3_sso *sso,
                                     struct sso_token *token, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(CACHE_BYTES_MAX);
    struct wall_time expires;
    struct hf_error unreadable;
    if (read_cache(sso, &text, error) == HF_OK) {
        if (!buffer_reserve(&token->text, S3_TOKEN_MAX - 1) ||
            !decode_cache(buffer_view(&text), token))
            error_set(error, HF_INVALID, "the cached login cannot be read: " LOGIN);
        else if (parse_time(buffer_view(&token->expires), &expires, &unreadable) != HF_OK ||
                 wall_since(expires, env_wall(provider->cache.env)).us <= 0)
            error_set(error, HF_DENIED, "the login has expired: " LOGIN);
    }
    secret_buffer_release(&text);
    return error->status;
}

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
                               const struct sso_token *token,
                               struct s3_credentials *ret_credentials, struct hf_error *error)
{
    struct buffer uri = BUFFER_INIT(4 * KIB), line = BUFFER_INIT(2 * S3_TOKEN_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    bool ready = write_uri(sso, &uri) && buffer_reserve(&line, token->text.size + 64) &&
                 buffer_append(&line, VIEW("x-amz-sso_bearer_token: ")) &&
                 buffer_append(&line, buffer_view(&token->text)) &&
                 buffer_append_byte(&line, '\0');
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
    struct sso_token token = { BUFFER_INIT(S3_TOKEN_MAX), BUFFER_INIT(256) };
    if (sso->account.size == 0 || sso->role.size == 0 || sso->region.size == 0 ||
        sso->start_url.size == 0)
        error_set(error, HF_INVALID,
                  "sso_start_url, sso_region, sso_account_id or sso_role_name is missing");
    else if (!consists_of(sso->region, REMOTE_NAME_BYTES, 1, 39))
        error_set(error, HF_INVALID, "sso_region is not a region");
    else if (read_sso_token(provider, sso, &token, error) == HF_OK) {
        struct view text = buffer_view(&token.text);
        if (view_find(text, '\n') < text.size || view_find(text, '\r') < text.size)
            error_set(error, HF_INVALID, "the cached login contains a line break");
        else if (buy_keys(provider, sso, &token, ret_credentials, error) == HF_DENIED)
            error_prefix(error, "the login was refused, or does not include the role: " LOGIN);
    }
    if (error->status != HF_OK)
        error_prefix(error, "credentials by SSO");
    secret_buffer_release(&token.text);
    secret_buffer_release(&token.expires);
    return error->status;
}
