/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.h: the hash functions that S3 needs, from libcrypto. The library is loaded when a store on
 * the network is opened, because loading it takes longer than a whole command on a local store
 * (curl.c). */
#ifndef STORE_REMOTE_CRYPTO_H
#define STORE_REMOTE_CRYPTO_H

#include "base/view.h"

#include <stdbool.h>

#define SHA256_SIZE 32
#define SHA1_SIZE   20
#define MD5_SIZE    16

/* False if libcrypto is missing, or memory runs out. The functions below may be called only after
 * this function has returned true. */
bool crypto_load(void);

void sha256(struct view bytes, unsigned char ret_digest[SHA256_SIZE]);

/* False if memory runs out. */
bool hmac_sha256(struct view key, struct view text, unsigned char ret_digest[SHA256_SIZE]);

/* False if the system does not allow SHA-1, or MD5. */
bool sha1(struct view bytes, unsigned char ret_digest[SHA1_SIZE]);
bool md5(struct view bytes, unsigned char ret_digest[MD5_SIZE]);

/* SHA-256 of data that arrives piece by piece. NULL, or false, if memory runs out. */
struct sha256_stream;
struct sha256_stream *sha256_begin(void);
bool sha256_add(struct sha256_stream *stream, struct view bytes);

/* Always frees the stream. `ret_digest` may be NULL. */
bool sha256_end(struct sha256_stream *stream, unsigned char ret_digest[SHA256_SIZE]);

#endif
