/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: creates and extends index.json by swaps, and puts entries into the inbox. An entry has a
 * unique name. If the reply to its put is lost, the entry can be found by that name. */
#include "index/index.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "index/shard_cache.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* How many times an unanswered put is sent, and the base of the pause between attempts, which
 * doubles each time. */
#define PUT_TRIES_MAX 3
#define PUT_PAUSE     SPAN_MS(50)

bool index_key(const struct index *index, char ret_key[KEY_BYTES_MAX + 1], const char *format,
               ...)
{
    int start = snprintf(ret_key, KEY_BYTES_MAX + 1, LAYOUT_INDEX_FOLDER "%.*s/",
                         INDEX_NAME_MAX, index->name);
    check(start > 0 && start <= KEY_BYTES_MAX);
    size_t room = KEY_BYTES_MAX + 1 - (size_t)start;
    va_list args;
    va_start(args, format);
    int size = vsnprintf(ret_key + start, room, format, args);
    va_end(args);
    return size >= 0 && (size_t)size < room;
}

/* ---- Checking for an object ----------------------------------------------------------- */

static struct get_call first_byte_of(struct view object, struct buffer *byte)
{
    *byte = BUFFER_INIT(1);
    return (struct get_call){ .key = object, .length = 1, .body = byte };
}

static enum hf_status check_presence(const struct get_call *get, bool *ret_there,
                                     struct hf_error *error)
{
    enum hf_status status = get->error.status;
    bool exists = status == HF_OK || status == HF_INVALID; /* it exists but is empty */
    bool missing = RULE(REFUSED_ENTRY_IS_LOOKED_FOR) && !exists;
    if (missing && status != HF_NOT_FOUND)
        return error_set(error, HF_UNSURE, "cannot determine whether the object exists: %s",
                         get->error.why);
    *ret_there = !missing;
    return error_clear(error);
}

enum hf_status index_has(struct index *index, struct view object, bool *ret_there,
                         struct hf_error *error)
{
    struct buffer byte;
    struct get_call get = first_byte_of(object, &byte);
    store_get(index->store, &get);
    buffer_release(&byte);
    return check_presence(&get, ret_there, error);
}

/* ---- Opening ------------------------------------------------------------------------- */

static enum hf_status index_new(struct store *store, struct hf_client *client, struct view name,
                                struct index **ret_index, struct hf_error *error)
{
    if (!layout_index_valid(name))
        return error_set(error, HF_INVALID,
                         "an index name must be 1 to %d characters of a-z 0-9 . _ - and must "
                         "not start with a dot",
                         INDEX_NAME_MAX);
    struct index *index = calloc(1, sizeof *index);
    if (!index)
        return error_no_memory(error);
    index->env = store->env;
    index->store = store;
    index->client = client;
    index->cache = shard_cache_new(store->env);
    if (!index->cache) {
        free(index);
        return error_no_memory(error);
    }
    memcpy(index->name, name.data, name.size);
    *ret_index = index;
    return HF_OK;
}

void index_close(struct index *index)
{
    if (!index)
        return;
    shard_cache_drop(index->cache);
    free(index);
}

struct index *index_copy(const struct index *index)
{
    struct index *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    copy->env = index->env;
    copy->store = index->store;
    copy->client = index->client;
    memcpy(copy->name, index->name, sizeof copy->name);
    schema_copy(&copy->schema, &index->schema);
    copy->etag = index->etag;
    copy->checked = index->checked;
    copy->cache = shard_cache_keep(index->cache);
    return copy;
}

void index_learn(struct index *index, const struct index *copy)
{
    struct schema *had = &index->schema;
    const struct schema *later = &copy->schema;
    had->deletes = had->deletes || later->deletes;
    if (mono_before(index->checked, copy->checked))
        index->checked = copy->checked;
    if (later->version_count <= had->version_count)
        return;
    memcpy(had->fields + had->field_count, later->fields + had->field_count,
           (later->field_count - had->field_count) * sizeof *had->fields);
    had->field_count = later->field_count;
    memcpy(had->versions, later->versions, sizeof had->versions);
    had->version_count = later->version_count;
    index->etag = copy->etag;
}

