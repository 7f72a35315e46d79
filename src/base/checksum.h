/* SPDX-License-Identifier: Apache-2.0 */
/* checksum.h: the checksum of a document that programs change by compare-and-swap.
 *
 * Every write of such a document has a nonce in its member `write`. The checksum is in the same
 * string, after the nonce: "write":"<32 hexadecimal digits>~<8 hexadecimal digits>". It is the
 * CRC32C of all bytes of the document except these 8 digits.
 *
 * Invariants:
 *
 *   1. A checksum always belongs to the write that the nonce names. A version that knows no
 *      checksums replaces the whole member with its next write, so it never leaves a checksum
 *      behind that does not match its document.
 *   2. A document without a checksum is not checked. `write` of any other length has none.
 *   3. `write` is among the first CHECKSUM_HEAD bytes, before anything that users choose. If its
 *      name is damaged, its form is noticed there. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include "base/buffer.h"
#include "base/view.h"

#define CHECKSUM_HEAD ((size_t)192)

/* Appends the value of `write`: the nonce, and room for the checksum. A nonce of another length
 * than NONCE_SIZE gets no checksum. */
void checksum_append_write(struct buffer *text, struct view nonce);

/* Computes the checksum of the document in `text`, and puts it into its place. Returns false if the
 * buffer has failed. */
bool checksum_finish(struct buffer *text);

/* Writes the document into an empty buffer, with this nonce and a checksum in `write`; all other
 * members stay. False if its first member is not `format`, or if the buffer has failed. */
bool checksum_seal(struct view text, struct view nonce, struct buffer *sealed);

/* The states that a document can be in. */
enum checksum_state {
    CHECKSUM_NONE,  /* there is none: an earlier version wrote the document */
    CHECKSUM_RIGHT, /* the bytes are those that were written */
    CHECKSUM_WRONG, /* they are not */
};
enum checksum_state checksum_check(struct view text);

/* The mistake, for messages. */
#define CHECKSUM_MISTAKE "its checksum does not match its bytes"

#endif
