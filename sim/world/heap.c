/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c: gives every allocation an owner. A header in front of each block links it into the
 * owner's list.
 *
 * Block sizes are powers of two, and a freed block is reused for the next request of its size. A
 * run allocates about ten thousand blocks, most of them briefly. Under AddressSanitizer each block
 * comes from malloc itself, so the sanitizer sees every free. */
#include "sim/world/heap.h"

#include "base/check.h"
#include "base/sanitizer.h"

#include <errno.h>
#include <limits.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct heap_block {
    struct heap_block *newer;
    struct heap_block *older;
    struct heap *owner;
    size_t size;
    uint64_t mark[2]; /* marks a live block of this heap */
};

#define MARK_LIVE UINT64_C(0x6865617020626c6b)
#define MARK_DEAD UINT64_C(0x6465616420626c6b)

_Static_assert(sizeof(struct heap_block) % alignof(max_align_t) == 0,
               "what follows the header is aligned for any type");

/* Off under AddressSanitizer, which must see each free. */
#define KEEP_FREED (!WITH_ASAN)

#define KINDS            20 /* from 64 bytes to 32 MiB; larger blocks are freed immediately */
#define KIND_BYTES(kind) ((size_t)64 << (kind))

static struct heap *current;
static struct heap_block *spare[KINDS + 1]; /* freed blocks by kind, linked by `older` */

void *__real_malloc(size_t size);
void *__real_realloc(void *bytes, size_t size);
void __real_free(void *bytes);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void *__wrap_reallocarray(void *bytes, size_t count, size_t size);
void __wrap_free(void *bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t max);
__attribute__((format(printf, 2, 0))) int __wrap_vasprintf(char **ret_text, const char *format,
                                                           va_list arguments);
__attribute__((format(printf, 2, 3))) int __wrap_asprintf(char **ret_text, const char *format,
                                                          ...);
int __wrap_posix_memalign(void **ret_bytes, size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);

/* ---- Blocks and their owners --------------------------------------------------------- */

static void adopt(struct heap_block *block, struct heap *owner, size_t size)
{
    block->owner = owner;
    block->size = size;
    block->mark[0] = MARK_LIVE;
    if (!owner)
        return;
    block->newer = NULL;
    block->older = owner->newest;
    if (owner->newest)
        owner->newest->newer = block;
    owner->newest = block;
    owner->count++;
    owner->bytes += size;
}

static void disown(struct heap_block *block)
{
    struct heap *owner = block->owner;
    block->mark[0] = MARK_DEAD;
    if (!owner)
        return;
    if (block->newer)
        block->newer->older = block->older;
    else
        owner->newest = block->older;
    if (block->older)
        block->older->newer = block->newer;
    owner->count--;
    owner->bytes -= block->size;
}

static struct heap_block *block_of(void *bytes)
{
    struct heap_block *block = (struct heap_block *)bytes - 1;
    check(block->mark[0] == MARK_LIVE);
    return block;
}

/* ---- Allocating and freeing blocks --------------------------------------------------- */

/* The size class for this many bytes; KINDS if the block needs its own size. */
static unsigned kind_of(size_t size)
{
    unsigned kind = size <= 64 ? 0 : 58 - (unsigned)__builtin_clzll(size - 1);
    return KEEP_FREED && kind < KINDS ? kind : KINDS;
}

static struct heap_block *get_block(size_t size)
{
    unsigned kind = kind_of(size);
    struct heap_block *block = spare[kind];
    if (block)
        spare[kind] = block->older;
    else
        block = __real_malloc(sizeof *block + (kind < KINDS ? KIND_BYTES(kind) : size));
    return block;
}

static void put_block(struct heap_block *block)
{
    unsigned kind = kind_of(block->size);
    if (kind == KINDS) {
        __real_free(block);
        return;
    }
    block->older = spare[kind];
    spare[kind] = block;
}

/* Resizes the block to this many bytes, in place if possible. Returns NULL if memory runs
 * out; the block is then unchanged. */
static struct heap_block *resize_block(struct heap_block *block, size_t size)
{
    unsigned kind = kind_of(size), kind_before = kind_of(block->size);
    if (kind == KINDS && kind_before == KINDS)
        return __real_realloc(block, sizeof *block + size);
    if (kind == kind_before)
        return block;
    struct heap_block *moved = get_block(size);
    if (moved) {
        memcpy(moved + 1, block + 1, block->size < size ? block->size : size);
        put_block(block);
    }
    return moved;
}

/* Whether this allocation must fail, or cannot be served. */
static bool refuse(size_t size)
{
    if (size > PTRDIFF_MAX - sizeof(struct heap_block))
        return true;
    return current && current->fail_in > 0 && --current->fail_in == 0;
}

struct heap *heap_enter(struct heap *heap)
{
    struct heap *before = current;
    current = heap;
    return before;
}

void heap_drop(struct heap *heap)
{
    while (heap->newest) {
        struct heap_block *block = heap->newest;
        disown(block);
        put_block(block);
    }
    check(heap->count == 0 && heap->bytes == 0);
}

/* ---- Replacements for libc functions ------------------------------------------------- */

void *__wrap_malloc(size_t size)
{
    struct heap_block *block = refuse(size) ? NULL : get_block(size);
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    adopt(block, current, size);
    return block + 1;
}

void *__wrap_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    void *bytes = __wrap_malloc(total);
    return bytes ? memset(bytes, 0, total) : NULL;
}

/* The block keeps its owner. */
void *__wrap_realloc(void *bytes, size_t size)
{
    if (!bytes)
        return __wrap_malloc(size);
    struct heap_block *block = block_of(bytes);
    struct heap *owner = block->owner;
    size_t old_size = block->size;
    disown(block);
    struct heap_block *moved = refuse(size) ? NULL : resize_block(block, size);
    adopt(moved ? moved : block, owner, moved ? size : old_size);
    return moved ? moved + 1 : NULL;
}

void *__wrap_reallocarray(void *bytes, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return __wrap_realloc(bytes, total);
}

void __wrap_free(void *bytes)
{
    if (!bytes)
        return;
    struct heap_block *block = block_of(bytes);
    disown(block);
    put_block(block);
}

char *__wrap_strndup(const char *text, size_t max)
{
    size_t size = strnlen(text, max);
    char *copy = __wrap_malloc(size + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

char *__wrap_strdup(const char *text)
{
    return __wrap_strndup(text, SIZE_MAX - 1);
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = size < 0 ? NULL : __wrap_malloc((size_t)size + 1);
    if (!text)
        return -1;
    vsnprintf(text, (size_t)size + 1, format, arguments);
    *ret_text = text;
    return size;
}

int __wrap_asprintf(char **ret_text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = __wrap_vasprintf(ret_text, format, arguments);
    va_end(arguments);
    return size;
}

/* Simulated code must not need a stricter alignment than malloc provides. */
int __wrap_posix_memalign(void **ret_bytes, size_t alignment, size_t size)
{
    void *bytes = alignment > alignof(max_align_t) ? NULL : __wrap_malloc(size);
    if (!bytes)
        return ENOMEM;
    *ret_bytes = bytes;
    return 0;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return alignment > alignof(max_align_t) ? NULL : __wrap_malloc(size);
}

char *__wrap_realpath(const char *path, char *resolved)
{
    char space[PATH_MAX];
    if (resolved)
        return __real_realpath(path, resolved);
    return __real_realpath(path, space) ? __wrap_strdup(space) : NULL;
}
