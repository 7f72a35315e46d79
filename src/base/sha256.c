/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c: SHA-256 as defined by FIPS 180-4, in plain C. Whole blocks are hashed with the arm64
 * instructions where they exist. The result is the same on every machine and in the simulator.
 * docs/decisions/0013-sha256-by-hand.md says why no library is used. */
#include "base/hash.h"
#include "base/hmac.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define BLOCK_BYTES SHA256_BLOCK_BYTES
#define ROUNDS      64

/* The first 32 bits of the fractional parts of the square roots of the first 8 primes, ... */
static const uint32_t first_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* ... and of the cube roots of the first 64. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static inline uint32_t rotate_right(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static inline uint32_t load_word(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           bytes[3];
}

static void store_word(uint32_t word, unsigned char *bytes)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(word >> (24 - 8 * i));
}

/* The message schedule: the sixteen words of a block, and the words that are computed from them. */
static void make_schedule(const unsigned char *block, uint32_t schedule[ROUNDS])
{
    for (size_t i = 0; i < 16; i++)
        schedule[i] = load_word(block + 4 * i);
    for (size_t i = 16; i < ROUNDS; i++) {
        uint32_t far = schedule[i - 15], near = schedule[i - 2];
        uint32_t mixed_far = rotate_right(far, 7) ^ rotate_right(far, 18) ^ far >> 3;
        uint32_t mixed_near = rotate_right(near, 17) ^ rotate_right(near, 19) ^ near >> 10;
        schedule[i] = schedule[i - 16] + mixed_far + schedule[i - 7] + mixed_near;
    }
}

/* Round i. The standard moves values from variable to variable. Here they stay in place, and each
 * round rotates the roles of the eight variables by one position. `word` is a word of the schedule
 * with its constant added. */
static inline void sha256_round(uint32_t v[8], unsigned i, uint32_t word)
{
    uint32_t a = v[-i & 7], b = v[(1 - i) & 7], c = v[(2 - i) & 7], *d = &v[(3 - i) & 7];
    uint32_t e = v[(4 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7], *h = &v[(7 - i) & 7];
    uint32_t mixed_e = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t mixed_a = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t choice = g ^ (e & (f ^ g));
    uint32_t majority = (a & b) | (c & (a | b));
    uint32_t first = *h + mixed_e + choice + word;
    *d += first;
    *h = first + mixed_a + majority;
}

static void hash_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t words[ROUNDS], v[8];
    make_schedule(block, words);
    for (size_t i = 0; i < 8; i++)
        v[i] = state[i];
    for (size_t i = 0; i < ROUNDS; i += 8) { /* eight calls, so that v stays in registers */
        sha256_round(v, 0, words[i] + constants[i]);
        sha256_round(v, 1, words[i + 1] + constants[i + 1]);
        sha256_round(v, 2, words[i + 2] + constants[i + 2]);
        sha256_round(v, 3, words[i + 3] + constants[i + 3]);
        sha256_round(v, 4, words[i + 4] + constants[i + 4]);
        sha256_round(v, 5, words[i + 5] + constants[i + 5]);
        sha256_round(v, 6, words[i + 6] + constants[i + 6]);
        sha256_round(v, 7, words[i + 7] + constants[i + 7]);
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += v[i];
}

typedef void hash_block_function(uint32_t state[8], const unsigned char *block);

#if defined(__aarch64__)

/* Four rounds on both halves of the state; `words` are four words of the schedule with their
 * constants added. */
static inline void four_rounds(uint32x4_t *abcd, uint32x4_t *efgh, uint32x4_t words)
{
    uint32x4_t before = *abcd;
    __asm__(".arch_extension sha2\n\tsha256h %q0, %q1, %2.4s"
            : "+w"(*abcd)
            : "w"(*efgh), "w"(words));
    __asm__(".arch_extension sha2\n\tsha256h2 %q0, %q1, %2.4s"
            : "+w"(*efgh)
            : "w"(before), "w"(words));
}

/* The next four words of the schedule, computed from the sixteen before them. */
static inline uint32x4_t next_words(uint32x4_t first, uint32x4_t second, uint32x4_t third,
                                    uint32x4_t fourth)
{
    __asm__(".arch_extension sha2\n\tsha256su0 %0.4s, %1.4s" : "+w"(first) : "w"(second));
    __asm__(".arch_extension sha2\n\tsha256su1 %0.4s, %1.4s, %2.4s"
            : "+w"(first)
            : "w"(third), "w"(fourth));
    return first;
}

static void hash_block_by_instruction(uint32_t state[8], const unsigned char *block)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4), words[4];
    uint32x4_t abcd_before = abcd, efgh_before = efgh;
    for (size_t i = 0; i < 4; i++)
        words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block + 16 * i)));
    for (size_t i = 0; i < ROUNDS / 4; i++) {
        uint32x4_t now = words[i % 4];
        four_rounds(&abcd, &efgh, vaddq_u32(now, vld1q_u32(constants + 4 * i)));
        words[i % 4] =
            next_words(now, words[(i + 1) % 4], words[(i + 2) % 4], words[(i + 3) % 4]);
    }
    vst1q_u32(state, vaddq_u32(abcd, abcd_before));
    vst1q_u32(state + 4, vaddq_u32(efgh, efgh_before));
}

