/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h: decimal numbers in text, compared exactly: no digit is lost, however many there
 * are. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include "base/buffer.h"
#include "base/view.h"

#include <stdint.h>

/* A number as in RFC 8259: "0", "-1.50", "2e3". Not "01", "+1", ".5", "1." or " 1". */
struct decimal {
    int sign;      /* -1, 0, 1 */
    int64_t power; /* the power of ten of the first digit */
    struct view
        digits; /* from the first digit that is not 0 to the last; may contain a point */
};

/* False: not a number, or its exponent has more than nine digits. Views point into the text. */
bool decimal_parse(struct view text, struct decimal *ret_decimal);

/* Returns a negative value, zero or a positive value, like memcmp. */
int decimal_compare(const struct decimal *a, const struct decimal *b);

/* Appends bytes that sort in the order of the numbers. False if out of memory or room. */
bool decimal_bytes(struct buffer *to, const struct decimal *decimal);

#endif
