#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOW_TIME SPAN_MS(250)

/* ---- A way to the store -------------------------------------------------------------- */

static struct way *way_of(struct store *store)
{
    return (struct way *)(void *)store;
}

static bool holds(struct view text, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= text.size; i++)
        if (memcmp(text.data + i, part, size) == 0)
            return true;
    return false;
}

static void hang_locked(struct way *way, struct mono_time deadline)
{
    uint64_t opened = way->shared.opened;
    if (deadline.us == 0)
        deadline = mono_add(env_now(way->base.env), SPAN_MS(STORE_TIMEOUT_MS));
    while (way->shared.opened == opened &&
           env_cond_wait_until(&way->shared.changed, &way->shared.mutex, deadline))
        ;
}

/* What becomes of the next call. */
static struct fate meet(struct way *way, struct view key, struct mono_time deadline)
{
    struct fate fate = PASS;
    env_mutex_lock(&way->shared.mutex);
    if (way->shared.part && holds(key, way->shared.part))
        fate = way->shared.fate;
    if (way->shared.dead &&
        (way->shared.fail_at < 0 || way->shared.calls > way->shared.fail_at))
        fate = REFUSE(HF_DENIED);
    if (way->shared.calls++ == way->shared.fail_at)
        fate = way->shared.once;
    if (fate.kind == FATE_HANG)
        hang_locked(way, deadline);
    env_mutex_unlock(&way->shared.mutex);
    if (fate.kind == FATE_SLOW)
        env_sleep(way->base.env, SLOW_TIME);
    return fate;
}

static bool reaches(struct fate fate)
{
    return fate.kind == FATE_PASS || fate.kind == FATE_SLOW || fate.kind == FATE_LOSE_REPLY;
}

static void count(struct way *way, size_t field)
{
    env_mutex_lock(&way->shared.mutex);
    ++*(unsigned *)(void *)((char *)&way->shared.counts + field);
    env_mutex_unlock(&way->shared.mutex);
}
#define COUNT(way, field) count((way), offsetof(struct counts, field))

static void way_get(struct store *store, struct get_call *calls, size_t count_of_calls)
{
    struct way *way = way_of(store);
    for (size_t i = 0; i < count_of_calls; i++) {
        struct get_call *call = &calls[i];
        if (call->none_match.size > 0)
            COUNT(way, looks);
        else
            COUNT(way, gets);
        struct fate fate = meet(way, call->key, call->deadline);
        if (fate.kind == FATE_PASS || fate.kind == FATE_SLOW)
            way->inner->ops->get(way->inner, call, 1);
        else if (fate.kind == FATE_REFUSE)
            error_set(&call->error, fate.status, "refused by the test");
        else
            error_set(&call->error, HF_UNAVAILABLE, "no answer, by the test");
    }
}

static void way_put(struct store *store, struct put_call *calls, size_t count_of_calls)
{
    struct way *way = way_of(store);
    for (size_t i = 0; i < count_of_calls; i++) {
        struct put_call *call = &calls[i];
        COUNT(way, puts);
        struct fate fate = meet(way, call->key, call->deadline);
        if (reaches(fate))
            way->inner->ops->put(way->inner, call, 1);
        if (fate.kind == FATE_REFUSE)
            error_set(&call->error, fate.status, "refused by the test");
        else if (fate.kind != FATE_PASS && fate.kind != FATE_SLOW)
            error_set(&call->error, HF_UNSURE, "no answer, by the test");
        if (call->error.status == HF_CONFLICT)
            COUNT(way, conflicts);
    }
}

/* A change in one step, with a note of whether its object was read on the way. */
struct seen_change {
    struct change_call *call;
    bool read;
};

static struct view decide_and_note(void *argument, const struct etag *now_there,
                                   struct view body)
{
    struct seen_change *seen = argument;
    seen->read = seen->read || body.data || now_there->size == 0;
    return seen->call->decide(seen->call->argument, now_there, body);
}

static void pass_change(struct way *way, struct change_call *call)
{
    struct seen_change seen = { .call = call };
    struct change_call inner = *call;
    inner.decide = decide_and_note;
    inner.argument = &seen;
    way->inner->ops->change(way->inner, &inner);
    inner.decide = call->decide;
    inner.argument = call->argument;
    *call = inner;
    if (seen.read)
        COUNT(way, gets);
    if (call->wrote)
        COUNT(way, puts);
    if (call->error.status == HF_OK && !seen.read && !call->wrote)
        COUNT(way, looks);
}

static void way_change(struct store *store, struct change_call *call)
{
    struct way *way = way_of(store);
    if (!way->inner->ops->change) {
        error_set(&call->error, HF_UNSUPPORTED, "it takes a get and a put");
        return;
    }
    struct fate fate = meet(way, call->key, call->deadline);
    if (reaches(fate))
        pass_change(way, call);
    if (fate.kind == FATE_REFUSE)
        error_set(&call->error, fate.status, "refused by the test");
    else if (fate.kind != FATE_PASS && fate.kind != FATE_SLOW)
        error_set(&call->error, HF_UNSURE, "no answer, by the test");
}

