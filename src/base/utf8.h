/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h: checks and writes UTF-8. Overlong forms, surrogates and code points above U+10FFFF are
 * invalid. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/view.h"

#include <stdint.h>

/* The number of bytes in the first character of a nonempty text; 0 if that character is invalid. */
size_t utf8_size(struct view text);

/* Writes a valid character and returns its size. */
#define UTF8_BYTES_MAX 4
size_t utf8_write(uint32_t code, char bytes[UTF8_BYTES_MAX]);

bool utf8_is_valid(struct view text);

/* Whether the text is valid UTF-8 and contains no NUL. Most programs do not accept a NUL in
 * text. */
bool utf8_is_text(struct view text);

#endif
