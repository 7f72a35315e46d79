/* SPDX-License-Identifier: Apache-2.0 */
/* index_shard.c: the checker's view of shards and their locks. It compares each version of a shard
 * with the previous one, and checks which nodes believe that they hold the lock. */
#include "base/json.h"
#include "base/parse.h"
#include "sim/checkers/holder_view.h"
#include "sim/checkers/index_inside.h"

#include <inttypes.h>
#include <stdlib.h>

/* The first line of a shard. */
struct shard_line {
    uint64_t size; /* of the line itself, with its newline */
    uint64_t token, records, bytes, deleted;
    bool has_floor;
    struct instant floor;
};

static struct checked_shard *shard_of(struct index_checker *checker, struct view id)
{
    for (size_t i = 0; i < checker->shard_count; i++)
        if (view_equal(view_of(checker->shards[i].id), id))
            return &checker->shards[i];
    checker->shards =
        checker_grow(checker->shards, checker->shard_count, sizeof *checker->shards);
    struct checked_shard *shard = &checker->shards[checker->shard_count++];
    *shard = (struct checked_shard){ .token = 0 };
    memcpy(shard->id, id.data, view_first(id, sizeof shard->id - 1).size);
    return shard;
}

/* ---- Shards ---------------------------------------------------------------------------- */

/* [s, atto] */
static void read_floor(struct json_reader *reader, struct shard_line *line)
{
    json_enter_array(reader);
    line->has_floor = json_next_element(reader) && json_take_i64(reader, &line->floor.s) &&
                      json_next_element(reader) &&
                      json_take_u64(reader, UINT64_MAX, &line->floor.atto) &&
                      !json_next_element(reader);
}

static bool read_line(struct view line, struct shard_line *ret_line)
{
    struct json_reader reader = json_read(line);
    struct view name, text, raw;
    *ret_line = (struct shard_line){ 0 };
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("line")) && json_take_plain(&reader, &text))
            parse_u64(text, UINT64_MAX, &ret_line->size, NULL);
        else if (view_equal(name, VIEW("token")))
            json_take_u64(&reader, UINT64_MAX, &ret_line->token);
        else if (view_equal(name, VIEW("records")))
            json_take_u64(&reader, UINT64_MAX, &ret_line->records);
        else if (view_equal(name, VIEW("size")))
            json_take_u64(&reader, UINT64_MAX, &ret_line->bytes);
        else if (view_equal(name, VIEW("deleted")))
            json_take_u64(&reader, UINT64_MAX, &ret_line->deleted);
        else if (view_equal(name, VIEW("floor")))
            read_floor(&reader, ret_line);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader);
}

/* Returns NULL if no node made the record. */
static struct checked_record *checker_known_record(struct index_checker *checker,
                                                   const struct checked_shard *shard,
                                                   struct view bytes)
{
    struct checked_record *record = checked_record_of(checker, bytes);
    if (!record)
        world_fail(index_world(checker), "shard %s has a record that nobody has put: %s",
                   shard->id, trace_text(bytes).text);
    else if (strcmp(record->key->shard, shard->id) != 0)
        world_fail(index_world(checker), "shard %s has a record of %s", shard->id,
                   record->key->name);
    return record;
}

/* Checks that the record is not older than the record of its key in the previous version, and takes
 * it for the key's record. */
static void checker_fold_record(struct index_checker *checker,
                                const struct checked_shard *shard,
                                struct checked_record *record)
{
    const struct checked_key *key = record->key;
    if (key->in_shard && checked_compare(record, key->in_shard) < 0)
        world_fail(index_world(checker), "shard %s has an older record of %s than before",
                   shard->id, key->name);
    if (key->dropped && checked_compare(record, key->dropped) < 0)
        world_fail(index_world(checker), "shard %s has a record of %s that was deleted",
                   shard->id, key->name);
    checked_fold(checker, record);
}

/* Checks the records of a shard. Sets `has` for each of its keys, and returns how many records
 * there are. */
