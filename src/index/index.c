/* index.c: index.json, made and grown by swaps, and entries put into the inbox. It knows nothing
 * of shards. */
#include "index/index.h"

#include "base/check.h"
#include "base/evidence.h"
#include "base/parse.h"
#include "base/rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Somebody else changes the schema at the same time, or an answer is lost: so often in a row. */
#define CREATE_TRIES_MAX 8

/* A put without an answer is sent again: so often in all, after pauses of up to this, doubled. */
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

/* ---- Is it there? --------------------------------------------------------------------- */

static struct get_call first_byte_of(struct view object, struct buffer *byte)
{
    *byte = BUFFER_INIT(1);
    return (struct get_call){ .key = object, .length = 1, .body = byte };
}

static enum hf_status judge_presence(const struct get_call *get, bool *ret_there,
                                     struct hf_error *error)
{
    enum hf_status status = get->error.status;
    bool there = status == HF_OK || status == HF_INVALID; /* it has no first byte */
    if (!RULE(REFUSED_ENTRY_IS_LOOKED_FOR))
        there = true;
    if (!there && status != HF_NOT_FOUND)
        return error_set(error, HF_UNSURE, "whether it is there: %s", get->error.why);
    *ret_there = there;
    return error_clear(error);
}

enum hf_status index_has(struct index *index, struct view object, bool *ret_there,
                         struct hf_error *error)
{
    struct buffer byte;
    struct get_call get = first_byte_of(object, &byte);
    store_get(index->store, &get);
    buffer_release(&byte);
    return judge_presence(&get, ret_there, error);
}

/* ---- Opening ------------------------------------------------------------------------- */

static enum hf_status index_new(struct store *store, struct hf_client *client, struct view name,
                                struct index **ret_index, struct hf_error *error)
{
    if (!layout_index_valid(name))
        return error_set(error, HF_INVALID,
                         "an index is named by 1 to %d of a-z 0-9 . _ - without a dot in front",
                         INDEX_NAME_MAX);
    struct index *index = calloc(1, sizeof *index);
    if (!index)
        return error_no_memory(error);
    index->env = store->env;
    index->store = store;
    index->client = client;
    index->unknown = BUFFER_INIT(INDEX_BYTES_MAX);
    memcpy(index->name, name.data, name.size);
    *ret_index = index;
    return HF_OK;
}

void index_close(struct index *index)
{
    if (index)
        buffer_release(&index->unknown);
    free(index);
}

struct index *index_copy(const struct index *index)
{
    struct index *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *index;
    copy->unknown = BUFFER_INIT(INDEX_BYTES_MAX); /* only who creates needs it */
    return copy;
}

void index_learn(struct index *index, const struct index *copy)
{
    struct schema *had = &index->schema;
    const struct schema *later = &copy->schema;
    if (later->version_count <= had->version_count)
        return;
    memcpy(had->fields + had->field_count, later->fields + had->field_count,
           (later->field_count - had->field_count) * sizeof *had->fields);
    had->field_count = later->field_count;
    memcpy(had->versions, later->versions, sizeof had->versions);
    had->version_count = later->version_count;
    index->etag = copy->etag;
}

/* Whether the schema that was just read is the one that we had, or a later one. */
static enum hf_status judge_later(const struct index *index, const struct schema *later,
                                  struct hf_error *error)
{
    const struct schema *had = &index->schema;
    size_t version = had->version_count;
    struct hf_error why;
    if (version == 0 ||
        (had->digits == later->digits && had->foreign == later->foreign &&
         schema_judge(later, version, had->versions[version - 1].hash, &why) == HF_OK))
        return HF_OK;
    return error_set(error, HF_CORRUPT,
                     "the index %s has been replaced by another one: open it anew",
                     index->name);
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
    else
        status = judge_later(index, schema, error);
    buffer_clear(&index->unknown);
    if (status == HF_OK && !schema_unknown(buffer_view(get->body), &index->unknown))
        status = error_no_memory(error);
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
    enum hf_status status = store_get(index->store, &get);
    if (status == HF_OK)
        status = take_schema(index, &get, error);
    else if (status == HF_NOT_MODIFIED)
        status = error_clear(error);
    else if (status == HF_NOT_FOUND)
        error_set(error, status, "there is no index %s", index->name);
    else if (status == HF_INVALID)
        status =
            error_set(error, HF_CORRUPT, "%s: too large to be the schema of an index", key);
    else
        *error = get.error;
    buffer_release(&text);
    return status;
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

static enum hf_status write_schema(struct index *index, const struct schema *schema,
                                   struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1], nonce[NONCE_SIZE + 1];
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    check(index_key(index, key, LAYOUT_INDEX));
    env_random_hex(index->env, NONCE_SIZE, nonce);
    struct put_call put = { .key = view_of(key),
                            .condition =
                                index->etag.size > 0 ? if_match(&index->etag) : if_absent() };
    enum hf_status status = HF_OK;
    if (!schema_encode(schema, buffer_view(&index->unknown), view_of(nonce), &text)) {
        status = text.size < INDEX_BYTES_MAX / 2
                     ? error_no_memory(error)
                     : error_set(error, HF_INVALID, "the schema is too large");
    } else {
        put.body = buffer_view(&text);
        status = store_put(index->store, &put);
        *error = put.error;
    }
    buffer_release(&text);
    return status;
}

