/* SPDX-License-Identifier: Apache-2.0 */
/* txn_test.c [KIND]: transactions of several clients on one store: all keys change or none,
 * whichever client dies meanwhile, and each client gets a true result. */
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS    200
#define RECORDS   ".txn-decisions/m/"
#define ENTRIES   ".txn-decisions/e/"
#define DOCUMENTS "default/meta/"

static struct hf_error error;

static void before_a_and_b(struct pair *pair)
{
    publish(&pair->one, "a", "old a");
    publish(&pair->one, "b", "old b");
}

/* Somebody else can have both keys at once, and nothing is staged there. */
static void both_are_free(struct pair *pair)
{
    ASSERT(!is_staged(&pair->world, "a") && !is_staged(&pair->world, "b"));
    struct hf_key *a = key_held(&pair->two, "a"), *b = key_held(&pair->two, "b");
    done(a);
    done(b);
}

/* ---- All or none --------------------------------------------------------------------- */

static void a_commit_publishes_all(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    both_read(&pair->two, "old a", "old b");
    ASSERT(recorded(&pair->two, transfer.id) == TXN_PENDING);
    commit(transfer.txn);
    both_read(&pair->two, "new a", "new b");
    ASSERT(reads(&pair->two, "a", "new a").version == 2);
    ASSERT(record_says(&pair->world, transfer.id, "\"state\":\"commit\""));
    ASSERT(record_says(&pair->world, transfer.id, "\"applied\":true"));
    ASSERT(record_says(&pair->world, transfer.id, "[\"default/a\",\"default/b\"]"));
    both_are_free(pair);
    commit(transfer.txn); /* once more is as good as once */
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

static void a_rollback_publishes_nothing(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    roll_back(transfer.txn);
    roll_back(transfer.txn);
    both_read(&pair->two, "old a", "old b");
    ASSERT(reads(&pair->two, "b", "old b").version == 1);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    both_are_free(pair);
    hf_txn_free(transfer.txn);
}

static void the_release_of_a_key_decides_all(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    MUST(hf_key_release(transfer.keys[1], HF_COMMIT, &error));
    both_read(&pair->two, "new a", "new b");
    hf_txn_free(transfer.txn);
    transfer = transfer_staged(&pair->one, "newer a", "newer b");
    MUST(hf_key_release(transfer.keys[0], HF_ROLLBACK, &error));
    both_read(&pair->two, "new a", "new b");
    both_are_free(pair);
    hf_txn_free(transfer.txn);
}

static void freed_undecided_it_is_rolled_back(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    hf_txn_free(transfer.txn);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
    hf_txn_free(NULL);
}

/* Large states have bodies, which go when nothing names them. */
static void states_of_any_size_leave_nothing(void **state)
{
    struct pair *pair = *state;
    char *large = bytes_of(9000, 1);
    for (size_t i = 0; i < 9000; i++)
        large[i] = (char)('a' + (large[i] & 15));
    large[9000] = '\0';
    before_a_and_b(pair);
    for (int i = 0; i < 3; i++) {
        struct transfer transfer = transfer_staged(&pair->one, large, large);
        ASSERT(bodies(&pair->world, "a") == (i > 0 ? 2 : 1));
        commit(transfer.txn);
        hf_txn_free(transfer.txn);
        both_read(&pair->two, large, large);
        ASSERT(bodies(&pair->world, "a") == 1 && bodies(&pair->world, "b") == 1);
    }
    struct transfer transfer = transfer_staged(&pair->one, large, "small");
    roll_back(transfer.txn);
    hf_txn_free(transfer.txn);
    ASSERT(bodies(&pair->world, "a") == 1 && bodies(&pair->world, "b") == 1);
    both_read(&pair->two, large, large);
    free(large);
}

static void what_is_only_read_is_locked_too(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2], *other = key_with(&pair->two, "b", 60000, false);
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    take_two(txn, "a", "b", 60000, keys);
    update(keys[0], "new a");
    IS(HF_HELD, hf_key_acquire(other, 0, NULL, &error));
    commit(txn);
    hf_txn_free(txn);
    both_read(&pair->two, "new a", "old b");
    ASSERT(reads(&pair->two, "b", "old b").version == 1);
    both_are_free(pair);
    hf_key_free(other);
}

/* On a store that can write several objects in one step, the record is written with the first
 * key. */
