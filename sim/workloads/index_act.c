/* SPDX-License-Identifier: Apache-2.0 */
/* index_act.c: the nodes of workload `index` that compile and read. */
#include "base/check.h"
#include "sim/workloads/index_work.h"

#include <inttypes.h>
#include <stdlib.h>

#define STOP_AFTER_MAX 12
#define FEW_MAX        6
#define READS          6
#define BACKS          3
#define RECORD_MAX     MIB

/* ---- Compiling ------------------------------------------------------------------------- */

struct compile_options indexer_options(const struct indexer *indexer)
{
    struct compile_options options = COMPILE_OPTIONS;
    options.ttl = SPAN_MS(indexer->work->plan.ttl_ms);
    options.batch_entries = indexer->work->plan.batch;
    options.few = (size_t)indexer_below(indexer, FEW_MAX);
    options.poll = SPAN_S(1);
    if (indexer_one_in(indexer, 3))
        options.batch_bytes = 1 + indexer_below(indexer, 200);
    if (indexer->work->plan.deletes)
        options.keep_deleted = index_keep_deleted(&indexer->work->plan);
    return options;
}

static void tell(void *argument, const struct compile_report *report)
{
    const struct indexer *indexer = argument;
    if (report->end == HF_INDEX_END_NOTHING)
        return;
    /* The lease may end early, because some leases are shorter than the uncertainty of the store
     * time. */
    if (report->why.status == HF_FENCED && indexer->alone)
        world_fail(indexer->work->run->world, "shard %s is fenced by nobody: %s",
                   report->shard.text, report->why.why);
    INDEXER_TRACE(indexer,
                  "node %u: compiles shard %s with token %" PRIu64 ": %s, %" PRIu64
                  " entries, %" PRIu64 " folds, %" PRIu64 " aside, %" PRIu64 " left%s%s",
                  node_number(indexer->node), report->shard.text, report->token,
                  hf_index_end_name(report->end), report->entries, report->folds, report->aside,
                  report->clear.left, report->why.status == HF_OK ? "" : ": ",
                  report->why.status == HF_OK ? "" : hf_status_name(report->why.status));
}

/* Compiles the shard of this key. */
static void compile_one(struct indexer *indexer, size_t key)
{
    struct compile_options options = indexer_options(indexer);
    struct shard_id shard = shard_of_key(index_plan_key(key), SIM_INDEX_DIGITS);
    struct entry_list flat;
    struct compile_report report;
    struct hf_error error;
    if (inbox_list_flat(indexer->index, shard, &flat, &error) != HF_OK)
        return;
    compile_shard(indexer->index, &options, shard, flat.entries, flat.count, &report);
    tell(indexer, &report);
    entry_list_release(&flat);
}

struct stopping {
    struct indexer *indexer;
    uint64_t left;
};

static bool stop(void *argument)
{
    struct stopping *stopping = argument;
    return stopping->left == 0 || stopping->left-- == 0;
}

static void tell_stopping(void *argument, const struct compile_report *report)
{
    const struct stopping *stopping = argument;
    tell(stopping->indexer, report);
}

/* Compiles all shards, once or until it is stopped. */
static void compile_some(struct indexer *indexer)
{
    struct stopping stopping = { indexer, 1 + indexer_below(indexer, STOP_AFTER_MAX) };
    struct compile_options options = indexer_options(indexer);
    struct hf_index_compile_report totals;
    struct hf_error error;
    bool watches = indexer_one_in(indexer, 2);
    options.once = !watches;
    options.stop = watches || indexer_one_in(indexer, 3) ? stop : NULL;
    options.tell = tell_stopping;
    options.argument = &stopping;
    enum hf_status status = index_compile(indexer->index, &options, &totals, &error);
    INDEXER_TRACE(indexer, "node %u: has compiled %" PRIu64 " entries, and is told %s",
                  node_number(indexer->node), totals.folded.entries, hf_status_name(status));
}

static enum hf_status compile_once(struct indexer *indexer,
                                   struct hf_index_compile_report *totals)
{
    struct compile_options options = indexer_options(indexer);
    struct hf_error error;
    options.once = true;
    options.tell = tell;
    options.argument = indexer;
    return index_compile(indexer->index, &options, totals, &error);
}

bool indexer_compile_all(struct indexer *indexer)
{
    struct hf_index_compile_report totals;
    return compile_once(indexer, &totals) == HF_OK &&
           index_checker_entries(indexer->work->checker) == 0;
}

/* ---- Reading --------------------------------------------------------------------------- */

