/* SPDX-License-Identifier: Apache-2.0 */
/* lock_damage_test.c KIND: damages tables while a lock in them is held. There must be no crash,
 * no second holder, and no token that does not exceed all earlier ones. KIND is mem, sqlite, or
 * url. */
#include "base/layout.h"
#include "lock_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TTL_MAX_MS 400

/* What becomes of a table. `text` is what was there, to be freed; so is what is returned. */
struct damage {
    const char *what;
    char *(*of)(const char *text, size_t *ret_size);
};

static char *copy(const char *text, size_t *ret_size)
{
    *ret_size = strlen(text);
    return strdup(text);
}

static char *emptied(const char *text, size_t *ret_size)
{
    (void)text;
    return copy("", ret_size);
}

static char *cut_in_half(const char *text, size_t *ret_size)
{
    char *half = copy(text, ret_size);
    *ret_size /= 2;
    return half;
}

static char *cut_at_the_end(const char *text, size_t *ret_size)
{
    char *all = copy(text, ret_size);
    while (*ret_size > 0 && all[*ret_size - 1] != '}')
        --*ret_size;
    --*ret_size;
    return all;
}

static char *bytes(const char *text, size_t *ret_size)
{
    (void)text;
    *ret_size = 4096;
    char *noise = malloc(*ret_size);
    assert_non_null(noise);
    env_random(env_real(), noise, *ret_size);
    noise[0] = '\xff';
    return noise;
}

static char *zeros(const char *text, size_t *ret_size)
{
    *ret_size = strlen(text);
    return calloc(1, *ret_size);
}

static char *huge(const char *text, size_t *ret_size)
{
    *ret_size = 9 * MIB;
    char *large = malloc(*ret_size);
    assert_non_null(large);
    memset(large, ' ', *ret_size);
    memcpy(large, text, strlen(text));
    return large;
}

static char *nested(const char *text, size_t *ret_size)
{
    (void)text;
    *ret_size = 200000;
    char *deep = malloc(*ret_size);
    assert_non_null(deep);
    memset(deep, '[', *ret_size);
    return deep;
}

/* With what follows `"name":` up to the end of the line's value changed. */
static char *with(const char *text, const char *name, const char *value, size_t *ret_size)
{
    char *result = NULL;
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(text, quoted);
    if (!at)
        FAIL("there is no %s in %s", quoted, text);
    at += strlen(quoted);
    size_t skipped = strspn(at, " ");
    const char *end = at + skipped;
    end += *end == '"' ? strcspn(end + 1, "\"") + 2 : strcspn(end, ",}\n");
    int size = asprintf(&result, "%.*s%s%s", (int)(at - text), text, value, end);
    assert_true(size >= 0);
    *ret_size = (size_t)size;
    return result;
}

static char *token_as_text(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "\"7\"", ret_size);
}

static char *token_negative(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "-1", ret_size);
}

static char *token_back(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "0", ret_size);
}

static char *token_at_that_of_the_lease(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "1", ret_size);
}

static char *token_beyond(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "9007199254740993", ret_size);
}

static char *token_endless(const char *text, size_t *ret_size)
{
    return with(text, "next_token", "1e400", ret_size);
}

static char *token_missing(const char *text, size_t *ret_size)
{
    char *at = NULL, *result = copy(text, ret_size);
    at = strstr(result, "next_token");
    assert_non_null(at);
    memcpy(at, "text_noken", 10);
    return result;
}

static char *format_as_number(const char *text, size_t *ret_size)
{
    return with(text, "format", "1", ret_size);
}

static char *ttl_as_text(const char *text, size_t *ret_size)
{
    return with(text, "ttl_ms", "\"long\"", ret_size);
}

static char *a_mode_that_is_no_word(const char *text, size_t *ret_size)
{
    return with(text, "mode", "\"po lite\"", ret_size);
}

static char *a_status_that_is_no_word(const char *text, size_t *ret_size)
{
    return with(text, "status", "\"\"", ret_size);
}

static char *an_array(const char *text, size_t *ret_size)
{
    (void)text;
    return copy("[]", ret_size);
}

static char *a_null(const char *text, size_t *ret_size)
{
    (void)text;
    return copy("null", ret_size);
}

static char *leases_in_an_array(const char *text, size_t *ret_size)
{
    (void)text;
    return copy("{\"format\":\"holdfast.leases/1\",\"next_token\":9,\"leases\":[1,2],"
                "\"waiters\":[],\"audit\":[]}",
                ret_size);
}

