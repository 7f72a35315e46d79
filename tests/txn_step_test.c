/* SPDX-License-Identifier: Apache-2.0 */
/* txn_step_test.c KIND: transactions on a store that changes several objects in one step: how few
 * transactions of the database they are, and that a step which is refused, or gets no reply, leaves
 * all or nothing. KIND is sqlite. */
#include "txn_kit.h"

#include "base/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hf_error error;

/* ---- Commits of the database ----------------------------------------------------------- */

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
           bytes[3];
}

/* How many transactions the log of the database contains. The last frame of each has the size of
 * the database. The test writes too little for a checkpoint. */
static size_t commits(struct pair *pair)
{
    char path[512];
    unsigned char head[32];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/locks.db-wal", pair->world.folder);
    FILE *log = fopen(path, "rb");
    ASSERT(log && fread(head, sizeof head, 1, log) == 1);
    long page = (long)number_at(head + 8);
    unsigned char frame[24];
    while (fread(frame, sizeof frame, 1, log) == 1) {
        if (memcmp(frame + 8, head + 16, 8) != 0) /* the salt of an earlier log */
            break;
        count += number_at(frame + 4) > 0;
        ASSERT(fseek(log, page, SEEK_CUR) == 0);
    }
    fclose(log);
    return count;
}

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

static void few_commits(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    size_t first = commits(pair);
    struct hf_txn *txn = begin(&pair->one);
    ASSERT(commits(pair) == first);
    struct hf_key *keys[2];
    take_two(txn, "b", "a", 60000, keys);
    ASSERT(commits(pair) == first + 1);
    ASSERT(recorded(&pair->two, hf_txn_id(txn)) == TXN_PENDING);
    update(keys[0], "new b");
    update(keys[1], "new a");
    update(keys[1], "newer a");
    ASSERT(commits(pair) == first + 1);
    both_read(&pair->two, "old a", "old b");
    commit(txn);
    ASSERT(commits(pair) == first + 2);
    both_read(&pair->two, "newer a", "new b");
    ASSERT(record_says(&pair->world, hf_txn_id(txn), "\"applied\":true"));
    ASSERT(record_says(&pair->world, hf_txn_id(txn), "\"default/a\""));
    hf_txn_free(txn);
    ASSERT(commits(pair) == first + 2);
    both_are_free(pair);
}

/* A caller may know only one key at a time. */
static void one_after_the_other(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    before_a_and_b(pair);
    size_t first = commits(pair);
    struct hf_txn *txn = begin(&pair->one);
    MUST(hf_txn_acquire(txn, (const char *[]){ "a" }, 1, NULL, 60000, &keys[0], &error));
    update(keys[0], "new a");
    ASSERT(commits(pair) == first + 1);
    MUST(hf_txn_acquire(txn, (const char *[]){ "b" }, 1, NULL, 60000, &keys[1], &error));
    update(keys[1], "new b");
    ASSERT(commits(pair) == first + 2);
    commit(txn);
    hf_txn_free(txn);
    ASSERT(commits(pair) == first + 3);
    both_read(&pair->two, "new a", "new b");
}

static bool asked_nothing(struct pair *pair, struct hf_key *key)
{
    script_counts(&pair->one.way);
    update(key, "new a");
    struct counts asked = script_counts(&pair->one.way);
    ASSERT(asked.puts == 0);
    return asked.gets == 0 && asked.looks == 0;
}

/* What was read or written a few milliseconds ago counts as current. The machine may be so slow
 * that it is longer ago. */
static void a_change_asks_nothing(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    int fast = 0;
    before_a_and_b(pair);
    for (int i = 0; i < 50 && fast == 0; i++) {
        struct hf_txn *txn = begin(&pair->one);
        take_two(txn, "a", "b", 60000, keys);
        fast += asked_nothing(pair, keys[0]) && asked_nothing(pair, keys[1]);
        pass_ms(20);
        ASSERT(!asked_nothing(pair, keys[0]));
        commit(txn);
        hf_txn_free(txn);
    }
    ASSERT(fast == 1);
}

