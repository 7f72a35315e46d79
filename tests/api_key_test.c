/* api_key_test.c [sqlite]: what observe.h and key.h say of looking at keys and transactions, and of
 * deciding one by its id; with holdfast.h alone. */
#include "holdfast.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_disk;
static char *folder;

/* ---- A scene ------------------------------------------------------------------------- */

struct scene {
    char url[256];
    struct hf_client *client;
    struct hf_error error;
};

static int begin(void **state)
{
    static int number;
    struct scene *scene = calloc(1, sizeof *scene);
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    assert_non_null(scene);
    snprintf(scene->url, sizeof scene->url, on_disk ? "sqlite:%s/%d.db" : "mem:", folder,
             number++);
    options.holder = "ada";
    assert_status(HF_OK, hf_client_open(scene->url, &options, &scene->client, &scene->error),
                  &scene->error);
    *state = scene;
    return 0;
}

static int end(void **state)
{
    struct scene *scene = *state;
    hf_client_close(scene->client);
    free(scene);
    return 0;
}

static struct hf_lock *lock_of(struct scene *scene, const char *scope, int64_t ttl_ms)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.ttl_ms = ttl_ms;
    options.no_renewal = true;
    assert_status(HF_OK, hf_lock_new(scene->client, scope, &options, &lock, &scene->error),
                  &scene->error);
    return lock;
}

static struct hf_lock *held(struct scene *scene, const char *scope)
{
    struct hf_lock *lock = lock_of(scene, scope, 30000);
    assert_status(HF_OK, hf_lock_acquire(lock, 0, &scene->error), &scene->error);
    return lock;
}

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
    struct scene *scene = *state;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_status status = HF_KEY_STATUS;
    struct hf_key *key;
    assert_status(HF_NOT_FOUND,
                  hf_key_describe(scene->client, "k", &info, &status, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_key_new(scene->client, "k", NULL, &key, &scene->error),
                  &scene->error);
    assert_string_equal(hf_key_name(key), "k");
    assert_status(HF_NOT_FOUND, hf_key_seen(key, &info, &scene->error), &scene->error);
    assert_status(HF_OK, hf_key_acquire(key, 0, NULL, &scene->error), &scene->error);
    assert_status(HF_OK, hf_key_update(key, "12", 2, NULL, NULL, &scene->error), &scene->error);
    assert_status(HF_OK, hf_key_describe(scene->client, "k", &info, &status, &scene->error),
                  &scene->error);
    assert_int_equal(info.version, 1);
    assert_int_equal(info.size, 2);
    assert_true(status.held && !status.staged && !status.damaged);
    assert_string_equal(status.holder, "ada");
    assert_int_equal(status.token, hf_lock_token(hf_key_lock(key)));
    assert_in_range(status.remaining_ms, 1, 30000);
    assert_status(HF_OK, hf_key_seen(key, &info, &scene->error), &scene->error);
    assert_int_equal(info.version, 0);
    assert_status(HF_OK, hf_key_release(key, HF_COMMIT, &scene->error), &scene->error);
    assert_status(HF_OK, hf_key_describe(scene->client, "k", NULL, &status, &scene->error),
                  &scene->error);
    assert_false(status.held);
    assert_string_equal(status.holder, "");
    hf_key_free(key);
}