static char *waiters_in_an_object(const char *text, size_t *ret_size)
{
    (void)text;
    return copy("{\"format\":\"holdfast.leases/1\",\"next_token\":9,\"leases\":{},"
                "\"waiters\":{},\"audit\":3}",
                ret_size);
}

static const struct damage damages[] = {
    { "emptied", emptied },
    { "cut in half", cut_in_half },
    { "cut at the end", cut_at_the_end },
    { "random bytes", bytes },
    { "zeros", zeros },
    { "huge", huge },
    { "nested", nested },
    { "next_token as text", token_as_text },
    { "next_token negative", token_negative },
    { "next_token zero", token_back },
    { "next_token that was given", token_at_that_of_the_lease },
    { "next_token beyond 2^53", token_beyond },
    { "next_token beyond all", token_endless },
    { "next_token missing", token_missing },
    { "a format that is a number", format_as_number },
    { "a ttl that is text", ttl_as_text },
    { "a mode that is no word", a_mode_that_is_no_word },
    { "a status that is no word", a_status_that_is_no_word },
    { "an array", an_array },
    { "a null", a_null },
    { "leases in an array", leases_in_an_array },
    { "waiters in an object", waiters_in_an_object },
};
#define DAMAGES (sizeof damages / sizeof damages[0])

struct victim {
    char name[16], key[64];
    struct hf_lock *holder, *newcomer;
    uint64_t token;
    bool over;
};

struct place_of_accident {
    struct world world;
    struct peer one, two;
};

static void accident_open(struct place_of_accident *accident, bool observed)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ttl_max_ms = TTL_MAX_MS;
    options.takeover_observed = observed;
    world_open(&accident->world);
    peer_open(&accident->one, &accident->world, &options);
    peer_open(&accident->two, &accident->world, &options);
    struct hf_lock *first = lock_held(&accident->one, "first", 200); /* which makes the epoch */
    IS(HF_OK, hf_lock_release(first, NULL));
    hf_lock_free(first);
}

static void accident_close(struct place_of_accident *accident)
{
    peer_close(&accident->one);
    peer_close(&accident->two);
    world_close(&accident->world);
}

static void damage_one(struct place_of_accident *accident, const struct damage *damage,
                       const char *key)
{
    size_t size;
    char *text = world_text(&accident->world, key);
    assert_non_null(text);
    char *damaged = damage->of(text, &size);
    assert_non_null(damaged);
    world_write(&accident->world, key, (struct view){ damaged, size });
    free(damaged);
    free(text);
}

/* Tries once; true when it was granted, and then all must be right. */
static bool try_newcomer(struct victim *victim, const char *what)
{
    struct hf_error error;
    enum hf_status status = hf_lock_acquire(victim->newcomer, 0, &error);
    if (status != HF_OK && status != HF_HELD && status != HF_CORRUPT &&
        status != HF_UNSUPPORTED)
        FAIL("%s: %s: %s", what, hf_status_name(status), error.why);
    if (status != HF_OK)
        return false;
    if (hf_lock_check(victim->holder, NULL) == HF_OK)
        FAIL("%s: two holders", what);
    if (hf_lock_token(victim->newcomer) <= victim->token)
        FAIL("%s: token %d after %d", what, (int)hf_lock_token(victim->newcomer),
             (int)victim->token);
    return true;
}

/* All at once, each in a table of its own. */
static void damage_all(bool observed, bool renewed)
{
    struct place_of_accident accident;
    struct victim victims[DAMAGES];
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = TTL_MAX_MS, .no_renewal = !renewed);
    accident_open(&accident, observed);
    for (size_t i = 0; i < DAMAGES; i++) {
        struct victim *victim = &victims[i];
        *victim = (struct victim){ .over = false };
        snprintf(victim->name, sizeof victim->name, "v%zu", i);
        snprintf(victim->key, sizeof victim->key, "default/meta/v%zu.json", i);
        victim->holder = lock_with(&accident.one, victim->name, &options);
        victim->newcomer = lock_of(&accident.two, victim->name, 200);
        IS(HF_HELD, (hf_lock_acquire(victim->holder, 0, NULL),
                     hf_lock_acquire(victim->newcomer, 0, NULL)));
        victim->token = hf_lock_token(victim->holder);
    }
    for (size_t i = 0; i < DAMAGES; i++)
        damage_one(&accident, &damages[i], victims[i].key);
    size_t left = DAMAGES;
    struct mono_time start = now();
    while (left > 0 && ms_since(start) < 8000)
        for (size_t i = 0; i < DAMAGES; i++)
            if (!victims[i].over && try_newcomer(&victims[i], damages[i].what)) {
                victims[i].over = true;
                left--;
            }
    for (size_t i = 0; i < DAMAGES; i++)
        if (!victims[i].over)
            print_message("# not over: %s\n", damages[i].what);
    assert_int_equal(left, 0);
    for (size_t i = 0; i < DAMAGES; i++) {
        if (hf_lock_release(victims[i].holder, NULL) == HF_OK)
            FAIL("%s: the first holder was told that all was well", damages[i].what);
        IS(HF_OK, hf_lock_renew(victims[i].newcomer, NULL));
        hf_lock_free(victims[i].holder);
        hf_lock_free(victims[i].newcomer);
    }
    accident_close(&accident);
}

