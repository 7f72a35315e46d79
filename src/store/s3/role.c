/* SPDX-License-Identifier: Apache-2.0 */
/* role.c: the keys of a role, which STS issues for the token of a web identity or for other
 * keys. */
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

#define FORM_BYTES_MAX  (128 * KIB)
#define LINES_BYTES_MAX (32 * KIB)

/* How far the time of a signature may be from that of STS. */
#define SKEW_MAX SPAN_S(240)

static const char content_type[] = "application/x-www-form-urlencoded";

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
    static const char action[] = "AssumeRoleWithWebIdentity";
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
        size_t count = fill_form(provider, role, action, random, parameters);
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
            s3_credentials_from_xml(buffer_view(&answer), action, ret_credentials, error);
    }
    if (error->status != HF_OK)
        error_prefix(error, "credentials from the web identity");
    secret_buffer_release(&token);
    secret_buffer_release(&form);
    secret_buffer_release(&answer);
    return error->status;
}

/* ---- By other keys ------------------------------------------------------------------- */

/* "scheme://host/path": the host as libcurl sends it, and the path, at least "/". */
static void split_uri(struct view uri, struct view *ret_host, struct view *ret_path)
{
    bool tls = view_starts_with(uri, VIEW("https://"));
    struct view rest = view_from(uri, tls ? 8 : 7);
    *ret_host = view_first(rest, view_find(rest, '/'));
    *ret_path = view_from(rest, ret_host->size);
    if (ret_path->size == 0)
        *ret_path = VIEW("/");
    struct view port = tls ? VIEW(":443") : VIEW(":80");
    if (view_ends_with(*ret_host, port))
        ret_host->size -= port.size;
}

/* Signs the form and sends it. */
static enum hf_status send_signed(struct s3_provider *provider, const char *uri,
                                  struct view form, const struct s3_credentials *source,
                                  struct wall_time when, struct buffer *answer,
                                  struct hf_error *error)
{
    char date[S3_DATE_SIZE + 1], hash[S3_HASH_TEXT_SIZE];
    struct s3_signing_key key;
    s3_date_text(when, date);
    s3_payload_hash(form, hash);
    struct http_pair headers[4] = { { VIEW("content-type"), view_of(content_type) },
                                    { VIEW("host"), VIEW("") },
                                    { VIEW("x-amz-date"), view_of(date) },
                                    { VIEW("x-amz-security-token"), view_of(source->token) } };
    struct s3_signing signing = { .method = VIEW("POST"),
                                  .headers = headers,
                                  .header_count = source->token[0] ? 4 : 3,
                                  .payload = view_of(hash),
                                  .date = view_of(date),
                                  .region = view_of(provider->region),
                                  .service = VIEW("sts"),
                                  .access_key = view_of(source->access_key) };
    split_uri(view_of(uri), &headers[1].value, &signing.path);
    /* All room is reserved at once: growing the buffer would leave copies of the token. */
    struct buffer text = BUFFER_INIT(LINES_BYTES_MAX);
    bool ready = buffer_reserve(&text, LINES_BYTES_MAX - 1) &&
                 s3_signing_key(S3_SCHEME_AWS, view_of(source->secret),
                                view_first(view_of(date), S3_DAY_SIZE), signing.region,
                                signing.service, &key);
    const char *lines[5];
    size_t count = 0;
    for (size_t i = 0; i < signing.header_count && ready; i++) {
        if (i == 1) /* libcurl sends `host` */
            continue;
        lines[count++] = text.data + text.size;
        buffer_print(&text, "%.*s: %.*s", VIEW_ARGS(headers[i].name),
                     VIEW_ARGS(headers[i].value));
        buffer_append_byte(&text, '\0');
    }
    if (ready) {
        lines[count++] = text.data + text.size;
        buffer_append(&text, VIEW("Authorization: "));
        ready = s3_sign(&signing, &key, &text) && buffer_append_byte(&text, '\0');
    }
    struct http_source body = { form, -1, 0, form.size };
    struct http_request request = {
        .method = "POST", .url = uri, .headers = lines, .header_count = count, .source = &body
    };
    if (!ready)
        error_no_memory(error);
    else
        provider_request(&provider->cache, &request, /* metadata */ false, answer, error);
    explicit_bzero(&key, sizeof key);
    secret_buffer_release(&text);
    return error->status;
}

enum hf_status s3_assume_role_by_keys(struct s3_provider *provider, const struct s3_role *role,
                                      const struct s3_credentials *source,
                                      struct s3_credentials *ret_credentials,
                                      struct hf_error *error)
{
    static const char action[] = "AssumeRole";
    struct provider *cache = &provider->cache;
    char uri[1024], random[32];
    struct http_pair parameters[8];
    struct buffer form = BUFFER_INIT(FORM_BYTES_MAX);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    find_endpoint_of_sts(provider, uri, sizeof uri);
    size_t count = fill_form(provider, role, action, random, parameters);
    if (role->external_id.size > 0)
        parameters[count++] = (struct http_pair){ VIEW("ExternalId"), role->external_id };
    struct wall_time when = env_wall(cache->env);
    if (!http_query(&form, parameters, count)) {
        error_no_memory(error);
    } else if (send_signed(provider, uri, buffer_view(&form), source, when, &answer, error) ==
               HF_DENIED) {
        /* This machine's clock may be wrong: once more, with the time of the reply. */
        int64_t skew_us = wall_since(cache->date, when).us;
        if (skew_us > SKEW_MAX.us || skew_us < -SKEW_MAX.us)
            send_signed(provider, uri, buffer_view(&form), source, cache->date, &answer, error);
    }
    if (error->status == HF_OK)
        s3_credentials_from_xml(buffer_view(&answer), action, ret_credentials, error);
    if (error->status != HF_OK)
        error_prefix(error, "cannot assume the role '%.*s'",
                     VIEW_ARGS(view_first(role->arn, 80)));
    secret_buffer_release(&form);
    secret_buffer_release(&answer);
    return error->status;
}
