/* SPDX-License-Identifier: Apache-2.0 */
/* lock_kit.c: clients on a shared store, each behind its own scripted store. */
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- A way to the store -------------------------------------------------------------- */

void way_shut(struct script *way, const char *part, struct fate fate)
{
    script_rule(way, .name = "shut", .part = part, .fate = fate);
}

void way_open(struct script *way)
{
    script_drop(way, "shut");
}

void way_fail(struct script *way, long number, struct fate fate)
{
    script_rule(way, .name = "fail", .skip = (unsigned)number, .times = 1, .fate = fate);
}

void way_die(struct script *way, long number, struct fate fate)
{
    script_rule(way, .name = "die", .skip = (unsigned)number, .fate = REFUSE(HF_INVALID));
    way_fail(way, number, fate);
}

bool way_has_failed(struct script *way)
{
    bool failed = script_met(way, "fail") > 0;
    script_drop(way, "fail");
    return failed;
}

/* ---- Worlds and peers ---------------------------------------------------------------- */

static const char *kind = "mem";

bool world_kind_set(int argc, char **argv)
{
    kind = argc > 1 ? argv[1] : "mem";
    bool known = strcmp(kind, "mem") == 0 || strcmp(kind, "sqlite") == 0 ||
                 strcmp(kind, "dir") == 0 ||
                 (strcmp(kind, "url") == 0 && getenv("HOLDFAST_TEST_URL"));
    if (!known)
        fprintf(stderr, "usage: %s [mem | sqlite | dir | url, with HOLDFAST_TEST_URL]\n",
                argv[0]);
    return known;
}

bool world_is_local(void)
{
    return strcmp(kind, "url") != 0;
}

/* A path of its own below the given one, so names are new. */
static void url_below(const char *given, char *url, size_t size)
{
    struct view rest = view_of(given);
    struct view path = view_cut(&rest, '?');
    char below[17];
    env_random_hex(env_real(), 16, below);
    snprintf(url, size, "%.*s/%s%s%.*s", VIEW_ARGS(path), below, rest.size ? "?" : "",
             VIEW_ARGS(rest));
}

void world_open(struct world *world)
{
    struct hf_error error;
    *world = (struct world){ .folder = test_dir_make() };
    if (strcmp(kind, "mem") == 0)
        snprintf(world->url, sizeof world->url, "mem:");
    else if (strcmp(kind, "sqlite") == 0)
        snprintf(world->url, sizeof world->url, "sqlite:%s/locks.db?sync=off", world->folder);
    else if (strcmp(kind, "dir") == 0)
        snprintf(world->url, sizeof world->url, "dir:%s/store?sync=off", world->folder);
    else
        url_below(getenv("HOLDFAST_TEST_URL"), world->url, sizeof world->url);
    MUST(store_open(env_real(), view_of(world->url), &world->truth, &error));
}

void world_close(struct world *world)
{
    store_close(world->truth);
    test_dir_remove(world->folder);
}

char *world_text(struct world *world, const char *key)
{
    struct buffer text = BUFFER_INIT(16 * MIB);
    struct get_call get = { .key = view_of(key), .body = &text };
    enum hf_status status = store_get(world->truth, &get);
    if (status != HF_OK) {
        assert_int_equal(status, HF_NOT_FOUND);
        buffer_release(&text);
        return NULL;
    }
    assert_non_null(buffer_text(&text));
    return text.data;
}

void world_write(struct world *world, const char *key, struct view text)
{
    struct put_call put = { .key = view_of(key), .body = text };
    must(store_put(world->truth, &put), &put.error, key, __LINE__);
}

size_t world_times(struct world *world, const char *key, const char *piece)
{
    char *text = world_text(world, key);
    size_t times = 0;
    for (const char *at = text; at && (at = strstr(at, piece)); at++)
        times++;
    free(text);
    return times;
}

enum hf_status peer_try_open(struct peer *peer, struct world *world,
                             const struct hf_client_options *options, struct hf_error *error)
{
    struct store *inner = world->truth;
    bool own = strcmp(kind, "mem") != 0;
    enum hf_status status = HF_OK;
    if (own)
        status = store_open(env_real(), view_of(world->url), &inner, error);
    if (status != HF_OK)
        return status;
    script_init(&peer->way, inner);
    peer->way.owns_inner = own;
    status = client_new(&peer->way.base, options, &peer->client, error);
    if (status != HF_OK)
        store_close(&peer->way.base);
    return status;
}

void peer_open(struct peer *peer, struct world *world, const struct hf_client_options *options)
{
    struct hf_error error;
    MUST(peer_try_open(peer, world, options, &error));
}

void peer_close(struct peer *peer)
{
    hf_client_close(peer->client);
    store_close(&peer->way.base);
}

bool kit_failed;

/* ---- Short calls --------------------------------------------------------------------- */

void must(enum hf_status status, const struct hf_error *error, const char *call, int line)
{
    if (status != HF_OK)
        FAIL("line %d: %s: %s: %s", line, call, hf_status_name(status), error->why);
}

void answers(enum hf_status status, enum hf_status expected, const char *call, int line)
{
    if (status != expected)
        FAIL("line %d: %s: %s, expected %s", line, call, hf_status_name(status),
             hf_status_name(expected));
}

struct hf_lock *lock_with(struct peer *peer, const char *scope,
                          const struct hf_lock_options *options)
{
    struct hf_lock *lock = NULL;
    struct hf_error error;
    MUST(hf_lock_new(peer->client, scope, options, &lock, &error));
    return lock;
}

struct hf_lock *lock_of(struct peer *peer, const char *scope, int64_t ttl_ms)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    if (ttl_ms > 0)
        options.ttl_ms = ttl_ms;
    return lock_with(peer, scope, ttl_ms > 0 ? &options : NULL);
}

struct hf_lock *lock_held(struct peer *peer, const char *scope, int64_t ttl_ms)
{
    struct hf_lock *lock = lock_of(peer, scope, ttl_ms);
    struct hf_error error;
    MUST(hf_lock_acquire(lock, 0, &error));
    return lock;
}

/* ---- Time ---------------------------------------------------------------------------- */

struct mono_time now(void)
{
    return env_now(env_real());
}

void pass_ms(int64_t ms)
{
    env_sleep(env_real(), SPAN_MS(ms));
}

int64_t scaled_ms(int64_t ms)
{
    return world_is_local() ? ms : 4 * ms;
}

int64_t ms_since(struct mono_time start)
{
    return mono_since(now(), start).us / 1000;
}

bool comes_true(bool (*is)(void *argument), void *argument, int64_t within_ms)
{
    struct mono_time start = now();
    while (!is(argument)) {
        if (ms_since(start) > within_ms)
            return false;
        pass_ms(1);
    }
    return true;
}

/* ---- One world and two peers --------------------------------------------------------- */

int pair_set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);
    assert_non_null(pair);
    world_open(&pair->world);
    peer_open(&pair->one, &pair->world, NULL);
    peer_open(&pair->two, &pair->world, NULL);
    *state = pair;
    return 0;
}

/* A failed case leaves its handles behind, and a client must not be closed with handles. */
static bool has_handles(struct peer *peer)
{
    return atomic_load(&peer->client->handles) > 1;
}

int pair_tear_down(void **state)
{
    struct pair *pair = *state;
    bool failed = kit_failed;
    kit_failed = false;
    if (failed)
        return 0;
    if (has_handles(&pair->one) || has_handles(&pair->two)) {
        print_error("a case ended with handles left\n");
        return 1;
    }
    peer_close(&pair->one);
    peer_close(&pair->two);
    world_close(&pair->world);
    free(pair);
    return 0;
}
