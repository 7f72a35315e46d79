/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_kit.c: a store in memory and two clients, with a clock that the test moves. */
#include "sweep_kit.h"

#include "base/check.h"
#include "base/hash.h"
#include "lock/expiry.h"
#include "store/pages.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The world ----------------------------------------------------------------------- */

/* How often a waiting task checks whether time has passed. */
#define TICK SPAN_US(200)

static struct sweep_kit *kit_of(struct env *env)
{
    return (struct sweep_kit *)(void *)env;
}

static struct mono_time kit_now(struct env *env)
{
    return (struct mono_time){ atomic_load(&kit_of(env)->now_us) };
}

static struct wall_time kit_wall(struct env *env)
{
    return (struct wall_time){ atomic_load(&kit_of(env)->now_us) + KIT_BEGIN_S * 1000000 };
}

static const char *kit_boot_id(struct env *env)
{
    (void)env;
    return "the only boot";
}

static bool is_owner(struct env *env)
{
    return pthread_equal(pthread_self(), kit_of(env)->owner);
}

static void kit_sleep_until(struct env *env, struct mono_time moment)
{
    while (!is_owner(env) && !atomic_load(&kit_of(env)->joining) &&
           mono_before(kit_now(env), moment))
        env_sleep(env_real(), TICK);
    if (mono_before(kit_now(env), moment))
        atomic_store(&kit_of(env)->now_us, moment.us);
}

static void kit_random(struct env *env, void *bytes, size_t size)
{
    (void)env;
    env_random(env_real(), bytes, size);
}

/* A task that is never run. */
static char no_task;

static enum hf_status kit_task_start(struct env *env, void (*start)(void *), void *argument,
                                     struct env_task **ret_task, struct hf_error *error)
{
    if (atomic_load(&kit_of(env)->threads))
        return env_task_start(env_real(), start, argument, ret_task, error);
    *ret_task = (struct env_task *)(void *)&no_task;
    return HF_OK;
}

static void kit_task_join(struct env *env, struct env_task *task)
{
    if ((void *)task == (void *)&no_task)
        return;
    atomic_store(&kit_of(env)->joining, true);
    env_task_join(env_real(), task);
    atomic_store(&kit_of(env)->joining, false);
}

/* Nobody signals the owner, so for it the given time comes at once. Other tasks poll. */
static bool kit_wait_until(struct env_cond *cond, struct env_mutex *mutex,
                           struct mono_time moment)
{
    if (is_owner(cond->env)) {
        check(moment.us < MOMENT_FAR);
        kit_sleep_until(cond->env, moment);
    } else if (mono_before(kit_now(cond->env), moment)) {
        struct env *real = env_real();
        real->ops->cond_wait_until(cond, mutex, mono_add(env_now(real), TICK));
    }
    return mono_before(kit_now(cond->env), moment);
}

static const struct env_ops *kit_ops(void)
{
    static struct env_ops ops;
    ops = *env_real()->ops;
    ops.now = kit_now;
    ops.wall = kit_wall;
    ops.boot_id = kit_boot_id;
    ops.sleep_until = kit_sleep_until;
    ops.random = kit_random;
    ops.task_start = kit_task_start;
    ops.task_join = kit_task_join;
    ops.cond_wait_until = kit_wait_until;
    return &ops;
}

int sweep_set_up(void **state)
{
    struct sweep_kit *kit = calloc(1, sizeof *kit);
    struct hf_error error;
    assert_non_null(kit);
    kit->env.ops = kit_ops();
    kit->owner = pthread_self();
    atomic_store(&kit->now_us, SPAN_S(1000).us);
    MUST(store_open(&kit->env, VIEW("mem:"), &kit->world.truth, &error));
    peer_open(&kit->one, &kit->world, NULL);
    peer_open(&kit->two, &kit->world, NULL);
    *state = kit;
    return 0;
}

