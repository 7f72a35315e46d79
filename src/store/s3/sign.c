/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c: AWS Signature Version 4. Paths, queries and headers are encoded here once, and the
 * same bytes are signed and sent. */
#include "store/s3/sign.h"

#include "base/check.h"
#include "base/parse.h"

#define CANONICAL_BYTES_MAX (64 * (size_t)1024)

void s3_date_text(struct wall_time now, char text[S3_DATE_SIZE + 1])
{
    char full[TIME_TEXT_MAX];
    time_text(now, full);
    size_t size = 0;
    for (const char *at = full; size < S3_DATE_SIZE - 1; at++) {
        if (*at == '\0' || *at == '.')
            break;
        if (*at != '-' && *at != ':')
            text[size++] = *at;
    }
    text[size++] = 'Z';
    text[size] = '\0';
}

/* ---- Hashing ------------------------------------------------------------------------- */

static struct view digest_view(const unsigned char digest[SHA256_SIZE])
{
    return (struct view){ (const char *)digest, SHA256_SIZE };
}

void s3_payload_hash(struct view body, char text[S3_HASH_TEXT_SIZE])
{
    unsigned char digest[SHA256_SIZE];
    sha256(body, digest);
    hex_encode(digest, sizeof digest, text);
}

/* ---- Signing ------------------------------------------------------------------------- */

struct scheme {
    const char *algorithm;
    const char *key_start; /* before the secret */
    const char *scope_end;
};

static const struct scheme schemes[] = {
    [S3_SCHEME_AWS] = { "AWS4-HMAC-SHA256", "AWS4", "aws4_request" },
    [S3_SCHEME_GOOGLE] = { "GOOG4-HMAC-SHA256", "GOOG4", "goog4_request" },
};

#define KEY_START_MAX 5

bool s3_signing_key(enum s3_scheme scheme, struct view secret, struct view day,
                    struct view region, struct view service, struct s3_signing_key *ret_key)
{
    struct view start = view_of(schemes[scheme].key_start);
    char first[KEY_START_MAX + 256];
    unsigned char *bytes = ret_key->bytes;
    if (secret.size > sizeof first - KEY_START_MAX)
        return false;
    memcpy(first, start.data, start.size);
    memcpy(first + start.size, secret.data, secret.size);
    bool ok = hmac_sha256((struct view){ first, start.size + secret.size }, day, bytes) &&
              hmac_sha256(digest_view(bytes), region, bytes) &&
              hmac_sha256(digest_view(bytes), service, bytes) &&
              hmac_sha256(digest_view(bytes), view_of(schemes[scheme].scope_end), bytes);
    explicit_bzero(first, sizeof first);
    return ok;
}

/* Trims the value and reduces each run of spaces to one, as the specification requires. */
static void append_header_value(struct buffer *to, struct view value)
{
    bool pending = false;
    size_t start = to->size;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] == ' ' || value.data[i] == '\t') {
            pending = true;
            continue;
        }
        if (pending && to->size > start)
            buffer_append_byte(to, ' ');
        pending = false;
        buffer_append_byte(to, value.data[i]);
    }
}

static void append_header_names(struct buffer *to, const struct http_pair *sorted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(to, ';');
        buffer_append(to, sorted[i].name);
    }
}

bool s3_canonical_request(const struct s3_signing *signing, struct buffer *to)
{
    struct http_pair sorted[S3_SIGNED_HEADERS_MAX];
    check(signing->header_count <= S3_SIGNED_HEADERS_MAX);
    http_sort_pairs(signing->headers, signing->header_count, sorted);
    buffer_append(to, signing->method);
    buffer_append_byte(to, '\n');
    buffer_append(to, signing->path);
    buffer_append_byte(to, '\n');
    buffer_append(to, signing->query);
    buffer_append_byte(to, '\n');
    for (size_t i = 0; i < signing->header_count; i++) {
        buffer_append(to, sorted[i].name);
        buffer_append_byte(to, ':');
        append_header_value(to, sorted[i].value);
        buffer_append_byte(to, '\n');
    }
    buffer_append_byte(to, '\n');
    append_header_names(to, sorted, signing->header_count);
    buffer_append_byte(to, '\n');
    return buffer_append(to, signing->payload);
}

static void append_scope(struct buffer *to, const struct s3_signing *signing)
{
    buffer_append(to, view_first(signing->date, S3_DAY_SIZE));
    buffer_append_byte(to, '/');
    buffer_append(to, signing->region);
    buffer_append_byte(to, '/');
    buffer_append(to, signing->service);
    buffer_append_byte(to, '/');
    buffer_append(to, view_of(schemes[signing->scheme].scope_end));
}

static bool string_to_sign(const struct s3_signing *signing, struct buffer *to)
{
    struct buffer canonical = BUFFER_INIT(CANONICAL_BYTES_MAX);
    char hash[S3_HASH_TEXT_SIZE];
    bool ok = buffer_reserve(&canonical, 2048) && s3_canonical_request(signing, &canonical);
    s3_payload_hash(buffer_view(&canonical), hash);
    buffer_release(&canonical);
    buffer_append(to, view_of(schemes[signing->scheme].algorithm));
    buffer_append_byte(to, '\n');
    buffer_append(to, signing->date);
    buffer_append_byte(to, '\n');
    append_scope(to, signing);
    buffer_append_byte(to, '\n');
    return buffer_append(to, view_of(hash)) && ok;
}

bool s3_sign(const struct s3_signing *signing, const struct s3_signing_key *key,
             struct buffer *to)
{
    struct http_pair sorted[S3_SIGNED_HEADERS_MAX];
    struct buffer text = BUFFER_INIT(CANONICAL_BYTES_MAX);
    unsigned char digest[SHA256_SIZE];
    char signature[S3_HASH_TEXT_SIZE];
    bool ok = buffer_reserve(&text, 512) && string_to_sign(signing, &text) &&
              hmac_sha256(digest_view(key->bytes), buffer_view(&text), digest);
    buffer_release(&text);
    if (!ok)
        return false;
    hex_encode(digest, sizeof digest, signature);
    http_sort_pairs(signing->headers, signing->header_count, sorted);
    buffer_append(to, view_of(schemes[signing->scheme].algorithm));
    buffer_append(to, VIEW(" Credential="));
    buffer_append(to, signing->access_key);
    buffer_append_byte(to, '/');
    append_scope(to, signing);
    buffer_append(to, VIEW(", SignedHeaders="));
    append_header_names(to, sorted, signing->header_count);
    buffer_append(to, VIEW(", Signature="));
    return buffer_append(to, view_of(signature));
}
