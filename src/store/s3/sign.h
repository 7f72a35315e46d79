/* sign.h: AWS Signature Version 4, as text in and text out: no network, no clock.
 *
 * The path and the query that are signed are the very bytes that go on the wire, so both are
 * made here: one encoding, used twice. */
#ifndef STORE_S3_SIGN_H
#define STORE_S3_SIGN_H

#include "base/buffer.h"
#include "base/moment.h"
#include "base/view.h"
#include "store/s3/crypto.h"

#define S3_SIGNED_HEADERS_MAX   16
#define S3_QUERY_PARAMETERS_MAX 16

/* What stands for the hash of a body that is not hashed, and the hash of no body. */
#define S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define S3_EMPTY_PAYLOAD    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* "20130524T000000Z" and its first eight characters, the day. */
#define S3_DATE_SIZE 16
#define S3_DAY_SIZE  8
void s3_date_text(struct wall_time now, char text[S3_DATE_SIZE + 1]);

/* Percent-encodes all but letters, digits, "-", ".", "_", "~" and, on request, "/". */
bool s3_encode(struct buffer *to, struct view text, bool keep_slash);

struct s3_parameter {
    struct view name;
    struct view value;
};

/* The query, encoded and sorted, without "?". False without memory or with too many. */
bool s3_query(struct buffer *to, const struct s3_parameter *parameters, size_t count);

struct s3_header {
    struct view name; /* lower-case */
    struct view value;
};

/* One request to be signed. All headers given are signed; `host` and `x-amz-date` must be
 * among them, in any order. */
struct s3_signing {
    struct view method;
    struct view path;  /* as s3_encode made it */
    struct view query; /* as s3_query made it */
    const struct s3_header *headers;
    size_t header_count; /* at most S3_SIGNED_HEADERS_MAX */
    struct view payload; /* hexadecimal SHA-256, or S3_UNSIGNED_PAYLOAD */
    struct view date;    /* as s3_date_text made it */
    struct view region;
    struct view service;
    struct view access_key;
};

/* Derived from the secret for one day, region and service; worth keeping, since deriving it
 * costs four times what signing with it does. */
struct s3_signing_key {
    unsigned char bytes[SHA256_SIZE];
};

bool s3_signing_key(struct view secret, struct view day, struct view region,
                    struct view service, struct s3_signing_key *ret_key);

/* The canonical request, as the service will compute it for itself. */
bool s3_canonical_request(const struct s3_signing *signing, struct buffer *to);

/* Appends the value of the Authorization header. False without memory. */
bool s3_sign(const struct s3_signing *signing, const struct s3_signing_key *key,
             struct buffer *to);

/* The lower-case hexadecimal SHA-256 of a body. */
#define S3_HASH_TEXT_SIZE (2 * SHA256_SIZE + 1)
void s3_payload_hash(struct view body, char text[S3_HASH_TEXT_SIZE]);

/* The value of Content-MD5. False where the machine's policy has switched MD5 off. */
#define S3_MD5_TEXT_SIZE 25
bool s3_content_md5(struct view body, char text[S3_MD5_TEXT_SIZE]);

#endif