/* `tried`: an earlier try was without an answer, and was about to be `made`; so what is found there
 * now may be our own doing. */
struct creation {
    struct index *index;
    const struct schema *wanted;
    bool tried;
    enum index_made made;
};

static enum hf_status create_once(struct creation *creation, struct schema *schema,
                                  struct hf_error *error)
{
    struct index *index = creation->index;
    index->etag = (struct etag){ 0 };
    index->schema.version_count = 0;
    buffer_clear(&index->unknown);
    enum index_made making = INDEX_CREATED;
    bool changed = true;
    enum hf_status status = index_refresh(index, error);
    if (status == HF_NOT_FOUND) {
        *schema = *creation->wanted;
    } else if (status == HF_OK) {
        *schema = index->schema;
        making = INDEX_EXTENDED;
        status = schema_extend(schema, creation->wanted, &changed, error);
        if (status != HF_OK)
            return status;
    } else {
        return status;
    }
    if (!changed) {
        if (!creation->tried)
            creation->made = INDEX_UNCHANGED;
        return HF_OK;
    }
    status = write_schema(index, schema, error);
    creation->tried = creation->tried || status == HF_UNSURE;
    if (status == HF_OK || status == HF_UNSURE)
        creation->made = making;
    return status;
}

enum hf_status index_create(struct store *store, struct view name, const struct schema *schema,
                            enum index_made *ret_made, struct hf_error *error)
{
    struct creation creation = { .wanted = schema };
    enum hf_status status = index_new(store, NULL, name, &creation.index, error);
    if (status != HF_OK)
        return status;
    struct schema *space = malloc(sizeof *space);
    status = space ? create_once(&creation, space, error) : error_no_memory(error);
    for (int tries = 1;
         tries < CREATE_TRIES_MAX && (status == HF_CONFLICT || status == HF_UNSURE); tries++) {
        env_sleep(store->env, env_jitter(store->env, SPAN_MS(20 * tries)));
        status = create_once(&creation, space, error);
    }
    if (status == HF_OK)
        *ret_made = creation.made;
    else if (creation.tried && status != HF_INVALID)
        status = error->status = HF_UNSURE;
    free(space);
    index_close(creation.index);
    return status;
}

/* ---- Putting ------------------------------------------------------------------------- */

/* Microseconds, since two records of one second are common. */
#define NOW_TEXT_MAX (TIME_TEXT_MAX + 4)
static const char *now_text(struct env *env, char text[NOW_TEXT_MAX])
{
    struct wall_time now = env_wall(env);
    char to_ms[TIME_TEXT_MAX];
    time_text(now, to_ms);
    snprintf(text, NOW_TEXT_MAX, "%.23s%03dZ", to_ms, (int)(now.us % 1000));
    return text;
}

bool index_write_record(const struct index *index, struct view *values, struct buffer *bytes)
{
    const struct schema *schema = &index->schema;
    char now[NOW_TEXT_MAX];
    size_t count = 0;
    if (!values[schema->time].data)
        values[schema->time] = view_of(now_text(index->env, now));
    for (size_t i = 0; i < schema->field_count; i++)
        count = values[i].data ? i + 1 : count;
    return record_write(bytes, values, count);
}

/* The records of one call as objects. */
struct parcel {
    struct index *index;
    struct put_call *calls;
    size_t count;
    struct arena arena;
};

/* An entry is never written again under its name, so whoever has folded it may delete that. */
static void draw_nonce(struct env *env, char nonce[NONCE_SIZE + 1])
{
    if (RULE(ENTRIES_HAVE_A_NONCE)) {
        env_random_hex(env, NONCE_SIZE, nonce);
    } else {
        memset(nonce, '0', NONCE_SIZE);
        nonce[NONCE_SIZE] = '\0';
    }
}

/* Reads a record by the schema, and once more if it has changed meanwhile. */
static enum hf_status judge_record(struct index *index, struct view bytes, struct buffer *space,
                                   struct record *ret_record, struct hf_error *error)
{
    bool too_many = false;
    size_t fields = index->schema.field_count;
    enum hf_status status =
        record_read(&index->schema, bytes, space, ret_record, &too_many, error);
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
    return record_read(&index->schema, bytes, space, ret_record, NULL, error);
}

