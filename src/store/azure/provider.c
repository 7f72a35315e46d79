/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c: the sources of credentials for Azure. A source that is configured but fails is an
 * error, so a request is never authorized by another identity by accident. */
#include "store/azure/credentials.h"
#include "store/remote/encode.h"
#include "store/remote/remote.h"
#include "store/remote/secret.h"

#include <stdio.h>

#define RESOURCE VIEW("https://storage.azure.com/")

static const char *azure_variable(const char *name)
{
    return remote_variable(name, NULL);
}

static enum hf_status check_account(const struct azure_provider *provider, const char *source,
                                    struct view account, struct hf_error *error)
{
    if (!account.data || view_equal(account, view_of(provider->account)))
        return error_clear(error);
    return error_set(error, HF_INVALID,
                     "%s is for the account '%.*s', but the URL names the account '%s'", source,
                     VIEW_ARGS(view_first(account, 60)), provider->account);
}

/* ---- The sources: OK, NOT_FOUND to try the next, or a failure ------------------------- */

static enum hf_status from_key(struct azure_provider *provider,
                               struct azure_credentials *ret_credentials,
                               struct hf_error *error)
{
    const char *key = azure_variable("AZURE_STORAGE_KEY");
    const char *account = azure_variable("AZURE_STORAGE_ACCOUNT");
    if (!key)
        return error_set(error, HF_NOT_FOUND, "AZURE_STORAGE_KEY is not set");
    struct view named = { account, account ? strlen(account) : 0 };
    if (check_account(provider, "AZURE_STORAGE_ACCOUNT", named, error) != HF_OK)
        return error->status;
    if (azure_credentials_from_key(view_of(key), ret_credentials, error) != HF_OK)
        error_prefix(error, "AZURE_STORAGE_KEY");
    return error->status;
}

static enum hf_status from_sas(struct azure_provider *provider,
                               struct azure_credentials *ret_credentials,
                               struct hf_error *error)
{
    const char *sas = azure_variable("AZURE_STORAGE_SAS_TOKEN");
    (void)provider;
    if (!sas)
        return error_set(error, HF_NOT_FOUND, "AZURE_STORAGE_SAS_TOKEN is not set");
    if (azure_credentials_from_sas(view_of(sas), ret_credentials, error) != HF_OK)
        error_prefix(error, "AZURE_STORAGE_SAS_TOKEN");
    return error->status;
}

static enum hf_status from_connection_string(struct azure_provider *provider,
                                             struct azure_credentials *ret_credentials,
                                             struct hf_error *error)
{
    static const char name[] = "AZURE_STORAGE_CONNECTION_STRING";
    const char *value = azure_variable(name);
    if (!value)
        return error_set(error, HF_NOT_FOUND, "%s is not set", name);
    struct view text = view_of(value);
    struct view key = azure_connection_value(text, "AccountKey");
    struct view sas = azure_connection_value(text, "SharedAccessSignature");
    if (check_account(provider, name, azure_connection_value(text, "AccountName"), error) !=
        HF_OK)
        return error->status;
    if (key.data)
        azure_credentials_from_key(key, ret_credentials, error);
    else if (sas.data)
        azure_credentials_from_sas(sas, ret_credentials, error);
    else
        error_set(error, HF_INVALID, "it has no AccountKey and no SharedAccessSignature");
    if (error->status != HF_OK)
        error_prefix(error, "%s", name);
    return error->status;
}

