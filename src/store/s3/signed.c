/* SPDX-License-Identifier: Apache-2.0 */
/* signed.c: signs and sends a request to a service of AWS that issues credentials: STS, or the
 * session of a directory bucket. */
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

#define LINES_BYTES_MAX (32 * KIB)

/* How far the time of a signature may be from that of the service. */
#define SKEW_MAX SPAN_S(240)

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

static size_t signed_headers(const struct s3_signed_call *call,
                             const struct s3_credentials *keys, const char *date,
                             const char *hash, struct view host, struct http_pair headers[5])
{
    size_t count = 0;
    headers[count++] = (struct http_pair){ VIEW("host"), host };
    headers[count++] = (struct http_pair){ VIEW("x-amz-date"), view_of(date) };
    headers[count++] = (struct http_pair){ VIEW("x-amz-content-sha256"), view_of(hash) };
    if (keys->token[0])
        headers[count++] =
            (struct http_pair){ VIEW("x-amz-security-token"), view_of(keys->token) };
    if (call->content_type.size > 0)
        headers[count++] = (struct http_pair){ VIEW("content-type"), call->content_type };
    return count;
}

static enum hf_status send_signed_at(struct provider *cache, const struct s3_signed_call *call,
                                     const struct s3_credentials *keys, struct wall_time when,
                                     struct buffer *answer, struct hf_error *error)
{
    char date[S3_DATE_SIZE + 1], hash[S3_HASH_TEXT_SIZE], uri[1200];
    struct s3_signing_key key = { 0 };
    struct http_pair headers[5];
    struct view host;
    s3_date_text(when, date);
    s3_payload_hash(call->body, hash);
    snprintf(uri, sizeof uri, "%s%s%.*s", call->uri, call->query.size > 0 ? "?" : "",
             VIEW_ARGS(call->query));
    struct s3_signing signing = { .method = view_of(call->method),
                                  .query = call->query,
                                  .headers = headers,
                                  .payload = view_of(hash),
                                  .date = view_of(date),
                                  .region = call->region,
                                  .service = call->service,
                                  .access_key = view_of(keys->access_key) };
    split_uri(view_of(call->uri), &host, &signing.path);
    signing.header_count = signed_headers(call, keys, date, hash, host, headers);
    /* All room is reserved at once: growing the buffer would leave copies of the token. */
    struct buffer text = BUFFER_INIT(LINES_BYTES_MAX);
    bool ready = buffer_reserve(&text, LINES_BYTES_MAX - 1) &&
                 s3_signing_key(S3_SCHEME_AWS, view_of(keys->secret),
                                view_first(view_of(date), S3_DAY_SIZE), signing.region,
                                signing.service, &key);
    const char *lines[6];
    size_t count = 0;
    for (size_t i = 1; i < signing.header_count && ready; i++) { /* libcurl sends `host` */
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
    struct http_source body = { call->body, -1, 0, call->body.size };
    struct http_request request = { .method = call->method,
                                    .url = uri,
                                    .headers = lines,
                                    .header_count = count,
                                    .source = call->content_type.size > 0 ? &body : NULL };
    if (!ready)
        error_no_memory(error);
    else
        provider_request(cache, &request, /* metadata */ false, answer, error);
    explicit_bzero(&key, sizeof key);
    secret_buffer_release(&text);
    return error->status;
}

enum hf_status s3_send_signed(struct provider *cache, const struct s3_signed_call *call,
                              const struct s3_credentials *keys, struct wall_time when,
                              struct buffer *answer, struct hf_error *error)
{
    if (send_signed_at(cache, call, keys, when, answer, error) != HF_DENIED)
        return error->status;
    /* This machine's clock may be wrong: once more, with the time of the reply. */
    int64_t skew_us = wall_since(cache->date, when).us;
    if (skew_us > SKEW_MAX.us || skew_us < -SKEW_MAX.us)
        send_signed_at(cache, call, keys, cache->date, answer, error);
    return error->status;
}
