/* SPDX-License-Identifier: Apache-2.0 */
/* key_hold_test.c KIND: holding keys: passing leases on, staged states, and bodies that become
 * old. KIND is mem, sqlite, dir, or url ($HOLDFAST_TEST_URL). */
#include "key_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* ---- Holding ------------------------------------------------------------------------- */

static void kept_alive(void **state)
{
    struct pair *pair = *state;
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    options.no_renewal = true;
    MUST(hf_key_new(pair->one.client, "k", &options, &key, &error));
    IS(HF_NOT_FOUND, hf_key_keepalive(key, &error));
    MUST(hf_key_acquire(key, 0, NULL, &error));
    pass_ms(20);
    int64_t before = hf_lock_remaining_ms(hf_key_lock(key));
    MUST(hf_key_keepalive(key, &error));
    ASSERT(hf_lock_remaining_ms(hf_key_lock(key)) > before);
    done(key);
}

static void acquired_twice(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = staged_held(&pair->one, "k");
    struct hf_key_info info = HF_KEY_INFO;
    update(key, "x");
    MUST(hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.version == 0);
    MUST(hf_key_release(key, HF_COMMIT, &error));
    reads(&pair->two, "k", NULL);
    MUST(hf_lock_check(hf_key_lock(key), &error));
    MUST(hf_key_release(key, HF_COMMIT, &error));
    reads(&pair->two, "k", "x");
    IS(HF_NOT_FOUND, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
}

static void passed_on(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k"), *adopted;
    char text[HF_LEASE_TEXT_MAX], *bytes = bytes_of(5000, 4);
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    hf_key_detach(key);
    ASSERT(bodies(&pair->world, "k") == 1);
    MUST(hf_key_adopt(pair->two.client, text, NULL, &adopted, &error));
    update(adopted, "by two");
    IS(HF_INVALID, hf_key_acquire(adopted, 0, NULL, &error)); /* it is held by its text */
    reads(&pair->one, "k", "by two");
    done(adopted);
    ASSERT(bodies(&pair->world, "k") == 0);
    IS(HF_LOST, hf_key_adopt(pair->two.client, text, NULL, &adopted, &error));
    free(bytes);
}

static void described(void **state)
{
    struct pair *pair = *state;
    struct key_description seen;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *key = key_held(&pair->one, "k");
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(seen.info.version == 0 && seen.held && !seen.staged && seen.waiters == 0);
    MUST(hf_key_update(key, "text", 4, NULL, &info, &error));
    struct hf_lock *waiter = lock_of(&pair->two, "k", 60000);
    IS(HF_HELD, hf_lock_begin(waiter, &error));
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(seen.info.version == 1 && strcmp(seen.info.etag, info.etag) == 0);
    ASSERT(seen.info.size == 4 && seen.info.token == info.token && seen.info.updated_ms > 0);
    ASSERT(strcmp(seen.holder, pair->one.client->holder) == 0);
    ASSERT(seen.token == hf_lock_token(hf_key_lock(key)) && seen.waiters == 1);
    ASSERT(seen.remaining.us > 0 && seen.remaining.us <= SPAN_S(60).us);
    ASSERT(seen.expires_at.us > 0);
    hf_lock_free(waiter);
    MUST(hf_key_remove(key, NULL, NULL, &error));
    done(key);
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(!seen.held && seen.holder[0] == '\0' && seen.info.removed && seen.info.version == 2);
}

/* Two whose leases are short, and are over soon after their end. */
struct brief {
    struct peer one, two;
    struct hf_key *key;
};

#define BRIEF_MS 200

static void brief_open(struct brief *brief, struct world *world, bool staged)
{
    struct hf_client_options careless = HF_CLIENT_OPTIONS;
    careless.skew_tolerance_ms = world_is_local() ? 0 : 2000;
    careless.ttl_max_ms = world_is_local() ? BRIEF_MS : careless.ttl_max_ms;
    peer_open(&brief->one, world, &careless);
    peer_open(&brief->two, world, &careless);
    brief->key = key_with(&brief->one, "k", BRIEF_MS, staged);
    MUST(hf_key_acquire(brief->key, 0, NULL, &error));
}

/* The first is not heard of any more, until its lease is over. */
static void brief_pass(struct brief *brief)
{
    way_shut(&brief->one.way, "", LOSE);
    pass_ms(world_is_local() ? 2 * BRIEF_MS : 5000);
}

static void brief_close(struct brief *brief)
{
    hf_key_free(brief->key);
    peer_close(&brief->one);
    peer_close(&brief->two);
}

/* A lease that is provably over is not shown, and is cleared away on the way, with what it had
 * staged. */
static void describing_clears(void **state)
{
    struct pair *pair = *state;
    struct key_description seen;
    struct brief brief;
    publish(&pair->one, "k", "before");
    brief_open(&brief, &pair->world, /* staged */ true);
    update(brief.key, "never");
    MUST(key_describe(brief.two.client, "k", &seen, &error));
    ASSERT(seen.held && seen.staged && seen.info.version == 1);
    brief_pass(&brief);
    MUST(key_describe(brief.two.client, "k", &seen, &error));
    ASSERT(!seen.held && !seen.staged && seen.info.version == 1);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"expired\"") == 1);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"active\"") == 0);
    ASSERT(world_times(&pair->world, DOCUMENT, "never") == 0);
    way_open(&brief.one.way);
    IS(HF_LOST, hf_key_release(brief.key, HF_COMMIT, &error));
    reads(&pair->one, "k", "before");
    brief_close(&brief);
}

