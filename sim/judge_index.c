#include "sim/judge_index.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "sim/index_judge.h"

#include <inttypes.h>
#include <stdlib.h>

#define UNIT_SEPARATOR '\x1f'
#define ESCAPE         '\x1b'
#define ESCAPE_BIT     0x40
#define NAME_MAX_SIZE  512
#define DIGEST_SIZE    32

/* ---- Records --------------------------------------------------------------------------- */

void *judged_new(struct judge_index *judge, size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *space = arena_take(&judge->arena, size);
    heap_enter(before);
    check(space);
    return memset(space, 0, size);
}

struct view judged_keep_bytes(struct judge_index *judge, struct view bytes)
{
    char *space = judged_new(judge, bytes.size + 1);
    if (bytes.size > 0)
        memcpy(space, bytes.data, bytes.size);
    return (struct view){ space, bytes.size };
}

void judged_put_into(struct map *map, struct view key, void *value)
{
    void *old;
    struct heap *before = heap_enter(NULL);
    bool fits = map_put(map, key, value, &old);
    heap_enter(before);
    check(fits && !old);
}

int judged_compare(const struct judged_record *a, const struct judged_record *b)
{
    int order = instant_compare(a->time, b->time);
    return order != 0 ? order : view_compare(a->bytes, b->bytes);
}

struct judged_record *judged_record_of(const struct judge_index *judge, struct view bytes)
{
    return map_get(&judge->records, bytes);
}

void judged_hex(struct view bytes, size_t digits, char *text)
{
    unsigned char digest[DIGEST_SIZE];
    hash_sha256(bytes, digest);
    for (size_t i = 0; i < digits; i++)
        text[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[digits] = '\0';
}

static bool stands_for_itself(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

static char *name_of(struct judge_index *judge, struct view key)
{
    char *name = judged_new(judge, 3 * key.size + 2 * DIGEST_SIZE + 3);
    size_t size = 0;
    for (size_t i = 0; i < key.size; i++) {
        unsigned char byte = (unsigned char)key.data[i];
        if (stands_for_itself(key.data[i]))
            name[size++] = key.data[i];
        else
            size += (size_t)snprintf(name + size, 4, "%%%02X", byte);
    }
    name[size] = '\0';
    if (size > NAME_MAX_SIZE) {
        memcpy(name, "%=", 2);
        judged_hex(key, 2 * (size_t)DIGEST_SIZE, name + 2);
    }
    return name;
}

struct judged_key *judged_key_of(struct judge_index *judge, struct view text)
{
    for (size_t i = 0; i < judge->key_count; i++)
        if (view_equal(judge->keys[i].text, text))
            return &judge->keys[i];
    check(judge->key_count < JUDGED_KEYS_MAX);
    struct judged_key *key = &judge->keys[judge->key_count];
    *key = (struct judged_key){ .number = judge->key_count++,
                                .text = judged_keep_bytes(judge, text) };
    key->name = name_of(judge, text);
    judged_hex(text, judge->options.digits, key->shard);
    return key;
}

/* The value of a field, as it is written, into space that is large enough. */
static struct view value_of(struct view written, char *space)
{
    size_t size = 0;
    for (size_t i = 0; i < written.size; i++)
        if (written.data[i] == ESCAPE && i + 1 < written.size)
            space[size++] = (char)(written.data[++i] ^ ESCAPE_BIT);
        else
            space[size++] = written.data[i];
    return (struct view){ space, size };
}

void judge_index_made(struct judge_index *judge, struct view bytes)
{
    if (judged_record_of(judge, bytes))
        return;
    struct judged_record *record = judged_new(judge, sizeof *record);
    struct view rest = record->bytes = judged_keep_bytes(judge, bytes);
    char *space = judged_new(judge, bytes.size + 1);
    record->key = judged_key_of(judge, value_of(view_cut(&rest, UNIT_SEPARATOR), space));
    check(instant_parse(view_cut(&rest, UNIT_SEPARATOR), &record->time));
    record->fields = 1;
    for (size_t i = 0; i < bytes.size; i++)
        record->fields += bytes.data[i] == UNIT_SEPARATOR;
    judged_put_into(&judge->records, record->bytes, record);
    struct judged_key *key = record->key;
    key->records = judge_grow(key->records, key->record_count, sizeof(void *));
    key->records[key->record_count++] = record;
}

/* ---- What the store applied ------------------------------------------------------------ */

static size_t count_fields(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    size_t count = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("fields")))
            for (json_enter_array(&reader); json_next_element(&reader); count++)
                json_skip(&reader, &raw);
        else
            json_skip(&reader, &raw);
    return json_end(&reader) ? count : 0;
}

