/* swar.h: eight bytes at a time in one word, to find where a field or a string ends.
 *
 * A mark is the highest bit of a byte. The lowest mark of a word is always right; those above it
 * may be wrong, since a subtraction borrows from the bytes above the ones that it found. So
 * marks may be joined by |, and only swar_first may be asked of them.
 *
 * A load may begin at the last byte of a block, which is why blocks have KEY_SLACK bytes behind
 * them; a mark behind the end counts as the end. */
#ifndef MERGE_SWAR_H
#define MERGE_SWAR_H

#include "merge/order.h"

#include <assert.h>
#include <stdint.h>

#define SWAR_BYTES 8
#define SWAR_ONES  UINT64_C(0x0101010101010101)
#define SWAR_HIGHS UINT64_C(0x8080808080808080)

static_assert(SWAR_BYTES <= KEY_SLACK, "a load that begins in a block must end in its slack");

/* The first byte becomes the lowest. */
static inline uint64_t swar_load(const char *bytes)
{
    return __builtin_bswap64(load_big_endian(bytes));
}

/* The byte, eight times. */
static inline uint64_t swar_all(char byte)
{
    return SWAR_ONES * (unsigned char)byte;
}

/* Marks the bytes that are those of `eight`, as swar_all made it. */
static inline uint64_t swar_equal(uint64_t word, uint64_t eight)
{
    uint64_t different = word ^ eight;
    return (different - SWAR_ONES) & ~different & SWAR_HIGHS;
}

/* Which byte has the lowest mark; there must be one. */
static inline size_t swar_first(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

/* Where the byte first stands in [at, end), or `end`. For what is usually near; memchr is the
 * faster one where it is far. */
static inline const char *swar_find(const char *at, const char *end, uint64_t eight)
{
    for (; at < end; at += SWAR_BYTES) {
        uint64_t marks = swar_equal(swar_load(at), eight);
        if (marks) {
            at += swar_first(marks);
            return at < end ? at : end;
        }
    }
    return end;
}

/* The same for the first of three. */
static inline const char *swar_find_of_three(const char *at, const char *end, uint64_t a,
                                             uint64_t b, uint64_t c)
{
    for (; at < end; at += SWAR_BYTES) {
        uint64_t word = swar_load(at);
        uint64_t marks = swar_equal(word, a) | swar_equal(word, b) | swar_equal(word, c);
        if (marks) {
            at += swar_first(marks);
            return at < end ? at : end;
        }
    }
    return end;
}

#endif
