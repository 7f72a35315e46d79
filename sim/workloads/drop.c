/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c: nodes put records into an index, compile it, drop it and create it anew, while faults
 * happen. D is short, so an index is dropped and created several times in a run.
 *
 * The checker numbers the indexes of the name: a new one begins when index.json appears, or loses
 * the mark. It fails the run in these cases:
 *
 *   - A new index begins while an object of the one before is left (apart from locks, which mean
 *     nothing without their index). An entry or a shard with a record that was made before the
 *     index began arrives in it.
 *   - While the index is not marked, a shard or its manifest is deleted, or an entry whose record
 *     is not in its shard.
 *   - A put is reported as done, and the same index that it began in does not have the record.
 *   - At the end, without faults, an index cannot be dropped and created anew.
 *   - A document is changed other than by compare-and-swap (swap_checker.h). */
#include "index/drop.h"
#include "base/check.h"
#include "index/compile.h"
#include "lock/client_inside.h"
#include "sim/checkers/swap_checker.h"
#include "sim/world/skew.h"
#include "sim/world/team.h"

#include <inttypes.h>
#include <stdlib.h>

#define US          "\x1f"
#define NAME        "things"
#define FOLDER      "indexes/" NAME "/"
#define KEYS        3
#define DIGITS      1
#define OBJECTS_MAX 4096
#define TEXT_MAX    256

/* D is longer than all delays of a request together, as in `sweep`. */
#define PAUSE_MAX   SPAN_S(10)
#define SUSPEND_MAX SPAN_S(10)
#define SLOW_MAX    SPAN_S(5)
#define LATE_MAX    SPAN_S(8)
#define LATE_BOUND  SPAN_S(60)
#define UNTIL       SPAN_S(900)
#define REST_SHORT  SPAN_S(2)
#define REST_MAX    SPAN_S(90)

/* For clients that pause between two steps of a drop, while others finish it. */
#define PAUSE_AT_CALL_CHANCE 100000

#define SETTLE     SPAN_S(2 * 3600)
#define STEP       SPAN_S(600)
#define FINAL_MAX  64
#define FINAL_STEP SPAN_S(60)

/* An object of the index, other than index.json. */
struct drop_object {
    char *name;
    char key[8];     /* of an entry: its record's key, and number */
    uint64_t number; /* 0: it is not an entry */
};

struct drop_work {
    struct run *run;
    struct swap_checker *swap_checker;
    struct team team;
    struct bucket_watch watch;
    bool live;         /* index.json is there, and not marked */
    uint64_t number;   /* of the index; the first is 1 */
    uint64_t begun_at; /* the last record that was made before it began */
    uint64_t last_record;
    struct drop_object objects[OBJECTS_MAX];
    size_t object_count;
};

struct dropper {
    struct drop_work *work;
    struct node *node;
    struct env *env;
    struct store *store;
    struct hf_client *client;
    struct index *index; /* NULL: not open */
};

#define TRACE(dropper, ...) trace_line(world_trace((dropper)->work->run->world), __VA_ARGS__)

/* ---- The checker ----------------------------------------------------------------------- */

/* The records are <key> US <seconds> US <number>, and the seconds are the number. */
static uint64_t number_of(struct view record)
{
    uint64_t number = 0;
    view_cut(&record, '\x1f');
    for (struct view text = view_cut(&record, '\x1f'); text.size > 0; text = view_from(text, 1))
        if (text.data[0] >= '0' && text.data[0] <= '9')
            number = number * 10 + (uint64_t)(text.data[0] - '0');
    return number;
}

static bool has_part(struct view text, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++)
        if (memcmp(text.data + i, part, size) == 0)
            return true;
    return false;
}

/* The latest record of a key in its shard; 0: none. */
static uint64_t number_in_shard(const struct drop_work *work, struct view key)
{
    char object[TEXT_MAX];
    struct shard_id shard = shard_of_key(key, DIGITS);
    snprintf(object, sizeof object, FOLDER "shards/%s.usv", shard.text);
    struct view rest = bucket_peek(net_bucket(work->run->net), view_of(object));
    while (rest.data && rest.size > 0) {
        struct view line = view_cut(&rest, '\n'), text = line;
        if (view_equal(view_cut(&text, '\x1f'), key))
            return number_of(line);
    }
    return 0;
}

/* Whether the index has the record, or a later one of its key, in its shard or its inbox. */
static bool has_record(const struct drop_work *work, struct view key, uint64_t number)
{
    if (number_in_shard(work, key) >= number)
        return true;
    for (size_t i = 0; i < work->object_count; i++)
        if (view_equal(view_of(work->objects[i].key), key) && work->objects[i].number >= number)
            return true;
    return false;
}

static struct drop_object *find_object(struct drop_work *work, struct view name)
{
    for (size_t i = 0; i < work->object_count; i++)
        if (view_equal(view_of(work->objects[i].name), name))
            return &work->objects[i];
    return NULL;
}

