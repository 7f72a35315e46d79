/* SPDX-License-Identifier: Apache-2.0 */
/* json_string.h: the contents of JSON strings, for both readers: base/json.c for our own
 * documents, merge/json_scan.c for user data. */
#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H

#include "base/view.h"
#include "base/word.h"

/* Sets the highest bit of each of eight bytes that does not represent itself: quotes,
 * backslashes, control characters, parts of multi-byte characters. The lowest mark is exact.
 * Marks above it may be wrong, because a marked byte borrows from the bytes above it.
 *
 * Flipping the second bit swaps the quote (0x22) with the blank (0x20), so the quote and the
 * control characters become the bytes up to 0x20. */
static inline uint64_t json_not_plain(uint64_t word)
{
    uint64_t low = (word ^ EACH_BYTE(0x02)) - EACH_BYTE(0x21);
    uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
    return (low | backslash | word) & EACH_BYTE(0x80);
}

/* The size of the escape at the start of the text, which starts with a backslash; 0 if it is
 * not valid. *ret_code is the character. A high surrogate must be followed by a low one, and a
 * low one must not stand alone. */
size_t json_escape_size(struct view text, uint32_t *ret_code);

#endif
