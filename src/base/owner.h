/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h: the client of a server that a lease was granted to. The holder of such a lease is the
 * server, and its note names the client: {"owner":"ci-7"}. */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H

#include "base/arena.h"
#include "base/view.h"

#include <stdbool.h>

/* The owner in a note, with its escapes. False: there is none. A note of another program may be
 * anything. */
bool owner_find(const char *note, struct view *ret_owner);

/* The owner in a note, or else the holder; NULL if memory runs out. */
const char *owner_text(struct arena *arena, const char *note, const char *holder);

#endif
