/* index_shard.c: shards and their locks as the judge of an index sees them. */
#include "base/json.h"
#include "base/parse.h"
#include "sim/belief.h"
#include "sim/index_judge.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the line of a shard says. */
struct shard_line {
    uint64_t size; /* of the line itself, with its end */
    uint64_t token, records, bytes;
};

static struct judged_shard *shard_of(struct judge_index *judge, struct view id)
{
    for (size_t i = 0; i < judge->shard_count; i++)
        if (view_equal(view_of(judge->shards[i].id), id))
            return &judge->shards[i];
    judge->shards = judge_grow(judge->shards, judge->shard_count, sizeof *judge->shards);
    struct judged_shard *shard = &judge->shards[judge->shard_count++];
    *shard = (struct judged_shard){ .token = 0 };
    memcpy(shard->id, id.data, view_first(id, sizeof shard->id - 1).size);
    return shard;
}

/* ---- Shards ---------------------------------------------------------------------------- */

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
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader);
}

/* The record may follow what stands before it, and is not older than what was there. */
static struct judged_record *judge_shard_record(struct judge_index *judge,
                                                const struct judged_shard *shard,
                                                const struct judged_record *before,
                                                struct view bytes)
{
    struct judged_record *record = judged_record_of(judge, bytes);
    if (!record) {
        world_fail(index_world(judge), "shard %s has a record that nobody has put: %s",
                   shard->id, trace_text(bytes).text);
        return NULL;
    }
    const struct judged_key *key = record->key;
    if (strcmp(key->shard, shard->id) != 0)
        world_fail(index_world(judge), "shard %s has a record of %s", shard->id, key->name);
    if (before && view_compare(before->key->text, key->text) >= 0)
        world_fail(index_world(judge), "shard %s has %s behind %s", shard->id, key->name,
                   before->key->name);
    if (key->in_shard && judged_compare(record, key->in_shard) < 0)
        world_fail(index_world(judge), "shard %s has an older record of %s than before",
                   shard->id, key->name);
    return record;
}

/* Which keys it has, in *has; how many records there are. */
static uint64_t judge_records(struct judge_index *judge, const struct judged_shard *shard,
                              struct view rest, bool has[JUDGED_KEYS_MAX])
{
    const struct judged_record *before = NULL;
    uint64_t count = 0;
    for (; rest.size > 0; count++) {
        struct view bytes = view_cut(&rest, '\n');
        struct judged_record *record = judge_shard_record(judge, shard, before, bytes);
        if (!record)
            continue;
        has[record->key->number] = true;
        judged_fold(judge, record);
        before = record;
    }
    return count;
}

static void shard_written(struct judge_index *judge, struct judged_shard *shard,
                          struct view body)
{
    bool has[JUDGED_KEYS_MAX] = { false };
    bool taken = view_equal(judge->options.taken, view_of(shard->id));
    struct shard_line line;
    struct view rest = body;
    struct view text = view_cut(&rest, '\n');
    if (!read_line(text, &line) || line.size != text.size + 1 || line.bytes != rest.size) {
        world_fail(index_world(judge), "shard %s is none", shard->id);
        return;
    }
    if (taken && world_now_us(index_world(judge)) < judge->options.taken_until_us)
        world_fail(index_world(judge), "shard %s is written while another program has its lock",
                   shard->id);
    uint64_t count = judge_records(judge, shard, rest, has);
    if (count != line.records)
        world_fail(index_world(judge), "shard %s has %" PRIu64 " records and says %" PRIu64,
                   shard->id, count, line.records);
    for (size_t i = 0; i < judge->key_count; i++)
        if (judge->keys[i].in_shard && strcmp(judge->keys[i].shard, shard->id) == 0 && !has[i])
            world_fail(index_world(judge), "shard %s has lost the record of %s", shard->id,
                       judge->keys[i].name);
    if (line.token < shard->token)
        world_fail(index_world(judge),
                   "shard %s is written by token %" PRIu64 " after token %" PRIu64, shard->id,
                   line.token, shard->token);
    shard->token = line.token;
    shard->sizes = judge_grow(shard->sizes, shard->size_count, sizeof *shard->sizes);
    shard->sizes[shard->size_count++] = (struct judged_size){ count, body.size };
}

/* ---- The manifest ---------------------------------------------------------------------- */

/* Versions of equal size are not told apart: then it is the first that it may be. */
static void judge_manifest_row(struct judge_index *judge, struct judged_shard *shard,
                               struct judged_size row)
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
    world_fail(index_world(judge),
               "the manifest has %" PRIu64 " records in %" PRIu64
               " bytes of shard %s, which %s",
               row.records, row.bytes, shard->id,
               ever ? "were there before what it had last" : "never were there");
}

void judge_manifest_changed(struct judge_index *judge, const struct bucket_change *change)
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
                judge_manifest_row(judge, shard_of(judge, id),
                                   (struct judged_size){ values[0], values[1] });
        }
    }
    if (!json_end(&reader))
        world_fail(index_world(judge), "the manifest is none: %s", reader.why);
}

/* ---- Locks ----------------------------------------------------------------------------- */

/* Those who believe to hold the lock of a shard while its table becomes this. */
struct believers {
    struct judge_index *judge;
    const struct judged_shard *shard;
    const struct judged_version *now;
    struct view table;
    struct node *node;  /* whose client is asked */
    struct node *first; /* who believes; NULL: nobody yet */
    uint64_t first_token;
    const struct node *writer;
};

static void judge_believer(void *argument, struct view table, uint64_t token)
{
    struct believers *believers = argument;
    struct world *world = index_world(believers->judge);
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
    const struct judged_entry *lease = judged_by_token(believers->now, token);
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

static void judge_beliefs(struct judge_index *judge, const struct judged_shard *shard,
                          const struct judged_version *now, struct view table)
{
    struct believers believers = { .judge = judge,
                                   .shard = shard,
                                   .now = now,
                                   .table = table,
                                   .writer = net_sender(judge->run->net).node };
    for (size_t i = 0; i < world_node_count(index_world(judge)); i++) {
        believers.node = world_node(index_world(judge), i);
        struct hf_client *client = judge->clients[node_number(believers.node)];
        if (client)
            belief_each(index_world(judge), client, judge_believer, &believers);
    }
}

static void lock_changed(struct judge_index *judge, struct judged_shard *shard,
                         const struct bucket_change *change)
{
    struct judged_version *now = NULL;
    if (change->body.data)
        now = judged_version_read(change->body, shard->lock);
    if (!now && net_sender(judge->run->net).node && !judge->options.locks_vanish)
        world_fail(index_world(judge), "the lock of shard %s is gone, or no table", shard->id);
    if (now && now->next_token < shard->next_token && !judge->options.locks_vanish)
        world_fail(index_world(judge), "the tokens of the lock of shard %s fall", shard->id);
    if (now)
        shard->next_token = now->next_token;
    if (!judge->options.locks_vanish)
        judge_beliefs(judge, shard, now, change->key);
    judged_version_free(shard->lock);
    shard->lock = now;
}

void judge_shard_changed(struct judge_index *judge, struct view name,
                         const struct bucket_change *change)
{
    struct view id = view_cut(&name, '.');
    struct judged_shard *shard = shard_of(judge, id);
    if (view_equal(name, VIEW("lock")))
        lock_changed(judge, shard, change);
    else if (change->body.data)
        shard_written(judge, shard, change->body);
    else
        world_fail(index_world(judge), "shard %s is deleted", shard->id);
}
