/* SPDX-License-Identifier: Apache-2.0 */
/* lock_test.c mem|sqlite|url: each call of lock.h, and each status, on a store without faults. */
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define TABLE "default/meta/deploy.json"

/* A status, and a reason that has this in it. */
static void says(enum hf_status status, const struct hf_error *error, enum hf_status expected,
                 const char *piece)
{
    if (status != expected || error->status != expected || !strstr(error->why, piece))
        FAIL("%s (%s): '%s', expected %s with '%s'", hf_status_name(status),
             hf_status_name(error->status), error->why, hf_status_name(expected), piece);
}

/* ---- Opening ------------------------------------------------------------------------- */

static void clients_open_by_url(void **state)
{
    (void)state;
    struct hf_client *client = NULL;
    struct hf_error error;
    MUST(hf_client_open("mem:", NULL, &client, &error));
    assert_int_equal(error.status, HF_OK);
    struct hf_lock *lock;
    MUST(hf_lock_new(client, "deploy", NULL, &lock, &error));
    MUST(hf_lock_acquire(lock, 0, &error));
    hf_lock_free(lock);
    hf_client_close(client);
    hf_client_close(NULL);
    hf_lock_free(NULL);

    struct hf_client *made = (struct hf_client *)(uintptr_t)8;
    says(hf_client_open("ftp://x", NULL, &made, &error), &error, HF_INVALID, "");
    ASSERT(error.why[0] != '\0');
    IS(HF_INVALID, hf_client_open("ftp://x", NULL, &made, NULL));
    assert_null(made);
}