static uint64_t checker_records(struct index_checker *checker,
                                const struct checked_shard *shard, struct view rest,
                                bool has[CHECKED_KEYS_MAX])
{
    const struct checked_record *before = NULL;
    uint64_t count = 0;
    for (; rest.size > 0; count++) {
        struct view bytes = view_cut(&rest, '\n');
        struct checked_record *record = checker_known_record(checker, shard, bytes);
        if (!record)
            continue;
        if (before && view_compare(before->key->text, record->key->text) >= 0)
            world_fail(index_world(checker), "shard %s has %s behind %s", shard->id,
                       record->key->name, before->key->name);
        has[record->key->number] = true;
        checker_fold_record(checker, shard, record);
        before = record;
    }
    return count;
}

/* The new version of a shard does not have a key that it had. */
static void checker_key_gone(struct index_checker *checker, const struct checked_shard *shard,
                             struct checked_key *key)
{
    const struct checked_record *gone = key->in_shard;
    int64_t kept_us = world_now_us(index_world(checker)) - key->in_shard_since_us;
    if (!gone->deleted)
        world_fail(index_world(checker), "shard %s has lost the record of %s", shard->id,
                   key->name);
    else if (!checked_is_below_floor(checker, gone))
        world_fail(index_world(checker), "shard %s drops a deletion of %s above its floor",
                   shard->id, key->name);
    else if (kept_us < checker->options.keep_deleted.us)
        world_fail(index_world(checker), "shard %s drops a deletion of %s after %" PRId64 " us",
                   shard->id, key->name, kept_us);
    if (!key->dropped || checked_compare(key->dropped, key->in_shard) < 0)
        key->dropped = key->in_shard;
    key->in_shard = NULL;
}

static void checker_floor(struct index_checker *checker, struct checked_shard *shard,
                          const struct shard_line *line)
{
    if (shard->has_floor &&
        (!line->has_floor || instant_compare(line->floor, shard->floor) < 0))
        world_fail(index_world(checker), "the floor of shard %s moves back", shard->id);
    shard->has_floor = line->has_floor;
    shard->floor = line->floor;
}

/* The shard no longer has the keys for which `has` is not set. */
static void checker_keys_gone(struct index_checker *checker, const struct checked_shard *shard,
                              const bool has[CHECKED_KEYS_MAX])
{
    for (size_t i = 0; i < checker->key_count; i++)
        if (checker->keys[i].in_shard && strcmp(checker->keys[i].shard, shard->id) == 0 &&
            !has[i])
            checker_key_gone(checker, shard, &checker->keys[i]);
}

static void checker_token(struct index_checker *checker, struct checked_shard *shard,
                          uint64_t token)
{
    if (token < shard->token)
        world_fail(index_world(checker),
                   "shard %s is written by token %" PRIu64 " after token %" PRIu64, shard->id,
                   token, shard->token);
    shard->token = token;
}

static void checker_size(struct checked_shard *shard, uint64_t records, uint64_t bytes)
{
    shard->sizes = checker_grow(shard->sizes, shard->size_count, sizeof *shard->sizes);
    shard->sizes[shard->size_count++] = (struct checked_size){ records, bytes };
}

static void shard_written(struct index_checker *checker, struct checked_shard *shard,
                          struct view body)
{
    bool has[CHECKED_KEYS_MAX] = { false };
    bool taken = view_equal(checker->options.taken, view_of(shard->id));
    struct shard_line line;
    struct view rest = body;
    struct view text = view_cut(&rest, '\n');
    if (!read_line(text, &line) || line.size != text.size + 1 || line.bytes != rest.size) {
        world_fail(index_world(checker), "shard %s is none", shard->id);
        return;
    }
    if (taken && world_now_us(index_world(checker)) < checker->options.taken_until_us)
        world_fail(index_world(checker),
                   "shard %s is written while another program has its lock", shard->id);
    checker_floor(checker, shard, &line);
    uint64_t count = checker_records(checker, shard, rest, has);
    if (count != line.records)
        world_fail(index_world(checker), "shard %s has %" PRIu64 " records and says %" PRIu64,
                   shard->id, count, line.records);
    checker_keys_gone(checker, shard, has);
    checker_token(checker, shard, line.token);
    checker_size(shard, count - line.deleted, body.size);
}

