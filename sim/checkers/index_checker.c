/* SPDX-License-Identifier: Apache-2.0 */
/* index_checker.c: checks the results that readers and writers of an index get, and what is
 * left at the end. index_checker.h lists the reasons to fail a run. */
#include "sim/checkers/index_checker.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "sim/checkers/index_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define UNIT_SEPARATOR '\x1f'
#define ESCAPE         '\x1b'
#define ESCAPE_BIT     0x40
#define NAME_MAX_SIZE  512
#define DIGEST_SIZE    32
#define DELETION       "\x1d" /* at the start of a record */

/* ---- Records --------------------------------------------------------------------------- */

void *checked_new(struct index_checker *checker, size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *space = arena_take(&checker->arena, size);
    heap_enter(before);
    check(space);
    return memset(space, 0, size);
}

struct view checked_keep_bytes(struct index_checker *checker, struct view bytes)
{
    char *space = checked_new(checker, bytes.size + 1);
    if (bytes.size > 0)
        memcpy(space, bytes.data, bytes.size);
    return (struct view){ space, bytes.size };
}

void checked_put_into(struct map *map, struct view key, void *value)
{
    void *old;
    struct heap *before = heap_enter(NULL);
    bool fits = map_put(map, key, value, &old);
    heap_enter(before);
    check(fits && !old);
}

int checked_compare(const struct checked_record *a, const struct checked_record *b)
{
    int order = instant_compare(a->time, b->time);
    return order != 0 ? order : view_compare(a->bytes, b->bytes);
}

struct checked_record *checked_record_of(const struct index_checker *checker, struct view bytes)
{
    return map_get(&checker->records, bytes);
}

void checked_hex(struct view bytes, size_t digits, char *text)
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

static char *name_of(struct index_checker *checker, struct view key)
{
    char *name = checked_new(checker, 3 * key.size + 2 * DIGEST_SIZE + 3);
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
        checked_hex(key, 2 * (size_t)DIGEST_SIZE, name + 2);
    }
    return name;
}

struct checked_key *checked_key_of(struct index_checker *checker, struct view text)
{
    for (size_t i = 0; i < checker->key_count; i++)
        if (view_equal(checker->keys[i].text, text))
            return &checker->keys[i];
    check(checker->key_count < CHECKED_KEYS_MAX);
    struct checked_key *key = &checker->keys[checker->key_count];
    *key = (struct checked_key){ .number = checker->key_count++,
                                 .text = checked_keep_bytes(checker, text) };
    key->name = name_of(checker, text);
    checked_hex(text, checker->options.digits, key->shard);
    return key;
}

/* Unescapes a field into `space`, which must be large enough, and returns its value. */
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

void index_checker_made(struct index_checker *checker, struct view bytes)
{
    if (checked_record_of(checker, bytes))
        return;
    struct checked_record *record = checked_new(checker, sizeof *record);
    struct view rest = record->bytes = checked_keep_bytes(checker, bytes);
    record->deleted = view_starts_with(bytes, VIEW(DELETION));
    rest = view_from(rest, record->deleted ? strlen(DELETION) : 0);
    char *space = checked_new(checker, bytes.size + 1);
    record->key = checked_key_of(checker, value_of(view_cut(&rest, UNIT_SEPARATOR), space));
    check(instant_parse(view_cut(&rest, UNIT_SEPARATOR), &record->time));
    record->fields = 1;
    for (size_t i = 0; i < bytes.size; i++)
        record->fields += bytes.data[i] == UNIT_SEPARATOR;
    checked_put_into(&checker->records, record->bytes, record);
    struct checked_key *key = record->key;
    key->records = checker_grow(key->records, key->record_count, sizeof(void *));
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

static void schema_changed(struct index_checker *checker, const struct bucket_change *change)
{
    size_t fields = change->body.data ? count_fields(change->body) : 0;
    if (fields < checker->fields || fields == 0)
        world_fail(index_world(checker), "the schema has %zu fields, and had %zu", fields,
                   checker->fields);
    checker->fields = fields;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct index_checker *checker = argument;
    if (!view_starts_with(change->key, view_of(checker->folder)))
        return;
    struct heap *before = heap_enter(NULL);
    struct view rest = view_from(change->key, strlen(checker->folder));
    checker->changes++;
    if (view_starts_with(rest, VIEW("shards/")))
        checker_shard_changed(checker, view_from(rest, strlen("shards/")), change);
    else if (view_starts_with(rest, VIEW("aside/")))
        checker_aside_changed(checker, view_from(rest, strlen("aside/")), change);
    else if (view_equal(rest, VIEW("index.json")))
        schema_changed(checker, change);
    else if (view_equal(rest, VIEW("manifest.json")))
        checker_manifest_changed(checker, change);
    else
        checker_entry_changed(checker, rest, change);
    heap_enter(before);
}

/* ---- Results that nodes get ------------------------------------------------------------ */

void index_checker_client(struct index_checker *checker, struct node *node,
                          struct hf_client *client)
{
    checker->clients[node_number(node)] = client;
}

/* A node that has ended no longer believes that it holds anything. */
static void node_ended(void *argument, struct node *node)
{
    index_checker_client(argument, node, NULL);
}

void index_checker_told_put(struct index_checker *checker, const struct view *records,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct checked_record *record = checked_record_of(checker, records[i]);
        if (checked_kept(record) == 0 && !checked_is_below_floor(checker, record))
            world_fail(index_world(checker),
                       "a record of %s is told as put, and is not in the store",
                       record->key->name);
    }
}

