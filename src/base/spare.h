/* SPDX-License-Identifier: Apache-2.0 */
/* spare.h: blocks of one size that are kept when they are freed, to be used again. For structs of
 * which many come and go at a time: malloc keeps only a few blocks of each size at hand, and
 * searches for the others. Not for several threads.
 *
 * With AddressSanitizer nothing is kept, so that it finds a block that is used after its end. */
#ifndef BASE_SPARE_H
#define BASE_SPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define SPARE_KEEPS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPARE_KEEPS false
#endif
#endif
#ifndef SPARE_KEEPS
#define SPARE_KEEPS true
#endif

struct spare_block {
    struct spare_block *next;
};

struct spare {
    struct spare_block *first;
    size_t count;
};

/* A block of this size, with any content; all blocks of a list must have the same size, which is at
 * least that of a pointer. NULL if memory runs out. */
static inline void *spare_take(struct spare *spare, size_t size)
{
    struct spare_block *block = spare->first;
    if (!block)
        return malloc(size);
    spare->first = block->next;
    spare->count--;
    return block;
}

/* Keeps the block, or frees it if there are `most` already. */
static inline void spare_give(struct spare *spare, void *memory, size_t most)
{
    struct spare_block *block = memory;
    if (!SPARE_KEEPS || spare->count >= most) {
        free(memory);
        return;
    }
    block->next = spare->first;
    spare->first = block;
    spare->count++;
}

static inline void spare_release(struct spare *spare)
{
    while (spare->first) {
        struct spare_block *next = spare->first->next;
        free(spare->first);
        spare->first = next;
    }
    spare->count = 0;
}

#endif
