/* tidier.h: ties up the loose ends of requests that had no answer: what may or may not stand in a
 * table, and must not. A task of its own, so that a table that hangs costs no lease its renewal. */
#ifndef LOCK_TIDIER_H
#define LOCK_TIDIER_H

#include "env/env.h"
#include "lease/table.h"

struct hf_client;
struct loose_end;
struct place;

#define LOOSE_ENDS_MAX 4096

struct tidier {
    struct env_mutex mutex; /* guards what follows */
    struct env_cond changed;
    struct loose_end *first;
    size_t count;
    bool stopping;
    struct mono_time stop_at; /* once stopping: give up the rest */
    struct env_task *task;
};

void tidier_init(struct tidier *tidier, struct env *env);

/* Waits until nothing is left to end, for a few seconds at most. */
void tidier_wait(struct hf_client *client);

/* Goes on for a few seconds at most, and ends the task. */
void tidier_release(struct hf_client *client);

/* Ends a lease, or a place in line, in the background, until that is settled or nobody could
 * mistake it for held: `ttl` after now. Takes one use of the place over. `note` is copied. */
void tie_up(struct place *place, enum table_op_kind kind, struct view id, uint64_t token,
            struct view note, struct span ttl);

#endif
