/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: a client and its table_refs (one per lease table). A client is freed only when it has
 * been closed and its last handle has been freed, so no handle uses a freed client. */
#include "lock/client_inside.h"

#include "base/check.h"
#include "base/layout.h"
#include "lock/expiry.h"
#include "store/handle.h"
#include "store/observe.h"

#include <stdio.h>
#include <stdlib.h>

/* Unused table_refs are cached, so that the next acquire takes one put: so many, and with so many
 * leases in all. A client that uses 100,000 locks in pages keeps all of its tables. */
#define TABLE_REFS_IDLE_MAX 1024
#define LEASES_IDLE_MAX     ((size_t)128 * 1024)

/* Freed ones whose memory is kept for the next. */
#define SPARE_REFS_MAX 32

/* How often a waiter polls. If the store notifies us, polling is only the fallback. */
#define POLL_LOCAL   SPAN_MS(100)
#define POLL_NETWORK SPAN_MS(500)

/* ---- The client ---------------------------------------------------------------------- */

static enum hf_status check_client_options(const struct hf_client_options *options,
                                           struct hf_error *error)
{
    struct view ns = view_of(options->ns ? options->ns : LAYOUT_NAMESPACE_DEFAULT);
    if (namespace_check(ns, error) != HF_OK)
        return error->status;
    if (options->holder && strlen(options->holder) > HOLDER_BYTES_MAX)
        return error_set(error, HF_INVALID, "a holder's name can have at most %d bytes",
                         HOLDER_BYTES_MAX);
    if (options->skew_tolerance_ms < -1 || options->skew_tolerance_ms > 3600000)
        return error_set(error, HF_INVALID, "the skew tolerance must not exceed an hour");
    if (options->ttl_max_ms == 0 || ttl_ms_check(options->ttl_max_ms, error) == HF_OK)
        return HF_OK;
    error_prefix(error, "the longest ttl");
    return error->status;
}

static struct lease_settings settings_of(const struct store *store,
                                         const struct hf_client_options *options)
{
    struct lease_settings settings = lease_settings_default();
    settings.skew_tolerance =
        SPAN_MS(options->skew_tolerance_ms >= 0 ? options->skew_tolerance_ms
                                                : store->traits.clock_skew_ms);
    if (options->ttl_max_ms > 0)
        settings.ttl_max = SPAN_MS(options->ttl_max_ms);
    settings.watch_only = options->takeover_observed;
    return settings;
}

/* Creates the parts whose creation can fail: the client, its events and, if it counts requests,
 * the observer. Returns NULL, with the error, if one fails. */
static struct hf_client *client_alloc(struct store **store,
                                      const struct hf_client_options *options, bool counts,
                                      struct hf_error *error)
{
    struct hf_client *client = calloc(1, sizeof *client);
    if (!client) {
        error_no_memory(error);
        return NULL;
    }
    client->env = (*store)->env;
    client->shared.table_refs = MAP_INIT_BUSY(2 * SPARE_REFS_MAX);
    if (events_init(client, options, error) != HF_OK) {
        free(client);
        return NULL;
    }
    if (counts && store_observe(*store, (struct observer){ events_note_request, client }, store,
                                error) != HF_OK) {
        events_release(client);
        free(client);
        return NULL;
    }
    return client;
}