static void way_remove(struct store *store, struct delete_call *calls, size_t count_of_calls)
{
    struct way *way = way_of(store);
    for (size_t i = 0; i < count_of_calls; i++) {
        struct delete_call *call = &calls[i];
        COUNT(way, others);
        struct fate fate = meet(way, call->key, call->deadline);
        if (reaches(fate))
            way->inner->ops->remove(way->inner, call, 1);
        if (fate.kind == FATE_REFUSE)
            error_set(&call->error, fate.status, "refused by the test");
        else if (fate.kind != FATE_PASS && fate.kind != FATE_SLOW)
            error_set(&call->error, HF_UNSURE, "no answer, by the test");
    }
}

static void way_list(struct store *store, struct list_call *call)
{
    struct way *way = way_of(store);
    COUNT(way, others);
    struct fate fate = meet(way, call->prefix, call->deadline);
    if (fate.kind == FATE_PASS || fate.kind == FATE_SLOW)
        way->inner->ops->list(way->inner, call);
    else
        error_set(&call->error, HF_UNAVAILABLE, "no answer, by the test");
}

static void way_get_file(struct store *store, struct get_call *call, int fd,
                         const struct progress *progress)
{
    struct way *way = way_of(store);
    COUNT(way, others);
    struct fate fate = meet(way, call->key, call->deadline);
    if (fate.kind == FATE_PASS || fate.kind == FATE_SLOW)
        way->inner->ops->get_file(way->inner, call, fd, progress);
    else
        error_set(&call->error, HF_UNAVAILABLE, "no answer, by the test");
}

static void way_put_file(struct store *store, struct put_call *call, int fd,
                         const struct progress *progress)
{
    struct way *way = way_of(store);
    COUNT(way, others);
    struct fate fate = meet(way, call->key, call->deadline);
    if (reaches(fate))
        way->inner->ops->put_file(way->inner, call, fd, progress);
    if (fate.kind == FATE_REFUSE)
        error_set(&call->error, fate.status, "refused by the test");
    else if (fate.kind != FATE_PASS && fate.kind != FATE_SLOW)
        error_set(&call->error, HF_UNSURE, "no answer, by the test");
}

static bool way_listens(const struct store *store)
{
    return store_listens(((const struct way *)(const void *)store)->inner);
}

static bool way_listen(struct store *store, uint64_t *ticket, struct mono_time until)
{
    return store_listen(way_of(store)->inner, ticket, until);
}

static void way_ring(struct store *store)
{
    store_ring(way_of(store)->inner);
}

static void way_close(struct store *store)
{
    struct way *way = way_of(store);
    env_cond_release(&way->shared.changed);
    env_mutex_release(&way->shared.mutex);
    if (way->owns_inner)
        store_close(way->inner);
}

static const struct store_ops way_ops = {
    .name = "way",
    .get = way_get,
    .put = way_put,
    .remove = way_remove,
    .change = way_change,
    .list = way_list,
    .get_file = way_get_file,
    .put_file = way_put_file,
    .listens = way_listens,
    .listen = way_listen,
    .ring = way_ring,
    .close = way_close,
};

static void way_init(struct way *way, struct store *inner, bool owns_inner)
{
    *way = (struct way){
        .base = { .ops = &way_ops, .env = inner->env, .traits = inner->traits },
        .inner = inner,
        .owns_inner = owns_inner,
        .shared = { .fail_at = -1 },
    };
    env_mutex_init(inner->env, &way->shared.mutex);
    env_cond_init(inner->env, &way->shared.changed);
}

void way_shut(struct way *way, const char *part, struct fate fate)
{
    env_mutex_lock(&way->shared.mutex);
    way->shared.part = part;
    way->shared.fate = fate;
    env_mutex_unlock(&way->shared.mutex);
}

void way_open(struct way *way)
{
    env_mutex_lock(&way->shared.mutex);
    way->shared.part = NULL;
    way->shared.opened++;
    env_cond_broadcast(&way->shared.changed);
    env_mutex_unlock(&way->shared.mutex);
}

void way_fail(struct way *way, long number, struct fate fate)
{
    env_mutex_lock(&way->shared.mutex);
    way->shared.calls = 0;
    way->shared.fail_at = number;
    way->shared.once = fate;
    env_mutex_unlock(&way->shared.mutex);
}

void way_die(struct way *way, long number, struct fate fate)
{
    way_fail(way, number, fate);
    env_mutex_lock(&way->shared.mutex);
    way->shared.dead = true;
    env_mutex_unlock(&way->shared.mutex);
}

bool way_has_failed(struct way *way)
{
    env_mutex_lock(&way->shared.mutex);
    bool failed = way->shared.fail_at >= 0 && way->shared.calls > way->shared.fail_at;
    way->shared.fail_at = -1;
    way->shared.opened++;
    env_cond_broadcast(&way->shared.changed);
    env_mutex_unlock(&way->shared.mutex);
    return failed;
}

struct counts way_counts(struct way *way)
{
    env_mutex_lock(&way->shared.mutex);
    struct counts counts = way->shared.counts;
    way->shared.counts = (struct counts){ 0 };
    env_mutex_unlock(&way->shared.mutex);
    return counts;
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

/* A place of its own below the one that was given, so that names are new. */
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
    way_init(&peer->way, inner, own);
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

/* ---- Shorthands ---------------------------------------------------------------------- */

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

int pair_tear_down(void **state)
{
    struct pair *pair = *state;
    bool failed = kit_failed;
    kit_failed = false;
    if (failed)
        return 0;
    peer_close(&pair->one);
    peer_close(&pair->two);
    world_close(&pair->world);
    free(pair);
    return 0;
}
