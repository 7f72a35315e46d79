/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h: memory for keys: excluded from core dumps, and overwritten before it is freed. */
#ifndef STORE_REMOTE_SECRET_H
#define STORE_REMOTE_SECRET_H

#include "base/buffer.h"

/* Zeroed. NULL if memory runs out. */
void *secret_new(size_t size);

/* NULL is allowed. */
void secret_free(void *secret, size_t size);

/* Overwrites the bytes of a buffer and releases it. */
void secret_buffer_release(struct buffer *buffer);

#endif