static void add_object(struct drop_work *work, struct view name, struct view body)
{
    check(work->object_count < OBJECTS_MAX);
    struct drop_object *object = &work->objects[work->object_count++];
    *object = (struct drop_object){ .name = calloc(1, name.size + 1) };
    check(object->name);
    memcpy(object->name, name.data, name.size);
    if (!has_part(name, "/inbox/"))
        return;
    object->number = number_of(body);
    struct view key = view_cut(&body, '\x1f');
    memcpy(object->key, key.data, view_first(key, sizeof object->key - 1).size);
}

static void remove_object(struct drop_work *work, struct drop_object *object)
{
    free(object->name);
    *object = work->objects[--work->object_count];
}

static void definition_changed(struct drop_work *work, struct view body)
{
    struct world *world = work->run->world;
    bool live = body.data && !has_part(body, "\"dropped\":");
    if (live && !work->live) {
        for (size_t i = 0; i < work->object_count; i++)
            if (!view_ends_with(view_of(work->objects[i].name), VIEW(".lock")))
                world_fail(world, "a new index begins, and %s is left", work->objects[i].name);
        work->number++;
        work->begun_at = work->last_record;
    }
    work->live = live;
}

/* All records of an entry or a shard were made in this index. */
static void check_records(struct drop_work *work, struct view key, struct view rest)
{
    if (has_part(key, "/shards/"))
        view_cut(&rest, '\n');
    while (rest.size > 0) {
        struct view line = view_cut(&rest, '\n');
        if (number_of(line) <= work->begun_at)
            world_fail(work->run->world, "%s has record %" PRIu64 " of an index before",
                       trace_text(key).text, number_of(line));
    }
}

static void object_written(struct drop_work *work, const struct bucket_change *change)
{
    if (work->live && view_ends_with(change->key, VIEW(".usv")))
        check_records(work, change->key, change->body);
    if (!find_object(work, change->key))
        add_object(work, change->key, change->body);
}

static void object_deleted(struct drop_work *work, struct view name)
{
    struct world *world = work->run->world;
    struct drop_object *object = find_object(work, name);
    bool is_lock = view_ends_with(name, VIEW(".lock"));
    if (work->live && object && object->number > 0) {
        if (number_in_shard(work, view_of(object->key)) < object->number)
            world_fail(world, "%s is deleted, and its record is not in its shard",
                       object->name);
    } else if (work->live && !is_lock) {
        world_fail(world, "%s of an index that is not dropped is deleted",
                   trace_text(name).text);
    }
    if (object)
        remove_object(work, object);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct drop_work *work = argument;
    if (!view_starts_with(change->key, VIEW(FOLDER)))
        return;
    struct heap *heap = heap_enter(NULL);
    if (view_equal(change->key, VIEW(FOLDER "index.json")))
        definition_changed(work, change->body);
    else if (change->body.data)
        object_written(work, change);
    else
        object_deleted(work, change->key);
    heap_enter(heap);
}

/* ---- The nodes ------------------------------------------------------------------------- */

static struct view key_text(size_t number)
{
    static const char *const keys[KEYS] = { "a", "b", "c" };
    return view_of(keys[number]);
}

/* Schemas are too large for a stack. */
static enum hf_status create(struct dropper *dropper)
{
    static const struct view names[] = { { "thing", 5 }, { "changed", 7 }, { "what", 4 } };
    struct schema *schema = malloc(sizeof *schema);
    enum index_made made;
    struct hf_error error;
    check(schema);
    check(schema_new(&(struct schema_spec){ names, 3, names[0], names[1], DIGITS,
                                            /* foreign */ false, /* plain */ false },
                     schema, &error) == HF_OK);
    enum hf_status status =
        index_create(dropper->store, dropper->client, VIEW(NAME), schema, &made, &error);
    free(schema);
    TRACE(dropper, "node %u: makes the index, and is told %s", node_number(dropper->node),
          hf_status_name(status));
    return status;
}

/* Opens the index with a new handle, or keeps the one from before. */
static bool open_index(struct dropper *dropper)
{
    struct hf_error error;
    if (dropper->index && env_random_below(dropper->env, 3) > 0)
        return true;
    index_close(dropper->index);
    dropper->index = NULL;
    if (!dropper->work->live && env_random_below(dropper->env, 2) == 0)
        create(dropper);
    return index_open(dropper->store, dropper->client, VIEW(NAME), &dropper->index, &error) ==
           HF_OK;
}

static void put(struct dropper *dropper)
{
    struct drop_work *work = dropper->work;
    char text[TEXT_MAX];
    struct hf_error error;
    size_t bad;
    struct view key = key_text((size_t)env_random_below(dropper->env, KEYS));
    /* The record is made for the index that the handle has read last. */
    if (index_check_mark(dropper->index, &error) != HF_OK)
        return;
    uint64_t index = work->live ? work->number : 0, number = ++work->last_record;
    snprintf(text, sizeof text, "%.*s" US "%" PRIu64 US "x", VIEW_ARGS(key), number);
    struct view record = view_of(text);
    enum hf_status status = index_put(dropper->index, &record, 1, &bad, &error);
    TRACE(dropper, "node %u: puts record %" PRIu64 ", and is told %s",
          node_number(dropper->node), number, hf_status_name(status));
    if (status == HF_OK && work->live && work->number == index &&
        !has_record(work, key, number))
        world_fail(work->run->world, "record %" PRIu64 " is told as put, and is not there",
                   number);
}

