#include "lock/tables.h"

#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/epoch.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Where --------------------------------------------------------------------------- */

/* The lock of the shard "<index>/<xx>". */
static int shard_key(struct view name, char ret_key[KEY_BYTES_MAX + 1])
{
    struct view shard = name;
    struct view index = view_cut(&shard, '/');
    return snprintf(ret_key, KEY_BYTES_MAX + 1,
                    LAYOUT_INDEX_FOLDER "%.*s/" LAYOUT_SHARD_FOLDER "%.*s" LAYOUT_SHARD_LOCK,
                    VIEW_ARGS(index), VIEW_ARGS(shard));
}

enum hf_status table_key(const struct table_space *space, const struct scope *scope,
                         char ret_key[KEY_BYTES_MAX + 1], struct hf_error *error)
{
    size_t room = KEY_BYTES_MAX + 1;
    int size = 0;
    switch (scope->kind) {
    case SCOPE_NAMED:
        size = snprintf(ret_key, room, "%s" LAYOUT_META_FOLDER "%.*s.json", space->ns,
                        VIEW_ARGS(scope->name));
        break;
    case SCOPE_PATH:
    case SCOPE_TREE: size = snprintf(ret_key, room, "%s" LAYOUT_PATHS, space->ns); break;
    case SCOPE_INODE:
    case SCOPE_RANGE:
        size = snprintf(ret_key, room, "%s" LAYOUT_INODE_FOLDER "%" PRIu64 ".json", space->ns,
                        scope->inode);
        break;
    case SCOPE_SHARD: size = shard_key(scope->name, ret_key); break;
    case SCOPE_CHUNK:
    case SCOPE_PIN:
        if (layout_partition_key(layout_home(scope->name), LAYOUT_LEASES, ret_key))
            size = (int)strlen(ret_key);
        break;
    }
    if (size < 0 || (size_t)size >= room)
        return error_set(error, HF_INVALID, "the name is too long for a key");
    return HF_OK;
}

/* Cuts the text off the end, if it is there. */
static bool cut_end(struct view *whole, struct view end)
{
    bool there =
        whole->size >= end.size && view_equal(view_from(*whole, whole->size - end.size), end);
    if (there)
        whole->size -= end.size;
    return there;
}

bool table_key_is_of_chunks(struct view key)
{
    struct view partition = view_from(key, strlen(LAYOUT_CHUNK_FOLDER));
    if (view_equal(key, VIEW(LAYOUT_CHUNK_LEASES)))
        return true;
    return view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)) &&
           cut_end(&partition, VIEW("/" LAYOUT_LEASES)) && layout_partition_valid(partition);
}

bool table_key_is_of_shard(struct view key)
{
    struct view rest = view_from(key, strlen(LAYOUT_INDEX_FOLDER));
    struct view index = view_cut(&rest, '/');
    struct view shard = view_from(rest, strlen(LAYOUT_SHARD_FOLDER));
    return view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)) && layout_index_valid(index) &&
           view_starts_with(rest, VIEW(LAYOUT_SHARD_FOLDER)) &&
           cut_end(&shard, VIEW(LAYOUT_SHARD_LOCK)) && layout_shard_valid(shard);
}

bool table_key_is_ours(struct view key)
{
    struct view rest = key;
    struct view ns = view_cut(&rest, '/');
    struct view path = view_from(key, ns.size); /* with its slash */
    struct view name = path;
    uint64_t inode;
    if (key.size > KEY_BYTES_MAX || name_check(ns, NULL) != HF_OK)
        return false;
    if (view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)))
        return table_key_is_of_shard(key);
    if (table_key_is_of_chunks(key))
        return true;
    if (layout_namespace_reserved(ns))
        return false;
    if (view_equal(path, VIEW(LAYOUT_PATHS)))
        return true;
    if (!cut_end(&name, VIEW(".json")))
        return false;
    if (view_starts_with(name, VIEW(LAYOUT_META_FOLDER)))
        return name_check(view_from(name, strlen(LAYOUT_META_FOLDER)), NULL) == HF_OK;
    return view_starts_with(name, VIEW(LAYOUT_INODE_FOLDER)) &&
           parse_u64(view_from(name, strlen(LAYOUT_INODE_FOLDER)), UINT64_MAX, &inode, NULL) ==
               HF_OK;
}

