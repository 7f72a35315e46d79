/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h: the three hash functions: XXH3 for distribution and comparison, CRC32C for detecting
 * damage, and SHA-256 wherever an attacker must not be able to choose the result. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/view.h"

#include <stdint.h>

uint64_t hash_xxh3(struct view bytes);

/* The same for bytes that arrive in pieces. */
struct hash_stream {
    _Alignas(64) unsigned char state[576];
};
void hash_stream_init(struct hash_stream *stream);
void hash_stream_add(struct hash_stream *stream, struct view bytes);
uint64_t hash_stream_xxh3(const struct hash_stream *stream);

/* The 128-bit variant, big-endian. */
#define XXH3_128_BYTES 16
void hash_stream_xxh3_128(const struct hash_stream *stream,
                          unsigned char ret_digest[XXH3_128_BYTES]);

/* CRC32C (Castagnoli). Start with 0, and pass the previous result to continue. */
uint32_t crc32c(uint32_t crc, struct view bytes);

/* The checksum of two texts one after the other, from their checksums and the second size. */
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_size);

/* The same function, computed from a table on every machine. Tests compare crc32c with it. */
uint32_t crc32c_by_table(uint32_t crc, struct view bytes);

/* SHA-256 (FIPS 180-4). */
#define SHA256_BYTES 32
void hash_sha256(struct view bytes, unsigned char ret_digest[SHA256_BYTES]);

/* The same for bytes that arrive in pieces. */
#define SHA256_BLOCK_BYTES 64
struct hash_sha256_stream {
    uint32_t state[SHA256_BYTES / 4];
    uint64_t size;                           /* total size of all pieces */
    unsigned char block[SHA256_BLOCK_BYTES]; /* the start of an incomplete block */
};
void hash_sha256_init(struct hash_sha256_stream *stream);
void hash_sha256_add(struct hash_sha256_stream *stream, struct view bytes);
void hash_sha256_end(struct hash_sha256_stream *stream, unsigned char ret_digest[SHA256_BYTES]);

/* HMAC-SHA256 (RFC 2104): only those who know the key can compute it. */
void hash_hmac_sha256(struct view key, struct view bytes,
                      unsigned char ret_digest[SHA256_BYTES]);

/* Compares secrets. The time it takes depends on the size alone, so it does not reveal how much of
 * a guess is right. */
bool hash_is_same_secret(const void *a, const void *b, size_t size);

#endif
