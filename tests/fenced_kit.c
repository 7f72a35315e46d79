/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_kit.c: clients that write fenced objects, with a virtual clock and a bucket whose
 * ETags are hashes of the content. */
#include "fenced_kit.h"

#include "base/check.h"
#include "base/hash.h"
#include "lock/fence.h"
#include "store/stream.h"
#include "store/toolkit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- A world of one task ------------------------------------------------------------- */

static struct fenced_kit *kit_of(struct env *env)
{
    return (struct fenced_kit *)(void *)env;
}

static struct mono_time world_now(struct env *env)
{
    return (struct mono_time){ kit_of(env)->now_us };
}

static struct wall_time world_wall(struct env *env)
{
    return (struct wall_time){ kit_of(env)->now_us + INT64_C(1700000000000000) };
}

static const char *world_boot_id(struct env *env)
{
    (void)env;
    return "the only boot";
}

static void world_sleep_until(struct env *env, struct mono_time moment)
{
    if (kit_of(env)->now_us < moment.us)
        kit_of(env)->now_us = moment.us;
}

static void world_random(struct env *env, void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)prng_next(&kit_of(env)->prng);
}

static enum hf_status world_task_start(struct env *env, void (*run)(void *), void *argument,
                                       struct env_task **ret_task, struct hf_error *error)
{
    (void)env;
    (void)run;
    (void)argument;
    (void)ret_task;
    return error_set(error, HF_UNAVAILABLE, "there is one task only");
}

static void world_task_join(struct env *env, struct env_task *task)
{
    (void)env;
    (void)task;
    check_unreachable();
}

static void on_mutex(struct env_mutex *mutex)
{
    (void)mutex;
}

static void on_cond(struct env_cond *cond)
{
    (void)cond;
}

static bool world_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                             struct mono_time moment)
{
    (void)mutex;
    check(moment.us < MOMENT_FAR); /* nobody else could signal */
    world_sleep_until(cond->env, moment);
    return false;
}

static const struct env_ops world_ops = {
    .now = world_now,
    .wall = world_wall,
    .boot_id = world_boot_id,
    .sleep_until = world_sleep_until,
    .random = world_random,
    .task_start = world_task_start,
    .task_join = world_task_join,
    .mutex_init = on_mutex,
    .mutex_release = on_mutex,
    .mutex_lock = on_mutex,
    .mutex_unlock = on_mutex,
    .cond_init = on_cond,
    .cond_release = on_cond,
    .cond_wait_until = world_wait_until,
    .cond_signal = on_cond,
    .cond_broadcast = on_cond,
};

/* ---- A bucket whose ETags are hashes ------------------------------------------------- */

/* A back end of its own, not a scripted store: it checks every condition with its own ETags,
 * and mem: only stores the bytes. */
struct hashed {
    struct store base;
    struct store *mem;
};

static struct store *mem_of(struct store *store)
{
    return ((struct hashed *)(void *)store)->mem;
}

static struct etag etag_of(struct view bytes)
{
    struct etag etag;
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash_xxh3(bytes));
    check(etag_set(&etag, view_of(text)));
    return etag;
}

/* Reads the whole object. False if it does not exist, or memory runs out. */
static bool load(struct store *store, struct view key, struct buffer *body,
                 struct object_info *ret_info, struct hf_error *error)
{
    *body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = key, .body = body };
    mem_of(store)->ops->get(mem_of(store), &get, 1);
    *ret_info = get.info;
    *error = get.error;
    if (get.error.status == HF_OK)
        ret_info->etag = etag_of(buffer_view(body));
    else
        buffer_release(body);
    return get.error.status == HF_OK;
}

static void hashed_get(struct store *store, struct get_call *call, size_t count)
{
    struct buffer body;
    struct object_info info;
    uint64_t length;
    check(count == 1);
    bool there = load(store, call->key, &body, &info, &call->error);
    if (!there && call->error.status != HF_NOT_FOUND)
        return;
    if (get_check(call, there ? &info : NULL, &length) == HF_OK)
        get_append(call, view_first(view_from(buffer_view(&body), (size_t)call->offset),
                                    (size_t)length));
    if (there)
        buffer_release(&body);
}

