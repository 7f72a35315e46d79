/* SPDX-License-Identifier: Apache-2.0 */
/* probe_turn.h: which of many clients that open a new bucket at the same time probes its store.
 *
 * Each of them puts an object with a random name into one folder, and then lists the folder. The
 * client whose name comes first probes at once. Each of the others waits for as long as those
 * before it would need one after another, in case they have died, and meanwhile looks for a
 * verdict. A client that is alone sends three requests besides the probe.
 *
 * It only saves requests: clients that probe at the same time do not disturb each other. */
#ifndef STORE_PROBE_TURN_H
#define STORE_PROBE_TURN_H

#include "store/store.h"

/* Clients that are further behind do not wait for longer: by then, all those before them have had
 * their time. */
#define PROBE_TURNS_AHEAD 4

struct probe_turn {
    size_t count;                         /* 0: the client's object could not be put */
    char keys[1 + PROBE_TURNS_AHEAD][64]; /* its own object, and those before it */
};

/* How long to wait before the probe; 0 if the client is the first, or if that is not known. */
struct span probe_turn_take(struct store *store, struct probe_turn *turn);

/* Deletes the object. If the client has probed, it also deletes those of the clients that it has
 * waited for, which would delay the next one again. */
void probe_turn_end(struct store *store, const struct probe_turn *turn, bool probed);

#endif