void index_checker_told_straight(struct index_checker *checker, const struct view *records,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct checked_record *record = checked_record_of(checker, records[i]);
        if (!checked_is_folded(checker, record))
            world_fail(index_world(checker),
                       "a record of %s is told as folded, and is not in its shard",
                       record->key->name);
    }
}

uint64_t index_checker_now(const struct index_checker *checker)
{
    return checker->changes;
}

/* The latest record or deletion of a key that was kept when the read began and still is, and that
 * the shard's floor does not hide; NULL if there is none. */
static const struct checked_record *kept_since(const struct index_checker *checker,
                                               const struct checked_key *key, uint64_t began)
{
    const struct checked_record *latest = NULL;
    for (size_t i = 0; i < key->record_count; i++) {
        const struct checked_record *record = key->records[i];
        uint64_t kept = checked_kept(record);
        bool hidden = !record->was_in_shard && checked_is_below_floor(checker, record);
        if (kept > 0 && kept <= began && !hidden &&
            (!latest || checked_compare(record, latest) > 0))
            latest = record;
    }
    return latest;
}

/* A record that readers must see, or a later one: no deletion that is later was ever in the
 * store. */
static const struct checked_record *must_be_shown(const struct index_checker *checker,
                                                  const struct checked_key *key, uint64_t began)
{
    const struct checked_record *kept = kept_since(checker, key, began);
    if (!kept || kept->deleted)
        return NULL;
    for (size_t i = 0; i < key->record_count; i++) {
        const struct checked_record *record = key->records[i];
        if (record->deleted && record->ever && checked_compare(record, kept) > 0)
            return NULL;
    }
    return kept;
}

/* Besides OK and NOT_FOUND, a reader may get a status that tells it to retry. */
static void checker_failure(struct index_checker *checker, const char *what,
                            enum hf_status status)
{
    if (status != HF_UNAVAILABLE && status != HF_TIMEOUT && status != HF_CONFLICT)
        world_fail(index_world(checker), "%s is told %s", what, hf_status_name(status));
}

/* Checks a record that a reader got. Returns NULL, and fails the run, if no node made the
 * record. */
static const struct checked_record *checker_shown(struct index_checker *checker, uint64_t began,
                                                  struct view bytes)
{
    const struct checked_record *record = checked_record_of(checker, bytes);
    if (!record) {
        world_fail(index_world(checker), "a reader is shown what nobody has put: %s",
                   trace_text(bytes).text);
        return NULL;
    }
    if (record->deleted)
        world_fail(index_world(checker), "a reader is shown a deletion of %s",
                   record->key->name);
    const struct checked_record *kept = kept_since(checker, record->key, began);
    if (kept && checked_compare(record, kept) < 0)
        world_fail(index_world(checker),
                   "a reader is shown a record of %s that is older than one of before it began",
                   record->key->name);
    return record;
}

void index_checker_told_get(struct index_checker *checker, uint64_t began, struct view key_text,
                            enum hf_status status, struct view bytes)
{
    const struct checked_key *key = checked_key_of(checker, key_text);
    if (status == HF_OK) {
        const struct checked_record *record = checker_shown(checker, began, bytes);
        if (record && record->key != key)
            world_fail(index_world(checker), "a reader of %s is shown a record of %s",
                       key->name, record->key->name);
    } else if (status == HF_NOT_FOUND) {
        if (must_be_shown(checker, key, began))
            world_fail(index_world(checker),
                       "a reader is told that there is no %s, and there is", key->name);
    } else {
        checker_failure(checker, "a reader of one key", status);
    }
}

void index_checker_told_count(struct index_checker *checker, uint64_t began,
                              enum hf_status status, uint64_t count)
{
    uint64_t least = 0, most = 0;
    if (status != HF_OK) {
        checker_failure(checker, "one who counts", status);
        return;
    }
    for (size_t i = 0; i < checker->key_count; i++) {
        least += must_be_shown(checker, &checker->keys[i], began) != NULL;
        for (size_t k = 0; k < checker->keys[i].record_count; k++)
            if (checker->keys[i].records[k]->ever && !checker->keys[i].records[k]->deleted) {
                most++;
                break;
            }
    }
    if (count < least || count > most)
        world_fail(index_world(checker),
                   "there are between %" PRIu64 " and %" PRIu64 " keys, and %" PRIu64
                   " are counted",
                   least, most, count);
}

