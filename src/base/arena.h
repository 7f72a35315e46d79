/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h: memory that is freed all at once, for data that lives as long as one request or one
 * page. Long-lived state never points into an arena. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/view.h"

struct arena_block;

struct arena {
    struct arena_block *newest;
};

#define ARENA_INIT ((struct arena){ NULL })

/* An arena whose first bytes are in memory of the caller, aligned for any type, which must stay
 * valid until the arena is released. A short request then needs no memory of its own. */
struct arena arena_in(void *space, size_t size);

void arena_release(struct arena *arena);

/* Aligned for any type. NULL if memory runs out. */
void *arena_take(struct arena *arena, size_t size);

/* A copy, followed by a NUL that is not counted in its size. data is NULL if memory runs out. */
struct view arena_copy(struct arena *arena, struct view bytes);

#endif