static enum hf_status make_client(struct store *store, const struct hf_client_options *options,
                                  bool counts, struct hf_client **ret_client,
                                  struct hf_error *error)
{
    const struct hf_client_options defaults = HF_CLIENT_OPTIONS;
    if (!options)
        options = &defaults;
    if (check_client_options(options, error) != HF_OK)
        return error->status;
    struct hf_client *client = client_alloc(&store, options, counts, error);
    if (!client)
        return error->status;
    client->store = store;
    client->counts = counts;
    clock_init(&client->clock, store);
    struct table_space space = { .store = store,
                                 .clock = &client->clock,
                                 .settings = settings_of(store, options),
                                 .policy = LIMIT_POLICY };
    client->poll = client_is_remote(client) ? POLL_NETWORK : POLL_LOCAL;
    client->hour = HOUR_SPAN;
    snprintf(space.ns, sizeof space.ns, "%s",
             options->ns ? options->ns : LAYOUT_NAMESPACE_DEFAULT);
    table_space_init(&client->space, &space);
    snprintf(space.ns, sizeof space.ns, LAYOUT_NAMESPACE_DEFAULT);
    table_space_init(&client->chunk_space, &space);
    space.settings.ttl_max = SHARD_TTL_MAX;
    space.of_shards = true;
    table_space_init(&client->shard_space, &space);
    env_random_hex(client->env, NONCE_SIZE, client->session);
    store_session_init(&client->presence, store, client->session);
    snprintf(client->holder, sizeof client->holder, "%s",
             options->holder ? options->holder : client->session);
    env_mutex_init(client->env, &client->shared.mutex);
    env_cond_init(client->env, &client->shared.ended);
    atomic_init(&client->handles, 1);
    keeper_init(&client->keeper, client->env);
    cleanup_init(&client->cleanup, client->env);
    background_init(&client->background, client->env);
    fence_cache_init(&client->fences, client->env);
    *ret_client = client;
    return error_clear(error);
}

enum hf_status client_new(struct store *store, const struct hf_client_options *options,
                          struct hf_client **ret_client, struct hf_error *error)
{
    return make_client(store, options, /* counts */ false, ret_client, error);
}

/* Sets the placement that the handle has read for the client's namespace. On failure, the client is
 * closed. */
static enum hf_status place_client(struct hf_client **client, const struct hf_store *handle,
                                   struct hf_error *error)
{
    struct table_space *space = &(*client)->space;
    enum hf_status status = placement_find(store_handle_placements(handle), view_of(space->ns),
                                           &space->placement, error);
    if (status == HF_OK)
        return HF_OK;
    hf_client_close(*client);
    *client = NULL;
    return status;
}

enum hf_status client_new_on(struct hf_store *handle, const struct hf_client_options *options,
                             struct hf_client **ret_client, struct hf_error *error)
{
    enum hf_status status =
        make_client(handle->store, options, /* counts */ true, ret_client, error);
    if (status == HF_OK)
        status = place_client(ret_client, handle, error);
    if (status == HF_OK)
        (*ret_client)->handle = store_handle_keep(handle);
    return status;
}

enum hf_status client_new_beside(struct hf_client *client, struct view ns,
                                 struct hf_client **ret_client, struct hf_error *error)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    char name[NAME_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s", VIEW_ARGS(ns));
    options.ns = name;
    options.holder = client->holder;
    enum hf_status status = client_new(client->store, &options, ret_client, error);
    if (status == HF_OK) {
        (*ret_client)->space.settings = client->space.settings;
        (*ret_client)->hour = client->hour;
        (*ret_client)->server = client->server;
    }
    if (status == HF_OK && client->handle)
        status = place_client(ret_client, client->handle, error);
    return status;
}

static void table_ref_release(struct table_ref *ref)
{
    wait_queue_release(&ref->queue);
    doc_free(ref->doc);
}

static void table_ref_free_locked(struct table_ref *ref)
{
    spare_give(&ref->client->shared.spare_refs, ref, SPARE_REFS_MAX);
}

uint64_t client_keep(struct hf_client *client)
{
    atomic_fetch_add(&client->handles, 1);
    return atomic_fetch_add(&client->handles_ever, 1) + 1;
}

struct env *client_env(const struct hf_client *client)
{
    return client->env;
}

struct store *client_store(const struct hf_client *client)
{
    return client->store;
}

const struct server_ops *client_server(const struct hf_client *client)
{
    return client->server;
}

void client_set_server(struct hf_client *client, const struct server_ops *server)
{
    client->server = server;
}