/* Whether the schema that was just read is the schema we had, or a later version of it. */
static enum hf_status check_later_schema(const struct index *index, const struct schema *later,
                                         struct hf_error *error)
{
    const struct schema *had = &index->schema;
    size_t version = had->version_count;
    struct hf_error why;
    if (version == 0 ||
        (had->digits == later->digits && had->foreign == later->foreign &&
         had->has_zone == later->has_zone && had->zone_east_s == later->zone_east_s &&
         had->plain == later->plain &&
         schema_check_version(later, version, had->versions[version - 1].hash, &why) == HF_OK))
        return HF_OK;
    return error_set(error, HF_CORRUPT,
                     "the index %s was replaced by another one; open it again", index->name);
}

static enum hf_status take_schema(struct index *index, const struct get_call *get,
                                  struct hf_error *error)
{
    struct schema *schema = malloc(sizeof *schema);
    if (!schema)
        return error_no_memory(error);
    enum hf_status status = schema_decode(buffer_view(get->body), schema, error);
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(get->key));
    else if (schema->dropped)
        status = error_set(error, HF_NOT_FOUND, "the index %s is being dropped", index->name);
    else
        status = check_later_schema(index, schema, error);
    if (status == HF_OK) {
        index->schema = *schema;
        index->etag = get->info.etag;
    }
    free(schema);
    return status;
}

enum hf_status index_refresh(struct index *index, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    check(index_key(index, key, LAYOUT_INDEX));
    struct get_call get = { .key = view_of(key), .none_match = index->etag, .body = &text };
    const struct mono_time now = env_now(index->env);
    enum hf_status status = store_get(index->store, &get);
    if (status == HF_OK)
        status = take_schema(index, &get, error);
    else if (status == HF_NOT_MODIFIED)
        status = error_clear(error);
    else if (status == HF_NOT_FOUND)
        error_set(error, status, "there is no index %s", index->name);
    else if (status == HF_INVALID)
        status = error_set(error, HF_CORRUPT, "%s: too large to be an index schema", key);
    else
        *error = get.error;
    if (status == HF_OK)
        index->checked = now;
    buffer_release(&text);
    return status;
}

enum hf_status index_check_mark(struct index *index, struct hf_error *error)
{
    if (mono_since(env_now(index->env), index->checked).us < INDEX_TRUST.us)
        return HF_OK;
    return index_refresh(index, error);
}

enum hf_status index_open(struct store *store, struct hf_client *client, struct view name,
                          struct index **ret_index, struct hf_error *error)
{
    struct index *index = NULL;
    enum hf_status status = index_new(store, client, name, &index, error);
    if (status != HF_OK)
        return status;
    status = index_refresh(index, error);
    if (status == HF_OK)
        *ret_index = index;
    else
        index_close(index);
    return status;
}

/* ---- Creating ------------------------------------------------------------------------ */

enum hf_status index_change(struct index *index, const char *name, const struct doc_type *type,
                            struct doc_op *op, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct doc_clock clock;
    struct doc *doc;
    check(index_key(index, key, "%s", name));
    clock_init(&clock, index->store);
    enum hf_status status =
        doc_new(index->store, &clock, view_of(key), type, /* context */ NULL, &doc, error);
    if (status == HF_OK) {
        op->deadline = mono_add(env_now(index->env), REQUEST_TIME);
        status = doc_update(doc, op);
        *error = op->error;
        if (status == HF_TIMEOUT && doc_trouble(doc, error))
            status = error->status; /* report the cause, not the timeout */
        if (status == HF_CORRUPT)
            error_prefix(error, "%s", key);
        doc_free(doc);
    }
    clock_release(&clock);
    return status;
}