/* A process that knows the id can join the transaction, and decide it. */
static void the_id_is_known_with_the_record(void **state)
{
    struct pair *pair = *state;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_txn *joined;
    enum hf_decision decision;
    struct hf_key *keys[2];
    before_a_and_b(pair);
    size_t first = commits(pair);
    struct hf_txn *txn = begin(&pair->one);
    options.id = hf_txn_id(txn);
    ASSERT(commits(pair) == first + 1);
    ASSERT(recorded(&pair->two, hf_txn_id(txn)) == TXN_PENDING && commits(pair) == first + 1);
    MUST(hf_txn_begin(pair->two.client, &options, &joined, &error));
    hf_txn_free(joined);
    MUST(hf_txn_decide(pair->two.client, options.id, HF_ROLLBACK, &decision, &error));
    take_two(txn, "a", "b", 60000, keys);
    IS(HF_MISMATCH, hf_txn_commit(txn, &decision, &error));
    hf_txn_free(txn);
    both_are_free(pair);
}

static void without_a_key_nothing_is_written(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    before_a_and_b(pair);
    struct hf_key *held = key_held(&pair->two, "b");
    size_t first = commits(pair);
    struct hf_txn *txn = begin(&pair->one);
    IS(HF_HELD, hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, NULL, 0, keys, &error));
    MUST(hf_txn_rollback(txn, NULL, &error));
    IS(HF_MISMATCH, hf_txn_acquire(txn, (const char *[]){ "a" }, 1, NULL, 0, keys, &error));
    ASSERT(hf_txn_id(txn)[0] != '\0');
    hf_txn_free(txn);
    hf_txn_free(begin(&pair->one));
    ASSERT(commits(pair) == first);
    ASSERT(objects_below(&pair->world, ".txn-decisions/") == 0);
    done(held);
    txn = begin(&pair->one);
    commit(txn); /* of nothing, which is recorded */
    ASSERT(record_says(&pair->world, hf_txn_id(txn), "\"commit\""));
    hf_txn_free(txn);
}

static void shut_store(void *argument)
{
    struct pair *pair = argument;
    script_rule(&pair->one.way, .name = "shut", .fate = REFUSE(HF_DENIED));
}

/* The first write, which is the step, has this fate, and nothing is answered after it. What was
 * read a while ago may be read again before. */
static void script_beginning(struct pair *pair, struct fate fate)
{
    script_rule(&pair->one.way, .name = "step", .on = ON_PUT | ON_CHANGE, .times = 1,
                .fate = fate, .after = shut_store, .argument = pair);
}

/* The record is written only in the step, so a process that ends here leaves all or nothing. The
 * grant is undone in the background or, if the store still refused that, ends with its ttl. */
static void lose_beginning(struct pair *pair, struct fate fate)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *keys[2];
    options.ttl_ms = 3000;
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    script_beginning(pair, fate);
    IS(HF_UNSURE,
       hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, &options, 60000, keys, &error));
    script_reset(&pair->one.way);
    hf_txn_free(txn);
    both_read(&pair->two, "old a", "old b");
    struct hf_key *a = key_with(&pair->two, "a", 60000, false);
    struct hf_key *b = key_with(&pair->two, "b", 60000, false);
    MUST(hf_key_acquire(a, 60000, NULL, &error));
    MUST(hf_key_acquire(b, 60000, NULL, &error));
    done(a);
    done(b);
    both_are_free(pair);
}

static void a_lost_beginning(void **state)
{
    lose_beginning(*state, LOSE);
}

static void a_beginning_without_a_reply(void **state)
{
    lose_beginning(*state, LOSE_REPLY);
}

/* The step was made, but not answered, and another client has rolled the transaction back since. */
static void decided_before_it_is_known(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    enum hf_decision told = HF_COMMIT;
    enum txn_state decided;
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    script_beginning(pair, LOSE_REPLY);
    IS(HF_UNSURE,
       hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, NULL, 60000, keys, &error));
    script_reset(&pair->one.way);
    MUST(txn_decide(pair->two.client, view_of(txn->id), HF_ROLLBACK, &decided, &error));
    IS(HF_MISMATCH, hf_txn_commit(txn, &told, &error));
    ASSERT(told == HF_ROLLBACK);
    hf_txn_free(txn);
    both_read(&pair->two, "old a", "old b");
}