static void keys_are_listed_by_how_their_names_start(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = { "a/1", "a/2", "b" };
    struct keys keys = { .count = 0 };
    struct hf_lock *lock = held(scene, "a/3");
    for (size_t i = 0; i < 3; i++) {
        struct hf_key *key;
        assert_status(HF_OK, hf_key_new(scene->client, names[i], NULL, &key, &scene->error),
                      &scene->error);
        assert_status(HF_OK, hf_key_acquire(key, 0, NULL, &scene->error), &scene->error);
        assert_status(HF_OK, hf_key_update(key, "x", 1, NULL, NULL, &scene->error),
                      &scene->error);
        assert_status(HF_OK, hf_key_release(key, HF_COMMIT, &scene->error), &scene->error);
        hf_key_free(key);
    }
    assert_status(HF_OK,
                  hf_keys_list(scene->client, "a/", NULL, keep_key, &keys, &scene->error),
                  &scene->error);
    assert_int_equal(keys.count, 3);
    assert_string_equal(keys.names[0], "a/1");
    assert_string_equal(keys.names[1], "a/2");
    assert_int_equal(keys.infos[1].version, 1);
    assert_false(keys.statuses[1].held);
    assert_true(keys.statuses[2].held); /* a lock, never written */
    assert_int_equal(keys.infos[2].version, 0);
    keys.count = 7;
    assert_status(HF_OK, hf_keys_list(scene->client, "", NULL, keep_key, &keys, &scene->error),
                  &scene->error);
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
    struct scene *scene = *state;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_key_info info = HF_KEY_INFO;
    char id[HF_TXN_ID_SIZE + 1], of_key[HF_TXN_ID_SIZE + 1], lease[HF_LEASE_TEXT_MAX];
    const char *names[] = { "k" };
    struct txns txns = { .count = 0 };
    struct hf_txn *txn;
    struct hf_key *key, *adopted;
    enum hf_decision decision = HF_ROLLBACK;
    assert_status(HF_OK, hf_txn_open(scene->client, id, &scene->error), &scene->error);
    options.id = id;
    assert_status(HF_OK, hf_txn_begin(scene->client, &options, &txn, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_txn_acquire(txn, names, 1, NULL, 0, &key, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_key_seen(key, &info, &scene->error), &scene->error);
    assert_string_equal(info.txn, id);
    assert_status(HF_OK, hf_lock_text(hf_key_lock(key), lease, &scene->error), &scene->error);
    assert_status(HF_OK, hf_txn_adopt(txn, lease, NULL, &adopted, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_key_update(adopted, "new", 3, NULL, NULL, &scene->error),
                  &scene->error);
    hf_key_detach(adopted);
    assert_status(HF_OK, hf_key_txn(scene->client, "k", of_key, &scene->error), &scene->error);
    assert_string_equal(of_key, id);
    assert_status(HF_OK, hf_txn_show(scene->client, id, keep_txn, &txns, &scene->error),
                  &scene->error);
    assert_int_equal(txns.state, HF_TXN_PENDING);
    assert_true(txns.open);
    assert_string_equal(txns.key, "default/k");
    assert_status(HF_OK, hf_txn_decide(scene->client, id, HF_COMMIT, &decision, &scene->error),
                  &scene->error);
    assert_int_equal(decision, HF_COMMIT);
    assert_status(HF_MISMATCH,
                  hf_txn_decide(scene->client, id, HF_ROLLBACK, &decision, &scene->error),
                  &scene->error);
    assert_int_equal(decision, HF_COMMIT);
    hf_txn_free(txn);
    assert_status(HF_OK, hf_key_describe(scene->client, "k", &info, NULL, &scene->error),
                  &scene->error);
    assert_int_equal(info.version, 1);
    assert_status(HF_OK, hf_key_txn(scene->client, "k", of_key, &scene->error), &scene->error);
    assert_string_equal(of_key, "");
}

static void transactions_are_listed_by_their_state(void **state)
{
    struct scene *scene = *state;
    char pending[HF_TXN_ID_SIZE + 1], done[HF_TXN_ID_SIZE + 1];
    struct txns txns = { .count = 0 };
    assert_status(HF_OK, hf_txn_open(scene->client, pending, &scene->error), &scene->error);
    assert_status(HF_OK, hf_txn_open(scene->client, done, &scene->error), &scene->error);
    assert_status(HF_OK, hf_txn_decide(scene->client, done, HF_COMMIT, NULL, &scene->error),
                  &scene->error);
    assert_status(HF_OK,
                  hf_txns_list(scene->client, HF_TXN_PENDING, NULL, keep_txn, &txns,
                               &scene->error),
                  &scene->error);
    assert_int_equal(txns.count, 1);
    assert_string_equal(txns.id, pending);
    assert_status(
        HF_OK, hf_txns_list(scene->client, HF_TXN_ABSENT, NULL, keep_txn, &txns, &scene->error),
        &scene->error);
    assert_int_equal(txns.count, 3);
}

static void what_is_no_transaction_is_told_apart(void **state)
{
    struct scene *scene = *state;
    char absent[HF_TXN_ID_SIZE + 1];
    bool done = true;
    memset(absent, 'a', HF_TXN_ID_SIZE);
    absent[HF_TXN_ID_SIZE] = '\0';
    assert_status(HF_INVALID, hf_txn_show(scene->client, "x", NULL, NULL, &scene->error),
                  &scene->error);
    assert_status(HF_NOT_FOUND, hf_txn_show(scene->client, absent, NULL, NULL, &scene->error),
                  &scene->error);
    assert_status(HF_NOT_FOUND,
                  hf_txn_decide(scene->client, absent, HF_COMMIT, NULL, &scene->error),
                  &scene->error);
    assert_status(HF_OK, hf_txn_give_up(scene->client, absent, &done, &scene->error),
                  &scene->error);
    assert_false(done);
}

/* ---- Rows ---------------------------------------------------------------------------- */

#define STORY(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STORY(a_key_is_described_with_who_holds_it),
        STORY(keys_are_listed_by_how_their_names_start),
        STORY(a_transaction_is_shared_and_decided_by_its_id),
        STORY(transactions_are_listed_by_their_state),
        STORY(what_is_no_transaction_is_told_apart),
    };
    on_disk = argc > 1 && strcmp(argv[1], "sqlite") == 0;
    folder = test_dir_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_dir_remove(folder);
    return failed;
}
