#include "base/buffer.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdint.h>
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
    /* The NUL of buffer_print and buffer_text has room behind the bound. */
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

bool buffer_append(struct buffer *buffer, struct view bytes)
{
    if (!buffer_reserve(buffer, bytes.size))
        return false;
    if (bytes.size)
        memcpy(buffer->data + buffer->size, bytes.data, bytes.size);
    buffer->size += bytes.size;
    return true;
}

bool buffer_append_byte(struct buffer *buffer, char byte)
{
    return buffer_append(buffer, (struct view){ &byte, 1 });
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