/* index.json with its unknown members (schema_unknown). */
struct definition {
    bool exists;
    struct schema schema;
    struct buffer unknown;
};

static void *definition_birth(void *context)
{
    (void)context;
    struct definition *definition = calloc(1, sizeof *definition);
    if (definition)
        definition->unknown = BUFFER_INIT(INDEX_BYTES_MAX);
    return definition;
}

static void definition_free(void *argument)
{
    struct definition *definition = argument;
    buffer_release(&definition->unknown);
    free(definition);
}

static enum hf_status definition_decode(struct view bytes, struct mono_time arrived,
                                        const void *previous, void **ret_body,
                                        struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct definition *definition = definition_birth(NULL);
    if (!definition)
        return error_no_memory(error);
    enum hf_status status = schema_decode(bytes, &definition->schema, error);
    if (status == HF_OK && !schema_unknown(bytes, &definition->unknown))
        status = error_no_memory(error);
    definition->exists = true;
    if (status == HF_OK)
        *ret_body = definition;
    else
        definition_free(definition);
    return status;
}

static bool definition_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct definition *definition = argument;
    return schema_encode(&definition->schema, buffer_view(&definition->unknown), nonce, text);
}

static const struct doc_type definition_type = {
    .bytes_max = INDEX_BYTES_MAX,
    .decode = definition_decode,
    .birth = definition_birth,
    .encode = definition_encode,
    .free = definition_free,
};

/* How long the mark of a dropped index must stay: writers trust their copy of index.json for
 * INDEX_TRUST, and what they have sent arrives within D. */
static struct span drop_wait(struct stamp marked, const struct lease_settings *settings,
                             const struct evidence *evidence)
{
    struct span whole = SPAN_US(INDEX_TRUST.us + settings->late_bound.us);
    if (stamp_passed(marked, /* seen */ evidence->now, whole, settings->skew_tolerance,
                     evidence))
        return SPAN_US(0);
    struct span age = stamp_age(marked, /* unreadable */ SPAN_US(0), evidence);
    struct span left = SPAN_US(whole.us + settings->skew_tolerance.us - age.us);
    return span_larger(left, SPAN_US(1000));
}

static const struct lease_settings *settings_or_default(const struct hf_client *client,
                                                        struct lease_settings *usual)
{
    *usual = lease_settings_default();
    return client ? client_settings(client) : usual;
}

struct creation {
    struct doc_op op;
    const struct lease_settings *settings;
    const struct schema *wanted;
    enum index_made made;
};

/* A name is free again only after a drop has seen to it that nothing is left. */
static enum hf_status refuse_dropped(struct creation *creation, const struct schema *dropped,
                                     const struct evidence *evidence)
{
    char text[SPAN_TEXT_MAX];
    struct span wait = drop_wait(dropped->dropped_at, creation->settings, evidence);
    if (wait.us > 0)
        return error_set(&creation->op.error, HF_CONFLICT,
                         "the index is being dropped; drop it again in %s to finish",
                         span_text(wait, text));
    return error_set(&creation->op.error, HF_CONFLICT,
                     "the index is being dropped; drop it again to finish");
}

/* After an unanswered write, an index that exists may be our own. In that case this call has
 * created or extended it, and `made` keeps its earlier value. */
static enum hf_status apply_creation(struct doc_op *op, void *body,
                                     const struct evidence *evidence)
{
    struct creation *creation = (struct creation *)(void *)op;
    struct definition *definition = body;
    bool replaces = definition->exists && definition->schema.emptied;
    enum hf_status status = HF_OK;
    op->changed = true;
    if (definition->exists && definition->schema.dropped && !replaces)
        status = refuse_dropped(creation, &definition->schema, evidence);
    else if (definition->exists && !replaces)
        status = schema_extend(&definition->schema, creation->wanted, &op->changed, &op->error);
    else
        definition->schema = *creation->wanted;
    if (replaces)
        buffer_clear(&definition->unknown);
    if (status != HF_OK)
        op->changed = false;
    else if (op->changed)
        creation->made = definition->exists && !replaces ? INDEX_EXTENDED : INDEX_CREATED;
    else if (op->doubt == DOC_DOUBT_NONE)
        creation->made = INDEX_UNCHANGED;
    return status;
}

