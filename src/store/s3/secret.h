/* secret.h: memory for keys: left out of core dumps, and overwritten before it is given back. */
#ifndef STORE_S3_SECRET_H
#define STORE_S3_SECRET_H

#include <stddef.h>

/* Zeroed; NULL without memory. */
void *secret_new(size_t size);

/* NULL is fine. */
void secret_free(void *secret, size_t size);

#endif