static void ten_keys(void **state)
{
    struct pair *pair = *state;
    char names[10][8];
    const char *list[10];
    struct hf_key *keys[10];
    for (size_t i = 0; i < 10; i++) {
        snprintf(names[i], sizeof names[i], "k%zu", i);
        list[i] = names[i];
        publish(&pair->one, names[i], "old");
    }
    size_t first = commits(pair);
    struct hf_txn *txn = begin(&pair->one);
    MUST(hf_txn_acquire(txn, list, 10, NULL, 0, keys, &error));
    for (size_t i = 0; i < 10; i++)
        update(keys[i], "new");
    commit(txn);
    ASSERT(commits(pair) == first + 2);
    hf_txn_free(txn);
    for (size_t i = 0; i < 10; i++)
        reads(&pair->two, names[i], "new");
}

/* ---- All or none ----------------------------------------------------------------------- */

static void one_is_held(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    before_a_and_b(pair);
    struct hf_key *held = key_held(&pair->two, "b");
    struct hf_txn *txn = begin(&pair->one);
    char *before =
        world_text(&pair->world, LAYOUT_NAMESPACE_DEFAULT LAYOUT_META_FOLDER "a.json");
    size_t first = commits(pair);
    IS(HF_HELD, hf_txn_acquire(txn, (const char *[]){ "a", "b" }, 2, NULL, 0, keys, &error));
    ASSERT(strncmp(error.why, "b:", 2) == 0);
    char *after =
        world_text(&pair->world, LAYOUT_NAMESPACE_DEFAULT LAYOUT_META_FOLDER "a.json");
    ASSERT(strcmp(before, after) == 0 && commits(pair) == first);
    free(before);
    free(after);
    done(held);
    take_two(txn, "a", "b", 60000, keys);
    update(keys[0], "new a");
    commit(txn);
    hf_txn_free(txn);
    both_read(&pair->two, "new a", "old b");
}

static void a_refused_step(void **state)
{
    struct pair *pair = *state;
    for (unsigned skip = 0; skip < 3; skip++) {
        script_reset(&pair->one.way);
        publish(&pair->one, "a", "old a");
        publish(&pair->one, "b", "old b");
        script_rule(&pair->one.way, .name = "step", .on = ON_CHANGE | ON_FIRST, .skip = skip,
                    .times = 1, .fate = REFUSE(HF_UNAVAILABLE));
        struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
        commit(transfer.txn);
        ASSERT(script_met(&pair->one.way, "step") == 1);
        ASSERT(record_says(&pair->world, transfer.id, "\"applied\":true"));
        hf_txn_free(transfer.txn);
        both_read(&pair->two, "new a", "new b");
        both_are_free(pair);
    }
}

/* ---- Without a reply ------------------------------------------------------------------- */

/* The step of the commit meets this fate. With `shut`, nobody can then ask what became of it. */
static void script_commit(struct pair *pair, struct fate fate, bool shut)
{
    script_rule(&pair->one.way, .name = "commit", .part = "/m/", .times = shut ? 0 : 1,
                .fates = { fate }, .fate = shut ? REFUSE(HF_DENIED) : fate);
}

/* As long as the store can be asked, the caller need not know. */
static void a_lost_step_is_found_or_made_again(void **state)
{
    struct pair *pair = *state;
    for (int made = 0; made < 2; made++) {
        publish(&pair->one, "a", "old a");
        publish(&pair->one, "b", "old b");
        struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
        script_commit(pair, made ? LOSE_REPLY : LOSE, /* shut */ false);
        commit(transfer.txn);
        ASSERT(script_met(&pair->one.way, "commit") == 1);
        script_reset(&pair->one.way);
        hf_txn_free(transfer.txn);
        both_read(&pair->two, "new a", "new b");
        both_are_free(pair);
    }
}