int sweep_tear_down(void **state)
{
    struct sweep_kit *kit = *state;
    bool failed = kit_failed;
    kit_failed = false;
    if (failed)
        return 0;
    peer_close(&kit->one);
    peer_close(&kit->two);
    store_close(kit->world.truth);
    free(kit);
    return 0;
}

void pass(struct sweep_kit *kit, struct span span)
{
    atomic_fetch_add(&kit->now_us, span.us);
}

/* ---- Leaving locks and keys behind --------------------------------------------------- */

static struct hf_error error;

void leave_lock(struct peer *peer, const char *name, int64_t ttl_ms)
{
    hf_lock_detach(lock_held(peer, name, ttl_ms));
}

void leave_key(struct peer *peer, const char *name, int64_t ttl_ms, const char *text)
{
    struct hf_key *key = key_with(peer, name, ttl_ms, /* staged */ false);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    update(key, text);
    hf_key_detach(key);
}

void enter(struct sweep_kit *kit, const char *name)
{
    struct hf_client *client = kit->two.client;
    struct evidence evidence = { .nonce = VIEW("") };
    char table[KEY_BYTES_MAX + 1];
    snprintf(table, sizeof table, "default/meta/%s.json", name);
    clock_evidence(&client->clock, &evidence);
    MUST(expiry_write(client, view_of(table), hour_now(client, &evidence), /* stub */ NULL,
                      (struct mono_time){ 0 }, &error));
}

void leave_locks(struct sweep_kit *kit, const char *name, size_t count, int64_t ttl_ms)
{
    for (size_t i = 0; i < count; i++) {
        char numbered[64];
        snprintf(numbered, sizeof numbered, "%s%zu", name, i);
        leave_lock(&kit->two, numbered, ttl_ms);
        enter(kit, numbered);
    }
}

/* ---- Looking ------------------------------------------------------------------------- */

size_t objects(struct sweep_kit *kit, const char *prefix)
{
    struct pages pages = { .list = { .prefix = view_of(prefix) } };
    size_t count = 0;
    while (pages_next(&pages, kit->world.truth))
        count += pages.list.count;
    MUST(pages_end(&pages, HF_OK, &error));
    return count;
}

uint64_t fingerprint(struct sweep_kit *kit)
{
    struct pages pages = { .list = { .prefix = VIEW("") } };
    uint64_t sum = 0;
    while (pages_next(&pages, kit->world.truth))
        for (size_t i = 0; i < pages.list.count; i++) {
            const struct list_entry *entry = &pages.list.entries[i];
            sum = sum * 31 + hash_xxh3(entry->key) + hash_xxh3(etag_view(&entry->info.etag));
        }
    MUST(pages_end(&pages, HF_OK, &error));
    return sum;
}

size_t leases(struct sweep_kit *kit, const char *name)
{
    char table[KEY_BYTES_MAX + 1];
    snprintf(table, sizeof table, "default/meta/%s.json", name);
    return world_times(&kit->world, table, "\"status\":\"active\"");
}

/* ---- Running ------------------------------------------------------------------------- */

struct sweep_options by_hand(void)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS, .mode = SWEEP_MANUAL };
    options.settings.op_delay = SPAN_US(0);
    options.settings.ops_max = 1000000;
    options.settings.runtime_max = SPAN_S(3600);
    return options;
}

struct sweep_report run_with(struct sweep_kit *kit, const struct sweep_options *options)
{
    struct sweep_report report;
    MUST(sweep_run(kit->one.client, options, &kit->cursor, &report, &error));
    return report;
}

struct sweep_report run(struct sweep_kit *kit)
{
    struct sweep_options options = by_hand();
    return run_with(kit, &options);
}

struct sweep_report run_full(struct sweep_kit *kit)
{
    struct sweep_options options = by_hand();
    options.full = true;
    return run_with(kit, &options);
}

unsigned requests(struct sweep_kit *kit)
{
    struct counts counts = script_counts(&kit->one.way);
    return counts.gets + counts.looks + counts.puts + counts.others;
}