static void get(struct indexer *indexer, size_t key)
{
    struct index_checker *checker = indexer->work->checker;
    struct buffer bytes = BUFFER_INIT(RECORD_MAX);
    struct hf_error error;
    uint64_t began = index_checker_now(checker);
    enum hf_status status = index_get(indexer->index, index_plan_key(key), &bytes, &error);
    INDEXER_TRACE(indexer, "node %u: gets key %zu, and is told %s: %s",
                  node_number(indexer->node), key, hf_status_name(status),
                  status == HF_OK ? trace_text(buffer_view(&bytes)).text : "");
    index_checker_told_get(checker, began, index_plan_key(key), status, buffer_view(&bytes));
    buffer_release(&bytes);
}

/* Several keys in one pass. */
struct many_gets {
    struct indexer *indexer;
    uint64_t began;
    const size_t *keys;
};

static enum hf_status take_one(void *argument, size_t number, const struct record *record,
                               const struct hf_error *why, struct hf_error *error)
{
    const struct many_gets *gets = argument;
    (void)error;
    index_checker_told_get(gets->indexer->work->checker, gets->began,
                           index_plan_key(gets->keys[number]), why->status,
                           record ? record->bytes : VIEW(""));
    return HF_OK;
}

static void get_many(struct indexer *indexer)
{
    size_t keys[INDEX_KEYS];
    struct view texts[INDEX_KEYS];
    size_t count = 1 + (size_t)indexer_below(indexer, indexer->work->plan.keys);
    for (size_t i = 0; i < count; i++) {
        keys[i] = (size_t)indexer_below(indexer, indexer->work->plan.keys);
        texts[i] = index_plan_key(keys[i]);
    }
    struct many_gets gets = { indexer, index_checker_now(indexer->work->checker), keys };
    const struct index_getter getter = { take_one, &gets };
    struct hf_error error;
    enum hf_status status = index_get_many(indexer->index, texts, count, &getter, &error);
    INDEXER_TRACE(indexer, "node %u: gets %zu keys, and is told %s", node_number(indexer->node),
                  count, hf_status_name(status));
}

static enum hf_status show(void *argument, const struct record *record, struct hf_error *error)
{
    (void)error;
    index_checker_shows(argument, record->bytes);
    return HF_OK;
}

enum walk_what { WALK_ALL, WALK_SOME, WALK_PREFIX };

static void walk(struct indexer *indexer, enum walk_what what)
{
    struct checked_walk walk = { .prefix = "" };
    struct index_query query = { 0 };
    struct index_visitor visitor = { .show = show, .argument = &walk };
    struct hf_index_progress totals;
    struct hf_error error;
    bool all = what == WALK_ALL;
    if (what == WALK_PREFIX || (!all && indexer_one_in(indexer, 4)))
        walk.prefix[0] = 'a';
    if (!all && indexer_one_in(indexer, 4)) {
        walk.since_given = query.since_given = true;
        walk.since = query.since = (struct instant){ WORLD_EPOCH_US / 1000000 + 1, 0 };
    }
    if (!all && !indexer_one_in(indexer, 6)) {
        size_t key = (size_t)indexer_below(indexer, indexer->work->plan.keys);
        query.shard = shard_of_key(index_plan_key(key), SIM_INDEX_DIGITS);
        snprintf(walk.shard, sizeof walk.shard, "%s", query.shard.text);
    }
    query.prefix = view_of(walk.prefix);
    index_checker_walks(indexer->work->checker, &walk);
    enum hf_status status = index_walk(indexer->index, &query, &visitor, &totals, &error);
    INDEXER_TRACE(indexer, "node %u: has walked shard '%s' from '%s' on, and is told %s",
                  node_number(indexer->node), walk.shard, walk.prefix, hf_status_name(status));
    index_checker_walked(&walk, status);
}

static void count(struct indexer *indexer)
{
    struct index_checker *checker = indexer->work->checker;
    struct index_visitor visitor = { .show = NULL };
    struct hf_error error;
    uint64_t found = 0;
    uint64_t began = index_checker_now(checker);
    enum hf_status status =
        index_count(indexer->index, /* query */ NULL, &visitor, &found, &error);
    INDEXER_TRACE(indexer, "node %u: counts %" PRIu64 " keys, and is told %s",
                  node_number(indexer->node), found, hf_status_name(status));
    index_checker_told_count(checker, began, status, found);
}