static hash_block_function *fastest_hash_block(void)
{
    return getauxval(AT_HWCAP) & HWCAP_SHA2 ? hash_block_by_instruction : hash_block;
}

#else

static hash_block_function *fastest_hash_block(void)
{
    return hash_block;
}

#endif

/* `size` must be a multiple of the block size. */
static void hash_blocks(uint32_t state[8], const unsigned char *blocks, size_t size)
{
    hash_block_function *add = size > 0 ? fastest_hash_block() : hash_block;
    for (size_t at = 0; at < size; at += BLOCK_BYTES)
        add(state, blocks + at);
}

/* Hashes the remaining bytes, a 1 bit, zeros, and the number of bits. Together they fill one block,
 * or two if the number of bits does not fit into the first. */
static void add_end(uint32_t state[8], struct view left, uint64_t bits)
{
    unsigned char blocks[2 * BLOCK_BYTES] = { 0 };
    size_t size = left.size + 1 + sizeof bits <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    if (left.size > 0)
        memcpy(blocks, left.data, left.size);
    blocks[left.size] = 0x80;
    store_word((uint32_t)(bits >> 32), blocks + size - 8);
    store_word((uint32_t)bits, blocks + size - 4);
    hash_blocks(state, blocks, size);
}

void hash_sha256_init(struct hash_sha256_stream *stream)
{
    memcpy(stream->state, first_state, sizeof first_state);
    stream->size = 0;
}

void hash_sha256_add(struct hash_sha256_stream *stream, struct view bytes)
{
    size_t held = (size_t)(stream->size % BLOCK_BYTES);
    stream->size += bytes.size;
    if (held > 0) {
        size_t taken = BLOCK_BYTES - held < bytes.size ? BLOCK_BYTES - held : bytes.size;
        if (taken > 0)
            memcpy(stream->block + held, bytes.data, taken);
        if (held + taken < BLOCK_BYTES)
            return;
        hash_blocks(stream->state, stream->block, BLOCK_BYTES);
        bytes = view_from(bytes, taken);
    }
    size_t in_blocks = bytes.size - bytes.size % BLOCK_BYTES;
    hash_blocks(stream->state, (const unsigned char *)bytes.data, in_blocks);
    if (bytes.size > in_blocks)
        memcpy(stream->block, bytes.data + in_blocks, bytes.size - in_blocks);
}

void hash_sha256_end(struct hash_sha256_stream *stream, unsigned char ret_digest[SHA256_BYTES])
{
    struct view left = { (const char *)stream->block, (size_t)(stream->size % BLOCK_BYTES) };
    add_end(stream->state, left, stream->size * 8);
    for (size_t i = 0; i < 8; i++)
        store_word(stream->state[i], ret_digest + 4 * i);
}

void hash_sha256(struct view bytes, unsigned char ret_digest[SHA256_BYTES])
{
    struct hash_sha256_stream stream;
    hash_sha256_init(&stream);
    hash_sha256_add(&stream, bytes);
    hash_sha256_end(&stream, ret_digest);
}

void hash_hmac_key_init(struct hash_hmac_key *hmac, struct view key)
{
    unsigned char inner[BLOCK_BYTES] = { 0 }, outer[BLOCK_BYTES];
    if (key.size > BLOCK_BYTES)
        hash_sha256(key, inner);
    else if (key.size > 0)
        memcpy(inner, key.data, key.size);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    hash_sha256_init(&hmac->inner);
    hash_sha256_add(&hmac->inner, (struct view){ (const char *)inner, BLOCK_BYTES });
    hash_sha256_init(&hmac->outer);
    hash_sha256_add(&hmac->outer, (struct view){ (const char *)outer, BLOCK_BYTES });
}

void hash_hmac_with(const struct hash_hmac_key *hmac, struct view bytes,
                    unsigned char ret_digest[SHA256_BYTES])
{
    struct hash_sha256_stream stream = hmac->inner;
    hash_sha256_add(&stream, bytes);
    hash_sha256_end(&stream, ret_digest);
    stream = hmac->outer;
    hash_sha256_add(&stream, (struct view){ (const char *)ret_digest, SHA256_BYTES });
    hash_sha256_end(&stream, ret_digest);
}

void hash_hmac_sha256(struct view key, struct view bytes,
                      unsigned char ret_digest[SHA256_BYTES])
{
    struct hash_hmac_key hmac;
    hash_hmac_key_init(&hmac, key);
    hash_hmac_with(&hmac, bytes, ret_digest);
}
