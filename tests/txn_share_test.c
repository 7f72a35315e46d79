/* SPDX-License-Identifier: Apache-2.0 */
/* txn_share_test.c [KIND]: transactions that several processes share, or that are decided by
 * their id alone; and records that may be purged. */
#include "key/txn_inside.h"
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORDS   ".txn-decisions/m/"
#define DOCUMENTS "default/meta/"

static struct hf_error error;

/* One that is open to whoever knows its id. */
static void open_one(struct peer *peer, char ret_id[TXN_ID_SIZE + 1])
{
    MUST(txn_open(peer->client, ret_id, &error));
}

static enum txn_state decide_by_id(struct peer *peer, const char *id, enum hf_decision decision)
{
    enum txn_state told = TXN_ABSENT;
    MUST(txn_decide(peer->client, view_of(id), decision, &told, &error));
    return told;
}

/* ---- Shared -------------------------------------------------------------------------- */

static void who_began_it_commits_what_others_have_taken(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *one = begin(&pair->one), *two = join(&pair->two, hf_txn_id(one));
    update(take_one(one, "a"), "new a");
    update(take_one(two, "b"), "new b");
    ASSERT(record_says(&pair->world, hf_txn_id(one), "\"keys\":[\"default/b\"]"));
    IS(HF_DENIED, hf_txn_commit(two, NULL, &error)); /* it does not know all of the keys */
    ASSERT(recorded(&pair->two, hf_txn_id(one)) == TXN_PENDING);
    commit(one);
    both_read(&pair->two, "new a", "new b");
    ASSERT(!is_staged(&pair->world, "a") && !is_staged(&pair->world, "b"));
    ASSERT(record_says(&pair->world, hf_txn_id(one), "\"applied\":true"));
    hf_txn_free(two);
    hf_txn_free(one);
    done(key_held(&pair->two, "b"));
}

static void an_open_one_is_committed_by_anybody(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    for (int by_id = 0; by_id < 2; by_id++) {
        open_one(&pair->one, id);
        struct hf_txn *one = join(&pair->one, id), *two = join(&pair->two, id);
        update(take_one(one, "a"), by_id ? "newer a" : "new a");
        update(take_one(two, "b"), by_id ? "newer b" : "new b");
        if (by_id)
            ASSERT(decide_by_id(&pair->two, id, HF_COMMIT) == TXN_COMMIT);
        else
            commit(two);
        both_read(&pair->two, by_id ? "newer a" : "new a", by_id ? "newer b" : "new b");
        ASSERT(!is_staged(&pair->world, "a") && !is_staged(&pair->world, "b"));
        ASSERT(record_says(&pair->world, id, "\"applied\":true"));
        commit(one); /* it was, so that is the answer */
        hf_txn_free(one);
        hf_txn_free(two);
    }
}

static void one_that_is_not_open_is_rolled_back_by_anybody(void **state)
{
    struct pair *pair = *state;
    enum txn_state told;
    publish(&pair->one, "a", "old a");
    publish(&pair->one, "b", "old b");
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    IS(HF_DENIED, txn_decide(pair->two.client, view_of(transfer.id), HF_COMMIT, &told, &error));
    ASSERT(decide_by_id(&pair->two, transfer.id, HF_ROLLBACK) == TXN_ROLLBACK);
    both_read(&pair->two, "old a", "old b");
    hf_txn_free(transfer.txn);
}

/* What is not held for it any more cannot be committed by its id. */
static void a_key_that_is_not_held_rolls_it_back(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    publish(&pair->one, "a", "old a");
    open_one(&pair->one, id);
    struct hf_txn *txn = join(&pair->one, id);
    struct hf_key *key = take_one(txn, "a");
    update(key, "new a");
    take_away(&pair->two, key);
    ASSERT(decide_by_id(&pair->two, id, HF_COMMIT) == TXN_ROLLBACK);
    reads(&pair->two, "a", "old a");
    ASSERT(!is_staged(&pair->world, "a"));
    enum hf_decision decision = HF_COMMIT;
    enum hf_status status = hf_txn_commit(txn, &decision, &error);
    ASSERT(status == HF_MISMATCH || status == HF_LOST); /* it may have been told of its lease */
    ASSERT(decision == HF_ROLLBACK);
    hf_txn_free(txn);
}

