/* SPDX-License-Identifier: Apache-2.0 */
/* siphash.c: SipHash-2-4, as its authors describe it (Aumasson and Bernstein, 2012). */
#include "base/siphash.h"

#include "base/word.h"

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotated(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct sip *sip)
{
    sip->v0 += sip->v1;
    sip->v2 += sip->v3;
    sip->v1 = rotated(sip->v1, 13) ^ sip->v0;
    sip->v3 = rotated(sip->v3, 16) ^ sip->v2;
    sip->v0 = rotated(sip->v0, 32);
    sip->v2 += sip->v1;
    sip->v0 += sip->v3;
    sip->v1 = rotated(sip->v1, 17) ^ sip->v2;
    sip->v3 = rotated(sip->v3, 21) ^ sip->v0;
    sip->v2 = rotated(sip->v2, 32);
}

static inline void sip_add(struct sip *sip, uint64_t word)
{
    sip->v3 ^= word;
    sip_round(sip);
    sip_round(sip);
    sip->v0 ^= word;
}

uint64_t hash_siphash(const unsigned char key[SIPHASH_KEY_BYTES], struct view bytes)
{
    uint64_t k0 = load_little_endian((const char *)key);
    uint64_t k1 = load_little_endian((const char *)key + 8);
    struct sip sip = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                       k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
    uint64_t last = (uint64_t)bytes.size << 56;
    struct view rest = bytes;
    for (; rest.size >= 8; rest = view_from(rest, 8))
        sip_add(&sip, load_little_endian(rest.data));
    for (size_t i = 0; i < rest.size; i++)
        last |= (uint64_t)(unsigned char)rest.data[i] << (8 * i);
    sip_add(&sip, last);
    sip.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&sip);
    return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3;
}
