/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c: the sources of credentials for S3. A source that is configured but fails is an error,
 * so a request is never signed with another identity by accident. */
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>
#include <stdlib.h>

static const char *variable(const char *name)
{
    return remote_variable(name, NULL);
}

/* ---- The sources --------------------------------------------------------------------- */

enum hf_status s3_keys_of_environment(struct s3_provider *provider,
                                      struct s3_credentials *ret_credentials,
                                      struct hf_error *error)
{
    bool google = provider->scheme == S3_SCHEME_GOOGLE;
    const char *access_name = google ? "GS_ACCESS_KEY_ID" : "AWS_ACCESS_KEY_ID";
    const char *secret_name = google ? "GS_SECRET_ACCESS_KEY" : "AWS_SECRET_ACCESS_KEY";
    const char *access_key = variable(access_name);
    const char *secret = variable(secret_name);
    const char *token = google ? NULL : variable("AWS_SESSION_TOKEN");
    if (!access_key && !secret)
        return error_set(error, HF_NOT_FOUND, "the environment has no keys");
    if (!access_key || !secret)
        return error_set(error, HF_INVALID, "%s is set but %s is not",
                         access_key ? access_name : secret_name,
                         access_key ? secret_name : access_name);
    struct s3_credentials *to = ret_credentials;
    if (strlen(access_key) > S3_ACCESS_KEY_MAX || strlen(secret) > S3_SECRET_MAX ||
        (token && strlen(token) > S3_TOKEN_MAX) || strpbrk(access_key, " \r\n\t") ||
        strpbrk(secret, " \r\n\t") || (token && strpbrk(token, " \r\n\t")))
        return error_set(error, HF_INVALID,
                         "the keys in the environment are too long or contain whitespace");
    snprintf(to->access_key, sizeof to->access_key, "%s", access_key);
    snprintf(to->secret, sizeof to->secret, "%s", secret);
    snprintf(to->token, sizeof to->token, "%s", token ? token : "");
    to->life.ends = false;
    return error_clear(error);
}

