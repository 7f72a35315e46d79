/* SPDX-License-Identifier: Apache-2.0 */
/* compact_adopt.c: outside writers, and the nodes of workload `compact` that adopt what they put,
 * and that release paths for other partitions.
 * The writers are not nodes: their objects are in the bucket at once. They rewrite their objects
 * when they like, except where they promised not to and the store could not tell (own/, on a store
 * without conditional deletes). */
#include "base/check.h"
#include "base/hash.h"
#include "compact/care/release.h"
#include "compact/catalog/prefixes.h"
#include "compact/work/adopt.h"
#include "sim/workloads/compact_work.h"

#define OUTSIDE_MAX 24

/* ---- Outside writers ----------------------------------------------------------------- */

static void object_key(unsigned number, char ret_key[32])
{
    snprintf(ret_key, 32, "%s/%u", number % 2 == 0 ? "own" : "raw", number);
}

static void put_outside(struct actor *actor, unsigned number)
{
    struct compact_batch *batch = &(struct compact_batch){ .count = 1 };
    struct bucket *bucket = net_bucket(actor->compact->run->net);
    char key[32];
    compact_make_chunk(actor, batch, 0);
    object_key(number, key);
    struct heap *before = heap_enter(NULL);
    struct put_call put = { .key = view_of(key),
                            .body = { batch->bytes[0], (size_t)batch->chunks[0].size } };
    bucket_put(bucket, &put);
    heap_enter(before);
    check(put.error.status == HF_OK);
}

static void rewrite_outside(struct actor *actor)
{
    struct bucket *bucket = net_bucket(actor->compact->run->net);
    char key[32];
    if (actor->compact->outside == 0)
        return;
    unsigned number = (unsigned)actor_below(actor, actor->compact->outside);
    object_key(number, key);
    bool promised = number % 2 == 0 && !bucket_traits(bucket).delete_conditional;
    if (!promised && bucket_peek(bucket, view_of(key)).data)
        put_outside(actor, number);
}

/* ---- Adopting ------------------------------------------------------------------------ */

/* Between the look at the registered paths and the add, any amount of time may pass. In seeds with
 * a short D, a path may be released meanwhile. */
static void dawdle_unexamined(struct actor *actor)
{
    const struct compact_plan *plan = &actor->compact->plan;
    if (!plan->deletes || !actor_one_in(actor, 3))
        return;
    env_sleep(actor->env, SPAN_MS(2 * plan->settings.late_bound_ms));
    actor_rest(actor, SPAN_MS(4 * plan->settings.late_bound_ms));
}

/* The facts that a manifest would contain, from a read of the object. */
struct description {
    struct actor *actor;
    struct etag etag;
};

static bool describe(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    struct description *description = argument;
    struct row rows[COMPACT_ROWS_MAX];
    struct buffer bytes = BUFFER_INIT((size_t)ROW_BYTES * COMPACT_ROWS_MAX);
    struct get_call get = { .key = key, .body = &bytes };
    *ret_facts = (struct adopt_facts){ .etag = VIEW("") };
    dawdle_unexamined(description->actor);
    if (store_get(description->actor->store, &get) == HF_OK &&
        rows_read(buffer_view(&bytes), rows)) {
        size_t count = rows_in(buffer_view(&bytes));
        description->etag = get.info.etag;
        *ret_facts = (struct adopt_facts){ .etag = etag_view(&description->etag),
                                           .size = bytes.size,
                                           .rows_known = true,
                                           .rows = count,
                                           .min_ms = rows[0].ms,
                                           .max_ms = rows[0].ms,
                                           .crc32c = crc32c(0, buffer_view(&bytes)) };
        for (size_t i = 1; i < count; i++) {
            if (rows[i].ms < ret_facts->min_ms)
                ret_facts->min_ms = rows[i].ms;
            if (rows[i].ms > ret_facts->max_ms)
                ret_facts->max_ms = rows[i].ms;
        }
    }
    buffer_release(&bytes);
    return true;
}

static void adopt(struct actor *actor)
{
    struct catalog_checker *checker = actor->compact->checker;
    struct description description = { .actor = actor };
    bool own = actor_one_in(actor, 2);
    struct adopt_options options = { .own = own,
                                     .writer = VIEW("w"),
                                     .patience = SPAN_S(20),
                                     .describe = describe,
                                     .argument = &description };
    struct view path = own ? VIEW("own/") : VIEW("raw/");
    struct adopt_report report;
    struct hf_error error;
    checker_condemns_any(checker, actor->node, true);
    enum hf_status status = adopt_paths(actor->tree, &path, 1, &options, &report, &error);
    checker_condemns_any(checker, actor->node, false);
    trace_line(world_trace(actor->compact->run->world),
               "node %u: adopts %.*s, and is told %s: %u added, %u known, %u failed",
               node_number(actor->node), VIEW_ARGS(path), hf_status_name(status),
               (unsigned)report.added, (unsigned)report.already, (unsigned)report.failed);
}

/* Other partitions want the same paths. */
static void claim(struct actor *actor)
{
    static const char *const paths[] = {
        "raw/", "raw/1/", "raw/1", "own/", "x/", "x/y/", "x/y"
    };
    static const char *const partitions[] = { "p", "q" };
    const char *path = paths[actor_below(actor, sizeof paths / sizeof *paths)];
    const char *partition = partitions[actor_below(actor, 2)];
    struct prefix prefix = { .path = view_of(path) };
    struct catalog_tree *tree;
    struct hf_error error;
    check(catalog_tree_open(actor->store, actor->client, view_of(partition), &tree, &error) ==
          HF_OK);
    enum hf_status status = prefixes_claim(tree, &prefix, 1, &error);
    catalog_tree_close(tree);
    trace_line(world_trace(actor->compact->run->world),
               "node %u: claims %s for %s, and is told %s", node_number(actor->node), path,
               partition, hf_status_name(status));
}

/* An operator has no use for a path any more, and asks again and again. */
static void release(struct actor *actor)
{
    struct view path = actor_one_in(actor, 2) ? VIEW("own/") : VIEW("raw/");
    struct release_report report;
    struct hf_error error;
    enum hf_status status = release_path(actor->tree, path, &report, &error);
    trace_line(world_trace(actor->compact->run->world),
               "node %u: releases %.*s, and is told %s: %s, %u chunks",
               node_number(actor->node), VIEW_ARGS(path), hf_status_name(status),
               report.released ? "released" : "marked", (unsigned)report.chunks);
}

void compact_adopt_act(struct actor *actor, bool quiet)
{
    uint64_t what = actor_below(actor, 14);
    if (quiet || what >= 12)
        release(actor);
    else if (what < 4 && actor->compact->outside < OUTSIDE_MAX)
        put_outside(actor, actor->compact->outside++);
    else if (what < 6)
        rewrite_outside(actor);
    else if (what < 11)
        adopt(actor);
    else
        claim(actor);
}