enum hf_status client_needs_bucket(const struct hf_client *client, const char *what,
                                   struct hf_error *error)
{
    if (!client->server)
        return HF_OK;
    return error_set(error, HF_UNSUPPORTED,
                     "this store is a server; %s needs the bucket itself: use the URL of the "
                     "store that the server uses",
                     what);
}

bool client_is_remote(const struct hf_client *client)
{
    return client->store->traits.clock != STORE_CLOCK_BOOT;
}

struct doc_clock *client_clock(struct hf_client *client)
{
    return &client->clock;
}

const char *client_holder(const struct hf_client *client)
{
    return client->holder;
}

const char *client_ns(const struct hf_client *client)
{
    return client->space.ns;
}

struct table_space *client_space(struct hf_client *client)
{
    return &client->space;
}

const struct lease_settings *client_settings(const struct hf_client *client)
{
    return &client->space.settings;
}

bool client_has_mark_at(const struct hf_client *client, struct view key)
{
    struct view ns = view_of(client->space.ns);
    return client->space.placement.pages > 0 && view_starts_with(key, ns) &&
           view_equal(view_from(key, ns.size), VIEW(LAYOUT_PATHS));
}

struct span client_hour(const struct hf_client *client)
{
    return client->hour;
}

struct hf_store *hf_client_store(struct hf_client *client)
{
    return client ? client->handle : NULL;
}

struct mono_time client_now(const struct hf_client *client)
{
    return env_now(client->env);
}

struct mono_time client_deadline(const struct hf_client *client)
{
    return mono_add(client_now(client), REQUEST_TIME);
}

enum hf_status client_get(struct hf_client *client, struct get_call *get)
{
    enum hf_status status = store_get(client->store, get);
    clock_learn(&client->clock, &get->stamp);
    return status;
}

uint64_t client_activity(const struct hf_client *client)
{
    return atomic_load(&client->activity.count);
}

struct mono_time client_last_active(const struct hf_client *client)
{
    return (struct mono_time){ atomic_load(&client->activity.last) };
}

uint64_t client_conflicts(const struct hf_client *client)
{
    return atomic_load(&client->activity.conflicts);
}

void client_add_cleared(struct hf_client *client, struct hf_client *from)
{
    env_mutex_lock(&client->shared.mutex);
    for (size_t i = 0; i < SWEEP_MODES; i++)
        client->shared.cleared[i] += from->shared.cleared[i];
    env_mutex_unlock(&client->shared.mutex);
}

void client_active(struct hf_client *client)
{
    if (!client)
        return;
    atomic_store_explicit(&client->activity.last, env_now(client->env).us,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&client->activity.count, 1, memory_order_release);
}

void client_note_conflicts(struct hf_client *client, struct view key, unsigned count)
{
    if (count == 0)
        return;
    atomic_fetch_add(&client->activity.conflicts, count);
    client_event(client,
                 &(struct event){ .kind = HF_EVENT_CONFLICT, .key = key, .count = count });
}

uint64_t client_next_id(struct hf_client *client)
{
    return atomic_fetch_add(&client->last_id, 1) + 1;
}

/* ---- Tables in use ------------------------------------------------------------------- */

static struct table_space *space_of(struct hf_client *client, struct view key)
{
    if (view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)))
        return &client->shard_space;
    return view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)) ? &client->chunk_space
                                                            : &client->space;
}

static void table_ref_learn(void *argument, const void *body, const struct evidence *evidence)
{
    struct table_ref *ref = argument;
    const struct lease_table *table = body;
    atomic_store_explicit(&ref->leases, table->lease_count, memory_order_relaxed);
    wait_queue_learn(ref, body, evidence);
}

