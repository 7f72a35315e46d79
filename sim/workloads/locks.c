/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c: named locks (exclusive, shared, and with slots): waiters, renewals whose requests are
 * lost, breaks, adoption, and work that is done once per period. */
#include "base/layout.h"
#include "sim/workloads/lock_work.h"

/* In one of this many seeds, the namespace already exists, most reads come from a cache, and
 * clients crash often. */
#define IN_PLACE_EVERY       4
#define CACHED_DATE_CHANCE   700000
#define CRASH_AT_CALL_CHANCE 8000

static const struct lock_wish wishes[] = {
    { "default/meta/once.json", { "named:once" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/door.json", { "named:door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/door.json", { "door" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_EXCLUSIVE, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/meta/book.json", { "named:book" }, 1, HF_SHARED, 0 },
    { "default/meta/pool.json", { "named:pool" }, 1, HF_SLOTS, 2 },
    { "default/meta/pool.json", { "named:pool" }, 1, HF_SLOTS, 2 },
};

/* Puts the epoch document of an existing namespace. It records a lease limit without an end, like a
 * client that takes over only by watching. A new client then needs no write before its first grant,
 * and if all its reads came from a cache, it does not know the store time. */
static void put_epoch(struct run *run)
{
    static const char *const keys[] = {
        LAYOUT_EPOCH_COPY_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json",
        LAYOUT_EPOCH_FOLDER LAYOUT_NAMESPACE_DEFAULT ".json",
    };
    static const char body[] =
        "{ \"format\": \"" LAYOUT_EPOCH_FORMAT "\", \"epoch\": 3, \"write\": \"before\", "
        "\"pair\": \"before\", "
        "\"longest\": { \"names\": { \"12000\": \"0000000000000000:0\" }, "
        "\"inodes\": { }, \"paths\": { }, \"chunks\": { } } }\n";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct put_call put = { .key = view_of(keys[i]), .body = view_of(body) };
        bucket_put(net_bucket(run->net), &put);
    }
}

static bool draw_in_place(const struct world *world)
{
    struct prng prng = world_stream(world, STREAM_WORKLOAD + 1);
    return prng_below(&prng, IN_PLACE_EVERY) == 0;
}

static void tune(struct run *run, struct plans *plans)
{
    lock_work_tune(run, plans);
    if (!draw_in_place(run->world) || plans->chaos.until.us == 0)
        return;
    plans->net.plan.cached_date_chance = CACHED_DATE_CHANCE;
    plans->chaos.crash_at_call_chance = CRASH_AT_CALL_CHANCE;
}

static void *start(struct run *run)
{
    struct lock_work *work =
        lock_work_new(run, wishes, sizeof wishes / sizeof *wishes, /* once_per */ true);
    if (draw_in_place(run->world))
        put_epoch(run);
    return work;
}

static void checker(struct run *run, void *state)
{
    (void)run;
    lock_work_end(state);
}

static void free_state(void *state)
{
    lock_work_free(state);
}

const struct workload workload_locks = {
    .name = "locks",
    .about = "nodes wait for, hold and lose named locks; never two believe to hold one",
    .tune = tune,
    .start = start,
    .check_at_end = checker,
    .free = free_state,
};