/* ---- Over ---------------------------------------------------------------------------- */

/* Its time is up while it is not heard of: what it had staged is dropped by the next holder, and
 * what it writes when it is back comes too late. */
static void over_in_time(void **state)
{
    struct pair *pair = *state;
    struct brief brief;
    struct hf_key_info info = HF_KEY_INFO;
    publish(&pair->one, "k", "before");
    brief_open(&brief, &pair->world, /* staged */ true);
    update(brief.key, "never");
    brief_pass(&brief);
    struct hf_key *next = key_with(&brief.two, "k", BRIEF_MS, false);
    MUST(hf_key_acquire(next, 10000, &info, &error));
    ASSERT(info.version == 1);
    update(next, "next");
    way_open(&brief.one.way);
    refuses(brief.key, NULL, HF_KEY_FENCING_MISMATCH, HF_FENCED);
    IS(HF_LOST, hf_key_release(brief.key, HF_COMMIT, &error));
    done(next);
    reads(&pair->one, "k", "next");
    brief_close(&brief);
}

/* Who has adopted a lease, and with it what was staged, is told too that it came too late. */
static void over_when_passed_on(void **state)
{
    struct pair *pair = *state;
    struct brief brief;
    struct hf_key *adopted;
    struct hf_key_options options = HF_KEY_OPTIONS;
    char text[HF_LEASE_TEXT_MAX];
    publish(&pair->one, "k", "before");
    brief_open(&brief, &pair->world, /* staged */ true);
    update(brief.key, "never");
    MUST(hf_lock_text(hf_key_lock(brief.key), text, &error));
    options.no_renewal = true;
    MUST(hf_key_adopt(brief.two.client, text, &options, &adopted, &error));
    hf_key_detach(brief.key);
    brief.key = NULL;
    pass_ms(world_is_local() ? 2 * BRIEF_MS : 5000);
    IS(HF_LOST, hf_key_release(adopted, HF_COMMIT, &error));
    reads(&pair->one, "k", "before");
    ASSERT(world_times(&pair->world, DOCUMENT, "never") == 0);
    hf_key_free(adopted);
    brief_close(&brief);
}

/* In time, it publishes what the other had staged. */
static void published_when_passed_on(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = staged_held(&pair->one, "k"), *adopted;
    char text[HF_LEASE_TEXT_MAX];
    update(key, "staged by one");
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    hf_key_detach(key);
    MUST(hf_key_adopt(pair->two.client, text, NULL, &adopted, &error));
    reads(&pair->two, "k", NULL);
    done(adopted);
    reads(&pair->one, "k", "staged by one");
}

/* Acquired twice and lost in between: the first release gives nothing back, so it says nothing; the
 * second does. */
