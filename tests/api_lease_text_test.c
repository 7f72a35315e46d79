/* SPDX-License-Identifier: Apache-2.0 */
/* api_lease_text_test.c [sqlite]: the promises of key.h and lock.h for a process that acts for many
 * others: keys are acquired in steps, and each operation on a lease that is known by its text costs
 * one write. Uses holdfast.h only. */
#include "api_client_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Steps --------------------------------------------------------------------------- */

static struct hf_key *new_key(struct place *place)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    options.ttl_ms = 60000;
    options.no_renewal = true;
    options.poll_ms = 1;
    OK(hf_key_new(place->client, "k", &options, &key, &place->error));
    return key;
}

static void a_free_key_is_granted_in_the_first_step(void **state)
{
    struct place *place = *state;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *key = new_key(place);
    IS(HF_NOT_FOUND, hf_key_poll(key, NULL, &place->error));
    OK(hf_key_begin(key, &info, &place->error));
    assert_int_equal(info.version, 0);
    OK(hf_key_poll(key, NULL, &place->error));
    OK(hf_key_update(key, "x", 1, NULL, NULL, &place->error));
    OK(hf_key_release(key, HF_COMMIT, &place->error));
    IS(HF_NOT_FOUND, hf_key_poll(key, NULL, &place->error));
    OK(hf_key_begin(key, &info, &place->error));
    assert_int_equal(info.version, 1);
    hf_key_free(key);
}

static void a_key_that_is_held_is_waited_for_in_steps(void **state)
{
    struct place *place = *state;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key *holder = new_key(place), *waiter = new_key(place);
    OK(hf_key_acquire(holder, 0, NULL, &place->error));
    IS(HF_HELD, hf_key_begin(waiter, &info, &place->error));
    assert_int_equal(info.outcome, HF_KEY_WAITING);
    IS(HF_INVALID, hf_key_begin(waiter, NULL, &place->error));
    IS(HF_HELD, hf_key_poll(waiter, &info, &place->error));
    OK(hf_key_update(holder, "x", 1, NULL, NULL, &place->error));
    OK(hf_key_release(holder, HF_COMMIT, &place->error));
    OK(hf_key_poll(waiter, &info, &place->error)); /* at once: this process made the release */
    assert_int_equal(info.version, 1);
    OK(hf_key_seen(waiter, &info, &place->error));
    assert_int_equal(info.version, 1);
    hf_key_free(waiter);
    hf_key_free(holder);
}

static void a_wait_in_steps_is_cancelled(void **state)
{
    struct place *place = *state;
    struct hf_key *holder = new_key(place), *waiter = new_key(place);
    OK(hf_key_acquire(holder, 0, NULL, &place->error));
    IS(HF_HELD, hf_key_begin(waiter, NULL, &place->error));
    OK(hf_key_cancel(waiter, &place->error));
    OK(hf_key_cancel(waiter, &place->error));
    IS(HF_NOT_FOUND, hf_key_poll(waiter, NULL, &place->error));
    IS(HF_HELD, hf_key_begin(waiter, NULL, &place->error));
    OK(hf_key_cancel(waiter, &place->error));
    IS(HF_HELD, hf_key_begin(waiter, NULL, &place->error)); /* without a poll in between */
    OK(hf_key_release(holder, HF_COMMIT, &place->error));
    OK(hf_key_poll(waiter, NULL, &place->error));
    hf_key_free(waiter);
    hf_key_free(holder);
}

/* A step that is granted a key settles what an abandoned transaction has staged, as an acquire
 * does. */