bool name_of_table(struct view ns, struct view key, char ret_name[NAME_BYTES_MAX + 1])
{
    ret_name[0] = '\0';
    if (!view_starts_with(key, ns))
        return false;
    struct view name = view_from(key, ns.size);
    if (!view_starts_with(name, VIEW(LAYOUT_META_FOLDER)) || !cut_end(&name, VIEW(".json")))
        return false;
    name = view_from(name, strlen(LAYOUT_META_FOLDER));
    if (name_check(name, NULL) != HF_OK)
        return false;
    memcpy(ret_name, name.data, name.size);
    ret_name[name.size] = '\0';
    return true;
}

enum table_kind table_kind_of(struct view key)
{
    struct view rest = key;
    struct view path = view_from(key, view_cut(&rest, '/').size);
    if (table_key_is_of_chunks(key))
        return TABLES_OF_CHUNKS;
    if (view_starts_with(path, VIEW(LAYOUT_INODE_FOLDER)))
        return TABLES_OF_INODES;
    return view_equal(path, VIEW(LAYOUT_PATHS)) ? TABLES_OF_PATHS : TABLES_OF_NAMES;
}

/* ---- How long leases can be ---------------------------------------------------------- */

void table_space_init(struct table_space *space, const struct table_space *fields)
{
    *space = *fields;
    memset(space->seen.limits, 0, sizeof space->seen.limits);
    env_mutex_init(space->store->env, &space->seen.mutex);
}

void table_space_release(struct table_space *space)
{
    env_mutex_release(&space->seen.mutex);
}

struct ttl_limit table_limit(struct table_space *space, enum table_kind kind)
{
    env_mutex_lock(&space->seen.mutex);
    struct ttl_limit limit = space->seen.limits[kind];
    env_mutex_unlock(&space->seen.mutex);
    return limit;
}

static void remember_limit(struct table_space *space, enum table_kind kind,
                           struct ttl_limit limit)
{
    env_mutex_lock(&space->seen.mutex);
    space->seen.limits[kind] = limit;
    env_mutex_unlock(&space->seen.mutex);
}

/* Whoever reads the epoch anyway sees what is recorded: of each kind the longest that can be used
 * for a while. */
static void remember_limits(struct table_space *space, const struct epoch_limits *limits)
{
    struct evidence evidence = { .nonce = VIEW("") };
    struct ttl_limit limit;
    clock_evidence(space->clock, &evidence);
    for (size_t kind = 0; limits->known && kind < TABLE_KINDS; kind++)
        for (size_t i = limits->of[kind].count; i-- > 0;)
            if (limits_find(&limits->of[kind], &space->settings, limits->of[kind].of[i].ttl,
                            &space->policy, &evidence, &limit)) {
                remember_limit(space, (enum table_kind)kind, limit);
                break;
            }
}

enum hf_status table_record_limit(struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct hf_error *error)
{
    struct ttl_limit limit;
    enum hf_status status = epoch_record_limit(space, kind, ttl, deadline, &limit, error);
    if (status == HF_OK)
        remember_limit(space, kind, limit);
    return status;
}

/* ---- As a document ------------------------------------------------------------------- */

static enum hf_status decode(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error)
{
    struct lease_table *table;
    const void *known = RULE(WATCH_OVER_RELOADS) ? previous : NULL;
    enum hf_status status = table_decode(bytes, arrived, known, &table, error);
    if (status == HF_OK)
        *ret_body = table;
    return status;
}

