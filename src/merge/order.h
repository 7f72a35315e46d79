/* SPDX-License-Identifier: Apache-2.0 */
/* order.h: codes that decide most key comparisons with a single number comparison.
 *
 * A key is divided into columns of 14 bytes. The code of a key is relative to another key that is
 * not greater, its base. The code consists of the first column in which the key differs from the
 * base, and of the key's bytes in that column. Of two keys with the same base, the key with the
 * smaller code is smaller; the bytes need to be compared only if the codes are equal. If the code
 * of A is smaller than the code of B, then the code of B relative to A is the same as the code of B
 * relative to the base. This is why columns are compared as a whole, and why a difference later
 * within a column must not count as a later difference.
 *
 * So a merge that knows the code of each key relative to the last key written compares only
 * numbers, however long the common prefixes are. Computing the codes also shows whether an input is
 * out of order or contains a key twice.
 *
 *     bits 127..112   COLUMN_MAX - (the first column that differs): smaller for a later column
 *     bits 111..0     the key's bytes in that column, zeros past its end
 *     0               the key equals its base
 *
 * Every key is followed by KEY_SLACK readable bytes, whose values do not matter. */
#ifndef MERGE_ORDER_H
#define MERGE_ORDER_H

#include "base/view.h"
#include "base/word.h"

#define KEY_SLACK 16

__extension__ typedef unsigned __int128 order_code;

#define CODE_EQUAL ((order_code)0)
#define CODE_END   (~(order_code)0 >> 1) /* of an input at its end */

#define COLUMN_BYTES 14
#define COLUMN_MAX   32766 /* so codes have no sign, and none is CODE_END */
/* Differences after this column share one code and are found by comparing the keys. */
#define COLUMN_LAST  (COLUMN_MAX - 2)
#define COLUMN_SHIFT (8 * COLUMN_BYTES)

/* The length of the common prefix of two keys whose first `from` bytes are known to be equal. */
static inline size_t common_prefix(struct view a, struct view b, size_t from)
{
    size_t size = a.size < b.size ? a.size : b.size;
    for (size_t at = from; at < size; at += 8) {
        uint64_t different = load_big_endian(a.data + at) ^ load_big_endian(b.data + at);
        if (different) {
            size_t found = at + (size_t)__builtin_clzll(different) / 8;
            return found < size ? found : size;
        }
    }
    return size;
}

/* A key's bytes in the column that starts at `start`, which is not after the key's end. */
static inline order_code order_column(struct view key, size_t start)
{
    const char *bytes = key.data + start;
    order_code value = (order_code)load_big_endian(bytes) << 64 | load_big_endian(bytes + 8);
    value >>= 128 - COLUMN_SHIFT;
    size_t left = key.size - start;
    if (left < COLUMN_BYTES)
        value &= ~(order_code)0 << (8 * (COLUMN_BYTES - left));
    return value;
}

/* The code of a key that differs from its base in the first column, which has this value. */
static inline order_code order_code_first(order_code column)
{
    return (order_code)COLUMN_MAX << COLUMN_SHIFT | column;
}

/* The code of a key that is greater than its base and first differs from it at byte `at`. */
static inline order_code order_code_at(struct view key, size_t at)
{
    size_t column = at / COLUMN_BYTES;
    if (column > COLUMN_LAST)
        return (order_code)(COLUMN_MAX - COLUMN_LAST - 1) << COLUMN_SHIFT;
    return (order_code)(COLUMN_MAX - column) << COLUMN_SHIFT |
           order_column(key, column * COLUMN_BYTES);
}

__extension__ typedef __int128 order_difference;

/* All ones if a < b, else 0: the sign of their difference. */
static inline uint64_t order_less_mask(order_code a, order_code b)
{
    return (uint64_t)((order_difference)(a - b) >> 127);
}

/* The offset from which to compare two keys that have this code relative to the same base. */
static inline size_t order_offset(order_code code)
{
    size_t column = COLUMN_MAX - (size_t)(code >> COLUMN_SHIFT);
    return code == CODE_EQUAL ? 0 : column * COLUMN_BYTES;
}

/* Sets the code of `key` relative to `base`; false if the key is smaller than the base. */
static inline bool order_against(struct view base, struct view key, size_t from,
                                 order_code *ret_code)
{
    size_t at = common_prefix(base, key, from);
    bool is_prefix = at == key.size;
    if (at < base.size &&
        (is_prefix || (unsigned char)key.data[at] < (unsigned char)base.data[at]))
        return false;
    *ret_code = is_prefix ? CODE_EQUAL : order_code_at(key, at);
    return true;
}

#endif
