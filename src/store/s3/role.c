/* SPDX-License-Identifier: Apache-2.0 */
/* role.c: the keys of a role, which STS issues for the token of a web identity or for other
 * keys. */
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

#define FORM_BYTES_MAX (128 * KIB)

static void find_endpoint_of_sts(const struct s3_provider *provider, char *uri, size_t size)
{
    const char *named = remote_variable("AWS_ENDPOINT_URL_STS", NULL);
    if (named)
        snprintf(uri, size, "%s", named);
    else
        snprintf(uri, size, "https://sts.%s.amazonaws.com%s/", provider->region,
                 s3_is_china(provider->region) ? ".cn" : "");
}

/* The parameters that all actions have in common; returns how many. `random` holds a name. */
static size_t fill_form(struct s3_provider *provider, const struct s3_role *role,
                        const char *action, char random[32], struct http_pair *form)
{
    snprintf(random, 32, "holdfast-%llx",
             (unsigned long long)env_random_u64(provider->cache.env));
    size_t count = 0;
    form[count++] = (struct http_pair){ VIEW("Action"), view_of(action) };
    form[count++] = (struct http_pair){ VIEW("Version"), VIEW("2011-06-15") };
    form[count++] = (struct http_pair){ VIEW("RoleArn"), role->arn };
    form[count++] = (struct http_pair){ VIEW("RoleSessionName"), role->session_name.size > 0
                                                                     ? role->session_name
                                                                     : view_of(random) };
    if (role->duration_seconds.size > 0)
        form[count++] = (struct http_pair){ VIEW("DurationSeconds"), role->duration_seconds };
    return count;
}

/* ---- By a token ---------------------------------------------------------------------- */

enum hf_status s3_assume_role_by_token(struct s3_provider *provider, const struct s3_role *role,
                                       const char *token_path,
                                       struct s3_credentials *ret_credentials,
                                       struct hf_error *error)
{
    static const char *const lines[] = { "Content-Type: application/x-www-form-urlencoded",
                                         "Accept: application/xml" };
    char uri[1024], random[32];
    struct buffer token = BUFFER_INIT(32 * KIB);
    struct buffer form = BUFFER_INIT(FORM_BYTES_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    find_endpoint_of_sts(provider, uri, sizeof uri);
    if (provider_read_file(token_path, &token, error) != HF_OK) {
        error->status = HF_INVALID;
    } else {
        struct http_pair parameters[8];
        size_t count =
            fill_form(provider, role, "AssumeRoleWithWebIdentity", random, parameters);
        struct view text = buffer_view(&token);
        parameters[count++] = (struct http_pair){ VIEW("WebIdentityToken"),
                                                  view_first(text, view_find(text, '\n')) };
        bool ready = http_query(&form, parameters, count);
        struct http_source source = { buffer_view(&form), -1, 0, form.size };
        struct http_request request = {
            .method = "POST", .url = uri, .headers = lines, .header_count = 2, .source = &source
        };
        if (!ready)
            error_no_memory(error);
        else if (provider_request(&provider->cache, &request, /* metadata */ false, &answer,
                                  error) == HF_OK)
            s3_credentials_from_xml(buffer_view(&answer), "AssumeRoleWithWebIdentityResponse",
                                    ret_credentials, error);
    }
    if (error->status != HF_OK)
        error_prefix(error, "credentials from the web identity");
    secret_buffer_release(&token);
    secret_buffer_release(&form);
    secret_buffer_release(&answer);
    return error->status;
}

/* ---- By other keys ------------------------------------------------------------------- */

enum hf_status s3_assume_role_by_keys(struct s3_provider *provider, const struct s3_role *role,
                                      const struct s3_credentials *source,
                                      struct s3_credentials *ret_credentials,
                                      struct hf_error *error)
{
    struct provider *cache = &provider->cache;
    char uri[1024], random[32];
    struct http_pair parameters[8];
    struct buffer form = BUFFER_INIT(FORM_BYTES_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    find_endpoint_of_sts(provider, uri, sizeof uri);
    size_t count = fill_form(provider, role, "AssumeRole", random, parameters);
    if (role->external_id.size > 0)
        parameters[count++] = (struct http_pair){ VIEW("ExternalId"), role->external_id };
    bool ready = http_query(&form, parameters, count);
    const struct s3_signed_call call = { .method = "POST",
                                         .uri = uri,
                                         .region = view_of(provider->region),
                                         .service = VIEW("sts"),
                                         .content_type =
                                             VIEW("application/x-www-form-urlencoded"),
                                         .body = buffer_view(&form) };
    if (!ready)
        error_no_memory(error);
    else if (s3_send_signed(cache, &call, source, env_wall(cache->env), &answer, error) ==
             HF_OK)
        s3_credentials_from_xml(buffer_view(&answer), "AssumeRoleResponse", ret_credentials,
                                error);
    if (error->status != HF_OK)
        error_prefix(error, "cannot assume the role '%.*s'",
                     VIEW_ARGS(view_first(role->arn, 80)));
    secret_buffer_release(&form);
    secret_buffer_release(&answer);
    return error->status;
}
