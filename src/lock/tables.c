/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c: lease tables as documents: their keys, and how they are created, adopted, and replaced
 * when damaged. It guards against decreasing tokens and forgotten holders: for a new or replaced
 * table, the epoch is read only after the table's own placeholder is known to be in the store. */
#include "lock/tables.h"

#include "base/buffer.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lock/epoch.h"
#include "lock/lease_name.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Keys of tables ------------------------------------------------------------------ */

/* The lock of the shard "<index>/<xx>". */
static int shard_key(struct view name, char ret_key[KEY_BYTES_MAX + 1])
{
    struct view shard = name;
    struct view index = view_cut(&shard, '/');
    return snprintf(ret_key, KEY_BYTES_MAX + 1,
                    LAYOUT_INDEX_FOLDER "%.*s/" LAYOUT_SHARD_FOLDER "%.*s" LAYOUT_SHARD_LOCK,
                    VIEW_ARGS(index), VIEW_ARGS(shard));
}

/* The table of a name. It is needed for every request, so it is not printed by printf. */
static int name_key(const char *ns, struct view name, char ret_key[KEY_BYTES_MAX + 1])
{
    struct buffer key = { .data = ret_key,
                          .capacity = KEY_BYTES_MAX + 1,
                          .max = KEY_BYTES_MAX };
    buffer_append(&key, view_of(ns));
    buffer_append(&key, VIEW(LAYOUT_META_FOLDER));
    buffer_append(&key, name);
    buffer_append(&key, VIEW(".json"));
    ret_key[key.size] = '\0';
    return key.failed ? KEY_BYTES_MAX + 1 : (int)key.size;
}

enum hf_status namespace_check(struct view ns, struct hf_error *error)
{
    if (name_check(ns, error) != HF_OK) {
        error_prefix(error, "namespace");
        return HF_INVALID;
    }
    /* If slashes were allowed, two namespaces could share a table: a/meta/b/meta/c.json. */
    if (view_find(ns, '/') < ns.size)
        return error_set(error, HF_INVALID, "a namespace name must not contain a slash");
    if (layout_namespace_reserved(ns))
        return error_set(error, HF_INVALID,
                         "the namespace '%.*s' is reserved: the bucket uses a folder of that "
                         "name for other data",
                         VIEW_ARGS(ns));
    return HF_OK;
}

enum hf_status table_key(const struct table_space *space, const struct scope *scope,
                         char ret_key[KEY_BYTES_MAX + 1], struct hf_error *error)
{
    size_t room = KEY_BYTES_MAX + 1;
    uint32_t page;
    int size = 0;
    switch (scope->kind) {
    case SCOPE_NAMED: size = name_key(space->ns, scope->name, ret_key); break;
    case SCOPE_PATH:
    case SCOPE_TREE:
        if (space->placement.pages == 0) {
            size = snprintf(ret_key, room, "%s" LAYOUT_PATHS, space->ns);
            break;
        }
        if (placement_page(&space->placement, scope, &page, error) != HF_OK)
            return HF_INVALID;
        size = snprintf(ret_key, room, "%s" LAYOUT_PAGES_FOLDER "%" PRIu32 ".json", space->ns,
                        page);
        break;
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
    case SCOPE_SNAPSHOT:
        if (layout_partition_key(scope->name, LAYOUT_LEASES, ret_key))
            size = (int)strlen(ret_key);
        break;
    }
    if (size < 0 || (size_t)size >= room)
        return error_set(error, HF_INVALID, "the name is too long for a key");
    return HF_OK;
}

enum hf_status table_key_at_server(const struct table_space *space, const struct scope *scope,
                                   bool exclusive, char ret_key[KEY_BYTES_MAX + 1],
                                   struct hf_error *error)
{
    char text[SCOPE_TEXT_MAX + 1];
    if (scope->kind > SCOPE_RANGE)
        return error_set(error, HF_UNSUPPORTED,
                         "this store is a server; a lock on '%.60s' needs the bucket itself",
                         scope_text(scope, text));
    if (scope->kind == SCOPE_NAMED && exclusive)
        return table_key(space, scope, ret_key, error);
    int size = snprintf(ret_key, KEY_BYTES_MAX + 1, "%s" LAYOUT_SCOPE_FOLDER "%s", space->ns,
                        scope_text(scope, text));
    if (size < 0 || size > KEY_BYTES_MAX || !lease_name_fits(view_of(ret_key)))
        return error_set(error, HF_INVALID, "the name is too long for a key");
    return HF_OK;
}