static void a_commit_that_was_made(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    script_commit(pair, LOSE_REPLY, /* shut */ true);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
    script_reset(&pair->one.way);
    /* The leases may be over, so the handles do not claim to hold them. */
    IS(HF_NOT_FOUND, hf_lock_check(hf_key_lock(transfer.keys[0]), &error));
    both_read(&pair->two, "new a", "new b");
    both_are_free(pair);
    commit(transfer.txn);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

static void a_commit_that_was_not_made(void **state)
{
    struct pair *pair = *state;
    enum hf_decision decision = HF_COMMIT;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    script_commit(pair, LOSE, /* shut */ true);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
    script_reset(&pair->one.way);
    IS(HF_LOST, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair); /* at once, not only when the leases have expired */
    hf_txn_free(transfer.txn);
}

/* Its handle is freed before anybody can ask. */
static void freed_in_doubt(void **state)
{
    struct pair *pair = *state;
    for (int made = 0; made < 2; made++) {
        publish(&pair->one, "a", "old a");
        publish(&pair->one, "b", "old b");
        struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
        script_commit(pair, made ? LOSE_REPLY : LOSE, /* shut */ true);
        IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
        hf_txn_free(transfer.txn);
        script_reset(&pair->one.way);
        struct mono_time start = now();
        struct hf_key *a = key_with(&pair->one, "a", 60000, false);
        struct hf_key *b = key_with(&pair->two, "b", 60000, false);
        MUST(hf_key_acquire(a, 60000, NULL, &error));
        MUST(hf_key_acquire(b, 60000, NULL, &error));
        ASSERT(ms_since(start) < 5000);
        both_read(&pair->two, made ? "new a" : "old a", made ? "new b" : "old b");
        done(a);
        done(b);
        both_are_free(pair);
    }
}

static void a_rollback_after_a_commit(void **state)
{
    struct pair *pair = *state;
    enum hf_decision decision = HF_ROLLBACK;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    script_commit(pair, LOSE_REPLY, /* shut */ true);
    IS(HF_UNSURE, hf_txn_commit(transfer.txn, NULL, &error));
    script_reset(&pair->one.way);
    IS(HF_MISMATCH, hf_txn_rollback(transfer.txn, &decision, &error));
    ASSERT(decision == HF_COMMIT);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "new a", "new b");
}

static void an_acquire_without_a_reply(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    before_a_and_b(pair);
    for (int made = 0; made < 2; made++) {
        struct hf_txn *txn = begin(&pair->one);
        script_rule(&pair->one.way, .name = "acquire", .on = ON_CHANGE | ON_FIRST, .times = 1,
                    .fate = made ? LOSE_REPLY : LOSE);
        take_two(txn, "a", "b", 60000, keys); /* it is undone, and each is asked for */
        ASSERT(script_met(&pair->one.way, "acquire") == 1);
        script_reset(&pair->one.way);
        update(keys[0], made ? "newer a" : "new a");
        commit(txn);
        hf_txn_free(txn);
        both_read(&pair->two, made ? "newer a" : "new a", "old b");
        both_are_free(pair);
    }
}

/* ---- Changes that are kept ------------------------------------------------------------- */

static void refused_at_once(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key_info info = HF_KEY_INFO;
    char etag[HF_KEY_ETAG_SIZE + 1];
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    take_two(txn, "a", "b", 60000, keys);
    when.version_set = true;
    when.version = 7;
    refuses(keys[0], &when, HF_KEY_VERSION_CONFLICT, HF_CONFLICT);
    when.version = 1;
    MUST(hf_key_update(keys[0], "new a", 5, &when, &info, &error));
    ASSERT(info.version == 2);
    refuses(keys[0], &when, HF_KEY_VERSION_CONFLICT, HF_CONFLICT);
    when.version_set = false;
    snprintf(etag, sizeof etag, "%s", info.etag); /* of what is kept */
    when.etag = etag;
    MUST(hf_key_update(keys[0], "newer a", 7, &when, &info, &error));
    take_away(&pair->two, keys[1]);
    pass_ms(20); /* what was just read counts as current */
    refuses(keys[1], NULL, HF_KEY_LEASE_EXPIRED, HF_EXPIRED);
    commit(txn); /* the key is still taken for it, because nobody has rolled it back */
    hf_txn_free(txn);
    both_read(&pair->two, "newer a", "old b");
    both_are_free(pair);
}

