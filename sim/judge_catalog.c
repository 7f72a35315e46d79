#include "sim/judge_catalog.h"

#include "base/check.h"
#include "base/hash.h"
#include "sim/belief.h"
#include "sim/compact_judge.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define DATA_FOLDER "data/"
#define METADATA    "metadata/"
#define CATALOG     "catalog.json"
#define LEASES      "compaction-leases.json"

/* ---- Small things -------------------------------------------------------------------- */

char *judged_copy(struct view text)
{
    char *copy = judge_allocate(text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    return copy;
}

void judged_map_put(struct map *map, struct view key, void *value)
{
    void *old;
    struct heap *before = heap_enter(NULL);
    bool fits = map_put(map, key, value, &old);
    heap_enter(before);
    check(fits && !old);
}

struct judged_chunk *judged_chunk_of(struct judge_catalog *judge, struct view key)
{
    struct judged_chunk *chunk = map_get(&judge->by_key, key);
    if (chunk)
        return chunk;
    chunk = judge_allocate(sizeof *chunk);
    chunk->key = judged_copy(key);
    chunk->number = judge->chunk_count;
    chunk->drawn_us = -1;
    judge->chunks = judge_grow(judge->chunks, judge->chunk_count, sizeof(void *));
    judge->chunks[judge->chunk_count++] = chunk;
    judged_map_put(&judge->by_key, view_of(chunk->key), chunk);
    return chunk;
}

int64_t judged_sent_us(const struct judge_catalog *judge)
{
    struct net_sender sender = net_sender(judge->run->net);
    return sender.node ? sender.sent_us : catalog_now_us(judge);
}

/* ---- Objects ------------------------------------------------------------------------- */

static void object_put(struct judge_catalog *judge, struct judged_chunk *chunk,
                       struct view body)
{
    uint64_t hash = hash_xxh3(body);
    if (judge->spoiling)
        return;
    if (chunk->was_put) {
        if (chunk->hash != hash && !chunk->spoilt)
            world_fail(catalog_world(judge), "%s is written again, with other bytes",
                       chunk->key);
        return;
    }
    chunk->was_put = true;
    chunk->hash = hash;
    chunk->rows = judge_allocate((rows_in(body) + 1) * sizeof *chunk->rows);
    chunk->row_count = rows_in(body);
    if (!rows_read(body, chunk->rows)) {
        free(chunk->rows);
        chunk->rows = NULL;
        chunk->row_count = 0;
    }
    if (chunk->lease && chunk->lease->forgotten && !judged_is_settled(chunk))
        world_fail(catalog_world(judge), "%s is put, not settled, and its lease is forgotten",
                   chunk->key);
}

static bool is_pinned_by(const struct judged_pin *pin, const struct judged_chunk *chunk)
{
    for (size_t i = 0; i < pin->count; i++)
        if (pin->chunks[i] == chunk)
            return true;
    return false;
}

static void object_deleted(struct judge_catalog *judge, const struct judged_chunk *chunk)
{
    if (judge->spoiling)
        return;
    if (!chunk->ever_deleting)
        world_fail(catalog_world(judge),
                   "%s is deleted, and its name was not moved to deleting", chunk->key);
    for (const struct judged_pin *pin = judge->pins; pin; pin = pin->next)
        if (is_pinned_by(pin, chunk) && belief_of(catalog_world(judge), pin->lock) == HF_OK)
            world_fail(catalog_world(judge), "%s is deleted while node %u has it pinned",
                       chunk->key, node_number(pin->node));
}

/* ---- Documents ----------------------------------------------------------------------- */

/* metadata/[<partition>/]<leaf> */
static bool is_document(struct view key, struct view leaf, struct view *ret_partition)
{
    struct view rest = key;
    struct view folder = view_cut(&rest, '/');
    if (!view_equal(folder, VIEW("metadata")))
        return false;
    *ret_partition = VIEW("default");
    if (view_equal(rest, leaf))
        return true;
    *ret_partition = view_cut(&rest, '/');
    return view_equal(rest, leaf);
}

static struct judged_doc *doc_new(struct judge_catalog *judge, struct view partition,
                                  struct view key)
{
    struct judged_doc *doc = judge_allocate(sizeof *doc);
    doc->key = judged_copy(key);
    doc->partition = judged_copy(partition);
    doc->reachable = view_equal(partition, view_of(judge->options.partition));
    doc->next = judge->docs;
    judge->docs = doc;
    return doc;
}

static void check_order(struct judge_catalog *judge, struct judged_doc *doc,
                        const struct bucket_change *change)
{
    if (!bucket_change_in_order(change, &doc->etag) && net_sender(judge->run->net).node)
        world_fail(catalog_world(judge), "%s is written over a version that was not seen",
                   doc->key);
}

static void catalog_changed(struct judge_catalog *judge, struct view partition,
                            const struct bucket_change *change)
{
    struct judged_doc *doc = judged_doc_of(judge, partition);
    if (!doc)
        doc = doc_new(judge, partition, change->key);
    if (!change->body.data) {
        if (doc->reachable)
            world_fail(catalog_world(judge), "%s is deleted", doc->key);
        catalog_version_free(doc->now);
        doc->now = NULL;
        doc->etag = (struct etag){ 0 };
        return;
    }
    check_order(judge, doc, change);
    struct catalog_version *now = catalog_version_read(change->body);
    if (now && view_equal(now->partition, partition))
        judge_catalog_written(judge, doc, now);
    else
        world_fail(catalog_world(judge), "%s is no catalog of its partition", doc->key);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct judge_catalog *judge = argument;
    struct view partition;
    if (view_starts_with(change->key, VIEW(DATA_FOLDER))) {
        struct judged_chunk *chunk = judged_chunk_of(judge, change->key);
        if (change->body.data)
            object_put(judge, chunk, change->body);
        else
            object_deleted(judge, chunk);
    } else if (is_document(change->key, VIEW(CATALOG), &partition)) {
        catalog_changed(judge, partition, change);
    } else if (is_document(change->key, VIEW(LEASES), &partition)) {
        judge_leases_written(judge, change->key, change->body);
    }
}

/* ---- What nodes are told ------------------------------------------------------------- */

void judge_started(struct judge_catalog *judge, struct node *node)
{
    judge->boots[node_number(node)][node_lives(node) % JUDGED_LIVES_MAX] =
        hash_xxh3(view_of(env_boot_id(node_env(node))));
}

void judge_drawn(struct judge_catalog *judge, const char *key)
{
    judged_chunk_of(judge, view_of(key))->drawn_us = catalog_now_us(judge);
}

/* Whether it happened or not is said for good. */
static void judge_answer(struct judge_catalog *judge, const char *key, bool happened,
                         const char *what)
{
    struct judged_chunk *chunk = judged_chunk_of(judge, view_of(key));
    if (happened != chunk->ever_live)
        world_fail(catalog_world(judge), "%s is told as %s%s, and %s", key,
                   happened ? "" : "not ", what, chunk->ever_live ? "is" : "is not");
    if (!happened)
        chunk->told_never = true;
}

void judge_told_added(struct judge_catalog *judge, const char *key, enum hf_status status)
{
    if (status != HF_UNSURE)
        judge_answer(judge, key, status == HF_OK, "added");
}

void judge_told_known(struct judge_catalog *judge, unsigned row)
{
    if (!judge->rows[row].added)
        world_fail(catalog_world(judge), "row %u is told as already there, and is not", row);
}

/* It is dropped D after it was moved to deleting; a name lasts for half of D, by a clock that may
 * run a little slower. */
bool judge_remembers(const struct judge_catalog *judge, unsigned row)
{
    const struct judged_chunk *chunk = judge->rows[row].chunk;
    if (!chunk || !chunk->ever_deleting)
        return true;
    int64_t since_us = catalog_now_us(judge) - chunk->since.applied_us;
    return !chunk->dropped && since_us < judge->options.late_bound.us * 4 / 10;
}

void judge_told_merged(struct judge_catalog *judge, const char *output, bool committed)
{
    judge_answer(judge, output, committed, "merged");
}

void judge_told_condemned(struct judge_catalog *judge, const char *key, bool happened)
{
    const struct judged_chunk *chunk = judged_chunk_of(judge, view_of(key));
    if (!chunk->dropped) /* what is dropped is forgotten */
        judge_answer(judge, key, happened, "happened");
    if (!happened && !chunk->ever_condemned)
        world_fail(catalog_world(judge), "%s is told as condemned, and is not", key);
}

void judge_told_undeleted(struct judge_catalog *judge, const char *key, int64_t asked_us)
{
    const struct judged_chunk *chunk = judged_chunk_of(judge, view_of(key));
    bool came = chunk->live || chunk->came_us >= asked_us;
    /* Undeleted, and past its retention or itself undone in the same write, it has a new grave. */
    if (!came && chunk->since.applied_us < asked_us)
        world_fail(catalog_world(judge), "%s is told as undeleted, and is not", key);
}

void judge_asks_quarantine(struct judge_catalog *judge, const char *key)
{
    judged_chunk_of(judge, view_of(key))->asked_quarantine = true;
}

void judge_condemns_any(struct judge_catalog *judge, const struct node *node, bool does)
{
    judge->condemns_any[node_number(node)] = does;
}

struct judged_pin *judge_pinned(struct judge_catalog *judge, struct node *node,
                                struct hf_lock *lock, const char *const *keys, size_t count)
{
    struct judged_pin *pin = judge_allocate(sizeof *pin);
    check(count <= sizeof pin->chunks / sizeof *pin->chunks);
    pin->judge = judge;
    pin->node = node;
    pin->lock = lock;
    for (size_t i = 0; i < count; i++)
        pin->chunks[pin->count++] = judged_chunk_of(judge, view_of(keys[i]));
    pin->next = judge->pins;
    judge->pins = pin;
    return pin;
}

void judge_unpinned(struct judged_pin *pin)
{
    struct judged_pin **link = &pin->judge->pins;
    while (*link != pin)
        link = &(*link)->next;
    *link = pin->next;
    free(pin);
}

void judge_read(struct judged_pin *pin, const char *key, enum hf_status status,
                struct view bytes)
{
    const struct judged_chunk *chunk = judged_chunk_of(pin->judge, view_of(key));
    struct world *world = catalog_world(pin->judge);
    if (chunk->spoilt)
        return;
    if (status == HF_NOT_FOUND)
        world_fail(world, "%s is not there for node %u, which has it pinned", key,
                   node_number(pin->node));
    if (status == HF_OK && hash_xxh3(bytes) != chunk->hash)
        world_fail(world, "%s is read by node %u, and is not what was put", key,
                   node_number(pin->node));
}

/* What a node believed goes with it. */
static void node_ended(void *argument, struct node *node)
{
    struct judge_catalog *judge = argument;
    judge->condemns_any[node_number(node)] = false;
    struct judged_pin **link = &judge->pins;
    while (*link) {
        struct judged_pin *pin = *link;
        if (pin->node != node) {
            link = &pin->next;
            continue;
        }
        *link = pin->next;
        free(pin);
    }
}

/* ---- Damage, and looking for something to do ----------------------------------------- */

void judge_spoil(struct judge_catalog *judge, const char *key, bool gone)
{
    struct bucket *bucket = net_bucket(judge->run->net);
    struct judged_chunk *chunk = judged_chunk_of(judge, view_of(key));
    struct view bytes = bucket_peek(bucket, view_of(key));
    if (!bytes.data || bytes.size == 0)
        return;
    struct heap *before = heap_enter(NULL);
    chunk->spoilt = judge->spoiling = true;
    if (gone) {
        bucket_delete(bucket, &(struct delete_call){ .key = view_of(key) });
    } else {
        char *other = judged_copy(bytes);
        other[8] = other[8] == '2' ? '1' : '2'; /* still a row, with another number */
        bucket_put(bucket,
                   &(struct put_call){ .key = view_of(key), .body = { other, bytes.size } });
        free(other);
    }
    judge->spoiling = false;
    heap_enter(before);
}

static bool is_wanted(const struct judged_chunk *chunk, enum judged_kind_of_key kind)
{
    switch (kind) {
    case JUDGED_LIVE_KEY: return chunk->live;
    case JUDGED_DEAD_KEY: return chunk->ever_live && !chunk->live && !chunk->ever_deleting;
    case JUDGED_ANY_KEY: return chunk->was_put && !chunk->dropped;
    }
    check_unreachable();
}

const char *judge_pick(const struct judge_catalog *judge, enum judged_kind_of_key kind,
                       uint64_t number)
{
    for (size_t i = 0; i < judge->chunk_count; i++) {
        const struct judged_chunk *chunk = judge->chunks[(number + i) % judge->chunk_count];
        if (is_wanted(chunk, kind))
            return chunk->key;
    }
    return NULL;
}

/* ---- Making it ----------------------------------------------------------------------- */

struct judge_catalog *judge_catalog_new(struct run *run,
                                        const struct judge_catalog_options *options)
{
    struct judge_catalog *judge = judge_allocate(sizeof *judge);
    judge->run = run;
    judge->options = *options;
    judge->newest_ms = INT64_MIN;
    judge->by_key = judge->by_lease = MAP_INIT;
    judge->rows = judge_allocate(ROW_MAX * sizeof *judge->rows);
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    for (size_t i = 0; i < world_node_count(run->world); i++) {
        judge->node_watches[i] = (struct node_watch){ .ended = node_ended, .argument = judge };
        node_add_watch(world_node(run->world, i), &judge->node_watches[i]);
    }
    return judge;
}

static void free_lists(struct judge_catalog *judge)
{
    for (size_t i = 0; i < judge->chunk_count; i++) {
        free(judge->chunks[i]->key);
        free(judge->chunks[i]->rows);
        free(judge->chunks[i]);
    }
    for (size_t i = 0; i < judge->lease_count; i++) {
        free(judge->leases[i]->id);
        free(judge->leases[i]);
    }
    for (size_t i = 0; i < judge->table_count; i++) {
        free(judge->tables[i].key);
        leases_version_free(judge->tables[i].now);
    }
    free(judge->chunks);
    free(judge->leases);
    free(judge->tables);
    free(judge->rows);
}

void judge_catalog_free(struct judge_catalog *judge)
{
    map_release(&judge->by_key);
    map_release(&judge->by_lease);
    free_lists(judge);
    while (judge->docs) {
        struct judged_doc *doc = judge->docs;
        judge->docs = doc->next;
        catalog_version_free(doc->now);
        free(doc->key);
        free(doc->partition);
        free(doc);
    }
    while (judge->pins) {
        struct judged_pin *pin = judge->pins;
        judge->pins = pin->next;
        free(pin);
    }
    free(judge);
}
