/* SPDX-License-Identifier: Apache-2.0 */
/* view.h: a range of bytes that is owned elsewhere. Keys, ETags and bodies carry their length and
 * need no terminating NUL. */
#ifndef BASE_VIEW_H
#define BASE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct view {
    const char *data;
    size_t size;
};

/* For string literals only: sizeof counts their bytes. */
#define VIEW(literal) ((struct view){ "" literal "", sizeof(literal) - 1 })

/* printf("%.*s", VIEW_ARGS(v)) */
#define VIEW_ARGS(v) ((int)(v).size), (v).data

static inline struct view view_of(const char *text)
{
    return (struct view){ text, strlen(text) };
}

static inline bool view_equal(struct view a, struct view b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool view_starts_with(struct view whole, struct view start)
{
    return whole.size >= start.size &&
           (start.size == 0 || memcmp(whole.data, start.data, start.size) == 0);
}

static inline bool view_ends_with(struct view whole, struct view end)
{
    return whole.size >= end.size &&
           (end.size == 0 ||
            memcmp(whole.data + whole.size - end.size, end.data, end.size) == 0);
}

/* Byte order. A proper prefix sorts before the longer text. */
int view_compare(struct view a, struct view b);

static inline struct view view_from(struct view v, size_t offset)
{
    size_t skipped = offset < v.size ? offset : v.size;
    return (struct view){ skipped ? v.data + skipped : v.data, v.size - skipped };
}

static inline struct view view_first(struct view v, size_t count)
{
    return (struct view){ v.data, count < v.size ? count : v.size };
}

/* The position of the first occurrence of the byte, or v.size. */
static inline size_t view_find(struct view v, char byte)
{
    const char *at = v.size == 0 ? NULL : memchr(v.data, byte, v.size);
    return at == NULL ? v.size : (size_t)(at - v.data);
}

/* Returns the part before the first `separator`; *rest becomes the part after it. If there is no
 * separator, returns all of it, and *rest becomes empty. */
static inline struct view view_cut(struct view *rest, char separator)
{
    size_t at = view_find(*rest, separator);
    struct view head = view_first(*rest, at);
    *rest = view_from(*rest, at + 1);
    return head;
}

#endif