static void damage_under_a_lock(void **state)
{
    (void)state;
    damage_all(/* observed */ false, /* renewed */ false);
}

static void damage_under_a_renewed_lock(void **state)
{
    (void)state;
    damage_all(/* observed */ false, /* renewed */ true);
}

static void damage_under_an_observed_lock(void **state)
{
    (void)state;
    damage_all(/* observed */ true, /* renewed */ false);
}

/* ---- What is left of it -------------------------------------------------------------- */

static size_t kept_aside(struct world *world)
{
    struct list_call list = { .prefix = VIEW(LAYOUT_KEPT_FOLDER) };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    size_t count = list.count;
    list_release(&list);
    return count;
}

static void the_damaged_table_is_kept(void **state)
{
    (void)state;
    struct place_of_accident accident;
    accident_open(&accident, false);
    struct hf_lock *lock = lock_held(&accident.one, "deploy", 200);
    struct hf_lock *other = lock_of(&accident.two, "deploy", 200);
    uint64_t token = hf_lock_token(lock);
    assert_int_equal(kept_aside(&accident.world), 0);
    world_write(&accident.world, "default/meta/deploy.json", VIEW("oh dear"));
    IS(HF_OK, hf_lock_acquire(other, 5000, NULL));
    assert_int_equal(kept_aside(&accident.world), 1);
    ASSERT(hf_lock_token(other) >> 32 > token >> 32);
    ASSERT(hf_lock_check(lock, NULL) != HF_OK);
    hf_lock_free(lock);
    hf_lock_free(other);
    accident_close(&accident);
}

/* A file of so many zeros, which takes no space, becomes the object. */
static void put_zeros(struct world *world, struct view key, uint64_t size)
{
    char path[] = "/tmp/holdfast-zeros-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)size) == 0);
    struct put_call put = { .key = key, .give = true };
    must(store_put_file(world->truth, &put, fd, /* progress */ NULL), &put.error, "put",
         __LINE__);
    close(fd);
}

static void what_fits_no_memory_is_replaced(void **state)
{
    (void)state;
    struct place_of_accident accident;
    accident_open(&accident, false);
    struct hf_lock *lock = lock_held(&accident.one, "deploy", 200);
    struct hf_lock *other = lock_of(&accident.two, "deploy", 200);
    uint64_t token = hf_lock_token(lock);
    put_zeros(&accident.world, VIEW("default/meta/deploy.json"), BODY_BYTES_MAX + 1);
    IS(HF_OK, hf_lock_acquire(other, 5000, NULL));
    ASSERT(hf_lock_token(other) >> 32 > token >> 32);
    ASSERT(hf_lock_check(lock, NULL) != HF_OK);
    struct list_call list = { .prefix = VIEW(LAYOUT_KEPT_FOLDER) };
    must(store_list(accident.world.truth, &list), &list.error, "list", __LINE__);
    assert_true(list.count > 0); /* both may have kept it */
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.entries[i].info.size, TABLE_BYTES_READ_MAX);
    list_release(&list);
    hf_lock_free(lock);
    hf_lock_free(other);
    accident_close(&accident);
}

static void only_names_may_have_lost_a_state(void **state)
{
    (void)state;
    static const struct {
        const char *scope, *key;
        bool has_state;
    } rows[] = {
        { "deploy", "default/meta/deploy.json", true },
        { "range:7:0-9", "default/inode/7.json", false },
        { "path:/a", "default/paths.json", false },
        { "chunk:data/a", "metadata/compaction-leases.json", false },
        { "shard:meta/0f", "indexes/meta/shards/0f.lock", false }, /* it sounds like one */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct place_of_accident accident;
        accident_open(&accident, false);
        struct hf_lock *lock = lock_of(&accident.one, rows[i].scope, 200);
        world_write(&accident.world, rows[i].key, VIEW("oh dear"));
        IS(HF_HELD, hf_lock_acquire(lock, 0, NULL)); /* by the barrier */
        if (world_times(&accident.world, rows[i].key, "lost") != rows[i].has_state)
            fail_msg("%s", rows[i].key);
        hf_lock_free(lock);
        accident_close(&accident);
    }
}

