/* SPDX-License-Identifier: Apache-2.0 */
/* sign.h: AWS Signature Version 4, as pure functions of text: no network, no clock. Google signs in
 * the same way, with other constants.
 *
 * The signed path and query must be exactly the bytes that are sent. So each is encoded once, here,
 * and the same bytes are signed and sent. */
#ifndef STORE_S3_SIGN_H
#define STORE_S3_SIGN_H

#include "base/buffer.h"
#include "base/moment.h"
#include "base/view.h"
#include "store/remote/crypto.h"
#include "store/remote/encode.h"

#define S3_SIGNED_HEADERS_MAX 16

/* The value sent instead of the hash of an unhashed body, and the hash of an empty body. */
#define S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define S3_EMPTY_PAYLOAD    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* "20130524T000000Z" and its first eight characters, the day. */
#define S3_DATE_SIZE 16
#define S3_DAY_SIZE  8
void s3_date_text(struct wall_time now, char text[S3_DATE_SIZE + 1]);

/* Whose constants a signature contains. */
enum s3_scheme { S3_SCHEME_AWS, S3_SCHEME_GOOGLE };

/* One request to sign. All its headers are signed; they must include `host` and `x-amz-date` (for
 * Google `x-goog-date`), in any order. */
struct s3_signing {
    struct view method;
    struct view path;  /* as http_encode made it */
    struct view query; /* as http_query made it */
    const struct http_pair *headers;
    size_t header_count; /* at most S3_SIGNED_HEADERS_MAX */
    struct view payload; /* hexadecimal SHA-256, or S3_UNSIGNED_PAYLOAD */
    struct view date;    /* as s3_date_text made it */
    struct view region;
    struct view service;
    struct view access_key;
    enum s3_scheme scheme;
};

/* Derived from the secret for one day, region and service. It is cached, because it takes four
 * times as long to derive the key as to sign with it. */
struct s3_signing_key {
    unsigned char bytes[SHA256_SIZE];
};

bool s3_signing_key(enum s3_scheme scheme, struct view secret, struct view day,
                    struct view region, struct view service, struct s3_signing_key *ret_key);

/* The canonical request, exactly as the service computes it. */
bool s3_canonical_request(const struct s3_signing *signing, struct buffer *to);

/* Appends the value of the Authorization header. False if memory runs out. */
bool s3_sign(const struct s3_signing *signing, const struct s3_signing_key *key,
             struct buffer *to);

/* The lower-case hexadecimal SHA-256 of a body. */
#define S3_HASH_TEXT_SIZE (2 * SHA256_SIZE + 1)
void s3_payload_hash(struct view body, char text[S3_HASH_TEXT_SIZE]);

#endif
