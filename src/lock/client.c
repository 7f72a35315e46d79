/* client.c: a client and its places. */
#include "lock/client.h"

#include "base/check.h"
#include "base/layout.h"
#include "lock/expiry.h"
#include "store/handle.h"
#include "store/observe.h"

#include <stdio.h>
#include <stdlib.h>

/* Places that nobody uses are kept warm, so that the next acquire is one put. */
#define PLACES_IDLE_MAX 256

/* How often to look while waiting. Where a bell wakes us, polling is the fallback only. */
#define POLL_LOCAL   SPAN_MS(100)
#define POLL_NETWORK SPAN_MS(500)

/* ---- The client ---------------------------------------------------------------------- */

static enum hf_status check_options(const struct hf_client_options *options,
                                    struct hf_error *error)
{
    struct view ns = view_of(options->ns ? options->ns : LAYOUT_NAMESPACE_DEFAULT);
    if (name_check(ns, error) != HF_OK) {
        error_prefix(error, "namespace");
        return error->status;
    }
    if (view_find(ns, '/') < ns.size) /* else two could have one table: a/meta/b/meta/c.json */
        return error_set(error, HF_INVALID, "a namespace has no slash in its name");
    if (layout_namespace_reserved(ns))
        return error_set(error, HF_INVALID,
                         "the namespace '%.*s' is reserved: the bucket has a folder of that "
                         "name for something else",
                         VIEW_ARGS(ns));
    if (options->holder && strlen(options->holder) > HOLDER_BYTES_MAX)
        return error_set(error, HF_INVALID, "a holder's name has at most %d bytes",
                         HOLDER_BYTES_MAX);
    if (options->skew_tolerance_ms < -1 || options->skew_tolerance_ms > 3600000)
        return error_set(error, HF_INVALID, "a skew tolerance is at most an hour");
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

/* What can fail: the client, its events and, for one that counts them, an eye on its requests.
 * NULL, with the error, when it does. */
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
    if (events_init(client, options, error) != HF_OK) {
        free(client);
        return NULL;
    }
    if (counts &&
        store_observe(*store, (struct observer){ events_saw, client }, store, error) != HF_OK) {
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
    if (check_options(options, error) != HF_OK)
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
    client->poll = store->traits.clock == STORE_CLOCK_BOOT ? POLL_LOCAL : POLL_NETWORK;
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
    snprintf(client->holder, sizeof client->holder, "%s",
             options->holder ? options->holder : client->session);
    env_mutex_init(client->env, &client->shared.mutex);
    client->shared.handles = 1;
    keeper_init(&client->keeper, client->env);
    tidier_init(&client->tidier, client->env);
    fence_shelf_init(&client->fences, client->env);
    *ret_client = client;
    return error_clear(error);
}

enum hf_status client_new(struct store *store, const struct hf_client_options *options,
                          struct hf_client **ret_client, struct hf_error *error)
{
    return make_client(store, options, /* counts */ false, ret_client, error);
}

enum hf_status client_new_counted(struct store *store, const struct hf_client_options *options,
                                  struct hf_client **ret_client, struct hf_error *error)
{
    return make_client(store, options, /* counts */ true, ret_client, error);
}

static void place_free(struct place *place)
{
    room_release(&place->room);
    doc_free(place->doc);
    free(place);
}

void client_keep(struct hf_client *client)
{
    env_mutex_lock(&client->shared.mutex);
    client->shared.handles++;
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
    env_mutex_lock(&client->shared.mutex);
    uint64_t id = ++client->shared.last_id;
    env_mutex_unlock(&client->shared.mutex);
    return id;
}

/* ---- Places -------------------------------------------------------------------------- */

static struct table_space *space_of(struct hf_client *client, struct view key)
{
    if (view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)))
        return &client->shard_space;
    return view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)) ? &client->chunk_space
                                                            : &client->space;
}

/* NULL without memory. */
static struct place *place_new(struct hf_client *client, struct view key)
{
    struct place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->client = client;
    place->space = space_of(client, key);
    place->kind = table_kind_of(key);
    place->in_index = expiry_has(client, key);
    const struct doc_type *type = place->space->of_shards ? &shard_doc_type : &table_doc_type;
    if (doc_new(client->store, &client->clock, key, type, place->space, &place->doc, NULL) !=
        HF_OK) {
        free(place);
        return NULL;
    }
    doc_observe(place->doc, room_seen, place);
    room_init(&place->room, client->env);
    return place;
}

