/* SPDX-License-Identifier: Apache-2.0 */
/* txn_clear_test.c: when an operation deletes the record of a transaction that it has read: D
 * after the decision, and for a commit only when every participant is settled. Never earlier. */
#include "key/txn_inside.h"
#include "sweep_kit.h"

static struct hf_error error;

/* A transaction over the keys a and b, whose process dies before it is decided, or at once after
 * it is committed. Its id is kept. */
static void leave_txn(struct sweep_kit *kit, bool commit, char ret_id[TXN_ID_SIZE + 1])
{
    const char *const names[] = { "a", "b" };
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[2];
    struct hf_txn *txn;
    options.ttl_ms = 60000;
    MUST(hf_txn_begin(kit->two.client, NULL, &txn, &error));
    memcpy(ret_id, txn->id, TXN_ID_SIZE + 1);
    MUST(hf_txn_acquire(txn, names, 2, &options, 0, keys, &error));
    update(keys[0], "new a");
    update(keys[1], "new b");
    way_shut(&kit->two.way, "default/meta/", LOSE);
    if (commit)
        MUST(hf_txn_commit(txn, NULL, &error));
    way_shut(&kit->two.way, "", REFUSE(HF_UNAVAILABLE));
    hf_txn_free(txn);
    way_open(&kit->two.way);
}

/* Takes a key and gives it back, by another client than that of the transaction. */
static void touch(struct sweep_kit *kit, const char *name)
{
    struct hf_key *key;
    MUST(hf_key_new(kit->one.client, name, NULL, &key, &error));
    MUST(hf_key_acquire(key, 0, NULL, &error));
    MUST(hf_key_release(key, HF_ROLLBACK, &error));
    hf_key_free(key);
}

#define RECORDS(kit) objects(kit, TXN_RECORDS)

static void a_rollback_is_cleared_after_d(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    leave_txn(kit, /* commit */ false, id);
    pass(kit, HOURS(1));
    touch(kit, "a"); /* which decides it */
    assert_int_equal(RECORDS(kit), 1);
    pass(kit, PAST_D);
    assert_int_equal(RECORDS(kit), 1);
    touch(kit, "b");
    assert_int_equal(RECORDS(kit), 0);
}

static void nothing_is_cleared_before_d(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    for (int commit = 0; commit < 2; commit++) {
        size_t before = RECORDS(kit);
        leave_txn(kit, commit, id);
        pass(kit, HOURS(1));
        touch(kit, "a");
        pass(kit, HOURS(22));
        touch(kit, "b");
        assert_int_equal(RECORDS(kit), before + 1);
    }
}

static void a_commit_is_cleared_when_all_are_settled(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    leave_txn(kit, /* commit */ true, id);
    pass(kit, PAST_D);
    touch(kit, "a");
    assert_int_equal(RECORDS(kit), 1); /* that of b stands, and nothing else says commit */
    touch(kit, "b");
    assert_int_equal(RECORDS(kit), 0);
    reads(&kit->two, "a", "new a");
    reads(&kit->two, "b", "new b");
}

/* A participant that cannot be looked at may be staged still. */
static void a_commit_stays_when_one_cannot_be_seen(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    leave_txn(kit, /* commit */ true, id);
    pass(kit, PAST_D);
    way_shut(&kit->one.way, "default/meta/b", REFUSE(HF_UNAVAILABLE));
    touch(kit, "a");
    assert_int_equal(RECORDS(kit), 1);
    way_open(&kit->one.way);
    reads(&kit->two, "b", "new b");
}

static void who_decides_by_the_id_clears_it(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    enum txn_state recorded;
    leave_txn(kit, /* commit */ true, id);
    pass(kit, HOURS(1));
    MUST(txn_decide(kit->one.client, view_of(id), HF_COMMIT, &recorded, &error));
    assert_int_equal(RECORDS(kit), 1);
    pass(kit, PAST_D);
    MUST(txn_decide(kit->one.client, view_of(id), HF_COMMIT, &recorded, &error));
    assert_int_equal(recorded, TXN_COMMIT);
    assert_int_equal(RECORDS(kit), 0);
}

/* Somebody may have put a mark in its place since it was read. */
static void without_conditions_it_is_left_to_the_sweeper(void **state)
{
    struct sweep_kit *kit = *state;
    char id[TXN_ID_SIZE + 1];
    leave_txn(kit, /* commit */ true, id);
    pass(kit, PAST_D);
    kit->one.client->store->traits.delete_conditional = false;
    touch(kit, "a");
    touch(kit, "b");
    assert_int_equal(RECORDS(kit), 1);
    assert_int_equal(run(kit).markers_deleted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP("a rollback that an operation reads is cleared once D has passed",
              a_rollback_is_cleared_after_d),
        SWEEP("no record is cleared before D has passed", nothing_is_cleared_before_d),
        SWEEP("a commit is cleared by the operation that sees its last participant settled",
              a_commit_is_cleared_when_all_are_settled),
        SWEEP("a commit stays when a participant cannot be seen",
              a_commit_stays_when_one_cannot_be_seen),
        SWEEP("a transaction that is decided by its id once more is cleared after D",
              who_decides_by_the_id_clears_it),
        SWEEP("without conditional deletes a record is left to the sweeper",
              without_conditions_it_is_left_to_the_sweeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