static void lost_while_held_twice(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = staged_held(&pair->one, "k");
    update(key, "never");
    MUST(hf_key_acquire(key, 0, NULL, &error));
    take_away(&pair->two, key);
    IS(HF_LOST, hf_key_keepalive(key, &error));
    IS(HF_LOST, hf_key_release(key, HF_COMMIT, &error));
    IS(HF_LOST, hf_key_release(key, HF_COMMIT, &error));
    IS(HF_NOT_FOUND, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
    reads(&pair->two, "k", NULL);
    publish(&pair->two, "k", "free");
}

/* ---- Staged -------------------------------------------------------------------------- */

static void staged_until_release(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info = HF_KEY_INFO;
    publish(&pair->one, "k", "old");
    struct hf_key *key = staged_held(&pair->one, "k");
    MUST(hf_key_update(key, "new", 3, NULL, &info, &error));
    ASSERT(info.version == 2);
    info = reads(&pair->two, "k", "old");
    ASSERT(info.version == 1);
    struct hf_key_if second = { .struct_size = sizeof second,
                                .version_set = true,
                                .version = 2 };
    MUST(hf_key_update(key, "newer", 5, &second, &info, &error));
    ASSERT(info.version == 2);
    MUST(hf_key_release(key, HF_COMMIT, &error));
    info = reads(&pair->two, "k", "newer");
    ASSERT(info.version == 2);
    /* A later lease has nothing to do with that. */
    publish(&pair->two, "k", "other");
    publish(&pair->two, "k", "others");
    MUST(hf_key_acquire(key, 0, NULL, &error));
    done(key);
    reads(&pair->two, "k", "others");
}

static void staged_rollback(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 5);
    publish(&pair->one, "k", "old");
    struct hf_key *key = staged_held(&pair->one, "k");
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_key_remove(key, NULL, NULL, &error));
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_key_release(key, HF_ROLLBACK, &error));
    hf_key_free(key);
    reads(&pair->two, "k", "old");
    ASSERT(bodies(&pair->world, "k") == 0);
    free(bytes);
}

static void staged_large(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(70000, 6);
    for (unsigned i = 0; i < 3; i++) {
        struct hf_key *key = staged_held(&pair->one, "k");
        MUST(hf_key_update(key, bytes, 5000 + i, NULL, NULL, &error));
        MUST(hf_key_update(key, bytes, 70000, NULL, NULL, &error));
        done(key);
        ASSERT(bodies(&pair->world, "k") == 1);
    }
    void *data;
    size_t size;
    MUST(hf_key_get(pair->two.client, "k", 70000, &data, &size, NULL, &error));
    assert_memory_equal(data, bytes, 70000);
    hf_free(data);
    free(bytes);
}

/* The next holder finds nothing of it, and clears up. */
static void staged_and_lost(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 7);
    struct key_description seen;
    publish(&pair->one, "k", "old");
    struct hf_key *key = staged_held(&pair->one, "k");
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(seen.staged && seen.info.version == 1 && seen.info.txn[0] == '\0');
    take_away(&pair->two, key);
    struct hf_key *other = key_held(&pair->two, "k");
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(!seen.staged);
    IS(HF_LOST, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
    update(other, "next");
    done(other);
    ASSERT(bodies(&pair->world, "k") == 0);
    struct hf_key_info info = reads(&pair->one, "k", "next");
    ASSERT(info.version == 2);
    free(bytes);
}

static void staged_and_freed(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = staged_held(&pair->one, "k");
    update(key, "never");
    hf_key_free(key);
    struct hf_key *other = key_with(&pair->two, "k", 60000, false);
    MUST(hf_key_acquire(other, 10000, NULL, &error));
    reads(&pair->two, "k", NULL);
    done(other);
}

/* ---- Bodies -------------------------------------------------------------------------- */

/* More than the document can name: they are deleted on the way. */
static void many_in_one_lease(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 8);
    struct hf_key *key = key_held(&pair->one, "k");
    for (unsigned i = 0; i < 3 * STATE_OLD_MAX; i++) {
        MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
        ASSERT(bodies(&pair->world, "k") <= STATE_OLD_MAX);
    }
    done(key);
    ASSERT(bodies(&pair->world, "k") == 1);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"old\"") == 0);
    free(bytes);
}

/* Who dies between the swap and the delete leaves a name to the next. */
static void left_to_the_next(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 8);
    struct hf_key *key = key_held(&pair->one, "k");
    way_shut(&pair->one.way, STATE_FOLDER, PASS);
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_key_update(key, bytes, 4999, NULL, NULL, &error));
    take_away(&pair->two, key);
    hf_key_free(key);
    ASSERT(bodies(&pair->world, "k") == 2);
    struct hf_key *next = key_held(&pair->two, "k");
    done(next);
    ASSERT(bodies(&pair->world, "k") == 1);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"old\"") == 0);
    free(bytes);
}

