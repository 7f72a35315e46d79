/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c: wraps the allocation functions of our own code, and fails the one that a test
 * chooses. */
#include "alloc.h"

#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

/* The number of the allocation that fails; none while it is negative. */
static atomic_long fail_at = -1;
static atomic_long seen;

void alloc_fail_after(long count)
{
    atomic_store(&seen, 0);
    atomic_store(&fail_at, count);
}

bool alloc_stop(void)
{
    long at = atomic_exchange(&fail_at, -1);
    return at >= 0 && atomic_load(&seen) > at;
}

long alloc_count(void)
{
    return atomic_load(&seen);
}

static bool fails(void)
{
    return atomic_fetch_add(&seen, 1) == atomic_load(&fail_at);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails() ? NULL : __real_strndup(text, size);
}
