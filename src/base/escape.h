/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: text for a terminal. A name from a store may contain any byte. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include "base/buffer.h"

/* Appends text with control bytes, backslashes and bytes that are not UTF-8 written as \n, \t,
 * \\ or \xHH, so that the result is one line of valid UTF-8. */
bool escape_append(struct buffer *to, struct view text);

/* The width of a string on a terminal, approximated as one column per character. */
size_t text_width(struct view text);

/* As much of the text as fits into so many columns. */
struct view text_first(struct view text, size_t columns);

#endif
