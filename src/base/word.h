/* word.h: eight bytes of a text as one number, alike on every machine.
 *
 * Little-endian to look for bytes: the first is the lowest, so the lowest bit that is found is the
 * first place. Big-endian to compare: numbers are then ordered as their bytes are. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stdint.h>
#include <string.h>

/* A word of eight bytes that are all this one. */
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
