/* SPDX-License-Identifier: Apache-2.0 */
/* word.h: eight bytes of text as one number, with the same result on every machine.
 *
 * Searches use little-endian words: the first byte is the lowest, so the lowest bit that is found
 * gives the first position. Comparisons use big-endian words: the numbers sort in the same order as
 * their bytes. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stdint.h>
#include <string.h>

/* A word that consists of eight copies of a byte. */
#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (unsigned char)(byte))

static inline uint64_t load_little_endian(const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap64(word);
}

static inline uint64_t load_big_endian(const char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? word : __builtin_bswap64(word);
}

#endif