/* ---- Plain shards ---------------------------------------------------------------------- */

/* Finds the latest record of each key among these lines. Returns how many lines there are. */
static uint64_t latest_of_lines(struct index_checker *checker,
                                const struct checked_shard *shard, struct view rest,
                                bool deletions, struct checked_record **latest)
{
    uint64_t count = 0;
    for (; rest.size > 0; count++) {
        struct view bytes = view_cut(&rest, '\n');
        struct checked_record *record = checker_known_record(checker, shard, bytes);
        if (!record)
            continue;
        if (record->deleted != deletions)
            world_fail(index_world(checker), "the %s of shard %s has %s of %s",
                       deletions ? "sidecar" : "text", shard->id,
                       deletions ? "a record" : "a deletion", record->key->name);
        struct checked_record **best = &latest[record->key->number];
        if (!*best || checked_compare(*best, record) < 0)
            *best = record;
    }
    return count;
}

/* Checks a plain shard with its sidecar, after one of them was written. */
static void plain_written(struct index_checker *checker, struct checked_shard *shard,
                          bool sidecar)
{
    struct checked_record *latest[CHECKED_KEYS_MAX] = { NULL };
    bool has[CHECKED_KEYS_MAX] = { false };
    struct shard_line line = { 0 };
    struct view deletions = shard->sidecar;
    struct view text = view_cut(&deletions, '\n');
    if (shard->sidecar.size > 0 && !read_line(text, &line)) {
        world_fail(index_world(checker), "the sidecar of shard %s is none", shard->id);
        return;
    }
    checker_floor(checker, shard, &line);
    uint64_t records =
        latest_of_lines(checker, shard, shard->plain, /* deletions */ false, latest);
    latest_of_lines(checker, shard, deletions, /* deletions */ true, latest);
    for (size_t i = 0; i < checker->key_count; i++) {
        has[i] = latest[i] != NULL;
        if (latest[i])
            checker_fold_record(checker, shard, latest[i]);
    }
    checker_keys_gone(checker, shard, has);
    checker_token(checker, shard, line.token);
    if (!sidecar)
        checker_size(shard, records, shard->plain.size);
}

/* ---- The manifest ---------------------------------------------------------------------- */

/* Versions of equal size cannot be distinguished, so the first that matches is assumed. */
static void checker_manifest_row(struct index_checker *checker, struct checked_shard *shard,
                                 struct checked_size row)
{
    bool ever = false;
    for (size_t i = 0; i < shard->size_count; i++) {
        if (shard->sizes[i].records != row.records || shard->sizes[i].bytes != row.bytes)
            continue;
        ever = true;
        if (i < shard->told)
            continue;
        shard->told = i;
        return;
    }
    world_fail(index_world(checker),
               "the manifest has %" PRIu64 " records in %" PRIu64
               " bytes of shard %s, which %s",
               row.records, row.bytes, shard->id,
               ever ? "were there before what it had last" : "never were there");
}

void checker_manifest_changed(struct index_checker *checker, const struct bucket_change *change)
{
    struct json_reader reader = json_read(change->body.data ? change->body : VIEW(""));
    struct view name, id, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!view_equal(name, VIEW("shards"))) {
            json_skip(&reader, &raw);
            continue;
        }
        for (json_enter_object(&reader); json_next_member(&reader, &id);) {
            uint64_t values[2] = { 0, 0 };
            size_t count = 0;
            for (json_enter_array(&reader); json_next_element(&reader); count++)
                if (count < 2)
                    json_take_u64(&reader, UINT64_MAX, &values[count]);
                else
                    json_skip(&reader, &raw);
            if (!reader.why)
                checker_manifest_row(checker, shard_of(checker, id),
                                     (struct checked_size){ values[0], values[1] });
        }
    }
    if (!json_end(&reader))
        world_fail(index_world(checker), "the manifest is none: %s", reader.why);
}

