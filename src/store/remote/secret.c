/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c: memory for keys that is excluded from core dumps and overwritten before it is
 * freed. */
#include "store/remote/secret.h"

#include <string.h>
#include <sys/mman.h>

void *secret_new(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /* fd */ -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    (void)!madvise(memory, size, MADV_DONTDUMP);
    return memory;
}

void secret_free(void *secret, size_t size)
{
    if (!secret)
        return;
    explicit_bzero(secret, size);
    munmap(secret, size);
}

void secret_buffer_release(struct buffer *buffer)
{
    if (buffer->data)
        explicit_bzero(buffer->data, buffer->capacity);
    buffer_release(buffer);
}
