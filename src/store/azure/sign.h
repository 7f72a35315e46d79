/* SPDX-License-Identifier: Apache-2.0 */
/* sign.h: Azure's Shared Key authorization, as pure functions of text: no network, no clock.
 *
 * The path is signed as it is sent; the names and values of the query are signed decoded. */
#ifndef STORE_AZURE_SIGN_H
#define STORE_AZURE_SIGN_H

#include "base/base64.h"
#include "base/buffer.h"
#include "store/remote/crypto.h"
#include "store/remote/encode.h"

#define AZURE_SIGNED_HEADERS_MAX 16

/* One request to sign. Names of headers and parameters are lower-case. Of the headers, those of
 * HTTP that Azure signs and all that begin with "x-ms-" are signed. */
struct azure_signing {
    struct view method;
    struct view account;
    struct view path; /* as http_encode made it */
    const struct http_pair *parameters;
    size_t parameter_count; /* at most HTTP_QUERY_PARAMETERS_MAX */
    const struct http_pair *headers;
    size_t header_count;     /* at most AZURE_SIGNED_HEADERS_MAX */
    uint64_t content_length; /* 0 is signed as an empty string */
};

/* Appends the string to sign, exactly as the service computes it. */
bool azure_string_to_sign(const struct azure_signing *signing, struct buffer *to);

/* The signature with the account's key, which is raw bytes. False if memory runs out. */
#define AZURE_SIGNATURE_SIZE (BASE64_SIZE(SHA256_SIZE) + 1)
bool azure_sign(const struct azure_signing *signing, struct view key,
                char text[AZURE_SIGNATURE_SIZE]);

#endif
