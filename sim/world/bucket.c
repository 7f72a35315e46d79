/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c: the objects of the simulated store, their ETags and conditions, and the store's
 * clock. */
#include "sim/world/bucket.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/rule.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdlib.h>

/* The first bytes of every fenced object. */
#define FENCE_START "{ \"format\": \"holdfast.fenced/"

struct object {
    struct object_info info;
    struct view key;
    struct view body;
    char space[]; /* key, then body */
};

struct bucket {
    struct world *world;
    struct bucket_options options;
    struct map objects;
    uint64_t writes;
    int64_t clock_off_us;
    struct bucket_watch *watches;
};

struct bucket *bucket_new(struct world *world, const struct bucket_options *options)
{
    struct bucket *bucket = calloc(1, sizeof *bucket);
    check(bucket);
    bucket->world = world;
    bucket->options = *options;
    bucket->objects = MAP_INIT;
    return bucket;
}

void bucket_free(struct bucket *bucket)
{
    struct object *object;
    while ((object = map_seek(&bucket->objects, VIEW(""), /* beyond */ false)))
        free(map_take(&bucket->objects, object->key));
    map_release(&bucket->objects);
    free(bucket);
}

struct store_traits bucket_traits(const struct bucket *bucket)
{
    return (struct store_traits){ .delete_conditional = bucket->options.delete_conditional,
                                  .put_file_conditional = true,
                                  .etag_fresh = !bucket->options.etag_by_content,
                                  .list_ordered = true,
                                  .clock = bucket->options.clock };
}

/* ---- The store's clock --------------------------------------------------------------- */

struct wall_time bucket_date(const struct bucket *bucket, struct span skew)
{
    int64_t us = WORLD_EPOCH_US + world_now_us(bucket->world) + bucket->clock_off_us + skew.us;
    return (struct wall_time){ us - us % 1000000 };
}

void bucket_step_clock(struct bucket *bucket, struct span by)
{
    bucket->clock_off_us += by.us;
}

/* ---- Writing ------------------------------------------------------------------------- */

static struct object *object_new(struct view key, struct view body)
{
    struct object *object = malloc(sizeof *object + key.size + body.size);
    check(object);
    *object = (struct object){ 0 };
    memcpy(object->space, key.data, key.size);
    if (body.size > 0)
        memcpy(object->space + key.size, body.data, body.size);
    object->key = (struct view){ object->space, key.size };
    object->body = (struct view){ object->space + key.size, body.size };
    object->info.size = body.size;
    return object;
}

static void set_etag(struct bucket *bucket, struct object *object)
{
    bool by_content = bucket->options.etag_by_content;
    struct view hashed = object->body;
    if (!RULE(FENCE_IN_THE_BYTES) && view_starts_with(hashed, VIEW(FENCE_START)))
        view_cut(&hashed, '\n'); /* as if the fence were in the object's metadata */
    bucket->writes++;
    uint64_t number = by_content ? hash_xxh3(hashed) : bucket->writes;
    char text[1 + 16];
    size_t start = sizeof text;
    for (; number > 0; number >>= 4)
        text[--start] = "0123456789abcdef"[number & 15];
    text[--start] = 'v';
    check(etag_set(&object->info.etag, view_from((struct view){ text, sizeof text }, start)));
}

static void tell(struct bucket *bucket, const struct bucket_change *change)
{
    for (struct bucket_watch *watch = bucket->watches; watch; watch = watch->next)
        watch->changed(watch->argument, change);
}

static enum hf_status checker(struct bucket *bucket, const struct condition *condition,
                              const struct object *current, struct hf_error *error)
{
    if (bucket->options.ignore_conditions)
        return error_clear(error);
    if (bucket->options.missing_is_conflict && !current && condition->kind == CONDITION_MATCH)
        return error_set(error, HF_CONFLICT, "the object has changed");
    return condition_check(condition, current ? &current->info.etag : NULL, error);
}

static void put_object(struct bucket *bucket, struct put_call *call, bool more)
{
    struct object *current = map_get(&bucket->objects, call->key);
    if (checker(bucket, &call->condition, current, &call->error) != HF_OK)
        return;
    struct object *object = object_new(call->key, call->body);
    set_etag(bucket, object);
    object->info.modified = bucket_date(bucket, SPAN_US(0));
    call->etag = object->info.etag;
    void *old;
    check(map_put(&bucket->objects, object->key, object, &old));
    free(old);
    tell(bucket, &(struct bucket_change){ object->key, object->body, object->info.etag,
                                          &call->condition, more });
}

void bucket_put(struct bucket *bucket, struct put_call *call)
{
    put_object(bucket, call, /* more */ false);
}

void bucket_put_together(struct bucket *bucket, struct put_call *call, struct put_call *others,
                         size_t count)
{
    put_object(bucket, call, /* more */ count > 0);
    for (size_t i = 0; i < count; i++) {
        put_object(bucket, &others[i], /* more */ i + 1 < count);
        check(others[i].error.status == call->error.status);
    }
}

void bucket_delete(struct bucket *bucket, struct delete_call *call)
{
    struct object *current = map_get(&bucket->objects, call->key);
    if (checker(bucket, &call->condition, current, &call->error) != HF_OK || !current)
        return;
    struct object *taken = map_take(&bucket->objects, call->key);
    tell(bucket, &(struct bucket_change){ .key = taken->key, .condition = &call->condition });
    free(taken);
}

/* ---- Reading ------------------------------------------------------------------------- */

void bucket_get(struct bucket *bucket, struct get_call *call)
{
    const struct object *object = map_get(&bucket->objects, call->key);
    uint64_t length;
    if (get_check(call, object ? &object->info : NULL, &length) != HF_OK)
        return;
    get_append(call, view_first(view_from(object->body, (size_t)call->offset), (size_t)length));
}

void bucket_list(struct bucket *bucket, struct list_call *call)
{
    struct list_cursor cursor;
    list_start(call, &cursor);
    const struct object *object;
    do
        object = map_seek(&bucket->objects, cursor.from, cursor.beyond);
    while (object && list_offer(call, &cursor, object->key, &object->info));
}

struct view bucket_peek(const struct bucket *bucket, struct view key)
{
    const struct object *object = map_get(&bucket->objects, key);
    return object ? object->body : (struct view){ NULL, 0 };
}

struct etag bucket_etag(const struct bucket *bucket, struct view key)
{
    const struct object *object = map_get(&bucket->objects, key);
    return object ? object->info.etag : (struct etag){ 0 };
}

bool bucket_has_sessions(const struct bucket *bucket)
{
    return bucket->options.sessions;
}

bool bucket_steps(const struct bucket *bucket)
{
    return bucket->options.steps;
}

void bucket_add_watch(struct bucket *bucket, struct bucket_watch *watch)
{
    watch->next = bucket->watches;
    bucket->watches = watch;
}

bool bucket_change_in_order(const struct bucket_change *change, struct etag *last)
{
    const struct condition *condition = change->condition;
    bool in_order = condition->kind == CONDITION_MATCH
                        ? etag_equal(&condition->etag, last)
                        : condition->kind == CONDITION_ABSENT && last->size == 0;
    *last = change->etag;
    return in_order;
}