enum hf_status index_create(struct store *store, struct hf_client *client, struct view name,
                            const struct schema *schema, enum index_made *ret_made,
                            struct hf_error *error)
{
    struct lease_settings usual;
    struct creation creation = { .op.apply = apply_creation,
                                 .settings = settings_or_default(client, &usual),
                                 .wanted = schema };
    struct index *index = NULL;
    enum hf_status status = index_new(store, client, name, &index, error);
    if (status != HF_OK)
        return status;
    status = index_change(index, LAYOUT_INDEX, &definition_type, &creation.op, error);
    if (status == HF_OK)
        *ret_made = creation.made;
    index_close(index);
    return status;
}

/* ---- Dropping ------------------------------------------------------------------------ */

enum hf_status index_open_to_drop(struct hf_client *client, struct view name,
                                  struct index **ret_index, struct hf_error *error)
{
    return index_new(client_store(client), client, name, ret_index, error);
}

struct marking_op {
    struct doc_op op;
    const struct lease_settings *settings;
    enum marking how;
    struct drop_mark mark;
};

/* A stamp of another clock, for example from before a reboot, is made anew, so that a later call
 * can read it. */
static bool needs_stamp(const struct marking_op *marking, const struct schema *schema,
                        const struct evidence *evidence)
{
    if (marking->how == MARK_AGAIN || !schema->dropped)
        return true;
    return !stamp_is_readable(schema->dropped_at, evidence) && evidence->time_known;
}

static enum hf_status apply_mark(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct marking_op *marking = (struct marking_op *)(void *)op;
    struct definition *definition = body;
    struct schema *schema = &definition->schema;
    struct drop_mark *mark = &marking->mark;
    if (!definition->exists)
        return error_set(&op->error, HF_NOT_FOUND, "there is no such index");
    if (!schema->dropped && (marking->how == MARK_AGAIN || marking->how == MARK_EMPTIED))
        return error_set(&op->error, HF_CONFLICT, "another client has created the index anew");
    mark->stamped = needs_stamp(marking, schema, evidence);
    struct stamp at = mark->stamped ? stamp_now(evidence) : schema->dropped_at;
    mark->wait = drop_wait(at, marking->settings, evidence);
    bool empties = marking->how == MARK_EMPTIED && mark->wait.us == 0 && !schema->emptied;
    op->changed = marking->how != MARK_LOOK && (mark->stamped || empties);
    mark->marked = schema->dropped || op->changed;
    if (!op->changed)
        return HF_OK;
    schema->dropped = true;
    schema->dropped_at = at;
    schema->emptied = empties;
    return HF_OK;
}

/* Reads the version of index.json that has the mark. */
static enum hf_status find_mark_version(struct index *index, struct etag *ret_etag,
                                        struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    check(index_key(index, key, LAYOUT_INDEX));
    struct get_call get = { .key = view_of(key), .body = &text };
    enum hf_status status = store_get(index->store, &get);
    *error = get.error;
    if (status == HF_OK)
        status = schema_decode(buffer_view(&text), &index->schema, error);
    if (status == HF_OK && !index->schema.dropped)
        status = error_set(error, HF_CONFLICT, "another client has created the index anew");
    if (status == HF_NOT_FOUND)
        error_set(error, status, "there is no such index any more");
    *ret_etag = get.info.etag;
    buffer_release(&text);
    return status;
}