static void compile(struct dropper *dropper)
{
    struct compile_options options = COMPILE_OPTIONS;
    struct hf_index_compile_report totals;
    struct hf_error error;
    options.once = true;
    options.ttl = SPAN_S(3);
    enum hf_status status = index_compile(dropper->index, &options, &totals, &error);
    TRACE(dropper, "node %u: compiles, and is told %s", node_number(dropper->node),
          hf_status_name(status));
}

static bool drop(struct dropper *dropper)
{
    const struct drop_options options = { .dry_run = false };
    struct hf_index_drop_report report;
    struct hf_error error;
    enum hf_status status = index_drop(dropper->client, VIEW(NAME), &options, &report, &error);
    TRACE(dropper, "node %u: drops the index, and is told %s%s", node_number(dropper->node),
          hf_status_name(status), report.gone ? ": it is gone" : "");
    return status == HF_NOT_FOUND || (status == HF_OK && report.gone);
}

static void act(struct dropper *dropper)
{
    uint64_t what = env_random_below(dropper->env, 10);
    /* A marked index is dropped to its end more often than a new one is marked. */
    bool drops = dropper->work->live ? what == 0 : what < 6;
    if (drops)
        drop(dropper);
    else if (open_index(dropper) && what < 7)
        put(dropper);
    else if (dropper->index)
        compile(dropper);
    bool busy = env_random_below(dropper->env, 2) == 0;
    env_sleep(dropper->env, env_jitter(dropper->env, busy ? REST_SHORT : REST_MAX));
}

/* Without faults, the index can be dropped, and created anew. */
static void end_alone(struct dropper *dropper)
{
    bool gone = false, anew = false;
    for (int i = 0; i < FINAL_MAX && !gone; i++) {
        gone = drop(dropper);
        env_sleep(dropper->env, FINAL_STEP);
    }
    for (int i = 0; i < FINAL_MAX && gone && !anew; i++)
        anew = create(dropper) == HF_OK;
    if (!gone || !anew)
        world_fail(dropper->work->run->world, "the index cannot be %s",
                   gone ? "created anew" : "dropped");
    dropper->work->team.settled = true;
}

static void program(struct node *node, void *argument)
{
    struct drop_work *work = argument;
    struct dropper dropper = { .work = work, .node = node, .env = node_env(node) };
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    options.skew_tolerance_ms = 4000;
    dropper.store = net_store_open(work->run->net, node);
    check(dropper.store);
    check(client_new(dropper.store, &options, &dropper.client, &error) == HF_OK);
    dropper.client->space.settings.late_bound = LATE_BOUND;
    while (team_goes_on(&work->team, node))
        act(&dropper);
    team_await_calm(&work->team, node);
    if (team_rests(&work->team, node, SETTLE, STEP))
        end_alone(&dropper);
    index_close(dropper.index);
    hf_client_close(dropper.client);
    store_close(dropper.store);
}

/* ---- The workload ---------------------------------------------------------------------- */

static void tune(struct run *run, struct plans *plans)
{
    (void)run;
    skew_tune(&(struct skew){ 4000, SPAN_MS(900), SPAN_MS(200) }, plans);
    plans->net.plan.slow_max = SLOW_MAX;
    plans->net.plan.late_max = LATE_MAX;
    plans->chaos.pause_at_call_chance = PAUSE_AT_CALL_CHANCE;
    plans->chaos.pause_max = PAUSE_MAX;
    plans->chaos.suspend_max = SUSPEND_MAX;
    if (plans->chaos.until.us > 0)
        plans->chaos.until = UNTIL;
}

static void *start(struct run *run)
{
    struct drop_work *work = calloc(1, sizeof *work);
    check(work);
    work->run = run;
    work->swap_checker = swap_checker_new(run);
    team_init(&work->team, run);
    work->watch = (struct bucket_watch){ .changed = changed, .argument = work };
    bucket_add_watch(net_bucket(run->net), &work->watch);
    for (unsigned i = 0; i < run->options->nodes; i++)
        node_boot(world_node(run->world, i), program, work);
    return work;
}

static void check_at_end(struct run *run, void *state)
{
    (void)run;
    (void)state;
}

static void free_state(void *state)
{
    struct drop_work *work = state;
    while (work->object_count > 0)
        remove_object(work, &work->objects[0]);
    swap_checker_free(work->swap_checker);
    free(work);
}

const struct workload workload_drop = {
    .name = "drop",
    .about = "nodes drop an index and create it anew; none takes what belongs to another",
    .tune = tune,
    .start = start,
    .check_at_end = check_at_end,
    .free = free_state,
};