static void client_options_have_bounds(void **state)
{
    (void)state;
    char long_holder[600] = "";
    memset(long_holder, 'h', sizeof long_holder - 1);
    struct {
        struct hf_client_options options;
        const char *piece;
    } bad[] = {
        { { .ns = "Upper", .skew_tolerance_ms = -1 }, "upper" },
        { { .ns = "", .skew_tolerance_ms = -1 }, "name" },
        { { .ns = ".hidden", .skew_tolerance_ms = -1 }, "dot" },
        { { .holder = long_holder, .skew_tolerance_ms = -1 }, "holder" },
        { { .ttl_max_ms = -1, .skew_tolerance_ms = -1 }, "longest ttl" },
        { { .ttl_max_ms = 1, .skew_tolerance_ms = -1 }, "longest ttl" },
        { { .ttl_max_ms = INT64_MAX, .skew_tolerance_ms = -1 }, "longest ttl" },
        { { .skew_tolerance_ms = -2 }, "skew" },
        { { .skew_tolerance_ms = INT64_MAX }, "skew" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_client *made = (struct hf_client *)(uintptr_t)8;
        struct hf_error error;
        bad[i].options.struct_size = sizeof bad[i].options;
        says(hf_client_open("mem:", &bad[i].options, &made, &error), &error, HF_INVALID,
             bad[i].piece);
        assert_null(made);
    }
}

static void lock_options_have_bounds(void **state)
{
    struct pair *pair = *state;
    struct {
        struct hf_lock_options options;
        const char *piece;
    } bad[] = {
        { { .ttl_ms = 0 }, "ttl" },
        { { .ttl_ms = -1 }, "ttl" },
        { { .ttl_ms = 99 }, "ttl" },
        { { .ttl_ms = INT64_MAX }, "ttl" },
        { { .ttl_ms = INT64_MIN }, "ttl" },
        { { .ttl_ms = 1000, .mode = (enum hf_mode)3 }, "mode" },
        { { .ttl_ms = 1000, .mode = (enum hf_mode) - 1 }, "mode" },
        { { .ttl_ms = 1000, .mode = HF_SLOTS, .slots = 0 }, "slots" },
        { { .ttl_ms = 1000, .poll_ms = -1 }, "poll" },
        { { .ttl_ms = 1000, .poll_ms = INT64_MAX }, "poll" },
        { { .ttl_ms = 1000, .once_per_ms = -1 }, "once_per" },
        { { .ttl_ms = 1000, .once_per_ms = INT64_MAX }, "once_per" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_lock *made = (struct hf_lock *)(uintptr_t)8;
        struct hf_error error;
        bad[i].options.struct_size = sizeof bad[i].options;
        says(hf_lock_new(pair->one.client, "deploy", &bad[i].options, &made, &error), &error,
             HF_INVALID, bad[i].piece);
        assert_null(made);
    }
    hf_lock_free(lock_with(&pair->one, "deploy", &LOCK_OPTIONS(.ttl_ms = 100)));
    hf_lock_free(lock_with(&pair->one, "deploy", &LOCK_OPTIONS(.ttl_ms = 3600000)));
}

/* What a table has to say about it is known when it is asked. */
static void what_is_asked_for_has_bounds(void **state)
{
    struct pair *pair = *state;
    char long_output[2000], long_note[2000];
    memset(long_output, 'o', sizeof long_output - 1);
    long_output[sizeof long_output - 1] = '\0';
    memset(long_note, ' ', sizeof long_note - 1);
    long_note[0] = '1';
    long_note[sizeof long_note - 1] = '\0';
    struct {
        struct hf_lock_options options;
        const char *piece;
    } bad[] = {
        { { .ttl_ms = 3600001 }, "ttl" },
        { { .ttl_ms = 1000, .output = long_output }, "output" },
        { { .ttl_ms = 1000, .output = "\xff" }, "output" },
        { { .ttl_ms = 1000, .note = long_note }, "note" },
        { { .ttl_ms = 1000, .note = "{" }, "note" },
        { { .ttl_ms = 1000, .note = "{} {}" }, "note" },
        { { .ttl_ms = 1000, .note = "\"\xff\"" }, "note" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_lock *lock = NULL;
        struct hf_error error;
        bad[i].options.struct_size = sizeof bad[i].options;
        enum hf_status status =
            hf_lock_new(pair->one.client, "chunk:a", &bad[i].options, &lock, &error);
        if (status == HF_OK)
            status = hf_lock_acquire(lock, i % 2 ? 0 : 1000, &error);
        says(status, &error, HF_INVALID, bad[i].piece);
        hf_lock_free(lock);
    }
    struct hf_lock *lock = lock_with(&pair->one, "deploy",
                                     &LOCK_OPTIONS(.ttl_ms = 1000, .output = "", .note = ""));
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    hf_lock_free(lock);
}

static void a_client_has_its_own_longest_ttl(void **state)
{
    struct pair *pair = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ttl_max_ms = 500;
    struct hf_lock_options lock_options = LOCK_OPTIONS(.ttl_ms = 501);
    struct peer peer;
    struct hf_error error;
    struct hf_lock *lock;
    peer_open(&peer, &pair->world, &options);
    MUST(hf_lock_new(peer.client, "deploy", &lock_options, &lock, &error));
    says(hf_lock_acquire(lock, 0, &error), &error, HF_INVALID, "500ms");
    hf_lock_free(lock);
    hf_lock_free(lock_held(&peer, "deploy", 500));
    peer_close(&peer);
}

static void scopes_that_make_no_sense(void **state)
{
    struct pair *pair = *state;
    const struct {
        const char *scope, *piece;
    } bad[] = {
        { "", "name" },       { "Deploy", "deploy" },   { "a//b", "empty" },
        { ".x", "dot" },      { "named:", "name" },     { "file:/a", "scope" },
        { "path:a", "path" }, { "tree:/a/..", "path" }, { "range:7:5-5", "range" },
        { "range:7:9-", "" }, { "inode:x", "" },        { "chunk:", "object" },
        { "a b", "a-z" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hf_lock *lock = NULL;
        struct hf_error error;
        enum hf_status status =
            hf_lock_new(pair->one.client, bad[i].scope, NULL, &lock, &error);
        if (bad[i].piece[0] == '\0' && status == HF_OK)
            hf_lock_free(lock); /* an open range is fine */
        else
            says(status, &error, HF_INVALID, bad[i].piece);
    }
}

static void scopes_of_several_tables_are_refused(void **state)
{
    struct pair *pair = *state;
    const char *bad[][2] = {
        { "deploy", "other" },        { "deploy", "path:/a" },  { "inode:7", "inode:8" },
        { "inode:7", "range:8:0-1" }, { "chunk:a", "path:/a" }, { "path:/a", "range:7:0-" },
    };
    const char *good[][2] = {
        { "chunk:a", "pin:b" },
        { "range:7:0-5", "range:7:9-" },
        { "path:/a", "tree:/b" },
    };
    struct hf_error error;
    struct hf_lock *lock = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        says(hf_lock_new_many(pair->one.client, bad[i], 2, NULL, &lock, &error), &error,
             HF_INVALID, "");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        MUST(hf_lock_new_many(pair->one.client, good[i], 2, NULL, &lock, &error));
        MUST(hf_lock_acquire(lock, 0, &error));
        hf_lock_free(lock);
    }
    lock = NULL;
    says(hf_lock_new_many(pair->one.client, good[0], 0, NULL, &lock, &error), &error,
         HF_INVALID, "scope");
    const char **many = calloc(1025, sizeof *many);
    assert_non_null(many);
    for (size_t i = 0; i < 1025; i++)
        many[i] = "chunk:a";
    says(hf_lock_new_many(pair->one.client, many, 1025, NULL, &lock, &error), &error,
         HF_INVALID, "1024");
    free(many);
    assert_null(lock);
}

/* ---- Holding ------------------------------------------------------------------------- */

static void the_life_of_a_lock(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 10000);
    struct hf_error error;
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    assert_int_equal(error.status, HF_NOT_FOUND);
    assert_int_equal(hf_lock_remaining_ms(lock), 0);
    assert_int_equal(hf_lock_token(lock), 0);
    IS(HF_NOT_FOUND, hf_lock_renew(lock, &error));
    char text[HF_LEASE_TEXT_MAX];
    IS(HF_NOT_FOUND, hf_lock_text(lock, text, &error));

    MUST(hf_lock_acquire(lock, 0, &error));
    IS(HF_OK, hf_lock_check(lock, &error));
    assert_int_equal(error.status, HF_OK);
    assert_in_range(hf_lock_remaining_ms(lock), 5000, 10000);
    uint64_t first = hf_lock_token(lock);
    ASSERT(first > 0);
    MUST(hf_lock_renew(lock, &error));
    assert_int_equal(hf_lock_token(lock), first);
    MUST(hf_lock_release(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    assert_int_equal(hf_lock_remaining_ms(lock), 0);
    assert_int_equal(hf_lock_token(lock), first);
    IS(HF_NOT_FOUND, hf_lock_renew(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_release(lock, &error));

    MUST(hf_lock_acquire(lock, 1000, &error));
    ASSERT(hf_lock_token(lock) > first);
    hf_lock_free(lock);
}

static void errors_may_be_null(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = NULL;
    char text[HF_LEASE_TEXT_MAX];
    bool free_one;
    const char *key = "data/a";
    IS(HF_INVALID, hf_lock_new(pair->one.client, "NO", NULL, &lock, NULL));
    IS(HF_OK, hf_lock_new(pair->one.client, "deploy", NULL, &lock, NULL));
    IS(HF_NOT_FOUND, hf_lock_check(lock, NULL));
    IS(HF_NOT_FOUND, hf_lock_renew(lock, NULL));
    IS(HF_NOT_FOUND, hf_lock_text(lock, text, NULL));
    IS(HF_OK, hf_lock_begin(lock, NULL));
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    IS(HF_OK, hf_lock_release(lock, NULL));
    IS(HF_OK, hf_lock_text(lock, text, NULL));
    IS(HF_INVALID, hf_break(pair->one.client, "nonsense", "me", "why", NULL));
    IS(HF_OK, hf_break(pair->one.client, text, "me", "why", NULL));
    IS(HF_LOST, hf_lock_release(lock, NULL));
    assert_int_not_equal(hf_lock_fail(lock, "{", NULL), HF_OK);
    IS(HF_OK, hf_chunks_unleased(pair->one.client, &key, 1, &free_one, NULL));
    hf_lock_free(lock);
}

static void holding_is_counted_by_handle(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *sibling = lock_of(&pair->one, "deploy", 0);
    struct hf_lock *stranger = lock_of(&pair->two, "deploy", 0);
    uint64_t token = hf_lock_token(lock);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_acquire(lock, 5, &error));
    assert_int_equal(hf_lock_token(lock), token);
    for (int i = 0; i < 2; i++) {
        MUST(hf_lock_release(lock, &error));
        MUST(hf_lock_check(lock, &error));
        IS(HF_HELD, hf_lock_acquire(sibling, 0, &error));
        IS(HF_HELD, hf_lock_acquire(stranger, 0, &error));
    }
    MUST(hf_lock_release(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    MUST(hf_lock_acquire(sibling, 0, &error));
    IS(HF_HELD, hf_lock_acquire(stranger, 0, &error));
    hf_lock_free(lock);
    hf_lock_free(sibling);
    hf_lock_free(stranger);
}

static void tokens_rise_over_all_clients(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *locks[2] = { lock_of(&pair->one, "deploy", 0),
                                 lock_of(&pair->two, "deploy", 0) };
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        MUST(hf_lock_acquire(locks[i % 2], 0, &error));
        ASSERT(hf_lock_token(locks[i % 2]) > last);
        last = hf_lock_token(locks[i % 2]);
        MUST(hf_lock_release(locks[i % 2], &error));
    }
    hf_lock_free(locks[0]);
    hf_lock_free(locks[1]);
}

static void namespaces_are_apart(void **state)
{
    struct pair *pair = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ns = "blue";
    options.holder = "anna's laptop";
    struct peer peer;
    peer_open(&peer, &pair->world, &options);
    struct hf_lock *here = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *there = lock_held(&peer, "named:deploy", 0);
    assert_int_equal(world_times(&pair->world, "blue/meta/deploy.json", "anna's laptop"), 1);
    hf_lock_free(here);
    hf_lock_free(there);
    peer_close(&peer);
}

/* ---- Who gets in whose way ----------------------------------------------------------- */

static void scopes_conflict_as_written(void **state)
{
    struct pair *pair = *state;
    const struct {
        const char *held, *wanted;
        enum hf_status expected;
    } rows[] = {
        { "a", "named:a", HF_HELD },
        { "a", "b", HF_OK },
        { "a", "a/b", HF_OK },
        { "path:/a", "path:/a", HF_HELD },
        { "path:/a", "path:/a/b", HF_OK },
        { "tree:/a", "path:/a/b", HF_HELD },
        { "path:/a/b", "tree:/a", HF_HELD },
        { "tree:/a", "path:/ab", HF_OK },
        { "tree:/", "path:/x", HF_HELD },
        { "inode:7", "range:7:0-1", HF_HELD },
        { "range:7:0-10", "inode:7", HF_HELD },
        { "inode:7", "inode:8", HF_OK },
        { "range:7:0-10", "range:7:10-20", HF_OK },
        { "range:7:0-10", "range:7:9-", HF_HELD },
        { "chunk:x", "chunk:x", HF_HELD },
        { "chunk:x", "pin:x", HF_OK },
        { "pin:x", "chunk:x", HF_OK },
        { "pin:x", "pin:x", HF_OK },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hf_error error;
        struct hf_lock *held = lock_held(&pair->one, rows[i].held, 0);
        struct hf_lock *wanted = lock_of(&pair->two, rows[i].wanted, 0);
        enum hf_status status = hf_lock_acquire(wanted, 0, &error);
        if (status != rows[i].expected)
            FAIL("%s under %s: %s", rows[i].wanted, rows[i].held, hf_status_name(status));
        assert_int_equal(hf_lock_blocked(wanted, 0), status == HF_HELD);
        hf_lock_release(held, NULL);
        hf_lock_release(wanted, NULL);
        hf_lock_free(wanted);
        hf_lock_free(held);
    }
}

static struct hf_lock *lock_in_mode(struct peer *peer, enum hf_mode mode, uint32_t slots)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.mode = mode;
    options.slots = slots;
    return lock_with(peer, "deploy", &options);
}

static void shared_and_exclusive(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *reader = lock_in_mode(&pair->one, HF_SHARED, 0);
    struct hf_lock *other_reader = lock_in_mode(&pair->two, HF_SHARED, 0);
    struct hf_lock *writer = lock_in_mode(&pair->two, HF_EXCLUSIVE, 0);
    MUST(hf_lock_acquire(reader, 0, &error));
    MUST(hf_lock_acquire(other_reader, 0, &error));
    says(hf_lock_acquire(writer, 0, &error), &error, HF_HELD, "");
    MUST(hf_lock_release(reader, &error));
    IS(HF_HELD, hf_lock_acquire(writer, 0, &error));
    MUST(hf_lock_release(other_reader, &error));
    MUST(hf_lock_acquire(writer, 0, &error));
    IS(HF_HELD, hf_lock_acquire(reader, 0, &error));
    hf_lock_free(reader);
    hf_lock_free(other_reader);
    hf_lock_free(writer);
}

static void slots_are_that_many(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *locks[4];
    for (int i = 0; i < 4; i++)
        locks[i] = lock_in_mode(i % 2 ? &pair->one : &pair->two, HF_SLOTS, 3);
    for (int i = 0; i < 3; i++)
        MUST(hf_lock_acquire(locks[i], 0, &error));
    IS(HF_HELD, hf_lock_acquire(locks[3], 0, &error));
    MUST(hf_lock_release(locks[1], &error));
    MUST(hf_lock_acquire(locks[3], 0, &error));

    struct hf_lock *wrong = lock_in_mode(&pair->one, HF_SLOTS, 4);
    struct hf_lock *alone = lock_in_mode(&pair->one, HF_EXCLUSIVE, 0);
    says(hf_lock_acquire(wrong, 0, &error), &error, HF_MISMATCH, "slots");
    IS(HF_HELD, hf_lock_acquire(alone, 0, &error));
    for (int i = 0; i < 4; i++)
        hf_lock_free(locks[i]);
    hf_lock_free(wrong);
    hf_lock_free(alone);
}

static void many_are_held_all_or_none(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    const char *scopes[4] = { "chunk:a", "chunk:b", "chunk:c", "pin:b" };
    const char *keys[4] = { "a", "b", "c", "d" };
    bool free_ones[4];
    struct hf_lock *many, *b = lock_held(&pair->one, "chunk:b", 0);
    MUST(hf_lock_new_many(pair->two.client, scopes, 4, NULL, &many, &error));
    says(hf_lock_acquire(many, 0, &error), &error, HF_HELD, "");
    const bool expected[4] = { false, true, false, false };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(hf_lock_blocked(many, i), expected[i]);
    ASSERT(!hf_lock_blocked(many, 4));
    ASSERT(!hf_lock_blocked(many, SIZE_MAX));
    MUST(hf_chunks_unleased(pair->two.client, keys, 4, free_ones, &error));
    ASSERT(free_ones[0] && !free_ones[1] && free_ones[2] && free_ones[3]);

    MUST(hf_lock_release(b, &error));
    MUST(hf_lock_acquire(many, 0, &error));
    for (size_t i = 0; i < 4; i++)
        ASSERT(!hf_lock_blocked(many, i));
    MUST(hf_chunks_unleased(pair->one.client, keys, 4, free_ones, &error));
    ASSERT(!free_ones[0] && !free_ones[1] && !free_ones[2] && free_ones[3]);
    MUST(hf_lock_release(many, &error));
    MUST(hf_chunks_unleased(pair->one.client, keys, 4, free_ones, &error));
    ASSERT(free_ones[0] && free_ones[1] && free_ones[2] && free_ones[3]);
    MUST(hf_chunks_unleased(pair->one.client, keys, 0, free_ones, &error));
    hf_lock_free(many);
    hf_lock_free(b);
}

/* ---- Ends ---------------------------------------------------------------------------- */

/* A lease that is renewed by hand goes on. False if the machine was too late to show that. */
static bool renews_by_hand(struct hf_lock *lock)
{
    struct hf_error error;
    MUST(hf_lock_acquire(lock, 1000, &error));
    struct mono_time start = now();
    int64_t held_ms = hf_lock_remaining_ms(lock);
    pass_ms(scaled_ms(120));
    enum hf_status status = hf_lock_renew(lock, &error);
    int64_t renewed_ms = hf_lock_remaining_ms(lock);
    if (ms_since(start) >= held_ms)
        return false;
    ASSERT(status == HF_OK && renewed_ms > scaled_ms(80));
    start = now();
    held_ms = hf_lock_remaining_ms(lock);
    pass_ms(scaled_ms(120));
    status = hf_lock_check(lock, &error);
    bool in_time = ms_since(start) < held_ms;
    ASSERT(status == HF_OK || !in_time);
    return in_time;
}

static void what_is_over_stays_over(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = scaled_ms(200), .no_renewal = true);
    struct hf_lock *lock = lock_with(&pair->one, "deploy", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    uint64_t token = hf_lock_token(lock);
    pass_ms(scaled_ms(220));
    says(hf_lock_check(lock, &error), &error, HF_EXPIRED, "");
    assert_int_equal(hf_lock_remaining_ms(lock), 0);
    IS(HF_EXPIRED, hf_lock_renew(lock, &error));
    /* Nobody has had it since: that it was late harmed nobody. */
    MUST(hf_lock_release(lock, &error));
    for (int late = 0; !renews_by_hand(lock); late++) {
        ASSERT(late < 50);
        MUST(hf_lock_release(lock, &error));
    }
    ASSERT(hf_lock_token(lock) > token);
    hf_lock_free(lock);
}

static void chunks_of_the_dead_are_free(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    const char *keys[2] = { "a", "b" };
    bool free_ones[2] = { true, true };
    struct hf_lock *lock = lock_held(&pair->one, "chunk:a", scaled_ms(200));
    way_shut(&pair->one.way, "", LOSE);
    MUST(hf_chunks_unleased(pair->two.client, keys, 2, free_ones, &error));
    ASSERT(!free_ones[0] && free_ones[1]);
    struct mono_time start = now();
    while (!free_ones[0] && ms_since(start) < scaled_ms(5000)) {
        MUST(hf_chunks_unleased(pair->two.client, keys, 2, free_ones, &error));
        ASSERT(!free_ones[0] || hf_lock_check(lock, &error) == HF_EXPIRED);
    }
    ASSERT(free_ones[0]);
    way_open(&pair->one.way);
    hf_lock_free(lock);
}

static void once_per_period(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.once_per_ms = 300;
    struct hf_lock *one = lock_with(&pair->one, "deploy", &options);
    struct hf_lock *two = lock_with(&pair->two, "deploy", &options);
    struct hf_lock *careless = lock_of(&pair->two, "deploy", 0);
    MUST(hf_lock_acquire(one, 0, &error));
    MUST(hf_lock_release(one, &error)); /* not complete: does not count */
    MUST(hf_lock_acquire(two, 0, &error));
    MUST(hf_lock_fail(two, NULL, &error)); /* nor does that */
    struct mono_time before = now();
    MUST(hf_lock_acquire(one, 0, &error));
    MUST(hf_lock_complete(one, "{\"rows\": 7}", &error));
    if (ms_since(before) < 200) {
        says(hf_lock_acquire(two, 0, &error), &error, HF_ALREADY, "");
        says(hf_lock_acquire(two, 1000, &error), &error, HF_ALREADY, "");
        says(hf_lock_begin(two, &error), &error, HF_ALREADY, "");
    }
    IS(HF_NOT_FOUND, hf_lock_check(two, &error));
    MUST(hf_lock_acquire(careless, 0, &error));
    MUST(hf_lock_release(careless, &error));
    pass_ms(world_is_local() ? 310 : 2310); /* dates are cut to the second, at both ends */
    MUST(hf_lock_acquire(two, 0, &error));
    hf_lock_free(one);
    hf_lock_free(two);
    hf_lock_free(careless);
}

/* A lease of half a second, whose first date came late in a second and whose next one came early
 * in another: the widest interval grows, but no time has passed. */
static void whole_seconds_cost_nothing(void **state)
{
    (void)state;
    struct mono_time t0 = { 7000000 };
    struct validity validity = { .t0 = t0,
                                 .until = mono_add(t0, SPAN_MS(450)),
                                 .by_store = true,
                                 .expires = { 5000000 + 500000 },
                                 .grace = SPAN_S(1) };
    struct evidence evidence = { .now = mono_add(t0, SPAN_MS(2)),
                                 .time_known = true,
                                 .latest = { 5000000 + 2000 + 999000 } };
    assert_int_equal(validity_end(&validity, &evidence).us, validity.until.us);
    evidence.latest.us += 100000; /* the store's clock was set */
    assert_int_equal(validity_end(&validity, &evidence).us, t0.us + 2000 + 399000);
    validity.grace = SPAN_US(0);
    evidence.latest.us = 5000000 + 2000 + 100000; /* where nothing is allowed for that */
    assert_int_equal(validity_end(&validity, &evidence).us, t0.us + 2000 + 398000);
}

static void notes_are_kept(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.note = "{\"why\":\"nightly\"}";
    struct hf_lock *lock = lock_with(&pair->one, "deploy", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    assert_int_equal(world_times(&pair->world, TABLE, "nightly"), 1);
    says(hf_lock_complete(lock, "not JSON", &error), &error, HF_INVALID, "note");
    MUST(hf_lock_check(lock, &error)); /* a bad note ends nothing */
    MUST(hf_lock_complete(lock, "{\"rows\":12345}", &error));
    IS(HF_NOT_FOUND, hf_lock_complete(lock, "{\"rows\":12345}", &error));
    assert_int_equal(world_times(&pair->world, TABLE, "\"rows\":12345"), 1);
    assert_int_equal(world_times(&pair->world, TABLE, "completed"), 1);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_fail(lock, "\"broken pipe\"", &error));
    assert_int_equal(world_times(&pair->world, TABLE, "broken pipe"), 1);
    IS(HF_NOT_FOUND, hf_lock_check(lock, &error));
    hf_lock_free(lock);
}

static void ends_without_a_hold(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 0);
    IS(HF_NOT_FOUND, hf_lock_release(lock, &error));
    IS(HF_NOT_FOUND, hf_lock_complete(lock, NULL, &error));
    IS(HF_NOT_FOUND, hf_lock_fail(lock, NULL, &error));
    IS(HF_NOT_FOUND, hf_lock_poll(lock, &error));
    ASSERT(!hf_lock_blocked(lock, 0));
    hf_lock_free(lock);
}

/* ---- Leases as text ------------------------------------------------------------------ */

static void a_lease_moves_to_another_process(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX], same[HF_LEASE_TEXT_MAX];
    struct hf_lock_options options = LOCK_OPTIONS(.ttl_ms = scaled_ms(900), .no_renewal = true);
    struct hf_lock *lock = lock_with(&pair->one, "tree:/a b/\xc3\xa9", &options), *adopted;
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_text(lock, text, &error));
    assert_null(strpbrk(text, " \t\n\"'"));

    MUST(hf_lock_adopt(pair->two.client, text, NULL, &adopted, &error));
    MUST(hf_lock_check(adopted, &error));
    assert_int_equal(hf_lock_token(adopted), hf_lock_token(lock));
    assert_in_range(hf_lock_remaining_ms(adopted), 1, scaled_ms(900));
    MUST(hf_lock_text(adopted, same, &error));
    assert_string_equal(text, same);
    pass_ms(scaled_ms(1400));
    MUST(hf_lock_check(adopted, &error)); /* renewed by us */
    MUST(hf_lock_renew(adopted, &error));
    MUST(hf_lock_release(adopted, &error));
    says(hf_lock_acquire(adopted, 0, &error), &error, HF_INVALID, "adopt");
    says(hf_lock_begin(adopted, &error), &error, HF_INVALID, "adopt");
    hf_lock_free(adopted);
    struct hf_lock *made = (struct hf_lock *)(uintptr_t)8;
    says(hf_lock_adopt(pair->two.client, text, NULL, &made, &error), &error, HF_LOST, "");
    assert_null(made);
    hf_lock_free(lock);
}

static void texts_that_are_none(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX], cut[HF_LEASE_TEXT_MAX], longer[2 * HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0), *adopted = NULL;
    MUST(hf_lock_text(lock, text, &error));
    size_t size = strlen(text);
    for (size_t n = 0; n < size; n++) {
        snprintf(cut, sizeof cut, "%.*s", (int)n, text);
        enum hf_status status = hf_break(pair->two.client, cut, "x", "y", &error);
        if (status != HF_INVALID && status != HF_LOST && status != HF_NOT_FOUND)
            FAIL("'%s': %s", cut, hf_status_name(status));
        status = hf_lock_adopt(pair->two.client, cut, NULL, &adopted, &error);
        if (status != HF_INVALID && status != HF_LOST && status != HF_NOT_FOUND)
            FAIL("'%s': %s", cut, hf_status_name(status));
    }
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    IS(HF_INVALID, hf_break(pair->two.client, longer, "x", "y", &error));
    IS(HF_INVALID, hf_lock_adopt(pair->two.client, longer, NULL, &adopted, &error));
    snprintf(longer, sizeof longer, "%s\n", text);
    IS(HF_INVALID, hf_break(pair->two.client, longer, "x", "y", &error));
    snprintf(longer, sizeof longer, "0%s", text); /* no lease is printed so */
    IS(HF_INVALID, hf_break(pair->two.client, longer, "x", "y", &error));
    MUST(hf_lock_check(lock, &error));
    MUST(hf_lock_renew(lock, &error));
    hf_lock_free(lock);
}