static void large_and_small(void **state)
{
    struct pair *pair = *state;
    struct hf_key *keys[2];
    char *large = bytes_of(STATE_INLINE_MAX + 1, 3);
    before_a_and_b(pair);
    struct hf_txn *txn = begin(&pair->one);
    take_two(txn, "a", "b", 60000, keys);
    MUST(hf_key_update(keys[0], large, STATE_INLINE_MAX + 1, NULL, NULL, &error));
    update(keys[0], "small"); /* over a large one */
    update(keys[1], "small");
    MUST(hf_key_update(keys[1], large, STATE_INLINE_MAX + 1, NULL, NULL, &error));
    commit(txn);
    hf_txn_free(txn);
    free(large);
    ASSERT(reads(&pair->two, "a", "small").version == 2);
    ASSERT(bodies(&pair->world, "a") == 0 && bodies(&pair->world, "b") == 1);
    txn = begin(&pair->one);
    take_two(txn, "a", "b", 60000, keys);
    MUST(hf_key_remove(keys[0], NULL, NULL, &error));
    update(keys[1], "small");
    commit(txn);
    hf_txn_free(txn);
    both_read(&pair->two, NULL, "small");
    ASSERT(bodies(&pair->world, "b") == 0);
}

/* The lease does not end with the transaction, so the keys are settled one by one. */
static void acquired_by_the_caller_too(void **state)
{
    struct pair *pair = *state;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    MUST(hf_lock_acquire(hf_key_lock(transfer.keys[0]), 0, &error));
    commit(transfer.txn);
    both_read(&pair->two, "new a", "new b");
    MUST(hf_lock_release(hf_key_lock(transfer.keys[0]), &error));
    hf_txn_free(transfer.txn);
    both_are_free(pair);
}

static void rolled_back_by_another(void **state)
{
    struct pair *pair = *state;
    enum hf_decision decision;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    MUST(hf_txn_decide(pair->two.client, transfer.id, HF_ROLLBACK, &decision, &error));
    IS(HF_MISMATCH, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
}

/* The record alone decides, though every stage and lease is still there. */
static void rolled_back_and_not_settled(void **state)
{
    struct pair *pair = *state;
    enum hf_decision decision;
    before_a_and_b(pair);
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    way_shut(&pair->two.way, LAYOUT_META_FOLDER, REFUSE(HF_DENIED));
    hf_txn_decide(pair->two.client, transfer.id, HF_ROLLBACK, &decision, &error);
    way_open(&pair->two.way);
    ASSERT(recorded(&pair->two, transfer.id) == TXN_ROLLBACK);
    ASSERT(is_staged(&pair->world, "a") && is_staged(&pair->world, "b"));
    IS(HF_MISMATCH, hf_txn_commit(transfer.txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK);
    hf_txn_free(transfer.txn);
    both_read(&pair->two, "old a", "old b");
    both_are_free(pair);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a transaction over two free keys is two transactions of the database",
             few_commits),
        PAIR("and so is one over ten", ten_keys),
        PAIR("a commit says how others have decided before it knew that it had begun",
             decided_before_it_is_known),
        PAIR("keys that are acquired one after the other are one more each",
             one_after_the_other),
        PAIR("a small change asks nothing of the store just after its key was acquired",
             a_change_asks_nothing),
        PAIR("whoever knows the id of a transaction finds its record",
             the_id_is_known_with_the_record),
        PAIR("a transaction that ends without a key writes nothing",
             without_a_key_nothing_is_written),
        PAIR("one whose beginning got no reply has begun with its keys, or not at all",
             a_lost_beginning),
        PAIR("and so has one that was made", a_beginning_without_a_reply),
        PAIR("if one key is held, none is acquired, and nothing is written", one_is_held),
        PAIR("what a step cannot do is done as on other stores", a_refused_step),
        PAIR("a commit that got no reply is found, or made again",
             a_lost_step_is_found_or_made_again),
        PAIR("if nobody can ask, a commit that was made is found by the next call",
             a_commit_that_was_made),
        PAIR("one that was not made is rolled back by the next call",
             a_commit_that_was_not_made),
        PAIR("a transaction that is freed in doubt delays nobody", freed_in_doubt),
        PAIR("a rollback finds that the commit was made", a_rollback_after_a_commit),
        PAIR("an acquire that got no reply is undone, made or not", an_acquire_without_a_reply),
        PAIR("a change is refused at once, as if it were staged", refused_at_once),
        PAIR("the last change counts, small or large, and no body is left", large_and_small),
        PAIR("a lease that its caller acquired too outlives the commit",
             acquired_by_the_caller_too),
        PAIR("a transaction that another process rolled back is not committed",
             rolled_back_by_another),
        PAIR("nor one that was rolled back and not settled yet", rolled_back_and_not_settled),
    };
    return cmocka_run_group_tests_name("txn_step", tests, NULL, NULL);
}