/* Deletes that fail do not fail the release. */
static void undeleted(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 8);
    struct hf_key *key = key_held(&pair->one, "k");
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    MUST(hf_key_update(key, bytes, 4999, NULL, NULL, &error));
    way_shut(&pair->one.way, STATE_FOLDER, REFUSE(HF_DENIED));
    MUST(hf_key_release(key, HF_COMMIT, &error));
    way_open(&pair->one.way);
    ASSERT(bodies(&pair->world, "k") == 2);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    done(key);
    ASSERT(bodies(&pair->world, "k") == 1);
    free(bytes);
}

static void first_body(struct world *world, char name[KEY_BYTES_MAX + 1])
{
    struct list_call list = { .prefix = VIEW(STATE_FOLDER) };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    assert_int_equal(list.count, 1);
    snprintf(name, KEY_BYTES_MAX + 1, "%.*s", VIEW_ARGS(list.entries[0].key));
    list_release(&list);
}

static void body_gone(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 8), name[KEY_BYTES_MAX + 1];
    struct hf_key *key = key_held(&pair->one, "k");
    void *data;
    size_t size;
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    first_body(&pair->world, name);
    world_write(&pair->world, name, VIEW("shorter"));
    IS(HF_CORRUPT, hf_key_get(pair->two.client, "k", 9000, &data, &size, NULL, &error));
    struct delete_call gone = { .key = view_of(name) };
    must(store_delete(pair->world.truth, &gone), &gone.error, "delete", __LINE__);
    IS(HF_CORRUPT, hf_key_get(pair->two.client, "k", 9000, &data, &size, NULL, &error));
    update(key, "whole again");
    reads(&pair->two, "k", "whole again");
    done(key);
    free(bytes);
}

static void damaged(void **state)
{
    struct pair *pair = *state;
    struct key_description seen;
    void *data;
    size_t size;
    world_write(&pair->world, DOCUMENT, VIEW("no table at all"));
    IS(HF_CORRUPT, hf_key_get(pair->one.client, "k", 100, &data, &size, NULL, &error));
    IS(HF_CORRUPT, key_describe(pair->one.client, "k", &seen, &error));
}

/* Nobody knows what a damaged document held: whoever takes the key is told so, until it is written
 * anew, with a number that was never used. */
static void lost_with_the_document(void **state)
{
    struct pair *pair = *state;
    struct key_description seen;
    struct brief brief;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_if none = { .struct_size = sizeof none, .version_set = true };
    void *data;
    size_t size;
    brief_open(&brief, &pair->world, /* staged */ false);
    update(brief.key, "before");
    MUST(hf_key_release(brief.key, HF_COMMIT, &error));
    uint64_t before = hf_lock_token(hf_key_lock(brief.key));
    world_write(&pair->world, DOCUMENT, VIEW("no table at all"));
    MUST(hf_key_acquire(brief.key, 20000, &info, &error));
    ASSERT(info.version == 0);
    IS(HF_CORRUPT, hf_key_get(pair->two.client, "k", 100, &data, &size, &info, &error));
    ASSERT(strstr(error.why, ".holdfast/kept/"));
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(seen.lost && seen.held);
    IS(HF_CORRUPT, hf_key_update(brief.key, "x", 1, &none, &info, &error));
    MUST(hf_key_update(brief.key, "anew", 4, NULL, &info, &error));
    ASSERT(info.version > before && info.version == hf_lock_token(hf_key_lock(brief.key)));
    MUST(hf_key_release(brief.key, HF_COMMIT, &error));
    reads(&pair->two, "k", "anew");
    MUST(key_describe(pair->two.client, "k", &seen, &error));
    ASSERT(!seen.lost);
    brief_close(&brief);
}

/* How many damaged documents were kept aside. */
static size_t kept(struct world *world)
{
    struct list_call list = { .prefix = VIEW(".holdfast/kept/" DOCUMENT) };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    size_t count = list.count;
    list_release(&list);
    return count;
}

/* A table that can be read with a state that cannot: nobody reads or writes it, but the lease is
 * given back, and the next holder goes on with a state that is lost. */
