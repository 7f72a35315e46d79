/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: the sessions that hold a lock on the store's `present` file. */
#include "sim/world/session.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/prng.h"
#include "sim/trace.h"
#include "sim/world/heap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One in this many sessions finds the file removed, and one in this many cannot join. */
#define REMOVED_EVERY 8
#define ALONE_EVERY   4

struct joined {
    const struct node *node;
    uint32_t life;
    uint64_t place;
    char id[NONCE_SIZE + 1];
};

struct sessions {
    struct world *world;
    struct prng prng;
    uint64_t place; /* of the file that has the name now; 0: there is none */
    struct joined *joined;
    size_t count;
};

struct sessions *sessions_new(struct world *world)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    check(sessions);
    sessions->world = world;
    sessions->prng = world_stream(world, STREAM_SESSIONS);
    (void)prng_next(&sessions->prng); /* the first draw decides whether there are sessions */
    return sessions;
}

void sessions_free(struct sessions *sessions)
{
    free(sessions->joined);
    free(sessions);
}

static void add_joined(struct sessions *sessions, const struct joined *joined)
{
    struct heap *before = heap_enter(NULL);
    if ((sessions->count & (sessions->count - 1)) == 0) {
        size_t room = sessions->count > 0 ? 2 * sessions->count : 1;
        sessions->joined = realloc(sessions->joined, room * sizeof *joined);
        check(sessions->joined);
    }
    heap_enter(before);
    sessions->joined[sessions->count++] = *joined;
}

static void place_name(uint64_t place, char ret_name[SESSION_PLACE_SIZE + 1])
{
    snprintf(ret_name, SESSION_PLACE_SIZE + 1, "%08" PRIx32, (uint32_t)place);
}

bool sessions_enter(struct sessions *sessions, struct node *node, const char *id,
                    char *ret_place)
{
    if (!id && sessions->place == 0)
        return false;
    if (id) {
        bool removed = prng_below(&sessions->prng, REMOVED_EVERY) == 0;
        bool alone = prng_below(&sessions->prng, ALONE_EVERY) == 0;
        if (removed || sessions->place == 0)
            sessions->place++;
        trace_line(world_trace(sessions->world), "node %u: session %.8s %s at place %" PRIu64,
                   node_number(node), id, alone ? "cannot join" : "joins", sessions->place);
        if (alone)
            return false;
        struct joined joined = { .node = node,
                                 .life = node_lives(node),
                                 .place = sessions->place };
        snprintf(joined.id, sizeof joined.id, "%s", id);
        add_joined(sessions, &joined);
    }
    place_name(sessions->place, ret_place);
    return true;
}

/* As with a real file, a session that is not locked there counts as gone. */
bool sessions_gone(const struct sessions *sessions, const char *place, struct view id)
{
    char name[SESSION_PLACE_SIZE + 1];
    for (size_t i = 0; i < sessions->count; i++) {
        const struct joined *joined = &sessions->joined[i];
        place_name(joined->place, name);
        if (strcmp(name, place) == 0 && view_equal(view_of(joined->id), id))
            return !node_is_up(joined->node) || node_lives(joined->node) != joined->life;
    }
    return true;
}
