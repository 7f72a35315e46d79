/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: signs a request to S3 with the credentials that are valid now, and sends it. */
#include "store/remote/secret.h"
#include "store/s3/inside.h"

#include <stdio.h>

static struct view signing_service(const struct s3_store *s3)
{
    return s3_is_google(s3)      ? VIEW("storage")
           : s3_is_directory(s3) ? VIEW("s3express")
                                 : VIEW("s3");
}

/* The signing key of the day, derived once and cached. */
static bool find_signing_key(struct s3_store *s3, const struct s3_credentials *credentials,
                             const char *date, struct s3_signing_key *ret_key)
{
    bool ok = true;
    env_mutex_lock(&s3->shared.mutex);
    struct s3_signer *signer = s3->shared.signer;
    if (memcmp(signer->day, date, S3_DAY_SIZE) != 0 ||
        strcmp(signer->access_key, credentials->access_key) != 0 ||
        strcmp(signer->secret, credentials->secret) != 0) {
        ok = s3_signing_key(s3->scheme, view_of(credentials->secret),
                            (struct view){ date, S3_DAY_SIZE }, view_of(s3->region),
                            signing_service(s3), &signer->key);
        memcpy(signer->day, ok ? date : "--------", S3_DAY_SIZE);
        memcpy(signer->access_key, credentials->access_key, sizeof signer->access_key);
        memcpy(signer->secret, credentials->secret, sizeof signer->secret);
    }
    *ret_key = signer->key;
    env_mutex_unlock(&s3->shared.mutex);
    return ok;
}

/* The headers that are signed. Google refuses a request that has headers of both kinds, and its
 * keys have no session token. */
static size_t list_headers(const struct s3_store *s3, const struct remote_request *request,
                           const struct s3_credentials *credentials, const char *date,
                           const char *payload, struct http_pair headers[S3_SIGNED_HEADERS_MAX])
{
    size_t count = 0;
    headers[count++] = (struct http_pair){ VIEW("host"), view_of(s3->remote.host) };
    bool google = s3_is_google(s3);
    struct view payload_name =
        google ? VIEW("x-goog-content-sha256") : VIEW("x-amz-content-sha256");
    headers[count++] = (struct http_pair){ payload_name, view_of(payload) };
    headers[count++] =
        (struct http_pair){ google ? VIEW("x-goog-date") : VIEW("x-amz-date"), view_of(date) };
    if (credentials->token[0] && !google)
        headers[count++] =
            (struct http_pair){ s3_is_directory(s3) ? VIEW("x-amz-s3session-token")
                                                    : VIEW("x-amz-security-token"),
                                view_of(credentials->token) };
    for (size_t i = 0; i < request->header_count; i++)
        headers[count++] = request->headers[i];
    return count;
}

static bool write_request(struct remote_wire *wire, struct s3_store *s3,
                          const struct remote_request *request,
                          const struct s3_credentials *credentials)
{
    char date[S3_DATE_SIZE + 1];
    s3_date_text(request->signed_at, date);
    const char *payload = request->payload ? request->payload : S3_EMPTY_PAYLOAD;
    struct s3_signing_key key;
    struct http_pair headers[S3_SIGNED_HEADERS_MAX];
    /* Reserve enough room: growing the buffer would leave a copy of the token in memory. */
    if (!buffer_reserve(&wire->text, 4 * KIB + strlen(credentials->token)) ||
        !find_signing_key(s3, credentials, date, &key))
        return false;
    wire_url(wire, &s3->remote, request, VIEW(""));
    size_t count = list_headers(s3, request, credentials, date, payload, headers);
    for (size_t i = 1; i < count; i++) /* all but `host`, which libcurl sends */
        wire_line(wire, headers[i].name, headers[i].value);
    if (request->range)
        wire_line(wire, VIEW("Range"), view_of(request->range));
    wire_open_line(wire, VIEW("Authorization"));
    /* Reserve room for the value: the views below must not move while it is written. */
    if (!buffer_reserve(&wire->text, 1 * KIB))
        return false;
    struct s3_signing signing = {
        .method = view_of(request->method),
        .path = { wire->text.data + wire->path, wire->path_size },
        .query = { wire->text.data + wire->query, wire->query_size },
        .headers = headers,
        .header_count = count,
        .payload = view_of(payload),
        .date = view_of(date),
        .region = view_of(s3->region),
        .service = signing_service(s3),
        .access_key = view_of(credentials->access_key),
        .scheme = s3->scheme,
    };
    bool ok = s3_sign(&signing, &key, &wire->text);
    wire_end_text(wire);
    explicit_bzero(&key, sizeof key);
    return ok && !wire->text.failed;
}

void s3_dialect_send(struct remote_store *remote, struct remote_request *request,
                     struct http_reply *reply)
{
    struct s3_store *s3 = s3_of(&remote->base);
    struct s3_credentials *credentials = remote_take_secret(remote);
    if (!credentials) {
        error_no_memory(&reply->error);
        return;
    }
    struct remote_wire wire = REMOTE_WIRE_INIT;
    if (s3_find_keys(s3, request->deadline, credentials, &reply->error) == HF_OK) {
        request->signed_at = remote_signing_time(remote);
        if (write_request(&wire, s3, request, credentials))
            wire_send(remote, request, &wire, reply);
        else
            error_no_memory(&reply->error);
        remote_hide(reply, credentials->secret);
        remote_hide(reply, credentials->token);
    }
    secret_buffer_release(&wire.text); /* it contains the session token */
    remote_give_secret(remote, credentials);
}