void indexer_check_all(struct indexer *indexer)
{
    struct index_checker *checker = indexer->work->checker;
    struct hf_index_compile_report totals;
    uint64_t before = index_checker_now(checker);
    enum hf_status status = compile_once(indexer, &totals);
    if (status != HF_OK || index_checker_now(checker) != before)
        world_fail(indexer->work->run->world,
                   "a compile of an empty inbox is told %s and changes %" PRIu64 " objects",
                   hf_status_name(status), index_checker_now(checker) - before);
    for (size_t i = 0; i < indexer->work->plan.keys; i++)
        get(indexer, i);
    walk(indexer, WALK_ALL);
    count(indexer);
}

static void read_somehow(struct indexer *indexer)
{
    uint64_t what = indexer_below(indexer, 8);
    if (what < 5)
        get(indexer, (size_t)indexer_below(indexer, indexer->work->plan.keys));
    else if (what < 7)
        walk(indexer, WALK_SOME);
    else
        count(indexer);
}

/* A shard that takes several reads may be replaced between them. */
static void read_in_pieces(struct indexer *indexer)
{
    for (int i = 0; i < READS; i++)
        if (indexer_one_in(indexer, 2))
            get(indexer, (size_t)indexer_below(indexer, indexer->work->plan.keys));
        else
            walk(indexer, WALK_PREFIX);
}

/* ---- Another program ------------------------------------------------------------------- */

static void put_foreign(struct indexer *indexer)
{
    size_t key, place;
    if (!indexer->work->plan.foreign || !indexer_draw_foreign(indexer, &key, &place))
        return;
    bool back = indexer->work->plan.goes_back && indexer_one_in(indexer, 3);
    indexer_put_foreign(indexer, key, place, back ? FOREIGN_ANY_TIME : FOREIGN_LATER);
}

/* Node 1 acts as another program. Its entry is folded and cleared, and then it writes an older
 * record under the same name, which stays for a while. The other nodes read in the meantime. */
static void go_back(struct indexer *indexer)
{
    size_t key, place;
    if (node_number(indexer->node) > 1 || !indexer_draw_foreign(indexer, &key, &place)) {
        for (int i = 0; i < READS; i++)
            walk(indexer, WALK_SOME);
        return;
    }
    for (int i = 0; i < BACKS; i++) {
        indexer_put_foreign(indexer, key, place, FOREIGN_LATER);
        compile_one(indexer, key);
        indexer_put_foreign(indexer, key, place, FOREIGN_ANY_TIME);
        indexer_rest(indexer, SPAN_S(2));
    }
}

/* ---- Operations of a node -------------------------------------------------------------- */

static size_t draw_key(const struct indexer *indexer)
{
    return (size_t)indexer_below(indexer, indexer->work->plan.keys);
}

static void do_one_thing(struct indexer *indexer)
{
    uint64_t what = indexer_below(indexer, 24);
    if (!indexer_open(indexer, INDEX_FIELDS_FIRST))
        return;
    if (indexer->work->plan.fat && indexer_one_in(indexer, 2))
        read_in_pieces(indexer);
    else if (indexer->work->plan.locks_vanish && indexer_one_in(indexer, 8))
        indexer_delete_lock(indexer);
    else if (indexer->work->plan.goes_back && !indexer_one_in(indexer, 4))
        go_back(indexer);
    else if (indexer->work->plan.plain && indexer_one_in(indexer, 6))
        indexer_rewrite_plain(indexer);
    else if (indexer->work->plan.deletes && indexer_one_in(indexer, 5))
        indexer_delete(indexer);
    else if (indexer->work->plan.deletes && indexer_one_in(indexer, 8))
        get_many(indexer);
    else if (what < 8)
        indexer_put(indexer);
    else if (what < 12)
        put_foreign(indexer);
    else if (what < 17)
        compile_one(indexer, draw_key(indexer));
    else if (what < 18)
        compile_some(indexer);
    else if (what < 19)
        indexer_put_straight(indexer);
    else if (what < 20)
        indexer_extend(indexer);
    else
        read_somehow(indexer);
}

/* This task uses its own handle, because only one task at a time may use a handle. */
static void do_another_thing(void *argument)
{
    struct indexer hand = *(struct indexer *)argument;
    hand.index = NULL;
    do_one_thing(&hand);
    index_close(hand.index);
}

void indexer_act(struct indexer *indexer)
{
    struct env_task *task = NULL;
    struct hf_error error;
    if (indexer->work->plan.both_hands && indexer_one_in(indexer, 3))
        check(env_task_start(indexer->env, do_another_thing, indexer, &task, &error) == HF_OK);
    do_one_thing(indexer);
    if (task)
        env_task_join(indexer->env, task);
    indexer_rest(indexer, SPAN_S(indexer_one_in(indexer, 4) ? 8 : 1));
}
