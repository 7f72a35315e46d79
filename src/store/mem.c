/* SPDX-License-Identifier: Apache-2.0 */
/* mem.c: objects in memory, in a map under one mutex. It is for tests, and is the reference for
 * how our own stores behave. With ?delay=20ms it stands for a store on a network: each request
 * takes that long, replies carry no time, and listeners are not notified.
 *
 * An object never changes once it is in the map; a put replaces it with a new one. So the writer
 * copies the body before it locks the mutex, and only readers copy while they hold it. */
#include "base/map.h"
#include "base/parse.h"
#include "store/backends.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct object {
    struct object_info info;
    struct view key;
    struct view body;
    char space[]; /* key, then body */
};

#define DELAY_MAX SPAN_S(10)

struct mem_store {
    struct store base;
    struct span delay; /* of each request */
    struct {
        struct env_mutex mutex; /* guards the other members of this struct */
        struct map objects;
        uint64_t writes; /* how many so far; the number of a write is its ETag */
        struct env_cond changed;
        uint64_t changes; /* how many so far, plus 1; a listener's ticket is a copy */
        size_t listening; /* tasks waiting for the next change */
    } shared;
};

static struct mem_store *mem_of(struct store *store)
{
    return (struct mem_store *)store;
}

static struct object *object_new(struct view key, size_t body_size)
{
    struct object *object = malloc(sizeof *object + key.size + body_size);
    if (!object)
        return NULL;
    memcpy(object->space, key.data, key.size);
    object->key = (struct view){ object->space, key.size };
    object->body = (struct view){ object->space + key.size, body_size };
    object->info = (struct object_info){ .size = body_size };
    return object;
}

static void pass_delay(struct store *store)
{
    if (mem_of(store)->delay.us > 0)
        env_sleep(store->env, mem_of(store)->delay);
}

/* ---- Writing ------------------------------------------------------------------------- */

static void note_change_locked(struct mem_store *mem)
{
    mem->shared.changes++;
    if (mem->shared.listening > 0)
        env_cond_broadcast(&mem->shared.changed);
}

/* Takes ownership of `object`, even on failure. */
static void put_object(struct mem_store *mem, struct put_call *call, struct object *object)
{
    object->info.modified = env_wall(mem->base.env);
    void *old = NULL;
    env_mutex_lock(&mem->shared.mutex);
    struct object *current = map_get(&mem->shared.objects, call->key);
    enum hf_status status =
        condition_check(&call->condition, current ? &current->info.etag : NULL, &call->error);
    if (status == HF_OK) {
        char text[24];
        int size = snprintf(text, sizeof text, "m%" PRIx64, ++mem->shared.writes);
        etag_set(&object->info.etag, (struct view){ text, (size_t)size });
        call->etag = object->info.etag;
        if (!map_put(&mem->shared.objects, object->key, object, &old))
            status = error_no_memory(&call->error);
        else if (!call->quiet)
            note_change_locked(mem);
    }
    env_mutex_unlock(&mem->shared.mutex);
    free(status == HF_OK ? old : object);
}

static void mem_put(struct store *store, struct put_call *calls, size_t count)
{
    pass_delay(store);
    for (size_t i = 0; i < count; i++) {
        struct object *object = object_new(calls[i].key, calls[i].body.size);
        if (!object) {
            error_no_memory(&calls[i].error);
            continue;
        }
        if (calls[i].body.size)
            memcpy(object->space + object->key.size, calls[i].body.data, calls[i].body.size);
        put_object(mem_of(store), &calls[i], object);
    }
}

static void mem_put_file(struct store *store, struct put_call *call, int fd,
                         const struct progress *progress)
{
    uint64_t size;
    pass_delay(store);
    if (file_size(fd, &size, &call->error) != HF_OK)
        return;
    struct object *object = size <= BODY_BYTES_MAX ? object_new(call->key, (size_t)size) : NULL;
    if (!object) {
        error_set(&call->error, HF_UNAVAILABLE, "no memory for an object of %" PRIu64 " bytes",
                  size);
        return;
    }
    size_t got = 0;
    char *body = object->space + object->key.size;
    if (file_read_at(fd, body, (size_t)size, 0, &got, &call->error) != HF_OK ||
        !progress_step(progress, got, size, &call->error)) {
        free(object);
        return;
    }
    object->body.size = got;
    object->info.size = got;
    put_object(mem_of(store), call, object);
}

static void mem_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct mem_store *mem = mem_of(store);
    pass_delay(store);
    for (size_t i = 0; i < count; i++) {
        struct object *taken = NULL;
        env_mutex_lock(&mem->shared.mutex);
        struct object *current = map_get(&mem->shared.objects, calls[i].key);
        if (condition_check(&calls[i].condition, current ? &current->info.etag : NULL,
                            &calls[i].error) == HF_OK)
            taken = map_take(&mem->shared.objects, calls[i].key);
        if (taken)
            note_change_locked(mem);
        env_mutex_unlock(&mem->shared.mutex);
        free(taken);
    }
}

/* ---- Reading ------------------------------------------------------------------------- */