/* The scope after <ns> LAYOUT_SCOPE_FOLDER; false if the key is another one. */
static bool cut_scope(struct view key, struct scope *ret_scope)
{
    struct view rest = key;
    struct view path = view_from(key, view_cut(&rest, '/').size);
    return view_starts_with(path, VIEW(LAYOUT_SCOPE_FOLDER)) &&
           scope_parse(view_from(path, strlen(LAYOUT_SCOPE_FOLDER)), ret_scope, NULL) ==
               HF_OK &&
           ret_scope->kind <= SCOPE_RANGE;
}

bool table_key_is_at_server(struct view key)
{
    struct scope ignored;
    return cut_scope(key, &ignored);
}

/* Removes a suffix; false if the text does not end with it. */
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

/* The number of a page, without leading zeros: each page has one key. */
static bool page_parse(struct view text)
{
    uint64_t page;
    return parse_u64(text, PLACEMENT_PAGES_MAX - 1, &page, NULL) == HF_OK &&
           (text.size == 1 || text.data[0] != '0');
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
    if (view_equal(path, VIEW(LAYOUT_PATHS)) || table_key_is_at_server(key))
        return true;
    if (!cut_end(&name, VIEW(".json")))
        return false;
    if (view_starts_with(name, VIEW(LAYOUT_META_FOLDER)))
        return name_check(view_from(name, strlen(LAYOUT_META_FOLDER)), NULL) == HF_OK;
    if (view_starts_with(name, VIEW(LAYOUT_PAGES_FOLDER)))
        return page_parse(view_from(name, strlen(LAYOUT_PAGES_FOLDER)));
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

bool table_scope_at_server(const struct table_space *space, struct view key,
                           struct scope *ret_scope)
{
    char name[NAME_BYTES_MAX + 1];
    if (cut_scope(key, ret_scope))
        return true;
    if (!name_of_table(view_of(space->ns), key, name))
        return false;
    struct view in_key = view_from(key, strlen(space->ns) + strlen(LAYOUT_META_FOLDER));
    *ret_scope =
        (struct scope){ .kind = SCOPE_NAMED, .name = view_first(in_key, strlen(name)) };
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
    bool of_paths = view_equal(path, VIEW(LAYOUT_PATHS)) ||
                    view_starts_with(path, VIEW(LAYOUT_PAGES_FOLDER));
    return of_paths ? TABLES_OF_PATHS : TABLES_OF_NAMES;
}

/* ---- Limits -------------------------------------------------------------------------- */

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

/* A client that reads the epoch also sees the limits. For each kind, it remembers the longest one
 * that can still be used. */
static void remember_limits(struct table_space *space, const struct epoch_limits *limits)
{
    struct evidence evidence = { .nonce = VIEW("") };
    struct ttl_limit limit;
    clock_evidence(space->clock, &evidence);
    if (!limits->known)
        return;
    for (size_t kind = 0; kind < TABLE_KINDS; kind++)
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

enum hf_status table_keep_aside(struct store *store, struct view key, struct view bytes,
                                struct mono_time deadline, struct hf_error *error)
{
    char name[KEY_BYTES_MAX + 1], random[17];
    env_random_hex(store->env, 16, random);
    int size =
        snprintf(name, sizeof name, LAYOUT_KEPT_FOLDER "%.*s.%s", VIEW_ARGS(key), random);
    if (size < 0 || (size_t)size >= sizeof name)
        return error_set(error, HF_INVALID,
                         "the key of the damaged table is too long to keep a copy of it");
    struct put_call put = { .key = { name, (size_t)size },
                            .body = bytes,
                            .condition = if_absent(),
                            .deadline = deadline };
    enum hf_status status = store_put(store, &put);
    if (status != HF_OK)
        *error = put.error;
    return status;
}

/* ---- As a document ------------------------------------------------------------------- */

#define MARK_START "{\"format\":\"" TABLE_FORMAT "\",\"damaged\":\""

/* A stub states only that there is a table or, as a damage mark, that there was one. It has no
 * next_token, so nothing can be granted before the stub is filled in (prepare_table). */
static struct lease_table *new_stub(const struct lease_settings *settings, bool of_shard,
                                    bool damaged)
{
    struct lease_table *table = table_new(settings, /* epoch */ 0, /* error */ NULL);
    if (!table)
        return NULL;
    table->of_shard = of_shard;
    table->damaged = damaged;
    table->next_token = 0;
    return table;
}

static enum hf_status decode_table_doc(struct view bytes, bool of_shard,
                                       struct mono_time arrived, const void *previous,
                                       void **ret_body, struct hf_error *error)
{
    struct lease_table *table = NULL;
    const void *known = NULL;
    const struct lease_settings settings = lease_settings_default();
    enum hf_status status = HF_OK;
    /* Without the previous table, every reload would restart the observation of all leases. */
    if (RULE(WATCH_OVER_RELOADS))
        known = previous;
    if (placement_is_mark(bytes))
        return placement_refuse(error);
    if (view_starts_with(bytes, VIEW(MARK_START)))
        table = new_stub(&settings, of_shard, /* damaged */ true);
    else if (of_shard)
        status = table_decode_of_shard(bytes, arrived, known, &table, error);
    else
        status = table_decode(bytes, arrived, known, &table, error);
    if (status != HF_OK)
        return status;
    *ret_body = table;
    return table ? HF_OK : error_no_memory(error);
}

static enum hf_status decode_plain_table(struct view bytes, struct mono_time arrived,
                                         const void *previous, void **ret_body,
                                         struct hf_error *error)
{
    return decode_table_doc(bytes, /* of_shard */ false, arrived, previous, ret_body, error);
}

static enum hf_status decode_shard_lock(struct view bytes, struct mono_time arrived,
                                        const void *previous, void **ret_body,
                                        struct hf_error *error)
{
    return decode_table_doc(bytes, /* of_shard */ true, arrived, previous, ret_body, error);
}

static bool encode_table(const void *body, struct view nonce, struct buffer *text)
{
    const struct lease_table *table = body;
    return table->damaged ? buffer_print(text, MARK_START "%.*s\"}\n", VIEW_ARGS(nonce))
                          : table_encode(table, nonce, text);
}

static void note_table_written(void *body, struct mono_time now)
{
    table_written(body, now);
}

static void free_table(void *body)
{
    table_free(body);
}

static uint64_t first_token(uint64_t epoch)
{
    return epoch << 32 | 1;
}

static bool table_is_whole(const void *body)
{
    const struct lease_table *table = body;
    return !table->adopted && table->next_token > 0;
}

/* A damaged table of a name may have contained a state, which is now lost. Its readers get
 * CORRUPT, because "no state" would be a guess. */
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

/* Turns a mark into a table of a new epoch that contains only the barrier. The epoch is raised and
 * the limits are read after the mark has been written. From then on the lost table can grant
 * nothing, so the recorded limits cover all of its leases. Shard locks may belong to other
 * programs, which record no limits. */
static enum hf_status set_barrier(struct table_space *space, struct view key,
                                  struct lease_table *table, struct mono_time deadline,
                                  struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    struct evidence evidence = { .nonce = { nonce, NONCE_SIZE } };
    struct lease_request barrier = { .id = evidence.nonce, .holder = VIEW(HF_TABLE_REPLACED) };
    struct table_op op = { .kind = TABLE_BARRIER, .wanted = &barrier };
    enum hf_status status = epoch_raise_after_damage(space, table_kind_of(key), deadline,
                                                     &op.epoch, &barrier.wish.ttl, error);
    if (status != HF_OK) {
        error_prefix(error, "the damaged table cannot be replaced");
        return error->status;
    }
    if (!mark_lost(space, key, table))
        return error_no_memory(error);
    if (space->of_shards)
        barrier.wish.ttl = space->settings.ttl_max;
    MUTANT(mutant_shortens_barrier(&barrier.wish.ttl));
    table->damaged = false;
    table->settings = space->settings;
    table->next_token = first_token(op.epoch);
    env_random_hex(space->store->env, NONCE_SIZE, nonce);
    clock_evidence(space->clock, &evidence);
    if (RULE(BARRIER_AFTER_DAMAGE))
        status = table_apply(table, &op, &evidence);
    *error = op.error;
    return status;
}

/* Another program's table gets tokens of a new epoch. A stub gets tokens of the current epoch,
 * which is read after the stub is known to be in the store. If the name was purged earlier, the
 * purge raised the epoch before it deleted the table, so this read sees the raised epoch. */
static enum hf_status prepare_table(void *context, struct view key, void *body,
                                    struct mono_time deadline, struct hf_error *error)
{
    struct table_space *space = context;
    struct lease_table *table = body;
    struct epoch_ref ref = epoch_of_tables(space, deadline);
    struct epoch_limits limits;
    uint64_t epoch;
    if (table->damaged)
        return set_barrier(space, key, table, deadline, error);
    bool of_another = table->adopted && space->of_shards; /* such a file has no settings */
    table->settings = of_another ? space->settings
                                 : lease_settings_stricter(&table->settings, &space->settings);
    if (table_is_whole(table))
        return HF_OK;
    bool raise = RULE(ADOPTION_RAISES_EPOCH) && table->adopted;
    enum hf_status status = raise ? epoch_raise(&ref, /* by */ 1, &epoch, error)
                                  : epoch_have(&ref, &epoch, &limits, error);
    if (status != HF_OK)
        return status;
    if (!raise)
        remember_limits(space, &limits);
    table->adopted = false;
    if (table->next_token < first_token(epoch))
        table->next_token = first_token(epoch);
    return HF_OK;
}

/* A table is created in two writes, a stub first. With one write, an abandoned put with the
 * condition *absent* could take effect much later, after the table was purged, and bring back old
 * tokens. Tables are created like this on every store, because another client may purge stubs even
 * if this client does not know that the store allows it. */
static void *new_table(void *context)
{
    const struct table_space *space = context;
    return new_stub(&space->settings, space->of_shards, /* damaged */ false);
}

/* The mark contains a nonce, so its ETag never existed before. The ETag of the damaged bytes can
 * recur: where ETags are content hashes, an object that is emptied twice has the same ETag both
 * times. If the barrier were written over the damaged bytes directly, a write that was abandoned
 * after the first damage could take effect after the second and bring back old tokens. */
static enum hf_status mark_damaged_table(void *context, struct view key, struct view bytes,
                                         struct mono_time deadline, void **ret_body,
                                         struct hf_error *error)
{
    struct table_space *space = context;
    enum hf_status status = table_keep_aside(space->store, key, bytes, deadline, error);
    if (status != HF_OK) {
        error_prefix(error, "the damaged table cannot be replaced");
        return error->status;
    }
    *ret_body = new_stub(&space->settings, space->of_shards, /* damaged */ true);
    return *ret_body ? HF_OK : error_no_memory(error);
}

/* The two types differ only in their decoder. */
#define TABLE_TYPE(how)                                                                 \
    {                                                                                   \
        .bytes_max = TABLE_BYTES_READ_MAX, .decode = (how), .is_whole = table_is_whole, \
        .prepare = prepare_table, .birth = new_table, .rescue = mark_damaged_table,     \
        .encode = encode_table, .written = note_table_written, .free = free_table,      \
    }
const struct doc_type table_doc_type = TABLE_TYPE(decode_plain_table);
const struct doc_type shard_doc_type = TABLE_TYPE(decode_shard_lock);
