/* json_string.h: what stands in a string of JSON, for all who read it: base/json.c our own
 * documents, merge/json_scan.c other people's data. */
#ifndef BASE_JSON_STRING_H
#define BASE_JSON_STRING_H

#include "base/view.h"
#include "base/word.h"

/* Marks, by its highest bit, each of eight bytes that does not stand for itself: quotes,
 * backslashes, control characters, parts of longer characters. The lowest mark is right; those
 * above it may be wrong, since only what is marked borrows, and from the bytes above it.
 *
 * Turning over the second bit swaps the quote (0x22) with the blank (0x20), so that the quote
 * and the control characters are the bytes up to 0x20. */
static inline uint64_t json_not_plain(uint64_t word)
{
    uint64_t low = (word ^ EACH_BYTE(0x02)) - EACH_BYTE(0x21);
    uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
    return (low | backslash | word) & EACH_BYTE(0x80);
}

/* The size of the escape at the start of the text, which starts with a backslash; 0 when it is
 * none. *ret_code is the character: a high surrogate must be followed by a low one, and a low one
 * must not stand alone. */
size_t json_escape_size(struct view text, uint32_t *ret_code);

#endif
