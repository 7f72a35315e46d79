/* SPDX-License-Identifier: Apache-2.0 */
/* siphash.h: SipHash-2-4, a short hash with a secret key. Who does not know the key cannot tell
 * which texts have equal or similar hashes, nor learn the key from how long a lookup takes. For
 * a short text, it takes a tenth of the time of an HMAC. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include "base/view.h"

#include <stdint.h>

#define SIPHASH_KEY_BYTES 16

uint64_t hash_siphash(const unsigned char key[SIPHASH_KEY_BYTES], struct view bytes);

#endif