enum hf_status index_mark(struct index *index, enum marking how, struct drop_mark *ret_mark,
                          struct hf_error *error)
{
    struct marking_op marking = { .op.apply = apply_mark,
                                  .settings = client_settings(index->client),
                                  .how = how,
                                  .mark.at = env_now(index->env) };
    enum hf_status status =
        index_change(index, LAYOUT_INDEX, &definition_type, &marking.op, error);
    if (status == HF_OK && how != MARK_LOOK)
        status = find_mark_version(index, &marking.mark.etag, error);
    if (status == HF_OK)
        *ret_mark = marking.mark;
    return status;
}

enum hf_status index_check_marked(struct index *index, const struct drop_mark *mark,
                                  struct hf_error *error)
{
    struct etag now;
    enum hf_status status = find_mark_version(index, &now, error);
    if (status == HF_OK && !etag_equal(&now, &mark->etag))
        status = error_set(error, HF_CONFLICT, "another client is dropping the index, too");
    return status;
}

/* ---- Allowing deletions ---------------------------------------------------------------- */

static enum hf_status apply_deletes(struct doc_op *op, void *body,
                                    const struct evidence *evidence)
{
    (void)evidence;
    struct definition *definition = body;
    if (!definition->exists)
        return error_set(&op->error, HF_NOT_FOUND, "the index is gone");
    op->changed = !definition->schema.deletes;
    definition->schema.deletes = true;
    return HF_OK;
}

/* A program that does not know deletions would take one for a damaged entry and set it aside.
 * Before it does, it reads index.json again, and the later format stops it. So index.json must say
 * that there are deletions before the first one is put. */
static enum hf_status allow_deletes(struct index *index, struct hf_error *error)
{
    struct doc_op op = { .apply = apply_deletes };
    if (index->schema.deletes)
        return HF_OK;
    enum hf_status status = index_change(index, LAYOUT_INDEX, &definition_type, &op, error);
    if (status == HF_OK)
        status = index_refresh(index, error);
    if (status == HF_OK && !index->schema.deletes)
        status = error_set(error, HF_CONFLICT, "index.json was replaced");
    return status;
}

/* ---- Putting ------------------------------------------------------------------------- */

/* The time is written in microseconds, because two records within one second are common. */
#define NOW_TEXT_MAX (TIME_TEXT_MAX + 4)

bool index_write_record(const struct index *index, struct view *values, struct buffer *bytes)
{
    const struct schema *schema = &index->schema;
    char to_ms[TIME_TEXT_MAX], now[NOW_TEXT_MAX];
    size_t count = 0;
    if (!values[schema->time].data) {
        struct wall_time time = env_wall(index->env);
        time_text(time, to_ms);
        snprintf(now, sizeof now, "%.23s%03dZ", to_ms, (int)(time.us % 1000));
        values[schema->time] = view_of(now);
    }
    for (size_t i = 0; i < schema->field_count; i++)
        count = values[i].data ? i + 1 : count;
    return record_write(bytes, values, count);
}

/* The records of one call, as puts. */
struct put_batch {
    struct index *index;
    struct put_call *calls;
    size_t count;
    bool deletions; /* the records are deletions */
    struct arena arena;
};

/* Parses a record by the schema. If the record has too many fields, reads the schema again, which
 * may have been extended, and retries. */
static enum hf_status read_by_current_schema(struct index *index, bool deletions,
                                             struct view bytes, struct buffer *space,
                                             struct record *ret_record, struct hf_error *error)
{
    bool too_many = false;
    size_t fields = index->schema.field_count;
    record_reader *read = deletions ? record_read_stored : record_read;
    enum hf_status status = read(&index->schema, bytes, space, ret_record, &too_many, error);
    if (status != HF_INVALID || !too_many)
        return status;
    struct hf_error why = *error;
    status = index_refresh(index, error);
    if (status != HF_OK)
        return status;
    if (index->schema.field_count == fields) {
        *error = why;
        return why.status;
    }
    return read(&index->schema, bytes, space, ret_record, NULL, error);
}

