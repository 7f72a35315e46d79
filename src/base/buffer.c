/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c: bytes that grow up to a bound. A failed append is remembered, so many appends need
 * only one check. */
#include "base/buffer.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buffer_release(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = BUFFER_INIT(buffer->max);
}

void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

bool buffer_reserve(struct buffer *buffer, size_t extra)
{
    check(buffer->size <= buffer->max);
    if (buffer->failed || extra > buffer->max - buffer->size ||
        buffer->size + extra >= SIZE_MAX / 4)
        goto fail;
    /* buffer_print and buffer_text store their NUL in one more byte, which the bound does not
     * count. */
    size_t needed = buffer->size + extra + 1;
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity * 2;
    if (capacity > buffer->max)
        capacity = buffer->max + 1;
    if (capacity < needed)
        capacity = needed;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        goto fail;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
fail:
    buffer->failed = true;
    return false;
}

/* Writes the digits from last to first, ending at `end`, and returns their start. Two at a time,
 * because the divisions depend on each other. */
static char *write_digits(char *end, uint64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    for (; number >= 100; number /= 100)
        memcpy(end -= 2, pairs + 2 * (number % 100), 2);
    if (number >= 10)
        memcpy(end -= 2, pairs + 2 * number, 2);
    else
        *--end = (char)('0' + number);
    return end;
}

bool buffer_append_u64(struct buffer *buffer, uint64_t number)
{
    char digits[sizeof "18446744073709551615"];
    char *end = digits + sizeof digits;
    char *start = write_digits(end, number);
    return buffer_append(buffer, (struct view){ start, (size_t)(end - start) });
}

bool buffer_append_i64(struct buffer *buffer, int64_t number)
{
    char digits[sizeof "-9223372036854775808"];
    char *end = digits + sizeof digits;
    char *start = write_digits(end, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
    if (number < 0)
        *--start = '-';
    return buffer_append(buffer, (struct view){ start, (size_t)(end - start) });
}

bool buffer_print(struct buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int needed = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = needed >= 0 && buffer_reserve(buffer, (size_t)needed);
    if (ok) {
        vsnprintf(buffer->data + buffer->size, (size_t)needed + 1, format, again);
        buffer->size += (size_t)needed;
    }
    va_end(again);
    buffer->failed = buffer->failed || !ok;
    return ok;
}

const char *buffer_text(struct buffer *buffer)
{
    if (!buffer_reserve(buffer, 0))
        return NULL;
    buffer->data[buffer->size] = '\0';
    return buffer->data;
}
