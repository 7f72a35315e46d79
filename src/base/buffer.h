/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h: bytes that grow up to a bound.
 *
 * An append that would exceed the bound, or for which there is no memory, marks the buffer as
 * failed and changes nothing else. So a caller may check a long series of appends once, at the
 * end. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t max;
    bool failed;
};

#define BUFFER_INIT(bound) ((struct buffer){ .max = (bound) })

void buffer_release(struct buffer *buffer);

/* Empties the buffer, keeps its memory, and clears a failure. */
void buffer_clear(struct buffer *buffer);

bool buffer_reserve(struct buffer *buffer, size_t extra);

/* Inline, because encoders append pieces whose sizes the compiler knows. */
static inline bool buffer_append(struct buffer *buffer, struct view bytes)
{
    bool fits = !buffer->failed && bytes.size < buffer->capacity - buffer->size &&
                bytes.size <= buffer->max - buffer->size;
    if (!fits && !buffer_reserve(buffer, bytes.size))
        return false;
    if (bytes.size)
        memcpy(buffer->data + buffer->size, bytes.data, bytes.size);
    buffer->size += bytes.size;
    return true;
}

static inline bool buffer_append_byte(struct buffer *buffer, char byte)
{
    return buffer_append(buffer, (struct view){ &byte, 1 });
}

/* Appends the number in decimal. Many times faster than buffer_print. */
bool buffer_append_u64(struct buffer *buffer, uint64_t number);
bool buffer_append_i64(struct buffer *buffer, int64_t number);

__attribute__((format(printf, 2, 3))) bool buffer_print(struct buffer *buffer,
                                                        const char *format, ...);

static inline struct view buffer_view(const struct buffer *buffer)
{
    return (struct view){ buffer->size ? buffer->data : "", buffer->size };
}

/* The contents as a C string, with a terminating NUL; NULL if memory runs out. */
const char *buffer_text(struct buffer *buffer);

#endif
