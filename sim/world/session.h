/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: which sessions of the nodes' clients hold a lock of the kernel on the store's
 * `present` file, for a store on the nodes' own machine (src/store/session.h). A lock ends with the
 * incarnation of the node that holds it. Now and then a session cannot join, or the file is
 * removed; the next session then makes another one, in which no earlier session can be seen. */
#ifndef SIM_WORLD_SESSION_H
#define SIM_WORLD_SESSION_H

#include "sim/world/world.h"
#include "store/session.h"

struct sessions;

struct sessions *sessions_new(struct world *world);
void sessions_free(struct sessions *sessions);

/* Like the operations of a store with these names. */
bool sessions_enter(struct sessions *sessions, struct node *node, const char *id,
                    char *ret_place);
bool sessions_gone(const struct sessions *sessions, const char *place, struct view id);

#endif