static void a_step_settles_an_earlier_transaction(void **state)
{
    struct place *place = *state;
    char id[HF_TXN_ID_SIZE + 1];
    const char *names[] = { "k" };
    struct hf_key_options brief = HF_KEY_OPTIONS;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_txn_options joined = HF_TXN_OPTIONS;
    struct hf_txn *txn;
    struct hf_key *keys[1], *key = new_key(place);
    char text[HF_LEASE_TEXT_MAX];
    OK(hf_txn_open(place->client, id, &place->error));
    joined.id = id;
    OK(hf_txn_begin(place->client, &joined, &txn, &place->error));
    OK(hf_txn_acquire(txn, names, 1, &brief, 0, keys, &place->error));
    IS(HF_INVALID, hf_key_begin(keys[0], NULL, &place->error));
    OK(hf_key_update(keys[0], "x", 1, NULL, NULL, &place->error));
    OK(hf_lock_text(hf_key_lock(keys[0]), text, &place->error));
    IS(HF_HELD, hf_key_begin(key, NULL, &place->error));
    hf_txn_free(txn); /* joined: its key keeps its lease and its stage */
    OK(hf_break(place->client, text, "test", "test", &place->error));
    OK(hf_key_poll(key, &info, &place->error));
    assert_int_equal(info.version, 0);
    assert_string_equal(info.txn, "");
    OK(hf_key_update(key, "y", 1, NULL, &info, &place->error));
    assert_int_equal(info.version, 1);
    hf_key_free(key);
}

/* ---- Leases by their text ------------------------------------------------------------ */

struct lease_text {
    char text[HF_LEASE_TEXT_MAX];
};

static struct lease_text detached_lease(struct place *place)
{
    struct lease_text lease;
    struct hf_key *key = new_key(place);
    OK(hf_key_acquire(key, 0, NULL, &place->error));
    OK(hf_lock_text(hf_key_lock(key), lease.text, &place->error));
    hf_key_detach(key);
    return lease;
}

static struct hf_key *named_lease(struct place *place, const struct lease_text *lease)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    options.unconfirmed = options.no_renewal = true;
    OK(hf_key_adopt(place->client, lease->text, &options, &key, &place->error));
    IS(HF_UNSURE, hf_lock_check(hf_key_lock(key), &place->error));
    assert_int_equal(hf_lock_remaining_ms(hf_key_lock(key)), 0);
    return key;
}

static uint64_t writes(struct place *place)
{
    struct hf_stats stats = HF_STATS;
    OK(hf_client_stats(place->client, &stats, &place->error));
    return stats.puts.calls + stats.deletes.calls;
}

enum lease_call { RENEW, UPDATE, REMOVE, RELEASE, FREE, DETACH, LEASE_CALLS };

static enum hf_status make_call(struct place *place, struct hf_key *key, enum lease_call call)
{
    switch (call) {
    case RENEW: return hf_key_keepalive(key, &place->error);
    case UPDATE: return hf_key_update(key, "x", 1, NULL, NULL, &place->error);
    case REMOVE: return hf_key_remove(key, NULL, NULL, &place->error);
    case RELEASE: return hf_key_release(key, HF_ROLLBACK, &place->error);
    case FREE:
    case DETACH:
    case LEASE_CALLS:
    default: return HF_OK;
    }
}

static void an_operation_on_a_lease_costs_one_write(void **state)
{
    struct place *place = *state;
    for (enum lease_call call = RENEW; call < LEASE_CALLS; call++) {
        struct lease_text lease = detached_lease(place);
        uint64_t before = writes(place);
        struct hf_key *key = named_lease(place, &lease);
        OK(make_call(place, key, call));
        if (call == DETACH || call == RENEW)
            hf_key_detach(key);
        else
            hf_key_free(key);
        uint64_t cost = writes(place) - before;
        if (cost != (call < FREE))
            fail_msg("call %d cost %d writes", (int)call, (int)cost);
        struct hf_key *next = new_key(place);
        IS(call == RELEASE ? HF_OK : HF_HELD, hf_key_acquire(next, 0, NULL, &place->error));
        if (call == RELEASE)
            OK(hf_key_release(next, HF_COMMIT, &place->error));
        hf_key_free(next);
        if (call != RELEASE) {
            key = named_lease(place, &lease);
            OK(hf_key_release(key, HF_ROLLBACK, &place->error));
            hf_key_free(key);
        }
    }
}

