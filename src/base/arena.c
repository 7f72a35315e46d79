/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c: allocates memory from blocks that are freed together, at the end of a request or a
 * page. */
#include "base/arena.h"

#include "base/check.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCK_SIZE_MIN ((size_t)8 * 1024)

struct arena_block {
    struct arena_block *older;
    size_t used;
    size_t size;
    bool lent; /* it is not ours to free */
    alignas(max_align_t) char space[];
};

struct arena arena_in(void *space, size_t size)
{
    struct arena_block *block = space;
    check(size >= sizeof *block && (uintptr_t)space % alignof(max_align_t) == 0);
    *block = (struct arena_block){ .size = size - sizeof *block, .lent = true };
    return (struct arena){ block };
}

void arena_release(struct arena *arena)
{
    while (arena->newest) {
        struct arena_block *block = arena->newest;
        arena->newest = block->older;
        if (!block->lent)
            free(block);
    }
}

static struct arena_block *add_arena_block(struct arena *arena, size_t size)
{
    size_t space = size > BLOCK_SIZE_MIN ? size : BLOCK_SIZE_MIN;
    struct arena_block *block = malloc(sizeof *block + space);
    if (!block)
        return NULL;
    *block = (struct arena_block){ .older = arena->newest, .size = space };
    arena->newest = block;
    return block;
}

void *arena_take(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct arena_block *block = arena->newest;
    if (!block || rounded > block->size - block->used)
        block = add_arena_block(arena, rounded);
    if (!block)
        return NULL;
    void *memory = block->space + block->used;
    block->used += rounded;
    return memory;
}

struct view arena_copy(struct arena *arena, struct view bytes)
{
    char *copy = arena_take(arena, bytes.size + 1);
    if (!copy)
        return (struct view){ NULL, 0 };
    if (bytes.size)
        memcpy(copy, bytes.data, bytes.size);
    copy[bytes.size] = '\0';
    return (struct view){ copy, bytes.size };
}