static enum hf_status decode_of_shard(struct view bytes, struct mono_time arrived,
                                      const void *previous, void **ret_body,
                                      struct hf_error *error)
{
    struct lease_table *table;
    const void *known = RULE(WATCH_OVER_RELOADS) ? previous : NULL;
    enum hf_status status = table_decode_of_shard(bytes, arrived, known, &table, error);
    if (status == HF_OK)
        *ret_body = table;
    return status;
}

static bool encode(const void *body, struct view nonce, struct buffer *text)
{
    return table_encode(body, nonce, text);
}

static void written(void *body, struct mono_time now)
{
    table_written(body, now);
}

static void release(void *body)
{
    table_free(body);
}

static uint64_t first_token(uint64_t epoch)
{
    return epoch << 32 | 1;
}

static bool is_whole(const void *body)
{
    const struct lease_table *table = body;
    return !table->adopted && table->next_token > 0;
}

/* A table of another program gets tokens of a new epoch. A stub, which says only that there is
 * a table, gets those of the epoch as it is now: it was read after the stub had landed, so a
 * purge of this name has raised it already. */
static enum hf_status prepare(void *context, void *body, struct mono_time deadline,
                              struct hf_error *error)
{
    struct table_space *space = context;
    struct lease_table *table = body;
    struct epoch_limits limits;
    uint64_t epoch;
    bool of_another = table->adopted && space->of_shards; /* which knows of no settings */
    table->settings = of_another ? space->settings
                                 : lease_settings_stricter(&table->settings, &space->settings);
    if (is_whole(table))
        return HF_OK;
    bool raise = table->adopted && RULE(ADOPTION_RAISES_EPOCH);
    enum hf_status status = raise ? epoch_raise(space->store, space->clock, view_of(space->ns),
                                                deadline, &epoch, error)
                                  : epoch_have(space->store, space->clock, view_of(space->ns),
                                               deadline, &epoch, &limits, error);
    if (status != HF_OK)
        return status;
    if (!raise)
        remember_limits(space, &limits);
    table->adopted = false;
    if (table->next_token < first_token(epoch))
        table->next_token = first_token(epoch);
    return HF_OK;
}

static struct lease_table *new_table(const struct table_space *space, uint64_t epoch,
                                     struct hf_error *error)
{
    struct lease_table *table = table_new(&space->settings, epoch, error);
    if (table)
        table->of_shard = space->of_shards;
    return table;
}