static void a_lease_that_was_released_refuses_every_operation(void **state)
{
    struct place *place = *state;
    static const enum hf_status refused[] = {
        [RENEW] = HF_LOST, [UPDATE] = HF_EXPIRED, [REMOVE] = HF_EXPIRED, [RELEASE] = HF_LOST
    };
    static const enum hf_status fenced[] = {
        [RENEW] = HF_LOST, [UPDATE] = HF_FENCED, [REMOVE] = HF_FENCED, [RELEASE] = HF_LOST
    };
    struct lease_text lease = detached_lease(place);
    struct hf_key *key = named_lease(place, &lease), *next = new_key(place);
    OK(hf_key_release(key, HF_ROLLBACK, &place->error));
    IS(HF_NOT_FOUND, hf_key_release(key, HF_ROLLBACK, &place->error));
    hf_key_free(key);
    for (enum lease_call call = RENEW; call <= RELEASE; call++) {
        key = named_lease(place, &lease);
        IS(refused[call], make_call(place, key, call));
        hf_key_free(key);
    }
    OK(hf_key_acquire(next, 0, NULL, &place->error));
    for (enum lease_call call = RENEW; call <= RELEASE; call++) {
        key = named_lease(place, &lease);
        IS(fenced[call], make_call(place, key, call));
        hf_key_free(key);
    }
    OK(hf_lock_check(hf_key_lock(next), &place->error));
    OK(hf_key_release(next, HF_COMMIT, &place->error));
    hf_key_free(next);
}

static void a_renewal_confirms_a_lease(void **state)
{
    struct place *place = *state;
    struct lease_text lease = detached_lease(place);
    struct hf_key *key = named_lease(place, &lease);
    struct hf_lock *lock = hf_key_lock(key);
    char scope[HF_SCOPE_TEXT_MAX], text[HF_LEASE_TEXT_MAX];
    OK(hf_lock_text(lock, text, &place->error));
    assert_string_equal(text, lease.text);
    IS(HF_UNSURE, hf_fenced_put(lock, "f", "x", 1, &place->error));
    IS(HF_INVALID, hf_key_acquire(key, 0, NULL, &place->error));
    IS(HF_INVALID, hf_key_begin(key, NULL, &place->error));
    OK(hf_lock_renew(lock, &place->error));
    OK(hf_lock_check(lock, &place->error));
    assert_in_range(hf_lock_remaining_ms(lock), 1, 60000);
    assert_int_equal(hf_lock_ttl_ms(lock), 60000);
    OK(hf_lock_scope(lock, 0, scope, &place->error));
    assert_string_equal(scope, "named:k");
    OK(hf_fenced_put(lock, "f", "x", 1, &place->error));
    OK(hf_lock_renew(lock, &place->error));
    OK(hf_key_release(key, HF_COMMIT, &place->error));
    hf_key_free(key);
    IS(HF_INVALID, hf_key_adopt(place->client, "no lease", NULL, &key, &place->error));
}

/* The lock of a lease that is only named can be completed too. */
static void locks_are_named_as_keys_are(void **state)
{
    struct place *place = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock = place_held(place, "path:/a"), *named;
    char text[HF_LEASE_TEXT_MAX];
    OK(hf_lock_text(lock, text, &place->error));
    hf_lock_detach(lock);
    options.unconfirmed = true;
    OK(hf_lock_adopt(place->client, text, &options, &named, &place->error));
    hf_lock_free(named); /* leaves the lease in place */
    OK(hf_lock_adopt(place->client, text, &options, &named, &place->error));
    OK(hf_lock_complete(named, NULL, &place->error));
    IS(HF_NOT_FOUND, hf_lock_check(named, &place->error));
    hf_lock_free(named);
    OK(hf_lock_adopt(place->client, text, &options, &named, &place->error));
    IS(HF_LOST, hf_lock_renew(named, &place->error));
    IS(HF_NOT_FOUND, hf_lock_check(named, &place->error));
    hf_lock_free(named);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_key_is_granted_in_the_first_step),
        cmocka_unit_test(a_key_that_is_held_is_waited_for_in_steps),
        cmocka_unit_test(a_wait_in_steps_is_cancelled),
        cmocka_unit_test(a_step_settles_an_earlier_transaction),
        cmocka_unit_test(an_operation_on_a_lease_costs_one_write),
        cmocka_unit_test(a_lease_that_was_released_refuses_every_operation),
        cmocka_unit_test(a_renewal_confirms_a_lease),
        cmocka_unit_test(locks_are_named_as_keys_are),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