/* A process that comes and goes leaves its keys to the next, as long as their leases last. */
static void who_leaves_a_shared_one_leaves_its_keys(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    open_one(&pair->one, id);
    struct hf_txn *txn = join(&pair->one, id);
    update(take_one(txn, "a"), "new a");
    hf_txn_free(txn);
    ASSERT(recorded(&pair->two, id) == TXN_PENDING && is_staged(&pair->world, "a"));
    struct hf_key *other = key_with(&pair->two, "a", 60000, false);
    IS(HF_HELD, hf_key_acquire(other, 0, NULL, &error));
    ASSERT(decide_by_id(&pair->two, id, HF_COMMIT) == TXN_COMMIT);
    MUST(hf_key_acquire(other, 0, NULL, &error)); /* its lease went with the stage */
    done(other);
    reads(&pair->two, "a", "new a");
}

static void keys_of_other_namespaces_are_reached(void **state)
{
    struct pair *pair = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct peer there;
    char id[TXN_ID_SIZE + 1];
    options.ns = "other";
    peer_open(&there, &pair->world, &options);
    open_one(&pair->one, id);
    struct hf_txn *far = join(&there, id), *near = join(&pair->one, id);
    update(take_one(near, "a"), "new a");
    update(take_one(far, "a"), "far a");
    ASSERT(record_says(&pair->world, id, "[\"default/a\",\"other/a\"]"));
    ASSERT(decide_by_id(&pair->two, id, HF_COMMIT) == TXN_COMMIT);
    reads(&pair->two, "a", "new a");
    reads(&there, "a", "far a");
    ASSERT(world_times(&pair->world, "other/meta/a.json", "\"stage\"") == 0);
    hf_txn_free(near);
    hf_txn_free(far);
    peer_close(&there);
}

/* The order is that of all its keys, whoever has taken them. */
static void the_order_is_that_of_all_who_share_it(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    const char *a = "a", *z = "z";
    struct hf_key *key;
    struct hf_key *held_a = key_held(&pair->one, "a"), *held_z = key_held(&pair->one, "z");
    open_one(&pair->one, id);
    struct hf_txn *one = join(&pair->one, id), *two = join(&pair->two, id);
    take_one(one, "m");
    struct mono_time start = now();
    IS(HF_HELD, hf_txn_acquire(two, &a, 1, NULL, 60000, &key, &error));
    ASSERT(ms_since(start) < 5000);
    IS(HF_TIMEOUT, hf_txn_acquire(two, &z, 1, NULL, 50, &key, &error));
    done(held_a);
    done(held_z);
    roll_back(two);
    hf_txn_free(one);
    hf_txn_free(two);
}

/* A key is taken by one while another commits: it is no part of that, and given back. */
static void who_comes_late_to_a_shared_one_is_told(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    const char *b = "b";
    struct hf_key *key;
    open_one(&pair->one, id);
    struct hf_txn *one = join(&pair->one, id), *two = join(&pair->two, id);
    update(take_one(one, "a"), "new a");
    commit(one);
    IS(HF_MISMATCH, hf_txn_acquire(two, &b, 1, NULL, 0, &key, &error));
    ASSERT(!is_staged(&pair->world, "b"));
    done(key_held(&pair->one, "b"));
    commit(two);
    hf_txn_free(one);
    hf_txn_free(two);
}

/* One process decides it by its id, with `number` as its last call; another, which has a key of it,
 * goes on. What somebody has read of a commit never changes. False when there are not so many
 * calls. */
static bool goes_on_after(long number, bool done_so)
{
    struct world world;
    struct peer one, two, three;
    struct hf_key_info info = HF_KEY_INFO;
    char id[TXN_ID_SIZE + 1];
    enum txn_state told;
    world_open(&world);
    peer_open(&one, &world, NULL);
    peer_open(&two, &world, NULL);
    peer_open(&three, &world, NULL);
    open_one(&two, id);
    struct hf_txn *txn = join(&two, id);
    struct hf_key *keys[2];
    take_two(txn, "a", "b", 60000, keys);
    update(keys[0], "new a");
    update(keys[1], "new b");
    way_die(&one.way, number, done_so ? LOSE_REPLY : REFUSE(HF_DENIED));
    enum hf_status status = txn_decide(one.client, view_of(id), HF_COMMIT, &told, &error);
    bool died = way_has_failed(&one.way);
    bool committed = recorded(&three, id) == TXN_COMMIT;
    ASSERT(committed || status != HF_OK);
    both_read(&three, committed ? "new a" : NULL, committed ? "new b" : NULL);
    status = hf_key_update(keys[1], "newer b", 7, NULL, &info, &error);
    if (committed)
        ASSERT(status == HF_MISMATCH || status == HF_EXPIRED || status == HF_FENCED);
    if (committed)
        both_read(&three, "new a", "new b");
    bool newer = status == HF_OK;
    commit(txn);
    both_read(&three, "new a", newer ? "newer b" : "new b");
    ASSERT(!is_staged(&world, "a") && !is_staged(&world, "b"));
    hf_txn_free(txn);
    peer_close(&one);
    peer_close(&two);
    peer_close(&three);
    world_close(&world);
    return died;
}

