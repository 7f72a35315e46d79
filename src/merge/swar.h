/* SPDX-License-Identifier: Apache-2.0 */
/* swar.h: examines eight bytes at a time in one word, to find where a field or a string ends.
 *
 * A mark is the highest bit of a byte. The lowest mark of a word is always correct. The marks above
 * it may be wrong, because a subtraction borrows from the bytes above a match. So marks may be
 * combined with |, and only swar_first may be applied to them.
 *
 * A load may begin at the last byte of a block, which is why BLOCK_SLACK bytes follow each block;
 * a mark after the end counts as the end. */
#ifndef MERGE_SWAR_H
#define MERGE_SWAR_H

#include "base/word.h"
#include "merge/batch.h"

#define SWAR_BYTES 8

static_assert(BLOCK_SLACK >= SWAR_BYTES, "a load that begins in a block must end in its slack");

/* Marks the bytes that are equal to those of `eight`, which EACH_BYTE has made. */
static inline uint64_t swar_equal(uint64_t word, uint64_t eight)
{
    uint64_t different = word ^ eight;
    return (different - EACH_BYTE(1)) & ~different & EACH_BYTE(0x80);
}

/* The index of the byte with the lowest mark. There must be a mark. */
static inline size_t swar_first(uint64_t marks)
{
    return (size_t)__builtin_ctzll(marks) / 8;
}

/* The first occurrence of the byte in [at, end), or `end`. For bytes that are usually near; memchr
 * is faster for distant ones. */
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

/* The same for the first occurrence of any of three bytes. */
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
