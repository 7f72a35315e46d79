/* order.h: codes that decide most comparisons of keys at once.
 *
 * A key is looked at as columns of 14 bytes. Its code says how it stands against another key,
 * its base, that is not greater: which column is the first that differs, and what the key has
 * there. Of two keys with the same base the one with the smaller code is the smaller; only equal
 * codes need their bytes compared. And when A came before B by their codes, the code of B against
 * A is that which it had against the base: that is why columns are compared as a whole, and why
 * a difference later within a column must not count as a later difference.
 *
 * So a merge that always knows each key's code against the last one written compares numbers,
 * whatever the keys have in common; and that an input is in order, or holds a key twice, shows
 * while its codes are computed.
 *
 *     bits 127..112   COLUMN_MAX - (the first column that differs); the later, the smaller
 *     bits 111..0     the key's bytes in that column, zeros past its end
 *     0               the key equals its base
 *
 * Every key here has KEY_SLACK readable bytes behind it, whose values do not matter. */
#ifndef MERGE_ORDER_H
#define MERGE_ORDER_H

#include "base/view.h"
#include "base/word.h"

#define KEY_SLACK 16

__extension__ typedef unsigned __int128 order_code;

#define CODE_EQUAL ((order_code)0)
#define CODE_END   (~(order_code)0 >> 1) /* of an input that has no more */

#define COLUMN_BYTES 14
#define COLUMN_MAX   32766 /* so that codes have no sign, and none is CODE_END */
/* Differences behind this column share one code, and are looked for in the keys. */
#define COLUMN_LAST  (COLUMN_MAX - 2)
#define COLUMN_SHIFT (8 * COLUMN_BYTES)

/* How many bytes the two have in common at their start, given that the first `from` are. */
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

/* What a key has in the column that starts at `start`, which is not behind its end. */
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

/* The code of a key that differs first in its first column, where it has this. */
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

/* All ones when a < b, else 0: the sign of their difference. */
static inline uint64_t order_less_mask(order_code a, order_code b)
{
    return (uint64_t)((order_difference)(a - b) >> 127);
}

/* Where two keys with this code, both against one base, must be compared from. */
static inline size_t order_offset(order_code code)
{
    size_t column = COLUMN_MAX - (size_t)(code >> COLUMN_SHIFT);
    return code == CODE_EQUAL ? 0 : column * COLUMN_BYTES;
}

/* Sets the code of `key` against `base`; false when the key is the smaller of the two. */
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
