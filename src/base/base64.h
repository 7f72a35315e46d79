/* base64.h: bytes as text (RFC 4648, with padding), and back. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/view.h"

/* The text of so many bytes, without its NUL. */
#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4)

/* Writes the text and a NUL. */
void base64_encode(struct view bytes, char *text);

/* Strict: no other bytes between, and of all texts that could stand for the same bytes only the one
 * that base64_encode writes. `bytes` has room for text.size / 4 * 3; with false it may have been
 * written to. */
bool base64_decode(struct view text, char *bytes, size_t *ret_size);

#endif