static void what_was_read_of_a_commit_does_not_change(void **state)
{
    (void)state;
    for (int done_so = 0; done_so < 2; done_so++) {
        long number = 0;
        while (number < 40 && goes_on_after(number, done_so))
            number++;
        ASSERT(number >= 8 && number < 40);
    }
}

/* A commit that is denied leaves what others have staged as it was: they may go on. */
static void who_may_not_commit_seals_nothing(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *one = begin(&pair->one), *two = join(&pair->two, hf_txn_id(one));
    struct hf_txn *three = join(&pair->one, hf_txn_id(one));
    struct hf_key *key = take_one(two, "b");
    update(key, "new b");
    IS(HF_DENIED, hf_txn_commit(three, NULL, &error));
    update(key, "newer b");
    commit(one);
    reads(&pair->one, "b", "newer b");
    hf_txn_free(three);
    hf_txn_free(two);
    hf_txn_free(one);
}

/* Its own process knows what it has staged, and nobody else changes that. */
static void a_lease_of_one_that_is_not_open_is_its_own_alone(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *one = begin(&pair->one), *two = join(&pair->two, hf_txn_id(one));
    struct hf_key *key = take_one(one, "a"), *adopted;
    char text[HF_LEASE_TEXT_MAX];
    update(key, "new a");
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    IS(HF_DENIED, key_adopt_for(pair->two.client, text, NULL, two, &adopted, &error));
    ASSERT(strstr(error.why, "only the process that began"));
    commit(one);
    reads(&pair->two, "a", "new a");
    hf_txn_free(two);
    hf_txn_free(one);
}

/* It was committed with what the key had then, so nothing more is staged for it. */
static void a_key_that_was_given_back_is_not_taken_again(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info = HF_KEY_INFO;
    char id[TXN_ID_SIZE + 1];
    open_one(&pair->one, id);
    struct hf_txn *txn = join(&pair->two, id);
    struct hf_key *key = take_one(txn, "a");
    update(key, "first");
    ASSERT(decide_by_id(&pair->one, id, HF_COMMIT) == TXN_COMMIT);
    hf_lock_release(hf_key_lock(key), &error);
    IS(HF_MISMATCH, hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.outcome == HF_KEY_TXN_MISMATCH && !is_staged(&pair->world, "a"));
    IS(HF_DENIED, hf_key_update(key, "after", 5, NULL, NULL, &error));
    reads(&pair->one, "a", "first");
    done(key_held(&pair->one, "a"));
    hf_txn_free(txn);
}

/* ---- Records whose time is over ------------------------------------------------------ */

static void a_record_is_purged_after_d_only(void **state)
{
    struct pair *pair = *state;
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    set_late_bound(&pair->two, SPAN_S(3600));
    ASSERT(purge(&pair->two, transfer.id) == PURGE_NOT_YET); /* pending, and new */
    commit(transfer.txn);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_NOT_YET);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_COMMIT);
    set_late_bound(&pair->two, SPAN_MS(1));
    pass_ms(5);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_DONE);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ABSENT);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_GONE);
    both_read(&pair->two, "new a", "new b");
    hf_txn_free(transfer.txn);
}

/* A commit goes only when every participant was seen without its stage. */
static void a_commit_is_purged_when_it_is_applied(void **state)
{
    struct pair *pair = *state;
    enum purge_result result;
    publish(&pair->one, "a", "old a");
    publish(&pair->one, "b", "old b");
    take_no_steps(&pair->one); /* so that the decision and the settling are apart */
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    way_shut(&pair->one.way, DOCUMENTS, REFUSE(HF_DENIED));
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    way_open(&pair->one.way);
    set_late_bound(&pair->two, SPAN_MS(1));
    pass_ms(5);
    way_shut(&pair->two.way, DOCUMENTS "b", REFUSE(HF_DENIED));
    IS(HF_DENIED, txn_purge(pair->two.client, view_of(transfer.id), &result, &error));
    way_open(&pair->two.way);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_COMMIT);
    ASSERT(!is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    both_read(&pair->two, "new a", "new b");
    ASSERT(purge(&pair->two, transfer.id) == PURGE_DONE);
    ASSERT(!is_staged(&pair->world, "b"));
    both_read(&pair->two, "new a", "new b");
}

