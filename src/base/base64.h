/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h: bytes as text (RFC 4648, with padding), and back. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/view.h"

/* The size of the text for this many bytes, without its NUL. */
#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4)

/* Writes the text and a NUL. */
void base64_encode(struct view bytes, char *text);

/* Strict: accepts only the exact text that base64_encode writes. `bytes` must have room for
 * (text.size / 4 * 3) bytes, and may have been written to even if the function returns false. */
bool base64_decode(struct view text, char *bytes, size_t *ret_size);

#endif