static enum hf_status begin_with_a(struct pair *pair)
{
    struct hf_txn *txn;
    struct hf_key *key;
    enum hf_status status = hf_txn_begin(pair->one.client, NULL, &txn, &error);
    if (status == HF_OK)
        status = hf_txn_acquire(txn, (const char *[]){ "a" }, 1, NULL, 0, &key, &error);
    hf_txn_free(txn);
    ASSERT(!is_staged(&pair->world, "a"));
    return status;
}

static void the_record_stands_before_a_key_is_taken(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *txn;
    publish(&pair->one, "a", "old");
    /* No entry: no record. */
    way_shut(&pair->one.way, ENTRIES, REFUSE(HF_DENIED));
    IS(HF_DENIED, begin_with_a(pair));
    ASSERT(objects_below(&pair->world, ".txn-decisions/") == 0);
    /* No record: no transaction, and an entry that the sweeper finds. */
    way_shut(&pair->one.way, RECORDS, REFUSE(HF_DENIED));
    IS(HF_DENIED, begin_with_a(pair));
    ASSERT(objects_below(&pair->world, RECORDS) == 0 &&
           objects_below(&pair->world, ENTRIES) == 1);
    way_open(&pair->one.way);
    txn = begin(&pair->one);
    ASSERT(recorded(&pair->two, hf_txn_id(txn)) == TXN_PENDING);
    ASSERT(objects_below(&pair->world, RECORDS) == 1 &&
           objects_below(&pair->world, ENTRIES) == 2);
    hf_txn_free(txn);
}

/* ---- Decisions ----------------------------------------------------------------------- */