/* Tables go on; a new one would have no tokens that are sure to be higher than all before. */
static void a_damaged_epoch_is_no_epoch(void **state)
{
    (void)state;
    struct place_of_accident accident;
    struct hf_error error;
    accident_open(&accident, false);
    struct hf_lock *old = lock_held(&accident.one, "deploy", 200);
    struct hf_lock *fresh = lock_of(&accident.two, "other", 200);
    world_write(&accident.world, LAYOUT_EPOCH_FOLDER "default.json", VIEW("{\"epoch\":"));
    world_write(&accident.world, LAYOUT_EPOCH_COPY_FOLDER "default.json", VIEW(""));
    IS(HF_OK, hf_lock_renew(old, &error));
    IS(HF_OK, hf_lock_release(old, &error));
    IS(HF_OK, hf_lock_acquire(old, 0, &error));
    IS(HF_CORRUPT, hf_lock_acquire(fresh, 0, &error));
    ASSERT(strstr(error.why, "epoch"));
    world_write(&accident.world, "default/meta/deploy.json", VIEW("broken"));
    IS(HF_CORRUPT, hf_lock_acquire(fresh, 0, &error));
    struct hf_lock *other = lock_of(&accident.two, "deploy", 200);
    IS(HF_CORRUPT, hf_lock_acquire(other, 0, &error));
    hf_lock_free(old);
    hf_lock_free(fresh);
    hf_lock_free(other);
    accident_close(&accident);
}

static void damage_while_one_waits(void **state)
{
    (void)state;
    struct place_of_accident accident;
    struct hf_error error;
    accident_open(&accident, false);
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = 300, .poll_ms = 5);
    struct hf_lock *holder = lock_held(&accident.one, "deploy", 300);
    struct hf_lock *waiter = lock_with(&accident.two, "deploy", &options);
    IS(HF_HELD, hf_lock_begin(waiter, &error));
    world_write(&accident.world, "default/meta/deploy.json", VIEW("{}}"));
    struct mono_time start = now();
    enum hf_status status = HF_HELD;
    while (status != HF_OK && ms_since(start) < 8000) {
        status = hf_lock_poll(waiter, &error);
        if (status == HF_OK)
            ASSERT(hf_lock_check(holder, NULL) != HF_OK);
        if (status != HF_HELD &&
            status != HF_OK) /* thrown out of the line: stand there again */
            status = hf_lock_begin(waiter, &error);
        pass_ms(2);
    }
    IS(HF_OK, status);
    hf_lock_free(holder);
    hf_lock_free(waiter);
    accident_close(&accident);
}

static void what_others_may_understand_is_left_alone(void **state)
{
    (void)state;
    const char *const later[] = {
        "{\"format\":\"holdfast.leases/2\",\"next_token\":1,\"leases\":{}}",
        "{\"format\":\"somebody.else/1\",\"next_token\":1,\"leases\":{}}",
        "{\"format\":\"holdfast.leases/1\",\"next_token\":5,\"leases\":{\"a-1\":{\"lease_id\":"
        "\"a-1\",\"scopes\":[\"volume:x\"],\"mode\":\"exclusive\",\"token\":4}}}",
        "{\"format\":\"holdfast.leases/1\",\"next_token\":5,\"leases\":{\"a-1\":{\"lease_id\":"
        "\"a-1\",\"scopes\":[\"named:deploy\"],\"mode\":\"quorum\",\"token\":4}}}",
    };
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        struct place_of_accident accident;
        struct hf_error error;
        accident_open(&accident, false);
        world_write(&accident.world, "default/meta/deploy.json", view_of(later[i]));
        struct hf_lock *lock = lock_of(&accident.one, "deploy", 200);
        IS(HF_UNSUPPORTED, hf_lock_acquire(lock, 0, &error));
        ASSERT(error.why[0]);
        IS(HF_UNSUPPORTED, hf_lock_acquire(lock, 100, &error));
        IS(HF_UNSUPPORTED, hf_lock_begin(lock, &error));
        assert_int_equal(world_times(&accident.world, "default/meta/deploy.json", later[i]), 1);
        hf_lock_free(lock);
        accident_close(&accident);
    }
}

