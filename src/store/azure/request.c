/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: authorizes a request to Azure with the credentials that are valid now, and sends
 * it. */
#include "base/instant.h"
#include "store/azure/inside.h"
#include "store/azure/sign.h"
#include "store/remote/secret.h"

#include <stdio.h>

/* Every header but Authorization, Host and Content-Length. */
static size_t azure_list_headers(const struct remote_request *request, const char *date,
                                 struct http_pair headers[AZURE_SIGNED_HEADERS_MAX])
{
    size_t count = 0;
    headers[count++] = (struct http_pair){ VIEW("x-ms-date"), view_of(date) };
    headers[count++] = (struct http_pair){ VIEW("x-ms-version"), VIEW(AZURE_VERSION) };
    if (request->range)
        headers[count++] = (struct http_pair){ VIEW("range"), view_of(request->range) };
    for (size_t i = 0; i < request->header_count; i++)
        headers[count++] = request->headers[i];
    return count;
}

/* False if memory runs out. */
static bool write_signature(struct remote_wire *wire, const struct azure_store *azure,
                            const struct remote_request *request,
                            const struct azure_credentials *credentials,
                            const struct http_pair *headers, size_t header_count)
{
    struct azure_signing signing = {
        .method = view_of(request->method),
        .account = view_of(azure->account),
        .path = { wire->text.data + wire->path, wire->path_size },
        .parameters = request->parameters,
        .parameter_count = request->parameter_count,
        .headers = headers,
        .header_count = header_count,
        .content_length = request->source ? request->source->size : 0,
    };
    char signature[AZURE_SIGNATURE_SIZE];
    if (!azure_sign(&signing, (struct view){ credentials->secret, credentials->secret_size },
                    signature))
        return false;
    wire_open_line(wire, VIEW("Authorization"));
    buffer_print(&wire->text, "SharedKey %s:%s", azure->account, signature);
    wire_end_text(wire);
    return true;
}

static bool azure_write_request(struct remote_wire *wire, const struct azure_store *azure,
                                const struct remote_request *request,
                                const struct azure_credentials *credentials)
{
    struct http_pair headers[AZURE_SIGNED_HEADERS_MAX];
    char date[HTTP_DATE_MAX];
    http_date_text(request->signed_at, date);
    struct view sas = VIEW("");
    if (credentials->way == AZURE_SAS)
        sas = view_of(credentials->secret);
    /* Reserve enough room: growing the buffer would leave a copy of the secret in memory. */
    if (!buffer_reserve(&wire->text, 8 * KIB + credentials->secret_size))
        return false;
    wire_url(wire, &azure->remote, request, sas);
    size_t count = azure_list_headers(request, date, headers);
    for (size_t i = 0; i < count; i++)
        wire_line(wire, headers[i].name, headers[i].value);
    if (credentials->way == AZURE_TOKEN) {
        wire_open_line(wire, VIEW("Authorization"));
        buffer_print(&wire->text, "Bearer %s", credentials->secret);
        wire_end_text(wire);
    }
    if (credentials->way == AZURE_SHARED_KEY &&
        !write_signature(wire, azure, request, credentials, headers, count))
        return false;
    return !wire->text.failed;
}

/* The signature of a SAS is its secret. Servers may show the SAS in parts. */
static void hide_sas(struct http_reply *reply, const char *sas)
{
    const char *at = strncmp(sas, "sig=", 4) == 0 ? sas : strstr(sas, "&sig=");
    if (!at)
        return;
    char signature[256];
    struct view text = view_of(strchr(at, '=') + 1);
    text = view_first(text, view_find(text, '&'));
    snprintf(signature, sizeof signature, "%.*s",
             VIEW_ARGS(view_first(text, sizeof signature - 1)));
    text = view_of(signature);
    if (http_decode(&text, /* plus_is_space */ false))
        signature[text.size] = '\0';
    remote_hide(reply, signature);
    explicit_bzero(signature, sizeof signature);
}

static void hide_secret(struct http_reply *reply, const struct azure_credentials *credentials)
{
    if (credentials->way == AZURE_TOKEN)
        remote_hide(reply, credentials->secret);
    if (credentials->way == AZURE_SAS)
        hide_sas(reply, credentials->secret);
}

void azure_dialect_send(struct remote_store *remote, struct remote_request *request,
                        struct http_reply *reply)
{
    struct azure_store *azure = azure_of(&remote->base);
    struct azure_credentials *credentials = remote_take_secret(remote);
    if (!credentials) {
        error_no_memory(&reply->error);
        return;
    }
    struct remote_wire wire = REMOTE_WIRE_INIT;
    if (provider_get(&azure->provider.cache, request->deadline, credentials, &reply->error) ==
        HF_OK) {
        request->signed_at = remote_signing_time(remote);
        if (credentials->way == AZURE_TOKEN && remote->exposed)
            error_set(&reply->error, HF_INVALID,
                      "the token of a managed identity is sent over https only: correct "
                      "endpoint= in the URL");
        else if (azure_write_request(&wire, azure, request, credentials))
            wire_send(remote, request, &wire, reply);
        else
            error_no_memory(&reply->error);
        hide_secret(reply, credentials);
    }
    secret_buffer_release(&wire.text); /* it may contain the SAS or the token */
    remote_give_secret(remote, credentials);
}
