/* SPDX-License-Identifier: Apache-2.0 */
/* compact_read.c: the readers of workload `compact`. They take a snapshot of the partition, and
 * must then find every chunk of it for as long as its pins are held, while other nodes merge, split
 * and delete. */
#include "base/check.h"
#include "compact/care/snapshot.h"
#include "sim/workloads/compact_work.h"

#include <stdlib.h>

#define SNAPSHOT_READS_MAX 20

/* The chunks that one pin of a snapshot holds, as the checker knows them. */
#define HELD_MAX 16

bool compact_read_pinned(struct actor *actor, struct checked_pin *pin, struct hf_lock *lock,
                         const char *key)
{
    struct buffer bytes = BUFFER_INIT((size_t)ROW_BYTES * ROW_MAX);
    struct get_call call = { .key = view_of(key), .body = &bytes };
    checker_adopted(actor->compact->checker, key, &call.key, &call.match);
    enum hf_status status = store_get(actor->store, &call);
    bool holds = hf_lock_check(lock, NULL) == HF_OK;
    if (holds)
        checker_read(pin, key, status, buffer_view(&bytes));
    buffer_release(&bytes);
    return holds;
}

/* Reports to the checker which chunks are pinned, and by which lock. */
static size_t report_pins(struct actor *actor, const struct snapshot *snapshot,
                          const char **keys, struct checked_pin **pins)
{
    size_t count = 0, held = 0;
    for (size_t i = 0; i < snapshot->chunk_count; i += held) {
        size_t pin = snapshot->chunks[i].pin;
        for (held = 1; held < HELD_MAX && i + held < snapshot->chunk_count; held++)
            if (snapshot->chunks[i + held].pin != pin)
                break;
        pins[count++] = checker_pinned(actor->compact->checker, actor->node,
                                       snapshot->pins[pin].lock, keys + i, held);
    }
    return count;
}

/* Splits the catalog of some chunk, so that what the snapshot contains moves. */
static void split_below(struct actor *actor, const struct snapshot *snapshot)
{
    size_t at = (size_t)actor_below(actor, snapshot->chunk_count);
    struct catalog_ref *ref;
    struct hf_error error;
    check(catalog_tree_ref(actor->tree, snapshot->chunks[at].partition, &ref, &error) == HF_OK);
    catalog_ref_split(ref, &error);
}

/* Reads some chunks of the snapshot, in any order. */
static void read_chunks(struct actor *actor, const struct snapshot *snapshot,
                        const char *const *keys, struct checked_pin *any_pin)
{
    uint64_t reads = 1 + actor_below(actor, SNAPSHOT_READS_MAX);
    if (actor->compact->plan.splits && actor_one_in(actor, 3))
        split_below(actor, snapshot);
    for (uint64_t i = 0; i < reads; i++) {
        size_t at = (size_t)actor_below(actor, snapshot->chunk_count);
        struct hf_lock *lock = snapshot->pins[snapshot->chunks[at].pin].lock;
        if (!compact_read_pinned(actor, any_pin, lock, keys[at]))
            break;
        actor_rest(actor, SPAN_S(12));
    }
}

void compact_read_snapshot(struct actor *actor)
{
    struct snapshot snapshot;
    struct hf_error error;
    int64_t asked_us = world_now_us(actor->compact->run->world);
    int64_t ttl_ms = 1500 + (int64_t)actor_below(actor, 60000); /* most survive a pause */
    if (snapshot_take(actor->tree, ttl_ms, &snapshot, &error) != HF_OK)
        return;
    size_t count = snapshot.chunk_count;
    const char **keys = calloc(count + 1, sizeof *keys);
    struct checked_pin **pins = calloc(count + 1, sizeof(struct checked_pin *));
    check(keys && pins);
    for (size_t i = 0; i < count; i++)
        keys[i] = snapshot.chunks[i].chunk.key.data; /* ends with a NUL: copied into an arena */
    size_t pin_count = report_pins(actor, &snapshot, keys, pins);
    trace_line(world_trace(actor->compact->run->world),
               "node %u: has a snapshot of %zu chunks in %zu catalogs",
               node_number(actor->node), count, snapshot.pin_count);
    checker_took_snapshot(actor->compact->checker, actor->node, keys, count, asked_us);
    if (count > 0)
        read_chunks(actor, &snapshot, keys, pins[0]);
    for (size_t i = 0; i < pin_count; i++)
        checker_unpinned(pins[i]);
    free(pins);
    free(keys);
    snapshot_release(&snapshot);
}