/* A file in the form of the programs before us, with a lease in force. */
static void a_foreign_lease_is_respected(void **state)
{
    (void)state;
    struct place_of_accident accident;
    accident_open(&accident, false);
    const char seed[] = "{\"leases\":{\"l-1\":{\"lease_id\":\"l-1\",\"holder_id\":\"node-1\","
                        "\"chunks\":[\"a\",\"b\"],\"level\":0,\"status\":\"active\","
                        "\"acquired_at\":\"2026-02-06T10:00:00Z\","
                        "\"expires_at\":\"2026-02-06T10:05:00Z\",\"output\":\"c\"}}}";
    world_write(&accident.world, "metadata/compaction-leases.json", view_of(seed));
    struct hf_lock *a = lock_of(&accident.one, "chunk:a", 200);
    struct hf_lock *z = lock_of(&accident.one, "chunk:z", 200);
    IS(HF_HELD, hf_lock_acquire(a, 0, NULL));
    IS(HF_OK, hf_lock_acquire(z, 0, NULL));
    IS(HF_TIMEOUT, hf_lock_acquire(a, 600, NULL)); /* longer than our own longest ttl */
    hf_lock_free(a);
    hf_lock_free(z);
    accident_close(&accident);
}

/* ---- How long the barrier lasts ------------------------------------------------------ */

#define DOCUMENT LAYOUT_EPOCH_FOLDER "default.json"

/* Clients with the longest ttl of an hour, who record limits of a tenth of a second and more. */
static void set_policy(struct pair *pair, struct span period)
{
    struct hf_client *clients[] = { pair->one.client, pair->two.client };
    struct limit_policy policy = { .floor = SPAN_MS(100), .period = period };
    for (size_t i = 0; i < 2; i++)
        clients[i]->space.policy = clients[i]->chunk_space.policy = policy;
}

/* The ttl of the barrier that stands in a table after damage. */
static int64_t barrier_ms(struct pair *pair, const char *scope, const char *key)
{
    struct hf_lock *lock = lock_of(&pair->two, scope, 200);
    world_write(&pair->world, key, VIEW("oh dear"));
    IS(HF_HELD, hf_lock_acquire(lock, 0, NULL));
    char *text = world_text(&pair->world, key);
    const char *at = text ? strstr(text, "\"ttl_ms\":") : NULL;
    ASSERT(at && strstr(text, HF_TABLE_REPLACED));
    int64_t ms = strtoll(at + strlen("\"ttl_ms\":"), NULL, 10);
    free(text);
    hf_lock_free(lock);
    return ms;
}

static void use_for(struct pair *pair, const char *scope, int64_t ttl_ms)
{
    struct hf_lock *lock = lock_held(&pair->one, scope, ttl_ms);
    IS(HF_OK, hf_lock_release(lock, NULL));
    hf_lock_free(lock);
}

static void the_barrier_is_as_long_as_leases_can_be(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_S(3600));
    use_for(pair, "deploy", 500);
    use_for(pair, "range:7:0-9", 200);
    use_for(pair, "path:/a", 60000);
    use_for(pair, "chunk:a", 1000);
    ASSERT(barrier_ms(pair, "deploy", "default/meta/deploy.json") == 500);
    ASSERT(barrier_ms(pair, "range:7:0-9", "default/inode/7.json") == 200);
    ASSERT(barrier_ms(pair, "path:/a", "default/paths.json") == 72000); /* rounded up */
    ASSERT(barrier_ms(pair, "chunk:a", "metadata/compaction-leases.json") == 1000);
}

/* Whatever it is that was damaged: nobody knows who had what there. */
static void a_longer_lease_of_another_name_counts(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_S(3600));
    use_for(pair, "deploy", 500);
    use_for(pair, "other", 5000);
    ASSERT(barrier_ms(pair, "deploy", "default/meta/deploy.json") == 6000);
}

static void who_held_it_is_over_before_the_next(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_S(3600));
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = 1000, .no_renewal = true);
    struct hf_lock *lock = lock_with(&pair->one, "deploy", &options);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 1000);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    world_write(&pair->world, "default/meta/deploy.json", VIEW(""));
    struct mono_time start = now();
    IS(HF_OK, hf_lock_acquire(other, 20000, NULL));
    ASSERT(hf_lock_check(lock, NULL) != HF_OK);
    if (world_is_local())
        ASSERT(ms_since(start) < 10000);
    hf_lock_free(lock);
    hf_lock_free(other);
}

