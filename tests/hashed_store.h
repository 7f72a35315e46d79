/* SPDX-License-Identifier: Apache-2.0 */
/* hashed_store.h: a store in memory whose ETags are hashes of the bytes, as on S3: writing equal
 * bytes again looks like no change. */
#ifndef TESTS_HASHED_STORE_H
#define TESTS_HASHED_STORE_H

#include "store/store.h"

/* NULL if memory runs out. It has conditional deletes, but does not say so in its traits. */
struct store *hashed_store_open(struct env *env);

#endif