static enum hf_status pack(struct parcel *parcel, struct view bytes, struct buffer *space,
                           struct hf_error *error)
{
    struct index *index = parcel->index;
    char nonce[NONCE_SIZE + 1], key[KEY_BYTES_MAX + 1];
    struct record record;
    enum hf_status status = judge_record(index, bytes, space, &record, error);
    if (status != HF_OK)
        return status;
    draw_nonce(index->env, nonce);
    if (!entry_key(view_of(index->name), &index->schema, &record, nonce, key))
        return error_set(error, HF_INVALID, "the key is too long for the name of an object");
    struct view name = arena_copy(&parcel->arena, view_of(key));
    char *body = arena_take(&parcel->arena, bytes.size + strlen(RECORD_END));
    if (!name.data || !body)
        return error_no_memory(error);
    memcpy(body, bytes.data, bytes.size);
    memcpy(body + bytes.size, RECORD_END, strlen(RECORD_END));
    parcel->calls[parcel->count++] = (struct put_call){
        .key = name, .body = { body, bytes.size + strlen(RECORD_END) }, .condition = if_absent()
    };
    return HF_OK;
}

static enum hf_status pack_all(struct parcel *parcel, const struct view *records, size_t count,
                               size_t *ret_bad, struct hf_error *error)
{
    struct buffer space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        status = pack(parcel, records[i], &space, error);
        if (status == HF_INVALID)
            *ret_bad = i;
    }
    buffer_release(&space);
    return status;
}

/* What a look after a conflict tells of the put. */
static void settle_conflict(struct put_call *put, const struct get_call *get)
{
    bool there = false;
    if (judge_presence(get, &there, &put->error) == HF_OK && !there)
        error_set(&put->error, HF_CONFLICT, "the store refuses it, though there is none yet");
}

/* Nobody but us knows the name of an entry: if one is there, we have put it there. But a store may
 * also refuse a put since another of that name is under way: so those with a conflict are looked
 * for, and the conflict of those that are there becomes OK. Without memory all stay as they are. */
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

/* What came of a parcel so far. */
struct delivery {
    size_t landed;
    bool open;              /* some may still arrive, or be there */
    struct hf_error failed; /* the first that certainly did not */
};

/* Keeps those in front that should be sent again, and returns how many they are. */
static size_t sort_answers(struct put_call *calls, size_t count, struct delivery *delivery)
{
    size_t again = 0;
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        delivery->open = delivery->open || status == HF_UNSURE;
        if (status == HF_OK)
            delivery->landed++;
        else if (status == HF_UNSURE || status == HF_CONFLICT)
            calls[again++] = calls[i];
        else if (delivery->failed.status == HF_OK)
            delivery->failed = calls[i].error;
    }
    return again;
}

/* A call that was once without an answer may still arrive, whatever a later try is told. */
static enum hf_status send_parcel(struct parcel *parcel, struct hf_error *error)
{
    struct env *env = parcel->index->env;
    struct delivery delivery = { 0 };
    size_t left = parcel->count;
    for (int tries = 0; tries < PUT_TRIES_MAX && left > 0; tries++) {
        if (tries > 0)
            env_sleep(env, env_jitter(env, SPAN_US(PUT_PAUSE.us << tries)));
        store_put_many(parcel->index->store, parcel->calls, left);
        settle_conflicts(parcel->index, parcel->calls, left);
        left = sort_answers(parcel->calls, left, &delivery);
    }
    if (delivery.landed == parcel->count)
        return error_clear(error);
    *error = left > 0 ? parcel->calls[0].error : delivery.failed;
    if (delivery.open || delivery.landed > 0) {
        error->status = HF_UNSURE;
        error_prefix(error, "%zu of %zu records are known to be there", delivery.landed,
                     parcel->count);
    } else if (error->status == HF_CONFLICT) {
        error->status = HF_UNAVAILABLE;
    }
    return error->status;
}

enum hf_status index_put(struct index *index, const struct view *records, size_t count,
                         size_t *ret_bad, struct hf_error *error)
{
    check(count <= BATCH_MAX);
    if (count == 0)
        return error_clear(error);
    client_active(index->client);
    struct parcel parcel = { .index = index, .arena = ARENA_INIT };
    parcel.calls = calloc(count, sizeof *parcel.calls);
    enum hf_status status = parcel.calls ? pack_all(&parcel, records, count, ret_bad, error)
                                         : error_no_memory(error);
    if (status == HF_OK)
        status = send_parcel(&parcel, error);
    free(parcel.calls);
    arena_release(&parcel.arena);
    return status;
}
