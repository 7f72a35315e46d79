/* SPDX-License-Identifier: Apache-2.0 */
/* hmac.h: HMAC-SHA256 of many texts with one key. What depends on the key alone is computed once,
 * which is half of the work for a short text. */
#ifndef BASE_HMAC_H
#define BASE_HMAC_H

#include "base/hash.h"

struct hash_hmac_key {
    struct hash_sha256_stream inner, outer; /* after the first block of each */
};

void hash_hmac_key_init(struct hash_hmac_key *hmac, struct view key);

/* As hash_hmac_sha256. */
void hash_hmac_with(const struct hash_hmac_key *hmac, struct view bytes,
                    unsigned char ret_digest[SHA256_BYTES]);

#endif
