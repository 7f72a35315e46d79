/* swar.h: eight bytes at a time in one word, to find where a field or a string ends.
 *
 * A mark is the highest bit of a byte. The lowest mark of a word is always right; those above it
 * may be wrong, since a subtraction borrows from the bytes above the ones that it found. So
 * marks may be joined by |, and only swar_first may be asked of them.
 *
 * A load may begin at the last byte of a block, which is why blocks have BLOCK_SLACK bytes behind
 * them; a mark behind the end counts as the end. */
#ifndef MERGE_SWAR_H
#define MERGE_SWAR_H

#include "base/word.h"
#include "merge/batch.h"

#define SWAR_BYTES 8

static_assert(BLOCK_SLACK >= SWAR_BYTES, "a load that begins in a block must end in its slack");

/* Marks the bytes that are those of `eight`, as EACH_BYTE made it. */
static inline uint64_t swar_equal(uint64_t word, uint64_t eight)
{
    uint64_t different = word ^ eight;
    return (different - EACH_BYTE(1)) & ~different & EACH_BYTE(0x80);
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
        uint64_t marks = swar_equal(load_little_endian(at), eight);
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
        uint64_t word = load_little_endian(at);
        uint64_t marks = swar_equal(word, a) | swar_equal(word, b) | swar_equal(word, c);
        if (marks) {
            at += swar_first(marks);
            return at < end ? at : end;
        }
    }
    return end;
}

#endif