/* ---- Locks ----------------------------------------------------------------------------- */

/* The nodes that believe that they hold a shard's lock when the lock's table changes to this
 * version. */
struct believers {
    struct index_checker *checker;
    const struct checked_shard *shard;
    const struct checked_version *now;
    struct view table;
    struct node *node;  /* the node whose client is being asked */
    struct node *first; /* the first node that believes it; NULL: none yet */
    uint64_t first_token;
    const struct node *writer;
};

static void checker_believer(void *argument, struct view table, uint64_t token)
{
    struct believers *believers = argument;
    struct world *world = index_world(believers->checker);
    if (!view_equal(table, believers->table))
        return;
    if (believers->first)
        world_fail(world,
                   "node %u with token %" PRIu64 " and node %u with token %" PRIu64
                   " believe at once to hold the lock of shard %s",
                   node_number(believers->first), believers->first_token,
                   node_number(believers->node), token, believers->shard->id);
    believers->first = believers->node;
    believers->first_token = token;
    const struct checked_entry *lease = checked_by_token(believers->now, token);
    if ((!lease || !lease->active) && believers->writer != believers->node)
        world_fail(world,
                   "the lock of shard %s is taken from node %u, which believes to hold it with "
                   "token %" PRIu64,
                   believers->shard->id, node_number(believers->node), token);
    for (size_t i = 0; believers->now && i < believers->now->lease_count; i++)
        if (believers->now->leases[i].active && believers->now->leases[i].token != token)
            world_fail(world,
                       "the lock of shard %s is granted with token %" PRIu64
                       " while node %u believes to hold it with %" PRIu64,
                       believers->shard->id, believers->now->leases[i].token,
                       node_number(believers->node), token);
}

static void checker_beliefs(struct index_checker *checker, const struct checked_shard *shard,
                            const struct checked_version *now, struct view table)
{
    struct believers believers = { .checker = checker,
                                   .shard = shard,
                                   .now = now,
                                   .table = table,
                                   .writer = net_sender(checker->run->net).node };
    for (size_t i = 0; i < world_node_count(index_world(checker)); i++) {
        believers.node = world_node(index_world(checker), i);
        struct hf_client *client = checker->clients[node_number(believers.node)];
        if (client)
            holder_view_each(index_world(checker), client, checker_believer, &believers);
    }
}

static void lock_changed(struct index_checker *checker, struct checked_shard *shard,
                         const struct bucket_change *change)
{
    struct checked_version *now = NULL;
    if (change->body.data)
        now = checked_version_read(change->body, shard->lock);
    if (!now && net_sender(checker->run->net).node && !checker->options.locks_vanish)
        world_fail(index_world(checker), "the lock of shard %s is gone, or no table",
                   shard->id);
    if (now && now->next_token < shard->next_token && !checker->options.locks_vanish)
        world_fail(index_world(checker), "the tokens of the lock of shard %s fall", shard->id);
    if (now)
        shard->next_token = now->next_token;
    if (!checker->options.locks_vanish)
        checker_beliefs(checker, shard, now, change->key);
    checked_version_free(shard->lock);
    shard->lock = now;
}

void checker_shard_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change)
{
    struct view id = view_cut(&name, '.');
    struct checked_shard *shard = shard_of(checker, id);
    if (view_equal(name, VIEW("lock")))
        lock_changed(checker, shard, change);
    else if (change->body.data && checker->options.plain) {
        bool sidecar = view_equal(name, VIEW("json"));
        *(sidecar ? &shard->sidecar : &shard->plain) =
            checked_keep_bytes(checker, change->body);
        plain_written(checker, shard, sidecar);
    } else if (change->body.data)
        shard_written(checker, shard, change->body);
    else
        world_fail(index_world(checker), "shard %s is deleted", shard->id);
}