static void schema_changed(struct judge_index *judge, const struct bucket_change *change)
{
    size_t fields = change->body.data ? count_fields(change->body) : 0;
    if (fields < judge->fields || fields == 0)
        world_fail(index_world(judge), "the schema has %zu fields, and had %zu", fields,
                   judge->fields);
    judge->fields = fields;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct judge_index *judge = argument;
    if (!view_starts_with(change->key, view_of(judge->folder)))
        return;
    struct heap *before = heap_enter(NULL);
    struct view rest = view_from(change->key, strlen(judge->folder));
    judge->changes++;
    if (view_starts_with(rest, VIEW("shards/")))
        judge_shard_changed(judge, view_from(rest, strlen("shards/")), change);
    else if (view_starts_with(rest, VIEW("aside/")))
        judge_aside_changed(judge, view_from(rest, strlen("aside/")), change);
    else if (view_equal(rest, VIEW("index.json")))
        schema_changed(judge, change);
    else if (view_equal(rest, VIEW("manifest.json")))
        judge_manifest_changed(judge, change);
    else
        judge_entry_changed(judge, rest, change);
    heap_enter(before);
}

/* ---- What nodes are told --------------------------------------------------------------- */

void judge_index_client(struct judge_index *judge, struct node *node, struct hf_client *client)
{
    judge->clients[node_number(node)] = client;
}

/* What a node believed goes with it. */
static void node_ended(void *argument, struct node *node)
{
    judge_index_client(argument, node, NULL);
}

void judge_index_told_put(struct judge_index *judge, const struct view *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct judged_record *record = judged_record_of(judge, records[i]);
        if (judged_kept(record) == 0)
            world_fail(index_world(judge),
                       "a record of %s is told as put, and is not in the store",
                       record->key->name);
    }
}

void judge_index_told_straight(struct judge_index *judge, const struct view *records,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct judged_record *record = judged_record_of(judge, records[i]);
        const struct judged_record *there = record->key->in_shard;
        if (!there || judged_compare(there, record) < 0)
            world_fail(index_world(judge),
                       "a record of %s is told as folded, and is not in its shard",
                       record->key->name);
    }
}

uint64_t judge_index_now(const struct judge_index *judge)
{
    return judge->changes;
}

/* The latest record of a key that was kept at that time, and still is; NULL: there is none. */
static const struct judged_record *kept_since(const struct judged_key *key, uint64_t began)
{
    const struct judged_record *latest = NULL;
    for (size_t i = 0; i < key->record_count; i++) {
        const struct judged_record *record = key->records[i];
        uint64_t kept = judged_kept(record);
        if (kept > 0 && kept <= began && (!latest || judged_compare(record, latest) > 0))
            latest = record;
    }
    return latest;
}

/* What a reader may be told besides OK and NOT_FOUND: that it should try again. */
static void judge_failure(struct judge_index *judge, const char *what, enum hf_status status)
{
    if (status != HF_UNAVAILABLE && status != HF_TIMEOUT && status != HF_CONFLICT)
        world_fail(index_world(judge), "%s is told %s", what, hf_status_name(status));
}

/* NULL when nobody made it, which fails the run. */
static const struct judged_record *judge_shown(struct judge_index *judge, uint64_t began,
                                               struct view bytes)
{
    const struct judged_record *record = judged_record_of(judge, bytes);
    if (!record) {
        world_fail(index_world(judge), "a reader is shown what nobody has put: %s",
                   trace_text(bytes).text);
        return NULL;
    }
    const struct judged_record *kept = kept_since(record->key, began);
    if (kept && judged_compare(record, kept) < 0)
        world_fail(index_world(judge),
                   "a reader is shown a record of %s that is older than one of before it began",
                   record->key->name);
    return record;
}

void judge_index_told_get(struct judge_index *judge, uint64_t began, struct view key_text,
                          enum hf_status status, struct view bytes)
{
    const struct judged_key *key = judged_key_of(judge, key_text);
    if (status == HF_OK) {
        const struct judged_record *record = judge_shown(judge, began, bytes);
        if (record && record->key != key)
            world_fail(index_world(judge), "a reader of %s is shown a record of %s", key->name,
                       record->key->name);
    } else if (status == HF_NOT_FOUND) {
        if (kept_since(key, began))
            world_fail(index_world(judge), "a reader is told that there is no %s, and there is",
                       key->name);
    } else {
        judge_failure(judge, "a reader of one key", status);
    }
}

void judge_index_told_count(struct judge_index *judge, uint64_t began, enum hf_status status,
                            uint64_t count)
{
    uint64_t least = 0, most = 0;
    if (status != HF_OK) {
        judge_failure(judge, "one who counts", status);
        return;
    }
    for (size_t i = 0; i < judge->key_count; i++) {
        least += kept_since(&judge->keys[i], began) != NULL;
        for (size_t k = 0; k < judge->keys[i].record_count; k++)
            if (judge->keys[i].records[k]->ever) {
                most++;
                break;
            }
    }
    if (count < least || count > most)
        world_fail(index_world(judge),
                   "there are between %" PRIu64 " and %" PRIu64 " keys, and %" PRIu64
                   " are counted",
                   least, most, count);
}