/* One that was left pending is rolled back first, and a rollback goes whatever stands. */
static void what_is_pending_for_long_is_rolled_back(void **state)
{
    struct pair *pair = *state;
    publish(&pair->one, "a", "old a");
    publish(&pair->one, "b", "old b");
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    transfer_dies(&transfer, &pair->one, &pair->two);
    set_late_bound(&pair->two, SPAN_MS(1));
    pass_ms(5);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_DECIDED);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    pass_ms(5);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_DONE);
    ASSERT(is_staged(&pair->world, "a")); /* nobody named its keys; missing means the same */
    both_read(&pair->two, "old a", "old b");
    done(key_held(&pair->two, "a"));
    done(key_held(&pair->two, "b"));
    ASSERT(!is_staged(&pair->world, "a") && !is_staged(&pair->world, "b"));
}

/* Its transaction's handle is freed first, which leaves the transaction to its members. */
static void an_adopted_key_outlives_the_handle_of_its_transaction(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1], lease[HF_LEASE_TEXT_MAX];
    publish(&pair->one, "a", "old a");
    for (int decides = 0; decides < 2; decides++) {
        struct hf_key *adopted;
        open_one(&pair->one, id);
        struct hf_txn *one = join(&pair->one, id), *two = join(&pair->two, id);
        struct hf_key *key = take_one(one, "a");
        MUST(hf_lock_text(hf_key_lock(key), lease, &error));
        MUST(hf_txn_adopt(two, lease, NULL, &adopted, &error));
        update(take_one(two, "b"), decides ? "newer b" : "new b");
        hf_txn_free(two);
        update(adopted, decides ? "newer a" : "new a");
        if (decides)
            MUST(hf_key_release(adopted, HF_COMMIT, &error));
        else
            commit(one);
        hf_key_detach(adopted);
        hf_txn_free(one);
        both_read(&pair->one, decides ? "newer a" : "new a", decides ? "newer b" : "new b");
    }
}

/* As after a break, only the token and the state of the key stop the former holder. */
static void a_decision_ends_the_leases_of_its_keys(void **state)
{
    struct pair *pair = *state;
    char id[TXN_ID_SIZE + 1];
    publish(&pair->one, "a", "old a");
    for (int commits = 0; commits < 2; commits++) {
        open_one(&pair->two, id);
        struct hf_txn *one = join(&pair->one, id);
        struct hf_key *key = take_one(one, "a");
        update(key, "new a");
        enum hf_decision decision = commits ? HF_COMMIT : HF_ROLLBACK;
        decide_by_id(&pair->two, id, decision);
        struct hf_key *other = key_held(&pair->two, "a");
        MUST(hf_lock_check(hf_key_lock(key), &error)); /* until it hears from the store */
        ASSERT(hf_lock_token(hf_key_lock(other)) > hf_lock_token(hf_key_lock(key)));
        ASSERT(hf_key_update(key, "late", 4, NULL, NULL, &error) != HF_OK);
        IS(HF_LOST, hf_lock_renew(hf_key_lock(key), &error));
        IS(HF_LOST, hf_lock_check(hf_key_lock(key), &error));
        done(other);
        hf_txn_free(one);
        reads(&pair->two, "a", commits ? "new a" : "old a");
    }
}