/* A text that names another object as its table must not have that taken for a damaged one. */
static void a_text_harms_no_other_object(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    const char *const keys[] = { "data/file.usv",         "default/meta/deploy.txt",
                                 "default/state/x.json",  "default/inode/x.json",
                                 "metadata/catalog.json", ".holdfast/epoch/default.json" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[200];
        struct hf_lock *lock = NULL;
        snprintf(text, sizeof text, "7:00000000000000000000000000000000-1:%s", keys[i]);
        IS(HF_INVALID, hf_break(pair->one.client, text, "anna", "by mistake", &error));
        IS(HF_INVALID, hf_lock_adopt(pair->one.client, text, NULL, &lock, &error));
        assert_null(world_text(&pair->world, keys[i]));
        world_write(&pair->world, keys[i], VIEW("precious"));
        IS(HF_INVALID, hf_break(pair->one.client, text, "anna", "by mistake", &error));
        IS(HF_INVALID, hf_lock_adopt(pair->one.client, text, NULL, &lock, &error));
        assert_int_equal(world_times(&pair->world, keys[i], "precious"), 1);
    }
}

static void a_broken_lease_is_lost(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0);
    struct hf_lock *next = lock_of(&pair->two, "deploy", 0);
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_break(pair->two.client, text, "anna", "went on holiday", &error));
    ASSERT(world_times(&pair->world, TABLE, "went on holiday") >= 1);
    MUST(hf_lock_acquire(next, 0, &error));
    ASSERT(hf_lock_token(next) > hf_lock_token(lock));
    says(hf_lock_renew(lock, &error), &error, HF_LOST, "");
    says(hf_lock_check(lock, &error), &error, HF_LOST, "");
    assert_int_equal(hf_lock_remaining_ms(lock), 0);
    says(hf_lock_release(lock, &error), &error, HF_LOST, "");
    MUST(hf_lock_renew(next, &error));
    hf_lock_free(lock);
    hf_lock_free(next);
}

