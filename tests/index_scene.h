/* SPDX-License-Identifier: Apache-2.0 */
/* index_scene.h: two crews at one index: one behind a gate and a store that fails, one past
 * them. */
#ifndef TESTS_INDEX_SCENE_H
#define TESTS_INDEX_SCENE_H

#include "index/cursor.h"
#include "index_crew.h"

#include <stdatomic.h>

struct scene {
    struct yard yard;
    struct script gate;
    struct crew crew, other;
    struct hf_error error;
    /* What was listed through the gate. */
    struct buffer listed;
    size_t told, ended[HF_INDEX_END_STOPPED + 1];
    atomic_bool stop;
};

/* Lets others act, once, before a call of this kind whose key has this part. */
void scene_happens(struct scene *scene, enum call_kind kind, const char *part,
                   void (*act)(void *scene));

int scene_set_up(void **state);
int scene_tear_down(void **state);

#define A3           ((struct shard_id){ "a3" })
#define SHARD_OBJECT "shards/a3.usv"

/* A record with this value, as of this hour. "example.com" belongs to shard a3. */
#define AT(key, value, hour) key US value US "2026-02-06T" hour ":00:00Z"

#define COMPILES(sentence, function)                                \
    {                                                               \
        (sentence), (function), scene_set_up, scene_tear_down, NULL \
    }

/* How many keys the index has, and how many entries wait in a shard's folder. */
uint64_t scene_keys(struct scene *scene);
size_t scene_waiting(struct scene *scene, struct shard_id shard);

/* The second field of a key's record; "" if there is none. Read through the gate. */
const char *scene_value(struct scene *scene, const char *key);

/* Deletes a key past the gate, as of this time; NULL: now. */
void scene_delete(struct scene *scene, const char *key, const char *time);

/* What a reader past the gate knows about shard a3; without its blocks. */
struct shard_head scene_head(struct scene *scene);

#endif