static void hashed_put(struct store *store, struct put_call *call, size_t count)
{
    struct buffer body;
    struct object_info info;
    check(count == 1);
    bool there = load(store, call->key, &body, &info, &call->error);
    if (there)
        buffer_release(&body);
    else if (call->error.status != HF_NOT_FOUND)
        return;
    if (condition_check(&call->condition, there ? &info.etag : NULL, &call->error) != HF_OK)
        return;
    struct put_call put = { .key = call->key, .body = call->body };
    mem_of(store)->ops->put(mem_of(store), &put, 1);
    call->error = put.error;
    if (put.error.status == HF_OK)
        call->etag = etag_of(call->body);
}

static void hashed_remove(struct store *store, struct delete_call *calls, size_t count)
{
    mem_of(store)->ops->remove(mem_of(store), calls, count);
}

static void hashed_list(struct store *store, struct list_call *call)
{
    mem_of(store)->ops->list(mem_of(store), call);
}

static void hashed_get_file(struct store *store, struct get_call *call, int fd,
                            const struct progress *progress)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    (void)progress;
    call->body = &body;
    hashed_get(store, call, 1);
    call->body = NULL;
    if (call->error.status == HF_OK)
        file_write_at(fd, buffer_view(&body), 0, &call->error);
    buffer_release(&body);
}

static void hashed_put_file(struct store *store, struct put_call *call, int fd,
                            const struct progress *progress)
{
    uint64_t size;
    size_t got;
    (void)progress;
    if (file_size(fd, &size, &call->error) != HF_OK)
        return;
    char *bytes = malloc((size_t)size + 1);
    if (!bytes) {
        error_no_memory(&call->error);
        return;
    }
    if (file_read_at(fd, bytes, (size_t)size, 0, &got, &call->error) == HF_OK) {
        call->body = (struct view){ bytes, got };
        hashed_put(store, call, 1);
        call->body = VIEW("");
    }
    free(bytes);
}

static void hashed_close(struct store *store)
{
    store_close(mem_of(store));
    free(store);
}

static const struct store_ops hashed_ops = {
    .name = "hashed",
    .get = hashed_get,
    .put = hashed_put,
    .remove = hashed_remove,
    .list = hashed_list,
    .get_file = hashed_get_file,
    .put_file = hashed_put_file,
    .close = hashed_close,
};

static struct store *bucket_open(struct env *env)
{
    struct hf_error error;
    struct hashed *hashed = calloc(1, sizeof *hashed);
    if (!hashed)
        return NULL;
    if (store_open(env, VIEW("mem:"), &hashed->mem, &error) != HF_OK) {
        free(hashed);
        return NULL;
    }
    hashed->base =
        (struct store){ .ops = &hashed_ops, .env = env, .traits = hashed->mem->traits };
    hashed->base.traits.etag_fresh = false;
    hashed->base.traits.delete_conditional = false;
    return &hashed->base;
}

/* ---- Peers --------------------------------------------------------------------------- */

static void take_a_millisecond(void *argument)
{
    ((struct fenced_kit *)argument)->now_us += 1000;
}

void gate_reset(struct script *gate)
{
    script_reset(gate);
    script_rule(gate, .before = take_a_millisecond, .argument = gate->base.env);
}

static bool peer_open(struct peer *peer, struct fenced_kit *kit)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_error error;
    options.no_renewal = true;
    script_init(&peer->gate, kit->bucket);
    gate_reset(&peer->gate);
    if (client_new(&peer->gate.base, NULL, &peer->client, &error) != HF_OK)
        return false;
    return hf_lock_new(peer->client, "job", &options, &peer->lock, &error) == HF_OK;
}

static void peer_close(struct peer *peer)
{
    if (!peer->gate.inner) /* it was never opened */
        return;
    gate_reset(&peer->gate);
    hf_lock_free(peer->lock);
    hf_client_close(peer->client);
    store_close(&peer->gate.base);
}

bool fenced_kit_open(struct fenced_kit *kit)
{
    *kit =
        (struct fenced_kit){ .env = { &world_ops }, .now_us = 1000000, .prng = prng_seeded(1) };
    kit->bucket = bucket_open(&kit->env);
    if (kit->bucket && peer_open(&kit->one, kit) && peer_open(&kit->two, kit))
        return true;
    fenced_kit_close(kit);
    return false;
}

