/* SPDX-License-Identifier: Apache-2.0 */
/* api_key_test.c [sqlite]: the promises of observe.h and key.h about showing keys and
 * transactions, and about deciding a transaction by its id. Uses holdfast.h only. */
#include "api_client_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---------------------------------------------------------------------------- */

struct keys {
    char names[8][32];
    struct hf_key_info infos[8];
    struct hf_key_status statuses[8];
    size_t count;
};

static bool keep_key(void *argument, const char *name, const struct hf_key_info *info,
                     const struct hf_key_status *status)
{
    struct keys *keys = argument;
    snprintf(keys->names[keys->count], sizeof keys->names[0], "%s", name);
    keys->infos[keys->count] = *info;
    keys->statuses[keys->count++] = *status;
    return keys->count < 8;
}

static void a_key_is_described_with_who_holds_it(void **state)
{
    struct place *place = *state;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status status = HF_KEY_STATUS;
    struct hf_key *key;
    IS(HF_NOT_FOUND, hf_key_describe(place->client, "k", &info, &status, &place->error));
    OK(hf_key_new(place->client, "k", NULL, &key, &place->error));
    assert_string_equal(hf_key_name(key), "k");
    IS(HF_NOT_FOUND, hf_key_seen(key, &info, &place->error));
    OK(hf_key_acquire(key, 0, NULL, &place->error));
    OK(hf_key_update(key, "12", 2, NULL, NULL, &place->error));
    OK(hf_key_describe(place->client, "k", &info, &status, &place->error));
    assert_int_equal(info.version, 1);
    assert_int_equal(info.size, 2);
    assert_true(status.held && !status.staged && !status.damaged);
    assert_string_equal(status.holder, "ada");
    assert_int_equal(status.token, hf_lock_token(hf_key_lock(key)));
    assert_in_range(status.remaining_ms, 1, 30000);
    OK(hf_key_seen(key, &info, &place->error));
    assert_int_equal(info.version, 0);
    OK(hf_key_release(key, HF_COMMIT, &place->error));
    OK(hf_key_describe(place->client, "k", NULL, &status, &place->error));
    assert_false(status.held);
    assert_string_equal(status.holder, "");
    hf_key_free(key);
}

static void keys_are_listed_by_how_their_names_start(void **state)
{
    struct place *place = *state;
    static const char *const names[] = { "a/1", "a/2", "b" };
    struct keys keys = { .count = 0 };
    struct hf_lock *lock = place_held(place, "a/3");
    for (size_t i = 0; i < 3; i++) {
        struct hf_key *key;
        OK(hf_key_new(place->client, names[i], NULL, &key, &place->error));
        OK(hf_key_acquire(key, 0, NULL, &place->error));
        OK(hf_key_update(key, "x", 1, NULL, NULL, &place->error));
        OK(hf_key_release(key, HF_COMMIT, &place->error));
        hf_key_free(key);
    }
    OK(hf_keys_list(place->client, "a/", NULL, keep_key, &keys, &place->error));
    assert_int_equal(keys.count, 3);
    assert_string_equal(keys.names[0], "a/1");
    assert_string_equal(keys.names[1], "a/2");
    assert_int_equal(keys.infos[1].version, 1);
    assert_false(keys.statuses[1].held);
    assert_true(keys.statuses[2].held); /* a lock, never written */
    assert_int_equal(keys.infos[2].version, 0);
    keys.count = 7;
    OK(hf_keys_list(place->client, "", NULL, keep_key, &keys, &place->error));
    assert_int_equal(keys.count, 8);
    hf_lock_free(lock);
}

/* ---- Transactions -------------------------------------------------------------------- */

struct txns {
    char id[HF_TXN_ID_SIZE + 1], key[64];
    enum hf_txn_state state;
    size_t count, key_count;
    bool open, applied;
};

static bool keep_txn(void *argument, const struct hf_txn_info *txn)
{
    struct txns *txns = argument;
    snprintf(txns->id, sizeof txns->id, "%s", txn->id);
    snprintf(txns->key, sizeof txns->key, "%s", txn->key_count > 0 ? txn->keys[0] : "");
    txns->state = txn->state;
    txns->key_count = txn->key_count;
    txns->open = txn->open;
    txns->applied = txn->applied;
    txns->count++;
    return true;
}