static void leave_idle_locked(struct hf_client *client, struct place *place)
{
    struct place **at = &client->shared.idle;
    while (*at != place)
        at = &(*at)->idle_next;
    *at = place->idle_next;
    client->shared.idle_count--;
}

static struct place *place_add_locked(struct hf_client *client, struct view key)
{
    void *old;
    struct place *place = place_new(client, key);
    if (place && !map_put(&client->shared.places, doc_key(place->doc), place, &old)) {
        place_free(place);
        return NULL;
    }
    return place;
}

enum hf_status place_take(struct hf_client *client, struct view key, struct place **ret_place,
                          struct hf_error *error)
{
    env_mutex_lock(&client->shared.mutex);
    struct place *place = map_get(&client->shared.places, key);
    if (place && place->users == 0)
        leave_idle_locked(client, place);
    if (!place)
        place = place_add_locked(client, key);
    if (place)
        place->users++;
    env_mutex_unlock(&client->shared.mutex);
    if (!place)
        return error_no_memory(error);
    *ret_place = place;
    return HF_OK;
}

static void join_idle_locked(struct hf_client *client, struct place *place)
{
    struct place **at = &client->shared.idle;
    while (*at)
        at = &(*at)->idle_next;
    place->idle_next = NULL;
    *at = place;
    client->shared.idle_count++;
}

void place_drop(struct place *place)
{
    struct hf_client *client = place->client;
    struct place *oldest = NULL;
    env_mutex_lock(&client->shared.mutex);
    if (--place->users == 0)
        join_idle_locked(client, place);
    if (client->shared.idle_count > PLACES_IDLE_MAX) {
        oldest = client->shared.idle;
        leave_idle_locked(client, oldest);
        map_take(&client->shared.places, doc_key(oldest->doc));
    }
    env_mutex_unlock(&client->shared.mutex);
    if (oldest)
        place_free(oldest);
}

struct place *place_share(struct place *place)
{
    env_mutex_lock(&place->client->shared.mutex);
    check(place->users > 0);
    place->users++;
    env_mutex_unlock(&place->client->shared.mutex);
    return place;
}

/* ---- Closing ------------------------------------------------------------------------- */

static void client_free(struct hf_client *client)
{
    keeper_release(client);
    tidier_release(client);
    events_release(client);
    while (client->shared.idle) {
        struct place *place = client->shared.idle;
        client->shared.idle = place->idle_next;
        map_take(&client->shared.places, doc_key(place->doc));
        place_free(place);
    }
    fence_shelf_release(&client->fences);
    check(client->shared.places.count == 0); /* of no handle, since none is left */
    map_release(&client->shared.places);
    env_mutex_release(&client->shared.mutex);
    table_space_release(&client->space);
    table_space_release(&client->chunk_space);
    table_space_release(&client->shard_space);
    clock_release(&client->clock);
    if (client->counts)
        store_unobserve(client->store);
    store_handle_drop(client->handle);
    free(client);
}

void client_drop(struct hf_client *client)
{
    env_mutex_lock(&client->shared.mutex);
    bool last = --client->shared.handles == 0;
    env_mutex_unlock(&client->shared.mutex);
    if (last)
        client_free(client);
}

/* The place in use that follows another by the key of its table, or the first; NULL: that was the
 * last. Until place_drop. */
static struct place *place_after(struct hf_client *client, const struct place *last)
{
    struct view key = last ? doc_key(last->doc) : VIEW("");
    env_mutex_lock(&client->shared.mutex);
    struct place *place = map_seek(&client->shared.places, key, /* beyond */ last != NULL);
    while (place && place->users == 0)
        place = map_seek(&client->shared.places, doc_key(place->doc), /* beyond */ true);
    if (place)
        place->users++;
    env_mutex_unlock(&client->shared.mutex);
    return place;
}

/* Wakes every call that waits in line; each leaves the line by itself. */
static void cancel_waits(struct hf_client *client)
{
    struct place *place = place_after(client, /* last */ NULL);
    while (place) {
        struct place *last = place;
        room_cancel_all(place);
        place = place_after(client, last);
        place_drop(last);
    }
}

/* What is still held is given back now; the rest of the client goes with its last handle. */
void hf_client_close(struct hf_client *client)
{
    if (!client)
        return;
    env_mutex_lock(&client->shared.mutex);
    bool left = client->shared.handles > 1;
    env_mutex_unlock(&client->shared.mutex);
    check(!left || client->handle); /* else its store is closed before its handles are */
    if (left) {
        keeper_give_all_back(client);
        cancel_waits(client);
        tidier_wait(client);
    }
    client_drop(client);
}