void judge_index_walks(struct judge_index *judge, struct judged_walk *walk)
{
    walk->judge = judge;
    walk->began = judge->changes;
}

static bool is_wanted(const struct judged_walk *walk, const struct judged_record *record)
{
    return view_starts_with(record->key->text, view_of(walk->prefix)) &&
           (walk->shard[0] == '\0' || strcmp(walk->shard, record->key->shard) == 0) &&
           (!walk->since_given || instant_compare(record->time, walk->since) >= 0);
}

void judge_index_shows(struct judged_walk *walk, struct view bytes)
{
    struct judge_index *judge = walk->judge;
    const struct judged_record *record = judge_shown(judge, walk->began, bytes);
    if (!record)
        return;
    const struct judged_key *key = record->key;
    if (!is_wanted(walk, record))
        world_fail(index_world(judge), "a walk shows a record of %s, which is not wanted",
                   key->name);
    if (walk->last > 0) {
        const struct judged_key *last = &judge->keys[walk->last - 1];
        int shards = strcmp(last->shard, key->shard);
        if (shards > 0 || (shards == 0 && view_compare(last->text, key->text) >= 0))
            world_fail(index_world(judge), "a walk shows %s behind %s", key->name, last->name);
    }
    walk->shown[key->number] = true;
    walk->last = key->number + 1;
}

void judge_index_walked(struct judged_walk *walk, enum hf_status status)
{
    struct judge_index *judge = walk->judge;
    if (status != HF_OK) {
        judge_failure(judge, "a walk", status);
        return;
    }
    for (size_t i = 0; i < judge->key_count; i++) {
        const struct judged_record *kept = kept_since(&judge->keys[i], walk->began);
        if (kept && is_wanted(walk, kept) && !walk->shown[i])
            world_fail(index_world(judge), "a walk does not show %s", judge->keys[i].name);
    }
}

/* ---- Making it, and the end ------------------------------------------------------------ */

struct judge_index *judge_index_new(struct run *run, const struct judge_index_options *options)
{
    struct judge_index *judge = judge_allocate(sizeof *judge);
    judge->run = run;
    judge->options = *options;
    judge->arena = ARENA_INIT;
    judge->options.taken = judged_keep_bytes(judge, options->taken);
    judge->records = judge->objects = judge->versions = MAP_INIT;
    snprintf(judge->folder, sizeof judge->folder, "indexes/%s/", options->index);
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    for (size_t i = 0; i < world_node_count(run->world); i++) {
        judge->node_watches[i] = (struct node_watch){ .ended = node_ended, .argument = judge };
        node_add_watch(world_node(run->world, i), &judge->node_watches[i]);
    }
    return judge;
}

void judge_index_free(struct judge_index *judge)
{
    for (size_t i = 0; i < judge->key_count; i++)
        free(judge->keys[i].records);
    for (size_t i = 0; i < judge->shard_count; i++) {
        judged_version_free(judge->shards[i].lock);
        free(judge->shards[i].sizes);
    }
    free(judge->shards);
    map_release(&judge->records);
    map_release(&judge->objects);
    map_release(&judge->versions);
    arena_release(&judge->arena);
    free(judge);
}

size_t judge_index_fields(const struct judge_index *judge)
{
    return judge->fields;
}

size_t judge_index_entries(const struct judge_index *judge)
{
    size_t count = 0;
    for (const struct judged_object *object = judge->first_object; object;
         object = object->next)
        count += object->now != NULL;
    return count;
}

void judge_index_end(struct judge_index *judge)
{
    const struct bucket *bucket = net_bucket(judge->run->net);
    char key[KEY_BYTES_MAX + 1];
    for (const struct judged_object *object = judge->first_object; object;
         object = object->next) {
        snprintf(key, sizeof key, "%s%s", judge->folder, object->rest);
        bool may_stay = !object->ours && !judge->options.delete_conditional;
        if (object->now)
            world_fail(index_world(judge), "%s is left in the inbox", object->rest);
        else if (bucket_peek(bucket, view_of(key)).data && !may_stay)
            world_fail(index_world(judge), "%s is left as a marker, for no reason",
                       object->rest);
    }
    for (size_t i = 0; i < judge->key_count; i++) {
        const struct judged_key *judged = &judge->keys[i];
        const struct judged_record *latest = kept_since(judged, judge->changes);
        if (latest && (!judged->in_shard || judged_compare(judged->in_shard, latest) < 0))
            world_fail(index_world(judge), "the latest record of %s is not in its shard",
                       judged->name);
    }
}