static void a_transaction_is_shared_and_decided_by_its_id(void **state)
{
    struct place *place = *state;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_key_info info = HF_KEY_INFO;
    char id[HF_TXN_ID_SIZE + 1], of_key[HF_TXN_ID_SIZE + 1], lease[HF_LEASE_TEXT_MAX];
    const char *names[] = { "k" };
    struct txns txns = { .count = 0 };
    struct hf_txn *txn;
    struct hf_key *key, *adopted;
    enum hf_decision decision = HF_ROLLBACK;
    OK(hf_txn_open(place->client, id, &place->error));
    options.id = id;
    OK(hf_txn_begin(place->client, &options, &txn, &place->error));
    OK(hf_txn_acquire(txn, names, 1, NULL, 0, &key, &place->error));
    OK(hf_key_seen(key, &info, &place->error));
    assert_string_equal(info.txn, id);
    OK(hf_lock_text(hf_key_lock(key), lease, &place->error));
    OK(hf_txn_adopt(txn, lease, NULL, &adopted, &place->error));
    OK(hf_key_update(adopted, "new", 3, NULL, NULL, &place->error));
    hf_key_detach(adopted);
    OK(hf_key_txn(place->client, "k", of_key, &place->error));
    assert_string_equal(of_key, id);
    OK(hf_txn_show(place->client, id, keep_txn, &txns, &place->error));
    assert_int_equal(txns.state, HF_TXN_PENDING);
    assert_true(txns.open);
    assert_string_equal(txns.key, "default/k");
    OK(hf_txn_decide(place->client, id, HF_COMMIT, &decision, &place->error));
    assert_int_equal(decision, HF_COMMIT);
    IS(HF_MISMATCH, hf_txn_decide(place->client, id, HF_ROLLBACK, &decision, &place->error));
    assert_int_equal(decision, HF_COMMIT);
    hf_txn_free(txn);
    OK(hf_key_describe(place->client, "k", &info, NULL, &place->error));
    assert_int_equal(info.version, 1);
    OK(hf_key_txn(place->client, "k", of_key, &place->error));
    assert_string_equal(of_key, "");
}

static void transactions_are_listed_by_their_state(void **state)
{
    struct place *place = *state;
    char pending[HF_TXN_ID_SIZE + 1], done[HF_TXN_ID_SIZE + 1];
    struct txns txns = { .count = 0 };
    OK(hf_txn_open(place->client, pending, &place->error));
    OK(hf_txn_open(place->client, done, &place->error));
    OK(hf_txn_decide(place->client, done, HF_COMMIT, NULL, &place->error));
    OK(hf_txns_list(place->client, HF_TXN_PENDING, NULL, keep_txn, &txns, &place->error));
    assert_int_equal(txns.count, 1);
    assert_string_equal(txns.id, pending);
    OK(hf_txns_list(place->client, HF_TXN_ABSENT, NULL, keep_txn, &txns, &place->error));
    assert_int_equal(txns.count, 3);
}

static void what_is_no_transaction_is_told_apart(void **state)
{
    struct place *place = *state;
    char absent[HF_TXN_ID_SIZE + 1];
    bool done = true;
    memset(absent, 'a', HF_TXN_ID_SIZE);
    absent[HF_TXN_ID_SIZE] = '\0';
    IS(HF_INVALID, hf_txn_show(place->client, "x", NULL, NULL, &place->error));
    IS(HF_NOT_FOUND, hf_txn_show(place->client, absent, NULL, NULL, &place->error));
    IS(HF_NOT_FOUND, hf_txn_decide(place->client, absent, HF_COMMIT, NULL, &place->error));
    OK(hf_txn_give_up(place->client, absent, &done, &place->error));
    assert_false(done);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_described_with_who_holds_it),
        cmocka_unit_test(keys_are_listed_by_how_their_names_start),
        cmocka_unit_test(a_transaction_is_shared_and_decided_by_its_id),
        cmocka_unit_test(transactions_are_listed_by_their_state),
        cmocka_unit_test(what_is_no_transaction_is_told_apart),
    };
    return place_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