/* Checks the conditions of the get and finds its range of the object. The mutex must be held. */
static struct view find_range_locked(struct mem_store *mem, struct get_call *call)
{
    struct object *object = map_get(&mem->shared.objects, call->key);
    uint64_t length;
    if (get_check(call, object ? &object->info : NULL, &length) != HF_OK)
        return (struct view){ NULL, 0 };
    return view_first(view_from(object->body, (size_t)call->offset), (size_t)length);
}

static void mem_get(struct store *store, struct get_call *calls, size_t count)
{
    struct mem_store *mem = mem_of(store);
    pass_delay(store);
    for (size_t i = 0; i < count; i++) {
        env_mutex_lock(&mem->shared.mutex);
        struct view range = find_range_locked(mem, &calls[i]);
        if (range.data)
            get_append(&calls[i], range);
        env_mutex_unlock(&mem->shared.mutex);
    }
}

static void mem_get_file(struct store *store, struct get_call *call, int fd,
                         const struct progress *progress)
{
    struct mem_store *mem = mem_of(store);
    pass_delay(store);
    env_mutex_lock(&mem->shared.mutex);
    struct view range = find_range_locked(mem, call);
    if (range.data && file_write_at(fd, range, 0, &call->error) == HF_OK)
        progress_step(progress, range.size, range.size, &call->error);
    env_mutex_unlock(&mem->shared.mutex);
}

static void mem_list(struct store *store, struct list_call *call)
{
    struct mem_store *mem = mem_of(store);
    struct list_cursor cursor;
    pass_delay(store);
    list_start(call, &cursor);
    env_mutex_lock(&mem->shared.mutex);
    const struct object *object;
    do
        object = map_seek(&mem->shared.objects, cursor.from, cursor.beyond);
    while (object && list_offer(call, &cursor, object->key, &object->info));
    env_mutex_unlock(&mem->shared.mutex);
}

/* ---- Listening ----------------------------------------------------------------------- */

static bool mem_listens(const struct store *store)
{
    return store->traits.clock == STORE_CLOCK_BOOT; /* not with a delay */
}

static void mem_ring(struct store *store)
{
    struct mem_store *mem = mem_of(store);
    env_mutex_lock(&mem->shared.mutex);
    note_change_locked(mem);
    env_mutex_unlock(&mem->shared.mutex);
}

static bool mem_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    struct mem_store *mem = mem_of(store);
    env_mutex_lock(&mem->shared.mutex);
    mem->shared.listening++;
    while (mem->shared.changes == *ticket &&
           env_cond_wait_until(&mem->shared.changed, &mem->shared.mutex, until))
        ;
    mem->shared.listening--;
    bool news = mem->shared.changes != *ticket;
    *ticket = mem->shared.changes;
    env_mutex_unlock(&mem->shared.mutex);
    return news;
}

/* ---- Opening and closing ------------------------------------------------------------- */

static void mem_close(struct store *store)
{
    struct mem_store *mem = mem_of(store);
    struct object *object;
    while ((object = map_seek(&mem->shared.objects, VIEW(""), /* beyond */ false)))
        free(map_take(&mem->shared.objects, object->key));
    map_release(&mem->shared.objects);
    env_cond_release(&mem->shared.changed);
    env_mutex_release(&mem->shared.mutex);
    free(mem);
}

static const struct store_ops mem_ops = {
    .name = "mem",
    .get = mem_get,
    .put = mem_put,
    .remove = mem_remove,
    .list = mem_list,
    .get_file = mem_get_file,
    .put_file = mem_put_file,
    .listens = mem_listens,
    .listen = mem_listen,
    .ring = mem_ring,
    .close = mem_close,
};

enum hf_status mem_store_open(struct env *env, const struct url *url, struct store **ret_store,
                              struct hf_error *error)
{
    static const char *const parameters[] = { "delay", NULL };
    struct view delay_text = url_parameter(url, "delay");
    struct span delay = SPAN_US(0);
    if (url_only_parameters(url, parameters, error) != HF_OK)
        return error->status;
    if (delay_text.data &&
        (parse_span(delay_text, &delay, error) != HF_OK || delay.us > DELAY_MAX.us))
        return error_set(error, HF_INVALID,
                         "delay= must be a duration of at most 10s, such as 20ms");
    if (url->path.size > 0 || url->host.size > 0)
        return error_set(error, HF_INVALID, "use 'mem:' alone; it has no name or path");
    struct mem_store *mem = malloc(sizeof *mem);
    if (!mem)
        return error_no_memory(error);
    *mem = (struct mem_store){
        .base = { .ops = &mem_ops, .env = env, .traits = TRAITS_OF_OURS },
        .delay = delay,
        .shared = { .objects = MAP_INIT, .changes = 1 },
    };
    if (delay.us > 0)
        mem->base.traits.clock = STORE_CLOCK_NONE;
    env_mutex_init(env, &mem->shared.mutex);
    env_cond_init(env, &mem->shared.changed);
    *ret_store = &mem->base;
    return HF_OK;
}