static enum hf_status add_put(struct put_batch *batch, struct view bytes, struct buffer *space,
                              struct hf_error *error)
{
    struct index *index = batch->index;
    char nonce[NONCE_SIZE + 1], key[KEY_BYTES_MAX + 1];
    struct record record;
    enum hf_status status =
        read_by_current_schema(index, batch->deletions, bytes, space, &record, error);
    if (status != HF_OK)
        return status;
    /* With a nonce in its name, no entry is ever rewritten. Otherwise a writer could put a new
     * version under the name after the old one was folded, and the compiler that then deletes the
     * entry by name would delete the new version. */
    env_random_hex(index->env, NONCE_SIZE, nonce);
    MUTANT(mutant_drops_nonce(nonce));
    if (!entry_key(view_of(index->name), &index->schema, &record, nonce, key))
        return error_set(error, HF_INVALID, "the key is too long for an object name");
    struct view name = arena_copy(&batch->arena, view_of(key));
    char *body = arena_take(&batch->arena, bytes.size + strlen(RECORD_END));
    if (!name.data || !body)
        return error_no_memory(error);
    memcpy(body, bytes.data, bytes.size);
    memcpy(body + bytes.size, RECORD_END, strlen(RECORD_END));
    batch->calls[batch->count++] = (struct put_call){
        .key = name, .body = { body, bytes.size + strlen(RECORD_END) }, .condition = if_absent()
    };
    return HF_OK;
}

/* Turns the conflict of a put into OK if the entry exists. */
static void settle_conflict(struct put_call *put, const struct get_call *get)
{
    bool there = false;
    if (check_presence(get, &there, &put->error) == HF_OK && !there)
        error_set(&put->error, HF_CONFLICT,
                  "the store refused the entry although no object with this name exists");
}

/* Nobody else generates the name of an entry, so if the entry exists, it is ours. But a store may
 * also refuse a put because another put of that name is in progress, and then the entry may not
 * exist at all. So after a conflict the entry is looked up, and only if it exists does the put
 * count as OK. Otherwise a record could be reported as stored that does not exist anywhere. If
 * there is no memory for that, all results stay as they are. */
static void settle_conflicts(struct index *index, struct put_call *calls, size_t count)
{
    size_t conflicts = 0;
    for (size_t i = 0; i < count; i++)
        conflicts += calls[i].error.status == HF_CONFLICT;
    if (conflicts == 0)
        return;
    struct get_call *gets = calloc(conflicts, sizeof *gets);
    struct buffer *bytes = calloc(conflicts, sizeof *bytes);
    struct put_call **of = calloc(conflicts, sizeof *of);
    if (gets && bytes && of) {
        size_t n = 0;
        for (size_t i = 0; i < count; i++)
            if (calls[i].error.status == HF_CONFLICT) {
                gets[n] = first_byte_of(calls[i].key, &bytes[n]);
                of[n++] = &calls[i];
            }
        store_get_many(index->store, gets, conflicts);
        for (n = 0; n < conflicts; n++) {
            settle_conflict(of[n], &gets[n]);
            buffer_release(&bytes[n]);
        }
    }
    free(gets);
    free(bytes);
    free(of);
}

/* The outcome of a batch. */
struct put_outcome {
    size_t stored;
    bool unsure;            /* some may be stored, or may still arrive */
    struct hf_error failed; /* the first put that definitely failed */
};

/* Moves the calls that must be sent again to the front, and returns their number. */
static size_t sort_answers(struct put_call *calls, size_t count, struct put_outcome *outcome)
{
    size_t again = 0;
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        outcome->unsure = outcome->unsure || status == HF_UNSURE;
        if (status == HF_OK)
            outcome->stored++;
        else if (status == HF_UNSURE || status == HF_CONFLICT)
            calls[again++] = calls[i];
        else if (outcome->failed.status == HF_OK)
            outcome->failed = calls[i].error;
    }
    return again;
}