/* Requests a token. The URL is `base`, which may have a query, with the parameters appended. */
static enum hf_status request_token(struct azure_provider *provider, const char *base,
                                    const char *version, const char *header,
                                    struct azure_credentials *ret_credentials,
                                    struct hf_error *error)
{
    const char *client = azure_variable("AZURE_CLIENT_ID");
    const struct http_pair parameters[] = {
        { VIEW("api-version"), view_of(version) },
        { VIEW("resource"), RESOURCE },
        { VIEW("client_id"), view_of(client ? client : "") },
    };
    struct buffer url = BUFFER_INIT(4 * KIB);
    struct buffer answer = BUFFER_INIT(PROVIDER_ANSWER_MAX);
    buffer_print(&url, "%s%c", base, strchr(base, '?') ? '&' : '?');
    http_query(&url, parameters, client ? 3 : 2);
    buffer_append_byte(&url, '\0');
    const char *lines[] = { header };
    struct http_request request = { .method = "GET",
                                    .url = url.data,
                                    .headers = lines,
                                    .header_count = 1,
                                    .may_send_again = true };
    if (url.failed)
        error_set(error, HF_INVALID, "the URL of the identity endpoint is too long");
    else if (provider_request(&provider->cache, &request, /* metadata */ true, &answer,
                              error) == HF_OK)
        azure_credentials_from_json(buffer_view(&answer), provider->cache.date, ret_credentials,
                                    error);
    if (error->status != HF_OK)
        error_prefix(error, "the token of the managed identity");
    buffer_release(&url);
    secret_buffer_release(&answer);
    return error->status;
}

static enum hf_status from_identity_endpoint(struct azure_provider *provider,
                                             struct azure_credentials *ret_credentials,
                                             struct hf_error *error)
{
    const char *endpoint = azure_variable("IDENTITY_ENDPOINT");
    const char *secret = azure_variable("IDENTITY_HEADER");
    char line[1024];
    if (!endpoint || !secret)
        return error_set(error, HF_NOT_FOUND, "no identity endpoint is set");
    if ((size_t)snprintf(line, sizeof line, "X-IDENTITY-HEADER: %s", secret) >= sizeof line ||
        strpbrk(secret, "\r\n"))
        return error_set(error, HF_INVALID, "IDENTITY_HEADER is too long or has a line break");
    request_token(provider, endpoint, "2019-08-01", line, ret_credentials, error);
    explicit_bzero(line, sizeof line);
    return error->status;
}

/* If there is no reply, this is no virtual machine of Azure, and the search ends. */
static enum hf_status azure_from_instance(struct azure_provider *provider,
                                          struct azure_credentials *ret_credentials,
                                          struct hf_error *error)
{
    const char *named = azure_variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
    char url[1024];
    int size = snprintf(url, sizeof url, "%s%smetadata/identity/oauth2/token",
                        named ? named : "http://169.254.169.254",
                        named && named[strlen(named) - 1] == '/' ? "" : "/");
    if (size < 0 || (size_t)size >= sizeof url)
        return error_set(error, HF_INVALID, "AZURE_POD_IDENTITY_AUTHORITY_HOST is too long");
    if (request_token(provider, url, "2018-02-01", "Metadata: true", ret_credentials, error) ==
        HF_UNAVAILABLE)
        error->status = HF_NOT_FOUND;
    return error->status;
}

static enum hf_status search_ways(struct provider *cache, void *ret_credentials,
                                  struct hf_error *error)
{
    static enum hf_status (*const sources[])(struct azure_provider *,
                                             struct azure_credentials *, struct hf_error *) = {
        from_key, from_sas, from_connection_string, from_identity_endpoint, azure_from_instance,
    };
    struct azure_provider *provider = (struct azure_provider *)cache;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        if (sources[i](provider, ret_credentials, error) != HF_NOT_FOUND)
            return error->status;
    return error_set(error, HF_DENIED,
                     "no credentials were found: set AZURE_STORAGE_KEY, "
                     "AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or give the "
                     "machine a managed identity");
}

static const struct provider_source source_of_ways = {
    .size = sizeof(struct azure_credentials),
    .search = search_ways,
};

enum hf_status azure_provider_init(struct azure_provider *provider, struct env *env,
                                   const char *account, const char *ca_file,
                                   struct hf_error *error)
{
    snprintf(provider->account, sizeof provider->account, "%s", account);
    return provider_init(&provider->cache, env, ca_file, &source_of_ways, error);
}