static void the_other_decision_is_told(void **state)
{
    struct pair *pair = *state;
    enum hf_decision decision = HF_COMMIT;
    enum txn_state told;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    MUST(txn_decide(pair->two.client, view_of(transfer.id), HF_ROLLBACK, &told, &error));
    ASSERT(told == TXN_ROLLBACK);
    IS(HF_MISMATCH, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK && strstr(error.why, "rollback"));
    roll_back(transfer.txn);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
    transfer = transfer_staged(&pair->one, "new a", "new b");
    commit(transfer.txn);
    IS(HF_MISMATCH, hf_txn_rollback(transfer.txn, &decision, &error));
    ASSERT(decision == HF_COMMIT && strstr(error.why, "commit"));
    MUST(txn_decide(pair->two.client, view_of(transfer.id), HF_ROLLBACK, &told, &error));
    ASSERT(told == TXN_COMMIT);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

/* The store refuses calls of these kinds on the record. Whatever keeps the call from learning the
 * decision, it does not say that nothing was done. */
static void ask_in_vain(struct pair *pair, struct hf_txn *txn, bool wants_commit,
                        unsigned kinds, enum hf_status refusal)
{
    enum hf_decision other = wants_commit ? HF_ROLLBACK : HF_COMMIT, decision = other;
    script_rule(&pair->one.way, .name = "record", .part = RECORDS, .on = kinds,
                .fate = REFUSE(refusal));
    IS(HF_UNSURE, wants_commit ? hf_txn_commit(txn, &decision, &error)
                               : hf_txn_rollback(txn, &decision, &error));
    ASSERT(error.status == HF_UNSURE && decision == other);
    ASSERT(script_met(&pair->one.way, "record") > 0);
    script_reset(&pair->one.way);
}

/* The record's swap has no answer, and then nothing has: what is told, then and when it is asked
 * again, and what may be done meanwhile. */
static void ask_again(struct pair *pair, bool landed, bool wants_commit)
{
    enum hf_decision decision = HF_ROLLBACK;
    struct hf_key *more;
    const char *name = "c";
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    way_shut(&pair->one.way, RECORDS, REFUSE(HF_DENIED));
    way_fail(&pair->one.way, 0, landed ? LOSE_REPLY : LOSE);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(way_has_failed(&pair->one.way));
    way_open(&pair->one.way);
    /* It may be committed, so nothing is changed or joins it any more. */
    refuses(transfer.keys[0], NULL, HF_KEY_TXN_MISMATCH, HF_MISMATCH);
    IS(HF_UNSURE, hf_txn_acquire(transfer.txn, &name, 1, NULL, 0, &more, &error));
    ask_in_vain(pair, transfer.txn, wants_commit, ON_GET | ON_PUT | ON_CHANGE, HF_DENIED);
    if (wants_commit)
        ask_in_vain(pair, transfer.txn, wants_commit, ON_GET, HF_UNAVAILABLE);
    if (!landed) /* it reads as pending, and the first swap may still be under way */
        ask_in_vain(pair, transfer.txn, wants_commit, ON_PUT | ON_CHANGE, HF_DENIED);
    enum hf_status status = wants_commit ? hf_txn_commit(transfer.txn, &decision, &error)
                                         : hf_txn_rollback(transfer.txn, &decision, &error);
    bool committed = landed || wants_commit;
    ASSERT(status == (committed == wants_commit ? HF_OK : HF_MISMATCH));
    ASSERT(decision == (committed ? HF_COMMIT : HF_ROLLBACK));
    hf_txn_free(transfer.txn);
    if (committed)
        both_read(&pair->two, "new a", "new b");
    else
        both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
}

static void a_commit_without_an_answer_is_asked_for_again(void **state)
{
    struct pair *pair = *state;
    take_no_steps(&pair->one);
    for (int landed = 0; landed < 2; landed++)
        for (int wants_commit = 0; wants_commit < 2; wants_commit++)
            ask_again(pair, landed, wants_commit);
}

static void of_a_purged_record_nobody_knows_what_it_said(void **state)
{
    struct pair *pair = *state;
    char key[KEY_BYTES_MAX + 1];
    enum hf_decision decision = HF_ROLLBACK;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    record_key(view_of(transfer.id), key);
    way_shut(&pair->one.way, RECORDS, REFUSE(HF_DENIED));
    way_fail(&pair->one.way, 0, LOSE_REPLY);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
    ASSERT(way_has_failed(&pair->one.way));
    way_open(&pair->one.way);
    set_late_bound(&pair->one, SPAN_US(0));
    set_late_bound(&pair->two, SPAN_US(0));
    pass_ms(60);
    ASSERT(purge(&pair->two, transfer.id) == PURGE_DONE);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, &decision, &error));
    IS(HF_UNSURE, hf_txn_rollback(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK); /* untouched */
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

static void a_missing_record_is_rolled_back(void **state)
{
    struct pair *pair = *state;
    char key[KEY_BYTES_MAX + 1];
    enum hf_decision decision = HF_COMMIT;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    record_key(view_of(transfer.id), key);
    struct delete_call removal = { .key = view_of(key) };
    must(store_delete(pair->world.truth, &removal), &removal.error, "delete", __LINE__);
    both_read(&pair->two, "old a", "old b");
    IS(HF_MISMATCH, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK);
    hf_txn_free(transfer.txn);
    both_are_free(pair);
    /* A newcomer marks it, so that nobody can begin it late. */
    transfer = transfer_staged(&pair->one, "new a", "new b");
    record_key(view_of(transfer.id), key);
    removal = (struct delete_call){ .key = view_of(key) };
    must(store_delete(pair->world.truth, &removal), &removal.error, "delete", __LINE__);
    transfer_dies(&transfer, &pair->one, &pair->two);
    both_read(&pair->two, "old a", "old b");
    done(key_held(&pair->two, "a"));
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    done(key_held(&pair->two, "b"));
    both_are_free(pair);
}

/* ---- Death --------------------------------------------------------------------------- */

static void a_newcomer_rolls_back_what_is_undecided(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    transfer_dies(&transfer, &pair->one, &pair->two);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_PENDING);
    both_read(&pair->two, "old a", "old b"); /* a reader decides nothing */
    ASSERT(recorded(&pair->two, transfer.id) == TXN_PENDING && is_staged(&pair->world, "a"));
    struct hf_key *key = key_held(&pair->two, "a");
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    ASSERT(!is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    update(key, "newest a");
    done(key);
    both_read(&pair->two, "newest a", "old b");
    ASSERT(!is_staged(&pair->world, "b")); /* the reader has settled what is decided */
    both_are_free(pair);
}

/* The keys of one who lives, and does not renew, are another's when their time is over. */
static void expiry_rolls_back(void **state)
{
    struct pair *pair = *state;
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[2], *other = key_with(&pair->two, "b", 60000, false);
    enum hf_decision decision = HF_COMMIT;
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    options.ttl_ms = TTL_MS;
    options.no_renewal = true;
    MUST(hf_txn_acquire(txn, (const char *[]){ "b", "a" }, 2, &options, 0, keys, &error));
    update(keys[0], "new b");
    update(keys[1], "new a");
    MUST(hf_key_acquire(other, 5000, NULL, &error));
    ASSERT(recorded(&pair->two, hf_txn_id(txn)) == TXN_ROLLBACK);
    enum hf_status status = hf_txn_commit(txn, &decision, &error);
    ASSERT(status == HF_EXPIRED || status == HF_LOST);
    ASSERT(decision == HF_ROLLBACK);
    refuses(keys[1], NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
    hf_txn_free(txn);
    done(other);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
}

/* Decided and then dead: readers see all of it at once, and whoever comes first finishes it. The
 * way stays shut meanwhile, because the client goes on trying to release the leases. */
enum finisher { BY_READERS, BY_NEWCOMERS, BY_PURGE, FINISHERS };

static struct transfer committed_and_dead(struct pair *pair)
{
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    way_shut(&pair->one.way, DOCUMENTS, REFUSE(HF_DENIED));
    commit(transfer.txn);
    ASSERT(is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    ASSERT(!record_says(&pair->world, transfer.id, "\"applied\""));
    both_read(&pair->two, "new a", "new b"); /* under leases that are active */
    ASSERT(is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    hf_txn_free(transfer.txn);
    return transfer;
}

static void whoever_comes_finishes_a_commit(void **state)
{
    struct pair *pair = *state;
    take_no_steps(&pair->one);
    set_late_bound(&pair->two, SPAN_US(0));
    for (enum finisher by = 0; by < FINISHERS; by++) {
        publish(&pair->one, "a", "old a");
        publish(&pair->one, "b", "old b");
        struct transfer transfer = committed_and_dead(pair);
        struct hf_key *other = key_with(&pair->two, "a", 60000, false);
        IS(HF_HELD, hf_key_acquire(other, 0, NULL, &error));
        hf_key_free(other);
        if (by != BY_PURGE)
            for (size_t i = 0; i < 2; i++)
                MUST(hf_break(pair->two.client, transfer.leases[i], "test", "dead", &error));
        if (by == BY_READERS)
            both_read(&pair->two, "new a", "new b");
        else if (by == BY_NEWCOMERS)
            for (int i = 0; i < 2; i++)
                done(key_held(&pair->two, i == 0 ? "b" : "a"));
        pass_ms(by == BY_PURGE ? 60 : 0);
        if (by == BY_PURGE)
            ASSERT(purge(&pair->two, transfer.id) == PURGE_DONE);
        ASSERT(!is_staged(&pair->world, "a") && !is_staged(&pair->world, "b"));
        both_read(&pair->two, "new a", "new b");
        both_are_free(pair);
        way_open(&pair->one.way);
    }
}

/* ---- Order, waits, bounds ------------------------------------------------------------ */

static void keys_come_in_the_order_they_were_asked_for(void **state)
{
    struct pair *pair = *state;
    const char *names[] = { "c", "a", "b", "a" };
    struct hf_key *keys[4], *again[4];
    struct hf_txn *txn = begin(&pair->one);
    MUST(hf_txn_acquire(txn, names, 4, NULL, 0, keys, &error));
    for (size_t i = 0; i < 4; i++)
        ASSERT(strcmp(keys[i]->name, names[i]) == 0);
    ASSERT(keys[1] == keys[3]);
    MUST(hf_txn_acquire(txn, names, 4, NULL, 0, again, &error)); /* it has them */
    ASSERT(memcmp(keys, again, sizeof keys) == 0);
    ASSERT(hf_lock_token(hf_key_lock(keys[1])) > 0);
    hf_txn_free(txn);
}

static void who_is_out_of_order_does_not_wait(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    const char *a = "a", *b = "b";
    struct hf_txn *one = begin(&pair->one), *two = begin(&pair->two);
    take_one(one, "b");
    take_one(two, "a");
    struct mono_time start = now();
    IS(HF_HELD, hf_txn_acquire(one, &a, 1, NULL, 60000, keys, &error));
    ASSERT(ms_since(start) < 5000);
    ASSERT(strstr(error.why, "a"));
    start = now();
    IS(HF_TIMEOUT, hf_txn_acquire(two, &b, 1, NULL, 100, keys, &error)); /* in order: waits */
    ASSERT(ms_since(start) >= 90 && ms_since(start) < 5000);
    /* Free at once, it may be taken out of order; and what it had it still has. */
    take_one(one, "0");
    commit(one);
    take_one(two, "b");
    commit(two);
    hf_txn_free(one);
    hf_txn_free(two);
    both_are_free(pair);
}

static void all_or_none_are_taken(void **state)
{
    struct pair *pair = *state;
    struct hf_key *held = key_held(&pair->two, "b"), *keys[3];
    struct hf_txn *txn = begin(&pair->one);
    take_one(txn, "0");
    IS(HF_TIMEOUT,
       hf_txn_acquire(txn, (const char *[]){ "c", "b", "a" }, 3, NULL, 50, keys, &error));
    ASSERT(is_staged(&pair->world, "0"));
    done(held);
    both_are_free(pair);
    MUST(hf_txn_acquire(txn, (const char *[]){ "c", "b", "a" }, 3, NULL, 0, keys, &error));
    commit(txn);
    hf_txn_free(txn);
    both_are_free(pair);
}

/* Two tasks move something to and fro, each taking the keys in its own order. */
struct mover {
    struct peer *peer;
    const char *from, *to;
    struct env_task *task;
    int moved;
};

#define MOVES 15

static int64_t amount(struct peer *peer, const char *name)
{
    char text[32] = "";
    void *data;
    size_t size;
    MUST(hf_key_get(peer->client, name, sizeof text - 1, &data, &size, NULL, &error));
    memcpy(text, data, size);
    hf_free(data);
    return strtoll(text, NULL, 10);
}

static bool move_one(struct mover *mover)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_error why;
    struct hf_key *keys[2];
    struct hf_txn *txn;
    char text[2][32];
    void *data;
    size_t size;
    options.poll_ms = 1;
    if (hf_txn_begin(mover->peer->client, NULL, &txn, &why) != HF_OK)
        return false;
    bool done_so = hf_txn_acquire(txn, (const char *[]){ mover->from, mover->to }, 2, &options,
                                  10000, keys, &why) == HF_OK;
    for (int i = 0; i < 2 && done_so; i++) {
        done_so = hf_key_get(mover->peer->client, i == 0 ? mover->from : mover->to, 30, &data,
                             &size, NULL, &why) == HF_OK;
        if (!done_so)
            break;
        int64_t value = strtoll(data, NULL, 10) + (i == 0 ? -1 : 1);
        hf_free(data);
        snprintf(text[i], sizeof text[i], "%lld ", (long long)value);
        done_so = hf_key_update(keys[i], text[i], strlen(text[i]), NULL, NULL, &why) == HF_OK;
    }
    done_so = done_so && hf_txn_commit(txn, NULL, &why) == HF_OK;
    hf_txn_free(txn);
    return done_so;
}

static void move_all(void *argument)
{
    struct mover *mover = argument;
    for (int i = 0; i < MOVES; i++)
        mover->moved += move_one(mover);
}

static void two_who_cross_do_not_wait_for_each_other(void **state)
{
    struct pair *pair = *state;
    struct mover movers[] = { { .peer = &pair->one, .from = "a", .to = "b" },
                              { .peer = &pair->two, .from = "b", .to = "a" } };
    publish(&pair->one, "a", "100 ");
    publish(&pair->one, "b", "200 ");
    for (size_t i = 0; i < 2; i++)
        MUST(env_task_start(env_real(), move_all, &movers[i], &movers[i].task, &error));
    for (size_t i = 0; i < 2; i++)
        env_task_join(env_real(), movers[i].task);
    ASSERT(movers[0].moved == MOVES && movers[1].moved == MOVES);
    ASSERT(amount(&pair->one, "a") == 100 && amount(&pair->one, "b") == 200);
    ASSERT(reads(&pair->two, "a", "100 ").version == 2 * MOVES + 1);
}

static void the_number_of_keys_has_a_bound(void **state)
{
    struct pair *pair = *state;
    char text[TXN_KEYS_MAX + 1][8];
    const char *names[TXN_KEYS_MAX + 1], *bad = "A b";
    struct hf_key *keys[TXN_KEYS_MAX + 1], *more;
    for (size_t i = 0; i <= TXN_KEYS_MAX; i++) {
        snprintf(text[i], sizeof text[i], "k%03zu", i);
        names[i] = text[i];
    }
    struct hf_txn *txn = begin(&pair->one);
    IS(HF_INVALID, hf_txn_acquire(txn, names, TXN_KEYS_MAX + 1, NULL, 0, keys, &error));
    IS(HF_INVALID, hf_txn_acquire(txn, names, 0, NULL, 0, keys, &error));
    IS(HF_INVALID, hf_txn_acquire(txn, names, 1, NULL, -1, keys, &error));
    IS(HF_INVALID, hf_txn_acquire(txn, &bad, 1, NULL, 0, keys, &error));
    ASSERT(objects_below(&pair->world, DOCUMENTS) == 0);
    MUST(hf_txn_acquire(txn, names, TXN_KEYS_MAX, NULL, 0, keys, &error));
    IS(HF_INVALID, hf_txn_acquire(txn, &names[TXN_KEYS_MAX], 1, NULL, 0, &more, &error));
    update(keys[TXN_KEYS_MAX - 1], "last");
    update(keys[0], "first");
    commit(txn);
    reads(&pair->two, names[0], "first");
    reads(&pair->two, names[TXN_KEYS_MAX - 1], "last");
    hf_txn_free(txn);
}

/* ---- What is refused ----------------------------------------------------------------- */

static void a_taken_key_is_changed_by_its_transaction_alone(void **state)
{
    struct pair *pair = *state;
    struct hf_key *stranger;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    MUST(hf_key_adopt(pair->two.client, transfer.leases[0], NULL, &stranger, &error));
    refuses(stranger, NULL, HF_KEY_TXN_MISMATCH, HF_MISMATCH);
    hf_key_detach(stranger);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

static void what_is_decided_takes_no_more(void **state)
{
    struct pair *pair = *state;
    const char *name = "c";
    struct hf_key *more;
    before_a_and_b(pair);
    for (int i = 0; i < 2; i++) {
        struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
        if (i == 0)
            commit(transfer.txn);
        else
            roll_back(transfer.txn);
        IS(HF_MISMATCH, hf_txn_acquire(transfer.txn, &name, 1, NULL, 0, &more, &error));
        IS(HF_MISMATCH, hf_key_acquire(transfer.keys[0], 0, NULL, &error));
        IS(HF_DENIED, hf_key_update(transfer.keys[0], "x", 1, NULL, NULL, &error));
        ASSERT(!is_staged(&pair->world, "a"));
        hf_txn_free(transfer.txn);
    }
    both_read(&pair->two, "new a", "new b");
}

static void shut_documents(void *way)
{
    way_shut(way, DOCUMENTS, REFUSE(HF_DENIED));
}

/* The next write has no answer, and nobody can ask for it. A read before it (of a document that was
 * last seen a while ago) is let through. */
static void next_change_has_no_answer(struct script *way)
{
    script_rule(way, .name = "fail", .on = ON_PUT | ON_CHANGE, .times = 1, .fate = LOSE_REPLY,
                .before = shut_documents, .argument = way);
}

static void a_change_without_an_answer_is_not_committed(void **state)
{
    struct pair *pair = *state;
    take_no_steps(&pair->one);
    before_a_and_b(pair);
    for (int again = 0; again < 2; again++) {
        struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
        next_change_has_no_answer(&pair->one.way);
        IS(HF_UNSURE, hf_key_update(transfer.keys[0], "newer a", 7, NULL, NULL, &error));
        ASSERT(way_has_failed(&pair->one.way));
        way_open(&pair->one.way);
        IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
        ASSERT(recorded(&pair->two, transfer.id) == TXN_PENDING);
        both_read(&pair->two, again ? "newest a" : "old a", again ? "new b" : "old b");
        if (again)
            roll_back(transfer.txn);
        else
            update(transfer.keys[0], "newest a");
        if (!again)
            commit(transfer.txn);
        hf_txn_free(transfer.txn);
        both_read(&pair->two, "newest a", "new b");
        both_are_free(pair);
    }
}

static void a_record_of_a_later_version_is_left_alone(void **state)
{
    struct pair *pair = *state;
    char key[KEY_BYTES_MAX + 1], id[HF_TXN_ID_SIZE + 1];
    struct hf_key *other = key_with(&pair->two, "a", 60000, false);
    enum purge_result result;
    void *data;
    size_t size;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    memcpy(id, transfer.id, sizeof id);
    transfer_dies(&transfer, &pair->one, &pair->two);
    record_key(view_of(id), key);
    world_write(&pair->world, key, VIEW("{\"format\":\"holdfast.txn/9\",\"vote\":1}"));
    IS(HF_UNSUPPORTED, hf_key_acquire(other, 0, NULL, &error));
    ASSERT(strstr(error.why, "holdfast.txn/9"));
    IS(HF_UNSUPPORTED, hf_key_get(pair->two.client, "a", 100, &data, &size, NULL, &error));
    IS(HF_UNSUPPORTED, txn_purge(pair->two.client, view_of(id), &result, &error));
    ASSERT(is_staged(&pair->world, "a") && record_says(&pair->world, id, "\"vote\":1"));
    /* Damaged, or of another transaction, it says nothing either. */
    world_write(&pair->world, key, VIEW("{\"format\":\"holdfast.txn/1\",\"sta"));
    IS(HF_CORRUPT, hf_key_acquire(other, 0, NULL, &error));
    world_write(
        &pair->world, key,
        VIEW("{\"format\":\"holdfast.txn/1\",\"id\":\"00112233445566778899aabbccddeeff\","
             "\"state\":\"commit\"}"));
    IS(HF_CORRUPT, hf_key_acquire(other, 0, NULL, &error));
    ASSERT(is_staged(&pair->world, "a"));
    hf_key_free(other);
}

static void ids_are_checked(void **state)
{
    struct pair *pair = *state;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_txn *txn;
    enum txn_state told;
    options.id = "17";
    IS(HF_INVALID, hf_txn_begin(pair->one.client, &options, &txn, &error));
    IS(HF_INVALID, txn_decide(pair->one.client, VIEW("x"), HF_COMMIT, &told, &error));
    options.id = "00112233445566778899aabbccddeeff";
    IS(HF_NOT_FOUND, hf_txn_begin(pair->one.client, &options, &txn, &error));
    IS(HF_NOT_FOUND,
       txn_decide(pair->one.client, view_of(options.id), HF_ROLLBACK, &told, &error));
    ASSERT(objects_below(&pair->world, ".txn-decisions/") == 0);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    commit(transfer.txn);
    options.id = transfer.id;
    IS(HF_MISMATCH, hf_txn_begin(pair->two.client, &options, &txn, &error));
    hf_txn_free(transfer.txn);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PAIR("a commit publishes all keys at once", a_commit_publishes_all),
        PAIR("a rollback publishes nothing", a_rollback_publishes_nothing),
        PAIR("the release of one key decides all: it commits unless told to roll back",
             the_release_of_a_key_decides_all),
        PAIR("freed undecided, it is rolled back", freed_undecided_it_is_rolled_back),
        PAIR("large states leave no bodies behind", states_of_any_size_leave_nothing),
        PAIR("what is only read is locked too, and keeps its version",
             what_is_only_read_is_locked_too),
        PAIR("the entry stands before the record, and that before a key is taken",
             the_record_stands_before_a_key_is_taken),
        PAIR("who asks for the other decision is told the recorded one",
             the_other_decision_is_told),
        PAIR("a commit without an answer is asked for again, and shuts everything meanwhile",
             a_commit_without_an_answer_is_asked_for_again),
        PAIR("of a purged record nobody knows what it said",
             of_a_purged_record_nobody_knows_what_it_said),
        PAIR("a missing record is rolled back, and a newcomer marks it so",
             a_missing_record_is_rolled_back),
        PAIR("a newcomer rolls back what the dead have left undecided",
             a_newcomer_rolls_back_what_is_undecided),
        PAIR("when a lease is over the newcomer wins", expiry_rolls_back),
        PAIR("a commit is seen at once, and finished by readers, newcomers or the purge",
             whoever_comes_finishes_a_commit),
        PAIR("keys come back in the order in which they were asked for, once each",
             keys_come_in_the_order_they_were_asked_for),
        PAIR("who is out of order does not wait, and waits have deadlines",
             who_is_out_of_order_does_not_wait),
        PAIR("all keys are taken, or none", all_or_none_are_taken),
        PAIR("two who cross do not wait for each other",
             two_who_cross_do_not_wait_for_each_other),
        PAIR("the number of keys has a bound", the_number_of_keys_has_a_bound),
        PAIR("a key that is taken is changed by its transaction alone",
             a_taken_key_is_changed_by_its_transaction_alone),
        PAIR("what is decided takes no further key and no change",
             what_is_decided_takes_no_more),
        PAIR("a change without an answer is not committed",
             a_change_without_an_answer_is_not_committed),
        PAIR("a record that cannot be read is left alone, with its stages",
             a_record_of_a_later_version_is_left_alone),
        PAIR("ids are checked", ids_are_checked),
    };
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