void fenced_kit_close(struct fenced_kit *kit)
{
    peer_close(&kit->one);
    peer_close(&kit->two);
    store_close(kit->bucket);
}

int fenced_set_up(void **state)
{
    struct fenced_kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    assert_true(fenced_kit_open(kit));
    *state = kit;
    return 0;
}

int fenced_tear_down(void **state)
{
    fenced_kit_close(*state);
    free(*state);
    return 0;
}

void one_holds(struct fenced_kit *kit)
{
    struct hf_error error;
    assert_status(HF_OK, hf_lock_acquire(kit->one.lock, 0, &error), &error);
    gate_reset(&kit->one.gate);
}

void two_takes_over(struct fenced_kit *kit)
{
    char text[HF_LEASE_TEXT_MAX];
    struct hf_error error;
    assert_status(HF_OK, hf_lock_text(kit->one.lock, text, &error), &error);
    assert_status(HF_OK, hf_break(kit->two.client, text, "the test", "", &error), &error);
    assert_status(HF_OK, hf_lock_acquire(kit->two.lock, 0, &error), &error);
    assert_true(hf_lock_token(kit->two.lock) > hf_lock_token(kit->one.lock));
    gate_reset(&kit->two.gate);
}

struct hf_lock *pass_on(struct hf_lock *lock, struct peer *to)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *again;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_error error;
    options.no_renewal = true;
    assert_status(HF_OK, hf_lock_text(lock, text, &error), &error);
    assert_status(HF_OK, hf_lock_adopt(to->client, text, &options, &again, &error), &error);
    gate_reset(&to->gate);
    return again;
}

/* ---- Reading and writing directly ---------------------------------------------------- */

char *bucket_text(struct fenced_kit *kit, const char *key)
{
    struct buffer body = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = view_of(key), .body = &body };
    if (store_get(kit->bucket, &get) != HF_OK) {
        buffer_release(&body);
        return NULL;
    }
    assert_non_null(buffer_text(&body));
    return body.data;
}

void bucket_write(struct fenced_kit *kit, const char *key, struct view bytes)
{
    struct put_call call = { .key = view_of(key), .body = bytes };
    assert_status(HF_OK, store_put(kit->bucket, &call), &call.error);
}

static size_t list_bodies(struct fenced_kit *kit, const char *key, char *name)
{
    char prefix[KEY_BYTES_MAX + 8];
    int size = snprintf(prefix, sizeof prefix, "%s.hf/", key);
    struct list_call list = { .prefix = { prefix, (size_t)size } };
    assert_status(HF_OK, store_list(kit->bucket, &list), &list.error);
    size_t count = list.count;
    if (name && count > 0)
        snprintf(name, KEY_BYTES_MAX + 1, "%.*s", VIEW_ARGS(list.entries[0].key));
    list_release(&list);
    return count;
}

size_t bodies_of(struct fenced_kit *kit, const char *key)
{
    return list_bodies(kit, key, NULL);
}

void name_of_body(struct fenced_kit *kit, const char *key, char name[KEY_BYTES_MAX + 1])
{
    assert_int_equal(list_bodies(kit, key, name), 1);
}

/* ---- Short calls --------------------------------------------------------------------- */

struct view large(char fill)
{
    static char bytes[256][LARGE];
    memset(bytes[(unsigned char)fill], fill, LARGE);
    return (struct view){ bytes[(unsigned char)fill], LARGE };
}

enum hf_status put(struct peer *peer, const char *text)
{
    return hf_fenced_put(peer->lock, OBJECT, text, strlen(text), NULL);
}

enum hf_status put_large(struct peer *peer, char fill)
{
    struct view bytes = large(fill);
    return hf_fenced_put(peer->lock, OBJECT, bytes.data, bytes.size, NULL);
}

void assert_object(struct peer *peer, struct view expected, uint64_t token)
{
    void *data;
    size_t size;
    uint64_t written_by;
    struct hf_error error;
    assert_status(HF_OK,
                  hf_fenced_get(peer->client, OBJECT, MIB, &data, &size, &written_by, &error),
                  &error);
    assert_int_equal(size, expected.size);
    assert_memory_equal(data, expected.data, size);
    assert_int_equal(written_by, token);
    hf_free(data);
}
