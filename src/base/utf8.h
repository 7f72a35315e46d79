/* utf8.h: what is text. Overlong forms, surrogates and what lies beyond U+10FFFF are not. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/view.h"

#include <stdint.h>

/* How many bytes the character at the start of a text that is not empty has; 0 when there is no
 * valid one. */
size_t utf8_size(struct view text);

/* Writes a character, which is none of those either; returns its size. */
#define UTF8_BYTES_MAX 4
size_t utf8_encode(uint32_t code, char bytes[UTF8_BYTES_MAX]);

bool utf8_is_valid(struct view text);

/* The same without NUL, which most who deal with text do not take. */
bool utf8_is_text(struct view text);

#endif