/* Who settled all that it knew of, and not all there is, does not say that all is applied. */
static void only_who_knows_all_keys_notes_that_all_are_settled(void **state)
{
    struct pair *pair = *state;
    struct record_op op;
    struct txn_key known = { "default/b" };
    take_no_steps(&pair->one);
    struct hf_txn *one = begin(&pair->one), *two = join(&pair->two, hf_txn_id(one));
    const char *id = hf_txn_id(two);
    update(take_one(one, "a"), "new a");
    update(take_one(two, "b"), "new b");
    way_shut(&pair->one.way, DOCUMENTS "a", REFUSE(HF_DENIED));
    commit(one);
    way_open(&pair->one.way);
    ASSERT(is_staged(&pair->world, "a") && !record_says(&pair->world, id, "\"applied\""));
    record_op_init(&op, RECORD_APPLIED, view_of(id), mono_add(now(), SPAN_S(5)));
    op.keys = &known;
    op.key_count = 1;
    char key[KEY_BYTES_MAX + 1];
    struct doc *doc;
    record_key(view_of(id), key);
    MUST(doc_new(pair->one.client->store, &pair->one.client->clock, view_of(key),
                 &record_doc_type, NULL, &doc, &error));
    MUST(doc_update(doc, &op.op));
    doc_free(doc);
    ASSERT(!record_says(&pair->world, id, "\"applied\""));
    commit(two); /* learns of both, and settles what is left */
    ASSERT(!is_staged(&pair->world, "a") && record_says(&pair->world, id, "\"applied\":true"));
    hf_txn_free(one);
    hf_txn_free(two);
    both_read(&pair->two, "new a", "new b");
}

/* A rollback put where there was no record says nothing about a commit that was purged before. */
static void a_mark_is_no_decision_about_a_commit(void **state)
{
    struct pair *pair = *state;
    enum txn_state told;
    char id[TXN_ID_SIZE + 1];
    open_one(&pair->one, id);
    struct hf_txn *txn = join(&pair->one, id);
    update(take_one(txn, "a"), "new a");
    commit(txn);
    hf_txn_free(txn);
    set_late_bound(&pair->two, SPAN_MS(1));
    pass_ms(5);
    ASSERT(purge(&pair->two, id) == PURGE_DONE);
    IS(HF_NOT_FOUND, txn_decide(pair->two.client, view_of(id), HF_COMMIT, &told, &error));
    struct record_op op;
    record_op_init(&op, RECORD_DECIDE, view_of(id), mono_add(now(), SPAN_S(5)));
    op.decision = TXN_ROLLBACK;
    op.mark = true;
    MUST(record_change(pair->two.client, &op, &error));
    ASSERT(op.marked && recorded(&pair->two, id) == TXN_ROLLBACK);
    IS(HF_NOT_FOUND, txn_decide(pair->two.client, view_of(id), HF_COMMIT, &told, &error));
    ASSERT(decide_by_id(&pair->two, id, HF_ROLLBACK) == TXN_ROLLBACK);
    reads(&pair->two, "a", "new a");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PAIR("who began it commits what others have taken for it, and only who began it may",
             who_began_it_commits_what_others_have_taken),
        PAIR("an open one is committed by anybody who shares it, or by its id",
             an_open_one_is_committed_by_anybody),
        PAIR("one that is not open is rolled back by anybody, and committed by its own alone",
             one_that_is_not_open_is_rolled_back_by_anybody),
        PAIR("what is not held for it any more rolls it back",
             a_key_that_is_not_held_rolls_it_back),
        PAIR("who leaves a shared one leaves its keys to the others",
             who_leaves_a_shared_one_leaves_its_keys),
        PAIR("keys of other namespaces are reached", keys_of_other_namespaces_are_reached),
        PAIR("the order is that of the keys of all who share it",
             the_order_is_that_of_all_who_share_it),
        PAIR("who comes late to a shared one is told so",
             who_comes_late_to_a_shared_one_is_told),
        IT("what was read of a commit does not change, whoever goes on staging",
           what_was_read_of_a_commit_does_not_change),
        PAIR("who may not commit seals nothing", who_may_not_commit_seals_nothing),
        PAIR("a lease of one that is not open is changed by its own process alone",
             a_lease_of_one_that_is_not_open_is_its_own_alone),
        PAIR("a key that was given back is not taken again by its handle",
             a_key_that_was_given_back_is_not_taken_again),
        PAIR("a mark is no decision about a commit that was purged",
             a_mark_is_no_decision_about_a_commit),
        PAIR("a record is purged D after its decision, and not before",
             a_record_is_purged_after_d_only),
        PAIR("a commit is purged only when every key was seen settled",
             a_commit_is_purged_when_it_is_applied),
        PAIR("what is pending for longer than D is rolled back, and then purged",
             what_is_pending_for_long_is_rolled_back),
        PAIR("an adopted key outlives the handle of its transaction",
             an_adopted_key_outlives_the_handle_of_its_transaction),
        PAIR("a decision by id ends the leases of its keys, as a break does",
             a_decision_ends_the_leases_of_its_keys),
        PAIR("only who knows all keys notes that all are settled",
             only_who_knows_all_keys_notes_that_all_are_settled),
    };
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