/* NULL if out of memory. */
static struct table_ref *table_ref_new_locked(struct hf_client *client, struct view key)
{
    void *old;
    struct table_ref *ref = spare_take(&client->shared.spare_refs, sizeof *ref);
    if (!ref)
        return NULL;
    *ref = (struct table_ref){ .client = client };
    ref->space = space_of(client, key);
    ref->kind = table_kind_of(key);
    ref->in_index = !client->server && expiry_has(client, key);
    const struct doc_type *type = ref->space->of_shards ? &shard_doc_type : &table_doc_type;
    if (doc_new(client->store, &client->clock, key, type, ref->space, &ref->doc, NULL) !=
        HF_OK) {
        table_ref_free_locked(ref);
        return NULL;
    }
    doc_observe(ref->doc, table_ref_learn, ref);
    if (table_key_is_of_chunks(key))
        doc_read_first(ref->doc);
    wait_queue_init(&ref->queue, client->env);
    if (!map_put(&client->shared.table_refs, doc_key(ref->doc), ref, &old)) {
        table_ref_release(ref);
        table_ref_free_locked(ref);
        return NULL;
    }
    return ref;
}

static void list_idle_locked(struct hf_client *client, struct table_ref *ref)
{
    ref->idle_leases = atomic_load_explicit(&ref->leases, memory_order_relaxed);
    ref->idle_next = NULL;
    ref->idle_previous = client->shared.idle_last;
    *(ref->idle_previous ? &ref->idle_previous->idle_next : &client->shared.idle) = ref;
    client->shared.idle_last = ref;
    client->shared.idle_count++;
    client->shared.idle_leases += ref->idle_leases;
}

static void unlist_idle_locked(struct hf_client *client, struct table_ref *ref)
{
    *(ref->idle_previous ? &ref->idle_previous->idle_next : &client->shared.idle) =
        ref->idle_next;
    *(ref->idle_next ? &ref->idle_next->idle_previous : &client->shared.idle_last) =
        ref->idle_previous;
    client->shared.idle_count--;
    client->shared.idle_leases -= ref->idle_leases;
}

/* The table_ref that has not been used for longest, if too much is cached; NULL otherwise. It is no
 * longer known. */
static struct table_ref *take_oldest_idle_locked(struct hf_client *client)
{
    struct table_ref *oldest = client->shared.idle;
    if (client->shared.idle_count <= TABLE_REFS_IDLE_MAX &&
        client->shared.idle_leases <= LEASES_IDLE_MAX)
        return NULL;
    unlist_idle_locked(client, oldest);
    map_take(&client->shared.table_refs, doc_key(oldest->doc));
    return oldest;
}

enum hf_status table_ref_take(struct hf_client *client, struct view key,
                              struct table_ref **ret_ref, struct hf_error *error)
{
    env_mutex_lock(&client->shared.mutex);
    struct table_ref *ref = map_get(&client->shared.table_refs, key);
    if (ref && ref->users == 0)
        unlist_idle_locked(client, ref);
    if (!ref)
        ref = table_ref_new_locked(client, key);
    if (ref)
        ref->users++;
    env_mutex_unlock(&client->shared.mutex);
    if (!ref)
        return error_no_memory(error);
    *ret_ref = ref;
    return HF_OK;
}

void table_ref_drop(struct table_ref *ref)
{
    struct hf_client *client = ref->client;
    struct table_ref *oldest;
    env_mutex_lock(&client->shared.mutex);
    if (--ref->users == 0)
        list_idle_locked(client, ref);
    while ((oldest = take_oldest_idle_locked(client))) {
        env_mutex_unlock(&client->shared.mutex);
        table_ref_release(oldest);
        env_mutex_lock(&client->shared.mutex);
        table_ref_free_locked(oldest);
    }
    env_mutex_unlock(&client->shared.mutex);
}

struct table_ref *table_ref_share(struct table_ref *ref)
{
    env_mutex_lock(&ref->client->shared.mutex);
    check(ref->users > 0);
    ref->users++;
    env_mutex_unlock(&ref->client->shared.mutex);
    return ref;
}