/* A put that got no reply may still arrive, regardless of the reply to a later attempt. So `unsure`
 * is never reset. This process may be suspended before any attempt (rule 14). */
static enum hf_status send_puts(struct put_batch *batch, struct hf_error *error)
{
    struct env *env = batch->index->env;
    struct put_outcome outcome = { 0 };
    struct hf_error marked;
    size_t left = batch->count;
    for (int tries = 0; tries < PUT_TRIES_MAX; tries++) {
        if (tries > 0)
            env_sleep(env, env_jitter(env, SPAN_US(PUT_PAUSE.us << tries)));
        if (index_check_mark(batch->index, &marked) != HF_OK) {
            batch->calls[0].error = marked;
            break;
        }
        store_put_many(batch->index->store, batch->calls, left);
        settle_conflicts(batch->index, batch->calls, left);
        left = sort_answers(batch->calls, left, &outcome);
        if (left == 0)
            break;
    }
    if (outcome.stored == batch->count)
        return error_clear(error);
    *error = left > 0 ? batch->calls[0].error : outcome.failed;
    if (outcome.unsure || outcome.stored > 0) {
        error->status = HF_UNSURE;
        error_prefix(error, "%zu of %zu records are known to be stored", outcome.stored,
                     batch->count);
    } else if (error->status == HF_CONFLICT) {
        error->status = HF_UNAVAILABLE;
    }
    return error->status;
}

static enum hf_status put_records(struct index *index, bool deletions,
                                  const struct view *records, size_t count, size_t *ret_bad,
                                  struct hf_error *error)
{
    struct put_batch batch = { .index = index, .deletions = deletions, .arena = ARENA_INIT };
    batch.calls = calloc(count, sizeof *batch.calls);
    struct buffer space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    enum hf_status status = batch.calls ? HF_OK : error_no_memory(error);
    while (status == HF_OK && batch.count < count) {
        status = add_put(&batch, records[batch.count], &space, error);
        if (status == HF_INVALID)
            *ret_bad = batch.count;
    }
    buffer_release(&space);
    if (status == HF_OK)
        status = send_puts(&batch, error);
    free(batch.calls);
    arena_release(&batch.arena);
    return status;
}

enum hf_status index_put(struct index *index, const struct view *records, size_t count,
                         size_t *ret_bad, struct hf_error *error)
{
    check(count <= BATCH_MAX);
    if (count == 0)
        return error_clear(error);
    client_active(index->client);
    return put_records(index, /* deletions */ false, records, count, ret_bad, error);
}

/* Writes GS, and then a record with only its key and time. */
static bool write_deletion(const struct index *index, struct view key, struct view time,
                           struct buffer *bytes)
{
    struct view values[INDEX_FIELDS_MAX] = { { NULL, 0 } };
    values[index->schema.key] = key;
    values[index->schema.time] = time;
    return buffer_append(bytes, VIEW(RECORD_DELETED)) &&
           index_write_record(index, values, bytes);
}

enum hf_status index_delete(struct index *index, const struct view *keys, size_t count,
                            struct view time, size_t *ret_bad, struct hf_error *error)
{
    struct view records[BATCH_MAX];
    struct arena arena = ARENA_INIT;
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    check(count <= BATCH_MAX);
    if (count == 0)
        return error_clear(error);
    client_active(index->client);
    enum hf_status status = allow_deletes(index, error);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        buffer_clear(&bytes);
        records[i] = write_deletion(index, keys[i], time, &bytes)
                         ? arena_copy(&arena, buffer_view(&bytes))
                         : (struct view){ NULL, 0 };
        if (!records[i].data)
            status = error_no_memory(error);
    }
    if (status == HF_OK)
        status = put_records(index, /* deletions */ true, records, count, ret_bad, error);
    buffer_release(&bytes);
    arena_release(&arena);
    return status;
}
