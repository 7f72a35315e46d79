/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c: the string to sign of Azure's Shared Key authorization, and its signature. */
#include "store/azure/sign.h"

#include "base/check.h"

#define STRING_BYTES_MAX (64 * (size_t)1024)

/* The headers of HTTP that are signed, by value only, in this order. Content-Length is one of them:
 * libcurl sends it, so it is not among the headers of the request. */
static const char *const standard_headers[] = {
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
};

static struct view azure_find_header(const struct azure_signing *signing, const char *name)
{
    for (size_t i = 0; i < signing->header_count; i++)
        if (view_equal(signing->headers[i].name, view_of(name)))
            return signing->headers[i].value;
    return VIEW("");
}

static void append_standard_headers(const struct azure_signing *signing, struct buffer *to)
{
    for (size_t i = 0; i < sizeof standard_headers / sizeof standard_headers[0]; i++) {
        if (strcmp(standard_headers[i], "content-length") != 0)
            buffer_append(to, azure_find_header(signing, standard_headers[i]));
        else if (signing->content_length > 0)
            buffer_append_u64(to, signing->content_length);
        buffer_append_byte(to, '\n');
    }
}

bool azure_string_to_sign(const struct azure_signing *signing, struct buffer *to)
{
    struct http_pair headers[AZURE_SIGNED_HEADERS_MAX];
    struct http_pair parameters[HTTP_QUERY_PARAMETERS_MAX];
    check(signing->header_count <= AZURE_SIGNED_HEADERS_MAX &&
          signing->parameter_count <= HTTP_QUERY_PARAMETERS_MAX);
    http_sort_pairs(signing->headers, signing->header_count, headers);
    http_sort_pairs(signing->parameters, signing->parameter_count, parameters);
    buffer_append(to, signing->method);
    buffer_append_byte(to, '\n');
    append_standard_headers(signing, to);
    for (size_t i = 0; i < signing->header_count; i++)
        if (view_starts_with(headers[i].name, VIEW("x-ms-"))) {
            buffer_append(to, headers[i].name);
            buffer_append_byte(to, ':');
            buffer_append(to, headers[i].value);
            buffer_append_byte(to, '\n');
        }
    buffer_append_byte(to, '/');
    buffer_append(to, signing->account);
    buffer_append(to, signing->path);
    for (size_t i = 0; i < signing->parameter_count; i++) {
        buffer_append_byte(to, '\n');
        buffer_append(to, parameters[i].name);
        buffer_append_byte(to, ':');
        buffer_append(to, parameters[i].value);
    }
    return !to->failed;
}

bool azure_sign(const struct azure_signing *signing, struct view key,
                char text[AZURE_SIGNATURE_SIZE])
{
    struct buffer string = BUFFER_INIT(STRING_BYTES_MAX);
    unsigned char digest[SHA256_SIZE];
    bool ok = buffer_reserve(&string, 1024) && azure_string_to_sign(signing, &string) &&
              hmac_sha256(key, buffer_view(&string), digest);
    buffer_release(&string);
    if (ok)
        base64_encode((struct view){ (const char *)digest, sizeof digest }, text);
    return ok;
}