static void state_unreadable(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    void *data;
    size_t size;
    update(key, "12345");
    char *text = world_text(&pair->world, DOCUMENT);
    char *at = strstr(text, "\"size\":5");
    assert_non_null(at);
    at[7] = '6';
    test_unseal(text);
    world_write(&pair->world, DOCUMENT, view_of(text));
    free(text);
    IS(HF_CORRUPT, hf_key_get(pair->two.client, "k", 100, &data, &size, NULL, &error));
    IS(HF_CORRUPT, hf_key_update(key, "x", 1, NULL, NULL, &error));
    IS(HF_CORRUPT, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
    ASSERT(world_times(&pair->world, DOCUMENT, "\"active\"") == 0);
    key = key_held(&pair->two, "k");
    IS(HF_CORRUPT, hf_key_get(pair->one.client, "k", 100, &data, &size, NULL, &error));
    ASSERT(strstr(error.why, ".holdfast/kept/") && kept(&pair->world) == 1);
    update(key, "whole again");
    done(key);
    reads(&pair->one, "k", "whole again");
}

/* ---- Side by side -------------------------------------------------------------------- */

#define ROUNDS 60

struct writer {
    struct peer *peer;
    bool failed;
};

static void write_on(void *argument)
{
    struct writer *writer = argument;
    struct hf_error why;
    struct hf_key *key;
    writer->failed = hf_key_new(writer->peer->client, "k", NULL, &key, &why) != HF_OK;
    for (unsigned i = 0; !writer->failed && i < ROUNDS; i++) {
        char *bytes = bytes_of(5000 + i, i);
        writer->failed = hf_key_acquire(key, 10000, NULL, &why) != HF_OK ||
                         hf_key_update(key, bytes, 5000 + i, NULL, NULL, &why) != HF_OK ||
                         hf_key_release(key, HF_COMMIT, &why) != HF_OK;
        free(bytes);
    }
    if (!writer->failed)
        hf_key_free(key);
}

/* Whoever reads while others write reads one whole version. */
static void read_while_written(void **state)
{
    struct pair *pair = *state;
    struct writer writer = { .peer = &pair->one };
    struct env_task *task;
    struct hf_key_info info = HF_KEY_INFO;
    MUST(env_task_start(env_real(), write_on, &writer, &task, &error));
    struct mono_time start = now();
    while (info.version < ROUNDS && ms_since(start) < 20000) {
        void *data;
        size_t size;
        enum hf_status status =
            hf_key_get(pair->two.client, "k", 10000, &data, &size, &info, &error);
        if (status == HF_NOT_FOUND && info.version == 0)
            continue;
        must(status, &error, "hf_key_get", __LINE__);
        char *expected = bytes_of(size, (unsigned)(size - 5000));
        bool whole = memcmp(expected, data, size) == 0 && size == 5000 + info.version - 1;
        free(expected);
        hf_free(data);
        ASSERT(whole);
    }
    env_task_join(env_real(), task);
    ASSERT(!writer.failed && info.version == ROUNDS);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("keepalive renews the lease now", kept_alive),
        PAIR("a key acquired twice is held until it was released twice", acquired_twice),
        PAIR("a lease is passed on as text, to change the key elsewhere", passed_on),
        PAIR("a description tells the version, the holder and who waits", described),
        PAIR("describing a key clears a lease that is over, with what it staged",
             describing_clears),
        PAIR("what is staged is dropped with a lease that is over, and its writer fenced",
             over_in_time),
        PAIR("who has adopted a lease publishes what was staged under it",
             published_when_passed_on),
        PAIR("who has adopted a lease that is over is told that nothing was published",
             over_when_passed_on),
        PAIR("a key lost while it is held twice is told by each release",
             lost_while_held_twice),
        PAIR("what is staged is seen by others after the release", staged_until_release),
        PAIR("what is staged and rolled back is gone with its bodies", staged_rollback),
        PAIR("a large staged state is published whole", staged_large),
        PAIR("what is staged is lost with the lease, as the release says", staged_and_lost),
        PAIR("a handle that is freed publishes nothing", staged_and_freed),
        PAIR("many changes in one lease leave one body", many_in_one_lease),
        PAIR("bodies that a dead holder left are deleted by the next", left_to_the_next),
        PAIR("a delete that fails fails nothing, and is done the next time", undeleted),
        PAIR("a state that is gone or cut is told as damage", body_gone),
        PAIR("a damaged document is told as damage", damaged),
        PAIR("a state that cannot be read keeps neither its lease nor the next holder",
             state_unreadable),
        PAIR("a state lost with its document is told as lost until it is written anew",
             lost_with_the_document),
        PAIR("a reader beside a writer reads whole versions", read_while_written),
    };
    return cmocka_run_group_tests_name("key_hold", tests, NULL, NULL);
}