void table_ref_begin_ending(struct table_ref *ref)
{
    env_mutex_lock(&ref->client->shared.mutex);
    ref->ending++;
    env_mutex_unlock(&ref->client->shared.mutex);
}

void table_ref_finish_ending(struct table_ref *ref)
{
    struct hf_client *client = ref->client;
    env_mutex_lock(&client->shared.mutex);
    check(ref->ending > 0);
    if (--ref->ending == 0)
        env_cond_broadcast(&client->shared.ended);
    env_mutex_unlock(&client->shared.mutex);
}

void table_ref_await_ended(struct table_ref *ref)
{
    struct hf_client *client = ref->client;
    env_mutex_lock(&client->shared.mutex);
    if (ref->ending > 0) {
        struct mono_time until = client_deadline(client);
        while (ref->ending > 0 && mono_before(client_now(client), until))
            env_cond_wait_until(&client->shared.ended, &client->shared.mutex, until);
    }
    env_mutex_unlock(&client->shared.mutex);
}

/* ---- Closing ------------------------------------------------------------------------- */

static void client_free(struct hf_client *client)
{
    keeper_release(client);
    cleanup_release(client);
    events_release(client);
    while (client->shared.idle) {
        struct table_ref *ref = client->shared.idle;
        unlist_idle_locked(client, ref);
        map_take(&client->shared.table_refs, doc_key(ref->doc));
        table_ref_release(ref);
        free(ref);
    }
    background_release(&client->background);
    fence_cache_release(&client->fences);
    check(client->shared.table_refs.count == 0); /* no handle is left, so none may be in use */
    map_release(&client->shared.table_refs);
    spare_release(&client->shared.spare_refs);
    env_cond_release(&client->shared.ended);
    env_mutex_release(&client->shared.mutex);
    table_space_release(&client->space);
    table_space_release(&client->chunk_space);
    table_space_release(&client->shard_space);
    clock_release(&client->clock);
    store_session_release(&client->presence);
    if (client->counts)
        store_unobserve(client->store);
    store_handle_drop(client->handle);
    free(client);
}

void client_drop(struct hf_client *client)
{
    if (atomic_fetch_sub(&client->handles, 1) == 1)
        client_free(client);
}

/* The first table_ref in use after `last`, in order of table keys (or the first of all, if `last`
 * is NULL); NULL if there is none. Valid until table_ref_drop. */
static struct table_ref *table_ref_after(struct hf_client *client, const struct table_ref *last)
{
    struct view key = last ? doc_key(last->doc) : VIEW("");
    env_mutex_lock(&client->shared.mutex);
    struct table_ref *ref =
        map_seek(&client->shared.table_refs, key, /* beyond */ last != NULL);
    while (ref && ref->users == 0)
        ref = map_seek(&client->shared.table_refs, doc_key(ref->doc), /* beyond */ true);
    if (ref)
        ref->users++;
    env_mutex_unlock(&client->shared.mutex);
    return ref;
}

/* Wakes every call that is waiting in a queue; each call then leaves the queue itself. */
static void cancel_waits(struct hf_client *client)
{
    struct table_ref *ref = table_ref_after(client, /* last */ NULL);
    while (ref) {
        /* `last` stays in use until the next one is found, because its key is the position in the
         * map. */
        struct table_ref *last = ref;
        wait_queue_close(ref);
        ref = table_ref_after(client, last);
        table_ref_drop(last);
    }
}

/* Finishes what is under way in the background, and releases the leases that are still held. The
 * client itself is freed with its last handle. */
void hf_client_close(struct hf_client *client)
{
    if (!client)
        return;
    background_finish(client);
    bool left = atomic_load(&client->handles) > 1;
    /* If the client does not own its store, the caller closes the store next, and a handle that is
     * left would use a closed store. */
    check(!left || client->handle);
    if (left) {
        keeper_release_all(client);
        cancel_waits(client);
        cleanup_wait(client);
    }
    client_drop(client);
}