static void a_later_lease_is_never_broken(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0);
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_lock_release(lock, &error));
    says(hf_break(pair->two.client, text, "anna", "?", &error), &error, HF_LOST, "");
    MUST(hf_lock_acquire(lock, 0, &error));
    says(hf_break(pair->two.client, text, "anna", "?", &error), &error, HF_LOST, "");
    MUST(hf_lock_renew(lock, &error));
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_break(pair->two.client, text, "anna", "now", &error));
    says(hf_lock_complete(lock, NULL, &error), &error, HF_LOST, "");
    MUST(hf_lock_acquire(lock, 0, &error));
    hf_lock_free(lock);
}

static void breaking_wants_a_name_and_a_reason(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    char text[HF_LEASE_TEXT_MAX], endless[20000];
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 0);
    memset(endless, 'e', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    MUST(hf_lock_text(lock, text, &error));
    says(hf_break(pair->two.client, text, endless, "why", &error), &error, HF_INVALID, "");
    says(hf_break(pair->two.client, text, "anna", endless, &error), &error, HF_INVALID, "");
    MUST(hf_lock_renew(lock, &error));
    MUST(hf_break(pair->two.client, text, "a\"b", "c\\d\n", &error));
    assert_int_equal(world_times(&pair->world, TABLE, "a\\\"b"), 1);
    IS(HF_LOST, hf_lock_release(lock, &error));
    struct hf_lock *next = lock_held(&pair->two, "deploy", 0); /* the table can still be read */
    hf_lock_free(next);
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("a client is opened by URL", clients_open_by_url),
        IT("options of a client have bounds, each with its sentence",
           client_options_have_bounds),
        PAIR("options of a lock have bounds, each with its sentence", lock_options_have_bounds),
        PAIR("what is asked for has bounds, told at the latest when it is asked",
             what_is_asked_for_has_bounds),
        PAIR("a client may have its own longest ttl", a_client_has_its_own_longest_ttl),
        PAIR("a scope that makes no sense is refused with a reason", scopes_that_make_no_sense),
        PAIR("scopes of several tables are refused", scopes_of_several_tables_are_refused),
        PAIR("a lock is acquired, renewed, released, and acquired again", the_life_of_a_lock),
        PAIR("nobody need ask for the reason", errors_may_be_null),
        PAIR("holding is counted by handle", holding_is_counted_by_handle),
        PAIR("tokens rise over all clients", tokens_rise_over_all_clients),
        PAIR("namespaces are apart", namespaces_are_apart),
        PAIR("scopes get in each other's way as the header says", scopes_conflict_as_written),
        PAIR("readers share, a writer is alone", shared_and_exclusive),
        PAIR("slots are that many, and all must say the same number", slots_are_that_many),
        PAIR("many scopes are held all or none, and it tells which were in the way",
             many_are_held_all_or_none),
        PAIR("chunks that a dead worker had are free, once that is proven",
             chunks_of_the_dead_are_free),
        PAIR("a lease that is over is never revived", what_is_over_stays_over),
        PAIR("once in a period is once, when it was completed", once_per_period),
        IT("dates of whole seconds take nothing from a lease", whole_seconds_cost_nothing),
        PAIR("notes and outputs stand beside the lease", notes_are_kept),
        PAIR("what was never held cannot be ended", ends_without_a_hold),
        PAIR("a lease moves to another process as one word", a_lease_moves_to_another_process),
        PAIR("a text that is no lease hits nobody", texts_that_are_none),
        PAIR("a text that names another object harms it not", a_text_harms_no_other_object),
        PAIR("a broken lease is lost to its holder", a_broken_lease_is_lost),
        PAIR("a later lease of the same lock is never broken", a_later_lease_is_never_broken),
        PAIR("who breaks says who and why, in bounds", breaking_wants_a_name_and_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
