/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_checker.c: checks objects, pins and the results that nodes get from compaction.
 * catalog_checker.h lists the reasons to fail a run. */
#include "sim/checkers/catalog_checker.h"

#include "base/check.h"
#include "base/hash.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/compact_inside.h"
#include "sim/checkers/holder_view.h"

#include <inttypes.h>
#include <stdlib.h>

#define DATA_FOLDER "data/"
#define METADATA    "metadata/"
#define CATALOG     "catalog.json"
#define LEASES      "compaction-leases.json"
#define PATHS       METADATA "adopted.json"

/* ---- Helpers ------------------------------------------------------------------------- */

char *checked_copy(struct view text)
{
    char *copy = checker_allocate(text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    return copy;
}

void checked_map_put(struct map *map, struct view key, void *value)
{
    void *old;
    struct heap *before = heap_enter(NULL);
    bool fits = map_put(map, key, value, &old);
    heap_enter(before);
    check(fits && !old);
}

struct checked_chunk *checked_chunk_of(struct catalog_checker *checker, struct view key)
{
    struct checked_chunk *chunk = map_get(&checker->by_key, key);
    if (chunk)
        return chunk;
    chunk = checker_allocate(sizeof *chunk);
    chunk->key = checked_copy(key);
    chunk->number = checker->chunk_count;
    chunk->drawn_us = -1;
    checker->chunks = checker_grow(checker->chunks, checker->chunk_count, sizeof(void *));
    checker->chunks[checker->chunk_count++] = chunk;
    checked_map_put(&checker->by_key, view_of(chunk->key), chunk);
    return chunk;
}

int64_t checked_sent_us(const struct catalog_checker *checker)
{
    struct net_sender sender = net_sender(checker->run->net);
    return sender.node ? sender.sent_us : catalog_now_us(checker);
}

/* ---- Objects ------------------------------------------------------------------------- */

static void object_put(struct catalog_checker *checker, struct checked_chunk *chunk,
                       struct view body)
{
    uint64_t hash = hash_xxh3(body);
    if (checker->spoiling)
        return;
    if (chunk->was_put) {
        if (chunk->hash != hash && !chunk->spoilt)
            world_fail(catalog_world(checker), "%s is written again, with other bytes",
                       chunk->key);
        return;
    }
    chunk->was_put = true;
    chunk->hash = hash;
    chunk->rows = checker_allocate((rows_in(body) + 1) * sizeof *chunk->rows);
    chunk->row_count = rows_in(body);
    if (!rows_read(body, chunk->rows)) {
        free(chunk->rows);
        chunk->rows = NULL;
        chunk->row_count = 0;
    }
    if (chunk->lease && chunk->lease->forgotten && !checked_is_settled(chunk))
        world_fail(catalog_world(checker), "%s is put, not settled, and its lease is forgotten",
                   chunk->key);
}

static bool is_pinned_by(const struct checked_pin *pin, const struct checked_chunk *chunk)
{
    for (size_t i = 0; i < pin->count; i++)
        if (pin->chunks[i] == chunk)
            return true;
    return false;
}

/* Whether the object was never listed, and its partition is being dropped. */
static bool is_left_by_a_drop(const struct catalog_checker *checker,
                              const struct checked_chunk *chunk)
{
    struct view rest = view_of(chunk->key);
    view_cut(&rest, '/');
    const struct checked_doc *doc = checked_doc_of(checker, view_cut(&rest, '/'));
    return doc && doc->now && doc->now->dropping && !chunk->ever_live;
}

void checked_object_deleted(struct catalog_checker *checker, const struct checked_chunk *chunk)
{
    if (checker->spoiling)
        return;
    if (!chunk->ever_deleting && !is_left_by_a_drop(checker, chunk))
        world_fail(catalog_world(checker),
                   "%s is deleted, and its name was not moved to deleting", chunk->key);
    for (const struct checked_pin *pin = checker->pins; pin; pin = pin->next)
        if (is_pinned_by(pin, chunk) &&
            holder_view_of(catalog_world(checker), pin->lock) == HF_OK)
            world_fail(catalog_world(checker), "%s is deleted while node %u has it pinned",
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

static struct checked_doc *doc_new(struct catalog_checker *checker, struct view partition,
                                   struct view key)
{
    struct checked_doc *doc = checker_allocate(sizeof *doc);
    doc->key = checked_copy(key);
    doc->partition = checked_copy(partition);
    doc->reachable = view_equal(partition, view_of(checker->options.partition));
    doc->next = checker->docs;
    checker->docs = doc;
    return doc;
}

void checker_removed(struct catalog_checker *checker, const struct checked_doc *doc,
                     const struct catalog_version *version)
{
    const struct catalog_checker_options *options = &checker->options;
    int64_t slack_us = 1000000 + 2 * options->clocks_off.us + options->late_bound.us / 1000;
    int64_t stood_us = checked_sent_us(checker) - doc->marked_us;
    if (!version || !version->dropping) {
        world_fail(catalog_world(checker), "%s is removed, and was not marked", doc->key);
        return;
    }
    if (stood_us < options->late_bound.us - slack_us)
        world_fail(catalog_world(checker), "%s is removed %" PRId64 " s after it was marked",
                   doc->key, stood_us / 1000000);
    for (size_t i = 0; i < version->count; i++)
        if (version->entries[i].state != LISTED_MOVED)
            world_fail(catalog_world(checker), "%s is removed, and lists %s", doc->key,
                       version->entries[i].chunk->key);
    if (view_equal(view_of(doc->partition), view_of(checker->options.partition)))
        checked_partition_removed(checker);
}

static void check_order(struct catalog_checker *checker, struct checked_doc *doc,
                        const struct bucket_change *change)
{
    if (!bucket_change_in_order(change, &doc->etag) && net_sender(checker->run->net).node)
        world_fail(catalog_world(checker), "%s is written over a version that was not seen",
                   doc->key);
}

static void catalog_changed(struct catalog_checker *checker, struct view partition,
                            const struct bucket_change *change)
{
    struct checked_doc *doc = checked_doc_of(checker, partition);
    if (!doc)
        doc = doc_new(checker, partition, change->key);
    if (!change->body.data) {
        if (doc->reachable)
            checker_removed(checker, doc, doc->now);
        catalog_version_free(doc->now);
        doc->now = NULL;
        doc->etag = (struct etag){ 0 };
        return;
    }
    check_order(checker, doc, change);
    struct catalog_version *now = catalog_version_read(change->body);
    if (now && view_equal(now->partition, partition))
        catalog_checker_written(checker, doc, now);
    else
        world_fail(catalog_world(checker), "%s is no catalog of its partition", doc->key);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct catalog_checker *checker = argument;
    struct view partition;
    if (view_starts_with(change->key, VIEW(DATA_FOLDER))) {
        struct checked_chunk *chunk = checked_chunk_of(checker, change->key);
        if (change->body.data)
            object_put(checker, chunk, change->body);
        else
            checked_object_deleted(checker, chunk);
    } else if (checked_is_outside(change->key)) {
        checked_outside_changed(checker, change);
    } else if (view_equal(change->key, VIEW(PATHS))) {
        checked_paths_written(checker, change->body);
    } else if (is_document(change->key, VIEW(CATALOG), &partition)) {
        catalog_changed(checker, partition, change);
    } else if (is_document(change->key, VIEW(LEASES), &partition)) {
        checker_leases_written(checker, change->key, change->body);
    }
}

/* ---- Results that nodes get ---------------------------------------------------------- */

void checker_started(struct catalog_checker *checker, struct node *node)
{
    checker->boots[node_number(node)][node_lives(node) % CHECKED_LIVES_MAX] =
        hash_xxh3(view_of(env_boot_id(node_env(node))));
}

void checker_drawn(struct catalog_checker *checker, const char *key)
{
    checked_chunk_of(checker, view_of(key))->drawn_us = catalog_now_us(checker);
}

/* Once a result has been reported, it is final. */
static void checker_answer(struct catalog_checker *checker, const char *key, bool happened,
                           const char *what)
{
    struct checked_chunk *chunk = checked_chunk_of(checker, view_of(key));
    if (happened != chunk->ever_live)
        world_fail(catalog_world(checker), "%s is told as %s%s, and %s", key,
                   happened ? "" : "not ", what, chunk->ever_live ? "is" : "is not");
    if (!happened)
        chunk->told_never = true;
}

void checker_told_added(struct catalog_checker *checker, const char *key, enum hf_status status)
{
    if (status != HF_UNSURE)
        checker_answer(checker, key, status == HF_OK, "added");
}

void checker_told_known(struct catalog_checker *checker, unsigned row)
{
    if (!checker->rows[row].added)
        world_fail(catalog_world(checker), "row %u is told as already there, and is not", row);
}

/* A name is dropped D after it was moved to the deleting list. A generated name remains valid for
 * half of D, on a clock that may run slightly slow. */
bool checker_remembers(const struct catalog_checker *checker, unsigned row)
{
    const struct checked_chunk *chunk = checker->rows[row].chunk;
    if (!chunk || !chunk->ever_deleting)
        return true;
    int64_t since_us = catalog_now_us(checker) - chunk->since.applied_us;
    return !chunk->dropped && since_us < checker->options.late_bound.us * 4 / 10;
}

void checker_told_merged(struct catalog_checker *checker, const char *output, bool committed)
{
    checker_answer(checker, output, committed, "merged");
}

bool checker_is_gone(const struct catalog_checker *checker)
{
    const struct checked_doc *doc =
        checked_doc_of(checker, view_of(checker->options.partition));
    return !doc || !doc->now || doc->now->dropped;
}

void checker_told_condemned(struct catalog_checker *checker, const char *key, bool happened)
{
    const struct checked_chunk *chunk = checked_chunk_of(checker, view_of(key));
    /* A dropped name is forgotten. The output of a finished range is told as happened before its
     * merge is committed. */
    if (!chunk->dropped && !(happened && chunk->ever_pending))
        checker_answer(checker, key, happened, "happened");
    if (!happened && !chunk->ever_condemned)
        world_fail(catalog_world(checker), "%s is told as condemned, and is not", key);
}

void checker_told_undeleted(struct catalog_checker *checker, const char *key, int64_t asked_us)
{
    const struct checked_chunk *chunk = checked_chunk_of(checker, view_of(key));
    bool came = chunk->live || chunk->came_us >= asked_us;
    /* The chunk was undeleted, and in the same write it expired or was itself undone, so it has a
     * new tombstone. */
    if (!came && chunk->since.applied_us < asked_us)
        world_fail(catalog_world(checker), "%s is told as undeleted, and is not", key);
}

void checker_asks_quarantine(struct catalog_checker *checker, const char *key)
{
    checked_chunk_of(checker, view_of(key))->asked_quarantine = true;
}

void checker_asks_discard(struct catalog_checker *checker, const char *key)
{
    checked_chunk_of(checker, view_of(key))->asked_discard = true;
}

void checker_condemns_any(struct catalog_checker *checker, const struct node *node, bool does)
{
    checker->condemns_any[node_number(node)] = does;
}

struct checked_pin *checker_pinned(struct catalog_checker *checker, struct node *node,
                                   struct hf_lock *lock, const char *const *keys, size_t count)
{
    struct checked_pin *pin = checker_allocate(sizeof *pin);
    check(count <= sizeof pin->chunks / sizeof *pin->chunks);
    pin->checker = checker;
    pin->node = node;
    pin->lock = lock;
    for (size_t i = 0; i < count; i++)
        pin->chunks[pin->count++] = checked_chunk_of(checker, view_of(keys[i]));
    pin->next = checker->pins;
    checker->pins = pin;
    return pin;
}

void checker_unpinned(struct checked_pin *pin)
{
    struct checked_pin **link = &pin->checker->pins;
    while (*link != pin)
        link = &(*link)->next;
    *link = pin->next;
    free(pin);
}

void checker_read(struct checked_pin *pin, const char *key, enum hf_status status,
                  struct view bytes)
{
    const struct checked_chunk *chunk = checked_chunk_of(pin->checker, view_of(key));
    struct world *world = catalog_world(pin->checker);
    if (chunk->spoilt || chunk->adopted) /* checked by its version; others may rewrite it */
        return;
    if (status == HF_NOT_FOUND)
        world_fail(world, "%s is not there for node %u, which has it pinned", key,
                   node_number(pin->node));
    if (status == HF_OK && hash_xxh3(bytes) != chunk->hash)
        world_fail(world, "%s is read by node %u, and is not what was put", key,
                   node_number(pin->node));
}

/* The rows of a snapshot: how often each occurs, and the latest of each key, by number and by time.
 * Also the latest marker of each key that was ever added: a merge may have dropped it, with
 * everything older. */
struct checked_rows {
    unsigned times[ROW_MAX];
    unsigned newest[ROW_KEYS];
    int64_t latest_ms[ROW_KEYS], marker_ms[ROW_KEYS];
};

static void count_snapshot(struct catalog_checker *checker, const char *const *keys,
                           size_t count, struct checked_rows *rows)
{
    for (size_t i = 0; i < count; i++) {
        const struct checked_chunk *chunk = checked_chunk_of(checker, view_of(keys[i]));
        for (size_t k = 0; k < chunk->row_count; k++) {
            struct row row = chunk->rows[k];
            rows->times[row.number]++;
            if (row.number > rows->newest[row.key])
                rows->newest[row.key] = row.number;
            if (row.ms > rows->latest_ms[row.key])
                rows->latest_ms[row.key] = row.ms;
        }
    }
    for (unsigned i = 1; i <= checker->row_last; i++) {
        const struct row *row = &checker->rows[i].row;
        if (checker->rows[i].added && row_is_marker(row) && row->ms > rows->marker_ms[row->key])
            rows->marker_ms[row->key] = row->ms;
    }
}

/* Whether the snapshot has the row, or one that takes its place. */
static bool snapshot_has(const struct catalog_checker *checker, const struct checked_rows *rows,
                         const struct row *row)
{
    if (checker->options.deletes)
        return rows->latest_ms[row->key] >= row->ms || rows->marker_ms[row->key] >= row->ms;
    return checker->options.latest_wins ? rows->newest[row->key] >= row->number
                                        : rows->times[row->number] > 0;
}

/* Whether a row that takes the place of this one was discarded, with the chunk that both were
 * merged into. */
static bool is_discarded_with(const struct catalog_checker *checker, const struct row *row)
{
    for (unsigned i = row->number + 1; checker->options.latest_wins && i <= checker->row_last;
         i++)
        if (checker->rows[i].ever_expired && checker->rows[i].row.key == row->key)
            return true;
    return false;
}

void checker_took_snapshot(struct catalog_checker *checker, const struct node *node,
                           const char *const *keys, size_t count, int64_t asked_us)
{
    struct checked_rows *rows = checker_allocate(sizeof *rows);
    count_snapshot(checker, keys, count, rows);
    bool expires = checker->options.retention_ms > 0;
    for (unsigned i = 1; i <= checker->row_last; i++) {
        const struct checked_row *row = &checker->rows[i];
        bool was_there =
            row->added && row->added_us < asked_us && !expires && !row->ever_expired;
        if (was_there && !snapshot_has(checker, rows, &row->row) &&
            !is_discarded_with(checker, &row->row))
            world_fail(catalog_world(checker), "row %u is missing in the snapshot of node %u",
                       i, node_number(node));
        if (rows->times[i] > 1)
            world_fail(catalog_world(checker), "row %u is twice in the snapshot of node %u", i,
                       node_number(node));
    }
    free(rows);
}

/* A node that has ended no longer believes that it holds anything. */
static void node_ended(void *argument, struct node *node)
{
    struct catalog_checker *checker = argument;
    checker->condemns_any[node_number(node)] = false;
    struct checked_pin **link = &checker->pins;
    while (*link) {
        struct checked_pin *pin = *link;
        if (pin->node != node) {
            link = &pin->next;
            continue;
        }
        *link = pin->next;
        free(pin);
    }
}

/* ---- Damage, and choosing an operation ----------------------------------------------- */

void checker_spoil(struct catalog_checker *checker, const char *key, bool gone)
{
    struct bucket *bucket = net_bucket(checker->run->net);
    struct checked_chunk *chunk = checked_chunk_of(checker, view_of(key));
    struct view bytes = bucket_peek(bucket, view_of(key));
    if (!bytes.data || bytes.size == 0)
        return;
    struct heap *before = heap_enter(NULL);
    chunk->spoilt = checker->spoiling = true;
    if (gone) {
        bucket_delete(bucket, &(struct delete_call){ .key = view_of(key) });
    } else {
        char *other = checked_copy(bytes);
        other[8] = other[8] == '2' ? '1' : '2'; /* still a row, with another number */
        bucket_put(bucket,
                   &(struct put_call){ .key = view_of(key), .body = { other, bytes.size } });
        free(other);
    }
    checker->spoiling = false;
    heap_enter(before);
}

static bool is_wanted(const struct checked_chunk *chunk, enum checked_kind_of_key kind)
{
    switch (kind) {
    case CHECKED_LIVE_KEY: return chunk->live;
    case CHECKED_DEAD_KEY: return chunk->ever_live && !chunk->live && !chunk->ever_deleting;
    case CHECKED_RETIRED_KEY: return chunk->expired && !chunk->live && !chunk->ever_deleting;
    case CHECKED_ANY_KEY: return chunk->was_put && !chunk->dropped;
    }
    check_unreachable();
}

const char *checker_pick(const struct catalog_checker *checker, enum checked_kind_of_key kind,
                         uint64_t number)
{
    for (size_t i = 0; i < checker->chunk_count; i++) {
        const struct checked_chunk *chunk =
            checker->chunks[(number + i) % checker->chunk_count];
        if (is_wanted(chunk, kind))
            return chunk->key;
    }
    return NULL;
}

/* ---- Creation ------------------------------------------------------------------------ */

struct catalog_checker *catalog_checker_new(struct run *run,
                                            const struct catalog_checker_options *options)
{
    struct catalog_checker *checker = checker_allocate(sizeof *checker);
    checker->run = run;
    checker->options = *options;
    checker->newest_ms = INT64_MIN;
    checker->by_key = checker->by_lease = MAP_INIT;
    checker->rows = checker_allocate(ROW_MAX * sizeof *checker->rows);
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    struct node_watch watch = { .ended = node_ended, .argument = checker };
    world_watch_nodes(run->world, watch, checker->node_watches);
    return checker;
}

static void free_lists(struct catalog_checker *checker)
{
    for (size_t i = 0; i < checker->chunk_count; i++) {
        free(checker->chunks[i]->key);
        free(checker->chunks[i]->rows);
        free(checker->chunks[i]);
    }
    for (size_t i = 0; i < checker->lease_count; i++) {
        free(checker->leases[i]->id);
        free(checker->leases[i]);
    }
    for (size_t i = 0; i < checker->table_count; i++) {
        free(checker->tables[i].key);
        leases_version_free(checker->tables[i].now);
    }
    checked_adopted_free(checker);
    free(checker->chunks);
    free(checker->leases);
    free(checker->tables);
    free(checker->rows);
}

void catalog_checker_free(struct catalog_checker *checker)
{
    map_release(&checker->by_key);
    map_release(&checker->by_lease);
    free_lists(checker);
    while (checker->docs) {
        struct checked_doc *doc = checker->docs;
        checker->docs = doc->next;
        catalog_version_free(doc->now);
        free(doc->key);
        free(doc->partition);
        free(doc);
    }
    while (checker->pins) {
        struct checked_pin *pin = checker->pins;
        checker->pins = pin->next;
        free(pin);
    }
    free(checker);
}