void index_checker_walks(struct index_checker *checker, struct checked_walk *walk)
{
    walk->checker = checker;
    walk->began = checker->changes;
}

static bool is_wanted(const struct checked_walk *walk, const struct checked_record *record)
{
    return view_starts_with(record->key->text, view_of(walk->prefix)) &&
           (walk->shard[0] == '\0' || strcmp(walk->shard, record->key->shard) == 0) &&
           (!walk->since_given || instant_compare(record->time, walk->since) >= 0);
}

void index_checker_shows(struct checked_walk *walk, struct view bytes)
{
    struct index_checker *checker = walk->checker;
    const struct checked_record *record = checker_shown(checker, walk->began, bytes);
    if (!record)
        return;
    const struct checked_key *key = record->key;
    if (!is_wanted(walk, record))
        world_fail(index_world(checker), "a walk shows a record of %s, which is not wanted",
                   key->name);
    if (walk->last > 0) {
        const struct checked_key *last = &checker->keys[walk->last - 1];
        int shards = strcmp(last->shard, key->shard);
        if (shards > 0 || (shards == 0 && view_compare(last->text, key->text) >= 0))
            world_fail(index_world(checker), "a walk shows %s behind %s", key->name,
                       last->name);
    }
    walk->shown[key->number] = true;
    walk->last = key->number + 1;
}

void index_checker_walked(struct checked_walk *walk, enum hf_status status)
{
    struct index_checker *checker = walk->checker;
    if (status != HF_OK) {
        checker_failure(checker, "a walk", status);
        return;
    }
    for (size_t i = 0; i < checker->key_count; i++) {
        const struct checked_record *kept =
            must_be_shown(checker, &checker->keys[i], walk->began);
        if (kept && is_wanted(walk, kept) && !walk->shown[i])
            world_fail(index_world(checker), "a walk does not show %s", checker->keys[i].name);
    }
}

/* ---- Creation and end ------------------------------------------------------------------ */

struct index_checker *index_checker_new(struct run *run,
                                        const struct index_checker_options *options)
{
    struct index_checker *checker = checker_allocate(sizeof *checker);
    checker->run = run;
    checker->options = *options;
    checker->arena = ARENA_INIT;
    checker->options.taken = checked_keep_bytes(checker, options->taken);
    checker->records = checker->objects = checker->versions = MAP_INIT;
    snprintf(checker->folder, sizeof checker->folder, "indexes/%s/", options->index);
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    struct node_watch watch = { .ended = node_ended, .argument = checker };
    world_watch_nodes(run->world, watch, checker->node_watches);
    return checker;
}

void index_checker_free(struct index_checker *checker)
{
    for (size_t i = 0; i < checker->key_count; i++)
        free(checker->keys[i].records);
    for (size_t i = 0; i < checker->shard_count; i++) {
        checked_version_free(checker->shards[i].lock);
        free(checker->shards[i].sizes);
    }
    free(checker->shards);
    map_release(&checker->records);
    map_release(&checker->objects);
    map_release(&checker->versions);
    arena_release(&checker->arena);
    free(checker);
}

size_t index_checker_fields(const struct index_checker *checker)
{
    return checker->fields;
}

size_t index_checker_entries(const struct index_checker *checker)
{
    size_t count = 0;
    for (const struct checked_object *object = checker->first_object; object;
         object = object->next)
        count += object->now != NULL;
    return count;
}

void index_checker_end(struct index_checker *checker)
{
    const struct bucket *bucket = net_bucket(checker->run->net);
    char key[KEY_BYTES_MAX + 1];
    for (const struct checked_object *object = checker->first_object; object;
         object = object->next) {
        snprintf(key, sizeof key, "%s%s", checker->folder, object->rest);
        bool may_stay = !object->ours && !checker->options.delete_conditional;
        if (object->now)
            world_fail(index_world(checker), "%s is left in the inbox", object->rest);
        else if (bucket_peek(bucket, view_of(key)).data && !may_stay)
            world_fail(index_world(checker), "%s is left as a marker, for no reason",
                       object->rest);
    }
    for (size_t i = 0; i < checker->key_count; i++) {
        const struct checked_key *checked = &checker->keys[i];
        const struct checked_record *latest = kept_since(checker, checked, checker->changes);
        if (latest && !checked_is_folded(checker, latest))
            world_fail(index_world(checker), "the latest record of %s is not in its shard",
                       checked->name);
    }
}
