/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_kit.c: clients that write fenced objects, with a virtual clock and a bucket whose
 * ETags are hashes of the content. */
#include "fenced_kit.h"

#include "base/check.h"
#include "hashed_store.h"
#include "lock/fence.h"
#include "store/stream.h"

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
    kit->bucket = hashed_store_open(&kit->env);
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
