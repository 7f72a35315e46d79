/* buffer.h: bytes that we own and that grow up to a bound and no further.
 *
 * Appending past the bound, or without memory, marks the buffer as failed and changes nothing
 * else; a long run of appends may be checked once at its end. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/view.h"

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;
    size_t size;
    size_t capacity;
    size_t max;
    bool failed;
};

#define BUFFER_INIT(bound) ((struct buffer){ .max = (bound) })

void buffer_release(struct buffer *buffer);

/* Empties it, keeps the memory, forgets a failure. */
void buffer_clear(struct buffer *buffer);

bool buffer_reserve(struct buffer *buffer, size_t extra);
bool buffer_append(struct buffer *buffer, struct view bytes);
bool buffer_append_byte(struct buffer *buffer, char byte);
__attribute__((format(printf, 2, 3))) bool buffer_print(struct buffer *buffer,
                                                        const char *format, ...);

static inline struct view buffer_view(const struct buffer *buffer)
{
    return (struct view){ buffer->size ? buffer->data : "", buffer->size };
}

/* The contents as a C string, with a NUL behind them; NULL when that failed. */
const char *buffer_text(struct buffer *buffer);

#endif
