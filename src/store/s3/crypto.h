/* crypto.h: the hashes that S3 asks for, by libcrypto, which is loaded when a store on the network
 * is opened: to load it takes longer than a command on a local store may last (curl.c). */
#ifndef STORE_S3_CRYPTO_H
#define STORE_S3_CRYPTO_H

#include "base/view.h"

#include <stdbool.h>

#define SHA256_SIZE 32
#define MD5_SIZE    16

/* False when there is no libcrypto, or no memory. All that follows is for after it was true. */
bool crypto_load(void);

void sha256(struct view bytes, unsigned char ret_digest[SHA256_SIZE]);

/* False without memory. */
bool hmac_sha256(struct view key, struct view text, unsigned char ret_digest[SHA256_SIZE]);

/* False where MD5 is not allowed. */
bool md5(struct view bytes, unsigned char ret_digest[MD5_SIZE]);

/* SHA-256 of what comes piece by piece: NULL, or false, without memory. */
struct sha256_stream;
struct sha256_stream *sha256_begin(void);
bool sha256_add(struct sha256_stream *stream, struct view bytes);

/* Ends it in any case; `ret_digest` may be NULL. */
bool sha256_end(struct sha256_stream *stream, unsigned char ret_digest[SHA256_SIZE]);

#endif