/* Without TLS, only this machine and the link-local addresses of ECS and EKS are trusted. */
static bool is_trusted_uri(const char *uri)
{
    const char *host = strstr(uri, "://") ? strstr(uri, "://") + 3 : uri;
    size_t plain = strspn(host, "0123456789.");
    if (memchr(host, '@', strcspn(host, "/")))
        return false;
    if (strncmp(uri, "http://127.", 11) == 0)
        return strchr(":/", host[plain]) != NULL;
    static const char *const starts[] = { "https://",
                                          "http://localhost:",
                                          "http://localhost/",
                                          "http://[::1]",
                                          "http://169.254.170.2/",
                                          "http://169.254.170.2:",
                                          "http://169.254.170.23/",
                                          "http://169.254.170.23:",
                                          "http://[fd00:ec2::23]" };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(uri, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* The Authorization header of the container endpoint, from a file or a variable; may be empty. */
static enum hf_status container_token(char *line, size_t size, struct hf_error *error)
{
    const char *path = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    struct buffer text = BUFFER_INIT(S3_TOKEN_MAX);
    line[0] = '\0';
    if (path && provider_read_file(path, &text, error) != HF_OK)
        error->status = HF_INVALID;
    else
        error_clear(error);
    struct view value = path ? buffer_view(&text) : view_of(token ? token : "");
    while (value.size > 0 && strchr("\r\n", value.data[value.size - 1]))
        value.size--;
    if (memchr(value.data, '\n', value.size) || memchr(value.data, '\r', value.size))
        error_set(error, HF_INVALID,
                  "the container's authorization token contains a line break");
    else if (value.size > 0)
        snprintf(line, size, "Authorization: %.*s", VIEW_ARGS(value));
    secret_buffer_release(&text);
    return error->status;
}

enum hf_status s3_keys_of_container(struct s3_provider *provider,
                                    struct s3_credentials *ret_credentials,
                                    struct hf_error *error)
{
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    char uri[2048], line[S3_TOKEN_MAX + 32];
    if (!relative && !full)
        return error_set(error, HF_NOT_FOUND, "no container endpoint is set");
    snprintf(uri, sizeof uri, "%s%s", relative ? "http://169.254.170.2" : "",
             relative ? relative : full);
    if (!is_trusted_uri(uri))
        return error_set(
            error, HF_INVALID,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or on this machine");
    if (container_token(line, sizeof line, error) != HF_OK)
        return error->status;
    const char *lines[] = { line };
    struct http_request request = { .method = "GET",
                                    .url = uri,
                                    .headers = lines,
                                    .header_count = line[0] ? 1 : 0,
                                    .may_send_again = true };
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    if (provider_request(&provider->cache, &request, /* metadata */ true, &answer, error) ==
        HF_OK)
        s3_credentials_from_json(buffer_view(&answer), ret_credentials, error);
    if (error->status != HF_OK)
        error_prefix(error, "credentials from the container endpoint");
    explicit_bzero(line, sizeof line);
    secret_buffer_release(&answer);
    return error->status;
}

/* Reads one document of the instance endpoint, with the session token. */
static enum hf_status request_instance(struct s3_provider *provider, const char *base,
                                       const char *path, const char *token,
                                       struct buffer *answer, struct hf_error *error)
{
    char uri[1024], line[512];
    snprintf(uri, sizeof uri, "%s/latest/meta-data/iam/security-credentials/%s", base, path);
    snprintf(line, sizeof line, "X-aws-ec2-metadata-token: %s", token);
    const char *lines[] = { line };
    struct http_request request = {
        .method = "GET", .url = uri, .headers = lines, .header_count = 1, .may_send_again = true
    };
    buffer_clear(answer);
    return provider_request(&provider->cache, &request, /* metadata */ true, answer, error);
}

static bool to_word(struct buffer *answer, char *word, size_t size)
{
    struct view text = buffer_view(answer);
    text = view_first(text, view_find(text, '\n'));
    if (text.size == 0 || text.size >= size || memchr(text.data, '\r', text.size))
        return false;
    snprintf(word, size, "%.*s", VIEW_ARGS(text));
    return true;
}

/* If there is no reply, there is no instance endpoint, and the search continues. */
static enum hf_status instance_session(struct s3_provider *provider, const char *base,
                                       char *token, size_t size, struct hf_error *error)
{
    static const char *const lines[] = { "X-aws-ec2-metadata-token-ttl-seconds: 21600" };
    const struct http_source nothing = { .fd = -1 };
    char uri[1024];
    snprintf(uri, sizeof uri, "%s/latest/api/token", base);
    struct http_request request = { .method = "PUT",
                                    .url = uri,
                                    .headers = lines,
                                    .header_count = 1,
                                    .source = &nothing,
                                    .may_send_again = true };
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    if (provider_request(&provider->cache, &request, /* metadata */ true, &answer, error) !=
        HF_OK)
        error->status = HF_NOT_FOUND;
    else if (!to_word(&answer, token, size))
        error_set(error, HF_INVALID, "the instance endpoint sent an unusable token");
    secret_buffer_release(&answer);
    return error->status;
}

enum hf_status s3_keys_of_instance(struct s3_provider *provider,
                                   struct s3_credentials *ret_credentials,
                                   struct hf_error *error)
{
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
    const char *named = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char base[512], token[256], role[256];
    if (disabled && strcmp(disabled, "true") == 0)
        return error_set(error, HF_NOT_FOUND, "the instance endpoint is disabled");
    snprintf(base, sizeof base, "%s", named ? named : "http://169.254.169.254");
    while (base[0] && base[strlen(base) - 1] == '/')
        base[strlen(base) - 1] = '\0';
    if (instance_session(provider, base, token, sizeof token, error) != HF_OK)
        return error->status;
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    if (request_instance(provider, base, "", token, &answer, error) == HF_OK) {
        if (!to_word(&answer, role, sizeof role))
            error_set(error, HF_NOT_FOUND, "the instance has no role");
        else if (request_instance(provider, base, role, token, &answer, error) == HF_OK)
            s3_credentials_from_json(buffer_view(&answer), ret_credentials, error);
    } else if (error->status == HF_DENIED) {
        error->status = HF_NOT_FOUND; /* an instance without a role answers 404 */
    }
    if (error->status != HF_OK)
        error_prefix(error, "credentials from the instance endpoint");
    explicit_bzero(token, sizeof token);
    secret_buffer_release(&answer);
    return error->status;
}

static enum hf_status from_web_identity(struct s3_provider *provider,
                                        struct s3_credentials *ret_credentials,
                                        struct hf_error *error)
{
    const char *path = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const char *arn = variable("AWS_ROLE_ARN");
    const char *session = variable("AWS_ROLE_SESSION_NAME");
    if (!path)
        return error_set(error, HF_NOT_FOUND, "no web identity file is set");
    if (!arn)
        return error_set(error, HF_INVALID,
                         "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not");
    const struct s3_role role = { .arn = view_of(arn),
                                  .session_name = view_of(session ? session : "") };
    return s3_assume_role_by_token(provider, &role, path, ret_credentials, error);
}

/* The HMAC keys of Google never come from a place where those of AWS are found by default, so a
 * machine can use both services. */
static enum hf_status search_google_keys(struct s3_provider *provider,
                                         struct s3_credentials *ret_credentials,
                                         struct hf_error *error)
{
    bool named = provider->profile[0] != '\0';
    enum hf_status status = named ? s3_keys_of_profile(provider, ret_credentials, error)
                                  : s3_keys_of_environment(provider, ret_credentials, error);
    if (status != HF_NOT_FOUND)
        return status;
    return named ? error_set(error, HF_DENIED, "profile '%s' has no keys", provider->profile)
                 : error_set(error, HF_DENIED,
                             "no credentials were found: set GS_ACCESS_KEY_ID and "
                             "GS_SECRET_ACCESS_KEY to an HMAC key of Google Cloud Storage");
}

static enum hf_status search_credentials(struct provider *cache, void *ret_credentials,
                                         struct hf_error *error)
{
    struct s3_provider *provider = (struct s3_provider *)cache;
    static enum hf_status (*const sources[])(struct s3_provider *, struct s3_credentials *,
                                             struct hf_error *) = {
        s3_keys_of_environment, from_web_identity,   s3_keys_of_profile,
        s3_keys_of_container,   s3_keys_of_instance,
    };
    const size_t of_files = 2;
    if (provider->scheme == S3_SCHEME_GOOGLE)
        return search_google_keys(provider, ret_credentials, error);
    /* The search ends at the first source that is configured, even if it fails. The next source
     * could be another identity. */
    for (size_t i = provider->profile[0] ? of_files : 0; i < sizeof sources / sizeof sources[0];
         i++)
        if (sources[i](provider, ret_credentials, error) != HF_NOT_FOUND)
            return error->status;
    return error_set(error, HF_DENIED,
                     "no credentials were found: set AWS_ACCESS_KEY_ID and "
                     "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role");
}

/* ---- Opening and closing ------------------------------------------------------------- */

static const struct provider_source source_of_keys = {
    .size = sizeof(struct s3_credentials),
    .search = search_credentials,
};

enum hf_status s3_provider_open(struct env *env, enum s3_scheme scheme, struct view profile,
                                struct view region, const char *ca_file,
                                struct s3_provider **ret_provider, struct hf_error *error)
{
    struct s3_provider *provider = calloc(1, sizeof *provider);
    if (!provider)
        return error_no_memory(error);
    if (provider_init(&provider->cache, env, ca_file, &source_of_keys, error) != HF_OK) {
        free(provider);
        return error->status;
    }
    provider->scheme = scheme;
    snprintf(provider->profile, sizeof provider->profile, "%.*s",
             VIEW_ARGS(view_first(profile, sizeof provider->profile - 1)));
    snprintf(provider->region, sizeof provider->region, "%.*s",
             VIEW_ARGS(view_first(region, sizeof provider->region - 1)));
    *ret_provider = provider;
    return HF_OK;
}

void s3_provider_close(struct s3_provider *provider)
{
    if (!provider)
        return;
    provider_release(&provider->cache);
    free(provider);
}

enum hf_status s3_provider_get(struct s3_provider *provider, struct mono_time deadline,
                               struct s3_credentials *ret_credentials, struct hf_error *error)
{
    return provider_get(&provider->cache, deadline, ret_credentials, error);
}

void s3_provider_distrust(struct s3_provider *provider)
{
    provider_distrust(&provider->cache);
}
