/* index_act.c: those who compile and read in workload `index`. */
#include "base/check.h"
#include "sim/index_work.h"

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
    return options;
}

static void tell(void *argument, const struct compile_report *report)
{
    const struct indexer *indexer = argument;
    if (report->end == COMPILE_NOTHING)
        return;
    /* Its lease may end early: some are shorter than what is in doubt about the store's clock. */
    if (report->why.status == HF_FENCED && indexer->alone)
        world_fail(indexer->work->run->world, "shard %s is fenced by nobody: %s",
                   report->shard.text, report->why.why);
    INDEXER_TRACE(indexer,
                  "node %u: compiles shard %s with token %" PRIu64 ": %s, %" PRIu64
                  " entries, %" PRIu64 " folds, %" PRIu64 " aside, %" PRIu64 " left%s%s",
                  node_number(indexer->node), report->shard.text, report->token,
                  compile_end_name(report->end), report->entries, report->folds, report->aside,
                  report->clear.left, report->why.status == HF_OK ? "" : ": ",
                  report->why.status == HF_OK ? "" : hf_status_name(report->why.status));
}

/* The shard of this key. */
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

/* All shards, once or until somebody stops it. */
static void compile_some(struct indexer *indexer)
{
    struct stopping stopping = { indexer, 1 + indexer_below(indexer, STOP_AFTER_MAX) };
    struct compile_options options = indexer_options(indexer);
    struct compile_totals totals;
    struct hf_error error;
    bool watches = indexer_one_in(indexer, 2);
    options.once = !watches;
    options.stop = watches || indexer_one_in(indexer, 3) ? stop : NULL;
    options.tell = tell_stopping;
    options.argument = &stopping;
    enum hf_status status = index_compile(indexer->index, &options, &totals, &error);
    INDEXER_TRACE(indexer, "node %u: has compiled %" PRIu64 " entries, and is told %s",
                  node_number(indexer->node), totals.entries, hf_status_name(status));
}

static enum hf_status compile_once(struct indexer *indexer, struct compile_totals *totals)
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
    struct compile_totals totals;
    return compile_once(indexer, &totals) == HF_OK &&
           judge_index_entries(indexer->work->judge) == 0;
}

/* ---- Reading --------------------------------------------------------------------------- */

static void get(struct indexer *indexer, size_t key)
{
    struct judge_index *judge = indexer->work->judge;
    struct buffer bytes = BUFFER_INIT(RECORD_MAX);
    struct hf_error error;
    uint64_t began = judge_index_now(judge);
    enum hf_status status = index_get(indexer->index, index_plan_key(key), &bytes, &error);
    INDEXER_TRACE(indexer, "node %u: gets key %zu, and is told %s: %s",
                  node_number(indexer->node), key, hf_status_name(status),
                  status == HF_OK ? trace_text(buffer_view(&bytes)).text : "");
    judge_index_told_get(judge, began, index_plan_key(key), status, buffer_view(&bytes));
    buffer_release(&bytes);
}

static enum hf_status show(void *argument, const struct record *record, struct hf_error *error)
{
    (void)error;
    judge_index_shows(argument, record->bytes);
    return HF_OK;
}

enum walk_what { WALK_ALL, WALK_SOME, WALK_PREFIX };

static void walk(struct indexer *indexer, enum walk_what what)
{
    struct judged_walk walk = { .prefix = "" };
    struct index_query query = { 0 };
    struct index_visitor visitor = { .show = show, .argument = &walk };
    struct walk_totals totals;
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
    judge_index_walks(indexer->work->judge, &walk);
    enum hf_status status = index_walk(indexer->index, &query, &visitor, &totals, &error);
    INDEXER_TRACE(indexer, "node %u: has walked shard '%s' from '%s' on, and is told %s",
                  node_number(indexer->node), walk.shard, walk.prefix, hf_status_name(status));
    judge_index_walked(&walk, status);
}

static void count(struct indexer *indexer)
{
    struct judge_index *judge = indexer->work->judge;
    struct index_visitor visitor = { .show = NULL };
    struct hf_error error;
    uint64_t found = 0;
    uint64_t began = judge_index_now(judge);
    enum hf_status status =
        index_count(indexer->index, /* query */ NULL, &visitor, &found, &error);
    INDEXER_TRACE(indexer, "node %u: counts %" PRIu64 " keys, and is told %s",
                  node_number(indexer->node), found, hf_status_name(status));
    judge_index_told_count(judge, began, status, found);
}

void indexer_check_all(struct indexer *indexer)
{
    struct judge_index *judge = indexer->work->judge;
    struct compile_totals totals;
    uint64_t before = judge_index_now(judge);
    enum hf_status status = compile_once(indexer, &totals);
    if (status != HF_OK || judge_index_now(judge) != before)
        world_fail(indexer->work->run->world,
                   "a compile of an empty inbox is told %s and changes %" PRIu64 " objects",
                   hf_status_name(status), judge_index_now(judge) - before);
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

/* Node 1: another program's entry is folded and cleared, and then the program writes an older
 * record under the same name, which stays for a while. The other nodes read meanwhile. */
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

/* ---- What a node does ------------------------------------------------------------------ */

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

/* With a handle of its own: one is used by one task at a time. */
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