/* Each of these is one that nobody has recorded a limit for. */
static void what_is_not_known_to_be_shorter_is_as_long_as_any(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_S(3600));
    use_for(pair, "deploy", 500);
    ASSERT(barrier_ms(pair, "chunk:a", "metadata/compaction-leases.json") == 3600000);
    world_write(&pair->world, DOCUMENT,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 5, \"write\": \"9c\" }"));
    ASSERT(barrier_ms(pair, "deploy", "default/meta/deploy.json") == 3600000);
    use_for(pair, "another", 700);
    ASSERT(barrier_ms(pair, "another", "default/meta/another.json") == 3600000);
}

static void a_limit_is_recorded_before_the_lease(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_S(3600));
    use_for(pair, "deploy", 500);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"500\"") == 1);
    way_shut(&pair->one.way, "epoch", REFUSE(HF_UNAVAILABLE));
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 9000);
    struct hf_error error;
    ASSERT(hf_lock_acquire(lock, 0, &error) != HF_OK);
    ASSERT(world_times(&pair->world, "default/meta/deploy.json", "\"ttl_ms\":9000") == 0);
    way_open(&pair->one.way);
    IS(HF_OK, hf_lock_acquire(lock, 0, &error));
    ASSERT(world_times(&pair->world, DOCUMENT, "\"12000\"") == 1);
    hf_lock_free(lock);
}

static void a_limit_is_dropped_when_it_is_past(void **state)
{
    struct pair *pair = *state;
    if (!world_is_local())
        skip();
    pair->one.client->space.settings.skew_tolerance = SPAN_US(0);
    pair->two.client->space.settings.skew_tolerance = SPAN_US(0);
    set_policy(pair, SPAN_MS(600));
    use_for(pair, "deploy", 2000);
    use_for(pair, "deploy", 200);
    ASSERT(barrier_ms(pair, "deploy", "default/meta/deploy.json") == 2000);
    pass_ms(2700);
    use_for(pair, "other", 200);
    ASSERT(barrier_ms(pair, "other", "default/meta/other.json") == 200);
}

static void a_renewal_needs_a_limit_too(void **state)
{
    struct pair *pair = *state;
    set_policy(pair, SPAN_MS(500));
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 4000);
    pass_ms(world_is_local() ? 700 : 2500);
    world_write(&pair->world, DOCUMENT,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 0, "
                     "\"longest\": { } }"));
    IS(HF_OK, hf_lock_renew(lock, NULL));
    ASSERT(world_times(&pair->world, DOCUMENT, "\"6000\"") == 1);
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("a damaged table has no second holder and no lower token", damage_under_a_lock),
        IT("nor has it when its locks are renewed", damage_under_a_renewed_lock),
        IT("nor when takeovers go by watching alone", damage_under_an_observed_lock),
        IT("a damaged table is kept aside, and the epoch raised", the_damaged_table_is_kept),
        IT("a name whose table was damaged may have lost a state, which its table says",
           only_names_may_have_lost_a_state),
        IT("where the epoch and its copy are damaged no table is born or replaced",
           a_damaged_epoch_is_no_epoch),
        IT("who waits gets it after all", damage_while_one_waits),
        IT("a table that others may understand is left alone",
           what_others_may_understand_is_left_alone),
        PAIR("the barrier after damage is as long as leases of that kind can be",
             the_barrier_is_as_long_as_leases_can_be),
        PAIR("a longer lease of another name counts", a_longer_lease_of_another_name_counts),
        PAIR("whoever held it is over before the next gets it",
             who_held_it_is_over_before_the_next),
        PAIR("where nothing is recorded a lease can be as long as any",
             what_is_not_known_to_be_shorter_is_as_long_as_any),
        PAIR("how long a lease is is recorded before it is granted",
             a_limit_is_recorded_before_the_lease),
        PAIR("a limit is dropped when every lease under it is over",
             a_limit_is_dropped_when_it_is_past),
        PAIR("a renewal needs a limit too", a_renewal_needs_a_limit_too),
        IT("a lease of another program is in force, however long that says it is",
           a_foreign_lease_is_respected),
        /* The last one; objects in memory cannot be as large as that. */
        IT("what is too large for memory in a table's place is replaced too, and its start "
           "kept",
           what_fits_no_memory_is_replaced),
    };
    bool in_memory = argc < 2 || strcmp(argv[1], "mem") == 0;
    size_t count = sizeof tests / sizeof tests[0] - in_memory;
    return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