/* Writes a stub, if there is still nothing. */
static enum hf_status write_stub(struct table_space *space, struct view key,
                                 struct lease_table *table, struct mono_time deadline,
                                 struct etag *ret_etag, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(space->store->env, NONCE_SIZE, nonce);
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    table->next_token = 0;
    if (!table_encode(table, view_of(nonce), &text)) {
        buffer_release(&text);
        return error_no_memory(error);
    }
    struct put_call put = {
        .key = key, .body = buffer_view(&text), .condition = if_absent(), .deadline = deadline
    };
    if (!RULE(FIRST_WRITE_IF_ABSENT))
        put.condition.kind = CONDITION_ALWAYS;
    enum hf_status status = store_put(space->store, &put);
    clock_learn(space->clock, &put.stamp);
    buffer_release(&text);
    if (status == HF_OK)
        *ret_etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* A table is born in two writes: a put if absent that was given up on must not bring back, much
 * later, a table with old tokens, after the one that stood there was purged. So it is on every
 * store: whether this client knows that stubs are purged here says nothing about the others. */
static enum hf_status birth(void *context, struct view key, struct mono_time deadline,
                            void **ret_body, struct etag *ret_etag, struct hf_error *error)
{
    struct table_space *space = context;
    struct lease_table *table = new_table(space, 0, error);
    if (!table)
        return error->status;
    enum hf_status status = HF_OK;
    table->next_token = 0;
    if (!RULE(EPOCH_AFTER_THE_STUB))
        status = prepare(space, table, deadline, error);
    uint64_t early = table->next_token;
    bool stub_first = RULE(BORN_IN_TWO_WRITES) &&
                      (space->store->traits.delete_conditional || RULE(BORN_SO_EVERYWHERE));
    if (status == HF_OK && stub_first)
        status = write_stub(space, key, table, deadline, ret_etag, error);
    table->next_token = early;
    if (status == HF_OK)
        status = prepare(space, table, deadline, error);
    if (status != HF_OK) {
        table_free(table);
        return status;
    }
    *ret_body = table;
    return HF_OK;
}

/* They differ in how they are read only. */
#define TABLE_TYPE(how)                                                           \
    {                                                                             \
        .bytes_max = TABLE_BYTES_READ_MAX, .decode = (how), .is_whole = is_whole, \
        .prepare = prepare, .birth = birth, .encode = encode, .written = written, \
        .free = release,                                                          \
    }
const struct doc_type table_doc_type = TABLE_TYPE(decode);
const struct doc_type shard_doc_type = TABLE_TYPE(decode_of_shard);

/* ---- Damaged ------------------------------------------------------------------------- */

enum hf_status table_keep_aside(struct table_space *space, struct view key, struct view bytes,
                                struct mono_time deadline, struct hf_error *error)
{
    char name[KEY_BYTES_MAX + 1], random[17];
    env_random_hex(space->store->env, 16, random);
    int size =
        snprintf(name, sizeof name, LAYOUT_KEPT_FOLDER "%.*s.%s", VIEW_ARGS(key), random);
    if (size < 0 || (size_t)size >= sizeof name)
        return error_set(error, HF_INVALID, "the damaged table's name is too long to keep it");
    struct put_call put = { .key = { name, (size_t)size },
                            .body = bytes,
                            .condition = if_absent(),
                            .deadline = deadline };
    enum hf_status status = store_put(space->store, &put);
    if (status != HF_OK)
        *error = put.error;
    return status;
}

#define MARK_START "{\"format\":\"" TABLE_FORMAT "\",\"damaged\":\""

/* Puts bytes that were never there before in the place of the damaged ones. Where ETags are
 * hashes of the bytes, the same damage done twice (an empty object) has the same one: a barrier
 * that was given up on, and lands late, must not find it again and bring old tokens back.
 * Without a next token it is a damaged table too. */
static enum hf_status mark_damaged(struct table_space *space, struct view key,
                                   struct mono_time deadline, struct etag *etag,
                                   struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1], text[128];
    env_random_hex(space->store->env, NONCE_SIZE, nonce);
    snprintf(text, sizeof text, MARK_START "%s\"}\n", nonce);
    struct put_call put = {
        .key = key, .body = view_of(text), .condition = if_match(etag), .deadline = deadline
    };
    enum hf_status status = store_put(space->store, &put);
    if (status == HF_OK)
        *etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* A table of a name may have had a state, which nobody knows any more: its readers are told so. */
static bool mark_lost(struct table_space *space, struct view key, struct lease_table *table)
{
    struct view ns = view_of(space->ns);
    if (!view_starts_with(key, ns) ||
        !view_starts_with(view_from(key, ns.size), VIEW(LAYOUT_META_FOLDER)))
        return true;
    if (!table_reserve_state(table))
        return false;
    table_set_state(table, VIEW("{\"lost\":true}"));
    return true;
}

/* A table of this epoch with nothing but the barrier. */
static enum hf_status write_barrier(struct table_space *space, struct view key,
                                    const struct etag *damaged, uint64_t epoch, struct span ttl,
                                    struct mono_time deadline, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(space->store->env, NONCE_SIZE, nonce);
    struct evidence evidence = { .nonce = view_of(nonce) };
    clock_evidence(space->clock, &evidence);
    struct lease barrier = { .id = view_of(nonce), .holder = VIEW(TABLE_REPLACED), .ttl = ttl };
    if (!RULE(BARRIER_OF_THE_LONGEST))
        barrier.ttl = SPAN_MS(LEASE_TTL_MS_MIN);
    struct table_op op = { .kind = TABLE_BARRIER, .wanted = &barrier, .epoch = epoch };
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease_table *table = new_table(space, epoch, error);
    enum hf_status status = table ? HF_OK : error->status;
    if (table && !mark_lost(space, key, table))
        status = error_no_memory(&op.error);
    if (status == HF_OK && RULE(BARRIER_AFTER_DAMAGE))
        status = table_apply(table, &op, &evidence);
    if (status == HF_OK && !table_encode(table, view_of(nonce), &text))
        status = error_no_memory(&op.error);
    if (table && status != HF_OK)
        *error = op.error;
    struct put_call put = { .key = key,
                            .body = buffer_view(&text),
                            .condition = if_match(damaged),
                            .deadline = deadline };
    if (status == HF_OK && (status = store_put(space->store, &put)) != HF_OK)
        *error = put.error;
    buffer_release(&text);
    table_free(table);
    return status;
}

/* CONFLICT when it is a table after all. */
static enum hf_status check_damaged(const struct table_space *space, struct view bytes,
                                    struct mono_time arrived, struct hf_error *error)
{
    struct lease_table *table;
    enum hf_status status = space->of_shards
                                ? table_decode_of_shard(bytes, arrived, NULL, &table, error)
                                : table_decode(bytes, arrived, NULL, &table, error);
    if (status == HF_CORRUPT)
        return HF_OK;
    if (status == HF_OK)
        table_free(table);
    return error_set(error, HF_CONFLICT, "the table is not damaged any more");
}

/* Reads what is to be kept. Of what does not fit into memory, and so never was a table, that is the
 * start, as much as a table can be: to keep all of it would take longer than anybody waits. */
static enum hf_status read_damaged(const struct table_space *space, struct get_call *get,
                                   struct hf_error *error)
{
    enum hf_status status = store_get(space->store, get);
    if (status == HF_OK)
        return check_damaged(space, buffer_view(get->body), get->stamp.received, error);
    if (status == HF_INVALID && get->info.size > BODY_BYTES_MAX) {
        get->match = get->info.etag;
        get->length = TABLE_BYTES_READ_MAX;
        buffer_clear(get->body);
        status = store_get(space->store, get);
    }
    if (status != HF_OK)
        *error = get->error;
    return status;
}

/* Nobody can grant anything there any more: how long can what was granted be? Locks of shards may
 * be another program's, which records nothing. */
static enum hf_status raise_after_damage(struct table_space *space, struct view key,
                                         struct mono_time deadline, uint64_t *ret_epoch,
                                         struct span *ret_longest, struct hf_error *error)
{
    struct span ignored;
    struct view ns = view_of(space->ns);
    *ret_longest = space->settings.ttl_max;
    if (!RULE(DAMAGE_RAISES_EPOCH))
        return epoch_read(space->store, ns, deadline, ret_epoch, error);
    return epoch_raise_after_damage(space, table_kind_of(key), deadline, ret_epoch,
                                    space->of_shards ? &ignored : ret_longest, error);
}

enum hf_status table_replace(struct table_space *space, struct view key,
                             struct mono_time deadline, struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = key, .body = &bytes, .deadline = deadline };
    enum hf_status status = read_damaged(space, &get, error);
    uint64_t epoch;
    bool marked = status == HF_OK && view_starts_with(buffer_view(&bytes), VIEW(MARK_START));
    if (status == HF_OK && !marked)
        status = table_keep_aside(space, key, buffer_view(&bytes), deadline, error);
    struct span early = SPAN_US(0), longest = SPAN_US(0);
    if (status == HF_OK && !RULE(LIMIT_AFTER_THE_MARK))
        status = raise_after_damage(space, key, deadline, &epoch, &early, error);
    if (status == HF_OK && !marked && RULE(DAMAGE_IS_MARKED))
        status = mark_damaged(space, key, deadline, &get.info.etag, error);
    if (status == HF_OK)
        status = raise_after_damage(space, key, deadline, &epoch, &longest, error);
    if (status == HF_OK)
        status = write_barrier(space, key, &get.info.etag, epoch,
                               early.us > 0 ? early : longest, deadline, error);
    buffer_release(&bytes);
    return status;
}
